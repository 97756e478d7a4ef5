"""Scenarios: functions that take a simulation, run under many seeds."""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TextIO, TypeVar

from netmesh.errors import NetmeshError
from netmesh.sim._simulation import Simulation, SimulationError

Scenario = Callable[..., object]
"""``scenario(sim, **options)``; what it returns is the outcome's ``result``."""
S = TypeVar("S", bound=Scenario)

_REGISTERED: dict[str, Scenario] = {}
_BUILT_IN = "netmesh.sim.scenarios"
# Outcomes that are asked for ahead of the one that is waited for.
_AHEAD = 64


def scenario(function: S) -> S:
    """Registers a scenario under its name, with hyphens: a decorator.

    Raises ValueError for a name that another function has.
    """
    name = function.__name__.replace("_", "-")
    known = _REGISTERED.setdefault(name, function)
    if known is not function and _place(known) != _place(function):
        raise ValueError(f"there is a scenario {name!r} already, in {known.__module__}")
    _REGISTERED[name] = function
    return function


def _place(function: Scenario) -> tuple[str, str]:
    return function.__code__.co_filename, function.__qualname__


def registered() -> Mapping[str, Scenario]:
    """All scenarios that are registered, those of netmesh included, by name."""
    importlib.import_module(_BUILT_IN)
    return dict(sorted(_REGISTERED.items()))


def find_scenario(reference: str) -> Scenario:
    """A scenario by its registered name, or as "package.module:name" or "file.py:name".

    Raises LookupError when there is none.
    """
    where, _, name = reference.rpartition(":")
    if not where:
        known = registered()
        if reference not in known:
            raise LookupError(
                f"there is no scenario {reference!r}; known are {', '.join(known)}, and "
                f"others as package.module:name or file.py:name"
            )
        return known[reference]
    module = _load(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    found = getattr(module, name.replace("-", "_"), None)
    if not callable(found):
        raise LookupError(f"there is no scenario {name!r} in {where}")
    return found  # type: ignore[no-any-return]


def _load(path: Path) -> ModuleType:
    """The module in a file, loaded once."""
    name = f"netmesh_scenarios_{path.resolve().as_posix().replace('/', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise LookupError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def reference_of(function: Scenario) -> str:
    """How a scenario is named on the command line."""
    name = function.__name__.replace("_", "-")
    if _REGISTERED.get(name) is function and function.__module__ == _BUILT_IN:
        return name
    module = sys.modules.get(function.__module__)
    if module is not None and module.__spec__ is not None and not _is_loose(module):
        return f"{function.__module__}:{function.__name__}"
    return f"{_short(Path(function.__code__.co_filename))}:{function.__name__}"


def _is_loose(module: ModuleType) -> bool:
    """Whether a module cannot be imported by its name."""
    try:
        return importlib.util.find_spec(module.__name__) is None
    except (ImportError, ValueError):
        return True
    finally:
        importlib.invalidate_caches()


def _short(path: Path) -> Path:
    """A path as seen from the current folder, when it is below it."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path


def replay_command(reference: str, seed: int, options: Mapping[str, object]) -> str:
    """The command that repeats one run."""
    words = ["python", "-m", "netmesh.sim", "replay", "--seed", str(seed)]
    for name, value in options.items():
        words += ["--set", f"{name}={value!r}"]
    return shlex.join([*words, reference])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of a scenario came to."""

    scenario: str
    """Its name, as the command line takes it."""
    seed: int
    """The seed."""
    ok: bool
    """Whether everything held."""
    error: str | None
    """What did not, with the command that repeats it and the flight recorders' tails."""
    digest: str
    """SHA-256 over all that happened."""
    command: str
    """The command that repeats it."""
    time_s: float
    """Virtual seconds."""
    host_s: float
    """Seconds that it took."""
    steps: int
    """Things that happened."""
    frames: int
    """Frames that reached an engine."""
    events: int
    """Events of all nodes."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Options of the scenario that were set."""
    result: object = None
    """What the scenario returned."""


def _error_text(error: BaseException, command: str) -> str:
    if isinstance(error, SimulationError):
        return error.report()
    trace = "".join(traceback.format_exception(error)).rstrip()
    return f"{trace}\nrepeat it: {command}"


def run_scenario(
    which: str | Scenario,
    *,
    seed: int,
    options: Mapping[str, object] | None = None,
    trace: str | Path | TextIO | None = None,
    check_all: bool = False,
    check: bool = True,
) -> Outcome:
    """Runs a scenario once.

    ``which`` is a function, or its name as :func:`find_scenario` takes it. ``options`` are
    passed to it by name, ``trace`` and ``check_all`` are those of :class:`Simulation`. With
    ``check`` an error is raised, with the command that repeats it as a note; without, it is
    the outcome's ``error``.
    """
    function = find_scenario(which) if isinstance(which, str) else which
    reference = which if isinstance(which, str) else reference_of(which)
    given = dict(options or {})
    command = replay_command(reference, seed, given)
    began = time.perf_counter()
    sim = Simulation(seed=seed, trace=trace, check_all=check_all, command=command)
    error: Exception | None = None
    result: object = None
    try:
        with sim:
            result = function(sim, **given)
    except Exception as caught:
        error = caught
        if check:
            if not isinstance(caught, SimulationError):
                caught.add_note(f"repeat it: {command}")
            raise
    stats = sim.stats
    return Outcome(
        scenario=reference,
        seed=seed,
        ok=error is None,
        error=None if error is None else _error_text(error, command),
        digest=sim.digest,
        command=command,
        time_s=sim.time_s,
        host_s=time.perf_counter() - began,
        steps=stats.steps,
        frames=stats.frames,
        events=stats.events,
        options=given,
        result=result,
    )


def _run_one(reference: str, seed: int, options: Mapping[str, object]) -> Outcome:
    """What a worker does: picklable, and never raises for what a scenario does."""
    return run_scenario(reference, seed=seed, options=options, check=False)


def sweep(
    which: str | Scenario,
    seeds: Iterable[int],
    *,
    executor: Executor | None = None,
    options: Mapping[str, object] | None = None,
) -> Iterator[Outcome]:
    """Runs a scenario under many seeds; the outcomes come in the order of the seeds.

    ``executor`` is any of ``concurrent.futures``: processes spread the seeds over cores;
    threads do as well while the engines work. None runs here. Errors are in the outcomes.
    Raises LookupError for a scenario that is not there.
    """
    reference = which if isinstance(which, str) else reference_of(which)
    given = dict(options or {})
    if executor is None:
        for seed in seeds:
            yield run_scenario(which, seed=seed, options=given, check=False)
        return
    find_scenario(reference)
    waiting = []
    for seed in seeds:
        waiting.append(executor.submit(_run_one, reference, seed, given))
        if len(waiting) >= _AHEAD:
            yield waiting.pop(0).result()
    for future in waiting:
        yield future.result()


def parse_seeds(text: str) -> list[int]:
    """Seeds as "7", "0:100" (without 100), or several of them with commas.

    Raises ValueError.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        try:
            span = range(int(first), int(last) if colon else int(first) + 1)
        except ValueError:
            raise ValueError(f"seeds are numbers and ranges like 0:100, not {part!r}") from None
        if not span or span.start < 0:
            raise ValueError(f"there is no seed in {part!r}")
        seeds += span
    return seeds


__all__ = [
    "NetmeshError",
    "Outcome",
    "Scenario",
    "find_scenario",
    "parse_seeds",
    "reference_of",
    "registered",
    "replay_command",
    "run_scenario",
    "scenario",
    "sweep",
]
