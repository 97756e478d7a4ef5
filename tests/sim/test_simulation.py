"""Simulations from Python: nodes, media, time, failures, replays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netmesh.engine import Engine
from netmesh.errors import NotFoundError, StateError
from netmesh.events import AnnounceSent, LinkActive, LinkClosed, PacketReceived, RequestReceived
from netmesh.identity import Ratchets
from netmesh.records import EventKind
from netmesh.sim import Simulation, SimulationError, find_scenario, run_scenario, sweep
from netmesh.sim._scenario import parse_seeds

SLOW = {"rate_bps": 9600, "delay_s": 0.02, "jitter_s": 0.01, "loss": 0.2, "duplicate": 0.1}


def busy(seed: int) -> str:
    """A run with some of everything; its digest."""
    with Simulation(seed=seed) as sim:
        air = sim.medium("air", **SLOW)
        alice = sim.node("alice", job_delay=(0.5, 50.0))
        bob = sim.node("bob", job_delay=(0.5, 50.0))
        for node in (alice, bob):
            node.connect(air)
        inbox = bob.listen(sim.identity("bob"), "test.inbox", prove="all", ratchets=True)
        while not alice.paths():
            bob.announce(inbox)
            sim.run(10)
        for _ in range(10):
            alice.send(inbox, sim.random.randbytes(50))
        sim.run(100)
    return sim.digest


def test_a_seed_defines_the_digest_in_this_process_and_in_another() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); import test_simulation as t; print(t.busy(3))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert busy(3) == busy(3) == done.stdout.strip()
    assert busy(4) != busy(3)


def test_a_node_is_an_engine_whose_time_is_the_simulations() -> None:
    with Simulation(seed=1) as sim:
        node = sim.node("n")
        assert isinstance(node, Engine)
        sim.run(2.5)
        assert node.now == (1002.5, 1_700_000_002.5)
        for call in (node.tick, lambda: node.advance(1.0), lambda: node.set_clock(5000.0)):
            with pytest.raises(StateError):
                call()
        with pytest.raises(StateError):
            sim.node("n")


def test_handlers_run_at_the_moment_of_their_event() -> None:
    with Simulation(seed=1) as sim:
        a, b = sim.node("a"), sim.node("b")
        sim.cable(a, b, delay_s=0.25)
        inbox = b.listen(sim.identity("b"), "test.echo")
        b.handle(inbox, "/echo")
        asked: list[float] = []

        def answer(event: RequestReceived) -> None:
            asked.append(sim.time_s)
            b.respond(event.token, event.data)

        b.on(RequestReceived, answer)
        b.announce(inbox)
        sim.run(1)
        link = a.open_link(inbox)
        assert isinstance(a.wait_link(link), LinkActive)
        before = sim.time_s
        end = a.wait(a.link(link).request("/echo", [1, b"two"]))
        assert end.data == [1, b"two"]
        assert asked == pytest.approx([before + 0.25])
        assert sim.time_s == pytest.approx(before + 0.5)
        with pytest.raises(StateError):
            a.wait(None)
        with pytest.raises(TimeoutError):
            a.wait(10**6, timeout_s=1)


def test_a_crash_leaves_the_store_and_a_boot_function_brings_a_node_back() -> None:
    boots: list[int] = []
    with Simulation(seed=1) as sim:

        def program(node):  # type: ignore[no-untyped-def]
            boots.append(node.totals.boots)
            node.announce(node.listen(sim.identity("b"), "test.inbox", ratchets=True))

        air = sim.medium("air")
        a, b = sim.node("a"), sim.node("b", boot=program)
        for node in (a, b):
            node.connect(air)
        sim.run(1)
        stored = b.stored
        assert {name.split("/")[0] for name in stored} == {"announced", "ratchets"}
        b.store("own/data", b"mine")
        b.crash()
        assert not b.up
        with pytest.raises(StateError):
            b.paths()
        with pytest.raises(StateError):
            b.crash()
        b.restart()
        sim.run(1)
        assert boots == [1, 2]
        assert b.stored["own/data"] == b"mine"
        name = next(name for name in stored if name.startswith("ratchets"))
        before = Ratchets.load(stored[name], sim.identity("b")).ids
        assert set(before) < set(Ratchets.load(b.stored[name], sim.identity("b")).ids)
        b.store("own/data", b"")
        assert "own/data" not in b.stored
        b.stop()
        b.close()


def test_cuts_partitions_and_changes_act_on_a_medium() -> None:
    with Simulation(seed=1) as sim:
        air = sim.medium("air")
        nodes = [sim.node(f"n{number}") for number in range(4)]
        for node in nodes:
            node.connect(air)
        air.partition(nodes[:2], nodes[2:])
        own = nodes[0].listen(sim.identity("n0"), "test.inbox")
        nodes[0].announce(own)
        sim.run(1)
        assert [len(node.paths()) for node in nodes] == [0, 1, 0, 0]
        air.heal()
        air.change(loss=1.0)
        nodes[0].announce(own)
        sim.run(1)
        assert [len(node.paths()) for node in nodes] == [0, 1, 0, 0]
        assert air.stats.fates == {"sent": 2, "delivered": 1, "cut": 2, "lost": 3}
        assert air.stats.frames == {"announce": 2}
        assert air.stats.delivery == pytest.approx(1 / 6)
        nodes[1].disconnect(air)
        assert nodes[1].interface_on(air) is None
        with pytest.raises(NotFoundError):
            nodes[1].disconnect(air)
        with pytest.raises(ValueError, match="loss must be from"):
            air.change(loss=1.5)
        with pytest.raises(TypeError, match="no option"):
            air.change(colour="red")


def test_what_is_not_watched_is_not_handed_out() -> None:
    with Simulation(seed=1) as sim:
        node = sim.node("n")
        node.connect(sim.medium("air"))
        node.watch([EventKind.ANNOUNCED])
        node.events()
        sim.run(0)
        node.events()
        node.announce(node.listen(sim.identity("n"), "test.inbox"))
        sim.run(1)
        assert [type(event) for event in node.events()] == [AnnounceSent]


def test_a_failed_expectation_says_how_to_repeat_it() -> None:
    def scenario(sim: Simulation, *, text: str = "no") -> None:
        a, b = sim.node("a"), sim.node("b")
        sim.cable(a, b)
        a.announce(a.listen(sim.identity("a"), "test.inbox"))
        sim.run(1)
        sim.expect(False, text)

    with pytest.raises(SimulationError) as caught:
        run_scenario(scenario, seed=12, options={"text": "not so"})
    error = caught.value
    assert error.seed == 12
    assert error.time_s == pytest.approx(1.0)
    assert "not so" in str(error)
    assert "python -m netmesh.sim replay --seed 12 --set" in str(error)
    assert set(error.flights) == {"a", "b"}
    assert "job VERIFY_ANNOUNCE" in error.report()
    outcome = run_scenario(scenario, seed=12, check=False)
    assert not outcome.ok
    assert outcome.error is not None
    assert "last of b:" in outcome.error


def test_an_exception_of_a_scenario_gets_the_command_as_a_note() -> None:
    def broken(sim: Simulation) -> None:
        sim.after(1, lambda: {}["missing"])
        sim.run(2)

    with pytest.raises(KeyError) as caught:
        run_scenario(broken, seed=5)
    assert any("replay --seed 5" in note for note in caught.value.__notes__)


def test_an_operation_that_never_ends_is_noticed_by_who_waits_for_quiet() -> None:
    with Simulation(seed=1) as sim:
        a, b = sim.node("a"), sim.node("b")
        medium = sim.cable(a, b)
        inbox = b.listen(sim.identity("b"), "test.inbox")
        b.announce(inbox)
        sim.run(1)
        medium.cut()
        a.send(inbox, b"x", timeout_s=100)
        assert not sim.run(until=lambda: a.stats().operations == 0, timeout_s=50)
        assert sim.run(until=lambda: a.stats().operations == 0, timeout_s=100)


def test_traces_of_one_seed_are_the_same(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    for file in files:
        run_scenario("cable", seed=2, trace=file)
    first, second = (file.read_text() for file in files)
    assert first == second
    assert "alice@alice-bob send sent" in first


def test_a_sweep_gives_the_same_on_any_executor() -> None:
    alone = [outcome.digest for outcome in sweep("cable", range(4))]
    with ThreadPoolExecutor(2) as pool:
        assert [outcome.digest for outcome in sweep("cable", range(4), executor=pool)] == alone


def test_calls_from_within_a_run_may_not_run_it_again() -> None:
    with Simulation(seed=1) as sim:
        sim.after(1, lambda: sim.run(1))
        with pytest.raises(StateError, match="runs already"):
            sim.run(2)
        with pytest.raises(ValueError, match="either"):
            sim.run()


def test_a_stopped_node_tells_its_peers() -> None:
    with Simulation(seed=1) as sim:
        a, b = sim.node("a"), sim.node("b")
        sim.cable(a, b)
        inbox = b.listen(sim.identity("b"), "test.inbox", prove="all")
        b.announce(inbox)
        sim.run(1)
        link = a.open_link(inbox)
        a.wait_link(link)
        assert a.wait(a.link(link).send(b"x").op).ok
        assert a.wait(a.send(inbox, b"y")).ok
        assert any(isinstance(event, PacketReceived) for event in b.events())
        b.stop()
        sim.run(1)
        assert isinstance(a.state_of(link), LinkClosed)


def test_seeds_are_numbers_and_ranges() -> None:
    assert parse_seeds("7") == [7]
    assert parse_seeds("0:3,9") == [0, 1, 2, 9]
    for wrong in ("", "x", "3:3", "-1"):
        with pytest.raises(ValueError, match="seed"):
            parse_seeds(wrong)


def test_unknown_scenarios_are_named() -> None:
    for wrong in ("nothing", "netmesh.sim.scenarios:nothing", "no_file.py:cable"):
        with pytest.raises(LookupError):
            find_scenario(wrong)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netmesh.sim", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
    )


def test_the_command_line_runs_lists_and_replays() -> None:
    assert "partition" in command("list").stdout
    run = command("run", "cable", "--seeds", "0:2", "--set", "loss=0.5", "--json")
    report = json.loads(run.stdout)
    assert run.returncode == 0
    assert report["runs"] == 2
    assert report["failed_seeds"] == []
    again = command("replay", "cable", "--seed", "1", "--set", "loss=0.5", "--json")
    assert json.loads(again.stdout)["outcomes"][0]["digest"] == report["outcomes"][1]["digest"]
    failed = command("run", "radio", "--set", "rate_bps=0.5")
    assert failed.returncode == 1
    assert "replay --seed 0 --set rate_bps=0.5 radio" in failed.stdout
    assert command("run", "nothing").returncode == 2
    assert command("run", "cable", "--seeds", "x").returncode == 2
    assert "examples:" in command("--help").stdout
