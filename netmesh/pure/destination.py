"""Destinations: the rules of types, directions and keys (RNS 1, 3)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, final

from netmesh.constants import (
    AES_BLOCK,
    TOKEN_KEY_SIZE,
    TOKEN_KEY_SIZE_128,
    DestinationType,
    PacketType,
    ProofStrategy,
)
from netmesh.errors import KeyMissingError
from netmesh.pure._addresses import DestinationHash
from netmesh.pure._announce import Announce
from netmesh.pure._identity import Decrypted, Identity, private_identity, public_identity
from netmesh.pure._names import (
    check_request_handler,
    destination_hash,
    expand_name,
    join_name,
    path_hash,
    split_name,
)
from netmesh.pure._wire import Secret, assign, optional_of_size, to_bool, to_bytes, to_int, to_text
from netmesh.pure.crypto import Token, name_hash
from netmesh.pure.packet import Packet, travels_in_clear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "Destination",
    "check_request_handler",
    "destination_hash",
    "expand_name",
    "join_name",
    "path_hash",
    "split_name",
]

DEFAULT: Any = ...  # app_data left out: the destination's default


@final
@dataclass(frozen=True, slots=True, init=False)
class Destination(Secret):
    """A named endpoint: type, direction, identity, keys (RNS 1, 3). Immutable.

    Raises:
        ValueError: PLAIN with an identity; OUT without one (unless PLAIN); a group key
            that is not 32 or 64 bytes; an unknown type, direction or proof strategy.
    """

    identity: Identity | None
    name: str
    type: int
    direction: str
    group_key: bytes | None = field(repr=False)
    proof_strategy: int
    _default_app_data: bytes | Callable[[], Buffer | None] | None = field(repr=False)

    def __init__(
        self,
        identity: Identity | None,
        name: str,
        /,
        *,
        type: int = DestinationType.SINGLE,  # noqa: A002
        direction: Literal["IN", "OUT"] = "IN",
        group_key: Buffer | None = None,
        proof_strategy: int = ProofStrategy.NONE,
        default_app_data: Buffer | Callable[[], Buffer | None] | None = None,
    ) -> None:
        check_rules(identity, type, direction, proof_strategy)
        shared = group_key_of(type, direction, group_key)
        app_data = default_app_data
        if not (app_data is None or callable(app_data)):
            app_data = bytes(to_bytes(app_data, "default_app_data"))
        to_text(name, "name")
        if identity is not None:
            public_identity(identity, "identity")
        elif type != DestinationType.PLAIN:
            identity = Identity()
            name = f"{name}.{identity.hash.hex()}"
        assign(
            self,
            identity=identity,
            name=name,
            type=int(type),
            direction=direction,
            group_key=shared,
            proof_strategy=int(proof_strategy),
            _default_app_data=app_data,
        )

    @property
    def full_name(self) -> str:
        """The name followed by the identity's hex, for people (RNS 1, 3.2)."""
        return f"{self.name}.{self.identity.hash.hex()}" if self.identity else self.name

    @property
    def name_hash(self) -> bytes:
        """N(name), 10 bytes."""
        return name_hash(self.name)

    @property
    def hash(self) -> DestinationHash:
        """The 16-byte address (RNS 1, 3.2)."""
        return destination_hash(self.identity.hash if self.identity else None, self.name)

    def seal(
        self,
        plaintext: Buffer,
        /,
        *,
        ratchet: Buffer | None = None,
        ephemeral_private: Buffer | None = None,
        iv: Buffer | None = None,
    ) -> bytes:
        """Encrypts to the identity (SINGLE), under the group key (GROUP), or not (PLAIN).

        RNS 1, 3.1 and 3.3. An option that the type has no use for is a ValueError.
        """
        plain = bytes(to_bytes(plaintext, "plaintext"))
        if self.identity is not None and self.type == DestinationType.SINGLE:
            return self.identity.encrypt(
                plain, ratchet=ratchet, ephemeral_private=ephemeral_private, iv=iv
            )
        self._refuse(ratchet=ratchet, ephemeral_private=ephemeral_private)
        if self.type == DestinationType.GROUP:
            start = optional_of_size(iv, "iv", AES_BLOCK)
            return self._group_token().seal(plain, iv=start)
        self._refuse(iv=iv)
        return plain

    def open(
        self,
        ciphertext: Buffer,
        /,
        *,
        ratchets: Sequence[Buffer] = (),
        enforce_ratchets: bool = False,
    ) -> Decrypted:
        """The inverse of :meth:`seal`; ratchets are private keys, newest first."""
        enforced = to_bool(enforce_ratchets, "enforce_ratchets")
        data = bytes(to_bytes(ciphertext, "ciphertext"))
        if self.identity is not None and self.type == DestinationType.SINGLE:
            return self.identity.decrypt(data, ratchets=ratchets, enforce_ratchets=enforced)
        self._refuse(enforce_ratchets=enforced or None, ratchets=ratchets or None)
        if self.type == DestinationType.GROUP:
            return Decrypted(self._group_token().open(data), None, None)
        return Decrypted(data, None, None)

    def _group_token(self) -> Token:
        if self.group_key is None:
            raise KeyMissingError("the destination holds no group key")
        return Token(self.group_key)

    def _refuse(self, **options: object) -> None:
        for name, value in options.items():
            if value is not None:
                raise ValueError(f"a {DestinationType(self.type).name} destination has no {name}")

    def packet(
        self,
        plaintext: Buffer,
        /,
        *,
        context: int = 0,
        ratchet: Buffer | None = None,
        ephemeral_private: Buffer | None = None,
        iv: Buffer | None = None,
    ) -> Packet:
        """A DATA packet, sealed unless it travels in clear; each call is fresh ciphertext.

        The options are those of :meth:`seal` (RNS 1, 4.5).
        """
        to_int(context, "context", 0, 255)
        if travels_in_clear(PacketType.DATA, self.type, context):
            payload = bytes(to_bytes(plaintext, "plaintext"))
            self._refuse(ratchet=ratchet, ephemeral_private=ephemeral_private, iv=iv)
        else:
            payload = self.seal(
                plaintext, ratchet=ratchet, ephemeral_private=ephemeral_private, iv=iv
            )
        return Packet(
            destination=self.hash, payload=payload, destination_type=self.type, context=context
        )

    def announce(
        self,
        app_data: Buffer | None = DEFAULT,
        /,
        *,
        ratchet: Buffer | None = None,
        emitted: int | None = None,
        random: Buffer | None = None,
        path_response: bool = False,
    ) -> Announce:
        """A signed announce of this destination (RNS 1, 5); only SINGLE and IN have one.

        ``app_data`` left out means the default, which may be a function (RNS 1, 3.6).
        """
        if self.type != DestinationType.SINGLE or self.direction != "IN":
            raise ValueError("only a SINGLE destination of direction IN is announced")
        assert self.identity is not None
        private_identity(self.identity, "identity")
        if app_data is DEFAULT:
            default = self._default_app_data
            app_data = default() if callable(default) else default
        return Announce.create(
            self.identity,
            self.name,
            app_data=app_data,
            ratchet=ratchet,
            emitted=emitted,
            random=random,
            path_response=path_response,
        )

    def __repr__(self) -> str:
        kind = DestinationType(self.type).name
        return f"<Destination {kind} {self.direction} {self.name} {self.hash.hex()}>"


