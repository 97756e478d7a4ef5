"""Transfers, channels, requests and cancels with upstream over UDP and automatic discovery, on
networks that lose frames or do not: both ways, with each release."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from interop import bulk
from interop.bulk import SEGMENT, Place, back, cancels, content, there
from interop.peers.lines import content as seeded
from interop.test_channels import messages, streams, talking
from interop.upstream import find
from netmesh import Node
from netmesh.interfaces import AutoInterface
from netns.exchanges import ATTEMPT_S, digest, persist
from netns.upstream import Upstream, interpreter, upstream
from netns.wires import Network, network

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(300)]

PORT = 4242
MEDIA = ("auto", "udp")
LOSSES = [
    (release, share)
    if (release, share) == ("current", 0.03)
    else pytest.param(release, share, marks=pytest.mark.slow)
    for release in ("current", "old")
    for share in (0.03, 0.1)
]
MTU = {"auto": 1196, "udp": 500}
"""Of links: upstream's UDP interface has no part in the discovery of MTUs (RNS 2, 5.1)."""


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        for number, host in enumerate((made.a, made.b), 1):
            host.ip("addr", "add", f"10.9.0.{number}/24", "brd", "+", "dev", "eth0")
        yield made


@pytest.fixture(params=["current", "old"])
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter of each release."""
    return interpreter(request.param)


@pytest.fixture(params=MEDIA)
def medium(request: pytest.FixtureRequest) -> str:
    """What is between node and peer."""
    return str(request.param)


@contextmanager
def place(net: Network, medium: str) -> Iterator[Place]:
    """The node is on one host and the peer on the other."""
    with net.a.loop() as loop:
        where: dict[str, Any] = {"loop": loop, "prefix": tuple(net.b.command())}
        if medium == "udp":
            yield bulk.udp("10.9.0.1", "10.9.0.2", PORT, **where)
        else:
            yield Place(AutoInterface(), "type = AutoInterface\n", **where)


@asynccontextmanager
async def calling(
    net: Network, medium: str, python: str, folder: Path
) -> AsyncIterator[tuple[Node, Upstream]]:
    """A node, and a peer that it has a path to."""
    with place(net, medium) as at:
        async with (
            Node(interfaces=[at.interface], loop=at.loop) as node,
            upstream(python, folder, at.lines, list(at.prefix)) as peer,
        ):
            await find(node, peer.destination)
            yield node, peer


async def test_files_of_several_segments(
    net: Network, medium: str, python: str, tmp_path: Path
) -> None:
    metadata = {"name": "a file"}
    with place(net, medium) as at:
        async with bulk.meeting(python, tmp_path, at) as (link, peer):
            assert link.mtu == MTU[medium]
            await there(link, peer, content(SEGMENT + 1), compression="off")
            await back(link, peer, SEGMENT + 1)
            size = 2 * SEGMENT + 17
            data = content(size, "text")
            taken = await there(link, peer, data, compression="when_smaller", metadata=metadata)
            assert taken["metadata"] == metadata
            assert (await back(link, peer, size, "text", metadata=metadata)).metadata == metadata


@pytest.mark.parametrize(("release", "share"), LOSSES)
async def test_files_while_frames_are_lost(
    net: Network, medium: str, tmp_path: Path, release: str, share: float
) -> None:
    python = interpreter(release)
    with place(net, medium) as at:
        async with bulk.meeting(python, tmp_path, at) as (link, peer):
            forwarder = net.lose(share)
            for size in (1, 20_000, 60_000):
                await there(link, peer, content(size), compression="off")
                await back(link, peer, size)
            assert forwarder.carried > forwarder.lost > 0


async def test_a_cancel_is_final_in_every_phase(
    net: Network, medium: str, python: str, tmp_path: Path
) -> None:
    with place(net, medium) as at:
        async with bulk.meeting(python, tmp_path, at) as (link, peer):
            await cancels(link, peer, size=2 * SEGMENT if medium == "auto" else 300_000)


@pytest.mark.parametrize("who_opens", ["we", "they"])
async def test_channels_and_buffers(
    net: Network, medium: str, python: str, tmp_path: Path, who_opens: str
) -> None:
    with place(net, medium) as at:
        async with talking(python, tmp_path, who_opens=who_opens, place=at) as (_, channel, peer):
            await messages(channel, peer, 50)
            await streams(channel, peer, 100_000, 60_000)


@pytest.mark.parametrize(("release", "share"), LOSSES)
async def test_channels_and_buffers_while_frames_are_lost(
    net: Network, medium: str, tmp_path: Path, release: str, share: float
) -> None:
    python = interpreter(release)
    with place(net, medium) as at:
        async with talking(python, tmp_path, place=at) as (_, channel, peer):
            forwarder = net.lose(share)
            await messages(channel, peer, 20)
            await streams(channel, peer, 20_000, 10_000)
            assert forwarder.lost > 0


async def we_ask(node: Node, peer: Upstream, size: int, tries: int) -> None:
    """A large question, a large answer, and both."""
    data = os.urandom(size)
    asked: list[tuple[str, Any, bytes | str]] = [
        ("/digest", data, digest(data)),
        ("/content", ["seed", size], seeded("seed", size)),
        ("/echo", data, data),
    ]

    async def attempt(within_s: float) -> None:
        async with await node.connect(peer.destination, timeout=within_s) as link:
            for path, question, answer in asked:
                assert (await link.request(path, question, timeout=within_s)).data == answer

    await persist(attempt, tries)


async def upstream_asks(node: Node, peer: Upstream, size: int, tries: int) -> None:
    """The same the other way."""
    echo = await node.listen("netmesh.interop")
    await echo.add_handler("/echo", lambda request: request.data)
    await echo.add_handler("/content", lambda request: seeded("seed", request.data))

    async def attempt(within_s: float) -> None:
        while echo.links.get_nowait() is not None:
            pass
        peer.do("connect", destination=echo.hash.hex())
        await peer.wait("up", within_s=within_s)

    await persist(attempt, tries)
    for path, order in (
        ("/echo", {"seed": "question", "size": size}),
        ("/content", {"data": size}),
    ):
        seed = order.get("seed", "seed")
        await peer.ask(
            "request",
            "response",
            lambda path=path, order=order: {"path": path, **order},  # type: ignore[misc]
            lambda _, seed=seed: {"size": size, "hash": digest(seeded(seed, size))},  # type: ignore[misc]
            within_s=ATTEMPT_S,
        )


async def test_large_requests_and_responses(
    net: Network, medium: str, python: str, tmp_path: Path
) -> None:
    size = SEGMENT + 1 if medium == "auto" else 300_000
    async with calling(net, medium, python, tmp_path) as (node, peer):
        await we_ask(node, peer, size, 1)
        await upstream_asks(node, peer, size, 1)


@pytest.mark.parametrize(("release", "share"), LOSSES)
async def test_large_requests_and_responses_while_frames_are_lost(
    net: Network, medium: str, tmp_path: Path, release: str, share: float
) -> None:
    async with calling(net, medium, interpreter(release), tmp_path) as (node, peer):
        forwarder = net.lose(share)
        await we_ask(node, peer, 30_000, 8)
        await upstream_asks(node, peer, 30_000, 8)
        assert forwarder.lost > 0
