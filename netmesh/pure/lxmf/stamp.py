"""Proof of work: work block, validity, search (LXMF 6; RNS 1, 9.2)."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import HASH_SIZE, LXMF_ROUNDS_MESSAGE, LXMF_STAMP_SIZE
from netmesh.errors import CancelledError
from netmesh.pure._wire import (
    assign,
    optional_of_size,
    to_bytes,
    to_int,
    to_real,
    to_text,
    to_threads,
)
from netmesh.pure.crypto import hkdf, sha256, sha256_backends
from netmesh.pure.msgpack import packb

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Stamp", "StampCancel", "Workblock"]

ROUND_SIZE = 256
ROUNDS_MAX = 2**20
DIGEST_BITS = 8 * HASH_SIZE
PREFIX_SIZE = 24  # of a candidate; the other 8 bytes count
TRIES_BETWEEN_LOOKS = 2048  # at the clock and the cancel switch: about a millisecond
PROGRESS_INTERVAL_S = 0.1


@final
class StampCancel:
    """Cancels a search from any thread, within 50 ms."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Makes every search that was given this object stop."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was used."""
        return self._event.is_set()


@final
@dataclass(frozen=True, slots=True)
class Stamp:
    """What a search found."""

    stamp: bytes
    value: int
    tries: int
    seconds: float


@final
@dataclass(frozen=True, slots=True, init=False)
class Workblock:
    """A work block reduced to the state of its hash; the bytes are built only on demand.

    A try then costs the hash of 32 more bytes in place of 768 kB (LXMF 6.2).
    """

    material: bytes
    rounds: int
    _state: Any = field(repr=False, compare=False)

    def __init__(self, material: Buffer, rounds: int = LXMF_ROUNDS_MESSAGE, /) -> None:
        data = bytes(to_bytes(material, "material"))
        assign(self, material=data, rounds=to_int(rounds, "rounds", 1, ROUNDS_MAX), _state=None)

    def to_bytes(self) -> bytes:
        """All 256 * rounds bytes (LXMF 6.1)."""
        return b"".join(self._round(number) for number in range(self.rounds))

    def _round(self, number: int) -> bytes:
        return hkdf(ROUND_SIZE, self.material, sha256(self.material + packb(number)))

    def _after_block(self) -> Any:
        """A hash object that has taken in the work block."""
        if self._state is None:
            assign(self, _state=hashlib.sha256(self.to_bytes()))
        return self._state.copy()

    def digest(self, stamp: Buffer, /) -> bytes:
        """H(work block | stamp), 32 bytes."""
        state = self._after_block()
        state.update(to_bytes(stamp, "stamp"))
        return bytes(state.digest())

    def value(self, stamp: Buffer, /) -> int:
        """The number of leading zero bits of the digest, 0..256."""
        return DIGEST_BITS - int.from_bytes(self.digest(stamp), "big").bit_length()

    def valid(self, stamp: Buffer, cost: int, /) -> bool:
        """Whether digest <= 2^(256 - cost); cost 0 accepts everything (LXMF 6.2)."""
        to_int(cost, "cost", 0, DIGEST_BITS)
        return int.from_bytes(self.digest(stamp), "big") <= 1 << DIGEST_BITS - cost

    def search(
        self,
        cost: int,
        /,
        *,
        threads: int = 1,
        start: Buffer | None = None,
        timeout_s: float | None = None,
        cancel: StampCancel | None = None,
        progress: Callable[[int], object] | None = None,
        backend: str | None = None,
    ) -> Stamp:
        """Looks for a stamp that is valid for ``cost``.

        The candidates are start[:24] | (start[24:] + 0, 1, 2, ... as a 64-bit counter),
        from random bytes unless ``start`` is given. ``progress`` gets the number of
        tries about ten times a second; what it raises ends the search. ``threads`` is
        for the twin in C: here they would take turns, so one does all the work.

        Raises:
            CancelledError: CANCELLED, or TIMEOUT after ``timeout_s`` seconds.
        """
        to_int(cost, "cost", 0, DIGEST_BITS)
        to_threads(threads)
        given = optional_of_size(start, "start", LXMF_STAMP_SIZE)
        first = secrets.token_bytes(LXMF_STAMP_SIZE) if given is None else bytes(given)
        limit = None if timeout_s is None else to_real(timeout_s, "timeout_s")
        if backend is not None and to_text(backend, "backend") not in sha256_backends():
            raise ValueError(f"backend must be one of {sha256_backends()}, not {backend!r}")
        if cancel is not None and not isinstance(cancel, StampCancel):
            raise TypeError(f"cancel must be StampCancel, not {type(cancel).__name__}")
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable, not {type(progress).__name__}")
        began = time.monotonic()
        watch = Watch(began, limit, cancel, progress)
        state = self._after_block()
        target = 1 << DIGEST_BITS - cost
        counter = int.from_bytes(first[PREFIX_SIZE:], "big")
        state.update(first[:PREFIX_SIZE])
        tries = 0
        while True:
            if tries % TRIES_BETWEEN_LOOKS == 0:
                watch.look(tries)
            tail = (counter + tries & 2**64 - 1).to_bytes(8, "big")
            candidate = state.copy()
            candidate.update(tail)
            digest = int.from_bytes(candidate.digest(), "big")
            tries += 1
            if digest <= target:
                stamp = first[:PREFIX_SIZE] + tail
                seconds = time.monotonic() - began
                return Stamp(stamp, DIGEST_BITS - digest.bit_length(), tries, seconds)


@dataclass
class Watch:
    """What a search looks at now and then."""

    began: float
    timeout_s: float | None
    cancel: StampCancel | None
    progress: Callable[[int], object] | None
    reported: float = 0.0

    def look(self, tries: int) -> None:
        """Ends the search, or reports, when it is time to."""
        seconds = time.monotonic() - self.began
        if self.cancel is not None and self.cancel.cancelled:
            raise CancelledError("the stamp search was cancelled")
        if self.timeout_s is not None and seconds >= self.timeout_s:
            raise CancelledError("the stamp search ran out of time", reason="TIMEOUT")
        if self.progress is not None and seconds - self.reported >= PROGRESS_INTERVAL_S:
            self.reported = seconds
            self.progress(tries)
