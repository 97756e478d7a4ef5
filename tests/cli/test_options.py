"""F10: no option is accepted and ignored.

The matrix names, for each option that a command's help tells of, the test that shows its
effect; tests that fit nowhere else are here.
"""

from __future__ import annotations

import ast
import concurrent.futures
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netmesh import cli, demo
from netmesh.bench import cli as bench
from netmesh.bench.suites import ALL
from netmesh.sim import __main__ as sim
from netmesh.sim import run_scenario

TESTS = Path(__file__).resolve().parents[1]
BENCH = "unit/test_bench_command.py"
SIM = "sim/test_simulation.py"
EXECUTORS = "sim/test_executors.py"
HERE = "cli/test_options.py"
SYNC = "cli/test_inbox_sync.py"
COMMAND = "cli/test_command.py"
PAPER = "cli/test_paper.py"
MAIL = "cli/test_mail_commands.py"
STORE = "cli/test_mail_store.py"
FILTERS = f"{STORE}:test_filters_let_through_what_they_say"
WAYS = f"{MAIL}:test_ways_into_the_network_are_what_was_said"

MATRIX: dict[tuple[str, ...], dict[str, str]] = {
    ("netmesh",): {"--version": f"{HERE}:test_the_version_is_told_by_option_and_by_command"},
    ("netmesh", "version"): {"--json": f"{COMMAND}:test_version_as_json"},
    ("netmesh", "demo"): {
        "--peer-python": f"{COMMAND}:test_demo_says_when_the_peer_has_no_stack",
        "--no-peer": f"{HERE}:test_the_demo_leaves_out_what_it_is_told_to",
        "--no-report": f"{HERE}:test_the_demo_leaves_out_what_it_is_told_to",
    },
    ("netmesh", "bench"): {
        "--list": f"{BENCH}:test_both_ways_to_start_it_list_rows_and_arms",
        "--quick": f"{HERE}:test_runs_are_as_many_as_asked_for",
        "--arms": f"{HERE}:test_runs_are_as_many_as_asked_for",
        "--runs": f"{HERE}:test_runs_are_as_many_as_asked_for",
        "--json": f"{HERE}:test_runs_are_as_many_as_asked_for",
        "--markdown": f"{BENCH}:test_a_kept_report_can_be_shown_again",
        "--from": f"{BENCH}:test_a_kept_report_can_be_shown_again",
        "--compare": f"{BENCH}:test_comparing_with_an_older_report_prints_the_changes",
        "--check": f"{BENCH}:test_check_fails_when_a_required_target_is_missed",
        "--tolerance": f"{HERE}:test_a_miss_within_the_tolerance_is_forgiven",
        "--quiet": f"{HERE}:test_progress_is_told_unless_it_is_quiet",
        "--upstream-python": f"{HERE}:test_an_interpreter_without_upstream_is_named",
        "--benchmarks": f"{BENCH}:test_nothing_to_measure_is_a_failure_with_the_reasons",
    },
    ("netmesh", "send"): {
        "--title": f"{MAIL}:test_a_message_is_sent_and_proven",
        "--attach": f"{MAIL}:test_a_message_is_sent_and_proven",
        "--method": f"{MAIL}:test_a_message_is_sent_and_proven",
        "--node": f"{MAIL}:test_a_propagation_node_takes_a_message",
        "--stamp-cost": f"{MAIL}:test_a_stamp_is_made_as_told",
        "--timeout": f"{MAIL}:test_a_message_that_nobody_gets_ends_with_1",
        "--json": f"{MAIL}:test_a_message_is_sent_and_proven",
        "--storage": f"{MAIL}:test_a_storage_has_the_identity_and_its_own_lock",
        "--identity": WAYS,
        "--name": f"{MAIL}:test_a_message_is_sent_and_proven",
        "--no-announce": f"{MAIL}:test_a_sender_is_announced_unless_told_not_to",
        "--connect": WAYS,
        "--listen": WAYS,
        "--auto": WAYS,
    },
    ("netmesh", "inbox"): {
        "--count": f"{MAIL}:test_messages_are_shown_as_they_come",
        "--timeout": f"{MAIL}:test_an_inbox_ends_after_its_time",
        "--save": f"{MAIL}:test_messages_are_shown_as_they_come",
        "--progress": f"{SYNC}:test_what_a_node_keeps_is_fetched_once",
        "--json": f"{MAIL}:test_messages_are_shown_as_they_come",
        "--sync": f"{SYNC}:test_what_a_node_keeps_is_fetched_once",
        "--once": f"{SYNC}:test_what_a_node_keeps_is_fetched_once",
        "--every": f"{SYNC}:test_it_fetches_again_and_again",
        "--limit": f"{SYNC}:test_what_a_node_keeps_is_fetched_once",
        "--retain": f"{SYNC}:test_what_a_node_keeps_is_fetched_once",
        "--fetch-timeout": f"{SYNC}:test_a_fetch_that_fails_ends_with_1",
        "--storage": f"{MAIL}:test_a_storage_has_the_identity_and_its_own_lock",
        "--identity": WAYS,
        "--name": f"{MAIL}:test_a_message_is_sent_and_proven",
        "--no-announce": f"{MAIL}:test_a_sender_is_announced_unless_told_not_to",
        "--connect": WAYS,
        "--listen": WAYS,
        "--auto": WAYS,
    },
    ("netmesh", "mail"): {},
    ("netmesh", "mail", "list"): {
        "--storage": f"{STORE}:test_a_nodes_storage_has_the_store",
        "--file": FILTERS,
        "--mailbox": FILTERS,
        "--peer": FILTERS,
        "--direction": FILTERS,
        "--unread": FILTERS,
        "--limit": FILTERS,
        "--json": FILTERS,
    },
    ("netmesh", "mail", "conversations"): {
        "--storage": f"{STORE}:test_a_nodes_storage_has_the_store",
        "--file": f"{STORE}:test_conversations_are_told",
        "--mailbox": f"{STORE}:test_conversations_are_told",
        "--limit": f"{STORE}:test_conversations_are_told",
        "--json": f"{STORE}:test_conversations_are_told",
    },
    ("netmesh", "mail", "search"): {
        "--storage": f"{STORE}:test_a_nodes_storage_has_the_store",
        "--file": f"{STORE}:test_words_are_found",
        "--mailbox": f"{STORE}:test_words_are_found",
        "--limit": f"{STORE}:test_words_are_found",
        "--json": f"{STORE}:test_words_are_found",
    },
    ("netmesh", "mail", "export"): {
        "--storage": f"{STORE}:test_a_nodes_storage_has_the_store",
        "--file": f"{STORE}:test_what_is_exported_can_be_imported",
        "--mailbox": f"{STORE}:test_an_export_takes_what_the_filters_say",
        "--peer": f"{STORE}:test_an_export_takes_what_the_filters_say",
        "--direction": f"{STORE}:test_an_export_takes_what_the_filters_say",
        "--format": f"{STORE}:test_what_is_exported_can_be_imported",
        "--out": f"{STORE}:test_what_is_exported_can_be_imported",
    },
    ("netmesh", "mail", "import"): {
        "--storage": f"{STORE}:test_a_nodes_storage_has_the_store",
        "--file": f"{STORE}:test_what_is_exported_can_be_imported",
        "--format": f"{STORE}:test_what_is_exported_can_be_imported",
        "--unread": f"{STORE}:test_what_is_exported_can_be_imported",
        "--json": f"{STORE}:test_what_is_exported_can_be_imported",
    },
    ("netmesh", "paper"): {},
    ("netmesh", "paper", "make"): {
        "--to": f"{PAPER}:test_a_message_goes_there_and_back",
        "--identity": f"{PAPER}:make",
        "--storage": f"{PAPER}:test_a_nodes_storage_has_the_identity_and_who_it_heard_of",
        "--title": f"{PAPER}:test_a_message_goes_there_and_back",
        "--attach": f"{PAPER}:test_a_message_goes_there_and_back",
        "--qr": f"{PAPER}:test_the_code_on_the_terminal_is_that_of_the_image",
        "--dark-on-light": f"{PAPER}:test_the_code_on_the_terminal_is_that_of_the_image",
        "--png": f"{PAPER}:test_the_code_on_the_terminal_is_that_of_the_image",
        "--scale": f"{PAPER}:test_the_code_on_the_terminal_is_that_of_the_image",
        "--json": f"{PAPER}:test_json_tells_all_of_it",
    },
    ("netmesh", "paper", "read"): {
        "--identity": f"{PAPER}:test_the_published_example_is_refused_with_a_sentence",
        "--storage": f"{PAPER}:test_a_nodes_storage_has_the_identity_and_who_it_heard_of",
        "--ratchets": f"{PAPER}:test_ratchets_of_a_file_open_a_message",
        "--keep": f"{PAPER}:test_a_message_is_stored_once",
        "--sender": f"{PAPER}:test_the_sender_is_verified_by_its_key",
        "--save": f"{PAPER}:test_a_message_goes_there_and_back",
        "--json": f"{PAPER}:test_json_tells_all_of_it",
    },
    ("netmesh", "sim"): {},
    ("netmesh", "sim", "list"): {},
    ("netmesh", "sim", "run"): {
        "--set": f"{SIM}:test_the_command_line_runs_lists_and_replays",
        "--json": f"{SIM}:test_the_command_line_runs_lists_and_replays",
        "--seeds": f"{SIM}:test_the_command_line_runs_lists_and_replays",
        "--executor": f"{EXECUTORS}:test_the_command_takes_an_executor_and_sums_up",
        "--summary": f"{EXECUTORS}:test_the_command_takes_an_executor_and_sums_up",
        "--progress": f"{HERE}:test_progress_of_a_sweep_is_told_when_asked_for",
        "--no-progress": f"{HERE}:test_progress_of_a_sweep_is_told_when_asked_for",
        "--jobs": f"{HERE}:test_seeds_are_spread_over_as_many_processes_as_told",
    },
    ("netmesh", "sim", "replay"): {
        "--set": f"{SIM}:test_the_command_line_runs_lists_and_replays",
        "--json": f"{SIM}:test_the_command_line_runs_lists_and_replays",
        "--seed": f"{SIM}:test_the_command_line_runs_lists_and_replays",
        "--trace": f"{HERE}:test_a_replay_writes_its_trace",
        "--check-all": f"{HERE}:test_a_replay_checks_everything_when_told_to",
    },
}


