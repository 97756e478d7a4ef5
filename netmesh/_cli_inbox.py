"""The command ``netmesh inbox``: messages as they come."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from netmesh import _cli_mail as mail
from netmesh import _cli_node
from netmesh.mailarchive import Entry, entry_json
from netmesh.messaging import Mailbox

DESCRIPTION = """\
Shows the messages that come to an address, as they come, until Ctrl-C.

A message whose signature is not verified is marked so: anyone may have written it.

examples:
  netmesh inbox --storage ~/.netmesh --name Bob
  netmesh inbox --identity me.identity --connect hub.example:4242 --json | jq .content
  netmesh inbox --storage ~/.netmesh --count 1 --timeout 60 --save downloads

exit status: 0 after --count messages, or when --timeout has passed without --count; 1 when it has
passed before; 130 after Ctrl-C.
"""


def main(arguments: list[str]) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="netmesh inbox",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--count", type=_count, metavar="N", help="ends after that many messages")
    add("--timeout", type=_cli_node.seconds, metavar="SECONDS", help="ends then")
    add("--save", metavar="DIR", help="writes attached files into this folder")
    add("--json", action="store_true", help="prints one JSON object a line for each message")
    _cli_node.add_options(parser)
    options = parser.parse_args(arguments)
    _cli_node.check(parser, options)
    return mail.run_command(parser, lambda: _cli_node.run(show(options)))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


async def show(options: argparse.Namespace) -> int:
    """Shows messages."""
    async with _cli_node.opened(options) as mailbox:
        print(f"messages to {bytes(mailbox.hash).hex()}", file=sys.stderr, flush=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(options.timeout):
                return await _show(mailbox, options)
    if options.count is not None:
        mail.fail(f"{options.count} messages did not come within {options.timeout:g} s")
    return 0


async def _show(mailbox: Mailbox, options: argparse.Namespace) -> int:
    shown = 0
    async for received in mailbox:
        entry = Entry.of(received)
        saved = []
        if options.save:
            saved = await asyncio.to_thread(mail.save_attachments, entry, options.save)
        if options.json:
            mail.print_json(entry_json(entry) | ({"saved": saved} if options.save else {}))
        else:
            mail.show(entry, as_json=False)
            print("".join(f"  saved {path}\n" for path in saved), flush=True)
        shown += 1
        if shown == options.count:
            break
    return 0
