"""Interfaces of a node: what carries its packets.

An interface is described by a frozen object and opened by giving that to a node:
:class:`AutoInterface` (finds the nodes of the local network), :class:`TCPServer`,
:class:`TCPClient`, :class:`UDP`, :class:`LocalClient` (attached to a shared instance, such as
the ``rnsd`` of this machine), :class:`Pipe` (between two nodes of one process) and
:class:`CustomInterface` (frames that your own class sends and receives). The node gives back
an :class:`Interface`, the open interface, which can be watched, paused, changed and removed.

Example:
    >>> TCPClient("mesh.example.org", 4242, network_name="club", passphrase="open sesame")
    TCPClient(host='mesh.example.org', port=4242, network_name='club')
    >>> left, right = Pipe.pair()
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, final

from netmesh import _records
from netmesh._core import NODE_CODES, pipe_pair
from netmesh._inbox import Source
from netmesh.constants import InterfaceMode
from netmesh.decisions import mtu_for_bitrate
from netmesh.errors import StateError
from netmesh.ifac import Ifac
from netmesh.records import (
    IngressNumbers,
    InterfaceCounters,
    InterfaceRecord,
    InterfaceRole,
    MtuMode,
)

if TYPE_CHECKING:
    from netmesh.node import Node

__all__ = [
    "UDP",
    "AutoInterface",
    "CustomInterface",
    "DeviceInfo",
    "Interface",
    "InterfaceInfo",
    "InterfaceOptions",
    "InterfaceTrouble",
    "LocalClient",
    "PeerFound",
    "PeerLost",
    "Pipe",
    "PortTrouble",
    "TCPClient",
    "TCPServer",
]

log = logging.getLogger("netmesh.interfaces")

_MEDIA: Final[dict[str, int]] = NODE_CODES["media"]
_IFAC_SIZE: Final = 16
_FEEDS_MAX: Final = 1024
_FRAMES_MAX: Final = 1024
_FRAMES_BYTES: Final = 4 << 20
_numbers = itertools.count(1)


class PortTrouble(IntEnum):
    """Why a connection is not there."""

    NONE = 0
    """It is there, or was never tried."""
    RESOLVE = 1
    """The name has no address."""
    CONNECT = 2
    """Refused, or unreachable."""
    TIMEOUT = 3
    """No answer to the attempt in time."""
    CLOSED = 4
    """The peer closed it, or it broke."""
    LISTEN = 5
    """The address cannot be listened on."""
    ACCEPT = 6
    """No descriptor or memory for a connection."""
    GAVE_UP = 7
    """As many attempts failed as may."""
    CARRIER = 8
    """An :class:`AutoInterface` does not hear its own multicast on a device: a firewall or the
    device swallows it. NONE follows when it is heard again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceOptions:
    """What all interfaces can be told. None means what is usual for the kind.

    ``label`` is part of the interface's name. ``mode`` says how announces and paths spread
    over it. ``bitrate`` is bit/s; ``mtu`` the longest packet in bytes, "auto" follows the
    bitrate. ``network_name`` and ``passphrase`` demand an access code of ``ifac_size`` bytes
    of every packet; ``ifac`` gives it ready-made. ``gravity`` is a preference among equal
    paths. ``receives`` and ``sends`` close a direction. ``announce_cap``, the ``rate_``
    numbers, ``ingress_control`` with its ``ingress`` numbers, ``recursive_prs`` with
    ``egress_limit`` (path requests passed on per second, 0: any number) and the ``announces_``
    switches are what a transport node goes by. At most ``queue_bytes`` and
    ``queue_packets`` wait to be sent on a connection; what does not fit is dropped and counted.
    """

    label: str | None = None
    mode: InterfaceMode | None = None
    bitrate: int | None = None
    mtu: int | str | None = None
    network_name: str | None = None
    passphrase: str | None = field(default=None, repr=False)
    ifac_size: int = _IFAC_SIZE
    ifac: Ifac | None = field(default=None, repr=False)
    receives: bool = True
    sends: bool = True
    gravity: int = 0
    announce_cap: float | None = None
    rate_target_s: int = 0
    rate_grace: int = 0
    rate_penalty_s: int = 0
    ingress_control: bool | None = None
    ingress: IngressNumbers | None = None
    recursive_prs: bool = False
    egress_limit: float = 0.0
    announces_from_internal: bool = True
    announces_to_internal: bool | None = None
    queue_bytes: int | None = None
    queue_packets: int | None = None

    def _properties(self) -> dict[str, Any]:
        """What the engine is told."""
        given: dict[str, Any] = {
            "receives": self.receives,
            "sends": self.sends,
            "gravity": self.gravity,
            "rate_target_s": self.rate_target_s,
            "rate_grace": self.rate_grace,
            "rate_penalty_s": self.rate_penalty_s,
            "recursive_prs": self.recursive_prs,
            "egress_limit": self.egress_limit,
            "announces_from_internal": self.announces_from_internal,
            "announces_to_internal": self.announces_to_internal,
            "ifac": self._access_code(),
        }
        if self.mode is not None:
            given["mode"] = int(self.mode)
        for name in ("announce_cap", "ingress_control", "bitrate"):
            value = getattr(self, name)
            if value is not None:
                given[name] = value
        if self.ingress is not None:
            given |= _records.ingress_options(self.ingress)
        return given | self._mtu_properties()

    def _mtu_properties(self) -> dict[str, Any]:
        if isinstance(self.mtu, int):
            return {"mtu_mode": int(MtuMode.FIXED), "hw_mtu": self.mtu}
        if self.mtu == "auto" or (self.mtu is None and self.bitrate is not None):
            if self.bitrate is None:
                raise ValueError('mtu="auto" needs a bitrate')
            size = mtu_for_bitrate(self.bitrate) or 0
            return {"mtu_mode": int(MtuMode.AUTO), "hw_mtu": size}
        if self.mtu is not None:
            raise ValueError(f'mtu must be a number of bytes or "auto", not {self.mtu!r}')
        return {}

    def _access_code(self) -> Ifac | None:
        if self.ifac is not None:
            return self.ifac
        if self.network_name is None and self.passphrase is None:
            return None
        return Ifac(network_name=self.network_name, passphrase=self.passphrase, size=self.ifac_size)

    def _medium(self) -> int:
        """What carries the bytes."""
        raise TypeError(
            "open an AutoInterface, TCPServer, TCPClient, UDP, LocalClient, Pipe or CustomInterface"
        )

    def _setup(self) -> dict[str, Any]:
        """What the core is told."""
        setup: dict[str, Any] = {
            "medium": self._medium(),
            "label": self._label(),
            "spec": self._properties(),
        }
        return setup | self._queue()

    def _queue(self) -> dict[str, Any]:
        queue = {"queue_bytes": self.queue_bytes, "queue_packets": self.queue_packets}
        return {name: value for name, value in queue.items() if value is not None}

    def _label(self) -> str:
        return self.label if self.label is not None else type(self).__name__


