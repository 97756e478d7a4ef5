"""Two nodes with a cable between them that loses what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from netmesh import Node
from netmesh.interfaces import CustomInterface
from netmesh.packet import Packet


class Lossy(CustomInterface):
    """One end of a cable that loses what ``loses`` says; ``sent`` are the packets that left."""

    def __init__(self) -> None:
        super().__init__()
        self.peer: Lossy | None = None
        self.sent: list[Packet] = []
        self.loses = lambda packet: False

    async def send(self, frame: bytes) -> None:
        packet = Packet.unpack(frame)
        self.sent.append(packet)
        if not self.loses(packet):
            assert self.peer is not None
            self.peer.received(frame)


@asynccontextmanager
async def cable() -> AsyncIterator[tuple[Node, Node, Lossy, Lossy]]:
    """Two nodes with a lossy cable between them."""
    left, right = Lossy(), Lossy()
    left.peer, right.peer = right, left
    async with Node(interfaces=[left]) as alice, Node(interfaces=[right]) as bob:
        yield alice, bob, left, right
