"""LXMF messages, propagation and paper: the C core against the pure reference."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import (
    core,
    crosswise,
    damaged,
    fewer,
    pure,
    same,
    sized,
    truncations,
)

ALICE = bytes(range(64))
BOB = bytes(range(64, 128))
TIMES = st.floats(0, 4e9)
TEXTS = st.one_of(st.text(max_size=30), st.binary(max_size=300))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**64 - 1), st.floats(), TEXTS)
FIELDS = st.dictionaries(
    st.one_of(st.integers(0, 300), st.text(max_size=3), st.binary(max_size=3)),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    max_size=4,
)


def message(impl: Any, content: Any = b"content", **options: Any) -> Any:
    source = impl.Identity.from_private(ALICE)
    target = impl.delivery_hash(impl.Identity.from_private(BOB))
    return impl.Message.create(source, target, content, **{"timestamp": 1.7e9, **options})


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Payload arrays that a careless sender could make, not all of them valid."""
    values: list[bytes] = []
    stamp = st.one_of(sized(32, 16, 3), st.none(), st.integers(0, 3), st.text(max_size=3))
    elements: tuple[st.SearchStrategy[Any], ...] = (
        st.one_of(TIMES, st.integers(-5, 2**64 - 1), st.booleans(), st.none(), st.just([])),
        st.one_of(TEXTS, TEXTS, st.integers(0, 3), st.just({})),
        st.one_of(TEXTS, TEXTS, st.none()),
        st.one_of(FIELDS, FIELDS, st.none(), st.integers(0, 3), st.just([])),
        stamp,
        stamp,
    )
    count = draw(st.sampled_from((4, 4, 5, 5, 6, 3, 0)))
    for element in elements[:count]:
        packed = pure.packb(draw(element))
        values.append(draw(st.sampled_from((packed, loose(packed)))))
    head = draw(st.sampled_from((bytes([0x90 | count]), b"\xdc" + count.to_bytes(2, "big"))))
    return head + b"".join(values) + draw(st.sampled_from((b"", b"", b"\0", b"rest")))


def loose(packed: bytes) -> bytes:
    """An over-long form of a value where there is one."""
    if packed[0] < 0x80:
        return b"\xcd\x00" + packed
    if packed[0] == 0xC4:
        return b"\xc5\x00" + packed[1:]
    if packed[0] == 0xCC:
        return b"\xcf" + bytes(7) + packed[1:]
    return packed


PACKED = payloads().map(lambda payload: bytes(16) + b"s" * 16 + bytes(64) + payload)


@given(
    TEXTS,
    TEXTS,
    FIELDS,
    TIMES,
    st.none() | sized(32, 16, 31),
    st.none() | sized(16, 15),
)
def test_messages_are_made_alike(
    title: Any,
    content: Any,
    fields: dict[Any, Any],
    timestamp: float,
    stamp: bytes | None,
    ticket: bytes | None,
) -> None:
    options = {
        "title": title,
        "fields": fields,
        "timestamp": timestamp,
        "stamp": stamp,
        "ticket": ticket,
    }
    same(lambda impl: message(impl, content, **options))


@fewer(2)
@given(TEXTS, FIELDS, st.none() | sized(32))
def test_messages_are_verified_crosswise(
    content: Any, fields: dict[Any, Any], stamp: bytes | None
) -> None:
    def run(maker: Any, taker: Any) -> Any:
        packed = message(maker, content, fields=fields, stamp=stamp).packed
        source = taker.Identity.from_private(ALICE).public_only()
        other = taker.Identity.from_private(BOB).public_only()
        received = taker.Message.unpack(packed, verify=True, source=source)
        return received, received.verify(source), received.verify(other)

    found = crosswise(run)
    assert found[0] == "value"
    assert found[1][1][1:] == [("bool", True), ("bool", False)]


@given(damaged(PACKED))
def test_any_bytes_are_parsed_alike(packed: bytes) -> None:
    same(lambda impl: impl.Message.unpack(packed))
    same(lambda impl: impl.Message.unpack_opportunistic(bytes(16), packed[16:]))


