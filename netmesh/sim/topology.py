"""Topologies: who is on which medium, and what physics allows there.

A :class:`Topology` is plain data: names of nodes, and :class:`Segment` s that join them, each a
medium of its own. It knows its graph (hops, connectedness) and the bounds that no protocol can
beat: how early a packet can be everywhere, how much airtime that takes at least. A
:class:`netmesh.sim.Network` brings one to life.

Example:
    >>> line = chain(4, rate_bps=8_000, delay_s=0.01)
    >>> line.hops_from("n0")
    {'n0': 0, 'n1': 1, 'n2': 2, 'n3': 3}
    >>> round(line.arrivals_from("n0", 100)["n3"], 3)  # 100 and twice 116 bytes, at 1,000 a second
    0.362
    >>> round(line.flood_airtime_s(100), 3)
    0.3
"""

from __future__ import annotations

import heapq
import random as _random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from netmesh.constants import InterfaceMode

__all__ = [
    "Segment",
    "Topology",
    "cells",
    "chain",
    "grid",
    "mixed",
    "random_network",
    "roaming",
    "star",
]

RELAY_BYTES = 16
"""What a packet grows by when it is relayed: the transport id (RNS 1, 4.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One medium of a network, and who is on it."""

    name: str
    """Its name, and that of the interfaces on it."""
    members: tuple[str, ...]
    """Names of the nodes on it."""
    medium: Mapping[str, Any] = field(default_factory=dict)
    """Options of :meth:`netmesh.sim.Simulation.medium`."""
    interface: Mapping[str, Any] = field(default_factory=dict)
    """Options of :meth:`netmesh.sim.SimNode.connect` for all members."""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The same for single members, by name."""

    def interface_of(self, member: str) -> dict[str, Any]:
        """The options of a member's interface: "tcp" between two nodes, "udp" among more."""
        kind = "tcp" if len(self.members) <= 2 else "udp"
        return {"kind": kind} | dict(self.interface) | dict(self.own.get(member, {}))

    def air_s(self, size_bytes: int) -> float:
        """Seconds that a frame of this length is being sent."""
        rate = self.medium.get("rate_bps")
        return float(self.medium.get("frame_s", 0.0)) + (size_bytes * 8 / rate if rate else 0.0)

    def passage_s(self, size_bytes: int) -> float:
        """The least time from the first bit sent to the last one heard, in seconds."""
        return self.air_s(size_bytes) + float(self.medium.get("delay_s", 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Nodes and the segments that join them."""

    name: str
    """What it is called in reports."""
    nodes: tuple[str, ...]
    """Names of all nodes."""
    segments: tuple[Segment, ...]
    """All media."""

    def __post_init__(self) -> None:
        known = set(self.nodes)
        names = {segment.name for segment in self.segments}
        if len(known) != len(self.nodes) or len(names) != len(self.segments):
            raise ValueError("nodes and segments need names of their own")
        for segment in self.segments:
            if strangers := set(segment.members) - known:
                raise ValueError(f"{segment.name} has unknown members: {sorted(strangers)}")

    def segments_of(self) -> dict[str, list[Segment]]:
        """The segments of each node."""
        found: dict[str, list[Segment]] = {name: [] for name in self.nodes}
        for segment in self.segments:
            for member in segment.members:
                found[member].append(segment)
        return found

    def hops_from(self, node: str) -> dict[str, int]:
        """How many segments lie between a node and each one that it can reach."""
        of = self.segments_of()
        hops = {node: 0}
        seen: set[str] = set()
        waiting = deque([node])
        while waiting:
            at = waiting.popleft()
            for segment in of[at]:
                if segment.name in seen:
                    continue
                seen.add(segment.name)
                for member in segment.members:
                    if member not in hops:
                        hops[member] = hops[at] + 1
                        waiting.append(member)
        return hops

    def diameter(self) -> int:
        """The most hops between two nodes that can reach each other."""
        return max(max(self.hops_from(node).values()) for node in self.nodes)

    def connected(self) -> bool:
        """Whether each node can reach each other one."""
        return not self.nodes or len(self.hops_from(self.nodes[0])) == len(self.nodes)

    def arrivals_from(self, node: str, size_bytes: int) -> dict[str, float]:
        """How early a packet from ``node`` can be at each node it can reach, in seconds.

        Transmission and propagation on the fastest way, as if all media were idle; a relayed
        packet is :data:`RELAY_BYTES` longer.
        """
        of = self.segments_of()
        best = {node: 0.0}
        heap = [(0.0, node)]
        while heap:
            at_s, at = heapq.heappop(heap)
            if at_s > best[at]:
                continue
            size = size_bytes if at == node else size_bytes + RELAY_BYTES
            for segment in of[at]:
                there_s = at_s + segment.passage_s(size)
                for member in segment.members:
                    if there_s < best.get(member, float("inf")):
                        best[member] = there_s
                        heapq.heappush(heap, (there_s, member))
        return best

    def flood_airtime_s(self, size_bytes: int) -> float:
        """The least airtime, over all media, that brings a packet to every node, in seconds.

        Each node but the first hears it for the first time on one of its segments, and one
        sending there serves all its other members at most: so it is no less than a minimum
        spanning tree whose edges weigh the sending shared among its hearers. On a network of
        cables alone that bound is exact.
        """
        edges = [
            (segment.air_s(size_bytes) / (len(segment.members) - 1), segment)
            for segment in self.segments
            if len(segment.members) > 1
        ]
        root = {name: name for name in self.nodes}

        def find(name: str) -> str:
            while root[name] != name:
                root[name] = root[root[name]]
                name = root[name]
            return name

        total = 0.0
        for weight, segment in sorted(edges, key=lambda edge: (edge[0], edge[1].name)):
            first, *others = segment.members
            for other in others:
                if find(first) != find(other):
                    root[find(other)] = find(first)
                    total += weight
        return total

    def intake_s(self, size_bytes: int, count: int) -> float:
        """The least time in which every node can have heard ``count`` packets, in seconds.

        A node hears no more than one frame at once on each of its segments.
        """
        slowest = 0.0
        for segments in self.segments_of().values():
            airs = [segment.air_s(size_bytes) for segment in segments]
            if airs and all(airs):
                slowest = max(slowest, count / sum(1 / air for air in airs))
        return slowest


# ------------------------------------------------------------------------------- shapes

_INTERFACE = {"ifac", "ingress_control", "kind", "mode", "announce_cap", "mtu"}


def _segment(options: Mapping[str, Any], name: str, members: Iterable[str]) -> Segment:
    """A segment whose options are told apart: those of interfaces, and those of the medium."""
    interface = {key: value for key, value in options.items() if key in _INTERFACE}
    medium = {key: value for key, value in options.items() if key not in _INTERFACE}
    return Segment(name=name, members=tuple(members), medium=medium, interface=interface)


def _names(count: int) -> tuple[str, ...]:
    if count < 1:
        raise ValueError(f"a network has one node or more, not {count}")
    return tuple(f"n{number}" for number in range(count))


def _cables(
    name: str, nodes: tuple[str, ...], pairs: Iterable[tuple[str, str]], options: Mapping[str, Any]
) -> Topology:
    cable = partial(_segment, options)
    segments = tuple(cable(f"{one}-{other}", (one, other)) for one, other in pairs)
    return Topology(name=name, nodes=nodes, segments=segments)


def chain(nodes: int, **options: Any) -> Topology:
    """Nodes in a row, each with a cable to the next one.

    ``options`` of this function and the others are those of media, and of interfaces: kind,
    mode, ifac, announce_cap, ingress_control, mtu.
    """
    names = _names(nodes)
    return _cables("chain", names, pairwise(names), options)


def star(nodes: int, **options: Any) -> Topology:
    """One hub, and a cable to each other node."""
    hub, *leaves = _names(nodes)
    return _cables("star", (hub, *leaves), [(hub, leaf) for leaf in leaves], options)


def grid(width: int, height: int, **options: Any) -> Topology:
    """Nodes in rows and columns, each with cables to its neighbours."""
    names = _names(width * height)
    right = [(at, at + 1) for at in range(width * height) if (at + 1) % width]
    down = [(at, at + width) for at in range(width * (height - 1))]
    pairs = [(names[one], names[other]) for one, other in sorted(right + down)]
    return _cables("grid", names, pairs, options)


def random_network(
    nodes: int, random: _random.Random, *, shortcuts: float = 0.5, **options: Any
) -> Topology:
    """A connected network as chance makes it.

    Each node joins one that is there already; ``shortcuts`` times as many cables as nodes are
    added between any two.
    """
    names = _names(nodes)
    pairs = {(names[random.randrange(at)], names[at]) for at in range(1, nodes)}
    most = nodes * (nodes - 1) // 2
    wanted = min(most, len(pairs) + round(shortcuts * nodes))
    while len(pairs) < wanted:
        one, other = sorted(random.sample(range(nodes), 2))
        pairs.add((names[one], names[other]))
    return _cables("random", names, sorted(pairs), options)


def cells(count: int, members: int, **options: Any) -> Topology:
    """Radio cells in a row: in each some nodes share a half-duplex medium.

    Each cell has ``members`` nodes, and shares its last one with the next cell.
    """
    if members < 2:
        raise ValueError(f"a cell has two members or more, not {members}")
    names = _names(count * (members - 1) + 1)
    cell = partial(_segment, {"half_duplex": True, "kind": "rnode"} | options)
    firsts = range(0, len(names) - 1, members - 1)
    segments = tuple(
        cell(f"cell{number}", names[first : first + members]) for number, first in enumerate(firsts)
    )
    return Topology(name="cells", nodes=names, segments=segments)


def roaming(
    cells: int,
    roamers: int,
    *,
    backbone: Mapping[str, Any] | None = None,
    mode: InterfaceMode = InterfaceMode.ACCESS_POINT,
    **options: Any,
) -> Topology:
    """Base stations in a row, each with a cell: a medium that its roamers share.

    Stations are "base0", ..., cells "cell0", ..., roamers "roamer0", ...; a roamer starts in
    the cell of its number, modulo the cells. ``backbone`` has the options of the cables
    between stations, ``mode`` is that of a station's interface in its cell (RNS 1, 8.14);
    roamers have mode ROAMING there. ``options`` are those of the cells.
    """
    bases = tuple(f"base{number}" for number in range(cells))
    moving = tuple(f"roamer{number}" for number in range(roamers))
    wires = _cables("roaming", bases, pairwise(bases), backbone or {})
    cell_options = {"half_duplex": True, "kind": "rnode"} | options
    areas = []
    for number, base in enumerate(bases):
        inside = [name for at, name in enumerate(moving) if at % cells == number]
        area = _segment(cell_options, f"cell{number}", (base, *inside))
        own: dict[str, Mapping[str, Any]] = {
            name: {"mode": InterfaceMode.ROAMING} for name in moving
        }
        areas.append(replace(area, own={**own, base: {"mode": mode}}))
    return Topology(name="roaming", nodes=bases + moving, segments=(*wires.segments, *areas))


RATES_BPS = (9_600, 57_600, 1_000_000, 100_000_000)
"""What :func:`mixed` chooses from: radio, better radio, a slow line, a fast one."""


def mixed(
    topology: Topology,
    random: _random.Random,
    *,
    rates_bps: Iterable[int] = RATES_BPS,
    modes: Iterable[InterfaceMode] = (
        InterfaceMode.FULL,
        InterfaceMode.GATEWAY,
        InterfaceMode.POINT_TO_POINT,
    ),
) -> Topology:
    """The same network with a rate for each medium, and a mode for each interface, by chance.

    The modes of the default pass every announce on, so that all nodes learn of each other.
    """
    rates, choices = list(rates_bps), list(modes)
    segments = []
    for segment in topology.segments:
        rate = random.choice(rates)
        own = {
            member: {"mode": random.choice(choices)} | dict(segment.own.get(member, {}))
            for member in segment.members
        }
        medium = {**segment.medium, "rate_bps": rate}
        segments.append(replace(segment, medium=medium, own=own))
    return replace(topology, segments=tuple(segments))
