"""Programs that answer messages, in twenty lines.

A :class:`Bot` has an address of its own. Messages that begin with its prefix are commands and go to
the function that was registered under the command's name; all others go to the functions
registered with :meth:`Bot.on_message`. Messages whose signature is not verified are passed over,
and so are those of a sender who writes too often.

On a node with a storage a message is done with once its answer is durable: a bot that is killed
before gets the message again, and its answer is sent once.

Example:
    >>> import asyncio
    >>> from netmesh import Node
    >>> from netmesh.bot import Bot, Request
    >>> from netmesh.interfaces import Pipe
    >>> bot = Bot("Counter", rate=None)
    >>> @bot.command("count", help="counts its letters")
    ... async def count(request: Request) -> str:
    ...     return f"{len(request.text)} letters"
    >>> async def main() -> str:
    ...     left, right = Pipe.pair()
    ...     async with Node(interfaces=[left]) as here, Node(interfaces=[right]) as there:
    ...         async with bot.open(here) as running:
    ...             inbox = await there.lxmf(display_name="Ann")
    ...             await inbox.announce()
    ...             await inbox.send(running.address, "/count three words here", timeout=20)
    ...             return (await inbox.get(timeout=20)).content
    >>> asyncio.run(main())
    '16 letters'
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from netmesh._files import write_private_file
from netmesh._mail_kept import Kept
from netmesh._streams import Stream
from netmesh.errors import NetmeshError, StateError, StoreError
from netmesh.events import InterfaceChanged
from netmesh.lxmf.fields import Fields, build, is_chat
from netmesh.node import Node
from netmesh.records import InterfaceChange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netmesh._core import DestinationHash, Identity
    from netmesh.messaging import Mailbox, MessageReceived

__all__ = ["Bot", "Request", "Running", "State"]

log = logging.getLogger("netmesh.bot")

SENDERS_MAX: Final = 4096
AT_ONCE_MAX: Final = 64
ANNOUNCE_S: Final = 3600.0
REPLY_TIMEOUT_S: Final = 300.0
GRACE_S: Final = 10.0

Answer = str | None
Handler = Callable[["Request"], Awaitable[Answer] | Answer]
H = TypeVar("H", bound=Handler)


@final
class State(MutableMapping[str, Any]):
    """What a bot remembers: names and values that JSON can hold.

    In a file of the node's storage if there is one; what a handler changed is durable before
    its answer is sent.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        self._saved = "{}"
        if path is not None and path.exists():
            text = path.read_text("utf-8")
            try:
                found = json.loads(text)
            except ValueError as error:
                raise StateError(f"{path} is damaged: {error}") from None
            if not isinstance(found, dict):
                raise StateError(f"{path} is damaged: it holds no object")
            self._values = found
            self._saved = self._text()

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _text(self) -> str:
        return json.dumps(self._values, ensure_ascii=False)

    def save(self) -> None:
        """Writes it if it has changed. Raises OSError, TypeError for what JSON cannot hold."""
        text = self._text()
        if self._path is not None and text != self._saved:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_private_file(self._path, text.encode())
        self._saved = text


@final
@dataclass(frozen=True, slots=True)
class Request:
    """A message to a bot."""

    message: MessageReceived
    """The whole message."""
    command: str | None
    """The name of the command; None when it is none."""
    text: str
    """What comes after the command's name, or the whole content."""
    running: Running
    """The bot."""
    _answers: _Answers = field(repr=False, compare=False)

    @property
    def sender(self) -> DestinationHash:
        """The address of who wrote."""
        return self.message.source

    @property
    def words(self) -> list[str]:
        """The text, split at spaces."""
        return self.text.split()

    @property
    def fields(self) -> Fields:
        """The fields of the message, typed."""
        return Fields.read(self.message.fields)

    @property
    def state(self) -> State:
        """What the bot remembers."""
        return self.running.state

    async def reply(
        self,
        content: str,
        *,
        title: str = "",
        fields: Mapping[Any, Any] | None = None,
        timeout: float | None = REPLY_TIMEOUT_S,
    ) -> None:
        """Answers, and waits until the answer was delivered.

        One that an earlier run of the bot had already sent on its way is not sent again.

        Raises:
            NetmeshError: It was not, or not in time.
        """
        await self._answers.send(content, title=title, fields=fields, timeout=timeout)


