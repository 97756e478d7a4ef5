"""Propagated messages and their containers, against upstream and against damage (L6, L7)."""

from __future__ import annotations

from typing import Any

import pytest

from golden import name_of, raw, value, vectors
from netmesh import errors
from netmesh.constants import (
    LXMF_ROUNDS_PEERING,
    LXMF_TICKET_EXPIRY_S,
    LXMF_TICKET_INTERVAL_S,
    LXMF_TICKET_RENEW_S,
    LXMF_TICKET_SIZE,
    Field,
    PeerError,
)

PROPAGATED = vectors("lxmf", "propagated")


def parties(impl: Any, given: dict[str, Any]) -> tuple[Any, Any]:
    """The sender and the recipient of a vector."""
    return (
        impl.Identity.from_private(raw(given["source_private_key"])),
        impl.Identity.from_private(raw(given["destination_private_key"])),
    )


def content_of(given: dict[str, Any]) -> bytes:
    """Content, explicit or as one byte many times."""
    if given.get("content") is not None:
        return bytes.fromhex(given["content"])
    return bytes.fromhex(given["content_byte"]) * given["content_len"]


def element_of(impl: Any, vector: dict[str, Any]) -> tuple[Any, Any]:
    """Message and element that a vector describes."""
    given = vector["input"]
    alice, bob = parties(impl, given)
    message = impl.Message.create(
        alice,
        raw(given["destination_hash"]),
        content_of(given),
        title=raw(given["title"]),
        timestamp=given["timestamp"],
        stamp=raw(given.get("message_stamp")),
    )
    private = raw(given["ratchet_private_key"])
    element = impl.Propagated.create(
        message,
        bob,
        ratchet=None if private is None else impl.x25519_public(private),
        ephemeral_private=raw(given["ephemeral_private_key"]),
        iv=raw(given["iv"]),
    )
    return message, element


@pytest.mark.parametrize("vector", PROPAGATED, ids=name_of)
def test_elements_are_made_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """L6, L7: vectors `propagated`, every byte from given keys and IV."""
    given, out = vector["input"], vector["output"]
    message, element = element_of(impl, vector)
    assert message.packed.hex() == out["packed"]
    assert message.id.hex() == out["message_id"]
    assert element.transient_id.hex() == out["transient_id"]
    assert element.destination_hash == message.destination_hash
    stamped = element.with_stamp(raw(out["pn_stamp"]))
    assert stamped.stamped.hex() == out["lxmf_data_with_stamp"]
    packed = impl.container_pack([stamped], given["pack_time"])
    assert packed.hex() == out["propagation_packed"]
    assert len(packed) == out["propagation_packed_len"]
    bare = impl.container_pack([element.lxmf_data], given["pack_time"])
    assert bare.hex() == out["propagation_packed_without_pn_stamp"]


@pytest.mark.parametrize("vector", PROPAGATED, ids=name_of)
def test_elements_of_upstream_are_opened(impl: Any, vector: dict[str, Any]) -> None:
    """L6: container, element, stamp, message."""
    given, out = vector["input"], vector["output"]
    alice, bob = parties(impl, given)
    time, elements = impl.container_unpack(raw(out["propagation_packed"]))
    assert time == given["pack_time"]
    (element,) = (impl.Propagated.from_stamped(one) for one in elements)
    assert element.stamp.hex() == out["pn_stamp"]
    private = raw(given["ratchet_private_key"])
    ratchets = [bytes(32), private] if private else [bytes(32)]
    message = element.open(bob, ratchets=ratchets)
    assert message.packed.hex() == out["packed"]
    assert message.verify(alice)
    with pytest.raises(errors.AuthenticationError):
        element.open(alice)
    if private is None:
        with pytest.raises(errors.AuthenticationError):
            element.open(bob, ratchets=[bytes(32)], enforce_ratchets=True)
    else:
        assert element.open(bob, ratchets=[private], enforce_ratchets=True) == message
        with pytest.raises(errors.AuthenticationError):
            element.open(bob)


@pytest.mark.parametrize("vector", PROPAGATED, ids=name_of)
def test_propagation_stamps_are_worth_what_upstream_says(impl: Any, vector: dict[str, Any]) -> None:
    """L6, P15: value of the stamp, and the digest of the work block."""
    out = vector["output"]
    element = impl.Propagated.from_stamped(raw(out["lxmf_data_with_stamp"]))
    worth = out["pn_stamp_value"]
    assert element.stamp_value() == worth
    assert element.stamp_valid(worth)
    assert not element.stamp_valid(worth + 1)
    block = impl.Workblock(element.transient_id, 1000)
    assert impl.sha256(block.to_bytes()).hex() == out["pn_workblock_sha256"]


