"""HDLC and KISS frames, whole and in streams (P9)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from golden import name_of, raw, vectors
from inputs import BUFFERS, NOT_BYTES, truncations
from netmesh.errors import DecodeError

CORE, LINKS = "reticulum-core", "reticulum-links"
HDLC = ("hdlc", b"\x7e", b"\x7d")
KISS = ("kiss", b"\xc0", b"\xdb")


def functions(impl: Any, name: str) -> tuple[Any, Any, Any, Any]:
    """Escape, unescape, frame and unframe of a framing."""
    return tuple(
        getattr(impl, f"{name}_{verb}") for verb in ("escape", "unescape", "frame", "unframe")
    )


# ----------------------------------------------------------------- whole frames


@pytest.mark.parametrize("vector", vectors(CORE, "hdlc_frame", "kiss_frame"), ids=name_of)
def test_frames_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P9: frame, decode one, escape alone."""
    name = vector["kind"].split("_")[0]
    escape, unescape, frame, unframe = functions(impl, name)
    data, framed = raw(vector["input"]["data"]), raw(vector["output"]["frame"])
    assert frame(data) == framed
    inner = framed[1:-1] if name == "hdlc" else framed[2:-1]
    assert escape(data) == inner
    assert unescape(inner) == data
    if data:
        assert unframe(framed) == data


@pytest.mark.parametrize("vector", vectors(LINKS, "kiss"), ids=name_of)
def test_kiss_commands_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P9: data, and the commands that configure a modem."""
    given, expected = vector["input"], raw(vector["output"]["bytes"])
    if "packet" in given:
        assert impl.kiss_frame(raw(given["packet"])) == expected
        return
    commands = [
        (1, given["preamble_ms"] // 10),
        (4, given["txtail_ms"] // 10),
        (2, given["persistence"]),
        (3, given["slottime_ms"] // 10),
        (15, 1),
    ]
    framed = b"".join(impl.kiss_frame(bytes([value]), command=code) for code, value in commands)
    assert framed == expected


def ax25_address(callsign: str, ssid: int) -> bytes:
    """Six letters shifted left, those after the first few blank as upstream leaves them."""
    letters = bytes(ord(letter) << 1 for letter in callsign)
    return letters.ljust(6, b"\x20") + bytes([ssid])


@pytest.mark.parametrize("vector", vectors(LINKS, "ax25_kiss"), ids=name_of)
def test_ax25_frames_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P9: a packet behind its 16-byte header in one KISS data frame, and back."""
    given, expected = vector["input"], raw(vector["output"]["bytes"])
    source = ax25_address(given["callsign"], 0x61 | given["ssid"] << 1)
    header = ax25_address("APZRNS", 0x60) + source + b"\x03\xf0"
    packet = raw(given["packet"])
    assert impl.kiss_frame(header + packet) == expected
    assert impl.kiss_unframe(expected) == header + packet
    # Real frames are longer than the least that is taken for a packet.
    long = header + packet + bytes(20)
    assert impl.KissDecoder().feed(impl.kiss_frame(long)) == [long]


@pytest.mark.parametrize("name", ["hdlc", "kiss"])
def test_every_byte_survives_a_frame(impl: Any, name: str) -> None:
    """P9: also runs of the special ones."""
    escape, unescape, frame, unframe = functions(impl, name)
    generator = random.Random(7)
    special = b"\x7d\x7e\x5d\x5e\xc0\xdb\xdc\xdd"
    samples = [bytes(range(256)), special * 3, special[::-1], b"\0"]
    samples += [bytes(generator.choices(special, k=generator.randrange(1, 40))) for _ in range(50)]
    for data in samples:
        assert unescape(escape(data)) == data
        assert unframe(frame(data)) == data
    assert escape(b"") == unescape(b"") == b""