def _is_name(host: str) -> bool:
    """Whether it can be a name: it has a letter, and nothing that only addresses have."""
    return any(c.isascii() and c.isalpha() for c in host) and not set(host) & set(":%/ ")


def _shown(options: InterfaceOptions, first: Mapping[str, object]) -> str:
    """A repr with what differs from the default, without secrets."""
    words = [f"{name}={value!r}" for name, value in first.items()]
    for name in ("label", "mode", "bitrate", "mtu", "network_name"):
        value = getattr(options, name)
        if value is not None:
            words.append(f"{name}={value!r}")
    return f"{type(options).__name__}({', '.join(words)})"


@dataclass(frozen=True, slots=True, repr=False)
class TCPServer(InterfaceOptions):
    """Accepts connections on a TCP port. Each becomes an interface with the same options.

    An empty ``host`` is every address, IPv6 and IPv4; ``port`` 0 is any free one, readable as
    :attr:`Interface.port`. "0.0.0.0" is every IPv4 address alone, "::" every IPv6 one. With
    ``device`` only connections over that network device are taken. At most ``connections_max``
    are open at once (4096).

    An address whose connections end within ``flap_threshold_s`` without a packet that could be
    read, more than ``flap_grace`` times without a longer one in between, is turned away for
    ``flap_first_s`` after the last time, and twice as long after each more, up to
    ``flap_block_s``: scanners and broken clients, not many clients behind one address or a
    program that connects again for each message. A threshold of 0 turns this off. IPv6
    addresses count by their network of 64 bits; the loopback addresses never do. Upstream's
    Backbone blocks for 12 hours, its TCP server never.
    """

    host: str = ""
    port: int = 0
    connections_max: int | None = field(default=None, kw_only=True)
    device: str | None = field(default=None, kw_only=True)
    flap_threshold_s: float = field(default=20.0, kw_only=True)
    flap_grace: int = field(default=20, kw_only=True)
    flap_first_s: float = field(default=2.0, kw_only=True)
    flap_block_s: float = field(default=60.0, kw_only=True)

    def __repr__(self) -> str:
        return _shown(self, {"host": self.host, "port": self.port})

    def _medium(self) -> int:
        return _MEDIA["tcp_server"]

    def _setup(self) -> dict[str, Any]:
        setup = InterfaceOptions._setup(self) | {"host": self.host, "port": self.port}
        if self.connections_max is not None:
            setup["connections_max"] = self.connections_max
        return setup | {
            "device": self.device or "",
            "flap_threshold_ms": round(self.flap_threshold_s * 1000),
            "flap_grace": self.flap_grace,
            "flap_first_ms": round(self.flap_first_s * 1000),
            "flap_block_ms": round(self.flap_block_s * 1000),
        }


