"""The simulator's command line: ``netmesh sim``, or ``python -m netmesh.sim``."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from netmesh.sim._scenario import (
    Outcome,
    find_scenario,
    parse_seeds,
    registered,
    run_scenario,
    sweep,
)
from netmesh.sim.sweeps import SweepSummary, summarize

_ABOUT = """\
Run scenarios on simulated networks.

A scenario is a Python function that takes a netmesh.sim.Simulation. The seed decides every
loss, every delay and every key in it, so that a run can be repeated byte for byte: the digest
that is printed is the same each time.
"""

_EXAMPLES = """\
examples:
  netmesh sim list
      the scenarios that come with netmesh, and their options
  netmesh sim run radio
      one run, with seed 0
  netmesh sim run cable --seeds 0:100 --jobs 4
      a hundred seeds on four processes; the exit code is 1 when one of them fails
  netmesh sim run network --set topology=grid --set nodes=100 --seeds 0:50 --summary
      whole networks: each figure of fifty of them, with the seeds to look at
  netmesh sim run network --seeds 0:100000 --summary --executor cluster.py:executor
      on workers of your own: executor() in that file gives a concurrent.futures executor, as
      Dask's Client(...).get_executor() is one
  netmesh sim run cable --set loss=0.2 --seeds 7 --json
      another loss rate; the outcome as JSON
  netmesh sim replay --seed 7 --trace run.txt cable
      the same run again, with a line for each thing that happens
  netmesh sim run tests/sim/scenarios.py:links --seeds 0:20
      a scenario of your own, in a file; package.module:name works as well

Write your own:
  def hello(sim):
      a, b = sim.node("a"), sim.node("b")
      sim.cable(a, b, delay_s=0.05, loss=0.1)
      inbox = b.listen(sim.identity("b"), "example.inbox", prove="all")
      b.announce(inbox)
      sim.run(10)
      sim.expect(a.paths(), "the announce was lost")
