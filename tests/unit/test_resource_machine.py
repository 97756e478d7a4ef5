"""Sender and receiver of a resource by themselves: link, clock and entropy are given (E9)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import netmesh.pure.resource
import netmesh.resource
from golden import ruled
from netmesh import errors
from netmesh.constants import (
    RESOURCE_HASHMAP_MAX,
    RESOURCE_SEGMENT_MAX,
    Context,
    PacketType,
    ResourceFlag,
    ResourceState,
)

KEY = bytes(range(64))
SDU = 464
STEP = 0.05


@pytest.fixture(params=[netmesh.resource, netmesh.pure.resource], ids=["core", "pure"])
def kit(request: pytest.FixtureRequest) -> ModuleType:
    """Both implementations of the codecs."""
    return request.param  # type: ignore[no-any-return]


def entropy(seed: int = 1) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


def sender_of(kit: Any, data: bytes, **options: Any) -> Any:
    return kit.ResourceSender(data, KEY, entropy=entropy(), **{"sdu": SDU} | options)


class Exchange:
    """Moves what two machines send, a step of time for each packet."""

    def __init__(self, sender: Any, receiver: Any, *, lose: Callable[[Any], bool] | None = None):
        self.sender, self.receiver = sender, receiver
        self.now = 0.0
        self.lose = lose or (lambda _: False)
        self.seen: list[Any] = []

    def to_receiver(self, out: Any) -> list[Any]:
        handlers = {
            Context.RESOURCE: lambda p: self.receiver.on_part(p, self.now),
            Context.RESOURCE_HMU: lambda p: self.receiver.on_hashmap(p, self.now),
            Context.RESOURCE_ADV: lambda p: self.receiver.on_advertisement(p, self.now),
            Context.RESOURCE_ICL: self.receiver.on_cancel,
            Context.CACHE_REQUEST: lambda _: self.receiver.prove(),
        }
        return list(handlers[out.context](out.payload))

    def to_sender(self, out: Any) -> list[Any]:
        handlers = {
            Context.RESOURCE_REQ: lambda p: self.sender.on_request(p, self.now),
            Context.RESOURCE_PRF: lambda p: self.sender.on_proof(p, self.now),
            Context.RESOURCE_RCL: lambda p: self.sender.on_reject(p) or [],
        }
        return list(handlers[out.context](out.payload))

    def run(self, out: list[Any], steps: int = 200_000, *, from_sender: bool = False) -> None:
        """Until nothing is under way and nothing is due."""
        queue = [(from_sender, each) for each in out]
        for _ in range(steps):
            if not queue:
                due = min(self.sender.deadline_s, self.receiver.deadline_s)
                if due == float("inf"):
                    return
                self.now = max(self.now, due)
                queue += [(True, each) for each in self.sender.tick(self.now)]
                queue += [(False, each) for each in self.receiver.tick(self.now)]
                continue
            sent_by_sender, each = queue.pop(0)
            self.seen.append(each)
            self.now += STEP
            if self.lose(each):
                continue
            answer = self.to_receiver(each) if sent_by_sender else self.to_sender(each)
            queue += [(not sent_by_sender, more) for more in answer]
        raise AssertionError("it goes on for ever")


def exchange(kit: Any, data: bytes, *, lose: Any = None, take: Any = None, **options: Any) -> Any:
    sender = sender_of(kit, data, **options)
    (first,) = sender.advertise(0.0)
    receiver = kit.ResourceReceiver(first.payload, KEY, sdu=SDU, **(take or {}))
    run = Exchange(sender, receiver, lose=lose)
    run.run(receiver.accept(0.0))
    return run


# ----------------------------------------------------------------- prepared and read


def test_a_sender_is_prepared_without_advertising_and_all_of_it_is_readable(kit: Any) -> None:
    """E9: hash, original hash, random hash, proof, hashmap, parts, flags, segments, sizes."""
    data = ruled("machine", 3000)
    sender = sender_of(kit, data, compression="off", metadata={"name": b"a"})
    assert (sender.state, sender.deadline_s) == (ResourceState.NONE, float("inf"))
    block = kit.metadata_pack({"name": b"a"})
    plain = block + data
    assert sender.hash == hashlib.sha256(plain + sender.random_hash).digest()
    assert sender.original_hash == sender.hash
    assert sender.random_hash == entropy()(4)
    assert sender.expected_proof == hashlib.sha256(plain + sender.hash).digest()
    assert sender.parts == len(sender.hashmap) // 4 == -(-sender.transfer_bytes // SDU)
    assert b"".join(bytes(sender.part(i)) for i in range(sender.parts)) == bytes(
        sender.prepared.stream
    )
    assert sender.flags == ResourceFlag.ENCRYPTED | ResourceFlag.METADATA
    assert (sender.segment, sender.segments) == (1, 1)
    assert sender.data_bytes == len(plain)
    assert (sender.sent, sender.requests, sender.request_bytes, sender.progress) == (0, 0, 0, 0.0)
    assert not sender.compressed
    (advertised,) = sender.advertise(7.0)
    assert (advertised.context, advertised.payload) == (
        Context.RESOURCE_ADV,
        sender.advertisement.pack(),
    )
    assert sender.state == ResourceState.ADVERTISED
    assert sender.advertise(8.0) == []


def test_given_entropy_gives_the_same_bytes(kit: Any) -> None:
    """E9: entropy is an argument."""
    data = ruled("machine", 5000)
    first, second = sender_of(kit, data), sender_of(kit, data)
    assert bytes(first.prepared.stream) == bytes(second.prepared.stream)
    pure = sender_of(netmesh.pure.resource, data, compression="off")
    core = sender_of(netmesh.resource, data, compression="off")
    assert bytes(pure.prepared.stream) == bytes(core.prepared.stream)


def test_a_seal_function_replaces_the_link(kit: Any) -> None:
    """E9: sealed and opened by functions, of any size that they choose."""

    def seal(plain: bytes) -> bytes:
        return b"sealed:" + plain[::-1]

    def opened(stream: bytes) -> bytes:
        return stream[7:][::-1]

    sender = kit.ResourceSender(ruled("sealed", 4000), seal, entropy=entropy(), sdu=100)
    (first,) = sender.advertise(0.0)
    receiver = kit.ResourceReceiver(first.payload, opened, sdu=100)
    Exchange(sender, receiver).run(receiver.accept(0.0))
    assert receiver.data == ruled("sealed", 4000)
    assert sender.state == receiver.state == ResourceState.COMPLETE


def test_compression_is_off_when_smaller_or_automatic(kit: Any) -> None:
    """E9: compression modes."""
    text, noise = b"words " * 2000, random.Random(5).randbytes(12000)
    made = {
        (mode, name): sender_of(kit, data, compression=mode).compressed
        for mode in ("off", "when_smaller", "automatic")
        for name, data in (("text", text), ("noise", noise))
    }
    assert made == {
        ("off", "text"): False,
        ("off", "noise"): False,
        ("when_smaller", "text"): True,
        ("when_smaller", "noise"): False,
        ("automatic", "text"): True,
        ("automatic", "noise"): False,
    }


# --------------------------------------------------------------------------- exchanged


@pytest.mark.parametrize("size", [0, 1, SDU, 33_000, 34_336, 80_000])
def test_any_size_arrives(kit: Any, size: int) -> None:
    """E9: requests, parts, hashmap updates and proofs are fed."""
    data = ruled("sizes", size)
    run = exchange(kit, data, compression="off")
    assert run.receiver.data == data
    assert run.sender.state == run.receiver.state == ResourceState.COMPLETE
    assert run.sender.progress == 1.0
    assert run.sender.sent == run.sender.parts == run.receiver.received
    assert run.sender.requests == run.receiver.requests
    assert run.sender.request_bytes == run.receiver.request_bytes
    assert run.receiver.proofs_sent == 1
    assert run.receiver.consecutive == run.receiver.parts
    assert run.receiver.hashmap_height == run.receiver.parts
    assert not run.receiver.waiting_for_hashmap
    updates = sum(each.context == Context.RESOURCE_HMU for each in run.seen)
    assert updates == (run.sender.parts - 1) // RESOURCE_HASHMAP_MAX
    (proof,) = [each for each in run.seen if each.context == Context.RESOURCE_PRF]
    assert proof.packet_type == PacketType.PROOF


def test_several_segments_follow_each_other() -> None:
    """E9: each is advertised after the last one's proof; metadata is in the first."""
    data = random.Random(1).randbytes(2 * RESOURCE_SEGMENT_MAX + 9)
    kit = netmesh.resource
    sender = kit.ResourceSender(data, KEY, sdu=8156, metadata=[1], compression="off")
    (first,) = sender.advertise(0.0)
    receiver = kit.ResourceReceiver(first.payload, KEY, sdu=8156)
    run = Exchange(sender, receiver)
    run.run(receiver.accept(0.0))
    assert receiver.data == data
    assert receiver.metadata == [1]
    assert (receiver.segment, receiver.segments, receiver.proofs_sent) == (3, 3, 3)
    both = (Context.RESOURCE_ADV, Context.RESOURCE_PRF)
    order = [each.context for each in run.seen if each.context in both]
    assert order == [Context.RESOURCE_PRF, Context.RESOURCE_ADV] * 2 + [Context.RESOURCE_PRF]
    assert sender.original_hash == receiver.original_hash != sender.hash
    assert sender.flags & ResourceFlag.SPLIT


