"""What changed between two reports, with noise bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netmesh.bench import stats, units
from netmesh.bench.markdown import SHORT
from netmesh.bench.report import FORMAT, VERSION, spread_of

Json = Mapping[str, Any]


class ReportError(ValueError):
    """A file is no report that this version can read."""


def check_format(report: object, name: str) -> Json:
    """The report itself; ReportError unless it has the format and version of this module."""
    if not isinstance(report, Mapping) or report.get("format") != FORMAT:
        raise ReportError(f"{name} is no netmesh report")
    if report.get("version") != VERSION:
        raise ReportError(f"{name} has version {report.get('version')}, not {VERSION}")
    return report


def differences(old: Json, new: Json) -> list[dict[str, Any]]:
    """Every figure that both reports have.

    ``row``, ``arm``, ``old_ns``, ``new_ns``, ``change`` (share, above 0 for slower), ``band``
    (share) and ``verdict``: faster, slower or same.
    """
    before = {row["id"]: row["results"] for row in old["rows"]}
    found = []
    for row in new["rows"]:
        for arm, result in row["results"].items():
            past = before.get(row["id"], {}).get(arm)
            if past is None or "p50_ns" not in past or "p50_ns" not in result:
                continue
            band = stats.noise_band(spread_of(past), spread_of(result))
            verdict = "same"
            if stats.differ(past["p50_ns"], result["p50_ns"], band):
                verdict = "slower" if result["p50_ns"] > past["p50_ns"] else "faster"
            found.append(
                {
                    "row": row["id"],
                    "arm": arm,
                    "old_ns": past["p50_ns"],
                    "new_ns": result["p50_ns"],
                    "change": result["p50_ns"] / past["p50_ns"] - 1,
                    "band": band,
                    "verdict": verdict,
                }
            )
    return found


def render(old: Json, new: Json) -> str:
    """The differences as text: those beyond the noise first, then a count of the others."""
    found = differences(old, new)
    if not found:
        return "The two reports have no figure in common."
    lines = []
    if old["environment"]["cpu"] != new["environment"]["cpu"]:
        lines.append(
            "The reports come from different processors: "
            f"{old['environment']['cpu']} and {new['environment']['cpu']}."
        )
    changed = [item for item in found if item["verdict"] != "same"]
    changed.sort(key=lambda item: -abs(item["change"]))
    for item in changed:
        arm = SHORT.get(item["arm"], item["arm"])
        lines.append(
            f"{item['verdict']:<7} {item['row']:<34} {arm:<18} "
            f"{units.duration(item['old_ns']):>9} -> {units.duration(item['new_ns']):>9}  "
            f"{100 * item['change']:+.1f} % (noise ±{100 * item['band']:.1f} %)"
        )
    lines.append(
        f"{len(changed)} of {len(found)} figures differ by more than the noise, "
        f"{len(found) - len(changed)} do not."
    )
    return "\n".join(lines)
