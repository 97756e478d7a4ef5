"""Path requests, tunnels, requests and responses: the C core against the pure reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import (
    ADDRESS,
    PRIVATE,
    core,
    crosswise,
    damaged,
    fewer,
    pure,
    same,
    sized,
    truncations,
)

OWNER = bytes(range(64))
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=6),
        st.binary(max_size=6),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)

# ----------------------------------------------------------- path requests


@given(sized(16, 15), st.none() | sized(16, 17), sized(1, 16, 0, 17, 7))
def test_path_requests_are_made_alike(
    destination: bytes, transport_id: bytes | None, tag: bytes
) -> None:
    def run(impl: Any) -> Any:
        made = impl.PathRequest(destination, transport_id=transport_id, tag=tag)
        return made, made.pack(), made.packet()

    same(run)
    crosswise(
        lambda a, b: b.PathRequest.unpack(
            a.PathRequest(destination, transport_id=transport_id, tag=tag).pack()
        )
    )


@given(st.binary(max_size=70))
def test_any_path_request_is_read_alike(payload: bytes) -> None:
    def run(impl: Any) -> Any:
        taken = impl.PathRequest.unpack(payload)
        return taken, taken.pack(), taken.packet()

    same(run)


@pytest.mark.parametrize("impl", [core, pure])
def test_tags_left_out_are_random(impl: Any) -> None:
    one, other = impl.PathRequest(bytes(16)), impl.PathRequest(bytes(16))
    assert len(one.tag) == 16
    assert one.tag != other.tag


# ----------------------------------------------------------------- tunnels


@fewer(2)
@given(PRIVATE, sized(32, 31), sized(16, 15))
def test_tunnels_are_made_alike(private: bytes, interface: bytes, random: bytes) -> None:
    def run(impl: Any) -> Any:
        owner = impl.Identity.from_private(private)
        made = impl.TunnelSynthesis.create(owner, interface, random=random)
        return made, made.pack(), made.packet(), made.verify()

    same(run)


VALID_TUNNEL = pure.TunnelSynthesis.create(
    pure.Identity.from_private(OWNER), bytes(32), random=bytes(16)
).pack()


@fewer(2)
@given(damaged(st.just(VALID_TUNNEL)))
def test_damaged_tunnels_are_judged_alike(payload: bytes) -> None:
    def run(impl: Any) -> Any:
        taken = impl.TunnelSynthesis.unpack(payload)
        return taken, taken.verify(), taken.pack()

    same(run)


# -------------------------------------------------- requests and responses


@given(
    st.one_of(st.text(max_size=10), sized(16, 15)),
    VALUES,
    st.floats() | st.integers(-5, 2**70) | st.booleans(),
)
def test_requests_are_made_alike(path: Any, data: Any, timestamp: Any) -> None:
    def run(impl: Any) -> Any:
        made = impl.Request(path, data, timestamp=timestamp)
        return made, made.pack()

    same(run)
    crosswise(
        lambda a, b: b.Request.unpack(a.Request(path, data, timestamp=timestamp).pack()),
    )


@given(sized(16, 15), VALUES)
def test_responses_are_made_alike(request_id: bytes, data: Any) -> None:
    def run(impl: Any) -> Any:
        made = impl.Response(request_id, data)
        return made, made.pack()

    same(run)
    crosswise(lambda a, b: b.Response.unpack(a.Response(request_id, data).pack()))


ELEMENTS = st.one_of(
    VALUES,
    ADDRESS,
    st.just({(1, 2): 3}),
    st.floats(width=32),
    st.sampled_from((17e8, 0, -1, 2**64 - 1)),
)


@given(st.lists(ELEMENTS, max_size=5), st.binary(max_size=3))
def test_any_array_is_read_alike(elements: list[Any], rest: bytes) -> None:
    packed = pure.packb(elements) + rest
    same(lambda impl: impl.Request.unpack(packed))
    same(lambda impl: impl.Response.unpack(packed))


VALID = [
    pure.Request("/status", {"a": [1, 2.5, "b"]}, timestamp=17e8).pack(),
    pure.Response(bytes(range(16)), {"a": [1, 2.5, "b"]}).pack(),
    # Over-long encodings of all that is read, and keys that a decoder must look into.
    b"\xdd\x00\x00\x00\x03\xcf\x00\x00\x00\x00\x00\x00\x00\x01\xc6\x00\x00\x00\x10"
    + bytes(16)
    + b"\x82\x01\xc0\xcc\x01\xc0",
    b"\x92\xc4\x10" + bytes(16) + b"\x81\x80\xc0",
    b"\x92\xc4\x10" + bytes(16) + b"\x81\x91\x80\xc0",
    b"\x92\xc4\x10" + bytes(16) + b"\x91" * 70 + b"\xc0",
    b"\x92\xc4\x10" + bytes(16) + b"\xdd\x00\x20\x00\x00",
    b"\x92\xc4\x10" + bytes(16) + b"\xa1\xff",
]


@pytest.mark.parametrize("packed", VALID)
def test_truncated_arrays_are_refused_alike(packed: bytes) -> None:
    for data in (*truncations(packed), packed):
        same(lambda impl, d=data: impl.Request.unpack(d))
        same(lambda impl, d=data: impl.Response.unpack(d))


@given(damaged(st.sampled_from(VALID)))
def test_damaged_arrays_are_judged_alike(packed: bytes) -> None:
    same(lambda impl: impl.Request.unpack(packed))
    same(lambda impl: impl.Response.unpack(packed))


@given(st.binary(max_size=60))
def test_request_ids_agree(data: bytes) -> None:
    same(lambda impl: impl.Request.id_of_packet(data))
    same(lambda impl: impl.Request.id_of_packet(impl.Packet.unpack(data)))
    same(lambda impl: impl.Request.id_of_resource(data))


def test_what_cannot_be_packed_is_refused_alike() -> None:
    deep: Any = None
    for _ in range(63):
        deep = [deep]
    for data in (object(), 2**64, {1, 2}, "\ud800", deep, [deep]):
        same(lambda impl, d=data: impl.Request("/", d, timestamp=0).pack())
        same(lambda impl, d=data: impl.Response(bytes(16), d).pack())


@pytest.mark.parametrize("impl", [core, pure])
def test_payloads_are_equal_by_value(impl: Any) -> None:
    one = impl.Request("/", 1, timestamp=0)
    assert one == impl.Request("/", 1, timestamp=0.0)
    assert hash(one) == hash(impl.Request("/", 1, timestamp=0.0))
    for other in (
        impl.Request("/", 1.0, timestamp=0),
        impl.Request("/", True, timestamp=0),
        impl.Request("/a", 1, timestamp=0),
        impl.Request("/", 1, timestamp=1),
        impl.Response(bytes(16), 1),
        one.pack(),
    ):
        assert one != other
    assert impl.Response(bytes(16), [1]) == impl.Response(bytearray(16), (1,))
    assert impl.Response(bytes(16), [1]) != impl.Response(bytes(16), [1.0])
    assert impl.PathRequest(bytes(16), tag=b"a") == impl.PathRequest(bytes(16), tag=b"a")
    assert impl.PathRequest(bytes(16), tag=b"a") != impl.PathRequest(bytes(16), tag=b"b")
    assert impl.TunnelSynthesis.unpack(VALID_TUNNEL) == impl.TunnelSynthesis.unpack(VALID_TUNNEL)
    with pytest.raises(TypeError):
        hash(impl.Request("/", object(), timestamp=0))


def test_wrong_types_are_type_errors() -> None:
    def owner(impl: Any) -> Any:
        return impl.Identity.from_private(OWNER)

    for call in (
        lambda impl: impl.PathRequest(None),
        lambda impl: impl.PathRequest(impl.IdentityHash(bytes(16))),
        lambda impl: impl.PathRequest(bytes(16), transport_id=impl.DestinationHash(bytes(16))),
        lambda impl: impl.PathRequest(bytes(16), tag="tag"),
        lambda impl: impl.PathRequest.unpack("text"),
        lambda impl: impl.TunnelSynthesis(),
        lambda impl: impl.TunnelSynthesis.create(OWNER, bytes(32)),
        lambda impl: impl.TunnelSynthesis.create(owner(impl), "text"),
        lambda impl: impl.TunnelSynthesis.unpack(None),
        lambda impl: impl.Request(None),
        lambda impl: impl.Request("/", timestamp="0"),
        lambda impl: impl.Request.unpack("text"),
        lambda impl: impl.Request.id_of_packet(None),
        lambda impl: impl.Request.id_of_resource("text"),
        lambda impl: impl.Response(None, None),
        lambda impl: impl.Response(bytes(16)),
        lambda impl: impl.Response.unpack("text"),
    ):
        assert same(call)[2] == "TypeError"
    assert same(lambda impl: impl.Request("\ud800"))[2] == "UnicodeEncodeError"
    empty = same(lambda impl: impl.TunnelSynthesis.create(owner(impl).public_only(), bytes(32)))
    assert empty[2] == "KeyMissingError"
