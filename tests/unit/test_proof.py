"""Proofs of packets, implicit and explicit, and on links (P12)."""

from __future__ import annotations

from typing import Any

import pytest

from golden import name_of, named, raw, vectors
from inputs import BUFFERS, NOT_BYTES, flips, truncations
from netmesh.errors import KeyMissingError

CORE, LINKS = "reticulum-core", "reticulum-links"
PRIVATE, HASH, LINK = bytes(range(1, 65)), bytes(range(32)), bytes(range(50, 66))


@pytest.mark.parametrize("name", ["packet-proof-implicit", "packet-proof-explicit"])
def test_proofs_are_those_of_upstream(impl: Any, name: str) -> None:
    """P12: both forms, against the hash of the proved packet."""
    vector = named(CORE, name)
    identity = impl.Identity.from_private(raw(vector["input"]["prover_private_key"]))
    proved = impl.Packet.unpack(raw(vector["input"]["proved_packet"]))
    implicit = name.endswith("implicit")
    packet = impl.proof_packet(identity, proved.hash, implicit=implicit)
    assert packet.raw == raw(vector["output"]["raw"])
    assert packet.payload == impl.proof_payload(identity, proved.hash, implicit=implicit)
    assert impl.verify_proof(identity.public_only(), packet.payload, proved.hash) is True
    assert impl.verify_proof(identity, packet.payload, proved.hash, link=True) is not implicit


@pytest.mark.parametrize("vector", vectors(LINKS, "link_packet_proof"), ids=name_of)
def test_proofs_on_a_link_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P12: explicit only, signed with a raw seed."""
    given = vector["input"]
    seed, proved = raw(given["signing_seed_ed25519"]), raw(given["packet_hash"])
    packet = impl.link_proof_packet(seed, proved, raw(given["link_id"]))
    assert packet.raw == raw(vector["output"]["raw"])
    assert packet.payload == proved + raw(vector["output"]["signature"])
    public = impl.ed25519_public(seed)
    assert impl.verify_proof(public, packet.payload, proved, link=True) is True
    assert impl.verify_proof(public, packet.payload[32:], proved, link=True) is False
    assert impl.verify_proof(public, packet.payload[32:], proved) is True


def test_a_proof_goes_to_the_truncated_hash_or_to_the_link(impl: Any) -> None:
    """P12."""
    identity = impl.Identity.from_private(PRIVATE)
    packet = impl.proof_packet(identity, HASH)
    assert (packet.flags, packet.context, packet.destination) == (0x03, 0, HASH[:16])
    assert len(packet.payload) == 64
    on_link = impl.link_proof_packet(identity, HASH, LINK)
    assert (on_link.flags, on_link.context, on_link.destination) == (0x0F, 0, LINK)
    assert len(on_link.payload) == 96


def test_a_signer_is_an_identity_or_a_seed(impl: Any) -> None:
    """P12."""
    identity = impl.Identity.from_private(PRIVATE)
    assert impl.proof_payload(identity, HASH) == impl.proof_payload(PRIVATE[32:], HASH)
    explicit = impl.proof_payload(bytearray(PRIVATE[32:]), memoryview(HASH), implicit=False)
    assert explicit == HASH + identity.sign(HASH)
    for public in (identity, identity.public_only(), identity.public_key[32:]):
        assert impl.verify_proof(public, explicit, HASH) is True


def test_anything_else_proves_nothing(impl: Any) -> None:
    """P12: False for other lengths, other packets, other keys and any changed byte."""
    identity = impl.Identity.from_private(PRIVATE)
    implicit = impl.proof_payload(identity, HASH)
    explicit = impl.proof_payload(identity, HASH, implicit=False)
    for payload in [
        *list(truncations(explicit))[::7],
        *flips(explicit, step=5),
        *flips(implicit, step=5),
        implicit + b"\0",
        explicit + b"\0",
        b"",
    ]:
        if payload not in (implicit, explicit):
            assert impl.verify_proof(identity, payload, HASH) is False
    other = impl.Identity.from_private(PRIVATE[::-1])
    for payload in (implicit, explicit):
        assert impl.verify_proof(other, payload, HASH) is False
        assert impl.verify_proof(identity, payload, HASH[::-1]) is False


@pytest.mark.parametrize("kind", BUFFERS)
def test_proofs_come_in_every_kind_of_buffer(impl: Any, kind: str) -> None:
    """P12."""
    make = BUFFERS[kind]
    payload = impl.proof_payload(make(PRIVATE[32:]), make(HASH))
    public = impl.ed25519_public(PRIVATE[32:])
    assert impl.verify_proof(make(public), make(payload), make(HASH)) is True


def test_arguments_of_proofs_are_checked(impl: Any) -> None:
    """P12: lengths, types and keys."""
    identity = impl.Identity.from_private(PRIVATE)
    public = identity.public_only()
    for call in (
        lambda: impl.proof_payload(bytes(31), HASH),
        lambda: impl.proof_payload(identity, bytes(31)),
        lambda: impl.proof_packet(identity, bytes(33)),
        lambda: impl.link_proof_packet(identity, HASH, bytes(15)),
        lambda: impl.verify_proof(bytes(33), b"", HASH),
        lambda: impl.verify_proof(identity, b"", bytes(16)),
    ):
        with pytest.raises(ValueError, match="bytes"):
            call()
    for wrong in NOT_BYTES.values():
        for call in (
            lambda wrong=wrong: impl.proof_payload(wrong, HASH),
            lambda wrong=wrong: impl.proof_payload(identity, wrong),
            lambda wrong=wrong: impl.verify_proof(wrong, b"", HASH),
            lambda wrong=wrong: impl.verify_proof(identity, wrong, HASH),
        ):
            with pytest.raises(TypeError):
                call()
    with pytest.raises(TypeError):
        impl.proof_payload(identity, HASH, implicit=1)
    for call in (
        lambda: impl.proof_payload(public, HASH),
        lambda: impl.link_proof_packet(public, HASH, LINK),
        lambda: impl.verify_proof(impl.Identity.without_keys(), b"", HASH),
    ):
        with pytest.raises(KeyMissingError):
            call()
