"""The pitfalls of RNS 1, section 11, on the engine; each test names its number there.

Those that are not here have their test elsewhere: the forms and digests (1, 2, 5, 6, 8 to 11,
13) with the vectors, hops and control traffic (3, 4, 15, 25, 27) in test_transport and
test_transport_vectors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.test_transport import announce, target
from engine.test_transport_vectors import CORE, ME, MTUS, learn_bob, put_path, relay, sent, the
from engine.wires import MONO, UNIX, Net, identity, pair, seed
from golden import name_of, vectors
from netmesh import Announce, DestinationHash, Engine, Packet
from netmesh.constants import Context, DestinationType, InterfaceMode, PacketType
from netmesh.control import PathRequest
from netmesh.events import AnnounceHeard, PacketReceived, ReceiptDone
from netmesh.ifac import Ifac
from netmesh.link import link_id
from netmesh.records import DropReason, IngressNumbers, InterfaceRole, PathRecord
from netmesh.transport import QueuedRecord, RateRecord, TransitRecord

PATH_REQUESTS = PathRequest(DestinationHash(bytes(16)), tag=b"t").packet().destination


def asked(frame: bytes) -> PathRequest:
    """The path request in a frame."""
    return PathRequest.unpack(Packet.unpack(frame).payload)


def crossing(*, kind: str = "tcp", **options: Any) -> tuple[Net, Engine, Engine, Engine]:
    """Two endpoints with a transport node between them."""
    net = Net(0)
    net.engines = [
        Engine(clock=(MONO, UNIX), seed=seed(n + 1), transport=n == 1, **options) for n in range(3)
    ]
    net.heard = {engine: [] for engine in net.engines}
    a, middle, b = net.engines
    net.join(a, middle, kind)
    net.join(middle, b, kind)
    return net, a, middle, b


# ------------------------------------------------------------------ 7: the context flag


def test_a_relayed_announce_keeps_the_context_flag_and_data_lose_it() -> None:
    """7: kept in HEADER_2, so that the ratchet is found; cleared on what is no announce."""
    net, a, middle, b = crossing()
    a.subscribe()
    inbox = b.listen(identity(7), "test.inbox", ratchets=True)
    b.announce(inbox)
    net.settle()
    net.advance(2.0)
    relayed = [p for p in net.wires[0].frames(middle) if p.packet_type == PacketType.ANNOUNCE]
    assert relayed
    assert all(packet.context_flag and packet.transport_id for packet in relayed)
    assert net.one(a, AnnounceHeard).ratchet_id == b.ratchets(inbox).current
    vector = the("transport-forward-last-hop")
    engine, (asks, owns) = relay()
    put_path(engine, owns, vector["input"])
    received = bytes.fromhex(vector["input"]["received_raw"])
    engine.input(asks, bytes([received[0] | 0x20]) + received[1:])
    assert sent(engine) == {owns: [bytes.fromhex(vector["output"]["sent_raw"])]}


# ---------------------------------------------------------- 12: access codes everywhere


@pytest.mark.parametrize("vector", vectors(CORE, "queued_announce_ifac"), ids=name_of)
def test_queued_announces_leave_with_the_access_code(vector: dict[str, Any]) -> None:
    """12: byte for byte what upstream sends."""
    given = vector["input"]
    raw = bytes.fromhex(given["raw"])
    engine, _ = relay(0)
    code = Ifac.from_key(bytes.fromhex(given["ifac_key"]), size=given["ifac_size"])
    slow = engine.add_interface("slow", **MTUS, ifac=code)
    packet = Packet.unpack(raw)
    engine.put_queued(
        QueuedRecord(
            interface=slow,
            destination=DestinationHash(packet.destination),
            packet=raw,
            hops=raw[1],
            since_s=MONO,
        )
    )
    engine.advance(1.0)
    assert sent(engine) == {slow: [bytes.fromhex(vector["output"]["sent"])]}


def test_held_announces_are_taken_without_a_second_look_at_their_access_code() -> None:
    """12: they were checked on arrival; let go, each of them becomes a path."""
    engine, _ = relay(0)
    code = Ifac(passphrase="held")
    numbers = IngressNumbers(penalty_s=3.0, release_s=0.5)
    one = engine.add_interface("one", kind="tcp", ifac=code, ingress=numbers)
    for number in range(3, 23):
        assert engine.input(one, code.mask(announce(number))).reason is not DropReason.IFAC_WRONG
        engine.advance(0.05)
    assert len(engine.held()) > 10
    engine.advance(60.0)
    assert engine.held() == []
    assert len(engine.paths()) == 20
    drops = engine.counters(one).drops
    assert not any(drops.get(reason) for reason in DropReason if reason.name.startswith("IFAC"))


# --------------------------------------------------- 14: PLAIN and GROUP, and their twins


@pytest.mark.parametrize("kind", [DestinationType.PLAIN, DestinationType.GROUP])
def test_plain_and_group_packets_are_never_duplicates(kind: DestinationType) -> None:
    """14: the same packet twice is delivered twice."""
    net, a, b, wire = pair()
    options: dict[str, Any] = {"type": kind}
    if kind is DestinationType.GROUP:
        options["group_key"] = bytes(range(64))
    who = identity(7) if kind is DestinationType.GROUP else None
    own = b.listen(who, "test.all", **options)
    a.send(own, b"twice", **options)
    net.settle()
    (_, frame) = wire.seen[-1]
    assert b.input(wire.at(b), frame).accepted
    net.settle()
    assert [event.data for event in net.all(b, PacketReceived)] == [b"twice", b"twice"]


# ------------------------------------------------ 16, 17: path requests and their answers


def test_a_search_for_a_client_has_a_tag_of_its_own() -> None:
    """16: a recursive search keeps the tag (the vectors); one for a local client does not."""
    engine, _ = relay(0, shared_instance=True)
    client = engine.add_interface("client", kind="local", role=InterfaceRole.LOCAL_CLIENT)
    outside = [engine.add_interface(name, **MTUS) for name in ("one", "two")]
    wanted = target(9)
    engine.input(client, PathRequest(wanted, tag=bytes(16)).packet().pack())
    out = sent(engine)
    assert set(out) == set(outside)
    tags = {asked(frame).tag for frames in out.values() for frame in frames}
    assert len(tags) == 1
    assert tags != {bytes(16)}
    assert {asked(frame).destination for frames in out.values() for frame in frames} == {wanted}


def test_a_fresh_tag_does_not_get_a_request_past_one_that_is_under_way() -> None:
    """16: other tags and other askers wait for the same answer, and all of them get it."""
    engine, _ = relay(0)
    asks = [engine.add_interface(f"asks {n}", mode=InterfaceMode.GATEWAY, **MTUS) for n in range(2)]
    out = engine.add_interface("out", **MTUS)
    for number, interface in enumerate((asks[0], asks[0], asks[1])):
        engine.input(interface, PathRequest(target(9), tag=bytes([number]) * 16).packet().pack())
    assert [len(frames) for to, frames in sent(engine).items() if to == out] == [1]
    engine.input(out, announce(9))
    answers = sent(engine)
    for interface in asks:
        (answer,) = answers[interface]
        assert Packet.unpack(answer).context == Context.PATH_RESPONSE


def test_a_path_response_goes_where_it_was_asked_for_past_caps_and_rates() -> None:
    """17: HEADER_2 with the relay's id, on that interface alone, however busy that is."""
    engine, _ = relay(0)
    slow, other, owns = (
        engine.add_interface(name, **MTUS, **options)
        for name, options in (
            ("slow", {"bitrate": 300, "rate_target_s": 3600}),
            ("other", {}),
            ("owns", {}),
        )
    )
    engine.input(owns, announce(3))
    engine.advance(60.0)
    engine.input(owns, announce(4))
    engine.advance(1.0)  # the slow one has had its share for a long time
    sent(engine)
    engine.put_rate(RateRecord(destination=target(3), last_s=MONO, blocked_until_s=MONO + 9999))
    engine.input(slow, PathRequest(target(3), tag=b"tag").packet().pack())
    engine.advance(0.5)
    (answer,) = sent(engine).pop(slow)
    packet = Packet.unpack(answer)
    assert (packet.context, packet.transport_id) == (Context.PATH_RESPONSE, ME.hash)
    assert packet.destination == target(3)
    assert sent(engine).get(other) is None


