"""The command ``netmesh paper``: messages as URIs and QR codes, made and read."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

from netmesh import _cli_mail as mail
from netmesh import paper
from netmesh._core import Identity, Message, Ratchets, delivery_hash, paper_uri_unpack
from netmesh.constants import Method
from netmesh.errors import AuthenticationError
from netmesh.lxmf import fields
from netmesh.mailarchive import Entry, entry_json
from netmesh.mailstore import MailStore
from netmesh.node import Node

MAKE = """\
Makes a paper message: a URI that begins with lxm:// and that its recipient alone can read. It
needs no network, and fits a QR code. Print it, show it, or send it by any other way.

The recipient is a file with its public key (Identity.save_public), or an address that the
node of --storage has heard of.

examples:
  netmesh paper make --identity me.identity --to bob.public "See you at the well."
  netmesh paper make --storage ~/.netmesh --to 4faf1b2e0a077e6a9d92fa051f256038 --qr Hello
  date | netmesh paper make --identity me.identity --to bob.public --png note.png
"""
READ = """\
Reads a paper message: decodes a URI and shows the message. Without one on the command line it is
read from standard input, such as from a QR scanner.

examples:
  netmesh paper read --identity bob.identity 'lxm://...'
  zbarimg --raw -q note.png | netmesh paper read --identity bob.identity --json

