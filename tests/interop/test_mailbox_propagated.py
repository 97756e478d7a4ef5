"""Messages left with a live lxmd and fetched from it (L6): every size, retained, restarted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.upstream import PATIENCE, Peer, client, config
from netmesh import Identity, Node, errors
from netmesh._core import DestinationHash, destination_hash
from netmesh.constants import MessageState, Method, SyncState
from netmesh.interfaces import TCPServer
from netmesh.lxmf import PropagationAppData
from netmesh.messaging import Mailbox, SyncResult

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

COST = 13
"""The least that upstream lets a node ask for."""
SETTINGS = f"""\
[propagation]
enable_node = yes
announce_at_start = yes
autopeer = no
propagation_stamp_cost_target = {COST}
propagation_stamp_cost_flexibility = 0

[lxmf]
display_name = Postmaster
announce_at_start = no

[logging]
loglevel = 4
"""


@asynccontextmanager
async def lxmd(python: str, folder: Path, settings: str) -> AsyncIterator[Peer]:
    """The ``lxmd`` of a release as a propagation node."""
    for name, text in (("rns", settings), ("lxmd", SETTINGS)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config").write_text(text)
    process = await asyncio.create_subprocess_exec(
        python,
        "-c",
        "from LXMF.Utilities.lxmd import main; main()",
        "--config",
        str(folder / "lxmd"),
        "--rnsconfig",
        str(folder / "rns"),
        "--propagation-node",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with Peer(process) as peer:
        yield peer


@dataclass
class Office:
    """Two nodes, a mailbox each, and what starts an lxmd that is connected to both."""

    python: str
    folder: Path
    settings: str
    alice: Node
    bob: Node
    outbox: Mailbox
    inbox: Mailbox

    @asynccontextmanager
    async def open(self) -> AsyncIterator[DestinationHash]:
        """Starts the propagation node; its address, once both have a path to it."""
        async with lxmd(self.python, self.folder, self.settings):
            file = self.folder / "lxmd" / "identity"
            async with asyncio.timeout(PATIENCE):
                while not file.exists() or file.stat().st_size != 64:
                    await asyncio.sleep(0.02)
            node = destination_hash(Identity.load(str(file)).hash, "lxmf.propagation")
            for each in (self.alice, self.bob):
                await found(each, node)
            yield node


async def found(node: Node, destination: DestinationHash) -> None:
    """Asks until the path is known: an lxmd that starts does not hear everything."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(errors.PathError, errors.StateError):
                await node.path(destination, timeout=2)
                known = await node.recall(destination)
                if known is not None and known.app_data:
                    assert PropagationAppData.unpack(known.app_data).stamp_cost == COST
                    return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def office(python: str, folder: Path) -> AsyncIterator[Office]:
    async with (
        Node(interfaces=[TCPServer("127.0.0.1")]) as alice,
        Node(interfaces=[TCPServer("127.0.0.1")]) as bob,
    ):
        ports = [each.interfaces()[0].port or 0 for each in (alice, bob)]
        settings = config({f"to {port}": client(port) for port in ports}, transport=True)
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        # They have never heard each other.
        await alice.remember(inbox.hash, bob.identity.public_only())
        await bob.remember(outbox.hash, alice.identity.public_only())
        yield Office(python, folder, settings, alice, bob, outbox, inbox)


async def synced(box: Mailbox, node: DestinationHash, *, retain: bool = False) -> SyncResult:
    """Fetches until something comes: the node takes in what it was sent a moment later."""
    async with asyncio.timeout(PATIENCE):
        while True:
            result = await box.sync(node, retain=retain, timeout=PATIENCE)
            assert result.ok, result
            if result.received:
                return result
            await asyncio.sleep(0.2)


