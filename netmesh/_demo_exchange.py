"""An announce and an LXMF message in each direction with a live upstream process.

netmesh's side is a plain TCP socket and the codecs: HDLC frames, packets, announces,
identities and messages. There is no node, no thread and no timer of netmesh in it. The
other side is ``_demo_peer.py``, running ``rns`` and ``lxmf``. Used by the demo and by
the interop tests.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from netmesh import Announce, DestinationHash, Identity, Packet, Ratchets, Verdict
from netmesh._demo_process import Companion, ExchangeError
from netmesh.constants import PacketType
from netmesh.framing import HdlcDecoder, hdlc_frame
from netmesh.lxmf import DeliveryAppData, Message, delivery_hash
from netmesh.packet import proof_packet, verify_proof

READ_BYTES = 65536

Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What both sides saw."""

    rns: str
    lxmf: str
    peer_heard_name: str
    announce_verdict: Verdict
    announce_name: str | None
    sent: Message
    peer_received: dict[str, Any]
    proof_valid: bool
    received: Message
    received_ratchet: bytes | None
    received_valid: bool
    peer_delivered: bool


class UpstreamPeer(Companion):
    """The process of the upstream peer.

    ``python`` is an interpreter that has rns and lxmf.
    """

    def __init__(self, python: str = sys.executable) -> None:
        super().__init__("the upstream peer")
        self._python = python
        self.port = 0

    def command_line(self) -> Sequence[str]:
        """The program beside this one, on a free port."""
        self.port = free_port()
        program = Path(__file__).with_name("_demo_peer.py")
        return [self._python, str(program), str(self.folder), str(self.port)]


class Wire:
    """A connection to a TCP interface: packets out, packets in."""

    def __init__(self, port: int, *, timeout_s: float = 40.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._decoder = HdlcDecoder()
        self._packets: list[Packet] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, packet: Packet) -> None:
        """Frames one packet and writes it."""
        self._socket.sendall(hdlc_frame(packet.raw))

    def receive(
        self, what: str, wanted: Callable[[Packet], bool], timeout_s: float = 40.0
    ) -> Packet:
        """The next packet that is wanted; others are passed over."""
        deadline = time.monotonic() + timeout_s
        for packet in self._incoming(what, deadline):
            if wanted(packet):
                return packet
        raise ExchangeError(f"the upstream peer closed the connection before {what} came")

    def _incoming(self, what: str, deadline: float) -> Iterator[Packet]:
        while True:
            while self._packets:
                yield self._packets.pop(0)
            left = deadline - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                data = self._socket.recv(READ_BYTES)
            except TimeoutError:
                raise ExchangeError(f"{what} did not come in time") from None
            if not data:
                return
            self._packets += [Packet.unpack(frame) for frame in self._decoder.feed(data)]


class Mailbox:
    """netmesh's side of the exchange: an identity with a ratchet, and its address."""

    def __init__(self) -> None:
        self.identity = Identity()
        self.ratchets = Ratchets()
        self.ratchets.rotate()
        self.address = delivery_hash(self.identity)

    def announce(self) -> Announce:
        """A delivery announce with a display name and the current ratchet."""
        app_data = DeliveryAppData(display_name="netmesh demo").pack()
        ratchet = self.ratchets.current_public
        return Announce.create(self.identity, "lxmf.delivery", app_data=app_data, ratchet=ratchet)

    def seal(self, message: Message, recipient: Announce) -> Packet:
        """An opportunistic message as a packet for an announced recipient."""
        sealed = recipient.identity.encrypt(message.opportunistic, ratchet=recipient.ratchet)
        return Packet(destination=recipient.destination_hash, payload=sealed)

    def open(self, packet: Packet) -> tuple[Message, bytes | None]:
        """The opportunistic message in a packet, and the ratchet that opened it."""
        opened = self.identity.decrypt(packet.payload, ratchets=self.ratchets.private_keys)
        return Message.unpack_opportunistic(self.address, opened.plaintext), opened.ratchet_id


def free_port() -> int:
    """A TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def exchange(python: str, report: Report) -> Exchanged:
    """Runs the whole exchange; raises ExchangeError when a step does not come about.

    ``report(text, seconds)`` is called after each step.
    """
    watch = Stopwatch(report)
    with UpstreamPeer(python) as peer:
        rns, lxmf = str(peer.ready["rns"]), str(peer.ready["lxmf"])
        watch.lap(f"started lxmf {lxmf} on rns {rns}, listening on 127.0.0.1:{peer.port}")
        with Wire(peer.port) as wire:
            return _talk(peer, wire, watch)


class Stopwatch:
    """Reports each step with the time since the one before."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last = time.perf_counter()

    def lap(self, text: str) -> None:
        """Ends a step."""
        now = time.perf_counter()
        self._report(text, now - self._last)
        self._last = now


def _talk(peer: UpstreamPeer, wire: Wire, watch: Stopwatch) -> Exchanged:
    us = Mailbox()
    them = DestinationHash(bytes.fromhex(peer.ready["destination"]))

    wire.send(us.announce().packet)
    heard = peer.wait("announce")
    watch.lap(f'our announce: upstream heard "{heard["display_name"]}" at {heard["destination"]}')

    peer.command("announce")
    packet = wire.receive(
        "its announce", lambda p: p.packet_type == PacketType.ANNOUNCE and p.destination == them
    )
    announce = Announce.unpack(packet)
    verdict = announce.validate()
    name = DeliveryAppData.unpack(announce.app_data).display_name
    watch.lap(f'its announce: {verdict}, "{name}" at {announce.destination_hash}')

    message = Message.create(us.identity, them, "Hello from netmesh", title="Greetings")
    outgoing = us.seal(message, announce)
    wire.send(outgoing)
    seen = peer.wait("message")
    watch.lap(
        f'our message: upstream read "{seen["content"]}", signature valid: '
        f"{seen['signature_valid']}"
    )
    proof = wire.receive(
        "the proof of our message",
        lambda p: p.packet_type == PacketType.PROOF and p.destination == outgoing.truncated_hash,
    )
    proved = verify_proof(announce.identity, proof.payload, outgoing.hash)
    watch.lap(f"its proof of delivery: valid: {proved}")

    peer.command(
        "send", destination=us.address.hex(), title="Re: Greetings", content="Hello from upstream"
    )
    incoming = wire.receive(
        "its message", lambda p: p.packet_type == PacketType.DATA and p.destination == us.address
    )
    received, ratchet = us.open(incoming)
    valid = received.verify(announce.identity)
    watch.lap(f'its message: we read "{received.content_text}", signature valid: {valid}')
    # A proof that is faster than the return of upstream's own send call would be lost on
    # releases before lxmf 1.2: they attach their handler only then.
    peer.wait("transmitted")
    wire.send(proof_packet(us.identity, incoming.hash))
    delivered = bool(peer.wait("sent")["delivered"])
    watch.lap(f"our proof of delivery: upstream counts its message as delivered: {delivered}")

    return Exchanged(
        rns=str(peer.ready["rns"]),
        lxmf=str(peer.ready["lxmf"]),
        peer_heard_name=heard["display_name"],
        announce_verdict=verdict,
        announce_name=name,
        sent=message,
        peer_received=seen,
        proof_valid=proved,
        received=received,
        received_ratchet=ratchet,
        received_valid=valid,
        peer_delivered=delivered,
    )
