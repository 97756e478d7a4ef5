"""Measures rows between two processes: a server and a client, over loopback TCP.

benchmarks/README.md defines what the two do. The blocks of the arms take turns here as they
do within one process, and every output is checked: the client's and the server's.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from netmesh.bench import hub_driver, stats
from netmesh.bench.arms import Arm
from netmesh.bench.kit.nodes import ARRIVAL_S, Payloads, Tally
from netmesh.bench.measure import Cell, Cells, PairFigures, Profile, Progress, interleaved
from netmesh.bench.model import Pair, Row, Suite
from netmesh.bench.process import Process, RowError, WorkerError, environment

OPEN_TIMEOUT_S = 60.0
"""For what happens outside samples: a start, a meeting."""

PORT_TRIES = 3
"""A port that was free may be somebody else's a moment later."""

STALL_TIMES = 10.0
STALL_NS = 50_000_000
"""A sample is a stall when it takes so many medians and at least so long: it waited for a
timer."""

CONTROL_ROW = "control.aa.pair"
"""The row in which arms are repeated, and no other ones are measured."""

MESSAGES = frozenset(("direct", "cold", "opportunistic", "deliver", "queue"))
"""Kinds in which the client has a destination too."""

TOLD = frozenset(("destination", "key", "destinations"))
"""What a server's answer to ``prepare`` tells the client."""

TEXT = (
    "The mesh carries what its nodes say to each other, over radio, wire and fibre; each hop adds "
    "a little time that a patient reader will not mind."
)
PIECE_BYTES = 16 << 20
TEXT_PERIOD = 1 << 20

DRIVER = Arm("hub-driver", "driver of hubs", "python", hub_driver.COMMAND)
"""The client of every row of the kind ``hub``."""

HUB_S = 240.0
"""How long a hub may take for what it is given to learn."""

_PER_SAMPLE = frozenset(("clients", "destinations"))
"""Loads of which each sample leaves something at the hub."""

_BASELINE = (
    "import asyncio, os; "
    "print(int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE'))"
)


def pair_arms(rows: Sequence[tuple[Suite, Row]], arms: Sequence[Arm]) -> Iterator[tuple[Row, Arm]]:
    """Every row between two processes with every arm that plays it."""
    for _, row in rows:
        for arm in arms if row.pair is not None else ():
            assert row.pair is not None
            if not arm.available or row.pair.kind not in arm.kinds() or arm.id in row.absent:
                continue
            if row.id == CONTROL_ROW:
                if arm.again is not None or any(other.again == arm.id for other in arms):
                    yield row, arm
            elif arm.again is None and (row.pair.peers or arm.kind != "mixed"):
                yield row, arm


def make_payloads(row: Row, folder: Path) -> Payloads:
    """The file with a row's payloads; always the same ones."""
    pair = row.pair
    assert pair is not None
    size = row.payload or 0
    path = folder / f"{row.id}.payloads"
    if not path.exists():
        make = text_bytes if pair.text else random_bytes
        with path.open("wb") as file:
            for item in range(pair.items if size else 0):
                for piece in range(0, size, PIECE_BYTES):
                    file.write(make(f"{row.id} {item} {piece}", min(PIECE_BYTES, size - piece)))
    return Payloads(str(path), size, pair.items if size else 0)


def make_bulk(row: Row, folder: Path) -> Path | None:
    """The file that is transferred while samples are taken, if the row has one."""
    assert row.pair is not None
    if not row.pair.bulk:
        return None
    path = folder / f"{row.id}.bulk"
    if not path.exists():
        with path.open("wb") as file:
            for piece in range(0, row.pair.bulk, PIECE_BYTES):
                size = min(PIECE_BYTES, row.pair.bulk - piece)
                file.write(random_bytes(f"{row.id} bulk {piece}", size))
    return path


def random_bytes(label: str, size: int) -> bytes:
    """The same bytes for the same label."""
    return random.Random(label).randbytes(size)  # noqa: S311, inputs of a measurement


