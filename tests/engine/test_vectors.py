"""The values of the upstream stack, passed through the engine frame by frame."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from engine.wires import UNIX, Script
from golden import name_of, named, raw, ruled, vectors
from netmesh import Announce, DestinationHash, Engine, Identity, Packet
from netmesh.constants import DestinationType, LinkState, PathState
from netmesh.control import PathRequest
from netmesh.crypto import x25519_public
from netmesh.decisions import keepalive_interval
from netmesh.destination import destination_hash
from netmesh.engine import EngineLink
from netmesh.events import (
    AnnounceHeard,
    LinkActive,
    LinkClosed,
    LinkIdentified,
    LinkPacketReceived,
    PacketReceived,
    ReceiptDone,
    RequestReceived,
    ResourceFailed,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.ifac import Ifac
from netmesh.link import LinkProof, signalling_pack
from netmesh.msgpack import unpackb
from netmesh.records import DropReason, PathRecord

CORE, LINKS = "reticulum-core", "reticulum-links"


def bits(text: str) -> bytes:
    """Bytes from hexadecimal."""
    return bytes.fromhex(text)


def found(engine: Engine, kind: type[Any]) -> list[Any]:
    """The events of one class that wait."""
    return [event for event in engine.events() if isinstance(event, kind)]


def sent(engine: Engine) -> list[bytes]:
    """The frames that wait."""
    return [output.data for output in engine.outputs()]


def plain(**options: Any) -> tuple[Engine, int]:
    """An engine with one interface."""
    engine = Engine(clock=(1000.0, UNIX), **options)
    return engine, engine.add_interface("wire")


# ------------------------------------------------------------------- packets and announces


@pytest.mark.parametrize("vector", vectors(CORE, "packet_parse"), ids=name_of)
def test_a_packet_is_parsed_or_refused(vector: dict[str, Any]) -> None:
    engine, wire = plain()
    refused = {DropReason.MALFORMED, DropReason.EMPTY, DropReason.HOPS, DropReason.RUNT}
    verdict = engine.input(wire, bits(vector["input"]["raw"]))
    assert (verdict.reason not in refused) == vector["output"]["accepted"]
    assert (verdict.packet_hash is not None) == vector["output"]["accepted"]


@pytest.mark.parametrize("vector", vectors(CORE, "announce_accept"), ids=name_of)
def test_an_announce_replaces_the_path_or_does_not(vector: dict[str, Any]) -> None:
    given = vector["input"]
    engine = Engine(clock=(1000.0, UNIX))
    old = engine.add_interface("old", gravity=given["existing_interface_gravity"])
    new = engine.add_interface("new", gravity=given["receiving_interface_gravity"])
    blob = bits(given["announce_random_blob"])
    hops = given["announce_hops_after_increment"]
    announce = Announce.create(
        Identity(),
        "test",
        random=blob[:5],
        emitted=int.from_bytes(blob[5:], "big"),
        hops=hops - 1,
        transport_id=bytes(16) if hops > 1 else None,
    )
    assert announce.random_hash == blob
    engine.put_path(
        PathRecord(
            destination=announce.destination_hash,
            hops=given["existing_hops"],
            interface=old,
            expires_s=1000.0 if given["existing_expired"] else 2000.0,
            state=PathState.UNRESPONSIVE if given["path_unresponsive"] else PathState.UNKNOWN,
            random_blobs=tuple(map(bits, given["existing_random_blobs"])),
        )
    )
    verdict = engine.input(new, announce.raw)
    assert verdict.accepted == vector["output"]["accepted"], verdict.reason
    path = engine.path(announce.destination_hash)
    assert (path.interface == new) == verdict.accepted
    assert path.hops == (hops if verdict.accepted else given["existing_hops"])


@pytest.mark.parametrize("vector", vectors(CORE, "announce"), ids=name_of)
def test_an_announce_is_made_and_heard_byte_for_byte(vector: dict[str, Any]) -> None:
    given, made = vector["input"], vector["output"]
    expected = Announce.unpack(bits(made["raw"]))
    random = expected.random_hash[:5]
    ratchet = raw(given["ratchet_private"])
    script = Script()
    ours = Engine(Identity(), clock=(1000.0, float(given["timestamp"])), seed=script)
    wire = ours.add_interface("wire")
    script.queue = [random] if ratchet is None else [ratchet, random]
    own = ours.listen(
        Identity.from_private(bits(given["private_key"])),
        given["name"],
        ratchets=ratchet is not None,
        app_data=raw(given["app_data"]),
    )
    assert own.hex() == made["destination_hash"]
    ours.announce(own, path_response=given["path_response"])
    assert [data.hex() for data in sent(ours)] == [made["raw"]]
    assert not script.queue

    theirs, wire = plain()
    theirs.subscribe(given["name"], path_responses=True)
    verdict = theirs.input(wire, bits(made["raw"]))
    assert (verdict.accepted, verdict.packet_hash) == (True, bits(made["packet_hash"]))
    (heard,) = found(theirs, AnnounceHeard)
    assert heard.app_data == expected.app_data  # b"" with a ratchet (RNS 1, 5.5)
    assert heard.path_response == given["path_response"]
    assert heard.emitted_unix_s == given["timestamp"]
    assert heard.ratchet_id == expected.ratchet_id
    assert theirs.ratchet_of(own) == expected.ratchet


@pytest.mark.parametrize("vector", vectors(CORE, "announce_validate"), ids=name_of)
def test_a_forged_announce_is_refused(vector: dict[str, Any]) -> None:
    engine, wire = plain()
    verdict = engine.input(wire, bits(vector["input"]["raw"]))
    assert verdict.accepted == vector["output"]["valid"]
    assert verdict.reason in (
        DropReason.ANNOUNCE_SIGNATURE,
        DropReason.ANNOUNCE_MALFORMED,
        DropReason.ANNOUNCE_DESTINATION,
    )
    assert engine.counters(wire).violations == 1


@pytest.mark.parametrize("vector", vectors(CORE, "announce_frame_limit"), ids=name_of)
def test_an_announce_is_at_most_500_bytes_long(vector: dict[str, Any]) -> None:
    engine = Engine(clock=(1000.0, UNIX))
    wire = engine.add_interface("wire", mtu=vector["input"]["interface_hw_mtu"])
    verdict = engine.input(wire, bits(vector["input"]["raw"]))
    assert verdict.accepted == vector["output"]["accepted"]
    assert verdict.accepted or verdict.reason == DropReason.ANNOUNCE_SIZE


@pytest.mark.parametrize("vector", vectors(CORE, "announce_hop_limit"), ids=name_of)
def test_an_announce_is_heard_up_to_128_hops_away(vector: dict[str, Any]) -> None:
    engine, wire = plain()
    verdict = engine.input(wire, bits(vector["input"]["received_raw"]))
    assert verdict.accepted == vector["output"]["accepted"]
    if verdict.accepted:
        (path,) = engine.paths()
        assert path.hops == vector["output"]["path_hops"]
    else:
        assert verdict.reason == DropReason.HOPS


@pytest.mark.parametrize("vector", vectors(CORE, "path_request"), ids=name_of)
def test_a_path_request_is_sent_and_answered(vector: dict[str, Any]) -> None:
    given, made = vector["input"], vector["output"]
    transport = given["transport_id"] is not None
    carrier = named(CORE, "identity-transport")["input"]["private_key"]
    asking, wire = plain(identity=Identity.from_private(bits(carrier)), transport=transport)
    asking.request_path(bits(given["wanted_destination"]), tag=bits(given["tag"]))
    (request,) = sent(asking)
    assert request.hex() == made["raw"]
    asked = PathRequest.unpack(Packet.unpack(request).payload)
    assert asked.transport_id == raw(given["transport_id"])

    owner = named(CORE, "identity-alice")["input"]["private_key"]
    asked_one, wire = plain()
    own = asked_one.listen(Identity.from_private(bits(owner)), "lxmf.delivery")
    assert own.hex() == given["wanted_destination"]
    assert asked_one.input(wire, request).accepted
    (answer,) = map(Announce.unpack, sent(asked_one))
    assert (answer.destination_hash, answer.path_response) == (own, True)
    assert [tag.tag for tag in asked_one.path_tags()] == [bits(given["tag"])]


@pytest.mark.parametrize("vector", vectors(CORE, "plain_hop_limit"), ids=name_of)
def test_plain_packets_come_from_the_neighbour_only(vector: dict[str, Any]) -> None:
    """Stricter than upstream by one hop where the vector says so."""
    engine, wire = plain()
    engine.listen(None, vector["input"]["destination_name"], type=DestinationType.PLAIN)
    verdict = engine.input(wire, bits(vector["input"]["raw"]))
    assert verdict.accepted == vector["output"]["strict"]
    assert len(found(engine, PacketReceived)) == vector["output"]["strict"]
    assert verdict.accepted or verdict.reason == DropReason.PLAIN_HOPS


@pytest.mark.parametrize("vector", vectors(CORE, "ifac_mask"), ids=name_of)
def test_frames_carry_the_interfaces_access_code(vector: dict[str, Any]) -> None:
    given, made = vector["input"], vector["output"]
    ifac = Ifac.from_key(bits(given["ifac_key"]), size=given["ifac_size"])
    engine = Engine(clock=(1000.0, UNIX))
    wire = engine.add_interface("wire", ifac=ifac)
    engine.inject(bits(given["raw"]), interface=wire)
    (frame,) = sent(engine)
    assert frame.hex() == made["masked"]
    other = Engine(clock=(1000.0, UNIX))
    wire = other.add_interface("wire", ifac=ifac)
    verdict = other.input(wire, frame)
    assert verdict.packet_hash == Packet.unpack(bits(given["raw"])).hash


# ------------------------------------------------------------------------------------ links


class Handshake:
    """Both ends of a link, opened with the keys of a vector."""

    def __init__(self, name: str, **listening: Any) -> None:
        self.given = named(LINKS, name)["input"]
        self.made = named(LINKS, name)["output"]
        mtu = self.given["requested_mtu"]
        self.client_random = Script()
        self.server_random = Script()
        own = Identity.from_private(bits(self.given["destination_private_key"]))
        self.address = DestinationHash.from_hex(self.given["destination_hash"])
        assert destination_hash(own.hash, "vectors.link") == self.address

        self.server = Engine(Identity(), clock=(1000.0, UNIX), seed=self.server_random)
        self.server_wire = self.server.add_interface("wire", kind="udp", mtu=mtu)
        self.server.listen(own, "vectors.link", **listening)

        self.client = Engine(Identity(), clock=(1000.0, UNIX), seed=self.client_random)
        self.client_wire = self.client.add_interface("wire", kind="udp", mtu=mtu)
        self.client.remember(self.address, own.public_only())
        self.client.put_path(PathRecord(destination=self.address, hops=1, interface=1))

    def open(self) -> tuple[EngineLink, EngineLink]:
        """Opens it; every frame is the vector's."""
        given, made = self.given, self.made
        self.client_random.queue = [
            bits(given["initiator_x25519_private"]),
            bits(given["initiator_ed25519_seed"]),
        ]
        number = self.client.open_link(self.address)
        (request,) = sent(self.client)
        if given["signalling_stripped_in_transit"]:
            request = request[:-3]
        assert request.hex() == made["link_request_raw"]
        self.server_random.queue = [bits(given["responder_x25519_private"])]
        assert self.server.input(self.server_wire, request).accepted
        (proof,) = sent(self.server)
        assert proof.hex() == made["link_proof_raw"]
        self.client_random.queue = [bits(given["rtt_packet_iv"])]
        self.client.advance(given["initiator_rtt_seconds"])
        assert self.client.input(self.client_wire, proof).accepted
        (rtt,) = sent(self.client)
        assert rtt.hex() == made["rtt_raw"]
        self.server.advance(made["responder_rtt_seconds"])
        assert self.server.input(self.server_wire, rtt).accepted
        assert len(found(self.client, LinkActive)) == len(found(self.server, LinkActive)) == 1
        link_id = bits(made["link_id"])
        return self.client.link(number), self.server.link_by_id(link_id)


