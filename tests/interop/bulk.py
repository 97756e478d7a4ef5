"""What tests of large transfers with a live upstream peer share: the peer, where node and peer
meet, and exchanges on a link between them."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import find
from netmesh import DestinationHash, Link, Node, errors
from netmesh.interfaces import UDP, TCPServer
from netmesh.loop import Loop

PEER = Path(__file__).parent / "peers" / "bulk_peer.py"
PATIENCE = 60.0
ATTEMPT_S = 20.0
TRIES = 6
SEGMENT = 1048575
COMPLETE, FAILED, REJECTED = 0x06, 0x07, 0x09
HEAD = """\
[reticulum]
enable_transport = no
share_instance = no
[interfaces]
[[node]]
enabled = yes
"""
TCP_LINES = """\
type = TCPClientInterface
target_host = 127.0.0.1
target_port = {port}
"""
UDP_LINES = """\
type = UDPInterface
listen_ip = {theirs}
listen_port = {port}
forward_ip = {ours}
forward_port = {port}
"""
_numbers = itertools.count(1)


def content(size: int, kind: str = "noise") -> bytes:
    """As the peer makes it."""
    if kind == "noise":
        return hashlib.shake_256(b"%d" % size).digest(size)
    return (b"The quick brown fox %d. " % size * (size // 20 + 1))[:size]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node and a peer meet."""

    interface: Any
    """The node's."""
    lines: str
    """The peer's, as lines of its configuration; ``{port}`` is the node's port."""
    loop: Loop | None = None
    """The node's; None is the process's own."""
    prefix: tuple[str, ...] = ()
    """What stands before the peer's command line."""


def tcp(**options: Any) -> Place:
    """The peer is connected to the node."""
    return Place(TCPServer("127.0.0.1", **options), TCP_LINES)


def udp(ours: str, theirs: str, port: int, **where: Any) -> Place:
    """Datagrams between two addresses."""
    return Place(
        UDP(ours, port, forward_host=theirs, forward_port=port),
        UDP_LINES.format(ours=ours, theirs=theirs, port=port),
        **where,
    )


def loopback(number: int) -> str:
    """An address of the loopback network that no other process uses."""
    pid = os.getpid()
    return f"127.{129 + (pid >> 14 & 63)}.{pid >> 6 & 255}.{1 + ((pid & 63) << 2 | number)}"


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

    @property
    def pid(self) -> int:
        return self._process.pid


@asynccontextmanager
async def meeting(python: str, folder: Path, place: Place) -> AsyncIterator[tuple[Link, Peer]]:
    """A link from a node to a peer, on which the node takes what comes."""
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
        try:
            peer = Peer(process)
            ready = await peer.wait("ready")
            destination = DestinationHash(bytes.fromhex(ready["destination"]))
            await find(node, destination)
            link = await node.connect(destination, timeout=PATIENCE, resources="all")
            await peer.wait("link")
            yield link, peer
        finally:
            process.kill()
            await process.wait()


async def there(
    link: Link, peer: Peer, data: bytes, *, within_s: float = PATIENCE, **options: Any
) -> dict[str, Any]:
    """The node sends; what the peer took."""
    async with asyncio.timeout(within_s):
        sent = await link.send_file(data, **options)
    assert sent.ok
    taken = await peer.wait("taken")  # "broken" ones were cancelled before
    assert taken["size"] == len(data)
    assert taken["digest"] == digest(data)
    return taken


async def back(
    link: Link,
    peer: Peer,
    size: int,
    kind: str = "noise",
    *,
    attempt_s: float = ATTEMPT_S,
    **order: Any,
) -> Any:
    """The peer sends; what the node took.

    Upstream registers a resource only after its advertisement has left (RNS 2, 3.14): what
    comes back at once is lost, now and then for good. So it may have to send again.
    """
    for _ in range(TRIES):
        number = next(_numbers)
        peer.do("send", id=number, size=size, kind=kind, **order)
        try:
            received = await link.receive_file(timeout=attempt_s)
        except TimeoutError:
            continue
        assert digest(received.data) == digest(content(size, kind))
        assert await peer.status_of(number) == COMPLETE
        return received
    raise AssertionError(f"upstream sent {TRIES} times and nothing came")


async def until_idle(link: Link) -> None:
    """Nothing is on its way on the link."""
    async with asyncio.timeout(PATIENCE):
        while await link.transfers():
            await asyncio.sleep(0.01)


async def cancels(link: Link, peer: Peer, *, size: int = 3 * SEGMENT) -> None:
    """Ours and theirs, as sender and as receiver, at once and in the first and the last segment."""
    data = content(size)
    for share in (0, 1 / size, 0.7):
        transfer = await link.start_file(data, compression="off")
        async for made in transfer:
            if made.done_bytes >= share * size:
                break
        transfer.cancel()
        with pytest.raises(errors.TransferError):
            await transfer
        await there(link, peer, b"goes on after our cancel")
    for share in (0.1, 0.7):
        peer.do("cancel_incoming", at=share)
        await peer.wait("ready_to_cancel")
        with pytest.raises(errors.TransferError):
            async with asyncio.timeout(PATIENCE):
                await link.send_file(data, compression="off")
        await there(link, peer, b"goes on after their refusal")
    for share in (0.1, 0.7):
        number = next(_numbers)
        peer.do("send", id=number, size=size, kind="noise", cancel_at=share)
        assert await peer.status_of(number) == FAILED
        await until_idle(link)
        await back(link, peer, 1000)
    for share in (0, 0.1, 0.7):
        await we_cancel_incoming(link, peer, size, share)
        await back(link, peer, 1000)
    assert not link.closed


async def we_cancel_incoming(link: Link, peer: Peer, size: int, share: float) -> None:
    """The peer sends, and the node cancels when it has got so much."""
    number = next(_numbers)
    peer.do("send", id=number, size=size, kind="noise")
    async with asyncio.timeout(PATIENCE):
        while True:
            incoming = [each for each in await link.transfers() if not each.outgoing]
            if incoming and incoming[0].content_done >= share * incoming[0].content_bytes:
                break
            await asyncio.sleep(0.002)
    await link._node.cancel(incoming[0].op)
    assert await peer.status_of(number) == REJECTED
    await until_idle(link)
