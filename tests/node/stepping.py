"""Cancelling an awaitable at each point where it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from node.nodes import soon


class _CancelAt:
    """Runs an awaitable and cancels its task where it waits for the nth time."""

    def __init__(self, work: Awaitable[Any], at: int) -> None:
        self._work = work
        self._at = at
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._work.__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                awaited = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            self.waits += 1
            if self.waits == self._at:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            value, error = None, None
            try:
                value = yield awaited
            except BaseException as thrown:
                error = thrown


async def _run(work: _CancelAt) -> Any:
    return await work


async def cancel_everywhere(
    start: Callable[[], Awaitable[Any]], settled: Callable[[], Awaitable[Any]]
) -> int:
    """Starts it again and again, each time cancelled one wait later, until it gets through.

    ``settled`` runs after each cancellation and checks that nothing is left behind. The number of
    points at which it was cancelled.
    """
    for at in range(1, 100):
        work = _CancelAt(start(), at)
        task = asyncio.ensure_future(_run(work))
        await asyncio.wait([task], timeout=100)
        assert task.done(), f"it waits on after it was cancelled at its wait {at}"
        if not task.cancelled():
            if work.waits >= at:
                raise AssertionError(
                    f"the cancellation at wait {at} was swallowed"
                ) from task.exception()
            task.result()
            await soon(settled())
            return at - 1
        await soon(settled())
    raise AssertionError("it never got through")
