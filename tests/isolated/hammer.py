"""Eight threads at every class at once, and a collector that never rests; a program of its own.

Each operation of the leak programs runs in all threads side by side, over the objects that
these programs share, with the interpreter changing threads as often as it can; then once
more with a collection at every allocation. Prints what raised; ends with 1 if anything did.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import leaks_packets
import leaks_transfer

THREADS, ROUNDS = 8, 20


def hammer(name: str, run: Callable[[], Any]) -> list[str]:
    """What went wrong when all threads did the same."""
    wrong: list[str] = []
    start = threading.Barrier(THREADS)

    def work() -> None:
        start.wait()
        try:
            for _ in range(ROUNDS):
                run()
        except BaseException as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def collect(name: str, run: Callable[[], Any]) -> list[str]:
    """What went wrong with a collection at every allocation."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(2):
            run()
    except BaseException as error:
        return [f"{name}, collecting: {type(error).__name__}: {error}"]
    finally:
        gc.set_threshold(*before)
    return []


def broken() -> None:
    """An operation that fails in one of many runs."""
    broken.runs += 1  # type: ignore[attr-defined]
    assert broken.runs != 50  # type: ignore[attr-defined]


broken.runs = 0  # type: ignore[attr-defined]


def main() -> int:
    """All operations, or with --broken one that fails; 1 when one of them raises."""
    operations = {**leaks_packets.OPERATIONS, **leaks_transfer.OPERATIONS}
    if "--broken" in sys.argv:
        operations = {"broken": broken}
    sys.setswitchinterval(1e-6)
    wrong = [line for name, run in operations.items() for line in hammer(name, run)]
    wrong += [line for name, run in operations.items() for line in collect(name, run)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
