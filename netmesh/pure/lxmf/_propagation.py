"""Propagated messages: the encrypted form, its id and stamp, the container, paper (LXMF 8, 12)."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from netmesh.constants import (
    ADDRESS_SIZE,
    LXMF_OVERHEAD,
    LXMF_PAPER_MDU,
    LXMF_ROUNDS_PROPAGATION,
    LXMF_STAMP_SIZE,
    LXMF_URI_SCHEMA,
)
from netmesh.pure._addresses import DestinationHash
from netmesh.pure._identity import Identity
from netmesh.pure._wire import (
    NotConstructible,
    assign,
    fault,
    field_of_size,
    refusal,
    to_bytes,
    to_int,
    to_real,
    to_sequence,
    to_text,
)
from netmesh.pure.crypto import full_hash
from netmesh.pure.lxmf._message import Message, delivery_hash
from netmesh.pure.lxmf._payload import CODEC
from netmesh.pure.lxmf.stamp import Workblock
from netmesh.pure.msgpack import locate, packb

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Propagated",
    "container_pack",
    "container_unpack",
    "paper_pack",
    "paper_uri",
    "paper_uri_unpack",
]

DATA_MIN = LXMF_OVERHEAD  # bytes of lxmf_data that a node or a paper reader takes
SCHEME = f"{LXMF_URI_SCHEMA}://"


@final
@dataclass(frozen=True, slots=True, init=False)
class Propagated(NotConstructible):
    """One element of a propagation container: what a node stores (LXMF 8.1).

    destination (16) | what only the recipient can open. Encrypt once and keep the bytes:
    another encryption is another transient id.
    """

    lxmf_data: bytes
    stamp: bytes | None

    @classmethod
    def create(
        cls,
        message: Message,
        recipient: Identity,
        /,
        *,
        ratchet: Buffer | None = None,
        ephemeral_private: Buffer | None = None,
        iv: Buffer | None = None,
    ) -> Propagated:
        """Encrypts a message to its recipient; EncodeError MISMATCH to another one."""
        if not isinstance(message, Message):
            raise TypeError(f"message must be Message, not {type(message).__name__}")
        if not isinstance(recipient, Identity):
            raise TypeError(f"recipient must be Identity, not {type(recipient).__name__}")
        if delivery_hash(recipient) != message.destination_hash:
            raise refusal("MISMATCH", "recipient")
        token = recipient.encrypt(
            message.opportunistic, ratchet=ratchet, ephemeral_private=ephemeral_private, iv=iv
        )
        return cls._make(bytes(message.destination_hash) + token, None)

    @classmethod
    def _make(cls, lxmf_data: bytes, stamp: bytes | None) -> Propagated:
        element = object.__new__(cls)
        assign(element, lxmf_data=lxmf_data, stamp=stamp)
        return element

    @classmethod
    def from_data(cls, lxmf_data: Buffer, /, *, stamp: Buffer | None = None) -> Propagated:
        """From the encrypted form; DecodeError TRUNCATED below 112 bytes."""
        attached = None if stamp is None else field_of_size(stamp, "stamp", LXMF_STAMP_SIZE)
        data = bytes(to_bytes(lxmf_data, "lxmf_data"))
        if len(data) < DATA_MIN:
            raise fault("TRUNCATED", CODEC, "lxmf_data", len(data))
        return cls._make(data, attached)

    @classmethod
    def from_stamped(cls, stamped: Buffer, /) -> Propagated:
        """Splits off the last 32 bytes; DecodeError LENGTH for 144 bytes and fewer."""
        data = bytes(to_bytes(stamped, "stamped"))
        if len(data) <= DATA_MIN + LXMF_STAMP_SIZE:
            raise fault("LENGTH", CODEC, "stamped", len(data))
        return cls._make(data[:-LXMF_STAMP_SIZE], data[-LXMF_STAMP_SIZE:])

    @property
    def stamped(self) -> bytes:
        """The element of a container; EncodeError without a stamp."""
        if self.stamp is None:
            raise refusal("MISSING", "stamp")
        return self.lxmf_data + self.stamp

    @property
    def transient_id(self) -> bytes:
        """H(lxmf_data), 32 bytes."""
        return full_hash(self.lxmf_data)

    @property
    def destination_hash(self) -> DestinationHash:
        """Whom it is for."""
        return DestinationHash(self.lxmf_data[:ADDRESS_SIZE])

    def with_stamp(self, stamp: Buffer, /) -> Propagated:
        """The same with a 32-byte propagation stamp."""
        return self._make(self.lxmf_data, field_of_size(stamp, "stamp", LXMF_STAMP_SIZE))

    def _workblock(self) -> Workblock:
        return Workblock(self.transient_id, LXMF_ROUNDS_PROPAGATION)

    def stamp_value(self) -> int:
        """The value of the propagation stamp; 0 without one (LXMF 8.3)."""
        return 0 if self.stamp is None else self._workblock().value(self.stamp)

    def stamp_valid(self, cost: int, /) -> bool:
        """Whether the propagation stamp is worth ``cost``."""
        to_int(cost, "cost", 0, 256)
        return self.stamp is not None and self._workblock().valid(self.stamp, cost)

    def open(
        self,
        recipient: Identity,
        /,
        *,
        ratchets: Sequence[Buffer] = (),
        enforce_ratchets: bool = False,
    ) -> Message:
        """Decrypts and parses the message."""
        if not isinstance(recipient, Identity):
            raise TypeError(f"recipient must be Identity, not {type(recipient).__name__}")
        found = recipient.decrypt(
            self.lxmf_data[ADDRESS_SIZE:], ratchets=ratchets, enforce_ratchets=enforce_ratchets
        )
        return Message.unpack_opportunistic(self.destination_hash, found.plaintext)

    def __repr__(self) -> str:
        return f"<Propagated {self.transient_id.hex()}>"


def container_pack(elements: Sequence[Propagated | Buffer], time: float, /) -> bytes:
    """[time, [stamped, ...]]: what uploads and syncs carry (LXMF 8.1)."""
    moment = to_real(time, "time")
    stamped = [
        element.stamped if isinstance(element, Propagated) else to_bytes(element, "elements")
        for element in to_sequence(elements, "elements")
    ]
    return packb([moment, stamped])


def container_unpack(data: Buffer, /, *, messages_max: int = 65536) -> tuple[float, list[bytes]]:
    """(time, stamped elements) of a container; bytes after it are ignored.

    Raises:
        DecodeError: TYPE, LENGTH below two elements.
        LimitError: more than ``messages_max`` messages.
    """
    packed = to_bytes(data, "data")
    to_int(messages_max, "messages_max", 0, 2**32 - 1)
    value, places = locate(packed, CODEC, "container")
    if not isinstance(value, list):
        raise fault("TYPE", CODEC, "container")
    if len(value) < 2:
        raise fault("LENGTH", CODEC, "container")
    (moment, moment_at), (messages, messages_at) = places[:2]
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise fault("TYPE", CODEC, "container.time", moment_at)
    if not isinstance(messages, list):
        raise fault("TYPE", CODEC, "container.messages", messages_at)
    if len(messages) > messages_max:
        raise fault("LIMIT", CODEC, "container.messages", messages_at)
    for message, offset in locate(packed, CODEC, "container", messages_at)[1]:
        if not isinstance(message, bytes):
            raise fault("TYPE", CODEC, "container.message", offset)
    return float(moment), messages


def paper_pack(propagated: Propagated, /) -> bytes:
    """The content of a QR code before its text form; no stamp (LXMF 12).

    Raises:
        EncodeError: TOO_LARGE above 2210 bytes.
    """
    if not isinstance(propagated, Propagated):
        raise TypeError(f"propagated must be Propagated, not {type(propagated).__name__}")
    if len(propagated.lxmf_data) > LXMF_PAPER_MDU:
        raise refusal("TOO_LARGE", "lxmf_data")
    return propagated.lxmf_data


def paper_uri(propagated: Propagated, /) -> str:
    """The message as ``lxm://`` and base64url without padding (LXMF 12)."""
    text = base64.urlsafe_b64encode(paper_pack(propagated)).decode()
    return SCHEME + text.rstrip("=")


