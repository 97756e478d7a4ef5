"""A process of the upstream stack, in a namespace or beside us."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

PEERS = Path(__file__).parents[1] / "interop" / "peers"
PATIENCE = 40.0
_CONFIG = """\
[reticulum]
enable_transport = no
share_instance = no
[interfaces]
[[node]]
enabled = yes
"""
_ATTEMPT_S = 4.0


class Upstream:
    """The process: orders in, events out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._events: list[dict[str, Any]] = []
        self.destination = b""

    def do(self, what: str, **fields: Any) -> None:
        """Gives an order."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": what, **fields}).encode() + b"\n")

    async def wait(self, event: str, *, within_s: float = PATIENCE, **fields: Any) -> Any:
        """The next event of a kind with these fields; others are kept."""
        wanted = {"event": event, **fields}
        assert self._process.stdout
        async with asyncio.timeout(within_s):
            while True:
                for at, each in enumerate(self._events):
                    if wanted.items() <= each.items():
                        return self._events.pop(at)
                line = await self._process.stdout.readline()
                assert line, "upstream ended"
                self._events.append(json.loads(line))

    async def ask(
        self,
        what: str,
        answer: str,
        order: Callable[[], dict[str, Any]],
        expect: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        tries: int = 12,
        within_s: float = _ATTEMPT_S,
    ) -> None:
        """Repeats an order until its answer is seen.

        Upstream loses what is back before it has registered the question, and a packet on a
        lossy medium is lost like any other. Raises TimeoutError.
        """
        for _ in range(tries):
            given = order()
            self.do(what, **given)
            try:
                await self.wait(answer, within_s=within_s, **expect(given))
            except TimeoutError:
                continue
            return
        raise TimeoutError(f"upstream saw no {answer} after {tries} times {what}")


@asynccontextmanager
async def upstream(
    python: str,
    folder: Path,
    interface: str,
    prefix: list[str] | None = None,
    *,
    program: str = "rns_peer.py",
) -> AsyncIterator[Upstream]:
    """A running process with one interface, given as lines of its configuration."""
    folder.mkdir(exist_ok=True)
    (folder / "config").write_text(_CONFIG + interface)
    process = await asyncio.create_subprocess_exec(
        *(prefix or []),
        *(python, str(PEERS / program), str(folder)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 22,
    )
    peer = Upstream(process)
    try:
        peer.destination = bytes.fromhex((await peer.wait("ready"))["destination"])
        yield peer
    finally:
        process.kill()
        await process.communicate()


def interpreter(release: str) -> str:
    """The Python that has a release, "current" or "old"; skips where there is none."""
    if release == "current":
        return sys.executable
    old = os.environ.get("NETMESH_OLD_PEER_PYTHON", "")
    if not Path(old).is_file():
        pytest.skip("NETMESH_OLD_PEER_PYTHON names no interpreter")
    return old
