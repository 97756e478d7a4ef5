"""Checked by mypy --strict, never run: what types a program sees."""

from __future__ import annotations

from typing import Any, assert_type

from netmesh import (
    Announce,
    Decrypted,
    Destination,
    DestinationHash,
    Identity,
    IdentityHash,
    Packet,
    Ratchets,
    Token,
)
from netmesh.framing import HdlcDecoder
from netmesh.lxmf import DeliveryAppData, Message, Propagated, delivery_hash
from netmesh.lxmf.stamp import Stamp, Workblock
from netmesh.resource import Assembled, Assembler, PartRequest, Segmenter

identity = Identity()
assert_type(identity.hash, IdentityHash)
assert_type(delivery_hash(identity), DestinationHash)
assert_type(identity.decrypt(b""), Decrypted)
assert_type(identity.decrypt(memoryview(b"")).ratchet_id, bytes | None)
assert_type(Identity.verify_many([(identity, b"", bytearray())]), list[bool])
assert_type(Destination(identity, "a.b").packet(b"x"), Packet)
assert_type(Packet.unpack(b"").payload, memoryview)
assert_type(Announce.unpack(b"").ratchet, bytes | None)
assert_type(Ratchets().private_keys, tuple[bytes, ...])
assert_type(Token(bytes(64)).check(b""), bool)
assert_type(HdlcDecoder().feed(b""), list[bytes])
assert_type(DeliveryAppData.unpack(None).stamp_cost, int | None)
message = Message.create(identity, bytes(16), "text", fields={1: b"x"})
assert_type(message.fields, dict[Any, Any])
assert_type(message.source_hash, DestinationHash)
assert_type(Propagated.create(message, identity).open(identity), Message)
assert_type(Workblock(message.id).search(8, threads=2), Stamp)
segmenter = Segmenter(b"", lambda plain: plain)
assert_type(segmenter.part(0), memoryview)
assembler = Assembler(segmenter.advertisement)
assert_type(assembler.next_request(4), PartRequest | None)
assert_type(assembler.finish(bytes(64)), Assembled)

# Each of these is a mistake that mypy must find (unused ignores are errors).
identity.sign("text")  # type: ignore[arg-type]
Identity(b"")  # type: ignore[call-arg]
message.title = b""  # type: ignore[misc]
Packet(b"", b"")  # type: ignore[call-arg]
