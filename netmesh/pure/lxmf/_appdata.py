"""Announce app data of delivery destinations and propagation nodes (LXMF 5)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    LXMF_SF_COMPRESSION,
    LXMF_STAMP_COST_MAX,
    LXMF_STAMP_COST_MIN,
    NodeMeta,
)
from netmesh.errors import DecodeError
from netmesh.pure._wire import (
    assign,
    fault,
    refusal,
    to_bool,
    to_bytes,
    to_int,
    to_real,
    to_sequence,
    to_text,
)
from netmesh.pure.lxmf._payload import mapping
from netmesh.pure.msgpack import locate, packb, unpackb

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DeliveryAppData", "PropagationAppData"]

CODEC = "lxmf"
UINT32_MAX = 2**32 - 1
FUNCTIONS_MAX = 512  # codes that are announced
WHITE_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
DECIMAL = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")


@final
@dataclass(frozen=True, slots=True, init=False)
class DeliveryAppData:
    """Delivery announce app data: [name, stamp cost, [functionality codes]] (LXMF 5.1).

    A cost outside 1..254 becomes None, as the network does.
    """

    display_name: str | None
    stamp_cost: int | None
    compression: bool | None
    """Whether it can receive compressed resources; None: unknown, no app data."""
    functionality: tuple[int, ...]

    def __init__(
        self,
        *,
        display_name: str | None = None,
        stamp_cost: int | None = None,
        functionality: Sequence[int] = (LXMF_SF_COMPRESSION,),
    ) -> None:
        name = None if display_name is None else to_text(display_name, "display_name")
        cost = stamp_cost
        if cost is not None:
            to_int(cost, "stamp_cost", -(2**63), 2**63 - 1)
            cost = cost if LXMF_STAMP_COST_MIN <= cost <= LXMF_STAMP_COST_MAX else None
        items = to_sequence(functionality, "functionality")
        if len(items) > FUNCTIONS_MAX:
            raise ValueError(f"functionality has more than {FUNCTIONS_MAX} codes")
        codes = tuple(to_int(code, "functionality", 0, 2**63 - 1) for code in items)
        self._fill(name, cost, LXMF_SF_COMPRESSION in codes, codes)

    def _fill(
        self, name: str | None, cost: int | None, compression: bool | None, codes: tuple[int, ...]
    ) -> None:
        assign(
            self,
            display_name=name,
            stamp_cost=cost,
            compression=compression,
            functionality=codes,
        )

    @classmethod
    def unpack(cls, app_data: Buffer | None, /) -> DeliveryAppData:
        """Reads every form found on the network; never raises (LXMF 5.1).

        Nothing and empty data say nothing; 0x90..0x9f or 0xdc begin the array; anything
        else is the name alone, as before 0.5.0.
        """
        data = b"" if app_data is None else to_bytes(app_data, "app_data")
        found = object.__new__(cls)
        if not data:
            found._fill(None, None, None, ())
        elif not (0x90 <= data[0] <= 0x9F or data[0] == 0xDC):
            found._fill(decoded(data), None, True, (LXMF_SF_COMPRESSION,))
        else:
            try:
                found._fill(*read_delivery(unpackb(data)))
            except DecodeError:
                found._fill(None, None, None, ())
        return found

    def pack(self) -> bytes:
        """The array form, as sent now; EncodeError RANGE for a received negative code."""
        if any(code < 0 for code in self.functionality):
            raise refusal("RANGE", "functionality")
        name = None if self.display_name is None else self.display_name.encode()
        cost = self.stamp_cost
        if cost is not None and not LXMF_STAMP_COST_MIN <= cost <= LXMF_STAMP_COST_MAX:
            cost = None
        return packb([name, cost, list(self.functionality)])


def read_delivery(
    values: list[Any],
) -> tuple[str | None, int | None, bool, tuple[int, ...]]:
    """Name, cost, compression and codes of the array form."""
    name = clean_name(values[0]) if values and isinstance(values[0], bytes) else None
    cost = values[1] if len(values) > 1 else None
    if not isinstance(cost, int) or isinstance(cost, bool) or not 0 <= cost <= UINT32_MAX:
        cost = None
    if len(values) < 3 or not isinstance(values[2], list):
        return name, cost, True, (LXMF_SF_COMPRESSION,)
    codes = tuple(
        code for code in values[2] if isinstance(code, int) and not isinstance(code, bool)
    )
    return name, cost, LXMF_SF_COMPRESSION in values[2], codes


def clean_name(data: bytes) -> str | None:
    """A name without NUL characters and white space at its ends; None if undecodable."""
    name = decoded(data)
    return None if name is None else name.replace("\0", "").strip()


@final
@dataclass(frozen=True, slots=True, init=False)
class PropagationAppData:
    """Propagation node announce app data, an array of 7 (LXMF 5.2).

    ``metadata`` is the whole map and takes the place of name, version and
    implementation. Limits are kB; as floats they are packed as float64.
    """

    time: int
    active: bool
    transfer_limit_kb: int | float
    sync_limit_kb: int | float
    stamp_cost: int
    flexibility: int
    peering_cost: int
    name: str | None
    version: str | None
    implementation: str | None
    _metadata: bytes = field(repr=False)

    def __init__(
        self,
        *,
        time: int,
        active: bool,
        transfer_limit_kb: int | float,
        sync_limit_kb: int | float,
        stamp_cost: int,
        flexibility: int,
        peering_cost: int,
        name: str | None = None,
        version: str | None = None,
        implementation: str | None = None,
        metadata: Mapping[Any, Any] | None = None,
    ) -> None:
        moment = to_int(time, "time", -(2**63), 2**63 - 1)
        serves = to_bool(active, "active")
        limits = read_limits(
            limit(transfer_limit_kb, "transfer_limit_kb"), limit(sync_limit_kb, "sync_limit_kb")
        )
        costs = {
            "stamp_cost": to_int(stamp_cost, "stamp_cost", 0, UINT32_MAX),
            "flexibility": to_int(flexibility, "flexibility", 0, UINT32_MAX),
            "peering_cost": to_int(peering_cost, "peering_cost", 0, UINT32_MAX),
        }
        texts = described(entries(name, version, implementation, metadata))
        if not all(map(is_limit, limits)):
            raise refusal("RANGE", "node")
        assign(
            self,
            time=moment,
            active=serves,
            transfer_limit_kb=limits[0],
            sync_limit_kb=limits[1],
            **costs,
            **texts,
        )

    @classmethod
    def unpack(cls, app_data: Buffer, /) -> PropagationAppData:
        """Reads and validates (LXMF 5.2); numbers may be floats or decimal text.

        Raises:
            DecodeError: the announce is invalid.
        """
        data = to_bytes(app_data, "app_data")
        value, places = locate(data, CODEC, "node")
        if not isinstance(value, list):
            raise fault("TYPE", CODEC, "node")
        if len(value) < 7:
            raise fault("LENGTH", CODEC, "node")
        found = object.__new__(cls)
        moment = whole(*places[1], "node.timebase")
        active = flag(*places[2], "node.active")
        limits = read_limits(
            number(*places[3], "node.transfer_limit"), number(*places[4], "node.sync_limit")
        )
        costs = read_costs(data, *places[5])
        metadata, metadata_at = places[6]
        if not isinstance(metadata, dict):
            raise fault("TYPE", CODEC, "node.metadata", metadata_at)
        assign(
            found,
            time=moment,
            active=active,
            transfer_limit_kb=limits[0],
            sync_limit_kb=limits[1],
            stamp_cost=costs[0],
            flexibility=costs[1],
            peering_cost=costs[2],
            **described(metadata),
        )
        return found

    @property
    def metadata(self) -> dict[Any, Any]:
        """The whole map, decoded afresh."""
        metadata: dict[Any, Any] = unpackb(self._metadata)
        return metadata

    def pack(self) -> bytes:
        """The array of 7; its first element is false since 0.9.0."""
        limits = [self.transfer_limit_kb, self.sync_limit_kb]
        costs = [self.stamp_cost, self.flexibility, self.peering_cost]
        for name, cost in zip(("stamp_cost", "flexibility", "peering_cost"), costs, strict=True):
            if not 0 <= cost <= UINT32_MAX:
                raise refusal("RANGE", name)
        if not all(map(is_limit, limits)):
            raise refusal("RANGE", "node")
        head = packb([False, self.time, self.active, *limits, costs])
        return b"\x97" + head[1:] + self._metadata

    def __repr__(self) -> str:
        return (
            f"<PropagationAppData name={self.name!r} active={self.active} "
            f"stamp_cost={self.stamp_cost}>"
        )


def entries(
    name: str | None,
    version: str | None,
    implementation: str | None,
    metadata: Mapping[Any, Any] | None,
) -> dict[Any, Any]:
    """The map to announce: made of the texts, or given as a whole."""
    texts = {"name": name, "version": version, "implementation": implementation}
    for key, text in texts.items():
        if text is not None and metadata is not None:
            raise ValueError(f"metadata takes the place of {key}")
        if text is not None:
            to_text(text, key)
    if metadata is not None:
        return mapping(metadata, "metadata")
    # In the order of the network: implementation, version, name.
    made = {
        int(NodeMeta.IMPL_NAME): implementation,
        int(NodeMeta.VERSION): version,
        int(NodeMeta.NAME): None if name is None else name.encode(),
    }
    return {key: value for key, value in made.items() if value is not None}


def described(metadata: dict[Any, Any]) -> dict[str, Any]:
    """The attributes that the metadata fill: texts of the right type only."""
    name = metadata.get(NodeMeta.NAME)
    version = metadata.get(NodeMeta.VERSION)
    implementation = metadata.get(NodeMeta.IMPL_NAME)
    return {
        "name": decoded(name) if isinstance(name, bytes) else None,
        "version": version if isinstance(version, str) else None,
        "implementation": implementation if isinstance(implementation, str) else None,
        "_metadata": packb(metadata),
    }


def decoded(data: bytes) -> str | None:
    """UTF-8 text, None if it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def limit(value: int | float, name: str) -> int | float:
    """A limit, which keeps its type."""
    real = to_real(value, name)
    return value if isinstance(value, int) else real