@given(st.data())
def test_damaged_messages_are_judged_alike(data: st.DataObject) -> None:
    packed = data.draw(damaged(st.just(message(pure, fields={1: [2]}, stamp=bytes(32)).packed)))

    def run(impl: Any) -> Any:
        received = impl.Message.unpack(packed)
        return received, received.verify(impl.Identity.from_private(ALICE))

    same(run)
    same(
        lambda impl: impl.Message.unpack(
            packed, verify=True, source=impl.Identity.from_private(ALICE)
        )
    )


def test_every_truncation_names_the_field_that_is_cut() -> None:
    packed = message(pure, title=b"title", fields={1: {2: [3]}}, stamp=bytes(32)).packed
    for data in truncations(packed):
        assert same(lambda impl, d=data: impl.Message.unpack(d))[0] == "error"


@given(PACKED, sized(32, 16, 0, 5))
def test_other_stamps_keep_the_id_or_are_refused_alike(packed: bytes, stamp: bytes) -> None:
    found = same(lambda impl: impl.Message.unpack(packed).with_stamp(stamp))
    if found[0] == "value":
        for impl in (core, pure):
            before = impl.Message.unpack(packed)
            assert before.with_stamp(stamp).id == before.id


@given(
    sized(16, 16, 15),
    sized(64, 64, 63),
    TIMES,
    st.binary(max_size=40),
    st.one_of(FIELDS.map(pure.packb), payloads(), st.sampled_from((b"", b"\x80\0", b"\xc0"))),
    st.none() | st.binary(max_size=40),
)
def test_the_bare_encoder_agrees(
    address: bytes, signature: bytes, timestamp: float, body: bytes, fields: bytes, stamp: Any
) -> None:
    def run(impl: Any) -> Any:
        return impl.Message.encode(
            address,
            address[::-1],
            signature,
            timestamp=timestamp,
            title=body[:5],
            content=body,
            fields=fields,
            stamp=stamp,
        )

    same(run)
    same(lambda impl: impl.Message.encode(address, address, signature, timestamp=timestamp))


def test_messages_refuse_alike() -> None:
    for call in (
        lambda impl: message(impl, fields=[1]),
        lambda impl: message(impl, fields="text"),
        lambda impl: message(impl, fields={1: object()}),
        lambda impl: message(impl, 5),
        lambda impl: message(impl, None),
        lambda impl: message(impl, title=5),
        lambda impl: message(impl, timestamp="now"),
        lambda impl: message(impl, timestamp=float("nan")),
        lambda impl: impl.Message.create(ALICE, bytes(16)),
        lambda impl: impl.Message.create(impl.Identity.from_public(bytes(64)), bytes(16)),
        lambda impl: impl.Message.create(
            impl.Identity.from_private(ALICE), impl.IdentityHash(bytes(16))
        ),
        lambda impl: impl.Message.create(impl.Identity.from_private(ALICE), bytes(15)),
        lambda impl: impl.Message.unpack("x"),
        lambda impl: impl.Message.unpack(bytes(200), verify=True),
        lambda impl: impl.Message.unpack(bytes(200), verify=1),
        lambda impl: impl.Message.unpack_opportunistic(impl.IdentityHash(bytes(16)), b""),
        lambda impl: impl.Message(),
        lambda impl: message(impl, stamp=bytes(32), ticket=bytes(16)),
    ):
        assert same(call)[0] == "error"
    same(lambda impl: message(impl, fields=MappingProxyType({1: 2})))
    same(lambda impl: message(impl, fields=None))


def test_values_of_messages() -> None:
    for impl in (core, pure):
        one, again = message(impl), impl.Message.unpack(message(impl).packed)
        assert one == again
        assert hash(one) == hash(again)
        assert one != message(impl, b"other")
        assert one != one.with_stamp(bytes(32))
        with pytest.raises((AttributeError, TypeError)):
            one.title = b""


@given(st.integers(-1, 300), st.one_of(st.integers(-20, 2300), st.just(2**63)))
def test_representations_agree(method: int, size: int) -> None:
    same(lambda impl: impl.representation(method, size))


