"""Two nodes: announces, paths, packets with proofs, links, requests, files."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from netmesh import Node, errors
from netmesh.constants import DestinationType, LinkState, PathState, ReceiptState
from netmesh.destinations import NO_RESPONSE, FileResponse, IncomingRequest
from netmesh.events import LinkPacketReceived, PacketReceived
from netmesh.records import CloseReason
from node.nodes import NAME, PATIENCE, identity, joined, linked, over_tcp, soon, until

pytestmark = pytest.mark.asyncio

JOINS = {"pipe": joined, "tcp": over_tcp}


@pytest.fixture(params=JOINS)
def join(request: pytest.FixtureRequest) -> Any:
    """How the two nodes are joined."""
    return JOINS[request.param]


def opened(join: Any) -> AbstractAsyncContextManager[tuple[Node, Node]]:
    return join()


async def test_an_announce_is_heard_with_all_that_applications_want(join: Any) -> None:
    async with opened(join) as (alice, bob):
        heard = alice.announces(NAME)
        everything = alice.announces()
        other = alice.announces("test.other")
        echo = await bob.listen(NAME, app_data=b"Bob")
        sent = await soon(echo.announce())
        assert sent.ok
        announce = await heard.get(timeout=PATIENCE)
        assert announce.destination == echo.hash
        assert announce.identity == bob.identity.hash
        assert announce.public_key == bob.identity.public_key
        assert announce.app_data == b"Bob"
        assert announce.hops == 1
        assert announce.interface == alice.interfaces()[0].id
        assert not announce.path_response
        assert announce.ratchet_id is None
        assert (await everything.get(timeout=PATIENCE)).destination == echo.hash
        assert other.get_nowait() is None
        await soon(echo.announce(b"changed"))
        assert (await heard.get(timeout=PATIENCE)).app_data == b"changed"


async def test_path_identity_and_app_data_are_recalled(join: Any) -> None:
    async with opened(join) as (alice, bob):
        echo = await bob.listen(NAME, app_data="Bob")
        path = await alice.path(echo.hash, timeout=PATIENCE)
        assert (path.hops, path.state) == (1, PathState.UNKNOWN)
        assert await alice.has_path(echo.hash)
        found = await alice.recall(echo.hash)
        assert found is not None
        assert found.identity == bob.identity.public_only()
        assert found.app_data == b"Bob"
        again = await alice.recall(bob.identity.hash)
        assert again is not None
        assert again.identity == found.identity
        assert await alice.recall(bytes(16)) is None
        await alice.remember(bytes(16), identity(9), b"")
        empty = await alice.recall(bytes(16))
        assert empty is not None
        assert (empty.identity, empty.app_data) == (identity(9).public_only(), b"")


async def test_a_packet_is_delivered_and_proven(join: Any) -> None:
    async with opened(join) as (alice, bob):
        echo = await bob.listen(NAME, prove="all")
        await alice.path(echo.hash, timeout=PATIENCE)
        receipt = await alice.send(echo.hash, b"hello")
        done = await soon(receipt)
        assert done.state is ReceiptState.DELIVERED
        assert receipt.done
        assert receipt.packet_hash == done.packet_hash
        packet = await echo.packets.get(timeout=PATIENCE)
        assert isinstance(packet, PacketReceived)
        assert (packet.data, packet.destination, packet.hops) == (b"hello", echo.hash, 1)
        assert packet.packet_hash == receipt.packet_hash


async def test_a_link_carries_packets_requests_and_files(join: Any) -> None:
    async with opened(join) as (alice, bob):
        echo = await bob.listen(NAME, prove="all", resources="all")
        await echo.add_handler("/upper", lambda request: request.data.upper())
        async with await alice.connect(echo.hash, timeout=PATIENCE) as link:
            other = await echo.links.get(timeout=PATIENCE)
            assert (link.initiator, other.initiator) == (True, False)
            assert link.link_id == other.link_id
            assert link.remote_identity == bob.identity.hash
            await soon(await link.send("over the link"))
            packet = await other.packets.get(timeout=PATIENCE)
            assert isinstance(packet, LinkPacketReceived)
            assert packet.data == b"over the link"
            await other.send(b"and back", proof=False)
            assert (await link.packets.get(timeout=PATIENCE)).data == b"and back"
            assert (await link.request("/upper", "hello", timeout=PATIENCE)).data == "HELLO"
            await soon(link.send_file(b"content" * 1000, metadata={"n": 1}))
            received = await other.receive_file(timeout=PATIENCE)
            assert (received.data, received.metadata) == (b"content" * 1000, {"n": 1})
        assert link.reason is CloseReason.INITIATOR
        assert await other.wait_closed(timeout=PATIENCE) is CloseReason.INITIATOR
        assert (await link.info()).state is LinkState.CLOSED


async def test_group_and_plain_packets_reach_the_neighbour() -> None:
    async with joined() as (alice, bob):
        key = bytes(range(32))
        group = await bob.listen(NAME, type=DestinationType.GROUP, group_key=key)
        plain = await bob.listen("test.plain", type=DestinationType.PLAIN)
        await alice.send(
            group.hash, b"shared", type=DestinationType.GROUP, group_key=key, proof=False
        )
        await alice.send(plain.hash, b"open", type=DestinationType.PLAIN, proof=False)
        assert (await group.packets.get(timeout=PATIENCE)).data == b"shared"
        assert (await plain.packets.get(timeout=PATIENCE)).data == b"open"
        with pytest.raises(ValueError, match="never proven"):
            await alice.send(plain.hash, b"open", type=DestinationType.PLAIN)


async def test_ratchets_open_what_is_sent_and_are_told() -> None:
    async with joined() as (alice, bob):
        heard = alice.announces(NAME)
        echo = await bob.listen(NAME, prove="all", ratchets=True, enforce_ratchets=True)
        await soon(echo.announce())
        announce = await heard.get(timeout=PATIENCE)
        record = await echo.ratchets()
        assert record.enabled
        assert record.enforced
        assert announce.ratchet_id == record.current
        assert await alice.ratchet_of(echo.hash) is not None
        await soon(await alice.send(echo.hash, b"forward secret"))
        assert (await echo.packets.get(timeout=PATIENCE)).ratchet_id == record.current
        await echo.rotate()
        await soon(echo.announce())
        await heard.get(timeout=PATIENCE)
        again = await echo.ratchets()
        assert again.previous == record.current
        assert len(await echo.ratchet_file()) > 64


# ------------------------------------------------------------------------- handlers


async def test_handlers_get_who_asks_and_answer_in_every_form() -> None:
    async with linked() as (link, other, echo):
        asked: list[IncomingRequest] = []

        @echo.handle("/plain")
        def plain(request: IncomingRequest) -> Any:
            asked.append(request)
            return {"sum": sum(request.data), 7: None}

        @echo.handle("/async")
        async def later(request: IncomingRequest) -> Any:
            await asyncio.sleep(0)
            return [request.path, request.identity]

        await echo.add_handler("/nil", lambda request: None)
        await echo.add_handler("/file", lambda request: FileResponse(b"x" * 70000, {"a": b"b"}))
        await link.identify(identity(9))
        await other.wait_identified(timeout=PATIENCE)
        answer = await link.request("/plain", [1, 2, 3], timeout=PATIENCE)
        assert answer.data == {"sum": 6, 7: None}
        assert asked[0].data == [1, 2, 3]
        assert asked[0].identity == identity(9).hash
        assert asked[0].link is other
        assert asked[0].destination is echo
        assert asked[0].request_id == answer.request_id
        assert (await link.request("/async", timeout=PATIENCE)).data == [
            "/async",
            bytes(identity(9).hash),
        ]
        assert (await link.request("/nil", timeout=PATIENCE)).data is None
        steps: list[float] = []
        file = await link.request(
            "/file", timeout=PATIENCE, progress=lambda made: steps.append(made.fraction)
        )
        assert (file.data, file.metadata) == (b"x" * 70000, {"a": b"b"})
        assert steps == sorted(steps)


async def test_a_path_can_be_sent_as_answer(tmp_path: Any) -> None:
    (tmp_path / "page.mu").write_bytes(b"> Title")
    async with linked() as (link, _, echo):
        await echo.add_handler("/page", lambda _: FileResponse(tmp_path / "page.mu"))
        answer = await link.request("/page", timeout=PATIENCE)
        assert (answer.data, answer.metadata) == (b"> Title", {"name": b"page.mu"})


async def test_only_those_allowed_are_answered() -> None:
    async with linked() as (link, other, echo):
        await echo.add_handler("/none", lambda _: 1, allow="none")
        await echo.add_handler("/list", lambda _: 2, allow=[identity(9).hash])
        for path in ("/none", "/list"):
            with pytest.raises(errors.RequestError) as caught:
                await link.request(path, timeout=0.2)
            assert (caught.value.stage, caught.value.reason) == ("REQUEST", "TIMEOUT")
            assert caught.value.path == path
        await link.identify(identity(9))
        await other.wait_identified(timeout=PATIENCE)
        assert (await link.request("/list", timeout=PATIENCE)).data == 2
        await echo.remove_handler("/list")
        with pytest.raises(errors.RequestError):
            await link.request("/list", timeout=0.2)


async def test_a_handler_that_fails_or_is_slow_gives_no_answer() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with linked() as (link, _, echo):

        async def slow(request: IncomingRequest) -> Any:
            await asyncio.Event().wait()

        await echo.add_handler("/raises", lambda request: 1 // 0)
        await echo.add_handler("/slow", slow, timeout=0.01)
        await echo.add_handler("/silent", lambda request: NO_RESPONSE)
        await echo.add_handler("/unpackable", lambda request: object())
        await echo.add_handler("/works", lambda request: "still")
        for path in ("/raises", "/slow", "/silent", "/unpackable"):
            with pytest.raises(errors.RequestError) as caught:
                await link.request(path, timeout=0.3)
            assert caught.value.stage == "REQUEST"
        assert (await link.request("/works", timeout=PATIENCE)).data == "still"
        kinds = [type(context["exception"]) for context in told]
        assert kinds == [ZeroDivisionError, TimeoutError, TypeError]


async def test_a_peer_that_packs_nonsense_gets_no_answer() -> None:
    async with linked() as (link, _, echo):
        await echo.add_handler("/echo", lambda request: request.data)
        with pytest.raises(errors.RequestError):
            await link.request("/echo", packed=b"\xc1", timeout=0.3)
        assert (await link.request("/echo", 1, timeout=PATIENCE)).data == 1


# --------------------------------------------------------------------------- packets


async def test_callables_take_packets_and_links_in_place_of_queues() -> None:
    async with joined() as (alice, bob):
        got: list[Any] = []

        async def on_packet(packet: PacketReceived) -> None:
            await asyncio.sleep(0)
            got.append(packet.data)

        echo = await bob.listen(
            NAME,
            prove="all",
            on_packet=on_packet,
            on_link=lambda link: got.append(link.destination),
            on_link_packet=lambda link, packet: got.append((link.initiator, packet.data)),
        )
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        await soon(await alice.send(echo.hash, b"one"))
        await soon(await link.send(b"two"))
        await until(lambda: len(got) == 3)
        assert echo.hash in got
        assert b"one" in got
        assert (False, b"two") in got
        assert len(echo.packets) == len(echo.links) == 0
        assert len(echo.open_links) == 1


async def test_a_callable_decides_which_packets_are_proven() -> None:
    async with joined() as (alice, bob):

        async def wanted(packet: Any) -> bool:
            return bool(packet.data == b"yes")

        echo = await bob.listen(NAME, prove=wanted)
        await alice.path(echo.hash, timeout=PATIENCE)
        yes = await alice.send(echo.hash, b"yes")
        no = await alice.send(echo.hash, b"no", timeout=0.3)
        assert (await soon(yes)).ok
        with pytest.raises(errors.ProofError) as caught:
            await soon(no)
        assert (caught.value.stage, caught.value.reason) == ("PROOF", "TIMEOUT")
        assert caught.value.destination == echo.hash


async def test_a_held_packet_is_proven_when_its_token_is_accepted() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="all", hold=True)
        await alice.path(echo.hash, timeout=PATIENCE)
        receipt = await alice.send(echo.hash, b"durable first")
        packet = await echo.packets.get(timeout=PATIENCE)
        assert packet.token is not None
        assert not receipt.done
        await bob.accept(packet.token)
        assert (await soon(receipt)).ok
        with pytest.raises(errors.StateError):
            await bob.refuse(packet.token)
        await echo.set_prove("none")
        other = await alice.send(echo.hash, b"nothing", timeout=0.2)
        with pytest.raises(errors.ProofError):
            await soon(other)


# ------------------------------------------------------------------------- transfers


async def test_a_transfer_is_watched_refused_and_cancelled() -> None:
    async with joined() as (alice, bob):
        offers: list[Any] = []

        def decide(offer: Any) -> bool:
            offers.append((offer.size_bytes, offer.advertisement.has_metadata))
            return bool(offer.size_bytes > 1000)

        echo = await bob.listen(NAME, resources=decide)
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        other = await echo.links.get(timeout=PATIENCE)
        with pytest.raises(errors.RefusedError) as caught:
            await soon(link.send_file(b"small"))
        assert caught.value.stage == "REFUSED"
        steps: list[float] = []
        transfer = await link.start_file(
            b"z" * 300_000,
            metadata=[1],
            compression="off",
            progress=lambda made: steps.append(made.fraction),
        )
        sent = await soon(transfer)
        assert sent.done_bytes == sent.total_bytes == 300_000
        assert transfer.done
        assert steps == sorted(steps)
        assert offers == [(5, False), (300_005, True)]  # the metadata counts
        assert len((await other.receive_file(timeout=PATIENCE)).data) == 300_000
        second = await link.start_file(b"q" * 900_000, compression="off")
        assert (await second.info()).outgoing
        second.cancel()
        with pytest.raises(errors.TransferError) as cancelled:
            await soon(second)
        assert (cancelled.value.stage, cancelled.value.reason) == ("CANCELLED", "CANCELLED")


async def test_files_are_sent_and_received_by_path(tmp_path: Any) -> None:
    (tmp_path / "report.txt").write_bytes(b"figures")
    (tmp_path / "in").mkdir()
    async with linked(resources="all", hold_resources=True) as (link, other, _):
        sending = asyncio.ensure_future(link.send_file(tmp_path / "report.txt"))
        received = await other.receive_file(tmp_path / "in", timeout=PATIENCE)
        assert received.path == tmp_path / "in" / "report.txt"
        assert received.path.read_bytes() == b"figures"
        assert received.name == "report.txt"
        assert (await soon(sending)).ok


async def test_the_initiator_takes_resources_when_it_says_so() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME)
        link = await alice.connect(echo.hash, timeout=PATIENCE, resources="all")
        other = await echo.links.get(timeout=PATIENCE)
        await soon(other.send_file(b"to the caller"))
        assert (await link.receive_file(timeout=PATIENCE)).data == b"to the caller"
        await link.set_resources("none")
        with pytest.raises(errors.TransferError):
            await soon(other.send_file(b"ignored", timeout=0.3))


async def test_a_decision_that_raises_is_no() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with linked(resources=lambda offer: offer.nothing) as (link, *_):
        with pytest.raises(errors.RefusedError):
            await soon(link.send_file(b"x"))


# ---------------------------------------------------------------------------- errors


async def test_each_failure_says_where_it_failed() -> None:
    async with joined() as (alice, bob):
        with pytest.raises(errors.PathError) as path:
            await alice.connect(bytes(16), timeout=0.1)
        assert (path.value.stage, path.value.reason) == ("PATH", "TIMEOUT")
        assert path.value.destination == bytes(16)
        with pytest.raises(errors.IdentityUnknownError) as unknown:
            await alice.send(bytes(16), b"x")
        assert unknown.value.stage == "IDENTITY"
        closed = await bob.listen(NAME, links=False)
        await alice.path(closed.hash, timeout=PATIENCE)
        with pytest.raises(errors.LinkError) as refused:
            await alice.connect(closed.hash, timeout=0.2)
        assert (refused.value.stage, refused.value.close_reason) == ("LINK", "TIMEOUT")
        open_ = await bob.listen("test.open")
        link = await alice.connect(open_.hash, timeout=PATIENCE)
        with pytest.raises(errors.EncodeError):
            await link.send(bytes(link.mdu + 1))
        await link.close()
        with pytest.raises(errors.LinkError):
            await link.send(b"late")
        with pytest.raises(errors.RequestError) as late:
            await link.request("/late")
        assert late.value.stage == "LINK"
        with pytest.raises(errors.LinkError):
            await link.send_file(b"late")
        with pytest.raises(errors.LinkError):
            await link.identify()


async def test_a_link_that_ends_ends_what_is_under_way() -> None:
    async with linked(prove="none", resources=lambda offer: asyncio.sleep(60)) as (link, other, _):
        request = asyncio.ensure_future(link.request("/nobody", timeout=60))
        receipt = await link.send(b"unproven", timeout=60)
        transfer = await link.start_file(b"offered")
        await until(lambda: not transfer.done)
        await other.close()
        with pytest.raises(errors.RequestError) as asked:
            await soon(request)
        assert asked.value.stage == "LINK"
        with pytest.raises(errors.LinkError):
            await soon(receipt)
        with pytest.raises(errors.LinkError):
            await soon(transfer)
        with pytest.raises(errors.StateError):
            await link.packets.get()
        with pytest.raises(errors.LinkError):
            await other.wait_identified()


async def test_an_interface_that_cannot_send_is_named_at_once() -> None:
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME)
        await alice.path(echo.hash, timeout=PATIENCE)
        interface = alice.interfaces()[0]
        await interface.change(sends=False)
        started = asyncio.get_running_loop().time()
        with pytest.raises(errors.NoRouteError) as caught:
            await alice.connect(echo.hash, timeout=PATIENCE)
        assert asyncio.get_running_loop().time() - started < 1
        assert caught.value.interface == (await interface.info()).name
        with pytest.raises(errors.NoRouteError):
            await alice.send(echo.hash, b"x")
        await interface.remove()
        with pytest.raises(errors.NoRouteError) as none:
            await alice.send(echo.hash, b"x")
        assert none.value.interface is None
