"""What is exchanged between two nodes, or a node and upstream, over any interface.

``tries`` is for media that lose packets: a link request, the packet that completes a link and
a short request are single packets that nobody resends, so whoever needs them asks again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

from netmesh import Node
from netmesh.destinations import LocalDestination
from netmesh.errors import LinkError, PathError, RequestError, TransferError
from netns.upstream import PATIENCE, Upstream

NAME = "netmesh.interop"
ATTEMPT_S = 10.0
"""What one of several tries may take; a single one has all the patience."""


async def persist(attempt: Callable[[float], Awaitable[None]], tries: int) -> None:
    """Tries again after what a lost packet may cause, a bounded number of times."""
    for number in range(1, tries + 1):
        try:
            async with asyncio.timeout(PATIENCE if tries == 1 else 2 * ATTEMPT_S):
                await attempt(PATIENCE if tries == 1 else ATTEMPT_S)
            return
        except (TimeoutError, LinkError, PathError, RequestError, TransferError):
            if number == tries:
                raise


async def echo_of(node: Node) -> LocalDestination:
    """A destination that proves, answers and takes files."""
    echo = await node.listen(NAME, prove="all", resources="all", app_data=b"node")
    await echo.add_handler("/echo", lambda request: request.data)
    return echo


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def between(alice: Node, bob: Node, *, size: int = 20_000, tries: int = 1) -> None:
    """A link, a request and its answer, and a file, both of one segment."""
    echo = await echo_of(bob)

    async def attempt(within_s: float) -> None:
        while echo.links.get_nowait() is not None:
            pass
        async with await alice.connect(echo.hash, timeout=within_s) as link:
            other = await echo.links.get(timeout=within_s)
            data = os.urandom(size)
            assert (await link.request("/echo", data, timeout=within_s)).data == data
            assert (await link.send_file(data, timeout=within_s)).ok
            assert (await other.receive_file(timeout=within_s)).data == data

    await persist(attempt, tries)
    await echo.close()


async def hear_announce(node: Node, peer: Upstream) -> None:
    """Hears an announce of upstream's, which drops those of the time before it has peers."""
    async with node.announces(NAME) as heard:

        async def attempt(_: float) -> None:
            peer.do("announce", app_data=b"peer".hex())
            assert (await heard.get(timeout=4)).destination == peer.destination

        await persist(attempt, 10)


async def we_call(node: Node, peer: Upstream, *, tries: int = 1) -> None:
    """Announce heard; link, requests and files to upstream."""
    await hear_announce(node, peer)

    async def attempt(within_s: float) -> None:
        async with await node.connect(peer.destination, timeout=within_s) as link:
            for size in (1, 20_000):
                data = os.urandom(size)
                assert (await link.request("/echo", data, timeout=within_s)).data == data
                assert (await link.send_file(data, timeout=within_s)).ok
                await peer.wait("resource", size=size, hash=digest(data), within_s=within_s)

    await persist(attempt, tries)


async def upstream_calls(node: Node, peer: Upstream, *, tries: int = 1) -> None:
    """Announce heard by upstream; link, request and file from it."""
    echo = await echo_of(node)

    async def announce(within_s: float) -> None:
        await echo.announce()
        await peer.wait("announce", destination=echo.hash.hex(), within_s=within_s)

    await persist(announce, tries)

    def request() -> dict[str, Any]:
        return {"path": "/echo", "hex": os.urandom(15_000).hex()}

    def answer(order: dict[str, Any]) -> dict[str, Any]:
        return {"hash": digest(bytes.fromhex(order["hex"]))}

    async def attempt(within_s: float) -> None:
        while echo.links.get_nowait() is not None:
            pass
        peer.do("connect", destination=echo.hash.hex())
        await peer.wait("up", within_s=within_s)
        link = await echo.links.get(timeout=within_s)
        await peer.ask("request", "response", request, answer, tries=2 if tries > 1 else 12)
        sent: list[str] = []

        def resource() -> dict[str, Any]:
            sent.append(os.urandom(15_000).hex())
            return {"hex": sent[-1], "compress": True}

        await peer.ask("resource", "resource_sent", resource, lambda _: {"status": 6})
        assert (await link.receive_file(timeout=within_s)).data.hex() in sent

    await persist(attempt, tries)
    await echo.close()
