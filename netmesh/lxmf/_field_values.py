"""What single field values are, and the checks that all of them share (LXMF 13)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from netmesh.constants import LXMF_TICKET_SIZE, AudioMode
from netmesh.errors import DecodeError, EncodeError

MESSAGE_ID_SIZE: Final = 32
ADDRESS_SIZE: Final = 16
COLOUR_SIZE: Final = 3
APPEARANCE_MAX: Final = 96


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

    @property
    def codec(self) -> str:
        """``"codec2"``, ``"opus"``, ``"custom"`` or ``"unknown"``."""
        if AudioMode.CODEC2_450PWB <= self.mode <= AudioMode.CODEC2_3200:
            return "codec2"
        if AudioMode.OPUS_OGG <= self.mode <= AudioMode.OPUS_LOSSLESS:
            return "opus"
        return "custom" if self.mode == AudioMode.CUSTOM else "unknown"


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket for the next messages to its sender, usable while ``expires`` > now (LXMF 7)."""

    expires: float
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Appearance:
    """How a sender wants to be drawn: a named icon, and two colours of 3 bytes (RGB)."""

    icon: str
    foreground: bytes
    background: bytes


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction, usually one emoji, to the message of that id (32 bytes)."""

    message_id: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Custom:
    """Data of a program's own format. Any value may be in each part; None where it is absent."""

    type: Any
    data: Any = None
    meta: Any = None


class CommandId(IntEnum):
    """What a command asks for (LXMF 13.3)."""

    PLUGIN = 0x00
    TELEMETRY_REQUEST = 0x01
    PING = 0x02
    ECHO = 0x03
    SIGNAL_REPORT = 0x04


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a message. Obey it only when the message is verified and the sender may.

    ``id`` is a :class:`CommandId`, or whatever key an unknown one has; ``argument`` is what
    the sender wrote.
    """

    id: Any
    argument: Any = True

    @classmethod
    def telemetry_request(cls, since: int, *, collector: bool = True) -> Command:
        """Asks for telemetry since a Unix time; of all that a collector has, or of it alone."""
        return cls(CommandId.TELEMETRY_REQUEST, [since, collector])

    @classmethod
    def echo(cls, text: str) -> Command:
        """Asks for the same text back."""
        return cls(CommandId.ECHO, text.encode())

    @classmethod
    def plugin(cls, text: str) -> Command:
        """A command line for a plugin of the receiver."""
        return cls(CommandId.PLUGIN, text)

    @property
    def timebase(self) -> int | None:
        """Of a telemetry request: since when (Unix seconds); None for others."""
        if self.id != CommandId.TELEMETRY_REQUEST:
            return None
        since = self.argument[0] if self._is_pair else self.argument
        return int(since) if is_number(since) else None

    @property
    def collector(self) -> bool | None:
        """Of a telemetry request: whether it asks a collector for all; None for others."""
        if self.id != CommandId.TELEMETRY_REQUEST:
            return None
        return bool(self.argument[1]) if self._is_pair else True

    @property
    def text(self) -> str | None:
        """The argument when it is text or bytes (undecodable ones replaced), else None."""
        if isinstance(self.argument, bytes):
            return self.argument.decode("utf-8", "replace")
        return self.argument if isinstance(self.argument, str) else None

    @property
    def _is_pair(self) -> bool:
        return isinstance(self.argument, (list, tuple)) and len(self.argument) > 1


# ------------------------------------------------------------------ shared checks


def is_number(value: object) -> bool:
    """Whether it is a finite number and no truth value."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value - value == 0)


def bad(field: str, text: str, reason: str = "TYPE") -> DecodeError:
    """The error for a field that is not what deployed programs send."""
    return DecodeError(f"lxmf field '{field}' {text}", reason=reason, codec="lxmf", field=field)


def unfit(field: str, text: str, reason: str = "VALUE") -> EncodeError:
    """The error for a value that the field cannot hold."""
    return EncodeError(f"lxmf field '{field}' {text}", reason=reason, field=field)


