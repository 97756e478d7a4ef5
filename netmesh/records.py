"""What an engine's tables hold, as values: snapshots, verdicts, figures, limits.

Every record is frozen; ``dataclasses.replace`` makes an edited copy, and the ``put``
methods of :class:`netmesh.engine.Engine` load it back. Times end in ``_s``: seconds on the
engine's monotonic clock, or Unix seconds when they end in ``_unix_s``. Where a record gives
both, the monotonic one counts when it is put back. Ids (``interface``, ``link``, ``op``,
``token``) are whole numbers above 0; None stands for none.

Example:
    >>> from dataclasses import replace
    >>> from netmesh.engine import Engine
    >>> engine = Engine(clock=(1000.0, 1_700_000_000.0))
    >>> engine.add_interface("hub")
    1
    >>> engine.put_path(PathRecord(destination=DestinationHash(bytes(16)), hops=3, interface=1))
    >>> engine.hops(bytes(16))
    3
    >>> engine.put_path(replace(engine.path(bytes(16)), hops=5))
    >>> engine.hops(bytes(16))
    5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from netmesh._core import DROP_TEXTS, DestinationHash, Identity, IdentityHash
from netmesh.constants import (
    InterfaceMode,
    LinkMode,
    LinkState,
    PathState,
    ReceiptState,
    ResourceState,
)
from netmesh.ifac import Ifac

if TYPE_CHECKING:
    from netmesh._transport_rows import Record as TransportRecord

__all__ = [
    "BlackholeRecord",
    "ChannelRecord",
    "CloseReason",
    "Compression",
    "DropReason",
    "EngineStats",
    "EventKind",
    "FlightRecord",
    "IngressNumbers",
    "InterfaceChange",
    "InterfaceCounters",
    "InterfaceRecord",
    "InterfaceRole",
    "JobKind",
    "JobRecord",
    "KnownRecord",
    "Limits",
    "LinkRecord",
    "MtuMode",
    "Output",
    "OutstandingMessage",
    "PathRecord",
    "PathRequestRecord",
    "PathTag",
    "RatchetRecord",
    "Recalled",
    "ReceiptRecord",
    "RecordKind",
    "SentMessage",
    "SentPacket",
    "Snapshot",
    "Stage",
    "TransferRecord",
    "Verdict",
]

# ------------------------------------------------------------------------------- codes


class EventKind(IntEnum):
    """What an event tells; :mod:`netmesh.events` has a class for each."""

    ANNOUNCE = 0
    PROGRESS = 1
    IFACE = 2
    PATH = 3
    PACKET = 4
    LINK_PACKET = 5
    LINK_ACTIVE = 6
    LINK_IDENTIFIED = 7
    REQUEST = 8
    RESOURCE_OFFER = 9
    RESOURCE_IN = 10
    CHANNEL_DATA = 11
    STREAM_DATA = 12
    LINK_CLOSED = 13
    RECEIPT = 14
    ANNOUNCED = 15
    PATH_RESULT = 16
    RESPONSE = 17
    RESOURCE_OUT = 18
    RESOURCE_IN_FAILED = 19
    CHANNEL_SENT = 20
    STREAM_SENT = 21
    CHANNEL_READY = 22
    STREAM_MADE = 23


class Stage(IntEnum):
    """Where an operation failed."""

    NONE = 0
    """It did not."""
    PATH = 1
    """No path, or none in time."""
    IDENTITY = 2
    """The destination's keys are not known."""
    LINK = 3
    """The link was not established, or it ended."""
    SEND = 4
    """No interface took the packet."""
    PROOF = 5
    """Sent, and not proven in time."""
    REQUEST = 6
    """Request sent, no response in time."""
    HANDLER = 7
    """The responder's handler failed."""
    TRANSFER = 8
    """A resource did not complete."""
    REFUSED = 9
    """The peer said no, or a limit did."""
    STORE = 10
    """What had to be durable first could not be stored."""
    CANCELLED = 11
    """The program cancelled it."""


