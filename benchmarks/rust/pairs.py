"""Drive the nodes of adapters against each other, as the rows between two processes do.

Usage: ``python benchmarks/rust/pairs.py SERVER CLIENT [--kind GLOB] [--count N]``

``SERVER`` and ``CLIENT`` are programs that understand ``--node``. For every kind that both
offer, the script starts both, runs the requests in the order of ``benchmarks/README.md`` and
checks each answer: the samples, the stamps, and that what arrived is what was sent. It needs
only the standard library. The times that it prints are a smoke test, not a measurement.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import random
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TAG = "@netmesh "
"""What precedes each answer of a program on standard output."""

NO_CHECK = bytes(32).hex()


class PairError(Exception):
    """A program broke the protocol, or what arrived is not what was sent."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row to try: ``count`` samples with ``items`` payloads of ``size`` bytes."""

    name: str
    kind: str
    size: int
    items: int = 4
    count: int = 20
    pace_us: int = 0
    compress: int = 0
    compressible: bool = False


CASES = (
    Case("discovery", "discovery", 0, count=10, pace_us=150_000),
    Case("link", "link", 0),
    Case("request 32 B", "request", 32, count=200),
    Case("packet 32 B", "packet", 32, count=100),
    Case("direct 256 B", "direct", 256, count=100),
    Case("cold 256 B", "cold", 256),
    Case("opportunistic 256 B", "opportunistic", 256, count=50),
    Case("deliver 16 KiB", "deliver", 16384),
    Case("resource 16 KiB", "resource", 16384),
    Case("resource 1 MiB", "resource", 1 << 20, count=5),
    Case("resource 1 MiB, compressing", "resource", 1 << 20, count=2, compress=1),
    Case(
        "resource 1 MiB of zeros, compressing",
        "resource",
        1 << 20,
        count=2,
        compress=1,
        compressible=True,
    ),
    Case("resource 50 MiB", "resource", 50 << 20, items=1, count=1),
    Case("file 8 MiB", "file", 8 << 20, items=2, count=3),
    Case("links 200", "links", 0, count=200),
    Case("idle", "idle", 0, count=200),
)


class Program:
    """A running ``--node``: one request, one answer."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process = subprocess.Popen(
            [*command, "--node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def ask(self, op: str, **fields: str | int) -> dict[str, Any]:
        """Send a request and return its answer, which must be ``ok``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        for line in self._process.stdout:
            if line.startswith(TAG):
                answer = dict(json.loads(line[len(TAG) :]))
                require(answer.get("ok") is True, f"{op}: {answer.get('error', answer)}")
                return answer
        raise PairError(f"{shlex.join(self._command)} ended instead of answering {op}")

    def quit(self) -> None:
        """Ask it to leave; its exit code must be 0."""
        self.ask("quit")
        require(self._process.wait(timeout=30) == 0, "a program left with an exit code")

    def end(self) -> None:
        """End it however it is."""
        self._process.kill()
        self._process.communicate()


def require(condition: bool, text: str) -> None:
    """Raise PairError with ``text`` unless ``condition`` holds."""
    if not condition:
        raise PairError(text)


def kinds_of(command: Sequence[str]) -> dict[str, str]:
    """The kinds that a program says it can play, with its notes."""
    done = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True)
    return {kind["id"]: kind["note"] for kind in json.loads(done.stdout)["kinds"]}


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def payloads_of(case: Case) -> list[bytes]:
    """The payloads of a row, the same in every run."""
    make = random.Random(case.name)
    if not case.size:
        return []
    return [
        bytes([item]) * case.size if case.compressible else make.randbytes(case.size)
        for item in range(case.items)
    ]


def arrivals_of(case: Case) -> int:
    """How much arrives at the server."""
    return 0 if case.kind in ("discovery", "idle") else case.count


def check_of(payloads: Sequence[bytes]) -> str:
    """The XOR of their digests, in hex."""
    total = 0
    for payload in payloads:
        total ^= int.from_bytes(hashlib.sha256(payload).digest())
    return total.to_bytes(32).hex()


