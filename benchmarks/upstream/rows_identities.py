"""Identities with 2048-byte messages, and tokens of 464 bytes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import RNS
from bench_kit import fixtures
from bench_kit.harness import Offer, Operation, require, same, unary

INTERNAL = RNS.Cryptography.Provider.PROVIDER == RNS.Cryptography.Provider.PROVIDER_INTERNAL
SEALED = 16 if INTERNAL else 64
"""Messages to be decrypted; sealing one takes the internal provider 15 ms."""


def _identity() -> Any:
    return RNS.Identity.from_bytes(fixtures.identity_keys("identity", 0))


def _messages(count: int) -> list[bytes]:
    return [fixtures.identity_message(number) for number in range(count)]


def _sign(count: int) -> Operation:
    identity, messages = _identity(), _messages(count)

    def check(index: int, signature: bytes) -> bytes:
        require(identity.validate(signature, messages[index]), "the signature is not valid")
        return signature

    return Operation(messages, unary(identity.sign), check)


def _verify(count: int) -> Operation:
    identity = _identity()
    items = [(identity.sign(message), message) for message in _messages(count)]
    validate = identity.validate
    signature, message = items[0]
    forged = signature[:40] + bytes([signature[40] ^ 1]) + signature[41:]
    require(not validate(forged, message), "a forged signature was accepted")

    def loop(inputs: Any) -> Any:
        valid = None
        for made, text in inputs:
            valid = validate(made, text)
        return valid

    def check(index: int, valid: Any) -> bytes:
        require(valid is True, "a valid signature was refused")
        return bytes(items[index][0])

    return Operation(items, loop, check)


def _encrypt(count: int) -> Operation:
    identity, messages = _identity(), _messages(count)

    def check(index: int, sealed: bytes) -> bytes:
        same("ciphertext length", len(sealed), 2144)
        opened = identity.decrypt(sealed)
        same("decrypted message", opened, messages[index])
        return bytes(opened)

    return Operation(messages, unary(identity.encrypt), check)


def _decrypt(count: int) -> Operation:
    identity, messages = _identity(), _messages(min(count, SEALED))
    sealed = [identity.encrypt(message) for message in messages]

    def check(index: int, opened: bytes) -> bytes:
        same("decrypted message", opened, messages[index])
        return opened

    return Operation(sealed, unary(identity.decrypt), check)


def _token() -> Any:
    return RNS.Cryptography.Token(fixtures.token_key())


def _seal() -> Operation:
    token = _token()
    texts = [fixtures.token_plaintext(number) for number in range(64)]

    def check(index: int, sealed: bytes) -> bytes:
        opened = token.decrypt(sealed)
        same("opened token", opened, texts[index])
        return bytes(opened)

    return Operation(texts, unary(token.encrypt), check)


def _open() -> Operation:
    token = _token()
    texts = [fixtures.token_plaintext(number) for number in range(64)]
    sealed = [token.encrypt(text) for text in texts]
    forged = bytearray(sealed[0])
    forged[20] ^= 1
    try:
        token.decrypt(bytes(forged))
    except ValueError:
        pass
    else:
        require(False, "a forged token was accepted")

    def check(index: int, opened: bytes) -> bytes:
        same("opened token", opened, texts[index])
        return opened

    return Operation(sealed, unary(token.decrypt), check)


SIGN = "Identity.sign of 2048 bytes"
VERIFY = "Identity.validate of 2048 bytes"
ENCRYPT = "Identity.encrypt of 2048 bytes without ratchet"
DECRYPT = f"Identity.decrypt of 2144 bytes without ratchet, {SEALED} messages"


def offers(_inputs: Path) -> dict[str, Offer]:
    """The rows of this suite."""
    rows = {
        "token.encrypt.464": Offer("Cryptography.Token.encrypt of 464 bytes", _seal),
        "token.decrypt.464": Offer("Cryptography.Token.decrypt of 528 bytes", _open),
    }
    for prefix, count in (("", 64), ("published.", 1)):
        rows[f"{prefix}identity.sign"] = Offer(SIGN, partial(_sign, count))
        rows[f"{prefix}identity.verify"] = Offer(VERIFY, partial(_verify, count))
        rows[f"{prefix}identity.encrypt"] = Offer(ENCRYPT, partial(_encrypt, count))
        rows[f"{prefix}identity.decrypt"] = Offer(DECRYPT, partial(_decrypt, count))
    return rows
