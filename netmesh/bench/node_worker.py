"""netmesh as one side of a row between two processes (benchmarks/README.md), on asyncio.

``inner`` samples are differences of the engine's own stamps: from the moment the engine
carried out the command to the event that ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netmesh import DestinationHash, Identity, Link, Node
from netmesh._core import RawEvent, RawReply
from netmesh._driver import COMMANDS
from netmesh.bench.kit.nodes import (
    ARRIVAL_S,
    Arrivals,
    Operations,
    Pace,
    Payloads,
    Samples,
    monotonic_ns,
    serve_async,
)
from netmesh.channels import Channel, RawMessage
from netmesh.constants import LinkState
from netmesh.destinations import LocalDestination
from netmesh.events import LinkPacketReceived, PacketReceived, ResourceReceived
from netmesh.interfaces import TCPClient, TCPServer
from netmesh.messaging import Mailbox, MessageReceived, MethodName

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

HOST = "127.0.0.1"
NAME = "netmesh.bench"
REQUEST_PATH = "/bench"
PATIENCE_S = 40.0
ANNOUNCE_S = 0.5
"""How long an announce may take; the other side may have sent it before we were connected."""
NUMBER_BYTES = 16
MESSAGE_TYPE = 0x0101

KINDS = {
    "discovery": "await node.path(hash), with the path record",
    "link": "await node.connect(hash)",
    "request": "await link.request('/bench', payload); the handler is a Python function",
    "packet": "await node.send(hash, payload), await receipt",
    "direct": "await node.send_message(hash, payload, method='direct')",
    "cold": "await node.send_message(hash, payload, method='direct') without a link",
    "opportunistic": "await node.send_message(hash, payload, method='opportunistic')",
    "deliver": "await node.send_message(hash, payload, method='direct')",
    "queue": "mailbox.send(hash, payload, method=...) of each, then await of each",
    "resource": "await link.send_file(payload)",
    "file": "await link.send_file(path); the receiver's destination has a folder",
    "meanwhile": "await link.send(payload), await receipt, beside link.start_file(path)",
    "channel": "await channel.send(RawMessage(...)) of each, await the last delivery",
    "buffer": "writer.write(payload), writer.write_eof(), await drain(), await reader.read()",
    "links": "node.connect(hash) in as many tasks as there are links",
    "idle": "nothing",
    "hub": "a node with transport=True, without ingress control, with storage in the load save",
}
"""What a sample is, by kind."""

MESSAGES: dict[str, MethodName] = {
    "direct": "direct",
    "cold": "direct",
    "deliver": "direct",
    "opportunistic": "opportunistic",
}

MAIL = frozenset((*MESSAGES, "queue"))
"""Kinds between two mailboxes."""

CHANNELS = frozenset(("channel", "buffer"))
LINKED = frozenset(("request", "resource", "file", "meanwhile", "channel", "buffer"))
"""Kinds whose samples presuppose a link."""

STREAMS = 64
"""How many samples a process of the kind buffer may take."""

_FIRST = {
    "link": "link_open",
    "request": "request",
    "packet": "send",
    "direct": "link_send",
    "cold": "link_open",
    "opportunistic": "send",
    "deliver": "resource_send",
    "resource": "resource_send",
    "file": "resource_send",
    "meanwhile": "link_send",
    "links": "link_open",
}
"""The command whose reply starts the inner clock."""


class Stamps:
    """The engine's stamps of a node: of the first command of a kind, and of the last event."""

    def __init__(self, node: Node, kind: str) -> None:
        driver = node._driver
        self._command = COMMANDS[_FIRST[kind]] if kind in _FIRST else -1
        self._began_us: int | None = None
        self._ended_us = 0
        on_reply, on_event = driver._on_reply, driver._on_event

        def replied(ticket: int, reply: RawReply) -> None:
            if self._began_us is None and reply.command == self._command:
                self._began_us = reply.mono_us
            on_reply(ticket, reply)

        def happened(ticket: int, raw: RawEvent) -> None:
            if ticket:
                self._ended_us = raw.mono_us
            on_event(ticket, raw)

        # The driver calls its own methods through the instance: these stand before them.
        setattr(driver, "_on_reply", replied)  # noqa: B010
        setattr(driver, "_on_event", happened)  # noqa: B010

    def begin(self) -> None:
        """A sample begins."""
        self._began_us = None

    def inner_ns(self) -> int | None:
        """What the sample took by the engine's clock."""
        if self._began_us is None:
            return None
        return (self._ended_us - self._began_us) * 1000


