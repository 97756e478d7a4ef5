"""Identities with 2048-byte messages, and tokens of 464 bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, require, same, unary
from netmesh.bench.model import Api, Kind, Row, Suite
from netmesh.pure import crypto as pure_crypto


@functools.cache
def signature(kind: Kind, index: int) -> bytes:
    """The signature over a message, by the pure reference."""
    if kind == "library":
        seed = fixtures.stream("library.seed", index, 32)
    else:
        seed = fixtures.identity_keys("identity", 0)[32:]
    return bytes(pure_crypto.ed25519_sign(seed, fixtures.identity_message(index)))


def _message_evidence(_kind: Kind, index: int) -> bytes:
    return fixtures.identity_message(index)


def _token_evidence(_kind: Kind, index: int) -> bytes:
    return fixtures.token_plaintext(index)


def _messages(count: int) -> list[bytes]:
    return [fixtures.identity_message(number) for number in range(count)]


def _identity(api: Api) -> Any:
    return api.identity.Identity.from_private(fixtures.identity_keys("identity", 0))


def _core_identity() -> Any:
    """The same identity in the C core: makes and opens what takes long in plain Python."""
    from netmesh._core import Identity

    return Identity.from_private(fixtures.identity_keys("identity", 0))


def sign_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """Signing 2 KiB."""

    def prepare() -> Runner:
        messages, verifier = _messages(count), _core_identity()

        def check(index: int, made: bytes) -> bytes:
            require(verifier.verify(messages[index], made), "the signature is not valid")
            return made

        return Operation(messages, unary(_identity(api).sign), check)

    return Offer("Identity.sign of 2048 bytes", prepare)


def verify_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """Verifying 2 KiB."""

    def prepare() -> Runner:
        signer = _core_identity()
        items = [(message, signer.sign(message)) for message in _messages(count)]
        verify = _identity(api).public_only().verify
        message, made = items[0]
        forged = made[:40] + bytes([made[40] ^ 1]) + made[41:]
        require(not verify(message, forged), "a forged signature was accepted")

        def loop(items: Iterable[Any]) -> Any:
            valid = None
            for message, signature in items:
                valid = verify(message, signature)
            return valid

        def check(index: int, valid: Any) -> bytes:
            require(valid is True, "a valid signature was refused")
            return bytes(items[index][1])

        return Operation(items, loop, check)

    return Offer("Identity.verify of 2048 bytes", prepare)


def encrypt_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """Encrypting 2 KiB to an identity."""

    def prepare() -> Runner:
        messages, opener = _messages(count), _core_identity()

        def check(index: int, sealed: bytes) -> bytes:
            same("ciphertext length", len(sealed), 2144)
            opened = bytes(opener.decrypt(sealed).plaintext)
            same("decrypted message", opened, messages[index])
            return opened

        return Operation(messages, unary(_identity(api).public_only().encrypt), check)

    return Offer(
        "Identity.encrypt of 2048 bytes without ratchet: new ephemeral key and IV, X25519 twice, "
        "HKDF, AES-256-CBC, HMAC",
        prepare,
    )


def decrypt_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """Decrypting 2 KiB."""

    def prepare() -> Runner:
        messages, sealer = _messages(count), _core_identity()
        sealed = [sealer.encrypt(message) for message in messages]

        def check(index: int, decrypted: Any) -> bytes:
            same("decrypted message", decrypted.plaintext, messages[index])
            return messages[index]

        return Operation(sealed, unary(_identity(api).decrypt), check)

    return Offer("Identity.decrypt of 2144 bytes without ratchet", prepare)


def _seal_offer(api: Api) -> Offer:
    def prepare() -> Runner:
        from netmesh._core import Token

        opener = Token(fixtures.token_key())
        texts = [fixtures.token_plaintext(number) for number in range(fixtures.COUNT)]
        seal = api.crypto.Token(fixtures.token_key()).seal

        def check(index: int, sealed: bytes) -> bytes:
            opened = bytes(opener.open(sealed))
            same("opened token", opened, texts[index])
            return opened

        return Operation(texts, unary(seal), check)

    return Offer("Token.seal of 464 bytes with a prepared key, fresh IV", prepare)


def _open_offer(api: Api) -> Offer:
    def prepare() -> Runner:
        from netmesh._core import Token
        from netmesh.errors import NetmeshError

        sealer = Token(fixtures.token_key())
        texts = [fixtures.token_plaintext(number) for number in range(fixtures.COUNT)]
        sealed = [sealer.seal(text) for text in texts]
        open_token = api.crypto.Token(fixtures.token_key()).open
        forged = bytearray(sealed[0])
        forged[20] ^= 1
        try:
            open_token(bytes(forged))
        except NetmeshError:
            pass
        else:
            same("a forged token", "accepted", "refused")

        def check(index: int, opened: bytes) -> bytes:
            same("opened token", bytes(opened), texts[index])
            return bytes(opened)

        return Operation(sealed, unary(open_token), check)

    return Offer("Token.open of 528 bytes with a prepared key: HMAC check, then AES", prepare)


def _offers(api: Api) -> dict[str, Offer]:
    return {
        "identity.sign": sign_offer(api),
        "identity.verify": verify_offer(api),
        "identity.encrypt": encrypt_offer(api),
        "identity.decrypt": decrypt_offer(api),
        "token.encrypt.464": _seal_offer(api),
        "token.decrypt.464": _open_offer(api),
    }


_NO_POOL = "no ephemeral keys are kept ready"
_BROKEN = "its Identity::encrypt makes what no receiver can decrypt"

SUITE = Suite(
    name="identities",
    title="Identities and tokens",
    text="Messages of 2048 bytes, encryption without ratchet; tokens of 464 bytes, one part of a "
    "resource, under a prepared key. 64 inputs in turn.",
    rows=(
        Row(
            id="identity.sign",
            title="sign",
            operation="2048 bytes to an Ed25519 signature",
            payload=fixtures.IDENTITY_MESSAGE_BYTES,
            evidence=signature,
            published="identity.sign",
        ),
        Row(
            id="identity.verify",
            title="verify",
            operation="2048 bytes and a signature to a verdict",
            payload=fixtures.IDENTITY_MESSAGE_BYTES,
            evidence=signature,
            published="identity.verify",
        ),
        Row(
            id="identity.encrypt",
            title="encrypt",
            operation="2048 bytes to 2144 for an identity: new ephemeral key, X25519, HKDF, "
            "AES-256-CBC, HMAC",
            payload=fixtures.IDENTITY_MESSAGE_BYTES,
            evidence=_message_evidence,
            published="identity.encrypt",
            absent={"beechat": _BROKEN},
        ),
        Row(
            id="encrypt.pooled",
            title="encrypt, key at hand",
            operation="as identity.encrypt, with an ephemeral key pair that was made before",
            payload=fixtures.IDENTITY_MESSAGE_BYTES,
            evidence=_message_evidence,
            absent=dict.fromkeys(
                ("netmesh", "pure", "rns-openssl", "rns-internal", "lxmf-rs", "rns-rs", "beechat"),
                _NO_POOL,
            ),
        ),
        Row(
            id="identity.decrypt",
            title="decrypt",
            operation="2144 bytes to 2048",
            payload=fixtures.IDENTITY_MESSAGE_BYTES,
            evidence=_message_evidence,
            published="identity.decrypt",
        ),
        Row(
            id="token.encrypt.464",
            title="token seal",
            operation="464 bytes to a 528-byte token with a fresh IV",
            payload=fixtures.TOKEN_BYTES,
            evidence=_token_evidence,
        ),
        Row(
            id="token.decrypt.464",
            title="token open",
            operation="a 528-byte token checked and opened",
            payload=fixtures.TOKEN_BYTES,
            evidence=_token_evidence,
        ),
    ),
    offers=_offers,
)
