"""MessagePack: the canonical encoder, the bounded decoder (P16 and all packed payloads)."""

from __future__ import annotations

import ast
import enum
import gc
import math
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest

from golden import name_of, raw, vectors
from inputs import BUFFERS, NOT_BYTES, truncations
from netmesh import _core
from netmesh.errors import DecodeError, EncodeError, LimitError

LINKS = "reticulum-links"


@pytest.mark.parametrize("vector", vectors(LINKS, "msgpack"), ids=name_of)
def test_encodings_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """Both ways, and canonical already."""
    text, packed = vector["input"]["python_repr"], raw(vector["output"]["bytes"])
    value = bytes(256) if text == "bin_256" else ast.literal_eval(text)
    assert impl.packb(value) == packed
    found = impl.unpackb(packed)
    assert found == value
    assert type(found) is type(value)
    assert impl.canonical(packed) == packed


BOUNDARIES = [
    *(2**bits + near for bits in (5, 7, 8, 15, 16, 31, 32, 62, 63) for near in (-1, 0, 1)),
    *(-(2**bits) + near for bits in (5, 7, 8, 15, 16, 31, 32, 62, 63) for near in (-1, 0, 1)),
    2**64 - 1,
]


@pytest.mark.parametrize("number", [n for n in BOUNDARIES if n >= -(2**63)])
def test_integers_have_their_shortest_form(impl: Any, number: int) -> None:
    """At every boundary."""
    packed = impl.packb(number)
    assert impl.unpackb(packed) == number
    if number >= 0:
        sizes = [(2**7, 1), (2**8, 2), (2**16, 3), (2**32, 5), (2**64, 9)]
        assert len(packed) == next(size for limit, size in sizes if number < limit)
    else:
        sizes = [(2**5, 1), (2**7, 2), (2**15, 3), (2**31, 5), (2**63, 9)]
        assert len(packed) == next(size for limit, size in sizes if -number <= limit)


def test_integers_outside_64_bits_are_refused(impl: Any) -> None:
    """With a reason."""
    for number in (2**64, -(2**63) - 1, 10**40):
        with pytest.raises(EncodeError) as caught:
            impl.packb([number])
        assert caught.value.reason == "RANGE"


@pytest.mark.parametrize("size", [0, 15, 16, 31, 32, 255, 256, 65535, 65536])
def test_lengths_have_their_shortest_form(impl: Any, size: int) -> None:
    """Of text, bytes, arrays and maps."""
    for value in ("a" * size, b"a" * size, [None] * size, dict.fromkeys(map(str, range(size)))):
        packed = impl.packb(value)
        assert impl.unpackb(packed) == value
        assert impl.canonical(packed) == packed
    text, data = impl.packb("a" * size), impl.packb(b"a" * size)
    head = 1 if size < 32 else 2 if size < 256 else 3 if size < 65536 else 5
    assert len(text) == head + size
    assert len(data) == (2 if size < 256 else 3 if size < 65536 else 5) + size


def test_floats_keep_their_bits(impl: Any) -> None:
    """Also infinities, NaN and the sign of zero; 32-bit ones are widened."""
    for number in (0.0, -0.0, 1.5, math.inf, -math.inf, 5e-324, 1.7976931348623157e308):
        packed = impl.packb(number)
        assert packed == b"\xcb" + struct.pack(">d", number)
        assert struct.pack(">d", impl.unpackb(packed)) == packed[1:]
    assert math.isnan(impl.unpackb(impl.packb(math.nan)))
    assert impl.unpackb(b"\xca" + struct.pack(">f", 1.5)) == 1.5
    assert impl.canonical(b"\xca" + struct.pack(">f", 1.5)) == impl.packb(1.5)


