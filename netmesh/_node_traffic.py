"""The part of a node that finds others and sends to them."""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from netmesh import _records
from netmesh._core import DestinationHash, Identity, RawReply
from netmesh._driver import failure
from netmesh._node_sink import BUFFER, NodeSink
from netmesh._node_tables import NodeTables
from netmesh._streams import Stream, Subscription
from netmesh.constants import HOPS_UNKNOWN, PATH_REQUEST_TIMEOUT, Context, DestinationType
from netmesh.decisions import establishment_timeout
from netmesh.errors import (
    IdentityUnknownError,
    LinkError,
    NoRouteError,
    PathError,
)
from netmesh.events import AnnounceHeard
from netmesh.links import Link
from netmesh.records import PathRecord
from netmesh.transfers import Receipt, Resources, microseconds, policy_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["NodeTraffic"]

log = logging.getLogger("netmesh.node")

_LENGTHS: Final = range(HOPS_UNKNOWN)
SETTLE_S: Final = 0.02
"""How old a path over a node of upstream is before it is used."""


class NodeTraffic(NodeTables, NodeSink):
    """Announces, paths, packets and links of a node."""

    # ------------------------------------------------------------------ announces

    def announces(
        self, name: str | None = None, *, path_responses: bool = False, buffer: int = BUFFER
    ) -> Stream[AnnounceHeard]:
        """The announces of one name, or of all, as a stream.

        Announces that answer path requests count only with ``path_responses``. At most
        ``buffer`` wait; newer ones are then lost, counted.
        """
        stream: Stream[AnnounceHeard] = Stream(buffer, lambda _: end())
        end = self._subscribe(name, path_responses, stream._offer, stream._close)
        return stream

    def on_announce(
        self,
        callback: Callable[[AnnounceHeard], Any],
        *,
        name: str | None = None,
        path_responses: bool = False,
    ) -> Subscription:
        """Calls ``callback`` with each announce of one name, or of all; it may be async.

        What it raises goes to the event loop's exception handler and hurts nobody else.
        """
        end = self._subscribe(
            name, path_responses, lambda heard: self._call_back(callback, heard), None
        )
        return Subscription(lambda _: end())

    def _subscribe(
        self,
        name: str | None,
        path_responses: bool,
        tell: Callable[[AnnounceHeard], object],
        failed: Callable[[], object] | None,
    ) -> Callable[[], None]:
        """Tells of announces until the result is called."""
        numbers: list[int] = []
        ended = False

        def replied(reply: RawReply) -> None:
            if reply.status < 0:
                log.warning(
                    "announces of %r cannot be subscribed to: %s",
                    name,
                    reply.reason,
                    extra=self._extra(),
                )
                if failed is not None:
                    failed()
            elif ended:
                self._driver.post("unsubscribe", number=reply.number)
            else:
                numbers.append(reply.number)
                self._heard[reply.number] = tell

        def end() -> None:
            nonlocal ended
            ended = True
            for number in numbers:
                if self._heard.pop(number, None) is not None and not self._driver.closed.done():
                    self._driver.post("unsubscribe", number=number)

        self._driver.start("subscribe", on_reply=replied, data=name, on=path_responses)
        return end

    # ------------------------------------------------------------------ finding

    async def path(
        self,
        destination: DestinationHash,
        *,
        timeout: float | None = None,
        interface: int | None = None,
    ) -> PathRecord:
        """The path to a destination; asks the network when there is none.

        ``timeout`` None is 15 s. Raises PathError when none becomes known in time.
        """
        return await self._find_path(destination, timeout, interface)

    async def request_path(
        self,
        destination: DestinationHash,
        *,
        interface: int | None = None,
        tag: Buffer | None = None,
    ) -> None:
        """Asks for a path once and waits for nothing.

        Raises NotFoundError for the interface, NoRouteError when nothing can carry it.
        """
        reply = await self._driver.reply_of(
            self._driver.start(
                "request_path", destination=destination, iface=interface or 0, data=tag
            )
        )
        if reply.status < 0:
            raise await self._no_route(reply, destination)

    async def _find_path(
        self,
        destination: DestinationHash,
        timeout: float | None,
        interface: int | None = None,
    ) -> PathRecord:
        """The path to a destination, old enough to be used."""
        wait = PATH_REQUEST_TIMEOUT if timeout is None else timeout
        call = self._driver.start(
            "path_find",
            operation=True,
            destination=destination,
            iface=interface or 0,
            timeout_us=microseconds(wait),
        )
        reply = await self._driver.reply_of(call)
        if reply.status < 0:
            if not reply.number:
                raise failure(reply, "path")
            text = "no path became known in time" if self._online else "no interface is online"
            raise PathError(
                f"{bytes(destination).hex()}: {text}",
                reason=reply.reason,
                stage="PATH",
                destination=bytes(destination),
            )
        found = _records.path(reply.records[0])
        if found.next_hop != found.destination:
            await self._settle(found, reply.mono_us / 1e6)
        return found

    async def _settle(self, found: PathRecord, now_s: float) -> None:
        """Leaves the node that told us of a path the time to note it for itself.

        A transport node or a shared instance of upstream passes an announce on before the
        path is in its own table, and drops what comes back for it meanwhile (all releases up
        to 1.5.7; before 1.5 that really happens).
        """
        age = now_s - found.updated_s
        if age < SETTLE_S:
            await asyncio.sleep(SETTLE_S - age)

    async def _no_route(self, reply: RawReply, destination: DestinationHash) -> Exception:
        """What a refusal to send means: which interface is at fault, if one is."""
        if reply.reason != "STATE":
            return failure(reply, "packet")
        path = await self._find("path_get", "path", destination=destination)
        number = 0 if path is None else path.records[0]["iface"]
        for info in (await self._ask("iface_list", "interfaces")).records:
            if info["id"] == number:
                name = str(info["name"])
                return NoRouteError(f"interface {name!r} cannot send", interface=name)
        return NoRouteError("no interface can send")

    # ------------------------------------------------------------------- sending

    @overload
    async def send(
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
    async def send(
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

    async def send(
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
        """Sends one packet; with ``proof`` its receipt can be awaited.

        A SINGLE packet is sealed for the known identity, with its fresh ratchet if
        ``ratchet``; it holds 383 bytes at most. GROUP and PLAIN packets reach direct
        neighbours and are never proven: say ``proof=False``. ``timeout`` seconds may pass until
        the proof (None: the node's default, or by the length of the path). The path is not
        looked for: see :meth:`path` and :meth:`connect`.

        Raises IdentityUnknownError when no announce of the destination was heard,
        NoRouteError when no interface can send, EncodeError when the data is too long.
        """
        if proof and type != DestinationType.SINGLE:
            raise ValueError("packets of GROUP and PLAIN destinations are never proven")
        call = self._driver.start(
            "send",
            operation=True,
            data=data,
            extra=group_key,
            spec={
                "destination": destination,
                "type": int(type),
                "context": int(context),
                "receipt": proof,
                "timeout_us": microseconds(self._receipt_timeout if timeout is None else timeout),
                "use_ratchet": ratchet,
            },
        )
        reply = await self._driver.reply_of(call)
        if reply.status < 0:
            raise await self._not_sent(reply, destination)
        return Receipt(self._driver, call, DestinationHash(destination), None) if proof else None

    def _start_packet(
        self,
        destination: DestinationHash,
        data: Buffer,
        sent: Callable[[RawReply], object] | None,
    ) -> Receipt:
        """Sends a packet if a path is there that can be used.

        Its receipt ends without a proof when it was not sent: the reply says why. ``sent`` is
        told of the reply as soon as it comes; without, the caller waits for the end alone.
        """
        call = self._driver.start(
            "send",
            operation=True,
            on_reply=sent,
            quiet=sent is None,
            data=data,
            spec={
                "destination": destination,
                "receipt": True,
                "timeout_us": microseconds(self._receipt_timeout),
            },
            on=True,
        )
        return Receipt(self._driver, call, destination, None)

    async def _not_sent(self, reply: RawReply, destination: DestinationHash) -> Exception:
        if reply.reason == "MISSING":
            return self._unknown(destination)
        return await self._no_route(reply, destination)

    @staticmethod
    def _unknown(destination: DestinationHash) -> IdentityUnknownError:
        return IdentityUnknownError(
            f"{bytes(destination).hex()}: its identity is not known; no announce was heard",
            reason="MISSING",
            stage="IDENTITY",
            destination=bytes(destination),
        )

    async def connect(
        self,
        destination: DestinationHash,
        *,
        timeout: float | None = None,
        identify: Identity | None = None,
        resources: Resources = "none",
    ) -> Link:
        """Finds a destination and opens a link to it.

        Looks for a path if there is none, and for the keys behind the destination, then
        establishes the link. ``timeout`` seconds are for all of it; None is 15 s for the path,
        and for the link what its length demands. When there is time for it a request that
        nobody answers is followed by a second one. ``identify`` is who we say we are once the
        link is up; ``resources`` says which ones of the peer are taken.

        Raises PathError, IdentityUnknownError, NoRouteError when the interface that leads
        there is offline, LinkError.
        """
        code, decide = policy_of(resources)
        now = self._driver.loop.time
        deadline = None if timeout is None else now() + timeout
        while True:
            link = self._new_link(DestinationHash(destination), None)
            link._decide = decide
            try:
                left = None if deadline is None else max(0.001, deadline - now())
                if not await self._establish(link, left):
                    left = None if deadline is None else max(0.001, deadline - now())
                    await self._find_path(destination, left)
                    continue
                break
            except LinkError as error:
                if deadline is None or now() >= deadline or error.reason != "TIMEOUT":
                    raise
        if code:
            await link._ask("link_policy", accept=code)
        if identify is not None:
            await link.identify(identify)
        return link

    async def _establish(self, link: Link, timeout: float | None) -> bool:
        """Asks for the link and waits until it is up; False without a path that can be used."""
        call = self._driver.start(
            "link_open",
            operation=True,
            on_reply=link._opened,
            quiet=True,
            destination=link.destination,
            timeout_us=microseconds(timeout),
            on=True,
            max=_hops_with_retry(timeout),
        )
        try:
            await link._ready
        except asyncio.CancelledError:
            self._driver.cancel(call)
            raise
        reply = self._driver.answer_of(call)
        if reply.status >= 0:
            return True
        if reply.reason != "MISSING":
            raise await self._no_route(reply, link.destination)
        if not reply.number:
            raise self._unknown(link.destination)
        return False


def _hops_with_retry(left: float | None) -> int:
    """Paths with fewer hops than this leave time for a second request for a link.

    One request is then waited for half of the time that is left, which is as long as a path of
    its length may need; on longer paths for all of it.
    """
    if left is None:
        return 0
    half = left / 2
    return bisect.bisect_right(_LENGTHS, half, key=lambda hops: establishment_timeout(hops, None))