def as_text(value: object, field: str) -> str:
    """A name that may come as text or as UTF-8 bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise bad(field, "is not text")
    return value


def as_bytes(value: object, field: str, size: int | None = None) -> bytes:
    """Content that must be bytes, of that size where one is given."""
    if not isinstance(value, bytes):
        raise bad(field, "is not a byte string")
    if size is not None and len(value) != size:
        raise bad(field, f"has {len(value)} bytes, not {size}", "LENGTH")
    return value


def as_row(value: object, least: int, field: str) -> list[Any]:
    """An array of at least so many elements."""
    if not isinstance(value, (list, tuple)):
        raise bad(field, "is not an array")
    if len(value) < least:
        raise bad(field, f"has {len(value)} elements, not {least} or more", "LENGTH")
    return list(value)


def as_map(value: object, field: str) -> dict[Any, Any]:
    """A map."""
    if not isinstance(value, dict):
        raise bad(field, "is not a map")
    return value


# ---------------------------------------------------------------- one value each


def read_attachment(value: object) -> Attachment:
    """[name, data]; a MIME type may follow and is not kept."""
    row = as_row(value, 2, "attachments")
    return Attachment(as_text(row[0], "attachments"), as_bytes(row[1], "attachments"))


def read_image(value: object) -> Image:
    """[format, data]."""
    row = as_row(value, 2, "image")
    return Image(as_text(row[0], "image"), as_bytes(row[1], "image"))


def read_audio(value: object) -> Audio:
    """[mode, data]."""
    row = as_row(value, 2, "audio")
    mode = row[0]
    if not isinstance(mode, int) or isinstance(mode, bool):
        raise bad("audio", "has a mode that is not an integer")
    known = mode in AudioMode.__members__.values()
    return Audio(AudioMode(mode) if known else mode, as_bytes(row[1], "audio"))


def read_ticket(value: object) -> Ticket:
    """[expires, ticket]."""
    expires, secret = as_row(value, 2, "ticket")[:2]
    if not is_number(expires):
        raise bad("ticket", "has an expiry that is not a number")
    try:
        when = float(expires)
    except OverflowError:
        raise bad("ticket", "has an expiry beyond all time", "VALUE") from None
    return Ticket(when, as_bytes(secret, "ticket", LXMF_TICKET_SIZE))


def read_appearance(value: object) -> Appearance:
    """[icon, foreground, background]; with 96 elements or more it is to be ignored."""
    row = as_row(value, 3, "appearance")
    if len(row) >= APPEARANCE_MAX:
        raise bad("appearance", f"has {len(row)} elements", "LENGTH")
    return Appearance(
        as_text(row[0], "appearance"),
        as_bytes(row[1], "appearance", COLOUR_SIZE),
        as_bytes(row[2], "appearance", COLOUR_SIZE),
    )


def read_reaction(value: object) -> Reaction:
    """{0: message id, 1: reaction}."""
    found = as_map(value, "reaction")
    return Reaction(
        as_bytes(found.get(0), "reaction", MESSAGE_ID_SIZE), as_text(found.get(1), "reaction")
    )


def read_reference(value: object) -> bytes:
    """{0: message id}, of comments and continuations."""
    return as_bytes(as_map(value, "reference").get(0), "reference", MESSAGE_ID_SIZE)


def read_commands(value: object) -> tuple[Command, ...]:
    """One map: each pair is a command."""
    return tuple(
        Command(CommandId(key) if _is_command(key) else key, argument)
        for key, argument in as_map(value, "commands").items()
    )


def _is_command(key: object) -> bool:
    return type(key) is int and key in CommandId.__members__.values()


def read_message_id(value: object) -> bytes:
    """32 bytes."""
    return as_bytes(value, "message id", MESSAGE_ID_SIZE)


def appearance_row(appearance: Appearance) -> list[Any]:
    """What goes on the wire. Raises EncodeError for colours that are not 3 bytes."""
    for colour in (appearance.foreground, appearance.background):
        if len(colour) != COLOUR_SIZE:
            raise unfit("appearance", f"takes colours of 3 bytes, not {len(colour)}", "LENGTH")
    return [appearance.icon, appearance.foreground, appearance.background]


def message_id(value: bytes, field: str) -> bytes:
    """An id to be sent. Raises EncodeError unless it is 32 bytes."""
    if len(value) != MESSAGE_ID_SIZE:
        raise unfit(field, f"takes an id of 32 bytes, not {len(value)}", "LENGTH")
    return bytes(value)
