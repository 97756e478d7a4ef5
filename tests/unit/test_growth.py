"""Time grows with the length of the input and no faster, whatever a peer sends.

Every decoder takes every shape of input at two lengths, one eight times the other. A loop
inside a loop would take 64 times as long; 24 times is let pass, for caches, and so is
what takes no noticeable time at the greater length. CPU time of this thread is
measured, so that other processes do not count.
"""

from __future__ import annotations

import bz2
import gc
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, product
from typing import Any

import pytest

from conftest import IMPLEMENTATIONS
from netmesh.errors import NetmeshError

STEP = 8
GROWTH_MAX = 3 * STEP
UNNOTICED_S = 0.02
KB = 1024
# Implementation and the greater length: the pure reference is some hundred times slower.
FAST = [("core", 1024 * KB), ("pure", 128 * KB)]

PRIVATE = bytes(range(64))
ARRAY, MAP, BIN = b"\xdd", b"\xdf", b"\xc6"


def counted(code: bytes, items: int, content: bytes) -> bytes:
    """A MessagePack array, map or bin with a header of 32 bits."""
    return code + struct.pack(">I", items) + content


def pairs(n: int, key: Callable[[int], bytes], size: int) -> bytes:
    """A map of about ``n`` bytes with keys of ``size`` bytes and the value nil."""
    count = n // (size + 1)
    return counted(MAP, count, b"".join(key(i) + b"\xc0" for i in range(count)))