class CloseReason(IntEnum):
    """Why a link ended; the first three are upstream's numbers."""

    NONE = 0
    """It has not."""
    TIMEOUT = 1
    """The peer did not answer, or fell silent."""
    INITIATOR = 2
    """The initiator closed it."""
    DESTINATION = 3
    """The destination closed it."""
    NO_PATH = 4
    """Nothing could carry the request."""
    IFACE_GONE = 5
    """Its interface went offline or was removed."""
    PROTOCOL = 6
    """The peer broke a rule that ends links."""
    BLACKHOLED = 7
    """The peer identified as a blackholed identity."""
    REFUSED = 8
    """The proof offered more than was asked for."""
    NO_MEMORY = 9
    """Memory ran out."""
    SHUTDOWN = 10
    """The engine was closed."""
    CHANNEL = 11
    """A channel message was not proven in five tries."""


class InterfaceRole(IntEnum):
    """What the other end of an interface is."""

    ORDINARY = 0
    """Another node, or a medium."""
    LOCAL_CLIENT = 1
    """A process attached to this shared instance."""
    SHARED_CONNECTION = 2
    """The shared instance that this process is attached to."""


class InterfaceChange(IntEnum):
    """What happened to an interface."""

    ADDED = 0
    CHANGED = 1
    ONLINE = 2
    OFFLINE = 3
    REMOVED = 4


class MtuMode(IntEnum):
    """How an interface's MTU takes part in the MTU of links."""

    NONE = 0
    """It never raises a link's MTU above 500."""
    AUTO = 1
    """It follows the bitrate."""
    FIXED = 2
    """It is set by hand."""


class JobKind(IntEnum):
    """Heavy work that an engine hands out."""

    VERIFY_ANNOUNCE = 0
    SIGN_ANNOUNCE = 1
    PROVE = 2
    VERIFY_PROOF = 3
    OPEN_PACKET = 4
    SEAL_PACKET = 5
    LINK_KEYS = 6
    LINK_ACCEPT = 7
    LINK_CONFIRM = 8
    LINK_IDENTIFY = 9
    LINK_SIGN_ID = 10
    RESOURCE_SEAL = 11
    RESOURCE_OPEN = 12
    STORE = 13
    STREAM_PACK = 14
    STREAM_OPEN = 15
    VERIFY_LINK_PROOF = 16
    VERIFY_TUNNEL = 17
    SINK_FINISH = 18


class RecordKind(IntEnum):
    """What a line of the flight recorder is about."""

    INPUT = 0
    OUTPUT = 1
    EVENT = 2
    JOB = 3
    TIMER = 4


class Compression(IntEnum):
    """Whether a resource is compressed."""

    OFF = 0
    """Never."""
    WHEN_SMALLER = 1
    """Compressed first, sent so when it came out shorter."""
    AUTOMATIC = 2
    """The same, but a look at a sample may save the effort."""


