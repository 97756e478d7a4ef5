"""netmesh as transport between live upstream ends, upstream between ours, and chains of both."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from interop.chains import (
    Edge,
    Place,
    chain,
    converse,
    meet_by_announces,
    opened,
    send_messages,
    star,
)
from interop.upstream import ATTEMPT_S, PATIENCE, TRIES, find
from netmesh import DestinationHash
from netmesh.constants import InterfaceMode
from netmesh.decisions import announce_propagates

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(300)]


async def test_netmesh_between_two_upstream_ends(python: str, tmp_path: Path) -> None:
    async with chain("rNr", [Edge(), Edge()], tmp_path, python) as made:
        await meet_by_announces(made.left, made.right)
        await converse(made.left, made.right)
        await converse(made.right, made.left)


async def test_upstream_between_two_netmesh_ends(python: str, tmp_path: Path) -> None:
    async with chain("nRn", [Edge(kind="right"), Edge()], tmp_path, python) as made:
        await meet_by_announces(made.left, made.right, hops=2)
        await converse(made.left, made.right)
        await converse(made.right, made.left)


async def test_eight_hops_of_both_with_access_codes(python: str, tmp_path: Path) -> None:
    edges = [Edge(passphrase=f"edge {n}" if n % 2 else None) for n in range(8)]
    async with chain("nNRNNRNNr", edges, tmp_path, python) as made:
        await meet_by_announces(made.left, made.right, hops=8)
        await converse(made.left, made.right)
        await converse(made.right, made.left)


async def test_a_chain_over_a_wire_that_loses_packets(python: str, tmp_path: Path) -> None:
    edges = [
        Edge(kind="udp", loss=0.03, seed=5, passphrase="lossy"),
        Edge(kind="left"),
        Edge(kind="udp", loss=0.03, seed=6),
    ]
    async with chain("nRNr", edges, tmp_path, python) as made:
        await meet_by_announces(made.left, made.right, hops=3)
        await converse(made.left, made.right, size=6_000, messages=False)
        await converse(made.right, made.left, size=6_000, messages=False)
        assert sum(wire.lost for wire in made.wires.values()) > 0


# Seeds that lose their first datagram among the first sixty, in the midst of a message.
LOSSY_ROADS = {
    "nRNr": [
        Edge(kind="udp", loss=0.03, seed=19),
        Edge(),
        Edge(kind="udp", loss=0.03, seed=44),
    ],
    "nNRNNRNNr": [
        Edge(kind="udp", loss=0.02, seed=50),
        *(Edge() for _ in range(3)),
        Edge(kind="udp", loss=0.02, seed=15),
        *(Edge() for _ in range(2)),
        Edge(kind="udp", loss=0.02, seed=39),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("road", LOSSY_ROADS, ids=["three hops", "eight hops"])
async def test_messages_over_a_road_that_loses_packets(
    road: str, python: str, tmp_path: Path
) -> None:
    """LXMF 3: in a packet, over a link, and as a resource, both ways: each comes once."""
    async with chain(road, LOSSY_ROADS[road], tmp_path, python) as made:
        await meet_by_announces(made.left, made.right, hops=len(road) - 1)
        await send_messages(made.left, made.right)
        await send_messages(made.right, made.left)
        assert sum(wire.lost for wire in made.wires.values()) > 0


async def test_every_node_of_a_chain_restarts(python: str, tmp_path: Path) -> None:
    """Killed where it is upstream, closed where it is ours; both ends are heard again."""
    edges = [Edge(kind="right"), Edge(), Edge(kind="right")]
    async with chain("nRNr", edges, tmp_path, python) as made:
        for restarted in (1, 2, 0, 3):
            await made.restart(restarted)
            await meet_by_announces(made.left, made.right)
            await meet_by_announces(made.right, made.left)
            await converse(made.left, made.right, size=2_000, messages=False)
            await converse(made.right, made.left, size=2_000, messages=False)


# ----------------------------------------------------------------------------------- modes

MODES = {f"n_{mode}": mode for mode in ("full", "gateway", "access_point", "roaming", "boundary")}


def leaves(source: str, out: str) -> bool:
    """Whether a transport node puts an announce from one mode out on another (RNS 1, 8.7)."""
    modes = {"source_mode": InterfaceMode[source.upper()], "out_mode": InterfaceMode[out.upper()]}
    return announce_propagates(local=False, hops=1, **modes) != "block"


class Ears:
    """What the ends of a star hear of each other without asking."""

    def __init__(self, ends: dict[str, Place]) -> None:
        self.ends = ends
        self.feeds = {
            name: end.node.announces("netmesh.interop")
            for name, end in ends.items()
            if end.node is not None
        }
        self.heard: dict[str, set[DestinationHash]] = {name: set() for name in self.feeds}

    def listen(self) -> None:
        """Takes in what has come."""
        for name, feed in self.feeds.items():
            while (announce := feed.get_nowait()) is not None:
                self.heard[name].add(announce.destination)

    async def until(self, address: bytes, names: set[str], wait_s: float) -> bool:
        """Waits until these ends have heard of an address."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not all(address in self.heard[name] for name in names):
                    self.listen()
                    await asyncio.sleep(0.02)
                return True
        return False


async def talk(here: Place, there: Place) -> None:
    """A link with a request and a file, from one end to the other."""
    if here.node is not None:
        await find(here.node, there.address)
        async with await here.node.connect(there.address, timeout=PATIENCE) as link:
            assert (await link.request("/echo", "mode", timeout=PATIENCE)).data == "mode"
            assert (await link.send_file(bytes(3_000), timeout=PATIENCE)).ok
        return
    assert here.peer
    assert (await here.peer.call("path", "path", destination=there.address.hex()))["found"]
    link_id = await opened(here.peer, there.address.hex())
    await here.peer.ask(
        "request",
        "response",
        orders=lambda n: {"link": link_id, "path": "/echo", "data": f"{n}"},
        expect=lambda order: {"value": order["data"]},
    )


@pytest.mark.parametrize("hub", ["N", "R"], ids=["netmesh", "upstream"])
async def test_every_mode_of_a_transport_node(hub: str, python: str, tmp_path: Path) -> None:
    """Announces go where the table of modes says, and all reach all by asking.

    The hub is ours and one of the ends upstream's, or the other way round: what is heard is
    the same.
    """
    modes = MODES | {"n_internal": "internal"} | ({"r_full": "full"} if hub == "N" else {})
    async with star(hub, modes, tmp_path, python) as (_, ends):
        ears = Ears(ends)
        for name, end in ends.items():
            others = {each for each in ears.feeds if each != name}
            hear = {each for each in others if leaves(modes[name], modes[each])}
            for _ in range(TRIES):
                await end.announce()
                if await ears.until(end.address, hear, ATTEMPT_S * 2):
                    break
            else:
                raise AssertionError(f"{name} announced {TRIES} times: not heard by all of {hear}")
        centre = ends["r_full" if hub == "N" else "n_full"]
        for end in ends.values():
            if end is not centre:
                await talk(end, centre)
                await talk(centre, end)
        ears.listen()
        for name, end in ends.items():
            for other, heard in ears.heard.items():
                if other != name and not leaves(modes[name], modes[other]):
                    assert end.address not in heard, (name, other)
