"""Chains of netmesh nodes and live upstream nodes, and all that two ends say to each other.

A chain is written as its places from left to right: "n" and "r" are ends, of netmesh and of
upstream, "N" and "R" transport nodes. Between two places is an edge: TCP to the left one's
server, TCP to the right one's, or UDP through a proxy that loses a share of the datagrams.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from interop.upstream import (
    ATTEMPT_S,
    PATIENCE,
    TRIES,
    Peer,
    client,
    config,
    content,
    digest,
    find,
    server,
    spawn,
)
from netmesh import Node, errors
from netmesh.constants import InterfaceMode, Method
from netmesh.destinations import LocalDestination
from netmesh.interfaces import UDP, TCPClient, TCPServer
from netmesh.messaging import Mailbox

__all__ = [
    "Chain",
    "Edge",
    "Place",
    "chain",
    "converse",
    "meet_by_announces",
    "opened",
    "send_messages",
    "star",
]

COMPLETE = 6
"""Upstream's state of a resource that was proven."""
LOST_S = 1.0
"""After this long something on a lossy wire is taken to be lost."""
MESSAGE_S = 6.0
"""How long a message of upstream may take before another one is tried."""
LETTER_S = 12.0
"""The same over a lossy wire, on which upstream sends a packet again after ten seconds."""
HOST = "127.0.0.1"


# ---------------------------------------------------------------------------- a lossy wire


class _Side(asyncio.DatagramProtocol):
    def __init__(self, lossy: Lossy, to: int) -> None:
        self.lossy, self.to = lossy, to
        self.port = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.lossy.pass_on(self.to, data)


class Lossy:
    """A wire of datagrams between two ports that loses a seeded share of them."""

    def __init__(self, share: float, seed: int) -> None:
        self.share = share
        self.dice = random.Random(seed)
        self.ports: list[int | None] = [None, None]
        """Where the left and the right end listen."""
        self.sides: list[_Side] = []
        self.lost = 0

    async def start(self, stack: AsyncExitStack) -> None:
        """Opens a port for each end to send to."""
        loop = asyncio.get_running_loop()
        for side in (0, 1):
            transport, protocol = await loop.create_datagram_endpoint(
                lambda side=side: _Side(self, 1 - side), local_addr=(HOST, 0)
            )
            stack.callback(transport.close)
            self.sides.append(protocol)

    def pass_on(self, to: int, data: bytes) -> None:
        """Carries a datagram to an end, or not."""
        port = self.ports[to]
        if port is None or self.dice.random() < self.share:
            self.lost += 1
            return
        self.sides[to].transport.sendto(data, (HOST, port))


# -------------------------------------------------------------------------------- places


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What is between two places."""

    kind: Literal["left", "right", "udp"] = "left"
    """Whose server it is; or UDP."""
    passphrase: str | None = None
    """An access code of 16 bytes made of it."""
    mode: str = "gateway"
    """Of the interfaces of transport nodes at both ends."""
    rate_target_s: int = 1
    """So that many announces in a short time are passed on."""
    loss: float = 0.0
    seed: int = 1

    def ours(self, *, mode: bool) -> dict[str, Any]:
        """Options of a netmesh interface."""
        options: dict[str, Any] = {"rate_target_s": self.rate_target_s, "ingress_control": False}
        if self.passphrase:
            options |= {"passphrase": self.passphrase, "ifac_size": 16}
        return options | ({"mode": InterfaceMode[self.mode.upper()]} if mode else {})

    def theirs(self, *, mode: bool) -> dict[str, Any]:
        """Options of an upstream interface."""
        options = {"announce_rate_target": self.rate_target_s, "ingress_control": False}
        if self.passphrase:
            options |= {"passphrase": self.passphrase, "ifac_size": 128}
        return options | ({"mode": self.mode} if mode else {})


@dataclass(eq=False)
class Place:
    """One node of a chain."""

    role: str
    folder: Path
    python: str
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    node: Node | None = None
    peer: Peer | None = None
    ports: dict[str, int] = field(default_factory=dict)
    """Where it listens, by the name of the interface; the same after a restart."""
    echo: LocalDestination | None = None
    mailbox: Mailbox | None = None
    post: bytes = b""
    """The address of the mailbox."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Options of the node, or of the peer's configuration."""

    @property
    def ours(self) -> bool:
        """Whether it is netmesh."""
        return self.role in "nN"

    @property
    def transport(self) -> bool:
        """Whether it carries what is of others."""
        return self.role in "NR"

    @property
    def address(self) -> bytes:
        """The address of its echo."""
        if self.peer is not None:
            return self.peer.destination
        assert self.echo
        return bytes(self.echo.hash)

    async def stop(self) -> None:
        """Ends it: an upstream node as kill -9 does."""
        await self.stack.aclose()
        self.stack = AsyncExitStack()
        self.node = self.peer = self.echo = self.mailbox = None

    async def serve(self) -> None:
        """Gives an end an echo and a mailbox."""
        if self.node is not None:
            self.echo = await self.node.listen("netmesh.interop", prove="all", resources="all")
            await self.echo.add_handler("/echo", lambda request: request.data)
            await self.echo.add_handler("/content", lambda request: content(*request.data))
            self.mailbox = await self.node.lxmf(display_name="end")
            self.post = bytes(self.mailbox.hash)
        elif self.peer is not None:
            told = await self.peer.call("mailbox", "mailbox")
            self.post = bytes.fromhex(told["destination"])

    async def announce(self) -> None:
        """Announces the echo."""
        if self.peer is not None:
            await self.peer.announce()
        elif self.echo is not None:
            await self.echo.announce()

    async def announce_post(self) -> None:
        """Announces the mailbox."""
        if self.peer is not None:
            await self.peer.call("post", "posted")
        elif self.mailbox is not None:
            await self.mailbox.announce()


