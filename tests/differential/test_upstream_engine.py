"""An engine against the codecs of the upstream stack: what one makes, the other takes.

The engine sees frames that upstream made and upstream the engine's, in one process and on
times of the engine's own; no instance of upstream runs. Compared with rns 1.5.7.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from differential.upstream import OWNER, RNS, collected, identity_of, receiving, sending, unpacked
from netmesh import Engine, Identity
from netmesh.constants import Context, LinkState
from netmesh.events import LinkActive, LinkPacketReceived, PacketReceived, ReceiptDone

pytestmark = pytest.mark.usefixtures("upstream")

CLOCK = (1000.0, 1_800_000_000.0)


def engine_on_a_wire() -> tuple[Engine, int]:
    """An engine with one interface."""
    engine = Engine(clock=CLOCK, seed=bytes(32))
    return engine, engine.add_interface("wire", kind="udp")


def frames(engine: Engine) -> list[Any]:
    """What the engine sends, as upstream's packets."""
    return [unpacked(output.data) for output in engine.outputs()]


@pytest.mark.parametrize("app_data", [None, b"", b"who I am"])
@pytest.mark.parametrize("with_ratchet", [False, True])
def test_the_engine_takes_their_announces(
    with_ratchet: bool, app_data: bytes | None, tmp_path: Any
) -> None:
    engine, wire = engine_on_a_wire()
    with receiving(identity_of(), "app", "inbox") as theirs:
        if with_ratchet:
            theirs.enable_ratchets(str(tmp_path / "ratchets"))
        packet = theirs.announce(app_data=app_data, send=False)
        packet.pack()
        verdict = engine.input(wire, packet.raw)
        assert verdict.accepted, verdict.reason.text
        assert verdict.packet_hash == packet.get_hash()
        found = engine.recall(theirs.hash)
        assert found is not None
        assert found.identity.hash == theirs.identity.hash
        assert (found.app_data or b"") == (app_data or b"")
        ratchet = engine.ratchet_of(theirs.hash)
        if with_ratchet:
            assert ratchet == RNS.Identity._ratchet_public_bytes(theirs.ratchets[0])
        else:
            assert ratchet is None
        assert engine.hops(theirs.hash) == 1


@pytest.mark.parametrize("app_data", [None, b"who I am"])
@pytest.mark.parametrize("with_ratchet", [False, True])
def test_they_take_the_engines_announces(with_ratchet: bool, app_data: bytes | None) -> None:
    engine, _ = engine_on_a_wire()
    own = engine.listen(Identity.from_private(OWNER), "app.inbox", ratchets=with_ratchet)
    engine.announce(own, app_data=app_data)
    (packet,) = frames(engine)
    assert packet.destination_hash == own
    assert RNS.Identity.validate_announce(packet)
    known = RNS.Identity.recall(own, _no_use=True)
    assert known.get_public_key() == Identity.from_private(OWNER).public_key
    assert (RNS.Identity.known_destinations[bytes(own)][3] or b"") == (app_data or b"")


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("with_ratchet", [False, True])
def test_their_packets_are_opened_and_proven(with_ratchet: bool, implicit: bool) -> None:
    # Upstream remembers a ratchet for good, so what has none has another name.
    aspect = "moving" if with_ratchet else "fixed"
    engine, wire = engine_on_a_wire()
    engine.set_implicit_proofs(implicit)
    own = engine.listen(
        Identity.from_private(OWNER),
        f"app.{aspect}",
        ratchets=with_ratchet,
        enforce_ratchets=with_ratchet,
        prove="all",
    )
    engine.announce(own)
    (announce,) = frames(engine)
    assert RNS.Identity.validate_announce(announce)
    destination = sending(RNS.Identity.recall(own, _no_use=True), "app", aspect)
    packet = RNS.Packet(destination, b"a message")
    packet.pack()
    assert engine.input(wire, packet.raw).accepted
    (heard,) = [event for event in engine.events() if isinstance(event, PacketReceived)]
    assert heard.data == b"a message"
    assert heard.packet_hash == packet.packet_hash
    assert heard.ratchet_id == (engine.ratchets(own).current if with_ratchet else None)
    (proof,) = frames(engine)
    assert len(proof.data) == (64 if implicit else 96)
    receipt = RNS.PacketReceipt.__new__(RNS.PacketReceipt)
    vars(receipt).update(
        hash=packet.packet_hash,
        destination=destination,
        status=RNS.PacketReceipt.SENT,
        proved=False,
        callbacks=SimpleNamespace(delivery=None, timeout=None),
    )
    assert receipt.validate_proof_packet(proof)
    assert receipt.status == RNS.PacketReceipt.DELIVERED


