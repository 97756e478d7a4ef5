"""The two kinds of 16-byte addresses, which do not mix (RNS 1, 2.1 and 3.2)."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Self, final

from netmesh.constants import ADDRESS_SIZE
from netmesh.pure._wire import field_of_size, of_size, to_text

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Address", "DestinationHash", "IdentityHash", "address", "address_field"]

HEX_DIGITS = frozenset(string.hexdigits)


class Address(bytes):
    """16 bytes of one kind. Never equal to an address of another kind."""

    __slots__ = ()

    def __new__(cls, value: Buffer, /) -> Self:
        """Checks kind and length."""
        return super().__new__(cls, address(value, "value", cls))

    @classmethod
    def from_hex(cls, text: str, /) -> Self:
        """Reads 32 hexadecimal digits, also in the brackets that ``str()`` prints."""
        digits = to_text(text, "text")
        if digits.startswith("<") and digits.endswith(">"):
            digits = digits[1:-1]
        if len(digits) != 2 * ADDRESS_SIZE or not set(digits) <= HEX_DIGITS:
            raise ValueError(f"text must be {2 * ADDRESS_SIZE} hexadecimal digits, not {text!r}")
        return cls(bytes.fromhex(digits))

    def __eq__(self, other: object) -> bool:
        return NotImplemented if self._is_other_kind(other) else bytes.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return NotImplemented if self._is_other_kind(other) else bytes.__ne__(self, other)

    def __lt__(self, other: bytes) -> bool:
        return NotImplemented if self._is_other_kind(other) else bytes.__lt__(self, other)

    def __le__(self, other: bytes) -> bool:
        return NotImplemented if self._is_other_kind(other) else bytes.__le__(self, other)

    def __gt__(self, other: bytes) -> bool:
        return NotImplemented if self._is_other_kind(other) else bytes.__gt__(self, other)

    def __ge__(self, other: bytes) -> bool:
        return NotImplemented if self._is_other_kind(other) else bytes.__ge__(self, other)

    def _is_other_kind(self, other: object) -> bool:
        return isinstance(other, Address) and type(other) is not type(self)

    def __hash__(self) -> int:
        return bytes.__hash__(self)

    def __str__(self) -> str:
        return f"<{self.hex()}>"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.hex()}>"


@final
class IdentityHash(Address):
    """16 bytes naming an identity: T(public key) (RNS 1, 2.1)."""

    __slots__ = ()


@final
class DestinationHash(Address):
    """16 bytes naming a destination: T(name hash | identity hash) (RNS 1, 3.2)."""

    __slots__ = ()


def address(value: Buffer, name: str, kind: type[Address]) -> bytes:
    """The 16 bytes of an address argument: of its own kind, or plain bytes."""
    check_kind(value, name, kind)
    return bytes(of_size(value, name, ADDRESS_SIZE))


def address_field(value: Buffer, name: str, kind: type[Address]) -> bytes:
    """The same for a field that is being encoded: another length is an EncodeError."""
    check_kind(value, name, kind)
    return field_of_size(value, name, ADDRESS_SIZE)


def check_kind(value: Buffer, name: str, kind: type[Address]) -> None:
    """Refuses an address of the other kind."""
    if isinstance(value, Address) and not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__} or bytes, not {type(value).__name__}")
