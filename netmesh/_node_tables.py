"""The part of a node that reads and edits the tables of its engine."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from netmesh import _records
from netmesh._core import (
    Announce,
    Decrypted,
    DestinationHash,
    Identity,
    IdentityHash,
    Packet,
    Ratchets,
    RawReply,
)
from netmesh._driver import Driver, failure
from netmesh._verdict import Verdict as AnnounceVerdict
from netmesh.constants import HOPS_UNKNOWN, Context, PacketType
from netmesh.errors import KeyMissingError, NotFoundError, StateError
from netmesh.ifac import Ifac
from netmesh.interfaces import CustomInterface, Interface, _info, _record
from netmesh.records import (
    BlackholeRecord,
    FlightRecord,
    InterfaceRecord,
    KnownRecord,
    Limits,
    LinkRecord,
    PathRecord,
    PathRequestRecord,
    PathTag,
    Recalled,
    ReceiptRecord,
    Snapshot,
    TransferRecord,
    Verdict,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh import _transport_rows as rows
    from netmesh.destinations import LocalDestination
    from netmesh.transport import HeldRecord

__all__ = ["NodeTables"]

_PAGE = 256
_TABLE_PAGE = 1024

TransportKind = TypeVar("TransportKind", bound="rows.Record")


def _rows_of_transport() -> ModuleType:
    """Loaded when it is first needed: few programs look into these tables."""
    from netmesh import _transport_rows

    return _transport_rows


class NodeTables:
    """Tables of a live node, with the records and names of :class:`netmesh.engine.Engine`.

    Each read is one moment of the engine; tables that are longer than a page are read in
    pages, and what is there all the while is in the result.
    """

    _driver: Driver
    _interfaces: dict[int, Interface]
    _locals: dict[DestinationHash, LocalDestination]

    async def _ask(self, command: str, what: str, **fields: Any) -> RawReply:
        """A command and its reply; an error is raised as one about ``what``."""
        return await self._driver.ask(command, what, **fields)

    async def _find(self, command: str, what: str, **fields: Any) -> RawReply | None:
        """The same, with None for what is not there."""
        reply = await self._driver.reply_of(self._driver.start(command, **fields))
        if reply.status < 0:
            if reply.reason == "MISSING":
                return None
            raise failure(reply, what)
        return reply

    async def _pages(self, command: str, what: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        cursor = 0
        while True:
            reply = await self._ask(command, what, cursor=cursor, max=_PAGE)
            rows += reply.records
            cursor = reply.cursor
            if cursor == 0:
                return rows

    # -------------------------------------------------------------------- paths

    async def hops(self, destination: DestinationHash) -> int:
        """Hops to a destination, 128 when there is no path."""
        return (await self._ask("hops", "path", destination=destination)).number

    async def has_path(self, destination: DestinationHash) -> bool:
        """Whether there is a path."""
        return await self.hops(destination) < HOPS_UNKNOWN

    async def paths(self) -> list[PathRecord]:
        """The path table."""
        unique = {row["destination"]: row for row in await self._pages("path_list", "paths")}
        return [_records.path(core) for core in unique.values()]

    async def path_record(self, destination: DestinationHash) -> PathRecord:
        """One path of the table. Raises NotFoundError."""
        reply = await self._ask("path_get", "path", destination=destination)
        return _records.path(reply.records[0])

    async def put_path(self, record: PathRecord) -> None:
        """Adds or replaces a path; its times are taken as they are.

        Raises NotFoundError when its interface does not exist, ValueError.
        """
        await self._ask("path_put", "path", spec=_records.path_back(record))

    async def drop_path(self, destination: DestinationHash) -> None:
        """Forgets a path. Raises NotFoundError."""
        await self._ask("path_drop", "path", destination=destination)

    async def mark_path(self, destination: DestinationHash, *, responsive: bool) -> None:
        """Notes that the destination answers over its path, or does not.

        Raises NotFoundError.
        """
        await self._ask("path_mark", "path", destination=destination, on=responsive)

    async def path_requests(self) -> list[PathRequestRecord]:
        """Own path requests in flight."""
        reply = await self._ask("path_request_list", "path requests")
        return [_records.path_request(core) for core in reply.records]

    async def path_tags(self) -> list[PathTag]:
        """Path requests of others that were seen, at most 1024."""
        reply = await self._ask("path_tag_list", "path tags")
        return [_records.path_tag(core) for core in reply.records]

    async def put_path_tag(self, tag: PathTag) -> None:
        """Takes a path request as seen."""
        spec = {"destination": tag.destination, "tag": tag.tag}
        await self._ask("path_tag_put", "path tag", spec=spec, on=True)

    async def drop_path_tag(self, tag: PathTag) -> None:
        """Takes a path request as not seen. Raises NotFoundError when it was not."""
        spec = {"destination": tag.destination, "tag": tag.tag}
        await self._ask("path_tag_put", "path tag", spec=spec, on=False)

    # -------------------------------------------------------- known destinations

    async def recall(self, who: DestinationHash | IdentityHash) -> Recalled | None:
        """Who is behind a destination, or an identity's keys; None when that is not known.

        Plain bytes are taken for the hash of a destination.
        """
        if isinstance(who, IdentityHash):
            reply = await self._find("recall_identity", "identity", identity=who)
        else:
            reply = await self._find("recall", "destination", destination=who)
        if reply is None:
            return None
        app_data = (reply.data or b"") if reply.has_data else None
        return Recalled(Identity.from_public(reply.public_key), app_data)

    async def _recall_source(self, source: DestinationHash) -> tuple[Identity | None, bool]:
        """The identity behind a destination, and whether it is blackholed."""
        reply = await self._find("recall", "destination", destination=source)
        if reply is None:
            return None, False
        return Identity.from_public(reply.public_key), bool(reply.number)

    async def remember(
        self,
        destination: DestinationHash,
        identity: Identity,
        app_data: Buffer | None = None,
    ) -> None:
        """Makes a destination known without an announce.

        Raises StateError ("MISMATCH") when it is known with another key.
        """
        await self._ask(
            "remember", "destination", destination=destination, key=identity, data=app_data
        )

    async def retain(self, destination: DestinationHash, retain: bool = True) -> None:
        """Keeps an entry through every cleaning, or lifts that. Raises NotFoundError."""
        await self._ask("retain", "destination", destination=destination, on=retain)

    async def ratchet_of(self, destination: DestinationHash) -> bytes | None:
        """The public ratchet that a destination announced; None, or older than 30 days."""
        reply = await self._find("ratchet_of", "ratchet", destination=destination)
        return None if reply is None else reply.data

    async def check_announce(self, raw: Buffer) -> AnnounceVerdict:
        """Whether an announce is valid, held against the remembered key if there is one.

        Raises DecodeError for what is no announce.
        """
        announce = Announce.unpack(raw)
        reply = await self._find("known_get", "destination", destination=announce.destination_hash)
        expected = None if reply is None else reply.records[0]["public_key"]
        return announce.validate(expected_public_key=expected)

    async def known(self) -> list[KnownRecord]:
        """All known destinations."""
        unique = {row["destination"]: row for row in await self._pages("known_list", "known")}
        return [_records.known(core) for core in unique.values()]

    async def known_destination(self, destination: DestinationHash) -> KnownRecord:
        """One of them. Raises NotFoundError."""
        reply = await self._ask("known_get", "destination", destination=destination)
        return _records.known(reply.records[0])

    async def put_known(self, record: KnownRecord) -> None:
        """Adds or replaces a known destination; its times are taken as they are."""
        await self._ask("known_put", "destination", spec=_records.known_back(record))

    async def drop_known(self, destination: DestinationHash) -> None:
        """Forgets one. Raises NotFoundError, StateError while it is in use."""
        await self._ask("known_drop", "destination", destination=destination)

    async def clear_known(self) -> None:
        """Forgets all that are not in use."""
        for record in await self.known():
            try:
                await self.drop_known(record.destination)
            except (StateError, NotFoundError):
                continue

    async def clean_known(self) -> int:
        """Forgets those that were not used for long (RNS 1, 2.5). How many went."""
        return (await self._ask("known_clean", "known destinations")).number

    # ------------------------------------------------- tables of a transport node

    async def transport_records(self, kind: type[TransportKind]) -> list[TransportKind]:
        """The table with records of this class of :mod:`netmesh.transport`.

        A long one is read in pages of 1024: when the last record of a page goes before the next
        one is read, what follows is left out. Raises ValueError for another class.
        """
        rows = _rows_of_transport()
        if kind not in rows.NAMES:
            raise ValueError(f"no table has records of {kind!r}")
        name = rows.NAMES[kind]
        reply = await self._ask("table_list", "table", spec=name)
        found = [rows.record_of(kind, core) for core in reply.records]
        while len(reply.records) == _TABLE_PAGE:
            after = (name, rows.row_of(found[-1]))
            reply = await self._ask("table_list", "table", spec=after, on=True)
            found += [rows.record_of(kind, core) for core in reply.records]
        return found

    async def put_transport_record(self, record: rows.Record) -> None:
        """Adds or replaces a record by its key.

        Raises NotFoundError when its interface is not there, LimitReached when its queue is full.
        """
        rows = _rows_of_transport()
        spec = (rows.NAMES[type(record)], rows.row_of(record))
        await self._ask("table_put", "interface", spec=spec)

    async def drop_transport_record(self, record: rows.Record) -> None:
        """Removes the record with this one's key. Raises NotFoundError when there is none."""
        rows = _rows_of_transport()
        spec = (rows.NAMES[type(record)], rows.row_of(record))
        await self._ask("table_drop", "record", spec=spec)

    async def release_held(self, record: HeldRecord) -> None:
        """Lets an announce go on that a burst holds back. Raises NotFoundError."""
        await self._ask(
            "held_release", "record", iface=record.interface, destination=record.destination
        )

    # --------------------------------------------------------------- blackholes

    async def blackhole(
        self,
        identity: IdentityHash,
        *,
        until_unix_s: float | None = None,
        reason: str | None = None,
    ) -> None:
        """Ignores an identity until a time; None: for ever. Its paths go at once."""
        until = 0 if until_unix_s is None else _records.to_us(until_unix_s)
        await self._ask(
            "blackhole", "identity", identity=identity, until_unix_us=until, data=reason
        )

    async def unblackhole(self, identity: IdentityHash) -> None:
        """Lifts that. Raises NotFoundError."""
        await self._ask("unblackhole", "identity", identity=identity)

    async def blackholes(self) -> list[BlackholeRecord]:
        """All ignored identities."""
        reply = await self._ask("blackhole_list", "blackholes")
        return [_records.blackhole(core) for core in reply.records]

    async def put_blackhole(self, record: BlackholeRecord) -> None:
        """Adds or replaces one, its source included."""
        await self._ask("blackhole_put", "identity", spec=_records.blackhole_back(record))

    # ---------------------------------------------------- receipts, links, filter

    async def receipts(self) -> list[ReceiptRecord]:
        """The packets that wait for their proof."""
        reply = await self._ask("receipt_list", "receipts")
        return [_records.receipt(core) for core in reply.records]

    async def set_receipt_timeout(self, op: int, timeout_s: float) -> None:
        """Changes how long a packet waits, counted from its sending. Raises NotFoundError."""
        await self._ask("receipt_timeout", "receipt", op=op, timeout_us=_records.to_us(timeout_s))

    async def link_records(self) -> list[LinkRecord]:
        """All links, closed ones for a minute."""
        reply = await self._ask("link_list", "links")
        now = (reply.mono_us, reply.unix_us)
        return [_records.link(core, now) for core in reply.records]

    async def interface_records(self) -> list[InterfaceRecord]:
        """All interfaces as the engine sees them, connections of servers and peers too."""
        reply = await self._ask("iface_list", "interfaces")
        return [
            _record(info, self._access_code(info.parent or info.id))
            for info in map(_info, reply.records)
        ]

    def _access_code(self, interface: int) -> Ifac | None:
        opened = self._interfaces.get(interface)
        if opened is None:
            return None
        options = opened.options
        if isinstance(options, CustomInterface):
            options = options.options
        return options._access_code()

    async def transfers(self) -> list[TransferRecord]:
        """The resources that are on their way over any link, in both directions."""
        found: list[TransferRecord] = []
        for record in await self.link_records():
            reply = await self._find("transfer_list", "link", link=record.link)
            rows = [] if reply is None else reply.records
            found += [_records.transfer(core) for core in rows]
        return found

    async def filter_size(self) -> int:
        """Packet hashes in the duplicate filter."""
        return (await self._ask("filter_size", "filter")).number

    async def filter_has(self, packet_hash: Buffer) -> bool:
        """Whether the filter holds a packet hash of 32 bytes."""
        return bool((await self._ask("filter_has", "filter", hash=packet_hash)).number)

    async def filter_put(self, packet_hash: Buffer) -> None:
        """Adds a packet hash to the filter."""
        await self._ask("filter_put", "filter", hash=packet_hash)

    async def filter_drop(self, packet_hash: Buffer) -> None:
        """Takes a packet hash out of the filter."""
        await self._ask("filter_drop", "filter", hash=packet_hash)

    async def records(self, since: int = 0) -> list[FlightRecord]:
        """The flight recorder from a sequence number on; what is older than its room is gone."""
        found: list[FlightRecord] = []
        cursor = since
        while True:
            reply = await self._ask("records", "recorder", cursor=cursor, max=_PAGE)
            found += [_records.flight(core) for core in reply.records]
            cursor = reply.cursor
            if cursor == 0:
                return found

    async def limits(self) -> Limits:
        """The limits in force, with all defaults filled in."""
        return Limits(**(await self._ask("limits", "limits")).records[0])

    # -------------------------------------------------------------- frame by frame

    async def seal(
        self,
        destination: DestinationHash,
        payload: Buffer,
        *,
        context: int = Context.NONE,
        packet_type: PacketType = PacketType.DATA,
        ratchet: bool = True,
    ) -> bytes:
        """A packet for a SINGLE destination, sealed and not sent; :meth:`inject` sends it.

        Raises NotFoundError when the identity behind the destination is not known.
        """
        destination = DestinationHash(destination)  # an identity's hash is no address
        found = await self.recall(destination)
        if found is None:
            raise NotFoundError(f"the identity of {bytes(destination).hex()} is not known")
        fresh = await self.ratchet_of(destination) if ratchet else None
        return Packet(
            destination=destination,
            payload=found.identity.encrypt(payload, ratchet=fresh),
            context=context,
            packet_type=packet_type,
        ).raw

    async def unseal(self, raw: Buffer) -> Decrypted:
        """Opens a packet for an own SINGLE destination, wherever it was come by.

        Raises NotFoundError for another's, AuthenticationError when it does not open,
        KeyMissingError for a GROUP or PLAIN destination, DecodeError.
        """
        packet = Packet.unpack(raw)
        local = self._locals.get(DestinationHash(packet.destination))
        if local is None:
            raise NotFoundError(f"{bytes(packet.destination).hex()} is no own destination")
        if local.identity is None:
            raise KeyMissingError(f"{local.name!r} is not a SINGLE destination")
        own = await local.ratchets()
        keys: tuple[bytes, ...] = ()
        if own.ids:
            keys = Ratchets.load(await local.ratchet_file(), local.identity).private_keys
        return local.identity.decrypt(packet.payload, ratchets=keys, enforce_ratchets=own.enforced)

    async def inject(self, raw: Buffer, *, interface: int | None = None) -> None:
        """Sends a finished packet: on one interface, or where its destination's path leads.

        Nothing is checked but its size. Raises NotFoundError for the interface, StateError when
        nothing can send it, EncodeError when it is longer than the interface's MTU.
        """
        await self._ask("inject", "packet", iface=interface or 0, data=raw)

    async def feed(self, interface: int, frame: Buffer) -> Verdict:
        """Takes a frame, deframed, as if it had come in on an interface.

        Raises NotFoundError for the interface, EncodeError for a frame above 512 KiB.
        """
        reply = await self._ask("feed", "interface", iface=interface, data=frame)
        return _records.verdict(reply.verdict)

    async def probe(self, interface: int, frame: Buffer, *, remember: bool = False) -> Verdict:
        """Whether the packet filter would let a frame pass.

        Changes nothing, but for the duplicate filter with ``remember``.
        """
        reply = await self._ask("probe", "interface", iface=interface, data=frame, on=remember)
        return _records.verdict(reply.verdict)

    # --------------------------------------------------------------- all at once

    async def snapshot(self) -> Snapshot:
        """All tables: those that can be loaded back, and those that can only be read."""
        moment = await self._ask("filter_size", "filter")
        return Snapshot(
            paths=tuple(await self.paths()),
            known=tuple(await self.known()),
            blackholes=tuple(await self.blackholes()),
            path_tags=tuple(await self.path_tags()),
            path_requests=tuple(await self.path_requests()),
            receipts=tuple(await self.receipts()),
            links=tuple(await self.link_records()),
            transfers=tuple(await self.transfers()),
            interfaces=tuple(await self.interface_records()),
            ratchets={own: await local.ratchets() for own, local in self._locals.items()},
            transport=tuple(
                [
                    record
                    for kind in _rows_of_transport().NAMES
                    for record in await self.transport_records(kind)
                ]
            ),
            taken_s=_records.to_s(moment.mono_us),
            taken_unix_s=_records.to_s(moment.unix_us),
        )

    async def load(self, snapshot: Snapshot) -> None:
        """Puts what it takes of a snapshot into the tables.

        That is paths, known destinations, blackholes, seen path requests and the tables of a
        transport node. What is there already and not in the snapshot stays. Raises
        NotFoundError when a record's interface does not exist; what came before is then loaded.
        """
        for known in snapshot.known:
            await self.put_known(known)
        for blackhole in snapshot.blackholes:
            await self.put_blackhole(blackhole)
        for tag in snapshot.path_tags:
            await self.put_path_tag(tag)
        for path in snapshot.paths:
            await self.put_path(path)
        for record in snapshot.transport:
            await self.put_transport_record(record)
