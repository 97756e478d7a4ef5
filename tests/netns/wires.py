"""Networks for tests: namespaces of this machine, joined by virtual cables.

A namespace has a loop of its own, whose nodes have its devices. Cables can be unplugged, and
lose frames with a seeded probability. Where none of this can be made, tests are skipped.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netmesh.loop import Loop

_CLONE_NEWNET = 0x40000000
_SOL_PACKET, _PACKET_IGNORE_OUTGOING, _PACKET_VNET_HDR = 263, 23, 15
_ETH_P_ALL = 0x0003
_VNET_HDR_SIZE = 10
_numbers = itertools.count(1)


def ip(*words: str) -> str:
    """Runs ip(8) and returns what it says."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Namespace:
    """One host of the test's network."""

    def __init__(self, name: str) -> None:
        self.name = name
        ip("netns", "add", name)
        self.ip("link", "set", "lo", "up")
        # Addresses can be used at once, instead of after a search for duplicates.
        self.set("net/ipv6/conf/default/accept_dad", 0)
        self.set("net/ipv6/conf/all/accept_dad", 0)

    def ip(self, *words: str) -> str:
        """Runs ip(8) in it."""
        return ip("-n", self.name, *words)

    def settle(self, device: str) -> None:
        """Waits until a device is up: the kernel drops what it sends before, silently."""
        until = time.monotonic() + 40
        while "state UP" not in self.ip("link", "show", device):
            if time.monotonic() > until:
                raise TimeoutError(f"{device} does not come up")
            time.sleep(0.005)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and threads that it starts, are in it meanwhile."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{self.name}") as here:
            if libc.setns(here.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                if libc.setns(before.fileno(), _CLONE_NEWNET) != 0:
                    os.abort()  # nothing that follows would run where it should

    def set(self, key: str, value: object) -> None:
        """Sets a kernel parameter."""
        with self.inside():
            Path("/proc/sys", key).write_text(f"{value}\n")

    def loop(self) -> Loop:
        """A loop whose nodes are in it."""
        with self.inside():
            return Loop()

    def command(self, *words: str) -> list[str]:
        """A command line that runs in it."""
        return ["ip", "netns", "exec", self.name, *words]

    def close(self) -> None:
        """Takes it away; its devices go with it."""
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)


class Network:
    """Two hosts, "a" and "b", each with a device "eth0", joined by a bridge in the middle."""

    def __init__(self) -> None:
        prefix = f"nm{os.getpid()}x{next(_numbers)}"
        self._all: list[Namespace] = []
        try:
            self.a, self.b, self.middle = (self._add(prefix + end) for end in "abm")
            for host, end in ((self.a, "to_a"), (self.b, "to_b")):
                self.cable(host, "eth0", end)
            self.middle.ip("link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
            self.middle.ip("link", "set", "bridge", "up")
            for end in ("to_a", "to_b"):
                self.middle.ip("link", "set", end, "master", "bridge")
            self.middle.settle("bridge")
        except OSError:
            self.close()
            raise
        self._forwarder: Forwarder | None = None

    def _add(self, name: str) -> Namespace:
        namespace = Namespace(name)
        self._all.append(namespace)
        return namespace

    def cable(self, host: Namespace, device: str, end: str) -> None:
        """A cable from a device of a host to the middle."""
        host.ip(
            *("link", "add", device, "type", "veth"),
            *("peer", "name", end, "netns", self.middle.name),
        )
        host.ip("link", "set", device, "up")
        self.middle.ip("link", "set", end, "up")
        host.settle(device)
        self.middle.settle(end)

    def settle(self) -> None:
        """Waits until the cables to "eth0" carry frames again."""
        for host, device in (
            (self.a, "eth0"),
            (self.b, "eth0"),
            (self.middle, "to_a"),
            (self.middle, "to_b"),
        ):
            host.settle(device)

    def plug(self, end: str, on: bool) -> None:
        """Plugs a cable, "to_a" or "to_b", in or out, in the middle."""
        self.middle.ip("link", "set", end, "up" if on else "down")

    def lose(self, share: float, seed: int = 1) -> Forwarder:
        """From now on the middle loses a share of the frames."""
        for end in ("to_a", "to_b"):
            self.middle.ip("link", "set", end, "nomaster")
        with self.middle.inside():
            self._forwarder = Forwarder("to_a", "to_b", share, seed)
        return self._forwarder

    def close(self) -> None:
        """Takes everything away."""
        forwarder = getattr(self, "_forwarder", None)
        if forwarder is not None:
            forwarder.close()
        for namespace in self._all:
            namespace.close()


class Forwarder:
    """Carries frames between two devices of this thread's namespace, and loses some."""

    def __init__(self, first: str, second: str, share: float, seed: int) -> None:
        self._random = random.Random(seed)
        self._share = share
        self.lost = 0
        self.carried = 0
        self._loop = asyncio.get_running_loop()
        self._sockets = [self._open(name) for name in (first, second)]
        for one, other in (self._sockets, self._sockets[::-1]):
            self._loop.add_reader(one, self._forward, one, other)

    @staticmethod
    def _open(name: str) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        # Frames keep their half-made checksums as they pass.
        opened.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        opened.bind((name, _ETH_P_ALL))
        opened.setblocking(False)
        return opened

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        for _ in range(64):
            try:
                frame = one.recv(1 << 17)
            except (BlockingIOError, OSError):
                return
            if self._random.random() < self._share:
                self.lost += 1
                continue
            try:
                other.send(frame)
                self.carried += 1
            except OSError:
                self.lost += 1

    def close(self) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()


@contextmanager
def network() -> Iterator[Network]:
    """A network; skips the test where there can be none."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("network namespaces need root on Linux")
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need ip(8)")
    name = f"nm{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other")
        ip("-n", name, "link", "add", "bridge", "type", "bridge")
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    made = Network()
    try:
        yield made
    finally:
        made.close()
