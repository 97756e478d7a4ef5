"""What the commands around messages share: options, addresses, people's text, failures."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from netmesh._core import DestinationHash, Identity
from netmesh.errors import NetmeshError
from netmesh.lxmf.fields import Attachment, Audio, Fields, Image, safe_name
from netmesh.mailarchive import Entry, entry_json

ATTACHMENT_MAX = 64 << 20


class Failure(Exception):  # noqa: N818
    """The command cannot do what it says; the text is for standard error."""


def fail(text: str) -> NoReturn:
    """Ends the command with status 1 and a sentence."""
    raise Failure(text)


def run_command(parser: argparse.ArgumentParser, work: Callable[[], int]) -> int:
    """Runs the body of a command; what went wrong becomes one line and status 1."""
    try:
        return work()
    except (Failure, NetmeshError, OSError) as error:
        print(f"{parser.prog}: {_sentence(error)}", file=sys.stderr)
        return 1


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def is_address(text: str) -> bool:
    """Whether it is written like an address, not like a file."""
    return len(text) == 32 and all(letter in "0123456789abcdefABCDEF" for letter in text)


def address(text: str) -> DestinationHash:
    """An LXMF address of a command line: 32 hexadecimal digits, in <> or not."""
    bare = text.strip().removeprefix("<").removesuffix(">")
    if not is_address(bare):
        raise argparse.ArgumentTypeError(f"{text!r} is no address: 32 hexadecimal digits")
    return DestinationHash(bytes.fromhex(bare))


def count(text: str) -> int:
    """A number of messages: above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def load_identity(path: str) -> Identity:
    """The identity of a file with private keys."""
    return Identity.load(path)


def words(given: list[str]) -> bytes:
    """The text of a message: what the command line says, or standard input without words."""
    if given and given != ["-"]:
        return " ".join(given).encode("utf-8", "surrogateescape")
    return sys.stdin.buffer.read()


def attachment(path: str) -> Attachment:
    """A file to be sent."""
    data = Path(path).read_bytes()
    if len(data) > ATTACHMENT_MAX:
        fail(f"{path}: an attached file may have {ATTACHMENT_MAX >> 20} MiB")
    return Attachment(Path(path).name, data)


def print_json(record: Any) -> None:
    """One object on a line of its own, told at once."""
    print(json.dumps(record, ensure_ascii=False), flush=True)


# -------------------------------------------------------------- messages for people


def clean(text: str) -> str:
    """A peer's text without what could drive a terminal; lines and tabs stay."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in text.replace("\r\n", "\n")
    )


def when(unix_s: float) -> str:
    """A time for people; peers may write times that no calendar has."""
    try:
        return datetime.datetime.fromtimestamp(unix_s).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


def entry_text(entry: Entry) -> str:
    """A message as people read it: a line about it, its words, and what is attached."""
    message = entry.message
    peer = message.source_hash if entry.incoming else message.destination_hash
    head = f"{when(message.timestamp)}  {'from' if entry.incoming else 'to'} {bytes(peer).hex()}"
    if entry.incoming and not entry.verified:
        head += "  (NOT VERIFIED)"
    if entry.state is not None:
        head += f"  ({entry.state.name.lower()})"
    lines = [head]
    if message.title:
        lines.append(f"  {' '.join(clean(message.title_text).split())}")
    lines += [f"  {line}" for line in clean(message.content_text).splitlines()]
    return "\n".join([*lines, *(f"  {line}" for line in _beside(Fields.read(message.fields)))])


def _beside(fields: Fields) -> list[str]:
    """One line for each thing that a message carries beside its words."""
    lines = [
        f"[file {safe_name(each.name)}, {len(each.data)} bytes]" for each in fields.attachments
    ]
    if isinstance(fields.image, Image):
        kind = safe_name(fields.image.format)
        lines.append(f"[image {kind}, {len(fields.image.data)} bytes]")
    if isinstance(fields.audio, Audio):
        lines.append(f"[audio {fields.audio.codec}, {len(fields.audio.data)} bytes]")
    if fields.reply_to is not None:
        lines.append(f"[answers {fields.reply_to.hex()}]")
    if fields.reaction is not None:
        target = fields.reaction.message_id.hex()
        lines.append(f"[reacts {_short(fields.reaction.text)} to {target}]")
    if fields.telemetry is not None:
        lines.append("[telemetry]")
    lines += [f"[command {_short(str(each.id))}]" for each in fields.commands]
    return lines


def _short(text: str) -> str:
    return " ".join(clean(text).split())[:40]


def show(entry: Entry, *, as_json: bool) -> None:
    """Prints a message, as JSON or for people."""
    if as_json:
        print_json(entry_json(entry))
    else:
        print(entry_text(entry), flush=True)


def save_attachments(entry: Entry, folder: str) -> list[str]:
    """Writes the attached files into a folder, under names that were not there; the paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    saved = []
    for file in Fields.read(entry.message.fields).attachments:
        saved.append(str(_write_new(Path(folder), safe_name(file.name), file.data)))
    return saved


def _write_new(folder: Path, name: str, data: bytes) -> Path:
    stem, suffix = Path(name).stem[:100], Path(name).suffix[:20]
    for number in range(1, 10_000):
        path = folder / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            continue
        return path
    fail(f"{folder}: there are too many files called {name}")
