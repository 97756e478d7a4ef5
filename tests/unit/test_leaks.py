"""No class of the extension leaks, nor any of its errors, nor a failing allocation.

Nor does hostile input take more memory than it may, nor do threads, collections or a fork
break anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="a sanitizer keeps freed memory, which looks like a leak",
)

FOLDER = Path(__file__).parents[1] / "isolated"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with the interpreter's plain allocator settings."""
    return subprocess.run(
        [sys.executable, str(FOLDER / program), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


@pytest.mark.parametrize("program", ["leaks_packets.py", "leaks_transfer.py", "leaks_mail.py"])
def test_no_operation_leaks(program: str) -> None:
    done = run(program)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["object", "memory"])
def test_a_leak_would_be_found(kind: str) -> None:
    done = run("leaks_packets.py", "--leak", kind)
    assert done.returncode == 1
    assert kind in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="counts from a fork on")
@pytest.mark.parametrize("kind", ["core", "pure"])
def test_hostile_input_takes_bounded_memory_at_its_peak(kind: str) -> None:
    """Bombs, depth, counts and lengths that are lies, frames without end."""
    done = run("peaks.py", kind)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="counts from a fork on")
def test_a_peak_too_high_would_be_found() -> None:
    done = run("peaks.py", "core", "--hungry")
    assert done.returncode == 1
    assert "hungry: ended with 0" in done.stdout
    assert "lenient: ended with 1" in done.stdout


def test_eight_threads_and_a_restless_collector_break_no_class() -> None:
    done = run("hammer.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_breaks_under_threads_would_be_found() -> None:
    done = run("hammer.py", "--broken")
    assert done.returncode == 1
    assert "broken: AssertionError" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_while_a_node_runs_is_told_to_the_child_and_harms_nobody() -> None:
    done = run("forked.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_failing_allocation_is_survived() -> None:
    done = run("nomemory.py")
    if done.returncode == 77:
        pytest.skip("this Python comes without its own test module")
    assert done.returncode == 0, done.stdout + done.stderr
