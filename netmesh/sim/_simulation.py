"""A simulation: nodes, media, and the clock that they share."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO, final

from netmesh._core import Identity, RawEvent, SimCore
from netmesh._records import to_s, to_us
from netmesh.errors import NetmeshError, StateError
from netmesh.events import from_raw
from netmesh.records import FlightRecord, Limits, RecordKind
from netmesh.sim._medium import Medium, core_options, duration_us, ppm
from netmesh.sim._node import SimNode

# Why the core paused.
_TIME, _EVENT, _CALL, _FAILED = range(4)

# How often a condition is looked at when nothing happens, and how much is traced at once.
_SLICE_US = 1_000_000
# Lines of each flight recorder in a report.
_TAIL = 12
_MONO_START_S = 1000.0
_UNIX_START_S = 1_700_000_000.0


class SimulationError(NetmeshError):
    """What must always hold does not: a defect, or a scenario's expectation that failed.

    ``seed`` and ``time_s`` say where, ``command`` repeats it (None outside of a registered
    scenario), ``flights`` are the last lines of each node's flight recorder.
    """

    def __init__(
        self,
        message: str,
        *,
        seed: int,
        time_s: float,
        command: str | None = None,
        flights: dict[str, list[FlightRecord]] | None = None,
    ) -> None:
        super().__init__(message, reason="INVARIANT")
        self.seed = seed
        self.time_s = time_s
        self.command = command
        self.flights = {} if flights is None else flights

    def __str__(self) -> str:
        again = f"seed {self.seed}" if self.command is None else self.command
        return f"{self.args[0]}\nrepeat it: {again}"

    def report(self) -> str:
        """The message with the flight recorders' tails."""
        lines = [str(self)]
        for node, records in self.flights.items():
            lines.append(f"last of {node}:")
            lines += [f"  {flight_text(record)}" for record in records]
        return "\n".join(lines)


