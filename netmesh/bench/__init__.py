"""The comparison report: netmesh, its pure reference, and the other stacks, measured in one go.

``netmesh bench`` and ``python -m netmesh.bench`` run it; docs/how-to/compare.md explains it and
docs/reference/report.md describes the JSON that it writes.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Runs ``netmesh bench`` with these arguments; returns the exit status."""
    from netmesh.bench.cli import main as run

    return run(arguments)