def test_a_path_response_teaches_a_path_and_is_not_rebroadcast() -> None:
    """17."""
    engine, (one, _) = relay()
    made = Announce.create(identity(3), "test.far", path_response=True)
    assert engine.input(one, made.raw).accepted
    assert engine.hops(made.destination_hash) == 1
    assert engine.rebroadcasts() == []
    engine.advance(30.0)
    assert sent(engine) == {}


def test_a_destination_answers_for_itself_without_a_transport_id() -> None:
    """17 and 28: HEADER_1, also where transport is off, on the asking interface only."""
    engine, (one, _) = relay(transport=False)
    own = engine.listen(identity(7), "test.own")
    engine.input(one, PathRequest(own, tag=b"tag").packet().pack())
    engine.advance(2.0)
    ((interface, (answer,)),) = sent(engine).items()
    packet = Packet.unpack(answer)
    assert (interface, packet.context, packet.transport_id) == (one, Context.PATH_RESPONSE, None)


# ------------------------------------------------------------ 18: a neighbour's own header


@pytest.mark.parametrize("vector", vectors(CORE, "transport_outbound"), ids=name_of)
def test_a_packet_gets_the_transport_id_of_its_path(vector: dict[str, Any]) -> None:
    """18: of a path of several hops; over one hop the packet goes as it is."""
    given = vector["input"]
    packed = bytes.fromhex(given["packed_header1"])
    where = DestinationHash(Packet.unpack(packed).destination)
    next_hop = bytes.fromhex(given["next_hop"])
    inserted = bytes.fromhex(vector["output"]["sent_raw"])
    for hops, role, expected in (
        (given["path_hops"], InterfaceRole.ORDINARY, inserted),
        (1, InterfaceRole.ORDINARY, packed),
        (1, InterfaceRole.SHARED_CONNECTION, inserted),
    ):
        engine, _ = relay(0, transport=False)
        kind = "local" if role is InterfaceRole.SHARED_CONNECTION else "tcp"
        out = engine.add_interface("out", kind=kind, role=role)
        engine.put_path(
            PathRecord(
                destination=where, hops=hops, next_hop=next_hop, interface=out, expires_s=1e6
            )
        )
        engine.outputs()
        engine.inject(packed)
        assert sent(engine) == {out: [expected]}, (hops, role)