def check_rules(identity: Identity | None, kind: int, direction: str, strategy: int) -> None:
    """Which combinations exist (RNS 1, 3.2)."""
    if identity is not None and not isinstance(identity, Identity):
        raise TypeError(f"identity must be Identity or None, not {type(identity).__name__}")
    to_int(kind, "type", DestinationType.SINGLE, DestinationType.PLAIN)
    to_int(strategy, "proof_strategy", ProofStrategy.NONE, ProofStrategy.ALL)
    if to_text(direction, "direction") not in ("IN", "OUT"):
        raise ValueError(f"direction must be 'IN' or 'OUT', not {direction!r}")
    if kind == DestinationType.PLAIN and identity is not None:
        raise ValueError("a PLAIN destination has no identity")
    if kind != DestinationType.PLAIN and direction == "OUT" and identity is None:
        raise ValueError("an OUT destination needs an identity")


def group_key_of(kind: int, direction: str, key: Buffer | None) -> bytes | None:
    """The given group key, or a new one for an IN destination (RNS 1, 3.3)."""
    if kind != DestinationType.GROUP:
        if key is not None:
            raise ValueError("only a GROUP destination has a group key")
        return None
    if key is None:
        return secrets.token_bytes(TOKEN_KEY_SIZE) if direction == "IN" else None
    data = bytes(to_bytes(key, "group_key"))
    if len(data) not in (TOKEN_KEY_SIZE, TOKEN_KEY_SIZE_128):
        raise ValueError(f"group_key must be 32 or 64 bytes, not {len(data)}")
    return data
