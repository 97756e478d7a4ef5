"""What the node for scripts is made of: an event loop in a thread, and queues to read."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, final

from netmesh._inbox import Source
from netmesh._streams import Stream
from netmesh.errors import StateError

__all__ = ["Background", "Reader"]

T = TypeVar("T")


class Background:
    """An event loop in a thread, for as long as somebody uses it."""

    _lock = threading.Lock()
    _current: Background | None = None

    def __init__(self) -> None:
        self.users = 0
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="netmesh.sync", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    @classmethod
    def take(cls) -> Background:
        """The process's one, with one user more."""
        with cls._lock:
            found = cls._current
            if found is None or found.process != os.getpid():
                found = cls._current = Background()
            found.users += 1
            return found

    def give(self) -> None:
        """One user less; the last one ends it."""
        with self._lock:
            self.users -= 1
            last = self.users == 0
            if last and Background._current is self:
                Background._current = None
        if last and self.process == os.getpid():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for a coroutine on the loop.

        Raises StateError in a process that was forked from the loop's, which has no thread
        to run it, and in the loop's own thread.
        """
        if self.process != os.getpid():
            work.close()
            raise StateError("it belongs to the process that this one was forked from")
        if threading.current_thread() is self.thread:
            work.close()
            raise StateError("a blocking call from the event loop's own thread")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # quiet when it has ended; else Ctrl-C ends the work too
            raise

    def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Calls a plain function on the loop."""

        async def work() -> T:
            return function(*arguments, **named)

        return self.run(work())


@final
class Reader(Generic[T]):
    """A queue that is read with ``for`` or :meth:`get`."""

    __slots__ = ("_background", "_source")

    def __init__(self, background: Background, source: Source[T]) -> None:
        self._background = background
        self._source = source

    def __iter__(self) -> Iterator[T]:
        while True:
            try:
                yield self.get()
            except StateError:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._source)

    def get(self, *, timeout: float | None = None) -> T:
        """The next item. Raises TimeoutError, StateError when it is closed and empty."""
        return self._background.run(self._source.get(timeout=timeout))

    def get_nowait(self) -> T | None:
        """The next item if there is one."""
        return self._background.call(self._source.get_nowait)

    @property
    def closed(self) -> bool:
        """Whether no more items will come; those that wait can still be taken."""
        return self._source.closed

    @property
    def lost(self) -> int:
        """How many items were lost because nobody took them in time."""
        return self._source.lost

    def close(self) -> None:
        """Ends a stream of events or announces; quiet for what is not one."""
        if isinstance(self._source, Stream):
            self._background.call(self._source.close)
