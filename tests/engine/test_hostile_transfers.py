"""A peer with valid keys that lies about resources, requests and responses."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.attacks import Attack, advertisement, attack, segmented
from engine.wires import UNIX, identity, pair
from golden import ruled
from netmesh import Engine, Packet
from netmesh.constants import Context, LinkState, PacketType, ResourceFlag
from netmesh.crypto import full_hash
from netmesh.destination import path_hash
from netmesh.events import (
    RequestReceived,
    ResourceFailed,
    ResourceOffered,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.link import identify_pack
from netmesh.msgpack import packb
from netmesh.records import DropReason, Limits, Stage
from netmesh.resource import Advertisement, HashmapUpdate

TEST_PATH = "/test"
PATH_HASH = path_hash(TEST_PATH)


# ------------------------------------------------------------------------- resources in


MOST = (1 << 63) - 1
ABSURD: list[dict[str, Any]] = [
    {"transfer_bytes": 0},
    {"transfer_bytes": 1},
    {"transfer_bytes": MOST},
    {"transfer_bytes": MOST, "data_bytes": MOST},
    {"transfer_bytes": MOST, "data_bytes": MOST, "parts": MOST},
    {"transfer_bytes": 1 << 32, "parts": 1 << 24},
    {"parts": 0},
    {"parts": 2},
    {"parts": MOST},
    {"data_bytes": 0},
    {"data_bytes": MOST},
    {"hash": bytes(32)},
    {"hash": b""},
    {"hash": bytes(31)},
    {"hash": bytes(33)},
    {"random_hash": b""},
    {"random_hash": bytes(3)},
    {"random_hash": bytes(300)},
    {"original_hash": b""},
    {"segment": 0},
    {"segment": 2},
    {"segments": 0},
    {"segments": 2},
    {"segment": MOST, "segments": MOST},
    {"hashmap": b""},
    {"hashmap": bytes(3)},
    {"hashmap": bytes(400)},
    {"hashmap": bytes(8000)},
    {"flags": 0},
    {"flags": 0xFF},
    {"flags": ResourceFlag.ENCRYPTED | ResourceFlag.REQUEST},
    {"flags": ResourceFlag.ENCRYPTED | ResourceFlag.RESPONSE},
    {"flags": ResourceFlag.ENCRYPTED | ResourceFlag.REQUEST, "request_id": bytes(16)},
    {"flags": ResourceFlag.ENCRYPTED | ResourceFlag.RESPONSE, "request_id": bytes(16)},
    {"request_id": bytes(16)},
    {"request_id": bytes(15)},
    {"request_id": b""},
    {"flags": ResourceFlag.ENCRYPTED | ResourceFlag.METADATA},
]


@pytest.mark.parametrize("lies", ABSURD, ids=str)
@pytest.mark.parametrize("policy", ["all", "app"])
def test_an_absurd_advertisement_costs_nothing_for_long(lies: dict[str, Any], policy: str) -> None:
    at = attack(resources=policy)
    at.victim.handle(at.own.info.destination, TEST_PATH)
    try:
        payload = advertisement(at, **lies)
    except ValueError:
        payload = raw_advertisement(at, lies)
    at.lie(payload, Context.RESOURCE_ADV)
    at.lie(payload, Context.RESOURCE_ADV)
    made = segmented(at)
    for index in range(made.parts):
        at.lie(bytes(made.part(index)), Context.RESOURCE)
    for event in at.told(ResourceOffered):
        at.victim.accept(event.token)
    ask = b"\0" + made.advertisement.hash
    assert at.lie(ask, Context.RESOURCE_REQ) == DropReason.RESOURCE_UNKNOWN
    for index in range(made.parts):
        at.lie(bytes(made.part(index)), Context.RESOURCE)
    at.net.advance(300.0)
    assert at.victim.stats().operations == 0
    assert at.own.info.transfers_in == 0
    assert at.told(RequestReceived) == []
    assert len(at.told(ResourceReceived) + at.told(ResourceFailed)) <= 1
    if at.own.info.state == LinkState.ACTIVE:
        at.is_unharmed()


KEYS = {
    "transfer_bytes": "t", "data_bytes": "d", "parts": "n", "hash": "h", "random_hash": "r",
    "original_hash": "o", "segment": "i", "segments": "l", "request_id": "q", "flags": "f",
    "hashmap": "m",
}  # fmt: skip


def raw_advertisement(at: Attack, lies: dict[str, Any]) -> bytes:
    """One that netmesh itself does not write."""
    made = segmented(at).advertisement
    fields = {letter: getattr(made, name) for name, letter in KEYS.items()}
    fields = {k: v if isinstance(v, bytes | None) else int(v) for k, v in fields.items()}
    return packb(fields | {KEYS[name]: lie for name, lie in lies.items()})


@pytest.mark.parametrize("letter", sorted(KEYS.values()))
@pytest.mark.parametrize(
    "value", [None, True, -1, 1.5, math.nan, "text", b"\0" * 5, [1], {"a": 1}, 1 << 63], ids=repr
)
def test_an_advertisement_of_the_wrong_type_is_refused_or_without_effect(
    letter: str, value: object
) -> None:
    at = attack()
    made = segmented(at).advertisement
    fields = {short: getattr(made, name) for name, short in KEYS.items()}
    fields = {k: v if isinstance(v, bytes | None) else int(v) for k, v in fields.items()}
    at.lie(packb(fields | {letter: value}), Context.RESOURCE_ADV)
    at.net.advance(120.0)
    assert at.victim.stats().operations == 0
    assert at.told(ResourceReceived) == []


def test_an_advertisement_that_is_no_map_is_malformed() -> None:
    at = attack()
    good = advertisement(at)
    for payload in (b"", b"\x80", b"\xc0", b"\x93\x01\x02\x03", good[:-1], b"\xdf\xff\xff\xff\xff",
                    b"\xdf\xff\xff\xff\xff" + good[1:], bytes(50)):  # fmt: skip
        assert at.lie(payload, Context.RESOURCE_ADV) == DropReason.RESOURCE_MALFORMED
    at.is_unharmed()


def test_a_resource_above_the_limit_is_rejected_aloud() -> None:
    """With an RCL that names it, so that its sender need not wait for a time-out."""
    at = attack()
    at.own.policy("all", resource_max=2999)
    payload = advertisement(at)
    assert at.lie(payload, Context.RESOURCE_ADV) == DropReason.RESOURCE_REFUSED
    (reply,) = at.frames()
    assert reply.context == Context.RESOURCE_RCL
    assert at.liar.unseal(reply.raw) == Advertisement.unpack(payload).hash
    at.own.policy("all", resource_max=3000)
    assert at.lie(payload, Context.RESOURCE_ADV) == DropReason.NONE


def test_more_resources_than_allowed_are_rejected_aloud() -> None:
    at = attack(limits=Limits(transfers=2))
    assert at.lie(advertisement(at), Context.RESOURCE_ADV) == DropReason.NONE
    assert at.lie(advertisement(at), Context.RESOURCE_ADV) == DropReason.NONE
    at.frames()
    assert at.lie(advertisement(at), Context.RESOURCE_ADV) == DropReason.RESOURCE_REFUSED
    assert [reply.context for reply in at.frames()] == [Context.RESOURCE_RCL]
    assert at.own.info.transfers_in == 2


def test_parts_that_nobody_asked_for_are_dropped() -> None:
    at = attack(kind="udp")
    parts: list[bytes] = []

    def keep_parts(_: Engine, raw: bytes) -> list[bytes]:
        packet = Packet.unpack(raw)
        if packet.context == Context.RESOURCE:
            parts.append(bytes(packet.payload))
            return []
        return [raw]

    assert at.lie(bytes(100), Context.RESOURCE) == DropReason.RESOURCE_PART
    at.wire.pass_on = keep_parts
    at.liar.send_resource(ruled("parts", 9000), compression="off")
    at.net.settle()
    assert len(parts) > 1
    for junk in (b"\0", bytes(464), parts[0][:-1], parts[0] + b"\0", parts[0][::-1]):
        assert at.lie(junk, Context.RESOURCE) == DropReason.RESOURCE_PART
    assert at.lie(parts[0], Context.RESOURCE) == DropReason.NONE
    assert at.lie(parts[0], Context.RESOURCE) == DropReason.RESOURCE_PART
    at.wire.pass_on = None
    at.net.advance(30.0)
    assert [event.data for event in at.told(ResourceReceived)] == [ruled("parts", 9000)]


def test_a_hashmap_update_out_of_range_changes_nothing() -> None:
    """A segment beyond the last, one that is known, one too long, one nobody asked for."""
    at = attack(kind="udp")
    content = ruled("hashmap", 150_000)
    maps = bytes(74 * 4)
    updates = [
        (segment, hashes)
        for segment in (0, 2, 3, -1, 1 << 40, MOST)
        for hashes in (maps, bytes(4))
    ] + [
        (1, b""), (1, maps + bytes(4)), (1, maps[:-1]), (1, bytes(5)), (1.0, maps), (None, maps),
        ("1", maps), (1, None), (1, "text"),
    ]  # fmt: skip
    bad = [DropReason.RESOURCE_MALFORMED, DropReason.DUPLICATE]
    seen = []

    def lie_first(sender: Engine, raw: bytes) -> list[bytes]:
        packet = Packet.unpack(raw)
        if sender is at.victim or packet.context != Context.RESOURCE_HMU:
            return [raw]
        true = HashmapUpdate.unpack(at.own.unseal(raw))
        seen.append(true.segment)
        if true.segment == 1:
            for update in updates:
                payload = true.resource_hash + packb(list(update))
                assert at.lie(payload, Context.RESOURCE_HMU) in bad, update
            for payload in (
                true.resource_hash, true.resource_hash[:-1], true.resource_hash + b"\xc0",
                true.resource_hash + b"\x91\x01", b"\0",
            ):  # fmt: skip
                assert at.lie(payload, Context.RESOURCE_HMU) == DropReason.RESOURCE_MALFORMED
            foreign = full_hash(b"foreign") + packb([1, maps])
            assert at.lie(foreign, Context.RESOURCE_HMU) == DropReason.RESOURCE_UNKNOWN
        return [raw]

    at.wire.pass_on = lie_first
    at.liar.send_resource(content, compression="off")
    at.net.settle()
    assert seen[0] == 1
    assert [event.data for event in at.told(ResourceReceived)] == [content]
    # And once it is complete, one more is of a resource that is not there.
    assert at.lie(bytes(32) + packb([1, maps]), Context.RESOURCE_HMU) == (
        DropReason.RESOURCE_UNKNOWN
    )


# ------------------------------------------------------------------------ resources out


def test_a_request_for_parts_that_are_not_there_sends_nothing() -> None:
    at = attack()
    op = at.own.send_resource(ruled("out", 100_000), compression="off")
    (adv,) = at.frames()
    advert = Advertisement.unpack(at.liar.unseal(adv.raw))
    resource = bytes(advert.hash)
    for payload, least in [
        (b"", DropReason.RESOURCE_MALFORMED),
        (b"\0", DropReason.RESOURCE_MALFORMED),
        (b"\0" + resource[:-1], DropReason.RESOURCE_MALFORMED),
        (b"\x01" + resource, DropReason.RESOURCE_MALFORMED),
        (b"\0" + resource + b"\0", DropReason.RESOURCE_MALFORMED),
        (b"\xff" + bytes(3) + resource, DropReason.RESOURCE_MALFORMED),
        (b"\0" + full_hash(b"foreign"), DropReason.RESOURCE_UNKNOWN),
    ]:
        assert at.lie(payload, Context.RESOURCE_REQ) == least, payload
        assert at.frames() == []
    at.lie(b"\0" + resource + bytes(4 * 100), Context.RESOURCE_REQ)
    assert [p for p in at.frames() if p.context == Context.RESOURCE] == []
    # The same part named a hundred times goes once a request.
    part = bytes(advert.hashmap)[:4]
    at.lie(b"\0" + resource + part * 100, Context.RESOURCE_REQ)
    assert len([p for p in at.frames() if p.context == Context.RESOURCE]) == 1
    # "I have all hashes up to one that does not exist": there is no such update.
    at.lie(b"\xff" + b"\1\2\3\4" + resource, Context.RESOURCE_REQ)
    assert [p for p in at.frames() if p.context == Context.RESOURCE_HMU] == []
    at.net.advance(300.0)
    (sent,) = at.told(ResourceSent)
    assert (sent.op, sent.ok) == (op, False)
    assert at.victim.stats().operations == 0


@pytest.mark.parametrize("responder", [True, False])
def test_a_false_resource_proof_completes_nothing(responder: bool) -> None:
    at = attack(responder)
    at.own.send_resource(ruled("out", 1000), compression="off")
    (adv,) = at.frames()
    resource = bytes(Advertisement.unpack(at.liar.unseal(adv.raw)).hash)
    for payload in (
        resource + bytes(32), resource, resource + resource, bytes(64), resource + bytes(33),
        full_hash(b"foreign") + bytes(32),
    ):  # fmt: skip
        reason = at.lie(payload, Context.RESOURCE_PRF, PacketType.PROOF)
        assert reason != DropReason.NONE, payload
    assert at.told(ResourceSent) == []
    assert at.lie(full_hash(b"foreign"), Context.RESOURCE_RCL) == DropReason.RESOURCE_UNKNOWN
    assert at.lie(resource[:-1], Context.RESOURCE_RCL) == DropReason.RESOURCE_MALFORMED
    assert at.lie(resource, Context.RESOURCE_ICL) == DropReason.RESOURCE_UNKNOWN
    assert at.told(ResourceSent) == []
    assert at.lie(resource, Context.RESOURCE_RCL) == DropReason.NONE
    (sent,) = at.told(ResourceSent)
    assert (sent.ok, sent.stage) == (False, Stage.REFUSED)
    at.is_unharmed()


# ------------------------------------------------------------------ requests, responses


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (packb([UNIX, PATH_HASH, b"x"]), DropReason.NONE),
        (packb([UNIX, PATH_HASH, b"x", 2]), DropReason.NONE),  # upstream passes over more
        (packb([UNIX, PATH_HASH, b"x"]) + b"\0", DropReason.NONE),
        (packb([math.nan, PATH_HASH, b"x"]), DropReason.NONE),
        (packb([math.inf, PATH_HASH, b"x"]), DropReason.NONE),
        (packb([-1e300, PATH_HASH, None]), DropReason.NONE),
        (packb([0, PATH_HASH, None]), DropReason.NONE),
        (packb([MOST, PATH_HASH, None]), DropReason.NONE),
        (packb([UNIX, bytes(16), b"x"]), DropReason.REQUEST_PATH),
        (packb([UNIX, PATH_HASH]), DropReason.LINK_PAYLOAD),
        (packb([UNIX, PATH_HASH[:-1], 1]), DropReason.LINK_PAYLOAD),
        (packb([UNIX, PATH_HASH + b"\0", 1]), DropReason.LINK_PAYLOAD),
        (packb(["now", PATH_HASH, 1]), DropReason.LINK_PAYLOAD),
        (packb([None, PATH_HASH, 1]), DropReason.LINK_PAYLOAD),
        (packb([UNIX, None, 1]), DropReason.LINK_PAYLOAD),
        (packb([UNIX, PATH_HASH, 1])[:-1], DropReason.LINK_PAYLOAD),
        (b"", DropReason.LINK_PAYLOAD),
        (b"\xdd\xff\xff\xff\xff", DropReason.LINK_PAYLOAD),
        (b"\x91" * 400, DropReason.LINK_PAYLOAD),
    ],
)
def test_a_request_is_told_or_named_as_what_it_is(packed: bytes, reason: DropReason) -> None:
    at = attack()
    at.victim.handle(at.own.info.destination, TEST_PATH)
    assert at.lie(packed, Context.REQUEST) == reason
    told = at.told(RequestReceived)
    assert len(told) == (reason == DropReason.NONE)
    for event in told:
        assert math.isfinite(event.requested_unix_s)
    at.is_unharmed()


def test_a_request_above_the_limit_is_refused_by_its_size() -> None:
    at = attack(request_max=200)
    at.victim.handle(at.own.info.destination, TEST_PATH)
    fits = 200 - len(packb([UNIX, PATH_HASH, b""]))
    for size, reason in ((fits, DropReason.NONE), (fits + 1, DropReason.REQUEST_SIZE)):
        packed = packb([UNIX, PATH_HASH, bytes(size)])
        assert at.lie(packed, Context.REQUEST) == reason
    # The same as a resource, whatever it says about its size.
    flags = ResourceFlag.ENCRYPTED | ResourceFlag.REQUEST
    payload = advertisement(at, 3000, flags=flags, request_id=bytes(16))
    assert at.lie(payload, Context.RESOURCE_ADV) == DropReason.REQUEST_SIZE
    assert [p.context for p in at.frames()] == [Context.RESOURCE_RCL]
    made = segmented(at)
    small = advertisement(at, 3000, flags=flags, request_id=bytes(16), data_bytes=200,
                          hash=made.advertisement.hash)  # fmt: skip
    assert at.lie(small, Context.RESOURCE_ADV) == DropReason.NONE
    at.net.advance(60.0)
    assert len(at.told(RequestReceived)) == 1
    assert at.victim.stats().operations == 0


def test_a_request_without_leave_is_refused_without_a_word() -> None:
    at = attack()
    at.victim.handle(at.own.info.destination, TEST_PATH, allow="list", allowed=[identity(3).hash])
    packed = packb([UNIX, PATH_HASH, b"x"])
    assert at.lie(packed, Context.REQUEST) == DropReason.REQUEST_POLICY
    at.lie(identify_pack(at.own.info.link_id, identity(4)), Context.LINKIDENTIFY)
    assert at.lie(packed, Context.REQUEST) == DropReason.REQUEST_POLICY
    assert at.frames() == []
    assert at.told(RequestReceived) == []


def test_a_request_to_the_initiator_is_refused() -> None:
    at = attack(responder=False)
    packed = packb([UNIX, PATH_HASH, b"x"])
    assert at.lie(packed, Context.REQUEST) == DropReason.REQUEST_PATH


def test_a_response_to_a_foreign_request_is_dropped() -> None:
    at = attack(responder=False)
    op = at.own.request(TEST_PATH, 1)
    (packet,) = at.frames()
    request_id = packet.hash[:16]
    for payload, reason in [
        (packb([bytes(16), b"x"]), DropReason.REQUEST_UNKNOWN),
        (packb([request_id[:-1], b"x"]), DropReason.LINK_PAYLOAD),
        (packb([request_id]), DropReason.LINK_PAYLOAD),
        (packb([request_id, b"x"])[:-1], DropReason.LINK_PAYLOAD),
        (b"", DropReason.LINK_PAYLOAD),
        (b"\xc0", DropReason.LINK_PAYLOAD),
        (packb(request_id), DropReason.LINK_PAYLOAD),
    ]:
        assert at.lie(payload, Context.RESPONSE) == reason, payload
    flags = ResourceFlag.ENCRYPTED | ResourceFlag.RESPONSE
    foreign = advertisement(at, flags=flags, request_id=bytes(16))
    assert at.lie(foreign, Context.RESOURCE_ADV) == DropReason.REQUEST_UNKNOWN
    assert at.told(ResponseDone) == []
    assert at.lie(packb([request_id, "yes"]), Context.RESPONSE) == DropReason.NONE
    again = at.lie(packb([request_id, "no"]), Context.RESPONSE)
    assert again == DropReason.REQUEST_UNKNOWN
    (done,) = at.told(ResponseDone)
    assert (done.op, done.ok, done.data) == (op, True, "yes")
    at.is_unharmed()


def test_a_response_on_another_link_is_none() -> None:
    net, a, b, wire = pair()
    own = net.listen(b)
    first, second = net.link(a, own), net.link(a, own)
    first.request(TEST_PATH, 1)
    (output,) = a.outputs()
    request_id = Packet.unpack(output.data).hash[:16]
    payload = packb([request_id, "forged"])
    frame = net.far(second, b).seal(payload, context=Context.RESPONSE)
    assert a.input(wire.at(a), frame).reason == DropReason.REQUEST_UNKNOWN


def test_a_response_above_the_limit_ends_the_request_at_once() -> None:
    at = attack(responder=False)
    op = at.own.request(TEST_PATH, 1, response_max=100)
    (packet,) = at.frames()
    flags = ResourceFlag.ENCRYPTED | ResourceFlag.RESPONSE
    payload = advertisement(at, flags=flags, request_id=packet.hash[:16])
    assert at.lie(payload, Context.RESOURCE_ADV) == DropReason.REQUEST_SIZE
    (done,) = at.told(ResponseDone)
    assert (done.op, done.reason, done.stage) == (op, "LIMIT", Stage.REFUSED)
    at.net.settle()
    op = at.own.request(TEST_PATH, 1, response_max=100)
    packet = at.frames()[-1]
    large = packb([packet.hash[:16], bytes(101)])
    at.lie(large, Context.RESPONSE)
    done = at.told(ResponseDone)[-1]
    assert (done.op, done.ok, done.reason) == (op, False, "LIMIT")
    assert at.victim.stats().operations == 0