class DropReason(IntEnum):
    """Why a packet was not handled; :attr:`text` says it in words."""

    NONE = 0
    IFACE_UNKNOWN = 1
    IFACE_OFFLINE = 2
    RUNT = 3
    OVERSIZE = 4
    IFAC_UNEXPECTED = 5
    IFAC_MISSING = 6
    IFAC_SHORT = 7
    IFAC_WRONG = 8
    MALFORMED = 9
    HOPS = 10
    EMPTY = 11
    NOT_NEXT_HOP = 12
    PLAIN_ANNOUNCE = 13
    PLAIN_HOPS = 14
    DUPLICATE = 15
    ANNOUNCE_SIZE = 16
    ANNOUNCE_MALFORMED = 17
    ANNOUNCE_SIGNATURE = 18
    ANNOUNCE_DESTINATION = 19
    ANNOUNCE_KEY_MISMATCH = 20
    ANNOUNCE_BLACKHOLED = 21
    ANNOUNCE_LOCAL = 22
    ANNOUNCE_STALE = 23
    ANNOUNCE_REPLAY = 24
    ANNOUNCE_WORSE = 25
    NO_DESTINATION = 26
    WRONG_TYPE = 27
    NOT_ACCEPTING = 28
    DECRYPT = 29
    RATCHET_REQUIRED = 30
    NO_LINK = 31
    LINK_IFACE = 32
    LINK_STATE = 33
    LINK_REQUEST_MALFORMED = 34
    LINK_PROOF_MALFORMED = 35
    LINK_PROOF_SIGNATURE = 36
    LINK_PROOF_MODE = 37
    LINK_PROOF_HOPS = 38
    LINK_PAYLOAD = 39
    PROOF_UNKNOWN = 40
    PROOF_LENGTH = 41
    PROOF_SIGNATURE = 42
    REQUEST_UNKNOWN = 43
    REQUEST_PATH = 44
    REQUEST_POLICY = 45
    REQUEST_SIZE = 46
    RESOURCE_MALFORMED = 47
    RESOURCE_UNKNOWN = 48
    RESOURCE_REFUSED = 49
    RESOURCE_PART = 50
    CHANNEL_CLOSED = 51
    CHANNEL_WINDOW = 52
    PATH_REQUEST_MALFORMED = 53
    PATH_REQUEST_TAGLESS = 54
    PATH_REQUEST_SEEN = 55
    PATH_REQUEST_UNKNOWN = 56
    PROTOCOL_UNSUPPORTED = 57
    NO_CREDIT = 58
    JOBS_FULL = 59
    JOBS_SHARE = 60
    QUEUE_FULL = 61
    NO_MEMORY = 62
    SHUTDOWN = 63
    PATH_REQUEST_NO_ANSWER = 64
    PATH_REQUEST_LIMITED = 65
    ANNOUNCE_QUEUE = 66
    ANNOUNCE_EXPIRED = 67
    LINK_UNPROVEN = 68
    LINK_NOT_OURS = 69
    PROOF_IFACE = 70
    NOT_FORWARDED = 71
    TUNNEL_MALFORMED = 72
    TUNNEL_SIGNATURE = 73
    RESOURCE_SEGMENT = 74
    RESOURCE_MEMORY = 75
    ANNOUNCES_FULL = 76
    ANNOUNCES_SHARE = 77

    @property
    def text(self) -> str:
        """The reason as a sentence: 'packet was seen before'."""
        return DROP_TEXTS[self.name]


# ------------------------------------------------------------------------------- verbs


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one input, or would become of it."""

    accepted: bool
    """Whether it was handled; so far, when it is pending."""
    reason: DropReason
    """NONE, or why it was dropped."""
    packet_hash: bytes | None
    """32 bytes; None when the frame holds no packet."""
    remembered: bool
    """Whether the duplicate filter holds the hash now."""
    pending: bool
    """Whether a job decides that has not run yet."""
    sequence: int
    """Its number in the flight recorder; 0 for a dry run."""


@dataclass(frozen=True, slots=True)
class Output:
    """One frame that is to leave on one interface, with its access code."""

    interface: int
    """The interface's id."""
    data: bytes
    """The frame."""
    op: int | None = None
    """The operation that waits for the word that it was sent."""


@dataclass(frozen=True, slots=True)
class SentPacket:
    """A packet that was sent on a link."""

    op: int | None
    """The receipt's operation, None without a receipt."""
    packet_hash: bytes
    """32 bytes."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One piece of work that waits to be run."""

    id: int
    """Its number."""
    kind: JobKind
    """What it computes."""
    cost_s: float
    """A guess of its run time in seconds."""
    interface: int | None
    """The interface whose traffic caused it."""


@dataclass(frozen=True, slots=True)
class FlightRecord:
    """One line of the flight recorder."""

    sequence: int
    """Counts all lines, from 1."""
    time_s: float
    """When, on the monotonic clock."""
    kind: RecordKind
    """What it is about."""
    interface: int | None
    """The interface concerned."""
    reason: DropReason | None
    """Of an input: NONE, or why it was dropped."""
    event: EventKind | None
    """Of an event: its kind."""
    job: JobKind | None
    """Of a job: its kind."""
    pending: bool
    """Of an input: whether a job still decides."""
    context: int
    """The packet's context byte."""
    hops: int
    """The packet's hop count on the wire."""
    size_bytes: int
    """The packet's length."""
    destination: bytes
    """16 bytes: the packet's or the event's destination; zeros when there is none."""
    packet_hash: bytes | None
    """32 bytes, None when there is none; a node computes none of parts of resources."""


