"""What an engine makes possible from Python; each test says which capability it shows."""

from __future__ import annotations

import gc
import logging
import os
import threading
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from engine.wires import MONO, UNIX, Net, identity, pair, seed
from netmesh import (
    Announce,
    DestinationHash,
    Engine,
    Identity,
    IdentityHash,
    Packet,
    Ratchets,
    Verdict,
)
from netmesh.constants import (
    Context,
    DestinationType,
    InterfaceMode,
    LinkState,
    PacketType,
    PathState,
    ReceiptState,
    ResourceState,
)
from netmesh.control import PathRequest, TunnelSynthesis
from netmesh.decisions import interface_hash, mtu_for_bitrate, receipt_timeout
from netmesh.errors import (
    AuthenticationError,
    DecodeError,
    EncodeError,
    KeyMissingError,
    LimitReached,
    NoRouteError,
    NotFoundError,
    StateError,
)
from netmesh.events import (
    AnnounceHeard,
    AnnounceSent,
    InterfaceChanged,
    LinkActive,
    LinkClosed,
    LinkIdentified,
    LinkPacketReceived,
    PacketReceived,
    PathChanged,
    PathResult,
    ReceiptDone,
    RequestReceived,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.ifac import Ifac
from netmesh.link import identify_pack
from netmesh.records import (
    BlackholeRecord,
    CloseReason,
    DropReason,
    EventKind,
    IngressNumbers,
    InterfaceChange,
    InterfaceRole,
    JobKind,
    KnownRecord,
    Limits,
    MtuMode,
    PathRecord,
    PathTag,
    RecordKind,
    Stage,
)

SOMEONE = DestinationHash(bytes([9]) * 16)


def engine(**options: Any) -> Engine:
    """An engine at a known time."""
    return Engine(**({"clock": (MONO, UNIX), "seed": seed(1)} | options))


def announced(number: int = 7, **options: Any) -> bytes:
    """The announce of somebody, as a frame."""
    return Announce.create(identity(number), "test.echo", **options).raw


# --------------------------------------------------------------------------------------- E1


def test_the_same_inputs_give_the_same_bytes() -> None:
    """E1: a clock pair and entropy that the caller gives."""

    def run(number: int) -> list[bytes]:
        net, a, b, wire = pair(identity=identity(1), seed=seed(number))
        link = net.link(a, net.listen(b, prove="all"))
        link.send(b"hello")
        net.advance(30.0)
        return [raw for _, raw in wire.seen]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_an_engine_has_the_identity_it_is_given() -> None:
    """E1."""
    assert engine(identity=identity(3)).identity.hash == identity(3).hash
    assert not engine(identity=identity(3)).identity.has_private
    assert engine().identity == engine().identity
    assert Engine().identity != Engine().identity
    with pytest.raises(KeyMissingError):
        Engine(identity(3).public_only())


def test_transport_shows_in_path_requests() -> None:
    """E1: transport on or off."""
    for transport in (False, True):
        ours = engine(transport=transport)
        ours.add_interface("wire")
        ours.request_path(SOMEONE)
        (output,) = ours.outputs()
        asked = PathRequest.unpack(Packet.unpack(output.data).payload)
        assert asked.transport_id == (ours.identity.hash if transport else None)


def test_only_a_shared_instance_takes_local_clients() -> None:
    """E1: the role of a shared instance."""
    with pytest.raises(StateError):
        engine().add_interface("client", role=InterfaceRole.LOCAL_CLIENT)
    shared = engine(shared_instance=True)
    client = shared.add_interface("client", role=InterfaceRole.LOCAL_CLIENT, kind="local")
    shared.input(client, announced())
    (path,) = shared.paths()
    assert path.hops == 0  # the local socket is no hop


def test_an_attached_engine_announces_its_destinations_to_the_instance() -> None:
    """E1: the role of one that is attached to a shared instance (RNS 1, 8.12.1)."""
    ours = engine()
    wire = ours.add_interface("instance", kind="local", role=InterfaceRole.SHARED_CONNECTION)
    own = ours.listen(identity(7), "test.echo")
    ours.advance(0.249)
    assert ours.outputs() == []
    ours.advance(0.001)
    (output,) = ours.outputs()
    announce = Announce.unpack(output.data)
    assert (announce.destination_hash, announce.path_response) == (own, True)
    ours.change_interface(wire, online=False)
    ours.change_interface(wire, online=True)
    ours.advance(9.999)
    assert ours.outputs() == []
    ours.advance(0.001)
    assert [Announce.unpack(o.data).destination_hash for o in ours.outputs()] == [own]


def test_inline_jobs_show_all_effects_at_once() -> None:
    """E1: jobs run inline, so that after a call returns all its effects are visible."""
    ours = engine()
    wire = ours.add_interface("wire")
    verdict = ours.input(wire, announced())
    assert (verdict.accepted, verdict.pending) == (True, False)
    assert ours.pending_jobs == []
    assert len(ours.paths()) == 1


def test_jobs_can_run_one_by_one_in_any_order() -> None:
    """E1: or stepwise."""
    ours = engine(inline_jobs=False)
    wire = ours.add_interface("wire")
    verdicts = [ours.input(wire, announced(number)) for number in (7, 8)]
    assert all(verdict.pending for verdict in verdicts)
    assert [job.kind for job in ours.pending_jobs] == [JobKind.VERIFY_ANNOUNCE] * 2
    assert all(job.interface == wire and job.cost_s > 0 for job in ours.pending_jobs)
    ours.run_job(1)
    assert [path.destination for path in ours.paths()] == [
        Announce.unpack(announced(8)).destination_hash
    ]
    ours.run_job()
    assert len(ours.paths()) == 2
    with pytest.raises(IndexError):
        ours.run_job()


def test_the_wall_clock_may_step_and_the_monotonic_one_not() -> None:
    """E1: two clocks."""
    net, a, b, _ = pair()
    link = net.link(a, net.listen(b))
    for ours in (a, b):
        ours.set_clock(ours.now[0], UNIX - 86400.0)
    net.advance(60.0)
    assert link.info.state == LinkState.ACTIVE
    with pytest.raises(ValueError, match="must not go back"):
        a.set_clock(MONO)
    assert a.now == (MONO + 60.0, UNIX - 86400.0 + 60.0)


# --------------------------------------------------------------------------------------- E2


def test_interfaces_are_declared_by_name_with_their_properties() -> None:
    """E2."""
    ours = engine()
    ifac = Ifac(network_name="valley", size=8)
    number = ours.add_interface(
        "Hub[valley]",
        kind="backbone",
        mode=InterfaceMode.GATEWAY,
        bitrate=1_000_000,
        ifac=ifac,
        gravity=3,
        announce_cap=0.05,
        rate_target_s=3600,
        rate_grace=2,
        rate_penalty_s=7200,
        ingress_control=False,
        recursive_prs=True,
        announces_from_internal=False,
        announces_to_internal=True,
    )
    record = ours.interface(number)
    assert ours.interfaces() == [record]
    assert (record.name, record.hash) == ("Hub[valley]", interface_hash("Hub[valley]"))
    assert (record.mode, record.role) == (InterfaceMode.GATEWAY, InterfaceRole.ORDINARY)
    assert (record.bitrate, record.hw_mtu) == (1_000_000, mtu_for_bitrate(1_000_000))
    assert (record.mtu_mode, record.ifac) == (MtuMode.AUTO, ifac)
    assert (record.announce_cap, record.gravity) == (0.05, 3)
    assert (record.rate_target_s, record.rate_grace, record.rate_penalty_s) == (3600, 2, 7200)
    assert not record.ingress_control
    assert record.recursive_prs
    assert not record.announces_from_internal
    assert record.announces_to_internal
    with pytest.raises(FrozenInstanceError):
        record.name = "other"  # type: ignore[misc]


def test_the_numbers_of_ingress_control_are_read_and_changed() -> None:
    """E2: the defaults are those of RNS 1, 8.15."""
    ours = engine()
    number = ours.add_interface("wire")
    assert ours.interface(number).ingress == IngressNumbers()
    numbers = IngressNumbers(
        new_s=60.0,
        announce_rate_new=1.5,
        announce_rate=20.0,
        request_rate_new=2.5,
        request_rate=30.0,
        hold_s=1.0,
        penalty_s=2.0,
        release_s=0.25,
        held_max=7,
    )
    ours.change_interface(number, ingress=numbers)
    assert ours.interface(number).ingress == numbers
    second = ours.add_interface("second", ingress=numbers)
    assert ours.interface(second).ingress == numbers
    for wrong in (
        {"announce_rate": -1.0},
        {"announce_rate_new": float("nan")},
        {"request_rate": float("inf")},
        {"request_rate_new": 1e7},
        {"release_s": 0.0},
        {"hold_s": -1.0},
        {"new_s": 1e10},
        {"penalty_s": 1e10},
        {"held_max": 65537},
        {"held_max": -1},
    ):
        with pytest.raises((ValueError, OverflowError)):
            ours.change_interface(number, ingress=IngressNumbers(**wrong))  # type: ignore[arg-type]
    assert ours.interface(number).ingress == numbers


@pytest.mark.parametrize(
    ("kind", "mtu", "mode", "size"),
    [
        ("tcp", None, MtuMode.AUTO, 16384),
        ("udp", None, MtuMode.NONE, 1064),
        ("udp", "auto", MtuMode.AUTO, 16384),
        ("tcp", 8192, MtuMode.FIXED, 8192),
        ("auto", None, MtuMode.FIXED, 1196),
        ("rnode", None, MtuMode.NONE, 508),
    ],
)
def test_an_mtu_is_fixed_automatic_or_the_kinds(
    kind: str, mtu: Any, mode: MtuMode, size: int
) -> None:
    """E2: HW MTU, fixed MTU or automatic."""
    ours = engine()
    record = ours.interface(ours.add_interface("wire", kind=kind, mtu=mtu))
    assert (record.mtu_mode, record.hw_mtu) == (mode, size)


def test_interfaces_change_and_go_at_any_time() -> None:
    """E2: added, removed and changed."""
    ours = engine()
    first = ours.add_interface("first")
    second = ours.add_interface("second")
    ours.change_interface(first, bitrate=100_000_000, mode=InterfaceMode.ROAMING)
    assert ours.interface(first).hw_mtu == mtu_for_bitrate(100_000_000)
    ours.change_interface(first, mtu=500, ifac=Ifac(passphrase="x"))
    assert ours.interface(first).mtu_mode == MtuMode.FIXED
    ours.change_interface(first, ifac=None, online=False)
    assert ours.interface(first).ifac is None
    ours.change_interface(first, online=True)
    ours.remove_interface(first)
    assert [record.interface for record in ours.interfaces()] == [second]
    with pytest.raises(NotFoundError):
        ours.interface(first)
    with pytest.raises(NotFoundError):
        ours.remove_interface(first)
    with pytest.raises(NotFoundError):
        ours.change_interface(first, online=False)
    third = ours.add_interface("first")
    assert third > second
    changes = [event for event in ours.events() if isinstance(event, InterfaceChanged)]
    last = {event.interface: event.change for event in changes}
    assert last[first] == InterfaceChange.REMOVED
    assert last[third] == InterfaceChange.ADDED


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": ""}, ValueError),
        ({"name": "x" * 128}, ValueError),
        ({"name": "a\0b"}, ValueError),
        ({"name": "taken"}, StateError),
        ({"kind": "string and cans"}, ValueError),
        ({"mtu": 499}, ValueError),
        ({"mtu": -1}, ValueError),
        ({"bitrate": -1}, ValueError),
        ({"announce_cap": 0.0}, ValueError),
        ({"announce_cap": float("nan")}, ValueError),
        ({"mode": 0}, ValueError),
        ({"ifac": "secret"}, TypeError),
        ({"online": 1}, TypeError),
        ({"name": 5}, TypeError),
    ],
)
def test_wrong_properties_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    """E2."""
    ours = engine()
    ours.add_interface("taken")
    with pytest.raises(error):
        ours.add_interface(**({"name": "wire"} | options))
    assert len(ours.interfaces()) == 1
    assert ours.add_interface("wire") > 0


