"""The measured side of the comparison: the timed loop and the protocol of a worker.

A worker is a program with two modes. ``--list`` prints one JSON object that says what it
measures. ``--serve`` reads one flat JSON object per line from standard input and answers
each with one line that starts with ``@netmesh ``; everything else on standard output
comes from the stack under test and is to be ignored. benchmarks/rust/README.md documents
the requests; the Rust adapters speak the same protocol.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from .fixtures import fingerprint
from .histogram import Histogram

TAG = "@netmesh "
"""What precedes each answer on standard output."""

EXIT_MISUSE = 2
"""Exit code after a request that breaks the protocol."""

_CALIBRATION_NS = 1_000_000
_CHECKED_IN_PREPARE = 2
_SLOW_NS = 20_000_000


class WrongOutputError(Exception):
    """An operation gave something else than it must."""


class Runner(Protocol):
    """A prepared row."""

    def block(self, ns: int) -> dict[str, Any]:
        """Runs one block of about ``ns`` nanoseconds."""

    def singles(self, count: int) -> dict[str, Any]:
        """Times ``count`` calls one by one."""


def require(condition: object, what: str) -> None:
    """Raises WrongOutputError with ``what`` unless the condition holds."""
    if not condition:
        raise WrongOutputError(what)


def same(what: str, seen: object, expected: object) -> None:
    """Raises WrongOutputError unless ``seen`` equals ``expected``."""
    if seen != expected:
        raise WrongOutputError(f"{what}: {_shown(seen)} instead of {_shown(expected)}")


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes (fingerprint {fingerprint(bytes(value))})"
    return repr(value)


Loop = Callable[[Iterable[Any]], Any]
"""Runs the operation once for each input and returns the last output."""


def unary(call: Callable[[Any], Any]) -> Loop:
    """The loop of an operation that is one call with one argument."""

    def loop(items: Iterable[Any]) -> Any:
        output = None
        for item in items:
            output = call(item)
        return output

    return loop


class Operation:
    """A row whose calls rotate through its inputs.

    ``items`` holds one input for each fixture; ``loop`` is the timed part;
    ``check(index, output)`` compares an output with what is expected of fixture ``index``
    and returns the bytes that prove it, whose fingerprint the parent compares again.
    Raises what ``loop`` and ``check`` raise: the first inputs are checked here.
    """

    def __init__(
        self, items: Sequence[Any], loop: Loop, check: Callable[[int, Any], bytes]
    ) -> None:
        self._items = items
        self._loop = loop
        self._check = check
        self._cycle: Iterator[Any] = iter(())
        self._next = 0
        self._ns_per_call = self._check_first()
        calls = 1
        while self._ns_per_call * calls < _CALIBRATION_NS:
            self._rewind()
            ns, _, _, _ = self._timed(calls)
            self._ns_per_call = max(ns / calls, 0.1)
            calls *= 2
        self._rewind()

    def _check_first(self) -> float:
        """Checks the first outputs; returns what a call took, the loop around it included."""
        spent = 0
        for index in range(min(_CHECKED_IN_PREPARE, len(self._items))):
            start = time.perf_counter_ns()
            output = self._loop((self._items[index],))
            spent = time.perf_counter_ns() - start
            self._check(index, output)
            if spent > _SLOW_NS:
                break
        return float(max(spent, 1))

    def _rewind(self) -> None:
        self._cycle = itertools.cycle(self._items)
        self._next = 0

    def _timed(self, calls: int) -> tuple[int, int, int, Any]:
        """Wall and CPU nanoseconds, the last fixture and its output."""
        inputs = itertools.islice(self._cycle, calls)
        loop = self._loop
        cpu = time.process_time_ns()
        start = time.perf_counter_ns()
        output = loop(inputs)
        ns = time.perf_counter_ns() - start
        cpu_ns = time.process_time_ns() - cpu
        last = (self._next + calls - 1) % len(self._items)
        self._next = (last + 1) % len(self._items)
        return ns, cpu_ns, last, output

    def block(self, ns: int) -> dict[str, Any]:
        """Runs and checks one block."""
        calls = max(1, int(ns / self._ns_per_call))
        spent, cpu_ns, fixture, output = self._timed(calls)
        self._ns_per_call = max(spent / calls, 0.1)
        check = fingerprint(self._check(fixture, output))
        return {"calls": calls, "ns": spent, "cpu_ns": cpu_ns, "fixture": fixture, "check": check}

    def singles(self, count: int) -> dict[str, Any]:
        """Times single calls; the cost of the loop around one is part of ``clock_ns``."""
        histogram = Histogram()
        loop = self._loop
        now = time.perf_counter_ns
        output = None
        for item in itertools.islice(self._cycle, count):
            inputs = (item,)
            start = now()
            output = loop(inputs)
            histogram.add(now() - start)
        last = (self._next + count - 1) % len(self._items)
        self._next = (last + 1) % len(self._items)
        self._check(last, output)
        return singles_answer(histogram, 1, _clock_cost())


def singles_answer(histogram: Histogram, calls_each: int, clock_ns: int) -> dict[str, Any]:
    """The answer to a request for single calls."""
    return {
        "hist": histogram.pairs(),
        "max_ns": histogram.maximum,
        "calls_each": calls_each,
        "clock_ns": clock_ns,
    }


def _clock_cost() -> int:
    """The least time that a single call of nothing seems to take."""

    def nothing(items: Iterable[Any]) -> Any:
        output = None
        for item in items:
            output = item
        return output

    best = 1 << 62
    now = time.perf_counter_ns
    for _ in range(1000):
        inputs = (None,)
        start = now()
        nothing(inputs)
        best = min(best, now() - start)
    return best


@dataclass(frozen=True, slots=True)
class Offer:
    """A row that a worker offers: what its call does, and how it is prepared."""

    note: str
    prepare: Callable[[], Runner]


@dataclass(frozen=True, slots=True)
class Worker:
    """What ``--list`` says about a worker, and its rows by id."""

    peer: str
    versions: Mapping[str, str]
    licence: str
    flags: str
    rows: Mapping[str, Offer]
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The kinds of rows between two processes that it plays, with notes."""

    def listing(self) -> dict[str, Any]:
        """The object that ``--list`` prints."""
        return {
            "peer": self.peer,
            "versions": dict(self.versions),
            "licence": self.licence,
            "flags": self.flags,
            "rows": [{"id": name, "note": offer.note} for name, offer in self.rows.items()],
            "kinds": [{"id": kind, "note": note} for kind, note in self.kinds.items()],
        }


