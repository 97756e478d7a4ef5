"""LXMF messages between nodes: retries, links that serve both ways, failures, no copies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from netmesh import Identity, Node, _mail_policy, _node_traffic, errors, messaging
from netmesh.constants import Context, LinkState, MessageState, Method, PacketType
from netmesh.messaging import Mailbox, Policy, Step
from netmesh.packet import Packet
from netmesh.records import CloseReason, LinkRecord
from node.lossy import cable
from node.nodes import PATIENCE, joined, soon, until

pytestmark = pytest.mark.asyncio


def data_to(mailbox: Mailbox) -> Any:
    """Says which packets are messages for a mailbox, outside links."""
    return lambda packet: (
        packet.packet_type == PacketType.DATA and bytes(packet.destination) == bytes(mailbox.hash)
    )


def link_requests(packets: list[Packet]) -> int:
    return sum(packet.packet_type == PacketType.LINKREQUEST for packet in packets)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries again after a moment."""
    hurried = {
        name: replace(policy, retry_wait_s=0.2) for name, policy in messaging.POLICIES.items()
    }
    monkeypatch.setattr(_mail_policy, "POLICIES", hurried)


async def links_of(node: Node) -> list[LinkRecord]:
    return [each for each in await node.link_records() if each.state is LinkState.ACTIVE]


