"""Channels and streams on engines: everything readable, named errors, results of sends."""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from typing import Any

import pytest

from engine.wires import Net, Wire, identity
from netmesh.channel import Envelope, StreamData
from netmesh.constants import Context, ReceiptState
from netmesh.engine import Engine, EngineChannel, EngineLink
from netmesh.errors import (
    ChannelClosedError,
    ChannelError,
    MessageTooLargeError,
    MessageTypeError,
    NotFoundError,
    StreamError,
    WindowFullError,
)
from netmesh.events import (
    ChannelMessage,
    ChannelReady,
    ChannelSent,
    LinkActive,
    LinkClosed,
    StreamMade,
    StreamReceived,
    StreamSent,
)
from netmesh.records import CloseReason, DropReason


@dataclass
class Duo:
    """Two engines and a link between them; ``a`` opened it."""

    net: Net
    wire: Wire
    a: EngineLink
    b: EngineLink

    @property
    def left(self) -> Engine:
        return self.net.engines[0]

    @property
    def right(self) -> Engine:
        return self.net.engines[1]


def duo(kind: str = "tcp", *, options: dict[str, Any] | None = None, **listen: Any) -> Duo:
    """A link whose channels are not open but by ``listen(channels=True)``."""
    net = Net(2, **(options or {}))
    left, right = net.engines
    wire = net.join(left, right, kind)
    inbox = right.listen(identity(7), "test.channel", **listen)
    right.announce(inbox)
    net.settle()
    ref = left.open_link(inbox)
    net.settle()
    (active,) = [event for event in net.heard[right] if isinstance(event, LinkActive)]
    return Duo(net, wire, left.link(ref), right.link(active.link))


def opened(kind: str = "tcp", **options: Any) -> tuple[Duo, EngineChannel, EngineChannel]:
    """And both channels are open."""
    d = duo(kind, options=options)
    return d, d.a.open_channel(), d.b.open_channel()


def events(d: Duo, engine: Engine, kind: type) -> list[Any]:
    return [event for event in d.net.heard[engine] if isinstance(event, kind)]


# ------------------------------------------------------------------ opening is explicit


def test_a_peer_may_have_no_channel() -> None:
    d = duo()
    assert not d.b.info.channel_open
    with pytest.raises(ChannelClosedError):
        d.b.channel()
    channel = d.a.open_channel()
    channel.send(1, b"anyone?")
    d.net.advance(20)
    (closed,) = events(d, d.left, LinkClosed)
    assert closed.reason is CloseReason.CHANNEL
    (sent,) = events(d, d.left, ChannelSent)
    assert (sent.state, sent.tries, sent.ok) == (ReceiptState.FAILED, 5, False)
    assert d.right.stats().drops[DropReason.CHANNEL_CLOSED] == 5
    assert not channel.info.open
    with pytest.raises(ChannelClosedError):
        channel.send(1, b"late")


def test_a_destination_opens_the_channels_of_its_links() -> None:
    d = duo(channels=True)
    assert d.b.info.channel_open
    assert d.b.channel().info.all_types
    d.a.open_channel().send(1, b"at once")
    d.net.settle()
    assert [each.data for each in events(d, d.right, ChannelMessage)] == [b"at once"]


def test_opening_twice_is_quiet_and_opening_on_a_closed_link_is_not() -> None:
    d, one, _ = opened()
    assert d.a.open_channel().info == one.info
    d.a.close()
    with pytest.raises(ChannelError):
        one.send(1, b"x")
    with pytest.raises(NotFoundError):
        d.left.link(99)


# ------------------------------------------------------------------------ windows, rates


