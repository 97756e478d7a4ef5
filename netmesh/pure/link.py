"""The link handshake and the small payloads of a link (RNS 2, 1).

===========  =========================================================
signalling   24 bits: mode (3), MTU (21)
request      X25519 public (32) | Ed25519 public (32) | signalling (3)
proof        signature (64) | X25519 public (32) | signalling (3)
===========  =========================================================

Signalling may be absent: then the MTU is 500 and the mode AES-256-CBC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from netmesh.constants import (
    ADDRESS_SIZE,
    AES_BLOCK,
    KEY_SIZE,
    LINK_MTU_MAX,
    LINK_PROOF_SIZE,
    LINK_REQUEST_SIZE,
    MTU,
    SIGNALLING_SIZE,
    SIGNATURE_SIZE,
    TOKEN_KEY_SIZE,
    TOKEN_KEY_SIZE_128,
    Context,
    DestinationType,
    LinkMode,
    PacketType,
)
from netmesh.pure._addresses import DestinationHash, address_field
from netmesh.pure._identity import Identity, private_identity, public_identity
from netmesh.pure._link_payloads import (
    CODEC,
    close_payload,
    identify_pack,
    identify_unpack,
    is_close,
    keepalive_payload,
    rtt_pack,
    rtt_unpack,
)
from netmesh.pure._wire import (
    NotConstructible,
    assign,
    fault,
    of_size,
    optional_of_size,
    refusal,
    to_bytes,
    to_int,
)
from netmesh.pure.crypto import Token, hkdf, truncated_hash, x25519
from netmesh.pure.packet import Packet, travels_in_clear

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "LinkProof",
    "LinkRequest",
    "close_payload",
    "identify_pack",
    "identify_unpack",
    "is_close",
    "keepalive_payload",
    "link_id",
    "link_open",
    "link_packet",
    "link_request_payload",
    "link_session_key",
    "rtt_pack",
    "rtt_unpack",
    "signalling_pack",
    "signalling_unpack",
]

UINT32_MAX = 2**32 - 1
KEY_SIZES = {LinkMode.AES256_CBC: TOKEN_KEY_SIZE, LinkMode.AES128_CBC: TOKEN_KEY_SIZE_128}


def signalling_pack(mtu: int, mode: int = LinkMode.AES256_CBC, /) -> bytes:
    """Mode in the top 3 bits, MTU in the other 21 (RNS 2, 1.1).

    Raises:
        EncodeError: MODE for a mode that is not enabled, RANGE for an MTU above 2097151.
    """
    to_int(mode, "mode", 0, 7)
    to_int(mtu, "mtu", 0, UINT32_MAX)
    if mode != LinkMode.AES256_CBC:
        raise refusal("MODE", "mode")
    if mtu > LINK_MTU_MAX:
        raise refusal("RANGE", "mtu")
    return (mode << 21 | mtu).to_bytes(SIGNALLING_SIZE, "big")


def signalling_unpack(data: Buffer, /) -> tuple[int, int]:
    """(mtu, mode) of three bytes; any mode is returned."""
    signalling = to_bytes(data, "data")
    if len(signalling) != SIGNALLING_SIZE:
        raise fault("LENGTH", CODEC, "signalling", len(signalling))
    value = int.from_bytes(signalling, "big")
    return value & LINK_MTU_MAX, value >> 21


def signalled(signalling: bytes) -> tuple[int, int]:
    """(mtu, mode) to use: 500 and AES-256-CBC where nothing, or an MTU of 0, is signalled."""
    if not signalling:
        return MTU, int(LinkMode.AES256_CBC)
    mtu, mode = signalling_unpack(signalling)
    return mtu or MTU, mode


def signalling_of(mtu: int | None, mode: int) -> bytes:
    """The signalling to send; nothing when ``mtu`` is None."""
    to_int(mode, "mode", 0, 7)
    return b"" if mtu is None else signalling_pack(mtu, mode)


def link_request_payload(
    x25519_public: Buffer,
    ed25519_public: Buffer,
    /,
    *,
    mtu: int | None = MTU,
    mode: int = LinkMode.AES256_CBC,
) -> bytes:
    """The data of a link request; ``mtu`` None leaves signalling out (RNS 2, 1.2)."""
    keys = of_size(x25519_public, "x25519_public", KEY_SIZE) + of_size(
        ed25519_public, "ed25519_public", KEY_SIZE
    )
    return keys + signalling_of(mtu, mode)


def link_id(raw: Buffer | Packet, /) -> bytes:
    """T(hashable part of the request without the bytes after the two keys) (RNS 2, 1.3).

    So it does not change when a relay rewrites or removes the signalling.
    """
    packet = packet_of(raw, PacketType.LINKREQUEST)
    if len(packet.payload) < LINK_REQUEST_SIZE:
        raise fault("LENGTH", CODEC, "link_request", len(packet.payload))
    extra = len(packet.payload) - LINK_REQUEST_SIZE
    hashable = packet.hashable_part
    return truncated_hash(hashable[: len(hashable) - extra])


def packet_of(raw: Buffer | Packet, packet_type: int) -> Packet:
    """A packet that must be of one type."""
    packet = raw if isinstance(raw, Packet) else Packet.unpack(raw)
    if packet.packet_type != packet_type:
        raise fault("TYPE", CODEC, "packet_type")
    return packet


@final
@dataclass(frozen=True, slots=True, init=False)
class LinkRequest(NotConstructible):
    """The link request in a packet (RNS 2, 1.2)."""

    packet: Packet

    @classmethod
    def create(
        cls,
        destination: DestinationHash | Buffer,
        x25519_public: Buffer,
        ed25519_public: Buffer,
        /,
        *,
        mtu: int | None = MTU,
        mode: int = LinkMode.AES256_CBC,
    ) -> LinkRequest:
        """A request to a SINGLE destination under two fresh ephemeral keys."""
        target = address_field(destination, "destination", DestinationHash)
        payload = link_request_payload(x25519_public, ed25519_public, mtu=mtu, mode=mode)
        return cls.unpack(
            Packet(destination=target, payload=payload, packet_type=PacketType.LINKREQUEST)
        )

    @classmethod
    def unpack(cls, raw: Buffer | Packet, /) -> LinkRequest:
        """Raises DecodeError: TYPE for another packet, LENGTH unless 64 or 67 bytes."""
        packet = packet_of(raw, PacketType.LINKREQUEST)
        size = len(packet.payload)
        if size not in (LINK_REQUEST_SIZE, LINK_REQUEST_SIZE + SIGNALLING_SIZE):
            raise fault("LENGTH", CODEC, "link_request", size)
        request = object.__new__(cls)
        assign(request, packet=packet)
        return request

    @property
    def destination(self) -> DestinationHash:
        """Whom the link is to reach."""
        return DestinationHash(self.packet.destination)

    @property
    def link_id(self) -> bytes:
        """The 16-byte address of the link."""
        return link_id(self.packet)

    @property
    def x25519_public(self) -> bytes:
        """The initiator's ephemeral exchange key, 32 bytes."""
        return bytes(self.packet.payload[:KEY_SIZE])

    @property
    def ed25519_public(self) -> bytes:
        """The initiator's ephemeral signing key, 32 bytes."""
        return bytes(self.packet.payload[KEY_SIZE:LINK_REQUEST_SIZE])

    @property
    def _signalling(self) -> bytes:
        return bytes(self.packet.payload[LINK_REQUEST_SIZE:])

    @property
    def mtu(self) -> int:
        """The signalled MTU; 500 when absent or zero."""
        return signalled(self._signalling)[0]

    @property
    def mode(self) -> int:
        """The signalled mode; 1 when absent."""
        return signalled(self._signalling)[1]

    @property
    def has_signalling(self) -> bool:
        """Whether the three bytes are there."""
        return bool(self._signalling)

    def __repr__(self) -> str:
        return f"<LinkRequest of link {self.link_id.hex()}, mtu {self.mtu}, mode {self.mode}>"


