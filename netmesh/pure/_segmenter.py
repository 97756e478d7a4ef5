"""Preparing one segment of a resource for sending, and serving it (RNS 2, 3.2 and 3.4)."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, final

from netmesh.constants import (
    ADDRESS_SIZE,
    AES_BLOCK,
    HASH_SIZE,
    MDU,
    RESOURCE_COLLISION_GUARD,
    RESOURCE_COMPRESS_MAX,
    RESOURCE_HASHMAP_MAX,
    RESOURCE_MAPHASH_SIZE,
    RESOURCE_PREFIX_SIZE,
    RESOURCE_PROOF_SIZE,
    RESOURCE_RANDOM_SIZE,
    RESOURCE_SEGMENT_MAX,
    RESOURCE_TRANSFER_MAX,
    RESOURCE_WINDOW_MAX_FAST,
)
from netmesh.pure._advertisement import CODEC, Advertisement, advertisement_flags
from netmesh.pure._transfer import HashmapUpdate, PartRequest, cut, map_hash, resource_proof_pack
from netmesh.pure._wire import (
    fault,
    of_size,
    optional_of_size,
    refusal,
    to_bool,
    to_bytes,
    to_int,
    to_text,
)
from netmesh.pure.crypto import Token, bz2_compress, sha256

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Segmenter"]

COMPRESSIONS = ("off", "when_smaller", "automatic")
DRAWS_MAX = 64  # of random hashes, before giving up on data that always collide
UPDATE_SIZE = RESOURCE_HASHMAP_MAX * RESOURCE_MAPHASH_SIZE

SealFunction = Callable[[bytes], bytes]


def compress(plaintext: bytes, how: str, total: int) -> bytes | None:
    """The compressed form if it is wanted, allowed and strictly shorter (RNS 2, 3.2 step 1)."""
    if how == "off" or not plaintext or total > RESOURCE_COMPRESS_MAX:
        return None
    if how == "automatic" and looks_random(plaintext):
        return None
    packed = bz2_compress(plaintext)
    return packed if len(packed) < len(plaintext) else None


def looks_random(data: bytes) -> bool:
    """Whether two bytes of a sample are as seldom equal as in noise.

    For noise that is one pair in 256; text and structured data are far above.
    """
    if len(data) < 512:
        return False
    chunks = min(len(data) // 256, 16)
    stride = len(data) // chunks
    sample = b"".join(data[i * stride : i * stride + 256] for i in range(chunks))
    total = len(sample)
    equal = sum(count * (count - 1) for count in Counter(sample).values())
    return 256.0 * equal / (float(total) * (total - 1)) < 1.0 + 115.0 / total


def are_distinct(hashmap: bytes) -> bool:
    """Whether no map hash equals one of the 224 before it (RNS 2, 3.2 step 6)."""
    latest: dict[bytes, int] = {}
    for index, value in enumerate(cut(hashmap, RESOURCE_MAPHASH_SIZE)):
        key = bytes(value)
        if index - latest.get(key, -RESOURCE_COLLISION_GUARD - 1) <= RESOURCE_COLLISION_GUARD:
            return False
        latest[key] = index
    return True


@final
class Segmenter:
    """One prepared segment: encrypted, cut into parts, hashed, ready to advertise and serve.

    ``plaintext`` is at most 1048575 bytes, a metadata block included. ``key`` is the
    link's Token, its 32 or 64 bytes, or a function from prefix and body to stream, which
    then chooses its own IV. ``sdu`` is the size of a part: the MTU of the link less 36.
    ``request_id`` alone marks a request, with ``is_response`` a response.

    Raises:
        EncodeError: TOO_LARGE; COLLISION for a given ``random_hash``; EMPTY for a
            function that returns nothing.
    """

    __slots__ = (
        "_advertisement",
        "_expected_proof",
        "_floor",
        "_hashmap",
        "_parts",
        "_sent",
        "_stream",
    )

    def __init__(
        self,
        plaintext: Buffer,
        key: Token | Buffer | SealFunction,
        /,
        *,
        sdu: int = MDU,
        compression: Literal["off", "when_smaller", "automatic"] = "off",
        random_hash: Buffer | None = None,
        prefix: Buffer | None = None,
        iv: Buffer | None = None,
        data_bytes: int | None = None,
        segment: int = 1,
        segments: int = 1,
        original_hash: Buffer | None = None,
        request_id: Buffer | None = None,
        is_response: bool = False,
        has_metadata: bool = False,
    ) -> None:
        plain = to_bytes(plaintext, "plaintext")
        if len(plain) > RESOURCE_SEGMENT_MAX:
            raise refusal("TOO_LARGE", "plaintext")
        total = len(plain)
        if data_bytes is not None:
            total = to_int(data_bytes, "data_bytes", 0, 2**63 - 1)
        to_int(segments, "segments", 1, 2**63 - 1)
        to_int(segment, "segment", 1, segments)
        first = optional_of_size(original_hash, "original_hash", HASH_SIZE)
        request = optional_of_size(request_id, "request_id", ADDRESS_SIZE)
        if to_bool(is_response, "is_response") and request is None:
            raise ValueError("is_response needs request_id")
        to_int(sdu, "sdu", 1, 2**32 - 1)
        if to_text(compression, "compression") not in COMPRESSIONS:
            raise ValueError(f"compression must be one of {COMPRESSIONS}, not {compression!r}")
        blob = optional_of_size(random_hash, "random_hash", RESOURCE_RANDOM_SIZE)
        packed = compress(plain, compression, total)
        self._stream = seal(plain if packed is None else packed, key, prefix, iv)
        self._parts = cut(self._stream, sdu)
        blob, self._hashmap = choose_random_hash(self._parts, blob)
        own = sha256(plain + blob)
        self._expected_proof = resource_proof_pack(own, plain)[HASH_SIZE:]
        self._sent: set[int] = set()
        self._floor = 0  # the receiver's minimum consecutive height
        self._advertisement = Advertisement(
            transfer_bytes=len(self._stream),
            data_bytes=total,
            parts=len(self._parts),
            hash=own,
            random_hash=blob,
            original_hash=own if first is None else first,
            segment=segment,
            segments=segments,
            request_id=request,
            flags=advertisement_flags(
                compressed=packed is not None,
                split=segments > 1,
                request=request is not None and not is_response,
                response=is_response,
                metadata=has_metadata,
            ),
            hashmap=self._hashmap[:UPDATE_SIZE],
        )

    @property
    def hash(self) -> bytes:
        """H(plaintext | random hash), 32 bytes."""
        return self._advertisement.hash

    @property
    def random_hash(self) -> bytes:
        """The 4 bytes that salt all hashes."""
        return self._advertisement.random_hash

    @property
    def expected_proof(self) -> bytes:
        """H(plaintext | hash): what the receiver must send, 32 bytes."""
        return self._expected_proof

    @property
    def hashmap(self) -> bytes:
        """The map hashes of all parts, 4 bytes each."""
        return self._hashmap

    @property
    def stream(self) -> memoryview:
        """The ciphertext, without a copy."""
        return memoryview(self._stream)

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    def part(self, index: int, /) -> memoryview:
        """One part, without a copy; IndexError outside 0..parts-1."""
        if not isinstance(index, int):
            raise TypeError(f"index must be int, not {type(index).__name__}")
        if not 0 <= index < self.parts:
            raise IndexError(f"part {index} of a segment of {self.parts} parts")
        return self._parts[index]

    @property
    def sent(self) -> int:
        """Distinct parts named by :meth:`serve` so far."""
        return len(self._sent)

    @property
    def compressed(self) -> bool:
        """Whether the stream holds bzip2 data."""
        return self._advertisement.compressed

    @property
    def advertisement(self) -> Advertisement:
        """What to send first; its hashmap holds the first 74 map hashes."""
        return self._advertisement

    def hashmap_update(self, segment: int, /) -> HashmapUpdate:
        """The map hashes of parts 74 * segment and on; ValueError when there are none."""
        to_int(segment, "segment", 0, 2**32 - 1)
        hashes = self._hashmap[segment * UPDATE_SIZE :][:UPDATE_SIZE]
        if not hashes:
            raise ValueError(f"segment {segment} holds no map hashes")
        return HashmapUpdate(self.hash, segment, hashes)

    def _in_reach(self) -> dict[bytes, int]:
        """The map hashes that the receiver may name, and their indices."""
        end = min(self._floor + RESOURCE_COLLISION_GUARD, self.parts)
        hashes = cut(self._hashmap, RESOURCE_MAPHASH_SIZE)
        return {bytes(hashes[index]): index for index in range(self._floor, end)}

    def serve(self, request: PartRequest | Buffer, /) -> tuple[list[int], int | None]:
        """(indices of the parts to send, hashmap segment to send or None) (RNS 2, 3.4).

        Raises:
            DecodeError: MISMATCH for another resource, or when the last known map hash
                does not end a hashmap segment that another follows: a sequencing error,
                cancel the transfer. An error changes nothing.
            LimitError: more than 224 hashes.
        """
        asked = request if isinstance(request, PartRequest) else PartRequest.unpack(request)
        if asked.resource_hash != self.hash:
            raise fault("MISMATCH", CODEC, "request.hash", 1)
        if len(asked.hashes) > RESOURCE_COLLISION_GUARD * RESOURCE_MAPHASH_SIZE:
            raise fault("LIMIT", CODEC, "request.wanted", len(asked.pack()) - len(asked.hashes))
        reach = self._in_reach()
        update = None
        if asked.last_map_hash is not None:
            following = reach.get(asked.last_map_hash, -1) + 1
            if not 0 < following < self.parts or following % RESOURCE_HASHMAP_MAX:
                raise fault("MISMATCH", CODEC, "request.last_known", 1)
            update = following // RESOURCE_HASHMAP_MAX
            self._floor = max(following - 1 - RESOURCE_WINDOW_MAX_FAST, 0)
        wanted = {bytes(value) for value in cut(asked.hashes, RESOURCE_MAPHASH_SIZE)}
        indices = sorted(reach[value] for value in wanted if value in reach)
        self._sent.update(indices)
        return indices, update

    def check_proof(self, payload: Buffer, /) -> bool:
        """Whether this is the proof of this segment (RNS 2, 3.10)."""
        data = to_bytes(payload, "payload")
        expected = self.hash + self._expected_proof
        return len(data) == RESOURCE_PROOF_SIZE and hmac.compare_digest(data, expected)

    def __repr__(self) -> str:
        return f"<Segmenter {self.hash.hex()}, {self.parts} parts>"


def seal(
    body: bytes, key: Token | Buffer | SealFunction, prefix: Buffer | None, iv: Buffer | None
) -> bytes:
    """The stream: 4 random bytes and the body, encrypted as a whole (RNS 2, 3.2 steps 2, 3)."""
    lead = optional_of_size(prefix, "prefix", RESOURCE_PREFIX_SIZE)
    start = optional_of_size(iv, "iv", AES_BLOCK)
    whole = (secrets.token_bytes(RESOURCE_PREFIX_SIZE) if lead is None else lead) + body
    if isinstance(key, Token):
        return key.seal(whole, iv=start)
    if not callable(key):
        return Token(key).seal(whole, iv=start)
    stream = bytes(to_bytes(key(whole), "key(plaintext)"))
    if not stream:
        raise refusal("EMPTY", "stream")
    if len(stream) > RESOURCE_TRANSFER_MAX:
        raise refusal("TOO_LARGE", "stream")
    return stream


def choose_random_hash(parts: list[memoryview], given: bytes | None) -> tuple[bytes, bytes]:
    """A random hash under which the map hashes do not collide, and these (RNS 2, 3.2)."""
    for _ in range(1 if given is not None else DRAWS_MAX):
        blob = secrets.token_bytes(RESOURCE_RANDOM_SIZE) if given is None else bytes(given)
        of_size(blob, "random_hash", RESOURCE_RANDOM_SIZE)
        hashmap = b"".join(map_hash(part, blob) for part in parts)
        if are_distinct(hashmap):
            return blob, hashmap
    raise refusal("COLLISION", "random_hash")
