"""Path requests, tunnels, requests and responses (P16)."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest

from golden import name_of, named, raw, vectors
from inputs import BUFFERS, NOT_BYTES, flips, truncations
from netmesh.constants import Context
from netmesh.errors import DecodeError, EncodeError, KeyMissingError, LimitError

CORE, LINKS = "reticulum-core", "reticulum-links"
PRIVATE = bytes(range(1, 65))
ADDRESS, RELAY, TAG = bytes(range(16)), bytes(range(50, 66)), bytes(range(100, 116))


# ------------------------------------------------------------------ path requests


@pytest.mark.parametrize("vector", vectors(CORE, "path_request"), ids=name_of)
def test_path_requests_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P16: payload and packet, with and without a transport id."""
    given, expected = vector["input"], vector["output"]
    wanted, relay, tag = (raw(given[key]) for key in ("wanted_destination", "transport_id", "tag"))
    request = impl.PathRequest(wanted, transport_id=relay, tag=tag)
    assert request.pack() == raw(expected["data"])
    packet = request.packet()
    assert packet.raw == raw(expected["raw"])
    assert packet.destination == raw(expected["destination_hash"])
    seen = impl.PathRequest.unpack(packet.payload)
    assert seen == request
    assert hash(seen) == hash(request)
    assert (seen.destination, seen.transport_id, seen.tag) == (wanted, relay, tag)
    assert isinstance(seen.destination, impl.DestinationHash)
    assert relay is None or isinstance(seen.transport_id, impl.IdentityHash)


def test_a_path_request_is_read_by_its_length(impl: Any) -> None:
    """P16: 16 bytes have no tag, 17 to 32 one, more also a transport id; tags are cut."""
    data = bytes(range(80))
    for size in range(16):
        with pytest.raises(DecodeError) as caught:
            impl.PathRequest.unpack(data[:size])
        assert (caught.value.reason, caught.value.field) == ("TRUNCATED", "destination")
    for size in range(16, 81):
        request = impl.PathRequest.unpack(data[:size])
        assert request.destination == data[:16]
        if size > 32:
            assert (request.transport_id, request.tag) == (data[16:32], data[32:size][:16])
            assert request.tag_was_cut is (size > 48)
        else:
            assert (request.transport_id, request.tag) == (None, data[16:size] or None)
            assert request.tag_was_cut is False
        assert request.pack() == data[: min(size, 48)]


def test_a_path_request_makes_its_own_tag(impl: Any) -> None:
    """P16: random, 16 bytes."""
    tags = {impl.PathRequest(ADDRESS).tag for _ in range(20)}
    assert len(tags) == 20
    assert {len(tag) for tag in tags} == {16}
    assert impl.PathRequest(ADDRESS, tag=b"t").tag == b"t"
    for wrong in (b"", bytes(17)):
        with pytest.raises(ValueError, match="tag"):
            impl.PathRequest(ADDRESS, tag=wrong)
    for wrong in (bytes(15), bytes(17)):
        with pytest.raises(ValueError, match="16"):
            impl.PathRequest(wrong)
        with pytest.raises(ValueError, match="16"):
            impl.PathRequest(ADDRESS, transport_id=wrong)
    for wrong in NOT_BYTES.values():
        with pytest.raises(TypeError):
            impl.PathRequest(wrong)
        with pytest.raises(TypeError):
            impl.PathRequest.unpack(wrong)


# ------------------------------------------------------------------------ tunnels


def test_a_tunnel_is_that_of_upstream(impl: Any) -> None:
    """P16: built, parsed, verified."""
    (vector,) = vectors(CORE, "tunnel_synthesize")
    given, expected = vector["input"], vector["output"]
    identity = impl.Identity.from_private(raw(given["transport_private_key"]))
    interface, random = raw(given["interface_hash"]), raw(given["random_hash"])
    assert impl.random_hash(raw(given["urandom16"])) == random
    tunnel = impl.TunnelSynthesis.create(identity, interface, random=random)
    assert tunnel.pack() == raw(expected["data"])
    assert tunnel.packet().raw == raw(expected["raw"])
    seen = impl.TunnelSynthesis.unpack(tunnel.packet().payload)
    assert seen == tunnel
    assert hash(seen) == hash(tunnel)
    assert seen.public_key == identity.public_key
    assert (seen.interface_hash, seen.random_hash) == (interface, random)
    assert seen.tunnel_id == impl.full_hash(identity.public_key + interface)
    if "tunnel_id" in expected:
        assert seen.tunnel_id == raw(expected["tunnel_id"])
    assert seen.verify() is True


