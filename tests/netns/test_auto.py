"""Automatic discovery between hosts: netmesh and netmesh, netmesh and upstream."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from netmesh import Node
from netmesh.interfaces import AutoInterface, Interface, InterfaceTrouble, PeerFound, PeerLost
from netns.exchanges import between, upstream_calls, we_call
from netns.upstream import PATIENCE, interpreter, upstream
from netns.wires import Namespace, Network, network

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]

AUTO = "type = AutoInterface\n"


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        yield made


@asynccontextmanager
async def node_in(host: Namespace, *interfaces: Any) -> AsyncIterator[Node]:
    """A node of a host."""
    with host.loop() as loop:
        async with Node(interfaces=interfaces or [AutoInterface()], loop=loop) as node:
            yield node


async def peers_of(node: Node, count: int = 1) -> Interface:
    """The node's interface, as soon as it has so many peers that are online."""
    interface = node.interfaces()[0]
    async with asyncio.timeout(PATIENCE):
        while True:
            online = [peer for peer in await interface.peers() if peer.online]
            if len(online) == count:
                return interface
            await asyncio.sleep(0.02)


async def address_of(node: Node) -> str | None:
    devices = await node.interfaces()[0].devices()
    return next(device.address for device in devices if device.name == "eth0")


async def test_two_agents_find_each_other_without_configuration(net: Network) -> None:
    async with node_in(net.a) as alice, node_in(net.b) as bob:
        for node in (alice, bob):
            interface = await peers_of(node)
            (peer,) = await interface.peers()
            assert (peer.medium, peer.parent) == ("auto_peer", interface.id)
        await between(alice, bob)
        await between(bob, alice)
        states = {device.name: device.state for device in await interface.devices()}
        assert states == {"lo": "ignored", "eth0": "listening"}


@pytest.mark.interop
@pytest.mark.parametrize("release", ["current", "old"])
async def test_upstream_is_found_and_finds_us(net: Network, tmp_path: Path, release: str) -> None:
    python = interpreter(release)
    async with (
        node_in(net.a) as node,
        upstream(python, tmp_path / "rns", AUTO, net.b.command()) as peer,
    ):
        await peers_of(node)
        await we_call(node, peer)
        await upstream_calls(node, peer)


@pytest.mark.interop
@pytest.mark.parametrize("release", ["current", "old"])
async def test_options_mean_what_they_mean_upstream(
    net: Network, tmp_path: Path, release: str
) -> None:
    python = interpreter(release)
    config = AUTO + (
        "group_id = workshop\ndiscovery_scope = site\nmulticast_address_type = permanent\n"
        "discovery_port = 30000\ndata_port = 30010\nnetwork_name = club\npassphrase = sesame\n"
    )
    ours = AutoInterface(
        "workshop",
        discovery_scope="site",
        multicast_address_type="permanent",
        discovery_port=30000,
        data_port=30010,
        network_name="club",
        passphrase="sesame",
    )
    async with (
        node_in(net.a, ours) as node,
        upstream(python, tmp_path / "rns", config, net.b.command()) as peer,
    ):
        await peers_of(node)
        await we_call(node, peer)


async def test_other_groups_are_not_found(net: Network) -> None:
    with net.b.loop() as loop:
        other = AutoInterface("another group")
        async with node_in(net.a) as alice, Node(interfaces=[other], loop=loop) as bob:
            for node in (alice, bob):
                interface = node.interfaces()[0]
                async with asyncio.timeout(PATIENCE):
                    while (await interface.devices())[1].echoes < 2:
                        await asyncio.sleep(0.05)
                assert await interface.peers() == []


