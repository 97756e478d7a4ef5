"""A node: an agent's place on the mesh, on asyncio.

A :class:`Node` has interfaces, listens on destinations, finds others, and exchanges packets,
links, requests, files and messages with them. Everything that waits takes ``timeout=`` seconds
and obeys cancellation; everything that fails says where. A node is an ordinary object: many
fit one process, and ``async with`` closes all that it opened.

Example:
    >>> import asyncio
    >>> from netmesh import Node
    >>> from netmesh.interfaces import Pipe
    >>> async def main() -> str:
    ...     left, right = Pipe.pair()
    ...     async with Node(interfaces=[left]) as alice, Node(interfaces=[right]) as bob:
    ...         echo = await bob.listen("example.echo")
    ...         await echo.add_handler("/shout", lambda request: request.data.upper())
    ...         async with await alice.connect(echo.hash, timeout=10) as link:
    ...             return (await link.request("/shout", "hello", timeout=10)).data
    >>> asyncio.run(main())
    'HELLO'
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, final

from netmesh._blackholes import UPDATE_S, Blackholes
from netmesh._core import (
    DestinationHash,
    Identity,
    IdentityHash,
    NodeCore,
    RawReply,
    destination_hash,
)
from netmesh._driver import Driver, failure
from netmesh._management import Management
from netmesh._node_figures import NodeSettings, NodeStats, node_stats
from netmesh._node_sink import NodeSink
from netmesh._node_traffic import NodeTraffic
from netmesh.constants import (
    LXMF_DELIVERY_LIMIT_KB,
    LXMF_PATH_REQUEST_WAIT_S,
    DestinationType,
    Method,
)
from netmesh.destinations import LocalDestination
from netmesh.errors import InterfaceError, NotFoundError, StateError
from netmesh.events import AnnounceSent, LinkPacketReceived, PacketReceived, ResourceReceived
from netmesh.interfaces import (
    CustomInterface,
    Interface,
    InterfaceInfo,
    InterfaceOptions,
    InterfaceTrouble,
    LocalClient,
    PortTrouble,
    _info,
)
from netmesh.links import Link
from netmesh.loop import Loop, default_loop
from netmesh.records import Limits
from netmesh.transfers import Proofs, Resources, checked_timeout, policy_of, proofs_of
from netmesh.trouble import Health

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh._mail_delivery import Delivery, OutgoingMessage
    from netmesh._mail_desk import MailDesk, StampCost
    from netmesh._mail_policy import MethodName, Policy
    from netmesh._mail_received import MessageReceived
    from netmesh._mailbox import Mailbox

__all__ = ["Health", "Node", "NodeSettings", "NodeStats"]

log = logging.getLogger("netmesh.node")

CREDIT: Final = 1024
DECISION_TIMEOUT_S: Final = 10.0


@final
class Node(NodeTraffic):
    """One node on the running event loop.

    ``identity`` is its own identity: of its transport role, and of destinations that name no
    other. None takes the one in ``storage``, else a new one. ``interfaces`` are opened at the
    start. ``storage`` is a folder for identity, ratchets, known destinations and paths,
    written by a thread of its own and locked against a second node; None keeps all in memory.

    An interface that cannot be opened at the start is told as an
    :class:`netmesh.interfaces.InterfaceTrouble` and in :meth:`health`, and the others run;
    when none of them opens, the first one's error is raised.

    ``shared_instance`` says whether to attach to a Reticulum instance that runs on this
    machine (an ``rnsd``, say): "auto" does when there is one and ``interfaces`` is empty;
    False never; a name, or (host, port), always, for as long as the node lives.

    ``transport`` makes it carry other nodes' announces, packets and links between its interfaces.
    ``implicit_proofs`` leaves the packet hash out of proofs, ``link_mtu_discovery`` offers an
    interface's MTU to links. ``limits`` bounds the engine's tables, ``credit`` how many
    packets, requests and resources may wait for slow subscribers and handlers.
    ``decision_timeout`` seconds may be taken by an async decision about a packet or resource;
    then it is no, as when it raises. ``receipt_timeout`` seconds may pass until a packet's proof
    where nothing else is said; None: by the path or the round-trip time. ``probes`` answers
    probes of other nodes at ``rnstransport.probe``, ``management`` gives the status of the node
    to the identities in a list. ``publish_blackholes`` gives the list of ignored identities to all
    who ask at ``rnstransport.info.blackhole``; the lists of the nodes with the identities in
    ``blackhole_sources`` are added to it every ``blackhole_update_s`` seconds (120 at least).
    None of these is there while it is attached to a shared instance.
    ``loop`` is the :class:`netmesh.loop.Loop` that runs it, None the process's own.

    Raises, when it is started: StateError when another node has the storage, OSError when
    the storage cannot be used, InterfaceError when no interface can be opened.
    """

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
        credit: int = CREDIT,
        save_interval_s: int = 60,
        decision_timeout: float = DECISION_TIMEOUT_S,
        receipt_timeout: float | None = None,
        probes: bool = False,
        management: Iterable[IdentityHash] | None = None,
        publish_blackholes: bool = False,
        blackhole_sources: Iterable[IdentityHash] = (),
        blackhole_update_s: float = UPDATE_S,
        loop: Loop | None = None,
    ) -> None:
        self._given_identity = identity
        self._given_interfaces = tuple(interfaces)
        self._storage = None if storage is None else os.fspath(storage)
        self._shared = shared_instance
        self._config = {
            "transport": transport,
            "implicit_proofs": implicit_proofs,
            "link_mtu_discovery": link_mtu_discovery,
        }
        self._limits = {} if limits is None else asdict(limits)
        self._options: dict[str, int | bool] = {
            "credit": credit,
            "save_interval_s": save_interval_s,
            "manual_credit": True,
        }
        self._loop = loop
        self._decision_timeout = decision_timeout
        self._receipt_timeout = checked_timeout(receipt_timeout)
        self._management = Management(
            self,
            probes=probes,
            allowed=None if management is None else tuple(map(IdentityHash, management)),
        )
        self._blackhole_lists = Blackholes(
            self,
            publish=publish_blackholes,
            sources=tuple(map(IdentityHash, blackhole_sources)),
            update_s=blackhole_update_s,
        )
        self._unopened: list[InterfaceError] = []
        self._desk_made: MailDesk | None = None
        self._identity = identity
        self._started = False
        self._closing: asyncio.Task[None] | None = None
        NodeSink.__init__(self)

    def __repr__(self) -> str:
        state = "" if self._started else " not started"
        state = " closed" if self.closed else state
        who = "" if self._identity is None else f" {self._identity.hash.hex()}"
        return f"<Node{who}{state}>"

    def __getattr__(self, name: str) -> Any:
        if name == "_driver":
            raise StateError("the node was not started: use async with, or start()")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if self.__dict__.get("_started") and not self.closed:
            _warn(f"{self!r} was not closed", ResourceWarning, source=self)
            if not self._driver.loop.is_closed():
                self._driver.detach()

    # ------------------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Opens it; ``async with`` does that. A node is started once (StateError)."""
        if self._started:
            raise StateError("the node was started before")
        self._started = True
        host = self._loop if self._loop is not None else default_loop()
        try:
            if self._identity is None and self._storage is None:
                self._identity = Identity()
            core = await self._open(host)
        except BaseException:
            self._started = False
            raise
        self._driver = Driver(core, self)
        self._follow()
        self._host: Loop | None = host
        try:
            await self._add_given()
            await self._attach()
            if not self._is_attached():
                await self._management.start()
                await self._blackhole_lists.start()
        except BaseException:
            await asyncio.shield(self.close())
            raise

    async def _open(self, host: Loop) -> NodeCore:
        def make() -> NodeCore:
            core = NodeCore(
                host._core,
                self._identity,
                self._config,
                self._limits,
                self._storage,
                self._options,
            )
            if self._identity is None:
                assert self._storage is not None
                self._identity = Identity.load(os.path.join(self._storage, "identity"))
            return core

        return make() if self._storage is None else await asyncio.to_thread(make)

    async def _add_given(self) -> None:
        """Opens what was given: one that cannot be opened does not stop the others."""
        for options in self._given_interfaces:
            try:
                await self.add_interface(options)
            except InterfaceError as error:
                self._unopened.append(error)
                self._tell_unopened(error)
        if self._unopened and not self._interfaces:
            raise self._unopened[0]

    def _tell_unopened(self, error: InterfaceError) -> None:
        log.warning("%s", error, extra=self._extra(interface=error.interface))
        self._tell(
            InterfaceTrouble(
                time_s=time.monotonic(),
                time_unix_s=time.time(),
                interface=None,
                label=error.interface,
                trouble=PortTrouble.LISTEN,
                os_error=error.os_error,
                error=error,
            )
        )

    def _is_attached(self) -> bool:
        return any(isinstance(each.options, LocalClient) for each in self._interfaces.values())

    async def _attach(self) -> None:
        """Attaches to a shared instance, if that is wanted."""
        shared = self._shared
        if shared is False or (shared == "auto" and self._given_interfaces):
            return
        if isinstance(shared, tuple):
            await self.add_interface(LocalClient(host=shared[0], port=shared[1]))
            return
        client = await self.add_interface(LocalClient("default" if shared == "auto" else shared))
        if shared == "auto" and not (await client.info()).online:
            await client.remove()

    async def close(self) -> None:
        """Ends everything: links close, operations end, tables are saved. Quiet when repeated.

        Cancelling the wait does not stop the close.
        """
        if not self._started or self.closed:
            return
        if self._closing is None:
            self._closing = self._driver.loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        self._driver.core.close()
        await self._driver.closed
        if self._desk_made is not None:
            self._desk_made.close()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._host = None

    @property
    def closed(self) -> bool:
        """Whether it has closed."""
        return self._started and "_driver" in self.__dict__ and self._driver.closed.done()

    @property
    def identity(self) -> Identity:
        """Its own identity, with private keys. Raises StateError before it is known."""
        if self._identity is None:
            raise StateError("the node's identity is in its storage: start it first")
        return self._identity

    @property
    def loop(self) -> Loop:
        """The loop that runs it. Raises StateError unless it is open."""
        if not self._started or self.closed or self._host is None:
            raise StateError("the node is not open")
        return self._host

    # ------------------------------------------------------------------ interfaces

    async def add_interface(self, options: InterfaceOptions | CustomInterface) -> Interface:
        """Opens an interface while the node runs.

        A connection is made, and made again, in the background. Raises InterfaceError when a
        port cannot be listened on, StateError for a name that is taken, ValueError.
        """
        setup = options._setup()
        added: list[Interface] = []

        def register(reply: RawReply) -> None:
            if reply.status >= 0:
                interface = Interface(
                    self, reply.iface, setup["label"], reply.number or None, options
                )
                self._interfaces[reply.iface] = interface
                interface._set_online(reply.iface in self._online)
                added.append(interface)

        call = self._driver.start("iface_add", on_reply=register, spec=setup)
        reply = await self._driver.reply_of(
            call, lambda late: self._driver.post("iface_remove", iface=late.iface)
        )
        if reply.status < 0:
            if reply.os_error:
                raise InterfaceError(
                    f"interface {setup['label']!r}: {os.strerror(-reply.os_error)}",
                    interface=setup["label"],
                    os_error=-reply.os_error,
                )
            raise failure(reply, f"interface {setup['label']!r}")
        interface = added[0]
        if isinstance(options, CustomInterface):
            options._open(self, interface)
        return interface

    def interfaces(self) -> list[Interface]:
        """The interfaces that were opened and not removed, oldest first."""
        return list(self._interfaces.values())

    def interface_infos(self) -> list[InterfaceInfo]:
        """All interfaces as they are, connections of servers too; at most 0.1 s old."""
        return [_info(core) for core in self._driver.core.ifaces()]

    async def interface_info(self, interface: int) -> InterfaceInfo:
        """One of them as it is now. Raises NotFoundError when it is gone."""
        reply = await self._ask("iface_list", "interfaces")
        for core in reply.records:
            if core["id"] == interface:
                return _info(core)
        raise NotFoundError(f"there is no interface {interface}")

    async def synthesize_tunnel(self, interface: int) -> None:
        """Asks the node behind an interface to keep our paths over a reconnection.

        Raises NotFoundError, StateError when the interface cannot send.
        """
        await self._ask("iface_tunnel", "interface", iface=interface)

    async def _change_interface(self, interface: Interface, changes: dict[str, Any]) -> None:
        if "label" in changes:
            raise ValueError("the label of an interface does not change")
        options = interface.options
        old = options.options if isinstance(options, CustomInterface) else options
        new = replace(old, **changes)
        await self._ask(
            "iface_change",
            f"interface {interface.label!r}",
            iface=interface.id,
            spec={
                "medium": options._medium(),
                "label": interface.label,
                "spec": new._properties(),
            },
        )
        if isinstance(options, CustomInterface):
            options.options = new
        else:
            interface.options = new

    async def _remove_interface(self, interface: Interface) -> None:
        if self._interfaces.pop(interface.id, None) is not None:
            self._forget_interface(interface)
            await self._ask("iface_remove", "interface", iface=interface.id)

    def _interface_failed(self, interface: Interface, error: Exception) -> None:
        """A user-written interface raised: it is paused, all else goes on."""
        log.warning(
            "interface %r failed and is paused: %r",
            interface.label,
            error,
            extra=self._extra(interface=interface.label),
        )
        interface._failure = error
        if interface.id in self._interfaces and not self.closed:
            self._driver.post("iface_pause", iface=interface.id)
        self._tell(
            InterfaceTrouble(
                time_s=time.monotonic(),
                time_unix_s=time.time(),
                interface=interface.id,
                label=interface.label,
                trouble=PortTrouble.NONE,
                os_error=None,
                error=error,
            )
        )

    def _feed(self, iface: int, frame: Buffer, done: Callable[[], None]) -> None:
        self._driver.start("feed", on_reply=lambda _: done(), iface=iface, data=frame)

    # ---------------------------------------------------------- own destinations

    async def listen(
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
        """Listens on a destination called ``name``, of this node's identity or another.

        ``prove`` says which packets are proven (see :data:`netmesh.destinations.Proofs`); with
        ``hold`` the proofs of "all" wait for :meth:`accept` of their token: durable, then
        promised. ``links`` says whether peers may open links, ``resources`` which of their
        resources are taken (see :data:`netmesh.transfers.Resources`), ``hold_resources`` lets the
        proofs of those wait. ``channels`` opens the channel of each link as soon as it is up, so
        that a peer's first messages are taken (see :meth:`netmesh.Link.channel`).
        ``resource_max`` and ``request_max`` bound resources and requests in bytes.
        ``ratchets`` announces ratchets, ``enforce_ratchets`` refuses packets for the
        identity's own key; ``ratchet_file`` brings ratchets along
        (:meth:`netmesh.destinations.LocalDestination.ratchet_file`) when the storage has none.
        ``app_data`` is what announces say.

        ``on_packet``, ``on_link``, ``on_link_packet`` and ``on_resource`` are called, and
        awaited if they are async, in place of queueing for ``packets``, ``links``,
        ``link.packets`` and ``link.resources``. What they raise goes to the event loop's
        exception handler.

        GROUP and PLAIN destinations have no identity in their address here; a GROUP one takes
        a ``group_key`` of 32 or 64 bytes. Raises StateError when it exists, ValueError,
        AuthenticationError, LimitReached.
        """
        owner = identity if identity is not None else self.identity
        shared = type != DestinationType.SINGLE
        if group_key is not None and type != DestinationType.GROUP:
            raise ValueError("only a GROUP destination has a group key")
        if ratchet_file is not None and (shared or not ratchets):
            raise ValueError("a ratchet file is for a SINGLE destination with ratchets=True")
        code, prover = proofs_of(prove)
        accept, policy = policy_of(resources)
        local = LocalDestination(
            self,
            name,
            None if shared else owner,
            prover=prover,
            policy=policy,
            channels=channels,
            on_packet=on_packet,
            on_link=on_link,
            on_link_packet=on_link_packet,
            on_resource=on_resource,
        )

        def register(reply: RawReply) -> None:
            if reply.status >= 0:
                local.hash = reply.destination
                self._locals[local.hash] = local

        await self._driver.ask(
            "listen",
            f"destination {name!r}",
            undo=lambda _: self._unlisten(local),
            on_reply=register,
            key=None if shared and identity is None else owner,
            data=name,
            extra=group_key if shared else ratchet_file,
            spec={
                "type": int(type),
                "prove": code,
                "hold": hold,
                "accepts_links": links and not shared,
                "resources": accept,
                "hold_resources": hold_resources,
                "channels": channels,
                "resource_max": resource_max or 0,
                "request_max": request_max or 0,
                "ratchets": ratchets,
                "enforce_ratchets": enforce_ratchets,
                "ratchets_retained": ratchets_retained,
                "ratchet_interval_s": ratchet_interval_s,
            },
        )
        if app_data is not None:
            await local.set_app_data(app_data)
        return local

    def _unlisten(self, local: LocalDestination) -> None:
        local._end()
        self._driver.post("unlisten", destination=local.hash)

    async def announce(
        self,
        destination: LocalDestination | str,
        app_data: Buffer | str | None = None,
        *,
        interface: int | None = None,
    ) -> AnnounceSent:
        """Announces a destination and waits until an interface has taken the announce.

        ``destination`` is one that the node listens on, or the name of one, which is listened
        on first. Errors as :meth:`netmesh.destinations.LocalDestination.announce`.
        """
        if isinstance(destination, str):
            own = self._locals.get(destination_hash(self.identity.hash, destination))
            destination = own if own is not None else await self.listen(destination)
        return await destination.announce(app_data, interface=interface)

    async def accept(self, token: int) -> None:
        """Accepts what is held under an event's token: proves a packet or a resource.

        Raises StateError when it was decided before or has lapsed.
        """
        await self._ask("accept", "token", token=token)

    async def refuse(self, token: int) -> None:
        """Refuses what is held. Raises StateError when it was decided before or has lapsed."""
        await self._ask("refuse", "token", token=token)

    async def set_implicit_proofs(self, implicit: bool) -> None:
        """The form of packet proofs from now on."""
        await self._ask("set_implicit_proofs", "proofs", on=implicit)
        self._config["implicit_proofs"] = implicit

    async def set_default_receipt_timeout(self, timeout: float | None) -> None:
        """How long packets wait for their proof from now on where nothing else is said.

        ``timeout`` is seconds; None: by the length of the path, or a link's round-trip time.
        """
        self._receipt_timeout = checked_timeout(timeout)

    async def cancel(self, op: int) -> None:
        """Cancels an operation that events and records name, a transfer from a peer too.

        Raises StateError when it has ended.
        """
        await self._ask("cancel", "operation", op=op)

    def _name(self) -> str:
        return self.identity.hash.hex()

    def _new_link(self, destination: DestinationHash, local: LocalDestination | None) -> Link:
        return Link(self, destination, local=local)

    # ------------------------------------------------------------------- messages

    async def lxmf(
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
        """Opens the mailbox of an identity, by default of the node's own.

        ``display_name`` and ``stamp_cost`` (1 to 254) are announced; stamps are checked when
        there is a cost, and messages without enough of one dropped with ``enforce_stamps``.
        Messages above ``limit_kb`` thousand bytes are refused. ``ratchets`` are announced, and with
        ``enforce_ratchets`` what is sealed for the identity's own key is refused. When the keys of
        a sender are not known its path is asked for, for up to ``verify_timeout`` seconds.
        ``on_message`` is called in place of queueing, and awaited if it is async. With ``store``
        messages are in the node's storage, None: if it has one: those that come are durable
        before they are proven and told until they are acknowledged, those that were sent go on
        after a restart. Several mailboxes may be open. Raises StateError when this one is, or when
        there is no storage for its messages, ValueError for a cost that cannot be announced,
        StoreError for a store that cannot be used.
        """
        from netmesh._mailbox import Mailbox, open_mailbox

        mailbox = Mailbox(
            self,
            display_name=display_name,
            stamp_cost=stamp_cost,
            enforce_stamps=enforce_stamps,
            limit_kb=limit_kb,
            verify_timeout=verify_timeout,
            on_message=on_message,
            queue=queue,
            kept=self._storage is not None if store is None else store,
        )
        return await open_mailbox(
            self,
            identity or self.identity,
            mailbox,
            ratchets=ratchets,
            enforce_ratchets=enforce_ratchets,
        )

    async def set_propagation_node(
        self, node: DestinationHash | None, *, stamp_cost: int | None = None
    ) -> None:
        """Which propagation node keeps messages for recipients who are not there.

        ``node`` is the address of its ``lxmf.propagation`` destination; None: none is used.
        Messages to it get a stamp worth ``stamp_cost`` bits, None: what it announces. It is for
        all mailboxes of this node, and for what is sent without one.
        """
        await self._ask(
            "mail_set_node",
            "propagation node",
            destination=bytes(16) if node is None else node,
            on=node is not None,
            number=stamp_cost or 0,
        )
        self._desk.propagation_node = None if node is None else DestinationHash(node)

    @property
    def propagation_node(self) -> DestinationHash | None:
        """The propagation node that is used."""
        return self._desk.propagation_node

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
        """Sends a message on its way, without waiting; its id is known at once.

        As :meth:`send_message`, whose errors come when the result is awaited. Raises
        EncodeError and ValueError for what cannot be packed.
        """
        from netmesh._mail_desk import Draft
        from netmesh._mail_policy import Policy

        draft = Draft(
            destination=destination,
            content=content,
            title=title,
            fields=fields,
            timestamp=timestamp,
            stamp=stamp,
            ticket=ticket,
        )
        return self._desk.send(
            identity or self.identity,
            draft,
            policy=Policy.of(method),
            stamp_cost=stamp_cost,
            timeout=timeout,
        )

    async def send_message(
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
        """Sends an LXMF message and waits until its recipient has proven it.

        ``destination`` is the recipient's address, of its ``lxmf.delivery`` destination.
        ``identity`` signs it (None: the node's own); recipients can verify it once they have
        heard an announce of that identity's mailbox. ``method`` says how, by the name of a policy
        (:data:`netmesh.messaging.POLICIES`), a single method, or a policy of your own.
        "opportunistic" sends one packet, up to five times until one is proven; "direct" goes over
        a link as a packet or a resource, opened up to four times unless one to the recipient is
        open: ours, or one on which it identified itself; "propagated" leaves it to the propagation
        node, and ends when that has it (:attr:`netmesh.messaging.Delivery.state` SENT). Nothing
        silently changes one into another. "auto" takes packets when the message fits one, links
        when it does not or no proof of two packets comes, and the propagation node, if one is set,
        when that failed too. After the first delivery on a link of ours we identify on it, if the
        mailbox of ``identity`` is open, so that answers need no link of their own.
        ``stamp_cost`` makes a stamp worth so much, "announced" as much as the recipient asks for,
        unless a ticket of the recipient's takes its place. ``timestamp`` is what the message says,
        ``stamp`` one that was made before, ``ticket`` 16 bytes that make one. ``timeout`` seconds
        are for all of it.

        Raises PathError, LinkError, ProofError, TransferError or OperationError with the
        ``stage`` where it failed, RefusedError, EncodeError for a message that does not fit
        its method, NotFoundError without a propagation node. Cancelling the wait cancels the
        message.
        """
        return await self.start_message(
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

    @property
    def _desk(self) -> MailDesk:
        """What follows messages; a node that sends none does without its modules."""
        if self._desk_made is None:
            from netmesh._mail_desk import MailDesk

            self._desk_made = MailDesk(self)
        return self._desk_made

    def _unmail(self, mailbox: Mailbox) -> None:
        """The mailbox that nobody waits for any more."""
        mailbox._end()
        self._driver.post("mail_close", destination=mailbox.hash)

    # -------------------------------------------------------------------- figures

    def stats(self) -> NodeStats:
        """Totals since the start, and sizes now, as of the last moment with work."""
        return node_stats(self._driver.core.stats())

    async def settings(self) -> NodeSettings:
        """The settings in force, with all defaults filled in."""
        limits = await self.limits()
        attached = self._is_attached()
        return NodeSettings(
            identity=self.identity.hash,
            storage=self._storage,
            transport=self._config["transport"],
            implicit_proofs=self._config["implicit_proofs"],
            link_mtu_discovery=self._config["link_mtu_discovery"],
            attached=attached,
            probes=self._management.probe is not None,
            management=None if attached else self._management.allowed,
            publishes_blackholes=self._blackhole_lists.published is not None,
            blackhole_sources=() if attached else self._blackhole_lists.sources,
            blackhole_update_s=self._blackhole_lists.update_s,
            decision_timeout_s=self._decision_timeout,
            receipt_timeout_s=self._receipt_timeout,
            credit=int(self._options["credit"]),
            save_interval_s=int(self._options["save_interval_s"]),
            limits=limits,
        )

    async def update_blackholes(self, *, timeout: float | None = None) -> int:
        """Asks every node of ``blackhole_sources`` for its list now.

        ``timeout`` seconds may be taken for each, None: 60; what a node does not answer is
        logged. Entries that are there already stay as they are. Gives how many were added.
        """
        return await self._blackhole_lists.update(timeout)

    def health(self) -> Health:
        """Whether all that it was given works; interfaces as of at most 0.1 s ago."""
        problems = [str(error) for error in self._unopened]
        for interface in self._interfaces.values():
            if interface._failure is not None:
                problems.append(f"interface {interface.label!r} failed: {interface._failure!r}")
        for info in self.interface_infos():
            if not (info.online or info.listening or info.paused or info.trouble == 0):
                problems.append(f"interface {info.label!r} is down: {info.trouble.name.lower()}")
        errno = self.stats().store_errno
        if errno is not None:
            problems.append(f"the storage cannot be written: {os.strerror(errno)}")
        return Health(problems=tuple(problems))

    def metrics(self) -> str:
        """The figures as text in the Prometheus exposition format."""
        from netmesh.metrics import exposition

        return exposition(self.stats(), self.interface_infos(), node=self.identity.hash.hex())

    async def persist(self) -> None:
        """Writes known destinations and paths now; they are durable when it returns.

        Raises StateError without a storage, NetmeshError when they could not be written.
        """
        await self._ask("persist", "storage")
