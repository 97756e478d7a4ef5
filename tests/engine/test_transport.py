"""An engine as transport node: its tables as records, and its rules over time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.test_transport_vectors import MTUS, relay, sent
from engine.wires import UNIX, Net, identity, seed
from netmesh import Announce, DestinationHash, Engine, Packet
from netmesh.constants import InterfaceMode
from netmesh.control import PathRequest, TunnelSynthesis
from netmesh.errors import NotFoundError
from netmesh.events import PacketReceived, ReceiptDone
from netmesh.records import DropReason, IngressNumbers, InterfaceRole, Limits
from netmesh.transport import (
    ControlRecord,
    HeldRecord,
    PassedRequestRecord,
    QueuedRecord,
    RateRecord,
    RebroadcastRecord,
    ReverseRecord,
    SearchRecord,
    TransitRecord,
    TunnelPathRecord,
    TunnelRecord,
)

HERE = DestinationHash(bytes(range(16)))


def announce(number: int, *, at: float = UNIX, hops: int = 0, name: str = "test.far") -> bytes:
    """An announce of a destination of its own."""
    made = Announce.create(identity(number), name, emitted=int(at), random=bytes([number]) * 5)
    return bytes([made.raw[0], hops]) + made.raw[2:]


def target(number: int, name: str = "test.far") -> DestinationHash:
    """Its destination."""
    return Announce.unpack(announce(number, name=name)).destination_hash


# ---- E4, E5: every table is read, edited and loaded back

RECORDS: dict[str, Any] = {
    "rebroadcast": RebroadcastRecord(
        destination=target(3),
        announce=announce(3),
        hops=2,
        received_from=bytes([9]) * 16,
        retries=1,
        local_rebroadcasts=1,
        attached=2,
        interface=1,
        path_response=True,
        added_s=990.0,
        due_s=1005.0,
    ),
    "held": HeldRecord(interface=1, destination=target(3), packet=announce(3), hops=4),
    "queued": QueuedRecord(
        interface=2, destination=target(3), packet=announce(3), hops=4, since_s=980.0
    ),
    "rate": RateRecord(
        destination=HERE,
        last_s=900.5,
        blocked_until_s=1100.25,
        violations=7,
        times_s=(900.0, 950.5),
    ),
    "control": ControlRecord(
        interface=1,
        announce_burst=True,
        announce_burst_s=995.0,
        request_burst=True,
        request_burst_s=996.0,
        release_s=1010.0,
    ),
    "reverse": ReverseRecord(packet=bytes([5]) * 16, received=1, out=2, at_s=995.0),
    "transit": TransitRecord(
        link_id=bytes([7]) * 16,
        destination=HERE,
        next_hop=bytes([8]) * 16,
        next_interface=2,
        received_interface=1,
        remaining=3,
        taken=2,
        validated=True,
        used_s=999.0,
        deadline_s=1001.0,
    ),
    "tunnel": TunnelRecord(tunnel_id=bytes([6]) * 32, interface=1, expires_s=5000.0),
    "search": SearchRecord(destination=HERE, until_s=1010.0, interfaces=(1, 2)),
    "passed_request": PassedRequestRecord(destination=HERE, since_s=991.0),
}
PLURALS = {"held": "held", "queued": "queued", "search": "searches"}


def without_readings(record: Any) -> Any:
    """A record without what is only read."""
    gone = {name: 0.0 for name in record.__dataclass_fields__ if name.endswith("_unix_s")}
    gone |= {"aside": False} if isinstance(record, RebroadcastRecord) else {}
    gone |= {"since_s": 0.0} if isinstance(record, HeldRecord) else {}
    return replace(record, **gone)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_goes_in_comes_out_and_goes(name: str) -> None:
    """E4, E5: each table of a transport node, times on both clocks."""
    engine, _ = relay()
    record = RECORDS[name]
    listed = getattr(engine, PLURALS.get(name, f"{name}s"))
    getattr(engine, f"put_{name}")(record)
    (found,) = listed()
    assert without_readings(found) == without_readings(record)
    for field in found.__dataclass_fields__:
        if field.endswith("_unix_s"):
            mono = getattr(found, field.removesuffix("_unix_s") + "_s")
            assert getattr(found, field) == pytest.approx(mono - 1000.0 + UNIX)
    getattr(engine, f"put_{name}")(record)
    assert len(listed()) == 1
    getattr(engine, f"drop_{name}")(record)
    assert listed() == []
    with pytest.raises(NotFoundError):
        getattr(engine, f"drop_{name}")(record)


def test_a_snapshot_has_the_tables_of_a_transport_node_and_is_loaded_back() -> None:
    """E4, E5: all of them at once."""
    engine, _ = relay()
    for name, record in RECORDS.items():
        getattr(engine, f"put_{name}")(record)
    taken = engine.snapshot()
    assert {type(record) for record in taken.transport} == {
        type(record) for record in RECORDS.values()
    }
    copy, _ = relay()
    copy.load(taken)
    loaded = list(map(without_readings, copy.snapshot().transport))
    assert loaded == list(map(without_readings, taken.transport))


@pytest.mark.parametrize("name", ["held", "queued", "transit", "rebroadcast", "tunnel", "control"])
def test_a_record_of_an_interface_that_is_not_there_is_refused(name: str) -> None:
    engine, _ = relay(0)
    with pytest.raises(NotFoundError):
        getattr(engine, f"put_{name}")(RECORDS[name])


def test_paths_of_a_tunnel_go_in_and_come_out() -> None:
    """E4, E5: tunnels."""
    engine, _ = relay()
    engine.put_tunnel(replace(RECORDS["tunnel"], interface=None))
    record = TunnelPathRecord(
        tunnel_id=bytes([6]) * 32,
        destination=HERE,
        next_hop=bytes([4]) * 16,
        hops=3,
        updated_s=900.0,
        expires_s=9000.0,
        announce_hash=bytes([3]) * 32,
        announce=announce(3),
        random_blobs=(bytes(10), bytes(range(10))),
    )
    engine.put_tunnel_path(record)
    assert without_readings(engine.tunnel_paths()[0]) == record
    assert engine.tunnels()[0].paths == 1
    engine.drop_tunnel_path(record)
    assert engine.tunnel_paths() == []
    with pytest.raises(NotFoundError):
        engine.put_tunnel_path(replace(record, tunnel_id=bytes(32)))


def test_a_state_is_made_without_living_through_it() -> None:
    """E5: a proof returns for a packet that was never forwarded here."""
    engine, (one, two) = relay()
    engine.put_reverse(ReverseRecord(packet=bytes([5]) * 16, received=one, out=two, at_s=1000.0))
    proof = bytes([0x03, 0]) + bytes([5]) * 16 + b"\0" + bytes(64)
    engine.input(two, proof)
    assert sent(engine) == {one: [bytes([0x03, 1]) + proof[2:]]}


# ---- rules over time


def test_a_neighbour_that_rebroadcast_first_makes_ours_needless() -> None:
    """RNS 1, 8.5.1 step 6."""
    engine, (one, _) = relay()
    raw = announce(3)
    engine.input(one, raw)
    engine.advance(0.6)
    (frame, *_) = sent(engine)[one]
    onward = bytes([frame[0], frame[1] + 1]) + bytes([1]) * 16 + frame[18:]
    assert engine.input(one, onward).reason is DropReason.ANNOUNCE_REPLAY
    assert engine.rebroadcasts() == []
    engine.advance(10.0)
    assert sent(engine) == {}


def test_two_siblings_are_enough() -> None:
    """RNS 1, 8.5.1 step 6: LOCAL_REBROADCASTS_MAX."""
    engine, (one, _) = relay()
    engine.input(one, announce(3))
    engine.advance(0.6)
    (frame, *_) = sent(engine)[one]
    for number in (1, 2):
        assert len(engine.rebroadcasts()) == 1
        sibling = frame[:2] + bytes([number]) * 16 + frame[18:]
        engine.input(one, sibling)
    assert engine.rebroadcasts() == []


def test_the_share_of_an_interface_is_kept_and_the_nearest_goes_first() -> None:
    """A1; RNS 1, 8.8."""
    engine, _ = relay(0)
    fast = engine.add_interface("fast", **MTUS)
    slow = engine.add_interface("slow", **MTUS, bitrate=5000)
    hops = {3: 5, 4: 1, 5: 3, 6: 2}
    for number, count in hops.items():
        engine.input(fast, announce(number, hops=count))
        engine.advance(0.6)
    size = len(sent(engine)[slow][0])
    pause = 8 * size / 5000 / 0.02
    queued = {record.destination: record.hops for record in engine.queued()}
    assert queued == {target(number): hops[number] + 1 for number in (4, 5, 6)}
    order: list[DestinationHash] = []
    for _ in range(4):
        engine.advance(pause * 1.001)
        order += [
            DestinationHash(bytes(Packet.unpack(frame).destination))
            for frame in sent(engine).get(slow, [])
        ]
    assert order[:3] == [target(4), target(6), target(5)]
    assert engine.stats().announces_queued == 0
    assert engine.counters(slow).drops == {}


def test_a_full_queue_drops_what_comes_from_farthest() -> None:
    """A1: one entry per destination, counted drops."""
    engine, _ = relay(0, limits=Limits(announce_queue=2))
    fast = engine.add_interface("fast", **MTUS)
    slow = engine.add_interface("slow", **MTUS, bitrate=300)
    for number, count in ((3, 0), (4, 9), (5, 3), (6, 2)):
        engine.input(fast, announce(number, hops=count))
        engine.advance(0.6)
    assert {record.destination for record in engine.queued()} == {target(5), target(6)}
    assert engine.counters(slow).drops[DropReason.ANNOUNCE_QUEUE] >= 1


def test_announces_that_come_too_often_are_not_rebroadcast() -> None:
    """RNS 1, 5.8."""
    engine, _ = relay(0)
    one = engine.add_interface("one", **MTUS, rate_target_s=10, rate_grace=1, rate_penalty_s=5)
    two = engine.add_interface("two", **MTUS)
    heard = []
    for second in range(0, 40, 4):
        engine.set_clock(1000.0 + second, UNIX + second)
        engine.outputs()
        engine.input(one, announce(3, at=UNIX + second))
        engine.advance(0.6)
        heard.append(bool(sent(engine).get(two)))
    assert heard[0]
    assert not all(heard)
    assert engine.stats().announces_blocked > 0
    assert engine.path(target(3)).random_blobs[-1]


def test_a_burst_is_held_and_let_go_one_by_one() -> None:
    """A7; RNS 1, 8.15: every held announce is released within the stated time."""
    engine, _ = relay(0)
    one = engine.add_interface("one", kind="tcp")
    for number in range(3, 23):
        engine.input(one, announce(number, hops=number))
        engine.advance(0.05)
    held = engine.held()
    assert len(held) == 18
    assert len(engine.paths()) == 2
    engine.advance(60.0)
    assert 0 < len(engine.held()) < 18
    engine.advance(150.0)
    assert engine.held() == []
    assert len(engine.paths()) == 20


def bursting(**numbers: Any) -> tuple[Engine, int]:
    """A relay whose interface brought 20 announces in a second, and that interface."""
    engine, _ = relay(0)
    one = engine.add_interface("one", kind="tcp", ingress=IngressNumbers(**numbers))
    for number in range(3, 23):
        engine.input(one, announce(number, hops=number))
        engine.advance(0.05)
    return engine, one


def test_the_rate_of_a_burst_is_as_set() -> None:
    """E2: ingress-control numbers, of new and of established interfaces."""
    assert len(bursting(announce_rate_new=30.0)[0].paths()) == 20
    assert len(bursting(announce_rate_new=5.0)[0].held()) == 18
    assert len(bursting(new_s=0.0, announce_rate=30.0)[0].paths()) == 20
    assert len(bursting(new_s=0.0, announce_rate=5.0)[0].held()) == 18


def test_no_more_is_held_than_set() -> None:
    """E2: ingress-control numbers."""
    engine, _ = bursting(held_max=4)
    assert len(engine.held()) == 4
    assert len(bursting(held_max=0)[0].held()) == 0


def test_held_announces_are_let_go_at_the_times_set() -> None:
    """E2: ingress-control numbers, changed while a burst lasts."""
    engine, one = bursting(penalty_s=3.0, release_s=0.5)
    engine.advance(1.5)
    assert len(engine.held()) == 18
    engine.advance(30.0)
    assert engine.held() == []
    assert len(engine.paths()) == 20
    engine, one = bursting(penalty_s=600.0, release_s=1.0)
    engine.advance(300.0)
    assert len(engine.held()) == 18
    engine.advance(330.0)
    assert engine.held() == []
    engine, one = bursting(release_s=1.0)
    engine.change_interface(one, ingress=IngressNumbers(release_s=100.0))
    engine.advance(90.0)
    assert len(engine.held()) == 17


@pytest.mark.parametrize(("hold_s", "held"), [(2.0, 0), (600.0, 1)])
def test_a_burst_ends_after_the_time_set(hold_s: float, held: int) -> None:
    """E2: ingress-control numbers."""
    engine, one = bursting(hold_s=hold_s, release_s=0.5)
    engine.advance(300.0)
    assert engine.held() == []
    engine.input(one, announce(40))
    assert len(engine.held()) == held


def test_the_rate_of_path_requests_is_as_set() -> None:
    """E2: ingress-control numbers of path requests: what is limited is not searched for."""
    for rate, searched in ((1000.0, 12), (3.0, 2)):
        engine, _ = relay(0)
        one = engine.add_interface(
            "one",
            kind="tcp",
            mode=InterfaceMode.GATEWAY,
            ingress=IngressNumbers(request_rate_new=rate),
        )
        engine.add_interface("two", kind="tcp")
        for number in range(12):
            asked = PathRequest(target(50 + number), tag=bytes([number]) * 16)
            engine.input(one, asked.packet().pack())
            engine.advance(0.05)
        assert len(engine.searches()) == searched


@pytest.mark.parametrize("transport", [False, True], ids=["end", "relay"])
def test_a_burst_of_announces_is_held_on_every_node(transport: bool) -> None:
    """RNS 1, 8.5.1 step 2: new destinations wait; those with a path or asked for do not."""
    engine = Engine(clock=(1000.0, UNIX), transport=transport)
    one = engine.add_interface("one", kind="tcp")
    engine.request_path(target(60))
    for number in range(3, 23):
        engine.input(one, announce(number))
        engine.advance(0.05)
    assert len(engine.paths()) == 2
    assert len(engine.held()) == 18
    engine.input(one, announce(60))
    engine.input(one, announce(3, at=UNIX + 5))
    assert engine.path(target(60)).hops == 1
    assert int.from_bytes(engine.path(target(3)).random_blobs[-1][5:]) == UNIX + 5
    assert len(engine.held()) == 18
    engine.advance(210.0)
    assert engine.held() == []
    assert len(engine.paths()) == 21


@pytest.mark.parametrize("transport", [False, True], ids=["end", "relay"])
def test_copies_of_one_announce_count_towards_a_burst(transport: bool) -> None:
    """RNS 1, 8.5.1 step 1: each that is signed counts, not only what is new."""
    engine = Engine(clock=(1000.0, UNIX), transport=transport)
    one = engine.add_interface("one", kind="tcp")
    for hops in range(10):
        engine.input(one, announce(3, hops=hops))
        engine.advance(0.05)
    engine.input(one, announce(4))
    assert [each.destination for each in engine.held()] == [target(4)]


@pytest.mark.parametrize("transport", [False, True], ids=["end", "relay"])
@pytest.mark.parametrize("own", [False, True], ids=["unknown", "own"])
def test_path_requests_are_a_burst_on_every_node(transport: bool, own: bool) -> None:
    """RNS 1, 8.15: also those for a destination that is here, which are answered all the same."""
    engine = Engine(clock=(1000.0, UNIX), transport=transport)
    one = engine.add_interface("one", kind="tcp", bitrate=10**9)
    here = engine.listen(identity(9), "test.here")
    wanted = here if own else target(50)
    answers = 0
    for number in range(12):
        asked = PathRequest(wanted, tag=bytes([number]) * 16)
        engine.input(one, asked.packet().pack())
        answers += len(sent(engine).get(one, ()))
        engine.advance(0.05)
        answers += len(sent(engine).get(one, ()))
    (told,) = engine.controls()
    assert told.request_burst
    assert answers >= 12 if own else answers == 0
    engine.advance(60.0)
    (told,) = engine.controls()
    assert not told.request_burst


def test_an_interface_without_ingress_control_holds_nothing() -> None:
    """RNS 1, 8.15: the program of a shared instance and radios take all that comes."""
    for options in ({"kind": "tcp", "ingress_control": False}, {"kind": "local"}):
        engine = Engine(clock=(1000.0, UNIX))
        one = engine.add_interface("one", **options)  # type: ignore[arg-type]
        for number in range(3, 23):
            engine.input(one, announce(number))
        assert len(engine.paths()) == 20
        assert engine.held() == []


def test_an_old_announce_over_fewer_hops_changes_nothing() -> None:
    """A8: neither the path, nor what is answered, nor what is kept behind it."""
    engine, (one, two) = relay()
    engine.input(one, announce(3, at=UNIX, hops=1))
    engine.advance(60.0)
    sent(engine)
    stale = engine.input(two, announce(3, at=UNIX - 3600, hops=0))
    assert stale.reason is DropReason.ANNOUNCE_STALE
    path = engine.path(target(3))
    assert (path.interface, path.hops) == (one, 2)
    assert engine.alternatives() == []
    engine.input(two, PathRequest(target(3), tag=bytes(16)).packet().pack())
    engine.advance(0.5)
    (answer,) = sent(engine)[two]
    assert answer[1] == 2


def test_rates_and_bursts_are_told_and_made() -> None:
    """A7, E4, E5: the state of an interface's control, without living through it."""
    engine, one = bursting()
    (told,) = (each for each in engine.controls() if each.interface == one)
    assert told.announce_burst
    assert not told.request_burst
    assert 1000.0 <= told.announce_burst_s <= 1001.0
    assert told.announces_in_rate == pytest.approx(20.0, rel=0.1)
    assert engine.controls()[0] == told, "reading changes nothing"
    assert len(engine.held()) == 18
    engine.put_control(replace(told, announce_burst=False, release_s=0.0))
    engine.advance(300.0)
    assert engine.held() == []
    engine.drop_control(told)
    assert all(each.interface != one for each in engine.controls())
    engine.input(one, announce(60))
    engine.put_control(
        ControlRecord(interface=one, announce_burst=True, announce_burst_s=engine.now[0])
    )
    engine.input(one, announce(61))
    assert [each.destination for each in engine.held()] == [target(61)]


