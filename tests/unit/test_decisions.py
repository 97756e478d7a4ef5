"""Decision functions against upstream's own decisions (P14)."""

from __future__ import annotations

from typing import Any

import pytest

from golden import name_of, raw, vectors
from netmesh.constants import InterfaceMode


def rows(file: str, kind: str) -> list[Any]:
    """The rows of a table vector."""
    (vector,) = vectors(file, kind)
    found: list[Any] = vector["output"]["rows"]
    return found


# ------------------------------------------------------------------ sizes


def test_link_sizes_follow_from_the_mtu(impl: Any) -> None:
    """P14: vector `link_mdu`."""
    for row in rows("reticulum-links", "link_mdu"):
        assert impl.link_mdu(row["mtu"]) == row["mdu"]
        assert impl.resource_sdu(row["mtu"]) == row["resource_sdu"]
        assert min(impl.link_mdu(row["mtu"]) - 6, 65535) == row["channel_mdu"]
    assert impl.link_mdu(0) == impl.resource_sdu(35) == 0
    for wrong in (-1, 2**32):
        with pytest.raises(ValueError, match="mtu"):
            impl.link_mdu(wrong)


def test_the_mtu_follows_from_the_bitrate(impl: Any) -> None:
    """P14: vector `interface_mtu`."""
    for row in rows("reticulum-links", "interface_mtu"):
        assert impl.mtu_for_bitrate(row["bitrate"]) == row["hw_mtu"]


def test_defaults_of_every_kind_of_interface(impl: Any) -> None:
    """P14 (RNS 1, 7.3): the table, and what follows from it."""
    table = {
        "tcp": (262144, "auto", 10e6, 16, True),
        "backbone": (1048576, "auto", 100e6, 16, True),
        "local": (262144, "auto", 1e9, 0, False),
        "udp": (1064, "none", 10e6, 16, True),
        "auto": (1196, "fixed", 10e6, 16, True),
        "i2p": (1064, "none", 256e3, 16, True),
        "pipe": (1064, "none", 1e6, 8, True),
        "serial": (564, "none", None, 8, False),
        "kiss": (564, "none", 1200, 8, False),
        "ax25": (564, "none", 1200, 8, False),
        "rnode": (508, "none", None, 8, False),
        "weave": (1024, "fixed", 250e3, 16, True),
    }
    names = ("hw_mtu", "mtu_mode", "bitrate", "ifac_bytes", "ingress_limit")
    for kind, row in table.items():
        found = impl.interface_defaults(kind)
        assert dict(found) == dict(zip(names, row, strict=True))
        with pytest.raises(TypeError):
            found["hw_mtu"] = 1
    assert impl.mtu_for_bitrate(impl.interface_defaults("tcp")["bitrate"]) == 16384
    assert impl.mtu_for_bitrate(impl.interface_defaults("backbone")["bitrate"]) == 32768
    for wrong in ("", "TCP", "carrier pigeon"):
        with pytest.raises(ValueError, match="kind"):
            impl.interface_defaults(wrong)
    with pytest.raises(TypeError):
        impl.interface_defaults(5)


def test_radio_bitrates_are_those_of_upstream(impl: Any) -> None:
    """P14: vector `rnode_bitrate`."""
    for row in rows("reticulum-links", "rnode_bitrate"):
        found = impl.rnode_bitrate(row["sf"], row["cr"], row["bandwidth"])
        assert found == pytest.approx(row["bitrate"], rel=1e-12)
    assert impl.rnode_bitrate(4, 5, 125000) == impl.rnode_bitrate(7, 9, 125000) == 0


# ------------------------------------------------------------------ time-outs


def test_keepalives_follow_from_the_round_trip(impl: Any) -> None:
    """P14: vector `link_keepalive`."""
    for row in rows("reticulum-links", "link_keepalive"):
        assert impl.keepalive_interval(row["rtt"]) == pytest.approx(row["keepalive"])
        assert impl.stale_time(row["rtt"]) == pytest.approx(row["stale_time"])
    assert (impl.keepalive_interval(None), impl.stale_time(None)) == (360, 720)