def test_direction_and_online_flags_hold_packets_back() -> None:
    """E2: direction flags, online flag."""
    ours = engine()
    deaf = ours.add_interface("deaf", receives=False)
    mute = ours.add_interface("mute", sends=False)
    away = ours.add_interface("away", online=False)
    raw = announced()
    assert ours.input(deaf, raw).reason == DropReason.IFACE_OFFLINE
    assert ours.input(away, raw).reason == DropReason.IFACE_OFFLINE
    assert ours.input(mute, raw).accepted
    assert ours.input(99, raw).reason == DropReason.IFACE_UNKNOWN
    ours.request_path(SOMEONE)
    assert [output.interface for output in ours.outputs()] == [deaf]


def test_counters_say_what_passed_an_interface() -> None:
    """E2: interface hash and counters readable."""
    net, a, b, wire = pair()
    net.listen(b)
    a.request_path(SOMEONE)
    a.input(wire.at(a), b"\0junk")
    net.settle()
    heard, told = a.counters(wire.at(a)), b.counters(wire.at(b))
    assert (heard.rx_packets, heard.announces_in) == (2, 1)
    assert heard.rx_bytes == sum(len(raw) for sender, raw in wire.seen if sender is b) + 5
    assert (heard.tx_packets, heard.path_requests_out) == (1, 1)
    assert heard.drops == {DropReason.MALFORMED: 1}
    assert heard.violations == 1
    assert (told.announces_out, told.path_requests_in) == (1, 1)
    assert told.drops == {DropReason.PATH_REQUEST_UNKNOWN: 1}


# --------------------------------------------------------------------------------------- E3


def test_each_input_gives_a_verdict() -> None:
    """E3: accepted or dropped and why, packet hash, whether the hash was remembered."""
    ours = engine()
    wire = ours.add_interface("wire")
    raw = announced()
    verdict = ours.input(wire, raw)
    assert verdict.accepted
    assert verdict.packet_hash == Packet.unpack(raw).hash
    assert verdict.remembered
    assert ours.filter_has(Packet.unpack(raw).hash)
    again = ours.input(wire, raw)
    assert (again.accepted, again.reason) == (False, DropReason.ANNOUNCE_REPLAY)
    junk = ours.input(wire, b"")
    assert (junk.reason, junk.packet_hash, junk.remembered) == (DropReason.RUNT, None, False)
    assert junk.sequence > again.sequence > verdict.sequence


def test_the_flight_recorder_keeps_every_decision() -> None:
    """E3: the flight recorder is readable."""
    ours = engine(limits=Limits(recorder=8))
    wire = ours.add_interface("wire")
    verdict = ours.input(wire, announced())
    (line,) = [r for r in ours.records() if r.kind is RecordKind.INPUT]
    assert line.sequence == verdict.sequence
    assert (line.reason, line.pending) == (DropReason.NONE, False)
    assert (line.packet_hash, line.interface) == (verdict.packet_hash, wire)
    assert line.destination == Packet.unpack(announced()).destination
    assert line.time_s == MONO
    assert [r.job for r in ours.records() if r.kind is RecordKind.JOB] == [JobKind.VERIFY_ANNOUNCE]
    assert EventKind.PATH in [r.event for r in ours.records()]
    for _ in range(20):
        last = ours.input(wire, b"\0junk")
    kept = ours.records()
    assert [r.sequence for r in kept] == list(range(last.sequence - 7, last.sequence + 1))
    assert ours.records(last.sequence) == kept[-1:]
    assert ours.records(last.sequence + 1) == []


