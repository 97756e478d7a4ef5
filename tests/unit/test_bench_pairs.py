"""Rows between two processes: every one runs and is checked; peers that misbehave are told of."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netmesh.bench import arms as bench_arms
from netmesh.bench import pairs
from netmesh.bench.arms import Arm, discover
from netmesh.bench.kit.nodes import NO_PAYLOAD, Samples, Tally
from netmesh.bench.measure import QUICK, Cell
from netmesh.bench.model import Pair, Row, Suite
from netmesh.bench.pairs import PairSession, pair_arms
from netmesh.bench.suites import ALL

PAIR_ROWS = [(suite, row) for suite, row in ALL.rows() if row.pair is not None]

MUCH = 3 << 20

# A server and a client that only follow the protocol; the first argument says what goes wrong.
PEER = """\
import hashlib, json, sys, time

class Peer:
    def __init__(self, fault):
        self.fault, self.taken, self.arrived = fault, 0, []

    def payload(self, number):
        size, items = self.about["size"], self.about["items"]
        with open(self.about["file"], "rb") as file:
            return file.read()[number % items * size:][:size]

    def check(self, payloads):
        value = 0
        for payload in payloads:
            value ^= int.from_bytes(hashlib.sha256(payload).digest(), "big")
        return f"{value:064x}"

    def answer(self, request):
        op = request["op"]
        if op == "prepare":
            self.about = request
            return {"destination": "00" * 16, "key": "00" * 64, "source": "11" * 16}
        if op == "usage":
            return {"cpu_ns": time.process_time_ns(), "rss": 1000, "peak": 2000}
        if op == "collect":
            count = request["expect"]
            sent = [self.payload(self.taken + each) for each in range(count)]
            self.taken += count
            if self.fault == "loses" and count:
                sent = sent[1:]
            return {"stamps": [5000] * count, "count": count, "check": self.check(sent)}
        if op != "run":
            return {}
        if self.fault == "dies":
            print("all is lost", file=sys.stderr)
            sys.exit(3)
        count = request["count"]
        sent = [self.payload(self.taken + each) for each in range(count)]
        self.taken += count
        samples, failed = [1000] * count, 0
        if self.fault == "stalls" and count > 1:
            samples[-1] = 60_000_000
        if self.fault == "fails" and count > 1:
            samples, failed = samples[1:], 1
        if self.fault == "lies":
            sent[0] = b"another one"
        return {"samples": samples, "starts": [2000] * len(samples), "failed": failed,
                "error": "TimeoutError: late" if failed else None, "check": self.check(sent)}