@pytest.mark.parametrize("vector", vectors(LINKS, "link_handshake"), ids=name_of)
def test_a_link_is_opened_byte_for_byte(vector: dict[str, Any]) -> None:
    made = vector["output"]
    ours, theirs = Handshake(vector["name"]).open()
    assert ours.info.state == theirs.info.state == LinkState.ACTIVE
    assert ours.info.mtu == theirs.info.mtu == made["confirmed_mtu"]
    assert ours.info.mdu == made["mdu"]
    assert ours.info.rtt_s == 0.25
    assert theirs.info.rtt_s == made["responder_rtt_seconds"]
    assert ours.info.keepalive_s == pytest.approx(made["initiator_keepalive"], abs=1e-6)
    assert ours.info.stale_s == pytest.approx(made["initiator_stale_time"], abs=1e-6)
    assert theirs.info.keepalive_s == pytest.approx(keepalive_interval(0.375), abs=1e-6)


@pytest.mark.parametrize("vector", vectors(LINKS, "link_request_acceptance"), ids=name_of)
def test_a_link_request_is_accepted_or_refused(vector: dict[str, Any]) -> None:
    shake = Handshake("link_handshake_base")
    verdict = shake.server.input(shake.server_wire, bits(vector["input"]["link_request_raw"]))
    assert verdict.accepted == vector["output"]["accepted"]
    answers = sent(shake.server)
    assert len(answers) == vector["output"]["accepted"]
    if verdict.accepted:
        (link,) = shake.server.links()
        assert link.mtu == vector["output"]["mtu"]
    else:
        assert verdict.reason == DropReason.LINK_REQUEST_MALFORMED


