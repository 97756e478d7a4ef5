"""The tables of a transport node on an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netmesh import _transport_rows as rows

if TYPE_CHECKING:
    from netmesh._core import EngineCore
    from netmesh.transport import (
        AlternativeRecord,
        ControlRecord,
        HeldRecord,
        PassedRequestRecord,
        QueuedRecord,
        RateRecord,
        RebroadcastRecord,
        ReverseRecord,
        SearchRecord,
        TransitRecord,
        TunnelPathRecord,
        TunnelRecord,
    )


class TransportTables:
    """What an engine offers of each table: all records, putting one, dropping one.

    Putting adds or replaces by the record's key and raises NotFoundError when its interface is
    not there, ValueError for a value out of range, LimitReached when its queue is full.
    Dropping looks at the key alone and raises NotFoundError when there is no such record.
    """

    __slots__ = ()

    _core: EngineCore

    def _table(self, name: str) -> list[Any]:
        kind = rows.TABLES[name]
        return [rows.record_of(kind, core) for core in self._core.table(name)]

    def rebroadcasts(self) -> list[RebroadcastRecord]:
        """Announces in flight, and answers to path requests."""
        return self._table("rebroadcasts")

    def put_rebroadcast(self, record: RebroadcastRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("rebroadcasts", rows.row_of(record))

    def drop_rebroadcast(self, record: RebroadcastRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("rebroadcasts", rows.row_of(record))

    def held(self) -> list[HeldRecord]:
        """Announces held back during bursts."""
        return self._table("held")

    def put_held(self, record: HeldRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("held", rows.row_of(record))

    def drop_held(self, record: HeldRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("held", rows.row_of(record))

    def release_held(self, record: HeldRecord) -> None:
        """Lets a held announce go on at once."""
        self._core.held_release(record.interface, record.destination)

    def queued(self) -> list[QueuedRecord]:
        """Announces that wait for their share of an interface."""
        return self._table("queued")

    def put_queued(self, record: QueuedRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("queued", rows.row_of(record))

    def drop_queued(self, record: QueuedRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("queued", rows.row_of(record))

    def controls(self) -> list[ControlRecord]:
        """How often announces and path requests pass the interfaces, and their bursts."""
        return self._table("controls")

    def put_control(self, record: ControlRecord) -> None:
        """Begins or ends bursts of an interface."""
        self._core.table_put("controls", rows.row_of(record))

    def drop_control(self, record: ControlRecord) -> None:
        """Forgets the rates and bursts of an interface; what is held stays."""
        self._core.table_drop("controls", rows.row_of(record))

    def alternatives(self) -> list[AlternativeRecord]:
        """Other ways to the destinations of paths."""
        return self._table("alternatives")

    def put_alternative(self, record: AlternativeRecord) -> None:
        """Adds or replaces one; ValueError when it is the way in use."""
        self._core.table_put("alternatives", rows.row_of(record))

    def drop_alternative(self, record: AlternativeRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("alternatives", rows.row_of(record))

    def rates(self) -> list[RateRecord]:
        """How often announces came, by destination."""
        return self._table("rates")

    def put_rate(self, record: RateRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("rates", rows.row_of(record))

    def drop_rate(self, record: RateRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("rates", rows.row_of(record))

    def reverses(self) -> list[ReverseRecord]:
        """Forwarded packets that wait for their proof."""
        return self._table("reverses")

    def put_reverse(self, record: ReverseRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("reverses", rows.row_of(record))

    def drop_reverse(self, record: ReverseRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("reverses", rows.row_of(record))

    def transits(self) -> list[TransitRecord]:
        """Links that pass through."""
        return self._table("transits")

    def put_transit(self, record: TransitRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("transits", rows.row_of(record))

    def drop_transit(self, record: TransitRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("transits", rows.row_of(record))

    def tunnels(self) -> list[TunnelRecord]:
        """Peers whose paths come back with them."""
        return self._table("tunnels")

    def put_tunnel(self, record: TunnelRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("tunnels", rows.row_of(record))

    def drop_tunnel(self, record: TunnelRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("tunnels", rows.row_of(record))

    def tunnel_paths(self) -> list[TunnelPathRecord]:
        """The paths that come back, of all tunnels."""
        return self._table("tunnel_paths")

    def put_tunnel_path(self, record: TunnelPathRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("tunnel_paths", rows.row_of(record))

    def drop_tunnel_path(self, record: TunnelPathRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("tunnel_paths", rows.row_of(record))

    def searches(self) -> list[SearchRecord]:
        """Destinations that interfaces wait for."""
        return self._table("searches")

    def put_search(self, record: SearchRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("searches", rows.row_of(record))

    def drop_search(self, record: SearchRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("searches", rows.row_of(record))

    def passed_requests(self) -> list[PassedRequestRecord]:
        """Path requests passed on and not answered."""
        return self._table("passed_requests")

    def put_passed_request(self, record: PassedRequestRecord) -> None:
        """Adds or replaces one."""
        self._core.table_put("passed_requests", rows.row_of(record))

    def drop_passed_request(self, record: PassedRequestRecord) -> None:
        """Removes the one with the record's key."""
        self._core.table_drop("passed_requests", rows.row_of(record))
