"""Announces and paths between a node and a live upstream peer, in every arrangement."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.upstream import PATIENCE, meet

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(180)]


async def test_announces_of_the_peer_are_heard(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        node, peer = world.node, world.peer
        # Before 1.5 a transport node that has looked for a path marks what it hears from there
        # as the answer, for 15 s.
        heard = node.announces("netmesh.interop", path_responses=True)
        announce = await world.heard(
            lambda: peer.announce(b"plain"), lambda wait: heard.get(timeout=wait)
        )
        assert (announce.destination, announce.app_data) == (peer.destination, b"plain")
        assert announce.hops == world.hops
        assert announce.identity.hex() == peer.ready["identity"]
        assert announce.ratchet_id is None
        while announce.ratchet_id is None:
            announce = await world.heard(
                lambda: peer.announce(ratchets=True), lambda wait: heard.get(timeout=wait)
            )
        assert announce.destination == peer.destination
        assert not announce.app_data
        path = await node.path(peer.destination, timeout=PATIENCE)
        assert path.hops == world.hops
        # What is sealed with the announced ratchet is opened and proven.
        receipt = await node.send(peer.destination, b"sealed with a ratchet")
        assert (await receipt.wait(timeout=PATIENCE)).ok
        await peer.wait("packet", data=b"sealed with a ratchet".hex())


async def test_announces_of_the_node_are_heard(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        node, peer = world.node, world.peer
        echo = await node.listen("netmesh.interop", prove="all", app_data=b"node")
        told = await world.heard(
            echo.announce,
            lambda wait: peer.wait("announce", patience_s=wait, destination=echo.hash.hex()),
        )
        assert told["app_data"] == b"node".hex()
        assert told["identity"] == node.identity.hash.hex()
        assert told["hops"] == world.hops
        assert told["ratchet"] is None
        fresh = await node.listen("netmesh.ratchets", prove="all", ratchets=True)
        told = await world.heard(
            lambda: fresh.announce(b"with a ratchet"),
            lambda wait: peer.wait("announce", patience_s=wait, destination=fresh.hash.hex()),
        )
        assert told["app_data"] == b"with a ratchet".hex()
        assert told["ratchet"] is not None
        ratchets = await fresh.ratchets()
        for destination, aspect, ratchet in (
            (echo, "interop", None),
            (fresh, "ratchets", ratchets.current),
        ):
            await peer.ask(
                "packet",
                "proof",
                orders=lambda attempt, to=destination.hash, aspect=aspect: {
                    "destination": to.hex(),
                    "aspect": aspect,
                    "data": bytes([attempt]).hex(),
                },
            )
            packet = await destination.packets.get(timeout=PATIENCE)
            assert packet.ratchet_id == ratchet


async def test_paths_are_asked_for_and_answered(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        node, peer = world.node, world.peer
        quiet = await node.listen("netmesh.quiet", app_data=b"never announced")
        answer = await peer.call("path", "path", destination=quiet.hash.hex())
        assert answer["found"]
        assert answer["hops"] == world.hops
        told = await peer.wait("announce", destination=quiet.hash.hex())
        assert told["app_data"] == b"never announced".hex()
        again = await peer.call("path", "path", destination=quiet.hash.hex(), forget=True)
        assert again["found"]
        await node.drop_path(peer.destination)
        assert not await node.has_path(peer.destination)
        path = await node.path(peer.destination, timeout=PATIENCE)
        assert path.hops == world.hops