def test_the_signalling_of_a_link_proof_may_be_missing_but_not_unsigned() -> None:
    """The two vectors of `link_proof_acceptance`, made anew for a link of the engine: the
    Ed25519 seeds of theirs are not told, without which their link ids cannot be made."""
    own = Identity.from_private(
        bits(named(LINKS, "link_handshake_base")["input"]["destination_private_key"])
    )
    vector = named(LINKS, "link_proof_without_signalling_accepted")
    assert LinkProof.unpack(bits(vector["input"]["link_proof_raw"])).verify(own.public_only())
    for name in ("without_signalling_accepted", "signalling_not_signed_rejected"):
        expected = named(LINKS, f"link_proof_{name}")["output"]
        shake = Handshake("link_handshake_mtu8192")
        link = shake.client.link(shake.client.open_link(shake.address))
        proof = LinkProof.create(link.info.link_id, own, x25519_public(bytes(32)), mtu=None).packet
        if not expected["accepted"]:
            proof = proof.replace(payload=bytes(proof.payload) + signalling_pack(500))
        verdict = shake.client.input(shake.client_wire, proof.raw)
        assert verdict.accepted == expected["accepted"]
        if verdict.accepted:
            assert (link.info.state, link.info.mtu) == (LinkState.ACTIVE, expected["mtu"])
        else:
            assert verdict.reason == DropReason.LINK_PROOF_SIGNATURE
            assert link.info.state == LinkState.PENDING


