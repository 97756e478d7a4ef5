"""The well-known fields of a message, typed (LXMF 13).

A message's ``fields`` are a plain dictionary; any key and any value may be in it.
:meth:`Fields.read` reads all that deployed programs agree on into one object and raises
nothing, whatever a peer sent: what is malformed or unknown is kept as it came.
:func:`build` makes a dictionary to be sent. The functions that read a single field raise
:class:`netmesh.errors.DecodeError` when it is malformed; one that is absent gives ``None``
(or nothing). Fields count only on a message whose signature was verified.

Example:
    >>> from netmesh.lxmf import fields
    >>> mine = fields.build(
    ...     attachments=[fields.Attachment("../notes.txt", b"hello")], reply_to=bytes(32)
    ... )
    >>> found = fields.Fields.read({**mine, 6: "no image", 0x20: "new"})
    >>> [fields.safe_name(each.name) for each in found.attachments]
    ['notes.txt']
    >>> found.reply_to == bytes(32), found.image, found.malformed, found.unknown
    (True, None, {6: 'no image'}, {32: 'new'})
    >>> fields.audio({fields.Field.AUDIO: [0x10, b"OggS"]})
    Audio(mode=<AudioMode.OPUS_OGG: 16>, data=b'OggS')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from netmesh.constants import AudioMode, Field, Renderer
from netmesh.errors import DecodeError
from netmesh.lxmf._field_values import (
    Appearance,
    Attachment,
    Audio,
    Command,
    CommandId,
    Custom,
    Image,
    Reaction,
    Ticket,
    appearance_row,
    as_bytes,
    as_row,
    as_text,
    bad,
    message_id,
    read_appearance,
    read_attachment,
    read_audio,
    read_commands,
    read_image,
    read_message_id,
    read_reaction,
    read_reference,
    read_ticket,
    unfit,
)
from netmesh.lxmf._telemetry import (
    Battery,
    Location,
    PhysicalLink,
    Reading,
    Sensor,
    Telemetry,
    TelemetryReport,
    Vector,
    read_report,
    report_row,
    unpack_telemetry,
)

__all__ = [
    "Appearance",
    "Attachment",
    "Audio",
    "AudioMode",
    "Battery",
    "Command",
    "CommandId",
    "Custom",
    "Field",
    "Fields",
    "Image",
    "Location",
    "PhysicalLink",
    "Reaction",
    "Reading",
    "Renderer",
    "Sensor",
    "Telemetry",
    "TelemetryReport",
    "Ticket",
    "Vector",
    "attachments",
    "audio",
    "build",
    "image",
    "is_chat",
    "renderer",
    "safe_name",
    "telemetry",
    "ticket",
    "unpack_telemetry",
    "with_attachments",
    "with_audio",
    "with_image",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """All fields of one message; None or empty where there is none.

    What the sender wrote stays in ``raw``: keys in their order, malformed and unknown values
    too. Of a list with malformed rows the good ones are here, and the whole of it is also in
    ``malformed``.
    """

    attachments: tuple[Attachment, ...] = ()
    image: Image | None = None
    audio: Audio | None = None
    telemetry: Telemetry | None = None
    telemetry_stream: tuple[TelemetryReport, ...] = ()
    """What a collector answers."""
    appearance: Appearance | None = None
    renderer: Renderer = Renderer.PLAIN
    """How the content is to be shown; an unknown number means plain text."""
    thread: bytes | None = None
    """The id of the thread that it belongs to."""
    reply_to: bytes | None = None
    """32 bytes: the message that it answers."""
    reply_quote: str | None = None
    """What it quotes of that message."""
    reaction: Reaction | None = None
    comment_on: bytes | None = None
    """32 bytes: the message that its content comments on."""
    continuation_of: bytes | None = None
    """32 bytes: the message that its content continues."""
    commands: tuple[Command, ...] = ()
    results: Any = None
    """Results of commands, in a form of the program's own."""
    group: Any = None
    """A group, in a form of the program's own."""
    event: Any = None
    """An event, in a form of the program's own."""
    references: Any = None
    """References (RNR), in a form of the program's own."""
    ticket: Ticket | None = None
    embedded: tuple[bytes, ...] = ()
    """Packed messages within this one."""
    custom: Custom | None = None
    malformed: dict[Any, Any] = field(default_factory=dict)
    """Known fields that are not what deployed programs send, as sent."""
    unknown: dict[Any, Any] = field(default_factory=dict)
    """All other fields, as sent."""
    raw: dict[Any, Any] = field(default_factory=dict)
    """Everything, as sent."""

    @classmethod
    def read(cls, fields: Mapping[Any, Any]) -> Fields:
        """Reads the fields of a message. Raises nothing, whatever they hold."""
        found: dict[str, Any] = {}
        malformed: dict[Any, Any] = {}
        unknown: dict[Any, Any] = {}
        for key, value in fields.items():
            known = isinstance(key, int) and not isinstance(key, bool)
            if known and key in _ONE:
                name, read = _ONE[key]
                try:
                    found[name] = read(value)
                except DecodeError:
                    malformed[key] = value
            elif known and key in _MANY:
                name, read = _MANY[key]
                found[name], whole = _rows(value, read)
                if not whole:
                    malformed[key] = value
            elif not (known and key in _CUSTOM):
                unknown[key] = value
        if any(key in fields for key in _CUSTOM):
            found["custom"] = Custom(*(fields.get(key) for key in _CUSTOM))
        return cls(**found, malformed=malformed, unknown=unknown, raw=dict(fields))


