"""Digests, key derivation, ciphers, curves and the Token container (RNS 1, 1).

Hashes and MACs come from the standard library; AES, X25519 and Ed25519 are this
package's own, in :mod:`~netmesh.pure._aes`, :mod:`~netmesh.pure._x25519` and
:mod:`~netmesh.pure._ed25519`.
"""

from __future__ import annotations

import bz2
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, final

from netmesh.errors import AuthenticationError
from netmesh.pure import _aes, _ed25519, _x25519
from netmesh.pure._wire import (
    Secret,
    assign,
    fault,
    of_size,
    optional_of_size,
    text_or_bytes,
    to_bool,
    to_byte_strings,
    to_bytes,
    to_int,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "Token",
    "aes_cbc_decrypt",
    "aes_cbc_encrypt",
    "bz2_compress",
    "bz2_decompress",
    "ed25519_public",
    "ed25519_sign",
    "ed25519_verify",
    "full_hash",
    "hkdf",
    "hmac_sha256",
    "name_hash",
    "pkcs7_pad",
    "pkcs7_unpad",
    "random_hash",
    "sha256",
    "sha256_backends",
    "sha256_many",
    "sha512",
    "truncated_hash",
    "x25519",
    "x25519_public",
]

KEY_SIZE = 32
ADDRESS_SIZE = 16
NAME_HASH_SIZE = 10
MAC_SIZE = 32
SUFFIX_MAX = 64  # of sha256_many, bytes


def sha256(data: Buffer, /) -> bytes:
    """SHA-256: 32 bytes. The H(x) of the specification (RNS 1, 0)."""
    return hashlib.sha256(to_bytes(data, "data")).digest()


def sha512(data: Buffer, /) -> bytes:
    """SHA-512: 64 bytes."""
    return hashlib.sha512(to_bytes(data, "data")).digest()


def full_hash(data: Buffer, /) -> bytes:
    """H(x), 32 bytes (RNS 1, 0)."""
    return sha256(data)


def truncated_hash(data: Buffer, /) -> bytes:
    """T(x) = H(x)[0:16]: every address and id (RNS 1, 0)."""
    return sha256(data)[:ADDRESS_SIZE]


def name_hash(name: str | Buffer, /) -> bytes:
    """N(x) = H(x)[0:10] of a dotted name (RNS 1, 0 and 3.2)."""
    return sha256(text_or_bytes(name, "name"))[:NAME_HASH_SIZE]


def random_hash(random: Buffer | None = None, /) -> bytes:
    """T(16 random bytes); given ones make it reproducible (RNS 1, 1.4)."""
    given = optional_of_size(random, "random", 16)
    return truncated_hash(secrets.token_bytes(16) if given is None else given)


def sha256_backends() -> tuple[str, ...]:
    """The implementations that :func:`sha256_many` can use."""
    return ("hashlib",)


def sha256_many(
    items: Sequence[Buffer], /, *, suffix: Buffer = b"", backend: str | None = None
) -> list[bytes]:
    """H(item | suffix) of each item; the map hashes of a resource are made so (RNS 2, 3.2)."""
    if backend is not None and to_text(backend, "backend") not in sha256_backends():
        raise ValueError(f"backend must be one of {sha256_backends()}, not {backend!r}")
    data = to_byte_strings(items, "items")
    end = to_bytes(suffix, "suffix")
    if len(end) > SUFFIX_MAX:
        raise ValueError(f"suffix must be at most {SUFFIX_MAX} bytes long, not {len(end)}")
    return [sha256(item + end) for item in data]


def hmac_sha256(key: Buffer, data: Buffer, /) -> bytes:
    """HMAC-SHA-256 (RFC 2104): 32 bytes."""
    return hmac.digest(to_bytes(key, "key"), to_bytes(data, "data"), "sha256")


