"""Scenarios that come with netmesh: to see what the simulator does, and to start from.

Each is a function that takes a :class:`netmesh.sim.Simulation`, builds a network in it, and
lets it live; what it returns are figures. ``python -m netmesh.sim list`` shows them.
"""

from __future__ import annotations

from typing import Any

from netmesh._core import DestinationHash
from netmesh.events import ReceiptDone, ResourceReceived
from netmesh.sim import (
    Network,
    SimNode,
    Simulation,
    Topology,
    cells,
    chain,
    grid,
    mixed,
    random_network,
    scenario,
    star,
)

__all__ = ["cable", "crash", "network", "partition", "radio"]


def _reachable(sim: Simulation, node: SimNode, inbox: DestinationHash, owner: SimNode) -> None:
    """Announces until ``node`` has a path."""
    for _ in range(50):
        if node.hops(inbox) < 128:
            return
        owner.wait(owner.announce(inbox))
        sim.run(20)
    sim.fail(f"{node.name} heard none of 50 announces")


@scenario
def cable(sim: Simulation, *, loss: float = 0.05, packets: int = 50) -> dict[str, float]:
    """Two nodes on a fast cable that loses packets: which of them are proven."""
    alice, bob = sim.node("alice"), sim.node("bob")
    medium = sim.cable(alice, bob, rate_bps=10_000_000, delay_s=0.01, loss=loss)
    inbox = bob.listen(sim.identity("bob"), "example.inbox", prove="all")
    _reachable(sim, alice, inbox, bob)
    for number in range(packets):
        alice.send(inbox, f"packet {number}".encode())
        sim.run(0.1)
    sim.run(60)
    ends = [event for event in alice.events() if isinstance(event, ReceiptDone)]
    sim.expect(len(ends) == packets, f"{packets} packets, but {len(ends)} ends")
    return {
        "proven": sum(end.ok for end in ends) / packets,
        "delivery": medium.stats.delivery,
    }


@scenario
def radio(sim: Simulation, *, size: int = 3_000, rate_bps: int = 1_200) -> dict[str, float]:
    """Three nodes share a slow half-duplex channel; one sends a file while the third talks."""
    air = sim.medium("air", rate_bps=rate_bps, delay_s=0.005, frame_s=0.1, half_duplex=True)
    alice, bob, carol = (sim.node(name) for name in ("alice", "bob", "carol"))
    for node in (alice, bob, carol):
        node.connect(air, kind="rnode")
    inbox = bob.listen(sim.identity("bob"), "example.files", resources="all")
    _reachable(sim, alice, inbox, bob)
    board = carol.listen(sim.identity("carol"), "example.board")

    def talk() -> None:
        carol.announce(board, sim.random.randbytes(40))
        sim.after(60, talk)

    sim.after(30, talk)
    link = alice.open_link(inbox)
    alice.wait_link(link)
    began, used = sim.time_s, air.stats.airtime_s
    content = sim.random.randbytes(size)
    end = alice.wait(alice.link(link).send_resource(content, compression="off"))
    sim.expect(end.ok, f"the transfer failed at stage {end.stage.name}")
    received = [event.data for event in bob.events() if isinstance(event, ResourceReceived)]
    sim.expect(received == [content], "another file arrived")
    return {
        "seconds": sim.time_s - began,
        "ideal_s": size * 8 / rate_bps,
        "airtime_s": air.stats.airtime_s - used,
    }


def _shape(sim: Simulation, topology: str, nodes: int, **options: Any) -> Topology:
    match topology:
        case "chain":
            return chain(nodes, **options)
        case "star":
            return star(nodes, **options)
        case "grid":
            return grid(max(1, round(nodes**0.5)), max(1, round(nodes**0.5)), **options)
        case "cells":
            return cells(max(1, nodes // 4), 5, **options)
        case "random":
            return random_network(nodes, sim.random, **options)
    raise ValueError(f"topology is chain, star, grid, cells or random, not {topology!r}")


@scenario
def network(
    sim: Simulation,
    *,
    topology: str = "random",
    nodes: int = 25,
    rate_bps: int = 0,
    loss: float = 0.0,
    packets: int = 20,
) -> dict[str, float]:
    """Many transport nodes learn of each other and send packets: figures beside physics.

    ``topology`` is chain, star, grid, cells or random; ``rate_bps`` 0 gives each medium a rate
    of its own.
    """
    built = _shape(sim, topology, nodes, delay_s=0.01, loss=loss, ingress_control=False)
    built = mixed(built, sim.random, rates_bps=[rate_bps] if rate_bps else (9_600, 57_600, 10**6))
    life = Network(sim, built)
    life.announce()
    in_time = life.converge(timeout_s=life.stated_s())
    sim.expect(in_time or loss, f"not everybody knows all after {life.stated_s():.0f} s")
    life.settle()
    sent = life.send(life.pairs(packets))
    sim.expect(loss or all(each.ok for each in sent), "a packet was lost, and nothing else was")
    figures = life.figures()
    sim.expect(figures.loops == 0, "a route leads in a circle")
    return figures.as_dict()


@scenario
def partition(sim: Simulation, *, nodes: int = 6, cut_s: float = 300.0) -> dict[str, float]:
    """A network falls in two halves and comes together again; links end and are opened anew."""
    air = sim.medium("air", rate_bps=50_000, delay_s=0.002, jitter_s=0.01, loss=0.02)
    members = [sim.node(f"node{number}") for number in range(nodes)]
    for node in members:
        node.connect(air)
    hub = members[0]
    inbox = hub.listen(sim.identity("hub"), "example.hub")
    links = []
    for node in members[1:]:
        _reachable(sim, node, inbox, hub)
        links.append((node, node.open_link(inbox)))
    sim.run(60)
    half = members[: nodes // 2]
    air.partition(half, members[nodes // 2 :])
    sim.run(cut_s)
    air.heal()
    closed = 0
    for node, link in links:
        state = node.state_of(link)
        if state is not None and type(state).__name__ == "LinkClosed":
            closed += 1
            node.wait_link(node.open_link(inbox))
    return {"links": len(links), "closed": closed}


@scenario
def crash(sim: Simulation, *, crashes: int = 5) -> dict[str, float]:
    """A node with ratchets loses its power again and again; what it announced stays true."""

    def program(node: SimNode) -> None:
        own = node.listen(sim.identity("bob"), "example.inbox", prove="all", ratchets=True)
        node.announce(own)

    air = sim.medium("air", delay_s=0.01)
    alice, bob = sim.node("alice"), sim.node("bob", boot=program, job_delay=(0.5, 5.0))
    for node in (alice, bob):
        node.connect(air)
    sim.run(1)
    inbox = alice.paths()[0].destination
    proven = 0
    for _ in range(crashes):
        sim.run(sim.random.uniform(0, 4000))
        bob.crash()
        sim.run(sim.random.uniform(0, 60))
        bob.restart()
        sim.run(1)
        end = alice.wait(alice.send(inbox, b"are you there?"))
        sim.expect(end.ok, "a packet for an announced ratchet was not opened")
        proven += end.ok
    return {"proven": proven}
