"""The decisions of the protocol as pure functions: numbers in, a number or a verdict out.

Times are seconds, rates bit/s unless the name says otherwise. An unknown bitrate or
round-trip time is None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    AES_BLOCK,
    BITRATE_MIN,
    CHANNEL_RATE_ROUNDS,
    CHANNEL_RTT_FAST,
    CHANNEL_RTT_MEDIUM,
    CHANNEL_RTT_SLOW,
    CHANNEL_WINDOW,
    CHANNEL_WINDOW_FLEXIBILITY,
    CHANNEL_WINDOW_MAX_FAST,
    CHANNEL_WINDOW_MAX_MEDIUM,
    CHANNEL_WINDOW_MAX_SLOW,
    CHANNEL_WINDOW_MIN,
    CHANNEL_WINDOW_MIN_FAST,
    CHANNEL_WINDOW_MIN_MEDIUM,
    HEADER_1_SIZE,
    HOPS_UNKNOWN,
    IFAC_SIZE_MIN,
    KEEPALIVE_MAX,
    KEEPALIVE_MIN,
    KEEPALIVE_RTT_MAX,
    LINK_RECEIPT_MIN,
    MTU,
    PATH_REQUEST_TIMEOUT,
    PER_HOP_TIMEOUT,
    RESOURCE_FAST_ROUNDS,
    RESOURCE_RATE_FAST,
    RESOURCE_RATE_VERY_SLOW,
    RESOURCE_SDU_OVERHEAD,
    RESOURCE_VERY_SLOW_ROUNDS,
    RESOURCE_WINDOW,
    RESOURCE_WINDOW_FLEXIBILITY,
    RESOURCE_WINDOW_MAX_FAST,
    RESOURCE_WINDOW_MAX_SLOW,
    RESOURCE_WINDOW_MAX_VERY_SLOW,
    RESOURCE_WINDOW_MIN,
    RESPONDER_GRACE,
    RESPONSE_TIME_FACTOR,
    RESPONSE_TIME_MAX,
    STALE_FACTOR,
    TOKEN_OVERHEAD,
    TRAFFIC_TIMEOUT_FACTOR,
)
from netmesh.pure._discovery import descope, discovery_token, interface_hash, multicast_group
from netmesh.pure._mail import (
    mail_link_step,
    mail_packet_step,
    mail_path_request,
    mail_path_wait,
    mail_round_trip,
    mail_schedule,
    mail_slow_path,
)
from netmesh.pure._paths import (
    announce_accepted,
    announce_cap_delay,
    announce_propagates,
    path_lifetime,
    searches_unknown_path,
    way_preferred,
)
from netmesh.pure._wire import to_bool, to_int, to_real, to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "WindowProfile",
    "announce_accepted",
    "announce_cap_delay",
    "announce_propagates",
    "channel_timeout",
    "channel_window",
    "channel_window_delivered",
    "channel_window_timed_out",
    "descope",
    "discovery_timeout",
    "discovery_token",
    "establishment_timeout",
    "first_hop_timeout",
    "interface_defaults",
    "interface_hash",
    "keepalive_interval",
    "link_mdu",
    "link_receipt_timeout",
    "mail_link_step",
    "mail_packet_step",
    "mail_path_request",
    "mail_path_wait",
    "mail_round_trip",
    "mail_schedule",
    "mail_slow_path",
    "medium_path_timeout",
    "mtu_for_bitrate",
    "multicast_group",
    "path_lifetime",
    "receipt_timeout",
    "request_timeout",
    "resource_sdu",
    "rnode_bitrate",
    "searches_unknown_path",
    "stale_time",
    "way_preferred",
]

# (bitrate from which on, HW MTU) (RNS 1, 7.3)
MTU_STEPS = (
    (1e9, 524288),
    (750e6, 262144),
    (400e6, 131072),
    (200e6, 65536),
    (100e6, 32768),
    (10e6, 16384),
    (5e6, 8192),
    (2e6, 4096),
    (1e6, 2048),
    (62500, 1024),
)


def defaults(
    hw_mtu: int, mtu_mode: str, bitrate: float | None, ifac_bytes: int, ingress_limit: bool
) -> Mapping[str, Any]:
    """One row of the table of interfaces."""
    return MappingProxyType(
        {
            "hw_mtu": hw_mtu,
            "mtu_mode": mtu_mode,
            "bitrate": bitrate,
            "ifac_bytes": ifac_bytes,
            "ingress_limit": ingress_limit,
        }
    )


INTERFACES = {
    "tcp": defaults(262144, "auto", 10e6, 16, True),
    "backbone": defaults(1048576, "auto", 100e6, 16, True),
    "local": defaults(262144, "auto", 1e9, 0, False),
    "udp": defaults(1064, "none", 10e6, 16, True),
    "auto": defaults(1196, "fixed", 10e6, 16, True),
    "i2p": defaults(1064, "none", 256e3, 16, True),
    "pipe": defaults(1064, "none", 1e6, 8, True),
    "serial": defaults(564, "none", None, 8, False),
    "kiss": defaults(564, "none", 1200.0, 8, False),
    "ax25": defaults(564, "none", 1200.0, 8, False),
    "rnode": defaults(508, "none", None, 8, False),
    "weave": defaults(1024, "fixed", 250e3, 16, True),
}

# ---------------------------------------------------------------- sizes


def mtu_for_bitrate(bitrate: float, /) -> int | None:
    """The HW MTU of an automatic interface; None: no limit (RNS 1, 7.3)."""
    rate = to_real(bitrate, "bitrate")
    return next((mtu for step, mtu in MTU_STEPS if rate >= step), None)


def link_mdu(mtu: int, /) -> int:
    """Plaintext bytes of one packet on a link; 0 when not even a header fits (RNS 2, 1.11)."""
    room = to_int(mtu, "mtu", 0, 2**32 - 1) - IFAC_SIZE_MIN - HEADER_1_SIZE - TOKEN_OVERHEAD
    return max(room // AES_BLOCK * AES_BLOCK - 1, 0)


def resource_sdu(mtu: int, /) -> int:
    """The size of a resource part on a link: mtu - 36 (RNS 2, 3.2)."""
    return max(to_int(mtu, "mtu", 0, 2**32 - 1) - RESOURCE_SDU_OVERHEAD, 0)


def interface_defaults(kind: str, /) -> Mapping[str, Any]:
    """HW MTU, how it is set, bitrate, access code bytes, ingress limiting (RNS 1, 7.3).

    Raises:
        ValueError: the kind does not exist.
    """
    if to_text(kind, "kind") not in INTERFACES:
        raise ValueError(f"kind must be one of {tuple(INTERFACES)}, not {kind!r}")
    return INTERFACES[kind]


def rnode_bitrate(spreading_factor: int, coding_rate: int, bandwidth: float, /) -> float:
    """Bit/s of a LoRa radio, bandwidth in Hz; 0 outside of what radios do (RNS 2, 5.13)."""
    factor = to_int(spreading_factor, "spreading_factor", 0, 2**32 - 1)
    rate = to_int(coding_rate, "coding_rate", 0, 2**32 - 1)
    kilohertz = to_real(bandwidth, "bandwidth") / 1000
    if not (5 <= factor <= 12 and 5 <= rate <= 8 and kilohertz > 0):
        return 0.0
    return factor * ((4.0 / rate) / ((1 << factor) / kilohertz)) * 1000


# ------------------------------------------------------------ time-outs


def known(value: float | None, name: str) -> float:
    """A number, 0 for one that is not known."""
    return 0.0 if value is None else to_real(value, name)


def packet_time(bitrate: float) -> float:
    """Seconds that a packet of 500 bytes takes; 0 when the bitrate is unknown."""
    return MTU * 8 / bitrate if bitrate > 0 else 0.0


def hop_count(hops: int | None) -> int:
    """128 for an unknown number of hops (RNS 1, 4.9)."""
    return HOPS_UNKNOWN if hops is None else to_int(hops, "hops", 0, 2**32 - 1)


def keepalive_interval(rtt: float | None, /) -> float:
    """clamp(rtt * 360 / 1.75, 5, 360); 360 while the RTT is unknown (RNS 2, 1.9)."""
    seconds = known(rtt, "rtt")
    if seconds <= 0:
        return KEEPALIVE_MAX
    return max(min(seconds * (KEEPALIVE_MAX / KEEPALIVE_RTT_MAX), KEEPALIVE_MAX), KEEPALIVE_MIN)


def stale_time(rtt: float | None, /) -> float:
    """Twice the keepalive interval (RNS 2, 1.9)."""
    return STALE_FACTOR * keepalive_interval(rtt)


def first_hop_timeout(bitrate: float | None, /) -> float:
    """500 * 8 / bitrate + 6, or 6 when it is unknown (RNS 1, 4.9)."""
    return packet_time(known(bitrate, "bitrate")) + PER_HOP_TIMEOUT


def establishment_timeout(
    hops: int | None, bitrate: float | None, /, *, initiator: bool = True
) -> float:
    """Of a link: first hop + 6 * max(1, hops), or 6 * max(1, hops) + 360 (RNS 2, 1.5, 1.8)."""
    way = PER_HOP_TIMEOUT * max(1, hop_count(hops))
    start = first_hop_timeout(bitrate)
    return start + way if to_bool(initiator, "initiator") else way + RESPONDER_GRACE


def receipt_timeout(hops: int | None, bitrate: float | None, /) -> float:
    """Of a packet whose next hop has ``bitrate``: first hop + 6 * hops (RNS 1, 4.9)."""
    return first_hop_timeout(bitrate) + PER_HOP_TIMEOUT * hop_count(hops)


def link_receipt_timeout(rtt: float, /) -> float:
    """max(rtt * 6, 0.005) (RNS 2, 1.10)."""
    return max(to_real(rtt, "rtt") * TRAFFIC_TIMEOUT_FACTOR, LINK_RECEIPT_MIN)


def request_timeout(rtt: float, /) -> float:
    """Rtt * 6 + 10 * 1.125 (RNS 2, 2.4)."""
    grace = RESPONSE_TIME_MAX * RESPONSE_TIME_FACTOR
    return to_real(rtt, "rtt") * TRAFFIC_TIMEOUT_FACTOR + grace


def channel_timeout(rtt: float, tries: int, ring: int, /) -> float:
    """Of try ``tries`` (from 1) with ``ring`` envelopes outstanding (RNS 2, 4.2)."""
    backoff = 1.0
    for _ in range(1, min(to_int(tries, "tries", 0, 2**32 - 1), 64)):
        backoff *= 1.5
    ring = to_int(ring, "ring", 0, 2**32 - 1)
    return backoff * max(to_real(rtt, "rtt") * 2.5, 0.025) * (ring + 1.5)


def channel_window(rtt: float, /) -> tuple[int, int, int, int]:
    """(window, max, min, flexibility) at opening (RNS 2, 4.2)."""
    if to_real(rtt, "rtt") > CHANNEL_RTT_SLOW:
        return 1, 1, 1, 1
    return (
        CHANNEL_WINDOW,
        CHANNEL_WINDOW_MAX_SLOW,
        CHANNEL_WINDOW_MIN,
        CHANNEL_WINDOW_FLEXIBILITY,
    )


ChannelWindow = tuple[int, int, int, int, int, int]
"""Window, max, min, flexibility, fast rounds, medium rounds."""


def _window(window: object) -> ChannelWindow:
    if not isinstance(window, tuple) or len(window) != 6:
        raise TypeError("argument 'window' must be a tuple of 6 numbers")
    size, most, least, spare, fast, medium = (to_int(each, "window", 0, 65535) for each in window)
    return size, most, least, spare, fast, medium


def channel_window_delivered(window: ChannelWindow, rtt: float, /) -> ChannelWindow:
    """A channel's window after a delivery (RNS 2, 4.2)."""
    size, most, least, spare, fast, medium = _window(window)
    rtt = to_real(rtt, "rtt")
    size += size < most
    if not rtt > 0:  # not known: no verdict on the link's speed
        return size, most, least, spare, fast, medium
    if rtt <= CHANNEL_RTT_FAST:
        fast += 1
        if fast == CHANNEL_RATE_ROUNDS and most < CHANNEL_WINDOW_MAX_FAST:
            most, least = CHANNEL_WINDOW_MAX_FAST, CHANNEL_WINDOW_MIN_FAST
    else:
        fast = 0
        medium = 0 if rtt > CHANNEL_RTT_MEDIUM else medium + 1
        if medium == CHANNEL_RATE_ROUNDS and most < CHANNEL_WINDOW_MAX_MEDIUM:
            most, least = CHANNEL_WINDOW_MAX_MEDIUM, CHANNEL_WINDOW_MIN_MEDIUM
    return size, most, least, spare, fast, medium


