"""A node attached to a live ``rnsd``: what is behind it, and what survives its restart."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import (
    PATIENCE,
    Peer,
    client,
    config,
    find,
    instance_name,
    rnsd,
    server,
    spawn,
)
from netmesh import Node
from netmesh.interfaces import TCPServer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.asyncio,
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform != "linux", reason="named instances are Linux's"),
]


async def test_two_nodes_on_one_instance_and_one_behind_it(
    python: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs on one machine reach each other and the world through its ``rnsd``.

    The instance has a key for its control channel that we do not have, and need not.
    """
    name = instance_name()
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as far:
        port = far.interfaces()[0].port
        assert port
        key = "00112233445566778899aabbccddeeff"
        settings = config({"far": client(port)}, instance=name, rpc_key=key)
        async with (
            rnsd(python, tmp_path, settings),
            Node(shared_instance=name) as near,
            Node(shared_instance=name) as neighbour,
        ):
            for node in (near, neighbour):
                await node.interfaces()[0].wait_online(timeout=PATIENCE)
            echo = await near.listen("netmesh.interop", prove="all", resources="all")
            await echo.add_handler("/upper", lambda request: request.data.upper())
            for node in (far, neighbour):
                await find(node, echo.hash)
                async with await node.connect(echo.hash, timeout=PATIENCE) as link:
                    answer = await link.request("/upper", "through rns", timeout=PATIENCE)
                    assert answer.data == "THROUGH RNS"
                    data = os.urandom(50_000)
                    assert (await link.send_file(data, timeout=PATIENCE)).ok
                    receipt = await link.send(b"over the link")
                    assert (await receipt.wait(timeout=PATIENCE)).ok
                receipt = await node.send(echo.hash, b"outside of it")
                assert (await receipt.wait(timeout=PATIENCE)).ok
            assert not near.health().degraded
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


async def test_announces_through_the_instance_are_seen_on_the_wire(
    python: str, tmp_path: Path
) -> None:
    """Each announce that completed leaves the machine.

    The nodes stay until then: an instance passes an announce on within a second or so, and
    forgets it when the program that made it has left before.
    """
    name = instance_name()
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as far:
        port = far.interfaces()[0].port
        assert port
        settings = config({"far": client(port)}, instance=name)
        async with rnsd(python, tmp_path, settings), AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(Node(shared_instance=name)) for _ in range(6)]
            # The instance has its own interface once it answers for what is behind it.
            probe = await far.listen("netmesh.probe")
            for node in nodes:
                await find(node, probe.hash)
            heard = far.announces("netmesh.brief")
            for number, node in enumerate(nodes):
                assert (await node.announce("netmesh.brief", str(number))).ok
            seen = {}
            while len(seen) < len(nodes):
                announce = await heard.get(timeout=PATIENCE)
                seen[announce.identity] = announce.app_data
            assert seen == {node.identity.hash: b"%d" % number for number, node in enumerate(nodes)}


async def hear_peer(heard: Any, peer: Peer, said: bytes) -> None:
    """Until an announce of the peer comes: an instance takes clients before it reaches others."""
    while heard.get_nowait() is not None:
        pass
    for _ in range(16):
        await peer.announce(said)
        try:
            announce = await heard.get(timeout=2.5)
        except TimeoutError:
            continue  # the instance was not yet connected to the peer
        assert announce.destination == peer.destination
        return
    raise AssertionError("no announce of the peer was heard")


async def test_all_is_there_again_after_a_restart(python: str, tmp_path: Path) -> None:
    name = instance_name()
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(
            spawn(python, tmp_path / "peer", config({"port": server()}))
        )
        settings = config({"far": client(peer.ready["ports"]["port"])}, instance=name)
        instance = await stack.enter_async_context(rnsd(python, tmp_path / "rnsd", settings))
        node = await stack.enter_async_context(Node(shared_instance=name))
        attached = node.interfaces()[0]
        await attached.wait_online(timeout=PATIENCE)
        heard = node.announces("netmesh.interop")
        echo = await node.listen("netmesh.interop", prove="all", app_data=b"here")
        await echo.add_handler("/echo", lambda request: request.data)
        await hear_peer(heard, peer, b"before the restart")
        assert (await peer.call("path", "path", destination=echo.hash.hex()))["found"]
        await find(node, peer.destination)
        link = await node.connect(peer.destination, timeout=PATIENCE)

        await instance.kill()
        async with asyncio.timeout(PATIENCE):
            assert (await link.wait_closed()).name == "IFACE_GONE"
        instance = await stack.enter_async_context(rnsd(python, tmp_path / "rnsd", settings))
        await attached.wait_online(timeout=PATIENCE)
        # The handler fires again.
        await hear_peer(heard, peer, b"after the restart")
        # Its destinations are known to the instance: the peer finds and calls them.
        found = await peer.call("path", "path", destination=echo.hash.hex(), forget=True)
        assert found["found"]
        up = await peer.wait("up", id=peer.do("connect", destination=echo.hash.hex()))
        await peer.ask(
            "request",
            "response",
            orders=lambda attempt, link=up["link"]: {
                "link": link,
                "path": "/echo",
                "data": f"again {attempt}",
            },
            expect=lambda order: {"value": order["data"]},
        )
        # And the node reaches the peer.
        await find(node, peer.destination)
        link = await node.connect(peer.destination, timeout=PATIENCE)
        assert (await link.request("/echo", "again", timeout=PATIENCE)).data == "again"
