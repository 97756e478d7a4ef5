"""Large files from disk to disk: between two nodes in processes of their own, and with a live
upstream peer, both ways, while the memory of our processes is watched.

NETMESH_LARGE_FILES asks for the full size.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interop.bulk import COMPLETE, HEAD, TCP_LINES, content, digest
from interop.upstream import PEERS, TRIES, Peer, spawn

pytestmark = [
    pytest.mark.interop,
    pytest.mark.asyncio,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

MIB = 1 << 20
SIZE = (300 if os.environ.get("NETMESH_LARGE_FILES") else 20) * MIB
GROWTH_MAX = {"noise": 8 * MIB, "text": 16 * MIB}
"""Of each of our processes; bzip2 takes 7.6 MB to squeeze what is worth it."""
PATIENCE_S = 600.0


@asynccontextmanager
async def end(port: int = 0) -> AsyncIterator[Peer]:
    """A node in a process of its own, connected to a port or listening on one."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PEERS / "netmesh_end.py"),
        str(port),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with Peer(process) as peer:
        await peer.wait("ready")
        yield peer


async def told(peer: Peer, what: str, answer: str, **fields: Any) -> dict[str, Any]:
    """An order, and what comes of it."""
    peer.do(what, **fields)
    return await peer.wait(answer, patience_s=PATIENCE_S)


async def grown(*ends: Peer) -> list[int]:
    """How much the memory of each has grown since this was asked last."""
    growth = [(await told(each, "memory", "memory"))["growth"] for each in ends]
    print("grown by", [f"{each / MIB:.1f} MiB" for each in growth])
    return growth


@pytest.fixture(params=["noise", "text"])
def kind(request: pytest.FixtureRequest) -> str:
    """What is sent."""
    return str(request.param)


def written(path: Path, size: int, kind: str) -> str:
    """Writes a file; its digest."""
    data = content(size, kind)
    path.write_bytes(data)
    return digest(data)


async def test_between_two_nodes(tmp_path: Path, kind: str) -> None:
    named = written(tmp_path / "from", SIZE, kind)
    written(tmp_path / "warm", 2 * MIB, kind)
    async with end() as server:
        about = await told(server, "listen", "listens")
        async with end(about["port"]) as client:
            await told(client, "call", "up", destination=about["destination"])
            for name in ("warm", "from"):
                await told(server, "receive", "waits", path=str(tmp_path / "to"))
                await grown(server, client)
                await told(client, "send", "sent", path=str(tmp_path / name))
                taken = await server.wait("taken", patience_s=PATIENCE_S)
            assert (taken["size"], taken["digest"]) == (SIZE, named)
            assert max(await grown(server, client)) <= GROWTH_MAX[kind]


@asynccontextmanager
async def with_upstream(python: str, folder: Path) -> AsyncIterator[tuple[Peer, Peer]]:
    """A node of ours and one of upstream's, and a link between them."""
    async with end() as ours:
        port = (await told(ours, "listen", "listens"))["port"]
        settings = HEAD + TCP_LINES.format(port=port)
        async with spawn(python, folder, settings, program="bulk_peer.py") as theirs:
            await told(ours, "call", "up", destination=theirs.ready["destination"])
            await theirs.wait("link")
            yield ours, theirs


async def test_to_upstream(python: str, tmp_path: Path, kind: str) -> None:
    named = written(tmp_path / "from", SIZE, kind)
    written(tmp_path / "warm", 2 * MIB, kind)
    async with with_upstream(python, tmp_path) as (ours, theirs):
        for name in ("warm", "from"):
            await grown(ours)
            await told(ours, "send", "sent", path=str(tmp_path / name))
            taken = await theirs.wait("taken", patience_s=PATIENCE_S)
        assert (taken["size"], taken["digest"]) == (SIZE, named)
        assert max(await grown(ours)) <= GROWTH_MAX[kind]


async def test_from_upstream(python: str, tmp_path: Path, kind: str) -> None:
    named = written(tmp_path / "from", SIZE, kind)
    async with with_upstream(python, tmp_path) as (ours, theirs):
        for size in (2 * MIB, SIZE):
            await told(ours, "receive", "waits", path=str(tmp_path / "to"))
            await grown(ours)
            await upstream_sends(ours, theirs, size, kind)
            taken = await ours.wait("taken", patience_s=PATIENCE_S)
        assert (taken["size"], taken["digest"]) == (SIZE, named)
        assert max(await grown(ours)) <= GROWTH_MAX[kind]


async def upstream_sends(ours: Peer, theirs: Peer, size: int, kind: str) -> None:
    """Until it arrives: what it loses by itself, it has to send again (see :func:`bulk.back`)."""
    for _ in range(TRIES):
        number = theirs.do("send", size=size, kind=kind)
        sent = await theirs.wait("sent", patience_s=PATIENCE_S, id=number)
        if sent["status"] == COMPLETE:
            return
    raise AssertionError(f"upstream sent {TRIES} times and nothing came")