@dataclass(frozen=True, slots=True, repr=False)
class TCPClient(InterfaceOptions):
    """Connects to a TCP port, again whenever the connection breaks.

    The pause between attempts grows from ``retry_first_ms`` to ``retry_max_ms``, with jitter;
    after ``max_tries`` failures in a row it gives up (0: never). An attempt may take
    ``connect_timeout_ms``. ``kiss`` frames packets in KISS instead of HDLC. ``i2p_tunneled``
    gives silent peers more time. ``prefer_ipv6`` orders the addresses of a name. With ``device``
    it connects over that network device alone, and waits while it is not there.
    """

    host: str
    port: int
    max_tries: int = field(default=0, kw_only=True)
    retry_first_ms: int = field(default=100, kw_only=True)
    retry_max_ms: int = field(default=60_000, kw_only=True)
    connect_timeout_ms: int = field(default=5_000, kw_only=True)
    kiss: bool = field(default=False, kw_only=True)
    i2p_tunneled: bool = field(default=False, kw_only=True)
    prefer_ipv6: bool = field(default=False, kw_only=True)
    device: str | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return _shown(self, {"host": self.host, "port": self.port})

    def _medium(self) -> int:
        return _MEDIA["tcp_client"]

    def _setup(self) -> dict[str, Any]:
        setup = InterfaceOptions._setup(self)
        names = (
            "host",
            "port",
            "max_tries",
            "retry_first_ms",
            "retry_max_ms",
            "connect_timeout_ms",
            "kiss",
            "i2p_tunneled",
            "prefer_ipv6",
        )
        setup |= {name: getattr(self, name) for name in names}
        return setup | {"device": self.device or ""}


