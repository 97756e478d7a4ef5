"""Announces: made, read, validated, remembered (P8)."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from typing import Any

import pytest

from golden import name_of, raw, vectors
from inputs import BUFFERS, NOT_BYTES, flips, truncations
from netmesh import Verdict, _core
from netmesh.errors import DecodeError, EncodeError, KeyMissingError

CORE = "reticulum-core"
PRIVATE = bytes(range(1, 65))
RATCHET = bytes(range(32))
RELAY = bytes(range(100, 116))
FIXED = {"emitted": 1_700_000_000, "random": b"12345"}


@pytest.fixture
def identity(impl: Any) -> Any:
    """One that is the same in every run."""
    return impl.Identity.from_private(PRIVATE)


# ---------------------------------------------------------------------- vectors


@pytest.mark.parametrize("vector", vectors(CORE, "announce"), ids=name_of)
def test_announces_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P8: built from its parts, every field readable, valid."""
    given, expected = vector["input"], vector["output"]
    identity = impl.Identity.from_private(raw(given["private_key"]))
    private = raw(given["ratchet_private"])
    ratchet = None if private is None else impl.x25519_public(private)
    random_hash = raw(expected["random_hash"])
    announce = impl.Announce.create(
        identity,
        given["name"],
        app_data=raw(given["app_data"]),
        ratchet=ratchet,
        emitted=given["timestamp"],
        random=random_hash[:5],
        path_response=given["path_response"],
    )
    assert announce.raw == raw(expected["raw"])
    seen = impl.Announce.unpack(raw(expected["raw"]))
    assert seen == announce
    assert seen.destination_hash == raw(expected["destination_hash"])
    assert isinstance(seen.destination_hash, impl.DestinationHash)
    assert seen.identity == identity.public_only()
    assert seen.identity_hash == identity.hash
    assert isinstance(seen.identity_hash, impl.IdentityHash)
    assert seen.public_key == identity.public_key
    assert seen.name_hash == impl.name_hash(given["name"])
    assert seen.random_hash == random_hash
    assert seen.emitted == given["timestamp"]
    assert seen.ratchet == ratchet
    assert seen.ratchet_id == (None if ratchet is None else impl.ratchet_id(ratchet))
    assert seen.signature == raw(expected["signature"])
    assert seen.signed_data == raw(expected["signed_data"])
    app_data = raw(given["app_data"])
    assert seen.app_data == (b"" if app_data is None and ratchet is not None else app_data)
    assert seen.packet.hash == raw(expected["packet_hash"])
    assert seen.path_response is given["path_response"]
    assert (seen.hops, seen.context) == (0, 0x0B if given["path_response"] else 0)
    assert seen.matches(given["name"]) is True
    assert seen.matches(given["name"] + ".other") is False
    assert seen.validate() is Verdict.VALID


@pytest.mark.parametrize("vector", vectors(CORE, "announce_validate"), ids=name_of)
def test_bad_announces_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P8."""
    assert vector["output"]["valid"] is False
    packet = impl.Packet.unpack(raw(vector["input"]["raw"]))
    if packet.context_flag:  # flipped: the data is too short for a ratchet
        with pytest.raises(DecodeError) as caught:
            impl.Announce.unpack(packet)
        assert caught.value.reason == "TRUNCATED"
    else:
        assert impl.Announce.unpack(packet).validate() is Verdict.BAD_SIGNATURE


@pytest.mark.parametrize("vector", vectors(CORE, "announce_frame_limit"), ids=name_of)
def test_the_size_limit_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P8: 500 bytes pass, 501 do not."""
    data = raw(vector["input"]["raw"])
    assert len(data) == vector["output"]["length"]
    if vector["output"]["accepted"]:
        assert impl.Announce.unpack(data).validate() is Verdict.VALID
    else:
        with pytest.raises(DecodeError) as caught:
            impl.Announce.unpack(data)
        assert (caught.value.reason, caught.value.field) == ("TOO_LARGE", "packet")


# --------------------------------------------------------------------- creation


def test_no_app_data_and_empty_app_data_differ_only_with_a_ratchet(
    impl: Any, identity: Any
) -> None:
    """P8: None and b"" are different inputs; the wire keeps them apart where it can."""
    for app_data, ratchet, seen in (
        (None, None, None),
        (b"", None, None),
        (b"x", None, b"x"),
        (None, RATCHET, b""),
        (b"", RATCHET, b""),
        (b"x", RATCHET, b"x"),
    ):
        announce = impl.Announce.create(identity, "app.a", app_data=app_data, ratchet=ratchet)
        assert impl.Announce.unpack(announce.raw).app_data == seen
        assert announce.packet.context_flag is (ratchet is not None)
        assert announce.validate() is Verdict.VALID


