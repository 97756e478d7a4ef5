"""Announces, their cache and path responses: the C core against the pure reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import (
    KEY,
    PRIVATE,
    core,
    crosswise,
    damaged,
    fewer,
    outcome,
    pure,
    same,
    sized,
    truncations,
)

OWNER = bytes(range(64))
FIXED = {"emitted": 1_700_000_000, "random": b"12345"}
APP_DATA = st.none() | st.binary(max_size=340)


def announce(impl: Any, private: bytes = OWNER, name: Any = "app.inbox", **options: Any) -> Any:
    """An announce with nothing left to chance."""
    return impl.Announce.create(impl.Identity.from_private(private), name, **FIXED | options)


@fewer(2)
@given(
    PRIVATE,
    st.one_of(st.text(max_size=20), sized(10, 9)),
    st.fixed_dictionaries(
        {},
        optional={
            "app_data": APP_DATA | st.just("text"),
            "ratchet": st.none() | sized(32, 31),
            "emitted": st.integers(-1, 2**40),
            "random": sized(5, 6),
            "path_response": st.sampled_from((True, False, 1, None)),
            "hops": st.integers(-1, 128),
            "transport_id": st.none() | sized(16, 15),
        },
    ),
)
def test_announces_are_made_alike(private: bytes, name: Any, options: dict[str, Any]) -> None:
    same(lambda impl: announce(impl, private, name, **options))


@pytest.mark.parametrize("ratchet", [None, bytes(32)])
@pytest.mark.parametrize("transport_id", [None, bytes(16)])
def test_the_size_limit_is_the_same(ratchet: bytes | None, transport_id: bytes | None) -> None:
    limits = []
    for size in range(280, 340):
        options = {"app_data": bytes(size), "ratchet": ratchet, "transport_id": transport_id}
        found = same(lambda impl, o=options: announce(impl, **o).raw)
        limits.append(found[0])
    assert limits == sorted(limits, reverse=True)
    assert len(set(limits)) == 2


@fewer(2)
@given(PRIVATE, APP_DATA, st.none() | KEY, st.booleans())
def test_announces_are_taken_crosswise(
    private: bytes, app_data: bytes | None, ratchet: bytes | None, path_response: bool
) -> None:
    def run(maker: Any, taker: Any) -> Any:
        options = {"ratchet": ratchet, "path_response": path_response}
        raw = announce(maker, private, app_data=app_data, **options).raw
        taken = taker.Announce.unpack(raw)
        return (
            taken,
            taken.matches("app.inbox"),
            taken.matches("app.outbox"),
            taken.validate(),
            taken.validate(),
            taken.validate(signature_only=True),
            taken.validate(expected_public_key=taken.public_key),
            taken.validate(expected_public_key=bytes(64)),
        )

    crosswise(run)


VALID = [
    announce(pure, app_data=b"data").raw,
    announce(pure, ratchet=bytes(range(32))).raw,
    announce(pure, transport_id=bytes(16), hops=3, path_response=True).raw,
]


@pytest.mark.parametrize("valid", VALID)
def test_truncated_announces_are_refused_alike(valid: bytes) -> None:
    for raw in truncations(valid):
        same(lambda impl, raw=raw: impl.Announce.unpack(raw).validate())
        same(lambda impl, raw=raw: impl.AnnounceCache().validate(raw))


@given(damaged(st.sampled_from(VALID)), st.booleans())
def test_damaged_announces_are_judged_alike(raw: bytes, signature_only: bool) -> None:
    same(lambda impl: impl.Announce.unpack(raw))
    same(lambda impl: impl.Announce.unpack(raw).validate(signature_only=signature_only))
    same(lambda impl: impl.AnnounceCache().validate(raw))


@given(st.integers(0, 255), st.integers(400, 700))
def test_other_packets_are_refused_alike(flags: int, size: int) -> None:
    raw = bytes([flags]) + bytes(size)
    same(lambda impl: impl.Announce.unpack(raw))


def test_verdicts_are_reached_alike() -> None:
    def signed(impl: Any, name_hash: bytes) -> Any:
        """Well signed, for a destination that this name does not give."""
        owner = impl.Identity.from_private(OWNER)
        rest = owner.public_key + name_hash + bytes(10)
        payload = rest + owner.sign(bytes(16) + rest)
        packet = impl.Packet(destination=bytes(16), payload=payload, packet_type=1)
        return impl.Announce.unpack(packet)

    for options in ({}, {"signature_only": True}, {"expected_public_key": bytes(64)}):
        same(lambda impl, o=options: signed(impl, bytes(10)).validate(**o))

    def twice(impl: Any) -> Any:
        one = signed(impl, bytes(10))
        return one.validate(signature_only=True), one.validate(), one.validate(signature_only=True)

    assert same(twice)[1][1] == [
        ("Verdict", "VALID"),
        ("Verdict", "BAD_DESTINATION"),
        ("Verdict", "VALID"),
    ]


@pytest.mark.parametrize("threads", [1, 2, 0, 257, "1"])
def test_many_are_validated_alike(threads: Any) -> None:
    def run(impl: Any) -> Any:
        changed = bytearray(VALID[0])
        changed[-1] ^= 1
        items = [impl.Announce.unpack(raw) for raw in (*VALID, bytes(changed))]
        return impl.Announce.validate_many(items, threads=threads)

    same(run)
    same(lambda impl: impl.Announce.validate_many([], threads=threads))
    same(lambda impl: impl.Announce.validate_many([VALID[0]], threads=threads))
    same(lambda impl: impl.Announce.validate_many(VALID[0], threads=threads))


# ----------------------------------------------------------------- cache


@fewer(4)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from((None, 0, 1))), max_size=12
    )
)
def test_caches_count_alike(steps: list[tuple[int, int, int | None]]) -> None:
    keys = [None, pure.Identity.from_private(OWNER).public_key, bytes(64)]

    def run(impl: Any) -> Any:
        cache = impl.AnnounceCache(capacity=64, key=bytes(16))
        found = []
        for which, how, expected in steps:
            raw = bytearray(VALID[which % 3])
            if how == 1:
                raw[1] = 7  # hops, which the packet hash does not cover
            elif how == 2:
                raw[0] ^= 0x20  # the context flag, which it does not cover either
            elif how == 3:
                raw[-1] ^= 1
            options = {} if expected is None else {"expected_public_key": keys[1 + expected]}
            found.append(outcome(lambda r=bytes(raw), o=options: cache.validate(r, **o)))
            found.append((len(cache), cache.hits, cache.misses, cache.evictions))
        return found

    same(run)


@pytest.mark.parametrize("impl", [core, pure])
def test_caches_stay_bounded(impl: Any) -> None:
    cache = impl.AnnounceCache(capacity=8, key=bytes(16))
    for number in range(12):
        assert cache.validate(announce(pure, emitted=number).raw) == "VALID"
    assert len(cache) == 8
    assert cache.evictions == 4
    assert cache.misses == 12


# -------------------------------------------------------- path responses


@given(
    st.lists(
        st.tuples(st.sampled_from((b"a", b"b" * 16, b"b" * 17, b"", b"c")), st.integers(0, 100)),
        max_size=12,
    ),
    st.integers(1, 3),
    st.sampled_from((30.0, 5, 0, -1.0)),
)
def test_path_responses_are_reused_alike(
    steps: list[tuple[bytes, int]], capacity: int, lifetime: float
) -> None:
    def run(impl: Any) -> Any:
        owner = impl.Destination(impl.Identity.from_private(OWNER), "app.inbox")
        responses = impl.PathResponses(owner, lifetime_s=lifetime, capacity=capacity)
        made: list[Any] = []
        found = []
        for tag, now in steps:
            one = responses.announce(tag, now, emitted=now, random=b"12345")
            if not any(one is other for other in made):
                made.append(one)
            numbers = [number for number, other in enumerate(made) if one is other]
            found.append((one, numbers, len(responses)))
        return found

    same(run)


def test_wrong_types_are_type_errors() -> None:
    def destination(impl: Any) -> Any:
        return impl.Destination(impl.Identity.from_private(OWNER), "app.inbox")

    for call in (
        lambda impl: impl.Announce(),
        lambda impl: impl.Announce.create(OWNER, "a"),
        lambda impl: announce(impl, name=None),
        lambda impl: announce(impl, emitted=1.5),
        lambda impl: announce(impl, hops="1"),
        lambda impl: announce(impl, transport_id=impl.DestinationHash(bytes(16))),
        lambda impl: impl.Announce.unpack(None),
        lambda impl: impl.Announce.unpack("text"),
        lambda impl: announce(impl).matches(bytes(10)),
        lambda impl: announce(impl).validate(signature_only=1),
        lambda impl: announce(impl).validate(expected_public_key="key"),
        lambda impl: impl.AnnounceCache(capacity="1"),
        lambda impl: impl.AnnounceCache(key="key"),
        lambda impl: impl.AnnounceCache().validate(None),
        lambda impl: impl.AnnounceCache().validate(announce(impl)),
        lambda impl: impl.PathResponses(None),
        lambda impl: impl.PathResponses(destination(impl), lifetime_s="1"),
        lambda impl: impl.PathResponses(destination(impl)).announce("tag", 0),
        lambda impl: impl.PathResponses(destination(impl)).announce(b"", "0"),
        lambda impl: impl.PathResponses(destination(impl)).announce(b"", 0, path_response=True),
        lambda impl: impl.PathResponses(destination(impl)).announce(b"", 0, color="red"),
    ):
        assert same(call)[2] == "TypeError"
    for call in (
        lambda impl: impl.AnnounceCache(capacity=0),
        lambda impl: impl.AnnounceCache(capacity=2**26 + 1),
        lambda impl: impl.AnnounceCache(key=bytes(15)),
        lambda impl: impl.AnnounceCache().validate(VALID[0], expected_public_key=bytes(63)),
        lambda impl: impl.PathResponses(destination(impl), capacity=0),
        lambda impl: impl.PathResponses(destination(impl), lifetime_s=float("nan")),
        lambda impl: impl.PathResponses(destination(impl)).announce(b"", float("inf")),
        lambda impl: impl.Announce.create(impl.Identity.without_keys(), "a"),
        lambda impl: impl.Announce.create(impl.Identity().public_only(), "a"),
    ):
        assert same(call)[0] == "error"
