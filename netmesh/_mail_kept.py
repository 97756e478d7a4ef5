"""Messages that are in the node's storage, read in the order in which they came."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from netmesh._core import RawMail
from netmesh._inbox import Inbox
from netmesh._mail_received import MessageReceived, received_of, stored_of
from netmesh.constants import Unverified
from netmesh.errors import StateError

if TYPE_CHECKING:
    from netmesh._mailbox import Mailbox
    from netmesh.mailstore import StoredMessage

__all__ = ["Kept"]

# Messages in memory; what comes while so many wait is read from the store later.
WAITING_MAX: Final = 256
PIECE: Final = 32


@final
class Kept(Inbox[MessageReceived]):
    """Those that nobody has acknowledged; who asks for the next acknowledges the one before.

    Not so ``by_hand``: then :meth:`Mailbox.ack` alone does it, and several may be in work.
    """

    __slots__ = ("_behind", "_box", "_filling", "_last", "_read", "by_hand")

    def __init__(self, box: Mailbox) -> None:
        super().__init__(WAITING_MAX * 2, lambda paused: None)
        self._box = box
        self.by_hand = False
        self._behind = True
        """Whether the store may have more than was read."""
        self._filling = asyncio.Lock()
        self._read = 0
        """The newest row that was read, or is being looked at."""
        self._last: int | None = None
        """The row that was given out last."""

    def get_nowait(self) -> MessageReceived | None:
        """The next message if it is in memory."""
        self._acknowledge()
        return self._take() if self._items else None

    async def get(self, *, timeout: float | None = None) -> MessageReceived:
        """The next message. Raises TimeoutError, StateError when it is closed."""
        async with asyncio.timeout(timeout):
            return await self._next()

    async def _next(self) -> MessageReceived:
        self._acknowledge()
        while not self._items:
            if self._closed:
                raise StateError("it is closed")
            if self._behind:
                await self._fill()
            else:
                await self._wait()
        return self._take()

    def _take(self) -> MessageReceived:
        message = super()._take()
        self._last = None if self.by_hand else message.row
        return message

    def _acknowledge(self) -> None:
        if self._last is not None and not self._box._node.closed:
            self._box._node._driver.post("mail_ack", cursor=self._last, destination=self._box.hash)
        self._last = None

    def offer(self, raw: RawMail) -> None:
        """One has come, or several when it has no message."""
        if raw.row <= self._read:
            return
        if (
            self._behind
            or self._filling.locked()
            or raw.message is None
            or len(self._items) + self._box._looked_at >= WAITING_MAX
        ):
            self._behind = True
            self._wake()
            if raw.message is not None:
                told = received_of(raw, self._box, raw.source, Unverified(raw.unverified))
                self._box._node._tell(told)
            return
        self._read = raw.row
        unverified = Unverified(raw.unverified)
        self._box._look_at(received_of(raw, self._box, raw.source, unverified), None)

    async def _fill(self) -> None:
        """Reads some more from the store."""
        async with self._filling:
            if self._items or not self._behind:
                return
            self._behind = False
            try:
                found = await asyncio.to_thread(self._load)
            except BaseException:
                self._behind = True
                raise
            self._behind = self._behind or len(found) == PIECE
            for stored in found:
                self._read = max(self._read, stored.row)
                identity, _ = await self._box._node._recall_source(stored.peer)
                received = stored_of(stored, self._box, identity)
                if identity is not None and stored.unverified == Unverified.SOURCE_UNKNOWN:
                    received = received._by(identity)
                self._box._look_at(received, None)

    def _load(self) -> list[StoredMessage]:
        store = self._box._open_store()
        rows = store.messages(mailbox=self._box.hash, unread=True, cursor=self._read, limit=PIECE)
        return list(rows)