async def test_devices_that_come_later_are_used_at_once(net: Network) -> None:
    net.a.ip("link", "set", "eth0", "down")
    net.b.ip("link", "set", "eth0", "down")
    async with node_in(net.a) as alice, node_in(net.b) as bob:
        interface = alice.interfaces()[0]
        assert not interface.online
        assert {device.state for device in await interface.devices()} == {"ignored", "down"}
        async with alice.events(PeerFound) as found:
            net.a.ip("link", "set", "eth0", "up")
            net.b.ip("link", "set", "eth0", "up")
            # The kernel takes up to a second of its own.
            net.settle()
            started = time.monotonic()
            peer = await found.get(timeout=PATIENCE)
            assert time.monotonic() - started <= 5
        assert (peer.interface, peer.device) == (interface.id, "eth0")
        assert interface.online
        await peers_of(bob)
        await between(alice, bob)


async def test_a_device_that_is_made_later_is_used_and_one_that_goes_takes_its_peers(
    net: Network,
) -> None:
    async with node_in(net.a) as alice, node_in(net.b):
        await peers_of(alice)
        async with alice.events((PeerFound, PeerLost)) as changes:
            net.a.ip("link", "del", "eth0")
            lost = await changes.get(timeout=PATIENCE)
            assert isinstance(lost, PeerLost)
            net.cable(net.a, "eth1", "to_a")
            net.middle.ip("link", "set", "to_a", "master", "bridge")
            found = await changes.get(timeout=PATIENCE)
            assert isinstance(found, PeerFound)
            assert (found.address, found.device) == (lost.address, "eth1")


async def test_flapping_fifty_times_loses_no_peer_and_no_descriptor(net: Network) -> None:
    patient = AutoInterface(peer_timeout_s=200)
    async with node_in(net.a, patient) as alice, node_in(net.b, patient) as bob:
        await peers_of(alice)
        await peers_of(bob)
        before = len(os.listdir("/proc/self/fd"))
        async with alice.events((PeerFound, PeerLost)) as changes:
            for _ in range(50):
                net.a.ip("link", "set", "eth0", "down")
                net.a.ip("link", "set", "eth0", "up")
                await asyncio.sleep(0.01)
            net.settle()
            await peers_of(alice)
            await peers_of(bob)
            assert len(changes) == 0
        await between(alice, bob)
        async with asyncio.timeout(PATIENCE):
            while len(os.listdir("/proc/self/fd")) > before:
                await asyncio.sleep(0.02)


@pytest.mark.interop
@pytest.mark.parametrize("release", ["current", "old"])
async def test_upstream_is_reached_again_after_a_flap(
    net: Network, tmp_path: Path, release: str
) -> None:
    python = interpreter(release)
    async with (
        node_in(net.a) as node,
        upstream(python, tmp_path / "rns", AUTO, net.b.command()) as peer,
    ):
        await peers_of(node)
        for _ in range(5):
            net.plug("to_a", False)
            await asyncio.sleep(0.02)
            net.plug("to_a", True)
        net.settle()
        await peers_of(node)
        await we_call(node, peer)


async def test_a_peer_is_offline_while_its_device_is_down(net: Network) -> None:
    async with node_in(net.a) as alice, node_in(net.b):
        interface = await peers_of(alice)
        net.a.ip("link", "set", "eth0", "down")
        async with asyncio.timeout(PATIENCE):
            while interface.online:
                await asyncio.sleep(0.01)
        (peer,) = await interface.peers()
        assert not peer.online
        net.a.ip("link", "set", "eth0", "up")
        await peers_of(alice)


async def test_a_new_hardware_address_is_followed(net: Network) -> None:
    async with node_in(net.a) as alice, node_in(net.b) as bob:
        await peers_of(alice)
        await peers_of(bob)
        old = await address_of(alice)
        net.a.ip("link", "set", "eth0", "down")
        net.a.ip("link", "set", "eth0", "address", "02:00:00:00:00:77")
        async with bob.events(PeerFound) as found:
            net.a.ip("link", "set", "eth0", "up")
            peer = await found.get(timeout=PATIENCE)
        assert peer.address == "fe80::ff:fe00:77" == await address_of(alice)
        assert old != peer.address
        net.settle()
        await peers_of(alice)
        await between(bob, alice)


