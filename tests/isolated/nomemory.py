"""Lets each allocation of each operation fail in turn; a program of its own.

An operation may then raise MemoryError or come to its usual end; the process must live
and the next run must work. Needs CPython's own test module; ends with 77 without it.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Callable
from typing import Any

import leaks_mail
import leaks_packets
import leaks_transfer

try:
    import _testcapi
except ImportError:
    sys.exit(77)

# Files and searches allocate outside of what can be failed one by one. CPython itself
# crashes when it has no memory for a function, as these operations make one.
LEFT_OUT = {"load", "load fails", "search", "cycle", "seal function", "seal fails"}
LEFT_OUT |= {"seal returns text", "collision", "open fails", "open is wrong"}
FAILURES_MAX = 60


def survive(run: Callable[[], Any]) -> int:
    """Fails the first, second, ... allocation of an operation; how many failures there were."""
    failures = 0
    for number in range(FAILURES_MAX):
        error: BaseException | None = None
        try:
            _testcapi.set_nomemory(number, number + 1)
            run()
        except Exception as caught:
            error = caught
        finally:
            _testcapi.remove_mem_hooks()
        failures += error is not None
        # AssertionError: the operation expects an error and got MemoryError, or none, for
        # suppress() swallows it. PicklingError: an import failed. SystemError: CPython has
        # no memory for a traceback; it says so with any function, its own included.
        expected = (MemoryError, AssertionError, pickle.PicklingError)
        if not (error is None or isinstance(error, expected) or "exception" in str(error)):
            raise error
    return failures


def main() -> int:
    """Runs all operations; 1 when none of them ever noticed a failure."""
    failures = 0
    for operations in (
        leaks_packets.OPERATIONS,
        leaks_transfer.OPERATIONS,
        leaks_mail.OPERATIONS,
    ):
        for name, run in operations.items():
            if name not in LEFT_OUT:
                run()
                failures += survive(run)
                run()
    gc.collect()
    print(f"{failures} failures survived")
    return 0 if failures > 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