@pytest.mark.parametrize("framing", [HDLC, KISS], ids=["hdlc", "kiss"])
def test_what_is_not_one_frame_is_refused(impl: Any, framing: tuple[str, bytes, bytes]) -> None:
    """P9: with the reason."""
    name, flag, mark = framing
    _, unescape, frame, unframe = functions(impl, name)
    good = frame(b"data")
    command = b"" if name == "hdlc" else b"\0"
    cases = [
        (b"", "TRUNCATED"),
        (good[1:], "VALUE"),
        (good[:-1], "TRUNCATED"),
        (flag + flag, "EMPTY"),
        (good + b"x", "TRAILING"),
        (good + good, "TRAILING"),
        (flag + command + b"a" + mark + flag, "ESCAPE"),
        (flag + command + b"a" + mark + b"x" + flag, "ESCAPE"),
    ]
    for data, reason in cases:
        with pytest.raises(DecodeError) as caught:
            unframe(data)
        assert caught.value.reason == reason, data
    for data in (flag, b"a" + flag, mark, mark + b"x", b"a" + mark):
        with pytest.raises(DecodeError) as caught:
            unescape(data)
        assert caught.value.reason == "ESCAPE"
    for wrong in truncations(good):
        with pytest.raises(DecodeError):
            unframe(wrong)


def test_the_offset_of_an_invalid_escape_is_told(impl: Any) -> None:
    """P9."""
    with pytest.raises(DecodeError) as caught:
        impl.hdlc_unescape(b"abc\x7dx")
    assert caught.value.offset == 3
    with pytest.raises(DecodeError) as caught:
        impl.kiss_unframe(b"\xc0\x00ab\xdbx\xc0")
    assert caught.value.offset == 4


def test_a_kiss_command_is_any_byte_but_the_delimiter(impl: Any) -> None:
    """P9."""
    for command in range(256):
        if command == 0xC0:
            with pytest.raises(ValueError, match="command"):
                impl.kiss_frame(b"x", command=command)
        else:
            framed = impl.kiss_frame(b"x", command=command)
            assert framed == bytes([0xC0, command]) + b"x\xc0"
            assert impl.kiss_unframe(framed) == b"x"
    for wrong in (-1, 256):
        with pytest.raises(ValueError, match="command"):
            impl.kiss_frame(b"x", command=wrong)


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("name", ["hdlc", "kiss"])
def test_frames_come_in_every_kind_of_buffer(impl: Any, name: str, kind: str) -> None:
    """P9."""
    make = BUFFERS[kind]
    escape, unescape, frame, unframe = functions(impl, name)
    assert unescape(make(escape(make(b"a~\xc0b")))) == b"a~\xc0b"
    assert unframe(make(frame(make(b"a~\xc0b")))) == b"a~\xc0b"


@pytest.mark.parametrize("name", ["hdlc", "kiss"])
def test_frames_are_bytes(impl: Any, name: str) -> None:
    """P9."""
    for call in functions(impl, name):
        for wrong in NOT_BYTES.values():
            with pytest.raises(TypeError):
                call(wrong)


# ---------------------------------------------------------------- HDLC in streams


