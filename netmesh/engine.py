"""The engine: Reticulum as one state machine, driven frame by frame from Python.

An :class:`Engine` does no I/O. It has interfaces that exist only as names, a clock and
entropy that the caller gives, and it is used through a few verbs: frames go in
(:meth:`Engine.input`), frames come out (:meth:`Engine.outputs`), what happened comes out
(:meth:`Engine.events`), and time passes (:meth:`Engine.advance`, or
:meth:`Engine.set_clock` and :meth:`Engine.tick`). The same inputs at the same times with
the same seed give the same outputs, byte for byte. Every table can be read, edited and
loaded back. A test, an embedder or another transport drives it; programs that want sockets
use a node.

Times are seconds: monotonic ones for timers, Unix ones for what is written down. Ids of
interfaces, links, operations and tokens are whole numbers above 0.

Example:
    >>> from netmesh import Identity
    >>> from netmesh.engine import Engine
    >>> from netmesh.events import AnnounceHeard, PacketReceived
    >>> alice, bob = (Engine(clock=(0.0, 1_700_000_000.0)) for _ in range(2))
    >>> cable = {alice: alice.add_interface("to bob"), bob: bob.add_interface("to alice")}
    >>> def carry():
    ...     while frames := [(bob, o) for o in alice.outputs()] + [
    ...         (alice, o) for o in bob.outputs()
    ...     ]:
    ...         for to, output in frames:
    ...             to.input(cable[to], output.data)
    >>> inbox = bob.listen(Identity(), "example.inbox", prove="all")
    >>> subscription = alice.subscribe("example.inbox")
    >>> operation = bob.announce(inbox, b"Bob")
    >>> carry()
    >>> [event.app_data for event in alice.events() if isinstance(event, AnnounceHeard)]
    [b'Bob']
    >>> operation = alice.send(inbox, b"hello")
    >>> carry()
    >>> [event.data for event in bob.events() if isinstance(event, PacketReceived)]
    [b'hello']
    >>> alice.events()[-1].ok  # proven
    True
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, final

from netmesh import _records
from netmesh import _transport_rows as rows
from netmesh._core import (
    Announce,
    Decrypted,
    DestinationHash,
    EngineCore,
    Identity,
    IdentityHash,
    Packet,
    Ratchets,
    Token,
)
from netmesh._engine_channel import EngineChannel
from netmesh._engine_transport import TransportTables
from netmesh._verdict import Verdict as AnnounceVerdict
from netmesh.constants import (
    Context,
    DestinationType,
    InterfaceMode,
    PacketType,
    ProofStrategy,
    RequestPolicy,
    ResourceStrategy,
)
from netmesh.decisions import interface_defaults, mtu_for_bitrate
from netmesh.errors import (
    ChannelClosedError,
    EncodeError,
    KeyMissingError,
    NoRouteError,
    NotFoundError,
    StateError,
)
from netmesh.events import Event, from_raw
from netmesh.ifac import Ifac
from netmesh.msgpack import packb
from netmesh.records import (
    BlackholeRecord,
    Compression,
    EngineStats,
    FlightRecord,
    IngressNumbers,
    InterfaceCounters,
    InterfaceRecord,
    InterfaceRole,
    JobRecord,
    KnownRecord,
    Limits,
    LinkRecord,
    MtuMode,
    Output,
    PathRecord,
    PathRequestRecord,
    PathTag,
    RatchetRecord,
    Recalled,
    ReceiptRecord,
    SentPacket,
    Snapshot,
    TransferRecord,
    Verdict,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Engine", "EngineChannel", "EngineLink"]

log = logging.getLogger("netmesh.engine")

Prove = Literal["none", "app", "all"]
"""What is proven: nothing, what the program accepts, everything."""
Accept = Literal["none", "app", "all"]
"""Which resources are taken: none, what the program accepts, all."""

_PROVE = {"none": ProofStrategy.NONE, "app": ProofStrategy.APP, "all": ProofStrategy.ALL}
_ACCEPT = {
    "none": ResourceStrategy.NONE,
    "app": ResourceStrategy.APP,
    "all": ResourceStrategy.ALL,
}
_COMPRESSION = {
    "off": Compression.OFF,
    "when_smaller": Compression.WHEN_SMALLER,
    "automatic": Compression.AUTOMATIC,
}
_ALLOW = {"none": RequestPolicy.NONE, "all": RequestPolicy.ALL, "list": RequestPolicy.LIST}


def _choice(choices: dict[str, Any], value: str, name: str) -> int:
    """The code of a word."""
    if value not in choices:
        words = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {words}, not {value!r}")
    return int(choices[value])


def _us(seconds: float | None) -> int:
    """Microseconds; 0 for None, which the core takes for its default."""
    if seconds is None:
        return 0
    if seconds <= 0:
        raise ValueError(f"a duration must be above 0 seconds, not {seconds!r}")
    return max(1, _records.to_us(seconds))


def _packed(value: object, packed: Buffer | None) -> Buffer:
    """One packed MessagePack value."""
    if packed is None:
        return packb(value)
    if value is not None:
        raise ValueError("give the value or its packed form, not both")
    return packed


class Engine(TransportTables):
    """One engine. Used by one thread at a time.

    ``identity`` is the transport identity (a new one when None). ``transport`` carries
    other people's traffic (RNS 1, 8). ``shared_instance`` allows interfaces of the role
    LOCAL_CLIENT, whose traffic is carried in any case. ``implicit_proofs`` leaves the packet
    hash out of packet proofs, ``link_mtu_discovery`` offers an interface's MTU to links.

    ``clock`` is a pair of monotonic and Unix seconds; None starts with the system's, which is
    then not read again. ``seed`` (32 bytes) makes everything random reproducible, and so does a
    function ``seed(n)`` that gives n bytes whenever the engine draws some: for tests only, since
    keys come from it too. None takes the system's entropy.

    ``inline_jobs`` runs signatures, key exchanges and encryption within each call, so that
    all effects of a call are visible when it returns; otherwise :attr:`pending_jobs` wait for
    :meth:`run_job`. ``credit`` is the room for reliable events: None grants as much as is
    drained, a number is what :meth:`credit` adds to. ``store(name, data)`` makes bytes durable
    before an announce that depends on them leaves; an exception in it fails the announce
    (stage STORE). Without one they are kept in :attr:`stored`.

    A call while another one is under way (in another thread, or from within ``store``) and
    any call in a forked process raise StateError.
    """

    __slots__ = ("_core", "_own", "_receipt_timeout_s", "_store", "stored")

    stored: dict[str, bytes]
    """What was made durable, by name, when no ``store`` was given."""

    def __init__(
        self,
        identity: Identity | None = None,
        *,
        transport: bool = False,
        shared_instance: bool = False,
        implicit_proofs: bool = True,
        link_mtu_discovery: bool = True,
        limits: Limits | None = None,
        clock: tuple[float, float] | None = None,
        seed: Buffer | Callable[[int], Buffer] | None = None,
        inline_jobs: bool = True,
        credit: int | None = None,
        store: Callable[[str, bytes], object] | None = None,
    ) -> None:
        mono_s, unix_s = (time.monotonic(), time.time()) if clock is None else clock
        self.stored = {}
        self._store = store
        self._receipt_timeout_s: float | None = None
        self._own: dict[DestinationHash, Identity | Token | None] = {}
        self._core = EngineCore(
            identity,
            {
                "transport": transport,
                "shared_instance": shared_instance,
                "implicit_proofs": implicit_proofs,
                "link_mtu_discovery": link_mtu_discovery,
            },
            {} if limits is None else asdict(limits),
            _records.to_us(mono_s),
            _records.to_us(unix_s),
            seed,
            inline_jobs,
            credit is None,
            self.stored.__setitem__ if store is None else self._keep,
        )
        if credit is not None:
            self._core.credit(credit)

    def _keep(self, name: str, data: bytes) -> None:
        assert self._store is not None
        try:
            self._store(name, data)
        except Exception:
            log.exception("could not store %s", name)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._core.closed else ""
        return f"<Engine {self.identity.hash.hex()}{closed}>"

    def close(self) -> None:
        """Ends every operation and link, each with its event; quiet when closed already.

        Outputs (the LINKCLOSE packets) and events can still be drained and tables read;
        everything else raises StateError.
        """
        self._core.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._core.closed

    @property
    def identity(self) -> Identity:
        """The public half of the transport identity."""
        return Identity.from_public(self._core.public_key)

    # ------------------------------------------------------------------- time

    @property
    def now(self) -> tuple[float, float]:
        """The clock: monotonic and Unix seconds."""
        mono_us, unix_us = self._core.now
        return _records.to_s(mono_us), _records.to_s(unix_us)

    def set_clock(self, mono_s: float, unix_s: float | None = None) -> None:
        """Sets the clock without running what is due.

        The monotonic time may not go back (ValueError). The Unix time may be anything; None
        moves it by as much as the other.
        """
        mono_us = _records.to_us(mono_s)
        before, unix_us = self._core.now
        after = unix_us + mono_us - before if unix_s is None else _records.to_us(unix_s)
        self._core.set_now(mono_us, after)

    def advance(self, seconds: float) -> None:
        """Lets time pass on both clocks, running every timer at the moment it falls due."""
        self._core.advance(_records.to_us(seconds))

    def tick(self) -> None:
        """Runs everything that is due now."""
        self._core.tick()

    @property
    def deadline(self) -> float | None:
        """When :meth:`tick` is wanted next, monotonic seconds; None: never."""
        due = self._core.deadline
        return None if due is None else _records.to_s(due)

    # ------------------------------------------------------------- interfaces

    def add_interface(
        self,
        name: str,
        *,
        kind: str = "tcp",
        mode: InterfaceMode = InterfaceMode.FULL,
        role: InterfaceRole = InterfaceRole.ORDINARY,
        bitrate: int | None = None,
        mtu: int | Literal["auto"] | None = None,
        ifac: Ifac | None = None,
        online: bool = True,
        receives: bool = True,
        sends: bool = True,
        tunnels: bool = False,
        gravity: int = 0,
        announce_cap: float | None = None,
        rate_target_s: int = 0,
        rate_grace: int = 0,
        rate_penalty_s: int = 0,
        ingress_control: bool | None = None,
        ingress: IngressNumbers | None = None,
        egress_limit: float = 0.0,
        recursive_prs: bool = False,
        announces_from_internal: bool = True,
        announces_to_internal: bool | None = None,
    ) -> int:
        """Adds an interface and returns its id.

        ``kind`` gives the defaults of a medium: "tcp", "udp", "local", "serial", "rnode", ...
        (RNS 1, 7.3). ``mtu`` is the longest packet in bytes, fixed; "auto" follows the
        bitrate; None is the kind's way. ``bitrate`` is bit/s. ``ifac`` demands an access code
        of every packet. An interface that is not ``online``, does not receive or does not send
        drops what it cannot pass, counted. The announce and rate settings are those that a
        transport node goes by.

        Raises StateError for a name that is taken and for a local client of an engine that is
        no shared instance, ValueError for an unknown kind or a value out of range,
        LimitReached.
        """
        defaults = interface_defaults(kind)
        options: dict[str, Any] = {
            "mode": int(mode),
            "role": int(role),
            "ifac": ifac,
            "online": online,
            "receives": receives,
            "sends": sends,
            "tunnels": tunnels,
            "gravity": gravity,
            "rate_target_s": rate_target_s,
            "rate_grace": rate_grace,
            "rate_penalty_s": rate_penalty_s,
            "egress_limit": egress_limit,
            "recursive_prs": recursive_prs,
            "announces_from_internal": announces_from_internal,
            "announces_to_internal": announces_to_internal,
        }
        if announce_cap is not None:
            options["announce_cap"] = announce_cap
        if ingress_control is not None:
            options["ingress_control"] = ingress_control
        if ingress is not None:
            options |= _records.ingress_options(ingress)
        rate = (defaults["bitrate"] or 0) if bitrate is None else bitrate
        automatic = mtu == "auto" or (mtu is None and defaults["mtu_mode"] == "auto")
        options |= self._mtu_options("auto" if automatic else mtu, rate)
        if bitrate is not None:
            options["bitrate"] = bitrate
        return self._plug(kind, name, options)

    def _plug(self, kind: str, name: str, options: dict[str, Any]) -> int:
        return self._core.iface_add(kind, name, options)

    @staticmethod
    def _mtu_options(mtu: int | str | None, bitrate: int) -> dict[str, Any]:
        if mtu is None:
            return {}
        if mtu == "auto":
            return {"mtu_mode": int(MtuMode.AUTO), "hw_mtu": mtu_for_bitrate(bitrate) or 0}
        return {"mtu_mode": int(MtuMode.FIXED), "hw_mtu": mtu}

    def change_interface(self, interface: int, **changes: Any) -> None:
        """Changes properties of an interface, named as in :meth:`add_interface`.

        The name stays. Going offline closes its links, coming online announces to a shared
        instance. Raises NotFoundError.
        """
        options = dict(changes)
        for name in ("mode", "role"):
            if name in options:
                options[name] = int(options[name])
        if "ingress" in options:
            options |= _records.ingress_options(options.pop("ingress"))
        if "mtu" in options:
            rate = options.get("bitrate", self.interface(interface).bitrate) or 0
            options |= self._mtu_options(options.pop("mtu"), rate)
        elif "bitrate" in options and self.interface(interface).mtu_mode is MtuMode.AUTO:
            options |= self._mtu_options("auto", options["bitrate"])
        self._core.iface_change(interface, options)

    def remove_interface(self, interface: int) -> None:
        """Removes an interface: its links close, its paths go. Raises NotFoundError."""
        self._core.iface_remove(interface)

    def interface(self, interface: int) -> InterfaceRecord:
        """One interface's properties. Raises NotFoundError."""
        return _records.interface(interface, self._core.iface_spec(interface))

    def counters(self, interface: int) -> InterfaceCounters:
        """What passed one interface. Raises NotFoundError."""
        return _records.counters(self._core.iface_counters(interface))

    def interfaces(self) -> list[InterfaceRecord]:
        """All interfaces, in the order they were added."""
        return [self.interface(number) for number in self._core.ifaces()]

    def synthesize_tunnel(self, interface: int) -> None:
        """Asks the node behind an interface to keep our paths over a reconnection.

        Raises NotFoundError, StateError when the interface cannot send.
        """
        self._core.tunnel(interface)

    # ------------------------------------------------------------------ verbs

    def input(
        self,
        interface: int,
        data: Buffer,
        *,
        rssi_dbm: int | None = None,
        snr_db: float | None = None,
        quality_pct: int | None = None,
    ) -> Verdict:
        """One frame, deframed, as it came in on an interface.

        Never fails for what a peer sent: what cannot be handled is dropped for a reason.
        """
        snr = None if snr_db is None else round(snr_db * 100)
        return _records.verdict(self._core.input(interface, data, rssi_dbm, snr, quality_pct))

    def probe(self, interface: int, data: Buffer, *, remember: bool = False) -> Verdict:
        """Whether the packet filter would let a frame pass.

        Changes nothing, but for the duplicate filter with ``remember``.
        """
        return _records.verdict(self._core.probe(interface, data, remember))

    def outputs(self, *, report: bool = True) -> list[Output]:
        """Takes the frames that are to leave, in their order.

        With ``report`` each counts as sent when it is taken. Without, the caller says so with
        :meth:`sent` for each that has an ``op``.
        """
        return [Output(iface, data, op or None) for iface, data, op in self._core.outputs(report)]

    def sent(self, op: int, ok: bool) -> None:
        """Says that an output with an operation was handed to its medium, or was not."""
        self._core.sent(op, ok)

    def events(self) -> list[Event]:
        """Takes what happened since the last call, in its order."""
        return [from_raw(raw) for raw in self._core.events()]

    def credit(self, count: int) -> None:
        """Grants room for more reliable events; for engines made with a ``credit``."""
        self._core.credit(count)

    def accept(self, token: int) -> None:
        """Accepts what is held: proves a packet or resource, takes an offer.

        Raises StateError when it was decided before, has lapsed, or is a request, which is
        answered instead.
        """
        self._core.accept(token)

    def refuse(self, token: int) -> None:
        """Refuses what is held. Raises StateError when it was decided before or has lapsed."""
        self._core.refuse(token)

    def cancel(self, op: int) -> None:
        """Cancels an operation, in any state; its end follows with the stage CANCELLED.

        Raises StateError when it has ended.
        """
        self._core.cancel(op)

    @property
    def pending_jobs(self) -> list[JobRecord]:
        """The work that waits, oldest first; always empty with inline jobs."""
        return [_records.job(each) for each in self._core.pending_jobs()]

    def run_job(self, place: int = 0) -> JobRecord:
        """Runs the job at a place of :attr:`pending_jobs`, in any order.

        Raises IndexError when there is none.
        """
        return _records.job(self._core.run_job(place))

    # -------------------------------------------------------- own destinations

    def listen(
        self,
        identity: Identity | None,
        name: str,
        *,
        type: DestinationType = DestinationType.SINGLE,  # noqa: A002
        group_key: Buffer | None = None,
        prove: Prove = "none",
        hold: bool = False,
        accepts_links: bool = True,
        resources: Accept = "none",
        hold_resources: bool = False,
        channels: bool = False,
        resource_max: int | None = None,
        request_max: int | None = None,
        ratchets: bool = False,
        enforce_ratchets: bool = False,
        ratchets_retained: int = 512,
        ratchet_interval_s: int = 1800,
        ratchet_file: Buffer | None = None,
        last_emitted: int = 0,
        app_data: Buffer | None = None,
    ) -> DestinationHash:
        """Listens on an own destination and returns its hash.

        ``prove`` says what is proven: "app" gives each packet a token to accept. ``hold`` makes
        "all" wait for that as well: durable, then promised. ``resources`` says which resources
        its links take, ``hold_resources`` lets their proofs wait. ``channels`` opens the channel
        of each link when it comes up. ``resource_max`` and ``request_max`` bound content and
        requests in bytes. ``ratchets`` announces ratchets,
        ``enforce_ratchets`` refuses packets for the identity's own key; ``ratchet_file`` and
        ``last_emitted`` (Unix seconds) are what was stored earlier. ``app_data`` is the default
        of announces and path responses.

        Raises StateError when it exists, KeyMissingError without private keys, ValueError for
        a broken rule, AuthenticationError for a ratchet file of another identity, DecodeError
        for a damaged one, LimitReached.
        """
        options = {
            "type": int(type),
            "prove": _choice(_PROVE, prove, "prove"),
            "hold": hold,
            "accepts_links": accepts_links,
            "resources": _choice(_ACCEPT, resources, "resources"),
            "hold_resources": hold_resources,
            "channels": channels,
            "resource_max": 0 if resource_max is None else resource_max,
            "request_max": 0 if request_max is None else request_max,
            "ratchets": ratchets,
            "enforce_ratchets": enforce_ratchets,
            "ratchets_retained": ratchets_retained,
            "ratchet_interval_s": ratchet_interval_s,
            "last_emitted": last_emitted,
        }
        found = self._core.listen(identity, name, group_key, ratchet_file, options)
        self._own[found] = Token(group_key) if group_key is not None else identity
        try:
            self.set_app_data(found, app_data)
        except EncodeError:
            self.unlisten(found)
            raise
        return found

    def unlisten(self, destination: DestinationHash) -> None:
        """Stops listening; its links close. Raises NotFoundError."""
        self._core.unlisten(destination)
        self._own.pop(DestinationHash(destination), None)

    def set_prove(self, destination: DestinationHash, prove: Prove, *, hold: bool = False) -> None:
        """Changes what is proven. Raises NotFoundError."""
        self._core.set_prove(destination, _choice(_PROVE, prove, "prove"), hold)

    def set_app_data(self, destination: DestinationHash, app_data: Buffer | None) -> None:
        """The app data of announces that name none, and of path responses.

        None and b"" are different. Raises NotFoundError, EncodeError above 333 bytes.
        """
        self._core.set_app_data(destination, app_data)

    def announce(
        self,
        destination: DestinationHash,
        app_data: Buffer | None = None,
        *,
        interface: int | None = None,
        path_response: bool = False,
    ) -> int:
        """Announces an own destination; the operation ends with AnnounceSent.

        ``app_data`` None is the default of :meth:`set_app_data`; ``interface`` None is every
        interface. With ratchets a rotation that is due comes first and is stored before the
        announce leaves. Raises NotFoundError, EncodeError above 333 bytes of app data and for
        destinations that are not SINGLE.
        """
        return self._core.announce(destination, app_data, interface or 0, path_response)

    def subscribe(self, name: str | None = None, *, path_responses: bool = False) -> int:
        """Makes AnnounceHeard events of announces of one name, None: of all.

        Announces that answer path requests count only with ``path_responses``. Returns the
        subscription's id. Raises LimitReached.
        """
        return self._core.subscribe(name, path_responses)

    def unsubscribe(self, subscription: int) -> None:
        """Ends a subscription. Raises NotFoundError."""
        self._core.unsubscribe(subscription)

    def handle(
        self,
        destination: DestinationHash,
        path: str,
        *,
        allow: Literal["none", "all", "list"] = "all",
        allowed: Sequence[IdentityHash] = (),
    ) -> None:
        """Makes RequestReceived events of requests for a path.

        ``allow`` "list" takes requests of the identities in ``allowed`` only. Replaces an
        earlier handler of the path. Raises NotFoundError, ValueError, LimitReached.
        """
        if allowed and allow != "list":
            raise ValueError('handle: "allowed" goes with allow="list"')
        self._core.handle(destination, path, _choice(_ALLOW, allow, "allow"), allowed)

    def unhandle(self, destination: DestinationHash, path: str) -> None:
        """Forgets a request handler. Raises NotFoundError."""
        self._core.unhandle(destination, path)

    def ratchets(self, destination: DestinationHash) -> RatchetRecord:
        """Own ratchets of a destination. Raises NotFoundError."""
        return _records.ratchets(
            self._core.ratchet_ids(destination),
            self._core.ratchet_state(destination),
            self._core.now,
        )

    def rotate(self, destination: DestinationHash) -> None:
        """Makes a new ratchet now, whatever the interval; it counts once it is stored.

        Raises NotFoundError, StateError when the destination has no ratchets.
        """
        self._core.rotate(destination)

    def ratchet_file(self, destination: DestinationHash) -> bytes:
        """The signed file of own ratchets, a secret. Raises NotFoundError without any."""
        return self._core.ratchet_file(destination)

    def last_emitted(self, destination: DestinationHash) -> int:
        """Unix seconds of the last announce, 0: none. Raises NotFoundError."""
        return int(self._core.ratchet_state(destination)["last_emitted"])

    # ------------------------------------------------------------------- paths

    def request_path(
        self,
        destination: DestinationHash,
        *,
        interface: int | None = None,
        tag: Buffer | None = None,
        timeout_s: float | None = None,
    ) -> int | None:
        """Asks for a path, on one interface or all.

        With ``timeout_s`` it is an operation that ends with PathResult; all of them for one
        destination share one transmission, repeated after 20 s at the earliest. Without, one
        request is sent and nothing is waited for (None). ``tag`` is 16 bytes, random when None.
        Raises NotFoundError for the interface, NoRouteError when nothing can carry it.
        """
        timeout = None if timeout_s is None else _us(timeout_s)
        try:
            op = self._core.request_path(destination, interface or 0, tag, timeout)
        except StateError as error:
            raise self._no_route(None) from error
        return op or None

    def drop_path(self, destination: DestinationHash) -> None:
        """Forgets a path. Raises NotFoundError."""
        self._core.drop_path(destination)

    def mark_path(self, destination: DestinationHash, *, responsive: bool) -> None:
        """Notes that the destination answers over its path, or does not.

        Raises NotFoundError.
        """
        self._core.mark_path(destination, responsive)

    def hops(self, destination: DestinationHash) -> int:
        """Hops to a destination, 128 when there is no path."""
        return self._core.hops(destination)

    def paths(self) -> list[PathRecord]:
        """The path table, least recently used first."""
        return [_records.path(core) for core in self._core.paths()]

    def path(self, destination: DestinationHash) -> PathRecord:
        """One path. Raises NotFoundError."""
        core = self._core.path(destination)
        if core is None:
            raise NotFoundError(f"no path to {_hex(destination)}")
        return _records.path(core)

    def put_path(self, record: PathRecord) -> None:
        """Adds or replaces a path; its times are taken as they are.

        Raises NotFoundError when its interface does not exist, ValueError for blobs that are
        not 10 bytes long, too many, or hops above 128.
        """
        self._core.path_put(_records.path_back(record))

    def path_requests(self) -> list[PathRequestRecord]:
        """Own path requests in flight."""
        return [_records.path_request(core) for core in self._core.path_requests()]

    def path_tags(self) -> list[PathTag]:
        """Path requests of others that were seen, oldest first."""
        return [_records.path_tag(core) for core in self._core.path_tags()]

    def put_path_tag(self, tag: PathTag) -> None:
        """Takes a path request as seen."""
        self._core.path_tag_put(tag.destination, tag.tag, True)

    def drop_path_tag(self, tag: PathTag) -> None:
        """Takes a path request as not seen. Raises NotFoundError when it was not."""
        self._core.path_tag_put(tag.destination, tag.tag, False)

    # ------------------------------------------------------- known destinations

    def recall(self, destination: DestinationHash) -> Recalled | None:
        """Who is behind a destination, and its app data; None when that is not known."""
        return _recalled(self._core.recall(destination))

    def recall_identity(self, identity: IdentityHash) -> Recalled | None:
        """The keys of an identity, from any destination of it; None when not known."""
        return _recalled(self._core.recall_identity(identity))

    def remember(
        self,
        destination: DestinationHash,
        identity: Identity,
        app_data: Buffer | None = None,
    ) -> None:
        """Makes a destination known without an announce.

        Raises StateError ("MISMATCH") when it is known with another key.
        """
        self._core.remember(destination, identity, app_data)

    def retain(self, destination: DestinationHash, retain: bool = True) -> None:
        """Keeps an entry through every cleaning, or lifts that. Raises NotFoundError."""
        self._core.retain(destination, retain)

    def ratchet_of(self, destination: DestinationHash) -> bytes | None:
        """The public ratchet that a destination announced; None, or older than 30 days."""
        return self._core.ratchet_of(destination)

    def check_announce(self, raw: Buffer) -> AnnounceVerdict:
        """Whether an announce is valid, held against the remembered key if there is one.

        Raises DecodeError for what is no announce.
        """
        announce = Announce.unpack(raw)
        known = self._core.known(announce.destination_hash)
        expected = None if known is None else known["public_key"]
        return announce.validate(expected_public_key=expected)

    def known(self) -> list[KnownRecord]:
        """All known destinations, least recently used first."""
        return [_records.known(core) for core in self._core.knowns()]

    def known_destination(self, destination: DestinationHash) -> KnownRecord:
        """One of them. Raises NotFoundError."""
        core = self._core.known(destination)
        if core is None:
            raise NotFoundError(f"{_hex(destination)} is not known")
        return _records.known(core)

    def put_known(self, record: KnownRecord) -> None:
        """Adds or replaces a known destination; its times are taken as they are."""
        self._core.known_put(_records.known_back(record))

    def drop_known(self, destination: DestinationHash) -> None:
        """Forgets one. Raises NotFoundError, StateError while it is in use."""
        self._core.known_drop(destination)

    def clear_known(self) -> None:
        """Forgets all that are not in use."""
        for record in self._core.knowns():
            try:
                self._core.known_drop(record["destination"])
            except StateError:
                continue

    def clean_known(self) -> int:
        """Forgets those that were not used for long (RNS 1, 2.5). How many went."""
        return self._core.known_clean()

    # -------------------------------------------------------------- blackholes

    def blackhole(
        self,
        identity: IdentityHash,
        *,
        until_unix_s: float | None = None,
        reason: str | None = None,
    ) -> None:
        """Ignores an identity; None: for ever. Its paths go at once."""
        until = 0 if until_unix_s is None else _records.to_us(until_unix_s)
        self._core.blackhole(identity, until, reason)

    def unblackhole(self, identity: IdentityHash) -> None:
        """Lifts that. Raises NotFoundError."""
        self._core.unblackhole(identity)

    def blackholes(self) -> list[BlackholeRecord]:
        """All ignored identities."""
        return [_records.blackhole(core) for core in self._core.blackholes()]

    def put_blackhole(self, record: BlackholeRecord) -> None:
        """Adds or replaces one, its source included."""
        self._core.blackhole_put(_records.blackhole_back(record))

    # ----------------------------------------------------------------- packets

    def send(
        self,
        destination: DestinationHash,
        payload: Buffer,
        *,
        type: DestinationType = DestinationType.SINGLE,  # noqa: A002
        group_key: Buffer | None = None,
        context: int = Context.NONE,
        receipt: bool = True,
        timeout_s: float | None = None,
        use_ratchet: bool = True,
    ) -> int | None:
        """Sends one packet. With a receipt it is an operation that ends with ReceiptDone.

        A SINGLE packet is sealed for the known identity, with its fresh ratchet if
        ``use_ratchet``. GROUP and PLAIN packets reach direct neighbours and have no receipt
        (None). ``timeout_s`` None is :attr:`receipt_timeout_s`, or goes by the length of the path
        (RNS 1, 4.9).

        Raises NotFoundError when the identity is not known, NoRouteError when no interface can
        send, EncodeError when the payload is too large or empty, LimitReached.
        """
        options = {
            "type": int(type),
            "context": int(context),
            "receipt": receipt,
            "timeout_us": self._receipt_us(timeout_s),
            "use_ratchet": use_ratchet,
        }
        try:
            op = self._core.send(destination, payload, group_key, options)
        except StateError as error:
            raise self._no_route(None) from error
        return op or None

    @property
    def receipt_timeout_s(self) -> float | None:
        """How long a packet waits for its proof when nothing else is said; also to be set.

        None, as it is at first: by the length of the path, or the round-trip time of a link.
        """
        return self._receipt_timeout_s

    @receipt_timeout_s.setter
    def receipt_timeout_s(self, timeout_s: float | None) -> None:
        _us(timeout_s)
        self._receipt_timeout_s = timeout_s

    def _receipt_us(self, timeout_s: float | None) -> int:
        return _us(self._receipt_timeout_s if timeout_s is None else timeout_s)

    def receipts(self) -> list[ReceiptRecord]:
        """The packets that wait for their proof, oldest first."""
        return [_records.receipt(core) for core in self._core.receipts()]

    def set_receipt_timeout(self, op: int, timeout_s: float) -> None:
        """Changes how long a packet waits, counted from its sending.

        Raises NotFoundError when there is no such receipt.
        """
        self._core.receipt_timeout(op, _us(timeout_s))

    def set_implicit_proofs(self, implicit: bool) -> None:
        """The form of packet proofs from now on."""
        self._core.set_implicit_proofs(implicit)

    def seal(
        self,
        destination: DestinationHash,
        payload: Buffer,
        *,
        context: int = Context.NONE,
        packet_type: PacketType = PacketType.DATA,
        use_ratchet: bool = True,
    ) -> bytes:
        """A packet for a SINGLE destination that is not sent. Raises NotFoundError."""
        found = self.recall(destination)
        if found is None:
            raise NotFoundError(f"the identity of {_hex(destination)} is not known")
        ratchet = self.ratchet_of(destination) if use_ratchet else None
        return Packet(
            destination=DestinationHash(destination),
            payload=found.identity.encrypt(payload, ratchet=ratchet),
            context=context,
            packet_type=packet_type,
        ).raw

    def unseal(self, raw: Buffer) -> Decrypted:
        """Opens a packet for an own destination, wherever it was come by.

        Raises NotFoundError for another's, AuthenticationError when it does not open,
        DecodeError.
        """
        packet = Packet.unpack(raw)
        own = DestinationHash(packet.destination)
        if own not in self._own:
            raise NotFoundError(f"{own.hex()} is no own destination")
        key = self._own[own]
        if not isinstance(key, Identity):
            raise KeyMissingError(f"{own.hex()} is not a SINGLE destination")
        keys: tuple[bytes, ...] = ()
        state = self._core.ratchet_state(own)
        if self._core.ratchet_ids(own):
            keys = Ratchets.load(self._core.ratchet_file(own), key).private_keys
        return key.decrypt(packet.payload, ratchets=keys, enforce_ratchets=bool(state["enforced"]))

    def inject(self, raw: Buffer, *, interface: int | None = None) -> None:
        """Sends a finished packet: on one interface, or where its destination's path leads.

        Nothing is checked but its size. Raises NotFoundError for the interface, StateError when
        nothing can send it, EncodeError when it is longer than the interface's MTU.
        """
        self._core.inject(interface or 0, raw)

    def _no_route(self, destination: DestinationHash | None) -> NoRouteError | StateError:
        """What a refusal to send means: which interface is at fault, if one is."""
        if self._core.closed:
            return StateError("the engine is closed")
        path = None if destination is None else self._core.path(destination)
        if path is not None:
            name = str(self._core.iface_spec(path["iface"])["name"])
            return NoRouteError(f"interface {name!r} cannot send", interface=name)
        return NoRouteError("no interface can send")

    # ------------------------------------------------------------------- links

    def open_link(self, destination: DestinationHash, *, timeout_s: float | None = None) -> int:
        """Opens a link to a SINGLE destination and returns its number.

        Ends with LinkActive, or with LinkClosed when it does not come up in time; None goes by
        the length of the path (RNS 2, 1.8). Raises NotFoundError when the identity is not
        known, NoRouteError when nothing can carry the request, LimitReached.
        """
        try:
            return self._core.link_open(destination, _us(timeout_s))
        except StateError as error:
            raise self._no_route(destination) from error

    def link(self, link: int) -> EngineLink:
        """A link as an object. Raises NotFoundError when it is forgotten."""
        self._core.link_info(link)
        return EngineLink(self, link)

    def link_by_id(self, link_id: Buffer) -> EngineLink:
        """The open link with an id of 16 bytes. Raises NotFoundError."""
        link = self._core.link_by_id(link_id)
        if not link:
            raise NotFoundError("no open link has this id")
        return EngineLink(self, link)

    def links(self) -> list[LinkRecord]:
        """All links, oldest first; closed ones for a minute."""
        now = self._core.now
        return [_records.link(self._core.link_info(link), now) for link in self._core.links()]

    # ---------------------------------------------------------------- requests

    def respond(
        self,
        token: int,
        data: object = None,
        *,
        packed: Buffer | None = None,
        compress: bool = True,
    ) -> None:
        """Answers a request with one value, or with one that is packed already.

        What does not fit a packet goes as a resource. Raises StateError when the request was
        answered, or its link has ended; EncodeError for what cannot be packed or is too large.
        """
        self._core.respond(token, _packed(data, packed), compress)

    def respond_file(
        self, token: int, content: Buffer, metadata: object, *, compress: bool = True
    ) -> None:
        """Answers a request with a file and its metadata. Errors as :meth:`respond`."""
        self._core.respond_file(token, content, packb(metadata), compress)

    def transfer(self, op: int) -> TransferRecord:
        """A resource on its way. Raises NotFoundError when it has ended."""
        return _records.transfer(self._core.transfer_info(op))

    # ------------------------------------------------------ filter and figures

    @property
    def filter_size(self) -> int:
        """Packet hashes in the duplicate filter."""
        return self._core.filter_size()

    def filter_has(self, packet_hash: Buffer) -> bool:
        """Whether the filter holds a packet hash of 32 bytes."""
        return self._core.filter_has(packet_hash)

    def filter_put(self, packet_hash: Buffer) -> None:
        """Adds a packet hash to the filter."""
        self._core.filter_put(packet_hash)

    def filter_drop(self, packet_hash: Buffer) -> None:
        """Takes a packet hash out of the filter."""
        self._core.filter_drop(packet_hash)

    def records(self, since: int = 0) -> list[FlightRecord]:
        """The flight recorder from a sequence number on; what is older than its room is gone."""
        return [_records.flight(core) for core in self._core.records(since)]

    def stats(self) -> EngineStats:
        """Totals since the start, and sizes now."""
        return _records.stats(self._core.stats())

    @property
    def limits(self) -> Limits:
        """The limits in force, with all defaults filled in."""
        return Limits(**self._core.limits())

    def snapshot(self) -> Snapshot:
        """All tables at this moment."""
        mono_s, unix_s = self.now
        return Snapshot(
            paths=tuple(self.paths()),
            known=tuple(self.known()),
            blackholes=tuple(self.blackholes()),
            path_tags=tuple(self.path_tags()),
            path_requests=tuple(self.path_requests()),
            receipts=tuple(self.receipts()),
            links=tuple(self.links()),
            transfers=tuple(
                self.transfer(op)
                for link in self._core.links()
                for op in self._core.transfers(link)
            ),
            interfaces=tuple(self.interfaces()),
            ratchets={own: self.ratchets(own) for own in self._own},
            transport=tuple(record for name in rows.TABLES for record in self._table(name)),
            taken_s=mono_s,
            taken_unix_s=unix_s,
        )

    def load(self, snapshot: Snapshot) -> None:
        """Puts what it takes of a snapshot into the tables.

        That is paths, known destinations, blackholes, seen path requests and the tables of a
        transport node. What is there already and not in the snapshot stays. Raises
        NotFoundError when a record's interface does not exist; what came before is then loaded.
        """
        for known in snapshot.known:
            self.put_known(known)
        for blackhole in snapshot.blackholes:
            self.put_blackhole(blackhole)
        for tag in snapshot.path_tags:
            self.put_path_tag(tag)
        for path in snapshot.paths:
            self.put_path(path)
        for record in snapshot.transport:
            self._core.table_put(rows.NAMES[type(record)], rows.row_of(record))


