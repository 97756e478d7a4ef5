"""Channels and buffers with a live upstream process, in both directions.

With the release that is installed here and, when NETMESH_OLD_PEER_PYTHON names an interpreter
that has one, with an older one. Upstream repeats messages by itself until they are proven, so
nothing here has to be asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interop.bulk import HEAD, Place, loopback, tcp, udp
from interop.upstream import find
from netmesh import Link, Node
from netmesh.channels import Channel, TypedMessage
from netmesh.errors import ChannelClosedError

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(120)]

PEER = Path(__file__).parent / "peers" / "channel_peer.py"
PATIENCE = 40.0
NAME = "netmesh.channels"


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
class Blob(TypedMessage):
    """Bytes."""

    MSGTYPE = 0x0102
    data: bytes

    def pack(self) -> bytes:
        return self.data

    @classmethod
    def unpack(cls, data: bytes) -> Blob:
        return cls(data)


def content(seed: str, size: int, kind: str = "random") -> bytes:
    """Bytes that both sides can make."""
    if kind == "text":
        line = f"{seed} all work and no play. ".encode()
        return (line * (size // len(line) + 1))[:size]
    return hashlib.shake_256(seed.encode()).digest(size)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def lines(count: int) -> list[str]:
    return [*(f"line {number}" for number in range(count)), "end"]


class Peer:
    """The upstream process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._events: list[dict[str, Any]] = []

    def do(self, what: str, **fields: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": what, **fields}).encode() + b"\n")

    async def wait(self, event: str, **fields: Any) -> dict[str, Any]:
        """The next event of a kind with these fields; others are kept."""
        assert self._process.stdout
        async with asyncio.timeout(PATIENCE):
            while True:
                for at, each in enumerate(self._events):
                    if each["event"] == event and fields.items() <= each.items():
                        return self._events.pop(at)
                line = await self._process.stdout.readline()
                assert line, "the peer ended"
                self._events.append(json.loads(line))


@asynccontextmanager
async def meeting(python: str, folder: Path, place: Place) -> AsyncIterator[tuple[Node, Peer, str]]:
    """A node, the peer, and the peer's destination."""
    async with Node(interfaces=[place.interface], loop=place.loop) as node:
        port = node.interfaces()[0].port
        (folder / "config").write_text(HEAD + place.lines.format(port=port))
        process = await asyncio.create_subprocess_exec(
            *place.prefix,
            *(python, str(PEER), str(folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 22,
        )
        peer = Peer(process)
        try:
            yield node, peer, (await peer.wait("ready"))["destination"]
        finally:
            process.kill()
            await process.communicate()


@asynccontextmanager
async def talking(
    python: str, folder: Path, *, who_opens: str = "we", place: Place | None = None
) -> AsyncIterator[tuple[Link, Channel, Peer]]:
    """A link that one of both opened, and both channels open."""
    async with meeting(python, folder, place or tcp()) as (node, peer, destination):
        theirs = bytes.fromhex(destination)
        await find(node, theirs)  # the peer asks once alone, so its interface has to be up
        if who_opens == "we":
            link = await node.connect(theirs, timeout=PATIENCE)
        else:
            own = await node.listen(NAME, channels=True)
            peer.do("connect", destination=own.hash.hex())
            link = await own.links.get(timeout=PATIENCE)
        channel = await link.open_channel(Line, Blob)
        opened = await peer.wait("open")
        assert opened["mdu"] == channel.mdu
        yield link, channel, peer


@pytest.fixture(params=["we", "they"])
def who_opens(request: pytest.FixtureRequest) -> str:
    """Who opens the link."""
    return str(request.param)


async def all_of(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(), PATIENCE)


async def messages(channel: Channel, peer: Peer, count: int) -> None:
    """So many lines both ways, in order, and the longest message there and back."""
    peer.do("send_lines", count=count)
    deliveries = [await channel.send(Line(text)) for text in lines(count)]
    got = [await channel.get(timeout=PATIENCE) for _ in range(count + 1)]
    assert got == [Line(text) for text in lines(count)]
    told = await peer.wait("lines")
    assert told["count"] == count + 1
    assert told["hash"] == digest("\n".join(lines(count)).encode())
    for delivery in deliveries:
        assert (await delivery.wait(timeout=PATIENCE)).ok
    largest = content("largest", channel.mdu)
    peer.do("echo", on=True)
    await peer.wait("echoes")
    await channel.send(Blob(largest))
    assert (await peer.wait("blob", size=channel.mdu))["hash"] == digest(largest)
    assert await channel.get(timeout=PATIENCE) == Blob(largest)


async def streams(channel: Channel, peer: Peer, ours: int, theirs: int) -> None:
    """A stream of so many bytes each way at once, to its end."""
    peer.do("read", streams=[1])
    await peer.wait("reads")
    reader, writer = channel.open_reader(3), channel.open_writer(1)
    peer.do("write", stream=3, seed="theirs 3", size=theirs, kind="random")
    writer.write(content("ours 1", ours))
    writer.close()
    assert digest(await all_of(reader)) == digest(content("theirs 3", theirs))
    await peer.wait("written", stream=3)
    told = await peer.wait("stream", stream=1)
    assert (told["size"], told["hash"]) == (ours, digest(content("ours 1", ours)))
    await asyncio.wait_for(writer.wait_closed(), PATIENCE)


async def test_messages_arrive_in_order_in_both_directions(
    python: str, who_opens: str, tmp_path: Path
) -> None:
    async with talking(python, tmp_path, who_opens=who_opens) as (_, channel, peer):
        await messages(channel, peer, 200)


async def test_streams_of_both_ends_arrive_whole(
    python: str, who_opens: str, tmp_path: Path
) -> None:
    ours = {1: ("ours 1", 60_000, "random"), 2: ("ours 2", 300_000, "text"), 9: ("o", 1, "random")}
    theirs = {3: ("theirs 3", 40_000, "random"), 16383: ("theirs max", 200_000, "text")}
    async with talking(python, tmp_path, who_opens=who_opens) as (_, channel, peer):
        peer.do("read", streams=list(ours))
        await peer.wait("reads")
        readers = {stream: channel.open_reader(stream) for stream in theirs}
        writers = {
            stream: channel.open_writer(stream, compression="when_smaller") for stream in ours
        }
        for stream, (seed, size, kind) in theirs.items():
            peer.do("write", stream=stream, seed=seed, size=size, kind=kind)
        for stream, made in ours.items():
            writers[stream].write(content(*made))
            writers[stream].close()
        for stream, made in theirs.items():
            assert digest(await all_of(readers[stream])) == digest(content(*made))
            await peer.wait("written", stream=stream)
        for stream, made in ours.items():
            told = await peer.wait("stream", stream=stream)
            assert (told["size"], told["hash"]) == (made[1], digest(content(*made)))
            await asyncio.wait_for(writers[stream].wait_closed(), PATIENCE)
        record = await channel.info()
        # The text went compressed, theirs as well as ours.
        assert record.sent_bytes < 200_000
        assert record.received_bytes < 150_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127/8")
async def test_streams_of_both_ends_arrive_whole_in_datagrams(python: str, tmp_path: Path) -> None:
    place = udp(loopback(0), loopback(1), 4243)
    async with talking(python, tmp_path, place=place) as (link, channel, peer):
        assert link.mtu == 500
        await streams(channel, peer, 60_000, 40_000)


async def test_a_bidirectional_buffer_answers_lines_until_it_is_half_closed(
    python: str, tmp_path: Path
) -> None:
    async with talking(python, tmp_path) as (link, channel, peer):
        peer.do("converse", receive=5, send=6)
        await peer.wait("converses")
        reader, writer = channel.open_stream(receive_id=6, send_id=5)
        for number in range(20):
            writer.write(f"question {number}\n".encode())
            answer = await asyncio.wait_for(reader.readline(), PATIENCE)
            assert answer == f"QUESTION {number}\n".encode()
        writer.write_eof()
        # Our end of the stream is theirs to see; what they write goes on.
        peer.do("write", stream=7, seed="more", size=5000, kind="random")
        assert await all_of(channel.open_reader(7)) == content("more", 5000)
        peer.do("close")
        await link.wait_closed(timeout=PATIENCE)
        with pytest.raises(ChannelClosedError):
            await all_of(reader)


async def test_a_burst_of_lines_through_a_window_of_one(python: str, tmp_path: Path) -> None:
    async with talking(python, tmp_path) as (link, _, peer):
        # A round-trip time above 1.45 s would leave the window at one; this is as narrow.
        channel = link.channel()
        channel._window = 1
        for text in lines(600):
            delivery = await channel.send(Line(text))
            await delivery.wait(timeout=PATIENCE)
            assert channel.under_way == 0
        told = await peer.wait("lines")
        assert told["count"] == 601
        assert told["hash"] == digest("\n".join(lines(600)).encode())


async def test_upstream_is_made_to_wait_for_a_program_that_reads_slowly(
    python: str, tmp_path: Path
) -> None:
    async with talking(python, tmp_path) as (link, channel, peer):
        peer.do("send_lines", count=400)
        for number, text in enumerate(lines(400)):
            assert await channel.get(timeout=PATIENCE) == Line(text)
            if number % 50 == 0:
                await asyncio.sleep(0.05)
        assert not link.closed