def test_representations_of_the_methods_agree_at_every_size() -> None:
    for method in (0, 1, 2, 3, 4, 5):
        for size in range(-16, 2230):
            expected = pure_or_error(pure, method, size)
            assert pure_or_error(core, method, size) == expected


def pure_or_error(impl: Any, method: int, size: int) -> Any:
    try:
        return impl.representation(method, size)
    except ValueError as error:
        return type(error).__name__


@given(sized(16, 16, 15))
def test_delivery_addresses_agree(value: bytes) -> None:
    same(lambda impl: impl.delivery_hash(impl.IdentityHash(value)))
    same(lambda impl: impl.delivery_hash(impl.Identity.from_private(value * 4)))
    same(lambda impl: impl.delivery_hash(impl.DestinationHash(value)))
    same(lambda impl: impl.delivery_hash(value))


@given(sized(16, 16, 15), sized(32, 32, 31))
def test_ticket_stamps_agree(ticket: bytes, message_id: bytes) -> None:
    same(lambda impl: impl.ticket_stamp(ticket, message_id))


@fewer(15)
@given(st.lists(sized(16), max_size=3), sized(16), st.sampled_from((0, 1, 8, 256, 257, -1)))
def test_stamps_are_judged_alike(tickets: list[bytes], ticket: bytes, cost: int) -> None:
    for options in ({"ticket": ticket}, {"stamp": ticket * 2}, {}):
        for held in (tickets, [*tickets, ticket]):
            same(lambda impl, o=options, h=held: message(impl, **o).stamp_valid(cost, tickets=h))
        same(lambda impl, o=options: message(impl, **o).stamp_value())


# ---------------------------------------------------------- propagation


@given(sized(32), sized(16), st.none() | sized(32), st.none() | sized(32, 31))
def test_propagated_messages_agree(
    ephemeral: bytes, iv: bytes, ratchet: bytes | None, stamp: bytes | None
) -> None:
    def run(impl: Any) -> Any:
        target = None if ratchet is None else impl.x25519_public(ratchet)
        element = impl.Propagated.create(
            message(impl),
            impl.Identity.from_private(BOB).public_only(),
            ratchet=target,
            ephemeral_private=ephemeral,
            iv=iv,
        )
        return element if stamp is None else (element.with_stamp(stamp), element.stamp)

    same(run)


@fewer(3)
@given(st.none() | sized(32), st.booleans())
def test_propagated_messages_are_opened_crosswise(ratchet: bytes | None, enforce: bool) -> None:
    def run(maker: Any, taker: Any) -> Any:
        recipient = maker.Identity.from_private(BOB).public_only()
        target = None if ratchet is None else maker.x25519_public(ratchet)
        element = maker.Propagated.create(message(maker), recipient, ratchet=target)
        stamped = element.with_stamp(bytes(32)).stamped
        return taker.Propagated.from_stamped(stamped).open(
            taker.Identity.from_private(BOB),
            ratchets=[] if ratchet is None else [bytes(32), ratchet],
            enforce_ratchets=enforce,
        )

    crosswise(run)


@given(st.binary(max_size=200), st.none() | sized(32, 31))
def test_elements_are_taken_apart_alike(data: bytes, stamp: bytes | None) -> None:
    for filled in (data, data + bytes(112), data + bytes(145)):
        same(lambda impl, d=filled: impl.Propagated.from_data(d, stamp=stamp))
        same(lambda impl, d=filled: impl.Propagated.from_data(d, stamp=stamp).stamped)
        same(lambda impl, d=filled: impl.Propagated.from_stamped(d))
        same(
            lambda impl, d=filled: impl.Propagated.from_data(d).open(
                impl.Identity.from_private(BOB)
            )
        )


def test_propagation_refuses_alike() -> None:
    for call in (
        lambda impl: impl.Propagated.create(message(impl), impl.Identity.from_private(ALICE)),
        lambda impl: impl.Propagated.create(b"", impl.Identity.from_private(ALICE)),
        lambda impl: impl.Propagated.create(message(impl), b""),
        lambda impl: impl.Propagated.from_data(bytes(112)).with_stamp(bytes(31)),
        lambda impl: impl.Propagated.from_data(bytes(112)).with_stamp("x"),
        lambda impl: impl.Propagated.from_data(bytes(112)).stamped,
        lambda impl: impl.Propagated(),
    ):
        assert same(call)[0] == "error"