def test_a_name_is_text_or_its_hash(impl: Any, identity: Any) -> None:
    """P8."""
    by_text = impl.Announce.create(identity, "app.a", **FIXED)
    by_hash = impl.Announce.create(identity, impl.name_hash("app.a"), **FIXED)
    assert by_text == by_hash
    with pytest.raises(ValueError, match="10"):
        impl.Announce.create(identity, bytes(11))
    with pytest.raises(TypeError):
        impl.Announce.create(identity, 5)


def test_time_and_random_bytes_default_to_the_systems(impl: Any, identity: Any) -> None:
    """P8."""
    before = int(time.time())
    first = impl.Announce.create(identity, "app.a")
    second = impl.Announce.create(identity, "app.a")
    assert before <= first.emitted <= int(time.time())
    assert first.random_hash[:5] != second.random_hash[:5]
    fixed = impl.Announce.create(identity, "app.a", **FIXED)
    assert fixed.random_hash == b"12345" + (1_700_000_000).to_bytes(5, "big")
    for emitted in (0, 2**40 - 1):
        assert impl.Announce.create(identity, "app.a", emitted=emitted).emitted == emitted


def test_a_relay_writes_its_own_header(impl: Any, identity: Any) -> None:
    """P8: hops, context and transport id are not signed."""
    announce = impl.Announce.create(
        identity, "app.a", hops=7, transport_id=RELAY, path_response=True, **FIXED
    )
    packet = announce.packet
    assert (packet.header_type, packet.transport_type, packet.transport_id) == (1, 1, RELAY)
    assert (announce.hops, announce.path_response, announce.context) == (7, True, 0x0B)
    assert announce.validate() is Verdict.VALID
    plain = impl.Announce.create(identity, "app.a", **FIXED)
    assert announce.signed_data == plain.signed_data
    assert announce.packet.hash != plain.packet.hash  # the context counts there
    relayed = packet.replace(context=0, hops=9)
    assert impl.Announce.unpack(relayed).packet.hash == plain.packet.hash


def test_what_cannot_be_announced_is_refused(impl: Any, identity: Any) -> None:
    """P8."""
    assert len(impl.Announce.create(identity, "app.a", app_data=bytes(333)).raw) == 500
    assert impl.Announce.create(identity, "app.a", app_data=bytes(301), ratchet=RATCHET)
    for options in (
        {"app_data": bytes(334)},
        {"app_data": bytes(302), "ratchet": RATCHET},
        {"app_data": bytes(318), "transport_id": RELAY},
    ):
        with pytest.raises(EncodeError) as caught:
            impl.Announce.create(identity, "app.a", **options)
        assert caught.value.reason == "TOO_LARGE"
    for emitted in (-1, 2**40, 2**80):
        with pytest.raises(EncodeError) as caught:
            impl.Announce.create(identity, "app.a", emitted=emitted)
        assert (caught.value.reason, caught.value.field) == ("RANGE", "emitted")
    for options in ({"random": bytes(4)}, {"ratchet": bytes(31)}, {"hops": 128}):
        with pytest.raises(ValueError, match=next(iter(options))):
            impl.Announce.create(identity, "app.a", **options)
    for options in ({"emitted": 1.5}, {"app_data": "text"}, {"path_response": 1}):
        with pytest.raises(TypeError):
            impl.Announce.create(identity, "app.a", **options)
    for nobody in (identity.public_only(), impl.Identity.without_keys()):
        with pytest.raises(KeyMissingError):
            impl.Announce.create(nobody, "app.a")
    with pytest.raises((TypeError, AttributeError)):
        impl.Announce.create(PRIVATE, "app.a")
    with pytest.raises(TypeError):
        impl.Announce(identity, "app.a")


# ---------------------------------------------------------------------- reading