@pytest.mark.parametrize("vector", vectors(CORE, "hdlc_stream"), ids=name_of)
def test_streams_are_cut_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P9: whole, in the chunks of the vector, and byte by byte."""
    given, expected = vector["input"], vector["output"]
    stream = raw(given["stream"])
    accepted = [raw(frame) for frame in expected["accepted_frames"]]
    limits = {}
    if "hw_mtu" in given:
        limits = {"max_bytes": given["hw_mtu"] + given["ifac_size"]}
    chunkings = [[stream], [stream[i : i + 1] for i in range(len(stream))]]
    if "chunks" in given:
        chunkings.append([raw(chunk) for chunk in given["chunks"]])
    for chunks in chunkings:
        if "overflow" in vector["name"] and len(chunks) == 1:
            continue  # a buffer overflows by what came in before its end was seen
        decoder = impl.HdlcDecoder(**limits)
        frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
        assert frames == accepted
        assert decoder.counters["frames"] == len(accepted)


def test_a_stream_may_be_cut_anywhere(impl: Any) -> None:
    """P9: also inside an escape; one flag may serve two frames."""
    frames = [bytes([i]) * 25 + b"\x7d\x7e" for i in range(5)]
    stream = b"".join(impl.hdlc_frame(frame) for frame in frames)
    shared = b"\x7e" + b"\x7e".join(impl.hdlc_escape(frame) for frame in frames) + b"\x7e"
    for data in (stream, shared):
        for cut in range(len(data)):
            decoder = impl.HdlcDecoder()
            assert decoder.feed(data[:cut]) + decoder.feed(data[cut:]) == frames


def test_runts_and_oversize_frames_are_counted_and_dropped(impl: Any) -> None:
    """P9: limits and counters."""
    decoder = impl.HdlcDecoder(min_bytes=3, max_bytes=10)
    for size in range(13):
        found = decoder.feed(impl.hdlc_frame(b"x" * size))
        assert found == ([b"x" * size] if 3 <= size <= 10 else [])
    counters = decoder.counters
    assert (counters["frames"], counters["runts"], counters["oversize"]) == (8, 2, 2)
    assert counters["discarded_bytes"] == 1 + 2 + 11 + 12
    assert set(counters) == {"frames", "runts", "oversize", "discarded_bytes"}
    counters["frames"] = 0
    assert decoder.counters["frames"] == 8


def test_bytes_outside_of_frames_are_discarded(impl: Any) -> None:
    """P9."""
    decoder = impl.HdlcDecoder(min_bytes=1)
    assert decoder.feed(b"noise") == []
    assert (decoder.counters["discarded_bytes"], decoder.buffered) == (5, 0)
    assert decoder.feed(b"more" + impl.hdlc_frame(b"frame")) == [b"frame"]
    assert decoder.counters["discarded_bytes"] == 9


def test_an_endless_frame_is_given_up(impl: Any) -> None:
    """P9: the buffer is bounded, and the stream recovers at the next flag."""
    decoder = impl.HdlcDecoder(max_bytes=100)
    assert decoder.feed(b"\x7e") == []
    for _ in range(50):
        assert decoder.feed(b"x" * 10) == []
        assert decoder.buffered < 200
    assert decoder.counters["oversize"] == 1
    assert decoder.feed(impl.hdlc_frame(b"y" * 50)) == [b"y" * 50]


def test_without_a_limit_a_frame_may_have_a_mebibyte(impl: Any) -> None:
    """P9: max_bytes 0."""
    decoder = impl.HdlcDecoder(max_bytes=0)
    assert decoder.feed(impl.hdlc_frame(bytes(1 << 20))) == [bytes(1 << 20)]
    assert decoder.feed(impl.hdlc_frame(bytes((1 << 20) + 1))) == []
    assert decoder.counters["oversize"] == 1


def test_an_invalid_escape_in_a_stream_keeps_both_bytes(impl: Any) -> None:
    """P9: as upstream's readers do."""
    decoder = impl.HdlcDecoder(min_bytes=1)
    assert decoder.feed(b"\x7ea\x7dxb\x7e") == [b"a\x7dxb"]
    assert decoder.feed(b"a\x7d\x7e") == [b"a\x7d"]


@pytest.mark.parametrize("decoder_name", ["HdlcDecoder", "KissDecoder"])
def test_a_reset_forgets_a_partial_frame_and_keeps_the_counters(
    impl: Any, decoder_name: str
) -> None:
    """P9."""
    decoder = getattr(impl, decoder_name)()
    frame = impl.hdlc_frame if decoder_name == "HdlcDecoder" else impl.kiss_frame
    assert decoder.feed(frame(b"x" * 30)) == [b"x" * 30]
    assert decoder.feed(frame(b"y" * 30)[:-5]) == []
    assert decoder.buffered > 20
    decoder.reset()
    assert decoder.buffered == 0
    assert decoder.feed(b"y" * 5 + frame(b"z" * 30)) == [b"z" * 30]
    assert decoder.counters["frames"] == 2


