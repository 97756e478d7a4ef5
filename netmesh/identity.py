"""Identities: two key pairs, a hash, encryption to them, and their ratchets (RNS 1, 2).

Private bytes never appear in a repr, are wiped with the object that holds them, and
reach a file only through :meth:`Identity.save` and :meth:`Ratchets.dump`.

Example:
    >>> from netmesh.identity import Identity, Ratchets
    >>> alice, ratchets = Identity(), Ratchets()
    >>> ratchets.rotate()
    True
    >>> sealed = alice.public_only().encrypt(b"hello", ratchet=ratchets.current_public)
    >>> found = alice.decrypt(sealed, ratchets=ratchets.private_keys)
    >>> found.plaintext, found.ratchet_id == ratchets.current_id
    (b'hello', True)
"""

from __future__ import annotations

from netmesh._core import (
    Decrypted,
    DestinationHash,
    Identity,
    IdentityHash,
    Ratchets,
    ratchet_id,
    remembered_ratchet_pack,
    remembered_ratchet_unpack,
)

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
