"""Checked by mypy --strict, which refuses the marked lines: two kinds of hashes are two types."""

from __future__ import annotations

from netmesh import DestinationHash, Identity, IdentityHash
from netmesh.lxmf import delivery_hash


def write_to(address: DestinationHash) -> None:
    """A program's own function that wants an address."""


def trust(who: IdentityHash) -> None:
    """A program's own function that wants an identity."""


identity = Identity()
write_to(delivery_hash(identity))
trust(identity.hash)
write_to(identity.hash)  # refused
trust(delivery_hash(identity))  # refused
addresses: list[DestinationHash] = [identity.hash]  # refused
write_to(bytes(16))  # refused
