"""Classes of inbound work (RNS 1, 8.5.2): a flood of announces takes no room from the rest."""

from __future__ import annotations

from typing import Any

from engine.test_transport import announce, target
from engine.wires import MONO, UNIX, Net
from netmesh import Engine
from netmesh.events import LinkActive
from netmesh.records import DropReason, JobKind, Limits

FREE: Any = {"ingress_control": False, "bitrate": 10**12}


def flooded(count: int, limits: Limits) -> tuple[Engine, int]:
    """A transport node whose jobs do not run, with announces that came over one interface."""
    slow = Engine(clock=(MONO, UNIX), inline_jobs=False, transport=True, limits=limits)
    there = slow.add_interface("flooded")
    for number in range(3, 3 + count):
        slow.input(there, announce(number))
    return slow, there


def test_announces_of_one_interface_have_a_share() -> None:
    """Bounded, counted by reason and interface; what was refused is heard when it is repeated."""
    slow, there = flooded(5, Limits(announce_jobs_per_iface=3))
    assert len(slow.pending_jobs) == 3
    assert slow.stats().drops == {DropReason.ANNOUNCES_SHARE: 2}
    assert slow.counters(there).drops == {DropReason.ANNOUNCES_SHARE: 2}
    while slow.pending_jobs:
        slow.run_job()
    assert slow.stats().paths == 3
    slow.input(there, announce(6))
    slow.run_job()
    assert slow.path(target(6)).hops == 1


def test_announces_of_all_interfaces_have_a_share() -> None:
    slow, there = flooded(3, Limits(announce_jobs=4))
    other = slow.add_interface("other")
    assert slow.input(other, announce(8)).reason is DropReason.NONE
    assert slow.input(other, announce(9)).reason is DropReason.ANNOUNCES_FULL
    assert slow.input(there, announce(10)).reason is DropReason.ANNOUNCES_FULL
    assert slow.counters(other).drops == {DropReason.ANNOUNCES_FULL: 1}


def test_announces_take_at_most_half_of_all_work() -> None:
    slow, _ = flooded(9, Limits(jobs=8, announce_jobs=100))
    assert len(slow.pending_jobs) == 4
    assert slow.stats().drops == {DropReason.ANNOUNCES_FULL: 5}


def test_a_flood_leaves_the_share_of_links_alone() -> None:
    """The link request comes over the interface that is full of announces, and is taken."""
    limits = Limits(jobs_per_iface=1, announce_jobs_per_iface=2)
    net = Net(2, limits=limits, inline_jobs=False)
    a, b = net.engines
    wire = net.join(a, b)
    own = net.listen(b)
    for engine in (b, a):
        while engine.pending_jobs:
            engine.run_job()
        net.settle()
    a.open_link(own)
    while a.pending_jobs:
        a.run_job()
    for number in range(20, 25):
        b.input(wire.at(b), announce(number))
    assert b.stats().drops[DropReason.ANNOUNCES_SHARE] == 3
    net.settle()
    waiting = [job.kind for job in b.pending_jobs]
    assert waiting.count(JobKind.VERIFY_ANNOUNCE) == 2
    assert JobKind.LINK_ACCEPT in waiting
    assert DropReason.JOBS_SHARE not in b.stats().drops
    for _ in range(20):
        for engine in (b, a):
            while engine.pending_jobs:
                engine.run_job()
            net.settle()
    assert net.one(a, LinkActive)


def test_announces_for_many_interfaces_are_spread_over_ticks() -> None:
    """One tick makes 512 copies, so that what comes in waits for no more."""
    engine = Engine(clock=(MONO, UNIX), transport=True)
    first, *others = (engine.add_interface(f"peer {number}", **FREE) for number in range(601))
    for number in (3, 4, 5):
        engine.input(first, announce(number))
    engine.set_clock(MONO + 1.0)
    sent = []
    for step in range(20):
        engine.set_clock(MONO + 1.0 + step * 0.001)
        engine.tick()
        sent.append(len(list(engine.outputs())))
    made = [count for count in sent if count]
    assert len(made) >= 3
    assert max(made) <= 512
    assert sum(made) == 3 * (1 + len(others))
