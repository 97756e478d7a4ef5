"""Channels and streams of a node's links: order, credit, handlers, half-close, ends."""

from __future__ import annotations

import asyncio
import bz2
import contextlib
import hashlib
import random
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from netmesh import Link
from netmesh.channel import Envelope, StreamData
from netmesh.channels import Channel, RawMessage, TypedMessage
from netmesh.constants import Context, ReceiptState
from netmesh.errors import (
    ChannelClosedError,
    ChannelError,
    DeliveryError,
    MessageTooLargeError,
    MessageTypeError,
    StreamError,
)
from netmesh.events import StreamMade
from netmesh.records import CloseReason
from node.nodes import NAME, PATIENCE, joined, linked, over_tcp, soon, until

pytestmark = pytest.mark.asyncio


@dataclass
class Line(TypedMessage):
    """A line of text."""

    MSGTYPE = 0x0101
    text: str

    def pack(self) -> bytes:
        return self.text.encode()

    @classmethod
    def unpack(cls, data: bytes) -> Line:
        return cls(data.decode())


@dataclass
class Number(TypedMessage):
    """A number."""

    MSGTYPE = 0x0102
    value: int

    def pack(self) -> bytes:
        return self.value.to_bytes(4, "big")

    @classmethod
    def unpack(cls, data: bytes) -> Number:
        return cls(int.from_bytes(data, "big"))


@contextlib.asynccontextmanager
async def channels(*classes: type[TypedMessage]) -> AsyncIterator[tuple[Channel, Channel]]:
    """The channels of both ends of a link; the opener's first."""
    async with linked(channels=True) as (link, other, _):
        yield link.channel(*classes), other.channel(*classes)