@pytest.mark.parametrize("vector", vectors("lxmf", "pn_stamp_validation"), ids=name_of)
def test_nodes_judge_elements_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """L6, P15: vectors `pn_stamp_validation`: length, id, value, stamp."""
    given, out = vector["input"], vector["output"]
    data = raw(given["transient_data"])
    if len(data) <= 144:
        assert not out["valid"]
        with pytest.raises(errors.DecodeError) as caught:
            impl.Propagated.from_stamped(data)
        assert (caught.value.reason, caught.value.field) == ("LENGTH", "stamped")
        return
    element = impl.Propagated.from_stamped(data)
    assert element.stamp_valid(given["cost"]) is out["valid"]
    if out["valid"]:
        assert element.transient_id.hex() == out["transient_id"]
        assert element.stamp_value() == out["value"]
        assert element.stamp.hex() == out["stamp"]


@pytest.mark.parametrize("vector", vectors("lxmf", "peering_key"), ids=name_of)
def test_peering_keys_are_judged_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P15: vectors `peering_key`: 25 rounds over receiver and offerer."""
    given, out = vector["input"], vector["output"]
    material = raw(given["receiver_identity_hash"]) + raw(given["offering_identity_hash"])
    assert material.hex() == given["peering_id"]
    block = impl.Workblock(material, LXMF_ROUNDS_PEERING)
    assert block.value(raw(given["key"])) == out["value"]
    assert block.valid(raw(given["key"]), given["cost"]) is out["valid"]


def test_a_sync_of_many_is_packed_as_upstream_does(impl: Any) -> None:
    """L6: vector `sync_resource`."""
    (vector,) = vectors("lxmf", "sync_resource")
    given, payload = vector["input"], raw(vector["output"]["payload"])
    messages = [raw(text) for text in given["messages"]]
    assert impl.container_pack(messages, given["time"]) == payload
    elements = [impl.Propagated.from_stamped(one) for one in messages]
    assert impl.container_pack(elements, given["time"]) == payload
    assert impl.container_unpack(payload) == (given["time"], messages)


@pytest.mark.parametrize("vector", vectors("lxmf", "get"), ids=name_of)
def test_downloads_are_asked_for_and_answered_as_upstream_does(
    impl: Any, vector: dict[str, Any]
) -> None:
    """L6: vectors `get`: the request of a recipient and the node's response, byte for byte."""
    given, out = vector["input"], vector["output"]
    data = value(given["data"])
    assert impl.packb(data) == raw(out["request_data"])
    request = impl.Request(given["path"], data, timestamp=given["requested_at"])
    assert request.pack() == raw(out["request_packed"])
    assert impl.Request.unpack(raw(out["request_packed"])).data == data
    if out["response_packed"] is None:
        assert out["response"] == "none sent"
        return
    answer = value(out["response"])
    response = impl.Response(raw(given["request_id"]), answer)
    assert response.pack() == raw(out["response_packed"])
    assert impl.Response.unpack(raw(out["response_packed"])).data == answer


def test_the_signal_of_a_refused_stamp_is_that_of_upstream(impl: Any) -> None:
    """L6: vector `signalling`."""
    (vector,) = vectors("lxmf", "signalling")
    packed = raw(vector["output"]["packed"])
    assert impl.packb([PeerError.INVALID_STAMP]) == packed
    assert impl.unpackb(packed) == [PeerError.INVALID_STAMP]


@pytest.mark.parametrize("vector", vectors("lxmf", "ticket_generate"), ids=name_of)
def test_tickets_live_as_long_as_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """L7: vectors `ticket_generate`: the field, byte for byte, and the times it goes by."""
    now, field = vector["input"]["now"], vector["output"]["field_value"]
    if field is None:
        assert now - vector["input"]["last_delivery"] < LXMF_TICKET_INTERVAL_S
        return
    expires, secret = value(field)
    assert len(secret) == LXMF_TICKET_SIZE
    if "random" in vector["input"]:
        assert (expires - now, secret) == (LXMF_TICKET_EXPIRY_S, raw(vector["input"]["random"]))
    else:
        assert LXMF_TICKET_RENEW_S < expires - now < LXMF_TICKET_EXPIRY_S
    packed = b"\x92\xcb" + raw(field["arr"][0]["f64_be_hex"]) + b"\xc4\x10" + secret
    alice, bob = impl.Identity(), impl.Identity()
    message = impl.Message.create(
        alice, impl.delivery_hash(bob), b"", fields={Field.TICKET: [expires, secret]}
    )
    assert packed in message.packed
    assert impl.Message.unpack(message.packed).fields == {Field.TICKET: [expires, secret]}


# ------------------------------------------------------------------ making


