"""The link handshake and the payloads of a link (P11)."""

from __future__ import annotations

import math
import pickle
import struct
from typing import Any

import pytest

from golden import name_of, named, raw, vectors
from inputs import BUFFERS, NOT_BYTES, flips, truncations
from netmesh.constants import Context
from netmesh.errors import AuthenticationError, DecodeError, EncodeError, KeyMissingError

CORE, LINKS = "reticulum-core", "reticulum-links"
PRIVATE = bytes(range(1, 65))
LINK, X, ED = bytes(range(16)), bytes(range(32)), bytes(range(100, 132))
ADDRESS = bytes(range(200, 216))


# --------------------------------------------------------------------- signalling

SIGNALLING = [*vectors(CORE, "link_signalling"), *vectors(LINKS, "link_signalling")]


@pytest.mark.parametrize("vector", SIGNALLING, ids=name_of)
def test_signalling_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P11: both ways; modes that are not enabled are refused when written."""
    mtu, mode = vector["input"]["mtu"], vector["input"]["mode"]
    if "bytes" in vector["output"]:
        assert impl.signalling_pack(mtu, mode) == raw(vector["output"]["bytes"])
        assert impl.signalling_unpack(raw(vector["output"]["bytes"])) == (mtu, mode)
    else:
        with pytest.raises(EncodeError):
            impl.signalling_pack(mtu, mode)


def test_only_one_mode_is_enabled(impl: Any) -> None:
    """P11: writing another is refused, reading one is not."""
    assert impl.signalling_pack(500) == impl.signalling_pack(500, 1)
    for mode in (0, 2, 3, 4, 5, 6, 7):
        with pytest.raises(EncodeError) as caught:
            impl.signalling_pack(500, mode)
        assert caught.value.reason == "MODE"
        assert impl.signalling_unpack(bytes([mode << 5, 1, 0xF4])) == (500, mode)
    for mtu in (0, 2**21 - 1):
        assert impl.signalling_unpack(impl.signalling_pack(mtu)) == (mtu, 1)
    with pytest.raises(EncodeError) as caught:
        impl.signalling_pack(2**21)
    assert caught.value.reason == "RANGE"
    for wrong in ((-1,), (500, 8), (500, -1)):
        with pytest.raises(ValueError, match=r"mtu|mode"):
            impl.signalling_pack(*wrong)
    for size in (0, 2, 4):
        with pytest.raises(DecodeError) as caught:
            impl.signalling_unpack(bytes(size))
        assert caught.value.reason == "LENGTH"
    for wrong in (None, "500", 1.0):
        with pytest.raises(TypeError):
            impl.signalling_pack(wrong)


# ---------------------------------------------------------------------- handshake


@pytest.mark.parametrize("vector", vectors(LINKS, "link_handshake"), ids=name_of)
def test_a_handshake_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P11: request from given keys, link id, proof, session keys, RTT packet."""
    given, expected = vector["input"], vector["output"]
    server = impl.Identity.from_private(raw(given["destination_private_key"]))
    x_private, responder = (
        raw(given["initiator_x25519_private"]),
        raw(given["responder_x25519_private"]),
    )
    x_public = impl.x25519_public(x_private)
    ed_public = impl.ed25519_public(raw(given["initiator_ed25519_seed"]))
    assert x_public == raw(expected["initiator_x25519_public"])
    assert ed_public == raw(expected["initiator_ed25519_public"])

    request = impl.LinkRequest.create(
        raw(given["destination_hash"]), x_public, ed_public, mtu=given["requested_mtu"]
    )
    seen = impl.LinkRequest.unpack(raw(expected["link_request_raw"]))
    if given["signalling_stripped_in_transit"]:
        assert seen.has_signalling is False
        assert request.packet.payload[:64] == seen.packet.payload
    else:
        assert request.packet.raw == raw(expected["link_request_raw"])
        assert request.packet.payload == raw(expected["link_request_data"])
        assert seen == request
    assert seen.destination == raw(given["destination_hash"])
    assert isinstance(seen.destination, impl.DestinationHash)
    assert (seen.x25519_public, seen.ed25519_public) == (x_public, ed_public)
    preimage = raw(expected["link_id_preimage"])
    assert seen.link_id == request.link_id == raw(expected["link_id"])
    assert seen.link_id == impl.link_id(seen.packet) == impl.truncated_hash(preimage)

    responder_public = impl.x25519_public(responder)
    proof = impl.LinkProof.create(
        seen.link_id, server, responder_public, mtu=expected["confirmed_mtu"]
    )
    assert proof.packet.raw == raw(expected["link_proof_raw"])
    proof = impl.LinkProof.unpack(proof.packet.raw)
    assert proof.link_id == seen.link_id
    assert proof.x25519_public == raw(expected["responder_x25519_public"])
    assert proof.signed_data(server.public_only()) == raw(expected["proof_signed_data"])
    assert (proof.mtu, proof.mode) == (expected["confirmed_mtu"], given["mode"])
    assert proof.verify(server.public_only()) is True

    assert impl.x25519(x_private, responder_public) == raw(expected["shared_key"])
    key = impl.link_session_key(x_private, proof.x25519_public, proof.link_id)
    assert key == impl.link_session_key(responder, seen.x25519_public, seen.link_id)
    assert key == raw(expected["derived_key"])
    assert key == raw(expected["hmac_key"]) + raw(expected["aes_key"])

    rtt = impl.rtt_pack(given["initiator_rtt_seconds"])
    assert rtt == raw(expected["rtt_plaintext"])
    packet = impl.link_packet(
        seen.link_id, key, rtt, context=Context.LRRTT, iv=raw(given["rtt_packet_iv"])
    )
    assert packet.raw == raw(expected["rtt_raw"])
    assert impl.rtt_unpack(impl.link_open(key, packet)) == given["initiator_rtt_seconds"]
    cost = len(request.packet.raw) + len(proof.packet.raw)
    assert (
        given["signalling_stripped_in_transit"]
        or cost == expected["initiator_establishment_cost_bytes"]
    )


