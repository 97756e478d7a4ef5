"""LXMF messages with 21, 2048 and 16384 bytes of content."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, same, unary
from netmesh.bench.model import Api, Evidence, Kind, Row, Suite
from netmesh.pure import crypto as pure_crypto
from netmesh.pure import identity as pure_identity
from netmesh.pure import lxmf as pure_lxmf

NO_FIELDS = b"\x80"


@functools.cache
def delivery_source() -> bytes:
    """The ``lxmf.delivery`` address of the signing identity, by the pure reference."""
    private = fixtures.identity_keys("identity", 0)
    return bytes(pure_lxmf.delivery_hash(pure_identity.Identity.from_private(private)))


def parts(kind: Kind, index: int, size: int) -> fixtures.MessageParts:
    """A message as an arm has it.

    The Python stacks sign and verify for an identity's own address, so the source is that;
    the native and Rust codecs take any 16 bytes.
    """
    made = fixtures.message(index, size)
    if kind in ("python", "upstream"):
        made = replace(made, source=delivery_source())
    return made


@functools.cache
def signature(kind: Kind, index: int, size: int) -> bytes:
    """The signature over a message, by the pure reference."""
    if kind == "library":
        seed = fixtures.stream("library.seed", index, 32)
        signed_size = len(fixtures.message(index, size).signed)
        hashed = fixtures.stream("library.signed", index, signed_size)[:-32]
        return bytes(pure_crypto.ed25519_sign(seed, hashed + pure_crypto.sha256(hashed)))
    seed = fixtures.identity_keys("identity", 0)[32:]
    return bytes(pure_crypto.ed25519_sign(seed, parts(kind, index, size).signed))


def _content_evidence(size: int) -> Evidence:
    return lambda _kind, index: fixtures.message(index, size).content


def _verify_evidence(size: int) -> Evidence:
    def evidence(kind: Kind, index: int) -> bytes:
        if kind == "library":
            return signature(kind, index, size)
        return fixtures.message(index, size).content

    return evidence


def _wire_evidence(size: int) -> Evidence:
    return lambda _kind, index: fixtures.message(index, size).wire


def _sign_evidence(size: int) -> Evidence:
    return lambda kind, index: signature(kind, index, size)


def _compare(message: Any, expected: fixtures.MessageParts) -> bytes:
    same("destination", bytes(message.destination_hash), expected.destination)
    same("source", bytes(message.source_hash), expected.source)
    same("timestamp", message.timestamp, expected.timestamp)
    same("title", message.title, expected.title)
    same("content", message.content, expected.content)
    same("fields", message.fields, {})
    return expected.content


def view_offer(api: Api, size: int) -> Offer:
    """Decoding without reading anything out."""

    def prepare() -> Runner:
        made = [fixtures.message(number, size) for number in range(fixtures.COUNT)]
        loop = unary(api.lxmf.Message.unpack)
        return Operation([m.wire for m in made], loop, lambda i, got: _compare(got, made[i]))

    return Offer("Message.unpack: parses, copies nothing; no message id, no verification", prepare)


def owned_offer(api: Api, size: int) -> Offer:
    """Decoding, then every part as an object of its own."""

    def prepare() -> Runner:
        made = [fixtures.message(number, size) for number in range(fixtures.COUNT)]
        unpack = api.lxmf.Message.unpack

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for raw in items:
                m = unpack(raw)
                found = (
                    m.destination_hash,
                    m.source_hash,
                    m.signature,
                    m.timestamp,
                    m.title,
                    m.content,
                    m.fields,
                )
            return found

        def check(index: int, found: tuple[Any, ...]) -> bytes:
            e = made[index]
            addresses = (e.destination, e.source, e.signature)
            same("addresses and signature", found[:3], addresses)
            same("content", found[3:], (e.timestamp, e.title, e.content, {}))
            return e.content

        return Operation([m.wire for m in made], loop, check)

    return Offer(
        "Message.unpack, then addresses, signature, timestamp, title, content and fields are "
        "read as objects; no message id, no verification",
        prepare,
    )


def signed_wires(size: int, count: int = fixtures.COUNT) -> list[bytes]:
    """Messages that the signing identity's delivery address sends, made by the C core."""
    from netmesh._core import Identity

    signer = Identity.from_private(fixtures.identity_keys("identity", 0))
    wires = []
    for number in range(count):
        made = parts("python", number, size)
        signed = replace(made, signature=bytes(signer.sign(made.signed)))
        wires.append(signed.wire)
    return wires


def verify_offer(api: Api, size: int, count: int = fixtures.COUNT) -> Offer:
    """Decoding with the signature checked."""

    def prepare() -> Runner:
        made = [parts("python", number, size) for number in range(count)]
        private = fixtures.identity_keys("identity", 0)
        source = api.identity.Identity.from_private(private).public_only()
        unpack = api.lxmf.Message.unpack
        wires = signed_wires(size, count)
        _refuses_forgery(unpack, wires[0], source)

        def loop(items: Iterable[Any]) -> Any:
            message = None
            for raw in items:
                message = unpack(raw, verify=True, source=source)
            return message

        return Operation(wires, loop, lambda index, got: _compare(got, made[index]))

    return Offer("Message.unpack(verify=True): message id, address and Ed25519 check", prepare)


