"""Channel envelopes and stream messages, against upstream and against damage (P13)."""

from __future__ import annotations

import bz2
from hashlib import sha256
from typing import Any

import pytest

from golden import data_of, name_of, raw, ruled, vectors
from netmesh import errors
from netmesh.constants import CHANNEL_STREAM_DATA, STREAM_CHUNK_MAX, STREAM_ID_MAX


@pytest.mark.parametrize("vector", vectors("reticulum-links", "channel_envelope"), ids=name_of)
def test_envelopes_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P13: vectors `channel_envelope`."""
    given, packed = vector["input"], raw(vector["output"]["envelope"])
    envelope = impl.Envelope(given["msgtype"], given["sequence"], raw(given["payload"]))
    assert envelope.pack() == packed
    assert impl.Envelope.unpack(packed) == envelope
    assert envelope.length == len(raw(given["payload"]))


@pytest.mark.parametrize("vector", vectors("reticulum-links", "channel"), ids=name_of)
def test_channel_packets_of_upstream_are_opened(impl: Any, vector: dict[str, Any]) -> None:
    """P13: vectors `channel`: the envelope as the plaintext of a link packet."""
    given = vector["input"]
    token = impl.Token(raw(given["derived_key"]))
    envelope = impl.Envelope(given["msgtype"], given["sequence"], raw(given["payload"]))
    assert envelope.pack() == raw(given["plaintext"])
    assert raw(vector["output"]["raw"])[19:] == token.seal(envelope.pack(), iv=raw(given["iv"]))
    assert impl.Envelope.unpack(token.open(raw(vector["output"]["raw"])[19:])) == envelope


def test_the_payload_counts_not_the_length_field(impl: Any) -> None:
    """RNS 2, 4.1: receivers use the rest of the plaintext."""
    envelope = impl.Envelope.unpack(b"\x01\x02\x03\x04\xff\xff" + b"abc")
    assert (envelope.msgtype, envelope.sequence) == (0x0102, 0x0304)
    assert (envelope.payload, envelope.length) == (b"abc", 0xFFFF)
    assert envelope.pack() == b"\x01\x02\x03\x04\x00\x03abc"


def test_envelopes_have_bounds(impl: Any) -> None:
    for arguments in ((-1, 0, b""), (65536, 0, b""), (0, -1, b""), (0, 65536, b"")):
        with pytest.raises(ValueError, match=r"msgtype|sequence"):
            impl.Envelope(*arguments)
    assert len(impl.Envelope(0, 0, bytes(65535)).pack()) == 65541
    with pytest.raises(errors.EncodeError) as large:
        impl.Envelope(0, 0, bytes(65536))
    assert (large.value.reason, large.value.field) == ("TOO_LARGE", "payload")
    with pytest.raises(TypeError):
        impl.Envelope("1", 0, b"")
    for size in range(6):
        with pytest.raises(errors.DecodeError) as short:
            impl.Envelope.unpack(bytes(size))
        assert (short.value.reason, short.value.codec) == ("TRUNCATED", "channel")


@pytest.mark.parametrize("vector", vectors("reticulum-links", "stream_data"), ids=name_of)
def test_stream_messages_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P13: vectors `stream_data`: id range and flag bits."""
    given, packed = vector["input"], raw(vector["output"]["message"])
    message = impl.StreamData.unpack(packed)
    assert message.pack() == packed
    assert message.pack()[:2].hex() == vector["output"]["header"]
    assert (message.stream_id, message.eof, message.compressed) == (
        given["stream_id"],
        given["eof"],
        given["compressed"],
    )
    assert message.content() == raw(given["data"])
    again = impl.StreamData(
        message.stream_id, message.data, eof=message.eof, compressed=message.compressed
    )
    assert again == message