def colliding(n: int) -> bytes:
    """A map whose keys are arrays that all have one hash, for -1 and -2 have."""
    bits = max((n // 8).bit_length(), 13)
    keys = islice(product((b"\xff", b"\xfe"), repeat=bits), n // (bits + 4))
    made = [counted(b"\xdc", 0, b"")[:1] + struct.pack(">H", bits) + b"".join(key) for key in keys]
    return counted(MAP, len(made), b"".join(key + b"\xc0" for key in made))


def scaled(i: int) -> bytes:
    """One of the 33 floats that share a hash, for each of many hashes."""
    return b"\xcb" + struct.pack(">d", (i // 33 + 1) * 2.0 ** (61 * (i % 33 - 16)))


SHAPES: dict[str, Callable[[int], bytes]] = {
    **{
        f"{byte:02x}": lambda n, byte=byte: bytes([byte]) * n
        for byte in (0x00, 0x2F, 0x41, 0x7D, 0x7E, 0x80, 0x81, 0x91, 0xC0, 0xDB, 0xFF)
    },
    "escape, flag": lambda n: b"\x7d\x7e" * (n // 2),
    "escapes": lambda n: b"\x7d\x5e" * (n // 2),
    "one frame": lambda n: b"\x7e" + b"A" * (n - 2) + b"\x7e",
    "empty frames": lambda n: b"\x7eA" * (n // 2),
    "kiss escape, flag": lambda n: b"\xc0\xdb" * (n // 2),
    "kiss escapes": lambda n: b"\xdb\xdc" * (n // 2),
    "one kiss frame": lambda n: b"\xc0\x00" + b"\xdb\xdd" * (n // 2) + b"\xc0",
    "empty maps": lambda n: counted(ARRAY, n - 5, b"\x80" * (n - 5)),
    "deep arrays": lambda n: counted(ARRAY, n // 61, (b"\x91" * 60 + b"\xc0") * (n // 61)),
    "deep maps": lambda n: counted(ARRAY, n // 100, (b"\x81\xc0" * 49 + b"\x01\x02") * (n // 100)),
    "integer keys": lambda n: pairs(n, lambda i: b"\xce" + struct.pack(">I", i), 5),
    "byte keys": lambda n: pairs(n, lambda i: b"\xc4\x04" + struct.pack(">I", i), 6),
    "NaN keys": lambda n: pairs(n, lambda i: b"\xcb\x7f\xf8" + bytes(6), 9),
    "equal keys": lambda n: pairs(n, lambda i: b"\x01", 1),
    "keys of equal hash": lambda n: pairs(n, scaled, 9),
    "array keys of equal hash": colliding,
    "one long bin": lambda n: counted(BIN, n - 5, bytes(n - 5)),
    "text": lambda n: counted(b"\xdb", 2 * (n // 2), "é".encode() * (n // 2)),
    "compressed": lambda n: bz2.compress(bytes(n)),
}

Decoder = Callable[[bytes], object]

FUNCTIONS = [
    "pkcs7_unpad",
    "packet_hash",
    "link_id",
    "signalling_unpack",
    "rtt_unpack",
    "resource_proof_unpack",
    "metadata_unpack",
    "container_unpack",
    "remembered_ratchet_unpack",
    "unpackb",
    "canonical",
    "hdlc_unescape",
    "hdlc_unframe",
    "kiss_unescape",
    "kiss_unframe",
]
CLASSES = [
    "Packet",
    "Announce",
    "LinkRequest",
    "LinkProof",
    "PathRequest",
    "TunnelSynthesis",
    "Request",
    "Response",
    "Advertisement",
    "PartRequest",
    "HashmapUpdate",
    "Envelope",
    "StreamData",
    "Message",
    "DeliveryAppData",
    "PropagationAppData",
]


def in_pieces(decoder: Any, data: bytes) -> None:
    """Feeds seven bytes at a time."""
    for at in range(0, len(data), 7):
        decoder.feed(data[at : at + 7])


def decoders(impl: Any) -> dict[str, Decoder]:
    """All that takes bytes from a peer, by name."""
    identity = impl.Identity.from_private(PRIVATE)
    token, ifac = impl.Token(PRIVATE), impl.Ifac(network_name="net")
    head = impl.Message.create(identity, bytes(16), b"").packed[:96]
    ratchets = [bytes([i]) * 32 for i in range(1, 9)]

    def message(payload: bytes) -> Any:
        return impl.Message.unpack(head + payload)

    return {
        **{name: getattr(impl, name) for name in FUNCTIONS},
        **{f"{name}.unpack": getattr(impl, name).unpack for name in CLASSES},
        "Token.open": token.open,
        "Identity.decrypt": lambda data: identity.decrypt(data, ratchets=ratchets),
        "Ratchets.load": lambda data: impl.Ratchets.load(data, identity),
        "identify_unpack": lambda data: impl.identify_unpack(bytes(16), data),
        "Ifac.unmask": lambda data: ifac.unmask(b"\x80" + data),
        "bz2_decompress": lambda data: impl.bz2_decompress(data, max_size=len(data) + 2048 * KB),
        "HdlcDecoder": lambda data: impl.HdlcDecoder().feed(data),
        "HdlcDecoder, unbounded": lambda data: in_pieces(impl.HdlcDecoder(max_bytes=0), data),
        "KissDecoder": lambda data: impl.KissDecoder().feed(data),
        "KissDecoder, large": lambda data: in_pieces(impl.KissDecoder(max_bytes=1024 * KB), data),
        "Propagated.from_data": impl.Propagated.from_data,
        "Propagated.from_stamped": impl.Propagated.from_stamped,
        "paper_uri_unpack": lambda data: impl.paper_uri_unpack("lxm://" + data.decode("latin-1")),
        "fields": lambda data: message(b"\x94\x01\xc4\x00\xc4\x00" + data).fields,
        "content": lambda data: (
            message(b"\x94\x01\xc4\x00" + counted(BIN, len(data), data) + b"\x80").content_text
        ),
        "stamp": lambda data: message(b"\x95\x01\xc4\x00\xc4\x00\x80" + data).id,
        "request data": lambda data: impl.Request.unpack(
            b"\x93\xcb" + bytes(8) + b"\xc4\x10" + bytes(16) + data
        ),
        "response data": lambda data: impl.Response.unpack(b"\x92\xc4\x10" + bytes(16) + data),
        "display name": lambda data: impl.DeliveryAppData.unpack(
            b"\x92" + counted(BIN, len(data), data) + b"\xc0"
        ),
        "node metadata": lambda data: impl.PropagationAppData.unpack(
            b"\x97\xc2\x01\xc3\x01\x01\x93\x01\x01\x01" + data
        ),
        "stream content": lambda data: impl.StreamData(1, data, compressed=True).content(
            max_size=1024 * KB
        ),
        "descope": lambda data: impl.descope(data.decode("latin-1")),
        "from_hex": lambda data: impl.IdentityHash.from_hex(data.decode("latin-1")),
        "split_name": lambda data: impl.split_name("a." * (len(data) // 2)),
    }


NAMES = list(decoders(IMPLEMENTATIONS["core"]))


def seconds(decode: Decoder, data: bytes) -> float:
    """What one call costs, refusals too."""
    began = time.thread_time()
    with suppress(NetmeshError, ValueError):
        decode(data)
    return time.thread_time() - began


def outgrown(decode: Decoder, make: Callable[[int], bytes], n: int) -> str | None:
    """What it cost at both lengths, when the cost grew too much in every one of three tries."""
    large, small = make(n), make(n // STEP)
    for _ in range(3):
        after = seconds(decode, large)
        before = min(seconds(decode, small) for _ in range(3))
        if after < UNNOTICED_S or after <= GROWTH_MAX * before:
            return None
    return f"{before * 1e3:.2f} ms for {len(small)} bytes, {after * 1e3:.1f} for {len(large)}"


def complaints(decode: Decoder, n: int) -> Iterator[str]:
    """One line for each shape on which time outgrows length."""
    for shape, make in SHAPES.items():
        found = outgrown(decode, make, n)
        if found is not None:
            yield f"{shape}: {found}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("kind", "length"), FAST, ids=[kind for kind, _ in FAST])
def test_time_grows_with_length_alone(kind: str, length: int, name: str) -> None:
    decode = decoders(IMPLEMENTATIONS[kind])[name]
    gc.disable()
    try:
        assert list(complaints(decode, length)) == []
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_time_grows_with_length_alone_in_the_pure_reference_too(name: str) -> None:
    """Up to a megabyte."""
    test_time_grows_with_length_alone("pure", 1024 * KB, name)


def test_a_loop_inside_a_loop_would_be_found() -> None:
    def decode(data: bytes) -> int:
        return sum(data.count(b"\x02", 0, at) for at in range(len(data)))

    assert outgrown(decode, bytes, 16 * KB) is not None
    assert outgrown(lambda data: sum(data), bytes, 8192 * KB) is None
