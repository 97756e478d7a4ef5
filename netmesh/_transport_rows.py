"""Between the core's dicts and the records of :mod:`netmesh.transport`."""

from __future__ import annotations

import struct
from dataclasses import fields
from typing import Any, Final

from netmesh import _records
from netmesh import transport as t

Record = (
    t.AlternativeRecord
    | t.ControlRecord
    | t.HeldRecord
    | t.PassedRequestRecord
    | t.QueuedRecord
    | t.RateRecord
    | t.RebroadcastRecord
    | t.ReverseRecord
    | t.SearchRecord
    | t.TransitRecord
    | t.TunnelPathRecord
    | t.TunnelRecord
)

TABLES: Final[dict[str, type[Any]]] = {
    "rebroadcasts": t.RebroadcastRecord,
    "held": t.HeldRecord,
    "queued": t.QueuedRecord,
    "controls": t.ControlRecord,
    "alternatives": t.AlternativeRecord,
    "rates": t.RateRecord,
    "reverses": t.ReverseRecord,
    "transits": t.TransitRecord,
    "tunnels": t.TunnelRecord,
    "tunnel_paths": t.TunnelPathRecord,
    "searches": t.SearchRecord,
    "passed_requests": t.PassedRequestRecord,
}
"""The record of each table, by the core's name of the table."""

NAMES: Final[dict[type[Any], str]] = {kind: name for name, kind in TABLES.items()}
"""The table of each record."""

_KEYS: Final[dict[type[Any], dict[str, str]]] = {
    t.RateRecord: {"times_s": "times"},
    t.ReverseRecord: {"packet": "key"},
    t.TransitRecord: {
        "link_id": "id",
        "next_interface": "next_iface",
        "received_interface": "received_iface",
    },
    t.TunnelRecord: {"tunnel_id": "id"},
    t.TunnelPathRecord: {"tunnel_id": "tunnel", "random_blobs": "blobs"},
    t.SearchRecord: {"interfaces": "ifaces"},
}
"""Where the core has another name than the record."""

_OPTIONAL_IDS: Final = {(t.RebroadcastRecord, "attached"), (t.RebroadcastRecord, "interface")} | {
    (t.TunnelRecord, "interface")
}
_NOT_READ: Final = {(t.RebroadcastRecord, "aside"), (t.TunnelRecord, "paths")} | {
    (t.ControlRecord, f"{what}_{way}_rate")
    for what in ("announces", "requests")
    for way in ("in", "out")
}
_SECONDS: Final = {(t.RateRecord, "last_s"), (t.RateRecord, "blocked_until_s")}
"""Times that the core has in seconds."""


def _key(kind: type[Any], name: str) -> str:
    special = _KEYS.get(kind, {}).get(name)
    if special is not None:
        return special
    if (kind, name) in _SECONDS:
        return name
    if name.endswith("_unix_s"):
        return name.removesuffix("_s") + "_us"
    if name.endswith("_s"):
        return name.removesuffix("_s") + "_mono_us"
    return "iface" if name == "interface" else name


def record_of(kind: type[Any], core: dict[str, Any]) -> Any:
    """The record of what the core gives."""
    given: dict[str, Any] = {}
    for field in fields(kind):
        value = core[_key(kind, field.name)]
        if field.name == "times_s":
            value = tuple(map(_records.to_s, struct.unpack(f">{len(value) // 8}Q", value)))
        elif field.name.endswith("_s") and (kind, field.name) not in _SECONDS:
            value = _records.to_s(value)
        elif field.name == "random_blobs":
            value = _records.blobs(value)
        elif field.name == "interfaces":
            value = struct.unpack(f">{len(value) // 4}I", value)
        elif (kind, field.name) in _OPTIONAL_IDS:
            value = value or None
        given[field.name] = value
    return kind(**given)


def row_of(record: Record) -> dict[str, Any]:
    """What the core takes for a record."""
    kind = type(record)
    row: dict[str, Any] = {}
    for field in fields(record):
        name, value = field.name, getattr(record, field.name)
        if (kind, name) in _NOT_READ or name.endswith("_unix_s"):
            continue
        if name == "times_s":
            value = struct.pack(f">{len(value)}Q", *map(_records.to_us, value))
        elif name.endswith("_s") and (kind, name) not in _SECONDS:
            value = _records.to_us(value)
        elif name == "random_blobs":
            value = b"".join(value)
        elif name == "interfaces":
            value = struct.pack(f">{len(value)}I", *value)
        elif (kind, name) in _OPTIONAL_IDS:
            value = value or 0
        row[_key(kind, name)] = value
    return row
