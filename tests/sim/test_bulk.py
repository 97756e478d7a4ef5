"""Resources of several segments under loss, repetition, disorder, cancels and slow media."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from netmesh.sim import run_scenario, sweep

FILE = Path(__file__).resolve().parent / "bulk_scenarios.py"


def reference(name: str) -> str:
    return f"{FILE}:{name}"


def results(name: str, seeds: Sequence[int], **options: object) -> list[Any]:
    """What a scenario returned under each seed; each must hold."""
    outcomes = list(sweep(reference(name), seeds, options=options))
    assert [outcome.error for outcome in outcomes if not outcome.ok] == []
    return [outcome.result for outcome in outcomes]


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("kind", ["tcp", "udp"])
@pytest.mark.parametrize("faults", [{}, {"duplicate": 0.1, "reorder": 0.2}], ids=["", "disorder"])
def test_three_segments_of_noise_arrive_or_end_with_a_stated_error(
    kind: str, loss: float, faults: dict[str, float]
) -> None:
    """Up to a tenth of all packets lost they arrive; at three tenths the link itself may end."""
    got = results("split_resource", range(10), loss=loss, kind=kind, **faults)
    if loss <= 0.1:
        assert all(each["complete"] for each in got)
    # Nobody sends far more than what was lost.
    assert max(each["wire_share"] for each in got) <= (1.1 if loss == 0 else 1.8)


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_three_segments_of_text_arrive_or_end_with_a_stated_error(kind: str, loss: float) -> None:
    got = results(
        "split_resource", range(2), loss=loss, kind=kind, text=True, duplicate=0.1, reorder=0.2
    )
    if loss <= 0.1:
        assert all(each["complete"] for each in got)


@pytest.mark.parametrize("size", [1_048_574, 1_048_575, 1_048_576, 2_097_150, 2_097_151])
def test_sizes_around_a_segment_survive_loss(size: int) -> None:
    got = results("split_resource", range(4), size=size, loss=0.1, duplicate=0.1, reorder=0.2)
    assert all(each["complete"] for each in got)


@pytest.mark.slow
@pytest.mark.parametrize("size", [67_108_863, 67_108_864, 67_108_865])
def test_sizes_around_sixty_four_mebibytes_arrive(size: int) -> None:
    """What upstream compresses at most, and one byte on either side."""
    options = {"size": size, "duplicate": 0.01, "reorder": 0.01}
    result: Any = run_scenario(reference("split_resource"), seed=1, options=options).result
    assert result["complete"]


def test_a_cancel_of_a_split_resource_is_final_on_either_side() -> None:
    """CANCELLED absorbs what comes later; each end ends once and keeps nothing."""
    got = results("split_cancels", range(16))
    assert sum(each["cancelled"] for each in got) >= 20
    assert sum(each["received"] for each in got) >= 4


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.3])
def test_requests_and_responses_of_several_segments_are_answered(loss: float) -> None:
    got = results("large_answers", range(8), loss=loss)
    if loss <= 0.1:
        assert all(each["answered"] for each in got)


@pytest.mark.parametrize("pattern", ["into_one", "out_of_one", "across"])
@pytest.mark.parametrize(("loss", "most", "repeats"), [(0.0, 1.4, 1.15), (0.02, 1.9, 1.3)])
def test_two_files_share_a_slow_channel_within_twice_the_ideal(
    pattern: str, loss: float, most: float, repeats: float
) -> None:
    """B16: three nodes, half-duplex, 1.2 kbit/s, two files of 20 kB at once.

    The ideal is the airtime of 40,000 bytes, 267 s. Without loss it takes 1.2 to 1.3 times that
    (1.1 times are headers and encryption), with 2 % of loss up to 1.8 times; what is sent more
    than once is 5 to 10 % without loss, and up to 27 % with it, under six hundred seeds. When
    the repeats of a first request did not wait longer each time, it was up to 33 and 60 %, and
    of eighteen hundred runs five had a transfer that gave up, with seeds 102 and 157 among them.
    """
    got = results("two_on_a_slow_channel", [*range(30), 102, 157], pattern=pattern, loss=loss)
    assert max(each["times_ideal"] for each in got) <= most
    assert max(each["airtime"] for each in got) <= most
    assert max(each["repeated"] for each in got) <= repeats


@pytest.mark.parametrize(
    ("rate_bps", "delay_s"), [(None, 0.001), (1_000_000_000, 0.01)], ids=["any_rate", "gigabit"]
)
def test_small_messages_pass_a_file_that_flows(rate_bps: int | None, delay_s: float) -> None:
    """B8: 1,000 of them while 75 MB flow; 99 of 100 take at most twice as long as before it."""
    got = results("small_meanwhile", range(2), rate_bps=rate_bps, delay_s=delay_s)
    for each in got:
        assert (each["messages"], each["flowed"]) == (1_000, True)
        assert each["busy_p99_s"] <= 2 * each["idle_p99_s"]


@pytest.mark.parametrize("name", ["split_resource", "split_cancels", "two_on_a_slow_channel"])
def test_the_same_seed_is_the_same_run(name: str) -> None:
    """All that happens is in the digest: two runs are equal, another seed is another run."""
    options = {} if name == "split_cancels" else {"loss": 0.1}
    first, again, other = (
        run_scenario(reference(name), seed=seed, options=options) for seed in (3, 3, 4)
    )
    assert (first.digest, first.result) == (again.digest, again.result)
    assert first.digest != other.digest