def test_a_dry_run_asks_the_filter_and_may_remember() -> None:
    """E3: would this frame be accepted, with and without remembering; the filter's size."""
    ours = engine()
    wire = ours.add_interface("wire")
    own = ours.listen(None, "plain", type=DestinationType.PLAIN)
    raw = Packet(destination=own, payload=b"x", destination_type=DestinationType.SINGLE).raw
    assert ours.probe(wire, raw).accepted
    assert ours.filter_size == 0
    verdict = ours.probe(wire, raw, remember=True)
    assert (verdict.accepted, verdict.remembered) == (True, True)
    assert (ours.filter_size, ours.records()[-1].kind) == (1, RecordKind.EVENT)
    assert ours.probe(wire, raw).reason == DropReason.DUPLICATE
    assert ours.input(wire, raw).reason == DropReason.DUPLICATE
    packet_hash = Packet.unpack(raw).hash
    ours.filter_drop(packet_hash)
    assert not ours.filter_has(packet_hash)
    assert ours.probe(wire, raw).accepted
    ours.filter_put(packet_hash)
    assert ours.probe(wire, raw).reason == DropReason.DUPLICATE


# --------------------------------------------------------------------------------- E4 and E5


def test_a_path_is_read_edited_and_put_back() -> None:
    """E4, E5: paths with hops, next hop, times, random blobs, interface, announce packet."""
    ours = engine()
    wire, other = ours.add_interface("wire"), ours.add_interface("other")
    raw = announced(hops=2, transport_id=bytes([5]) * 16)
    ours.input(wire, raw)
    announce = Announce.unpack(raw)
    path = ours.path(announce.destination_hash)
    assert path == PathRecord(
        destination=announce.destination_hash,
        next_hop=bytes([5]) * 16,
        hops=3,
        interface=wire,
        updated_s=MONO,
        updated_unix_s=UNIX,
        expires_s=MONO + 604800.0,
        expires_unix_s=UNIX + 604800.0,
        state=PathState.UNKNOWN,
        announce_hash=Packet.unpack(raw).hash,
        announce=raw,
        random_blobs=(announce.random_hash,),
    )
    edited = replace(path, hops=7, interface=other, updated_s=900.5, state=PathState.UNRESPONSIVE)
    ours.put_path(edited)
    assert ours.path(announce.destination_hash) == replace(edited, updated_unix_s=UNIX - 99.5)
    assert ours.hops(announce.destination_hash) == 7


def test_a_path_made_without_living_through_it_carries_packets() -> None:
    """E5: a state is made without living through it."""
    ours = engine()
    ours.add_interface("first")
    far = ours.add_interface("far")
    ours.remember(SOMEONE, identity(7))
    ours.put_path(PathRecord(destination=SOMEONE, next_hop=b"n" * 16, hops=4, interface=far))
    ours.send(SOMEONE, b"hello")
    (output,) = ours.outputs()
    packet = Packet.unpack(output.data)
    assert output.interface == far
    assert (packet.header_type, packet.transport_id) == (1, b"n" * 16)


def test_paths_age_and_go_when_they_were_not_used_for_a_week() -> None:
    """E5: times included; all periodic work that is due can be run by one call."""
    ours = engine(clock=(1e6, UNIX))
    wire = ours.add_interface("wire")
    for number, age in ((1, 604800.0 + 1), (2, 604800.0 - 10)):
        ours.put_path(
            PathRecord(
                destination=DestinationHash(bytes([number]) * 16),
                hops=1,
                interface=wire,
                updated_s=1e6 - age,
            )
        )
    assert len(ours.paths()) == 2
    ours.set_clock(1e6 + 5.0)
    ours.tick()
    assert [path.destination[0] for path in ours.paths()] == [2]
    lost = [event for event in ours.events() if isinstance(event, PathChanged)]
    assert [(event.destination[0], event.known) for event in lost] == [(1, False)]


def test_known_destinations_and_blackholes_are_read_edited_and_put_back() -> None:
    """E4, E5: known destinations, ratchets, blackholes (source, until, reason)."""
    ours = engine()
    wire = ours.add_interface("wire")
    ratchet = Ratchets()
    ratchet.rotate(UNIX)
    raw = announced(app_data=b"me", ratchet=ratchet.current_public)
    ours.input(wire, raw)
    announce = Announce.unpack(raw)
    known = ours.known_destination(announce.destination_hash)
    assert known == KnownRecord(
        destination=announce.destination_hash,
        public_key=identity(7).public_key,
        app_data=b"me",
        announce_hash=Packet.unpack(raw).hash,
        heard_unix_s=UNIX,
        ratchet=ratchet.current_public,
        ratchet_unix_s=UNIX,
    )
    ours.put_known(replace(known, app_data=b"", ratchet_unix_s=UNIX - 2592000.0))
    assert ours.recall(announce.destination_hash) is not None
    assert ours.known()[0].app_data == b""
    assert ours.ratchet_of(announce.destination_hash) is None  # older than 30 days

    hole = BlackholeRecord(
        identity=identity(8).hash,
        source=identity(9).hash,
        until_unix_s=UNIX + 10.0,
        reason="spam",
    )
    ours.put_blackhole(hole)
    assert ours.blackholes() == [hole]
    ours.put_blackhole(replace(hole, until_unix_s=UNIX - 1.0))
    assert ours.input(wire, announced(8)).accepted


def test_path_requests_of_both_directions_are_readable() -> None:
    """E4: path requests (seen tags, waiting, in flight)."""
    ours = engine()
    wire = ours.add_interface("wire")
    ours.request_path(SOMEONE, timeout_s=30.0)
    ours.request_path(SOMEONE, timeout_s=40.0)
    (asked,) = ours.path_requests()
    assert (asked.destination, asked.waiting) == (SOMEONE, 2)
    assert (asked.last_s, asked.last_unix_s) == (MONO, UNIX)
    request = PathRequest(SOMEONE, tag=b"t" * 16)
    assert ours.input(wire, request.packet().raw).reason == DropReason.PATH_REQUEST_UNKNOWN
    tag = PathTag(SOMEONE, b"t" * 16)
    assert ours.path_tags() == [tag]
    again = ours.probe(wire, request.packet().raw)
    assert again.reason == DropReason.NONE  # PLAIN packets pass the filter
    assert ours.input(wire, request.packet().raw).reason == DropReason.PATH_REQUEST_SEEN
    ours.drop_path_tag(tag)
    assert ours.input(wire, request.packet().raw).reason == DropReason.PATH_REQUEST_UNKNOWN
    with pytest.raises(NotFoundError):
        ours.drop_path_tag(PathTag(SOMEONE, b"u" * 16))


def test_a_snapshot_moves_into_another_engine() -> None:
    """E5: a snapshot can be loaded back."""
    net, a, b, wire = pair()
    own = net.listen(b, app_data=b"me", ratchets=True)
    a.blackhole(identity(8).hash, reason="spam")
    a.input(wire.at(a), PathRequest(SOMEONE, tag=b"t" * 16).packet().raw)
    taken = a.snapshot()
    assert [record.destination for record in taken.paths] == [own]
    assert (taken.taken_s, taken.taken_unix_s) == (MONO, UNIX)

    copy = engine()
    with pytest.raises(NotFoundError):
        copy.load(taken)  # its interface does not exist yet
    copy.add_interface("wire 0 a")
    copy.load(taken)
    assert copy.paths() == list(taken.paths)
    assert copy.known() == list(taken.known)
    assert copy.blackholes() == list(taken.blackholes)
    assert copy.path_tags() == list(taken.path_tags)
    assert copy.recall(own) is not None
    assert b.snapshot().ratchets[own] == b.ratchets(own)