def text_bytes(label: str, size: int) -> bytes:
    """Words, which compress well."""
    draw = random.Random(label)  # noqa: S311
    known = TEXT.split()
    words: list[str] = []
    length = 0
    while length < min(size, TEXT_PERIOD):
        words.append(draw.choice(known))
        length += len(words[-1]) + 1
    text = " ".join(words).encode() + b" "
    return (text * (size // len(text) + 1))[:size]


class PairSession:
    """A measurement of the rows between two processes. Use it once.

    ``folder`` takes the payloads. The processes are not pinned: each has threads, and two
    processors carry one of them each.
    """

    def __init__(
        self,
        rows: Sequence[tuple[Suite, Row]],
        arms: Sequence[Arm],
        profile: Profile,
        folder: Path,
        *,
        progress: Progress,
    ) -> None:
        self._profile = profile
        self._folder = folder
        self._progress = progress
        self._pairs = list(pair_arms(rows, arms))
        self._rows = list(dict.fromkeys(row for row, _ in self._pairs))
        self._baselines: dict[str, int] = {}
        self.cells: Cells = {
            (row.id, arm.id): Cell(_note(row, arm), pair=PairFigures()) for row, arm in self._pairs
        }

    def measure(self) -> Cells:
        """Runs everything and returns the cells."""
        for run in range(self._profile.runs):
            for number, row in enumerate(self._rows, 1):
                self._progress(
                    f"two processes, run {run + 1} of {self._profile.runs}, row {number} of "
                    f"{len(self._rows)}: {row.id}"
                )
                self._measure_row(row)
        return self.cells

    def _measure_row(self, row: Row) -> None:
        assert row.pair is not None
        arms = [
            arm
            for other, arm in self._pairs
            if other is row and self.cells[row.id, arm.id].error is None
        ]
        quick = self._profile.name == "quick"
        samples, blocks = row.pair.samples[quick], row.pair.blocks[quick]
        payloads, bulk = make_payloads(row, self._folder), make_bulk(row, self._folder)
        with contextlib.ExitStack() as stack:
            live: dict[str, LivePair] = {}
            for arm in arms:
                self.cells[row.id, arm.id].run_blocks.append([])
                with self._guard(row, arm):
                    total = row.pair.warm + samples * blocks
                    live[arm.id] = stack.enter_context(
                        LivePair(row, arm, payloads, bulk, total, quick=quick)
                    )
                    live[arm.id].begin()
            plan = dict.fromkeys(live, blocks)
            for arm in interleaved([arm for arm in arms if arm.id in live], plan, blocks):
                if self.cells[row.id, arm.id].error is None:
                    with self._guard(row, arm):
                        self._block(row, arm, live[arm.id], samples)
            for arm in arms:
                if arm.id in live and self.cells[row.id, arm.id].error is None:
                    with self._guard(row, arm):
                        left = samples * blocks // live[arm.id].scale
                        self._growth(row, arm, live[arm.id], max(1, left))
        for made in (Path(payloads.path), bulk):
            if made is not None and made.stat().st_size > TEXT_PERIOD:
                made.unlink()

    @contextlib.contextmanager
    def _guard(self, row: Row, arm: Arm) -> Iterator[None]:
        try:
            yield
        except RowError as error:
            self.cells[row.id, arm.id].error = str(error)
        except WorkerError as error:
            self.cells[row.id, arm.id].error = f"a process {error}"
        except OSError as error:
            self.cells[row.id, arm.id].error = f"a process could not be started: {error}"

    def _block(self, row: Row, arm: Arm, live: LivePair, samples: int) -> None:
        cell = self.cells[row.id, arm.id]
        figures = cell.pair
        assert figures is not None
        block = live.block(samples)
        figures.client_cpu_ns += block.client_cpu_ns
        figures.server_cpu_ns += block.server_cpu_ns
        cell.cpu_ns += block.client_cpu_ns + block.server_cpu_ns
        cell.checks += 1
        figures.failed += block.failed
        figures.first_error = figures.first_error or block.error
        if live.kind == "idle":
            # Both sides do nothing for that many milliseconds: CPU time in a second of it.
            spent = (block.client_cpu_ns + block.server_cpu_ns) // 2
            block.samples = [spent * 1000 // samples]
        if not block.samples:
            raise RowError(block.error or "no sample ended")
        middle = stats.median([float(ns) for ns in block.samples])
        for ns in block.samples:
            cell.histogram.add(ns)
            figures.stalls += ns > max(STALL_NS, STALL_TIMES * middle)
        for ns in block.inner:
            figures.inner.add(ns)
        for ns in block.arrivals:
            figures.arrivals.add(ns)
        cell.calls += len(block.samples)
        cell.run_blocks[-1].append((1, round(middle)))

    def _growth(self, row: Row, arm: Arm, live: LivePair, samples: int) -> None:
        """How much memory each side took; docs/reference/report.md says what that is."""
        figures = self.cells[row.id, arm.id].pair
        assert figures is not None
        per = samples if live.kind == "links" or live.load == "clients" else 1
        for growth, side, end in (
            (figures.client_growth, live.client_memory, live.client_arm),
            (figures.server_growth, live.server_memory, live.server_arm),
        ):
            before = self._baseline(end) if live.kind == "idle" else side.before
            after = side.after if live.kind in ("links", "idle", "hub") else side.peak
            growth.append((after - before) / per)

    def _baseline(self, arm: Arm) -> int:
        """Memory of a process that has imported asyncio, for stacks that run in Python."""
        if arm.kind not in ("python", "upstream", "core"):
            return 0
        python = arm.command[0]
        if python not in self._baselines:
            done = subprocess.run(
                [python, "-c", _BASELINE],
                capture_output=True,
                text=True,
                check=False,
                env=environment(),
            )
            self._baselines[python] = int(done.stdout) if done.returncode == 0 else 0
        return self._baselines[python]


def _note(row: Row, arm: Arm) -> str:
    assert row.pair is not None
    return arm.kinds()[row.pair.kind]


class Memory:
    """Resident bytes of a process before the first block, and at most and at the end."""

    def __init__(self) -> None:
        self.before = 0
        self.after = 0
        self.peak = 0


class Block:
    """What a block gave."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        self.inner: list[int] = []
        self.arrivals: list[int] = []
        self.client_cpu_ns = 0
        self.server_cpu_ns = 0
        self.failed = 0
        self.error: str | None = None


class LivePair:
    """A server and a client that are measured. A context manager."""

    def __init__(
        self,
        row: Row,
        arm: Arm,
        payloads: Payloads,
        bulk: Path | None,
        samples: int,
        *,
        quick: bool = False,
    ) -> None:
        assert row.pair is not None
        self._row = row
        self._pair: Pair = row.pair
        self._payloads = payloads
        self._bulk = bulk
        self._samples = samples
        self._held = row.pair.held[quick]
        self._scale = 1
        self._reached = 0
        self._taken = 0
        self._stack = contextlib.ExitStack()
        self.client_arm, self.server_arm = arm.ends if arm.ends is not None else (arm, arm)
        if self.kind == "hub":
            self.client_arm = DRIVER
        self.client_memory, self.server_memory = Memory(), Memory()

    @property
    def kind(self) -> str:
        """The row's."""
        return self._pair.kind

    @property
    def load(self) -> str:
        """The row's, of the kind ``hub``."""
        return self._pair.load

    @property
    def scale(self) -> int:
        """The part of a load that the server's program asked for is one of so many."""
        return self._scale

    @property
    def _each(self) -> int:
        """How many payloads a sample has."""
        if self.kind == "queue":
            return self._held // self._scale
        return self._payloads.items if self.kind == "channel" else 1

    def __enter__(self) -> LivePair:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self) -> None:
        """Starts both, lets them meet, and takes the samples that do not count."""
        port, server = self._begin_server()
        self._scale = server.get("scale", 1)
        self._client = self._start(self.client_arm)
        self._ask(self._client, op="open", role="client", port=port, **self._opened())
        given = {
            key: server[key] for key in ("destination", "key", "destinations") if key in server
        }
        client = self._ask(self._client, **self._prepare(), **given)
        if self.kind == "hub":
            self._reach(0 if self.load in ("forward", "clients") else self._prepare()["held"])
        elif self.kind != "discovery":
            self._ask(self._server, op="announce")
            self._ask(self._client, op="meet", destination=server["destination"])
        if self.kind in MESSAGES:
            self._ask(self._client, op="announce")
            self._ask(self._server, op="meet", destination=client["source"])
        if self._pair.warm:
            self._run(self._pair.warm)
        for process, memory in self._sides():
            memory.before = self._ask(process, op="usage", reset=1)["rss"]

    def _begin_server(self) -> tuple[int, dict[str, Any]]:
        """The server's port and what it says; another port when somebody else took the first."""
        for left in range(PORT_TRIES - 1, -1, -1):
            port = free_port()
            self._server = self._start(self.server_arm)
            try:
                role = "hub" if self.kind == "hub" else "server"
                self._ask(self._server, op="open", role=role, port=port, **self._opened())
                return port, self._ask(self._server, **self._prepare())
            except RowError:
                if not left:
                    raise
        raise AssertionError("there is at least one try")

    def _start(self, arm: Arm) -> Process:
        process = Process(arm.command, mode="--node")
        self._stack.callback(process.close)
        return process

    def _sides(self) -> tuple[tuple[Process, Memory], tuple[Process, Memory]]:
        return (self._client, self.client_memory), (self._server, self.server_memory)

    def _opened(self) -> dict[str, Any]:
        return {"store": 1} if self._pair.store else {}

    def _prepare(self) -> dict[str, Any]:
        return {
            "op": "prepare",
            "kind": self.kind,
            "row": self._row.id,
            "file": self._payloads.path,
            "size": self._payloads.size,
            "items": self._payloads.items,
            "samples": self._samples,
            "compress": int(self._pair.compress),
            **({} if self._bulk is None else {"bulk": str(self._bulk)}),
            **({"load": self.load, "held": self._held // self._scale} if self.load else {}),
        }

    def _reach(self, more: int) -> None:
        """Waits until the hub has learnt or taken so many more. Raises RowError."""
        self._reached += more
        deadline = time.monotonic() + HUB_S
        count = -1
        while count < self._reached:
            if time.monotonic() > deadline:
                raise RowError(f"the hub has {count} of {self._reached}")
            count = self._ask(self._server, op="collect", expect=self._reached)["count"]

    @staticmethod
    def _ask(process: Process, timeout_s: float = OPEN_TIMEOUT_S, **request: Any) -> dict[str, Any]:
        return process.ask(timeout_s, **request)

    def block(self, count: int) -> Block:
        """Takes samples, and what both sides spent on them."""
        before = [self._ask(process, op="usage", reset=0) for process, _ in self._sides()]
        block = self._run(count, lambda: self._usage(before))
        each = self._each if self.kind == "queue" else 1  # as its samples: of one message
        block.client_cpu_ns, block.server_cpu_ns = (spent // each for spent in self._spent)
        return block

    def _usage(self, before: Sequence[dict[str, Any]]) -> None:
        spent = []
        for (process, memory), past in zip(self._sides(), before, strict=True):
            now = self._ask(process, op="usage", reset=0)
            spent.append(now["cpu_ns"] - past["cpu_ns"])
            memory.after = now["rss"]
            memory.peak = max(memory.peak, now["peak"])
        self._spent = spent

    def _run(self, count: int, after: Callable[[], None] | None = None) -> Block:
        if self.load in _PER_SAMPLE:
            count = max(1, count // self._scale)
        at_once = self.kind in ("links", "idle", "meanwhile") or self.load in _PER_SAMPLE
        timeout_s = self._pair.timeout_s * (1 if at_once else count)
        answer = self._ask(
            self._client,
            timeout_s + OPEN_TIMEOUT_S,
            op="run",
            count=count,
            pace_us=self._pair.pace_us,
            timeout_ms=round(self._pair.timeout_s * 1000),
        )
        if self.load in _PER_SAMPLE:
            self._reach(count)
        if after is not None:
            after()
        if self.kind == "meanwhile":
            count = len(answer["samples"]) + answer["failed"]
        done = 0 if self.kind in ("discovery", "idle", "hub") else count - answer["failed"]
        each = self._each
        arrived: dict[str, Any] = (
            {"stamps": [], "count": 0, "check": ""}
            if self.kind == "hub"
            else self._collect(done * each)
        )
        block = Block()
        block.samples, block.inner = answer["samples"], answer.get("inner", [])
        block.failed, block.error = answer["failed"], answer.get("error")
        self._check(count, answer, arrived)
        self._taken += count * each
        if not block.failed and self.kind not in ("links", "link", "channel", "queue"):
            block.arrivals = [
                end - start
                for start, end in zip(answer["starts"], arrived["stamps"], strict=False)
                if end > start
            ]
        return block

    def _collect(self, expect: int) -> dict[str, Any]:
        """What arrived at the server, which may give it in several parts."""
        deadline = time.monotonic() + ARRIVAL_S
        found = self._ask(self._server, op="collect", expect=expect)
        while found["count"] < expect and time.monotonic() < deadline:
            time.sleep(0.01)
            more = self._ask(self._server, op="collect", expect=expect - found["count"])
            found = {
                "stamps": found["stamps"] + more["stamps"],
                "count": found["count"] + more["count"],
                "check": f"{int(found['check'], 16) ^ int(more['check'], 16):064x}",
            }
        return found

    def _check(self, count: int, answer: dict[str, Any], arrived: dict[str, Any]) -> None:
        """Compares what both sides saw with what was to be sent. Raises RowError."""
        if self.kind == "links":
            _same("links that carried their packet", arrived["count"], count)
        if self._payloads.items == 0 or answer["failed"]:
            return
        count *= self._each
        numbers = range(self._taken, self._taken + count)
        sent: list[bytes | Path] = (
            [Path(self._payloads.path)] * count
            if self.kind == "file"
            else [self._payloads[number] for number in numbers]
        )
        wanted = Tally().add_all(sent).check
        _same("the payloads that arrived", arrived["check"], wanted)
        if self.kind == "request":
            answers = [self._payloads[number][::-1] for number in numbers]
            wanted = Tally().add_all(answers).check
        _same("what the client saw", answer["check"], wanted)


def _same(what: str, seen: object, wanted: object) -> None:
    if seen != wanted:
        raise RowError(f"wrong output: {what}: {seen} instead of {wanted}")


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
