"""Messages in files: JSON lines and an mbox-like archive, both ways (LXMF 2).

Both carry the packed message, so id, signature, stamp and every field survive; what is beside
it can be read by people and by other programs. An archive is read as a stream: one entry is in
memory at a time, and one that is larger than a limit or damaged raises
:class:`netmesh.errors.DecodeError`, or is handed to ``skip`` and passed over.

Example:
    >>> import io
    >>> from netmesh import Identity
    >>> from netmesh.lxmf import Message, delivery_hash
    >>> from netmesh.mailarchive import Entry, read_json, write_json
    >>> message = Message.create(Identity(), delivery_hash(Identity()), "hello", fields={5: []})
    >>> file = io.BytesIO()
    >>> write_json(file, [Entry(message=message, verified=True)])
    1
    >>> [entry] = read_json(io.BytesIO(file.getvalue()))
    >>> entry.message.packed == message.packed, entry.verified
    (True, True)
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.header import Header
from email.message import Message as Mail
from email.parser import BytesParser
from email.policy import compat32
from email.utils import formatdate
from typing import IO, TYPE_CHECKING, Any, Final

from netmesh._core import DestinationHash, Ext, Message
from netmesh.constants import MessageState, Method
from netmesh.errors import DecodeError, LimitError
from netmesh.lxmf.fields import Fields, safe_name

if TYPE_CHECKING:
    from netmesh.messaging import MessageReceived

__all__ = [
    "ENTRY_MAX",
    "Entry",
    "entry_json",
    "from_json_value",
    "json_value",
    "read_json",
    "read_mbox",
    "write_json",
    "write_mbox",
]

ENTRY_MAX: Final = 64 << 20
"""How many bytes of an archive one entry may have."""
VERSION: Final = 1
DEPTH_MAX: Final = 64

Skip = Callable[[DecodeError], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of an archive, and what its mailbox knew of it."""

    message: Message
    """The message, whole."""
    incoming: bool = True
    """Whether it came; else it was sent."""
    time_unix_s: float | None = None
    """When it came or was sent on its way, on the owner's clock."""
    verified: bool = False
    """Whether its signature was found to be by its source. An archive proves nothing: verify
    again with :meth:`netmesh.lxmf.Message.verify` where it matters."""
    method: Method | None = None
    """How it came or went."""
    state: MessageState | None = None
    """Of one that was sent."""

    @classmethod
    def of(cls, received: MessageReceived) -> Entry:
        """The entry of a message that came in."""
        return cls(
            message=received.message,
            time_unix_s=received.time_unix_s,
            verified=received.verified,
            method=received.method,
        )


def _bad(text: str, field: str = "archive", reason: str = "VALUE") -> DecodeError:
    kind = LimitError if reason == "LIMIT" else DecodeError
    return kind(f"mail archive: {text}", reason=reason, codec="mailarchive", field=field)


# ---------------------------------------------------------------------- JSON values