def test_channel_timeouts_are_those_of_upstream(impl: Any) -> None:
    """P14: vector `channel_timeout`."""
    for row in rows("reticulum-links", "channel_timeout"):
        found = impl.channel_timeout(row["rtt"], row["tries"], row["tx_ring_length"])
        assert found == pytest.approx(row["timeout"])


def test_the_medium_decides_how_long_to_wait_for_a_path(impl: Any) -> None:
    """P14: vector `medium_path_timeout`."""
    for row in rows("reticulum-core", "medium_path_timeout"):
        found = impl.medium_path_timeout(row["lowest_bitrate"])
        assert found == pytest.approx(row["timeout"])
        waiting = impl.discovery_timeout(row["lowest_bitrate"])
        assert waiting == pytest.approx(row["discovery_timeout"])


def test_timeouts_of_receipts_links_and_requests(impl: Any) -> None:
    """P14 (RNS 1, 4.9; RNS 2, 1.5, 1.8, 1.10, 2.4)."""
    assert impl.first_hop_timeout(None) == 6
    assert impl.first_hop_timeout(1000) == 10
    assert impl.receipt_timeout(None, None) == 774
    assert impl.receipt_timeout(3, 1000) == 28
    assert impl.establishment_timeout(0, None) == 12
    assert impl.establishment_timeout(None, None) == 774
    assert impl.establishment_timeout(3, 1000) == 28
    assert impl.establishment_timeout(3, 1000, initiator=False) == 378
    assert impl.establishment_timeout(0, None, initiator=False) == 366
    assert impl.link_receipt_timeout(0.0001) == 0.005
    assert impl.link_receipt_timeout(2) == 12
    assert impl.request_timeout(1) == pytest.approx(17.25)
    for function in (impl.keepalive_interval, impl.first_hop_timeout, impl.request_timeout):
        with pytest.raises(ValueError, match="finite"):
            function(float("inf"))
        with pytest.raises(TypeError):
            function("1")


def test_the_channel_window_follows_from_the_round_trip(impl: Any) -> None:
    """P14 (RNS 2, 4.2)."""
    assert impl.channel_window(0.1) == impl.channel_window(1.45) == (2, 5, 2, 4)
    assert impl.channel_window(1.46) == (1, 1, 1, 1)


# ------------------------------------------------------------------ the window of a resource


def test_the_window_grows_on_a_fast_link(impl: Any) -> None:
    """P14, E9 (RNS 2, 3.8): four fast rounds open the window to 75."""
    profile = impl.WindowProfile()
    assert (profile.window, profile.window_min, profile.window_max) == (4, 2, 10)
    for count in range(1, 5):
        profile = profile.first_part(6250.1)
        assert profile.fast_rounds == count
        assert profile.window_max == (75 if count == 4 else 10)
    assert profile.first_part(9e9) == profile
    for _ in range(80):
        profile = profile.round_complete(10000.0)
    assert (profile.window, profile.window_min, profile.window_max) == (75, 72, 75)


def test_the_window_shrinks_on_a_very_slow_link(impl: Any) -> None:
    """P14, E9: two very slow rounds close it to 4, unless it was ever fast."""
    profile = impl.WindowProfile().round_complete(249.0)
    assert (profile.window, profile.very_slow_rounds, profile.window_max) == (5, 1, 10)
    profile = profile.round_complete(249.0)
    assert (profile.very_slow_rounds, profile.window_max) == (2, 4)
    fast = impl.WindowProfile(fast_rounds=1).round_complete(1.0)
    assert fast.very_slow_rounds == 0


def test_the_window_shrinks_on_timeouts(impl: Any) -> None:
    """P14, E9: never below its minimum, and its maximum follows."""
    profile = impl.WindowProfile(window=10)
    seen = []
    for _ in range(10):
        profile = profile.timed_out()
        seen.append((profile.window, profile.window_max))
    assert seen[:3] == [(9, 9), (8, 8), (7, 7)]
    assert profile.window == profile.window_min == 2
    assert profile.timed_out() == profile