class Side:
    """What both sides have in common."""

    node: Node
    payloads: Payloads

    def __init__(self) -> None:
        self.kind = ""
        self.request: dict[str, Any] = {}
        self._folder: TemporaryDirectory[str] | None = None

    def folder(self) -> str:
        """A new folder that goes with this side."""
        import tempfile  # half a megabyte that the idle row would count

        self._folder = tempfile.TemporaryDirectory(prefix="netmesh-bench-")
        return self._folder.name

    async def open(self, interface: TCPServer | TCPClient, *, store: bool) -> None:
        """Starts the node; with ``store`` it keeps its messages."""
        storage = self.folder() if store else None
        self.node = Node(Identity(), interfaces=[interface], storage=storage)
        await self.node.start()

    def read(self, request: dict[str, Any]) -> None:
        """What ``prepare`` says on both sides."""
        self.request = request
        self.kind = request["kind"]
        if self.kind not in KINDS:
            raise LookupError(f"netmesh does not play {self.kind!r}")
        self.payloads = Payloads(request["file"], request["size"], request["items"])

    async def meet(self, destination: str) -> dict[str, Any]:
        """Waits until a destination is known; asks for its path when no announce comes."""
        wanted = DestinationHash.from_hex(destination)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANNOUNCE_S):
                while not await self.node.has_path(wanted):
                    await asyncio.sleep(0.002)
        await self.node.path(wanted, timeout=PATIENCE_S)
        return {}

    async def announce(self) -> dict[str, Any]:
        """Announces what this side has."""
        raise NotImplementedError

    async def close(self) -> None:
        """Ends the node and removes what it stored."""
        await self.node.close()
        if self._folder is not None:
            self._folder.cleanup()


class Server(Side):
    """The side that answers."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals = Arrivals()
        self._local: LocalDestination | Mailbox | None = None
        self._numbers: set[bytes] = set()
        self._reading: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Ends the node and removes what it stored."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await super().close()

    async def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Listens for the row."""
        self.read(request)
        if self.kind == "discovery":
            return await self._discoverable(request["samples"])
        identity = Identity()
        if self.kind in MAIL:
            self._local = await self.node.lxmf(
                identity, ratchets=False, on_message=self._message, limit_kb=2000
            )
        else:
            self._local = await self.node.listen(
                NAME,
                identity=identity,
                prove="all",
                resources="all",
                on_packet=self._packet,
                on_link=self._link,
                on_link_packet=self._link_packet,
                on_resource=self._resource,
                channels=self.kind in CHANNELS,
            )
            await self._local.add_handler(REQUEST_PATH, self._answer)
            if self.kind == "file":
                await self._local.set_folder(self.folder())
        return {"destination": self._local.hash.hex(), "key": identity.public_key.hex()}

    async def _discoverable(self, samples: int) -> dict[str, Any]:
        hashes = []
        for _ in range(samples):
            local = await self.node.listen(NAME, identity=Identity())
            hashes.append(local.hash.hex())
        return {"destination": hashes[0], "key": "", "destinations": "".join(hashes)}

    def _message(self, message: MessageReceived) -> None:
        if not message.verified:
            self.arrivals.error = "a message could not be verified"
        self.arrivals.add(bytes(message.message.content))

    def _packet(self, packet: PacketReceived) -> None:
        self.arrivals.add(packet.data)

    async def _link(self, link: Link) -> None:
        if self.kind in ("link", "links"):
            self.arrivals.add()
        elif self.kind in CHANNELS:
            read = self._messages if self.kind == "channel" else self._streams
            self._reading = asyncio.create_task(read(link.channel()))

    async def _messages(self, channel: Channel) -> None:
        while True:
            message = await channel.get()
            assert isinstance(message, RawMessage)
            self.arrivals.add(bytes(message.data))

    async def _streams(self, channel: Channel) -> None:
        """Reads one stream after the other to its end, and answers with a byte."""
        for number in range(STREAMS):
            reader, writer = channel.open_stream(2 * number + 1, 2 * number)
            self.arrivals.add(await reader.read())
            writer.write(b"!")
            writer.write_eof()
            await writer.drain()

    def _link_packet(self, _link: Link, packet: LinkPacketReceived) -> None:
        if self.kind == "links":
            self._numbers.add(packet.data)
        else:
            self.arrivals.add(packet.data)

    def _resource(self, _link: Link, resource: ResourceReceived) -> None:
        if self.kind != "meanwhile":
            self.arrivals.add(resource.data if resource.path is None else resource.path)

    def _answer(self, request: Any) -> bytes:
        data = bytes(request.data)
        self.arrivals.add(data)
        return data[::-1]

    async def announce(self) -> dict[str, Any]:
        """Announces the destination of the row."""
        assert self._local is not None
        await self._local.announce()
        return {}

    async def collect(self, request: dict[str, Any]) -> dict[str, Any]:
        """What arrived."""
        try:
            async with asyncio.timeout(ARRIVAL_S):
                while self._seen() < request["expect"]:
                    await asyncio.sleep(0.001)
        except TimeoutError:
            pass  # the harness says what is missing
        answer = self.arrivals.take()
        if self.kind == "links":
            answer["count"] = len(self._numbers)
            self._numbers.clear()
        return answer

    def _seen(self) -> int:
        return len(self._numbers if self.kind == "links" else self.arrivals.stamps)


