"""Inputs that many tests share: kinds of buffers, wrong types, damaged bytes."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterator
from typing import Any


def _mapped(data: bytes) -> mmap.mmap:
    mapping = mmap.mmap(-1, max(len(data), 1))
    mapping.write(data)
    return mapping


# Each makes another kind of contiguous bytes-like object with the given content.
BUFFERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": lambda data: memoryview(b"before" + data + b"after")[6 : 6 + len(data)],
    "array": lambda data: array("B", data),
    "mmap": _mapped,
}

# What is not a bytes-like object, and what an error calls it.
NOT_BYTES = {"int": 5, "str": "text", "None": None, "list": [1, 2], "float": 1.5}


def strided(data: bytes) -> memoryview:
    """A buffer that is not contiguous."""
    return memoryview(bytes(2 * len(data) + 2))[::2]


def truncations(data: bytes) -> Iterator[bytes]:
    """Every proper prefix, the empty one first."""
    return (data[:length] for length in range(len(data)))


def flips(data: bytes, *, step: int = 1) -> Iterator[bytes]:
    """The data with one bit changed, in every ``step``-th byte."""
    for place in range(0, len(data), step):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        yield bytes(changed)
