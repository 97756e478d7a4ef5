"""Each option of UDP and of automatic discovery, and what it does: to the sockets of the system, to
who is found, to packets."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import socket
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from netmesh import Node
from netmesh.interfaces import UDP, AutoInterface, InterfaceOptions, PeerLost
from netns.upstream import PATIENCE
from netns.wires import Namespace, Network, network
from node.test_inheritance import ELSEWHERE, TOLD

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]

COMMON = {each.name for each in fields(InterfaceOptions)}
CODE = {"network_name": "club", "passphrase": "sesame", "ifac_size": 12}


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        for number, host in enumerate((made.a, made.b), 1):
            host.ip("addr", "add", f"10.9.0.{number}/24", "brd", "+", "dev", "eth0")
        yield made


def own(options: type[InterfaceOptions]) -> set[str]:
    """The names of the options that only this kind has."""
    return {each.name for each in fields(options)} - COMMON


# ------------------------------------------------------------------------ discovery


def group(scope: str = "2", kind: str = "1", name: str = "reticulum") -> str:
    """The multicast address (RNS 2, 5.7)."""
    digest = hashlib.sha256(name.encode()).digest()
    return (bytes([0xFF, int(kind + scope, 16), 0, 0]) + digest[2:14]).hex()


SOCKETS: dict[str, tuple[dict[str, Any], str, tuple[int, int, int]]] = {
    "": ({}, group(), (29716, 29717, 42671)),
    "group_id": ({"group_id": "x"}, group(name="x"), (29716, 29717, 42671)),
    **{
        f"discovery_scope={name}": (
            {"discovery_scope": name},
            group(digit),
            (29716, 29717, 42671),
        )
        for name, digit in zip(
            ("link", "admin", "site", "organisation", "global"), "2458e", strict=True
        )
    },
    "multicast_address_type": (
        {"multicast_address_type": "permanent"},
        group(kind="0"),
        (29716, 29717, 42671),
    ),
    "discovery_port": ({"discovery_port": 1234}, group(), (1234, 1235, 42671)),
    "data_port": ({"data_port": 2345}, group(), (29716, 29717, 2345)),
}
"""What is given, the group that is joined, and the ports: of the group, of peers, of packets."""
ELSEWHERE_AUTO = {"devices", "ignored_devices", "peer_timeout_s", "peers_max"}
"""Tested below, or in test_auto (devices)."""


def joined(host: Namespace, device: str = "eth0") -> set[str]:
    """The multicast groups that a device of a host is a member of."""
    with host.inside():
        lines = Path("/proc/thread-self/net/igmp6").read_text().splitlines()
    return {words[2] for words in map(str.split, lines) if words[1] == device}


def bound(host: Namespace) -> set[int]:
    """The ports of IPv6 that sockets of a host are bound to."""
    with host.inside():
        lines = Path("/proc/thread-self/net/udp6").read_text().splitlines()[1:]
    return {int(line.split()[1].rpartition(":")[2], 16) for line in lines}


async def test_every_option_of_discovery_is_looked_at() -> None:
    seen = {name.partition("=")[0] for name in SOCKETS} - {""}
    assert own(AutoInterface) == seen | ELSEWHERE_AUTO


@pytest.mark.parametrize("case", SOCKETS)
async def test_groups_and_ports_are_what_options_say(net: Network, case: str) -> None:
    options, address, ports = SOCKETS[case]
    with net.a.loop() as loop:
        async with Node(
            interfaces=[AutoInterface(**options)], loop=loop, shared_instance=False
        ) as node:
            await node.interfaces()[0].wait_online(timeout=PATIENCE)
            assert address in joined(net.a)
            assert bound(net.a) >= set(ports)
            assert bound(net.a).isdisjoint({29716, 29717, 42671} - set(ports))
    if case == "":
        assert ipaddress.ip_address(bytes.fromhex(address)).compressed == (
            "ff12:0:d70b:fb1c:16e4:5e39:485e:31e1"
        )


async def test_a_silent_peer_goes_after_its_time(net: Network) -> None:
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[AutoInterface(peer_timeout_s=4)], loop=one) as alice,
            Node(interfaces=[AutoInterface()], loop=other) as bob,
        ):
            lost = alice.events(PeerLost)
            async with asyncio.timeout(PATIENCE):
                while not await alice.interfaces()[0].peers():
                    await asyncio.sleep(0.02)
            for end in ("to_a", "to_b"):
                net.middle.ip("link", "set", end, "nomaster")  # the carriers stay
            # Well before the 22 s that are usual.
            assert (await lost.get(timeout=18)).interface == alice.interfaces()[0].id
            assert not bob.closed


async def test_no_more_peers_are_taken_than_may_be(net: Network) -> None:
    net.cable(net.b, "eth1", "to_b2")
    net.middle.ip("link", "set", "to_b2", "master", "bridge")
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[AutoInterface(peers_max=1)], loop=one) as alice,
            Node(interfaces=[AutoInterface()], loop=other),
        ):
            interface = alice.interfaces()[0]
            async with asyncio.timeout(PATIENCE):
                while not (info := await interface.info()).refused:
                    await asyncio.sleep(0.02)
            assert len(await interface.peers()) == 1
            assert info.refusals == {"limit": info.refused}


async def test_a_peer_has_the_options_of_its_interface(net: Network) -> None:
    options = {name: value for name, (value, _, _) in TOLD.items()}
    ours = AutoInterface(label="ours", **CODE, **options)
    with net.a.loop() as one, net.b.loop() as other:
        async with (
            Node(interfaces=[ours], loop=one, transport=True) as alice,
            Node(interfaces=[AutoInterface()], loop=other),
        ):
            async with asyncio.timeout(PATIENCE):
                while not (peers := await alice.interfaces()[0].peers()):
                    await asyncio.sleep(0.02)
            assert TOLD.keys() | ELSEWHERE == COMMON
            for name, (_, field, expected) in TOLD.items():
                assert getattr(peers[0], field) == expected, name
            assert peers[0].ifac_size == 12


# ------------------------------------------------------------------------------ UDP


async def announced(node: Node) -> None:
    """Something goes out."""
    local = await node.listen("test.options")
    await local.announce()
    await local.close()


class Plain:
    """A socket of a host."""

    def __init__(self, host: Namespace, address: str, port: int) -> None:
        with host.inside():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self.socket.bind((address, port))
        self.socket.settimeout(PATIENCE)

    def __enter__(self) -> socket.socket:
        return self.socket

    def __exit__(self, *_: object) -> None:
        self.socket.close()


async def heard(node: Node, count: int) -> None:
    """So many bytes have come in."""
    async with asyncio.timeout(PATIENCE):
        while (await node.interfaces()[0].info()).wire_rx_bytes < count:
            await asyncio.sleep(0.01)


UDP_CASES: dict[str, tuple[dict[str, Any], tuple[str, int] | None, tuple[str, int] | None]] = {
    "listen_host": ({"listen_host": "10.9.0.1", "listen_port": 11}, ("10.9.0.1", 11), None),
    "listen_port": ({"listen_host": "0.0.0.0", "listen_port": 12}, ("0.0.0.0", 12), None),
    "forward_host": (
        {"forward_host": "10.9.0.2", "forward_port": 13},
        None,
        ("10.9.0.2", 13),
    ),
    "forward_port": (
        {"listen_host": "10.9.0.1", "port": 14, "forward_host": "10.9.0.2", "forward_port": 15},
        ("10.9.0.1", 14),
        ("10.9.0.2", 15),
    ),
    "port": (
        {"listen_host": "10.9.0.1", "forward_host": "10.9.0.2", "port": 16},
        ("10.9.0.1", 16),
        ("10.9.0.2", 16),
    ),
    "device": ({"device": "eth0", "port": 17}, ("10.9.0.255", 17), ("10.9.0.255", 17)),
}
"""What is given, where it listens, and where datagrams go to."""


async def test_every_option_of_udp_is_looked_at() -> None:
    assert own(UDP) == set(UDP_CASES)


@pytest.mark.parametrize("case", UDP_CASES)
async def test_datagrams_go_where_options_say(net: Network, case: str) -> None:
    options, listens, forwards = UDP_CASES[case]
    with net.a.loop() as loop:
        async with Node(interfaces=[UDP(**options)], loop=loop, shared_instance=False) as node:
            info = await node.interfaces()[0].info()
            if listens is not None:
                assert info.port == listens[1]
                to = "10.9.0.1" if listens[0] == "0.0.0.0" else listens[0]
                with Plain(net.b, "10.9.0.2", 99) as plain:
                    plain.sendto(b"x" * 40, (to, listens[1]))
                    await heard(node, 40)
            if forwards is not None:
                with Plain(net.b, forwards[0], forwards[1]) as plain:
                    await announced(node)
                    data, (source, port) = await asyncio.to_thread(plain.recvfrom, 2000)
                    assert len(data) > 100
                    assert (source, port != info.port) == ("10.9.0.1", True)


async def test_an_interface_of_udp_has_the_common_options(net: Network) -> None:
    options = {name: value for name, (value, _, _) in TOLD.items()}
    ours = UDP("10.9.0.1", 18, forward_host="10.9.0.2", forward_port=18, **CODE, **options)
    with net.a.loop() as loop:
        async with Node(interfaces=[ours], loop=loop, transport=True) as node:
            info = await node.interfaces()[0].info()
            for name, (_, field, expected) in TOLD.items():
                assert getattr(info, field) == expected, name
            assert info.ifac_size == 12


@pytest.mark.parametrize("way", ["receives", "sends"])
async def test_a_direction_of_udp_can_be_closed(net: Network, way: str) -> None:
    options = {"forward_host": "10.9.0.2", "forward_port": 20, way: False}
    with net.a.loop() as one, net.b.loop() as other:
        closed = UDP("10.9.0.1", 19, **options)
        far = UDP("10.9.0.2", 20, forward_host="10.9.0.1", forward_port=19)
        async with (
            Node(interfaces=[closed], loop=one) as alice,
            Node(interfaces=[far], loop=other) as bob,
        ):
            sender, receiver = (alice, bob) if way == "receives" else (bob, alice)
            heard_there = receiver.announces("test.options")
            heard_here = sender.announces("test.options")
            await announced(sender)
            await heard_there.get(timeout=PATIENCE)
            if way == "receives":
                await announced(receiver)
            with pytest.raises(TimeoutError):
                await heard_here.get(timeout=0.3)
