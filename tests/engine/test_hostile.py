"""A peer that holds valid keys and lies: nothing it says harms more than its own link."""

from __future__ import annotations

import math
import struct
from random import Random

import pytest

from engine.attacks import Attack, advertisement, attack
from engine.wires import MONO, UNIX, Net, identity, pair
from golden import ruled
from netmesh import Engine, Identity, Packet
from netmesh.constants import Context, LinkState, PacketType
from netmesh.crypto import full_hash
from netmesh.destination import path_hash
from netmesh.engine import EngineLink
from netmesh.errors import LimitReached, StateError
from netmesh.events import (
    LinkActive,
    LinkClosed,
    LinkIdentified,
    LinkPacketReceived,
    ReceiptDone,
    RequestReceived,
    ResourceOffered,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.link import LinkRequest, identify_pack
from netmesh.msgpack import packb
from netmesh.records import CloseReason, DropReason, Limits, ReceiptState

TEST_PATH = "/test"
PATH_HASH = path_hash(TEST_PATH)


# --------------------------------------------------------------------- identify and close


def forged_identities(at: Attack, who: Identity) -> list[bytes]:
    """Payloads of which none identifies anybody on this link."""
    right = identify_pack(at.own.info.link_id, who)
    other = identity(9)
    return [
        identify_pack(bytes(16), who),  # of another link
        other.public_key + right[64:],  # another's key
        right[:64] + other.sign(at.own.info.link_id + who.public_key),  # another's signature
        right[:-1],
        right + b"\0",
        right[:127] + bytes([right[127] ^ 1]),
        bytes(128),
        b"",
    ]


def test_a_forged_identity_is_not_believed() -> None:
    at = attack()
    for payload in forged_identities(at, identity(3)):
        assert at.lie(payload, Context.LINKIDENTIFY) == DropReason.LINK_PAYLOAD
    assert at.told(LinkIdentified) == []
    assert at.own.info.remote_identity is None
    at.is_unharmed()


def test_only_the_initiator_identifies_itself() -> None:
    at = attack(responder=False)
    right = identify_pack(at.own.info.link_id, identity(3))
    assert at.lie(right, Context.LINKIDENTIFY) == DropReason.LINK_STATE
    assert at.told(LinkIdentified) == []
    at.is_unharmed()


def test_who_was_identified_stays_so() -> None:
    """A second identity, and the first once more, change and tell nothing."""
    at = attack()
    link_id = at.own.info.link_id
    assert not at.lie(identify_pack(link_id, identity(3)), Context.LINKIDENTIFY)
    for who in (4, 3):
        at.lie(identify_pack(link_id, identity(who)), Context.LINKIDENTIFY)
    (event,) = at.told(LinkIdentified)
    assert event.identity == identity(3).hash == at.own.info.remote_identity
    at.is_unharmed()


@pytest.mark.parametrize("responder", [True, False])
def test_only_the_links_own_id_closes_it(responder: bool) -> None:
    at = attack(responder)
    link_id = at.own.info.link_id
    for payload in (b"", bytes(16), link_id[:-1], link_id + b"\0", link_id[::-1]):
        assert at.lie(payload, Context.LINKCLOSE) == DropReason.LINK_PAYLOAD
    # The id in clear, as an eavesdropper would send it.
    for payload in (link_id, link_id * 3, bytes(64)):
        forged = Packet(
            destination=link_id,
            destination_type=3,
            payload=payload,
            context=Context.LINKCLOSE,
        )
        verdict = at.victim.input(at.wire.at(at.victim), forged.raw)
        assert verdict.reason == DropReason.DECRYPT
    at.is_unharmed()
    assert not at.lie(link_id, Context.LINKCLOSE)
    reason = CloseReason.INITIATOR if responder else CloseReason.DESTINATION
    assert [event.reason for event in at.told(LinkClosed)] == [reason]


@pytest.mark.parametrize("responder", [True, False])
def test_a_keepalive_of_the_wrong_side_is_refused(responder: bool) -> None:
    at = attack(responder)
    wrong = b"\xfe" if responder else b"\xff"
    for payload in (wrong, b"\0", b"\xff\xff", wrong * 2):
        assert at.lie(payload, Context.KEEPALIVE) == DropReason.LINK_PAYLOAD
    assert at.frames() == []
    at.is_unharmed()


# ---------------------------------------------------------------------------- handshake

RTTS = {
    "nan": struct.pack(">Bd", 0xCB, math.nan),
    "inf": struct.pack(">Bd", 0xCB, math.inf),
    "minus inf": struct.pack(">Bd", 0xCB, -math.inf),
    "nan32": struct.pack(">Bf", 0xCA, math.nan),
    "inf32": struct.pack(">Bf", 0xCA, math.inf),
    "huge": struct.pack(">Bd", 0xCB, 1.7e308),
    "negative": struct.pack(">Bd", 0xCB, -5.0),
    "very negative": struct.pack(">Bd", 0xCB, -1.7e308),
    "subnormal": struct.pack(">Bd", 0xCB, 5e-324),
    "zero": struct.pack(">Bd", 0xCB, 0.0),
    "float32": struct.pack(">Bf", 0xCA, 0.25),
    "fixint": b"\x01",
    "uint64": b"\xcf" + b"\xff" * 8,
    "int64": b"\xd3\x80" + bytes(7),
    "trailing": struct.pack(">Bd", 0xCB, 0.25) + b"junk",
    "nil": b"\xc0",
    "text": b"\xa41.25",
    "array": b"\x91\x01",
    "true": b"\xc3",
    "cut off": b"\xcb\x00",
    "empty": b"",
}
REFUSED = {
    "nan", "inf", "minus inf", "nan32", "inf32", "nil", "text", "array", "true", "cut off", "empty"
}  # fmt: skip


@pytest.mark.parametrize("name", RTTS)
def test_a_told_round_trip_time_is_bounded_or_refused(name: str) -> None:
    net, a, b, wire = pair()
    own = net.listen(b)
    verdicts = []

    def tell(sender: Engine, raw: bytes) -> list[bytes]:
        packet = Packet.unpack(raw)
        if sender is a and packet.context == Context.LRRTT:
            lie = a.link_by_id(packet.destination).seal(RTTS[name], context=Context.LRRTT)
            verdicts.append(b.input(wire.at(b), lie).reason)
            return []
        return [raw]

    wire.pass_on = tell
    a.open_link(own)
    net.settle()
    if name in REFUSED:
        assert verdicts == [DropReason.LINK_PAYLOAD]
        assert net.all(b, LinkActive) == []
        assert net.all(b, LinkClosed) == []  # of a link that nobody was told about
        assert net.one(a, LinkClosed).reason == CloseReason.DESTINATION
        assert b.stats().links == 0
        return
    assert verdicts == [DropReason.NONE]
    active = net.one(b, LinkActive)
    assert 0 < active.rtt_s <= 3600.0
    info = b.link(active.link).info
    assert 5.0 <= info.keepalive_s <= 360.0
    assert info.stale_s == pytest.approx(2 * info.keepalive_s)
    if name == "float32":
        assert info.rtt_s == 0.25
    wire.pass_on = None
    wire.cut = True
    net.advance(info.stale_s + 4 * 3600.0 + 10.0)
    assert net.one(b, LinkClosed).reason == CloseReason.TIMEOUT


def test_a_round_trip_time_that_comes_again_changes_nothing() -> None:
    at = attack()
    before = at.own.info.rtt_s
    assert at.lie(packb(9.0), Context.LRRTT) == DropReason.LINK_STATE
    assert at.own.info.rtt_s == before
    at.is_unharmed()
    at = attack(responder=False)
    assert at.lie(packb(9.0), Context.LRRTT) == DropReason.LINK_STATE
    at.is_unharmed()


class Prover:
    """A link that is asked for, and proofs of it."""

    def __init__(self) -> None:
        self.net, self.a, b, wire = pair()
        own = self.net.listen(b)
        wire.cut = True
        self.link = self.a.link(self.a.open_link(own))
        self.iface = wire.at(self.a)
        self.net.settle()
        self.asked = LinkRequest.unpack(wire.frames(self.a)[-1]).mtu or 0

    def make(
        self, signer: Identity, mtu: int = 500, mode: int = 1, key: bytes | None = None
    ) -> bytes:
        """A proof with a true signature of somebody."""
        signalling = (mtu | mode << 21).to_bytes(3, "big")
        key = identity(5).public_key[:32] if key is None else key
        signature = signer.sign(self.link.info.link_id + key + signer.public_key[32:] + signalling)
        return signature + key + signalling

    def feed(self, payload: bytes) -> DropReason:
        """What the initiator says to it."""
        packet = Packet(
            destination=self.link.info.link_id,
            destination_type=3,
            packet_type=PacketType.PROOF,
            context=Context.LRPROOF,
            payload=payload,
        )
        return self.a.input(self.iface, packet.raw).reason


def test_a_link_proof_of_anybody_else_leaves_the_link_waiting() -> None:
    """Not even a wrong mode or MTU ends it, unless the destination itself has signed that."""
    at = Prover()
    right = at.make(identity(7))
    for forged in (
        at.make(identity(8)),
        at.make(identity(8), mode=2),
        at.make(identity(8), mtu=1 << 20),
        right[:-3] + b"\x20\x40\x00",
        right[:64] + bytes(32) + right[96:],
    ):
        assert at.feed(forged) == DropReason.LINK_PROOF_SIGNATURE
    for length in (1, 95, 96, 98, 100, 200):
        assert at.feed(right[:length].ljust(length, b"\0")) in (
            DropReason.LINK_PROOF_MALFORMED,
            DropReason.LINK_PROOF_SIGNATURE,
        )
    low = at.make(identity(7), key=bytes(32))  # of low order: no secret comes of it
    assert at.feed(low) == DropReason.LINK_PROOF_MALFORMED
    assert at.link.info.state == LinkState.PENDING
    assert at.feed(right) == DropReason.NONE
    assert at.feed(right) != DropReason.NONE
    assert (at.link.info.state, at.link.info.mtu) == (LinkState.ACTIVE, 500)


@pytest.mark.parametrize(
    "lie", [{"mode": 0}, {"mode": 2}, {"mode": 7}, {"mtu": 499}, {"mtu": 0x1FFFFF}]
)
def test_a_destination_that_answers_with_what_was_not_asked_for_ends_the_link(
    lie: dict[str, int],
) -> None:
    at = Prover()
    assert at.asked < 0x1FFFFF
    assert at.feed(at.make(identity(7), **lie)) == DropReason.LINK_PROOF_MODE
    assert at.link.info.state == LinkState.CLOSED
    at.net.settle()
    assert at.net.one(at.a, LinkClosed).reason == CloseReason.REFUSED


# ---------------------------------------------------------------------------- proofs


@pytest.mark.parametrize("implicit", [False, True])
def test_a_proof_of_somebody_else_proves_nothing(implicit: bool) -> None:
    net, a, b, wire = pair()
    own = net.listen(b, prove="none")
    op = a.send(own, b"x")
    net.settle()
    packet = wire.frames(a)[-1]

    def feed(payload: bytes) -> DropReason:
        proof = Packet(destination=packet.hash[:16], packet_type=PacketType.PROOF, payload=payload)
        return a.input(wire.at(a), proof.raw).reason

    head = b"" if implicit else packet.hash
    assert feed(head + identity(8).sign(packet.hash)) == DropReason.PROOF_SIGNATURE
    assert feed(head + identity(7).sign(packet.hash[::-1])) == DropReason.PROOF_SIGNATURE
    for length in (1, 32, 63, 65, 95, 97, 128, 200):
        assert feed(bytes(length)) == DropReason.PROOF_LENGTH
    if not implicit:
        assert feed(bytes(32) + identity(7).sign(packet.hash)) in (
            DropReason.PROOF_SIGNATURE,
            DropReason.PROOF_UNKNOWN,
        )
    assert net.all(a, ReceiptDone) == []
    assert feed(head + identity(7).sign(packet.hash)) == DropReason.NONE
    net.settle()
    assert net.one(a, ReceiptDone).op == op
    assert feed(head + identity(7).sign(packet.hash)) != DropReason.NONE  # once


def test_a_proof_on_a_link_is_of_its_own_packets_and_signed_by_its_owner() -> None:
    at = attack(responder=False, prove="none")
    sent = at.own.send(b"x")
    owner = identity(7)

    def prove(payload: bytes) -> DropReason:
        return at.lie(payload, Context.NONE, PacketType.PROOF)

    assert prove(sent.packet_hash + identity(8).sign(sent.packet_hash)) == (
        DropReason.PROOF_SIGNATURE
    )
    assert prove(bytes(32) + owner.sign(bytes(32))) == DropReason.PROOF_UNKNOWN
    assert prove(owner.sign(sent.packet_hash)) == DropReason.PROOF_LENGTH
    assert at.told(ReceiptDone) == []
    right = sent.packet_hash + owner.sign(sent.packet_hash)
    assert prove(right) == DropReason.NONE
    assert prove(right) != DropReason.NONE
    (done,) = at.told(ReceiptDone)
    assert done.ok
    at.is_unharmed()


def test_a_proof_of_one_link_is_none_on_another() -> None:
    net, a, b, wire = pair()
    own = net.listen(b, prove="none")
    first, second = net.link(a, own), net.link(a, own)
    sent = first.send(b"x")
    right = sent.packet_hash + identity(7).sign(sent.packet_hash)
    frame = net.far(second, b).seal(right, packet_type=PacketType.PROOF)
    assert a.input(wire.at(a), frame).reason == DropReason.PROOF_UNKNOWN
    net.settle()
    assert net.all(a, ReceiptDone) == []


# ---------------------------------------------------------------------------- tokens


def test_a_token_serves_once_and_for_one_thing() -> None:
    at = attack(prove="app", resources="app", hold_resources=True)
    at.victim.handle(at.own.info.destination, TEST_PATH)
    at.liar.send(b"x")
    at.liar.request(TEST_PATH, 1)
    at.liar.send_resource(ruled("token", 100))
    at.net.settle()
    (packet,) = at.net.all(at.victim, LinkPacketReceived)
    (asked,) = at.net.all(at.victim, RequestReceived)
    (offered,) = at.net.all(at.victim, ResourceOffered)
    assert packet.token is not None
    tokens = {packet.token, asked.token, offered.token}
    assert len(tokens) == 3
    for token in (packet.token, offered.token):
        with pytest.raises(StateError):
            at.victim.respond(token, b"no request")
    with pytest.raises(StateError):
        at.victim.accept(asked.token)
    at.victim.accept(packet.token)
    at.victim.respond(asked.token, b"answer")
    at.victim.accept(offered.token)
    at.net.settle()
    (received,) = at.net.all(at.victim, ResourceReceived)
    assert received.token is not None
    at.victim.refuse(received.token)
    for token in (*tokens, received.token, 0, 999_999, 1 << 53):
        for use in (at.victim.accept, at.victim.refuse, at.victim.respond):
            with pytest.raises(StateError):
                use(token)
    assert len(at.net.all(at.victim, ResourceReceived)) == 1


def test_a_token_ends_with_its_link() -> None:
    at = attack(prove="app")
    at.victim.handle(at.own.info.destination, TEST_PATH)
    at.liar.send(b"x")
    at.liar.request(TEST_PATH, 1)
    at.net.settle()
    (packet,) = at.net.all(at.victim, LinkPacketReceived)
    (asked,) = at.net.all(at.victim, RequestReceived)
    assert packet.token is not None
    at.own.close()
    for use, token in (
        (at.victim.accept, packet.token), (at.victim.refuse, packet.token),
        (at.victim.respond, asked.token), (at.victim.refuse, asked.token),
    ):  # fmt: skip
        with pytest.raises(StateError):
            use(token)


# ---------------------------------------------------------------------------- credit


def test_without_credit_nothing_is_told_and_nothing_is_lost() -> None:
    """In every state of a link, and for every kind of thing that would be told."""
    net = Net(2)
    a, b = net.engines[0], Engine(clock=(MONO, UNIX), credit=0)
    net.engines[1] = b
    net.heard[b] = []
    net.join(a, b, kind="udp")
    own = net.listen(b, prove="all", resources="all")
    b.handle(own, TEST_PATH)
    net.forget()

    def starved(number: int) -> None:
        """So many things were not told: no event, and the figure says so."""
        before = b.stats().held_for_credit
        net.settle()
        assert net.heard[b] == []
        assert b.stats().held_for_credit == before + number

    a.send(own, b"x", timeout_s=1.0)
    starved(1)
    number = a.open_link(own)
    starved(1)
    assert b.stats().links == 0
    b.credit(1)
    net.advance(60.0)
    assert net.one(a, ReceiptDone).state == ReceiptState.FAILED  # and so the sender knows
    assert net.one(a, LinkClosed).link == number
    assert net.heard[b] == []

    link = net.link(a, own)
    assert net.one(b, LinkActive).link_id == link.info.link_id
    net.forget()
    link.identify(identity(3))
    starved(1)
    lost = link.send(b"data", timeout_s=5.0)
    starved(1)
    asked = link.request(TEST_PATH, 1, timeout_s=20.0)
    starved(1)
    large = link.request(TEST_PATH, ruled("large", 3000), timeout_s=60.0)
    starved(1)
    sent = link.send_resource(ruled("credit", 5000), compression="off")
    net.settle()
    assert net.heard[b] == []
    b.credit(100)
    net.advance(30.0)
    assert [(done.op, done.ok) for done in net.all(a, ReceiptDone)] == [(lost.op, False)]
    assert [event.data for event in net.all(b, LinkPacketReceived)] == []
    # Whoever repeats its advertisement was only held up.
    (request,) = net.all(b, RequestReceived)
    assert request.data == ruled("large", 3000)
    b.respond(request.token, b"late")
    net.advance(60.0)
    assert [(done.op, done.ok) for done in net.all(a, ResponseDone)] == [
        (asked, False),
        (large, True),
    ]
    assert [(done.op, done.ok) for done in net.all(a, ResourceSent)] == [(sent, True)]
    assert len(net.all(b, ResourceReceived)) == 1
    assert a.stats().operations == b.stats().operations == 0


# ------------------------------------------------------------------------ limits of links


def test_links_above_the_limit_are_refused_on_both_sides() -> None:
    net, a, b, wire = pair(limits=Limits(links=3, pending_links=2))
    own = net.listen(b)
    for _ in range(3):
        net.link(a, own)
    with pytest.raises(LimitReached):
        a.open_link(own)
    other = Engine(clock=(MONO, UNIX))
    iface = other.add_interface("wire")
    (announce,) = [raw for engine, raw in wire.seen if engine is b][:1]
    other.input(iface, announce)
    other.open_link(own)
    (request,) = other.outputs()
    assert b.input(wire.at(b), request.data).reason == DropReason.NOT_ACCEPTING
    assert (b.stats().links, b.stats().links_refused) == (3, 1)


def test_a_link_request_that_comes_again_makes_one_link() -> None:
    net, a, b, wire = pair()
    own = net.listen(b)
    a.open_link(own)
    (output,) = a.outputs()
    assert b.input(wire.at(b), output.data).accepted
    assert b.input(wire.at(b), output.data).reason == DropReason.DUPLICATE
    b.filter_drop(Packet.unpack(output.data).hash)
    assert b.input(wire.at(b), output.data).reason != DropReason.NONE
    assert b.stats().links == 1


# ----------------------------------------------------------------------- jobs in any order


@pytest.mark.parametrize("number", range(12))
def test_jobs_that_come_back_in_any_order_do_no_harm(number: int) -> None:
    """Announces, packets, a link, a request and a resource, each job when chance says so."""
    random = Random(number)
    net = Net(2, inline_jobs=False)
    a, b = net.engines
    wire = net.join(a, b, kind="udp")
    own = b.listen(identity(7), "test.echo", resources="all", prove="all", ratchets=True)
    b.handle(own, TEST_PATH)
    b.announce(own)
    stir(net, random)
    a.send(own, b"one")
    link = a.link(a.open_link(own))
    stir(net, random)
    assert link.info.state == LinkState.ACTIVE
    link.identify(identity(3))
    link.request(TEST_PATH, ruled("ask", 2000))
    link.send_resource(ruled("stir", 9000), compression="automatic")
    link.send(b"two")
    b.announce(own)
    stir(net, random)
    assert net.one(b, ResourceReceived).data == ruled("stir", 9000)
    assert net.one(b, RequestReceived).data == ruled("ask", 2000)
    b.respond(net.one(b, RequestReceived).token, ruled("answer", 3000))
    stir(net, random)
    assert net.one(a, ResponseDone).data == ruled("answer", 3000)
    assert net.one(b, LinkIdentified).identity == identity(3).hash
    assert {done.ok for done in net.all(a, ReceiptDone)} == {True}
    assert len(net.all(a, ReceiptDone)) == 2
    assert a.stats().operations == b.stats().operations == 0
    assert wire.seen


def behind_an_identity(allowed: int, count: int = 1) -> tuple[Net, EngineLink]:
    """A link with requests that have come while its identity is being verified."""
    net = Net(2, inline_jobs=False)
    a, b = net.engines
    net.join(a, b)
    own = b.listen(identity(7), "test.echo")
    b.handle(own, TEST_PATH, allow="list", allowed=[identity(allowed).hash])
    b.announce(own)
    stir(net, Random(1))
    link = a.link(a.open_link(own))
    stir(net, Random(1))
    link.identify(identity(3))
    a.run_job()
    for number in range(count):
        link.request(TEST_PATH, number)
    net.settle()
    assert len(b.pending_jobs) == 1
    assert net.all(b, RequestReceived) == []
    return net, link


def test_a_request_waits_for_the_identity_that_came_before_it() -> None:
    """Upstream's commands identify and ask in one breath; the verification is a job."""
    net, _ = behind_an_identity(3)
    net.engines[1].run_job()
    net.settle()
    assert net.one(net.engines[1], LinkIdentified).identity == identity(3).hash
    request = net.one(net.engines[1], RequestReceived)
    assert request.identity == identity(3).hash
    assert DropReason.REQUEST_POLICY not in net.engines[1].stats().drops


def test_a_request_behind_a_stranger_s_identity_is_refused() -> None:
    net, _ = behind_an_identity(4)
    net.engines[1].run_job()
    net.settle()
    assert net.all(net.engines[1], RequestReceived) == []
    assert net.engines[1].stats().drops[DropReason.REQUEST_POLICY] == 1


def test_few_requests_wait_for_an_identity() -> None:
    """Bounded and counted; the link may close meanwhile, or the engine end."""
    net, _ = behind_an_identity(3, 6)
    b = net.engines[1]
    assert b.stats().drops[DropReason.JOBS_SHARE] == 2
    b.run_job()
    net.settle()
    assert [request.data for request in net.all(b, RequestReceived)] == [0, 1, 2, 3]
    net, link = behind_an_identity(3)
    link.close()
    net.settle()
    net.engines[1].run_job()
    net.settle()
    assert net.all(net.engines[1], RequestReceived) == []
    behind_an_identity(3)


def stir(net: Net, random: Random) -> None:
    """Runs jobs and carries frames, whichever comes first by chance, until all is quiet."""
    waiting: list[tuple[Engine, int, bytes]] = []
    while True:
        for engine in net.engines:
            waiting += [(engine, out.interface, out.data) for out in engine.outputs()]
            net.heard[engine] += engine.events()
        ready = [engine for engine in net.engines if engine.pending_jobs]
        if not waiting and not ready:
            return
        if ready and (not waiting or random.random() < 0.6):
            engine = random.choice(ready)
            engine.run_job(random.randrange(len(engine.pending_jobs)))
        else:
            net.carry(*waiting.pop(random.randrange(min(2, len(waiting)))))


# ---------------------------------------------------------------------------- at random


@pytest.mark.parametrize("number", range(8))
def test_random_lies_under_a_valid_key_do_no_harm(number: int) -> None:
    """Frames of every context with random and nearly right contents, on both ends."""
    random = Random(1000 + number)
    at = attack(responder=bool(number % 2), resources="all" if number % 3 else "app")
    if number % 2:
        at.victim.handle(at.own.info.destination, TEST_PATH)
    at.own.send_resource(ruled("random", 3000), compression="off")
    at.own.request(TEST_PATH, 1)
    seeds = [
        advertisement(at),
        packb([UNIX, PATH_HASH, b"x"]),
        packb([bytes(16), b"x"]),
        identify_pack(at.own.info.link_id, identity(3)),
        b"\0" + full_hash(b"x") + bytes(8),
        full_hash(b"x") + packb([1, bytes(8)]),
        packb(0.5),
    ]
    contexts = [c for c in Context if c != Context.LINKCLOSE]
    for _ in range(1500):
        if random.random() < 0.3:
            payload = random.randbytes(random.randrange(400))
        else:
            payload = mutated(random, random.choice(seeds))
        packet_type = random.choice([PacketType.DATA, PacketType.DATA, PacketType.PROOF])
        try:
            at.lie(payload, random.choice(contexts), packet_type)
        except (ValueError, StateError):  # more than a packet takes, or the link is no more
            continue
        if random.random() < 0.05:
            at.net.advance(random.random() * 3)
        if at.own.info.state == LinkState.CLOSED:
            break
    at.net.advance(1200.0)
    for engine in at.net.engines:
        assert engine.stats().operations == 0
        assert [link for link in engine.links() if link.transfers_in or link.transfers_out] == []


def mutated(random: Random, payload: bytes) -> bytes:
    """Nearly the same."""
    out = bytearray(payload)
    for _ in range(random.randrange(4)):
        at = random.randrange(len(out) or 1)
        match random.randrange(4):
            case 0 if out:
                out[at % len(out)] ^= 1 << random.randrange(8)
            case 1:
                del out[at:]
            case 2:
                out[at:at] = random.randbytes(random.randrange(6))
            case _ if out:
                out[at % len(out)] = random.choice([0, 0x7F, 0x80, 0xC0, 0xCB, 0xDF, 0xFF])
    return bytes(out)