def test_the_times_of_announces_are_kept_by_destination() -> None:
    """E4: RNS 1, 5.8: at most 16 of them."""
    engine, (one, _) = relay()
    for number in range(20):
        engine.set_clock(1000.0 + 60 * number, UNIX + 60 * number)
        engine.input(one, announce(3, at=UNIX + 60 * number))
    (rate,) = engine.rates()
    assert rate.times_s == tuple(1000.0 + 60 * number for number in range(4, 20))
    with pytest.raises(ValueError, match="record"):
        engine.put_rate(replace(rate, times_s=(*rate.times_s, 1.0)))


def test_what_is_asked_for_is_not_held() -> None:
    """A7: path responses and wanted destinations are exempt."""
    engine, _ = relay(0)
    one = engine.add_interface("one", kind="tcp")
    for number in range(3, 13):
        engine.input(one, announce(number))
        engine.advance(0.05)
    engine.request_path(target(30), timeout_s=5.0)
    engine.input(one, announce(30))
    assert engine.hops(target(30)) == 1


def test_a_held_announce_is_let_go_by_hand() -> None:
    """E6: hold and release."""
    engine, (one, _) = relay()
    engine.put_held(HeldRecord(interface=one, destination=target(3), packet=announce(3), hops=1))
    engine.release_held(engine.held()[0])
    assert engine.held() == []
    assert engine.hops(target(3)) == 1


