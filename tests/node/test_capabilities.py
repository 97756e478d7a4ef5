"""What a live node makes possible: its settings, its tables, its frames, each of its verbs."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import fields, replace
from typing import Any

import pytest

from netmesh import Identity, Node, errors
from netmesh._blackholes import entries
from netmesh.announce import Announce
from netmesh.constants import (
    Context,
    DestinationType,
    InterfaceMode,
    PacketType,
    PathState,
    ReceiptState,
)
from netmesh.destination import destination_hash
from netmesh.destinations import NO_RESPONSE, FileResponse, IncomingRequest
from netmesh.events import (
    LinkIdentified,
    PacketReceived,
    ProgressMade,
    RequestReceived,
    ResourceFailed,
    ResourceOffered,
)
from netmesh.ifac import Ifac
from netmesh.interfaces import (
    UDP,
    CustomInterface,
    InterfaceInfo,
    InterfaceOptions,
    LocalClient,
    Pipe,
    TCPClient,
    TCPServer,
)
from netmesh.packet import Packet
from netmesh.records import CloseReason, DropReason, IngressNumbers, Limits, MtuMode, PathTag
from node.nodes import NAME, PATIENCE, identity, joined, linked, over_tcp, soon, until

pytestmark = pytest.mark.asyncio


# ----------------------------------------------------------------- N1: TCP interfaces


async def test_both_ends_of_tcp_take_every_setting_and_stop_completely() -> None:
    """N1: port 0 readable, access code, mode, bitrate, fixed MTU; the port is free after."""
    options: dict[str, Any] = {
        "network_name": "club",
        "passphrase": "open sesame",
        "ifac_size": 8,
        "mode": InterfaceMode.GATEWAY,
        "bitrate": 1_000_000,
        "mtu": 1064,
    }
    async with over_tcp(options, options) as (alice, bob):
        echo = await bob.listen(NAME, prove="all")
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        assert link.mtu == 1064
        for node in (alice, bob):
            info = await node.interfaces()[0].info()
            assert (info.mode, info.bitrate, info.hw_mtu, info.ifac_size) == (
                InterfaceMode.GATEWAY,
                1_000_000,
                1064,
                8,
            )
        await until(lambda: len(bob.interface_infos()) == 2)
        child = next(each for each in bob.interface_infos() if each.parent is not None)
        assert (child.mode, child.bitrate, child.hw_mtu, child.ifac_size) == (
            InterfaceMode.GATEWAY,
            1_000_000,
            1064,
            8,
        )
        port = bob.interfaces()[0].port
        assert port
        await bob.interfaces()[0].remove()
        assert bob.interfaces() == []
        assert (await soon(link.wait_closed())) is CloseReason.IFACE_GONE
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", port))


async def test_another_passphrase_is_dropped_and_counted() -> None:
    """N1: the verdicts are in the counters of the interface."""
    async with over_tcp({"passphrase": "right"}, {"passphrase": "wrong"}) as (alice, bob):
        await alice.announce(NAME)

        def dropped() -> int:
            counts = [each.counters.drops for each in bob.interface_infos()]
            return sum(count.get(DropReason.IFAC_WRONG, 0) for count in counts)

        await until(lambda: dropped() > 0)
        assert await bob.known() == []


# --------------------------------------------------------------------- N2: settings


async def test_settings_are_told_as_resolved() -> None:
    """N2: switches, roles, limits, and the facts of each interface."""
    async with joined(
        transport=True, implicit_proofs=False, link_mtu_discovery=False, credit=77
    ) as (alice, bob):
        settings = await alice.settings()
        assert (settings.transport, settings.implicit_proofs) == (True, False)
        assert (settings.link_mtu_discovery, settings.attached) == (False, False)
        assert (settings.credit, settings.save_interval_s) == (77, 60)
        assert (settings.probes, settings.management, settings.storage) == (False, None, None)
        assert settings.decision_timeout_s == 10.0
        assert settings.identity == alice.identity.hash
        assert settings.limits.paths > 0
        echo = await bob.listen(NAME)
        await alice.path(echo.hash, timeout=PATIENCE)
        info = await alice.interfaces()[0].info()
        assert info.hw_mtu
        assert info.bitrate > 0
        assert info.wire_rx_bytes > info.counters.rx_bytes > 0
        assert info.wire_tx_bytes > info.counters.tx_bytes > 0
    async with Node(shared_instance=False, limits=Limits(paths=5)) as node:
        assert (await node.settings()).limits.paths == 5


PROPERTIES: dict[str, tuple[Any, Any]] = {
    "mode": (InterfaceMode.GATEWAY, InterfaceMode.BOUNDARY),
    "bitrate": (1_000_000, 2_000_000),
    "mtu": (1064, 2048),
    "receives": (False, True),
    "sends": (False, True),
    "gravity": (3, -2),
    "announce_cap": (0.05, 0.5),
    "rate_target_s": (3600, 60),
    "rate_grace": (2, 5),
    "rate_penalty_s": (7200, 30),
    "ingress_control": (False, True),
    "ingress": (IngressNumbers(hold_s=1.0), IngressNumbers(held_max=7, announce_rate=2.5)),
    "egress_limit": (2.0, 0.5),
    "recursive_prs": (True, False),
    "announces_from_internal": (False, True),
    "announces_to_internal": (True, False),
}
"""Two values, both other than the usual one of TCP or of each other, of each property."""


def told(info: InterfaceInfo, name: str) -> Any:
    """A property as it is read."""
    if name == "mtu":
        return info.hw_mtu if info.mtu_mode is MtuMode.FIXED else None
    return getattr(info, name)


async def test_each_property_of_an_interface_is_declared_changed_and_read() -> None:
    """E2 and N2 on a node: of a server and of its connections alike, one by one."""
    first = {name: values[0] for name, values in PROPERTIES.items()}
    async with over_tcp(server=first) as (alice, bob):
        server = bob.interfaces()[0]
        await until(lambda: len(bob.interface_infos()) == 2)
        child = (await server.peers())[0].id
        for interface in (server.id, child):
            info = await bob.interface_info(interface)
            assert {name: told(info, name) for name in PROPERTIES} == first
        expected = dict(first)
        for name, (_, second) in PROPERTIES.items():
            await server.change(**{name: second})
            expected[name] = second
            for interface in (server.id, child):
                info = await bob.interface_info(interface)
                assert {name: told(info, name) for name in PROPERTIES} == expected, name
        assert await alice.interfaces()[0].info()  # the connection outlived all that


async def test_a_change_gives_no_medium_a_way_that_it_has_not() -> None:
    """E2: who only listens or only sends by UDP still does after a change of something else."""
    listener = UDP("127.0.0.1", 0)
    async with Node(shared_instance=False, interfaces=[listener]) as node:
        interface = node.interfaces()[0]
        sender = await node.add_interface(
            UDP(forward_host="127.0.0.1", forward_port=interface.port, label="out")
        )
        for each, ways in ((interface, (True, False)), (sender, (False, True))):
            await each.change(gravity=2, receives=True, sends=True)
            info = await each.info()
            assert (info.receives, info.sends, info.gravity) == (*ways, 2)


async def test_a_udp_interface_sends_to_a_host_by_its_name() -> None:
    listener = UDP("127.0.0.1", 0)
    async with Node(shared_instance=False, interfaces=[listener]) as node:
        port = node.interfaces()[0].port
        sender = await node.add_interface(
            UDP(forward_host="localhost", forward_port=port, label="named")
        )
        await sender.wait_online(timeout=PATIENCE)
        for wrong in ("1.2.3", "::g", "with space"):
            with pytest.raises(ValueError, match="address"):
                await node.add_interface(UDP(forward_host=wrong, forward_port=1))


async def test_every_option_has_a_test_of_its_change() -> None:
    """A property that is added to the options has to be added to the test above."""
    options = {each.name for each in fields(InterfaceOptions)}
    access = {"network_name", "passphrase", "ifac_size", "ifac"}
    assert options - access - {"label", "queue_bytes", "queue_packets"} == set(PROPERTIES)


async def test_a_snapshot_has_the_interfaces_with_their_access_codes() -> None:
    """N2, E2: as those of an engine on its own."""
    code = {"network_name": "valley", "passphrase": "rain", "ifac_size": 8}
    async with over_tcp(server=code | {"gravity": 3}, client=code) as (alice, bob):
        await until(lambda: len(bob.interface_infos()) == 2)
        records = (await bob.snapshot()).interfaces
        infos = bob.interface_infos()
        assert [record.interface for record in records] == [info.id for info in infos]
        assert [record.name for record in records] == [info.name for info in infos]
        assert [record.hash for record in records] == [info.hash for info in infos]
        code_of_all = Ifac(network_name="valley", passphrase="rain", size=8)
        assert [record.ifac for record in records] == [code_of_all, code_of_all]
        assert [record.gravity for record in records] == [3, 3]
        assert [record.online for record in records] == [True, True]
        assert [record.ifac for record in await alice.interface_records()] == [code_of_all]
    async with Node(shared_instance=False, interfaces=[Silent(passphrase="x")]) as node:
        (record,) = await node.interface_records()
        assert record.ifac == Ifac(passphrase="x", size=16)


class Silent(CustomInterface):
    """Nothing leaves on it."""

    async def send(self, frame: bytes) -> None:
        pass


@pytest.mark.parametrize(("rate", "known"), [(1e6, 12), (3.0, 2)])
async def test_the_numbers_of_ingress_control_hold_on_a_node(rate: float, known: int) -> None:
    """E2 on a node: a burst above the rate that was given is held back; here nothing is held."""
    numbers = IngressNumbers(announce_rate_new=rate, held_max=0)
    wire = Silent(ingress_control=True, ingress=numbers)
    async with Node(shared_instance=False, transport=True, interfaces=[wire]) as node:
        for _ in range(12):
            wire.received(Announce.create(Identity(), NAME).raw)
        counters = (await node.interfaces()[0].info()).counters
        async with asyncio.timeout(PATIENCE):
            while counters.announces_in + sum(counters.drops.values()) < 12:
                await asyncio.sleep(0.01)
                counters = (await node.interfaces()[0].info()).counters
        assert counters.announces_in == known
        assert len(await node.paths()) == known


async def test_lists_of_blackholes_go_from_node_to_node() -> None:
    """N2: with source, time and reason; what is there stays, and its effect is at once."""
    friend, known = identity(41).hash, identity(42)
    later = time.time() + 3600
    left, right = Pipe.pair()
    async with (
        Node(shared_instance=False, interfaces=[left], publish_blackholes=True) as alice,
        Node(
            shared_instance=False,
            interfaces=[right],
            blackhole_sources=[alice.identity.hash],
            blackhole_update_s=600,
        ) as bob,
    ):
        settings = await bob.settings()
        assert settings.blackhole_sources == (alice.identity.hash,)
        assert (settings.blackhole_update_s, settings.publishes_blackholes) == (600, False)
        assert (await alice.settings()).publishes_blackholes
        await alice.blackhole(known.hash, until_unix_s=later, reason="noise")
        await alice.blackhole(friend, reason="their quarrel")
        await alice.blackhole(bob.identity.hash)
        await alice.blackhole(identity(43).hash, until_unix_s=time.time() - 1)
        await bob.blackhole(friend, reason="ours")
        inbox = await alice.listen("test.known", identity=known)
        await bob.path(inbox.hash, timeout=PATIENCE)
        assert await bob.update_blackholes(timeout=PATIENCE) == 1
        held = {record.identity: record for record in await bob.blackholes()}
        assert set(held) == {known.hash, friend}
        entry = held[known.hash]
        assert (entry.source, entry.reason) == (alice.identity.hash, "noise")
        assert entry.until_unix_s == pytest.approx(later)
        assert (held[friend].source, held[friend].reason) == (bob.identity.hash, "ours")
        assert not await bob.has_path(inbox.hash)
        assert await bob.update_blackholes(timeout=PATIENCE) == 0
    with pytest.raises(ValueError, match="120"):
        Node(blackhole_update_s=60)


async def test_a_source_that_does_not_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """N2: and holds up nothing."""
    nobody = identity(40).hash
    sources = {"blackhole_sources": [nobody]}
    async with Node(shared_instance=False, interfaces=[Silent()], **sources) as node:
        assert await node.update_blackholes(timeout=0.2) == 0
    assert f"no blackhole list from {nobody}" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {b"short": {}},
        {bytes(15): {"until": None}},
        {"text": {}},
        {bytes(16): None},
        {bytes(16): {"until": "soon"}},
        {bytes(16): {"until": 1.0}},
        {bytes(16): {"until": float("nan")}},
        {bytes(16): {"until": 1e300}},
    ],
)
async def test_a_list_of_blackholes_is_checked_entry_by_entry(content: Any) -> None:
    """N2, F9: what a source says is validated at the border."""
    assert entries(identity(1).hash, content) == []
    good = {bytes([7]) * 16: {"source": bytes(16), "until": None, "reason": "x" * 1000}}
    if isinstance(content, dict):
        (record,) = entries(identity(1).hash, content | good)
        assert (record.source, record.reason) == (identity(1).hash, "x" * 256)


async def test_implicit_proofs_are_switched_while_it_runs() -> None:
    """N2: the next proof has the other form."""
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="all")
        await alice.path(echo.hash, timeout=PATIENCE)
        for implicit in (True, False, True):
            await bob.set_implicit_proofs(implicit)
            assert (await bob.settings()).implicit_proofs is implicit
            done = await soon(await alice.send(echo.hash, b"x"))
            assert done.proof is not None
            assert len(Packet.unpack(done.proof).payload) == (64 if implicit else 96)


async def test_probes_are_answered_and_management_asks_who_it_is() -> None:
    """N2: the destinations of a node about itself, with their handlers and policies."""
    left, right = Pipe.pair()
    manager = identity(9)
    async with (
        Node(interfaces=[left]) as alice,
        Node(interfaces=[right], probes=True, management=[manager.hash]) as bob,
    ):
        settings = await bob.settings()
        assert (settings.probes, settings.management) == (True, (manager.hash,))
        probe = destination_hash(bob.identity.hash, "rnstransport.probe")
        await alice.path(probe, timeout=PATIENCE)
        assert (await soon(await alice.send(probe, bytes(16)))).ok
        own = destination_hash(bob.identity.hash, "rnstransport.remote.management")
        async with await alice.connect(own, timeout=PATIENCE) as link:
            with pytest.raises(errors.RequestError):
                await link.request("/status", [True], timeout=0.2)
            await link.identify(manager)
            status, links = (await link.request("/status", [True], timeout=PATIENCE)).data
            assert links == 1
            assert status["interfaces"][0]["status"] is True
            assert status["interfaces"][0]["rxb"] > 0
            assert status["probe_responder"] == bytes(probe)
            await bob.path(alice_echo := (await alice.listen(NAME)).hash, timeout=PATIENCE)
            table = (await link.request("/path", ["table", None, None], timeout=PATIENCE)).data
            assert [(row["hash"], row["hops"]) for row in table] == [(bytes(alice_echo), 1)]
            one = await link.request("/path", ["table", bytes(16), None], timeout=PATIENCE)
            assert one.data == []
            rates = await link.request("/path", ["rates", None], timeout=PATIENCE)
            assert rates.data == []
            with pytest.raises(errors.RequestError):
                await link.request("/path", ["drop"], timeout=0.2)


async def test_an_attached_node_answers_neither_probes_nor_management() -> None:
    """N2: the shared instance does that for the machine."""
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as instance:
        port = instance.interfaces()[0].port
        client = LocalClient(host="127.0.0.1", port=port)
        async with Node(interfaces=[client], probes=True, management=[]) as node:
            settings = await node.settings()
            assert settings.attached
            assert not settings.probes
            assert settings.management is None


# ---------------------------------------------------------------- N3: find and recall


async def test_names_and_destinations_are_announced_and_recalled() -> None:
    """N3: fresh or existing, with app data and ratchet; wait for a path, read it, recall."""
    async with joined() as (alice, bob):
        async with alice.announces() as heard:
            await bob.announce("test.fresh", b"data")
            fresh = await heard.get(timeout=PATIENCE)
            existing = await bob.listen(NAME, ratchets=True)
            await bob.announce(existing, "again")
            second = await heard.get(timeout=PATIENCE)
        assert (fresh.app_data, fresh.ratchet_id) == (b"data", None)
        assert (second.app_data, second.destination) == (b"again", existing.hash)
        assert second.ratchet_id == (await existing.ratchets()).current
        record = await alice.path_record(existing.hash)
        assert (record.hops, record.state) == (1, PathState.UNKNOWN)
        assert record.announce is not None
        assert Announce.unpack(record.announce).validate() == "VALID"
        recalled = await alice.recall(existing.hash)
        assert recalled is not None
        assert recalled.identity == bob.identity.public_only()
        await alice.drop_path(existing.hash)
        with pytest.raises(errors.NotFoundError):
            await alice.path_record(existing.hash)
        await alice.request_path(existing.hash, tag=bytes(range(16)))
        await until(lambda: True)
        async with asyncio.timeout(PATIENCE):
            while not await alice.has_path(existing.hash):
                await asyncio.sleep(0.01)
        assert PathTag(existing.hash, bytes(range(16))) in await bob.path_tags()


# ------------------------------------------------------------ N4: a listening destination


async def test_a_destination_proves_nothing_and_takes_nothing_by_default() -> None:
    """N4: proofs none, resources none; links and packets are taken."""
    async with linked() as (link, other, echo):
        assert echo.open_links == (other,)
        with pytest.raises(errors.ProofError):
            await soon(await link.send(b"x", timeout=0.2))
        assert (await other.packets.get(timeout=PATIENCE)).data == b"x"
        with pytest.raises(errors.TransferError):
            await soon(link.send_file(b"x", timeout=0.2))


async def test_a_policy_sees_the_advertisement_and_an_output_bound_holds() -> None:
    """N4: name, sizes and compression are visible before a byte is taken; a bomb is not."""
    seen: list[Any] = []

    def decide(offer: Any) -> bool:
        seen.append(offer)
        return True

    async with linked(resources=decide, resource_max=10_000) as (link, other, _):
        await soon(link.send_file(b"a" * 5000, metadata={"k": 1}, compression="when_smaller"))
        received = await other.receive_file(timeout=PATIENCE)
        assert (len(received.data), received.metadata) == (5000, {"k": 1})
        advertisement = seen[0].advertisement
        assert advertisement.has_metadata
        assert advertisement.compressed
        assert seen[0].size_bytes > 5000
        with pytest.raises(errors.RefusedError):
            await soon(link.send_file(b"a" * 20_000, compression="when_smaller"))
        assert len(seen) == 1


async def test_a_peer_watches_a_resource_come_in() -> None:
    """N4, N7: progress and end of a resource on the receiving side."""
    steps: list[float] = []
    async with linked(resources="all") as (link, other, _):
        async with other._node.events(ProgressMade) as progress:
            receiving = asyncio.ensure_future(
                other.receive_file(
                    progress=lambda made: steps.append(made.fraction), timeout=PATIENCE
                )
            )
            await asyncio.sleep(0)
            await soon(link.send_file(bytes(500_000), compression="off"))
            received = await soon(receiving)
            assert len(received.data) == 500_000
            assert (await progress.get(timeout=PATIENCE)).total_bytes == 500_000
        assert steps
        assert steps == sorted(steps)
        assert not other._progress


# --------------------------------------------------------------------- N5: one method


async def test_strictly_one_method_is_used() -> None:
    """N5: what is too long for a packet is an error and nothing is sent."""
    async with linked(prove="all") as (link, _, echo):
        node = link._node
        async with node.tap() as tap:
            with pytest.raises(errors.EncodeError):
                await link.send(bytes(link.mdu + 1))
            with pytest.raises(errors.EncodeError):
                await node.send(echo.hash, bytes(384))
            await soon(await node.send(echo.hash, bytes(383)))
            sent = [frame async for frame in _until_quiet(tap)]
        data = [Packet.unpack(frame.data) for frame in sent if not frame.incoming]
        assert [packet.packet_type for packet in data] == [PacketType.DATA]
        assert await node.link_records() != []
        assert (await link.send(b"x", proof=False)) is None
        assert (await node.send(echo.hash, b"x", proof=False)) is None


async def _until_quiet(stream: Any) -> Any:
    while (item := stream.get_nowait()) is not None:
        yield item


async def test_receipts_are_read_and_changed() -> None:
    """N5, E11: default time-out, a changed one, the state, the proof and its form."""
    async with linked() as (link, _, echo):
        node = link._node
        receipt = await node.send(echo.hash, b"x")
        record = await receipt.info()
        assert record.destination == echo.hash
        assert record.state is ReceiptState.SENT
        assert record.timeout_s >= 6.0
        assert [each.op for each in await node.receipts()] == [receipt.op]
        await receipt.set_timeout(0.05)
        with pytest.raises(errors.ProofError):
            await soon(receipt)
        with pytest.raises(errors.NotFoundError):
            await receipt.info()
        with pytest.raises(errors.NotFoundError):
            await receipt.set_timeout(1.0)
        assert (await node.settings()).receipt_timeout_s is None
        await node.set_default_receipt_timeout(77.0)
        assert (await node.settings()).receipt_timeout_s == 77.0
        for sent in (await node.send(echo.hash, b"x"), await link.send(b"x")):
            assert (await sent.info()).timeout_s == 77.0
        with pytest.raises(ValueError, match="above 0"):
            await node.set_default_receipt_timeout(0)
        await node.set_default_receipt_timeout(None)
        await echo.set_prove("all")
        done = await soon(await link.send(b"x"))
        assert done.proof is not None
        assert len(Packet.unpack(done.proof).payload) == 96  # explicit only on links


async def test_an_initiator_proves_what_it_is_told_to() -> None:
    """N5: nothing at first, then all, or what a callable says."""
    async with linked() as (link, other, _):
        with pytest.raises(errors.ProofError):
            await soon(await other.send(b"x", timeout=0.2))
        await link.set_prove("all")
        assert (await soon(await other.send(b"y"))).ok
        await link.set_prove(lambda packet: packet.data == b"yes")
        assert (await soon(await other.send(b"yes"))).ok
        with pytest.raises(errors.ProofError):
            await soon(await other.send(b"no", timeout=0.2))
        with pytest.raises(errors.StateError):
            await other.set_prove("all")


# ------------------------------------------------------------------- N6: requests


async def test_each_request_is_recorded_with_who_asked_what() -> None:
    """N6: an event per call, of which handlers see the same; sizes and metadata of answers."""
    async with linked() as (link, other, echo):
        node = other._node
        async with node.events((RequestReceived, LinkIdentified)) as calls:
            await echo.add_handler("/size", lambda request: bytes(request.data))
            await echo.add_handler(
                "/page", lambda request: FileResponse(b"<page>", {"type": "text"})
            )
            await link.identify(identity(9))
            answer = await link.request("/size", 5000, timeout=PATIENCE)
            assert answer.size_bytes == 5000 + 3
            page = await link.request("/page", timeout=PATIENCE)
            assert (page.data, page.metadata, page.size_bytes) == (b"<page>", {"type": "text"}, 6)
            assert isinstance(await calls.get(timeout=PATIENCE), LinkIdentified)
            call = await calls.get(timeout=PATIENCE)
            assert (call.data, call.identity) == (5000, identity(9).hash)
            assert call.request_id == answer.request_id
            assert call.destination == echo.hash


async def test_requests_wait_in_a_queue_and_are_answered_later() -> None:
    """N6 and the verb respond: in any order, once each, over their own link."""
    async with linked() as (link, other, echo):
        await echo.queue_requests("/later", allow="all")
        asking = [
            asyncio.ensure_future(link.request("/later", number, timeout=PATIENCE))
            for number in range(3)
        ]
        waiting: list[IncomingRequest] = [
            await echo.requests.get(timeout=PATIENCE) for _ in range(3)
        ]
        for request in reversed(waiting):
            await other.respond(request, request.data * 10)
        assert [(await soon(each)).data for each in asking] == [0, 10, 20]
        with pytest.raises(errors.StateError):
            await other.respond(waiting[0], "twice")
        with pytest.raises(ValueError, match="another link"):
            await link.respond(waiting[0], "wrong link")
        asked = asyncio.ensure_future(link.request("/later", 1, timeout=0.5))
        await other.respond(await echo.requests.get(timeout=PATIENCE), NO_RESPONSE)
        with pytest.raises(errors.RequestError):
            await soon(asked)
        await echo.remove_handler("/later")
        with pytest.raises(errors.RequestError):
            await link.request("/later", timeout=0.1)


# ------------------------------------------------------------------ N7: resources


async def test_a_resource_is_cancelled_from_either_side() -> None:
    """N7: started without waiting; the other side is told at once, by name."""
    async with linked(resources=lambda offer: asyncio.sleep(60, True)) as (link, other, _):
        theirs, ours = other._node, link._node
        async with theirs.events((ResourceOffered, ResourceFailed)) as events:
            first = await link.start_file(b"x" * 1000)
            offer = await events.get(timeout=PATIENCE)
            assert [each.op for each in await theirs.transfers()] == [offer.op]
            first.cancel()
            with pytest.raises(errors.TransferError) as ours_cancelled:
                await soon(first)
            assert ours_cancelled.value.stage == "CANCELLED"
            failed = await events.get(timeout=PATIENCE)
            assert failed.op == offer.op
            second = await link.start_file(b"y" * 1000)
            again = await events.get(timeout=PATIENCE)
            await theirs.cancel(again.op)
            with pytest.raises(errors.RefusedError):
                await soon(second)
            assert (await events.get(timeout=PATIENCE)).reason == "CANCELLED"
        assert await ours.transfers() == []
        with pytest.raises(errors.StateError):
            await theirs.cancel(again.op)


# ---------------------------------------------------- N8 and E3 to E8: frames and tables


async def test_a_tap_sees_every_frame_with_interface_and_time() -> None:
    """N8: what one node sends is what the other takes in, byte by byte."""
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="all")
        async with alice.tap() as hers, bob.tap() as his:
            await alice.path(echo.hash, timeout=PATIENCE)
            await soon(await alice.send(echo.hash, b"x"))
            mine = [await hers.get(timeout=PATIENCE) for _ in range(4)]
            yours = [await his.get(timeout=PATIENCE) for _ in range(4)]
        assert [frame.incoming for frame in mine] == [False, True, False, True]
        assert [frame.data for frame in mine] == [frame.data for frame in yours]
        assert {frame.interface for frame in mine} == {alice.interfaces()[0].id}
        assert [frame.time_s for frame in mine] == sorted(frame.time_s for frame in mine)
        assert mine[0].time_unix_s > 1_700_000_000


async def test_a_snapshot_is_edited_and_loaded_into_another_node() -> None:
    """N8, E4, E5: paths, known destinations, blackholes and seen requests move over."""
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, ratchets=True, app_data=b"Bob")
        await echo.announce()
        await alice.path(echo.hash, timeout=PATIENCE)
        await alice.blackhole(identity(8).hash, reason="noise")
        await bob.request_path(bytes(16))
        async with asyncio.timeout(PATIENCE):
            while not await alice.path_tags():
                await asyncio.sleep(0.01)
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        snapshot = await alice.snapshot()
        assert [each.link for each in snapshot.links] == [link.ref]
        assert snapshot.taken_unix_s > 1_700_000_000
        path = snapshot.paths[0]
        edited = replace(
            snapshot,
            paths=(replace(path, hops=3, expires_s=path.expires_s + 10),),
            known=tuple(replace(each, app_data=b"edited") for each in snapshot.known),
        )
        left, right = Pipe.pair()
        right.close()
        async with Node(interfaces=[left]) as other:
            await other.load(edited)
            record = await other.path_record(echo.hash)
            assert record.hops == 3
            assert record.expires_s == pytest.approx(path.expires_s + 10, abs=1e-3)
            recalled = await other.recall(echo.hash)
            assert recalled is not None
            assert recalled.app_data == b"edited"
            assert await other.ratchet_of(echo.hash) == await alice.ratchet_of(echo.hash)
            assert [each.reason for each in await other.blackholes()] == ["noise"]
            assert await other.path_tags() == list(edited.path_tags)
        assert list((await bob.snapshot()).ratchets) == [echo.hash]


async def test_each_input_has_a_verdict_and_the_filter_is_open() -> None:
    """N8, E3: fed frames are judged, dry runs change nothing, the recorder tells it all."""
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="all")
        await alice.path(echo.hash, timeout=PATIENCE)
        raw = await alice.seal(echo.hash, b"crafted")
        port = bob.interfaces()[0].id
        dry = await bob.probe(port, raw)
        assert dry.accepted
        assert not await bob.filter_has(Packet.unpack(raw).hash)
        before = await bob.filter_size()
        verdict = await bob.feed(port, raw)
        assert verdict.packet_hash == Packet.unpack(raw).hash
        assert (await echo.packets.get(timeout=PATIENCE)).data == b"crafted"
        assert await bob.filter_size() == before + 1
        again = await bob.feed(port, raw)
        assert (again.accepted, again.reason) == (False, DropReason.DUPLICATE)
        await bob.filter_drop(Packet.unpack(raw).hash)
        assert not await bob.filter_has(Packet.unpack(raw).hash)
        await bob.filter_put(Packet.unpack(raw).hash)
        assert not (await bob.probe(port, raw)).accepted
        rubbish = await bob.feed(port, b"\xff" * 30)
        assert not rubbish.accepted
        lines = await bob.records(verdict.sequence)
        assert lines[0].packet_hash == verdict.packet_hash
        with pytest.raises(errors.NotFoundError):
            await bob.feed(999, raw)


async def test_packets_of_any_kind_are_crafted_opened_and_injected() -> None:
    """N8, E8: with and without ratchet, for links too; forged ones are harmless."""
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME, prove="all", ratchets=True)
        await echo.announce()
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        other = await echo.links.get(timeout=PATIENCE)
        for ratchet in (True, False):
            raw = await alice.seal(echo.hash, b"sealed", ratchet=ratchet)
            opened = await bob.unseal(raw)
            assert opened.plaintext == b"sealed"
            assert (opened.ratchet_id is not None) is ratchet
            await alice.inject(raw)
            assert (await echo.packets.get(timeout=PATIENCE)).data == b"sealed"
        forged = await link.seal(b"\x00" * 16, context=Context.LINKCLOSE)
        await alice.inject(forged, interface=alice.interfaces()[0].id)
        raw = await link.seal(b"over the link")
        assert await other.unseal(raw) == b"over the link"
        await alice.inject(raw, interface=alice.interfaces()[0].id)
        assert (await other.packets.get(timeout=PATIENCE)).data == b"over the link"
        assert not other.closed
        await alice.inject(
            await link.seal(link.link_id, context=Context.LINKCLOSE),
            interface=alice.interfaces()[0].id,
        )
        assert await soon(other.wait_closed()) is CloseReason.INITIATOR
        with pytest.raises(errors.NotFoundError):
            await alice.unseal(raw)
        with pytest.raises(errors.NotFoundError):
            await alice.seal(bytes(16), b"x")
        plain = await bob.listen("test.plain", type=DestinationType.PLAIN)
        with pytest.raises(errors.KeyMissingError):
            await bob.unseal(Packet(destination=plain.hash, payload=b"x").raw)


# --------------------------------------------------------- E6: routes on the live node


async def test_paths_are_marked_and_identities_blackholed_on_a_live_node() -> None:
    """E6: marked unresponsive, blackholed with reason and end, lifted; a tunnel asked for."""
    async with over_tcp() as (alice, bob):
        echo = await bob.listen(NAME)
        await alice.path(echo.hash, timeout=PATIENCE)
        await alice.mark_path(echo.hash, responsive=False)
        assert (await alice.path_record(echo.hash)).state is PathState.UNRESPONSIVE
        await alice.mark_path(echo.hash, responsive=True)
        assert (await alice.path_record(echo.hash)).state is PathState.RESPONSIVE
        until_s = 4_000_000_000.0
        await alice.blackhole(bob.identity.hash, until_unix_s=until_s, reason="spam")
        entry = (await alice.blackholes())[0]
        assert (entry.identity, entry.until_unix_s, entry.reason) == (
            bob.identity.hash,
            until_s,
            "spam",
        )
        assert not await alice.has_path(echo.hash)
        async with alice.announces(NAME) as heard:
            await echo.announce()
            await alice.unblackhole(bob.identity.hash)
            await echo.announce(b"heard")
            assert (await heard.get(timeout=PATIENCE)).app_data == b"heard"
        with pytest.raises(errors.NotFoundError):
            await alice.unblackhole(bob.identity.hash)
        async with bob.tap() as tap:
            await alice.synthesize_tunnel(alice.interfaces()[0].id)
            tunnel = Packet.unpack((await tap.get(timeout=PATIENCE)).data)
            assert tunnel.destination_type == DestinationType.PLAIN


async def test_subscriptions_tell_path_responses_when_asked_for() -> None:
    """E6: with the packet hash; by callback and by stream."""
    async with joined() as (alice, bob):
        told: list[Any] = []
        echo = await bob.listen(NAME)
        subscription = alice.on_announce(told.append, name=NAME, path_responses=True)
        async with alice.announces(NAME) as without:
            await alice.path(echo.hash, timeout=PATIENCE)
            await until(lambda: len(told) == 1)
            assert told[0].path_response
            assert len(told[0].packet_hash) == 32
            assert without.get_nowait() is None
        subscription.close()
        assert subscription.closed


# ----------------------------------------------------- E12, E13: ratchets and knowledge


async def test_ratchets_move_to_another_node_with_their_file() -> None:
    """E12: listed, rotated, saved, loaded; a pending packet opens after the move (C4)."""
    left, right = Pipe.pair()
    own = identity(5)
    async with Node(interfaces=[left]) as alice:
        async with Node(interfaces=[right]) as bob:
            echo = await bob.listen(NAME, identity=own, ratchets=True)
            await echo.announce()
            first = (await echo.ratchets()).current
            await alice.path(echo.hash, timeout=PATIENCE)
            sealed = await alice.seal(echo.hash, b"for the old ratchet")
            await echo.rotate()
            record = await echo.ratchets()
            assert (record.previous, len(record.ids)) == (first, 2)
            assert record.rotated_unix_s
            file = await echo.ratchet_file()
        async with Node(shared_instance=False) as carol:
            again = await carol.listen(NAME, identity=own, ratchets=True, ratchet_file=file)
            assert (await again.ratchets()).ids == record.ids
            opened = await carol.unseal(sealed)
            assert (opened.plaintext, opened.ratchet_id) == (b"for the old ratchet", first)
            with pytest.raises(errors.AuthenticationError):
                await carol.listen("test.other", ratchets=True, ratchet_file=file)
            with pytest.raises(ValueError, match="ratchet file"):
                await carol.listen("test.third", ratchet_file=file)


async def test_known_destinations_are_kept_cleared_cleaned_and_checked(tmp_path: Any) -> None:
    """E13: recalled by destination and identity, None and b"" apart, saved and loaded."""
    left, right = Pipe.pair()
    async with Node(interfaces=[right]) as bob:
        async with Node(interfaces=[left], storage=tmp_path) as alice:
            echo = await bob.listen(NAME, app_data=b"")
            other = await bob.listen("test.other")
            for each in (echo, other):
                await alice.path(each.hash, timeout=PATIENCE)
            with_empty, without = (
                await alice.recall(echo.hash),
                await alice.recall(other.hash),
            )
            assert with_empty is not None
            assert without is not None
            assert (with_empty.app_data, without.app_data) == (None, None)  # as on the wire
            for data in (b"", None):
                await alice.remember(bytes(15) + b"\x01", identity(6), data)
                kept = await alice.recall(bytes(15) + b"\x01")
                assert kept is not None
                assert kept.app_data == data
            await alice.drop_known(bytes(15) + b"\x01")
            assert await alice.recall(bob.identity.hash) is not None
            record = await alice.path_record(echo.hash)
            assert record.announce is not None
            assert await alice.check_announce(record.announce) == "VALID"
            await alice.put_known(
                replace(
                    await alice.known_destination(echo.hash),
                    public_key=identity(3).public_key,
                )
            )
            assert await alice.check_announce(record.announce) == "KEY_MISMATCH"
            with pytest.raises(errors.StateError):
                await alice.remember(echo.hash, identity(4))
            await alice.retain(echo.hash)
            assert (await alice.known_destination(echo.hash)).retained
            await alice.put_known(
                replace(
                    await alice.known_destination(other.hash), heard_unix_s=1.0, used_unix_s=1.0
                )
            )
            await alice.drop_path(other.hash)
            assert await alice.clean_known() == 1
            await alice.persist()
        async with Node(shared_instance=False, storage=tmp_path) as again:
            assert [each.destination for each in await again.known()] == [echo.hash]
            assert (await again.known_destination(echo.hash)).retained
            await again.clear_known()
            assert await again.known() == []


# -------------------------------------------------------------------------- E7 on a node


async def test_a_link_tells_its_state_and_its_times_are_set() -> None:
    """E7: RTT, keepalive and stale time; secrets held, and gone after the close."""
    async with linked() as (link, other, _):
        record = await link.info()
        assert record.holds_session_key
        assert record.initiator
        assert (record.mtu, record.mdu) == (link.mtu, link.mdu)
        await link.tune(rtt_s=0.5, keepalive_s=7.0, stale_s=14.0)
        tuned = await link.info()
        assert (tuned.rtt_s, tuned.keepalive_s, tuned.stale_s) == (0.5, 7.0, 14.0)
        await link.close()
        gone = await link.info()
        assert not gone.holds_session_key
        assert not gone.holds_ephemeral
        assert gone.reason is CloseReason.INITIATOR
        await link.close()
        with pytest.raises(errors.StateError):
            await other.identify()


# ------------------------------------------------------------------- early and late


async def test_what_is_asked_too_early_says_so() -> None:
    """A node that was not started is a StateError with what to do, not an accident."""
    node = Node(shared_instance=False)
    with pytest.raises(errors.StateError, match="start"):
        await node.path(bytes(16))
    with pytest.raises(errors.StateError, match="start"):
        node.stats()
    stream = node.events(PacketReceived)
    async with node:
        with pytest.raises(errors.StateError):
            await node.start()
    assert stream.closed
    assert node.closed


async def test_a_path_is_asked_for_again_once_an_interface_can_carry_it() -> None:
    """A look-up that nothing could carry does not hold back the next one."""
    async with joined() as (alice, bob):
        echo = await bob.listen(NAME)
        interface = alice.interfaces()[0]
        await interface.pause()
        with pytest.raises(errors.PathError, match="no interface is online"):
            await alice.path(echo.hash, timeout=0.1)
        await interface.resume()
        assert (await alice.path(echo.hash, timeout=PATIENCE)).hops == 1


async def test_identities_differ_and_interfaces_are_listed_by_each_node() -> None:
    """Several nodes of one process share nothing but the loop."""
    async with joined() as (alice, bob):
        assert isinstance(alice.identity, Identity)
        assert alice.identity.hash != bob.identity.hash
        assert alice.loop is bob.loop
        extra = await alice.add_interface(TCPServer("127.0.0.1"))
        assert len(alice.interfaces()) == 2
        assert len(bob.interfaces()) == 1
        client = await bob.add_interface(TCPClient("127.0.0.1", extra.port or 0))
        await client.wait_online(timeout=PATIENCE)
        await client.remove()
        assert len(bob.interfaces()) == 1


async def test_a_transport_node_joins_its_neighbours() -> None:
    """N2: with transport=True announces, links, requests and messages pass a node."""
    (left, hub_left), (right, hub_right) = Pipe.pair(), Pipe.pair()
    async with (
        Node(interfaces=[hub_left, hub_right], transport=True) as hub,
        Node(interfaces=[left]) as alice,
        Node(interfaces=[right]) as bob,
    ):
        assert (await hub.settings()).transport
        echo = await bob.listen(NAME, prove="all")
        await echo.add_handler("/upper", lambda request: request.data.upper())
        hers, his = await alice.lxmf(display_name="Alice"), await bob.lxmf(display_name="Bob")
        async with alice.announces() as heard:
            await echo.announce()
            await his.announce()
            found = {bytes((await heard.get(timeout=PATIENCE)).destination) for _ in range(2)}
        assert found == {bytes(echo.hash), bytes(his.hash)}
        async with bob.announces() as heard:
            await hers.announce()
            assert (await heard.get(timeout=PATIENCE)).hops == 2
        async with await alice.connect(echo.hash, timeout=PATIENCE) as link:
            assert link.hops == 2
            assert (await link.request("/upper", "far", timeout=PATIENCE)).data == "FAR"
        assert (await soon(await alice.send(echo.hash, b"x"))).ok
        await hers.send(his.hash, "hello", timeout=PATIENCE)
        assert (await his.get(timeout=PATIENCE)).verified
