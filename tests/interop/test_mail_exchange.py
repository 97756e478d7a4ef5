"""LXMF messages with a live upstream mailbox, in every detail: sizes at each limit, unicode, all
fields, stamps, tickets, and messages on paper; both ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import PATIENCE, World, meet
from netmesh import DestinationHash, Identity, paper
from netmesh.constants import Method, Representation
from netmesh.lxmf import Message, delivery_hash, fields
from netmesh.messaging import Mailbox, MessageReceived
from netmesh.msgpack import packb, unpackb

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

# LXMF 3.2: what content still fits, with an empty title and no fields.
PACKET_MAX = 287
LINK_PACKET_MAX = 319


@dataclass(frozen=True)
class Pair:
    """A mailbox here and one of upstream that know each other."""

    world: World
    box: Mailbox

    @property
    def to(self) -> DestinationHash:
        """Upstream's address."""
        return DestinationHash(self.world.peer.destination)

    async def got(self, message_id: bytes) -> dict[str, Any]:
        """What upstream tells of a message."""
        return await self.world.peer.wait("message", hash=message_id.hex())

    def draft(self, content: bytes, **more: Any) -> dict[str, Any]:
        """An order for upstream to make a message."""
        title = more.pop("title", b"")
        packed = packb(more.pop("fields", {}))
        return {
            "key": self.box.identity.public_key.hex(),
            "content": content.hex(),
            "title": title.hex(),
            "fields": packed.hex(),
            "method": int(more.pop("method", Method.DIRECT)),
            **more,
        }

    async def receive(self, content: bytes, **more: Any) -> MessageReceived:
        """Lets upstream send a message, and takes it."""
        self.world.peer.do("message", **self.draft(content, **more))
        return await self.box.get(timeout=PATIENCE)


@asynccontextmanager
async def pair(python: str, folder: Path, **options: Any) -> AsyncIterator[Pair]:
    """Two mailboxes that have heard each other."""
    async with meet("direct", python, folder, program="mail_peer.py") as world:
        box = await world.node.lxmf(display_name="node", **options)
        reader = world.node.announces("lxmf.delivery")
        await world.heard(
            box.announce,
            lambda wait: world.peer.wait(
                "announce", patience_s=wait, destination=bytes(box.hash).hex()
            ),
        )

        async def ask() -> None:
            world.peer.do("announce")

        await world.heard(ask, lambda wait: reader.get(timeout=wait))
        yield Pair(world, box)


async def test_sizes_at_each_limit_to_upstream(python: str, tmp_path: Path) -> None:
    packet, resource = Representation.PACKET, Representation.RESOURCE
    async with pair(python, tmp_path) as both:
        for size, method, representation in (
            (0, Method.OPPORTUNISTIC, packet),
            (255, Method.OPPORTUNISTIC, packet),
            (256, Method.OPPORTUNISTIC, packet),
            (PACKET_MAX - 1, Method.OPPORTUNISTIC, packet),
            (PACKET_MAX, Method.OPPORTUNISTIC, packet),
            (PACKET_MAX + 1, Method.DIRECT, packet),
            (LINK_PACKET_MAX - 1, Method.DIRECT, packet),
            (LINK_PACKET_MAX, Method.DIRECT, packet),
            (LINK_PACKET_MAX + 1, Method.DIRECT, resource),
        ):
            sent = await both.box.send(both.to, b"s" * size, timeout=PATIENCE)
            assert (sent.method, sent.representation) == (method, representation), size
            got = await both.got(sent.id)
            assert got["content"] == (b"s" * size).hex()
            assert got["verified"]
            assert got["method"] == method


async def test_sizes_at_each_limit_from_upstream(python: str, tmp_path: Path) -> None:
    async with pair(python, tmp_path) as both:
        for size, method in (
            (0, Method.OPPORTUNISTIC),
            (PACKET_MAX - 1, Method.OPPORTUNISTIC),
            (PACKET_MAX, Method.OPPORTUNISTIC),
            (LINK_PACKET_MAX - 1, Method.DIRECT),
            (LINK_PACKET_MAX, Method.DIRECT),
            (LINK_PACKET_MAX + 1, Method.DIRECT),
            (10_000, Method.DIRECT),
        ):
            got = await both.receive(b"r" * size, method=method)
            assert got.message.content == b"r" * size
            assert got.verified
            assert got.method == method


