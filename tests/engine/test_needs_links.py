"""What users of this network complained about on links and transfers, one test a row."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.wires import MONO, Net, identity, pair
from golden import ruled
from netmesh import DestinationHash, Engine, Packet
from netmesh.constants import (
    Context,
    LinkState,
    PacketType,
    PathState,
    ResourceFlag,
    ResourceState,
)
from netmesh.crypto import bz2_compress
from netmesh.decisions import establishment_timeout, interface_defaults, stale_time
from netmesh.engine import EngineLink
from netmesh.errors import EncodeError, NoRouteError, StateError
from netmesh.events import (
    LinkActive,
    LinkClosed,
    LinkPacketReceived,
    ProgressMade,
    ReceiptDone,
    RequestReceived,
    ResourceFailed,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.records import CloseReason, DropReason, JobKind, PathRecord, Stage
from netmesh.resource import Advertisement, Segmenter

# The contexts whose repetition passes the duplicate filter (RNS 1, 8.4).
REPEATABLE = {
    Context.KEEPALIVE,
    Context.RESOURCE,
    Context.RESOURCE_REQ,
    Context.RESOURCE_PRF,
    Context.CACHE_REQUEST,
    Context.CHANNEL,
}


def linked(**listening: Any) -> tuple[Net, Engine, Engine, Any, EngineLink]:
    """A link with its engines and their wire."""
    net, a, b, wire = pair()
    return net, a, b, wire, net.link(a, net.listen(b, **listening))


# ------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("mtu", [500, 1064, 8192, 262144])
def test_part_sizes_follow_the_negotiated_mtu(mtu: int) -> None:
    """B1: a part is as long as the link's MTU allows, MTU minus 36."""
    net = Net(2)
    a, b = net.engines
    wire = net.join(a, b, mtu=mtu)
    link = net.link(a, net.listen(b, resources="all"))
    assert link.info.mtu == mtu
    link.send_resource(ruled("parts", 3 * mtu if mtu < 200000 else 600000), compression="off")
    net.settle()
    parts = [p for p in wire.frames(a) if p.context == Context.RESOURCE]
    assert {len(part.payload) for part in parts[:-1]} == {mtu - 36}
    assert len(net.all(b, ResourceReceived)) == 1


def test_a_link_comes_up_at_what_both_ends_carry() -> None:
    """B2: between an interface of 8192 and one of 500 bytes the link has 500."""
    net = Net(2)
    a, b = net.engines
    wide, narrow = a.add_interface("wide", mtu=8192), b.add_interface("narrow", mtu=500)
    own = b.listen(identity(7), "test.echo")
    a.remember(own, identity(7).public_only())
    a.put_path(PathRecord(destination=own, hops=1, interface=wide))
    number = a.open_link(own)
    (request,) = a.outputs()
    assert b.input(narrow, request.data).accepted
    (proof,) = b.outputs()
    assert a.input(wide, proof.data).accepted
    assert a.link(number).info.mtu == b.links()[0].mtu == 500


def test_an_oversize_frame_is_dropped_whole_and_counted() -> None:
    """B2: and the interface goes on."""
    engine = Engine(clock=(0.0, 0.0))
    wire = engine.add_interface("narrow", mtu=500)
    raw = Packet(destination=bytes(16), payload=bytes(600), mtu=1000).raw
    assert engine.input(wire, raw).reason == DropReason.OVERSIZE
    assert engine.input(wire, raw[:500]).reason == DropReason.NO_DESTINATION
    assert engine.counters(wire).drops[DropReason.OVERSIZE] == 1


@pytest.mark.parametrize("size", [0, 1, 414, 415, 416, 463, 464, 465, 498, 499, 500, 501, 502])
def test_resources_of_every_size_around_a_packet_arrive(size: int) -> None:
    """B15: certain sizes must not fail: around the MTU."""
    check_size(size, 500)