def test_the_window_its_limits_flexibility_and_rounds_can_be_read() -> None:
    d, one, _ = opened()
    first = one.info
    assert (first.window, first.window_max, first.window_min, first.flexibility) == (2, 5, 2, 4)
    assert (first.fast_rounds, first.medium_rounds) == (0, 0)
    d.a.tune(rtt_s=0.1)
    for _ in range(10):
        one.send(1, b"x")
        d.net.settle()
    fast = one.info
    assert (fast.window_max, fast.window_min, fast.fast_rounds) == (48, 16, 10)
    d.a.tune(rtt_s=0.5)
    one.send(1, b"x")
    d.net.settle()
    assert (one.info.fast_rounds, one.info.medium_rounds) == (0, 1)
    assert one.info.rtt_s == 0.5


def test_the_window_shrinks_with_each_time_out() -> None:
    d, one, _ = opened()
    d.a.tune(rtt_s=0.8)
    for _ in range(12):
        one.send(1, b"x")
        d.net.settle()
    before = one.info
    assert (before.window, before.window_max, before.window_min) == (5, 5, 2)
    d.wire.cut = True
    one.send(1, b"lost")
    d.net.advance(6)
    after = one.info
    assert after.window < before.window
    assert after.timeouts >= 1
    assert after.repeated >= 1


def test_sequences_and_rings_can_be_read_with_their_tries() -> None:
    d, one, two = opened()
    for text in (b"zero", b"one"):
        assert one.send(5, text).sequence == one.info.next_tx - 1
        d.net.settle()
    assert (one.info.next_tx, two.info.next_rx) == (2, 2)
    lost = 2

    def lose(sender: Engine, frame: bytes) -> list[bytes]:
        nonlocal lost
        if sender is d.left and lost == 2:
            lost = 0
            return []
        return [frame]

    d.wire.pass_on = lose
    sent = [one.send(6, text) for text in (b"two", b"three")]
    d.net.settle()
    (waits,) = one.outstanding
    assert (waits.sequence, waits.msgtype, waits.tries, waits.size_bytes) == (2, 6, 1, 3)
    assert waits.due_s > waits.first_sent_s
    assert two.ahead == [3]
    assert (two.info.ahead, two.info.next_rx) == (1, 2)
    d.net.advance(2)
    assert one.outstanding == []
    got = events(d, d.right, ChannelMessage)
    assert [each.sequence for each in got] == [0, 1, 2, 3]
    results = {each.op: each for each in events(d, d.left, ChannelSent)}
    for each in sent:
        done = results[each.op]
        assert (done.sequence, done.state) == (each.sequence, ReceiptState.DELIVERED)
        assert done.tries == 1
        assert done.rtt_s >= 0
        assert 2 <= done.window <= 48


def test_a_full_window_is_an_error_and_its_end_an_event() -> None:
    d, one, _ = opened()
    one.send(1, b"a")
    one.send(1, b"b")
    with pytest.raises(WindowFullError) as raised:
        one.send(1, b"c")
    assert raised.value.reason == "LIMIT"
    d.net.settle()
    assert len(events(d, d.left, ChannelReady)) == 1
    one.send(1, b"c")


def test_posted_messages_wait_for_the_window_in_order() -> None:
    d, one, _ = opened()
    for number in range(30):
        one.post(number, b"posted")
    assert (one.info.waiting, one.info.outstanding) == (28, 2)
    d.net.settle()
    assert [each.msgtype for each in events(d, d.right, ChannelMessage)] == list(range(30))
    assert one.info.waiting == 0
    for number in range(one.info.room + 256):
        one.post(number, b"")
    assert one.info.waiting == 256
    with pytest.raises(WindowFullError):
        one.post(1, b"one too many")


# --------------------------------------------------------------------------- types, sizes


def test_types_are_registered_with_named_errors() -> None:
    d = duo()
    one = d.a.open_channel()
    two = d.b.open_channel(all_types=False)
    two.register(7)
    two.register(7)
    with pytest.raises(MessageTypeError) as raised:
        two.register(0xF000)
    assert (raised.value.reason, raised.value.msgtype) == ("RESERVED", 0xF000)
    with pytest.raises(MessageTypeError) as raised:
        one.send(0xF123, b"reserved")
    assert (raised.value.reason, raised.value.msgtype) == ("RESERVED", 0xF123)
    with pytest.raises(ValueError, match="msgtype"):
        one.send(0x10000, b"")
    for number in range(8, 8 + 1023):
        two.register(number)
    with pytest.raises(MessageTypeError) as raised:
        two.register(5000)
    assert raised.value.reason == "LIMIT"
    d.b.close()
    with pytest.raises(ChannelClosedError):
        two.register(9)


