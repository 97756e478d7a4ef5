"""Streams of bytes over a channel, as transports of asyncio.

A transport cuts what is written into commands of the core, a few under way at a time, and lets
the channel pause while its reader is full.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from netmesh._core import RawEvent, RawReply
from netmesh._driver import failure
from netmesh._engine_channel import STREAM_COMPRESSION
from netmesh.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    from netmesh._driver import Call
    from netmesh.channels import Channel

__all__ = ["StreamTransport"]

# In messages of full size: of one command, and of all that is not proven. The second is more
# than the widest window, so that this is what holds a writer up only when the peer does.
CHUNK_MESSAGES: Final = 16
UNPROVEN_MESSAGES: Final = 128
# Commands that may be under way when what is written is little.
SMALL_WRITES: Final = 8


class StreamTransport(asyncio.Transport):
    """One stream, or the two of a pair: what is read from one id, what is written to another."""

    def __init__(
        self,
        channel: Channel,
        receive_id: int | None,
        send_id: int | None,
        compression: str,
    ) -> None:
        super().__init__({"channel": channel, "receive_id": receive_id, "send_id": send_id})
        self._channel = channel
        self.receive_id = receive_id
        self.send_id = send_id
        self._compression = int(STREAM_COMPRESSION[compression])
        self._protocol: asyncio.Protocol | None = None
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._chunk = CHUNK_MESSAGES * channel.mdu
        self._high = UNPROVEN_MESSAGES * channel.mdu
        self._low = self._high // 2
        self._pending: deque[memoryview] = deque()
        self._pending_bytes = 0
        self._unproven = 0
        self._calls: set[Call] = set()
        self._failed = False
        self._eof_wanted = False
        self._eof_posted = False
        self._closing = False
        self._lost = False
        self._writing_paused = False
        self._reading_paused = False
        self._reads = receive_id is not None

    def __repr__(self) -> str:
        return f"<StreamTransport receives {self.receive_id}, sends {self.send_id}>"

    def start(
        self, loop: asyncio.AbstractEventLoop, limit: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The two ends for the program.

        They are held here until the stream is over: a writer that nobody holds closes itself.
        """
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        self._protocol = protocol
        protocol.connection_made(self)
        self._ends = (reader, asyncio.StreamWriter(self, protocol, reader, loop))
        return self._ends

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Whom it tells from now on."""
        if not isinstance(protocol, asyncio.Protocol):
            raise TypeError(f"a stream needs an asyncio.Protocol, not {type(protocol).__name__}")
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Whom it tells."""
        assert self._protocol is not None
        return self._protocol

    # ------------------------------------------------------------------- reading

    def is_reading(self) -> bool:
        """Whether it takes what comes."""
        return self._reads and not self._reading_paused

    def pause_reading(self) -> None:
        """The reader is full: the channel pauses."""
        if self._reads and not self._reading_paused:
            self._reading_paused = True
            self._channel._hold()

    def resume_reading(self) -> None:
        """The reader has room again."""
        if self._reading_paused:
            self._reading_paused = False
            self._channel._unhold()

    def _feed(self, data: bytes, eof: bool, reason: str) -> None:
        """What came in order."""
        protocol = self._protocol
        if not self._reads or protocol is None:
            return
        if reason != "OK":
            self._break(reason)
            return
        if data:
            protocol.data_received(data)
        if eof:
            self._stop_reading()
            protocol.eof_received()

    def _break(self, reason: str) -> None:
        """A message whose bytes are lost: nobody is to take the rest for the whole."""
        self._stop_reading()
        if self._ends is not None:
            self._ends[0].set_exception(
                StreamError(
                    f"the peer sent a broken message ({reason.lower()}): bytes are missing",
                    reason=reason,
                    destination=self._channel.link.destination,
                    stream=self.receive_id or 0,
                )
            )

    def _stop_reading(self) -> None:
        self.resume_reading()
        self._reads = False

    # ------------------------------------------------------------------- writing

    def write(self, data: Buffer) -> None:
        """Queues bytes."""
        if self.send_id is None:
            raise StreamError("this stream is only read")
        if self._eof_wanted:
            raise StreamError("the end of the stream was written", stream=self.send_id)
        if self._lost:
            return
        content = data if isinstance(data, bytes) else bytes(data)
        if content:
            self._pending.append(memoryview(content))
            self._pending_bytes += len(content)
            self._flush()
            self._look_at_limits()

    def writelines(self, lines: Iterable[Buffer]) -> None:
        """Queues several pieces of bytes as one."""
        self.write(b"".join(lines))

    def can_write_eof(self) -> bool:
        """Whether it has a stream to write to."""
        return self.send_id is not None

    def write_eof(self) -> None:
        """Ends the stream that is written; the other one goes on."""
        if self.send_id is not None and not self._eof_wanted:
            self._eof_wanted = True
            self._flush()

    def get_write_buffer_size(self) -> int:
        """Bytes that were written and that the peer has not proven."""
        return self._pending_bytes + self._unproven

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Where drain() goes on, and where it begins to wait."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets where drain() begins to wait, and where it goes on."""
        if high is None:
            high = UNPROVEN_MESSAGES * self._channel.mdu if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be at least low ({low}), which is at least 0")
        self._high, self._low = high, low
        self._look_at_limits()

    def _look_at_limits(self) -> None:
        protocol = self._protocol
        if protocol is None or self._lost:
            return
        size = self.get_write_buffer_size()
        if not self._writing_paused and size > self._high:
            self._writing_paused = True
            protocol.pause_writing()
        elif self._writing_paused and size <= self._low:
            self._writing_paused = False
            protocol.resume_writing()

    def _next_chunk(self) -> bytes | memoryview:
        """At most a chunk from the front of what is pending."""
        first: bytes | memoryview = self._pending.popleft()
        if len(first) > self._chunk:
            self._pending.appendleft(memoryview(first)[self._chunk :])
            first = first[: self._chunk]
        elif len(first) < self._chunk and self._pending:
            parts, size = [first], len(first)
            while self._pending and size + len(self._pending[0]) <= self._chunk:
                size += len(self._pending[0])
                parts.append(self._pending.popleft())
            first = b"".join(parts)
        self._pending_bytes -= len(first)
        return first

    def _may_post(self) -> bool:
        if self._pending_bytes >= self._chunk:
            return self._unproven < UNPROVEN_MESSAGES * self._channel.mdu
        return len(self._calls) < SMALL_WRITES or self._eof_wanted

    def _flush(self) -> None:
        """Posts what may be under way."""
        while self._pending and self._may_post() and self._has_slot():
            chunk = self._next_chunk()
            self._post(chunk, eof=self._eof_wanted and not self._pending)
        if self._eof_wanted and not self._eof_posted and not self._pending and self._has_slot():
            self._post(b"", eof=True)
        self._settle()

    def _has_slot(self) -> bool:
        return not self._lost and not self._failed and self._channel._take_write(self)

    def _post(self, chunk: bytes | memoryview, *, eof: bool) -> None:
        self._unproven += len(chunk)
        self._eof_posted = self._eof_posted or eof
        assert self.send_id is not None
        size = len(chunk)
        call = self._channel._driver.start(
            "stream_write",
            operation=True,
            on_reply=lambda reply: self._replied(call, size, reply),
            on_event=lambda raw: self._ended(call, size, raw),
            link=self._channel.link.ref,
            number=self.send_id,
            data=chunk,
            on=eof,
            compression=self._compression,
        )
        self._calls.add(call)

    def _replied(self, call: Call, size: int, reply: RawReply) -> None:
        if reply.status >= 0:
            return
        self._done(call, size)
        if reply.reason not in ("STATE", "MISSING"):
            self._lose(failure(reply, "stream"))
        elif self._channel.link.closed:
            self._lose(self._channel._closed_error())
        else:
            self._failed = True  # the end of the link is on its way

    def _ended(self, call: Call, size: int, raw: RawEvent) -> None:
        self._done(call, size)
        if raw.status < 0:
            self._failed = True  # cancelled by abort(), or the end of the link follows
        else:
            self._flush()
            self._look_at_limits()

    def _done(self, call: Call, size: int) -> None:
        self._calls.discard(call)
        self._unproven -= size
        self._channel._give_write()

    # ------------------------------------------------------------------- the end

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing or self._lost

    def close(self) -> None:
        """Reads no more; ends the stream that is written once all of it is proven."""
        if self._closing:
            return
        self._closing = True
        self._stop_reading()
        self.write_eof()
        self._settle()

    def abort(self) -> None:
        """Gives up what is not proven yet. The peer sees no end of the stream."""
        self._closing = True
        self._stop_reading()
        self._pending.clear()
        self._pending_bytes = 0
        for call in tuple(self._calls):
            self._channel._driver.cancel(call)
        self._lose(None)

    def _settle(self) -> None:
        """When it is closing and all is proven, it is closed."""
        done = self.send_id is None or (self._eof_posted and not self._calls)
        if self._closing and done and not self._failed:
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        """It is over, in both directions."""
        if self._lost:
            return
        self._stop_reading()
        self._lost = True
        self._closing = True
        self._pending.clear()
        self._pending_bytes = 0
        self._channel._forget_stream(self)
        self._ends = None
        if self._protocol is not None:
            self._channel._driver.loop.call_soon(self._protocol.connection_lost, error)

    def _link_ended(self) -> None:
        """The channel has ended with its link: whole is what had ended before."""
        written = self.send_id is None or (
            self._eof_posted and not self._calls and not self._failed
        )
        whole = written and not self._reads
        self._lose(None if whole else self._channel._closed_error())
