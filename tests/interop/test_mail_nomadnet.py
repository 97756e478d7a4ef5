"""NomadNet on the other end: its conversations, its pages and files, its propagation node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import PATIENCE, Peer, World, client, config, find, meet, spawn
from netmesh import DestinationHash, Identity, Node, errors, paper
from netmesh.constants import MessageState, Method, SyncState
from netmesh.interfaces import TCPServer
from netmesh.lxmf import (
    DeliveryAppData,
    Message,
    PropagationAppData,
    fields,
    paper_uri_unpack,
)
from netmesh.messaging import Mailbox

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

MESSAGE_COST = 8
NODE_COST = 13
"""The least that NomadNet lets a node ask for."""
SETTINGS = f"""\
[logging]
loglevel = 2
destination = console

[client]
enable_client = yes
user_interface = none
announce_at_start = no
try_propagation_on_send_fail = no
periodic_lxmf_sync = no
required_stamp_cost = {MESSAGE_COST}
accept_invalid_stamps = no

[node]
enable_node = yes
node_name = Lighthouse
announce_at_start = no
disable_propagation = no
propagation_cost = {NODE_COST}
max_transfer_size = 128

[printing]
print_messages = no
"""
INDEX = ">Lighthouse\n" + "".join(f"line {number} — žluťoučký\n" for number in range(400))
FORM = '#!/bin/sh\nprintf "hello %s %s" "$field_name" "$var_kind"\n'


@dataclass(frozen=True)
class Town:
    """A mailbox here, and a NomadNet that is connected to the node."""

    world: World
    box: Mailbox
    folder: Path
    """Where NomadNet keeps its things."""

    @property
    def peer(self) -> Peer:
        return self.world.peer

    @property
    def to(self) -> DestinationHash:
        """NomadNet's address."""
        return DestinationHash(self.peer.destination)

    async def shown(
        self, until: Callable[[list[dict[str, Any]]], bool], *, box: Mailbox | None = None
    ) -> list[dict[str, Any]]:
        """The messages of its conversation with a mailbox of ours, once they are as expected."""
        whose = bytes((box or self.box).hash).hex()
        messages: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while not until(messages):
                    await asyncio.sleep(0.05)
                    told = await self.peer.call("conversation", "conversation", destination=whose)
                    messages = told["messages"]
        except TimeoutError:
            raise TimeoutError(f"the conversation stays as {messages}") from None
        return messages


def prepare(folder: Path) -> Path:
    """The settings, pages and files of NomadNet; its folder."""
    home = folder / "peer" / "nomadnet"
    for name in ("pages", "files"):
        (home / "storage" / name).mkdir(parents=True)
    (home / "config").write_text(SETTINGS)
    (home / "storage" / "pages" / "index.mu").write_text(INDEX)
    form = home / "storage" / "pages" / "form.mu"
    form.write_text(FORM)
    form.chmod(0o700)
    (home / "storage" / "files" / "chart.bin").write_bytes(bytes(range(256)) * 200)
    return home


@asynccontextmanager
async def town(python: str, folder: Path) -> AsyncIterator[Town]:
    """Both have heard each other announce."""
    home = prepare(folder)
    async with meet("direct", python, folder, program="nomad_peer.py") as world:
        box = await world.node.lxmf(display_name="Ann Ünïcode")
        here = Town(world, box, home)

        async def knows_us(wait: float) -> None:
            async with asyncio.timeout(wait):
                while True:
                    told = await here.peer.call("heard", "heard")
                    if told["names"].get(bytes(box.hash).hex()) == "Ann Ünïcode":
                        return
                    await asyncio.sleep(0.05)

        await world.heard(box.announce, knows_us)
        reader = world.node.announces("lxmf.delivery")

        async def announce() -> None:
            here.peer.do("announce")

        heard = await world.heard(announce, lambda wait: reader.get(timeout=wait))
        said = DeliveryAppData.unpack(heard.app_data)
        assert (said.display_name, said.stamp_cost) == ("Anonymous Peer", MESSAGE_COST)
        yield here


