"""Packets: every field both ways, the hash, the rules (P7)."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from golden import name_of, raw, vectors
from inputs import BUFFERS, NOT_BYTES, strided, truncations
from netmesh import _core
from netmesh.errors import DecodeError, EncodeError

CORE = "reticulum-core"
ADDRESS, RELAY = bytes(range(16)), bytes(range(100, 116))


@pytest.mark.parametrize("vector", vectors(CORE, "packet"), ids=name_of)
def test_every_field_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P7: parsed, and packed again from the fields."""
    expected = vector["output"]
    packet = impl.Packet.unpack(raw(expected["raw"]))
    for name in ("flags", "hops", "header_type", "transport_type", "destination_type", "context"):
        assert getattr(packet, name) == expected[name]
    assert packet.packet_type == expected["packet_type"]
    assert packet.context_flag is bool(expected["context_flag"])
    assert packet.transport_id == raw(expected["transport_id"])
    assert packet.destination == raw(expected["destination_hash"])
    assert packet.payload == raw(expected["data"])
    assert packet.hashable_part == raw(expected["hashable_part"])
    assert packet.hash == impl.packet_hash(packet.raw) == raw(expected["packet_hash"])
    assert packet.truncated_hash == raw(expected["truncated_hash"])
    assert packet.raw == packet.pack() == raw(expected["raw"])
    again = impl.Packet(
        destination=packet.destination,
        payload=packet.payload,
        packet_type=packet.packet_type,
        destination_type=packet.destination_type,
        header_type=packet.header_type,
        context_flag=packet.context_flag,
        transport_type=packet.transport_type,
        hops=packet.hops,
        context=packet.context,
        transport_id=packet.transport_id,
    )
    assert again == packet
    fast = impl.pack_packet(
        packet.destination,
        packet.payload,
        packet.flags,
        packet.hops,
        packet.context,
        packet.transport_id,
    )
    assert fast == packet.raw


@pytest.mark.parametrize("vector", vectors(CORE, "packet_parse"), ids=name_of)
def test_what_is_a_packet_is_what_upstream_accepts(impl: Any, vector: dict[str, Any]) -> None:
    """P7."""
    data = raw(vector["input"]["raw"])
    if vector["output"]["accepted"]:
        assert impl.Packet.unpack(data).raw == data
    else:
        with pytest.raises(DecodeError):
            impl.Packet.unpack(data)
        with pytest.raises(DecodeError):
            impl.packet_hash(data)


def test_every_flag_combination_goes_both_ways(impl: Any) -> None:
    """P7: all 128 first bytes, through the constructor and the fast form."""
    for flags in range(128):
        relay = RELAY if flags & 0x40 else None
        data = impl.pack_packet(ADDRESS, b"data", flags=flags, hops=5, transport_id=relay)
        packet = impl.Packet.unpack(data)
        assert packet.flags == data[0] == flags
        made = impl.Packet(
            destination=ADDRESS,
            payload=b"data",
            packet_type=flags & 3,
            destination_type=flags >> 2 & 3,
            transport_type=flags >> 4 & 1,
            context_flag=bool(flags & 0x20),
            header_type=flags >> 6,
            hops=5,
            transport_id=relay,
        )
        assert made.raw == data


def test_every_context_byte_is_allowed(impl: Any) -> None:
    """P7."""
    for context in range(256):
        packet = impl.Packet(destination=ADDRESS, payload=b"x", context=context)
        assert impl.Packet.unpack(packet.raw).context == context


def test_the_hash_is_the_same_at_every_hop(impl: Any) -> None:
    """P7: whatever a relay may change does not count."""
    sent = impl.Packet(destination=ADDRESS, payload=b"data", context=9)
    relayed = impl.Packet(
        destination=ADDRESS,
        payload=b"data",
        context=9,
        header_type=1,
        transport_type=1,
        hops=7,
        transport_id=RELAY,
    )
    assert relayed.hash == sent.hash
    assert sent.replace(hops=100, context_flag=True).hash == sent.hash
    assert sent.replace(context=8).hash != sent.hash
    assert sent.replace(packet_type=1).hash != sent.hash
    assert len(sent.hash) == 32
    assert sent.truncated_hash == sent.hash[:16]


