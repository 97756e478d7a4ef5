"""Collecting the parts of one segment, then opening and checking it (RNS 2, 3.4 to 3.10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    MDU,
    RESOURCE_HASHMAP_MAX,
    RESOURCE_MAPHASH_SIZE,
    RESOURCE_OUTPUT_MAX,
    RESOURCE_PREFIX_SIZE,
)
from netmesh.errors import AuthenticationError, DecodeError, NetmeshError, ResourceError
from netmesh.pure._advertisement import CODEC, Advertisement
from netmesh.pure._transfer import (
    HashmapUpdate,
    PartRequest,
    cut,
    map_hash,
    metadata_unpack,
    resource_proof_pack,
)
from netmesh.pure._wire import fault, to_bytes, to_int
from netmesh.pure.crypto import Token, bz2_decompress, sha256

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Assembled", "Assembler"]

OpenFunction = Callable[[bytes], bytes]


@final
@dataclass(frozen=True, slots=True)
class Assembled:
    """What came out of a segment."""

    plaintext: bytes
    """The data, without the metadata block."""
    metadata: Any
    """None unless the resource has some and this is its first segment."""
    proof: bytes
    """The 64-byte payload that proves the reception."""


@final
class Assembler:
    """Collects the parts of one advertised segment (RNS 2, 3.7).

    ``sdu`` is the size of a part on this link; the number of parts follows from it, not
    from what the sender says. Belongs to one thread at a time.
    """

    __slots__ = ("_advertisement", "_hashes", "_parts", "_sdu", "_waiting")

    def __init__(self, advertisement: Advertisement | Buffer, /, *, sdu: int = MDU) -> None:
        if not isinstance(advertisement, Advertisement):
            advertisement = Advertisement.unpack(advertisement)
        advertisement._check()
        self._advertisement = advertisement
        self._sdu = to_int(sdu, "sdu", 1, 2**32 - 1)
        self._parts: list[bytes | None] = [None] * -(-advertisement.transfer_bytes // sdu)
        self._hashes = [bytes(h) for h in cut(advertisement.hashmap, RESOURCE_MAPHASH_SIZE)]
        self._waiting = False
        if len(self._hashes) > len(self._parts):
            raise fault("LENGTH", CODEC, "advertisement.m")

    def add(self, part: Buffer, /, *, window: int | None = None) -> int | None:
        """Stores a part and returns its index; None when it matches no empty place.

        Its map hash is looked for from the first missing part over ``window`` places;
        None: over all whose hash is known.
        """
        data = bytes(to_bytes(part, "part"))
        own = map_hash(data, self._advertisement.random_hash)
        end = self.hashmap_height
        if window is not None:
            end = min(end, self.consecutive + to_int(window, "window", 1, 2**32 - 1))
        for index in range(self.consecutive, end):
            if self._parts[index] is None and self._hashes[index] == own:
                if len(data) != self._size_of(index):
                    return None
                self._parts[index] = data
                return index
        return None

    def _size_of(self, index: int) -> int:
        return min(self._sdu, self._advertisement.transfer_bytes - index * self._sdu)

    def next_request(self, window: int, /) -> PartRequest | None:
        """The next part request over up to ``window`` places; None when complete.

        It is of the exhausted form when the map hash of a missing part among them is
        not known (RNS 2, 3.4).
        """
        to_int(window, "window", 1, 2**32 - 1)
        if self.complete:
            return None
        first = self.consecutive
        end = min(first + window, self.parts)
        known = min(end, self.hashmap_height)
        hashes = b"".join(self._hashes[i] for i in range(first, known) if self._parts[i] is None)
        self._waiting = end > self.hashmap_height
        last = self._hashes[-1] if self._waiting else None
        return PartRequest(self._advertisement.hash, hashes, last_map_hash=last)

    def update(self, update: HashmapUpdate | Buffer, /) -> None:
        """Takes further map hashes (RNS 2, 3.5). One that is refused changes nothing.

        Raises:
            DecodeError: MISMATCH for another resource or hashes that do not follow the
                known ones; RANGE for more hashes than parts.
            NetmeshError: STATE when none is awaited.
        """
        if not isinstance(update, HashmapUpdate):
            update = HashmapUpdate.unpack(update)
        if update.resource_hash != self._advertisement.hash:
            raise fault("MISMATCH", CODEC, "hashmap_update.hash")
        if not self._waiting:
            raise NetmeshError("no hashmap update is awaited", reason="STATE")
        hashes = [bytes(value) for value in cut(update.hashmap, RESOURCE_MAPHASH_SIZE)]
        begin = update.segment * RESOURCE_HASHMAP_MAX
        if update.segment > self.parts // RESOURCE_HASHMAP_MAX:
            raise fault("RANGE", CODEC, "hashmap_update.segment")
        if begin + len(hashes) > self.parts:
            raise fault("RANGE", CODEC, "hashmap_update.hashmap")
        if not begin <= self.hashmap_height < begin + len(hashes):
            raise fault("MISMATCH", CODEC, "hashmap_update.segment")
        self._hashes += hashes[self.hashmap_height - begin :]
        self._waiting = False

    @property
    def received(self) -> int:
        """Distinct parts stored."""
        return sum(part is not None for part in self._parts)

    @property
    def parts(self) -> int:
        """How many parts the segment has."""
        return len(self._parts)

    @property
    def consecutive(self) -> int:
        """The index of the first missing part; ``parts`` when complete."""
        return self._parts.index(None) if None in self._parts else len(self._parts)

    @property
    def hashmap_height(self) -> int:
        """How many map hashes are known."""
        return len(self._hashes)

    @property
    def waiting_for_hashmap(self) -> bool:
        """Whether the last request was of the exhausted form."""
        return self._waiting

    @property
    def complete(self) -> bool:
        """Whether all parts are there."""
        return None not in self._parts

    def finish(
        self, key: Token | Buffer | OpenFunction, /, *, max_size: int = RESOURCE_OUTPUT_MAX
    ) -> Assembled:
        """Decrypts, inflates within ``max_size`` bytes, checks the hash (RNS 2, 3.10).

        Raises:
            ResourceError: STATE when parts are missing; AUTH, COMPRESSED, LIMIT,
                MISMATCH; VALUE for a damaged metadata block.
        """
        to_int(max_size, "max_size", 1, 2**63 - 1)
        if not self.complete:
            raise ResourceError("parts are missing", reason="STATE")
        opened = open_stream(b"".join(part or b"" for part in self._parts), key)
        if len(opened) < RESOURCE_PREFIX_SIZE:
            raise ResourceError("the stream ends within its prefix", reason="MISMATCH")
        plain = self._inflate(opened[RESOURCE_PREFIX_SIZE:], max_size)
        advertised = self._advertisement
        if sha256(plain + advertised.random_hash) != advertised.hash:
            raise ResourceError("the plaintext has another hash", reason="MISMATCH")
        proof = resource_proof_pack(advertised.hash, plain)
        metadata, start = None, 0
        if advertised.has_metadata and advertised.segment == 1:
            try:
                metadata, start = metadata_unpack(plain)
            except DecodeError as error:
                raise ResourceError(f"metadata: {error}", reason="VALUE") from None
        return Assembled(plain[start:], metadata, proof)

    def _inflate(self, body: bytes, max_size: int) -> bytes:
        try:
            if self._advertisement.compressed:
                return bz2_decompress(body, max_size=max_size)
        except DecodeError as error:
            raise ResourceError(f"compressed data: {error}", reason=error.reason) from None
        if len(body) > max_size:
            raise ResourceError("the segment exceeds the limit", reason="LIMIT")
        return body

    def __repr__(self) -> str:
        return f"<Assembler {self._advertisement.hash.hex()}, {self.received} of {self.parts}>"


def open_stream(stream: bytes, key: Token | Buffer | OpenFunction) -> bytes:
    """The decrypted stream; AUTH for one that does not decrypt."""
    if not isinstance(key, Token) and callable(key):
        return bytes(to_bytes(key(stream), "key(stream)"))
    token = key if isinstance(key, Token) else Token(key)
    try:
        return token.open(stream)
    except (AuthenticationError, DecodeError) as error:
        raise ResourceError(f"the stream does not decrypt: {error}", reason="AUTH") from None