@pytest.mark.parametrize(
    "vector", [*vectors(CORE, "link_id"), *vectors(LINKS, "link_id")], ids=name_of
)
def test_link_ids_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P11: invariant under relaying and clamping."""
    data = raw(vector["input"].get("raw") or vector["input"]["link_request_raw"])
    expected = vector["output"]
    assert impl.link_id(data) == raw(expected["link_id"])
    request = impl.LinkRequest.unpack(data)
    assert request.link_id == raw(expected["link_id"])
    if "packet_hash" in expected:
        assert request.packet.hash == raw(expected["packet_hash"])
    if "mtu" in expected:
        assert (request.mtu, request.mode) == (expected["mtu"], expected["mode"])


@pytest.mark.parametrize("vector", vectors(LINKS, "link_request_acceptance"), ids=name_of)
def test_requests_are_accepted_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P11: by length, and by mode when the proof is built."""
    data, expected = raw(vector["input"]["link_request_raw"]), vector["output"]
    server = impl.Identity.from_private(PRIVATE)

    def answer() -> Any:
        request = impl.LinkRequest.unpack(data)
        impl.LinkProof.create(request.link_id, server, X, mode=request.mode)
        return request

    if expected["accepted"]:
        assert answer().mtu == expected["mtu"]
    else:
        with pytest.raises((DecodeError, EncodeError)) as caught:
            answer()
        assert caught.value.reason in ("LENGTH", "MODE")