def hkdf(length: int, ikm: Buffer, salt: Buffer | None = None, info: Buffer = b"") -> bytes:
    """HKDF-SHA-256 with a block counter that wraps after 255 (RNS 1, 1.2).

    Raises:
        ValueError: ``length`` is below 1.
    """
    if not isinstance(length, int):
        raise TypeError(f"length must be int, not {type(length).__name__}")
    if length < 1:
        raise ValueError(f"length must be at least 1, not {length}")
    salt_bytes = b"" if salt is None else to_bytes(salt, "salt")
    context = to_bytes(info, "info")
    prk = hmac_sha256(salt_bytes or bytes(MAC_SIZE), to_bytes(ikm, "ikm"))
    block, blocks = b"", []
    for counter in range(1, -(-length // MAC_SIZE) + 1):
        block = hmac_sha256(prk, block + context + bytes([counter % 256]))
        blocks.append(block)
    return b"".join(blocks)[:length]


def pkcs7_pad(data: Buffer, /) -> bytes:
    """Adds 1..16 bytes, each holding their number (RNS 1, 1.3)."""
    plain = to_bytes(data, "data")
    count = _aes.BLOCK - len(plain) % _aes.BLOCK
    return plain + bytes([count]) * count


def pkcs7_unpad(data: Buffer, /) -> bytes:
    """Removes as many bytes as the last one says; the others are not looked at (RNS 1, 1.3).

    Raises:
        DecodeError: PADDING when it says more than 16 or more than there are, or when
            there is no byte.
    """
    padded = to_bytes(data, "data")
    plain = unpadded(padded)
    if plain is None:
        raise fault("PADDING", "pkcs7", "padding", max(len(padded) - 1, 0))
    return plain


def unpadded(padded: bytes) -> bytes | None:
    """Bytes without their padding; None when it is impossible."""
    count = padded[-1] if padded else 0
    if not padded or count > _aes.BLOCK or count > len(padded):
        return None
    return padded[: len(padded) - count]


def bz2_compress(data: Buffer, /, *, level: int = 9) -> bytes:
    """One bzip2 stream; ``level`` 1..9 is the block size in units of 100 kB."""
    return bz2.compress(to_bytes(data, "data"), to_int(level, "level", 1, 9))


def bz2_decompress(data: Buffer, /, *, max_size: int) -> bytes:
    """What one bzip2 stream inflates to; bytes after its end are ignored (RNS 2, 3.10).

    Raises:
        LimitError: more than ``max_size`` bytes would come out; checked while inflating.
        DecodeError: COMPRESSED for a damaged, incomplete or empty stream.
    """
    packed = to_bytes(data, "data")
    to_int(max_size, "max_size", 0, 2**63 - 1)
    inflater = bz2.BZ2Decompressor()
    pieces, size = [], 0
    try:
        while not inflater.eof:
            piece = inflater.decompress(packed, max_length=max_size + 1 - size)
            size += len(piece)
            if size > max_size:
                raise fault("LIMIT", "bzip2", "data")
            pieces.append(piece)
            packed = b""
            if inflater.needs_input:
                break
    except OSError:
        raise fault("COMPRESSED", "bzip2", "data") from None
    if not inflater.eof:
        raise fault("COMPRESSED", "bzip2", "data")
    return b"".join(pieces)


def aes_cbc_encrypt(key: Buffer, iv: Buffer, data: Buffer, /, *, padding: bool = True) -> bytes:
    """AES-CBC with a 16- or 32-byte key; without padding ``data`` is whole blocks (RNS 1, 1.1)."""
    key_bytes, iv_bytes = cipher_key(key), of_size(iv, "iv", _aes.BLOCK)
    plain = pkcs7_pad(data) if to_bool(padding, "padding") else to_bytes(data, "data")
    if len(plain) % _aes.BLOCK:
        raise ValueError(f"data without padding must be whole blocks, not {len(plain)} bytes")
    return _aes.cbc_encrypt(key_bytes, iv_bytes, plain)


def aes_cbc_decrypt(key: Buffer, iv: Buffer, data: Buffer, /, *, padding: bool = True) -> bytes:
    """The inverse of :func:`aes_cbc_encrypt`.

    Raises:
        DecodeError: LENGTH unless whole blocks (with padding at least one), PADDING.
    """
    key_bytes, iv_bytes = cipher_key(key), of_size(iv, "iv", _aes.BLOCK)
    sealed = to_bytes(data, "data")
    if len(sealed) % _aes.BLOCK or (to_bool(padding, "padding") and not sealed):
        raise fault("LENGTH", "aes-cbc", "ciphertext")
    plain = _aes.cbc_decrypt(key_bytes, iv_bytes, sealed)
    content = unpadded(plain) if padding else plain
    if content is None:
        raise fault("PADDING", "aes-cbc", "padding")
    return content


def cipher_key(key: Buffer) -> bytes:
    """Checks a cipher key: 16 or 32 bytes."""
    key_bytes = to_bytes(key, "key")
    if len(key_bytes) not in (16, 32):
        raise ValueError(f"key must be 16 or 32 bytes, not {len(key_bytes)}")
    return key_bytes


def x25519_public(private: Buffer, /) -> bytes:
    """The 32-byte public key of any 32 private bytes (RNS 1, 1.1)."""
    return _x25519.public_key(of_size(private, "private", KEY_SIZE))


def x25519(private: Buffer, public: Buffer, /) -> bytes:
    """The 32-byte shared secret (RNS 1, 1.1).

    Raises:
        AuthenticationError: KEY when it is all zero: ``public`` has small order.
    """
    secret = _x25519.exchange(
        of_size(private, "private", KEY_SIZE), of_size(public, "public", KEY_SIZE)
    )
    if not any(secret):
        raise AuthenticationError("the public key gives no secret", reason="KEY")
    return secret


def ed25519_public(seed: Buffer, /) -> bytes:
    """The 32-byte public key of a 32-byte seed (RNS 1, 1.1)."""
    return _ed25519.public_key(of_size(seed, "seed", KEY_SIZE))


def ed25519_sign(seed: Buffer, message: Buffer, /) -> bytes:
    """The 64-byte signature, deterministic (RNS 1, 2.4)."""
    return _ed25519.sign(of_size(seed, "seed", KEY_SIZE), to_bytes(message, "message"))


def ed25519_verify(public: Buffer, message: Buffer, signature: Buffer, /) -> bool:
    """Whether the signature is good; False for any wrong length too (RNS 1, 2.4)."""
    return _ed25519.verify(
        to_bytes(public, "public"), to_bytes(message, "message"), to_bytes(signature, "signature")
    )


@final
@dataclass(frozen=True, slots=True, init=False)
class Token(Secret):
    """A Fernet-like container: IV (16) | AES-CBC ciphertext | HMAC (32) (RNS 1, 1.3).

    A 64-byte key means AES-256, a 32-byte key AES-128; its first half is the MAC's.
    """

    OVERHEAD: ClassVar[int] = 48
    _mac_key: bytes = field(repr=False)
    _cipher_key: bytes = field(repr=False)

    def __init__(self, key: Buffer, /) -> None:
        key_bytes = to_bytes(key, "key")
        if len(key_bytes) not in (32, 64):
            raise ValueError(f"key must be 32 or 64 bytes, not {len(key_bytes)}")
        half = len(key_bytes) // 2
        assign(self, _mac_key=key_bytes[:half], _cipher_key=key_bytes[half:])

    @property
    def mode(self) -> Literal["AES_128_CBC", "AES_256_CBC"]:
        """The cipher that the length of the key chose."""
        return "AES_128_CBC" if len(self._cipher_key) == 16 else "AES_256_CBC"

    @staticmethod
    def generate_key(mode: str = "AES_256_CBC") -> bytes:
        """A random key for a mode: 32 bytes for AES_128_CBC, 64 for AES_256_CBC."""
        sizes = {"AES_128_CBC": 32, "AES_256_CBC": 64}
        if to_text(mode, "mode") not in sizes:
            raise ValueError(f"mode must be one of {tuple(sizes)}, not {mode!r}")
        return secrets.token_bytes(sizes[mode])

    @staticmethod
    def size(plaintext_bytes: int, /) -> int:
        """Bytes of a token: 48 + 16 * (floor(n / 16) + 1)."""
        size = to_int(plaintext_bytes, "plaintext_bytes", 0, 2**62 - 1)
        return Token.OVERHEAD + _aes.BLOCK * (size // _aes.BLOCK + 1)

    def seal(self, plaintext: Buffer, /, *, iv: Buffer | None = None) -> bytes:
        """Encrypts, then authenticates IV and ciphertext."""
        given = optional_of_size(iv, "iv", _aes.BLOCK)
        start = secrets.token_bytes(_aes.BLOCK) if given is None else given
        sealed = start + aes_cbc_encrypt(self._cipher_key, start, plaintext)
        return sealed + hmac_sha256(self._mac_key, sealed)

    def check(self, token: Buffer, /) -> bool:
        """Whether the MAC fits; nothing is decrypted. False for a token that is too short."""
        data = to_bytes(token, "token")
        if len(data) <= MAC_SIZE:
            return False
        expected = hmac_sha256(self._mac_key, data[:-MAC_SIZE])
        return hmac.compare_digest(expected, data[-MAC_SIZE:])

    def open(self, token: Buffer, /) -> bytes:
        """The plaintext.

        Raises:
            DecodeError: TRUNCATED for 32 bytes or fewer; after the MAC was found good,
                LENGTH for a ciphertext that is not one or more whole blocks, PADDING.
            AuthenticationError: the MAC is wrong.
        """
        data = to_bytes(token, "token")
        if len(data) <= MAC_SIZE:
            raise fault("TRUNCATED", "token", "token")
        if not self.check(data):
            raise AuthenticationError("token: the MAC is wrong")
        iv, sealed = data[: _aes.BLOCK], data[_aes.BLOCK : -MAC_SIZE]
        if not sealed or len(sealed) % _aes.BLOCK:
            raise fault("LENGTH", "token", "ciphertext", _aes.BLOCK)
        plain = unpadded(_aes.cbc_decrypt(self._cipher_key, iv, sealed))
        if plain is None:
            raise fault("PADDING", "token", "padding", _aes.BLOCK)
        return plain

    def __repr__(self) -> str:
        return f"<Token {self.mode}>"
