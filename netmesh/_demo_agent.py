"""One agent of the demo: a node of netmesh in a process of its own, told what to do by lines.

Each line of its input is a JSON object with a ``command``:

``announce``                          announces the mailbox and the service
``message`` (to, content)             sends an LXMF message to a mailbox
``call`` (to, text)                   asks a service to greet, over a link that stays open
``file`` (to, path)                   sends a file to a service
``quit``                              ends the process (so does the end of input)

Each line of its output is a JSON object with an ``event``: ``ready``, ``online``; ``heard``;
``message`` and ``file`` when one was received; ``delivered``, ``answered``, ``progress``,
``transferred`` for what it sent; ``error``. Times are seconds.

Usage: python -m netmesh._demo_agent NAME [PORT...], connecting to 127.0.0.1:PORT; without
ports it listens on one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from netmesh import DestinationHash, Link, Node
from netmesh.destinations import IncomingRequest
from netmesh.events import AnnounceHeard, ProgressMade, ResourceReceived
from netmesh.interfaces import InterfaceOptions, TCPClient, TCPServer
from netmesh.messaging import MessageReceived

HOST = "127.0.0.1"
SERVICE = "netmesh.demo"
GREETING = "/greet"
PATIENCE_S = 20.0
PROGRESS_S = 0.05


def emit(event: str, **values: Any) -> None:
    """Writes one event as a line."""
    print(json.dumps({"event": event, **values}), flush=True)


class Agent:
    """What one agent can do."""

    def __init__(self, name: str, node: Node) -> None:
        self.name = name
        self.node = node
        self._links: dict[str, Link] = {}
        self._told = 0.0

    async def open(self) -> None:
        """Listens, and tells where."""
        self.mailbox = await self.node.lxmf(display_name=self.name, on_message=self._message)
        self.service = await self.node.listen(
            SERVICE, resources="all", app_data=self.name, on_resource=self._file
        )
        await self.service.add_handler(GREETING, self._greet)
        self.node.on_announce(self._heard)
        opened = self.node.interfaces()
        ports = [each.port for each in opened if isinstance(each.options, TCPServer)]
        emit("ready", mailbox=self.mailbox.hash.hex(), service=self.service.hash.hex(), ports=ports)

    def _heard(self, announce: AnnounceHeard) -> None:
        emit("heard", destination=announce.destination.hex(), hops=announce.hops)

    def _message(self, received: MessageReceived) -> None:
        emit("message", content=received.content, verified=received.verified)

    def _greet(self, request: IncomingRequest) -> str:
        return f"{request.data}, says {self.name}"

    def _file(self, _link: Link, received: ResourceReceived) -> None:
        digest = hashlib.sha256(received.data).hexdigest()
        emit("file", bytes=len(received.data), sha256=digest)

    async def _joined(self) -> None:
        """Waits for a connection to the server: who connects at this moment would hear nothing."""
        serves = any(isinstance(each.options, TCPServer) for each in self.node.interfaces())
        async with asyncio.timeout(PATIENCE_S):
            while serves and not any(
                each.parent is not None and each.online for each in self.node.interface_infos()
            ):
                await asyncio.sleep(0.01)

    async def announce(self) -> None:
        """Announces the mailbox and the service."""
        await self._joined()
        await self.mailbox.announce()
        await self.service.announce()

    async def message(self, to: str, content: str) -> None:
        """Sends a message."""
        began = time.perf_counter()
        mailbox = DestinationHash.from_hex(to)
        done = await self.node.send_message(mailbox, content, timeout=PATIENCE_S)
        emit("delivered", seconds=time.perf_counter() - began, method=done.method.name.lower())

    async def _link_to(self, to: str) -> Link:
        link = self._links.get(to)
        if link is None or link.closed:
            link = await self.node.connect(DestinationHash.from_hex(to), timeout=PATIENCE_S)
            self._links[to] = link
        return link

    async def call(self, to: str, text: str) -> None:
        """Asks a service."""
        began = time.perf_counter()
        link = await self._link_to(to)
        linked = time.perf_counter()
        done = await link.request(GREETING, text, timeout=PATIENCE_S)
        ended = time.perf_counter()
        emit("answered", text=done.data, seconds=ended - linked, link_seconds=linked - began)

    async def file(self, to: str, path: str) -> None:
        """Sends a file."""
        link = await self._link_to(to)
        began = time.perf_counter()
        await link.send_file(path, progress=self._progress)
        emit("transferred", seconds=time.perf_counter() - began)

    def _progress(self, made: ProgressMade) -> None:
        now = time.monotonic()
        if now - self._told >= PROGRESS_S:
            self._told = now
            emit("progress", done=made.done_bytes, total=made.total_bytes)

    async def obey(self, line: str) -> bool:
        """Does what a line says; False after ``quit``."""
        values = json.loads(line)
        command = values.pop("command")
        if command == "quit":
            return False
        doing: dict[str, Callable[..., Awaitable[None]]] = {
            "announce": self.announce,
            "message": self.message,
            "call": self.call,
            "file": self.file,
        }
        try:
            await doing[command](**values)
        except Exception as error:
            emit("error", text=f"{command}: {type(error).__name__}: {error}")
        return True


async def run(name: str, ports: Sequence[int]) -> int:
    """Serves commands until there are no more."""
    interfaces: list[InterfaceOptions] = [
        TCPClient(HOST, port, label=f"port {port}") for port in ports
    ]
    if name == "Alice":
        interfaces.append(TCPServer(HOST))
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with Node(interfaces=interfaces) as node:
        agent = Agent(name, node)
        await agent.open()
        for interface in node.interfaces():
            if isinstance(interface.options, TCPClient):
                await interface.wait_online(timeout=PATIENCE_S)
        emit("online")
        while line := await lines.readline():
            if not await agent.obey(line.decode()):
                break
    return 0


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], [int(port) for port in sys.argv[2:]]))
