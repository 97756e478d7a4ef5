"""Fixtures of the tests against live upstream processes."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from interop.upstream import OLD, RELEASES, TOPOLOGIES, interpreter


@pytest.fixture(params=RELEASES)
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter of each release; skips the test when there is none."""
    found = interpreter(request.param)
    if found is None:
        pytest.skip(f"{OLD} names no interpreter; run 'scripts/bootstrap old-peer'")
    return found


@pytest.fixture(params=TOPOLOGIES)
def topology(request: pytest.FixtureRequest) -> str:
    """What is between the node and the peer."""
    kind: str = request.param
    return kind


@pytest.fixture
def apps() -> str:
    """The interpreter that has the applications made on upstream; skips without them."""
    for name in ("lxmfy", "nomadnet"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed; run 'scripts/bootstrap test'")
    return sys.executable
