"""A link whose far end seals whatever it is told to: a peer that holds valid keys and lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from engine.wires import Net, Wire
from golden import ruled
from netmesh import Engine, Packet
from netmesh.constants import LinkState, PacketType
from netmesh.engine import EngineLink
from netmesh.events import LinkPacketReceived
from netmesh.records import DropReason
from netmesh.resource import Advertisement, Segmenter

Kind = TypeVar("Kind")


@dataclass(eq=False)
class Attack:
    """A link whose far end does as it is told: ``victim`` is tested, ``liar`` seals its lies."""

    net: Net
    wire: Wire
    victim: Engine
    liar: EngineLink
    own: EngineLink
    """The victim's end."""

    def lie(
        self, payload: bytes, context: int, packet_type: PacketType = PacketType.DATA
    ) -> DropReason:
        """One packet under the link's key, and what the victim says to it."""
        raw = self.liar.seal(payload, context=context, packet_type=packet_type)
        return self.victim.input(self.wire.at(self.victim), raw).reason

    def told(self, kind: type[Kind]) -> list[Kind]:
        """What the victim's program is told."""
        self.net.heard[self.victim] += self.victim.events()
        return self.net.all(self.victim, kind)

    def frames(self) -> list[Packet]:
        """What the victim sends."""
        return [Packet.unpack(output.data) for output in self.victim.outputs()]

    def is_unharmed(self) -> None:
        """Whether the link still carries packets, and nothing is left over but it."""
        assert self.own.info.state == LinkState.ACTIVE
        self.net.settle()
        self.net.forget()
        self.liar.send(b"after all")
        self.net.settle()
        assert [event.data for event in self.net.all(self.victim, LinkPacketReceived)] == [
            b"after all"
        ]


def attack(responder: bool = True, **options: Any) -> Attack:
    """On the responder of a link, or on its initiator."""
    net = Net(2, limits=options.pop("limits", None))
    a, b = net.engines
    wire = net.join(a, b, kind=options.pop("kind", "tcp"))
    options = {"prove": "all", "resources": "all"} | options
    link = net.link(a, net.listen(b, **options))
    far = net.far(link, b)
    net.forget()
    if responder:
        return Attack(net, wire, b, link, far)
    return Attack(net, wire, a, far, link)


def advertisement(at: Attack, size: int = 3000, **lies: Any) -> bytes:
    """An advertisement of a real resource with some of its fields changed."""
    made = segmented(at, size)
    fields = {
        name: getattr(made.advertisement, name)
        for name in (
            "transfer_bytes", "data_bytes", "parts", "hash", "random_hash", "original_hash",
            "segment", "segments", "request_id", "flags", "hashmap",
        )
    }  # fmt: skip
    return Advertisement(**(fields | lies)).pack()


def segmented(at: Attack, size: int = 3000) -> Segmenter:
    """A resource under the link's key."""

    def seal(plain: bytes) -> bytes:
        return bytes(Packet.unpack(at.liar.seal(plain)).payload)

    return Segmenter(ruled("hostile", size), seal, sdu=at.own.info.mtu - 36)
