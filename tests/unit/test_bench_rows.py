"""Every row of every own arm gives the outputs that were computed apart from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netmesh import _bench, crypto
from netmesh.bench.kit import fixtures
from netmesh.bench.measure import expected
from netmesh.bench.model import Api
from netmesh.bench.suites import ALL, announces, bulk, lxmf, stamps

ROWS = {row.id: row for _, row in ALL.rows()}
NATIVE = [(arm, row) for arm in ("core", "library") for row, _ in _bench.rows(arm)]
PYTHON = [name for suite in ALL for name in suite.offers(Api("netmesh", ""))]
MAIL = [name for name in PYTHON if name in {row.id for row in lxmf.SUITE.rows}]
SLOW_IN_PYTHON = ("announce.validate.batch64", "announce.validate.batch64.repeat")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder with the announces that the Python arms validate."""
    folder = tmp_path_factory.mktemp("bench")
    announces.make_file(folder)
    return str(folder)


def test_row_ids_are_unique_and_every_row_belongs_to_an_arm() -> None:
    names = [row.id for _, row in ALL.rows()]
    assert len(set(names)) == len(names)
    offered = {row for _, row in NATIVE} | set(PYTHON) | {"stamp.search.32"}
    backends = {f"stamp.search.{name}" for name in stamps.BACKENDS}  # as the CPU has them
    apart = {row.id for _, row in ALL.rows() if row.pair is not None}  # test_bench_pairs.py
    assert set(names) - backends - apart <= offered
    assert offered <= set(names) - apart


@pytest.mark.parametrize(("arm", "name"), NATIVE, ids=[f"{arm}-{row}" for arm, row in NATIVE])
def test_native_rows_do_what_they_say(arm: Any, name: str) -> None:
    prepared = _bench.prepare(arm, name)
    for _ in range(3):
        calls, ns, _cpu, fixture, check = prepared.block(1000)
        assert calls > 0
        assert ns > 0
        assert check == expected(ROWS[name], arm, fixture)
    pairs, maximum, calls_each, _clock = prepared.singles(2)
    assert sum(count for _, count in pairs) == 2
    assert maximum <= pairs[-1][0] <= maximum * 1.01 + 1
    assert calls_each >= 1


@pytest.mark.parametrize("package", ["netmesh", "netmesh.pure"])
@pytest.mark.parametrize("name", [name for name in PYTHON if name not in MAIL])
def test_python_rows_do_what_they_say(package: str, name: str, inputs: str) -> None:
    if package == "netmesh.pure" and name in SLOW_IN_PYTHON:
        pytest.skip("seconds in Python; tested by its smaller rows")
    [suite] = [suite for suite in ALL if name in suite.offers(Api(package, inputs))]
    runner = suite.offers(Api(package, inputs))[name].prepare()
    for _ in range(2):
        block = runner.block(1000)
        assert block["check"] == expected(ROWS[name], "python", block["fixture"])
    assert sum(count for _, count in runner.singles(1)["hist"]) == 1


@pytest.mark.parametrize("name", MAIL)
def test_mail_rows_do_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lxmf, "MESSAGES", 3000)
    lxmf.make_file(tmp_path)
    runner = lxmf.SUITE.offers(Api("netmesh", str(tmp_path)))[name].prepare()
    for _ in range(2):
        block = runner.block(1000)
        evidence = ROWS[name].evidence
        assert evidence is not None
        assert block["check"] == fixtures.fingerprint(evidence("python", block["fixture"]))
    assert sum(count for _, count in runner.singles(1)["hist"]) == 1


def test_inputs_are_those_of_the_other_languages() -> None:
    assert fixtures.fnv(b"") == 0xCBF29CE484222325
    assert fixtures.fnv(b"a") == 0xAF63DC4C8601EC8C
    # splitmix64 from the state 0: its published first output is e220a8397b1dcdaf.
    state = fixtures.fnv(b"label")
    assert fixtures.stream("label", state, 8) == bytes.fromhex("afcd1d7b39a820e2")
    assert fixtures.stream("a", 1, 20) == fixtures.stream("a", 1, 32)[:20]
    sizes = [len(fixtures.message(0, size).wire) for size in fixtures.MESSAGE_SIZES.values()]
    assert sizes == [143, 2177, 16516]
    assert [len(fixtures.packet(0, header).raw) for header in (False, True)] == [147, 163]


def test_rows_that_no_rust_stack_plays_say_why() -> None:
    rows = {row.id: row for row in bulk.SUITE.rows}
    for name in ("packets.meanwhile", "channel.messages", "buffer.stream"):
        assert {"lxmf-rs", "rns-rs", "beechat"} <= rows[name].absent.keys()


def test_stamp_rows_exist_for_every_backend() -> None:
    assert set(crypto.sha256_backends()) <= set(stamps.BACKENDS)


def test_unknown_rows_and_bad_amounts_are_refused() -> None:
    with pytest.raises(LookupError, match="no row"):
        _bench.prepare("core", "no.such.row")
    with pytest.raises(LookupError, match="no arm"):
        _bench.rows("no.such.arm")
    prepared = _bench.prepare("core", "control.empty")
    with pytest.raises(ValueError, match="above 0"):
        prepared.block(0)
    with pytest.raises(ValueError, match="above 0"):
        prepared.singles(0)
    with pytest.raises(OverflowError):
        prepared.block(-1)


@pytest.mark.interop
@pytest.mark.parametrize("provider", ["openssl", "internal"])
def test_the_upstream_adapter_does_every_row(provider: str, inputs: str) -> None:
    import sys

    from netmesh.bench.arms import Arm, default_benchmarks, discover
    from netmesh.bench.process import Process

    benchmarks = default_benchmarks()
    assert benchmarks is not None
    arm: Arm
    [arm] = discover(Path(inputs), benchmarks, sys.executable, {f"rns-{provider}"})
    assert arm.reason is None
    names = [name for name in arm.notes() if name not in SLOW_IN_PYTHON or provider == "openssl"]
    assert set(names) <= set(ROWS)
    with Process(arm.command) as worker:
        for name in names:
            worker.ask(120, op="prepare", row=name)
            answer = worker.ask(60, op="block", row=name, ns=1000)
            wanted = expected(ROWS[name], "upstream", answer["fixture"])
            assert wanted in (None, answer["check"]), name
