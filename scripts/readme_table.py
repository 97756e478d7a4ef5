"""Fills the marked region of README.md from docs/reports/latest.json.

``--check`` writes nothing and fails when the region is not what the report says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
REPORT = ROOT / "docs" / "reports" / "latest.json"
BEGIN = "<!-- report: begin -->\n"
END = "<!-- report: end -->\n"

ROWS = (
    ("packet.pack", "pack a packet, 128 bytes"),
    ("packet.unpack+hash", "parse it and hash it"),
    ("announce.create", "make and sign an announce"),
    ("announce.validate.cold", "validate one, never seen before"),
    ("announce.validate.repeat", "the same bytes again, from another neighbour"),
    ("identity.sign", "sign"),
    ("identity.verify", "verify"),
    ("identity.encrypt", "encrypt to an identity"),
    ("identity.decrypt", "decrypt"),
    ("token.encrypt.464", "seal 464 bytes"),
    ("lxmf.decode.view.21", "parse a message"),
    ("lxmf.decode.verify.21", "parse and verify a message"),
    ("lxmf.encode.sign.21", "write and sign a message"),
    ("resource.build.16k", "prepare a transfer of 16 KiB"),
    ("stamp.search", "one try of a stamp search"),
    ("link.setup", "open a link between two processes, over TCP"),
    ("request.32", "call the other end of it"),
    ("packet.proof", "a packet and its proof"),
    ("deliver.direct.warm", "deliver a message over a link"),
    ("deliver.opportunistic", "deliver one in a packet"),
    ("resource.16k", "send 16 KiB"),
    ("resource.1m", "send 1 MiB"),
)
COLUMNS = (
    ("core", "C core"),
    ("netmesh", "netmesh from Python"),
    ("pure", "pure reference"),
    ("rns-openssl", "rns, lxmf"),
)
UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def duration(ns: float) -> str:
    """Nanoseconds in a fitting unit, three digits."""
    for size, unit in UNITS:
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.2g} ns"


def median(row: dict[str, Any], arm: str) -> float | None:
    """What an arm took in a row, in nanoseconds, or None when it was not measured."""
    found: float | None = row["results"].get(arm, {}).get("p50_ns")
    return found


def fastest_rust(row: dict[str, Any], arms: list[dict[str, Any]]) -> str:
    """The fastest Rust stack of a row, by name."""
    times = {
        arm["title"]: time
        for arm in arms
        if arm["kind"] == "rust" and (time := median(row, arm["id"])) is not None
    }
    if not times:
        return "-"
    name = min(times, key=lambda title: times[title])
    return f"{duration(times[name])} ({name})"


def plural(number: int, word: str) -> str:
    """A number and its word."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def cell(time: float | None) -> str:
    """A time, or a dash."""
    return "-" if time is None else duration(time)


def table(report: dict[str, Any]) -> str:
    """The table of the chosen rows and what must be said with it."""
    rows = {row["id"]: row for row in report["rows"]}
    lines = [
        "| operation | " + " | ".join(title for _, title in COLUMNS) + " | fastest Rust stack |",
        "|---|" + "---:|" * len(COLUMNS) + "---|",
    ]
    for identifier, title in ROWS:
        row = rows[identifier]
        cells = [cell(median(row, arm)) for arm, _ in COLUMNS]
        lines.append(f"| {title} | {' | '.join(cells)} | {fastest_rust(row, report['arms'])} |")
    machine = report["environment"]
    lines.append(
        f"\nMedians for one call. {machine['cpu']}, {machine['system']}, "
        f"{machine['python']}, {report['created'][:10]}; {plural(report['mode']['runs'], 'run')}. "
        f"A dash: not measured, or the stack has no such operation."
    )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the region, or compares it."""
    text = README.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = f"{before}{BEGIN}{table(json.loads(REPORT.read_text()))}{END}{after}"
    if "--check" in arguments:
        if made != text:
            print("README.md does not show docs/reports/latest.json; run scripts/readme_table.py")
            return 1
        return 0
    README.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