@dataclass(frozen=True, slots=True, repr=False)
class UDP(InterfaceOptions):
    """Each packet is one datagram, sent to one address, heard from any.

    Listens on the numeric address ``listen_host`` and ``listen_port`` (0: any free port,
    readable as :attr:`Interface.port`) and sends to ``forward_host`` and ``forward_port``, from
    a port of its own. ``forward_host`` is an address or a name, which is looked up again after
    each failure (trouble RESOLVE while it is not known); a broadcast address reaches all who
    listen on its network. ``port`` is the default of both ports. An interface without a
    listening address only sends, one without a forwarding address only listens. With ``device``
    nothing else is used than that network device, and addresses that are left out are its IPv4
    broadcast address. IPv6 addresses may end in ``%`` and a device.

    Nothing is resent and nobody is authenticated: links and files cope with loss, an access
    code (``passphrase``) keeps strangers out. While the network is not there, packets are
    dropped and counted, and the interface tries again.

    Example:
        >>> UDP(device="eth0", port=4242)
        UDP(device='eth0', listen_port=4242, forward_port=4242)
        >>> UDP("10.0.0.1", 4242, forward_host="10.0.0.2", forward_port=4242)
        UDP(listen_host='10.0.0.1', listen_port=4242, forward_host='10.0.0.2', forward_port=4242)
    """

    listen_host: str | None = None
    listen_port: int | None = None
    forward_host: str | None = field(default=None, kw_only=True)
    forward_port: int | None = field(default=None, kw_only=True)
    port: int | None = field(default=None, kw_only=True)
    device: str | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        shown = {
            "device": self.device,
            "listen_host": self.listen_host,
            "listen_port": self._listen_port(),
            "forward_host": self.forward_host,
            "forward_port": self._forward_port(),
        }
        return _shown(self, {name: value for name, value in shown.items() if value is not None})

    def _listen_port(self) -> int | None:
        return self.port if self.listen_port is None else self.listen_port

    def _forward_port(self) -> int | None:
        return self.port if self.forward_port is None else self.forward_port

    def _medium(self) -> int:
        return _MEDIA["udp"]

    def _setup(self) -> dict[str, Any]:
        from ipaddress import ip_address

        listen, forward = self._listen_port(), self._forward_port()
        if self.listen_host is not None:
            ip_address(self.listen_host)
        if self.forward_host is not None and not _is_name(self.forward_host):
            ip_address(self.forward_host)
        if self.listen_host is not None and listen is None:
            raise ValueError("a listening address needs a listening port, or port")
        if self.forward_host is not None and not forward:
            raise ValueError("a forwarding address needs a forwarding port, or port")
        if self.device is None and self.listen_host is None and self.forward_host is None:
            raise ValueError("a UDP interface needs a listening or forwarding address or a device")
        setup = InterfaceOptions._setup(self)
        setup |= {
            "host": self.listen_host or "",
            "port": listen or 0,
            "forward_host": self.forward_host or "",
            "forward_port": forward or 0,
            "device": self.device or "",
        }
        return setup


_SCOPES: Final = {"link": "2", "admin": "4", "site": "5", "organisation": "8", "global": "e"}
_ADDRESS_TYPES: Final = {"temporary": "1", "permanent": "0"}


@dataclass(frozen=True, slots=True, repr=False)
class AutoInterface(InterfaceOptions):
    """Finds the nodes of the local network, without configuration, and talks to each.

    Nodes with the same ``group_id`` find each other by IPv6 multicast on every network device
    that has a link-local address, or on those in ``devices``; those in ``ignored_devices`` are
    left out, and so is loopback. Devices may come, go, flap and change address at any time.
    Each peer becomes an interface of its own with the options given here
    (:class:`PeerFound`, :class:`PeerLost`), and goes when it was silent for ``peer_timeout_s``;
    at most ``peers_max`` are kept. :meth:`Interface.devices` tells which devices are used, and
    :meth:`Interface.peers` which peers there are.

    ``discovery_scope`` is "link", "admin", "site", "organisation" or "global", and
    ``multicast_address_type`` "temporary" or "permanent": both are part of the multicast
    address. Peers hear each other at ``discovery_port``, the port after it, and ``data_port``
    (UDP), which firewalls must let in. One program of a machine can have a data port: when
    another one has it, the interface waits for it (:class:`InterfaceTrouble`, LISTEN).

    Example:
        >>> AutoInterface()
        AutoInterface()
        >>> AutoInterface(group_id="workshop", devices=("eth0", "wlan0"))
        AutoInterface(group_id='workshop', devices=('eth0', 'wlan0'))
    """

    group_id: str = "reticulum"
    discovery_scope: str = field(default="link", kw_only=True)
    multicast_address_type: str = field(default="temporary", kw_only=True)
    discovery_port: int = field(default=29716, kw_only=True)
    data_port: int = field(default=42671, kw_only=True)
    devices: tuple[str, ...] = field(default=(), kw_only=True)
    ignored_devices: tuple[str, ...] = field(default=(), kw_only=True)
    peer_timeout_s: float = field(default=22.0, kw_only=True)
    peers_max: int = field(default=1024, kw_only=True)

    def __repr__(self) -> str:
        own = {each.name: each for each in fields(AutoInterface)}
        shown = {name: getattr(self, name) for name in AutoInterface.__annotations__}
        return _shown(
            self, {name: value for name, value in shown.items() if value != own[name].default}
        )

    def _medium(self) -> int:
        return _MEDIA["auto"]

    def _setup(self) -> dict[str, Any]:
        for name, known in (
            ("discovery_scope", _SCOPES),
            ("multicast_address_type", _ADDRESS_TYPES),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}")
        for device in (*self.devices, *self.ignored_devices):
            if not device or "," in device:
                raise ValueError(f"{device!r} is no name of a network device")
        setup = InterfaceOptions._setup(self)
        setup |= {
            "group": self.group_id,
            "scope": _SCOPES[self.discovery_scope],
            "address_type": _ADDRESS_TYPES[self.multicast_address_type],
            "discovery_port": self.discovery_port,
            "data_port": self.data_port,
            "devices": ",".join(self.devices),
            "ignored": ",".join(self.ignored_devices),
            "peer_timeout_ms": round(self.peer_timeout_s * 1000),
            "connections_max": self.peers_max,
        }
        return setup


