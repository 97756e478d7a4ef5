"""The driver of transport nodes: what it takes for right, against hubs that err."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from netmesh.bench.hub_driver import HOST, SIZE, Line, Way, announces, framed, plain
from netmesh.packet import Packet

OWN = b"h" * 16
Change = Callable[[int, bytes], bytes]


class Hub(threading.Thread):
    """Forwards between two connections: announces of the first, and data to it."""

    def __init__(self, change: Change) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._change = change

    def run(self) -> None:
        sink, _ = self._listener.accept()
        source, _ = self._listener.accept()
        head, next_hop = b"", b""
        while not head:
            head = next((plain(f) for f in sink.recv(1 << 16).split(b"~") if f), b"")
        next_hop = head[2:18]
        source.sendall(framed(head[:1] + b"\2" + OWN + head[18:]))
        rest, count = b"", 0
        with source, sink, self._listener:
            while data := source.recv(1 << 16):
                *whole, rest = (rest + data).split(b"~")
                for frame in filter(None, whole):
                    raw = plain(frame)
                    assert raw[2:18] == OWN
                    count += 1
                    out = framed(raw[:1] + b"\1" + next_hop + raw[18:])
                    sink.sendall(self._change(count, out))


@pytest.fixture
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """The driver's two connections to a hub that changes what it sends on."""
    hub = Hub(request.param)
    hub.start()
    made = Way(hub.port)
    yield made
    made.close()
    hub.join(10)


def honest(_count: int, out: bytes) -> bytes:
    return out


def lying(count: int, out: bytes) -> bytes:
    return out[:-2] + b"!~" if count == 150 else out


def losing(count: int, out: bytes) -> bytes:
    return b"" if count == 150 else out


@pytest.mark.parametrize("way", [honest], indirect=True)
def test_bursts_and_single_packets_arrive(way: Way) -> None:
    start, end = way.burst(300, 128, 20.0)
    assert end > start
    start, end = way.single(20.0)
    assert end > start
    assert way.sent == 301


@pytest.mark.parametrize("way", [lying], indirect=True)
def test_a_wrong_byte_is_a_wrong_output(way: Way) -> None:
    with pytest.raises(ValueError, match="wrong output"):
        way.burst(300, 128, 20.0)


@pytest.mark.parametrize("way", [losing], indirect=True)
def test_a_lost_packet_is_no_sample(way: Way) -> None:
    with pytest.raises(TimeoutError):
        way.burst(300, 4096, 0.5)


@pytest.mark.parametrize("way", [honest], indirect=True)
def test_packets_have_the_stated_size(way: Way) -> None:
    (packet,), (wanted,) = way.packets(1)
    assert len(plain(packet[1:-1])) == len(wanted) == SIZE
    assert Packet.unpack(wanted).hops == 1


def test_announces_are_whole_and_of_different_destinations() -> None:
    made = [Packet.unpack(plain(frame[1:-1])) for frame in announces(3)]
    assert len({packet.destination for packet in made}) == 3


def test_frames_are_read_across_reads() -> None:
    with socket.create_server((HOST, 0)) as listener:
        line = Line(listener.getsockname()[1])
        far, _ = listener.accept()
        far.sendall(framed(b"one") + framed(b"t~}wo")[:4])
        assert line.frames(10.0) == [b"one"]
        far.sendall(framed(b"t~}wo")[4:])
        frames: list[bytes] = []
        while not frames:
            frames = line.frames(10.0)
        assert [plain(frame) for frame in frames] == [b"t~}wo"]
        far.close()
        with pytest.raises(ConnectionError):
            line.frames(10.0)
        line.close()