def test_all_tables_are_in_a_snapshot() -> None:
    """E4: receipts, pending and active links, transfers, interfaces."""
    net, a, b, wire = pair()
    link = net.link(a, net.listen(b, resources="all"))
    wire.cut = True
    sent = link.send(b"hello")
    op = link.send_resource(b"x" * 3000, compression="off")
    pending = a.open_link(link.info.destination)
    net.settle()
    taken = a.snapshot()
    (receipt,) = taken.receipts
    assert (receipt.op, receipt.packet_hash) == (sent.op, sent.packet_hash)
    assert (receipt.state, receipt.link) == (ReceiptState.SENT, link.ref)
    assert (receipt.sent_s, receipt.sent_unix_s, receipt.timeout_s) == (MONO, UNIX, 3.0)
    assert {record.link: record.state for record in taken.links} == {
        link.ref: LinkState.ACTIVE,
        pending: LinkState.PENDING,
    }
    (transfer,) = taken.transfers
    assert (transfer.op, transfer.state) == (op, ResourceState.ADVERTISED)
    assert (transfer.content_bytes, transfer.outgoing) == (3000, True)
    assert [record.name for record in taken.interfaces] == ["wire 0 a"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"interface": 99}, NotFoundError),
        ({"hops": 129}, ValueError),
        ({"random_blobs": (b"short",)}, ValueError),
        ({"random_blobs": (b"0123456789",) * 65}, ValueError),
        ({"next_hop": b"short"}, ValueError),
        ({"updated_s": -1.0}, ValueError),
        ({"destination": IdentityHash(bytes(16))}, TypeError),
    ],
)
def test_an_edited_record_that_cannot_be_is_refused(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    """E5."""
    ours = engine()
    wire = ours.add_interface("wire")
    record = PathRecord(destination=SOMEONE, hops=1, interface=wire)
    with pytest.raises(error):
        ours.put_path(replace(record, **changes))
    assert ours.paths() == []


# --------------------------------------------------------------------------------------- E6


def test_destinations_of_every_type_deliver() -> None:
    """E6: register destinations (type, ...), delivered payloads as events."""
    net, a, b, wire = pair()
    single = net.listen(b)
    key = bytes(range(64))
    group = b.listen(identity(8), "test.group", type=DestinationType.GROUP, group_key=key)
    plain = b.listen(None, "test.plain", type=DestinationType.PLAIN)
    a.send(single, b"one")
    assert a.send(group, b"two", type=DestinationType.GROUP, group_key=key) is None
    assert a.send(plain, b"three", type=DestinationType.PLAIN) is None
    net.settle()
    heard = {event.destination: event.data for event in net.all(b, PacketReceived)}
    assert heard == {single: b"one", group: b"two", plain: b"three"}
    (event, *_) = net.all(b, PacketReceived)
    assert (event.hops, event.interface, event.token) == (1, wire.at(b), None)
    b.unlisten(single)
    a.send(single, b"four")
    net.settle()
    assert len(net.all(b, PacketReceived)) == 3
    assert DropReason.NO_DESTINATION in b.stats().drops
    with pytest.raises(NotFoundError):
        b.unlisten(single)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"own": None}, ValueError),
        ({"own": "public"}, KeyMissingError),
        ({"name": ""}, ValueError),
        ({"name": "x" * 513}, ValueError),
        ({"type": DestinationType.GROUP}, ValueError),
        ({"type": DestinationType.GROUP, "group_key": bytes(31)}, ValueError),
        ({"type": DestinationType.LINK}, ValueError),
        ({"prove": "sometimes"}, ValueError),
        ({"resources": "most"}, ValueError),
        ({"ratchets_retained": 0}, ValueError),
        ({"ratchets": True, "ratchet_file": b"junk"}, DecodeError),
        ({"hold": 1}, TypeError),
        ({"name": b"bytes"}, TypeError),
        ({"last_emitted": 1 << 40}, ValueError),
        ({"app_data": bytes(334)}, EncodeError),
    ],
)
def test_a_destination_that_cannot_be_is_refused(
    options: dict[str, Any], error: type[Exception]
) -> None:
    """E6."""
    ours = engine()
    given = {"own": identity(7), "name": "test"} | options
    own = given.pop("own")
    if own == "public":
        own = identity(7).public_only()
    with pytest.raises(error):
        ours.listen(own, **given)
    ours.listen(identity(7), "test")  # nothing was left behind


def test_a_destination_is_registered_once() -> None:
    """E6."""
    ours = engine()
    ours.listen(identity(7), "test.echo")
    with pytest.raises(StateError) as refusal:
        ours.listen(identity(7), "test.echo")
    assert refusal.value.reason == "DUPLICATE_KEY"


def test_packets_are_proven_by_strategy() -> None:
    """E6: proof strategy all, none or by the program's word."""
    net, a, b, _ = pair()
    own = net.listen(b)

    def outcome() -> list[ReceiptDone]:
        net.forget()
        a.send(own, b"x")
        net.settle()
        return net.all(a, ReceiptDone)

    assert outcome() == []
    b.set_prove(own, "all")
    assert outcome()[0].ok
    b.set_prove(own, "app")
    assert outcome() == []
    (packet,) = net.all(b, PacketReceived)
    assert packet.token is not None
    b.accept(packet.token)
    net.settle()
    assert net.one(a, ReceiptDone).ok
    with pytest.raises(StateError):
        b.accept(packet.token)
    b.set_prove(own, "all", hold=True)
    assert outcome() == []
    (packet,) = net.all(b, PacketReceived)
    assert packet.token is not None
    b.refuse(packet.token)
    net.settle()
    assert net.all(a, ReceiptDone) == []


def test_a_destination_may_refuse_links() -> None:
    """E6: accept links or not."""
    net, a, b, _ = pair()
    own = net.listen(b, accepts_links=False)
    a.open_link(own)
    net.settle()
    assert b.stats().drops == {DropReason.NOT_ACCEPTING: 1}
    assert net.all(a, LinkActive) == []


def test_subscriptions_hear_by_name_and_kind() -> None:
    """E6: announce subscriptions with filter, path responses on or off, packet hash."""
    ours = engine()
    wire = ours.add_interface("wire")
    every = ours.subscribe()
    echo = ours.subscribe("test.echo")
    other = ours.subscribe("test.other")
    answers = ours.subscribe("test.echo", path_responses=True)
    raw = announced()
    ours.input(wire, raw, rssi_dbm=-70, snr_db=4.25, quality_pct=88)
    heard = [event for event in ours.events() if isinstance(event, AnnounceHeard)]
    assert [event.subscription for event in heard] == [every, echo, answers]
    assert {event.packet_hash for event in heard} == {Packet.unpack(raw).hash}
    assert {(e.rssi_dbm, e.snr_db, e.quality_pct) for e in heard} == {(-70, 4.25, 88)}
    ours.input(wire, announced(8, path_response=True))
    heard = [event for event in ours.events() if isinstance(event, AnnounceHeard)]
    assert [(event.subscription, event.path_response) for event in heard] == [(answers, True)]
    ours.unsubscribe(answers)
    ours.input(wire, announced(9, path_response=True))
    assert not [event for event in ours.events() if isinstance(event, AnnounceHeard)]
    with pytest.raises(NotFoundError):
        ours.unsubscribe(answers)
    assert other not in (every, echo, answers)


def test_a_path_is_requested_on_one_interface_with_a_tag() -> None:
    """E6: request a path (interface and tag optional)."""
    net, a, b, wire = pair()
    other = a.add_interface("other")
    own = b.listen(identity(7), "test.echo")
    assert a.request_path(own, interface=other, tag=b"t" * 16) is None
    (output,) = a.outputs()
    asked = PathRequest.unpack(Packet.unpack(output.data).payload)
    assert (output.interface, asked.destination, asked.tag) == (other, own, b"t" * 16)
    op = a.request_path(own, timeout_s=15.0)
    for output in a.outputs():
        net.carry(a, output.interface, output.data)
    net.settle()
    # One request serves both; the one that went astray is repeated after 20 seconds.
    assert net.all(a, PathResult) == []
    a.request_path(own, interface=wire.at(a))
    net.settle()
    result = net.one(a, PathResult)
    assert (result.op, result.ok, result.hops) == (op, True, 1)
    with pytest.raises(NotFoundError):
        a.request_path(own, interface=99)
    with pytest.raises(ValueError, match="tag"):
        a.request_path(own, tag=b"short")


