"""The parts of a message's payload: what is taken from the wire and from callers (LXMF 2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netmesh.constants import LXMF_STAMP_SIZE, LXMF_TICKET_SIZE
from netmesh.errors import DecodeError
from netmesh.pure._wire import Reader, fault, refusal, to_bytes
from netmesh.pure.msgpack import Unpacker

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "CODEC",
    "check_fields",
    "fitting_stamp",
    "mapping",
    "open_payload",
    "take",
    "take_fields",
]

CODEC = "lxmf"


def fitting_stamp(stamp: Buffer) -> bytes:
    """A stamp that can be told from none: 32 bytes, or 16 made from a ticket."""
    data = bytes(to_bytes(stamp, "stamp"))
    if len(data) not in (LXMF_STAMP_SIZE, LXMF_TICKET_SIZE):
        raise refusal("LENGTH", "stamp")
    return data


def mapping(value: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    """A mapping as a dict of its own."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    return dict(value)


def check_fields(packed: bytes) -> None:
    """Fields that are packed already must be one map and nothing else."""
    reader = Reader(packed, CODEC)
    try:
        kind, _ = Unpacker(reader, field="fields").open()
        if kind == "map":
            reader.position = 0
            Unpacker(reader, field="fields").value()
    except DecodeError as error:
        raise refusal(error.reason, "fields") from None
    if kind != "map" or reader.left:
        raise refusal("TRAILING" if kind == "map" else "TYPE", "fields")


def open_payload(reader: Reader) -> int:
    """Goes into the payload array; its number of elements, at least 4."""
    start = reader.position
    kind, count = Unpacker(reader, field="payload").open()
    if kind != "array":
        raise fault("TYPE", CODEC, "payload", start)
    if count < 4:
        raise fault("LENGTH", CODEC, "payload", start)
    return int(count)


def take(reader: Reader, name: str, types: tuple[type, ...]) -> Any:
    """The next element, of one of the given types."""
    start = reader.position
    kind, value = Unpacker(reader, field=name).open()
    if kind != "value" or isinstance(value, bool) or not isinstance(value, types):
        raise fault("TYPE", CODEC, name, start)
    return value


def take_fields(reader: Reader) -> dict[Any, Any] | None:
    """The map of fields, or nil."""
    start = reader.position
    kind, value = Unpacker(reader, field="fields").open()
    if kind != "map":
        if kind == "value" and value is None:
            return None
        raise fault("TYPE", CODEC, "fields", start)
    reader.position = start
    fields: dict[Any, Any] = Unpacker(reader, field="fields").value()
    return fields
