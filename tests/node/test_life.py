"""A node's life: storage, reconnection, many at once, user-written interfaces, streams."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from typing import Any

import pytest

from netmesh import Node, errors, sync
from netmesh.channels import RawMessage
from netmesh.events import InterfaceChanged, PacketReceived
from netmesh.interfaces import CustomInterface, InterfaceTrouble, Pipe, TCPClient, TCPServer
from netmesh.loop import default_loop
from netmesh.messaging import MessageReceived
from node.nodes import NAME, PATIENCE, joined, linked, over_tcp, soon, until


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.asyncio
async def test_many_nodes_cost_one_thread_and_leak_nothing() -> None:
    async with Node(shared_instance=False):
        pass
    gc.collect()
    before, threads = descriptors(), threading.active_count()
    for _ in range(5):
        nodes = [Node(shared_instance=False) for _ in range(40)]
        await asyncio.gather(*(node.start() for node in nodes))
        assert nodes[0].loop is nodes[-1].loop
        assert default_loop().stats().workers <= 1
        await asyncio.gather(*(node.close() for node in nodes))
        assert all(node.closed for node in nodes)
        del nodes
    gc.collect()
    assert descriptors() == before
    assert threading.active_count() == threads


@pytest.mark.asyncio
async def test_identity_paths_and_keys_survive_a_restart(tmp_path: Any) -> None:
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as bob:
        port = bob.interfaces()[0].port
        assert port
        echo = await bob.listen(NAME, app_data=b"Bob")
        client = TCPClient("127.0.0.1", port)
        async with Node(interfaces=[client], storage=tmp_path) as alice:
            await alice.path(echo.hash, timeout=PATIENCE)
            who = alice.identity
            with pytest.raises(errors.StateError):
                await Node(storage=tmp_path, shared_instance=False).start()
        async with Node(interfaces=[client], storage=tmp_path) as again:
            assert again.identity == who
            found = await again.recall(echo.hash)
            assert found is not None
            assert found.app_data == b"Bob"
            await again.interfaces()[0].wait_online(timeout=PATIENCE)
            assert await again.hops(echo.hash) == 1


@pytest.mark.asyncio
async def test_a_client_connects_again_when_its_server_is_back() -> None:
    server = Node(interfaces=[TCPServer("127.0.0.1")])
    await server.start()
    port = server.interfaces()[0].port
    assert port
    async with Node(interfaces=[TCPClient("127.0.0.1", port)]) as client:
        interface = client.interfaces()[0]
        await interface.wait_online(timeout=PATIENCE)
        async with client.events(InterfaceTrouble) as troubles:
            await server.close()
            assert (await troubles.get(timeout=PATIENCE)).interface == interface.id
        await until(lambda: not interface.online)
        async with Node(interfaces=[TCPServer("127.0.0.1", port)]):
            await interface.wait_online(timeout=PATIENCE)


@pytest.mark.asyncio
async def test_a_port_in_use_is_an_interface_error() -> None:
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as node:
        port = node.interfaces()[0].port
        assert port
        with pytest.raises(errors.InterfaceError) as caught:
            await node.add_interface(TCPServer("127.0.0.1", port, label="second"))
        assert caught.value.interface == "second"
        assert caught.value.os_error
        assert len(node.interfaces()) == 1


class Wire(CustomInterface):
    """Two of them carry each other's frames."""

    peer: Wire
    broken = False

    async def send(self, frame: bytes) -> None:
        if self.broken:
            raise OSError("the wire is cut")
        self.peer.received(frame)


@pytest.mark.asyncio
async def test_a_user_written_interface_that_fails_disturbs_nothing_else() -> None:
    first, second = Wire("first"), Wire("second")
    first.peer, second.peer = second, first
    left, right = Pipe.pair()
    async with Node(interfaces=[first]) as alice, Node(interfaces=[second, left]) as bob:
        echo = await bob.listen(NAME)
        assert (await alice.path(echo.hash, timeout=PATIENCE)).hops == 1
        second.broken = True
        async with bob.events(InterfaceTrouble) as troubles:
            await echo.announce()
            trouble = await troubles.get(timeout=PATIENCE)
        assert isinstance(trouble.error, OSError)
        assert (await bob.interfaces()[0].info()).paused
        async with Node(interfaces=[right]) as carol:
            assert (await carol.path(echo.hash, timeout=PATIENCE)).hops == 1