@contextlib.asynccontextmanager
async def wide_channels() -> AsyncIterator[tuple[Channel, Channel]]:
    """The same over TCP, whose packets are long."""
    async with over_tcp() as (alice, bob):
        echo = await bob.listen(NAME, channels=True)
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        other = await echo.links.get(timeout=PATIENCE)
        assert link.channel().mdu > 16_000
        yield link.channel(), other.channel()


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the end of a stream."""
    return await soon(reader.read())


# ------------------------------------------------------------------------------ messages


async def test_typed_messages_arrive_in_order_as_their_classes() -> None:
    async with channels(Line, Number) as (here, there):
        for number in range(100):
            await soon(here.send(Line(str(number)) if number % 2 else Number(number)))
        got = [await there.get(timeout=PATIENCE) for _ in range(100)]
        assert got == [Line(str(number)) if number % 2 else Number(number) for number in range(100)]
        await soon(there.send(Line("and back")))
        assert await here.get(timeout=PATIENCE) == Line("and back")


async def test_what_has_no_class_comes_raw_and_classes_can_be_registered_late() -> None:
    async with channels() as (here, there):
        await soon(await here.send(Line("early")))
        assert await there.get(timeout=PATIENCE) == RawMessage(0x0101, b"early")
        await soon(await here.send(Line("late")))
        there.register(Line)
        assert await there.get(timeout=PATIENCE) == Line("late")
        assert there.get_nowait() is None


async def test_a_delivery_tells_sequence_tries_and_time() -> None:
    async with channels(Line) as (here, there):
        for number in range(3):
            delivery = await soon(here.send(Line("x")))
            sent = await delivery.wait(timeout=PATIENCE)
            assert (sent.sequence, sent.tries, sent.state) == (number, 1, ReceiptState.DELIVERED)
            assert sent.rtt_s > 0
            assert delivery.done
        record = await here.info()
        assert (record.sent, record.delivered, record.next_tx) == (3, 3, 3)
        assert record.window == here.window == sent.window
        assert (await there.info()).next_rx == 3
        assert await here.outstanding() == []
        assert await there.ahead() == []


async def test_try_send_says_no_and_send_waits_in_turn() -> None:
    async with channels(Number) as (here, there):
        # Nothing is proven before this task gives way: the window stays as it is.
        window = here.window
        assert [here.try_send(Number(each)) for each in range(window + 2)] == [True] * window + [
            False
        ] * 2
        assert here.under_way == window
        senders = [asyncio.ensure_future(here.send(Number(window + each))) for each in range(40)]
        await soon(asyncio.gather(*senders))
        got = [await there.get(timeout=PATIENCE) for _ in range(window + 40)]
        assert got == [Number(each) for each in range(window + 40)]
        await here.drain(timeout=PATIENCE)
        assert here.under_way == 0


async def test_a_sender_that_is_cancelled_leaves_its_place_to_the_next() -> None:
    async with channels(Number) as (here, there):
        while here.try_send(Number(0)):
            pass
        waiting = [asyncio.ensure_future(here.send(Number(each))) for each in (1, 2, 3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[2].cancel()
        await soon(waiting[1])
        await soon(here.send(Number(4)))
        got = [await there.get(timeout=PATIENCE) for _ in range(4)]
        assert got[-2:] == [Number(2), Number(4)]
        while here.try_send(Number(5)):
            pass
        with pytest.raises(TimeoutError):
            await here.send(Number(6), timeout=0)


async def test_a_burst_of_lines_through_a_window_of_one() -> None:
    """B19: 4,000 of them; who sends waits, and nothing ends."""
    async with linked(channels=True) as (link, other, echo):
        # A round-trip time above 1.45 s: a window of one message.
        await link.tune(rtt_s=2.0)
        link.rtt_s = 2.0
        here, there = link.channel(Line), other.channel(Line)
        assert here.window == 1
        second = await link._node.connect(echo.hash, timeout=PATIENCE)
        bystander = second.channel(Line)

        async def burst() -> None:
            for number in range(4000):
                await here.send(Line(f"line {number}"))

        task = asyncio.ensure_future(burst())
        got = [await there.get(timeout=PATIENCE) for _ in range(4000)]
        await soon(task)
        assert got == [Line(f"line {number}") for number in range(4000)]
        await soon(await bystander.send(Line("unaffected")))
        await second.close()


async def test_types_and_sizes_have_named_errors() -> None:
    class Twin(Line):
        pass

    class Reserved(Line):
        MSGTYPE = 0xF001

    class Without(TypedMessage):
        def pack(self) -> bytes:
            return b""

        @classmethod
        def unpack(cls, data: bytes) -> Without:
            return cls()

    async with channels() as (here, _):
        here.register(Line, Line)
        for cls, reason in ((Twin, "DUPLICATE_KEY"), (Reserved, "RESERVED"), (Without, "TYPE")):
            with pytest.raises(MessageTypeError) as raised:
                here.register(cls)
            assert raised.value.reason == reason
        for bad in (Reserved("x"), Without(), RawMessage(0xF000, b"")):
            with pytest.raises(MessageTypeError):
                await here.send(bad)
        with pytest.raises(MessageTooLargeError) as too_large:
            here.try_send(Line("x" * (here.mdu + 1)))
        assert (too_large.value.size_bytes, too_large.value.mdu) == (here.mdu + 1, here.mdu)
        await soon(await here.send(Line("x" * here.mdu)))
        assert (await here.info()).mdu == here.mdu


async def test_a_message_that_cannot_be_unpacked_is_reported_and_skipped() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with channels(Line) as (here, there):
        await soon(here.send(RawMessage(Line.MSGTYPE, b"\xff\xfe")))
        await soon(here.send(Line("fine")))
        assert await there.get(timeout=PATIENCE) == Line("fine")
        assert there.broken == 1
        assert "Line" in reported[0]["message"]


# ------------------------------------------------------------------------------- handlers


async def test_handlers_run_in_order_until_one_stops_and_failures_are_isolated() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    calls: list[tuple[str, str]] = []
    async with channels(Line) as (here, there):

        def first(message: Line) -> None:
            calls.append(("first", message.text))

        def broken(message: Line) -> None:
            raise RuntimeError(message.text)

        async def stops(message: Line) -> bool:
            await asyncio.sleep(0)
            calls.append(("stops", message.text))
            return message.text == "stop"

        def last(message: Line) -> None:
            calls.append(("last", message.text))

        for handler in (first, broken, stops, last, last):
            there.add_handler(handler)
        for text in ("go", "stop", "on"):
            await soon(here.send(Line(text)))
        await until(lambda: ("last", "on") in calls)
        assert calls == [
            ("first", "go"),
            ("stops", "go"),
            ("last", "go"),
            ("first", "stop"),
            ("stops", "stop"),
            ("first", "on"),
            ("stops", "on"),
            ("last", "on"),
        ]
        assert [str(each["exception"]) for each in reported] == ["go", "stop", "on"]
        for handler in (first, broken, stops, last):
            there.remove_handler(handler)
        await soon(here.send(Line("read")))
        assert await there.get(timeout=PATIENCE) == Line("read")


# -------------------------------------------------------------------------------- streams


async def test_a_pair_of_streams_behaves_as_asyncio_streams_do() -> None:
    async with linked(channels=True) as (link, other, _):
        reader, writer = await link.open_stream(1, 2)
        far_reader, far_writer = await other.open_stream(2, 1)
        writer.write(b"one line\nrest")
        assert await soon(far_reader.readline()) == b"one line\n"
        assert await soon(far_reader.readexactly(4)) == b"rest"
        far_writer.writelines([b"a", b"b;", b"c"])
        assert await soon(reader.readuntil(b";")) == b"ab;"
        # Half-close: the question ends, the answer goes on.
        assert writer.can_write_eof()
        writer.write_eof()
        assert await all_of(far_reader) == b""
        assert far_reader.at_eof()
        far_writer.write(b" more")
        await soon(far_writer.drain())
        far_writer.close()
        await soon(far_writer.wait_closed())
        assert await all_of(reader) == b"c more"
        writer.close()
        await soon(writer.wait_closed())
        assert writer.get_extra_info("channel") is link.channel()


async def test_large_content_comes_whole_over_several_streams_and_both_ways() -> None:
    rng = random.Random(5)
    contents = {number: rng.randbytes(200_000 + number) for number in range(8)}
    contents[3] = b"compressible words " * 30_000

    async def send(writer: asyncio.StreamWriter, content: bytes) -> None:
        at = 0
        while at < len(content):
            size = rng.choice((1, 700, 16_384, 100_000))
            writer.write(content[at : at + size])
            at += size
            await writer.drain()
        writer.write_eof()

    async with channels() as (here, there):
        pairs = {number: here.open_stream(number, number) for number in contents}
        far = {number: there.open_stream(number, number) for number in contents}
        sending = [send(writer, contents[number]) for number, (_, writer) in pairs.items()]
        sending += [send(writer, contents[number][::-1]) for number, (_, writer) in far.items()]
        reading = [reader.read() for reader, _ in (*far.values(), *pairs.values())]
        done = await asyncio.wait_for(asyncio.gather(*reading, *sending), 2 * PATIENCE)
        found = done[: len(reading)]
        expected = [*contents.values(), *(content[::-1] for content in contents.values())]
        assert [hashlib.sha256(each).digest() for each in found] == [
            hashlib.sha256(each).digest() for each in expected
        ]
        for _, writer in (*pairs.values(), *far.values()):
            writer.close()
            await soon(writer.wait_closed())


async def test_a_large_write_is_cut_without_copying_what_is_left() -> None:
    """What is left after each piece stays where it is: 16 MiB take no other 16 MiB."""
    async with wide_channels() as (mine, theirs):
        _, writer = mine.open_stream(0, 1, compression="off")
        reader, _ = theirs.open_stream(1, 0)
        content = random.Random(16).randbytes(16 << 20)
        tracemalloc.start()
        try:
            writer.write(content)
            writer.write_eof()
            digest = hashlib.sha256()
            while piece := await soon(reader.read(1 << 16)):
                digest.update(piece)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert digest.digest() == hashlib.sha256(content).digest()
        assert peak < 8 << 20


async def test_what_comes_before_a_reader_is_kept() -> None:
    async with channels(Line) as (here, there):
        writer = here.open_writer(7)
        writer.write(b"early")
        writer.close()
        await soon(writer.wait_closed())
        await soon(here.send(Line("between")))
        assert await there.get(timeout=PATIENCE) == Line("between")
        assert await all_of(there.open_reader(7)) == b"early"


async def test_a_slow_reader_makes_the_writer_wait_and_loses_nothing() -> None:
    content = random.Random(6).randbytes(12_000_000)
    async with wide_channels() as (here, there):
        writer = here.open_writer(1)
        reader = there.open_reader(1, limit=100_000)

        async def send() -> None:
            for at in range(0, len(content), 500_000):
                writer.write(content[at : at + 500_000])
                await writer.drain()
            writer.close()
            await writer.wait_closed()

        task = asyncio.ensure_future(send())
        # Nobody reads: what is under way comes to rest.
        await until(lambda: there._holds)
        await until(lambda: writer.transport.get_write_buffer_size() > 1_000_000)
        seen = (await there.info()).received_bytes
        await asyncio.sleep(0.3)
        record = await there.info()
        assert record.paused
        assert record.received_bytes - seen < 2_000_000
        assert not task.done()
        digest = hashlib.sha256()
        while data := await soon(reader.read(300_000)):
            digest.update(data)
        assert digest.digest() == hashlib.sha256(content).digest()
        await soon(task)
        await until(lambda: not there._holds)


async def test_unread_messages_make_the_peer_wait() -> None:
    async with channels(Number) as (here, there):

        async def send() -> None:
            for number in range(2000):
                await here.send(Number(number))

        task = asyncio.ensure_future(send())
        await until(lambda: there._holds)
        assert not task.done()
        got = [await there.get(timeout=PATIENCE) for _ in range(2000)]
        assert got == [Number(number) for number in range(2000)]
        await soon(task)


async def test_streams_have_named_errors() -> None:
    async with channels() as (here, _):
        reader, writer = here.open_stream(1, 1)
        for receive_id, send_id, reason in ((1, 2, "STATE"), (2, 1, "STATE"), (3, 16384, "RANGE")):
            with pytest.raises(StreamError) as raised:
                here.open_stream(receive_id, send_id)
            assert raised.value.reason == reason
        with pytest.raises(ValueError, match="compression"):
            here.open_writer(5, compression="best")  # type: ignore[arg-type]
        writer.write_eof()
        with pytest.raises(StreamError):
            writer.write(b"late")
        writer.close()
        await soon(writer.wait_closed())
        with pytest.raises(StreamError):
            here.open_writer(1)
        assert reader is not None


async def test_an_aborted_stream_does_not_end_for_its_peer_and_hurts_no_other() -> None:
    async with channels() as (here, there):
        writer, other = here.open_writer(1), here.open_writer(2)
        reader, other_reader = there.open_reader(1), there.open_reader(2)
        writer.write(b"x" * 3_000_000)
        writer.transport.abort()
        other.write(b"fine")
        other.close()
        await soon(other.wait_closed())
        assert await all_of(other_reader) == b"fine"
        assert not reader.at_eof()
        with contextlib.suppress(ConnectionError):
            await soon(writer.wait_closed())


async def test_each_message_of_a_writer_is_reported() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, channels=True)
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        channel = link.channel()
        await soon(channel.report_messages())
        async with alice.events(StreamMade) as made:
            writer = channel.open_writer(4, compression="when_smaller")
            writer.write(b"again " * 2000)
            writer.close()
            await soon(writer.wait_closed())
            seen = [await made.get(timeout=PATIENCE)]
            while not seen[-1].eof:
                seen.append(await made.get(timeout=PATIENCE))
        assert sum(each.taken_bytes for each in seen) == 12_000
        assert seen[0].compressed
        assert seen[0].wire_bytes < seen[0].taken_bytes
        assert [each.sequence for each in seen] == list(range(len(seen)))


# ----------------------------------------------------------------------------------- ends


@pytest.mark.slow
async def test_a_peer_without_a_channel_ends_the_link_with_a_reason() -> None:
    async with linked() as (link, other, _):
        channel = link.channel()
        delivery = await soon(channel.send(RawMessage(1, b"anyone?")))
        with pytest.raises(DeliveryError) as raised:
            await delivery.wait(timeout=40)
        assert (raised.value.tries, raised.value.sequence) == (5, 0)
        assert await link.wait_closed(timeout=PATIENCE) is CloseReason.CHANNEL
        with pytest.raises(ChannelClosedError) as closed:
            await channel.send(RawMessage(1, b"late"))
        assert closed.value.close_reason == "CHANNEL"
        with pytest.raises(ChannelClosedError):
            link.channel().open_stream(1, 1)
        assert other is not None


async def test_opening_late_loses_nothing() -> None:
    async with linked() as (link, other, _):
        channel = await soon(link.open_channel(Line))
        assert link.channel() is channel
        await soon(channel.send(Line("early")))
        there = await soon(other.open_channel(Line))
        assert await there.get(timeout=PATIENCE) == Line("early")


async def test_the_end_of_a_link_ends_whoever_waits() -> None:
    async with linked(channels=True) as (link, other, _):
        here, there = link.channel(Line), other.channel(Line)
        reader, writer = here.open_stream(1, 1)
        half, half_writer = here.open_stream(2, 2)
        there_reader, there_writer = there.open_stream(2, 2)
        half_writer.write_eof()
        there_writer.write_eof()
        assert await all_of(half) == await all_of(there_reader) == b""
        await until(lambda: not half_writer.transport.get_write_buffer_size())
        reading = asyncio.ensure_future(reader.read())
        getting = asyncio.ensure_future(here.get())
        iterating = asyncio.ensure_future(_count(there))
        await soon(here.send(Line("last")))
        await until(lambda: not here.under_way)
        await other.close()
        with pytest.raises(ChannelClosedError) as raised:
            await soon(reading)
        assert raised.value.close_reason
        with pytest.raises(ChannelClosedError):
            await soon(getting)
        assert await soon(iterating) == 1
        with pytest.raises(ConnectionError):
            await soon(writer.wait_closed())
        with pytest.raises(ChannelError):
            link.channel().try_send(Line("late"))
        # What had ended in both directions before is whole.
        await soon(half_writer.wait_closed())


async def _count(channel: Channel) -> int:
    return len([each async for each in channel])


async def test_many_streams_share_the_writes_that_the_core_takes() -> None:
    async with channels() as (here, there):
        writers = [here.open_writer(number) for number in range(300)]
        for number, writer in enumerate(writers):
            writer.write(number.to_bytes(2, "big"))
            writer.close()
        for number in range(300):
            assert await all_of(there.open_reader(number)) == number.to_bytes(2, "big")
        await asyncio.wait_for(asyncio.gather(*(each.wait_closed() for each in writers)), PATIENCE)


# --------------------------------------------------------------------------- hostile peers


async def forge(link: Link, envelope: Envelope) -> None:
    """An envelope of the peer's, made by hand."""
    raw = await link.seal(envelope.pack(), context=Context.CHANNEL)
    await link._node.inject(raw, interface=link.interface)


