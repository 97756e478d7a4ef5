"""Decisions about messages on their way out: how long they wait, what an attempt does.

LXMF 4.6. Times are whole microseconds inside, so that a node that counts in them comes to
the same ones.
"""

from __future__ import annotations

import math
from typing import Literal

from netmesh.constants import (
    BITRATE_MIN,
    LXMF_AIRTIME_AWARE_MTU_TIME_S,
    LXMF_DELIVERY_RETRY_WAIT_S,
    LXMF_MAX_DELIVERY_ATTEMPTS,
    LXMF_PATH_REQUEST_DEBOUNCE_S,
    LXMF_PATH_REQUEST_WAIT_S,
    LXMF_SLOW_INTERFACE_BITRATE,
    MTU,
    PER_HOP_TIMEOUT,
)
from netmesh.pure._wire import to_bool, to_int, to_real

__all__ = [
    "mail_link_step",
    "mail_packet_step",
    "mail_path_request",
    "mail_path_wait",
    "mail_round_trip",
    "mail_schedule",
    "mail_slow_path",
]

SECOND = 1_000_000
HOP = round(PER_HOP_TIMEOUT * SECOND)
RETRY_WAIT = LXMF_DELIVERY_RETRY_WAIT_S * SECOND
PATH_WAIT = LXMF_PATH_REQUEST_WAIT_S * SECOND
FAST_ROUND_TRIP = 10 * SECOND
ATTEMPTS_MIN = 3
RECEIPT_MARGIN = 4 * SECOND
JITTER_STEPS = 2**32 - 1
AGO_MAX = 1e9


def whole(real: float) -> int:
    """The nearest whole number, of two the larger."""
    floor = math.floor(real)
    return floor + (real - floor >= 0.5)


def rate(bitrate: int | None, name: str) -> int:
    """Whole bit/s, 0 for what is not known."""
    return 0 if bitrate is None else to_int(bitrate, name, 0, 2**63 - 1)


def round_trip(bitrate: int) -> int:
    """T of a next hop: two packets and a hop's grace."""
    return HOP if bitrate == 0 else (2 * MTU * 8 * SECOND + bitrate // 2) // bitrate + HOP


def medium_timeout(lowest: int) -> int:
    """M of the slowest interface, 0 when no bit rate is known."""
    if lowest == 0:
        return 0
    return whole((2 * (MTU * 8 / max(float(lowest), BITRATE_MIN)) + PER_HOP_TIMEOUT) * SECOND)


def mail_round_trip(bitrate: int | None, /) -> float:
    """Seconds for a message and its proof: 2 * 4000 / bitrate + 6, or 6 (LXMF 4.6)."""
    return round_trip(rate(bitrate, "bitrate")) / SECOND


def mail_slow_path(bitrate: int | None, /) -> bool:
    """Whether messages go one at a time over such a next hop: more than 10 s (LXMF 4.6)."""
    return round_trip(rate(bitrate, "bitrate")) > FAST_ROUND_TRIP


def mail_path_wait(lowest_bitrate: int | None, /) -> float:
    """Seconds that a path request may take: max(7, the medium's time-out) (LXMF 4.6)."""
    return max(PATH_WAIT, medium_timeout(rate(lowest_bitrate, "lowest_bitrate"))) / SECOND


def mail_path_request(since: float | None, lowest_bitrate: int | None, /) -> tuple[bool, bool]:
    """Whether a path request may go out, and whether the last one is pending (LXMF 4.6).

    ``since``: seconds since the last one for the destination, None when there was none. A
    request is repeated after a path wait, after 60 s where an interface is below 2000 bit/s.
    """
    ago = None if since is None else to_real(since, "since")
    if ago is not None and ago < 0:
        raise ValueError(f"since must be 0 or more, not {since!r}")
    lowest = rate(lowest_bitrate, "lowest_bitrate")
    if ago is None:
        return True, False
    gone = whole(min(ago, AGO_MAX) * SECOND)
    wait = max(PATH_WAIT, medium_timeout(lowest))
    slow = 0 < lowest < LXMF_SLOW_INTERFACE_BITRATE
    return gone >= (LXMF_PATH_REQUEST_DEBOUNCE_S * SECOND if slow else wait), gone < wait


def mail_schedule(
    bitrate: int | None, attempts: int, /, *, after_path_request: bool = False, jitter: float = 0.0
) -> tuple[float, int, float | None]:
    """(wait, attempts_max, receipt_timeout) of an attempt, times in seconds (LXMF 4.6).

    ``bitrate`` is that of the next hop or, after a path request and without a path, of the
    slowest interface. ``attempts`` counts this one in; ``jitter`` is random, 0 to 1. A receipt
    time-out of None is that of the path.
    """
    given = rate(bitrate, "bitrate")
    made = to_int(attempts, "attempts", 0, 2**32 - 1)
    asked = to_bool(after_path_request, "after_path_request")
    share = to_real(jitter, "jitter")
    if not 0 <= share <= 1:
        raise ValueError(f"jitter must be from 0 to 1, not {jitter!r}")
    trip = medium_timeout(given) if asked else round_trip(given)
    wait = max(PATH_WAIT if asked else RETRY_WAIT, trip)
    most = LXMF_MAX_DELIVERY_ATTEMPTS
    if trip > FAST_ROUND_TRIP:
        most = max(ATTEMPTS_MIN, round(most * FAST_ROUND_TRIP / trip))
    airtime = max(trip - HOP, 0) // 2
    if airtime <= LXMF_AIRTIME_AWARE_MTU_TIME_S * SECOND:
        return wait / SECOND, most, None
    wait += airtime * int(share * JITTER_STEPS) // JITTER_STEPS
    left = max(most - made + 1, 1)
    receipt = (max(RETRY_WAIT, trip) + airtime) * left + RECEIPT_MARGIN
    return wait / SECOND, most, receipt / SECOND


def mail_packet_step(
    attempts: int, attempts_max: int, /, *, has_path: bool, sent_on_path: bool = False
) -> Literal["fail", "request path", "rediscover", "send packet"]:
    """What an opportunistic message does that is due: the first row counts (LXMF 4.6).

    ``attempts`` have been made; ``sent_on_path``: the last one sent a packet on a known path.
    """
    made = to_int(attempts, "attempts", 0, 2**32 - 1)
    most = to_int(attempts_max, "attempts_max", 0, 2**32 - 1)
    known, sent = to_bool(has_path, "has_path"), to_bool(sent_on_path, "sent_on_path")
    if made > most:
        return "fail"
    if made >= 1 and not known:
        return "request path"
    return "rediscover" if made == 2 and sent else "send packet"


def mail_link_step(
    attempts: int, attempts_max: int, /, *, has_path: bool
) -> Literal["fail", "request path", "open link"]:
    """What a message without a link does that is due; ``attempts`` counts this one (LXMF 4.6)."""
    made = to_int(attempts, "attempts", 0, 2**32 - 1)
    most = to_int(attempts_max, "attempts_max", 0, 2**32 - 1)
    known = to_bool(has_path, "has_path")
    if made >= most:
        return "fail"
    return "open link" if known else "request path"
