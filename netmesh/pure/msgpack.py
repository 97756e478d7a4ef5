"""MessagePack as Reticulum and LXMF use it (RNS 2, 0.3; LXMF 1).

The encoder emits the canonical form only: the shortest integers, 64-bit floats, text
and bytes kept apart. The decoder accepts every valid encoding within limits of depth
and number of elements.

=========  ==============================================
wire       Python
=========  ==============================================
nil        None
bool       bool
int        int, -2^63 .. 2^64 - 1
float      float (32-bit ones are widened)
str        str
bin        bytes
array      list; a tuple inside a map key
map        dict, order kept
ext        Ext
=========  ==============================================
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from netmesh.pure._wire import Reader, assign, fault, refusal, to_bool, to_bytes, to_int

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.errors import DecodeError

__all__ = ["Ext", "canonical", "packb", "unpackb"]

DEPTH_MAX = 64
ELEMENTS_MAX = 1_000_000
DEPTH_CAP = 256  # the most that a caller may allow
# Most arrays among the keys of one map. They become tuples, whose hash has no secret: a
# peer could choose thousands that collide in a dict.
ARRAY_KEYS_MAX = 64
# Most numbers among them, whose hash has no secret either: a peer could choose numbers of
# which each is looked for along a long row of taken places.
NUMBER_KEYS_MAX = 4096


@final
@dataclass(frozen=True, slots=True, init=False)
class Ext:
    """An extension value: a type of -128..127 and bytes."""

    type: int
    data: bytes

    def __init__(self, type: int, data: Buffer, /) -> None:  # noqa: A002
        assign(self, type=to_int(type, "type", -128, 127), data=to_bytes(data, "data"))


def packb(value: Any, /, *, depth_max: int = DEPTH_MAX) -> bytes:
    """The canonical encoding of a value (RNS 2, 0.3).

    Raises:
        TypeError: a type that has no encoding.
        EncodeError: RANGE for an integer outside -2^63..2^64-1, DEPTH for more nested
            arrays and maps than ``depth_max`` or than the interpreter's stack has room
            for, LIMIT for more than 64 tuples or 4096 numbers as keys of one dict.
        UnicodeEncodeError: text with lone surrogates.
    """
    out = bytearray()
    to_int(depth_max, "depth_max", 0, DEPTH_CAP)
    try:
        pack_value(out, value, depth_max)
    except RecursionError:
        raise refusal("DEPTH", "value") from None
    return bytes(out)


def pack_value(out: bytearray, value: Any, depth_left: int) -> None:
    """Appends one value."""
    if value is None:
        out.append(0xC0)
    elif value is False or value is True:
        out.append(0xC3 if value else 0xC2)
    elif isinstance(value, int):
        out += pack_int(value)
    elif isinstance(value, float):
        out += struct.pack(">Bd", 0xCB, value)
    elif isinstance(value, str):
        out += pack_text(value)
    elif isinstance(value, Ext):
        out += pack_ext(value)
    elif isinstance(value, list | tuple):
        out += head(len(value), fix=(0x90, 16), codes=(None, 0xDC, 0xDD))
        for item in value:
            pack_value(out, item, one_deeper(depth_left))
        one_deeper(depth_left)
    elif isinstance(value, dict):
        if sum(isinstance(key, list | tuple) for key in value) > ARRAY_KEYS_MAX:
            raise refusal("LIMIT", "value")
        if sum(isinstance(key, int | float) for key in value) > NUMBER_KEYS_MAX:
            raise refusal("LIMIT", "value")
        out += head(len(value), fix=(0x80, 16), codes=(None, 0xDE, 0xDF))
        for key, item in value.items():
            pack_value(out, key, one_deeper(depth_left))
            pack_value(out, item, one_deeper(depth_left))
        one_deeper(depth_left)
    else:
        data = to_bytes(value, "value")
        out += head(len(data), fix=(0, 0), codes=(0xC4, 0xC5, 0xC6)) + data


def one_deeper(depth_left: int) -> int:
    """The depth left inside an array or map."""
    if depth_left < 1:
        raise refusal("DEPTH", "value")
    return depth_left - 1


def pack_int(value: int) -> bytes:
    """The shortest encoding; unsigned for what is not negative."""
    if -32 <= value < 128:
        return struct.pack(">b", value)
    for code, low, high, form in (
        (0xCC, 0, 1 << 8, "B"),
        (0xCD, 0, 1 << 16, "H"),
        (0xCE, 0, 1 << 32, "I"),
        (0xCF, 0, 1 << 64, "Q"),
        (0xD0, -1 << 7, 0, "b"),
        (0xD1, -1 << 15, 0, "h"),
        (0xD2, -1 << 31, 0, "i"),
        (0xD3, -1 << 63, 0, "q"),
    ):
        if low <= value < high:
            return struct.pack(f">B{form}", code, value)
    raise refusal("RANGE", "value")


def head(size: int, *, fix: tuple[int, int], codes: tuple[int | None, int, int]) -> bytes:
    """The header of something with a length: in the code itself, or 8, 16, 32 bits after it."""
    base, limit = fix
    if size < limit:
        return bytes([base | size])
    for code, form in zip(codes, "BHI", strict=True):
        if code is not None and size < 1 << 8 * struct.calcsize(form):
            return struct.pack(f">B{form}", code, size)
    raise refusal("TOO_LARGE", "value")


def pack_text(value: str) -> bytes:
    """UTF-8 text with its header."""
    data = value.encode()
    return head(len(data), fix=(0xA0, 32), codes=(0xD9, 0xDA, 0xDB)) + data


def pack_ext(value: Ext) -> bytes:
    """An extension; sizes 1, 2, 4, 8 and 16 have codes of their own."""
    size = len(value.data)
    if size in (1, 2, 4, 8, 16):
        start = bytes([0xD4 + size.bit_length() - 1])
    else:
        start = head(size, fix=(0, 0), codes=(0xC7, 0xC8, 0xC9))
    return start + struct.pack(">b", value.type) + value.data


def unpackb(
    data: Buffer,
    /,
    *,
    depth_max: int = DEPTH_MAX,
    elements_max: int = ELEMENTS_MAX,
    trailing: bool = True,
) -> Any:
    """The first value in ``data``; bytes after it are ignored unless ``trailing`` is False.

    Raises:
        DecodeError: TRUNCATED, RESERVED (0xc1), UTF8, DUPLICATE_KEY, TYPE for a map key
            that holds a map, TRAILING.
        LimitError: DEPTH, also where the interpreter's stack has no room for as much;
            LIMIT for more than ``elements_max`` values, containers included, or for more
            than 64 arrays or 4096 numbers as keys of one map.
    """
    to_int(depth_max, "depth_max", 0, DEPTH_CAP)
    to_int(elements_max, "elements_max", 0, 2**32 - 1)
    to_bool(trailing, "trailing")
    unpacker = Unpacker(Reader(to_bytes(data, "data"), "msgpack"), depth_max, elements_max)
    value = unpacker.value()
    if not trailing and unpacker.reader.left:
        raise unpacker.reader.fault("TRAILING", "value")
    return value


def canonical(data: Buffer, /) -> bytes:
    """The canonical re-encoding of the first value (LXMF 2.4).

    Map order is kept, 32-bit floats become 64-bit ones, over-long integers shrink.
    """
    return packb(unpackb(data))


def locate(
    data: bytes, codec: str, field: str, start: int = 0
) -> tuple[Any, list[tuple[Any, int]]]:
    """The value at ``start``, and each element of an array or value of a map with its offset.

    Structured payloads are read with it: first the MessagePack as such must be good
    (errors name ``field``), then the elements are judged, each where it is.
    """
    value = Unpacker(Reader(data, codec, start), field=field).value()
    head_size = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}.get(data[start], 1)
    walker = Unpacker(Reader(data, codec, start + head_size), field=field)
    places = []
    if isinstance(value, list):
        for item in value:
            places.append((item, walker.reader.position))
            walker.skip()
    elif isinstance(value, dict):
        for item in value.values():
            walker.skip_key()
            places.append((item, walker.reader.position))
            walker.skip()
    return value, places


class Unpacker:
    """Decodes values one after the other from a reader, within limits."""

    def __init__(
        self,
        reader: Reader,
        depth_max: int = DEPTH_MAX,
        elements_max: int = ELEMENTS_MAX,
        field: str = "value",
    ) -> None:
        self.reader = reader
        self.depth_left = depth_max
        self.elements_left = elements_max
        self.field = field
        self.in_key = False
        self.key_start = -1
        self.array_keys = 0

    def value(self) -> Any:
        """The next whole value."""
        if self.elements_left < 1:
            raise self.reader.fault("LIMIT", self.field)
        self.elements_left -= 1
        try:
            return self.item()
        except RecursionError:  # the caller's own calls left too little of the stack
            raise self.reader.fault("DEPTH", self.field) from None

    def open(self) -> tuple[str, Any]:
        """Takes one item: ("array", count) or ("map", count) of a header, or ("value", it)."""
        start = self.reader.position
        code = self.number("B", start)
        if 0x80 <= code < 0x90:
            return "map", code & 15
        if 0x90 <= code < 0xA0:
            return "array", code & 15
        if 0xDC <= code <= 0xDF:
            form, kind = SIZED[code]
            return kind, self.number(form, start)
        self.reader.position = start
        return "value", self.item()

    def skip(self) -> None:
        """Passes over a value that was decoded before."""
        self.item()

    def skip_key(self) -> None:
        """Passes over a map key that was decoded before."""
        self.in_key = True
        self.item()
        self.in_key = False

    def item(self) -> Any:
        """The next value, which has been counted already."""
        start = self.reader.position
        code = self.number("B", start)
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code < 0x90:
            return self.map(code & 15, start)
        if code < 0xA0:
            return self.array(code & 15, start)
        if code < 0xC0:
            return self.text(code & 31, start)
        if code in CONSTANTS:
            return CONSTANTS[code]
        if code in NUMBERS:
            return self.number(NUMBERS[code], start)
        if code in FIXED_EXT:
            return self.ext(FIXED_EXT[code], start)
        if code not in SIZED:
            raise self.fault("RESERVED", start)
        form, kind = SIZED[code]
        return getattr(self, kind)(self.number(form, start), start)

    def fault(self, reason: str, start: int) -> DecodeError:
        """The error for the value that began at ``start``."""
        return fault(reason, self.reader.codec, self.field, start)

    def bytes(self, size: int, start: int) -> bytes:
        """``size`` bytes of a value that began at ``start``."""
        if self.reader.left < size:
            raise self.fault("TRUNCATED", start)
        return self.reader.take(size, self.field)

    def number(self, form: str, start: int) -> Any:
        """A big-endian number in a format of :mod:`struct`."""
        return struct.unpack(f">{form}", self.bytes(struct.calcsize(form), start))[0]

    def text(self, size: int, start: int) -> str:
        """UTF-8 text."""
        data = self.bytes(size, start)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.fault("UTF8", start) from None

    def ext(self, size: int, start: int) -> Ext:
        """An extension of ``size`` bytes."""
        kind = self.number("b", start)
        return Ext(kind, self.bytes(size, start))

    def array(self, count: int, start: int) -> list[Any] | tuple[Any, ...]:
        """``count`` values; a tuple inside a map key, where it must be hashable."""
        if start == self.key_start:
            self.array_keys += 1
            if self.array_keys > ARRAY_KEYS_MAX:
                raise self.fault("LIMIT", start)
        self.enter(count, start)
        items = [self.item() for _ in range(count)]
        self.depth_left += 1
        return tuple(items) if self.in_key else items

    def map(self, count: int, start: int) -> dict[Any, Any]:
        """``count`` pairs. 1, 1.0 and true are one key, as in a Python dict (LXMF 1)."""
        if self.in_key:
            raise self.fault("TYPE", start)
        self.enter(2 * count, start)
        result: dict[Any, Any] = {}
        repeated = None
        numbers = 0
        outer_keys, self.array_keys = self.array_keys, 0
        for _ in range(count):
            key_start = self.key_start = self.reader.position
            self.in_key = True
            key = self.item()
            self.in_key = False
            if isinstance(key, int | float):
                numbers += 1
                if numbers > NUMBER_KEYS_MAX:
                    raise self.fault("LIMIT", key_start)
            if key in result and repeated is None:
                repeated = key_start
            result[key] = self.item()
        self.array_keys = outer_keys
        if repeated is not None:
            raise self.fault("DUPLICATE_KEY", repeated)
        self.depth_left += 1
        return result

    def enter(self, count: int, start: int) -> None:
        """Counts the values of an array or map that began at ``start``, and goes into it."""
        if self.depth_left < 1:
            raise self.fault("DEPTH", start)
        if count > self.elements_left:
            raise self.fault("LIMIT", start)
        self.depth_left -= 1
        self.elements_left -= count


CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = {
    0xCA: "f",
    0xCB: "d",
    0xCC: "B",
    0xCD: "H",
    0xCE: "I",
    0xCF: "Q",
    0xD0: "b",
    0xD1: "h",
    0xD2: "i",
    0xD3: "q",
}
FIXED_EXT = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
SIZED = {
    0xC4: ("B", "bytes"),
    0xC5: ("H", "bytes"),
    0xC6: ("I", "bytes"),
    0xC7: ("B", "ext"),
    0xC8: ("H", "ext"),
    0xC9: ("I", "ext"),
    0xD9: ("B", "text"),
    0xDA: ("H", "text"),
    0xDB: ("I", "text"),
    0xDC: ("H", "array"),
    0xDD: ("I", "array"),
    0xDE: ("H", "map"),
    0xDF: ("I", "map"),
}