@pytest.mark.parametrize("vector", vectors(LINKS, "link_proof_acceptance"), ids=name_of)
def test_proofs_are_accepted_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P11: without signalling yes, with unsigned signalling no."""
    given, expected = vector["input"], vector["output"]
    server = impl.Identity.from_public(raw(given["destination_public_key"]))
    proof = impl.LinkProof.unpack(raw(given["link_proof_raw"]))
    assert proof.link_id == impl.link_id(raw(given["link_request_raw"]))
    assert proof.verify(server) is expected["accepted"]
    if expected["accepted"]:
        assert (proof.mtu, proof.mode) == (expected["mtu"], expected["mode"])
        private = raw(given["initiator_x25519_private"])
        key = impl.link_session_key(private, proof.x25519_public, proof.link_id)
        assert key == raw(expected["derived_key"])


def test_a_request_without_signalling_has_the_defaults(impl: Any) -> None:
    """P11: 500 and mode 1, also for an MTU of zero."""
    bare = impl.LinkRequest.create(ADDRESS, X, ED, mtu=None)
    assert len(bare.packet.payload) == 64
    assert (bare.mtu, bare.mode, bare.has_signalling) == (500, 1, False)
    zero = impl.LinkRequest.create(ADDRESS, X, ED, mtu=0)
    assert len(zero.packet.payload) == 67
    assert (zero.mtu, zero.mode, zero.has_signalling) == (500, 1, True)
    assert impl.LinkRequest.create(ADDRESS, X, ED).mtu == 500
    assert bare.link_id == zero.link_id
    payload = impl.link_request_payload(X, ED, mtu=1064)
    assert payload == X + ED + impl.signalling_pack(1064)
    assert impl.link_request_payload(X, ED, mtu=None) == X + ED


def test_a_request_goes_to_a_single_destination(impl: Any) -> None:
    """P11: with the header of any link request."""
    request = impl.LinkRequest.create(impl.DestinationHash(ADDRESS), X, ED)
    packet = request.packet
    assert (packet.flags, packet.hops, packet.context) == (0x02, 0, 0)
    assert packet.destination == ADDRESS
    relayed = packet.replace(header_type=1, transport_type=1, hops=4, transport_id=LINK)
    assert impl.LinkRequest.unpack(relayed).link_id == request.link_id


def test_a_proof_is_checked_against_what_was_asked_for(impl: Any) -> None:
    """P11: another mode or a larger MTU is refused before it is trusted."""
    server = impl.Identity.from_private(PRIVATE)
    proof = impl.LinkProof.create(LINK, server, X, mtu=1064)
    assert proof.verify(server) is True
    assert proof.verify(server, mtu_max=1064) is True
    assert proof.verify(server, mtu_max=None, mode=1) is True
    assert proof.verify(server, mtu_max=1063) is False
    assert proof.verify(server, mode=0) is False
    bare = impl.LinkProof.create(LINK, server, X, mtu=None)
    assert len(bare.packet.payload) == 96
    assert (bare.mtu, bare.mode) == (500, 1)
    assert bare.verify(server) is True
    assert bare.verify(server, mtu_max=499) is False
    assert bare.verify(impl.Identity.from_private(PRIVATE[::-1])) is False


def test_no_changed_byte_of_a_proof_passes(impl: Any) -> None:
    """P11: of link id, key, signature or signalling."""
    server = impl.Identity.from_private(PRIVATE)
    data = impl.LinkProof.create(LINK, server, X).packet.raw
    for place, wrong in enumerate(flips(data)):
        if place < 2 or place == 18:  # flags, hops and context
            continue
        assert impl.LinkProof.unpack(wrong).verify(server) is False
    for wrong in list(truncations(data))[20:]:
        if len(wrong) == 19 + 96:
            assert impl.LinkProof.unpack(wrong).verify(server) is False
        else:
            with pytest.raises(DecodeError) as caught:
                impl.LinkProof.unpack(wrong)
            assert caught.value.reason == "LENGTH"


def test_other_packets_are_no_handshake(impl: Any) -> None:
    """P11: by type, by context, by length."""
    data = impl.Packet(destination=ADDRESS, payload=bytes(67))
    proof = impl.Packet(
        destination=LINK, payload=bytes(99), packet_type=3, destination_type=3, context=0xFF
    )
    for call, packet in (
        (impl.LinkRequest.unpack, data),
        (impl.link_id, data),
        (impl.LinkProof.unpack, data),
        (impl.LinkProof.unpack, proof.replace(context=0)),
    ):
        for value in (packet, packet.raw):
            with pytest.raises(DecodeError) as caught:
                call(value)
            assert caught.value.reason == "TYPE"
    for size in (1, 63, 65, 66, 68, 100):
        wrong = data.replace(packet_type=2, payload=bytes(size))
        with pytest.raises(DecodeError) as caught:
            impl.LinkRequest.unpack(wrong)
        assert caught.value.reason == "LENGTH"
        if size < 64:
            with pytest.raises(DecodeError):
                impl.link_id(wrong)
        else:
            assert len(impl.link_id(wrong)) == 16
    for size in (1, 95, 97, 98, 100):
        with pytest.raises(DecodeError) as caught:
            impl.LinkProof.unpack(proof.replace(payload=bytes(size)))
        assert caught.value.reason == "LENGTH"


def test_arguments_of_the_handshake_are_checked(impl: Any) -> None:
    """P11."""
    server = impl.Identity.from_private(PRIVATE)
    for call in (
        lambda: impl.link_request_payload(bytes(31), ED),
        lambda: impl.link_request_payload(X, bytes(33)),
        lambda: impl.LinkRequest.create(bytes(15), X, ED),
        lambda: impl.LinkProof.create(bytes(15), server, X),
        lambda: impl.LinkProof.create(LINK, server, bytes(31)),
        lambda: impl.link_session_key(bytes(31), X, LINK),
        lambda: impl.link_session_key(X, bytes(31), LINK),
        lambda: impl.link_session_key(X, X, bytes(17)),
    ):
        with pytest.raises(ValueError, match=r"bytes|length"):
            call()
    for call in (
        lambda: impl.LinkProof.create(LINK, server.public_only(), X),
        lambda: impl.LinkProof.create(LINK, impl.Identity.without_keys(), X),
        lambda: impl.identify_pack(LINK, server.public_only()),
    ):
        with pytest.raises(KeyMissingError):
            call()
    for mode in (0, 2):
        with pytest.raises(EncodeError) as caught:
            impl.LinkProof.create(LINK, server, X, mode=mode)
        assert caught.value.reason == "MODE"
    for name in ("LinkRequest", "LinkProof"):
        with pytest.raises(TypeError):
            getattr(impl, name)()
        for wrong in NOT_BYTES.values():
            with pytest.raises(TypeError):
                getattr(impl, name).unpack(wrong)


def test_handshake_objects_are_values(impl: Any) -> None:
    """P11."""
    server = impl.Identity.from_private(PRIVATE)
    for one, other in (
        (impl.LinkRequest.create(ADDRESS, X, ED), impl.LinkRequest.create(ADDRESS, ED, X)),
        (impl.LinkProof.create(LINK, server, X), impl.LinkProof.create(LINK, server, ED)),
    ):
        assert one == type(one).unpack(one.packet)
        assert hash(one) == hash(type(one).unpack(one.packet.raw))
        assert one != other
        assert one == pickle.loads(pickle.dumps(one))
        with pytest.raises((AttributeError, TypeError)):
            one.mtu = 5


# ------------------------------------------------------------------- session keys


@pytest.mark.parametrize("vector", vectors(LINKS, "link_kdf"), ids=name_of)
def test_key_derivation_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P11: also for the mode that is defined and not enabled."""
    given, expected = vector["input"], vector["output"]
    key = impl.hkdf(given["length"], raw(given["shared_key"]), raw(given["salt_link_id"]))
    assert key == raw(expected["derived_key"])
    handshake = named(LINKS, "link_handshake_base")
    assert handshake["output"]["shared_key"] == given["shared_key"]
    found = impl.link_session_key(
        raw(handshake["input"]["initiator_x25519_private"]),
        raw(handshake["output"]["responder_x25519_public"]),
        raw(given["salt_link_id"]),
        mode=0,
    )
    assert found == raw(expected["hmac_key"]) + raw(expected["aes_key"])


