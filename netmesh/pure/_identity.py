"""Identities: two key pairs, a hash, and encryption to them (RNS 1, 2)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from netmesh._files import read_key_file, write_private_file, write_public_file
from netmesh.constants import (
    AES_BLOCK,
    KEY_SIZE,
    NAME_HASH_SIZE,
    PRIVATE_SIZE,
    PUBLIC_SIZE,
    TOKEN_KEY_SIZE,
)
from netmesh.errors import AuthenticationError, DecodeError, KeyMissingError
from netmesh.pure import _ed25519, _x25519
from netmesh.pure._addresses import IdentityHash
from netmesh.pure._wire import (
    Secret,
    assign,
    fault,
    of_size,
    optional_of_size,
    to_bool,
    to_byte_strings,
    to_bytes,
    to_sequence,
    to_threads,
)
from netmesh.pure.crypto import Token, full_hash, hkdf, truncated_hash, x25519

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = ["Decrypted", "Identity", "private_identity", "public_identity", "ratchet_id"]

ENCRYPTED_SIZE_MIN = 96  # ephemeral public key, IV, one block, MAC


def ratchet_id(ratchet_public: Buffer, /) -> bytes:
    """H(ratchet public key)[0:10] (RNS 1, 2.6)."""
    return full_hash(of_size(ratchet_public, "ratchet_public", KEY_SIZE))[:NAME_HASH_SIZE]


def public_identity(value: Identity, name: str) -> Identity:
    """An argument that must be an identity with public keys."""
    if not isinstance(value, Identity):
        raise TypeError(f"{name} must be Identity, not {type(value).__name__}")
    if not value.has_public:
        raise KeyMissingError(f"{name} holds no keys")
    return value


def private_identity(value: Identity, name: str) -> Identity:
    """An argument that must be an identity with private keys."""
    if not isinstance(value, Identity):
        raise TypeError(f"{name} must be Identity, not {type(value).__name__}")
    if not value.has_private:
        raise KeyMissingError(f"{name} holds no private keys")
    return value


@final
@dataclass(frozen=True, slots=True)
class Decrypted:
    """What :meth:`Identity.decrypt` found."""

    plaintext: bytes
    ratchet_id: bytes | None
    """10 bytes; None: the identity's own key opened it."""
    ratchet_index: int | None


