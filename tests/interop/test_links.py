"""Links with a live upstream peer: both ways, identify, keepalives, MTU, each way to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from interop.upstream import (
    PATIENCE,
    Peer,
    World,
    accepted,
    client,
    config,
    instance_name,
    meet,
    rnsd,
    server,
    spawn,
)
from netmesh import Node, Packet, errors
from netmesh.constants import Context
from netmesh.destinations import LocalDestination
from netmesh.interfaces import TCPServer
from netmesh.records import CloseReason

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(180)]

UPSTREAM = {"TIMEOUT": 1, "INITIATOR": 2, "DESTINATION": 3}


async def test_the_node_opens_a_link(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        node, peer = world.node, world.peer
        for closer in ("node", "peer"):
            link = await node.connect(peer.destination, timeout=PATIENCE)
            name = link.link_id.hex()
            up = await peer.wait("link", link=name)
            assert (up["mtu"], up["mdu"]) == (link.mtu, link.mdu)
            assert link.hops == world.hops
            for size in (0, 1, 431, link.mdu - 1, link.mdu):
                data = os.urandom(size)
                receipt = await link.send(data, timeout=PATIENCE)
                await peer.wait("link_packet", link=name, data=data.hex())
                assert (await link.packets.get(timeout=PATIENCE)).data == data
                assert (await receipt).ok
            with pytest.raises(errors.EncodeError):
                await link.send(bytes(link.mdu + 1))
            assert (await link.request("/who", timeout=PATIENCE)).data == b"nobody"
            await link.identify()
            told = await peer.wait("identified", link=name)
            assert told["identity"] == node.identity.hash.hex()
            assert (await link.request("/who", timeout=PATIENCE)).data == node.identity.hash
            if closer == "node":
                await link.close(timeout=PATIENCE)
                assert link.reason == CloseReason.INITIATOR
                told = await peer.wait("link_closed", link=name)
                assert told["reason"] == UPSTREAM["INITIATOR"]
            else:
                peer.do("close", link=name)
                assert await link.wait_closed(timeout=PATIENCE) == CloseReason.DESTINATION


async def test_the_peer_opens_a_link(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        node, peer = world.node, world.peer
        echo = await node.listen("netmesh.interop", prove="all")
        for closer in ("node", "peer"):
            name, up = await world.link(echo.hash)
            link = await accepted(echo.links, name)
            assert (up["mtu"], up["mdu"]) == (link.mtu, link.mdu)
            assert link.remote_identity is None
            for size in (0, 1, 431, link.mdu - 1, link.mdu):
                sent: list[bytes] = []

                def order(
                    _: int, name: str = name, size: int = size, sent: list[bytes] = sent
                ) -> dict[str, str]:
                    sent.append(os.urandom(size))
                    return {"link": name, "data": sent[-1].hex()}

                await peer.ask("send", "proof", orders=order)
                for data in sent:
                    assert (await link.packets.get(timeout=PATIENCE)).data == data
                data = os.urandom(size)
                await link.send(data, proof=False)
                await peer.wait("link_packet", link=name, data=data.hex())
            identity = await peer.call("identify", "identity", link=name)
            known = await link.wait_identified(timeout=PATIENCE)
            assert known.hash.hex() == identity["identity"]
            if closer == "node":
                await link.close(timeout=PATIENCE)
                told = await peer.wait("link_closed", link=name)
                assert told["reason"] == UPSTREAM["DESTINATION"]
            else:
                peer.do("close", link=name)
                assert await link.wait_closed(timeout=PATIENCE) == CloseReason.INITIATOR


TUNED = {
    "KEEPALIVE_MIN": 0.1,
    "KEEPALIVE_MAX": 0.1,
    "STALE_FACTOR": 400,
    "WATCHDOG_MAX_SLEEP": 0.1,
}
"""Upstream beats every tenth of a second; only a silence of 40 s ends a link."""
BEATS = 12


async def kept_alive(world: World, echo: LocalDestination) -> bool:
    """Links in both directions, idle for dozens of intervals; False when upstream ended one."""
    node, peer = world.node, world.peer
    name, _ = await world.link(echo.hash)
    incoming = await accepted(echo.links, name)
    outgoing = await node.connect(peer.destination, timeout=PATIENCE)
    await peer.wait("link", link=outgoing.link_id.hex())
    for link in (incoming, outgoing):
        await link.tune(keepalive_s=0.1, stale_s=40.0)
    # FF asks for a sign of life, FE gives it; both are in the clear.
    wanted = {
        (True, incoming.link_id, b"\xff"): BEATS,
        (False, incoming.link_id, b"\xfe"): BEATS,
        (False, outgoing.link_id, b"\xff"): BEATS,
        (True, outgoing.link_id, b"\xfe"): BEATS,
    }
    with contextlib.closing(node.tap(buffer=10_000)) as frames:
        async with asyncio.timeout(PATIENCE):
            while any(count > 0 for count in wanted.values()):
                if incoming.closed or outgoing.closed:
                    break
                frame = await frames.get()
                packet = Packet.unpack(frame.data)
                if packet.context == Context.KEEPALIVE:
                    beat = (frame.incoming, packet.destination, packet.payload)
                    wanted[beat] -= 1
    if incoming.closed or outgoing.closed:
        assert CloseReason.TIMEOUT not in {incoming.reason, outgoing.reason}
        return False
    assert (await outgoing.request("/echo", "still there", timeout=PATIENCE)).data == "still there"
    return True


async def test_idle_links_are_kept_alive(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        await world.peer.call("tune", "tuned", values=TUNED)
        echo = await world.node.listen("netmesh.interop")
        # Releases before 1.5 close a link when an interval ends between two looks at the clock.
        for _ in range(5):
            if await kept_alive(world, echo):
                return
        raise AssertionError("no link lived through its idle time")


async def test_a_killed_peer_is_noticed(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path) as world:
        node, peer = world.node, world.peer
        echo = await node.listen("netmesh.interop")
        name, _ = await world.link(echo.hash)
        incoming = await accepted(echo.links, name)
        outgoing = await node.connect(peer.destination, timeout=PATIENCE)
        if topology != "direct":  # the instance between them says nothing of its neighbours
            for link in (incoming, outgoing):
                await link.tune(keepalive_s=0.2, stale_s=1.0)
        await peer.kill()
        reasons = {await link.wait_closed(timeout=PATIENCE) for link in (incoming, outgoing)}
        assert reasons == {CloseReason.IFACE_GONE if topology == "direct" else CloseReason.TIMEOUT}
        with pytest.raises(errors.LinkError):
            await outgoing.send(b"too late")


NODE_TO_KILL = """
import asyncio, sys
from interop.upstream import find
from netmesh import Node
from netmesh.interfaces import LocalClient, TCPClient, TCPServer

