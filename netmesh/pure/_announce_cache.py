"""Memories of announces: those found valid, and those made as path responses (RNS 1, 5.5, 5.6)."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, final

from netmesh._verdict import Verdict
from netmesh.constants import ADDRESS_SIZE, ANNOUNCE_REUSE, PUBLIC_SIZE
from netmesh.pure._announce import Announce
from netmesh.pure._wire import optional_of_size, to_bytes, to_int, to_real
from netmesh.pure.destination import Destination

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["AnnounceCache", "PathResponses"]

CAPACITY_MAX = 2**26


@final
class AnnounceCache:
    """Validates announces arriving as raw bytes and remembers positive results (RNS 1, 5.5).

    What is remembered covers the packet hash and the context flag, which the hash leaves
    out. Entries are found by a hash under ``key``, so that peers cannot aim at one. At
    ``capacity`` a hand walks over the oldest entries, sparing once those that were hit.
    """

    __slots__ = ("_capacity", "_entries", "_evictions", "_hits", "_key", "_misses")

    def __init__(self, *, capacity: int = 4096, key: Buffer | None = None) -> None:
        self._capacity = to_int(capacity, "capacity", 1, CAPACITY_MAX)
        given = optional_of_size(key, "key", 16)
        self._key = secrets.token_bytes(16) if given is None else given
        self._entries: OrderedDict[bytes, bool] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    def validate(self, raw: Buffer, /, *, expected_public_key: Buffer | None = None) -> Verdict:
        """The verdict of :meth:`Announce.validate`; a hit saves the signature check only.

        Raises:
            DecodeError: the bytes are no announce.
        """
        expected = optional_of_size(expected_public_key, "expected_public_key", PUBLIC_SIZE)
        announce = Announce.unpack(raw)
        subject = announce.packet.hash + bytes([announce.packet.context_flag])
        entry = hashlib.blake2b(subject, key=self._key, digest_size=32).digest()
        if entry in self._entries:
            self._hits += 1
            self._entries[entry] = True
        else:
            self._misses += 1
            verdict = announce.validate()
            if verdict != Verdict.VALID:
                return verdict
            self._add(entry)
        if expected is not None and expected != announce.public_key:
            return Verdict.KEY_MISMATCH
        return Verdict.VALID

    def _add(self, entry: bytes) -> None:
        while len(self._entries) >= self._capacity:
            oldest, was_hit = self._entries.popitem(last=False)
            if was_hit:
                self._entries[oldest] = False
            else:
                self._evictions += 1
        self._entries[entry] = False

    @property
    def hits(self) -> int:
        """How often a signature check was saved."""
        return self._hits

    @property
    def misses(self) -> int:
        """How often it was made."""
        return self._misses

    @property
    def evictions(self) -> int:
        """How many entries made room for others."""
        return self._evictions

    def __len__(self) -> int:
        return len(self._entries)


@final
class PathResponses:
    """The announce made for a path-request tag, reused for 30 s of the given clock (RNS 1, 5.6)."""

    __slots__ = ("_capacity", "_destination", "_lifetime_s", "_made")

    def __init__(
        self,
        destination: Destination,
        /,
        *,
        lifetime_s: float = ANNOUNCE_REUSE,
        capacity: int = 64,
    ) -> None:
        self._lifetime_s = to_real(lifetime_s, "lifetime_s")
        self._capacity = to_int(capacity, "capacity", 1, 2**31 - 1)
        if not isinstance(destination, Destination):
            raise TypeError(f"destination must be Destination, not {type(destination).__name__}")
        self._destination = destination
        self._made: OrderedDict[bytes, tuple[float, Announce]] = OrderedDict()

    def announce(self, tag: Buffer, now: float, /, **kwargs: Any) -> Announce:
        """The path response for ``tag``: the one made before, or a new one.

        ``kwargs`` are those of Destination.announce; they count when it is made.
        """
        moment = to_real(now, "now")
        name = bytes(to_bytes(tag, "tag"))[:ADDRESS_SIZE]
        if name in self._made:
            made, announce = self._made[name]
            if moment < made + self._lifetime_s:
                return announce
            del self._made[name]
        announce = self._destination.announce(path_response=True, **kwargs)
        while len(self._made) >= self._capacity:
            self._made.popitem(last=False)
        self._made[name] = (moment, announce)
        return announce

    def __len__(self) -> int:
        return len(self._made)
