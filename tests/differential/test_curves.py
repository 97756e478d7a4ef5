"""X25519 and Ed25519: core, pure reference and the linked libsodium accept the same set."""

from __future__ import annotations

import ctypes
import ctypes.util
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import KEY, core, crosswise, pure, same, sized

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
# y of the four points of order 8, up to the sign.
ORDER_8_Y = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
# u of the X25519 points of small order, as RFC 7748 users list them.
SMALL_U = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
)
MESSAGE = st.binary(max_size=80)


def little(value: int) -> bytes:
    return value.to_bytes(32, "little")


def special_points() -> list[bytes]:
    """All small-order encodings, non-canonical ones, and y that are on no curve."""
    ys = {0, 1, P - 1, ORDER_8_Y, P - ORDER_8_Y}
    ys |= {y + P for y in ys if y + P < 2**255}
    ys |= set(range(P - 3, 2**255)) | {2, 3, 4, 5, 6, 7, 8, 2**255 - 1, 2**254}
    return [little(y | sign << 255) for y in sorted(ys) for sign in (0, 1)]


@pytest.fixture(scope="module")
def sodium() -> Any:
    name = ctypes.util.find_library("sodium")
    if name is None:
        pytest.skip("libsodium has no shared library here")
    library = ctypes.CDLL(name)
    assert library.sodium_init() >= 0
    return library


def sodium_verifies(sodium: Any, public: bytes, message: bytes, signature: bytes) -> bool:
    size = ctypes.c_ulonglong(len(message))
    status: int = sodium.crypto_sign_verify_detached(signature, message, size, public)
    return status == 0


@given(KEY, MESSAGE)
def test_keys_and_signatures_agree(seed: bytes, message: bytes) -> None:
    same(lambda impl: impl.ed25519_public(seed))
    same(lambda impl: impl.x25519_public(seed))
    assert crosswise(
        lambda a, b: b.ed25519_verify(
            a.ed25519_public(seed), message, a.ed25519_sign(seed, message)
        )
    ) == ("value", ("bool", True))
    same(lambda impl: impl.ed25519_sign(seed, message))


