"""Making, parsing and validating announces (RNS 1, 5)."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from netmesh._verdict import Verdict
from netmesh.constants import (
    HOPS_MAX,
    MTU,
    NAME_HASH_SIZE,
    PUBLIC_SIZE,
    RANDOM_BLOB_SIZE,
    RATCHET_SIZE,
    SIGNATURE_SIZE,
    Context,
    HeaderType,
    PacketType,
    TransportType,
)
from netmesh.pure._addresses import DestinationHash, IdentityHash, address_field
from netmesh.pure._identity import Identity, private_identity, ratchet_id
from netmesh.pure._names import destination_hash, name_hash_of
from netmesh.pure._wire import (
    NotConstructible,
    Reader,
    assign,
    fault,
    optional_of_size,
    refusal,
    to_bool,
    to_bytes,
    to_int,
    to_sequence,
    to_text,
    to_threads,
)
from netmesh.pure.crypto import name_hash
from netmesh.pure.packet import Packet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = ["Announce"]

CODEC = "announce"
RANDOM_SIZE = 5
EMITTED_SIZE = 5


@final
@dataclass(frozen=True, slots=True, init=False)
class Announce(NotConstructible):
    """An announce, made or received. The signature is checked only by :meth:`validate`."""

    packet: Packet
    public_key: bytes
    name_hash: bytes
    random_hash: bytes
    ratchet: bytes | None
    signature: bytes
    app_data: bytes | None
    """None: absent; b"" only with a ratchet (RNS 1, 5.5)."""

    @classmethod
    def create(
        cls,
        identity: Identity,
        name: str | Buffer,
        /,
        *,
        app_data: Buffer | None = None,
        ratchet: Buffer | None = None,
        emitted: int | None = None,
        random: Buffer | None = None,
        path_response: bool = False,
        hops: int = 0,
        transport_id: IdentityHash | Buffer | None = None,
    ) -> Announce:
        """Signs an announce of ``name`` (its text or 10-byte hash) by ``identity``.

        ``emitted`` is Unix seconds, ``random`` 5 bytes, ``ratchet`` a 32-byte public key.

        Raises:
            KeyMissingError: without private keys.
            EncodeError: TOO_LARGE above 500 bytes, RANGE for a time of 2^40 or more.
        """
        signer = private_identity(identity, "identity")
        named = name_hash_of(name)
        answers = to_bool(path_response, "path_response")
        to_int(hops, "hops", 0, HOPS_MAX - 1)
        time_bytes = emission(emitted)
        chosen = optional_of_size(random, "random", RANDOM_SIZE)
        blob = (secrets.token_bytes(RANDOM_SIZE) if chosen is None else chosen) + time_bytes
        extra = optional_of_size(ratchet, "ratchet", RATCHET_SIZE) or b""
        data = b"" if app_data is None else to_bytes(app_data, "app_data")
        relay = None
        if transport_id is not None:
            relay = address_field(transport_id, "transport_id", IdentityHash)
        target = destination_hash(signer.hash, named)
        head = signer.public_key + named + blob + extra
        signature = signer.sign(target + head + data)
        packet = Packet(
            destination=target,
            payload=head + signature + data,
            packet_type=PacketType.ANNOUNCE,
            header_type=HeaderType.HEADER_1 if relay is None else HeaderType.HEADER_2,
            transport_type=TransportType.BROADCAST if relay is None else TransportType.TRANSPORT,
            context_flag=bool(extra),
            context=Context.PATH_RESPONSE if answers else Context.NONE,
            hops=hops,
            transport_id=relay,
        )
        return cls.unpack(packet)

    @classmethod
    def unpack(cls, raw: Buffer | Packet, /) -> Announce:
        """Splits the data by the context flag (RNS 1, 5.5 step 1).

        Raises:
            DecodeError: TYPE for another packet, TOO_LARGE above 500 bytes, TRUNCATED
                naming the first field that is not there, and those of Packet.unpack.
        """
        packet = raw if isinstance(raw, Packet) else Packet.unpack(raw)
        if packet.packet_type != PacketType.ANNOUNCE:
            raise fault("TYPE", CODEC, "packet_type")
        if len(packet.raw) > MTU:
            raise fault("TOO_LARGE", CODEC, "packet", MTU)
        reader = Reader(packet.raw, CODEC, len(packet.raw) - len(packet.payload))
        announce = object.__new__(cls)
        assign(
            announce,
            packet=packet,
            public_key=reader.take(PUBLIC_SIZE, "public_key"),
            name_hash=reader.take(NAME_HASH_SIZE, "name_hash"),
            random_hash=reader.take(RANDOM_BLOB_SIZE, "random_hash"),
            ratchet=reader.take(RATCHET_SIZE, "ratchet") if packet.context_flag else None,
            signature=reader.take(SIGNATURE_SIZE, "signature"),
            app_data=reader.rest() if reader.left or packet.context_flag else None,
        )
        return announce

    @property
    def raw(self) -> bytes:
        """The bytes of the packet."""
        return self.packet.raw

    @property
    def destination_hash(self) -> DestinationHash:
        """The address in the header."""
        return DestinationHash(self.packet.destination)

    @property
    def identity(self) -> Identity:
        """The announced public keys."""
        return Identity.from_public(self.public_key)

    @property
    def identity_hash(self) -> IdentityHash:
        """T(public key)."""
        return self.identity.hash

    @property
    def emitted(self) -> int:
        """The time of emission, Unix seconds: the last 5 bytes of the random hash."""
        return int.from_bytes(self.random_hash[RANDOM_SIZE:], "big")

    @property
    def ratchet_id(self) -> bytes | None:
        """The 10-byte id of the ratchet (RNS 1, 2.6)."""
        return None if self.ratchet is None else ratchet_id(self.ratchet)

    @property
    def signed_data(self) -> bytes:
        """What the signature covers (RNS 1, 5.3)."""
        return b"".join(
            (
                self.packet.destination,
                self.public_key,
                self.name_hash,
                self.random_hash,
                self.ratchet or b"",
                self.app_data or b"",
            )
        )

    @property
    def hops(self) -> int:
        """The hop count on the wire."""
        return self.packet.hops

    @property
    def context(self) -> int:
        """0x00, or 0x0b for a path response."""
        return self.packet.context

    @property
    def path_response(self) -> bool:
        """Whether it answers a path request (RNS 1, 5.6)."""
        return self.context == Context.PATH_RESPONSE

    def matches(self, name: str, /) -> bool:
        """Whether its destination is that name under the announced identity (RNS 1, 5.7)."""
        named = name_hash(to_text(name, "name"))
        return destination_hash(self.identity_hash, named) == self.destination_hash

    def validate(
        self, *, signature_only: bool = False, expected_public_key: Buffer | None = None
    ) -> Verdict:
        """Signature; then the destination; then the key if one is expected (RNS 1, 5.5)."""
        alone = to_bool(signature_only, "signature_only")
        expected = optional_of_size(expected_public_key, "expected_public_key", PUBLIC_SIZE)
        if not self.identity.verify(self.signed_data, self.signature):
            return Verdict.BAD_SIGNATURE
        if alone:
            return Verdict.VALID
        if destination_hash(self.identity_hash, self.name_hash) != self.destination_hash:
            return Verdict.BAD_DESTINATION
        if expected is not None and expected != self.public_key:
            return Verdict.KEY_MISMATCH
        return Verdict.VALID

    @staticmethod
    def validate_many(announces: Sequence[Announce], /, *, threads: int = 1) -> list[Verdict]:
        """Validates one after the other; Python's threads would not be faster."""
        to_threads(threads)
        checks = to_sequence(announces, "announces")
        if any(not isinstance(announce, Announce) for announce in checks):
            raise TypeError("announces must be Announce objects")
        return [announce.validate() for announce in checks]

    def __repr__(self) -> str:
        address = self.packet.destination.hex()
        return f"<Announce of {address}, emitted {self.emitted}, {self.hops} hops>"


def emission(emitted: int | None) -> bytes:
    """The 5 bytes of the time of emission, now if it is not given."""
    moment = int(time.time()) if emitted is None else emitted
    if not isinstance(moment, int):
        raise TypeError(f"emitted must be int, not {type(moment).__name__}")
    if not 0 <= moment < 1 << 8 * EMITTED_SIZE:
        raise refusal("RANGE", "emitted")
    return moment.to_bytes(EMITTED_SIZE, "big")
