"""Channels and streams on bad media: in order, each once, or a stated end."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from netmesh.constants import ReceiptState
from netmesh.engine import EngineChannel
from netmesh.events import (
    ChannelMessage,
    ChannelSent,
    Event,
    LinkActive,
    LinkClosed,
    StreamReceived,
    StreamSent,
)
from netmesh.records import CloseReason
from netmesh.sim import SimNode, Simulation, scenario
from sim.scenarios import bad_medium, job_delay, linked, make_known, quiet

ENDS = (CloseReason.CHANNEL, CloseReason.TIMEOUT, CloseReason.DESTINATION, CloseReason.INITIATOR)


KINDS = (ChannelMessage, ChannelSent, LinkActive, LinkClosed, StreamReceived, StreamSent)

E = TypeVar("E")


class Heard:
    """What a node has been told of channels and links, from the beginning."""

    def __init__(self, node: SimNode) -> None:
        self._events: list[Event] = []
        for kind in KINDS:
            node.on(kind, self._events.append)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self._events if isinstance(event, kind)]


def opened(
    sim: Simulation, alice: SimNode, bob: SimNode
) -> tuple[EngineChannel, EngineChannel, Heard, Heard]:
    """The channels of a link that came up at both ends, and what they are told."""
    heard = Heard(alice), Heard(bob)
    inbox = bob.listen(sim.identity("bob"), "example.channel", channels=True)
    make_known(sim, bob, inbox, alice)
    for _ in range(50):
        link = linked(sim, alice, inbox)
        link_id = alice.link(link).info.link_id
        sim.run(until=lambda: link_id in ups(heard[1]), timeout_s=10)  # noqa: B023
        there = ups(heard[1]).get(link_id)
        if there is not None and not isinstance(alice.state_of(link), LinkClosed):
            return alice.link(link).open_channel(), bob.link(there).open_channel(), *heard
    sim.fail("50 links were not enough")
    raise AssertionError


def ups(heard: Heard) -> dict[bytes, int]:
    return {event.link_id: event.link for event in heard.of(LinkActive)}


@scenario
def messages_and_streams(
    sim: Simulation, *, messages: int = 30, size: int = 6_000
) -> dict[str, float]:
    """Messages and streams in both directions over one link, on any medium."""
    random = sim.random
    air = bad_medium(sim)
    alice = sim.node("alice", job_delay=job_delay(sim))
    bob = sim.node("bob", job_delay=job_delay(sim))
    kind = random.choice(["udp", "tcp", "rnode"])
    for node in (alice, bob):
        node.connect(air, kind=kind)
    here, there, ours, theirs = opened(sim, alice, bob)
    ends = ((alice, here), (bob, there))
    both = ((True, here.link), (False, there.link))
    posted: dict[SimNode, list[tuple[int, bytes]]] = {alice: [], bob: []}
    written: dict[SimNode, dict[int, bytes]] = {alice: {}, bob: {}}
    for node, channel in ends:
        for number in range(messages):
            content = b"%s %d" % (node.name.encode(), number)
            posted[node].append((channel.post(number, content), content))
        for stream in range(2):
            text = b"words and words " * (size // 16)
            content = text if random.random() < 0.5 else random.randbytes(size)
            half = random.randrange(size)
            mode = random.choice(["off", "when_smaller", "automatic"])
            channel.write(stream, content[:half], compression=mode)
            channel.write(stream, content[half:], eof=True, compression=mode)
            written[node][stream] = content
    quiet(sim, alice, bob)
    ended = [each for heard in (ours, theirs) for each in heard.of(LinkClosed)]
    ended = [each for each in ended if (each.initiator, each.link) in both]
    sim.expect(all(each.reason in ENDS for each in ended), "a link ended without its reason")
    sim.run(1_000)  # what is proven may still be inflated by slow jobs
    for node, said, got in ((alice, ours, theirs), (bob, theirs, ours)):
        check_messages(sim, posted[node], said, got)
        check_streams(sim, written[node], said, got, closed=bool(ended))
    return {"closed": bool(ended), "frames": air.stats.offered}


def check_messages(
    sim: Simulation, posted: list[tuple[int, bytes]], said: Heard, heard: Heard
) -> None:
    """What arrives is a run of what was posted; what was proven is in it."""
    got = [each.data for each in heard.of(ChannelMessage)]
    sim.expect(got == [content for _, content in posted[: len(got)]], "another order")
    ends = {each.op: each for each in said.of(ChannelSent)}
    sim.expect(set(ends) == {op for op, _ in posted}, "not one end for each message")
    for op, content in posted:
        if ends[op].state is ReceiptState.DELIVERED:
            sim.expect(content in got, "proven, and not delivered")


def check_streams(
    sim: Simulation, written: dict[int, bytes], said: Heard, heard: Heard, *, closed: bool
) -> None:
    """What arrives is the beginning of what was written; all of it if the link lived."""
    ends = said.of(StreamSent)
    sim.expect(len(ends) == 2 * len(written), "not one end for each write")
    for stream, content in written.items():
        told = [each for each in heard.of(StreamReceived) if each.stream == stream]
        data = b"".join(each.data for each in told)
        sim.expect(content.startswith(data), f"other bytes in stream {stream}")
        proven = sum(each.done_bytes for each in ends if each.stream == stream)
        sim.expect(proven <= len(data), "proven, and not delivered")
        if any(each.eof for each in told):
            sim.expect(data == content and told[-1].eof, "bytes after the end, or none")
        else:
            sim.expect(closed, f"stream {stream} never ended")


@scenario
def large_stream(
    sim: Simulation,
    *,
    size: int = 10_000_000,
    rtt_ms: float = 20.0,
    loss: float = 0.0,
    duplicate: float = 0.0,
    reorder: float = 0.0,
) -> dict[str, float]:
    """Random bytes through one stream: each arrives once, as fast as the window allows."""
    air = sim.medium(
        "air",
        delay_s=rtt_ms / 2000,
        loss=loss,
        duplicate=duplicate,
        reorder=reorder,
        reorder_s=rtt_ms / 1000,
    )
    alice, bob = sim.node("alice"), sim.node("bob")
    for node in (alice, bob):
        node.connect(air, kind="tcp")
    here, _, _, theirs = opened(sim, alice, bob)
    began = sim.time_s
    content = sim.random.randbytes(size)
    half = size // 2
    first = here.write(7, content[:half], compression="off")
    second = here.write(7, content[half:], eof=True, compression="off")
    middle = alice.wait(first)
    ramp = sim.time_s
    end = alice.wait(second)
    sim.expect(middle.ok and end.ok, "the stream failed")
    digest = hashlib.sha256()
    received = 0
    for event in theirs.of(StreamReceived):
        digest.update(event.data)
        received += len(event.data)
    sim.expect(received == size, f"{received} bytes of {size} arrived")
    sim.expect(digest.digest() == hashlib.sha256(content).digest(), "other bytes arrived")
    info = here.info
    rate = (size - half) / max(sim.time_s - ramp, 1e-9)
    allowed = info.window_max * (info.mdu - 2) / (rtt_ms / 1000)
    return {
        "share_of_window": rate / allowed,
        "seconds": sim.time_s - began,
        "repeated": info.repeated,
        "messages": info.sent,
    }


@scenario
def many_messages(sim: Simulation, *, count: int = 600, rtt_ms: float = 20.0) -> dict[str, float]:
    """The longest messages, with some waiting always: in order, as fast as the window allows."""
    air = sim.medium("air", delay_s=rtt_ms / 2000)
    alice, bob = sim.node("alice"), sim.node("bob")
    for node in (alice, bob):
        node.connect(air, kind="tcp")
    here, _, _, theirs = opened(sim, alice, bob)
    size = here.info.mdu
    content = [sim.random.randbytes(size) for _ in range(count)]
    ops: list[int] = []
    ramp = 0.0
    for number, each in enumerate(content):
        if number >= 200:
            alice.wait(ops[number - 200])
        if number == 200 + count // 2:
            ramp = sim.time_s
        ops.append(here.post(0x0101, each))
    sim.expect(all(alice.wait(op).ok for op in ops), "a message failed")
    sim.expect([each.data for each in theirs.of(ChannelMessage)] == content, "other messages")
    info = here.info
    # The first half was proven when the clock of the second one began.
    rate = (count - count // 2 - 1) * size / (sim.time_s - ramp)
    return {
        "share_of_window": rate / (info.window_max * size / (rtt_ms / 1000)),
        "repeated": info.repeated,
    }


@scenario
def slow_reader(sim: Simulation, *, size: int = 300_000) -> dict[str, float]:
    """A program that takes little at a time slows its peer, for as long as it likes."""
    random = sim.random
    air = bad_medium(sim, rate_bps=None, corrupt=0.0, loss=random.choice([0.0, 0.1]))
    alice = sim.node("alice", job_delay=job_delay(sim))
    bob = sim.node("bob", job_delay=job_delay(sim), credit=30)
    for node in (alice, bob):
        node.connect(air, kind="tcp")
    here, there, _, theirs = opened(sim, alice, bob)
    content = random.randbytes(size)
    op = here.write(1, content, eof=True, compression="off")
    got = b""
    seen = 0
    while len(got) < size:
        sim.run(random.choice([0.1, 5.0, 40.0]))
        got = b"".join(each.data for each in theirs.of(StreamReceived))
        if alice.end_of(op) is None:
            sim.expect(not alice.link(here.link).info.reason, "the link ended")
        bob.credit(random.randrange(1, 5))
        seen += 1
        sim.expect(seen < 5_000, "it stands still")
    sim.expect(got == content, "other bytes arrived")
    sim.expect(alice.wait(op).ok, "the write failed")
    return {"rounds": seen, "refused": there.info.refused}