def is_limit(value: int | float) -> bool:
    """Whether a limit can be written, and read again: integers have 32 bits, floats 64."""
    if isinstance(value, float):
        return -(2.0**63) < value < 2.0**63
    return 0 <= value <= UINT32_MAX


def read_limits(transfer: int | float, sync: int | float) -> list[int | float]:
    """Both limits: floats when either is one, as they are packed."""
    if isinstance(transfer, float) or isinstance(sync, float):
        return [float(transfer), float(sync)]
    return [transfer, sync]


def read_costs(data: bytes, costs: Any, offset: int) -> list[int]:
    """Stamp cost, flexibility and peering cost."""
    if not isinstance(costs, list):
        raise fault("TYPE", CODEC, "node.costs", offset)
    if len(costs) < 3:
        raise fault("LENGTH", CODEC, "node.costs", offset)
    places = locate(data, CODEC, "node.costs", offset)[1]
    names = ("node.stamp_cost", "node.flexibility", "node.peering_cost")
    return [whole(*place, name) for place, name in zip(places, names, strict=False)]


def number(value: Any, offset: int, name: str) -> int | float:
    """A number, a bool as 0 or 1, or decimal text; within 64 bits."""
    if isinstance(value, str | bytes):
        value = from_text(value, offset, name)
    if isinstance(value, float) and not math.isfinite(value):
        raise fault("VALUE", CODEC, name, offset)
    if not isinstance(value, int | float):
        raise fault("TYPE", CODEC, name, offset)
    lowest = -(2.0**63) if isinstance(value, float) else -(2**63) - 1
    if not lowest < value < 2**63:
        raise fault("RANGE", CODEC, name, offset)
    return int(value) if isinstance(value, bool) else value


def whole(value: Any, offset: int, name: str) -> int:
    """A number cut to an integer."""
    return int(number(value, offset, name))


def from_text(value: str | bytes, offset: int, name: str) -> int:
    """Decimal text as the network takes it: white space around it, single underscores."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    digits = text.strip(WHITE_SPACE)
    if not DECIMAL.fullmatch(digits):
        raise fault("VALUE", CODEC, name, offset)
    sign = -1 if digits[0] == "-" else 1
    magnitude = digits.lstrip("+-").replace("_", "").lstrip("0") or "0"
    if len(magnitude) > 19 or int(magnitude) >= 2**63:
        raise fault("RANGE", CODEC, name, offset)
    return sign * int(magnitude)


def flag(value: Any, offset: int, name: str) -> bool:
    """True or false, or a number that equals one of them."""
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    is_number = isinstance(value, int | float)
    raise fault("VALUE" if is_number else "TYPE", CODEC, name, offset)