def test_each_encryption_is_another_message_to_a_node(impl: Any) -> None:
    """LXMF 8.1: fresh keys and IV by default."""
    alice, bob = impl.Identity(), impl.Identity()
    message = impl.Message.create(alice, impl.delivery_hash(bob), b"text")
    elements = [impl.Propagated.create(message, bob.public_only()) for _ in range(4)]
    assert len({element.transient_id for element in elements}) == 4
    assert all(element.open(bob) == message for element in elements)
    assert len(elements[0].lxmf_data) == 16 + 32 + 16 + 32 + (len(message.packed) // 16) * 16


def test_only_the_recipient_is_encrypted_for(impl: Any) -> None:
    alice, bob = impl.Identity(), impl.Identity()
    message = impl.Message.create(alice, impl.delivery_hash(bob), b"text")
    with pytest.raises(errors.EncodeError) as caught:
        impl.Propagated.create(message, alice)
    assert (caught.value.reason, caught.value.field) == ("MISMATCH", "recipient")
    with pytest.raises(errors.KeyMissingError):
        impl.Propagated.create(message, impl.Identity.without_keys())
    with pytest.raises(TypeError):
        impl.Propagated.create(message.packed, bob)


def test_opening_needs_private_keys(impl: Any) -> None:
    alice, bob = impl.Identity(), impl.Identity()
    message = impl.Message.create(alice, impl.delivery_hash(bob), b"text")
    element = impl.Propagated.create(message, bob)
    with pytest.raises(errors.KeyMissingError):
        element.open(bob.public_only())
    with pytest.raises(ValueError, match="ratchets"):
        element.open(bob, ratchets=[b"short"])


def test_stamps_have_32_bytes(impl: Any) -> None:
    element = impl.Propagated.from_data(bytes(112))
    for wrong in (b"", bytes(16), bytes(33)):
        with pytest.raises(errors.EncodeError):
            element.with_stamp(wrong)
        with pytest.raises(errors.EncodeError):
            impl.Propagated.from_data(bytes(112), stamp=wrong)


def test_an_element_without_a_stamp_is_worth_nothing(impl: Any) -> None:
    element = impl.Propagated.from_data(bytes(200))
    assert element.stamp is None
    assert element.stamp_value() == 0
    assert not element.stamp_valid(0)
    with pytest.raises(errors.EncodeError) as caught:
        _ = element.stamped
    assert (caught.value.reason, caught.value.field) == ("MISSING", "stamp")
    with pytest.raises(errors.EncodeError):
        impl.container_pack([element], 1.0)
    for wrong in (-1, 257):
        with pytest.raises(ValueError, match="cost"):
            element.stamp_valid(wrong)


def test_elements_are_values(impl: Any) -> None:
    one, two = (impl.Propagated.from_data(bytes(150), stamp=bytes(32)) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != impl.Propagated.from_data(bytes(150))
    assert one != impl.Propagated.from_data(bytes(150), stamp=b"\x01" * 32)
    assert one == impl.Propagated.from_stamped(one.stamped)


# ------------------------------------------------------------------ damage


def test_short_elements_are_refused(impl: Any) -> None:
    for size in (0, 16, 111):
        with pytest.raises(errors.DecodeError) as caught:
            impl.Propagated.from_data(bytes(size))
        assert (caught.value.reason, caught.value.codec) == ("TRUNCATED", "lxmf")
    for size in (0, 32, 144):
        with pytest.raises(errors.DecodeError) as caught:
            impl.Propagated.from_stamped(bytes(size))
        assert caught.value.reason == "LENGTH"


def test_what_decrypts_to_no_message_is_refused(impl: Any) -> None:
    bob = impl.Identity()
    for plaintext in (b"", b"noise" * 10, bytes(80) + b"\xc0"):
        element = impl.Propagated.from_data(bytes(impl.delivery_hash(bob)) + bob.encrypt(plaintext))
        with pytest.raises(errors.DecodeError):
            element.open(bob)
    with pytest.raises(errors.AuthenticationError):
        impl.Propagated.from_data(bytes(160)).open(bob)


@pytest.mark.parametrize(
    ("data", "field", "reason"),
    [
        (b"", "container", "TRUNCATED"),
        (b"\xc0", "container", "TYPE"),
        (b"\x91\x01", "container", "LENGTH"),
        (b"\x92\xc0\x90", "container.time", "TYPE"),
        (b"\x92\x01\xc0", "container.messages", "TYPE"),
        (b"\x92\x01\x91\xa1x", "container.message", "TYPE"),
        (b"\x92\x01\x92\xc4\x01x", "container", "TRUNCATED"),
    ],
)
def test_damaged_containers_name_the_rule_they_break(
    impl: Any, data: bytes, field: str, reason: str
) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        impl.container_unpack(data)
    assert (caught.value.field, caught.value.reason) == (field, reason)


def test_containers_have_a_bound(impl: Any) -> None:
    packed = impl.container_pack([bytes(145)] * 5, 1)
    assert impl.container_unpack(packed, messages_max=5) == (1.0, [bytes(145)] * 5)
    with pytest.raises(errors.LimitError):
        impl.container_unpack(packed, messages_max=4)
    with pytest.raises(errors.LimitError):
        impl.container_unpack(b"\x92\x01\xdd\xff\xff\xff\xff")
    assert impl.container_unpack(impl.container_pack([], 2.5) + b"trailing") == (2.5, [])
    with pytest.raises(TypeError):
        impl.container_pack(["text"], 1.0)
    with pytest.raises(TypeError):
        impl.container_pack([bytes(145)], "now")