def test_modes_without_a_key_derivation_are_refused(impl: Any) -> None:
    """P11: and peers whose key gives no secret."""
    peer = impl.x25519_public(ED)
    assert len(impl.link_session_key(X, peer, LINK)) == 64
    assert len(impl.link_session_key(X, peer, LINK, mode=0)) == 32
    for mode in range(2, 8):
        with pytest.raises((DecodeError, EncodeError)) as caught:
            impl.link_session_key(X, peer, LINK, mode=mode)
        assert caught.value.reason == "MODE"
    with pytest.raises(AuthenticationError) as caught:
        impl.link_session_key(X, bytes(32), LINK)
    assert caught.value.reason == "KEY"


# -------------------------------------------------------------------- link packets


@pytest.mark.parametrize(
    "vector", vectors(LINKS, "link_data", "link_identify", "link_close"), ids=name_of
)
def test_sealed_link_packets_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P11: seal and open under a session key or its token."""
    given, expected = vector["input"], vector["output"]
    key, link = raw(given["derived_key"]), raw(given["link_id"])
    packet = impl.Packet.unpack(raw(expected["raw"]))
    if "packet_hash" in expected:
        assert packet.hash == raw(expected["packet_hash"])
    plaintext = raw(given["plaintext"])
    for sealer in (key, impl.Token(key)):
        made = impl.link_packet(
            link, sealer, plaintext, context=packet.context, iv=raw(given["iv"])
        )
        assert made == packet
        assert impl.link_open(sealer, packet) == plaintext


@pytest.mark.parametrize("vector", vectors(LINKS, "link_keepalive_packet"), ids=name_of)
def test_keepalives_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P11: not sealed."""
    link = raw(vector["input"]["link_id"])
    payload = impl.keepalive_payload("initiator" in vector["name"])
    packet = impl.link_packet(link, bytes(64), payload, context=Context.KEEPALIVE)
    assert packet.raw == raw(vector["output"]["raw"])
    assert impl.link_open(bytes(64), packet) == payload


