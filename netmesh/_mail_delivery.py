"""A message on its way out: what it is, how far it is, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, final

from netmesh._core import Message, RawMail, RawReply
from netmesh._driver import Call, failure
from netmesh.constants import MessageState, Method, Representation
from netmesh.errors import (
    EncodeError,
    IdentityUnknownError,
    LinkError,
    NotFoundError,
    OperationError,
    PathError,
    ProofError,
    RefusedError,
    SendError,
    StateError,
    StoreError,
    TransferError,
)
from netmesh.records import Stage

if TYPE_CHECKING:
    from netmesh._mail_desk import MailDesk

__all__ = ["Delivery", "DeliveryUpdate", "OutgoingMessage", "Updates"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that the recipient has proven, or that a propagation node keeps for it."""

    message: Message
    """The message, as it was packed here."""
    method: Method
    """How it was delivered."""
    representation: Representation
    """As a packet or as a resource."""
    rtt_s: float
    """From sending to the proof; 0 for a resource."""
    state: MessageState = MessageState.DELIVERED
    """DELIVERED; SENT when a propagation node has it, which ends what its sender learns."""
    attempts: int = 0
    """How often its last way was tried."""

    @property
    def id(self) -> bytes:
        """32 bytes: what names the message everywhere."""
        return self.message.id


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryUpdate:
    """How far a message is."""

    id: bytes
    """32 bytes: which message."""
    state: MessageState
    """Its state."""
    progress: float
    """From 0 to 1 as upstream counts: 0.03 a link is opened, 0.5 a packet was sent, 0.1 to 1 the
    share of a resource that has arrived, 1 done."""
    method: Method
    """The way that is tried."""
    attempts: int
    """How often that way was tried."""
    done: bool
    """Whether nothing follows."""


_BY_STAGE: Final[dict[Stage, type[OperationError]]] = {
    Stage.PATH: PathError,
    Stage.IDENTITY: IdentityUnknownError,
    Stage.LINK: LinkError,
    Stage.SEND: SendError,
    Stage.PROOF: ProofError,
    Stage.TRANSFER: TransferError,
    Stage.STORE: StoreError,
}

_ENDED_BADLY: Final = MessageState.REJECTED


