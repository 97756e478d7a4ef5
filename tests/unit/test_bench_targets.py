"""Targets as data: what they ask, and when they are reached."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest

from netmesh.bench import targets
from netmesh.bench.markdown import limit_text, value_text
from netmesh.bench.suites import ALL
from netmesh.bench.targets import TARGETS, evaluate


def row(name: str, **times: float) -> dict[str, Any]:
    return {
        "id": name,
        "comparable": True,
        "definition": "fair",
        "results": {arm.replace("_", "-"): {"p50_ns": ns} for arm, ns in times.items()},
    }


def found(name: str, measure: str, other: str | None = None, **times: float) -> dict[str, Any]:
    hits = [
        target
        for target in evaluate([row(name, **times)])
        if target["measure"] == measure and target["required"] and target["other"] == other
    ]
    assert len(hits) == 1
    return hits[0]


def test_every_target_has_a_row_and_every_pattern_matches() -> None:
    names = [row.id for _, row in ALL.rows()]
    for target in TARGETS:
        for pattern in target.rows:
            assert any(fnmatch.fnmatchcase(name, pattern) for name in names), pattern


def test_a_time_is_reached_up_to_its_limit() -> None:
    assert found("segment.desc", "time", core=100)["reached"] is True
    missed = found("segment.desc", "time", core=110)
    assert missed["reached"] is False
    assert missed["margin"] == pytest.approx(0.1)


def test_a_rate_counts_calls_a_second() -> None:
    assert found("stamp.search.sha_ni", "rate", core=1e9 / 15.1e6)["reached"] is True
    missed = found("stamp.search.sha_ni", "rate", core=1e9 / 10e6)
    assert missed["reached"] is False
    assert missed["margin"] == pytest.approx(0.5)
    assert value_text(missed) == "10.0 M/s"


def test_signing_may_cost_five_percent_more_than_the_library() -> None:
    within = found("identity.sign", "share", "library", core=104, library=100)
    assert within["reached"] is True
    beyond = found("identity.sign", "share", "library", core=106, library=100)
    assert beyond["reached"] is False
    assert limit_text(beyond) == "at most 5.0 % above linked libraries"
    assert value_text(beyond) == "+6.0 %"


def test_a_rust_stack_ahead_of_the_core_is_a_missed_target() -> None:
    behind = found("packet.pack", "times", "lxmf-rs", core=4, lxmf_rs=8, rns_rs=9)
    assert behind["reached"] is True
    ahead = found("packet.pack", "times", "rns-rs", core=4, lxmf_rs=8, rns_rs=3)
    assert ahead["reached"] is False


def test_rows_of_unequal_work_are_not_held_against_the_rust_stacks() -> None:
    unequal = row("packet.pack", core=4, lxmf_rs=3)
    unequal["comparable"] = False
    assert all(target["other"] != "lxmf-rs" for target in evaluate([unequal]))


def test_a_missing_figure_leaves_a_target_open() -> None:
    open_target = found("resource.build.16k", "times", "rns-openssl", core=5)
    assert open_target["reached"] is None
    assert open_target["value"] is None
    assert value_text(open_target) == "not measured"


def test_a_failed_arm_leaves_its_targets_open() -> None:
    broken = row("segment.desc")
    broken["results"]["core"] = {"note": "n", "error": "wrong output"}
    assert all(target["reached"] is None for target in evaluate([broken]))


def test_the_fastest_rust_stack_is_one_with_its_default_build() -> None:
    times = {"core": 1, "lxmf_rs": 5, "rns_rs_native": 2, "beechat": 4}
    assert targets.fastest_rust(row("x", **times)) == "beechat"
    assert targets.fastest_rust(row("x", core=1)) is None
