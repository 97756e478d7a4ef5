"""Messages, propagation, paper, app data and stamps: both against the upstream stack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from LXMF import LXStamper

from differential.support import fewer, mutations, plain, pure, sized
from differential.upstream import BOTH, LXMF, OWNER, RNS, each, identity_of, sending

pytestmark = pytest.mark.usefixtures("upstream")
ALICE, BOB = OWNER, bytes(range(64, 128))
TIMES = st.floats(0, 4e9)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31),
    st.binary(max_size=9),
    st.text(max_size=9),
)
KEYS = st.integers(0, 255)
CONTENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.dictionaries(KEYS, CONTENTS, max_size=4)
LXMessage = LXMF.LXMessage


def delivery(private: bytes) -> Any:
    """An upstream delivery destination that messages come from or go to."""
    return sending(identity_of(private), "lxmf", "delivery")


def written(method: int | None = None, stamp: bytes | None = None, **content: Any) -> Any:
    """An upstream message from Alice to Bob, packed."""
    message = LXMessage(
        delivery(BOB),
        delivery(ALICE),
        content.get("content", b"content"),
        content.get("title", b"title"),
        content.get("fields"),
        desired_method=method,
        stamp_cost=None if stamp is None else 1,
    )
    message.timestamp = content.get("timestamp", 1.5e9)
    message.stamp = stamp
    message.defer_stamp = False
    message.pack()
    return message


def read(packed: bytes, sender: bytes = ALICE) -> Any:
    """A message as upstream reads it, to which its sender is known."""
    RNS.Identity.known_destinations.clear()
    theirs = identity_of(sender)
    RNS.Identity.remember(b"", delivery(sender).hash, theirs.get_public_key())
    return LXMessage.unpack_from_bytes(packed)


# ---------------------------------------------------------------- messages


@given(TIMES, st.binary(max_size=60), st.binary(max_size=300), FIELDS, st.none() | sized(16, 32))
def test_their_messages_are_read(
    timestamp: float, title: bytes, content: bytes, fields: Any, stamp: bytes | None
) -> None:
    theirs = written(timestamp=timestamp, title=title, content=content, fields=fields, stamp=stamp)
    for impl in BOTH:
        ours = impl.Message.unpack(theirs.packed)
        alice, bob = impl.Identity.from_private(ALICE), impl.Identity.from_private(BOB)
        assert ours.verify(alice)
        assert not ours.verify(bob)
        assert ours.id == theirs.hash
        assert ours.source_hash == theirs.source_hash == impl.delivery_hash(alice)
        assert ours.destination_hash == theirs.destination_hash == impl.delivery_hash(bob)
        assert ours.timestamp == theirs.timestamp
        assert (ours.title, ours.content) == (theirs.title, theirs.content)
        assert plain(ours.fields) == plain(theirs.fields)
        assert ours.stamp == theirs.stamp
        made = impl.Message.create(
            alice,
            bytes(ours.destination_hash),
            content,
            title=title,
            fields=fields,
            timestamp=timestamp,
            stamp=stamp,
        )
        assert made.packed == theirs.packed


@given(TIMES, st.text(max_size=30), st.text(max_size=80), FIELDS, st.none() | sized(16))
def test_our_messages_are_read_upstream(
    timestamp: float, title: str, content: str, fields: Any, ticket: bytes | None
) -> None:
    for impl in BOTH:
        alice, bob = impl.Identity.from_private(ALICE), impl.Identity.from_private(BOB)
        ours = impl.Message.create(
            alice,
            impl.delivery_hash(bob),
            content,
            title=title,
            fields=fields,
            timestamp=timestamp,
            ticket=ticket,
        )
        theirs = read(ours.packed)
        assert theirs.signature_validated
        assert theirs.hash == ours.id
        assert theirs.title_as_string() == title
        assert theirs.content_as_string() == content
        assert plain(theirs.fields) == plain(fields)
        if ticket is not None:
            assert theirs.validate_stamp(9, tickets=[bytes(16), ticket])
            assert ours.stamp_valid(9, tickets=[bytes(16), ticket])


@given(st.data(), st.booleans())
def test_what_is_accepted_is_accepted_upstream(data: st.DataObject, stamped: bool) -> None:
    packed = data.draw(mutations(written(stamp=bytes(32) if stamped else None).packed))
    for impl in BOTH:
        try:
            ours = impl.Message.unpack(packed)
        except ValueError:
            continue
        theirs = read(packed)
        assert ours.id == theirs.hash
        assert ours.verify(impl.Identity.from_private(ALICE)) == theirs.signature_validated
        assert (ours.title, ours.content) == (theirs.title, theirs.content)


@pytest.mark.parametrize("method", [LXMessage.OPPORTUNISTIC, LXMessage.DIRECT])
def test_messages_are_represented_alike(method: int) -> None:
    for size in (0, 250, 280, 281, 282, 283, 284, 300, 318, 319, 320, 321, 322, 400):
        theirs = written(method=method, content=bytes(size), title=b"")
        for impl in BOTH:
            ours = impl.Message.unpack(theirs.packed)
            found = impl.representation(method, ours.content_size)
            assert found == (theirs.method, theirs.representation)


# --------------------------------------------------- propagation and paper


@fewer(2)
@given(st.binary(max_size=200))
def test_their_propagated_messages_are_opened(content: bytes) -> None:
    theirs = written(method=LXMessage.PROPAGATED, content=content)
    for impl in BOTH:
        bob = impl.Identity.from_private(BOB)
        _time, elements = impl.container_unpack(theirs.propagation_packed)
        assert len(elements) == 1
        ours = impl.Propagated.from_data(elements[0])
        assert ours.transient_id == theirs.transient_id
        assert ours.destination_hash == theirs.destination_hash
        assert ours.open(bob).packed == theirs.packed


@fewer(2)
@given(st.binary(max_size=200), TIMES)
def test_our_propagated_messages_are_opened_upstream(content: bytes, time: float) -> None:
    for impl in BOTH:
        alice, bob = impl.Identity.from_private(ALICE), impl.Identity.from_private(BOB)
        message = impl.Message.create(alice, impl.delivery_hash(bob), content)
        stamped = impl.Propagated.create(message, bob).with_stamp(bytes(32))
        packed = impl.container_pack([stamped], time)
        assert packed == RNS.vendor.umsgpack.packb([time, [stamped.lxmf_data + bytes(32)]])
        opened = delivery(BOB).decrypt(stamped.lxmf_data[16:])
        theirs = read(stamped.lxmf_data[:16] + opened)
        assert theirs.packed == message.packed
        assert theirs.signature_validated


@fewer(2)
@given(st.binary(max_size=200))
def test_paper_messages_travel_crosswise(content: bytes) -> None:
    theirs = written(method=LXMessage.PAPER, content=content)
    uri = theirs.as_uri(finalise=False)
    ingested: list[bytes] = []
    router = SimpleNamespace(
        lxmf_propagation=lambda data, **_options: ingested.append(data) or True
    )
    for impl in BOTH:
        bob = impl.Identity.from_private(BOB)
        ours = impl.paper_uri_unpack(uri)
        assert impl.paper_pack(ours) == theirs.paper_packed
        assert impl.paper_uri(ours) == uri
        assert ours.open(bob).packed == theirs.packed
        ingested.clear()
        LXMF.LXMRouter.ingest_lxm_uri(router, impl.paper_uri(ours))
        assert ingested == [ours.lxmf_data]


# ---------------------------------------------------------------- app data


@given(st.none() | st.text(max_size=30), st.none() | st.integers(-2, 300))
def test_delivery_data_are_announced_alike(name: str | None, cost: int | None) -> None:
    address = bytes(16)
    announced = SimpleNamespace(display_name=name, stamp_cost=cost)
    router = SimpleNamespace(delivery_destinations={address: announced})
    theirs = LXMF.LXMRouter.get_announce_app_data(router, address)
    for impl in BOTH:
        assert impl.DeliveryAppData(display_name=name, stamp_cost=cost).pack() == theirs
        ours = impl.DeliveryAppData.unpack(theirs)
        assert ours.display_name == LXMF.display_name_from_app_data(theirs)
        assert ours.stamp_cost == LXMF.stamp_cost_from_app_data(theirs)
        assert ours.compression == LXMF.compression_support_from_app_data(theirs)


ENTRIES = st.one_of(
    st.none(),
    st.integers(-5, 300),
    st.binary(max_size=8),
    st.text(max_size=8),
    st.lists(st.integers(0, 3), max_size=3),
)


@given(
    st.one_of(
        st.lists(ENTRIES, max_size=4).map(pure.packb),
        st.text(max_size=20).map(str.encode),
        st.binary(max_size=20),
        st.none(),
    )
)
def test_any_delivery_data_are_read_alike(app_data: bytes | None) -> None:
    def upstream(read_one: Any) -> Any:
        try:
            return read_one(app_data)
        except Exception:  # of any kind, where ours say that nothing is known
            return None

    name = upstream(LXMF.display_name_from_app_data)
    cost = upstream(LXMF.stamp_cost_from_app_data)
    for impl in BOTH:
        ours = impl.DeliveryAppData.unpack(app_data)
        assert ours.display_name == name
        fits = type(cost) is int and 0 <= cost < 2**32
        assert ours.stamp_cost == (cost if fits else None)
        if ours.compression is not None and app_data:
            assert ours.compression == upstream(LXMF.compression_support_from_app_data)


@given(
    st.booleans(),
    st.integers(1, 10**6) | st.floats(0.1, 1e6),
    st.integers(0, 10**6) | st.floats(0, 1e6),
    st.lists(st.integers(0, 255), min_size=3, max_size=3),
    st.none() | st.text(min_size=1, max_size=20),
)
def test_node_data_are_announced_alike(
    active: bool, transfer: float, sync: float, costs: list[int], name: str | None
) -> None:
    router = SimpleNamespace(
        name=name,
        propagation_node=active,
        from_static_only=False,
        propagation_per_transfer_limit=transfer,
        propagation_per_sync_limit=sync,
        propagation_stamp_cost=costs[0],
        propagation_stamp_cost_flexibility=costs[1],
        peering_cost=costs[2],
    )
    router.get_propagation_node_announce_metadata = lambda: (
        LXMF.LXMRouter.get_propagation_node_announce_metadata(router)
    )
    theirs = LXMF.LXMRouter.get_propagation_node_app_data(router)
    for impl in BOTH:
        ours = impl.PropagationAppData.unpack(theirs)
        assert ours.active == active
        assert (ours.transfer_limit_kb, ours.sync_limit_kb) == (transfer, sync)
        assert [ours.stamp_cost, ours.flexibility, ours.peering_cost] == costs
        assert ours.name == name == LXMF.pn_name_from_app_data(theirs)
        assert ours.implementation == "lxmd"
        made = impl.PropagationAppData(
            time=ours.time,
            active=active,
            transfer_limit_kb=transfer,
            sync_limit_kb=sync,
            stamp_cost=costs[0],
            flexibility=costs[1],
            peering_cost=costs[2],
            name=name,
            version=ours.version,
            implementation=ours.implementation,
        ).pack()
        assert LXMF.pn_announce_data_is_valid(made)
        if isinstance(transfer, int) == isinstance(sync, int):
            # Both limits are sent as floats when one of them is.
            assert made == theirs


NUMBERS = st.one_of(
    st.integers(-(2**31), 2**31),
    st.floats(-1e9, 1e9),
    st.sampled_from(("12", "-3", " 7 ", "1_0", "x", "", b"12", b"x", float("nan"), float("inf"))),
    st.booleans(),
    st.none(),
)
USUALLY = st.sampled_from((1, 12, 20))
NODE = st.tuples(
    st.just(False),
    USUALLY | NUMBERS,
    st.booleans() | NUMBERS,
    USUALLY | NUMBERS,
    USUALLY | NUMBERS,
    st.lists(USUALLY | NUMBERS, min_size=2, max_size=4) | NUMBERS,
    st.dictionaries(st.integers(0, 3), st.binary(max_size=5) | st.text(max_size=5)) | NUMBERS,
)


@given(st.one_of(NODE.map(list), NODE.map(lambda node: list(node)[:6])).map(pure.packb))
def test_any_node_data_are_judged_alike(app_data: bytes) -> None:
    expected = LXMF.pn_announce_data_is_valid(app_data)
    for impl in BOTH:
        try:
            ours = impl.PropagationAppData.unpack(app_data)
        except ValueError:
            assert not expected
            continue
        assert expected
        assert ours.name == LXMF.pn_name_from_app_data(app_data)
        assert ours.stamp_cost == int(LXMF.pn_stamp_cost_from_app_data(app_data))


# ------------------------------------------------------------------ stamps


@given(st.binary(max_size=70), st.integers(1, 200))
def test_work_blocks_agree(material: bytes, rounds: int) -> None:
    expected = LXStamper.stamp_workblock(material, expand_rounds=rounds)
    for impl in BOTH:
        assert impl.Workblock(material, rounds).to_bytes() == expected


@given(sized(32), sized(32, 16), st.integers(0, 12))
def test_stamps_are_judged_alike(material: bytes, stamp: bytes, cost: int) -> None:
    theirs = LXStamper.stamp_workblock(material, expand_rounds=2)
    for impl in BOTH:
        ours = impl.Workblock(material, 2)
        assert ours.value(stamp) == LXStamper.stamp_value(theirs, stamp)
        assert ours.valid(stamp, cost) == LXStamper.stamp_valid(stamp, cost, theirs)


@fewer(4)
@given(sized(32), st.integers(1, 8))
def test_stamps_are_found_for_each_other(material: bytes, cost: int) -> None:
    theirs = LXStamper.stamp_workblock(material, expand_rounds=25)
    for impl in BOTH:
        ours = impl.Workblock(material, 25)
        found = ours.search(cost)
        assert LXStamper.stamp_valid(found.stamp, cost, theirs)
        assert LXStamper.validate_peering_key(material, found.stamp, cost)
        assert LXStamper.stamp_value(theirs, found.stamp) == found.value
        stamp, _rounds = LXStamper.job_simple(cost, theirs, material)
        assert ours.valid(stamp, cost)


@each
@pytest.mark.parametrize("cost", [1, 6])
def test_stamped_messages_are_valid_upstream(impl: Any, cost: int) -> None:
    alice, bob = impl.Identity.from_private(ALICE), impl.Identity.from_private(BOB)
    message = impl.Message.create(alice, impl.delivery_hash(bob), "content", timestamp=1.5e9)
    found = impl.Workblock(message.id).search(cost)
    stamped = message.with_stamp(found.stamp)
    theirs = read(stamped.packed)
    assert theirs.signature_validated
    assert theirs.validate_stamp(cost)
    assert theirs.stamp_value == found.value == stamped.stamp_value()
    assert stamped.stamp_valid(cost)
    node = impl.Propagated.create(stamped, bob)
    paid = impl.Workblock(node.transient_id, 1000).search(cost)
    element = node.with_stamp(paid.stamp)
    assert element.stamp_valid(cost)
    found_id, data, value, stamp = LXStamper.validate_pn_stamp(element.stamped, cost)
    assert (found_id, data) == (node.transient_id, node.lxmf_data)
    assert (value, stamp) == (paid.value, paid.stamp)
