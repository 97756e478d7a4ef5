"""The node for scripts: the same names, but every call waits and nothing is async.

A :class:`Node` here is the asyncio node of :mod:`netmesh.node` on an event loop in a thread of
its own; all of a process share that one thread, which ends with the last of them. Calls block
the calling thread and may come from several. Handlers of requests are plain functions, called
in further threads.

Example:
    >>> from netmesh import sync
    >>> from netmesh.interfaces import Pipe
    >>> left, right = Pipe.pair()
    >>> with sync.Node(interfaces=[left]) as alice, sync.Node(interfaces=[right]) as bob:
    ...     echo = bob.listen("example.echo")
    ...     echo.add_handler("/shout", lambda request: request.data.upper())
    ...     with alice.connect(echo.hash, timeout=10) as link:
    ...         link.request("/shout", "hello", timeout=10).data
    'HELLO'
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, TypeVar, final, overload

from netmesh import channels, destinations, links, node, streams
from netmesh import interfaces as open_interfaces
from netmesh._blackholes import UPDATE_S
from netmesh._core import DestinationHash, Identity, IdentityHash
from netmesh._streams import TappedFrame
from netmesh._sync_base import Background, Reader
from netmesh._sync_channels import ByteStream, Channel, MessageDelivery
from netmesh._sync_mail import Mailbox, OutgoingMessage
from netmesh._sync_tables import SyncTables
from netmesh.channels import TypedMessage
from netmesh.constants import (
    LXMF_DELIVERY_LIMIT_KB,
    LXMF_PATH_REQUEST_WAIT_S,
    Context,
    DestinationType,
    Method,
    PacketType,
)
from netmesh.destinations import Allow, FileResponse, IncomingRequest, Proofs
from netmesh.errors import StateError
from netmesh.events import (
    AnnounceHeard,
    AnnounceSent,
    LinkPacketReceived,
    PacketReceived,
    ProgressMade,
    ReceiptDone,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.interfaces import CustomInterface, DeviceInfo, InterfaceInfo, InterfaceOptions
from netmesh.loop import Loop
from netmesh.messaging import Delivery, MessageReceived, MethodName, Policy, StampCost
from netmesh.node import NodeSettings, NodeStats
from netmesh.records import (
    CloseReason,
    Limits,
    LinkRecord,
    PathRecord,
    RatchetRecord,
    ReceiptRecord,
    TransferRecord,
)
from netmesh.transfers import Receipt as AsyncReceipt
from netmesh.transfers import ReceivedFile, Resources
from netmesh.transfers import Transfer as AsyncTransfer
from netmesh.trouble import Health

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "ByteStream",
    "Channel",
    "FileResponse",
    "IncomingRequest",
    "Interface",
    "Link",
    "LocalDestination",
    "Mailbox",
    "MessageDelivery",
    "Node",
    "OutgoingMessage",
    "Reader",
    "Receipt",
    "Subscription",
    "Transfer",
]

T = TypeVar("T")
H = TypeVar("H", bound=Callable[[IncomingRequest], Any])


@final
class Receipt:
    """A packet that was sent, whose proof can be waited for."""

    __slots__ = ("_background", "_receipt")

    def __init__(self, background: Background, receipt: AsyncReceipt) -> None:
        self._background = background
        self._receipt = receipt

    @property
    def done(self) -> bool:
        """Whether the proof came, or will not come."""
        return self._receipt.done

    def wait(self, *, timeout: float | None = None) -> ReceiptDone:
        """Waits for the proof; errors as for :class:`netmesh.transfers.Receipt`."""
        return self._background.run(self._receipt.wait(timeout=timeout))

    @property
    def op(self) -> int:
        """The operation, which events name."""
        return self._receipt.op

    def cancel(self) -> None:
        """Waits no longer; the packet has left."""
        self._background.call(self._receipt.cancel)

    def info(self) -> ReceiptRecord:
        """How long it waits, and for which packet. Raises NotFoundError when it has ended."""
        return self._background.run(self._receipt.info())

    def set_timeout(self, timeout: float) -> None:
        """Changes how many seconds it waits, counted from the sending of the packet."""
        self._background.run(self._receipt.set_timeout(timeout))

    @property
    def destination(self) -> DestinationHash:
        """Where it went."""
        return self._receipt.destination

    @property
    def packet_hash(self) -> bytes | None:
        """32 bytes; None until it is known."""
        return self._receipt.packet_hash


@final
class Transfer:
    """A resource on its way to the peer."""

    __slots__ = ("_background", "_transfer")

    def __init__(self, background: Background, transfer: AsyncTransfer) -> None:
        self._background = background
        self._transfer = transfer

    @property
    def progress(self) -> Reader[ProgressMade]:
        """Its progress; only the newest steps matter."""
        return Reader(self._background, self._transfer)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._transfer.done

    @property
    def op(self) -> int:
        """The operation, which events name."""
        return self._transfer.op

    def info(self) -> TransferRecord:
        """All about it. Raises NotFoundError when it has ended."""
        return self._background.run(self._transfer.info())

    def cancel(self) -> None:
        """Cancels it, in any state; the peer is told. Quiet when it has ended."""
        self._background.call(self._transfer.cancel)

    def wait(self, *, timeout: float | None = None) -> ResourceSent:
        """The same as awaiting it, for at most ``timeout`` seconds; then it is cancelled."""
        return self._background.run(self._transfer.wait(timeout=timeout))


@final
class Subscription:
    """A callback that is told of something, until :meth:`close`."""

    __slots__ = ("_background", "_subscription")

    def __init__(self, background: Background, subscription: streams.Subscription) -> None:
        self._background = background
        self._subscription = subscription

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._subscription.closed

    def close(self) -> None:
        """The callback is told nothing more. Quiet when repeated."""
        self._background.call(self._subscription.close)


@final
class Interface:
    """An interface that a node has opened."""

    __slots__ = ("_background", "_interface")

    def __init__(self, background: Background, interface: open_interfaces.Interface) -> None:
        self._background = background
        self._interface = interface

    @property
    def id(self) -> int:
        """Its id."""
        return self._interface.id

    @property
    def port(self) -> int | None:
        """The bound port of a server."""
        return self._interface.port

    @property
    def online(self) -> bool:
        """Whether it carries packets now."""
        return self._interface.online

    def info(self) -> InterfaceInfo:
        """All about it as it is now."""
        return self._background.run(self._interface.info())

    def wait_online(self, *, timeout: float | None = None) -> None:
        """Waits until it carries packets."""
        self._background.run(self._interface.wait_online(timeout=timeout))

    def pause(self) -> None:
        """Takes no more frames in or out."""
        self._background.run(self._interface.pause())

    def resume(self) -> None:
        """Goes on after a pause."""
        self._background.run(self._interface.resume())

    def change(self, **options: Any) -> None:
        """Changes options."""
        self._background.run(self._interface.change(**options))

    def remove(self) -> None:
        """Closes it for good."""
        self._background.run(self._interface.remove())

    def devices(self) -> list[DeviceInfo]:
        """The network devices as an :class:`AutoInterface` sees them."""
        return self._background.run(self._interface.devices())

    def peers(self) -> list[InterfaceInfo]:
        """The interfaces that belong to it: peers, or accepted connections."""
        return self._background.run(self._interface.peers())

    @property
    def label(self) -> str:
        """What it is called."""
        return self._interface.label

    @property
    def options(self) -> InterfaceOptions | CustomInterface:
        """What it was opened with, changes included."""
        return self._interface.options


@final
class Link:
    """A connection to a peer; see :class:`netmesh.links.Link`."""

    __slots__ = ("_background", "_link")

    def __init__(self, background: Background, link: links.Link) -> None:
        self._background = background
        self._link = link

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
        return repr(self._link)

    @property
    def link_id(self) -> bytes:
        """16 bytes: its address on the wire."""
        return self._link.link_id

    @property
    def destination(self) -> DestinationHash:
        """The destination that it leads to."""
        return self._link.destination

    @property
    def remote_identity(self) -> IdentityHash | None:
        """Who the peer is."""
        return self._link.remote_identity

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._link.closed

    @property
    def mdu(self) -> int:
        """Bytes of the longest payload of one packet."""
        return self._link.mdu

    @property
    def packets(self) -> Reader[LinkPacketReceived]:
        """What the peer sent."""
        return Reader(self._background, self._link.packets)

    @property
    def resources(self) -> Reader[ResourceReceived]:
        """Resources that the peer sent."""
        return Reader(self._background, self._link.resources)

    def info(self) -> LinkRecord:
        """All about it."""
        return self._background.run(self._link.info())

    @overload
    def send(
        self, data: Buffer | str, *, proof: Literal[True] = ..., timeout: float | None = ...
    ) -> Receipt: ...

    @overload
    def send(
        self, data: Buffer | str, *, proof: Literal[False], timeout: float | None = ...
    ) -> None: ...

    def send(
        self, data: Buffer | str, *, proof: bool = True, timeout: float | None = None
    ) -> Receipt | None:
        """Sends one packet; with ``proof`` its proof can be waited for."""
        if not proof:
            self._background.run(self._link.send(data, proof=False))
            return None
        return Receipt(
            self._background, self._background.run(self._link.send(data, timeout=timeout))
        )

    def request(
        self,
        path: str,
        data: object = None,
        *,
        packed: Buffer | None = None,
        timeout: float | None = None,
        response_max: int | None = None,
        progress: Callable[[ProgressMade], object] | None = None,
    ) -> ResponseDone:
        """Asks the peer and waits for its answer."""
        return self._background.run(
            self._link.request(
                path,
                data,
                packed=packed,
                timeout=timeout,
                response_max=response_max,
                progress=progress,
            )
        )

    def send_file(
        self,
        source: Buffer | str | os.PathLike[str] | BinaryIO,
        *,
        metadata: object = None,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
        progress: Callable[[ProgressMade], object] | None = None,
        timeout: float | None = None,
    ) -> ResourceSent:
        """Sends a file or bytes and waits until the peer has proven it."""
        return self._background.run(
            self._link.send_file(
                source,
                metadata=metadata,
                compression=compression,
                progress=progress,
                timeout=timeout,
            )
        )

    def receive_file(
        self,
        to: str | os.PathLike[str] | None = None,
        *,
        size_max: int | None = None,
        resume: bool = True,
        progress: Callable[[ProgressMade], object] | None = None,
        timeout: float | None = None,
    ) -> ReceivedFile:
        """Waits for the next resource, which goes to a path or folder, if one is given."""
        return self._background.run(
            self._link.receive_file(
                to, size_max=size_max, resume=resume, progress=progress, timeout=timeout
            )
        )

    def channel(self, *classes: type[TypedMessage]) -> Channel:
        """Its channel, which is opened with the first call; both ends have to open theirs."""
        return Channel(self._background, self._background.run(self._link.open_channel(*classes)))

    def open_stream(
        self,
        receive_id: int,
        send_id: int,
        *,
        limit: int = channels.READER_LIMIT,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
    ) -> ByteStream:
        """Opens its channel and a stream in each direction over it."""
        return self.channel().open_stream(receive_id, send_id, limit=limit, compression=compression)

    def identify(self, identity: Identity | None = None) -> None:
        """Says who we are."""
        self._background.run(self._link.identify(identity))

    def wait_identified(self, *, timeout: float | None = None) -> Identity:
        """Waits until the peer has said who it is."""
        return self._background.run(self._link.wait_identified(timeout=timeout))

    def set_resources(
        self,
        policy: Resources,
        *,
        hold: bool = False,
        size_max: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = True,
    ) -> None:
        """Which resources of the peer are taken, and whether they go to files in a folder."""
        self._background.run(
            self._link.set_resources(
                policy, hold=hold, size_max=size_max, folder=folder, resume=resume
            )
        )

    def close(self, *, timeout: float | None = None) -> None:
        """Closes it and tells the peer."""
        self._background.run(self._link.close(timeout=timeout))

    def wait_closed(self, *, timeout: float | None = None) -> CloseReason:
        """Waits until it has ended."""
        return self._background.run(self._link.wait_closed(timeout=timeout))

    @property
    def remote_key(self) -> Identity | None:
        """The public identity of the peer that opened the link, once it has identified."""
        return self._link.remote_key

    def transfers(self) -> list[TransferRecord]:
        """The resources that are on their way, in both directions."""
        return self._background.run(self._link.transfers())

    def respond(self, request: IncomingRequest, answer: object) -> None:
        """Answers a request that was queued (``queue_requests``)."""
        self._background.run(self._link.respond(request, answer))

    def seal(
        self, payload: Buffer, *, context: int = 0, packet_type: PacketType = PacketType.DATA
    ) -> bytes:
        """A packet of this link with any context, sealed and not sent."""
        return self._background.run(
            self._link.seal(payload, context=context, packet_type=packet_type)
        )

    def unseal(self, raw: Buffer) -> bytes:
        """The payload of a packet of this link."""
        return self._background.run(self._link.unseal(raw))

    def set_prove(self, prove: Proofs, *, hold: bool = False) -> None:
        """What is proven of the peer's packets, on a link that we opened: nothing at first."""
        self._background.run(self._link.set_prove(prove, hold=hold))

    def track_signal(self, on: bool = True) -> None:
        """Notes the signal values of each packet in :meth:`info`, or no longer."""
        self._background.run(self._link.track_signal(on))

    def tune(
        self,
        *,
        rtt_s: float | None = None,
        keepalive_s: float | None = None,
        stale_s: float | None = None,
    ) -> None:
        """Overrides what the handshake measured; None leaves a value as it is."""
        self._background.run(self._link.tune(rtt_s=rtt_s, keepalive_s=keepalive_s, stale_s=stale_s))

    def start_file(
        self,
        source: Buffer | str | os.PathLike[str],
        *,
        metadata: object = None,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
        progress: Callable[[ProgressMade], object] | None = None,
        timeout: float | None = None,
    ) -> Transfer:
        """Begins to send a file or bytes, without waiting for the end."""
        return Transfer(
            self._background,
            self._background.run(
                self._link.start_file(
                    source,
                    metadata=metadata,
                    compression=compression,
                    progress=progress,
                    timeout=timeout,
                )
            ),
        )

    @property
    def ref(self) -> int:
        """Its number in its node, which events name."""
        return self._link.ref

    @property
    def initiator(self) -> bool:
        """Whether this side opened it."""
        return self._link.initiator

    @property
    def interface(self) -> int:
        """The interface that it runs over."""
        return self._link.interface

    @property
    def hops(self) -> int:
        """Hops to the peer."""
        return self._link.hops

    @property
    def rtt_s(self) -> float:
        """The round-trip time that the handshake measured."""
        return self._link.rtt_s

    @property
    def mtu(self) -> int:
        """Bytes of its longest packet."""
        return self._link.mtu

    @property
    def reason(self) -> CloseReason:
        """Why it ended; NONE while it has not."""
        return self._link.reason