def interface(kind, where):
    if kind == "direct":
        return TCPServer("127.0.0.1")
    return LocalClient(where) if kind == "shared" else TCPClient("127.0.0.1", int(where))

async def main():
    async with Node(interfaces=[interface(*sys.argv[1:])]) as node:
        print(node.interfaces()[0].port, flush=True)
        echo = await node.listen("netmesh.interop")
        print(echo.hash.hex(), flush=True)
        other = bytes.fromhex(await asyncio.to_thread(sys.stdin.readline))
        await find(node, other)
        link = await node.connect(other, timeout=40)
        print(link.link_id.hex(), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
"""Its port and its names come over its output; it lives until it is killed."""


@asynccontextmanager
async def node_to_kill(kind: str, where: object = "-") -> AsyncIterator[asyncio.subprocess.Process]:
    """A node in a process of its own."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        NODE_TO_KILL,
        kind,
        str(where),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def said(child: asyncio.subprocess.Process) -> str:
    """The next line of its output."""
    assert child.stdout
    async with asyncio.timeout(PATIENCE):
        return (await child.stdout.readline()).decode().strip()


SHORT_LIVED = {
    "KEEPALIVE_MIN": 0.5,
    "KEEPALIVE_MAX": 0.5,
    "STALE_FACTOR": 4,
    "STALE_GRACE": 0.5,
    "WATCHDOG_MAX_SLEEP": 0.5,
}


@asynccontextmanager
async def doomed(
    topology: str, python: str, folder: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Peer]]:
    """A node in a process of its own, and an upstream peer."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        if topology == "direct":
            child = await enter(node_to_kill("direct"))
            port = int(await said(child))
            yield child, await enter(spawn(python, folder, config({"node": client(port)})))
        elif topology == "shared":
            name = instance_name()
            peer = await enter(spawn(python, folder / "peer", config({"port": server()})))
            far = client(peer.ready["ports"]["port"])
            await enter(rnsd(python, folder / "rnsd", config({"far": far}, instance=name)))
            child = await enter(node_to_kill("shared", name))
            await said(child)
            yield child, peer
        else:
            rules = config({"hub": server(mode="gateway")}, transport=True)
            hub = await enter(spawn(python, folder / "hub", rules))
            port = hub.ready["ports"]["hub"]
            peer = await enter(spawn(python, folder / "peer", config({"hub": client(port)})))
            child = await enter(node_to_kill("transport", port))
            await said(child)
            yield child, peer


async def test_a_killed_node_is_noticed(python: str, topology: str, tmp_path: Path) -> None:
    async with doomed(topology, python, tmp_path) as (child, peer):
        echo = await said(child)
        await peer.call("tune", "tuned", values=SHORT_LIVED)
        assert child.stdin
        child.stdin.write(peer.destination.hex().encode() + b"\n")
        name = await said(child)
        await peer.wait("link", link=name)
        up = await peer.wait("up", id=peer.do("connect", destination=echo))
        child.kill()
        for each in (up["link"], name):
            told = await peer.wait("link_closed", link=each)
            assert told["reason"] == UPSTREAM["TIMEOUT"]


@pytest.mark.parametrize("ours", [500, 1064, 8192, None])
async def test_a_link_takes_the_smaller_mtu(python: str, ours: int | None, tmp_path: Path) -> None:
    options = {} if ours is None else {"mtu": ours}
    async with Node(interfaces=[TCPServer("127.0.0.1", **options)]) as node:
        port = node.interfaces()[0].port
        assert port
        echo = await node.listen("netmesh.interop", prove="all")
        settings = {"node": client(port, fixed_mtu=4000)}
        async with spawn(python, tmp_path, config(settings)) as peer:
            expected = min(4000, ours or 1 << 20)
            number = peer.do("connect", destination=echo.hash.hex())
            up = await peer.wait("up", id=number)
            incoming = await accepted(echo.links, up["link"])
            assert (up["mtu"], incoming.mtu) == (expected, expected)
            async with await node.connect(peer.destination, timeout=PATIENCE) as outgoing:
                up = await peer.wait("link", link=outgoing.link_id.hex())
                assert (up["mtu"], outgoing.mtu) == (expected, expected)
                data = os.urandom(outgoing.mdu)
                assert (await (await outgoing.send(data)).wait(timeout=PATIENCE)).ok
                await peer.wait("link_packet", data=data.hex())


async def test_the_mtu_of_a_link_is_found_along_the_way(
    python: str, topology: str, tmp_path: Path
) -> None:
    """What every interface on the way carries: the peer's own is the narrowest, or none is."""
    narrow = {"fixed_mtu": 4000} if topology != "shared" else {}
    async with meet(topology, python, tmp_path, theirs=narrow) as world:
        node, peer = world.node, world.peer
        echo = await node.listen("netmesh.interop", prove="all")
        name, up = await world.link(echo.hash)
        incoming = await accepted(echo.links, name)
        outgoing = await node.connect(peer.destination, timeout=PATIENCE)
        seen = await peer.wait("link", link=outgoing.link_id.hex())
        assert (up["mtu"], seen["mtu"]) == (incoming.mtu, outgoing.mtu)
        for mtu in (incoming.mtu, outgoing.mtu):
            assert mtu == 4000 if narrow else mtu >= 8192
        data = os.urandom(outgoing.mdu)
        assert (await (await outgoing.send(data)).wait(timeout=PATIENCE)).ok
        await peer.wait("link_packet", data=data.hex())