BASE = "link_handshake_base"
BASE_ID = named(LINKS, BASE)["output"]["link_id"]


@pytest.mark.parametrize("vector", vectors(LINKS, "link_data"), ids=name_of)
def test_data_on_a_link_is_sealed_and_opened_byte_for_byte(vector: dict[str, Any]) -> None:
    given, made = vector["input"], vector["output"]
    shake = Handshake(BASE)
    ours, theirs = shake.open()
    backwards = "responder_to_initiator" in vector["name"]
    if backwards:
        sender, random, to, wire = theirs, shake.server_random, shake.client, shake.client_wire
    else:
        sender, random, to, wire = ours, shake.client_random, shake.server, shake.server_wire
    random.queue = [bits(given["iv"])]
    packet = sender.send(bits(given["plaintext"]), receipt=False)
    (frame,) = sent(shake.server if backwards else shake.client)
    assert (frame.hex(), packet.packet_hash.hex()) == (made["raw"], made["packet_hash"])
    assert to.input(wire, frame).accepted
    (heard,) = found(to, LinkPacketReceived)
    assert heard.data == bits(given["plaintext"])
    assert sender.unseal(frame) == bits(given["plaintext"])


def test_a_packet_on_a_link_is_proven_byte_for_byte() -> None:
    """The vectors `link_data_initiator_to_responder` and `link_data_proof_from_responder`."""
    shake = Handshake(BASE, prove="all")
    ours, _ = shake.open()
    vector = named(LINKS, "link_data_initiator_to_responder")
    shake.client_random.queue = [bits(vector["input"]["iv"])]
    op = ours.send(bits(vector["input"]["plaintext"])).op
    shake.server.input(shake.server_wire, *sent(shake.client))
    (proof,) = sent(shake.server)
    assert proof.hex() == named(LINKS, "link_data_proof_from_responder")["output"]["raw"]
    assert shake.client.input(shake.client_wire, proof).accepted
    (receipt,) = found(shake.client, ReceiptDone)
    assert (receipt.op, receipt.ok) == (op, True)


