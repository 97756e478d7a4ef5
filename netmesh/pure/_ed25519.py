"""Ed25519 in pure mode on Python integers (RFC 8032; RNS 1, 1.1 and 2.4).

The accepted set of signatures and keys is libsodium's: S below the group order, a
canonical public key, neither it nor R of small order, and a comparison without the
cofactor.

Python integers leak their size through time, so this module suits tests, comparison
and reading, not the secrets of a busy node; the C core has those.
"""

from __future__ import annotations

import hashlib
from functools import cache

__all__ = ["public_key", "sign", "verify"]

P = 2**255 - 19  # the field
L = 2**252 + 27742317777372353535851937790883648493  # the order of the base point
D = -121665 * pow(121666, -1, P) % P  # the curve: -x^2 + y^2 = 1 + D x^2 y^2
SQRT_MINUS_1 = pow(2, (P - 1) // 4, P)
BASE_Y = 4 * pow(5, -1, P) % P
SIGN_BIT = 1 << 255

# Extended coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, T = XY/Z.
Point = tuple[int, int, int, int]
# A table entry of an affine point: (y + x, y - x, 2 D x y).
Entry = tuple[int, int, int]

NEUTRAL: Point = (0, 1, 1, 0)

# y of the points whose order divides 8: (0, 1), (0, -1), (+-sqrt(-1), 0) and the four of
# order 8, which share two y.
ORDER_8_Y = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER_Y = frozenset((0, 1, P - 1, ORDER_8_Y, P - ORDER_8_Y))


def double(point: Point) -> Point:
    """2 * point, in 8 multiplications."""
    x, y, z, _ = point
    a = x * x
    b = y * y
    h = a + b
    e = h - (x + y) ** 2
    g = a - b
    f = 2 * z * z + g
    return e * f % P, g * h % P, f * g % P, e * h % P


def add(first: Point, second: Point) -> Point:
    """The sum of any two points, in 9 multiplications."""
    x1, y1, z1, t1 = first
    x2, y2, z2, t2 = second
    a = (y1 - x1) * (y2 - x2)
    b = (y1 + x1) * (y2 + x2)
    c = 2 * D * t1 * t2 % P
    d = 2 * z1 * z2
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def add_entry(point: Point, entry: Entry) -> Point:
    """The sum of a point and a table entry, in 7 multiplications."""
    x, y, z, t = point
    plus, minus, t2d = entry
    a = (y - x) * minus
    b = (y + x) * plus
    c = t * t2d
    d = 2 * z
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def encode(point: Point) -> bytes:
    """32 bytes: y little-endian, the top bit being the lowest of x (RFC 8032, 5.1.2)."""
    x, y, z, _ = point
    inverse = pow(z, -1, P)
    return (y * inverse % P | (x * inverse % P & 1) << 255).to_bytes(32, "little")


def decode(data: bytes) -> Point | None:
    """The point of a canonical encoding; None when there is none (RFC 8032, 5.1.3)."""
    value = int.from_bytes(data, "little")
    y = value & (SIGN_BIT - 1)
    if y >= P:
        return None
    u = (y * y - 1) % P
    v = (D * y * y + 1) % P
    x = u * v**3 * pow(u * v**7 % P, (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * SQRT_MINUS_1 % P
        if v * x * x % P != u:
            return None
    if x & 1 != value >> 255:
        x = -x % P
    return x, y, 1, x * y % P


def has_small_order(data: bytes) -> bool:
    """Whether an encoding, canonical or not, names a point whose order divides 8."""
    return (int.from_bytes(data, "little") & (SIGN_BIT - 1)) % P in SMALL_ORDER_Y


def to_entries(points: list[Point]) -> list[Entry]:
    """Table entries of many points with one inversion in all."""
    products = [1]
    for point in points:
        products.append(products[-1] * point[2] % P)
    inverse = pow(products[-1], -1, P)
    entries = []
    for index in reversed(range(len(points))):
        x, y, z, _ = points[index]
        z_inverse = inverse * products[index] % P
        inverse = inverse * z % P
        x, y = x * z_inverse % P, y * z_inverse % P
        entries.append(((y + x) % P, (y - x) % P, 2 * D * x * y % P))
    return entries[::-1]


@cache
def base_table() -> tuple[tuple[Entry, ...], ...]:
    """Row i holds 1..15 times 16^i times the base point; made at first use, in some 10 ms."""
    point = decode(BASE_Y.to_bytes(32, "little"))
    assert point is not None
    points = []
    for _ in range(64):
        multiple = point
        for _ in range(15):
            points.append(multiple)
            multiple = add(multiple, point)
        point = multiple
    entries = to_entries(points)
    return tuple(tuple(entries[row : row + 15]) for row in range(0, len(entries), 15))


def multiply_base(scalar: int) -> Point:
    """Scalar * base point, for a scalar below 2^256: one addition for each nibble."""
    result = NEUTRAL
    for row in base_table():
        digit = scalar & 15
        if digit:
            result = add_entry(result, row[digit - 1])
        scalar >>= 4
    return result


def multiply(scalar: int, point: Point) -> Point:
    """Scalar * point, by windows of four bits."""
    multiples = [NEUTRAL, point]
    while len(multiples) < 16:
        multiples.append(add(multiples[-1], point))
    result = NEUTRAL
    for shift in range(252, -1, -4):
        if result is not NEUTRAL:
            result = double(double(double(double(result))))
        digit = scalar >> shift & 15
        if digit:
            result = add(result, multiples[digit])
    return result


def hash_to_scalar(*parts: bytes) -> int:
    """SHA-512 of the parts as a little-endian number, reduced by the order."""
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L


def expand(seed: bytes) -> tuple[int, bytes]:
    """The clamped scalar and the prefix of a seed (RFC 8032, 5.1.5)."""
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & (2**254 - 8) | 2**254, digest[32:]


def public_key(seed: bytes) -> bytes:
    """The 32-byte public key of a 32-byte seed."""
    return encode(multiply_base(expand(seed)[0]))


def sign(seed: bytes, message: bytes) -> bytes:
    """The 64-byte signature R | S of RFC 8032, 5.1.6; deterministic."""
    scalar, prefix = expand(seed)
    public = encode(multiply_base(scalar))
    r = hash_to_scalar(prefix, message)
    commitment = encode(multiply_base(r))
    s = (r + hash_to_scalar(commitment, public, message) * scalar) % L
    return commitment + s.to_bytes(32, "little")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether [S]B - [h]A encodes to R, for keys and signatures of the accepted set."""
    if len(public) != 32 or len(signature) != 64:
        return False
    commitment = signature[:32]
    s = int.from_bytes(signature[32:], "little")
    if s >= L or has_small_order(commitment) or has_small_order(public):
        return False
    point = decode(public)
    if point is None:
        return False
    x, y, z, t = point
    challenge = hash_to_scalar(commitment, public, message)
    result = add(multiply_base(s), multiply(challenge, (-x % P, y, z, -t % P)))
    return encode(result) == commitment
