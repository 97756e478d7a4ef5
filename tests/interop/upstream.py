"""Live upstream processes for the tests: peers as JSON-line programs, and worlds around them.

A :class:`World` is a netmesh node and an upstream peer with something between them:

- "direct": the peer's TCP client is connected to the node's TCP server;
- "shared": the node is a client of an ``rnsd``, by its abstract socket, and the ``rnsd`` is
  connected to the peer;
- "transport": node and peer are both connected to an upstream transport node, which looks for
  paths that it does not know.

Everything is waited for by events with deadlines. Where upstream asks, :meth:`Peer.ask` repeats
the question, because upstream may lose an answer that is back at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from interop.peers.lines import content, digest
from netmesh import Link, Node, errors
from netmesh.interfaces import TCPClient, TCPServer
from netmesh.records import PathRecord

__all__ = [
    "ATTEMPT_S",
    "OLD",
    "PATIENCE",
    "PEERS",
    "RELEASES",
    "TOPOLOGIES",
    "Peer",
    "World",
    "client",
    "config",
    "content",
    "digest",
    "find",
    "instance_name",
    "meet",
    "rnsd",
    "server",
    "spawn",
]

PEERS = Path(__file__).parent / "peers"
OLD = "NETMESH_OLD_PEER_PYTHON"
RELEASES = ("current", "old")
TOPOLOGIES = ("direct", "shared", "transport")
PATIENCE = 40.0
"""Everything that has to come comes within this, in seconds, on a busy machine too."""
ATTEMPT_S = 2.5
"""After this long an answer is taken to have been lost by upstream."""
TRIES = 16
"""How many times upstream asks before the test gives up."""

T = TypeVar("T")
_numbers = itertools.count(1)


def interpreter(release: str) -> str | None:
    """The Python of a release of the upstream stack; None when there is none."""
    if release == "current":
        return sys.executable
    old = os.environ.get(OLD, "")
    return old if Path(old).is_file() else None


# --------------------------------------------------------------------------- settings


def client(port: int, *, host: str = "127.0.0.1", **options: Any) -> dict[str, Any]:
    """A TCP client of upstream."""
    return {"type": "TCPClientInterface", "target_host": host, "target_port": port} | options


def server(*, host: str = "127.0.0.1", **options: Any) -> dict[str, Any]:
    """A TCP server of upstream on any free port, which the peer tells in its "ready"."""
    return {"type": "TCPServerInterface", "listen_ip": host, "listen_port": 0} | options


def config(
    interfaces: Mapping[str, Mapping[str, Any]],
    *,
    transport: bool = False,
    instance: str | None = None,
    **options: Any,
) -> str:
    """An ordinary configuration file."""
    lines = [
        "[reticulum]",
        f"enable_transport = {transport}",
        f"share_instance = {instance is not None}",
        *([f"instance_name = {instance}"] if instance else []),
        *(f"{name} = {value}" for name, value in options.items()),
        "[interfaces]",
    ]
    for name, interface in interfaces.items():
        lines += [f"[[{name}]]", "enabled = yes"]
        lines += [f"{key} = {value}" for key, value in interface.items()]
    return "\n".join(lines) + "\n"


# -------------------------------------------------------------------------- processes


class Peer:
    """An upstream process that takes orders and tells events."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._events: list[dict[str, Any]] = []
        self._said: list[str] = []
        self._changed = asyncio.Condition()
        self._ended = False
        self._orders = itertools.count(1)
        self._reader = asyncio.create_task(self._read())
        self.ready: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def destination(self) -> bytes:
        """The address of its echo, or of its mailbox."""
        return bytes.fromhex(self.ready["destination"])

    async def kill(self) -> None:
        """Ends it as kill -9 does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout
        async for line in self._process.stdout:
            if line.startswith(b"{"):
                self._events.append(json.loads(line))
            else:
                self._said.append(line.decode(errors="replace"))
            async with self._changed:
                self._changed.notify_all()
        self._ended = True
        async with self._changed:
            self._changed.notify_all()

    async def announce(self, app_data: bytes | None = None, **fields: Any) -> None:
        """Lets it announce its echo."""
        data = None if app_data is None else app_data.hex()
        await self.call("announce", "announced", app_data=data, **fields)

    def do(self, what: str, **fields: Any) -> int:
        """Gives an order; its number is in the events that belong to it."""
        assert self._process.stdin
        number = next(self._orders)
        order = {"do": what, "id": number, **fields}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return number

    async def call(self, what: str, answer: str, **fields: Any) -> dict[str, Any]:
        """Gives an order that the program itself answers, so that nothing can be lost."""
        return await self.wait(answer, id=self.do(what, **fields))

    def seen(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The events of a kind that nobody has waited for yet."""
        return [
            each
            for each in self._events
            if each["event"] == event and fields.items() <= each.items()
        ]

    async def wait(
        self, event: str, *, patience_s: float = PATIENCE, **fields: Any
    ) -> dict[str, Any]:
        """Takes the next event of a kind with these fields; others are kept."""
        try:
            async with asyncio.timeout(patience_s), self._changed:
                while not (found := self.seen(event, **fields)):
                    assert not self._ended, f"the peer ended: {''.join(self._said)}"
                    await self._changed.wait()
        except TimeoutError:
            last = self._events[-5:]
            raise TimeoutError(
                f"no {event} {fields} within {patience_s:g} s; seen and not taken: {last}"
            ) from None
        self._events.remove(found[0])
        return found[0]

    async def ask(
        self,
        what: str,
        answer: str,
        *,
        orders: Callable[[int], dict[str, Any]],
        expect: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {},
        attempt_s: float = ATTEMPT_S,
    ) -> int:
        """Lets upstream ask until it has seen the answer; returns how many times it asked.

        Upstream registers receipts of packets, receipts of requests and its resources only
        after the packet has left (RNS 1, 4.9; RNS 2, 3.14). What is back before finds nothing
        and is lost; its program sees a time-out and has to ask again. So does this, a bounded
        number of times, with an order of its own for each attempt: ``orders(attempt)``.
        ``expect`` says which fields the answer to an order has.
        """
        for attempt in range(1, TRIES + 1):
            order = orders(attempt)
            number = self.do(what, **order)
            try:
                await self.wait(answer, patience_s=attempt_s, id=number, **expect(order))
            except TimeoutError:
                continue
            return attempt
        raise AssertionError(f"upstream asked {TRIES} times ({what}) and saw no {answer}")


