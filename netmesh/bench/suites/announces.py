"""Announces with 22 bytes of application data and no ratchet."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, require, same, unary
from netmesh.bench.model import Api, Evidence, Kind, Row, Suite
from netmesh.pure import crypto as pure_crypto

RAW_BYTES = 189
"""Size of such an announce on the wire."""

FILE = "announces.bin"
"""What the parent calls the file with the announces of the Python arms."""


@functools.cache
def owner(number: int) -> bytes:
    """The announced destination of a numbered identity, by the pure reference."""
    keys = fixtures.identity_keys("announce.identity", number)
    public = pure_crypto.x25519_public(keys[:32]) + pure_crypto.ed25519_public(keys[32:])
    name = hashlib.sha256(fixtures.ANNOUNCED_NAME.encode()).digest()[:10]
    return hashlib.sha256(name + hashlib.sha256(public).digest()[:16]).digest()[:16]


@functools.cache
def _library_signature(number: int) -> bytes:
    seed = fixtures.stream("library.seed", number, 32)
    signed = fixtures.stream("library.announce", number, 122)
    return bytes(pure_crypto.ed25519_sign(seed, signed))


def _evidence(last: int = 0, step: int = 1) -> Evidence:
    """The destination of announce ``index * step + last``."""

    def evidence(kind: Kind, index: int) -> bytes:
        if kind == "library":
            return _library_signature(index)
        return owner(index * step + last)

    return evidence


def make_file(folder: Path) -> None:
    """Writes the announces that all Python arms validate, made by the C core."""
    from netmesh._core import Announce, Identity

    raws = []
    for number in range(fixtures.COLD):
        identity = Identity.from_private(fixtures.identity_keys("announce.identity", number))
        name = fixtures.ANNOUNCED_NAME
        raws.append(Announce.create(identity, name, app_data=fixtures.APP_DATA).raw)
    (folder / FILE).write_bytes(b"".join(raws))


def read_announces(folder: str, count: int) -> list[bytes]:
    """The first announces of that file, each a bytes object of its own."""
    with Path(folder, FILE).open("rb") as file:
        return [file.read(RAW_BYTES) for _ in range(count)]


def _check(announce: Any, verdict: Any, number: int) -> bytes:
    same("verdict", str(verdict), "VALID")
    same("application data", announce.app_data, fixtures.APP_DATA)
    destination = bytes(announce.destination_hash)
    same("destination", destination, owner(number))
    return destination


def create_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """A new announce, signed."""

    def prepare() -> Runner:
        destinations = [
            api.destination.Destination(
                api.identity.Identity.from_private(
                    fixtures.identity_keys("announce.identity", number)
                ),
                fixtures.ANNOUNCED_NAME,
            )
            for number in range(count)
        ]

        def loop(items: Iterable[Any]) -> Any:
            announce = None
            for destination in items:
                announce = destination.announce(fixtures.APP_DATA)
            return announce

        def check(index: int, announce: Any) -> bytes:
            read = api.announce.Announce.unpack(announce.raw)
            return _check(read, read.validate(), index)

        return Operation(destinations, loop, check)

    return Offer(
        "Destination.announce(app_data): random bytes, the clock, signature, wire bytes", prepare
    )


def _refuses_forgery(api: Api, raw: bytes) -> None:
    forged = api.announce.Announce.unpack(raw[:-1] + bytes([raw[-1] ^ 1]))
    same("verdict on a forged announce", str(forged.validate()), "BAD_SIGNATURE")


def cold_offer(api: Api, count: int = fixtures.COLD) -> Offer:
    """Wire bytes that were never seen."""

    def prepare() -> Runner:
        raws = read_announces(api.folder, count)
        unpack = api.announce.Announce.unpack
        _refuses_forgery(api, raws[0])

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for raw in items:
                announce = unpack(raw)
                found = announce, announce.validate()
            return found

        def check(index: int, found: tuple[Any, Any]) -> bytes:
            return _check(*found, index)

        return Operation(raws, loop, check)

    return Offer("Announce.unpack, then validate(); nothing cached", prepare)


def same_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """The same object again."""

    def prepare() -> Runner:
        unpack = api.announce.Announce.unpack
        announces = [unpack(raw) for raw in read_announces(api.folder, count)]
        for announce in announces:
            same("verdict", str(announce.validate()), "VALID")

        def loop(items: Iterable[Any]) -> Any:
            verdict = None
            for announce in items:
                verdict = announce.validate()
            return verdict

        return Operation(announces, loop, lambda i, got: _check(announces[i], got, i))

    return Offer("validate() of an Announce that was validated before", prepare)


def repeat_offer(api: Api) -> Offer:
    """Bytes that were validated before, in another buffer."""

    def prepare() -> Runner:
        cache = api.announce.AnnounceCache(capacity=1024)
        for raw in read_announces(api.folder, fixtures.COUNT):
            same("verdict", str(cache.validate(raw)), "VALID")
        again = read_announces(api.folder, fixtures.COUNT)

        def check(index: int, verdict: Any) -> bytes:
            announce = api.announce.Announce.unpack(again[index])
            require(cache.misses == fixtures.COUNT, "an announce left the cache")
            return _check(announce, verdict, index)

        return Operation(again, unary(cache.validate), check)

    return Offer("AnnounceCache.validate(raw) of bytes in another buffer than before", prepare)


def batch_offer(api: Api, count: int = fixtures.COLD) -> Offer:
    """64 announces in one call."""

    def prepare() -> Runner:
        raws = read_announces(api.folder, count)
        items = [raws[at : at + fixtures.BATCH] for at in range(0, count, fixtures.BATCH)]
        unpack, validate_many = api.announce.Announce.unpack, api.announce.Announce.validate_many

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for batch in items:
                announces = [unpack(raw) for raw in batch]
                found = announces, validate_many(announces)
            return found

        def check(index: int, found: tuple[list[Any], list[Any]]) -> bytes:
            announces, verdicts = found
            same("verdicts", [str(v) for v in verdicts], ["VALID"] * fixtures.BATCH)
            last = fixtures.BATCH - 1
            return _check(announces[last], verdicts[last], index * fixtures.BATCH + last)

        return Operation(items, loop, check)

    return Offer("64 times Announce.unpack, then Announce.validate_many on one thread", prepare)


def batch_repeat_offer(api: Api) -> Offer:
    """64 announces that were validated before."""

    def prepare() -> Runner:
        cache = api.announce.AnnounceCache(capacity=16 * fixtures.COLD)
        raws = read_announces(api.folder, fixtures.COLD)
        # 4096 checks in plain Python would take a minute: it rotates through fewer.
        known = raws if api.package == "netmesh" else raws[: 4 * fixtures.BATCH]
        for raw in known:
            cache.validate(raw)
        items = [known[at : at + fixtures.BATCH] for at in range(0, len(known), fixtures.BATCH)]
        validate = cache.validate

        def loop(items: Iterable[Any]) -> Any:
            verdicts: Any = None
            for batch in items:
                verdicts = [validate(raw) for raw in batch]
            return verdicts

        def check(index: int, verdicts: list[Any]) -> bytes:
            same("verdicts", [str(v) for v in verdicts], ["VALID"] * fixtures.BATCH)
            return owner(index * fixtures.BATCH + fixtures.BATCH - 1)

        return Operation(items, loop, check)

    known = "all 4096" if api.package == "netmesh" else "256"
    return Offer(
        f"64 times AnnounceCache.validate of bytes that were validated before, {known} in turn",
        prepare,
    )


def _offers(api: Api) -> dict[str, Offer]:
    return {
        "announce.create": create_offer(api),
        "announce.validate.cold": cold_offer(api),
        "announce.validate.same": same_offer(api),
        "announce.validate.repeat": repeat_offer(api),
        "announce.validate.batch64": batch_offer(api),
        "announce.validate.batch64.repeat": batch_repeat_offer(api),
    }


_NO_OBJECT = "no packet object is marked as valid in the crate"
_NO_BATCH = "the adapter measures the cold batch alone"
_RUST = ("lxmf-rs", "rns-rs", "beechat")

SUITE = Suite(
    name="announces",
    title="Announces",
    text="22 bytes of application data, no ratchet, 189 bytes on the wire. Cold: 4096 identities "
    "in turn, nothing cached. Same: one object is validated again, which is what the published "
    "Python figure times. Repeat: bytes that were validated before arrive in a new buffer.",
    rows=(
        Row(
            id="announce.create",
            title="create",
            operation="fresh random bytes and the time, signature, announce packet",
            payload=len(fixtures.APP_DATA),
            evidence=_evidence(),
            published="announce.create",
        ),
        Row(
            id="announce.validate.cold",
            title="validate, cold",
            operation="wire bytes that were never seen to a checked signature and destination",
            payload=len(fixtures.APP_DATA),
            fixtures=fixtures.COLD,
            evidence=_evidence(),
            published="announce.validate",
            published_sides=("rust",),
        ),
        Row(
            id="announce.validate.same",
            title="validate, same object",
            operation="an object that was found valid is validated again",
            payload=len(fixtures.APP_DATA),
            evidence=_evidence(),
            published="announce.validate",
            published_sides=("python",),
            absent=dict.fromkeys(_RUST, _NO_OBJECT),
        ),
        Row(
            id="announce.validate.repeat",
            title="validate, repeated bytes",
            operation="wire bytes that were found valid arrive again in a new buffer",
            payload=len(fixtures.APP_DATA),
            evidence=_evidence(),
        ),
        Row(
            id="announce.validate.batch64",
            title="validate 64, cold",
            operation="64 announces as in announce.validate.cold in one call, one thread",
            payload=len(fixtures.APP_DATA),
            batch=fixtures.BATCH,
            fixtures=fixtures.COLD,
            evidence=_evidence(fixtures.BATCH - 1, fixtures.BATCH),
            quick=False,
            published="announce.batch64",
            published_sides=("rust",),
        ),
        Row(
            id="announce.validate.batch64.repeat",
            title="validate 64, repeated bytes",
            operation="64 announces as in announce.validate.repeat in one call, one thread",
            payload=len(fixtures.APP_DATA),
            batch=fixtures.BATCH,
            fixtures=fixtures.COLD,
            evidence=_evidence(fixtures.BATCH - 1, fixtures.BATCH),
            quick=False,
            absent=dict.fromkeys(_RUST, _NO_BATCH),
        ),
    ),
    offers=_offers,
)
