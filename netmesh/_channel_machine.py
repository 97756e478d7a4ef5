"""A channel by itself: over something that carries packets and proves them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

from netmesh import _records
from netmesh._core import ChannelCore
from netmesh._messages import MessageTypes, Received, TypedMessage, packed
from netmesh.constants import ReceiptState
from netmesh.errors import (
    ChannelClosedError,
    LimitReached,
    MessageTypeError,
    StateError,
    WindowFullError,
)
from netmesh.records import ChannelRecord, DropReason, OutstandingMessage

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ChannelMachine", "Outlet", "SendResult"]

log = logging.getLogger("netmesh.channel")

H = TypeVar("H", bound=Callable[[Any], Any])


class Outlet(Protocol):
    """What carries the packets of a channel."""

    def send(self, envelope: bytes) -> Buffer:
        """Carries the plaintext of a packet, and names the packet with 32 bytes.

        It has to be another name with each call. What it raises, :meth:`ChannelMachine.send`
        raises; nothing was sent then.
        """

    def prove(self, key: bytes) -> object:
        """Tells the peer that the packet which it named so has arrived."""


@final
class SendResult:
    """A message that was sent: what has become of it so far."""

    __slots__ = ("msgtype", "sequence", "state", "tries")

    sequence: int
    """Its sequence number."""
    msgtype: int
    """Its type."""
    tries: int
    """How often it was tried."""
    state: ReceiptState
    """SENT, DELIVERED, or FAILED when the channel ended first."""

    def __init__(self, sequence: int, msgtype: int) -> None:
        self.sequence = sequence
        self.msgtype = msgtype
        self.tries = 1
        self.state = ReceiptState.SENT

    def __repr__(self) -> str:
        return f"<SendResult {self.sequence} {self.state.name} tries={self.tries}>"


@final
class ChannelMachine:
    """The state machine of a channel, with its outlet, round-trip time and clock given.

    It does no I/O: packets go out through ``outlet``, come in through :meth:`receive` and
    :meth:`proven`, and time passes with :meth:`tick`, which is wanted at :attr:`deadline`.
    ``rtt_s`` is the link's round-trip time (0: not known), ``link_mdu`` the longest plaintext
    of a packet in bytes, ``clock()`` gives monotonic seconds. Messages of registered classes
    come as objects of these; with ``all_types`` all others come as
    :class:`netmesh.channels.RawMessage`, else they are counted and left out. Handlers are
    called in order; one that returns True ends the round, one that raises is logged and hurts
    nobody. Used by one thread at a time.

    Example:
        >>> from netmesh.channels import ChannelMachine, RawMessage
        >>> class Wire:
        ...     def __init__(self) -> None:
        ...         self.packets: list[bytes] = []
        ...         self.proven: list[bytes] = []
        ...
        ...     def send(self, envelope: bytes) -> bytes:
        ...         self.packets.append(envelope)
        ...         return len(self.packets).to_bytes(32, "big")
        ...
        ...     def prove(self, key: bytes) -> None:
        ...         self.proven.append(key)
        >>> there, back = Wire(), Wire()
        >>> alice = ChannelMachine(there, rtt_s=0.1, link_mdu=431, clock=lambda: 5.0)
        >>> bob = ChannelMachine(back, rtt_s=0.1, link_mdu=431, clock=lambda: 5.0, all_types=True)
        >>> handler = bob.add_handler(print)
        >>> result = alice.send(RawMessage(1, b"hello"))
        >>> bob.receive((1).to_bytes(32, "big"), there.packets[0]).name
        RawMessage(msgtype=1, data=b'hello')
        'NONE'
        >>> alice.proven(back.proven[0])
        True
        >>> result
        <SendResult 0 DELIVERED tries=1>
    """

    __slots__ = ("_clock", "_core", "_outlet", "_results", "_types")

    def __init__(
        self,
        outlet: Outlet,
        *,
        rtt_s: float,
        link_mdu: int,
        clock: Callable[[], float],
        all_types: bool = False,
    ) -> None:
        self._outlet = outlet
        self._clock = clock
        self._types = MessageTypes(self._report)
        self._results: dict[int, SendResult] = {}
        self._core = ChannelCore(outlet.send, _records.to_us(rtt_s), link_mdu, all_types)

    def __repr__(self) -> str:
        return f"<ChannelMachine {'open' if self.info.open else 'closed'}>"

    @staticmethod
    def _report(message: str, error: BaseException) -> None:
        log.error("%s", message, exc_info=error)

    @property
    def info(self) -> ChannelRecord:
        """Window, limits, flexibility, rounds, next sequences, counters."""
        return _records.channel(self._core.info())

    @property
    def outstanding(self) -> list[OutstandingMessage]:
        """The messages that are sent and not proven, with their tries; oldest first."""
        return [_records.outstanding(core) for core in self._core.sent()]

    @property
    def ahead(self) -> list[int]:
        """Sequence numbers that came before ones that are missing, nearest first."""
        return self._core.ahead()

    @property
    def deadline(self) -> float | None:
        """When :meth:`tick` is wanted, on the clock; None: never."""
        due = self._core.deadline
        return None if due is None else _records.to_s(due)

    @property
    def _now_us(self) -> int:
        return _records.to_us(self._clock())

    def set_rtt(self, rtt_s: float) -> None:
        """The link's round-trip time is now this."""
        self._core.set_rtt(_records.to_us(rtt_s))

    def register(self, *classes: type[TypedMessage]) -> None:
        """Takes messages of these classes.

        Raises MessageTypeError: "TYPE", "RESERVED", "DUPLICATE_KEY" or "LIMIT".
        """
        for cls in classes:
            self._types.register(cls)
            try:
                self._core.register(cls.MSGTYPE)
            except LimitReached as error:
                raise MessageTypeError("too many types", reason="LIMIT") from error
            except StateError as error:
                raise ChannelClosedError("the channel is closed") from error

    def add_handler(self, handler: H) -> H:
        """Calls ``handler`` with each message, behind the others; quiet when it is there."""
        self._types.add(handler)
        return handler

    def remove_handler(self, handler: Callable[[Any], Any]) -> None:
        """Calls it no more; quiet when it is not there."""
        self._types.remove(handler)

    def send(self, message: Received) -> SendResult:
        """Sends a message.

        Raises WindowFullError, MessageTooLargeError, MessageTypeError, ChannelClosedError, and
        what the outlet raises; then no sequence number was used.
        """
        msgtype, data = packed(message, self.info.mdu)
        try:
            sequence = self._core.send(msgtype, data, self._now_us)
        except LimitReached as error:
            raise WindowFullError("the window of the channel is full") from error
        except StateError as error:
            raise self._closed(error) from error
        result = self._results[sequence] = SendResult(sequence, msgtype)
        return result

    def receive(self, key: Buffer, plaintext: Buffer) -> DropReason:
        """A packet of the peer's came in, which it named ``key``.

        NONE when it was taken, and proven; DUPLICATE when it was taken before, and is proven
        again. A peer that repeats what was proven long ago may lose proofs that are back too
        early: then :meth:`tick` proves, some milliseconds late. Else why not: LINK_PAYLOAD,
        CHANNEL_WINDOW, CHANNEL_CLOSED, NO_CREDIT.
        """
        reason = DropReason(self._core.receive(key, plaintext, self._now_us))
        self._tell()
        return reason

    def proven(self, key: Buffer) -> bool:
        """A packet was proven; whether it was one of this channel's."""
        found = self._core.proven(key, self._now_us)
        self._tell()
        return found

    def tick(self) -> bool:
        """Repeats what is due. False when a message had all its tries: the channel is closed."""
        alive = self._core.tick(self._now_us)
        self._tell()
        for waiting in self._core.sent():
            self._results[waiting["sequence"]].tries = waiting["tries"]
        if not alive:
            self.close()
        return alive

    def pause(self, on: bool = True) -> None:
        """Takes nothing new that comes, and proves nothing, or goes on."""
        self._core.pause(on)

    def close(self) -> None:
        """Ends it: what is not proven has failed. Quiet when repeated."""
        self._core.close()
        self._tell()

    def _closed(self, error: StateError) -> Exception:
        return error if self.info.open else ChannelClosedError("the channel is closed")

    def _tell(self) -> None:
        for kind, *what in self._core.take():
            if kind == 0:
                self._outlet.prove(what[0])
            elif kind == 1:
                self._message(*what)
            else:
                self._ended(*what)

    def _message(self, msgtype: int, sequence: int, reason: str, data: bytes) -> None:
        if reason != "OK":
            log.debug("message %d of type %#06x: %s", sequence, msgtype, reason)
            return
        message = self._types.unpack(msgtype, data)
        if message is not None:
            self._types.call(message)

    def _ended(self, _: int, sequence: int, tries: int, delivered: bool) -> None:
        result = self._results.pop(sequence)
        result.tries = tries
        result.state = ReceiptState.DELIVERED if delivered else ReceiptState.FAILED