@pytest.mark.parametrize("parts", [1, 2, 4, 10, 74, 75, 148, 149])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_resources_of_every_size_around_a_window_arrive(parts: int, more: int) -> None:
    """B15: around the window and the hashmap window (the stream has 52 bytes more)."""
    check_size(parts * 464 - 52 + more, 500)


@pytest.mark.parametrize("size", [1048575 + more for more in range(-2, 3)])
def test_resources_of_a_whole_segment_arrive(size: int) -> None:
    """B15: around the segment, where a second one begins."""
    check_size(size, 8192)


def check_size(size: int, mtu: int) -> None:
    """A resource of this size arrives."""
    net = Net(2)
    a, b = net.engines
    net.join(a, b, mtu=mtu)
    link = net.link(a, net.listen(b, resources="all"))
    content = ruled("sizes", size)
    link.send_resource(content, compression="off")
    net.settle()
    assert net.one(b, ResourceReceived).data == content
    assert net.one(a, ResourceSent).ok


@pytest.mark.parametrize("more", [-2, -1, 0, 1, 2])
def test_packets_and_requests_of_every_size_around_the_mdu_arrive(more: int) -> None:
    """B15: a packet fits up to the MDU; a request becomes a resource beyond it."""
    net, a, b, _, link = linked()
    size = link.info.mdu + more
    if more > 0:
        with pytest.raises(EncodeError):
            link.send(bytes(size))
    else:
        link.send(bytes(size))
        net.settle()
        assert len(net.one(b, LinkPacketReceived).data) == size
    b.handle(link.info.destination, "/size")
    for spare in range(28, 40):  # array, time, path hash and the header of the bytes
        net.forget()
        link.request("/size", bytes(size - spare))
        net.settle()
        request = net.one(b, RequestReceived)
        assert request.data == bytes(size - spare)
        b.respond(request.token, request.data)
        net.settle()
        assert net.one(a, ResponseDone).data == bytes(size - spare)


# ------------------------------------------------------------------------------- life


def test_a_pending_link_closes_at_the_exact_tick() -> None:
    """B3: establishment time-out, with a reason."""
    net, a, b, wire = pair()
    own = net.listen(b)
    wire.cut = True
    number = a.open_link(own)
    net.settle()
    due = establishment_timeout(1, 10e6)
    net.advance(due - 0.000002)
    assert net.all(a, LinkClosed) == []
    net.advance(0.000003)
    closed = net.one(a, LinkClosed)
    assert (closed.link, closed.reason) == (number, CloseReason.TIMEOUT)
    assert closed.time_s == pytest.approx(MONO + due, abs=2e-6)


@pytest.mark.parametrize("context", range(256))
def test_repetitions_pass_the_filter_by_context(context: int) -> None:
    """B4: the filter exempts keepalives, parts, requests, channels and cache requests."""
    _, _, b, wire, link = linked()
    raw = link.seal(b"\xff", context=context)
    b.input(wire.at(b), raw)
    passes = b.input(wire.at(b), raw).reason != DropReason.DUPLICATE
    if context == Context.LINKCLOSE:
        return
    assert passes == (context in REPEATABLE)
    assert b.probe(wire.at(b), raw).accepted == passes


def test_identical_keepalives_keep_a_link_alive() -> None:
    """B4: the link must not die after the second one."""
    net, a, b, wire, link = linked()
    wire.seen.clear()
    net.advance(20 * link.info.keepalive_s)
    asks = [p for p in wire.frames(a) if p.context == Context.KEEPALIVE]
    assert len(asks) >= 19
    assert len({ask.raw for ask in asks}) == 1
    assert net.far(link, b).info.state == link.info.state == LinkState.ACTIVE


@pytest.mark.parametrize("backwards", [False, True])
def test_a_one_way_stream_stays_active(backwards: bool) -> None:
    """B5: for ten stale periods only one side sends data."""
    net, a, b, _, link = linked()
    sender = net.far(link, b) if backwards else link
    period = link.info.stale_s
    for _ in range(100):
        sender.send(b"stream", receipt=False)
        net.advance(period / 10)
    assert link.info.state == net.far(link, b).info.state == LinkState.ACTIVE
    assert net.all(a, LinkClosed) == net.all(b, LinkClosed) == []


