"""A mailbox: the ``lxmf.delivery`` destination of an identity, and what comes to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

from netmesh._core import NODE_CODES, DestinationHash, Identity, Message, RawMail
from netmesh._driver import failure
from netmesh._inbox import Claim, Inbox
from netmesh._mail_delivery import OutgoingMessage
from netmesh._mail_desk import Draft, StampCost, Ticket
from netmesh._mail_policy import MethodName, Policy
from netmesh._mail_received import MessageReceived, received_of
from netmesh._mail_sync import SyncResult, result_of
from netmesh.constants import Field, Method, SyncState, Unverified
from netmesh.destinations import LocalDestination
from netmesh.errors import (
    DecodeError,
    NetmeshError,
    NotFoundError,
    OperationError,
    StateError,
)
from netmesh.events import AnnounceSent

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.node import Node

__all__ = ["Mailbox"]

log = logging.getLogger("netmesh.messaging")

NAME: Final = "lxmf.delivery"
LIMIT_KB: Final = 1000
MESSAGES_MAX: Final = 256
VERIFY_TIMEOUT_S: Final = 7.0
DROPS: Final = tuple(
    {"UNSTAMPED": "stamp"}.get(name, name.lower())
    for name, _ in sorted(NODE_CODES["drops"].items(), key=lambda each: each[1])
)

Handler = Callable[[MessageReceived], Any]
H = TypeVar("H", bound=Handler)


@final
class Mailbox:
    """The ``lxmf.delivery`` destination of an identity: what others send messages to.

    Messages are read with ``async for``, or one by one with :meth:`get`; each comes once.

    Without a store 256 may wait: then the mailbox takes no more until some are read, and their
    senders get no proof and try again. With one (``kept``) a message is durable before its sender
    has its proof, however many wait; those that were not acknowledged come again after a
    restart. Asking for the next message acknowledges the one before it, :meth:`ack` does it by
    hand; so one task reads.

    Handlers (:meth:`on_message`) are called in place of queueing, one after the other in the order
    of their registration, and awaited if they are async. What one raises goes to the event loop's
    exception handler; the others are called all the same, the message counts as read, and its
    sender learns nothing of it. With a store the message is acknowledged when all have ended.

    With ``queue=False`` none wait, for programs that read :class:`MessageReceived` from
    :meth:`netmesh.Node.events`.
    """

    __slots__ = (
        "_display_name",
        "_enforce",
        "_handlers",
        "_limit_kb",
        "_messages",
        "_node",
        "_pump",
        "_queue",
        "_synced",
        "_verify_timeout",
        "dropped",
        "kept",
        "local",
        "stamp_cost",
    )

    local: LocalDestination
    """The destination behind it. Packets, links and resources for it are the mailbox's."""
    stamp_cost: int | None
    """The cost that its announces ask for."""
    dropped: dict[str, int]
    """What came and was not told of, by reason: "duplicate", "malformed", "undecryptable",
    "blackholed", "ignored", "stamp"; "crowded" was not proven and comes again."""
    kept: bool
    """Whether its messages are in the node's storage."""

    def __init__(
        self,
        node: Node,
        *,
        display_name: str | None,
        stamp_cost: int | None,
        enforce_stamps: bool,
        limit_kb: int,
        verify_timeout: float,
        on_message: Handler | None,
        queue: bool,
        kept: bool,
    ) -> None:
        self._node = node
        self._display_name = display_name
        self._enforce = enforce_stamps
        self._limit_kb = limit_kb
        self._verify_timeout = verify_timeout
        self._handlers: list[Handler] = [] if on_message is None else [on_message]
        self._queue = queue
        self._messages: Inbox[MessageReceived] = Inbox(MESSAGES_MAX, self._pause)
        self._synced: RawMail | None = None
        self.stamp_cost = stamp_cost
        self.dropped = {}
        self.kept = kept

    def __repr__(self) -> str:
        return f"<Mailbox {self.hash.hex()}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Inbox[MessageReceived]:
        return self._messages

    def __len__(self) -> int:
        """How many messages wait in memory."""
        return len(self._messages)

    @property
    def hash(self) -> DestinationHash:
        """Its address."""
        return self.local.hash

    @property
    def identity(self) -> Identity:
        """Whose it is."""
        assert self.local.identity is not None
        return self.local.identity

    @property
    def display_name(self) -> str | None:
        """The name that its announces say."""
        return self._display_name

    @property
    def closed(self) -> bool:
        """Whether it takes no more messages."""
        return self.local.closed

    # ------------------------------------------------------------------- receiving

    async def get(self, *, timeout: float | None = None) -> MessageReceived:
        """The next message. Raises TimeoutError, StateError when it is closed."""
        return await self._messages.get(timeout=timeout)

    def on_message(self, handler: H) -> H:
        """Adds a handler behind the others; also as a decorator.

        A plain or async callable that gets each :class:`MessageReceived`, in place of queueing.
        """
        self._handlers.append(handler)
        return handler

    async def ingest(self, data: Buffer, *, method: Method = Method.PAPER) -> None:
        """Takes a message that came by another way: from paper, a file, a node.

        ``data`` is its encrypted form without a node's stamp, as
        :attr:`netmesh.lxmf.Propagated.lxmf_data`. It is told of like any message if it can be
        decrypted. Raises DecodeError, NotFoundError when it is for no mailbox of the node,
        StateError ("DUPLICATE_KEY") when it came before.
        """
        try:
            await self._ask("mail_ingest", "message", data=data, number=int(method))
        except NetmeshError as error:
            if error.reason == "TRUNCATED":
                raise DecodeError(
                    "too short for an encrypted message", reason="TRUNCATED", codec="propagated"
                ) from None
            raise

    async def ignore(self, source: DestinationHash, on: bool = True) -> None:
        """Drops what comes from an address, or does not any more.

        This is for all mailboxes of the node. Its messages are still proven: the sender does not
        learn of it.
        """
        await self._node._ask("mail_ignore", "source", destination=source, on=on)

    # --------------------------------------------------------------------- sending

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
    ) -> OutgoingMessage:
        """Sends a message from this address; await it for its delivery.

        It is on its way, and its id known, when this returns; ``await mailbox.send(...)`` waits
        until the recipient has proven it. With a store it is durable once
        :meth:`OutgoingMessage.taken` returns, and goes on its way again after a restart. Arguments
        and errors as :meth:`netmesh.Node.send_message`. ``gives`` is a ticket of
        :meth:`issue_ticket` for the recipient.
        """
        self._check()
        draft = Draft(
            destination=destination,
            content=content,
            title=title,
            fields=fields,
            timestamp=timestamp,
            stamp=stamp,
            ticket=ticket,
            gives=gives,
        )
        return self._node._desk.send(
            self.identity,
            draft,
            policy=Policy.of(method),
            stamp_cost=stamp_cost,
            timeout=timeout,
        )

    def send_packed(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        stamp_cost: StampCost = None,
        method: MethodName | Method | Policy = "auto",
    ) -> OutgoingMessage:
        """Sends a message that was packed elsewhere, with whatever time and stamp it has.

        Raises ValueError when its source is another address.
        """
        self._check()
        if message.source_hash != self.hash:
            raise ValueError("the message is of another sender")
        return self._node._desk.send_packed(
            message, policy=Policy.of(method), stamp_cost=stamp_cost, timeout=timeout
        )

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
    ) -> OutgoingMessage:
        """Answers to the sender of a message, as :meth:`MessageReceived.reply`."""
        said = dict(fields or {})
        if reference:
            said.setdefault(int(Field.REPLY_TO), message.id)
        return self.send(
            message.source,
            content,
            title=message.message.title if title is None else title,
            fields=said,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
        )

    def outgoing(self, message_id: Buffer) -> OutgoingMessage | None:
        """A message on its way, by its id, or one of the last thousand that have ended."""
        found = self._node._desk.find(bytes(message_id))
        return found if found is not None and found.message.source_hash == self.hash else None

    async def issue_ticket(self, destination: DestinationHash) -> Ticket | None:
        """A ticket that lets somebody write to us without work, to be put into a message.

        It is good for three weeks; one that is good for two more is given again. None when one
        was delivered to them less than a day ago.
        """
        try:
            reply = await self._ask("mail_ticket", "ticket", destination=destination)
        except NotFoundError:
            return None
        return Ticket(
            peer=DestinationHash(destination),
            expires_unix_s=reply.number / 1e6,
            secret=reply.data or b"",
        )

    # ------------------------------------------------------------ propagation nodes

    async def set_node(
        self, node: DestinationHash | None, *, stamp_cost: int | None = None
    ) -> None:
        """Which propagation node is used; as :meth:`netmesh.Node.set_propagation_node`."""
        await self._node.set_propagation_node(node, stamp_cost=stamp_cost)

    async def sync(
        self,
        node: DestinationHash | None = None,
        *,
        limit: int | None = None,
        retain: bool = False,
        timeout: float | None = None,
    ) -> SyncResult:
        """Fetches what a propagation node keeps for this mailbox.

        ``node`` None is the one that was set. At most ``limit`` messages come; they are told of
        like all others, and durable with a store before the node may delete them. With
        ``retain`` it keeps them. A fetch that fails, or takes longer than ``timeout`` seconds, is
        no exception: the result says how it ended. Cancelling the wait ends it.

        Raises NotFoundError without a node, StateError while another fetch is under way.
        """
        self._check()
        chosen = node if node is not None else self._node.propagation_node
        if chosen is None:
            raise NotFoundError("no propagation node is set")
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        driver = self._node._driver
        began = driver.loop.time()
        call = driver.start(
            "mail_sync",
            operation=True,
            on_mail=self._on_sync,
            destination=self.hash,
            spec={"has_node": True, "node": chosen, "most": limit or 0, "retain": retain},
        )
        reply = await driver.reply_of(call)
        if reply.status < 0:
            raise failure(reply, "fetch")
        late: SyncState | None = None
        try:
            async with asyncio.timeout(timeout):
                await driver.end_of(call)
        except TimeoutError:
            late = self.sync_state
            await call.wait()
        if call.mail is None or not call.mail.final:
            raise StateError("the node was closed")
        return result_of(call.mail, driver.loop.time() - began, late)

    @property
    def sync_state(self) -> SyncState:
        """How far a fetch is, or how the last one ended."""
        return SyncState.IDLE if self._synced is None else SyncState(self._synced.sync_state)

    @property
    def sync_progress(self) -> float:
        """The share of what a node sends that has come, from 0 to 1."""
        return 0.0 if self._synced is None else self._synced.progress

    async def cancel_sync(self) -> None:
        """Ends a fetch; who waits for it gets the reason CANCELLED. Quiet when there is none."""
        try:
            await self._ask("mail_sync_cancel", "fetch", destination=self.hash)
        except StateError:
            return

    # ------------------------------------------------------------------- announcing

    async def announce(self, *, timeout: float | None = None) -> AnnounceSent:
        """Announces it with its display name; errors as for every destination."""
        return await self.local.announce(timeout=timeout)

    async def describe(
        self,
        *,
        display_name: str | None = None,
        stamp_cost: int | None = None,
        enforce_stamps: bool = False,
    ) -> None:
        """Sets anew what its next announces say, and which stamps are asked for from now on."""
        await self._ask(
            "mail_describe",
            "mailbox",
            destination=self.hash,
            data=display_name,
            spec={"stamp_cost": stamp_cost or 0, "enforce_stamps": enforce_stamps},
        )
        self._display_name = display_name
        self.stamp_cost = stamp_cost
        self._enforce = enforce_stamps

    async def set_display_name(self, display_name: str | None) -> None:
        """What its next announces say."""
        await self.describe(
            display_name=display_name, stamp_cost=self.stamp_cost, enforce_stamps=self._enforce
        )

    async def close(self) -> None:
        """Takes no more messages; those that wait can still be read. Quiet when repeated.

        What is on its way from it goes on.
        """
        if not self.closed:
            self._end()
            await self._node._ask("mail_close", "mailbox", destination=self.hash)

    # -------------------------------------------------------------------- inside

    def _check(self) -> None:
        if self.closed:
            raise StateError("the mailbox is closed")

    async def _ask(self, command: str, what: str, **fields: Any) -> Any:
        self._check()
        return await self._node._ask(command, what, **fields)

    def _end(self) -> None:
        self._messages._close()
        self._node._mail.pop(self.hash, None)
        self._node._desk.boxes.pop(self.hash, None)
        self.local._end()

    def _pause(self, paused: bool) -> None:
        if not self.closed:
            self._node._driver.post("mail_pause", destination=self.hash, on=paused)

    def _on_sync(self, raw: RawMail) -> None:
        self._synced = raw

    def _on_mail(self, raw: RawMail) -> None:
        """Something of the core's about this mailbox."""
        if raw.message is not None:
            self._received(raw)
        elif raw.dropped is not None:
            counts = zip(DROPS, raw.dropped, strict=True)
            self.dropped = {reason: count for reason, count in counts if count}

    def _received(self, raw: RawMail) -> None:
        claim = Claim(self._node._driver.free_mail) if raw.holds_credit else None
        unverified = Unverified(raw.unverified)
        try:
            if unverified == Unverified.SOURCE_UNKNOWN and self._verify_timeout > 0:
                self._node._spawn(self._examine(raw, claim), "message", claim)
            else:
                self._tell(received_of(raw, self, raw.source, unverified), claim)
        finally:
            if claim is not None:
                claim.drop()

    async def _examine(self, raw: RawMail, claim: Claim | None) -> None:
        """Looks for the keys of a sender who is not known, then tells of its message."""
        source = raw.peer
        identity: Identity | None = None
        blackholed = False
        try:
            await self._node._find_path(source, self._verify_timeout)
            identity, blackholed = await self._node._recall_source(source)
        except (OperationError, StateError):
            pass
        if blackholed:
            self.dropped["blackholed"] = self.dropped.get("blackholed", 0) + 1
            return
        message = raw.message
        assert message is not None
        unverified = (
            Unverified.SOURCE_UNKNOWN
            if identity is None
            else Unverified.VERIFIED
            if message.verify(identity)
            else Unverified.SIGNATURE_INVALID
        )
        self._tell(received_of(raw, self, identity, unverified), claim)

    def _tell(self, received: MessageReceived, claim: Claim | None) -> None:
        if self._handlers:
            for handler in tuple(self._handlers):
                self._node._run_handler(handler, (received,), claim)
        elif self._queue:
            if claim is not None:
                claim.hold()
            self._messages._put(received, claim)
        self._node._tell(received)


async def open_mailbox(
    node: Node,
    identity: Identity,
    mailbox: Mailbox,
    *,
    ratchets: bool,
    enforce_ratchets: bool,
) -> Mailbox:
    """Listens for messages."""
    local = LocalDestination(
        node,
        NAME,
        identity,
        prover=None,
        policy=None,
        channels=False,
        on_packet=None,
        on_link=None,
        on_link_packet=None,
        on_resource=None,
    )
    mailbox.local = local

    def register(reply: Any) -> None:
        if reply.status >= 0:
            local.hash = reply.destination
            local._closes = "mail_close"
            node._locals[local.hash] = local
            node._mail[local.hash] = mailbox._on_mail
            node._desk.boxes[local.hash] = mailbox

    await node._driver.ask(
        "mail_open",
        "mailbox",
        undo=lambda _: node._unmail(mailbox),
        on_reply=register,
        key=identity,
        data=mailbox._display_name,
        on=mailbox.kept,
        spec={
            "stamp_cost": mailbox.stamp_cost or 0,
            "enforce_stamps": mailbox._enforce,
            "limit_kb": mailbox._limit_kb,
            "ratchets": ratchets,
            "enforce_ratchets": enforce_ratchets,
        },
    )
    return mailbox