def test_keepalives_are_those_of_the_vectors() -> None:
    shake = Handshake(BASE)
    ours, theirs = shake.open()
    shake.client.advance(ours.info.keepalive_s)
    (ask,) = sent(shake.client)
    assert ask.hex() == named(LINKS, "link_keepalive_initiator")["output"]["raw"]
    shake.server.advance(theirs.info.keepalive_s)
    assert shake.server.input(shake.server_wire, ask).accepted
    (answer,) = sent(shake.server)
    assert answer.hex() == named(LINKS, "link_keepalive_responder")["output"]["raw"]
    assert shake.client.input(shake.client_wire, answer).accepted


def test_an_identification_is_that_of_the_vector() -> None:
    vector = named(LINKS, "link_identify")
    shake = Handshake(BASE)
    ours, _ = shake.open()
    client = Identity.from_private(bits(vector["input"]["identity_private_key"]))
    shake.client_random.queue = [bits(vector["input"]["iv"])]
    ours.identify(client)
    (frame,) = sent(shake.client)
    assert frame.hex() == vector["output"]["raw"]
    assert shake.server.input(shake.server_wire, frame).accepted
    (told,) = found(shake.server, LinkIdentified)
    assert (told.identity, told.public_key) == (client.hash, client.public_key)


def test_a_close_is_that_of_the_vector() -> None:
    vector = named(LINKS, "link_close")
    shake = Handshake(BASE)
    ours, _ = shake.open()
    shake.client_random.queue = [bits(vector["input"]["iv"])]
    ours.close()
    (frame,) = sent(shake.client)
    assert frame.hex() == vector["output"]["raw"]
    assert shake.server.input(shake.server_wire, frame).accepted
    assert len(found(shake.server, LinkClosed)) == 1


# --------------------------------------------------------------------- requests, responses


@pytest.mark.parametrize("vector", vectors(LINKS, "request"), ids=name_of)
def test_a_request_is_sent_and_heard_byte_for_byte(vector: dict[str, Any]) -> None:
    given, made = vector["input"], vector["output"]
    shake = Handshake(BASE)
    ours, _ = shake.open()
    shake.server.handle(shake.address, given["path"])
    shake.client.set_clock(shake.client.now[0], given["timestamp"])
    shake.client_random.queue = [bits(given["iv"])]
    ours.request(given["path"], packed=bits(given["data_msgpack"]))
    (frame,) = sent(shake.client)
    assert frame.hex() == made["raw"]
    assert shake.server.input(shake.server_wire, frame).accepted
    (heard,) = found(shake.server, RequestReceived)
    assert heard.packed.hex() == given["data_msgpack"]
    assert heard.request_id.hex() == made["request_id"]
    assert heard.path_hash.hex() == made["path_hash"]
    assert heard.requested_unix_s == given["timestamp"]
    if "default_timeout" in made:
        shake.client.advance(made["default_timeout"] - 0.001)
        assert found(shake.client, ResponseDone) == []
        shake.client.advance(0.001)
        assert len(found(shake.client, ResponseDone)) == 1


def test_a_response_is_sent_and_heard_byte_for_byte() -> None:
    asked, vector = named(LINKS, "request_small")["input"], named(LINKS, "response_small")
    shake = Handshake(BASE)
    ours, _ = shake.open()
    shake.server.handle(shake.address, asked["path"])
    shake.client.set_clock(shake.client.now[0], asked["timestamp"])
    shake.client_random.queue = [bits(asked["iv"])]
    op = ours.request(asked["path"], packed=bits(asked["data_msgpack"]))
    shake.server.input(shake.server_wire, *sent(shake.client))
    (request,) = found(shake.server, RequestReceived)
    shake.server_random.queue = [bits(vector["input"]["iv"])]
    shake.server.respond(request.token, packed=bits(vector["input"]["response_msgpack"]))
    (frame,) = sent(shake.server)
    assert frame.hex() == vector["output"]["raw"]
    assert shake.client.input(shake.client_wire, frame).accepted
    (answer,) = found(shake.client, ResponseDone)
    assert (answer.op, answer.ok) == (op, True)
    assert answer.packed is not None
    assert answer.packed.hex() == vector["input"]["response_msgpack"]


