"""Engines on wires without delay: time stands still but where a test moves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeVar

from netmesh import DestinationHash, Engine, Identity, Packet
from netmesh.engine import EngineLink
from netmesh.events import Event, LinkActive

MONO = 1000.0
UNIX = 1_700_000_000.0

Kind = TypeVar("Kind")


def identity(number: int) -> Identity:
    """An identity that every run of the tests has in common."""
    return Identity.from_private(bytes([number]) * 64)


class Script:
    """Entropy that is known in advance: what waits in the queue, then a fixed stream.

    A draw takes the head of the queue if that has the length drawn.
    """

    def __init__(self, *queue: bytes) -> None:
        self.queue = list(queue)
        self.draws = 0

    def __call__(self, length: int) -> bytes:
        if self.queue and len(self.queue[0]) == length:
            return self.queue.pop(0)
        self.draws += 1
        return sha256(self.draws.to_bytes(8, "big")).digest()[:length].ljust(length, b"\x01")


def seed(number: int) -> bytes:
    """32 bytes of entropy for an engine."""
    return number.to_bytes(32, "big")


@dataclass(eq=False)
class Wire:
    """A cable between two engines."""

    ends: tuple[tuple[Engine, int], tuple[Engine, int]]
    cut: bool = False
    """Whether everything on it is lost."""
    pass_on: Callable[[Engine, bytes], Iterable[bytes]] | None = None
    """What arrives in place of a frame from an engine."""
    seen: list[tuple[Engine, bytes]] = field(default_factory=list)
    """Every frame that was put on it, with its sender."""

    def frames(self, sender: Engine) -> list[Packet]:
        """The packets that an engine put on it."""
        return [Packet.unpack(raw) for engine, raw in self.seen if engine is sender]

    def at(self, engine: Engine) -> int:
        """The interface's id at one of the ends."""
        return next(iface for end, iface in self.ends if end is engine)


class Net:
    """Some engines, their wires, and all their events."""

    def __init__(self, count: int, **options: Any) -> None:
        self.engines = [
            Engine(clock=(MONO, UNIX), **({"seed": seed(number + 1)} | options))
            for number in range(count)
        ]
        self.wires: list[Wire] = []
        self.heard: dict[Engine, list[Event]] = {engine: [] for engine in self.engines}

    def join(self, a: Engine, b: Engine, kind: str = "tcp", **options: Any) -> Wire:
        """Puts a wire between two engines."""
        number = len(self.wires)
        wire = Wire(
            (
                (a, a.add_interface(f"wire {number} a", kind=kind, **options)),
                (b, b.add_interface(f"wire {number} b", kind=kind, **options)),
            )
        )
        self.wires.append(wire)
        return wire

    def carry(self, sender: Engine, interface: int, frame: bytes) -> None:
        """Puts one frame on the wire that an interface is an end of."""
        for wire in self.wires:
            for here, there in (wire.ends, wire.ends[::-1]):
                if here == (sender, interface):
                    wire.seen.append((sender, frame))
                    if not wire.cut:
                        passed = wire.pass_on(sender, frame) if wire.pass_on else [frame]
                        for arriving in passed:
                            there[0].input(there[1], arriving)

    def settle(self) -> None:
        """Moves frames until none is left, and collects the events."""
        moved = True
        while moved:
            moved = False
            for engine in self.engines:
                for output in engine.outputs():
                    self.carry(engine, output.interface, output.data)
                    moved = True
                self.heard[engine] += engine.events()

    def advance(self, seconds: float) -> None:
        """Lets time pass for all at once, with every timer on the way."""
        self.settle()
        until = round(self.engines[0].now[0] + seconds, 6)
        while True:
            due = [engine.deadline for engine in self.engines]
            first = min((at for at in due if at is not None), default=until + 1)
            if first > until:
                break
            for engine in self.engines:
                engine.set_clock(max(first, engine.now[0]))
                engine.tick()
            self.settle()
        for engine in self.engines:
            engine.set_clock(until)

    def all(self, engine: Engine, kind: type[Kind]) -> list[Kind]:
        """The events of one class so far."""
        return [event for event in self.heard[engine] if isinstance(event, kind)]

    def one(self, engine: Engine, kind: type[Kind]) -> Kind:
        """The only event of one class."""
        found = self.all(engine, kind)
        assert len(found) == 1, [type(event).__name__ for event in self.heard[engine]]
        return found[0]

    def forget(self) -> None:
        """Forgets the events so far."""
        for events in self.heard.values():
            events.clear()

    def listen(self, engine: Engine, number: int = 7, **options: Any) -> DestinationHash:
        """A destination that the others know from its announce."""
        own = engine.listen(identity(number), "test.echo", **options)
        engine.announce(own)
        self.settle()
        return own

    def link(self, engine: Engine, destination: DestinationHash) -> EngineLink:
        """An active link."""
        number = engine.open_link(destination)
        self.settle()
        assert [e for e in self.all(engine, LinkActive) if e.link == number]
        return engine.link(number)

    def far(self, link: EngineLink, engine: Engine) -> EngineLink:
        """The other end of a link."""
        return engine.link_by_id(link.info.link_id)


def pair(**options: Any) -> tuple[Net, Engine, Engine, Wire]:
    """Two engines on one wire."""
    net = Net(2, **options)
    a, b = net.engines
    return net, a, b, net.join(a, b)