def test_the_pure_machines_exchange_segments_with_those_of_the_core() -> None:
    """E9: in both, and with each other; sealed by functions, as AES in Python is slow."""

    def same(stream: bytes) -> bytes:
        return stream

    data = random.Random(2).randbytes(RESOURCE_SEGMENT_MAX + 1)
    kits = (netmesh.resource, netmesh.pure.resource)
    for one, other in (kits, kits[::-1]):
        sender: Any = one.ResourceSender(data, same, sdu=65536, compression="off")  # type: ignore[attr-defined]
        (first,) = sender.advertise(0.0)
        receiver: Any = other.ResourceReceiver(first.payload, same, sdu=65536)  # type: ignore[attr-defined]
        Exchange(sender, receiver).run(receiver.accept(0.0))
        assert receiver.data == data


def test_the_window_grows_and_is_readable(kit: Any) -> None:
    """E9: the window and its limits, as the value of netmesh.decisions moves it."""
    sender = sender_of(kit, ruled("window", 60_000), compression="off")
    (first,) = sender.advertise(0.0)
    receiver = kit.ResourceReceiver(first.payload, KEY, sdu=SDU)
    assert (receiver.window, receiver.window_min, receiver.window_max) == (4, 2, 10)
    run = Exchange(sender, receiver)
    windows = []
    run.lose = lambda _: windows.append(receiver.window) or False  # type: ignore[func-returns-value]
    run.run(receiver.accept(0.0))
    assert windows == sorted(windows)
    assert windows[-1] > 4
    assert receiver.window_max >= receiver.window
    assert receiver.rtt_s > 0
    assert receiver.data_rate > 0


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("known", [None, 400.0])
@pytest.mark.parametrize("seconds", [0.25, 16.0])
def test_a_round_that_was_asked_for_again_is_half_believed(
    kit: Any, seconds: float, known: float | None, repeated: bool
) -> None:
    """Its parts may be the answer to the request before: it never says that a link is fast."""
    sender = sender_of(kit, ruled("again", 10_000), compression="off")
    (first,) = sender.advertise(0.0)
    receiver = kit.ResourceReceiver(first.payload, KEY, sdu=SDU, rate=known)
    (request,) = receiver.accept(0.0)
    asked_s = 0.0
    if repeated:
        asked_s = receiver.deadline_s
        (request,) = receiver.tick(asked_s)
    parts = [one.payload for one in sender.on_request(request.payload, asked_s)]
    for part in parts:
        receiver.on_part(part, asked_s + seconds)
    measured = sum(map(len, parts)) / seconds
    if not repeated or known is None:
        assert receiver.data_rate == pytest.approx(measured)
    elif seconds < 1:
        assert measured > known
        assert receiver.data_rate == known
    else:
        assert measured < known
        assert receiver.data_rate == pytest.approx((measured + known) / 2)