def test_over_long_encodings_are_read_and_shrunk(impl: Any) -> None:
    """Every valid encoding is accepted."""
    for packed, value in (
        ("cc05", 5),
        ("cd0005", 5),
        ("ce00000005", 5),
        ("cf0000000000000005", 5),
        ("d005", 5),
        ("d1ffff", -1),
        ("d2ffffffff", -1),
        ("d3ffffffffffffffff", -1),
        ("d90161", "a"),
        ("da000161", "a"),
        ("db0000000161", "a"),
        ("c5000161", b"a"),
        ("c60000000161", b"a"),
        ("dc000105", [5]),
        ("dd0000000105", [5]),
        ("de00010506", {5: 6}),
        ("df000000010506", {5: 6}),
        ("c70105ff", None),
    ):
        if value is not None:
            assert impl.unpackb(raw(packed)) == value
            assert impl.canonical(raw(packed)) == impl.packb(value)
    ext = impl.unpackb(raw("c70105ff"))
    assert (ext.type, ext.data) == (5, b"\xff")
    assert impl.canonical(raw("c70105ff")).hex() == "d405ff"


def test_python_types_map_both_ways(impl: Any) -> None:
    """Tuples become lists, subclasses their base, buffers bytes; order is kept."""

    class Colour(enum.IntEnum):
        RED = 3

    assert impl.unpackb(impl.packb((1, (2,)))) == [1, [2]]
    assert impl.packb(Colour.RED) == b"\x03"
    assert impl.packb(impl.IdentityHash(bytes(16))) == impl.packb(bytes(16))
    for kind in ("bytearray", "memoryview", "array"):
        assert impl.packb(BUFFERS[kind](b"abc")) == impl.packb(b"abc")
    assert list(impl.unpackb(impl.packb({"z": 1, "a": 2, 5: 3, b"k": 4}))) == ["z", "a", 5, b"k"]
    assert impl.unpackb(impl.packb("größe")) == "größe"
    for value in (True, False, None):
        assert impl.unpackb(impl.packb(value)) is value


def test_what_has_no_encoding_is_a_type_error(impl: Any) -> None:
    """Wherever it lies."""
    for value in (object(), {1, 2}, 1j, [object()], {"k": {1}}, {(1, frozenset()): 1}):
        with pytest.raises(TypeError):
            impl.packb(value)
    with pytest.raises(UnicodeEncodeError):
        impl.packb("\ud800")


def test_arrays_as_keys_become_tuples(impl: Any) -> None:
    """Also nested ones, so that they are hashable."""
    packed = raw("8193019102c405" + "6162636465" + "c3")
    assert impl.unpackb(packed) == {(1, (2,), b"abcde"): True}
    assert impl.packb({(1, (2,), b"abcde"): True}) == packed