def _refuses_forgery(unpack: Any, wire: bytes, source: Any) -> None:
    from netmesh.errors import NetmeshError

    forged = wire[:-2] + bytes([wire[-2] ^ 1]) + wire[-1:]
    try:
        unpack(forged, verify=True, source=source)
    except NetmeshError:
        return
    same("a forged message", "accepted", "refused")


def encode_offer(api: Api, size: int) -> Offer:
    """The codec alone."""

    def prepare() -> Runner:
        made = [fixtures.message(number, size) for number in range(fixtures.COUNT)]
        items = [
            (m.destination, m.source, m.signature, m.timestamp, m.title, m.content) for m in made
        ]
        encode = api.lxmf.Message.encode

        def loop(items: Iterable[Any]) -> Any:
            wire = None
            for to, source, signature, timestamp, title, content in items:
                wire = encode(
                    to, source, signature, timestamp=timestamp, title=title, content=content
                )
            return wire

        def check(index: int, wire: bytes) -> bytes:
            same("wire image", wire, made[index].wire)
            return wire

        return Operation(items, loop, check)

    return Offer("Message.encode with a constant signature; no message id, no signing", prepare)


def sign_offer(api: Api, size: int, count: int = fixtures.COUNT) -> Offer:
    """A message from its parts, signed."""

    def prepare() -> Runner:
        made = [parts("python", number, size) for number in range(count)]
        signer = api.identity.Identity.from_private(fixtures.identity_keys("identity", 0))
        create = api.lxmf.Message.create
        wires = signed_wires(size, count)

        def loop(items: Iterable[Any]) -> Any:
            wire = None
            for m in items:
                wire = create(
                    signer, m.destination, m.content, title=m.title, timestamp=m.timestamp
                ).packed
            return wire

        def check(index: int, wire: bytes) -> bytes:
            same("wire image", wire, wires[index])
            return wire[32:96]

        return Operation(made, loop, check)

    return Offer("Message.create(...).packed: message id and Ed25519 signature", prepare)


def _offers(api: Api) -> dict[str, Offer]:
    offers = {}
    for suffix, size in fixtures.MESSAGE_SIZES.items():
        offers[f"lxmf.decode.view.{suffix}"] = view_offer(api, size)
        offers[f"lxmf.decode.owned.{suffix}"] = owned_offer(api, size)
        offers[f"lxmf.decode.verify.{suffix}"] = verify_offer(api, size)
        offers[f"lxmf.encode.codec.{suffix}"] = encode_offer(api, size)
        offers[f"lxmf.encode.sign.{suffix}"] = sign_offer(api, size)
    return offers


_NAMES = {"21": "", "2k": ".large", "16k": ".resource"}
VERIFIES = "the upstream call always verifies: see lxmf.decode.verify"
SIGNS = "the upstream call always signs: see lxmf.encode.sign"
NO_VIEW = "no borrowed views in the crate"


def _rows() -> tuple[Row, ...]:
    rows = []
    python = ("rns-openssl", "rns-internal")
    for suffix, size in fixtures.MESSAGE_SIZES.items():
        name = _NAMES[suffix]
        rows += [
            Row(
                id=f"lxmf.decode.view.{suffix}",
                title="decode, views",
                operation="wire bytes to views of all parts; no message id, no verification",
                payload=size,
                evidence=_content_evidence(size),
                absent={**dict.fromkeys(python, VERIFIES), "lxmf-rs": NO_VIEW},
            ),
            Row(
                id=f"lxmf.decode.owned.{suffix}",
                title="decode, owned",
                operation="wire bytes to parts in memory of their own; no message id, no "
                "verification",
                payload=size,
                evidence=_content_evidence(size),
                published=f"lxmf.decode{name}",
                published_sides=("rust",),
                absent=dict.fromkeys(python, VERIFIES),
            ),
            Row(
                id=f"lxmf.decode.verify.{suffix}",
                title="decode and verify",
                operation="wire bytes to a message, its id and a checked signature",
                payload=size,
                evidence=_verify_evidence(size),
                published=f"lxmf.decode{name}",
                published_sides=("python",),
            ),
            Row(
                id=f"lxmf.encode.codec.{suffix}",
                title="encode, codec",
                operation="parts and a constant signature to wire bytes; no message id, no signing",
                payload=size,
                evidence=_wire_evidence(size),
                published=f"lxmf.encode{name}",
                published_sides=("rust",),
                absent=dict.fromkeys(python, SIGNS),
            ),
            Row(
                id=f"lxmf.encode.sign.{suffix}",
                title="encode and sign",
                operation="parts to signed wire bytes, the message id included",
                payload=size,
                evidence=_sign_evidence(size),
                published=f"lxmf.encode{name}",
                published_sides=("python",),
            ),
        ]
    return tuple(rows)


SUITE = Suite(
    name="messages",
    title="LXMF messages",
    text="Content of 21, 2048 and 16384 bytes with a short title and no fields; 64 messages in "
    "turn. Codec is compared with codec, signed with signed, verified with verified.",
    rows=_rows(),
    offers=_offers,
)
