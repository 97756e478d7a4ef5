"""Drives the workers: blocks of all arms interleaved, each output checked."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netmesh.bench.arms import Arm
from netmesh.bench.kit.fixtures import fingerprint
from netmesh.bench.kit.histogram import Histogram
from netmesh.bench.model import Kind, Row, Suite
from netmesh.bench.process import Process, RowError, WorkerError

PREPARE_TIMEOUT_S = 180.0
BLOCK_TIMEOUT_S = 60.0
TRY_BLOCK_NS = 5_000_000
"""Blocks of searches are longer: a worker proves each by finding a stamp afterwards."""

TRIES_EACH = 65536
"""Most tries that one entry of a search's histogram spans."""

CONTROL_ROW = "control.empty"


@dataclass(frozen=True, slots=True)
class Profile:
    """How much is measured.

    ``blocks`` of about ``block_ns`` in each of ``runs`` runs with fresh processes. Every turn
    of an arm starts with ``warm_ns`` that do not count, because the other arms have had the
    caches meanwhile. An arm whose call is longer than a block gets as many blocks as fit into
    ``budget_ns``, but at least ``blocks_min``. ``singles`` calls at most are timed one by one,
    within ``singles_budget_ns``. ``memory`` adds a process for each row and arm.
    """

    name: str
    runs: int
    blocks: int
    block_ns: int
    warm_ns: int
    blocks_min: int
    budget_ns: int
    singles: int
    singles_budget_ns: int
    warmup_s: float
    memory: bool


FULL = Profile(
    name="full",
    runs=5,
    blocks=30,
    block_ns=600_000,
    warm_ns=300_000,
    blocks_min=6,
    budget_ns=150_000_000,
    singles=2000,
    singles_budget_ns=25_000_000,
    warmup_s=2.0,
    memory=True,
)
QUICK = Profile(
    name="quick",
    runs=1,
    blocks=7,
    block_ns=300_000,
    warm_ns=200_000,
    blocks_min=1,
    budget_ns=10_000_000,
    singles=100,
    singles_budget_ns=4_000_000,
    warmup_s=0.2,
    memory=False,
)


@dataclass(slots=True)
class PairFigures:
    """What a row between two processes gives beside its times.

    CPU times are those of all samples; growths are bytes, one value for each run.
    """

    client_cpu_ns: int = 0
    server_cpu_ns: int = 0
    client_growth: list[float] = field(default_factory=list)
    server_growth: list[float] = field(default_factory=list)
    arrivals: Histogram = field(default_factory=Histogram)
    inner: Histogram = field(default_factory=Histogram)
    failed: int = 0
    stalls: int = 0
    first_error: str | None = None


@dataclass(slots=True)
class Cell:
    """What was measured of one row in one arm; ``error`` ends it."""

    note: str
    run_blocks: list[list[tuple[int, int]]] = field(default_factory=list)
    cpu_ns: int = 0
    calls: int = 0
    histogram: Histogram = field(default_factory=Histogram)
    calls_each: int = 1
    clock_ns: int = 0
    rss_bytes: int | None = None
    rss_empty_bytes: int | None = None
    checks: int = 0
    error: str | None = None
    pair: PairFigures | None = None


Cells = dict[tuple[str, str], Cell]
"""By row id and arm id."""

Progress = Callable[[str], None]


def arm_rows(rows: Sequence[tuple[Suite, Row]], arms: Sequence[Arm]) -> Iterator[tuple[Row, Arm]]:
    """Every pair of a row and an arm that offers it.

    Arms that repeat another one appear in the A/A row alone.
    """
    for _, row in rows:
        for arm in arms if row.pair is None else ():
            offered = arm.available and arm_row(row, arm) in arm.notes()
            if offered and (arm.again is None or row.id == "control.aa"):
                yield row, arm


def arm_row(row: Row, arm: Arm) -> str:
    """What the row is called in the arm."""
    return row.rust if arm.kind == "rust" and row.rust is not None else row.id


@functools.cache
def expected(row: Row, kind: Kind, fixture: int) -> str | None:
    """The fingerprint that an output must have; None when only the worker can tell."""
    if row.evidence is None:
        return None
    evidence = row.evidence(kind, fixture)
    return fingerprint(evidence) if evidence else None


