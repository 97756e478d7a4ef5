"""Telemetry: sensor readings packed into one byte string (LXMF 13.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from netmesh.errors import DecodeError
from netmesh.lxmf._field_values import (
    ADDRESS_SIZE,
    Appearance,
    appearance_row,
    as_bytes,
    as_row,
    as_text,
    bad,
    is_number,
    read_appearance,
    unfit,
)
from netmesh.msgpack import packb, unpackb


class Sensor(IntEnum):
    """Keys of a telemetry map (LXMF 13.2)."""

    TIME = 0x01
    LOCATION = 0x02
    PRESSURE = 0x03
    BATTERY = 0x04
    PHYSICAL_LINK = 0x05
    ACCELERATION = 0x06
    TEMPERATURE = 0x07
    HUMIDITY = 0x08
    MAGNETIC_FIELD = 0x09
    AMBIENT_LIGHT = 0x0A
    GRAVITY = 0x0B
    ANGULAR_VELOCITY = 0x0C
    PROXIMITY = 0x0E
    INFORMATION = 0x0F
    RECEIVED = 0x10
    POWER_CONSUMPTION = 0x11
    POWER_PRODUCTION = 0x12
    PROCESSOR = 0x13
    RAM = 0x14
    NVM = 0x15
    TANK = 0x16
    FUEL = 0x17
    LXMF_PROPAGATION = 0x18
    RNS_TRANSPORT = 0x19
    CONNECTION_MAP = 0x1A
    INTERFACES = 0x1B
    CUSTOM = 0xFF


@dataclass(frozen=True, slots=True)
class Location:
    """A position. Degrees, metres, km/h; ``updated`` is Unix seconds."""

    latitude: float
    longitude: float
    altitude_m: float
    speed_kmh: float
    bearing: float
    accuracy_m: float
    updated: int


@dataclass(frozen=True, slots=True)
class Battery:
    """Its charge in per cent, whether it is charging, and its temperature where that is told."""

    percent: float
    charging: bool
    temperature_c: float | None = None


@dataclass(frozen=True, slots=True)
class PhysicalLink:
    """How the sender hears its radio; what it does not measure is None."""

    rssi_dbm: float | None
    snr_db: float | None
    quality_pct: float | None


class Vector(NamedTuple):
    """A reading along three axes."""

    x: float
    y: float
    z: float


@dataclass(frozen=True, slots=True)
class Reading:
    """One of several sources of a kind: its label, and what it shows, as sent."""

    label: Any
    value: Any


Number = int | float
Readings = tuple[Reading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The readings of one telemetry field; None or empty where there is none.

    A reading that is unknown, or not what deployed programs send, is in ``other`` under its
    sensor id as it was sent, and :meth:`pack` puts it back.

    Example:
        >>> sent = Telemetry(time=1700000000, battery=Battery(87.5, True), other={0x42: b"?"})
        >>> Telemetry.unpack(sent.pack()) == sent
        True
    """

    time: int | None = None
    """When it was measured, Unix seconds."""
    location: Location | None = None
    pressure_mbar: Number | None = None
    battery: Battery | None = None
    physical_link: PhysicalLink | None = None
    acceleration: Vector | None = None
    temperature_c: Number | None = None
    humidity_pct: Number | None = None
    magnetic_field: Vector | None = None
    ambient_light_lux: Number | None = None
    gravity: Vector | None = None
    angular_velocity: Vector | None = None
    proximity: bool | Number | None = None
    information: str | None = None
    power_consumption: Readings = ()
    power_production: Readings = ()
    processor: Readings = ()
    ram: Readings = ()
    nvm: Readings = ()
    tank: Readings = ()
    fuel: Readings = ()
    custom: Readings = ()
    other: dict[Any, Any] = field(default_factory=dict)
    """Everything else by sensor id, as sent."""

    @classmethod
    def unpack(cls, packed: bytes) -> Telemetry:
        """Reads a telemetry field.

        Raises:
            DecodeError: ``packed`` is not a msgpack map. A malformed reading raises nothing.
        """
        known: dict[str, Any] = {}
        other: dict[Any, Any] = {}
        for sensor, value in _map(packed).items():
            kind = _KINDS.get(sensor) if type(sensor) is int else None
            try:
                reading = None if kind is None else kind.read(value)
            except DecodeError:
                reading = None
            if kind is None or reading is None or reading == ():
                other[sensor] = value
            else:
                known[kind.name] = reading
        return cls(**known, other=other)

    def pack(self) -> bytes:
        """The byte string of a telemetry field, the time first.

        Raises:
            EncodeError: A reading is out of the range of its form.
        """
        found: dict[Any, Any] = {}
        for sensor, kind in _KINDS.items():
            value = getattr(self, kind.name)
            if value is not None and value != ():
                found[int(sensor)] = kind.write(value)
        return bytes(packb({**found, **{k: v for k, v in self.other.items() if k not in found}}))