# ------------------------------------------------------------------------------- resources


def content_of(given: dict[str, Any], name: str) -> bytes:
    """The data of a resource vector."""
    if "data" in given:
        return bits(given["data"])
    return ruled(name.removeprefix("resource_"), given["data_length"])


def candidates(random_hash: bytes) -> bytes:
    """The eight that the engine draws at once, of which it takes the first."""
    return random_hash + bytes(28)


def handshake_for(link_id: str, **listening: Any) -> Handshake:
    """The handshake that made a link id."""
    return next(
        Handshake(vector["name"], **listening)
        for vector in vectors(LINKS, "link_handshake")
        if vector["output"]["link_id"] == link_id
    )


@pytest.mark.parametrize("vector", vectors(LINKS, "resource"), ids=name_of)
def test_a_resource_is_sent_as_in_the_transcript(vector: dict[str, Any]) -> None:
    """The receiver's frames of the transcript lead the engine through the sender's part."""
    given, made = vector["input"], vector["output"]
    shake = handshake_for(given["link_id"])
    ours, _ = shake.open()
    shake.client_random.queue = [
        bits(given["stream_iv"]),
        bits(given["random_prefix"]),
        candidates(bits(given["random_hash"])),
        bits(made["advertisement_iv"]),
    ]
    op = ours.send_resource(
        content_of(given, vector["name"]),
        packed_metadata=raw(given["metadata_msgpack"]),
        compression="when_smaller" if given["auto_compress"] else "off",
    )
    (advertisement,) = sent(shake.client)
    if not made["compressed"]:  # two builds of bzip2 need not agree
        assert advertisement.hex() == made["advertisement_raw"]
        assert shake.client.transfer(op).resource_hash.hex() == made["resource_hash"]
    shake.client_random.queue = [
        bits(step["raw"])[19:35] for step in made["transcript"] if step["type"] == "hmu"
    ]
    waiting: list[bytes] = []
    for step in made["transcript"]:
        if step["dir"] == "receiver":
            assert not waiting
            assert shake.client.input(shake.client_wire, bits(step["raw"])).accepted
            waiting = sent(shake.client)
            continue
        frame = waiting.pop(0)
        if "raw" in step:
            assert frame.hex() == step["raw"]
        else:
            assert sha256(frame).hexdigest() == step["raw_sha256"]
    (done,) = found(shake.client, ResourceSent)
    assert (done.op, done.ok, done.done_bytes) == (op, True, given["data_length"])


@pytest.mark.parametrize("vector", vectors(LINKS, "resource"), ids=name_of)
def test_a_resource_is_received_as_in_the_transcript(vector: dict[str, Any]) -> None:
    """The sender's frames, made by an engine that repeats the vector, and the receiver's
    requests, which are those of the transcript up to their initialisation vectors."""
    given, made = vector["input"], vector["output"]
    shake = handshake_for(given["link_id"], resources="all")
    ours, theirs = shake.open()
    shake.client_random.queue = [
        bits(given["stream_iv"]),
        bits(given["random_prefix"]),
        candidates(bits(given["random_hash"])),
        bits(made["advertisement_iv"]),
    ]
    ours.send_resource(
        content_of(given, vector["name"]),
        packed_metadata=raw(given["metadata_msgpack"]),
        compression="when_smaller" if given["auto_compress"] else "off",
    )
    sent(shake.client)
    assert shake.server.input(shake.server_wire, bits(made["advertisement_raw"])).accepted
    asked: list[str] = []
    while requests := sent(shake.server):
        for frame in requests:
            packet = Packet.unpack(frame)
            if packet.context == 3:
                asked.append(theirs.unseal(frame).hex())
            shake.client.input(shake.client_wire, frame)
        frames = sent(shake.client)
        # 5000 bytes a second, between the very slow and the fast windows (RNS 2, 3.8); the
        # first round comes before its request would be repeated.
        pause = sum(map(len, frames)) / 5000
        shake.server.advance(min(pause, 0.5) if len(asked) == 1 else pause)
        for frame in frames:
            shake.server.input(shake.server_wire, frame)
    steps = made["transcript"]
    assert asked == [step["plaintext"] for step in steps if step["type"] == "request"]
    assert requests == []
    (received,) = found(shake.server, ResourceReceived)
    assert sha256(received.data).hexdigest() == given["data_sha256"]
    assert received.packed_metadata == raw(given["metadata_msgpack"])
    assert received.resource_hash.hex() == made["resource_hash"]
    assert len(found(shake.client, ResourceSent)) == 1


