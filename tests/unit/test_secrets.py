"""Private bytes do not outlive the objects that hold them."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from netmesh import _core

pytestmark = pytest.mark.skipif(
    "lib" in os.environ.get("LD_PRELOAD", "") or sys.byteorder != "little",
    reason="reads memory that was given back, which sanitizers forbid",
)

SECRET = bytes(range(100, 164))
HEAD = object.__basicsize__


def at(address: int, size: int) -> bytes:
    """Memory of this process."""
    return ctypes.string_at(address, size)


HOLDERS: dict[str, tuple[Callable[[], Any], bytes]] = {
    "Identity": (lambda: _core.Identity.from_private(SECRET), SECRET),
    "Token": (lambda: _core.Token(SECRET), SECRET[32:]),
    "Ifac": (lambda: _core.Ifac.from_key(SECRET), SECRET),
    "Destination": (
        lambda: _core.Destination(_core.Identity(), "app.a", type=1, group_key=SECRET),
        SECRET,
    ),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_an_object_is_wiped_when_it_goes(name: str) -> None:
    make, secret = HOLDERS[name]
    kept = make()  # so that the memory around stays in use
    holder = make()
    address, size = id(holder), type(holder).__basicsize__
    # The first and last bytes may be overwritten by whoever manages free memory.
    part = secret[8:-8]
    assert part in at(address, size)
    del holder
    assert part not in at(address, size)
    assert part in at(id(kept), size)


def test_ratchets_are_wiped_when_they_are_dropped_and_when_they_go() -> None:
    ratchets = _core.Ratchets(retained=2, interval_s=0)
    for moment, byte in enumerate((1, 2, 3), start=1):
        ratchets.rotate(moment, private=bytes([byte]) * 32)
    keys = int.from_bytes(at(id(ratchets) + HEAD, 8), "little")
    assert at(keys, 64) == bytes([3]) * 32 + bytes([2]) * 32
    assert bytes([1]) * 32 not in at(keys, 96)
    del ratchets
    left = at(keys, 64)
    assert bytes([3]) * 8 not in left
    assert bytes([2]) * 8 not in left


def test_keys_that_moved_are_wiped_where_they_were() -> None:
    ratchets = _core.Ratchets(interval_s=0)
    for moment in range(1, 9):
        ratchets.rotate(moment, private=bytes([7]) * 32)
    before = int.from_bytes(at(id(ratchets) + HEAD, 8), "little")
    ratchets.rotate(9, private=bytes([7]) * 32)
    after = int.from_bytes(at(id(ratchets) + HEAD, 8), "little")
    assert after != before
    assert bytes([7]) * 16 not in at(before, 256)
