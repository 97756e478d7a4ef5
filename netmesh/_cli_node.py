"""What the commands that need a network share: who they are, and how they are connected."""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import signal
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

from netmesh import _cli_mail as mail
from netmesh._core import Identity
from netmesh.errors import SendError
from netmesh.interfaces import AutoInterface, InterfaceOptions, TCPClient, TCPServer
from netmesh.messaging import Mailbox
from netmesh.node import Node

CONNECT_S: Final = 20.0
RETRY_S: Final = 0.1

NETWORK = """\
Without --connect, --listen and --auto it attaches to the Reticulum instance that runs on this
machine, an rnsd for one.
"""


def endpoint(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 address is written in brackets."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:\s]*)):(\d{1,5})", text)
    if found is None or int(found[3]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT")
    return found[1] or found[2], int(found[3])


def seconds(text: str) -> float:
    """A time-out: above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def cost(text: str) -> int:
    """A stamp cost."""
    if not text.isdecimal() or not 1 <= int(text) <= 254:
        raise argparse.ArgumentTypeError(f"{text!r} is no stamp cost: 1 to 254")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Who it is, and how it is connected."""
    add = parser.add_argument
    add("--storage", metavar="DIR", help="a node's storage: its identity, and who it has heard of")
    add("--identity", metavar="FILE", help="a file with private keys; of --storage unless given")
    add("--name", metavar="TEXT", help="the display name that is announced")
    add("--no-announce", action="store_true", help="does not announce the own address first")
    way = parser.add_argument_group("network", NETWORK)
    add = way.add_argument
    point: dict[str, Any] = {"action": "append", "default": [], "type": endpoint}
    add("--connect", metavar="HOST:PORT", help="connects to a TCP server; repeatable", **point)
    add("--listen", metavar="HOST:PORT", help="is a TCP server; repeatable", **point)
    add("--auto", action="store_true", help="finds the nodes of the local network")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends with status 2 when nobody is named."""
    if options.storage is None and options.identity is None:
        parser.error("say who you are: --identity FILE or --storage DIR")


@asynccontextmanager
async def opened(options: argparse.Namespace) -> AsyncIterator[tuple[Node, Mailbox]]:
    """A node of a command's own, and the mailbox on it."""
    identity = None if options.identity is None else Identity.load(options.identity)
    interfaces: list[InterfaceOptions] = [TCPClient(*each) for each in options.connect]
    interfaces += [TCPServer(*each) for each in options.listen]
    interfaces += [AutoInterface()] if options.auto else []
    shared: Literal["auto", False] = False if interfaces else "auto"
    async with Node(
        None if options.storage else identity,
        storage=options.storage,
        interfaces=interfaces,
        shared_instance=shared,
    ) as node:
        if not node.interfaces():
            mail.fail(
                "there is no network: no Reticulum instance runs on this machine; "
                "use --connect, --listen or --auto"
            )
        mailbox = await node.lxmf(identity, display_name=options.name)
        if not options.no_announce:
            await _announce(mailbox)
        yield node, mailbox


async def _announce(mailbox: Mailbox) -> None:
    """Announces it as soon as an interface is connected."""
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            await mailbox.announce()
        except SendError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(RETRY_S)
        else:
            return


def run(work: Coroutine[Any, Any, int]) -> int:
    """Runs a command's coroutine; Ctrl-C and SIGTERM cancel it, and everything is closed."""

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
        try:
            return await work
        except asyncio.CancelledError:
            if not interrupted:
                raise
            task.uncancel()
            return 130
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    return asyncio.run(main())