@final
class OutgoingMessage:
    """A message on its way. ``await`` it for its :class:`Delivery`.

    Raises what :meth:`netmesh.Node.send_message` raises. A failure that nobody awaits is in
    :attr:`state` alone. Cancelling a task that awaits it cancels the message.
    """

    __slots__ = (
        "_attempts",
        "_call",
        "_desk",
        "_followed",
        "_listeners",
        "_method",
        "_progress",
        "_state",
        "message",
    )

    message: Message
    """The message, as it was packed here: a stamp that the node makes is not in it."""

    def __init__(self, desk: MailDesk, message: Message, method: Method) -> None:
        self._desk = desk
        self._call: Call
        self._state = MessageState.GENERATING
        self._progress = 0.0
        self._method = method
        self._attempts = 0
        self._followed = False
        self._listeners: list[asyncio.Future[None]] = []
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
        """GENERATING, OUTBOUND, SENDING or SENT, then DELIVERED, REJECTED, CANCELLED or FAILED.

        It only moves forward. A message that was left to a propagation node ends as SENT.
        """
        return self._state

    @property
    def progress(self) -> float:
        """From 0 to 1; see :attr:`DeliveryUpdate.progress`. 0 for one that failed."""
        return self._progress

    @property
    def method(self) -> Method:
        """The way that is tried, or was the last one."""
        return self._method

    @property
    def attempts(self) -> int:
        """How often that way was tried."""
        return self._attempts

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._call.done

    async def wait(self, *, timeout: float | None = None) -> Delivery:
        """The same as awaiting it, for at most ``timeout`` seconds; then it is cancelled.

        Raises TimeoutError then.
        """
        async with asyncio.timeout(timeout):
            return await self._result()

    async def taken(self) -> None:
        """Waits until the node has it, durable in its storage if the mailbox has a store.

        From then on it is on its way, whatever becomes of this program. Raises what is wrong with
        it: EncodeError when it fits no step of its policy, NotFoundError without a propagation
        node where it needs one, LimitReached, StoreError.
        """
        if self._call.ticket == 0:  # of an earlier run
            return
        await self._desk.replied(self._call)
        if self._call.reply is None or self._call.reply.status < 0:
            raise self._error()

    def updates(self) -> Updates:
        """How far it is, whenever that changes, until it has ended.

        Who is slow gets the newest. ``async for``; each call is independent of others.
        """
        if not self._followed and not self.done:
            self._followed = True
            self._desk.follow(1)
        return Updates(self)

    def cancel(self) -> None:
        """Gives up. Quiet when it has ended."""
        self._desk.cancel(self)

    # -------------------------------------------------------------------- inside

    def _update(self) -> DeliveryUpdate:
        return DeliveryUpdate(
            id=self.id,
            state=self._state,
            progress=self._progress,
            method=self._method,
            attempts=self._attempts,
            done=self._call.done,
        )

    def _on_reply(self, reply: RawReply) -> None:
        if reply.status < 0:
            self._state = MessageState.FAILED
            self._desk.ended(self)
        else:
            self._state = max(self._state, MessageState.OUTBOUND)
        self._tell()

    def _on_mail(self, raw: RawMail) -> None:
        state = MessageState(raw.state)
        self._state = state if raw.final else max(self._state, state)
        self._progress = raw.progress
        self._attempts = raw.attempts
        self._method = Method(raw.method)
        self._tell()

        if raw.final:
            self._desk.ended(self)

    def _tell(self) -> None:
        for each in self._listeners:
            if not each.done():
                each.set_result(None)
        self._listeners.clear()

    async def _changed(self) -> None:
        """Waits for news of it, or for its end."""
        listener: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners.append(listener)
        self._call.waiters.append(listener)
        try:
            await listener
        finally:
            for where in (self._listeners, self._call.waiters):
                if listener in where:
                    where.remove(listener)

    async def _result(self) -> Delivery:
        try:
            await self._call.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        end = self._call.mail
        if end is None or not end.final or end.state >= _ENDED_BADLY:
            raise self._error()
        return Delivery(
            message=self.message,
            method=Method(end.method),
            representation=Representation(end.representation),
            rtt_s=end.rtt_us / 1e6,
            state=MessageState(end.state),
            attempts=end.attempts,
        )

    def _error(self) -> Exception:
        """What became of it, or why it was not taken."""
        end, reply = self._call.mail, self._call.reply
        if end is not None and end.final:
            return self._failed(end)
        if reply is None or reply.status >= 0:
            return StateError("the node was closed")
        return self._refused(reply)

    def _refused(self, reply: RawReply) -> Exception:
        if reply.reason == "TOO_LARGE":
            return EncodeError(
                "the message does not fit its method", reason="TOO_LARGE", field="content"
            )
        if reply.reason == "MISSING":
            return NotFoundError("no propagation node is set, or the mailbox is closed")
        if reply.reason in ("STORE", "FULL"):
            return StoreError(
                "the message could not be stored",
                reason=reply.reason,
                stage="STORE",
                destination=bytes(self.message.destination_hash),
            )
        return failure(reply, "message")

    def _failed(self, end: RawMail) -> OperationError:
        destination = bytes(self.message.destination_hash)
        if end.state == MessageState.REJECTED:
            who = "node" if end.method == Method.PROPAGATED else "recipient"
            return RefusedError(
                f"the {who} refused the message",
                reason="STATE",
                stage="REFUSED",
                destination=destination,
            )
        if end.state == MessageState.CANCELLED:
            return OperationError(
                "the message was cancelled",
                reason="CANCELLED",
                stage="CANCELLED",
                destination=destination,
            )
        stage = Stage(end.stage)
        name = stage.name if stage != Stage.NONE else "SEND"
        return _BY_STAGE.get(stage, OperationError)(
            f"the message was not delivered (stage {name}, {end.attempts} attempts)",
            reason="TIMEOUT",
            stage=name,
            destination=destination,
        )


@final
class Updates:
    """The updates of one message, read with ``async for``; the first is how it is now."""

    __slots__ = ("_last", "_outgoing")

    def __init__(self, outgoing: OutgoingMessage) -> None:
        self._outgoing = outgoing
        self._last: DeliveryUpdate | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DeliveryUpdate:
        while self._last is None or not self._last.done:
            update = self._outgoing._update()
            if update != self._last:
                self._last = update
                return update
            await self._outgoing._changed()
        raise StopAsyncIteration
