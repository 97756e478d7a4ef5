"""LXMF messages: the upstream calls sign and verify in every case."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import LXMF
import RNS
from bench_kit import fixtures
from bench_kit.harness import Offer, Operation, require, same, unary


def _signer() -> Any:
    return RNS.Identity.from_bytes(fixtures.identity_keys("identity", 0))


def _delivery(identity: Any) -> Any:
    return RNS.Destination(
        identity, RNS.Destination.OUT, RNS.Destination.SINGLE, "lxmf", "delivery"
    )


def _signed(size: int, count: int) -> list[fixtures.MessageParts]:
    signer = _signer()
    source = _delivery(signer).hash
    made = [replace(fixtures.message(number, size), source=source) for number in range(count)]
    return [replace(parts, signature=signer.sign(parts.signed)) for parts in made]


def _remember(hash_: bytes, public: bytes) -> None:
    """Makes an address known, as an announce of it would."""
    RNS.Identity.remember(bytes(32), hash_, public)


def _decode(size: int, count: int) -> Operation:
    made = _signed(size, count)
    public = _signer().get_public_key()
    for parts in made:
        _remember(parts.destination, public)
        _remember(parts.source, public)
    wires = [parts.wire for parts in made]
    unpack = LXMF.LXMessage.unpack_from_bytes
    forged = wires[0][:-2] + bytes([wires[0][-2] ^ 1]) + wires[0][-1:]
    require(not unpack(forged).signature_validated, "a forged message was accepted")

    def check(index: int, message: Any) -> bytes:
        parts = made[index]
        require(message.signature_validated, "a valid message was refused")
        same("timestamp", message.timestamp, parts.timestamp)
        same("title", message.title, parts.title)
        same("content", message.content, parts.content)
        return parts.content

    return Operation(wires, unary(unpack), check)


def _encode(size: int, count: int) -> Operation:
    signer = _signer()
    source = _delivery(signer)
    made = _signed(size, count)
    items = []
    for parts in made:
        destination = _delivery(signer)
        destination.hash = parts.destination  # the address of the shared input
        items.append((destination, parts.timestamp, parts.title, parts.content))
    message_class, direct = LXMF.LXMessage, LXMF.LXMessage.DIRECT

    def loop(inputs: Any) -> Any:
        message = None
        for destination, timestamp, title, content in inputs:
            message = message_class(destination, source, content, title, desired_method=direct)
            message.timestamp = timestamp
            message.pack()
        return message

    def check(index: int, message: Any) -> bytes:
        same("wire image", message.packed, made[index].wire)
        return bytes(message.packed[32:96])

    return Operation(items, loop, check)


DECODE = (
    "LXMessage.unpack_from_bytes: parse, message id, source and destination recalled (both "
    "known), Ed25519 check"
)
ENCODE = "LXMessage(...), then pack(): message id, Ed25519 signature, choice of delivery method"


def offers(_inputs: Path) -> dict[str, Offer]:
    """The rows of this suite."""
    rows = {}
    for suffix, size in fixtures.MESSAGE_SIZES.items():
        rows[f"lxmf.decode.verify.{suffix}"] = Offer(DECODE, partial(_decode, size, 64))
        rows[f"lxmf.encode.sign.{suffix}"] = Offer(ENCODE, partial(_encode, size, 64))
    for name, size in (("", 21), (".large", 2048), (".resource", 16384)):
        rows[f"published.lxmf.decode{name}"] = Offer(DECODE, partial(_decode, size, 1))
        rows[f"published.lxmf.encode{name}"] = Offer(ENCODE, partial(_encode, size, 1))
    return rows