def paper_uri_unpack(uri: str, /) -> Propagated:
    """Reads such a URI: either case of the scheme, slashes deleted, padding supplied.

    Raises:
        DecodeError: VALUE for another scheme or character, LENGTH for a number of
            characters that cannot be or fewer than 112 bytes, TOO_LARGE above 2210.
    """
    text = to_text(uri, "uri")
    scheme, rest = text[: len(SCHEME)], text[len(SCHEME) :]
    if scheme.lower() != SCHEME or not scheme.isascii():
        raise fault("VALUE", CODEC, "uri")
    good = re.match(r"[A-Za-z0-9_/-]*[=/]*", rest)
    assert good is not None
    digits = good[0].replace("/", "").rstrip("=")
    most = LXMF_PAPER_MDU * 8 // 6  # digits whose bytes fit
    if len(digits) > most + 1 or len(digits) * 6 // 8 > LXMF_PAPER_MDU:
        at = [place for place, c in enumerate(rest) if c not in "/="][most + 1]
        raise fault("TOO_LARGE", CODEC, "uri", len(SCHEME) + at)
    if good.end() < len(rest):
        raise fault("VALUE", CODEC, "uri", len(text[: len(SCHEME) + good.end()].encode()))
    if len(digits) % 4 == 1 or len(digits) * 6 // 8 < DATA_MIN:
        raise fault("LENGTH", CODEC, "uri", len(text))
    return Propagated.from_data(base64.urlsafe_b64decode(digits + "=" * (-len(digits) % 4)))
