"""The upstream stack in this process, as the tests against it need it.

No instance of it is started: its codecs work without, once the transport system has an
owner that is asked whether it is connected to a shared instance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from differential.support import core, pure

RNS = pytest.importorskip("RNS")
LXMF = pytest.importorskip("LXMF")

BOTH = (core, pure)
each = pytest.mark.parametrize("impl", BOTH, ids=["core", "pure"])
OWNER = bytes(range(64))


def identity_of(private: bytes = OWNER) -> Any:
    """An upstream identity with given private keys."""
    return RNS.Identity.from_bytes(private)


@contextlib.contextmanager
def receiving(identity: Any, app: str, *aspects: str, kind: int = 0) -> Iterator[Any]:
    """An upstream IN destination, which is registered while it is in use."""
    destination = RNS.Destination(identity, RNS.Destination.IN, kind, app, *aspects)
    try:
        yield destination
    finally:
        RNS.Transport.deregister_destination(destination)


def sending(identity: Any, app: str, *aspects: str, kind: int = 0) -> Any:
    """An upstream OUT destination."""
    return RNS.Destination(identity, RNS.Destination.OUT, kind, app, *aspects)


def unpacked(raw: bytes) -> Any:
    """An upstream packet of raw bytes; None when it does not unpack."""
    packet = RNS.Packet(None, raw)
    return packet if packet.unpack() else None


def fake_destination(address: bytes, kind: int, **attributes: Any) -> Any:
    """What an upstream packet asks of its destination; nothing is encrypted."""
    return SimpleNamespace(
        hash=address, type=kind, encrypt=lambda data: data, link_id=address, mtu=500, **attributes
    )


def accepts(run: Any) -> bool:
    """Whether upstream code runs without an exception and does not say no."""
    try:
        return run() not in (None, False)
    except Exception:  # whatever it raises
        return False


class Socket:
    """A connection that brings given pieces and then ends."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    def recv(self, _size: int) -> bytes:
        """The next piece; nothing at the end."""
        return self.pieces.pop(0) if self.pieces else b""


def read_stream(pieces: list[bytes], *, kiss: bool, hw_mtu: int) -> list[bytes]:
    """The frames that upstream's TCP interface finds in a stream."""
    from RNS.Interfaces.TCPInterface import TCPClientInterface

    frames: list[bytes] = []
    interface = TCPClientInterface.__new__(TCPClientInterface)
    connection = Socket(pieces)
    vars(interface).update(
        socket=connection,
        name="differential",
        target_ip="",
        target_port=0,
        kiss_framing=kiss,
        HW_MTU=hw_mtu,
        ifac_size=0,
        initiator=False,
        detached=True,
        process_incoming=frames.append,
        invalid_frame=lambda size: None,
        teardown=lambda: None,
    )
    interface.read_loop()
    assert not connection.pieces
    return frames


class Link:
    """What upstream's packets and resources ask of a link, under a given session key."""

    def __init__(self, key: bytes, mtu: int = 500) -> None:
        token = RNS.Cryptography.Token(key)
        self.encrypt, self.decrypt = token.encrypt, token.decrypt
        self.hash = self.link_id = bytes(range(16))
        self.type = RNS.Destination.LINK
        self.status = RNS.Link.ACTIVE
        self.mtu = mtu
        self.mdu = RNS.Link.MDU
        self.rtt = 0.1
        self.traffic_timeout_factor = 6
        self.callbacks = SimpleNamespace(resource_started=None)

    def __getattr__(self, name: str) -> Any:
        # What it remembers of other resources (nothing), and what it is told of this one.
        if name.startswith(("get_last_", "has_", "register_", "resource_")):
            return lambda *args: None
        raise AttributeError(name)


@contextlib.contextmanager
def collected() -> Iterator[list[Any]]:
    """The packets that upstream code would send meanwhile, packed; and no timers."""
    sent: list[Any] = []

    def send(packet: Any) -> None:
        packet.pack()
        packet.sent = True
        sent.append(packet)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RNS.Packet, "send", send)
        patch.setattr(RNS.Packet, "resend", send)
        patch.setattr(RNS.Resource, "watchdog_job", lambda resource: None)
        patch.setattr(RNS.Transport, "cache", lambda *args, **kwargs: None)
        yield sent
