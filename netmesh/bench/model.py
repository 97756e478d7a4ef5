"""What the report consists of, as values: rows, arms, published figures, targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from netmesh.bench.kit.harness import Offer

Kind = Literal["core", "library", "python", "upstream", "rust", "mixed"]
"""What an arm is: the C core, the linked libraries, netmesh or its pure reference from
Python, the upstream stack, a Rust stack, or two different stacks that talk to each other."""

Definition = Literal["fair", "published", "control"]

Evidence = Callable[[Kind, int], bytes]
"""The bytes that the output of a row has to show for one input, computed without the code
that is measured."""


SLOW_CIPHERS: Mapping[str, str] = {
    "rns-internal": "its ciphers in Python take some fifteen seconds for each MiB"
}
"""Why an arm is left out of rows between two processes that send 1 MiB or more."""


@dataclass(frozen=True, slots=True)
class Pair:
    """How a row between two processes is measured (benchmarks/README.md).

    A block takes ``samples`` samples, after ``warm`` in each run, at least ``pace_us`` between
    the beginnings of two; a run has ``blocks`` of them. The second values are those of a
    quick run. ``items`` payloads of the row's size are made, of random bytes or of ``text``;
    ``compress`` leaves compression of resources to the stack. A sample that takes longer than
    ``timeout_s`` has failed. ``bulk`` bytes are transferred while the samples of the kind
    ``meanwhile`` are taken. With ``peers`` the arms that pair two stacks are measured too.

    In the kind ``hub`` the server is a transport node and the client the program of
    :mod:`netmesh.bench.hub_driver`; ``load`` says what that does, and ``held`` how many paths or
    clients the hub has meanwhile. In the kind ``queue`` a sample is ``held`` messages that are
    queued at once, by the method ``load``. With ``store`` both sides keep their messages on disk.
    """

    kind: str
    samples: tuple[int, int] = (50, 10)
    blocks: tuple[int, int] = (6, 2)
    warm: int = 5
    pace_us: int = 0
    items: int = 64
    text: bool = False
    compress: bool = False
    timeout_s: float = 10.0
    bulk: int = 0
    peers: bool = False
    load: str = ""
    held: tuple[int, int] = (0, 0)
    store: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One operation of the report.

    ``payload`` counts bytes; ``batch`` is how many operations one call does; ``fixtures``
    how many inputs calls rotate through. ``comparable`` says whether all arms do the same
    work, so that one may be called faster than another. ``rust`` is the row of the Rust
    adapters that answers here, when it has another name. ``absent`` says for an arm why it
    has no such operation. ``quick`` is False for rows that take long to prepare: a quick run
    leaves them out unless they are named. ``pair`` is set for rows between two processes.
    """

    id: str
    title: str
    operation: str
    payload: int | None = None
    batch: int = 1
    unit: Literal["call", "try"] = "call"
    definition: Definition = "fair"
    comparable: bool = True
    fixtures: int = 64
    evidence: Evidence | None = None
    rust: str | None = None
    published: str | None = None
    published_sides: tuple[Literal["rust", "python"], ...] = ("rust", "python")
    absent: Mapping[str, str] = field(default_factory=dict)
    quick: bool = True
    pair: Pair | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """Rows that belong together, and how the Python arms do them.

    ``offers(api)`` gives the operations of the rows through ``netmesh`` or through its
    pure reference.
    """

    name: str
    title: str
    text: str
    rows: tuple[Row, ...]
    offers: Callable[[Api], dict[str, Offer]]


class Api:
    """The modules of ``netmesh``, or the same ones of ``netmesh.pure``.

    ``folder`` holds the inputs that the parent made for all Python arms.
    """

    def __init__(self, package: str, folder: str) -> None:
        self.package = package
        self.folder = folder

    def __getattr__(self, name: str) -> Any:
        return import_module(f"{self.package}.{name}")

    @property
    def stamp(self) -> Any:
        """The module of stamps."""
        return import_module(f"{self.package}.lxmf.stamp")


@dataclass(frozen=True, slots=True)
class Suites:
    """All suites, in the order of the report."""

    suites: tuple[Suite, ...]

    def __iter__(self) -> Iterator[Suite]:
        return iter(self.suites)

    def rows(self) -> Iterator[tuple[Suite, Row]]:
        """Every row with its suite."""
        for suite in self.suites:
            for row in suite.rows:
                yield suite, row
