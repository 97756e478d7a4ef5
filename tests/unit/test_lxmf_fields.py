"""Helpers for well-known message fields: what is read, what is refused (LXMF 13)."""

from __future__ import annotations

from typing import Any

import pytest

from golden import named, raw
from netmesh import errors
from netmesh.lxmf import Message, fields
from netmesh.msgpack import packb


def received(name: str) -> dict[Any, Any]:
    """The fields of a message that upstream made."""
    found: dict[Any, Any] = Message.unpack(raw(named("lxmf", name)["output"]["packed"])).fields
    return found


def reason_of(read: Any, *arguments: Any) -> tuple[str, str]:
    """Reason and field of the DecodeError that a call raises."""
    with pytest.raises(errors.DecodeError) as caught:
        read(*arguments)
    assert caught.value.codec == "lxmf"
    return caught.value.reason, caught.value.field


def test_fields_of_upstream_are_understood() -> None:
    """LXMF 13.1: vectors `field_*`."""
    assert fields.audio(received("field_audio_codec2")).mode in fields.AudioMode
    assert fields.audio(received("field_audio_opus_ogg")).mode is fields.AudioMode.OPUS_OGG
    assert fields.renderer(received("field_renderer_markdown")) is fields.Renderer.MARKDOWN
    ticket = fields.ticket(received("field_ticket"))
    assert ticket is not None
    assert len(ticket.ticket) == 16
    assert ticket.expires > 1.7e9
    readings = fields.telemetry(received("field_telemetry"))
    assert readings is not None
    assert fields.Sensor.TIME in readings
    assert received("field_thread")[fields.Field.THREAD]


def test_absent_fields_are_nothing() -> None:
    assert fields.attachments({}) == ()
    for read in (fields.image, fields.audio, fields.ticket, fields.telemetry):
        assert read({}) is None
    assert fields.renderer({}) is fields.Renderer.PLAIN


def test_what_is_written_is_read_back() -> None:
    files = [fields.Attachment("a.txt", b"one"), fields.Attachment("b", b"")]
    picture = fields.Image("webp", b"RIFF")
    recording = fields.Audio(fields.AudioMode.CODEC2_1200, b"frames")
    mine = {0x20: "kept"}
    mine = fields.with_attachments(mine, files)
    mine = fields.with_image(mine, picture)
    mine = fields.with_audio(mine, recording)
    assert all(type(key) is int for key in mine)
    assert fields.attachments(mine) == tuple(files)
    assert fields.image(mine) == picture
    assert fields.audio(mine) == recording
    assert mine[0x20] == "kept"


def test_forms_met_in_the_wild_are_read() -> None:
    """LXMF 13.1: further elements, names as bytes, unknown modes and renderers."""
    odd = {5: [[b"name", b"data", "text/plain"]], 7: [0x55, b""], 15: 99}
    assert fields.attachments(odd) == (fields.Attachment("name", b"data"),)
    assert fields.audio(odd) == fields.Audio(0x55, b"")
    assert type(fields.audio(odd).mode) is int
    assert fields.renderer(odd) is fields.Renderer.PLAIN
    assert fields.renderer({15: "markdown"}) is fields.Renderer.PLAIN


@pytest.mark.parametrize(
    ("read", "value", "reason"),
    [
        (fields.attachments, {5: 1}, "TYPE"),
        (fields.attachments, {5: [1]}, "TYPE"),
        (fields.attachments, {5: [["name"]]}, "LENGTH"),
        (fields.attachments, {5: [["name", "text"]]}, "TYPE"),
        (fields.attachments, {5: [[1, b""]]}, "TYPE"),
        (fields.image, {6: ["png"]}, "LENGTH"),
        (fields.image, {6: ["png", 5]}, "TYPE"),
        (fields.audio, {7: [b"", b""]}, "TYPE"),
        (fields.audio, {7: [True, b""]}, "TYPE"),
        (fields.audio, {7: [1, "text"]}, "TYPE"),
        (fields.ticket, {12: [1.0]}, "LENGTH"),
        (fields.ticket, {12: ["soon", bytes(16)]}, "TYPE"),
        (fields.ticket, {12: [True, bytes(16)]}, "TYPE"),
        (fields.ticket, {12: [1.0, bytes(15)]}, "LENGTH"),
        (fields.ticket, {12: [1.0, "sixteen letters!"]}, "TYPE"),
        (fields.telemetry, {2: {}}, "TYPE"),
        (fields.telemetry, {2: packb([1])}, "TYPE"),
        (fields.telemetry, {2: packb({2: [b""]})}, "LENGTH"),
        (fields.telemetry, {2: packb({2: [b"", b"", b"", b"", b"", b"", 0]})}, "LENGTH"),
        (fields.telemetry, {2: packb({2: [1, 2, 3, 4, 5, 6, 7]})}, "TYPE"),
    ],
)
def test_malformed_fields_are_refused(read: Any, value: Any, reason: str) -> None:
    assert reason_of(read, value)[0] == reason


def test_telemetry_that_is_no_messagepack_is_refused() -> None:
    with pytest.raises(errors.DecodeError):
        fields.unpack_telemetry(b"\xc1")


def test_positions_are_in_degrees_and_metres() -> None:
    """LXMF 13.2: six big-endian numbers; altitude and bearing are two's complement."""

    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, "big", signed=value < 0)

    packed = packb(
        {
            1: 1700000000,
            2: [
                number(52_516_275, 4),
                number(-13_377_704, 4),
                number(-1250, 4),
                number(360, 4),
                number(-9000, 4),
                number(500, 2),
                1700000001,
            ],
            4: [87.5, True, None],
        }
    )
    readings = fields.unpack_telemetry(packed)
    assert readings[fields.Sensor.LOCATION] == fields.Location(
        latitude=52.516275,
        longitude=-13.377704,
        altitude_m=-12.5,
        speed_kmh=3.6,
        bearing=-90.0,
        accuracy_m=5.0,
        updated=1700000001,
    )
    assert readings[fields.Sensor.BATTERY] == [87.5, True, None]
    assert fields.unpack_telemetry(packb({1: 5, 2: None}))[2] is None
    bad_time = packb({2: [bytes(4)] * 5 + [bytes(2), 1.5]})
    assert reason_of(fields.unpack_telemetry, bad_time) == ("TYPE", "location")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system32\\x.dll", "x.dll"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("/", "unnamed"),
        (".hidden", "hidden"),
        ("a\x00b\x1b[2Jc\n", "ab[2Jc"),
        (" . spaced . ", "spaced ."),
        ("grün 日本.txt", "grün 日本.txt"),
        ("right\N{RIGHT-TO-LEFT OVERRIDE}fdp.exe", "rightfdp.exe"),
    ],
)
def test_file_names_cannot_leave_a_folder(name: str, safe: str) -> None:
    assert fields.safe_name(name) == safe
