"""Resources of several segments on bad media: whole and the same, or a stated end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from netmesh.errors import StateError
from netmesh.events import (
    Event,
    LinkActive,
    LinkClosed,
    ProgressMade,
    ReceiptDone,
    RequestReceived,
    ResourceFailed,
    ResourceReceived,
    ResourceSent,
)
from netmesh.msgpack import packb
from netmesh.records import Stage
from netmesh.sim import SimNode, Simulation, scenario
from sim.scenarios import bad_medium, job_delay, linked, make_known, quiet

Compression = Literal["off", "when_smaller", "automatic"]
PACKED: tuple[Compression, ...] = ("when_smaller", "automatic")

SEGMENT = 1_048_575
"""Bytes of content and metadata in a segment (RNS 2, 3.2)."""

METADATA_HEADER = 3
"""Bytes of length in front of packed metadata (RNS 2, 3.1)."""

E = TypeVar("E")


class Told:
    """What a node is told of transfers, from the beginning."""

    def __init__(self, node: SimNode) -> None:
        self._events: list[Event] = []
        for kind in (ResourceSent, ResourceReceived, ResourceFailed, ProgressMade):
            node.on(kind, self._events.append)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self._events if isinstance(event, kind)]

    def ends(self) -> dict[int, ResourceReceived | ResourceSent | ResourceFailed]:
        """The end of each operation; a second one is a defect."""
        ended: dict[int, ResourceReceived | ResourceSent | ResourceFailed] = {}
        for event in self._events:
            if isinstance(event, ResourceReceived | ResourceSent | ResourceFailed):
                assert event.op not in ended, f"operation {event.op} ended twice"
                ended[event.op] = event
        return ended


def words(sim: Simulation, size: int) -> bytes:
    """Text that compresses, and whose segments differ."""
    some = [b"%x" % sim.random.getrandbits(24) for _ in range(200)]
    text = b" ".join(sim.random.choice(some) for _ in range(size // 4))
    return text[:size]


def check_progress(sim: Simulation, told: Told) -> None:
    """Bytes of the content and of the wire only grow, and all is there at the end alone."""
    last: dict[int, tuple[int, int]] = {}
    for event in told.of(ProgressMade):
        before = last.get(event.op, (0, 0))
        sim.expect(event.done_bytes >= before[0], "progress went back")
        sim.expect(event.wire_bytes >= before[1], "bytes on the wire went back")
        sim.expect(event.done_bytes < event.total_bytes, "all of it before the end")
        last[event.op] = event.done_bytes, event.wire_bytes


def check_empty(sim: Simulation, *nodes: SimNode) -> None:
    """No transfer, job, operation or byte of a resource is left."""
    for node in nodes:
        stats = node.stats()
        sim.expect(node.snapshot().transfers == (), f"{node.name} keeps a transfer")
        sim.expect(stats.operations == 0, f"{node.name} keeps an operation")
        sim.expect(stats.resource_memory == 0, f"{node.name} keeps a resource's memory")


@scenario
def split_resource(
    sim: Simulation,
    *,
    size: int = 2_500_000,
    text: bool = False,
    loss: float = 0.0,
    duplicate: float = 0.0,
    reorder: float = 0.0,
    kind: str = "tcp",
    bound_s: float = 3_600.0,
) -> dict[str, float]:
    """A resource of several segments: the same at the other end, or failed in bounded time."""
    random = sim.random
    air = sim.medium(
        "air",
        delay_s=0.01,
        loss=loss,
        duplicate=duplicate,
        reorder=reorder,
        reorder_s=0.05,
    )
    alice, bob = (sim.node(name, job_delay=job_delay(sim)) for name in ("alice", "bob"))
    for node in (alice, bob):
        node.connect(air, kind=kind)
    ours, theirs = Told(alice), Told(bob)
    inbox = bob.listen(
        sim.identity("bob"), "example.sink", resources="all", resource_max=size + 1_000
    )
    make_known(sim, bob, inbox, alice)
    link = linked(sim, alice, inbox)
    content = words(sim, size) if text else random.randbytes(size)
    metadata = random.choice([None, {"name": "file", "size": size}])
    mode: Compression = random.choice(PACKED) if text else "off"
    began = sim.time_s
    op = alice.link(link).send_resource(content, metadata=metadata, compression=mode)
    taken = size if metadata is None else size + METADATA_HEADER + len(packb(metadata))
    segments = alice.transfer(op).segments
    sim.expect(segments == -(-taken // SEGMENT), f"{segments} segments of {taken} bytes")
    end = alice.wait(op, timeout_s=bound_s)
    took = sim.time_s - began
    sim.run(until=lambda: bob.stats().operations == 0, timeout_s=bound_s)
    check_empty(sim, alice, bob)
    received = theirs.of(ResourceReceived)
    sim.expect(len(theirs.ends()) == 1 or not end.ok, "not one end for one resource")
    for event in received:
        sim.expect(event.data == content, "other bytes arrived")
        sim.expect(event.metadata == metadata, "other metadata arrived")
        sim.expect(event.content_bytes == size, "another size")
    if end.ok:
        sim.expect(len(received) == 1, "proven, and not received")
        sim.expect(end.done_bytes == end.total_bytes == size, "complete, and not all of it")
    else:
        sim.expect(loss > 0, f"it failed at stage {end.stage.name} though nothing was lost")
        sim.expect(end.stage is not Stage.NONE, "it failed nowhere")
    for told in (ours, theirs):
        check_progress(sim, told)
    return {
        "complete": end.ok,
        "stage": end.stage,
        "seconds": took,
        "wire_share": end.wire_bytes / size,
        "frames": air.stats.offered,
    }


@scenario
def split_cancels(sim: Simulation, *, size: int = 1_300_000, rounds: int = 4) -> dict[str, int]:
    """Cancelled on either side at any moment, while packets are lost: it stays cancelled."""
    random = sim.random
    air = bad_medium(
        sim,
        rate_bps=random.choice([None, 2_000_000]),
        loss=random.choice([0.0, 0.1, 0.3]),
        delay_s=random.choice([0.0, 0.005]),
        queue_frames=4096,
    )
    alice, bob = (sim.node(name, job_delay=job_delay(sim)) for name in ("alice", "bob"))
    for node in (alice, bob):
        node.connect(air, kind=random.choice(["tcp", "tcp", "udp"]))
    ours, theirs = Told(alice), Told(bob)
    hold = random.random() < 0.3
    inbox = bob.listen(sim.identity("bob"), "example.sink", resources="all", hold_resources=hold)

    def prove(event: ResourceReceived) -> None:
        if event.token and isinstance(bob.state_of(event.link), LinkActive):
            bob.accept(event.token)

    bob.on(ResourceReceived, prove)
    make_known(sim, bob, inbox, alice)
    link = linked(sim, alice, inbox)
    content = random.randbytes(size)
    cancelled: list[tuple[SimNode, int]] = []
    sent: list[int] = []
    for _ in range(rounds):
        if isinstance(alice.state_of(link), LinkClosed):
            link = linked(sim, alice, inbox)
        op = alice.link(link).send_resource(content, compression="off")
        sent.append(op)
        # Anywhere in the first segment, between the two, in the second one, or after it.
        until = random.choice([0.0, random.random(), 0.8066, random.uniform(0.8, 1.0)])
        sim.run(until=lambda: reached(alice, op, until), timeout_s=600)  # noqa: B023
        sim.run(random.choice([0.0, 0.0, random.random() * 0.1, 30.0]))
        by, which = alice, op
        if random.random() < 0.5:
            incoming = [each.op for each in bob.snapshot().transfers if not each.outgoing]
            by, which = bob, incoming[0] if incoming else 0
        if which and cancel(sim, by, which):
            cancelled.append((by, which))
        sim.run(random.choice([0.0, 0.01, 90.0]))
    quiet(sim, alice, bob)
    sim.run(600)  # whatever is still on its way comes too late
    check_empty(sim, alice, bob)
    ends = {alice: ours.ends(), bob: theirs.ends()}
    sim.expect(sorted(ends[alice]) == sorted(sent), "not one end for each resource")
    for by, which in cancelled:
        last = ends[by][which]
        if isinstance(last, ResourceReceived):
            sim.fail("received after the cancellation")
        else:
            sim.expect(last.stage is Stage.CANCELLED, "another end than the cancellation")
    sim.expect(all(each.data == content for each in theirs.of(ResourceReceived)), "other bytes")
    for told in (ours, theirs):
        check_progress(sim, told)
    return {"cancelled": len(cancelled), "received": len(theirs.of(ResourceReceived))}


def reached(node: SimNode, op: int, share: float) -> bool:
    """Whether a transfer is so far, or at its end."""
    if node.end_of(op) is not None:
        return True
    record = node.transfer(op)
    return record.content_done >= share * record.content_bytes


def cancel(sim: Simulation, node: SimNode, op: int) -> bool:
    """Cancels; False when it has ended before."""
    if node.end_of(op) is not None:
        return False
    try:
        node.cancel(op)
    except StateError:
        sim.expect(node.end_of(op) is not None, "a living transfer cannot be cancelled")
        return False
    sim.run(0)
    end = node.end_of(op)
    sim.expect(end is not None and end.stage is Stage.CANCELLED, "it did not end at once")
    return True


@scenario
def large_answers(sim: Simulation, *, size: int = 1_300_000, loss: float = 0.1) -> dict[str, float]:
    """A request and a response of several segments each."""
    air = sim.medium("air", delay_s=0.01, loss=loss, duplicate=0.05, reorder=0.1, reorder_s=0.05)
    alice, bob = (sim.node(name, job_delay=job_delay(sim)) for name in ("alice", "bob"))
    for node in (alice, bob):
        node.connect(air, kind="tcp")
    inbox = bob.listen(sim.identity("bob"), "example.echo")
    bob.handle(inbox, "/turn")

    def answer(event: RequestReceived) -> None:
        bob.respond(event.token, bytes(event.data)[::-1], compress=False)

    bob.on(RequestReceived, answer)
    make_known(sim, bob, inbox, alice)
    link = linked(sim, alice, inbox)
    asked = sim.random.randbytes(size)
    end = alice.wait(alice.link(link).request("/turn", asked, timeout_s=3_600.0))
    if end.ok:
        sim.expect(end.data == asked[::-1], "another answer than was given")
    else:
        sim.expect(loss > 0, f"it failed at stage {end.stage.name} though nothing was lost")
        sim.expect(end.stage is not Stage.NONE, "it failed nowhere")
    quiet(sim, alice, bob)
    sim.run(3_600)  # a request that comes in is no operation: it ends by itself
    check_empty(sim, alice, bob)
    return {"answered": end.ok, "frames": air.stats.offered}


@scenario
def two_on_a_slow_channel(
    sim: Simulation,
    *,
    size: int = 20_000,
    rate_bps: int = 1_200,
    loss: float = 0.0,
    pattern: str = "into_one",
) -> dict[str, float]:
    """Three nodes on one half-duplex channel, and two transfers that share it.

    ``pattern`` is "into_one" (two nodes send to the third), "out_of_one" (one sends to both)
    or "across" (two nodes send to each other while the third announces).
    """
    random = sim.random
    air = sim.medium("air", rate_bps=rate_bps, delay_s=0.002, half_duplex=True, loss=loss)
    nodes = [sim.node(name, job_delay=job_delay(sim)) for name in ("alice", "bob", "carol")]
    alice, bob, carol = nodes
    for node in nodes:
        node.connect(air, kind="rnode")
    ways = {
        "into_one": [(alice, carol), (bob, carol)],
        "out_of_one": [(alice, bob), (alice, carol)],
        "across": [(alice, bob), (bob, alice)],
    }[pattern]
    inboxes = {
        node: node.listen(sim.identity(node.name), "example.files", resources="all")
        for node in nodes
    }
    for sender, receiver in ways:
        make_known(sim, receiver, inboxes[receiver], sender)
    links = [(sender, linked(sim, sender, inboxes[receiver])) for sender, receiver in ways]

    def talk() -> None:
        carol.announce(inboxes[carol])
        sim.after(random.uniform(60, 120), talk)

    sim.after(random.uniform(0, 60), talk)
    began = sim.time_s
    used = air.stats.airtime_s
    contents = [random.randbytes(size) for _ in ways]
    ops = []
    for (node, link), content in zip(links, contents, strict=True):
        ops.append((node, node.link(link).send_resource(content, compression="off")))
        sim.run(random.choice([0.0, random.uniform(0, 20)]))
    ideal = len(ways) * size * 8 / rate_bps
    ends = [node.wait(op, timeout_s=20 * ideal) for node, op in ops]
    took = sim.time_s - began
    for end in ends:
        sim.expect(end.ok, f"a transfer failed at stage {end.stage.name}")
    got = sorted(
        event.data
        for node in nodes
        for event in node.events()
        if isinstance(event, ResourceReceived)
    )
    sim.expect(got == sorted(contents), "other files arrived")
    return {
        "times_ideal": took / ideal,
        "airtime": (air.stats.airtime_s - used) / ideal,
        "repeated": sum(end.wire_bytes for end in ends) / (len(ways) * size),
    }


def round_trips(
    sim: Simulation,
    node: SimNode,
    link: int,
    *,
    count: int,
    pause_s: float,
    going_on: Callable[[], bool],
) -> list[float]:
    """How long small messages take to be proven, one after each pause."""
    took: list[float] = []
    sent: dict[int, float] = {}

    def proven(event: ReceiptDone) -> None:
        if event.op in sent:
            sim.expect(event.ok, f"a small message failed at stage {event.stage.name}")
            took.append(sim.time_s - sent.pop(event.op))

    node.on(ReceiptDone, proven)
    for _ in range(count):
        if not going_on():
            break
        op = node.link(link).send(b"small").op
        assert op is not None
        sent[op] = sim.time_s
        sim.run(pause_s)
    sim.expect(sim.run(until=lambda: not sent, timeout_s=600), "a small message never ended")
    return took


def percentile(values: list[float], share: float) -> float:
    """The value that a share of all does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@scenario
