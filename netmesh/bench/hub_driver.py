"""The load of a transport node in another process: sources, sinks and crowds on bare sockets.

It plays the client of the kind ``hub`` (benchmarks/README.md) whatever stack the hub runs, so
all hubs carry the same bytes and what they send on is compared byte for byte.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from netmesh import Identity
from netmesh.announce import Announce
from netmesh.bench.kit.nodes import NO_PAYLOAD, Operations, Pace, Samples, monotonic_ns, serve

HOST: Final = "127.0.0.1"
SIZE: Final = 147
"""Bytes of a packet in HEADER_2, on both sides of the hub."""

_FLAGS: Final = 0x50
_HEAD: Final = 35
_NUMBER: Final = 16
_TAIL: Final = b"-" * (SIZE - _HEAD - _NUMBER)
_FLAG, _ESCAPE = b"~", b"}"

_MEET_S: Final = 30.0
_READ: Final = 1 << 20
_CHUNK: Final = 128
"""Packets that are written at once."""
_TRIAL: Final = 256
_SAMPLE_S: Final = 0.1
"""How long a burst of the load ``forward`` is meant to take."""
_FAST: Final = 50_000.0
"""Packets per second from which on a hub's queues are expected to hold a larger window."""
_WINDOWS: Final = (256, 4096)
"""Packets on their way at once, to a slow hub and to a fast one: neither overflows a queue."""

_CROWD_PERIOD_S: Final = 0.1
_ANNOUNCE_S: Final = 60
"""For how long a crowd has announces."""

COMMAND: Final = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r}); "
    "from netmesh.bench.hub_driver import main; sys.exit(main(sys.argv[1:]))",
)
"""This program, wherever the current folder is."""


def framed(raw: bytes) -> bytes:
    """In HDLC."""
    escaped = raw.replace(_ESCAPE, b"}]").replace(_FLAG, b"}^")
    return _FLAG + escaped + _FLAG


def plain(frame: bytes) -> bytes:
    """Without escapes."""
    return frame.replace(b"}^", _FLAG).replace(b"}]", _ESCAPE)


def clean(data: bytes) -> bool:
    """Whether it needs no escapes."""
    return _FLAG not in data and _ESCAPE not in data


def announces(count: int) -> Iterator[bytes]:
    """Framed announces of that many destinations of one identity, with 32 bytes each."""
    identity = Identity()
    now = int(time.time())
    for number in range(count):
        made = Announce.create(
            identity,
            f"bench.n{number}",
            emitted=now,
            random=os.urandom(5),
            app_data=number.to_bytes(32, "big"),
        )
        yield framed(made.raw)


class Line:
    """A connection to the hub, read frame by frame."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=_MEET_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def frames(self, limit_s: float) -> list[bytes]:
        """Those that come next, still escaped. Raises TimeoutError."""
        self.socket.settimeout(max(limit_s, 0.001))
        data = self._rest + self.socket.recv(_READ)
        if not data:
            raise ConnectionError("the hub closed a connection")
        *whole, self._rest = data.split(_FLAG)
        return [frame for frame in whole if frame]

    def close(self) -> None:
        """Ends it."""
        self.socket.close()


class Way:
    """A source and a sink, and the destination behind the sink that the hub knows a path to."""

    def __init__(self, port: int) -> None:
        self.sink, self.source = Line(port), Line(port)
        self.sent = 0
        while True:
            made = Announce.create(
                Identity(), "netmesh.bench", emitted=int(time.time()), random=os.urandom(5)
            )
            next_hop = os.urandom(16)
            if clean(made.destination_hash + next_hop):
                break
        self._behind = bytes(next_hop) + bytes(made.destination_hash)
        # As a transport node behind the sink would send it: the path has two hops.
        relayed = bytes([made.raw[0] | _FLAGS, 1]) + next_hop + made.raw[2:]
        self.sink.socket.sendall(framed(relayed))
        hub = self._hub(bytes(made.destination_hash))
        head = framed(bytes([_FLAGS, 0]) + hub + self._behind[16:] + b"\0")
        self._head, self._tail = head[:-1], _TAIL + _FLAG
        self.out_head = plain(bytes([_FLAGS, 1]) + self._behind + b"\0")

    def _hub(self, destination: bytes) -> bytes:
        """The hub's transport id, by the announce that it sends on."""
        deadline = time.monotonic() + _MEET_S
        while True:
            for frame in self.source.frames(deadline - time.monotonic()):
                raw = plain(frame)
                if raw[0] & 0x40 and raw[18:34] == destination:
                    return raw[2:18]

    def packets(self, count: int) -> tuple[list[bytes], list[bytes]]:
        """Packets that were not there before, framed, and what the sink is to see of them."""
        numbers = [b"%016x" % number for number in range(self.sent, self.sent + count)]
        self.sent += count
        head, tail, out = self._head, self._tail, self.out_head
        return [head + n + tail for n in numbers], [out + n + _TAIL for n in numbers]

    def is_data(self, frame: bytes) -> bool:
        """Whether it is one of these, not an announce."""
        return frame.startswith(self.out_head)

    def burst(self, count: int, window: int, timeout_s: float) -> tuple[int, int]:
        """Sends packets as fast as the window lets; begin and end. Raises on a wrong byte."""
        packets, wanted = self.packets(count)
        chunks = [b"".join(packets[at : at + _CHUNK]) for at in range(0, count, _CHUNK)]
        arrived: list[bytes] = []
        stop = threading.Event()

        def send() -> None:
            for number, chunk in enumerate(chunks):
                while number * _CHUNK - len(arrived) > window and not stop.is_set():
                    time.sleep(0.00005)
                if stop.is_set():
                    return
                self.source.socket.sendall(chunk)

        sender = threading.Thread(target=send)
        deadline = time.monotonic() + timeout_s
        start = monotonic_ns()
        sender.start()
        try:
            while len(arrived) < count:
                frames = self.sink.frames(deadline - time.monotonic())
                arrived += [frame for frame in frames if self.is_data(frame)]
            end = monotonic_ns()
        finally:
            stop.set()
            sender.join()
        if arrived != wanted:
            raise ValueError("wrong output: the packets that the hub sent on")
        return start, end

    def single(self, timeout_s: float) -> tuple[int, int]:
        """One packet: when it was sent, and when it arrived."""
        (packet,), (wanted,) = self.packets(1)
        deadline = time.monotonic() + timeout_s
        start = monotonic_ns()
        self.source.socket.sendall(packet)
        while True:
            for frame in self.sink.frames(deadline - time.monotonic()):
                if frame == wanted:
                    return start, monotonic_ns()
                if self.is_data(frame):
                    raise ValueError("wrong output: a packet that the hub sent on")

    def close(self) -> None:
        """Ends both connections."""
        self.sink.close()
        self.source.close()


