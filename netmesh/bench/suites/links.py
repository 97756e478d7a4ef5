"""The link handshake, both sides in one process."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, require, same
from netmesh.bench.model import Api, Kind, Row, Suite
from netmesh.pure import crypto as pure_crypto

RTT_S = 0.01
_LRRTT = 0xFE


@functools.cache
def _library_signature(number: int) -> bytes:
    seed = fixtures.stream("library.seed", number, 32)
    return bytes(pure_crypto.ed25519_sign(seed, fixtures.stream("library.link", number, 83)))


def _evidence(kind: Kind, index: int) -> bytes:
    """What was sent over the link; of the curve operations alone, the signature."""
    if kind == "library":
        return _library_signature(index)
    return fixtures.stream("link.probe", index, 32)


def _handshake(api: Api) -> Any:
    """A function that opens a link to an identity and destination hash over wire bytes.

    It gives the link id, the initiator's token, the responder's token, and the round-trip time
    as received.
    """
    crypto, link, packets = api.crypto, api.link, api.packet
    random = os.urandom

    def open_link(owner: Any, destination: Any) -> tuple[bytes, Any, Any, float]:
        mine, seed = random(32), random(32)
        asked = link.LinkRequest.create(
            destination, crypto.x25519_public(mine), crypto.ed25519_public(seed)
        )
        request = link.LinkRequest.unpack(asked.packet.raw)
        theirs = random(32)
        proof_raw = link.LinkProof.create(
            request.link_id,
            owner,
            crypto.x25519_public(theirs),
            mtu=request.mtu,
            mode=request.mode,
        ).packet.raw
        their_key = link.link_session_key(theirs, request.x25519_public, request.link_id)
        responder = crypto.Token(their_key)
        proof = link.LinkProof.unpack(proof_raw)
        require(proof.verify(owner), "the proof was refused")
        link_id = asked.link_id
        initiator = crypto.Token(link.link_session_key(mine, proof.x25519_public, link_id))
        rtt = link.link_packet(link_id, initiator, link.rtt_pack(RTT_S), context=_LRRTT)
        received = packets.Packet.unpack(rtt.raw)
        seconds = link.rtt_unpack(link.link_open(responder, received))
        return link_id, initiator, responder, seconds

    return open_link


def _offers(api: Api) -> dict[str, Offer]:
    def prepare() -> Runner:
        items = []
        for number in range(fixtures.COUNT):
            keys = fixtures.identity_keys("link.owner", number)
            owner = api.identity.Identity.from_private(keys)
            name = fixtures.ANNOUNCED_NAME
            items.append((owner, api.destination.destination_hash(owner.hash, name)))
        open_link = _handshake(api)

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for owner, destination in items:
                found = open_link(owner, destination)
            return found

        def check(index: int, found: tuple[bytes, Any, Any, float]) -> bytes:
            _, initiator, responder, seconds = found
            same("round-trip time", seconds, RTT_S)
            opened = bytes(responder.open(initiator.seal(_evidence("python", index))))
            same("text over the link", opened, _evidence("python", index))
            return opened

        return Operation(items, loop, check)

    return {
        "link.handshake.both": Offer(
            "LinkRequest, LinkProof, link_session_key and the RTT packet, every packet through "
            "its wire bytes: both sides until both are active",
            prepare,
        )
    }


SUITE = Suite(
    name="links",
    title="Links",
    text="Both sides of a handshake in one process, without sockets: three new key pairs, two "
    "key agreements, a signature and its check. 64 destinations in turn.",
    rows=(
        Row(
            id="link.handshake.both",
            title="handshake, both sides",
            operation="link request, proof and round-trip packet, until both sides are active",
            evidence=_evidence,
        ),
    ),
    offers=_offers,
)
