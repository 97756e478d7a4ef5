"""What netmesh set out to reach, as data, and whether a report reaches it.

Required targets are those that the project promises; stretch targets are the best that is
known to be possible on a current server core.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Measure = Literal[
    "time",
    "rate",
    "share",
    "times",
    "above",
    "tail",
    "arrival",
    "memory",
    "growth",
    "client_cpu",
    "server_cpu",
    "server_growth",
    "stalls",
]


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one figure of the rows that match ``rows`` (globs).

    ``time``: the p50 of ``arm`` is at most ``limit`` ns. ``rate``: at least ``limit`` calls a
    second. ``share``: at most ``limit`` times the p50 of ``other``. ``times``: ``other`` takes
    at least ``limit`` times as long. ``other`` is an arm, or ``rust`` for the fastest Rust
    stack with its default build. ``memory``: the peak of a process that does the row alone is
    at most ``limit`` bytes; only full runs know it.

    Of rows between two processes: ``above``: the p50 is at most ``limit`` ns above that of
    ``other``. ``tail``: the 99th percentile is at most ``limit`` ns. ``arrival``: the p50 until
    the other side's program has it is at most ``limit`` ns. ``growth``: the memory of
    either side grows by at most ``limit`` bytes, ``server_growth``: that of the server.
    ``client_cpu``, ``server_cpu``: that side spends at most ``limit`` ns on a MiB of payload.
    ``stalls``: at most ``limit`` samples failed or stood still.
    """

    rows: tuple[str, ...]
    arm: str
    measure: Measure
    limit: float
    other: str | None = None
    required: bool = True


MS = 1e6
MIB = 1 << 20

NODES = (
    "discovery.cold",
    "link.setup",
    "request.32",
    "packet.proof",
    "deliver.direct.warm",
    "deliver.opportunistic",
    "resource.16k",
    "resource.1m",
)
"""Rows between two processes whose time is promised."""

SIGNING = (
    "lxmf.decode.verify.*",
    "lxmf.encode.sign.*",
    "announce.create",
    "announce.validate.cold",
    "announce.validate.batch64",
    "identity.*",
    "link.handshake.both",
)
"""Rows with a signature or a key exchange."""