@final
@dataclass(frozen=True, slots=True, init=False)
class LinkProof(NotConstructible):
    """The link request proof in a packet: 96 or 99 bytes of payload (RNS 2, 1.5)."""

    packet: Packet

    @classmethod
    def create(
        cls,
        link_id: Buffer,
        identity: Identity,
        x25519_public: Buffer,
        /,
        *,
        mtu: int | None = MTU,
        mode: int = LinkMode.AES256_CBC,
    ) -> LinkProof:
        """The destination's proof for a link, with the responder's ephemeral key."""
        address = of_size(link_id, "link_id", ADDRESS_SIZE)
        key = of_size(x25519_public, "x25519_public", KEY_SIZE)
        signalling = signalling_of(mtu, mode)
        signer = private_identity(identity, "identity")
        signature = signer.sign(proof_signed(address, key, signer, signalling))
        return cls.unpack(
            Packet(
                destination=address,
                payload=signature + key + signalling,
                packet_type=PacketType.PROOF,
                destination_type=DestinationType.LINK,
                context=Context.LRPROOF,
            )
        )

    @classmethod
    def unpack(cls, raw: Buffer | Packet, /) -> LinkProof:
        """Raises DecodeError: TYPE for another packet, LENGTH unless 96 or 99 bytes."""
        packet = packet_of(raw, PacketType.PROOF)
        if packet.context != Context.LRPROOF:
            raise fault("TYPE", CODEC, "context", len(packet.raw) - len(packet.payload) - 1)
        size = len(packet.payload)
        if size not in (LINK_PROOF_SIZE, LINK_PROOF_SIZE + SIGNALLING_SIZE):
            raise fault("LENGTH", CODEC, "link_proof", size)
        proof = object.__new__(cls)
        assign(proof, packet=packet)
        return proof

    @property
    def link_id(self) -> bytes:
        """The link that it proves."""
        return self.packet.destination

    @property
    def signature(self) -> bytes:
        """64 bytes, by the destination's identity."""
        return bytes(self.packet.payload[:SIGNATURE_SIZE])

    @property
    def x25519_public(self) -> bytes:
        """The responder's ephemeral exchange key, 32 bytes."""
        return bytes(self.packet.payload[SIGNATURE_SIZE:LINK_PROOF_SIZE])

    @property
    def _signalling(self) -> bytes:
        return bytes(self.packet.payload[LINK_PROOF_SIZE:])

    @property
    def mtu(self) -> int:
        """The confirmed MTU; 500 when absent or zero."""
        return signalled(self._signalling)[0]

    @property
    def mode(self) -> int:
        """The confirmed mode; 1 when absent."""
        return signalled(self._signalling)[1]

    def signed_data(self, identity: Identity, /) -> bytes:
        """What the destination signed."""
        signer = public_identity(identity, "identity")
        return proof_signed(self.link_id, self.x25519_public, signer, self._signalling)

    def verify(
        self, identity: Identity, /, *, mode: int = LinkMode.AES256_CBC, mtu_max: int | None = None
    ) -> bool:
        """Whether the destination signed it; False too for another mode, or a larger MTU."""
        to_int(mode, "mode", 0, 7)
        limit = UINT32_MAX if mtu_max is None else to_int(mtu_max, "mtu_max", 0, UINT32_MAX)
        signed = self.signed_data(identity)
        return self.mode == mode and self.mtu <= limit and identity.verify(signed, self.signature)

    def __repr__(self) -> str:
        return f"<LinkProof of link {self.link_id.hex()}, mtu {self.mtu}, mode {self.mode}>"