def tunnel_of(number: int, interface_hash: bytes = bytes(32)) -> bytes:
    """The packet by which a peer asks for its tunnel."""
    return TunnelSynthesis.create(identity(number), interface_hash).packet().pack()


def test_paths_come_back_with_the_peer() -> None:
    """RNS 1, 8.11."""
    engine, (one, _) = relay()
    assert engine.input(one, tunnel_of(9)).accepted
    engine.input(one, announce(3, hops=2))
    assert engine.tunnels()[0].interface == one
    assert engine.tunnels()[0].paths == 1
    engine.remove_interface(one)
    engine.advance(6.0)
    assert engine.paths() == []
    assert engine.tunnels()[0].interface is None
    three = engine.add_interface("three", **MTUS)
    engine.input(three, tunnel_of(9))
    engine.advance(0.1)
    assert engine.path(target(3)).interface == three
    engine.advance(28801.0)
    assert engine.tunnels() == []


def test_a_forged_tunnel_is_refused() -> None:
    engine, (one, _) = relay()
    packet = bytearray(tunnel_of(9))
    packet[-1] ^= 1
    engine.input(one, bytes(packet))
    assert engine.tunnels() == []
    assert engine.counters(one).drops[DropReason.TUNNEL_SIGNATURE] == 1
    assert engine.counters(one).violations == 1


