"""The LXMF message: packed form, payload, id, signature (LXMF 2).

destination (16) | source (16) | signature (64) | msgpack [timestamp, title, content,
fields, stamp?]
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    ADDRESS_SIZE,
    HASH_SIZE,
    LXMF_ENCRYPTED_PACKET_MAX_CONTENT,
    LXMF_HEADER_SIZE,
    LXMF_LINK_PACKET_MAX_CONTENT,
    LXMF_PAPER_MDU,
    LXMF_TICKET_SIZE,
    SIGNATURE_SIZE,
    Method,
    Representation,
)
from netmesh.errors import AuthenticationError
from netmesh.pure._addresses import DestinationHash, IdentityHash, address
from netmesh.pure._identity import Identity, private_identity, public_identity
from netmesh.pure._names import destination_hash
from netmesh.pure._wire import (
    NotConstructible,
    Reader,
    assign,
    field_of_size,
    of_size,
    refusal,
    text_or_bytes,
    to_bool,
    to_byte_strings,
    to_bytes,
    to_int,
    to_real,
)
from netmesh.pure.crypto import full_hash, truncated_hash
from netmesh.pure.lxmf._payload import (
    CODEC,
    check_fields,
    fitting_stamp,
    mapping,
    open_payload,
    take,
    take_fields,
)
from netmesh.pure.lxmf.stamp import Workblock
from netmesh.pure.msgpack import Unpacker, packb, unpackb

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Message", "delivery_hash", "representation", "ticket_stamp"]

NO_FIELDS = b"\x80"


def delivery_hash(identity: Identity | IdentityHash, /) -> DestinationHash:
    """The lxmf.delivery address of an identity (LXMF 0.1)."""
    owner = identity.hash if isinstance(identity, Identity) else identity
    return destination_hash(address(owner, "identity", IdentityHash), "lxmf.delivery")


def ticket_stamp(ticket: Buffer, message_id: Buffer, /) -> bytes:
    """Ht(ticket | message id): the 16-byte stamp that a ticket allows (LXMF 7)."""
    secret = of_size(ticket, "ticket", LXMF_TICKET_SIZE)
    return truncated_hash(secret + of_size(message_id, "message_id", HASH_SIZE))


def representation(method: int, content_size: int, /) -> tuple[int, int]:
    """(method, representation) by size (LXMF 3.2).

    ``content_size`` is Message.content_size; for PROPAGATED the length of the container,
    for PAPER that of the lxmf_data. An opportunistic message that is too large becomes
    a direct one.
    """
    to_int(method, "method", 0, 255)
    to_int(content_size, "content_size", -16, 2**63 - 1)
    if method == Method.OPPORTUNISTIC and content_size <= LXMF_ENCRYPTED_PACKET_MAX_CONTENT:
        return int(method), int(Representation.PACKET)
    if method == Method.PAPER:
        if content_size > LXMF_PAPER_MDU:
            raise refusal("TOO_LARGE", "content_size")
        return int(method), int(Representation.PAPER)
    if method in (Method.UNKNOWN, Method.OPPORTUNISTIC):
        method = Method.DIRECT
    if method not in (Method.DIRECT, Method.PROPAGATED):
        raise ValueError(f"method must be 0, 1, 2, 3 or 5, not {method!r}")
    fits = content_size <= LXMF_LINK_PACKET_MAX_CONTENT
    return int(method), int(Representation.PACKET if fits else Representation.RESOURCE)


@final
@dataclass(frozen=True, slots=True, init=False)
class Message(NotConstructible):
    """An LXMF message. Decoding parses only; verification is :meth:`verify`.

    The value of a message is its packed form.
    """

    packed: bytes = field(repr=False)
    destination_hash: DestinationHash = field(compare=False)
    source_hash: DestinationHash = field(compare=False)
    signature: bytes = field(compare=False, repr=False)
    timestamp: float = field(compare=False)
    title: bytes = field(compare=False)
    content: bytes = field(compare=False)
    fields_packed: bytes = field(compare=False, repr=False)
    stamp: bytes | None = field(compare=False, repr=False)
    _elements_packed: bytes = field(compare=False, repr=False)
    _count: int = field(compare=False, repr=False)
    _elements: tuple[Any, ...] = field(compare=False, repr=False)

    @classmethod
    def create(
        cls,
        source: Identity,
        destination: DestinationHash | Buffer,
        content: str | Buffer = b"",
        /,
        *,
        title: str | Buffer = b"",
        fields: Mapping[Any, Any] | None = None,
        timestamp: float | None = None,
        stamp: Buffer | None = None,
        ticket: Buffer | None = None,
    ) -> Message:
        """A message signed by ``source``, from its lxmf.delivery address (LXMF 2.3).

        ``stamp`` is a 32-byte proof of work (or 16 bytes made from a ticket); ``ticket``,
        16 bytes, makes that cheap stamp here.
        """
        identity = private_identity(source, "source")
        target = address(destination, "destination", DestinationHash)
        moment = time.time() if timestamp is None else to_real(timestamp, "timestamp")
        head, body = text_or_bytes(title, "title"), text_or_bytes(content, "content")
        if stamp is not None and ticket is not None:
            raise ValueError("a message has a stamp or a ticket, not both")
        attached = None if stamp is None else fitting_stamp(stamp)
        secret = None if ticket is None else field_of_size(ticket, "ticket", LXMF_TICKET_SIZE)
        four = (moment, head, body, {} if fields is None else mapping(fields, "fields"))
        sender = bytes(delivery_hash(identity))
        hashed = target + sender + packb(list(four))
        own_id = full_hash(hashed)
        if secret is not None:
            attached = ticket_stamp(secret, own_id)
        signature = identity.sign(hashed + own_id)
        payload = packb([*four] if attached is None else [*four, attached])
        return cls.unpack(target + sender + signature + payload)

    @classmethod
    def encode(
        cls,
        destination: Buffer,
        source: Buffer,
        signature: Buffer,
        /,
        *,
        timestamp: float,
        title: Buffer = b"",
        content: Buffer = b"",
        fields: Buffer = NO_FIELDS,
        stamp: Buffer | None = None,
    ) -> bytes:
        """The packed form with a given signature and fields that are packed already."""
        head = (
            address(destination, "destination", DestinationHash),
            address(source, "source", DestinationHash),
            field_of_size(signature, "signature", SIGNATURE_SIZE),
        )
        values = [
            packb(to_real(timestamp, "timestamp")),
            packb(to_bytes(title, "title")),
            packb(to_bytes(content, "content")),
            bytes(to_bytes(fields, "fields")),
        ]
        attached = None if stamp is None else to_bytes(stamp, "stamp")
        check_fields(values[3])
        if attached is not None:
            if not attached:
                raise refusal("EMPTY", "stamp")
            values.append(packb(attached))
        return b"".join((*head, bytes([0x90 | len(values)]), *values))

    @classmethod
    def unpack(
        cls, packed: Buffer, /, *, verify: bool = False, source: Identity | None = None
    ) -> Message:
        """Parses the packed form; with ``verify`` also checks the signature of ``source``.

        Accepts what the network does: any msgpack encoding, an integer timestamp, title
        and content as text, nil for empty fields, further elements (LXMF 2.2, 2.4).

        Raises:
            DecodeError: it has another form.
            AuthenticationError: SIGNATURE.
        """
        data = bytes(to_bytes(packed, "packed"))
        if source is not None and not isinstance(source, Identity):
            raise TypeError(f"source must be Identity, not {type(source).__name__}")
        if to_bool(verify, "verify") and source is None:
            raise ValueError("verify needs source")
        reader = Reader(data, CODEC)
        destination = reader.take(ADDRESS_SIZE, "destination")
        message = cls._parse(data, destination, reader)
        if verify and source is not None and not message.verify(source):
            raise AuthenticationError("the message is not signed by it", reason="SIGNATURE")
        return message

    @classmethod
    def unpack_opportunistic(
        cls, destination: DestinationHash | Buffer, plaintext: Buffer, /
    ) -> Message:
        """Parses the form without the destination, which the packet names (LXMF 4.1).

        Offsets in errors count from the front of the packed form.
        """
        target = address(destination, "destination", DestinationHash)
        packed = target + to_bytes(plaintext, "plaintext")
        return cls._parse(packed, target, Reader(packed, CODEC, ADDRESS_SIZE))

    @classmethod
    def _parse(cls, packed: bytes, destination: bytes, reader: Reader) -> Message:
        source = reader.take(ADDRESS_SIZE, "source")
        signature = reader.take(SIGNATURE_SIZE, "signature")
        count = open_payload(reader)
        elements_at = reader.position
        timestamp = take(reader, "timestamp", (int, float))
        title = take(reader, "title", (bytes, str))
        content = take(reader, "content", (bytes, str))
        start = reader.position
        fields = take_fields(reader)
        fields_packed = NO_FIELDS if fields is None else reader.data[start : reader.position]
        elements_packed = reader.data[elements_at : reader.position]
        stamp = None
        for index in range(4, count):
            extra = Unpacker(reader, field="stamp" if index == 4 else "element").value()
            stamp = extra if index == 4 and isinstance(extra, bytes) else stamp
        message = object.__new__(cls)
        assign(
            message,
            packed=packed,
            destination_hash=DestinationHash(destination),
            source_hash=DestinationHash(source),
            signature=signature,
            timestamp=float(timestamp),
            title=text_or_bytes(title, "title"),
            content=text_or_bytes(content, "content"),
            fields_packed=fields_packed,
            stamp=stamp,
            _elements_packed=elements_packed,
            _count=count,
            _elements=(timestamp, title, content, fields),
        )
        return message

    @property
    def opportunistic(self) -> bytes:
        """The packed form without its first 16 bytes (LXMF 4.1)."""
        return self.packed[ADDRESS_SIZE:]

    @property
    def title_text(self) -> str:
        """The title as UTF-8, undecodable bytes replaced."""
        return self.title.decode(errors="replace")

    @property
    def content_text(self) -> str:
        """The content as UTF-8, undecodable bytes replaced."""
        return self.content.decode(errors="replace")

    @property
    def fields(self) -> dict[Any, Any]:
        """The fields, decoded afresh."""
        fields: dict[Any, Any] = unpackb(self.fields_packed)
        return fields

    @property
    def payload(self) -> memoryview:
        """The msgpack array and whatever follows it, without a copy."""
        return memoryview(self.packed)[LXMF_HEADER_SIZE:]

    def _hashed(self) -> bytes:
        """Destination | source | the first four elements (LXMF 2.3, 2.4).

        As received when there are four, else in canonical form: a stamp is in neither
        the id nor the signature.
        """
        four = bytes(self.payload) if self._count <= 4 else packb(list(self._elements))
        return bytes(self.destination_hash) + bytes(self.source_hash) + four

    @property
    def id(self) -> bytes:
        """The message id, 32 bytes; never transmitted."""
        return full_hash(self._hashed())

    @property
    def signed_data(self) -> bytes:
        """What the signature covers: the hashed data and the id."""
        return self._hashed() + self.id

    @property
    def content_size(self) -> int:
        """len(payload) - 16 (LXMF 3.2)."""
        return len(self.payload) - 16

    def verify(self, source: Identity, /) -> bool:
        """Whether ``source`` owns the source hash and signed the message (LXMF 2.4)."""
        if delivery_hash(public_identity(source, "source")) != self.source_hash:
            return False
        return source.verify(self.signed_data, self.signature)

    def with_stamp(self, stamp: Buffer, /) -> Message:
        """The same message with another stamp; id and signature stay (LXMF 2.3).

        Raises:
            EncodeError: LENGTH; VALUE when the payload is not canonical, so that the
                stamped message would have another id.
        """
        attached = packb(fitting_stamp(stamp))
        head = self.packed[:LXMF_HEADER_SIZE]
        stamped = Message.unpack(head + b"\x95" + self._elements_packed + attached)
        if stamped.id != self.id:
            raise refusal("VALUE", "payload")
        return stamped

    def stamp_value(self) -> int:
        """The proof-of-work value of the attached stamp; 0 without one (LXMF 6.2)."""
        return 0 if self.stamp is None else Workblock(self.id).value(self.stamp)

    def stamp_valid(self, cost: int, /, *, tickets: Sequence[Buffer] = ()) -> bool:
        """Whether the stamp comes from one of the tickets, or is worth ``cost`` (LXMF 4.5)."""
        to_int(cost, "cost", 0, 256)
        own_id = self.id
        held = to_byte_strings(tickets, "tickets", LXMF_TICKET_SIZE)
        expected = [ticket_stamp(ticket, own_id) for ticket in held]
        if self.stamp is None:
            return False
        matches = [hmac.compare_digest(self.stamp, candidate) for candidate in expected]
        if any(matches):
            return True
        return Workblock(own_id).valid(self.stamp, cost)

    def __repr__(self) -> str:
        return f"<Message {self.id.hex()}>"
