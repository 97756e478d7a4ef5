"""Cutting and joining 16 KiB, building a resource, answering a request for parts."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import RNS
from bench_kit import fixtures
from bench_kit.harness import Offer, Operation, require, same, unary
from rows_links import Wire, destination, open_link, target_of

PART = 383


def _link() -> tuple[Any, Any]:
    """Both ends of a link with the base MTU, so that parts have 464 bytes."""
    owner = destination(0)
    with Wire() as wire:
        return open_link(wire, owner, target_of(owner))


def _cut(count: int) -> Operation:
    buffers = [fixtures.large_buffer(number) for number in range(count)]

    def loop(items: Any) -> Any:
        parts = None
        for data in items:
            parts = tuple([data[at : at + PART] for at in range(0, len(data), PART)])
        return parts

    def check(index: int, parts: Any) -> bytes:
        joined = b"".join(parts)
        same("joined parts", joined, buffers[index])
        return joined

    return Operation(buffers, loop, check)


def _join(count: int) -> Operation:
    buffers = [fixtures.large_buffer(number) for number in range(count)]
    items = [tuple(b[at : at + PART] for at in range(0, len(b), PART)) for b in buffers]

    def check(index: int, joined: bytes) -> bytes:
        same("joined data", joined, buffers[index])
        return joined

    return Operation(items, unary(b"".join), check)


def _build() -> Operation:
    initiator, responder = _link()
    data = [fixtures.resource_data(number) for number in range(fixtures.COUNT)]
    resource_class = RNS.Resource
    advertisement_class = RNS.ResourceAdvertisement

    def loop(items: Any) -> Any:
        found = None
        for item in items:
            resource = resource_class(item, initiator, advertise=False, auto_compress=False)
            found = resource, advertisement_class(resource).pack()
        return found

    def check(index: int, found: Any) -> bytes:
        resource, packed = found
        read = advertisement_class.unpack(packed)
        digest = hashlib.sha256(data[index] + read.r).digest()
        same("resource hash", read.h, digest)
        proof = hashlib.sha256(data[index] + digest).digest()
        same("expected proof", resource.expected_proof, proof)
        same("parts", read.n, 36)
        opened = responder.decrypt(b"".join(part.data for part in resource.parts))[4:]
        same("opened data", opened, data[index])
        return bytes(opened)

    return Operation(data, loop, check)


class _UnsealedLink:
    """A link whose encryption only adds the bytes that a token would."""

    def __init__(self, link: Any) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def encrypt(self, plaintext: bytes) -> bytes:
        """The plaintext, as long as a token of it."""
        size = 48 + 16 * (len(plaintext) // 16 + 1)
        return plaintext + bytes(size - len(plaintext))


def _serving(data: bytes) -> Any:
    initiator, _ = _link()
    with Wire():
        link = _UnsealedLink(initiator)
        resource = RNS.Resource(data, link, advertise=False, auto_compress=False)
    resource.adv_sent = 0.0
    resource.status = RNS.Resource.TRANSFERRING
    return resource


def _listing(resource: Any) -> list[Any]:
    """Makes the parts list themselves in the returned list instead of being sent."""
    listed: list[Any] = []

    class Part(RNS.Packet):
        __slots__ = ()

        def send(self) -> None:
            listed.append(self)

        resend = send

    for part in resource.parts:
        part.__class__ = Part
        part.sent = True
    return listed


def _window(window: int) -> Operation:
    resource = _serving(fixtures.stream("resource.large", 0, fixtures.RESOURCE_LARGE_BYTES))
    require(len(resource.parts) == fixtures.RESOURCE_LARGE_PARTS, "number of parts")
    hashmap = resource.hashmap
    requests = [
        b"\0" + resource.hash + hashmap[4 * first : 4 * (first + window)] for first in range(64)
    ]
    sent = _listing(resource)
    answer, clear = resource.request, sent.clear

    def loop(items: Any) -> Any:
        for request in items:
            clear()
            answer(request)
        return list(sent)

    def check(index: int, parts: Any) -> bytes:
        same("parts sent", parts, resource.parts[index : index + window])
        return index.to_bytes(8, "little")

    return Operation(requests, loop, check)


def _published_window() -> Operation:
    """6 parts, a request for 4 of them, the state reset in each call."""
    resource = _serving(fixtures.stream("resource.large", 0, 5 * fixtures.RESOURCE_SDU))
    require(len(resource.parts) == 6, "number of parts")
    request = b"\0" + resource.hash + resource.hashmap[: 4 * 4]
    sent = _listing(resource)

    def loop(items: Any) -> Any:
        for item in items:
            sent.clear()
            resource.status = RNS.Resource.TRANSFERRING
            resource.sent_parts = 0
            resource.retries_left = resource.max_retries
            resource.receiver_min_consecutive_height = 0
            resource.rtt = None
            for part in resource.parts:
                part.sent = False
            resource.request(item)
        return list(sent)

    def check(_index: int, parts: Any) -> bytes:
        same("parts sent", parts, resource.parts[:4])
        return bytes(8)

    return Operation([request], loop, check)


CUT = "slices of bytes into a tuple: plain Python, the stack has no call for it"
JOIN = "b''.join of a tuple: plain Python, the stack has no call for it"
WINDOW = (
    "Resource.request of a decrypted request on 2260 parts; sending a part only lists it: no "
    "packet is made ready, nothing is copied"
)


def offers(_inputs: Path) -> dict[str, Offer]:
    """The rows of this suite."""
    rows = {
        "segment.copy": Offer(CUT, partial(_cut, 64)),
        "reassemble.copy": Offer(JOIN, partial(_join, 64)),
        "published.segment": Offer(CUT, partial(_cut, 1)),
        "published.reassemble": Offer(JOIN, partial(_join, 1)),
        "resource.build.16k": Offer(
            "Resource(data, link, advertise=False, auto_compress=False) with 36 packets packed, "
            "then ResourceAdvertisement.pack, not encrypted",
            _build,
        ),
        "published.request.window": Offer(
            "Resource.request for 4 of 6 parts, the sender's state reset within the call",
            _published_window,
        ),
    }
    for window in (4, 10, 75):
        suffix = "" if window == 4 else f".{window}"
        rows[f"request.window{suffix}"] = Offer(WINDOW, partial(_window, window))
    return rows
