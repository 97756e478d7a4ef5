"""The bot of the how-to guide, and a live upstream mailbox that talks to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import PATIENCE, meet
from netmesh.bot import Bot
from netmesh.lxmf import fields
from netmesh.msgpack import packb, unpackb

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "write-a-bot.md"


def bot_of_the_guide() -> Bot:
    """What the first example of the page makes."""
    found = re.search(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(found[1], str(GUIDE), "exec", dont_inherit=True), names)
    bot = names["bot"]
    assert isinstance(bot, Bot)
    return bot


async def test_upstream_talks_to_a_bot(python: str, tmp_path: Path) -> None:
    node = {"storage": tmp_path / "storage"}
    async with (
        meet("direct", python, tmp_path, program="mail_peer.py", node=node) as world,
        bot_of_the_guide().open(world.node) as running,
    ):
        peer = world.peer
        reader = world.node.announces("lxmf.delivery")
        told = await world.heard(
            running.mailbox.announce,
            lambda wait: peer.wait(
                "announce", patience_s=wait, destination=bytes(running.address).hex()
            ),
        )
        assert told["name"] == "Notebook"

        async def announce() -> None:
            peer.do("announce")

        await world.heard(announce, lambda wait: reader.get(timeout=wait))
        for text, answer in (
            ("/note buy bread", "Note 1 kept."),
            ("/NOTE milk", "Note 2 kept."),
            ("/notes", "buy bread\nmilk"),
            ("good day", "Hello! 0 files received. Try /help"),
        ):
            peer.do(
                "message",
                key=running.mailbox.identity.public_key.hex(),
                content=text.encode().hex(),
                title="",
                fields=packb({}).hex(),
                method=1,
            )
            got = await peer.wait("message", patience_s=PATIENCE)
            assert bytes.fromhex(got["content"]).decode() == answer
            assert got["verified"]
            assert got["source"] == bytes(running.address).hex()
            assert fields.Fields.read(unpackb(bytes.fromhex(got["fields"]))).reply_to
        assert running.dropped == {}
        assert list(running.state.values()) == [["buy bread", "milk"]]
