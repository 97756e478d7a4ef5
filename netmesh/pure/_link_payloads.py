"""The small payloads of a link: RTT, identification, keepalive, close (RNS 2, 1.7 to 1.13)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netmesh.constants import (
    ADDRESS_SIZE,
    KEEPALIVE_INITIATOR,
    KEEPALIVE_RESPONDER,
    KEY_SIZE,
    LINK_IDENTIFY_SIZE,
    PUBLIC_SIZE,
)
from netmesh.errors import AuthenticationError
from netmesh.pure import _ed25519
from netmesh.pure._identity import Identity, private_identity
from netmesh.pure._wire import Reader, fault, of_size, to_bool, to_bytes, to_real
from netmesh.pure.msgpack import Unpacker, packb

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "close_payload",
    "identify_pack",
    "identify_unpack",
    "is_close",
    "keepalive_payload",
    "rtt_pack",
    "rtt_unpack",
]

CODEC = "link"


def rtt_pack(seconds: float, /) -> bytes:
    """The initiator's measured round trip: one float64 (RNS 2, 1.7)."""
    return packb(to_real(seconds, "seconds"))


def rtt_unpack(data: Buffer, /) -> float:
    """Any MessagePack number, with whatever follows it ignored (RNS 2, 1.7).

    Raises:
        DecodeError: TYPE for what is no number, VALUE for infinities and NaN.
    """
    kind, value = Unpacker(Reader(to_bytes(data, "data"), CODEC), field="rtt").open()
    if kind != "value" or isinstance(value, bool) or not isinstance(value, int | float):
        raise fault("TYPE", CODEC, "rtt")
    if not math.isfinite(value):
        raise fault("VALUE", CODEC, "rtt")
    return float(value)


def identify_pack(link_id: Buffer, identity: Identity, /) -> bytes:
    """Public key (64) | signature over link id and public key (64) (RNS 2, 1.12)."""
    address = of_size(link_id, "link_id", ADDRESS_SIZE)
    signer = private_identity(identity, "identity")
    return signer.public_key + signer.sign(address + signer.public_key)


def identify_unpack(link_id: Buffer, data: Buffer, /) -> Identity:
    """The identity that identifies itself on a link.

    Raises:
        DecodeError: LENGTH unless 128 bytes.
        AuthenticationError: SIGNATURE.
    """
    address = of_size(link_id, "link_id", ADDRESS_SIZE)
    payload = to_bytes(data, "data")
    if len(payload) != LINK_IDENTIFY_SIZE:
        raise fault("LENGTH", CODEC, "identify", len(payload))
    public, signature = payload[:PUBLIC_SIZE], payload[PUBLIC_SIZE:]
    if not _ed25519.verify(public[KEY_SIZE:], address + public, signature):
        raise AuthenticationError("link: the identification is not signed", reason="SIGNATURE")
    return Identity.from_public(public)


def keepalive_payload(initiator: bool, /) -> bytes:
    """The byte ff from the initiator, fe from the responder (RNS 2, 1.9)."""
    return bytes([KEEPALIVE_INITIATOR if to_bool(initiator, "initiator") else KEEPALIVE_RESPONDER])


def close_payload(link_id: Buffer, /) -> bytes:
    """The link id (RNS 2, 1.13)."""
    return bytes(of_size(link_id, "link_id", ADDRESS_SIZE))


def is_close(link_id: Buffer, plaintext: Buffer, /) -> bool:
    """Whether a decrypted LINKCLOSE closes this link."""
    return of_size(link_id, "link_id", ADDRESS_SIZE) == to_bytes(plaintext, "plaintext")
