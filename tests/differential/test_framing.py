"""HDLC-like and KISS framing: the C core against the pure reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, crosswise, pure, same

# Bytes that mean something to one of the codes come often.
SPECIAL = st.sampled_from(b"\x7e\x7d\x5e\x5d\xc0\xdb\xdc\xdd\x00\x0f\x20A").map(
    lambda c: bytes([c])
)
DATA = st.lists(SPECIAL | st.binary(max_size=20), max_size=30).map(b"".join)


@given(DATA)
def test_frames_agree(data: bytes) -> None:
    for name in ("hdlc_escape", "hdlc_frame", "kiss_escape", "kiss_frame"):
        same(lambda impl, n=name: getattr(impl, n)(data))


@given(DATA)
def test_any_bytes_are_unframed_alike(data: bytes) -> None:
    for name in ("hdlc_unescape", "hdlc_unframe", "kiss_unescape", "kiss_unframe"):
        same(lambda impl, n=name: getattr(impl, n)(data))
        same(lambda impl, n=name: getattr(impl, n)(b"\x7e" + data + b"\x7e"))
        same(lambda impl, n=name: getattr(impl, n)(b"\xc0" + data + b"\xc0"))


@given(DATA, st.integers(-1, 256))
def test_frames_travel_crosswise(data: bytes, command: int) -> None:
    crosswise(lambda a, b: b.hdlc_unescape(a.hdlc_escape(data)))
    crosswise(lambda a, b: b.hdlc_unframe(a.hdlc_frame(data)))
    crosswise(lambda a, b: b.kiss_unescape(a.kiss_escape(data)))
    crosswise(lambda a, b: b.kiss_unframe(a.kiss_frame(data, command=command)))


def fed(decoder: Any, chunks: list[bytes], limit: int, resets: set[int]) -> Any:
    """What a decoder makes of a stream, step by step."""
    found = []
    taken = 0
    for number, chunk in enumerate(chunks):
        if number in resets:
            decoder.reset()
        taken += len(chunk)
        # How much of a frame that is too long anyway is kept is left open.
        buffered = decoder.buffered if taken <= limit else None
        found.append((decoder.feed(chunk), decoder.counters, buffered))
    return found


CHUNKS = st.lists(DATA, max_size=8)
RESETS = st.sets(st.integers(0, 7), max_size=2)


@given(CHUNKS, st.integers(0, 25), st.integers(0, 60), RESETS)
def test_hdlc_streams_are_decoded_alike(
    chunks: list[bytes], least: int, most: int, resets: set[int]
) -> None:
    same(
        lambda impl: fed(
            impl.HdlcDecoder(min_bytes=least, max_bytes=most), chunks, most or 1 << 20, resets
        )
    )


@given(CHUNKS, st.integers(0, 60), RESETS)
def test_kiss_streams_are_decoded_alike(chunks: list[bytes], most: int, resets: set[int]) -> None:
    same(lambda impl: fed(impl.KissDecoder(max_bytes=most), chunks, most or 1 << 20, resets))


@given(st.lists(st.binary(min_size=20, max_size=40), max_size=6), st.integers(1, 50))
def test_streams_travel_crosswise(frames: list[bytes], step: int) -> None:
    def run(sender: Any, receiver: Any, make: str, decoder: str) -> Any:
        stream = b"".join(getattr(sender, make)(frame) for frame in frames)
        taker = getattr(receiver, decoder)()
        pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
        return [frame for piece in pieces for frame in taker.feed(piece)]

    for make, decoder in (("hdlc_frame", "HdlcDecoder"), ("kiss_frame", "KissDecoder")):
        found = crosswise(lambda a, b, m=make, d=decoder: run(a, b, m, d))
        assert found == ("value", ("list", [("bytes", frame) for frame in frames]))


@given(st.integers(0, 255), st.integers(0, 255), DATA)
def test_kiss_commands_are_sorted_alike(command: int, other: int, data: bytes) -> None:
    def run(impl: Any) -> Any:
        decoder = impl.KissDecoder()
        stream = b"".join(
            b"\xc0" + bytes([code]) + impl.kiss_escape(data) + b"\xc0"
            for code in (command, other, 0x00, 0x0F, 0xF0)
        )
        return decoder.feed(stream), decoder.counters

    same(run)


@pytest.mark.parametrize("impl", [core, pure])
def test_streams_without_a_flag_stay_bounded(impl: Any) -> None:
    decoder = impl.HdlcDecoder(max_bytes=100)
    decoder.feed(b"\x7e")
    for _ in range(50):
        decoder.feed(bytes(10))
        assert decoder.buffered < 200
    assert decoder.counters["oversize"] == 1
    assert decoder.counters["discarded_bytes"] == 500
    kiss = impl.KissDecoder(max_bytes=100)
    kiss.feed(b"\xc0\x00")
    for _ in range(50):
        kiss.feed(bytes(10))
        assert kiss.buffered <= 110
    kiss.feed(b"\xc0")
    assert kiss.counters["oversize"] == 1


def test_arguments_are_checked_alike() -> None:
    for name in (
        "hdlc_escape",
        "hdlc_unescape",
        "hdlc_frame",
        "hdlc_unframe",
        "kiss_escape",
        "kiss_unescape",
        "kiss_frame",
        "kiss_unframe",
    ):
        assert same(lambda impl, n=name: getattr(impl, n)("text"))[2] == "TypeError"
        assert same(lambda impl, n=name: getattr(impl, n)(bytearray(b"")))[0]
    for call in (
        lambda impl: impl.HdlcDecoder(min_bytes=-1),
        lambda impl: impl.HdlcDecoder(max_bytes=-1),
        lambda impl: impl.HdlcDecoder(max_bytes=2**31),
        lambda impl: impl.HdlcDecoder(20),
        lambda impl: impl.HdlcDecoder(min_bytes=1.0),
        lambda impl: impl.HdlcDecoder().feed("text"),
        lambda impl: impl.KissDecoder(max_bytes=-1),
        lambda impl: impl.KissDecoder(max_bytes=None),
        lambda impl: impl.KissDecoder().feed(None),
        lambda impl: impl.kiss_frame(b"", command="0"),
    ):
        assert same(call)[0] == "error"