def _in_thread(
    background: Background, callback: Callable[..., Any] | None
) -> Callable[..., Any] | None:
    """A callback that may block, for the event loop; links are given as those of here."""
    if callback is None:
        return None
    called = callback

    async def run(*arguments: Any) -> Any:
        given = [
            Link(background, each) if isinstance(each, links.Link) else each for each in arguments
        ]
        return await asyncio.to_thread(called, *given)

    return run


def _threaded(handler: Callable[[IncomingRequest], Any]) -> Callable[[IncomingRequest], Any]:
    """A handler that may block, for the event loop."""

    async def run(request: IncomingRequest) -> Any:
        return await asyncio.to_thread(handler, request)

    return run


@final
class LocalDestination:
    """A destination that a node listens on."""

    __slots__ = ("_background", "_local")

    def __init__(self, background: Background, local: destinations.LocalDestination) -> None:
        self._background = background
        self._local = local

    def __repr__(self) -> str:
        return repr(self._local)

    @property
    def hash(self) -> DestinationHash:
        """Its address."""
        return self._local.hash

    @property
    def packets(self) -> Reader[PacketReceived]:
        """What peers sent outside links."""
        return Reader(self._background, self._local.packets)

    def accept_link(self, *, timeout: float | None = None) -> Link:
        """Waits for the next link that a peer opens."""
        return Link(self._background, self._background.run(self._local.links.get(timeout=timeout)))

    def announce(
        self,
        app_data: Buffer | str | None = None,
        *,
        interface: int | None = None,
        path_response: bool = False,
        timeout: float | None = None,
    ) -> AnnounceSent:
        """Announces it and waits until an interface has taken the announce."""
        return self._background.run(
            self._local.announce(
                app_data, interface=interface, path_response=path_response, timeout=timeout
            )
        )

    def add_handler(
        self,
        path: str,
        handler: Callable[[IncomingRequest], Any],
        *,
        allow: Allow = "all",
        timeout: float | None = destinations.HANDLER_TIMEOUT_S,
        compress: bool = True,
    ) -> None:
        """Answers requests with a plain function, called in a thread."""
        self._background.run(
            self._local.add_handler(
                path, _threaded(handler), allow=allow, timeout=timeout, compress=compress
            )
        )

    def remove_handler(self, path: str) -> None:
        """Requests for a path get no answer any more."""
        self._background.run(self._local.remove_handler(path))

    def close(self) -> None:
        """Stops listening."""
        self._background.run(self._local.close())

    @property
    def closed(self) -> bool:
        """Whether the node no longer listens on it."""
        return self._local.closed

    def queue_requests(self, path: str, *, allow: Allow = "all", compress: bool = True) -> None:
        """Puts requests for ``path`` into :attr:`requests`, in place of calling a handler."""
        self._background.run(self._local.queue_requests(path, allow=allow, compress=compress))

    def ratchet_file(self) -> bytes:
        """The signed file of its ratchets, a secret. Raises NotFoundError without any."""
        return self._background.run(self._local.ratchet_file())

    def ratchets(self) -> RatchetRecord:
        """Its own ratchets."""
        return self._background.run(self._local.ratchets())

    def rotate(self) -> None:
        """Makes a new ratchet now. Raises StateError when it has no ratchets."""
        self._background.run(self._local.rotate())

    def set_app_data(self, app_data: Buffer | str | None) -> None:
        """What announces and path responses say that name nothing else; None and b"" differ."""
        self._background.run(self._local.set_app_data(app_data))

    def set_folder(
        self,
        folder: str | os.PathLike[str] | None,
        *,
        size_max: int | None = None,
        resume: bool = True,
    ) -> None:
        """Resources on links that peers open from now on go to files in ``folder``."""
        self._background.run(self._local.set_folder(folder, size_max=size_max, resume=resume))

    def set_prove(self, prove: Proofs, *, hold: bool = False) -> None:
        """Changes what is proven; see :meth:`netmesh.Node.listen`."""
        self._background.run(self._local.set_prove(prove, hold=hold))

    @property
    def name(self) -> str:
        """Its name."""
        return self._local.name

    @property
    def identity(self) -> Identity | None:
        """Whose it is; None for a GROUP or PLAIN destination."""
        return self._local.identity

    @property
    def app_data(self) -> bytes | None:
        """What announces say that name nothing else."""
        return self._local.app_data

    @property
    def open_links(self) -> tuple[Link, ...]:
        """The links of peers that are open now."""
        return tuple(Link(self._background, each) for each in self._local.open_links)

    @property
    def requests(self) -> Reader[IncomingRequest]:
        """Requests of paths that :meth:`queue_requests` named; each waits for an answer."""
        return Reader(self._background, self._local.requests)

    def respond(self, request: IncomingRequest, answer: object) -> None:
        """Answers a queued request over the link that it came by."""
        self._background.run(request.link.respond(request, answer))

    def handle(
        self,
        path: str,
        *,
        allow: Allow = "all",
        timeout: float | None = destinations.HANDLER_TIMEOUT_S,
        compress: bool = True,
    ) -> Callable[[H], H]:
        """Decorates a handler of a request path; as :meth:`add_handler`."""

        def decorate(handler: H) -> H:
            self.add_handler(path, handler, allow=allow, timeout=timeout, compress=compress)
            return handler

        return decorate


