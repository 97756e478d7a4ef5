"""The report as a short table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netmesh.bench import units
from netmesh.bench.markdown import SHORT, leads
from netmesh.bench.targets import fastest_rust

_HEAD = ("row", "C core", "netmesh", "pure", "rns OpenSSL", "rns internal", "best Rust", "leads")
_ARMS = ("core", "netmesh", "pure", "rns-openssl", "rns-internal")


def render(report: Mapping[str, Any]) -> str:
    """A line for each row, then what is missing and what failed."""
    lines = [_HEAD]
    for row in report["rows"]:
        rust = fastest_rust(row)
        cells = [_cell(row, arm) for arm in _ARMS]
        best = f"{_cell(row, rust)} ({SHORT[rust]})" if rust else "-"
        lines.append((row["id"], *cells, best, leads(row)))
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    text = [_line(line, widths) for line in lines]
    for arm in report["arms"]:
        if not arm["available"] and not arm["id"].endswith("-native") and arm["again"] is None:
            text.append(f"{arm['title']}: {arm['reason']}")
    text += failures(report)
    return "\n".join(text)


def failures(report: Mapping[str, Any]) -> list[str]:
    """A sentence for each figure that could not be measured."""
    return [
        f"FAILED {row['id']}, {SHORT.get(arm, arm)}: {result['error']}"
        for row in report["rows"]
        for arm, result in row["results"].items()
        if "error" in result
    ]


def _cell(row: Mapping[str, Any], arm: str) -> str:
    result = row["results"].get(arm)
    if result is None:
        return "-"
    return "failed" if "error" in result else units.duration(result["p50_ns"])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *middle, last = cells
    numbers = [cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True)]
    return "  ".join([first.ljust(widths[0]), *numbers, last])
