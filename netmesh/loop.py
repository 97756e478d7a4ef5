"""Loops: threads that host nodes without holding Python's lock.

A process has one by default, made with the first node and gone with the last. A program with
thousands of peers may make more and say which node runs on which.

Example:
    >>> from netmesh.loop import Loop
    >>> with Loop(workers=1) as loop:
    ...     loop.stats().nodes
    0
"""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import Self, final

from netmesh import _core

__all__ = ["Loop", "LoopStats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStats:
    """What a loop did since it was started."""

    turns: int
    """Times it woke up."""
    posts: int
    """Calls that other threads posted."""
    jobs_inline: int
    """Pieces of work that it did by itself."""
    jobs_pooled: int
    """Pieces of work that its workers did."""
    jobs_stored: int
    """Files that were made durable, or failed to be."""
    nodes: int
    """Nodes that it hosts now."""
    workers: int
    """Threads that were started beside the loop's own."""


@final
class Loop:
    """One thread with an event loop in C, and its workers. May be used from any thread.

    ``workers`` is how many threads compute (0: one less than there are cores, at least one);
    they start when the first work needs one. ``jobs_max`` pieces of work wait for them at most
    (0: 1024), ``inline_budget_us`` microseconds of work per turn are done by the loop itself
    (0: 250).

    Raises NetmeshError ("LIBRARY") when the system gives no thread or descriptor.
    """

    __slots__ = ("__weakref__", "_core", "_process")

    def __init__(self, *, workers: int = 0, jobs_max: int = 0, inline_budget_us: int = 0) -> None:
        self._core = _core.LoopCore(
            {"workers": workers, "jobs_max": jobs_max, "inline_budget_us": inline_budget_us}
        )
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Loop{' closed' if self._core.stopped else ''}>"

    def close(self) -> None:
        """Closes the nodes that are left and waits for the thread. Quiet when repeated.

        Raises StateError in a forked process.
        """
        self._core.stop()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._core.stopped

    def stats(self) -> LoopStats:
        """Its counters. Raises StateError once it is closed."""
        return LoopStats(**self._core.stats())


_lock = threading.Lock()
_default: weakref.ref[Loop] | None = None


def default_loop() -> Loop:
    """The process's own loop, started if there is none; gone when nobody holds it."""
    global _default
    with _lock:
        loop = None if _default is None else _default()
        if loop is None or loop.closed or loop._process != os.getpid():
            loop = Loop()
            _default = weakref.ref(loop)
        return loop
