"""Figures as people read them."""

from __future__ import annotations

_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_RATE_UNITS = ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s"))


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    decimals = max(0, digits - 1)
    while size >= 10 and decimals > 0:
        size /= 10
        decimals -= 1
    return f"{value:.{decimals}f}"


def duration(ns: float | None) -> str:
    """Nanoseconds with a fitting unit: ``12.3 ns``, ``4.56 µs``."""
    if ns is None:
        return "-"
    for size, unit in _TIME_UNITS:
        if abs(ns) >= size * 0.9995:
            return f"{significant(ns / size)} {unit}"
    return f"{ns:.2f} ns"


def rate(per_second: float) -> str:
    """Calls a second with a fitting unit: ``12.9 M/s``."""
    for size, unit in _RATE_UNITS:
        if per_second >= size:
            return f"{significant(per_second / size)} {unit}"
    return f"{per_second:.2f} /s"


def size(bytes_: float | None) -> str:
    """Bytes as KiB, MiB or GiB."""
    if bytes_ is None:
        return "-"
    if abs(bytes_) >= 1 << 30:
        return f"{bytes_ / (1 << 30):.1f} GiB"
    if abs(bytes_) >= 1 << 20:
        return f"{bytes_ / (1 << 20):.1f} MiB"
    return f"{bytes_ / 1024:.0f} KiB"


def share(value: float | None) -> str:
    """A share as a percentage."""
    return "-" if value is None else f"{100 * value:.1f} %"


def times(value: float | None) -> str:
    """A ratio: ``3.4x``."""
    if value is None:
        return "-"
    return f"{value:.0f}x" if value >= 100 else f"{significant(value)}x"
