"""A measured process of netmesh: ``ARM FOLDER --list``, ``--serve`` or ``--node``.

ARM is ``core`` or ``library`` (native loops), ``netmesh`` or ``pure`` (Python). FOLDER holds
the inputs that the parent made.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from netmesh._version import __version__
from netmesh.bench.kit import harness
from netmesh.bench.kit.harness import Offer, Worker
from netmesh.bench.model import Api

NativeArm = Literal["core", "library"]

ARMS = ("core", "library", "netmesh", "pure")
"""The arms that this program runs."""


class NativeRunner:
    """A row of netmesh._bench behind the interface of the Python rows."""

    def __init__(self, arm: NativeArm, row: str) -> None:
        from netmesh import _bench

        self._prepared = _bench.prepare(arm, row)

    def block(self, ns: int) -> dict[str, Any]:
        """Runs one block natively."""
        calls, spent, cpu_ns, fixture, check = self._prepared.block(ns)
        return {"calls": calls, "ns": spent, "cpu_ns": cpu_ns, "fixture": fixture, "check": check}

    def singles(self, count: int) -> dict[str, Any]:
        """Times single calls natively."""
        pairs, maximum, calls_each, clock_ns = self._prepared.singles(count)
        return {"hist": pairs, "max_ns": maximum, "calls_each": calls_each, "clock_ns": clock_ns}


def _native(arm: NativeArm) -> Worker:
    from netmesh import _bench, _core

    def preparation(row: str) -> Callable[[], NativeRunner]:
        return lambda: NativeRunner(arm, row)

    rows = {row: Offer(note, preparation(row)) for row, note in _bench.rows(arm)}
    versions = _core.library_versions()
    if arm == "core":
        versions = {"netmesh": __version__, **versions}
    features = " ".join(_core.cpu_features()) or "none"
    flags = f"compiler {_bench.COMPILER}; instruction sets used: {features}"
    if arm != "core":
        return Worker(arm, versions, "MIT", flags, rows)
    from netmesh.bench import native_node_worker

    return Worker("netmesh", versions, "MIT", flags, rows, native_node_worker.KINDS)


def _python(arm: str, folder: str) -> Worker:
    from netmesh.bench.suites import ALL

    api = Api("netmesh" if arm == "netmesh" else "netmesh.pure", folder)
    rows = {name: offer for suite in ALL for name, offer in suite.offers(api).items()}
    python = f"{platform.python_implementation()} {platform.python_version()}"
    kinds: Mapping[str, str] = {}
    if arm == "netmesh":
        from netmesh.bench import node_worker

        kinds = node_worker.KINDS
    return Worker(arm, {"netmesh": __version__}, "MIT", python, rows, kinds)


def main(arguments: Sequence[str]) -> int:
    """Runs the worker; returns the exit code."""
    if len(arguments) != 3 or arguments[0] not in ARMS:
        print(f"usage: worker {{{'|'.join(ARMS)}}} FOLDER --list|--serve|--node", file=sys.stderr)
        return harness.EXIT_MISUSE
    folder, mode = arguments[1:]
    if mode == "--node":
        if arguments[0] == "core":
            from netmesh.bench import native_node_worker as program
        else:
            from netmesh.bench import node_worker as program  # type: ignore[no-redef]
        return program.main()
    if arguments[0] == "core" or arguments[0] == "library":
        worker = _native("core" if arguments[0] == "core" else "library")
    else:
        worker = _python(arguments[0], folder)
    return harness.run(worker, [mode])
