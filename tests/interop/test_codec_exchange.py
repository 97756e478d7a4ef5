"""An announce and a message in each direction with a live upstream process, codecs alone.

Runs against the release that is installed here and, when NETMESH_OLD_PEER_PYTHON names an
interpreter that has them, against rns 1.3.9 and lxmf 1.0.1 (scripts/bootstrap old-peer).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from netmesh import Verdict
from netmesh._demo_exchange import Exchanged, ExchangeError, UpstreamPeer, exchange

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

OLD = "NETMESH_OLD_PEER_PYTHON"
EXPECTED_OLD = ("1.3.9", "1.0.1")


def old_peer() -> str:
    """The interpreter of the older release; skips the test when there is none."""
    python = os.environ.get(OLD, "")
    if not Path(python).is_file():
        pytest.skip(f"{OLD} names no interpreter ('{python}'); run 'scripts/bootstrap old-peer'")
    return python


def run(python: str, capsys: pytest.CaptureFixture[str]) -> Exchanged:
    """Runs the exchange and prints the peer's versions whatever pytest captures."""
    steps: list[str] = []
    seen = exchange(python, lambda text, _seconds: steps.append(text))
    with capsys.disabled():
        print(f" [rns {seen.rns}, lxmf {seen.lxmf}]", end="", flush=True)
    assert len(steps) == 7
    return seen


def check(seen: Exchanged) -> None:
    """Both sides must have seen what the other one sent."""
    assert seen.announce_verdict is Verdict.VALID
    assert seen.announce_name == "upstream peer"
    assert seen.peer_heard_name == "netmesh demo"
    assert seen.peer_received["content"] == seen.sent.content_text == "Hello from netmesh"
    assert seen.peer_received["title"] == "Greetings"
    assert seen.peer_received["signature_valid"] is True
    assert seen.peer_received["hash"] == seen.sent.id.hex()
    assert seen.peer_received["source"] == seen.sent.source_hash.hex()
    assert seen.proof_valid
    assert seen.received.content_text == "Hello from upstream"
    assert seen.received.title_text == "Re: Greetings"
    assert seen.received_valid
    assert seen.received_ratchet is not None
    assert seen.peer_delivered


def test_exchange_with_the_current_release(capsys: pytest.CaptureFixture[str]) -> None:
    check(run(sys.executable, capsys))


def test_exchange_with_an_older_release(capsys: pytest.CaptureFixture[str]) -> None:
    seen = run(old_peer(), capsys)
    assert (seen.rns, seen.lxmf) == EXPECTED_OLD
    check(seen)


def test_a_peer_that_cannot_start_is_reported(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no such stack' >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(ExchangeError, match="ended; its last words: no such stack"):
        UpstreamPeer(str(python)).__enter__()


def test_a_silent_peer_is_given_up(tmp_path: Path) -> None:
    with UpstreamPeer() as peer, pytest.raises(ExchangeError, match="no 'announce' within"):
        peer.wait("announce", timeout_s=0.2)