# ------------------------------------------------------------------------------ tables


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRecord:
    """One entry of the path table (RNS 1, 8.2)."""

    destination: DestinationHash
    """Where it leads."""
    next_hop: bytes = bytes(16)
    """16 bytes: the transport id of the next node, or the destination itself."""
    hops: int
    """0 to 128."""
    interface: int
    """The interface's id."""
    updated_s: float = 0.0
    """When it was learned or last used."""
    updated_unix_s: float = 0.0
    """The same on the Unix clock."""
    expires_s: float = 0.0
    """From when on an announce with more hops is taken."""
    expires_unix_s: float = 0.0
    """The same on the Unix clock."""
    state: PathState = PathState.UNKNOWN
    """Whether the destination answered over it."""
    announce_hash: bytes = bytes(32)
    """32 bytes: the hash of the announce's packet."""
    announce: bytes | None = None
    """The announce as it came in."""
    random_blobs: tuple[bytes, ...] = ()
    """The random hashes of announces taken, 10 bytes each, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRecord:
    """One known destination (RNS 1, 2.5). Its times are Unix times, since they are stored."""

    destination: DestinationHash
    """The destination."""
    public_key: bytes
    """64 bytes: the keys of its identity."""
    app_data: bytes | None = None
    """The app data of its last announce; None and b"" are different."""
    announce_hash: bytes = bytes(32)
    """32 bytes: the hash of that announce; zeros when there was none."""
    heard_unix_s: float = 0.0
    """When it was last heard."""
    used_unix_s: float | None = None
    """When it was last used; None: never, or retained."""
    retained: bool = False
    """Whether it stays through every cleaning."""
    ratchet: bytes | None = None
    """32 bytes: the public ratchet that it announced."""
    ratchet_unix_s: float = 0.0
    """When that was heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRecord:
    """One packet that waits for its proof (RNS 1, 4.9)."""

    packet_hash: bytes
    """32 bytes."""
    destination: DestinationHash
    """Where it went."""
    link: int | None
    """The link it went over."""
    op: int
    """Its operation."""
    state: ReceiptState
    """SENT, as long as it is in the table."""
    sent_s: float
    """When it was sent."""
    sent_unix_s: float
    """The same on the Unix clock."""
    timeout_s: float
    """How long it waits, seconds from the sending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRequestRecord:
    """One path request of our own that is in flight (RNS 1, 8.9.3)."""

    destination: DestinationHash
    """What was asked for."""
    last_s: float
    """When it was last sent."""
    last_unix_s: float
    """The same on the Unix clock."""
    waiting: int
    """How many operations wait for the answer."""


@dataclass(frozen=True, slots=True)
class PathTag:
    """One path request of somebody else's that was seen (RNS 1, 8.9.2)."""

    destination: DestinationHash
    """What was asked for."""
    tag: bytes
    """16 bytes; shorter tags are filled up with zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackholeRecord:
    """One ignored identity (RNS 1, 8.17)."""

    identity: IdentityHash
    """Who is ignored."""
    source: IdentityHash | None = None
    """Whose list it is from."""
    until_unix_s: float | None = None
    """Until when; None: for ever."""
    reason: str | None = None
    """Why, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """All about one link, also for a while after it closed (RNS 2, 1)."""

    link: int
    """Its number in this engine."""
    link_id: bytes
    """16 bytes: its address on the wire; zeros before the request is sent."""
    destination: DestinationHash
    """The destination that the link leads to, on both sides."""
    state: LinkState
    """Its state."""
    reason: CloseReason
    """Why it ended."""
    initiator: bool
    """Whether this side opened it."""
    identified: bool
    """Whether the peer is known: always to the initiator, else after it identified."""
    remote_identity: IdentityHash | None
    """The peer's identity."""
    interface: int | None
    """The interface that it runs over."""
    mtu: int
    """Bytes of its longest packet."""
    mdu: int
    """Bytes of the longest payload."""
    mode: LinkMode
    """The cipher."""
    hops: int
    """Hops to the peer."""
    rtt_s: float | None
    """The round-trip time, None before it is measured."""
    keepalive_s: float
    """Silence after which the initiator asks for a sign of life."""
    stale_s: float
    """Silence after which it counts as stale."""
    requested_s: float | None
    """When the request was sent or came."""
    activated_s: float | None
    """When it became active."""
    last_inbound_s: float | None
    """When the last packet came in."""
    last_outbound_s: float | None
    """When the last packet went out."""
    last_data_s: float | None
    """When the last data went or came, keepalives not counted."""
    last_keepalive_s: float | None
    """When the last keepalive was sent."""
    last_proof_s: float | None
    """When the last proof came in."""
    holds_ephemeral: bool
    """Whether the ephemeral private key is still in memory."""
    holds_session_key: bool
    """Whether the session key is still in memory."""
    requests_pending: int
    """Own requests that wait for their response."""
    transfers_in: int
    """Resources on their way in."""
    transfers_out: int
    """Resources on their way out, queued ones too."""
    channel_open: bool
    """Whether its channel is open."""
    signal_tracked: bool
    """Whether signal values are noted."""
    rssi_dbm: int | None
    """Signal strength of the last packet, if noted."""
    snr_db: float | None
    """Its signal to noise ratio."""
    quality_pct: int | None
    """Its link quality."""
    taken_s: float
    """When this record was made."""
    taken_unix_s: float
    """The same on the Unix clock."""

    def unix_s(self, time_s: float) -> float:
        """A time of this record on the Unix clock."""
        return self.taken_unix_s + (time_s - self.taken_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRecord:
    """The channel of a link (RNS 2, 4)."""

    open: bool
    """Whether it takes messages still."""
    mdu: int
    """Bytes of the longest message."""
    window: int
    """Messages that may be outstanding."""
    window_max: int
    """As far as the window may grow now."""
    window_min: int
    """As far as the window may shrink now."""
    flexibility: int
    """How far the upper limit stays above the lower one."""
    fast_rounds: int
    """Deliveries in a row over a fast link."""
    medium_rounds: int
    """Deliveries in a row over a link of medium speed."""
    paused: bool
    """Whether nothing new that comes is taken."""
    room: int
    """Messages that can be sent now."""
    waiting: int
    """Messages that wait for room."""
    outstanding: int
    """Messages sent and not proven."""
    ahead: int
    """Messages received that wait for others."""
    next_tx: int
    """The next sequence number to be sent."""
    next_rx: int
    """The next sequence number expected."""
    rtt_s: float | None
    """The round-trip time of the link."""
    proof_rtt_s: float | None
    """From sending to proof, smoothed; None before the first."""
    proof_var_s: float
    """How far that varies."""
    all_types: bool
    """Whether messages of every type are taken."""
    types: int
    """Types that are registered."""
    streams: int
    """Streams that were written to."""
    writes: int
    """Writes that have not ended."""
    sent: int
    """Messages that were sent."""
    delivered: int
    """Messages that were proven."""
    timeouts: int
    """Tries that ended without a proof."""
    repeated: int
    """Sendings beyond the first of each message."""
    sent_bytes: int
    """Bytes of messages that were sent, repetitions not counted."""
    received: int
    """Messages that were accepted."""
    ordered: int
    """Messages of these that were delivered."""
    duplicates: int
    """Messages that came again and were proven again."""
    beyond: int
    """Messages too far ahead, not proven."""
    refused: int
    """Messages not accepted for want of room, not proven."""
    unregistered: int
    """Messages of a type that is not registered."""
    received_bytes: int
    """Bytes of messages that were accepted."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that a channel has sent."""

    op: int
    """The operation, which ends with :class:`netmesh.events.ChannelSent`."""
    sequence: int
    """Its sequence number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingMessage:
    """A message that was sent and is not proven."""

    msgtype: int
    """Its type."""
    sequence: int
    """Its sequence number."""
    tries: int
    """The try that is under way, from 1."""
    sendings: int
    """How often it was sent, early repetitions counted."""
    size_bytes: int
    """Bytes of its content."""
    first_sent_s: float
    """When it was sent first, monotonic seconds."""
    sent_s: float
    """When it was sent last."""
    due_s: float
    """When the try under way ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRecord:
    """One resource on its way (RNS 2, 3)."""

    op: int
    """Its operation."""
    link: int
    """The link it is on."""
    outgoing: bool
    """Whether this side sends it."""
    state: ResourceState
    """Its state."""
    resource_hash: bytes
    """32 bytes, of the segment under way; zeros before one is prepared."""
    original_hash: bytes
    """32 bytes, of the first segment: they name the whole resource."""
    segment: int
    """The segment under way, from 1; 0 while none is ready."""
    segments: int
    """Into how many segments it is cut."""
    content_bytes: int
    """Size of the content."""
    content_done: int
    """How much of it is there, or was sent; all of it only after the proof."""
    resumed_bytes: int
    """How much of it was there from an attempt before that was interrupted."""
    transfer_bytes: int
    """Size of the segment under way, compressed and sealed."""
    parts: int
    """Into how many parts that is cut."""
    parts_done: int
    """How many of them were sent, or received."""
    window: int
    """Parts asked for at a time, on the receiving side."""
    window_min: int
    """The least it may be."""
    window_max: int
    """The most it may be."""
    retries_left: int
    """Time-outs that may still follow."""
    compressed: bool
    """Whether it is compressed."""
    has_metadata: bool
    """Whether it has metadata."""
    stored: bool
    """Whether the content is read from a file, or written to one."""
    requests: int
    """Part requests sent, or served."""
    wire_bytes: int
    """Bytes of parts sent or received, repeated ones too."""

    @property
    def progress(self) -> float:
        """How much of the content is there, or was sent, from 0 to 1."""
        return self.content_done / self.content_bytes if self.content_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RatchetRecord:
    """Own ratchets of a destination (RNS 1, 3.5)."""

    ids: tuple[bytes, ...]
    """10 bytes each, newest first."""
    enabled: bool
    """Whether it announces ratchets at all."""
    enforced: bool
    """Whether packets for the identity's own key are refused."""
    retained: int
    """How many are kept."""
    interval_s: float
    """The least time between two rotations."""
    rotated_s: float | None
    """When the last one was made; None: not since the start."""
    rotated_unix_s: float | None
    """The same on the Unix clock."""

    @property
    def current(self) -> bytes | None:
        """The id of the newest, which announces carry."""
        return self.ids[0] if self.ids else None

    @property
    def previous(self) -> bytes | None:
        """The id of the one before it."""
        return self.ids[1] if len(self.ids) > 1 else None


@dataclass(frozen=True, slots=True)
class Recalled:
    """Who is behind a destination."""

    identity: Identity
    """The public identity."""
    app_data: bytes | None
    """The app data of its last announce; None and b"" are different."""


# -------------------------------------------------------------------------- interfaces


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressNumbers:
    """What counts as a burst on an interface, and what is done about it (RNS 1, 8.15).

    In force where ``ingress_control`` is on. Times are 0 to a century, rates 0 to 1e6.
    """

    new_s: float = 7200.0
    """How long an interface counts as new."""
    announce_rate_new: float = 3.0
    """Announces per second above which a burst begins, on a new interface."""
    announce_rate: float = 10.0
    """The same, on an established one."""
    request_rate_new: float = 3.0
    """Path requests per second above which a burst begins, on a new interface."""
    request_rate: float = 8.0
    """The same, on an established one."""
    hold_s: float = 15.0
    """How long it must be quiet before a burst ends."""
    penalty_s: float = 15.0
    """From the start of a burst to the first release of a held announce."""
    release_s: float = 5.0
    """Between two releases, at least 0.001; a burst is looked at again after this time or 5 s."""
    held_max: int = 256
    """How many announces are held, at most 65,536; what does not fit is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceRecord:
    """One interface as the engine sees it (RNS 1, 7.3)."""

    interface: int
    """Its id."""
    name: str
    """Its name, of which :attr:`hash` is made."""
    hash: bytes
    """32 bytes (RNS 1, 7.6)."""
    role: InterfaceRole
    """What the other end is."""
    mode: InterfaceMode
    """How announces and paths spread over it."""
    mtu_mode: MtuMode
    """How its MTU takes part in the MTU of links."""
    hw_mtu: int | None
    """The longest packet that it carries, None: any."""
    bitrate: int | None
    """Bit/s; None: not known."""
    receives: bool
    """Whether it takes packets in."""
    sends: bool
    """Whether it lets packets out."""
    online: bool
    """Whether it works now."""
    tunnels: bool
    """Whether it asks for a tunnel when it comes online."""
    announce_cap: float
    """The share of the bitrate for relayed announces (transport nodes)."""
    rate_target_s: int
    """The least interval of announces per destination, 0: none (transport nodes)."""
    rate_grace: int
    """How often that may be broken."""
    rate_penalty_s: int
    """How long it is punished."""
    ingress_control: bool
    """Whether bursts of new destinations are held back."""
    ingress: IngressNumbers
    """What counts as a burst."""
    egress_limit: float
    """Path requests passed on per second at most, 0: any number (transport nodes)."""
    ifac: Ifac | None
    """Its access code."""
    gravity: int
    """Preference among equal paths."""
    recursive_prs: bool
    """Whether path requests of it are passed on (transport nodes)."""
    announces_from_internal: bool
    """Whether announces of internal interfaces go out on it (transport nodes)."""
    announces_to_internal: bool | None
    """Whether its announces go to internal interfaces; None: by its mode (transport nodes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounters:
    """What passed an interface."""

    rx_packets: int
    """Frames in."""
    rx_bytes: int
    """Their bytes."""
    tx_packets: int
    """Packets out."""
    tx_bytes: int
    """Their bytes."""
    announces_in: int
    """Announces taken."""
    announces_out: int
    """Announces that went out, own ones and those of others."""
    path_requests_in: int
    """Path requests from it."""
    path_requests_out: int
    """Path requests sent on it."""
    announce_rx_bytes: int
    """Bytes of announces taken."""
    announce_tx_bytes: int
    """Bytes of announces that went out."""
    path_request_rx_bytes: int
    """Bytes of path requests from it."""
    path_request_tx_bytes: int
    """Bytes of path requests sent on it."""
    violations: int
    """Packets that break the protocol (RNS 1, 8.15)."""
    drops: Mapping[DropReason, int]
    """How many were dropped for each reason that occurred."""


# --------------------------------------------------------------------- figures, limits


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """The engine's figures: totals since the start, and sizes now."""

    inputs: int
    """Frames in."""
    accepted: int
    """Those that were handled."""
    dropped: int
    """Those that were not."""
    outputs: int
    """Packets out."""
    jobs_emitted: int
    """Pieces of work handed out."""
    jobs_dropped: int
    """Pieces of work refused because too many were waiting."""
    lossy_dropped: int
    """Announces, progress and changes lost to a full event queue."""
    lossy_coalesced: int
    """Events replaced by a later one of the same thing."""
    held_for_credit: int
    """Packets refused because the program had no room."""
    known_evicted: int
    """Known destinations that made room for others."""
    paths_evicted: int
    """Paths that made room for others."""
    paths_failed_over: int
    """How often a path took another way because its own failed."""
    alternatives_evicted: int
    """Other ways of a path that found no room, or made it."""
    receipts_culled: int
    """Receipts that made room for others."""
    resources_resumed: int
    """Resources, in both directions, that went on where they had been interrupted."""
    resumes_declined: int
    """Resources whose beginning was not the same any more, and began anew."""
    partials_kept: int
    """Interrupted resources that were kept for another attempt."""
    partials_evicted: int
    """Of them, those that were too old or too many."""
    forwarded: int
    """Packets of others that were carried on."""
    announces_blocked: int
    """Announces that came too often to be rebroadcast."""
    reverses_evicted: int
    """Ways back of proofs that made room for others."""
    links_refused: int
    """Links refused for want of room."""
    known: int
    """Known destinations now."""
    paths: int
    """Paths now."""
    alternatives: int
    """Other ways to the destinations of paths."""
    links: int
    """Links that are not closed."""
    links_active: int
    """Links that carry data."""
    receipts: int
    """Packets that wait for their proof."""
    announces_queued: int
    """Announces that wait for their share of an interface."""
    rebroadcasts: int
    """Announces and path responses in flight."""
    transits: int
    """Links that pass through."""
    reverses: int
    """Forwarded packets that wait for their proof."""
    tunnels: int
    """Peers whose paths come back with them."""
    filter_current: int
    """Packet hashes in the filter's current generation."""
    filter_previous: int
    """Packet hashes in the one before."""
    operations: int
    """Operations that have not ended."""
    jobs_outstanding: int
    """Pieces of work that have not come back."""
    resource_memory: int
    """Bytes that incoming resources hold."""
    drops: Mapping[DropReason, int]
    """How many were dropped for each reason that occurred, in both directions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Capacities of an engine; 0 means the default. What happens beyond stands beside each."""

    ifaces: int = 0
    """Interfaces: LimitReached."""
    destinations: int = 0
    """Own destinations: LimitReached."""
    known: int = 0
    """Known destinations: the least recently used goes that is neither retained nor in use."""
    paths: int = 0
    """Paths: the least recently used goes."""
    path_blobs: int = 0
    """Random blobs per path: the oldest goes."""
    path_alternatives: int = 0
    """Other ways kept per path, at most 255: the least preferred goes."""
    filter: int = 0
    """Packet hashes per generation: the older generation goes."""
    path_tags: int = 0
    """Seen path requests: the oldest goes."""
    receipts: int = 0
    """Packets that wait for their proof: the oldest is culled."""
    links: int = 0
    """Links: LimitReached, and requests are dropped."""
    pending_links: int = 0
    """Links that are not active yet: the same."""
    requests: int = 0
    """Outstanding requests per link: LimitReached."""
    transfers: int = 0
    """Incoming resources per link: refused."""
    rebroadcasts: int = 0
    """Announces in flight of a transport node: the oldest goes."""
    announce_queue: int = 0
    """Announces that wait on one interface: what comes from farthest goes."""
    announce_queues: int = 0
    """Those of all interfaces together: the same."""
    searches: int = 0
    """Destinations that somebody waits for: the oldest goes."""
    reverses: int = 0
    """Forwarded packets that wait for their proof: the oldest goes."""
    transits: int = 0
    """Links that pass through: the least recently used goes."""
    tunnels: int = 0
    """Peers whose paths come back with them: the least recently used goes."""
    output_packets: int = 0
    """Waiting outputs: dropped, QUEUE_FULL."""
    lossy_events: int = 0
    """Waiting events that may be lost: the oldest goes."""
    jobs: int = 0
    """Outstanding work: dropped, JOBS_FULL."""
    jobs_per_iface: int = 0
    """Outstanding work per interface, without announces: dropped, JOBS_SHARE."""
    announce_jobs: int = 0
    """Announces that wait for their check, at most half of `jobs`: dropped, ANNOUNCES_FULL."""
    announce_jobs_per_iface: int = 0
    """Those of one interface: dropped, ANNOUNCES_SHARE."""
    recorder: int = 0
    """Lines of the flight recorder: the oldest goes."""
    resource_in_max: int = 0
    """Content bytes of an incoming resource, where nothing else is set: refused."""
    resource_memory: int = 0
    """Bytes that incoming resources of all links hold: refused, RESOURCE_MEMORY."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All tables of an engine at one moment.

    :meth:`netmesh.engine.Engine.load` takes the first four and ``transport``; the others are for
    reading.
    """

    paths: tuple[PathRecord, ...] = ()
    """The path table, least recently used first."""
    known: tuple[KnownRecord, ...] = ()
    """Known destinations."""
    blackholes: tuple[BlackholeRecord, ...] = ()
    """Ignored identities."""
    path_tags: tuple[PathTag, ...] = ()
    """Path requests that were seen."""
    path_requests: tuple[PathRequestRecord, ...] = ()
    """Own path requests in flight."""
    receipts: tuple[ReceiptRecord, ...] = ()
    """Packets that wait for their proof."""
    links: tuple[LinkRecord, ...] = ()
    """Links, closed ones for a while."""
    transfers: tuple[TransferRecord, ...] = ()
    """Resources on their way."""
    interfaces: tuple[InterfaceRecord, ...] = ()
    """Interfaces."""
    ratchets: Mapping[DestinationHash, RatchetRecord] = field(default_factory=dict)
    """Own ratchets by destination."""
    transport: tuple[TransportRecord, ...] = ()
    """The tables of a transport node, records of :mod:`netmesh.transport`."""
    taken_s: float = 0.0
    """When it was taken."""
    taken_unix_s: float = 0.0
    """The same on the Unix clock."""