@final
class _Answers:
    """The answers to one message.

    With a store each is durable before the message is acknowledged: a program that is killed gets
    the message again, and leaves out as many answers as the store has already.
    """

    __slots__ = ("_message", "_running", "_sent_before", "unstored")

    def __init__(self, running: Running, message: MessageReceived, sent_before: int) -> None:
        self._running = running
        self._message = message
        self._sent_before = sent_before
        self.unstored = False

    async def send(
        self,
        content: str,
        *,
        title: str = "",
        fields: Mapping[Any, Any] | None = None,
        timeout: float | None = REPLY_TIMEOUT_S,
        last: bool = False,
    ) -> None:
        """Sends one and waits for its delivery; after the ``last`` the message is done with."""
        self._running.state.save()
        if self._sent_before > 0:
            self._sent_before -= 1
            return
        message, mailbox = self._message, self._running.mailbox
        sending = mailbox.send(
            message.source,
            content,
            title=title,
            fields=build(reply_to=message.id, more=fields),
            timeout=timeout,
            stamp_cost="announced",
        )
        if mailbox.kept:
            try:
                await sending.taken()
            except StoreError:
                self.unstored = True
                raise
            if last:
                await self.done()
        await sending

    async def done(self) -> None:
        """Acknowledges the message. Quiet when it was, and when the bot has closed."""
        if not self.unstored:
            with contextlib.suppress(StateError):
                await self._message.ack()


@dataclass(frozen=True, slots=True)
class _Command:
    run: Handler
    help: str
    allowed: frozenset[bytes] | None


class _Sender:
    """What is known of one who writes: a bucket of messages, and one at a time."""

    __slots__ = ("at", "left", "lock")

    def __init__(self, left: float, at: float) -> None:
        self.left = left
        self.at = at
        self.lock = asyncio.Lock()