@dataclass(frozen=True, slots=True, repr=False)
class LocalClient(InterfaceOptions):
    """Attached to a shared instance, such as an ``rnsd``, which has the real interfaces.

    ``name`` is the instance's name on this machine (Linux); with ``port`` it is reached at a
    TCP port of ``host`` instead, as on other systems (37428 by default there). When the
    instance goes away the node attaches again as soon as it is back, and makes itself known to
    it anew.
    """

    name: str = "default"
    host: str | None = field(default=None, kw_only=True)
    port: int | None = field(default=None, kw_only=True)
    retry_first_ms: int = field(default=100, kw_only=True)
    retry_max_ms: int = field(default=8_000, kw_only=True)

    def __repr__(self) -> str:
        where = {"name": self.name} if self.port is None else {"port": self.port}
        return _shown(self, where)

    def _medium(self) -> int:
        return _MEDIA["local_client"]

    def _setup(self) -> dict[str, Any]:
        setup = InterfaceOptions._setup(self)
        setup |= {
            "instance": self.name,
            "retry_first_ms": self.retry_first_ms,
            "retry_max_ms": self.retry_max_ms,
        }
        if self.port is not None or self.host is not None:
            setup["local_tcp"] = True
            setup["host"] = self.host or "127.0.0.1"
            setup["port"] = self.port or 37428
        return setup


