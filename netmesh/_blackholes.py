"""Lists of blackholed identities that nodes give to each other (RNS 1, 8.16 and 8.17)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from netmesh._core import IdentityHash
from netmesh.destination import destination_hash
from netmesh.destinations import IncomingRequest, LocalDestination
from netmesh.errors import LimitReached, NetmeshError, OperationError
from netmesh.records import BlackholeRecord

if TYPE_CHECKING:
    from netmesh.node import Node

__all__ = ["Blackholes"]

NAME: Final = "rnstransport.info.blackhole"
PATH: Final = "/list"
UPDATE_S: Final = 3600.0
LEAST_UPDATE_S: Final = 120.0
FIRST_UPDATE_S: Final = 20.0
FIRST_ANNOUNCE_S: Final = 15.0
ANNOUNCE_EVERY_S: Final = 7200.0
ANSWER_TIMEOUT_S: Final = 60.0
ANSWER_MAX: Final = 1 << 20
TAKEN_MAX: Final = 1024
REASON_MAX: Final = 256

log = logging.getLogger("netmesh.node")


class Blackholes:
    """The list that a node gives to all who ask, and those that it takes from others."""

    def __init__(
        self,
        node: Node,
        *,
        publish: bool,
        sources: tuple[IdentityHash, ...],
        update_s: float,
    ) -> None:
        if not update_s >= LEAST_UPDATE_S:
            raise ValueError(f"blackhole_update_s must be {LEAST_UPDATE_S:g} or more")
        self._node = node
        self._publish = publish
        self.sources = sources
        self.update_s = update_s
        self.published: LocalDestination | None = None

    async def start(self) -> None:
        """Begins to answer and to ask."""
        if self._publish:
            self.published = await self._node.listen(NAME, on_link=lambda _: None)
            await self.published.add_handler(PATH, self._answer)
            self._node._spawn(self._announce(self.published), "announces of the blackhole list")
        if self.sources:
            self._node._spawn(self._ask_regularly(), "blackhole lists")

    # -------------------------------------------------------------------- giving

    async def _announce(self, own: LocalDestination) -> None:
        await asyncio.sleep(FIRST_ANNOUNCE_S)
        while not own.closed:
            try:
                await own.announce()
            except OperationError as error:
                log.debug("the blackhole list was not announced: %s", error)
            await asyncio.sleep(ANNOUNCE_EVERY_S)

    async def _answer(self, _request: IncomingRequest) -> Any:
        return {
            bytes(record.identity): {
                "source": bytes(record.source or self._node.identity.hash),
                "until": record.until_unix_s,
                "reason": record.reason,
            }
            for record in await self._node.blackholes()
        }

    # -------------------------------------------------------------------- taking

    async def _ask_regularly(self) -> None:
        await asyncio.sleep(FIRST_UPDATE_S)
        while True:
            await self.update(None)
            await asyncio.sleep(self.update_s)

    async def update(self, timeout: float | None) -> int:
        """Asks every source once; gives how many identities are new in the table."""
        limit = ANSWER_TIMEOUT_S if timeout is None else timeout
        added = 0
        for source in self.sources:
            try:
                async with asyncio.timeout(limit):
                    added += await self._take(source, await self._list_of(source, limit))
            except (NetmeshError, TimeoutError) as error:
                log.warning(
                    "no blackhole list from %s: %s",
                    source,
                    str(error) or "it took too long",
                    extra=self._node._extra(),
                )
        return added

    async def _list_of(self, source: IdentityHash, limit: float) -> object:
        where = destination_hash(source, NAME)
        async with await self._node.connect(where, timeout=limit) as link:
            answer = await link.request(PATH, timeout=limit, response_max=ANSWER_MAX)
            return answer.data

    async def _take(self, source: IdentityHash, content: object) -> int:
        """Adds what is new. Entries that are there stay as they are, our own above all."""
        known = {record.identity for record in await self._node.blackholes()}
        new = [r for r in entries(source, content) if r.identity not in known]
        ours = self._node.identity.hash
        added = 0
        for record in new[:TAKEN_MAX]:
            if record.identity == ours:
                continue
            try:
                await self._node.put_blackhole(record)
            except (LimitReached, MemoryError):
                break
            added += 1
        return added


def entries(source: IdentityHash, content: object) -> list[BlackholeRecord]:
    """The entries of a list that are in order and have not run out."""
    if not isinstance(content, dict):
        return []
    found = []
    for identity, about in content.items():
        if not (isinstance(identity, bytes) and len(identity) == len(source)):
            continue
        if not isinstance(about, dict):
            continue
        until, reason = about.get("until"), about.get("reason")
        if until is not None and not (
            isinstance(until, int | float) and time.time() < until < 1 << 40
        ):
            continue
        found.append(
            BlackholeRecord(
                identity=IdentityHash(identity),
                source=source,
                until_unix_s=until,
                reason=reason[:REASON_MAX] if isinstance(reason, str) else None,
            )
        )
    return found