def test_an_offline_interface_fails_a_link_at_once_and_by_name() -> None:
    """B6: not after thirty seconds."""
    net, a, b, wire = pair()
    own = net.listen(b)
    a.change_interface(wire.at(a), online=False)
    started = time.perf_counter()
    with pytest.raises(NoRouteError, match="wire 0 a") as refusal:
        a.open_link(own)
    assert time.perf_counter() - started < 0.01
    assert refusal.value.interface == "wire 0 a"


def test_a_failed_transmission_fails_the_packet_at_once() -> None:
    """B6: nothing is logged as sent that was not."""
    net, a, b, _ = pair()
    op = a.send(net.listen(b), b"x")
    (output,) = a.outputs(report=False)
    assert output.op == op
    a.sent(output.op, False)
    net.settle()
    done = net.one(a, ReceiptDone)
    assert (done.ok, done.stage) == (False, Stage.SEND)


@pytest.mark.parametrize("kind", ["tcp", "backbone", "udp", "kiss", "rnode", "i2p", "local"])
@pytest.mark.parametrize("hops", [1, 2, 5, 30, 127])
def test_the_deadline_of_a_link_goes_by_its_path(kind: str, hops: int) -> None:
    """B7: by the interface of the path entry and its hops; the path is not dropped."""
    engine = Engine(clock=(MONO, 0.0))
    engine.add_interface("another", kind="tcp")
    wire = engine.add_interface("wire", kind=kind)
    own = DestinationHash(bytes(16))
    engine.remember(own, identity(7))
    engine.put_path(
        PathRecord(destination=own, hops=hops, interface=wire, updated_s=MONO, expires_s=2 * MONO)
    )
    engine.open_link(own)
    # An unknown bitrate counts as the one at which an automatic MTU begins.
    bitrate = interface_defaults(kind)["bitrate"] or 62500
    due = establishment_timeout(hops, bitrate)
    engine.advance(due - 0.00001)
    assert not [e for e in engine.events() if isinstance(e, LinkClosed)]
    engine.advance(0.00002)
    assert [e.reason for e in engine.events() if isinstance(e, LinkClosed)] == [CloseReason.TIMEOUT]
    assert engine.path(own).state == PathState.UNRESPONSIVE


def test_a_stale_link_is_closed_with_a_reason() -> None:
    """B3: stale, then closed."""
    net, a, b, wire, link = linked()
    wire.cut = True
    net.advance(stale_time(link.info.rtt_s) - 0.001)
    assert link.info.state == LinkState.ACTIVE
    net.advance(0.001)
    assert link.info.state == LinkState.STALE
    net.advance(5.0)
    assert net.one(a, LinkClosed).reason == CloseReason.TIMEOUT
    assert net.one(b, LinkClosed).reason == CloseReason.TIMEOUT


# ---------------------------------------------------------------------------- transfers


class Forger:
    """Sends a resource by hand, with whatever is wrong with it."""

    def __init__(self) -> None:
        self.net, _, self.b, wire, self.link = linked(resources="all")
        self.iface = wire.at(self.b)
        self.sdu = self.link.info.mtu - 36

    def feed(self, payload: bytes, context: Context) -> DropReason:
        """One packet of the link."""
        frame = self.link.seal(payload, context=context)
        return self.b.input(self.iface, frame).reason

    def seal(self, plain: bytes) -> bytes:
        """A token under the link's key."""
        return bytes(Packet.unpack(self.link.seal(plain)).payload)

    def send(self, made: Segmenter, **lies: Any) -> ResourceFailed:
        """Advertises, sends all parts, and says how it ended."""
        fields = {name: getattr(made.advertisement, name) for name in ADVERTISED} | lies
        self.feed(Advertisement(**fields).pack(), Context.RESOURCE_ADV)
        for index in range(made.parts):
            self.feed(bytes(made.part(index)), Context.RESOURCE)
        self.net.settle()
        return self.net.one(self.b, ResourceFailed)


