"""Automatic discovery of peers on a local network (RNS 1, 7.5 and 7.6; RNS 2, 5.7)."""

from __future__ import annotations

import re

from netmesh.pure._wire import to_text
from netmesh.pure.crypto import sha256

__all__ = ["descope", "discovery_token", "interface_hash", "multicast_group"]


def multicast_group(group_id: str, /, *, scope: str = "2", address_type: str = "1") -> str:
    """The multicast address of a group as peers write it (RNS 1, 7.5; RNS 2, 5.7).

    Scopes: 2 link, 4 admin, 5 site, 8 organisation, e global. Types: 0 permanent,
    1 temporary.
    """
    digest = sha256(to_text(group_id, "group_id").encode())
    to_text(scope, "scope")
    to_text(address_type, "address_type")
    if scope not in tuple("2458e"):
        raise ValueError(f"scope must be one of 2, 4, 5, 8, e, not {scope!r}")
    if address_type not in ("0", "1"):
        raise ValueError(f"address_type must be 0 or 1, not {address_type!r}")
    groups = [int.from_bytes(digest[at : at + 2], "big") for at in range(2, 14, 2)]
    return f"ff{address_type}{scope}:0:" + ":".join(f"{group:02x}" for group in groups)


def discovery_token(group_id: str, link_local: str, /) -> bytes:
    """H(group id | link-local address text): the whole datagram, 32 bytes (RNS 2, 5.7)."""
    return sha256((to_text(group_id, "group_id") + to_text(link_local, "link_local")).encode())


def descope(link_local: str, /) -> str:
    """The address without "%eth0" and without a scope number in its second group (RNS 2, 5.7)."""
    text = to_text(link_local, "link_local").partition("%")[0]
    return re.sub(r"^fe80:[0-9a-f]+::", "fe80::", text)


def interface_hash(name: str, /) -> bytes:
    """H(display string of an interface), 32 bytes (RNS 1, 7.6)."""
    return sha256(to_text(name, "name").encode())
