"""Channels and streams for scripts: every call waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, final

from netmesh import channels
from netmesh.channels import Received, TypedMessage
from netmesh.errors import ChannelClosedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.events import ChannelSent
    from netmesh.records import ChannelRecord

__all__ = ["ByteStream", "Channel", "MessageDelivery"]

T = TypeVar("T")


class Background(Protocol):
    """An event loop in another thread."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for a coroutine on the loop."""

    def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Calls a plain function on the loop."""


@final
class MessageDelivery:
    """A message that was sent, whose proof can be waited for."""

    __slots__ = ("_background", "_delivery")

    def __init__(self, background: Background, delivery: channels.MessageDelivery) -> None:
        self._background = background
        self._delivery = delivery

    @property
    def done(self) -> bool:
        """Whether the proof came, or will not come."""
        return self._delivery.done

    def wait(self, *, timeout: float | None = None) -> ChannelSent:
        """Waits for the proof. Raises DeliveryError, ChannelClosedError, TimeoutError."""
        return self._background.run(self._delivery.wait(timeout=timeout))


@final
class Channel:
    """The channel of a link; see :class:`netmesh.channels.Channel`.

    Read with ``for``, which ends with the link, or :meth:`get`.
    """

    __slots__ = ("_background", "_channel")

    def __init__(self, background: Background, channel: channels.Channel) -> None:
        self._background = background
        self._channel = channel

    def __repr__(self) -> str:
        return repr(self._channel)

    def __iter__(self) -> Iterator[Received]:
        while True:
            try:
                yield self.get()
            except ChannelClosedError:
                return

    def __len__(self) -> int:
        """How many messages wait."""
        return len(self._channel)

    @property
    def mdu(self) -> int:
        """Bytes of the longest message."""
        return self._channel.mdu

    def info(self) -> ChannelRecord:
        """All about it."""
        return self._background.run(self._channel.info())

    def register(self, *classes: type[TypedMessage]) -> None:
        """Gives messages of these classes as objects of theirs."""
        self._background.call(self._channel.register, *classes)

    def get(self, *, timeout: float | None = None) -> Received:
        """The next message. Raises TimeoutError, ChannelClosedError."""
        return self._background.run(self._channel.get(timeout=timeout))

    def send(self, message: Received, *, timeout: float | None = None) -> MessageDelivery:
        """Sends a message once the window has room."""
        return MessageDelivery(
            self._background, self._background.run(self._channel.send(message, timeout=timeout))
        )

    def try_send(self, message: Received) -> bool:
        """Sends a message if the window has room now; whether it did."""
        return self._background.call(self._channel.try_send, message)

    def drain(self, *, timeout: float | None = None) -> None:
        """Waits until all messages that were sent here are proven, or will not be."""
        self._background.run(self._channel.drain(timeout=timeout))

    def open_stream(
        self,
        receive_id: int,
        send_id: int,
        *,
        limit: int = channels.READER_LIMIT,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
    ) -> ByteStream:
        """A stream in each direction."""
        ends = self._background.call(
            self._channel.open_stream,
            receive_id,
            send_id,
            limit=limit,
            compression=compression,
        )
        return ByteStream(self._background, *ends)


@final
class ByteStream:
    """A stream in each direction, as one file; ``with`` closes it, ``for`` gives lines."""

    __slots__ = ("_background", "_reader", "_writer")

    def __init__(
        self, background: Background, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._background = background
        self._reader = reader
        self._writer = writer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

    def read(self, size: int = -1, *, timeout: float | None = None) -> bytes:
        """At most ``size`` bytes, at least one; everything up to the end for -1; b"" there."""
        return self._background.run(asyncio.wait_for(self._reader.read(size), timeout))

    def readexactly(self, size: int, *, timeout: float | None = None) -> bytes:
        """``size`` bytes. Raises asyncio.IncompleteReadError when the stream ends before."""
        return self._background.run(asyncio.wait_for(self._reader.readexactly(size), timeout))

    def readline(self, *, timeout: float | None = None) -> bytes:
        """A line with its end; what is left at the end of the stream."""
        return self._background.run(asyncio.wait_for(self._reader.readline(), timeout))

    def write(self, data: Buffer, *, timeout: float | None = None) -> None:
        """Writes bytes, and waits while much is not proven."""
        content = bytes(data)

        async def work() -> None:
            self._writer.write(content)
            await self._writer.drain()

        self._background.run(asyncio.wait_for(work(), timeout))

    def write_eof(self) -> None:
        """Ends the stream that is written; the other one goes on."""
        self._background.call(self._writer.write_eof)

    def close(self, *, timeout: float | None = None) -> None:
        """Reads no more, ends what is written, and waits until the peer has proven it."""

        async def work() -> None:
            self._writer.close()
            await self._writer.wait_closed()

        self._background.run(asyncio.wait_for(work(), timeout))
