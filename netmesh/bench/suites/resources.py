"""Cutting and joining 16 KiB, building a resource, answering a request for parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, require, same, unary
from netmesh.bench.model import Api, Kind, Row, Suite

PART = 383
"""Bytes of a part, as in the version that the published report measured: 43 parts."""

PARTS = 43


def buffer_evidence(_kind: Kind, index: int) -> bytes:
    """The 16 KiB that were cut or joined."""
    return fixtures.large_buffer(index)


def resource_evidence(_kind: Kind, index: int) -> bytes:
    """The data that the resource must carry."""
    return fixtures.resource_data(index)


def _index_evidence(_kind: Kind, index: int) -> bytes:
    return index.to_bytes(8, "little")


def _buffers(count: int) -> list[bytes]:
    return [fixtures.large_buffer(number) for number in range(count)]


def _check_cut(buffers: Sequence[bytes], index: int, parts: Any) -> bytes:
    same("number of parts", len(parts), PARTS)
    joined = b"".join(parts)
    same("joined parts", joined, buffers[index])
    return joined


def describe_offer(api: Api) -> Offer:
    """Descriptors, no copy."""

    def prepare() -> Runner:
        buffers = _buffers(fixtures.COUNT)
        cut = api.resource.cut

        def loop(items: Iterable[Any]) -> Any:
            parts = None
            for item in items:
                parts = cut(item, PART)
            return parts

        return Operation(buffers, loop, lambda i, got: _check_cut(buffers, i, got))

    return Offer("cut(data, 383): 43 memoryviews, no copy", prepare)


def copy_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """Every part a bytes object of its own."""

    def prepare() -> Runner:
        buffers = _buffers(count)
        cut = api.resource.cut

        def loop(items: Iterable[Any]) -> Any:
            parts: Any = None
            for item in items:
                parts = [bytes(part) for part in cut(item, PART)]
            return parts

        return Operation(buffers, loop, lambda i, got: _check_cut(buffers, i, got))

    return Offer("cut(data, 383), each part then copied to bytes", prepare)


def join_offer(api: Api, count: int = fixtures.COUNT) -> Offer:
    """43 parts to one byte string."""

    def prepare() -> Runner:
        buffers = _buffers(count)
        items = [[b[at : at + PART] for at in range(0, len(b), PART)] for b in buffers]

        def check(index: int, joined: bytes) -> bytes:
            same("joined data", joined, buffers[index])
            return joined

        return Operation(items, unary(api.resource.join), check)

    return Offer("join(parts) of 43 bytes objects", prepare)


def check_built(segment: Any, advertisement: bytes, token: Any, data: bytes, api: Api) -> bytes:
    """Reads an advertisement back, opens the stream, recomputes the hashes."""
    adv = api.resource.Advertisement.unpack(advertisement)
    stream = bytes(segment.stream)
    same("parts", adv.parts, -(-len(stream) // fixtures.RESOURCE_SDU))
    digest = hashlib.sha256(data + adv.random_hash).digest()
    same("resource hash", adv.hash, digest)
    same("expected proof", segment.expected_proof, hashlib.sha256(data + digest).digest())
    for index in range(adv.parts):
        part = stream[index * fixtures.RESOURCE_SDU : (index + 1) * fixtures.RESOURCE_SDU]
        expected = hashlib.sha256(part + adv.random_hash).digest()[:4]
        same("map hash", adv.hashmap[4 * index : 4 * index + 4], expected)
    opened = bytes(token.open(stream))[4:]
    same("opened data", opened, data)
    return opened


def build_offer(api: Api) -> Offer:
    """One segment ready to be advertised."""

    def prepare() -> Runner:
        from netmesh._core import Token

        key = fixtures.stream("resource.key", 0, 64)
        token = api.crypto.Token(key)
        opener = Token(key)
        data = [fixtures.resource_data(number) for number in range(fixtures.COUNT)]
        segmenter = api.resource.Segmenter

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for item in items:
                segment = segmenter(item, token, sdu=fixtures.RESOURCE_SDU)
                found = segment, segment.advertisement.pack()
            return found

        def check(index: int, found: tuple[Any, bytes]) -> bytes:
            segment, advertisement = found
            return check_built(segment, advertisement, opener, data[index], api)

        return Operation(data, loop, check)

    return Offer(
        "Segmenter(data, token, sdu=464).advertisement.pack(), compression off: 36 parts",
        prepare,
    )


def _served(api: Api) -> tuple[Any, bytes]:
    """A segment of 2260 parts and its whole hashmap."""
    from netmesh._core import Token

    seal = Token(fixtures.stream("resource.key", 0, 64)).seal
    data = fixtures.stream("resource.large", 0, fixtures.RESOURCE_LARGE_BYTES)
    segment = api.resource.Segmenter(data, seal, sdu=fixtures.RESOURCE_SDU)
    same("number of parts", segment.parts, fixtures.RESOURCE_LARGE_PARTS)
    return segment, segment.hashmap


def _requests(segment: Any, hashmap: bytes, window: int, count: int) -> list[bytes]:
    return [
        b"\0" + segment.hash + hashmap[4 * first : 4 * (first + window)] for first in range(count)
    ]


def _check_window(segment: Any, index: int, window: int, found: Sequence[Any]) -> bytes:
    require(len(found) == window, "number of parts in the answer")
    for offset, part in enumerate(found):
        at = (index + offset) * fixtures.RESOURCE_SDU
        same("part", bytes(part), bytes(segment.stream[at : at + fixtures.RESOURCE_SDU]))
    return _index_evidence("python", index)


def window_offer(api: Api, window: int, count: int = fixtures.COUNT) -> Offer:
    """A decrypted request to the parts that are to be sent."""

    def prepare() -> Runner:
        segment, hashmap = _served(api)
        serve, part = segment.serve, segment.part

        def loop(items: Iterable[Any]) -> Any:
            found: Any = None
            for request in items:
                indices, _ = serve(request)
                found = [part(index) for index in indices]
            return found

        requests = _requests(segment, hashmap, window, count)
        return Operation(requests, loop, lambda i, got: _check_window(segment, i, window, got))

    return Offer(
        f"Segmenter.serve of a decrypted request for {window} parts, then part() for each: "
        "views, no copy",
        prepare,
    )


def decrypt_offer(api: Api) -> Offer:
    """The same with the request still encrypted."""

    def prepare() -> Runner:
        segment, hashmap = _served(api)
        serve, part = segment.serve, segment.part
        token = api.crypto.Token(fixtures.stream("resource.key", 0, 64))
        requests = _requests(segment, hashmap, 4, fixtures.COUNT)
        sealed = [token.seal(request) for request in requests]
        open_token = token.open

        def loop(items: Iterable[Any]) -> Any:
            found: Any = None
            for item in items:
                indices, _ = serve(open_token(item))
                found = [part(index) for index in indices]
            return found

        return Operation(sealed, loop, lambda i, got: _check_window(segment, i, 4, got))

    return Offer("Token.open of the request, then as in request.window", prepare)


def _offers(api: Api) -> dict[str, Offer]:
    return {
        "segment.desc": describe_offer(api),
        "segment.copy": copy_offer(api),
        "reassemble.copy": join_offer(api),
        "resource.build.16k": build_offer(api),
        "request.window": window_offer(api, 4),
        "request.window.10": window_offer(api, 10),
        "request.window.75": window_offer(api, 75),
        "request.window+decrypt": decrypt_offer(api),
    }


_ENCRYPTED = "the adapter measures the decrypted request alone"
_NO_PARTS = "outside its resource code the crate has no call for it"


def _window_row(window: int) -> Row:
    return Row(
        id="request.window" if window == 4 else f"request.window.{window}",
        title=f"part request, {window} parts",
        operation=f"a decrypted request for {window} consecutive parts of 2260 to {window} "
        "transmit descriptors; the position moves by one part",
        batch=1,
        evidence=_index_evidence,
        published="request.window" if window == 4 else None,
    )


SUITE = Suite(
    name="resources",
    title="Resources",
    text="The first three rows cut and join plain bytes, as the published report does; "
    "resource.build.16k is the whole operation with encryption and hashes. Requests go to a "
    "sender of 1 MiB - 1 in parts of 464 bytes.",
    rows=(
        Row(
            id="segment.desc",
            title="cut, descriptors",
            operation="16384 bytes to 43 descriptors of up to 383 bytes; no copy",
            payload=fixtures.LARGE_BYTES,
            batch=1,
            evidence=buffer_evidence,
            absent={
                "rns-openssl": "bytes cannot be cut without a copy there",
                "rns-internal": "bytes cannot be cut without a copy there",
                "lxmf-rs": "no borrowed packets in the crate",
            },
        ),
        Row(
            id="segment.copy",
            title="cut, copies",
            operation="16384 bytes to 43 copied parts of up to 383 bytes",
            payload=fixtures.LARGE_BYTES,
            evidence=buffer_evidence,
            published="segment",
            absent={"rns-rs": _NO_PARTS},
        ),
        Row(
            id="reassemble.copy",
            title="join",
            operation="43 scattered parts to 16384 contiguous bytes",
            payload=fixtures.LARGE_BYTES,
            evidence=buffer_evidence,
            published="reassemble",
            absent={"rns-rs": _NO_PARTS},
        ),
        Row(
            id="resource.build.16k",
            title="build",
            operation="16384 random bytes to an encrypted stream, resource hash, expected proof, "
            "36 map hashes checked for collisions, and the packed advertisement; no compression",
            payload=fixtures.LARGE_BYTES,
            evidence=resource_evidence,
        ),
        _window_row(4),
        _window_row(10),
        _window_row(75),
        Row(
            id="request.window+decrypt",
            title="part request, 4 parts, decrypted",
            operation="as request.window, with the request's token opened first",
            evidence=_index_evidence,
            absent=dict.fromkeys(("lxmf-rs", "rns-rs"), _ENCRYPTED),
        ),
    ),
    offers=_offers,
)