def test_a_tunnel_has_176_bytes_all_of_which_count(impl: Any) -> None:
    """P16."""
    identity = impl.Identity.from_private(PRIVATE)
    data = impl.TunnelSynthesis.create(identity, bytes(32)).pack()
    assert len(data) == 176
    for wrong in [*list(truncations(data))[::11], data + b"\0"]:
        with pytest.raises(DecodeError) as caught:
            impl.TunnelSynthesis.unpack(wrong)
        assert caught.value.reason == "LENGTH"
    for place, wrong in enumerate(flips(data)):
        if place >= 32:  # the signature does not use the X25519 half, but covers it
            assert impl.TunnelSynthesis.unpack(wrong).verify() is False
    first, second = (impl.TunnelSynthesis.create(identity, bytes(32)) for _ in range(2))
    assert first.random_hash != second.random_hash
    assert first.tunnel_id == second.tunnel_id
    with pytest.raises(KeyMissingError):
        impl.TunnelSynthesis.create(identity.public_only(), bytes(32))
    for options in ({"interface_hash": bytes(31)}, {"random": bytes(15)}):
        interface = options.pop("interface_hash", bytes(32))
        with pytest.raises(ValueError, match="bytes"):
            impl.TunnelSynthesis.create(identity, interface, **options)
    with pytest.raises(TypeError):
        impl.TunnelSynthesis()


# ----------------------------------------------------------- requests and responses


@pytest.mark.parametrize("vector", vectors(LINKS, "request"), ids=name_of)
def test_requests_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P16: packed, read back, and their id in a packet."""
    given, expected = vector["input"], vector["output"]
    packed = raw(given["plaintext"])
    data = impl.unpackb(raw(given["data_msgpack"]))
    request = impl.Request(given["path"], data, timestamp=given["timestamp"])
    assert request.pack() == packed
    assert request.path_hash == raw(expected["path_hash"])
    assert impl.Request(request.path_hash, data, timestamp=given["timestamp"]) == request
    seen = impl.Request.unpack(packed)
    assert seen == request
    assert (seen.timestamp, seen.data) == (given["timestamp"], data)
    packet = impl.link_packet(
        raw(given["link_id"]),
        raw(given["derived_key"]),
        packed,
        context=Context.REQUEST,
        iv=raw(given["iv"]),
    )
    assert packet.raw == raw(expected["raw"])
    for value in (packet, packet.raw):
        assert impl.Request.id_of_packet(value) == raw(expected["request_id"])


@pytest.mark.parametrize("vector", vectors(LINKS, "response"), ids=name_of)
def test_responses_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P16."""
    given = vector["input"]
    packed, data = raw(given["plaintext"]), impl.unpackb(raw(given["response_msgpack"]))
    response = impl.Response(raw(given["request_id"]), data)
    assert response.pack() == packed
    seen = impl.Response.unpack(packed)
    assert seen == response
    assert (seen.request_id, seen.data) == (raw(given["request_id"]), data)


def test_the_id_of_a_large_request_is_that_of_upstream(impl: Any) -> None:
    """P16: sent as a resource, it is the truncated hash of the packed form."""
    vector = named(LINKS, "request_as_resource_advertisement")
    given = vector["input"]
    packed = raw(given["packed_request"])
    request = impl.Request(given["path"], raw(given["data"]), timestamp=given["timestamp"])
    assert request.pack() == packed
    assert impl.Request.id_of_resource(packed) == raw(vector["output"]["request_id"])


def test_a_request_carries_any_value(impl: Any) -> None:
    """P16: nil by default; the time is the system's."""
    before = time.time()
    request = impl.Request("/status")
    assert request.data is None
    assert before <= request.timestamp <= time.time()
    for data in (0, "text", b"bytes", [1, [2.5, None]], {"k": {1: b"v"}}, True):
        again = impl.Request.unpack(impl.Request("/x", data, timestamp=5).pack())
        assert (again.data, again.timestamp) == (data, 5.0)
        assert impl.Response.unpack(impl.Response(TAG, data).pack()).data == data


def test_requests_compare_by_their_packed_form(impl: Any) -> None:
    """P16: so that 1, 1.0 and True differ; hashable whatever the data."""
    one = impl.Request("/x", {"k": 1}, timestamp=5)
    assert one == impl.Request("/x", {"k": 1}, timestamp=5.0)
    assert hash(one) == hash(impl.Request("/x", {"k": 1}, timestamp=5))
    for other in ({"k": 1.0}, {"k": True}, {"k": 2}, None):
        assert one != impl.Request("/x", other, timestamp=5)
    assert one != impl.Request("/y", {"k": 1}, timestamp=5)
    assert one != impl.Request("/x", {"k": 1}, timestamp=6)
    assert impl.Response(TAG, [1]) == impl.Response(bytearray(TAG), [1])
    assert hash(impl.Response(TAG, [1])) == hash(impl.Response(TAG, [1]))
    assert impl.Response(TAG, [1]) != impl.Response(TAG, [True])
    assert impl.Response(TAG, [1]) != one
    with pytest.raises((AttributeError, TypeError)):
        one.data = None


