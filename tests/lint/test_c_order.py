"""In some rooms of the C sources a file calls only files that stand before it in a list.

The list is in the head of the room's internal header. It keeps state machines apart: what
stands later uses what stands earlier, and never the other way round.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DEFINITION = re.compile(r"^(?!static\b)[a-z][\w \*\n]*?\b(nm_\w+)\([^;{}]*?\)\s*\{", re.MULTILINE)
CALLED_BACK = {("stack", "buffer_out", "nm_stream_packed")}
"""A job's end: its function is named where the job is made, and runs later."""


def listed(header: str) -> list[str]:
    """The files in the order of the list."""
    listing = header.split("stand before it here:")[1].split("*/")[0]
    rows = [row for row in listing.splitlines() if row.startswith(" *   ")]
    return re.findall(r"[a-z_0-9]+", " ".join(rows))


def calls_upwards(sources: dict[str, str], order: list[str]) -> set[tuple[str, str]]:
    """The functions that a file names although they stand in a later one."""
    texts = {file: COMMENT.sub("", text) for file, text in sources.items()}
    home = {name: file for file, text in texts.items() for name in DEFINITION.findall(text)}
    return {
        (file, name)
        for file, text in texts.items()
        for name in set(re.findall(r"\bnm_\w+", text)) & set(home)
        if order.index(home[name]) > order.index(file)
    }


@pytest.mark.parametrize("room", ["stack", "sim", "lxmf", "io"])
def test_files_call_what_stands_before_them(room: str) -> None:
    folder = ROOT / "csrc" / room
    order = listed((folder / "internal.h").read_text())
    sources = {path.stem: path.read_text() for path in folder.glob("*.c")}
    assert sorted(order) == sorted(sources), "each file of the room is in the list, once"
    found = {(room, *call) for call in calls_upwards(sources, order)}
    assert found == {call for call in CALLED_BACK if call[0] == room}


def test_a_call_upwards_is_found() -> None:
    sources = {
        "low": "int nm_low(void) {\n  return nm_high(1);\n}\n/* nm_high */\n",
        "high": "nm_thing *nm_high(int a,\n                  int b) {\n  return nm_low();\n}\n",
    }
    assert calls_upwards(sources, ["low", "high"]) == {("low", "nm_high")}
    assert calls_upwards(sources, ["high", "low"]) == {("high", "nm_low")}
