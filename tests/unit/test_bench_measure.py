"""Driving workers: interleaving, checked outputs, workers that misbehave, missing arms."""

from __future__ import annotations

import itertools
import json
import os
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from netmesh.bench import arms as bench_arms
from netmesh.bench import measure
from netmesh.bench.arms import Arm, discover
from netmesh.bench.kit.fixtures import fingerprint
from netmesh.bench.kit.harness import (
    Offer,
    Operation,
    Worker,
    WrongOutputError,
    same,
    unary,
)
from netmesh.bench.measure import Profile, Session, interleaved
from netmesh.bench.model import Kind, Row, Suite
from netmesh.bench.process import Process, RowError, WorkerError

PROFILE = Profile(
    name="quick",
    runs=2,
    blocks=4,
    block_ns=100_000,
    warm_ns=1000,
    blocks_min=2,
    budget_ns=10_000_000,
    singles=5,
    singles_budget_ns=1_000_000,
    warmup_s=0,
    memory=False,
)

WORKER = """\
import json, os, sys
log, behaviour = sys.argv[1], sys.argv[2]
if sys.argv[3] == "--list":
    rows = [{{"id": name, "note": "fake"}} for name in {rows}]
    print(json.dumps({{"peer": "fake", "versions": {{"fake": "1"}}, "rows": rows}}))
    sys.exit()
for line in sys.stdin:
    request = json.loads(line)
    with open(log, "a") as file:
        print(behaviour, request["op"], request.get("row"), file=file)
    print("a line of the stack under test")
    answer = {{"ok": True}}
    if request["op"] == "block":
        check = "{right}" if behaviour != "wrong" else "{wrong}"
        answer |= {{"calls": 10, "ns": 1000, "cpu_ns": 900, "fixture": 3, "check": check}}
        if behaviour == "refuses":
            answer = {{"ok": False, "error": "cannot"}}
        if behaviour == "dies" and request["row"] == "one":
            print("all is lost", file=sys.stderr)
            sys.exit(7)
        if behaviour == "hangs" and request["row"] == "one":
            sys.stdin.readline()
            continue
        if behaviour == "forgets":
            del answer["cpu_ns"]
        if behaviour == "babbles":
            print("@netmesh nonsense", flush=True)
            continue
    if request["op"] == "singles":
        answer |= {{"hist": [[100, 5]], "max_ns": 100, "calls_each": 1, "clock_ns": 20}}
    if request["op"] == "rss":
        answer |= {{"vmhwm": 5_000_000}}
    print("@netmesh " + json.dumps(answer), flush=True)
    if request["op"] == "quit":
        break
"""


def evidence(_kind: Kind, index: int) -> bytes:
    assert index == 3
    return b"right"


ROWS = [
    Row(id="one", title="one", operation="first", evidence=evidence),
    Row(id="two", title="two", operation="second", evidence=evidence),
]
SUITE = Suite("fake", "Fake", "", tuple(ROWS), lambda _api: {})
PAIRS = [(SUITE, row) for row in ROWS]


