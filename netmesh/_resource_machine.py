"""The sender and the receiver of one resource as state machines without a link.

A machine takes payloads and the time, and gives the :class:`Outgoing` payloads that are to be
sent: sealed under the link's key or in clear, as their context demands. It draws no entropy and
reads no clock but what it is given. The same machines run on the core's codecs and on those of
the pure reference.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from netmesh.constants import (
    HEADER_1_SIZE,
    MDU,
    RESOURCE_ADV_RETRIES_MAX,
    RESOURCE_COLLISION_GUARD,
    RESOURCE_HMU_FACTOR,
    RESOURCE_OUTPUT_MAX,
    RESOURCE_PART_FACTOR,
    RESOURCE_PART_FACTOR_RTT,
    RESOURCE_PROCESSING_GRACE,
    RESOURCE_PROOF_FACTOR,
    RESOURCE_RANDOM_SIZE,
    RESOURCE_RETRIES_MAX,
    RESOURCE_RETRY_DELAY,
    RESOURCE_RETRY_GRACE,
    RESOURCE_SENDER_GRACE,
    RESOURCE_WINDOW,
    Context,
    PacketType,
    ResourceState,
)
from netmesh.errors import DecodeError, EncodeError, ResourceError, StateError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Outgoing", "ReceiverMachine", "ResourceQueue", "SenderMachine"]

ENDED = (
    ResourceState.COMPLETE,
    ResourceState.FAILED,
    ResourceState.CORRUPT,
    ResourceState.REJECTED,
)
PROOF_RETRIES = 3
DRAWS_MAX = 64


@final
@dataclass(frozen=True, slots=True)
class Outgoing:
    """A payload to be sent on the link."""

    context: Context
    """Its context. RESOURCE and RESOURCE_PRF travel in clear, all others sealed."""
    payload: bytes
    """Its bytes."""
    packet_type: PacketType = PacketType.DATA
    """PROOF for a proof, else DATA."""


class SenderMachine:
    """A resource on its way out, of any size.

    ``data`` is the content, ``key`` the link's session key, a Token, or a function that seals.
    The first segment is prepared at once and nothing is sent before :meth:`advertise`.
    ``metadata`` is anything that MessagePack can hold. ``sdu`` is the size of a part: the MTU of
    the link less 36. ``entropy`` gives that many random bytes. ``rtt_s`` is the link's; with its
    ``link_id`` a proof that does not come is asked for, as the wire demands (RNS 2, 3.9).
    Times are seconds of any clock that does not go back.

    Raises:
        EncodeError: TOO_LARGE for metadata that does not fit the first segment.
    """

    _segmenter: ClassVar[Any]
    _pack_metadata: ClassVar[Any]
    _plan: ClassVar[Any]

    def __init__(
        self,
        data: Buffer,
        key: Any,
        /,
        *,
        metadata: object = None,
        sdu: int = MDU,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
        entropy: Callable[[int], bytes] = os.urandom,
        request_id: Buffer | None = None,
        is_response: bool = False,
        link_id: Buffer | None = None,
        rtt_s: float = 0.0,
        timeout_s: float | None = None,
    ) -> None:
        cls = type(self)
        self._data = memoryview(data).cast("B")
        self._key = key
        self._block = b"" if metadata is None else cls._pack_metadata(metadata)
        self._sizes = cls._plan(len(self._data), len(self._block))
        self._options: dict[str, Any] = {
            "sdu": sdu,
            "compression": compression,
            "request_id": request_id,
            "is_response": is_response,
            "has_metadata": metadata is not None,
            "segments": len(self._sizes),
            "data_bytes": len(self._data) + len(self._block),
        }
        self._link_id = None if link_id is None else bytes(link_id)
        self._entropy = entropy
        self._timeout_s = rtt_s * 6 if timeout_s is None else timeout_s
        self._original: bytes | None = None
        self._offset = 0
        self._advertised_s = 0.0
        self._last_request = b""
        self.state = ResourceState.NONE
        self.segment = 0
        self.proven_bytes = 0
        self.requests = 0
        self.request_bytes = 0
        self.wire_bytes = 0
        self.retries_left = 0
        self.rtt_s = rtt_s
        self.deadline_s = math.inf
        self._prepare()

    state: ResourceState
    """Its state."""
    segment: int
    """The segment that is prepared, from 1."""
    proven_bytes: int
    """Bytes of the content in segments that were proven."""
    requests: int
    """Part requests that were served."""
    request_bytes: int
    """Bytes of those requests."""
    wire_bytes: int
    """Bytes of parts that were sent, repeated ones too."""
    retries_left: int
    """Time-outs that may still follow in this state."""
    rtt_s: float
    """The round-trip time: the link's, then what the first request measured."""
    deadline_s: float
    """When :meth:`tick` is due; infinite while nothing is waited for."""

    # ----------------------------------------------------------------- what it is

    @property
    def prepared(self) -> Any:
        """The segment under way, a :class:`netmesh.resource.Segmenter`."""
        return self._current

    @property
    def advertisement(self) -> Any:
        """What is advertised of the segment under way."""
        return self._current.advertisement

    @property
    def hash(self) -> bytes:
        """32 bytes, of the segment under way."""
        return bytes(self._current.hash)

    @property
    def original_hash(self) -> bytes:
        """32 bytes, of the first segment: they name the resource."""
        assert self._original is not None
        return self._original

    @property
    def random_hash(self) -> bytes:
        """4 bytes that salt the hashes of the segment under way."""
        return bytes(self._current.random_hash)

    @property
    def expected_proof(self) -> bytes:
        """32 bytes: what must prove the segment under way."""
        return bytes(self._current.expected_proof)

    @property
    def hashmap(self) -> bytes:
        """Map hashes of all parts of it, 4 bytes each."""
        return bytes(self._current.hashmap)

    @property
    def flags(self) -> int:
        """The flags of its advertisement."""
        return int(self._current.advertisement.flags)

    @property
    def compressed(self) -> bool:
        """Whether it is compressed."""
        return bool(self._current.compressed)

    @property
    def segments(self) -> int:
        """Into how many segments the resource is cut."""
        return len(self._sizes)

    @property
    def data_bytes(self) -> int:
        """Bytes of content and metadata block."""
        return int(self._options["data_bytes"])

    @property
    def transfer_bytes(self) -> int:
        """Bytes of the segment under way, compressed and sealed."""
        return int(self._current.advertisement.transfer_bytes)

    @property
    def parts(self) -> int:
        """Into how many parts the segment under way is cut."""
        return int(self._current.parts)

    def part(self, index: int, /) -> memoryview:
        """One of them; IndexError outside 0..parts-1."""
        view: memoryview = self._current.part(index)
        return view

    @property
    def sent(self) -> int:
        """How many of them were sent at least once."""
        return int(self._current.sent)

    @property
    def progress(self) -> float:
        """0.0 to 1.0; the end only after the last proof."""
        if self.state == ResourceState.COMPLETE:
            return 1.0
        before = sum(self._sizes[: self.segment - 1])
        here = self._sizes[self.segment - 1] * self.sent / self.parts
        share: float = (before + here) / max(1, sum(self._sizes))
        return min(share, 1.0 - 2**-53)

    # ----------------------------------------------------------------- what it does

    def _prepare(self) -> None:
        """The next segment."""
        self.segment += 1
        size = self._sizes[self.segment - 1]
        plain = self._block if self.segment == 1 else b""
        taken = self._data[self._offset : self._offset + size - len(plain)]
        self._offset += len(taken)
        self._content = len(taken)
        for _ in range(DRAWS_MAX):
            options = {**self._options, "random_hash": self._entropy(RESOURCE_RANDOM_SIZE)}
            options["prefix"] = self._entropy(4)
            if not callable(self._key):
                options["iv"] = self._entropy(16)
            try:
                self._current = type(self)._segmenter(
                    plain + bytes(taken),
                    self._key,
                    segment=self.segment,
                    original_hash=self._original,
                    **options,
                )
                break
            except EncodeError as error:
                if error.reason != "COLLISION":
                    raise
        else:
            raise EncodeError("map hashes always collide", reason="COLLISION", field="random_hash")
        if self._original is None:
            self._original = bytes(self._current.hash)

    def queue(self) -> None:
        """Marks it as waiting for its turn."""
        if self.state == ResourceState.NONE:
            self.state = ResourceState.QUEUED

    def advertise(self, now_s: float) -> list[Outgoing]:
        """Begins; quiet when it has begun or ended."""
        if self.state not in (ResourceState.NONE, ResourceState.QUEUED):
            return []
        return self._advertise(now_s)

    def _advertise(self, now_s: float) -> list[Outgoing]:
        self.state = ResourceState.ADVERTISED
        self.retries_left = RESOURCE_ADV_RETRIES_MAX
        return self._announce(now_s)

    def _announce(self, now_s: float) -> list[Outgoing]:
        self._advertised_s = now_s
        self.deadline_s = now_s + self._timeout_s + RESOURCE_PROCESSING_GRACE
        return [Outgoing(Context.RESOURCE_ADV, self.advertisement.pack())]

    def on_request(self, payload: Buffer, now_s: float) -> list[Outgoing]:
        """Serves a part request: parts, and a hashmap update if it is due (RNS 2, 3.4).

        Raises DecodeError for one that is malformed or of another resource; a sequencing error
        cancels the transfer.
        """
        if self.state not in (
            ResourceState.ADVERTISED,
            ResourceState.TRANSFERRING,
            ResourceState.AWAITING_PROOF,
        ):
            return []
        asked = bytes(payload)
        try:
            indices, update = self._current.serve(asked)
        except DecodeError as error:
            if error.reason == "MISMATCH" and error.field == "request.last_known":
                return self.cancel()
            raise
        if self.state == ResourceState.ADVERTISED:
            self.rtt_s = now_s - self._advertised_s
        self.requests += 1
        self.request_bytes += len(asked)
        out = [Outgoing(Context.RESOURCE, bytes(self.part(index))) for index in indices]
        self.wire_bytes += sum(len(each.payload) for each in out)
        if update is not None:
            hashes = self._current.hashmap_update(update)
            out.append(Outgoing(Context.RESOURCE_HMU, hashes.pack()))
        if self.sent == self.parts:
            self.state = ResourceState.AWAITING_PROOF
            self.retries_left = PROOF_RETRIES
            self.deadline_s = now_s + self._proof_wait()
        else:
            self.state = ResourceState.TRANSFERRING
            self.retries_left = RESOURCE_RETRIES_MAX
            waits = sum(RESOURCE_RETRY_DELAY * k for k in range(1, RESOURCE_RETRIES_MAX + 1))
            self.deadline_s = now_s + self.rtt_s * 96 + RESOURCE_SENDER_GRACE + waits
        return out

    def _proof_wait(self) -> float:
        return self.rtt_s * RESOURCE_PROOF_FACTOR + RESOURCE_SENDER_GRACE

    def on_proof(self, payload: Buffer, now_s: float) -> list[Outgoing]:
        """A proof: the next segment's advertisement, or the end. One that is wrong is ignored."""
        if self.state in ENDED or not self._current.check_proof(payload):
            return []
        if self.state in (ResourceState.NONE, ResourceState.QUEUED):
            return []
        self.proven_bytes += self._content
        if self.segment == self.segments:
            self._end(ResourceState.COMPLETE)
            return []
        self._prepare()
        return self._advertise(now_s)

    def on_reject(self, payload: Buffer) -> None:
        """The receiver refuses or cancels (RCL); ignored for another resource."""
        if self.state not in ENDED and bytes(payload) == self.hash:
            self._end(ResourceState.REJECTED)

    def cancel(self) -> list[Outgoing]:
        """Ends it for good; what tells the peer, if it has heard of it. Quiet when ended."""
        if self.state in ENDED:
            return []
        begun = self.state not in (ResourceState.NONE, ResourceState.QUEUED)
        self._end(ResourceState.FAILED)
        return [Outgoing(Context.RESOURCE_ICL, self.hash)] if begun else []

    def tick(self, now_s: float) -> list[Outgoing]:
        """What is due: the advertisement again, the proof asked for, or the end."""
        if now_s < self.deadline_s:
            return []
        if self.retries_left > 0:
            self.retries_left -= 1
            if self.state == ResourceState.ADVERTISED:
                return self._announce(now_s)
            if self.state == ResourceState.AWAITING_PROOF:
                self.deadline_s = now_s + self._proof_wait()
                return self._ask_for_proof()
        return self.cancel()

    def _ask_for_proof(self) -> list[Outgoing]:
        if self._link_id is None:
            return []
        packet = b"\x0f" + self._link_id + bytes([Context.RESOURCE_PRF])
        # Late: hashlib brings a second copy of the cryptography library into the process.
        from hashlib import sha256

        wanted = sha256(packet + self.hash + self.expected_proof).digest()
        return [Outgoing(Context.CACHE_REQUEST, wanted)]

    def _end(self, state: ResourceState) -> None:
        self.state = state
        self.deadline_s = math.inf

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.name} segment {self.segment}/{self.segments}>"


