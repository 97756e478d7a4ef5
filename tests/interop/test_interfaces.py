"""Access codes, framings and addresses of interfaces that a live upstream peer is behind."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interop.upstream import PATIENCE, client, config, instance_name, meet, rnsd, server, spawn
from netmesh import Node, errors
from netmesh.interfaces import TCPClient, TCPServer
from netmesh.records import DropReason

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(180)]

CODES = {"network_name": "club", "passphrase": "sesame"}


def port_of(node: Node) -> int:
    port = node.interfaces()[0].port
    assert port
    return port


async def dropped(node: Node, reasons: set[DropReason]) -> int:
    """How many packets the node's interfaces have dropped for these reasons."""
    return sum(
        count
        for info in node.interface_infos()
        for reason, count in info.counters.drops.items()
        if reason in reasons
    )


@pytest.mark.parametrize("size", [8, 128, 512])
async def test_the_same_code_lets_both_talk(python: str, size: int, tmp_path: Path) -> None:
    """``size`` is in bits on upstream's side and in bytes on ours."""
    server = TCPServer("127.0.0.1", ifac_size=size // 8, **CODES)
    async with Node(interfaces=[server]) as node:
        settings = client(port_of(node), ifac_size=size, **CODES)
        async with spawn(python, tmp_path, config({"node": settings})) as peer:
            async with await node.connect(peer.destination, timeout=PATIENCE) as link:
                data = bytes(link.mdu)
                receipt = await link.send(data)
                assert (await receipt.wait(timeout=PATIENCE)).ok
                answer = await link.request("/echo", "inside", timeout=PATIENCE)
                assert answer.data == "inside"
            quiet = await node.listen("netmesh.interop")
            assert (await peer.call("path", "path", destination=quiet.hash.hex()))["found"]


@pytest.mark.parametrize(
    "theirs",
    [{}, {"network_name": "club", "passphrase": "wrong"}, {"network_name": "other"}],
    ids=["open", "wrong-passphrase", "other-name"],
)
async def test_another_code_keeps_the_peer_out(
    python: str, theirs: dict[str, str], tmp_path: Path
) -> None:
    async with Node(interfaces=[TCPServer("127.0.0.1", **CODES)]) as node:
        settings = client(port_of(node), **theirs)
        async with spawn(python, tmp_path, config({"node": settings})) as peer:
            # Each counts the other's bytes and takes none of its packets. The peer's
            # announces arrive until one is counted: a connection may not be there yet.
            echo = await node.listen("netmesh.interop")
            reasons = {reason for reason in DropReason if "IFAC" in reason.name}
            async with asyncio.timeout(PATIENCE):
                while not await dropped(node, reasons):
                    await peer.announce(b"from outside")
            with pytest.raises(errors.PathError):
                await node.path(peer.destination, timeout=0.3)
            sent = 0
            async with asyncio.timeout(PATIENCE):
                while True:
                    await echo.announce(b"from inside")
                    sent += 1
                    told = await peer.call("interfaces", "interfaces")
                    if sent > 1 and told["interfaces"][0]["rxb"] > 2 * 150:
                        break
            known = await peer.call("known", "known", destination=echo.hash.hex())
            assert not known["known"]
            assert not peer.seen("announce")


@pytest.mark.parametrize("between", ["shared", "transport"])
async def test_codes_hold_where_something_is_between(
    python: str, between: str, tmp_path: Path
) -> None:
    """The instance's interface or the hub has the code; who is attached to it needs none."""
    same = {"theirs": CODES, "between": CODES, "ours": CODES}
    async with meet(between, python, tmp_path, **same) as world:
        async with await world.node.connect(world.peer.destination, timeout=PATIENCE) as link:
            answer = await link.request("/echo", "inside", timeout=PATIENCE)
            assert answer.data == "inside"
        quiet = await world.node.listen("netmesh.interop")
        await world.peer.ask(
            "path",
            "path",
            orders=lambda _: {"destination": quiet.hash.hex()},
            expect=lambda _: {"found": True},
        )


async def test_another_code_behind_an_instance_keeps_the_peer_out(
    python: str, tmp_path: Path
) -> None:
    """The peer counts the bytes of the instance and hears nothing of the node."""
    name = instance_name()
    wrong = CODES | {"passphrase": "wrong"}
    async with spawn(python, tmp_path / "peer", config({"port": server(**wrong)})) as peer:
        far = client(peer.ready["ports"]["port"], **CODES)
        rules = config({"far": far}, instance=name)
        async with rnsd(python, tmp_path / "rnsd", rules), Node(shared_instance=name) as node:
            await node.interfaces()[0].wait_online(timeout=PATIENCE)
            echo = await node.listen("netmesh.interop")
            async with asyncio.timeout(PATIENCE):
                while True:
                    await echo.announce(b"from inside")
                    told = await peer.call("interfaces", "interfaces")
                    if sum(each["rxb"] for each in told["interfaces"]) > 2 * 150:
                        break
            known = await peer.call("known", "known", destination=echo.hash.hex())
            assert not known["known"]
            with pytest.raises(errors.PathError):
                await node.path(peer.destination, timeout=0.3)


async def test_a_node_outside_hears_nothing(python: str, tmp_path: Path) -> None:
    """A stranger at the same port, with another code, beside a peer with the right one."""
    async with Node(interfaces=[TCPServer("127.0.0.1", **CODES)]) as node:
        port = port_of(node)
        async with spawn(python, tmp_path, config({"node": client(port, **CODES)})) as peer:
            path = await node.path(peer.destination, timeout=PATIENCE)
            assert path.hops == 1
            wrong = TCPClient("127.0.0.1", port, network_name="club", passphrase="other")
            async with Node(interfaces=[wrong]) as stranger:
                await stranger.interfaces()[0].wait_online(timeout=PATIENCE)
                with pytest.raises(errors.PathError):
                    await stranger.path(peer.destination, timeout=0.5)
                assert any("IFAC" in each.name for each in node.stats().engine.drops)


# ------------------------------------------------------------------ framings, addresses


@asynccontextmanager
async def splice() -> AsyncIterator[int]:
    """A port that joins the two who connect to it, again if they do so again.

    It stands for a modem, to which both sides are clients.
    """
    waiting: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    joined: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not waiting:
            waiting.append((reader, writer))
            return
        other = waiting.pop()
        joined.add(asyncio.create_task(carry(other[0], writer)))
        joined.add(asyncio.create_task(carry(reader, other[1])))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield int(listener.sockets[0].getsockname()[1])
    finally:
        listener.close()
        for task in joined:
            task.cancel()
        await asyncio.gather(*joined, return_exceptions=True)
        for _, writer in waiting:
            writer.close()


@pytest.mark.parametrize("kiss", [True, False], ids=["kiss", "hdlc"])
async def test_framings(python: str, kiss: bool, tmp_path: Path) -> None:
    """The bytes that each framing escapes, among all others, both ways."""
    async with splice() as port, Node(interfaces=[TCPClient("127.0.0.1", port, kiss=kiss)]) as node:
        settings = config({"modem": client(port, kiss_framing=kiss)})
        async with spawn(python, tmp_path, settings) as peer:
            async with await node.connect(peer.destination, timeout=PATIENCE) as link:
                for size in (1, 200, link.mdu):
                    data = bytes(range(256)) * (size // 256 + 1)
                    answer = await link.request("/echo", data[:size], timeout=PATIENCE)
                    assert answer.data == data[:size]
            echo = await node.listen("netmesh.interop", prove="all")
            up = await peer.wait("up", id=peer.do("connect", destination=echo.hash.hex()))
            link = await echo.links.get(timeout=PATIENCE)
            await peer.ask(
                "send",
                "proof",
                orders=lambda _: {"link": up["link"], "data": bytes(range(256)).hex()},
            )
            assert (await link.packets.get(timeout=PATIENCE)).data == bytes(range(256))


def has_ipv6() -> bool:
    """Whether this machine has a loopback address of IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::1", ""], ids=["ipv6", "dual"])
async def test_ipv6(python: str, host: str, tmp_path: Path) -> None:
    async with Node(interfaces=[TCPServer(host)]) as node:
        settings = config({"node": client(port_of(node), host="::1")})
        async with (
            spawn(python, tmp_path, settings) as peer,
            await node.connect(peer.destination, timeout=PATIENCE) as link,
        ):
            answer = await link.request("/echo", "over IPv6", timeout=PATIENCE)
            assert answer.data == "over IPv6"