def test_truncation_names_the_field_that_is_not_complete(impl: Any, identity: Any) -> None:
    """P8: with and without a ratchet; app data may have any length."""
    for ratchet in (None, RATCHET):
        fields = [("public_key", 64), ("name_hash", 10), ("random_hash", 10), ("signature", 64)]
        if ratchet is not None:
            fields.insert(3, ("ratchet", 32))
        data = impl.Announce.create(identity, "app.a", ratchet=ratchet, app_data=b"12").raw
        least = 19 + sum(size for _, size in fields)
        for wrong in list(truncations(data))[20:least]:
            with pytest.raises(DecodeError) as caught:
                impl.Announce.unpack(wrong)
            error = caught.value
            ends = [19 + sum(size for _, size in fields[:count]) for count in range(len(fields))]
            place = max(index for index, end in enumerate(ends) if end <= len(wrong))
            found = (error.codec, error.reason, error.field, error.offset)
            assert found == ("announce", "TRUNCATED", fields[place][0], ends[place])
        for shorter in (data[:least], data[:-1]):
            assert impl.Announce.unpack(shorter).validate() is Verdict.BAD_SIGNATURE


def test_only_announces_are_announces(impl: Any) -> None:
    """P8: other packets are a TYPE error, no packets a packet's error."""
    for packet_type in (0, 2, 3):
        packet = impl.Packet(destination=bytes(16), payload=bytes(200), packet_type=packet_type)
        for value in (packet, packet.raw):
            with pytest.raises(DecodeError) as caught:
                impl.Announce.unpack(value)
            assert (caught.value.reason, caught.value.field) == ("TYPE", "packet_type")
    with pytest.raises(DecodeError) as caught:
        impl.Announce.unpack(b"\1")
    assert caught.value.codec == "packet"
    for wrong in NOT_BYTES.values():
        with pytest.raises(TypeError):
            impl.Announce.unpack(wrong)


@pytest.mark.parametrize("kind", BUFFERS)
def test_announces_come_in_every_kind_of_buffer(impl: Any, identity: Any, kind: str) -> None:
    """P8: and as packets, which are kept."""
    announce = impl.Announce.create(identity, "app.a", app_data=BUFFERS[kind](b"data"))
    assert impl.Announce.unpack(BUFFERS[kind](announce.raw)) == announce
    packet = impl.Packet.unpack(announce.raw)
    assert impl.Announce.unpack(packet).packet is packet
    assert impl.AnnounceCache().validate(BUFFERS[kind](announce.raw)) is Verdict.VALID


def test_announces_are_values(impl: Any, identity: Any) -> None:
    """P8: compared and hashed by content; immutable; copied and pickled."""
    announce = impl.Announce.create(identity, "app.a", **FIXED)
    same = impl.Announce.unpack(announce.raw)
    assert announce == same
    assert hash(announce) == hash(same)
    assert announce != impl.Announce.unpack(announce.packet.replace(hops=1))
    assert announce != announce.packet
    with pytest.raises((AttributeError, TypeError)):
        announce.app_data = b""
    for again in (copy.copy(announce), pickle.loads(pickle.dumps(announce))):
        assert again == announce


# ------------------------------------------------------------------- validation


def test_the_verdict_tells_the_reason(impl: Any, identity: Any) -> None:
    """P8: signature, destination, expected key; signature only on request."""
    announce = impl.Announce.create(identity, "app.a", **FIXED)
    other = impl.Identity.from_private(PRIVATE[::-1])
    # Signed for a destination that the key does not own.
    stray = bytes(16) + announce.signed_data[16:]
    payload = bytes(announce.packet.payload)
    payload = payload[:84] + identity.sign(stray) + payload[148:]
    wrong_place = impl.Packet(destination=bytes(16), payload=payload, packet_type=1)
    displaced = impl.Announce.unpack(wrong_place)
    assert displaced.validate(signature_only=True) is Verdict.VALID
    assert displaced.validate() is Verdict.BAD_DESTINATION
    assert displaced.validate(signature_only=True) is Verdict.VALID
    assert announce.validate(expected_public_key=identity.public_key) is Verdict.VALID
    assert announce.validate(expected_public_key=other.public_key) is Verdict.KEY_MISMATCH
    assert announce.validate(expected_public_key=None) is Verdict.VALID
    assert displaced.validate(expected_public_key=other.public_key) is Verdict.BAD_DESTINATION
    unsigned = impl.Announce.unpack(announce.packet.replace(destination=bytes(16)))
    for options in ({}, {"signature_only": True}, {"expected_public_key": bytes(64)}):
        assert unsigned.validate(**options) is Verdict.BAD_SIGNATURE
    with pytest.raises(ValueError, match="expected_public_key"):
        announce.validate(expected_public_key=bytes(63))
    with pytest.raises(TypeError):
        announce.validate(signature_only=1)


