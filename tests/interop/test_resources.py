"""Resources with a live upstream peer: every boundary of their sizes, both ways, cancelled,
refused, and never at a standstill."""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path

import pytest

from interop.upstream import PATIENCE, World, accepted, content, digest, meet
from netmesh import Link, Packet, errors
from netmesh.constants import Context, ResourceState
from netmesh.events import ResourceFailed

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

SEGMENT = (1 << 20) - 1
"""Bytes of the longest resource of one segment."""
HASHMAP = 74
"""Parts whose hashes an advertisement holds."""
COMPLETE, FAILED, REJECTED = 6, 7, 9
"""Upstream's states."""
PROMPT_S = 10.0
"""A transfer over loopback that takes longer has stood still."""


def stream_bytes(size: int) -> int:
    """Bytes of the sealed stream of so much content, uncompressed: 4 random ones before it."""
    return 48 + (size + 4) // 16 * 16 + 16


def largest(parts: int, sdu: int) -> int:
    """The most content that fits so many parts."""
    size = parts * sdu
    while math.ceil(stream_bytes(size) / sdu) > parts:
        size -= 1
    return size


def boundaries(mtu: int) -> list[int]:
    """Sizes around those where the number of parts, or of hashmaps, changes."""
    sdu = mtu - 36
    found = {0, 1, 2}
    for parts in (1, 2, 4, HASHMAP - 1, HASHMAP, HASHMAP + 1, 2 * HASHMAP):
        edge = largest(parts, sdu)
        found |= {edge + off for off in range(-2, 3)}
    return sorted(size for size in found if size <= SEGMENT)


async def both_ways(world: World) -> tuple[Link, Link, str]:
    """A link from each side: ours, theirs as we see it, and its name."""
    echo = await world.node.listen("netmesh.interop", prove="all", resources="all")
    name, _ = await world.link(echo.hash)
    incoming = await accepted(echo.links, name)
    outgoing = await world.node.connect(world.peer.destination, timeout=PATIENCE, resources="all")
    await world.peer.wait("link", link=outgoing.link_id.hex())
    return outgoing, incoming, name


async def there(world: World, link: Link, size: int, *, kind: str = "random", **options: object):
    """Sends content to the peer and checks what it got."""
    data = content(f"{size} {kind}", size, kind)
    await link.send_file(data, timeout=PATIENCE, **options)
    return await world.peer.wait("resource", size=size, hash=digest(data))


async def back(
    world: World, link: Link, name: str, size: int, *, kind: str = "random", **order: object
):
    """Lets the peer send content and checks what came; one that upstream lost comes again."""
    seeds: list[str] = []

    def expect(asked: dict[str, str]) -> dict[str, int]:
        seeds.append(asked["seed"])
        return {"status": COMPLETE}

    await world.ask_over(
        name,
        "resource",
        "resource_sent",
        size=size,
        kind=kind,
        expect=expect,
        attempt_s=2 * PROMPT_S,
        **order,
    )
    for seed in seeds:
        found = await link.receive_file(timeout=PATIENCE)
        assert found.data == content(seed, size, kind)
    return found


async def test_sizes_around_every_boundary(python: str, tmp_path: Path) -> None:
    async with meet("direct", python, tmp_path, ours={"mtu": 500}) as world:
        outgoing, incoming, name = await both_ways(world)
        assert (outgoing.mtu, incoming.mtu) == (500, 500)
        for size in boundaries(500):
            if size:  # upstream sends and takes no empty resource
                await there(world, outgoing, size)
                await back(world, incoming, name, size)


