"""Mailboxes: what can be said and asked of them, by the ids of the capabilities they give."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from netmesh import Node, errors
from netmesh.constants import Field, MessageState, Method, PacketType, SyncState
from netmesh.interfaces import Pipe, TCPClient, TCPServer
from netmesh.lxmf import (
    DeliveryAppData,
    Message,
    Propagated,
    PropagationAppData,
    container_unpack,
    delivery_hash,
    ticket_stamp,
)
from netmesh.messaging import (
    POLICIES,
    DeliveryUpdate,
    Mailbox,
    MessageReceived,
    Policy,
    Step,
)
from node.lossy import cable
from node.nodes import PATIENCE, identity, joined, soon, until

pytestmark = pytest.mark.asyncio


# ---------------------------------------------------------------------------- policies


async def test_a_policy_says_what_it_cannot_be() -> None:
    assert Policy.of("direct").methods == (Method.DIRECT,)
    assert Policy.of(Method.PROPAGATED).methods == (Method.PROPAGATED,)
    assert POLICIES["auto"].methods == (Method.OPPORTUNISTIC, Method.DIRECT, Method.PROPAGATED)
    own = Policy((Step(Method.DIRECT, budget_s=3),))
    assert Policy.of(own) is own
    for wrong in (
        lambda: Policy(()),
        lambda: Policy((Step(Method.DIRECT),) * 5),
        lambda: Policy((Step(Method.DIRECT),), retry_wait_s=0),
        lambda: Step(Method.PAPER),
        lambda: Step(Method.DIRECT, budget_s=-1),
        lambda: Step(Method.DIRECT, budget_s=float("nan")),
        lambda: Step(Method.DIRECT, attempts=0),
        lambda: Policy.of("pigeon"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=r"method|attempts|budget_s|retry_wait_s|steps"):
            wrong()


async def test_the_steps_of_a_policy_follow_each_other() -> None:
    """D4: packets for a while, then a link."""
    policy = Policy(
        (Step(Method.OPPORTUNISTIC, budget_s=0.3), Step(Method.DIRECT)), retry_wait_s=0.2
    )
    async with cable() as (alice, bob, left, _):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        left.loses = lambda packet: (
            packet.destination == inbox.hash and (packet.packet_type == PacketType.DATA)
        )
        sending = outbox.send(inbox.hash, "x", method=policy, timeout=PATIENCE)
        delivery = await soon(sending)
        assert delivery.method is Method.DIRECT
        assert sending.method is Method.DIRECT
        assert (await inbox.get(timeout=PATIENCE)).method is Method.DIRECT


# --------------------------------------------------------------------- the mailbox (L1, L2, L3)


async def test_several_mailboxes_of_a_node_and_of_a_process() -> None:
    """L1: address and identity at once, several per node and process, an orderly close."""
    async with joined() as (alice, bob):
        outbox = await alice.lxmf()
        boxes = [await bob.lxmf(identity(number), display_name=f"{number}") for number in (5, 6)]
        async with await bob.lxmf() as own:
            assert own.hash == delivery_hash(bob.identity)
            for number, box in zip((5, 6), boxes, strict=True):
                assert box.identity.hash == identity(number).hash
                assert box.hash == delivery_hash(identity(number))
                await outbox.send(box.hash, f"for {number}", timeout=PATIENCE)
                message = await box.get(timeout=PATIENCE)
                assert (message.content, message.mailbox) == (f"for {number}", box.hash)
            with pytest.raises(errors.StateError):
                await bob.lxmf()
        assert own.closed
        await own.close()  # quiet
        with pytest.raises(errors.StateError):
            own.send(outbox.hash, "x")
        with pytest.raises(errors.StateError):
            await own.get(timeout=PATIENCE)
        again = await bob.lxmf()
        await outbox.send(again.hash, "again", timeout=PATIENCE)
        assert (await again.get(timeout=PATIENCE)).content == "again"


async def test_interfaces_come_after_the_mailbox() -> None:
    """L2."""
    async with Node(shared_instance=False) as bob, Node(shared_instance=False) as alice:
        inbox, outbox = await bob.lxmf(), await alice.lxmf()
        server = await bob.add_interface(TCPServer("127.0.0.1"))
        client = await alice.add_interface(TCPClient("127.0.0.1", server.port or 0))
        await client.wait_online(timeout=PATIENCE)
        await outbox.send(inbox.hash, "late", timeout=PATIENCE)
        assert (await inbox.get(timeout=PATIENCE)).verified


async def test_announces_say_what_the_mailbox_is() -> None:
    """L3: on demand; then path and identity are there."""
    async with joined() as (alice, bob):
        inbox = await bob.lxmf(display_name="Bob", stamp_cost=3)
        async with alice.announces() as heard:
            await inbox.announce(timeout=PATIENCE)
            told = DeliveryAppData.unpack((await heard.get(timeout=PATIENCE)).app_data)
            assert (told.display_name, told.stamp_cost) == ("Bob", 3)
            assert await alice.has_path(inbox.hash)
            known = await alice.recall(inbox.hash)
            assert known is not None
            assert known.identity.hash == bob.identity.hash
            await inbox.describe(display_name="Robert", stamp_cost=9)
            assert (inbox.display_name, inbox.stamp_cost) == ("Robert", 9)
            await inbox.announce(timeout=PATIENCE)
            told = DeliveryAppData.unpack((await heard.get(timeout=PATIENCE)).app_data)
            assert (told.display_name, told.stamp_cost) == ("Robert", 9)
        with pytest.raises(ValueError, match="mailbox"):
            await bob.lxmf(identity(9), stamp_cost=255)


# ------------------------------------------------------------------------- sending (L4, L7)


async def test_the_id_is_known_when_send_returns_and_states_move_forward() -> None:
    """L4: state by id, with upstream's names, monotonic; its progress can be followed."""
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        sending = outbox.send(inbox.hash, "y" * 200_000, method="direct", timeout=PATIENCE)
        assert sending.id == sending.message.id
        assert outbox.outgoing(sending.id) is sending
        assert inbox.outgoing(sending.id) is None
        seen: list[DeliveryUpdate] = []
        async with asyncio.timeout(PATIENCE):
            async for update in sending.updates():
                seen.append(update)
        states = [each.state for each in seen]
        assert states == sorted(states)
        assert states[-1] is MessageState.DELIVERED
        assert MessageState.SENDING in states
        progress = [each.progress for each in seen]
        assert progress == sorted(progress)
        assert progress[-1] == 1.0
        assert [each.done for each in seen] == [False] * (len(seen) - 1) + [True]
        assert (sending.state, sending.progress, sending.done) == (states[-1], 1.0, True)
        assert (await inbox.get(timeout=PATIENCE)).id == sending.id
        (last,) = [each async for each in sending.updates()]  # of one that has ended
        assert last.done
        await sending.taken()


