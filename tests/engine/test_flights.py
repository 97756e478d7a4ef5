"""A failed test shows what its engines decided last."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FAILING = """
from engine.wires import pair

def test_that_fails() -> None:
    net, a, b, wire = pair()
    net.listen(b)
    b.input(wire.at(b), b"junk")
    assert net is None
"""


def test_the_flight_recorders_are_below_a_failed_test(tmp_path: Path) -> None:
    """Those of both, with the reason for the one drop."""
    tests = Path(__file__).resolve().parents[1]
    (tmp_path / "conftest.py").write_text((tests / "conftest.py").read_text())
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("last of <Engine ") == 2
    assert "input MALFORMED" in done.stdout
    assert "event ANNOUNCE" in done.stdout
