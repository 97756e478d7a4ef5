"""What an idle node costs: memory above a process that has imported asyncio, and CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "isolated" / "idle.py"
KILOBYTES_MOST = 8 * 1024
# 0.1 % of a processor.
MICROSECONDS_MOST = 1000

pytestmark = [
    pytest.mark.skipif(
        "san.so" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer has memory of its own"
    ),
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell"),
]


def measured(cache: Path) -> tuple[int, int]:
    """Kilobytes, and microseconds in a second, as the program prints them."""
    environment = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kilobytes, microseconds = done.stdout.split()
    return int(kilobytes), int(microseconds)


def test_an_idle_node_takes_little(tmp_path: Path) -> None:
    """Measured with compiled modules, as they are installed: the first run compiles them."""
    measured(tmp_path)
    kilobytes, microseconds = measured(tmp_path)
    assert kilobytes <= KILOBYTES_MOST
    assert microseconds <= MICROSECONDS_MOST
