"""All fields of a message in one object: read whatever comes, kept intact, built (LXMF 13)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import named, raw, vectors
from netmesh import errors
from netmesh.lxmf import Message, fields
from netmesh.lxmf.fields import (
    Appearance,
    Attachment,
    Audio,
    AudioMode,
    Battery,
    Command,
    CommandId,
    Custom,
    Fields,
    Image,
    Location,
    PhysicalLink,
    Reaction,
    Reading,
    Renderer,
    Telemetry,
    TelemetryReport,
    Vector,
)
from netmesh.msgpack import packb, unpackb

FIELD_VECTORS = [
    vector
    for vector in vectors("lxmf", "message", "message_stamped")
    if vector["input"].get("fields", {}).get("map")
]


def received(name: str) -> Fields:
    """The fields of a message that upstream made."""
    return Fields.read(Message.unpack(raw(named("lxmf", name)["output"]["packed"])).fields)


@pytest.mark.parametrize("vector", FIELD_VECTORS, ids=lambda vector: vector["name"])
def test_vectors_are_read_and_kept_in_order(vector: dict[str, Any]) -> None:
    packed = Message.unpack(raw(vector["output"]["packed"]))
    found = Fields.read(packed.fields)
    assert packb(found.raw) == packed.fields_packed
    if vector["name"].startswith("field_"):
        assert found.malformed == {}
        assert found.unknown == {}


def test_vectors_say_what_they_say() -> None:
    reply = received("field_reply_to_and_quote")
    assert reply.reply_quote == "quoted text"
    assert reply.reply_to is not None
    target = reply.reply_to
    assert received("field_reaction").reaction == Reaction(target, "\N{THUMBS UP SIGN}")
    assert received("field_comment").comment_on == target
    assert received("field_icon_appearance").appearance == Appearance(
        "sail-boat", b"\xff\x80\x00", b"\x10\x20\x30"
    )
    assert received("field_thread").thread == raw(
        "39200d1e8a8dbbb6d7bcea51e02b99f062d32a5f83151e8c5a9fab79576245dd"
    )
    assert received("field_group").group == raw("1722614b182c02ca4f1c56fee28e5b5d")
    assert received("field_results").results == [["ok", b"\x01"]]
    assert received("field_event").event == ["joined"]
    assert received("field_renderer_markdown").renderer is Renderer.MARKDOWN
    assert [len(each) for each in received("field_embedded_lxms").embedded] == [20, 20]
    ticket = received("field_ticket").ticket
    assert ticket is not None
    assert ticket.expires == 1701814400.5
    assert received("msg_fields_nested").custom == Custom(
        b"app.type", {"a": [1, {"b": [None, True, {"c": b"\xde\xad"}]}]}, {"v": 1.25}
    )
    [first, *others] = received("field_commands").commands
    assert (first.id, first.timebase, first.collector) == (
        CommandId.TELEMETRY_REQUEST,
        1699990000,
        True,
    )
    assert [(each.id, each.text) for each in others] == [
        (CommandId.PING, None),
        (CommandId.ECHO, "echo me"),
        (CommandId.SIGNAL_REPORT, None),
    ]


def test_telemetry_of_upstream_is_typed_and_packed_alike() -> None:
    """LXMF 13.2, vector field_telemetry: byte for byte."""
    found = received("field_telemetry")
    telemetry = found.telemetry
    assert telemetry is not None
    assert telemetry.time == 1700000000
    assert telemetry.location == Location(55.6764, 12.568300, 12.34, 2.5, 90.0, 5.0, 1699999990)
    assert telemetry.battery == Battery(87.5, True, 21.5)
    assert telemetry.physical_link == PhysicalLink(-92, 7.25, 64.0)
    assert telemetry.other == {}
    assert telemetry.pack() == found.raw[fields.Field.TELEMETRY]


def test_audio_modes_name_their_codec() -> None:
    """LXMF 13.1."""
    codecs = {mode: Audio(mode, b"").codec for mode in AudioMode}
    assert {codecs[mode] for mode in AudioMode if mode < 0x10} == {"codec2"}
    assert {codecs[mode] for mode in AudioMode if 0x10 <= mode < 0x20} == {"opus"}
    assert codecs[AudioMode.CUSTOM] == "custom"
    assert Audio(0x55, b"").codec == "unknown"


EVERYTHING: dict[str, Any] = {
    "attachments": (Attachment("a.txt", b"one"), Attachment("日本.bin", b"")),
    "image": Image("webp", b"RIFF"),
    "audio": Audio(AudioMode.CODEC2_1200, b"frames"),
    "telemetry": Telemetry(time=5, temperature_c=-3.5),
    "telemetry_stream": (
        TelemetryReport(bytes(16), 7, Telemetry(time=7), Appearance("dot", bytes(3), b"abc")),
        TelemetryReport(b"\1" * 16, 8, Telemetry(time=8)),
    ),
    "appearance": Appearance("sail-boat", b"\1\2\3", b"\4\5\6"),
    "renderer": Renderer.MICRON,
    "thread": b"\7" * 32,
    "reply_to": b"\1" * 32,
    "reply_quote": "as you said — 日本",
    "reaction": Reaction(b"\2" * 32, "\N{SPARKLING HEART}"),
    "comment_on": b"\3" * 32,
    "continuation_of": b"\4" * 32,
    "commands": (
        Command(CommandId.PING),
        Command.echo("hé"),
        Command.plugin("lights on"),
        Command.telemetry_request(9, collector=False),
        Command("own", {"x": 1}),
    ),
    "results": [["ok", 1]],
    "group": b"group",
    "event": {"kind": "joined"},
    "references": [b"ref"],
    "embedded": (b"packed",),
    "custom": Custom("type", b"data", {"meta": 1}),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_each_field_is_read_as_it_was_built(name: str) -> None:
    built = fields.build(**{name: EVERYTHING[name]})
    assert all(type(key) is int for key in built)
    found = Fields.read(unpackb(packb(built)))
    assert getattr(found, name) == EVERYTHING[name]
    assert found.malformed == found.unknown == {}


def test_all_fields_go_in_one_message() -> None:
    built = fields.build(**EVERYTHING, more={0x20: "kept", "text": 1})
    found = Fields.read(unpackb(packb(built)))
    assert {name: getattr(found, name) for name in EVERYTHING} == EVERYTHING
    assert found.unknown == {0x20: "kept", "text": 1}
    assert fields.build() == {}


def test_forms_of_old_clients_are_read() -> None:
    """LXMF 13.1 to 13.3."""
    found = Fields.read(
        {
            5: [[b"bin name", b"", "text/plain"]],
            9: [{1: 1699990000, 2: True}],
            0x31: "text, not bytes",
            0x40: {0: bytes(32), 1: "text"},
            2: packb({1: 5, 4: [50.0, False]}),
        }
    )
    assert found.malformed == {}
    assert found.attachments[0].name == "bin name"
    request, ping = found.commands
    assert (request.timebase, request.collector) == (1699990000, True)
    assert (ping.id, ping.timebase, ping.collector) == (CommandId.PING, None, None)
    assert found.reply_quote == "text, not bytes"
    assert found.telemetry is not None
    assert found.telemetry.battery == Battery(50.0, False, None)


def number(value: int, size: int = 4) -> bytes:
    """A number of a location."""
    return value.to_bytes(size, "big", signed=value < 0)


MALFORMED: list[dict[int, Any]] = [
    {1: b"not a list"},
    {1: ["text"]},
    {2: {}},
    {2: b"\xc1"},
    {2: packb([1])},
    {3: [[bytes(15), 1, packb({})]]},
    {3: [[bytes(16), "now", packb({})]]},
    {3: [[bytes(16), 1]]},
    {3: [[bytes(16), 1, b"\xc1"]]},
    {4: []},
    {4: ["dot", bytes(3), bytes(4)]},
    {4: ["dot", bytes(3), bytes(3)] * 32},
    {5: {}},
    {5: [["name"]]},
    {6: "png"},
    {7: ["opus", b""]},
    {8: "thread"},
    {9: {1: 2}},
    {9: [[1]]},
    {12: [1.0, bytes(15)]},
    {12: [float("inf"), bytes(16)]},
    {15: 99},
    {15: True},
    {0x30: bytes(31)},
    {0x31: 5},
    {0x40: {}},
    {0x40: {0: bytes(32)}},
    {0x41: {0: bytes(16)}},
    {0x42: [bytes(32)]},
]


@pytest.mark.parametrize("sent", MALFORMED, ids=str)
def test_malformed_fields_are_kept_and_raise_nothing(sent: dict[int, Any]) -> None:
    found = Fields.read({**sent, 6: ["png", b"good"]} if 6 not in sent else sent)
    assert found.malformed == sent
    assert found.raw.items() >= sent.items()
    if 6 not in sent:
        assert found.image == Image("png", b"good")


def test_the_good_rows_of_a_malformed_list_are_read() -> None:
    rows = [["a", b"1"], ["b"], ["c", b"3"]]
    found = Fields.read({5: rows})
    assert found.attachments == (Attachment("a", b"1"), Attachment("c", b"3"))
    assert found.malformed == {5: rows}


def test_keys_that_python_calls_equal_are_not_taken_for_fields() -> None:
    found = Fields.read({True: [b"x"], 6.0: ["png", b""]})
    assert found.unknown == {True: [b"x"], 6.0: ["png", b""]}
    assert found.embedded == ()
    assert found.image is None


def test_malformed_readings_are_kept() -> None:
    sent: dict[Any, Any] = {
        1: 5,
        2: [number(1), number(2)],
        4: [50.0, "yes"],
        5: [1, 2, "loud"],
        6: [1, 2],
        7: "warm",
        0x0E: "near",
        0x0F: 5,
        0x11: [["label"]],
        0x10: [b"by", b"via", 1.0, 2.0],
        0x42: b"?",
        "own": 1,
        3: None,
        8: float("inf"),
    }
    found = Telemetry.unpack(packb(sent))
    assert found.time == 5
    assert found.other == {key: value for key, value in sent.items() if key != 1}
    assert found.location is None
    assert unpackb(found.pack()) == sent


def test_all_readings_are_read_as_they_were_packed() -> None:
    everything = Telemetry(
        time=1700000000,
        location=Location(-89.999999, 179.999999, -12.5, 3.6, -90.0, 655.35, 1),
        pressure_mbar=1013.25,
        battery=Battery(12.5, False, 20.5),
        physical_link=PhysicalLink(-100, None, 50.0),
        acceleration=Vector(0.0, 1.0, -1.0),
        temperature_c=-40,
        humidity_pct=99.9,
        magnetic_field=Vector(1, 2, 3),
        ambient_light_lux=0,
        gravity=Vector(0, 0, 9.81),
        angular_velocity=Vector(0.5, 0.5, 0.5),
        proximity=False,
        information="here",
        power_consumption=(Reading("pump", [12.5, "icon"]),),
        power_production=(Reading(0x00, [1, None]),),
        processor=(Reading("cpu", [0.5]),),
        ram=(Reading("ram", [1, 2]),),
        nvm=(Reading("disk", [1, 2]),),
        tank=(Reading("water", [1]),),
        fuel=(Reading("diesel", [2]),),
        custom=(Reading("mood", ["good"]),),
        other={0x18: {"peers": 1}},
    )
    packed = everything.pack()
    assert Telemetry.unpack(packed) == everything
    assert next(iter(unpackb(packed))) == fields.Sensor.TIME


@pytest.mark.parametrize(
    "location",
    [
        Location(3000.0, 0, 0, 0, 0, 0, 1),
        Location(0, 0, 0, -1.0, 0, 0, 1),
        Location(0, 0, 0, 0, 0, 656.0, 1),
        Location(float("nan"), 0, 0, 0, 0, 0, 1),
        Location(0, float("inf"), 0, 0, 0, 0, 1),
    ],
)
def test_positions_that_do_not_fit_are_refused(location: Location) -> None:
    with pytest.raises(errors.EncodeError) as caught:
        Telemetry(location=location).pack()
    assert (caught.value.reason, caught.value.field) == ("RANGE", "location")


@pytest.mark.parametrize(
    ("given_", "reason", "field"),
    [
        ({"reply_to": bytes(31)}, "LENGTH", "reply_to"),
        ({"comment_on": bytes(33)}, "LENGTH", "comment_on"),
        ({"continuation_of": b""}, "LENGTH", "continuation_of"),
        ({"reaction": Reaction(bytes(16), "x")}, "LENGTH", "reaction"),
        ({"reaction": Reaction(bytes(32), "")}, "VALUE", "reaction"),
        ({"appearance": Appearance("dot", b"", b"")}, "LENGTH", "appearance"),
        (
            {"telemetry_stream": [TelemetryReport(b"", 1, Telemetry())]},
            "LENGTH",
            "telemetry stream",
        ),
    ],
)
def test_what_no_client_would_read_is_not_built(
    given_: dict[str, Any], reason: str, field: str
) -> None:
    with pytest.raises(errors.EncodeError) as caught:
        fields.build(**given_)
    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_messages_without_words_are_no_chat() -> None:
    """LXMF 13.2."""
    silent = fields.build(telemetry=Telemetry(time=1), commands=[Command(CommandId.PING)])
    assert not fields.is_chat(b"", b"", silent)
    assert fields.is_chat(b"", b"words", silent)
    assert fields.is_chat("title", "", silent)
    assert fields.is_chat(b"", b"", {})
    assert fields.is_chat(b"", b"", fields.build(image=Image("png", b"")))


# --------------------------------------------------------------------- whatever comes

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(0, 300),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.binary(max_size=33),
    st.sampled_from([bytes(32), bytes(16), bytes(3), packb({1: 5}), packb({2: [bytes(4)] * 7})]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.dictionaries(st.one_of(SCALARS, st.integers(0, 5)), inner, max_size=4),
    ),
    max_leaves=16,
)
KEYS = st.one_of(st.sampled_from([int(key) for key in fields.Field]), SCALARS)


@settings(deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_whatever_comes_is_read_and_kept(sent: dict[Any, Any]) -> None:
    found = Fields.read(sent)
    assert list(found.raw) == list(sent)
    assert all(found.raw[key] is value for key, value in sent.items())
    assert all(found.malformed[key] is sent[key] for key in found.malformed)
    assert all(found.unknown[key] is sent[key] for key in found.unknown)
    assert not found.malformed.keys() & found.unknown.keys()
    fields.is_chat(b"", b"", sent)
    for command in found.commands:
        assert isinstance((command.timebase, command.collector, command.text), tuple)


@settings(deadline=None)
@given(
    st.dictionaries(st.one_of(st.sampled_from([int(s) for s in fields.Sensor]), SCALARS), VALUES)
)
def test_whatever_readings_come_are_packed_alike(sent: dict[Any, Any]) -> None:
    packed = packb(sent)
    try:
        found = Telemetry.unpack(packed)
    except errors.DecodeError:  # equal keys, as 1 and 1.0
        return
    again = Telemetry.unpack(found.pack())
    assert packb(list(again.other.items())) == packb(list(found.other.items()))
    assert again.location == found.location
    assert set(unpackb(found.pack())) == set(unpackb(packed))


@settings(deadline=None)
@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**16 - 1),
)
def test_every_position_survives(
    latitude: int, longitude: int, altitude: int, speed: int, bearing: int, accuracy: int
) -> None:
    location = Location(
        latitude / 1e6,
        longitude / 1e6,
        altitude / 100,
        speed / 100,
        bearing / 100,
        accuracy / 100,
        1700000000,
    )
    assert Telemetry.unpack(Telemetry(location=location).pack()).location == location
