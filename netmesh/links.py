"""Links of a node: encrypted connections to peers.

A :class:`Link` comes from :meth:`netmesh.Node.connect`, or from a peer that opened it to a
destination of ours. It is closed by ``async with``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Self, final, overload

from netmesh import _records
from netmesh._core import Advertisement, DestinationHash, Identity, IdentityHash, RawEvent, RawReply
from netmesh._driver import Call, Driver, failure
from netmesh._files import move_file, open_content, target_of, write_public_file
from netmesh._inbox import Claim, Inbox
from netmesh.channels import READER_LIMIT, Channel, TypedMessage
from netmesh.constants import PacketType
from netmesh.decisions import link_mdu
from netmesh.errors import (
    ChannelClosedError,
    LinkError,
    RequestError,
    StateError,
    TransferError,
)
from netmesh.events import (
    LinkPacketReceived,
    ProgressMade,
    ReceiptDone,
    ResourceOffered,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
    from_raw,
)
from netmesh.msgpack import packb
from netmesh.records import CloseReason, EventKind, LinkRecord, Stage, TransferRecord
from netmesh.transfers import (
    COMPRESSION,
    Offer,
    Proofs,
    Receipt,
    ReceivedFile,
    Resources,
    Transfer,
    microseconds,
    policy_of,
    proofs_of,
    stage_name,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.destinations import IncomingRequest, LocalDestination
    from netmesh.node import Node

__all__ = ["Link"]

PACKETS_MAX: Final = 256
RESOURCES_MAX: Final = 8


# -------------------------------------------------------------------------------- links


@final
class Link:
    """An encrypted connection to a peer, opened by us or by it.

    ``async with`` closes it. ``packets`` and ``resources`` are read with ``async for``; a link
    whose packets nobody reads stops taking them after 256 (resources: 8), so that its peer
    waits and nothing is lost. Requests of the peer go to the handlers of the destination.
    """

    __slots__ = (
        "_channel",
        "_closed",
        "_decide",
        "_folder",
        "_folder_max",
        "_local",
        "_node",
        "_on_packet",
        "_on_resource",
        "_progress",
        "_prover",
        "_ready",
        "_receiving",
        "_remote_key",
        "_unstored",
        "destination",
        "hops",
        "initiator",
        "interface",
        "link_id",
        "mtu",
        "packets",
        "reason",
        "ref",
        "remote_identity",
        "resources",
        "rtt_s",
    )

    ref: int
    """Its number in this node, which events name."""
    link_id: bytes
    """16 bytes: its address on the wire."""
    destination: DestinationHash
    """The destination that it leads to, on both sides."""
    initiator: bool
    """Whether this side opened it."""
    remote_identity: IdentityHash | None
    """Who the peer is: always known to the initiator, else after it identified."""
    interface: int
    """The interface that it runs over."""
    hops: int
    """Hops to the peer."""
    rtt_s: float
    """The round-trip time that the handshake measured."""
    mtu: int
    """Bytes of its longest packet."""
    reason: CloseReason
    """Why it ended; NONE while it has not."""
    packets: Inbox[LinkPacketReceived]
    """What the peer sent."""
    resources: Inbox[ResourceReceived]
    """Resources that the peer sent and that were accepted."""

    def __init__(
        self, node: Node, destination: DestinationHash, *, local: LocalDestination | None
    ) -> None:
        loop = asyncio.get_running_loop()
        self._node = node
        self._local = local
        self._ready: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._remote_key: asyncio.Future[Identity] = loop.create_future()
        self._channel: Channel | None = None
        self._decide: Callable[[Offer], Any] | None = None
        self._on_packet: Callable[[Link, LinkPacketReceived], Any] | None = None
        self._on_resource: Callable[[Link, ResourceReceived], Any] | None = None
        self._progress: list[Callable[[ProgressMade], object]] = []
        self._prover: Callable[[Any], Any] | None = None
        self._receiving = asyncio.Lock()
        self._unstored: asyncio.Future[TransferError] | None = None
        self._folder: tuple[bytes, bytes, bool] | None = None if local is None else local._folder
        self._folder_max = 0 if local is None else local._folder_max
        self.ref = 0
        self.link_id = bytes(16)
        self.destination = destination
        self.initiator = local is None
        self.remote_identity = None
        self.interface = 0
        self.hops = 0
        self.rtt_s = 0.0
        self.mtu = 0
        self.reason = CloseReason.NONE
        self.packets = Inbox(PACKETS_MAX, self._pause)
        self.resources = Inbox(RESOURCES_MAX, self._pause)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "active" if self._ready.done() else "pending"
        return f"<Link {self.ref} to {self.destination.hex()} {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed.done()

    @property
    def mdu(self) -> int:
        """Bytes of the longest payload of one packet."""
        return link_mdu(self.mtu)

    @property
    def remote_key(self) -> Identity | None:
        """The public identity of the peer that opened the link, once it has identified."""
        known = self._remote_key
        return known.result() if known.done() and known.exception() is None else None

    async def info(self) -> LinkRecord:
        """All about it, also for a minute after it closed. Raises NotFoundError later."""
        reply = await self._ask("link_info")
        return _records.link(reply.records[0], (reply.mono_us, reply.unix_us))

    async def transfers(self) -> list[TransferRecord]:
        """The resources that are on their way, in both directions."""
        reply = await self._ask("transfer_list")
        return [_records.transfer(core) for core in reply.records]

    # -------------------------------------------------------------------- sending

    @overload
    async def send(
        self, data: Buffer | str, *, proof: Literal[True] = ..., timeout: float | None = ...
    ) -> Receipt: ...

    @overload
    async def send(
        self, data: Buffer | str, *, proof: Literal[False], timeout: float | None = ...
    ) -> None: ...

    async def send(
        self, data: Buffer | str, *, proof: bool = True, timeout: float | None = None
    ) -> Receipt | None:
        """Sends one packet; with ``proof`` its receipt can be awaited.

        The responder proves what its destination proves, the initiator of a link what
        :meth:`set_prove` says. ``timeout`` seconds may pass until the proof (None: the node's
        default, or by the round-trip time, at least 3 s). Raises EncodeError above
        :attr:`mdu`, LinkError when the link has ended.
        """
        limit = self._node._receipt_timeout if timeout is None else timeout
        call = self._driver.start(
            "link_send",
            operation=True,
            link=self.ref,
            data=data,
            on=proof,
            timeout_us=microseconds(limit),
        )
        reply = await self._driver.reply_of(call)
        self._check(reply, "data")
        return Receipt(self._driver, call, self.destination, reply.hash) if proof else None

    async def _send_proven(self, data: Buffer) -> ReceiptDone:
        """Sends a packet and waits for its proof alone; errors of both."""
        call = self._driver.start(
            "link_send",
            operation=True,
            quiet=True,
            link=self.ref,
            data=data,
            on=True,
            timeout_us=microseconds(self._node._receipt_timeout),
        )
        if await self._driver.end_of(call) is None:
            self._check(self._driver.answer_of(call), "data")
        return Receipt(self._driver, call, self.destination, None)._outcome()

    async def request(
        self,
        path: str,
        data: object = None,
        *,
        packed: Buffer | None = None,
        timeout: float | None = None,
        response_max: int | None = None,
        progress: Callable[[ProgressMade], object] | None = None,
    ) -> ResponseDone:
        """Asks the peer and waits for its answer, whose ``data`` is the unpacked value.

        ``data`` is anything that MessagePack can hold, ``packed`` the same packed already. A
        request or an answer that does not fit a packet goes as a resource, whose ``progress``
        is told. ``timeout`` seconds may pass until the answer begins (None: by the round-trip
        time). ``response_max`` bounds it in bytes (None: 64 MiB).

        Raises RequestError, whose ``stage`` says where it failed: "REQUEST" (no answer in
        time: the peer does not know the path, does not allow it, or its handler said
        nothing), "LINK", "TRANSFER", "REFUSED" (the answer is too long).
        """
        if packed is not None and data is not None:
            raise ValueError("give the data or its packed form, not both")
        call = self._driver.start(
            "request",
            operation=True,
            on_event=None if progress is None else lambda raw: self._report(raw, progress),
            quiet=True,
            link=self.ref,
            extra=path,
            data=packb(data) if packed is None else packed,
            timeout_us=microseconds(timeout),
            size_max=response_max or 0,
        )
        raw = await self._driver.end_of(call)
        if raw is None:
            raise self._not_asked(self._driver.answer_of(call), path)
        done = from_raw(raw)
        assert isinstance(done, ResponseDone)
        if not done.ok:
            raise self._request_error(raw, done, path)
        return done

    def _not_asked(self, reply: RawReply, path: str) -> Exception:
        """Why a request did not begin."""
        if reply.status >= 0:
            return StateError("the node was closed")
        if reply.reason in ("STATE", "MISSING"):
            return RequestError(
                f"request {path!r}: the link has ended",
                reason="STATE",
                stage="LINK",
                destination=self.destination,
                path=path,
            )
        return failure(reply, "request")

    def _request_error(self, raw: RawEvent, done: ResponseDone, path: str) -> RequestError:
        stage = stage_name(raw)
        texts = {
            "REQUEST": "no answer in time",
            "LINK": "the link ended before the answer came",
            "TRANSFER": "the answer did not arrive",
            "REFUSED": "the answer, or the request, is too long",
            "CANCELLED": "it was cancelled",
        }
        return RequestError(
            f"request {path!r}: {texts.get(stage, done.reason)}",
            reason=done.reason,
            stage=stage,
            destination=self.destination,
            path=path,
        )

    def _report(self, raw: RawEvent, progress: Callable[[ProgressMade], object]) -> None:
        if raw.kind == EventKind.PROGRESS:
            made = from_raw(raw)
            assert isinstance(made, ProgressMade)
            self._node._call_back(progress, made)

    async def start_file(
        self,
        source: Buffer | str | os.PathLike[str] | BinaryIO,
        *,
        metadata: object = None,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
        progress: Callable[[ProgressMade], object] | None = None,
        timeout: float | None = None,
    ) -> Transfer:
        """Begins to send a file (a path or a binary file object) or bytes of any size.

        Files are read while they are sent, never whole into memory; a file object is sent from
        where it stands. ``metadata`` is anything that MessagePack can hold, at most 1 MiB
        packed (else EncodeError); a file without any sends its name. One transfer per link is
        under way at a time, the next ones are queued. ``compression`` is "off", "when_smaller"
        (what upstream does), or "automatic": when it saves more time than it takes on this
        link. ``timeout`` seconds may pass until the peer begins to take it (None: by the link's
        round-trip time). Raises LinkError when the link has ended, OSError.
        """
        transfer, call = await self._offer_file(
            source, metadata, compression, progress, timeout, quiet=False
        )
        self._check(await self._driver.reply_of(call), "file")
        return transfer

    async def _offer_file(
        self,
        source: Buffer | str | os.PathLike[str] | BinaryIO,
        metadata: object,
        compression: Literal["off", "when_smaller", "automatic"],
        progress: Callable[[ProgressMade], object] | None,
        timeout: float | None,
        *,
        quiet: bool,
    ) -> tuple[Transfer, Call]:
        """Gives it to the core; ``quiet``: for a caller that waits for nothing but its end."""
        if compression not in COMPRESSION:
            raise ValueError(f"compression must be one of {sorted(COMPRESSION)}")
        if isinstance(source, bytes | bytearray | memoryview):
            content = open_content(source)
        else:
            content = await asyncio.to_thread(open_content, source)
        if metadata is None and content.name is not None:
            metadata = {"name": content.name}
        transfer = Transfer(self._driver, self, progress)
        try:
            call = self._driver.start(
                "resource_send",
                operation=True,
                on_event=None if quiet and progress is None else transfer._on_event,
                quiet=quiet and progress is None,
                link=self.ref,
                data=content.data,
                file=content.file,
                extra=None if metadata is None else packb(metadata),
                compression=int(COMPRESSION[compression]),
                timeout_us=microseconds(timeout),
            )
        finally:
            content.close()
        transfer._call = call
        return transfer, call

    async def send_file(
        self,
        source: Buffer | str | os.PathLike[str] | BinaryIO,
        *,
        metadata: object = None,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
        progress: Callable[[ProgressMade], object] | None = None,
        timeout: float | None = None,
    ) -> ResourceSent:
        """Sends a file or bytes of any size and waits until the peer has proven all of it.

        As :meth:`start_file`; cancelling the wait cancels the transfer. Raises RefusedError,
        TransferError, LinkError, OSError.
        """
        transfer, call = await self._offer_file(
            source, metadata, compression, progress, timeout, quiet=True
        )
        if await self._driver.end_of(call) is None:
            self._check(self._driver.answer_of(call), "file")
        return await transfer

    async def receive_file(
        self,
        to: str | os.PathLike[str] | None = None,
        *,
        size_max: int | None = None,
        resume: bool = True,
        progress: Callable[[ProgressMade], object] | None = None,
        timeout: float | None = None,
    ) -> ReceivedFile:
        """Waits for the next resource; with ``to`` it goes to a file, never whole into memory.

        ``to`` is a path, which is replaced, or a folder, which gets the file under the name
        that its sender gave (without folders and leading dots; numbered if it is taken). What
        comes in is written beside as ".HASH.part" and renamed when all of it is verified and
        durable; only then is its last segment proven. ``size_max`` bounds the content then
        (None: any size). Without ``to`` the content comes in memory. ``progress`` is told of
        what comes in meanwhile.

        With ``resume``, what a netmesh peer sends above 1 MiB and does not finish, because the
        link or one of the processes ended, stays beside as ".netmesh-HASH.part"; when the same
        peer sends the same content again, it goes on from there (both sides compare the hash of
        it first). At most 16 such files, 4 GiB and seven days: see the reference of transfers.

        Raises TimeoutError, StateError when the link ended, TransferError with stage "STORE"
        when the file could not be written (reason "FULL": no room), OSError.
        """
        async with self._receiving:
            return await self._receive(to, size_max, resume, progress, timeout)

    async def _receive(
        self,
        to: str | os.PathLike[str] | None,
        size_max: int | None,
        resume: bool,
        progress: Callable[[ProgressMade], object] | None,
        timeout: float | None,
    ) -> ReceivedFile:
        target = None if to is None else await asyncio.to_thread(target_of, to)
        shelved = target is not None and not len(self.resources)
        if shelved:
            assert target is not None
            shelf = (*target, resume)
            await self._ask("link_shelve", folder=shelf, on=True, size_max=size_max or 0)
        if progress is not None:
            self._progress.append(progress)
            self._node._read_progress(1)
        try:
            event = await self._next_resource(timeout)
        except BaseException:
            if shelved:
                self._shelve_as_before()
            raise
        finally:
            if progress is not None:
                self._progress.remove(progress)
                self._node._read_progress(-1)
        path = event.path
        if target is not None:
            path = await asyncio.to_thread(_place, event, target)
            if event.path is None and shelved:
                self._shelve_as_before()  # it came before the file was wanted
        if event.token is not None:
            await self._node.accept(event.token)
        if shelved and event.path is not None and self._folder is not None:
            self._shelve_as_before()
        return ReceivedFile(event.data, event.metadata, path, event)

    async def _next_resource(self, timeout: float | None) -> ResourceReceived:
        """The next one, or why the one that was to be stored failed."""
        getting = asyncio.ensure_future(self.resources.get(timeout=timeout))
        self._unstored = asyncio.get_running_loop().create_future()
        try:
            both: set[asyncio.Future[Any]] = {getting, self._unstored}
            await asyncio.wait(both, return_when="FIRST_COMPLETED")
            if not getting.done():
                raise self._unstored.result()
            return getting.result()
        finally:
            self._unstored = None
            getting.cancel()

    def _shelve_as_before(self) -> None:
        """What comes after a file that was waited for goes where it went before."""
        if not self.closed:
            self._driver.post(
                "link_shelve",
                link=self.ref,
                folder=self._folder,
                size_max=self._folder_max,
            )

    # -------------------------------------------------------------------- the channel

    def channel(self, *classes: type[TypedMessage]) -> Channel:
        """Its channel, which is opened with the first call; both ends have to open theirs.

        ``classes`` of messages are registered with it. Messages of the peer that come before
        it is open are not lost: the peer tries again. Raises ChannelClosedError when the link
        has ended, MessageTypeError.
        """
        found = self._channel
        if found is None:
            if self.closed or not self._ready.done():
                raise ChannelClosedError(
                    "the link has ended" if self.closed else "the link is not active yet",
                    destination=self.destination,
                    close_reason=self.reason.name if self.closed else "",
                )
            self._driver.post("channel_open", link=self.ref, on=True)
            found = self._channel = Channel(self)
        found.register(*classes)
        return found

    async def open_channel(self, *classes: type[TypedMessage]) -> Channel:
        """The same, and waits until this end is open."""
        found = self.channel(*classes)
        reply = await self._driver.reply_of(
            self._driver.start("channel_open", link=self.ref, on=True)
        )
        if reply.status < 0:
            raise found._closed_error()
        return found

    async def open_stream(
        self,
        receive_id: int,
        send_id: int,
        *,
        limit: int = READER_LIMIT,
        compression: Literal["off", "when_smaller", "automatic"] = "automatic",
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens its channel and a stream in each direction over it.

        See :meth:`netmesh.channels.Channel.open_stream`.
        """
        channel = await self.open_channel()
        return channel.open_stream(receive_id, send_id, limit=limit, compression=compression)

    async def respond(self, request: IncomingRequest, answer: object) -> None:
        """Answers a request that was queued (``queue_requests``).

        ``answer`` is what a handler may return: what MessagePack can hold, a
        :class:`netmesh.destinations.FileResponse` or ``NO_RESPONSE``. Raises StateError when it
        was answered before or its link ended, TypeError and EncodeError for what cannot be
        packed, OSError.
        """
        if request.link is not self:
            raise ValueError("the request came over another link")
        await request.destination._give_answer(request.token, answer, True)

    # -------------------------------------------------------------------- the peer

    async def identify(self, identity: Identity | None = None) -> None:
        """Says who we are, by default with the node's identity; for the initiator.

        Raises StateError on a link that the peer opened, LinkError when it has ended.
        """
        if not self.initiator:
            raise StateError("only the side that opened a link can identify")
        if self.closed:
            raise LinkError("the link has ended", destination=self.destination)
        await self._ask("link_identify", key=identity or self._node.identity)

    async def wait_identified(self, *, timeout: float | None = None) -> Identity:
        """Waits until the peer has said who it is, and gives its public identity.

        Raises TimeoutError, LinkError when the link ends first.
        """
        async with asyncio.timeout(timeout):
            return await asyncio.shield(self._remote_key)

    async def set_resources(
        self,
        policy: Resources,
        *,
        hold: bool = False,
        size_max: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = True,
    ) -> None:
        """Which resources of the peer are taken; see :data:`Resources`.

        With ``hold`` the proof of each waits until :meth:`netmesh.Node.accept` (or
        :meth:`receive_file`). With a ``folder`` each is written to a file there, and resumed with
        ``resume``, as :meth:`receive_file` does; without, to memory. ``size_max`` bounds the
        content in bytes (None: 64 MiB in memory, any size in a folder). Raises OSError.
        """
        code, self._decide = policy_of(policy)
        await self._ask("link_policy", accept=code, on=hold, size_max=size_max or 0)
        shelf = None if folder is None else (os.fsencode(Path(folder).absolute()), b"", resume)
        if shelf is not None or self._folder is not None:
            await self._ask("link_shelve", folder=shelf, size_max=size_max or 0)
        self._folder, self._folder_max = shelf, size_max or 0

    async def set_prove(self, prove: Proofs, *, hold: bool = False) -> None:
        """What is proven of the peer's packets, on a link that we opened: nothing at first.

        See :data:`netmesh.destinations.Proofs`; with ``hold`` the proofs of "all" wait for
        :meth:`netmesh.Node.accept`. Raises StateError on a link that the peer opened, which
        goes by its destination.
        """
        code, prover = proofs_of(prove)
        await self._ask("link_prove", prove=code, on=hold)
        self._prover = prover

    async def tune(
        self,
        *,
        rtt_s: float | None = None,
        keepalive_s: float | None = None,
        stale_s: float | None = None,
    ) -> None:
        """Overrides what the handshake measured; None leaves a value as it is."""
        await self._ask(
            "link_tune",
            spec={
                "rtt_us": microseconds(rtt_s),
                "keepalive_us": microseconds(keepalive_s),
                "stale_us": microseconds(stale_s),
            },
        )

    async def track_signal(self, on: bool = True) -> None:
        """Notes the signal values of each packet in :meth:`info`, or no longer."""
        await self._ask("link_track", on=on)

    async def seal(
        self, payload: Buffer, *, context: int = 0, packet_type: PacketType = PacketType.DATA
    ) -> bytes:
        """A packet of this link with any context, sealed and not sent.

        :meth:`netmesh.Node.inject` sends it: so a test that holds the keys forges packets.
        """
        reply = await self._ask(
            "link_seal", data=payload, context=context, packet_type=int(packet_type)
        )
        return reply.data or b""

    async def unseal(self, raw: Buffer) -> bytes:
        """The payload of a packet of this link."""
        reply = await self._ask("link_unseal", data=raw)
        return reply.data or b""

    async def close(self, *, timeout: float | None = None) -> None:
        """Closes it, tells the peer, and waits until that is done. Quiet on a closed link."""
        if not self.closed and not self._node.closed:
            self._driver.post("link_close", link=self.ref)
            await self.wait_closed(timeout=timeout)

    async def wait_closed(self, *, timeout: float | None = None) -> CloseReason:
        """Waits until it has ended, and gives the reason."""
        async with asyncio.timeout(timeout):
            await asyncio.shield(self._closed)
        return self.reason

    # ----------------------------------------------------------------------- inside

    @property
    def _driver(self) -> Driver:
        return self._node._driver

    async def _ask(self, command: str, **fields: Any) -> RawReply:
        return await self._driver.ask(command, "link", link=self.ref, **fields)

    def _check(self, reply: RawReply, what: str) -> None:
        """Raises for a reply that is an error of something that a link carries."""
        if reply.status >= 0:
            return
        if reply.reason in ("STATE", "MISSING"):
            raise LinkError(
                "the link has ended" if self.closed else "the link is not active",
                reason=reply.reason,
                destination=self.destination,
                close_reason=self.reason.name if self.closed else "",
            )
        raise failure(reply, what)

    def _pause(self, _: bool) -> None:
        if not self.closed:
            self._driver.post(
                "link_pause",
                link=self.ref,
                on=self.packets.paused,
                number=int(self.resources.paused),
            )

    def _opened(self, reply: RawReply) -> None:
        """The core has given it a number: what comes from now on is for it."""
        if reply.status >= 0:
            self.ref = reply.link
            self._node._links[self.ref] = self
        elif not self._ready.done():
            self._ready.set_result(None)  # who waits for it looks at the reply

    def _on_event(self, raw: RawEvent, claim: Claim | None) -> None:
        kind = raw.kind
        if kind == EventKind.LINK_PACKET:
            self._on_data(raw, claim)
        elif kind == EventKind.LINK_ACTIVE:
            self._on_active(raw)
        elif kind == EventKind.LINK_IDENTIFIED:
            self._on_identified(raw)
        elif kind == EventKind.RESOURCE_OFFER:
            self._on_offer(raw, claim)
        elif kind == EventKind.RESOURCE_IN:
            self._on_resource_in(raw, claim)
        elif kind == EventKind.STREAM_DATA:
            if self._channel is not None:
                self._channel._on_stream(raw)
        elif kind == EventKind.CHANNEL_DATA:
            if self._channel is not None:
                self._channel._on_message(raw)
        elif kind == EventKind.RESOURCE_IN_FAILED:
            self._on_resource_failed(raw)
        elif kind == EventKind.LINK_CLOSED:
            self._on_closed(raw)

    def _on_progress(self, raw: RawEvent) -> None:
        """The peer goes on sending a resource."""
        if self._progress:
            made = from_raw(raw)
            assert isinstance(made, ProgressMade)
            for tell in tuple(self._progress):
                self._node._call_back(tell, made)

    def _on_active(self, raw: RawEvent) -> None:
        self.link_id = raw.link_id
        self.remote_identity = raw.identity
        self.interface = raw.iface
        self.hops = raw.hops
        self.rtt_s = _records.to_s(raw.rtt_us)
        self.mtu = raw.total_bytes
        if not self._ready.done():
            self._ready.set_result(None)
        if self._local is not None and self._local._channels:
            self._channel = Channel(self)  # the core has opened it

    def _on_identified(self, raw: RawEvent) -> None:
        self.remote_identity = raw.identity
        if not self._remote_key.done():
            self._remote_key.set_result(Identity.from_public(raw.public_key or b""))

    def _on_data(self, raw: RawEvent, claim: Claim | None) -> None:
        packet = from_raw(raw)
        assert isinstance(packet, LinkPacketReceived)
        prover = self._prover if self._local is None else self._local._prover
        if prover is not None:
            self._node._decide(prover, packet, raw.token, claim)
        handler = self._on_packet
        if handler is None and self._local is not None:
            handler = self._local._on_link_packet
        if handler is None:
            self.packets._put(packet)
        else:
            self._node._run_handler(handler, (self, packet), claim)

    def _on_offer(self, raw: RawEvent, claim: Claim | None) -> None:
        event = from_raw(raw)
        assert isinstance(event, ResourceOffered)
        decide = self._decide
        if decide is None:
            self._driver.post("refuse", token=event.token)
            return
        offer = Offer(self, Advertisement.unpack(event.advertisement), event)
        self._node._decide(decide, offer, event.token, claim)

    def _on_resource_in(self, raw: RawEvent, claim: Claim | None) -> None:
        event = from_raw(raw)
        assert isinstance(event, ResourceReceived)
        handler = self._on_resource
        if handler is None and self._local is not None:
            handler = self._local._on_resource
        if handler is None:
            self.resources._put(event)
        else:
            self._node._run_handler(handler, (self, event), claim)

    def _on_resource_failed(self, raw: RawEvent) -> None:
        waiting = self._unstored
        if waiting is not None and not waiting.done() and raw.stage == Stage.STORE:
            full = raw.reason == "FULL"
            text = "there is no room for the file" if full else "the file could not be written"
            error = TransferError(
                text, reason=raw.reason, stage="STORE", destination=self.destination
            )
            waiting.set_result(error)

    def _on_closed(self, raw: RawEvent) -> None:
        self.reason = CloseReason(raw.close_reason)
        self._end()

    def _end(self) -> None:
        """It has ended, or the node has."""
        if self._closed.done():
            return
        self._node._links.pop(self.ref, None)
        self._closed.set_result(None)
        error = LinkError(
            f"the link ended: {self.reason.name}",
            reason="TIMEOUT" if self.reason is CloseReason.TIMEOUT else "STATE",
            destination=self.destination,
            close_reason=self.reason.name,
        )
        for future in (self._ready, self._remote_key):
            if not future.done():
                future.set_exception(error)
                future.exception()  # nobody has to fetch it
        self.packets._close()
        self.resources._close()
        if self._channel is not None:
            self._channel._end()
        if self._local is not None:
            self._local._link_ended(self)


def _place(event: ResourceReceived, target: tuple[bytes, bytes]) -> Path:
    """Puts a resource where it was wanted, if the core has not."""
    folder, name = target
    if event.path is not None:
        return move_file(event.path, folder, name)
    found = ReceivedFile(event.data, event.metadata, None, event)
    chosen = os.fsdecode(name) or found.name or event.resource_hash.hex()
    path = Path(os.fsdecode(folder), chosen)
    write_public_file(path, event.data)
    return path