peer = Peer(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
    print("a line of the stack under test")
    print("@netmesh " + json.dumps({"ok": True, **peer.answer(request)}), flush=True)
    if request["op"] == "quit":
        break
"""

FAKE = Row(
    id="fake",
    title="fake",
    operation="nothing",
    payload=8,
    pair=Pair("packet", samples=(5, 4), blocks=(2, 2), warm=1, items=3, peers=True),
)
SUITE = Suite("fake", "Fake", "", (FAKE,), lambda _api: {})


@pytest.fixture
def fake(tmp_path: Path) -> Any:
    """A function that measures the fake row with a peer that has a fault."""
    program = tmp_path / "peer.py"
    program.write_text(textwrap.dedent(PEER))

    def run(fault: str) -> Cell:
        listing = {"kinds": [{"id": "packet", "note": "fake"}]}
        command = (sys.executable, str(program), fault)
        arm = Arm("rns-rs", "fake", "rust", command, listing=listing)
        session = PairSession([(SUITE, FAKE)], [arm], QUICK, tmp_path, progress=lambda _text: None)
        return session.measure()["fake", "rns-rs"]

    return run


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> list[Arm]:
    """netmesh's own arms."""
    folder = tmp_path_factory.mktemp("inputs")
    return discover(folder, None, sys.executable, {"core", "netmesh"})


def smaller(row: Row) -> Row:
    """The same row with less data, where it has much."""
    assert row.pair is not None
    pair = replace(row.pair, bulk=min(row.pair.bulk, MUCH))
    return replace(row, payload=row.payload and min(row.payload, MUCH), pair=pair)


@pytest.mark.parametrize("name", [row.id for _, row in PAIR_ROWS])
def test_every_row_runs_and_its_outputs_are_right(
    name: str, own: list[Arm], tmp_path: Path
) -> None:
    rows = [(suite, smaller(row)) for suite, row in PAIR_ROWS if row.id == name]
    cells = PairSession(rows, own, QUICK, tmp_path, progress=lambda _text: None).measure()
    assert cells
    for cell in cells.values():
        assert cell.error is None
        assert cell.pair is not None
        assert cell.pair.failed == 0
        assert cell.histogram.count > 0
        assert cell.pair.client_cpu_ns > 0
        assert cell.pair.server_cpu_ns > 0


def test_a_well_behaved_pair_gives_all_figures(fake: Any) -> None:
    cell = fake("none")
    assert cell.error is None
    assert cell.run_blocks == [[(1, 1000), (1, 1000)]]
    assert (cell.calls, cell.checks) == (8, 2)
    assert cell.pair.client_growth == [1000.0]
    assert cell.pair.arrivals.count == 8
    assert (cell.pair.failed, cell.pair.stalls) == (0, 0)


def test_a_payload_that_does_not_arrive_is_a_wrong_output(fake: Any) -> None:
    assert "wrong output: the payloads that arrived" in fake("loses").error


def test_a_client_that_saw_something_else_is_a_wrong_output(fake: Any) -> None:
    assert "wrong output: what the client saw" in fake("lies").error


def test_failed_samples_are_counted_with_their_first_error(fake: Any) -> None:
    cell = fake("fails")
    assert cell.error is None
    assert (cell.pair.failed, cell.calls) == (2, 6)
    assert cell.pair.first_error == "TimeoutError: late"


def test_a_sample_that_stood_still_is_a_stall_and_not_the_median(fake: Any) -> None:
    cell = fake("stalls")
    assert cell.pair.stalls == 2
    assert cell.run_blocks == [[(1, 1000), (1, 1000)]]


def test_a_process_that_dies_is_the_error_of_its_cell(fake: Any) -> None:
    assert fake("dies").error == "a process ended with exit code 3: all is lost"


def test_a_program_that_is_not_there_is_the_error_of_its_cell(tmp_path: Path) -> None:
    listing = {"kinds": [{"id": "packet", "note": "fake"}]}
    arm = Arm("rns-rs", "fake", "rust", (str(tmp_path / "nothing"),), listing=listing)
    session = PairSession([(SUITE, FAKE)], [arm], QUICK, tmp_path, progress=lambda _text: None)
    error = session.measure()["fake", "rns-rs"].error
    assert error is not None
    assert error.startswith("a process could not be started")


def test_arms_of_two_stacks_are_measured_where_a_row_wants_them() -> None:
    both = {"kinds": [{"id": "packet", "note": "p"}, {"id": "link", "note": "l"}]}
    arms = [
        Arm("netmesh", "netmesh", "python", (), listing=both),
        Arm("netmesh-again", "netmesh", "python", (), again="netmesh", listing=both),
        Arm("rns-rs", "rns-rs", "rust", (), listing={"kinds": both["kinds"][:1]}),
        Arm("rns-openssl", "rns", "upstream", (), reason="not installed"),
    ]
    arms += bench_arms._mixed({arm.id: arm for arm in arms})
    found = [arm.id for _, arm in pair_arms([(SUITE, FAKE)], arms)]
    assert found == ["netmesh", "rns-rs", "netmesh-to-rns-rs", "rns-rs-to-netmesh"]
    alone = Row(id="alone", title="", operation="", pair=Pair("link"))
    assert [arm.id for _, arm in pair_arms([(SUITE, alone)], arms)] == ["netmesh"]
    absent = Row(
        id="absent", title="", operation="", pair=Pair("link"), absent={"netmesh": "too slow"}
    )
    assert not list(pair_arms([(SUITE, absent)], arms))
    control = Row(id=pairs.CONTROL_ROW, title="", operation="", pair=Pair("packet"))
    repeated = [arm.id for _, arm in pair_arms([(SUITE, control)], arms)]
    assert repeated == ["netmesh", "netmesh-again"]


def test_checks_do_not_depend_on_the_order_but_on_every_payload() -> None:
    one, two = b"one", b"two"
    assert Tally().add_all([one, two]).check == Tally().add_all([two, one]).check
    assert Tally().add_all([one]).check != Tally().add_all([two]).check
    assert Tally().check == NO_PAYLOAD
    made = Samples()
    made.add(100, 350, 90)
    made.fail(ValueError("late"))
    made.fail("again")
    assert made.answer() == {
        "samples": [250],
        "starts": [100],
        "inner": [90],
        "failed": 2,
        "error": "ValueError: late",
        "check": NO_PAYLOAD,
    }


def test_payloads_are_the_same_in_every_run_and_text_compresses() -> None:
    assert pairs.random_bytes("a", 64) == pairs.random_bytes("a", 64)
    assert pairs.random_bytes("a", 64) != pairs.random_bytes("b", 64)
    text = pairs.text_bytes("a", 3 << 20)
    assert len(text) == 3 << 20
    assert len(set(text)) < 40