@dataclass(frozen=True, slots=True)
class TelemetryReport:
    """One row of a collector's answer: whose (16 bytes), of when, what, and how to draw it."""

    source: bytes
    time: int
    telemetry: Telemetry
    appearance: Appearance | None = None


def unpack_telemetry(packed: bytes) -> dict[int, Any]:
    """Sensor id to reading; a location becomes a :class:`Location`, others stay as sent.

    Raises:
        DecodeError: ``packed`` is not a msgpack map, or its location is malformed.
    """
    found = dict(_map(packed))
    if found.get(Sensor.LOCATION) is not None:
        found[int(Sensor.LOCATION)] = _read_location(found[Sensor.LOCATION])
    return found


def read_report(value: object) -> TelemetryReport:
    """One row of a telemetry stream; an appearance that is malformed is left out."""
    row = as_row(value, 3, "telemetry stream")
    if not is_number(row[1]):
        raise bad("telemetry stream", "has a time that is not a number")
    appearance = None
    if len(row) > 3 and row[3]:
        try:
            appearance = read_appearance(row[3])
        except DecodeError:
            appearance = None
    return TelemetryReport(
        as_bytes(row[0], "telemetry stream", ADDRESS_SIZE),
        int(row[1]),
        Telemetry.unpack(as_bytes(row[2], "telemetry stream")),
        appearance,
    )


def report_row(report: TelemetryReport) -> list[Any]:
    """What goes on the wire."""
    if len(report.source) != ADDRESS_SIZE:
        raise unfit("telemetry stream", "takes a source of 16 bytes", "LENGTH")
    drawn = None if report.appearance is None else appearance_row(report.appearance)
    return [bytes(report.source), report.time, report.telemetry.pack(), drawn]


# ------------------------------------------------------------------------ readings

# Bytes, signed, and steps a unit of each number of a location. What is read as two's
# complement was written as unsigned by old clients: the same bytes for what is not negative.
_PARTS: Final = (
    ("latitude", 4, True, 1e6),
    ("longitude", 4, True, 1e6),
    ("altitude_m", 4, True, 100),
    ("speed_kmh", 4, False, 100),
    ("bearing", 4, True, 100),
    ("accuracy_m", 2, False, 100),
)


def _map(packed: bytes) -> dict[Any, Any]:
    found = unpackb(packed)
    if not isinstance(found, dict):
        raise bad("telemetry", "is not a map")
    return found


def _read_location(value: object) -> Location:
    row = as_row(value, 7, "location")
    numbers = {}
    for place, (name, size, signed, steps) in enumerate(_PARTS):
        raw = as_bytes(row[place], "location")
        if len(raw) != size:
            raise bad("location", f"has a number of {len(raw)} bytes, not {size}", "LENGTH")
        numbers[name] = int.from_bytes(raw, "big", signed=signed) / steps
    if not isinstance(row[6], int):
        raise bad("location", "has an update time that is not an integer")
    return Location(**numbers, updated=int(row[6]))


