"""Requests with a live upstream peer, of every size up to one segment, both ways."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import PATIENCE, World, accepted, content, digest, meet
from netmesh import errors
from netmesh.destinations import NO_RESPONSE, FileResponse, LocalDestination
from netmesh.msgpack import packb

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(180)]

SEGMENT = (1 << 20) - 1
"""Bytes of the longest resource of one segment."""
TRANSFER_S = 20.0
"""How long upstream may take for a whole segment, at least."""


def longest(fits: int, around: Any) -> int:
    """The longest content that fits into so many bytes with what is packed around it."""
    size = fits
    while len(packb(around(bytes(size)))) > fits:
        size -= 1
    return size


def request_of(data: bytes) -> list[Any]:
    return [0.0, bytes(16), data]


def response_of(data: bytes) -> list[Any]:
    return [bytes(16), data]


def sizes(mdu: int) -> list[int]:
    """Around the limit of a packet and that of a segment, for requests and for responses."""
    found = {0, 1}
    for around in (request_of, response_of):
        packet, segment = longest(mdu, around), longest(SEGMENT, around)
        found |= {packet + off for off in range(-2, 3)}
        found |= {segment - 1, segment}
    return sorted(size for size in found if size <= longest(SEGMENT, request_of))


async def listening(world: World) -> LocalDestination:
    """A destination of the node that answers as the peer's does."""
    echo = await world.node.listen("netmesh.interop", prove="all")
    await echo.add_handler("/echo", lambda request: request.data)
    await echo.add_handler("/digest", lambda request: digest(request.data))
    await echo.add_handler("/content", lambda request: content(*request.data))
    await echo.add_handler("/silent", lambda request: NO_RESPONSE)
    await echo.add_handler("/nil", lambda request: None)
    return echo


async def test_the_node_asks(python: str, topology: str, tmp_path: Path) -> None:
    async with (
        meet(topology, python, tmp_path) as world,
        await world.node.connect(world.peer.destination, timeout=PATIENCE) as link,
    ):
        for size in sizes(link.mdu):
            data = content(f"question {size}", size)
            answer = await link.request("/digest", data, timeout=PATIENCE)
            assert answer.data == digest(data)
        for size in sizes(link.mdu):
            answer = await link.request("/content", [f"answer {size}", size], timeout=PATIENCE)
            assert answer.data == content(f"answer {size}", size)
        text = "compresses well " * 20_000
        assert (await link.request("/echo", text, timeout=PATIENCE)).data == text
        # Not None: a handler of upstream that returns it answers nothing.
        for value in (False, 0, -1, 1 << 40, 1.5, "", "žluťoučký", [1, {"a": b"b"}]):
            assert (await link.request("/echo", value, timeout=PATIENCE)).data == value
        with pytest.raises(errors.RequestError) as caught:
            await link.request("/content", ["long", 5000], response_max=4000, timeout=PATIENCE)
        assert caught.value.stage == "REFUSED"
        for path in ("/silent", "/nothing", "/secret"):
            with pytest.raises(errors.RequestError) as caught:
                await link.request(path, timeout=0.3)
            assert caught.value.stage == "REQUEST"


async def test_the_peer_asks(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        peer = world.peer
        echo = await listening(world)
        name, up = await world.link(echo.hash)
        await accepted(echo.links, name)
        for size in sizes(up["mdu"]):
            await world.ask_over(
                name,
                "request",
                "response",
                path="/digest",
                size=size,
                attempt_s=TRANSFER_S if size > up["mdu"] else None,
                expect=lambda order: {"value": digest(content(order["seed"], order["size"]))},
            )
        for size in sizes(up["mdu"]):
            await world.ask_over(
                name,
                "request",
                "response",
                path="/content",
                data=[f"answer {size}", size],
                attempt_s=TRANSFER_S if size > up["mdu"] else None,
                expect=lambda order: {"hash": digest(content(*order["data"]))},
            )
        await world.ask_over(
            name, "request", "response", path="/nil", expect=lambda _: {"value": None}
        )
        number = peer.do("request", link=name, path="/silent", timeout=0.1)
        if world.release == "current":  # older ones never end a request that fits a packet
            await peer.wait("request_failed", id=number)
        assert not peer.seen("response", id=number)


async def test_answers_can_be_files(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        echo = await listening(world)
        files = {size: content(f"file {size}", size) for size in (1, 500, 100_000)}
        await echo.add_handler(
            "/file", lambda request: FileResponse(files[request.data], {"name": b"notes.txt"})
        )
        name, _ = await world.link(echo.hash)
        for size, data in files.items():
            await world.ask_over(
                name,
                "request",
                "response",
                path="/file",
                data=size,
                expect=lambda _, data=data: {"hash": digest(data)},
            )


async def test_many_questions_at_once(python: str, topology: str, tmp_path: Path) -> None:
    async with (
        meet(topology, python, tmp_path) as world,
        await world.node.connect(world.peer.destination, timeout=PATIENCE) as link,
    ):
        questions = [content(f"{number}", 100 + number) for number in range(50)]
        answers = await asyncio.gather(
            *(link.request("/echo", data, timeout=PATIENCE) for data in questions)
        )
        assert [answer.data for answer in answers] == questions
