"""The link handshake and link payloads: the C core against the pure reference."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import (
    ADDRESS,
    KEY,
    core,
    crosswise,
    damaged,
    fewer,
    pure,
    same,
    sized,
    truncations,
)

OWNER = bytes(range(64))
LINK = bytes(range(16))
MTUS = st.none() | st.one_of(
    st.integers(-1, 600), st.sampled_from((0, 2**21 - 1, 2**21, 2**32 - 1, 2**32))
)
MODES = st.integers(-1, 8) | st.just(1)


@given(MTUS.filter(lambda mtu: mtu is not None), MODES)
def test_signalling_agrees(mtu: int, mode: int) -> None:
    same(lambda impl: impl.signalling_pack(mtu, mode))
    crosswise(lambda a, b: b.signalling_unpack(a.signalling_pack(mtu, mode)))


@given(sized(3, 0, 2, 4))
def test_any_signalling_is_read_alike(data: bytes) -> None:
    same(lambda impl: impl.signalling_unpack(data))


# -------------------------------------------------------------- handshake


@given(sized(16, 15), sized(32, 31), sized(32, 33), MTUS, MODES)
def test_requests_are_made_alike(
    destination: bytes, x25519: bytes, ed25519: bytes, mtu: int | None, mode: int
) -> None:
    same(lambda impl: impl.link_request_payload(x25519, ed25519, mtu=mtu, mode=mode))
    same(lambda impl: impl.LinkRequest.create(destination, x25519, ed25519, mtu=mtu, mode=mode))


@given(ADDRESS, KEY, KEY, st.none() | st.integers(0, 2**21 - 1))
def test_requests_are_taken_crosswise(
    destination: bytes, x25519: bytes, ed25519: bytes, mtu: int | None
) -> None:
    def run(maker: Any, taker: Any) -> Any:
        made = maker.LinkRequest.create(destination, x25519, ed25519, mtu=mtu)
        return taker.LinkRequest.unpack(made.packet.raw), taker.link_id(made.packet.raw)

    crosswise(run)


@given(sized(64, 65, 66, 67, 68, 63, 0), st.integers(0, 3), st.integers(0, 255), st.integers(0, 1))
def test_any_request_is_read_alike(
    payload: bytes, packet_type: int, context: int, header: int
) -> None:
    def packet(impl: Any) -> Any:
        options: dict[str, Any] = {"packet_type": packet_type, "context": context}
        if header:
            options |= {"header_type": 1, "transport_type": 1, "transport_id": LINK, "hops": 2}
        return impl.Packet(destination=LINK, payload=payload, **options)

    for name in ("LinkRequest", "LinkProof"):
        same(lambda impl, n=name: getattr(impl, n).unpack(packet(impl)))
    same(lambda impl: impl.link_id(packet(impl)))


def proof(impl: Any, **options: Any) -> Any:
    return impl.LinkProof.create(LINK, impl.Identity.from_private(OWNER), bytes(32), **options)


@fewer(2)
@given(
    sized(16, 17),
    st.sampled_from(("private", "public", "none", "other")),
    sized(32, 31),
    MTUS,
    MODES,
)
def test_proofs_are_made_alike(
    link_id: bytes, signer: str, x25519: bytes, mtu: int | None, mode: int
) -> None:
    def run(impl: Any) -> Any:
        owner = impl.Identity.from_private(OWNER)
        kinds = {
            "private": owner,
            "public": owner.public_only(),
            "none": impl.Identity.without_keys(),
            "other": OWNER,
        }
        return impl.LinkProof.create(link_id, kinds[signer], x25519, mtu=mtu, mode=mode)

    same(run)


@fewer(2)
@given(
    st.none() | st.integers(0, 1000),
    st.integers(-1, 8) | st.just(1),
    st.none() | st.integers(-1, 1000),
    st.booleans(),
)
def test_proofs_are_verified_crosswise(
    mtu: int | None, mode: int, mtu_max: int | None, right: bool
) -> None:
    def run(maker: Any, taker: Any) -> Any:
        taken = taker.LinkProof.unpack(proof(maker, mtu=mtu).packet.raw)
        owner = taker.Identity.from_private(OWNER if right else bytes(64)).public_only()
        verified = taken.verify(owner, mode=mode, mtu_max=mtu_max)
        return taken, taken.signed_data(owner), verified

    crosswise(run)


VALID_PROOF = proof(pure).packet.raw
VALID_REQUEST = pure.LinkRequest.create(LINK, bytes(32), bytes(32)).packet.raw


@given(damaged(st.sampled_from((VALID_PROOF, VALID_REQUEST))))
def test_damaged_handshakes_are_judged_alike(raw: bytes) -> None:
    same(lambda impl: impl.LinkRequest.unpack(raw))
    same(lambda impl: impl.LinkProof.unpack(raw))
    same(lambda impl: impl.link_id(raw))
    same(lambda impl: impl.LinkProof.unpack(raw).verify(impl.Identity.from_private(OWNER)))


def test_truncated_handshakes_are_refused_alike() -> None:
    for raw in truncations(VALID_PROOF) + truncations(VALID_REQUEST):
        same(lambda impl, r=raw: impl.LinkRequest.unpack(r))
        same(lambda impl, r=raw: impl.LinkProof.unpack(r))


# --------------------------------------------------------------- packets


@fewer(2)
@given(sized(32, 31), KEY, sized(16, 15), MODES)
def test_session_keys_agree(private: bytes, other: bytes, link_id: bytes, mode: int) -> None:
    public = pure.x25519_public(other)
    same(lambda impl: impl.link_session_key(private, public, link_id, mode=mode))
    same(lambda impl: impl.link_session_key(other, private, link_id, mode=mode))


def test_weak_peers_are_refused_alike() -> None:
    for mode in (0, 1, 2):
        same(lambda impl, m=mode: impl.link_session_key(bytes(32), bytes(32), LINK, mode=m))


@given(
    sized(64, 32, 16),
    st.binary(max_size=600),
    st.fixed_dictionaries(
        {},
        optional={
            "context": st.sampled_from((0, 1, 0xFA, 0xFB, 0xFC, 0xFD, 0xFF, 9, -1, 256)),
            "packet_type": st.integers(-1, 4),
            "mtu": st.sampled_from((500, 1000, 0, 19, -1, 2**62, 100)),
        },
    ),
)
def test_packets_are_sealed_alike(key: bytes, plaintext: bytes, options: dict[str, Any]) -> None:
    same(lambda impl: impl.link_packet(LINK, key, plaintext, iv=bytes(16), **options))


@given(st.sampled_from((64, 32)), st.binary(max_size=400), st.sampled_from((0, 1, 9, 0xFA, 0xFE)))
def test_packets_are_opened_crosswise(size: int, plaintext: bytes, context: int) -> None:
    key = bytes(range(size))

    def run(sender: Any, receiver: Any) -> Any:
        packet = sender.link_packet(LINK, sender.Token(key), plaintext, context=context)
        taken = receiver.Packet.unpack(packet.raw)
        return receiver.link_open(key, taken), receiver.link_open(receiver.Token(key), taken)

    crosswise(run)


@given(st.binary(max_size=150), st.integers(0, 3), st.integers(0, 3), st.integers(0, 255))
def test_any_packet_is_opened_alike(
    payload: bytes, packet_type: int, destination_type: int, context: int
) -> None:
    same(
        lambda impl: impl.link_open(
            bytes(64),
            impl.Packet(
                destination=LINK,
                payload=payload,
                packet_type=packet_type,
                destination_type=destination_type,
                context=context,
            ),
        )
    )


# -------------------------------------------------------- small payloads


@given(st.floats() | st.integers(-(2**70), 2**70))
def test_round_trip_times_travel_crosswise(seconds: float) -> None:
    same(lambda impl: impl.rtt_pack(seconds))
    crosswise(lambda a, b: b.rtt_unpack(a.rtt_pack(seconds)))


@given(
    st.one_of(
        st.binary(max_size=12),
        st.floats(width=32).map(lambda value: struct.pack(">Bf", 0xCA, value)),
        st.floats().map(lambda value: struct.pack(">Bd", 0xCB, value)),
        st.integers(-(2**63), 2**64 - 1).map(pure.packb),
        st.sampled_from((None, True, "1.5", b"", [1], {})).map(pure.packb),
    )
)
def test_any_round_trip_time_is_read_alike(data: bytes) -> None:
    same(lambda impl: impl.rtt_unpack(data))


@fewer(2)
@given(st.data(), ADDRESS)
def test_identifications_are_taken_crosswise(data: st.DataObject, link_id: bytes) -> None:
    def owner(impl: Any) -> Any:
        return impl.Identity.from_private(OWNER)

    crosswise(lambda a, b: b.identify_unpack(link_id, a.identify_pack(link_id, owner(a))))
    crosswise(lambda a, b: b.identify_unpack(LINK, a.identify_pack(link_id, owner(a))))
    changed = data.draw(damaged(st.just(pure.identify_pack(link_id, owner(pure)))))
    same(lambda impl: impl.identify_unpack(link_id, changed))


@given(sized(16, 15), sized(16, 0, 17), st.sampled_from((True, False, 1, None)))
def test_small_payloads_agree(link_id: bytes, other: bytes, initiator: Any) -> None:
    same(lambda impl: impl.keepalive_payload(initiator))
    same(lambda impl: impl.close_payload(link_id))
    same(lambda impl: impl.is_close(link_id, other))
    crosswise(lambda a, b: b.is_close(link_id, a.close_payload(link_id)))


@pytest.mark.parametrize("impl", [core, pure])
def test_handshakes_are_equal_by_value(impl: Any) -> None:
    for name, raw in (("LinkRequest", VALID_REQUEST), ("LinkProof", VALID_PROOF)):
        kind = getattr(impl, name)
        one = kind.unpack(raw)
        assert one == kind.unpack(impl.Packet.unpack(raw))
        assert hash(one) == hash(kind.unpack(raw))
        assert one != kind.unpack(raw[:-1] + b"\x00")
        assert one != one.packet


def test_wrong_types_are_type_errors() -> None:
    def owner(impl: Any) -> Any:
        return impl.Identity.from_private(OWNER)

    for call in (
        lambda impl: impl.signalling_pack(None),
        lambda impl: impl.signalling_pack(500, None),
        lambda impl: impl.signalling_unpack("abc"),
        lambda impl: impl.link_id(None),
        lambda impl: impl.LinkRequest(),
        lambda impl: impl.LinkProof(),
        lambda impl: impl.LinkRequest.create(impl.IdentityHash(LINK), bytes(32), bytes(32)),
        lambda impl: impl.LinkRequest.unpack("text"),
        lambda impl: impl.LinkProof.unpack(None),
        lambda impl: proof(impl).signed_data(OWNER),
        lambda impl: proof(impl).verify(OWNER),
        lambda impl: proof(impl).verify(owner(impl), mode=None),
        lambda impl: proof(impl).verify(owner(impl), mtu_max="1"),
        lambda impl: impl.link_session_key("k", bytes(32), LINK),
        lambda impl: impl.link_packet(LINK, None, b""),
        lambda impl: impl.link_packet(LINK, bytes(64), "text"),
        lambda impl: impl.link_packet(LINK, bytes(64), b"", iv="text"),
        lambda impl: impl.link_open(bytes(64), bytes(20)),
        lambda impl: impl.link_open("key", impl.Packet(destination=LINK, payload=b"1")),
        lambda impl: impl.rtt_pack("1"),
        lambda impl: impl.rtt_unpack("1"),
        lambda impl: impl.identify_pack(LINK, OWNER),
        lambda impl: impl.identify_unpack(LINK, "text"),
        lambda impl: impl.close_payload("text"),
        lambda impl: impl.is_close(LINK, "text"),
    ):
        assert same(call)[2] == "TypeError"
    for call in (
        lambda impl: proof(impl).signed_data(impl.Identity.without_keys()),
        lambda impl: proof(impl).verify(impl.Identity.without_keys()),
        lambda impl: impl.identify_pack(LINK, owner(impl).public_only()),
    ):
        assert same(call)[2] == "KeyMissingError"