@pytest.mark.asyncio
async def test_interfaces_pause_resume_and_go() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME)
        interface = alice.interfaces()[0]
        await interface.pause()
        with pytest.raises(errors.PathError):
            await alice.path(echo.hash, timeout=0.2)
        await interface.resume()
        await alice.path(echo.hash, timeout=PATIENCE)
        await interface.remove()
        assert alice.interfaces() == []
        assert not interface.online
        with pytest.raises(errors.NotFoundError):
            await interface.info()


@pytest.mark.asyncio
async def test_every_subscriber_gets_every_event() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="all")
        await alice.path(echo.hash, timeout=PATIENCE)
        async with bob.events(PacketReceived) as one, bob.events() as all_:
            await soon(await alice.send(echo.hash, b"x"))
            assert (await one.get(timeout=PATIENCE)).data == b"x"
            async for event in all_:
                if isinstance(event, PacketReceived):
                    break
        assert one.closed
        stream = bob.events(InterfaceChanged, buffer=1)
        for _ in range(3):
            await bob.interfaces()[0].change(gravity=1)
        assert len(stream) <= 1


@pytest.mark.asyncio
async def test_an_inbox_that_nobody_reads_makes_its_peer_wait_and_loses_nothing() -> None:
    async with linked(prove="all") as (link, other, _):
        proven = 0
        for _ in range(40):
            receipts = [await link.send(b"x", timeout=0.5) for _ in range(10)]
            ended = await asyncio.gather(*(r.wait() for r in receipts), return_exceptions=True)
            proven += sum(not isinstance(each, Exception) for each in ended)
            if other.packets.paused:
                break
        assert other.packets.paused
        assert len(other.packets) >= proven >= 200
        while other.packets.get_nowait() is not None:
            pass
        await soon(await link.send(b"again"))


@pytest.mark.asyncio
async def test_cancelling_a_wait_ends_what_it_waited_for() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="none", resources=lambda _: asyncio.sleep(60))
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        receipt = await link.send(b"x", timeout=60)
        transfer = await link.start_file(b"x" * 1000)
        waits: list[Any] = [
            alice.path(bytes(16), timeout=60),
            alice.connect(bytes(16), timeout=60),
            link.request("/nobody", timeout=60),
            receipt.wait(),
            transfer._result(),
            echo.packets.get(),
            link.wait_identified(),
            link.wait_closed(),
        ]
        tasks = [asyncio.ensure_future(each) for each in waits]
        await until(lambda: alice.stats().engine.operations >= 4)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
        await until(lambda: receipt.done and transfer.done)
        await until(lambda: alice.stats().engine.operations == 0)


@pytest.mark.asyncio
async def test_closing_the_node_ends_every_wait() -> None:
    async with Node(shared_instance=False) as node:
        waits = [asyncio.ensure_future(node.path(bytes(16), timeout=60))]
        stream = node.events(PacketReceived)
        reader = asyncio.ensure_future(stream.get())
        await until(lambda: node.stats().engine.operations == 1)
    ended = await asyncio.gather(*waits, reader, return_exceptions=True)
    assert all(isinstance(each, errors.NetmeshError) for each in ended)
    with pytest.raises(errors.StateError):
        await node.hops(bytes(16))


@pytest.mark.asyncio
async def test_a_tap_sees_frames_in_both_directions() -> None:
    async with over_tcp() as (alice, bob):
        echo = await bob.listen(NAME)
        async with alice.tap() as frames:
            await alice.path(echo.hash, timeout=PATIENCE)
            seen = [await frames.get(timeout=PATIENCE) for _ in range(2)]
        assert {frame.incoming for frame in seen} == {True, False}
        assert await alice.feed(alice.interfaces()[0].id, seen[1].data)


# --------------------------------------------------------------------------- messages