@final
@dataclass(frozen=True, slots=True, init=False)
class Identity(Secret):
    """An X25519 and an Ed25519 key pair, or only their public halves, or no keys at all.

    The private blob is X25519 private (32) | Ed25519 seed (32), the public one X25519
    public (32) | Ed25519 public (32) (RNS 1, 2.1).
    """

    _private: bytes | None = field(repr=False)
    _public: bytes | None = field(repr=False)

    def __init__(self) -> None:
        self._fill(secrets.token_bytes(PRIVATE_SIZE))

    def _fill(self, private: bytes) -> None:
        public = _x25519.public_key(private[:KEY_SIZE]) + _ed25519.public_key(private[KEY_SIZE:])
        assign(self, _private=private, _public=public)

    @classmethod
    def from_private(cls, private: Buffer, /) -> Identity:
        """From the 64 private bytes."""
        identity = object.__new__(cls)
        identity._fill(of_size(private, "private", PRIVATE_SIZE))
        return identity

    @classmethod
    def from_public(cls, public: Buffer, /) -> Identity:
        """From the 64 public bytes; bad keys show when they are used."""
        identity = object.__new__(cls)
        assign(identity, _private=None, _public=of_size(public, "public", PUBLIC_SIZE))
        return identity

    @classmethod
    def without_keys(cls) -> Identity:
        """An identity whose every operation raises KeyMissingError."""
        identity = object.__new__(cls)
        assign(identity, _private=None, _public=None)
        return identity

    @classmethod
    def load(cls, path: str | Any, /) -> Identity:
        """Reads a file of exactly the 64 private bytes (RNS 1, 2.1)."""
        return cls.from_private(read_key_file(path, PRIVATE_SIZE))

    @classmethod
    def load_public(cls, path: str | Any, /) -> Identity:
        """Reads a file of exactly the 64 public bytes."""
        return cls.from_public(read_key_file(path, PUBLIC_SIZE))

    def save(self, path: str | Any, /) -> None:
        """Writes the 64 private bytes, readable by the owner alone."""
        write_private_file(path, self.private_key)

    def save_public(self, path: str | Any, /) -> None:
        """Writes the 64 public bytes."""
        write_public_file(path, self.public_key)

    @property
    def private_key(self) -> bytes:
        """The 64 private bytes, as given."""
        if self._private is None:
            raise KeyMissingError("the identity holds no private keys")
        return self._private

    @property
    def public_key(self) -> bytes:
        """The 64 public bytes."""
        if self._public is None:
            raise KeyMissingError("the identity holds no keys")
        return self._public

    @property
    def hash(self) -> IdentityHash:
        """T(public key) (RNS 1, 2.1)."""
        return IdentityHash(truncated_hash(self.public_key))

    @property
    def has_private(self) -> bool:
        """Whether it can sign and decrypt."""
        return self._private is not None

    @property
    def has_public(self) -> bool:
        """Whether it can verify and encrypt."""
        return self._public is not None

    def public_only(self) -> Identity:
        """The same identity without its private keys."""
        return Identity.from_public(self.public_key)

    def sign(self, message: Buffer, /) -> bytes:
        """A 64-byte signature with the Ed25519 key (RNS 1, 2.4)."""
        return _ed25519.sign(self.private_key[KEY_SIZE:], to_bytes(message, "message"))

    def verify(self, message: Buffer, signature: Buffer, /) -> bool:
        """Whether the signature is good; False for one of a wrong length."""
        return _ed25519.verify(
            self.public_key[KEY_SIZE:],
            to_bytes(message, "message"),
            to_bytes(signature, "signature"),
        )

    @staticmethod
    def verify_many(
        items: Sequence[tuple[Identity, Buffer, Buffer]], /, *, threads: int = 1
    ) -> list[bool]:
        """Verifies (identity, message, signature) one after the other.

        ``threads`` is accepted for the twin in C; this code runs under one lock anyway.
        """
        to_threads(threads)
        claims = to_sequence(items, "items")
        if any(not isinstance(claim, tuple) or len(claim) != 3 for claim in claims):
            raise TypeError("items must be tuples of identity, message and signature")
        return [
            public_identity(identity, "items").verify(message, signature)
            for identity, message, signature in claims
        ]

    def encrypt(
        self,
        plaintext: Buffer,
        /,
        *,
        ratchet: Buffer | None = None,
        ephemeral_private: Buffer | None = None,
        iv: Buffer | None = None,
    ) -> bytes:
        """Ephemeral public key (32) | token: what only this identity can open (RNS 1, 2.2).

        ``ratchet`` is a 32-byte public key that takes the place of the identity's own.
        The salt of the key derivation is the identity hash in both cases.
        """
        target = optional_of_size(ratchet, "ratchet", KEY_SIZE) or self.public_key[:KEY_SIZE]
        given = optional_of_size(ephemeral_private, "ephemeral_private", KEY_SIZE)
        ephemeral = secrets.token_bytes(KEY_SIZE) if given is None else given
        start = optional_of_size(iv, "iv", AES_BLOCK)
        token = self._token(ephemeral, target)
        return _x25519.public_key(ephemeral) + token.seal(plaintext, iv=start)

    def _token(self, private: bytes, public: bytes) -> Token:
        secret = x25519(private, public)
        return Token(hkdf(TOKEN_KEY_SIZE, secret, bytes(self.hash)))

    def decrypt(
        self,
        ciphertext: Buffer,
        /,
        *,
        ratchets: Sequence[Buffer] = (),
        enforce_ratchets: bool = False,
    ) -> Decrypted:
        """Tries every ratchet, newest first, then the own key unless enforced (RNS 1, 2.3).

        Raises:
            KeyMissingError: there is no key to try.
            DecodeError: TRUNCATED when it cannot hold a token; LENGTH or PADDING when a
                key fits a malformed token.
            AuthenticationError: no key opens it.
        """
        data = to_bytes(ciphertext, "ciphertext")
        own = self.private_key[:KEY_SIZE]
        keys = to_byte_strings(ratchets, "ratchets", KEY_SIZE)
        ratchet_count = len(keys)
        if not to_bool(enforce_ratchets, "enforce_ratchets"):
            keys.append(own)
        if len(data) < ENCRYPTED_SIZE_MIN:
            raise fault("TRUNCATED", "encrypted", "token")
        ephemeral, sealed = data[:KEY_SIZE], data[KEY_SIZE:]
        for index, key in enumerate(keys):
            plaintext = self._try(key, ephemeral, sealed)
            if plaintext is None:
                continue
            if index == ratchet_count:
                return Decrypted(plaintext, None, None)
            return Decrypted(plaintext, ratchet_id(_x25519.public_key(key)), index)
        raise AuthenticationError("no key opens the ciphertext")

    def _try(self, key: bytes, ephemeral: bytes, sealed: bytes) -> bytes | None:
        """What one private key opens; None when it is not the right one."""
        try:
            return self._token(key, ephemeral).open(sealed)
        except AuthenticationError:
            return None
        except DecodeError as error:
            raise fault(error.reason, "encrypted", "ciphertext") from None

    def __repr__(self) -> str:
        if self._public is None:
            return "<Identity without keys>"
        return f"<Identity {self.hash.hex()}{'' if self.has_private else ', public'}>"
