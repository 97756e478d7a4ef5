"""Writes the seed corpora of the fuzz targets from the test vectors.

Each generator below yields (name, bytes) pairs for one target; the seed goes to
corpus/<target>/<name>. Run it again after a change of the vectors or of a target's
input format: files that are no longer made are removed.

    python tests/fuzz/make_corpus.py [--vectors DIR] [TARGET ...]
"""

from __future__ import annotations

import argparse
import json
from bz2 import compress
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
Vector = dict[str, Any]
Seeds = Iterator[tuple[str, bytes]]
SEED_BYTES_MAX = 4096

TARGETS: dict[str, Callable[[list[Vector]], Seeds]] = {}


def target(make: Callable[[list[Vector]], Seeds]) -> Callable[[list[Vector]], Seeds]:
    """Registers the generator of the target of the same name."""
    TARGETS[make.__name__] = make
    return make


def of_kind(vectors: list[Vector], *kinds: str) -> Iterator[Vector]:
    """The vectors of some kinds, in their order."""
    return (v for v in vectors if v["kind"] in kinds)


def with_first_byte(value: int, data: bytes) -> bytes:
    """The input of a target whose first byte chooses what to do with the rest."""
    return bytes([value]) + data


def hex_fields(vector: Vector, *fields: str) -> Iterator[bytes]:
    """The byte strings of a vector's fields, inputs first."""
    for side in ("input", "output"):
        for field in fields:
            value = vector[side].get(field)
            if isinstance(value, str):
                yield bytes.fromhex(value)


def raw_packets(vectors: list[Vector]) -> Seeds:
    """Every complete packet in the vectors."""
    fields = (
        *("raw", "received_raw", "sent_raw", "rebroadcast_raw", "response_raw"),
        *("link_request_raw", "link_proof_raw", "link_rtt_raw", "external_raw", "client_raw"),
    )
    for vector in vectors:
        for number, raw in enumerate(hex_fields(vector, *fields)):
            yield f"{vector['name']}-{number}", raw


def is_announce(raw: bytes) -> bool:
    """Whether a packet is an announce."""
    return len(raw) > 0 and raw[0] & 3 == 1


def payload_of(raw: bytes) -> bytes:
    """The data of a packet."""
    return raw[35:] if raw[0] & 0x40 else raw[19:]


