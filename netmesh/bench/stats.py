"""The statistics of the report: small, explicit, without a library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

NOISE_FLOOR = 0.02
"""Differences below this share are never called a difference."""

NOISE_FACTOR = 3.0
"""How many robust standard deviations two values must be apart to differ."""

# A normal distribution's standard deviation is this many median absolute deviations.
_MAD_TO_SIGMA = 1.4826


def median(values: Sequence[float]) -> float:
    """The median; ValueError for no values."""
    if not values:
        raise ValueError("no values")
    return float(statistics.median(values))


def mad_ratio(values: Sequence[float]) -> float | None:
    """Median absolute deviation over the median; None for fewer than two values."""
    if len(values) < 2:
        return None
    middle = median(values)
    if middle == 0:
        return None
    return median([abs(value - middle) for value in values]) / middle


def noise_band(*spreads: float | None) -> float:
    """The share by which values with these relative MADs may differ and count as equal.

    A value whose spread is unknown counts with the floor alone.
    """
    known = [spread for spread in spreads if spread is not None]
    sigma = _MAD_TO_SIGMA * math.sqrt(sum(spread * spread for spread in known))
    return max(NOISE_FLOOR, NOISE_FACTOR * sigma)


def differ(a: float, b: float, band: float) -> bool:
    """Whether two positive values are further apart than a band allows, seen from the smaller."""
    return max(a, b) > min(a, b) * (1 + band)
