"""How a sweep of the simulator shares its seeds among the scenarios.

``NETMESH_SIM_SEEDS`` asks for a sweep of so many. Each scenario gets all of them, but those that
cost a third of a second a seed and more get a share, and no fewer than without a sweep.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

__all__ = ["ASKED", "CHANNELS", "NETWORKS", "SCENARIOS", "blocks", "granted"]

ASKED = int(os.environ.get("NETMESH_SIM_SEEDS", "") or 0)
"""Seeds of the sweep; 0: none was asked for."""
SHARES = {"inbound": 0.2}
"""What part of them a costly scenario gets."""
BLOCK = 50
"""Seeds of one test, so that several processes share a long sweep evenly."""

# Seeds without a sweep: fewer of what takes long.
NETWORKS = {
    "topologies": 40,
    "mixed_networks": 40,
    "lossy_networks": 30,
    "restarts": 40,
    "partitions": 30,
    "roaming_networks": 30,
    "searches": 30,
    "storm": 10,
    "bursts": 10,
    "inbound": 5,
}
SCENARIOS = {
    "scenarios.py:announces": 100,
    "scenarios.py:path_storm": 10,
    "scenarios.py:links": 60,
    "scenarios.py:requests": 200,
    "scenarios.py:resources": 200,
    "scenarios.py:cancels": 150,
    "scenarios.py:credit": 60,
    "scenarios.py:slow_channel": 100,
    "durability.py:promises": 30,
    "chaos.py:chaos": 100,
}
CHANNELS = {"messages_and_streams": 120, "slow_reader": 40}


def granted(defaults: Mapping[str, int]) -> dict[str, int]:
    """How many seeds each of these scenarios gets."""
    if not ASKED:
        return dict(defaults)
    return {
        name: max(int(ASKED * SHARES.get(name, 1)), min(default, ASKED))
        for name, default in defaults.items()
    }


def blocks(defaults: Mapping[str, int]) -> list[Any]:
    """Name and seeds of each test of these scenarios."""
    return [
        pytest.param(name, range(first, min(first + BLOCK, count)), id=f"{name}-{first}")
        for name, count in granted(defaults).items()
        for first in range(0, count, BLOCK)
    ]