class Driver:
    """The requests of the protocol."""

    def __init__(self) -> None:
        self._port = 0
        self._load = ""
        self._held = 0
        self._way: Way | None = None
        self._size = _TRIAL
        self._window = _WINDOWS[0]
        self._crowd: subprocess.Popen[bytes] | None = None
        self._clients: list[socket.socket] = []

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Where the hub is."""
        self._port = request["port"]
        return {}

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Brings about what the load presupposes."""
        self._load, self._held = request["load"], request["held"]
        if self._load == "clients":
            return {}
        self._way = Way(self._port)
        if self._load == "forward":
            start, end = self._way.burst(_TRIAL, _WINDOWS[0], _MEET_S)
            rate = _TRIAL * 1e9 / (end - start)
            self._window = _WINDOWS[rate > _FAST]
            self._size = min(max(round(rate * _SAMPLE_S), _TRIAL), 1 << 16)
        elif self._load == "crowd":
            self._gather()
        else:
            self._teach(self._held)
        return {}

    def _teach(self, count: int) -> None:
        assert self._way is not None
        for frame in announces(count):
            self._way.sink.socket.sendall(frame)

    def _gather(self) -> None:
        """A crowd in a process of its own, which may use the time that this one waits."""
        rate = max(1, self._held // 5)
        self._crowd = subprocess.Popen(
            [*COMMAND, "--crowd", str(self._port), str(self._held), str(rate)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._crowd.stdout is not None
        if self._crowd.stdout.readline() != b"ready\n":
            raise RuntimeError("the crowd did not come")

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Takes samples."""
        count, timeout_s = request["count"], request["timeout_ms"] / 1000
        made = Samples()
        if self._load == "clients":
            self._connect(count, made)
        elif self._load == "destinations":
            start = monotonic_ns()
            self._teach(count)
            made.add(start, start + (monotonic_ns() - start) // count)
        else:
            pace = Pace(request["pace_us"])
            for _ in range(count):
                time.sleep(pace.wait_s())
                self._sample(timeout_s, made)
        return made.answer() | {"check": NO_PAYLOAD}

    def _sample(self, timeout_s: float, made: Samples) -> None:
        assert self._way is not None
        try:
            if self._load == "forward":
                start, end = self._way.burst(self._size, self._window, timeout_s)
                made.add(start, start + (end - start) // self._size)
            else:
                made.add(*self._way.single(timeout_s))
        except OSError as error:
            made.fail(error)

    def _connect(self, count: int, made: Samples) -> None:
        for _ in range(count):
            start = monotonic_ns()
            self._clients.append(socket.create_connection((HOST, self._port), timeout=_MEET_S))
            made.add(start, monotonic_ns())

    def operations(self) -> Operations:
        """By name."""
        return {"open": self.open, "prepare": self.prepare, "run": self.run}

    def close(self) -> None:
        """Ends everything."""
        for client in self._clients:
            client.close()
        if self._way is not None:
            self._way.close()
        if self._crowd is not None:
            assert self._crowd.stdin is not None
            self._crowd.stdin.close()
            self._crowd.wait(_MEET_S)


def crowd(port: int, clients: int, rate: int) -> int:
    """Clients that listen, one of which announces, until the end of input."""
    gone = threading.Event()

    def watch() -> None:
        sys.stdin.buffer.read()
        gone.set()

    lines = [socket.create_connection((HOST, port), timeout=_MEET_S) for _ in range(clients)]
    waiting = list(announces(rate * _ANNOUNCE_S))
    threading.Thread(target=watch, daemon=True).start()
    print("ready", flush=True)
    lines[0].setblocking(True)
    for line in lines[1:]:
        line.setblocking(False)
    step = max(1, round(rate * _CROWD_PERIOD_S))
    pace = Pace(round(1e6 * step / rate))
    while not gone.wait(pace.wait_s()):
        lines[0].sendall(b"".join(waiting.pop() for _ in range(min(step, len(waiting)))))
        for line in lines[1:]:
            with contextlib.suppress(BlockingIOError):
                line.recv(_READ)
    for line in lines:
        line.close()
    return 0


def main(arguments: Sequence[str]) -> int:
    """Runs the driver, or a crowd for it; returns the exit code."""
    if arguments[0] == "--crowd":
        return crowd(*map(int, arguments[1:]))
    sys.setswitchinterval(0.0005)
    with contextlib.closing(Driver()) as driver:
        return serve(driver.operations())
