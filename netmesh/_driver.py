"""Between a node's core and an asyncio loop: commands out, replies and events in.

Each command has a ticket. Its reply, and the events of what it started, carry it. The core
wakes one descriptor when a sleeping reader has something to read.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from netmesh._core import NODE_CODES, NodeCore, RawEvent, RawMail, RawReply
from netmesh.errors import (
    AuthenticationError,
    EncodeError,
    KeyMissingError,
    LimitReached,
    NetmeshError,
    NotFoundError,
    StateError,
)
from netmesh.records import EventKind

__all__ = ["COMMANDS", "Call", "Driver", "Sink", "failure"]

log = logging.getLogger("netmesh.node")

COMMANDS: Final[dict[str, int]] = NODE_CODES["commands"]
"""The commands of a node by name."""

_KINDS = NODE_CODES["events"]
_REPLY: Final[int] = _KINDS["REPLY"]
_EVENT: Final[int] = _KINDS["EVENT"]
_FRAME: Final[int] = _KINDS["FRAME"]
_TAP: Final[int] = _KINDS["TAP"]
_TROUBLE: Final[int] = _KINDS["TROUBLE"]
_PEER: Final[int] = _KINDS["PEER"]
_MAIL: Final[int] = _KINDS["MAIL"]

# The kinds that end an operation are neighbours.
_END_FIRST: Final = int(EventKind.LINK_CLOSED)
_END_LAST: Final = int(EventKind.STREAM_SENT)

# Events that are taken in one go before other tasks of the loop get their turn.
_BATCH = 128


def failure(reply: RawReply, what: str) -> Exception:
    """The exception for a reply that is an error."""
    reason = reply.reason
    text = f"{what}: {_TEXTS.get(reason, reason.lower())}"
    if reason in ("STATE", "DUPLICATE_KEY", "MISMATCH"):
        return StateError(text, reason=reason)
    if reason == "MISSING":
        return NotFoundError(text)
    if reason == "LIMIT":
        return LimitReached(text)
    if reason in ("TOO_LARGE", "EMPTY", "TYPE"):
        return EncodeError(text, reason=reason, field=what)
    if reason == "NO_KEY":
        return KeyMissingError(text)
    if reason in ("AUTH", "SIGNATURE"):
        return AuthenticationError(text, reason=reason)
    if reason in ("ARGUMENT", "KEY", "RANGE", "LENGTH", "VALUE"):
        return ValueError(text)
    if reason == "MEMORY":
        return MemoryError(text)
    return NetmeshError(text, reason=reason)


_TEXTS: Final[dict[str, str]] = {
    "STATE": "not possible in this state",
    "DUPLICATE_KEY": "exists already",
    "MISMATCH": "known with another key",
    "MISSING": "not found",
    "LIMIT": "the limit is reached",
    "TOO_LARGE": "too large",
    "EMPTY": "empty",
    "TYPE": "not of a type that can do this",
    "NO_KEY": "the private keys are missing",
    "SIGNATURE": "wrong signature",
    "ARGUMENT": "not a valid argument",
}


_LETTERS: Final = frozenset((COMMANDS["mail_send"], COMMANDS["mail_sync"]))


def _goes_on(reply: RawReply) -> bool:
    """Whether events follow the reply of an operation: one without a receipt ends with it."""
    return reply.op != 0 or reply.link != 0 or reply.command in _LETTERS


class Call:
    """A command under way, and the operation that it starts.

    Who waits has a future of its own, which the event resolves: one turn of the loop, and a
    wait that is cancelled disturbs no other.
    """

    __slots__ = (
        "answered",
        "done",
        "end",
        "mail",
        "on_event",
        "on_late",
        "on_mail",
        "on_reply",
        "operation",
        "reply",
        "ticket",
        "waiters",
    )

    reply: RawReply | None
    """The reply; None before it came, and when the node closed without one."""
    done: bool
    """Whether the operation has ended, or the command failed."""
    end: RawEvent | None
    """The last event of the operation; None when the command failed or started none."""
    mail: RawMail | None
    """The newest state of a letter or a fetch that it started."""

    def __init__(
        self,
        ticket: int,
        operation: bool,
        on_reply: Callable[[RawReply], object] | None,
        on_event: Callable[[RawEvent], object] | None,
        on_mail: Callable[[RawMail], object] | None = None,
    ) -> None:
        self.ticket = ticket
        self.operation = operation
        self.on_reply = on_reply
        self.on_event = on_event
        self.on_mail = on_mail
        self.on_late: Callable[[RawReply], object] | None = None
        self.reply = None
        self.done = False
        self.end = None
        self.mail = None
        self.answered: asyncio.Future[None] | None = None
        self.waiters: list[asyncio.Future[None]] = []

    def finish(self, end: RawEvent | None) -> None:
        """It has ended; tells who waits."""
        self.done = True
        self.end = end
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    async def wait(self) -> RawEvent | None:
        """Waits for the end; any number of tasks may."""
        if not self.done:
            waiter = self.waiter()
            try:
                await waiter
            except asyncio.CancelledError:
                self.leave(waiter)
                raise
        return self.end

    def waiter(self) -> asyncio.Future[None]:
        """For one who waits for the end, which has not come."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        return waiter

    def leave(self, waiter: asyncio.Future[None]) -> None:
        """That one waits no longer."""
        if not self.done:
            self.waiters.remove(waiter)