def _connected(node: Node) -> int:
    """How many of its interfaces have somebody at the other end."""
    return sum(
        bool(info.connections) if info.listening and info.medium != "udp" else info.online
        for info in node.interface_infos()
        if info.parent is None
    )


class Chain:
    """Places in a row that are connected."""

    def __init__(
        self, roles: str, edges: Sequence[Edge], folder: Path, python: str, extra: dict[str, Any]
    ) -> None:
        assert len(edges) == len(roles) - 1
        self.places = [
            Place(role, folder / f"{number}{role}", python, extra=extra.get(role, {}))
            for number, role in enumerate(roles)
        ]
        self.edges = list(edges)
        self.wires: dict[int, Lossy] = {}
        self.stack = AsyncExitStack()

    @property
    def left(self) -> Place:
        """The first place."""
        return self.places[0]

    @property
    def right(self) -> Place:
        """The last place."""
        return self.places[-1]

    async def start(self) -> None:
        """Starts every place, connects them, and waits until all of it is online."""
        for number, edge in enumerate(self.edges):
            if edge.kind == "udp":
                self.wires[number] = Lossy(edge.loss, edge.seed + number)
                await self.wires[number].start(self.stack)
        for number in range(len(self.places)):
            await self.start_place(number)
        await self.online()

    async def start_place(self, number: int) -> None:
        """Starts one place; what it connects to has started before, or tries again."""
        place = self.places[number]
        await (self._start_node(number) if place.ours else self._start_peer(number))
        for at, side in ((number - 1, 1), (number, 0)):
            wire = self.wires.get(at)
            if wire is not None:
                wire.ports[side] = place.ports[f"edge{at}"]

    def _sides(self, number: int) -> list[tuple[int, Edge, int, str]]:
        """The edges of a place: number, edge, the place's side, and what it is on it."""
        found = []
        for at, side in ((number - 1, 1), (number, 0)):
            if 0 <= at < len(self.edges):
                edge = self.edges[at]
                serves = edge.kind == ("left", "right")[side]
                found.append(
                    (at, edge, side, "udp" if edge.kind == "udp" else "server" if serves else "")
                )
        return found

    async def _start_node(self, number: int) -> None:
        place = self.places[number]
        node = Node(
            storage=place.folder,
            shared_instance=False,
            transport=place.transport,
            **place.extra,
        )
        place.node = await place.stack.enter_async_context(node)
        for at, edge, side, what in self._sides(number):
            name, options = f"edge{at}", edge.ours(mode=place.transport)
            port = place.ports.get(name, 0)
            if what == "udp":
                to = self.wires[at].sides[side].port
                made = await node.add_interface(
                    UDP(HOST, port, forward_host=HOST, forward_port=to, label=name, **options)
                )
                place.ports[name] = made.port or 0
            elif what == "server":
                made = await node.add_interface(TCPServer(HOST, port, label=name, **options))
                place.ports[name] = made.port or 0
            else:
                await self._connect(number, at, side, name, options)
        if not place.transport:
            await place.serve()

    async def _connect(
        self, number: int, at: int, side: int, name: str, options: dict[str, Any]
    ) -> None:
        there = self.places[number + (1 if side == 0 else -1)].ports.get(f"edge{at}")
        node = self.places[number].node
        assert node
        if there is not None:
            await node.add_interface(
                TCPClient(HOST, there, label=name, retry_max_ms=200, **options)
            )

    async def _start_peer(self, number: int) -> None:
        place = self.places[number]
        interfaces: dict[str, Mapping[str, Any]] = {}
        for at, edge, side, what in self._sides(number):
            name, options = f"edge{at}", edge.theirs(mode=place.transport)
            port = place.ports.get(name, 0)
            if what == "udp":
                interfaces[name] = options | {
                    "type": "UDPInterface",
                    "listen_ip": HOST,
                    "listen_port": port,
                    "forward_ip": HOST,
                    "forward_port": self.wires[at].sides[side].port,
                }
            elif what == "server":
                interfaces[name] = server(**options) | {"listen_port": port}
            else:
                there = self.places[number + (1 if side == 0 else -1)].ports[f"edge{at}"]
                interfaces[name] = client(there, **options)
        settings = config(interfaces, transport=place.transport, **place.extra)
        place.peer = await place.stack.enter_async_context(
            spawn(place.python, place.folder, settings)
        )
        place.ports |= place.peer.ready["ports"]
        if number and self.edges[number - 1].kind == "right":
            await self._connect_left(number - 1)
        if not place.transport:
            await place.serve()

    async def _connect_left(self, number: int) -> None:
        """Connects the node on the left to a server that has just begun to listen, once."""
        left, name = self.places[number], f"edge{number}"
        assert left.node, "only netmesh connects later"
        if not any(info.label == name for info in left.node.interface_infos()):
            options = self.edges[number].ours(mode=left.transport)
            await self._connect(number, number, 0, name, options)

    async def online(self) -> None:
        """Waits until each of our interfaces is connected."""
        async with asyncio.timeout(PATIENCE):
            for number, place in enumerate(self.places):
                edges = len(self._sides(number))
                while place.node is not None and edges != _connected(place.node):
                    await asyncio.sleep(0.02)

    async def restart(self, number: int) -> None:
        """Ends a place and starts it again at the same ports."""
        await self.places[number].stop()
        await self.start_place(number)
        await self.online()

    async def stop(self) -> None:
        """Ends everything."""
        for place in self.places:
            await place.stop()
        await self.stack.aclose()