@pytest.mark.asyncio
@pytest.mark.parametrize(("size", "method"), [(100, "OPPORTUNISTIC"), (5000, "DIRECT")])
async def test_messages_go_by_packet_or_link_and_are_verified(size: int, method: str) -> None:
    async with joined() as (alice, bob):
        outbox = await alice.lxmf(display_name="Alice")
        inbox = await bob.lxmf(display_name="Bob")
        async with bob.events(MessageReceived) as events:
            sent = await outbox.send(
                inbox.hash, "x" * size, title="t", fields={1: b"f"}, timeout=PATIENCE
            )
            received = await inbox.get(timeout=PATIENCE)
            assert (await events.get(timeout=PATIENCE)).id == received.id
        assert received.id == sent.id
        assert (sent.method.name, received.method.name) == (method, method)
        assert (received.content, received.title) == ("x" * size, "t")
        assert received.fields == {1: b"f"}
        assert received.verified
        assert received.source == outbox.hash


@pytest.mark.asyncio
async def test_stamps_are_made_and_checked_when_asked_for() -> None:
    async with joined() as (alice, bob):
        outbox = await alice.lxmf()
        inbox = await bob.lxmf(stamp_cost=4, enforce_stamps=True)
        await outbox.send(inbox.hash, "worthless", timeout=PATIENCE)
        await outbox.send(inbox.hash, "stamped", stamp_cost="announced", timeout=PATIENCE)
        received = await inbox.get(timeout=PATIENCE)
        assert (received.content, received.stamp_valid) == ("stamped", True)
        assert inbox.dropped == {"stamp": 1}


def test_scripts_need_no_asyncio() -> None:
    left, right = Pipe.pair()
    with sync.Node(interfaces=[left]) as alice, sync.Node(interfaces=[right]) as bob:
        echo = bob.listen(NAME, prove="all", resources="all")
        echo.add_handler("/upper", lambda request: request.data.upper())
        with alice.connect(echo.hash, timeout=PATIENCE) as link:
            other = echo.accept_link(timeout=PATIENCE)
            assert link.request("/upper", "a", timeout=PATIENCE).data == "A"
            assert link.send(b"x").wait(timeout=PATIENCE).ok
            assert other.packets.get(timeout=PATIENCE).data == b"x"
            assert link.send_file(b"file").ok
            assert other.receive_file(timeout=PATIENCE).data == b"file"
        assert alice.run(alice.asyncio_node.hops(echo.hash)) == 1
    with pytest.raises(errors.StateError):
        alice.listen(NAME)


def test_scripts_have_channels_and_streams() -> None:
    left, right = Pipe.pair()
    with sync.Node(interfaces=[left]) as alice, sync.Node(interfaces=[right]) as bob:
        echo = bob.listen(NAME, channels=True)
        with alice.connect(echo.hash, timeout=PATIENCE) as link:
            other = echo.accept_link(timeout=PATIENCE)
            here, there = link.channel(), other.channel()
            for number in range(20):
                delivery = here.send(RawMessage(number, b"x"), timeout=PATIENCE)
                assert there.get(timeout=PATIENCE) == RawMessage(number, b"x")
            assert delivery.wait(timeout=PATIENCE).sequence == 19
            assert delivery.done
            assert there.try_send(RawMessage(1, b"back"))
            there.drain(timeout=PATIENCE)
            assert here.get(timeout=PATIENCE).data == b"back"
            assert here.info().next_tx == 20
            with link.open_stream(1, 2) as near, other.open_stream(2, 1) as far:
                near.write(b"one\ntwo\nthree", timeout=PATIENCE)
                near.write_eof()
                assert far.readline(timeout=PATIENCE) == b"one\n"
                assert list(far) == [b"two\n", b"three"]
                far.write(b"12345")
                assert near.readexactly(2, timeout=PATIENCE) == b"12"
                far.close(timeout=PATIENCE)
                assert near.read(timeout=PATIENCE) == b"345"
        assert list(there) == []
        with pytest.raises(errors.ChannelClosedError):
            here.send(RawMessage(1, b""))
