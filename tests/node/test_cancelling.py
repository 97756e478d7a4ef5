"""Every awaitable of the interface, cancelled at each of its waits, and timed out (F11)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from netmesh import Link, Node, errors
from netmesh.destinations import IncomingRequest, LocalDestination
from netmesh.interfaces import Pipe
from netmesh.messaging import Mailbox
from netmesh.records import KnownRecord
from node.nodes import NAME, PATIENCE, identity, joined, soon, until
from node.stepping import cancel_everywhere

pytestmark = pytest.mark.asyncio


class World:
    """Two nodes with all that there is to wait for."""

    def __init__(self, alice: Node, bob: Node) -> None:
        self.alice, self.bob = alice, bob
        self.number = 0
        self.requests: list[IncomingRequest] = []

    async def build(self) -> None:
        self.echo: LocalDestination = await self.bob.listen(
            NAME, prove="all", resources="all", ratchets=True
        )
        await self.echo.add_handler("/echo", lambda request: request.data)
        self.link: Link = await self.alice.connect(self.echo.hash, timeout=PATIENCE)
        self.other: Link = await self.echo.links.get(timeout=PATIENCE)
        self.hers: Mailbox = await self.alice.lxmf()
        self.his: Mailbox = await self.bob.lxmf()
        await self.hers.send(self.his.hash, "hello", timeout=PATIENCE)
        await self.his.get(timeout=PATIENCE)
        end, self.other_end = Pipe.pair()
        self.spare = await self.alice.add_interface(end)

    @property
    def interface(self) -> Any:
        return self.alice.interfaces()[0]

    def name(self) -> str:
        self.number += 1
        return f"test.name{self.number}"

    async def settled(self) -> None:
        """Nothing is under way, and the link still works."""
        await until(lambda: self.alice.stats().engine.operations == 0)
        await until(lambda: self.bob.stats().engine.operations == 0)
        await soon(await self.link.send(b"alive"))
        while self.other.packets.get_nowait() is not None:
            pass

    # ------------------------------------------------------------- with something to come

    async def get_packet(self) -> None:
        await self.alice.send(self.echo.hash, b"x")
        await self.echo.packets.get(timeout=PATIENCE)

    async def get_link_packet(self) -> None:
        await self.other.send(b"x", proof=False)
        await self.link.packets.get(timeout=PATIENCE)

    async def get_announce(self) -> None:
        async with self.alice.announces(NAME) as heard:
            await self.echo.announce()
            await heard.get(timeout=PATIENCE)

    async def get_event(self) -> None:
        async with self.bob.events() as events:
            await self.alice.send(self.echo.hash, b"x")
            await events.get(timeout=PATIENCE)

    async def receive_file(self) -> None:
        while self.other.resources.get_nowait() is not None:
            pass
        sending = await self.link.start_file(b"x" * 1000)
        await self.other.receive_file(timeout=PATIENCE)
        await sending

    async def answer(self) -> None:
        await self.echo.queue_requests("/queued")
        while self.echo.requests.get_nowait() is not None:
            pass  # of an asker that gave up
        asking = asyncio.ensure_future(self.link.request("/queued", 1, timeout=PATIENCE))
        try:
            request = await self.echo.requests.get(timeout=PATIENCE)
            await self.other.respond(request, "answer")
            await asking
        finally:
            asking.cancel()

    async def open_and_identify(self) -> None:
        while self.echo.links.get_nowait() is not None:
            pass  # of a caller that gave up
        async with await self.alice.connect(self.echo.hash, timeout=PATIENCE) as link:
            other = await self.echo.links.get(timeout=PATIENCE)
            await link.identify(identity(9))
            await other.wait_identified(timeout=PATIENCE)
        await link.wait_closed(timeout=PATIENCE)

    async def find_again(self) -> None:
        with contextlib.suppress(errors.NotFoundError):
            await self.alice.drop_path(self.echo.hash)
        await self.alice.path(self.echo.hash, timeout=PATIENCE)

    async def pause_and_resume(self) -> None:
        await self.spare.pause()
        await self.spare.resume()
        await self.spare.wait_online(timeout=PATIENCE)

    async def add_and_remove(self) -> None:
        left, right = Pipe.pair()
        right.close()
        interface = await self.alice.add_interface(left)
        await interface.remove()

    async def listen_and_close(self) -> None:
        local = await self.bob.listen(self.name(), ratchets=True, app_data=b"x")
        await local.rotate()
        await local.close()

    async def another_node(self) -> None:
        async with Node(shared_instance=False) as node:
            await node.hops(bytes(16))

    async def receive_message(self) -> None:
        while len(self.his):
            await self.his.get()
        await self.hers.send(self.his.hash, "x", timeout=PATIENCE)
        await self.his.get(timeout=PATIENCE)


AWAITABLES: dict[str, Callable[[World], Awaitable[Any]]] = {
    "path": lambda w: w.find_again(),
    "request_path": lambda w: w.alice.request_path(w.echo.hash),
    "connect, identify, close": lambda w: w.open_and_identify(),
    "announce": lambda w: w.echo.announce(timeout=PATIENCE),
    "announce by name": lambda w: w.bob.announce(NAME, b"x"),
    "announces": lambda w: w.get_announce(),
    "events": lambda w: w.get_event(),
    "packets": lambda w: w.get_packet(),
    "link packets": lambda w: w.get_link_packet(),
    "request": lambda w: w.link.request("/echo", "x" * 2000, timeout=PATIENCE),
    "respond": lambda w: w.answer(),
    "send_file": lambda w: w.link.send_file(b"x" * 5000),
    "receive_file": lambda w: w.receive_file(),
    "send_message": lambda w: w.hers.send(w.his.hash, "x", timeout=PATIENCE),
    "send_message direct": lambda w: w.hers.send(
        w.his.hash, "x" * 3000, method="direct", timeout=PATIENCE
    ),
    "receive a message": lambda w: w.receive_message(),
    "listen": lambda w: w.listen_and_close(),
    "add_interface": lambda w: w.add_and_remove(),
    "pause and resume": lambda w: w.pause_and_resume(),
    "change": lambda w: w.interface.change(gravity=2),
    "node": lambda w: w.another_node(),
    "link info": lambda w: w.link.info(),
    "interface info": lambda w: w.interface.info(),
    "snapshot": lambda w: w.bob.snapshot(),
    "recall": lambda w: w.alice.recall(w.echo.hash),
    "known": lambda w: w.alice.known(),
    "put_known": lambda w: w.alice.put_known(
        KnownRecord(destination=w.his.hash, public_key=w.bob.identity.public_key)
    ),
    "seal": lambda w: w.alice.seal(w.echo.hash, b"x"),
    "settings": lambda w: w.alice.settings(),
    "records": lambda w: w.alice.records(),
}


@pytest.mark.parametrize("name", AWAITABLES)
async def test_it_can_be_cancelled_at_each_wait(name: str) -> None:
    """F11: what it had begun ends, nothing is left behind, and the next try gets through."""
    async with joined() as nodes:
        world = World(*nodes)
        await world.build()
        points = await cancel_everywhere(lambda: AWAITABLES[name](world), world.settled)
        assert points >= 1


ENDLESS: dict[str, Callable[[World], Awaitable[Any]]] = {
    "path": lambda w: w.alice.path(bytes(16), timeout=0.05),
    "connect": lambda w: w.alice.connect(bytes(16), timeout=0.05),
    "receipt": lambda w: w.unproven(),
    "request": lambda w: w.link.request("/nobody", timeout=0.05),
    "packets": lambda w: w.echo.packets.get(timeout=0.05),
    "links": lambda w: w.echo.links.get(timeout=0.05),
    "requests": lambda w: w.echo.requests.get(timeout=0.05),
    "receive_file": lambda w: w.link.receive_file(timeout=0.05),
    "wait_identified": lambda w: w.other.wait_identified(timeout=0.05),
    "wait_closed": lambda w: w.link.wait_closed(timeout=0.05),
    "message": lambda w: w.his.get(timeout=0.05),
    "send_message": lambda w: w.hers.send(bytes(16), "x", timeout=0.05),
    "transfer": lambda w: w.unanswered(),
    "announces": lambda w: w.alice.announces().get(timeout=0.05),
    "tap": lambda w: w.alice.tap().get(timeout=0.05),
}


class Silent(World):
    """A world in which nothing comes."""

    async def unproven(self) -> None:
        await self.echo.set_prove("none")
        await (await self.link.send(b"x", timeout=60)).wait(timeout=0.05)

    async def unanswered(self) -> None:
        await self.other.set_resources(lambda offer: asyncio.sleep(5))
        await (await self.link.start_file(b"x")).wait(timeout=0.05)


@pytest.mark.parametrize("name", ENDLESS)
async def test_it_can_be_timed_out(name: str) -> None:
    """F11: what nobody answers ends when its time is over, as a TimeoutError or with a stage."""
    async with joined() as nodes:
        world = Silent(*nodes)
        await world.build()
        with pytest.raises(Exception) as caught:  # noqa: PT011 - told apart below
            await soon(ENDLESS[name](world))
        if not isinstance(caught.value, TimeoutError):
            assert caught.value.reason == "TIMEOUT"  # type: ignore[attr-defined]
            assert caught.value.stage  # type: ignore[attr-defined]
        await until(lambda: world.alice.stats().engine.operations == 0)
