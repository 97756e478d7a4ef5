"""A running worker: one request, one answer, with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from netmesh.bench.kit.harness import TAG

_QUIT_TIMEOUT_S = 5.0
_READ_BYTES = 65536


class WorkerError(Exception):
    """A worker died, hung, or broke the protocol; it cannot be used any more."""


class RowError(Exception):
    """A worker refused a request: the error is the row's."""


def environment() -> dict[str, str]:
    """That of measured programs, which may keep their compiled modules, as installed ones do.

    A program that compiles its modules afresh holds megabytes that no user's program holds.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Process:
    """A worker program in its serving mode. Confined to one thread.

    ``core`` is the processor that it may use, None for all. ``mode`` is ``--node`` for one side
    of a row between two processes.
    """

    def __init__(
        self, command: Sequence[str], core: int | None = None, *, mode: str = "--serve"
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed in close()
        self._buffer = bytearray()
        try:
            self._process = subprocess.Popen(
                [*command, mode],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                env=environment(),
            )
        except OSError:
            self._errors.close()
            raise
        if core is not None:
            with contextlib.suppress(OSError):  # it may have ended already
                os.sched_setaffinity(self._process.pid, {core})
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, timeout_s: float, **request: str | int) -> dict[str, Any]:
        """Sends a request and returns its answer.

        Raises RowError when the worker refuses, WorkerError when it is of no use any more.
        """
        return self.ask_all(timeout_s, [request])[0]

    def ask_all(
        self, timeout_s: float, requests: Sequence[Mapping[str, str | int]]
    ) -> list[dict[str, Any]]:
        """Sends requests at once and returns their answers.

        The worker goes from one to the next without waiting. Raises as ``ask`` does, after all
        answers have come in.
        """
        assert self._process.stdin is not None
        lines = b"".join(json.dumps(request).encode() + b"\n" for request in requests)
        try:
            self._process.stdin.write(lines)
        except OSError:
            raise WorkerError(self._obituary()) from None
        deadline = time.monotonic() + timeout_s
        answers = [self._answer(deadline) for _ in requests]
        for answer in answers:
            if answer.get("ok") is not True:
                raise RowError(str(answer.get("error", "refused without a reason")))
        return answers

    def _answer(self, deadline: float) -> dict[str, Any]:
        while True:
            line = self._line(deadline)
            if line.startswith(TAG):
                try:
                    answer = json.loads(line[len(TAG) :])
                except ValueError:
                    raise WorkerError("gave an answer that is no JSON") from None
                if isinstance(answer, dict):
                    return answer
                raise WorkerError("gave an answer that is no object")

    def _line(self, deadline: float) -> str:
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                self._process.kill()
                raise WorkerError("did not answer in time")
            data = os.read(self._process.stdout.fileno(), _READ_BYTES)
            if not data:
                raise WorkerError(self._obituary())
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line.decode(errors="replace")

    def _obituary(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with exit code {code}" + (f": {lines[-1]}" if lines else "")

    def close(self) -> None:
        """Asks the worker to leave, ends it when it does not, and releases everything."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b'{"op":"quit"}\n')
        self._process.stdin.close()
        try:
            self._process.wait(_QUIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._selector.close()
        self._process.stdout.close()
        self._errors.close()
