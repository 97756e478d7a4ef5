"""The link handshake and the small payloads of a link (RNS 2, 1).

Example:
    >>> from netmesh import Identity, Token, crypto
    >>> from netmesh.link import LinkProof, LinkRequest, link_open, link_packet, link_session_key
    >>> server, ours, theirs = Identity(), crypto.sha256(b"ours"), crypto.sha256(b"theirs")
    >>> request = LinkRequest.create(
    ...     bytes(16), crypto.x25519_public(ours), crypto.ed25519_public(bytes(32))
    ... )
    >>> proof = LinkProof.create(request.link_id, server, crypto.x25519_public(theirs))
    >>> proof.verify(server.public_only())
    True
    >>> token = Token(link_session_key(ours, proof.x25519_public, request.link_id))
    >>> packet = link_packet(request.link_id, token, b"hello")
    >>> link_open(link_session_key(theirs, request.x25519_public, request.link_id), packet)
    b'hello'
"""

from __future__ import annotations

from netmesh._core import (
    LinkProof,
    LinkRequest,
    close_payload,
    identify_pack,
    identify_unpack,
    is_close,
    keepalive_payload,
    link_id,
    link_open,
    link_packet,
    link_request_payload,
    link_session_key,
    rtt_pack,
    rtt_unpack,
    signalling_pack,
    signalling_unpack,
)

__all__ = [
    "LinkProof",
    "LinkRequest",
    "close_payload",
    "identify_pack",
    "identify_unpack",
    "is_close",
    "keepalive_payload",
    "link_id",
    "link_open",
    "link_packet",
    "link_request_payload",
    "link_session_key",
    "rtt_pack",
    "rtt_unpack",
    "signalling_pack",
    "signalling_unpack",
]
