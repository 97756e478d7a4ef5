"""AES-128 and AES-256 in CBC mode with tables of 32-bit words (FIPS 197; RNS 1, 1.1).

A round of the cipher on one column is four table look-ups and four exclusive ors. The
tables are made at first use. Their addresses depend on the key, so this code is no
protection against somebody who measures the time of a shared machine.
"""

from __future__ import annotations

import struct
from functools import cache

__all__ = ["BLOCK", "cbc_decrypt", "cbc_encrypt"]

BLOCK = 16

Table = tuple[int, ...]
RoundKeys = tuple[tuple[int, int, int, int], ...]


def times_two(value: int) -> int:
    """Value * x in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x + 1."""
    return value << 1 ^ (0x11B if value & 0x80 else 0)


def product(first: int, second: int) -> int:
    """First * second in the same field."""
    result = 0
    while second:
        if second & 1:
            result ^= first
        first = times_two(first)
        second >>= 1
    return result


def rotate(word: int, bits: int) -> int:
    """A 32-bit word rotated to the right."""
    return (word >> bits | word << 32 - bits) & 0xFFFFFFFF


@cache
def sboxes() -> tuple[bytes, bytes]:
    """The substitution of FIPS 197, 5.1.1 and its inverse."""
    forward = bytearray(256)
    backward = bytearray(256)
    power, inverse = 1, 1  # of the generator 3, and of 1/3 = 0xf6
    for _ in range(255):
        mixed = inverse
        for bits in (1, 2, 3, 4):
            mixed ^= inverse << bits ^ inverse >> 8 - bits
        forward[power] = mixed & 0xFF ^ 0x63
        power ^= times_two(power)
        inverse = product(inverse, 0xF6)
    forward[0] = 0x63
    for value, substitute in enumerate(forward):
        backward[substitute] = value
    return bytes(forward), bytes(backward)


@cache
def encryption_tables() -> tuple[Table, Table, Table, Table]:
    """SubBytes and MixColumns of one byte, for each of the four rows."""
    words = []
    for s in sboxes()[0]:
        twice = times_two(s)
        words.append(twice << 24 | s << 16 | s << 8 | twice ^ s)
    return rows_of(words)


@cache
def decryption_tables() -> tuple[Table, Table, Table, Table]:
    """InvSubBytes and InvMixColumns of one byte, for each of the four rows."""
    words = []
    for s in sboxes()[1]:
        column = (product(s, factor) for factor in (14, 9, 13, 11))
        words.append(int.from_bytes(bytes(column), "big"))
    return rows_of(words)


def rows_of(words: list[int]) -> tuple[Table, Table, Table, Table]:
    """A table and its rotations by one, two and three bytes."""
    first, second, third, fourth = (
        tuple(rotate(word, bits) for word in words) for bits in (0, 8, 16, 24)
    )
    return first, second, third, fourth


@cache
def round_constants() -> tuple[int, ...]:
    """The powers of 2 that the key expansion uses."""
    constants = [1]
    while len(constants) < 10:
        constants.append(times_two(constants[-1]))
    return tuple(constants)


def substitute_word(word: int) -> int:
    """SubBytes on the four bytes of a word."""
    return int.from_bytes(word.to_bytes(4, "big").translate(sboxes()[0]), "big")