"""


def _option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"write NAME=VALUE, not {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _seeds(text: str) -> list[int]:
    try:
        return parse_seeds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="netmesh sim",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a scenario under one or many seeds")
    replay = commands.add_parser("replay", help="repeat one run, and stop at its error")
    commands.add_parser("list", help="the scenarios that come with netmesh")
    for command in (run, replay):
        command.add_argument(
            "scenario", metavar="SCENARIO", help="a name, package.module:name or file.py:name"
        )
        command.add_argument(
            "--set",
            dest="options",
            metavar="NAME=VALUE",
            type=_option,
            action="append",
            default=[],
            help="an option of the scenario; may be repeated",
        )
        command.add_argument("--json", action="store_true", help="print outcomes as JSON")
    run.add_argument(
        "--seeds",
        type=_seeds,
        default=[0],
        help="7, 0:100 (without 100), or several with commas; 0 when it is not given",
    )
    run.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="processes; 0: one per core. 1 when it is not given",
    )
    run.add_argument(
        "--executor",
        metavar="FUNCTION",
        help="package.module:name or file.py:name of a function that gives an executor of "
        "concurrent.futures, in place of --jobs",
    )
    run.add_argument(
        "--summary",
        action="store_true",
        help="print failures and, at the end, each figure's least, median and most",
    )
    run.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="tell on standard error how far it is; without it: when that is a terminal",
    )
    replay.add_argument("--seed", type=int, required=True, help="the seed of the run")
    replay.add_argument("--trace", metavar="FILE", help="write a line for each thing that happens")
    replay.add_argument(
        "--check-all", action="store_true", help="check every node and medium after each step"
    )
    return parser


def _list() -> int:
    for name, function in registered().items():
        text = (inspect.getdoc(function) or "").partition("\n")[0]
        print(f"{name:<12} {text}")
        for option in list(inspect.signature(function).parameters.values())[1:]:
            print(f"{'':<12}   --set {option.name}={option.default!r}")
    return 0


def _line(outcome: Outcome) -> str:
    rate = outcome.frames / outcome.host_s if outcome.host_s else 0.0
    result = "" if outcome.result is None else f"  {outcome.result}"
    return (
        f"seed {outcome.seed}: {'ok' if outcome.ok else 'FAILED'}  {outcome.time_s:.1f} s in "
        f"{outcome.host_s:.2f} s, {outcome.frames} frames ({rate:.0f}/s)  "
        f"{outcome.digest[:16]}{result}"
    )


def _json(outcomes: Sequence[Outcome], *, summary: bool = False) -> str:
    failed = [outcome.seed for outcome in outcomes if not outcome.ok]
    whole: dict[str, Any] = {"runs": len(outcomes), "failed_seeds": failed}
    if summary:
        whole["summary"] = asdict(summarize(outcomes))
    else:
        whole["outcomes"] = [asdict(outcome) for outcome in outcomes]
    return json.dumps(whole, indent=2, default=str)


def _summary_text(summary: SweepSummary) -> str:
    lines = [
        f"{summary.runs} runs, {len(summary.failed_seeds)} failed; {summary.frames} frames, "
        f"{summary.time_s:.0f} s in {summary.host_s:.1f} s"
    ]
    if summary.figures:
        lines.append(f"{'':<24}{'least':>12}{'median':>12}{'most':>12}  seeds")
    for name, spread in summary.figures.items():
        numbers = "".join(f"{value:>12.6g}" for value in (spread.least, spread.median, spread.most))
        lines.append(f"{name:<24}{numbers}  {spread.least_seed}, {spread.most_seed}")
    return "\n".join(lines + [f"repeat it: {command}" for command in summary.commands])


def _executor(arguments: argparse.Namespace, stack: ExitStack) -> Executor | None:
    """Where the seeds are run; None: here."""
    if arguments.executor is not None:
        made = find_scenario(arguments.executor)()
        if not isinstance(made, Executor):
            raise LookupError(f"{arguments.executor} gives no executor of concurrent.futures")
        return stack.enter_context(made)
    jobs = arguments.jobs or os.cpu_count() or 1
    if jobs > 1 and len(arguments.seeds) > 1:
        return stack.enter_context(ProcessPoolExecutor(jobs))
    return None


def _run(arguments: argparse.Namespace) -> int:
    outcomes: list[Outcome] = []
    failed = 0
    progress = sys.stderr.isatty() if arguments.progress is None else arguments.progress
    with ExitStack() as stack:
        executor = _executor(arguments, stack)
        for outcome in sweep(
            arguments.scenario,
            arguments.seeds,
            executor=executor,
            options=dict(arguments.options),
        ):
            outcomes.append(outcome)
            failed += not outcome.ok
            if progress:
                done = f"{len(outcomes)} of {len(arguments.seeds)} seeds, {failed} failed"
                print(done, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
            if arguments.json:
                continue
            if not arguments.summary or not outcome.ok:
                print(_line(outcome), flush=True)
            if outcome.error is not None:
                print(outcome.error, flush=True)
    if arguments.json:
        print(_json(outcomes, summary=arguments.summary))
    elif arguments.summary:
        print(_summary_text(summarize(outcomes)))
    elif len(outcomes) > 1:
        print(f"{len(outcomes)} runs, {failed} failed")
    return 1 if failed else 0


def _replay(arguments: argparse.Namespace) -> int:
    outcome = run_scenario(
        arguments.scenario,
        seed=arguments.seed,
        options=dict(arguments.options),
        trace=arguments.trace,
        check_all=arguments.check_all,
        check=False,
    )
    print(_json([outcome]) if arguments.json else _line(outcome))
    if outcome.error is not None and not arguments.json:
        print(outcome.error)
    return 0 if outcome.ok else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code: 0, 1 when a run failed, 2 for a wrong command line."""
    parsed = _parser().parse_args(arguments)
    try:
        if parsed.command == "list":
            return _list()
        return _run(parsed) if parsed.command == "run" else _replay(parsed)
    except (LookupError, ImportError) as error:
        print(f"netmesh sim: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