class ReceiverMachine:
    """A resource on its way in, of any size.

    ``advertisement`` is the first segment's, ``key`` the link's session key, a Token, or a
    function that opens. Nothing is asked for before :meth:`accept`. ``window`` is that of the
    last resource on the link (None: 4); ``rtt_s`` and ``rate`` (bytes a second, None: unknown)
    are the link's. ``max_size`` bounds the content. With ``hold`` the last proof waits for
    :meth:`prove`.

    Raises:
        DecodeError: the advertisement is malformed.
        ResourceError: LIMIT for more than ``max_size``; STATE for a segment that is not the
            first.
    """

    _assembler: ClassVar[Any]
    _advertisement: ClassVar[Any]
    _profile: ClassVar[Any]

    def __init__(
        self,
        advertisement: Any,
        key: Any,
        /,
        *,
        sdu: int = MDU,
        window: int | None = None,
        max_size: int = RESOURCE_OUTPUT_MAX,
        rtt_s: float = 0.0,
        rate: float | None = None,
        hold: bool = False,
    ) -> None:
        first = self._read(advertisement)
        if first.segment != 1:
            raise ResourceError("this is not a first segment", reason="STATE")
        if first.data_bytes > max_size:
            raise ResourceError("the resource exceeds the limit", reason="LIMIT")
        self._key = key
        self._sdu = sdu
        self._max_size = max_size
        self._hold = hold
        self._link_rtt_s = rtt_s
        self._previous_rate = rate
        self._chunks: list[bytes] = []
        self._opened = 0
        self._asked_s = 0.0
        self._asked_bytes = 0
        self._round_bytes = 0
        self._answered = False
        self._repeated = False
        self._responded = False
        self._last_proof = b""
        self.profile = type(self)._profile(window=RESOURCE_WINDOW if window is None else window)
        self.state = ResourceState.NONE
        self.metadata: Any = None
        self.requests = 0
        self.request_bytes = 0
        self.proofs_sent = 0
        self.wire_bytes = 0
        self.outstanding = 0
        self.retries_left = RESOURCE_RETRIES_MAX
        self.rtt_s = 0.0
        self.data_rate = 0.0
        self.deadline_s = math.inf
        self.reason = "OK"
        self.between = False
        self._take(first)

    profile: Any
    """Window and limits, a :class:`netmesh.decisions.WindowProfile`."""
    state: ResourceState
    """Its state."""
    metadata: Any
    """The metadata, from the first segment on; None without."""
    requests: int
    """Part requests that were sent."""
    request_bytes: int
    """Bytes of those requests."""
    proofs_sent: int
    """Proofs that were sent, repeated ones too."""
    wire_bytes: int
    """Bytes of the parts that were taken."""
    outstanding: int
    """Parts of the last request that are not in yet."""
    retries_left: int
    """Time-outs that may still follow."""
    rtt_s: float
    """The measured response time; 0.0 before the first part."""
    data_rate: float
    """Bytes a second of the last complete round; 0.0 before."""
    deadline_s: float
    """When :meth:`tick` is due; infinite while nothing is waited for."""
    reason: str
    """Why it ended badly: "AUTH", "MISMATCH", "LIMIT", ...; "OK" while it has not."""
    between: bool
    """Whether a segment is proven and the next one's advertisement is awaited."""

    # ----------------------------------------------------------------- what it is

    @classmethod
    def _read(cls, advertisement: Any) -> Any:
        given = isinstance(advertisement, cls._advertisement)
        return advertisement if given else cls._advertisement.unpack(advertisement)

    def _take(self, advertisement: Any) -> None:
        self.advertisement = advertisement
        self._parts = type(self)._assembler(advertisement, sdu=self._sdu)

    @property
    def window(self) -> int:
        """Parts asked for at a time."""
        return int(self.profile.window)

    @property
    def window_min(self) -> int:
        """The least the window may be."""
        return int(self.profile.window_min)

    @property
    def window_max(self) -> int:
        """The most the window may be."""
        return int(self.profile.window_max)

    @property
    def hash(self) -> bytes:
        """32 bytes, of the segment under way."""
        return bytes(self.advertisement.hash)

    @property
    def original_hash(self) -> bytes:
        """32 bytes, of the first segment."""
        return bytes(self.advertisement.original_hash)

    @property
    def segment(self) -> int:
        """The segment under way, from 1."""
        return int(self.advertisement.segment)

    @property
    def segments(self) -> int:
        """How many there are."""
        return int(self.advertisement.segments)

    @property
    def parts(self) -> int:
        """How many parts the segment under way has."""
        return int(self._parts.parts)

    @property
    def received(self) -> int:
        """How many of them are there."""
        return int(self._parts.received)

    @property
    def consecutive(self) -> int:
        """The contiguous height: the index of the first missing part."""
        return int(self._parts.consecutive)

    @property
    def hashmap_height(self) -> int:
        """How many map hashes are known."""
        return int(self._parts.hashmap_height)

    @property
    def waiting_for_hashmap(self) -> bool:
        """Whether further map hashes were asked for."""
        return bool(self._parts.waiting_for_hashmap)

    @property
    def data(self) -> bytes:
        """The content so far; all of it in state COMPLETE."""
        return b"".join(self._chunks)

    # ----------------------------------------------------------------- what it does

    def accept(self, now_s: float) -> list[Outgoing]:
        """Takes the resource: the first request. Quiet when that was decided."""
        if self.state != ResourceState.NONE:
            return []
        self.state = ResourceState.TRANSFERRING
        return self._ask(now_s)

    def refuse(self) -> list[Outgoing]:
        """Takes it not."""
        if self.state != ResourceState.NONE:
            return []
        self._end(ResourceState.REJECTED, "OK")
        return [Outgoing(Context.RESOURCE_RCL, self.hash)]

    def cancel(self) -> list[Outgoing]:
        """Ends it for good; what tells the peer. Quiet when it has ended."""
        if self.state in ENDED:
            return []
        self._end(ResourceState.FAILED, "CANCELLED")
        return [Outgoing(Context.RESOURCE_RCL, self.hash)]

    def _ask(self, now_s: float) -> list[Outgoing]:
        request = self._parts.next_request(self.window)
        assert request is not None
        payload = request.pack()
        self.outstanding = len(request.hashes) // 4
        self.requests += 1
        self.request_bytes += len(payload)
        self._asked_s = now_s
        self._asked_bytes = HEADER_1_SIZE + 48 + len(payload) // 16 * 16
        self._round_bytes = 0
        self._answered = self._repeated = False
        self.deadline_s = now_s + self._wait()
        return [Outgoing(Context.RESOURCE_REQ, payload)]

    def _ask_again(self, now_s: float) -> list[Outgoing]:
        asked = self._ask(now_s)
        self._repeated = True
        return asked

    def _wait(self) -> float:
        """Seconds from the last activity (RNS 2, 3.9)."""
        rate = 8 * (self.data_rate or self._previous_rate or 0.0)
        if not rate:
            rate = 8 * (HEADER_1_SIZE * 10) / max(self._link_rtt_s, 1e-3)
        extra = (RESOURCE_RETRIES_MAX - self.retries_left) * RESOURCE_RETRY_DELAY
        grace = RESOURCE_RETRY_GRACE + extra
        if not self._responded:
            return RESOURCE_PART_FACTOR * (3 * self._sdu / rate) + grace
        hmu = 0.0
        if self.waiting_for_hashmap or self.outstanding == 0:
            hmu = self._sdu * 8 * RESOURCE_HMU_FACTOR / rate
        parts = self.outstanding * self._sdu * 8 / rate
        return RESOURCE_PART_FACTOR_RTT * parts + hmu + grace

    def on_part(self, part: Buffer, now_s: float) -> list[Outgoing]:
        """A part: perhaps the next request, or the proof of the segment. Others' are ignored."""
        if self.state != ResourceState.TRANSFERRING or self.between:
            return []
        view = bytes(part)
        if self._parts.add(view, window=RESOURCE_COLLISION_GUARD) is None:
            return []
        self._count(len(view), now_s)
        if self._parts.complete:
            return self._assemble(now_s)
        if self.outstanding == 0 and not self.waiting_for_hashmap:
            return self._next_round(now_s)
        self.deadline_s = now_s + self._wait()
        return []

    def _count(self, size: int, now_s: float) -> None:
        self.wire_bytes += size
        self._round_bytes += size
        self.outstanding = max(0, self.outstanding - 1)
        self.retries_left = RESOURCE_RETRIES_MAX
        if not self._answered:
            sample = max(now_s - self._asked_s, 1e-6)
            self._answered = self._responded = True
            if not self.rtt_s:
                self.rtt_s = self._link_rtt_s or sample
            else:
                step = 0.05 * self.rtt_s
                self.rtt_s += min(max(sample - self.rtt_s, -step), step)
            self.profile = self.profile.first_part((self._asked_bytes + size) / sample)

    def _next_round(self, now_s: float) -> list[Outgoing]:
        self.data_rate = self._round_rate(now_s)
        self.profile = self.profile.round_complete(self.data_rate)
        return self._ask(now_s)

    def _round_rate(self, now_s: float) -> float:
        """Bytes a second of the round that is complete, as the engine believes it.

        One that was asked for again may have been answered by what was asked for before: it
        never says that the link is faster than it was known to be, and is half believed when it
        says that it is slower.
        """
        rate = self._round_bytes / max(now_s - self._asked_s, 1e-6)
        known = self.data_rate or self._previous_rate or 0.0
        if not self._repeated or not known:
            return rate
        return min(known, (rate + known) / 2)

    def on_hashmap(self, payload: Buffer, now_s: float) -> list[Outgoing]:
        """A hashmap update: perhaps the next request. One not asked for is ignored.

        Raises DecodeError.
        """
        if self.state != ResourceState.TRANSFERRING or not self.waiting_for_hashmap:
            return []
        self._parts.update(payload)
        self.retries_left = RESOURCE_RETRIES_MAX
        self._responded = True
        if self.outstanding == 0:
            return self._next_round(now_s)
        self.deadline_s = now_s + self._wait()
        return []

    def _assemble(self, now_s: float) -> list[Outgoing]:
        self.state = ResourceState.ASSEMBLING
        self.deadline_s = math.inf
        limit = min(self._max_size, max(1, self.advertisement.data_bytes - self._opened))
        try:
            found = self._parts.finish(self._key, max_size=limit)
        except ResourceError as error:
            self._end(ResourceState.CORRUPT, error.reason)
            return [Outgoing(Context.RESOURCE_RCL, self.hash)]
        if self.segment == 1 and self.advertisement.has_metadata:
            self.metadata = found.metadata
        self._chunks.append(found.plaintext)
        self._opened += len(found.plaintext)
        self._last_proof = bytes(found.proof)
        if self.segment < self.segments:
            self.state = ResourceState.TRANSFERRING
            self.between = True
            self.deadline_s = now_s + 4 * (self.rtt_s * RESOURCE_PROOF_FACTOR + 10.0) + 60.0
            return self._prove()
        self.state = ResourceState.COMPLETE
        return [] if self._hold else self._prove()

    def _prove(self) -> list[Outgoing]:
        self.proofs_sent += 1
        return [Outgoing(Context.RESOURCE_PRF, self._last_proof, PacketType.PROOF)]

    def prove(self) -> list[Outgoing]:
        """The last proof: what was held, or again what the sender asks for.

        Raises StateError before a segment is complete.
        """
        if not self._last_proof or self.state not in (
            ResourceState.COMPLETE,
            ResourceState.TRANSFERRING,
        ):
            raise StateError("no segment is complete")
        self._hold = False
        return self._prove()

    def on_advertisement(self, advertisement: Any, now_s: float) -> list[Outgoing]:
        """The next segment of the resource, or the present one again.

        One that does not continue it ends it, CORRUPT with reason "MISMATCH".
        """
        told = self._read(advertisement)
        if self.state in ENDED:
            refused = self.state != ResourceState.COMPLETE
            return [Outgoing(Context.RESOURCE_RCL, bytes(told.hash))] if refused else []
        if bytes(told.hash) == self.hash:
            if self.between:
                return self._prove()
            again = self.state == ResourceState.TRANSFERRING and not self._responded
            return self._ask(now_s) if again else []
        mine = self.advertisement
        fits = (
            self.between
            and told.segment == mine.segment + 1
            and told.segments == mine.segments
            and told.data_bytes == mine.data_bytes
            and bytes(told.original_hash) == self.original_hash
            and told.request_id == mine.request_id
            and told.has_metadata == mine.has_metadata
        )
        if not fits:
            self._end(ResourceState.CORRUPT, "MISMATCH")
            return [Outgoing(Context.RESOURCE_RCL, bytes(told.hash))]
        self.between = False
        self._responded = False
        self._take(told)
        return self._ask(now_s)

    def on_cancel(self, payload: Buffer) -> list[Outgoing]:
        """The sender cancels (ICL); ignored for another resource."""
        if self.state in ENDED or bytes(payload) not in (self.hash, self.original_hash):
            return []
        self._end(ResourceState.FAILED, "CANCELLED")
        return [Outgoing(Context.RESOURCE_RCL, self.hash)]

    def tick(self, now_s: float) -> list[Outgoing]:
        """What is due: the request again with a smaller window, or the end."""
        if now_s < self.deadline_s:
            return []
        if self.between or self.retries_left == 0:
            self._end(ResourceState.FAILED, "TIMEOUT")
            return [Outgoing(Context.RESOURCE_RCL, self.hash)]
        self.retries_left -= 1
        self.profile = self.profile.timed_out()
        return self._ask_again(now_s)

    def _end(self, state: ResourceState, reason: str) -> None:
        self.state = state
        self.reason = reason
        self.between = False
        self.deadline_s = math.inf

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.name} segment {self.segment}/{self.segments}>"


