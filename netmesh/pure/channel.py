"""Channels and buffers: envelopes and stream messages (RNS 2, 4)."""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from netmesh.constants import (
    CHANNEL_HEADER_SIZE,
    CHANNEL_MDU_MAX,
    STREAM_CHUNK_MAX,
    STREAM_COMPRESSED,
    STREAM_EOF,
    STREAM_HEADER_SIZE,
    STREAM_ID_MAX,
)
from netmesh.errors import DecodeError
from netmesh.pure._wire import assign, fault, refusal, to_bool, to_bytes, to_int
from netmesh.pure.crypto import bz2_decompress

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Envelope", "StreamData", "stream_chunk"]

COMPRESS_ABOVE = 32  # bytes of a stream that a writer does not try to compress
COMPRESS_TRIES = (1, 2, 3)  # the parts of its input that it tries


@final
@dataclass(frozen=True, slots=True, init=False)
class Envelope:
    """One message of a channel: type (2) | sequence (2) | length (2) | payload (RNS 2, 4.1)."""

    msgtype: int
    sequence: int
    payload: bytes
    length: int
    """The length field as received; receivers use the bytes that are there."""

    def __init__(self, msgtype: int, sequence: int, payload: Buffer, /) -> None:
        data = bytes(to_bytes(payload, "payload"))
        to_int(msgtype, "msgtype", 0, 0xFFFF)
        to_int(sequence, "sequence", 0, 0xFFFF)
        if len(data) > CHANNEL_MDU_MAX:
            raise refusal("TOO_LARGE", "payload")
        assign(self, msgtype=msgtype, sequence=sequence, payload=data, length=len(data))

    @classmethod
    def unpack(cls, data: Buffer, /) -> Envelope:
        """Raises DecodeError TRUNCATED below 6 bytes."""
        packed = bytes(to_bytes(data, "data"))
        if len(packed) < CHANNEL_HEADER_SIZE:
            raise fault("TRUNCATED", "channel", "envelope", len(packed))
        msgtype, sequence, length = (
            int.from_bytes(packed[at : at + 2], "big") for at in range(0, CHANNEL_HEADER_SIZE, 2)
        )
        envelope = object.__new__(cls)
        payload = packed[CHANNEL_HEADER_SIZE:]
        assign(envelope, msgtype=msgtype, sequence=sequence, payload=payload, length=length)
        return envelope

    def pack(self) -> bytes:
        """The header, whose length is that of the payload, and the payload."""
        if len(self.payload) > CHANNEL_MDU_MAX:
            raise refusal("TOO_LARGE", "payload")
        header = (self.msgtype, self.sequence, len(self.payload))
        return b"".join(value.to_bytes(2, "big") for value in header) + self.payload


@final
@dataclass(frozen=True, slots=True, init=False)
class StreamData:
    """One message of a stream: header (2) | data (RNS 2, 4.3).

    Header bit 15 is the end, bit 14 says that the data are one bzip2 stream, the rest is
    the stream id, 0..16383. ``data`` are as on the wire.
    """

    stream_id: int
    data: bytes
    eof: bool
    compressed: bool

    def __init__(
        self,
        stream_id: int,
        data: Buffer = b"",
        /,
        *,
        eof: bool = False,
        compressed: bool = False,
    ) -> None:
        assign(
            self,
            stream_id=to_int(stream_id, "stream_id", 0, STREAM_ID_MAX),
            data=bytes(to_bytes(data, "data")),
            eof=to_bool(eof, "eof"),
            compressed=to_bool(compressed, "compressed"),
        )

    @classmethod
    def unpack(cls, data: Buffer, /) -> StreamData:
        """Raises DecodeError TRUNCATED below 2 bytes."""
        packed = bytes(to_bytes(data, "data"))
        if len(packed) < STREAM_HEADER_SIZE:
            raise fault("TRUNCATED", "stream", "stream", len(packed))
        header = int.from_bytes(packed[:STREAM_HEADER_SIZE], "big")
        return cls(
            header & STREAM_ID_MAX,
            packed[STREAM_HEADER_SIZE:],
            eof=bool(header & STREAM_EOF),
            compressed=bool(header & STREAM_COMPRESSED),
        )

    def content(self, *, max_size: int = STREAM_CHUNK_MAX) -> bytes:
        """The data in the clear, inflated to at most ``max_size`` bytes.

        Raises:
            LimitError: more would come out.
            DecodeError: COMPRESSED.
        """
        to_int(max_size, "max_size", 1, 2**63 - 1)
        if not self.compressed:
            return self.data
        try:
            return bz2_decompress(self.data, max_size=max_size)
        except DecodeError as error:
            raise fault(error.reason, "stream", "stream.data", STREAM_HEADER_SIZE) from None

    def pack(self) -> bytes:
        """The header and the data."""
        header = self.stream_id | self.eof * STREAM_EOF | self.compressed * STREAM_COMPRESSED
        return header.to_bytes(STREAM_HEADER_SIZE, "big") + self.data


def stream_chunk(
    stream_id: int, data: Buffer, channel_mdu: int, /, *, eof: bool = False
) -> tuple[StreamData, int]:
    """The reference writer's choice: (message, bytes of ``data`` it carries) (RNS 2, 4.3).

    Of at most 16384 bytes all, a half and a third are tried compressed; the first result
    that fits and is shorter than its input is used, else as many bytes as fit go raw.
    ``eof`` is set only on a message that carries all of ``data``.
    """
    to_int(stream_id, "stream_id", 0, STREAM_ID_MAX)
    room = to_int(channel_mdu, "channel_mdu", 3, 0xFFFF) - STREAM_HEADER_SIZE
    to_bool(eof, "eof")
    whole = to_bytes(data, "data")
    taken = whole[:STREAM_CHUNK_MAX]
    for divisor in COMPRESS_TRIES if len(taken) > COMPRESS_ABOVE else ():
        piece = taken[: len(taken) // divisor]
        packed = bz2.compress(piece)
        if len(packed) < min(room, len(piece)):
            last = eof and len(piece) == len(whole)
            return StreamData(stream_id, packed, eof=last, compressed=True), len(piece)
    piece = taken[:room]
    return StreamData(stream_id, piece, eof=eof and len(piece) == len(whole)), len(piece)