class Fakes:
    """Fake workers that log what they are asked."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self._program = folder / "worker.py"
        right, wrong = fingerprint(b"right"), fingerprint(b"wrong")
        text = WORKER.format(rows=["one", "two", "control.empty"], right=right, wrong=wrong)
        self._program.write_text(textwrap.dedent(text))

    def arm(self, behaviour: str, kind: Kind = "rust") -> Arm:
        command = (sys.executable, str(self._program), str(self.log), behaviour)
        listing = {"rows": [{"id": name, "note": "fake"} for name in ("one", "two")]}
        return Arm(behaviour, behaviour, kind, command, listing=listing)

    def requests(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()]


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)


def run(arms: list[Arm], profile: Profile = PROFILE) -> measure.Cells:
    session = Session(PAIRS, arms, profile, core=None, progress=lambda _text: None)
    return session.measure()


def test_every_arm_gets_its_blocks_and_another_one_begins_each_round() -> None:
    arms = [Arm(name, name, "rust", ()) for name in "abc"]
    order = [arm.id for arm in interleaved(arms, {"a": 12, "b": 12, "c": 3}, 12)]
    assert Counter(order) == {"a": 12, "b": 12, "c": 3}
    rounds = "".join(order).replace("c", "")
    assert [rounds[at : at + 2] for at in range(0, 24, 2)].count("ab") >= 4
    assert [rounds[at : at + 2] for at in range(0, 24, 2)].count("ba") >= 4
    gaps = [at for at, name in enumerate(order) if name == "c"]
    assert all(later - earlier > 5 for earlier, later in itertools.pairwise(gaps))


def test_blocks_of_the_arms_alternate_within_a_row(fakes: Fakes) -> None:
    cells = run([fakes.arm("first"), fakes.arm("second")])
    blocks = [who for who, op, row in fakes.requests() if op == "block" and row == "one"]
    measured = blocks[2 : 2 + 2 * 2 * PROFILE.blocks]  # each turn: warm up, then measure
    turns = measured[::2]
    assert set(Counter(turns).values()) == {PROFILE.blocks}
    longest = max(len(part) for part in "".join(name[0] for name in turns).split("f"))
    assert longest <= 2
    for cell in cells.values():
        assert [len(blocks) for blocks in cell.run_blocks] == [PROFILE.blocks] * PROFILE.runs
        assert cell.calls == 10 * PROFILE.blocks * PROFILE.runs
        assert cell.histogram.count == 5 * PROFILE.runs
        assert cell.error is None


def test_each_run_has_fresh_processes(fakes: Fakes) -> None:
    run([fakes.arm("first")])
    assert [op for _, op, _ in fakes.requests()].count("quit") == PROFILE.runs


def test_wrong_outputs_fail_the_row_of_that_arm_alone(fakes: Fakes) -> None:
    cells = run([fakes.arm("good"), fakes.arm("wrong")])
    assert cells["one", "good"].error is None
    for name in ("one", "two"):
        error = cells[name, "wrong"].error
        assert error is not None
        assert "wrong output for input 3" in error
        assert cells[name, "wrong"].calls == 0


def test_a_refusal_is_the_error_of_the_row(fakes: Fakes) -> None:
    cells = run([fakes.arm("refuses"), fakes.arm("good")])
    assert cells["one", "refuses"].error == "cannot"
    assert cells["one", "good"].error is None


def test_a_worker_that_dies_is_started_again_for_the_next_row(fakes: Fakes) -> None:
    cells = run([fakes.arm("dies"), fakes.arm("good")])
    assert cells["one", "dies"].error == "the worker ended with exit code 7: all is lost"
    assert cells["two", "dies"].error is None
    assert cells["one", "good"].error is None


def test_a_worker_that_hangs_is_ended(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "BLOCK_TIMEOUT_S", 0.5)
    cells = run([fakes.arm("hangs")])
    assert cells["one", "hangs"].error == "the worker did not answer in time"
    assert cells["two", "hangs"].error is None


def test_answers_that_are_no_json_are_errors(fakes: Fakes) -> None:
    cells = run([fakes.arm("babbles")])
    assert cells["one", "babbles"].error == "the worker gave an answer that is no JSON"


def test_answers_that_lack_a_figure_are_errors(fakes: Fakes) -> None:
    cells = run([fakes.arm("forgets")])
    assert cells["one", "forgets"].error == "the answer's 'cpu_ns' is None"


def test_memory_is_that_of_a_process_for_the_row_alone(fakes: Fakes) -> None:
    arm = fakes.arm("good")
    profile = Profile(**{**{f: getattr(PROFILE, f) for f in PROFILE.__slots__}, "memory": True})
    cells = run([arm], profile)
    assert cells["one", "good"].rss_bytes == cells["one", "good"].rss_empty_bytes == 5_000_000
    assert [op for _, op, _ in fakes.requests()].count("rss") == 3  # two rows and the empty one


def test_workers_share_one_processor_and_leave_it_to_themselves() -> None:
    core = measure.choose_core()
    if core is None:
        pytest.skip("one processor, or processes cannot be pinned")
    before = os.sched_getaffinity(0)
    with measure.own_core(core):
        assert core not in os.sched_getaffinity(0)
    assert os.sched_getaffinity(0) == before


def test_a_refused_request_leaves_the_worker_usable(fakes: Fakes) -> None:
    with Process(fakes.arm("refuses").command) as worker:
        with pytest.raises(RowError, match="cannot"):
            worker.ask(10, op="block", row="one", ns=1)
        assert worker.ask(10, op="rss")["vmhwm"] == 5_000_000


def test_a_program_that_ends_at_once_is_an_error() -> None:
    command = (sys.executable, "-c", "raise SystemExit('no reason at all')")
    wanted = pytest.raises(WorkerError, match="exit code 1: no reason at all")
    with Process(command) as worker, wanted:
        worker.ask(10, op="rss")


# ---------------------------------------------------------------- arms


def checkout(folder: Path) -> Path:
    """A benchmarks folder in which nothing is built."""
    for peer in bench_arms.RUST_PEERS:
        (folder / "rust" / peer).mkdir(parents=True)
    return folder


def test_rust_stacks_that_are_not_built_say_how_to_build_them(tmp_path: Path) -> None:
    wanted = {"lxmf-rs", "rns-rs", "beechat", "rns-rs-native"}
    found = discover(tmp_path, checkout(tmp_path / "benchmarks"), sys.executable, wanted)
    reasons = {arm.id: arm.reason for arm in found}
    assert set(reasons) == wanted
    assert all("make rust-peers" in str(reasons[peer]) for peer in bench_arms.RUST_PEERS)
    assert "NATIVE=1" in str(reasons["rns-rs-native"])


def test_without_the_source_tree_other_stacks_say_where_to_find_their_adapters() -> None:
    found = discover(Path(), None, sys.executable, {"rns-openssl", "lxmf-rs"})
    assert all("--benchmarks" in str(arm.reason) for arm in found)


def test_a_missing_upstream_package_says_how_to_install_it(tmp_path: Path) -> None:
    adapter = checkout(tmp_path) / "upstream" / "adapter.py"
    adapter.parent.mkdir()
    adapter.write_text("import no_such_module_rns\n")
    [arm] = discover(tmp_path, tmp_path, sys.executable, {"rns-openssl"})
    assert arm.reason is not None
    assert "pip install 'netmesh[peers]'" in arm.reason
    assert "no_such_module_rns" in arm.reason


def test_an_adapter_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    program = checkout(tmp_path) / "rust" / "rns-rs" / "target" / "release" / "adapter"
    program.parent.mkdir(parents=True)
    program.write_text("not a program")
    [arm] = discover(tmp_path, tmp_path, sys.executable, {"rns-rs"})
    assert arm.reason is not None
    assert "could not be started" in arm.reason


def test_repeating_arms_take_part_in_the_control_row_alone(tmp_path: Path) -> None:
    listing = {"rows": [{"id": name, "note": "n"} for name in ("one", "control.aa")]}
    arms = [
        Arm("core", "c", "core", (), listing=listing),
        Arm("core-again", "c", "core", (), again="core", listing=listing),
    ]
    control = Row(id="control.aa", title="", operation="")
    pairs = measure.arm_rows([*PAIRS, (SUITE, control)], arms)
    names = [(row.id, arm.id) for row, arm in pairs]
    assert names == [("one", "core"), ("control.aa", "core"), ("control.aa", "core-again")]


# ---------------------------------------------------------------- the measured side


def test_an_operation_rotates_through_its_inputs_from_block_to_block() -> None:
    seen: list[int] = []

    def call(item: int) -> int:
        seen.append(item)
        return item

    operation = Operation(range(5), unary(call), lambda index, got: bytes([index, got]))
    seen.clear()
    operation._ns_per_call = 1.0
    first = operation.block(7)
    operation._ns_per_call = 1.0
    second = operation.block(4)
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]
    assert (first["calls"], first["fixture"]) == (7, 1)
    assert second["fixture"] == 0
    assert second["check"] == fingerprint(bytes([0, 0]))


def test_a_block_lasts_about_as_long_as_asked() -> None:
    operation = Operation(range(8), unary(hash), lambda _index, _got: b"")
    operation.block(2_000_000)
    block = operation.block(20_000_000)
    assert block["calls"] > 1000
    assert 2_000_000 < block["ns"] < 500_000_000


def test_a_wrong_output_is_found_before_anything_is_measured() -> None:
    def check(index: int, got: Any) -> bytes:
        same("number", got, index + 1)
        return b""

    with pytest.raises(WrongOutputError, match="number: 0 instead of 1"):
        Operation(range(4), unary(int), check)


def test_a_worker_answers_requests_and_ends_after_misuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from netmesh.bench.kit.harness import serve

    def prepare() -> Operation:
        return Operation(range(4), unary(int), lambda index, _got: bytes([index]))

    worker = Worker("fake", {"fake": "1"}, "MIT", "none", {"row": Offer("note", prepare)})
    requests = tmp_path / "requests"
    lines = [
        {"op": "block", "row": "row", "ns": 1},
        {"op": "prepare", "row": "other"},
        {"op": "prepare", "row": "row"},
        {"op": "block", "row": "row", "ns": 1000},
        {"op": "singles", "row": "row", "count": 3},
        {"op": "rss"},
        {"op": "block", "row": "row", "ns": 0},
        {"op": "rss"},
    ]
    requests.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with requests.open() as stream:
        assert serve(worker, stream, sys.stdout) == 2
    written = capsys.readouterr().out.splitlines()
    answers = [json.loads(line.removeprefix("@netmesh ")) for line in written]
    assert [answer["ok"] for answer in answers] == [False, False, True, True, True, True, False]
    assert "not prepared" in answers[0]["error"]
    assert "no row 'other'" in answers[1]["error"]
    assert sum(count for _, count in answers[4]["hist"]) == 3
    assert answers[5]["vmhwm"] > 1_000_000
    assert worker.listing()["rows"] == [{"id": "row", "note": "note"}]