class Sink(Protocol):
    """What a driver tells, each on the event loop."""

    def on_event(self, raw: RawEvent, ticket: int) -> None:
        """An event of the engine's."""

    def on_frame(self, iface: int, frame: bytes) -> None:
        """A user-written interface has to send a frame."""

    def on_tap(self, body: tuple[int, bool, int, int, bytes]) -> None:
        """A frame passed an interface."""

    def on_trouble(self, body: tuple[int, int, int, int, str, int, int]) -> None:
        """A connection or the storage is in trouble."""

    def on_peer(self, body: tuple[bool, int, int, str, str, int, int]) -> None:
        """An automatic interface found or lost a peer."""

    def on_mail(self, raw: RawMail, ticket: int) -> None:
        """A message came in, or a letter or a fetch is further."""

    def on_closed(self) -> None:
        """The node has closed; nothing follows."""


class Driver:
    """One node's core on the running asyncio loop."""

    def __init__(self, core: NodeCore, sink: Sink) -> None:
        self.core = core
        self.loop = asyncio.get_running_loop()
        self.closed = self.loop.create_future()
        self._sink = sink
        self._tickets = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._credit = 0
        self._mail_credit = 0
        self._inside = False  # in _drain, which grants credit at its end
        self._draining: asyncio.Handle | None = None
        self.loop.add_reader(core.fileno(), self._readable)
        self._rest()

    # ---------------------------------------------------------------- commands

    def start(
        self,
        command: str,
        *,
        operation: bool = False,
        on_reply: Callable[[RawReply], object] | None = None,
        on_event: Callable[[RawEvent], object] | None = None,
        on_mail: Callable[[RawMail], object] | None = None,
        **fields: Any,
    ) -> Call:
        """Posts a command. What it is given to call sees what comes before all else does.

        With ``quiet=True`` the reply of an operation that began wakes nobody: for callers that
        wait for its end alone. An error comes at once all the same.
        """
        call = Call(next(self._tickets), operation, on_reply, on_event, on_mail)
        self.core.command(COMMANDS[command], call.ticket, **fields)
        self._calls[call.ticket] = call
        return call

    def post(self, command: str, what: str = "", **fields: Any) -> None:
        """Posts a command whose reply matters only when it is an error, for the log.

        On a node that closes there is nothing left that it could do.
        """
        with contextlib.suppress(StateError):
            self.start(command, on_reply=lambda reply: self._note(reply, what or command), **fields)

    @staticmethod
    def _note(reply: RawReply, what: str) -> None:
        if reply.status < 0:
            log.debug("%s failed: %s", what, reply.reason)

    async def ask(
        self,
        command: str,
        what: str,
        *,
        undo: Callable[[RawReply], object] | None = None,
        on_reply: Callable[[RawReply], object] | None = None,
        **fields: Any,
    ) -> RawReply:
        """Posts a command and waits for its reply; an error is raised as one about ``what``.

        When the task is cancelled meanwhile, ``undo`` sees the reply of a success.
        """
        reply = await self.reply_of(self.start(command, on_reply=on_reply, **fields), undo)
        if reply.status < 0:
            raise failure(reply, what)
        return reply

    async def reply_of(
        self, call: Call, undo: Callable[[RawReply], object] | None = None
    ) -> RawReply:
        """The reply of a call, errors too. One task may wait for it."""
        if call.reply is None and not call.done:
            call.answered = self.loop.create_future()
            try:
                await call.answered
            except asyncio.CancelledError:
                if not call.answered.cancelled():
                    self._undo(undo, call)
                elif not self.closed.done():
                    call.on_late = undo
                if call.operation:
                    self.cancel(call)
                raise
        return self.answer_of(call)

    @staticmethod
    def answer_of(call: Call) -> RawReply:
        """The reply that came. Raises StateError when the node closed without one."""
        if call.reply is None:
            raise StateError("the node was closed")
        return call.reply

    @staticmethod
    def _undo(undo: Callable[[RawReply], object] | None, call: Call) -> None:
        if undo is not None and call.reply is not None and call.reply.status >= 0:
            undo(call.reply)

    def cancel(self, call: Call) -> None:
        """Cancels what a call started; quiet when that has ended."""
        if not call.done:
            self.core.cancel(call.ticket)

    async def end_of(self, call: Call) -> RawEvent | None:
        """The last event of an operation; cancelling the wait cancels the operation."""
        if not call.done:
            waiter = call.waiter()
            try:
                await waiter
            except asyncio.CancelledError:
                call.leave(waiter)
                self.cancel(call)
                raise
        return call.end

    # ------------------------------------------------------------------- credit

    def free(self) -> None:
        """One reliable event is done with."""
        if self.closed.done():
            return
        if self._credit == 0 and not self._inside:
            self.loop.call_soon(self._grant)
        self._credit += 1

    def _grant(self) -> None:
        count, self._credit = self._credit, 0
        if count:
            self.core.credit(count)

    def free_mail(self) -> None:
        """One received message that held credit is done with."""
        if self.closed.done():
            return
        if self._mail_credit == 0 and not self._inside:
            self.loop.call_soon(self._grant_mail)
        self._mail_credit += 1

    def _grant_mail(self) -> None:
        count, self._mail_credit = self._mail_credit, 0
        if count:
            self.core.mail_credit(count)

    # ------------------------------------------------------------------- events

    def _readable(self) -> None:
        self.core.woken()
        self._drain()

    def _drain(self) -> None:
        self._draining = None
        self._inside = True
        try:
            for kind, ticket, body in self.core.next_events(_BATCH):
                try:
                    if kind == _EVENT:
                        self._on_event(ticket, body)
                    elif kind == _REPLY:
                        self._on_reply(ticket, body)
                    elif kind == _MAIL:
                        self._on_mail(ticket, body)
                    else:
                        self._on_other(kind, body)
                except Exception as error:
                    self.loop.call_exception_handler(
                        {"message": "netmesh: an event could not be handled", "exception": error}
                    )
        finally:
            self._inside = False
            if self._credit:
                self._grant()
            if self._mail_credit:
                self._grant_mail()
        self._rest()

    def _rest(self) -> None:
        """Waits for the descriptor, or goes on soon when there is more to read."""
        if not self.closed.done() and self._draining is None and not self.core.sleep():
            self._draining = self.loop.call_soon(self._drain)

    def _on_other(self, kind: int, body: Any) -> None:
        """What no command started."""
        if kind == _FRAME:
            self._sink.on_frame(body[0], body[4])
        elif kind == _TAP:
            self._sink.on_tap(body)
        elif kind == _TROUBLE:
            self._sink.on_trouble(body)
        elif kind == _PEER:
            self._sink.on_peer(body)
        else:
            self._on_closed()

    def _on_reply(self, ticket: int, reply: RawReply) -> None:
        call = self._calls.get(ticket)
        if call is None:
            return
        call.reply = reply
        if reply.status < 0 or not call.operation or not _goes_on(reply):
            del self._calls[ticket]
            call.finish(None)
        try:
            if call.on_reply is not None:
                call.on_reply(reply)
        finally:
            waiter = call.answered
            if waiter is not None:
                if waiter.cancelled():
                    self._undo(call.on_late, call)
                else:
                    waiter.set_result(None)

    def _on_event(self, ticket: int, raw: RawEvent) -> None:
        call = self._calls.get(ticket) if ticket else None
        if call is not None:
            ends = _END_FIRST <= raw.kind <= _END_LAST
            if ends:
                del self._calls[ticket]
            try:
                if call.on_event is not None:
                    call.on_event(raw)
            finally:
                if ends:
                    call.finish(raw)
        self._sink.on_event(raw, ticket)

    def _on_mail(self, ticket: int, raw: RawMail) -> None:
        call = self._calls.get(ticket) if ticket else None
        if call is not None:
            call.mail = raw
            ends = raw.final
            if ends:
                del self._calls[ticket]
            try:
                if call.on_mail is not None:
                    call.on_mail(raw)
            finally:
                if ends:
                    call.finish(None)
        self._sink.on_mail(raw, ticket)

    def _on_closed(self) -> None:
        # The core answers everything before it closes: this is for a reply that got lost
        # to a lack of memory.
        for call in self._calls.values():
            call.finish(None)
            if call.answered is not None and not call.answered.done():
                call.answered.set_result(None)
        self._calls.clear()
        self.detach()
        self.closed.set_result(None)
        self._sink.on_closed()

    def detach(self) -> None:
        """Stops reading."""
        self.loop.remove_reader(self.core.fileno())
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
