"""Networks of many engines: their properties under many seeds, and their figures beside physics.

``NETMESH_SIM_SEEDS`` asks for a sweep (shares.py); without it they take a few seconds together.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from netmesh.announce import Announce
from netmesh.engine import Engine
from netmesh.identity import Identity, IdentityHash
from netmesh.records import PathRecord
from netmesh.sim import (
    Network,
    Segment,
    Simulation,
    Topology,
    cells,
    chain,
    grid,
    mixed,
    random_network,
    roaming,
    run_scenario,
    star,
    sweep,
)
from sim.shares import NETWORKS, blocks

FILE = Path(__file__).resolve().parent / "network_scenarios.py"


def reference(name: str) -> str:
    return f"{FILE}:{name}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "seeds"), blocks(NETWORKS))
def test_a_network_holds_under_many_seeds(name: str, seeds: range) -> None:
    for outcome in sweep(reference(name), seeds):
        assert outcome.ok, outcome.error


@pytest.mark.parametrize("topology", ["chain", "star", "grid", "random", "cells"])
def test_a_hundred_engines_and_more_converge_in_time(topology: str) -> None:
    """Everybody to everybody: 10,000 paths, each packet in what physics takes, no loops."""
    options = {"topology": topology, "size": 100}
    result: Any = run_scenario(reference("topologies"), seed=1, options=options).result
    assert result["nodes"] >= 100
    assert result["coverage"] == 1.0
    assert result["delivered"] == result["packets"] == 16
    assert result["loops"] == 0
    assert result["converged_s"] >= result["converged_bound_s"]
    assert result["announce_share"] >= 1.0


def test_hundreds_of_engines_on_slow_and_fast_media() -> None:
    options = {"topology": "random", "size": 300}
    with Simulation(seed=5) as sim:
        built = random_network(300, sim.random, rate_bps=1_000_000, ingress_control=False)
        network = Network(sim, mixed(built, sim.random))
        owners = sim.random.sample(built.nodes, 20)
        network.announce(*owners)
        assert network.converge(timeout_s=network.stated_s())
        assert network.settle()
        tables = network.tables()
        for owner in owners:
            ends = {route.end for route in network.routes(owner, tables).values()}
            assert ends == {"arrived"}
        figures = network.figures()
        assert figures.nodes == options["size"]
        assert figures.paths == len(owners)


def test_ten_thousand_announces_a_minute_leave_a_slow_interface_alone() -> None:
    """A1: 5 kbit/s, 2 % of its time for relayed announces, and the queue's own cap."""
    options = {"announces": 10_000, "per_s": 167.0, "queue": 4096}
    result: Any = run_scenario(reference("storm"), seed=1, options=options).result
    assert result["fullest"] == 4096
    assert result["used_s"] <= result["budget_s"]
    assert result["dropped"] > 5000


def test_a_thousand_announces_a_second_into_a_slow_interface() -> None:
    options = {"announces": 5_000, "per_s": 1_000.0, "queue": 256}
    result: Any = run_scenario(reference("storm"), seed=2, options=options).result
    assert result["fullest"] == 256
    assert result["used_s"] <= result["budget_s"]


# ------------------------------------------------------------------------- permutations

UNIX = 1_700_000_000.0


def heard(arrivals: tuple[tuple[int, bytes], ...], gravity: tuple[int, ...]) -> list[PathRecord]:
    """The table of a transport node after announces came in, in this order."""
    engine = Engine(clock=(1000.0, UNIX), transport=True)
    wires = [
        engine.add_interface(f"wire{number}", gravity=pull, ingress_control=False)
        for number, pull in enumerate(gravity)
    ]
    for wire, raw in arrivals:
        engine.input(wires[wire], raw)
    return sorted(engine.paths(), key=lambda path: bytes(path.destination))


def relayed(owner: int, emitted: int, hops: int, by: int) -> bytes:
    identity = Identity.from_private(bytes([owner]) * 64)
    return Announce.create(
        identity,
        "test.inbox",
        emitted=emitted,
        random=bytes(5),
        hops=hops,
        transport_id=IdentityHash(bytes([by]) * 16),
    ).raw


def way(path: PathRecord) -> tuple[object, ...]:
    return path.destination, path.next_hop, path.hops, path.interface, path.announce_hash


@pytest.mark.parametrize("hops", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 2, 2, 2), (1, 4, 2, 3)])
def test_every_order_of_announces_gives_the_same_paths(hops: tuple[int, ...]) -> None:
    """A9: the newest announce decides, whatever its hops, interface and place in the order."""
    arrivals = [
        (wire, relayed(1, int(UNIX) - 100 + 10 * wire, hops[wire], by=wire + 10))
        for wire in range(4)
    ]
    arrivals.append((0, relayed(2, int(UNIX), 3, by=9)))
    tables = {tuple(map(way, heard(order, (0, 0, 0, 0)))) for order in permutations(arrivals)}
    assert len(tables) == 1
    newest = heard(tuple(arrivals), (0, 0, 0, 0))
    by = {bytes(path.next_hop)[0]: path.hops for path in newest}
    assert by == {13: hops[3] + 1, 9: 4}