async def test_messages_come_into_its_conversations(apps: str, tmp_path: Path) -> None:
    """With the stamps it asks for; what it shows is what it has on disk."""
    async with town(apps, tmp_path) as at:
        kinds: list[tuple[Method, str, dict[Any, Any]]] = [
            (Method.OPPORTUNISTIC, "short — 日本", {}),
            (Method.DIRECT, "over a link", {}),
            (
                Method.DIRECT,
                "ž" * 3000,
                fields.build(attachments=[fields.Attachment("map.bin", bytes(range(256)))]),
            ),
        ]
        sent = []
        for method, text, more in kinds:
            delivery = await at.box.send(
                at.to,
                text,
                title="Grüße",
                fields=more,
                method=method,
                stamp_cost="announced",
                timeout=PATIENCE,
            )
            assert delivery.state is MessageState.DELIVERED
            sent.append(delivery.id.hex())
        shown = {each["hash"]: each for each in await at.shown(lambda got: len(got) == len(kinds))}
        for number, (method, text, _) in zip(sent, kinds, strict=True):
            assert (shown[number]["content"], shown[number]["title"]) == (text, "Grüße")
            assert shown[number]["signature"] == "Signature Verified"
            assert shown[number]["method"] == method
        assert shown[sent[2]]["attachments"] == [["map.bin", bytes(range(256)).hex()]]
        kept = at.folder / "storage" / "conversations" / bytes(at.box.hash).hex()
        assert set(sent) < {each.name for each in kept.iterdir()}


async def test_what_its_user_writes_comes_in(apps: str, tmp_path: Path) -> None:
    """It shows its messages as delivered; a ticket of it spares us the work."""
    async with town(apps, tmp_path) as at:
        whose = bytes(at.box.hash).hex()
        await at.peer.call("trust", "trusted", destination=whose)
        texts = ["hello — 日本", "ž" * 4000]
        for text in texts:
            told = await at.peer.call(
                "write", "written", destination=whose, content=text, title="Ahoj"
            )
            assert told["sent"]
        got = {}
        for _ in texts:
            message = await at.box.get(timeout=PATIENCE)
            assert message.verified
            assert (message.source, message.title) == (at.to, "Ahoj")
            got[message.content] = message
        assert set(got) == set(texts)
        # Upstream may miss a proof that is back at once; then it sends the same message again,
        # and shows it as delivered when it has seen a proof.
        shown = await at.shown(
            lambda found: (
                bool(found) and all(each["state"] == MessageState.DELIVERED for each in found)
            )
        )
        assert {each["content"] for each in shown} == set(texts)
        assert all(each["outgoing"] for each in shown)
        tickets = [fields.ticket(each.fields) for each in got.values()]
        ticket = next(each for each in tickets if each is not None)
        answer = await at.box.send(at.to, "on a ticket", ticket=ticket.ticket, timeout=PATIENCE)
        await at.shown(lambda found: answer.id.hex() in {each["hash"] for each in found})


async def test_paper_goes_both_ways(apps: str, tmp_path: Path) -> None:
    async with town(apps, tmp_path) as at:
        me = at.box.identity
        them = Identity.from_public(bytes.fromhex(at.peer.ready["key"]))
        mine = Message.create(me, at.to, "on paper")
        told = await at.peer.call("ingest", "ingested", uri=paper.write(mine, them))
        assert told["taken"]
        await at.shown(lambda found: [each["content"] for each in found] == ["on paper"])
        # To a mailbox that it knows no ratchet of: the identity's key opens it.
        stranger = Identity()
        box = await at.world.node.lxmf(stranger, display_name="stranger")
        made: dict[str, Any] = {"uri": False}
        async with asyncio.timeout(PATIENCE):
            while not made["uri"]:  # until it has heard of it
                made = await at.peer.call(
                    "paper",
                    "paper",
                    destination=bytes(box.hash).hex(),
                    content="from a screen",
                )
                await asyncio.sleep(0.05)
        await box.ingest(paper_uri_unpack(made["uri"]).lxmf_data)
        got = await box.get(timeout=PATIENCE)
        assert (got.content, got.method, got.verified) == ("from a screen", Method.PAPER, True)


