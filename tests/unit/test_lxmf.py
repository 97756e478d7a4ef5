"""LXMF messages: made, read, verified, against upstream and against damage (L5, L7)."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from golden import name_of, named, raw, value, vectors
from netmesh import errors
from netmesh.constants import Method, Representation

ALICE = bytes.fromhex(
    "02291c72ae86cdc2280de3e190ed8e29282d0cb855aec5dbb5dd6fee02a40843"
    "82a7a5500cea553ba2db3addfe7d5841b91cd22b528b8e1301e84daee20f5961"
)
BOB_ADDRESS = bytes.fromhex("1722614b182c02ca4f1c56fee28e5b5d")
MADE = vectors("lxmf", "message", "message_stamped", "message_ticket_stamped")


def message_of(impl: Any, given: dict[str, Any]) -> Any:
    """The message that a vector describes, from Alice to Bob."""
    return impl.Message.create(
        impl.Identity.from_private(ALICE),
        BOB_ADDRESS,
        raw(given["content"]),
        title=raw(given["title"]),
        fields=value(given["fields"]),
        timestamp=given["timestamp"],
        stamp=raw(given.get("stamp")),
        ticket=raw(given.get("ticket")),
    )


def filled(impl: Any, size: int, **more: Any) -> Any:
    """A message with that many bytes of content."""
    alice = impl.Identity.from_private(ALICE)
    return impl.Message.create(alice, BOB_ADDRESS, b"z" * size, timestamp=1700000000.5, **more)


# ------------------------------------------------------------------ against upstream


@pytest.mark.parametrize("vector", MADE, ids=name_of)
def test_messages_are_made_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """L7: vectors `message`, `message_stamped`, `message_ticket_stamped`, byte for byte."""
    out = vector["output"]
    message = message_of(impl, vector["input"])
    assert message.packed.hex() == out["packed"]
    assert message.id.hex() == out["message_id"]
    assert message.signature.hex() == out["signature"]
    assert len(message.payload) == out["payload_len"]
    assert message.content_size == out["content_size"]
    assert message.stamp == raw(out.get("stamp_in_payload"))
    assert impl.representation(vector["input"]["desired_method"], message.content_size) == (
        out["method"],
        out["representation"],
    )


@pytest.mark.parametrize(
    "vector", [*MADE, *vectors("lxmf", "message_nonstandard_int_ts")], ids=name_of
)
def test_messages_of_upstream_are_read(impl: Any, vector: dict[str, Any]) -> None:
    """L5: every part of a received message (vectors `message*`)."""
    given, out = vector["input"], vector["output"]
    message = impl.Message.unpack(raw(out["packed"]))
    assert message.id.hex() == out["message_id"]
    assert message.timestamp == given["timestamp"]
    assert isinstance(message.timestamp, float)
    assert (message.title, message.content) == (raw(given["title"]), raw(given["content"]))
    assert message.fields == value(given["fields"])
    assert list(message.fields) == list(value(given["fields"]))
    assert message.destination_hash == BOB_ADDRESS
    alice = impl.Identity.from_private(ALICE).public_only()
    assert message.source_hash == impl.delivery_hash(alice)
    assert message.verify(alice)
    assert message.signed_data.endswith(message.id)
    assert alice.verify(message.signed_data, message.signature)


@pytest.mark.parametrize("vector", vectors("lxmf", "unpack"), ids=name_of)
def test_odd_encodings_are_received_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """L5: vectors `unpack`: what is accepted, what verifies, what the id covers."""
    packed, out = raw(vector["input"]["packed"]), vector["output"]
    if not out["ok"]:
        with pytest.raises(errors.DecodeError):
            impl.Message.unpack(packed)
        return
    message = impl.Message.unpack(packed)
    assert message.id.hex() == out["message_id"]
    assert message.verify(impl.Identity.from_private(ALICE)) is out["signature_validated"]
    assert message.stamp == raw(out["stamp"])
    assert message.timestamp == out["timestamp"]
    for name in ("title", "content"):
        expected = out[name]
        text = expected["str"].encode() if isinstance(expected, dict) else raw(expected)
        assert getattr(message, name) == text
    assert message.fields == value(out["fields"])
    assert impl.Message.unpack(message.packed) == message


@pytest.mark.parametrize(
    "vector", vectors("lxmf", "representation", "representation_stamped"), ids=name_of
)
def test_size_decides_how_a_message_travels(impl: Any, vector: dict[str, Any]) -> None:
    """L4, L7: vectors `representation*`, at every boundary."""
    given, out = vector["input"], vector["output"]
    message = filled(impl, given["content_len"], stamp=raw(given.get("stamp")))
    assert message.packed[96:97] in (b"\x94", b"\x95")
    if given["desired_method"] == Method.PROPAGATED:
        bob = impl.Identity.from_private(raw(BOB_PRIVATE))
        element = impl.Propagated.create(message, bob).with_stamp(bytes(32))
        size = len(impl.container_pack([element], 1.0))
        assert size == out["propagation_packed_len"]
    else:
        size = message.content_size
        assert size == out["content_size"]
        assert len(message.packed) == out["packed_len"]
    assert impl.representation(given["desired_method"], size) == (
        out["method"],
        out["representation"],
    )


BOB_PRIVATE = (
    "0ce95dbd3855ec3a4f833e1cabfdcf8e3f811bc7d6a4143de738ee5e5ad28d07"
    "7346c3e3f64bc2648956b51255f8bc66773bf5dca4c5d7ed449be6227d91d31f"
)


@pytest.mark.parametrize("vector", vectors("lxmf", "opportunistic_size"), ids=name_of)
def test_opportunistic_packets_stay_within_383_bytes(impl: Any, vector: dict[str, Any]) -> None:
    """L4: vectors `opportunistic_size` (LXMF 3.2)."""
    out = vector["output"]
    message = filled(impl, vector["input"]["content_len"])
    method, _ = impl.representation(Method.OPPORTUNISTIC, message.content_size)
    assert method == out["method"]
    assert len(message.opportunistic) == out["plaintext_len"]
    assert (method == Method.OPPORTUNISTIC) is (len(message.opportunistic) <= 383)


def test_opportunistic_packets_are_those_of_upstream(impl: Any) -> None:
    """L5, L7: vector `opportunistic`: the destination is left out, the receiver supplies it."""
    vector = named("lxmf", "opportunistic_packet_data")
    given, out = vector["input"], vector["output"]
    alice = impl.Identity.from_private(raw(given["source_private_key"]))
    bob = impl.Identity.from_private(raw(given["destination_private_key"]))
    message = impl.Message.create(
        alice, impl.delivery_hash(bob), raw(given["content"]), timestamp=given["timestamp"]
    )
    assert message.opportunistic.hex() == out["plaintext"]
    sealed = bob.encrypt(
        message.opportunistic,
        ephemeral_private=raw(given["ephemeral_private_key"]),
        iv=raw(given["iv"]),
    )
    assert sealed.hex() == out["packet_data"]
    plaintext = bob.decrypt(sealed).plaintext
    received = impl.Message.unpack_opportunistic(impl.delivery_hash(bob), plaintext)
    assert received.packed.hex() == out["packed"]
    assert received == message


def test_oversize_packets_of_older_senders_are_accepted(impl: Any) -> None:
    """L5: vector `opportunistic_accept`: a plaintext of 391 bytes, sent by LXMF 1.0.1."""
    (vector,) = vectors("lxmf", "opportunistic_accept")
    given, out = vector["input"], vector["output"]
    bob = impl.Identity.from_private(raw(given["destination_private_key"]))
    plaintext = bob.decrypt(raw(given["packet_data"])).plaintext
    assert len(plaintext) == out["plaintext_len"] == 391
    message = impl.Message.unpack_opportunistic(impl.delivery_hash(bob), plaintext)
    assert message.packed.hex() == out["packed"]
    assert message.id.hex() == out["message_id"]
    assert message.verify(impl.Identity.from_private(ALICE)) is out["signature_validated"]


@pytest.mark.parametrize("vector", vectors("lxmf", "ticket_stamp"), ids=name_of)
def test_ticket_stamps_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """L7, P15: vectors `ticket_stamp` (LXMF 7)."""
    given = vector["input"]
    stamp = impl.ticket_stamp(raw(given["ticket"]), raw(given["message_id"]))
    assert stamp.hex() == vector["output"]["stamp"]


def test_delivery_addresses_are_those_of_upstream(impl: Any) -> None:
    """LXMF 0.1: vectors `identity` of the LXMF file."""
    for vector in vectors("lxmf", "identity"):
        identity = impl.Identity.from_private(raw(vector["input"]["private_key"]))
        address = raw(vector["output"]["lxmf_delivery"])
        assert impl.delivery_hash(identity) == address
        assert impl.delivery_hash(identity.hash) == address
        assert impl.delivery_hash(bytes(identity.hash)) == address
        assert type(impl.delivery_hash(identity)) is impl.DestinationHash
    with pytest.raises(TypeError):
        impl.delivery_hash(impl.DestinationHash(bytes(16)))


def test_paper_and_unknown_methods(impl: Any) -> None:
    """LXMF 3.2: none given is DIRECT; paper has a limit; other numbers are no methods."""
    assert impl.representation(Method.UNKNOWN, 1) == (Method.DIRECT, Representation.PACKET)
    assert impl.representation(Method.PAPER, 2210) == (Method.PAPER, Representation.PAPER)
    with pytest.raises(errors.EncodeError) as caught:
        impl.representation(Method.PAPER, 2211)
    assert caught.value.reason == "TOO_LARGE"
    for wrong in (4, 6, 255):
        with pytest.raises(ValueError, match="method"):
            impl.representation(wrong, 1)


# ------------------------------------------------------------------ making


def test_text_is_written_as_utf8(impl: Any) -> None:
    alice = impl.Identity()
    message = impl.Message.create(alice, BOB_ADDRESS, "grün", title="日本")
    assert (message.content, message.title) == ("grün".encode(), "日本".encode())
    assert (message.content_text, message.title_text) == ("grün", "日本")
    damaged = impl.Message.create(alice, BOB_ADDRESS, b"a\xffb")
    assert damaged.content_text == "a\N{REPLACEMENT CHARACTER}b"


def test_the_clock_gives_the_time_by_default(impl: Any) -> None:
    before = time.time()
    message = impl.Message.create(impl.Identity(), BOB_ADDRESS)
    assert before - 1 <= message.timestamp <= time.time() + 1
    assert impl.Message.create(impl.Identity(), BOB_ADDRESS, timestamp=12).timestamp == 12.0


def test_signing_needs_private_keys(impl: Any) -> None:
    public = impl.Identity().public_only()
    with pytest.raises(errors.KeyMissingError):
        impl.Message.create(public, BOB_ADDRESS)
    with pytest.raises(errors.KeyMissingError):
        impl.Message.create(impl.Identity.without_keys(), BOB_ADDRESS)
    with pytest.raises(TypeError):
        impl.Message.create(ALICE, BOB_ADDRESS)


def test_addresses_are_not_mixed_up(impl: Any) -> None:
    alice = impl.Identity()
    with pytest.raises(TypeError):
        impl.Message.create(alice, alice.hash)
    with pytest.raises(TypeError):
        impl.Message.unpack_opportunistic(alice.hash, b"")
    for wrong in (b"", bytes(15), bytes(17)):
        with pytest.raises(ValueError, match="destination"):
            impl.Message.create(alice, wrong)


def test_fields_hold_what_messagepack_holds(impl: Any) -> None:
    alice = impl.Identity()
    fields = {
        1: [b"\x00", None, True, 2**64 - 1, -(2**63)],
        "text": {"nested": {2: 1.5}},
        b"key": "value",
        0xFF: [],
        (1, 2): "an array as a key",
    }
    message = impl.Message.create(alice, BOB_ADDRESS, fields=fields)
    assert message.fields == fields
    message.fields.clear()
    assert message.fields == fields
    assert message.fields is not message.fields
    for bad in ({1: object()}, {1: {2}}):
        with pytest.raises(TypeError):
            impl.Message.create(alice, BOB_ADDRESS, fields=bad)
    for bad in ([1], "text", 5):
        with pytest.raises(TypeError):
            impl.Message.create(alice, BOB_ADDRESS, fields=bad)
    with pytest.raises(ValueError, match=r"64|range"):
        impl.Message.create(alice, BOB_ADDRESS, fields={1: 2**64})


def test_fields_that_contain_themselves_are_refused(impl: Any) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(errors.EncodeError) as caught:
        impl.Message.create(impl.Identity(), BOB_ADDRESS, fields={1: loop})
    assert caught.value.reason == "DEPTH"


def test_stamps_and_tickets_have_their_lengths(impl: Any) -> None:
    """L7: 32 bytes of work, 16 bytes from a ticket, 16 bytes of ticket."""
    alice = impl.Identity()
    ticket = bytes(range(16))
    message = impl.Message.create(alice, BOB_ADDRESS, b"x", ticket=ticket)
    assert message.stamp == impl.ticket_stamp(ticket, message.id)
    again = impl.Message.create(
        alice, BOB_ADDRESS, b"x", timestamp=message.timestamp, stamp=message.stamp
    )
    assert again == message
    for arguments in (
        {"stamp": b""},
        {"stamp": bytes(31)},
        {"ticket": bytes(15)},
    ):
        with pytest.raises(errors.EncodeError) as caught:
            impl.Message.create(alice, BOB_ADDRESS, **arguments)
        assert caught.value.reason == "LENGTH"
    with pytest.raises(ValueError, match="ticket"):
        impl.Message.create(alice, BOB_ADDRESS, stamp=bytes(32), ticket=ticket)


def test_a_stamp_leaves_id_and_signature_alone(impl: Any) -> None:
    """LXMF 2.3: the stamp is in neither."""
    plain = filled(impl, 10, fields={1: b"x"})
    stamped = plain.with_stamp(bytes(32))
    assert stamped.id == plain.id
    assert stamped.signature == plain.signature
    assert stamped.stamp == bytes(32)
    assert stamped.content_size == plain.content_size + 34
    assert stamped.with_stamp(b"t" * 16).id == plain.id
    for wrong in (b"", bytes(17), bytes(64)):
        with pytest.raises(errors.EncodeError):
            plain.with_stamp(wrong)


def test_a_stamp_is_refused_where_it_would_change_the_id(impl: Any) -> None:
    """LXMF 2.4: a payload that is not canonical verifies only without a stamp."""
    for name in (
        "unpack_noncanonical_unstamped",
        "unpack_f32_timestamp_unstamped",
        "unpack_trailing_bytes_unstamped",
        "unpack_nil_fields",
    ):
        message = impl.Message.unpack(raw(named("lxmf", name)["input"]["packed"]))
        if name == "unpack_nil_fields":
            # nil is as canonical as an empty map: it is kept.
            assert message.with_stamp(bytes(32)).id == message.id
            continue
        with pytest.raises(errors.EncodeError) as caught:
            message.with_stamp(bytes(32))
        assert caught.value.reason == "VALUE"


def test_the_codec_alone_writes_what_it_is_given(impl: Any) -> None:
    """P13-like: parts in, bytes out, nothing hashed or signed."""
    message = filled(impl, 50, fields={1: b"x"}, title=b"t", stamp=bytes(32))
    packed = impl.Message.encode(
        message.destination_hash,
        bytes(message.source_hash),
        message.signature,
        timestamp=message.timestamp,
        title=b"t",
        content=b"z" * 50,
        fields=message.fields_packed,
        stamp=bytes(32),
    )
    assert packed == message.packed
    smallest = impl.Message.encode(bytes(16), bytes(16), bytes(64), timestamp=0)
    assert len(smallest) == 111
    assert impl.Message.unpack(smallest).fields == {}


def test_the_codec_alone_checks_what_it_is_given(impl: Any) -> None:
    def encode(signature: bytes = bytes(64), **more: Any) -> Any:
        return impl.Message.encode(bytes(16), bytes(16), signature, timestamp=1.0, **more)

    for arguments, reason in (
        ({"signature": bytes(63)}, "LENGTH"),
        ({"fields": b""}, "TRUNCATED"),
        ({"fields": b"\x90"}, "TYPE"),
        ({"fields": b"\x81\x01"}, "TRUNCATED"),
        ({"fields": b"\x80\x80"}, "TRAILING"),
        ({"fields": b"\x82\x01\x01\x01\x01"}, "DUPLICATE_KEY"),
        ({"stamp": b""}, "EMPTY"),
    ):
        with pytest.raises(errors.EncodeError) as caught:
            encode(**arguments)
        assert caught.value.reason == reason, arguments
    with pytest.raises(ValueError, match="timestamp"):
        impl.Message.encode(bytes(16), bytes(16), bytes(64), timestamp=float("nan"))
    with pytest.raises(TypeError):
        impl.Message.encode(bytes(16), bytes(16), bytes(64))


# ------------------------------------------------------------------ verifying


def test_only_the_owner_of_the_source_address_verifies(impl: Any) -> None:
    alice, bob = impl.Identity(), impl.Identity()
    message = impl.Message.create(alice, impl.delivery_hash(bob), b"text")
    assert message.verify(alice)
    assert message.verify(alice.public_only())
    assert not message.verify(bob)
    # Bob's signature under Alice's address: the key does not belong to the address.
    forged = impl.Message.encode(
        message.destination_hash,
        message.source_hash,
        bob.sign(message.signed_data),
        timestamp=message.timestamp,
        content=b"text",
    )
    assert impl.Message.unpack(forged).id == message.id
    assert not impl.Message.unpack(forged).verify(alice)
    assert not impl.Message.unpack(forged).verify(bob)
    with pytest.raises(errors.KeyMissingError):
        message.verify(impl.Identity.without_keys())


def test_every_flipped_bit_is_noticed(impl: Any) -> None:
    """LXMF 2.3: signature, addresses and payload are all covered."""
    alice = impl.Identity()
    packed = impl.Message.create(alice, BOB_ADDRESS, b"text", timestamp=1.5).packed
    for place in (0, 15, 16, 31, 32, 63, 95, 100, 105, len(packed) - 3):
        damaged = bytearray(packed)
        damaged[place] ^= 1
        assert not impl.Message.unpack(damaged).verify(alice)


def test_decoding_verifies_when_asked(impl: Any) -> None:
    alice, bob = impl.Identity(), impl.Identity()
    packed = impl.Message.create(alice, BOB_ADDRESS, b"text").packed
    assert impl.Message.unpack(packed, verify=True, source=alice).content == b"text"
    for wrong in (bob, bob.public_only()):
        with pytest.raises(errors.AuthenticationError) as caught:
            impl.Message.unpack(packed, verify=True, source=wrong)
        assert caught.value.reason == "SIGNATURE"
    with pytest.raises(ValueError, match="source"):
        impl.Message.unpack(packed, verify=True)
    with pytest.raises(TypeError):
        impl.Message.unpack(packed, verify=1, source=alice)


def test_stamps_are_judged(impl: Any) -> None:
    """P15: vectors `message_stamped`: value and validity; a ticket of the list is enough."""
    for vector in vectors("lxmf", "message_stamped"):
        message = impl.Message.unpack(raw(vector["output"]["packed"]))
        worth = vector["output"]["stamp_value"]
        assert message.stamp_value() == worth
        assert message.stamp_valid(worth)
        assert not message.stamp_valid(worth + 1)
        assert message.stamp_valid(0)
    vector = vectors("lxmf", "message_ticket_stamped")[0]
    message = impl.Message.unpack(raw(vector["output"]["packed"]))
    ticket = raw(vector["input"]["ticket"])
    assert message.stamp_valid(256, tickets=[bytes(16), ticket])
    assert not message.stamp_valid(256, tickets=[bytes(16)])
    unstamped = message_of(impl, vectors("lxmf", "message")[0]["input"])
    assert unstamped.stamp_value() == 0
    assert not unstamped.stamp_valid(0, tickets=[ticket])
    for wrong in (-1, 257):
        with pytest.raises(ValueError, match="cost"):
            message.stamp_valid(wrong)
    with pytest.raises(ValueError, match="tickets"):
        message.stamp_valid(8, tickets=[b"short"])


# ------------------------------------------------------------------ damage


def test_every_truncation_is_refused(impl: Any) -> None:
    packed = filled(impl, 20, fields={1: [b"x", {2: "y"}]}, stamp=bytes(32)).packed
    for size in range(len(packed)):
        with pytest.raises(errors.DecodeError) as caught:
            impl.Message.unpack(packed[:size])
        assert caught.value.codec == "lxmf"
        assert caught.value.offset <= size


@pytest.mark.parametrize(
    ("payload", "field", "reason"),
    [
        (b"\xc0", "payload", "TYPE"),
        (b"\x93\xcb" + bytes(8) + b"\xc4\x00\xc4\x00", "payload", "LENGTH"),
        (b"\x94\xc4\x00\xc4\x00\xc4\x00\x80", "timestamp", "TYPE"),
        (b"\x94\x01\x01\xc4\x00\x80", "title", "TYPE"),
        (b"\x94\x01\xc4\x00\xc0\x80", "content", "TYPE"),
        (b"\x94\x01\xc4\x00\xc4\x00\x90", "fields", "TYPE"),
        (b"\x94\x01\xa1\xff\xc4\x00\x80", "title", "UTF8"),
        (b"\x94\x01\xc4\x00\xc4\x00\x81\x01\xc1", "fields", "RESERVED"),
        (b"\x94\x01\xc4\x00\xc4\x00\x82\x01\x02\x01\x03", "fields", "DUPLICATE_KEY"),
        (b"\x94\x01\xc4\x00\xc4\x00\x82\x01\x02\xc3\x03", "fields", "DUPLICATE_KEY"),
        (b"\x94\x01\xc4\x00\xc4\x00\x81\x80\x01", "fields", "TYPE"),
        (b"\x94\x01\xc4\x00\xc4\x00\x81\x01" + b"\x91" * 70 + b"\x01", "fields", "DEPTH"),
        (b"\x94\x01\xc4\x00\xc4\x00\x81\x01\xdd\xff\xff\xff\xff", "fields", "LIMIT"),
        (b"\x94\x01\xc4\x00\xc4\x00\x81\x01\xdc\xff\xff", "fields", "TRUNCATED"),
    ],
)
def test_damaged_payloads_name_the_rule_they_break(
    impl: Any, payload: bytes, field: str, reason: str
) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        impl.Message.unpack(bytes(96) + payload)
    assert (caught.value.field, caught.value.reason) == (field, reason)
    assert isinstance(caught.value, errors.LimitError) is (reason in ("DEPTH", "LIMIT"))
    assert 96 <= caught.value.offset <= 96 + len(payload)


def test_stamps_of_any_type_are_tolerated(impl: Any) -> None:
    """LXMF 6.3: a stamp that is no byte string is no stamp; further elements are ignored."""
    head = bytes(96) + b"\x96\x01\xc4\x00\xc4\x00\x80"
    for element in (b"\xc0", b"\x05", b"\xa1x", b"\x91\x01", b"\x81\x01\x02"):
        message = impl.Message.unpack(head + element + b"\xc3")
        assert message.stamp is None
        assert not message.stamp_valid(0)
    odd = impl.Message.unpack(head + b"\xc4\x03abc" + b"\xc0")
    assert odd.stamp == b"abc"
    assert isinstance(odd.stamp_value(), int)


def test_the_bytes_that_came_in_are_kept(impl: Any) -> None:
    """Decoding copies nothing: the views keep the bytes alive."""
    packed = filled(impl, 5000).packed
    message = impl.Message.unpack(packed)
    assert message.packed == packed
    payload = message.payload
    assert isinstance(payload, memoryview)
    assert payload.readonly
    del message
    gc.collect()
    assert bytes(payload) == packed[96:]
    changing = bytearray(packed)
    message = impl.Message.unpack(changing)
    changing[:] = bytes(len(packed))
    assert message.packed == packed
    assert message.content == b"z" * 5000


def test_the_core_does_not_copy_what_it_decodes() -> None:
    from netmesh._core import Message

    packed = Message.encode(bytes(16), bytes(16), bytes(64), timestamp=1.0, content=bytes(10**6))
    message = Message.unpack(packed)
    assert message.packed is packed
    assert message.payload.obj is packed


def test_messages_are_values(impl: Any) -> None:
    one, two = filled(impl, 10), filled(impl, 10)
    assert one == two
    assert hash(one) == hash(two)
    assert len({one, two, filled(impl, 11)}) == 2
    assert one != one.packed
    assert "Message" in repr(one)
    with pytest.raises(AttributeError):
        one.content = b""
    with pytest.raises(TypeError):
        one < two  # noqa: B015
    with pytest.raises(TypeError):
        impl.Message.unpack("text")