class _End:
    """The descriptor of a pipe's end until a node takes it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def take(self) -> int:
        fd, self.fd = self.fd, -1
        if fd < 0:
            raise StateError("this end of the pipe is in use, or was closed")
        return fd

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True, repr=False)
class Pipe(InterfaceOptions):
    """One end of a pipe that joins two nodes of this process; made by :meth:`pair`.

    Each end can be opened once; it stays with its node until it is removed.
    """

    _end: _End
    _number: int

    def __repr__(self) -> str:
        return _shown(self, {"number": self._number})

    @staticmethod
    def pair(**options: Any) -> tuple[Pipe, Pipe]:
        """Two ends that belong together, both with the same options.

        Raises NetmeshError when the system has no descriptors left.
        """
        first, second = (_End(fd) for fd in pipe_pair())
        number = next(_numbers)
        return Pipe(first, number, **options), Pipe(second, number, **options)

    def close(self) -> None:
        """Closes an end that was not opened; quiet otherwise."""
        self._end.close()

    def _label(self) -> str:
        return self.label if self.label is not None else f"{self._number}"

    def _medium(self) -> int:
        return _MEDIA["pipe"]

    def _setup(self) -> dict[str, Any]:
        return InterfaceOptions._setup(self) | {"fd": self._end.take()}


class CustomInterface(ABC):
    """An interface that you write: a class that sends frames and hands on what comes in.

    Subclasses implement :meth:`send` and call :meth:`received`. :meth:`run` is a task that
    lives as long as the interface is open, to read from a device for example. An exception in
    either pauses the interface and is told as an :class:`InterfaceTrouble`; nothing else of
    the node is disturbed, and :meth:`Interface.resume` starts it afresh. Frames that wait to be
    sent are bounded (``queue_packets``, ``queue_bytes``); what does not fit is dropped and
    counted.

    Example:
        >>> class Loopback(CustomInterface):
        ...     async def send(self, frame: bytes) -> None:
        ...         self.received(frame)
    """

    def __init__(self, label: str | None = None, **options: Any) -> None:
        self.options = InterfaceOptions(
            label=type(self).__name__ if label is None else label, **options
        )
        self._node: Node | None = None
        self._interface: Interface | None = None
        self._frames: Source[bytes] | None = None
        self._waiting_bytes = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._feeding = 0
        self.rx_dropped = 0
        """Frames handed to :meth:`received` that found too many others waiting."""
        self.tx_dropped = 0
        """Frames that found too many others waiting for :meth:`send`."""

    @abstractmethod
    async def send(self, frame: bytes) -> None:
        """Puts one frame on the medium, access code included. The next one waits meanwhile."""

    async def run(self) -> None:
        """Runs while the interface is open; cancelled when it is removed."""
        return

    def received(self, frame: bytes | bytearray | memoryview) -> bool:
        """Hands on a frame that came in; call it on the node's event loop.

        False when it was dropped: the interface is not open, or too many frames wait.
        """
        node, interface = self._node, self._interface
        if node is None or interface is None or self._feeding >= _FEEDS_MAX:
            self.rx_dropped += 1
            return False
        self._feeding += 1
        node._feed(interface.id, frame, self._fed)
        return True

    def _fed(self) -> None:
        self._feeding -= 1

    def _medium(self) -> int:
        return _MEDIA["user"]

    def _setup(self) -> dict[str, Any]:
        options = self.options
        setup: dict[str, Any] = {
            "medium": self._medium(),
            "label": options._label(),
            "spec": options._properties(),
        }
        return setup | options._queue()

    def _open(self, node: Node, interface: Interface) -> None:
        self._node = node
        self._interface = interface
        self._frames = Source()
        self._waiting_bytes = 0
        self._tasks = [
            node._spawn(self._guard(self._send_all()), f"{interface.label}.send"),
            node._spawn(self._guard(self.run()), f"{interface.label}.run"),
        ]

    def _close(self) -> None:
        self._node = None
        self._interface = None
        self._frames = None
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()

    def _frame(self, frame: bytes) -> None:
        frames, options = self._frames, self.options
        if frames is None:
            return
        most = options.queue_packets or _FRAMES_MAX
        room = (options.queue_bytes or _FRAMES_BYTES) - self._waiting_bytes
        if len(frames) >= most or (len(frames) > 0 and len(frame) > room):
            self.tx_dropped += 1
            return
        self._waiting_bytes += len(frame)
        frames._put(frame)

    async def _send_all(self) -> None:
        frames = self._frames
        assert frames is not None
        async for frame in frames:
            self._waiting_bytes -= len(frame)
            await self.send(frame)

    async def _guard(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            node, interface = self._node, self._interface
            if node is not None and interface is not None:
                node._interface_failed(interface, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceTrouble:
    """A connection broke, could not be made, or a user-written interface failed."""

    time_s: float
    """When, on the monotonic clock."""
    time_unix_s: float
    """When, on the Unix clock."""
    interface: int | None
    """Its id; None when it could not be opened at all."""
    label: str
    """What it is called; of a server's connection what the server is called."""
    trouble: PortTrouble
    """What happened; NONE for a failure of a :class:`CustomInterface`."""
    os_error: int | None
    """The errno, if the system gave one."""
    error: Exception | None = None
    """The exception of a :class:`CustomInterface`, or why it could not be opened."""
    device: str | None = None
    """The network device, when it is a matter of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peer:
    time_s: float
    """When, on the monotonic clock."""
    time_unix_s: float
    """When, on the Unix clock."""
    interface: int
    """The id of the :class:`AutoInterface`."""
    peer: int
    """The id of the peer's own interface."""
    device: str
    """The network device that it is on."""
    address: str
    """Its link-local address."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFound(_Peer):
    """An :class:`AutoInterface` found a node."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLost(_Peer):
    """A node was silent for too long, or its network device went away."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A network device as an :class:`AutoInterface` sees it."""

    name: str
    """Such as "eth0"."""
    index: int
    """The system's number for it."""
    state: str
    """"listening"; "ignored" (by the options, or because it cannot multicast); "down" (switched
    off or without a carrier); "no_address" (no link-local address yet); "failed", tried again."""
    os_error: int | None
    """The errno of "failed"."""
    address: str | None
    """The link-local address in use."""
    addresses: int
    """How many it has."""
    peers: int
    """How many were found on it."""
    echo_heard: bool
    """Own multicast came back since it listens. When it never does, a firewall is in the way."""
    echo_lost: bool
    """It has been missing for 6.5 seconds or more."""
    opened: int
    """Times that listening began."""
    announces: int
    """Own tokens sent to the group."""
    echoes: int
    """Those that came back."""
    forged: int
    """Tokens of other groups, or wrong ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceInfo:
    """One interface of a node as it is; at most a tenth of a second old."""

    id: int
    """Its id, which events name."""
    parent: int | None
    """The server that accepted it, or the automatic interface that found it."""
    medium: str
    """"tcp_client", "tcp_server", "tcp_child", "pipe", "local_client", "udp", "auto", "auto_peer"
    or "user"."""
    name: str
    """Its display name, whose hash identifies it."""
    label: str
    """What it was called when it was added."""
    hash: bytes
    """32 bytes."""
    mode: InterfaceMode
    """How announces and paths spread over it."""
    role: InterfaceRole
    """What the other end is."""
    online: bool
    """Whether it carries packets."""
    paused: bool
    """Whether it was paused."""
    listening: bool
    """Whether it accepts connections."""
    ifac_size: int | None
    """Bytes of its access code."""
    mtu_mode: MtuMode
    """How its MTU takes part in the MTU of links."""
    receives: bool
    """Whether it takes packets in."""
    sends: bool
    """Whether it lets packets out."""
    tunnels: bool
    """Whether it asks for a tunnel when it comes online."""
    gravity: int
    """Preference among equal paths."""
    announce_cap: float
    """The share of the bitrate for relayed announces (transport nodes)."""
    rate_target_s: int
    """The least interval of announces per destination, 0: none (transport nodes)."""
    rate_grace: int
    """How often that may be broken."""
    rate_penalty_s: int
    """How long it is punished."""
    ingress_control: bool
    """Whether bursts of new destinations are held back."""
    ingress: IngressNumbers
    """What counts as a burst."""
    egress_limit: float
    """Path requests passed on per second at most, 0: any number (transport nodes)."""
    recursive_prs: bool
    """Whether path requests of it are passed on (transport nodes)."""
    announces_from_internal: bool
    """Whether announces of internal interfaces go out on it (transport nodes)."""
    announces_to_internal: bool | None
    """Whether its announces go to internal interfaces; None: by its mode (transport nodes)."""
    port: int | None
    """The bound port, or the peer's."""
    connections: int
    """Of a server: open now; of an automatic interface: its peers."""
    hw_mtu: int | None
    """The longest packet in bytes, None: any."""
    bitrate: int
    """Bit/s."""
    trouble: PortTrouble
    """The last one."""
    os_error: int | None
    """Its errno."""
    tries: int
    """Attempts since the last success."""
    opened: int
    """Connections made or accepted."""
    refused: int
    """Connections that a server, or peers that automatic discovery, did not take."""
    refusals: Mapping[str, int]
    """The same by reason: "limit" (so many are open), "resources" (no descriptor or memory),
    "flapping" (see :class:`TCPServer`)."""
    flaps: int
    """Connections to a server that ended sooner than ``flap_threshold_s``, with nothing said."""
    flaps_evicted: int
    """Addresses of those that made room for others: 512 are remembered."""
    wire_rx_bytes: int
    """Bytes in, with framing."""
    wire_tx_bytes: int
    """Bytes out, with framing."""
    rx_discarded_bytes: int
    """Bytes outside of frames or of bad ones."""
    rx_runts: int
    """Frames that were too short."""
    rx_oversize: int
    """Frames that were too long."""
    rx_echoes: int
    """Datagrams that were our own, or came over two devices."""
    rx_strangers: int
    """Datagrams for an automatic interface from none of its peers."""
    network_errors: int
    """Errors that the network told of datagrams sent before."""
    queued_packets: int
    """Packets that wait to be sent."""
    queued_bytes: int
    """Their bytes."""
    drops: Mapping[str, int]
    """Output that was dropped: "offline", "queue_bytes", "queue_packets", "memory", "egress";
    of datagrams also "too_large", "buffers" and "unreachable"."""
    counters: InterfaceCounters
    """What the engine counted; a server's: its connections'."""


