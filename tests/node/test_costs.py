"""What operations cost a program: commands to the core, and turns of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from netmesh import Node
from netmesh.constants import Context
from netmesh.events import PathChanged, ProgressMade
from netmesh.interfaces import Pipe
from netmesh.loop import Loop
from node.lossy import cable
from node.nodes import NAME, PATIENCE, identity, joined, linked, soon

pytestmark = pytest.mark.asyncio


@contextmanager
def commands_of(node: Node) -> Iterator[list[str]]:
    """The commands that the core of a node is given meanwhile."""
    given: list[str] = []
    driver = node._driver
    start = driver.start

    def counted(command: str, **fields: Any) -> Any:
        given.append(command)
        return start(command, **fields)

    setattr(driver, "start", counted)  # noqa: B010
    try:
        yield given
    finally:
        del driver.start


async def turns_of(node: Node, work: Callable[[], Awaitable[Any]]) -> tuple[int, int]:
    """How often the core woke the event loop for it, and in how many pieces its task ran."""
    driver = node._driver
    woken, pieces = 0, 0
    drain = driver._readable

    def counted() -> None:
        nonlocal woken
        woken += 1
        drain()

    driver.loop.add_reader(driver.core.fileno(), counted)

    class Pieces:
        def __await__(self) -> Any:
            nonlocal pieces
            steps: Any = work().__await__()
            value: Any = None
            while True:
                pieces += 1
                try:
                    awaited = steps.send(value)
                except StopIteration as stop:
                    return stop.value
                value = yield awaited

    try:
        await soon(Pieces())
    finally:
        driver.loop.add_reader(driver.core.fileno(), driver._readable)
    return woken, pieces


async def test_what_needs_a_path_asks_for_it_once() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="all")
        with commands_of(alice) as given:
            await alice.path(echo.hash, timeout=PATIENCE)
        assert given == ["path_find"]
        with commands_of(alice) as given:
            first = await alice.connect(echo.hash)
            second = await alice.connect(echo.hash, timeout=PATIENCE)
        assert given == ["link_open", "link_open"]
        assert first.hops == second.hops == 1
        await alice.drop_path(echo.hash)
        with commands_of(alice) as given:
            await alice.connect(echo.hash, timeout=PATIENCE)
        assert given == ["link_open", "path_find", "link_open"]


async def test_a_message_costs_one_command_once_the_way_is_known() -> None:
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        for method in ("opportunistic", "direct"):
            for text in ("one", "two"):  # the first looks for its way too
                with commands_of(alice) as given:
                    await alice.send_message(inbox.hash, text, method=method, identity=identity(9))
                assert given == ["mail_send"]
        assert outbox.hash != inbox.hash


async def test_a_delivered_message_wakes_its_sender_once() -> None:
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        for method in ("opportunistic", "direct"):
            await outbox.send(inbox.hash, "first", method=method, timeout=PATIENCE)
            await inbox.get(timeout=PATIENCE)
            sending = [
                await turns_of(alice, lambda way=method: outbox.send(inbox.hash, "x", method=way))
                for _ in range(10)
            ]
            # An announce or an acknowledgement may come just then.
            assert sorted(woken for woken, _ in sending)[5] == 1
            assert {pieces for _, pieces in sending} == {2}


async def test_operations_wake_the_loop_at_their_end_alone() -> None:
    async with linked(prove="all", resources="all") as (link, _, echo):
        await echo.add_handler("/echo", lambda request: request.data)
        for work in (
            lambda: link.request("/echo", b"x"),
            lambda: link._send_proven(b"x"),
            lambda: link.send_file(b"x" * 10_000, compression="off"),
        ):
            woken, pieces = await turns_of(link._node, work)
            # An announce or an acknowledgement may come just then.
            assert 1 <= woken <= 2
            assert pieces == 2


async def test_a_small_resource_is_sealed_and_opened_without_a_change_of_threads() -> None:
    with Loop() as loop:
        left, right = Pipe.pair()
        async with (
            Node(interfaces=[left], loop=loop) as alice,
            Node(interfaces=[right], loop=loop) as bob,
        ):
            echo = await bob.listen(NAME, resources="all")
            link = await alice.connect(echo.hash, timeout=PATIENCE)
            for size, pooled in ((16_384, 0), (500_000, 2)):
                before = loop.stats().jobs_pooled
                await soon(link.send_file(b"x" * size, compression="off"))
                assert loop.stats().jobs_pooled - before == pooled


async def test_what_arrives_wakes_the_loop_when_it_is_there() -> None:
    """Not for each step of a resource, unless somebody follows them."""
    async with linked(resources="all") as (link, other, _):
        driver = other._node._driver
        woken = 0
        readable = driver._readable

        def counted() -> None:
            nonlocal woken
            woken += 1
            readable()

        driver.loop.add_reader(driver.core.fileno(), counted)
        content = bytes(400_000)
        await soon(link.send_file(content, compression="off"))
        assert (await other.resources.get(timeout=PATIENCE)).data == content
        assert 1 <= woken <= 3
        made: list[ProgressMade] = []
        receiving = asyncio.ensure_future(other.receive_file(progress=made.append))
        await asyncio.sleep(0)
        await soon(link.send_file(content, compression="off"))
        assert (await soon(receiving)).data == content
        assert made
        driver.loop.add_reader(driver.core.fileno(), readable)


async def test_a_path_that_a_task_waits_for_wakes_the_loop_once() -> None:
    async with joined() as (alice, bob):
        for number in range(4):
            echo = await bob.listen(NAME, identity=identity(number))
            work = partial(alice.path, echo.hash, timeout=PATIENCE)
            assert await turns_of(alice, work) == (1, 2)
        async with alice.events(PathChanged) as changes:
            late = await bob.listen(NAME, identity=identity(5))
            await late.announce()
            assert (await changes.get(timeout=PATIENCE)).destination == late.hash


async def test_a_stream_of_progress_hears_of_files_that_nobody_else_follows() -> None:
    async with cable() as (alice, bob, _, right):
        echo = await bob.listen(NAME, resources="all")
        right.loses = lambda packet: packet.context == Context.RESOURCE_PRF
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        async with alice.events(ProgressMade) as events:
            sending = asyncio.ensure_future(link.send_file(b"x" * 30_000, compression="off"))
            made = await events.get(timeout=PATIENCE)  # its end, unproven, is long in coming
            assert made.link == link.ref
            assert not sending.done()
            sending.cancel()
            await asyncio.wait([sending])


async def test_a_node_without_work_takes_no_time() -> None:
    async with linked() as (link, _, echo):
        await echo.add_handler("/echo", lambda request: request.data)
        for _ in range(100):  # its thread has learned that work comes soon
            await link.request("/echo", b"x")
        before = time.process_time()
        await asyncio.sleep(0.5)
        assert time.process_time() - before < 0.1
