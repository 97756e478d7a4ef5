"""Stamps: proof of work that makes sending cost something (LXMF 6).

A :class:`Workblock` is built once from its material (a message id, a transient id, two
identity hashes); then each try of a search costs one block of SHA-256. Both run without
the GIL. Rounds are 3000 for messages, 1000 for propagation nodes, 25 for peering keys.

Example:
    >>> from netmesh.lxmf.stamp import Workblock
    >>> block = Workblock(bytes(32), 25)
    >>> found = block.search(8)
    >>> block.valid(found.stamp, 8), found.value >= 8, len(found.stamp)
    (True, True, 32)
"""

from __future__ import annotations

from netmesh._core import Stamp, StampCancel, Workblock

__all__ = ["Stamp", "StampCancel", "Workblock"]
