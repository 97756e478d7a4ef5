"""What an engine or a node tells: one frozen class for each kind of event.

Two kinds of events exist. Lossy ones (:class:`AnnounceHeard`, :class:`ProgressMade`,
:class:`InterfaceChanged`, :class:`PathChanged`, :class:`StreamMade`) may be replaced by a
later one of the same thing, or be lost when nobody drains them. All others are never lost:
data that would make one is not accepted while the program has no room for it. An operation
(a sent packet, an announce, a request, a path request, a resource, a channel message, a
write to a stream) ends in exactly one of :class:`ReceiptDone`, :class:`AnnounceSent`,
:class:`ResponseDone`, :class:`PathResult`, :class:`ResourceSent`, :class:`ResourceReceived`,
:class:`ResourceFailed`, :class:`ChannelSent` and :class:`StreamSent`, with its ``op``; a link
in one :class:`LinkClosed`.

Every event has ``time_s`` (monotonic) and ``time_unix_s``. Ids are whole numbers; None
stands for none.

Example:
    >>> from netmesh.engine import Engine
    >>> engine = Engine(clock=(0.0, 1_700_000_000.0))
    >>> interface = engine.add_interface("radio", kind="rnode")
    >>> for event in engine.events():
    ...     match event:
    ...         case InterfaceChanged(interface=number, change=change):
    ...             print(number, change.name)
    1 ADDED
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from netmesh._core import DestinationHash, IdentityHash, RawEvent, frozen
from netmesh.constants import PathState, ReceiptState, ResourceState
from netmesh.msgpack import unpackb
from netmesh.records import CloseReason, EventKind, InterfaceChange, Stage

__all__ = [
    "AnnounceHeard",
    "AnnounceSent",
    "ChannelMessage",
    "ChannelReady",
    "ChannelSent",
    "Event",
    "InterfaceChanged",
    "LinkActive",
    "LinkClosed",
    "LinkIdentified",
    "LinkPacketReceived",
    "PacketReceived",
    "PathChanged",
    "PathResult",
    "ProgressMade",
    "ReceiptDone",
    "RequestReceived",
    "ResourceFailed",
    "ResourceOffered",
    "ResourceReceived",
    "ResourceSent",
    "ResponseDone",
    "StreamMade",
    "StreamReceived",
    "StreamSent",
    "from_raw",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Happened:
    """What all events have."""

    time_s: float
    """When, on the monotonic clock."""
    time_unix_s: float
    """When, on the Unix clock."""


# ------------------------------------------------------------------------------- lossy


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceHeard(_Happened):
    """A valid announce that a subscription asked for."""

    subscription: int
    """The subscription's id: each that matches gets an event of its own."""
    destination: DestinationHash
    """What was announced."""
    identity: IdentityHash
    """Whose it is."""
    public_key: bytes
    """64 bytes: the keys of that identity."""
    app_data: bytes | None
    """What the announce says to applications; None and b"" are different."""
    hops: int
    """How many hops it came."""
    interface: int
    """Where it came in."""
    path_response: bool
    """Whether it answers a path request."""
    ratchet_id: bytes | None
    """10 bytes: the id of the announced ratchet."""
    packet_hash: bytes
    """32 bytes: the hash of its packet."""
    emitted_unix_s: int
    """When the destination made it, by its own clock; whole seconds."""
    rssi_dbm: int | None
    """Signal strength, if the interface knows it."""
    snr_db: float | None
    """Signal to noise ratio, if the interface knows it."""
    quality_pct: int | None
    """Link quality, if the interface knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMade(_Happened):
    """A resource, or the response to a request, got further."""

    op: int
    """The operation."""
    link: int
    """The link."""
    state: ResourceState
    """The transfer's state."""
    done_bytes: int
    """Bytes of the content so far; all of it only after the proof."""
    total_bytes: int
    """Bytes of the content."""
    wire_bytes: int
    """Bytes of parts on the wire, repeated ones too."""
    resource_hash: bytes
    """32 bytes."""

    @property
    def fraction(self) -> float:
        """From 0.0 to 1.0; 1.0 only when it is complete."""
        return self.done_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceChanged(_Happened):
    """An interface was added, changed, removed, or went on or off."""

    interface: int
    """Its id."""
    change: InterfaceChange
    """What happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChanged(_Happened):
    """A path was learned, changed or lost."""

    destination: DestinationHash
    """Where it leads."""
    known: bool
    """Whether there is a path now."""
    interface: int | None
    """The interface it leads over."""
    hops: int
    """Its length; 128 without a path."""
    state: PathState
    """Whether the destination answered over it."""


# ------------------------------------------------------------------------------- data


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketReceived(_Happened):
    """A packet for an own destination was opened."""

    destination: DestinationHash
    """The own destination."""
    data: bytes
    """The plaintext."""
    token: int | None
    """Accept it to prove the packet; None when that is not asked."""
    interface: int
    """Where it came in."""
    hops: int
    """How many hops it came."""
    context: int
    """Its context byte."""
    packet_hash: bytes
    """32 bytes."""
    ratchet_id: bytes | None
    """10 bytes: the ratchet that opened it; None: the identity's own key."""
    rssi_dbm: int | None
    """Signal strength, if the interface knows it."""
    snr_db: float | None
    """Signal to noise ratio, if the interface knows it."""
    quality_pct: int | None
    """Link quality, if the interface knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPacketReceived(_Happened):
    """Data came in on a link."""

    link: int
    """The link."""
    link_id: bytes
    """16 bytes."""
    destination: DestinationHash
    """The destination that the link leads to."""
    identity: IdentityHash | None
    """The peer, if it is known."""
    data: bytes
    """The plaintext."""
    token: int | None
    """Accept it to prove the packet; None when that is not asked."""
    packet_hash: bytes
    """32 bytes."""
    hops: int
    """How many hops it came."""
    rssi_dbm: int | None
    """Signal strength, if the interface knows it."""
    snr_db: float | None
    """Signal to noise ratio, if the interface knows it."""
    quality_pct: int | None
    """Link quality, if the interface knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkActive(_Happened):
    """A link was established, on either side."""

    link: int
    """The link."""
    link_id: bytes
    """16 bytes."""
    destination: DestinationHash
    """The destination that the link leads to."""
    identity: IdentityHash | None
    """The destination's identity on the initiator's side."""
    initiator: bool
    """Whether this side opened it."""
    interface: int
    """The interface it runs over."""
    hops: int
    """Hops to the peer."""
    rtt_s: float
    """The measured round-trip time."""
    mtu: int
    """Bytes of its longest packet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkIdentified(_Happened):
    """The initiator of a link proved who it is."""

    link: int
    """The link."""
    link_id: bytes
    """16 bytes."""
    destination: DestinationHash
    """The own destination that the link leads to."""
    identity: IdentityHash
    """Who it is."""
    public_key: bytes
    """64 bytes: its keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived(_Happened):
    """A peer asks; answer with ``respond`` or ``respond_file``, or ``refuse`` the token."""

    link: int
    """The link."""
    link_id: bytes
    """16 bytes."""
    destination: DestinationHash
    """The own destination that is asked."""
    identity: IdentityHash | None
    """Who asks, if it identified."""
    token: int
    """What the answer is given for."""
    path_hash: bytes
    """16 bytes: the hash of the request path."""
    request_id: bytes
    """16 bytes."""
    requested_unix_s: float
    """When the peer says that it asked."""
    packed: bytes
    """The request's data as one packed MessagePack value."""

    @property
    def data(self) -> Any:
        """The request's data. Raises DecodeError when the peer packed something broken."""
        return unpackb(self.packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOffered(_Happened):
    """A peer offers a resource; ``accept`` or ``refuse`` the token within 10 seconds."""

    link: int
    """The link."""
    link_id: bytes
    """16 bytes."""
    destination: DestinationHash
    """The destination that the link leads to."""
    identity: IdentityHash | None
    """Who offers it, if it is known."""
    token: int
    """What the decision is about."""
    op: int
    """The operation that the transfer is."""
    total_bytes: int
    """Bytes of the content, as the peer says."""
    resource_hash: bytes
    """32 bytes."""
    advertisement: bytes
    """The whole advertisement, for :class:`netmesh.resource.Advertisement`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReceived(_Happened):
    """A resource is complete and its content was checked."""

    link: int
    """The link."""
    link_id: bytes
    """16 bytes."""
    destination: DestinationHash
    """The destination that the link leads to."""
    identity: IdentityHash | None
    """Who sent it, if it is known."""
    op: int
    """The operation that ends with it."""
    token: int | None
    """Accept it to prove the resource; None when that is not asked."""
    data: bytes
    """The content; empty when it was stored in a file."""
    path: Path | None
    """The file that holds the content, durably; None: it is in memory."""
    content_bytes: int
    """Size of the content."""
    packed_metadata: bytes | None
    """Its metadata as one packed MessagePack value."""
    wire_bytes: int
    """Bytes of parts on the wire, repeated ones too."""
    resource_hash: bytes
    """32 bytes, of its first segment."""

    @property
    def metadata(self) -> Any:
        """The metadata, None without any. Raises DecodeError when it is broken."""
        return None if self.packed_metadata is None else unpackb(self.packed_metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMessage(_Happened):
    """A message came in sequence on a link's channel."""

    link: int
    """The link."""
    msgtype: int
    """The message's type."""
    sequence: int
    """Its sequence number, 0 to 65535."""
    data: bytes
    """Its content."""
    reason: str
    """"OK"; "TYPE" for a type that was not registered, "RESERVED" for a system type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReceived(_Happened):
    """Bytes of a stream came in order, or its end."""

    link: int
    """The link."""
    stream: int
    """The stream's id, 0 to 16383."""
    sequence: int
    """The sequence number of the message."""
    data: bytes
    """The bytes, inflated."""
    eof: bool
    """Whether nothing follows."""
    compressed: bool
    """Whether they were compressed on the wire."""
    reason: str
    """"OK", or what is wrong with the message, whose bytes are lost: "COMPRESSED", ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelReady(_Happened):
    """A channel whose window was full takes messages again."""

    link: int
    """The link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMade(_Happened):
    """The writer of a stream made one message; lossy, and only when asked for."""

    op: int
    """The write that it belongs to."""
    link: int
    """The link."""
    stream: int
    """The stream's id."""
    sequence: int
    """The sequence number of the message."""
    taken_bytes: int
    """Bytes of the stream in it."""
    wire_bytes: int
    """Bytes of the message."""
    compressed: bool
    """Whether they are compressed in it."""
    eof: bool
    """Whether it ends the stream."""


# --------------------------------------------------------------------------------- ends


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClosed(_Happened):
    """A link ended. One that never came up ends so on its initiator's side only."""

    link: int
    """The link."""
    link_id: bytes
    """16 bytes."""
    destination: DestinationHash
    """The destination that the link led to."""
    identity: IdentityHash | None
    """The peer, if it was known."""
    initiator: bool
    """Whether this side opened it."""
    reason: CloseReason
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended(_Happened):
    """What the end of an operation tells."""

    op: int
    """The operation."""
    reason: str
    """"OK", or what went wrong: "TIMEOUT", "CANCELLED", "STATE", ..."""
    stage: Stage
    """Where it failed."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.reason == "OK"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptDone(_Ended):
    """A sent packet was proven, or was not."""

    state: ReceiptState
    """DELIVERED, FAILED, or CULLED to make room."""
    destination: DestinationHash
    """Where it went."""
    link: int | None
    """The link it went over."""
    packet_hash: bytes
    """32 bytes; zeros when it was never sealed."""
    rtt_s: float
    """From sending to the proof; 0 without a proof."""
    proof: bytes | None
    """The proof's packet; 64 bytes of payload are an implicit, 96 an explicit proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSent(_Ended):
    """A channel message was proven, or was not."""

    state: ReceiptState
    """DELIVERED or FAILED."""
    link: int
    """The link."""
    msgtype: int
    """The message's type."""
    sequence: int
    """Its sequence number."""
    tries: int
    """How often it was tried, 1 to 5."""
    rtt_s: float
    """From the first sending to the proof; 0 without a proof."""
    window: int
    """How many messages may be outstanding from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSent(_Ended):
    """All bytes of a write were proven, or were not."""

    link: int
    """The link."""
    stream: int
    """The stream's id."""
    done_bytes: int
    """Bytes whose messages were proven."""
    total_bytes: int
    """Bytes of the write."""
    wire_bytes: int
    """Bytes of its messages."""
    eof: bool
    """Whether it was to end the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceSent(_Ended):
    """An interface took an own announce, or none did."""

    destination: DestinationHash
    """What was announced."""
    interface: int | None
    """The one interface it was for; None: all."""
    path_response: bool
    """Whether it was made as a path response."""
    emitted_unix_s: int
    """The emission time in it; whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathResult(_Ended):
    """A path is known, or did not become known in time."""

    destination: DestinationHash
    """Where it leads."""
    hops: int
    """Its length; 128 without a path."""
    interface: int | None
    """The interface it leads over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseDone(_Ended):
    """A request of ours was answered, or was not."""

    link: int
    """The link."""
    request_id: bytes
    """16 bytes."""
    packed: bytes | None
    """The response as one packed MessagePack value; the content of a file response."""
    packed_metadata: bytes | None
    """The metadata of a file response, packed; None for others."""
    rtt_s: float
    """From asking to the end."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the response: packed, or the content of a file response."""
        return 0 if self.packed is None else len(self.packed)

    @property
    def data(self) -> Any:
        """The response; the bytes of a file response; None when there was none.

        Raises DecodeError when the peer packed something broken.
        """
        if self.packed is None or self.packed_metadata is not None:
            return self.packed
        return unpackb(self.packed)

    @property
    def metadata(self) -> Any:
        """The metadata of a file response. Raises DecodeError when it is broken."""
        return None if self.packed_metadata is None else unpackb(self.packed_metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSent(_Ended):
    """A resource that this side sent is complete and proven, or failed."""

    link: int
    """The link."""
    state: ResourceState
    """COMPLETE, REJECTED by the peer, or FAILED."""
    done_bytes: int
    """Bytes of the content that were sent."""
    total_bytes: int
    """Bytes of the content."""
    wire_bytes: int
    """Bytes of parts on the wire, repeated ones too."""
    resource_hash: bytes
    """32 bytes; zeros when it was never prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFailed(_Ended):
    """A resource on its way in did not complete."""

    link: int
    """The link."""
    state: ResourceState
    """FAILED, CORRUPT, or REJECTED by this side."""
    done_bytes: int
    """Bytes of the content that came."""
    total_bytes: int
    """Bytes of the content, as the peer said."""
    wire_bytes: int
    """Bytes of parts on the wire, repeated ones too."""
    resource_hash: bytes
    """32 bytes."""


Event = (
    AnnounceHeard
    | ProgressMade
    | InterfaceChanged
    | PathChanged
    | PacketReceived
    | LinkPacketReceived
    | LinkActive
    | LinkIdentified
    | RequestReceived
    | ResourceOffered
    | ResourceReceived
    | ChannelMessage
    | StreamReceived
    | LinkClosed
    | ReceiptDone
    | AnnounceSent
    | PathResult
    | ResponseDone
    | ResourceSent
    | ResourceFailed
    | ChannelSent
    | StreamSent
    | ChannelReady
    | StreamMade
)
"""Any of them."""


# --------------------------------------------------------------------- from the core

_US = 1_000_000


E = TypeVar("E", bound=IntEnum)


def _members(kind: type[E]) -> dict[int, E]:
    """An enum's members by their numbers: a look-up is a tenth of a call of the class."""
    return {int(each): each for each in kind}


_CHANGES: Final = _members(InterfaceChange)
_CLOSE_REASONS: Final = _members(CloseReason)
_PATH_STATES: Final = _members(PathState)
_RECEIPT_STATES: Final = _members(ReceiptState)
_RESOURCE_STATES: Final = _members(ResourceState)
_STAGES: Final = _members(Stage)


def _snr_db(raw: RawEvent) -> float | None:
    snr = raw.snr_cdb
    return None if snr is None else snr / 100


def _announce(raw: RawEvent) -> AnnounceHeard:
    assert raw.identity is not None
    assert raw.public_key is not None
    return frozen(
        AnnounceHeard,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        rssi_dbm=raw.rssi_dbm,
        snr_db=_snr_db(raw),
        quality_pct=raw.quality_pct,
        subscription=raw.token,
        destination=raw.destination,
        identity=raw.identity,
        public_key=raw.public_key,
        app_data=raw.data if raw.has_app_data else None,
        hops=raw.hops,
        interface=raw.iface,
        path_response=raw.path_response,
        ratchet_id=raw.ratchet_id,
        packet_hash=raw.packet_hash,
        emitted_unix_s=raw.wire_time_us // _US,
    )


def _progress(raw: RawEvent) -> ProgressMade:
    return frozen(
        ProgressMade,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        state=_RESOURCE_STATES[raw.state],
        done_bytes=raw.done_bytes,
        total_bytes=raw.total_bytes,
        wire_bytes=raw.wire_bytes,
        resource_hash=raw.packet_hash,
        op=raw.op,
    )


def _iface(raw: RawEvent) -> InterfaceChanged:
    return frozen(
        InterfaceChanged,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        interface=raw.iface,
        change=_CHANGES[raw.state],
    )


def _path(raw: RawEvent) -> PathChanged:
    return frozen(
        PathChanged,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        destination=raw.destination,
        known=raw.status == 0,
        interface=raw.iface or None,
        hops=raw.hops,
        state=_PATH_STATES[raw.state],
    )


def _packet(raw: RawEvent) -> PacketReceived:
    return frozen(
        PacketReceived,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        rssi_dbm=raw.rssi_dbm,
        snr_db=_snr_db(raw),
        quality_pct=raw.quality_pct,
        destination=raw.destination,
        data=raw.data or b"",
        token=raw.token or None,
        interface=raw.iface,
        hops=raw.hops,
        context=raw.context,
        packet_hash=raw.packet_hash,
        ratchet_id=raw.ratchet_id,
    )


def _link_packet(raw: RawEvent) -> LinkPacketReceived:
    return frozen(
        LinkPacketReceived,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        link_id=raw.link_id,
        destination=raw.destination,
        identity=raw.identity,
        rssi_dbm=raw.rssi_dbm,
        snr_db=_snr_db(raw),
        quality_pct=raw.quality_pct,
        data=raw.data or b"",
        token=raw.token or None,
        packet_hash=raw.packet_hash,
        hops=raw.hops,
    )


def _link_active(raw: RawEvent) -> LinkActive:
    return frozen(
        LinkActive,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        link_id=raw.link_id,
        destination=raw.destination,
        identity=raw.identity,
        initiator=raw.initiator,
        interface=raw.iface,
        hops=raw.hops,
        rtt_s=raw.rtt_us / _US,
        mtu=raw.total_bytes,
    )


def _link_identified(raw: RawEvent) -> LinkIdentified:
    assert raw.identity is not None
    return frozen(
        LinkIdentified,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        link_id=raw.link_id,
        destination=raw.destination,
        identity=raw.identity,
        public_key=raw.public_key or b"",
    )


def _request(raw: RawEvent) -> RequestReceived:
    return frozen(
        RequestReceived,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        link_id=raw.link_id,
        destination=raw.destination,
        identity=raw.identity,
        token=raw.token,
        path_hash=raw.path_hash,
        request_id=raw.request_id,
        requested_unix_s=raw.wire_time_us / _US,
        packed=raw.data or b"",
    )


def _offer(raw: RawEvent) -> ResourceOffered:
    return frozen(
        ResourceOffered,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        link_id=raw.link_id,
        destination=raw.destination,
        identity=raw.identity,
        token=raw.token,
        op=raw.op,
        total_bytes=raw.total_bytes,
        resource_hash=raw.packet_hash,
        advertisement=raw.data or b"",
    )


def _resource_in(raw: RawEvent) -> ResourceReceived:
    return frozen(
        ResourceReceived,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        link_id=raw.link_id,
        destination=raw.destination,
        identity=raw.identity,
        op=raw.op,
        token=raw.token or None,
        data=b"" if raw.stored else raw.data or b"",
        path=Path(os.fsdecode(raw.data or b"")) if raw.stored else None,
        content_bytes=raw.total_bytes,
        packed_metadata=raw.metadata,
        wire_bytes=raw.wire_bytes,
        resource_hash=raw.packet_hash,
    )


def _channel(raw: RawEvent) -> ChannelMessage:
    return frozen(
        ChannelMessage,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        msgtype=raw.msgtype,
        sequence=raw.sequence,
        data=raw.data or b"",
        reason=raw.reason,
    )


def _stream(raw: RawEvent) -> StreamReceived:
    return frozen(
        StreamReceived,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        stream=raw.stream,
        sequence=raw.sequence,
        data=raw.data or b"",
        eof=raw.eof,
        compressed=raw.compressed,
        reason=raw.reason,
    )


def _channel_sent(raw: RawEvent) -> ChannelSent:
    return frozen(
        ChannelSent,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        state=_RECEIPT_STATES[raw.state],
        link=raw.link,
        msgtype=raw.msgtype,
        sequence=raw.sequence,
        tries=raw.tries,
        rtt_s=raw.rtt_us / _US,
        window=raw.total_bytes,
    )


def _stream_sent(raw: RawEvent) -> StreamSent:
    return frozen(
        StreamSent,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        link=raw.link,
        stream=raw.stream,
        done_bytes=raw.done_bytes,
        total_bytes=raw.total_bytes,
        wire_bytes=raw.wire_bytes,
        eof=raw.eof,
    )


def _channel_ready(raw: RawEvent) -> ChannelReady:
    return frozen(
        ChannelReady, time_s=raw.mono_us / _US, time_unix_s=raw.unix_us / _US, link=raw.link
    )


def _stream_made(raw: RawEvent) -> StreamMade:
    return frozen(
        StreamMade,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        link=raw.link,
        stream=raw.stream,
        sequence=raw.sequence,
        taken_bytes=raw.done_bytes,
        wire_bytes=raw.wire_bytes,
        compressed=raw.compressed,
        eof=raw.eof,
    )


def _link_closed(raw: RawEvent) -> LinkClosed:
    return frozen(
        LinkClosed,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        link=raw.link,
        link_id=raw.link_id,
        destination=raw.destination,
        identity=raw.identity,
        initiator=raw.initiator,
        reason=_CLOSE_REASONS[raw.close_reason],
    )


def _receipt(raw: RawEvent) -> ReceiptDone:
    return frozen(
        ReceiptDone,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        state=_RECEIPT_STATES[raw.state],
        destination=raw.destination,
        link=raw.link or None,
        packet_hash=raw.packet_hash,
        rtt_s=raw.rtt_us / _US,
        proof=raw.data,
    )


def _announced(raw: RawEvent) -> AnnounceSent:
    return frozen(
        AnnounceSent,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        destination=raw.destination,
        interface=raw.iface or None,
        path_response=raw.path_response,
        emitted_unix_s=raw.wire_time_us // _US,
    )


def _path_result(raw: RawEvent) -> PathResult:
    return frozen(
        PathResult,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        destination=raw.destination,
        hops=raw.hops,
        interface=raw.iface or None,
    )


def _response(raw: RawEvent) -> ResponseDone:
    return frozen(
        ResponseDone,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        link=raw.link,
        request_id=raw.request_id,
        packed=raw.data,
        packed_metadata=raw.metadata,
        rtt_s=raw.rtt_us / _US,
    )


def _resource_out(raw: RawEvent) -> ResourceSent:
    return frozen(
        ResourceSent,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        link=raw.link,
        state=_RESOURCE_STATES[raw.state],
        done_bytes=raw.done_bytes,
        total_bytes=raw.total_bytes,
        wire_bytes=raw.wire_bytes,
        resource_hash=raw.packet_hash,
    )


def _resource_failed(raw: RawEvent) -> ResourceFailed:
    return frozen(
        ResourceFailed,
        time_s=raw.mono_us / _US,
        time_unix_s=raw.unix_us / _US,
        op=raw.op,
        reason=raw.reason,
        stage=_STAGES[raw.stage],
        link=raw.link,
        state=_RESOURCE_STATES[raw.state],
        done_bytes=raw.done_bytes,
        total_bytes=raw.total_bytes,
        wire_bytes=raw.wire_bytes,
        resource_hash=raw.packet_hash,
    )


_MAKERS: dict[int, Callable[[RawEvent], Event]] = {
    EventKind.ANNOUNCE: _announce,
    EventKind.PROGRESS: _progress,
    EventKind.IFACE: _iface,
    EventKind.PATH: _path,
    EventKind.PACKET: _packet,
    EventKind.LINK_PACKET: _link_packet,
    EventKind.LINK_ACTIVE: _link_active,
    EventKind.LINK_IDENTIFIED: _link_identified,
    EventKind.REQUEST: _request,
    EventKind.RESOURCE_OFFER: _offer,
    EventKind.RESOURCE_IN: _resource_in,
    EventKind.CHANNEL_DATA: _channel,
    EventKind.STREAM_DATA: _stream,
    EventKind.LINK_CLOSED: _link_closed,
    EventKind.RECEIPT: _receipt,
    EventKind.ANNOUNCED: _announced,
    EventKind.PATH_RESULT: _path_result,
    EventKind.RESPONSE: _response,
    EventKind.RESOURCE_OUT: _resource_out,
    EventKind.RESOURCE_IN_FAILED: _resource_failed,
    EventKind.CHANNEL_SENT: _channel_sent,
    EventKind.STREAM_SENT: _stream_sent,
    EventKind.CHANNEL_READY: _channel_ready,
    EventKind.STREAM_MADE: _stream_made,
}


def from_raw(raw: RawEvent) -> Event:
    """The typed event of a raw one.

    ``raw`` comes from the core; nothing that a peer can send makes this fail.
    """
    return _MAKERS[raw.kind](raw)
