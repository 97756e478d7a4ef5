"""Drive an adapter through its whole protocol and fail on any error.

Usage: ``python benchmarks/rust/selftest.py ADAPTER [ADAPTER ...] [--row GLOB] [--ns N]``

For every row that the adapter lists, the script prepares it, runs two blocks and a
few single calls, asks for the peak memory, and checks the shape and the plausibility
of each answer. Where several adapters have a row, their outputs for the same input
must agree. Then it misuses the protocol and checks that the adapter says so, and lets the
nodes of each adapter, with and without ``--nodelay``, do the rows between two processes
(``pairs.py``). It needs only the standard library. Times are printed as nanoseconds per call;
they are a smoke test, not a measurement.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
from types import TracebackType
from typing import Any

import pairs

TAG = "@netmesh "
"""What precedes each answer of the adapter on standard output."""

EXIT_MISUSE = 2
"""Exit code of an adapter after a request that breaks the protocol."""

OWN_CHECKS = ("stamp.search*",)
"""Rows whose proof differs from peer to peer: each has its own order of tries."""

LIST_KEYS = {"peer", "versions", "licence", "rustc", "flags", "rows", "kinds"}


class SelfTestError(Exception):
    """The adapter broke its protocol or reported an error."""


class Adapter:
    """A running adapter: one request, one answer.

    Not safe for use by several threads. Use it as a context manager; leaving the
    block asks the adapter to quit and checks its exit code.
    """

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [program, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Adapter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
            self._process.wait()
            return
        require(self.ask(op="quit") == {"ok": True}, "quit gave an unexpected answer")
        require(self.wait() == 0, "the adapter did not leave with exit code 0")

    def send(self, line: str) -> dict[str, Any]:
        """Send one line and return the answer, skipping lines of the crates."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        for text in self._process.stdout:
            if text.startswith(TAG):
                answer = json.loads(text[len(TAG) :])
                require(isinstance(answer, dict), "the answer is no object")
                return dict(answer)
        raise SelfTestError(f"the adapter ended instead of answering {line}")

    def ask(self, **request: str | int) -> dict[str, Any]:
        """Send a request and return its answer, whatever it says."""
        return self.send(json.dumps(request))

    def demand(self, **request: str | int) -> dict[str, Any]:
        """Send a request and return its answer, which must be ``ok``."""
        answer = self.ask(**request)
        require(answer.get("ok") is True, f"{request}: {answer.get('error', answer)}")
        return answer

    def wait(self) -> int:
        """Close the adapter's input and return its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        code = self._process.wait(timeout=60)
        self._process.stdout.close()
        return code


def require(condition: bool, text: str) -> None:
    """Raise SelfTestError with ``text`` unless ``condition`` holds."""
    if not condition:
        raise SelfTestError(text)


def describe(program: str) -> dict[str, Any]:
    """Run ``--list`` and check that it describes the adapter completely."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    listing = json.loads(done.stdout)
    require(set(listing) == LIST_KEYS, f"--list has the keys {sorted(listing)}")
    for key in LIST_KEYS - {"versions", "rows", "kinds"}:
        require(bool(listing[key]) and isinstance(listing[key], str), f"--list: {key} is empty")
    require(bool(listing["versions"]), "--list names no crate version")
    identifiers = [row["id"] for row in listing["rows"]]
    require(len(set(identifiers)) == len(identifiers), "--list names a row twice")
    require("control.empty" in identifiers, "--list has no control row")
    require(all(row["note"] for row in listing["rows"]), "a row has no note")
    require(all(kind["note"] for kind in listing["kinds"]), "a kind has no note")
    return dict(listing)


def check_block(adapter: Adapter, row: str, ns: int) -> float:
    """Run one block of a row and return its nanoseconds per call."""
    answer = adapter.demand(op="block", row=row, ns=ns)
    for key in ("calls", "ns", "cpu_ns", "fixture"):
        require(isinstance(answer[key], int) and answer[key] >= 0, f"{row}: {key} is no number")
    require(answer["calls"] > 0 and answer["ns"] > 0, f"{row}: an empty block")
    require(bool(answer["check"]), f"{row}: no proof of the output")
    one_call = answer["ns"] / answer["calls"]
    longest = max(50 * ns, 5 * one_call, 1_000_000_000)
    require(answer["ns"] <= longest, f"{row}: a block of {answer['ns']} ns instead of {ns}")
    return float(one_call)


