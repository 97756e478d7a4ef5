"""Every scenario under many seeds, and those that once found a defect.

``NETMESH_SIM_SEEDS`` asks for a sweep (shares.py); without it they take about a minute together.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netmesh.sim import registered, run_scenario, sweep
from sim.shares import SCENARIOS, blocks

HERE = Path(__file__).resolve().parent
REGRESSIONS = [
    (entry["scenario"], seed)
    for entry in json.loads((HERE / "seeds" / "regressions.json").read_text())
    for seed in entry["seeds"]
]


def reference(name: str) -> str:
    return str(HERE / name)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "seeds"), blocks(SCENARIOS))
def test_a_scenario_holds_under_many_seeds(name: str, seeds: range) -> None:
    for outcome in sweep(reference(name), seeds):
        assert outcome.ok, outcome.error


@pytest.mark.parametrize(("name", "seed"), REGRESSIONS)
def test_a_seed_that_found_a_defect_finds_it_no_more(name: str, seed: int) -> None:
    run_scenario(reference(name), seed=seed)


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.2, 0.3])
def test_a_resource_gets_through_loss_or_ends_with_a_reason(loss: float) -> None:
    outcomes = list(sweep(reference("scenarios.py:resources"), range(30), options={"loss": loss}))
    assert [outcome.error for outcome in outcomes if not outcome.ok] == []


@pytest.mark.parametrize("chance", [0.001, 0.01, 0.1])
def test_engines_survive_failing_allocations(chance: float) -> None:
    options = {"allocation_failure": chance, "seconds": 100.0}
    for outcome in sweep(reference("chaos.py:chaos"), range(1000, 1030), options=options):
        assert outcome.ok, outcome.error


@pytest.mark.parametrize("name", sorted(registered()))
def test_the_scenarios_of_the_package_hold(name: str) -> None:
    for outcome in sweep(name, range(10)):
        assert outcome.ok, outcome.error
