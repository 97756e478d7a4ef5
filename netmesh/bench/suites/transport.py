"""A transport node: what its engine carries on and takes up for others."""

from __future__ import annotations

import functools

from netmesh.bench.kit import fixtures
from netmesh.bench.model import Kind, Row, Suite
from netmesh.pure import crypto as pure_crypto

PATHS = 100_000
"""Paths that the node knows, and destinations that the packets go to in turn."""

_HEADER_2 = 35
_NUMBER = 8
_TAIL = 64


@functools.cache
def forwarded(index: int, size: int) -> bytes:
    """What a forwarded packet has to show: next hop, destination, the payload's beginning."""
    payload = fixtures.stream("transport.payload", index, size - _HEADER_2)
    return (
        fixtures.stream("transport.next_hop", index, 16)
        + fixtures.stream("transport.destination", index, 16)
        + payload[_NUMBER : _NUMBER + _TAIL]
    )


def _small(_kind: Kind, index: int) -> bytes:
    return forwarded(index, 147)


def _large(_kind: Kind, index: int) -> bytes:
    return forwarded(index, 500)


def _announcer(_kind: Kind, index: int) -> bytes:
    """The public key of the identity whose announce the node took up."""
    keys = fixtures.identity_keys("announce.identity", index)
    return bytes(pure_crypto.x25519_public(keys[:32]) + pure_crypto.ed25519_public(keys[32:]))


SUITE = Suite(
    name="transport",
    title="Transport",
    text="A transport node's engine on one core, without sockets: it knows 100,000 paths and "
    "remembers two generations of 2^20 packet hashes. Each packet is another one, for the next "
    "destination in turn, from one interface to another; frames come 32 at a time, as from a "
    "socket.",
    rows=(
        Row(
            id="transport.forward.147",
            title="forward, 147 B",
            operation="parse, hash, duplicate filter, path, way back, new header, output",
            payload=147,
            fixtures=PATHS,
            evidence=_small,
            quick=False,
        ),
        Row(
            id="transport.forward.500",
            title="forward, 500 B",
            operation="the same with the largest packet",
            payload=500,
            fixtures=PATHS,
            evidence=_large,
            quick=False,
        ),
        Row(
            id="transport.forward.ifac",
            title="forward with access codes, 147 B",
            operation="the same between interfaces with codes of 16 bytes: one is checked, one "
            "made; 4096 packets in turn, each forgotten by the filter before it comes again",
            payload=147,
            fixtures=4096,
            evidence=_small,
            quick=False,
        ),
        Row(
            id="transport.announces",
            title="take up a new announce",
            operation="an announce with 32 bytes of application data for a destination that is not "
            "known: signature, path, known destination, rebroadcast queued; 4096 identities",
            payload=32,
            fixtures=4096,
            evidence=_announcer,
            quick=False,
        ),
    ),
    offers=lambda _api: {},
)