@pytest.mark.parametrize("length", range(2, 9))
def test_a_chain_of_nodes_carries_packets_links_and_resources(length: int) -> None:
    """B21: HEADER_2 on every hop, lines of 2 to 8 nodes."""
    net = Net(0)
    net.engines = [
        Engine(clock=(1000.0, UNIX), seed=seed(n + 1), transport=0 < n < length - 1)
        for n in range(length)
    ]
    net.heard = {engine: [] for engine in net.engines}
    for left, right in zip(net.engines, net.engines[1:], strict=False):
        net.join(left, right)
    first, last = net.engines[0], net.engines[-1]
    inbox = last.listen(identity(40), "test.end", prove="all", resources="all")
    last.announce(inbox)
    net.settle()
    net.advance(8.0)
    assert first.hops(inbox) == length - 1
    first.send(inbox, b"far")
    net.settle()
    assert [e.data for e in net.heard[last] if isinstance(e, PacketReceived)] == [b"far"]
    assert [e.ok for e in net.heard[first] if isinstance(e, ReceiptDone)] == [True]
    link = net.link(first, inbox)
    link.send_resource(bytes(50_000))
    net.settle()
    net.advance(2.0)
    assert any(type(event).__name__ == "ResourceSent" for event in net.heard[first])
    for middle in net.engines[1:-1]:
        assert middle.stats().links == 0
        assert middle.stats().transits == 1