@asynccontextmanager
async def chain(
    roles: str,
    edges: Sequence[Edge],
    folder: Path,
    python: str,
    *,
    extra: dict[str, Any] | None = None,
) -> AsyncIterator[Chain]:
    """A chain that runs. ``extra``: options of all nodes with a role."""
    made = Chain(roles, edges, folder, python, extra or {})
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


# ---------------------------------------------------------------------------- conversation


async def meet_by_announces(here: Place, there: Place, *, hops: int | None = None) -> None:
    """Lets one end announce until the other one hears it; a bounded number of times."""
    for _ in range(TRIES):
        heard = here.node.announces("netmesh.interop") if here.node else None
        if here.peer is not None:
            for old in here.peer.seen("announce", destination=there.address.hex()):
                here.peer._events.remove(old)
        await there.announce()
        with contextlib.suppress(TimeoutError):
            if heard is not None:
                async with asyncio.timeout(ATTEMPT_S * 4):
                    while (await heard.get()).destination != there.address:
                        pass
            else:
                assert here.peer
                await here.peer.wait(
                    "announce", patience_s=ATTEMPT_S * 4, destination=there.address.hex()
                )
            break
    else:
        raise AssertionError("announced and never heard")
    if hops is not None and here.node is not None:
        assert await here.node.hops(there.address) == hops