@pytest.mark.parametrize("vector", vectors(LINKS, "resource_part_search"), ids=name_of)
def test_parts_are_found_in_any_order(vector: dict[str, Any]) -> None:
    """What upstream stores is stored. The engine looks further ahead than the window, which
    the specification allows (RNS 2, 3.7), so what comes too early is kept as well."""
    given, made = vector["input"], vector["output"]
    shake = Handshake(BASE, resources="all")
    ours, theirs = shake.open()
    shake.client_random.queue = [bytes(16), b"abcd", candidates(bits(given["random_hash"]))]
    ours.send_resource(ruled(vector["name"], given["data_length"]), compression="off")
    (advertisement,) = sent(shake.client)
    hashmap = unpackb(theirs.unseal(advertisement))["m"]
    resource = ours.transfers()[0].resource_hash
    shake.client.input(shake.client_wire, theirs.seal(b"\0" + resource + hashmap, context=3))
    parts = sent(shake.client)
    assert len(parts) == made["total_parts"]

    assert shake.server.input(shake.server_wire, advertisement).accepted
    sent(shake.server)
    kept = set()
    for number, stored in zip(given["arrival_order"], made["stored"], strict=True):
        verdict = shake.server.input(shake.server_wire, parts[number])
        assert verdict.accepted == (number not in kept)
        assert verdict.accepted or not stored or number in kept
        kept.add(number)
    (transfer,) = theirs.transfers()
    assert transfer.parts_done == len(kept) > made["consecutive_completed"]


@pytest.mark.parametrize("vector", vectors(LINKS, "resource_cancel"), ids=name_of)
def test_a_cancelled_resource_ends_on_both_sides(vector: dict[str, Any]) -> None:
    given = vector["input"]
    shake = Handshake(BASE, resources="all")
    ours, theirs = shake.open()
    ours.send_resource(b"x" * 5000, compression="off")
    shake.server.input(shake.server_wire, *sent(shake.client))
    sent(shake.server)
    icl = "icl" in vector["name"]
    to, wire = (shake.server, shake.server_wire) if icl else (shake.client, shake.client_wire)
    # The vector names a resource of its own, which nobody here has.
    verdict = to.input(wire, bits(vector["output"]["raw"]))
    assert verdict.reason == DropReason.RESOURCE_UNKNOWN
    assert bits(given["plaintext"]) == ours.unseal(bits(vector["output"]["raw"]))
    mine = ours.transfers()[0].resource_hash
    frame = (ours if icl else theirs).seal(mine, context=6 if icl else 7)
    assert to.input(wire, frame).accepted
    (ended,) = found(to, ResourceFailed if icl else ResourceSent)
    assert not ended.ok
    assert (ended.resource_hash, ours.info.transfers_out + theirs.info.transfers_in) == (mine, 1)


def test_a_large_response_is_advertised_as_in_the_vector() -> None:
    """The vector `response_as_resource_advertisement`: the flag, the request id, the hash."""
    vector = named(LINKS, "response_as_resource_advertisement")
    given, fields = vector["input"], unpackb(bits(vector["output"]["advertisement_plaintext"]))
    assert fields["f"] == 0x11
    shake = Handshake(BASE)
    ours, theirs = shake.open()
    shake.server.handle(shake.address, "/big")
    ours.request("/big")
    shake.server.input(shake.server_wire, *sent(shake.client))
    (request,) = found(shake.server, RequestReceived)
    body = bits(given["data"])
    answer = body[19:]  # after the array and the request id
    shake.server_random.queue = [
        bits(given["stream_iv"]),
        bits(given["random_prefix"]),
        candidates(bits(given["random_hash"])),
    ]
    shake.server.respond(request.token, packed=answer)
    (frame,) = sent(shake.server)
    mine = unpackb(theirs.unseal(frame))
    assert mine["q"] == request.request_id
    assert {key: mine[key] for key in "tdnilfr"} == {key: fields[key] for key in "tdnilfr"}
    assert len(mine["m"]) == len(fields["m"])