# -------------------------------------------------------- 19, 22: links that pass through


@pytest.mark.parametrize("vector", vectors(CORE, "link_forward"), ids=name_of)
def test_a_packet_of_a_link_passes_by_interface_and_hops(vector: dict[str, Any]) -> None:
    """19 and 22: only with the exact count from the right side, and only then is it remembered."""
    given, expected = vector["input"], vector["output"]
    raw = bytes.fromhex(given["raw"])
    engine, ids = relay(3)
    engine.put_transit(
        TransitRecord(
            link_id=Packet.unpack(raw).destination,
            destination=target(3),
            next_interface=ids[given["next_hop_interface"] - 1],
            received_interface=ids[given["received_interface"] - 1],
            remaining=given["remaining_hops"],
            taken=given["taken_hops"],
            validated=given["validated"],
            used_s=MONO,
            deadline_s=MONO + 60,
        )
    )
    verdict = engine.input(ids[given["arrival_interface"] - 1], raw)
    out = sent(engine)
    if expected["sent_on"] is None:
        assert out == {}
        assert not verdict.accepted
    else:
        assert out == {ids[expected["sent_on"] - 1]: [bytes.fromhex(expected["sent_raw"])]}
    assert verdict.remembered is expected.get("hash_remembered", expected["sent_on"] is not None)