@pytest.mark.parametrize("percent", [5, 15, 30])
def test_loss_is_mended_or_ends_with_a_reason(kit: Any, percent: int) -> None:
    """E9: time-outs by the given clock, the window shrinks, retries are counted."""
    chance = random.Random(percent)
    run = exchange(
        kit, ruled("loss", 20_000), compression="off", link_id=bytes(16),
        lose=lambda _: chance.random() * 100 < percent,
    )  # fmt: skip
    if run.receiver.state == ResourceState.COMPLETE:
        assert run.receiver.data == ruled("loss", 20_000)
    else:
        assert run.receiver.reason != "OK"
    assert run.sender.state in (
        ResourceState.COMPLETE,
        ResourceState.FAILED,
        ResourceState.REJECTED,
    )


def test_a_lost_proof_is_asked_for(kit: Any) -> None:
    """E9: proofs sent are counted."""
    lost: list[Any] = []

    def lose(each: Any) -> bool:
        if each.context == Context.RESOURCE_PRF and not lost:
            lost.append(each)
            return True
        return False

    run = exchange(kit, b"x" * 100, link_id=bytes(16), lose=lose)
    assert run.sender.state == ResourceState.COMPLETE
    assert run.receiver.proofs_sent == 2


def test_nothing_heard_ends_by_the_clock(kit: Any) -> None:
    """E9: states, retries and deadlines without anybody at the other end."""
    sender = sender_of(kit, b"x", rtt_s=0.5)
    assert len(sender.advertise(0.0)) == 1
    assert sender.deadline_s == 4.0
    again = 0
    while sender.state == ResourceState.ADVERTISED:
        again += sum(o.context == Context.RESOURCE_ADV for o in sender.tick(sender.deadline_s))
    assert (again, sender.state) == (4, ResourceState.FAILED)
    receiver = kit.ResourceReceiver(sender.advertisement, KEY, sdu=SDU, rtt_s=0.5)
    receiver.accept(0.0)
    window, asked = receiver.window, 0
    while receiver.state == ResourceState.TRANSFERRING:
        asked += sum(o.context == Context.RESOURCE_REQ for o in receiver.tick(receiver.deadline_s))
    assert (asked, receiver.reason) == (16, "TIMEOUT")
    assert receiver.window < window


