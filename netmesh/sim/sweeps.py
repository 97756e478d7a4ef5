"""Sweeps: what many runs of a scenario come to, as one record.

:func:`netmesh.sim.sweep` yields an :class:`netmesh.sim.Outcome` for each seed, on any executor
of ``concurrent.futures``; :func:`summarize` puts them together.

Example:
    >>> from netmesh.sim import summarize, sweep
    >>> summary = summarize(sweep("cable", range(5), options={"loss": 0.2}))
    >>> summary.runs, summary.failed_seeds
    (5, ())
    >>> 0.0 < summary.figures["proven"].median < 1.0
    True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from netmesh.sim._scenario import Outcome

__all__ = ["Spread", "SweepSummary", "summarize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over many runs."""

    least: float
    """The smallest."""
    median: float
    """The one in the middle."""
    most: float
    """The largest."""
    least_seed: int
    """A seed that gave the smallest."""
    most_seed: int
    """A seed that gave the largest: the one to look at when it is too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """What a sweep came to."""

    scenario: str
    """Its name, "" when there was no run."""
    runs: int
    """Seeds that were run."""
    failed_seeds: tuple[int, ...]
    """Those that failed."""
    commands: tuple[str, ...]
    """The commands that repeat them."""
    time_s: float
    """Virtual seconds, of all runs."""
    host_s: float
    """Seconds that they took, summed over all workers."""
    frames: int
    """Frames that reached an engine."""
    figures: Mapping[str, Spread]
    """Each number in the results of the runs that held, by its name."""


def summarize(outcomes: Iterable[Outcome]) -> SweepSummary:
    """Puts the outcomes of one scenario together.

    Numbers come from results that are dicts; results of other shapes count as runs alone.
    """
    scenario = ""
    runs = frames = 0
    time_s = host_s = 0.0
    failed: list[int] = []
    commands: list[str] = []
    numbers: dict[str, list[tuple[float, int]]] = {}
    for outcome in outcomes:
        scenario = outcome.scenario
        runs += 1
        frames += outcome.frames
        time_s += outcome.time_s
        host_s += outcome.host_s
        if not outcome.ok:
            failed.append(outcome.seed)
            commands.append(outcome.command)
        elif isinstance(outcome.result, Mapping):
            for name, value in outcome.result.items():
                if isinstance(value, int | float):
                    numbers.setdefault(str(name), []).append((float(value), outcome.seed))
    return SweepSummary(
        scenario=scenario,
        runs=runs,
        failed_seeds=tuple(failed),
        commands=tuple(commands),
        time_s=time_s,
        host_s=host_s,
        frames=frames,
        figures={name: _spread(found) for name, found in numbers.items()},
    )


def _spread(found: list[tuple[float, int]]) -> Spread:
    least, most = min(found), max(found)
    return Spread(
        least=least[0],
        median=median(value for value, _ in found),
        most=most[0],
        least_seed=least[1],
        most_seed=most[1],
    )