async def test_a_mailbox_takes_messages_up_to_its_limit(python: str, tmp_path: Path) -> None:
    """LXMF 3.1: units of 1000 bytes of the packed message; upstream is told that it is refused."""
    around = len(Message.create(Identity(), delivery_hash(Identity()), b"x" * 1000).packed) - 1000
    async with pair(python, tmp_path, limit_kb=2) as both:
        refused = both.world.peer.do("message", **both.draft(bytes(2001 - around)))
        await both.world.peer.wait("failed", id=refused, state=0xFD)
        got = await both.receive(bytes(1900 - around))
        assert len(got.message.packed) == 1900


TEXTS = (
    "Ünïcödé — 日本語テキスト 🚀",
    "עברית\N{RIGHT-TO-LEFT MARK} العربية",
    "e\N{COMBINING ACUTE ACCENT} \N{ZERO WIDTH JOINER}👨‍👩‍👧",
    "\x00\t\r\n\x7f\u2028",
    "\U0010ffff",
)


async def test_text_of_every_kind_goes_both_ways(python: str, tmp_path: Path) -> None:
    async with pair(python, tmp_path) as both:
        for raw in (*(text.encode() for text in TEXTS), b"\xff\xfe no UTF-8 \xc3"):
            sent = await both.box.send(both.to, raw, title=raw[:30], timeout=PATIENCE)
            told = await both.got(sent.id)
            assert (told["content"], told["title"]) == (raw.hex(), raw[:30].hex())
            got = await both.receive(raw, title=raw[:30], method=Method.OPPORTUNISTIC)
            assert (got.message.content, got.message.title) == (raw, raw[:30])
            assert got.content == raw.decode("utf-8", "replace")


ALL_FIELDS = fields.build(
    attachments=[fields.Attachment("日本.txt", b"one"), fields.Attachment("b", bytes(3000))],
    image=fields.Image("webp", b"RIFF"),
    audio=fields.Audio(fields.AudioMode.OPUS_OGG, b"OggS"),
    telemetry=fields.Telemetry(
        time=1700000000,
        location=fields.Location(55.6764, -12.5683, -12.5, 3.6, -90.0, 5.0, 1700000000),
        battery=fields.Battery(87.5, True, 21.5),
        physical_link=fields.PhysicalLink(-92, 7.25, None),
    ),
    telemetry_stream=[
        fields.TelemetryReport(
            bytes(16), 7, fields.Telemetry(time=7), fields.Appearance("dot", bytes(3), b"abc")
        )
    ],
    appearance=fields.Appearance("sail-boat", b"\1\2\3", b"\4\5\6"),
    renderer=fields.Renderer.MARKDOWN,
    thread=b"\7" * 32,
    reply_to=b"\1" * 32,
    reply_quote="as you said — 日本",
    reaction=fields.Reaction(b"\2" * 32, "👍"),
    comment_on=b"\3" * 32,
    continuation_of=b"\4" * 32,
    commands=[
        fields.Command(fields.CommandId.PING),
        fields.Command.echo("hé"),
        fields.Command.telemetry_request(9, collector=False),
    ],
    results=[["ok", 1, None, -1.5]],
    group=b"group",
    event={"kind": "joined"},
    references=[b"ref"],
    embedded=[b"packed"],
    custom=fields.Custom("type", b"data", {"meta": [1, 2**63, -(2**63)]}),
    more={"text": 1, b"bin": True, 0x200: {1: {2: [3]}}},
)


async def test_all_fields_go_both_ways(python: str, tmp_path: Path) -> None:
    """Byte for byte, in their order, and typed the same on this side."""
    expected = fields.Fields.read(unpackb(packb(ALL_FIELDS)))
    async with pair(python, tmp_path) as both:
        sent = await both.box.send(both.to, "all", fields=ALL_FIELDS, timeout=PATIENCE)
        told = await both.got(sent.id)
        assert told["fields"] == packb(ALL_FIELDS).hex()
        assert told["verified"]
        got = await both.receive(b"all", fields=ALL_FIELDS)
        assert got.verified
        assert got.message.fields_packed == packb(ALL_FIELDS)
        found = fields.Fields.read(got.fields)
        assert found == expected
        assert found.malformed == {}


async def test_stamps_of_every_cost_are_taken_by_upstream(python: str, tmp_path: Path) -> None:
    async with pair(python, tmp_path) as both:
        for cost in range(17):
            await both.world.peer.call("cost", "cost", cost=cost or None)
            sent = await both.box.send(
                both.to, f"cost {cost}", stamp_cost=cost or None, timeout=PATIENCE
            )
            told = await both.got(sent.id)
            if cost:
                assert told["stamp_valid"]
                assert told["stamp_value"] >= cost


