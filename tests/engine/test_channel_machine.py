"""E10: a channel by itself: outlet, round-trip time and clock are given."""

from __future__ import annotations

import gc
import random
import weakref
from dataclasses import dataclass, field

import pytest

from netmesh._core import ChannelCore
from netmesh.channel import Envelope
from netmesh.channels import ChannelMachine, RawMessage, TypedMessage
from netmesh.constants import ReceiptState
from netmesh.decisions import channel_timeout, channel_window, channel_window_delivered
from netmesh.errors import (
    ChannelClosedError,
    MessageTooLargeError,
    MessageTypeError,
    StateError,
    WindowFullError,
)
from netmesh.records import DropReason

MDU = 431


@dataclass
class Word(TypedMessage):
    """A word."""

    MSGTYPE = 0x0042
    text: str

    def pack(self) -> bytes:
        return self.text.encode()

    @classmethod
    def unpack(cls, data: bytes) -> Word:
        return cls(data.decode())


@dataclass
class Wire:
    """Packets and proofs of one end."""

    packets: list[tuple[bytes, bytes]] = field(default_factory=list)
    proofs: list[bytes] = field(default_factory=list)
    count: int = 0
    broken: bool = False

    def send(self, envelope: bytes) -> bytes:
        if self.broken:
            raise OSError("the wire is broken")
        self.count += 1
        key = self.count.to_bytes(32, "big")
        self.packets.append((key, envelope))
        return key

    def prove(self, key: bytes) -> None:
        self.proofs.append(key)


class Pair:
    """Two channels and the time between them."""

    def __init__(self, rtt_s: float = 0.1, **options: bool) -> None:
        self.now = 50.0
        self.wires = Wire(), Wire()
        settings = {"all_types": True} | options
        self.left, self.right = (
            ChannelMachine(wire, rtt_s=rtt_s, link_mdu=MDU, clock=lambda: self.now, **settings)
            for wire in self.wires
        )
        self.got: list[object] = []
        self.right.add_handler(self.got.append)

    def carry(self, *, after_s: float = 0.0) -> None:
        """Packets of the left to the right, and their proofs back."""
        left, right = self.wires
        packets, left.packets = left.packets, []
        self.now += after_s / 2
        for key, envelope in packets:
            self.right.receive(key, envelope)
        self.now += after_s / 2
        proofs, right.proofs = right.proofs, []
        for key in proofs:
            assert self.left.proven(key)


def test_a_send_result_has_sequence_tries_and_state() -> None:
    pair = Pair()
    result = pair.left.send(Word("one"))
    assert (result.sequence, result.tries, result.state) == (0, 1, ReceiptState.SENT)
    pair.carry(after_s=0.1)
    assert result.state is ReceiptState.DELIVERED
    assert pair.got == [RawMessage(0x42, b"one")]
    assert pair.left.info.proof_rtt_s == pytest.approx(0.1)


def test_tries_last_what_the_formula_says_and_the_last_one_ends_it() -> None:
    pair = Pair(rtt_s=1.0)
    result = pair.left.send(Word("lost"))
    first = pair.left.outstanding[0]
    assert first.due_s - pair.now == pytest.approx(channel_timeout(1.0, 1, 1))
    for tries in range(1, 6):
        assert pair.left.outstanding[0].tries == tries
        assert pair.left.deadline is not None
        pair.now = pair.left.deadline
        alive = pair.left.tick()
        assert alive == (tries < 5)
    assert (result.tries, result.state) == (5, ReceiptState.FAILED)
    assert len(pair.wires[0].packets) == 5
    assert pair.left.deadline is None
    with pytest.raises(ChannelClosedError):
        pair.left.send(Word("late"))


@pytest.mark.parametrize("rtt", [0.01, 0.18, 0.3, 0.75, 1.0, 1.45, 1.5])
def test_the_window_moves_as_the_decision_functions_say(rtt: float) -> None:
    pair = Pair(rtt_s=rtt)
    window = (*channel_window(rtt), 0, 0)
    for _ in range(60):
        info = pair.left.info
        assert window == (
            info.window,
            info.window_max,
            info.window_min,
            info.flexibility,
            info.fast_rounds,
            info.medium_rounds,
        )
        assert info.room == info.window
        pair.left.send(Word("x"))
        pair.carry()
        window = channel_window_delivered(window, rtt)
    for _ in range(pair.left.info.window):
        pair.left.send(Word("x"))
    with pytest.raises(WindowFullError):
        pair.left.send(Word("one too many"))


@pytest.mark.slow
def test_sequences_wrap_without_holding_anything_up() -> None:
    pair = Pair()
    for number in range(65_536 + 10):
        result = pair.left.send(RawMessage(1, b""))
        pair.carry()
        assert result.sequence == number % 65_536
    assert pair.right.info.next_rx == 10
    assert len(pair.got) == 65_546


def test_classes_come_as_objects_and_unregistered_types_are_counted() -> None:
    pair = Pair(all_types=False)
    pair.right.register(Word)
    for message in (RawMessage(9, b"?"), Word("known")):
        pair.left.send(message)
    pair.carry()
    assert pair.got == [Word("known")]
    assert pair.right.info.unregistered == 1


def test_types_and_sizes_have_named_errors() -> None:
    class Twin(Word):
        pass

    class Reserved(Word):
        MSGTYPE = 0xFFFF

    pair = Pair()
    pair.left.register(Word)
    for cls, reason in ((Twin, "DUPLICATE_KEY"), (Reserved, "RESERVED")):
        with pytest.raises(MessageTypeError) as raised:
            pair.left.register(cls)
        assert raised.value.reason == reason
    with pytest.raises(MessageTooLargeError) as large:
        pair.left.send(RawMessage(1, bytes(MDU - 5)))
    assert large.value.mdu == MDU - 6