# --------------------------------------------------------------------------- decisions


def test_a_held_resource_is_proven_when_it_is_stored(kit: Any) -> None:
    run = exchange(kit, b"held", take={"hold": True})
    assert run.receiver.state == ResourceState.COMPLETE
    assert run.receiver.proofs_sent == 0
    assert run.sender.state != ResourceState.COMPLETE
    sender = sender_of(kit, b"held")
    (first,) = sender.advertise(0.0)
    receiver = kit.ResourceReceiver(first.payload, KEY, sdu=SDU, hold=True)
    with pytest.raises(errors.StateError):
        receiver.prove()
    (request,) = receiver.accept(0.0)
    for part in sender.on_request(request.payload, 0.1):
        assert receiver.on_part(part.payload, 0.2) == []
    (proof,) = receiver.prove()
    assert sender.on_proof(proof.payload, 0.3) == []
    assert sender.state == ResourceState.COMPLETE


def test_the_output_is_bounded(kit: Any) -> None:
    """E9: the bound is settable; what inflates beyond its advertised size is corrupt."""
    sender = sender_of(kit, bytes(5000), compression="when_smaller")
    (first,) = sender.advertise(0.0)
    with pytest.raises(errors.ResourceError) as caught:
        kit.ResourceReceiver(first.payload, KEY, sdu=SDU, max_size=4999)
    assert caught.value.reason == "LIMIT"
    told = sender.advertisement
    names = ("transfer_bytes", "parts", "hash", "random_hash", "original_hash", "segment",
             "segments", "request_id", "flags", "hashmap")  # fmt: skip
    lie = kit.Advertisement(**{n: getattr(told, n) for n in names}, data_bytes=100)
    receiver = kit.ResourceReceiver(lie, KEY, sdu=SDU)
    run = Exchange(sender, receiver)
    run.run(receiver.accept(0.0))
    assert (receiver.state, receiver.reason) == (ResourceState.CORRUPT, "LIMIT")
    assert sender.state == ResourceState.REJECTED