def proof_signed(link_id: bytes, key: bytes, identity: Identity, signalling: bytes) -> bytes:
    """Link id | X25519 public | the destination's Ed25519 public | signalling (RNS 2, 1.5)."""
    return link_id + key + identity.public_key[KEY_SIZE:] + signalling


def link_session_key(
    private: Buffer, peer_public: Buffer, link_id: Buffer, /, *, mode: int = LinkMode.AES256_CBC
) -> bytes:
    """HKDF(shared secret, salt = link id): 64 bytes in mode 1, 32 in mode 0 (RNS 2, 1.6).

    Raises:
        DecodeError: MODE for a mode without a key derivation.
        AuthenticationError: KEY when the shared secret is all zero.
    """
    to_int(mode, "mode", 0, 7)
    of_size(peer_public, "peer_public", KEY_SIZE)
    address = of_size(link_id, "link_id", ADDRESS_SIZE)
    of_size(private, "private", KEY_SIZE)
    if mode not in KEY_SIZES:
        raise fault("MODE", CODEC, "mode")
    return hkdf(KEY_SIZES[LinkMode(mode)], x25519(private, peer_public), address)


def token_of(key: Buffer | Token) -> Token:
    """A token, or the one under a session key."""
    return key if isinstance(key, Token) else Token(key)


def link_packet(
    link_id: Buffer,
    key: Buffer | Token,
    plaintext: Buffer,
    /,
    *,
    context: int = Context.NONE,
    packet_type: int = PacketType.DATA,
    iv: Buffer | None = None,
    mtu: int = MTU,
) -> Packet:
    """A packet on a link, sealed unless its context travels in clear (RNS 1, 4.5)."""
    address = of_size(link_id, "link_id", ADDRESS_SIZE)
    to_int(context, "context", 0, 255)
    to_int(packet_type, "packet_type", 0, PacketType.PROOF)
    to_int(mtu, "mtu", 0, 2**62 - 1)
    start = optional_of_size(iv, "iv", AES_BLOCK)
    payload = to_bytes(plaintext, "plaintext")
    token = token_of(key)
    if not travels_in_clear(packet_type, DestinationType.LINK, context):
        payload = token.seal(payload, iv=start)
    return Packet(
        destination=address,
        payload=payload,
        packet_type=packet_type,
        destination_type=DestinationType.LINK,
        context=context,
        mtu=mtu,
    )


def link_open(key: Buffer | Token, packet: Packet, /) -> bytes:
    """The plaintext of a packet on a link; the payload itself if it travels in clear."""
    if not isinstance(packet, Packet):
        raise TypeError(f"packet must be Packet, not {type(packet).__name__}")
    token = token_of(key)
    if travels_in_clear(packet.packet_type, packet.destination_type, packet.context):
        return bytes(packet.payload)
    return token.open(packet.payload)
