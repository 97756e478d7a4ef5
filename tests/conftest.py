"""What all tests share: the two implementations, and the versions of the live peers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from netmesh import Engine, _core, pure
from netmesh.sim._simulation import flight_text


def _names(module: ModuleType) -> dict[str, Any]:
    """All public names of a module and of the modules it shows."""
    found: dict[str, Any] = {}
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            found |= _names(value)
        else:
            found[name] = value
    return found


IMPLEMENTATIONS = {"core": _core, "pure": SimpleNamespace(**_names(pure))}


@pytest.fixture(params=IMPLEMENTATIONS)
def impl(request: pytest.FixtureRequest) -> Any:
    """The C core or the pure reference, with all names in one place: tests run with both."""
    return IMPLEMENTATIONS[request.param]


LIVE_RERUNS = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test with live peers or kernel devices may fail for a race that is not ours.

    Upstream loses what comes back before it has noted its question, and threads of its own
    overtake each other; a device of the kernel may drop frames after it came up. Such a test
    runs again, which the summary shows as R; what is broken here fails each time.
    """
    for item in items:
        if item.get_closest_marker("interop") or "netns" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=LIVE_RERUNS))


FLIGHT_TAIL = 40
"""Lines of each flight recorder below a failed test."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Puts below a failed test what its engines decided last."""
    report = yield
    if report.failed and call.excinfo is not None:
        for engine in _engines_in(call.excinfo.traceback):
            lines = [flight_text(record) for record in engine.records()[-FLIGHT_TAIL:]]
            report.sections.append((f"last of {engine!r}", "\n".join(lines)))
    return report


def _engines_in(traceback: Any) -> list[Engine]:
    """The engines in the variables of a test, also those in lists and in what has some."""
    found: list[Engine] = []
    for entry in traceback:
        for value in entry.frame.f_locals.values():
            try:
                several = getattr(value, "engines", value)
            except Exception:  # what has attributes of its own may refuse this one
                continue
            for each in several if isinstance(several, list | tuple) else [several]:
                if isinstance(each, Engine) and each not in found:
                    found.append(each)
    return found


_VERSIONS = """
from importlib.metadata import PackageNotFoundError, version
def show(name):
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"
print(show("rns"), show("lxmf"), sep=", ")
"""


def _versions(python: str) -> str:
    done = subprocess.run(
        [python, "-c", _VERSIONS], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() or "unusable"


def pytest_report_header() -> str:
    """Says which releases of the upstream stack the interop tests meet."""
    old = os.environ.get("NETMESH_OLD_PEER_PYTHON", "")
    older = _versions(old) if Path(old).is_file() else "none (NETMESH_OLD_PEER_PYTHON)"
    return f"live peers: current {_versions(sys.executable)}; old {older}"