@given(KEY, MESSAGE, st.integers(0, 64 * 8 - 1), st.integers(0, 32 * 8 - 1))
def test_flipped_bits_are_refused_alike(
    seed: bytes, message: bytes, signature_bit: int, key_bit: int
) -> None:
    public, signature = pure.ed25519_public(seed), pure.ed25519_sign(seed, message)
    flipped = bytearray(signature)
    flipped[signature_bit // 8] ^= 1 << signature_bit % 8
    assert same(lambda impl: impl.ed25519_verify(public, message, flipped))[1] == ("bool", False)
    other = bytearray(public)
    other[key_bit // 8] ^= 1 << key_bit % 8
    assert same(lambda impl: impl.ed25519_verify(other, message, signature))[1] == ("bool", False)
    assert same(lambda impl: impl.ed25519_verify(public, message + b"x", signature))[1] == (
        "bool",
        False,
    )


@given(sized(31, 32, 33, 0), MESSAGE, sized(63, 64, 65, 0))
def test_random_keys_and_signatures_are_refused_alike(
    public: bytes, message: bytes, signature: bytes
) -> None:
    same(lambda impl: impl.ed25519_verify(public, message, signature))


def test_the_constants_name_points_of_small_order() -> None:
    from netmesh.pure import _ed25519 as curve

    for y in (0, 1, P - 1, ORDER_8_Y, P - ORDER_8_Y):
        point = curve.decode(little(y))
        assert point is not None
        for _ in range(3):
            point = curve.double(point)
        assert curve.encode(point) == little(1)


def test_special_points_get_the_verdict_of_libsodium(sodium: Any) -> None:
    """Without the checks of small order R = A = the neutral element and S = 0 would fit."""
    generator = random.Random(1)
    points = [*special_points(), pure.ed25519_public(bytes(32))]
    for public in points:
        for commitment in generator.sample(points, 16):
            s = generator.choice((0, 0, 1, L - 1, L, L + 1, 2**252, 2**255, 2**256 - 1))
            signature = commitment + s.to_bytes(32, "little")
            expected = sodium_verifies(sodium, public, b"m", signature)
            assert pure.ed25519_verify(public, b"m", signature) == expected
            assert core.ed25519_verify(public, b"m", signature) == expected


def test_good_signatures_with_s_above_the_order_are_refused(sodium: Any) -> None:
    seed = bytes(range(32))
    public = pure.ed25519_public(seed)
    signature = pure.ed25519_sign(seed, b"message")
    s = int.from_bytes(signature[32:], "little")
    for larger in (s + L, s + 2 * L, s + 7 * L):
        forged = signature[:32] + larger.to_bytes(32, "little")
        assert not sodium_verifies(sodium, public, b"message", forged)
        assert not pure.ed25519_verify(public, b"message", forged)
        assert not core.ed25519_verify(public, b"message", forged)


def torsion_signature(seed: bytes, message: bytes, torsion: bytes) -> tuple[bytes, bytes]:
    """A key with a small-order component, and a signature that only a cofactored check takes."""
    from netmesh.pure import _ed25519 as curve

    scalar, prefix = curve.expand(seed)
    small = curve.decode(torsion)
    assert small is not None
    public = curve.encode(curve.add(curve.multiply_base(scalar), small))
    r = curve.hash_to_scalar(prefix, message)
    commitment = curve.encode(curve.multiply_base(r))
    s = (r + curve.hash_to_scalar(commitment, public, message) * scalar) % curve.L
    return public, commitment + little(s)


def test_keys_with_a_small_component_get_the_verdict_of_libsodium(sodium: Any) -> None:
    torsion = little(ORDER_8_Y)
    verdicts = set()
    for number in range(24):
        public, signature = torsion_signature(little(number), b"m", torsion)
        expected = sodium_verifies(sodium, public, b"m", signature)
        verdicts.add(expected)
        assert pure.ed25519_verify(public, b"m", signature) == expected
        assert core.ed25519_verify(public, b"m", signature) == expected
    assert verdicts == {True, False}


@given(KEY, KEY)
def test_exchange_agrees(private: bytes, public: bytes) -> None:
    same(lambda impl: impl.x25519(private, public))


@given(KEY, KEY)
def test_exchange_is_symmetric(mine: bytes, theirs: bytes) -> None:
    crosswise(lambda a, b: b.x25519(mine, a.x25519_public(theirs)))
    assert core.x25519(mine, pure.x25519_public(theirs)) == pure.x25519(
        theirs, core.x25519_public(mine)
    )


def test_special_exchange_keys_get_the_verdict_of_libsodium(sodium: Any) -> None:
    generator = random.Random(2)
    us = [u + k * P for u in SMALL_U for k in (0, 1) if u + k * P < 2**255]
    us += [2, 9, P - 2, P + 2, 2**255 - 1]
    for value in us:
        for top in (0, 1):
            public = little(value | top << 255)
            private = generator.randbytes(32)
            secret = ctypes.create_string_buffer(32)
            refused = sodium.crypto_scalarmult(secret, private, public) != 0
            found = same(lambda impl, k=private, u=public: impl.x25519(k, u))
            if refused:
                assert found[2] == "AuthenticationError"
                assert found[3][0] == "KEY"
            else:
                assert found == ("value", ("bytes", secret.raw))


@given(sized(31, 33, 0, 64), KEY)
def test_wrong_lengths_are_refused_alike(short: bytes, key: bytes) -> None:
    same(lambda impl: impl.x25519(short, key))
    same(lambda impl: impl.x25519(key, short))
    same(lambda impl: impl.x25519_public(short))
    same(lambda impl: impl.ed25519_public(short))
    same(lambda impl: impl.ed25519_sign(short, b""))