async def test_a_bomb_or_a_broken_message_breaks_its_stream_alone() -> None:
    async with linked(channels=True) as (link, other, _):
        there = other.channel(Line)
        bad, good, none = there.open_reader(1), there.open_reader(2), there.open_reader(0)
        bomb = StreamData(1, bz2.compress(bytes(30_000_000)), compressed=True)
        payloads = [
            StreamData(1, b"before").pack(),
            bomb.pack(),
            StreamData(1, b"after", eof=True).pack(),
            b"\x00",
            StreamData(2, b"fine", eof=True).pack(),
            StreamData(0, b"untouched", eof=True).pack(),
        ]
        for sequence, payload in enumerate(payloads):
            await forge(link, Envelope(0xFF00, sequence, payload))
        assert await all_of(good) == b"fine"
        assert await all_of(none) == b"untouched"
        with pytest.raises(StreamError) as raised:
            await soon(bad.read())
        assert (raised.value.reason, raised.value.stream) == ("LIMIT", 1)
        await forge(link, Envelope(0xFF77, len(payloads), b"system"))
        await forge(link, Envelope(Line.MSGTYPE, len(payloads) + 1, b"still there"))
        assert await there.get(timeout=PATIENCE) == Line("still there")
        assert there.broken == 2  # the one that names no stream, and the unknown type
