"""F7: every public call that wants one kind of hash refuses the other, typed and at run time.

The calls are found, not listed: each method and function of the public modules whose
signature names a kind of hash is called with the right one, which mypy has to accept, and
with the wrong one, which it has to refuse.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from netmesh import DestinationHash, Engine, IdentityHash, Node

pytest.importorskip("mypy", reason="mypy is not installed (scripts/bootstrap dev)")

MODULES = (
    "destinations",
    "engine",
    "links",
    "messaging",
    "node",
    "records",
    "sim",
    "sync",
    "transport",
)
KINDS = {"DestinationHash": ("where", "who"), "IdentityHash": ("who", "where")}
"""The name of a value of a kind, and of one of the other."""


@dataclass(frozen=True)
class Wanted:
    """One parameter that takes a kind of hash."""

    module: str
    owner: str
    method: str
    parameter: str
    call: str
    """The call with ``{}`` in the place of the hash."""
    kind: str
    several: bool

    def line(self, value: str) -> str:
        return f"_ = {self.call.format(f'({value},)' if self.several else value)}"


def kind_of(annotation: str) -> str | None:
    """The only kind of hash that a parameter takes."""
    found = set(re.findall(r"\b(?:DestinationHash|IdentityHash)\b", annotation))
    return found.pop() if len(found) == 1 and "Mapping" not in annotation else None


def calls(module: str, owner: str, method: str, function: Any, head: str) -> Iterator[Wanted]:
    """A call for each parameter of a function that takes a hash."""
    parameters = list(inspect.signature(function).parameters.values())
    parameters = [each for each in parameters if each.name != "self"]
    for wanted in parameters:
        kind = kind_of(str(wanted.annotation))
        if kind is None:
            continue
        given = []
        for each in parameters:
            value = "{}" if each is wanted else "anything"
            if each is not wanted and each.default is not each.empty:
                continue
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                continue
            named = each.kind is not each.POSITIONAL_ONLY
            given.append(f"{each.name}={value}" if named else value)
        several = re.search(r"\b(?:Sequence|Iterable|tuple)\[", str(wanted.annotation)) is not None
        call = f"{head}({', '.join(given)})"
        yield Wanted(module, owner, method, wanted.name, call, kind, several)


def wanted() -> Iterator[Wanted]:
    """All of the public modules."""
    for name in MODULES:
        module = importlib.import_module(f"netmesh.{name}")
        for public in module.__all__:
            owner = getattr(module, public)
            if inspect.isfunction(owner):
                yield from calls(name, public, "", owner, f"netmesh.{name}.{public}")
            if not inspect.isclass(owner) or owner in (DestinationHash, IdentityHash):
                continue
            yield from calls(name, public, "__init__", owner.__init__, f"netmesh.{name}.{public}")
            for method, member in inspect.getmembers(owner, inspect.isfunction):
                if not method.startswith("_"):
                    head = f"anything_of(netmesh.{name}.{public}).{method}"
                    yield from calls(name, public, method, member, head)


ALL = list(wanted())


def program(value_of: dict[str, str]) -> str:
    """Every call with one value of each kind."""
    imports = "".join(f"import netmesh.{name}\n" for name in MODULES)
    lines = "".join(f"    {each.line(value_of[each.kind])}\n" for each in ALL)
    return (
        f"from typing import Any, TypeVar\n\n{imports}from netmesh import DestinationHash, "
        "IdentityHash\n\nT = TypeVar('T')\n\n\ndef anything_of(kind: type[T]) -> T:\n"
        "    raise NotImplementedError\n\n\ndef calls(where: DestinationHash, who: IdentityHash, "
        f"anything: Any) -> None:\n{lines}"
    )


def errors(text: str, folder: Path, cache: Path) -> dict[str, str]:
    """The lines that mypy refuses, with the error's code."""
    file = folder / "calls.py"
    file.write_text(text)
    options = ["--strict", "--disable-error-code", "func-returns-value"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", str(cache), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = text.splitlines()
    found = re.findall(
        rf"^{re.escape(str(file))}:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.M
    )
    assert done.returncode == (1 if found else 0), done.stdout + done.stderr
    return {lines[int(number) - 1].strip(): code for number, code in found}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy finds out about the package, once."""
    return tmp_path_factory.mktemp("cache")


def test_the_calls_of_every_part_are_found() -> None:
    assert {each.module for each in ALL} >= {"engine", "node", "records", "sync", "transport"}
    assert len(ALL) > 100


def test_the_right_kind_is_accepted(tmp_path: Path, cache: Path) -> None:
    right = {kind: values[0] for kind, values in KINDS.items()}
    assert errors(program(right), tmp_path, cache) == {}


@pytest.mark.parametrize("other", ["the other kind", "bytes(16)"])
def test_the_other_kind_and_bare_bytes_are_refused(other: str, tmp_path: Path, cache: Path) -> None:
    swapped = {kind: values[1] for kind, values in KINDS.items()}
    given = swapped if other == "the other kind" else dict.fromkeys(KINDS, other)
    found = errors(program(given), tmp_path, cache)
    refused = {each.line(given[each.kind]) for each in ALL}
    assert refused - found.keys() == set()
    assert set(found.values()) <= {"arg-type", "call-overload", "list-item"}


def given_to(call: Wanted, owner: Any) -> tuple[dict[str, Any], str]:
    """Arguments with the other kind of hash, and that kind's name."""
    wrong = {"DestinationHash": IdentityHash, "IdentityHash": DestinationHash}[call.kind]
    others = {"path": "/x", "prove": "all", "identity": owner.identity}
    given: dict[str, Any] = {}
    for name, each in inspect.signature(getattr(owner, call.method)).parameters.items():
        if name == call.parameter:
            given[name] = wrong(bytes(16))
        elif each.default is each.empty:
            given[name] = others.get(name, b"x")
    return given, wrong.__name__


def calls_of(module: str, owner: str) -> list[Wanted]:
    """The calls of a class that take one hash."""
    found = [each for each in ALL if (each.module, each.owner) == (module, owner)]
    return [each for each in found if not each.several and each.method != "__init__"]


def test_an_engine_refuses_the_other_kind_at_run_time() -> None:
    """And says which one it wants."""
    engine = Engine(clock=(0.0, 0.0))
    for call in calls_of("engine", "Engine"):
        given, wrong = given_to(call, engine)
        with pytest.raises(TypeError, match=rf"{call.kind}.*not {wrong}"):
            getattr(engine, call.method)(**given)


def test_a_node_refuses_the_other_kind_at_run_time() -> None:
    """And says which one it wants."""

    async def run() -> int:
        async with Node(shared_instance=False) as node:
            for call in calls_of("node", "Node"):
                given, wrong = given_to(call, node)
                with pytest.raises(TypeError, match=rf"{call.kind}.*not {wrong}"):
                    await getattr(node, call.method)(**given)
        return len(calls_of("node", "Node"))

    assert asyncio.run(run()) > 15