def _write_location(location: Location) -> list[Any]:
    row: list[Any] = []
    for name, size, signed, steps in _PARTS:
        number = getattr(location, name)
        try:
            row.append(round(number * steps).to_bytes(size, "big", signed=signed))
        except (OverflowError, ValueError):
            raise unfit("location", f"cannot hold {name} {number}", "RANGE") from None
    return [*row, int(location.updated)]


def _read_number(value: object) -> Any:
    if not is_number(value):
        raise bad("telemetry", "has a reading that is not a number")
    return value


def _read_time(value: object) -> int:
    return int(_read_number(value))


def _read_battery(value: object) -> Battery:
    row = as_row(value, 2, "battery")
    if not isinstance(row[1], bool):
        raise bad("battery", "does not say whether it is charging")
    temperature = None if len(row) < 3 or row[2] is None else _read_number(row[2])
    return Battery(_read_number(row[0]), row[1], temperature)


def _write_battery(battery: Battery) -> list[Any]:
    return [round(battery.percent, 1), battery.charging, battery.temperature_c]


def _read_link(value: object) -> PhysicalLink:
    row = as_row(value, 3, "physical link")
    return PhysicalLink(*(None if each is None else _read_number(each) for each in row[:3]))


def _read_vector(value: object) -> Vector:
    return Vector(*(_read_number(each) for each in as_row(value, 3, "vector")[:3]))


def _read_proximity(value: object) -> Any:
    return value if isinstance(value, bool) else _read_number(value)


def _read_readings(value: object) -> Readings:
    rows = [as_row(row, 2, "readings") for row in as_row(value, 0, "readings")]
    return tuple(Reading(row[0], row[1]) for row in rows)


def _write_readings(readings: Readings) -> list[Any]:
    return [[each.label, each.value] for each in readings]


def _same(value: Any) -> Any:
    return value


class _Kind(NamedTuple):
    """How one sensor is read and written."""

    name: str
    read: Callable[[object], Any]
    write: Callable[[Any], Any] = _same


def _readings(name: str) -> _Kind:
    return _Kind(name, _read_readings, _write_readings)


_KINDS: Final[dict[int, _Kind]] = {
    Sensor.TIME: _Kind("time", _read_time),
    Sensor.LOCATION: _Kind("location", _read_location, _write_location),
    Sensor.PRESSURE: _Kind("pressure_mbar", _read_number),
    Sensor.BATTERY: _Kind("battery", _read_battery, _write_battery),
    Sensor.PHYSICAL_LINK: _Kind(
        "physical_link", _read_link, lambda link: [link.rssi_dbm, link.snr_db, link.quality_pct]
    ),
    Sensor.ACCELERATION: _Kind("acceleration", _read_vector, list),
    Sensor.TEMPERATURE: _Kind("temperature_c", _read_number),
    Sensor.HUMIDITY: _Kind("humidity_pct", _read_number),
    Sensor.MAGNETIC_FIELD: _Kind("magnetic_field", _read_vector, list),
    Sensor.AMBIENT_LIGHT: _Kind("ambient_light_lux", _read_number),
    Sensor.GRAVITY: _Kind("gravity", _read_vector, list),
    Sensor.ANGULAR_VELOCITY: _Kind("angular_velocity", _read_vector, list),
    Sensor.PROXIMITY: _Kind("proximity", _read_proximity),
    Sensor.INFORMATION: _Kind("information", lambda value: as_text(value, "information")),
    Sensor.POWER_CONSUMPTION: _readings("power_consumption"),
    Sensor.POWER_PRODUCTION: _readings("power_production"),
    Sensor.PROCESSOR: _readings("processor"),
    Sensor.RAM: _readings("ram"),
    Sensor.NVM: _readings("nvm"),
    Sensor.TANK: _readings("tank"),
    Sensor.FUEL: _readings("fuel"),
    Sensor.CUSTOM: _readings("custom"),
}