def json_value(value: Any) -> Any:
    """A MessagePack value as JSON, without loss.

    Bytes become ``{"base64": text}``, maps ``{"map": [[key, value], ...]}``, extensions
    ``{"ext": code, "base64": text}`` and numbers that JSON lacks ``{"float": "nan"}``.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {"map": _pairs(value)}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, Ext):
        return {"ext": value.type, "base64": base64.b64encode(value.data).decode()}
    if isinstance(value, float) and value - value != 0:
        return {"float": repr(value)}
    return value


def _pairs(fields: dict[Any, Any]) -> list[list[Any]]:
    return [[json_value(key), json_value(each)] for key, each in fields.items()]


def from_json_value(value: Any, *, depth: int = DEPTH_MAX) -> Any:
    """The MessagePack value of :func:`json_value`.

    Raises:
        DecodeError: It is not of that form, or deeper than ``depth``.
    """
    if depth == 0:
        raise _bad("a value is nested too deeply", reason="LIMIT")
    if isinstance(value, list):
        return [from_json_value(item, depth=depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"base64"}:
        return _unbase64(value["base64"])
    if value.keys() == {"ext", "base64"}:
        try:
            return Ext(value["ext"], _unbase64(value["base64"]))
        except (TypeError, ValueError, OverflowError) as error:
            raise _bad(f"an extension is wrong: {error}") from None
    if value.keys() == {"float"} and value["float"] in ("nan", "inf", "-inf"):
        return float(value["float"])
    if value.keys() != {"map"} or not isinstance(value["map"], list):
        raise _bad(f"an object with {sorted(value)} is no value")
    found: dict[Any, Any] = {}
    for pair in value["map"]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise _bad("a map is not a list of pairs")
        key, item = (from_json_value(part, depth=depth - 1) for part in pair)
        key = _as_key(key)
        if key in found:
            raise _bad("a map has a key twice")
        found[key] = item
    return found


def _as_key(key: Any) -> Any:
    if isinstance(key, list):
        key = tuple(_as_key(part) for part in key)
    elif isinstance(key, dict):
        raise _bad("a map is the key of a map")
    return key


def _unbase64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise _bad("base64 is not text", reason="TYPE")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad(f"base64 is damaged: {error}") from None


# ------------------------------------------------------------------------ JSON lines


def entry_json(entry: Entry) -> dict[str, Any]:
    """The JSON object of an entry; ``packed`` is the whole message, the rest is for reading."""
    message = entry.message
    return {
        "version": VERSION,
        "id": message.id.hex(),
        "source": bytes(message.source_hash).hex(),
        "destination": bytes(message.destination_hash).hex(),
        "timestamp": json_value(message.timestamp),
        "title": message.title_text,
        "content": message.content_text,
        "fields": _pairs(message.fields),
        "incoming": entry.incoming,
        "time_unix_s": None if entry.time_unix_s is None else _within_time(entry.time_unix_s),
        "verified": entry.verified,
        "method": None if entry.method is None else entry.method.name.lower(),
        "state": None if entry.state is None else entry.state.name.lower(),
        "packed": base64.b64encode(message.packed).decode(),
    }


def write_json(file: IO[bytes], entries: Iterable[Entry]) -> int:
    """Writes one JSON object a line; how many."""
    count = 0
    for count, entry in enumerate(entries, 1):  # noqa: B007
        text = json.dumps(entry_json(entry), ensure_ascii=False, allow_nan=False)
        file.write(text.encode("utf-8", "replace") + b"\n")
    return count


def read_json(
    file: IO[bytes], *, entry_max: int = ENTRY_MAX, skip: Skip | None = None
) -> Iterator[Entry]:
    """The entries of a file of JSON lines; empty lines are passed over.

    Raises:
        DecodeError: A line is no entry; LimitError when it has more than ``entry_max`` bytes.
            With ``skip`` that is called with the error instead, and reading goes on.
    """
    number = 0
    while line := file.readline(entry_max + 1):
        number += 1
        try:
            if len(line) > entry_max:
                while line and not line.endswith(b"\n"):
                    line = file.readline(entry_max + 1)
                raise _bad(f"line {number} has more than {entry_max} bytes", reason="LIMIT")
            if not line.strip():
                continue
            entry = _entry_of(line, number)
        except DecodeError as error:
            if skip is None:
                raise
            skip(error)
            continue
        yield entry


def _entry_of(line: bytes, number: int) -> Entry:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(f"line {number} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _bad(f"line {number} is no object", reason="TYPE")
    if found.get("version") != VERSION:
        raise _bad(f"line {number} is not of version {VERSION}", "version")
    try:
        return _entry(_unbase64(found.get("packed")), found)
    except DecodeError as error:
        raise _bad(f"line {number}: {error}", error.field, error.reason) from None


def _entry(packed: bytes, said: dict[str, Any]) -> Entry:
    """The entry of a packed message and what is said of it."""
    message = Message.unpack(packed)
    if said.get("id") not in (None, message.id.hex()):
        raise _bad("the id is not that of the message", "id")
    when = said.get("time_unix_s")
    if isinstance(when, bool) or not (when is None or isinstance(when, (int, float))):
        raise _bad("the time is no number", "time_unix_s", "TYPE")
    if isinstance(when, int) and abs(when) >= 1 << 63:
        raise _bad("the time is beyond all time", "time_unix_s")
    return Entry(
        message=message,
        incoming=said.get("incoming") is not False,
        time_unix_s=None if when is None else float(when),
        verified=said.get("verified") is True,
        method=_code(Method, said.get("method"), "method"),
        state=_code(MessageState, said.get("state"), "state"),
    )


def _code(kind: Any, name: Any, field: str) -> Any:
    if name is None:
        return None
    if isinstance(name, str) and name.upper() in kind.__members__:
        return kind[name.upper()]
    raise _bad(f"{str(name)[:40]!r} is no {field}", field)


# ------------------------------------------------------------------------------ mbox

_PART: Final = "application/x-lxmf"
_HOST: Final = "lxmf.invalid"
_UNFOLDED: Final = compat32.clone(max_line_length=0)


def write_mbox(file: IO[bytes], entries: Iterable[Entry]) -> int:
    """Writes an mbox that mail programs can open; how many.

    A message becomes a mail with its text, its attached files, and the whole packed message as
    a part of type ``application/x-lxmf``, which :func:`read_mbox` reads.
    """
    count = 0
    for count, entry in enumerate(entries, 1):  # noqa: B007
        when = entry.message.timestamp if entry.time_unix_s is None else entry.time_unix_s
        sender = _address(entry.message.source_hash)
        file.write(f"From {sender} {_asctime(when)}\n".encode())
        for line in _mail(entry).as_bytes(policy=_UNFOLDED).splitlines():
            file.write((b">" if line.lstrip(b">").startswith(b"From ") else b"") + line + b"\n")
        file.write(b"\n")
    return count


def read_mbox(
    file: IO[bytes], *, entry_max: int = ENTRY_MAX, skip: Skip | None = None
) -> Iterator[Entry]:
    """The entries of an mbox. Mails without an LXMF message are errors.

    Raises:
        DecodeError: As for :func:`read_json`.
    """
    for number, mail in enumerate(_mails(file, entry_max), 1):
        try:
            if mail is None:
                raise _bad(f"mail {number} has more than {entry_max} bytes", reason="LIMIT")
            entry = _entry_of_mail(mail, number)
        except DecodeError as error:
            if skip is None:
                raise
            skip(error)
            continue
        yield entry


def _mail(entry: Entry) -> Mail:
    message = entry.message
    fields = Fields.read(message.fields)
    mail = Mail()
    mail["From"] = _address(message.source_hash)
    mail["To"] = _address(message.destination_hash)
    mail["Date"] = formatdate(_within_time(message.timestamp))
    mail["Subject"] = Header(_one_line(message.title_text), "utf-8").encode()
    mail["Message-ID"] = f"<{message.id.hex()}@{_HOST}>"
    if fields.reply_to is not None:
        mail["In-Reply-To"] = f"<{fields.reply_to.hex()}@{_HOST}>"
    for name, value in entry_json(entry).items():
        if name in ("incoming", "time_unix_s", "verified", "method", "state") and value is not None:
            mail[f"X-LXMF-{name.replace('_', '-').title()}"] = json.dumps(value)
    mail["MIME-Version"] = "1.0"
    mail["Content-Type"] = "multipart/mixed"
    mail.attach(_part("text/plain; charset=utf-8", message.content))
    for file in fields.attachments:
        mail.attach(_part("application/octet-stream", file.data, safe_name(file.name)))
    mail.attach(_part(_PART, message.packed, f"{message.id.hex()}.lxm"))
    return mail


def _part(kind: str, data: bytes, name: str | None = None) -> Mail:
    part = Mail()
    part["Content-Type"] = kind
    part["Content-Transfer-Encoding"] = "base64"
    if name is not None:
        part.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name))
    part.set_payload(base64.encodebytes(data).decode())
    return part


def _mails(file: IO[bytes], entry_max: int) -> Iterator[bytes | None]:
    """The mails of an mbox, without their first line; None for one that is too large."""
    lines: list[bytes] | None = None
    size = 0
    fresh = True  # whether a line begins
    while line := file.readline(min(entry_max, 1 << 16)):
        if fresh and line.startswith(b"From "):
            if lines is not None:
                yield b"".join(lines) if size <= entry_max else None
            lines, size = [], 0
            while line and not line.endswith(b"\n"):
                line = file.readline(1 << 16)
            continue
        if lines is None:
            if line.strip():
                raise _bad("it does not begin with a mail: no line 'From ...'")
            continue
        size += len(line)
        if size > entry_max:
            lines.clear()
        elif fresh and line.startswith(b">") and line.lstrip(b">").startswith(b"From "):
            lines.append(line[1:])
        else:
            lines.append(line)
        fresh = line.endswith(b"\n")
    if lines is not None:
        yield b"".join(lines) if size <= entry_max else None


def _entry_of_mail(data: bytes, number: int) -> Entry:
    try:
        mail = BytesParser(policy=compat32).parsebytes(data)
        packed = next(
            (part.get_payload(decode=True) for part in mail.walk() if _is_message(part)), None
        )
        said = {
            name: _said(mail, f"X-LXMF-{name.replace('_', '-')}")
            for name in ("incoming", "time_unix_s", "verified", "method", "state")
        }
    except (RecursionError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _bad(f"mail {number} is damaged: {error}") from None
    if not isinstance(packed, bytes):
        raise _bad(f"mail {number} has no LXMF message", "packed", "MISSING")
    try:
        return _entry(packed, said)
    except DecodeError as error:
        raise _bad(f"mail {number}: {error}", error.field, error.reason) from None


def _is_message(part: Any) -> bool:
    return bool(part.get_content_type() == _PART)


def _said(mail: Any, name: str) -> Any:
    value = mail.get(name)
    return None if value is None else json.loads(str(value)[:64])


def _address(address: DestinationHash) -> str:
    return f"{bytes(address).hex()}@{_HOST}"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _within_time(when: float) -> float:
    """A time that a calendar has: a peer may write anything."""
    return min(max(when, 0.0), 253_402_300_799.0) if when == when else 0.0


def _asctime(when: float) -> str:
    """As mbox files have it, in English whatever the language of the system."""
    words = formatdate(_within_time(when)).replace(",", "").split()
    day, date, month, year, clock = words[:5]
    return f"{day} {month} {int(date):2d} {clock} {year}"
