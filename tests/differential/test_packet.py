"""Packets and proofs: the C core against the pure reference."""

from __future__ import annotations

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
    pure,
    same,
    sized,
    truncations,
)

BYTE = st.integers(0, 255)
PAYLOAD = st.binary(min_size=1, max_size=470)


@st.composite
def raw_packets(draw: st.DrawFn) -> bytes:
    flags = draw(BYTE)
    relay = draw(ADDRESS) if flags & 0x40 else b""
    head = bytes([flags, draw(st.integers(0, 127))])
    return head + relay + draw(ADDRESS) + bytes([draw(BYTE)]) + draw(PAYLOAD)


@st.composite
def header_fields(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of the constructor, some of which do not fit together."""
    fields: dict[str, Any] = {
        "destination": draw(sized(16, 16, 16, 15)),
        "payload": draw(st.one_of(PAYLOAD, st.binary(max_size=520))),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {
        "packet_type": st.integers(-1, 4),
        "destination_type": st.integers(-1, 4),
        "header_type": st.integers(0, 2),
        "context_flag": st.booleans(),
        "transport_type": st.integers(0, 2),
        "hops": st.sampled_from((0, 1, 127, 128, -1)),
        "context": st.integers(-1, 256),
        "transport_id": st.none() | sized(16, 16, 17),
        "mtu": st.sampled_from((500, 484, 60, 0, 8192)),
    }
    for name in draw(st.lists(st.sampled_from(sorted(optional)), unique=True)):
        fields[name] = draw(optional[name])
    return fields


@given(damaged(raw_packets()))
def test_any_bytes_are_parsed_alike(raw: bytes) -> None:
    same(lambda impl: impl.Packet.unpack(raw))
    same(lambda impl: impl.packet_hash(raw))


def test_every_truncation_names_the_field_that_is_cut() -> None:
    for flags in (0x00, 0x51):
        head = bytes([flags, 3]) + (bytes(16) if flags & 0x40 else b"")
        for raw in truncations(head + bytes(16) + b"\0d"):
            assert same(lambda impl, raw=raw: impl.Packet.unpack(raw))[0] == "error"


@given(header_fields())
def test_packets_are_made_alike(fields: dict[str, Any]) -> None:
    same(lambda impl: impl.Packet(**fields))


@given(raw_packets(), header_fields())
def test_packets_are_replaced_alike(raw: bytes, fields: dict[str, Any]) -> None:
    same(lambda impl: impl.Packet.unpack(raw).replace(**fields))


@given(
    sized(16, 16, 15),
    st.binary(max_size=490),
    st.integers(-1, 256),
    st.sampled_from((0, 1, 127, 128)),
    st.integers(-1, 256),
    st.none() | sized(16, 15),
    st.sampled_from((500, 484, 20)),
)
def test_the_fast_form_packs_alike(
    destination: bytes,
    payload: bytes,
    flags: int,
    hops: int,
    context: int,
    transport_id: bytes | None,
    mtu: int,
) -> None:
    same(
        lambda impl: impl.pack_packet(destination, payload, flags, hops, context, transport_id, mtu)
    )


@given(raw_packets())
def test_packets_travel_crosswise(raw: bytes) -> None:
    crosswise(lambda a, b: b.Packet.unpack(a.Packet.unpack(raw).pack()))


def test_which_payloads_travel_in_clear() -> None:
    for packet_type in range(4):
        for destination_type in range(4):
            for context in range(256):
                arguments = packet_type, destination_type, context
                assert core.travels_in_clear(*arguments) == pure.travels_in_clear(*arguments)
    for arguments in ((4, 0, 0), (0, 4, 0), (0, 0, 256), (-1, 0, 0)):
        same(lambda impl, a=arguments: impl.travels_in_clear(*a))


@given(raw_packets(), raw_packets())
def test_values_of_packets(raw: bytes, other: bytes) -> None:
    for impl in (core, pure):
        packet = impl.Packet.unpack(raw)
        assert packet == impl.Packet.unpack(bytearray(raw))
        assert hash(packet) == hash(impl.Packet.unpack(raw))
        assert (packet == impl.Packet.unpack(other)) == (raw == other)
        assert packet != raw
        with pytest.raises((AttributeError, TypeError)):
            packet.hops = 3
    assert repr(core.Packet.unpack(raw)) == repr(pure.Packet.unpack(raw))


def test_kinds_of_addresses_are_checked() -> None:
    for call in (
        lambda impl: impl.Packet(destination=impl.IdentityHash(bytes(16)), payload=b"x"),
        lambda impl: impl.Packet(
            destination=bytes(16),
            payload=b"x",
            header_type=1,
            hops=1,
            transport_id=impl.DestinationHash(bytes(16)),
        ),
        lambda impl: impl.Packet(destination="x" * 16, payload=b"x"),
        lambda impl: impl.Packet(destination=bytes(16), payload="x"),
        lambda impl: impl.Packet(destination=bytes(16), payload=b"x", hops="1"),
        lambda impl: impl.Packet(destination=bytes(16), payload=b"x", context_flag=1),
        lambda impl: impl.Packet.unpack("x"),
        lambda impl: impl.packet_hash(None),
    ):
        assert same(call)[2] == "TypeError"
    same(lambda impl: impl.Packet(destination=impl.DestinationHash(bytes(16)), payload=b"x"))


# --------------------------------------------------------------- proofs


@given(KEY, sized(32, 32, 31), st.booleans())
def test_proofs_agree(seed: bytes, packet_hash: bytes, implicit: bool) -> None:
    same(lambda impl: impl.proof_payload(seed, packet_hash, implicit=implicit))
    same(lambda impl: impl.proof_packet(seed, packet_hash, implicit=implicit))
    same(lambda impl: impl.link_proof_packet(seed, packet_hash, bytes(16)))
    same(lambda impl: impl.proof_payload(impl.Identity.from_private(seed + seed), packet_hash))


@given(KEY, KEY, st.booleans(), st.booleans())
def test_proofs_are_taken_crosswise(
    seed: bytes, packet_hash: bytes, implicit: bool, link: bool
) -> None:
    def run(maker: Any, taker: Any) -> list[bool]:
        payload = maker.proof_payload(seed, packet_hash, implicit=implicit)
        public = taker.ed25519_public(seed)
        identity = taker.Identity.from_private(seed + seed).public_only()
        return [
            taker.verify_proof(key, payload, proved, link=link)
            for key in (public, identity)
            for proved in (packet_hash, bytes(31) + b"x")
        ]

    assert crosswise(run)[1][1] == [("bool", not (implicit and link)), ("bool", False)] * 2


@given(st.data(), KEY, st.booleans(), st.booleans())
def test_damaged_proofs_are_refused_alike(
    data: st.DataObject, seed: bytes, implicit: bool, link: bool
) -> None:
    proved = bytes(32)
    payload = data.draw(damaged(st.just(pure.proof_payload(seed, proved, implicit=implicit))))
    public = pure.ed25519_public(seed)
    same(lambda impl: impl.verify_proof(public, payload, proved, link=link))


def test_proofs_need_private_keys() -> None:
    same(lambda impl: impl.proof_payload(impl.Identity.from_public(bytes(64)), bytes(32)))
    same(lambda impl: impl.verify_proof(impl.Identity.without_keys(), bytes(64), bytes(32)))
    same(lambda impl: impl.proof_payload(bytes(31), bytes(32)))
    same(lambda impl: impl.link_proof_packet(bytes(32), bytes(32), bytes(15)))
