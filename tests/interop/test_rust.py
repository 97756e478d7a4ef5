"""A node and live processes of the Rust stacks, both ways round.

The processes are the adapters that the benchmark report uses (``benchmarks/README.md`` has
their protocol); the tests run where they have been built.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from netmesh import Node
from netmesh.constants import Method
from netmesh.interfaces import TCPClient, TCPServer

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(120)]

RUST = Path(__file__).resolve().parents[2] / "benchmarks" / "rust"
PATIENCE = 40.0
TAG = b"@netmesh "
NAME = "netmesh.bench"
MANY = 200
SIZES = (1, 431, 16_384, (1 << 20) - 1, 1 << 20, (2 << 20) - 1)
"""Resources: of a packet, of a part more or less, of one segment, of two and of three."""


class Program:
    """A running adapter: one request, one answer."""

    def __init__(self, process: asyncio.subprocess.Process, payloads: Path) -> None:
        self._process = process
        self._payloads = payloads

    async def ask(self, op: str, **fields: str | int) -> dict[str, Any]:
        answer = await self.attempt(op, **fields)
        assert answer["ok"], f"{op}: {answer['error']}"
        return answer

    async def attempt(self, op: str, **fields: str | int) -> dict[str, Any]:
        """Asks, whatever the answer says."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"op": op, **fields}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            while True:
                line = await self._process.stdout.readline()
                assert line, f"the peer ended instead of answering {op}"
                if line.startswith(TAG):
                    return dict(json.loads(line[len(TAG) :]))

    async def listen(self) -> int:
        """Opens it as a server on a port that is free, and gives the port."""
        for _ in range(10):
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))
                port = int(found.getsockname()[1])
            # Another process may take the port before the peer does.
            if (await self.attempt("open", role="server", port=port))["ok"]:
                return port
        pytest.fail("the peer listens on no port")

    async def prepare(
        self,
        kind: str,
        payloads: Sequence[bytes] = (),
        *,
        samples: int = 1,
        compress: int = 0,
        **known: str,
    ) -> dict[str, Any]:
        """Prepares a row; the payloads have one size."""
        self._payloads.write_bytes(b"".join(payloads))
        return await self.ask(
            "prepare",
            kind=kind,
            row="interop",
            file=str(self._payloads),
            size=len(payloads[0]) if payloads else 0,
            items=len(payloads),
            samples=samples,
            compress=compress,
            **known,
        )

    async def run(self, count: int) -> dict[str, Any]:
        """Takes samples, all of which must end well."""
        ran = await self.ask("run", count=count, pace_us=0, timeout_ms=30_000)
        assert ran["failed"] == 0, ran["error"]
        assert len(ran["samples"]) == count
        return ran


@cache
def built(path: Path) -> bool:
    """Whether the adapter is there and as new as its protocol."""
    if not path.is_file():
        return False
    return b'"kinds"' in subprocess.run([path, "--list"], capture_output=True, timeout=40).stdout


@asynccontextmanager
async def program(peer: str, folder: Path) -> AsyncIterator[Program]:
    """A peer, without an open node; the test is skipped when it is not built."""
    path = RUST / peer / "target" / "release" / "adapter"
    if not built(path):
        pytest.skip(f"{peer} is not built: 'benchmarks/rust/build.sh {peer}' builds it")
    process = await asyncio.create_subprocess_exec(
        path,
        "--nodelay",
        "--node",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 22,
    )
    try:
        yield Program(process, folder / "payloads")
    finally:
        process.kill()
        await process.communicate()


def check(payloads: Sequence[bytes]) -> str:
    """What tells an adapter's payloads: the XOR of their digests."""
    total = 0
    for payload in payloads:
        total ^= int.from_bytes(hashlib.sha256(payload).digest())
    return total.to_bytes(32).hex()


