"""A node of its own process that sends and takes files, and tells how its memory grows.

    python netmesh_end.py PORT

It listens on the port of 127.0.0.1, or, for "0", on any. Orders are objects with "do", events are
objects with "event".
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from lines import file_digest, tell

from netmesh import Link, Node
from netmesh.interfaces import TCPClient, TCPServer

PATIENCE_S = 600.0


def resident(what: str) -> int:
    """Bytes, from what Linux says of this process: "VmRSS" now, "VmHWM" at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise LookupError(what)


class End:
    """The node and its newest link."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.link: Link | None = None

    async def current(self) -> Link:
        if self.link is None:
            self.link = await self.sink.links.get(timeout=PATIENCE_S)
        return self.link

    async def do_listen(self, order: dict[str, Any]) -> None:
        self.sink = await self.node.listen("netmesh.bulk", resources="all")
        tell("listens", destination=self.sink.hash.hex(), port=self.node.interfaces()[0].port)

    async def do_call(self, order: dict[str, Any]) -> None:
        to = bytes.fromhex(order["destination"])
        await self.node.path(to, timeout=PATIENCE_S)
        self.link = await self.node.connect(to, timeout=PATIENCE_S, resources="all")
        tell("up")

    async def do_send(self, order: dict[str, Any]) -> None:
        link = await self.current()
        compression = order.get("compression", "automatic")
        sent = await link.send_file(Path(order["path"]), compression=compression)
        tell("sent", size=sent.done_bytes, wire=sent.wire_bytes)

    async def do_receive(self, order: dict[str, Any]) -> None:
        link = await self.current()
        tell("waits")
        received = await link.receive_file(Path(order["path"]), timeout=PATIENCE_S)
        assert received.path is not None
        tell("taken", size=received.path.stat().st_size, digest=file_digest(received.path))

    async def do_memory(self, order: dict[str, Any]) -> None:
        """How much more than at the last such order there ever was; then it starts anew."""
        tell("memory", growth=resident("VmHWM") - getattr(self, "_before", 0))
        Path("/proc/self/clear_refs").write_text("5")
        self._before = resident("VmRSS")


async def main() -> None:
    port = int(sys.argv[1])
    interface = TCPClient("127.0.0.1", port) if port else TCPServer("127.0.0.1")
    async with Node(interfaces=[interface], shared_instance=False) as node:
        end = End(node)
        tell("ready")
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        async with asyncio.TaskGroup() as orders:
            while line := await reader.readline():
                order = json.loads(line)
                orders.create_task(getattr(end, f"do_{order['do']}")(order))


asyncio.run(main())
