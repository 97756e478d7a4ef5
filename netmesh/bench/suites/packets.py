"""Packets with 128 bytes of payload, HEADER_1 and HEADER_2."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, require, same, unary
from netmesh.bench.model import Api, Evidence, Kind, Row, Suite


def _raw_evidence(header_2: bool) -> Evidence:
    def evidence(_kind: Kind, index: int) -> bytes:
        return fixtures.packet(index, header_2).raw

    return evidence


def _data_evidence(header_2: bool) -> Evidence:
    def evidence(_kind: Kind, index: int) -> bytes:
        return fixtures.packet(index, header_2).data

    return evidence


def hash_evidence(*, header_2: bool) -> Evidence:
    """The packet hash, from hashlib."""

    def evidence(_kind: Kind, index: int) -> bytes:
        return hashlib.sha256(fixtures.packet(index, header_2).hashable).digest()

    return evidence


def packets(header_2: bool, count: int = fixtures.COUNT) -> list[fixtures.PacketParts]:
    """The first ``count`` packets."""
    return [fixtures.packet(number, header_2) for number in range(count)]


def _compare(packet: Any, parts: fixtures.PacketParts) -> bytes:
    same("flags", packet.flags, parts.flags)
    same("hops", packet.hops, parts.hops)
    same("transport id", packet.transport_id, parts.transport)
    same("destination", bytes(packet.destination), parts.destination)
    same("context", packet.context, parts.context)
    payload = bytes(packet.payload)
    same("payload", payload, parts.data)
    return payload


def pack_offer(api: Api, *, header_2: bool, count: int = fixtures.COUNT) -> Offer:
    """Packing from the fields by the shortest call of the API."""

    def prepare() -> Runner:
        pack = api.packet.pack_packet
        parts = packets(header_2, count)
        items = [(p.destination, p.data, p.flags, p.hops, p.context, p.transport) for p in parts]

        def loop(items: Iterable[Any]) -> Any:
            raw = None
            for destination, data, flags, hops, context, transport in items:
                raw = pack(destination, data, flags, hops, context, transport)
            return raw

        def check(index: int, raw: bytes) -> bytes:
            same("packed packet", raw, parts[index].raw)
            return raw

        return Operation(items, loop, check)

    return Offer("pack_packet from the fields to bytes; no packet hash", prepare)


def unpack_offer(api: Api, *, header_2: bool, count: int = fixtures.COUNT) -> Offer:
    """Parsing wire bytes to an object."""

    def prepare() -> Runner:
        parts = packets(header_2, count)
        unpack = api.packet.Packet.unpack
        raws = [p.raw for p in parts]
        return Operation(raws, unary(unpack), lambda index, got: _compare(got, parts[index]))

    return Offer("Packet.unpack: an object whose payload is a view; no packet hash", prepare)


def hash_offer(api: Api, *, header_2: bool, count: int = fixtures.COUNT) -> Offer:
    """Parsing, then the packet hash."""

    def prepare() -> Runner:
        parts = packets(header_2, count)
        unpack = api.packet.Packet.unpack

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for raw in items:
                packet = unpack(raw)
                found = packet, packet.hash
            return found

        def check(index: int, found: tuple[Any, bytes]) -> bytes:
            packet, digest = found
            _compare(packet, parts[index])
            require(digest == hash_evidence(header_2=header_2)("python", index), "packet hash")
            return digest

        return Operation([p.raw for p in parts], loop, check)

    return Offer("Packet.unpack, then .hash (SHA-256)", prepare)


def _offers(api: Api) -> dict[str, Offer]:
    offers = {}
    for suffix, header_2 in (("", False), (".h2", True)):
        offers[f"packet.pack{suffix}"] = pack_offer(api, header_2=header_2)
        offers[f"packet.unpack{suffix}"] = unpack_offer(api, header_2=header_2)
        offers[f"packet.unpack+hash{suffix}"] = hash_offer(api, header_2=header_2)
    return offers


HASHES = "the upstream packet class always computes the packet hash"


def _rows() -> tuple[Row, ...]:
    rows = []
    for suffix, header_2 in (("", False), (".h2", True)):
        header, size = ("HEADER_2", 163) if header_2 else ("HEADER_1", 147)
        plain = suffix == ""
        rows += [
            Row(
                id=f"packet.pack{suffix}",
                title=f"pack {header}",
                operation=f"header fields and 128 bytes to {size} bytes; no packet hash",
                payload=fixtures.PACKET_DATA_BYTES,
                evidence=_raw_evidence(header_2),
                published="packet.pack" if plain else None,
                published_sides=("rust",),
                absent={"rns-openssl": HASHES, "rns-internal": HASHES},
            ),
            Row(
                id=f"packet.unpack{suffix}",
                title=f"unpack {header}",
                operation=f"{size} bytes to all header fields and the payload; no packet hash",
                payload=fixtures.PACKET_DATA_BYTES,
                evidence=_data_evidence(header_2),
                published="packet.unpack" if plain else None,
                published_sides=("rust",),
                absent={"rns-openssl": HASHES, "rns-internal": HASHES},
            ),
            Row(
                id=f"packet.unpack+hash{suffix}",
                title=f"unpack {header} and hash",
                operation=f"{size} bytes to all header fields, the payload and the packet hash",
                payload=fixtures.PACKET_DATA_BYTES,
                evidence=hash_evidence(header_2=header_2),
                published="packet.unpack" if plain else None,
                published_sides=("python",),
            ),
        ]
    return tuple(rows)


SUITE = Suite(
    name="packets",
    title="Packets",
    text="64 packets in turn. Packing and unpacking without the packet hash is what the Rust "
    "stacks publish; the upstream Python stack computes the hash in every case.",
    rows=_rows(),
    offers=_offers,
)