def control_offer() -> Offer:
    """No operation: the loop and the rotation alone."""

    def prepare() -> Runner:
        def check(index: int, output: Any) -> bytes:
            same("the fixture number", output, index)
            return index.to_bytes(8, "little")

        def loop(items: Iterable[Any]) -> Any:
            output = None
            for item in items:
                output = item
            return output

        return Operation(range(64), loop, check)

    return Offer("no operation: the loop and the rotation of the inputs", prepare)


class _MisuseError(Exception):
    """A request that breaks the protocol."""


def serve(worker: Worker, requests: IO[str], answers: IO[str]) -> int:
    """Answers requests until ``quit`` or the end of input; returns the exit code."""
    prepared: dict[str, Runner] = {}
    for line in requests:
        if not line.strip():
            continue
        try:
            request = _parse(line)
            if request["op"] == "quit":
                _say(answers, {"ok": True})
                return 0
            _say(answers, {"ok": True, **_answer(worker, prepared, request)})
        except _MisuseError as error:
            _say(answers, {"ok": False, "error": str(error)})
            return EXIT_MISUSE
        except Exception as error:  # whatever the stack under test raises is the row's error
            _say(answers, {"ok": False, "error": f"{type(error).__name__}: {error}"})
    return 0


def _parse(line: str) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except ValueError as error:
        raise _MisuseError(f"the request is no JSON: {error}") from None
    if not isinstance(request, dict) or not isinstance(request.get("op"), str):
        raise _MisuseError("the request is no object with an operation")
    return request


def _say(answers: IO[str], answer: Mapping[str, Any]) -> None:
    answers.write(f"{TAG}{json.dumps(answer)}\n")
    answers.flush()


def _answer(
    worker: Worker, prepared: dict[str, Runner], request: Mapping[str, Any]
) -> dict[str, Any]:
    operation = request["op"]
    if operation == "rss":
        return {"vmhwm": peak_rss()}
    if operation not in ("prepare", "block", "singles"):
        raise _MisuseError(f"unknown operation {operation!r}")
    row = request.get("row")
    if not isinstance(row, str):
        raise _MisuseError("the request needs a string 'row'")
    if operation == "prepare":
        if row not in worker.rows:
            raise LookupError(f"this peer has no row {row!r}")
        prepared[row] = worker.rows[row].prepare()
        return {}
    amount = request.get("ns" if operation == "block" else "count")
    if not isinstance(amount, int) or amount <= 0:
        raise _MisuseError("the request needs a number above 0")
    if row not in prepared:
        raise LookupError(f"row {row!r} is not prepared")
    runner = prepared[row]
    return runner.block(amount) if operation == "block" else runner.singles(amount)


def peak_rss() -> int:
    """Peak resident memory of this process in bytes."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run(worker: Worker, arguments: Sequence[str]) -> int:
    """Entry point of a worker: ``--list`` or ``--serve``."""
    if list(arguments) == ["--list"]:
        print(json.dumps(worker.listing()))
        return 0
    if list(arguments) == ["--serve"]:
        return serve(worker, sys.stdin, sys.stdout)
    print("usage: --list | --serve", file=sys.stderr)
    return EXIT_MISUSE
