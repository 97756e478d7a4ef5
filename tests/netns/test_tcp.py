"""TCP bound to one network device of several."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from netmesh import Node
from netmesh.interfaces import InterfaceInfo, InterfaceTrouble, TCPClient, TCPServer
from netns.exchanges import between
from netns.upstream import PATIENCE
from netns.wires import Network, network

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]


@pytest.fixture
def net() -> Iterator[Network]:
    """Two hosts with two cables between them, each cable a network of its own."""
    with network() as made:
        made.middle.ip("link", "add", "second", "type", "bridge")
        made.middle.ip("link", "set", "second", "up")
        for number, (host, end) in enumerate(((made.a, "to_a2"), (made.b, "to_b2")), 1):
            made.cable(host, "eth1", end)
            made.middle.ip("link", "set", end, "master", "second")
            host.ip("addr", "add", f"10.9.0.{number}/24", "dev", "eth0")
            host.ip("addr", "add", f"10.8.0.{number}/24", "dev", "eth1")
        made.middle.settle("second")
        yield made


async def refused(node: Node, options: TCPClient) -> None:
    """Opens a client that does not get through."""
    async with node.events(InterfaceTrouble) as troubles:
        interface = await node.add_interface(options)
        trouble = await troubles.get(timeout=PATIENCE)
    assert trouble.interface == interface.id
    assert not interface.online
    await interface.remove()


async def test_a_server_bound_to_a_device_takes_connections_over_that_one(net: Network) -> None:
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[TCPServer("0.0.0.0", 4242, device="eth1")], loop=one) as server,
            Node(loop=other, shared_instance=False) as client,
        ):
            await refused(client, TCPClient("10.9.0.1", 4242, label="wrong", retry_first_ms=5000))
            right = await client.add_interface(TCPClient("10.8.0.1", 4242))
            await right.wait_online(timeout=PATIENCE)
            await between(client, server)


async def test_a_client_bound_to_a_device_connects_over_that_one(net: Network) -> None:
    # The way to this address leads over the first device, or is told to.
    net.a.ip("addr", "add", "10.7.0.1/32", "dev", "lo")
    net.b.ip("route", "add", "10.7.0.1/32", "via", "10.9.0.1", "dev", "eth0", "metric", "10")
    net.b.ip("route", "add", "10.7.0.1/32", "via", "10.8.0.1", "dev", "eth1", "metric", "20")
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[TCPServer("0.0.0.0", 4242)], loop=one) as server,
            Node(loop=other, shared_instance=False) as client,
        ):
            for device, address in (("eth0", "10.9.0.2"), ("eth1", "10.8.0.2")):
                options = TCPClient("10.7.0.1", 4242, device=device, label=device)
                interface = await client.add_interface(options)
                await interface.wait_online(timeout=PATIENCE)
                async with asyncio.timeout(PATIENCE):
                    while not (children := await server.interfaces()[0].peers()):
                        await asyncio.sleep(0.01)
                assert [child.name.partition("/")[2].partition(":")[0] for child in children] == [
                    address
                ]
                await interface.remove()
                async with asyncio.timeout(PATIENCE):
                    while await server.interfaces()[0].peers():
                        await asyncio.sleep(0.01)


async def test_a_client_waits_for_its_device(net: Network) -> None:
    net.b.ip("link", "del", "eth1")
    options = TCPClient("10.8.0.1", 4242, device="eth1", retry_first_ms=50, retry_max_ms=200)
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[TCPServer("0.0.0.0", 4242)], loop=one) as server,
            Node(loop=other, shared_instance=False) as client,
        ):
            async with client.events(InterfaceTrouble) as troubles:
                interface = await client.add_interface(options)
                trouble = await troubles.get(timeout=PATIENCE)
                assert (trouble.trouble.name, bool(trouble.os_error)) == ("CONNECT", True)
            net.cable(net.b, "eth1", "to_b2")
            net.middle.ip("link", "set", "to_b2", "master", "second")
            net.b.ip("addr", "add", "10.8.0.2/24", "dev", "eth1")
            await interface.wait_online(timeout=PATIENCE)
            await between(client, server)


async def test_an_address_that_flaps_is_turned_away_until_its_time_is_over(net: Network) -> None:
    server = TCPServer("0.0.0.0", 4242, flap_threshold_s=600, flap_grace=2, flap_block_s=1)
    with net.a.loop() as one:
        async with Node(interfaces=[server], loop=one, shared_instance=False) as node:
            (interface,) = node.interfaces()

            async def come_and_go() -> None:
                with net.b.inside(), socket.socket() as plain:
                    plain.settimeout(PATIENCE)
                    plain.connect(("10.9.0.1", 4242))

            async def until_met(count: int) -> InterfaceInfo:
                async with asyncio.timeout(PATIENCE):
                    while True:
                        info = await interface.info()
                        if info.flaps + info.refused >= count and not info.connections:
                            return info
                        await asyncio.sleep(0.005)

            for number in (1, 2, 3):
                await come_and_go()
                assert (await until_met(number)).refusals == {}
            await come_and_go()
            info = await until_met(4)
            assert (info.flaps, info.opened, info.refusals) == (3, 3, {"flapping": 1})
            async with asyncio.timeout(PATIENCE):
                while info.opened == 3:
                    await come_and_go()
                    info = await interface.info()
            assert info.refused > 1