def _info(core: dict[str, Any]) -> InterfaceInfo:
    fields = dict(core)
    has_ifac = fields.pop("has_ifac")
    fields["medium"] = fields.pop("medium_name")
    fields["parent"] = fields["parent"] or None
    fields["mode"] = InterfaceMode(fields["mode"])
    fields["mtu_mode"] = MtuMode(fields["mtu_mode"])
    fields["ingress"] = _records.ingress(fields)
    fields["role"] = InterfaceRole(fields["role"])
    fields["ifac_size"] = fields["ifac_size"] if has_ifac else None
    fields["port"] = fields["port"] or None
    fields["hw_mtu"] = fields["hw_mtu"] or None
    fields["trouble"] = PortTrouble(fields["trouble"])
    fields["os_error"] = -fields["os_error"] or None
    fields["counters"] = _records.counters(fields["counters"])
    return InterfaceInfo(**fields)


def _record(info: InterfaceInfo, ifac: Ifac | None) -> InterfaceRecord:
    """The same as a line of a snapshot, with its access code."""
    shared = {each.name for each in fields(InterfaceRecord)} - {"interface", "ifac"}
    return InterfaceRecord(
        interface=info.id, ifac=ifac, **{name: getattr(info, name) for name in shared}
    )


def _device(core: dict[str, Any]) -> DeviceInfo:
    return DeviceInfo(
        **core | {"os_error": -core["os_error"] or None, "address": core["address"] or None}
    )