async def test_exactly_one_method_and_an_error_when_the_message_does_not_fit_it() -> None:
    """L4, N5: nothing is sent by another way."""
    async with cable() as (alice, bob, left, _):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await alice.path(inbox.hash, timeout=PATIENCE)
        before = len(left.sent)
        fits, too_long = "x" * 287, "x" * 288  # LXMF 3.2
        with pytest.raises(errors.EncodeError) as caught:
            await outbox.send(inbox.hash, too_long, method="opportunistic")
        assert caught.value.reason == "TOO_LARGE"
        refused = outbox.send(inbox.hash, too_long, method=Method.OPPORTUNISTIC)
        with pytest.raises(errors.EncodeError):
            await refused.taken()
        assert refused.state is MessageState.FAILED
        assert len(left.sent) == before
        with pytest.raises(errors.NotFoundError):
            await outbox.send(inbox.hash, "x", method="propagated")
        for method in (Method.OPPORTUNISTIC, Method.DIRECT):
            sent = await outbox.send(inbox.hash, fits, method=method, timeout=PATIENCE)
            assert sent.method is method
            assert (await inbox.get(timeout=PATIENCE)).method is method


async def test_messages_are_packed_with_what_they_are_given() -> None:
    """L7: a given timestamp, stamp and ticket; messages packed elsewhere."""
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf(stamp_cost=24)
        ticket = bytes(range(16))
        sending = outbox.send(inbox.hash, "x", timestamp=1234.5, ticket=ticket, timeout=PATIENCE)
        assert sending.message.stamp == ticket_stamp(ticket, sending.id)
        await soon(sending)
        got = await inbox.get(timeout=PATIENCE)
        assert (got.timestamp, got.message.stamp) == (1234.5, sending.message.stamp)
        assert got.stamp_valid is False
        stamp = bytes(32)
        await outbox.send(inbox.hash, "y", stamp=stamp, timeout=PATIENCE)
        assert (await inbox.get(timeout=PATIENCE)).message.stamp == stamp
        packed = Message.create(alice.identity, inbox.hash, "z", timestamp=7.0)
        delivery = await soon(outbox.send_packed(packed))
        assert delivery.id == packed.id
        got = await inbox.get(timeout=PATIENCE)
        assert (got.id, got.message.packed, got.timestamp) == (packed.id, packed.packed, 7.0)
        with pytest.raises(ValueError, match="sender"):
            inbox.send_packed(packed)