def test_copies_of_one_announce_in_every_order_follow_gravity() -> None:
    """RNS 1, 8.14: of copies that come equally far the interface with most gravity decides."""
    arrivals = tuple((wire, relayed(1, int(UNIX), 2, by=wire + 10)) for wire in range(4))
    tables = [heard(order, (0, 3, 1, 2)) for order in permutations(arrivals)]
    assert {tuple(map(way, table)) for table in tables} == {tuple(map(way, tables[0]))}
    assert bytes(tables[0][0].next_hop)[0] == 11


def test_of_copies_without_gravity_the_first_one_decides_alone() -> None:
    """RNS 1, 8.5.1 step 8: the fastest way wins; the order of the others changes nothing."""
    arrivals = tuple((wire, relayed(1, int(UNIX), wire, by=wire + 10)) for wire in range(4))
    tables: dict[int, set[tuple[object, ...]]] = {}
    for order in permutations(arrivals):
        tables.setdefault(order[0][0], set()).add(tuple(map(way, heard(order, (0, 0, 0, 0)))))
    assert {first: len(found) for first, found in tables.items()} == dict.fromkeys(range(4), 1)


# --------------------------------------------------------------------------- topologies


def test_shapes_are_what_they_are_called() -> None:
    assert chain(5).diameter() == 4
    assert star(9).diameter() == 2
    assert grid(4, 3).diameter() == 5
    assert len(grid(4, 3).segments) == 17
    assert cells(3, 4).diameter() == 3
    assert len(cells(3, 4).nodes) == 10
    with Simulation(seed=1) as sim:
        made = random_network(30, sim.random, shortcuts=0.5)
    assert made.connected()
    assert len(made.segments) == 29 + 15
    places = roaming(3, 5)
    assert places.segments[-1].members == ("base2", "roamer2")
    assert not Topology(name="two", nodes=("a", "b"), segments=()).connected()
    with pytest.raises(ValueError, match="unknown members"):
        Topology(name="x", nodes=("a",), segments=(Segment(name="s", members=("a", "b")),))
    with pytest.raises(ValueError, match="names of their own"):
        Topology(name="x", nodes=("a", "a"), segments=())
    for wrong in (lambda: chain(0), lambda: cells(2, 1)):
        with pytest.raises(ValueError, match="or more"):
            wrong()


def test_bounds_are_those_of_the_fastest_way() -> None:
    fast = Segment(name="fast", members=("a", "b"), medium={"rate_bps": 80_000, "delay_s": 0.5})
    slow = Segment(name="slow", members=("a", "b", "c"), medium={"rate_bps": 800})
    two = Topology(name="two", nodes=("a", "b", "c"), segments=(fast, slow))
    arrivals = two.arrivals_from("a", 100)
    assert arrivals == pytest.approx({"a": 0.0, "b": 0.51, "c": 1.0})
    # b by the fast one, and c by half a sending on the slow one that serves two.
    assert two.flood_airtime_s(100) == pytest.approx(0.01 + 0.5)
    assert two.intake_s(100, 10) == pytest.approx(10.0)


def test_a_loop_and_a_dead_end_are_seen() -> None:
    """The check of routes finds what a table that was tampered with leads to."""
    with Simulation(seed=1) as sim:
        network = Network(sim, chain(4))
        network.announce()
        assert network.converge(timeout_s=60)
        assert network.settle()
        inbox = network.inboxes["n3"]
        back = network.nodes["n1"].path(network.inboxes["n0"])
        right = network.nodes["n2"].path(inbox)
        wrong = network.nodes["n2"].path(network.inboxes["n0"])
        network.nodes["n2"].drop_path(inbox)
        assert network.routes("n3")["n0"].end == "missing"
        network.nodes["n2"].put_path(
            PathRecord(
                destination=inbox,
                next_hop=bytes(network.nodes["n1"].identity.hash),
                hops=2,
                interface=wrong.interface,
                expires_s=right.expires_s,
            )
        )
        assert network.routes("n3")["n0"].end == "loop"
        assert network.figures().loops == 3
        network.nodes["n2"].put_path(
            PathRecord(
                destination=inbox,
                next_hop=bytes(network.nodes["n0"].identity.hash),
                hops=2,
                interface=right.interface,
                expires_s=right.expires_s,
            )
        )
        assert network.routes("n3")["n0"].end == "gone"
        assert back.hops == 1
