"""Digests, key derivation, ciphers, curves and the Token container (RNS 1, 1).

Keys, IVs and random bytes are arguments, so that every result can be reproduced; where
an argument may be left out the system's randomness takes its place. Functions release
the GIL for curves, compression, batches and input of 16 kB and more.

Example:
    >>> from netmesh import crypto
    >>> ours, theirs = crypto.sha256(b"a"), crypto.sha256(b"b")
    >>> shared = crypto.x25519(ours, crypto.x25519_public(theirs))
    >>> shared == crypto.x25519(theirs, crypto.x25519_public(ours))
    True
    >>> token = crypto.Token(crypto.hkdf(64, shared, salt=b"some salt"))
    >>> token.open(token.seal(b"hello"))
    b'hello'
"""

from __future__ import annotations

from netmesh._core import (
    Token,
    aes_cbc_decrypt,
    aes_cbc_encrypt,
    bz2_compress,
    bz2_decompress,
    cpu_features,
    ed25519_public,
    ed25519_sign,
    ed25519_verify,
    full_hash,
    hkdf,
    hmac_sha256,
    library_versions,
    name_hash,
    pkcs7_pad,
    pkcs7_unpad,
    random_hash,
    sha256,
    sha256_backends,
    sha256_many,
    sha512,
    truncated_hash,
    x25519,
    x25519_public,
)

__all__ = [
    "Token",
    "aes_cbc_decrypt",
    "aes_cbc_encrypt",
    "bz2_compress",
    "bz2_decompress",
    "cpu_features",
    "ed25519_public",
    "ed25519_sign",
    "ed25519_verify",
    "full_hash",
    "hkdf",
    "hmac_sha256",
    "library_versions",
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
