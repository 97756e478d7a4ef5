"""What is under way on a node: receipts of packets, resources in both directions.

A :class:`Receipt` and a :class:`Transfer` are awaited for their end. Which resources of peers
are taken is a policy: see :data:`Resources`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, final

from netmesh import _records
from netmesh._core import Advertisement, DestinationHash, IdentityHash, RawEvent
from netmesh._driver import Call, Driver
from netmesh._inbox import Source
from netmesh.constants import ProofStrategy
from netmesh.errors import (
    LinkError,
    NotFoundError,
    OperationError,
    ProofError,
    RefusedError,
    SendError,
    StateError,
    TransferError,
)
from netmesh.events import (
    ProgressMade,
    ReceiptDone,
    ResourceOffered,
    ResourceReceived,
    ResourceSent,
    from_raw,
)
from netmesh.records import Compression, EventKind, ReceiptRecord, Stage, TransferRecord

if TYPE_CHECKING:
    from netmesh.links import Link

__all__ = ["Offer", "Proofs", "Receipt", "ReceivedFile", "Resources", "Transfer"]

Proofs = Literal["none", "app", "all"] | Callable[[Any], bool | Awaitable[bool]]
"""Which packets are proven: none, those whose ``token`` is accepted, all, or those that a
callable says yes to. One that raises has said no."""

COMPRESSION: Final = {
    "off": Compression.OFF,
    "when_smaller": Compression.WHEN_SMALLER,
    "automatic": Compression.AUTOMATIC,
}


def microseconds(timeout: float | None) -> int:
    """A time-out for the core; 0, its default, for None."""
    if timeout is None:
        return 0
    return max(1, _records.to_us(timeout))


def checked_timeout(timeout: float | None) -> float | None:
    """A time-out that is kept as a setting. Raises ValueError unless it is above 0 or None."""
    if timeout is not None and not timeout > 0:
        raise ValueError(f"a time-out must be above 0 seconds, not {timeout!r}")
    return timeout


def stage_name(raw: RawEvent) -> str:
    """Where an operation failed, as errors say it."""
    return Stage(raw.stage).name


# ---------------------------------------------------------------------------- receipts


@final
class Receipt:
    """A packet that was sent, whose proof can be awaited.

    ``await receipt`` gives the :class:`netmesh.events.ReceiptDone` of a proven packet and
    raises :class:`netmesh.errors.ProofError`, :class:`netmesh.errors.SendError` or
    :class:`netmesh.errors.LinkError`. A receipt that nobody awaits disturbs nobody.
    """

    __slots__ = ("_call", "_driver", "destination", "packet_hash")

    destination: DestinationHash
    """Where it went."""
    packet_hash: bytes | None
    """32 bytes; None until it is known: a packet outside links is sealed by a worker."""

    def __init__(
        self, driver: Driver, call: Call, destination: DestinationHash, packet_hash: bytes | None
    ) -> None:
        self._driver = driver
        self._call = call
        self.destination = destination
        self.packet_hash = packet_hash

    def __repr__(self) -> str:
        return f"<Receipt {'done' if self.done else 'waiting'}>"

    def __await__(self) -> Generator[Any, None, ReceiptDone]:
        return self._result().__await__()

    @property
    def done(self) -> bool:
        """Whether the proof came, or will not come."""
        return self._call.done

    @property
    def op(self) -> int:
        """The operation, which events name."""
        return self._driver.answer_of(self._call).op

    async def wait(self, *, timeout: float | None = None) -> ReceiptDone:
        """The same as awaiting it, for at most ``timeout`` seconds (TimeoutError)."""
        async with asyncio.timeout(timeout):
            return await self._result()

    def cancel(self) -> None:
        """Waits no longer; the packet has left."""
        self._driver.cancel(self._call)

    async def info(self) -> ReceiptRecord:
        """How long it waits, and for which packet. Raises NotFoundError when it has ended."""
        reply = await self._driver.ask("receipt_list", "receipt")
        for core in reply.records:
            if core["op"] == self.op:
                return _records.receipt(core)
        raise NotFoundError("the receipt has ended")

    async def set_timeout(self, timeout: float) -> None:
        """Changes how many seconds it waits, counted from the sending of the packet.

        Raises NotFoundError when it has ended.
        """
        await self._driver.ask(
            "receipt_timeout", "receipt", op=self.op, timeout_us=microseconds(timeout)
        )

    async def _result(self) -> ReceiptDone:
        await self._driver.end_of(self._call)
        return self._outcome()

    def _outcome(self) -> ReceiptDone:
        """What came of it, once it is done; raises as awaiting it does."""
        raw = self._call.end
        if raw is None:
            raise StateError("the node was closed")
        done = from_raw(raw)
        assert isinstance(done, ReceiptDone)
        self.packet_hash = done.packet_hash
        if not done.ok or done.state.name != "DELIVERED":
            raise self._error(raw, done)
        return done

    def _error(self, raw: RawEvent, done: ReceiptDone) -> OperationError:
        stage = stage_name(raw)
        where = done.destination
        reason = "TIMEOUT" if done.reason == "OK" and stage == "PROOF" else done.reason
        if stage == "SEND":
            return SendError("no interface took the packet", stage=stage, destination=where)
        if stage == "LINK":
            return LinkError("the link ended before the proof came", destination=where)
        if done.state.name == "CULLED":
            text, reason = "too many packets wait for their proof", "LIMIT"
        elif stage == "CANCELLED":
            text, reason = "the receipt was cancelled", "CANCELLED"
        else:
            text = "the packet was not proven in time"
        return ProofError(text, reason=reason, stage=stage, destination=where)


# --------------------------------------------------------------------------- transfers


@final
class Transfer(Source[ProgressMade]):
    """A resource on its way to the peer.

    ``await transfer`` waits until the peer has proven it and gives the
    :class:`netmesh.events.ResourceSent`; it raises :class:`netmesh.errors.RefusedError`,
    :class:`netmesh.errors.TransferError` or :class:`netmesh.errors.LinkError`. Cancelling the
    wait cancels the transfer. ``async for`` gives its progress.
    """

    __slots__ = ("_call", "_driver", "_link", "_progress")

    def __init__(
        self, driver: Driver, link: Link, progress: Callable[[ProgressMade], object] | None
    ) -> None:
        super().__init__()
        self._driver = driver
        self._link = link
        self._progress = progress
        self._call: Call | None = None

    def __repr__(self) -> str:
        return f"<Transfer {'done' if self.done else 'under way'}>"

    def __await__(self) -> Generator[Any, None, ResourceSent]:
        return self._result().__await__()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._started.done

    @property
    def op(self) -> int:
        """The operation, which events name."""
        return self._driver.answer_of(self._started).op

    async def wait(self, *, timeout: float | None = None) -> ResourceSent:
        """The same as awaiting it, for at most ``timeout`` seconds; then it is cancelled.

        Raises TimeoutError then.
        """
        async with asyncio.timeout(timeout):
            return await self._result()

    def cancel(self) -> None:
        """Cancels it, in any state; the peer is told. Quiet when it has ended."""
        self._driver.cancel(self._started)

    async def info(self) -> TransferRecord:
        """All about it. Raises NotFoundError when it has ended."""
        reply = await self._driver.ask("transfer_info", "transfer", op=self.op)
        return _records.transfer(reply.records[0])

    @property
    def _started(self) -> Call:
        assert self._call is not None
        return self._call

    def _on_event(self, raw: RawEvent) -> None:
        if raw.kind != EventKind.PROGRESS:
            self._close()
            return
        made = from_raw(raw)
        assert isinstance(made, ProgressMade)
        while len(self) >= 16:  # only the newest matter
            self._items.popleft()
            self.lost += 1
        self._put(made)
        if self._progress is not None:
            self._link._node._call_back(self._progress, made)

    async def _result(self) -> ResourceSent:
        raw = await self._driver.end_of(self._started)
        if raw is None:
            raise StateError("the node was closed")
        sent = from_raw(raw)
        assert isinstance(sent, ResourceSent)
        if not sent.ok:
            raise transfer_error(raw, sent.reason, self._link.destination)
        return sent


def transfer_error(raw: RawEvent, reason: str, destination: DestinationHash) -> OperationError:
    """Why a resource did not arrive."""
    stage = stage_name(raw)
    if stage == "REFUSED":
        return RefusedError(
            "the peer refused the resource", reason=reason, stage=stage, destination=destination
        )
    if stage == "LINK":
        return LinkError("the link ended during the transfer", destination=destination)
    text = "the transfer was cancelled" if stage == "CANCELLED" else "the transfer failed"
    return TransferError(text, reason=reason, stage=stage, destination=destination)


@final
@dataclass(frozen=True, slots=True)
class Offer:
    """A resource that a peer wants to send; a callable decides about it."""

    link: Link
    """The link it comes over."""
    advertisement: Advertisement
    """What the peer says of it: sizes, flags, hashes."""
    event: ResourceOffered
    """The event."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the content, as the peer says."""
        return self.event.total_bytes

    @property
    def identity(self) -> IdentityHash | None:
        """Who offers it, if that is known."""
        return self.event.identity


