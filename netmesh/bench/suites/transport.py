"""A transport node: what its engine carries on and takes up for others."""

from __future__ import annotations

import functools

from netmesh.bench.kit import fixtures
from netmesh.bench.model import Kind, Pair, Row, Suite
from netmesh.pure import crypto as pure_crypto

PATHS = 100_000
"""Paths that the node knows, and destinations that the packets go to in turn."""

_NOT_PLAYED = dict.fromkeys(
    ("lxmf-rs", "rns-rs", "beechat", "lxmf-rs-nodelay"), "its adapter plays no hub"
)
_SLOW = {"rns-internal": "the same as with OpenSSL: a hub has nothing to decipher"}
_NO_SAVES = {"rns-openssl": "saves its tables when it ends and every twelve hours"}

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
    "socket. The rows hub.* are processes: a program of bare sockets sends to a transport node "
    "over loopback TCP and takes from it on another connection, the same program for every "
    "stack, and each byte is compared. rns runs what leaves something at the hub, and crowds, "
    "with a fiftieth.",
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
        Row(
            id="hub.forward.147",
            title="forward between two connections, 147 B",
            operation="a packet through the hub, in bursts of a tenth of a second with a window "
            "of 4,096 packets (256 for a hub below 50,000 a second)",
            pair=Pair("hub", samples=(10, 2), blocks=(4, 1), warm=1, load="forward"),
            absent=_NOT_PLAYED | _SLOW,
            quick=False,
        ),
        Row(
            id="hub.crowd",
            title="forward beside a crowd",
            operation="a single packet through a hub with 1,000 clients, one of which sends 200 "
            "new announces a second; from the write to the arrival",
            pair=Pair(
                "hub",
                samples=(2000, 20),
                blocks=(3, 1),
                warm=5,
                pace_us=2000,
                load="crowd",
                held=(1000, 20),
            ),
            absent=_NOT_PLAYED | _SLOW,
            quick=False,
        ),
        Row(
            id="hub.steady",
            title="forward with 100,000 paths",
            operation="a single packet through a hub that knows 100,000 paths",
            pair=Pair(
                "hub",
                samples=(4000, 50),
                blocks=(3, 1),
                warm=5,
                pace_us=500,
                load="steady",
                held=(PATHS - 100, 200),
            ),
            absent=_NOT_PLAYED | _SLOW,
            quick=False,
        ),
        Row(
            id="hub.save",
            title="forward while they are saved",
            operation="the same while the hub saves its tables without a pause",
            pair=Pair(
                "hub",
                samples=(4000, 50),
                blocks=(3, 1),
                warm=5,
                pace_us=500,
                load="save",
                held=(PATHS - 100, 200),
            ),
            absent=_NOT_PLAYED | _SLOW | _NO_SAVES,
            quick=False,
        ),
        Row(
            id="hub.destinations",
            title="learn 100,000 destinations",
            operation="an announce with 32 bytes of application data written to the hub's socket; "
            "the memory of the server is what all of them take there",
            pair=Pair(
                "hub",
                samples=(PATHS, 200),
                blocks=(1, 1),
                warm=0,
                timeout_s=240,
                load="destinations",
            ),
            absent=_NOT_PLAYED | _SLOW,
            quick=False,
        ),
        Row(
            id="hub.clients",
            title="1,000 idle clients",
            operation="a TCP connection to the hub; the memory of the server is what each takes "
            "there",
            pair=Pair(
                "hub",
                samples=(1000, 50),
                blocks=(1, 1),
                warm=0,
                timeout_s=60,
                load="clients",
            ),
            absent=_NOT_PLAYED | _SLOW,
            quick=False,
        ),
    ),
    offers=lambda _api: {},
)