def test_a_tunnel_is_synthesized_on_demand_and_by_property() -> None:
    """E6: synthesize a tunnel on an interface."""
    ours = engine()
    wire = ours.add_interface("wire", tunnels=True)
    plain = ours.add_interface("plain")
    ours.synthesize_tunnel(plain)
    outputs = ours.outputs()
    assert [output.interface for output in outputs] == [wire, plain]
    for output, name in zip(outputs, ("wire", "plain"), strict=True):
        tunnel = TunnelSynthesis.unpack(Packet.unpack(output.data).payload)
        assert tunnel.verify()
        assert tunnel.public_key == ours.identity.public_key
        assert tunnel.interface_hash == interface_hash(name)
    with pytest.raises(NotFoundError):
        ours.synthesize_tunnel(99)


def test_paths_are_marked_and_dropped_and_identities_blackholed() -> None:
    """E6: mark a path unresponsive, drop it, blackhole and lift (until, reason)."""
    ours = engine()
    wire = ours.add_interface("wire")
    ours.input(wire, announced())
    own = Announce.unpack(announced()).destination_hash
    ours.mark_path(own, responsive=False)
    assert ours.path(own).state == PathState.UNRESPONSIVE
    ours.mark_path(own, responsive=True)
    assert ours.path(own).state == PathState.RESPONSIVE
    ours.drop_path(own)
    assert ours.hops(own) == 128
    for call in (ours.drop_path, lambda d: ours.mark_path(d, responsive=True), ours.path):
        with pytest.raises(NotFoundError):
            call(own)
    ours.put_path(PathRecord(destination=own, hops=1, interface=wire))
    ours.blackhole(identity(7).hash, until_unix_s=UNIX + 60.0, reason="spam")
    assert ours.paths() == []
    (hole,) = ours.blackholes()
    assert (hole.identity, hole.source) == (identity(7).hash, ours.identity.hash)
    fresh = Announce.create(identity(7), "test.echo", emitted=int(UNIX) + 1).raw
    assert ours.input(wire, fresh).reason == DropReason.ANNOUNCE_BLACKHOLED
    ours.unblackhole(identity(7).hash)
    assert ours.input(wire, fresh).accepted
    with pytest.raises(NotFoundError):
        ours.unblackhole(identity(7).hash)
    with pytest.raises(TypeError):
        ours.blackhole(own)


# --------------------------------------------------------------------------------------- E7


def test_a_link_tells_everything_about_itself() -> None:
    """E7."""
    net, a, b, wire = pair()
    own = net.listen(b, prove="all")
    a.set_clock(MONO + 1.0)
    b.set_clock(MONO + 1.0)
    number = a.open_link(own)
    before = a.link(number).info
    assert before.state == LinkState.PENDING
    assert before.holds_ephemeral
    assert not before.holds_session_key
    assert (before.rtt_s, before.activated_s) == (None, None)
    net.settle()
    link = a.link(number)
    info, far = link.info, net.far(link, b).info
    assert info.state == LinkState.ACTIVE
    assert info.initiator
    assert not far.initiator
    assert info.remote_identity == identity(7).hash
    assert (far.remote_identity, far.identified) == (None, False)
    assert (info.mtu, info.mdu, far.mtu) == (16384, 16303, 16384)
    assert (info.keepalive_s, info.stale_s) == (5.0, 10.0)
    assert not info.holds_ephemeral
    assert info.holds_session_key
    assert info.interface == wire.at(a)
    assert info.activated_s == MONO + 1.0
    assert info.unix_s(MONO) == UNIX
    for ours in (a, b):
        ours.set_clock(MONO + 3.0)
    link.send(b"data")
    net.settle()
    info = link.info
    assert (info.last_outbound_s, info.last_data_s) == (MONO + 3.0, MONO + 3.0)
    assert info.last_proof_s == MONO + 3.0
    link.identify(identity(9))
    net.settle()
    assert net.far(link, b).info.remote_identity == identity(9).hash
    far_link = net.far(link, b)
    link.close()
    net.settle()
    for end, reason in ((link, CloseReason.INITIATOR), (far_link, CloseReason.INITIATOR)):
        assert end.info.state == LinkState.CLOSED
        assert end.info.reason == reason
        assert not end.info.holds_session_key
        assert not end.info.holds_ephemeral
    net.advance(61.0)
    with pytest.raises(NotFoundError):
        _ = link.info
    with pytest.raises(NotFoundError):
        a.link(number)


def test_signal_values_are_noted_only_when_tracked() -> None:
    """E7: signal values only when tracked."""
    net, a, b, wire = pair()
    link = net.link(a, net.listen(b))
    far = net.far(link, b)

    def hear(rssi: int) -> None:
        link.send(b"x", receipt=False)
        (output,) = a.outputs()
        b.input(wire.at(b), output.data, rssi_dbm=rssi, snr_db=-1.5, quality_pct=50)

    hear(-60)
    assert (far.info.rssi_dbm, far.info.signal_tracked) == (None, False)
    far.track_signal()
    hear(-61)
    assert (far.info.rssi_dbm, far.info.snr_db, far.info.quality_pct) == (-61, -1.5, 50)
    far.track_signal(False)
    hear(-62)
    assert far.info.rssi_dbm == -61
    (*_, event) = [e for e in b.events() if isinstance(e, LinkPacketReceived)]
    assert event.rssi_dbm == -62


def test_times_of_a_link_can_be_set() -> None:
    """E7: RTT, keepalive and stale time can be set."""
    net, a, b, wire = pair()
    link = net.link(a, net.listen(b))
    link.tune(rtt_s=0.5)
    assert (link.info.rtt_s, link.info.keepalive_s) == (0.5, pytest.approx(102.857142))
    link.tune(keepalive_s=2.0, stale_s=4.0)
    assert (link.info.rtt_s, link.info.keepalive_s, link.info.stale_s) == (0.5, 2.0, 4.0)
    seen = len(wire.seen)
    net.advance(2.0)
    assert wire.frames(a)[-1].context == Context.KEEPALIVE
    assert len(wire.seen) > seen
    wire.cut = True
    net.advance(2.0 + 4.0 + 5.0)
    assert net.one(a, LinkClosed).reason == CloseReason.TIMEOUT
    with pytest.raises(NotFoundError):
        link.tune(rtt_s=1.0)
    with pytest.raises(ValueError, match="above 0"):
        link.tune(rtt_s=0.0)


def test_actions_in_the_wrong_state_are_quiet_or_refused() -> None:
    """E7: identify on a pending link is quiet, send on a closed one is refused."""
    net, a, b, wire = pair()
    own = net.listen(b)
    wire.cut = True
    link = a.link(a.open_link(own))
    link.identify(identity(9))
    assert len(wire.frames(a)) == 0
    with pytest.raises(StateError):
        link.send(b"x")
    with pytest.raises(StateError):
        link.request("/x")
    with pytest.raises(StateError):
        link.send_resource(b"x")
    with pytest.raises(StateError):
        link.seal(b"x")
    wire.cut = False
    net.settle()
    link = net.link(a, own)
    net.far(link, b).identify(identity(9))  # not its to say
    link.close()
    link.close()
    net.settle()
    link.identify(identity(9))
    net.settle()
    assert net.all(b, LinkIdentified) == []
    for call in (
        lambda: link.send(b"x"),
        lambda: link.request("/x"),
        lambda: link.send_resource(b"x"),
        lambda: link.seal(b"x"),
    ):
        with pytest.raises(StateError):
            call()
    with pytest.raises(NotFoundError):
        link.policy("all")
    with pytest.raises(KeyMissingError):
        link.identify(identity(9).public_only())


# --------------------------------------------------------------------------------------- E8


