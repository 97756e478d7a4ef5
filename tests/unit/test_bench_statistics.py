"""Histograms, medians, noise bands, units and the comparison of reports."""

from __future__ import annotations

import random
from typing import Any

import pytest

from netmesh.bench import compare, report, stats, units
from netmesh.bench.kit.histogram import Histogram, bin_of, upper


def test_every_bin_holds_its_upper_bound_and_not_the_next_value() -> None:
    for index in range(5000):
        assert bin_of(upper(index)) == index
        assert bin_of(upper(index) + 1) == index + 1


def test_no_bin_is_wider_than_one_percent() -> None:
    for index in range(256, 5000):
        lower = upper(index - 1) + 1
        assert (upper(index) - lower) / lower < 0.01


def test_percentiles_are_those_of_the_sorted_values_within_a_bin() -> None:
    numbers = random.Random(1)
    values = sorted(int(numbers.lognormvariate(8, 2)) + 1 for _ in range(20_000))
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    for percent in (1, 50, 95, 99, 99.9):
        exact = values[max(0, -(-len(values) * percent // 100).__int__() - 1)]
        assert exact <= histogram.percentile(percent) <= exact * 1.01
    assert histogram.percentile(100) == values[-1] == histogram.maximum


def test_merged_histograms_count_as_one() -> None:
    parts, whole = [Histogram(), Histogram()], Histogram()
    for value in range(1, 10_000, 7):
        parts[value % 2].add(value)
        whole.add(value)
    merged = Histogram()
    for part in parts:
        merged.merge(part.pairs(), part.maximum)
    assert merged.pairs() == whole.pairs()
    assert merged.count == whole.count
    assert merged.maximum == whole.maximum


def test_an_empty_histogram_has_no_percentiles() -> None:
    with pytest.raises(ValueError, match="empty"):
        Histogram().percentile(50)


def test_the_spread_is_the_median_deviation_over_the_median() -> None:
    assert stats.mad_ratio([100, 102, 98, 150, 99]) == pytest.approx(0.02)
    assert stats.mad_ratio([5]) is None
    assert stats.mad_ratio([7, 7, 7]) == 0


def test_the_median_ignores_one_disturbed_run() -> None:
    assert stats.median([10, 11, 10, 900, 10]) == 10
    with pytest.raises(ValueError, match="no values"):
        stats.median([])


def test_values_within_the_noise_do_not_differ() -> None:
    band = stats.noise_band(0.01, 0.01)
    assert band == pytest.approx(3 * 1.4826 * 0.01 * 2**0.5)
    assert not stats.differ(100, 105, band)
    assert stats.differ(100, 107, band)
    assert stats.noise_band(None, 0.0) == stats.NOISE_FLOOR


def test_two_samples_of_one_distribution_rarely_differ() -> None:
    numbers = random.Random(7)

    def run() -> list[float]:
        return [stats.median([numbers.gauss(100, 3) for _ in range(30)]) for _ in range(5)]

    found = 0
    for _ in range(300):
        a, b = run(), run()
        band = stats.noise_band(stats.mad_ratio(a), stats.mad_ratio(b))
        found += stats.differ(stats.median(a), stats.median(b), band)
    assert found <= 6


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.371, "0.37 ns"),
        (3.456, "3.46 ns"),
        (23.45, "23.4 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (12_345, "12.3 µs"),
        (7.99e6, "7.99 ms"),
        (2.5e9, "2.50 s"),
        (None, "-"),
    ],
)
def test_durations_have_three_digits_and_a_unit(ns: float | None, text: str) -> None:
    assert units.duration(ns) == text


def test_rates_sizes_and_ratios_are_readable() -> None:
    assert units.rate(12.9e6) == "12.9 M/s"
    assert units.rate(1800) == "1.80 k/s"
    assert units.size(5 << 20) == "5.0 MiB"
    assert units.size(24 << 30) == "24.0 GiB"
    assert units.size(2048) == "2 KiB"
    assert units.times(35459.3) == "35459x"
    assert units.share(0.0123) == "1.2 %"


def result(p50: float, spread: float | None = 0.01) -> dict[str, Any]:
    return {
        "note": "n",
        "p50_ns": p50,
        "spread": spread,
        "block_spread": 0.01,
    }


def one_row(**results: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": report.FORMAT,
        "version": report.VERSION,
        "environment": {"cpu": "one"},
        "rows": [{"id": "r", "results": results}],
    }


def test_comparing_tells_changes_from_noise() -> None:
    old = one_row(core=result(100), netmesh=result(100), pure=result(100))
    new = one_row(core=result(102), netmesh=result(150), pure=result(50))
    verdicts = {item["arm"]: item["verdict"] for item in compare.differences(old, new)}
    assert verdicts == {"core": "same", "netmesh": "slower", "pure": "faster"}
    text = compare.render(old, new)
    assert "slower" in text
    assert "+50.0 %" in text
    assert "2 of 3 figures differ" in text


def test_comparing_leaves_out_what_one_report_lacks() -> None:
    old = one_row(core=result(100), netmesh={"note": "n", "error": "broken"})
    new = one_row(netmesh=result(100), pure=result(1))
    assert compare.differences(old, new) == []
    assert "no figure in common" in compare.render(old, new)


def test_comparing_says_that_machines_differ() -> None:
    old, new = one_row(core=result(1)), one_row(core=result(1))
    new["environment"] = {"cpu": "two"}
    assert "different processors" in compare.render(old, new)


@pytest.mark.parametrize("content", [[], {}, {"format": "other"}, {"format": report.FORMAT}])
def test_files_of_another_format_are_refused(content: object) -> None:
    with pytest.raises(compare.ReportError):
        compare.check_format(content, "file")


def test_the_leader_is_the_fastest_and_the_runner_up_of_the_other_side() -> None:
    results = {
        "core": result(10),
        "netmesh": result(15),
        "library": result(5),
        "rns-rs": result(30),
        "lxmf-rs": result(20),
        "core-again": result(9),
    }
    found = report.leader(results)
    assert found == {"arm": "core", "tied_with": [], "runner_up": "lxmf-rs", "by": 2.0}
    results["rns-rs"] = result(4)
    found = report.leader(results)
    assert found is not None
    assert (found["arm"], found["runner_up"], found["by"]) == ("rns-rs", "core", 2.5)


def test_a_lead_within_the_noise_is_a_tie() -> None:
    found = report.leader({"core": result(100, 0.02), "rns-rs": result(104, 0.02)})
    assert found is not None
    assert found["tied_with"] == ["rns-rs"]


def test_rows_that_a_rust_stack_wins_are_named_with_the_reason() -> None:
    row = {
        "id": "identity.verify",
        "comparable": True,
        "results": {"core": result(40), "rns-rs": result(30), "rns-rs-native": result(20)},
    }
    notes = report.closing_notes([row], {"rns-rs": "rns-rs", "rns-rs-native": "rns-rs, native"})
    assert len(notes) == 2
    assert "1.33 times as fast" in notes[0]
    assert "IFMA" in notes[1]
    row["comparable"] = False
    assert report.closing_notes([row], {}) == []