def _rows(value: object, read: Callable[[object], Any]) -> tuple[tuple[Any, ...], bool]:
    """The good rows of a list, and whether all were."""
    if not isinstance(value, (list, tuple)):
        return (), False
    good: list[Any] = []
    whole = True
    for row in value:
        try:
            good.append(read(row))
        except DecodeError:
            whole = False
    return tuple(good), whole


def _read_commands(value: object) -> tuple[Command, ...]:
    rows = [read_commands(row) for row in as_row(value, 0, "commands")]
    return tuple(command for row in rows for command in row)


def _read_renderer(value: object) -> Renderer:
    if type(value) is int and value in Renderer.__members__.values():
        return Renderer(value)
    raise bad("renderer", "is unknown", "VALUE")


def _any(value: object) -> Any:
    return value


_CUSTOM: Final = (int(Field.CUSTOM_TYPE), int(Field.CUSTOM_DATA), int(Field.CUSTOM_META))
_MANY: Final[dict[int, tuple[str, Callable[[object], Any]]]] = {
    Field.FILE_ATTACHMENTS: ("attachments", read_attachment),
    Field.TELEMETRY_STREAM: ("telemetry_stream", read_report),
    Field.EMBEDDED_LXMS: ("embedded", lambda value: as_bytes(value, "embedded message")),
}
_ONE: Final[dict[int, tuple[str, Callable[[object], Any]]]] = {
    Field.TELEMETRY: ("telemetry", lambda value: Telemetry.unpack(as_bytes(value, "telemetry"))),
    Field.ICON_APPEARANCE: ("appearance", read_appearance),
    Field.IMAGE: ("image", read_image),
    Field.AUDIO: ("audio", read_audio),
    Field.THREAD: ("thread", lambda value: as_bytes(value, "thread")),
    Field.COMMANDS: ("commands", _read_commands),
    Field.RESULTS: ("results", _any),
    Field.GROUP: ("group", _any),
    Field.TICKET: ("ticket", read_ticket),
    Field.EVENT: ("event", _any),
    Field.RNR_REFS: ("references", _any),
    Field.RENDERER: ("renderer", _read_renderer),
    Field.REPLY_TO: ("reply_to", read_message_id),
    Field.REPLY_QUOTE: ("reply_quote", lambda value: as_text(value, "quote")),
    Field.REACTION: ("reaction", read_reaction),
    Field.COMMENT: ("comment_on", read_reference),
    Field.CONTINUATION: ("continuation_of", read_reference),
}

# Fields of messages that people do not see as one of a conversation (LXMF 13.2).
_SILENT: Final = frozenset(
    {
        Field.TELEMETRY,
        Field.TELEMETRY_STREAM,
        Field.ICON_APPEARANCE,
        Field.COMMANDS,
        Field.REACTION,
        Field.TICKET,
    }
)


def is_chat(title: bytes | str, content: bytes | str, fields: Mapping[Any, Any]) -> bool:
    """Whether a message is to be shown as one of a conversation (LXMF 13.2).

    One with neither title nor content that only carries telemetry, an appearance, commands, a
    reaction or a ticket is not.
    """
    return bool(title or content or not fields or not _SILENT.issuperset(fields))


# ------------------------------------------------------------------------- building


