"""The command ``netmesh mail``: the messages of a store, listed, searched, taken out and put in."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from netmesh import _cli_mail as mail
from netmesh.errors import DecodeError
from netmesh.mailarchive import (
    Entry,
    entry_json,
    read_json,
    read_mbox,
    write_json,
    write_mbox,
)
from netmesh.mailstore import MailStore, StoredMessage

DESCRIPTION = """\
The messages that a node with storage keeps, beside the running node or without one.

examples:
  netmesh mail list --storage ~/.netmesh --unread
  netmesh mail search --storage ~/.netmesh 'well "next monday" see*'
  netmesh mail conversations --storage ~/.netmesh --json
  netmesh mail export --storage ~/.netmesh --format mbox --out mail.mbox
  netmesh mail import --storage ~/.netmesh mail.jsonl
"""
SEARCH = """\
Finds the messages that have all the words in title or content, newest first. A "phrase" in double
quotes stands together, begin* is any word that begins so; case and accents do not matter.

example:
  netmesh mail search --storage ~/.netmesh 'well "next monday" see*'
"""
EXPORT = """\
Writes messages as JSON lines, which keep everything, or as mbox, which mail programs open too.

examples:
  netmesh mail export --storage ~/.netmesh > mail.jsonl
  netmesh mail export --storage ~/.netmesh --format mbox --out mail.mbox
"""
IMPORT = """\
Stores the messages of a file that 'netmesh mail export' wrote. Those that are there already are
left as they are; entries that are damaged are passed over and told of.

exit status: 0 when every entry was stored or there already, else 1.

examples:
  netmesh mail import --storage ~/.netmesh mail.jsonl
  netmesh mail import --storage ~/.netmesh --format mbox < mail.mbox