def try_case(server_command: Sequence[str], client_command: Sequence[str], case: Case) -> list[int]:
    """Run one row between two programs and return its samples in nanoseconds."""
    payloads = payloads_of(case)
    server, client = Program(server_command), Program(client_command)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "payloads"
            file.write_bytes(b"".join(payloads))
            return measure(server, client, case, payloads, file)
    finally:
        server.end()
        client.end()


def measure(
    server: Program, client: Program, case: Case, payloads: Sequence[bytes], file: Path
) -> list[int]:
    """The requests of a row, in their order."""
    port = free_port()
    row: dict[str, str | int] = {
        "kind": case.kind,
        "row": case.name,
        "file": str(file),
        "size": case.size,
        "items": case.items if case.size else 0,
        "samples": case.count,
        "compress": case.compress,
    }
    server.ask("open", role="server", port=port)
    hosted = server.ask("prepare", **row)
    client.ask("open", role="client", port=port)
    known = {key: hosted[key] for key in ("destination", "key", "destinations") if key in hosted}
    aimed = client.ask("prepare", **row, **known)
    if case.kind != "discovery":
        server.ask("announce")
        client.ask("meet", destination=hosted["destination"])
    if "source" in aimed:
        client.ask("announce")
        server.ask("meet", destination=aimed["source"])
    before = [side.ask("usage", reset=1) for side in (server, client)]
    ran = client.ask("run", count=case.count, pace_us=case.pace_us, timeout_ms=30_000)
    after = [side.ask("usage", reset=0) for side in (server, client)]
    require(ran["failed"] == 0, f"{ran['failed']} samples failed: {ran.get('error')}")
    got = server.ask("collect", expect=arrivals_of(case))
    check_answers(case, payloads, ran, got)
    for old, new in zip(before, after, strict=True):
        require(new["cpu_ns"] >= old["cpu_ns"] > 0, "the CPU time runs backwards")
        require(new["peak"] >= new["rss"] > 0, "the memory is less than nothing")
    client.quit()
    server.quit()
    return [int(sample) for sample in ran["samples"]]


def check_answers(
    case: Case, payloads: Sequence[bytes], ran: dict[str, Any], got: dict[str, Any]
) -> None:
    """Check that the samples are there and that what arrived is what was sent."""
    samples = {"idle": 0, "links": 1}.get(case.kind, case.count)
    require(len(ran["samples"]) == len(ran["starts"]) == samples, "samples are missing")
    require(all(sample > 0 for sample in ran["samples"]), "a sample took no time")
    sent = [payloads[number % len(payloads)] for number in range(samples)] if payloads else []
    answers = [payload[::-1] for payload in sent] if case.kind == "request" else sent
    require(ran["check"] == check_of(answers), "the client's payloads are not those of the file")
    require(got["check"] == check_of(sent), "other payloads arrived than were sent")
    arrivals = arrivals_of(case)
    require(got["count"] == arrivals, f"{got['count']} of {arrivals} arrived")
    require(len(got["stamps"]) == arrivals, "stamps are missing")


def report(case: Case, samples: Sequence[int]) -> None:
    """Print what a row took."""
    if samples:
        middle, most = sorted(samples)[len(samples) // 2] / 1e6, max(samples) / 1e6
        print(f"  {case.name:<40} p50 {middle:10.3f} ms   max {most:10.3f} ms")
    else:
        print(f"  {case.name:<40} passed")


def main() -> int:
    """Try all rows between the programs that the command line names."""
    parser = argparse.ArgumentParser(description="Check the nodes of two adapters.")
    parser.add_argument("server", help="a program, with its arguments")
    parser.add_argument("client", help="a program, with its arguments")
    parser.add_argument("--kind", default="*", metavar="GLOB", help="kinds to try (all)")
    options = parser.parse_args()
    server, client = shlex.split(options.server), shlex.split(options.client)
    both = kinds_of(server).keys() & kinds_of(client).keys()
    failed = 0
    for case in CASES:
        if case.kind not in both or not fnmatch.fnmatch(case.kind, options.kind):
            continue
        try:
            samples = try_case(server, client, case)
        except PairError as error:
            print(f"  {case.name:<40} FAILED: {error}")
            failed += 1
            continue
        report(case, samples)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