async def test_tickets_take_the_place_of_work() -> None:
    """Given in a message, used by its recipient, not given again at once."""
    async with joined() as (alice, bob):
        outbox = await alice.lxmf()
        inbox = await bob.lxmf(stamp_cost=20, enforce_stamps=True)
        await outbox.announce()
        await alice.path(inbox.hash, timeout=PATIENCE)
        ticket = await inbox.issue_ticket(outbox.hash)
        assert ticket is not None
        assert ticket.expires_unix_s > time.time() + 20 * 86400
        assert ticket.secret.hex() not in repr(ticket)
        await inbox.send(outbox.hash, "come in", gives=ticket, timeout=PATIENCE)
        given = (await outbox.get(timeout=PATIENCE)).fields[Field.TICKET]
        assert given == [ticket.expires_unix_s, ticket.secret]
        with pytest.raises(ValueError, match="somebody else"):
            inbox.send(inbox.hash, "x", gives=ticket)
        await outbox.send(inbox.hash, "thanks", stamp_cost="announced", timeout=PATIENCE)
        got = await inbox.get(timeout=PATIENCE)
        assert (got.stamp_valid, got.stamp_value) == (True, 256)
        assert await inbox.issue_ticket(outbox.hash) is None


# ----------------------------------------------------------------------- receiving (L5)


async def test_a_received_message_has_all_its_parts() -> None:
    """L5: hash, addresses, title, content, any fields, its method and time."""
    fields: dict[Any, Any] = {1: b"x", 300: ["a", None, 1.5, {b"k": -1}], 0xFB: True}
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        for method in (Method.OPPORTUNISTIC, Method.DIRECT):
            before = time.time()
            sent = await outbox.send(
                inbox.hash, "žluť", title="👋", fields=fields, method=method, timeout=PATIENCE
            )
            got = await inbox.get(timeout=PATIENCE)
            assert (got.id, got.method) == (sent.id, method)
            assert (got.source, got.message.destination_hash) == (outbox.hash, inbox.hash)
            assert (got.title, got.content, got.fields) == ("👋", "žluť", fields)
            assert before - 1 < got.time_unix_s < time.time() + 1
            assert before - 1 < got.timestamp < time.time() + 1
            assert got.identity is not None
            assert got.identity.hash == alice.identity.hash
            assert got.interface == bob.interfaces()[0].id
            assert (got.rssi_dbm, got.snr_db, got.quality_pct) == (None, None, None)
            assert len(got.packet_hash) == 32
            assert any(got.packet_hash)
            assert got.transient_id is None