def test_profiles_are_values(impl: Any) -> None:
    one, two = impl.WindowProfile(window=5), impl.WindowProfile(window=5)
    assert one == two
    assert hash(one) == hash(two)
    assert one != impl.WindowProfile()
    assert repr(impl.WindowProfile()) == (
        "WindowProfile(window=4, window_min=2, window_max=10, fast_rounds=0, very_slow_rounds=0)"
    )
    with pytest.raises(AttributeError):
        one.window = 6
    for arguments in ({"window": 0}, {"window_max": 2**32}, {"fast_rounds": -1}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            impl.WindowProfile(**arguments)
    with pytest.raises(TypeError):
        impl.WindowProfile(5)


# ------------------------------------------------------------------ paths and announces


@pytest.mark.parametrize("vector", vectors("reticulum-core", "announce_accept"), ids=name_of)
def test_which_announce_replaces_a_path(impl: Any, vector: dict[str, Any]) -> None:
    """P14: vectors `announce_accept` (RNS 1, 8.5.1 step 8)."""
    given = vector["input"]
    accepted = impl.announce_accepted(
        announce_hops=given["announce_hops_after_increment"],
        announce_blob=raw(given["announce_random_blob"]),
        existing_hops=given["existing_hops"],
        existing_blobs=[raw(blob) for blob in given["existing_random_blobs"]],
        existing_expired=given["existing_expired"],
        unresponsive=given["path_unresponsive"],
        gravity=given["receiving_interface_gravity"],
        existing_gravity=given["existing_interface_gravity"],
    )
    assert accepted is vector["output"]["accepted"]


def test_the_first_announce_is_always_accepted(impl: Any) -> None:
    assert impl.announce_accepted(announce_hops=128, announce_blob=bytes(10), existing_hops=None)
    for wrong in (bytes(9), bytes(11)):
        with pytest.raises(ValueError, match="announce_blob"):
            impl.announce_accepted(announce_hops=1, announce_blob=wrong, existing_hops=None)
        with pytest.raises(ValueError, match="existing_blobs"):
            impl.announce_accepted(
                announce_hops=1,
                announce_blob=bytes(10),
                existing_hops=1,
                existing_blobs=[wrong],
            )
    with pytest.raises(TypeError):
        impl.announce_accepted(announce_hops=1, announce_blob=bytes(10))


WAY = {"emitted": 10, "hops": 3, "gravity": 1, "bitrate": 100.0}


@pytest.mark.parametrize(
    "worse",
    [
        {"emitted": 9, "hops": 1, "gravity": 9, "bitrate": 900.0},
        {"hops": 4, "gravity": 9, "bitrate": 900.0},
        {"gravity": 0, "bitrate": 900.0},
        {"bitrate": 99.0},
    ],
    ids=["older", "longer", "less gravity", "slower"],
)
def test_which_way_is_tried_first(impl: Any, worse: dict[str, Any]) -> None:
    """F12: age, length, gravity, speed, in this order."""
    other = {f"other_{name}": value for name, value in (WAY | worse).items()}
    assert impl.way_preferred(**WAY, **other) is True
    back = {f"other_{name}": value for name, value in WAY.items()}
    assert impl.way_preferred(**(WAY | worse), **back) is False
    assert impl.way_preferred(**WAY, **back) is False
    for name in ("emitted", "hops", "other_emitted", "other_hops"):
        with pytest.raises(ValueError, match=name):
            impl.way_preferred(**(WAY | back | {name: -1}))


def test_where_announces_propagate(impl: Any) -> None:
    """P14: vector `announce_mode_matrix`: 672 combinations of modes and options."""
    table = rows("reticulum-core", "announce_mode_matrix")
    assert len(table) == 672
    for out_mode, source, from_internal, to_internal, local, allowed in table:
        verdict = impl.announce_propagates(
            out_mode=out_mode,
            source_mode=source or None,
            local=local,
            has_path=source != 0,
            from_internal=from_internal,
            source_to_internal=to_internal,
            hops=2,
        )
        assert (verdict != "block") is allowed
        capped = out_mode in (1, 2, 6) or (out_mode == 7 and local)
        assert verdict == ("block" if not allowed else "cap" if capped else "allow")


def test_announces_without_a_path_and_without_hops(impl: Any) -> None:
    """RNS 1, 8.7 rows 1 and 7."""
    ask = {"out_mode": InterfaceMode.FULL, "source_mode": None, "local": False}
    assert impl.announce_propagates(**ask, has_path=False) == "block"
    assert impl.announce_propagates(**ask) == "cap"
    assert impl.announce_propagates(**ask, hops=0) == "allow"
    for wrong in (0, 8):
        with pytest.raises(ValueError, match="out_mode"):
            impl.announce_propagates(out_mode=wrong, source_mode=1, local=True)


def test_which_path_requests_cause_a_search(impl: Any) -> None:
    """P14: vector `recursive_pr_matrix` (RNS 1, 8.9.4 case 4)."""
    table = rows("reticulum-core", "recursive_pr_matrix")
    assert len(table) == 49
    for mode, other, searched in table:
        assert impl.searches_unknown_path(mode=mode, out_mode=other) is searched
        assert impl.searches_unknown_path(mode=mode, recursive=True, out_mode=other)
        somewhere = any(row[2] for row in table if row[0] == mode)
        assert impl.searches_unknown_path(mode=mode) is somewhere


def test_paths_live_by_the_mode_of_their_interface(impl: Any) -> None:
    """P14 (RNS 1, 8.13)."""
    lives = {InterfaceMode.ACCESS_POINT: 86400, InterfaceMode.ROAMING: 21600}
    for mode in InterfaceMode:
        assert impl.path_lifetime(mode) == lives.get(mode, 604800)
    with pytest.raises(ValueError, match="mode"):
        impl.path_lifetime(0)


def test_the_announce_cap_spaces_announces(impl: Any) -> None:
    """P14 (RNS 1, 8.8)."""
    assert impl.announce_cap_delay(167, 1200) == pytest.approx(167 * 8 / 1200 / 0.02)
    assert impl.announce_cap_delay(500, 10e6, 1.0) == pytest.approx(0.0004)
    assert impl.announce_cap_delay(500, 0) == impl.announce_cap_delay(500, 1e6, 0) == 0


# ------------------------------------------------------------------ automatic discovery


@pytest.mark.parametrize("vector", vectors("reticulum-links", "auto_interface_group"), ids=name_of)
def test_group_addresses_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P14: vectors `auto_interface_group`."""
    given = vector["input"]
    scopes = {"link": "2", "admin": "4", "site": "5", "organisation": "8", "global": "e"}
    types = {"permanent": "0", "temporary": "1"}
    found = impl.multicast_group(
        given["group_id"],
        scope=scopes[given["discovery_scope"]],
        address_type=types[given["multicast_address_type"]],
    )
    assert found == vector["output"]["multicast_address_text"]


def test_group_addresses_have_known_scopes(impl: Any) -> None:
    assert impl.multicast_group("reticulum").startswith("ff12:0:")
    for arguments in ({"scope": "3"}, {"scope": ""}, {"scope": "22"}, {"address_type": "2"}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            impl.multicast_group("reticulum", **arguments)


@pytest.mark.parametrize("vector", vectors("reticulum-links", "auto_interface_token"), ids=name_of)
def test_discovery_tokens_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P14: vectors `auto_interface_token`."""
    given = vector["input"]
    token = impl.discovery_token(given["group_id"], given["link_local_address"])
    assert token.hex() == vector["output"]["token"]


def test_scopes_are_removed_as_upstream_does(impl: Any) -> None:
    """P14: vector `auto_interface_descope`."""
    for row in rows("reticulum-links", "auto_interface_descope"):
        assert impl.descope(row["in"]) == row["out"]
    assert impl.descope("") == ""


@pytest.mark.parametrize(
    "vector",
    [
        *vectors("reticulum-core", "interface_hash"),
        *vectors("reticulum-links", "interface_hash"),
    ],
    ids=name_of,
)
def test_interface_hashes_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P14: vectors `interface_hash`."""
    found = impl.interface_hash(vector["input"]["name_string"])
    assert found.hex() == vector["output"]["hash"]
