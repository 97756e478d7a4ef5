"""netmesh's core as one side of a row between two processes (benchmarks/README.md).

The node, its server's answers and the client's samples are C (benchmarks/native/nodes.c);
this module speaks the protocol. Samples are differences of the engine's stamps.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from netmesh import Identity
from netmesh._bench import Node
from netmesh.bench.kit.nodes import (
    ARRIVAL_S,
    NO_PAYLOAD,
    Operations,
    Payloads,
    Tally,
    serve,
)

NAME, MAILBOX = "netmesh.bench", "lxmf.delivery"
PATIENCE_MS = 40_000

_ENGINE = "by the engine's stamps, from the command to the event that ends it"
_MESSAGE = f"packed and signed by the core; then {_ENGINE}"

KINDS = {
    "discovery": _ENGINE,
    "link": _ENGINE,
    "request": f"{_ENGINE}; the handler is a C function",
    "packet": _ENGINE,
    "direct": _MESSAGE,
    "cold": f"{_MESSAGE}, of the link and of the message",
    "opportunistic": _MESSAGE,
    "deliver": _MESSAGE,
    "resource": _ENGINE,
    "channel": f"{_ENGINE}: of the first message to the proof of the last",
    "buffer": f"{_ENGINE}: of the write to the end of the answering stream",
    "links": f"{_ENGINE}; all commands are posted at once",
    "idle": "nothing; the process has imported netmesh",
}
"""What a sample is, by kind."""

MESSAGES = frozenset(("direct", "cold", "opportunistic", "deliver"))


class Program:
    """The requests of the protocol."""

    def __init__(self) -> None:
        self._opened: tuple[bool, int] | None = None
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The node, from ``prepare`` on."""
        if self._node is None:
            raise RuntimeError("prepare comes first")
        return self._node

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """The role; the node starts in ``prepare``."""
        self._opened = (request["role"] == "server", request["port"])
        return {}

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Starts the node, and listens for the row."""
        if self._opened is None:
            raise RuntimeError("open comes first")
        is_server, port = self._opened
        self._kind = request["kind"]
        self._compress = bool(request["compress"])
        self._payloads = Payloads(request["file"], request["size"], request["items"])
        self._taken = 0
        self._node = Node(is_server, port, self._kind)
        if is_server:
            return self._listen(request["samples"] if self._kind == "discovery" else 1)
        self._hashes = bytes.fromhex(request.get("destinations") or request["destination"])
        if self._kind not in MESSAGES:
            return {}
        return {"source": self.node.listen(MAILBOX, bytes(Identity().private_key)).hex()}

    def _listen(self, count: int) -> dict[str, Any]:
        name = MAILBOX if self._kind in MESSAGES else NAME
        identities = [Identity() for _ in range(count)]
        hashes = [self.node.listen(name, bytes(each.private_key)).hex() for each in identities]
        self.node.serve()
        key = identities[-1].public_key.hex()
        return {"destination": hashes[-1], "key": key, "destinations": "".join(hashes)}

    def announce(self, request: dict[str, Any]) -> dict[str, Any]:
        """Announces."""
        self.node.announce()
        return {}

    def meet(self, request: dict[str, Any]) -> dict[str, Any]:
        """Waits for an announce."""
        self.node.meet(bytes.fromhex(request["destination"]), PATIENCE_MS)
        return {}

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Takes samples."""
        count = request["count"]
        samples, starts, failed, error = self.node.run(
            self._hashes,
            self._payloads.data,
            self._payloads.size,
            self._payloads.items,
            self._taken,
            count,
            request["pace_us"],
            request["timeout_ms"],
            self._compress,
        )
        each = self._payloads.items if self._kind == "channel" else 1
        numbers = range(self._taken * each, (self._taken + count) * each)
        self._taken += count
        check = NO_PAYLOAD
        if self._payloads.items and not failed:
            step = -1 if self._kind == "request" else 1  # the core has compared the answers
            check = Tally().add_all(self._payloads[number][::step] for number in numbers).check
        made: dict[str, Any] = {"samples": samples, "starts": starts, "failed": failed}
        return {**made, "check": check, **({"error": error} if error else {})}

    def collect(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tells what arrived."""
        found: list[tuple[int, bytes | None]] = []
        deadline = time.monotonic() + ARRIVAL_S
        while True:
            found += self.node.take()
            numbers = {payload for _, payload in found if payload is not None}
            count = len(numbers) if self._kind == "links" else len(found)
            if count >= request["expect"] or time.monotonic() > deadline:
                break
            time.sleep(0.001)
        payloads = [payload for _, payload in found if payload is not None]
        if self._kind == "links":
            stamps = [at for at, payload in found if payload is None]
            return {"stamps": stamps, "count": count, "check": NO_PAYLOAD}
        stamps = [at for at, _ in found]
        return {"stamps": stamps, "count": count, "check": Tally().add_all(payloads).check}

    def operations(self) -> Operations:
        """By name."""
        names = ("open", "prepare", "announce", "meet", "run", "collect")
        return {name: getattr(self, name) for name in names}

    def close(self) -> None:
        """Ends the node."""
        if self._node is not None:
            self._node.close()


def main() -> int:
    """Serves until ``quit``; returns the exit code."""
    with contextlib.closing(Program()) as program:
        return serve(program.operations())
