"""Nodes of a simulation: engines that live on media."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, final

from netmesh._core import DestinationHash, Identity, destination_hash
from netmesh._records import to_us
from netmesh.constants import DestinationType
from netmesh.engine import Engine
from netmesh.errors import StateError
from netmesh.events import (
    AnnounceSent,
    ChannelSent,
    Event,
    LinkActive,
    LinkClosed,
    PathResult,
    ReceiptDone,
    ResourceFailed,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
    StreamSent,
)
from netmesh.records import EventKind
from netmesh.sim._medium import Medium

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.sim._simulation import Simulation

E = TypeVar("E")

# What ends an operation.
_ENDS = (
    AnnounceSent,
    ChannelSent,
    PathResult,
    ReceiptDone,
    ResourceFailed,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
    StreamSent,
)

# The announce's emission time as the engine stores it: 8 bytes, big-endian.
_EMITTED_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStats:
    """What a node did, over all its starts."""

    boots: int
    """How often it was started."""
    frames_in: int
    """Frames that reached it."""
    frames_out: int
    """Frames that it gave to media."""
    bytes_in: int
    """Bytes of the first."""
    bytes_out: int
    """Bytes of the second."""
    jobs: int
    """Jobs that came back."""
    stores: int
    """Stores that came back."""
    stores_failed: int
    """How many of them failed."""
    events: int
    """Events."""
    terminal_events: int
    """Ends of operations."""
    operations: int
    """Operations that were begun."""
    live_blocks: int
    """Blocks of memory in use now."""
    live_bytes: int
    """Their bytes."""
    peak_bytes: int
    """The most bytes that were in use."""
    allocations: int
    """Allocations that were asked for."""
    allocations_failed: int
    """How many of them were made to fail."""


@final
class SimNode(Engine):
    """An engine in a simulation; made by :meth:`Simulation.node`.

    It has all methods of :class:`netmesh.engine.Engine`. Time, jobs and outputs are the
    simulation's (``advance``, ``tick``, ``set_clock``, ``run_job`` are StateErrors), and while
    the node is down every method of the engine is a StateError.
    """

    __slots__ = ("_boot", "_ends", "_handlers", "_inbox", "_joining", "_sim", "name", "number")

    name: str
    """Its name."""
    number: int
    """Its number in the simulation, from 1."""

    def __init__(
        self,
        sim: Simulation,
        name: str,
        number: int,
        boot: Callable[[SimNode], object] | None,
    ) -> None:
        # The engine lives in the simulation: nothing of it is made here.
        self._core = sim._core.engine(number)
        self._own = {}
        self._store = None
        self._receipt_timeout_s = None
        self._sim = sim
        self._boot = boot
        self._inbox: list[Event] = []
        self._handlers: list[tuple[type[Any], Callable[[Any], object]]] = []
        self._ends: dict[tuple[str, int], Event] = {}
        self._joining: Medium | None = None
        self.name = name
        self.number = number

    def __repr__(self) -> str:
        return f"<SimNode {self.name}{'' if self.up else ', down'}>"

    # ------------------------------------------------------------------- media

    def connect(self, medium: Medium, **options: Any) -> int:
        """Becomes a member of a medium by a new interface and returns its id.

        ``options`` are those of :meth:`Engine.add_interface`; ``kind`` is "udp" and ``bitrate``
        the medium's rate unless they are given, ``name`` is the medium's. Raises StateError
        when it is a member.
        """
        rate = self._sim._core.medium_options(medium.number)["rate_bps"]
        if rate:
            options.setdefault("bitrate", rate)
        options.setdefault("kind", "udp")
        self._joining = medium
        try:
            return self.add_interface(options.pop("name", medium.name), **options)
        finally:
            self._joining = None

    def _plug(self, kind: str, name: str, options: dict[str, Any]) -> int:
        medium = self._joining
        if medium is None:
            return super()._plug(kind, name, options)
        return self._sim._core.connect(self.number, medium.number, kind, name, options)

    def disconnect(self, medium: Medium) -> None:
        """Leaves a medium; frames that wait there are gone. Raises NotFoundError."""
        self._sim._core.disconnect(self.number, medium.number)

    def interface_on(self, medium: Medium) -> int | None:
        """The id of its interface on a medium, None when it is no member."""
        return self._sim._core.iface_of(self.number, medium.number) or None

    def set_online(self, medium: Medium, online: bool) -> None:
        """Lets its interface on a medium go offline or online. Raises NotFoundError."""
        self._sim._core.reconnect(self.number, medium.number, {"online": online})

    # --------------------------------------------------------------------- life

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self._sim._core.is_up(self.number)

    @property
    def closed(self) -> bool:
        """Whether it is down."""
        return not self.up

    def crash(self) -> None:
        """Cuts the power: everything but the store is gone. Raises StateError when down.

        Of the stores under way each is durable or not, as the seed says. Events that were not
        taken are gone as well.
        """
        self._sim._core.crash(self.number)
        self._sim._forget(self.number)
        self._forget()

    def stop(self) -> None:
        """Ends it in order: operations and links end, peers are told. StateError when down."""
        self._sim._core.stop(self.number)
        self._sim._dispatch()
        self._own.clear()

    def close(self) -> None:
        """Stops it; quiet when it is down."""
        if self.up:
            self.stop()

    def restart(self) -> None:
        """Starts it anew on its media; it knows its identity and what it stored.

        Its ``boot`` function runs. Raises StateError when it is up.
        """
        self._forget()
        self._sim._core.restart(self.number)
        self._start()

    def _forget(self) -> None:
        self._own.clear()
        self._inbox.clear()
        self._ends.clear()

    def _start(self) -> None:
        boot = self._boot
        if boot is not None:
            self._sim.at(self._sim.time_s, lambda: boot(self))

    def step_clock(self, seconds: float) -> None:
        """Moves its wall clock; its monotonic clock does not notice."""
        self._sim._core.clock_step(self.number, to_us(seconds))

    # ------------------------------------------------------------------- events

    def events(self) -> list[Event]:
        """Takes what happened since the last call, in its order."""
        taken = self._inbox[:]
        self._inbox.clear()
        return taken

    def on(self, kind: type[E], handler: Callable[[E], object]) -> None:
        """Calls ``handler`` with each event of a class, at the moment when it happens.

        It may call anything of the node. The event is in :meth:`events` as well.
        """
        self._handlers.append((kind, handler))

    def watch(self, kinds: Iterable[EventKind]) -> None:
        """Hands out events of these kinds only; the others are counted and traced alone."""
        self._sim._core.watch(self.number, sum(1 << int(kind) for kind in set(kinds)))

    def end_of(self, op: int) -> Any:
        """The event that ended an operation, None while it is under way."""
        return self._ends.get(("op", op))

    def state_of(self, link: int) -> LinkActive | LinkClosed | None:
        """The last LinkActive or LinkClosed of a link, None before the first."""
        found = self._ends.get(("link", link))
        return found if isinstance(found, LinkActive | LinkClosed) else None

    def wait(self, op: int | None, *, timeout_s: float = 86_400.0) -> Any:
        """Runs the simulation until an operation has ended; the event that ends it.

        Raises StateError when ``op`` is None, TimeoutError after ``timeout_s`` of virtual time.
        """
        if op is None:
            raise StateError("there is no operation to wait for")
        number = op
        if not self._sim.run(until=lambda: self.end_of(number) is not None, timeout_s=timeout_s):
            raise TimeoutError(f"{self.name}: operation {op} has no end after {timeout_s} s")
        return self.end_of(op)

    def wait_link(self, link: int, *, timeout_s: float = 86_400.0) -> LinkActive | LinkClosed:
        """Runs the simulation until a link is up or has failed. Raises TimeoutError."""
        if not self._sim.run(until=lambda: self.state_of(link) is not None, timeout_s=timeout_s):
            raise TimeoutError(f"{self.name}: link {link} is undecided after {timeout_s} s")
        state = self.state_of(link)
        assert state is not None
        return state

    def _deliver(self, event: Event) -> None:
        if isinstance(event, LinkActive | LinkClosed):
            self._ends["link", event.link] = event
        elif isinstance(event, _ENDS):
            self._ends["op", event.op] = event
        self._inbox.append(event)
        for kind, handler in self._handlers[:]:
            if isinstance(event, kind):
                handler(event)

    # ------------------------------------------------------------------ storage

    @property
    def stored(self) -> dict[str, bytes]:  # type: ignore[override]
        """A copy of all that is durable, by name."""
        core = self._sim._core
        return {
            name: core.stored(self.number, name) or b"" for name in core.stored_names(self.number)
        }

    def store(self, name: str, data: Buffer) -> None:
        """Makes bytes of the program's own durable at once; empty ones remove."""
        self._sim._core.store(self.number, name, data)

    def listen(self, identity: Identity | None, name: str, **options: Any) -> DestinationHash:
        """As :meth:`Engine.listen`, with ratchets and emission time from the store.

        ``ratchet_file`` and ``last_emitted`` may be given all the same.
        """
        single = options.get("type", DestinationType.SINGLE) == DestinationType.SINGLE
        if single and identity is not None:
            address = destination_hash(identity.hash, name).hex()
            core = self._sim._core
            emitted = core.stored(self.number, f"announced/{address}")
            options.setdefault("ratchet_file", core.stored(self.number, f"ratchets/{address}"))
            if emitted is not None and len(emitted) == _EMITTED_BYTES:
                options.setdefault("last_emitted", int.from_bytes(emitted, "big"))
        return super().listen(identity, name, **options)

    @property
    def totals(self) -> NodeStats:
        """What it did, over all its starts."""
        return NodeStats(**self._sim._core.node_stats(self.number))
