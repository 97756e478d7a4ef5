"""A node's storage: killed at any moment, damaged in every file, it opens and keeps its word."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netmesh import Identity, Node
from netmesh.destination import destination_hash
from netmesh.interfaces import Pipe, TCPServer
from netmesh.trouble import StorageTrouble, StoreProblem
from node.nodes import NAME, PATIENCE, until

# Churns every kind of file, and says on standard output what it has promised.
CHURN = """
import asyncio, sys
from netmesh import Identity, Node
from netmesh.interfaces import Pipe

async def main(folder):
    left, right = Pipe.pair()
    async with Node(interfaces=[left], storage=folder) as node, Node(interfaces=[right]) as peer:
        print("identity", node.identity.hash.hex(), flush=True)
        echo = await node.listen("test.echo", ratchets=True)
        number = 0
        while True:
            number += 1
            await echo.rotate()
            sent = await echo.announce()
            ratchet = (await echo.ratchets()).current
            print("ratchet", ratchet.hex(), flush=True)
            print("announced", sent.emitted_unix_s, flush=True)
            other = await peer.listen(f"test.n{number}")
            await node.path(other.hash, timeout=20)
            await node.persist()
            print("known", other.hash.hex(), flush=True)

asyncio.run(main(sys.argv[1]))
"""


@contextlib.contextmanager
def churning(folder: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHURN, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
        child.communicate()


def killed(folder: Path, lines: int, pause_s: float) -> dict[str, str]:
    """Kills a churning node some time after it has said so many lines; what it promised last."""
    promised: dict[str, str] = {}
    with churning(folder) as child:
        assert child.stdout is not None
        for _ in range(lines):
            line = child.stdout.readline()
            assert line, child.communicate()
            promised.update([line.split()])
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(pause_s)
        child.send_signal(signal.SIGKILL)
        for line in child.stdout:  # what it had written before it died was promised too
            if line.endswith("\n"):
                promised.update([line.split()])
    return promised


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_node_that_is_killed_starts_again_and_keeps_its_word(tmp_path: Path) -> None:
    """Section 3: kill -9 at any moment prevents no start and breaks no promise, round by round.

    Identity, ratchets, the time of the last announce, known destinations and paths: what was
    said to be durable is there, in folders that are fresh and in one that lives on.
    """
    dice = random.Random(1)
    who: str | None = None
    for number in range(12):
        fresh = number % 3 == 2
        folder = tmp_path / (f"fresh{number}" if fresh else "lasting")
        lines = dice.choice((1, 2, 5, 9)) if fresh else dice.randrange(1, 12)
        promised = await asyncio.to_thread(killed, folder, lines, dice.random() / 50)
        async with Node(storage=folder, shared_instance=False) as node:
            assert node.identity.hash.hex() == promised["identity"]
            if not fresh:
                assert who in (None, promised["identity"])
                who = promised["identity"]
            echo = await node.listen(NAME, ratchets=True)
            if "ratchet" in promised:
                assert bytes.fromhex(promised["ratchet"]) in (await echo.ratchets()).ids
            if "known" in promised:
                last = bytes.fromhex(promised["known"])
                assert last in {bytes(each.destination) for each in await node.known()}
            left, _right = Pipe.pair()  # an end that nobody reads
            await node.add_interface(left)
            if "announced" in promised:
                sent = await echo.announce()
                assert sent.emitted_unix_s >= int(promised["announced"])
            assert node.stats().damaged_files == 0
            assert not node.health().degraded


async def _fill(folder: Path) -> tuple[Identity, Any]:
    """A storage with every kind of file in it."""
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as peer:
        left, right = Pipe.pair()
        await peer.add_interface(right)
        async with Node(interfaces=[left], storage=folder) as node:
            echo = await node.listen(NAME, ratchets=True)
            await echo.announce()
            other = await peer.listen("test.other")
            await node.path(other.hash, timeout=PATIENCE)
            await node.persist()
            return node.identity, other.hash


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["known_destinations", "paths", "ratchets", "announced"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
async def test_a_damaged_file_is_set_aside_and_counted(
    tmp_path: Path, kind: str, keep: float
) -> None:
    """Section 3, C5: cut short anywhere, it is renamed, told and counted; the node starts."""
    identity, known = await _fill(tmp_path)
    path = tmp_path / kind
    if path.is_dir():
        path /= destination_hash(identity.hash, NAME).hex()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    node = Node(storage=tmp_path, shared_instance=False)
    async with node.events(StorageTrouble) as troubles, node:
        assert node.identity == identity
        echo = await node.listen(NAME, ratchets=True)
        trouble = await troubles.get(timeout=PATIENCE)
        assert trouble.problem is StoreProblem.DAMAGED
        assert kind in trouble.file
        await until(lambda: node.stats().damaged_files == 1)
        assert not path.exists()
        aside = [each for each in path.parent.iterdir() if each.name.startswith(path.name)]
        assert [each.read_bytes() for each in aside] == [content[: int(len(content) * keep)]]
        recalled = await node.recall(known)
        assert (recalled is None) is (kind == "known_destinations")
        left, _right = Pipe.pair()  # an end that nobody reads
        await node.add_interface(left)
        await echo.announce()
    again = Node(storage=tmp_path, shared_instance=False)
    async with again:
        await again.listen(NAME, ratchets=True)
        assert again.stats().damaged_files == 0


@pytest.mark.asyncio
async def test_a_damaged_identity_is_set_aside_for_a_new_one(tmp_path: Path) -> None:
    """Section 3: never half an identity; what was there can still be looked at."""
    identity, _ = await _fill(tmp_path)
    path = tmp_path / "identity"
    half = path.read_bytes()[:40]
    path.write_bytes(half)
    async with Node(storage=tmp_path, shared_instance=False) as node:
        assert node.identity.hash != identity.hash
        await until(lambda: node.stats().damaged_files == 1)
    aside = [each for each in tmp_path.iterdir() if each.name.startswith("identity.")]
    assert half in [each.read_bytes() for each in aside]
    assert Identity.load(path) == node.identity


@pytest.mark.asyncio
async def test_secrets_in_the_storage_are_for_their_owner_alone(tmp_path: Path) -> None:
    identity, _ = await _fill(tmp_path)
    ratchets = tmp_path / "ratchets" / destination_hash(identity.hash, NAME).hex()
    for path in (tmp_path / "identity", ratchets):
        assert os.stat(path).st_mode & 0o077 == 0
