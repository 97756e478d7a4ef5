"""What a node answers about itself to others: probes, and its status for those who may ask."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from netmesh._core import DestinationHash, IdentityHash
from netmesh.destinations import NO_RESPONSE, IncomingRequest, LocalDestination
from netmesh.errors import OperationError
from netmesh.records import PathRecord

if TYPE_CHECKING:
    from netmesh.node import Node
    from netmesh.transport import RateRecord

__all__ = ["Management"]

PROBE: Final = "rnstransport.probe"
MANAGEMENT: Final = "rnstransport.remote.management"
FIRST_ANNOUNCE_S: Final = 15.0
ANNOUNCE_EVERY_S: Final = 7200.0
MEASURED_S: Final = 0.3
"""Over how long the speeds of a status are measured."""


class Management:
    """The destinations of a node about itself (RNS 1, 8.16)."""

    def __init__(
        self, node: Node, *, probes: bool, allowed: tuple[IdentityHash, ...] | None
    ) -> None:
        self._node = node
        self._probes = probes
        self.allowed = allowed
        self.probe: LocalDestination | None = None
        self.management: LocalDestination | None = None
        self._began_s = 0.0

    async def start(self) -> None:
        """Listens, and announces itself after a while and every two hours."""
        self._began_s = time.monotonic()
        if self._probes:
            self.probe = await self._node.listen(
                PROBE, prove="all", links=False, on_packet=lambda _: None
            )
        if self.allowed is not None:
            self.management = await self._node.listen(MANAGEMENT, on_link=lambda _: None)
            await self.management.add_handler("/status", self._status, allow=self.allowed)
            await self.management.add_handler("/path", self._path, allow=self.allowed)
        if self.probe is not None or self.management is not None:
            self._node._spawn(self._announce(), "announces of management")

    async def _announce(self) -> None:
        await asyncio.sleep(FIRST_ANNOUNCE_S)
        while True:
            for own in (self.probe, self.management):
                if own is not None and not own.closed:
                    try:
                        await own.announce()
                    except OperationError:
                        continue  # nothing is online: the next round may find something
            await asyncio.sleep(ANNOUNCE_EVERY_S)

    # --------------------------------------------------------------------- status

    async def _status(self, request: IncomingRequest) -> Any:
        asked = request.data if isinstance(request.data, list) else []
        answer: list[Any] = [await self._figures()]
        if asked[:1] == [True]:
            engine = self._node.stats().engine
            answer.append(engine.transits + engine.links)
        if asked[1:2] == [True]:
            answer.append(None)  # there is no profiler
        return answer

    async def _figures(self) -> dict[str, Any]:
        """All interfaces and the totals, in upstream's words (RNS 2, 7.4)."""
        # Loaded by the first who asks: most nodes are never asked.
        from netmesh import _status
        from netmesh.transport import ControlRecord, HeldRecord, QueuedRecord

        node = self._node
        before, at_s = node.interface_infos(), time.monotonic()
        await asyncio.sleep(MEASURED_S)
        observed = _status.Observed(
            before={info.id: info for info in before},
            infos=node.interface_infos(),
            seconds=time.monotonic() - at_s,
            transport=node._config["transport"],
            codes={each.id: _status.access_code(each.options) for each in node.interfaces()},
            controls={
                record.interface: record for record in await node.transport_records(ControlRecord)
            },
            held=_status.counted(await node.transport_records(HeldRecord)),
            queued=_status.counted(await node.transport_records(QueuedRecord)),
            monotonic_offset_s=self._offset_s(),
            stats=node.stats(),
            jobs_max=(await node.limits()).jobs,
        )
        figures = observed.figures()
        figures["probe_responder"] = None if self.probe is None else bytes(self.probe.hash)
        if observed.transport:
            figures |= {
                "transport_id": bytes(node.identity.hash),
                "network_id": None,
                "transport_uptime": time.monotonic() - self._began_s,
            }
        return figures

    def _offset_s(self) -> float:
        """What makes Unix times of the node's monotonic ones."""
        stats = self._node.stats()
        return stats.at_unix_s - stats.at_s

    # ----------------------------------------------------------------------- paths

    async def _path(self, request: IncomingRequest) -> Any:
        asked = request.data if isinstance(request.data, list) and request.data else [None]
        command, wanted, most = (*asked, None, None)[:3]
        if command == "rates":
            from netmesh.transport import RateRecord

            offset = self._offset_s()
            return [
                _rate_entry(record, offset)
                for record in await self._node.transport_records(RateRecord)
                if wanted is None or record.destination == wanted
            ]
        if command != "table":
            return NO_RESPONSE
        names = {info.id: info.name for info in self._node.interface_infos()}
        return [
            _path_entry(record, names.get(record.interface, ""))
            for record in await self._node.paths()
            if (wanted is None or record.destination == wanted)
            and (not isinstance(most, int) or record.hops <= most)
        ]


def _path_entry(record: PathRecord, interface: str) -> dict[str, Any]:
    return {
        "hash": bytes(DestinationHash(record.destination)),
        "timestamp": record.updated_unix_s,
        "via": record.next_hop,
        "hops": record.hops,
        "expires": record.expires_unix_s,
        "interface": interface,
    }


def _rate_entry(record: RateRecord, offset_s: float) -> dict[str, Any]:
    blocked = record.blocked_until_s
    return {
        "hash": bytes(DestinationHash(record.destination)),
        "last": record.last_s + offset_s,
        "rate_violations": record.violations,
        "blocked_until": blocked + offset_s if blocked else 0,
        "timestamps": [at + offset_s for at in record.times_s],
    }
