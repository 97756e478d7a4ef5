"""Identities, their addresses and ratchets (RNS 1, 2 and 3.5; LXMF 0.2)."""

from netmesh.pure._addresses import DestinationHash, IdentityHash
from netmesh.pure._identity import Decrypted, Identity, ratchet_id
from netmesh.pure._ratchets import Ratchets, remembered_ratchet_pack, remembered_ratchet_unpack

__all__ = [
    "Decrypted",
    "DestinationHash",
    "Identity",
    "IdentityHash",
    "Ratchets",
    "ratchet_id",
    "remembered_ratchet_pack",
    "remembered_ratchet_unpack",
]