async def retried(what: Callable[[], Any], *expected: type[Exception]) -> Any:
    """Does something until it succeeds: over a lossy wire it may fail; bounded."""
    for attempt in range(TRIES):
        try:
            return await what()
        except expected:
            if attempt == TRIES - 1:
                raise
    raise AssertionError


async def _from_node(here: Place, there: Place, size: int, *, messages: bool) -> None:
    node, lost = here.node, (errors.NetmeshError, TimeoutError)
    assert node
    await find(node, there.address)

    async def packet() -> None:
        receipt = await node.send(there.address, b"a packet", timeout=ATTEMPT_S)
        assert receipt is not None
        if not (await receipt.wait(timeout=PATIENCE)).ok:
            raise TimeoutError

    await retried(packet, *lost)
    link = await retried(lambda: node.connect(there.address, timeout=PATIENCE), *lost)
    async with link:

        async def ask() -> None:
            assert (await link.request("/echo", "over", timeout=ATTEMPT_S)).data == "over"

        await retried(ask, *lost)
        answer = await link.request("/content", ["chain", size], timeout=PATIENCE)
        assert answer.data == content("chain", size)
        assert (await link.send_file(content("file", size), timeout=PATIENCE)).ok
    if messages:
        assert here.mailbox is not None
        await find(node, there.post)
        text = "m" * 600
        sent = await here.mailbox.send(there.post, text, method="direct", timeout=PATIENCE)
        if there.peer is not None:
            got = await there.peer.wait("message", hash=sent.id.hex())
            assert (got["content"], got["source"]) == (text, here.post.hex())
        else:
            assert there.mailbox is not None
            message = await there.mailbox.get(timeout=PATIENCE)
            assert (message.content, bytes(message.source)) == (text, here.post)


async def opened(peer: Peer, to: str) -> str:
    """Lets an upstream end open a link, again when request or proof were lost; its name."""
    for _ in range(TRIES):
        with contextlib.suppress(TimeoutError):
            number = peer.do("connect", destination=to)
            return str((await peer.wait("up", id=number, patience_s=LOST_S * 2))["link"])
    raise AssertionError(f"asked {TRIES} times for a link and got none")


async def _from_peer(here: Place, there: Place, size: int, *, messages: bool) -> None:
    peer, to = here.peer, there.address.hex()
    assert peer
    assert (await peer.call("path", "path", destination=to))["found"]
    await peer.ask(
        "packet",
        "proof",
        orders=lambda n: {"destination": to, "data": (b"packet %d" % n).hex()},
        attempt_s=LOST_S,
    )
    link = await opened(peer, to)
    await peer.ask(
        "request",
        "response",
        orders=lambda n: {"link": link, "path": "/echo", "data": f"{n}"},
        expect=lambda order: {"value": order["data"]},
        attempt_s=LOST_S,
    )
    await peer.ask(
        "request",
        "response",
        orders=lambda n: {"link": link, "path": "/content", "data": [f"{n}", size]},
        expect=lambda order: {"size": size},
        attempt_s=MESSAGE_S,
    )
    await peer.ask(
        "resource",
        "resource_sent",
        orders=lambda n: {"link": link, "seed": f"{n}", "size": size},
        expect=lambda order: {"status": COMPLETE},
        attempt_s=MESSAGE_S,
    )
    peer.do("close", link=link)
    if messages:
        titles: list[str] = []

        def order(attempt: int) -> dict[str, Any]:
            titles.append(f"title {attempt}")
            return {
                "destination": there.post.hex(),
                "content": "u" * 600,
                "title": titles[-1],
                "method": int(Method.DIRECT),
            }

        await peer.ask("message", "delivered", orders=order, attempt_s=MESSAGE_S)
        if there.peer is not None:
            got = await there.peer.wait("message", source=here.post.hex())
            assert got["title"] in titles
        else:
            assert there.mailbox is not None
            message = await there.mailbox.get(timeout=PATIENCE)
            assert message.title in titles


async def converse(here: Place, there: Place, *, size: int = 20_000, messages: bool = True) -> None:
    """From one end to the other: path, packet and proof, link, requests, a resource, LXMF."""
    talk = _from_node if here.ours else _from_peer
    await talk(here, there, size, messages=messages)


LETTERS = ((Method.OPPORTUNISTIC, 150), (Method.DIRECT, 250), (Method.DIRECT, 20_000))
"""Method and size of messages: in a packet of its own, in one of a link, as a resource."""


