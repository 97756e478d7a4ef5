"""Queues between a node and the program that reads it."""

from __future__ import annotations

import asyncio

import pytest

from netmesh._inbox import Source

pytestmark = pytest.mark.asyncio


async def reading(source: Source[str]) -> asyncio.Task[str]:
    """A task that waits for the next item."""
    task = asyncio.ensure_future(source.get())
    await asyncio.sleep(0)
    return task


async def test_a_reader_cancelled_as_an_item_comes_leaves_it_to_the_next() -> None:
    source: Source[str] = Source()
    first, second = await reading(source), await reading(source)
    first.cancel()
    source._put("item")
    assert await second == "item"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_reader_woken_and_cancelled_passes_the_item_on() -> None:
    source: Source[str] = Source()
    first, second = await reading(source), await reading(source)
    source._put("item")
    first.cancel()
    assert await second == "item"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_cancelled_reader_is_forgotten() -> None:
    source: Source[str] = Source()
    first = await reading(source)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    source._put("item")
    assert source.get_nowait() == "item"