@final
class Node(SyncTables):
    """A node whose calls wait; arguments as for :class:`netmesh.Node`.

    Decisions (``prove=``, ``resources=``) and callbacks are plain functions; callbacks are
    called in a thread, so they may block.
    """

    __slots__ = ("_background", "_node")

    def __init__(
        self,
        identity: Identity | None = None,
        *,
        interfaces: Iterable[InterfaceOptions | CustomInterface] = (),
        storage: str | os.PathLike[str] | None = None,
        shared_instance: Literal["auto", False] | str | tuple[str, int] = "auto",
        transport: bool = False,
        implicit_proofs: bool = True,
        link_mtu_discovery: bool = True,
        limits: Limits | None = None,
        credit: int = node.CREDIT,
        save_interval_s: int = 60,
        decision_timeout: float = node.DECISION_TIMEOUT_S,
        receipt_timeout: float | None = None,
        probes: bool = False,
        management: Iterable[IdentityHash] | None = None,
        publish_blackholes: bool = False,
        blackhole_sources: Iterable[IdentityHash] = (),
        blackhole_update_s: float = UPDATE_S,
        loop: Loop | None = None,
    ) -> None:
        self._node = node.Node(
            identity,
            interfaces=interfaces,
            storage=storage,
            shared_instance=shared_instance,
            transport=transport,
            implicit_proofs=implicit_proofs,
            link_mtu_discovery=link_mtu_discovery,
            limits=limits,
            credit=credit,
            save_interval_s=save_interval_s,
            decision_timeout=decision_timeout,
            receipt_timeout=receipt_timeout,
            probes=probes,
            management=management,
            publish_blackholes=publish_blackholes,
            blackhole_sources=blackhole_sources,
            blackhole_update_s=blackhole_update_s,
            loop=loop,
        )
        self._background: Background | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._node)

    @property
    def _on(self) -> Background:
        if self._background is None:
            raise StateError("the node is not open")
        return self._background

    def start(self) -> None:
        """Opens it; ``with`` does that."""
        background = Background.take()
        try:
            background.run(self._node.start())
        except BaseException:
            background.give()
            raise
        self._background = background

    def close(self) -> None:
        """Ends everything. Quiet when repeated."""
        background, self._background = self._background, None
        if background is not None:
            try:
                background.run(self._node.close())
            finally:
                background.give()

    @property
    def identity(self) -> Identity:
        """Its own identity, with private keys."""
        return self._node.identity

    def interface_info(self, interface: int) -> InterfaceInfo:
        """One of them as it is now. Raises NotFoundError when it is gone."""
        return self._on.run(self._node.interface_info(interface))

    def interface_infos(self) -> list[InterfaceInfo]:
        """All interfaces as they are, connections of servers too; at most 0.1 s old."""
        return self._node.interface_infos()

    def synthesize_tunnel(self, interface: int) -> None:
        """Asks the node behind an interface to keep our paths over a reconnection."""
        self._on.run(self._node.synthesize_tunnel(interface))

    def accept(self, token: int) -> None:
        """Accepts what is held under an event's token: proves a packet or a resource."""
        self._on.run(self._node.accept(token))

    def refuse(self, token: int) -> None:
        """Refuses what is held. Raises StateError when it was decided before or has lapsed."""
        self._on.run(self._node.refuse(token))

    def cancel(self, op: int) -> None:
        """Cancels an operation that events and records name, a transfer from a peer too."""
        self._on.run(self._node.cancel(op))

    def set_implicit_proofs(self, implicit: bool) -> None:
        """The form of packet proofs from now on."""
        self._on.run(self._node.set_implicit_proofs(implicit))

    def set_default_receipt_timeout(self, timeout: float | None) -> None:
        """How long packets wait for their proof where nothing else is said; None: by their way."""
        self._on.run(self._node.set_default_receipt_timeout(timeout))

    def update_blackholes(self, *, timeout: float | None = None) -> int:
        """Asks every node of ``blackhole_sources`` for its list now; how many were added."""
        return self._on.run(self._node.update_blackholes(timeout=timeout))

    def settings(self) -> NodeSettings:
        """The settings in force, with all defaults filled in."""
        return self._on.run(self._node.settings())

    def health(self) -> Health:
        """Whether all that it was given works; interfaces as of at most 0.1 s ago."""
        return self._on.call(self._node.health)

    def persist(self) -> None:
        """Writes known destinations and paths now; they are durable when it returns."""
        self._on.run(self._node.persist())

    def request_path(
        self,
        destination: DestinationHash,
        *,
        interface: int | None = None,
        tag: Buffer | None = None,
    ) -> None:
        """Asks for a path once and waits for nothing."""
        self._on.run(self._node.request_path(destination, interface=interface, tag=tag))

    @property
    def closed(self) -> bool:
        """Whether it has closed."""
        return self._node.closed

    @property
    def loop(self) -> Loop:
        """The loop that runs it. Raises StateError unless it is open."""
        return self._node.loop

    def announce(
        self,
        destination: LocalDestination | str,
        app_data: Buffer | str | None = None,
        *,
        interface: int | None = None,
    ) -> AnnounceSent:
        """Announces a destination, or the name of one, and waits until it is sent."""
        own = destination if isinstance(destination, str) else destination._local
        return self._on.run(self._node.announce(own, app_data, interface=interface))

    def on_announce(
        self,
        callback: Callable[[AnnounceHeard], Any],
        *,
        name: str | None = None,
        path_responses: bool = False,
    ) -> Subscription:
        """Calls ``callback`` in a thread with each announce of one name, or of all."""
        background = self._on

        async def run(heard: AnnounceHeard) -> None:
            await asyncio.to_thread(callback, heard)

        def subscribe() -> streams.Subscription:
            return self._node.on_announce(run, name=name, path_responses=path_responses)

        return Subscription(background, background.call(subscribe))

    def tap(self, *, buffer: int = 1024) -> Reader[TappedFrame]:
        """Every frame in and out; at most ``buffer`` wait, newer ones are lost."""
        return Reader(self._on, self._on.call(self._node.tap, buffer=buffer))

    def start_message(
        self,
        destination: DestinationHash,
        content: str | Buffer = b"",
        *,
        title: str | Buffer = b"",
        fields: Mapping[Any, Any] | None = None,
        identity: Identity | None = None,
        timestamp: float | None = None,
        timeout: float | None = None,
        stamp_cost: StampCost = None,
        method: MethodName | Method | Policy = "auto",
        stamp: Buffer | None = None,
        ticket: Buffer | None = None,
    ) -> OutgoingMessage:
        """Sends a message on its way, without waiting; its id is known at once."""
        sending = self._on.call(
            self._node.start_message,
            destination,
            content,
            title=title,
            fields=fields,
            identity=identity,
            timestamp=timestamp,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
            stamp=stamp,
            ticket=ticket,
        )
        return OutgoingMessage(self._on, sending)

    def add_interface(self, options: InterfaceOptions | CustomInterface) -> Interface:
        """Opens an interface while the node runs."""
        return Interface(self._on, self._on.run(self._node.add_interface(options)))

    def interfaces(self) -> list[Interface]:
        """The interfaces that were opened and not removed."""
        return [Interface(self._on, each) for each in self._node.interfaces()]

    def listen(
        self,
        name: str,
        *,
        identity: Identity | None = None,
        type: DestinationType = DestinationType.SINGLE,  # noqa: A002
        group_key: Buffer | None = None,
        prove: Proofs = "none",
        hold: bool = False,
        links: bool = True,
        resources: Resources = "none",
        hold_resources: bool = False,
        channels: bool = False,
        resource_max: int | None = None,
        request_max: int | None = None,
        ratchets: bool = False,
        enforce_ratchets: bool = False,
        ratchets_retained: int = 512,
        ratchet_interval_s: int = 1800,
        ratchet_file: Buffer | None = None,
        app_data: Buffer | str | None = None,
        on_packet: Callable[[PacketReceived], Any] | None = None,
        on_link: Callable[[Link], Any] | None = None,
        on_link_packet: Callable[[Link, LinkPacketReceived], Any] | None = None,
        on_resource: Callable[[Link, ResourceReceived], Any] | None = None,
    ) -> LocalDestination:
        """Listens on a destination; arguments as for :meth:`netmesh.Node.listen`."""
        background = self._on
        return LocalDestination(
            self._on,
            self._on.run(
                self._node.listen(
                    name,
                    identity=identity,
                    type=type,
                    group_key=group_key,
                    prove=prove,
                    hold=hold,
                    links=links,
                    resources=resources,
                    hold_resources=hold_resources,
                    channels=channels,
                    resource_max=resource_max,
                    request_max=request_max,
                    ratchets=ratchets,
                    enforce_ratchets=enforce_ratchets,
                    ratchets_retained=ratchets_retained,
                    ratchet_interval_s=ratchet_interval_s,
                    ratchet_file=ratchet_file,
                    app_data=app_data,
                    on_packet=_in_thread(background, on_packet),
                    on_link=_in_thread(background, on_link),
                    on_link_packet=_in_thread(background, on_link_packet),
                    on_resource=_in_thread(background, on_resource),
                )
            ),
        )

    def announces(
        self, name: str | None = None, *, path_responses: bool = False, buffer: int = 1024
    ) -> Reader[AnnounceHeard]:
        """The announces of one name, or of all; at most ``buffer`` wait."""
        return Reader(
            self._on,
            self._on.call(self._node.announces, name, path_responses=path_responses, buffer=buffer),
        )

    def events(
        self, kinds: Iterable[type] | type | None = None, *, buffer: int = 1024
    ) -> Reader[Any]:
        """What happens, as typed events of some classes, or of all."""
        return Reader(self._on, self._on.call(self._node.events, kinds, buffer=buffer))

    def path(
        self,
        destination: DestinationHash,
        *,
        timeout: float | None = None,
        interface: int | None = None,
    ) -> PathRecord:
        """The path to a destination; asks the network when there is none."""
        return self._on.run(self._node.path(destination, timeout=timeout, interface=interface))

    @overload
    def send(
        self,
        destination: DestinationHash,
        data: Buffer | str,
        *,
        proof: Literal[True] = ...,
        timeout: float | None = ...,
        type: DestinationType = ...,
        group_key: Buffer | None = ...,
        context: int = ...,
        ratchet: bool = ...,
    ) -> Receipt: ...

    @overload
    def send(
        self,
        destination: DestinationHash,
        data: Buffer | str,
        *,
        proof: Literal[False],
        timeout: float | None = ...,
        type: DestinationType = ...,
        group_key: Buffer | None = ...,
        context: int = ...,
        ratchet: bool = ...,
    ) -> None: ...

    def send(
        self,
        destination: DestinationHash,
        data: Buffer | str,
        *,
        proof: bool = True,
        timeout: float | None = None,
        type: DestinationType = DestinationType.SINGLE,  # noqa: A002
        group_key: Buffer | None = None,
        context: int = Context.NONE,
        ratchet: bool = True,
    ) -> Receipt | None:
        """Sends one packet; with ``proof`` its proof can be waited for."""

        async def work() -> AsyncReceipt | None:
            if not proof:
                await self._node.send(
                    destination,
                    data,
                    proof=False,
                    type=type,
                    group_key=group_key,
                    context=context,
                    ratchet=ratchet,
                )
                return None
            return await self._node.send(
                destination,
                data,
                timeout=timeout,
                type=type,
                group_key=group_key,
                context=context,
                ratchet=ratchet,
            )

        receipt = self._on.run(work())
        return None if receipt is None else Receipt(self._on, receipt)

    def connect(
        self,
        destination: DestinationHash,
        *,
        timeout: float | None = None,
        identify: Identity | None = None,
        resources: Resources = "none",
    ) -> Link:
        """Finds a destination and opens a link to it."""
        return Link(
            self._on,
            self._on.run(
                self._node.connect(
                    destination, timeout=timeout, identify=identify, resources=resources
                )
            ),
        )

    def lxmf(
        self,
        identity: Identity | None = None,
        *,
        display_name: str | None = None,
        stamp_cost: int | None = None,
        enforce_stamps: bool = False,
        limit_kb: int = LXMF_DELIVERY_LIMIT_KB,
        ratchets: bool = True,
        enforce_ratchets: bool = False,
        verify_timeout: float = LXMF_PATH_REQUEST_WAIT_S,
        on_message: Callable[[MessageReceived], Any] | None = None,
        queue: bool = True,
        store: bool | None = None,
    ) -> Mailbox:
        """Opens the mailbox of an identity; arguments as for :meth:`netmesh.Node.lxmf`."""
        return Mailbox(
            self._on,
            self._on.run(
                self._node.lxmf(
                    identity,
                    display_name=display_name,
                    stamp_cost=stamp_cost,
                    enforce_stamps=enforce_stamps,
                    limit_kb=limit_kb,
                    ratchets=ratchets,
                    enforce_ratchets=enforce_ratchets,
                    verify_timeout=verify_timeout,
                    on_message=_in_thread(self._on, on_message),
                    queue=queue,
                    store=store,
                )
            ),
        )

    def send_message(
        self,
        destination: DestinationHash,
        content: str | Buffer = b"",
        *,
        title: str | Buffer = b"",
        fields: Mapping[Any, Any] | None = None,
        identity: Identity | None = None,
        timestamp: float | None = None,
        timeout: float | None = None,
        stamp_cost: StampCost = None,
        method: MethodName | Method | Policy = "auto",
        stamp: Buffer | None = None,
        ticket: Buffer | None = None,
    ) -> Delivery:
        """Sends an LXMF message and waits until its recipient has proven it."""
        return self._on.run(
            self._node.send_message(
                destination,
                content,
                title=title,
                fields=fields,
                identity=identity,
                timestamp=timestamp,
                timeout=timeout,
                stamp_cost=stamp_cost,
                method=method,
                stamp=stamp,
                ticket=ticket,
            )
        )

    def set_propagation_node(
        self, node: DestinationHash | None, *, stamp_cost: int | None = None
    ) -> None:
        """Which propagation node keeps messages for recipients who are not there."""
        self._on.run(self._node.set_propagation_node(node, stamp_cost=stamp_cost))

    @property
    def propagation_node(self) -> DestinationHash | None:
        """The propagation node that is used."""
        return self._node.propagation_node

    def stats(self) -> NodeStats:
        """Totals since the start, and sizes now."""
        return self._node.stats()

    def metrics(self) -> str:
        """The figures as text in the Prometheus exposition format."""
        return self._node.metrics()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for a coroutine on the node's event loop: for what is not here.

        ``node.run(node.asyncio_node.paths())`` reads the path table.
        """
        return self._on.run(work)

    @property
    def asyncio_node(self) -> node.Node:
        """The node behind it, for :meth:`run`."""
        return self._node
