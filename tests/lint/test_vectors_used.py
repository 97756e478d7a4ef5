"""Each kind of vector is used by a test that has a name, or belongs to a room not yet built.

What a test uses is read from its source: a call whose first argument is a file of
tests/vectors and whose others are kinds, in the test itself, in its decorators, or in
what it names of its module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from golden import FOLDER, vectors

TESTS = Path(__file__).parents[1]
FILES = ("reticulum-core", "reticulum-links", "lxmf")

LATER: dict[str, dict[str, tuple[str, ...]]] = {
    "router": {
        "lxmf": (
            "container_file",
            "control",
            "delivery_events",
            "message_store_file",
            "offer",
            "offer_admission",
            "peer_record",
            "peer_record_reload",
            "peer_sync_no_path",
            "state_file",
            "store_weight",
            "sync_offer_build",
        ),
    },
    "daemon": {
        "lxmf": ("lxmd_config", "peer_name_display"),
        "reticulum-core": ("discovery_app_data", "discovery_autoconnect", "storage"),
        "reticulum-links": ("rncp", "rnx", "rpc_auth", "rpc_call", "rpc_key", "rsg"),
    },
    "interfaces": {"reticulum-links": ("rnode_kiss", "wdcl")},
}
"""The kinds that wait for their room, by room and file. One that gets a test leaves the table.

The C tests read the packets of some of them already; what the room does with them waits.
"""

Use = tuple[str, str]


def text_of(node: ast.expr, names: dict[str, str]) -> str | None:
    """The text of a literal or of a constant of the module."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return names.get(node.id) if isinstance(node, ast.Name) else None


def uses(tree: ast.AST, names: dict[str, str]) -> Iterator[Use]:
    """The files and kinds that some code asks for."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call.args:
            file, *kinds = (text_of(argument, names) for argument in call.args)
            if file in FILES:
                yield from ((file, kind) for kind in kinds if kind is not None)


def assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement of a module binds, and to what."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    given = getattr(statement, "value", None)
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id, given
        elif isinstance(target, ast.Tuple):
            several = given.elts if isinstance(given, ast.Tuple) else [given] * len(target.elts)
            yield from (
                (name.id, each)
                for name, each in zip(target.elts, several, strict=True)
                if isinstance(name, ast.Name)
            )


def used_by(source: str) -> dict[Use, set[str]]:
    """What the tests of one module use, with their names."""
    module = ast.parse(source)
    names: dict[str, str] = {}
    parts: dict[str, ast.stmt] = {}
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            parts[statement.name] = statement
        for target, given in assigned(statement):
            parts[target] = statement
            text = text_of(given, names)
            names |= {target: text} if text is not None else {}
    found: dict[Use, set[str]] = {}
    for test in (name for name in parts if name.startswith("test_")):
        seen, left = set(), [test]
        while left:
            name = left.pop()
            if name not in seen and name in parts:
                seen.add(name)
                part = parts[name]
                left += [node.id for node in ast.walk(part) if isinstance(node, ast.Name)]
                for use in uses(part, names):
                    found.setdefault(use, set()).add(test)
    return found


@cache
def used() -> dict[Use, set[str]]:
    """All kinds that tests use, with the names of the tests."""
    found: dict[Use, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for use, tests in used_by(path.read_text()).items():
            found.setdefault(use, set()).update(tests)
    return found


def used_in_c() -> set[Use]:
    """The kinds that the C tests take, each in a named test or in what one calls."""
    call = re.compile(r'nm_vectors_each\(\s*(?:NULL|"([^"]+)"),\s*"([^"]+)"')
    return {
        (file, kind)
        for path in sorted(TESTS.glob("c/test_*.c"))
        for given, kind in call.findall(path.read_text())
        for file in ([given] if given else FILES)
    }


def there() -> set[Use]:
    """All kinds that there are."""
    assert {path.stem for path in FOLDER.glob("*.json")} == set(FILES)
    return {(file, vector["kind"]) for file in FILES for vector in vectors(file)}


def later() -> set[Use]:
    """All kinds that wait."""
    return {(file, kind) for kinds in LATER.values() for file in kinds for kind in kinds[file]}


def test_every_kind_has_a_test_or_waits_for_its_room() -> None:
    missing = there() - set(used()) - used_in_c() - later()
    assert missing == set(), "no test uses these vectors"


def test_no_kind_waits_that_has_a_test() -> None:
    assert later() & set(used()) == set(), "these have a test now: take them out of LATER"
    assert later() - there() == set(), "there are no such vectors"


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("def test_a():\n    vectors('lxmf', 'get')\n", {"test_a"}),
        ("F = 'lxmf'\nV = vectors(F, 'other', 'get')\n@param(V)\ndef test_b(): ...\n", {"test_b"}),
        ("E, F = 'x', 'lxmf'\n@param(vectors(F, 'get'))\ndef test_b(): ...\n", {"test_b"}),
        ("def f():\n    return load('lxmf', 'get')\ndef test_c():\n    f()\n", {"test_c"}),
        ("V = vectors('lxmf', 'get')\ndef test_d(): ...\n", None),
        ("def helper():\n    vectors('lxmf', 'get')\n", None),
        ("def test_e():\n    vectors('reticulum-core', 'get')\n", None),
    ],
)
def test_a_use_is_one_that_a_test_reaches(source: str, tests: set[str] | None) -> None:
    assert used_by(source).get(("lxmf", "get")) == tests
