"""Interface access codes: every packet of an interface authenticated and masked (RNS 1, 6)."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from netmesh.constants import IFAC_SIZE_MAX, IFAC_SIZE_MIN, PRIVATE_SIZE, SIGNATURE_SIZE, PacketFlag
from netmesh.errors import AuthenticationError
from netmesh.pure._addresses import IdentityHash
from netmesh.pure._identity import Identity
from netmesh.pure._wire import Secret, assign, fault, of_size, to_bytes, to_int, to_text
from netmesh.pure.crypto import hkdf, sha256

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Ifac"]

CODEC = "ifac"
LEAD = 2  # header bytes before the code
SALT = bytes.fromhex("adf54d882c9a9b80771eb4995d702d4a3e733391b2a0f53f416d9f907e55cff8")


def derive(network_name: str | None, passphrase: str | None) -> bytes:
    """The 64-byte key of an interface (RNS 1, 6.1); empty text counts as not set."""
    origin = b"".join(sha256(name.encode()) for name in (network_name, passphrase) if name)
    if not origin:
        raise ValueError("network_name, passphrase or both are needed")
    return hkdf(PRIVATE_SIZE, sha256(origin), SALT)


@final
@dataclass(frozen=True, slots=True, init=False)
class Ifac(Secret):
    """Access codes of one interface; ``size`` is the number of code bytes, 1..64."""

    key: bytes = field(repr=False)
    size: int
    _identity: Identity = field(repr=False, compare=False)

    def __init__(
        self, *, network_name: str | None = None, passphrase: str | None = None, size: int = 16
    ) -> None:
        for name, parameter in ((network_name, "network_name"), (passphrase, "passphrase")):
            if name is not None:
                to_text(name, parameter)
        to_int(size, "size", IFAC_SIZE_MIN, IFAC_SIZE_MAX)
        self._fill(derive(network_name, passphrase), size)

    def _fill(self, key: bytes, size: int) -> None:
        assign(self, key=key, size=size, _identity=Identity.from_private(key))

    @classmethod
    def from_key(cls, key: Buffer, /, *, size: int = 16) -> Ifac:
        """From the 64-byte key."""
        to_int(size, "size", IFAC_SIZE_MIN, IFAC_SIZE_MAX)
        ifac = object.__new__(cls)
        ifac._fill(bytes(of_size(key, "key", PRIVATE_SIZE)), size)
        return ifac

    @property
    def identity_hash(self) -> IdentityHash:
        """The hash of the identity whose private keys the key is."""
        return self._identity.hash

    @property
    def public_key(self) -> bytes:
        """The 64 public bytes of that identity."""
        return self._identity.public_key

    @property
    def signature(self) -> bytes:
        """Its signature over H(key), which tools show (RNS 1, 6.1)."""
        return self._identity.sign(sha256(self.key))

    def tag(self, raw: Buffer, /) -> bytes:
        """The code of a packet: the end of its signature (RNS 1, 6.3 step 1).

        Raises:
            DecodeError: TRUNCATED below 2 bytes; VALUE when bit 7 is set already.
        """
        packet = to_bytes(raw, "raw")
        if len(packet) < LEAD:
            raise fault("TRUNCATED", CODEC, "packet", len(packet))
        if packet[0] & PacketFlag.IFAC:
            raise fault("VALUE", CODEC, "flags")
        return self._identity.sign(packet)[SIGNATURE_SIZE - self.size :]

    def mask(self, raw: Buffer, /) -> bytes:
        """The packet with its code inserted, all but the code masked (RNS 1, 6.3)."""
        packet = to_bytes(raw, "raw")
        code = self.tag(packet)
        masked = self._combine(packet[:LEAD] + code + packet[LEAD:], code)
        return bytes([masked[0] | PacketFlag.IFAC]) + masked[1:]

    def _combine(self, data: bytes, code: bytes) -> bytes:
        """Exclusive or with the mask, which leaves the code alone. Its own inverse."""
        mask = hkdf(len(data), code, self.key)
        mixed = bytes(a ^ b for a, b in zip(data, mask, strict=True))
        return mixed[:LEAD] + code + mixed[LEAD + self.size :]

    def unmask(self, data: Buffer, /) -> bytes:
        """The packet in a masked one (RNS 1, 6.4).

        Raises:
            DecodeError: TRUNCATED; MISSING when bit 7 is clear.
            AuthenticationError: AUTH for a wrong code.
        """
        masked = to_bytes(data, "data")
        if len(masked) <= LEAD:
            raise fault("TRUNCATED", CODEC, "packet", len(masked))
        if not masked[0] & PacketFlag.IFAC:
            raise fault("MISSING", CODEC, "flags")
        if len(masked) <= LEAD + self.size:
            raise fault("TRUNCATED", CODEC, "packet", len(masked))
        code = masked[LEAD : LEAD + self.size]
        plain = self._combine(masked, code)
        packet = bytes([plain[0] & ~PacketFlag.IFAC]) + plain[1:LEAD] + plain[LEAD + self.size :]
        if not hmac.compare_digest(self.tag(packet), code):
            raise AuthenticationError("ifac: the access code is wrong")
        return packet

    def try_unmask(self, data: Buffer, /) -> tuple[str, bytes | None]:
        """("OK", packet), or the reason of the error and None."""
        try:
            return "OK", self.unmask(data)
        except AuthenticationError as error:
            return error.reason, None
        except ValueError as error:
            return getattr(error, "reason", "VALUE"), None

    def __repr__(self) -> str:
        return f"<Ifac {self.identity_hash.hex()}, {self.size} bytes>"
