"""Decision functions: the C core against the pure reference."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, pure, same, sized
from netmesh.constants import InterfaceMode

KINDS = [
    "tcp",
    "backbone",
    "local",
    "udp",
    "auto",
    "i2p",
    "pipe",
    "serial",
    "kiss",
    "ax25",
    "rnode",
    "weave",
]
REALS = st.one_of(
    st.floats(0, 1e10),
    st.floats(),
    st.integers(-5, 2**40),
    st.sampled_from((0, 1e9, 750e6, 400e6, 62500, 62499.999, 5, 0.18, 0.75, 1.45, 1.75)),
)
MAYBE = st.none() | REALS
COUNTS = st.one_of(st.integers(-1, 200), st.sampled_from((2**31, 2**32 - 1, 2**32, 2**63)))
MODES = [*InterfaceMode, None]


@given(REALS, MAYBE, COUNTS)
def test_numbers_agree(real: Any, maybe: Any, count: int) -> None:
    for name in ("mtu_for_bitrate", "link_receipt_timeout", "request_timeout", "channel_window"):
        same(lambda impl, n=name: getattr(impl, n)(real))
    for name in (
        "keepalive_interval",
        "stale_time",
        "first_hop_timeout",
        "medium_path_timeout",
        "discovery_timeout",
    ):
        same(lambda impl, n=name: getattr(impl, n)(maybe))
    for name in ("link_mdu", "resource_sdu", "path_lifetime"):
        same(lambda impl, n=name: getattr(impl, n)(count))


@given(st.none() | COUNTS, MAYBE, st.booleans())
def test_time_outs_of_paths_agree(hops: int | None, bitrate: Any, initiator: bool) -> None:
    same(lambda impl: impl.receipt_timeout(hops, bitrate))
    same(lambda impl: impl.establishment_timeout(hops, bitrate, initiator=initiator))


@given(REALS, COUNTS, COUNTS)
def test_channel_time_outs_agree(rtt: Any, tries: int, ring: int) -> None:
    same(lambda impl: impl.channel_timeout(rtt, tries, ring))


@given(
    st.tuples(*[st.one_of(st.integers(0, 60), st.integers(-1, 70000))] * 6),
    st.lists(st.none() | REALS, max_size=40),
)
def test_windows_of_channels_move_alike(window: Any, moves: list[Any]) -> None:
    def moved(impl: Any) -> Any:
        now = window
        for rtt in moves:
            now = (
                impl.channel_window_timed_out(now)
                if rtt is None
                else impl.channel_window_delivered(now, rtt)
            )
        return now

    same(moved)


@pytest.mark.parametrize("rtt", [0.0, 0.18, 0.1801, 0.75, 0.7501, 1.45, 1.46])
def test_windows_of_channels_follow_the_round_trip_time(rtt: float) -> None:
    def lives(impl: Any) -> list[Any]:
        window = (*impl.channel_window(rtt), 0, 0)
        seen = []
        for step in range(80):
            if step % 7 == 6:
                window = impl.channel_window_timed_out(window)
            else:
                window = impl.channel_window_delivered(window, rtt)
            seen.append(window)
        return seen

    same(lives)


@pytest.mark.parametrize("window", [(1, 2, 3, 4, 5), [1, 2, 3, 4, 5, 6], None, (1,) * 5 + ("x",)])
def test_what_is_no_window_is_refused_alike(window: Any) -> None:
    same(lambda impl: impl.channel_window_timed_out(window))
    same(lambda impl: impl.channel_window_delivered(window, 0.1))


RATES = st.none() | st.integers(0, 3000) | st.integers(-1, 2**63) | REALS


@given(RATES, MAYBE)
def test_waits_of_messages_agree(bitrate: Any, since: Any) -> None:
    for name in ("mail_round_trip", "mail_slow_path", "mail_path_wait"):
        same(lambda impl, n=name: getattr(impl, n)(bitrate))
    same(lambda impl: impl.mail_path_request(since, bitrate))


@given(RATES, COUNTS, st.booleans(), st.floats(0, 1) | REALS)
def test_schedules_of_messages_agree(bitrate: Any, attempts: int, after: bool, jitter: Any) -> None:
    same(lambda impl: impl.mail_schedule(bitrate, attempts))
    same(
        lambda impl: impl.mail_schedule(bitrate, attempts, after_path_request=after, jitter=jitter)
    )


@given(COUNTS | st.integers(0, 7), COUNTS | st.integers(0, 7), st.booleans(), st.booleans())
def test_steps_of_messages_agree(made: int, most: int, has_path: bool, on_path: bool) -> None:
    same(lambda impl: impl.mail_packet_step(made, most, has_path=has_path, sent_on_path=on_path))
    same(lambda impl: impl.mail_link_step(made, most, has_path=has_path))


@given(COUNTS, REALS, REALS)
def test_announce_caps_agree(size: int, bitrate: Any, cap: Any) -> None:
    same(lambda impl: impl.announce_cap_delay(size, bitrate))
    same(lambda impl: impl.announce_cap_delay(size, bitrate, cap))


@given(st.integers(-1, 14), st.integers(3, 10), REALS)
def test_radio_bitrates_agree(factor: int, rate: int, bandwidth: Any) -> None:
    same(lambda impl: impl.rnode_bitrate(factor, rate, bandwidth))


@pytest.mark.parametrize("kind", [*KINDS, "TCP", "", "modem"])
def test_interface_defaults_agree(kind: str) -> None:
    same(lambda impl: dict(impl.interface_defaults(kind)))


def test_interface_defaults_are_read_only() -> None:
    for impl in (core, pure):
        with pytest.raises(TypeError):
            impl.interface_defaults("tcp")["hw_mtu"] = 1


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=5),
    st.tuples(st.integers(0, 3), st.integers(0, 5)),
    st.none() | st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.integers(-1, 1),
    st.integers(-1, 1),
)
def test_announces_are_accepted_alike(
    hops: int,
    blobs: list[tuple[int, int]],
    own: tuple[int, int],
    existing_hops: int | None,
    expired: bool,
    unresponsive: bool,
    gravity: int,
    existing_gravity: int,
) -> None:
    def blob(parts: tuple[int, int]) -> bytes:
        return bytes([parts[0]] * 5) + parts[1].to_bytes(5, "big")

    same(
        lambda impl: impl.announce_accepted(
            announce_hops=hops,
            announce_blob=blob(own),
            existing_hops=existing_hops,
            existing_blobs=[blob(parts) for parts in blobs],
            existing_expired=expired,
            unresponsive=unresponsive,
            gravity=gravity,
            existing_gravity=existing_gravity,
        )
    )


NEAR = st.integers(0, 3)


@given(st.tuples(NEAR, NEAR, NEAR, NEAR), st.tuples(NEAR, NEAR, NEAR, NEAR))
def test_ways_are_preferred_alike(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    names = ("emitted", "hops", "gravity", "bitrate")
    values = dict(zip(names, one, strict=True))
    values |= {f"other_{name}": value for name, value in zip(names, other, strict=True)}
    same(lambda impl: impl.way_preferred(**values))


@given(sized(10, 9), st.lists(sized(10, 11), max_size=2), COUNTS)
def test_odd_announces_are_refused_alike(blob: bytes, blobs: list[bytes], hops: int) -> None:
    same(
        lambda impl: impl.announce_accepted(
            announce_hops=hops, announce_blob=blob, existing_hops=1, existing_blobs=blobs
        )
    )


def test_propagation_agrees_everywhere() -> None:
    switches = itertools.product(
        InterfaceMode, MODES, (False, True), (False, True), (False, True), (None, False, True)
    )
    for out, source, local, has_path, from_internal, to_internal in switches:
        for hops in (0, 1):
            options = {
                "out_mode": out,
                "source_mode": source,
                "local": local,
                "has_path": has_path,
                "from_internal": from_internal,
                "source_to_internal": to_internal,
                "hops": hops,
            }
            assert core.announce_propagates(**options) == pure.announce_propagates(**options)


def test_searches_agree_everywhere() -> None:
    for mode, recursive, out in itertools.product(InterfaceMode, (False, True), MODES):
        options = {"mode": mode, "recursive": recursive, "out_mode": out}
        assert core.searches_unknown_path(**options) == pure.searches_unknown_path(**options)


@pytest.mark.parametrize("mode", [0, 8, -1, "full", 1.0, None])
def test_odd_modes_are_refused_alike(mode: Any) -> None:
    same(lambda impl: impl.path_lifetime(mode))
    same(lambda impl: impl.searches_unknown_path(mode=mode))
    same(lambda impl: impl.announce_propagates(out_mode=mode, source_mode=1, local=True))
    same(lambda impl: impl.searches_unknown_path(mode=5, out_mode=mode))


@given(
    st.text(max_size=20),
    st.sampled_from(("2", "4", "5", "8", "e", "3", "", "22", 2)),
    st.sampled_from(("0", "1", "2", "", None)),
)
def test_multicast_groups_agree(group: str, scope: Any, kind: Any) -> None:
    same(lambda impl: impl.multicast_group(group))
    same(lambda impl: impl.multicast_group(group, scope=scope, address_type=kind))


@given(st.text(max_size=20), st.text(max_size=20))
def test_tokens_and_hashes_agree(group: str, text: str) -> None:
    same(lambda impl: impl.discovery_token(group, text))
    same(lambda impl: impl.interface_hash(text))
    same(lambda impl: impl.descope(text))


@given(st.text(alphabet="fe80:123%x", max_size=20))
def test_scopes_are_removed_alike(text: str) -> None:
    for address in (text, "fe80:" + text, "fe80:4::" + text):
        same(lambda impl, a=address: impl.descope(a))


@given(
    st.tuples(*[st.integers(0, 80)] * 5),
    st.lists(
        st.tuples(
            st.sampled_from(("first_part", "round_complete", "timed_out")),
            st.one_of(st.floats(0, 20000), st.sampled_from((250, 6250, 6250.1, 249.9))),
        ),
        max_size=30,
    ),
)
def test_windows_move_alike(fields: tuple[int, ...], steps: list[tuple[str, float]]) -> None:
    names = ("window", "window_min", "window_max", "fast_rounds", "very_slow_rounds")

    def run(impl: Any, **start: int) -> Any:
        profile = impl.WindowProfile(**start)
        profiles = [profile]
        for name, rate in steps:
            step = getattr(profile, name)
            profile = step() if name == "timed_out" else step(rate)
            profiles.append(profile)
        return profiles

    same(run)
    same(lambda impl: run(impl, **dict(zip(names, fields, strict=True))))


def test_values_of_windows() -> None:
    for impl in (core, pure):
        assert impl.WindowProfile() == impl.WindowProfile(window=4)
        assert hash(impl.WindowProfile()) == hash(impl.WindowProfile(window=4))
        assert impl.WindowProfile() != impl.WindowProfile(window=5)
    for call in (
        lambda impl: impl.WindowProfile(window="4"),
        lambda impl: impl.WindowProfile(fast_rounds=-1),
        lambda impl: impl.WindowProfile().first_part("x"),
        lambda impl: impl.WindowProfile().round_complete(float("nan")),
    ):
        assert same(call)[0] == "error"