@final
class Interface:
    """An interface that a node has opened."""

    __slots__ = ("_changed", "_failure", "_node", "_online", "id", "label", "options", "port")

    id: int
    """Its id, which events name."""
    label: str
    """What it is called."""
    port: int | None
    """The bound port of a server."""
    options: InterfaceOptions | CustomInterface
    """What it was opened with, changes included."""

    def __init__(
        self,
        node: Node,
        number: int,
        label: str,
        port: int | None,
        options: InterfaceOptions | CustomInterface,
    ) -> None:
        self._node = node
        self._online = False
        self._failure: Exception | None = None
        self._changed = asyncio.Event()
        self.id = number
        self.label = label
        self.port = port
        self.options = options

    def __repr__(self) -> str:
        port = "" if self.port is None else f" port {self.port}"
        return f"<Interface {self.id} {self.label!r}{port}>"

    @property
    def online(self) -> bool:
        """Whether it carries packets now."""
        return self._online

    async def info(self) -> InterfaceInfo:
        """All about it as it is now. Raises NotFoundError when it is gone."""
        return await self._node.interface_info(self.id)

    async def devices(self) -> list[DeviceInfo]:
        """The network devices as an :class:`AutoInterface` sees them.

        Raises StateError for other interfaces, NotFoundError when it is gone.
        """
        reply = await self._node._ask("iface_devices", "devices", iface=self.id)
        return [_device(core) for core in reply.records]

    async def peers(self) -> list[InterfaceInfo]:
        """The interfaces that belong to it: peers, or accepted connections."""
        reply = await self._node._ask("iface_list", "interfaces")
        return [_info(core) for core in reply.records if core["parent"] == self.id]

    async def wait_online(self, *, timeout: float | None = None) -> None:
        """Waits until it carries packets.

        Raises TimeoutError, StateError when it is removed meanwhile.
        """
        async with asyncio.timeout(timeout):
            while not self._online:
                self._changed.clear()
                await self._changed.wait()
                if self.id not in self._node._interfaces:
                    raise StateError(f"interface {self.label!r} was removed")

    async def pause(self) -> None:
        """Takes no more frames in or out; a connection stays, a server accepts none."""
        await self._node._ask("iface_pause", "interface", iface=self.id)

    async def resume(self) -> None:
        """Goes on after a pause; a :class:`CustomInterface` that failed starts afresh."""
        await self._node._ask("iface_resume", "interface", iface=self.id)
        if self._failure is not None and isinstance(self.options, CustomInterface):
            self._failure = None
            self.options._close()
            self.options._open(self._node, self)

    async def change(self, **options: Any) -> None:
        """Changes options that are named as in :class:`InterfaceOptions`; not the label.

        A server's connections follow. Raises TypeError for an unknown name.
        """
        await self._node._change_interface(self, options)

    async def remove(self) -> None:
        """Closes it for good: its links close, its paths go. Quiet when it is gone."""
        await self._node._remove_interface(self)

    def _set_online(self, online: bool) -> None:
        self._online = online
        self._changed.set()
