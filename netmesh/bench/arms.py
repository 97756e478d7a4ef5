"""The arms of the comparison: which programs there are, and why one is missing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netmesh.bench.model import Kind
from netmesh.bench.process import environment

LIST_TIMEOUT_S = 60.0
RUST_PEERS = {"lxmf-rs": "LXMF-rs", "rns-rs": "rns-rs", "beechat": "Beechat"}
BUILD_RUST = "not built; 'make rust-peers' builds it"
BUILD_NATIVE = "not built; 'NATIVE=1 benchmarks/rust/build.sh' builds it"
NODELAY = "lxmf-rs-nodelay"
"""LXMF-rs with TCP_NODELAY, which it leaves off by itself: for rows between two processes."""

MIXED_PEERS = {"rns-openssl": "rns", "rns-rs": "rns-rs", NODELAY: "lxmf-rs"}
"""Stacks that netmesh is paired with, and their names in the arms of both."""

_START_WORKER = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r}); "
    "from netmesh.bench.worker import main; sys.exit(main(sys.argv[1:]))"
)
"""A worker of this same netmesh, wherever the current folder is."""

NO_CHECKOUT = (
    "the adapters of other stacks are in the folder benchmarks of the source tree: run this "
    "there, or give it with --benchmarks"
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One column of the report.

    ``command`` is the program without its mode. ``reason`` says in one sentence why the arm
    is missing; it is None exactly when the arm can be measured. ``again`` names the arm that
    this one repeats, for the A/A control.
    """

    id: str
    title: str
    kind: Kind
    command: tuple[str, ...]
    reason: str | None = None
    again: str | None = None
    listing: Mapping[str, Any] = field(default_factory=dict)
    ends: tuple[Arm, Arm] | None = None
    """Client and server, of an arm that pairs two stacks."""

    @property
    def available(self) -> bool:
        """Whether it can be measured."""
        return self.reason is None

    def notes(self) -> dict[str, str]:
        """What it says about each row that it offers."""
        return {row["id"]: row["note"] for row in self.listing.get("rows", ())}

    def kinds(self) -> dict[str, str]:
        """What it says about each kind of row between two processes that it plays."""
        if self.ends is None:
            return {kind["id"]: kind["note"] for kind in self.listing.get("kinds", ())}
        client, server = (end.kinds() for end in self.ends)
        return {kind: note for kind, note in client.items() if kind in server}


def default_benchmarks() -> Path | None:
    """The adapters' folder of the checkout that netmesh runs from, else of the current folder."""
    for folder in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (folder / "benchmarks" / "rust" / "README.md").is_file():
            return folder / "benchmarks"
    return None


def discover(
    inputs: Path, benchmarks: Path | None, upstream_python: str, wanted: set[str] | None = None
) -> list[Arm]:
    """Every arm in the order of the columns; each is asked what it offers.

    ``wanted`` limits the arms by id; arms left out are not asked and not returned.
    """
    arms = [*_own(inputs), *_upstream(inputs, benchmarks, upstream_python), *_rust(benchmarks)]
    if wanted is not None:
        arms = [arm for arm in arms if arm.id in wanted or arm.again in wanted]
    found = [_listed(arm) for arm in arms]
    return [*found, *_mixed({arm.id: arm for arm in found})]


def _mixed(found: Mapping[str, Arm]) -> list[Arm]:
    """Arms that pair netmesh with another stack, where both are there."""
    arms = []
    for peer, name in MIXED_PEERS.items():
        ours, theirs = found.get("netmesh"), found.get(peer)
        if ours is None or theirs is None or not theirs.available:
            continue
        for made, ends in (
            (f"netmesh-to-{name}", (ours, theirs)),
            (f"{name}-to-netmesh", (theirs, ours)),
        ):
            title = f"{ends[0].title} to {ends[1].title}"
            arms.append(Arm(made, title, "mixed", (), ends=ends))
    return arms


def _own(inputs: Path) -> list[Arm]:
    def command(arm: str) -> tuple[str, ...]:
        return (sys.executable, "-c", _START_WORKER, arm, str(inputs))

    native = None
    if importlib.util.find_spec("netmesh._bench") is None:
        native = "netmesh._bench is not built: this installation was made without benchmarks/native"
    return [
        Arm("core", "C core", "core", command("core"), native),
        Arm("core-again", "C core, again", "core", command("core"), native, again="core"),
        Arm("library", "linked libraries", "library", command("library"), native),
        Arm("netmesh", "netmesh from Python", "python", command("netmesh")),
        Arm(
            "netmesh-again",
            "netmesh from Python, again",
            "python",
            command("netmesh"),
            again="netmesh",
        ),
        Arm("pure", "pure reference", "python", command("pure")),
    ]


def _upstream(inputs: Path, benchmarks: Path | None, python: str) -> list[Arm]:
    arms = []
    for provider, title in (
        ("openssl", "rns + lxmf, OpenSSL"),
        ("internal", "rns + lxmf, internal provider"),
    ):
        adapter = benchmarks / "upstream" / "adapter.py" if benchmarks else Path()
        reason = None if benchmarks else NO_CHECKOUT
        command = (python, str(adapter), provider, str(inputs))
        arms.append(Arm(f"rns-{provider}", title, "upstream", command, reason))
    return arms


def _rust(benchmarks: Path | None) -> list[Arm]:
    arms = []
    for suffix, folder, title, build in (
        ("", "target", "", BUILD_RUST),
        ("-native", "target-native", ", native flags", BUILD_NATIVE),
    ):
        for peer, name in RUST_PEERS.items():
            program = (
                benchmarks / "rust" / peer / folder / "release" / "adapter" if benchmarks else None
            )
            if program is None:
                reason: str | None = NO_CHECKOUT
            else:
                reason = None if program.is_file() else build
            arms.append(Arm(f"{peer}{suffix}", f"{name}{title}", "rust", (str(program),), reason))
    plain = next(arm for arm in arms if NODELAY.startswith(arm.id))
    command = (*plain.command, "--nodelay")
    arms.append(Arm(NODELAY, "LXMF-rs, TCP_NODELAY", "rust", command, plain.reason))
    return arms


def _listed(arm: Arm) -> Arm:
    if not arm.available:
        return arm
    listing, reason = _ask_list(arm)
    return Arm(arm.id, arm.title, arm.kind, arm.command, reason, arm.again, listing)


def _ask_list(arm: Arm) -> tuple[dict[str, Any], str | None]:
    try:
        done = subprocess.run(
            [*arm.command, "--list"],
            capture_output=True,
            text=True,
            timeout=LIST_TIMEOUT_S,
            env=environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, f"could not be started: {error}"
    if done.returncode != 0:
        return {}, _explain(arm, done.stderr)
    try:
        listing = json.loads(done.stdout)
    except ValueError:
        return {}, "did not say what it offers"
    return dict(listing), None


def _explain(arm: Arm, stderr: str) -> str:
    last = stderr.strip().splitlines()[-1] if stderr.strip() else "it ended without a reason"
    if arm.kind == "upstream" and "No module named" in last:
        return f"not installed ({last.split('No module named ')[-1]}): pip install 'netmesh[peers]'"
    return last
