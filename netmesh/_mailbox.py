"""A mailbox: the ``lxmf.delivery`` destination of an identity, and what comes to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

from netmesh._core import NODE_CODES, DestinationHash, Identity, Message, RawMail
from netmesh._driver import Call, failure
from netmesh._inbox import Claim, Inbox
from netmesh._mail_delivery import OutgoingMessage
from netmesh._mail_desk import Draft, StampCost, Ticket
from netmesh._mail_kept import Kept
from netmesh._mail_policy import MethodName, Policy
from netmesh._mail_received import MessageReceived, received_of
from netmesh._mail_sync import SyncResult, result_of
from netmesh.constants import Field, MessageState, Method, SyncState, Unverified
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

    from netmesh.mailstore import MailStore
    from netmesh.node import Node

__all__ = ["Mailbox"]


NAME: Final = "lxmf.delivery"
MESSAGES_MAX: Final = 256
DROPS: Final = tuple(
    {"UNSTAMPED": "stamp"}.get(name, name.lower())
    for name, _ in sorted(NODE_CODES["drops"].items(), key=lambda each: each[1])
)

STATE: Final[int] = NODE_CODES["mail"]["STATE"]

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
        "_early",
        "_enforce",
        "_handlers",
        "_limit_kb",
        "_looked_at",
        "_looking",
        "_messages",
        "_node",
        "_pump",
        "_queue",
        "_ready",
        "_resumed",
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
        self._messages: Inbox[MessageReceived] = (
            Kept(self) if kept else Inbox(MESSAGES_MAX, self._pause)
        )
        self._pump: asyncio.Task[None] | None = None
        self._early: list[RawMail] = []
        self._ready = False
        self._resumed: list[OutgoingMessage] = []
        self._looking: dict[DestinationHash, list[tuple[MessageReceived, Claim | None]]] = {}
        self._looked_at = 0
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
        self._start_pump()
        return handler

    async def ack(self, message: MessageReceived | int) -> None:
        """The program is done with a message, or the row of one: it is not told again.

        Asking for the next message does the same for the one before. It is durable with the next
        write, a moment later. Quiet when repeated, and without a store.
        """
        row = message if isinstance(message, int) else message.row
        if self.kept and row is not None:
            await self._ask("mail_ack", "message", destination=self.hash, cursor=row)

    @property
    def store(self) -> MailStore | None:
        """The store of the node's messages, of all its mailboxes: to search, list and read them.

        Its calls block; from a task use ``asyncio.to_thread``. It is closed with the node. None
        without a store.
        """
        return self._open_store() if self.kept else None

    @property
    def resumed(self) -> tuple[OutgoingMessage, ...]:
        """Messages that an earlier run had sent on their way, and that go on."""
        return tuple(self._resumed)

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
        if raw.dropped is not None:
            counts = zip(DROPS, raw.dropped, strict=True)
            self.dropped = {reason: count for reason, count in counts if count}
        elif raw.kind == STATE:
            self._resume(raw)
        elif isinstance(self._messages, Kept):
            self._messages.offer(raw)
        else:
            self._received(raw)

    def _received(self, raw: RawMail) -> None:
        claim = Claim(self._node._driver.free_mail) if raw.holds_credit else None
        try:
            received = received_of(raw, self, raw.source, Unverified(raw.unverified))
            self._look_at(received, claim)
        finally:
            if claim is not None:
                claim.drop()

    def _look_at(self, received: MessageReceived, claim: Claim | None) -> None:
        """Tells of a message, after a look for its sender's keys if they are not known.

        What comes from the same sender meanwhile waits behind it.
        """
        waiting = self._looking.get(received.source)
        unknown = received.unverified == Unverified.SOURCE_UNKNOWN and self._verify_timeout > 0
        if waiting is None and not unknown:
            self._tell(received, claim)
            return
        if claim is not None:
            claim.hold()
        self._looked_at += 1
        if waiting is not None:
            waiting.append((received, claim))
            return
        self._looking[received.source] = [(received, claim)]
        self._node._spawn(self._examine(received.source), "message")

    async def _examine(self, source: DestinationHash) -> None:
        """Looks for the keys of a sender who is not known, then tells of its messages."""
        identity: Identity | None = None
        blackholed = False
        try:
            with contextlib.suppress(OperationError, StateError):
                await self._node._find_path(source, self._verify_timeout)
                identity, blackholed = await self._node._recall_source(source)
        finally:
            waiting = self._looking.pop(source)
            self._looked_at -= len(waiting)
            for received, claim in waiting:
                if blackholed:
                    self.dropped["blackholed"] = self.dropped.get("blackholed", 0) + 1
                else:
                    self._tell(received if identity is None else received._by(identity), claim)
                if claim is not None:
                    claim.drop()

    def _tell(self, received: MessageReceived, claim: Claim | None) -> None:
        if self._handlers and not self.kept:
            for handler in tuple(self._handlers):
                self._node._run_handler(handler, (received,), claim)
        elif self._queue or self._handlers:
            if claim is not None:
                claim.hold()
            self._messages._put(received, claim)
        if received.time_s:  # else it is read from the store, and was told when it came
            self._node._tell(received)

    # -------------------------------------------------------------------- the store

    def _open_store(self) -> MailStore:
        """The node's store; opened when it is first asked for, by any thread."""
        return self._node._desk.open_store()

    def _start_pump(self) -> None:
        """Calls the handlers with what is in the store, one message after the other."""
        if self.kept and self._pump is None and not self.closed:
            self._pump = self._node._spawn(self._call_handlers(), "message handlers")

    async def _call_handlers(self) -> None:
        async for message in self._messages:
            for handler in tuple(self._handlers):
                try:
                    result = handler(message)
                    if isinstance(result, Awaitable):
                        await result
                except Exception as error:
                    name = getattr(handler, "__name__", "callback")
                    self._node._report_exception(f"{name} failed", error)

    async def _find_unfinished(self) -> None:
        """What an earlier run left on its way goes on: it can be followed here."""

        def load() -> list[Message]:
            rows = self._open_store().messages(mailbox=self.hash, unfinished=True)
            return [each.message for each in rows if each.message is not None]

        for message in await asyncio.to_thread(load):
            if self._node._desk.find(message.id) is None:
                outgoing = OutgoingMessage(self._node._desk, message, Method.UNKNOWN)
                outgoing._call = Call(0, True, None, None, outgoing._on_mail)
                outgoing._state = MessageState.OUTBOUND
                self._node._desk.adopt(outgoing)
                self._resumed.append(outgoing)
        for raw in self._early:
            self._resume(raw)
        self._early.clear()
        self._ready = True

    def _resume(self, raw: RawMail) -> None:
        """A message of an earlier run is further."""
        outgoing = self._node._desk.find(raw.id)
        if outgoing is None:
            if not self._ready:
                self._early.append(raw)
            return
        call = outgoing._call
        if call.ticket == 0 and not call.done:
            call.mail = raw
            outgoing._on_mail(raw)
            if raw.final:
                call.finish(None)


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
    if mailbox.kept:
        await mailbox._find_unfinished()
    if mailbox._handlers:
        mailbox._start_pump()
    return mailbox