@pytest.mark.parametrize("implicit", [False, True])
def test_they_open_and_prove_the_engines_packets(
    implicit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RNS.Reticulum, "should_use_implicit_proof", lambda: implicit)
    engine, wire = engine_on_a_wire()
    with receiving(identity_of(), "app", "inbox") as theirs:
        announce = theirs.announce(send=False)
        announce.pack()
        engine.input(wire, announce.raw)
        op = engine.send(theirs.hash, b"a message")
        (packet,) = frames(engine)
        assert theirs.decrypt(packet.data) == b"a message"
        packet.destination = theirs
        with collected() as sent:
            theirs.identity.prove(packet, packet.generate_proof_destination())
        assert engine.input(wire, sent[0].raw).accepted
        (done,) = [event for event in engine.events() if isinstance(event, ReceiptDone)]
        assert (done.op, done.ok) == (op, True)


def their_end(request: Any, owner: Any) -> Any:
    """Upstream's end of a link that the engine asks for."""
    from RNS.Cryptography import X25519PrivateKey, X25519PublicKey

    link = RNS.Link.__new__(RNS.Link)
    link.status, link.mode = RNS.Link.PENDING, RNS.Link.MODE_AES256_CBC
    link.link_id = link.hash = RNS.Link.link_id_from_lr_packet(request)
    link.type = RNS.Destination.LINK
    link.mtu = RNS.Link.mtu_from_lr_packet(request) or 500
    link.initiator, link.establishment_cost = False, 0
    link.token = None
    link.prv = X25519PrivateKey.generate()
    link.pub_bytes = link.prv.public_key().public_bytes()
    link.peer_pub = X25519PublicKey.from_public_bytes(request.data[:32])
    link.owner = SimpleNamespace(identity=owner)
    link.sig_pub_bytes = owner.get_public_key()[32:]
    link.had_outbound = lambda *args, **kwargs: None
    link.handshake()
    return link


def test_a_link_comes_up_with_their_responder() -> None:
    engine, wire = engine_on_a_wire()
    with receiving(identity_of(), "app", "inbox") as theirs:
        announce = theirs.announce(send=False)
        announce.pack()
        engine.input(wire, announce.raw)
        number = engine.open_link(theirs.hash)
        (request,) = frames(engine)
        link = their_end(request, theirs.identity)
        assert link.link_id == engine.link(number).info.link_id
        with collected() as sent:
            link.prove()
        engine.advance(0.25)
        assert engine.input(wire, sent[0].raw).accepted
        (active,) = [event for event in engine.events() if isinstance(event, LinkActive)]
        assert active.link_id == link.link_id
        (rtt,) = frames(engine)
        assert rtt.context == RNS.Packet.LRRTT
        assert RNS.vendor.umsgpack.unpackb(link.decrypt(rtt.data)) == 0.25
        ours = engine.link(number)
        ours.send(b"to them", receipt=False)
        (data,) = frames(engine)
        assert link.decrypt(data.data) == b"to them"
        packet = RNS.Packet(link, b"to us")
        packet.pack()
        assert engine.input(wire, packet.raw).accepted
        (heard,) = [event for event in engine.events() if isinstance(event, LinkPacketReceived)]
        assert heard.data == b"to us"
        who = Identity.from_private(bytes(range(64, 128)))
        ours.identify(who)
        (identify,) = frames(engine)
        shown = link.decrypt(identify.data)
        assert shown[:64] == who.public_key
        peer = RNS.Identity(create_keys=False)
        peer.load_public_key(shown[:64])
        assert peer.validate(shown[64:], link.link_id + shown[:64])
        close = RNS.Packet(link, link.link_id, context=RNS.Packet.LINKCLOSE)
        close.pack()
        assert engine.input(wire, close.raw).accepted
        assert ours.info.state == LinkState.CLOSED
        assert Context.LINKCLOSE == RNS.Packet.LINKCLOSE
