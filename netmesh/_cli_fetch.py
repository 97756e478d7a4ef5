"""Fetching from a propagation node for a command: which one, how far it is, and how it ended."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from typing import Any, Final

from netmesh import _cli_mail as mail
from netmesh import _cli_node
from netmesh._core import DestinationHash, Identity, destination_hash
from netmesh.constants import SyncState
from netmesh.errors import DecodeError
from netmesh.lxmf import PropagationAppData
from netmesh.messaging import Mailbox, SyncResult
from netmesh.node import Node

__all__ = ["Fetcher", "add_options", "check", "nearest", "node_or_auto"]

NAME: Final = "lxmf.propagation"
FETCH_S: Final = 120.0
LOOK_S: Final = 0.1

GROUP = """\
A propagation node keeps messages for those who are not there. What comes from it is shown like
all else; the node deletes what it has given, unless told to retain it.
"""


def node_or_auto(text: str) -> DestinationHash | None:
    """A node's address, or None for ``auto``."""
    return None if text == "auto" else mail.address(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where to fetch from, and how often."""
    group = parser.add_argument_group("propagation node", GROUP)
    add = group.add_argument
    add(
        "--sync",
        type=node_or_auto,
        default=False,
        metavar="NODE",
        help="fetches what this node keeps; auto: the nearest that was heard of",
    )
    add("--once", action="store_true", help="ends when that was shown")
    add("--every", type=_cli_node.seconds, metavar="SECONDS", help="fetches again and again")
    add("--limit", type=mail.count, metavar="N", help="fetches at most that many at once")
    add("--retain", action="store_true", help="leaves them on the node, for other devices")
    add(
        "--fetch-timeout",
        type=_cli_node.seconds,
        metavar="SECONDS",
        help=f"gives a fetch up then ({FETCH_S:g})",
    )


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends with status 2 when the options do not fit together."""
    if options.once and options.every is not None:
        parser.error("--once and --every exclude each other")
    if options.sync is False:
        for name in ("once", "every", "limit", "retain", "fetch_timeout"):
            if getattr(options, name) not in (None, False):
                parser.error(f"--{name.replace('_', '-')} needs --sync")


async def nearest(node: Node) -> DestinationHash | None:
    """The active propagation node with the fewest hops; of several the one heard last."""
    hops = {bytes(path.destination): path.hops for path in await node.paths()}
    best: tuple[int, float] | None = None
    found: DestinationHash | None = None
    for record in await node.known():
        owner = Identity.from_public(record.public_key)
        if record.destination != destination_hash(owner.hash, NAME):
            continue
        if not _is_active(record.app_data):
            continue
        rank = (hops.get(bytes(record.destination), 128), -record.heard_unix_s)
        if best is None or rank < best:
            best, found = rank, record.destination
    return found


def _is_active(app_data: bytes | None) -> bool:
    with contextlib.suppress(DecodeError):
        return PropagationAppData.unpack(app_data or b"").active
    return False


class Fetcher:
    """Fetches for a mailbox as a command's options say.

    Tells of it on standard error, or with --json as objects on standard output.
    """

    def __init__(self, node: Node, mailbox: Mailbox, options: argparse.Namespace) -> None:
        self._node = node
        self._mailbox = mailbox
        self._options = options
        self._timeout: float = options.fetch_timeout or FETCH_S
        self.ok = False
        """Whether the last one was complete."""
        self.failed = ""
        """Why not; empty when none has ended."""

    async def run(self) -> SyncResult | None:
        """Fetches once, or again and again; how the last one ended, None: there was no node."""
        while True:
            result = await self._fetch()
            if self._options.every is None:
                return result
            await asyncio.sleep(self._options.every)

    async def _fetch(self) -> SyncResult | None:
        asked = self._options.sync
        loop = asyncio.get_running_loop()
        until = loop.time() + self._timeout
        chosen = asked if asked is not None else await self._find()
        if chosen is None:
            self.ok = False
            self.failed = f"no propagation node was heard of within {self._timeout:g} s"
            self._say({"ok": False, "reason": "NO_NODE"}, self.failed)
            return None
        watch = asyncio.create_task(self._watch(chosen))
        try:
            result = await self._mailbox.sync(
                chosen,
                limit=self._options.limit,
                retain=self._options.retain,
                timeout=max(until - loop.time(), LOOK_S),
            )
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        self._ended(result)
        return result

    async def _find(self) -> DestinationHash | None:
        """The nearest node, once one is known."""
        heard = self._node.announces(NAME, path_responses=True)
        try:
            found = await nearest(self._node)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout):
                    while found is None:
                        await heard.get()
                        found = await nearest(self._node)
        finally:
            heard.close()
        return found

    async def _watch(self, node: DestinationHash) -> None:
        """Tells how far it is, each state and each tenth once."""
        before: tuple[SyncState, int] = (SyncState.IDLE, -1)
        while True:
            state, progress = self._mailbox.sync_state, self._mailbox.sync_progress
            now = (state, int(progress * 10))
            if now != before and SyncState.IDLE < state < SyncState.COMPLETE:
                before = now
                share = f" {progress:.0%}" if state is SyncState.RECEIVING else ""
                self._say(
                    {"node": bytes(node).hex(), "state": _name(state), "progress": progress},
                    f"fetching from {bytes(node).hex()}: {_words(state)}{share}",
                )
            await asyncio.sleep(LOOK_S)

    def _ended(self, result: SyncResult) -> None:
        node = bytes(result.node).hex()
        told = {
            "node": node,
            "ok": result.ok,
            "state": _name(result.state),
            "reason": result.reason,
            "received": result.received,
            "duplicates": result.duplicates,
            "duration_s": round(result.duration_s, 3),
        }
        self.ok = result.ok
        if result.ok:
            known = f", {result.duplicates} known before" if result.duplicates else ""
            self._say(told, f"fetched {result.received} from {node}{known}")
        else:
            self.failed = f"the fetch from {node} ended: {result.reason}"
            self._say(told, self.failed)

    def _say(self, record: dict[str, Any], text: str) -> None:
        if self._options.json:
            mail.print_json({"fetch": record})
        else:
            print(text, file=sys.stderr, flush=True)


def _name(state: SyncState) -> str:
    return state.name.lower()


def _words(state: SyncState) -> str:
    return _name(state).replace("_", " ")
