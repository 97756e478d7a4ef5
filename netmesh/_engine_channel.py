"""The channel of an engine's link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from netmesh import _records
from netmesh.errors import (
    ChannelClosedError,
    ChannelError,
    EncodeError,
    LimitReached,
    MessageTooLargeError,
    MessageTypeError,
    NetmeshError,
    NotFoundError,
    StateError,
    StreamError,
    WindowFullError,
)
from netmesh.records import ChannelRecord, Compression, OutstandingMessage, SentMessage

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh._core import EngineCore

__all__ = ["STREAM_COMPRESSION", "EngineChannel"]

STREAM_COMPRESSION = {
    "off": Compression.OFF,
    "when_smaller": Compression.WHEN_SMALLER,
    "automatic": Compression.AUTOMATIC,
}


def channel_failure(error: NetmeshError | ValueError, size: int, mdu: int) -> ChannelError | None:
    """What an error of the core about a channel means; None when it is about something else."""
    if isinstance(error, LimitReached):
        return WindowFullError("the window of the channel is full")
    if isinstance(error, EncodeError) and error.reason == "TOO_LARGE":
        return MessageTooLargeError(
            f"a message of {size} bytes; the channel takes {mdu}", size_bytes=size, mdu=mdu
        )
    if isinstance(error, StateError):
        return ChannelClosedError("the link has no open channel")
    if getattr(error, "reason", "") == "RESERVED":
        return MessageTypeError("types from 0xF000 on are reserved", reason="RESERVED")
    return None


@final
class EngineChannel:
    """The channel of an engine's link: messages in sequence, and streams of bytes over them.

    What comes is told as :class:`netmesh.events.ChannelMessage` and
    :class:`netmesh.events.StreamReceived`.
    """

    __slots__ = ("_core", "link")

    link: int
    """The link's number, which events name."""

    def __init__(self, core: EngineCore, link: int) -> None:
        self._core = core
        self.link = link

    def __repr__(self) -> str:
        return f"<EngineChannel of link {self.link}>"

    @property
    def info(self) -> ChannelRecord:
        """All about it, also for a minute after its link closed (then NotFoundError)."""
        return _records.channel(self._core.channel_info(self.link))

    @property
    def outstanding(self) -> list[OutstandingMessage]:
        """The messages that are sent and not proven, oldest first."""
        return [_records.outstanding(core) for core in self._core.channel_sent(self.link)]

    @property
    def ahead(self) -> list[int]:
        """Sequence numbers that came before ones that are missing, nearest first."""
        return self._core.channel_ahead(self.link)

    def register(self, msgtype: int) -> None:
        """Takes messages of a type; for a channel that was opened without ``all_types``.

        Raises MessageTypeError for a reserved type, or above 1,024 types; ChannelClosedError.
        """
        try:
            self._core.channel_register(self.link, msgtype)
        except LimitReached as error:
            raise MessageTypeError(
                "too many types are registered", reason="LIMIT", msgtype=msgtype
            ) from error
        except NetmeshError as error:
            raise self._meaning(error, 0, msgtype) from error

    def send(self, msgtype: int, payload: Buffer) -> SentMessage:
        """Sends a message; the operation ends with :class:`netmesh.events.ChannelSent`.

        Raises WindowFullError (a ChannelReady follows), MessageTooLargeError above
        ``info.mdu``, MessageTypeError for a reserved type, ChannelClosedError.
        """
        try:
            op, sequence = self._core.channel_send(self.link, msgtype, payload)
        except NetmeshError as error:
            raise self._meaning(error, memoryview(payload).nbytes, msgtype) from error
        return SentMessage(op, sequence)

    def post(self, msgtype: int, payload: Buffer) -> int:
        """The same for a message that waits for the window, in order; the operation.

        At most 256 wait (WindowFullError).
        """
        try:
            return self._core.channel_post(self.link, msgtype, payload)
        except NetmeshError as error:
            raise self._meaning(error, memoryview(payload).nbytes, msgtype) from error

    def pause(self, on: bool = True) -> None:
        """Takes nothing new that comes, and proves nothing: the peer tries again, or goes on."""
        try:
            self._core.channel_pause(self.link, on)
        except StateError as error:
            raise self._meaning(error, 0, None) from error

    def write(
        self,
        stream: int,
        content: Buffer = b"",
        *,
        eof: bool = False,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
    ) -> int:
        """Writes bytes to a stream (0 to 16383) and, with ``eof``, ends it.

        The operation ends with :class:`netmesh.events.StreamSent` when the peer has proven all
        of it. Raises StreamError after the stream's end, WindowFullError when 256 writes wait,
        ChannelClosedError, ValueError.
        """
        if compression not in STREAM_COMPRESSION:
            raise ValueError(f"compression must be one of {sorted(STREAM_COMPRESSION)}")
        mode = int(STREAM_COMPRESSION[compression])
        try:
            return self._core.stream_write(self.link, stream, content, eof, mode)
        except LimitReached as error:
            raise WindowFullError("too many writes wait") from error
        except StateError as error:
            if self._is_open:
                raise StreamError("the end of the stream was written", stream=stream) from error
            raise ChannelClosedError("the link has no open channel") from error

    def report_messages(self, on: bool = True) -> None:
        """Tells of each message that a writer makes as :class:`netmesh.events.StreamMade`."""
        try:
            self._core.stream_reports(self.link, on)
        except StateError as error:
            raise self._meaning(error, 0, None) from error

    @property
    def _is_open(self) -> bool:
        try:
            return self.info.open
        except NotFoundError:
            return False

    def _meaning(self, error: NetmeshError, size: int, msgtype: int | None) -> NetmeshError:
        mdu = self.info.mdu if size and self._is_open else 0
        found = channel_failure(error, size, mdu)
        if isinstance(found, MessageTypeError):
            found.msgtype = msgtype
        return error if found is None else found