async def test_stamps_of_upstream_are_taken(python: str, tmp_path: Path) -> None:
    async with pair(python, tmp_path, stamp_cost=5) as both:
        for cost in (0, 1, 5, 7, 8, 12, 13, 16):
            got = await both.receive(f"cost {cost}".encode(), stamp=cost)
            value = got.message.stamp_value()
            assert value >= cost
            assert got.stamp_valid is (value >= 5)


@pytest.mark.slow
async def test_upstream_searches_for_the_stamps_that_are_asked_for(
    python: str, tmp_path: Path
) -> None:
    """By its own search, with a cost that is worth its while; others are not taken."""
    async with pair(python, tmp_path, stamp_cost=8, enforce_stamps=True) as both:
        got = await both.receive(b"with work")
        assert got.stamp_valid
        assert got.stamp_value is not None
        assert got.stamp_value >= 8


IMPOSSIBLE = 200
"""More work than anyone can do: a ticket alone can be what makes a message valid."""
DAY = 86400


async def test_a_ticket_of_upstream_spares_us_the_work(python: str, tmp_path: Path) -> None:
    """LXMF 7: kept when it comes, used by itself, renewed, and worth nothing once it is over."""
    async with pair(python, tmp_path) as both:
        peer = both.world.peer
        await peer.call("cost", "cost", cost=IMPOSSIBLE)

        async def ticket_of(text: bytes) -> fields.Ticket | None:
            got = await both.receive(text, ticket=True)
            assert got.message.content == text
            return fields.ticket(got.fields)

        async def worth(**more: Any) -> int:
            sent = await both.box.send(both.to, "cheap", timeout=PATIENCE, **more)
            told = await both.got(sent.id)
            assert told["stamp_valid"] is (told["stamp_value"] == 256)
            return told["stamp_value"] or 0

        first = await ticket_of(b"have one")
        assert first is not None
        assert await worth(stamp_cost="announced") == 256
        assert await worth(ticket=first.ticket) == 256
        key = both.box.identity.public_key.hex()
        async with asyncio.timeout(PATIENCE):  # its router looks every four seconds
            while not (await peer.call("given", "given", key=key))["given"]:
                await asyncio.sleep(0.1)
        assert await ticket_of(b"no other on the same day") is None
        await peer.call("later", "later", seconds=8 * DAY)
        second = await ticket_of(b"a new one")
        assert second is not None
        assert second.ticket != first.ticket
        assert await worth(ticket=first.ticket) == 256
        await peer.call("later", "later", seconds=14 * DAY)
        assert await worth(ticket=first.ticket) == 0
        assert await worth(stamp_cost="announced") == 256


async def test_a_ticket_of_ours_spares_upstream_the_work(python: str, tmp_path: Path) -> None:
    """It writes at once to a mailbox that asks for the impossible; not given again on one day."""
    async with pair(python, tmp_path, stamp_cost=IMPOSSIBLE, enforce_stamps=True) as both:
        ticket = await both.box.issue_ticket(both.to)
        assert ticket is not None
        sent = await both.box.send(both.to, "have one", gives=ticket, timeout=PATIENCE)
        await both.got(sent.id)
        for method in (Method.OPPORTUNISTIC, Method.DIRECT):
            got = await both.receive(b"cheap " + method.name.encode(), method=method)
            assert (got.stamp_valid, got.stamp_value, got.method) == (True, 256, method)
        assert await both.box.issue_ticket(both.to) is None


async def test_messages_on_paper_go_both_ways(python: str, tmp_path: Path) -> None:
    async with pair(python, tmp_path) as both:
        peer = both.world.peer
        upstream = Identity.from_public(bytes.fromhex(peer.ready["key"]))
        for content in (b"", "On paper 日本.".encode(), b"p" * 2015):
            mine = Message.create(both.box.identity, delivery_hash(upstream), content)
            told = await peer.call("ingest", "ingested", uri=paper.write(mine, upstream))
            assert told["taken"]
            got = await both.got(mine.id)
            assert (got["content"], got["verified"]) == (content.hex(), True)
            # To an identity of which upstream knows no ratchet: the identity's key opens it.
            stranger = Identity()
            order = both.draft(content, method=Method.PAPER) | {"key": stranger.public_key.hex()}
            made = await peer.call("paper", "paper", **order)
            found = paper.read(made["uri"], stranger)
            assert found.id.hex() == made["hash"]
            assert found.content == content
            assert found.verify(upstream)
