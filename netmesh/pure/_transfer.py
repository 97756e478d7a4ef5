"""The payloads of a resource transfer, its parts and segments (RNS 2, 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    HASH_SIZE,
    RESOURCE_HASHMAP_MAX,
    RESOURCE_MAPHASH_SIZE,
    RESOURCE_METADATA_MAX,
    RESOURCE_RANDOM_SIZE,
    RESOURCE_SEGMENT_MAX,
)
from netmesh.pure._advertisement import CODEC
from netmesh.pure._wire import (
    Reader,
    assign,
    fault,
    field_of_size,
    of_size,
    refusal,
    to_byte_strings,
    to_bytes,
    to_int,
)
from netmesh.pure.crypto import sha256
from netmesh.pure.msgpack import Unpacker, locate, packb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "HashmapUpdate",
    "PartRequest",
    "cut",
    "join",
    "map_hash",
    "metadata_pack",
    "metadata_unpack",
    "resource_proof_pack",
    "resource_proof_unpack",
    "segment_plan",
]

PLAN_BYTES_MAX = 2**40  # a list of a million segments
SEGMENT_NUMBER_MAX = (2**32 - 1) // RESOURCE_HASHMAP_MAX


@final
@dataclass(frozen=True, slots=True, init=False)
class PartRequest:
    """Which parts a receiver wants next (RNS 2, 3.4).

    00 | resource hash | map hashes, or with ``last_map_hash`` the exhausted form
    ff | last map hash | resource hash | map hashes.
    """

    resource_hash: bytes
    hashes: bytes
    last_map_hash: bytes | None

    def __init__(
        self, resource_hash: Buffer, hashes: Buffer, /, *, last_map_hash: Buffer | None = None
    ) -> None:
        target = field_of_size(resource_hash, "resource_hash", HASH_SIZE)
        last = None
        if last_map_hash is not None:
            last = field_of_size(last_map_hash, "last_map_hash", RESOURCE_MAPHASH_SIZE)
        wanted = bytes(to_bytes(hashes, "hashes"))
        if len(wanted) % RESOURCE_MAPHASH_SIZE:
            raise refusal("LENGTH", "hashes")
        assign(self, resource_hash=target, hashes=wanted, last_map_hash=last)

    @classmethod
    def unpack(cls, data: Buffer, /) -> PartRequest:
        """Raises DecodeError: TRUNCATED, VALUE of the first byte, LENGTH of the hashes."""
        reader = Reader(to_bytes(data, "data"), CODEC)
        form = reader.uint(1, "request.flag")
        if form not in (0x00, 0xFF):
            raise fault("VALUE", CODEC, "request.flag")
        last = reader.take(RESOURCE_MAPHASH_SIZE, "request.last_known") if form else None
        target = reader.take(HASH_SIZE, "request.hash")
        if reader.left % RESOURCE_MAPHASH_SIZE:
            raise reader.fault("LENGTH", "request.wanted")
        return cls(target, reader.rest(), last_map_hash=last)

    @property
    def exhausted(self) -> bool:
        """Whether the receiver asks for further map hashes too."""
        return self.last_map_hash is not None

    def pack(self) -> bytes:
        """The plaintext of a packet with context RESOURCE_REQ."""
        form = b"\x00" if self.last_map_hash is None else b"\xff" + self.last_map_hash
        return form + self.resource_hash + self.hashes


@final
@dataclass(frozen=True, slots=True, init=False)
class HashmapUpdate:
    """Further map hashes: resource hash | msgpack([segment, hashmap]) (RNS 2, 3.5)."""

    resource_hash: bytes
    segment: int
    hashmap: bytes

    def __init__(self, resource_hash: Buffer, segment: int, hashmap: Buffer, /) -> None:
        target = field_of_size(resource_hash, "resource_hash", HASH_SIZE)
        to_int(segment, "segment", 0, SEGMENT_NUMBER_MAX)
        hashes = bytes(to_bytes(hashmap, "hashmap"))
        if not is_hashmap(hashes):
            raise refusal("LENGTH", "hashmap")
        assign(self, resource_hash=target, segment=segment, hashmap=hashes)

    @classmethod
    def unpack(cls, data: Buffer, /) -> HashmapUpdate:
        """Raises DecodeError: TRUNCATED, TYPE, RANGE of the segment, EMPTY, LENGTH."""
        packed = to_bytes(data, "data")
        target = Reader(packed, CODEC).take(HASH_SIZE, "hashmap_update.hash")
        value, places = locate(packed, CODEC, "hashmap_update", HASH_SIZE)
        if not isinstance(value, list) or len(value) < 2:
            raise fault("TYPE", CODEC, "hashmap_update", HASH_SIZE)
        (segment, segment_at), (hashmap, hashmap_at) = places[:2]
        if isinstance(segment, bool) or not isinstance(segment, int):
            raise fault("TYPE", CODEC, "hashmap_update.segment", segment_at)
        if not 0 <= segment <= SEGMENT_NUMBER_MAX:
            raise fault("RANGE", CODEC, "hashmap_update.segment", segment_at)
        if not isinstance(hashmap, bytes):
            raise fault("TYPE", CODEC, "hashmap_update.hashmap", hashmap_at)
        if not is_hashmap(hashmap):
            reason = "LENGTH" if hashmap else "EMPTY"
            raise fault(reason, CODEC, "hashmap_update.hashmap", hashmap_at)
        return cls(target, segment, hashmap)

    def pack(self) -> bytes:
        """The plaintext of a packet with context RESOURCE_HMU."""
        return self.resource_hash + packb([self.segment, self.hashmap])


def is_hashmap(hashes: bytes) -> bool:
    """Whether these are 1 to 74 map hashes."""
    count, rest = divmod(len(hashes), RESOURCE_MAPHASH_SIZE)
    return not rest and 1 <= count <= RESOURCE_HASHMAP_MAX


def resource_proof_pack(resource_hash: Buffer, plaintext: Buffer, /) -> bytes:
    """Resource hash | H(plaintext | resource hash): 64 bytes (RNS 2, 3.10)."""
    target = bytes(of_size(resource_hash, "resource_hash", HASH_SIZE))
    return target + sha256(to_bytes(plaintext, "plaintext") + target)


def resource_proof_unpack(data: Buffer, /) -> tuple[bytes, bytes]:
    """(resource hash, proof); DecodeError TRUNCATED or TRAILING unless 64 bytes."""
    payload = to_bytes(data, "data")
    if len(payload) < 2 * HASH_SIZE:
        raise fault("TRUNCATED", CODEC, "proof", len(payload))
    if len(payload) > 2 * HASH_SIZE:
        raise fault("TRAILING", CODEC, "proof", 2 * HASH_SIZE)
    return bytes(payload[:HASH_SIZE]), bytes(payload[HASH_SIZE:])


def map_hash(part: Buffer, random_hash: Buffer, /) -> bytes:
    """The first 4 bytes of H(part | random hash) (RNS 2, 3.2 step 6)."""
    blob = of_size(random_hash, "random_hash", RESOURCE_RANDOM_SIZE)
    return sha256(to_bytes(part, "part") + blob)[:RESOURCE_MAPHASH_SIZE]


def segment_plan(data_bytes: int, metadata_bytes: int = 0, /) -> list[int]:
    """Plaintext bytes of each segment, the metadata block in the first (RNS 2, 3.12)."""
    to_int(data_bytes, "data_bytes", 0, PLAN_BYTES_MAX)
    to_int(metadata_bytes, "metadata_bytes", 0, PLAN_BYTES_MAX)
    if metadata_bytes > RESOURCE_SEGMENT_MAX:
        raise refusal("TOO_LARGE", "metadata")
    full, rest = divmod(data_bytes + metadata_bytes, RESOURCE_SEGMENT_MAX)
    return [RESOURCE_SEGMENT_MAX] * full + ([rest] if rest or not full else [])


def metadata_pack(value: Any, /) -> bytes:
    """The metadata block: length (3) | msgpack (RNS 2, 3.6)."""
    packed = packb(value)
    if len(packed) > RESOURCE_METADATA_MAX:
        raise refusal("TOO_LARGE", "metadata")
    return len(packed).to_bytes(3, "big") + packed


def metadata_unpack(plaintext: Buffer, /) -> tuple[Any, int]:
    """(value, bytes consumed) of the block that leads a first segment's plaintext."""
    data = to_bytes(plaintext, "plaintext")
    size = int.from_bytes(data[:3], "big")
    if len(data) < 3 or len(data) - 3 < size:
        raise fault("TRUNCATED", CODEC, "metadata", len(data))
    value = Unpacker(Reader(data[3 : 3 + size], CODEC), field="metadata").value()
    return value, 3 + size


def cut(data: Buffer, size: int, /) -> list[memoryview]:
    """Views of ``size`` bytes each, the last one shorter; none for empty data."""
    to_int(size, "size", 1, 2**63 - 1)
    view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
    return [view[start : start + size] for start in range(0, len(view), size)]


def join(parts: Sequence[Buffer], /) -> bytes:
    """The parts one after the other."""
    return b"".join(to_byte_strings(parts, "parts"))