def test_a_packet_that_is_overheard_does_not_spoil_the_one_that_is_meant() -> None:
    """22: not remembered on the wrong side, so the copy on the right one passes, once."""
    vector = next(v for v in vectors(CORE, "link_forward") if v["output"]["sent_on"] is not None)
    given = vector["input"]
    raw = bytes.fromhex(given["raw"])
    engine, ids = relay(4)
    sides = {given["next_hop_interface"], given["received_interface"]}
    engine.put_transit(
        TransitRecord(
            link_id=Packet.unpack(raw).destination,
            destination=target(3),
            next_interface=ids[given["next_hop_interface"] - 1],
            received_interface=ids[given["received_interface"] - 1],
            remaining=given["remaining_hops"],
            taken=given["taken_hops"],
            validated=True,
            used_s=MONO,
            deadline_s=MONO + 60,
        )
    )
    overheard = engine.input(ids[3], raw)
    assert 4 not in sides
    assert (overheard.accepted, overheard.remembered) == (False, False)
    right = ids[given["arrival_interface"] - 1]
    assert engine.input(right, raw).remembered
    assert len(sent(engine)) == 1
    assert engine.input(right, raw).reason is DropReason.DUPLICATE


def passing_link() -> tuple[Engine, int, int, bytes]:
    """A relay that has passed a link request on, its two sides, and the proof that answers."""
    engine, _ = relay(0)
    asks = engine.add_interface("asks", **(MTUS | {"mtu": 1064}))
    owns = engine.add_interface("owns", **(MTUS | {"mtu": 8192}))
    learn_bob(engine, owns)
    engine.advance(10.0)
    sent(engine)
    engine.input(asks, bytes.fromhex(the("transport-linkrequest-strip")["input"]["received_raw"]))
    sent(engine)
    return engine, asks, owns, bytes.fromhex(the("transport-lrproof")["input"]["received_raw"])


def test_a_link_proof_is_not_remembered_by_a_relay() -> None:
    """22: only the initiator that takes it remembers it."""
    engine, asks, owns, proof = passing_link()
    for _ in range(2):
        assert not engine.input(owns, proof).remembered
    assert set(sent(engine)) == {asks}


def test_all_else_is_remembered_in_the_step_of_the_test() -> None:
    """22 and 8.4: with the work on it still undone, a second copy is a duplicate already."""
    engine, (one, two) = relay(inline_jobs=False)
    own = engine.listen(identity(7), "test.own")
    a = Engine(clock=(MONO, UNIX), seed=seed(5))
    a.add_interface("out")
    a.remember(own, identity(7))
    packet = a.seal(own, b"once")
    first = engine.input(one, packet)
    assert (first.pending, first.remembered) == (True, True)
    assert engine.input(two, packet).reason is DropReason.DUPLICATE
    while engine.pending_jobs:
        engine.run_job()
    assert [e.data for e in engine.events() if isinstance(e, PacketReceived)] == [b"once"]


def test_the_id_of_a_link_ignores_what_the_packet_hash_does_not() -> None:
    """19: the three signalling bytes."""
    raw = bytes.fromhex(the("transport-linkrequest-strip")["input"]["received_raw"])
    whole, stripped = Packet.unpack(raw), Packet.unpack(raw[:-3])
    assert len(whole.payload) == 67
    assert link_id(whole.pack()) == link_id(stripped.pack())
    assert whole.hash != stripped.hash


# --------------------------------------------------------- 20, 23: what a relay verifies


def test_a_relay_verifies_the_proof_of_a_link() -> None:
    """20: a wrong signature is counted as a violation; the true proof passes after it."""
    engine, asks, owns, proof = passing_link()
    forged = proof[:19] + bytes([proof[19] ^ 1]) + proof[20:]
    verdict = engine.input(owns, forged)
    assert verdict.reason is DropReason.LINK_PROOF_SIGNATURE
    assert sent(engine) == {}
    assert engine.counters(owns).violations == 1
    assert not engine.transits()[0].validated
    assert engine.input(owns, proof).accepted
    assert set(sent(engine)) == {asks}
    assert engine.transits()[0].validated