async def test_of_two_addresses_one_is_used_and_the_other_one_takes_over(net: Network) -> None:
    net.a.ip("addr", "add", "fe80::aa/64", "dev", "eth0")
    async with node_in(net.a) as alice, node_in(net.b) as bob:
        await peers_of(bob)
        await peers_of(alice)
        (device,) = [d for d in await alice.interfaces()[0].devices() if d.name == "eth0"]
        assert device.addresses == 2
        await between(bob, alice)
        async with bob.events(PeerFound) as found:
            assert device.address
            net.a.ip("addr", "del", f"{device.address}/64", "dev", "eth0")
            peer = await found.get(timeout=PATIENCE)
        assert peer.address == await address_of(alice) != device.address
        # An address that is added changes nothing.
        net.a.ip("addr", "add", "fe80::bb/64", "dev", "eth0")
        await between(alice, bob)
        assert peer.address == await address_of(alice)


async def test_two_devices_on_one_network_are_no_peers_of_each_other(net: Network) -> None:
    net.cable(net.a, "eth1", "to_a2")
    net.middle.ip("link", "set", "to_a2", "master", "bridge")
    async with node_in(net.a) as alice, node_in(net.b) as bob:
        await peers_of(bob, 2)
        interface = await peers_of(alice, 2)
        assert {peer.name.partition("[")[2][:4] for peer in await interface.peers()} == {
            "eth0",
            "eth1",
        }
        await between(bob, alice)
        # What came over both devices was taken once.
        async with asyncio.timeout(PATIENCE):
            while not (await bob.interfaces()[0].info()).rx_echoes:
                echo = await alice.listen("test.twice")
                await echo.announce()
                await echo.close()
                await asyncio.sleep(0.05)


async def test_devices_are_chosen_by_name(net: Network) -> None:
    net.cable(net.a, "eth1", "to_a2")
    for options, used in (
        ({"devices": ("eth1", "eth7")}, {"eth1"}),
        ({"ignored_devices": ("eth1",)}, {"eth0"}),
        ({"devices": ("eth0", "eth1"), "ignored_devices": ("eth0",)}, {"eth1"}),
    ):
        async with node_in(net.a, AutoInterface(**options)) as node:
            await node.interfaces()[0].wait_online(timeout=PATIENCE)
            devices = await node.interfaces()[0].devices()
            assert {each.name for each in devices if each.state == "listening"} == used


async def test_a_second_program_waits_for_the_port_and_says_so(net: Network) -> None:
    with net.a.loop() as loop:
        async with node_in(net.a) as first:
            await first.interfaces()[0].wait_online(timeout=PATIENCE)
            async with Node(loop=loop, shared_instance=False) as second:
                async with second.events(InterfaceTrouble) as troubles:
                    interface = await second.add_interface(AutoInterface())
                    trouble = await troubles.get(timeout=PATIENCE)
                assert (trouble.trouble.name, trouble.device) == ("LISTEN", "eth0")
                assert trouble.os_error
                assert not interface.online
                await first.interfaces()[0].remove()
                await interface.wait_online(timeout=PATIENCE)


@pytest.mark.parametrize("share", [0.0, 0.03, pytest.param(0.1, marks=pytest.mark.slow)])
async def test_files_cross_a_network_that_loses_frames(net: Network, share: float) -> None:
    async with node_in(net.a) as alice, node_in(net.b) as bob:
        forwarder = net.lose(share)
        await peers_of(alice)
        await peers_of(bob)
        await between(alice, bob, tries=8)
        assert forwarder.carried > 0
        assert (forwarder.lost > 0) == (share > 0)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("release", ["current", "old"])
async def test_upstream_over_a_network_that_loses_frames(
    net: Network, tmp_path: Path, release: str
) -> None:
    python = interpreter(release)
    async with (
        node_in(net.a) as node,
        upstream(python, tmp_path / "rns", AUTO, net.b.command()) as peer,
    ):
        net.lose(0.05)
        await peers_of(node)
        await we_call(node, peer, tries=8)
        await upstream_calls(node, peer, tries=8)