class Session:
    """A measurement of some rows in some arms. Use it once.

    ``core`` is the processor of the workers; only one of them runs at a time.
    """

    def __init__(
        self,
        rows: Sequence[tuple[Suite, Row]],
        arms: Sequence[Arm],
        profile: Profile,
        *,
        core: int | None,
        progress: Progress,
    ) -> None:
        self._profile = profile
        self._core = core
        self._progress = progress
        self._rows = [row for _, row in rows if row.pair is None]
        self._pairs = list(arm_rows(rows, arms))
        self.cells: Cells = {
            (row.id, arm.id): Cell(arm.notes()[arm_row(row, arm)]) for row, arm in self._pairs
        }
        self._workers: dict[str, Process] = {}
        self._one_ns: dict[tuple[str, str], float] = {}

    def measure(self) -> Cells:
        """Runs everything and returns the cells."""
        with own_core(self._core):
            self._runs()
            if self._profile.memory:
                self._measure_memory()
        return self.cells

    def _runs(self) -> None:
        warm_up(self._profile.warmup_s, self._core)
        for run in range(self._profile.runs):
            try:
                for number, row in enumerate(self._rows, 1):
                    self._progress(
                        f"run {run + 1} of {self._profile.runs}, row {number} of "
                        f"{len(self._rows)}: {row.id}"
                    )
                    self._measure_row(row)
            finally:
                self._close()

    def _close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def _arms_of(self, row: Row) -> list[Arm]:
        return [
            arm
            for other, arm in self._pairs
            if other is row and self.cells[row.id, arm.id].error is None
        ]

    def _measure_row(self, row: Row) -> None:
        arms = self._arms_of(row)
        plan = {}
        for arm in arms:
            self.cells[row.id, arm.id].run_blocks.append([])
            with self._guard(row, arm):
                self._worker(arm).ask(PREPARE_TIMEOUT_S, op="prepare", row=arm_row(row, arm))
                plan[arm.id] = self._plan(row, arm)
        for arm in interleaved([arm for arm in arms if arm.id in plan], plan, self._profile.blocks):
            self._block(row, arm)
        for arm in arms:
            self._singles(row, arm)

    def _worker(self, arm: Arm) -> Process:
        if arm.id not in self._workers:
            self._workers[arm.id] = Process(arm.command, self._core)
        return self._workers[arm.id]

    @contextlib.contextmanager
    def _guard(self, row: Row, arm: Arm) -> Iterator[None]:
        """Turns what goes wrong with an arm into the error of its cell."""
        try:
            yield
        except RowError as error:
            self.cells[row.id, arm.id].error = str(error)
        except WorkerError as error:
            self.cells[row.id, arm.id].error = f"the worker {error}"
            self._workers.pop(arm.id).close()

    def _plan(self, row: Row, arm: Arm) -> int:
        """Warms up by one block and tells how many to run.

        A block that takes too long to be repeated counts itself.
        """
        answer = self._ask_blocks(row, arm, self._profile.block_ns)
        self._one_ns[row.id, arm.id] = answer["ns"] / answer["calls"]
        fit = int(self._profile.budget_ns / max(1, answer["ns"]))
        if fit >= self._profile.blocks_min:
            return min(self._profile.blocks, fit)
        self._record(row, arm, answer)
        return self._profile.blocks_min - 1

    def _is_short(self, row: Row, arm: Arm) -> bool:
        """Whether a call fits into the time for warming up; searches keep to registers."""
        return row.unit == "call" and self._one_ns[row.id, arm.id] <= self._profile.warm_ns

    def _record(self, row: Row, arm: Arm, answer: Mapping[str, Any]) -> None:
        cell = self.cells[row.id, arm.id]
        cell.run_blocks[-1].append((answer["calls"], answer["ns"]))
        cell.calls += answer["calls"]
        cell.cpu_ns += answer["cpu_ns"]
        if answer["calls"] == 1:
            cell.histogram.add(answer["ns"])

    def _ask_blocks(self, row: Row, arm: Arm, *lengths: int) -> dict[str, Any]:
        """Runs blocks of these lengths without a pause, checks all, returns the last."""
        least = TRY_BLOCK_NS if row.unit == "try" else 0
        name = arm_row(row, arm)
        answers = self._worker(arm).ask_all(
            BLOCK_TIMEOUT_S,
            [{"op": "block", "row": name, "ns": max(ns, least)} for ns in lengths],
        )
        for answer in answers:
            _check_block(answer)
            wanted = expected(row, arm.kind, answer["fixture"])
            if wanted is not None and answer["check"] != wanted:
                raise RowError(
                    f"wrong output for input {answer['fixture']}: fingerprint {answer['check']} "
                    f"instead of {wanted}"
                )
            self.cells[row.id, arm.id].checks += 1
        return answers[-1]

    def _block(self, row: Row, arm: Arm) -> None:
        if self.cells[row.id, arm.id].error is None:
            with self._guard(row, arm):
                warm = [self._profile.warm_ns] if self._is_short(row, arm) else []
                answer = self._ask_blocks(row, arm, *warm, self._profile.block_ns)
                self._record(row, arm, answer)

    def _singles(self, row: Row, arm: Arm) -> None:
        """Times single calls; a block of one call was one already."""
        cell = self.cells[row.id, arm.id]
        if cell.error is not None or not cell.run_blocks[-1]:
            return
        one, calls = min((ns / calls, calls) for calls, ns in cell.run_blocks[-1])
        if calls == 1:
            return
        spans = TRIES_EACH if row.unit == "try" else 1
        count = int(self._profile.singles_budget_ns / max(one * spans, 1.0))
        count = max(1, min(self._profile.singles, count))
        with self._guard(row, arm):
            answer = self._worker(arm).ask(
                BLOCK_TIMEOUT_S, op="singles", row=arm_row(row, arm), count=count
            )
            cell.histogram.merge(answer["hist"], answer["max_ns"])
            cell.calls_each = answer["calls_each"]
            cell.clock_ns = answer["clock_ns"]

    def _measure_memory(self) -> None:
        """Peak memory of a process that does one row, and of one that does nothing."""
        empty: dict[str, int] = {}
        for number, (row, arm) in enumerate(self._pairs, 1):
            cell = self.cells[row.id, arm.id]
            if cell.error is not None or arm.again is not None:
                continue
            self._progress(f"memory, {number} of {len(self._pairs)}: {row.id}, {arm.title}")
            with contextlib.suppress(RowError, WorkerError):
                if arm.id not in empty:
                    empty[arm.id] = self._peak(arm, CONTROL_ROW)
                cell.rss_bytes = self._peak(arm, arm_row(row, arm))
                cell.rss_empty_bytes = empty[arm.id]

    def _peak(self, arm: Arm, row: str) -> int:
        with Process(arm.command, self._core) as worker:
            worker.ask(PREPARE_TIMEOUT_S, op="prepare", row=row)
            for _ in range(3):
                worker.ask(BLOCK_TIMEOUT_S, op="block", row=row, ns=5 * self._profile.block_ns)
            return int(worker.ask(BLOCK_TIMEOUT_S, op="rss")["vmhwm"])