def test_a_relay_passes_no_proof_of_a_destination_that_it_does_not_know() -> None:
    """20: it needs the destination's key, from an announce."""
    engine, _, owns, proof = passing_link()
    (transit,) = engine.transits()
    engine.put_transit(replace(transit, destination=target(9)))
    assert not engine.input(owns, proof).accepted
    assert sent(engine) == {}


@pytest.mark.parametrize("length", [64, 96])
def test_a_relay_carries_the_proof_of_a_packet_unseen(length: int) -> None:
    """20: whatever it says; its end verifies it."""
    vector = the("transport-forward-last-hop")
    engine, (asks, owns) = relay()
    put_path(engine, owns, vector["input"])
    engine.input(asks, bytes.fromhex(vector["input"]["received_raw"]))
    sent(engine)
    (reverse,) = engine.reverses()
    proof = bytes([0x03, 0]) + reverse.packet + b"\0" + bytes(length)
    engine.input(owns, proof)
    assert sent(engine) == {asks: [bytes([0x03, 1]) + proof[2:]]}


@pytest.mark.parametrize("length", [63, 65, 95, 97])
def test_a_proof_has_one_of_two_lengths(length: int) -> None:
    """23."""
    net, a, b, wire = pair()
    inbox = net.listen(b, prove="none")
    op = a.send(inbox, b"x")
    net.settle()
    packet = wire.frames(a)[-1]
    verdict = a.input(wire.at(a), bytes([0x03, 0]) + packet.hash[:16] + b"\0" + bytes(length))
    assert verdict.reason is DropReason.PROOF_LENGTH
    assert [e for e in net.all(a, ReceiptDone) if e.op == op] == []


# ------------------------------------------------------------- 24: announces that travel


@pytest.mark.parametrize(("ratchets", "limit"), [(False, 317), (True, 285)])
def test_app_data_up_to_a_limit_travels(ratchets: bool, limit: int) -> None:
    """24 and 5.4: one byte more is heard by the neighbour, and stops no other announce."""
    net, a, middle, b = crossing()
    a.subscribe()
    middle.subscribe()
    fits = b.listen(identity(7), "test.fits", ratchets=ratchets)
    beyond = b.listen(identity(8), "test.beyond", ratchets=ratchets)
    other = b.listen(identity(9), "test.other")
    b.announce(fits, bytes(limit))
    b.announce(beyond, bytes(limit + 1))
    b.announce(other)
    net.settle()
    net.advance(10.0)
    assert {e.destination for e in net.all(middle, AnnounceHeard)} == {fits, beyond, other}
    assert {e.destination for e in net.all(a, AnnounceHeard)} == {fits, other}


# -------------------------------------------------- 26: the first copy of an announce wins


def test_a_shorter_way_of_the_same_second_does_not_replace_a_path() -> None:
    """26: not the same announce again, and no other one that was made in that second."""
    engine, (one, two) = relay()
    engine.input(one, announce(3, hops=4))
    assert engine.path(target(3)).hops == 5
    assert engine.input(two, announce(3, hops=0)).reason is DropReason.ANNOUNCE_REPLAY
    twin = Announce.create(identity(3), "test.far", emitted=int(UNIX), random=b"other")
    assert engine.input(two, twin.raw).reason is DropReason.ANNOUNCE_WORSE
    assert (engine.path(target(3)).hops, engine.path(target(3)).interface) == (5, one)
    later = Announce.create(identity(3), "test.far", emitted=int(UNIX) + 1, random=b"later")
    assert engine.input(two, later.raw).accepted
    assert (engine.path(target(3)).hops, engine.path(target(3)).interface) == (1, two)


# ------------------------------------------------------ what upstream 1.5.7 still does


def test_a_destination_that_was_never_used_stays_for_its_six_minutes() -> None:
    """2.5: without a path and never used it goes after 360 s, not at the first cleaning."""
    engine, (one, _) = relay()
    engine.input(one, announce(3))
    engine.drop_path(target(3))
    engine.advance(301.0)
    assert engine.clean_known() == 0
    engine.advance(60.0)
    assert engine.clean_known() == 1
    assert engine.known() == []


