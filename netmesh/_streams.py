"""Streams of what a node tells: events, announces, frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, Self, TypeVar, final

from netmesh import events
from netmesh._core import RawEvent
from netmesh._inbox import Claim, Source
from netmesh.records import EventKind

__all__ = ["KIND_OF", "Stream", "Subscription", "TappedFrame", "holds_credit", "kinds_of"]

T = TypeVar("T")

KIND_OF: Final[dict[type, EventKind]] = {
    events.AnnounceHeard: EventKind.ANNOUNCE,
    events.ProgressMade: EventKind.PROGRESS,
    events.InterfaceChanged: EventKind.IFACE,
    events.PathChanged: EventKind.PATH,
    events.PacketReceived: EventKind.PACKET,
    events.LinkPacketReceived: EventKind.LINK_PACKET,
    events.LinkActive: EventKind.LINK_ACTIVE,
    events.LinkIdentified: EventKind.LINK_IDENTIFIED,
    events.RequestReceived: EventKind.REQUEST,
    events.ResourceOffered: EventKind.RESOURCE_OFFER,
    events.ResourceReceived: EventKind.RESOURCE_IN,
    events.ChannelMessage: EventKind.CHANNEL_DATA,
    events.LinkClosed: EventKind.LINK_CLOSED,
    events.ReceiptDone: EventKind.RECEIPT,
    events.AnnounceSent: EventKind.ANNOUNCED,
    events.PathResult: EventKind.PATH_RESULT,
    events.ResponseDone: EventKind.RESPONSE,
    events.ResourceSent: EventKind.RESOURCE_OUT,
    events.ResourceFailed: EventKind.RESOURCE_IN_FAILED,
    events.StreamReceived: EventKind.STREAM_DATA,
    events.StreamMade: EventKind.STREAM_MADE,
    events.ChannelReady: EventKind.CHANNEL_READY,
    events.ChannelSent: EventKind.CHANNEL_SENT,
    events.StreamSent: EventKind.STREAM_SENT,
}
"""The code of each class of engine events."""

LOSSY: Final = frozenset(
    (
        EventKind.ANNOUNCE,
        EventKind.PROGRESS,
        EventKind.IFACE,
        EventKind.PATH,
        EventKind.STREAM_MADE,
    )
)
_CREDITED: Final = frozenset(
    (
        EventKind.PACKET,
        EventKind.LINK_PACKET,
        EventKind.LINK_IDENTIFIED,
        EventKind.REQUEST,
        EventKind.RESOURCE_OFFER,
        EventKind.RESOURCE_IN,
        EventKind.CHANNEL_DATA,
        EventKind.STREAM_DATA,
    )
)


_LINK_ACTIVE: Final = int(EventKind.LINK_ACTIVE)


def holds_credit(kind: int, raw: RawEvent) -> bool:
    """Whether an event took one of the engine's credits (see csrc/io/events.c)."""
    return kind in _CREDITED or (kind == _LINK_ACTIVE and not raw.initiator)


def kinds_of(kinds: Iterable[type] | type | None) -> tuple[frozenset[int], tuple[type, ...]]:
    """Engine codes, and the classes that are a node's own; of all for None."""
    if kinds is None:
        return frozenset(KIND_OF.values()), (object,)
    every = (kinds,) if isinstance(kinds, type) else tuple(kinds)
    return (
        frozenset(KIND_OF[each] for each in every if each in KIND_OF),
        tuple(each for each in every if each not in KIND_OF),
    )


class Stream(Source[T], Generic[T]):
    """What one subscriber reads with ``async for``; closed by ``async with`` or :meth:`close`.

    At most ``limit`` items wait. Of those that may be lost, new ones are then lost, counted in
    ``lost``. The others hold the node's credit while they wait: when a slow subscriber holds
    all of it, peers are made to wait.
    """

    __slots__ = ("_codes", "_end", "_limit", "_own")

    def __init__(
        self,
        limit: int,
        end: Callable[[Stream[T]], object],
        codes: frozenset[int] = frozenset(),
        own: tuple[type, ...] = (),
    ) -> None:
        super().__init__()
        if limit < 1:
            raise ValueError(f"at least one item must be able to wait, not {limit}")
        self._limit = limit
        self._end = end
        self._codes = codes
        self._own = own

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; what waits is given up. Quiet when repeated."""
        if not self._closed:
            self._close()
            self._end(self)
        self._discard()

    def _offer(self, item: T) -> None:
        """Takes an item that may be lost."""
        if len(self) >= self._limit:
            self.lost += 1
        else:
            self._put(item)

    def _deliver(self, item: T, claim: Claim | None) -> None:
        """Takes an item that may not be lost."""
        if claim is not None:
            claim.hold()
        self._put(item, claim)


@final
class Subscription:
    """A callback that is told of something, until :meth:`close`."""

    __slots__ = ("_closed", "_end")

    def __init__(self, end: Callable[[Subscription], object]) -> None:
        self._end = end
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def close(self) -> None:
        """The callback is told nothing more. Quiet when repeated."""
        if not self._closed:
            self._closed = True
            self._end(self)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TappedFrame:
    """A frame that passed an interface, as it was on the medium, without framing."""

    time_s: float
    """When, on the monotonic clock."""
    time_unix_s: float
    """When, on the Unix clock."""
    interface: int
    """The interface."""
    incoming: bool
    """Whether it came in."""
    data: bytes
    """The frame, its access code included."""


def tapped(body: tuple[int, bool, int, int, bytes]) -> TappedFrame:
    """A frame from the core."""
    iface, incoming, mono_us, unix_us, data = body
    return TappedFrame(
        time_s=mono_us / 1e6,
        time_unix_s=unix_us / 1e6,
        interface=iface,
        incoming=incoming,
        data=data,
    )
