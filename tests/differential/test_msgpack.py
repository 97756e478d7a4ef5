"""MessagePack: the C core against the pure reference."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, crosswise, damaged, pure, same

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-300, 300),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
)
KEYS = st.one_of(SCALARS, st.tuples(SCALARS, SCALARS))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=20,
)


@st.composite
def encodings(draw: st.DrawFn, depth: int = 4) -> bytes:
    """Encodings that the canonical encoder would not choose, many of them valid."""
    kind = draw(st.integers(0, 9 if depth else 6))
    if kind == 0:
        return bytes([draw(st.integers(0, 255))])
    if kind == 1:
        form = draw(st.sampled_from("BHIQbhiq"))
        return bytes([0xCC + "BHIQbhiq".index(form)]) + draw(
            st.binary(min_size=struct.calcsize(form), max_size=struct.calcsize(form))
        )
    if kind == 2:
        size = draw(st.sampled_from((4, 8)))
        return bytes([0xCA + size // 8]) + draw(st.binary(min_size=size, max_size=size))
    if kind in (3, 4):
        code, data = draw(st.sampled_from((0xC4, 0xD9))), draw(st.binary(max_size=6))
        width = draw(st.integers(0, 2))
        return bytes([code + width]) + len(data).to_bytes(1 << width, "big") + data
    if kind == 5:
        data, width = draw(st.binary(max_size=6)), draw(st.integers(0, 2))
        return bytes([0xC7 + width]) + len(data).to_bytes(1 << width, "big") + b"\x85" + data
    if kind == 6:
        power = draw(st.integers(0, 4))
        return (
            bytes([0xD4 + power])
            + b"\x7f"
            + draw(st.binary(min_size=1 << power, max_size=1 << power))
        )
    count = draw(st.integers(0, 3))
    items = b"".join(draw(encodings(depth - 1)) for _ in range(count * (2 if kind > 7 else 1)))
    base = 0xDE if kind > 7 else 0xDC
    width = draw(st.integers(1, 3))
    if width == 3:
        return bytes([(0x80 if kind > 7 else 0x90) | count]) + items
    return bytes([base + width - 1]) + count.to_bytes(2 * width, "big") + items


@given(VALUES)
def test_values_are_packed_alike(value: Any) -> None:
    same(lambda impl: impl.packb(value))


@given(VALUES)
def test_values_travel_crosswise(value: Any) -> None:
    crosswise(lambda a, b: b.unpackb(a.packb(value), trailing=False))


@given(
    st.one_of(damaged(VALUES.map(pure.packb)), encodings()),
    st.sampled_from((0, 1, 2, 64)),
    st.sampled_from((0, 1, 4, 1000)),
    st.booleans(),
)
def test_any_bytes_are_unpacked_alike(
    data: bytes, depth_max: int, elements_max: int, trailing: bool
) -> None:
    same(
        lambda impl: impl.unpackb(
            data, depth_max=depth_max, elements_max=elements_max, trailing=trailing
        )
    )


@given(st.one_of(damaged(VALUES.map(pure.packb)), encodings()))
def test_re_encoding_agrees(data: bytes) -> None:
    same(lambda impl: impl.canonical(data))


@given(st.lists(st.tuples(encodings(1), encodings(1)), max_size=12))
def test_maps_with_any_keys_are_taken_alike(pairs: list[tuple[bytes, bytes]]) -> None:
    data = bytes([0x80 | len(pairs)]) + b"".join(key + value for key, value in pairs)
    same(lambda impl: impl.unpackb(data))


@given(st.lists(st.sampled_from((0, 1, 0.0, 1.0, -0.0, True, False, None, "", b"", (0,), (0.0,)))))
def test_repeated_keys_are_found_alike(keys: list[Any]) -> None:
    data = bytes([0xDE]) + len(keys).to_bytes(2, "big")
    data += b"".join(pure.packb(key) + b"\xc0" for key in keys)
    same(lambda impl: impl.unpackb(data))


@given(
    st.lists(
        st.one_of(
            st.integers(2**53 - 3, 2**53 + 3),
            st.integers(2**63 - 3, 2**64 - 1),
            st.integers(-(2**63), -(2**63) + 3),
            st.sampled_from((2.0**53, 2.0**63, 2.0**64, -(2.0**63), 1.5, float("inf"))),
        ),
        max_size=20,
    )
)
def test_large_numbers_are_compared_exactly_as_keys(keys: list[Any]) -> None:
    data = bytes([0xDE]) + len(keys).to_bytes(2, "big")
    data += b"".join(pure.packb(key) + b"\xc0" for key in keys)
    same(lambda impl: impl.unpackb(data))


def test_nesting_is_bounded_alike() -> None:
    for depth in (63, 64, 65, 255, 256, 257, 400):
        for depth_max in (0, 64, 256, 10_000):
            data = b"\x91" * depth + b"\xc0"
            same(lambda impl, d=data, m=depth_max: impl.unpackb(d, depth_max=m))
        value: Any = None
        for _ in range(depth):
            value = [value]
        for depth_max in (0, 64, 256):
            same(lambda impl, v=value, m=depth_max: impl.packb(v, depth_max=m))


def test_huge_counts_are_refused_at_once() -> None:
    for head in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"):
        assert same(lambda impl, head=head: impl.unpackb(head + b"\0\0\0"))[0] == "error"


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", {1}, object(), {"x": 1j}])
def test_what_has_no_encoding_is_refused_alike(value: Any) -> None:
    same(lambda impl: impl.packb(value))
    same(lambda impl: impl.packb([value]))


def test_subclasses_are_packed_as_their_base() -> None:
    from netmesh.constants import Context

    same(lambda impl: impl.packb([Context.LRRTT, True, impl.IdentityHash(bytes(16))]))
    same(lambda impl: impl.packb([bytearray(b"x"), memoryview(b"y"), (1, 2)]))


@given(st.integers(-200, 200), st.binary(max_size=20))
def test_extensions_agree(kind: int, data: bytes) -> None:
    same(lambda impl: impl.Ext(kind, data))
    crosswise(lambda a, b: b.unpackb(a.packb(a.Ext(kind, data))))


def test_values_of_extensions() -> None:
    for impl in (core, pure):
        assert impl.Ext(1, b"x") == impl.Ext(1, b"x") != impl.Ext(2, b"x")
        assert hash(impl.Ext(1, b"x")) == hash(impl.Ext(1, bytearray(b"x")))
        assert impl.unpackb(impl.packb({impl.Ext(1, b"x"): 1})) == {impl.Ext(1, b"x"): 1}


@pytest.mark.parametrize("count", [63, 64, 65, 200])
def test_arrays_as_keys_are_bounded_alike(count: int) -> None:
    value = {(number, -1): number for number in range(count)}
    same(lambda impl: impl.packb(value))
    same(lambda impl: impl.packb([{"inner": value}, value]))
    head = b"\xde" + count.to_bytes(2, "big")
    packed = head + b"".join(
        b"\x92\xcd" + at.to_bytes(2, "big") + b"\xff\xc0" for at in range(count)
    )
    for data in (packed, packed[:-1], packed[:-3], b"\x92\x81\x00" + packed + packed):
        same(lambda impl, d=data: impl.unpackb(d))
        same(lambda impl, d=data: impl.canonical(d))
        same(lambda impl, d=data: impl.Request.unpack(b"\x93\x00\xc4\x10" + bytes(16) + d))
        same(lambda impl, d=data: impl.PropagationAppData.unpack(d))
