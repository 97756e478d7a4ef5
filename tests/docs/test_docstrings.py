"""The examples in docstrings run, those of the C extension too."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

import netmesh
from netmesh import _core

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """All modules of the package that can be imported anywhere."""
    names = [found.name for found in pkgutil.walk_packages(netmesh.__path__, "netmesh.")]
    # The live peer's program needs the upstream stack; the command has no examples.
    return [
        name for name in names if not name.endswith(("_demo_peer", "__main__", "_core", "_bench"))
    ]


def documented(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Name and docstring of each object and member of the extension."""
    for name, value in vars(module).items():
        yield name, inspect.getdoc(value) or ""
        if isinstance(value, type):
            for member, attribute in vars(value).items():
                yield f"{name}.{member}", inspect.getdoc(attribute) or ""


def run(example: doctest.DocTest) -> None:
    """Runs one example; fails with doctest's own report."""
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", modules())
def test_module_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    for example in doctest.DocTestFinder().find(module):
        run(example)


EXAMPLES = [(name, text) for name, text in documented(_core) if ">>>" in text]


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_extension_examples_run(name: str, text: str) -> None:
    names = {key: value for key, value in vars(_core).items() if not key.startswith("__")}
    run(doctest.DocTestParser().get_doctest(text, names, name, "_core", 0))


def test_every_public_name_of_the_extension_is_documented() -> None:
    bare = {
        name
        for name, text in documented(_core)
        if not text and not any(part.startswith("_") for part in name.split("."))
    }
    assert not bare
