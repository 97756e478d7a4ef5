"""Looks for leaks in crypto, identities, packets, announces, framing, links and control
payloads; a program of its own.
"""

from __future__ import annotations

import gc
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from growth import fail, main

from netmesh import _core as core

KEY, IV, ADDRESS, RELAY = bytes(64), bytes(16), bytes(16), bytes(range(16))
FILES = tempfile.TemporaryDirectory()
FOLDER = Path(FILES.name)
ALICE = core.Identity.from_private(bytes(range(64)))
BOB = ALICE.public_only()
NOBODY = core.Identity.without_keys()
TOKEN = core.Token(KEY)
SEALED = TOKEN.seal(b"text" * 20)
RATCHET = bytes([7]) * 32
ENCRYPTED = BOB.encrypt(b"text", ratchet=core.x25519_public(RATCHET))
SIGNATURE = ALICE.sign(b"text")
PACKET = core.Packet(destination=ADDRESS, payload=b"x" * 100)
ANNOUNCE = core.Announce.create(ALICE, "app.a", app_data=b"data", ratchet=RATCHET)
INBOX = core.Destination(ALICE, "app.a", default_app_data=lambda: b"data")
IFAC = core.Ifac(network_name="valley")
MASKED = IFAC.mask(PACKET.raw)
REQUEST = core.LinkRequest.create(ADDRESS, RATCHET, RATCHET)
PROOF = core.LinkProof.create(ADDRESS, ALICE, RATCHET)
VALUE = {"k": [1, 2.5, b"x" * 50, None, "text", (1, 2)], 5: core.Ext(1, b"time"), (1, 2): True}
PACKED = core.packb(VALUE)
FILE = FOLDER / "identity"
ALICE.save(FILE)
RATCHETS = core.Ratchets(retained=3)
RATCHETS.rotate(1e9)
RATCHETS.rotate(2e9)


def attributes(thing: object) -> None:
    """Every attribute, the repr, the hash and comparisons of an object."""
    for name in dir(thing):
        if not name.startswith("_"):
            getattr(thing, name)
    repr(thing), hash(thing), thing == thing, thing != b"", thing == 5


def rotate() -> None:
    """Ratchets that grow, drop the oldest, and go through a file."""
    ratchets = core.Ratchets(retained=20, interval_s=0)
    for moment in range(1, 41):
        ratchets.rotate(moment, private=RATCHET)
    core.Ratchets.load(ratchets.dump(ALICE), BOB, retained=10)


def cycle() -> None:
    """A destination in a cycle with its own callable."""

    class Holder:
        destination: Any

        def __call__(self) -> bytes:
            return b"data"

    holder = Holder()
    holder.destination = core.Destination(ALICE, "app.a", default_app_data=holder)
    responses = core.PathResponses(holder.destination, capacity=2)
    for moment in range(4):
        responses.announce(bytes([moment]), moment)
    if collections[0] % 20 == 0:
        gc.collect()
    collections[0] += 1


collections = [0]


def streams() -> None:
    """Both decoders, with partial and bad frames."""
    hdlc, kiss = core.HdlcDecoder(min_bytes=1, max_bytes=100), core.KissDecoder(max_bytes=0)
    for piece in (core.hdlc_frame(b"x" * 50), b"\x7e", b"x" * 300, core.hdlc_frame(b"y~")):
        hdlc.feed(piece)
        kiss.feed(core.kiss_frame(piece))
    hdlc.reset()
    attributes(hdlc)
    attributes(kiss)


def mutual(*kinds: Any) -> None:
    """Addresses of both kinds."""
    for kind in kinds:
        address = kind.from_hex(str(kind(ADDRESS)))
        pickle.loads(pickle.dumps(address))
        attributes(address)