def test_what_travels_in_clear_is_not_sealed(impl: Any) -> None:
    """P11: resource parts, keepalives and proofs."""
    token = impl.Token(bytes(64))
    for options in ({"context": Context.RESOURCE}, {"packet_type": 3}, {"context": 0xFA}):
        packet = impl.link_packet(LINK, token, b"clear", **options)
        assert packet.payload == b"clear"
        assert impl.link_open(token, packet) == b"clear"
    sealed = impl.link_packet(LINK, token, b"clear")
    assert sealed.payload != b"clear"
    assert (sealed.flags, sealed.destination, sealed.hops) == (0x0C, LINK, 0)
    assert impl.link_packet(LINK, token, b"same") != impl.link_packet(LINK, token, b"same")


def test_the_mtu_of_a_link_bounds_its_packets(impl: Any) -> None:
    """P11: the largest plaintext is the link MDU."""
    token = impl.Token(bytes(64))
    for mtu, mdu in ((500, 431), (1064, 991)):
        assert len(impl.link_packet(LINK, token, bytes(mdu), mtu=mtu).raw) <= mtu
        with pytest.raises(EncodeError) as caught:
            impl.link_packet(LINK, token, bytes(mtu), mtu=mtu)
        assert caught.value.reason == "TOO_LARGE"
    assert impl.link_open(token, impl.link_packet(LINK, token, b"")) == b""
    with pytest.raises(EncodeError):
        impl.link_packet(LINK, token, b"", context=Context.KEEPALIVE)


