"""What a node tells of itself: its settings as resolved, its figures, its health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netmesh import _records
from netmesh._core import IdentityHash
from netmesh.records import EngineStats, Limits

__all__ = ["NodeSettings", "NodeStats", "node_stats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """A node's settings as they are in force, with all defaults filled in."""

    identity: IdentityHash
    """The node's own identity."""
    storage: str | None
    """The folder that it keeps its state in; None: in memory."""
    transport: bool
    """Whether it carries other nodes' traffic between its interfaces."""
    implicit_proofs: bool
    """Whether packet proofs leave the packet hash out."""
    link_mtu_discovery: bool
    """Whether links are offered the MTU of their interface."""
    attached: bool
    """Whether it is a client of a shared instance, which then has the real interfaces."""
    probes: bool
    """Whether it answers probes. False when it is attached."""
    management: tuple[IdentityHash, ...] | None
    """Who may ask for its status; None: there is no management, or it is attached."""
    publishes_blackholes: bool
    """Whether it gives its list of ignored identities to all who ask. False when attached."""
    blackhole_sources: tuple[IdentityHash, ...]
    """Whose lists it adds to its own. Empty when it is attached."""
    blackhole_update_s: float
    """How often it asks for them."""
    decision_timeout_s: float
    """How long a decision about a packet or a resource may take; then it is no."""
    receipt_timeout_s: float | None
    """How long a packet waits for its proof where nothing else is said; None: by its way."""
    credit: int
    """How many reliable events may wait for slow subscribers and handlers."""
    save_interval_s: int
    """How often paths and known destinations are saved."""
    limits: Limits
    """The limits of the engine's tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStats:
    """A node's figures: totals since the start, and sizes now."""

    engine: EngineStats
    """The engine's."""
    at_s: float
    """When they were taken, on the monotonic clock."""
    at_unix_s: float
    """The same on the Unix clock."""
    commands: int
    """Calls from Python."""
    events: int
    """Replies and events for Python."""
    events_lost: int
    """Events that may be lost and found no room."""
    tap_lost: int
    """Tapped frames that found no room."""
    frames_lost: int
    """Frames for user-written interfaces that were lost with them."""
    late_results: int
    """Results of work that came after the close."""
    saves: int
    """Files made durable."""
    save_errors: int
    """Files that could not be."""
    damaged_files: int
    """Files that were damaged and set aside."""
    orphan_paths: int
    """Stored paths whose interface is not there."""
    last_save_unix_s: float | None
    """When the last file was made durable."""
    store_errno: int | None
    """The errno of the last failure; None after a success."""
    interfaces: int
    """Interfaces now, connections of servers too."""
    jobs_waiting: int
    """Pieces of work that wait for a worker."""


def node_stats(core: dict[str, Any]) -> NodeStats:
    """The figures that the core publishes."""
    fields = dict(core)
    fields["engine"] = _records.stats(fields["engine"])
    fields["at_s"] = _records.to_s(fields.pop("mono_us"))
    fields["at_unix_s"] = _records.to_s(fields.pop("unix_us"))
    fields["last_save_unix_s"] = _records.never(fields.pop("last_save_unix_us"))
    fields["store_errno"] = abs(fields.pop("store_os_error")) or None
    fields["interfaces"] = fields.pop("ifaces")
    return NodeStats(**fields)
