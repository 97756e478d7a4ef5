"""Lists of blackholed identities, given to a live upstream node and taken from it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from interop.upstream import PATIENCE, client, config, spawn
from netmesh import Identity, Node
from netmesh.interfaces import TCPServer

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(300)]

POLLED_S = 150.0
"""Upstream asks 20 s after its start, and looks every minute whether it has to ask again."""


async def test_lists_of_blackholes_go_both_ways(python: str, tmp_path: Path) -> None:
    """N2: who, from whom, until when and why."""
    theirs, ours = Identity(), Identity()
    first, second = Identity().hash, Identity().hash
    until = float(int(time.time()) + 86400)
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "transport_identity").write_bytes(theirs.private_key)
    server = TCPServer("127.0.0.1")
    lists = {"publish_blackholes": True, "blackhole_sources": [theirs.hash]}
    async with Node(ours, interfaces=[server], transport=True, **lists) as node:
        port = node.interfaces()[0].port
        assert port
        await node.blackhole(second, until_unix_s=until, reason="noise")
        rules = {"publish_blackhole": "yes", "blackhole_sources": ours.hash.hex()}
        settings = config({"node": client(port)}, transport=True, **rules)
        async with spawn(python, tmp_path, settings) as peer:
            await peer.call("blackhole", "blackholed", identity=first.hex(), reason="spam")
            await node.path(peer.destination, timeout=PATIENCE)
            assert await node.update_blackholes(timeout=PATIENCE) == 1
            held = {record.identity: record for record in await node.blackholes()}
            assert (held[first].source, held[first].reason) == (theirs.hash, "spam")
            assert held[first].until_unix_s is None
            async with asyncio.timeout(POLLED_S):
                while True:
                    told = await peer.call("blackholes", "blackholes")
                    if second.hex() in told["held"]:
                        break
                    await asyncio.sleep(0.2)
            assert told["held"][second.hex()] == [ours.hash.hex(), until, "noise"]
