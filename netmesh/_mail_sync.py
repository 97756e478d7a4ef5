"""Messages that a propagation node keeps, fetched for a mailbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from netmesh._core import DestinationHash, RawMail
from netmesh.constants import SyncState

__all__ = ["SyncResult"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """How a fetch from a propagation node ended."""

    node: DestinationHash
    """The node that was asked."""
    state: SyncState
    """COMPLETE, or how it failed: NO_PATH, LINK_FAILED, TRANSFER_FAILED, NO_IDENTITY_RCVD,
    NO_ACCESS, FAILED; IDLE when it was cancelled. With the reason TIMEOUT: how far it was."""
    reason: str
    """Empty when it is complete, else the state's name, or CANCELLED or TIMEOUT."""
    received: int
    """How many messages came, each of them told of."""
    duplicates: int
    """How many had come before."""
    duration_s: float
    """How long it took."""

    @property
    def ok(self) -> bool:
        """Whether it is complete."""
        return self.state == SyncState.COMPLETE


def result_of(raw: RawMail, duration_s: float, late: SyncState | None) -> SyncResult:
    """What the core told of its end; ``late`` is how far it was when its time was over."""
    state = SyncState(raw.sync_state) if late is None else late
    reason = {SyncState.COMPLETE: "", SyncState.IDLE: "CANCELLED"}.get(state, state.name)
    return SyncResult(
        node=raw.peer,
        state=state,
        reason="TIMEOUT" if late is not None else reason,
        received=raw.sync_received,
        duplicates=raw.sync_duplicates,
        duration_s=duration_s,
    )
