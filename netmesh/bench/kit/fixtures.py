"""Inputs that all arms of the comparison share.

They are computed here and, independently, in the native loops and in the Rust adapters.
The byte string of a label and a number is the output of splitmix64 whose state starts at
FNV-1a-64(label) XOR number, eight bytes little endian at a time. Two programs can so take
the same message, packet or key and compare the fingerprints of what they made of it.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from dataclasses import dataclass

COUNT = 64
"""Distinct inputs of a row, unless the row says otherwise."""

COLD = 4096
"""Identities behind the rows that validate announces for the first time."""

BATCH = 64
"""Announces that one call of the batch rows validates."""

APP_DATA = b"netmesh-announce-data!"
"""Application data of an announce, 22 bytes."""

ANNOUNCED_NAME = "example_utilities.announcesample.fruits"
"""Dotted name of the destination that the announce rows announce."""

PACKET_DATA_BYTES = 128
LARGE_BYTES = 16 * 1024
IDENTITY_MESSAGE_BYTES = 2048
TOKEN_BYTES = 464
RESOURCE_SDU = 464
RESOURCE_LARGE_BYTES = 1024 * 1024 - 1
RESOURCE_LARGE_PARTS = 2260

MESSAGE_SIZES = {"21": 21, "2k": 2048, "16k": 16 * 1024}
"""Content sizes of the message rows, by the suffix of their ids."""

_MASK = (1 << 64) - 1
_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def fnv(data: bytes) -> int:
    """FNV-1a with 64 bits: names streams and fingerprints outputs; no cryptographic hash."""
    value = _FNV_BASIS
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return value


def fingerprint(data: bytes) -> str:
    """16 hexadecimal digits that stand for an output."""
    return f"{fnv(data):016x}"


@functools.cache
def stream(label: str, number: int, length: int) -> bytes:
    """``length`` bytes of the stream with this label and number."""
    state = fnv(label.encode()) ^ number
    words = []
    for _ in range(-(-length // 8)):
        state = state + 0x9E3779B97F4A7C15 & _MASK
        word = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        word = (word ^ word >> 27) * 0x94D049BB133111EB & _MASK
        words.append(word ^ word >> 31)
    return struct.pack(f"<{len(words)}Q", *words)[:length]


def identity_keys(label: str, number: int) -> bytes:
    """Private keys of a numbered identity: 32 bytes X25519, then the 32-byte Ed25519 seed."""
    return stream(label, number, 64)


def identity_message(number: int) -> bytes:
    """A 2048-byte message of the identity rows."""
    return stream("identity.message", number, IDENTITY_MESSAGE_BYTES)


def token_key() -> bytes:
    """The 64-byte key of the token rows."""
    return stream("token.key", 0, 64)


def token_plaintext(number: int) -> bytes:
    """464 bytes that the token rows seal."""
    return stream("token.plaintext", number, TOKEN_BYTES)


def large_buffer(number: int) -> bytes:
    """16 KiB that the rows of cutting and joining use."""
    return stream("segment.data", number, LARGE_BYTES)


def resource_data(number: int) -> bytes:
    """16 KiB of noise that a resource is built from."""
    return stream("resource.data", number, LARGE_BYTES)


def stamp_material(number: int) -> bytes:
    """The 32-byte message id whose work block a stamp row builds or searches on."""
    return stream("stamp.material", number, 32)


@dataclass(frozen=True, slots=True)
class PacketParts:
    """A data packet with 128 bytes of payload, in its parts and as wire bytes."""

    flags: int
    hops: int
    transport: bytes | None
    destination: bytes
    context: int
    data: bytes
    raw: bytes

    @property
    def hashable(self) -> bytes:
        """What the packet hash is taken over: low flags, then all behind the transport id."""
        return bytes([self.flags & 0x0F]) + self.destination + bytes([self.context]) + self.data


def packet(number: int, header_2: bool) -> PacketParts:
    """HEADER_1 (147 bytes) without, HEADER_2 (163 bytes) with a transport id."""
    transport = stream("packet.transport", number, 16) if header_2 else None
    flags = 0x50 if header_2 else 0x00
    hops = number % 16
    destination = stream("packet.destination", number, 16)
    data = stream("packet.data", number, PACKET_DATA_BYTES)
    raw = bytes([flags, hops]) + (transport or b"") + destination + b"\0" + data
    return PacketParts(flags, hops, transport, destination, 0, data, raw)


@dataclass(frozen=True, slots=True)
class MessageParts:
    """An LXMF message in its parts; the signature is a constant that fits no key."""

    destination: bytes
    source: bytes
    signature: bytes
    timestamp: float
    title: bytes
    content: bytes

    @property
    def payload(self) -> bytes:
        """MessagePack ``[float64, bin, bin, {}]``."""
        parts = [b"\x94\xcb", struct.pack(">d", self.timestamp)]
        for field in (self.title, self.content):
            short = len(field) < 256
            parts.append(b"\xc4" + bytes([len(field)]) if short else b"")
            parts.append(b"" if short else b"\xc5" + len(field).to_bytes(2, "big"))
            parts.append(field)
        return b"".join([*parts, b"\x80"])

    @property
    def wire(self) -> bytes:
        """Destination, source, signature and payload."""
        return self.destination + self.source + self.signature + self.payload

    @property
    def hashed(self) -> bytes:
        """What the message id is the SHA-256 of."""
        return self.destination + self.source + self.payload

    @property
    def signed(self) -> bytes:
        """What the signature is over."""
        hashed = self.hashed
        return hashed + hashlib.sha256(hashed).digest()


def message(number: int, size: int) -> MessageParts:
    """``size`` bytes of content with the titles of the published report of LXMF-rs.

    Sizes 21, 2048 and 16384 give 143, 2177 and 16516 bytes on the wire; 12 is what that
    report encodes instead of 21.
    """
    if size == 12:
        title = b"wire-title"
    elif size < 256:
        title = b"bench-title"
    elif size < 4096:
        title = b"bench-large-title"
    else:
        title = b"bench-resource-title"
    return MessageParts(
        destination=stream("lxmf.destination", number, 16),
        source=stream("lxmf.source", number, 16),
        signature=stream("lxmf.signature", number, 64),
        timestamp=1_700_000_000.5 + number,
        title=title,
        content=stream("lxmf.content", number, size),
    )