async def test_sizes_over_each_arrangement(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        outgoing, incoming, name = await both_ways(world)
        edge = largest(1, outgoing.mtu - 36)
        sizes = [1, *(edge + off for off in range(-2, 3)), SEGMENT - 2, SEGMENT - 1, SEGMENT]
        for size in sizes:
            await there(world, outgoing, size)
            await back(world, incoming, name, size)


async def test_compression_and_metadata(python: str, topology: str, tmp_path: Path) -> None:
    metadata = {"name": "notes.txt", "tags": ["a", "žluť"], "size": 70_000}
    async with meet(topology, python, tmp_path) as world:
        outgoing, incoming, name = await both_ways(world)
        for kind in ("random", "text"):
            for compressed in (True, False):
                for extra in (None, metadata):
                    told = await there(
                        world,
                        outgoing,
                        70_000,
                        kind=kind,
                        compression="when_smaller" if compressed else "off",
                        metadata=extra,
                    )
                    assert told["compressed"] == (compressed and kind == "text")
                    assert told["metadata"] == extra
                    found = await back(
                        world,
                        incoming,
                        name,
                        70_000,
                        kind=kind,
                        compress=compressed,
                        metadata=extra,
                    )
                    assert found.metadata == extra


async def test_transfers_never_stand_still(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Upstream registers a resource after its advertisement has left (RNS 2, 3.14).

    A request for parts that is there before finds nothing. Ours is repeated until a part comes,
    so that no transfer waits for a time-out.
    """
    rounds, slowest, requests = 25, 0.0, 0
    async with meet("direct", python, tmp_path) as world:
        outgoing, incoming, name = await both_ways(world)
        frames = world.node.tap(buffer=10_000)
        for number in range(rounds):
            began = time.monotonic()
            await there(world, outgoing, 1000 + number)
            between = time.monotonic()
            # No helper that asks again: the transfer itself has to get there.
            order = world.peer.do("resource", link=name, seed=f"still {number}", size=1000 + number)
            found = await incoming.receive_file(timeout=PATIENCE)
            assert found.data == content(f"still {number}", 1000 + number)
            done = await world.peer.wait("resource_sent", id=order)
            assert done["status"] == COMPLETE
            slowest = max(slowest, between - began, time.monotonic() - between)
        while (frame := frames.get_nowait()) is not None:
            packet = Packet.unpack(frame.data)
            ours = not frame.incoming and packet.destination == incoming.link_id
            requests += ours and packet.context == Context.RESOURCE_REQ
        frames.close()
    assert requests >= rounds  # each resource is one part, asked for at least once
    with capsys.disabled():
        print(
            f" [{rounds} transfers each way, slowest {slowest:.3f} s, "
            f"{requests - rounds} requests repeated]",
            end="",
        )
    assert slowest < PROMPT_S


# ---------------------------------------------------------------------------- refusals


async def test_refusals_are_seen_at_once(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        outgoing, incoming, name = await both_ways(world)
        await world.peer.call("resources", "resources_set", strategy="no")
        began = time.monotonic()
        with pytest.raises(errors.RefusedError):
            await outgoing.send_file(b"unwanted", timeout=PATIENCE)
        await world.peer.call("resources", "resources_set", strategy="yes")
        await there(world, outgoing, 3000)
        for policy in ("none", lambda offer: False):
            await incoming.set_resources(policy)
            await world.ask_over(
                name,
                "resource",
                "resource_sent",
                size=100,
                expect=lambda _: {"status": REJECTED},
            )
        assert time.monotonic() - began < PATIENCE
        await incoming.set_resources(lambda offer: offer.size_bytes <= 3000)
        await back(world, incoming, name, 3000)
        # Upstream's ACCEPT_NONE says nothing at all: that ends by our time-out, and says so.
        await world.peer.call("resources", "resources_set", strategy="none")
        with pytest.raises(errors.TransferError) as caught:
            await outgoing.send_file(b"into the void", timeout=0.3)
        assert caught.value.reason == "TIMEOUT"


# --------------------------------------------------------------------------- cancelling


async def test_the_node_cancels(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path, ours={"mtu": 500}) as world:
        outgoing, _, _ = await both_ways(world)
        data = content("cancelled", 400_000)
        # At once, as soon as it is advertised or before.
        transfer = await outgoing.start_file(data, compression="off")
        transfer.cancel()
        with pytest.raises(errors.TransferError):
            await transfer
        # In the middle.
        transfer = await outgoing.start_file(data, compression="off")
        async for progress in transfer:
            if progress.done_bytes > 0:
                break
        transfer.cancel()
        with pytest.raises(errors.TransferError):
            await transfer
        await world.peer.wait("resource_failed", status=FAILED)
        # The link carries on.
        await there(world, outgoing, 5000)
        assert not outgoing.closed
        assert not await outgoing.transfers()


async def test_the_peer_cancels(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path, ours={"mtu": 500}) as world:
        outgoing, incoming, name = await both_ways(world)
        peer = world.peer
        failures = world.node.events(ResourceFailed)
        # It sends, and cancels once parts have left; then while we still decide.
        order = peer.do(
            "resource", link=name, seed="gone", size=400_000, compress=False, cancel="progress"
        )
        await peer.wait("resource_sent", id=order, status=FAILED)
        failed = await failures.get(timeout=PATIENCE)
        assert (failed.link, failed.state) == (incoming.ref, ResourceState.FAILED)
        offered, decided = asyncio.Event(), asyncio.Event()

        async def decide(_: object) -> bool:
            offered.set()
            await decided.wait()
            return True

        await incoming.set_resources(decide)
        order = peer.do("resource", link=name, seed="gone too", size=1000)
        await asyncio.wait_for(offered.wait(), PATIENCE)
        peer.do("cancel", resource=order)
        await peer.wait("resource_sent", id=order, status=FAILED)
        await failures.get(timeout=PATIENCE)
        decided.set()
        await incoming.set_resources("all")
        # It receives, and cancels at the first part.
        await peer.call("resources", "resources_set", strategy="all", cancel=True)
        with pytest.raises(errors.RefusedError):
            await outgoing.send_file(
                content("unwanted", 400_000), compression="off", timeout=PATIENCE
            )
        await peer.wait("resource_failed", status=FAILED)
        await peer.call("resources", "resources_set", strategy="all")
        await there(world, outgoing, 5000)
        await back(world, incoming, name, 5000)


async def test_resources_in_a_row_are_each_complete(python: str, tmp_path: Path) -> None:
    """Upstream takes a resource for unfinished again when a part of the next one arrives before
    its program was told: a near peer gets a pause after each."""
    async with meet("direct", python, tmp_path) as world:
        outgoing, _, _ = await both_ways(world)
        rows = [content(f"row {number}", 16_384, "random") for number in range(40)]
        for data in rows:
            await outgoing.send_file(data, compression="off", timeout=PATIENCE)
        for data in rows:
            await world.peer.wait("resource", size=len(data), hash=digest(data))
