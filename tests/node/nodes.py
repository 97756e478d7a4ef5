"""Nodes for tests: joined by pipes or TCP, waited for with deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from netmesh import Identity, Link, Node
from netmesh.destinations import LocalDestination
from netmesh.interfaces import Pipe, TCPClient, TCPServer

T = TypeVar("T")

PATIENCE = 40.0
"""Everything that is waited for comes within this, on a busy machine too."""

NAME = "test.echo"


def identity(number: int) -> Identity:
    """An identity that every run of the tests has in common."""
    return Identity.from_private(bytes([number]) * 64)


@asynccontextmanager
async def joined(**options: Any) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes with a pipe between them."""
    left, right = Pipe.pair()
    async with (
        Node(interfaces=[left], **options) as alice,
        Node(interfaces=[right], **options) as bob,
    ):
        yield alice, bob


@asynccontextmanager
async def over_tcp(
    server: dict[str, Any] | None = None, client: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes, the second one the server of a TCP connection."""
    async with Node(interfaces=[TCPServer("127.0.0.1", **(server or {}))]) as bob:
        port = bob.interfaces()[0].port
        assert port
        async with Node(interfaces=[TCPClient("127.0.0.1", port, **(client or {}))]) as alice:
            await alice.interfaces()[0].wait_online(timeout=PATIENCE)
            yield alice, bob


@asynccontextmanager
async def linked(**listen: Any) -> AsyncIterator[tuple[Link, Link, LocalDestination]]:
    """A link from both ends, and the destination that it leads to."""
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, **listen)
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        other = await echo.links.get(timeout=PATIENCE)
        yield link, other, echo


async def until(condition: Callable[[], Any], timeout: float = PATIENCE) -> None:
    """Waits until a condition holds, looking again whenever the event loop has turned."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.002)


async def soon(work: Awaitable[T]) -> T:
    """Something that has to come."""
    async with asyncio.timeout(PATIENCE):
        return await work
