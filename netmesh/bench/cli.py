"""The command ``netmesh bench``."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from netmesh.bench import arms as bench_arms
from netmesh.bench import compare, environment, markdown, measure, report, summary
from netmesh.bench.markdown import limit_text, value_text
from netmesh.bench.measure import FULL, QUICK, Session
from netmesh.bench.model import Row, Suite
from netmesh.bench.pairs import CONTROL_ROW as AA_PAIR
from netmesh.bench.pairs import PairSession
from netmesh.bench.suites import ALL, announces, lxmf

AA_ROW = "control.aa"

EXIT_FAILED = 1
EXIT_MISUSE = 2
EXIT_INTERRUPTED = 130

DESCRIPTION = """\
Compares netmesh with other implementations of Reticulum and LXMF on this machine: the same
operations in netmesh's C core, in netmesh from Python, in its pure reference, in rns and lxmf
with either of their crypto providers, and in the Rust stacks. All are measured in one go, block
by block in turn, and every output is checked."""

EPILOG = """\
rows:
  Name suites, rows or globs of rows; all rows without any. The A/A control is always part.
    netmesh bench packets                 one suite
    netmesh bench identity.sign           one row
    netmesh bench e2e                     two nodes in two processes
    netmesh bench 'lxmf.decode.*.21'      a glob
    netmesh bench --list                  what there is

other stacks:
  rns and lxmf are measured when they can be imported: pip install 'netmesh[peers]'.
  The Rust stacks are measured when their adapters are built: make rust-peers (in the source
  tree; read benchmarks/rust/README.md first, some have licences with conditions).
  What is missing is named in the report, with what to do about it.

how to read it:
  A time is the median for one call. Look at the A/A control before you believe a small
  difference: it compares an arm with itself. 'leads' names the fastest; names joined by = are
  equal within the noise. docs/how-to/compare.md says more, docs/reference/report.md describes
  the JSON.

