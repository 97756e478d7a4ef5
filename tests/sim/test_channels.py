"""Channels and streams under loss, repetition, disorder and distance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netmesh.sim import run_scenario, sweep
from sim.shares import CHANNELS, blocks

FILE = Path(__file__).resolve().parent / "channel_scenarios.py"


def reference(name: str) -> str:
    return f"{FILE}:{name}"


@pytest.mark.parametrize(("name", "seeds"), blocks(CHANNELS))
@pytest.mark.timeout(3600)
def test_a_scenario_holds_under_many_seeds(name: str, seeds: range) -> None:
    for outcome in sweep(reference(name), seeds):
        assert outcome.ok, outcome.error


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.1, 0.2, 0.3])
def test_ten_megabytes_arrive_once_and_whole_whatever_is_lost(loss: float) -> None:
    """B18: lost, repeated and reordered messages make each byte come once, in order."""
    options = {"loss": loss, "duplicate": 0.05, "reorder": 0.1, "rtt_ms": 30.0}
    result: Any = run_scenario(reference("large_stream"), seed=1, options=options).result
    assert result["messages"] == 614


@pytest.mark.parametrize("rtt_ms", [1, 5, 20, 100, 170, 200, 400, 700, 800])
def test_a_stream_is_as_fast_as_its_window_allows(rtt_ms: float) -> None:
    """B17: within a fifth of the window per round trip, from 1 to 800 ms."""
    result: Any = run_scenario(
        reference("large_stream"), seed=2, options={"rtt_ms": float(rtt_ms)}
    ).result
    assert result["share_of_window"] >= 0.8
    assert result["repeated"] == 0


@pytest.mark.parametrize("rtt_ms", [1, 20, 100, 400, 800])
def test_messages_are_as_fast_as_their_window_allows(rtt_ms: float) -> None:
    """B17, for a channel's own messages."""
    result: Any = run_scenario(
        reference("many_messages"), seed=2, options={"rtt_ms": float(rtt_ms)}
    ).result
    assert 0.8 <= result["share_of_window"] <= 1.05
    assert result["repeated"] == 0
