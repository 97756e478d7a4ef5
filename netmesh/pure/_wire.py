"""What all codecs share: the error texts, a reader of bytes, and checks of arguments.

The rules are those of the whole package. Bytes from a peer raise
:class:`~netmesh.errors.DecodeError` with the place where the broken field begins; a
caller's value that cannot be encoded raises :class:`~netmesh.errors.EncodeError` or
:class:`ValueError`; a wrong Python type raises :class:`TypeError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from netmesh.errors import DecodeError, EncodeError, LimitError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "NotConstructible",
    "Reader",
    "Secret",
    "assign",
    "fault",
    "field_of_size",
    "of_size",
    "optional_of_size",
    "refusal",
    "text_or_bytes",
    "to_bool",
    "to_byte_strings",
    "to_bytes",
    "to_int",
    "to_real",
    "to_sequence",
    "to_text",
    "to_threads",
]

# The texts complete the sentence "field F: ...".
TEXTS = {
    "TRUNCATED": "ends before the field is complete",
    "TRAILING": "has bytes after its end",
    "EMPTY": "is empty",
    "TYPE": "has a type that is not allowed here",
    "VALUE": "has a value that is not allowed here",
    "LENGTH": "has a length that is not allowed here",
    "RANGE": "is out of range",
    "UTF8": "is not valid UTF-8",
    "DUPLICATE_KEY": "repeats a map key",
    "MISSING": "is missing",
    "RESERVED": "uses a reserved code",
    "ESCAPE": "has an invalid escape sequence",
    "DEPTH": "nests deeper than the limit",
    "LIMIT": "exceeds the limit",
    "TOO_LARGE": "does not fit the available size",
    "COMPRESSED": "is not a complete bzip2 stream",
    "PADDING": "has invalid padding",
    "MISMATCH": "does not match what was expected",
    "MODE": "names a mode that is not enabled",
    "STATE": "is not allowed in this state",
    "COLLISION": "has colliding map hashes",
}


def fault(reason: str, codec: str, field: str, offset: int = 0) -> DecodeError:
    """The error for bytes of format ``codec`` whose ``field`` at ``offset`` breaks a rule."""
    kind = LimitError if reason in ("LIMIT", "DEPTH") else DecodeError
    message = f"{codec}: field {field} at offset {offset} {TEXTS[reason]}"
    return kind(message, reason=reason, codec=codec, field=field, offset=offset)


def refusal(reason: str, field: str) -> EncodeError:
    """The error for a caller's value that cannot be put on the wire."""
    return EncodeError(f"{field} {TEXTS[reason]}", reason=reason, field=field)


class Reader:
    """Walks over the bytes of one input and says where they end too early."""

    __slots__ = ("codec", "data", "position")

    def __init__(self, data: bytes, codec: str, position: int = 0) -> None:
        self.data = data
        self.codec = codec
        self.position = position

    @property
    def left(self) -> int:
        """How many bytes have not been taken yet."""
        return len(self.data) - self.position

    def take(self, size: int, field: str) -> bytes:
        """The next ``size`` bytes; TRUNCATED, at their beginning, when there are fewer."""
        if self.left < size:
            raise self.fault("TRUNCATED", field)
        start = self.position
        self.position += size
        return self.data[start : self.position]

    def uint(self, size: int, field: str) -> int:
        """The next ``size`` bytes as a big-endian number."""
        return int.from_bytes(self.take(size, field), "big")

    def rest(self) -> bytes:
        """All that is left, possibly nothing."""
        return self.take(self.left, "rest")

    def fault(self, reason: str, field: str) -> DecodeError:
        """The error for a field that begins here."""
        return fault(reason, self.codec, field, self.position)


def to_bytes(value: Buffer, name: str) -> bytes:
    """The content of any contiguous bytes-like object; ``bytes`` are not copied."""
    if isinstance(value, bytes):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"{name} must be a bytes-like object, not {type(value).__name__}") from None
    if not view.c_contiguous:
        raise TypeError(f"{name} must be a contiguous bytes-like object")
    return view.tobytes()


def of_size(value: Buffer, name: str, size: int) -> bytes:
    """The content of a buffer that must hold exactly ``size`` bytes."""
    data = to_bytes(value, name)
    if len(data) != size:
        raise ValueError(f"{name} must be {size} bytes, not {len(data)}")
    return data


def field_of_size(value: Buffer, name: str, size: int) -> bytes:
    """A field that is being encoded: EncodeError LENGTH for another size."""
    data = bytes(to_bytes(value, name))
    if len(data) != size:
        message = f"{name} must be {size} bytes, not {len(data)}"
        raise EncodeError(message, reason="LENGTH", field=name)
    return data


def optional_of_size(value: Buffer | None, name: str, size: int) -> bytes | None:
    """As :func:`of_size`, and None for None."""
    return None if value is None else of_size(value, name, size)


def to_sequence(value: Sequence[Any], name: str) -> tuple[Any, ...]:
    """The items of a sequence other than text and bytes-like objects."""
    if isinstance(value, str) or is_buffer(value) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a sequence of objects, not {type(value).__name__}")
    return tuple(value)


def is_buffer(value: object) -> bool:
    """Whether it is a bytes-like object, contiguous or not."""
    try:
        memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def to_byte_strings(value: Sequence[Buffer], name: str, size: int | None = None) -> list[bytes]:
    """The contents of a sequence of buffers, each of ``size`` bytes when that is given."""
    items = [to_bytes(item, name) for item in to_sequence(value, name)]
    return items if size is None else [of_size(item, name, size) for item in items]


def to_text(value: str, name: str) -> str:
    """A ``str`` argument, checked; a UnicodeEncodeError for lone surrogates."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {type(value).__name__}")
    value.encode()
    return value


def text_or_bytes(value: str | Buffer, name: str) -> bytes:
    """Text as UTF-8, or the content of a buffer."""
    if isinstance(value, str):
        return value.encode()
    return to_bytes(value, name)


def to_int(value: int, name: str, low: int, high: int) -> int:
    """An ``int`` argument within ``low``..``high``; a ValueError outside."""
    if not isinstance(value, int):
        raise TypeError(f"{name} must be int, not {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low}..{high}, not {value}")
    return int.__index__(value)  # also of a bool, as a plain int


def to_threads(value: int) -> int:
    """A number of threads: 1..256, although the pure reference works on one."""
    return to_int(value, "threads", 1, 256)


def to_bool(value: bool, name: str) -> bool:
    """True or False and nothing else."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be bool, not {type(value).__name__}")
    return value


def to_real(value: float, name: str) -> float:
    """A finite number as a float."""
    if not isinstance(value, int | float):
        raise TypeError(f"{name} must be int or float, not {type(value).__name__}")
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    if not math.isfinite(real):
        raise ValueError(f"{name} must be finite, not {value!r}")
    return real


def assign(target: object, **fields: Any) -> None:
    """Fills the slots of an immutable object while it is being made."""
    for name, value in fields.items():
        object.__setattr__(target, name, value)


class Secret:
    """Base of the classes that may hold private keys: they are not pickled."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__}: it may hold private keys")


class NotConstructible:
    """Base of the classes that only their class methods make."""

    __slots__ = ()

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TypeError(f"{type(self).__name__} objects are made by class methods")