def test_only_the_session_key_opens_a_link_packet(impl: Any) -> None:
    """P11."""
    packet = impl.link_packet(LINK, bytes(64), b"secret")
    with pytest.raises(AuthenticationError):
        impl.link_open(b"\1" + bytes(63), packet)
    for wrong in flips(bytes(packet.payload), step=9):
        with pytest.raises(AuthenticationError):
            impl.link_open(bytes(64), packet.replace(payload=wrong))
    with pytest.raises(DecodeError):
        impl.link_open(bytes(64), packet.replace(payload=b"short"))
    for call in (
        lambda: impl.link_packet(LINK, bytes(48), b"x"),
        lambda: impl.link_open(bytes(48), packet),
        lambda: impl.link_packet(bytes(15), bytes(64), b"x"),
        lambda: impl.link_packet(LINK, bytes(64), b"x", iv=bytes(15)),
        lambda: impl.link_packet(LINK, bytes(64), b"x", context=256),
        lambda: impl.link_packet(LINK, bytes(64), b"x", packet_type=4),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
    for wrong in (5, "key", None):
        with pytest.raises(TypeError):
            impl.link_packet(LINK, wrong, b"x")
    with pytest.raises((TypeError, AttributeError)):
        impl.link_open(bytes(64), packet.raw)


@pytest.mark.parametrize("kind", BUFFERS)
def test_links_take_every_kind_of_buffer(impl: Any, kind: str) -> None:
    """P11."""
    make = BUFFERS[kind]
    server = impl.Identity.from_private(PRIVATE)
    request = impl.LinkRequest.create(make(ADDRESS), make(X), make(ED))
    assert impl.LinkRequest.unpack(make(request.packet.raw)) == request
    proof = impl.LinkProof.create(make(LINK), server, make(X))
    assert impl.LinkProof.unpack(make(proof.packet.raw)) == proof
    packet = impl.link_packet(make(LINK), make(bytes(64)), make(b"text"))
    assert impl.link_open(make(bytes(64)), packet) == b"text"
    identified = impl.identify_unpack(make(LINK), make(impl.identify_pack(LINK, server)))
    assert identified == server.public_only()


# ------------------------------------------------------------------ small payloads


def test_a_round_trip_time_is_any_number(impl: Any) -> None:
    """P11: written as one float64, read in every width."""
    assert impl.rtt_pack(0.25).hex() == "cb3fd0000000000000"
    assert impl.rtt_pack(1) == impl.rtt_pack(1.0)
    for data, seconds in (
        (impl.rtt_pack(0.5), 0.5),
        (b"\xca" + struct.pack(">f", 0.25), 0.25),
        (b"\x05", 5.0),
        (b"\xcd\x01\x00", 256.0),
        (b"\xff", -1.0),
        (impl.rtt_pack(0.5) + b"rest", 0.5),
    ):
        found = impl.rtt_unpack(data)
        assert found == seconds
        assert type(found) is float
    for data, reason in (
        (b"\xc3", "TYPE"),
        (b"\xa15", "TYPE"),
        (b"\xc0", "TYPE"),
        (b"\x90", "TYPE"),
        (b"\xcb" + struct.pack(">d", math.inf), "VALUE"),
        (b"\xcb" + struct.pack(">d", math.nan), "VALUE"),
        (b"", "TRUNCATED"),
        (b"\xcb\0\0", "TRUNCATED"),
        (b"\xc1", "RESERVED"),
    ):
        with pytest.raises(DecodeError) as caught:
            impl.rtt_unpack(data)
        assert (caught.value.reason, caught.value.field) == (reason, "rtt")
    for wrong in (math.inf, math.nan):
        with pytest.raises(ValueError, match="finite"):
            impl.rtt_pack(wrong)
    with pytest.raises(TypeError):
        impl.rtt_pack("1")


def test_an_identification_is_that_of_upstream(impl: Any) -> None:
    """P11: packed, and checked."""
    (vector,) = vectors(LINKS, "link_identify")
    given = vector["input"]
    identity, link = (
        impl.Identity.from_private(raw(given["identity_private_key"])),
        raw(given["link_id"]),
    )
    payload = impl.identify_pack(link, identity)
    assert payload == raw(given["plaintext"])
    assert identity.verify(raw(given["signed_data"]), payload[64:])
    assert impl.identify_unpack(link, payload) == identity.public_only()


def test_only_a_signed_identification_counts(impl: Any) -> None:
    """P11: for this link."""
    identity = impl.Identity.from_private(PRIVATE)
    payload = impl.identify_pack(LINK, identity)
    for wrong in flips(payload, step=9):
        with pytest.raises(AuthenticationError) as caught:
            impl.identify_unpack(LINK, wrong)
        assert caught.value.reason == "SIGNATURE"
    with pytest.raises(AuthenticationError):
        impl.identify_unpack(LINK[::-1], payload)
    for wrong in [*list(truncations(payload))[::9], payload + b"\0"]:
        with pytest.raises(DecodeError) as caught:
            impl.identify_unpack(LINK, wrong)
        assert caught.value.reason == "LENGTH"
    with pytest.raises(ValueError, match="link_id"):
        impl.identify_unpack(bytes(15), payload)


def test_a_close_names_its_link(impl: Any) -> None:
    """P11."""
    (vector,) = vectors(LINKS, "link_close")
    link = raw(vector["input"]["link_id"])
    assert impl.close_payload(link) == raw(vector["input"]["plaintext"])
    assert impl.is_close(link, impl.close_payload(link)) is True
    for wrong in (b"", link[:-1], link + b"\0", link[::-1]):
        assert impl.is_close(link, wrong) is False
    for call in (impl.close_payload, lambda link: impl.is_close(link, b"")):
        with pytest.raises(ValueError, match="16"):
            call(bytes(15))


def test_a_keepalive_is_one_byte(impl: Any) -> None:
    """P11."""
    assert impl.keepalive_payload(True) == b"\xff"
    assert impl.keepalive_payload(False) == b"\xfe"
    with pytest.raises(TypeError):
        impl.keepalive_payload(1)