async def _letter_to(place: Place, title: str) -> tuple[str, bytes]:
    """What of the title's message came: digest of its content, and its source."""
    if place.peer is not None:
        got = await place.peer.wait("message", title=title)
        return got["digest"], bytes.fromhex(got["source"])
    assert place.mailbox is not None
    while True:
        message = await place.mailbox.get(timeout=PATIENCE)
        if message.title == title:
            return digest(message.content.encode()), bytes(message.source)


async def _meet_by_post(here: Place, there: Place) -> None:
    """Lets a mailbox announce until it is heard.

    It is not asked for: a request that gets lost behind an upstream relay makes that swallow the
    following ones for 45 s (RNS 1, 8.9.4).
    """
    heard = here.node.announces("lxmf.delivery") if here.node is not None else None
    for _ in range(TRIES):
        await there.announce_post()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ATTEMPT_S):
                while heard is not None and (await heard.get()).destination != there.post:
                    pass
                if here.peer is not None:
                    await here.peer.wait("announce", destination=there.post.hex())
            return
    raise AssertionError(f"announced {TRIES} times and never heard")


async def send_messages(here: Place, there: Place) -> None:
    """From one mailbox to the other, by each of :data:`LETTERS`, again when one got lost."""
    await _meet_by_post(here, there)
    for method, size in LETTERS:
        text = content("letter", size).hex()[:size]  # compresses to half, not to one packet
        titles: list[str] = []

        def order(
            attempt: int, text: str = text, method: Method = method, titles: list[str] = titles
        ) -> dict[str, Any]:
            titles.append(f"{method.name} {len(text)} {attempt}")
            return {
                "destination": there.post.hex(),
                "content": text,
                "title": titles[-1],
                "method": int(method),
            }

        if here.peer is not None:
            await here.peer.ask("message", "delivered", orders=order, attempt_s=LETTER_S)
        else:
            assert here.mailbox is not None
            titles.append(f"{method.name} {size}")
            await here.mailbox.send(
                there.post, text, title=titles[-1], method=method, timeout=2 * PATIENCE
            )
        assert await _letter_to(there, titles[-1]) == (digest(text.encode()), here.post)


# ---------------------------------------------------------------------------------- stars


@asynccontextmanager
async def star(
    hub: str, modes: Mapping[str, str], folder: Path, python: str
) -> AsyncIterator[tuple[Place, dict[str, Place]]]:
    """A transport node, "N" or "R", with an end on each of its interfaces.

    ``modes``: the mode of each interface by the name of the end, whose first letter says what
    it is: "n" or "r".
    """
    async with AsyncExitStack() as stack:

        def place(role: str, name: str) -> Place:
            made = Place(role, folder / name, python)
            stack.push_async_callback(made.stop)
            return made

        middle = place(hub, "hub")
        edges = {name: Edge(mode=mode) for name, mode in modes.items()}
        if hub == "N":
            middle.node = await middle.stack.enter_async_context(
                Node(storage=middle.folder, shared_instance=False, transport=True)
            )
            for name, edge in edges.items():
                made = await middle.node.add_interface(
                    TCPServer(HOST, label=name, **edge.ours(mode=True))
                )
                middle.ports[name] = made.port or 0
        else:
            interfaces = {name: server(**edge.theirs(mode=True)) for name, edge in edges.items()}
            middle.peer = await middle.stack.enter_async_context(
                spawn(python, middle.folder, config(interfaces, transport=True))
            )
            middle.ports = middle.peer.ready["ports"]
        ends = {name: place(name[0], name) for name in modes}
        for name, end in ends.items():
            if end.ours:
                end.node = await end.stack.enter_async_context(
                    Node(storage=end.folder, shared_instance=False)
                )
                joined = await end.node.add_interface(TCPClient(HOST, middle.ports[name]))
                await joined.wait_online(timeout=PATIENCE)
            else:
                settings = config({"hub": client(middle.ports[name])})
                end.peer = await end.stack.enter_async_context(spawn(python, end.folder, settings))
            await end.serve()
        async with asyncio.timeout(PATIENCE):
            while middle.node is not None and _connected(middle.node) < len(modes):
                await asyncio.sleep(0.02)
        yield middle, ends
