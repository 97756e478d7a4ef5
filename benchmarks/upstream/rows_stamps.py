"""Stamps: building a work block and trying stamps on it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from bench_kit import fixtures
from bench_kit.harness import Offer, Operation, same, unary
from LXMF import LXStamper

ROUNDS = 3000


def _search() -> Operation:
    block = LXStamper.stamp_workblock(fixtures.stamp_material(0), ROUNDS)
    stamps = [fixtures.stream("stamp.try", number, 32) for number in range(64)]
    valid = LXStamper.stamp_valid

    def loop(items: Any) -> Any:
        found = None
        for stamp in items:
            found = valid(stamp, 254, block)
        return found

    def check(index: int, found: Any) -> bytes:
        digest = hashlib.sha256(block + stamps[index]).digest()
        same("verdict", found, int.from_bytes(digest, "big") <= 1 << 2)
        return digest

    return Operation(stamps, loop, check)


def _build() -> Operation:
    def check(_index: int, block: bytes) -> bytes:
        return hashlib.sha256(block).digest()

    materials = [fixtures.stamp_material(number) for number in range(64)]
    return Operation(materials, unary(LXStamper.stamp_workblock), check)


def offers(_inputs: Path) -> dict[str, Offer]:
    """The rows of this suite."""
    return {
        "stamp.search": Offer(
            "calls = tries, one process: LXStamper.stamp_valid, the test that its generator runs "
            "in several processes; it hashes the work block (768000 bytes) for each try",
            _search,
        ),
        "stamp.workblock.3000": Offer("LXStamper.stamp_workblock of 3000 rounds", _build),
    }
