"""Channels and buffers with a live upstream process, in both directions.

With the release that is installed here and, when NETMESH_OLD_PEER_PYTHON names an interpreter
that has one, with an older one. Upstream repeats messages by itself until they are proven, so
nothing here has to be asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from netmesh import Link, Node
from netmesh.channels import Channel, TypedMessage
from netmesh.errors import ChannelClosedError
from netmesh.interfaces import UDP, TCPServer

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(120)]

PEER = Path(__file__).parent / "peers" / "channel_peer.py"
PATIENCE = 40.0
NAME = "netmesh.channels"
CONFIG = """\
[reticulum]
enable_transport = no
share_instance = no
[interfaces]
[[node]]
type = TCPClientInterface
enabled = yes
target_host = 127.0.0.1
target_port = {port}
"""
UDP_CONFIG = """\
[reticulum]
enable_transport = no
share_instance = no
[interfaces]
[[node]]
type = UDPInterface
enabled = yes
listen_ip = {theirs}
listen_port = 4243
forward_ip = {ours}
forward_port = 4243
"""


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


@pytest.fixture(params=["current", "old"])
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter of the peer."""
    if request.param == "current":
        return sys.executable
    old = os.environ.get("NETMESH_OLD_PEER_PYTHON", "")
    if not Path(old).is_file():
        pytest.skip("NETMESH_OLD_PEER_PYTHON names no interpreter")
    return old


def loopback(number: int) -> str:
    """An address of the loopback network that no other process uses."""
    pid = os.getpid()
    return f"127.{192 + (pid >> 14 & 63)}.{pid >> 6 & 255}.{1 + ((pid & 63) << 2 | number)}"


@asynccontextmanager
async def meeting(
    python: str, folder: Path, *, datagrams: bool = False
) -> AsyncIterator[tuple[Node, Peer, str]]:
    """A node, the peer connected to it, and the peer's destination."""
    ours, theirs = loopback(0), loopback(1)
    interface = (
        UDP(ours, 4243, forward_host=theirs, forward_port=4243)
        if datagrams
        else TCPServer("127.0.0.1")
    )
    async with Node(interfaces=[interface]) as node:
        port = node.interfaces()[0].port
        (folder / "config").write_text(
            UDP_CONFIG.format(ours=ours, theirs=theirs) if datagrams else CONFIG.format(port=port)
        )
        process = await asyncio.create_subprocess_exec(
            python,
            str(PEER),
            str(folder),
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
    python: str, folder: Path, *, who_opens: str = "we", datagrams: bool = False
) -> AsyncIterator[tuple[Link, Channel, Peer]]:
    """A link that one of both opened, and both channels open."""
    async with meeting(python, folder, datagrams=datagrams) as (node, peer, destination):
        if who_opens == "we":
            link = await node.connect(bytes.fromhex(destination), timeout=PATIENCE)
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


async def test_messages_arrive_in_order_in_both_directions(
    python: str, who_opens: str, tmp_path: Path
) -> None:
    async with talking(python, tmp_path, who_opens=who_opens) as (_, channel, peer):
        peer.do("send_lines", count=200)
        deliveries = [await channel.send(Line(text)) for text in lines(200)]
        got = [await channel.get(timeout=PATIENCE) for _ in range(201)]
        assert got == [Line(text) for text in lines(200)]
        told = await peer.wait("lines")
        assert told["count"] == 201
        assert told["hash"] == digest("\n".join(lines(200)).encode())
        for delivery in deliveries:
            assert (await delivery.wait(timeout=PATIENCE)).ok
        # The longest message that the link takes, there and back.
        largest = content("largest", channel.mdu)
        peer.do("echo", on=True)
        await peer.wait("echoes")
        await channel.send(Blob(largest))
        assert (await peer.wait("blob", size=channel.mdu))["hash"] == digest(largest)
        assert await channel.get(timeout=PATIENCE) == Blob(largest)


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
    ours, theirs = ("ours 1", 60_000, "random"), ("theirs 3", 40_000, "random")
    async with talking(python, tmp_path, datagrams=True) as (link, channel, peer):
        assert link.mtu == 500
        peer.do("read", streams=[1])
        await peer.wait("reads")
        reader, writer = channel.open_reader(3), channel.open_writer(1)
        peer.do("write", stream=3, seed=theirs[0], size=theirs[1], kind=theirs[2])
        writer.write(content(*ours))
        writer.close()
        assert digest(await all_of(reader)) == digest(content(*theirs))
        await peer.wait("written", stream=3)
        told = await peer.wait("stream", stream=1)
        assert (told["size"], told["hash"]) == (ours[1], digest(content(*ours)))
        await asyncio.wait_for(writer.wait_closed(), PATIENCE)


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