async def test_messages_are_left_with_lxmd_and_fetched(python: str, tmp_path: Path) -> None:
    """L6: uploads without a name, stamps of its cost, a fetch with a state and a count."""
    async with office(python, tmp_path) as at, at.open() as node:
        await at.outbox.set_node(node)
        texts = {}
        for size in (0, 100, 400, 20_000):  # packets and resources
            text = "ž" * (size // 2)
            sent = await at.outbox.send(
                at.inbox.hash, text, title="Grüße", method="propagated", timeout=PATIENCE
            )
            assert (sent.state, sent.method) == (MessageState.SENT, Method.PROPAGATED)
            texts[sent.id] = text
        total = 0
        while total < len(texts):
            total += (await synced(at.inbox, node)).received
        got = {}
        for _ in texts:
            message = await at.inbox.get(timeout=PATIENCE)
            assert (message.method, message.title) == (Method.PROPAGATED, "Grüße")
            assert message.verified
            assert message.source == at.outbox.hash
            got[message.id] = message.content
        assert got == texts
        # All of it was acknowledged: nothing is left.
        empty = await at.inbox.sync(node, timeout=PATIENCE)
        assert (empty.state, empty.received, empty.duplicates) == (SyncState.COMPLETE, 0, 0)
        assert len(at.inbox) == 0


async def test_lxmd_keeps_what_is_retained_and_after_a_restart(python: str, tmp_path: Path) -> None:
    """L6, D8: killed and started again, it still has the message; once it is taken it has not."""
    async with office(python, tmp_path) as at:
        async with at.open() as node:
            await at.outbox.set_node(node)
            sent = await at.outbox.send(
                at.inbox.hash, "x" * 2000, method="propagated", timeout=PATIENCE
            )
            await synced(at.inbox, node, retain=True)
            assert (await at.inbox.get(timeout=PATIENCE)).id == sent.id
        async with at.open() as node, Node(interfaces=[TCPServer("127.0.0.1")]):
            again = await at.inbox.sync(node, timeout=PATIENCE)
            # It came before: acknowledged now, and not told again.
            assert (again.state, again.received) == (SyncState.COMPLETE, 0)
            assert (await at.inbox.sync(node, timeout=PATIENCE)).ok
            assert len(at.inbox) == 0


async def test_the_command_fetches_from_lxmd(python: str, tmp_path: Path) -> None:
    """L6: ``netmesh inbox --sync``, beside the node that the message was left from."""
    async with office(python, tmp_path) as at, at.open() as node:
        await at.outbox.set_node(node)
        mine = str(tmp_path / "mine.identity")
        at.bob.identity.save(mine)
        await at.outbox.send(at.inbox.hash, "for later", method="propagated", timeout=PATIENCE)
        # The place of the node that lxmd is connected to; it connects again within seconds.
        port = at.bob.interfaces()[0].port
        await at.bob.close()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "netmesh", "inbox", "--json", "--identity", mine),
            *("--listen", f"127.0.0.1:{port}", "--sync", bytes(node).hex(), "--count", "1"),
            *("--every", "1", "--timeout", str(PATIENCE)),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        lines = [json.loads(line) for line in out.splitlines()]
        [shown] = [line for line in lines if "fetch" not in line]
        assert (shown["content"], shown["method"]) == ("for later", "propagated")
        steps = [line["fetch"] for line in lines if "fetch" in line]
        assert {step["node"] for step in steps} == {bytes(node).hex()}


async def test_lxmd_refuses_a_stamp_that_is_too_weak(python: str, tmp_path: Path) -> None:
    """D5: the message ends as refused, as a packet and as a resource, and is not lost silently."""
    async with office(python, tmp_path) as at, at.open() as node:
        await at.outbox.set_node(node, stamp_cost=1)
        for size in (10, 3000):
            refused = 0
            for _ in range(3):  # one stamp in 4096 is good enough by chance
                with contextlib.suppress(errors.RefusedError):
                    await at.outbox.send(
                        at.inbox.hash, "x" * size, method="propagated", timeout=PATIENCE
                    )
                    continue
                refused += 1
            assert refused >= 2


async def test_lxmd_takes_a_hundred_stamps_of_a_hundred(python: str, tmp_path: Path) -> None:
    """D5: each has the worth that its announce asks for."""
    async with office(python, tmp_path) as at, at.open() as node:
        await at.outbox.set_node(node)
        texts = {f"number {number}" for number in range(100)}
        sending = [at.outbox.send(at.inbox.hash, text, method="propagated") for text in texts]
        async with asyncio.timeout(2 * PATIENCE):
            for sent in sending:
                assert (await sent).state is MessageState.SENT
        got: set[str] = set()
        while got != texts:
            for _ in range((await synced(at.inbox, node)).received):
                got.add((await at.inbox.get(timeout=PATIENCE)).content)


async def test_two_devices_of_an_identity_both_get_all(python: str, tmp_path: Path) -> None:
    """D8: what one fetches and retains is there for the other."""
    async with office(python, tmp_path) as at, at.open() as node:
        await at.outbox.set_node(node)
        texts = {"one", "two" * 1000}
        for text in texts:
            await at.outbox.send(at.inbox.hash, text, method="propagated", timeout=PATIENCE)
        other = await at.alice.lxmf(at.bob.identity)
        assert other.hash == at.inbox.hash
        for device in (at.inbox, other):
            got: set[str] = set()
            while got != texts:
                for _ in range((await synced(device, node, retain=True)).received):
                    got.add((await device.get(timeout=PATIENCE)).content)
