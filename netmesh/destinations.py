"""Destinations that a node listens on: what peers reach.

A :class:`LocalDestination` comes from :meth:`netmesh.Node.listen`. It announces itself, takes
packets and links, and answers requests with handlers: plain or async callables that get an
:class:`IncomingRequest` and return the answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, final

from netmesh import _records
from netmesh._core import (
    DestinationHash,
    Identity,
    IdentityHash,
    RawEvent,
    RawReply,
    frozen,
    path_hash,
)
from netmesh._driver import failure
from netmesh._files import open_content
from netmesh._inbox import Claim, Inbox, Source
from netmesh.constants import RequestPolicy
from netmesh.errors import DecodeError, NetmeshError, SendError, StoreError
from netmesh.events import (
    AnnounceSent,
    LinkPacketReceived,
    PacketReceived,
    ResourceReceived,
    from_raw,
)
from netmesh.links import PACKETS_MAX, Link
from netmesh.msgpack import packb, unpackb
from netmesh.records import EventKind, RatchetRecord
from netmesh.transfers import Proofs, proofs_of, stage_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh.node import Node

__all__ = [
    "NO_RESPONSE",
    "Allow",
    "FileResponse",
    "Handler",
    "IncomingRequest",
    "LocalDestination",
    "NoResponse",
    "Proofs",
]

log = logging.getLogger("netmesh.node")

_REQUEST: Final = int(EventKind.REQUEST)

HANDLER_TIMEOUT_S: Final = 60.0
LINKS_KEPT: Final = 256


class NoResponse(Enum):
    """The class of :data:`NO_RESPONSE`."""

    NO_RESPONSE = 0


NO_RESPONSE: Final = NoResponse.NO_RESPONSE
"""A handler returns this to leave a request without an answer."""


@final
@dataclass(frozen=True, slots=True)
class FileResponse:
    """An answer that is a file: bytes or a path, with metadata for the peer.

    ``metadata`` None names a path's file, and is an empty map for bytes.
    """

    content: Buffer | str | os.PathLike[str]
    metadata: Any = None


@final
@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """What a handler is asked."""

    path: str
    """The path."""
    data: Any
    """The unpacked data."""
    link: Link
    """The link that it came over."""
    destination: LocalDestination
    """The destination that was asked."""
    identity: IdentityHash | None
    """Who asks, if it identified."""
    request_id: bytes
    """16 bytes."""
    requested_unix_s: float
    """When the peer says that it asked."""
    token: int = field(repr=False)
    """What :meth:`netmesh.links.Link.respond` answers."""


Handler = Callable[[IncomingRequest], Any]
"""Answers a request: returns what MessagePack can hold (None is nil), a :class:`FileResponse`
or :data:`NO_RESPONSE`; may be async. One that raises or takes too long gives no answer."""

_PLAIN: Final = frozenset((bytes, str, int, dict, list, tuple, NoneType))
_LATER: Final = (Awaitable, FileResponse)

Allow = Literal["none", "all"] | Sequence[IdentityHash | bytes]
"""Who may ask: nobody, everybody, or the identities in a list."""

H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class _Handling:
    """A registered handler."""

    path: str
    handler: Handler | None
    timeout: float | None
    compress: bool


@final
class LocalDestination:
    """A destination that a node listens on.

    ``packets`` are packets outside links, ``links`` those that peers opened; both are read
    with ``async for``. Packets that nobody reads stop being taken after 256: they are then
    neither delivered nor proven, and nothing is lost that was promised.
    """

    __slots__ = (
        "_channels",
        "_closed",
        "_closes",
        "_folder",
        "_folder_max",
        "_handlers",
        "_links",
        "_node",
        "_on_link",
        "_on_link_packet",
        "_on_packet",
        "_on_resource",
        "_policy",
        "_prover",
        "app_data",
        "hash",
        "identity",
        "links",
        "name",
        "packets",
        "requests",
    )

    hash: DestinationHash
    """Its address."""
    name: str
    """Its name."""
    identity: Identity | None
    """Whose it is; None for a GROUP or PLAIN destination."""
    app_data: bytes | None
    """What announces say that name nothing else."""
    packets: Inbox[PacketReceived]
    """What peers sent outside links."""
    requests: Source[IncomingRequest]
    """Requests of paths that :meth:`queue_requests` named; each waits for an answer."""
    links: Source[Link]
    """Links that peers opened, oldest first; at most the 256 newest that nobody took."""

    def __init__(
        self,
        node: Node,
        name: str,
        identity: Identity | None,
        *,
        prover: Callable[[Any], Any] | None,
        policy: Callable[[Any], Any] | None,
        channels: bool,
        on_packet: Callable[[PacketReceived], Any] | None,
        on_link: Callable[[Link], Any] | None,
        on_link_packet: Callable[[Link, LinkPacketReceived], Any] | None,
        on_resource: Callable[[Link, ResourceReceived], Any] | None,
    ) -> None:
        self._node = node
        self._prover = prover
        self._policy = policy
        self._channels = channels
        self._on_packet = on_packet
        self._on_link = on_link
        self._on_link_packet = on_link_packet
        self._on_resource = on_resource
        self._folder: tuple[bytes, bytes, bool] | None = None
        self._folder_max = 0
        self._handlers: dict[bytes, _Handling] = {}
        self._links: set[Link] = set()
        self._closed = False
        self._closes = "unlisten"
        self.hash = DestinationHash(bytes(16))
        self.name = name
        self.identity = identity
        self.app_data = None
        self.packets = Inbox(PACKETS_MAX, self._pause)
        self.links = Source()
        self.requests = Source()

    def __repr__(self) -> str:
        return f"<LocalDestination {self.hash.hex()} {self.name!r}>"

    @property
    def closed(self) -> bool:
        """Whether the node no longer listens on it."""
        return self._closed

    @property
    def open_links(self) -> tuple[Link, ...]:
        """The links of peers that are open now."""
        return tuple(self._links)

    async def set_folder(
        self,
        folder: str | os.PathLike[str] | None,
        *,
        size_max: int | None = None,
        resume: bool = True,
    ) -> None:
        """Resources on links that peers open from now on go to files in ``folder``.

        As :meth:`netmesh.links.Link.receive_file` writes and resumes them; None: to memory
        again. ``size_max`` bounds the content in bytes (None: any size). Raises OSError.
        """
        shelf = None if folder is None else (os.fsencode(Path(folder).absolute()), b"", resume)
        await self._node._driver.ask(
            "shelve", "folder", destination=self.hash, folder=shelf, size_max=size_max or 0
        )
        self._folder, self._folder_max = shelf, size_max or 0

    # ----------------------------------------------------------------- announces

    async def announce(
        self,
        app_data: Buffer | str | None = None,
        *,
        interface: int | None = None,
        path_response: bool = False,
        timeout: float | None = None,
    ) -> AnnounceSent:
        """Announces it and waits until an interface has taken the announce.

        ``app_data`` None is :attr:`app_data`; ``interface`` None is every interface. With
        ratchets a rotation that is due comes first and is durable before the announce leaves.
        After ``timeout`` seconds it is given up (TimeoutError).

        Raises SendError when no interface can send, StoreError when the ratchet or the time
        could not be stored, EncodeError above 333 bytes.
        """
        driver = self._node._driver
        call = driver.start(
            "announce",
            operation=True,
            destination=self.hash,
            data=app_data,
            iface=interface or 0,
            on=path_response,
        )
        reply = await driver.reply_of(call)
        if reply.status < 0:
            raise failure(reply, "announce")
        async with asyncio.timeout(timeout):
            raw = await driver.end_of(call)
        if raw is None:
            raise SendError("the node was closed", stage="SEND", destination=self.hash)
        sent = from_raw(raw)
        assert isinstance(sent, AnnounceSent)
        if sent.ok:
            return sent
        stage = stage_name(raw)
        if stage == "STORE":
            raise StoreError(
                "the announce could not be stored",
                reason=sent.reason,
                stage=stage,
                destination=self.hash,
            )
        raise SendError(
            "no interface took the announce",
            reason=sent.reason,
            stage=stage,
            destination=self.hash,
        )

    async def set_app_data(self, app_data: Buffer | str | None) -> None:
        """What announces and path responses say that name nothing else; None and b"" differ."""
        await self._node._ask("set_app_data", "destination", destination=self.hash, data=app_data)
        given = app_data.encode() if isinstance(app_data, str) else app_data
        self.app_data = None if given is None else bytes(given)

    async def set_prove(self, prove: Proofs, *, hold: bool = False) -> None:
        """Changes what is proven; see :meth:`netmesh.Node.listen`."""
        code, prover = proofs_of(prove)
        await self._node._ask(
            "set_prove", "destination", destination=self.hash, prove=code, on=hold
        )
        self._prover = prover

    # ------------------------------------------------------------------ requests

    def handle(
        self,
        path: str,
        *,
        allow: Allow = "all",
        timeout: float | None = HANDLER_TIMEOUT_S,
        compress: bool = True,
    ) -> Callable[[H], H]:
        """Decorates a handler of a request path; as :meth:`add_handler`, without waiting."""

        def decorate(handler: H) -> H:
            if not callable(handler):
                raise TypeError(f"a handler must be callable, not {type(handler).__name__}")
            fields = self._add(path, handler, allow, timeout, compress)
            self._node._driver.post("handle", f"handler of {path!r}", **fields)
            return handler

        return decorate

    async def add_handler(
        self,
        path: str,
        handler: Handler,
        *,
        allow: Allow = "all",
        timeout: float | None = HANDLER_TIMEOUT_S,
        compress: bool = True,
    ) -> None:
        """Answers requests for ``path`` with a plain or async callable.

        ``allow`` says who may ask. A handler that raises (the event loop's exception handler
        is told) or takes longer than ``timeout`` seconds gives no answer: its peer runs into
        its own time-out. ``compress`` lets answers that go as resources be compressed.
        Replaces an earlier handler of the path.
        """
        if not callable(handler):
            raise TypeError(f"a handler must be callable, not {type(handler).__name__}")
        await self._node._ask(
            "handle", "handler", **self._add(path, handler, allow, timeout, compress)
        )

    async def queue_requests(
        self, path: str, *, allow: Allow = "all", compress: bool = True
    ) -> None:
        """Puts requests for ``path`` into :attr:`requests`, in place of calling a handler.

        Each is answered with :meth:`netmesh.links.Link.respond`, at any time while its link is
        open. Those that wait to be read hold the node's ``credit``.
        """
        await self._node._ask("handle", "handler", **self._add(path, None, allow, None, compress))

    def _add(
        self,
        path: str,
        handler: Handler | None,
        allow: Allow,
        timeout: float | None,
        compress: bool,
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {"destination": self.hash, "data": path}
        if isinstance(allow, str):
            if allow not in ("none", "all"):
                raise ValueError(f'allow must be "none", "all" or a list, not {allow!r}')
            fields["allow"] = int(RequestPolicy.NONE if allow == "none" else RequestPolicy.ALL)
        else:
            fields["allow"] = int(RequestPolicy.LIST)
            fields["extra"] = b"".join(IdentityHash(each) for each in allow)
        self._handlers[path_hash(path)] = _Handling(path, handler, timeout, compress)
        return fields

    async def remove_handler(self, path: str) -> None:
        """Requests for ``path`` get no answer any more. Raises NotFoundError."""
        await self._node._ask("unhandle", "handler", destination=self.hash, data=path)
        self._handlers.pop(path_hash(path), None)

    # ------------------------------------------------------------------ ratchets

    async def ratchets(self) -> RatchetRecord:
        """Its own ratchets."""
        ids = await self._node._ask("ratchet_ids", "destination", destination=self.hash)
        state = await self._node._ask("ratchet_state", "destination", destination=self.hash)
        every = ids.data or b""
        return _records.ratchets(
            tuple(every[at : at + 10] for at in range(0, len(every), 10)),
            state.records[0],
            (state.mono_us, state.unix_us),
        )

    async def rotate(self) -> None:
        """Makes a new ratchet now. Raises StateError when it has no ratchets."""
        await self._node._ask("rotate", "ratchets", destination=self.hash)

    async def ratchet_file(self) -> bytes:
        """The signed file of its ratchets, a secret. Raises NotFoundError without any."""
        reply = await self._node._ask("ratchet_file", "ratchets", destination=self.hash)
        return reply.data or b""

    async def close(self) -> None:
        """Stops listening; its links close. Quiet when repeated."""
        if not self._closed:
            self._end()
            await self._node._ask(self._closes, "destination", destination=self.hash)

    # -------------------------------------------------------------------- inside

    def _pause(self, paused: bool) -> None:
        if not self._closed:
            self._node._driver.post("pause", destination=self.hash, on=paused)

    def _end(self) -> None:
        self._closed = True
        self._node._locals.pop(self.hash, None)
        for source in (self.packets, self.links, self.requests):
            source._close()

    def _link_ended(self, link: Link) -> None:
        self._links.discard(link)

    def _on_event(self, raw: RawEvent, claim: Claim | None) -> None:
        if raw.kind == _REQUEST:
            self._on_request(raw, claim)
        else:
            self._on_data(raw, claim)

    def _on_data(self, raw: RawEvent, claim: Claim | None) -> None:
        packet = from_raw(raw)
        assert isinstance(packet, PacketReceived)
        if self._prover is not None:
            self._node._decide(self._prover, packet, raw.token, claim)
        if self._on_packet is None:
            self.packets._put(packet)
        else:
            self._node._run_handler(self._on_packet, (packet,), claim)

    def _accepted(self, link: Link, claim: Claim | None) -> None:
        """A peer has opened a link."""
        link._decide = self._policy
        self._links.add(link)
        if self._on_link is not None:
            self._node._run_handler(self._on_link, (link,), claim)
            return
        while len(self.links) >= LINKS_KEPT:
            self.links._items.popleft()
            self.links.lost += 1
        self.links._put(link)

    def _on_request(self, raw: RawEvent, claim: Claim | None) -> None:
        handling = self._handlers.get(raw.path_hash)
        link = self._node._links.get(raw.link)
        if handling is None or link is None:
            self._node._driver.post("refuse", token=raw.token)
            return
        try:
            request = frozen(
                IncomingRequest,
                path=handling.path,
                data=unpackb(raw.data or b"\xc0"),
                link=link,
                destination=self,
                identity=raw.identity,
                request_id=raw.request_id,
                requested_unix_s=_records.to_s(raw.wire_time_us),
                token=raw.token,
            )
        except DecodeError as error:
            log.debug("request %r of %s: %s", handling.path, link, error, extra=self._node._extra())
            self._node._driver.post("refuse", token=raw.token)
            return
        if handling.handler is None:
            if claim is not None:
                claim.hold()
            self.requests._put(request, claim)
            return
        try:
            answer = handling.handler(request)
        except Exception as error:
            self._handler_failed(handling, error)
            answer = NO_RESPONSE
        if type(answer) not in _PLAIN and isinstance(answer, _LATER):
            work = self._answer(handling, request.token, answer)
            self._node._spawn(work, f"handler {handling.path}", claim)
        else:
            self._respond_now(handling, request.token, answer)

    def _handler_failed(self, handling: _Handling, error: Exception) -> None:
        self._node._report_exception(f"the handler of {handling.path!r} failed", error)

    def _respond_now(self, handling: _Handling, token: int, answer: Any) -> None:
        """Gives a plain answer; only what is wrong with it is heard of."""

        def replied(reply: RawReply) -> None:
            if reply.status < 0:
                self._not_answered(handling, token, failure(reply, "answer"))

        driver = self._node._driver
        try:
            if answer is NO_RESPONSE:
                driver.post("refuse", token=token)
            else:
                driver.start(
                    "respond",
                    on_reply=replied,
                    quiet=True,
                    token=token,
                    data=packb(answer),
                    on=handling.compress,
                )
        except (NetmeshError, TypeError, ValueError) as error:
            self._not_answered(handling, token, error)

    async def _answer(self, handling: _Handling, token: int, answer: Any) -> None:
        if isinstance(answer, Awaitable):
            answer = await self._wait_for_handler(handling, answer)
        await self._respond(handling, token, answer)

    async def _wait_for_handler(self, handling: _Handling, answer: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(handling.timeout):
                return await answer
        except TimeoutError as error:
            log.warning(
                "the handler of %r took too long: no answer",
                handling.path,
                extra=self._node._extra(path=handling.path),
            )
            self._node._report_exception(f"the handler of {handling.path!r} timed out", error)
            return NO_RESPONSE
        except Exception as error:
            self._handler_failed(handling, error)
            return NO_RESPONSE

    async def _respond(self, handling: _Handling, token: int, answer: Any) -> None:
        try:
            await self._give_answer(token, answer, handling.compress)
        except (NetmeshError, TypeError, ValueError, OSError) as error:
            self._not_answered(handling, token, error)

    def _not_answered(self, handling: _Handling, token: int, error: Exception) -> None:
        if isinstance(error, NetmeshError) and error.reason == "STATE":
            log.debug(
                "request %r: the link ended before the answer",
                handling.path,
                extra=self._node._extra(path=handling.path),
            )
            return
        self._node._driver.post("refuse", token=token)
        self._node._report_exception(f"the answer to {handling.path!r} is unusable", error)

    async def _give_answer(self, token: int, answer: Any, compress: bool) -> None:
        driver = self._node._driver
        if answer is NO_RESPONSE:
            await driver.ask("refuse", "request", token=token)
        elif isinstance(answer, FileResponse):
            await self._give_file(token, answer, compress)
        else:
            await driver.ask("respond", "answer", token=token, data=packb(answer), on=compress)

    async def _give_file(self, token: int, answer: FileResponse, compress: bool) -> None:
        content = await asyncio.to_thread(open_content, answer.content)
        metadata = answer.metadata
        if metadata is None:
            metadata = {} if content.name is None else {"name": content.name}
        try:
            await self._node._driver.ask(
                "respond_file",
                "answer",
                token=token,
                data=content.data,
                file=content.file,
                extra=packb(metadata),
                on=compress,
            )
        finally:
            content.close()
