"""Packets and the proofs of their reception (RNS 1, 4).

Example:
    >>> from netmesh import Identity
    >>> from netmesh.packet import Packet, proof_packet, verify_proof
    >>> received = Packet.unpack(Packet(destination=bytes(16), payload=b"hello").raw)
    >>> bytes(received.payload), received.hops
    (b'hello', 0)
    >>> receiver = Identity()
    >>> proof = proof_packet(receiver, received.hash)
    >>> verify_proof(receiver.public_only(), proof.payload, received.hash)
    True
"""

from __future__ import annotations

from netmesh._core import (
    Packet,
    link_proof_packet,
    pack_packet,
    packet_hash,
    proof_packet,
    proof_payload,
    travels_in_clear,
    verify_proof,
)

__all__ = [
    "Packet",
    "link_proof_packet",
    "pack_packet",
    "packet_hash",
    "proof_packet",
    "proof_payload",
    "travels_in_clear",
    "verify_proof",
]