def test_a_type_that_is_not_registered_is_told_and_holds_nothing_up() -> None:
    d = duo()
    one = d.a.open_channel()
    two = d.b.open_channel(all_types=False)
    two.register(7)
    for msgtype in (8, 7):
        one.send(msgtype, b"x")
    d.net.settle()
    got = events(d, d.right, ChannelMessage)
    assert [(each.msgtype, each.reason) for each in got] == [(8, "TYPE"), (7, "OK")]
    assert two.info.unregistered == 1


def test_a_message_that_does_not_fit_names_both_sizes() -> None:
    _, one, _ = opened("udp")
    mdu = one.info.mdu
    assert one.send(1, bytes(mdu)).sequence == 0
    with pytest.raises(MessageTooLargeError) as raised:
        one.send(1, bytes(mdu + 1))
    assert (raised.value.size_bytes, raised.value.mdu) == (mdu + 1, mdu)
    assert raised.value.reason == "TOO_LARGE"


# ------------------------------------------------------------------------------- streams


def test_a_writer_reports_each_message_it_made() -> None:
    d, one, two = opened("udp")
    one.report_messages()
    text = b"the same words again " * 400
    op = one.write(9, text, compression="when_smaller")
    end = one.write(9, b"tail", eof=True, compression="off")
    d.net.settle()
    made = events(d, d.left, StreamMade)
    assert sum(each.taken_bytes for each in made if each.op == op) == len(text)
    assert any(each.compressed and each.wire_bytes < each.taken_bytes for each in made)
    assert [each.sequence for each in made] == list(range(len(made)))
    assert [(each.op, each.eof, each.compressed) for each in made][-1] == (end, True, False)
    got = events(d, d.right, StreamReceived)
    assert b"".join(each.data for each in got) == text + b"tail"
    assert [each.eof for each in got].count(True) == 1
    assert got[-1].eof
    done = {each.op: each for each in events(d, d.left, StreamSent)}
    assert done[op].ok
    assert done[op].done_bytes == done[op].total_bytes == len(text)
    assert done[end].eof
    assert two.info.received == len(made)


def test_streams_have_named_errors() -> None:
    d, one, _ = opened()
    one.write(1, b"all", eof=True)
    with pytest.raises(StreamError) as raised:
        one.write(1, b"more")
    assert (raised.value.reason, raised.value.stream) == ("STATE", 1)
    with pytest.raises(ValueError, match="stream"):
        one.write(0x4000, b"")
    with pytest.raises(ValueError, match="compression"):
        one.write(2, b"", compression="best")  # type: ignore[arg-type]
    d.net.settle()
    d.wire.cut = True
    for _ in range(256):
        one.write(3, b"waits")
    with pytest.raises(WindowFullError):
        one.write(3, b"one too many")
    d.a.close()
    with pytest.raises(ChannelClosedError):
        one.write(3, b"closed")
    with pytest.raises(ChannelClosedError):
        one.report_messages()


def test_the_two_directions_of_a_stream_end_each_for_itself() -> None:
    d, one, two = opened()
    one.write(4, b"question", eof=True)
    d.net.settle()
    two.write(4, b"answer")
    two.write(4, b"", eof=True)
    d.net.settle()
    assert [(each.data, each.eof) for each in events(d, d.right, StreamReceived)] == [
        (b"question", True)
    ]
    assert [(each.data, each.eof) for each in events(d, d.left, StreamReceived)] == [
        (b"answer", False),
        (b"", True),
    ]


# --------------------------------------------------------------- back-pressure, hostility