async def test_the_same_message_by_two_ways_is_told_of_once() -> None:
    """L5, D1."""
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        packed = Message.create(alice.identity, inbox.hash, "once")
        for method in ("opportunistic", "direct"):
            await soon(outbox.send_packed(packed, method=method))
        sealed = Propagated.create(packed, bob.identity.public_only())
        await inbox.ingest(sealed.lxmf_data)
        await until(lambda: inbox.dropped == {"duplicate": 2})
        assert (await inbox.get(timeout=PATIENCE)).id == packed.id
        assert len(inbox) == 0


async def test_a_message_on_paper_is_taken_in() -> None:
    """What is for somebody else, damaged or known is refused by name."""
    async with Node(shared_instance=False) as bob:
        inbox = await bob.lxmf(verify_timeout=0)
        message = Message.create(identity(3), inbox.hash, "on paper")
        sealed = Propagated.create(message, bob.identity.public_only())
        await inbox.ingest(sealed.lxmf_data)
        got = await inbox.get(timeout=PATIENCE)
        assert (got.method, got.transient_id) == (Method.PAPER, sealed.transient_id)
        assert got.packet_hash == bytes(32)
        with pytest.raises(errors.StateError):
            await inbox.ingest(sealed.lxmf_data)
        with pytest.raises(errors.NotFoundError):
            await inbox.ingest(bytes(200))
        with pytest.raises(errors.DecodeError):
            await inbox.ingest(bytes(10))


async def test_an_answer_names_the_message_and_goes_back_over_its_link() -> None:
    """D12."""
    async with cable() as (alice, bob, _, right):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        sent = await outbox.send(inbox.hash, "well?", title="t", method="direct", timeout=PATIENCE)
        message = await inbox.get(timeout=PATIENCE)
        delivery = await soon(message.reply("well", method="direct", timeout=PATIENCE))
        assert delivery.method is Method.DIRECT
        answer = await outbox.get(timeout=PATIENCE)
        assert (answer.content, answer.title) == ("well", "t")
        assert answer.fields == {int(Field.REPLY_TO): sent.id}
        assert not any(each.packet_type == PacketType.LINKREQUEST for each in right.sent)
        await soon(answer.reply("bare", title="", reference=False, timeout=PATIENCE))
        assert (await inbox.get(timeout=PATIENCE)).fields == {}


async def test_ignored_sources_are_not_told_of_and_do_not_learn_it() -> None:
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await inbox.ignore(outbox.hash)
        assert (await outbox.send(inbox.hash, "noise", timeout=PATIENCE)).id
        await until(lambda: inbox.dropped == {"ignored": 1})
        await inbox.ignore(outbox.hash, False)
        await outbox.send(inbox.hash, "sense", timeout=PATIENCE)
        assert (await inbox.get(timeout=PATIENCE)).content == "sense"


async def test_a_full_mailbox_makes_its_senders_wait() -> None:
    """Nothing is proven that nobody reads, and nothing that was proven is lost."""
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        other = await bob.lxmf(identity(5))
        await outbox.send(inbox.hash, "0", timeout=PATIENCE)
        hurried = Policy((Step(Method.DIRECT),), retry_wait_s=0.2)
        sending = [outbox.send(inbox.hash, f"{n}", method=hurried) for n in range(1, 300)]
        await until(lambda: len(inbox) >= 256)
        # The other mailbox is not held up.
        await outbox.send(other.hash, "free", method="opportunistic", timeout=PATIENCE)
        assert (await other.get(timeout=PATIENCE)).content == "free"
        got = set()
        while len(got) < 300:
            got.add((await inbox.get(timeout=PATIENCE)).content)
        assert got == {f"{n}" for n in range(300)}
        await soon(asyncio.gather(*sending))
        assert len(inbox) == 0


