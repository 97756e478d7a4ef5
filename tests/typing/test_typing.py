"""The types that a program sees are the documented ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed (scripts/bootstrap dev)")

EXAMPLES = Path(__file__).with_name("examples.py")
SWAPPED = Path(__file__).with_name("swapped.py")


def check(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(program)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_examples_have_the_documented_types(tmp_path: Path) -> None:
    done = check(EXAMPLES, tmp_path)
    assert done.returncode == 0, done.stdout


def test_swapped_kinds_of_hashes_are_refused(tmp_path: Path) -> None:
    """F7: where a program asks for one kind, the other and bare bytes are errors."""
    lines = SWAPPED.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    done = check(SWAPPED, tmp_path)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert found == marked
    assert len(marked) == 4