@final
class EngineLink:
    """A link of an engine: a number with methods.

    On a closed link what only an open one can do is a StateError; once it is forgotten, a
    minute after it closed, everything is a NotFoundError.
    """

    __slots__ = ("_core", "_engine", "ref")

    ref: int
    """Its number, which events name."""

    def __init__(self, engine: Engine, ref: int) -> None:
        self._engine = engine
        self._core = engine._core
        self.ref = ref

    def __repr__(self) -> str:
        return f"<EngineLink {self.ref}>"

    @property
    def info(self) -> LinkRecord:
        """All about it, also for a minute after it closed."""
        return _records.link(self._core.link_info(self.ref), self._core.now)

    def send(
        self, payload: Buffer, *, receipt: bool = True, timeout_s: float | None = None
    ) -> SentPacket:
        """Sends data; with a receipt it is an operation that ends with ReceiptDone.

        ``timeout_s`` None is :attr:`Engine.receipt_timeout_s`, or goes by the round-trip time,
        at least 3 s. Raises EncodeError above the MDU, StateError unless the link is active.
        """
        timeout_us = self._engine._receipt_us(timeout_s)
        op, packet_hash = self._core.link_send(self.ref, payload, receipt, timeout_us)
        return SentPacket(op or None, packet_hash)

    def identify(self, identity: Identity) -> None:
        """Says who we are.

        Quiet, and nothing is sent, on a link that is not active or not ours. Raises
        KeyMissingError without private keys.
        """
        self._core.link_identify(self.ref, identity)

    def close(self) -> None:
        """Closes it and tells the peer. Quiet on a closed link."""
        self._core.link_close(self.ref)

    def tune(
        self,
        *,
        rtt_s: float | None = None,
        keepalive_s: float | None = None,
        stale_s: float | None = None,
    ) -> None:
        """Overrides what was measured; None leaves a value as it is."""
        self._core.link_tune(self.ref, _us(rtt_s), _us(keepalive_s), _us(stale_s))

    def policy(
        self, resources: Accept, *, hold: bool = False, resource_max: int | None = None
    ) -> None:
        """Which resources it takes, whether their proofs wait, and how large they may be.

        ``resource_max`` None is the engine's limit.
        """
        self._core.link_policy(
            self.ref, _choice(_ACCEPT, resources, "resources"), hold, resource_max or 0
        )

    def track_signal(self, on: bool = True) -> None:
        """Notes signal values of packets in :attr:`info`, or no longer."""
        self._core.link_track_signal(self.ref, on)

    def seal(
        self,
        payload: Buffer,
        *,
        context: int = Context.NONE,
        packet_type: PacketType = PacketType.DATA,
    ) -> bytes:
        """A packet of the link that is not sent; some contexts travel in clear (RNS 1, 4.5)."""
        return self._core.link_seal(self.ref, int(packet_type), int(context), payload)

    def unseal(self, raw: Buffer) -> bytes:
        """The plaintext of a sealed packet of the link.

        Raises AuthenticationError, DecodeError.
        """
        return self._core.link_unseal(self.ref, raw)

    def request(
        self,
        path: str,
        data: object = None,
        *,
        packed: Buffer | None = None,
        timeout_s: float | None = None,
        response_max: int | None = None,
    ) -> int:
        """Asks; the operation ends with ResponseDone.

        ``data`` is one value, or ``packed`` is one that is packed already. What does not fit a
        packet goes as a resource. ``response_max`` bounds the response in bytes, None: the
        engine's limit. Raises StateError, EncodeError, LimitReached.
        """
        return self._core.request(
            self.ref, path, _packed(data, packed), _us(timeout_s), response_max or 0
        )

    def send_resource(
        self,
        content: Buffer,
        *,
        metadata: object = None,
        packed_metadata: Buffer | None = None,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
        timeout_s: float | None = None,
    ) -> int:
        """Sends a resource of any size; the operation ends with ResourceSent.

        One goes at a time on a link, the next are queued. ``timeout_s`` is how long an
        advertisement waits for an answer. Raises StateError, EncodeError for packed metadata
        above 1,048,572 bytes, LimitReached.
        """
        packed = packed_metadata
        if metadata is not None:
            packed = _packed(metadata, packed_metadata)
        mode = _choice(_COMPRESSION, compression, "compression")
        return self._core.resource_send(self.ref, content, packed, mode, _us(timeout_s))

    def open_channel(self, *, all_types: bool = True) -> EngineChannel:
        """Opens its channel; quiet when it is open. Both ends have to.

        With ``all_types`` messages of every type below 0xF000 are taken, else those that are
        registered. Raises StateError unless the link is active.
        """
        self._core.channel_open(self.ref, all_types)
        return EngineChannel(self._core, self.ref)

    def channel(self) -> EngineChannel:
        """The channel that was opened, here or by the destination's ``channels``.

        Raises ChannelClosedError when there is none.
        """
        try:
            self._core.channel_info(self.ref)
        except NotFoundError as error:
            raise ChannelClosedError("the link has no open channel") from error
        return EngineChannel(self._core, self.ref)

    def transfers(self) -> list[TransferRecord]:
        """Resources on their way, outgoing ones first."""
        return [self._engine.transfer(op) for op in self._core.transfers(self.ref)]


def _recalled(core: tuple[bytes, bytes | None] | None) -> Recalled | None:
    return None if core is None else Recalled(Identity.from_public(core[0]), core[1])


def _hex(destination: DestinationHash) -> str:
    return bytes(memoryview(destination)).hex()
