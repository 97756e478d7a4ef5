"""A connection that a server accepted goes by everything that the server was told."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any

import pytest

from netmesh import Node
from netmesh.constants import InterfaceMode
from netmesh.interfaces import InterfaceInfo, InterfaceOptions, TCPClient, TCPServer
from netmesh.records import IngressNumbers

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]

PATIENCE = 40.0
CODE = {"network_name": "club", "passphrase": "sesame", "ifac_size": 12}
TOLD: dict[str, tuple[Any, str, Any]] = {
    "mode": (InterfaceMode.ROAMING, "mode", InterfaceMode.ROAMING),
    "bitrate": (1_000_000, "bitrate", 1_000_000),
    "mtu": (900, "hw_mtu", 900),
    "receives": (False, "receives", False),
    "sends": (False, "sends", False),
    "gravity": (7, "gravity", 7),
    "announce_cap": (0.5, "announce_cap", 0.5),
    "rate_target_s": (11, "rate_target_s", 11),
    "rate_grace": (12, "rate_grace", 12),
    "rate_penalty_s": (13, "rate_penalty_s", 13),
    "ingress_control": (False, "ingress_control", False),
    "ingress": (IngressNumbers(held_max=9), "ingress", IngressNumbers(held_max=9)),
    "recursive_prs": (True, "recursive_prs", True),
    "egress_limit": (3.0, "egress_limit", 3.0),
    "announces_from_internal": (False, "announces_from_internal", False),
    "announces_to_internal": (True, "announces_to_internal", True),
}
"""For each option: a value that is not the default, and what tells it of an interface."""
ELSEWHERE = {"label", "network_name", "passphrase", "ifac_size", "ifac"} | {
    "queue_bytes",
    "queue_packets",
}
"""The server's name, the access code, tested below, and the bounds of a queue of bytes."""


async def accepted(node: Node) -> InterfaceInfo:
    """The connection that a node's server has accepted."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for info in node.interface_infos():
                if info.parent is not None:
                    return info
            await asyncio.sleep(0.02)


async def test_every_option_is_looked_at() -> None:
    assert {each.name for each in fields(InterfaceOptions)} == TOLD.keys() | ELSEWHERE


async def test_a_connection_has_the_options_of_its_server() -> None:
    """A11, A12: all of them at once, each another than the default."""
    options = {name: value for name, (value, _, _) in TOLD.items()}
    server = TCPServer("127.0.0.1", ifac_size=12, network_name="club", passphrase="x", **options)
    async with (
        Node(interfaces=[server], shared_instance=False, transport=True) as node,
        Node(shared_instance=False) as far,
    ):
        port = node.interfaces()[0].port
        assert port
        await far.add_interface(TCPClient("127.0.0.1", port))
        told = await accepted(node)
        for name, (_, field, expected) in TOLD.items():
            assert getattr(told, field) == expected, name
        assert told.ifac_size == 12


async def test_a_connection_speaks_with_the_access_code_of_its_server() -> None:
    """A12: who has it is answered, who has not is dropped."""
    async with (
        Node(interfaces=[TCPServer("127.0.0.1", **CODE)], shared_instance=False) as node,
        Node(shared_instance=False) as far,
    ):
        port = node.interfaces()[0].port
        assert port
        echo = await node.listen("test.echo", prove="all")
        await far.add_interface(TCPClient("127.0.0.1", port, **CODE))
        path = await far.path(echo.hash, timeout=PATIENCE)
        assert path.hops == 1
        receipt = await far.send(echo.hash, b"inside")
        assert receipt is not None
        assert (await receipt.wait(timeout=PATIENCE)).ok
