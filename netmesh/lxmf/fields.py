"""Helpers for the well-known fields of a message (LXMF 13).

A message's ``fields`` are a plain dictionary; any key and any value may be in it. The
functions here read the fields that deployed programs agree on into small typed objects, and
build them. What a peer sent may be malformed: then they raise
:class:`netmesh.errors.DecodeError`. A field that is absent gives ``None`` (or nothing).
Fields count only on a message whose signature was verified.

Example:
    >>> from netmesh.lxmf import fields
    >>> mine = fields.with_attachments({}, [fields.Attachment("../notes.txt", b"hello")])
    >>> mine
    {5: [['../notes.txt', b'hello']]}
    >>> [fields.safe_name(found.name) for found in fields.attachments(mine)]
    ['notes.txt']
    >>> fields.audio({fields.Field.AUDIO: [0x10, b"OggS"]})
    Audio(mode=<AudioMode.OPUS_OGG: 16>, data=b'OggS')
    >>> fields.image({}) is None
    True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from netmesh.constants import LXMF_TICKET_SIZE, AudioMode, Field, Renderer
from netmesh.errors import DecodeError
from netmesh.msgpack import unpackb

__all__ = [
    "Attachment",
    "Audio",
    "AudioMode",
    "Field",
    "Image",
    "Location",
    "Renderer",
    "Sensor",
    "Ticket",
    "attachments",
    "audio",
    "image",
    "renderer",
    "safe_name",
    "telemetry",
    "ticket",
    "unpack_telemetry",
    "with_attachments",
    "with_audio",
    "with_image",
]


class Sensor(IntEnum):
    """Keys of a telemetry map (LXMF 13.2)."""

    TIME = 0x01
    LOCATION = 0x02
    PRESSURE = 0x03
    BATTERY = 0x04
    PHYSICAL_LINK = 0x05
    ACCELERATION = 0x06
    TEMPERATURE = 0x07
    HUMIDITY = 0x08
    MAGNETIC_FIELD = 0x09
    AMBIENT_LIGHT = 0x0A
    GRAVITY = 0x0B
    ANGULAR_VELOCITY = 0x0C
    PROXIMITY = 0x0E
    INFORMATION = 0x0F
    RECEIVED = 0x10
    POWER_CONSUMPTION = 0x11
    POWER_PRODUCTION = 0x12
    PROCESSOR = 0x13
    RAM = 0x14
    NVM = 0x15
    TANK = 0x16
    FUEL = 0x17
    LXMF_PROPAGATION = 0x18
    RNS_TRANSPORT = 0x19
    CONNECTION_MAP = 0x1A
    INTERFACES = 0x1B
    CUSTOM = 0xFF


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attached file. ``name`` is the sender's and not safe to use: see :func:`safe_name`."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Image:
    """An image and its format as the sender calls it, such as ``"webp"`` or ``"png"``."""

    format: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Audio:
    """A recording. ``mode`` is an :class:`AudioMode`, or the plain number of an unknown one."""

    mode: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket for the next messages to its sender, usable while ``expires`` > now (LXMF 7)."""

    expires: float
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Location:
    """A position. Degrees, metres, km/h; ``updated`` is Unix seconds."""

    latitude: float
    longitude: float
    altitude_m: float
    speed_kmh: float
    bearing: float
    accuracy_m: float
    updated: int


def _bad(field: str, text: str, reason: str = "TYPE") -> DecodeError:
    """The error for a field that is not what deployed programs send."""
    return DecodeError(f"lxmf field '{field}' {text}", reason=reason, codec="lxmf", field=field)


