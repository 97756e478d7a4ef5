"""Framing of stream media: HDLC-like (RNS 1, 7.1) and KISS (RNS 1, 7.2).

Example:
    >>> from netmesh.framing import HdlcDecoder, hdlc_frame
    >>> decoder = HdlcDecoder()
    >>> [len(frame) for frame in decoder.feed(hdlc_frame(bytes(20)) + hdlc_frame(bytes(3)))]
    [20]
    >>> decoder.counters["runts"]
    1
"""

from __future__ import annotations

from netmesh._core import (
    HdlcDecoder,
    KissDecoder,
    hdlc_escape,
    hdlc_frame,
    hdlc_unescape,
    hdlc_unframe,
    kiss_escape,
    kiss_frame,
    kiss_unescape,
    kiss_unframe,
)

__all__ = [
    "HdlcDecoder",
    "KissDecoder",
    "hdlc_escape",
    "hdlc_frame",
    "hdlc_unescape",
    "hdlc_unframe",
    "kiss_escape",
    "kiss_frame",
    "kiss_unescape",
    "kiss_unframe",
]
