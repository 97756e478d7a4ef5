"""Proof of work: the C core against the pure reference."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, crosswise, pure, same, sized
from netmesh.errors import CancelledError


@given(st.binary(max_size=70), st.sampled_from((0, 1, 2, 25, 129, 257)))
def test_work_blocks_agree(material: bytes, rounds: int) -> None:
    same(lambda impl: impl.Workblock(material, rounds))
    same(lambda impl: impl.Workblock(material, rounds).to_bytes())


def test_the_full_work_block_agrees() -> None:
    same(lambda impl: impl.Workblock(bytes(32)))
    same(lambda impl: impl.Workblock(bytes(32)).digest(bytes(32)))
    same(lambda impl: impl.Workblock(bytes(32), 2**20 + 1))


@given(st.binary(max_size=40), st.binary(max_size=140), st.integers(-1, 257))
def test_stamps_are_judged_alike(material: bytes, stamp: bytes, cost: int) -> None:
    same(lambda impl: impl.Workblock(material, 3).digest(stamp))
    same(lambda impl: impl.Workblock(material, 3).value(stamp))
    same(lambda impl: impl.Workblock(material, 3).valid(stamp, cost))


@given(sized(32), sized(32), st.integers(0, 9))
def test_searches_find_the_same_stamp(material: bytes, start: bytes, cost: int) -> None:
    def run(maker: Any, taker: Any) -> Any:
        found = maker.Workblock(material, 2).search(cost, start=start)
        assert taker.Workblock(material, 2).valid(found.stamp, cost)
        assert taker.Workblock(material, 2).value(found.stamp) == found.value
        return found.stamp, found.value

    crosswise(run)


def test_the_counter_wraps_alike() -> None:
    start = bytes(24) + b"\xff" * 8
    same(lambda impl: impl.Workblock(b"wrap", 1).search(8, start=start).stamp)


@pytest.mark.parametrize("impl", [core, pure])
def test_searches_end_when_told_to(impl: Any) -> None:
    block = impl.Workblock(b"never", 1)
    with pytest.raises(CancelledError) as caught:
        block.search(200, timeout_s=0.05)
    assert caught.value.reason == "TIMEOUT"
    cancel = impl.StampCancel()
    assert not cancel.cancelled
    timer = threading.Timer(0.05, cancel.cancel)
    timer.start()
    with pytest.raises(CancelledError) as caught:
        block.search(200, cancel=cancel)
    timer.join()
    assert caught.value.reason == "CANCELLED"
    assert cancel.cancelled
    reports: list[int] = []

    def progress(tries: int) -> None:
        reports.append(tries)
        if len(reports) == 2:
            raise KeyError("enough")

    with pytest.raises(KeyError):
        block.search(200, progress=progress)
    assert 0 < reports[0] < reports[1]


def test_searches_refuse_alike() -> None:
    for options in (
        {"threads": 0},
        {"threads": "1"},
        {"start": bytes(31)},
        {"backend": "abacus"},
        {"cancel": 1},
        {"progress": 1},
        {"timeout_s": "1"},
    ):
        assert same(lambda impl, o=options: impl.Workblock(b"", 1).search(1, **o))[0] == "error"
    for cost in (-1, 257, "1"):
        assert same(lambda impl, c=cost: impl.Workblock(b"", 1).search(c))[0] == "error"
