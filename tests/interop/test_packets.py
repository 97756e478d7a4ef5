"""Packets outside links with a live upstream peer: proofs of both forms, GROUP, PLAIN."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from interop.upstream import PATIENCE, World, meet
from netmesh import Identity, errors
from netmesh.constants import DestinationType

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(180)]

SIZES = (0, 1, 15, 16, 382, 383)
"""Around the blocks of the cipher, and up to the longest that a packet holds."""


async def proven(world: World, size: int) -> None:
    """Sends a packet of ours until one is proven: nobody repeats a packet outside a link."""
    for _ in range(4):
        data = os.urandom(size)
        receipt = await world.node.send(world.peer.destination, data, timeout=PATIENCE / 4)
        with contextlib.suppress(errors.ProofError):
            assert (await receipt).ok
            await world.peer.wait("packet", data=data.hex())
            return
    raise AssertionError(f"no packet of {size} bytes was proven")


async def exchange(world: World) -> None:
    """Packets of all sizes in both directions, proven."""
    node, peer = world.node, world.peer
    for size in SIZES:
        await proven(world, size)
    echo = await node.listen("netmesh.interop", prove="all")
    for size in SIZES:
        sent: list[bytes] = []

        def order(_: int, size: int = size, sent: list[bytes] = sent) -> dict[str, str]:
            sent.append(os.urandom(size))
            return {"destination": echo.hash.hex(), "data": sent[-1].hex()}

        await peer.ask("packet", "proof", orders=order)
        for data in sent:
            packet = await echo.packets.get(timeout=PATIENCE)
            assert packet.data == data
            assert packet.hops == world.hops


@pytest.mark.parametrize("implicit", [True, False], ids=["implicit", "explicit"])
async def test_packets_are_proven(
    python: str, topology: str, implicit: bool, tmp_path: Path
) -> None:
    async with meet(
        topology,
        python,
        tmp_path,
        settings={"use_implicit_proof": implicit},
        node={"implicit_proofs": implicit},
    ) as world:
        await exchange(world)


async def test_group_and_plain_packets_reach_neighbours(python: str, tmp_path: Path) -> None:
    identity, key = Identity(), os.urandom(64)
    group = {"type": "group", "identity": identity.private_key.hex(), "key": key.hex()}
    plain = {"type": "plain"}
    async with meet("direct", python, tmp_path) as world:
        node, peer = world.node, world.peer
        ours = {
            "group": await node.listen(
                "netmesh.group", type=DestinationType.GROUP, identity=identity, group_key=key
            ),
            "plain": await node.listen("netmesh.plain", type=DestinationType.PLAIN),
        }
        for order, kind in ((group, DestinationType.GROUP), (plain, DestinationType.PLAIN)):
            local = ours[order["type"]]
            listening = await peer.call("listen", "listening", **order)
            assert listening["destination"] == local.hash.hex()
            data = os.urandom(100)
            await peer.call("broadcast", "sent", data=data.hex(), **order)
            assert (await local.packets.get(timeout=PATIENCE)).data == data
            data = os.urandom(100)
            await node.send(
                local.hash,
                data,
                type=kind,
                group_key=key if kind == DestinationType.GROUP else None,
                proof=False,
            )
            await peer.wait("packet", data=data.hex(), destination=local.hash.hex())


async def test_plain_packets_pass_a_shared_instance(python: str, tmp_path: Path) -> None:
    async with meet("shared", python, tmp_path) as world:
        node, peer = world.node, world.peer
        local = await node.listen("netmesh.plain", type=DestinationType.PLAIN)
        await peer.call("listen", "listening", type="plain")
        data = os.urandom(100)
        await node.send(local.hash, data, type=DestinationType.PLAIN, proof=False)
        await peer.wait("packet", data=data.hex())
        data = os.urandom(100)
        await peer.call("broadcast", "sent", data=data.hex(), type="plain")
        assert (await local.packets.get(timeout=PATIENCE)).data == data
