"""What the leak programs share: whether an operation makes the process grow.

Each operation, the failing ones too, runs until its memory is warm, then many times more.
Neither the objects of the interpreter nor the memory of the process may grow.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from netmesh.errors import NetmeshError

WARM, MANY, ROUNDS = 200, 2000, 3
# A leak of one object or of 100 bytes per run is above these.
BLOCKS_MAX, KILOBYTES_MAX = MANY // 3, MANY * 100 // 1024


def fail(run: Callable[[], Any]) -> Callable[[], None]:
    """An operation that raises."""

    def wrapped() -> None:
        with suppress(NetmeshError, ValueError, TypeError, ArithmeticError, LookupError, OSError):
            run()
            raise AssertionError("it did not raise")

    return wrapped


def resident_kb() -> int:
    """Memory of this process; 0 where the system does not tell it so."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def grown(run: Callable[[], Any]) -> tuple[int, int]:
    """By how many blocks and kilobytes the process grows in many runs."""
    blocks, memory = sys.getallocatedblocks(), resident_kb()
    for _ in range(MANY):
        run()
    gc.collect()
    return sys.getallocatedblocks() - blocks, resident_kb() - memory


def leak(run: Callable[[], Any]) -> tuple[int, int] | None:
    """What one round costs if every round costs too much: a cache is warm after two."""
    for _ in range(WARM):
        run()
    gc.collect()
    for _ in range(ROUNDS):
        blocks, kilobytes = grown(run)
        if blocks <= BLOCKS_MAX and kilobytes <= KILOBYTES_MAX:
            return None
    return blocks, kilobytes


KEPT: list[Any] = []
LEAKS: dict[str, Callable[[], Any]] = {
    "object": lambda: KEPT.append(object()),
    "memory": lambda: KEPT.append(bytes(10_000)),
}


def main(operations: dict[str, Callable[[], Any]]) -> int:
    """Runs all operations, or with --leak NAME one that leaks. Prints what leaks; 1 if any."""
    if sys.argv[1:2] == ["--leak"]:
        operations = {sys.argv[2]: LEAKS[sys.argv[2]]}
    found = {name: leak(run) for name, run in operations.items()}
    leaks = {name: cost for name, cost in found.items() if cost is not None}
    for name, (blocks, kilobytes) in leaks.items():
        print(f"{name}: {blocks} blocks and {kilobytes} kB more after {MANY} runs")
    return 1 if leaks else 0
