"""Decision functions: which path wins, how long to wait, how a window moves.

The engine and the tools decide with these functions; they are pure, so that a decision can
be tested and explained without living through it. Times are seconds, rates are bit/s.

Example:
    >>> from netmesh import decisions
    >>> decisions.link_mdu(500), decisions.resource_sdu(500)
    (431, 464)
    >>> decisions.keepalive_interval(0.25)
    51.42857142857143
    >>> decisions.interface_defaults("serial")["hw_mtu"], decisions.mtu_for_bitrate(10e6)
    (564, 16384)
    >>> profile = decisions.WindowProfile()
    >>> profile = profile.first_part(9000.0).round_complete(9000.0)
    >>> profile.window, profile.fast_rounds
    (5, 2)
"""

from __future__ import annotations

from netmesh._core import (
    WindowProfile,
    announce_accepted,
    announce_cap_delay,
    announce_propagates,
    channel_timeout,
    channel_window,
    channel_window_delivered,
    channel_window_timed_out,
    descope,
    discovery_timeout,
    discovery_token,
    establishment_timeout,
    first_hop_timeout,
    interface_defaults,
    interface_hash,
    keepalive_interval,
    link_mdu,
    link_receipt_timeout,
    mail_link_step,
    mail_packet_step,
    mail_path_request,
    mail_path_wait,
    mail_round_trip,
    mail_schedule,
    mail_slow_path,
    medium_path_timeout,
    mtu_for_bitrate,
    multicast_group,
    path_lifetime,
    receipt_timeout,
    request_timeout,
    resource_sdu,
    rnode_bitrate,
    searches_unknown_path,
    stale_time,
    way_preferred,
)

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