@pytest.mark.parametrize("raw_packet", ["h1", "h2"])
def test_truncation_names_the_field_that_is_not_complete(impl: Any, raw_packet: str) -> None:
    """P7: at its offset; a packet without data is EMPTY."""
    if raw_packet == "h1":
        data, limits = bytes(20), [(0, "flags"), (1, "hops"), (2, "destination"), (18, "context")]
    else:
        data = b"\x40" + bytes(35)
        limits = [
            (0, "flags"),
            (1, "hops"),
            (2, "transport_id"),
            (18, "destination"),
            (34, "context"),
        ]
    assert impl.Packet.unpack(data).payload == b"\0"
    for wrong in truncations(data):
        with pytest.raises(DecodeError) as caught:
            impl.Packet.unpack(wrong)
        error = caught.value
        if len(wrong) == len(data) - 1:
            assert (error.reason, error.field, error.offset) == ("EMPTY", "payload", len(wrong))
        else:
            offset, field = [limit for limit in limits if limit[0] <= len(wrong)][-1]
            assert (error.reason, error.field, error.offset) == ("TRUNCATED", field, offset)
        assert error.codec == "packet"
        assert error.field in str(error)
        assert f"at offset {error.offset} " in str(error)


def test_the_message_of_an_error_is_a_sentence() -> None:
    """Naming codec, field, offset and rule."""
    with pytest.raises(DecodeError) as caught:
        _core.Packet.unpack(bytes(18))
    assert str(caught.value) == (
        "packet: field 'context' at offset 18 ends before the field is complete"
    )


def test_too_many_hops_are_refused(impl: Any) -> None:
    """P7: on reception; a hop count of 127 passes."""
    assert impl.Packet.unpack(b"\0\x7f" + bytes(18)).hops == 127
    for hops in (128, 255):
        with pytest.raises(DecodeError) as caught:
            impl.Packet.unpack(bytes([0, hops]) + bytes(18))
        assert (caught.value.reason, caught.value.field) == ("RANGE", "hops")