ADVERTISED = (
    "transfer_bytes",
    "data_bytes",
    "parts",
    "hash",
    "random_hash",
    "original_hash",
    "segment",
    "segments",
    "request_id",
    "flags",
    "hashmap",
)


def test_every_failed_assembly_has_an_error_of_its_own() -> None:
    """B9: damaged, wrong hash, not inflatable, too large, broken metadata: not a time-out."""
    content = ruled("assembly", 3000)
    reasons = {}

    forger = Forger()

    def damaged(plain: bytes) -> bytes:
        sealed = forger.seal(plain)
        return sealed[:-1] + bytes([sealed[-1] ^ 1])

    made = Segmenter(content, damaged, sdu=forger.sdu)
    reasons["damaged"] = forger.send(made)

    forger = Forger()
    made = Segmenter(content, forger.seal, sdu=forger.sdu)
    reasons["hash"] = forger.send(made, hash=bytes(32))

    forger = Forger()
    made = Segmenter(content, forger.seal, sdu=forger.sdu)
    flags = made.advertisement.flags | ResourceFlag.COMPRESSED
    reasons["inflate"] = forger.send(made, flags=flags)

    forger = Forger()
    made = Segmenter(content, forger.seal, sdu=forger.sdu)
    reasons["size"] = forger.send(made, data_bytes=2999)

    forger = Forger()
    made = Segmenter(content, forger.seal, sdu=forger.sdu, has_metadata=True)
    reasons["metadata"] = forger.send(made)

    assert {name: failed.reason for name, failed in reasons.items()} == {
        "damaged": "AUTH",
        "hash": "MISMATCH",
        "inflate": "COMPRESSED",
        "size": "LIMIT",
        "metadata": "TRUNCATED",
    }
    assert {failed.state for failed in reasons.values()} == {ResourceState.CORRUPT}
    assert {failed.stage for failed in reasons.values()} == {Stage.TRANSFER}


def test_progress_never_goes_back_and_is_complete_once() -> None:
    """B10: two counters, monotonic; all of it exactly once, after the proof."""
    for size, loss in ((1, 0), (500, 0), (50_000, 0), (50_000, 10), (300_000, 5)):
        net = Net(2)
        a, b = net.engines
        wire = net.join(a, b, kind="udp")
        link = net.link(a, net.listen(b, resources="all"))
        random = Random(size + loss)
        wire.pass_on = lambda _, raw, r=random, p=loss: [raw] if r.randrange(100) >= p else []
        link.send_resource(ruled("progress", size), compression="off")
        net.advance(60.0)
        for engine, end in ((a, ResourceSent), (b, ResourceReceived)):
            steps = net.all(engine, ProgressMade)
            done = [step.done_bytes for step in steps]
            on_wire = [step.wire_bytes for step in steps]
            assert done == sorted(done)
            assert on_wire == sorted(on_wire)
            assert all(step.fraction < 1.0 for step in steps)
            assert len(net.all(engine, end)) == 1
        sent = net.one(a, ResourceSent)
        assert (sent.ok, sent.done_bytes, sent.total_bytes) == (True, size, size)


def test_a_lost_proof_is_asked_for_again() -> None:
    """B11: done within three round trips and the timer, not minutes later."""
    net, a, b, wire, link = linked(resources="all")
    lost = []

    def lose_the_proof(sender: Engine, raw: bytes) -> list[bytes]:
        if Packet.unpack(raw).context == Context.RESOURCE_PRF and not lost:
            lost.append(raw)
            return []
        return [raw]

    wire.pass_on = lose_the_proof
    link.send_resource(ruled("proof", 5000), compression="off")
    net.settle()
    assert lost
    assert net.all(a, ResourceSent) == []
    assert len(net.all(b, ResourceReceived)) == 1
    net.advance(3 * (link.info.rtt_s or 0) + 10.001)
    assert net.one(a, ResourceSent).ok
    assert len(net.all(b, ResourceReceived)) == 1  # and it is not delivered twice