# ------------------------------------------------------------------------------- handlers


async def test_handlers_are_called_in_order_whatever_one_raises() -> None:
    """D3, F4: the exception goes to the event loop's handler, the delivery is not touched."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with joined() as (alice, bob):
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        called: list[str] = []

        @inbox.on_message
        def broken(message: MessageReceived) -> None:
            called.append(f"broken {message.content}")
            raise RuntimeError("broken program")

        @inbox.on_message
        async def answers(message: MessageReceived) -> None:
            called.append(f"answers {message.content}")
            await message.reply("yes")

        for text in ("one", "two"):
            assert (await outbox.send(inbox.hash, text, timeout=PATIENCE)).id
            assert (await outbox.get(timeout=PATIENCE)).content == "yes"
        assert called == ["broken one", "answers one", "broken two", "answers two"]
        assert [type(each["exception"]) for each in told] == [RuntimeError, RuntimeError]
        assert len(inbox) == 0


# --------------------------------------------------------------------- propagation nodes (L6)


@dataclass
class Postmaster:
    """A propagation node for tests: keeps what is left with it, until it is acknowledged."""

    node: Node
    cost: int = 2
    refuses: int | None = None
    kept: dict[bytes, bytes] = field(default_factory=dict)
    stamps: list[int] = field(default_factory=list)
    identified: list[Any] = field(default_factory=list)
    hash: Any = None

    async def open(self, *readers: Node) -> None:
        said = PropagationAppData(
            time=int(time.time()),
            active=True,
            transfer_limit_kb=64,
            sync_limit_kb=1000,
            stamp_cost=self.cost,
            flexibility=0,
            peering_cost=18,
        )
        local = await self.node.listen(
            "lxmf.propagation",
            prove="all",
            resources="all",
            app_data=said.pack(),
            on_link_packet=lambda link, packet: self.take(link, packet.data),
            on_resource=lambda link, resource: self.take(link, resource.data),
        )
        allow = [each.identity.hash for each in readers]
        await local.add_handler("/get", self.get, allow=allow)
        self.hash = local.hash

    def take(self, link: Any, data: bytes) -> None:
        self.identified.append(link.remote_identity)
        _, elements = container_unpack(data)
        for element in elements:
            sealed = Propagated.from_stamped(element)
            self.stamps.append(sealed.stamp_value())
            self.kept[sealed.transient_id] = sealed.lxmf_data

    def get(self, request: Any) -> Any:
        if self.refuses is not None:
            return self.refuses
        want, have, *_ = request.data
        mine = delivery_hash(request.identity)
        for each in have or ():
            self.kept.pop(each, None)
        held = {key: data for key, data in self.kept.items() if data[:16] == bytes(mine)}
        if want is None and have is None:
            return list(held)
        return [held[each] for each in want or () if each in held]


@asynccontextmanager
async def post_office(**how: Any) -> AsyncIterator[tuple[Mailbox, Mailbox, Postmaster]]:
    """Two mailboxes and a propagation node between them, which carries nothing itself."""
    (left, hub_left), (right, hub_right) = Pipe.pair(), Pipe.pair()
    async with (
        Node(interfaces=[hub_left, hub_right]) as hub,
        Node(interfaces=[left]) as alice,
        Node(interfaces=[right]) as bob,
    ):
        master = Postmaster(hub, **how)
        await master.open(alice, bob)
        outbox, inbox = await alice.lxmf(), await bob.lxmf()
        await alice.remember(inbox.hash, bob.identity.public_only())
        await bob.remember(outbox.hash, alice.identity.public_only())
        yield outbox, inbox, master


@pytest.mark.parametrize("size", [20, 5000])
async def test_messages_are_left_at_a_node_and_fetched(size: int) -> None:
    """L6, D4, D5, D8: a stamp of the announced cost, no identity shown, exactly once."""
    async with post_office() as (outbox, inbox, master):
        await outbox.set_node(master.hash)
        assert outbox._node.propagation_node == master.hash
        sending = outbox.send(inbox.hash, "x" * size, method="propagated", timeout=PATIENCE)
        delivery = await soon(sending)
        assert (delivery.state, delivery.method) == (MessageState.SENT, Method.PROPAGATED)
        assert (sending.state, sending.done) == (MessageState.SENT, True)
        assert master.identified == [None]
        assert master.stamps[0] >= 2
        kept = await inbox.sync(master.hash, retain=True, timeout=PATIENCE)
        assert (kept.ok, kept.state, kept.reason) == (True, SyncState.COMPLETE, "")
        assert (kept.node, kept.received, kept.duplicates) == (master.hash, 1, 0)
        assert len(master.kept) == 1
        got = await inbox.get(timeout=PATIENCE)
        assert (got.id, got.method, got.verified) == (sending.id, Method.PROPAGATED, True)
        assert got.content == "x" * size
        assert got.transient_id in master.kept
        again = await inbox.sync(master.hash, timeout=PATIENCE)
        assert (again.state, again.received) == (SyncState.COMPLETE, 0)
        assert not master.kept
        assert inbox.sync_state is SyncState.COMPLETE
        assert len(inbox) == 0


async def test_the_cost_of_a_node_can_be_given() -> None:
    """L6."""
    async with post_office(cost=1) as (outbox, inbox, master):
        await outbox.set_node(master.hash, stamp_cost=9)
        await outbox.send(inbox.hash, "x", method="propagated", timeout=PATIENCE)
        assert master.stamps[0] >= 9
        await outbox.set_node(None)
        with pytest.raises(errors.NotFoundError):
            await outbox.send(inbox.hash, "x", method="propagated")


async def test_a_fetch_says_how_it_ended() -> None:
    """L6: a state, a count and a reason."""
    async with post_office(refuses=0xF1) as (_, inbox, master):
        with pytest.raises(errors.NotFoundError):
            await inbox.sync()
        refused = await inbox.sync(master.hash, timeout=PATIENCE)
        assert (refused.ok, refused.state, refused.reason) == (
            False,
            SyncState.NO_ACCESS,
            "NO_ACCESS",
        )
        late = await inbox.sync(delivery_hash(identity(8)), timeout=0.2)
        assert (late.state, late.reason) == (SyncState.PATH_REQUESTED, "TIMEOUT")
        fetching = asyncio.ensure_future(inbox.sync(delivery_hash(identity(8))))
        await until(lambda: inbox.sync_state is SyncState.PATH_REQUESTED)
        with pytest.raises(errors.StateError):
            await inbox.sync(master.hash)
        await inbox.cancel_sync()
        cancelled = await soon(fetching)
        assert (cancelled.state, cancelled.reason) == (SyncState.IDLE, "CANCELLED")
        await inbox.cancel_sync()  # quiet
        master.refuses = None
        assert (await inbox.sync(master.hash, timeout=PATIENCE)).received == 0


async def test_who_is_not_there_is_reached_by_the_node() -> None:
    """D4: packets, a link, then the propagation node; the recipient fetches it."""
    hurried = Policy(
        (
            Step(Method.OPPORTUNISTIC, attempts=1),
            Step(Method.DIRECT, budget_s=0.5),
            Step(Method.PROPAGATED),
        ),
        retry_wait_s=0.2,
    )
    async with post_office() as (outbox, inbox, master):
        await outbox.set_node(master.hash)
        delivery = await soon(outbox.send(inbox.hash, "later", method=hurried))
        assert delivery.state is MessageState.SENT
        assert (await inbox.sync(master.hash, timeout=PATIENCE)).received == 1
        assert (await inbox.get(timeout=PATIENCE)).id == delivery.id
