"""A node's interfaces and totals in the words of upstream's status (RNS 2, 7.4)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from netmesh.interfaces import InterfaceOptions
from netmesh.records import DropReason

if TYPE_CHECKING:
    from netmesh._core import Ifac
    from netmesh._node_figures import NodeStats
    from netmesh.interfaces import CustomInterface, InterfaceInfo
    from netmesh.transport import ControlRecord, HeldRecord, QueuedRecord

TYPES: Final = {
    "tcp_client": "TCPClientInterface",
    "tcp_server": "TCPServerInterface",
    "tcp_child": "TCPClientInterface",
    "pipe": "PipeInterface",
    "local_client": "LocalClientInterface",
    "udp": "UDPInterface",
    "auto": "AutoInterface",
    "auto_peer": "AutoInterfacePeer",
    "user": "Interface",
}
"""Upstream's class for each medium."""
DEFAULT_RATE: Final = (3600, 5, 0)
"""Target, grace and penalty of a transport node where nothing is set (RNS 1, 5.8)."""
REFUSED_WORK: Final = (DropReason.JOBS_FULL, DropReason.JOBS_SHARE)
FILTERED: Final = (
    DropReason.DUPLICATE,
    DropReason.NOT_NEXT_HOP,
    DropReason.PLAIN_HOPS,
    DropReason.PLAIN_ANNOUNCE,
)
SPEEDS: Final = {
    "rxs": "wire_rx_bytes",
    "txs": "wire_tx_bytes",
}
COUNTED_SPEEDS: Final = {
    "arxs": "announce_rx_bytes",
    "atxs": "announce_tx_bytes",
    "prxs": "path_request_rx_bytes",
    "ptxs": "path_request_tx_bytes",
}
FREQUENCIES: Final = {
    "incoming_announce_frequency": "announces_in_rate",
    "outgoing_announce_frequency": "announces_out_rate",
    "incoming_pr_frequency": "requests_in_rate",
    "outgoing_pr_frequency": "requests_out_rate",
}
TOTAL_FREQUENCIES: Final = dict(
    zip(("arxf", "atxf", "prxf", "ptxf"), FREQUENCIES.values(), strict=True)
)


def access_code(options: InterfaceOptions | CustomInterface) -> tuple[Ifac | None, str | None]:
    """The access code of an interface's options, and the network's name."""
    given = options if isinstance(options, InterfaceOptions) else options.options
    return given._access_code(), given.network_name


def counted(records: Iterable[HeldRecord | QueuedRecord]) -> Counter[int]:
    """How many an interface has."""
    return Counter(record.interface for record in records)


