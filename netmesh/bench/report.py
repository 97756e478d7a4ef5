"""Puts a measurement together as the report's JSON (docs/reference/report.md)."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from netmesh.bench import published, stats, targets
from netmesh.bench.arms import NODELAY, Arm
from netmesh.bench.measure import Cell, Cells, PairFigures, Profile
from netmesh.bench.model import Row, Suite

FORMAT = "netmesh-report"
VERSION = 2

OWN_ARMS = ("core", "netmesh", "pure")
"""The arms that are netmesh."""

_PERCENTILES = (("p50_ns", 50.0), ("p95_ns", 95.0), ("p99_ns", 99.0), ("p99_9_ns", 99.9))

_AVX2 = (
    "its curve library, curve25519-dalek, works on AVX2 vectors where the processor has them; "
    "libsodium, which netmesh links, has scalar code for this"
)

REASONS = (
    (
        "*",
        "*-native",
        "built with -C target-cpu=native: its curve code then uses AVX-512 IFMA, for which "
        "libsodium, which netmesh links, has nothing",
    ),
    ("*.verify*", "*", _AVX2),
    ("announce.validate.*", "*", _AVX2),
)
"""Why a Rust stack may lead the C core: pattern of the row, pattern of the arm, the reason."""


def build(
    cells: Cells,
    rows: Sequence[tuple[Suite, Row]],
    arms: Sequence[Arm],
    *,
    profile: Profile,
    context: Mapping[str, Any],
) -> dict[str, Any]:
    """The report.

    ``context`` holds what is known of the measurement as a whole: ``created``, ``seconds``,
    ``netmesh`` and ``environment``.
    """
    made = [_row(suite, row, arms, cells) for suite, row in rows]
    used = {suite.name: suite for suite, _ in rows}
    report = {
        "format": FORMAT,
        "version": VERSION,
        **context,
        "mode": asdict(profile),
        "published_source": {"text": published.SOURCE, "machine": published.MACHINE},
        "arms": [_arm(arm) for arm in arms],
        "suites": [{"name": s.name, "title": s.title, "text": s.text} for s in used.values()],
        "rows": made,
    }
    report["targets"] = targets.evaluate(made)
    report["notes"] = closing_notes(made, {arm.id: arm.title for arm in arms})
    return report


def _arm(arm: Arm) -> dict[str, Any]:
    listing = arm.listing
    return {
        "id": arm.id,
        "title": arm.title,
        "kind": arm.kind,
        "again": arm.again,
        "available": arm.available,
        "reason": arm.reason,
        "versions": dict(listing.get("versions", {})),
        "licence": listing.get("licence"),
        "flags": ", ".join(str(listing[key]) for key in ("rustc", "flags") if key in listing)
        or None,
    }


def _row(suite: Suite, row: Row, arms: Sequence[Arm], cells: Cells) -> dict[str, Any]:
    results = {arm.id: _result(cells[row.id, arm.id]) for arm in arms if (row.id, arm.id) in cells}
    made: dict[str, Any] = {
        "id": row.id,
        "suite": suite.name,
        "title": row.title,
        "operation": row.operation,
        "payload_bytes": row.payload,
        "batch": row.batch,
        "unit": row.unit,
        "definition": row.definition,
        "comparable": row.comparable,
        "fixtures": row.fixtures,
        "published": _published(row),
        "results": results,
        "missing": {
            arm.id: _why_missing(row, arm)
            for arm in arms
            if arm.id not in results and arm.again is None and arm.kind != "mixed"
        },
    }
    made["ratios"] = ratios(results)
    made["leader"] = leader(results) if row.comparable else None
    return made


def _published(row: Row) -> dict[str, Any] | None:
    if row.published is None:
        return None
    figures = published.FIGURES[row.published]
    return {**asdict(figures), "ratio": figures.ratio, "sides": list(row.published_sides)}


def _why_missing(row: Row, arm: Arm) -> str:
    if arm.reason is not None:
        return arm.reason
    if arm.id == NODELAY and row.pair is None:
        return "no row between two processes"
    peer = arm.id.removesuffix("-native").removesuffix("-nodelay")
    return row.absent.get(peer, "has no such operation")


def _result(cell: Cell) -> dict[str, Any]:
    if cell.error is not None or not any(cell.run_blocks):
        return {"note": cell.note, "error": cell.error or "nothing was measured"}
    runs = [[ns / calls for calls, ns in blocks] for blocks in cell.run_blocks if blocks]
    medians = [stats.median(blocks) for blocks in runs]
    spreads = [stats.mad_ratio(blocks) for blocks in runs]
    known = [spread for spread in spreads if spread is not None]
    over_empty = None
    if cell.rss_bytes is not None and cell.rss_empty_bytes is not None:
        over_empty = cell.rss_bytes - cell.rss_empty_bytes
    return {
        "note": cell.note,
        "p50_ns": stats.median(medians),
        "min_ns": min(min(blocks) for blocks in runs),
        "runs_p50_ns": medians,
        "spread": stats.mad_ratio(medians),
        "block_spread": stats.median(known) if known else None,
        "blocks": sum(len(blocks) for blocks in runs),
        "calls": cell.calls,
        "checks": cell.checks,
        "cpu_ns": cell.cpu_ns / cell.calls,
        "single": _single(cell),
        "rss_bytes": cell.rss_bytes,
        "rss_over_empty_bytes": over_empty,
        "pair": None if cell.pair is None else _pair(cell, cell.pair),
    }


def _pair(cell: Cell, figures: PairFigures) -> dict[str, Any]:
    """What both processes took, of which within the engine, and what went wrong."""
    samples = max(1, cell.calls)
    return {
        "client_cpu_ns": figures.client_cpu_ns / samples,
        "server_cpu_ns": figures.server_cpu_ns / samples,
        "client_growth_bytes": stats.median(figures.client_growth),
        "server_growth_bytes": stats.median(figures.server_growth),
        "engine_p50_ns": figures.inner.percentile(50.0) if figures.inner.count else None,
        "arrival_p50_ns": figures.arrivals.percentile(50.0) if figures.arrivals.count else None,
        "failed": figures.failed,
        "stalls": figures.stalls,
        "first_error": figures.first_error,
    }


def _single(cell: Cell) -> dict[str, Any] | None:
    histogram = cell.histogram
    if histogram.count == 0:
        return None
    single: dict[str, Any] = {
        "count": histogram.count,
        "calls_each": cell.calls_each,
        "clock_ns": cell.clock_ns,
    }
    single |= {name: histogram.percentile(percent) for name, percent in _PERCENTILES}
    return {**single, "max_ns": histogram.maximum}


def ratios(results: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Every arm's p50 over that of the C core and over that of netmesh from Python."""
    times = {arm: result["p50_ns"] for arm, result in results.items() if "p50_ns" in result}
    return {
        arm: {f"of_{base}": time / times[base] for base in ("core", "netmesh") if base in times}
        for arm, time in times.items()
    }