def channel_window_timed_out(window: ChannelWindow, /) -> ChannelWindow:
    """A channel's window after a time-out (RNS 2, 4.2)."""
    size, most, least, spare, fast, medium = _window(window)
    if size > least:
        size -= 1
        most -= most > least + spare
    return size, most, least, spare, fast, medium


def medium_path_timeout(lowest_bitrate: float | None, /) -> float:
    """2 * 4000 / max(bitrate, 5) + 6; 0 when no bitrate is known (RNS 1, 8.9.3)."""
    bitrate = known(lowest_bitrate, "lowest_bitrate")
    if bitrate <= 0:
        return 0.0
    return 2 * packet_time(max(bitrate, BITRATE_MIN)) + PER_HOP_TIMEOUT


def discovery_timeout(lowest_bitrate: float | None, /) -> float:
    """Of a discovery path request: max(15, the medium path time-out) (RNS 1, 8.9.4)."""
    return max(PATH_REQUEST_TIMEOUT, medium_path_timeout(lowest_bitrate))


# -------------------------------------------------------------- windows


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowProfile:
    """The receiver's window of one resource: each step returns the next one (RNS 2, 3.8)."""

    window: int = RESOURCE_WINDOW
    window_min: int = RESOURCE_WINDOW_MIN
    window_max: int = RESOURCE_WINDOW_MAX_SLOW
    fast_rounds: int = 0
    very_slow_rounds: int = 0

    def __post_init__(self) -> None:
        for name in ("window", "window_min", "window_max"):
            to_int(getattr(self, name), name, 1, 2**32 - 1)
        for name in ("fast_rounds", "very_slow_rounds"):
            to_int(getattr(self, name), name, 0, 2**32 - 1)

    def first_part(self, req_resp_rate: float, /) -> WindowProfile:
        """The first part after a request came: (request + part bytes) / response time."""
        return self._count_fast(to_real(req_resp_rate, "req_resp_rate"))

    def _count_fast(self, rate: float) -> WindowProfile:
        if rate <= RESOURCE_RATE_FAST or self.fast_rounds >= RESOURCE_FAST_ROUNDS:
            return self
        rounds = self.fast_rounds + 1
        top = RESOURCE_WINDOW_MAX_FAST if rounds == RESOURCE_FAST_ROUNDS else self.window_max
        return replace(self, fast_rounds=rounds, window_max=top)

    def round_complete(self, data_rate: float, /) -> WindowProfile:
        """All requested parts are in, the resource is not complete; bytes a second."""
        rate = to_real(data_rate, "data_rate")
        grown = self
        if self.window < self.window_max:
            spread = self.window + 1 - self.window_min
            lift = spread >= RESOURCE_WINDOW_FLEXIBILITY
            grown = replace(self, window=self.window + 1, window_min=self.window_min + lift)
        grown = grown._count_fast(rate)
        rounds = grown.very_slow_rounds
        slow = grown.fast_rounds == 0 and rate < RESOURCE_RATE_VERY_SLOW
        if not slow or rounds >= RESOURCE_VERY_SLOW_ROUNDS:
            return grown
        is_limit = rounds + 1 == RESOURCE_VERY_SLOW_ROUNDS
        top = RESOURCE_WINDOW_MAX_VERY_SLOW if is_limit else grown.window_max
        return replace(grown, very_slow_rounds=rounds + 1, window_max=top)

    def timed_out(self) -> WindowProfile:
        """A time-out with retries left."""
        if self.window <= self.window_min:
            return self
        window, top = self.window - 1, self.window_max
        if top > self.window_min:
            top -= 1
            if top - window >= RESOURCE_WINDOW_FLEXIBILITY:
                top -= 1
        return replace(self, window=window, window_max=top)
