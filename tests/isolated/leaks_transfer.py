"""Looks for leaks in resources, channels, LXMF, stamps and decisions; a program of its own."""

from __future__ import annotations

import bz2
import sys
from collections.abc import Callable
from typing import Any

from growth import fail, main

from netmesh import _core as core

KEY = bytes(64)
TOKEN = core.Token(KEY)
ALICE, BOB = core.Identity(), core.Identity()
ADDRESS = core.delivery_hash(BOB)
FIELDS = {1: [b"x" * 100, {"a": 1.5}], "text": None}
MESSAGE = core.Message.create(ALICE, ADDRESS, b"content" * 50, fields=FIELDS)
ELEMENT = core.Propagated.create(MESSAGE, BOB).with_stamp(bytes(32))
SEGMENT = core.Segmenter(b"text " * 2000, KEY, sdu=100, compression="off")
BOMB = core.StreamData(1, bz2.compress(bytes(10**6)), compressed=True)
BLOCK = core.Workblock(bytes(32), 2)
NODE = core.PropagationAppData(
    time=1,
    active=True,
    transfer_limit_kb=1.5,
    sync_limit_kb=2,
    stamp_cost=1,
    flexibility=1,
    peering_cost=1,
    metadata={1: b"name", 255: [b"x" * 100]},
)


def transfer() -> None:
    """A whole transfer with metadata and two hashmap updates."""
    block = core.metadata_pack({"name": b"x" * 50})
    sender = core.Segmenter(
        block + b"data" * 4000, KEY, sdu=100, has_metadata=True, request_id=bytes(16)
    )
    receiver = core.Assembler(sender.advertisement.pack(), sdu=100)
    while (request := receiver.next_request(75)) is not None:
        indices, update = sender.serve(request.pack())
        for index in indices:
            receiver.add(sender.part(index), window=75)
        if update is not None:
            receiver.update(sender.hashmap_update(update).pack())
    assert sender.check_proof(receiver.finish(KEY).proof)
    receiver.finish(TOKEN)


def complete() -> Any:
    """An assembler that has everything."""
    receiver = core.Assembler(SEGMENT.advertisement, sdu=10000)
    receiver.add(SEGMENT.stream)
    return receiver


def read_message() -> None:
    """Every attribute of a message."""
    message = core.Message.unpack(MESSAGE.packed)
    for name in dir(message):
        if not name.startswith("_") and not callable(getattr(message, name)):
            getattr(message, name)
    repr(message), hash(message), message == MESSAGE, message != b""


def stop(_: int) -> None:
    raise ZeroDivisionError


