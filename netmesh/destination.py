"""Destinations: named endpoints, their names and their addresses (RNS 1, 3).

Example:
    >>> from netmesh import Identity
    >>> from netmesh.destination import Destination, destination_hash
    >>> alice = Identity()
    >>> inbox = Destination(alice, "example.inbox")
    >>> inbox.hash == destination_hash(alice.hash, "example.inbox")
    True
    >>> Destination(None, "example.beacon", type=2).full_name
    'example.beacon'
"""

from __future__ import annotations

from netmesh._core import (
    Destination,
    check_request_handler,
    destination_hash,
    expand_name,
    join_name,
    path_hash,
    split_name,
)

__all__ = [
    "Destination",
    "check_request_handler",
    "destination_hash",
    "expand_name",
    "join_name",
    "path_hash",
    "split_name",
]