@pytest.mark.parametrize("percent", range(0, 31, 5))
def test_every_transfer_under_loss_ends_complete_or_with_a_stated_error(percent: int) -> None:
    """B12."""
    net, a, b, wire, link = linked(resources="all")
    random = Random(percent)
    wire.pass_on = lambda _, raw: [raw] if random.randrange(100) >= percent else []
    content = ruled("loss", 40_000)
    link.send_resource(content, compression="off")
    net.advance(600.0)
    sent = net.one(a, ResourceSent)
    if sent.ok:
        assert net.one(b, ResourceReceived).data == content
    else:
        assert sent.stage is not Stage.NONE
    assert len(net.all(b, ResourceReceived)) + len(net.all(b, ResourceFailed)) <= 1
    assert a.stats().operations == b.stats().operations == 0


ACTIONS = ("cancel", "ready", "timeout", "request", "proof")


@pytest.mark.parametrize("order", list(permutations(ACTIONS)), ids="-".join)
def test_a_cancelled_transfer_stays_cancelled_in_every_order(order: tuple[str, ...]) -> None:
    """B13: every interleaving of cancel, ready, time-out, request and proof."""
    net = Net(2, inline_jobs=False)
    a, b = net.engines
    wire = net.join(a, b, kind="udp")
    own = b.listen(identity(7), "test.echo", resources="all")
    b.announce(own)
    settle_by_hand(net)
    link = a.link(a.open_link(own))
    settle_by_hand(net)
    far = b.link_by_id(link.info.link_id)
    op = link.send_resource(ruled("cancel", 900), compression="off")
    assert [job.kind for job in a.pending_jobs] == [JobKind.RESOURCE_SEAL]

    cancelled = False
    ended = 0
    for action in order:
        if action == "cancel":
            a.cancel(op)
            cancelled = True
        elif action == "ready":
            while a.pending_jobs:
                a.run_job()
        elif action == "timeout":
            assert a.deadline is not None
            a.advance(a.deadline - a.now[0])
        elif action in ("request", "proof"):
            transfers = link.transfers()
            resource = transfers[0].resource_hash if transfers else bytes(32)
            if action == "request":
                frame = far.seal(b"\0" + resource, context=Context.RESOURCE_REQ)
            else:
                frame = far.seal(
                    resource + bytes(32),
                    context=Context.RESOURCE_PRF,
                    packet_type=PacketType.PROOF,
                )
            a.input(wire.at(a), frame)
        before = [e for e in a.events() if isinstance(e, ResourceSent)]
        ended += len(before)
        if cancelled:
            contexts = {Packet.unpack(output.data).context for output in a.outputs()}
            assert not contexts & {Context.RESOURCE_ADV, Context.RESOURCE} or action == "cancel"
            assert link.transfers() == []
    assert ended == 1
    a.advance(60.0)
    assert not [e for e in a.events() if isinstance(e, ResourceSent)]
    assert a.stats().operations == 0


def settle_by_hand(net: Net) -> None:
    """Settles engines whose jobs wait."""
    moved = True
    while moved:
        moved = False
        for engine in net.engines:
            while engine.pending_jobs:
                engine.run_job()
                moved = True
        for engine in net.engines:
            for output in engine.outputs():
                net.carry(engine, output.interface, output.data)
                moved = True
            net.heard[engine] += engine.events()


