"""The measured side of rows between two processes: requests, payloads, checks, usage.

benchmarks/README.md defines the protocol ("Rows between two processes"). A program derives
from :class:`Role` what it can play, and hands it to :func:`serve`, or awaits
:func:`serve_async` when its stack lives on asyncio.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from .harness import EXIT_MISUSE, TAG, peak_rss

STATEMENT = Path("/proc/self/statm")
PAGE_BYTES = resource.getpagesize()
NO_PAYLOAD = "0" * 64

PIECE_BYTES = 1 << 20

ARRIVAL_S = 10.0
"""How long ``collect`` waits for what is expected."""

monotonic_ns = time.monotonic_ns


class Tally:
    """The exclusive or of the digests of payloads, and how many they were."""

    def __init__(self) -> None:
        self._value = 0
        self.count = 0

    def add(self, payload: bytes | bytearray | memoryview | Path) -> None:
        """Counts one payload, or the content of a file."""
        digest = hashlib.sha256()
        if isinstance(payload, Path):
            with payload.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    digest.update(piece)
        else:
            digest.update(payload)
        self._value ^= int.from_bytes(digest.digest(), "big")
        self.count += 1

    def add_all(self, payloads: Iterable[bytes | Path]) -> Tally:
        """Counts several."""
        for payload in payloads:
            self.add(payload)
        return self

    @property
    def check(self) -> str:
        """64 hex digits."""
        return f"{self._value:064x}"


class Payloads:
    """The payloads of a row: ``items`` of ``size`` bytes in one file, read when first used."""

    def __init__(self, path: str, size: int, items: int) -> None:
        self.path = path
        self.size = size
        self.items = items
        self._data: bytes | None = None
        if size * items and Path(path).stat().st_size < size * items:
            raise ValueError(f"{path} is shorter than {items} payloads of {size} bytes")

    @property
    def data(self) -> bytes:
        """The whole file."""
        if self._data is None:
            self._data = Path(self.path).read_bytes() if self.size * self.items else b""
        return self._data

    def __getitem__(self, number: int) -> bytes:
        if self.items == 0:
            return b""
        if self.items == 1:
            return self.data
        at = number % self.items * self.size
        return self.data[at : at + self.size]


def usage(*, reset: bool) -> dict[str, int]:
    """CPU time and memory of this process; ``reset`` lets the peak start anew."""
    spent = time.process_time_ns()
    found = {"cpu_ns": spent, "rss": resident(), "peak": peak_rss()}
    if reset:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    return found


def resident() -> int:
    """Resident bytes of this process now; its peak where the system does not tell."""
    try:
        return int(STATEMENT.read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return peak_rss()


class Samples:
    """What a run of samples gives."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        self.starts: list[int] = []
        self.inner: list[int] = []
        self.failed = 0
        self.error: str | None = None
        self.done: list[bytes | Path] = []
        """What the check covers; a path stands for the content of a file."""
        self.transfer_ns: int | None = None

    def add(self, start: int, end: int, inner: int | None = None) -> None:
        """One that ended well."""
        self.starts.append(start)
        self.samples.append(end - start)
        if inner is not None:
            self.inner.append(inner)

    def fail(self, error: BaseException | str) -> None:
        """One that did not."""
        self.failed += 1
        if self.error is None:
            name = "" if isinstance(error, str) else f"{type(error).__name__}: "
            self.error = f"{name}{error}"

    def answer(self) -> dict[str, Any]:
        """The answer to ``run``."""
        made: dict[str, Any] = {
            "samples": self.samples,
            "starts": self.starts,
            "failed": self.failed,
            "check": Tally().add_all(self.done).check,
        }
        if self.inner:
            made["inner"] = self.inner
        if self.error is not None:
            made["error"] = self.error
        if self.transfer_ns is not None:
            made["transfer_ns"] = self.transfer_ns
        return made


class Arrivals:
    """What arrived at a server since the last ``collect``."""

    def __init__(self) -> None:
        self.stamps: list[int] = []
        self.payloads: list[bytes | Path] = []
        self.error: str | None = None
        self._lock = threading.Lock()

    def add(self, payload: bytes | Path | None = None, at: int | None = None) -> None:
        """One arrived just now or at a time, as bytes or in a file.

        A file is removed when it was counted. Any thread may call this.
        """
        with self._lock:
            if payload is not None:
                self.payloads.append(payload)
            self.stamps.append(monotonic_ns() if at is None else at)

    def take(self) -> dict[str, Any]:
        """The answer to ``collect``."""
        with self._lock:
            stamps, payloads = self.stamps, self.payloads
            self.stamps, self.payloads = [], []
        if self.error is not None:
            raise RuntimeError(self.error)
        tally = Tally().add_all(payloads)
        for payload in payloads:
            if isinstance(payload, Path):
                payload.unlink()
        return {"stamps": stamps, "count": len(stamps), "check": tally.check}


class NotARequestError(Exception):
    """A line that breaks the protocol."""


def parse(line: str) -> dict[str, Any]:
    """A request. Raises NotARequestError."""
    try:
        request = json.loads(line)
    except ValueError as error:
        raise NotARequestError(f"the request is no JSON: {error}") from None
    if not isinstance(request, dict) or not isinstance(request.get("op"), str):
        raise NotARequestError("the request is no object with an operation")
    return request


def say(answer: Mapping[str, Any], answers: IO[str] | None = None) -> None:
    """Writes an answer."""
    stream = sys.stdout if answers is None else answers
    stream.write(f"{TAG}{json.dumps(answer)}\n")
    stream.flush()


Operations = Mapping[str, Callable[[dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any]]"]]
"""By name; ``usage`` and ``quit`` are this module's."""


async def _answer(operations: Operations, line: str) -> tuple[dict[str, Any], int | None]:
    """The answer to a line, and the exit code when it is the last one."""
    try:
        request = parse(line)
        name = request["op"]
        if name == "usage":
            return {"ok": True, **usage(reset=bool(request.get("reset")))}, None
        if name == "quit":
            return {"ok": True}, 0
        if name not in operations:
            raise NotARequestError(f"unknown operation {name!r}")
        made = operations[name](request)
        return {"ok": True, **(made if isinstance(made, dict) else await made)}, None
    except NotARequestError as error:
        return {"ok": False, "error": str(error)}, EXIT_MISUSE
    except Exception as error:  # whatever the stack under test raises is the row's error
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}, None


async def serve_async(operations: Operations) -> int:
    """Answers the requests on standard input while the loop goes on; the exit code."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        answer, code = await _answer(operations, line.decode())
        say(answer)
        if code is not None:
            return code
    return 0


def serve(operations: Operations) -> int:
    """The same for a stack that has threads of its own; its operations do not await."""
    for line in sys.stdin:
        work = _answer(operations, line)
        try:
            work.send(None)
        except StopIteration as done:
            answer, code = done.value
        else:
            raise TypeError("an operation of this program awaits something")
        say(answer)
        if code is not None:
            return int(code)
    return 0


class Pace:
    """Keeps the beginnings of samples apart."""

    def __init__(self, pace_us: int) -> None:
        self._pace_ns = pace_us * 1000
        self._next = monotonic_ns()

    def wait_s(self) -> float:
        """Seconds until the next sample may begin; it is then due."""
        now = monotonic_ns()
        due = max(now, self._next)
        self._next = due + self._pace_ns
        return (due - now) / 1e9