@asynccontextmanager
async def serving(
    peer: str, kind: str, folder: Path
) -> AsyncIterator[tuple[Node, Program, dict[str, Any]]]:
    """A peer that serves, and a node that is connected to it and has not heard of it."""
    async with program(peer, folder) as server:
        port = await server.listen()
        hosted = await server.prepare(kind, samples=3)
        await server.ask("announce")  # Nobody hears it, but rns-rs tells of no path before.
        async with Node(interfaces=[TCPClient("127.0.0.1", port)]) as node:
            await node.interfaces()[0].wait_online(timeout=PATIENCE)
            yield node, server, hosted


@asynccontextmanager
async def calling(peer: str, folder: Path) -> AsyncIterator[tuple[Node, Program]]:
    """A node that serves, and a peer that is connected to it."""
    async with (
        program(peer, folder) as client,
        Node(interfaces=[TCPServer("127.0.0.1")]) as node,
    ):
        port = node.interfaces()[0].port
        assert port
        await client.ask("open", role="client", port=port)
        yield node, client


@pytest.mark.parametrize("peer", ["rns-rs", "lxmf-rs"])
async def test_the_node_calls_the_peer(peer: str, tmp_path: Path) -> None:
    async with serving(peer, "resource", tmp_path) as (node, server, hosted):
        to = bytes.fromhex(hosted["destination"])
        arriving = []
        for _ in range(3):
            async with await node.connect(to, timeout=PATIENCE) as link:
                assert link.mtu > 500
                for size in (0, 1, 300):
                    data = os.urandom(size)
                    answer = await link.request("/bench", data, timeout=PATIENCE)
                    assert answer.data == data[::-1]
                    arriving.append(data)
                for size in SIZES:
                    data = os.urandom(size)
                    sent = await link.send_file(data, compression="off", timeout=PATIENCE)
                    assert sent.ok
                    arriving.append(data)
                data = os.urandom(5000) * 200
                assert (await link.send_file(data, timeout=PATIENCE)).ok
                arriving.append(data)
        for _ in range(20):
            data = os.urandom(32)
            assert (await (await node.send(to, data)).wait(timeout=PATIENCE)).ok
            arriving.append(data)
        got = await server.ask("collect", expect=len(arriving))
        assert (got["count"], got["check"]) == (len(arriving), check(arriving))


@pytest.mark.parametrize("peer", ["rns-rs", "lxmf-rs"])
async def test_the_node_finds_destinations_of_the_peer(peer: str, tmp_path: Path) -> None:
    async with serving(peer, "discovery", tmp_path) as (node, _, hosted):
        unheard = bytes.fromhex(hosted["destinations"])
        for at in range(0, len(unheard), 16):
            path = await node.path(unheard[at : at + 16], timeout=PATIENCE)
            assert path.hops == 1


@pytest.mark.parametrize("peer", ["rns-rs", "lxmf-rs"])
async def test_the_peer_calls_the_node(peer: str, tmp_path: Path) -> None:
    async with calling(peer, tmp_path) as (node, client):
        here = await node.listen(NAME, prove="all", resources="all")
        await here.add_handler("/bench", lambda request: request.data[::-1])
        assert here.identity
        known = {"destination": here.hash.hex(), "key": here.identity.public_key.hex()}
        await client.prepare("discovery", destinations=here.hash.hex(), **known)
        await client.run(1)
        await client.prepare("link", **known)
        await client.run(5)
        for _ in range(5):
            link = await here.links.get(timeout=PATIENCE)
            await link.wait_closed(timeout=PATIENCE)
        sent = [os.urandom(300) for _ in range(5)]
        await client.prepare("request", sent, **known)
        ran = await client.run(5)
        assert ran["check"] == check([data[::-1] for data in sent])
        await here.links.get(timeout=PATIENCE)
        await client.prepare("packet", sent, **known)
        await client.run(5)
        for data in sent:
            assert (await here.packets.get(timeout=PATIENCE)).data == data
        for size in SIZES:
            sent = [os.urandom(size) for _ in range(3)]
            await client.prepare("resource", sent, **known)
            await client.run(3)
            link = await here.links.get(timeout=PATIENCE)
            for data in sent:
                assert (await link.receive_file(timeout=PATIENCE)).data == data
        sent = [os.urandom(5000) * 200]
        await client.prepare("resource", sent, compress=1, **known)
        await client.run(1)
        link = await here.links.get(timeout=PATIENCE)
        assert (await link.receive_file(timeout=PATIENCE)).data == sent[0]