def test_a_request_that_led_to_nothing_holds_up_no_other() -> None:
    """8.9.4: nobody was asked, so who may search is not told that it is under way."""
    engine, (one, _) = relay()
    verdict = engine.input(one, PathRequest(target(9), tag=b"first").packet().pack())
    assert verdict.reason is DropReason.PATH_REQUEST_UNKNOWN
    assert sent(engine) == {}
    gate = engine.add_interface("gate", mode=InterfaceMode.GATEWAY, **MTUS)
    engine.input(gate, PathRequest(target(9), tag=b"second").packet().pack())
    assert one in sent(engine)
    engine.input(gate, PathRequest(target(9), tag=b"third").packet().pack())
    assert sent(engine) == {}


@pytest.mark.parametrize(
    ("packet_type", "destination_type"),
    [
        (PacketType.DATA, DestinationType.SINGLE),
        (PacketType.DATA, DestinationType.GROUP),
        (PacketType.DATA, DestinationType.LINK),
        (PacketType.PROOF, DestinationType.PLAIN),
        (PacketType.LINKREQUEST, DestinationType.PLAIN),
    ],
)
def test_only_a_plain_packet_of_data_is_a_path_request(
    packet_type: PacketType, destination_type: DestinationType
) -> None:
    """11: not whatever else has the same destination hash."""
    engine, (one, _) = relay()
    own = engine.listen(identity(7), "test.own")
    raw = PathRequest(own, tag=b"tag").packet().pack()
    flags = (raw[0] & 0xF0) | (destination_type << 2) | packet_type
    engine.input(one, bytes([flags]) + raw[1:])
    engine.advance(2.0)
    assert (sent(engine), engine.path_tags(), engine.counters(one).path_requests_in) == ({}, [], 0)
    assert engine.input(one, raw).accepted


def test_signal_values_belong_to_their_frame() -> None:
    """8.5 step 3: one without values does not get those of the one before."""
    engine, (one, _) = relay()
    engine.subscribe()
    engine.input(one, announce(3), rssi_dbm=-80, snr_db=7.25, quality_pct=90)
    engine.input(one, announce(4))
    first, second = (e for e in engine.events() if isinstance(e, AnnounceHeard))
    assert (first.rssi_dbm, first.snr_db, first.quality_pct) == (-80, 7.25, 90)
    assert (second.rssi_dbm, second.snr_db, second.quality_pct) == (None, None, None)


def test_letting_held_announces_go_makes_no_burst_longer() -> None:
    """8.15: they do not count as arrivals again; they all go at the stated pace."""
    engine, _ = relay(0)
    numbers = IngressNumbers(penalty_s=5.0, release_s=1.0, hold_s=5.0)
    one = engine.add_interface("one", kind="tcp", ingress=numbers)
    for number in range(3, 43):
        engine.input(one, announce(number))
        engine.advance(0.02)
    held = len(engine.held())
    assert held > 30
    engine.advance(5.0 + held + 10.0)
    assert engine.held() == []


# -------------------------------------------------------------- 5.8: rates of announces


@pytest.mark.parametrize("vector", vectors(CORE, "announce_rate"), ids=name_of)
def test_who_announces_too_often_is_not_rebroadcast(vector: dict[str, Any]) -> None:
    """5.8: each arrival as upstream decides it; all of them are paths all the same."""
    given = vector["input"]
    engine, _ = relay(0)
    one = engine.add_interface(
        "one",
        **MTUS,
        rate_target_s=given["target"],
        rate_grace=given["grace"],
        rate_penalty_s=given["penalty"],
    )
    blocked = []
    for second in given["arrival_times"]:
        engine.set_clock(MONO + second, UNIX + second)
        engine.tick()
        for record in engine.rebroadcasts():
            engine.drop_rebroadcast(record)
        engine.input(one, announce(3, at=UNIX + second))
        assert engine.path(target(3)).updated_s == engine.now[0]
        blocked.append(engine.rebroadcasts() == [])
    assert blocked == vector["output"]["rebroadcast_blocked"]