def test_a_cancel_is_absorbing_on_both_sides(kit: Any) -> None:
    """E9, B13: after it nothing moves either machine."""
    for side in ("sender", "receiver"):
        sender = sender_of(kit, ruled("cancel", 5000), compression="off")
        (first,) = sender.advertise(0.0)
        receiver = kit.ResourceReceiver(first.payload, KEY, sdu=SDU)
        (request,) = receiver.accept(0.0)
        parts = sender.on_request(request.payload, 0.1)
        receiver.on_part(parts[0].payload, 0.2)
        if side == "sender":
            (told,) = sender.cancel()
            assert told.context == Context.RESOURCE_ICL
            (echo,) = receiver.on_cancel(told.payload)
            sender.on_reject(echo.payload)
            assert (sender.state, receiver.state) == (ResourceState.FAILED,) * 2
        else:
            (told,) = receiver.cancel()
            assert told.context == Context.RESOURCE_RCL
            sender.on_reject(told.payload)
            assert sender.state == ResourceState.REJECTED
        before = (sender.state, receiver.state)
        assert receiver.on_part(parts[1].payload, 0.3) == []
        assert sender.on_request(request.payload, 0.3) == []
        assert sender.cancel() == receiver.cancel() == []
        assert sender.tick(1e9) == receiver.tick(1e9) == []
        (again,) = receiver.on_advertisement(sender.advertisement, 0.4)
        assert again.context == Context.RESOURCE_RCL
        assert (sender.state, receiver.state) == before


def test_lies_about_the_next_segment_end_it(kit: Any) -> None:
    first = sender_of(kit, b"x")
    first.advertise(0.0)
    told = first.advertisement
    names = ("transfer_bytes", "parts", "hash", "random_hash", "original_hash", "segment",
             "data_bytes", "request_id", "flags", "hashmap", "segments")  # fmt: skip
    fields = {n: getattr(told, n) for n in names} | {"segments": 2, "data_bytes": 2}
    for lie in ({"segment": 1}, {"data_bytes": 3}, {"segments": 3}, {"original_hash": bytes(32)}):
        receiver = kit.ResourceReceiver(kit.Advertisement(**fields), KEY, sdu=SDU)
        (request,) = receiver.accept(0.0)
        (part,) = first.on_request(request.payload, 0.0)
        (proof,) = receiver.on_part(part.payload, 0.1)
        assert proof.context == Context.RESOURCE_PRF
        assert receiver.between
        second = {**fields, "hash": bytes(31) + b"\1", "segment": 2} | lie
        (refused,) = receiver.on_advertisement(kit.Advertisement(**second), 0.2)
        assert refused.context == Context.RESOURCE_RCL
        assert (receiver.state, receiver.reason) == (ResourceState.CORRUPT, "MISMATCH")


def test_a_link_sends_one_resource_at_a_time_and_keeps_the_window(kit: Any) -> None:
    """E9: the next one is visibly queued; an incoming one starts with the last one's window."""
    queue = kit.ResourceQueue()
    first, second, third = (sender_of(kit, b"%d" % n) for n in range(3))
    assert [o.context for o in queue.add(first, 0.0)] == [Context.RESOURCE_ADV]
    assert queue.add(second, 0.0) == queue.add(third, 0.0) == []
    assert (second.state, third.state) == (ResourceState.QUEUED,) * 2
    assert (queue.current, queue.waiting) == (first, (second, third))
    assert queue.last_window is None
    receiver = kit.ResourceReceiver(first.advertisement, KEY, sdu=SDU, window=7)
    assert receiver.window == 7
    Exchange(first, receiver).run(receiver.accept(0.0))
    queue.ended(receiver)
    assert queue.last_window == receiver.window
    second.cancel()
    (told,) = queue.advance(1.0)
    assert told.payload == third.advertisement.pack()
    assert (queue.current, queue.waiting) == (third, ())