def small_meanwhile(
    sim: Simulation,
    *,
    size: int = 75_000_000,
    count: int = 1_000,
    rate_bps: int | None = None,
    delay_s: float = 0.001,
    pause_s: float = 0.0005,
) -> dict[str, float]:
    """Small messages while a file flows between the same nodes: little slower than before."""
    cable = sim.medium("cable", rate_bps=rate_bps, delay_s=delay_s)
    alice, bob = (sim.node(name, job_delay=(0.5, 2.0)) for name in ("alice", "bob"))
    for node in (alice, bob):
        node.connect(cable, kind="tcp")
    inbox = bob.listen(
        sim.identity("bob"), "example.both", prove="all", resources="all", resource_max=size
    )
    make_known(sim, bob, inbox, alice)
    talk, bulk = linked(sim, alice, inbox), linked(sim, alice, inbox)
    idle = round_trips(sim, alice, talk, count=count, pause_s=pause_s, going_on=lambda: True)
    told = Told(alice)
    began = sim.time_s
    op = alice.link(bulk).send_resource(sim.random.randbytes(size), compression="off")
    busy = round_trips(
        sim, alice, talk, count=count, pause_s=pause_s, going_on=lambda: op not in told.ends()
    )
    flowed = op not in told.ends()
    sim.run(until=lambda: op in told.ends(), timeout_s=600)
    end = told.ends()[op]
    sim.expect(isinstance(end, ResourceSent) and end.ok, "the file did not arrive")
    return {
        "idle_p99_s": percentile(idle, 0.99),
        "busy_p99_s": percentile(busy, 0.99),
        "messages": len(busy),
        "flowed": flowed,
        "seconds": sim.time_s - began,
    }