class Client(Side):
    """The side that asks and is timed."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0
        self._link: Link | None = None
        self._links: list[Link] = []
        self._mailbox: Mailbox | None = None
        self._source = Identity()
        self.hashes: list[DestinationHash] = []
        self._samples: dict[str, Callable[[int, Samples], Awaitable[None]]] = {
            "discovery": self._discovery,
            "link": self._open_link,
            "request": self._request,
            "packet": self._packet,
            "resource": self._resource,
            "file": self._file,
            "channel": self._messages,
            "buffer": self._stream,
            "queue": self._queue,
            **dict.fromkeys(MESSAGES, self._deliver),
        }

    async def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Gets ready for the row."""
        self.read(request)
        self._stamps = Stamps(self.node, self.kind)
        text = request.get("destinations") or request["destination"]
        each = (text[at : at + 32] for at in range(0, len(text), 32))
        self.hashes = list(map(DestinationHash.from_hex, each))
        if self.kind not in MAIL:
            return {}
        self._mailbox = await self.node.lxmf(self._source, ratchets=False)
        return {"source": self._mailbox.hash.hex()}

    async def announce(self) -> dict[str, Any]:
        """Announces the destination of the row."""
        assert self._mailbox is not None
        await self._mailbox.announce()
        return {}

    async def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Takes samples."""
        made = Samples()
        count, limit = request["count"], request["timeout_ms"] / 1000
        if self.kind == "idle":
            await asyncio.sleep(count / 1000)
        elif self.kind == "links":
            async with asyncio.timeout(limit):
                await self._many(count, made)
        else:
            if self.kind in LINKED and self._link is None:
                self._link = await self.node.connect(self.hashes[0], timeout=PATIENCE_S)
            if self.kind == "meanwhile":
                await self._meanwhile(request["pace_us"], limit, made)
                return made.answer()
            pace = Pace(request["pace_us"])
            sample = self._samples[self.kind]
            for _ in range(count):
                if (wait := pace.wait_s()) > 0:
                    await asyncio.sleep(wait)
                await self._one(sample, made, limit)
        return made.answer()

    async def _one(
        self, sample: Callable[[int, Samples], Awaitable[None]], made: Samples, limit: float
    ) -> None:
        number = self._next
        self._next += 1
        self._stamps.begin()
        try:
            async with asyncio.timeout(limit):
                await sample(number, made)
        except Exception as error:
            made.fail(error)

    def _took(self, made: Samples, start: int, end: int) -> None:
        made.add(start, end, self._stamps.inner_ns())

    async def _discovery(self, number: int, made: Samples) -> None:
        wanted = self.hashes[number]
        if await self.node.has_path(wanted):
            raise AssertionError("the path was known before")
        start = monotonic_ns()
        await self.node.path(wanted)
        self._took(made, start, monotonic_ns())
        if await self.node.recall(wanted) is None:
            raise AssertionError("the destination's keys are not known")

    async def _open_link(self, number: int, made: Samples) -> None:
        start = monotonic_ns()
        link = await self.node.connect(self.hashes[0])
        self._took(made, start, monotonic_ns())
        await link.close()

    async def _request(self, number: int, made: Samples) -> None:
        assert self._link is not None
        payload = self.payloads[number]
        start = monotonic_ns()
        done = await self._link.request(REQUEST_PATH, payload)
        self._took(made, start, monotonic_ns())
        assert isinstance(done.data, bytes)
        made.done.append(done.data)

    async def _packet(self, number: int, made: Samples) -> None:
        payload = self.payloads[number]
        start = monotonic_ns()
        await (await self.node.send(self.hashes[0], payload))
        self._took(made, start, monotonic_ns())
        made.done.append(payload)

    async def _resource(self, number: int, made: Samples) -> None:
        assert self._link is not None
        payload = self.payloads[number]
        start = monotonic_ns()
        if self.request["compress"]:
            await self._link.send_file(payload)
        else:
            await self._link.send_file(payload, compression="off")
        self._took(made, start, monotonic_ns())
        made.done.append(payload)

    async def _file(self, number: int, made: Samples) -> None:
        assert self._link is not None
        start = monotonic_ns()
        await self._link.send_file(self.payloads.path, compression="off", metadata={})
        self._took(made, start, monotonic_ns())
        made.done.append(Path(self.payloads.path))

    async def _meanwhile(self, pace_us: int, limit: float, made: Samples) -> None:
        """Packets with proofs until a transfer on the same link has ended."""
        assert self._link is not None
        link = self._link
        pace = Pace(pace_us)
        began = monotonic_ns()
        transfer = await link.start_file(self.request["bulk"], compression="off", metadata={})

        async def packet(number: int, made: Samples) -> None:
            payload = self.payloads[number]
            start = monotonic_ns()
            await (await link.send(payload))
            self._took(made, start, monotonic_ns())
            made.done.append(payload)

        while not transfer.done:
            await self._one(packet, made, limit)
            await asyncio.sleep(pace.wait_s())
        await transfer
        made.transfer_ns = monotonic_ns() - began

    async def _messages(self, number: int, made: Samples) -> None:
        """All messages of the row, one after the other through the channel's window."""
        assert self._link is not None
        channel = await self._link.open_channel()
        first = number * self.payloads.items
        payloads = [self.payloads[first + each] for each in range(self.payloads.items)]
        start = monotonic_ns()
        for payload in payloads:
            delivery = await channel.send(RawMessage(MESSAGE_TYPE, payload))
        await delivery
        made.add(start, monotonic_ns())
        made.done += payloads

    async def _stream(self, number: int, made: Samples) -> None:
        assert self._link is not None
        channel = await self._link.open_channel()
        reader, writer = channel.open_stream(2 * number, 2 * number + 1, compression="off")
        payload = self.payloads[number]
        start = monotonic_ns()
        writer.write(payload)
        writer.write_eof()
        await writer.drain()
        answer = await reader.read()
        made.add(start, monotonic_ns())
        if answer != b"!":
            raise AssertionError(f"the other side answered {answer!r}")
        made.done.append(payload)

    async def _deliver(self, number: int, made: Samples) -> None:
        payload = self.payloads[number]
        start = monotonic_ns()
        await self.node.send_message(
            self.hashes[0], payload, identity=self._source, method=MESSAGES[self.kind]
        )
        self._took(made, start, monotonic_ns())
        made.done.append(payload)
        if self.kind == "cold":
            for link in await self.node.link_records():
                if link.state is LinkState.ACTIVE:
                    await self.node._ask("link_close", "link", link=link.link)

    async def _queue(self, number: int, made: Samples) -> None:
        """As many messages as the row says, all queued before the first is awaited."""
        assert self._mailbox is not None
        held = self.request["held"]
        payloads = [self.payloads[number * held + each] for each in range(held)]
        method: MethodName = self.request["load"]
        send, to = self._mailbox.send, self.hashes[0]
        start = monotonic_ns()
        for message in [send(to, payload, method=method) for payload in payloads]:
            await message
        made.add(start, start + (monotonic_ns() - start) // held)
        made.done += payloads

    async def _many(self, count: int, made: Samples) -> None:
        self._stamps.begin()
        start = monotonic_ns()
        links = await asyncio.gather(*(self.node.connect(self.hashes[0]) for _ in range(count)))
        self._took(made, start, monotonic_ns())
        for number, link in enumerate(links, len(self._links)):
            await link.send(number.to_bytes(NUMBER_BYTES, "big"), proof=False)
        self._links += links


class Hub(Side):
    """A transport node between others."""

    def __init__(self) -> None:
        super().__init__()
        self._port = 0
        self._load = ""
        self._saving: asyncio.Task[None] | None = None

    async def listen(self, port: int) -> None:
        """Where it will be; the node starts in ``prepare``."""
        self._port = port

    async def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Starts the node."""
        self._load = request["load"]
        self.node = Node(
            Identity(),
            interfaces=[TCPServer(HOST, self._port, ingress_control=False)],
            transport=True,
            storage=self.folder() if self._load == "save" else None,
        )
        await self.node.start()
        return {"destination": "", "key": ""}

    async def _save(self) -> None:
        while True:
            await self.node.persist()

    async def collect(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the hub has: connections or paths."""
        deadline = monotonic_ns() + int(ARRIVAL_S * 1e9)
        while True:
            if self._load in ("clients", "crowd"):
                count = self.node.stats().interfaces - 1
            else:
                count = self.node.stats().engine.paths
            if count >= request["expect"] or monotonic_ns() > deadline:
                break
            await asyncio.sleep(0.02)
        if self._load == "save" and self._saving is None:
            self._saving = asyncio.create_task(self._save())
        return {"stamps": [], "count": count, "check": ""}

    async def close(self) -> None:
        """Ends the node and removes what it stored."""
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.wait([self._saving])
        if self._load:
            await super().close()


class Program:
    """The requests of the protocol."""

    def __init__(self) -> None:
        self.side: Server | Client | Hub | None = None

    def _it(self) -> Server | Client | Hub:
        if self.side is None:
            raise RuntimeError("open comes first")
        return self.side

    async def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Starts the node in its role."""
        port, store = request["port"], bool(request.get("store"))
        if request["role"] == "server":
            self.side = Server()
            await self.side.open(TCPServer(HOST, port), store=store)
        elif request["role"] == "hub":
            self.side = Hub()
            await self.side.listen(port)
        else:
            self.side = Client()
            await self.side.open(TCPClient(HOST, port), store=store)
            await self.side.node.interfaces()[0].wait_online(timeout=PATIENCE_S)
        return {}

    async def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Gets ready for the row."""
        return await self._it().prepare(request)

    async def announce(self, request: dict[str, Any]) -> dict[str, Any]:
        """Announces."""
        return await self._it().announce()

    async def meet(self, request: dict[str, Any]) -> dict[str, Any]:
        """Waits for an announce."""
        return await self._it().meet(request["destination"])

    async def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Takes samples."""
        side = self._it()
        if not isinstance(side, Client):
            raise TypeError("a server takes no samples")
        return await side.run(request)

    async def collect(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tells what arrived."""
        side = self._it()
        if isinstance(side, Client):
            raise TypeError("nothing arrives at a client")
        return await side.collect(request)

    def operations(self) -> Operations:
        """By name."""
        return {
            "open": self.open,
            "prepare": self.prepare,
            "announce": self.announce,
            "meet": self.meet,
            "run": self.run,
            "collect": self.collect,
        }


async def _serve() -> int:
    program = Program()
    try:
        return await serve_async(program.operations())
    finally:
        if program.side is not None:
            await program.side.close()


def main() -> int:
    """Serves until ``quit``; returns the exit code."""
    return asyncio.run(_serve())
