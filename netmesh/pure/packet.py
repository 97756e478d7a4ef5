"""The packet: header fields, parsing, packing, the packet hash and proofs (RNS 1, 4).

======  ======  ===============================================
offset  length  field (HEADER_1; HEADER_2 has the transport id)
======  ======  ===============================================
0       1       flags
1       1       hops
2       0 / 16  transport id
2 / 18  16      destination
18/34   1       context
19/35   rest    data, at least one byte
======  ======  ===============================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    ADDRESS_SIZE,
    HASH_SIZE,
    HOPS_MAX,
    KEY_SIZE,
    MTU,
    PROOF_EXPLICIT_SIZE,
    PROOF_IMPLICIT_SIZE,
    SIGNATURE_SIZE,
    Context,
    DestinationType,
    HeaderType,
    PacketFlag,
    PacketType,
)
from netmesh.pure import _ed25519
from netmesh.pure._addresses import DestinationHash, IdentityHash, address_field
from netmesh.pure._identity import Identity
from netmesh.pure._wire import (
    Reader,
    assign,
    of_size,
    refusal,
    to_bool,
    to_bytes,
    to_int,
)
from netmesh.pure.crypto import full_hash

if TYPE_CHECKING:
    from typing_extensions import Buffer

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

CODEC = "packet"

# Payloads that are not encrypted by the packet layer, by packet type and by context.
CLEAR_CONTEXTS = frozenset(
    (Context.RESOURCE, Context.KEEPALIVE, Context.CACHE_REQUEST, Context.LRPROOF)
)


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Packet:
    """One packet. Its value is its bytes; every field is read from them (RNS 1, 4.1)."""

    raw: bytes

    def __init__(
        self,
        *,
        destination: DestinationHash | Buffer,
        payload: Buffer,
        packet_type: int = PacketType.DATA,
        destination_type: int = DestinationType.SINGLE,
        header_type: int = HeaderType.HEADER_1,
        context_flag: bool = False,
        transport_type: int = 0,
        hops: int = 0,
        context: int = 0,
        transport_id: IdentityHash | Buffer | None = None,
        mtu: int = MTU,
    ) -> None:
        flags = (
            to_bool(context_flag, "context_flag") << 5
            | to_int(packet_type, "packet_type", 0, 3)
            | to_int(destination_type, "destination_type", 0, 3) << 2
            | to_int(header_type, "header_type", 0, 1) << 6
            | to_int(transport_type, "transport_type", 0, 1) << 4
        )
        to_int(hops, "hops", 0, HOPS_MAX - 1)
        to_int(context, "context", 0, 0xFF)
        target = address_field(destination, "destination", DestinationHash)
        relay = None
        if transport_id is not None:
            relay = address_field(transport_id, "transport_id", IdentityHash)
        to_int(mtu, "mtu", 0, 2**63 - 1)
        data = to_bytes(payload, "payload")
        check_header(flags, relay)
        if flags & PacketFlag.HEADER_2 and packet_type != PacketType.ANNOUNCE and hops == 0:
            raise refusal("STATE", "header_type")
        assign(self, raw=pack_packet(target, data, flags, hops, context, relay, mtu))

    @classmethod
    def unpack(cls, raw: Buffer, /) -> Packet:
        """Parses one packet (RNS 1, 4.7).

        Raises:
            DecodeError: TRUNCATED; RANGE for 128 hops and more; EMPTY without data.
        """
        packet = object.__new__(cls)
        assign(packet, raw=bytes(to_bytes(raw, "raw")))
        check(packet.raw)
        return packet

    def pack(self) -> bytes:
        """The bytes; the same as ``raw``."""
        return self.raw

    @property
    def flags(self) -> int:
        """The first byte as it is (RNS 1, 4.2)."""
        return self.raw[0]

    @property
    def hops(self) -> int:
        """The hop count on the wire, 0..127 (RNS 1, 4.3)."""
        return self.raw[1]

    @property
    def header_type(self) -> int:
        """1 when there is a transport id."""
        return self.flags >> 6 & 1

    @property
    def context_flag(self) -> bool:
        """Of an announce: it carries a ratchet."""
        return bool(self.flags & PacketFlag.CONTEXT)

    @property
    def transport_type(self) -> int:
        """0 BROADCAST, 1 TRANSPORT."""
        return self.flags >> 4 & 1

    @property
    def destination_type(self) -> int:
        """0 SINGLE, 1 GROUP, 2 PLAIN, 3 LINK."""
        return self.flags >> 2 & 3

    @property
    def packet_type(self) -> int:
        """0 DATA, 1 ANNOUNCE, 2 LINKREQUEST, 3 PROOF."""
        return self.flags & 3

    @property
    def _destination_at(self) -> int:
        return 2 + ADDRESS_SIZE * self.header_type

    @property
    def transport_id(self) -> bytes | None:
        """The 16 bytes before the destination in a HEADER_2 packet."""
        return self.raw[2 : self._destination_at] if self.header_type else None

    @property
    def destination(self) -> bytes:
        """16 bytes: a destination hash, a link id or a truncated packet hash."""
        return self.raw[self._destination_at :][:ADDRESS_SIZE]

    @property
    def context(self) -> int:
        """The context byte (RNS 1, 4.4)."""
        return self.raw[self._destination_at + ADDRESS_SIZE]

    @property
    def payload(self) -> memoryview:
        """The data, without a copy."""
        return memoryview(self.raw)[self._destination_at + ADDRESS_SIZE + 1 :]

    @property
    def hashable_part(self) -> bytes:
        """The low four flag bits, and all from the destination on (RNS 1, 4.6)."""
        return bytes([self.flags & 0x0F]) + self.raw[self._destination_at :]

    @property
    def hash(self) -> bytes:
        """H(hashable part), 32 bytes; the same at every hop."""
        return full_hash(self.hashable_part)

    @property
    def truncated_hash(self) -> bytes:
        """Its first 16 bytes."""
        return self.hash[:ADDRESS_SIZE]

    def replace(self, **fields: Any) -> Packet:
        """A packet that differs in the given fields, which are those of the constructor."""
        same: dict[str, Any] = {
            "destination": self.destination,
            "payload": self.payload,
            "packet_type": self.packet_type,
            "destination_type": self.destination_type,
            "header_type": self.header_type,
            "context_flag": self.context_flag,
            "transport_type": self.transport_type,
            "hops": self.hops,
            "context": self.context,
            "transport_id": self.transport_id,
        }
        return Packet(**{**same, **fields})

    def __repr__(self) -> str:
        kind = PacketType(self.packet_type).name
        target = DestinationType(self.destination_type).name
        return (
            f"<Packet {kind} to {target} {self.destination.hex()}, context {self.context:#04x}, "
            f"{self.hops} hops, {len(self.payload)} bytes>"
        )


def check(raw: bytes) -> None:
    """The parsing rules of RNS 1, 4.7."""
    reader = Reader(raw, CODEC)
    flags = reader.uint(1, "flags")
    hops = reader.uint(1, "hops")
    if hops >= HOPS_MAX:
        reader.position -= 1
        raise reader.fault("RANGE", "hops")
    if flags & PacketFlag.HEADER_2:
        reader.take(ADDRESS_SIZE, "transport_id")
    reader.take(ADDRESS_SIZE, "destination")
    reader.take(1, "context")
    if not reader.left:
        raise reader.fault("EMPTY", "payload")


def check_header(flags: int, transport_id: bytes | None) -> None:
    """A HEADER_2 packet has a transport id, another has none."""
    if flags & PacketFlag.HEADER_2 and transport_id is None:
        raise refusal("MISSING", "transport_id")
    if not flags & PacketFlag.HEADER_2 and transport_id is not None:
        raise refusal("VALUE", "transport_id")


def pack_packet(
    destination: Buffer,
    payload: Buffer,
    /,
    flags: int = 0,
    hops: int = 0,
    context: int = 0,
    transport_id: Buffer | None = None,
    mtu: int = MTU,
) -> bytes:
    """The bytes of a packet with any header, as a relay writes it (RNS 1, 4.1).

    Raises:
        EncodeError: TOO_LARGE for more than ``mtu`` bytes; EMPTY without payload;
            MISSING or VALUE when the transport id does not agree with the flags.
    """
    target = address_field(destination, "destination", DestinationHash)
    relay = None
    if transport_id is not None:
        relay = address_field(transport_id, "transport_id", IdentityHash)
    to_int(flags, "flags", 0, 0x7F)
    to_int(hops, "hops", 0, HOPS_MAX - 1)
    to_int(context, "context", 0, 0xFF)
    to_int(mtu, "mtu", 0, 2**63 - 1)
    data = to_bytes(payload, "payload")
    check_header(flags, relay)
    if not data:
        raise refusal("EMPTY", "payload")
    raw = b"".join((bytes([flags, hops]), relay or b"", target, bytes([context]), data))
    if len(raw) > mtu:
        raise refusal("TOO_LARGE", CODEC)
    return raw


def packet_hash(raw: Buffer, /) -> bytes:
    """The 32-byte packet hash of complete bytes (RNS 1, 4.6)."""
    return Packet.unpack(raw).hash


def travels_in_clear(packet_type: int, destination_type: int, context: int, /) -> bool:
    """Whether the packet layer leaves such a payload unencrypted (RNS 1, 4.5)."""
    to_int(packet_type, "packet_type", 0, 3)
    to_int(destination_type, "destination_type", 0, 3)
    to_int(context, "context", 0, 0xFF)
    return (
        packet_type != PacketType.DATA
        or destination_type == DestinationType.PLAIN
        or context in CLEAR_CONTEXTS
    )


def seed_of(signer: Identity | Buffer) -> bytes:
    """The Ed25519 seed of an identity, or the 32 bytes of one."""
    if isinstance(signer, Identity):
        return signer.private_key[KEY_SIZE:]
    return of_size(signer, "signer", KEY_SIZE)


def verifier_of(public: Identity | Buffer) -> bytes:
    """The Ed25519 public key of an identity, or the 32 bytes of one."""
    if isinstance(public, Identity):
        return public.public_key[KEY_SIZE:]
    return of_size(public, "public", KEY_SIZE)


def proof_payload(
    signer: Identity | Buffer, packet_hash: Buffer, /, *, implicit: bool = True
) -> bytes:
    """The signature over the 32-byte packet hash, preceded by it when explicit (RNS 1, 4.8)."""
    proved = of_size(packet_hash, "packet_hash", HASH_SIZE)
    signature = _ed25519.sign(seed_of(signer), proved)
    return signature if to_bool(implicit, "implicit") else proved + signature


def proof_packet(
    signer: Identity | Buffer, packet_hash: Buffer, /, *, implicit: bool = True
) -> Packet:
    """The proof of a packet to a SINGLE destination, addressed to its truncated hash."""
    payload = proof_payload(signer, packet_hash, implicit=implicit)
    target = to_bytes(packet_hash, "packet_hash")[:ADDRESS_SIZE]
    return Packet(destination=target, payload=payload, packet_type=PacketType.PROOF)


def link_proof_packet(signer: Identity | Buffer, packet_hash: Buffer, link_id: Buffer, /) -> Packet:
    """The proof of a packet on a link: explicit only, addressed to the link (RNS 2, 1.10)."""
    return Packet(
        destination=of_size(link_id, "link_id", ADDRESS_SIZE),
        payload=proof_payload(signer, packet_hash, implicit=False),
        packet_type=PacketType.PROOF,
        destination_type=DestinationType.LINK,
    )


def verify_proof(
    public: Identity | Buffer, payload: Buffer, packet_hash: Buffer, /, *, link: bool = False
) -> bool:
    """Whether a proof payload proves the packet; the form is told by its length (RNS 1, 4.8)."""
    key = verifier_of(public)
    proved = of_size(packet_hash, "packet_hash", HASH_SIZE)
    data = to_bytes(payload, "payload")
    explicit_only = to_bool(link, "link")
    explicit = len(data) == PROOF_EXPLICIT_SIZE
    if not explicit and (explicit_only or len(data) != PROOF_IMPLICIT_SIZE):
        return False
    if explicit and data[:HASH_SIZE] != proved:
        return False
    return _ed25519.verify(key, proved, data[-SIGNATURE_SIZE:])