def resident_bytes() -> int | None:
    """Memory of the process that is in use; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _speed(old: int, new: int, seconds: float) -> float:
    """Bit/s."""
    return max(0, new - old) * 8 / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is read of a node for one answer, at two moments for the speeds."""

    before: Mapping[int, InterfaceInfo]
    infos: list[InterfaceInfo]
    seconds: float
    transport: bool
    codes: Mapping[int, tuple[Ifac | None, str | None]]
    controls: Mapping[int, ControlRecord]
    held: Counter[int]
    queued: Counter[int]
    monotonic_offset_s: float
    stats: NodeStats
    jobs_max: int

    def figures(self) -> dict[str, Any]:
        """The whole answer but for what only a transport node says."""
        tops = [info for info in self.infos if info.parent is None]
        rows = [self.interface(info) for info in tops]
        totals = {
            name: sum(row[name] for row in rows)
            for name in (
                *("rxb", "txb", "arxb", "atxb", "prxb", "ptxb"),
                *SPEEDS,
                *COUNTED_SPEEDS,
            )
        }
        totals |= {
            name: sum(getattr(record, rate) for record in self.controls.values())
            for name, rate in TOTAL_FREQUENCIES.items()
        }
        children = [self.interface(info) for info in self.infos if info.parent is not None]
        return {
            "interfaces": rows + children,
            **totals,
            **self.packets(tops),
            **self.queues(),
            "rss": resident_bytes(),
        }

    def packets(self, tops: list[InterfaceInfo]) -> dict[str, Any]:
        """Packets per second in both directions."""
        found = {}
        for name, counter in (("rxpps", "rx_packets"), ("txpps", "tx_packets")):
            new = sum(getattr(info.counters, counter) for info in tops)
            old = sum(getattr(self.before.get(info.id, info).counters, counter) for info in tops)
            found[name] = max(0, new - old) / self.seconds if self.seconds > 0 else 0.0
        return found

    def queues(self) -> dict[str, Any]:
        """Work that waits, as the queue of all classes; the engine has one for all of them."""
        waiting = self.stats.engine.jobs_outstanding
        refused = sum(self.stats.engine.drops.get(reason, 0) for reason in REFUSED_WORK)
        share = waiting / self.jobs_max if self.jobs_max else 0.0
        found: dict[str, Any] = {"rxqt": waiting, "rxqtd": refused, "tqpressure": share}
        for letter, name in (("d", "dq"), ("a", "aq"), ("p", "pq"), ("il", "ilq")):
            found |= {f"rxq{letter}": 0, f"rxq{letter}d": 0, f"{name}pressure": 0.0}
        return found | {"rxqd": waiting, "rxqdd": refused, "dqpressure": share, "txq": None}

    def interface(self, info: InterfaceInfo) -> dict[str, Any]:
        """One interface."""
        counters = info.counters
        parent = next((each for each in self.infos if each.id == info.parent), None)
        row: dict[str, Any] = {
            "name": info.name,
            "short_name": info.label,
            "hash": info.hash,
            "type": TYPES.get(info.medium, "Interface"),
            "rxb": info.wire_rx_bytes,
            "txb": info.wire_tx_bytes,
            "status": info.online or info.listening,
            "mode": int(info.mode),
            "bitrate": info.bitrate,
            "mtu": info.hw_mtu,
            "gravity": info.gravity,
            "clients": info.connections if info.medium == "tcp_server" else None,
            "announces_to_internal": info.announces_to_internal,
            "autoconnect_source": None,
            "arxb": counters.announce_rx_bytes,
            "atxb": counters.announce_tx_bytes,
            "prxb": counters.path_request_rx_bytes,
            "ptxb": counters.path_request_tx_bytes,
            "arxc": counters.announces_in,
            "atxc": counters.announces_out,
            "prxc": counters.path_requests_in,
            "ptxc": counters.path_requests_out,
            "protocol_violations": counters.violations,
            "ifac_violations": sum(
                count for reason, count in counters.drops.items() if "IFAC_" in reason.name
            ),
            "packet_filter_hits": sum(counters.drops.get(reason, 0) for reason in FILTERED),
        }
        row |= self.access(info) | self.speeds(info) | self.rates(info) | self.bursts(info)
        row |= self.output(info)
        if parent is not None:
            row |= {"parent_interface_name": parent.name, "parent_interface_hash": parent.hash}
        if info.medium == "auto":
            row["peers"] = info.connections
        return row

    def access(self, info: InterfaceInfo) -> dict[str, Any]:
        """Its access code, a connection's is its server's."""
        ifac, network = self.codes.get(info.parent or info.id, (None, None))
        return {
            "ifac_signature": None if ifac is None else ifac.signature,
            "ifac_size": info.ifac_size,
            "ifac_netname": network,
        }

    def speeds(self, info: InterfaceInfo) -> dict[str, float]:
        """Bit/s between the two moments."""
        old = self.before.get(info.id, info)
        return {
            name: _speed(getattr(old, field), getattr(info, field), self.seconds)
            for name, field in SPEEDS.items()
        } | {
            name: _speed(getattr(old.counters, field), getattr(info.counters, field), self.seconds)
            for name, field in COUNTED_SPEEDS.items()
        }

    def rates(self, info: InterfaceInfo) -> dict[str, Any]:
        """What announces are allowed, what they are, and what waits."""
        set_here = (info.rate_target_s, info.rate_grace, info.rate_penalty_s)
        none: tuple[int | None, ...] = (None, None, None)
        target, grace, penalty = (
            set_here if info.rate_target_s else DEFAULT_RATE if self.transport else none
        )
        control = self.controls.get(info.id)
        row: dict[str, Any] = {
            name: 0.0 if control is None else getattr(control, rate)
            for name, rate in FREQUENCIES.items()
        }
        row |= {
            "announce_rate_target": target,
            "announce_rate_grace": grace,
            "announce_rate_penalty": penalty,
            "held_announces": self.held[info.id],
        }
        return row | ({"announce_queue": self.queued[info.id]} if self.queued[info.id] else {})

    def bursts(self, info: InterfaceInfo) -> dict[str, Any]:
        """Bursts under way, of a server those of its connections."""
        row: dict[str, Any] = {}
        below = [each.id for each in self.infos if each.parent == info.id]
        for prefix, name in (("", "announce_burst"), ("pr_", "request_burst")):
            control = self.controls.get(info.id)
            since = 0.0 if control is None else getattr(control, f"{name}_s")
            active = [
                each
                for each in below
                if each in self.controls and getattr(self.controls[each], name)
            ]
            row |= {
                f"{prefix}burst_active": control is not None and getattr(control, name),
                f"{prefix}burst_activated": since + self.monotonic_offset_s if since else 0,
                f"{prefix}burst_count": len(active) if info.listening else None,
            }
        return row

    def output(self, info: InterfaceInfo) -> dict[str, Any]:
        """What waits to be sent, and what was dropped; its bytes are not counted."""
        dropped = sum(info.drops.values())
        old = self.before.get(info.id, info)
        return {
            "txdrp": dropped,
            "txdrb": 0,
            "txbuffered": info.queued_bytes,
            "txstalled": info.queued_bytes > 0 and dropped > sum(old.drops.values()),
        }