def test_a_paused_channel_makes_its_peer_wait_and_loses_nothing() -> None:
    d, one, two = opened()
    one.send(1, b"first")
    d.net.settle()
    two.pause()
    assert two.info.paused
    one.send(1, b"second")
    d.net.advance(60)
    assert not events(d, d.left, LinkClosed)
    assert two.info.refused > 0
    two.pause(False)
    d.net.advance(10)
    assert [each.data for each in events(d, d.right, ChannelMessage)] == [b"first", b"second"]
    d.b.close()
    with pytest.raises(ChannelClosedError):
        two.pause()


def forge(d: Duo, plaintext: bytes) -> DropReason:
    """An envelope of the peer's, made by hand."""
    raw = d.a.seal(plaintext, context=Context.CHANNEL)
    reason = d.right.input(d.wire.at(d.right), raw).reason
    d.net.settle()
    return reason


def test_envelopes_with_wrong_lengths_are_dropped_by_name_or_taken_as_they_are() -> None:
    d, _, two = opened()
    for short in (b"", b"\x00", b"\x00\x01\x00\x00\x00"):
        assert forge(d, short) is DropReason.LINK_PAYLOAD
    assert two.info.received == 0
    # The length that is written counts for nothing: what is there is the message.
    assert forge(d, b"\x00\x01\x00\x00\xff\xff" + b"three") is DropReason.NONE
    assert forge(d, b"\x00\x01\x00\x01\x00\x00" + b"bytes") is DropReason.NONE
    got = events(d, d.right, ChannelMessage)
    assert [each.data for each in got] == [b"three", b"bytes"]


def test_holes_in_the_sequence_wait_and_what_is_too_far_ahead_is_not_proven() -> None:
    d, _, two = opened()
    assert forge(d, Envelope(1, 2, b"two").pack()) is DropReason.NONE
    assert forge(d, Envelope(1, 48, b"far").pack()) is DropReason.NONE
    assert forge(d, Envelope(1, 49, b"too far").pack()) is DropReason.CHANNEL_WINDOW
    assert two.ahead == [2, 48]
    assert events(d, d.right, ChannelMessage) == []
    assert forge(d, Envelope(1, 0, b"zero").pack()) is DropReason.NONE
    assert forge(d, Envelope(1, 1, b"one").pack()) is DropReason.NONE
    got = events(d, d.right, ChannelMessage)
    assert [each.data for each in got] == [b"zero", b"one", b"two"]
    assert two.info.beyond == 1


def test_ghosts_of_delivered_messages_are_proven_and_told_once() -> None:
    d, _, two = opened()
    for _ in range(3):
        forge(d, Envelope(1, 0, b"once").pack())
    # Behind by half of the number space and more: they look like old ones.
    for sequence in (65535, 0x8001):
        assert forge(d, Envelope(1, sequence, b"ghost").pack()) is DropReason.DUPLICATE
    assert len(events(d, d.right, ChannelMessage)) == 1
    assert two.info.duplicates == 4


def test_a_bomb_in_a_stream_stays_small() -> None:
    d, _, two = opened()
    bomb = StreamData(3, bz2.compress(bytes(50_000_000)), compressed=True).pack()
    assert len(bomb) < 200
    broken = StreamData(3, b"BZh9 not bzip2", compressed=True).pack()
    for sequence, payload in enumerate((bomb, broken, b"\x00", StreamData(3, b"fine").pack())):
        assert forge(d, Envelope(0xFF00, sequence, payload).pack()) is DropReason.NONE
    got = events(d, d.right, StreamReceived)
    assert [(each.data, each.reason) for each in got] == [
        (b"", "LIMIT"),
        (b"", "COMPRESSED"),
        (b"", "TRUNCATED"),
        (b"fine", "OK"),
    ]
    assert two.info.next_rx == 4


def test_a_system_type_that_is_unknown_is_told_by_name() -> None:
    d, _, _ = opened()
    assert forge(d, Envelope(0xFF01, 0, b"?").pack()) is DropReason.NONE
    (told,) = events(d, d.right, ChannelMessage)
    assert told.reason == "RESERVED"