def flight_text(record: FlightRecord) -> str:
    """One line of a flight recorder as text."""
    what = record.kind.name.lower()
    if record.reason is not None:
        what += f" {record.reason.name}" + (" (a job decides)" if record.pending else "")
    elif record.event is not None:
        what += f" {record.event.name}"
    elif record.job is not None:
        what += f" {record.job.name}"
    parts = [f"{record.time_s:.6f} {what}"]
    if record.interface is not None:
        parts.append(f"interface {record.interface}")
    if record.kind in (RecordKind.INPUT, RecordKind.OUTPUT):
        parts.append(f"{record.size_bytes} bytes context {record.context:#04x} hops {record.hops}")
    if any(record.destination):
        parts.append(f"to {record.destination.hex()[:8]}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationStats:
    """What a simulation did so far."""

    steps: int
    """Things that happened: arrivals, transmissions, jobs, timers, calls."""
    frames: int
    """Frames that reached an engine."""
    events: int
    """Events of all nodes."""
    notes: int
    """Facts that went into the digest."""
    checks: int
    """Nodes that were checked after a step."""


@final
class Simulation:
    """Engines on seeded media under virtual time. Used by one thread at a time.

    ``seed`` (0 to 2**53) defines every random choice. ``start_unix_s`` is what wall clocks show
    at the start. ``check_all`` looks at every node and medium after each step, not only at what
    the step touched. ``trace`` is a file (or its path) that gets a line for each thing that
    happens: two runs can then be compared line by line. ``command`` is what an error tells to
    repeat the run; :func:`netmesh.sim.run_scenario` sets it.

    As a context manager it ends with :meth:`finish`. Everything random in a scenario should
    come from :attr:`random` and keys from :meth:`identity`: then the digest is the same each
    time.
    """

    __slots__ = (
        "_calls",
        "_core",
        "_next_call",
        "_nodes",
        "_queue",
        "_running",
        "_trace",
        "_trace_owned",
        "command",
        "random",
        "seed",
    )

    seed: int
    """The seed."""
    random: random.Random
    """Random numbers for the scenario itself, from the seed."""
    command: str | None
    """The command that repeats this run."""

    def __init__(
        self,
        *,
        seed: int,
        start_unix_s: float = _UNIX_START_S,
        check_all: bool = False,
        steps_at_once_max: int = 100_000,
        trace: str | Path | TextIO | None = None,
        command: str | None = None,
    ) -> None:
        self._core = SimCore(
            seed, to_us(_MONO_START_S), to_us(start_unix_s), steps_at_once_max, check_all
        )
        self.seed = seed
        self.random = random.Random(seed)  # noqa: S311 - a simulation repeats itself
        self.command = command
        self._nodes: list[SimNode] = []
        self._calls: dict[int, Callable[[], object]] = {}
        self._next_call = 0
        self._queue: deque[tuple[int, RawEvent]] = deque()
        self._running = False
        self._trace: TextIO | None = None
        self._trace_owned = isinstance(trace, str | Path)
        if isinstance(trace, str | Path):
            self._trace = Path(trace).open("w", encoding="utf-8")  # noqa: SIM115
        else:
            self._trace = trace
        if self._trace is not None:
            self._core.trace(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            self._write_trace()
            if self._trace is not None and self._trace_owned:
                self._trace.close()
                self._trace = None

    def __repr__(self) -> str:
        return f"<Simulation seed={self.seed} time_s={self.time_s}>"

    # --------------------------------------------------------------- what is in it

    def node(
        self,
        name: str,
        *,
        identity: Identity | None = None,
        transport: bool = False,
        shared_instance: bool = False,
        implicit_proofs: bool = True,
        link_mtu_discovery: bool = True,
        limits: Limits | None = None,
        clock_ahead_s: float = 0.0,
        job_delay: float | tuple[float, float] = 0.0,
        store_s: float | tuple[float, float] = (0.001, 0.005),
        store_failure: float = 0.0,
        credit: int | None = None,
        allocation_failure: float = 0.0,
        boot: Callable[[SimNode], object] | None = None,
    ) -> SimNode:
        """Adds a running node.

        The first options are those of :class:`netmesh.engine.Engine`; without an ``identity``
        the seed makes one. ``clock_ahead_s`` is how far its wall clock is ahead.

        ``job_delay`` is the time that a job (a signature, a decryption) takes, as a multiple of
        its estimated cost: 0.0 runs jobs at once, a pair draws a factor for each, so that jobs
        overtake each other. ``store_s`` is how long it takes until a store is durable, and
        ``store_failure`` the chance that it fails. ``credit`` is the room for reliable events;
        None never runs out, a number is what :meth:`SimNode.credit` adds to.
        ``allocation_failure`` is the chance that an allocation of the engine fails.

        ``boot(node)`` is the node's program: it is called when the node was started and after
        each restart.

        Raises StateError for a name that is taken, ValueError for a value out of range.
        """
        factors = job_delay if isinstance(job_delay, tuple) else (job_delay, job_delay)
        times = store_s if isinstance(store_s, tuple) else (store_s, store_s)
        options: dict[str, int | bool] = {
            "clock_ahead_us": to_us(clock_ahead_s),
            "job_percent_min": round(factors[0] * 100),
            "job_percent_max": round(factors[1] * 100),
            "store_us_min": duration_us(times[0], "store_s"),
            "store_us_max": duration_us(times[1], "store_s"),
            "store_failure_ppm": ppm(store_failure, "store_failure"),
            "auto_credit": credit is None,
            "allocation_failure_ppm": ppm(allocation_failure, "allocation_failure"),
        }
        if credit is not None:
            options["credit"] = credit
        settings = {
            "transport": transport,
            "shared_instance": shared_instance,
            "implicit_proofs": implicit_proofs,
            "link_mtu_discovery": link_mtu_discovery,
        }
        given = {name: value for name, value in asdict(limits or Limits()).items() if value}
        number = self._core.node_add(name, identity, settings, given, options)
        node = SimNode(self, name, number, boot)
        self._nodes.append(node)
        node._start()
        return node

    def medium(
        self,
        name: str,
        *,
        rate_bps: int | None = None,
        frame_s: float = 0.0,
        delay_s: float = 0.0,
        jitter_s: float = 0.0,
        loss: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        reorder_s: float = 0.0,
        corrupt: float = 0.0,
        half_duplex: bool = False,
        in_order: bool = False,
        queue_frames: int = 256,
        mtu: int | None = None,
    ) -> Medium:
        """Adds a medium.

        ``rate_bps`` is bit/s, None takes no time to send; ``frame_s`` is what each frame takes
        in addition. ``delay_s`` is the propagation, ``jitter_s`` how much more it may be.
        ``loss``, ``duplicate``, ``reorder`` and ``corrupt`` are chances of 0.0 to 1.0 for each
        frame and receiver: to be lost, to arrive twice, to be held back by up to ``reorder_s``,
        to have one to four bits flipped. With ``half_duplex`` all members share one queue,
        first come, first sent; else each sends when it likes. ``in_order`` lets no frame of a
        sender overtake another one. ``queue_frames`` bounds what waits from each member,
        ``mtu`` the length of frames.

        Raises StateError for a name that is taken, ValueError for a value out of range.
        """
        options = {
            "rate_bps": rate_bps,
            "frame_s": frame_s,
            "delay_s": delay_s,
            "jitter_s": jitter_s,
            "loss": loss,
            "duplicate": duplicate,
            "reorder": reorder,
            "reorder_s": reorder_s,
            "corrupt": corrupt,
            "half_duplex": half_duplex,
            "in_order": in_order,
            "queue_frames": queue_frames,
            "mtu": mtu,
        }
        return Medium(self, name, self._core.medium_add(name, core_options(options)))

    def cable(self, one: SimNode, other: SimNode, **options: object) -> Medium:
        """A medium of its own between two nodes, with interfaces of the kind "tcp".

        ``options`` are those of :meth:`medium`.
        """
        medium = self.medium(f"{one.name}-{other.name}", **options)  # type: ignore[arg-type]
        for node in (one, other):
            node.connect(medium, kind="tcp")
        return medium

    def identity(self, name: str) -> Identity:
        """The identity that the seed and a name define."""
        text = f"netmesh simulation identity {self.seed} {name}".encode()
        return Identity.from_private(hashlib.sha512(text).digest())

    @property
    def nodes(self) -> Sequence[SimNode]:
        """All nodes, in the order they were added."""
        return tuple(self._nodes)

    # ------------------------------------------------------------------------ time

    @property
    def time_s(self) -> float:
        """Seconds since the start."""
        return to_s(self._core.time_us)

    @property
    def idle(self) -> bool:
        """Whether nothing is due any more: no frame, job, store, timer or call."""
        return self._core.idle and not self._queue

    def at(self, time_s: float, call: Callable[[], object]) -> None:
        """Calls ``call()`` at a moment, in seconds since the start; at once when it is past."""
        tag = self._next_call
        self._next_call += 1
        self._calls[tag] = call
        self._core.call_at(to_us(max(0.0, time_s)), tag)

    def after(self, delay_s: float, call: Callable[[], object]) -> None:
        """Calls ``call()`` after a delay."""
        self.at(self.time_s + delay_s, call)

    def run(
        self,
        seconds: float | None = None,
        *,
        until: Callable[[], bool] | None = None,
        timeout_s: float = 86_400.0,
    ) -> bool:
        """Lets virtual time pass: some seconds, or until a condition holds.

        Handlers and calls run on the way, at their moments. With ``until`` the condition is
        looked at whenever events came or a call was made, and once a second; the result tells
        whether it held within ``timeout_s`` (without: True). An exception of a handler, a call
        or the condition ends the run and comes out here.

        Raises SimulationError when something does not hold, StateError from within a handler.
        """
        if (seconds is None) == (until is None):
            raise ValueError("give either seconds or until")
        if self._running:
            raise StateError("the simulation runs already")
        span = timeout_s if seconds is None else seconds
        end = self._core.time_us + duration_us(span, "seconds")
        self._running = True
        try:
            self._dispatch()
            return self._run_to(end, until)
        finally:
            self._running = False

    def _run_to(self, end: int, until: Callable[[], bool] | None) -> bool:
        while True:
            if until is not None and until():
                return True
            stop = end
            if until is not None or self._trace is not None:
                stop = min(end, self._core.time_us + _SLICE_US)
            pause = self._core.run(stop)
            self._write_trace()
            if pause == _FAILED:
                self._raise(self._core.failure or "the simulation has ended")
            if pause == _TIME:
                if stop == end:
                    return until is None or until()
                continue
            self._dispatch()

    def _dispatch(self) -> None:
        """Hands events to their nodes, and makes the calls that are due."""
        self._queue.extend(self._core.events())
        while self._queue:
            number, raw = self._queue.popleft()
            node = self._nodes[number - 1]
            node._deliver(from_raw(raw))
            self._queue.extend(self._core.events())
        while (tag := self._core.due()) is not None:
            self._calls.pop(tag)()

    def _forget(self, number: int) -> None:
        """Drops the events of a node that nobody has taken."""
        self._queue = deque(item for item in self._queue if item[0] != number)

    # ------------------------------------------------------------------------- ends

    def expect(self, condition: object, text: str) -> None:
        """Raises SimulationError with ``text`` unless ``condition`` is true."""
        if not condition:
            self.fail(text)

    def fail(self, text: str) -> None:
        """Raises SimulationError with ``text``; the simulation has failed then."""
        self._core.fail(text.replace("\0", " "))
        self._raise(self._core.failure or text)

    def finish(self) -> None:
        """Ends everything in order and checks what must hold then.

        All nodes stop, what is on the way arrives or goes. Raises SimulationError when an
        operation has no end, memory was lost, or something failed earlier. Only figures and the
        digest can be read afterwards.
        """
        for node in self._nodes:
            node.close()
        failure = self._core.finish()
        self._write_trace()
        if failure is not None:
            self._raise(failure)

    def _raise(self, failure: str) -> None:
        flights = {node.name: node.records()[-_TAIL:] for node in self._nodes if node.up}
        raise SimulationError(
            failure,
            seed=self.seed,
            time_s=self.time_s,
            command=self.command,
            flights=flights,
        )

    def _write_trace(self) -> None:
        if self._trace is not None:
            self._trace.write(self._core.take_trace())

    # ---------------------------------------------------------------------- figures

    @property
    def digest(self) -> str:
        """SHA-256 over every frame, verdict, job, store and event so far with its time."""
        return self._core.digest().hex()

    @property
    def stats(self) -> SimulationStats:
        """What it did so far."""
        return SimulationStats(**self._core.stats())