BROKEN = {
    "nothing": ("", "TRUNCATED", 0),
    "reserved": ("c1", "RESERVED", 0),
    "reserved inside": ("9201c1", "RESERVED", 2),
    "bad text": ("a2c328", "UTF8", 0),
    "surrogate": ("a3eda080", "UTF8", 0),
    "overlong text": ("a2c080", "UTF8", 0),
    "repeated key": ("8201020103", "DUPLICATE_KEY", 3),
    "equal keys": ("8201c0c3c0", "DUPLICATE_KEY", 3),
    "a map as a key": ("8180c0", "TYPE", 1),
    "a map inside a key": ("819180c0", "TYPE", 2),
    "short text": ("a361", "TRUNCATED", 0),
    "short array": ("9301", "TRUNCATED", 2),
    "long array of nothing": ("ddffffffff", "LIMIT", 0),
    "long map of nothing": ("dfffffffff", "LIMIT", 0),
    "long bytes of nothing": ("c6ffffffff", "TRUNCATED", 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_input_is_one_error_with_a_place(impl: Any, name: str) -> None:
    """The reason, and the offset where the item began."""
    packed, reason, offset = BROKEN[name]
    for call in (impl.unpackb, impl.canonical):
        with pytest.raises(DecodeError) as caught:
            call(raw(packed))
        assert (caught.value.reason, caught.value.offset) == (reason, offset)
        assert caught.value.codec == "msgpack"


def test_every_truncation_is_an_error(impl: Any) -> None:
    """Of a value with all types."""
    value = {"k": [1, -5, 2.5, b"x" * 40, "y" * 40, None, True, impl.Ext(-1, b"time")], 7: {}}
    packed = impl.packb(value)
    assert impl.unpackb(packed) == value
    for wrong in truncations(packed):
        with pytest.raises(DecodeError):
            impl.unpackb(wrong)


def test_bytes_after_the_value_are_ignored_or_refused(impl: Any) -> None:
    """As the caller wishes."""
    assert impl.unpackb(b"\x01\x02") == 1
    assert impl.canonical(b"\x01\x02") == b"\x01"
    assert impl.unpackb(b"\x01", trailing=False) == 1
    with pytest.raises(DecodeError) as caught:
        impl.unpackb(b"\x01\x02", trailing=False)
    assert (caught.value.reason, caught.value.offset) == ("TRAILING", 1)


def test_depth_is_bounded_both_ways(impl: Any) -> None:
    """By default to 64, by 256 at most; a list that holds itself ends there."""
    packed = b"\x91" * 64 + b"\xc0"
    assert impl.unpackb(packed)
    with pytest.raises(LimitError) as caught:
        impl.unpackb(b"\x91" + packed)
    assert (caught.value.reason, caught.value.offset) == ("DEPTH", 64)
    assert impl.unpackb(b"\x91" + packed, depth_max=65)
    assert impl.packb(impl.unpackb(packed)) == packed
    with pytest.raises(EncodeError) as caught:
        impl.packb([impl.unpackb(packed)])
    assert caught.value.reason == "DEPTH"
    with pytest.raises(LimitError):
        impl.unpackb(b"\x91" * 100_000)
    with pytest.raises(LimitError):
        impl.unpackb(b"\x90", depth_max=0)
    assert impl.unpackb(b"\x05", depth_max=0) == 5
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError):
        impl.packb(endless)


def test_the_number_of_elements_is_bounded(impl: Any) -> None:
    """Containers included, before anything is allocated."""
    packed = impl.packb([1, [2, 3], {4: 5}])
    assert impl.unpackb(packed, elements_max=8)
    with pytest.raises(LimitError) as caught:
        impl.unpackb(packed, elements_max=7)
    assert caught.value.reason == "LIMIT"


def test_array_keys_of_one_map_are_bounded(impl: Any) -> None:
    """To 64, both ways: tuples can be chosen to collide in a dict."""
    full = {(number,): None for number in range(64)}
    packed = impl.packb(full)
    assert impl.unpackb(packed) == full
    nested = {(): full, (0, (1,)): [full, full], b"more": {-1: full}}
    assert impl.unpackb(impl.packb(nested)) == nested
    for outer in (lambda value: value, lambda value: [{(1,): value}]):
        with pytest.raises(EncodeError) as caught:
            impl.packb(outer({**full, (64,): None}))
        assert caught.value.reason == "LIMIT"
    wrong = b"\xde\x00\x41" + packed[3:] + b"\x91\xc1"
    for call in (impl.unpackb, impl.canonical):
        with pytest.raises(LimitError) as found:
            call(wrong)
        assert (found.value.reason, found.value.offset) == ("LIMIT", len(packed))


def test_number_keys_of_one_map_are_bounded(impl: Any) -> None:
    """To 4096, both ways: a dict looks for chosen numbers along rows of taken places."""
    full: dict[Any, None] = dict.fromkeys(range(-2000, 2000))
    full |= dict.fromkeys(number + 0.5 for number in range(96))
    packed = impl.packb(full)
    assert impl.unpackb(packed) == full
    nested = {1: full, (5000, 5001): [full, full], b"more": {-1: full}}
    assert impl.unpackb(impl.packb(nested)) == nested
    names = {str(number): None for number in range(10_000)}
    assert impl.unpackb(impl.packb(names)) == names  # text and bytes are hashed with a secret
    for one_more in (9999, -9999, 0.25, math.nan):
        for outer in (lambda value: value, lambda value: [{b"x": value}]):
            with pytest.raises(EncodeError) as caught:
                impl.packb(outer({**full, one_more: None}))
            assert caught.value.reason == "LIMIT"
        wrong = b"\xde\x10\x01" + packed[3:] + impl.packb(one_more)
        for call in (impl.unpackb, impl.canonical):
            with pytest.raises(LimitError) as found:
                call(wrong)
            assert (found.value.reason, found.value.offset) == ("LIMIT", len(packed))


@pytest.mark.parametrize("calls", [0, 300, 600, 900])
def test_depth_is_an_error_of_its_own_wherever_the_caller_stands(impl: Any, calls: int) -> None:
    """The interpreter's limit of recursion shows itself as the one of depth."""

    def at(left: int, run: Callable[[], Any]) -> Any:
        return at(left - 1, run) if left else run()

    nested: Any = None
    for _ in range(256):
        nested = [nested]
    for data in (b"\x91" * 257, b"\x81\x01" * 257, b"\x91" * 255 + b"\x81" + b"\x91" * 99):
        with pytest.raises(LimitError) as caught:
            at(calls, lambda data=data: impl.unpackb(data, depth_max=256))
        assert caught.value.reason == "DEPTH"
    packed = impl.packb(nested, depth_max=256)

    def outcome(run: Callable[[], Any]) -> Any:
        try:
            return at(calls, run)
        except (EncodeError, LimitError) as error:
            return error.reason

    found = outcome(lambda: impl.packb(nested, depth_max=256))
    assert found == packed or (found == "DEPTH" and impl is not _core and calls > 0)
    found = outcome(lambda: impl.packb(impl.unpackb(packed, depth_max=256), depth_max=256))
    assert found == packed or (found == "DEPTH" and impl is not _core and calls > 0)
    with pytest.raises(EncodeError):
        at(calls, lambda: impl.packb([nested], depth_max=256))


@pytest.mark.parametrize("kind", BUFFERS)
def test_packed_bytes_come_in_every_kind_of_buffer(impl: Any, kind: str) -> None:
    """And results do not borrow from them."""
    buffer = BUFFERS[kind](impl.packb([b"some bytes", "text"]))
    found = impl.unpackb(buffer)
    if kind == "bytearray":
        buffer[:] = bytes(len(buffer))
    assert found == [b"some bytes", "text"]
    assert impl.canonical(BUFFERS[kind](b"\xcc\x05")) == b"\x05"


def test_wrong_types_are_type_errors(impl: Any) -> None:
    """Of the input and of the limits."""
    for wrong in NOT_BYTES.values():
        with pytest.raises(TypeError):
            impl.unpackb(wrong)
        with pytest.raises(TypeError):
            impl.canonical(wrong)


def test_an_extension_is_a_value(impl: Any) -> None:
    """A type from -128 to 127, and bytes."""
    for kind in (-128, -1, 0, 127):
        for size in (0, 1, 2, 3, 4, 8, 16, 17, 255, 256, 65536):
            ext = impl.Ext(kind, bytes(size))
            assert impl.unpackb(impl.packb(ext)) == ext
    assert impl.Ext(5, b"x") == impl.Ext(5, bytearray(b"x"))
    assert hash(impl.Ext(5, b"x")) == hash(impl.Ext(5, b"x"))
    assert len({impl.Ext(5, b"x"), impl.Ext(5, b"x"), impl.Ext(6, b"x"), impl.Ext(5, b"y")}) == 3
    assert impl.Ext(5, b"x") != (5, b"x")
    assert repr(impl.Ext(5, b"x")) == "Ext(type=5, data=b'x')"
    assert impl.unpackb(raw("81d405ffc3")) == {impl.Ext(5, b"\xff"): True}
    for kind in (-129, 128):
        with pytest.raises(ValueError, match="type"):
            impl.Ext(kind, b"")
    for wrong in ((5,), (5, "text"), ("5", b"")):
        with pytest.raises(TypeError):
            impl.Ext(*wrong)
    with pytest.raises((AttributeError, TypeError)):
        impl.Ext(5, b"x").data = b"y"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes export buffers since 3.12")
def test_a_container_that_changes_while_it_is_packed_is_refused() -> None:
    """A buffer may run code that changes what holds it: an error, never a crash."""
    holder: Any = []

    class Hostile:
        def __buffer__(self, flags: int) -> memoryview:
            holder.clear()
            gc.collect()
            return memoryview(b"x")

    holder = [Hostile(), [1] * 100, "text"]
    with pytest.raises(RuntimeError, match="changed"):
        _core.packb(holder)
    holder = {1: Hostile(), 2: [1] * 100}
    with pytest.raises(RuntimeError, match="changed"):
        _core.packb(holder)
