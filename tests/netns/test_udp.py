"""UDP: netmesh and upstream, to one address and to all of a network."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netmesh import Node, errors
from netmesh.interfaces import UDP
from netns.exchanges import between, upstream_calls, we_call
from netns.upstream import interpreter, upstream
from netns.wires import Network, network

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]

PORT = 4242
CONFIG = """\
type = UDPInterface
listen_ip = {listen}
listen_port = 4242
forward_ip = {forward}
forward_port = 4242
"""


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        for number, host in enumerate((made.a, made.b), 1):
            host.ip("addr", "add", f"10.9.0.{number}/24", "brd", "+", "dev", "eth0")
        yield made


def loopback(number: int) -> str:
    """An address of the loopback network that no other process uses."""
    pid = os.getpid()
    return f"127.{1 + (pid >> 14 & 127)}.{pid >> 6 & 255}.{1 + ((pid & 63) << 2 | number)}"


@pytest.mark.interop
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127/8")
@pytest.mark.parametrize("release", ["current", "old"])
async def test_upstream_and_we_send_datagrams_to_each_other(tmp_path: Path, release: str) -> None:
    python = interpreter(release)
    ours, theirs = loopback(0), loopback(1)
    config = CONFIG.format(listen=theirs, forward=ours)
    mine = UDP(ours, PORT, forward_host=theirs, forward_port=PORT)
    async with Node(interfaces=[mine]) as node, upstream(python, tmp_path / "rns", config) as peer:
        await we_call(node, peer)
        await upstream_calls(node, peer)
        info = await node.interfaces()[0].info()
        assert (info.medium, info.hw_mtu, info.bitrate) == ("udp", 1064, 10_000_000)
        assert info.name == f"UDPInterface[UDP/{ours}:{PORT}]"


@pytest.mark.interop
@pytest.mark.parametrize("release", ["current", "old"])
async def test_upstream_and_we_hear_each_others_broadcasts(
    net: Network, tmp_path: Path, release: str
) -> None:
    python = interpreter(release)
    config = "type = UDPInterface\ndevice = eth0\nport = 4242\n"
    with net.a.loop() as loop:
        async with (
            Node(interfaces=[UDP(device="eth0", port=PORT)], loop=loop) as node,
            upstream(python, tmp_path / "rns", config, net.b.command()) as peer,
        ):
            await we_call(node, peer)
            info = await node.interfaces()[0].info()
            assert info.name == f"UDPInterface[UDP/10.9.0.255:{PORT}]"
            assert info.rx_echoes > 0


async def test_ipv6_with_a_device_in_the_address(net: Network) -> None:
    for number, host in enumerate((net.a, net.b), 1):
        host.ip("addr", "add", f"fe80::{number}/64", "dev", "eth0", "nodad")
    first = UDP("fe80::1%eth0", PORT, forward_host="fe80::2%eth0", forward_port=PORT)
    second = UDP("fe80::2%eth0", PORT, forward_host="fe80::1%eth0", forward_port=PORT)
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[first], loop=one) as alice,
            Node(interfaces=[second], loop=other) as bob,
        ):
            await between(alice, bob)


@pytest.mark.parametrize("share", [0.0, 0.1])
async def test_files_cross_a_network_that_loses_frames(net: Network, share: float) -> None:
    first = UDP("10.9.0.1", PORT, forward_host="10.9.0.2", forward_port=PORT)
    second = UDP("10.9.0.2", PORT, forward_host="10.9.0.1", forward_port=PORT)
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[first], loop=one) as alice,
            Node(interfaces=[second], loop=other) as bob,
        ):
            forwarder = net.lose(share)
            await between(alice, bob, tries=8)
            assert (forwarder.lost > 0) == (share > 0)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("release", ["current", "old"])
@pytest.mark.parametrize("share", [0.03, 0.1])
async def test_upstream_over_a_network_that_loses_frames(
    net: Network, tmp_path: Path, release: str, share: float
) -> None:
    python = interpreter(release)
    config = CONFIG.format(listen="10.9.0.2", forward="10.9.0.1")
    mine = UDP("10.9.0.1", PORT, forward_host="10.9.0.2", forward_port=PORT)
    with net.a.loop() as loop:
        async with (
            Node(interfaces=[mine], loop=loop) as node,
            upstream(python, tmp_path / "rns", config, net.b.command()) as peer,
        ):
            forwarder = net.lose(share)
            await we_call(node, peer, tries=8)
            await upstream_calls(node, peer, tries=8)
            assert forwarder.carried > 0


async def test_files_of_two_segments_cross_in_datagrams(net: Network) -> None:
    first = UDP("10.9.0.1", PORT, forward_host="10.9.0.2", forward_port=PORT)
    second = UDP("10.9.0.2", PORT, forward_host="10.9.0.1", forward_port=PORT)
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[first], loop=one) as alice,
            Node(interfaces=[second], loop=other) as bob,
        ):
            await between(alice, bob, size=1_100_000)


async def test_an_interface_bound_to_a_device_hears_no_other_one(net: Network) -> None:
    net.cable(net.a, "eth1", "to_a2")
    net.a.ip("addr", "add", "10.8.0.1/24", "dev", "eth1")
    anywhere = UDP("0.0.0.0", PORT)
    bound = UDP("0.0.0.0", PORT + 1, device="eth1")
    to_first = UDP(forward_host="10.9.0.1", forward_port=PORT)
    to_second = UDP(forward_host="10.9.0.1", forward_port=PORT + 1, label="second")
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[anywhere], loop=one) as open_node,
            Node(interfaces=[bound], loop=one) as bound_node,
            Node(interfaces=[to_first, to_second], loop=other) as sender,
        ):
            heard = open_node.announces("test.bound")
            await open_node.interfaces()[0].info()  # the subscription is in force
            echo = await sender.listen("test.bound")
            await echo.announce()
            assert (await heard.get(timeout=40)).destination == echo.hash
            assert (await bound_node.interfaces()[0].info()).wire_rx_bytes == 0


async def test_a_network_that_comes_later_is_used(net: Network) -> None:
    net.a.ip("link", "set", "eth0", "down")
    first = UDP("0.0.0.0", PORT, forward_host="10.9.0.2", forward_port=PORT)
    second = UDP("10.9.0.2", PORT, forward_host="10.9.0.1", forward_port=PORT)
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[first], loop=one) as alice,
            Node(interfaces=[second], loop=other) as bob,
        ):
            info = await alice.interfaces()[0].info()
            assert info.trouble.name == "CONNECT"
            assert info.os_error
            net.a.ip("link", "set", "eth0", "up")
            await between(alice, bob)


async def test_wrong_options_are_named() -> None:
    for options, problem in (
        (UDP(), "needs a listening or forwarding address"),
        (UDP(port=4242), "needs a listening or forwarding address"),
        (UDP("127.0.0.1"), "needs a listening port"),
        (UDP("localhost", 1), "does not appear to be an IPv4 or IPv6 address"),
        (UDP("127.0.0.1", 0, forward_host="127.0.0.1"), "needs a forwarding port"),
    ):
        async with Node(shared_instance=False) as node:
            with pytest.raises(ValueError, match=problem):
                await node.add_interface(options)
    async with Node(shared_instance=False) as node:
        with pytest.raises(errors.InterfaceError) as caught:
            await node.add_interface(UDP(device="nodevice", port=4242))
        assert caught.value.os_error