async def test_its_pages_and_files_are_served(apps: str, tmp_path: Path) -> None:
    """A node's announce with its name, a page in many packets, a form, a file with its name."""
    prepare(tmp_path)
    async with meet("direct", apps, tmp_path, program="nomad_peer.py") as world:
        node = DestinationHash(bytes.fromhex(world.peer.ready["node"]))
        reader = world.node.announces("nomadnetwork.node")

        async def announce() -> None:
            world.peer.do("announce_node")

        heard = await world.heard(announce, lambda wait: reader.get(timeout=wait))
        assert (heard.destination, heard.app_data) == (node, b"Lighthouse")
        async with await world.node.connect(node, timeout=PATIENCE) as link:
            page = await link.request("/page/index.mu", timeout=PATIENCE)
            assert page.data == INDEX.encode()
            form = await link.request(
                "/page/form.mu", {"field_name": "Ann", "var_kind": "keeper"}, timeout=PATIENCE
            )
            assert form.data == b"hello Ann keeper"
            file = await link.request("/file/chart.bin", timeout=PATIENCE)
            assert file.data == bytes(range(256)) * 200
            assert file.metadata == {"name": b"chart.bin"}


async def test_its_propagation_node_keeps_messages(apps: str, tmp_path: Path) -> None:
    """Left there with a stamp of its cost by one node, and fetched by another one."""
    prepare(tmp_path)
    async with (
        Node(interfaces=[TCPServer("127.0.0.1")]) as alice,
        Node(interfaces=[TCPServer("127.0.0.1")]) as bob,
    ):
        ports = [each.interfaces()[0].port or 0 for each in (alice, bob)]
        settings = config({f"to {port}": client(port) for port in ports}, transport=True)
        async with spawn(apps, tmp_path / "peer", settings, program="nomad_peer.py") as peer:
            await left_and_fetched(peer, alice, bob)


async def left_and_fetched(peer: Peer, alice: Node, bob: Node) -> None:
    node = DestinationHash(bytes.fromhex(peer.ready["propagation"]))
    for each in (alice, bob):
        # It announces this address 20 s late; who asks for a path is told the same at once.
        await find(each, bytes(node))
        known = await each.recall(node)
        assert known is not None
        said = PropagationAppData.unpack(known.app_data or b"")
        assert (said.active, said.stamp_cost, said.transfer_limit_kb) == (True, NODE_COST, 128)
    outbox, inbox = await alice.lxmf(), await bob.lxmf()
    # They have never heard each other.
    await alice.remember(inbox.hash, bob.identity.public_only())
    await bob.remember(outbox.hash, alice.identity.public_only())
    await outbox.set_node(node)
    texts = ["short", "ž" * 5000]
    for text in texts:
        sent = await outbox.send(inbox.hash, text, method="propagated", timeout=PATIENCE)
        assert (sent.state, sent.method) == (MessageState.SENT, Method.PROPAGATED)
    # More than it takes is known before anything is sent.
    with pytest.raises(errors.EncodeError):
        await outbox.send(inbox.hash, bytes(129_000), method="propagated", timeout=PATIENCE)
    received = 0
    async with asyncio.timeout(PATIENCE):
        while received < len(texts):  # it takes in what it was sent a moment later
            result = await inbox.sync(node, timeout=PATIENCE)
            assert (result.ok, result.state) == (True, SyncState.COMPLETE)
            received += result.received
            await asyncio.sleep(0.05)
    got = [await inbox.get(timeout=PATIENCE) for _ in texts]
    assert {each.content for each in got} == set(texts)
    assert all(each.verified and each.source == outbox.hash for each in got)