@asynccontextmanager
async def spawn(
    python: str, folder: Path, settings: str, *, program: str = "rns_peer.py"
) -> AsyncIterator[Peer]:
    """An upstream program with these settings, ready."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_text(settings)
    process = await asyncio.create_subprocess_exec(
        python,
        str(PEERS / program),
        str(folder),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 22,
    )
    async with Peer(process) as peer:
        peer.ready = await peer.wait("ready")
        yield peer


@asynccontextmanager
async def rnsd(python: str, folder: Path, settings: str) -> AsyncIterator[Peer]:
    """The ``rnsd`` of a release. It tells nothing: who attaches to it sees that it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_text(settings)
    process = await asyncio.create_subprocess_exec(
        python,
        "-m",
        "RNS.Utilities.rnsd",
        "--config",
        str(folder),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with Peer(process) as peer:
        yield peer


# ----------------------------------------------------------------------------- worlds


@dataclass(frozen=True, slots=True)
class World:
    """A node and a peer that have a path to each other."""

    node: Node
    peer: Peer
    hops: int
    """Hops from the node to the peer, as the node counts them."""
    release: str
    """"current" or "old"."""

    async def heard(
        self,
        announce: Callable[[], Awaitable[object]],
        hear: Callable[[float], Awaitable[T]],
    ) -> T:
        """Announces until it is heard, a bounded number of times; gives what was heard.

        Announces are not acknowledged, and a node of upstream between the two may pass one over:
        while it answers a path request for the destination, for one. ``hear(seconds)`` waits
        for one and raises TimeoutError.
        """
        for _ in range(TRIES):
            await announce()
            with contextlib.suppress(TimeoutError):
                return await hear(ATTEMPT_S)
        raise AssertionError(f"announced {TRIES} times and never heard")

    async def link(self, destination: bytes) -> tuple[str, dict[str, Any]]:
        """Lets the peer open a link to a destination of the node; its name and "up" event."""
        number = self.peer.do("connect", destination=destination.hex())
        up = await self.peer.wait("up", id=number)
        return up["link"], up

    async def ask_over(
        self,
        link: str,
        what: str,
        answer: str,
        *,
        expect: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {},
        attempt_s: float | None = None,
        **order: Any,
    ) -> int:
        """:meth:`Peer.ask` over a link of the peer, with a seed of its own for each attempt."""
        return await self.peer.ask(
            what,
            answer,
            orders=lambda _: {"link": link, "seed": f"seed {next(_numbers)}"} | order,
            expect=expect,
            attempt_s=attempt_s or ATTEMPT_S,
        )


async def find(node: Node, destination: bytes) -> PathRecord:
    """The path to a destination, asked for more often than the node does by itself.

    It repeats a question after 20 s, as upstream does. An instance that is just starting
    answers its clients before its interfaces are there, and loses the first one.
    """
    for _ in range(TRIES):
        with contextlib.suppress(errors.PathError):
            return await node.path(destination, timeout=ATTEMPT_S)
        with contextlib.suppress(errors.NoRouteError):
            await node.request_path(destination)
    raise AssertionError(f"asked {TRIES} times for a path and got none")


def instance_name() -> str:
    """A name that no other instance on this machine has."""
    return f"netmesh-{os.getpid()}-{next(_numbers)}"


@asynccontextmanager
async def meet(
    topology: str,
    python: str,
    folder: Path,
    *,
    program: str = "rns_peer.py",
    settings: Mapping[str, Any] | None = None,
    theirs: Mapping[str, Any] | None = None,
    ours: Mapping[str, Any] | None = None,
    node: Mapping[str, Any] | None = None,
    between: Mapping[str, Any] | None = None,
) -> AsyncIterator[World]:
    """A node and a peer of a release, joined in one of :data:`TOPOLOGIES`.

    ``ours`` and ``theirs`` are options of the interfaces of node and peer, ``between`` of the
    interface of what is between them, ``node`` of the node, ``settings`` of the peer's
    configuration.
    """
    middle = dict(between or {})
    ours, theirs, options = dict(ours or {}), dict(theirs or {}), dict(node or {})
    rules = dict(settings or {})
    async with AsyncExitStack() as stack:

        async def start(settings: str, name: str, program: str = program) -> Peer:
            return await stack.enter_async_context(
                spawn(python, folder / name, settings, program=program)
            )

        if topology == "direct":
            here = await stack.enter_async_context(
                Node(interfaces=[TCPServer("127.0.0.1", **ours)], **options)
            )
            port = here.interfaces()[0].port
            assert port
            peer = await start(config({"node": client(port, **theirs)}, **rules), "peer")
        elif topology == "shared":
            name = instance_name()
            peer = await start(config({"port": server(**theirs)}, **rules), "peer")
            port = peer.ready["ports"]["port"]
            await stack.enter_async_context(
                rnsd(
                    python, folder / "rnsd", config({"far": client(port, **middle)}, instance=name)
                )
            )
            here = await stack.enter_async_context(Node(shared_instance=name, **options))
            await here.interfaces()[0].wait_online(timeout=PATIENCE)
        else:
            hub = await start(
                config({"hub": server(mode="gateway", **middle)}, transport=True),
                "hub",
                program="rns_peer.py",
            )
            port = hub.ready["ports"]["hub"]
            peer = await start(config({"hub": client(port, **theirs)}, **rules), "peer")
            here = await stack.enter_async_context(
                Node(interfaces=[TCPClient("127.0.0.1", port, **ours)], **options)
            )
            await here.interfaces()[0].wait_online(timeout=PATIENCE)
        path = await find(here, peer.destination)
        yield World(here, peer, path.hops, "current" if python == sys.executable else "old")


async def accepted(links: Any, name: str) -> Link:
    """The link with a name among those that a destination of ours was opened."""
    while True:
        link: Link = await links.get(timeout=PATIENCE)
        if link.link_id.hex() == name:
            return link
