"""LXMF messages of a node: sent to a destination, received in a mailbox.

:meth:`netmesh.Node.send_message` sends one and waits until the recipient has proven it;
:meth:`netmesh.Node.lxmf` opens a :class:`Mailbox`, the ``lxmf.delivery`` destination of an
identity, which announces a display name and takes messages. Nothing is stored: a message is
delivered while both sides are there, or it is not.

Example:
    >>> import asyncio
    >>> from netmesh import Node
    >>> from netmesh.interfaces import Pipe
    >>> async def main() -> str:
    ...     left, right = Pipe.pair()
    ...     async with Node(interfaces=[left]) as alice, Node(interfaces=[right]) as bob:
    ...         mailbox = await bob.lxmf(display_name="Bob")
    ...         await alice.lxmf(display_name="Alice")
    ...         await alice.send_message(mailbox.hash, "See you at the well.", timeout=20)
    ...         message = await mailbox.get(timeout=20)
    ...         return f"{message.content} {message.verified}"
    >>> asyncio.run(main())
    'See you at the well. True'
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, final

from netmesh._core import (
    DeliveryAppData,
    DestinationHash,
    Identity,
    Message,
    RawReply,
    StampCancel,
    Workblock,
    destination_hash,
    representation,
)
from netmesh._inbox import Inbox
from netmesh.constants import MessageState, Method, Representation, Unverified
from netmesh.errors import (
    DecodeError,
    EncodeError,
    LinkError,
    NetmeshError,
    NotFoundError,
    OperationError,
    PathError,
    ProofError,
    RefusedError,
    StateError,
    TransferError,
)
from netmesh.events import (
    AnnounceSent,
    LinkPacketReceived,
    PacketReceived,
    ReceiptDone,
    ResourceReceived,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.destinations import LocalDestination
    from netmesh.links import Link
    from netmesh.node import Node
    from netmesh.transfers import Offer, Receipt

__all__ = ["Delivery", "Mailbox", "MessageReceived", "OutgoingMessage"]

log = logging.getLogger("netmesh.messaging")

NAME: Final = "lxmf.delivery"
LIMIT_KB: Final = 1000
IDS_KEPT: Final = 65_536
MESSAGES_MAX: Final = 256
LINK_IDLE_S: Final = 600.0
VERIFY_TIMEOUT_S: Final = 7.0

# As upstream's router does (LXMF 4.6).
RETRY_WAIT_S: Final = 10.0
PACKETS_MAX: Final = 5
PACKETS_BEFORE_LINK: Final = 2
REDISCOVERY_BEFORE: Final = 3
LINKS_MAX: Final = 4

MethodName = Literal["auto", "opportunistic", "direct"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A message that came in, once for each message."""

    time_s: float
    """When it arrived, on the monotonic clock."""
    time_unix_s: float
    """When it arrived, on the Unix clock."""
    message: Message
    """The whole message."""
    mailbox: DestinationHash
    """The mailbox that it came to."""
    identity: Identity | None
    """Who sent it; None when that is not known."""
    verified: bool
    """Whether its signature is by that identity: act on nothing that is not."""
    unverified: Unverified
    """Why it is not verified."""
    method: Method
    """OPPORTUNISTIC (a packet) or DIRECT (over a link)."""
    packet_hash: bytes
    """32 bytes: the hash of the packet or resource that it came in."""
    stamp_valid: bool | None
    """Whether its stamp is worth the mailbox's cost; None when no stamp was asked for."""

    @property
    def id(self) -> bytes:
        """32 bytes: what names the message everywhere."""
        return self.message.id

    @property
    def source(self) -> DestinationHash:
        """The address of the sender, to answer to."""
        return self.message.source_hash

    @property
    def title(self) -> str:
        """The title; bytes that are not UTF-8 are replaced."""
        return self.message.title_text

    @property
    def content(self) -> str:
        """The content; bytes that are not UTF-8 are replaced."""
        return self.message.content_text

    @property
    def fields(self) -> dict[Any, Any]:
        """The fields, as a fresh dict."""
        return self.message.fields


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that the recipient has proven."""

    message: Message
    """The message."""
    method: Method
    """How it was delivered."""
    representation: Representation
    """As a packet or as a resource."""
    rtt_s: float
    """From sending to the proof; 0 for a resource."""

    @property
    def id(self) -> bytes:
        """32 bytes: what names the message everywhere."""
        return self.message.id


_FAILURES: Final[dict[str, type[OperationError]]] = {
    "PATH": PathError,
    "LINK": LinkError,
    "PROOF": ProofError,
    "TRANSFER": TransferError,
}


@final
class OutgoingMessage:
    """A message on its way. ``await`` it for its :class:`Delivery`.

    Raises what :meth:`netmesh.Node.send_message` raises. A failure that nobody awaits is in
    :attr:`state` alone.
    """

    __slots__ = ("_alone", "_cancel", "_node", "_stage", "_state", "_task", "message")

    message: Message
    """The message; with its stamp once that is made."""

    def __init__(self, node: Node, message: Message) -> None:
        self._node = node
        self._cancel = StampCancel()
        self._stage = "STAMP"
        self._state = MessageState.GENERATING
        self._task: asyncio.Task[Delivery] | None = None
        self._alone = False
        """Whether nobody but the task that sends it knows of it."""
        self.message = message

    def __repr__(self) -> str:
        return f"<OutgoingMessage {self.id.hex()} {self._state.name}>"

    def __await__(self) -> Generator[Any, None, Delivery]:
        return self._result().__await__()

    @property
    def id(self) -> bytes:
        """32 bytes: what names the message everywhere; a stamp does not change it."""
        return self.message.id

    @property
    def state(self) -> MessageState:
        """GENERATING, OUTBOUND, SENDING or SENT, then DELIVERED, REJECTED, CANCELLED or FAILED."""
        return self._state

    async def wait(self, *, timeout: float | None = None) -> Delivery:
        """The same as awaiting it, for at most ``timeout`` seconds; then it is cancelled.

        Raises TimeoutError then.
        """
        async with asyncio.timeout(timeout):
            return await self._result()

    def cancel(self) -> None:
        """Gives up. Quiet when it has ended."""
        if self._task is not None:
            self._task.cancel()

    async def _result(self) -> Delivery:
        task = self._task
        assert task is not None
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            raise self._was_cancelled() from None

    def _was_cancelled(self) -> OperationError:
        return OperationError(
            "the message was cancelled",
            reason="CANCELLED",
            stage="CANCELLED",
            destination=bytes(self.message.destination_hash),
        )

    def _start(self, work: Work) -> None:
        task = self._node._driver.loop.create_task(self._run(work), name="netmesh message")
        self._task = task
        self._node._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _deliver_here(self, work: Work) -> Delivery:
        """Sends it within the caller's task; closing the node cancels the message alone."""
        task = asyncio.current_task()
        assert task is not None
        sending = _Sending(task)
        self._alone = True
        self._node._messenger.sending.add(sending)
        try:
            return await self._run(work)
        except asyncio.CancelledError:
            if not sending.cancelled or task.uncancel() > sending.before:
                raise
            raise self._was_cancelled() from None
        finally:
            self._node._messenger.sending.discard(sending)

    def _ended(self, task: asyncio.Task[Delivery]) -> None:
        self._node._tasks.discard(task)
        if task.cancelled():
            self._state = MessageState.CANCELLED
        elif task.exception() is None:
            self._state = MessageState.DELIVERED
        elif isinstance(task.exception(), RefusedError):
            self._state = MessageState.REJECTED
        else:
            self._state = MessageState.FAILED
            log.debug("message %s: %s", self.id.hex(), task.exception(), extra=self._node._extra())

    async def _run(self, work: Work) -> Delivery:
        try:
            async with asyncio.timeout(work.timeout):
                return await self._deliver(work)
        except TimeoutError:
            kind = _FAILURES.get(self._stage, OperationError)
            raise kind(
                f"the message was not delivered in time (stage {self._stage})",
                reason="TIMEOUT",
                stage=self._stage,
                destination=bytes(self.message.destination_hash),
            ) from None
        finally:
            self._cancel.cancel()

    async def _deliver(self, work: Work) -> Delivery:
        fits = self._fits()
        if work.method == "opportunistic" and not fits:
            raise EncodeError(
                "the message does not fit a packet", reason="TOO_LARGE", field="content"
            )
        await self._stamp(work.stamp_cost)
        self._advance(MessageState.OUTBOUND)
        if fits and work.method != "direct":
            try:
                return await self._opportunistic(work)
            except _NoPathError:
                log.debug(
                    "message %s: no path for a packet, but a link",
                    self.id.hex(),
                    extra=self._node._extra(),
                )
            except ProofError:
                if work.method != "auto":
                    raise
                log.debug(
                    "message %s: no proof of a packet, opening a link",
                    self.id.hex(),
                    extra=self._node._extra(),
                )
        return await self._direct(work.identity)

    def _advance(self, state: MessageState) -> None:
        """A message never looks less advanced than it did."""
        self._state = max(self._state, state)

    def _fits(self) -> bool:
        size = self.message.content_size
        return representation(int(Method.OPPORTUNISTIC), size)[0] == Method.OPPORTUNISTIC

    async def _stamp(self, cost: int | Literal["announced"] | None) -> None:
        if cost == "announced":
            found = await self._node.recall(self.message.destination_hash)
            cost = None if found is None else DeliveryAppData.unpack(found.app_data).stamp_cost
        if not isinstance(cost, int):
            return
        threshold = cost

        def search() -> bytes:
            return (
                Workblock(self.message.id).search(threshold, threads=2, cancel=self._cancel).stamp
            )

        self.message = self.message.with_stamp(await asyncio.to_thread(search))

    # ------------------------------------------------------------ packets outside links

    async def _opportunistic(self, work: Work) -> Delivery:
        """Sends the same packet until one is proven; a proof of any of them counts.

        Without a link to fall back on every proof that can come is awaited.
        """
        only = work.method == "opportunistic"
        tries = PACKETS_MAX if only else PACKETS_BEFORE_LINK
        waiting: list[Receipt] = []
        try:
            for number in range(1, tries + 1):
                if number == REDISCOVERY_BEFORE:
                    await self._rediscover()
                done = await self._next_packet(work, waiting, last=only and number == tries)
                if done is not None:
                    return Delivery(
                        message=self.message,
                        method=Method.OPPORTUNISTIC,
                        representation=Representation.PACKET,
                        rtt_s=done.rtt_s,
                    )
        finally:
            for receipt in waiting:
                receipt.cancel()
        raise ProofError(
            f"none of {tries} packets was proven",
            reason="TIMEOUT",
            stage="PROOF",
            destination=bytes(self.message.destination_hash),
        )

    async def _next_packet(
        self, work: Work, waiting: list[Receipt], *, last: bool
    ) -> ReceiptDone | None:
        """Sends it over a path, which is looked for, and waits for the first proof of any.

        Raises _NoPathError when there is none, but with "auto" an open link to the recipient.
        """
        to = self.message.destination_hash
        while True:
            self._stage = "PROOF"
            sent = None if self._alone else self._packet_sent
            waiting.append(self._node._start_packet(to, self.message.opportunistic, sent))
            try:
                return await self._first_proof(waiting, last=last)
            except _NoPathError:
                if work.method == "auto" and self._node._messenger.open_link(to) is not None:
                    raise
            self._stage = "PATH"
            await self._node._find_path(to, None)

    def _packet_sent(self, reply: RawReply) -> None:
        if reply.status >= 0:
            self._advance(MessageState.SENT)

    async def _first_proof(self, waiting: list[Receipt], *, last: bool) -> ReceiptDone | None:
        """The first proof of any packet.

        None after a while, or once no proof can come any more; of the last packet all that can
        come. Raises what is wrong with the sending itself.
        """
        loop = self._node._driver.loop
        until = loop.time() + RETRY_WAIT_S
        while waiting:
            await _any_done(waiting, None if last else until)
            ready = [receipt for receipt in waiting if receipt.done]
            if not ready:
                return None
            for receipt in ready:
                waiting.remove(receipt)
                if receipt._call.end is None:
                    await self._fail_unsent(receipt)
                with contextlib.suppress(ProofError):
                    return receipt._outcome()
        if not last:
            await asyncio.sleep(max(0.0, until - loop.time()))
        return None

    async def _fail_unsent(self, receipt: Receipt) -> None:
        reply = self._node._driver.answer_of(receipt._call)
        if reply.number:
            raise _NoPathError
        if reply.status < 0:
            raise await self._node._not_sent(reply, self.message.destination_hash)

    async def _rediscover(self) -> None:
        """Two packets were lost: the path may be a wrong one."""
        self._stage = "PATH"
        to = self.message.destination_hash
        with contextlib.suppress(NotFoundError):
            await self._node.drop_path(to)
        await self._node._find_path(to, None)

    # ------------------------------------------------------------------------- links

    async def _direct(self, identity: Identity) -> Delivery:
        """Over a link, opened again when it ends before the message is proven."""
        clock = self._node._driver.loop.time
        for number in range(1, LINKS_MAX + 1):
            began = clock()
            link: Link | None = None
            try:
                link = await self._link()
                delivery = await self._over(link)
            except RefusedError:
                raise
            except (LinkError, ProofError, TransferError) as error:
                if link is not None:
                    self._node._messenger.forget(link)
                if number == LINKS_MAX or self._node.closed:
                    raise
                log.debug(
                    "message %s: %s; once more", self.id.hex(), error, extra=self._node._extra()
                )
                await asyncio.sleep(max(0.0, began + RETRY_WAIT_S - clock()))
            else:
                self._node._messenger.delivered(link, identity)
                return delivery
        raise AssertionError("unreachable")

    async def _link(self) -> Link:
        messenger, to = self._node._messenger, self.message.destination_hash
        self._stage = "PATH"
        if messenger.open_link(to) is None:
            await self._node._find_path(to, None)
        self._stage = "LINK"
        return await messenger.link_to(to)

    async def _over(self, link: Link) -> Delivery:
        message = self.message
        self._advance(MessageState.SENDING)
        form = Representation(representation(int(Method.DIRECT), message.content_size)[1])
        rtt_s = 0.0
        if form is Representation.PACKET:
            self._stage = "PROOF"
            rtt_s = (await link._send_proven(message.packed)).rtt_s
        else:
            self._stage = "TRANSFER"
            found = await self._node.recall(message.destination_hash)
            told = None if found is None else DeliveryAppData.unpack(found.app_data).compression
            await link.send_file(
                message.packed, compression="off" if told is False else "automatic"
            )
        return Delivery(message=message, method=Method.DIRECT, representation=form, rtt_s=rtt_s)