OPERATIONS: dict[str, Callable[[], Any]] = {
    "digests": lambda: (core.sha256(b"x"), core.sha512(bytearray(b"x")), core.name_hash("x")),
    "digest of text": fail(lambda: core.sha256("text")),
    "many digests": lambda: core.sha256_many([b"x", bytearray(b"y")] * 20, suffix=b"z"),
    "many digests of text": fail(lambda: core.sha256_many([bytearray(b"x"), "y"])),
    "unknown backend": fail(lambda: core.sha256_many([], backend="abacus")),
    "libraries": lambda: (core.library_versions(), core.cpu_features(), core.sha256_backends()),
    "hkdf": lambda: core.hkdf(100, b"ikm", salt=bytearray(b"salt"), info=b"info"),
    "hkdf fails": fail(lambda: core.hkdf(100, b"ikm", salt=bytearray(b"salt"), info="info")),
    "padding": lambda: core.pkcs7_unpad(core.pkcs7_pad(bytearray(b"x"))),
    "bad padding": fail(lambda: core.pkcs7_unpad(b"\xff")),
    "bzip2": lambda: core.bz2_decompress(core.bz2_compress(b"x" * 500, level=1), max_size=500),
    "bzip2 limit": fail(lambda: core.bz2_decompress(core.bz2_compress(b"x" * 99), max_size=9)),
    "aes": lambda: core.aes_cbc_decrypt(IV, IV, core.aes_cbc_encrypt(IV, IV, b"text")),
    "aes fails": fail(lambda: core.aes_cbc_decrypt(IV, IV, bytearray(15))),
    "curves": lambda: core.x25519(RATCHET, core.x25519_public(RATCHET)),
    "no secret": fail(lambda: core.x25519(RATCHET, bytes(32))),
    "token": lambda: (attributes(core.Token(KEY)), TOKEN.open(TOKEN.seal(bytearray(b"text")))),
    "bad token": fail(lambda: TOKEN.open(SEALED[::-1])),
    "bad token key": fail(lambda: core.Token(bytes(48))),
    "pickled token": fail(lambda: pickle.dumps(TOKEN)),
    "addresses": lambda: mutual(core.IdentityHash, core.DestinationHash),
    "mixed addresses": fail(lambda: core.IdentityHash(core.DestinationHash(ADDRESS))),
    "identity": lambda: attributes(core.Identity.from_private(bytes(64))),
    "random identity": core.Identity,
    "short identity": fail(lambda: core.Identity.from_private(bytes(63))),
    "no keys": fail(lambda: NOBODY.sign(b"")),
    "sign": lambda: BOB.verify(b"text", ALICE.sign(b"text")),
    "verify many": lambda: core.Identity.verify_many(
        [(BOB, bytearray(b"text"), SIGNATURE)] * 20, threads=2
    ),
    "verify many fails": fail(
        lambda: core.Identity.verify_many([(BOB, bytearray(b"text"), SIGNATURE), (BOB, "x", b"")])
    ),
    "decrypt": lambda: attributes(ALICE.decrypt(ENCRYPTED, ratchets=[bytes(32), RATCHET])),
    "decrypt fails": fail(lambda: ALICE.decrypt(ENCRYPTED, ratchets=[bytearray(32)])),
    "bad ratchet": fail(lambda: ALICE.decrypt(ENCRYPTED, ratchets=[bytearray(32), bytes(31)])),
    "encrypt fails": fail(lambda: BOB.encrypt(b"text", ratchet=bytes(32))),
    "load": lambda: core.Identity.load(FILE),
    "load fails": fail(lambda: core.Identity.load(FOLDER / "missing")),
    "ratchets": rotate,
    "ratchet properties": lambda: (attributes(RATCHETS), len(RATCHETS)),
    "bad ratchets": fail(lambda: core.Ratchets.load(b"\x82\xa1", BOB)),
    "foreign ratchets": fail(lambda: core.Ratchets.load(RATCHETS.dump(ALICE), core.Identity())),
    "remembered": lambda: core.remembered_ratchet_unpack(core.remembered_ratchet_pack(RATCHET, 1)),
    "names": lambda: core.expand_name(ALICE.hash, *core.split_name("app")[:1], "a", "b"),
    "bad name": fail(lambda: core.join_name("app", "a", "b.c")),
    "handler": lambda: core.check_request_handler("/x", policy=2, allowed=[ADDRESS]),
    "bad handler": fail(lambda: core.check_request_handler("/x", policy=2, allowed=["x"])),
    "destination": lambda: attributes(core.Destination(None, "app.a", type=1)),
    "destination fails": fail(lambda: core.Destination(ALICE, "app.a", group_key=bytes(64))),
    "seal": lambda: INBOX.open(INBOX.packet(b"text").payload),
    "seal fails": fail(lambda: core.Destination(None, "a", type=2).seal(b"", iv=IV)),
    "announced": lambda: (INBOX.announce(), INBOX.announce(None)),
    "announced text": fail(lambda: INBOX.announce("text")),
    "cycle": cycle,
    "packet": lambda: attributes(core.Packet.unpack(bytearray(PACKET.raw))),
    "packet fails": fail(lambda: core.Packet.unpack(bytearray(10))),
    "packet constructed": lambda: core.Packet(
        destination=bytearray(ADDRESS),
        payload=bytearray(5),
        header_type=1,
        transport_id=RELAY,
        hops=1,
    ),
    "packet refused": fail(lambda: core.Packet(destination=ADDRESS, payload=bytearray(500))),
    "packet replaced": lambda: PACKET.replace(payload=bytearray(5), hops=3),
    "packet by new": lambda: core.Packet.__new__(core.Packet, destination=ADDRESS, payload=b"x"),
    "packet copied": lambda: pickle.loads(pickle.dumps(PACKET)),
    "pack": lambda: core.pack_packet(ADDRESS, bytearray(5), 0x40, transport_id=RELAY),
    "pack fails": fail(lambda: core.pack_packet(ADDRESS, bytearray(5), 0x40)),
    "proof": lambda: core.verify_proof(BOB, core.proof_packet(ALICE, KEY[:32]).payload, KEY[:32]),
    "proof fails": fail(lambda: core.proof_packet(BOB, KEY[:32])),
    "announce": lambda: attributes(core.Announce.unpack(bytearray(ANNOUNCE.raw))),
    "announce fails": fail(lambda: core.Announce.unpack(PACKET)),
    "announce refused": fail(lambda: core.Announce.create(ALICE, "a", app_data=bytearray(400))),
    "validate": lambda: core.Announce.unpack(ANNOUNCE.raw).validate(),
    "validate many": lambda: core.Announce.validate_many([ANNOUNCE] * 20, threads=2),
    "validate many fails": fail(lambda: core.Announce.validate_many([ANNOUNCE, 5])),
    "cache": lambda: core.AnnounceCache(capacity=8).validate(bytearray(ANNOUNCE.raw)),
    "cache fails": fail(lambda: core.AnnounceCache().validate(bytearray(PACKET.raw))),
    "frames": lambda: core.kiss_unframe(core.kiss_frame(core.hdlc_frame(bytearray(b"~")))),
    "bad frame": fail(lambda: core.hdlc_unframe(bytearray(b"~"))),
    "streams": streams,
    "access codes": lambda: attributes(core.Ifac(passphrase="text", size=8)),
    "unmask": lambda: (IFAC.unmask(bytearray(MASKED)), IFAC.try_unmask(MASKED[::-1])),
    "unmask fails": fail(lambda: IFAC.unmask(MASKED[:-1])),
    "link request": lambda: attributes(core.LinkRequest.unpack(REQUEST.packet.raw)),
    "link request fails": fail(lambda: core.LinkRequest.unpack(PACKET)),
    "link proof": lambda: attributes(core.LinkProof.unpack(PROOF.packet.raw)),
    "link proof checked": lambda: (PROOF.verify(BOB), PROOF.signed_data(BOB)),
    "link packet": lambda: core.link_open(KEY, core.link_packet(ADDRESS, TOKEN, bytearray(5))),
    "link packet fails": fail(lambda: core.link_packet(ADDRESS, bytes(5), bytearray(5))),
    "identify": lambda: core.identify_unpack(ADDRESS, core.identify_pack(ADDRESS, ALICE)),
    "identify fails": fail(lambda: core.identify_unpack(ADDRESS, bytearray(128))),
    "rtt": lambda: core.rtt_unpack(core.rtt_pack(0.5)),
    "bad rtt": fail(lambda: core.rtt_unpack(b"\xc0")),
    "path request": lambda: attributes(core.PathRequest.unpack(bytes(40))),
    "path request packet": lambda: core.PathRequest(ADDRESS, transport_id=RELAY).packet(),
    "bad path request": fail(lambda: core.PathRequest(ADDRESS, tag=bytearray(17))),
    "tunnel": lambda: attributes(core.TunnelSynthesis.create(ALICE, bytes(32))),
    "bad tunnel": fail(lambda: core.TunnelSynthesis.unpack(bytes(175))),
    "request": lambda: attributes(core.Request.unpack(core.Request("/x", VALUE).pack())),
    "bad request": fail(lambda: core.Request.unpack(b"\x93\x01\x02\x03")),
    "request of an object": fail(lambda: core.Request("/x", [object()]).pack()),
    "response": lambda: attributes(core.Response(ADDRESS, VALUE)),
    "msgpack": lambda: core.unpackb(core.packb(VALUE)),
    "canonical": lambda: core.canonical(bytearray(PACKED)),
    "bad msgpack": fail(lambda: core.unpackb(PACKED[:-1])),
    "msgpack trailing": fail(lambda: core.unpackb(PACKED + b"x", trailing=False)),
    "msgpack of an object": fail(lambda: core.packb([bytearray(5), {1: object()}])),
    "ext": lambda: attributes(core.Ext(5, bytearray(5))),
    "bad ext": fail(lambda: core.Ext(5, "text")),
    "unknown keyword": fail(lambda: core.Packet(colour=1)),
}


if __name__ == "__main__":
    sys.exit(main(OPERATIONS))
