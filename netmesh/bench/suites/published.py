"""The rows of the published report under its own definitions.

Its Rust and its Python arm did not do the same work: the Rust codec neither signs nor
verifies, the Python calls do; Python's packets are hashed, Rust's are not; a Python announce
that is validated again is a flag on the object. Here the C core and the Rust stack do what
the Rust arm did, and all Python arms do what the Python arm did. One input, over and over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, same
from netmesh.bench.model import Api, Evidence, Kind, Row, Suite
from netmesh.bench.published import FIGURES
from netmesh.bench.suites import announces, identities, messages, packets, resources


def _pack_offer(api: Api) -> Offer:
    """A payload from hex, a packet object, its bytes and its hash: all within the call."""

    def prepare() -> Runner:
        parts = fixtures.packet(0, False)
        make = api.packet.Packet

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for destination, text in items:
                packet = make(destination=destination, payload=bytes.fromhex(text))
                found = packet.raw, packet.hash
            return found

        def check(_index: int, found: tuple[bytes, bytes]) -> bytes:
            raw, digest = found
            same("packed packet", raw, parts.raw)
            same("packet hash", digest, packets.hash_evidence(header_2=False)("python", 0))
            return raw

        return Operation([(parts.destination, parts.data.hex())], loop, check)

    return Offer("payload from hex, Packet(...), .raw and .hash", prepare)


def _batch_offer(api: Api) -> Offer:
    """64 announces that were validated before, as objects."""

    def prepare() -> Runner:
        raws = announces.read_announces(api.folder, fixtures.BATCH)
        items = [[api.announce.Announce.unpack(raw) for raw in raws]]
        validate_many = api.announce.Announce.validate_many
        same("verdicts", [str(v) for v in validate_many(items[0])], ["VALID"] * fixtures.BATCH)

        def loop(batches: Iterable[Any]) -> Any:
            verdicts = None
            for batch in batches:
                verdicts = validate_many(batch)
            return verdicts

        def check(_index: int, verdicts: list[Any]) -> bytes:
            same("verdicts", [str(v) for v in verdicts], ["VALID"] * fixtures.BATCH)
            return announces.owner(fixtures.BATCH - 1)

        return Operation(items, loop, check)

    return Offer("Announce.validate_many of 64 objects that were validated before", prepare)


def _offers(api: Api) -> dict[str, Offer]:
    offers = {
        "published.packet.pack": _pack_offer(api),
        "published.packet.unpack": packets.hash_offer(api, header_2=False, count=1),
        "published.segment": resources.copy_offer(api, 1),
        "published.reassemble": resources.join_offer(api, 1),
        "published.announce.create": announces.create_offer(api, 1),
        "published.announce.validate": announces.same_offer(api, 1),
        "published.announce.batch64": _batch_offer(api),
        "published.identity.sign": identities.sign_offer(api, 1),
        "published.identity.verify": identities.verify_offer(api, 1),
        "published.identity.encrypt": identities.encrypt_offer(api, 1),
        "published.identity.decrypt": identities.decrypt_offer(api, 1),
        "published.request.window": resources.window_offer(api, 4, 1),
    }
    for name, size in (("", 21), (".large", 2048), (".resource", 16384)):
        offers[f"published.lxmf.decode{name}"] = messages.verify_offer(api, size, 1)
        offers[f"published.lxmf.encode{name}"] = messages.sign_offer(api, size, 1)
    return offers


def _encoded(size: int, native_size: int) -> Evidence:
    """The wire image from a codec, the signature from a Python stack."""

    def evidence(kind: Kind, index: int) -> bytes:
        if kind == "core":
            return fixtures.message(index, native_size).wire
        if kind == "rust":
            return fixtures.message(index, size).wire
        return messages.signature(kind, index, size)

    return evidence


def _packed(kind: Kind, index: int) -> bytes:
    raw = fixtures.packet(index, False).raw
    # The upstream call seals payloads for every destination that is not PLAIN.
    return bytes([raw[0] | 0x08]) + raw[1:] if kind == "upstream" else raw


def _unpacked(kind: Kind, index: int) -> bytes:
    if kind in ("core", "rust"):
        return fixtures.packet(index, False).data
    return packets.hash_evidence(header_2=False)(kind, index)


def _content(size: int) -> Evidence:
    return lambda _kind, index: fixtures.message(index, size).content


def _owner(step: int, last: int) -> Evidence:
    return lambda _kind, index: announces.owner(index * step + last)


def _index(_kind: Kind, index: int) -> bytes:
    return index.to_bytes(8, "little")


def _row(
    name: str,
    operation: str,
    evidence: Evidence,
    *,
    rust: str | None,
    payload: int | None,
    comparable: bool = False,
    batch: int = 1,
) -> Row:
    return Row(
        id=f"published.{name}",
        title=FIGURES[name].workload,
        operation=operation,
        payload=payload,
        batch=batch,
        definition="published",
        comparable=comparable,
        fixtures=1,
        evidence=evidence,
        quick=batch == 1,
        rust=rust,
        published=name,
        absent={"rns-rs": "the published report measured LXMF-rs", "beechat": "as for rns-rs"},
    )


_MESSAGE = (
    "Rust: parse one message into an owned one, no verification; Python: parse, message id, "
    "recall of the source, Ed25519 check"
)
_ENCODE = (
    "Rust: parts and a constant signature to bytes; Python: message id, Ed25519 signature, bytes"
)
_SAME: Callable[[str], str] = "{}; the same input each time".format

SUITE = Suite(
    name="published",
    title="The published report's own definitions",
    text="What the LXMF-rs v0.10.1 report timed, row by row. Where its arms do different work the "
    "row says so and nobody leads: the C core and LXMF-rs do the Rust arm's part, all Python "
    "columns do the Python arm's. The other suites hold the same operations defined fairly.",
    rows=(
        _row("lxmf.decode", _MESSAGE, _content(21), rust="lxmf.decode.owned.21", payload=21),
        _row("lxmf.encode", _ENCODE, _encoded(21, 12), rust="lxmf.encode.codec.21", payload=12),
        _row(
            "lxmf.decode.large",
            _MESSAGE,
            _content(2048),
            rust="lxmf.decode.owned.2k",
            payload=2048,
        ),
        _row(
            "lxmf.encode.large",
            _ENCODE,
            _encoded(2048, 2048),
            rust="lxmf.encode.codec.2k",
            payload=2048,
        ),
        _row(
            "lxmf.decode.resource",
            _MESSAGE,
            _content(16384),
            rust="lxmf.decode.owned.16k",
            payload=16384,
        ),
        _row(
            "lxmf.encode.resource",
            _ENCODE,
            _encoded(16384, 16384),
            rust="lxmf.encode.codec.16k",
            payload=16384,
        ),
        _row(
            "packet.pack",
            "Rust: fields to bytes; Python: payload from hex, packet object, bytes, packet hash",
            _packed,
            rust="packet.pack",
            payload=128,
        ),
        _row(
            "packet.unpack",
            "Rust: bytes to fields; Python: bytes to fields and the packet hash",
            _unpacked,
            rust="packet.unpack",
            payload=128,
        ),
        _row(
            "segment",
            "16384 bytes cut into 43 copied parts of 383 bytes (41 of 400 in LXMF-rs today)",
            resources.buffer_evidence,
            rust="segment.copy",
            payload=16384,
            comparable=True,
        ),
        _row(
            "reassemble",
            "43 parts appended to one buffer",
            resources.buffer_evidence,
            rust="reassemble.copy",
            payload=16384,
            comparable=True,
        ),
        _row(
            "announce.create",
            _SAME("random bytes, time, signature, announce packet"),
            _owner(1, 0),
            rust="announce.create",
            payload=22,
            comparable=True,
        ),
        _row(
            "announce.validate",
            "Rust: the same bytes parsed and verified each time; Python: the same object again",
            _owner(1, 0),
            rust="announce.validate.cold",
            payload=22,
        ),
        _row(
            "announce.batch64",
            "64 times that",
            _owner(64, 63),
            rust="announce.validate.batch64",
            payload=22,
            batch=64,
        ),
        _row(
            "identity.sign",
            _SAME("2048 bytes signed"),
            identities.signature,
            rust="identity.sign",
            payload=2048,
            comparable=True,
        ),
        _row(
            "identity.verify",
            _SAME("a signature over 2048 bytes checked"),
            identities.signature,
            rust="identity.verify",
            payload=2048,
            comparable=True,
        ),
        _row(
            "identity.encrypt",
            _SAME("2048 bytes encrypted to an identity"),
            lambda _kind, index: fixtures.identity_message(index),
            rust="identity.encrypt",
            payload=2048,
            comparable=True,
        ),
        _row(
            "identity.decrypt",
            _SAME("2144 bytes decrypted"),
            lambda _kind, index: fixtures.identity_message(index),
            rust="identity.decrypt",
            payload=2048,
            comparable=True,
        ),
        _row(
            "request.window",
            "Rust: a request for 6 parts answered; Python: for 4 of 6 parts, with the sender's "
            "state reset within the call; the C core answers for 6 of 2260 parts",
            _index,
            rust="request.window",
            payload=None,
        ),
    ),
    offers=_offers,
)