@pytest.mark.parametrize("vector", vectors("reticulum-links", "stream_writer"), ids=name_of)
def test_the_writer_chooses_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P13: vectors `stream_writer`: how much goes into a message, compressed or not."""
    given, out = vector["input"], vector["output"]
    data = data_of(given)
    message, consumed = impl.stream_chunk(given["stream_id"], data, given["channel_mdu"])
    assert consumed == out["consumed"]
    assert message.content(max_size=2**20) == data[:consumed]
    packed = message.pack()
    assert len(packed) <= given["channel_mdu"]
    if not message.compressed:
        digest = sha256(packed).hexdigest()
        assert digest == out.get("message_sha256", sha256(raw(out.get("message", ""))).hexdigest())
    else:
        # Compressed bytes may differ between implementations (RNS 2, 3.14).
        assert packed[:2] == raw(out["message"])[:2]
        assert bz2.decompress(raw(out["message"])[2:]) == data[:consumed]


def test_a_stream_of_any_length_comes_out_whole(impl: Any) -> None:
    for data in (b"", b"short", b"text " * 20000, ruled("stream", 5000), bytes(40000)):
        left, pieces, ends = data, [], []
        while not ends or not ends[-1]:
            message, consumed = impl.stream_chunk(7, left, 425, eof=True)
            assert 0 < consumed <= STREAM_CHUNK_MAX or not left
            pieces.append(message.content())
            ends.append(message.eof)
            left = left[consumed:]
        assert b"".join(pieces) == data
        assert ends == [False] * (len(ends) - 1) + [True]


def test_the_end_is_marked_on_the_message_that_carries_it(impl: Any) -> None:
    message, consumed = impl.stream_chunk(1, b"x" * 16385, 425, eof=True)
    assert (consumed, message.eof) == (16384, False)
    message, consumed = impl.stream_chunk(1, b"last", 425, eof=True)
    assert (consumed, message.eof) == (4, True)
    assert impl.stream_chunk(1, b"more", 425)[0].eof is False
    assert impl.stream_chunk(5, b"", 425, eof=True)[0].pack() == b"\x80\x05"


def test_an_envelope_carries_a_stream_message(impl: Any) -> None:
    message, _ = impl.stream_chunk(9, b"data", 425)
    envelope = impl.Envelope(CHANNEL_STREAM_DATA, 3, message.pack())
    inside = impl.StreamData.unpack(impl.Envelope.unpack(envelope.pack()).payload)
    assert inside == message


def test_stream_messages_have_bounds(impl: Any) -> None:
    assert impl.StreamData(STREAM_ID_MAX).pack() == b"\x3f\xff"
    for wrong in (-1, STREAM_ID_MAX + 1):
        with pytest.raises(ValueError, match="stream_id"):
            impl.StreamData(wrong)
        with pytest.raises(ValueError, match="stream_id"):
            impl.stream_chunk(wrong, b"", 425)
    with pytest.raises(ValueError, match="channel_mdu"):
        impl.stream_chunk(1, b"data", 2)
    with pytest.raises(TypeError):
        impl.StreamData(1, "text")
    for size in range(2):
        with pytest.raises(errors.DecodeError) as caught:
            impl.StreamData.unpack(bytes(size))
        assert (caught.value.reason, caught.value.codec) == ("TRUNCATED", "stream")


def test_decompression_bombs_are_stopped(impl: Any) -> None:
    """RNS 2, 4.3: at most 16384 bytes come out unless the caller says so."""
    bomb = impl.StreamData(1, bz2.compress(bytes(50_000_000)), compressed=True)
    for limit in ({}, {"max_size": 100}):
        with pytest.raises(errors.LimitError):
            bomb.content(**limit)
    full = impl.StreamData(1, bz2.compress(bytes(16384)), compressed=True)
    assert full.content() == bytes(16384)
    with pytest.raises(errors.LimitError):
        full.content(max_size=16383)


def test_damaged_compressed_data_are_refused(impl: Any) -> None:
    good = bz2.compress(b"data" * 10)
    for bad in (b"", b"noise", good[:-1], good[:20] + b"\xff" + good[21:]):
        with pytest.raises(errors.DecodeError) as caught:
            impl.StreamData(1, bad, compressed=True).content()
        assert caught.value.reason == "COMPRESSED"


def test_messages_are_values(impl: Any) -> None:
    one, two = (impl.StreamData(1, b"x", eof=True) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != impl.StreamData(1, b"x")
    assert repr(one) == "StreamData(stream_id=1, data=b'x', eof=True, compressed=False)"
    with pytest.raises(AttributeError):
        one.eof = False