def peak_kb() -> int:
    """The most memory that the process had since it was last asked."""
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0])
    Path("/proc/self/clear_refs").write_text("5")
    return peak


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no /proc/self/clear_refs")
def test_a_bomb_is_refused_while_it_inflates() -> None:
    """B14: the bound is what was advertised, checked on the way."""
    bomb = bz2_compress(bytes(60_000_000))
    assert len(bomb) < 1000
    forger = Forger()
    made = Segmenter(bomb, forger.seal, sdu=forger.sdu)
    flags = made.advertisement.flags | ResourceFlag.COMPRESSED
    peak_kb()
    before = peak_kb()
    failed = forger.send(made, flags=flags, data_bytes=1_000_000)
    assert (failed.reason, failed.state) == ("LIMIT", ResourceState.CORRUPT)
    # bzip2 itself takes up to 4 MB for a stream of the largest block size.
    assert peak_kb() - before < 1000 + 1024 + 4500


def test_no_proof_is_lost_on_a_wire_without_delay() -> None:
    """B22: the receipt is registered before the bytes leave (2,000 of them here)."""
    check_proofs(1000)


@pytest.mark.slow
def test_no_proof_is_lost_in_a_hundred_thousand() -> None:
    """B22."""
    check_proofs(50_000)


def check_proofs(count: int) -> None:
    """So many packets and requests, each proven or answered."""
    _, a, b, wire, link = linked(prove="all")
    b.handle(link.info.destination, "/echo")
    proven = answered = 0
    for number in range(count):
        link.send(b"%d" % number)
        asked = link.request("/echo", number)
        for output in a.outputs():
            b.input(wire.at(b), output.data)
        for event in b.events():
            if isinstance(event, RequestReceived):
                b.respond(event.token, event.data)
        for output in b.outputs():
            a.input(wire.at(a), output.data)
        for heard in a.events():
            proven += isinstance(heard, ReceiptDone) and heard.ok
            answered += isinstance(heard, ResponseDone) and heard.ok and heard.op == asked
    assert (proven, answered) == (count, count)


def test_a_late_proof_on_a_closed_link_is_ignored() -> None:
    """B22."""
    _, a, b, wire, link = linked(prove="all")
    link.send(b"x")
    (output,) = a.outputs()
    b.input(wire.at(b), output.data)
    (proof,) = b.outputs()
    link.close()
    assert [e.stage for e in a.events() if isinstance(e, ReceiptDone)] == [Stage.LINK]
    assert a.input(wire.at(a), proof.data).reason == DropReason.PROOF_UNKNOWN


def test_a_link_packet_without_its_interface_goes_nowhere() -> None:
    """A2: a link is bound to the interface that it came up on; without it, it ends."""
    net, a, _, wire, link = linked()
    other = a.add_interface("other")
    a.remove_interface(wire.at(a))
    assert net.all(a, LinkClosed) == []
    net.settle()
    assert net.one(a, LinkClosed).reason == CloseReason.IFACE_GONE
    with pytest.raises(StateError):
        link.send(b"x")
    assert a.outputs() == []
    assert a.counters(other).tx_packets == 0


def test_a_link_packet_on_another_interface_is_not_taken() -> None:
    """A2: nor does it block the copy on the right one."""
    net, _, b, wire, link = linked()
    other = b.add_interface("other")
    raw = link.seal(b"x")
    assert b.input(other, raw).reason == DropReason.LINK_IFACE
    assert b.counters(other).drops == {DropReason.LINK_IFACE: 1}
    assert b.input(wire.at(b), raw).accepted
    net.settle()
    assert len(net.all(b, LinkPacketReceived)) == 1


def test_a_retry_leaves_the_path_alone() -> None:
    """B7: a retry never drops the path unless the link itself proved dead."""
    net, a, b, wire = pair()
    own = net.listen(b)
    path = a.path(own)
    wire.cut = True
    for _ in range(3):
        a.open_link(own)
        net.advance(13.0)
    assert replace(a.path(own), updated_s=0.0, updated_unix_s=0.0) == replace(
        path, state=PathState.UNRESPONSIVE, updated_s=0.0, updated_unix_s=0.0
    )
    wire.cut = False
    net.link(a, own)
    assert a.path(own).state == PathState.RESPONSIVE
    assert len(net.all(a, LinkActive)) == 1