def leader(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Who is fastest, who is as fast within the noise, and the runner-up.

    The runner-up is the best arm of the other side, netmesh being one side and all other
    stacks the other. The linked libraries do not take part: they do no protocol work.
    """
    times = {
        arm: result["p50_ns"]
        for arm, result in results.items()
        if "p50_ns" in result and arm != "library" and not targets.is_aside(arm)
    }
    if not times:
        return None
    first = min(times, key=lambda arm: times[arm])
    own = first in OWN_ARMS
    others = [arm for arm in times if (arm in OWN_ARMS) != own]
    second = min(others, key=lambda arm: times[arm]) if others else None
    return {
        "arm": first,
        "tied_with": sorted(
            arm for arm in times if arm != first and not apart(results[first], results[arm])
        ),
        "runner_up": second,
        "by": None if second is None else times[second] / times[first],
    }


def apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two results differ by more than their noise."""
    band = stats.noise_band(spread_of(a), spread_of(b))
    return stats.differ(a["p50_ns"], b["p50_ns"], band)


def spread_of(result: Mapping[str, Any]) -> float | None:
    """The spread over runs; over blocks when there was one run."""
    spread = result["spread"] if result["spread"] is not None else result["block_spread"]
    return None if spread is None else float(spread)


def closing_notes(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> list[str]:
    """One sentence for every row in which a Rust stack is ahead of the C core."""
    notes = []
    for row in rows:
        core = row["results"].get("core", {})
        if not row["comparable"] or "p50_ns" not in core:
            continue
        for arm, result in row["results"].items():
            if not _is_rust(arm) or "p50_ns" not in result:
                continue
            if result["p50_ns"] < core["p50_ns"] and apart(core, result):
                times = core["p50_ns"] / result["p50_ns"]
                notes.append(
                    f"{row['id']}: {titles[arm]} is {times:.2f} times as fast as the C core: "
                    f"{_reason(row['id'], arm)}."
                )
    return notes


def _is_rust(arm: str) -> bool:
    return arm.removesuffix("-native") in targets.RUST_ARMS


def _reason(row: str, arm: str) -> str:
    for rows, arms, reason in REASONS:
        if fnmatch.fnmatchcase(row, rows) and fnmatch.fnmatchcase(arm, arms):
            return reason
    return "no reason is known"
