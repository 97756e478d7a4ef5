"""A process of the demo: commands go in as lines of JSON, events come out as such."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

WAIT_S = 40.0
"""How long an event is waited for: it is a matter of milliseconds on an idle machine."""


class ExchangeError(RuntimeError):
    """The exchange did not get to its end; the text says what was missing."""


class Companion:
    """A process with a name. A context manager; one thread reads its events."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._passed: list[dict[str, Any]] = []
        self._stack = contextlib.ExitStack()
        self.folder = Path()
        self.ready: dict[str, Any] = {}

    def command_line(self) -> Sequence[str]:
        """What is started."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        self.folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="netmesh-"))
        )
        self._errors: IO[str] = self._stack.enter_context((self.folder / "stderr").open("w+"))
        self._process = subprocess.Popen(
            self.command_line(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        # Undone in reverse: the process ends first, and with it what the thread reads.
        self._stack.callback(self._close_output)
        self._stack.callback(reader.join)
        self._stack.callback(self._stop)
        self.ready = self.wait("ready")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Anything else on its output is a log line of the stack.
            if line.startswith("{"):
                self._events.put(json.loads(line))
        self._events.put({"event": "end"})

    def _stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _close_output(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def command(self, name: str, **values: str) -> None:
        """Tells it to do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"command": name, **values}) + "\n")
        self._process.stdin.flush()

    def wait(
        self,
        event: str,
        *,
        timeout_s: float = WAIT_S,
        passing: Callable[[dict[str, Any]], object] | None = None,
        **wanted: object,
    ) -> dict[str, Any]:
        """The next event of that name with the wanted values; others stay for later.

        ``passing`` is told of the others as they come. Raises ExchangeError when the process
        reports an error, ends, or the event does not come in time.
        """
        deadline = time.monotonic() + timeout_s
        for found in self._passed:
            if _is_wanted(found, event, wanted):
                self._passed.remove(found)
                return found
        while True:
            try:
                found = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ExchangeError(
                    f"{self._name} reported no '{event}' within {timeout_s:g} s"
                ) from None
            if _is_wanted(found, event, wanted):
                return found
            if found["event"] == "error":
                raise ExchangeError(f"{self._name} said: {found['text']}")
            if found["event"] == "end":
                raise ExchangeError(f"{self._name} ended; its last words: {self._last_words()}")
            self._passed.append(found)
            if passing is not None:
                passing(found)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else "none"


def _is_wanted(found: dict[str, Any], event: str, wanted: dict[str, object]) -> bool:
    return found["event"] == event and all(found.get(key) == wanted[key] for key in wanted)