def expand_key(key: bytes) -> RoundKeys:
    """The 11 or 15 round keys of a 16- or 32-byte key (FIPS 197, 5.2)."""
    size = len(key) // 4
    words = list(struct.unpack(f">{size}I", key))
    for index in range(size, 4 * (size + 7)):
        word = words[-1]
        if index % size == 0:
            word = substitute_word(rotate(word, 24)) ^ round_constants()[index // size - 1] << 24
        elif size == 8 and index % size == 4:
            word = substitute_word(word)
        words.append(words[-size] ^ word)
    return tuple(
        (words[i], words[i + 1], words[i + 2], words[i + 3]) for i in range(0, len(words), 4)
    )


def invert_key(keys: RoundKeys) -> RoundKeys:
    """The round keys of decryption: reversed, InvMixColumns on all but the outer two."""
    t0, t1, t2, t3 = decryption_tables()
    box = sboxes()[0]

    def mix(word: int) -> int:
        a, b, c, d = word.to_bytes(4, "big")
        return t0[box[a]] ^ t1[box[b]] ^ t2[box[c]] ^ t3[box[d]]

    inner = ((mix(a), mix(b), mix(c), mix(d)) for a, b, c, d in keys[-2:0:-1])
    return (keys[-1], *inner, keys[0])


def encrypt_block(keys: RoundKeys, a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    """One block as four columns (FIPS 197, 5.1)."""
    t0, t1, t2, t3 = encryption_tables()
    k0, k1, k2, k3 = keys[0]
    a, b, c, d = a ^ k0, b ^ k1, c ^ k2, d ^ k3
    for k0, k1, k2, k3 in keys[1:-1]:
        a, b, c, d = (
            t0[a >> 24] ^ t1[b >> 16 & 255] ^ t2[c >> 8 & 255] ^ t3[d & 255] ^ k0,
            t0[b >> 24] ^ t1[c >> 16 & 255] ^ t2[d >> 8 & 255] ^ t3[a & 255] ^ k1,
            t0[c >> 24] ^ t1[d >> 16 & 255] ^ t2[a >> 8 & 255] ^ t3[b & 255] ^ k2,
            t0[d >> 24] ^ t1[a >> 16 & 255] ^ t2[b >> 8 & 255] ^ t3[c & 255] ^ k3,
        )
    s = sboxes()[0]
    k0, k1, k2, k3 = keys[-1]
    return (
        (s[a >> 24] << 24 | s[b >> 16 & 255] << 16 | s[c >> 8 & 255] << 8 | s[d & 255]) ^ k0,
        (s[b >> 24] << 24 | s[c >> 16 & 255] << 16 | s[d >> 8 & 255] << 8 | s[a & 255]) ^ k1,
        (s[c >> 24] << 24 | s[d >> 16 & 255] << 16 | s[a >> 8 & 255] << 8 | s[b & 255]) ^ k2,
        (s[d >> 24] << 24 | s[a >> 16 & 255] << 16 | s[b >> 8 & 255] << 8 | s[c & 255]) ^ k3,
    )


def decrypt_block(keys: RoundKeys, a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    """The inverse of :func:`encrypt_block`, with keys of :func:`invert_key`."""
    t0, t1, t2, t3 = decryption_tables()
    k0, k1, k2, k3 = keys[0]
    a, b, c, d = a ^ k0, b ^ k1, c ^ k2, d ^ k3
    for k0, k1, k2, k3 in keys[1:-1]:
        a, b, c, d = (
            t0[a >> 24] ^ t1[d >> 16 & 255] ^ t2[c >> 8 & 255] ^ t3[b & 255] ^ k0,
            t0[b >> 24] ^ t1[a >> 16 & 255] ^ t2[d >> 8 & 255] ^ t3[c & 255] ^ k1,
            t0[c >> 24] ^ t1[b >> 16 & 255] ^ t2[a >> 8 & 255] ^ t3[d & 255] ^ k2,
            t0[d >> 24] ^ t1[c >> 16 & 255] ^ t2[b >> 8 & 255] ^ t3[a & 255] ^ k3,
        )
    s = sboxes()[1]
    k0, k1, k2, k3 = keys[-1]
    return (
        (s[a >> 24] << 24 | s[d >> 16 & 255] << 16 | s[c >> 8 & 255] << 8 | s[b & 255]) ^ k0,
        (s[b >> 24] << 24 | s[a >> 16 & 255] << 16 | s[d >> 8 & 255] << 8 | s[c & 255]) ^ k1,
        (s[c >> 24] << 24 | s[b >> 16 & 255] << 16 | s[a >> 8 & 255] << 8 | s[d & 255]) ^ k2,
        (s[d >> 24] << 24 | s[c >> 16 & 255] << 16 | s[b >> 8 & 255] << 8 | s[a & 255]) ^ k3,
    )


def cbc_encrypt(key: bytes, iv: bytes, data: bytes) -> bytes:
    """CBC over whole blocks: each is combined with the ciphertext before it."""
    keys = expand_key(key)
    a, b, c, d = struct.unpack(">4I", iv)
    words: list[int] = []
    for w, x, y, z in struct.iter_unpack(">4I", data):
        a, b, c, d = encrypt_block(keys, a ^ w, b ^ x, c ^ y, d ^ z)
        words += (a, b, c, d)
    return struct.pack(f">{len(words)}I", *words)


def cbc_decrypt(key: bytes, iv: bytes, data: bytes) -> bytes:
    """The inverse of :func:`cbc_encrypt`."""
    keys = invert_key(expand_key(key))
    previous = struct.unpack(">4I", iv)
    words = []
    for block in struct.iter_unpack(">4I", data):
        plain = decrypt_block(keys, *block)
        words += [x ^ y for x, y in zip(plain, previous, strict=True)]
        previous = block
    return struct.pack(f">{len(words)}I", *words)
