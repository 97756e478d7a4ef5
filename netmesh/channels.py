r"""Channels of a node's links: typed messages in sequence, and streams of bytes.

A :class:`Channel` comes from :meth:`netmesh.Link.channel` or :meth:`netmesh.Link.open_channel`.
Both ends of a link open theirs: a destination does it for each of its links when it listens with
``channels=True``. Messages arrive once, in order, and each is proven to its sender.

Example:
    >>> import asyncio
    >>> from netmesh import Node
    >>> from netmesh.channels import RawMessage
    >>> from netmesh.interfaces import Pipe
    >>> async def main() -> None:
    ...     left, right = Pipe.pair()
    ...     async with Node(interfaces=[left]) as alice, Node(interfaces=[right]) as bob:
    ...         inbox = await bob.listen("example.channel", channels=True)
    ...         link = await alice.connect(inbox.hash, timeout=10)
    ...         channel = link.channel()
    ...         delivery = await channel.send(RawMessage(0x0101, b"hello"))
    ...         print((await delivery).sequence)
    ...         other = await inbox.links.get(timeout=10)
    ...         print(await other.channel().get(timeout=10))
    ...         reader, writer = channel.open_stream(1, 2)
    ...         there = other.channel().open_stream(2, 1)
    ...         writer.write(b"a line\nand more")
    ...         print(await there[0].readline())
    >>> asyncio.run(main())
    0
    RawMessage(msgtype=257, data=b'hello')
    b'a line\n'
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, final

from netmesh import _records
from netmesh._byte_streams import StreamTransport
from netmesh._channel_machine import ChannelMachine, Outlet, SendResult
from netmesh._core import RawEvent, RawReply
from netmesh._driver import Call, Driver
from netmesh._engine_channel import STREAM_COMPRESSION
from netmesh._inbox import Source
from netmesh._messages import MessageTypes, RawMessage, Received, TypedMessage, packed
from netmesh.constants import CHANNEL_HEADER_SIZE, CHANNEL_MDU_MAX, STREAM_ID_MAX
from netmesh.decisions import channel_window
from netmesh.errors import (
    ChannelClosedError,
    DeliveryError,
    StateError,
    StreamError,
)
from netmesh.events import ChannelSent, from_raw
from netmesh.records import ChannelRecord, OutstandingMessage

if TYPE_CHECKING:
    from netmesh.links import Link

__all__ = [
    "Channel",
    "ChannelMachine",
    "MessageDelivery",
    "Outlet",
    "RawMessage",
    "Received",
    "SendResult",
    "TypedMessage",
]

MESSAGES_MAX: Final = 256
# Bytes of streams that nobody has opened, and what a message counts for beside its bytes.
PARKED_MAX: Final = 1 << 20
PARKED_COST: Final = 64
# Writes of all streams that are under way; the core takes 256.
WRITES_MAX: Final = 240
READER_LIMIT: Final = 1 << 20

M = TypeVar("M", bound=type[TypedMessage])
H = TypeVar("H", bound=Callable[[Any], Any])


@final
class MessageDelivery:
    """A message that was sent, whose proof can be awaited.

    ``await delivery`` gives the :class:`netmesh.events.ChannelSent` with the sequence number,
    the tries and the time it took; it raises :class:`netmesh.errors.DeliveryError`. One that
    nobody awaits disturbs nobody.
    """

    __slots__ = ("_call", "_channel")

    def __init__(self, channel: Channel, call: Call) -> None:
        self._channel = channel
        self._call = call

    def __repr__(self) -> str:
        return f"<MessageDelivery {'done' if self.done else 'waiting'}>"

    def __await__(self) -> Generator[Any, None, ChannelSent]:
        return self._result().__await__()

    @property
    def done(self) -> bool:
        """Whether the proof came, or will not come."""
        return self._call.done

    async def wait(self, *, timeout: float | None = None) -> ChannelSent:
        """The same as awaiting it, for at most ``timeout`` seconds (TimeoutError)."""
        async with asyncio.timeout(timeout):
            return await self._result()

    def cancel(self) -> None:
        """Waits no longer; a message that has left stays in the sequence."""
        self._channel._driver.cancel(self._call)

    async def _result(self) -> ChannelSent:
        raw = await self._call.wait()
        if raw is None:
            raise self._channel._closed_error()
        sent = from_raw(raw)
        assert isinstance(sent, ChannelSent)
        if not sent.ok:
            cancelled = sent.reason == "CANCELLED"
            raise DeliveryError(
                "the message was cancelled" if cancelled else "the link ended before the proof",
                reason=sent.reason,
                stage=sent.stage.name,
                destination=self._channel.link.destination,
                sequence=sent.sequence,
                tries=sent.tries,
            )
        return sent


@final
class Channel(Source[Received]):
    """The channel of a link.

    Read with ``async for`` or :meth:`get`, or by handlers. Messages of registered classes come
    as objects of these, all others as :class:`RawMessage`. After 256 messages that nobody reads,
    and while a reader of a stream is full, nothing new is taken: the peer is made to wait, and
    nothing is lost. The window is shared by messages and streams.
    """

    __slots__ = (
        "_blocked",
        "_broken",
        "_dispatching",
        "_drainers",
        "_ended",
        "_full",
        "_gone",
        "_holds",
        "_parked",
        "_parked_bytes",
        "_parked_full",
        "_senders",
        "_sources",
        "_streams",
        "_types",
        "_under_way",
        "_window",
        "_writes",
        "_written",
        "link",
    )

    link: Link
    """The link that it belongs to."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self._types = MessageTypes(link._node._report_exception)
        self._window = channel_window(link.rtt_s)[0]
        self._under_way = 0
        self._senders: deque[asyncio.Future[None]] = deque()
        self._drainers: list[asyncio.Future[None]] = []
        self._holds = 0
        self._full = False
        self._ended = False
        self._broken = 0
        self._dispatching: asyncio.Task[None] | None = None
        self._sources: dict[int, StreamTransport] = {}
        self._streams: set[StreamTransport] = set()
        self._gone: set[int] = set()
        self._parked: dict[int, list[tuple[bytes, bool, str]]] = {}
        self._parked_bytes = 0
        self._parked_full = False
        self._writes = 0
        self._written: set[int] = set()
        self._blocked: deque[StreamTransport] = deque()

    def __repr__(self) -> str:
        return f"<Channel of {self.link!r}>"

    @property
    def mdu(self) -> int:
        """Bytes of the longest message."""
        return min(self.link.mdu - CHANNEL_HEADER_SIZE, CHANNEL_MDU_MAX)

    @property
    def window(self) -> int:
        """Messages that may be under way, as the last proof left it."""
        return self._window

    @property
    def under_way(self) -> int:
        """Messages that were sent here and are not proven; those of streams not counted."""
        return self._under_way

    @property
    def broken(self) -> int:
        """Messages of the peer that could not be unpacked, or are of no known type or stream."""
        return self._broken

    async def info(self) -> ChannelRecord:
        """All about it: windows, rounds, sequences, counters. NotFoundError when forgotten."""
        reply = await self._driver.ask("channel_info", "channel", link=self.link.ref)
        return _records.channel(reply.records[0])

    async def outstanding(self) -> list[OutstandingMessage]:
        """The messages that are sent and not proven, with their tries; oldest first."""
        reply = await self._driver.ask("channel_sent", "channel", link=self.link.ref)
        return [_records.outstanding(core) for core in reply.records]

    async def ahead(self) -> list[int]:
        """Sequence numbers that came before ones that are missing, nearest first."""
        reply = await self._driver.ask("channel_ahead", "channel", link=self.link.ref)
        data = reply.data or b""
        return list(struct.unpack(f">{len(data) // 2}H", data))

    # ------------------------------------------------------------------- sending

    async def send(self, message: Received, *, timeout: float | None = None) -> MessageDelivery:
        """Sends a message once the window has room, and gives its delivery.

        Several senders get room in the order of their calls. Raises TimeoutError when there
        was none in ``timeout`` seconds, MessageTooLargeError above :attr:`mdu`,
        MessageTypeError, ChannelClosedError.
        """
        msgtype, data = packed(message, self.mdu)
        self._check_open()
        if not self._take_room():
            await self._wait_for_room(timeout)
        return self._start(msgtype, data)

    def try_send(self, message: Received) -> bool:
        """Sends a message if the window has room now; whether it did.

        Raises what :meth:`send` raises, but for a full window.
        """
        msgtype, data = packed(message, self.mdu)
        self._check_open()
        if not self._take_room():
            return False
        self._start(msgtype, data)
        return True

    async def drain(self, *, timeout: float | None = None) -> None:
        """Waits until all messages that were sent here are proven, or will not be."""
        async with asyncio.timeout(timeout):
            while self._under_way and not self._ended:
                emptied = self._driver.loop.create_future()
                self._drainers.append(emptied)
                await emptied

    def _check_open(self) -> None:
        if self._ended:
            raise self._closed_error()

    def _closed_error(self) -> ChannelClosedError:
        link = self.link
        return ChannelClosedError(
            f"the link has ended: {link.reason.name}" if link.closed else "the channel is not open",
            destination=link.destination,
            close_reason=link.reason.name if link.closed else "",
        )

    def _take_room(self) -> bool:
        if self._senders or self._under_way >= self._window:
            return False
        self._under_way += 1
        return True

    async def _wait_for_room(self, timeout: float | None) -> None:
        waiter = self._driver.loop.create_future()
        self._senders.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._under_way -= 1  # it was let in and does not come
                self._let_in()
            elif waiter in self._senders:
                self._senders.remove(waiter)
            raise

    def _let_in(self) -> None:
        """Those who wait, while there is room; and those who wait for the end of all."""
        while self._senders and self._under_way < self._window:
            waiter = self._senders.popleft()
            if not waiter.done():
                self._under_way += 1
                waiter.set_result(None)
        if not self._under_way:
            self._tell_drainers()

    def _tell_drainers(self) -> None:
        for emptied in self._drainers:
            if not emptied.done():
                emptied.set_result(None)
        self._drainers.clear()

    def _start(self, msgtype: int, data: bytes) -> MessageDelivery:
        try:
            call = self._driver.start(
                "channel_send",
                operation=True,
                on_reply=self._replied,
                on_event=self._proven,
                link=self.link.ref,
                number=msgtype,
                data=data,
                on=True,
            )
        except BaseException:
            self._under_way -= 1
            self._let_in()
            raise
        return MessageDelivery(self, call)

    def _replied(self, reply: RawReply) -> None:
        if reply.status < 0:
            self._under_way -= 1
            self._let_in()

    def _proven(self, raw: RawEvent) -> None:
        self._under_way -= 1
        self._window = max(1, raw.total_bytes)
        self._let_in()

    # ----------------------------------------------------------------- receiving

    def register(self, *classes: type[TypedMessage]) -> None:
        """Gives messages of these classes as objects of theirs, from the next read on.

        Raises MessageTypeError for a class without a usable MSGTYPE, a reserved type, or one
        that another class has.
        """
        for cls in classes:
            self._types.register(cls)

    def add_handler(self, handler: H) -> H:
        """Calls ``handler`` with each message, behind the handlers that are there.

        One that returns True, also after an await, ends the round: later ones do not see the
        message. One that raises hurts nobody: the error goes to the event loop's exception
        handler and the next one is called. The messages are handled one after the other, and
        are then no longer read with ``async for``.
        """
        self._types.add(handler)
        if self._dispatching is None and not self._closed:
            self._dispatching = self.link._node._spawn(self._dispatch(), "channel handlers")
        return handler

    def remove_handler(self, handler: Callable[[Any], Any]) -> None:
        """Calls it no more; quiet when it is not there."""
        self._types.remove(handler)
        if not self._types.handlers and self._dispatching is not None:
            self._dispatching.cancel()
            self._dispatching = None

    async def _dispatch(self) -> None:
        async for message in self:
            for handler in self._types.handlers:
                try:
                    stop = handler(message)
                    if isinstance(stop, Awaitable):
                        stop = await stop
                except Exception as error:
                    self._types.failed(handler, error)
                    continue
                if stop is True:
                    break

    async def get(self, *, timeout: float | None = None) -> Received:
        """The next message.

        Raises TimeoutError after ``timeout`` seconds, ChannelClosedError when the link has
        ended and nothing is left.
        """
        found = self.get_nowait()
        if found is not None:
            return found
        try:
            async with asyncio.timeout(timeout):
                return await self._next()
        except StateError:
            raise self._closed_error() from None

    def _on_message(self, raw: RawEvent) -> None:
        if raw.reason != "OK":
            self._broken += 1
            return
        self._put(RawMessage(raw.msgtype, raw.data or b""))
        if not self._full and len(self._items) >= MESSAGES_MAX:
            self._full = True
            self._hold()

    async def _next(self) -> Received:
        while True:
            message = self._unpacked(await super()._next())
            if message is not None:
                return message

    def get_nowait(self) -> Received | None:
        """The next message if there is one."""
        while self._items:
            message = self._unpacked(self._take())
            if message is not None:
                return message
        return None

    def _unpacked(self, message: Received) -> Received | None:
        if isinstance(message, RawMessage):
            found = self._types.unpack(message.msgtype, message.data)
            self._broken += found is None
            return found
        return message

    def _taken(self) -> None:
        if self._full and len(self._items) <= MESSAGES_MAX // 2:
            self._full = False
            self._unhold()

    def _hold(self) -> None:
        """One reason more to take nothing new."""
        self._holds += 1
        if self._holds == 1 and not self._ended:
            self._driver.post("channel_pause", link=self.link.ref, on=True)

    def _unhold(self) -> None:
        self._holds -= 1
        if self._holds == 0 and not self._ended:
            self._driver.post("channel_pause", link=self.link.ref, on=False)

    # ------------------------------------------------------------------- streams

    def open_stream(
        self,
        receive_id: int,
        send_id: int,
        *,
        limit: int = READER_LIMIT,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A stream in each direction, as asyncio knows them.

        What the peer writes to stream ``receive_id`` is read; what is written goes to
        ``send_id`` (0 to 16383; both may be the same). What came before is not lost, up to
        1 MiB of all streams that nobody has opened. A reader that holds more than twice
        ``limit`` bytes makes the peer wait; ``limit`` also bounds a line. ``drain()`` waits
        while much is not proven. ``write_eof()`` ends one direction alone; ``close()`` ends
        what is written and reads no more, ``wait_closed()`` waits until all of it is proven.

        ``compression`` "when_smaller" tries each message as upstream's writer does,
        "automatic" only where it looks worth its time. Raises StreamError for an id that is
        taken or out of range, ChannelClosedError. Reading raises ChannelClosedError when the
        link ended before the stream, StreamError when the peer sent something broken.
        """
        return self._open(receive_id, send_id, limit, compression)

    def open_reader(self, receive_id: int, *, limit: int = READER_LIMIT) -> asyncio.StreamReader:
        """Only what the peer writes to stream ``receive_id``; see :meth:`open_stream`."""
        return self._open(receive_id, None, limit, "off")[0]

    def open_writer(
        self,
        send_id: int,
        *,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
    ) -> asyncio.StreamWriter:
        """Only what is written to stream ``send_id``; see :meth:`open_stream`."""
        return self._open(None, send_id, READER_LIMIT, compression)[1]

    async def report_messages(self, on: bool = True) -> None:
        """Tells of each message that a writer makes: read them with ``events(StreamMade)``."""
        await self._driver.ask("stream_reports", "channel", link=self.link.ref, on=on)

    def _open(
        self, receive_id: int | None, send_id: int | None, limit: int, compression: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._check_open()
        if compression not in STREAM_COMPRESSION:
            raise ValueError(f"compression must be one of {sorted(STREAM_COMPRESSION)}")
        for number in (receive_id, send_id):
            if number is not None and not 0 <= number <= STREAM_ID_MAX:
                raise StreamError(
                    f"a stream's id is 0 to {STREAM_ID_MAX}, not {number}", reason="RANGE"
                )
        if receive_id is not None and (receive_id in self._sources or receive_id in self._gone):
            raise StreamError(f"stream {receive_id} is read already", stream=receive_id)
        if send_id is not None and send_id in self._written:
            raise StreamError(f"stream {send_id} is written already", stream=send_id)
        transport = StreamTransport(self, receive_id, send_id, compression)
        reader, writer = transport.start(self._driver.loop, limit)
        self._streams.add(transport)
        if send_id is not None:
            self._written.add(send_id)
        if receive_id is not None:
            self._sources[receive_id] = transport
            self._unpark(receive_id, transport)
        return reader, writer

    def _on_stream(self, raw: RawEvent) -> None:
        if raw.reason == "TRUNCATED":  # too short to say which stream it is of
            self._broken += 1
            return
        data = raw.data or b""
        transport = self._sources.get(raw.stream)
        if transport is not None:
            transport._feed(data, raw.eof, raw.reason)
        elif raw.stream not in self._gone:
            self._park(raw.stream, data, raw.eof, raw.reason)

    def _park(self, stream: int, data: bytes, eof: bool, reason: str) -> None:
        self._parked.setdefault(stream, []).append((data, eof, reason))
        self._parked_bytes += len(data) + PARKED_COST
        if not self._parked_full and self._parked_bytes > PARKED_MAX:
            self._parked_full = True
            self._hold()

    def _unpark(self, stream: int, transport: StreamTransport) -> None:
        for data, eof, reason in self._parked.pop(stream, ()):
            self._parked_bytes -= len(data) + PARKED_COST
            transport._feed(data, eof, reason)
        if self._parked_full and self._parked_bytes <= PARKED_MAX // 2:
            self._parked_full = False
            self._unhold()

    def _take_write(self, transport: StreamTransport) -> bool:
        """A place among the writes under way; else the transport is told when there is one."""
        if self._ended:
            return False
        if self._writes >= WRITES_MAX:
            if transport not in self._blocked:
                self._blocked.append(transport)
            return False
        self._writes += 1
        return True

    def _give_write(self) -> None:
        self._writes -= 1
        if self._blocked:
            self._driver.loop.call_soon(self._blocked.popleft()._flush)

    def _forget_stream(self, transport: StreamTransport) -> None:
        self._streams.discard(transport)
        if transport in self._blocked:
            self._blocked.remove(transport)
        receive_id = transport.receive_id
        if receive_id is not None and self._sources.get(receive_id) is transport:
            del self._sources[receive_id]
            self._gone.add(receive_id)

    # ----------------------------------------------------------------------- end

    @property
    def _driver(self) -> Driver:
        return self.link._node._driver

    def _end(self) -> None:
        """The link has ended."""
        self._ended = True
        while self._senders:
            waiter = self._senders.popleft()
            if not waiter.done():
                waiter.set_exception(self._closed_error())
        self._tell_drainers()
        for transport in tuple(self._streams):
            transport._link_ended()
        self._close()