@final
class ResourceQueue:
    """The resources of one link: one on its way out at a time, the next ones visibly queued.

    It also keeps the window with which the next incoming one starts.
    """

    __slots__ = ("_waiting", "current", "last_window")

    current: SenderMachine | None
    """The one under way; None: the link is free."""
    last_window: int | None
    """The window at the end of the last incoming resource; None before."""

    def __init__(self) -> None:
        self._waiting: deque[SenderMachine] = deque()
        self.current = None
        self.last_window = None

    @property
    def waiting(self) -> tuple[SenderMachine, ...]:
        """Those that wait, in state QUEUED, next one first."""
        return tuple(self._waiting)

    def add(self, sender: SenderMachine, now_s: float) -> list[Outgoing]:
        """Begins with ``sender``, or queues it behind the one under way."""
        sender.queue()
        self._waiting.append(sender)
        return self.advance(now_s)

    def advance(self, now_s: float) -> list[Outgoing]:
        """The next one's advertisement, when the present one has ended."""
        if self.current is not None and self.current.state not in ENDED:
            return []
        self.current = None
        while self._waiting:
            sender = self._waiting.popleft()
            if sender.state not in ENDED:
                self.current = sender
                return sender.advertise(now_s)
        return []

    def ended(self, receiver: ReceiverMachine) -> None:
        """Notes the window of an incoming resource that has ended."""
        self.last_window = receiver.window
