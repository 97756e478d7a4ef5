"""Stamps: building a work block and searching for proof of work."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Iterable
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.fixtures import fingerprint
from netmesh.bench.kit.harness import (
    Offer,
    Operation,
    Runner,
    same,
    singles_answer,
)
from netmesh.bench.kit.histogram import Histogram
from netmesh.bench.model import Api, Evidence, Kind, Row, Suite
from netmesh.pure.lxmf import stamp as pure_stamp

ROUNDS = 3000
COST = 16
"""What nodes of a propagation network ask for."""
INPUTS = 4
"""Messages whose stamps the row stamp.16 finds, one after the other."""
PROOF_COST = 10
"""Cost of the stamp that proves that a search works: about a thousand tries."""

BACKENDS = ("portable", "openssl", "sha_ni", "avx2", "avx512")
"""The compression functions of the C core, as netmesh.crypto.sha256_backends() names them."""


@functools.cache
def workblock(number: int) -> bytes:
    """The work block of a numbered message id, by the pure reference."""
    return bytes(pure_stamp.Workblock(fixtures.stamp_material(number), ROUNDS).to_bytes())


@functools.cache
def first_stamp(number: int, cost: int = PROOF_COST) -> bytes:
    """The first stamp of a cost that counting up from 0 finds, by hashlib."""
    state = hashlib.sha256(workblock(number))
    prefix = fixtures.stream("stamp.prefix", number, 24)
    counter = 0
    while True:
        stamp = prefix + counter.to_bytes(8, "big")
        tried = state.copy()
        tried.update(stamp)
        if int.from_bytes(tried.digest(), "big") <= 1 << (256 - cost):
            return stamp
        counter += 1


def _search_evidence(_kind: Kind, index: int) -> bytes:
    return first_stamp(index)


def _block_evidence(_kind: Kind, index: int) -> bytes:
    return hashlib.sha256(workblock(index)).digest()


def _whole_evidence(_kind: Kind, index: int) -> bytes:
    return first_stamp(index, COST)


class Search:
    """A row whose calls are tries: searches of a few known lengths, one after the other.

    ``cost`` is chosen so that one search takes a useful time; where it starts is fixed, so
    the number of tries is the same in each run. Times are those of whole searches.
    """

    def __init__(self, api: Api, cost: int, backend: str | None) -> None:
        self._cost = cost
        self._extra = {} if backend is None else {"backend": backend}
        self._blocks = [
            api.stamp.Workblock(fixtures.stamp_material(number), ROUNDS) for number in range(INPUTS)
        ]
        self._starts = [
            fixtures.stream("stamp.prefix", number, 24) + bytes(8) for number in range(INPUTS)
        ]
        self._next = 0
        for index in range(INPUTS):
            self._prove(index)

    def _prove(self, index: int) -> bytes:
        found = self._blocks[index].search(PROOF_COST, start=self._starts[index], **self._extra)
        same("the first cheap stamp", found.stamp, first_stamp(index))
        return bytes(found.stamp)

    def _search(self) -> int:
        index = self._next
        self._next = (index + 1) % INPUTS
        found = self._blocks[index].search(self._cost, start=self._starts[index], **self._extra)
        same("cost of a stamp", found.value >= self._cost, True)
        return int(found.tries)

    def block(self, ns: int) -> dict[str, Any]:
        """Searches until ``ns`` have gone by."""
        tries = 0
        cpu = time.process_time_ns()
        start = time.perf_counter_ns()
        while tries == 0 or time.perf_counter_ns() - start < ns:
            tries += self._search()
        spent = time.perf_counter_ns() - start
        cpu = time.process_time_ns() - cpu
        index = self._next
        check = fingerprint(self._prove(index))
        return {"calls": tries, "ns": spent, "cpu_ns": cpu, "fixture": index, "check": check}

    def singles(self, count: int) -> dict[str, Any]:
        """Times single searches; an entry spans the tries of one, on average."""
        histogram = Histogram()
        tries = 0
        for _ in range(count):
            start = time.perf_counter_ns()
            tries += self._search()
            histogram.add(time.perf_counter_ns() - start)
        self._prove(self._next)
        return singles_answer(histogram, max(1, tries // count), 0)


def _search_offer(api: Api, backend: str | None = None) -> Offer:
    cost = 18 if api.package == "netmesh" else 9
    return Offer(
        "calls = tries, one thread. Workblock.search with a fixed start, whole searches of "
        f"cost {cost}; a single call of the histogram is one search",
        lambda: Search(api, cost, backend),
    )


def _build_offer(api: Api) -> Offer:
    def prepare() -> Runner:
        materials = [fixtures.stamp_material(number) for number in range(fixtures.COUNT)]
        make = api.stamp.Workblock

        def loop(items: Iterable[Any]) -> Any:
            block = None
            for material in items:
                block = make(material, ROUNDS).to_bytes()
            return block

        def check(index: int, block: bytes) -> bytes:
            same("work block", block, workblock(index))
            return hashlib.sha256(block).digest()

        return Operation(materials, loop, check)

    return Offer("Workblock(material, 3000).to_bytes(): the block and its hash state", prepare)


def _whole_offer(api: Api) -> Offer:
    def prepare() -> Runner:
        make = api.stamp.Workblock
        numbers = range(INPUTS)
        inputs = [
            (fixtures.stamp_material(n), fixtures.stream("stamp.prefix", n, 24) + bytes(8))
            for n in numbers
        ]

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for material, start in items:
                found = make(material, ROUNDS).search(COST, start=start, threads=1)
            return found

        def check(_index: int, found: Any) -> bytes:
            same("the stamp is worth it", found.value >= COST, True)
            return bytes(found.stamp)

        return Operation(inputs, loop, check)

    return Offer("Workblock(material, 3000).search(16, start=..., threads=1)", prepare)


def _offers(api: Api) -> dict[str, Offer]:
    return {
        "stamp.search": _search_offer(api),
        "stamp.16": _whole_offer(api),
        "stamp.workblock.3000": _build_offer(api),
    }


def _backend_row(backend: str) -> Row:
    return Row(
        id=f"stamp.search.{backend}",
        title=f"search, {backend}",
        operation=f"one try with the C core's {backend} code",
        unit="try",
        evidence=_search_evidence,
    )


def _unproved(evidence: Evidence) -> Evidence:
    """The same but for the Rust stacks and the upstream one, which prove themselves."""

    def wrapped(kind: Kind, index: int) -> bytes:
        return b"" if kind in ("rust", "upstream") else evidence(kind, index)

    return wrapped


SUITE = Suite(
    name="stamps",
    title="Stamps",
    text="Proof of work over a work block of 3000 rounds (768000 bytes), one thread. One call of "
    "the search rows is one try. A stack that does not save the hash state of the work block "
    "hashes all of it for each try.",
    rows=(
        Row(
            id="stamp.search",
            title="search",
            operation="one try of a search, one thread",
            unit="try",
            evidence=_unproved(_search_evidence),
        ),
        Row(
            id="stamp.search.32",
            title="search, 32-byte stamps",
            operation="one try with stamps of the reference's size, where a stack has another",
            unit="try",
            evidence=_unproved(_search_evidence),
        ),
        *(_backend_row(backend) for backend in BACKENDS),
        Row(
            id="stamp.16",
            title="a stamp of cost 16",
            operation="the work block of a message and a search for 65,536 tries on average, as a "
            "sender has to; from fixed starts, one thread",
            fixtures=INPUTS,
            evidence=_whole_evidence,
            absent={
                "core": "the same code as from Python, which adds nothing to milliseconds",
                "rns-openssl": "takes half a minute on one processor",
                "rns-internal": "takes half a minute on one processor",
                "lxmf-rs": "takes half a minute: see its search",
                "rns-rs": "checks stamps only",
                "beechat": "has no stamps",
            },
        ),
        Row(
            id="stamp.workblock.3000",
            title="work block",
            operation="3000 rounds of HKDF to 768000 bytes",
            evidence=_block_evidence,
        ),
    ),
    offers=_offers,
)