REFUSED = {
    "too large": ({"payload": bytes(482)}, "TOO_LARGE"),
    "too large for its mtu": ({"payload": bytes(82), "mtu": 100}, "TOO_LARGE"),
    "empty": ({"payload": b""}, "EMPTY"),
    "no transport id": ({"header_type": 1, "hops": 1}, "MISSING"),
    "a transport id too many": ({"transport_id": RELAY}, "VALUE"),
    "a relayed header originated": ({"header_type": 1, "transport_id": RELAY}, "STATE"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sent_is_refused(impl: Any, name: str) -> None:
    """P7: with the reason."""
    fields, reason = REFUSED[name]
    with pytest.raises(EncodeError) as caught:
        impl.Packet(**{"destination": ADDRESS, "payload": b"x", **fields})
    assert caught.value.reason == reason


def test_what_just_fits_is_not_refused(impl: Any) -> None:
    """P7: at the MTU; a relayed announce may be originated; a relay may write any header."""
    assert len(impl.Packet(destination=ADDRESS, payload=bytes(481)).raw) == 500
    assert len(impl.Packet(destination=ADDRESS, payload=bytes(8173), mtu=8192).raw) == 8192
    for fields in ({"packet_type": 1}, {"hops": 1}):
        relayed = impl.Packet(
            destination=ADDRESS, payload=b"x", header_type=1, transport_id=RELAY, **fields
        )
        assert relayed.transport_id == RELAY
    data = impl.pack_packet(ADDRESS, b"x", flags=0x50, transport_id=RELAY)
    assert impl.Packet.unpack(data).hops == 0


def test_numbers_out_of_their_range_are_refused(impl: Any) -> None:
    """P7."""
    limits = {
        "packet_type": 3,
        "destination_type": 3,
        "header_type": 1,
        "transport_type": 1,
        "hops": 127,
        "context": 255,
    }
    for name, limit in limits.items():
        for wrong in (-1, limit + 1, 2**70):
            with pytest.raises(ValueError, match=name):
                impl.Packet(destination=ADDRESS, payload=b"x", **{name: wrong})
        with pytest.raises(TypeError, match=name):
            impl.Packet(destination=ADDRESS, payload=b"x", **{name: "1"})
    with pytest.raises(TypeError, match="context_flag"):
        impl.Packet(destination=ADDRESS, payload=b"x", context_flag=1)
    for name, limit in {"flags": 127, "hops": 127, "context": 255}.items():
        with pytest.raises(ValueError, match=name):
            impl.pack_packet(ADDRESS, b"x", **{name: limit + 1})


def test_addresses_have_16_bytes(impl: Any) -> None:
    """P7."""
    for size in (0, 15, 17):
        with pytest.raises(ValueError, match="destination"):
            impl.Packet(destination=bytes(size), payload=b"x")
        with pytest.raises(ValueError, match="transport_id"):
            impl.Packet(
                destination=ADDRESS, payload=b"x", header_type=1, hops=1, transport_id=bytes(size)
            )
        with pytest.raises(ValueError, match="destination"):
            impl.pack_packet(bytes(size), b"x")
    typed = impl.Packet(
        destination=impl.DestinationHash(ADDRESS),
        payload=b"x",
        header_type=1,
        hops=1,
        transport_id=impl.IdentityHash(RELAY),
    )
    assert (typed.destination, typed.transport_id) == (ADDRESS, RELAY)


@pytest.mark.parametrize("received", NOT_BYTES)
def test_bytes_are_bytes(impl: Any, received: str) -> None:
    """P7: wrong types are TypeErrors."""
    wrong = NOT_BYTES[received]
    for call in (
        lambda: impl.Packet.unpack(wrong),
        lambda: impl.packet_hash(wrong),
        lambda: impl.Packet(destination=wrong, payload=b"x"),
        lambda: impl.Packet(destination=ADDRESS, payload=wrong),
        lambda: impl.pack_packet(ADDRESS, wrong),
    ):
        with pytest.raises(TypeError):
            call()


def test_arguments_of_the_constructor_are_keywords(impl: Any) -> None:
    """P7."""
    for call in (
        lambda: impl.Packet(ADDRESS, b"x"),
        lambda: impl.Packet(destination=ADDRESS),
        lambda: impl.Packet(payload=b"x"),
        lambda: impl.Packet(destination=ADDRESS, payload=b"x", colour=1),
        lambda: impl.pack_packet(ADDRESS),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("kind", BUFFERS)
def test_packets_come_in_every_kind_of_buffer(impl: Any, kind: str) -> None:
    """P7: and a buffer that changes later does not change the packet."""
    data = impl.pack_packet(ADDRESS, b"some data")
    buffer = BUFFERS[kind](data)
    packet = impl.Packet.unpack(buffer)
    if kind in ("bytearray", "mmap"):
        buffer[19] = 0
    assert packet.raw == data
    made = impl.Packet(destination=BUFFERS[kind](ADDRESS), payload=BUFFERS[kind](b"some data"))
    assert made == packet
    with pytest.raises((TypeError, BufferError)):
        impl.Packet.unpack(strided(data))


def test_the_payload_is_a_view_that_keeps_its_owner(impl: Any) -> None:
    """P7: parsing copies nothing."""
    data = impl.pack_packet(ADDRESS, b"some data")
    packet = impl.Packet.unpack(data)
    view = packet.payload
    assert isinstance(view, memoryview)
    assert view.readonly
    assert view.obj is data
    assert packet.raw is data
    del packet, data
    gc.collect()
    assert bytes(view) == b"some data"


def test_a_released_view_does_not_spoil_the_packet(impl: Any) -> None:
    """P7: each caller gets a view that works."""
    packet = impl.Packet(destination=ADDRESS, payload=b"some data")
    with packet.payload as view:
        assert view == b"some data"
    assert packet.payload == b"some data"


def test_packets_are_values(impl: Any) -> None:
    """P7: compared, hashed and printed by content; immutable; copied and pickled."""
    packet = impl.Packet(destination=ADDRESS, payload=b"data", context=0xFA, hops=3)
    same = impl.Packet.unpack(bytearray(packet.raw))
    assert packet == same
    assert hash(packet) == hash(same)
    assert packet != packet.replace(hops=4)
    assert packet != packet.raw
    assert repr(packet) == (
        f"<Packet DATA to SINGLE {ADDRESS.hex()}, context 0xfa, 3 hops, 4 bytes>"
    )
    for name in ("hops", "raw", "payload", "extra"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(packet, name, b"")
    for again in (copy.copy(packet), copy.deepcopy(packet), pickle.loads(pickle.dumps(packet))):
        assert again == packet


def test_replacing_fields_keeps_the_others(impl: Any) -> None:
    """P7."""
    packet = impl.Packet(
        destination=ADDRESS,
        payload=b"data",
        packet_type=1,
        context_flag=True,
        header_type=1,
        transport_type=1,
        hops=3,
        context=11,
        transport_id=RELAY,
    )
    assert packet.replace() == packet
    assert packet.replace(payload=b"other").payload == b"other"
    direct = packet.replace(header_type=0, transport_id=None, transport_type=0)
    assert (direct.transport_id, direct.context, direct.hops) == (None, 11, 3)
    assert packet.replace(payload=bytes(600), mtu=1000).payload == bytes(600)
    with pytest.raises(EncodeError):
        packet.replace(payload=bytes(600))
    with pytest.raises(EncodeError):
        packet.replace(transport_id=None)
    with pytest.raises(TypeError):
        packet.replace(colour=1)


def test_which_packets_travel_in_clear(impl: Any) -> None:
    """P7: RNS 1, 4.5, for every type and context."""
    clear_contexts = {0x01, 0xFA, 0x08, 0xFF}
    for packet_type in range(4):
        for destination_type in range(4):
            for context in range(256):
                clear = packet_type != 0 or destination_type == 2 or context in clear_contexts
                found = impl.travels_in_clear(packet_type, destination_type, context)
                assert found is clear
    for wrong in ((4, 0, 0), (0, 4, 0), (0, 0, 256), (-1, 0, 0)):
        with pytest.raises(ValueError, match=r"."):
            impl.travels_in_clear(*wrong)


def test_packets_may_be_made_in_many_threads() -> None:
    """P7."""
    shared = _core.Packet(destination=ADDRESS, payload=b"data")

    def cycle(i: int) -> bool:
        packet = _core.Packet.unpack(shared.replace(hops=i % 128).raw)
        return bytes(shared.payload) == b"data" and packet.hash == shared.hash

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(cycle, range(5000)))


def test_packing_and_parsing_hold_no_references() -> None:
    """P7: the counts of what goes in and comes out are as before."""
    data, payload = _core.pack_packet(ADDRESS, b"x" * 100), b"y" * 100
    before = sys.getrefcount(data), sys.getrefcount(payload), sys.getrefcount(ADDRESS)
    for _ in range(100):
        packet = _core.Packet.unpack(data)
        assert packet.payload
        assert _core.Packet(destination=ADDRESS, payload=payload).raw
        with pytest.raises(ValueError, match="hops"):
            _core.Packet(destination=ADDRESS, payload=payload, hops=200)
    del packet
    assert (sys.getrefcount(data), sys.getrefcount(payload), sys.getrefcount(ADDRESS)) == before
