"""X25519 by the Montgomery ladder on Python integers (RFC 7748; RNS 1, 1.1).

Not constant in time; see :mod:`netmesh.pure._ed25519`.
"""

from __future__ import annotations

__all__ = ["exchange", "public_key"]

P = 2**255 - 19
A24 = 121665
BASE = (9).to_bytes(32, "little")


def clamp(private: bytes) -> int:
    """The scalar of a private key: a multiple of 8 in 2^254..2^255 (RFC 7748, 5)."""
    return int.from_bytes(private, "little") & (2**254 - 8) | 2**254


def exchange(private: bytes, public: bytes) -> bytes:
    """The 32-byte shared secret. The top bit of ``public`` is ignored (RFC 7748, 5)."""
    scalar = clamp(private)
    u = int.from_bytes(public, "little") & (2**255 - 1)
    x2, z2, x3, z3 = 1, 0, u, 1
    swapped = 0
    for shift in range(254, -1, -1):
        bit = scalar >> shift & 1
        if bit != swapped:
            x2, x3, z2, z3 = x3, x2, z3, z2
            swapped = bit
        plus2, minus2 = x2 + z2, x2 - z2
        plus3, minus3 = x3 + z3, x3 - z3
        aa = plus2 * plus2 % P
        bb = minus2 * minus2 % P
        da = minus3 * plus2
        cb = plus3 * minus2
        e = aa - bb
        x2 = aa * bb % P
        z2 = e * (aa + A24 * e) % P
        x3 = (da + cb) ** 2 % P
        z3 = u * ((da - cb) ** 2 % P) % P
    if swapped:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def public_key(private: bytes) -> bytes:
    """The 32-byte public key of any 32 private bytes."""
    return exchange(private, BASE)