@fewer(5)
@given(sized(32), st.sampled_from((0, 1, 5, 256, 257, -1)))
def test_propagation_stamps_are_judged_alike(stamp: bytes, cost: int) -> None:
    same(lambda impl: impl.Propagated.from_data(bytes(112), stamp=stamp).stamp_valid(cost))
    same(lambda impl: impl.Propagated.from_data(bytes(112), stamp=stamp).stamp_value())
    same(lambda impl: impl.Propagated.from_data(bytes(112)).stamp_valid(cost))


@given(st.lists(st.binary(max_size=300), max_size=20), TIMES)
def test_containers_travel_crosswise(elements: list[bytes], time: float) -> None:
    same(lambda impl: impl.container_pack(elements, time))
    crosswise(lambda a, b: b.container_unpack(a.container_pack(elements, time)))
    same(
        lambda impl: impl.container_pack(
            [impl.Propagated.from_data(bytes(112), stamp=bytes(32)), *elements], time
        )
    )


@given(
    st.one_of(
        damaged(st.just(pure.container_pack([bytes(150), bytes(160)], 1.5))),
        st.one_of(
            st.lists(
                st.one_of(
                    TIMES,
                    st.none(),
                    st.booleans(),
                    st.integers(0, 5),
                    st.lists(st.one_of(st.binary(max_size=3), st.none(), st.text(max_size=2))),
                ),
                max_size=4,
            ),
            st.none(),
            st.just({}),
        ).map(pure.packb),
    ),
    st.sampled_from((0, 1, 2, 65536)),
)
def test_any_container_is_read_alike(data: bytes, most: int) -> None:
    same(lambda impl: impl.container_unpack(data, messages_max=most))


def test_containers_refuse_alike() -> None:
    for call in (
        lambda impl: impl.container_pack([impl.Propagated.from_data(bytes(112))], 1.0),
        lambda impl: impl.container_pack([5], 1.0),
        lambda impl: impl.container_pack(["x"], 1.0),
        lambda impl: impl.container_pack(5, 1.0),
        lambda impl: impl.container_pack([], "now"),
        lambda impl: impl.container_pack([], float("inf")),
        lambda impl: impl.container_unpack(b"\x90", messages_max=-1),
    ):
        assert same(call)[0] == "error"


# ---------------------------------------------------------------- paper


@given(st.integers(112, 2215))
def test_paper_travels_crosswise(size: int) -> None:
    data = pure.hkdf(size, b"paper")

    def run(maker: Any, taker: Any) -> Any:
        element = maker.Propagated.from_data(data)
        uri = maker.paper_uri(element)
        assert maker.paper_pack(element) == data
        return uri, taker.paper_uri_unpack(uri)

    crosswise(run)


URI_NOISE = st.text(alphabet="AZaz09-_=/+ \u00e9", max_size=12)


@given(st.sampled_from((112, 113, 114, 2208, 2210)), URI_NOISE, st.integers(0, 3000), st.data())
def test_any_uri_is_read_alike(size: int, noise: str, place: int, data: st.DataObject) -> None:
    uri = pure.paper_uri(pure.Propagated.from_data(pure.hkdf(size, b"paper")))
    scheme = data.draw(st.sampled_from(("lxm://", "LXM://", "lXm://", "lxm:/", "lxmf://", "")))
    body = uri[6:]
    for text in (
        scheme + body,
        scheme + body[:place] + noise + body[place:],
        scheme + body + noise,
        scheme + noise,
        uri[:place],
    ):
        same(lambda impl, t=text: impl.paper_uri_unpack(t))


def test_paper_refuses_alike() -> None:
    for call in (
        lambda impl: impl.paper_uri_unpack(b"lxm://"),
        lambda impl: impl.paper_uri_unpack("lxm://\ud800"),
        lambda impl: impl.paper_pack(b""),
        lambda impl: impl.paper_uri(None),
        lambda impl: impl.paper_uri(impl.Propagated.from_data(bytes(2211))),
    ):
        assert same(call)[0] == "error"