async def link_back(node: Node, identity: Identity) -> LinkRecord:
    """The link on which a peer said that it has this identity."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for each in await links_of(node):
                if each.remote_identity == identity.hash:
                    return each
            await asyncio.sleep(0.002)


async def test_a_lost_packet_is_sent_again_until_it_is_proven() -> None:
    async with cable() as (alice, bob, left, _):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        lost: list[Packet] = []

        def loses(packet: Packet) -> bool:
            if data_to(inbox)(packet) and len(lost) < 3:
                lost.append(packet)
                return True
            return False

        left.loses = loses
        sent = await outbox.send(inbox.hash, "again", method="opportunistic", timeout=PATIENCE)
        assert len(lost) == 3
        assert sent.method is Method.OPPORTUNISTIC
        assert (await inbox.get(timeout=PATIENCE)).id == sent.id
        assert link_requests(left.sent) == 0


async def test_a_message_whose_proofs_are_lost_comes_once() -> None:
    async with cable() as (alice, bob, left, right):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        right.loses = lambda packet: (
            packet.packet_type == PacketType.PROOF and link_requests(left.sent) == 0
        )
        sent = await outbox.send(inbox.hash, "once", timeout=PATIENCE)
        assert sent.method is Method.DIRECT  # after two packets without a proof
        assert (await inbox.get(timeout=PATIENCE)).id == sent.id
        await until(lambda: inbox.dropped == {"duplicate": 2})
        assert len(inbox) == 0


async def test_a_late_proof_of_an_earlier_packet_counts() -> None:
    async with cable() as (alice, bob, left, right):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        kept: list[Packet] = []

        def loses(packet: Packet) -> bool:
            if packet.packet_type == PacketType.PROOF:
                kept.append(packet)
                return len(kept) == 1
            return False

        def second_lost(packet: Packet) -> bool:
            return bool(data_to(inbox)(packet)) and len(kept) == 1

        right.loses, left.loses = loses, second_lost
        sending = alice.start_message(
            inbox.hash, "late", identity=outbox.identity, method="opportunistic", timeout=PATIENCE
        )
        await until(lambda: sum(map(data_to(inbox), left.sent)) >= 2)
        assert sending.state is MessageState.SENT
        left.received(kept[0].raw)
        assert (await soon(sending)).method is Method.OPPORTUNISTIC
        assert sending.state is MessageState.DELIVERED


async def test_unproven_packets_end_as_a_failure_of_the_proof() -> None:
    twice = Policy((Step(Method.OPPORTUNISTIC, attempts=2),), retry_wait_s=0.2)
    async with cable() as (alice, bob, left, _):
        await alice.lxmf()
        inbox = await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        left.loses = data_to(inbox)
        sending = alice.start_message(inbox.hash, "lost", method=twice)
        with pytest.raises(errors.ProofError) as caught:
            await soon(sending)
        assert (caught.value.stage, caught.value.reason) == ("PROOF", "TIMEOUT")
        assert caught.value.destination == inbox.hash
        assert sending.state is MessageState.FAILED
        assert sum(map(data_to(inbox), left.sent)) == 2


async def test_after_two_lost_packets_the_path_is_asked_for_again() -> None:
    async with cable() as (alice, bob, left, right):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        left.loses = data_to(inbox)
        seen = len(right.sent)
        sending = alice.start_message(
            inbox.hash, "lost", identity=outbox.identity, method="opportunistic"
        )

        def answered() -> bool:
            new = right.sent[seen:]
            return any(packet.context == Context.PATH_RESPONSE for packet in new)

        await until(answered)
        assert sum(map(data_to(inbox), left.sent)) >= 2
        left.loses = lambda packet: False
        await soon(sending)


async def test_answers_take_the_link_that_the_sender_opened_and_identified_on() -> None:
    """D12: 100 messages there and 100 back need one link."""
    async with cable() as (alice, bob, left, right):
        hers, his = await alice.lxmf(), await bob.lxmf()
        first = await hers.send(his.hash, "hello", method="direct", timeout=PATIENCE)
        assert first.method is Method.DIRECT
        assert (await his.get(timeout=PATIENCE)).verified
        await link_back(bob, alice.identity)
        for number in range(100):
            size = 100 if number % 2 else 2000  # a packet, a resource
            back = await his.send(hers.hash, "x" * size, method="direct", timeout=PATIENCE)
            answer = await hers.get(timeout=PATIENCE)
            assert (answer.id, answer.verified) == (back.id, True)
            await hers.send(his.hash, "again", method="direct", timeout=PATIENCE)
            assert (await his.get(timeout=PATIENCE)).content == "again"
        assert link_requests(left.sent) == 1
        assert link_requests(right.sent) == 0


async def test_a_sender_identifies_after_its_first_delivery_and_not_before() -> None:
    async with cable() as (alice, bob, left, _):
        hers, his = await alice.lxmf(), await bob.lxmf()
        await alice.path(his.hash, timeout=PATIENCE)
        await hers.send(his.hash, "hello", method="direct", timeout=PATIENCE)
        contexts = [packet.context for packet in left.sent]
        await link_back(bob, alice.identity)
        assert Context.LINKIDENTIFY not in contexts


async def test_a_sender_without_a_mailbox_does_not_identify() -> None:
    async with cable() as (alice, bob, left, _):
        his = await bob.lxmf(verify_timeout=0)
        await alice.send_message(his.hash, "anonymous", method="direct", timeout=PATIENCE)
        received = await his.get(timeout=PATIENCE)
        assert not received.verified
        assert received.identity is None
        assert [each.remote_identity for each in await links_of(bob)] == [None]
        assert not any(packet.context == Context.LINKIDENTIFY for packet in left.sent)


async def test_when_the_answering_link_is_gone_a_new_one_is_opened() -> None:
    async with cable() as (alice, bob, _, right):
        hers, his = await alice.lxmf(), await bob.lxmf()
        await hers.send(his.hash, "hello", method="direct", timeout=PATIENCE)
        link = await link_back(bob, alice.identity)
        await bob._ask("link_close", "link", link=link.link)
        await his.send(hers.hash, "back", method="direct", timeout=PATIENCE)
        assert link_requests(right.sent) == 1
        assert (await hers.get(timeout=PATIENCE)).content == "back"


async def test_a_link_that_dies_is_opened_again() -> None:
    async with cable() as (alice, bob, left, _):
        hers, his = await alice.lxmf(), await bob.lxmf()
        await hers.send(his.hash, "hello", method="direct", timeout=PATIENCE)
        (link,) = await links_of(alice)
        left.loses = lambda packet: bytes(packet.destination) == link.link_id
        sending = alice.start_message(
            his.hash, "again", identity=hers.identity, method="direct", timeout=PATIENCE
        )
        await until(lambda: sending.state is MessageState.SENDING)
        alice._driver.post("link_close", link=link.link)
        delivery = await soon(sending)
        reasons = {each.link: each.reason for each in await alice.link_records()}
        assert reasons.get(link.link, CloseReason.INITIATOR) is CloseReason.INITIATOR
        assert delivery.method is Method.DIRECT
        assert link_requests(left.sent) == 2


async def test_each_failure_of_a_message_says_where() -> None:
    """F13: no path, no keys of a link, a refusal, a message too long for its method."""
    async with joined() as (alice, bob):
        await alice.lxmf()
        with pytest.raises(errors.PathError) as path:
            await alice.send_message(bytes(16), "x", timeout=0.2)
        assert (path.value.stage, path.value.reason) == ("PATH", "TIMEOUT")
        small = await bob.lxmf(limit_kb=1)
        with pytest.raises(errors.RefusedError) as refused:
            await alice.send_message(small.hash, "x" * 3000, timeout=PATIENCE)
        assert refused.value.stage == "REFUSED"
        with pytest.raises(errors.EncodeError):
            await alice.send_message(small.hash, "x" * 3000, method="opportunistic")
        with pytest.raises(ValueError, match="method"):
            await alice.send_message(small.hash, "x", method="pigeon")  # type: ignore[arg-type]
        await alice.path(small.hash, timeout=PATIENCE)
        for each in await links_of(alice):
            await alice._ask("link_close", "link", link=each.link)
        await bob.interfaces()[0].pause()
        with pytest.raises(errors.LinkError) as link:
            await alice.send_message(small.hash, "x", method="direct", timeout=0.5)
        assert link.value.stage == "LINK"
        with pytest.raises(errors.ProofError) as proof:
            await alice.send_message(small.hash, "x", method="opportunistic", timeout=0.3)
        assert proof.value.stage == "PROOF"


async def test_a_cancelled_message_ends_as_cancelled() -> None:
    async with cable() as (alice, bob, left, _):
        inbox = await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        left.loses = lambda packet: True
        sending = alice.start_message(inbox.hash, "x")
        await until(lambda: sending.state is MessageState.SENT)
        sending.cancel()
        with pytest.raises(errors.OperationError) as caught:
            await soon(sending)
        assert caught.value.stage == "CANCELLED"
        assert sending.state is MessageState.CANCELLED
        waiting = alice.start_message(inbox.hash, "y")
        with pytest.raises(TimeoutError):
            await waiting.wait(timeout=0.05)
        await until(lambda: waiting.state is MessageState.CANCELLED)
        await until(lambda: alice.stats().engine.operations == 0)


async def test_a_callback_that_raises_does_not_undo_a_delivery() -> None:
    """D3, F4: the next message is told of as well."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with joined() as (alice, bob):
        outbox = await alice.lxmf()
        seen: list[str] = []

        def on_message(message: messaging.MessageReceived) -> None:
            seen.append(message.content)
            raise RuntimeError("broken program")

        inbox = await bob.lxmf(on_message=on_message)
        for text in ("one", "two"):
            delivery = await outbox.send(inbox.hash, text, timeout=PATIENCE)
            assert delivery.id
        await until(lambda: len(seen) == 2)
        assert [type(each["exception"]) for each in told] == [RuntimeError, RuntimeError]


