"""A bot made with lxmfy on the other end: it answers us, and it talks to a bot of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interop.upstream import PATIENCE, World, meet
from netmesh import DestinationHash
from netmesh.bot import Bot, Request
from netmesh.constants import Method
from netmesh.lxmf import DeliveryAppData, fields
from netmesh.messaging import Mailbox, MessageReceived

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

COST = 9
"""What the bot asks of each message."""


@asynccontextmanager
async def beacon(apps: str, folder: Path) -> AsyncIterator[tuple[World, DestinationHash]]:
    """The bot, heard by the node; it takes verified messages with stamps and no others."""
    async with meet("direct", apps, folder, program="lxmfy_peer.py") as world:
        reader = world.node.announces("lxmf.delivery")

        async def announce() -> None:
            world.peer.do("announce")

        heard = await world.heard(announce, lambda wait: reader.get(timeout=wait))
        said = DeliveryAppData.unpack(heard.app_data)
        assert (said.display_name, said.stamp_cost) == ("Beacon", COST)
        yield world, DestinationHash(world.peer.destination)


async def hears(world: World, box: Mailbox) -> None:
    """Announces a mailbox until the bot has a path to it."""
    whose = bytes(box.hash).hex()
    await world.heard(
        box.announce,
        lambda wait: world.peer.wait("announce", patience_s=wait, destination=whose),
    )


async def asked(box: Mailbox, to: DestinationHash, text: str) -> MessageReceived:
    """What it answers to a command."""
    sent = await box.send(to, text, stamp_cost="announced", timeout=PATIENCE)
    answer = await box.get(timeout=PATIENCE)
    assert (answer.source, answer.verified) == (to, True)
    assert fields.Fields.read(answer.fields).reply_to == sent.id
    return answer


async def test_it_answers_commands(apps: str, tmp_path: Path) -> None:
    """By text and by fields; the first with work, those after it with the ticket it gave."""
    async with beacon(apps, tmp_path) as (world, to):
        box = await world.node.lxmf(display_name="Ann")
        await hears(world, box)
        first = await asked(box, to, "/ping")
        assert first.content == "pong"
        given = fields.ticket(first.fields)
        assert given is not None
        assert given.expires > first.time_unix_s + 20 * 86400
        assert (await asked(box, to, "/add 1 2 39")).content == "42"
        # What is no command is told by its program: it came without work, by a packet and a link.
        for text, method in (
            ("good day — 日本", Method.OPPORTUNISTIC),
            ("ž" * 3000, Method.DIRECT),
        ):
            sent = await box.send(to, text, stamp_cost="announced", timeout=PATIENCE)
            told = await world.peer.wait("message", hash=sent.id.hex())
            assert (told["content"], told["verified"]) == (text, True)
            assert told["method"] == sent.method == method
            assert told["stamp_value"] == 256
        command = {int(fields.Field.COMMANDS): [{"command": "ping", "request_id": "7"}]}
        sent = await box.send(to, "", fields=command, stamp_cost="announced", timeout=PATIENCE)
        answer = await box.get(timeout=PATIENCE)
        found = fields.Fields.read(answer.fields)
        assert (answer.content, found.reply_to) == ("pong", sent.id)
        assert answer.fields[int(fields.Field.RESULTS)] == {
            "result": "pong",
            "status": "ok",
            "request_id": "7",
        }


async def test_a_message_without_a_stamp_is_not_taken(apps: str, tmp_path: Path) -> None:
    """It is proven and dropped there, as upstream does; the next one, with work, is answered."""
    async with beacon(apps, tmp_path) as (world, to):
        box = await world.node.lxmf(display_name="Ann")
        await hears(world, box)
        await box.send(to, "/ping", method="opportunistic", timeout=PATIENCE)
        assert (await asked(box, to, "/add 20 22")).content == "42"
        assert len(box) == 0


async def test_two_bots_talk(apps: str, tmp_path: Path) -> None:
    """It asks a bot of ours that wants work too, and that asks it in turn."""
    bot = Bot("Notebook", rate=None, stamp_cost=2)
    answers: list[str] = []

    @bot.command("sum")
    async def add(request: Request) -> None:
        """Has the other one add it up."""
        await request.reply(f"/add {request.text}")

    @bot.on_message
    def other(request: Request) -> str:
        answers.append(request.message.content)
        return f"It is {request.message.content}."

    async with beacon(apps, tmp_path) as (world, to), bot.open(world.node) as running:
        await hears(world, running.mailbox)
        world.peer.do("say", destination=bytes(running.address).hex(), content="/sum 12 30")
        told = await world.peer.wait("message", content="It is 42.")
        assert told["verified"]
        assert told["sender"] == bytes(running.address).hex()
        assert answers == ["42"]
        assert running.dropped == {}
        assert to != running.address
