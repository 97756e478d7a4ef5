"""Resources of several segments with a live upstream peer, both ways: sizes around the segment
boundaries, files on disk, metadata, requests and responses, cancelled in every phase.

With the release that is installed here and, when NETMESH_OLD_PEER_PYTHON names an interpreter
that has one, with an older one.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from netmesh import DestinationHash, Link, Node, errors
from netmesh.interfaces import UDP, TCPServer

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(300)]

PEER = Path(__file__).parent / "peers" / "bulk_peer.py"
PATIENCE = 60.0
ATTEMPT_S = 20.0
TRIES = 6
SEGMENT = 1048575
COMPLETE, FAILED = 0x06, 0x07
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
listen_port = 4242
forward_ip = {ours}
forward_port = 4242
"""
NUMBERS = itertools.count(1)
BOUNDARIES = [k * SEGMENT + more for k in (1, 2, 3) for more in range(-2, 3)]
SOME = [SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 2 * SEGMENT + 1]


def content(size: int, kind: str = "noise") -> bytes:
    """As the peer makes it."""
    if kind == "noise":
        return random.Random(size).randbytes(size)
    return (b"The quick brown fox %d. " % size * (size // 20 + 1))[:size]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Peer:
    """The upstream process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def do(self, what: str, **fields: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": what, **fields}).encode() + b"\n")

    async def wait(self, *events: str, patience_s: float = PATIENCE) -> dict[str, Any]:
        """The next event of one of these kinds; others are passed over."""
        assert self._process.stdout
        async with asyncio.timeout(patience_s):
            while True:
                line = await self._process.stdout.readline()
                assert line, "the peer ended"
                event: dict[str, Any] = json.loads(line) if line.startswith(b"{") else {}
                if event.get("event") in events:
                    return event

    async def status_of(self, number: int) -> int:
        """How something that it sent has ended; others may have ended before."""
        while (done := await self.wait("sent"))["id"] != number:
            pass
        status: int = done["status"]
        return status


@pytest.fixture(params=["current", "old"])
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter of an upstream release."""
    if request.param == "current":
        return sys.executable
    old = os.environ.get("NETMESH_OLD_PEER_PYTHON", "")
    if not Path(old).is_file():
        pytest.skip("NETMESH_OLD_PEER_PYTHON names no interpreter")
    return old


def loopback(number: int) -> str:
    """An address of the loopback network that no other process uses."""
    pid = os.getpid()
    return f"127.{129 + (pid >> 14 & 63)}.{pid >> 6 & 255}.{1 + ((pid & 63) << 2 | number)}"


@asynccontextmanager
async def meeting(
    python: str, folder: Path, *, datagrams: bool = False, **options: Any
) -> AsyncIterator[tuple[Link, Peer]]:
    """A link from a node to a peer, on which the node takes what comes."""
    ours, theirs = loopback(0), loopback(1)
    interface = (
        UDP(ours, 4242, forward_host=theirs, forward_port=4242)
        if datagrams
        else TCPServer("127.0.0.1", **options)
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
        try:
            peer = Peer(process)
            ready = await peer.wait("ready")
            destination = DestinationHash(bytes.fromhex(ready["destination"]))
            await node.path(destination, timeout=PATIENCE)
            link = await node.connect(destination, timeout=PATIENCE, resources="all")
            await peer.wait("link")
            yield link, peer
        finally:
            process.kill()
            await process.wait()


async def there(link: Link, peer: Peer, data: bytes, **options: Any) -> dict[str, Any]:
    """The node sends; what the peer took."""
    async with asyncio.timeout(PATIENCE):
        sent = await link.send_file(data, **options)
    assert sent.ok
    taken = await peer.wait("taken")  # "broken" ones were cancelled before
    assert taken["size"] == len(data)
    assert taken["digest"] == digest(data)
    return taken


async def back(link: Link, peer: Peer, size: int, kind: str = "noise", **order: Any) -> Any:
    """The peer sends; what the node took.

    Upstream registers a resource only after its advertisement has left (RNS 2, 3.14): what
    comes back at once is lost, now and then for good. So it may have to send again.
    """
    for _ in range(TRIES):
        number = next(NUMBERS)
        peer.do("send", id=number, size=size, kind=kind, **order)
        try:
            received = await link.receive_file(timeout=ATTEMPT_S)
        except TimeoutError:
            continue
        assert digest(received.data) == digest(content(size, kind))
        assert await peer.status_of(number) == COMPLETE
        return received
    raise AssertionError(f"upstream sent {TRIES} times and nothing came")


async def test_sizes_around_segments_arrive_both_ways(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path) as (link, peer):
        for size in SOME:
            await there(link, peer, content(size), compression="off")
            await back(link, peer, size)


@pytest.mark.slow
async def test_every_size_around_segments_arrives_both_ways(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path) as (link, peer):
        for size in BOUNDARIES:
            await there(link, peer, content(size), compression="off")
            await back(link, peer, size)


async def test_small_parts_need_many_hashmap_updates(python: str, tmp_path: Path) -> None:
    """With the base MTU a segment has 2260 parts and 31 pieces of hash map."""
    async with meeting(python, tmp_path, mtu=500) as (link, peer):
        assert link.mtu == 500
        await there(link, peer, content(SEGMENT + 1), compression="off")
        await back(link, peer, SEGMENT + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127/8")
@pytest.mark.parametrize("largest", [100_000, pytest.param(SEGMENT + 1, marks=pytest.mark.slow)])
async def test_files_arrive_both_ways_in_datagrams(
    python: str, tmp_path: Path, largest: int
) -> None:
    async with meeting(python, tmp_path, datagrams=True) as (link, peer):
        assert link.mtu == 500
        for size in (1, 20_000, largest):
            await there(link, peer, content(size), compression="off")
            await back(link, peer, size)


async def test_text_and_metadata_arrive_both_ways(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path) as (link, peer):
        size = 2 * SEGMENT + 17
        metadata = {"name": "a file", "n": 3}
        for compression in ("when_smaller", "automatic", "off"):
            taken = await there(
                link, peer, content(size, "text"), compression=compression, metadata=metadata
            )
            assert taken["metadata"] == metadata
        received = await back(link, peer, size, "text", metadata=metadata)
        assert received.metadata == metadata
        # The metadata block makes the difference between one segment and two.
        for edge in (SEGMENT - 25, SEGMENT - 20, SEGMENT - 1):
            await there(link, peer, content(edge), compression="off", metadata=metadata)
            assert (await back(link, peer, edge, metadata=metadata)).metadata == metadata


async def test_files_go_from_disk_to_disk(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path) as (link, peer):
        path = tmp_path / "from"
        path.write_bytes(content(3 * SEGMENT))
        async with asyncio.timeout(PATIENCE):
            await link.send_file(path, compression="off")
        taken = await peer.wait("taken", "broken")
        assert taken.get("digest") == digest(path.read_bytes())
        for _ in range(TRIES):  # see back()
            peer.do("send", id=next(NUMBERS), size=3 * SEGMENT, kind="noise")
            try:
                received = await link.receive_file(tmp_path / "to", timeout=ATTEMPT_S)
            except TimeoutError:
                continue
            break
        assert received.path == tmp_path / "to"
        assert digest(received.path.read_bytes()) == digest(content(3 * SEGMENT))


async def test_requests_and_responses_of_several_segments(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path) as (link, _):
        data = content(2 * SEGMENT + 5)
        for path, question, answer in (
            ("/large", 2 * SEGMENT + 1, content(2 * SEGMENT + 1)),
            ("/echo", data, data),
        ):
            # Upstream's responder loses a response resource now and then as back() says.
            for _ in range(TRIES):
                try:
                    done = await link.request(path, question, timeout=ATTEMPT_S)
                except errors.RequestError:
                    continue
                break
            assert digest(done.data) == digest(answer)


async def test_a_cancel_is_final_in_every_phase(python: str, tmp_path: Path) -> None:
    """Ours and theirs, as sender and as receiver, in the first and in the second segment."""
    async with meeting(python, tmp_path, mtu=1064) as (link, peer):
        data = content(3 * SEGMENT)
        for phase in (0, 1, SEGMENT + 100):
            transfer = await link.start_file(data, compression="off")
            async for made in transfer:
                if made.done_bytes >= phase:
                    break
            transfer.cancel()
            with pytest.raises(errors.TransferError):
                await transfer
            await there(link, peer, b"goes on after our cancel")
        for share in (0.1, 0.5):
            peer.do("cancel_incoming", at=share)
            await peer.wait("ready_to_cancel")
            with pytest.raises(errors.TransferError):
                async with asyncio.timeout(PATIENCE):
                    await link.send_file(data, compression="off")
            await there(link, peer, b"goes on after their refusal")
        for share in (0.1, 0.5):
            number = next(NUMBERS)
            peer.do("send", id=number, size=3 * SEGMENT, kind="noise", cancel_at=share)
            assert await peer.status_of(number) == FAILED
            await until_idle(link)
            await back(link, peer, 1000)
        assert not link.closed


async def until_idle(link: Link) -> None:
    """Nothing is on its way on the link."""
    async with asyncio.timeout(PATIENCE):
        while await link.transfers():
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["noise", "text"])
@pytest.mark.parametrize(
    "mebibytes",
    [
        50,
        pytest.param(
            300,
            marks=pytest.mark.skipif(
                not os.environ.get("NETMESH_LARGE_FILES"), reason="NETMESH_LARGE_FILES is not set"
            ),
        ),
    ],
)
async def test_large_files_arrive_both_ways(
    python: str, tmp_path: Path, kind: str, mebibytes: int
) -> None:
    size = mebibytes << 20
    patience_s = PATIENCE * max(4, mebibytes / 20)
    data = content(size, kind)
    async with meeting(python, tmp_path) as (link, peer):
        async with asyncio.timeout(patience_s):
            await link.send_file(data)
        taken = await peer.wait("taken", "broken", patience_s=patience_s)
        assert taken.get("digest") == digest(data)
        peer.do("send", id=1, size=size, kind=kind)
        received = await link.receive_file(timeout=patience_s)
        assert digest(received.data) == digest(data)