async def test_messages_from_a_blackholed_identity_are_not_told() -> None:
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await outbox.send(inbox.hash, "first", timeout=PATIENCE)
        await inbox.get(timeout=PATIENCE)
        await bob.blackhole(alice.identity.hash)
        await outbox.send(inbox.hash, "second", timeout=PATIENCE)
        await until(lambda: inbox.dropped == {"blackholed": 1})
        assert len(inbox) == 0


async def test_a_lost_link_request_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_node_traffic, "establishment_timeout", lambda hops, bitrate: 0.05)
    async with cable() as (alice, bob, left, _):
        echo = await bob.listen("test.echo")
        left.loses = lambda packet: (
            packet.packet_type == PacketType.LINKREQUEST and link_requests(left.sent) == 1
        )
        link = await alice.connect(echo.hash, timeout=1.0)
        assert link_requests(left.sent) == 2
        assert not link.closed


async def test_a_link_request_has_half_of_the_time_or_what_its_length_demands() -> None:
    for left, hops, halved in (
        (None, 1, False),
        (5.0, 1, False),
        (23.9, 1, False),
        (24.0, 1, True),
        (60.0, 1, True),
        (24.0, 2, False),
        (36.0, 2, True),
        (1e6, 127, True),
    ):
        assert (hops < _node_traffic._hops_with_retry(left)) is halved