exit status: 0 when the message was opened, 1 when it is damaged or for someone else. A message
whose sender is not known is shown, and marked as not verified.
"""


def main(arguments: list[str]) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="netmesh paper",
        description="Messages on paper: makes and reads lxm:// URIs and QR codes.",
        epilog="'netmesh paper make --help' and 'netmesh paper read --help' tell more.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="make|read")
    make_parser, read_parser = (
        commands.add_parser(
            name,
            help=text,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, text, description in (
            ("make", "makes a paper message", MAKE),
            ("read", "reads a paper message", READ),
        )
    )
    _make_options(make_parser)
    _read_options(read_parser)
    options = parser.parse_args(arguments)
    if options.command == "make":
        return mail.run_command(make_parser, lambda: make(options))
    return mail.run_command(read_parser, lambda: read(options))


def _make_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", nargs="*", help="the content; standard input without it, or with -")
    add("--to", required=True, metavar="FILE|ADDRESS", help="who it is for: see above")
    _who(parser, "who it is from")
    add("--title", default="", help="its title")
    add("--attach", action="append", default=[], metavar="FILE", help="attaches a small file")
    add("--qr", action="store_true", help="also shows a QR code on the terminal")
    add("--dark-on-light", action="store_true", help="the terminal writes dark on light")
    add("--png", metavar="FILE", help="also writes the QR code as a PNG image")
    add("--scale", type=int, default=4, metavar="PIXELS", help="size of its modules (4)")
    add("--json", action="store_true", help="prints one JSON object")


def _read_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("uri", nargs="?", default="-", help="the URI; standard input without it, or with -")
    _who(parser, "who it is for")
    add("--ratchets", metavar="FILE", help="the recipient's ratchets (Ratchets.dump)")
    add("--sender", metavar="FILE", help="the sender's public key, to verify the message")
    add("--keep", action="store_true", help="stores the message as unread in --storage")
    add("--save", metavar="DIR", help="writes attached files into this folder")
    add("--json", action="store_true", help="prints one JSON object")


def _who(parser: argparse.ArgumentParser, text: str) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--identity", metavar="FILE", help=f"{text}: a file with private keys")
    group.add_argument(
        "--storage", metavar="DIR", help=f"{text}: the identity of a node's storage folder"
    )


def _own(options: argparse.Namespace) -> Identity:
    path = options.identity or Path(options.storage, "identity")
    return Identity.load(path)


def make(options: argparse.Namespace) -> int:
    """Makes a paper message."""
    if not 1 <= options.scale <= 100:
        mail.fail("--scale is 1 to 100")
    source = _own(options)
    recipient = _recipient(options.to, options.storage)
    files = [mail.attachment(path) for path in options.attach]
    message = Message.create(
        source,
        delivery_hash(recipient),
        mail.words(options.text),
        title=options.title,
        fields=fields.build(attachments=files),
    )
    uri = paper.write(message, recipient)
    if options.png:
        paper.qr_code(uri).save(options.png, scale=options.scale)
    code = paper.qr_code(uri) if options.qr else None
    if options.json:
        mail.print_json(
            {
                "uri": uri,
                "id": message.id.hex(),
                "transient_id": paper_uri_unpack(uri).transient_id.hex(),
                "source": bytes(message.source_hash).hex(),
                "destination": bytes(message.destination_hash).hex(),
                "png": options.png,
                "qr": None
                if code is None
                else code.text(dark_on_light=options.dark_on_light).splitlines(),
            }
        )
        return 0
    if code is not None:
        _show_code(code, options.dark_on_light)
    print(uri)
    return 0


def _show_code(code: paper.QRCode, dark_on_light: bool) -> None:
    columns = shutil.get_terminal_size().columns
    if sys.stdout.isatty() and columns < code.width:
        mail.fail(
            f"the code needs {code.width} columns and the terminal has {columns}: "
            "make it wider, or write an image with --png FILE"
        )
    print(code.text(dark_on_light=dark_on_light))


def _recipient(to: str, storage: str | None) -> Identity:
    """The public identity of an address or a file."""
    if not mail.is_address(to) or Path(to).exists():
        return Identity.load_public(to)
    if storage is None:
        mail.fail(f"{to} is an address: name the storage of a node that knows it with --storage")
    found = asyncio.run(_recall(storage, to))
    if found is None:
        mail.fail(f"the node of {storage} does not know {to}: it has heard no announce of it")
    return found


async def _recall(storage: str, text: str) -> Identity | None:
    """Who is behind an address, as a node without a network remembers it."""
    async with Node(storage=storage, shared_instance=False) as node:
        recalled = await node.recall(mail.address(text))
    return None if recalled is None else recalled.identity


def read(options: argparse.Namespace) -> int:
    """Reads a paper message."""
    if options.keep and not options.storage:
        mail.fail("--keep stores the message in a node's storage: name it with --storage")
    recipient = _own(options)
    ratchets: tuple[bytes, ...] = ()
    if options.ratchets:
        ratchets = Ratchets.load(Path(options.ratchets).read_bytes(), recipient).private_keys
    uri = options.uri if options.uri != "-" else sys.stdin.read(1 << 16)
    try:
        message = paper.read(uri.strip(), recipient, ratchets=ratchets)
    except AuthenticationError:
        mail.fail("it cannot be opened: it is for someone else, damaged, or needs older ratchets")
    entry = Entry(message=message, method=Method.PAPER, verified=_verified(message, options))
    kept = options.keep and _keep(options.storage, entry)
    if options.save:
        saved = mail.save_attachments(entry, options.save)
    if options.json:
        record: dict[str, Any] = entry_json(entry)
        record |= {"kept": kept} if options.keep else {}
        mail.print_json(record | ({"saved": saved} if options.save else {}))
        return 0
    mail.show(entry, as_json=False)
    if options.keep:
        print("  stored" if kept else "  stored before")
    if options.save:
        print("\n".join(f"  saved {path}" for path in saved))
    return 0


def _keep(storage: str, entry: Entry) -> bool:
    """Stores a message; False when it is there already."""
    with MailStore(Path(storage, "mail.db")) as store:
        return store.load([entry], acknowledged=False).added > 0


def _verified(message: Message, options: argparse.Namespace) -> bool:
    """Whether the message is by the sender that is named, or that the node remembers."""
    if options.sender:
        return message.verify(Identity.load_public(options.sender))
    if options.storage:
        sender = asyncio.run(_recall(options.storage, bytes(message.source_hash).hex()))
        return sender is not None and message.verify(sender)
    return False