def test_a_timestamp_is_any_number_and_more_elements_are_ignored(impl: Any) -> None:
    """P16."""
    for timestamp in (5, 5.0, -1, 2**63):
        packed = impl.packb([timestamp, TAG, "data", "more", 7]) + b"rest"
        request = impl.Request.unpack(packed)
        assert request.timestamp == float(timestamp)
        assert (request.path_hash, request.data) == (TAG, "data")
    assert impl.Response.unpack(impl.packb([TAG, None, 1]) + b"rest").data is None


BAD_REQUESTS = {
    "no array": ({"a": 1}, "TYPE", "request"),
    "too short": ([5.0, TAG], "LENGTH", "request"),
    "no number": (["5", TAG, None], "TYPE", "timestamp"),
    "a bool": ([True, TAG, None], "TYPE", "timestamp"),
    "path as text": ([5.0, "x" * 16, None], "TYPE", "path_hash"),
    "short path": ([5.0, TAG[:15], None], "LENGTH", "path_hash"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_malformed_request_names_the_field(impl: Any, name: str) -> None:
    """P16."""
    value, reason, field = BAD_REQUESTS[name]
    with pytest.raises(DecodeError) as caught:
        impl.Request.unpack(impl.packb(value))
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert caught.value.codec == "request"


def test_a_malformed_response_names_the_field(impl: Any) -> None:
    """P16."""
    for value, reason, field in (
        (5, "TYPE", "response"),
        ([TAG], "LENGTH", "response"),
        (["x" * 16, 1], "TYPE", "request_id"),
        ([TAG + b"\0", 1], "LENGTH", "request_id"),
    ):
        with pytest.raises(DecodeError) as caught:
            impl.Response.unpack(impl.packb(value))
        found = (caught.value.codec, caught.value.reason, caught.value.field)
        assert found == ("response", reason, field)


def test_every_truncation_is_an_error(impl: Any) -> None:
    """P16."""
    packed = impl.Request("/x", {"key": [1, b"bytes", "text"]}, timestamp=5).pack()
    for wrong in truncations(packed):
        with pytest.raises(DecodeError):
            impl.Request.unpack(wrong)
    packed = impl.Response(TAG, {"key": [1, b"bytes", "text"]}).pack()
    for wrong in truncations(packed):
        with pytest.raises(DecodeError):
            impl.Response.unpack(wrong)


def test_values_nest_within_limits(impl: Any) -> None:
    """P16: reading and writing."""
    deep: Any = None
    for _ in range(80):
        deep = [deep]
    with pytest.raises(EncodeError) as caught:
        impl.Request("/x", deep, timestamp=5).pack()
    assert caught.value.reason == "DEPTH"
    packed = impl.packb([5.0, TAG, deep], depth_max=200)
    with pytest.raises(LimitError):
        impl.Request.unpack(packed)
    with pytest.raises(LimitError):
        impl.Response.unpack(impl.packb([TAG, deep], depth_max=200))


def test_arguments_of_requests_are_checked(impl: Any) -> None:
    """P16."""
    for call in (lambda: impl.Request(bytes(15)), lambda: impl.Response(bytes(15), None)):
        with pytest.raises(ValueError, match="16"):
            call()
    for call in (
        lambda: impl.Request(5),
        lambda: impl.Request("/x", timestamp="5"),
        lambda: impl.Request("/x", object(), timestamp=5).pack(),
        lambda: impl.Response(5, None),
        lambda: impl.Response(TAG),
        lambda: impl.Request.id_of_resource("text"),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="finite"):
        impl.Request("/x", timestamp=float("nan"))
    with pytest.raises(DecodeError):
        impl.Request.id_of_packet(b"short")


@pytest.mark.parametrize("kind", BUFFERS)
def test_control_payloads_come_in_every_kind_of_buffer(impl: Any, kind: str) -> None:
    """P16."""
    make = BUFFERS[kind]
    request = impl.PathRequest(make(ADDRESS), transport_id=make(RELAY), tag=make(TAG))
    assert impl.PathRequest.unpack(make(request.pack())) == request
    asked = impl.Request(make(TAG), 5, timestamp=1)
    assert impl.Request.unpack(make(asked.pack())) == asked
    tunnel = impl.TunnelSynthesis.create(impl.Identity.from_private(PRIVATE), make(bytes(32)))
    assert impl.TunnelSynthesis.unpack(make(tunnel.pack())) == tunnel


def test_control_objects_can_be_shown(impl: Any) -> None:
    """P16: by field."""
    request = impl.PathRequest(ADDRESS, tag=b"tag")
    assert "tag=b'tag'" in repr(request)
    assert "tag_was_cut=False" in repr(request)
    assert "data={'k': 1}" in repr(impl.Request("/x", {"k": 1}, timestamp=5))
    assert copy.copy(request.destination) == request.destination
