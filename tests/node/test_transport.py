"""A live node that carries other people's traffic, and its tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from netmesh import DestinationHash, Node
from netmesh.errors import NotFoundError
from netmesh.interfaces import TCPClient, TCPServer
from netmesh.transport import (
    AlternativeRecord,
    ControlRecord,
    PassedRequestRecord,
    RateRecord,
    RebroadcastRecord,
    ReverseRecord,
    TransitRecord,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

HERE = DestinationHash(bytes(range(16)))
PATIENCE = 30.0


async def test_a_node_s_transport_tables_are_read_edited_and_loaded() -> None:
    """N8, E4, E5: the tables of a transport node, live."""
    async with Node(transport=True, shared_instance=False) as node:
        server = await node.add_interface(TCPServer("127.0.0.1"))
        now = (await node.snapshot()).taken_s
        flight = PassedRequestRecord(destination=HERE, since_s=now - 1)
        await node.put_transport_record(flight)
        (found,) = await node.transport_records(PassedRequestRecord)
        assert replace(found, since_unix_s=0.0) == flight
        way = ReverseRecord(packet=bytes(16), received=server.id, out=server.id, at_s=now)
        await node.put_transport_record(way)
        assert [each.packet for each in await node.transport_records(ReverseRecord)] == [bytes(16)]
        taken = await node.snapshot()
        assert {type(each) for each in taken.transport} == {PassedRequestRecord, ReverseRecord}
        await node.drop_transport_record(way)
        assert await node.transport_records(ReverseRecord) == []
        await node.load(taken)
        assert [each.packet for each in await node.transport_records(ReverseRecord)] == [bytes(16)]
        await node.drop_transport_record(way)
        with pytest.raises(NotFoundError):
            await node.drop_transport_record(way)
        with pytest.raises(ValueError, match="no table"):
            await node.transport_records(int)  # type: ignore[type-var]


async def test_a_link_between_two_nodes_passes_a_third() -> None:
    """N1, E4: what a transport node knows of the link that it carries."""
    async with (
        Node(transport=True, shared_instance=False) as hub,
        Node(shared_instance=False) as west,
        Node(shared_instance=False) as east,
    ):
        server = await hub.add_interface(TCPServer("127.0.0.1"))
        await west.add_interface(TCPClient("127.0.0.1", server.port))
        await east.add_interface(TCPClient("127.0.0.1", server.port))
        echo = await east.listen("test.echo", resources="all")
        await echo.add_handler("/echo", lambda request: request.data)
        await echo.announce()
        async with await west.connect(echo.hash, timeout=PATIENCE) as link:
            assert (await link.request("/echo", b"over", timeout=PATIENCE)).data == b"over"
            assert await west.hops(echo.hash) == 2
            (transit,) = await hub.transport_records(TransitRecord)
            assert transit.validated
            assert (transit.destination, transit.remaining, transit.taken) == (echo.hash, 1, 1)
            rates = await hub.transport_records(RateRecord)
            assert [each.destination for each in rates] == [echo.hash]
            assert all(
                each.destination == echo.hash
                for each in await hub.transport_records(RebroadcastRecord)
            )
            assert hub.stats().engine.forwarded > 0


async def test_a_table_longer_than_a_page_is_read_whole() -> None:
    """E4, N8: pages follow each other by the key of the last record."""
    async with Node(transport=True, shared_instance=False) as node:
        now = (await node.snapshot()).taken_s
        given = {
            DestinationHash(number.to_bytes(16, "big")): now - number / 1000
            for number in range(1, 1101)
        }
        for destination, since_s in given.items():
            await node.put_transport_record(
                PassedRequestRecord(destination=destination, since_s=since_s)
            )
        found = await node.transport_records(PassedRequestRecord)
        assert len(found) == len(given)
        assert {each.destination for each in found} == given.keys()


async def test_alternatives_and_bursts_are_seen_and_made_live() -> None:
    """E4, E5, F12: the state of a hub's paths and interfaces."""
    async with (
        Node(transport=True, shared_instance=False) as hub,
        Node(shared_instance=False) as west,
    ):
        server = await hub.add_interface(TCPServer("127.0.0.1"))
        await west.add_interface(TCPClient("127.0.0.1", server.port))
        echo = await west.listen("test.echo")
        path = await hub.path(echo.hash, timeout=PATIENCE)
        way = AlternativeRecord(
            destination=echo.hash, next_hop=bytes(range(16)), interface=path.interface, hops=4
        )
        way = replace(way, heard_s=(await hub.snapshot()).taken_s)
        await hub.put_transport_record(way)
        (found,) = await hub.transport_records(AlternativeRecord)
        assert (found.next_hop, found.hops) == (bytes(range(16)), 4)
        await hub.mark_path(echo.hash, responsive=False)
        (left,) = await hub.transport_records(AlternativeRecord)
        assert (left.next_hop, left.hops) == (bytes(echo.hash), 1)
        await hub.put_transport_record(ControlRecord(interface=server.id, announce_burst=True))
        bursts = await hub.transport_records(ControlRecord)
        assert [each.interface for each in bursts if each.announce_burst] == [server.id]