@final
class Bot:
    """The description of a bot: its name, its commands, its limits.

    Each sender may write ``rate`` messages at once and that many each ``per_s`` seconds; None: as
    often as it likes. ``stamp_cost`` asks senders for proof of work. With ``unverified`` messages
    without a verified signature are answered too. The address is announced at the start and
    every ``announce_s`` seconds; None: never.
    """

    def __init__(
        self,
        name: str,
        *,
        prefix: str = "/",
        rate: int | None = 10,
        per_s: float = 60.0,
        stamp_cost: int | None = None,
        unverified: bool = False,
        announce_s: float | None = ANNOUNCE_S,
    ) -> None:
        if not prefix or prefix != prefix.strip():
            raise ValueError("prefix must be text without spaces around it")
        if rate is not None and rate < 1:
            raise ValueError(f"rate must be 1 or more, not {rate}")
        if per_s <= 0:
            raise ValueError(f"per_s must be above 0, not {per_s}")
        self.name = name
        self.prefix = prefix
        self.rate = rate
        self.per_s = per_s
        self.stamp_cost = stamp_cost
        self.unverified = unverified
        self.announce_s = announce_s
        self._commands: dict[str, _Command] = {}
        self._others: list[Handler] = []

    def __repr__(self) -> str:
        return f"<Bot {self.name!r}, {len(self._commands)} commands>"

    def command(
        self,
        *names: str,
        help: str = "",  # noqa: A002
        allowed: Iterable[DestinationHash] | None = None,
    ) -> Callable[[H], H]:
        """Registers a function under one or more names, which are compared without case.

        The function takes a :class:`Request`, may be async, and what text it returns is the
        answer. ``allowed`` are the addresses that may use it, None: everyone.
        """
        if not names or any(not name or name.split() != [name] for name in names):
            raise ValueError("a command needs a name, one word each")
        who = None if allowed is None else frozenset(bytes(each) for each in allowed)

        def register(handler: H) -> H:
            for name in names:
                if name.lower() in self._commands:
                    raise ValueError(f"there is a command {name!r} already")
                self._commands[name.lower()] = _Command(handler, help, who)
            return handler

        return register

    def on_message(self, handler: H) -> H:
        """Registers a function for messages that are no commands; several are called in order."""
        self._others.append(handler)
        return handler

    def help_text(self) -> str:
        """What the command ``help`` answers, unless there is one of that name."""
        lines = [
            f"{self.prefix}{name}{'  ' if each.help else ''}{each.help}"
            for name, each in self._commands.items()
            if each.allowed is None
        ]
        return "\n".join([*lines, f"{self.prefix}help  this list"])

    @asynccontextmanager
    async def open(
        self, node: Node, *, identity: Identity | None = None, state: str | None = None
    ) -> AsyncIterator[Running]:
        """Runs it on a node that is open, for as long as the block lasts.

        ``identity`` None is the node's. ``state`` names the file that it remembers in; None:
        ``bot.json`` in the node's storage, or nothing without one.

        Raises:
            StateError: What it remembers is damaged.
        """
        path = Path(state) if state is not None else None
        if path is None and node._storage is not None:
            path = Path(node._storage, "bot.json")
        remembered = await asyncio.to_thread(State, path)
        mailbox = await node.lxmf(identity, display_name=self.name, stamp_cost=self.stamp_cost)
        running = Running(self, mailbox, remembered)
        try:
            async with running._serving():
                yield running
        finally:
            await mailbox.close()
            await asyncio.to_thread(remembered.save)

    def run(
        self,
        *,
        storage: str | os.PathLike[str] | None = None,
        state: str | None = None,
        **options: Any,
    ) -> None:
        """Runs it until Ctrl-C, with a node of its own; ``options`` are those of the node.

        On Ctrl-C answers that are under way have ten seconds.
        """

        async def forever() -> None:
            async with (
                Node(storage=storage, **options) as node,
                self.open(node, state=state) as running,
            ):
                log.info("%s is at %s", self.name, running.address.hex())
                await asyncio.get_running_loop().create_future()

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(forever())


async def _online(changes: Stream[InterfaceChanged], timeout: float) -> None:
    """Waits until an interface comes online. Raises TimeoutError."""
    async with asyncio.timeout(timeout):
        async for each in changes:
            if each.change in (InterfaceChange.ADDED, InterfaceChange.ONLINE):
                return