def _check_block(answer: Mapping[str, Any]) -> None:
    """Raises RowError unless the answer describes a block."""
    for key, least in (("calls", 1), ("ns", 1), ("cpu_ns", 0), ("fixture", 0)):
        value = answer.get(key)
        if not isinstance(value, int) or value < least:
            raise RowError(f"the answer's {key!r} is {value!r}")
    if not isinstance(answer.get("check"), str):
        raise RowError("the answer has no fingerprint")


def interleaved(arms: Sequence[Arm], plan: Mapping[str, int], rounds: int) -> Iterator[Arm]:
    """The order of the blocks.

    Every round starts with another arm; an arm with fewer blocks than rounds has them spread
    evenly.
    """
    for turn in range(rounds):
        for offset in range(len(arms)):
            arm = arms[(turn + offset) % len(arms)]
            blocks = plan[arm.id]
            if (turn + 1) * blocks // rounds > turn * blocks // rounds:
                yield arm


def choose_core() -> int | None:
    """The processor for the workers: the last one allowed, so that this process keeps another.

    None where processes cannot be pinned or there is only one.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[-1] if len(allowed) > 1 else None


@contextlib.contextmanager
def own_core(core: int | None) -> Iterator[None]:
    """Keeps this process off the processor of the workers."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, before - {core})
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def warm_up(seconds: float, core: int | None) -> None:
    """Keeps the workers' processor busy, so that it is at its speed before the first block."""
    until = time.monotonic() + seconds
    command = [sys.executable, "-c", f"import time\nwhile time.monotonic() < {until}: pass"]
    with subprocess.Popen(command) as spinning:
        if core is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(spinning.pid, {core})