"""


def main(arguments: list[str]) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="netmesh mail",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="list|conversations|search|export|import"
    )
    made = {}
    for name, (_, text, description) in COMMANDS.items():
        made[name] = commands.add_parser(
            name,
            help=text,
            description=description or text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _options(name, made[name])
    options = parser.parse_args(arguments)
    work = COMMANDS[options.command][0]
    return mail.run_command(made[options.command], lambda: work(options))


def _options(name: str, parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--storage", metavar="DIR", help="a node's storage")
    where.add_argument("--file", metavar="FILE", help="or the store itself: mail.db of a storage")
    address: dict[str, Any] = {"type": mail.address, "metavar": "ADDRESS"}
    if name != "import":
        add("--mailbox", help="of this mailbox alone", **address)
    if name in ("list", "export"):
        add("--peer", help="from or to this address alone", **address)
        add(
            "--direction",
            choices=("both", "incoming", "outgoing"),
            default="both",
            help="those that came, or those that were sent",
        )
    if name == "list":
        add("--unread", action="store_true", help="those that nobody has read")
    if name in ("list", "conversations", "search"):
        add("--limit", type=_limit, default=50, metavar="N", help="at most so many (50)")
        add("--json", action="store_true", help="prints one JSON object a line")
    if name == "search":
        add("words", nargs="+", metavar="WORD", help="what to look for: see above")
    if name in ("export", "import"):
        add("--format", choices=("json", "mbox"), default="json", help="of the file (json)")
    if name == "export":
        add("--out", metavar="FILE", help="a new file; standard output without it")
    if name == "import":
        add("archive", nargs="?", metavar="FILE", help="standard input without it")
        add("--unread", action="store_true", help="stores them as unread")
        add("--json", action="store_true", help="prints one JSON object")


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000000")
    return int(text)


@contextmanager
def _store(options: argparse.Namespace, *, create: bool = False) -> Iterator[MailStore]:
    path = options.file or Path(options.storage, "mail.db")
    with MailStore(path, create=create) as store:
        yield store


def _entry(stored: StoredMessage) -> Entry:
    assert stored.message is not None  # bodies were asked for
    return Entry(
        message=stored.message,
        incoming=stored.incoming,
        time_unix_s=stored.stored_unix_s,
        verified=stored.verified,
        method=stored.method,
        state=stored.state,
    )


def list_messages(options: argparse.Namespace) -> int:
    """Lists messages, newest first."""
    with _store(options) as store:
        for stored in store.messages(
            mailbox=options.mailbox,
            peer=options.peer,
            direction=options.direction,
            unread=options.unread,
            newest_first=True,
            limit=options.limit,
        ):
            entry = _entry(stored)
            if options.json:
                more = {"row": stored.row, "unread": stored.unread}
                mail.print_json(entry_json(entry) | more)
            else:
                print(f"{mail.entry_text(entry)}\n")
    return 0


def conversations(options: argparse.Namespace) -> int:
    """Lists conversations, the latest first."""
    with _store(options) as store:
        for each in islice(store.conversations(mailbox=options.mailbox), options.limit):
            if options.json:
                mail.print_json(
                    {
                        "mailbox": bytes(each.mailbox).hex(),
                        "peer": bytes(each.peer).hex(),
                        "messages": each.messages,
                        "unread": each.unread,
                        "last_unix_s": each.last_unix_s,
                    }
                )
            else:
                unread = f", {each.unread} unread" if each.unread else ""
                print(
                    f"{mail.when(each.last_unix_s)}  {bytes(each.mailbox).hex()} with "
                    f"{bytes(each.peer).hex()}: {each.messages} messages{unread}"
                )
    return 0


def search(options: argparse.Namespace) -> int:
    """Finds messages by their words."""
    with _store(options) as store:
        for hit in store.search(
            " ".join(options.words), mailbox=options.mailbox, limit=options.limit
        ):
            found = hit.message
            if options.json:
                mail.print_json(
                    {
                        "row": found.row,
                        "id": found.id.hex(),
                        "mailbox": bytes(found.mailbox).hex(),
                        "peer": bytes(found.peer).hex(),
                        "incoming": found.incoming,
                        "verified": found.verified,
                        "timestamp": found.timestamp,
                        "title": hit.title,
                        "snippet": hit.snippet,
                    }
                )
            else:
                way = "from" if found.incoming else "to"
                words = " ".join(mail.clean(f"{hit.title}  {hit.snippet}").split())
                print(f"{mail.when(found.timestamp)}  {way} {bytes(found.peer).hex()}\n  {words}")
    return 0


def export(options: argparse.Namespace) -> int:
    """Writes messages to a file."""
    write = write_json if options.format == "json" else write_mbox
    with _store(options) as store:
        entries = store.entries(
            mailbox=options.mailbox, peer=options.peer, direction=options.direction
        )
        if options.out is None:
            write(sys.stdout.buffer, entries)
            sys.stdout.buffer.flush()
            return 0
        with open(options.out, "xb") as file:
            count = write(file, entries)
    print(f"{count} messages written to {options.out}")
    return 0


def import_(options: argparse.Namespace) -> int:
    """Stores the messages of a file."""
    if options.archive is None:
        return _import(sys.stdin.buffer, options)
    with open(options.archive, "rb") as file:
        return _import(file, options)


def _import(file: IO[bytes], options: argparse.Namespace) -> int:
    damaged: list[DecodeError] = []

    def skip(error: DecodeError) -> None:
        damaged.append(error)
        print(f"netmesh mail import: passed over: {error}", file=sys.stderr)

    read = read_json if options.format == "json" else read_mbox
    with _store(options, create=True) as store:
        done = store.load(read(file, skip=skip), acknowledged=not options.unread)
    if options.json:
        mail.print_json(
            {
                "added": done.added,
                "duplicates": done.duplicates,
                "refused": done.refused,
                "damaged": len(damaged),
            }
        )
    else:
        print(
            f"{done.added} messages stored, {done.duplicates} were there already, "
            f"{done.refused} without room, {len(damaged)} damaged"
        )
    return 1 if damaged or done.refused else 0


COMMANDS = {
    "list": (list_messages, "lists messages, newest first", ""),
    "conversations": (conversations, "lists conversations, the latest first", ""),
    "search": (search, "finds messages by their words", SEARCH),
    "export": (export, "writes messages to a file", EXPORT),
    "import": (import_, "stores the messages of a file", IMPORT),
}