TARGETS = (
    Target(("mail.store.open",), "netmesh", "time", 100 * MS),
    Target(("mail.store.find.*", "mail.store.list.*"), "netmesh", "time", 50 * MS),
    Target(("mail.store.open", "mail.store.find.*"), "netmesh", "memory", 64 * MIB),
    Target(("deliver.direct.warm", "deliver.opportunistic"), "netmesh", "arrival", MS * 0.45),
    Target(("deliver.direct.cold",), "netmesh", "arrival", MS * 0.9),
    Target(("deliver.resource",), "netmesh", "arrival", MS),
    Target(("queue.direct",), "netmesh", "rate", 7000),
    Target(("queue.opportunistic",), "netmesh", "rate", 4500),
    Target(("queue.*.kept",), "netmesh", "rate", 2000),
    Target(("queue.direct", "queue.opportunistic"), "netmesh", "times", 1, "rns-openssl"),
    Target(("stamp.16",), "netmesh", "time", 100 * MS),
    Target(("lxmf.decode.view.*",), "core", "time", 30),
    Target(("lxmf.encode.codec.21", "lxmf.encode.codec.2k"), "core", "time", 40),
    Target(("packet.pack*", "packet.unpack", "packet.unpack.h2"), "core", "time", 6),
    Target(("segment.desc",), "core", "time", 100),
    Target(("reassemble.copy",), "core", "time", 400),
    Target(("request.window",), "core", "time", 25),
    Target(
        ("packet.pack", "packet.unpack", "lxmf.decode.view.21"),
        "netmesh",
        "time",
        200,
    ),
    Target(SIGNING, "core", "share", 1.05, "library"),
    Target(SIGNING, "core", "times", 1, "rns-openssl"),
    Target(SIGNING, "netmesh", "times", 1, "rns-openssl"),
    Target(("token.encrypt.464", "token.decrypt.464"), "core", "times", 8, "rns-openssl"),
    Target(("resource.build.16k",), "core", "times", 4, "rns-openssl"),
    Target(("announce.validate.repeat",), "core", "time", 500),
    Target(("stamp.search.sha_ni",), "core", "rate", 15e6),
    Target(("stamp.search.avx512",), "core", "rate", 40e6),
    Target(("transport.forward.147",), "core", "rate", 1.2e6),
    Target(("transport.forward.500",), "core", "rate", 600e3),
    Target(("transport.forward.ifac",), "core", "rate", 20e3),
    Target(("transport.announces",), "core", "rate", 15e3),
    Target(("hub.forward.147",), "netmesh", "rate", 300e3),
    Target(("hub.crowd",), "netmesh", "tail", MS * 5),
    Target(("hub.destinations",), "netmesh", "server_growth", 64 * MIB),
    Target(("hub.clients",), "netmesh", "server_growth", 4096),
    Target(("*",), "core", "times", 1, "rust"),
    Target(
        ("discovery.cold", "deliver.direct.warm", "deliver.opportunistic"), "core", "time", MS * 0.3
    ),
    Target(("link.setup",), "core", "time", MS * 0.35),
    Target(("request.32",), "core", "time", MS * 0.1),
    Target(("packet.proof",), "core", "time", MS * 0.25),
    Target(("resource.16k",), "core", "time", MS * 0.3),
    Target(("resource.1m",), "core", "time", MS * 7),
    Target(NODES, "netmesh", "above", MS * 0.15, "core"),
    Target(NODES, "netmesh", "times", 3, "rns-openssl"),
    Target(("links.1000",), "core", "time", MS * 200),
    Target(("links.1000",), "core", "growth", 1024),
    Target(("idle",), "netmesh", "time", MS),
    Target(("idle",), "netmesh", "growth", 8 * MIB),
    Target(("resource.50m",), "core", "time", MS * 330),
    Target(("resource.50m.text",), "core", "time", MS * 330),
    Target(("file.300m",), "netmesh", "growth", 8 * MIB),
    Target(("packets.meanwhile",), "netmesh", "tail", MS * 2),
    Target(("buffer.stream",), "netmesh", "time", MS * 1000 * 16 / 50),
    Target(("resource.50m",), "core", "client_cpu", MS * 6),
    Target(("resource.50m",), "core", "server_cpu", MS * 4),
    Target(("resource.*",), "netmesh-to-rns", "stalls", 0),
    Target(("resource.*",), "rns-to-netmesh", "stalls", 0),
    Target(("resource.*",), "netmesh-to-rns-rs", "stalls", 0),
    Target(("resource.*",), "rns-rs-to-netmesh", "stalls", 0),
    Target(("resource.*",), "netmesh-to-lxmf-rs", "stalls", 0),
    Target(("resource.*",), "lxmf-rs-to-netmesh", "stalls", 0),
    Target(("lxmf.decode.view.*",), "core", "time", 20, required=False),
    Target(("lxmf.decode.owned.21", "lxmf.decode.owned.2k"), "core", "time", 40, required=False),
    Target(("lxmf.decode.owned.16k", "lxmf.encode.codec.16k"), "core", "time", 150, required=False),
    Target(("lxmf.encode.codec.21",), "core", "time", 20, required=False),
    Target(("packet.pack*",), "core", "time", 3, required=False),
    Target(("packet.unpack", "packet.unpack.h2"), "core", "time", 4, required=False),
    Target(("packet.unpack+hash*",), "core", "time", 220, required=False),
    Target(("segment.desc",), "core", "time", 60, required=False),
    Target(("reassemble.copy",), "core", "time", 300, required=False),
    Target(("request.window",), "core", "time", 15, required=False),
    Target(("announce.create",), "core", "time", 12_000, required=False),
    Target(("announce.validate.cold",), "core", "time", 30_000, required=False),
    Target(("announce.validate.batch64",), "core", "time", 1e6, required=False),
    Target(("announce.validate.batch64.repeat",), "core", "time", 32_000, required=False),
    Target(("identity.sign",), "core", "time", 18_000, required=False),
    Target(("identity.verify",), "core", "time", 32_000, required=False),
    Target(("identity.encrypt",), "core", "time", 42_000, required=False),
    Target(("identity.decrypt",), "core", "time", 32_000, required=False),
    Target(("token.encrypt.464", "token.decrypt.464"), "netmesh", "times", 8, "rns-openssl", False),
    Target(("resource.build.16k",), "netmesh", "times", 4, "rns-openssl", False),
)