def _text(value: object, field: str) -> str:
    """A name that may come as text or as UTF-8 bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise _bad(field, "is not text")
    return value


def _bytes(value: object, field: str) -> bytes:
    """Content that must be bytes."""
    if not isinstance(value, bytes):
        raise _bad(field, "is not a byte string")
    return value


def _row(value: object, least: int, field: str) -> list[Any]:
    """An array of at least so many elements."""
    if not isinstance(value, (list, tuple)):
        raise _bad(field, "is not an array")
    if len(value) < least:
        raise _bad(field, f"has {len(value)} elements, not {least} or more", "LENGTH")
    return list(value)


def attachments(fields: Mapping[Any, Any]) -> tuple[Attachment, ...]:
    """The attached files, in order; empty when there are none.

    Raises:
        DecodeError: The field is not an array of name and data.
    """
    value = fields.get(Field.FILE_ATTACHMENTS)
    if value is None:
        return ()
    rows = [_row(row, 2, "attachments") for row in _row(value, 0, "attachments")]
    return tuple(
        Attachment(_text(row[0], "attachments"), _bytes(row[1], "attachments")) for row in rows
    )


def image(fields: Mapping[Any, Any]) -> Image | None:
    """The image, or None.

    Raises:
        DecodeError: The field is not an array of format and data.
    """
    value = fields.get(Field.IMAGE)
    if value is None:
        return None
    row = _row(value, 2, "image")
    return Image(_text(row[0], "image"), _bytes(row[1], "image"))


def audio(fields: Mapping[Any, Any]) -> Audio | None:
    """The recording, or None.

    Raises:
        DecodeError: The field is not an array of mode and data.
    """
    value = fields.get(Field.AUDIO)
    if value is None:
        return None
    row = _row(value, 2, "audio")
    mode = row[0]
    if not isinstance(mode, int) or isinstance(mode, bool):
        raise _bad("audio", "has a mode that is not an integer")
    known = mode in AudioMode.__members__.values()
    return Audio(AudioMode(mode) if known else mode, _bytes(row[1], "audio"))


def renderer(fields: Mapping[Any, Any]) -> Renderer:
    """How the content is to be shown; absent or unknown values mean plain text."""
    value = fields.get(Field.RENDERER)
    if isinstance(value, int) and value in Renderer.__members__.values():
        return Renderer(value)
    return Renderer.PLAIN


def ticket(fields: Mapping[Any, Any]) -> Ticket | None:
    """The ticket that the sender gives away, or None.

    Raises:
        DecodeError: The field is not an array of time and 16 bytes.
    """
    value = fields.get(Field.TICKET)
    if value is None:
        return None
    expires, secret = _row(value, 2, "ticket")[:2]
    if not isinstance(expires, (int, float)) or isinstance(expires, bool):
        raise _bad("ticket", "has an expiry that is not a number")
    if len(_bytes(secret, "ticket")) != LXMF_TICKET_SIZE:
        raise _bad("ticket", f"has {len(secret)} bytes, not {LXMF_TICKET_SIZE}", "LENGTH")
    return Ticket(float(expires), secret)


def with_attachments(fields: Mapping[Any, Any], files: Iterable[Attachment]) -> dict[Any, Any]:
    """A copy of ``fields`` with these attached files."""
    rows = [[attachment.name, attachment.data] for attachment in files]
    return {**fields, int(Field.FILE_ATTACHMENTS): rows}


def with_image(fields: Mapping[Any, Any], picture: Image) -> dict[Any, Any]:
    """A copy of ``fields`` with this image."""
    return {**fields, int(Field.IMAGE): [picture.format, picture.data]}


def with_audio(fields: Mapping[Any, Any], recording: Audio) -> dict[Any, Any]:
    """A copy of ``fields`` with this recording."""
    return {**fields, int(Field.AUDIO): [int(recording.mode), recording.data]}


def safe_name(name: str) -> str:
    """The last part of a file name without anything that could leave a folder.

    Directories, control characters and leading dots are removed; a name of which nothing
    is left becomes ``"unnamed"``.

    Example:
        >>> safe_name("../../etc/passwd"), safe_name("../..")
        ('passwd', 'unnamed')
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(character for character in last if character.isprintable())
    return kept.strip().lstrip(".").strip() or "unnamed"


def telemetry(fields: Mapping[Any, Any]) -> dict[int, Any] | None:
    """The sensor readings of the telemetry field, or None; see :func:`unpack_telemetry`."""
    value = fields.get(Field.TELEMETRY)
    return None if value is None else unpack_telemetry(_bytes(value, "telemetry"))


def unpack_telemetry(packed: bytes) -> dict[int, Any]:
    """Sensor id to reading; a location becomes a :class:`Location`, others stay as sent.

    Raises:
        DecodeError: ``packed`` is not a msgpack map, or its location is malformed.
    """
    readings = unpackb(packed)
    if not isinstance(readings, dict):
        raise _bad("telemetry", "is not a map")
    found = dict(readings)
    if found.get(Sensor.LOCATION) is not None:
        found[int(Sensor.LOCATION)] = _location(found[Sensor.LOCATION])
    return found


def _location(value: object) -> Location:
    """Six big-endian numbers as byte strings, and the time of the last update."""
    row = _row(value, 7, "location")
    numbers = []
    for place, (size, signed) in enumerate(
        ((4, True), (4, True), (4, True), (4, False), (4, True), (2, False))
    ):
        raw = _bytes(row[place], "location")
        if len(raw) != size:
            raise _bad("location", f"has a number of {len(raw)} bytes, not {size}", "LENGTH")
        numbers.append(int.from_bytes(raw, "big", signed=signed))
    if not isinstance(row[6], int):
        raise _bad("location", "has an update time that is not an integer")
    return Location(
        latitude=numbers[0] / 1e6,
        longitude=numbers[1] / 1e6,
        altitude_m=numbers[2] / 100,
        speed_kmh=numbers[3] / 100,
        bearing=numbers[4] / 100,
        accuracy_m=numbers[5] / 100,
        updated=row[6],
    )