def test_the_order_of_the_questions_does_not_matter(impl: Any, identity: Any) -> None:
    """P8: what an object remembers of one check never answers another."""
    data = impl.Announce.create(identity, "app.a", **FIXED).raw
    questions = [
        ({"signature_only": True}, Verdict.VALID),
        ({}, Verdict.VALID),
        ({"expected_public_key": bytes(64)}, Verdict.KEY_MISMATCH),
    ]
    for first in questions:
        announce = impl.Announce.unpack(data)
        for options, verdict in (first, *questions, *reversed(questions)):
            assert announce.validate(**options) is verdict


def test_no_changed_byte_is_valid(impl: Any, identity: Any) -> None:
    """P8: but for hops, context and header bits, which are not signed."""
    data = impl.Announce.create(identity, "app.a", app_data=b"data", **FIXED).raw
    for place, wrong in enumerate(flips(data)):
        if place in (1, 18):
            continue
        try:
            verdict = impl.Announce.unpack(wrong).validate()
        except DecodeError:
            continue
        assert verdict is not Verdict.VALID, place


def test_flipping_the_context_flag_breaks_the_signature(impl: Any, identity: Any) -> None:
    """P8: the packet hash does not cover it, so a cache must."""
    announce = impl.Announce.create(identity, "app.a", ratchet=RATCHET, app_data=bytes(40))
    flipped = announce.packet.replace(context_flag=False)
    assert flipped.hash == announce.packet.hash
    assert impl.Announce.unpack(flipped).validate() is Verdict.BAD_SIGNATURE
    cache = impl.AnnounceCache()
    assert cache.validate(announce.raw) is Verdict.VALID
    assert cache.validate(flipped.raw) is Verdict.BAD_SIGNATURE
    assert cache.validate(announce.raw) is Verdict.VALID


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_many_announces_are_validated_at_once(impl: Any, identity: Any, threads: int) -> None:
    """P8: the verdicts are those of single calls, in order."""
    announces = [impl.Announce.create(identity, f"app.{i}") for i in range(20)]
    moved = announces[3].packet.replace(destination=bytes(16))
    announces[3] = impl.Announce.unpack(moved)
    announces[4].validate()
    expected = [Verdict.BAD_SIGNATURE if i == 3 else Verdict.VALID for i in range(20)]
    assert impl.Announce.validate_many(announces, threads=threads) == expected
    assert impl.Announce.validate_many(tuple(announces)) == expected
    assert impl.Announce.validate_many([], threads=threads) == []
    with pytest.raises(ValueError, match="threads"):
        impl.Announce.validate_many([], threads=0)
    for wrong in ([announces[0].raw], [None], 5):
        with pytest.raises((TypeError, AttributeError)):
            impl.Announce.validate_many(wrong)


def test_validation_lets_other_threads_run() -> None:
    """P8: the GIL is released for a whole batch."""
    identity = _core.Identity.from_private(PRIVATE)
    announces = [_core.Announce.create(identity, "app.a", emitted=i) for i in range(6000)]
    thread = threading.Thread(target=_core.Announce.validate_many, args=(announces,))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    thread.join()
    assert turns > 1000


# ------------------------------------------------------------------------ cache


def test_the_cache_remembers_what_was_valid(impl: Any, identity: Any) -> None:
    """P8: from fresh bytes, and whatever a relay may change."""
    cache = impl.AnnounceCache(key=bytes(16))
    announce = impl.Announce.create(identity, "app.a", **FIXED)
    assert cache.validate(announce.raw) is Verdict.VALID
    assert (cache.hits, cache.misses, cache.evictions, len(cache)) == (0, 1, 0, 1)
    relayed = announce.packet.replace(hops=5, header_type=1, transport_id=RELAY)
    assert cache.validate(bytearray(announce.raw)) is Verdict.VALID
    assert cache.validate(relayed.raw) is Verdict.VALID
    assert (cache.hits, cache.misses, len(cache)) == (2, 1, 1)


def test_a_hit_does_not_skip_the_expected_key(impl: Any, identity: Any) -> None:
    """P8."""
    cache = impl.AnnounceCache()
    data = impl.Announce.create(identity, "app.a", **FIXED).raw
    for _ in range(2):
        verdict = cache.validate(data, expected_public_key=bytes(64))
        assert verdict is Verdict.KEY_MISMATCH
    assert cache.validate(data, expected_public_key=identity.public_key) is Verdict.VALID
    assert (cache.hits, cache.misses) == (2, 1)


