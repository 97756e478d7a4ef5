"""Several ways to one destination: what is kept, what takes over, what is shown of it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from engine.test_transport import announce, target
from engine.test_transport_vectors import ME, MTUS, relay, sent
from engine.wires import UNIX, Net, identity, pair, seed
from netmesh import Announce, DestinationHash, Engine
from netmesh.constants import InterfaceMode, PathState
from netmesh.errors import LimitReached, NotFoundError
from netmesh.events import LinkActive, LinkClosed, PathChanged, ReceiptDone
from netmesh.records import DropReason, Limits
from netmesh.transport import AlternativeRecord

HERE = target(3)


def copy(number: int, *, via: int | None, hops: int, at: float = UNIX) -> bytes:
    """A copy of an announce as a transport node with this id, or the destination, sends it."""
    raw = announce(number, at=at)
    if via is None:
        return bytes([raw[0], hops]) + raw[2:]
    return bytes([0x40 | 0x10 | raw[0], hops]) + bytes([via]) * 16 + raw[2:]


def ways(engine: Engine, destination: DestinationHash = HERE) -> list[tuple[int, bytes, int]]:
    """The alternatives of a destination: interface, next hop, hops."""
    return [
        (each.interface, each.next_hop, each.hops)
        for each in engine.alternatives()
        if each.destination == destination
    ]


def in_use(engine: Engine, destination: DestinationHash = HERE) -> tuple[int, bytes, int]:
    """The way that the path leads."""
    path = engine.path(destination)
    return path.interface, path.next_hop, path.hops


def three() -> tuple[Engine, list[int]]:
    """A transport node with three interfaces."""
    engine, _ = relay(0)
    return engine, [engine.add_interface(f"way {number}", **MTUS) for number in range(3)]


# ---- what is kept


def test_copies_by_other_next_hops_are_kept_in_order() -> None:
    """F12: the first copy is the path; the others wait behind it, the shortest first."""
    engine, (one, two, other) = three()
    engine.input(one, copy(3, via=1, hops=1))
    assert engine.input(two, copy(3, via=2, hops=2)).reason is DropReason.ANNOUNCE_REPLAY
    engine.input(other, copy(3, via=4, hops=0))
    engine.input(one, copy(3, via=5, hops=2))
    assert in_use(engine) == (one, bytes([1]) * 16, 2)
    assert ways(engine) == [
        (other, bytes([4]) * 16, 1),
        (one, bytes([5]) * 16, 3),
        (two, bytes([2]) * 16, 3),
    ]
    assert engine.stats().alternatives == 3
    engine.input(two, copy(3, via=2, hops=2))
    assert len(ways(engine)) == 3


def test_no_more_are_kept_than_set() -> None:
    """F12: bounded and counted; the least preferred goes."""
    engine, (one, *_) = relay(2, limits=Limits(path_alternatives=2))
    for number, hops in enumerate((0, 5, 3, 4, 2)):
        engine.input(one, copy(3, via=10 + number, hops=hops))
    assert [hops for *_, hops in ways(engine)] == [3, 4]
    assert engine.stats().alternatives == 2
    assert engine.stats().alternatives_evicted == 2


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_the_order_of_arrival_changes_nothing_but_which_came_first(order: tuple[int, ...]) -> None:
    """A9, F12: the same ways are known whatever the order, in the same order of preference."""
    engine, ids = three()
    copies = [(ids[n % 3], bytes([20 + n]) * 16, 1 + n % 2) for n in range(5)]
    engine.input(ids[0], copy(3, via=9, hops=0))
    for number in order:
        interface, via, hops = copies[number]
        engine.input(interface, copy(3, via=via[0], hops=hops))
    assert in_use(engine) == (ids[0], bytes([9]) * 16, 1)
    best = sorted(copies, key=lambda way: (way[2], way[0], way[1]))[:3]
    assert ways(engine) == [(at, via, hops + 1) for at, via, hops in best]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_whichever_came_first_the_set_of_ways_is_the_same(order: tuple[int, ...]) -> None:
    """A9, F12: path and alternatives together do not depend on the order."""
    engine, ids = three()
    copies = [(ids[n % 3], n + 1, n) for n in range(4)]
    for number in order:
        interface, via, hops = copies[number]
        engine.input(interface, copy(3, via=via, hops=hops))
    found = {in_use(engine), *ways(engine)}
    assert found == {(at, bytes([via]) * 16, hops + 1) for at, via, hops in copies}
    assert in_use(engine)[1] == bytes([copies[order[0]][1]]) * 16
    hops = [each[2] for each in ways(engine)]
    assert hops == sorted(hops)


def test_what_is_no_copy_of_the_announce_is_no_way() -> None:
    """A changed payload has no signature that was checked; an older one is worth nothing."""
    engine, (one, two, _) = three()
    engine.input(one, copy(3, via=1, hops=1))
    forged = bytearray(copy(3, via=2, hops=1))
    forged[-1] ^= 1
    engine.input(two, bytes(forged))
    engine.input(two, copy(3, via=2, hops=1, at=UNIX - 60))
    assert ways(engine) == []
    assert in_use(engine)[0] == one


def test_what_may_be_our_own_rebroadcast_is_no_way() -> None:
    """A neighbour that passed ours on leads back here; before ours left it cannot."""
    engine, (one, two, _) = three()
    engine.input(one, copy(3, via=1, hops=1))
    engine.input(two, copy(3, via=2, hops=3))
    assert len(ways(engine)) == 1
    engine.advance(0.6)
    sent(engine)
    engine.input(two, copy(3, via=4, hops=3))
    engine.input(two, copy(3, via=5, hops=2))
    assert [next_hop[0] for _, next_hop, _ in ways(engine)] == [5, 2]


def test_a_newer_announce_by_another_way_keeps_the_old_one_behind() -> None:
    engine, (one, two, other) = three()
    engine.input(one, copy(3, via=1, hops=1))
    engine.input(other, copy(3, via=3, hops=1))
    engine.input(two, copy(3, via=2, hops=4, at=UNIX + 60))
    assert in_use(engine)[0] == two
    assert [at for at, *_ in ways(engine)] == [one, other]
    engine.input(other, copy(3, via=3, hops=1, at=UNIX + 60))
    assert [at for at, *_ in ways(engine)] == [other, one]
    assert [each.emitted - UNIX for each in engine.alternatives()] == [60, 0]


def test_ways_end_with_their_interface_and_their_time() -> None:
    """RNS 1, 8.13: as long as a path learnt there."""
    engine, (one, two, _) = three()
    roams = engine.add_interface("roams", mode=InterfaceMode.ROAMING, **MTUS)
    engine.input(one, copy(3, via=1, hops=1))
    engine.input(two, copy(3, via=2, hops=1))
    engine.input(roams, copy(3, via=4, hops=1))
    engine.remove_interface(two)
    engine.advance(6.0)
    assert [at for at, *_ in ways(engine)] == [roams]
    engine.advance(6 * 3600.0)
    assert ways(engine) == []
    assert engine.stats().alternatives == 0
    assert in_use(engine)[0] == one


def test_ways_go_with_their_path() -> None:
    engine, (one, two, _) = three()
    engine.input(one, copy(3, via=1, hops=1))
    engine.input(two, copy(3, via=2, hops=1))
    engine.drop_path(HERE)
    assert engine.alternatives() == []
    assert engine.stats().alternatives == 0


# ---- what takes over


def test_another_way_takes_over_when_the_interface_goes() -> None:
    """F12; the path table is asked before any timer has run."""
    engine, (one, two, _) = three()
    engine.input(one, copy(3, via=1, hops=1))
    engine.input(two, copy(3, via=2, hops=2))
    engine.events()
    engine.remove_interface(one)
    assert engine.hops(HERE) == 3
    assert in_use(engine) == (two, bytes([2]) * 16, 3)
    engine.advance(6.0)
    assert ways(engine) == []
    (changed,) = (event for event in engine.events() if isinstance(event, PathChanged))
    assert (changed.interface, changed.hops) == (two, 3)
    assert engine.stats().paths_failed_over == 1


def test_packets_go_round_an_interface_that_is_offline() -> None:
    """F12: our own and those of others; what is back online waits behind."""
    engine, (one, two, other) = three()
    engine.input(one, copy(3, via=1, hops=1))
    engine.input(two, copy(3, via=2, hops=1))
    engine.advance(60.0)
    sent(engine)
    engine.change_interface(one, online=False)
    data = bytes([0x50, 0]) + bytes(ME.hash) + bytes(HERE) + b"\0" + bytes(100)
    engine.input(other, data)
    assert sent(engine) == {two: [bytes([0x50, 1]) + bytes([2]) * 16 + data[18:]]}
    engine.change_interface(one, online=True)
    engine.change_interface(two, online=False)
    engine.send(HERE, b"own")
    (frame,) = sent(engine)[one]
    assert frame[2:18] == bytes([1]) * 16


def test_a_path_marked_unresponsive_leads_another_way() -> None:
    """E6, F12: and back again when that one fails as well."""
    engine, (one, two, _) = three()
    engine.input(one, copy(3, via=1, hops=1))
    engine.input(two, copy(3, via=2, hops=2))
    engine.mark_path(HERE, responsive=False)
    assert in_use(engine) == (two, bytes([2]) * 16, 3)
    assert engine.path(HERE).state is PathState.UNKNOWN
    assert [at for at, *_ in ways(engine)] == [one]
    assert engine.alternatives()[0].failed_s == engine.now[0]
    engine.mark_path(HERE, responsive=False)
    assert in_use(engine)[0] == one
    assert engine.path(HERE).state is PathState.UNRESPONSIVE
    engine.input(one, copy(3, via=1, hops=1, at=UNIX + 60))
    assert engine.path(HERE).state is PathState.UNKNOWN
    engine.drop_path(HERE)
    engine.input(one, copy(3, via=1, hops=1, at=UNIX + 120))
    engine.mark_path(HERE, responsive=False)
    assert engine.path(HERE).state is PathState.UNRESPONSIVE


def diamond(**options: Any) -> tuple[Net, list[Any]]:
    """A source and a destination with two relays between them, one way longer by a relay."""
    net = Net(0)
    net.engines = [
        Engine(clock=(1000.0, UNIX), seed=seed(n + 1), transport=0 < n < 4, **options)
        for n in range(5)
    ]
    net.heard = {engine: [] for engine in net.engines}
    source, near, far, farther, goal = net.engines
    wires = [
        net.join(source, near),
        net.join(near, goal),
        net.join(source, far),
        net.join(far, farther),
        net.join(farther, goal),
    ]
    return net, wires


def known(net: Net, wires: list[Any], **options: Any) -> DestinationHash:
    """A destination at the goal whose short way the source hears of first."""
    wires[3].cut = True
    echo = net.listen(net.engines[-1], **options)
    net.advance(1.0)
    wires[3].cut = False
    net.advance(20.0)
    return echo


@pytest.mark.parametrize("cut", [0, 1])
def test_the_next_link_works_after_the_best_way_was_cut(cut: int) -> None:
    """F12: without a new announce; the cut is silent, near or far."""
    net, wires = diamond()
    source = net.engines[0]
    echo = known(net, wires)
    (other,) = (each for each in source.alternatives() if each.destination == echo)
    assert other.interface == wires[2].at(source)
    assert source.path(echo).interface == wires[0].at(source)
    wires[cut].cut = True
    first = source.open_link(echo)
    net.advance(60.0)
    assert [event.link for event in net.all(source, LinkClosed)] == [first]
    assert source.path(echo).interface == wires[2].at(source)
    second = source.open_link(echo)
    net.advance(10.0)
    assert [event.link for event in net.all(source, LinkActive)] == [second]
    assert source.hops(echo) == 3
    assert len(source.path(echo).random_blobs) == 1


def test_a_relay_leads_the_next_link_another_way() -> None:
    """F12: at the node next to whoever asked, where upstream marks the path (RNS 1, 8.13)."""
    net = Net(0)
    net.engines = [
        Engine(clock=(1000.0, UNIX), seed=seed(n + 1), transport=n not in (0, 4)) for n in range(5)
    ]
    net.heard = {engine: [] for engine in net.engines}
    source, hub, near, far, goal = net.engines
    net.join(source, hub)
    best = net.join(hub, near)
    net.join(near, goal)
    net.join(hub, far)
    net.join(far, goal)
    echo = net.listen(goal)
    net.advance(20.0)
    assert hub.path(echo).interface == best.at(hub)
    assert len(hub.alternatives()) == 1
    best.cut = True
    source.open_link(echo)
    net.advance(60.0)
    assert hub.path(echo).interface != best.at(hub)
    assert hub.stats().paths_failed_over >= 1
    source.request_path(echo, timeout_s=30.0)
    net.advance(30.0)
    second = source.open_link(echo)
    net.advance(10.0)
    assert [event.link for event in net.all(source, LinkActive)] == [second]


def test_a_path_without_another_way_is_marked_and_asked_for_again() -> None:
    """RNS 1, 8.13."""
    net, a, b, wire = pair()
    echo = net.listen(b)
    net.advance(60.0)
    wire.cut = True
    before = len(wire.frames(a))
    a.open_link(echo)
    net.advance(60.0)
    asked = [packet for packet in wire.frames(a)[before:] if packet.payload[:16] == bytes(echo)]
    assert a.path(echo).state is PathState.UNRESPONSIVE
    assert len(asked) == 1


def test_a_path_that_changed_since_the_request_is_not_to_blame() -> None:
    net, wires = diamond()
    source, _, _, _, goal = net.engines
    echo = known(net, wires)
    wires[0].cut = True
    source.open_link(echo)
    net.advance(5.0)
    goal.announce(echo)
    net.advance(60.0)
    path = source.path(echo)
    assert path.interface == wires[2].at(source)
    assert path.state is not PathState.UNRESPONSIVE
    assert len(path.random_blobs) == 2
    assert source.stats().paths_failed_over == 0


def test_single_packets_take_the_way_that_is_left() -> None:
    net, wires = diamond()
    source, near, *_ = net.engines
    echo = known(net, wires, prove="all")
    source.remove_interface(wires[0].at(source))
    near.remove_interface(wires[0].at(near))
    number = source.send(echo, b"round", receipt=True)
    net.advance(10.0)
    assert [event.ok for event in net.all(source, ReceiptDone) if event.op == number] == [True]


# ---- what is shown of it


def test_an_alternative_goes_in_comes_out_and_goes() -> None:
    """E4, E5: times on both clocks, and the whole snapshot."""
    engine, (one, two, _) = three()
    engine.input(one, copy(3, via=1, hops=1))
    record = AlternativeRecord(
        destination=HERE,
        next_hop=bytes([7]) * 16,
        interface=two,
        hops=4,
        emitted=int(UNIX) - 5,
        heard_s=990.0,
        failed_s=995.0,
    )
    engine.put_alternative(record)
    (found,) = engine.alternatives()
    assert (found.heard_unix_s, found.failed_unix_s) == (UNIX - 10.0, UNIX - 5.0)
    assert (found.hops, found.emitted, found.heard_s) == (4, int(UNIX) - 5, 990.0)
    engine.put_alternative(record)
    assert len(engine.alternatives()) == 1
    other, _ = three()
    other.load(engine.snapshot())
    assert other.alternatives() == engine.alternatives()
    engine.drop_alternative(record)
    assert engine.alternatives() == []
    with pytest.raises(NotFoundError):
        engine.drop_alternative(record)


def test_what_cannot_be_an_alternative_is_refused() -> None:
    engine, (one, two) = relay(2, limits=Limits(path_alternatives=1))
    record = AlternativeRecord(destination=HERE, next_hop=bytes([7]) * 16, interface=two, hops=4)
    with pytest.raises(NotFoundError):
        engine.put_alternative(record)
    engine.input(one, copy(3, via=1, hops=1))
    with pytest.raises(NotFoundError):
        engine.put_alternative(
            AlternativeRecord(destination=HERE, next_hop=bytes(16), interface=99)
        )
    with pytest.raises(ValueError, match="record"):
        engine.put_alternative(
            AlternativeRecord(destination=HERE, next_hop=bytes([1]) * 16, interface=one)
        )
    engine.input(two, copy(3, via=2, hops=1))
    with pytest.raises(LimitReached):
        engine.put_alternative(record)


def test_alternatives_of_many_paths_are_listed() -> None:
    engine, (one, two, _) = three()
    for number in range(3, 43):
        engine.input(one, copy(number, via=1, hops=1))
        if number % 3:
            engine.input(two, copy(number, via=2, hops=1))
        engine.advance(1.0)
    wanted = {target(number) for number in range(3, 43) if number % 3}
    assert {each.destination for each in engine.alternatives()} == wanted
    assert len(engine.alternatives()) == len(wanted)


def test_the_announce_of_another_identity_is_no_way() -> None:
    """A blackholed identity brings none."""
    engine, (one, two, _) = three()
    engine.input(one, copy(3, via=1, hops=1))
    engine.blackhole(identity(3).hash)
    assert engine.input(two, copy(3, via=2, hops=1)).reason is DropReason.ANNOUNCE_BLACKHOLED
    assert engine.alternatives() == []
    assert Announce.unpack(announce(3)).destination_hash == HERE