def test_handlers_run_in_order_until_one_stops_and_failures_are_isolated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = Pair()
    seen: list[str] = []

    def broken(message: object) -> None:
        raise RuntimeError("broken")

    def stops(message: RawMessage) -> bool:
        seen.append("stops")
        return message.data == b"stop"

    def last(message: RawMessage) -> None:
        seen.append("last")

    for handler in (broken, stops, last, last):
        pair.right.add_handler(handler)
    for data in (b"stop", b"go"):
        pair.left.send(RawMessage(1, data))
    pair.carry()
    assert seen == ["stops", "stops", "last"]
    assert caplog.text.count("broken failed") == 2
    pair.right.remove_handler(stops)
    pair.right.remove_handler(stops)
    pair.left.send(RawMessage(1, b"stop"))
    pair.carry()
    assert seen[-1] == "last"


def test_what_the_outlet_raises_is_raised_and_uses_no_number() -> None:
    pair = Pair()
    pair.wires[0].broken = True
    with pytest.raises(OSError, match="the wire is broken"):
        pair.left.send(Word("x"))
    assert pair.left.info.next_tx == 0
    pair.wires[0].broken = False
    assert pair.left.send(Word("x")).sequence == 0


def test_an_outlet_that_names_packets_badly_or_calls_back_is_refused() -> None:
    for key in (b"short", None, 7):
        core = ChannelCore(lambda _, key=key: key, 0, MDU, True)
        with pytest.raises((TypeError, ValueError)):
            core.send(1, b"x", 0)
    again: list[ChannelCore] = []
    core = ChannelCore(lambda envelope: again[0].send(1, envelope, 0), 0, MDU, True)
    again.append(core)
    with pytest.raises(StateError):
        core.send(1, b"x", 0)
    with pytest.raises(TypeError):
        ChannelCore(None, 0, MDU, True)  # type: ignore[arg-type]


def test_a_paused_channel_takes_nothing_and_says_why_packets_are_not_taken() -> None:
    pair = Pair()
    key = bytes(32)
    pair.right.pause()
    assert pair.right.receive(key, Envelope(1, 0, b"x").pack()) is DropReason.NO_CREDIT
    pair.right.pause(False)
    assert pair.right.receive(key, b"short") is DropReason.LINK_PAYLOAD
    assert pair.right.receive(key, Envelope(1, 49, b"x").pack()) is DropReason.CHANNEL_WINDOW
    assert pair.right.receive(key, Envelope(1, 0, b"x").pack()) is DropReason.NONE
    assert pair.right.receive(key, Envelope(1, 0, b"x").pack()) is DropReason.DUPLICATE
    assert pair.wires[1].proofs == [key, key]
    pair.now += 1.0
    assert pair.right.receive(key, Envelope(1, 0, b"x").pack()) is DropReason.DUPLICATE
    # The peer repeats what was proven long ago: it may lose proofs that are back too early.
    assert pair.wires[1].proofs == [key, key]
    assert pair.right.deadline is not None
    pair.now = pair.right.deadline
    assert pair.right.tick()
    assert pair.wires[1].proofs == [key, key, key]
    pair.right.close()
    pair.right.close()
    assert pair.right.receive(key, Envelope(1, 1, b"x").pack()) is DropReason.CHANNEL_CLOSED


@pytest.mark.parametrize("seed", range(8))
def test_each_message_arrives_once_and_in_order_whatever_the_wire_does(seed: int) -> None:
    rng = random.Random(seed)
    pair = Pair(rtt_s=0.05)
    sent = 0
    flying: list[tuple[float, int, bytes, bytes]] = []
    while len(pair.got) < 400:
        while sent < 400 and pair.left.info.room:
            pair.left.send(RawMessage(1, sent.to_bytes(2, "big")))
            sent += 1
        for wire, machine in zip(pair.wires, (0, 1), strict=True):
            for key, envelope in wire.packets:
                for _ in range(rng.choice((0, 1, 1, 1, 2))):
                    flying.append((pair.now + rng.uniform(0.01, 0.2), machine, key, envelope))
            wire.packets.clear()
            for key in wire.proofs:
                if rng.random() > 0.2:
                    flying.append((pair.now + rng.uniform(0.01, 0.2), 2, key, b""))
            wire.proofs.clear()
        due = [each[0] for each in flying]
        due += [each.deadline for each in (pair.left, pair.right) if each.deadline is not None]
        pair.now = max(pair.now, min(due))
        for each in [each for each in flying if each[0] <= pair.now]:
            flying.remove(each)
            if each[1] == 2:
                pair.left.proven(each[2])
            else:
                pair.right.receive(each[2], each[3])
        assert pair.left.tick()
        assert pair.right.tick()
    assert pair.got == [RawMessage(1, number.to_bytes(2, "big")) for number in range(400)]


def test_a_channel_that_refers_to_itself_is_collected() -> None:
    class Loop(Wire):
        machine: ChannelMachine | None = None

    loop = Loop()
    loop.machine = ChannelMachine(loop, rtt_s=0.1, link_mdu=MDU, clock=lambda: 0.0)
    loop.machine.send(Word("x"))
    seen = weakref.ref(loop)
    del loop
    gc.collect()
    assert seen() is None
