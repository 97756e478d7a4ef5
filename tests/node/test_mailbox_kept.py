"""Mailboxes in the node's storage: durable before they are proven, told until acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from netmesh import Node, errors
from netmesh.constants import MessageState, Method
from netmesh.interfaces import Pipe
from netmesh.mailstore import MailStore
from netmesh.messaging import Mailbox, MessageReceived, Policy, Step
from node.lossy import Lossy
from node.nodes import PATIENCE, identity, soon, until

pytestmark = pytest.mark.asyncio

ALICE, BOB = identity(1), identity(2)


@asynccontextmanager
async def post(folder: Path) -> AsyncIterator[tuple[Mailbox, Mailbox]]:
    """A sender in memory, and a mailbox that keeps what comes."""
    left, right = Pipe.pair()
    async with (
        Node(ALICE, interfaces=[left]) as alice,
        Node(BOB, interfaces=[right], storage=folder) as bob,
    ):
        yield await alice.lxmf(), await bob.lxmf()


async def read(inbox: Mailbox, count: int) -> list[str]:
    return [(await inbox.get(timeout=PATIENCE)).content for _ in range(count)]


async def settled(folder: Path, unread: int) -> None:
    """Acknowledgements have reached the file."""
    with MailStore(folder / "mail.db", create=False) as store:
        await until(lambda: store.statistics().unread == unread)


async def test_what_was_not_acknowledged_comes_again_after_a_restart(tmp_path: Path) -> None:
    """L1, L5: asking for the next acknowledges the one before; one row a message."""
    async with post(tmp_path) as (outbox, inbox):
        assert inbox.kept
        assert not outbox.kept
        for number in range(6):
            await outbox.send(inbox.hash, f"{number}", timeout=PATIENCE)
        assert await read(inbox, 3) == ["0", "1", "2"]
        await settled(tmp_path, 4)
    async with post(tmp_path) as (outbox, inbox):
        assert await read(inbox, 2) == ["2", "3"]
        message = await inbox.get(timeout=PATIENCE)
        assert (message.content, message.verified) == ("4", True)
        assert message.time_unix_s > 0
        await message.ack()
        await message.ack()  # quiet
        await settled(tmp_path, 1)
        await outbox.send(inbox.hash, "6", timeout=PATIENCE)
        assert await read(inbox, 2) == ["5", "6"]
        await inbox.ack(message.row or 0)
    async with post(tmp_path) as (outbox, inbox):
        assert await read(inbox, 1) == ["6"]
        with pytest.raises(TimeoutError):
            await inbox.get(timeout=0.05)
        await settled(tmp_path, 0)
        assert inbox.store is not None
        rows = list(inbox.store.messages(mailbox=inbox.hash))
        assert [each.message.content_text for each in rows if each.message] == [*"0123456"]
        (hit,) = inbox.store.search("5", mailbox=inbox.hash)
        assert hit.message.row == rows[5].row


async def test_streams_of_events_hear_of_kept_messages_once(tmp_path: Path) -> None:
    async with post(tmp_path) as (outbox, inbox), inbox._node.events(MessageReceived) as events:
        for text in ("one", "two"):
            await outbox.send(inbox.hash, text, timeout=PATIENCE)
        heard = [(await events.get(timeout=PATIENCE)).content for _ in range(2)]
        assert heard == await read(inbox, 2) == ["one", "two"]
        assert len(events) == 0


async def test_no_reader_is_too_slow(tmp_path: Path) -> None:
    """However many wait, none is refused, and all come in their order."""
    async with post(tmp_path) as (outbox, inbox):
        sending = [outbox.send(inbox.hash, f"{n}", method="direct") for n in range(400)]
        await soon(asyncio.gather(*sending))
        got = await read(inbox, 400)
        assert sorted(got, key=int) == [f"{n}" for n in range(400)]
        assert inbox.dropped == {}


async def test_handlers_acknowledge_when_they_have_ended(tmp_path: Path) -> None:
    """Also those that raise: a message that breaks a program does not come for ever."""
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with post(tmp_path) as (outbox, inbox):
        await outbox.send(inbox.hash, "before", timeout=PATIENCE)
        seen: list[str] = []

        @inbox.on_message
        async def takes(message: MessageReceived) -> None:
            seen.append(message.content)
            if message.content == "bad":
                raise RuntimeError("broken program")

        for text in ("bad", "good"):
            await outbox.send(inbox.hash, text, timeout=PATIENCE)
        await until(lambda: seen == ["before", "bad", "good"])
        await settled(tmp_path, 0)
        assert len(told) == 1


async def test_a_store_can_be_wanted_or_not(tmp_path: Path) -> None:
    async with Node(BOB, shared_instance=False, storage=tmp_path) as bob:
        box = await bob.lxmf(store=False)
        assert not box.kept
        assert box.store is None
        kept = await bob.lxmf(identity(3))
        assert kept.kept
        assert kept.resumed == ()
    async with Node(BOB, shared_instance=False) as bob:
        with pytest.raises(errors.StateError):
            await bob.lxmf(store=True)


PATIENT = Policy((Step(Method.OPPORTUNISTIC), Step(Method.DIRECT)), retry_wait_s=0.3)


@pytest.mark.parametrize("state", ["no path", "sent", "on a link"])
async def test_a_message_goes_on_after_a_restart(tmp_path: Path, state: str) -> None:
    """D2: what was taken is delivered, once, whatever state it was in."""
    left, right = Lossy(), Lossy()
    left.peer, right.peer = right, left
    bob = Node(BOB, interfaces=[right])
    async with bob:
        inbox = await bob.lxmf()
        async with Node(ALICE, interfaces=[left], storage=tmp_path) as alice:
            outbox = await alice.lxmf()
            if state != "no path":
                await alice.path(inbox.hash, timeout=PATIENCE)
            left.loses = lambda packet: True
            size = 3000 if state == "on a link" else 10
            sending = outbox.send(inbox.hash, "x" * size, method=PATIENT)
            await soon(sending.taken())
            if state == "sent":
                await until(lambda: sending.state is MessageState.SENT)
            told = sending.id
        assert sending.state not in (MessageState.FAILED, MessageState.DELIVERED)
        with pytest.raises(errors.StateError):
            await soon(sending)
        again = Lossy()
        again.peer, right.peer = right, again
        async with Node(ALICE, interfaces=[again], storage=tmp_path) as alice:
            outbox = await alice.lxmf()
            (resumed,) = outbox.resumed
            assert resumed.id == told
            assert outbox.outgoing(told) is resumed
            await resumed.taken()
            assert (await soon(resumed)).state is MessageState.DELIVERED
            got = await inbox.get(timeout=PATIENCE)
            assert (got.id, got.content) == (told, "x" * size)
            assert len(inbox) == 0
        async with Node(ALICE, interfaces=[Lossy()], storage=tmp_path) as alice:
            outbox = await alice.lxmf()
            assert outbox.resumed == ()
            assert outbox.store is not None
            stored = outbox.store.get(told)
            assert (stored.state, stored.unfinished) == (MessageState.DELIVERED, False)


async def test_a_resumed_message_can_be_given_up(tmp_path: Path) -> None:
    left = Lossy()
    left.peer = Lossy()
    for attempt in range(2):
        async with Node(ALICE, interfaces=[left], storage=tmp_path) as alice:
            outbox = await alice.lxmf()
            if attempt == 0:
                await soon(outbox.send(identity_hash(), "x").taken())
            else:
                (resumed,) = outbox.resumed
                resumed.cancel()
                with pytest.raises(errors.OperationError) as caught:
                    await soon(resumed)
                assert caught.value.stage == "CANCELLED"
                assert resumed.state is MessageState.CANCELLED


def identity_hash() -> bytes:
    """An address that nobody has."""
    return bytes(range(16))
