"""Mailboxes and messages on their way, for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

from netmesh import messaging
from netmesh._core import DestinationHash, Identity, Message
from netmesh._sync_base import Background, Reader
from netmesh.constants import MessageState, Method, SyncState
from netmesh.events import AnnounceSent
from netmesh.mailstore import MailStore
from netmesh.messaging import (
    Delivery,
    DeliveryUpdate,
    MessageReceived,
    MethodName,
    Policy,
    StampCost,
    SyncResult,
    Ticket,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.sync import LocalDestination

__all__ = ["Mailbox", "OutgoingMessage"]

H = TypeVar("H", bound=Callable[[MessageReceived], Any])


@final
class OutgoingMessage:
    """A message on its way."""

    __slots__ = ("_background", "_message")

    def __init__(self, background: Background, message: messaging.OutgoingMessage) -> None:
        self._background = background
        self._message = message

    @property
    def message(self) -> Message:
        """The message, as it was packed here."""
        return self._message.message

    @property
    def id(self) -> bytes:
        """32 bytes: what names the message everywhere; a stamp does not change it."""
        return self._message.id

    @property
    def state(self) -> MessageState:
        """GENERATING, OUTBOUND, SENDING or SENT, then DELIVERED, REJECTED, CANCELLED or FAILED."""
        return self._message.state

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        return self._message.progress

    @property
    def method(self) -> Method:
        """The way that is tried, or was the last one."""
        return self._message.method

    @property
    def attempts(self) -> int:
        """How often that way was tried."""
        return self._message.attempts

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._message.done

    def wait(self, *, timeout: float | None = None) -> Delivery:
        """The same as awaiting it, for at most ``timeout`` seconds; then it is cancelled."""
        return self._background.run(self._message.wait(timeout=timeout))

    def taken(self) -> None:
        """Waits until the node has it, durable in its storage if the mailbox has a store."""
        self._background.run(self._message.taken())

    def updates(self) -> Iterator[DeliveryUpdate]:
        """How far it is, whenever that changes, until it has ended."""
        updates = self._background.call(self._message.updates)

        async def following() -> DeliveryUpdate | None:
            return await anext(updates, None)

        while (update := self._background.run(following())) is not None:
            yield update

    def cancel(self) -> None:
        """Gives up. Quiet when it has ended."""
        self._background.call(self._message.cancel)


@final
class Mailbox:
    """A mailbox; see :class:`netmesh.messaging.Mailbox`.

    Messages are answered with :meth:`reply` and acknowledged with :meth:`ack` of this class.
    """

    __slots__ = ("_background", "_mailbox")

    def __init__(self, background: Background, mailbox: messaging.Mailbox) -> None:
        self._background = background
        self._mailbox = mailbox

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[MessageReceived]:
        return iter(Reader(self._background, self._mailbox._messages))

    def __len__(self) -> int:
        """How many messages wait in memory."""
        return len(self._mailbox)

    @property
    def hash(self) -> DestinationHash:
        """Its address."""
        return self._mailbox.hash

    @property
    def identity(self) -> Identity:
        """Whose it is."""
        return self._mailbox.identity

    @property
    def display_name(self) -> str | None:
        """The name that its announces say."""
        return self._mailbox.display_name

    @property
    def stamp_cost(self) -> int | None:
        """The cost that its announces ask for."""
        return self._mailbox.stamp_cost

    @property
    def kept(self) -> bool:
        """Whether its messages are in the node's storage."""
        return self._mailbox.kept

    @property
    def closed(self) -> bool:
        """Whether it takes no more messages."""
        return self._mailbox.closed

    @property
    def dropped(self) -> dict[str, int]:
        """Messages that were not told of, by reason."""
        return self._mailbox.dropped

    @property
    def local(self) -> LocalDestination:
        """The destination behind it."""
        from netmesh.sync import LocalDestination

        return LocalDestination(self._background, self._mailbox.local)

    def get(self, *, timeout: float | None = None) -> MessageReceived:
        """The next message. Raises TimeoutError."""
        return self._background.run(self._mailbox.get(timeout=timeout))

    def on_message(self, handler: H) -> H:
        """Adds a handler behind the others; a plain function, called in a thread."""
        run = in_thread(handler)
        assert run is not None
        self._background.call(self._mailbox.on_message, run)
        return handler

    def ack(self, message: MessageReceived | int) -> None:
        """The program is done with a message, or the row of one: it is not told again."""
        self._background.run(self._mailbox.ack(message))

    @property
    def store(self) -> MailStore | None:
        """The store of the node's messages; None without one."""
        return self._mailbox.store

    @property
    def resumed(self) -> tuple[OutgoingMessage, ...]:
        """Messages that an earlier run had sent on their way, and that go on."""
        return tuple(OutgoingMessage(self._background, each) for each in self._mailbox.resumed)

    def ingest(self, data: Buffer, *, method: Method = Method.PAPER) -> None:
        """Takes a message that came by another way."""
        self._background.run(self._mailbox.ingest(data, method=method))

    def ignore(self, source: DestinationHash, on: bool = True) -> None:
        """Drops what comes from an address, or does not any more."""
        self._background.run(self._mailbox.ignore(source, on))

    def send(
        self,
        destination: DestinationHash,
        content: str | Buffer = b"",
        *,
        title: str | Buffer = b"",
        fields: Mapping[Any, Any] | None = None,
        timeout: float | None = None,
        stamp_cost: StampCost = None,
        method: MethodName | Method | Policy = "auto",
        timestamp: float | None = None,
        stamp: Buffer | None = None,
        ticket: Buffer | None = None,
        gives: Ticket | None = None,
    ) -> Delivery:
        """Sends a message from this address and waits until it is proven."""
        return self.start_message(
            destination,
            content,
            title=title,
            fields=fields,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
            timestamp=timestamp,
            stamp=stamp,
            ticket=ticket,
            gives=gives,
        ).wait()

    def start_message(
        self,
        destination: DestinationHash,
        content: str | Buffer = b"",
        *,
        title: str | Buffer = b"",
        fields: Mapping[Any, Any] | None = None,
        timeout: float | None = None,
        stamp_cost: StampCost = None,
        method: MethodName | Method | Policy = "auto",
        timestamp: float | None = None,
        stamp: Buffer | None = None,
        ticket: Buffer | None = None,
        gives: Ticket | None = None,
    ) -> OutgoingMessage:
        """Sends a message from this address on its way, without waiting."""
        sending = self._background.call(
            self._mailbox.send,
            destination,
            content,
            title=title,
            fields=fields,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
            timestamp=timestamp,
            stamp=stamp,
            ticket=ticket,
            gives=gives,
        )
        return OutgoingMessage(self._background, sending)

    def send_packed(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        stamp_cost: StampCost = None,
        method: MethodName | Method | Policy = "auto",
    ) -> OutgoingMessage:
        """Sends a message that was packed elsewhere on its way."""
        sending = self._background.call(
            self._mailbox.send_packed,
            message,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
        )
        return OutgoingMessage(self._background, sending)

    def reply(
        self,
        message: MessageReceived,
        content: str | Buffer = b"",
        *,
        title: str | Buffer | None = None,
        fields: Mapping[Any, Any] | None = None,
        reference: bool = True,
        timeout: float | None = None,
        stamp_cost: StampCost = "announced",
        method: MethodName | Method | Policy = "auto",
    ) -> Delivery:
        """Answers to the sender of a message and waits until that is proven."""
        sending = self._background.call(
            self._mailbox.reply,
            message,
            content,
            title=title,
            fields=fields,
            reference=reference,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
        )
        return OutgoingMessage(self._background, sending).wait()

    def outgoing(self, message_id: Buffer) -> OutgoingMessage | None:
        """A message on its way, by its id, or one of the last thousand that have ended."""
        found = self._background.call(self._mailbox.outgoing, message_id)
        return None if found is None else OutgoingMessage(self._background, found)

    def issue_ticket(self, destination: DestinationHash) -> Ticket | None:
        """A ticket that lets somebody write to us without work."""
        return self._background.run(self._mailbox.issue_ticket(destination))

    def set_node(self, node: DestinationHash | None, *, stamp_cost: int | None = None) -> None:
        """Which propagation node is used."""
        self._background.run(self._mailbox.set_node(node, stamp_cost=stamp_cost))

    def sync(
        self,
        node: DestinationHash | None = None,
        *,
        limit: int | None = None,
        retain: bool = False,
        timeout: float | None = None,
    ) -> SyncResult:
        """Fetches what a propagation node keeps for this mailbox."""
        return self._background.run(
            self._mailbox.sync(node, limit=limit, retain=retain, timeout=timeout)
        )

    @property
    def sync_state(self) -> SyncState:
        """How far a fetch is, or how the last one ended."""
        return self._mailbox.sync_state

    @property
    def sync_progress(self) -> float:
        """The share of what a node sends that has come, from 0 to 1."""
        return self._mailbox.sync_progress

    def cancel_sync(self) -> None:
        """Ends a fetch. Quiet when there is none."""
        self._background.run(self._mailbox.cancel_sync())

    def announce(self, *, timeout: float | None = None) -> AnnounceSent:
        """Announces it with its display name."""
        return self._background.run(self._mailbox.announce(timeout=timeout))

    def describe(
        self,
        *,
        display_name: str | None = None,
        stamp_cost: int | None = None,
        enforce_stamps: bool = False,
    ) -> None:
        """Sets anew what its next announces say, and which stamps are asked for from now on."""
        self._background.run(
            self._mailbox.describe(
                display_name=display_name, stamp_cost=stamp_cost, enforce_stamps=enforce_stamps
            )
        )

    def set_display_name(self, display_name: str | None) -> None:
        """What its next announces say."""
        self._background.run(self._mailbox.set_display_name(display_name))

    def close(self) -> None:
        """Takes no more messages. Quiet when repeated."""
        self._background.run(self._mailbox.close())


def in_thread(
    callback: Callable[[MessageReceived], Any] | None,
) -> Callable[[MessageReceived], Any] | None:
    """A callback that may block, for the event loop."""
    if callback is None:
        return None
    called = callback

    async def run(message: MessageReceived) -> Any:
        return await asyncio.to_thread(called, message)

    return run
