"""Both implementations judge arguments alike: what is refused, and by which exception.

Each call is good as it stands. Then one argument after the other is replaced by each of
many values, and both implementations must take it or refuse it with the same exception
and reason. Wrong types are TypeErrors, values out of range ValueErrors or EncodeErrors.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from differential.support import core, pure

PRIVATE = bytes(range(64))
PLAIN = b"some bytes"
H16, H32 = bytes(range(16)), bytes(range(32))
NAME = "app.aspect"


class Number(int):
    """A subclass of int."""


class Text(str):
    """A subclass of str."""


class Raw(bytes):
    """A subclass of bytes."""


class Index:
    """Usable as an index, and yet no int."""

    def __index__(self) -> int:
        return 3


class Hostile:
    """Fails whatever it is asked."""

    def __bool__(self) -> bool:
        raise LookupError

    __index__ = __float__ = __int__ = __eq__ = __bool__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


WRONG: dict[str, Any] = {
    "None": None,
    "True": True,
    "0": 0,
    "1": 1,
    "-1": -1,
    "5": 5,
    "Number(2)": Number(2),
    "2**31": 2**31,
    "2**32": 2**32,
    "2**63": 2**63,
    "2**64": 2**64,
    "-2**63-1": -(2**63) - 1,
    "10**400": 10**400,
    "1.5": 1.5,
    "-1.5": -1.5,
    "1e300": 1e300,
    "nan": math.nan,
    "inf": math.inf,
    "1j": 1j,
    "empty text": "",
    "text": "text",
    "Text": Text(NAME),
    "surrogate": "\ud800",
    "empty bytes": b"",
    "bytes": PLAIN,
    "Raw": Raw(H16),
    "16 bytes": bytearray(H16),
    "32 bytes": memoryview(H32),
    "64 bytes": PRIVATE,
    "65537 bytes": bytes(65537),
    "strided": memoryview(bytes(64))[::2],
    "array": array("H", range(8)),
    "list": [],
    "list of bytes": [H16],
    "list of objects": [object()],
    "tuple": (PLAIN, None),
    "dict": {},
    "dict of bytes": {b"k": b"v"},
    "set": {1},
    "iterator": iter(()),
    "object": object(),
    "class": int,
    "callable": lambda *_: PLAIN,
    "Index": Index(),
    "Hostile": Hostile(),
}

Call = tuple[Callable[..., Any], list[Any], dict[str, Any]]


class Kit:
    """Objects of one implementation to call things on and with."""

    def __init__(self, m: Any) -> None:
        self.m = m
        self.identity = m.Identity.from_private(PRIVATE)
        self.token = m.Token(PRIVATE)
        self.destination = m.Destination(self.identity, NAME)
        self.announce = m.Announce.create(self.identity, NAME, emitted=5, random=bytes(5))
        self.packet = m.Packet(destination=H16, payload=PLAIN)
        self.request = m.LinkRequest.create(H16, H32, H32)
        self.proof = m.LinkProof.create(H16, self.identity, H32)
        self.message = m.Message.create(self.identity, H16, b"content", timestamp=5.0)
        self.to_self = m.Message.create(
            self.identity, m.delivery_hash(self.identity), b"content", timestamp=5.0
        )
        self.propagated = m.Propagated.create(
            self.to_self, self.identity, ephemeral_private=H32, iv=H16
        )
        self.segmenter = m.Segmenter(
            PLAIN, self.token, random_hash=bytes(4), prefix=bytes(4), iv=H16
        )
        self.advertisement = self.segmenter.advertisement
        self.workblock = m.Workblock(PLAIN, 2)
        self.ifac = m.Ifac(network_name="net")
        self.window = m.WindowProfile()
        self.ratchets = m.Ratchets()
        self.ratchets.rotate(5.0, private=H32)


def crypto_calls(k: Kit) -> dict[str, Call]:
    m = k.m
    return {
        "sha256": (m.sha256, [PLAIN], {}),
        "sha512": (m.sha512, [PLAIN], {}),
        "hmac_sha256": (m.hmac_sha256, [PLAIN, PLAIN], {}),
        "hkdf": (m.hkdf, [5, PLAIN, PLAIN, PLAIN], {}),
        "pkcs7_pad": (m.pkcs7_pad, [PLAIN], {}),
        "pkcs7_unpad": (m.pkcs7_unpad, [bytes(15) + b"\x01"], {}),
        "full_hash": (m.full_hash, [PLAIN], {}),
        "truncated_hash": (m.truncated_hash, [PLAIN], {}),
        "name_hash": (m.name_hash, [NAME], {}),
        "random_hash": (m.random_hash, [H16], {}),
        "sha256_many": (m.sha256_many, [[PLAIN]], {"suffix": PLAIN, "backend": None}),
        "bz2_compress": (m.bz2_compress, [PLAIN], {"level": 1}),
        "bz2_decompress": (m.bz2_decompress, [m.bz2_compress(PLAIN)], {"max_size": 10}),
        "aes_cbc_encrypt": (m.aes_cbc_encrypt, [H16, H16, PLAIN], {"padding": True}),
        "aes_cbc_decrypt": (m.aes_cbc_decrypt, [H16, H16, H16], {"padding": False}),
        "x25519_public": (m.x25519_public, [H32], {}),
        "x25519": (m.x25519, [H32, m.x25519_public(H32)], {}),
        "ed25519_public": (m.ed25519_public, [H32], {}),
        "ed25519_sign": (m.ed25519_sign, [H32, PLAIN], {}),
        "ed25519_verify": (m.ed25519_verify, [H32, PLAIN, PRIVATE], {}),
        "Token": (m.Token, [PRIVATE], {}),
        "Token.generate_key": (m.Token.generate_key, ["AES_128_CBC"], {}),
        "Token.size": (m.Token.size, [10], {}),
        "Token.seal": (k.token.seal, [PLAIN], {"iv": H16}),
        "Token.open": (k.token.open, [k.token.seal(PLAIN)], {}),
        "Token.check": (k.token.check, [k.token.seal(PLAIN)], {}),
    }


def identity_calls(k: Kit) -> dict[str, Call]:
    m, identity = k.m, k.identity
    sealed = identity.encrypt(PLAIN)
    return {
        "IdentityHash": (m.IdentityHash, [H16], {}),
        "IdentityHash.from_hex": (m.IdentityHash.from_hex, [H16.hex()], {}),
        "DestinationHash": (m.DestinationHash, [H16], {}),
        "DestinationHash.from_hex": (m.DestinationHash.from_hex, [H16.hex()], {}),
        "Identity.from_private": (m.Identity.from_private, [PRIVATE], {}),
        "Identity.from_public": (m.Identity.from_public, [identity.public_key], {}),
        "Identity.sign": (identity.sign, [PLAIN], {}),
        "Identity.verify": (identity.verify, [PLAIN, identity.sign(PLAIN)], {}),
        "Identity.verify_many": (
            m.Identity.verify_many,
            [[(identity, PLAIN, PRIVATE)]],
            {"threads": 1},
        ),
        "Identity.encrypt": (
            identity.encrypt,
            [PLAIN],
            {"ratchet": m.x25519_public(H32), "ephemeral_private": H32, "iv": H16},
        ),
        "Identity.decrypt": (
            identity.decrypt,
            [sealed],
            {"ratchets": [H32], "enforce_ratchets": False},
        ),
        "ratchet_id": (m.ratchet_id, [H32], {}),
        "Ratchets": (m.Ratchets, [], {"retained": 5, "interval_s": 5.0}),
        "Ratchets.load": (
            m.Ratchets.load,
            [k.ratchets.dump(identity), identity],
            {"retained": 5, "interval_s": 5.0},
        ),
        "Ratchets.dump": (k.ratchets.dump, [identity], {}),
        "Ratchets.rotate": (m.Ratchets().rotate, [5.0], {"private": H32, "force": True}),
        "remembered_ratchet_pack": (m.remembered_ratchet_pack, [H32, 5.0], {}),
        "remembered_ratchet_unpack": (
            m.remembered_ratchet_unpack,
            [m.remembered_ratchet_pack(H32, 5.0)],
            {},
        ),
    }


def destination_calls(k: Kit) -> dict[str, Call]:
    m, out = k.m, m_out(k)
    sealing = {"ratchet": m.x25519_public(H32), "ephemeral_private": H32, "iv": H16}
    return {
        "split_name": (m.split_name, [NAME], {}),
        "join_name": (m.join_name, ["app", "aspect"], {}),
        "expand_name": (m.expand_name, [k.identity.hash, "app", "aspect"], {}),
        "destination_hash": (m.destination_hash, [k.identity.hash, NAME], {}),
        "path_hash": (m.path_hash, ["/page"], {}),
        "check_request_handler": (
            m.check_request_handler,
            ["/page"],
            {"policy": 2, "allowed": [k.identity.hash]},
        ),
        "Destination": (
            m.Destination,
            [None, NAME],
            {
                "type": 1,
                "direction": "IN",
                "group_key": H32,
                "proof_strategy": 0x21,
                "default_app_data": PLAIN,
            },
        ),
        "Destination.seal": (out.seal, [PLAIN], sealing),
        "Destination.open": (
            k.destination.open,
            [out.seal(PLAIN)],
            {"ratchets": [H32], "enforce_ratchets": False},
        ),
        "Destination.packet": (out.packet, [PLAIN], {"context": 0, **sealing}),
        "Destination.announce": (
            k.destination.announce,
            [PLAIN],
            {"ratchet": H32, "emitted": 5, "random": bytes(5), "path_response": False},
        ),
        "Announce.create": (
            m.Announce.create,
            [k.identity, NAME],
            {
                "app_data": PLAIN,
                "ratchet": H32,
                "emitted": 5,
                "random": bytes(5),
                "path_response": False,
                "hops": 1,
                "transport_id": H16,
            },
        ),
        "Announce.unpack": (m.Announce.unpack, [k.announce.raw], {}),
        "Announce.matches": (k.announce.matches, [NAME], {}),
        "Announce.validate": (
            k.announce.validate,
            [],
            {"signature_only": False, "expected_public_key": k.announce.public_key},
        ),
        "Announce.validate_many": (m.Announce.validate_many, [[k.announce]], {"threads": 1}),
        "AnnounceCache": (m.AnnounceCache, [], {"capacity": 8, "key": H16}),
        "AnnounceCache.validate": (
            m.AnnounceCache().validate,
            [k.announce.raw],
            {"expected_public_key": k.announce.public_key},
        ),
        "PathResponses": (m.PathResponses, [k.destination], {"lifetime_s": 30.0, "capacity": 4}),
        "PathResponses.announce": (
            lambda *args, **named: m.PathResponses(k.destination).announce(*args, **named),
            [H16, 5.0],
            {},
        ),
    }


def m_out(k: Kit) -> Any:
    """The destination as its peers have it."""
    return k.m.Destination(k.identity.public_only(), NAME, direction="OUT")


def packet_calls(k: Kit) -> dict[str, Call]:
    m = k.m
    proof = m.proof_payload(k.identity, H32)
    return {
        "Packet": (
            m.Packet,
            [],
            {
                "destination": H16,
                "payload": PLAIN,
                "packet_type": 1,
                "destination_type": 0,
                "header_type": 1,
                "context_flag": False,
                "transport_type": 1,
                "hops": 1,
                "context": 0,
                "transport_id": H16,
                "mtu": 500,
            },
        ),
        "Packet.unpack": (m.Packet.unpack, [k.packet.raw], {}),
        "Packet.replace": (k.packet.replace, [], {"hops": 2}),
        "pack_packet": (m.pack_packet, [H16, PLAIN, 0, 0, 0, None, 500], {}),
        "packet_hash": (m.packet_hash, [k.packet.raw], {}),
        "travels_in_clear": (m.travels_in_clear, [0, 0, 0], {}),
        "proof_payload": (m.proof_payload, [k.identity, H32], {"implicit": True}),
        "proof_packet": (m.proof_packet, [k.identity, H32], {"implicit": True}),
        "link_proof_packet": (m.link_proof_packet, [k.identity, H32, H16], {}),
        "verify_proof": (m.verify_proof, [k.identity, proof, H32], {"link": False}),
        **{
            name: (getattr(m, name), [PLAIN], {})
            for name in ("hdlc_escape", "hdlc_frame", "kiss_escape", "hdlc_unescape")
        },
        "hdlc_unframe": (m.hdlc_unframe, [m.hdlc_frame(PLAIN)], {}),
        "kiss_frame": (m.kiss_frame, [PLAIN], {"command": 0}),
        "kiss_unescape": (m.kiss_unescape, [PLAIN], {}),
        "kiss_unframe": (m.kiss_unframe, [m.kiss_frame(PLAIN)], {}),
        "HdlcDecoder": (m.HdlcDecoder, [], {"min_bytes": 1, "max_bytes": 64}),
        "HdlcDecoder.feed": (m.HdlcDecoder().feed, [PLAIN], {}),
        "KissDecoder": (m.KissDecoder, [], {"max_bytes": 64}),
        "KissDecoder.feed": (m.KissDecoder().feed, [PLAIN], {}),
        "Ifac": (m.Ifac, [], {"network_name": "net", "passphrase": "phrase", "size": 8}),
        "Ifac.from_key": (m.Ifac.from_key, [PRIVATE], {"size": 8}),
        "Ifac.tag": (k.ifac.tag, [PLAIN], {}),
        "Ifac.mask": (k.ifac.mask, [PLAIN], {}),
        "Ifac.unmask": (k.ifac.unmask, [k.ifac.mask(PLAIN)], {}),
        "Ifac.try_unmask": (k.ifac.try_unmask, [k.ifac.mask(PLAIN)], {}),
    }


def link_calls(k: Kit) -> dict[str, Call]:
    m = k.m
    signalling = {"mtu": 500, "mode": 1}
    sealed = m.link_packet(H16, k.token, PLAIN)
    return {
        "signalling_pack": (m.signalling_pack, [500, 1], {}),
        "signalling_unpack": (m.signalling_unpack, [m.signalling_pack(500, 1)], {}),
        "link_request_payload": (m.link_request_payload, [H32, H32], signalling),
        "link_id": (m.link_id, [k.request.packet], {}),
        "LinkRequest.create": (m.LinkRequest.create, [H16, H32, H32], signalling),
        "LinkRequest.unpack": (m.LinkRequest.unpack, [k.request.packet], {}),
        "LinkProof.create": (m.LinkProof.create, [H16, k.identity, H32], signalling),
        "LinkProof.unpack": (m.LinkProof.unpack, [k.proof.packet], {}),
        "LinkProof.signed_data": (k.proof.signed_data, [k.identity], {}),
        "LinkProof.verify": (k.proof.verify, [k.identity], {"mode": 1, "mtu_max": 500}),
        "link_session_key": (m.link_session_key, [H32, H32, H16], {"mode": 1}),
        "link_packet": (
            m.link_packet,
            [H16, k.token, PLAIN],
            {"context": 0, "packet_type": 0, "iv": H16, "mtu": 500},
        ),
        "link_open": (m.link_open, [k.token, sealed], {}),
        "rtt_pack": (m.rtt_pack, [0.5], {}),
        "rtt_unpack": (m.rtt_unpack, [m.rtt_pack(0.5)], {}),
        "identify_pack": (m.identify_pack, [H16, k.identity], {}),
        "identify_unpack": (m.identify_unpack, [H16, m.identify_pack(H16, k.identity)], {}),
        "keepalive_payload": (m.keepalive_payload, [True], {}),
        "close_payload": (m.close_payload, [H16], {}),
        "is_close": (m.is_close, [H16, H16], {}),
        "PathRequest": (m.PathRequest, [H16], {"transport_id": H16, "tag": PLAIN}),
        "PathRequest.unpack": (m.PathRequest.unpack, [H32], {}),
        "TunnelSynthesis.create": (m.TunnelSynthesis.create, [k.identity, H32], {"random": H16}),
        "TunnelSynthesis.unpack": (m.TunnelSynthesis.unpack, [PLAIN], {}),
        "Request": (m.Request, ["/page", None], {"timestamp": 5.0}),
        "Request.unpack": (m.Request.unpack, [m.Request("/page").pack()], {}),
        "Request.id_of_packet": (m.Request.id_of_packet, [k.packet], {}),
        "Request.id_of_resource": (m.Request.id_of_resource, [PLAIN], {}),
        "Response": (m.Response, [H16, None], {}),
        "Response.unpack": (m.Response.unpack, [m.Response(H16, None).pack()], {}),
        "Ext": (m.Ext, [5, PLAIN], {}),
        "packb": (m.packb, [5], {"depth_max": 5}),
        "unpackb": (
            m.unpackb,
            [b"\x05"],
            {"depth_max": 5, "elements_max": 5, "trailing": True},
        ),
        "canonical": (m.canonical, [b"\x05"], {}),
        "Envelope": (m.Envelope, [5, 5, PLAIN], {}),
        "Envelope.unpack": (m.Envelope.unpack, [m.Envelope(5, 5, PLAIN).pack()], {}),
        "StreamData": (m.StreamData, [5, PLAIN], {"eof": True, "compressed": False}),
        "StreamData.unpack": (m.StreamData.unpack, [PLAIN], {}),
        "StreamData.content": (m.StreamData(5, PLAIN).content, [], {"max_size": 100}),
        "stream_chunk": (m.stream_chunk, [5, PLAIN, 400], {"eof": True}),
    }


def resource_calls(k: Kit) -> dict[str, Call]:
    m = k.m
    assembler = m.Assembler(k.advertisement)
    assembler.add(k.segmenter.part(0))
    return {
        "Advertisement": (
            m.Advertisement,
            [],
            {
                "transfer_bytes": 100,
                "data_bytes": 100,
                "parts": 1,
                "hash": H32,
                "random_hash": bytes(4),
                "original_hash": H32,
                "segment": 1,
                "segments": 1,
                "request_id": H16,
                "flags": 1,
                "hashmap": bytes(4),
            },
        ),
        "Advertisement.unpack": (m.Advertisement.unpack, [k.advertisement.pack()], {}),
        "advertisement_flags": (
            m.advertisement_flags,
            [],
            dict.fromkeys(
                ("encrypted", "compressed", "split", "request", "response", "metadata"), False
            ),
        ),
        "PartRequest": (m.PartRequest, [H32, H16], {"last_map_hash": bytes(4)}),
        "PartRequest.unpack": (m.PartRequest.unpack, [m.PartRequest(H32, H16).pack()], {}),
        "HashmapUpdate": (m.HashmapUpdate, [H32, 0, H16], {}),
        "HashmapUpdate.unpack": (m.HashmapUpdate.unpack, [m.HashmapUpdate(H32, 0, H16).pack()], {}),
        "resource_proof_pack": (m.resource_proof_pack, [H32, PLAIN], {}),
        "resource_proof_unpack": (m.resource_proof_unpack, [PRIVATE], {}),
        "map_hash": (m.map_hash, [PLAIN, bytes(4)], {}),
        "segment_plan": (m.segment_plan, [100, 10], {}),
        "metadata_pack": (m.metadata_pack, [5], {}),
        "metadata_unpack": (m.metadata_unpack, [m.metadata_pack(5)], {}),
        "Segmenter": (
            m.Segmenter,
            [PLAIN, k.token],
            {
                "sdu": 464,
                "compression": "off",
                "random_hash": bytes(4),
                "prefix": bytes(4),
                "iv": H16,
                "data_bytes": 10,
                "segment": 1,
                "segments": 1,
                "original_hash": H32,
                "request_id": H16,
                "is_response": True,
                "has_metadata": False,
            },
        ),
        "Segmenter.part": (k.segmenter.part, [0], {}),
        "Segmenter.hashmap_update": (k.segmenter.hashmap_update, [0], {}),
        "Segmenter.serve": (
            k.segmenter.serve,
            [m.PartRequest(k.segmenter.hash, k.segmenter.hashmap)],
            {},
        ),
        "Segmenter.check_proof": (k.segmenter.check_proof, [PRIVATE], {}),
        "cut": (m.cut, [PLAIN, 5], {}),
        "join": (m.join, [[PLAIN]], {}),
        "Assembler": (m.Assembler, [k.advertisement], {"sdu": 464}),
        "Assembler.add": (m.Assembler(k.advertisement).add, [PLAIN], {"window": 5}),
        "Assembler.update": (m.Assembler(k.advertisement).update, [PLAIN], {}),
        "Assembler.next_request": (m.Assembler(k.advertisement).next_request, [5], {}),
        "Assembler.finish": (assembler.finish, [k.token], {"max_size": 100}),
    }


def message_calls(k: Kit) -> dict[str, Call]:
    m = k.m
    stamped = m.Message.create(k.identity, H16, stamp=H32)
    return {
        "Message.create": (
            m.Message.create,
            [k.identity, H16, "content"],
            {"title": "title", "fields": {1: 2}, "timestamp": 5.0, "stamp": None, "ticket": None},
        ),
        "Message.encode": (
            m.Message.encode,
            [H16, H16, PRIVATE],
            {
                "timestamp": 5.0,
                "title": PLAIN,
                "content": PLAIN,
                "fields": b"\x80",
                "stamp": H32,
            },
        ),
        "Message.unpack": (
            m.Message.unpack,
            [k.message.packed],
            {"verify": False, "source": k.identity},
        ),
        "Message.unpack_opportunistic": (
            m.Message.unpack_opportunistic,
            [H16, k.message.opportunistic],
            {},
        ),
        "Message.verify": (k.message.verify, [k.identity], {}),
        "Message.with_stamp": (k.message.with_stamp, [H32], {}),
        "Message.stamp_valid": (stamped.stamp_valid, [0], {"tickets": [H16]}),
        "representation": (m.representation, [2, 100], {}),
        "delivery_hash": (m.delivery_hash, [k.identity], {}),
        "ticket_stamp": (m.ticket_stamp, [H16, H32], {}),
        "Propagated.create": (
            m.Propagated.create,
            [k.to_self, k.identity],
            {"ratchet": m.x25519_public(H32), "ephemeral_private": H32, "iv": H16},
        ),
        "Propagated.from_data": (
            m.Propagated.from_data,
            [k.propagated.lxmf_data],
            {"stamp": H32},
        ),
        "Propagated.from_stamped": (
            m.Propagated.from_stamped,
            [k.propagated.with_stamp(H32).stamped],
            {},
        ),
        "Propagated.with_stamp": (k.propagated.with_stamp, [H32], {}),
        "Propagated.stamp_valid": (k.propagated.with_stamp(H32).stamp_valid, [0], {}),
        "Propagated.open": (
            k.propagated.open,
            [k.identity],
            {"ratchets": [H32], "enforce_ratchets": False},
        ),
        "container_pack": (m.container_pack, [[k.propagated.with_stamp(H32)], 5.0], {}),
        "container_unpack": (
            m.container_unpack,
            [m.container_pack([PLAIN], 5.0)],
            {"messages_max": 5},
        ),
        "paper_pack": (m.paper_pack, [k.propagated], {}),
        "paper_uri": (m.paper_uri, [k.propagated], {}),
        "paper_uri_unpack": (m.paper_uri_unpack, [m.paper_uri(k.propagated)], {}),
        "DeliveryAppData": (
            m.DeliveryAppData,
            [],
            {"display_name": "name", "stamp_cost": 5, "functionality": (0,)},
        ),
        "DeliveryAppData.unpack": (m.DeliveryAppData.unpack, [PLAIN], {}),
        "PropagationAppData": (
            m.PropagationAppData,
            [],
            {
                "time": 5,
                "active": True,
                "transfer_limit_kb": 5,
                "sync_limit_kb": 5,
                "stamp_cost": 5,
                "flexibility": 5,
                "peering_cost": 5,
                "name": "name",
                "version": "1",
                "implementation": "own",
            },
        ),
        "PropagationAppData, whole map": (
            m.PropagationAppData,
            [],
            {
                **dict.fromkeys(("time", "stamp_cost", "flexibility", "peering_cost"), 5),
                **dict.fromkeys(("transfer_limit_kb", "sync_limit_kb"), 5.5),
                "active": True,
                "metadata": {1: b"name"},
            },
        ),
        "PropagationAppData.unpack": (m.PropagationAppData.unpack, [PLAIN], {}),
        "Workblock": (m.Workblock, [PLAIN, 2], {}),
        "Workblock.digest": (k.workblock.digest, [H32], {}),
        "Workblock.value": (k.workblock.value, [H32], {}),
        "Workblock.valid": (k.workblock.valid, [H32, 0], {}),
        "Workblock.search": (
            k.workblock.search,
            [1],
            {
                "threads": 1,
                "start": H32,
                "timeout_s": 5.0,
                "cancel": None,
                "progress": None,
                "backend": None,
            },
        ),
    }


def decision_calls(k: Kit) -> dict[str, Call]:
    m = k.m
    return {
        "mtu_for_bitrate": (m.mtu_for_bitrate, [1000], {}),
        "link_mdu": (m.link_mdu, [500], {}),
        "resource_sdu": (m.resource_sdu, [500], {}),
        "interface_defaults": (m.interface_defaults, ["tcp"], {}),
        "keepalive_interval": (m.keepalive_interval, [0.5], {}),
        "stale_time": (m.stale_time, [0.5], {}),
        "first_hop_timeout": (m.first_hop_timeout, [1000], {}),
        "establishment_timeout": (m.establishment_timeout, [2, 1000], {"initiator": True}),
        "receipt_timeout": (m.receipt_timeout, [2, 1000], {}),
        "link_receipt_timeout": (m.link_receipt_timeout, [0.5], {}),
        "request_timeout": (m.request_timeout, [0.5], {}),
        "channel_timeout": (m.channel_timeout, [0.5, 1, 2], {}),
        "channel_window": (m.channel_window, [0.5], {}),
        "channel_window_delivered": (
            m.channel_window_delivered,
            [(2, 5, 2, 4, 0, 0), 0.5],
            {},
        ),
        "channel_window_timed_out": (m.channel_window_timed_out, [(2, 5, 2, 4, 0, 0)], {}),
        "medium_path_timeout": (m.medium_path_timeout, [1000], {}),
        "discovery_timeout": (m.discovery_timeout, [1000], {}),
        "mail_round_trip": (m.mail_round_trip, [1000], {}),
        "mail_slow_path": (m.mail_slow_path, [1000], {}),
        "mail_path_wait": (m.mail_path_wait, [1000], {}),
        "mail_path_request": (m.mail_path_request, [9.5, 1000], {}),
        "mail_schedule": (
            m.mail_schedule,
            [1000, 2],
            {"after_path_request": True, "jitter": 0.5},
        ),
        "mail_packet_step": (
            m.mail_packet_step,
            [2, 5],
            {"has_path": True, "sent_on_path": False},
        ),
        "mail_link_step": (m.mail_link_step, [2, 5], {"has_path": True}),
        "rnode_bitrate": (m.rnode_bitrate, [8, 5, 125000], {}),
        "path_lifetime": (m.path_lifetime, [1], {}),
        "announce_cap_delay": (m.announce_cap_delay, [200, 1000, 0.02], {}),
        "announce_accepted": (
            m.announce_accepted,
            [],
            {
                "announce_hops": 2,
                "announce_blob": bytes(10),
                "existing_hops": 3,
                "existing_blobs": [bytes(10)],
                "existing_expired": False,
                "unresponsive": False,
                "gravity": 0,
                "existing_gravity": 0,
            },
        ),
        "way_preferred": (
            m.way_preferred,
            [],
            {
                "emitted": 9,
                "hops": 3,
                "other_emitted": 9,
                "other_hops": 3,
                "gravity": 0,
                "other_gravity": 0,
                "bitrate": 5.0,
                "other_bitrate": 5.0,
            },
        ),
        "announce_propagates": (
            m.announce_propagates,
            [],
            {
                "out_mode": 1,
                "source_mode": 1,
                "local": False,
                "has_path": True,
                "from_internal": True,
                "source_to_internal": None,
                "hops": 1,
            },
        ),
        "searches_unknown_path": (
            m.searches_unknown_path,
            [],
            {"mode": 1, "recursive": False, "out_mode": None},
        ),
        "multicast_group": (
            m.multicast_group,
            ["reticulum"],
            {"scope": "2", "address_type": "1"},
        ),
        "discovery_token": (m.discovery_token, ["reticulum", "fe80::1"], {}),
        "descope": (m.descope, ["fe80::1%eth0"], {}),
        "interface_hash": (m.interface_hash, ["name"], {}),
        "WindowProfile": (
            m.WindowProfile,
            [],
            {
                "window": 4,
                "window_min": 2,
                "window_max": 10,
                "fast_rounds": 0,
                "very_slow_rounds": 0,
            },
        ),
        "WindowProfile.first_part": (k.window.first_part, [0.5], {}),
        "WindowProfile.round_complete": (k.window.round_complete, [0.5], {}),
    }


GROUPS = (
    crypto_calls,
    identity_calls,
    destination_calls,
    packet_calls,
    link_calls,
    resource_calls,
    message_calls,
    decision_calls,
)


def calls(m: Any) -> dict[str, Call]:
    """All good calls of one implementation."""
    kit = Kit(m)
    return {name: call for group in GROUPS for name, call in group(kit).items()}


CORE, PURE = calls(core), calls(pure)

# A large number is as good as a small one here and takes as long as it says.
AMOUNTS = {("hkdf", 0), ("Workblock", 1)}
# These take any value, and judge it when it is packed.
ANYTHING = {("Request", 1), ("Response", 1)}


def outcome(call: Call, place: int | str | None = None, wrong: Any = None) -> Any:
    """What a call came to with one argument replaced: what is refused, and how."""
    function, positional, named = call
    positional, named = list(positional), dict(named)
    if isinstance(place, int):
        positional[place] = wrong
    elif place is not None:
        named[place] = wrong
    try:
        return type(function(*positional, **named)).__name__
    except Exception as error:
        return type(error).__module__, type(error).__name__, getattr(error, "reason", None)


def places(call: Call) -> list[int | str]:
    """All arguments of a call."""
    return [*range(len(call[1])), *call[2]]


@pytest.mark.parametrize("name", CORE)
def test_a_wrong_argument_is_refused_alike(name: str) -> None:
    assert outcome(CORE[name]) == outcome(PURE[name])
    differences = []
    for place in places(CORE[name]):
        for kind, wrong in WRONG.items():
            if (name, place) in AMOUNTS and isinstance(wrong, int) and wrong > 2**16:
                continue
            found, expected = outcome(CORE[name], place, wrong), outcome(PURE[name], place, wrong)
            if found != expected:
                differences.append(f"{place}={kind}: core {found}, pure {expected}")
    assert differences == []


@pytest.mark.parametrize("name", CORE)
def test_what_is_no_argument_at_all_is_a_type_error(name: str) -> None:
    """Too many, an unknown one, and an object of no use, for every parameter."""
    for call in (CORE[name], PURE[name]):
        function, positional, named = call
        with pytest.raises(TypeError):
            function(*positional, *[PLAIN] * 20, **named)
        with pytest.raises(TypeError):
            function(*positional, **named, nonsense=PLAIN)
        for place in places(call):
            if (name, place) not in ANYTHING:
                assert outcome(call, place, object()) == ("builtins", "TypeError", None)


def test_no_function_and_no_constructor_is_left_out() -> None:
    """Of those that take arguments."""
    without = {
        "Identity",
        "Identity.load",
        "Identity.load_public",
        "Identity.without_keys",
        "StampCancel",
        "stamp",
        "sha256_backends",
    }
    public = {name for name in vars(pure) if name[0] != "_"}
    makers = {
        f"{name}.{member}"
        for name in public
        if isinstance(getattr(pure, name), type)
        for member, value in vars(getattr(pure, name)).items()
        if isinstance(value, classmethod | staticmethod) and member[0] != "_"
    }
    functions = {name for name in public if not isinstance(getattr(pure, name), type)}
    covered = {name.partition(",")[0] for name in CORE}
    assert (functions | makers) - covered - without == set()
