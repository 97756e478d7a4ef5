"""The mail of one node: what leaves it, and which mailbox hears of what."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, final

from netmesh._core import DestinationHash, Identity, Message
from netmesh._driver import Call
from netmesh._mail_delivery import OutgoingMessage
from netmesh._mail_policy import Policy, encoded
from netmesh.constants import Field
from netmesh.errors import StateError
from netmesh.transfers import microseconds

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh._mailbox import Mailbox
    from netmesh.mailstore import MailStore
    from netmesh.node import Node

__all__ = ["MailDesk", "StampCost", "Ticket"]

# Messages that have ended and can still be asked for by their id.
ENDED_KEPT: Final = 1024
MAIL_FILE: Final = "mail.db"
STAMP_COST_MAX: Final = 254

StampCost = int | Literal["announced"] | None
"""What a message's stamp is to be worth: bits, what its recipient asks for, or None at all."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What lets somebody write to us without work: put into a message, a secret between two."""

    peer: DestinationHash
    """Who it is for."""
    expires_unix_s: float
    """Until when it is good."""
    secret: bytes = field(repr=False)
    """16 bytes."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message before it is packed."""

    destination: DestinationHash
    content: str | Buffer
    title: str | Buffer
    fields: Mapping[Any, Any] | None
    timestamp: float | None = None
    stamp: Buffer | None = None
    ticket: Buffer | None = None
    gives: Ticket | None = None

    def packed(self, identity: Identity) -> Message:
        """Packs and signs it."""
        fields = self.fields
        if self.gives is not None:
            if self.gives.peer != self.destination:
                raise ValueError("the ticket is for somebody else")
            given = [self.gives.expires_unix_s, self.gives.secret]
            fields = {**(fields or {}), int(Field.TICKET): given}
        return Message.create(
            identity,
            self.destination,
            self.content,
            title=self.title,
            fields=fields,
            timestamp=self.timestamp,
            stamp=self.stamp,
            ticket=self.ticket,
        )


def _stamping(cost: StampCost) -> tuple[int, bool]:
    if cost is None or cost == "announced":
        return 0, cost is not None
    if not 0 <= cost <= STAMP_COST_MAX:
        raise ValueError(f"stamp_cost must be from 0 to {STAMP_COST_MAX}, not {cost!r}")
    return cost, False


class MailDesk:
    """Sends for all mailboxes of a node, and for those who have none."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._outgoing: OrderedDict[bytes, OutgoingMessage] = OrderedDict()
        self._ended: OrderedDict[bytes, None] = OrderedDict()
        self._store: MailStore | None = None
        self._opening = threading.Lock()
        self.boxes: dict[DestinationHash, Mailbox] = {}
        self.propagation_node: DestinationHash | None = None

    # ------------------------------------------------------------------- sending

    def send(
        self,
        identity: Identity,
        draft: Draft,
        *,
        policy: Policy,
        stamp_cost: StampCost,
        timeout: float | None,
    ) -> OutgoingMessage:
        """Packs a message and sends it on its way."""
        return self.send_packed(
            draft.packed(identity),
            policy=policy,
            stamp_cost=stamp_cost,
            timeout=timeout,
            carries_ticket=draft.gives is not None,
        )

    def send_packed(
        self,
        message: Message,
        *,
        policy: Policy,
        stamp_cost: StampCost,
        timeout: float | None,
        carries_ticket: bool = False,
    ) -> OutgoingMessage:
        """Sends a signed message on its way."""
        cost, auto = _stamping(stamp_cost)
        try:
            here = asyncio.get_running_loop() is self._node._driver.loop
        except RuntimeError:
            here = False
        if not here:
            raise StateError("messages are sent on the event loop that the node runs on")
        sender = message.source_hash
        box = self.boxes.get(sender)
        outgoing = OutgoingMessage(self, message, policy.steps[0].method)
        # With a store the reply says that it is durable, which somebody may wait for.
        outgoing._call = self._node._driver.start(
            "mail_send",
            operation=True,
            quiet=box is None or not box.kept,
            on_reply=outgoing._on_reply,
            on_mail=outgoing._on_mail,
            data=message.packed,
            spec=(
                {
                    "mailbox": sender,
                    "bare": box is None,
                    "stamp_cost": cost,
                    "stamp_auto": auto,
                    "carries_ticket": carries_ticket,
                    "timeout_us": microseconds(timeout),
                    "retry_wait_us": int(policy.retry_wait_s * 1e6),
                },
                encoded(policy),
            ),
        )
        before = self._outgoing.get(message.id)
        if before is None or before.done:
            self._outgoing[message.id] = outgoing
            self._ended.pop(message.id, None)
        return outgoing

    def adopt(self, outgoing: OutgoingMessage) -> None:
        """One of an earlier run goes on its way again."""
        self._outgoing[outgoing.id] = outgoing

    def find(self, message_id: bytes) -> OutgoingMessage | None:
        """One on its way, or one of the last that have ended."""
        return self._outgoing.get(message_id)

    def ended(self, outgoing: OutgoingMessage) -> None:
        """Nothing more will be heard of it."""
        if outgoing._followed:
            self.follow(-1)
        self._ended[outgoing.id] = None
        while len(self._ended) > ENDED_KEPT:
            oldest, _ = self._ended.popitem(last=False)
            self._outgoing.pop(oldest, None)

    def cancel(self, outgoing: OutgoingMessage) -> None:
        """Gives a message up. Quiet when it has ended, and when the node has closed."""
        call = outgoing._call
        if call.done or self._node.closed:
            return
        if call.ticket:
            self._node._driver.cancel(call)
        else:
            self._node._driver.post("mail_cancel", hash=outgoing.id)

    async def replied(self, call: Call) -> None:
        """Waits for the reply to a message, which may have come without waking anybody."""
        while call.reply is None and not call.done:
            # Replies come in order: one that wakes brings those before it along.
            await self._node._driver.ask("mail_stats", "mail")

    def follow(self, change: int) -> None:
        """Somebody more, or fewer, wants to hear of every step at once."""
        self._node._read_progress(change)

    def open_store(self) -> MailStore:
        """The store in the node's storage; by any thread."""
        from netmesh.mailstore import MailStore

        with self._opening:
            if self._store is None:
                folder = self._node._storage
                assert folder is not None
                self._store = MailStore(os.path.join(folder, MAIL_FILE), create=False)
            return self._store

    def close(self) -> None:
        """The node has closed."""
        with self._opening:
            if self._store is not None:
                self._store.close()
        for box in tuple(self.boxes.values()):
            box._end()
        for outgoing in self._outgoing.values():
            if not outgoing._call.done:
                outgoing._call.finish(None)
