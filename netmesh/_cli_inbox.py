"""The command ``netmesh inbox``: messages as they come."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Coroutine
from typing import Final

from netmesh import _cli_fetch, _cli_node
from netmesh import _cli_mail as mail
from netmesh._cli_fetch import Fetcher
from netmesh.constants import Method
from netmesh.mailarchive import Entry, entry_json
from netmesh.messaging import Mailbox, MessageReceived
from netmesh.node import Node

HELD_BACK_S: Final = 15.0
QUIET_S: Final = 1.0
WATCH_S: Final = 0.05

DESCRIPTION = """\
Shows the messages that come to an address, as they come, until Ctrl-C.

A message whose signature is not verified is marked so: anyone may have written it. With --sync what
a propagation node keeps for the address is fetched first.

examples:
  netmesh inbox --storage ~/.netmesh --name Bob
  netmesh inbox --identity me.identity --connect hub.example:4242 --json | jq .content
  netmesh inbox --storage ~/.netmesh --count 1 --timeout 60 --save downloads
  netmesh inbox --storage ~/.netmesh --connect hub.example:4242 --sync auto --once

exit status: 0 after --count messages; without --count after --timeout or --once, unless the last
fetch was not complete; 1 when not; 130 after Ctrl-C.
"""


def main(arguments: list[str]) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="netmesh inbox",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--count", type=mail.count, metavar="N", help="ends after that many messages")
    add("--timeout", type=_cli_node.seconds, metavar="SECONDS", help="ends then")
    add("--save", metavar="DIR", help="writes attached files into this folder")
    add("--progress", action="store_true", help="tells how far large messages on their way are")
    add("--json", action="store_true", help="prints one JSON object a line for each message")
    _cli_fetch.add_options(parser)
    _cli_node.add_options(parser)
    options = parser.parse_args(arguments)
    _cli_node.check(parser, options)
    _cli_fetch.check(parser, options)
    return mail.run_command(parser, lambda: _cli_node.run(show(options)))


async def show(options: argparse.Namespace) -> int:
    """Shows messages."""
    async with _cli_node.opened(options) as (node, mailbox):
        print(f"messages to {bytes(mailbox.hash).hex()}", file=sys.stderr, flush=True)
        viewer = Viewer(mailbox, options)
        fetcher = None if options.sync is False else Fetcher(node, mailbox, options)
        watch = _watch(node, as_json=options.json) if options.progress else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(options.timeout):
                await _work(viewer, fetcher, watch, once=options.once)
    if options.count is not None:
        if viewer.shown < options.count:
            within = "" if options.timeout is None else f" within {options.timeout:g} s"
            mail.fail(f"{options.count} messages did not come{within}")
    elif fetcher is not None and not fetcher.ok:
        mail.fail(fetcher.failed or "the time was over before the fetch")
    return 0


async def _work(
    viewer: Viewer,
    fetcher: Fetcher | None,
    watch: Coroutine[None, None, None] | None,
    *,
    once: bool,
) -> None:
    """Shows what comes, and fetches beside that, until one of them is the end."""
    reading = asyncio.create_task(viewer.read())
    jobs: set[asyncio.Task[None]] = {reading}
    watching = None if watch is None else asyncio.create_task(watch)
    if fetcher is not None:
        jobs.add(asyncio.create_task(_fetch(viewer, fetcher, once=once)))
    try:
        done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        for job in done:
            job.result()
        if not once:
            await reading
    finally:
        jobs |= set() if watching is None else {watching}
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


async def _fetch(viewer: Viewer, fetcher: Fetcher, *, once: bool) -> None:
    """Fetches; ``once``: until all of it is shown."""
    result = await fetcher.run()
    if once:
        await viewer.settled(0 if result is None else result.received)


async def _watch(node: Node, *, as_json: bool) -> None:
    """Tells how far resources on their way in are, each tenth once."""
    told: dict[int, int] = {}
    while True:
        coming = {each.op: each for each in await node.transfers() if not each.outgoing}
        for op, record in coming.items():
            tenth = int(record.progress * 10)
            if told.get(op) == tenth or not record.content_bytes:
                continue
            told[op] = tenth
            if as_json:
                size = {"size_bytes": record.content_bytes, "done_bytes": record.content_done}
                mail.print_json({"transfer": {"number": op, **size}})
            else:
                text = f"receiving {record.content_bytes} bytes: {record.progress:.0%}"
                print(text, file=sys.stderr, flush=True)
        told = {op: tenth for op, tenth in told.items() if op in coming}
        await asyncio.sleep(WATCH_S)


class Viewer:
    """Shows messages as they come."""

    def __init__(self, mailbox: Mailbox, options: argparse.Namespace) -> None:
        self._mailbox = mailbox
        self._options = options
        self._news = asyncio.Event()
        self._busy = False
        self._fetched = 0
        self.shown = 0

    async def read(self) -> None:
        """Shows messages until there were as many as asked for."""
        while self.shown != self._options.count:
            received = await self._mailbox.get()
            self._busy = True
            await self._show(received)
            await received.ack()
            self.shown += 1
            self._fetched += received.method is Method.PROPAGATED
            self._busy = False
            self._news.set()

    async def _show(self, received: MessageReceived) -> None:
        entry = Entry.of(received)
        saved = []
        if self._options.save:
            saved = await asyncio.to_thread(mail.save_attachments, entry, self._options.save)
        if self._options.json:
            mail.print_json(entry_json(entry) | ({"saved": saved} if self._options.save else {}))
        else:
            mail.show(entry, as_json=False)
            print("".join(f"  saved {path}\n" for path in saved), flush=True)

    async def settled(self, fetched: int) -> None:
        """Waits until so many from a node were shown, and then until nothing more waits.

        Some may be held back while the keys of their senders are looked for.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELD_BACK_S):
                while self._fetched < fetched:
                    await self._more()
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._more()
            except TimeoutError:
                if not self._busy:
                    return

    async def _more(self) -> None:
        await self._news.wait()
        self._news.clear()