OPERATIONS: dict[str, Callable[[], Any]] = {
    "transfer": transfer,
    "compressed": lambda: core.Segmenter(b"text" * 500, TOKEN, compression="when_smaller"),
    "seal function": lambda: core.Segmenter(b"text", lambda body: body),
    "seal fails": fail(lambda: core.Segmenter(b"text", lambda body: 1 // 0)),
    "seal returns text": fail(lambda: core.Segmenter(b"text", lambda body: "text")),
    "collision": fail(lambda: core.Segmenter(b"x", lambda _: bytes(1000), sdu=100)),
    "bad options": fail(lambda: core.Segmenter(b"x", KEY, iv=b"short")),
    "bad key": fail(lambda: core.Segmenter(b"x", b"short")),
    "part out of range": fail(lambda: SEGMENT.part(10**6)),
    "wrong key": fail(lambda: complete().finish(KEY[::-1])),
    "open fails": fail(lambda: complete().finish(lambda stream: 1 // 0)),
    "open is wrong": fail(lambda: complete().finish(lambda stream: b"pppp" + stream)),
    "incomplete": fail(lambda: core.Assembler(SEGMENT.advertisement, sdu=100).finish(KEY)),
    "bad request": fail(lambda: SEGMENT.serve(bytes(50))),
    "bad advertisement": fail(lambda: core.Advertisement.unpack(b"\x8b\xa1t")),
    "advertisement fields": fail(
        lambda: core.Advertisement(
            **dict.fromkeys(core.Advertisement.__text_signature__[4:-1].split(", "), b"x")
        )
    ),
    "bad update": fail(lambda: core.HashmapUpdate.unpack(bytes(40))),
    "cut and join": lambda: core.join(core.cut(SEGMENT.stream, 77)),
    "join fails": fail(lambda: core.join([b"a", bytearray(b"b"), "c"])),
    "plan": lambda: core.segment_plan(10**8, 50),
    "metadata": lambda: core.metadata_unpack(core.metadata_pack(FIELDS)),
    "bad metadata": fail(lambda: core.metadata_unpack(b"\x00\x00\x02\x91\xc1")),
    "proof": lambda: core.resource_proof_unpack(core.resource_proof_pack(bytes(32), b"x" * 99)),
    "envelope": lambda: core.Envelope.unpack(core.Envelope(1, 2, bytearray(50)).pack()),
    "bad envelope": fail(lambda: core.Envelope(1, 2, bytes(70000))),
    "stream": lambda: core.stream_chunk(1, b"z" * 5000, 425)[0].content(),
    "bomb": fail(BOMB.content),
    "create": lambda: core.Message.create(
        ALICE, ADDRESS, "text", title="t", fields=FIELDS, ticket=bytes(16)
    ),
    "create fails": fail(lambda: core.Message.create(ALICE, ADDRESS, fields={1: [object()]})),
    "create with a bad stamp": fail(lambda: core.Message.create(ALICE, ADDRESS, stamp=b"x")),
    "read message": read_message,
    "unpack view": lambda: core.Message.unpack(memoryview(MESSAGE.packed)).payload,
    "unpack fails": fail(lambda: core.Message.unpack(MESSAGE.packed[:150])),
    "unpack and refuse": fail(lambda: core.Message.unpack(MESSAGE.packed, verify=True, source=BOB)),
    "opportunistic": lambda: core.Message.unpack_opportunistic(ADDRESS, MESSAGE.opportunistic),
    "verify": lambda: MESSAGE.verify(ALICE),
    "restamp": lambda: MESSAGE.with_stamp(bytes(32)).stamp_valid(1, tickets=[bytes(16)] * 3),
    "encode": lambda: core.Message.encode(
        ADDRESS, ADDRESS, bytes(64), timestamp=1.0, content=bytearray(9), fields=b"\x80"
    ),
    "encode fails": fail(
        lambda: core.Message.encode(ADDRESS, ADDRESS, bytes(64), timestamp=1.0, fields=b"\x90")
    ),
    "propagated": lambda: core.Propagated.create(MESSAGE, BOB).open(BOB, ratchets=[bytes(32)]),
    "open refused": fail(lambda: ELEMENT.open(ALICE, ratchets=[bytes(32)])),
    "container": lambda: core.container_unpack(core.container_pack([ELEMENT, bytes(150)], 1)),
    "bad container": fail(lambda: core.container_pack([ELEMENT, "text"], 1)),
    "paper": lambda: core.paper_uri_unpack(core.paper_uri(ELEMENT)),
    "bad paper": fail(lambda: core.paper_uri_unpack("lxm://" + "A" * 149)),
    "delivery data": lambda: core.DeliveryAppData.unpack(
        core.DeliveryAppData(display_name="N" * 50, functionality=(0, 1000)).pack()
    ),
    "bad delivery data": lambda: core.DeliveryAppData.unpack(b"\x93\xc4"),
    "bad functionality": fail(lambda: core.DeliveryAppData(functionality=(1, "x"))),
    "node data": lambda: (core.PropagationAppData.unpack(NODE.pack()).metadata, repr(NODE)),
    "bad node data": fail(lambda: core.PropagationAppData.unpack(b"\x97\x01")),
    "work block": lambda: core.Workblock(b"m" * 100, 1).to_bytes(),
    "search": lambda: BLOCK.search(4, progress=stop, cancel=core.StampCancel()),
    "search refused": fail(lambda: BLOCK.search(80, timeout_s=0.0)),
    "bad search": fail(lambda: BLOCK.search(1, start=b"x")),
    "profile": lambda: core.WindowProfile(window=5).first_part(1e6).round_complete(1.0),
    "decisions": lambda: (
        core.interface_defaults("tcp"),
        core.multicast_group("group", scope="5"),
        core.descope("fe80::1%eth0"),
        core.channel_window(1.0),
    ),
    "announce decision": lambda: core.announce_accepted(
        announce_hops=1, announce_blob=bytes(10), existing_hops=2, existing_blobs=[bytes(10)] * 5
    ),
    "bad decision": fail(
        lambda: core.announce_accepted(
            announce_hops=1, announce_blob=bytes(10), existing_hops=2, existing_blobs=[b"x"]
        )
    ),
}


if __name__ == "__main__":
    sys.exit(main(OPERATIONS))
