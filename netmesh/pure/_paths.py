"""Decisions about paths: how long they live, which announce replaces one, who hears of it.

RNS 1, 8.5 to 8.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from netmesh.constants import (
    ANNOUNCE_CAP,
    PATH_LIFE,
    PATH_LIFE_ACCESS_POINT,
    PATH_LIFE_ROAMING,
    RANDOM_BLOB_SIZE,
    InterfaceMode,
)
from netmesh.pure._wire import of_size, to_bool, to_byte_strings, to_int, to_real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "announce_accepted",
    "announce_cap_delay",
    "announce_propagates",
    "path_lifetime",
    "searches_unknown_path",
    "way_preferred",
]


def path_lifetime(mode: int, /) -> float:
    """Seconds of life of a path learnt on an interface in a mode (RNS 1, 8.13)."""
    lives = {
        InterfaceMode.ACCESS_POINT: PATH_LIFE_ACCESS_POINT,
        InterfaceMode.ROAMING: PATH_LIFE_ROAMING,
    }
    return lives.get(interface_mode(mode, "mode"), PATH_LIFE)


def interface_mode(mode: int, name: str) -> InterfaceMode:
    """A mode of RNS 1, 8.14."""
    return InterfaceMode(to_int(mode, name, InterfaceMode.FULL, InterfaceMode.INTERNAL))


def announce_cap_delay(packet_bytes: int, bitrate: float, cap: float = ANNOUNCE_CAP, /) -> float:
    """Seconds until the next relayed announce may go out (RNS 1, 8.8)."""
    size = to_int(packet_bytes, "packet_bytes", 0, 2**63 - 1)
    rate, fraction = to_real(bitrate, "bitrate"), to_real(cap, "cap")
    return size * 8 / rate / fraction if rate > 0 and fraction > 0 else 0.0


def emission(blob: bytes) -> int:
    """The emission time in a random blob: its last five bytes (RNS 1, 5.2)."""
    return int.from_bytes(blob[5:], "big")


def announce_accepted(
    *,
    announce_hops: int,
    announce_blob: Buffer,
    existing_hops: int | None,
    existing_blobs: Sequence[Buffer] = (),
    existing_expired: bool = False,
    unresponsive: bool = False,
    gravity: int = 0,
    existing_gravity: int = 0,
) -> bool:
    """Whether an announce replaces the path that is known (RNS 1, 8.5.1 step 8).

    ``existing_hops`` None means that none is known. Blobs are 10 bytes, oldest first;
    ``gravity`` is that of the receiving interface.
    """
    hops = to_int(announce_hops, "announce_hops", 0, 2**32 - 1)
    blob = of_size(announce_blob, "announce_blob", RANDOM_BLOB_SIZE)
    blobs = to_byte_strings(existing_blobs, "existing_blobs", RANDOM_BLOB_SIZE)
    expired = to_bool(existing_expired, "existing_expired")
    stuck = to_bool(unresponsive, "unresponsive")
    here = to_int(gravity, "gravity", -(2**31), 2**31 - 1)
    there = to_int(existing_gravity, "existing_gravity", -(2**31), 2**31 - 1)
    if existing_hops is None:
        return True
    to_int(existing_hops, "existing_hops", 0, 2**32 - 1)
    moment = emission(blob)
    times = [emission(known) for known in blobs]
    if hops <= existing_hops:
        newest = max(times, default=0)
        if blob not in blobs and moment > newest:
            return True
        return moment == newest and here > there
    if expired:
        return blob not in blobs
    reached = 0  # a running maximum that stops once it is not below the announce's time
    for known in times:
        reached = max(reached, known)
        if reached >= moment:
            break
    if moment > reached:
        return blob not in blobs
    return moment == reached and stuck


def way_preferred(
    *,
    emitted: int,
    hops: int,
    other_emitted: int,
    other_hops: int,
    gravity: int = 0,
    other_gravity: int = 0,
    bitrate: float = 0.0,
    other_bitrate: float = 0.0,
) -> bool:
    """Whether one way to a destination is tried before the other when the one in use fails.

    What a newer announce came by comes first (``emitted``: its time in Unix seconds), then the
    shorter way, the interface with more gravity, the faster one. False for equal ones.
    """
    one = (
        to_int(emitted, "emitted", 0, 2**40 - 1),
        -to_int(hops, "hops", 0, 2**32 - 1),
        to_int(gravity, "gravity", -(2**31), 2**31 - 1),
        to_real(bitrate, "bitrate"),
    )
    other = (
        to_int(other_emitted, "other_emitted", 0, 2**40 - 1),
        -to_int(other_hops, "other_hops", 0, 2**32 - 1),
        to_int(other_gravity, "other_gravity", -(2**31), 2**31 - 1),
        to_real(other_bitrate, "other_bitrate"),
    )
    return one > other


def announce_propagates(
    *,
    out_mode: int,
    source_mode: int | None,
    local: bool,
    has_path: bool = True,
    from_internal: bool = True,
    source_to_internal: bool | None = None,
    hops: int = 1,
) -> Literal["block", "allow", "cap"]:
    """What becomes of an announce on an output interface: the first row counts (RNS 1, 8.7).

    ``local``: the destination is registered here. ``source_mode``: the mode of the
    interface of the path, None when it has none. "cap": allowed within the announce cap.
    """
    out = interface_mode(out_mode, "out_mode")
    source = None if source_mode is None else interface_mode(source_mode, "source_mode")
    to_int(hops, "hops", 0, 2**32 - 1)
    to_bool(local, "local")
    to_bool(has_path, "has_path")
    to_bool(from_internal, "from_internal")
    if source_to_internal is not None:
        to_bool(source_to_internal, "source_to_internal")
    mode = InterfaceMode
    if not local:
        if not has_path:
            return "block"
        if source == mode.INTERNAL and not from_internal:
            return "block"
    if out == mode.ACCESS_POINT:
        return "block"
    if out == mode.INTERNAL and not local:
        return "allow" if source and (source_to_internal or source != mode.BOUNDARY) else "block"
    if out == mode.ROAMING:
        refused = (None, mode.ROAMING, mode.BOUNDARY)
        return "allow" if local or source not in refused else "block"
    if out == mode.BOUNDARY:
        return "allow" if local or source not in (None, mode.ROAMING) else "block"
    return "cap" if hops else "allow"


def searches_unknown_path(
    *, mode: int, recursive: bool = False, out_mode: int | None = None
) -> bool:
    """Whether a request for an unknown destination causes a search (RNS 1, 8.9.4 case 4).

    With ``out_mode``: whether the search goes out on an interface in that mode.
    """
    asked = interface_mode(mode, "mode")
    out = None if out_mode is None else interface_mode(out_mode, "out_mode")
    everywhere = (
        InterfaceMode.ACCESS_POINT,
        InterfaceMode.GATEWAY,
        InterfaceMode.ROAMING,
        InterfaceMode.INTERNAL,
    )
    if to_bool(recursive, "recursive") or asked in everywhere:
        return True
    if asked != InterfaceMode.BOUNDARY:
        return False
    return out in (None, InterfaceMode.BOUNDARY, InterfaceMode.GATEWAY)
