"""A sweep ends with how many seeds each scenario had."""

from __future__ import annotations

import pytest

from sim.shares import ASKED, CHANNELS, NETWORKS, SCENARIOS, granted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ASKED:
        return
    seeds = granted(NETWORKS) | granted(SCENARIOS) | granted(CHANNELS)
    terminalreporter.section(f"seeds of {len(seeds)} scenarios, {sum(seeds.values())} runs")
    for name, count in seeds.items():
        terminalreporter.line(f"{count:6d}  {name}")
