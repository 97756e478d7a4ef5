"""Queues between a node and the program that reads it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Self, TypeVar

from netmesh.errors import StateError

__all__ = ["Claim", "Inbox", "Source"]

T = TypeVar("T")

# An empty deque takes 760 bytes, a link has four, and most links are idle: they share this
# one, which stays empty, until something is put in.
_EMPTY: Final[deque[Any]] = deque(maxlen=0)


class Claim:
    """The credit of one reliable event: given back once nobody holds it any more."""

    __slots__ = ("_free", "_holders")

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free
        self._holders = 1

    def hold(self) -> None:
        """One holder more."""
        self._holders += 1

    def drop(self) -> None:
        """One holder less."""
        self._holders -= 1
        if self._holders == 0:
            self._free()


class Source(Generic[T]):
    """Something that is read with ``async for``, or one by one with :meth:`get`.

    Used by tasks of the event loop that the node runs on. Several tasks may read: each item
    goes to one of them.
    """

    __slots__ = ("_closed", "_items", "_waiters", "lost")

    lost: int
    """How many items were lost because nobody took them in time."""

    def __init__(self) -> None:
        self._items: deque[tuple[T, Claim | None]] = _EMPTY
        self._waiters: deque[asyncio.Future[None]] = _EMPTY
        self._closed = False
        self.lost = 0

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._items)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self._next()
        except StateError:
            raise StopAsyncIteration from None

    async def get(self, *, timeout: float | None = None) -> T:
        """The next item.

        Raises TimeoutError after ``timeout`` seconds, StateError when it is closed and
        nothing is left.
        """
        if self._items:
            return self._take()
        async with asyncio.timeout(timeout):
            return await self._next()

    def get_nowait(self) -> T | None:
        """The next item if there is one."""
        return self._take() if self._items else None

    @property
    def closed(self) -> bool:
        """Whether no more items will come; those that wait can still be taken."""
        return self._closed

    async def _next(self) -> T:
        while not self._items:
            if self._closed:
                raise StateError("it is closed and nothing is left to read")
            await self._wait()
        return self._take()

    async def _wait(self) -> None:
        """Waits to be woken."""
        waiter = asyncio.get_running_loop().create_future()
        if self._waiters is _EMPTY:
            self._waiters = deque()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # woken and cancelled: the item is for another reader
                self._wake()
            elif waiter in self._waiters:  # else an item came meanwhile and passed it over
                self._waiters.remove(waiter)
            raise

    def _take(self) -> T:
        item, claim = self._items.popleft()
        if claim is not None:
            claim.drop()
        self._taken()
        return item

    def _taken(self) -> None:
        """An item was taken."""

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _put(self, item: T, claim: Claim | None = None) -> None:
        if self._items is _EMPTY:
            self._items = deque()
        self._items.append((item, claim))
        self._wake()

    def _close(self) -> None:
        self._closed = True
        while self._waiters:
            self._wake()

    def _discard(self) -> None:
        """Gives back what nobody will read."""
        while self._items:
            _, claim = self._items.popleft()
            if claim is not None:
                claim.drop()


class Inbox(Source[T]):
    """A queue that asks its peers to pause when it is long, and to go on when it is short.

    While it is paused, what arrives is refused: not delivered, not proven, not lost.
    """

    __slots__ = ("_full", "_limit", "_pause")

    def __init__(self, limit: int, pause: Callable[[bool], None]) -> None:
        super().__init__()
        self._limit = limit
        self._pause = pause
        self._full = False

    @property
    def paused(self) -> bool:
        """Whether it is so long that nothing more is taken in."""
        return self._full

    def _put(self, item: T, claim: Claim | None = None) -> None:
        super()._put(item, claim)
        if not self._full and len(self._items) >= self._limit:
            self._full = True
            self._pause(True)

    def _taken(self) -> None:
        if self._full and len(self._items) <= self._limit // 2:
            self._full = False
            self._pause(False)
