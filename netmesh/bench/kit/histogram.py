"""A log-linear histogram of nanoseconds without a list of samples.

Exact below 256 ns; above it 128 bins for each power of two, so that a bin is at most
0.79 % wide. The Rust adapters and the native loops use the same bins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_SUB_BITS = 7
_EXACT = 2 << _SUB_BITS


def bin_of(value: int) -> int:
    """The bin that ``value`` nanoseconds fall into."""
    if value < _EXACT:
        return value
    shift = value.bit_length() - 1 - _SUB_BITS
    return (shift << _SUB_BITS) + (value >> shift)


def upper(index: int) -> int:
    """The largest value that falls into a bin."""
    if index < _EXACT:
        return index
    shift = (index >> _SUB_BITS) - 1
    top = (index & ((1 << _SUB_BITS) - 1)) + (1 << _SUB_BITS) + 1
    return (top << shift) - 1


class Histogram:
    """Counts by bin. Confined to one thread."""

    __slots__ = ("_counts", "maximum")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.maximum = 0

    def add(self, value: int) -> None:
        """Counts one time of ``value`` nanoseconds."""
        index = bin_of(value)
        self._counts[index] = self._counts.get(index, 0) + 1
        self.maximum = max(self.maximum, value)

    def merge(self, pairs: Iterable[Sequence[int]], maximum: int) -> None:
        """Adds ``[upper, count]`` pairs of another histogram with the same bins."""
        for top, count in pairs:
            index = bin_of(top)
            self._counts[index] = self._counts.get(index, 0) + count
        self.maximum = max(self.maximum, maximum)

    @property
    def count(self) -> int:
        """How many times were counted."""
        return sum(self._counts.values())

    def pairs(self) -> list[list[int]]:
        """``[upper, count]`` of the bins in use, in ascending order."""
        return [[upper(index), self._counts[index]] for index in sorted(self._counts)]

    def percentile(self, percent: float) -> int:
        """The upper end of the bin that holds this percentile (nearest rank), 0 < p <= 100.

        Raises ValueError when nothing was counted.
        """
        total = self.count
        if total == 0:
            raise ValueError("an empty histogram has no percentiles")
        rank = max(1, math.ceil(total * percent / 100))
        seen = 0
        for top, count in self.pairs():
            seen += count
            if seen >= rank:
                return min(top, self.maximum)
        return self.maximum