@target
def packet(vectors: list[Vector]) -> Seeds:
    """One or two packets of each shape are enough to start from."""
    seen: dict[tuple[int, int], int] = {}
    for name, raw in raw_packets(vectors):
        shape = (raw[0], len(raw) // 64)
        seen[shape] = seen.get(shape, 0) + 1
        if seen[shape] <= 2:
            yield name, raw


@target
def announce(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(vectors, "announce", "announce_validate", "announce_frame_limit"):
        for number, raw in enumerate(hex_fields(vector, "raw")):
            yield f"{vector['name']}-{number}", raw
    for name, raw in raw_packets(list(of_kind(vectors, "transport_rebroadcast"))):
        yield name, raw


@target
def link(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(
        vectors, "link_handshake", "link_request_acceptance", "link_proof_acceptance", "link_id"
    ):
        for raw in hex_fields(vector, "link_request_raw", "raw"):
            yield f"request-{vector['name']}", with_first_byte(0, payload_of(raw))
            yield f"packet-{vector['name']}", with_first_byte(4, raw)
        for raw in hex_fields(vector, "link_proof_raw"):
            yield f"proof-{vector['name']}", with_first_byte(1, payload_of(raw))
    numbers = {"f64": "cb3fd0000000000000", "f32": "ca3e800000", "uint": "cd0102", "int": "d0ff"}
    for name, number in numbers.items():
        yield f"rtt-{name}", with_first_byte(2, bytes.fromhex(number))
    for vector in of_kind(vectors, "link_identify"):
        for plaintext in hex_fields(vector, "plaintext"):
            yield vector["name"], with_first_byte(3, plaintext)


@target
def ifac(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(vectors, "ifac_mask", "queued_announce_ifac"):
        size = vector["input"]["ifac_size"]
        for number, data in enumerate(hex_fields(vector, "raw", "masked", "sent")):
            yield f"{vector['name']}-{number}", with_first_byte(size - 1, data)


@target
def hdlc(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(vectors, "hdlc_frame", "hdlc_stream"):
        for number, data in enumerate(hex_fields(vector, "data", "frame", "stream")):
            yield f"{vector['name']}-{number}", with_first_byte(number * 5, data)
    yield "bad-escapes", with_first_byte(2, bytes.fromhex("7e7d7d5e7d007d7e7e4142437d7e"))


@target
def kiss(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(vectors, "kiss_frame", "kiss", "ax25_kiss", "rnode_kiss"):
        for number, data in enumerate(hex_fields(vector, "data", "frame", "bytes")):
            yield f"{vector['name']}-{number}", with_first_byte(number * 5, data)
    yield "bad-escapes", with_first_byte(2, bytes.fromhex("c000dbdbdc4142dbc0c0f0616263c0"))


@target
def control(vectors: list[Vector]) -> Seeds:
    for kind, choice, field in (
        ("path_request", 0, "data"),
        ("request", 2, "plaintext"),
        ("response", 3, "plaintext"),
    ):
        for vector in of_kind(vectors, kind):
            for data in hex_fields(vector, field):
                yield vector["name"], with_first_byte(choice, data)
    for vector in of_kind(vectors, "tunnel_synthesize"):
        for raw in hex_fields(vector, "raw"):
            yield vector["name"], with_first_byte(1, payload_of(raw))
    for vector in of_kind(vectors, "storage"):
        for number, data in enumerate(hex_fields(vector, "file", "msgpack")):
            yield f"{vector['name']}-{number}-4", with_first_byte(4, data)
            yield f"{vector['name']}-{number}-5", with_first_byte(5, data)
    for vector in of_kind(vectors, "link_packet_proof"):
        for raw in hex_fields(vector, "raw"):
            yield vector["name"], with_first_byte(6, payload_of(raw))
    for vector in of_kind(vectors, "destination_hash"):
        name = vector["output"].get("name", "")
        yield vector["name"], with_first_byte(7, name.encode())


@target
def msgpack(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(vectors, "msgpack"):
        for data in hex_fields(vector, "bytes"):
            yield vector["name"], data
    for vector in of_kind(vectors, "get", "offer", "peer_record", "pn_announce_app_data"):
        for number, data in enumerate(
            hex_fields(vector, "app_data", "request_packed", "response_packed", "packed")
        ):
            yield f"{vector['name']}-{number}", data
    keys = b"".join(bytes([0xCC, 128 + i, 0xC0]) for i in range(70))
    yield "many-keys", b"\xde\x00\x46" + keys
    for name, data in {
        "ext-fixed": "d801" + "00" * 16,
        "ext-sized": "c7030501aabb",
        "mixed-keys": "85c0c001c0a161c0c40161c0910102",
        "duplicate-true-and-one": "8201c0c3c0",
        "duplicate-float": "8201c0cb3ff0000000000000c0",
        "nan-keys": "82cb7ff8000000000000c0cb7ff8000000000000c0",
        "nested-maps": "81008100810081008100c0",
        "map-in-key": "819180c0",
        "array-keys": "82919101c0919102c0",
        "float32": "ca3fc00000",
        "over-long-int": "d3ffffffffffffffff",
        "over-long-count": "dd00000002c0c0",
        "huge-count": "dfffffffff",
        "bad-utf8": "a3eda080",
    }.items():
        yield name, bytes.fromhex(data)


@target
def seal(vectors: list[Vector]) -> Seeds:
    """The target knows one key and seals to it by itself; these are shapes."""
    for vector in of_kind(vectors, "token_encrypt", "identity_encrypt", "encrypt"):
        for data in hex_fields(vector, "token", "ciphertext"):
            yield vector["name"], with_first_byte(len(data) % 4, data)


@target
def bz2(vectors: list[Vector]) -> Seeds:
    for name, data in {
        "empty": b"",
        "letters": b"a" * 300,
        "text": b"netmesh " * 100 + b"mesh",
        "bytes": bytes(range(256)),
    }.items():
        stream = compress(data)
        yield name, with_first_byte(200, stream)
        yield f"{name}-cut", with_first_byte(200, stream[: len(stream) // 2])


@target
def zstd(vectors: list[Vector]) -> Seeds:
    """Frames by hand (RFC 8878, 3.1.1): magic number, descriptor, size, blocks."""
    magic = bytes.fromhex("28b52ffd")
    for name, frame in {
        "empty": "2000" + "010000",
        "raw": "2005" + "290000" + b"hello".hex(),
        "repeated": "2064" + "230300" + "7a",
        "two-blocks": "2007" + "1a0000" + "78" + "210000" + b"four".hex(),
        "size-of-two-bytes": "60" + "0000" + "030800" + "7a",
        "with-a-checksum": "2405" + "290000" + b"hello".hex() + "00000000",
        "without-a-size": "0058" + "290000" + b"hello".hex(),
        "another-size": "2004" + "290000" + b"hello".hex(),
        "dictionary": "2101" + "05" + "290000" + b"hello".hex(),
    }.items():
        yield name, with_first_byte(200, magic + bytes.fromhex(frame))
        yield f"{name}-small", with_first_byte(0, magic + bytes.fromhex(frame))
    yield "skippable", with_first_byte(200, bytes.fromhex("502a4d1800000000"))


@target
def buffer(vectors: list[Vector]) -> Seeds:
    """Each kind of step, and some that belong together."""

    def write(stream: int, size: int, mode: int = 0, eof: bool = False, at: int = 0) -> bytes:
        how = stream | (mode << 2) | (0xC0 if eof else 0)
        return bytes([at, how]) + size.to_bytes(2)

    def pass_(number: float) -> bytes:
        return bytes([3 << 1]) + int(number * 2000).to_bytes(2)

    for mode in range(3):
        yield f"write-{mode}", script(write(mode, 9000, mode), pass_(5))
        yield f"end-{mode}", script(write(1, 3000, mode, eof=mode < 2), pass_(5))
    both = script(write(0, 5000), write(1, 5000, 1, at=1), write(1, 70), write(0, 0, eof=True))
    yield "both-ways", script(both, pass_(5))
    yield "lossy", script(b"\x04\x33\x33", both, b"\x05\x55\x55", both, pass_(20))
    yield "echoes", script(both, b"\x08\x09" * 5, pass_(5))
    yield "paused", script(b"\x0d\x01", both, pass_(20), b"\x0d\x00", pass_(20))
    yield "cancelled", script(b"\x80\x00\x4e\x20", b"\x2e", pass_(5))
    end = b"\x81\xd1\x00\x10"
    yield "cancelled-end", script(end, b"\x2f", end, pass_(5))
    yield "reports", script(b"\x4e", both, pass_(5), b"\x0e")
    for body in (b"\x00\x01data", b"\xc0\x01BZh9", b"\x80\x02", b"\x40\x01\x00"):
        forged = b"\x1e\x00\x00" + bytes([len(body)]) + body
        yield f"forged-{body[0]:02x}", script(both, forged, pass_(5))


@target
def resource(vectors: list[Vector]) -> Seeds:
    """Choices: 0 advertisement, 1 small payloads, 2 a transfer, 3 to 5 an opened stream."""
    for vector in of_kind(vectors, "resource", "resource_advertisement"):
        for data in hex_fields(vector, "advertisement_plaintext"):
            yield f"advertisement-{vector['name']}", with_first_byte(0, data)
        for data in hex_fields(vector, "proof_raw"):
            yield f"proof-{vector['name']}", with_first_byte(1, payload_of(data))
        seen: set[tuple[str, int]] = set()
        for number, entry in enumerate(vector["output"].get("transcript", [])):
            data = bytes.fromhex(entry.get("plaintext", ""))
            if data and (entry["type"], data[0]) not in seen:
                seen.add((entry["type"], data[0]))
                yield f"{entry['type']}-{vector['name']}-{number}", with_first_byte(1, data)
    for vector in of_kind(vectors, "resource_cancel"):
        for data in hex_fields(vector, "plaintext"):
            yield vector["name"], with_first_byte(1, data)
    for vector in of_kind(vectors, "rncp"):
        for data in hex_fields(vector, "block"):
            yield vector["name"], with_first_byte(1, data)
            yield f"stream-{vector['name']}", with_first_byte(4, b"pref" + data)
    yield "transfer-smooth", with_first_byte(2, bytes([3, 255, 9, 255, 74, 255] * 4))
    yield "transfer-lossy", with_first_byte(2, bytes([3, 0x55, 9, 0xAA, 74, 0x0F, 40, 0xF0] * 9))
    yield "stream-plain", with_first_byte(5, b"prefsome text")
    yield "stream-compressed", with_first_byte(3, b"pref" + compress(b"\0\0\1\xc0" + b"text" * 50))


@target
def channel(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(vectors, "channel", "channel_envelope"):
        for data in hex_fields(vector, "plaintext", "envelope"):
            yield vector["name"], data


@target
def channel_core(vectors: list[Vector]) -> Seeds:
    """The round-trip time, the first number, then operations of two bytes, some with more."""
    send, carry, proof = b"\x00\x03abc", b"\x01\x00", b"\x02\x00"
    yield "in-order", b"\x01\x00\x00" + (send + carry + proof) * 12
    yield "wraps", b"\x02\xff\xfe" + (send + carry + proof) * 6
    yield "out-of-order", b"\x01\x00\x00" + send * 2 + b"\x01\x00\x01\x01\x02\x00\x02\x01"
    yield "lost", b"\x05\x00\x00" + send + b"\x03\xff" * 6
    yield "repeated", b"\x01\x00\x00" + send + carry * 3 + b"\x0b\x20" + proof
    yield "forged", b"\x01\x00\x00" + b"\x04\x08\x00\x01\x00\x00\x00\x02hi\x04\x03abc"
    yield "refused", b"\x01\x00\x00" + b"\x06\x01" + send + carry + b"\x06\x00" + carry + proof


@target
def stream(vectors: list[Vector]) -> Seeds:
    """Below 128 a message to read, from there on a text to write."""
    for vector in of_kind(vectors, "stream_data", "stream_writer"):
        for data in hex_fields(vector, "message"):
            yield f"read-{vector['name']}", with_first_byte(81, data)
        for data in hex_fields(vector, "data"):
            yield f"write-{vector['name']}", with_first_byte(200, data)
    yield "write-text", with_first_byte(130, b"Reticulum! " * 60)


@target
def lxmf_message(vectors: list[Vector]) -> Seeds:
    for vector in vectors:
        if vector["kind"].startswith("message") or vector["kind"] in {"unpack", "opportunistic"}:
            for data in hex_fields(vector, "packed"):
                yield vector["name"], data
    head = bytes(96)
    for name, payload in {
        "nested": "95cb41d954fc40200000c400c4008101" + "91" * 40 + "cc01c400",
        "many-keys": "95cb41d954fc40200000c400c400de0050"
        + "".join(f"cc{128 + i:02x}c0" for i in range(80))
        + "c400",
        "ticket": "94cb41d954fc40200000c400c400810c92cb41d954fc40200000c410" + "00" * 16,
        "wide": "dd00000006cb41d954fc40200000c6000000016100da00016180c0c3c2",
    }.items():
        yield name, head + bytes.fromhex(payload)


@target
def lxmf_propagation(vectors: list[Vector]) -> Seeds:
    """Choices: 0 container, 1 download request, 2 answer and signal, 3 seal and tamper."""
    for vector in of_kind(vectors, "propagated"):
        for data in hex_fields(vector, "propagation_packed"):
            yield f"container-{vector['name']}", with_first_byte(0, data)
        for data in hex_fields(vector, "packed"):
            yield f"seal-{vector['name']}", with_first_byte(3, bytes([0, 60, 1]) + data)
    for vector in of_kind(vectors, "sync_resource"):
        for data in hex_fields(vector, "payload"):
            yield f"container-{vector['name']}", with_first_byte(0, data)
    for vector in of_kind(vectors, "get"):
        for data in hex_fields(vector, "request_data"):
            yield f"request-{vector['name']}", with_first_byte(1, data)
        for data in hex_fields(vector, "response_packed"):
            # behind the array header and the request id
            yield f"answer-{vector['name']}", with_first_byte(2, data[19:])
    for vector in of_kind(vectors, "signalling"):
        for data in hex_fields(vector, "packed"):
            yield vector["name"], with_first_byte(2, data)


@target
def lxmf_paper(vectors: list[Vector]) -> Seeds:
    for vector in of_kind(vectors, "paper", "paper_decode"):
        uri = vector["output"].get("uri") or vector["input"]["uri"]
        yield f"uri-{vector['name']}", uri.encode()
        yield f"padded-{vector['name']}", uri.replace("lxm", "LXM").encode() + b"="
        for data in hex_fields(vector, "paper_packed"):
            yield f"data-{vector['name']}", data


@target
def lxmf_appdata(vectors: list[Vector]) -> Seeds:
    for vector in vectors:
        if vector["kind"].startswith(("delivery_announce", "pn_announce")):
            for data in hex_fields(vector, "app_data"):
                yield vector["name"], data
    for name, data in {
        "node-text-numbers": "97c0a4202b3137c3c403323536cb40c400800000000093c3a3315f30ff80",
        "name-with-spaces": "93c40ac2a000616220e3808020" + "05" + "9100",
    }.items():
        yield name, bytes.fromhex(data)


def script(*steps: bytes) -> bytes:
    """The input of the engine's target: one step after the other."""
    return b"".join(steps)


@target
def engine(vectors: list[Vector]) -> Seeds:
    """Each kind of step alone, some that belong together, and every packet as a frame."""

    def text(data: bytes) -> bytes:
        return bytes([len(data)]) + data

    def code(what: int, at: int = 0) -> bytes:
        return bytes([what << 1 | at])

    def link(verb: int, number: int, data: bytes = b"text", at: int = 0) -> bytes:
        return code(6 + verb, at) + number.to_bytes(2) + text(data)

    def other(verb: int, number: int, data: bytes = b"", at: int = 0) -> bytes:
        return code(17 + verb, at) + bytes([number]) + (text(data) if verb in (2, 7) else b"")

    def seconds(number: float) -> bytes:
        return code(3) + int(number * 1000).to_bytes(2)

    for verb in range(11):
        for at in (0, 1):
            yield f"link-{verb}-{at}", script(link(verb, 1, at=at), seconds(10))
    for verb in range(8):
        yield f"engine-{verb}", script(other(verb, 1, b"hello"), seconds(20))
    for context in (*range(15), *range(0xFA, 0x100)):
        yield f"lie-{context:02x}", script(code(1, 1), bytes([0, context]), text(b"\x93" * 40))
    ask = link(1, 60000, b"\xa2hi")
    yield "request", script(ask, other(2, 0, b"\xc3", at=1), seconds(1))
    yield "request-lost", script(code(5), b"\xff\xff", ask, seconds(60))
    resource = link(3, 5000, b"content")
    yield "resource", script(resource, other(0, 0, at=1), seconds(5))
    yield "resource-cancelled", script(code(5), b"\x00\x08", resource, other(3, 0), seconds(30))
    yield "resource-lossy", script(code(5), b"\x55\x50", link(3, 60000), seconds(60))
    channel = script(link(5, 1), link(5, 1, at=1))
    yield "channel", script(channel, link(6, 3) * 20, seconds(10))
    yield "stream", script(channel, link(4, 4001), link(4, 4002), seconds(20))
    yield "stream-lossy", script(channel, code(5), b"\x33\x33", link(4, 9000), seconds(60))
    yield "clock", script(code(4), b"\xff\xff", other(5, 0, at=1), code(4), b"\0\0", seconds(60))
    yield "silence", script(seconds(65), seconds(65), seconds(65), link(0, 1))
    for number in (0, 1, 40, 900):
        yield f"changed-{number}", script(link(0, 1), code(2, 1), number.to_bytes(2), b"\x01")
    for name, raw in raw_packets(vectors):
        if len(raw) < 256:
            yield name, script(code(0, 1), text(raw), code(0), text(raw))


@target
def store(vectors: list[Vector]) -> Seeds:
    """Records of both tables, whole and damaged; packets stand for what they hold."""
    del vectors

    def binary(data: bytes) -> bytes:
        return b"\xc4" + bytes([len(data)]) + data

    time, hash_, address = b"\xcf" + bytes([0, 6, 10, 1, 2, 3, 4, 5]), bytes(32), bytes(16)
    known = b"\x98" + binary(address) + binary(bytes(range(64))) + binary(hash_) + time * 2
    for name, tail in {
        "plain": b"\xc0\xc0" + time,
        "full": binary(b"app data") + binary(hash_) + time,
        "short": b"\xc0",
    }.items():
        yield f"known-{name}", b"\x00\x01" + known + tail
    yield "known-two", b"\x00\x02" + (known + b"\xc0\xc0" + time) * 2
    path = b"\x9a" + binary(address) * 2 + b"\x03" + binary(hash_) + time * 2 + b"\x01"
    for name, tail in {
        "plain": binary(hash_) + b"\xc0" + binary(b""),
        "blobs": binary(hash_) + binary(bytes(180)) + binary(bytes(30)),
        "short": binary(hash_),
    }.items():
        yield f"path-{name}", b"\x01\x01" + path + tail
    yield "file", b"\x02\x00NMKD" + bytes(60)


def load(folder: Path) -> list[Vector]:
    """All vectors of all files in a folder."""
    vectors: list[Vector] = []
    for path in sorted(folder.glob("*.json")):
        vectors += json.loads(path.read_text())["vectors"]
    return vectors


def write(name: str, seeds: Seeds) -> int:
    """Makes one corpus folder hold exactly these seeds; returns their number."""
    folder = HERE / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {seed: data for seed, data in seeds if len(data) <= SEED_BYTES_MAX}
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
    for seed, data in wanted.items():
        (folder / seed).write_bytes(data)
    return len(wanted)


def main() -> None:
    """Writes the corpora that were asked for, or all."""
    parser = argparse.ArgumentParser(description="Write the seed corpora of the fuzz targets.")
    parser.add_argument("--vectors", type=Path, default=HERE.parent / "vectors")
    parser.add_argument("targets", nargs="*", default=sorted(TARGETS), metavar="TARGET")
    arguments = parser.parse_args()
    vectors = load(arguments.vectors)
    for name in arguments.targets:
        print(f"{name}: {write(name, TARGETS[name](vectors))} seeds")


if __name__ == "__main__":
    main()
