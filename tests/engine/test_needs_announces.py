"""What users of this network complained about on announces, ratchets, access codes and
load, one test a row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.wires import MONO, UNIX, identity, pair, seed
from inputs import flips, truncations
from netmesh import Announce, DestinationHash, Engine, Packet, Ratchets
from netmesh.errors import AuthenticationError, DecodeError, NetmeshError
from netmesh.events import AnnounceHeard, PacketReceived, PathResult, ReceiptDone
from netmesh.ifac import Ifac
from netmesh.records import DropReason, Stage

SOMEONE = DestinationHash(bytes([9]) * 16)


def hearing() -> tuple[Engine, int]:
    """An engine that hears all announces."""
    engine = Engine(clock=(MONO, UNIX), seed=seed(1))
    wire = engine.add_interface("wire")
    engine.subscribe(path_responses=True)
    return engine, wire


def test_an_announce_carries_five_random_bytes_and_its_time() -> None:
    """C1: 5 random bytes and 40 bits of big-endian seconds."""
    net, a, b, wire = pair()
    a.subscribe()
    b.set_clock(MONO, 1_800_000_001.9)
    net.listen(b)
    (packet,) = wire.frames(b)
    announce = Announce.unpack(packet)
    assert announce.random_hash[5:] == (1_800_000_001).to_bytes(5, "big")
    assert net.one(a, AnnounceHeard).emitted_unix_s == 1_800_000_001
    b.set_clock(MONO, 1_700_000_000.0)  # the wall clock goes back, the emission time does not
    for later in (1, 2):
        b.announce(announce.destination_hash)
        net.settle()
        assert Announce.unpack(wire.frames(b)[-1]).emitted == 1_800_000_001 + later
    assert len(net.all(a, AnnounceHeard)) == 3  # and each is newer than the one before
    assert Announce.unpack(wire.frames(b)[-1]).random_hash[:5] != announce.random_hash[:5]


@pytest.mark.parametrize("ratchet", [False, True])
@pytest.mark.parametrize("app_data", [None, b"", b"me"])
def test_announces_are_heard_with_and_without_ratchet_and_app_data(
    ratchet: bool, app_data: bytes | None
) -> None:
    """C2: the context flag decides the layout; a drop has a counter and a reason."""
    keys = Ratchets()
    keys.rotate(UNIX)
    raw = Announce.create(
        identity(7),
        "test",
        app_data=app_data,
        ratchet=keys.current_public if ratchet else None,
    ).raw
    engine, wire = hearing()
    assert engine.input(wire, raw).accepted
    (heard,) = [event for event in engine.events() if isinstance(event, AnnounceHeard)]
    assert heard.ratchet_id == (keys.current_id if ratchet else None)
    assert (heard.app_data or b"") == (app_data or b"")
    flipped = bytes([raw[0] ^ 0x20]) + raw[1:]
    verdict = hearing()[0].input(1, flipped)
    assert verdict.reason in (DropReason.ANNOUNCE_SIGNATURE, DropReason.ANNOUNCE_MALFORMED)
    engine, wire = hearing()
    engine.input(wire, flipped)
    assert engine.counters(wire).drops == {verdict.reason: 1}
    assert engine.stats().drops == {verdict.reason: 1}


def test_every_retained_ratchet_opens_newest_first_then_the_identity() -> None:
    """C3: and the one that opened it is told."""
    for enforce in (False, True):
        net, a, b, wire = pair()
        own = net.listen(b, ratchets=True, ratchets_retained=5, enforce_ratchets=enforce)
        sealed = {}
        for _ in range(7):
            current = b.ratchets(own).current
            sealed[current] = a.seal(own, b"for " + (current or b""))
            b.rotate(own)
            net.advance(1.0)
            b.announce(own)
            net.settle()
        kept = b.ratchets(own).ids
        assert len(kept) == 5
        for number, raw in sealed.items():
            net.forget()
            verdict = b.input(wire.at(b), raw)
            net.settle()
            if number in kept:
                assert net.one(b, PacketReceived).ratchet_id == number
            else:
                wanted = DropReason.RATCHET_REQUIRED if enforce else DropReason.DECRYPT
                assert verdict.reason == wanted
        net.forget()
        verdict = b.input(wire.at(b), a.seal(own, b"plain", use_ratchet=False))
        net.settle()
        if enforce:
            assert verdict.reason == DropReason.RATCHET_REQUIRED
        else:
            assert net.one(b, PacketReceived).ratchet_id is None


@pytest.mark.parametrize("retained", [1, 4, 512])
def test_ids_stay_those_of_the_keys_through_rotations(retained: int) -> None:
    """A rotation makes one id, and takes over the others as long as their keys are retained."""
    engine = Engine(clock=(MONO, UNIX))
    own = engine.listen(
        identity(1), "test.inbox", ratchets=True, ratchet_interval_s=1, ratchets_retained=retained
    )
    for rotations in range(1, 8):
        engine.advance(2.0)
        engine.rotate(own)
        while engine.pending_jobs:
            engine.run_job()
        file = engine.ratchet_file(own)
        stored = Ratchets.load(file, identity(1), retained=retained)
        assert engine.ratchets(own).ids == stored.ids
        assert len(stored) == min(rotations, retained)


def test_a_message_sealed_before_a_move_opens_after_it() -> None:
    """C4: the ratchets move with the identity."""
    net, a, b, wire = pair()
    own = net.listen(b, ratchets=True)
    pending = a.seal(own, b"on its way")
    saved, last = b.ratchet_file(own), b.last_emitted(own)
    b.unlisten(own)
    without = Engine(clock=(MONO, UNIX))
    iface = without.add_interface("wire")
    without.listen(identity(7), "test.echo", ratchets=True)
    assert without.input(iface, pending).reason == DropReason.DECRYPT
    moved = Engine(clock=(MONO, UNIX - 1000.0))
    iface = moved.add_interface("wire")
    moved.listen(identity(7), "test.echo", ratchets=True, ratchet_file=saved, last_emitted=last)
    assert moved.input(iface, pending).accepted
    (heard,) = [event for event in moved.events() if isinstance(event, PacketReceived)]
    assert heard.data == b"on its way"
    moved.announce(own)
    (frame,) = moved.outputs()
    assert a.input(wire.at(a), frame.data).accepted  # not older than the last one


def test_a_damaged_ratchet_file_never_keeps_the_engine_from_starting() -> None:
    """C5: cut off at every length, one bit wrong in every place."""
    net, _, b, _ = pair()
    own = net.listen(b, ratchets=True)
    saved = b.ratchet_file(own)
    engine = Engine(clock=(MONO, UNIX))
    for damaged in (*truncations(saved), *flips(saved)):
        if not damaged:  # an empty file is no file
            continue
        with pytest.raises((DecodeError, AuthenticationError)):
            engine.listen(identity(7), "test.echo", ratchets=True, ratchet_file=damaged)
    assert engine.listen(identity(7), "test.echo", ratchets=True) == own


def test_an_announce_event_tells_all_about_its_packet() -> None:
    """C6: nobody has to parse and verify the announce again."""
    keys = Ratchets()
    keys.rotate(UNIX)
    announce = Announce.create(
        identity(7),
        "test",
        app_data=b"me",
        ratchet=keys.current_public,
        emitted=1_700_000_123,
        path_response=True,
        hops=4,
        transport_id=bytes(16),
    )
    engine, wire = hearing()
    engine.input(wire, announce.raw, rssi_dbm=-101, snr_db=-7.25, quality_pct=12)
    (heard,) = [event for event in engine.events() if isinstance(event, AnnounceHeard)]
    assert heard == AnnounceHeard(
        time_s=MONO,
        time_unix_s=UNIX,
        subscription=1,
        destination=announce.destination_hash,
        identity=announce.identity_hash,
        public_key=announce.public_key,
        app_data=b"me",
        hops=5,
        interface=wire,
        path_response=True,
        ratchet_id=keys.current_id,
        packet_hash=announce.packet.hash,
        emitted_unix_s=1_700_000_123,
        rssi_dbm=-101,
        snr_db=-7.25,
        quality_pct=12,
    )


def test_a_wrong_access_code_leaves_a_trace() -> None:
    """C9: netmesh with and without access codes, a wrong passphrase: a counter rises."""
    ours, theirs = Ifac(passphrase="open sesame"), Ifac(passphrase="abracadabra")
    raw = Announce.create(identity(7), "test").raw
    with_code = Engine(clock=(MONO, UNIX))
    guarded = with_code.add_interface("guarded", ifac=ours)
    open_one = with_code.add_interface("open")
    cases = (
        (guarded, theirs.mask(raw), DropReason.IFAC_WRONG),
        (guarded, raw, DropReason.IFAC_MISSING),
        (guarded, ours.mask(raw)[:18], DropReason.IFAC_SHORT),
        (open_one, ours.mask(raw), DropReason.IFAC_UNEXPECTED),
        (guarded, ours.mask(raw), DropReason.NONE),
    )
    for wire, frame, reason in cases:
        assert with_code.input(wire, frame).reason == reason
    assert with_code.counters(guarded).drops == {
        DropReason.IFAC_WRONG: 1,
        DropReason.IFAC_MISSING: 1,
        DropReason.IFAC_SHORT: 1,
    }
    assert with_code.counters(open_one).drops == {DropReason.IFAC_UNEXPECTED: 1}


@settings(max_examples=300, deadline=None)
@given(frame=st.binary(max_size=600), size=st.sampled_from([1, 8, 16, 64]), flag=st.booleans())
def test_no_frame_throws_in_the_receive_path(frame: bytes, size: int, flag: bool) -> None:
    """C10: lengths are checked first, and any size of code is harmless."""
    engine = Engine(clock=(MONO, UNIX))
    wire = engine.add_interface("wire", ifac=Ifac(passphrase="x", size=size))
    if flag and frame:
        frame = bytes([frame[0] | 0x80]) + frame[1:]
    verdict = engine.input(wire, frame)
    assert not verdict.accepted
    for wrong in (0, 65, -1):
        with pytest.raises(ValueError, match="size"):
            Ifac(passphrase="x", size=wrong)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=600), max_size=20), st.data())
def test_no_packet_stops_the_engine(frames: list[bytes], data: st.DataObject) -> None:
    """A4: any byte string, then a valid packet: the valid one is still handled."""
    net, a, b, wire = pair()
    own = net.listen(b, prove="all")
    link = net.link(a, own)
    known = [raw for _, raw in wire.seen] + [link.seal(b"x", context=c) for c in range(16)]
    for frame in frames:
        model = bytearray(data.draw(st.sampled_from(known)))
        for _ in range(data.draw(st.integers(0, 3))):
            model[data.draw(st.integers(0, len(model) - 1))] = data.draw(st.integers(0, 255))
        for hostile in (frame, bytes(model)):
            verdict = b.input(wire.at(b), hostile)
            assert verdict.accepted == (verdict.reason == DropReason.NONE)
    stats = b.stats()
    assert stats.inputs == stats.accepted + stats.dropped
    net.settle()
    net.forget()
    op = a.send(own, b"still there")
    net.settle()
    assert [event.op for event in net.all(a, ReceiptDone) if event.ok] == [op]


def test_a_thousand_waits_for_one_path_cost_one_request_per_interval() -> None:
    """A10: and each of them fails visibly."""
    engine = Engine(clock=(MONO, UNIX))
    engine.add_interface("wire")
    ops = []
    for _ in range(1000):
        ops.append(engine.request_path(SOMEONE, timeout_s=60.0))
        engine.advance(0.01)
    assert len(engine.outputs()) == 1
    engine.advance(60.0)
    assert len(engine.outputs()) <= 3
    results = [event for event in engine.events() if isinstance(event, PathResult)]
    assert sorted(event.op for event in results) == sorted(op or 0 for op in ops)
    assert {(event.reason, event.stage) for event in results} == {("TIMEOUT", Stage.PATH)}
    assert engine.stats().operations == 0


def test_a_thousand_packets_to_somebody_unknown_fail_at_once() -> None:
    """A10: no storm of path requests."""
    engine = Engine(clock=(MONO, UNIX))
    engine.add_interface("wire")
    for _ in range(1000):
        with pytest.raises(NetmeshError) as refusal:
            engine.send(SOMEONE, b"x")
        assert refusal.value.reason == "MISSING"
    assert engine.outputs() == []


def drain(engine: Engine) -> list[Any]:
    """All that waits, frames and events."""
    return [*engine.outputs(), *engine.events()]


def test_an_announce_flood_is_bounded_and_counted() -> None:
    """A4: what is lossy makes room for what is newer, and the packets are still taken."""
    engine = Engine(clock=(MONO, UNIX))
    wire = engine.add_interface("wire")
    engine.subscribe()
    raws = [Announce.create(identity(1), f"n{number}").raw for number in range(3000)]
    for raw in raws:
        assert engine.input(wire, raw).accepted
    heard = [event for event in drain(engine) if isinstance(event, AnnounceHeard)]
    stats = engine.stats()
    assert stats.known == stats.paths == 3000
    assert stats.lossy_dropped > 0
    assert len(heard) < 3000
    assert heard[-1].packet_hash == Packet.unpack(raws[-1]).hash
