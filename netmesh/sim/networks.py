"""Networks: a topology brought to life, and what it achieves beside what physics allows.

A :class:`Network` puts an engine on each node of a :class:`netmesh.sim.Topology` and a medium
on each segment. Every node owns one destination. It announces, waits until all know all,
follows routes through the tables, sends packets, moves, cuts and restarts nodes, and
:meth:`Network.figures` says what came of it.

Example:
    >>> from netmesh.sim import Network, Simulation, chain
    >>> with Simulation(seed=1) as sim:
    ...     network = Network(sim, chain(5, rate_bps=1_000_000, delay_s=0.01))
    ...     network.announce()
    ...     converged = network.converge()
    ...     route = network.routes("n4")["n0"]
    ...     (packet,) = network.send([("n0", "n4")])
    ...     figures = network.figures()
    >>> converged, packet.ok, figures.coverage, figures.loops
    (True, True, 1.0, 0)
    >>> route.nodes
    ('n0', 'n1', 'n2', 'n3', 'n4')
    >>> round(packet.delivery_s / packet.bound_s, 2)  # nothing but transmission and propagation
    1.0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal, final

from netmesh._core import DestinationHash
from netmesh.destination import destination_hash
from netmesh.errors import NetmeshError
from netmesh.events import PacketReceived, ReceiptDone
from netmesh.records import DropReason, EventKind, Limits, PathRecord, Snapshot
from netmesh.sim._medium import Medium
from netmesh.sim._node import SimNode
from netmesh.sim._simulation import Simulation
from netmesh.sim.topology import RELAY_BYTES, Segment, Topology

__all__ = ["Delivery", "Network", "NetworkFigures", "Route"]

ANNOUNCE_BYTES = 167
"""An announce without ratchet and app data: 19 of header, 148 of key, times and signature."""
_SPREAD_S = 0.5
# The share of an interface that relayed announces may have (RNS 1, 8.8).
_CAP = 0.02
_SLICE_S = 1.0
_EVENTS = (
    EventKind.PACKET,
    EventKind.RECEIPT,
    EventKind.PATH_RESULT,
    EventKind.LINK_ACTIVE,
    EventKind.LINK_CLOSED,
)


def sealed_bytes(content_bytes: int) -> int:
    """The length of a packet to a single destination: header, key, IV, blocks, HMAC."""
    blocks = content_bytes // 16 + 1
    return 19 + 32 + 16 + 16 * blocks + 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the tables lead from a node towards a destination."""

    nodes: tuple[str, ...]
    """The nodes on the way, the first one included."""
    end: Literal["arrived", "missing", "loop", "gone"]
    """"missing": the last node has no path; "loop": it leads back to where it was; "gone": the
    next hop is not on that segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of one packet."""

    source: str
    """Who sent it."""
    target: str
    """Who was to have it."""
    ok: bool
    """Whether its proof came back."""
    reason: str
    """Why not: the end of its receipt, or what sending raised; "" when it did."""
    hops: int
    """Segments on its way by the tables when it was sent; 0 when they led nowhere."""
    delivery_s: float | None
    """Until it was there, in seconds; None: it never was."""
    bound_s: float
    """Transmission and propagation on that way, as if all media were idle, in seconds."""
    fastest_s: float
    """The same on the fastest way that the topology has, whatever the tables say."""
    proof_s: float | None
    """Until the proof was back; None: it never was."""
    copies: int
    """How often the target's engine handed it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFigures:
    """What a network did, and the bounds of physics beside it. Plain numbers."""

    nodes: int
    """Nodes."""
    segments: int
    """Media."""
    diameter: int
    """The most hops between two nodes."""
    coverage: float
    """Paths that are known, of those that could be: 1.0 is everybody to everybody."""
    converged_s: float
    """From the announces to the last path that was learnt from them; 0 before that."""
    converged_bound_s: float
    """The least that this can take: the slowest way, and what a node can hear at once."""
    announces: int
    """Announces that were sent on all media."""
    announce_share: float
    """Airtime of announces beside the least that brings each to all nodes: 1.0 is the bound."""
    announce_airtime_s: float
    """Airtime of announces and path responses, over all media."""
    duplicates: float
    """Announces on the medium that had the most, for each that was announced."""
    airtime_s: float
    """Airtime of everything."""
    busiest: float
    """The share of time that the busiest medium was busy with announces."""
    packets: int
    """Packets that :meth:`Network.send` sent."""
    delivered: int
    """How many of them arrived."""
    delivery_times_bound: float
    """The slowest of them beside the bound of its route; 0 when none arrived."""
    detour: float
    """The worst route beside the fastest way that there was: 1.0 is no detour."""
    loops: int
    """Routes that lead back to where they were."""
    paths: int
    """Paths in the fullest table."""
    known: int
    """Known destinations in the fullest table."""
    queued: int
    """Announces that wait for their share of an interface, of the node that has most."""
    held: int
    """Announces held back in bursts, of the node that holds most."""
    duplicates_dropped: int
    """Packets that engines knew already and dropped, over all nodes."""
    memory_bytes: int
    """The most memory that one engine had in use at any time."""
    frames: int
    """Frames that reached an engine."""

    def as_dict(self) -> dict[str, float]:
        """The same as a dict of numbers."""
        return asdict(self)


@final
class Network:
    """Engines on the nodes of a topology, media on its segments.

    ``transport`` names the nodes that carry other nodes' traffic; None is all. ``aspect`` is
    the name of the destination that each node owns. Packets for it are proven. ``limits`` and
    ``job_delay`` are those of :meth:`Simulation.node`, for each node.
    """

    __slots__ = (
        "_aspect",
        "_at",
        "_begun_s",
        "_converged_s",
        "_deliveries",
        "_due",
        "_home",
        "_of",
        "_rounds",
        "_sent",
        "inboxes",
        "media",
        "nodes",
        "sim",
        "topology",
    )

    sim: Simulation
    """The simulation that it lives in."""
    topology: Topology
    """Its nodes and segments, as they are now."""
    nodes: dict[str, SimNode]
    """All nodes by name."""
    media: dict[str, Medium]
    """The medium of each segment by name."""
    inboxes: dict[str, DestinationHash]
    """The destination of each node by name."""

    def __init__(
        self,
        sim: Simulation,
        topology: Topology,
        *,
        transport: Iterable[str] | None = None,
        aspect: str = "network.node",
        limits: Limits | None = None,
        job_delay: float | tuple[float, float] = 0.0,
    ) -> None:
        self.sim = sim
        self.topology = topology
        self._aspect = aspect
        self._deliveries: list[Delivery] = []
        self._sent: dict[bytes, list[float]] = {}
        self._begun_s = 0.0
        self._converged_s = 0.0
        self._rounds = 0
        self._due: set[str] = set()
        carriers = set(topology.nodes if transport is None else transport)
        self.nodes = {}
        self.inboxes = {}
        for name in topology.nodes:
            node = sim.node(
                name,
                transport=name in carriers,
                limits=limits,
                job_delay=job_delay,
                boot=self._boot,
            )
            node.watch(_EVENTS)
            node.on(PacketReceived, self._arrived)
            self.nodes[name] = node
            self.inboxes[name] = destination_hash(sim.identity(name).hash, aspect)
        self._home = {bytes(inbox): name for name, inbox in self.inboxes.items()}
        self._of = {bytes(node.identity.hash): name for name, node in self.nodes.items()}
        self._at: dict[str, dict[int, str]] = {name: {} for name in topology.nodes}
        self.media = {}
        for segment in topology.segments:
            self.media[segment.name] = sim.medium(segment.name, **segment.medium)
            for member in segment.members:
                self._connect(member, segment)
        sim.run(0)

    def _boot(self, node: SimNode) -> None:
        node.listen(self.sim.identity(node.name), self._aspect, prove="all")

    def _connect(self, member: str, segment: Segment) -> None:
        node = self.nodes[member]
        node.connect(self.media[segment.name], **segment.interface_of(member))
        self._number(member)

    def _number(self, name: str) -> None:
        """Which segment is behind each interface of a node; the numbers change when it restarts."""
        node = self.nodes[name]
        found = ((node.interface_on(medium), key) for key, medium in self.media.items())
        self._at[name] = {number: key for number, key in found if number is not None}

    # ---------------------------------------------------------------------- announces

    def announce(self, *names: str, app_data: bytes | None = None) -> None:
        """Lets nodes announce now, all of them when none is named; those that are down do not."""
        self._begun_s = self.sim.time_s
        self._due = {name for name in names or self.topology.nodes if self.nodes[name].up}
        self._rounds += len(self._due)
        for name in sorted(self._due, key=self.topology.nodes.index):
            self.nodes[name].announce(self.inboxes[name], app_data)

    def announce_evenly(self, seconds: float) -> None:
        """Lets all nodes announce, one after the other, spread over some seconds."""
        self._begun_s = self.sim.time_s
        names = [name for name in self.topology.nodes if self.nodes[name].up]
        for number, name in enumerate(names):
            self.sim.after(number * seconds / len(names), partial(self._one, name))
        self._due = set(names)
        self._rounds += len(names)

    def _one(self, name: str) -> None:
        if self.nodes[name].up:
            self.nodes[name].announce(self.inboxes[name])

    def converge(self, *, timeout_s: float = 86_400.0, among: Iterable[str] | None = None) -> bool:
        """Runs until every node, or those of ``among``, has a path to each that announced last.

        A path counts when it was learnt after the announce. Whether that was so in time; how
        long it took is in :meth:`figures`.
        """
        hearers = [name for name in among or self.topology.nodes if self.nodes[name].up]
        wanted = {self.inboxes[name] for name in self._due}
        missing = {name: wanted - {self.inboxes[name]} for name in hearers}
        last_s = self._begun_s
        end_s = self.sim.time_s + timeout_s
        while True:
            for name in list(missing):
                last_s = max(last_s, self._hear(name, missing[name]))
                if not missing[name]:
                    del missing[name]
            if not missing:
                self._converged_s = last_s - self._begun_s
                return True
            if self.sim.time_s >= end_s:
                return False
            self._pass(self._begun_s, end_s)

    def _hear(self, name: str, missing: set[DestinationHash]) -> float:
        """Takes what a node has learnt since the announces out of ``missing``; the last moment."""
        node = self.nodes[name]
        if not node.up:
            missing.clear()
            return 0.0
        if node.stats().paths == 0:
            return 0.0
        start_s = node.now[0] - self.sim.time_s
        last_s = 0.0
        for path in node.paths():
            at_s = path.updated_s - start_s
            if path.destination in missing and at_s >= self._begun_s:
                missing.discard(path.destination)
                last_s = max(last_s, at_s)
        return last_s

    def coverage(self) -> float:
        """Paths that nodes have, of those that they could have: 1.0 is everybody to everybody."""
        up = [node for node in self.nodes.values() if node.up]
        return sum(node.stats().paths for node in up) / max(1, len(up) * (len(self.nodes) - 1))

    def settle(self, *, timeout_s: float = 86_400.0) -> bool:
        """Runs until no announce is repeated, queued or held, and all media are idle."""

        def quiet() -> bool:
            stats = (node.stats() for node in self.nodes.values() if node.up)
            if any(stat.rebroadcasts or stat.announces_queued for stat in stats):
                return False
            if any(node.up and node.held() for node in self.nodes.values()):
                return False
            return not any(medium.stats.waiting for medium in self.media.values())

        begun_s = self.sim.time_s
        end_s = begun_s + timeout_s
        while not quiet():
            if self.sim.time_s >= end_s:
                return False
            self._pass(begun_s, end_s)
        return True

    def _pass(self, begun_s: float, end_s: float) -> None:
        """Lets a second pass, or a tenth of what it took so far, but nothing beyond the end."""
        now_s = self.sim.time_s
        self.sim.run(min(max(_SLICE_S, (now_s - begun_s) / 10), end_s - now_s))

    def stated_s(self) -> float:
        """Within which announces of all nodes are everywhere, unless packets are lost, in seconds.

        On each hop: half a second of spread and the passage. And two rounds of all announces,
        as each is repeated, through the narrowest share that an interface gives them. Bursts
        that ingress control holds back take longer.
        """
        size = ANNOUNCE_BYTES + RELAY_BYTES
        hops = self.topology.diameter()
        passage = max(segment.passage_s(size) for segment in self.topology.segments)
        turn = max(
            segment.air_s(size) / float(segment.interface.get("announce_cap", _CAP))
            for segment in self.topology.segments
        )
        return hops * (_SPREAD_S + passage) + 2 * (len(self.nodes) + hops) * turn + 1.0

    # -------------------------------------------------------------------------- routes

    def tables(self) -> dict[str, dict[bytes, PathRecord]]:
        """The paths of every node that is up, by destination."""
        return {
            name: {bytes(path.destination): path for path in node.paths()}
            for name, node in self.nodes.items()
            if node.up
        }

    def routes(
        self, target: str, tables: Mapping[str, Mapping[bytes, PathRecord]] | None = None
    ) -> dict[str, Route]:
        """Where the tables lead from each other node that is up towards ``target``."""
        known = self.tables() if tables is None else tables
        return {
            name: self._route(name, target, known)
            for name in self.topology.nodes
            if name != target and name in known
        }

    def _route(
        self, source: str, target: str, tables: Mapping[str, Mapping[bytes, PathRecord]]
    ) -> Route:
        inbox = bytes(self.inboxes[target])
        way = [source]
        while True:
            path = tables.get(way[-1], {}).get(inbox)
            if path is None:
                return Route(nodes=tuple(way), end="missing")
            segment = self._at[way[-1]].get(path.interface, "")
            to = self._of.get(path.next_hop) if path.hops > 1 else self._home.get(inbox)
            if to is None or segment not in self._at[to].values():
                return Route(nodes=tuple(way), end="gone")
            again = to in way
            way.append(to)
            if to == target:
                return Route(nodes=tuple(way), end="arrived")
            if again:
                return Route(nodes=tuple(way), end="loop")

    def passage_s(self, route: Route, size_bytes: int) -> float:
        """The least time that a packet takes on a route, in seconds."""
        inbox = self.inboxes[route.nodes[-1]]
        segments = {segment.name: segment for segment in self.topology.segments}
        total = 0.0
        left = len(route.nodes) - 1
        for one, _ in pairwise(route.nodes):
            name = self._at[one][self.nodes[one].path(inbox).interface]
            total += segments[name].passage_s(size_bytes + (RELAY_BYTES if left > 1 else 0))
            left -= 1
        return total

    # ------------------------------------------------------------------------- packets

    def _arrived(self, event: PacketReceived) -> None:
        self._sent.setdefault(event.data, []).append(self.sim.time_s)

    def send(
        self, pairs: Iterable[tuple[str, str]], *, at_once: bool = False, size_bytes: int = 32
    ) -> list[Delivery]:
        """Sends a packet from one node to another, for each pair, and runs until all have ended.

        One after the other, so that each meets idle media, or all ``at_once``. ``size_bytes``
        is the length of their content, 8 or more.
        """
        known = self.tables()
        done = []
        for batch in [list(pairs)] if at_once else [[pair] for pair in pairs]:
            begun = [self._begin(one, other, known, size_bytes) for one, other in batch]
            for data, op, began_s, delivery in begun:
                done.append(self._end(data, op, began_s, delivery))
        self._deliveries += done
        return done

    def _begin(
        self,
        source: str,
        target: str,
        known: Mapping[str, Mapping[bytes, PathRecord]],
        size_bytes: int,
    ) -> tuple[bytes, int | None, float, Delivery]:
        data = len(self._sent).to_bytes(8, "big") + bytes(size_bytes - 8)
        self._sent[data] = []
        route = self._route(source, target, known)
        there = route.end == "arrived"
        node = self.nodes[source]
        op: int | None = None
        reason = ""
        try:
            op = node.send(self.inboxes[target], data)
        except NetmeshError as error:
            reason = error.reason
        size = sealed_bytes(size_bytes)
        bound_s = self.passage_s(route, size) if there and op else 0.0
        delivery = Delivery(
            source=source,
            target=target,
            ok=False,
            reason=reason,
            hops=len(route.nodes) - 1 if there else 0,
            delivery_s=None,
            bound_s=bound_s,
            fastest_s=self.topology.arrivals_from(source, size).get(target, 0.0),
            proof_s=None,
            copies=0,
        )
        return data, op, self.sim.time_s, delivery

    def _end(self, data: bytes, op: int | None, began_s: float, delivery: Delivery) -> Delivery:
        node = self.nodes[delivery.source]
        end = node.wait(op) if op is not None else None
        arrivals = self._sent[data]
        proof_s = end.rtt_s if isinstance(end, ReceiptDone) and end.ok else None
        return replace(
            delivery,
            ok=proof_s is not None,
            reason=delivery.reason if end is None or end.ok else end.reason,
            delivery_s=arrivals[0] - began_s if arrivals else None,
            proof_s=proof_s,
            copies=len(arrivals),
        )

    def pairs(self, count: int) -> list[tuple[str, str]]:
        """Some pairs of nodes that are up, by the seed."""
        up = [name for name in self.topology.nodes if self.nodes[name].up]
        return [
            (one, other) for one, other in (self.sim.random.sample(up, 2) for _ in range(count))
        ]

    # -------------------------------------------------------------------------- change

    def restart(self, name: str, *, down_s: float = 0.0, keep: bool = False) -> None:
        """Cuts the power of a node, and starts it again after some seconds.

        With ``keep`` it is given its tables back, as a program does that saved them; without,
        it knows nothing but its own destination.
        """
        node = self.nodes[name]
        kept: Snapshot | None = node.snapshot() if keep else None
        node.crash()
        self.sim.run(down_s)
        node.restart()
        self.sim.run(0)
        self._number(name)
        if kept is not None:
            node.load(kept)

    def move(self, name: str, segment: str, *, leave: str | None = None) -> None:
        """Lets a node join a segment, and leave another one."""
        if leave is not None:
            self.nodes[name].disconnect(self.media[leave])
        joined = next(one for one in self.topology.segments if one.name == segment)
        self._change(name, segment, leave)
        self._connect(name, joined)

    def _change(self, name: str, joined: str, left: str | None) -> None:
        segments = []
        for segment in self.topology.segments:
            members = segment.members
            if segment.name == joined:
                members = (*members, name)
            elif segment.name == left:
                members = tuple(member for member in members if member != name)
            segments.append(replace(segment, members=members))
        self.topology = replace(self.topology, segments=tuple(segments))

    def partition(self, *groups: Sequence[str]) -> None:
        """Cuts groups of nodes off from each other, on every segment; :meth:`heal` undoes it."""
        side = {name: number for number, group in enumerate(groups) for name in group}
        for segment in self.topology.segments:
            for one in segment.members:
                for other in segment.members:
                    if side.get(one, -1) != side.get(other, -1):
                        self.media[segment.name].cut(self.nodes[one], self.nodes[other])

    def heal(self) -> None:
        """Undoes all cuts."""
        for medium in self.media.values():
            medium.heal()

    # ------------------------------------------------------------------------- figures

    def figures(self) -> NetworkFigures:
        """What came of it so far, beside the bounds of its present topology."""
        tables = self.tables()
        up = [self.nodes[name] for name in tables]
        stats = [node.stats() for node in up]
        media = [medium.stats for medium in self.media.values()]
        announces = [
            stat.frames.get("announce", 0) + stat.frames.get("path_response", 0) for stat in media
        ]
        airtimes = self._announce_airtimes()
        floor = self.topology.flood_airtime_s(ANNOUNCE_BYTES) * self._rounds
        own = set(self._home)
        paths = sum(len(own.intersection(table)) for table in tables.values())
        routes = [route for name in tables for route in self.routes(name, tables).values()]
        arrived = [each for each in self._deliveries if each.delivery_s is not None]
        late = [each.delivery_s / each.bound_s for each in arrived if each.bound_s]  # type: ignore[operator]
        return NetworkFigures(
            nodes=len(self.nodes),
            segments=len(media),
            diameter=self.topology.diameter(),
            coverage=paths / max(1, len(tables) * (len(self.nodes) - 1)),
            converged_s=self._converged_s,
            converged_bound_s=self.converged_bound_s(),
            announces=sum(announces),
            announce_share=sum(airtimes) / floor if floor else 0.0,
            announce_airtime_s=sum(airtimes),
            duplicates=max(announces, default=0) / max(1, self._rounds),
            airtime_s=sum(stat.airtime_s for stat in media),
            busiest=max(airtimes, default=0.0) / self.sim.time_s if self.sim.time_s else 0.0,
            packets=len(self._deliveries),
            delivered=len(arrived),
            delivery_times_bound=max(late, default=0.0),
            detour=max(
                (each.bound_s / each.fastest_s for each in arrived if each.fastest_s), default=0.0
            ),
            loops=sum(route.end == "loop" for route in routes),
            paths=max((stat.paths for stat in stats), default=0),
            known=max((stat.known for stat in stats), default=0),
            queued=max((stat.announces_queued for stat in stats), default=0),
            held=max((len(node.held()) for node in up), default=0),
            duplicates_dropped=sum(stat.drops.get(DropReason.DUPLICATE, 0) for stat in stats),
            memory_bytes=max((node.totals.peak_bytes for node in self.nodes.values()), default=0),
            frames=self.sim.stats.frames,
        )

    def _announce_airtimes(self) -> list[float]:
        airtimes = []
        for segment in self.topology.segments:
            stat = self.media[segment.name].stats
            count = stat.frames.get("announce", 0) + stat.frames.get("path_response", 0)
            size = stat.frame_bytes.get("announce", 0) + stat.frame_bytes.get("path_response", 0)
            airtimes.append(segment.air_s(size) + (count - 1) * segment.air_s(0) if count else 0.0)
        return airtimes

    def converged_bound_s(self) -> float:
        """The least time in which the announces since the last :meth:`announce` can be everywhere.

        The slowest way of one of them through idle media, or what a node can hear at once,
        whichever is longer; in seconds.
        """
        ways = [
            max(self.topology.arrivals_from(name, ANNOUNCE_BYTES).values()) for name in self._due
        ]
        intake = self.topology.intake_s(ANNOUNCE_BYTES, max(0, len(self._due) - 1))
        return max([*ways, intake], default=0.0)