def test_an_internal_interface_s_announces_obey_the_modes() -> None:
    """RNS 1, 8.7: access points hear no announces."""
    engine, _ = relay(0)
    one = engine.add_interface("one", **MTUS)
    quiet = engine.add_interface("quiet", **MTUS, mode=InterfaceMode.ACCESS_POINT)
    engine.input(one, announce(3))
    engine.advance(10.0)
    assert quiet not in sent(engine)


def test_two_clients_that_ask_for_one_destination_of_ours_are_both_answered() -> None:
    """RNS 1, 11: upstream answers the first one only."""
    engine, _ = relay(0, shared_instance=True)
    clients = [
        engine.add_interface(name, kind="local", role=InterfaceRole.LOCAL_CLIENT)
        for name in ("first", "second")
    ]
    own = engine.listen(identity(7), "test.own")
    engine.advance(60.0)
    engine.outputs()
    for number, client in enumerate(clients):
        engine.input(client, PathRequest(own, tag=bytes([number]) * 16).packet().pack())
    engine.advance(2.0)
    answers = sent(engine)
    for client in clients:
        assert own in {Packet.unpack(frame).destination for frame in answers.get(client, [])}


def test_own_announces_that_come_back_are_ignored() -> None:
    """RNS 1, 11 (25): no path, nothing goes out again."""
    engine, (one, _) = relay()
    own = engine.listen(identity(3), "test.far")
    verdict = engine.input(one, announce(3, hops=2))
    assert (verdict.accepted, verdict.reason) == (False, DropReason.ANNOUNCE_LOCAL)
    engine.advance(5.0)
    assert (engine.paths(), engine.rebroadcasts(), sent(engine)) == ([], [], {})
    assert own == target(3)


def test_a_path_request_without_a_tag_is_ignored() -> None:
    """RNS 1, 11 (15): 16 bytes have no tag; 17 have one, and are answered."""
    engine, (one, _) = relay()
    own = engine.listen(identity(3), "test.far")
    asked = PathRequest(own, tag=b"t").packet().pack()
    for frame, answered in ((asked[:-1], False), (asked, True)):
        verdict = engine.input(one, frame)
        engine.advance(2.0)
        assert verdict.accepted is answered
        assert (one in sent(engine)) is answered


def test_an_interface_that_knows_no_mtu_receives() -> None:
    """RNS 1, 11: upstream drops all that comes from it."""
    engine, _ = relay(0)
    one = engine.add_interface("one", mtu="auto", bitrate=1000)
    assert engine.interface(one).hw_mtu is None
    assert engine.input(one, announce(3)).accepted
    assert engine.hops(target(3)) == 1


def test_a_blackholed_identity_is_not_carried() -> None:
    """E6, A15."""
    engine, (one, _) = relay()
    engine.blackhole(identity(3).hash)
    engine.input(one, announce(3))
    engine.advance(10.0)
    assert sent(engine) == {}
    assert engine.counters(one).drops[DropReason.ANNOUNCE_BLACKHOLED] == 1