async def test_many_links_to_the_peer_are_open_at_once(tmp_path: Path) -> None:
    async with serving("rns-rs", "links", tmp_path) as (node, server, hosted):
        to = bytes.fromhex(hosted["destination"])
        await node.path(to, timeout=PATIENCE)
        links = await asyncio.gather(*(node.connect(to, timeout=PATIENCE) for _ in range(MANY)))
        for number, link in enumerate(links):
            await link.send(number.to_bytes(16), proof=False)
        got = await server.ask("collect", expect=MANY)
        assert got["count"] == len(got["stamps"]) == MANY


async def test_many_links_of_the_peer_are_open_at_once(tmp_path: Path) -> None:
    async with calling("rns-rs", tmp_path) as (node, client):
        here = await node.listen(NAME)
        assert here.identity
        known = {"destination": here.hash.hex(), "key": here.identity.public_key.hex()}
        await client.prepare("discovery", destinations=here.hash.hex(), **known)
        await client.run(1)
        await client.prepare("links", **known)
        await client.ask("run", count=MANY, pace_us=0, timeout_ms=30_000)
        numbers = set()
        for _ in range(MANY):
            link = await here.links.get(timeout=PATIENCE)
            numbers.add((await link.packets.get(timeout=PATIENCE)).data)
        assert numbers == {number.to_bytes(16) for number in range(MANY)}


async def test_messages_go_to_the_peer(tmp_path: Path) -> None:
    async with serving("lxmf-rs", "direct", tmp_path) as (node, server, hosted):
        to = bytes.fromhex(hosted["destination"])
        mailbox = await node.lxmf(display_name="node")
        await mailbox.announce()
        await server.ask("meet", destination=mailbox.hash.hex())
        arriving = []
        for size, method in ((1, "opportunistic"), (256, "direct"), (60_000, "direct")):
            for _ in range(3):
                content = os.urandom(size).hex().encode()[:size]
                sent = await mailbox.send(to, content, method=method, timeout=PATIENCE)
                assert sent.id
                arriving.append(content)
        got = await server.ask("collect", expect=len(arriving))
        assert (got["count"], got["check"]) == (len(arriving), check(arriving))


async def test_messages_come_from_the_peer(tmp_path: Path) -> None:
    async with calling("lxmf-rs", tmp_path) as (node, client):
        mailbox = await node.lxmf(display_name="node")
        known = {"destination": mailbox.hash.hex(), "key": mailbox.identity.public_key.hex()}
        ways = (
            ("opportunistic", 200, Method.OPPORTUNISTIC),
            ("direct", 256, Method.DIRECT),
            ("cold", 256, Method.DIRECT),
            ("deliver", 60_000, Method.DIRECT),
        )
        for kind, size, method in ways:
            sent = [os.urandom(size).hex().encode()[:size] for _ in range(3)]
            source = await client.prepare(kind, sent, **known)
            await mailbox.announce()
            await client.ask("meet", destination=mailbox.hash.hex())
            heard = node.announces("lxmf.delivery")
            await client.ask("announce")
            assert (await heard.get(timeout=PATIENCE)).destination.hex() == source["source"]
            await client.run(3)
            for content in sent:
                message = await mailbox.get(timeout=PATIENCE)
                assert message.content.encode() == content
                assert message.verified
                assert message.method == method
                assert message.source.hex() == source["source"]
