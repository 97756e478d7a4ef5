"""Control payloads: path requests, tunnel synthesis, requests and responses.

RNS 1, 8.9.1, 8.9.2 and 8.11; RNS 2, 2.1 and 2.3.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    ADDRESS_SIZE,
    HASH_SIZE,
    KEY_SIZE,
    PUBLIC_SIZE,
    SIGNATURE_SIZE,
    TAG_SIZE,
    TUNNEL_SIZE,
    DestinationType,
)
from netmesh.errors import DecodeError, EncodeError
from netmesh.pure import _ed25519
from netmesh.pure._addresses import DestinationHash, IdentityHash, address_field
from netmesh.pure._identity import Identity, private_identity
from netmesh.pure._names import destination_hash, path_hash
from netmesh.pure._wire import (
    NotConstructible,
    Reader,
    assign,
    fault,
    of_size,
    optional_of_size,
    to_bytes,
    to_real,
)
from netmesh.pure.crypto import full_hash, random_hash, truncated_hash
from netmesh.pure.msgpack import Unpacker, packb
from netmesh.pure.packet import Packet

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["PathRequest", "Request", "Response", "TunnelSynthesis"]


def plain_packet(name: str, payload: bytes) -> Packet:
    """A packet to a PLAIN destination of the transport system (RNS 1, 3.8)."""
    return Packet(
        destination=destination_hash(None, name),
        payload=payload,
        destination_type=DestinationType.PLAIN,
    )


@final
@dataclass(frozen=True, slots=True, init=False)
class PathRequest:
    """Asks for the path to a destination (RNS 1, 8.9).

    destination (16) | transport id (16, from transport nodes) | tag (1..16)
    """

    destination: DestinationHash
    transport_id: IdentityHash | None
    tag: bytes | None
    """None only after unpacking a request without one, which is to be ignored."""
    tag_was_cut: bool

    def __init__(
        self,
        destination: DestinationHash | Buffer,
        /,
        *,
        transport_id: IdentityHash | Buffer | None = None,
        tag: Buffer | None = None,
    ) -> None:
        target = DestinationHash(address_field(destination, "destination", DestinationHash))
        relay = None
        if transport_id is not None:
            relay = IdentityHash(address_field(transport_id, "transport_id", IdentityHash))
        chosen = random_hash() if tag is None else bytes(to_bytes(tag, "tag"))
        if not 1 <= len(chosen) <= TAG_SIZE:
            message = f"tag must be 1..{TAG_SIZE} bytes, not {len(chosen)}"
            raise EncodeError(message, reason="LENGTH", field="tag")
        assign(
            self,
            destination=target,
            transport_id=relay,
            tag=chosen,
            tag_was_cut=False,
        )

    @classmethod
    def unpack(cls, payload: Buffer, /) -> PathRequest:
        """Exactly 16 bytes have no tag; more than 32 a transport id (RNS 1, 8.9.2).

        A tag is cut to 16 bytes. DecodeError TRUNCATED below 16.
        """
        reader = Reader(bytes(to_bytes(payload, "payload")), "path_request")
        destination = reader.take(ADDRESS_SIZE, "destination")
        relay = reader.take(ADDRESS_SIZE, "transport_id") if reader.left > ADDRESS_SIZE else None
        tag = reader.rest()
        request = object.__new__(cls)
        assign(
            request,
            destination=DestinationHash(destination),
            transport_id=None if relay is None else IdentityHash(relay),
            tag=tag[:TAG_SIZE] or None,
            tag_was_cut=len(tag) > TAG_SIZE,
        )
        return request

    def pack(self) -> bytes:
        """The payload."""
        return bytes(self.destination) + (self.transport_id or b"") + (self.tag or b"")

    def packet(self) -> Packet:
        """The packet to rnstransport.path.request."""
        return plain_packet("rnstransport.path.request", self.pack())


@final
@dataclass(frozen=True, slots=True, init=False)
class TunnelSynthesis(NotConstructible):
    """Restores paths behind a client whose connection was re-established (RNS 1, 8.11).

    public key (64) | interface hash (32) | random hash (16) | signature (64)
    """

    public_key: bytes
    interface_hash: bytes
    random_hash: bytes
    signature: bytes

    @classmethod
    def create(
        cls, identity: Identity, interface_hash: Buffer, /, *, random: Buffer | None = None
    ) -> TunnelSynthesis:
        """Signs one; ``random`` is the 16-byte random hash."""
        interface = bytes(of_size(interface_hash, "interface_hash", HASH_SIZE))
        chosen = optional_of_size(random, "random", ADDRESS_SIZE)
        blob = random_hash() if chosen is None else bytes(chosen)
        signer = private_identity(identity, "identity")
        signed = signer.public_key + interface + blob
        return cls.unpack(signed + signer.sign(signed))

    @classmethod
    def unpack(cls, payload: Buffer, /) -> TunnelSynthesis:
        """Raises DecodeError LENGTH unless 176 bytes."""
        data = bytes(to_bytes(payload, "payload"))
        if len(data) != TUNNEL_SIZE:
            raise fault("LENGTH", "tunnel", "tunnel", len(data))
        reader = Reader(data, "tunnel")
        tunnel = object.__new__(cls)
        assign(
            tunnel,
            public_key=reader.take(PUBLIC_SIZE, "public_key"),
            interface_hash=reader.take(HASH_SIZE, "interface_hash"),
            random_hash=reader.take(ADDRESS_SIZE, "random_hash"),
            signature=reader.take(SIGNATURE_SIZE, "signature"),
        )
        return tunnel

    @property
    def tunnel_id(self) -> bytes:
        """H(public key | interface hash), 32 bytes."""
        return full_hash(self.public_key + self.interface_hash)

    def verify(self) -> bool:
        """Whether it is signed by the key that it names."""
        signed = self.public_key + self.interface_hash + self.random_hash
        return _ed25519.verify(self.public_key[KEY_SIZE:], signed, self.signature)

    def pack(self) -> bytes:
        """The 176 bytes."""
        return self.public_key + self.interface_hash + self.random_hash + self.signature

    def packet(self) -> Packet:
        """The packet to rnstransport.tunnel.synthesize."""
        return plain_packet("rnstransport.tunnel.synthesize", self.pack())


def open_array(packed: bytes, codec: str, count: int) -> Unpacker:
    """Goes into an array of at least ``count`` elements; what follows those is ignored."""
    reader = Reader(packed, codec)
    values = Unpacker(reader, field=codec)
    kind, size = values.open()
    if kind != "array":
        raise fault("TYPE", codec, codec)
    if size < count:
        raise fault("LENGTH", codec, codec)
    return values


def address_element(values: Unpacker, codec: str, name: str) -> bytes:
    """A byte string of 16."""
    start = values.reader.position
    value = scalar(values, name)
    if not isinstance(value, bytes):
        raise fault("TYPE", codec, name, start)
    if len(value) != ADDRESS_SIZE:
        raise fault("LENGTH", codec, name, start)
    return value


def scalar(values: Unpacker, name: str) -> Any:
    """The next element if it is no array or map, else only its kind."""
    kind, value = Unpacker(values.reader, field=name).open()
    return value if kind == "value" else None


def element(values: Unpacker, name: str) -> Any:
    """The next element; what is wrong inside it is said of the whole."""
    start = values.reader.position
    try:
        return Unpacker(values.reader).value()
    except DecodeError as error:
        raise fault(error.reason, values.reader.codec, name, start) from None


@final
@dataclass(frozen=True, slots=True, init=False, eq=False)
class Request:
    """[timestamp, path hash, data] (RNS 2, 2.1). ``path`` is text, or its 16-byte hash."""

    path_hash: bytes
    timestamp: float
    data: Any = field(hash=False)

    def __init__(
        self, path: str | Buffer, data: Any = None, /, *, timestamp: float | None = None
    ) -> None:
        name = path_hash(path) if isinstance(path, str) else of_size(path, "path", ADDRESS_SIZE)
        moment = time.time() if timestamp is None else to_real(timestamp, "timestamp")
        assign(self, path_hash=bytes(name), timestamp=moment, data=data)

    @classmethod
    def unpack(cls, packed: Buffer, /) -> Request:
        """The timestamp may be any number; further elements are ignored."""
        values = open_array(to_bytes(packed, "packed"), "request", 3)
        start = values.reader.position
        timestamp = scalar(values, "timestamp")
        if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
            raise fault("TYPE", "request", "timestamp", start)
        request = object.__new__(cls)
        assign(
            request,
            path_hash=address_element(values, "request", "path_hash"),
            timestamp=float(timestamp),
            data=element(values, "data"),
        )
        return request

    def pack(self) -> bytes:
        """The MessagePack array."""
        return packb([self.timestamp, self.path_hash, self.data])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Request) and self.pack() == other.pack()

    def __hash__(self) -> int:
        return hash(self.pack())

    @staticmethod
    def id_of_packet(raw: Buffer | Packet, /) -> bytes:
        """The id of a request sent in a packet: its truncated packet hash, 16 bytes."""
        packet = raw if isinstance(raw, Packet) else Packet.unpack(raw)
        return packet.truncated_hash

    @staticmethod
    def id_of_resource(packed: Buffer, /) -> bytes:
        """The id of a request sent as a resource: T(packed), 16 bytes."""
        return truncated_hash(to_bytes(packed, "packed"))


@final
@dataclass(frozen=True, slots=True, init=False, eq=False)
class Response:
    """[request id, response] (RNS 2, 2.3)."""

    request_id: bytes
    data: Any

    def __init__(self, request_id: Buffer, data: Any, /) -> None:
        assign(self, request_id=bytes(of_size(request_id, "request_id", ADDRESS_SIZE)), data=data)

    @classmethod
    def unpack(cls, packed: Buffer, /) -> Response:
        """Further elements are ignored."""
        values = open_array(to_bytes(packed, "packed"), "response", 2)
        request_id = address_element(values, "response", "request_id")
        return cls(request_id, element(values, "data"))

    def pack(self) -> bytes:
        """The MessagePack array."""
        return packb([self.request_id, self.data])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Response) and self.pack() == other.pack()

    def __hash__(self) -> int:
        return hash(self.pack())