exit status:
  0  measured; with --check, no target is missed by more than the tolerance
  1  a figure could not be measured or an output was wrong; with --check, a target is missed
  2  the command line was not understood
  130  interrupted
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = argparse.ArgumentParser(
        prog="netmesh bench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("rows", nargs="*", metavar="NAME", help="suites, rows or globs of rows")
    made.add_argument("--list", action="store_true", help="print the suites, rows and arms; stop")
    made.add_argument(
        "--quick", action="store_true", help="one short run, two minutes (full: half an hour)"
    )
    made.add_argument(
        "--arms", metavar="NAMES", help="only these arms, by id, separated by commas (see --list)"
    )
    made.add_argument("--runs", type=_positive, metavar="N", help="number of runs (5, quick 1)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as Markdown")
    made.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="measure nothing, take this report: for --markdown, --compare and --check",
    )
    made.add_argument(
        "--compare", type=Path, metavar="OLD.json", help="print what changed since that report"
    )
    made.add_argument("--check", action="store_true", help="fail when a required target is missed")
    made.add_argument(
        "--tolerance",
        type=_percent,
        default=0.05,
        metavar="PERCENT",
        help="what --check forgives (5); leave it for a quiet machine, raise it for others",
    )
    made.add_argument("--quiet", action="store_true", help="no progress on standard error")
    made.add_argument(
        "--upstream-python",
        default=sys.executable,
        metavar="FILE",
        help="an interpreter that has rns and lxmf (this one)",
    )
    made.add_argument(
        "--benchmarks",
        type=Path,
        default=bench_arms.default_benchmarks(),
        metavar="DIR",
        help="the folder with the adapters of other stacks (that of the source tree)",
    )
    return made


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _percent(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1000:
        raise argparse.ArgumentTypeError("must be a percentage from 0 to 1000")
    return number / 100


def select(names: Sequence[str], quick: bool = False) -> list[tuple[Suite, Row]]:
    """The rows with these names, in the report's order; ValueError for a name that has none.

    Without names all, or those of a quick run.
    """
    everything = list(ALL.rows())
    if not names:
        return [pair for pair in everything if pair[1].quick or not quick]
    wanted = set()
    for name in names:
        found = {
            row.id
            for suite, row in everything
            if suite.name == name or fnmatch.fnmatchcase(row.id, name)
        }
        if not found:
            raise ValueError(f"no suite or row is called {name!r}; --list shows all")
        wanted |= found
    chosen = [row for _, row in everything if row.id in wanted]
    wanted |= {AA_PAIR if row.pair is not None else AA_ROW for row in chosen}
    return [pair for pair in everything if pair[1].id in wanted]


class _Progress:
    """Says what is being measured: on one line of a terminal, else every five seconds."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._last = 0.0

    def __call__(self, text: str) -> None:
        if self._quiet:
            return
        now = time.monotonic()
        if self._terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif now - self._last >= 5:
            self._last = now
            print(text, file=sys.stderr, flush=True)

    def done(self) -> None:
        """Clears the line."""
        if self._terminal and not self._quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    options = parser().parse_args(list(arguments))
    try:
        rows = select(options.rows, options.quick)
        wanted = _arm_names(options.arms, options.quick)
        old = _read_report(options.compare) if options.compare is not None else None
        kept = _read_report(options.source) if options.source is not None else None
        _make_folders(options)
    except (ValueError, OSError) as error:
        print(f"netmesh bench: {error}", file=sys.stderr)
        return EXIT_MISUSE
    if kept is not None:
        return _finish(options, kept, old)
    with tempfile.TemporaryDirectory(prefix="netmesh-bench-") as folder:
        found = bench_arms.discover(
            Path(folder), options.benchmarks, options.upstream_python, wanted
        )
        if options.list:
            _print_list(rows, found)
            return 0
        if not any(arm.available for arm in found):
            for arm in found:
                print(f"netmesh bench: {arm.title}: {arm.reason}", file=sys.stderr)
            return EXIT_FAILED
        announces.make_file(Path(folder))
        if any(row.id.startswith(lxmf.STORE_ROWS) for _, row in rows):
            lxmf.make_file(Path(folder))
        try:
            made = _measure(options, rows, found, Path(folder))
        except KeyboardInterrupt:
            print("\nnetmesh bench: interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED
    return _finish(options, made, old)


def _finish(
    options: argparse.Namespace, made: Mapping[str, Any], old: Mapping[str, Any] | None
) -> int:
    """Writes and prints what was asked for; returns the exit status."""
    _write(options, made)
    print(summary.render(made))
    if old is not None:
        print(f"\nSince {options.compare}:\n{compare.render(old, made)}")
    status = EXIT_FAILED if summary.failures(made) else 0
    if options.check and not _check(made, options.tolerance):
        status = EXIT_FAILED
    return status


def _arm_names(text: str | None, quick: bool) -> set[str] | None:
    """The arms to measure, None for all.

    A quick run leaves out the Rust stacks with native flags unless they are named.
    """
    if text is None:
        named = {name for name in markdown.SHORT if not name.endswith("-native")}
        return named if quick else None
    names = {name.strip() for name in text.split(",") if name.strip()}
    unknown = names - set(markdown.SHORT)
    if unknown:
        raise ValueError(f"there is no arm {', '.join(sorted(unknown))}; --list shows all")
    return names


def _read_report(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text()
        return compare.check_format(json.loads(text), str(path))
    except json.JSONDecodeError as error:
        raise compare.ReportError(f"{path} is no JSON: {error}") from None


def _measure(
    options: argparse.Namespace,
    rows: list[tuple[Suite, Row]],
    found: list[bench_arms.Arm],
    folder: Path,
) -> dict[str, Any]:
    profile = QUICK if options.quick else FULL
    if options.runs is not None:
        profile = replace(profile, runs=options.runs)
    core = measure.choose_core()
    context: dict[str, Any] = {"created": environment.now(), "netmesh": environment.source()}
    context["environment"] = environment.describe(core)
    progress = _Progress(options.quiet)
    began = time.monotonic()
    try:
        cells = Session(rows, found, profile, core=core, progress=progress).measure()
        cells |= PairSession(rows, found, profile, folder, progress=progress).measure()
    finally:
        progress.done()
    context["environment"]["load_after"] = environment.load()
    context["seconds"] = round(time.monotonic() - began, 1)
    return report.build(cells, rows, found, profile=profile, context=context)


def _make_folders(options: argparse.Namespace) -> None:
    """Makes sure, before minutes go by, that the files can be written; OSError if not."""
    for path in (options.json, options.markdown):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
                raise PermissionError(f"{path} cannot be written")


def _write(options: argparse.Namespace, made: Mapping[str, Any]) -> None:
    for path, text in (
        (options.json, json.dumps(made, indent=1) + "\n"),
        (options.markdown, markdown.render(made)),
    ):
        if path is not None:
            path.write_text(text)


def _check(made: Mapping[str, Any], tolerance: float) -> bool:
    """Prints the targets that are missed by more than the tolerance; True for none."""
    missed = [
        target
        for target in made["targets"]
        if target["required"] and target["reached"] is False and target["margin"] > tolerance
    ]
    for target in missed:
        print(
            f"MISSED {target['row']}, {markdown.SHORT[target['arm']]}: {limit_text(target)}, "
            f"measured {value_text(target)}",
            file=sys.stderr,
        )
    return not missed


def _print_list(rows: Sequence[tuple[Suite, Row]], found: Sequence[bench_arms.Arm]) -> None:
    suite_name = None
    for suite, row in rows:
        if suite.name != suite_name:
            suite_name = suite.name
            print(f"{suite.name}: {suite.title}")
        print(f"  {row.id:<36} {row.operation}")
    print("arms:")
    for arm in found:
        if arm.again is None:
            state = f"not available: {arm.reason}" if arm.reason else "available"
            print(f"  {arm.id:<18} {arm.title}; {state}")