@final
class Running:
    """A bot that runs; made by :meth:`Bot.open`."""

    mailbox: Mailbox
    """Its mailbox."""
    state: State
    """What it remembers."""
    dropped: dict[str, int]
    """Messages that nothing was done about: "unverified", "rate", "silent" (no words, such as
    telemetry), "unknown" (no such command), "denied", "failed" (the function raised)."""

    def __init__(self, bot: Bot, mailbox: Mailbox, state: State) -> None:
        self._bot = bot
        self._senders: OrderedDict[bytes, _Sender] = OrderedDict()
        self._room = asyncio.Semaphore(AT_ONCE_MAX)
        if isinstance(mailbox._messages, Kept):
            mailbox._messages.by_hand = True
        self._tasks: set[asyncio.Task[None]] = set()
        self.mailbox = mailbox
        self.state = state
        self.dropped = {}

    @property
    def address(self) -> DestinationHash:
        """Where to write to it."""
        return self.mailbox.hash

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """Reads and announces; at the end what is under way has some seconds."""
        jobs = [asyncio.create_task(self._read(), name="netmesh bot")]
        if self._bot.announce_s is not None:
            jobs.append(asyncio.create_task(self._announce(self._bot.announce_s)))
        try:
            yield
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=GRACE_S)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self) -> None:
        async for message in self.mailbox:
            await self._room.acquire()
            task = asyncio.create_task(self._take(message), name="netmesh bot message")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()

    async def _announce(self, interval_s: float) -> None:
        while True:
            async with self.mailbox._node.events(InterfaceChanged) as changes:
                try:
                    await self.mailbox.announce()
                except NetmeshError as error:  # no interface is up: again with the next one
                    log.debug("%s was not announced: %s", self._bot.name, error)
                    with contextlib.suppress(TimeoutError):
                        await _online(changes, interval_s)
                    continue
            await asyncio.sleep(interval_s)

    def _drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def _sender(self, address: bytes) -> _Sender:
        """What is known of a sender; who wrote longest ago is forgotten."""
        now = time.monotonic()
        rate = float(self._bot.rate or 0)
        known = self._senders.pop(address, None) or _Sender(rate, now)
        known.left = min(rate, known.left + (now - known.at) * rate / self._bot.per_s)
        known.at = now
        self._senders[address] = known
        while len(self._senders) > SENDERS_MAX:
            self._senders.popitem(last=False)
        return known

    async def _take(self, message: MessageReceived) -> None:
        answers = _Answers(self, message, 0)
        if self._is_for_us(message):
            sender = self._sender(bytes(message.source))
            if self._bot.rate is not None and sender.left < 1:
                self._drop("rate")
            else:
                sender.left -= 1
                async with sender.lock:
                    answers = _Answers(self, message, await self._count_answers(message))
                    await self._handle(message, answers)
        # One whose handling was cut short by the end of the bot comes again.
        await answers.done()

    def _is_for_us(self, message: MessageReceived) -> bool:
        if not message.verified and not self._bot.unverified:
            self._drop("unverified")
        elif not is_chat(message.title, message.content, message.fields):
            self._drop("silent")
        else:
            return True
        return False

    async def _count_answers(self, message: MessageReceived) -> int:
        """How many answers to a message an earlier run has left in the store."""
        store, row = self.mailbox.store, message.row
        if store is None or row is None or message.time_s:
            return 0

        def count() -> int:
            later = store.messages(
                mailbox=self.address, peer=message.source, direction="outgoing", cursor=row
            )
            found = (each.message for each in later if each.message is not None)
            return sum(Fields.read(each.fields).reply_to == message.id for each in found)

        return await asyncio.to_thread(count)

    async def _handle(self, message: MessageReceived, answers: _Answers) -> None:
        bot, content = self._bot, message.content.strip()
        if not content.startswith(bot.prefix):
            request = Request(message, None, content, self, answers)
            for handler in bot._others:
                await self._call(handler, request, last=handler is bot._others[-1])
            return
        name, _, text = content.removeprefix(bot.prefix).partition(" ")
        request = Request(message, name.lower(), text.strip(), self, answers)
        command = bot._commands.get(name.lower())
        if command is None and name.lower() == "help":
            await self._call(lambda _: bot.help_text(), request)
        elif command is None:
            self._drop("unknown")
            await self._call(lambda _: f"Unknown. Try {bot.prefix}help", request)
        elif command.allowed is not None and bytes(request.sender) not in command.allowed:
            self._drop("denied")
            await self._call(lambda _: "You may not.", request)
        else:
            await self._call(command.run, request)

    async def _call(self, handler: Handler, request: Request, *, last: bool = True) -> None:
        """Calls a function and sends what it answers; what it raises ends it alone."""
        try:
            answer = handler(request)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is not None:
                await request._answers.send(answer, last=last)
            else:
                self.state.save()
        except NetmeshError as error:
            self._drop("failed")
            log.info("%s could not answer %s: %s", self._bot.name, request.sender.hex(), error)
        except Exception:
            self._drop("failed")
            log.exception("%s failed on a message of %s", self._bot.name, request.sender.hex())
