"""Whole networks: what must come out of each shape, whatever the seed.

Everything is compared with what physics allows; where a bound is stated, it is the longest
that the protocol's own waiting times add up to.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable
from functools import cache
from typing import Any

from netmesh.announce import Announce
from netmesh.constants import InterfaceMode
from netmesh.events import LinkActive
from netmesh.identity import Identity
from netmesh.records import DropReason, Limits
from netmesh.sim import (
    Delivery,
    Network,
    NetworkFigures,
    Segment,
    Simulation,
    Topology,
    cells,
    chain,
    grid,
    mixed,
    random_network,
    roaming,
    scenario,
    star,
)
from netmesh.sim.networks import ANNOUNCE_BYTES
from netmesh.sim.topology import RELAY_BYTES

TICK_S = 2e-6
"""How much of its bound a packet may miss on each hop: time counts in microseconds."""

SHAPES: dict[str, Callable[[random_module.Random, int, dict[str, Any]], Topology]] = {
    "chain": lambda random, size, options: chain(size, **options),
    "star": lambda random, size, options: star(size, **options),
    "grid": lambda random, size, options: grid(size // 4 + 1, 4, **options),
    "random": lambda random, size, options: random_network(
        size, random, shortcuts=random.choice([0.0, 0.3, 1.0]), **options
    ),
    "cells": lambda random, size, options: cells(-(-size // 4), random.choice([5, 6]), **options),
}


def shape(sim: Simulation, name: str, size: int, **options: Any) -> Topology:
    """One of the shapes, by the seed unless it is named."""
    random = sim.random
    chosen = name or random.choice(list(SHAPES))
    return SHAPES[chosen](random, size or random.randrange(4, 25), options)


def job_delay(sim: Simulation) -> float | tuple[float, float]:
    return sim.random.choice([0.0, (0.5, 2.0), (0.0, 200.0)])


def converged(sim: Simulation, network: Network, within_s: float) -> None:
    """All know all, within the stated time."""
    if not network.converge(timeout_s=within_s):
        missing = {name: len(table) for name, table in network.tables().items()}
        sim.fail(f"not converged within {within_s:.1f} s: {missing}")


def settled(sim: Simulation, network: Network) -> None:
    sim.expect(network.settle(timeout_s=20_000), "announces go round without end")


def check_routes(sim: Simulation, network: Network) -> None:
    """Each route arrives, and none leads back to where it was."""
    tables = network.tables()
    for target in network.nodes:
        for route in network.routes(target, tables).values():
            sim.expect(route.end == "arrived", f"{route.end} on the way to {target}: {route.nodes}")


def check_delivered(sim: Simulation, packets: list[Delivery], *, idle: bool = False) -> None:
    """Each packet arrived once and was proven; on idle media in what physics takes."""
    for each in packets:
        way = f"{each.source} to {each.target}"
        sim.expect(each.ok, f"{way}: {each.reason}, delivered {each.delivery_s}")
        sim.expect(each.copies == 1, f"{way}: handed out {each.copies} times")
        if idle and each.delivery_s is not None:
            sim.expect(
                each.delivery_s <= each.bound_s + each.hops * TICK_S,
                f"{way}: {each.delivery_s} s, {each.bound_s} s are needed",
            )


def check_tables(sim: Simulation, network: Network, figures: NetworkFigures) -> None:
    """No table has more than there is."""
    others = len(network.nodes) - 1
    sim.expect(figures.paths <= others, f"{figures.paths} paths to {others} destinations")
    sim.expect(figures.known <= others + 1, f"{figures.known} known of {others} destinations")
    sim.expect(figures.held == figures.queued == 0, "announces are left in a queue")


# ------------------------------------------------------------------------------- shapes


@scenario
def topologies(sim: Simulation, *, topology: str = "", size: int = 0) -> dict[str, float]:
    """Without loss: all learn of all in time, each packet takes what physics takes, no loops."""
    random = sim.random
    rate = random.choice([1_200, 9_600, 250_000, 10_000_000])
    built = shape(
        sim,
        topology,
        size,
        rate_bps=rate,
        delay_s=random.choice([0.0, 0.01, 0.3]),
        half_duplex=random.random() < 0.5,
        ingress_control=False,
        queue_frames=4096,
    )
    network = Network(sim, built, job_delay=0.0)
    network.announce()
    converged(sim, network, network.stated_s())
    settled(sim, network)
    before = network.figures()
    kinds = {kind for medium in network.media.values() for kind in medium.stats.frames}
    sim.expect(kinds == {"announce"}, f"nobody asked for {kinds}")
    check_routes(sim, network)
    # Each interface sends an announce twice at most: at once and again.
    most = 2 * max(len(segment.members) for segment in built.segments)
    sim.expect(before.duplicates <= most, f"{before.duplicates} of each announce on one medium")
    frames = data_frames(network)
    packets = network.send(network.pairs(8))
    check_delivered(sim, packets, idle=True)
    crossed = data_frames(network) - frames
    needed = 2 * sum(each.hops for each in packets)
    sim.expect(crossed == needed, f"{crossed} frames for {needed} hops there and back")
    check_delivered(sim, network.send(network.pairs(8), at_once=True))
    figures = network.figures()
    check_tables(sim, network, figures)
    return figures.as_dict()


def data_frames(network: Network) -> int:
    stats = [medium.stats.frames for medium in network.media.values()]
    return sum(frames.get("data", 0) + frames.get("proof", 0) for frames in stats)


@scenario
def mixed_networks(sim: Simulation, *, topology: str = "", size: int = 0) -> dict[str, float]:
    """Rates from radio to fibre and modes by chance: all learn of all, packets arrive."""
    random = sim.random
    built = mixed(
        shape(
            sim,
            topology,
            size,
            delay_s=random.choice([0.0, 0.02]),
            jitter_s=random.choice([0.0, 0.05]),
            ingress_control=False,
            queue_frames=4096,
        ),
        random,
    )
    network = Network(sim, built, job_delay=job_delay(sim))
    network.announce()
    converged(sim, network, network.stated_s())
    settled(sim, network)
    check_routes(sim, network)
    check_delivered(sim, network.send(network.pairs(6)))
    check_delivered(sim, network.send(network.pairs(20), at_once=True))
    figures = network.figures()
    check_tables(sim, network, figures)
    sim.expect(figures.loops == 0, "a route leads in a circle")
    return figures.as_dict()


# ------------------------------------------------------------------------------- faults


@scenario
def lossy_networks(sim: Simulation, *, topology: str = "", size: int = 0) -> dict[str, float]:
    """With loss, doubles and disorder: repeated announces reach all, each packet ends once.

    No bit is flipped: the address of the next hop is not signed, so media have to check sums.
    """
    random = sim.random
    built = shape(
        sim,
        topology,
        size or random.randrange(4, 13),
        rate_bps=random.choice([9_600, 1_000_000]),
        delay_s=0.01,
        jitter_s=random.choice([0.0, 0.2]),
        loss=random.choice([0.02, 0.1, 0.2]),
        duplicate=random.choice([0.0, 0.1]),
        reorder=random.choice([0.0, 0.2]),
        reorder_s=1.0,
        half_duplex=random.random() < 0.5,
        queue_frames=4096,
    )
    network = Network(sim, built, job_delay=job_delay(sim))
    rounds = 0
    while network.coverage() < 1.0:
        # More often would be blocked: announces have a rate of one an hour (RNS 1, 5.8).
        network.announce()
        sim.run(3_700)
        rounds += 1
        sim.expect(rounds < 20, f"{network.coverage():.0%} of the paths after {rounds} rounds")
    settled(sim, network)
    check_routes(sim, network)
    packets = network.send(network.pairs(30), at_once=True)
    for each in packets:
        sim.expect(each.copies <= 1, "a packet was handed out twice")
        sim.expect(each.copies == 1 or not each.ok, "proven, and never handed out")
    figures = network.figures()
    check_tables(sim, network, figures)
    return figures.as_dict()


@scenario
def restarts(sim: Simulation, *, topology: str = "", size: int = 0) -> dict[str, float]:
    """Nodes lose their power; with their tables they go on, without they learn anew."""
    random = sim.random
    built = shape(
        sim,
        topology,
        size or random.randrange(4, 16),
        rate_bps=1_000_000,
        delay_s=0.01,
        ingress_control=False,
    )
    network = Network(sim, built, job_delay=job_delay(sim))
    network.announce()
    converged(sim, network, network.stated_s())
    settled(sim, network)
    for _ in range(4):
        sim.run(random.choice([1.0, 100.0, 4000.0]))
        name = random.choice(built.nodes)
        keep = random.random() < 0.5
        network.restart(name, down_s=random.choice([0.0, 5.0]), keep=keep)
        if not keep:
            network.announce()
            converged(sim, network, network.stated_s())
            settled(sim, network)
        check_routes(sim, network)
        check_delivered(sim, network.send(network.pairs(6), at_once=True))
    figures = network.figures()
    check_tables(sim, network, figures)
    return figures.as_dict()


@scenario
def partitions(sim: Simulation, *, topology: str = "", size: int = 0) -> dict[str, float]:
    """Two halves: each goes on by itself, nothing crosses, and after healing all is as before."""
    random = sim.random
    built = shape(
        sim,
        topology or random.choice(["chain", "cells", "grid"]),
        size or random.randrange(4, 16),
        rate_bps=random.choice([9_600, 1_000_000]),
        delay_s=0.01,
        ingress_control=False,
        queue_frames=4096,
    )
    network = Network(sim, built, job_delay=job_delay(sim))
    network.announce()
    converged(sim, network, network.stated_s())
    settled(sim, network)
    split = random.randrange(1, len(built.nodes))
    halves = built.nodes[:split], built.nodes[split:]
    network.partition(*halves)
    across = network.send([(halves[0][0], halves[1][-1])] * 2, at_once=True)
    for each in across:
        sim.expect(not each.ok and each.copies == 0, "a packet crossed the cut")
        sim.expect(each.reason == "TIMEOUT", f"lost in the cut, and told {each.reason}")
    sim.run(random.choice([10.0, 3000.0]))
    network.heal()
    network.announce()
    converged(sim, network, network.stated_s())
    settled(sim, network)
    check_routes(sim, network)
    check_delivered(sim, network.send(network.pairs(8), at_once=True))
    figures = network.figures()
    check_tables(sim, network, figures)
    return figures.as_dict()


# ------------------------------------------------------------------------------ roaming


@scenario
def roaming_networks(
    sim: Simulation, *, stations: int = 0, roamers: int = 0, moves: int = 4
) -> dict[str, float]:
    """Roamers change their cells: who announces is found, who asks finds, wherever they are."""
    random = sim.random
    count = stations or random.randrange(2, 7)
    built = roaming(
        count,
        roamers or random.randrange(1, 7),
        backbone={"rate_bps": 1_000_000, "delay_s": 0.01, "ingress_control": False},
        mode=random.choice([InterfaceMode.ACCESS_POINT, InterfaceMode.GATEWAY]),
        rate_bps=random.choice([9_600, 57_600]),
        delay_s=0.002,
        ingress_control=False,
    )
    bases = [name for name in built.nodes if name.startswith("base")]
    moving = [name for name in built.nodes if name.startswith("roamer")]
    network = Network(sim, built, transport=bases)
    where = {name: f"cell{number % count}" for number, name in enumerate(moving)}
    network.announce()
    sim.expect(
        network.converge(timeout_s=network.stated_s(), among=bases), "stations miss somebody"
    )
    settled(sim, network)
    for _ in range(moves):
        name = random.choice(moving)
        cell = f"cell{random.randrange(count)}"
        if cell != where[name]:
            network.move(name, cell, leave=where[name])
            where[name] = cell
        sim.run(random.choice([0.0, 3.0, 60.0]))
        network.announce(name)
        sim.expect(
            network.converge(timeout_s=network.stated_s(), among=bases),
            f"{name} is not found in {cell}",
        )
        settled(sim, network)
        base = random.choice(bases)
        check_delivered(sim, network.send([(base, name)]))
        other = random.choice([each for each in network.nodes if each != name])
        reach(sim, network, name, other)
    figures = network.figures()
    check_tables(sim, network, figures)
    sim.expect(figures.loops == 0, "a route leads in a circle")
    return figures.as_dict()


def find(sim: Simulation, network: Network, name: str, other: str) -> None:
    """Asks for the path to another node until it is there.

    A relay that passed a request on hears none for the same destination in the next 45 to 50 s
    (RNS 1, 8.9.4): so an answer that went elsewhere meanwhile comes at the second try.
    """
    node, wanted = network.nodes[name], network.inboxes[other]
    for _ in range(2):
        op = node.request_path(wanted, timeout_s=60.0)
        if op is None or node.wait(op).ok:
            return
    sim.fail(f"{name} does not find {other}")


def reach(sim: Simulation, network: Network, name: str, other: str) -> None:
    """Sends to another node; where the path is one from before it moved, finds a new one."""
    find(sim, network, name, other)
    if not network.send([(name, other)])[0].ok:
        network.nodes[name].drop_path(network.inboxes[other])
        find(sim, network, name, other)
        check_delivered(sim, network.send([(name, other)]))


@scenario
def searches(sim: Simulation, *, size: int = 0) -> dict[str, float]:
    """Nobody announces; who asks is found over gateways, however far."""
    random = sim.random
    built = shape(
        sim,
        random.choice(["chain", "random", "grid", "star"]),
        size or random.randrange(3, 12),
        rate_bps=random.choice([9_600, 1_000_000]),
        delay_s=random.choice([0.0, 0.05]),
        mode=InterfaceMode.GATEWAY,
        announce_cap=1.0,
    )
    network = Network(sim, built, job_delay=job_delay(sim))
    for one, other in network.pairs(4):
        find(sim, network, one, other)
        sim.expect(
            network.routes(other)[one].end == "arrived", f"{one} was told a way that ends before"
        )
        check_delivered(sim, network.send([(one, other)]))
        sim.run(random.choice([1.0, 60.0]))
    figures = network.figures()
    sim.expect(figures.loops == 0, "a route leads in a circle")
    return figures.as_dict()


# ------------------------------------------------------------------------------- storms


@cache
def flood(count: int) -> tuple[bytes, ...]:
    """Announces of that many destinations; made once in a process."""
    identity = Identity.from_private(bytes(range(64)))
    return tuple(
        Announce.create(
            identity, f"flood.n{number}", emitted=EMITTED, random=number.to_bytes(5, "big")
        ).raw
        for number in range(count)
    )


EMITTED = 1_700_000_000
CAP = 0.02
HELD_MAX = 256
RELEASE_S = 5.0
BURST_S = 30.0
"""Penalty and hold of a burst, before the first of the held announces goes on (RNS 1, 8.15)."""


def bridge(slow_bps: int, *, ingress_control: bool) -> Topology:
    """A busy network on a fast line, a hub, and a slow radio channel behind it."""
    wire = Segment(
        name="wire",
        members=("feed", "hub"),
        medium={"rate_bps": 100_000_000, "queue_frames": 100_000},
        interface={"ingress_control": ingress_control},
    )
    air = Segment(
        name="air",
        members=("hub", "radio"),
        medium={"rate_bps": slow_bps, "half_duplex": True},
        interface={"kind": "rnode"},
    )
    return Topology(name="bridge", nodes=("feed", "hub", "radio"), segments=(wire, air))


@scenario
def storm(
    sim: Simulation,
    *,
    announces: int = 400,
    per_s: float = 0.0,
    slow_bps: int = 5_000,
    queue: int = 64,
) -> dict[str, float]:
    """A1: a storm of announces into a slow interface: queue and airtime keep to their caps."""
    random = sim.random
    rate = per_s or random.choice([167.0, 1_000.0])
    network = Network(
        sim,
        bridge(slow_bps, ingress_control=False),
        transport=["hub"],
        limits=Limits(announce_queue=queue),
    )
    hub, feed, air = network.nodes["hub"], network.nodes["feed"], network.media["air"]
    wire = feed.interface_on(network.media["wire"])
    waiting = list(reversed(flood(announces)))
    slow = hub.interface_on(air)
    fullest, looks = 0, 0

    def look() -> None:
        nonlocal fullest
        fullest = max(fullest, sum(each.interface == slow for each in hub.queued()))
        sim.expect(fullest <= queue, f"{fullest} announces are queued")

    def blow() -> None:
        nonlocal looks
        looks += 1
        if looks % max(20, queue // 5) == 0 or not waiting:
            look()
        for _ in range(max(1, round(rate / 100))):
            if waiting:
                feed.inject(waiting.pop(), interface=wire)
        if waiting:
            sim.after(max(1, round(rate / 100)) / rate, blow)

    sim.after(0, blow)
    sim.run(random.uniform(0.3, 0.9) * announces / rate)
    # In the midst of it the hub announces itself: that goes out at once.
    network.announce("hub")
    longest = 2 * sealed_air_s(slow_bps) + 0.1
    sim.expect(network.converge(timeout_s=longest, among=["radio"]), "its own had to wait")
    sim.run(until=lambda: not waiting, timeout_s=10_000)
    sim.run(60)
    own = 2 * sealed_air_s(slow_bps)
    budget = CAP * sim.time_s + own + sealed_air_s(slow_bps)
    used = air.stats.airtime_s
    sim.expect(used <= budget, f"{used} s of airtime, {budget} s are its share")
    stats = hub.stats()
    sim.expect(stats.known == stats.paths == announces, "what came on the fast line was lost")
    dropped = stats.drops.get(DropReason.ANNOUNCE_QUEUE, 0)
    settled(sim, network)
    relayed = air.stats.frames["announce"] - 1
    sim.expect(
        relayed + hub.stats().drops.get(DropReason.ANNOUNCE_QUEUE, 0) >= announces,
        "announces vanished without a reason",
    )
    return {"fullest": fullest, "dropped": dropped, "used_s": used, "budget_s": budget}


def sealed_air_s(rate_bps: int) -> float:
    """Airtime of one relayed announce."""
    return (ANNOUNCE_BYTES + RELAY_BYTES) * 8 / rate_bps


@scenario
def bursts(sim: Simulation, *, announces: int = 40) -> dict[str, float]:
    """A7: a burst is held back, and each held announce goes on within the stated time."""
    random = sim.random
    network = Network(sim, bridge(1_000_000, ingress_control=True), transport=["hub"])
    hub, feed = network.nodes["hub"], network.nodes["feed"]
    wire = feed.interface_on(network.media["wire"])
    for raw in flood(announces):
        feed.inject(raw, interface=wire)
        sim.run(random.choice([0.0, 0.001, 0.05]))
    sim.run(1)
    held = len(hub.held())
    sim.expect(0 < held <= HELD_MAX, f"{held} of {announces} announces are held")
    stated = BURST_S + held * RELEASE_S
    sim.run(until=lambda: not hub.held(), timeout_s=stated)
    sim.expect(not hub.held(), f"{len(hub.held())} are held after {stated} s")
    took = sim.time_s
    sim.run(10)
    paths = hub.stats().paths
    sim.expect(paths == announces, f"{paths} of {announces} paths after the burst")
    # It is over: what comes now goes on at once.
    network.announce("feed")
    sim.expect(network.converge(timeout_s=5.0, among=["hub"]), "the burst never ended")
    return {"held": held, "stated_s": stated, "took_s": took}


@scenario
def inbound(sim: Simulation, *, announces: int = 1_500, per_s: float = 1_000.0) -> dict[str, float]:
    """A flood that costs a busy hub more than it has: links and data over the same line go on."""
    random = sim.random
    delay = random.uniform(3_000.0, 10_000.0)  # a check takes a fifth of a second and more
    limits = Limits(announce_jobs=256, announce_jobs_per_iface=128, jobs_per_iface=16)
    network = Network(
        sim, bridge(1_000_000, ingress_control=False), transport=["hub"], limits=limits
    )
    feed = network.nodes["feed"]
    hub = sim.node("busy", transport=True, limits=limits, job_delay=delay)
    hub.connect(network.media["wire"], ingress_control=False)
    inbox = hub.listen(sim.identity("busy"), "network.busy", prove="all")
    hub.announce(inbox)
    sim.run(until=lambda: inbox in {each.destination for each in feed.paths()}, timeout_s=60)
    network.announce("radio")
    sim.expect(network.converge(timeout_s=60, among=["feed"]), "no path before the flood")
    wire = feed.interface_on(network.media["wire"])
    waiting = list(reversed(flood(announces)))

    def blow() -> None:
        for _ in range(10):
            if waiting:
                feed.inject(waiting.pop(), interface=wire)
        if waiting:
            sim.after(10 / per_s, blow)

    sim.after(0, blow)
    sim.run(0.5 * announces / per_s)
    sim.expect(bool(waiting), "the flood is over already")
    link = feed.open_link(inbox)
    check_delivered(sim, network.send([("feed", "radio")]))
    sim.run(until=lambda: isinstance(feed.state_of(link), LinkActive), timeout_s=30)
    sim.expect(isinstance(feed.state_of(link), LinkActive), "the link never came up")
    sim.run(until=lambda: not waiting, timeout_s=60)
    sim.run(30)
    drops = hub.stats().drops
    refused = drops.get(DropReason.ANNOUNCES_SHARE, 0) + drops.get(DropReason.ANNOUNCES_FULL, 0)
    sim.expect(refused > 0, "the flood was none")
    sim.expect(DropReason.JOBS_SHARE not in drops, "announces took the share of the others")
    known = hub.stats().known
    sim.expect(known + refused >= announces, "announces vanished without a reason")
    return {"refused": refused, "known": known}
