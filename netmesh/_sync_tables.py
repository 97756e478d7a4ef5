"""The tables of a node, for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netmesh import node
from netmesh._core import Decrypted, DestinationHash, Identity, IdentityHash
from netmesh._sync_base import Background
from netmesh._verdict import Verdict as AnnounceVerdict
from netmesh.constants import Context, PacketType
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

    from netmesh._node_tables import TransportKind
    from netmesh._transport_rows import Record
    from netmesh.transport import HeldRecord

__all__ = ["SyncTables"]


class SyncTables:
    """Tables of a live node, as :class:`netmesh._node_tables.NodeTables`, where calls wait."""

    __slots__ = ()

    _node: node.Node

    @property
    def _on(self) -> Background:
        raise NotImplementedError

    def hops(self, destination: DestinationHash) -> int:
        """Hops to a destination, 128 when there is no path."""
        return self._on.run(self._node.hops(destination))

    def has_path(self, destination: DestinationHash) -> bool:
        """Whether there is a path."""
        return self._on.run(self._node.has_path(destination))

    def paths(self) -> list[PathRecord]:
        """The path table."""
        return self._on.run(self._node.paths())

    def path_record(self, destination: DestinationHash) -> PathRecord:
        """One path of the table. Raises NotFoundError."""
        return self._on.run(self._node.path_record(destination))

    def put_path(self, record: PathRecord) -> None:
        """Adds or replaces a path; its times are taken as they are."""
        self._on.run(self._node.put_path(record))

    def drop_path(self, destination: DestinationHash) -> None:
        """Forgets a path. Raises NotFoundError."""
        self._on.run(self._node.drop_path(destination))

    def mark_path(self, destination: DestinationHash, *, responsive: bool) -> None:
        """Notes that the destination answers over its path, or does not."""
        self._on.run(self._node.mark_path(destination, responsive=responsive))

    def path_requests(self) -> list[PathRequestRecord]:
        """Own path requests in flight."""
        return self._on.run(self._node.path_requests())

    def path_tags(self) -> list[PathTag]:
        """Path requests of others that were seen, at most 1024."""
        return self._on.run(self._node.path_tags())

    def put_path_tag(self, tag: PathTag) -> None:
        """Takes a path request as seen."""
        self._on.run(self._node.put_path_tag(tag))

    def drop_path_tag(self, tag: PathTag) -> None:
        """Takes a path request as not seen. Raises NotFoundError when it was not."""
        self._on.run(self._node.drop_path_tag(tag))

    def recall(self, who: DestinationHash | IdentityHash) -> Recalled | None:
        """Who is behind a destination, or an identity's keys; None when that is not known."""
        return self._on.run(self._node.recall(who))

    def remember(
        self,
        destination: DestinationHash,
        identity: Identity,
        app_data: Buffer | None = None,
    ) -> None:
        """Makes a destination known without an announce."""
        self._on.run(self._node.remember(destination, identity, app_data))

    def retain(self, destination: DestinationHash, retain: bool = True) -> None:
        """Keeps an entry through every cleaning, or lifts that. Raises NotFoundError."""
        self._on.run(self._node.retain(destination, retain))

    def ratchet_of(self, destination: DestinationHash) -> bytes | None:
        """The public ratchet that a destination announced; None, or older than 30 days."""
        return self._on.run(self._node.ratchet_of(destination))

    def check_announce(self, raw: Buffer) -> AnnounceVerdict:
        """Whether an announce is valid, held against the remembered key if there is one."""
        return self._on.run(self._node.check_announce(raw))

    def known(self) -> list[KnownRecord]:
        """All known destinations."""
        return self._on.run(self._node.known())

    def known_destination(self, destination: DestinationHash) -> KnownRecord:
        """One of them. Raises NotFoundError."""
        return self._on.run(self._node.known_destination(destination))

    def put_known(self, record: KnownRecord) -> None:
        """Adds or replaces a known destination; its times are taken as they are."""
        self._on.run(self._node.put_known(record))

    def drop_known(self, destination: DestinationHash) -> None:
        """Forgets one. Raises NotFoundError, StateError while it is in use."""
        self._on.run(self._node.drop_known(destination))

    def clear_known(self) -> None:
        """Forgets all that are not in use."""
        self._on.run(self._node.clear_known())

    def clean_known(self) -> int:
        """Forgets those that were not used for long (RNS 1, 2.5). How many went."""
        return self._on.run(self._node.clean_known())

    def blackhole(
        self,
        identity: IdentityHash,
        *,
        until_unix_s: float | None = None,
        reason: str | None = None,
    ) -> None:
        """Ignores an identity until a time; None: for ever. Its paths go at once."""
        self._on.run(self._node.blackhole(identity, until_unix_s=until_unix_s, reason=reason))

    def unblackhole(self, identity: IdentityHash) -> None:
        """Lifts that. Raises NotFoundError."""
        self._on.run(self._node.unblackhole(identity))

    def blackholes(self) -> list[BlackholeRecord]:
        """All ignored identities."""
        return self._on.run(self._node.blackholes())

    def transport_records(self, kind: type[TransportKind]) -> list[TransportKind]:
        """The table with records of this class of :mod:`netmesh.transport`."""
        return self._on.run(self._node.transport_records(kind))

    def put_transport_record(self, record: Record) -> None:
        """Adds or replaces a record by its key."""
        self._on.run(self._node.put_transport_record(record))

    def drop_transport_record(self, record: Record) -> None:
        """Removes the record with this one's key."""
        self._on.run(self._node.drop_transport_record(record))

    def release_held(self, record: HeldRecord) -> None:
        """Lets an announce go on that a burst holds back."""
        self._on.run(self._node.release_held(record))

    def put_blackhole(self, record: BlackholeRecord) -> None:
        """Adds or replaces one, its source included."""
        self._on.run(self._node.put_blackhole(record))

    def receipts(self) -> list[ReceiptRecord]:
        """The packets that wait for their proof."""
        return self._on.run(self._node.receipts())

    def set_receipt_timeout(self, op: int, timeout_s: float) -> None:
        """Changes how long a packet waits, counted from its sending. Raises NotFoundError."""
        self._on.run(self._node.set_receipt_timeout(op, timeout_s))

    def link_records(self) -> list[LinkRecord]:
        """All links, closed ones for a minute."""
        return self._on.run(self._node.link_records())

    def interface_records(self) -> list[InterfaceRecord]:
        """All interfaces as the engine sees them, connections of servers and peers too."""
        return self._on.run(self._node.interface_records())

    def transfers(self) -> list[TransferRecord]:
        """The resources that are on their way over any link, in both directions."""
        return self._on.run(self._node.transfers())

    def filter_size(self) -> int:
        """Packet hashes in the duplicate filter."""
        return self._on.run(self._node.filter_size())

    def filter_has(self, packet_hash: Buffer) -> bool:
        """Whether the filter holds a packet hash of 32 bytes."""
        return self._on.run(self._node.filter_has(packet_hash))

    def filter_put(self, packet_hash: Buffer) -> None:
        """Adds a packet hash to the filter."""
        self._on.run(self._node.filter_put(packet_hash))

    def filter_drop(self, packet_hash: Buffer) -> None:
        """Takes a packet hash out of the filter."""
        self._on.run(self._node.filter_drop(packet_hash))

    def records(self, since: int = 0) -> list[FlightRecord]:
        """The flight recorder from a sequence number on; what is older than its room is gone."""
        return self._on.run(self._node.records(since))

    def limits(self) -> Limits:
        """The limits in force, with all defaults filled in."""
        return self._on.run(self._node.limits())

    def seal(
        self,
        destination: DestinationHash,
        payload: Buffer,
        *,
        context: int = Context.NONE,
        packet_type: PacketType = PacketType.DATA,
        ratchet: bool = True,
    ) -> bytes:
        """A packet for a SINGLE destination, sealed and not sent; :meth:`inject` sends it."""
        return self._on.run(
            self._node.seal(
                destination, payload, context=context, packet_type=packet_type, ratchet=ratchet
            )
        )

    def unseal(self, raw: Buffer) -> Decrypted:
        """Opens a packet for an own SINGLE destination, wherever it was come by."""
        return self._on.run(self._node.unseal(raw))

    def inject(self, raw: Buffer, *, interface: int | None = None) -> None:
        """Sends a finished packet: on one interface, or where its destination's path leads."""
        self._on.run(self._node.inject(raw, interface=interface))

    def feed(self, interface: int, frame: Buffer) -> Verdict:
        """Takes a frame, deframed, as if it had come in on an interface."""
        return self._on.run(self._node.feed(interface, frame))

    def probe(self, interface: int, frame: Buffer, *, remember: bool = False) -> Verdict:
        """Whether the packet filter would let a frame pass."""
        return self._on.run(self._node.probe(interface, frame, remember=remember))

    def snapshot(self) -> Snapshot:
        """All tables: those that can be loaded back, and those that can only be read."""
        return self._on.run(self._node.snapshot())

    def load(self, snapshot: Snapshot) -> None:
        """Puts what it takes of a snapshot into the tables."""
        self._on.run(self._node.load(snapshot))
