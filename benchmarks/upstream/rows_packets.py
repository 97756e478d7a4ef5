"""Packets: the upstream class computes the packet hash in every case."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import RNS
from bench_kit import fixtures
from bench_kit.harness import Offer, Operation, require, same


def _unpack(header_2: bool, count: int) -> Operation:
    made = [fixtures.packet(number, header_2) for number in range(count)]
    packet_class = RNS.Packet

    def loop(raws: Any) -> Any:
        packet = None
        for raw in raws:
            packet = packet_class(None, raw)
            packet.unpack()
        return packet

    def check(index: int, packet: Any) -> bytes:
        parts = made[index]
        require(packet.flags == parts.flags and packet.hops == parts.hops, "flags or hops")
        same("transport id", packet.transport_id, parts.transport)
        same("destination", packet.destination_hash, parts.destination)
        same("payload", packet.data, parts.data)
        same("packet hash", packet.packet_hash, hashlib.sha256(parts.hashable).digest())
        return bytes(packet.packet_hash)

    return Operation([parts.raw for parts in made], loop, check)


def _pack() -> Operation:
    """A payload from hex, a new packet to a PLAIN destination, pack()."""
    parts = fixtures.packet(0, False)
    destination = RNS.Destination(
        None, RNS.Destination.OUT, RNS.Destination.PLAIN, "netmesh", "bench"
    )
    destination.hash = parts.destination
    packet_class = RNS.Packet

    def loop(texts: Any) -> Any:
        packet = None
        for text in texts:
            packet = packet_class(destination, bytes.fromhex(text))
            packet.pack()
        return packet

    def check(_index: int, packet: Any) -> bytes:
        plain = bytes([parts.flags | 0x08]) + parts.raw[1:]  # the PLAIN destination type
        same("packed packet", packet.raw, plain)
        return bytes(packet.raw)

    return Operation([parts.data.hex()], loop, check)


UNPACK = "Packet(None, raw).unpack(), which also computes the packet hash"


def offers(_inputs: Path) -> dict[str, Offer]:
    """The rows of this suite."""
    return {
        "control.aa": Offer(UNPACK, partial(_unpack, False, 64)),
        "packet.unpack+hash": Offer(UNPACK, partial(_unpack, False, 64)),
        "packet.unpack+hash.h2": Offer(UNPACK, partial(_unpack, True, 64)),
        "published.packet.pack": Offer(
            "payload from hex, Packet to a PLAIN destination, pack() with the packet hash", _pack
        ),
        "published.packet.unpack": Offer(UNPACK, partial(_unpack, False, 1)),
    }
