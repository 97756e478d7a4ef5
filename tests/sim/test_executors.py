"""A sweep on executors that other programs bring: what a cluster offers is one of them."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import pytest

from netmesh.sim import Outcome, run_scenario, sweep
from netmesh.sim.__main__ import main

SCENARIO = f"{Path(__file__).resolve().parent / 'network_scenarios.py'}:topologies"
OPTIONS = {"size": 6}
SEEDS = range(6)


def digests(executor: Executor | None) -> list[str]:
    """What a sweep comes to; each run must hold."""
    outcomes = list(sweep(SCENARIO, SEEDS, executor=executor, options=OPTIONS))
    assert [outcome.error for outcome in outcomes if not outcome.ok] == []
    assert [outcome.seed for outcome in outcomes] == list(SEEDS)
    return [outcome.digest for outcome in outcomes]


def test_an_outcome_is_plain_data() -> None:
    outcome = run_scenario(SCENARIO, seed=1, options=OPTIONS)
    again = pickle.loads(pickle.dumps(outcome))
    assert isinstance(again, Outcome)
    assert again == outcome
    assert asdict(again) == asdict(outcome)


def test_a_dask_cluster_carries_a_sweep() -> None:
    """``Client.get_executor`` is an executor like any other: the digests are the same."""
    distributed = pytest.importorskip(
        "distributed", reason="distributed is not installed: no Dask cluster to show it with"
    )
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            dashboard_address=None,
            protocol="inproc",
        ) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as executor,
    ):
        assert digests(executor) == digests(None)


def test_processes_carry_a_sweep() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        assert digests(executor) == digests(None)


def threads() -> Executor:
    """What ``netmesh sim run --executor`` is told to call."""
    return ThreadPoolExecutor(2)


def test_the_command_takes_an_executor_and_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", SCENARIO, "--seeds", "0:3", "--set", "size=5", "--summary"]
    assert main([*words, "--executor", f"{__file__}:threads", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["runs"] == report["summary"]["runs"] == 3
    assert report["summary"]["figures"]["coverage"]["least"] == 1.0
    assert main([*words, "--progress"]) == 0
    said = capsys.readouterr()
    assert "3 runs, 0 failed" in said.out
    assert "3 of 3 seeds, 0 failed" in said.err
    assert main([*words, "--executor", f"{__file__}:nothing"]) == 2