def run(words: tuple[str, ...], *options: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", *words, *options], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("words", MATRIX, ids=" ".join)
def test_the_matrix_has_every_option(words: tuple[str, ...]) -> None:
    """What the help tells of, and nothing else."""
    told = re.findall(
        r"^ +(?:-\w, )?(--[a-z][a-z-]*)(?:, (--[a-z-]+))?",
        run(words, "--help").stdout,
        re.MULTILINE,
    )
    names = {name for pair in told for name in pair if name}
    assert names - {"--help"} == set(MATRIX[words])


def test_every_command_is_in_the_matrix() -> None:
    assert {words[1] for words in MATRIX if words[0] == "netmesh" and words[1:]} == set(
        cli.COMMANDS
    )


@pytest.mark.parametrize("words", MATRIX, ids=" ".join)
def test_an_unknown_option_ends_with_2(words: tuple[str, ...]) -> None:
    done = run(words, "--no-such-option")
    assert done.returncode == 2
    assert "usage:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "where"),
    [(option, where) for options in MATRIX.values() for option, where in options.items()],
)
def test_the_named_test_uses_the_option(option: str, where: str) -> None:
    """So that the matrix cannot name a test that has nothing to do with it."""
    file, _, name = where.partition(":")
    tree = ast.parse((TESTS / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    (found,) = (n for n in tree.body if isinstance(n, kinds) and n.name == name)
    words = {n.value for n in ast.walk(found) if isinstance(n, ast.Constant)}
    assert option in words


# ------------------------------------------------------------------- what they do


def test_the_version_is_told_by_option_and_by_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out.startswith(told.strip())


def test_the_demo_leaves_out_what_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(demo, "has_peer", lambda _python: True)
    monkeypatch.setattr(demo, "show_report", lambda: shown.append("report"))
    monkeypatch.setattr(demo, "show_agents", shown.append)
    for arguments, expected in (
        ([], ["report", sys.executable]),
        (["--no-peer"], ["report", None]),
        (["--no-report"], [sys.executable]),
        (["--no-report", "--peer-python", "/other/python"], ["/other/python"]),
    ):
        shown.clear()
        assert demo.main(arguments) == 0
        assert shown == expected


QUICK = ["--quick", "--arms", "core", "segment.desc"]


@pytest.fixture
def one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of one row, without the control that goes with every other."""
    rows = [pair for pair in ALL.rows() if pair[1].id == "segment.desc"]
    monkeypatch.setattr(bench, "select", lambda *_: rows)


@pytest.mark.usefixtures("one_row")
def test_runs_are_as_many_as_asked_for(tmp_path: Path) -> None:
    """One when it is quick, else what is said; of the arms that are named."""
    counts = []
    for more in ([], ["--runs", "2"]):
        file = tmp_path / "report.json"
        arguments = ["--quick", "--quiet", "--arms", "core", "--json", str(file), *more]
        assert bench.main([*arguments, "segment.desc"]) == 0
        report = json.loads(file.read_text())
        counts.append(report["mode"]["runs"])
        row = next(row for row in report["rows"] if row["id"] == "segment.desc")
        measured = {arm for arm, result in row["results"].items() if "p50_ns" in result}
        assert measured == {"core"}
    assert counts == [1, 2]


def test_a_miss_within_the_tolerance_is_forgiven(tmp_path: Path) -> None:
    report = json.loads((TESTS.parent / "docs" / "reports" / "latest.json").read_text())
    target = next(target for target in report["targets"] if target["reached"] is not None)
    report["targets"] = [target | {"required": True, "reached": False, "margin": 0.1}]
    file = tmp_path / "kept.json"
    file.write_text(json.dumps(report))
    kept = ["--from", str(file)]
    failures = bench.main(kept)
    assert bench.main([*kept, "--check"]) == 1
    assert bench.main([*kept, "--check", "--tolerance", "9"]) == 1
    assert bench.main([*kept, "--check", "--tolerance", "11"]) == failures


@pytest.mark.usefixtures("one_row")
def test_progress_is_told_unless_it_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main([*QUICK, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert bench.main(QUICK) == 0
    assert "row 1 of" in capsys.readouterr().err


def test_an_interpreter_without_upstream_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quick", "--quiet", "--arms", "rns-openssl", "--upstream-python", "/bin/false"]
    assert bench.main([*arguments, "packet.pack"]) == 1
    assert "rns + lxmf, OpenSSL: it ended without a reason" in capsys.readouterr().err


def test_seeds_are_spread_over_as_many_processes_as_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pools: list[int] = []

    class Pool(concurrent.futures.ThreadPoolExecutor):
        def __init__(self, workers: int) -> None:
            pools.append(workers)
            super().__init__(1)

    monkeypatch.setattr(sim, "ProcessPoolExecutor", Pool)
    for jobs in ("1", "2", "3"):
        assert sim.main(["run", "cable", "--seeds", "0:2", "--jobs", jobs]) == 0
    assert pools == [2, 3]
    assert capsys.readouterr().out.count("2 runs, 0 failed") == 3


def test_progress_of_a_sweep_is_told_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run_two = ["run", "cable", "--seeds", "0:2"]
    assert sim.main([*run_two, "--progress"]) == 0
    assert capsys.readouterr().err != ""
    assert sim.main([*run_two, "--no-progress"]) == 0
    assert capsys.readouterr().err == ""


def test_a_replay_writes_its_trace(tmp_path: Path) -> None:
    traces = [tmp_path / "one", tmp_path / "two"]
    for file in traces:
        assert sim.main(["replay", "cable", "--seed", "1", "--trace", str(file)]) == 0
    assert traces[0].read_bytes() == traces[1].read_bytes() != b""


def test_a_replay_checks_everything_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []

    def remember(*arguments: Any, **options: Any) -> Any:
        given.append(options["check_all"])
        return run_scenario(*arguments, **options)

    monkeypatch.setattr(sim, "run_scenario", remember)
    assert sim.main(["replay", "cable", "--seed", "1"]) == 0
    assert sim.main(["replay", "cable", "--seed", "1", "--check-all"]) == 0
    assert given == [False, True]
