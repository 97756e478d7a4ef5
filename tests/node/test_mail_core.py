"""Mail of a node's core through its driver: commands out, messages and states in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from netmesh import Node
from netmesh._core import NODE_CODES, DestinationHash, Message, RawMail
from netmesh._driver import Call, failure
from netmesh.constants import MessageState, Method, Representation, Unverified
from netmesh.errors import EncodeError, NotFoundError, StateError
from netmesh.interfaces import Pipe
from node.nodes import PATIENCE, identity, joined

pytestmark = pytest.mark.asyncio

ME = identity(1)


async def opened(node: Node, number: int, *, keep: bool = False) -> DestinationHash:
    """A mailbox of the core, announced."""
    driver = node._driver
    reply = await driver.ask(
        "mail_open",
        "mailbox",
        key=identity(number),
        data="Somebody",
        on=keep,
        spec={"stamp_cost": 0, "enforce_stamps": False, "limit_kb": 1000},
    )
    await driver.ask("announce", "announce", destination=reply.destination)
    return reply.destination


class Ends:
    """Two nodes with a mailbox each that know each other, and what comes to the second one."""

    def __init__(self, alice: Node, bob: Node) -> None:
        self.alice, self.bob = alice, bob
        self.came: asyncio.Queue[RawMail] = asyncio.Queue()
        self.states: list[RawMail] = []

    async def open(self, *, keep: bool = False) -> None:
        self.mine = await opened(self.alice, 1)
        self.yours = await opened(self.bob, 2, keep=keep)
        self.bob._mail[self.yours] = self.came.put_nowait
        await self.alice.path(self.yours, timeout=PATIENCE)
        await self.bob.path(self.mine, timeout=PATIENCE)

    def send(self, content: str, method: Method = Method.DIRECT, **options: Any) -> Call:
        message = Message.create(ME, self.yours, content)
        return self.alice._driver.start(
            "mail_send",
            operation=True,
            quiet=True,
            on_mail=self.states.append,
            data=message.packed,
            spec=({"mailbox": self.mine, "stamp_auto": True, **options}, ((int(method), 0, 0),)),
        )

    async def next(self) -> RawMail:
        async with asyncio.timeout(PATIENCE):
            return await self.came.get()


@asynccontextmanager
async def ends(**options: Any) -> AsyncIterator[Ends]:
    async with joined(**options) as (alice, bob):
        both = Ends(alice, bob)
        await both.open()
        yield both


@pytest.mark.parametrize(
    ("method", "size", "representation"),
    [
        (Method.OPPORTUNISTIC, 20, Representation.PACKET),
        (Method.DIRECT, 20, Representation.PACKET),
        (Method.DIRECT, 16_384, Representation.RESOURCE),
    ],
)
async def test_a_letter_is_told_of_at_both_ends(
    method: Method, size: int, representation: Representation
) -> None:
    async with ends() as both:
        call = both.send("x" * size, method)
        raw = await both.next()
        assert (raw.kind, raw.kind_name) == (NODE_CODES["mail"]["RECEIVED"], "RECEIVED")
        assert raw.message is raw.message
        assert raw.message is not None
        assert raw.message.content_text == "x" * size
        assert raw.message.id == raw.id
        assert raw.source is not None
        assert raw.source.public_key == ME.public_key
        assert raw.unverified == Unverified.VERIFIED
        assert (raw.mailbox, raw.peer) == (both.yours, both.mine)
        assert (raw.method, raw.representation) == (method, representation)
        assert raw.packet_hash != bytes(32)
        assert raw.transient_id is None
        assert raw.holds_credit
        assert raw.ticket == 0
        both.bob._driver.free_mail()
        async with asyncio.timeout(PATIENCE):
            await call.wait()
        assert call.reply is not None
        assert call.reply.hash == raw.id
        assert call.mail is both.states[-1]
        assert call.mail.final
        assert call.mail.state == MessageState.DELIVERED
        assert call.mail.progress == 1.0
        assert call.mail.message is None
        figures = (await both.alice._driver.ask("mail_stats", "stats")).records[0]
        assert (figures["sent"], figures["delivered"], figures["letters"]) == (1, 1, 0)


async def test_a_cancelled_call_cancels_its_letter() -> None:
    async with ends() as both:
        call = both.send("never", stamp_cost=60)
        both.alice._driver.cancel(call)
        async with asyncio.timeout(PATIENCE):
            await call.wait()
        assert call.mail is not None
        assert call.mail.state == MessageState.CANCELLED


async def test_a_letter_ends_with_its_node() -> None:
    async with ends() as both:
        call = both.send("never", stamp_cost=60)
        await both.alice.close()
        assert call.done
        assert call.mail is not None
        assert call.mail.state == MessageState.CANCELLED


async def test_what_nobody_takes_gives_its_credit_back() -> None:
    async with ends(credit=2) as both:
        del both.bob._mail[both.yours]
        for number in range(8):
            call = both.send(str(number))
            async with asyncio.timeout(PATIENCE):
                await call.wait()
            assert call.mail is not None
            assert call.mail.state == MessageState.DELIVERED


async def test_refusals_name_their_reason() -> None:
    async with ends() as both:
        driver = both.alice._driver
        with pytest.raises(StateError):
            await driver.ask("mail_cancel", "letter", hash=bytes(32))
        with pytest.raises(NotFoundError):
            await driver.ask("mail_close", "mailbox", destination=both.yours)
        call = both.send("x" * 1000, Method.OPPORTUNISTIC)
        reply = await driver.reply_of(call)
        assert isinstance(failure(reply, "letter"), EncodeError)
        assert call.done
        with pytest.raises(TypeError, match="steps"):
            driver.start("mail_send", data=b"", spec=({}, [1]))
        with pytest.raises(TypeError, match="options, steps"):
            driver.start("mail_send", data=b"", spec={})


async def test_a_mailbox_counts_what_it_drops() -> None:
    async with ends() as both:
        await both.bob._driver.ask("mail_ignore", "source", destination=both.mine, on=True)
        both.send("heard by nobody")
        raw = await both.next()
        assert raw.kind_name == "DROPPED"
        assert raw.dropped is not None
        assert raw.dropped[NODE_CODES["drops"]["IGNORED"]] == 1
        assert not raw.holds_credit


async def test_a_kept_message_has_a_row_of_the_store(tmp_path: Path) -> None:
    left, right = Pipe.pair()
    async with (
        Node(interfaces=[left]) as alice,
        Node(interfaces=[right], storage=tmp_path) as bob,
    ):
        both = Ends(alice, bob)
        with pytest.raises(StateError):
            await opened(alice, 3, keep=True)
        await both.open(keep=True)
        call = both.send("kept")
        raw = await both.next()
        assert raw.row == 1
        assert not raw.holds_credit
        assert raw.message is not None
        assert raw.message.content_text == "kept"
        await bob._driver.ask("mail_ack", "ack", cursor=raw.row)
        async with asyncio.timeout(PATIENCE):
            await call.wait()
        assert call.mail is not None
        assert call.mail.state == MessageState.DELIVERED
    assert (tmp_path / "mail.db").stat().st_size > 0