@pytest.mark.parametrize("decoder_name", ["HdlcDecoder", "KissDecoder"])
def test_decoders_check_their_arguments(impl: Any, decoder_name: str) -> None:
    """P9."""
    make = getattr(impl, decoder_name)
    for wrong in (-1, 2**40):
        with pytest.raises(ValueError, match="max_bytes"):
            make(max_bytes=wrong)
    for wrong in NOT_BYTES.values():
        with pytest.raises(TypeError):
            make().feed(wrong)
    with pytest.raises(TypeError):
        make(100)
    with pytest.raises(TypeError):
        make(max_bytes="100")


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("decoder_name", ["HdlcDecoder", "KissDecoder"])
def test_decoders_take_every_kind_of_buffer(impl: Any, decoder_name: str, kind: str) -> None:
    """P9: and return bytes of their own."""
    frame = impl.hdlc_frame if decoder_name == "HdlcDecoder" else impl.kiss_frame
    buffer = BUFFERS[kind](frame(b"x" * 30))
    (found,) = getattr(impl, decoder_name)().feed(buffer)
    if kind == "bytearray":
        buffer[:] = bytes(len(buffer))
    assert found == b"x" * 30
    assert type(found) is bytes


def test_noise_never_fails(impl: Any) -> None:
    """P9: whatever comes in, in whatever pieces; both decoders agree with themselves."""
    generator = random.Random(11)
    alphabet = bytes(range(256)) + b"\x7e\x7d\xc0\xdb" * 40
    for _ in range(60):
        noise = bytes(generator.choices(alphabet, k=300))
        for make, limit in ((impl.HdlcDecoder, 64), (impl.KissDecoder, 64)):
            whole, pieces = make(max_bytes=limit), make(max_bytes=limit)
            expected = whole.feed(noise)
            found, place = [], 0
            while place < len(noise):
                size = generator.randrange(1, 20)
                found += pieces.feed(noise[place : place + size])
                place += size
            assert all(len(frame) <= limit for frame in expected + found)
            if make is impl.KissDecoder:
                assert found == expected
                assert whole.counters == pieces.counters


# ---------------------------------------------------------------- KISS in streams


def test_only_the_low_nibble_of_a_command_counts(impl: Any) -> None:
    """P9: data on any port is delivered, READY counted, others are foreign."""
    decoder = impl.KissDecoder()
    for command in range(256):
        if command == 0xC0:
            continue
        found = decoder.feed(impl.kiss_frame(b"data", command=command))
        assert found == ([b"data"] if command & 0x0F == 0 else [])
    counters = decoder.counters
    assert counters["frames"] == 15  # 0x00, 0x10, ... but for 0xc0, the delimiter
    assert counters["ready"] == 16
    assert counters["foreign_commands"] == 256 - 16 - 16
    names = {"frames", "oversize", "foreign_commands", "ready", "discarded_bytes"}
    assert set(counters) == names


def test_kiss_frames_have_a_limit(impl: Any) -> None:
    """P9: and empty ones are none."""
    decoder = impl.KissDecoder(max_bytes=10)
    for size in range(13):
        found = decoder.feed(impl.kiss_frame(b"x" * size))
        assert found == ([b"x" * size] if 1 <= size <= 10 else [])
    assert (decoder.counters["frames"], decoder.counters["oversize"]) == (10, 2)
    assert impl.KissDecoder().feed(impl.kiss_frame(bytes(628))) == [bytes(628)]
    assert impl.KissDecoder().feed(impl.kiss_frame(bytes(629))) == []
    assert impl.KissDecoder(max_bytes=0).feed(impl.kiss_frame(bytes(5000))) == [bytes(5000)]


def test_a_kiss_stream_may_be_cut_anywhere(impl: Any) -> None:
    """P9: one delimiter may serve two frames; escapes are lenient."""
    frames = [b"one\xc0\xdb", b"two", b"three\xdb"]
    stream = b"".join(impl.kiss_frame(frame) for frame in frames)
    shared = b"\xc0" + b"\xc0".join(b"\0" + impl.kiss_escape(frame) for frame in frames) + b"\xc0"
    for data in (stream, shared):
        for cut in range(len(data)):
            decoder = impl.KissDecoder()
            assert decoder.feed(data[:cut]) + decoder.feed(data[cut:]) == frames
    assert impl.KissDecoder().feed(b"\xc0\x00a\xdbxb\xc0") == [b"axb"]