def build(
    *,
    attachments: Iterable[Attachment] = (),
    image: Image | None = None,
    audio: Audio | None = None,
    telemetry: Telemetry | None = None,
    telemetry_stream: Iterable[TelemetryReport] = (),
    appearance: Appearance | None = None,
    renderer: Renderer | None = None,
    thread: bytes | None = None,
    reply_to: bytes | None = None,
    reply_quote: str | None = None,
    reaction: Reaction | None = None,
    comment_on: bytes | None = None,
    continuation_of: bytes | None = None,
    commands: Iterable[Command] = (),
    results: Any = None,
    group: Any = None,
    event: Any = None,
    references: Any = None,
    embedded: Iterable[bytes] = (),
    custom: Custom | None = None,
    more: Mapping[Any, Any] | None = None,
) -> dict[Any, Any]:
    """The fields of a message to send; arguments are attributes of :class:`Fields`.

    ``more`` are further fields by id, and come first. A ticket is the router's to add.

    Raises:
        EncodeError: A value does not fit its field.
    """
    values: dict[int, Any] = {
        Field.EMBEDDED_LXMS: [bytes(each) for each in embedded] or None,
        Field.TELEMETRY: None if telemetry is None else telemetry.pack(),
        Field.TELEMETRY_STREAM: [report_row(each) for each in telemetry_stream] or None,
        Field.ICON_APPEARANCE: None if appearance is None else appearance_row(appearance),
        Field.FILE_ATTACHMENTS: [[each.name, each.data] for each in attachments] or None,
        Field.IMAGE: None if image is None else [image.format, image.data],
        Field.AUDIO: None if audio is None else [int(audio.mode), audio.data],
        Field.THREAD: None if thread is None else bytes(thread),
        Field.COMMANDS: [{_plain(each.id): each.argument} for each in commands] or None,
        Field.RESULTS: results,
        Field.GROUP: group,
        Field.EVENT: event,
        Field.RNR_REFS: references,
        Field.RENDERER: None if renderer is None else int(renderer),
        Field.REPLY_TO: None if reply_to is None else message_id(reply_to, "reply_to"),
        Field.REPLY_QUOTE: None if reply_quote is None else reply_quote.encode(),
        Field.REACTION: None if reaction is None else _reaction(reaction),
        Field.COMMENT: None if comment_on is None else {0: message_id(comment_on, "comment_on")},
        Field.CONTINUATION: None
        if continuation_of is None
        else {0: message_id(continuation_of, "continuation_of")},
    }
    if custom is not None:
        parts = (custom.type, custom.data, custom.meta)
        values.update(zip(_CUSTOM, parts, strict=True))
    made = {int(key): value for key, value in values.items() if value is not None}
    return {**(more or {}), **made}


def _plain(key: Any) -> Any:
    return int(key) if isinstance(key, CommandId) else key


def _reaction(reaction: Reaction) -> dict[int, bytes]:
    if not reaction.text:
        raise unfit("reaction", "is empty")
    return {0: message_id(reaction.message_id, "reaction"), 1: reaction.text.encode()}


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


# -------------------------------------------------------------------- one by one


def attachments(fields: Mapping[Any, Any]) -> tuple[Attachment, ...]:
    """The attached files, in order; empty when there are none.

    Raises:
        DecodeError: The field is not an array of name and data.
    """
    value = fields.get(Field.FILE_ATTACHMENTS)
    if value is None:
        return ()
    return tuple(read_attachment(row) for row in as_row(value, 0, "attachments"))


def image(fields: Mapping[Any, Any]) -> Image | None:
    """The image, or None.

    Raises:
        DecodeError: The field is not an array of format and data.
    """
    value = fields.get(Field.IMAGE)
    return None if value is None else read_image(value)


def audio(fields: Mapping[Any, Any]) -> Audio | None:
    """The recording, or None.

    Raises:
        DecodeError: The field is not an array of mode and data.
    """
    value = fields.get(Field.AUDIO)
    return None if value is None else read_audio(value)


def renderer(fields: Mapping[Any, Any]) -> Renderer:
    """How the content is to be shown; absent or unknown values mean plain text."""
    try:
        return _read_renderer(fields.get(Field.RENDERER))
    except DecodeError:
        return Renderer.PLAIN


def ticket(fields: Mapping[Any, Any]) -> Ticket | None:
    """The ticket that the sender gives away, or None.

    Raises:
        DecodeError: The field is not an array of time and 16 bytes.
    """
    value = fields.get(Field.TICKET)
    return None if value is None else read_ticket(value)


def telemetry(fields: Mapping[Any, Any]) -> dict[int, Any] | None:
    """The sensor readings of the telemetry field, or None; see :func:`unpack_telemetry`."""
    value = fields.get(Field.TELEMETRY)
    return None if value is None else unpack_telemetry(as_bytes(value, "telemetry"))


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