def test_the_cache_forgets_nothing_bad_because_it_keeps_none(impl: Any, identity: Any) -> None:
    """P8: only positive results are remembered; no announce is a DecodeError."""
    cache = impl.AnnounceCache()
    announce = impl.Announce.create(identity, "app.a", **FIXED)
    bad = announce.packet.replace(destination=bytes(16)).raw
    for _ in range(3):
        assert cache.validate(bad) is Verdict.BAD_SIGNATURE
    assert (cache.hits, cache.misses, len(cache)) == (0, 3, 0)
    for wrong in (b"", announce.raw[:100], impl.pack_packet(bytes(16), b"x")):
        with pytest.raises(DecodeError):
            cache.validate(wrong)
    assert (cache.misses, len(cache)) == (3, 0)


def test_the_cache_is_bounded(impl: Any, identity: Any) -> None:
    """P8: and evicts; what is asked for again stays longer."""
    cache = impl.AnnounceCache(capacity=8)
    kept = impl.Announce.create(identity, "app.kept", **FIXED).raw
    for i in range(40):
        assert cache.validate(impl.Announce.create(identity, f"app.{i}").raw) is Verdict.VALID
        assert cache.validate(kept) is Verdict.VALID
    assert len(cache) == 8
    assert cache.evictions == 41 - 8
    assert cache.hits == 39
    for options in ({"capacity": 0}, {"key": bytes(15)}):
        with pytest.raises(ValueError, match=next(iter(options))):
            impl.AnnounceCache(**options)


# ---------------------------------------------------------------- path responses


def test_a_path_response_is_reused_for_its_tag(impl: Any, identity: Any) -> None:
    """P8: for 30 s of the given clock."""
    destination = impl.Destination(identity, "app.a", default_app_data=b"data")
    responses = impl.PathResponses(destination)
    first = responses.announce(b"tag one", 1000.0)
    assert first.path_response is True
    assert first.app_data == b"data"
    assert first.validate() is Verdict.VALID
    assert responses.announce(b"tag one", 1000.0) is first
    assert responses.announce(bytearray(b"tag one"), 1029.9) is first
    assert responses.announce(b"tag two", 1001.0) != first
    later = responses.announce(b"tag one", 1030.0)
    assert later != first
    assert responses.announce(b"tag one", 1059.0) is later
    assert len(responses) == 2


def test_path_responses_take_the_options_of_an_announce(impl: Any, identity: Any) -> None:
    """P8: they count when it is made."""
    responses = impl.PathResponses(impl.Destination(identity, "app.a"), lifetime_s=5)
    made = responses.announce(b"tag", 0, ratchet=RATCHET, **FIXED)
    assert (made.ratchet, made.emitted) == (RATCHET, FIXED["emitted"])
    assert responses.announce(b"tag", 4, ratchet=None) is made
    assert responses.announce(b"tag", 5).ratchet is None
    for options in ({"path_response": False}, {"colour": 1}):
        with pytest.raises(TypeError):
            responses.announce(b"other", 0, **options)


def test_path_responses_are_bounded(impl: Any, identity: Any) -> None:
    """P8: the oldest makes room; a tag counts with its first 16 bytes."""
    responses = impl.PathResponses(impl.Destination(identity, "app.a"), capacity=3)
    made = [responses.announce(bytes([i]), 0.0) for i in range(4)]
    assert len(responses) == 3
    assert responses.announce(b"\3", 1.0) is made[3]
    assert responses.announce(b"\0", 1.0) is not made[0]
    long = responses.announce(bytes(16) + b"a", 1.0)
    assert responses.announce(bytes(16) + b"b", 1.0) is long
    for options in ({"capacity": 0}, {"capacity": -1}):
        with pytest.raises(ValueError, match="capacity"):
            impl.PathResponses(impl.Destination(identity, "app.a"), **options)
    with pytest.raises(TypeError):
        responses.announce("tag", 0.0)


def test_a_failed_path_response_is_not_kept(impl: Any, identity: Any) -> None:
    """P8: the next request tries again."""
    answers = iter([LookupError("not yet"), b"ready"])

    def app_data() -> bytes:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    responses = impl.PathResponses(impl.Destination(identity, "app.a", default_app_data=app_data))
    with pytest.raises(LookupError):
        responses.announce(b"tag", 0.0)
    assert len(responses) == 0
    assert responses.announce(b"tag", 1.0).app_data == b"ready"