def check_outputs(adapter: Adapter, row: str, known: dict[tuple[str, int], str]) -> None:
    """Compare the outputs for a few inputs with those of the adapters before."""
    if any(fnmatch.fnmatch(row, pattern) for pattern in OWN_CHECKS):
        return
    for _ in range(3):
        answer = adapter.demand(op="block", row=row, ns=1)
        key = (row, answer["fixture"])
        require(
            known.setdefault(key, answer["check"]) == answer["check"],
            f"{row}: the output for input {key[1]} differs from another peer's",
        )


def check_singles(adapter: Adapter, row: str, count: int) -> None:
    """Time single calls of a row and check the histogram."""
    answer = adapter.demand(op="singles", row=row, count=count)
    uppers = [upper for upper, _ in answer["hist"]]
    counts = [number for _, number in answer["hist"]]
    require(uppers == sorted(set(uppers)), f"{row}: the histogram is not in order")
    require(min(counts) > 0 and sum(counts) == count, f"{row}: the histogram lost calls")
    require(answer["calls_each"] >= 1, f"{row}: calls_each is below 1")
    # A bin is at most 0.79 % wide, so its upper bound is hardly above the maximum.
    require(
        answer["max_ns"] <= uppers[-1] <= answer["max_ns"] * 1.01 + 1,
        f"{row}: the maximum is not in the last bin",
    )


def check_errors(program: str, row: str) -> None:
    """Check that errors are answers and that misuse ends the adapter."""
    with Adapter(program) as adapter:
        for request in (
            {"op": "prepare", "row": "no.such.row"},
            {"op": "block", "row": row, "ns": 1000},
            {"op": "singles", "row": row, "count": 1},
        ):
            answer = adapter.send(json.dumps(request))
            require(answer["ok"] is False and bool(answer["error"]), f"{request}: no error")
    for line in ("nonsense", "{}", '{"op":"fly"}', '{"op":"block","row":"x"}', "[1]"):
        adapter = Adapter(program)
        answer = adapter.send(line)
        require(answer["ok"] is False and bool(answer["error"]), f"{line}: no error")
        require(adapter.wait() == EXIT_MISUSE, f"{line}: not treated as misuse")
    usage = subprocess.run([program], capture_output=True, text=True, check=False)
    require(usage.returncode == EXIT_MISUSE, "a call without arguments is not misuse")


def check_nodes(program: str, pattern: str) -> int:
    """Let two nodes do the rows between them; the number of rows that passed."""
    passed = 0
    for command in ([program], [program, "--nodelay"]):
        kinds = pairs.kinds_of(command)
        for case in pairs.CASES:
            if case.kind in kinds and fnmatch.fnmatch(case.kind, pattern):
                pairs.report(case, pairs.try_case(command, command, case))
                passed += 1
    return passed


def test(
    program: str,
    pattern: str,
    *,
    ns: int,
    count: int,
    known: dict[tuple[str, int], str],
) -> int:
    """Test one adapter and return the number of rows that passed."""
    listing = describe(program)
    print(f"{listing['peer']}: {listing['rustc']}; {listing['flags']}")
    rows = [row["id"] for row in listing["rows"] if fnmatch.fnmatch(row["id"], pattern)]
    nodes = check_nodes(program, pattern)
    require(bool(rows) or nodes > 0, f"no row matches {pattern}")
    with Adapter(program) as adapter:
        for row in rows:
            adapter.demand(op="prepare", row=row)
            check_outputs(adapter, row, known)
            check_block(adapter, row, ns)
            one_call = check_block(adapter, row, ns)
            check_singles(adapter, row, count)
            print(f"  {row:<28} {one_call:14.1f} ns")
        peak = adapter.demand(op="rss")["vmhwm"]
        require(isinstance(peak, int) and peak > 100_000, "no peak memory")
        print(f"  peak memory {peak / 2**20:.1f} MiB")
    check_errors(program, listing["rows"][0]["id"])
    return len(rows) + nodes


def main() -> int:
    """Test the adapters that the command line names."""
    parser = argparse.ArgumentParser(description="Check adapters of the Rust peers.")
    parser.add_argument("adapters", nargs="+", metavar="ADAPTER", help="an adapter program")
    parser.add_argument("--row", default="*", metavar="GLOB", help="rows and kinds to run (all)")
    parser.add_argument("--ns", type=int, default=5_000_000, help="block length (5 ms)")
    parser.add_argument("--count", type=int, default=20, help="single calls per row (20)")
    options = parser.parse_args()
    known: dict[tuple[str, int], str] = {}
    try:
        for program in options.adapters:
            passed = test(program, options.row, ns=options.ns, count=options.count, known=known)
            print(f"{program}: {passed} rows passed")
    except (
        SelfTestError,
        pairs.PairError,
        OSError,
        ValueError,
        KeyError,
        subprocess.SubprocessError,
    ) as error:
        print(f"self-test failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