RUST_ARMS = ("lxmf-rs", "lxmf-rs-nodelay", "rns-rs", "beechat")
"""The Rust stacks with their default builds, one of them also with its sockets tuned."""


def evaluate(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The targets of every row of a report, with what was measured.

    ``value`` and ``reached`` are None where a figure is missing. ``margin`` is the share by
    which the limit is missed (above 0) or kept.
    """
    return [
        found
        for target in TARGETS
        for row in rows
        if any(fnmatch.fnmatchcase(row["id"], pattern) for pattern in target.rows)
        for found in _evaluate_row(target, row)
    ]


def _evaluate_row(target: Target, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    other = target.other
    if other == "rust":
        if not row["comparable"] or row["definition"] == "published":
            return
        other = fastest_rust(row)
        if other is None or _p50(row, "core") is None:
            return
    measured, limit = _measured(target, row, other)
    reached = None if measured is None else _reaches(target, measured)
    yield {
        "row": row["id"],
        "arm": target.arm,
        "measure": target.measure,
        "limit": limit,
        "other": other,
        "required": target.required,
        "value": measured,
        "reached": reached,
        "margin": None if measured is None else _margin(target, measured),
    }


def fastest_rust(row: Mapping[str, Any]) -> str | None:
    """The Rust stack with the default build that is fastest in a row."""
    times = {arm: _p50(row, arm) for arm in RUST_ARMS}
    known = {arm: time for arm, time in times.items() if time is not None}
    return min(known, key=lambda arm: known[arm]) if known else None


def is_aside(arm: str) -> bool:
    """Whether an arm repeats another one or pairs two stacks: it leads nobody."""
    return arm.endswith("-again") or "-to-" in arm


def _p50(row: Mapping[str, Any], arm: str) -> float | None:
    result = row["results"].get(arm)
    return None if result is None or "p50_ns" not in result else float(result["p50_ns"])


def _measured(
    target: Target, row: Mapping[str, Any], other: str | None
) -> tuple[float | None, float]:
    own = _p50(row, target.arm)
    if own is None:
        return None, target.limit
    if target.measure == "time":
        return own, target.limit
    if target.measure == "rate":
        return 1e9 / own, target.limit
    if target.measure in _OF_RESULTS:
        return _OF_RESULTS[target.measure](row, row["results"][target.arm]), target.limit
    theirs = _p50(row, other) if other is not None else None
    if theirs is None:
        return None, target.limit
    if target.measure == "above":
        return own - theirs, target.limit
    return (own / theirs if target.measure == "share" else theirs / own), target.limit


def _growth(_row: Mapping[str, Any], result: Mapping[str, Any]) -> float:
    return max(float(result["pair"][f"{side}_growth_bytes"]) for side in ("client", "server"))


def _cpu(side: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], float]:
    return lambda row, result: (
        float(result["pair"][f"{side}_cpu_ns"]) * MIB / float(row["payload_bytes"])
    )


def _known(figure: float | None) -> float | None:
    return None if figure is None else float(figure)


_OF_RESULTS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]] = {
    "memory": lambda _, result: _known(result["rss_bytes"]),
    "tail": lambda _, result: float(result["single"]["p99_ns"]),
    "arrival": lambda _, result: _known(result["pair"]["arrival_p50_ns"]),
    "growth": _growth,
    "server_growth": lambda _, result: float(result["pair"]["server_growth_bytes"]),
    "client_cpu": _cpu("client"),
    "server_cpu": _cpu("server"),
    "stalls": lambda _, result: float(result["pair"]["stalls"] + result["pair"]["failed"]),
}


def _reaches(target: Target, value: float) -> bool:
    return value >= target.limit if target.measure in ("rate", "times") else value <= target.limit


def _margin(target: Target, value: float) -> float:
    """Above 0: missed by this share of the limit; by a number where the limit is 0."""
    if target.measure in ("rate", "times"):
        return target.limit / value - 1
    return value / target.limit - 1 if target.limit else value
