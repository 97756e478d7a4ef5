"""The part of a node that its core talks to: where events go, and the tasks they start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from netmesh._core import NODE_CODES, DestinationHash, RawEvent, RawMail
from netmesh._driver import Driver
from netmesh._inbox import Claim
from netmesh._streams import (
    LOSSY,
    Stream,
    TappedFrame,
    holds_credit,
    kinds_of,
    tapped,
)
from netmesh.events import AnnounceHeard, from_raw
from netmesh.interfaces import (
    CustomInterface,
    Interface,
    InterfaceTrouble,
    PeerFound,
    PeerLost,
    PortTrouble,
)
from netmesh.links import Link
from netmesh.records import EventKind, InterfaceChange
from netmesh.trouble import StorageTrouble, StoreProblem

if TYPE_CHECKING:
    from netmesh.destinations import LocalDestination

__all__ = ["NodeSink"]

log = logging.getLogger("netmesh.node")

BUFFER: Final = 1024

_RECEIVED: Final[int] = NODE_CODES["mail"]["RECEIVED"]
_DROPPED: Final[int] = NODE_CODES["mail"]["DROPPED"]


class NodeSink:
    """What happens to a node's events: to destinations, links, streams and callbacks."""

    _driver: Driver
    _decision_timeout: float
    _receipt_timeout: float | None

    def __init__(self) -> None:
        self._locals: dict[DestinationHash, LocalDestination] = {}
        self._links: dict[int, Link] = {}
        self._interfaces: dict[int, Interface] = {}
        self._online: set[int] = set()
        self._streams: list[Stream[Any]] = []
        self._taps: list[Stream[TappedFrame]] = []
        self._progress_readers = 0
        self._heard: dict[int, Callable[[AnnounceHeard], object]] = {}
        self._mail: dict[DestinationHash, Callable[[RawMail], object]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    # --------------------------------------------------------------------- streams

    def events(
        self, kinds: Iterable[type] | type | None = None, *, buffer: int = BUFFER
    ) -> Stream[Any]:
        """What happens, as a stream of typed events; of some classes only, or of all.

        The classes are those of :mod:`netmesh.events`, and
        :class:`netmesh.interfaces.InterfaceTrouble`, :class:`netmesh.trouble.StorageTrouble`
        and :class:`netmesh.messaging.MessageReceived`. Announces are told to subscribers of
        announces only. Several streams are independent of each other. Of announces, progress
        and changes at most ``buffer`` wait, newer ones are lost and counted; all else waits
        and holds the node's ``credit``.
        """
        codes, own = kinds_of(kinds)
        stream: Stream[Any] = Stream(buffer, self._end_stream, codes, own)
        self._streams.append(stream)
        self._follow()
        return stream

    def _end_stream(self, stream: Stream[Any]) -> None:
        self._streams.remove(stream)
        self._follow()

    def _follow(self) -> None:
        """Progress and paths are told at once while somebody asks for them."""
        if "_driver" in self.__dict__:
            asked = frozenset[int]().union(*(each._codes for each in self._streams))
            progress = self._progress_readers > 0 or EventKind.PROGRESS in asked
            self._driver.core.follow(progress, EventKind.PATH in asked)

    def _read_progress(self, more: int) -> None:
        """So many readers more, or less, of what links receive."""
        self._progress_readers += more
        self._follow()

    def tap(self, *, buffer: int = BUFFER) -> Stream[TappedFrame]:
        """Every frame in and out, as a stream; at most ``buffer`` wait, newer ones are lost."""
        if not self._taps:
            self._driver.post("tap", on=True)
        stream: Stream[TappedFrame] = Stream(buffer, self._end_tap)
        self._taps.append(stream)
        return stream

    def _end_tap(self, stream: Stream[TappedFrame]) -> None:
        self._taps.remove(stream)
        if not self._taps and not self._driver.closed.done():
            self._driver.post("tap", on=False)

    def _tell(self, event: Any) -> None:
        """Tells of something that is the node's own; it may be lost."""
        for stream in tuple(self._streams):
            if isinstance(event, stream._own):
                stream._offer(event)

    # ------------------------------------------------------------- the driver's sink

    def on_event(self, raw: RawEvent, ticket: int) -> None:
        """An event of the engine's."""
        kind = raw.kind
        route = _ROUTES.get(kind)
        if route is None and not self._streams:
            return  # it ended an operation, whose task knows
        claim = Claim(self._driver.free) if holds_credit(kind, raw) else None
        try:
            if route is not None:
                route(self, raw, claim, ticket)
            if self._streams:
                self._tell_streams(kind, raw, claim)
        finally:
            if claim is not None:
                claim.drop()

    def on_mail(self, raw: RawMail, ticket: int) -> None:
        """Something of a mailbox, whose function gives the credit of messages back.

        Messages, what it dropped, and how far letters of an earlier run are.
        """
        if ticket and raw.kind not in (_RECEIVED, _DROPPED):
            return
        take = self._mail.get(raw.mailbox)
        if take is not None:
            take(raw)
        elif raw.holds_credit:
            self._driver.free_mail()

    def _tell_streams(self, kind: int, raw: RawEvent, claim: Claim | None) -> None:
        event: Any = None
        for stream in tuple(self._streams):
            if kind in stream._codes:
                if event is None:
                    event = from_raw(raw)
                if kind in LOSSY:
                    stream._offer(event)
                else:
                    stream._deliver(event, claim)

    def _on_announce(self, raw: RawEvent, _claim: Claim | None, _ticket: int) -> None:
        tell = self._heard.get(raw.token)
        if tell is not None:
            event = from_raw(raw)
            assert isinstance(event, AnnounceHeard)
            tell(event)

    def _on_progress(self, raw: RawEvent, _claim: Claim | None, ticket: int) -> None:
        """What a peer sends has no ticket of ours."""
        link = self._links.get(raw.link)
        if ticket == 0 and link is not None:
            link._on_progress(raw)

    def _on_local(self, raw: RawEvent, claim: Claim | None, _ticket: int) -> None:
        local = self._locals.get(raw.destination)
        if local is not None:
            local._on_event(raw, claim)
        elif raw.token:
            self._driver.post("refuse", token=raw.token)

    def _on_link(self, raw: RawEvent, claim: Claim | None, _ticket: int) -> None:
        link = self._links.get(raw.link)
        if link is not None:
            link._on_event(raw, claim)
        elif raw.kind == EventKind.LINK_ACTIVE and not raw.initiator:
            local = self._locals.get(raw.destination)
            if local is None:
                self._driver.post("link_close", link=raw.link)
                return
            link = self._new_link(raw.destination, local)
            link.ref = raw.link
            self._links[raw.link] = link
            link._on_event(raw, claim)
            local._accepted(link, claim)
        elif raw.token:
            self._driver.post("refuse", token=raw.token)

    def _new_link(self, destination: DestinationHash, local: LocalDestination | None) -> Link:
        raise NotImplementedError

    def _on_iface(self, raw: RawEvent, _claim: Claim | None, _ticket: int) -> None:
        change, number = raw.state, raw.iface
        if change == InterfaceChange.ONLINE:
            self._online.add(number)
        elif change in (InterfaceChange.OFFLINE, InterfaceChange.REMOVED):
            self._online.discard(number)
        interface = self._interfaces.get(number)
        if interface is None:
            return
        if change == InterfaceChange.REMOVED:
            del self._interfaces[number]
            self._forget_interface(interface)
        else:
            interface._set_online(number in self._online)

    def _forget_interface(self, interface: Interface) -> None:
        interface._set_online(False)
        if isinstance(interface.options, CustomInterface):
            interface.options._close()

    def on_frame(self, iface: int, frame: bytes) -> None:
        """A user-written interface has to send a frame."""
        interface = self._interfaces.get(iface)
        if interface is not None and isinstance(interface.options, CustomInterface):
            interface.options._frame(frame)

    def on_tap(self, body: tuple[int, bool, int, int, bytes]) -> None:
        """A frame passed an interface."""
        frame = tapped(body)
        for stream in tuple(self._taps):
            stream._offer(frame)

    def on_trouble(self, body: tuple[int, int, int, int, str, int, int]) -> None:
        """A connection or the storage is in trouble."""
        kind, iface, port, os_error, file, mono_us, unix_us = body
        when: dict[str, Any] = {"time_s": mono_us / 1e6, "time_unix_s": unix_us / 1e6}
        error = -os_error or None
        if kind == 0:
            trouble = PortTrouble(port)
            label = self._label_of(iface)
            log.log(
                logging.INFO if trouble != PortTrouble.CARRIER else logging.WARNING,
                "interface %r: %s %s",
                label,
                trouble.name.lower(),
                file,
                extra=self._extra(interface=label),
            )
            self._tell(
                InterfaceTrouble(
                    **when,
                    interface=iface,
                    label=label,
                    trouble=trouble,
                    os_error=error,
                    device=file or None,
                )
            )
            return
        problem = StoreProblem(kind)
        log.warning("storage: %s of %r", problem.name.lower(), file, extra=self._extra(file=file))
        self._tell(StorageTrouble(**when, problem=problem, file=file, os_error=error))

    def on_peer(self, body: tuple[bool, int, int, str, str, int, int]) -> None:
        """An automatic interface found or lost a peer."""
        found, iface, parent, device, address, mono_us, unix_us = body
        log.info(
            "peer %s on %s %s",
            address,
            device,
            "found" if found else "lost",
            extra=self._extra(interface=self._label_of(parent), device=device),
        )
        kind = PeerFound if found else PeerLost
        self._tell(
            kind(
                time_s=mono_us / 1e6,
                time_unix_s=unix_us / 1e6,
                interface=parent,
                peer=iface,
                device=device,
                address=address,
            )
        )

    def _label_of(self, iface: int) -> str:
        """What an interface is called; of a server's connection what its server is called."""
        interface = self._interfaces.get(iface)
        if interface is not None:
            return interface.label
        for info in self._driver.core.ifaces():
            if info["id"] == iface:
                return str(info["label"])
        return str(iface)

    def _extra(self, **fields: Any) -> dict[str, Any]:
        """What log records of this node carry, for filters and formatters."""
        return {f"netmesh_{name}": value for name, value in fields.items()} | {
            "netmesh_node": self._name()
        }

    def _name(self) -> str:
        raise NotImplementedError

    def on_closed(self) -> None:
        """The node has closed; nothing follows."""
        for link in tuple(self._links.values()):
            link._end()
        for local in tuple(self._locals.values()):
            local._end()
        for interface in tuple(self._interfaces.values()):
            self._forget_interface(interface)
        self._interfaces.clear()
        self._heard.clear()
        for stream in (*self._streams, *self._taps):
            stream._close()

    # ----------------------------------------------------------------------- tasks

    def _report_exception(self, message: str, error: BaseException) -> None:
        """What a program's callable raised goes to the event loop's exception handler."""
        self._driver.loop.call_exception_handler(
            {"message": f"netmesh: {message}", "exception": error}
        )

    def _spawn(
        self,
        work: Coroutine[Any, Any, Any],
        name: str,
        claim: Claim | None = None,
    ) -> asyncio.Task[None]:
        """Runs a coroutine as a task of the node's, which holds a claim until it is done."""
        task = self._driver.loop.create_task(work, name=f"netmesh {name}")
        self._tasks.add(task)
        if claim is not None:
            claim.hold()

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if claim is not None:
                claim.drop()
            if not done.cancelled() and done.exception() is not None:
                error = done.exception()
                assert error is not None
                self._report_exception(f"{name} failed", error)

        task.add_done_callback(ended)
        return task

    def _run_handler(
        self, handler: Callable[..., Any], arguments: tuple[Any, ...], claim: Claim | None
    ) -> None:
        """Calls a plain or async callable of the program's."""
        name = getattr(handler, "__name__", "callback")
        try:
            result = handler(*arguments)
        except Exception as error:
            self._report_exception(f"{name} failed", error)
            return
        if isinstance(result, Awaitable):
            self._spawn(_finish(result), name, claim)

    def _call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        self._run_handler(callback, arguments, None)

    def _decide(
        self, decide: Callable[[Any], Any], about: Any, token: int, claim: Claim | None
    ) -> None:
        """Lets a callable decide about what is held; no answer in time is no."""
        try:
            answer = decide(about)
        except Exception as error:
            self._report_exception("a decision failed", error)
            answer = False
        if isinstance(answer, Awaitable):
            self._spawn(self._decide_later(answer, token), "decision", claim)
        else:
            self._decided(token, bool(answer))

    async def _decide_later(self, answer: Awaitable[Any], token: int) -> None:
        yes = False
        try:
            async with asyncio.timeout(self._decision_timeout):
                yes = bool(await answer)
        except TimeoutError as error:
            log.warning("a decision took too long, which is no", extra=self._extra())
            self._report_exception("a decision timed out", error)
        finally:
            self._decided(token, yes)

    def _decided(self, token: int, yes: bool) -> None:
        if token and not self._driver.closed.done():
            self._driver.post("accept" if yes else "refuse", token=token)


async def _finish(work: Awaitable[Any]) -> None:
    await work


_Route = Callable[[NodeSink, RawEvent, Claim | None, int], None]

# What a node does with an event by itself. The other kinds end operations, or are for streams.
_ROUTES: Final[dict[int, _Route]] = {
    EventKind.ANNOUNCE: NodeSink._on_announce,
    EventKind.PROGRESS: NodeSink._on_progress,
    EventKind.IFACE: NodeSink._on_iface,
    EventKind.PACKET: NodeSink._on_local,
    EventKind.REQUEST: NodeSink._on_local,
    EventKind.LINK_PACKET: NodeSink._on_link,
    EventKind.LINK_ACTIVE: NodeSink._on_link,
    EventKind.LINK_IDENTIFIED: NodeSink._on_link,
    EventKind.LINK_CLOSED: NodeSink._on_link,
    EventKind.RESOURCE_OFFER: NodeSink._on_link,
    EventKind.RESOURCE_IN: NodeSink._on_link,
    EventKind.RESOURCE_IN_FAILED: NodeSink._on_link,
    EventKind.CHANNEL_DATA: NodeSink._on_link,
    EventKind.STREAM_DATA: NodeSink._on_link,
}
