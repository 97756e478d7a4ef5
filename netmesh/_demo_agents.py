"""The end of the demo: agents in processes of their own, and an upstream one, on one mesh.

Alice and Bob are nodes of netmesh (``_demo_agent.py``), Carol is ``rns`` and ``lxmf``
(``_demo_peer.py``). Each has a TCP connection to each other. They hear of each other, send
messages, call each other and send files, which are verified.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netmesh._demo_exchange import UpstreamPeer
from netmesh._demo_process import Companion, ExchangeError

FILE_BYTES = 16 << 20
UPSTREAM_FILE_BYTES = 4 << 20
BAR_CELLS = 32
MIB = 1 << 20

Report = Callable[[str, float], None]
"""Prints a line that is led by a time in seconds."""


class Agent(Companion):
    """The process of an agent of netmesh; ``ports`` are those that it connects to."""

    def __init__(self, name: str, ports: Sequence[int] = ()) -> None:
        super().__init__(name)
        self.name = name
        self._ports = ports

    def command_line(self) -> Sequence[str]:
        """The module beside this one, of this same netmesh."""
        root = str(Path(__file__).resolve().parents[1])
        start = (
            f"import sys; sys.path.insert(0, {root!r}); import asyncio; "
            "from netmesh._demo_agent import run; "
            "sys.exit(asyncio.run(run(sys.argv[1], [int(port) for port in sys.argv[2:]])))"
        )
        return [sys.executable, "-c", start, self.name, *map(str, self._ports)]


@dataclass(frozen=True, slots=True)
class Member:
    """One of the three: its process, its name and its addresses."""

    name: str
    process: Companion
    mailbox: str
    service: str
    upstream: bool

    @property
    def shown(self) -> str:
        """The name, with the stack when it is not netmesh."""
        return f"{self.name} (rns)" if self.upstream else self.name


class Bar:
    """Progress on one line of a terminal; nothing anywhere else."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()

    def __call__(self, event: dict[str, Any]) -> None:
        if self._terminal and event["event"] == "progress" and event["total"]:
            share = event["done"] / event["total"]
            cells = "#" * round(share * BAR_CELLS)
            print(f"\r{'':10}  [{cells:<{BAR_CELLS}}] {100 * share:3.0f} %", end="", flush=True)

    def clear(self) -> None:
        """Removes the line."""
        if self._terminal:
            print("\r\033[K", end="", flush=True)


def meet(python: str | None, report: Report, folder: Path) -> None:
    """Runs it all; ``python`` has the upstream stack, None leaves it out.

    ``folder`` takes the files that are sent. Raises ExchangeError.
    """
    with contextlib.ExitStack() as stack:
        members = _gather(python, stack)
        _discover(members, report)
        for one in members:
            for other in members:
                if one is not other:
                    _message(one, other, report)
        for one in members:
            for other in members:
                if one is not other:
                    _call(one, other, report)
        content = os.urandom(FILE_BYTES)
        for one, other in zip(members, [*members[1:], members[0]], strict=True):
            small = one.upstream or other.upstream
            _send_file(
                one, other, content[: UPSTREAM_FILE_BYTES if small else None], report, folder
            )


def _gather(python: str | None, stack: contextlib.ExitStack) -> list[Member]:
    """Starts the processes: Alice listens, Carol listens, the others connect."""
    carol = None if python is None else stack.enter_context(UpstreamPeer(python))
    ports = [] if carol is None else [carol.port]
    alice = stack.enter_context(Agent("Alice", ports))
    bob = stack.enter_context(Agent("Bob", [*alice.ready["ports"], *ports]))
    members = []
    for agent in (alice, bob):
        agent.wait("online")
        members.append(
            Member(agent.name, agent, agent.ready["mailbox"], agent.ready["service"], False)
        )
    if carol is not None:
        carol.command("serve")
        service = carol.wait("serving")["service"]
        members.append(Member("Carol", carol, carol.ready["destination"], service, True))
    return members


def _discover(members: Sequence[Member], report: Report) -> None:
    """Everyone announces, and hears of both addresses of everyone else."""
    began = time.perf_counter()
    for member in members:
        member.process.command("announce")
    for member in members:
        for other in members:
            if other is not member:
                heard = "announce" if member.upstream else "heard"
                for address in (other.mailbox, other.service):
                    member.process.wait(heard, destination=address)
    names = ", ".join(member.shown for member in members)
    report(
        f"{names} have heard of each other's mailboxes and services", time.perf_counter() - began
    )


def _message(one: Member, other: Member, report: Report) -> None:
    text = f"Hello {other.name}, this is {one.name}."
    if one.upstream:
        one.process.command("send", destination=other.mailbox, title="", content=text)
        done = one.process.wait("sent")
        if not done["delivered"]:
            raise ExchangeError(f"{one.name}'s message to {other.name} was not delivered")
    else:
        one.process.command("message", to=other.mailbox, content=text)
        done = one.process.wait("delivered")
    seen = other.process.wait("message", content=text)
    if not seen["signature_valid" if other.upstream else "verified"]:
        raise ExchangeError(f"{other.name} could not verify the message of {one.name}")
    report(f'{one.shown} to {other.shown}: "{text}", delivered and verified', done["seconds"])


def _call(one: Member, other: Member, report: Report) -> None:
    text = f"Greetings from {one.name}"
    to = {"destination" if one.upstream else "to": other.service}
    one.process.command("call", text=text, **to)
    done = one.process.wait("answered")
    if done["text"] != f"{text}, says {other.name}":
        raise ExchangeError(f"{other.name} answered {one.name}: {done['text']!r}")
    link = done.get("link_seconds")
    first = "" if link is None else f" over a link that took {1000 * link:.1f} ms"
    report(f'{one.shown} calls {other.shown}{first}: "{done["text"]}"', done["seconds"])


def _send_file(one: Member, other: Member, content: bytes, report: Report, folder: Path) -> None:
    path = folder / f"from-{one.name}"
    path.write_bytes(content)
    bar = Bar()
    to = {"destination" if one.upstream else "to": other.service}
    one.process.command("file", path=str(path), **to)
    try:
        done = one.process.wait("transferred", passing=bar)
        seen = other.process.wait("file")
    finally:
        bar.clear()
    if seen["sha256"] != hashlib.sha256(content).hexdigest():
        raise ExchangeError(f"the file from {one.name} to {other.name} is another one")
    rate = len(content) / MIB / done["seconds"]
    size = f"{len(content) // MIB} MiB"
    report(
        f"{one.shown} sends {other.shown} {size}: {rate:.0f} MiB/s, SHA-256 verified",
        done["seconds"],
    )
