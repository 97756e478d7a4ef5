"""The netmesh command: what it prints and with which status it ends."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from netmesh import _core, cli
from netmesh._version import __version__


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "netmesh", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_version_as_json() -> None:
    done = run("version", "--json")
    assert done.returncode == 0
    record = json.loads(done.stdout)
    assert record["netmesh"] == __version__
    assert record["libraries"] == _core.library_versions()
    assert set(record["libraries"]) >= {"libsodium", "libcrypto", "bzip2"}
    assert record["cpu_features"] == list(_core.cpu_features())


def test_version_as_text() -> None:
    done = run("version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"netmesh {__version__}, Python 3.")
    for name, number in _core.library_versions().items():
        assert f"  {name} {number}\n" in done.stdout


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    for name in cli.COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_each_command_has_help(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: netmesh {name}")


@pytest.mark.parametrize(
    "arguments", [(), ("no-such-command",), ("version", "--no-such-option"), ("demo", "stray")]
)
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage: netmesh" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "version", interrupted)
    assert cli.main(["version"]) == 130


def test_demo_shows_every_part() -> None:
    done = run("demo", "--no-peer", "--no-report")
    assert done.returncode == 0, done.stderr
    for heading in ("Identities", "Announce", "LXMF message", "Resource"):
        assert f"\n{heading}\n" in done.stdout
    assert "the sender accepts the receiver's proof" in done.stdout
    assert "rns" not in done.stdout


def test_demo_says_when_the_peer_has_no_stack() -> None:
    done = run("demo", "--no-report", "--peer-python", "/bin/false")
    assert done.returncode == 1
    assert "/bin/false lacks rns and lxmf" in done.stderr


@pytest.mark.interop
def test_demo_ends_with_agents_and_an_upstream_process() -> None:
    done = run("demo", "--no-report")
    assert done.returncode == 0, done.stderr
    members = ("Alice", "Bob", "Carol (rns)")
    assert f"{', '.join(members)} have heard of each other's mailboxes" in done.stdout
    for one, other in itertools.permutations(members, 2):
        names = [name.removesuffix(" (rns)") for name in (one, other)]
        hello = f'{one} to {other}: "Hello {names[1]}, this is {names[0]}.", delivered and verified'
        assert hello in done.stdout
        assert f'"Greetings from {names[0]}, says {names[1]}"' in done.stdout
    for one, other in zip(members, (*members[1:], members[0]), strict=True):
        [line] = [line for line in done.stdout.splitlines() if f"{one} sends {other}" in line]
        assert line.endswith("SHA-256 verified")
    assert "\r" not in done.stdout
    assert "\033" not in done.stdout


def test_demo_shows_two_agents_without_an_upstream_process() -> None:
    done = run("demo", "--no-peer", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "Alice, Bob have heard of each other" in done.stdout
    assert "Bob sends Alice 16 MiB" in done.stdout
    assert "Carol" not in done.stdout


def test_demo_draws_progress_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "netmesh", "demo", "--no-peer", "--no-report"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as terminal:
            while data := terminal.read(65536):
                seen += data
    assert process.returncode == 0, seen
    assert re.search(rb"\r {12}\[#* *\] +\d+ %\r", seen)
    assert b" %\r\033[K" in seen
