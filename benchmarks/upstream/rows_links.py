"""The link handshake, both sides in one process.

What the stack does around a handshake is left out, which is in its favour: no watchdog
threads, no tables, no interfaces. Packets are handed over as wire bytes.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import RNS
from bench_kit import fixtures
from bench_kit.harness import Offer, Operation, require, same


class Wire:
    """Stands for the transport: keeps the bytes of the packet that was sent last.

    Between ``with`` and its end, packets that the stack sends end here, and links start no
    threads and enter no tables.
    """

    def __init__(self) -> None:
        self.raw = b""
        self._kept: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Wire:
        wire = self

        def send(packet: Any) -> None:
            if not packet.packed:
                packet.pack()
            wire.raw = packet.raw

        def nothing(*_arguments: Any) -> None:
            return None

        self._replace(RNS.Packet, "send", send)
        self._replace(RNS.Link, "start_watchdog", nothing)
        self._replace(RNS.Transport, "register_link", nothing)
        self._replace(RNS.Transport, "activate_link", nothing)
        return self

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        self._kept.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, new)

    def __exit__(self, *_error: object) -> None:
        for owner, name, old in reversed(self._kept):
            setattr(owner, name, old)
        self._kept.clear()

    def received(self, destination: Any) -> Any:
        """The packet sent last, parsed, as the other side gets it."""
        packet = RNS.Packet(None, self.raw)
        packet.unpack()
        packet.destination = destination
        packet.receiving_interface = None
        return packet


@functools.cache
def destination(number: int) -> Any:
    """A destination that accepts links."""
    identity = RNS.Identity.from_bytes(fixtures.identity_keys("link.owner", number))
    app, *aspects = fixtures.ANNOUNCED_NAME.split(".")
    direction, kind = RNS.Destination.IN, RNS.Destination.SINGLE
    return RNS.Destination(identity, direction, kind, app, *aspects)


def open_link(wire: Wire, owner: Any, target: Any) -> tuple[Any, Any]:
    """Opens a link to ``target``, whose other side is ``owner``: both ends, active."""
    initiator = RNS.Link(target)
    request = wire.received(owner)
    responder = RNS.Link.validate_request(owner, request.data, request)
    initiator.validate_proof(wire.received(initiator))
    responder.rtt_packet(wire.received(responder))
    return initiator, responder


def target_of(owner: Any) -> Any:
    """The outgoing destination that the initiator knows."""
    app, *aspects = fixtures.ANNOUNCED_NAME.split(".")
    direction, kind = RNS.Destination.OUT, RNS.Destination.SINGLE
    return RNS.Destination(owner.identity, direction, kind, app, *aspects)


def _handshake() -> Operation:
    owners = [destination(number) for number in range(64)]
    items = [(owner, target_of(owner)) for owner in owners]
    wire = Wire()

    def loop(inputs: Any) -> Any:
        found = None
        with wire:
            for owner, target in inputs:
                found = open_link(wire, owner, target)
        return found

    def check(index: int, found: Any) -> bytes:
        initiator, responder = found
        active = RNS.Link.ACTIVE
        require(initiator.status == active and responder.status == active, "a side is not active")
        probe = fixtures.stream("link.probe", index, 32)
        opened = responder.decrypt(initiator.encrypt(probe))
        same("text over the link", opened, probe)
        return bytes(opened)

    return Operation(items, loop, check)


def offers(_inputs: Path) -> dict[str, Offer]:
    """The rows of this suite."""
    note = (
        "Link(destination), Link.validate_request, validate_proof, rtt_packet, every packet "
        "through its wire bytes; without watchdog threads, tables and interfaces"
    )
    return {"link.handshake.both": Offer(note, _handshake)}
