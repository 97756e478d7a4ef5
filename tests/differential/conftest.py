"""Settings of the differential tests.

NETMESH_DIFFERENTIAL=thorough runs twenty times as many examples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "differential",
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("differential"), max_examples=800)
PROFILE = "thorough" if os.environ.get("NETMESH_DIFFERENTIAL") == "thorough" else "differential"


def pytest_configure() -> None:
    settings.load_profile(PROFILE)


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Makes the upstream stack usable in this process without starting an instance of it."""
    import RNS

    folder = tmp_path_factory.mktemp("upstream")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RNS, "loglevel", RNS.LOG_NONE)
        owner = SimpleNamespace(is_connected_to_shared_instance=False)
        patch.setattr(RNS.Transport, "owner", owner, raising=False)
        for name in ("storagepath", "resourcepath", "configdir", "cachepath"):
            patch.setattr(RNS.Reticulum, name, str(folder), raising=False)
        patch.setattr(RNS.Identity, "known_destinations", {})
        patch.setattr(RNS.Identity, "known_ratchets", {})
        yield
