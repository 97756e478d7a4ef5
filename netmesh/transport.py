"""The tables of a transport node as records: announces in flight, ways back, links that pass.

:class:`netmesh.Engine` gives and takes them by name, ``engine.rebroadcasts()``,
``engine.put_rebroadcast(record)``, ``engine.drop_rebroadcast(record)`` and so on, so that a
state can be made without living through it. Times are seconds on the engine's monotonic
clock; the ``_unix_s`` fields say the same on the Unix clock and are not read back.

Example:
    >>> from netmesh import DestinationHash, Engine
    >>> from netmesh.transport import PassedRequestRecord
    >>> engine = Engine(transport=True, clock=(100.0, 1_700_000_000.0))
    >>> wanted = DestinationHash(bytes(range(16)))
    >>> engine.put_passed_request(PassedRequestRecord(destination=wanted, since_s=90.0))
    >>> engine.passed_requests()[0].since_unix_s
    1699999990.0
"""

from __future__ import annotations

from dataclasses import dataclass

from netmesh._core import DestinationHash

__all__ = [
    "AlternativeRecord",
    "ControlRecord",
    "HeldRecord",
    "PassedRequestRecord",
    "QueuedRecord",
    "RateRecord",
    "RebroadcastRecord",
    "ReverseRecord",
    "SearchRecord",
    "TransitRecord",
    "TunnelPathRecord",
    "TunnelRecord",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebroadcastRecord:
    """An announce that goes out again, or the answer to a path request (RNS 1, 8.6)."""

    destination: DestinationHash
    """Whose announce it is; the key."""
    announce: bytes
    """The packet as it came in."""
    hops: int
    """0 to 128, counted on arrival; it leaves with this number."""
    received_from: bytes = bytes(16)
    """16 bytes: the transport id of the neighbour, or the destination."""
    retries: int = 0
    """How often it was sent; more than 1 ends it."""
    local_rebroadcasts: int = 0
    """How often a neighbour was heard to send the same; 2 end it."""
    path_response: bool = False
    """Whether it answers a path request; it is not rebroadcast by others then."""
    attached: int | None = None
    """The only interface that it goes out on; None: all."""
    interface: int | None = None
    """Where it came from."""
    added_s: float = 0.0
    """When it was put up."""
    added_unix_s: float = 0.0
    """The same on the Unix clock."""
    due_s: float = 0.0
    """When it is sent next."""
    due_unix_s: float = 0.0
    """The same on the Unix clock."""
    aside: bool = False
    """Whether a rebroadcast waits until this response is out; not read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRecord:
    """An announce held back during a burst (RNS 1, 8.15). Interface and destination are the key."""

    interface: int
    """Where it came in."""
    destination: DestinationHash
    """Whose announce it is."""
    packet: bytes = b""
    """The packet as it came in; its signature was checked."""
    hops: int = 0
    """Counted on arrival."""
    since_s: float = 0.0
    """When it was held; not read back."""
    since_unix_s: float = 0.0
    """The same on the Unix clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRecord:
    """An announce that waits for its share of an interface (RNS 1, 8.8).

    Interface and destination are the key.
    """

    interface: int
    """Where it will go out."""
    destination: DestinationHash
    """Whose announce it is."""
    packet: bytes = b""
    """The packet as it will leave."""
    hops: int = 0
    """The fewest go first."""
    since_s: float = 0.0
    """When it was queued; three hours later it is dropped."""
    since_unix_s: float = 0.0
    """The same on the Unix clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """What an interface brings of announces and path requests, and its bursts (RNS 1, 8.15).

    The interface is the key. Rates are per second and not read back; the time of a burst that
    is over is that of its beginning.
    """

    interface: int
    """The interface's id."""
    announces_in_rate: float = 0.0
    """Announces with a valid signature that came in."""
    announces_out_rate: float = 0.0
    """Announces of others that went out."""
    requests_in_rate: float = 0.0
    """Path requests that came in."""
    requests_out_rate: float = 0.0
    """Path requests that were passed on."""
    announce_burst: bool = False
    """Whether announces of new destinations are held back."""
    announce_burst_s: float = 0.0
    """Since when; 0: never."""
    announce_burst_unix_s: float = 0.0
    """The same on the Unix clock."""
    request_burst: bool = False
    """Whether path requests cause no search."""
    request_burst_s: float = 0.0
    """Since when; 0: never."""
    request_burst_unix_s: float = 0.0
    """The same on the Unix clock."""
    release_s: float = 0.0
    """When the next held announce may go on."""
    release_unix_s: float = 0.0
    """The same on the Unix clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeRecord:
    """Another way to the destination of a path, which takes over when the one in use fails.

    It is learned from a copy of the path's announce that came by another next hop, or is the
    way that the path had before. Nothing on the wire depends on it. Destination, next hop and
    interface are the key; those of one path are listed in the order in which they are tried.
    """

    destination: DestinationHash
    """Where it leads; there must be a path."""
    next_hop: bytes
    """16 bytes: the next transport node, or the destination."""
    interface: int
    """Where it goes out; it ends with the interface."""
    hops: int = 0
    """0 to 128."""
    emitted: int = 0
    """When the newest announce was made that came by it: Unix seconds, the sender's clock."""
    heard_s: float = 0.0
    """When that was heard."""
    heard_unix_s: float = 0.0
    """The same on the Unix clock."""
    failed_s: float = 0.0
    """When it was last found not to work; 0: never."""
    failed_unix_s: float = 0.0
    """The same on the Unix clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRecord:
    """How often announces of a destination came (RNS 1, 5.8)."""

    destination: DestinationHash
    """The key."""
    last_s: float
    """When the last one came that was not blocked."""
    blocked_until_s: float = 0.0
    """Until when its announces are not rebroadcast."""
    violations: int = 0
    """How often they came too early."""
    times_s: tuple[float, ...] = ()
    """When the last ones came, oldest first; at most 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseRecord:
    """A forwarded packet that waits for its proof (RNS 1, 8.2)."""

    packet: bytes
    """16 bytes: its truncated hash; the key."""
    received: int
    """The interface that it came in on, where the proof goes."""
    out: int
    """The interface that it went out on, where the proof must come from."""
    at_s: float = 0.0
    """When it was forwarded; eight minutes later it is forgotten."""
    at_unix_s: float = 0.0
    """The same on the Unix clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitRecord:
    """A link that passes through (upstream's link table, RNS 1, 8.2)."""

    link_id: bytes
    """16 bytes: the key."""
    destination: DestinationHash
    """Where it leads."""
    next_hop: bytes = bytes(16)
    """16 bytes: the next transport node, or the destination."""
    next_interface: int
    """The destination's side."""
    received_interface: int
    """The initiator's side."""
    remaining: int
    """Hops to the destination."""
    taken: int
    """Hops to the initiator."""
    validated: bool = False
    """Whether its proof passed; nothing else does before."""
    used_s: float = 0.0
    """When something passed last; 15 minutes later it is forgotten."""
    used_unix_s: float = 0.0
    """The same on the Unix clock."""
    deadline_s: float = 0.0
    """Until when its proof must have passed."""
    deadline_unix_s: float = 0.0
    """The same on the Unix clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelRecord:
    """A peer whose paths come back with it (RNS 1, 8.11)."""

    tunnel_id: bytes
    """32 bytes: the key."""
    interface: int | None = None
    """Where it is now; None: away. Putting one with an interface restores its paths there."""
    expires_s: float
    """When it is forgotten."""
    expires_unix_s: float = 0.0
    """The same on the Unix clock."""
    paths: int = 0
    """How many it has; not read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelPathRecord:
    """A path that comes back with a tunnel. Tunnel and destination are the key."""

    tunnel_id: bytes
    """32 bytes: whose it is."""
    destination: DestinationHash
    """Where it leads."""
    next_hop: bytes = bytes(16)
    """16 bytes: the next transport node, or the destination."""
    hops: int = 0
    """0 to 128."""
    updated_s: float = 0.0
    """When it was learned."""
    updated_unix_s: float = 0.0
    """The same on the Unix clock."""
    expires_s: float = 0.0
    """From when on it is not restored where there is no path."""
    expires_unix_s: float = 0.0
    """The same on the Unix clock."""
    announce_hash: bytes = bytes(32)
    """32 bytes: the hash of its announce."""
    announce: bytes | None = None
    """The announce as it came in."""
    random_blobs: tuple[bytes, ...] = ()
    """The random hashes of its announces, 10 bytes each, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """A destination that interfaces wait for (RNS 1, 8.9.4 case 4)."""

    destination: DestinationHash
    """The key."""
    engaged: bool = True
    """Whether requests went out for it."""
    until_s: float
    """How long they wait."""
    until_unix_s: float = 0.0
    """The same on the Unix clock."""
    interfaces: tuple[int, ...] = ()
    """Who waits; at most 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedRequestRecord:
    """A path request that was passed on and is not answered (RNS 1, 8.9.4)."""

    destination: DestinationHash
    """The key."""
    since_s: float
    """When; for 45 seconds others for the same destination are not passed on."""
    since_unix_s: float = 0.0
    """The same on the Unix clock."""
