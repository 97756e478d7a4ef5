"""Announces with 22 bytes of application data and no ratchet."""

from __future__ import annotations

import functools
from functools import partial
from pathlib import Path
from typing import Any

import RNS
from bench_kit import fixtures
from bench_kit.harness import Offer, Operation, require, same

RAW_BYTES = 189


def _read(inputs: Path, count: int) -> list[bytes]:
    """The announces that the parent made."""
    with (inputs / "announces.bin").open("rb") as file:
        return [file.read(RAW_BYTES) for _ in range(count)]


@functools.cache
def _destination(number: int) -> Any:
    identity = RNS.Identity.from_bytes(fixtures.identity_keys("announce.identity", number))
    app, *aspects = fixtures.ANNOUNCED_NAME.split(".")
    direction, kind = RNS.Destination.IN, RNS.Destination.SINGLE
    return RNS.Destination(identity, direction, kind, app, *aspects)


def _parsed(raw: bytes) -> Any:
    packet = RNS.Packet(None, raw)
    packet.unpack()
    return packet


def _evidence(packet: Any, valid: object) -> bytes:
    require(valid is True, "a valid announce was refused")
    same("application data", packet.data[148:], fixtures.APP_DATA)
    return bytes(packet.destination_hash)


def _refuses_forgery(raw: bytes) -> None:
    forged = _parsed(raw[:-1] + bytes([raw[-1] ^ 1]))
    require(not RNS.Identity.validate_announce(forged), "a forged announce was accepted")


def _create(count: int) -> Operation:
    destinations = [_destination(number) for number in range(count)]

    def loop(items: Any) -> Any:
        packet = None
        for destination in items:
            packet = destination.announce(app_data=fixtures.APP_DATA, send=False)
            packet.pack()
        return packet

    def check(_index: int, packet: Any) -> bytes:
        read = _parsed(packet.raw)
        return _evidence(read, RNS.Identity.validate_announce(read))

    return Operation(destinations, loop, check)


def _validate(inputs: Path, count: int) -> Operation:
    """New packet objects: the stack marks objects, so each is verified."""
    raws = _read(inputs, count)
    _refuses_forgery(raws[0])
    packet_class, validate = RNS.Packet, RNS.Identity.validate_announce

    def loop(items: Any) -> Any:
        found = None
        for raw in items:
            packet = packet_class(None, raw)
            packet.unpack()
            found = packet, validate(packet)
        return found

    return Operation(raws, loop, lambda _index, found: _evidence(*found))


def _validate_same(inputs: Path, count: int) -> Operation:
    packets = [_parsed(raw) for raw in _read(inputs, count)]
    validate = RNS.Identity.validate_announce
    require(all(validate(packet) is True for packet in packets), "a valid announce was refused")

    def loop(items: Any) -> Any:
        found = None
        for packet in items:
            found = packet, validate(packet)
        return found

    return Operation(packets, loop, lambda _index, found: _evidence(*found))


def _batches(inputs: Path, count: int, batches_of: Any) -> Operation:
    raws = _read(inputs, count)
    items = [
        [batches_of(raw) for raw in raws[at : at + fixtures.BATCH]]
        for at in range(0, count, fixtures.BATCH)
    ]
    validate = RNS.Identity.validate_announce
    fresh = batches_of is bytes
    for packet in [] if fresh else items[0]:
        require(validate(packet) is True, "a valid announce was refused")

    def loop(batches: Any) -> Any:
        packets: Any = None
        verdicts: Any = None
        for batch in batches:
            packets = [_parsed(raw) for raw in batch] if fresh else batch
            verdicts = [validate(packet) for packet in packets]
        return packets, verdicts

    def check(_index: int, found: Any) -> bytes:
        packets, verdicts = found
        require(all(verdict is True for verdict in verdicts), "a valid announce was refused")
        return _evidence(packets[-1], verdicts[-1])

    return Operation(items, loop, check)


CREATE = "Destination.announce(app_data, send=False), then Packet.pack() with the packet hash"
COLD = (
    "Packet(None, raw).unpack() with the packet hash, Identity.validate_announce, which also "
    "remembers the destination"
)
REPEAT = f"{COLD}; a new packet object is verified again"
SAME = "Identity.validate_announce of a packet object that was validated before: a flag on it"


def offers(inputs: Path) -> dict[str, Offer]:
    """The rows of this suite."""
    cold = fixtures.COLD
    return {
        "announce.create": Offer(CREATE, partial(_create, 64)),
        "announce.validate.cold": Offer(COLD, partial(_validate, inputs, cold)),
        "announce.validate.same": Offer(SAME, partial(_validate_same, inputs, 64)),
        "announce.validate.repeat": Offer(REPEAT, partial(_validate, inputs, 64)),
        "announce.validate.batch64": Offer(
            f"64 times: {COLD}", partial(_batches, inputs, cold, bytes)
        ),
        "announce.validate.batch64.repeat": Offer(
            f"64 times: {REPEAT}", partial(_batches, inputs, cold, bytes)
        ),
        "published.announce.create": Offer(CREATE, partial(_create, 1)),
        "published.announce.validate": Offer(SAME, partial(_validate_same, inputs, 1)),
        "published.announce.batch64": Offer(
            f"64 times: {SAME}", partial(_batches, inputs, 64, _parsed)
        ),
    }
