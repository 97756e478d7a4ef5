"""A node's figures as text in the Prometheus exposition format.

Example:
    >>> import asyncio
    >>> from netmesh import Node
    >>> async def main() -> str:
    ...     async with Node(shared_instance=False) as node:
    ...         return node.metrics()
    >>> text = asyncio.run(main())
    >>> "# TYPE netmesh_frames_in_total counter" in text
    True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from netmesh.interfaces import InterfaceInfo
    from netmesh.node import NodeStats

__all__ = ["exposition"]

_ENGINE: Final = {
    "inputs": ("frames_in_total", "Frames that came in."),
    "accepted": ("frames_accepted_total", "Frames that were handled."),
    "outputs": ("packets_out_total", "Packets that left."),
    "jobs_emitted": ("jobs_total", "Pieces of heavy work."),
    "jobs_dropped": ("jobs_refused_total", "Pieces of heavy work refused for want of room."),
    "lossy_dropped": ("engine_events_lost_total", "Announces, progress and changes lost."),
    "held_for_credit": ("held_for_credit_total", "Packets refused because nobody reads."),
    "known_evicted": ("known_evicted_total", "Known destinations that made room."),
    "paths_evicted": ("paths_evicted_total", "Paths that made room."),
    "paths_failed_over": ("paths_failed_over_total", "Paths that took another way."),
    "alternatives_evicted": ("alternatives_evicted_total", "Other ways that made room."),
    "receipts_culled": ("receipts_culled_total", "Receipts that made room."),
    "resources_resumed": ("resources_resumed_total", "Resources that were resumed."),
    "resumes_declined": ("resumes_declined_total", "Resources that had to begin anew."),
    "partials_kept": ("partials_kept_total", "Interrupted resources that were kept."),
    "partials_evicted": ("partials_evicted_total", "Of them, those that made room."),
    "forwarded": ("forwarded_total", "Packets of others carried on."),
    "announces_blocked": ("announces_blocked_total", "Announces too frequent to rebroadcast."),
    "reverses_evicted": ("reverses_evicted_total", "Ways back that made room."),
    "links_refused": ("links_refused_total", "Links refused for want of room."),
    "known": ("known_destinations", "Known destinations."),
    "paths": ("paths", "Paths."),
    "alternatives": ("path_alternatives", "Other ways to the destinations of paths."),
    "links": ("links", "Links that are not closed."),
    "links_active": ("links_active", "Links that carry data."),
    "receipts": ("receipts", "Packets that wait for their proof."),
    "announces_queued": ("announces_queued", "Announces that wait for their share."),
    "rebroadcasts": ("rebroadcasts", "Announces and path responses in flight."),
    "transits": ("transits", "Links that pass through."),
    "reverses": ("reverses", "Forwarded packets that wait for their proof."),
    "tunnels": ("tunnels", "Peers whose paths come back with them."),
    "operations": ("operations", "Operations that have not ended."),
    "jobs_outstanding": ("jobs_outstanding", "Pieces of heavy work under way."),
}
_NODE: Final = {
    "commands": ("commands_total", "Calls from the program."),
    "events": ("events_total", "Replies and events for the program."),
    "events_lost": ("events_lost_total", "Events that found no room on their way."),
    "tap_lost": ("tap_lost_total", "Tapped frames that found no room."),
    "saves": ("saves_total", "Files made durable."),
    "save_errors": ("save_errors_total", "Files that could not be made durable."),
    "damaged_files": ("damaged_files_total", "Files that were damaged and set aside."),
    "interfaces": ("interfaces", "Interfaces, connections of servers too."),
}
_INTERFACE: Final = {
    "wire_rx_bytes": ("interface_rx_bytes_total", "Bytes in, with framing."),
    "wire_tx_bytes": ("interface_tx_bytes_total", "Bytes out, with framing."),
    "opened": ("interface_opened_total", "Connections made or accepted."),
    "refused": ("interface_refused_total", "Connections refused."),
    "connections": ("interface_connections", "Connections of a server."),
    "queued_bytes": ("interface_queued_bytes", "Bytes that wait to be sent."),
}
_COUNTERS: Final = {
    "rx_packets": ("interface_rx_packets_total", "Packets in."),
    "tx_packets": ("interface_tx_packets_total", "Packets out."),
    "violations": ("interface_violations_total", "Packets that break the protocol."),
}

Sample = tuple[Mapping[str, str], float]


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _family(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    kind = "counter" if name.endswith("_total") else "gauge"
    yield f"# HELP netmesh_{name} {text}"
    yield f"# TYPE netmesh_{name} {kind}"
    for labels, value in samples:
        words = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
        yield f"netmesh_{name}{'{' + words + '}' if words else ''} {value:g}"


def exposition(stats: NodeStats, interfaces: Iterable[InterfaceInfo], *, node: str) -> str:
    """The figures of one node as text; ``node`` is the label that tells it from others."""
    labels = {"node": node}
    lines: list[str] = []
    for member, (name, text) in _ENGINE.items():
        lines += _family(name, text, [(labels, getattr(stats.engine, member))])
    for member, (name, text) in _NODE.items():
        lines += _family(name, text, [(labels, getattr(stats, member))])
    lines += _family(
        "frames_dropped_total",
        "Frames and packets that were not handled, by reason.",
        [
            ({**labels, "reason": reason.name.lower()}, count)
            for reason, count in stats.engine.drops.items()
        ],
    )
    every = [({**labels, "interface": info.name}, info) for info in interfaces]
    lines += _family(
        "interface_up",
        "Whether an interface carries packets.",
        [(marks, float(info.online)) for marks, info in every],
    )
    for member, (name, text) in _INTERFACE.items():
        lines += _family(name, text, [(marks, getattr(info, member)) for marks, info in every])
    for member, (name, text) in _COUNTERS.items():
        lines += _family(
            name, text, [(marks, getattr(info.counters, member)) for marks, info in every]
        )
    lines += _family(
        "interface_drops_total",
        "Output that an interface did not take, by reason.",
        [
            ({**marks, "reason": reason}, count)
            for marks, info in every
            for reason, count in info.drops.items()
        ],
    )
    return "\n".join(lines) + "\n"