Resources = Literal["none", "all"] | Callable[[Offer], bool | Awaitable[bool]]
"""Which resources are taken: none, all, or what a callable says yes to.

A callable that raises has said no, and so has an async one that takes longer than the node's
``decision_timeout``, or than the ten seconds for which an offer stands.
"""


@final
@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that a peer sent."""

    data: bytes
    """Its content; empty when it went to a file."""
    metadata: Any
    """What the peer sent with it, None: nothing."""
    path: Path | None
    """Where it was written."""
    event: ResourceReceived
    """The event."""

    @property
    def name(self) -> str | None:
        """The file name that the peer gave, without folders; None without one."""
        given = self.metadata.get("name") if isinstance(self.metadata, dict) else None
        text = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
        return os.path.basename(text) or None if isinstance(text, str) else None


def policy_of(policy: Resources) -> tuple[int, Callable[[Offer], Any] | None]:
    """The core's code for a policy, and the callable that decides."""
    if policy == "none":
        return 0, None
    if policy == "all":
        return 2, None
    if callable(policy):
        return 1, policy
    raise ValueError(f'resources must be "none", "all" or a callable, not {policy!r}')


_PROVE: Final = {"none": ProofStrategy.NONE, "app": ProofStrategy.APP, "all": ProofStrategy.ALL}


def proofs_of(prove: Proofs) -> tuple[int, Callable[[Any], Any] | None]:
    """The core's code for a strategy, and the callable that decides."""
    if isinstance(prove, str) and prove in _PROVE:
        return int(_PROVE[prove]), None
    if callable(prove):
        return int(ProofStrategy.APP), prove
    raise ValueError(f'prove must be "none", "app", "all" or a callable, not {prove!r}')
