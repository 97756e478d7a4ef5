"""The advertisement of one segment of a resource (RNS 2, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    ADDRESS_SIZE,
    HASH_SIZE,
    RESOURCE_MAPHASH_SIZE,
    RESOURCE_RANDOM_SIZE,
    RESOURCE_TRANSFER_MAX,
    ResourceFlag,
)
from netmesh.pure._wire import Reader, assign, fault, field_of_size, to_bool, to_bytes, to_int
from netmesh.pure.msgpack import Unpacker, locate, packb

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CODEC", "Advertisement", "advertisement_flags"]

CODEC = "resource"

# The keys of an advertisement in the order of the wire, and the attributes they fill.
KEYS = {
    "t": "transfer_bytes",
    "d": "data_bytes",
    "n": "parts",
    "h": "hash",
    "r": "random_hash",
    "o": "original_hash",
    "i": "segment",
    "l": "segments",
    "q": "request_id",
    "f": "flags",
    "m": "hashmap",
}
BINARY_KEYS = frozenset("hroqm")


@final
@dataclass(frozen=True, slots=True, init=False)
class Advertisement:
    """What a sender says of one segment before it sends it (RNS 2, 3.3).

    The constructor is for crafting any and checks types and lengths only;
    :meth:`unpack` checks all that a receiver must.
    """

    transfer_bytes: int
    data_bytes: int
    parts: int
    hash: bytes
    random_hash: bytes
    original_hash: bytes
    segment: int
    segments: int
    request_id: bytes | None
    flags: int
    hashmap: bytes

    def __init__(
        self,
        *,
        transfer_bytes: int,
        data_bytes: int,
        parts: int,
        hash: Buffer,  # noqa: A002
        random_hash: Buffer,
        original_hash: Buffer,
        segment: int,
        segments: int,
        request_id: Buffer | None,
        flags: int,
        hashmap: Buffer,
    ) -> None:
        most = 2**63 - 1
        assign(
            self,
            transfer_bytes=to_int(transfer_bytes, "transfer_bytes", 0, most),
            data_bytes=to_int(data_bytes, "data_bytes", 0, most),
            parts=to_int(parts, "parts", 0, most),
            hash=field_of_size(hash, "hash", HASH_SIZE),
            random_hash=field_of_size(random_hash, "random_hash", RESOURCE_RANDOM_SIZE),
            original_hash=field_of_size(original_hash, "original_hash", HASH_SIZE),
            segment=to_int(segment, "segment", 1, most),
            segments=to_int(segments, "segments", 1, most),
            request_id=(
                None
                if request_id is None
                else field_of_size(request_id, "request_id", ADDRESS_SIZE)
            ),
            flags=to_int(flags, "flags", 0, most),
            hashmap=bytes(to_bytes(hashmap, "hashmap")),
        )

    @classmethod
    def unpack(cls, data: Buffer, /) -> Advertisement:
        """Reads and checks; unknown keys are ignored, keys may come in any order.

        Raises:
            DecodeError: what is wrong with the MessagePack; TYPE; MISSING; LENGTH of
                hashes and hashmap; RANGE unless 0 < t <= 3145725 and 1 <= i <= l;
                VALUE of the flags.
        """
        packed = to_bytes(data, "data")
        found, places = locate(packed, CODEC, "advertisement")
        if not isinstance(found, dict):
            raise fault("TYPE", CODEC, "advertisement")
        for key, (value, offset) in zip(found, places, strict=True):
            if key in KEYS:
                check_type(key, value, offset)
        end = Unpacker(Reader(packed, CODEC))
        end.skip()
        for key in KEYS:
            if key not in found:
                raise fault("MISSING", CODEC, f"advertisement.{key}", end.reader.position)
        advertisement = object.__new__(cls)
        assign(advertisement, **{name: found[key] for key, name in KEYS.items()})
        advertisement._check()
        return advertisement

    def _check(self) -> None:
        """What a receiver must check beyond the types (RNS 2, 3.3)."""
        rules = (
            ("t", "RANGE", 0 < self.transfer_bytes <= RESOURCE_TRANSFER_MAX),
            ("h", "LENGTH", len(self.hash) == HASH_SIZE),
            ("r", "LENGTH", len(self.random_hash) == RESOURCE_RANDOM_SIZE),
            ("o", "LENGTH", len(self.original_hash) == HASH_SIZE),
            ("i", "RANGE", 1 <= self.segment <= self.segments),
            ("q", "LENGTH", self.request_id is None or len(self.request_id) == ADDRESS_SIZE),
            ("f", "VALUE", self.encrypted),
            ("f", "VALUE", not (self.is_request and self.is_response)),
            ("m", "LENGTH", bool(self.hashmap)),
            ("m", "LENGTH", len(self.hashmap) % RESOURCE_MAPHASH_SIZE == 0),
            ("m", "LENGTH", len(self.hashmap) <= RESOURCE_MAPHASH_SIZE * self.parts),
        )
        for key, reason, holds in rules:
            if not holds:
                raise fault(reason, CODEC, f"advertisement.{key}")

    @property
    def encrypted(self) -> bool:
        """Flag e: always set on links."""
        return bool(self.flags & ResourceFlag.ENCRYPTED)

    @property
    def compressed(self) -> bool:
        """Flag c: the stream holds bzip2 data."""
        return bool(self.flags & ResourceFlag.COMPRESSED)

    @property
    def split(self) -> bool:
        """Flag s: there is more than one segment."""
        return bool(self.flags & ResourceFlag.SPLIT)

    @property
    def is_request(self) -> bool:
        """Flag u: a request."""
        return bool(self.flags & ResourceFlag.REQUEST)

    @property
    def is_response(self) -> bool:
        """Flag p: a response."""
        return bool(self.flags & ResourceFlag.RESPONSE)

    @property
    def has_metadata(self) -> bool:
        """Flag x: segment 1 begins with a metadata block."""
        return bool(self.flags & ResourceFlag.METADATA)

    def pack(self) -> bytes:
        """The MessagePack map with its 11 keys in the order of the wire."""
        return packb({key: getattr(self, name) for key, name in KEYS.items()})


def check_type(key: str, value: Any, offset: int) -> None:
    """The type that the value of an advertisement's key must have."""
    if key in BINARY_KEYS:
        good = isinstance(value, bytes) or (key == "q" and value is None)
    else:
        good = isinstance(value, int) and not isinstance(value, bool)
        if good and value < 0:
            raise fault("RANGE", CODEC, f"advertisement.{key}", offset)
    if not good:
        raise fault("TYPE", CODEC, f"advertisement.{key}", offset)


def advertisement_flags(
    *,
    encrypted: bool = True,
    compressed: bool = False,
    split: bool = False,
    request: bool = False,
    response: bool = False,
    metadata: bool = False,
) -> int:
    """The flags number of an advertisement (RNS 2, 3.3)."""
    return int(
        to_bool(encrypted, "encrypted") * ResourceFlag.ENCRYPTED
        | to_bool(compressed, "compressed") * ResourceFlag.COMPRESSED
        | to_bool(split, "split") * ResourceFlag.SPLIT
        | to_bool(request, "request") * ResourceFlag.REQUEST
        | to_bool(response, "response") * ResourceFlag.RESPONSE
        | to_bool(metadata, "metadata") * ResourceFlag.METADATA
    )