def test_link_packets_are_crafted_and_opened_without_sending() -> None:
    """E8: seal any payload with any context, get the raw frame; open a received one."""
    net, a, b, wire = pair()
    link = net.link(a, net.listen(b))
    far = net.far(link, b)
    raw = link.seal(b"crafted")
    assert a.outputs() == []
    assert far.unseal(raw) == b"crafted"
    assert b.input(wire.at(b), raw).accepted
    net.settle()
    assert net.one(b, LinkPacketReceived).data == b"crafted"
    for context in range(256):
        packet = Packet.unpack(link.seal(b"x", context=context))
        assert (packet.context, packet.destination) == (context, link.info.link_id)
    proof = link.seal(b"y" * 96, packet_type=PacketType.PROOF)
    assert Packet.unpack(proof).packet_type == PacketType.PROOF
    with pytest.raises(EncodeError):
        link.seal(bytes(16384))
    with pytest.raises(AuthenticationError):
        far.unseal(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(DecodeError):
        far.unseal(b"")


def test_forged_identify_close_and_keepalive_packets_can_be_made() -> None:
    """E8."""
    net, a, b, wire = pair()
    link = net.link(a, net.listen(b))
    far = net.far(link, b)
    other = identify_pack(bytes(16), identity(9))  # signed for another link
    frame = link.seal(other, context=Context.LINKIDENTIFY)
    assert b.input(wire.at(b), frame).reason == DropReason.LINK_PAYLOAD
    frame = link.seal(bytes(16), context=Context.LINKCLOSE)
    assert b.input(wire.at(b), frame).reason == DropReason.LINK_PAYLOAD
    frame = link.seal(b"\xfe", context=Context.KEEPALIVE)
    assert b.input(wire.at(b), frame).reason == DropReason.LINK_PAYLOAD
    assert far.info.state == LinkState.ACTIVE
    frame = link.seal(link.info.link_id, context=Context.LINKCLOSE)
    assert b.input(wire.at(b), frame).accepted
    assert far.info.state == LinkState.CLOSED


def test_single_packets_are_crafted_opened_and_injected() -> None:
    """E8: for a destination; feed any raw frame to any interface."""
    net, a, b, wire = pair()
    own = net.listen(b, ratchets=True)
    raw = a.seal(own, b"crafted")
    assert a.outputs() == []
    opened = b.unseal(raw)
    assert (opened.plaintext, opened.ratchet_id) == (b"crafted", b.ratchets(own).current)
    assert b.unseal(a.seal(own, b"plain", use_ratchet=False)).ratchet_id is None
    a.inject(raw)
    net.settle()
    assert net.one(b, PacketReceived).data == b"crafted"
    assert [to.raw for to in wire.frames(a)][-1] == raw
    a.inject(b"\xff" * 30, interface=wire.at(a))  # anything at all
    (output,) = a.outputs()
    assert output.data == b"\xff" * 30
    with pytest.raises(EncodeError):
        a.inject(bytes(20000), interface=wire.at(a))
    with pytest.raises(NotFoundError):
        a.inject(raw, interface=99)
    with pytest.raises(NotFoundError):
        a.unseal(raw)
    with pytest.raises(NotFoundError):
        a.seal(SOMEONE, b"x")


# -------------------------------------------------------------------------------------- E11


def test_receipts_wait_as_long_as_the_path_and_can_be_changed() -> None:
    """E11: default time-out readable and settable."""
    net, a, b, _ = pair()
    own = net.listen(b)
    op = a.send(own, b"x")
    (receipt,) = a.receipts()
    assert receipt.op == op
    assert receipt.timeout_s == pytest.approx(receipt_timeout(1, 10e6))
    assert op is not None
    a.set_receipt_timeout(op, 1.0)
    assert a.receipts()[0].timeout_s == 1.0
    net.advance(0.999)
    assert net.all(a, ReceiptDone) == []
    net.advance(0.001)
    done = net.one(a, ReceiptDone)
    assert (done.op, done.state, done.stage) == (op, ReceiptState.FAILED, Stage.PROOF)
    assert (done.reason, done.proof) == ("TIMEOUT", None)
    with pytest.raises(NotFoundError):
        a.set_receipt_timeout(op, 1.0)
    a.send(own, b"y", timeout_s=2.5)
    assert a.receipts()[0].timeout_s == 2.5


def test_an_engine_has_a_default_for_all_receipts() -> None:
    """E11: default time-out readable and settable, for packets and for links."""
    net, a, b, _ = pair()
    own = net.listen(b)
    link = net.link(a, own)
    assert a.receipt_timeout_s is None
    a.receipt_timeout_s = 20.0
    assert a.receipt_timeout_s == 20.0
    a.send(own, b"x")
    link.send(b"x")
    a.send(own, b"x", timeout_s=30.0)
    assert [receipt.timeout_s for receipt in a.receipts()] == [20.0, 20.0, 30.0]
    for wrong in (0.0, -1.0):
        with pytest.raises(ValueError, match="above 0"):
            a.receipt_timeout_s = wrong
    a.receipt_timeout_s = None
    net.advance(30.0)
    a.send(own, b"x")
    (receipt,) = a.receipts()
    assert receipt.timeout_s == pytest.approx(receipt_timeout(1, 10e6))


def test_too_many_receipts_cull_the_oldest() -> None:
    """E11: state incl. culled."""
    net, a, b, _ = pair(limits=Limits(receipts=2))
    own = net.listen(b)
    ops = [a.send(own, b"x") for _ in range(3)]
    net.settle()
    done = net.one(a, ReceiptDone)
    assert (done.op, done.state, done.reason) == (ops[0], ReceiptState.CULLED, "LIMIT")
    assert a.stats().receipts_culled == 1


def test_a_proof_is_implicit_or_explicit_as_set() -> None:
    """E11: proof packet and its form."""
    net, a, b, _ = pair()
    own = net.listen(b, prove="all")
    for implicit, size in ((True, 64), (False, 96)):
        b.set_implicit_proofs(implicit)
        net.forget()
        a.send(own, b"x")
        net.settle()
        done = net.one(a, ReceiptDone)
        assert done.proof is not None
        proof = Packet.unpack(done.proof)
        assert (proof.packet_type, len(proof.payload)) == (PacketType.PROOF, size)
        assert proof.destination == done.packet_hash[:16]
    link = net.link(a, own)
    b.set_implicit_proofs(True)
    net.forget()
    link.send(b"x")
    net.settle()
    proven = net.one(a, ReceiptDone).proof
    assert proven is not None
    assert len(Packet.unpack(proven).payload) == 96  # explicit on links, always


def test_some_packets_have_no_receipt() -> None:
    """E11: rule which packets get none."""
    net, a, b, _ = pair()
    own = net.listen(b)
    plain = b.listen(None, "plain", type=DestinationType.PLAIN)
    assert a.send(own, b"x", receipt=False) is None
    assert a.send(plain, b"x", type=DestinationType.PLAIN) is None
    assert a.send(own, b"x", context=Context.RESOURCE) is None
    link = net.link(a, own)
    assert link.send(b"x", receipt=False).op is None
    assert a.receipts() == []


def test_request_receipts_end_ready_or_failed() -> None:
    """E11: request receipt likewise."""
    net, a, b, _ = pair()
    own = net.listen(b)
    b.handle(own, "/time")
    link = net.link(a, own)
    asked = link.request("/time", timeout_s=4.0)
    assert link.info.requests_pending == 1
    net.settle()
    b.respond(net.one(b, RequestReceived).token, 5)
    net.settle()
    done = net.one(a, ResponseDone)
    assert (done.op, done.ok, done.data, done.stage) == (asked, True, 5, Stage.NONE)
    net.forget()
    asked = link.request("/nobody", timeout_s=4.0)
    net.advance(4.0)
    done = net.one(a, ResponseDone)
    assert (done.op, done.reason, done.stage) == (asked, "TIMEOUT", Stage.REQUEST)
    assert (done.data, done.packed, link.info.requests_pending) == (None, None, 0)


# -------------------------------------------------------------------------------------- E12


def test_own_ratchets_are_listed_rotated_saved_and_loaded() -> None:
    """E12: list of ids, current, previous, latest time, interval, number retained."""
    net, a, b, _ = pair()
    own = net.listen(b, ratchets=True, ratchets_retained=2, ratchet_interval_s=60)
    first = b.ratchets(own)
    assert (len(first.ids), first.previous, first.retained) == (1, None, 2)
    assert (first.interval_s, first.enabled, first.enforced) == (60.0, True, False)
    assert (first.rotated_s, first.rotated_unix_s) == (MONO, UNIX)
    assert a.ratchet_of(own) is not None
    net.advance(60.0)
    b.announce(own)
    net.settle()
    assert b.ratchets(own).current == first.current  # not due yet
    net.advance(0.001)
    b.announce(own)
    net.settle()
    second = b.ratchets(own)
    assert (second.previous, second.rotated_s) == (first.current, MONO + 60.001)
    net.advance(1.0)
    b.rotate(own)  # at a given time, whatever the interval
    third = b.ratchets(own)
    assert third.rotated_s == pytest.approx(MONO + 61.001, abs=1e-5)
    assert third.rotated_unix_s == pytest.approx(UNIX + 61.001, abs=1e-5)
    assert third.ids == (third.current, second.current)
    saved = b.ratchet_file(own)
    assert saved == b.stored[f"ratchets/{own.hex()}"]
    assert Ratchets.load(saved, identity(7)).ids == third.ids
    other = engine()
    other.listen(identity(7), "test.echo", ratchets=True, ratchet_file=saved)
    assert other.ratchets(own).ids == third.ids
    assert other.ratchets(own).rotated_s is None
    with pytest.raises(AuthenticationError):
        engine().listen(identity(8), "test.echo", ratchets=True, ratchet_file=saved)
    with pytest.raises(StateError):
        a.rotate(a.listen(identity(9), "test.other"))
    with pytest.raises(NotFoundError):
        a.ratchets(SOMEONE)
    with pytest.raises(NotFoundError):
        a.ratchet_file(a.listen(identity(9), "test.third"))


def test_a_packet_tells_which_ratchet_opened_it() -> None:
    """E12: id that opened the last payload; a remote's ratchet, used or not."""
    net, a, b, _ = pair()
    own = net.listen(b, ratchets=True)
    a.send(own, b"with")
    a.send(own, b"without", use_ratchet=False)
    net.settle()
    heard = {event.data: event.ratchet_id for event in net.all(b, PacketReceived)}
    assert heard == {b"with": b.ratchets(own).current, b"without": None}


# -------------------------------------------------------------------------------------- E13


def test_destinations_are_remembered_and_recalled() -> None:
    """E13: by destination hash or identity hash, app data None and empty kept apart."""
    ours = engine()
    for number, app_data in ((1, None), (2, b""), (3, b"me")):
        ours.remember(bytes([number]) * 16, identity(number), app_data)
        found = ours.recall(bytes([number]) * 16)
        assert found is not None
        assert (found.identity.hash, found.app_data) == (identity(number).hash, app_data)
        assert ours.recall_identity(identity(number).hash) == found
    assert ours.recall(SOMEONE) is None
    assert ours.recall_identity(identity(9).hash) is None
    with pytest.raises(StateError) as refusal:
        ours.remember(bytes([1]) * 16, identity(2))
    assert refusal.value.reason == "MISMATCH"
    with pytest.raises(KeyMissingError):
        ours.remember(SOMEONE, Identity.without_keys())
    own = ours.listen(identity(7), "test.echo")
    found = ours.recall(own)
    assert found is not None
    assert found.identity.hash == identity(7).hash


def test_an_announce_is_checked_against_the_remembered_key() -> None:
    """E13."""
    ours = engine()
    raw = announced()
    own = Announce.unpack(raw).destination_hash
    assert ours.check_announce(raw) is Verdict.VALID
    ours.remember(own, identity(8))
    assert ours.check_announce(raw) is Verdict.KEY_MISMATCH
    wire = ours.add_interface("wire")
    assert ours.input(wire, raw).reason == DropReason.ANNOUNCE_KEY_MISMATCH
    with pytest.raises(DecodeError):
        ours.check_announce(b"junk")


def test_known_destinations_are_cleared_saved_and_loaded() -> None:
    """E13: save, clear and load on demand."""
    ours = engine()
    for number in range(1, 5):
        ours.remember(bytes([number]) * 16, identity(number), b"%d" % number)
    ours.retain(bytes([1]) * 16)
    saved = ours.known()
    ours.clear_known()
    assert ours.known() == []
    for record in saved:
        ours.put_known(record)
    assert ours.known() == saved
    assert saved[0].retained
    ours.drop_known(bytes([2]) * 16)
    assert len(ours.known()) == 3
    with pytest.raises(NotFoundError):
        ours.drop_known(bytes([2]) * 16)
    with pytest.raises(NotFoundError):
        ours.known_destination(bytes([2]) * 16)
    with pytest.raises(NotFoundError):
        ours.retain(SOMEONE)


def test_the_unused_are_cleaned_away() -> None:
    """E13: clean the unused (RNS 1, 2.5)."""
    ours = engine()
    for number in range(1, 5):
        ours.remember(bytes([number]) * 16, identity(number))
    assert ours.recall(bytes([1]) * 16)
    ours.retain(bytes([2]) * 16)
    wire = ours.add_interface("wire")
    ours.put_path(
        PathRecord(
            destination=DestinationHash(bytes([3]) * 16),
            hops=1,
            interface=wire,
            updated_s=MONO + 1e6,
        )
    )
    assert ours.clean_known() == 0
    ours.advance(360.001)
    assert ours.clean_known() == 1  # never used, heard six minutes ago
    assert {record.destination[0] for record in ours.known()} == {1, 2, 3}
    ours.advance(756000.0)
    assert ours.clean_known() == 1  # used, but long ago
    assert {record.destination[0] for record in ours.known()} == {2, 3}


def test_a_destination_in_use_is_not_dropped() -> None:
    """E13: what a link needs stays."""
    net, a, b, _ = pair()
    own = net.listen(b)
    net.link(a, own)
    a.clear_known()
    assert a.recall(own) is not None or a.known() == []


# ------------------------------------------------------------------- the rest of the facade


def test_a_full_table_is_a_limit() -> None:
    """E6: nothing grows without bound."""
    ours = engine(limits=Limits(ifaces=1, destinations=1, links=1, known=1, requests=1))
    ours.add_interface("one")
    with pytest.raises(LimitReached):
        ours.add_interface("two")
    ours.listen(identity(7), "one")
    with pytest.raises(LimitReached):
        ours.listen(identity(7), "two")
    ours.remember(SOMEONE, identity(8))
    ours.open_link(SOMEONE)
    with pytest.raises(LimitReached):
        ours.open_link(SOMEONE)
    ours.retain(SOMEONE)
    with pytest.raises(LimitReached):
        ours.remember(bytes([1]) * 16, identity(9))
    assert ours.limits.ifaces == 1
    assert ours.limits.receipts == 1024
    assert ours.stats().links_refused == 1


def test_what_must_be_durable_is_stored_before_it_is_promised() -> None:
    """E12: a store that fails fails the announce, and nothing leaves."""
    kept: list[str] = []

    def store(name: str, data: bytes) -> None:
        kept.append(name)
        if "refused" in kept:
            raise OSError("disk full")

    net, a, b, wire = pair(store=store)
    own = net.listen(b, ratchets=True)
    assert kept == [f"ratchets/{own.hex()}", f"announced/{own.hex()}"]
    kept.append("refused")
    seen = len(wire.seen)
    net.advance(1801.0)
    net.forget()
    b.announce(own)
    net.settle()
    done = net.one(b, AnnounceSent)
    assert (done.ok, done.stage) == (False, Stage.STORE)
    assert len(wire.seen) == seen
    assert b.stored == {}
    assert a.ratchet_of(own) is not None


def test_a_failing_store_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """E1: no exception is swallowed."""

    def store(name: str, data: bytes) -> None:
        raise OSError("disk full")

    ours = engine(store=store)
    ours.add_interface("wire")
    with caplog.at_level(logging.ERROR, "netmesh.engine"):
        ours.announce(ours.listen(identity(7), "test"))
    assert "disk full" in caplog.text
    assert "announced/" in caplog.text


def test_an_interrupt_in_the_store_passes_through() -> None:
    """E1: and the engine stays usable."""

    def store(name: str, data: bytes) -> None:
        raise KeyboardInterrupt

    ours = engine(store=store)
    ours.add_interface("wire")
    own = ours.listen(identity(7), "test")
    with pytest.raises(KeyboardInterrupt):
        ours.announce(own)
    (done,) = [event for event in ours.events() if isinstance(event, AnnounceSent)]
    assert done.stage == Stage.STORE


def test_an_engine_refuses_to_be_entered_twice() -> None:
    """E1: used by one thread at a time."""
    refused: list[Exception] = []

    def store(name: str, data: bytes) -> None:
        for call in (ours.events, ours.tick, ours.stats, ours.close):
            with pytest.raises(StateError) as refusal:
                call()
            refused.append(refusal.value)

    ours = engine(store=store)
    ours.add_interface("wire")
    ours.announce(ours.listen(identity(7), "test"))
    assert len(refused) == 4
    assert len(ours.outputs()) == 1


def test_another_thread_may_take_over_between_calls() -> None:
    """E1."""
    ours = engine()
    wire = ours.add_interface("wire")
    thread = threading.Thread(target=ours.input, args=(wire, announced()))
    thread.start()
    thread.join()
    assert len(ours.paths()) == 1


def test_a_forked_process_does_not_use_its_parents_engine() -> None:
    """E1: fork detected."""
    ours = engine()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ours.tick()
            os.write(writer, b"used")
        except StateError:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"refused"
    os.close(reader)
    os.close(writer)
    ours.tick()


def test_a_closed_engine_ends_everything_and_can_be_drained() -> None:
    """E7: reason of the end."""
    net, a, b, _ = pair()
    own = net.listen(b)
    b.handle(own, "/slow")
    link = net.link(a, own)
    asked = link.request("/slow")
    waiting = a.request_path(SOMEONE, timeout_s=60.0)
    with a:
        pass
    assert a.closed
    a.close()
    assert net.all(a, LinkClosed) == []
    net.settle()
    assert net.one(a, LinkClosed).reason == CloseReason.SHUTDOWN
    assert net.one(a, ResponseDone).op == asked
    assert net.one(a, PathResult).op == waiting
    assert net.one(b, LinkClosed).reason == CloseReason.INITIATOR
    assert a.stats().operations == 0
    assert a.link(link.ref).info.state == LinkState.CLOSED
    for call in (a.tick, lambda: a.send(own, b"x"), lambda: a.add_interface("x")):
        with pytest.raises(StateError):
            call()
    with pytest.raises(StateError, match="closed"):
        a.request_path(own)


def test_an_engine_in_a_cycle_is_collected() -> None:
    """E1: its store may refer to it."""
    count = 0

    class Store:
        def __init__(self) -> None:
            self.engine = engine(store=self.keep)

        def keep(self, name: str, data: bytes) -> None:
            pass

        def __del__(self) -> None:
            nonlocal count
            count += 1

    for _ in range(5):
        Store().engine.add_interface("wire")
    gc.collect()
    assert count == 5


def test_credit_holds_data_back_until_there_is_room() -> None:
    """E6: what would need an event is not accepted without credit."""
    net = Net(1)
    (a,) = net.engines
    b = engine(credit=0, seed=seed(9))
    net.engines.append(b)
    net.heard[b] = []
    wire = net.join(a, b)
    own = net.listen(b, prove="all")
    raw = a.seal(own, b"hello")
    verdict = b.input(wire.at(b), raw)
    assert (verdict.reason, verdict.remembered) == (DropReason.NO_CREDIT, False)
    assert b.stats().held_for_credit == 1
    b.credit(1)
    assert b.input(wire.at(b), raw).accepted
    assert b.input(wire.at(b), a.seal(own, b"more")).reason == DropReason.NO_CREDIT
    net.settle()
    assert net.one(b, PacketReceived).data == b"hello"


def test_a_resource_carries_metadata_as_values_or_packed() -> None:
    """E8: the raw form is reachable too."""
    net, a, b, _ = pair()
    own = net.listen(b, resources="all")
    b.handle(own, "/file")
    link = net.link(a, own)
    link.send_resource(b"content", metadata={"name": b"a.txt"})
    link.send_resource(b"content", packed_metadata=b"\x05")
    link.send_resource(b"content")
    net.settle()
    found = net.all(b, ResourceReceived)
    assert [event.metadata for event in found] == [{"name": b"a.txt"}, 5, None]
    assert [event.packed_metadata for event in found][1:] == [b"\x05", None]
    assert all(event.ok for event in net.all(a, ResourceSent))
    with pytest.raises(ValueError, match="not both"):
        link.send_resource(b"x", metadata=1, packed_metadata=b"\x01")
    with pytest.raises(EncodeError):
        link.send_resource(b"x", packed_metadata=bytes(1048576))
    link.request("/file")
    net.settle()
    (*_, request) = net.all(b, RequestReceived)
    b.respond_file(request.token, b"the file", {"size": 8})
    net.settle()
    answer = net.one(a, ResponseDone)
    assert (answer.data, answer.metadata) == (b"the file", {"size": 8})
    with pytest.raises(StateError):
        b.respond(request.token, 1)
    with pytest.raises(ValueError, match="not both"):
        link.request("/file", 1, packed=b"\x01")


def test_sending_without_a_way_says_which_interface() -> None:
    """E6: each failure says where it failed."""
    ours = engine()
    ours.remember(SOMEONE, identity(8))
    with pytest.raises(NoRouteError) as refusal:
        ours.send(SOMEONE, b"x")
    assert refusal.value.interface is None
    with pytest.raises(NoRouteError):
        ours.open_link(SOMEONE)
    wire = ours.add_interface("the radio", online=False)
    ours.put_path(PathRecord(destination=SOMEONE, hops=1, interface=wire))
    with pytest.raises(NoRouteError, match="the radio") as refusal:
        ours.open_link(SOMEONE)
    assert refusal.value.interface == "the radio"
    with pytest.raises(NoRouteError):
        ours.request_path(SOMEONE)
    ours.change_interface(wire, online=True)
    with pytest.raises(NotFoundError):
        ours.send(bytes(16), b"x")


def test_events_keep_their_order_and_clock() -> None:
    """E6."""
    net, a, b, _ = pair()
    own = net.listen(b)
    a.send(own, b"one", receipt=False)
    net.settle()
    net.advance(2.5)
    a.send(own, b"two", receipt=False)
    net.settle()
    times = [(e.data, e.time_s, e.time_unix_s) for e in net.all(b, PacketReceived)]
    assert times == [(b"one", MONO, UNIX), (b"two", MONO + 2.5, UNIX + 2.5)]


def test_outputs_may_be_reported_by_hand() -> None:
    """E6: an announce completes when an interface has taken it."""
    ours = engine()
    ours.add_interface("wire")
    own = ours.listen(identity(7), "test")
    op = ours.announce(own)
    (output,) = ours.outputs(report=False)
    assert output.op == op
    assert not [event for event in ours.events() if isinstance(event, AnnounceSent)]
    ours.sent(op, False)
    (done,) = [event for event in ours.events() if isinstance(event, AnnounceSent)]
    assert (done.op, done.ok, done.stage) == (op, False, Stage.SEND)
    op = ours.announce(own)
    ours.outputs()
    (done,) = [event for event in ours.events() if isinstance(event, AnnounceSent)]
    assert (done.op, done.ok, done.emitted_unix_s) == (op, True, int(UNIX) + 1)