class _NoPathError(Exception):
    """A packet was not sent for want of a path."""


async def _any_done(waiting: Iterable[Receipt], until: float | None) -> None:
    """Waits until one of them is done, or until a time of the event loop's."""
    loop = asyncio.get_running_loop()
    if any(receipt.done for receipt in waiting):
        return
    waiter: asyncio.Future[None] = loop.create_future()
    timer = None if until is None else loop.call_at(until, _wake, waiter)
    calls = [receipt._call for receipt in waiting]
    for call in calls:
        call.waiters.append(waiter)
    try:
        await waiter
    finally:
        if timer is not None:
            timer.cancel()
        for call in calls:
            if not call.done:
                call.waiters.remove(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Sending:
    """A task that sends a message of its own accord."""

    __slots__ = ("before", "cancelled", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.before = task.cancelling()
        self.cancelled = False

    def cancel(self) -> None:
        """The node closes."""
        self.cancelled = True
        self.task.cancel()


@dataclass(frozen=True, slots=True)
class Work:
    """How a message is to be delivered."""

    identity: Identity
    method: MethodName
    stamp_cost: int | Literal["announced"] | None
    timeout: float | None


class Messenger:
    """The links that a node keeps for messages: one for each recipient.

    A link that we opened is used for ten minutes after its last message. A link on which the
    recipient opened and identified itself is as good: no second one is opened then.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._links: dict[DestinationHash, Link] = {}
        self._backs: dict[DestinationHash, Link] = {}
        self._adopted: set[Link] = set()
        self.sending: set[_Sending] = set()
        self._opening: dict[DestinationHash, asyncio.Lock] = {}
        self._idle: dict[DestinationHash, asyncio.TimerHandle] = {}
        self.mailboxes: dict[DestinationHash, Mailbox] = {}

    def draft(
        self,
        destination: DestinationHash,
        content: str | Buffer,
        *,
        title: str | Buffer,
        fields: Mapping[Any, Any] | None,
        timestamp: float | None,
        work: Work,
    ) -> OutgoingMessage:
        """Packs and signs a message."""
        if work.method not in ("auto", "opportunistic", "direct"):
            raise ValueError(f"method must be auto, opportunistic or direct, not {work.method!r}")
        message = Message.create(
            work.identity, destination, content, title=title, fields=fields, timestamp=timestamp
        )
        return OutgoingMessage(self._node, message)

    def open_link(self, destination: DestinationHash) -> Link | None:
        """The link to a recipient that is open, ours or one that it opened."""
        for links in (self._links, self._backs):
            link = links.get(destination)
            if link is not None:
                if not link.closed:
                    return link
                del links[destination]
        return None

    async def link_to(self, destination: DestinationHash) -> Link:
        """The link to a recipient, opened if there is none."""
        lock = self._opening.setdefault(destination, asyncio.Lock())
        async with lock:
            link = self.open_link(destination)
            if link is None:
                link = await self._node.connect(destination)
                self._links[destination] = link
        if not lock.locked():
            self._opening.pop(destination, None)
        self._used(destination)
        return link

    def came_back(self, link: Link, identity: Identity) -> None:
        """A peer said on a link to one of our mailboxes who it is: that link leads to it."""
        self._backs[destination_hash(identity.hash, NAME)] = link

    def delivered(self, link: Link, identity: Identity) -> None:
        """A message was proven: on a link of ours we now say who we are, and take answers."""
        mailbox = self.mailboxes.get(destination_hash(identity.hash, NAME))
        if mailbox is not None and link.initiator and link not in self._adopted:
            self._adopted = {each for each in self._adopted if not each.closed} | {link}
            self._node._spawn(self._adopt(link, mailbox), "message link")

    async def _adopt(self, link: Link, mailbox: Mailbox) -> None:
        link._on_packet = mailbox._link_packet
        link._on_resource = mailbox._resource
        mailbox._adopted.add(link)
        with contextlib.suppress(NetmeshError):  # it ended meanwhile
            await link.set_prove("all")
            await link.set_resources(mailbox._wanted)
            await link.identify(mailbox.identity)

    def forget(self, link: Link) -> None:
        """A message got stuck on it."""
        for links in (self._links, self._backs):
            for destination in [to for to, each in links.items() if each is link]:
                del links[destination]
        self._end(link)

    def _end(self, link: Link) -> None:
        if not link.closed and not self._node.closed:
            self._node._driver.post("link_close", link=link.ref)

    def _used(self, destination: DestinationHash) -> None:
        old = self._idle.pop(destination, None)
        if old is not None:
            old.cancel()
        loop = self._node._driver.loop
        self._idle[destination] = loop.call_later(LINK_IDLE_S, self._expire, destination)

    def _expire(self, destination: DestinationHash) -> None:
        self._idle.pop(destination, None)
        link = self._links.pop(destination, None)
        if link is not None:
            self._end(link)

    def close(self) -> None:
        """The node closes."""
        for sending in self.sending:
            sending.cancel()
        for handle in self._idle.values():
            handle.cancel()
        self._idle.clear()
        self._links.clear()
        self._backs.clear()
        self._adopted.clear()
        self.mailboxes.clear()


@final
class Mailbox:
    """The ``lxmf.delivery`` destination of an identity: what others send messages to.

    Messages are read with ``async for``, or one by one with :meth:`get`; each comes once. When
    256 wait, the mailbox takes no more until some are read: their senders get no proof. With
    ``queue=False`` none wait, for programs that read
    :class:`MessageReceived` from :meth:`netmesh.Node.events`.
    """

    __slots__ = (
        "_adopted",
        "_enforce",
        "_ids",
        "_limit_bytes",
        "_messages",
        "_node",
        "_on_message",
        "_queue",
        "_verify_timeout",
        "dropped",
        "local",
        "stamp_cost",
    )

    local: LocalDestination
    """The destination behind it."""
    stamp_cost: int | None
    """The cost that its announces ask for."""
    dropped: dict[str, int]
    """Messages that were not told of: "malformed", "duplicate", "stamp", "blackholed"."""

    def __init__(
        self,
        node: Node,
        *,
        stamp_cost: int | None,
        enforce_stamps: bool,
        limit_kb: int,
        verify_timeout: float,
        on_message: Callable[[MessageReceived], Any] | None,
        queue: bool,
    ) -> None:
        self._node = node
        self._enforce = enforce_stamps
        self._limit_bytes = limit_kb * 1000
        self._verify_timeout = verify_timeout
        self._on_message = on_message
        self._queue = queue
        self._adopted: set[Link] = set()
        self._ids: OrderedDict[bytes, None] = OrderedDict()
        self._messages: Inbox[MessageReceived] = Inbox(MESSAGES_MAX, self._pause)
        self.stamp_cost = stamp_cost
        self.dropped = {}

    def __repr__(self) -> str:
        return f"<Mailbox {self.hash.hex()}>"

    def __aiter__(self) -> Inbox[MessageReceived]:
        return self._messages

    def __len__(self) -> int:
        """How many messages wait."""
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

    async def get(self, *, timeout: float | None = None) -> MessageReceived:
        """The next message. Raises TimeoutError, StateError when it is closed."""
        return await self._messages.get(timeout=timeout)

    async def announce(self, *, timeout: float | None = None) -> AnnounceSent:
        """Announces it with its display name; errors as for every destination."""
        return await self.local.announce(timeout=timeout)

    async def set_display_name(self, display_name: str | None) -> None:
        """What its next announces say."""
        data = DeliveryAppData(display_name=display_name, stamp_cost=self.stamp_cost)
        await self.local.set_app_data(data.pack())

    async def send(
        self,
        destination: DestinationHash,
        content: str | Buffer = b"",
        *,
        title: str | Buffer = b"",
        fields: Mapping[Any, Any] | None = None,
        timeout: float | None = None,
        stamp_cost: int | Literal["announced"] | None = None,
        method: MethodName = "auto",
    ) -> Delivery:
        """Sends a message from this address; as :meth:`netmesh.Node.send_message`."""
        return await self._node.send_message(
            destination,
            content,
            title=title,
            fields=fields,
            identity=self.identity,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
        )

    async def close(self) -> None:
        """Takes no more messages; those that wait can still be read."""
        self._messages._close()
        self._node._messenger.mailboxes.pop(self.hash, None)
        for link in self._adopted:
            self._node._messenger.forget(link)
        await self.local.close()

    # -------------------------------------------------------------------- inside

    def _wanted(self, offer: Offer) -> bool:
        return offer.size_bytes <= self._limit_bytes

    def _pause(self, paused: bool) -> None:
        self.local._pause(paused)
        self._adopted = {link for link in self._adopted if not link.closed}
        for link in (*self.local.open_links, *self._adopted):
            if not link.closed:
                link._driver.post("link_pause", link=link.ref, on=paused, number=int(paused))

    def _packet(self, packet: PacketReceived) -> Any:
        return self._take(
            lambda: Message.unpack_opportunistic(self.hash, packet.data),
            Method.OPPORTUNISTIC,
            packet,
            packet.packet_hash,
        )

    def _link_packet(self, link: Link, packet: LinkPacketReceived) -> Any:
        return self._take(
            lambda: Message.unpack(packet.data), Method.DIRECT, packet, packet.packet_hash, link
        )

    def _resource(self, link: Link, resource: ResourceReceived) -> Any:
        return self._take(
            lambda: Message.unpack(resource.data),
            Method.DIRECT,
            resource,
            resource.resource_hash,
            link,
        )

    def _opened(self, link: Link) -> None:
        """A peer has opened a link; once it says who it is, the link leads back to it."""

        def identified(who: asyncio.Future[Identity]) -> None:
            if not who.cancelled() and who.exception() is None:
                self._node._messenger.came_back(link, who.result())

        link._remote_key.add_done_callback(identified)

    def _drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        log.debug(
            "mailbox %s: message dropped: %s",
            self.hash.hex(),
            reason,
            extra=self._node._extra(reason=reason),
        )

    def _take(
        self,
        parse: Callable[[], Message],
        method: Method,
        event: PacketReceived | LinkPacketReceived | ResourceReceived,
        packet_hash: bytes,
        link: Link | None = None,
    ) -> Any:
        """What came in: parsed, and told of by a task that looks for the sender's keys."""
        try:
            message = parse()
        except DecodeError:
            self._drop("malformed")
            return None
        if message.destination_hash != self.hash:
            self._drop("malformed")
            return None
        if message.id in self._ids:
            self._drop("duplicate")
            return None
        self._ids[message.id] = None
        while len(self._ids) > IDS_KEPT:
            self._ids.popitem(last=False)
        return self._examine(message, method, event, packet_hash, link)

    async def _examine(
        self,
        message: Message,
        method: Method,
        event: PacketReceived | LinkPacketReceived | ResourceReceived,
        packet_hash: bytes,
        link: Link | None,
    ) -> None:
        stamp_valid: bool | None = None
        if self.stamp_cost is not None:
            stamp_valid = await asyncio.to_thread(message.stamp_valid, self.stamp_cost)
            if self._enforce and not stamp_valid:
                # Another copy may come with a stamp.
                self._ids.pop(message.id, None)
                self._drop("stamp")
                return
        identity, blackholed = await self._source_of(message, link)
        if blackholed:
            self._drop("blackholed")
            return
        verified = identity is not None and message.verify(identity)
        received = MessageReceived(
            time_s=event.time_s,
            time_unix_s=event.time_unix_s,
            message=message,
            mailbox=self.hash,
            identity=identity,
            verified=verified,
            unverified=Unverified.SOURCE_UNKNOWN
            if identity is None
            else Unverified.VERIFIED
            if verified
            else Unverified.SIGNATURE_INVALID,
            method=method,
            packet_hash=packet_hash,
            stamp_valid=stamp_valid,
        )
        self._tell(received)

    def _tell(self, received: MessageReceived) -> None:
        if self._on_message is not None:
            self._node._call_back(self._on_message, received)
        elif self._queue:
            self._messages._put(received)
        self._node._tell(received)

    async def _source_of(self, message: Message, link: Link | None) -> tuple[Identity | None, bool]:
        """The sender's keys: of its link, our own, remembered, or told by the network.

        And whether that identity is blackholed.
        """
        source = message.source_hash
        peer = None if link is None else link.remote_key
        if peer is not None and destination_hash(peer.hash, NAME) == source:
            return peer, await self._is_blackholed(peer)
        local = self._node._locals.get(source)
        if local is not None and local.identity is not None:
            own = local.identity.public_only()
            return own, await self._is_blackholed(own)
        found = await self._node._recall_source(source)
        if found[0] is None and self._verify_timeout > 0:
            try:
                await self._node._find_path(source, self._verify_timeout)
            except (OperationError, StateError):
                return None, False
            found = await self._node._recall_source(source)
        return found

    async def _is_blackholed(self, identity: Identity) -> bool:
        return any(each.identity == identity.hash for each in await self._node.blackholes())


async def open_mailbox(
    node: Node,
    identity: Identity,
    *,
    display_name: str | None,
    ratchets: bool,
    mailbox: Mailbox,
) -> Mailbox:
    """Listens for messages."""
    data = DeliveryAppData(display_name=display_name, stamp_cost=mailbox.stamp_cost)
    mailbox.local = await node.listen(
        NAME,
        identity=identity,
        prove="all",
        resources=mailbox._wanted,
        ratchets=ratchets,
        app_data=data.pack(),
        on_packet=mailbox._packet,
        on_link_packet=mailbox._link_packet,
        on_resource=mailbox._resource,
        on_link=mailbox._opened,
    )
    node._messenger.mailboxes[mailbox.hash] = mailbox
    return mailbox
