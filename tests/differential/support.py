"""What the differential tests share: the two implementations, outcomes, mutated bytes.

A test gives :func:`same` a function of an implementation. It is run with the C core and
with the pure reference, and must come to the same outcome: equal values, attribute by
attribute, or the same exception with the same reason, codec, field and offset.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import SimpleNamespace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from netmesh import _core as core
from netmesh.pure import (
    announce,
    channel,
    control,
    crypto,
    decisions,
    destination,
    framing,
    identity,
    ifac,
    link,
    lxmf,
    msgpack,
    packet,
    resource,
)

MODULES = (
    announce,
    channel,
    control,
    crypto,
    decisions,
    destination,
    framing,
    identity,
    ifac,
    link,
    lxmf,
    lxmf.stamp,
    msgpack,
    packet,
    resource,
)

pure = SimpleNamespace(
    **{name: getattr(module, name) for module in MODULES for name in module.__all__}
)

# What makes up the value of an object, by class. Both implementations have all of it.
ATTRIBUTES = {
    "Advertisement": (
        "transfer_bytes data_bytes parts hash random_hash original_hash segment segments "
        "request_id flags hashmap encrypted compressed split is_request is_response has_metadata"
    ),
    "Announce": (
        "raw packet destination_hash identity identity_hash public_key name_hash random_hash "
        "emitted ratchet ratchet_id signature app_data signed_data hops context path_response"
    ),
    "Assembled": "plaintext metadata proof",
    "Decrypted": "plaintext ratchet_id ratchet_index",
    "DeliveryAppData": "display_name stamp_cost compression functionality",
    "Destination": (
        "identity name full_name name_hash hash type direction group_key proof_strategy"
    ),
    "Envelope": "msgtype sequence payload length",
    "Ext": "type data",
    "HashmapUpdate": "resource_hash segment hashmap",
    "Identity": "has_private has_public",
    "LinkProof": "packet link_id signature x25519_public mtu mode",
    "LinkRequest": (
        "packet destination link_id x25519_public ed25519_public mtu mode has_signalling"
    ),
    "Message": (
        "packed opportunistic destination_hash source_hash signature timestamp title content "
        "title_text content_text fields fields_packed stamp payload id signed_data content_size"
    ),
    "Packet": (
        "raw flags hops header_type context_flag transport_type destination_type packet_type "
        "transport_id destination context payload hashable_part hash truncated_hash"
    ),
    "PartRequest": "resource_hash hashes last_map_hash exhausted",
    "PathRequest": "destination transport_id tag tag_was_cut",
    "Propagated": "lxmf_data stamp transient_id destination_hash",
    "PropagationAppData": (
        "time active transfer_limit_kb sync_limit_kb stamp_cost flexibility peering_cost name "
        "version implementation metadata"
    ),
    "Ratchets": "private_keys ids current_public current_id previous_id retained interval_s",
    "Request": "path_hash timestamp data",
    "Response": "request_id data",
    "Stamp": "stamp value tries",
    "StreamData": "stream_id data eof compressed",
    "TunnelSynthesis": "public_key interface_hash random_hash signature tunnel_id",
    "WindowProfile": "window window_min window_max fast_rounds very_slow_rounds",
    "Workblock": "material rounds",
}


def plain(value: Any) -> Any:
    """A value in a form that can be compared across the implementations."""
    name = type(value).__name__
    if name == "Identity":
        keys = [value.has_private, value.has_public]
        keys += [value.private_key] if value.has_private else []
        keys += [value.public_key, plain(value.hash)] if value.has_public else []
        return name, keys
    if name in ATTRIBUTES:
        return name, {key: plain(getattr(value, key)) for key in ATTRIBUTES[name].split()}
    if name in ("IdentityHash", "DestinationHash"):
        return name, value.hex()
    if isinstance(value, Enum):
        return type(value).__name__, value.name
    if isinstance(value, memoryview):
        return "memoryview", value.tobytes()
    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, list | tuple):
        return name, [plain(item) for item in value]
    if isinstance(value, dict):
        return name, [(plain(key), plain(item)) for key, item in value.items()]
    return name, value


def outcome(run: Callable[[], Any]) -> Any:
    """What a call came to."""
    try:
        return "value", plain(run())
    except Exception as error:
        details = [getattr(error, key, None) for key in ("reason", "codec", "field", "offset")]
        return "error", type(error).__module__, type(error).__name__, details


def same(run: Callable[[Any], Any]) -> Any:
    """Asserts that both implementations come to the same outcome, and returns it."""
    expected = outcome(lambda: run(pure))
    found = outcome(lambda: run(core))
    assert found == expected, f"\ncore: {found}\npure: {expected}"
    return expected


def crosswise(run: Callable[[Any, Any], Any]) -> Any:
    """As :func:`same` for a function of two implementations, in all four combinations.

    The first makes, the second takes: what one encodes the other must decode.
    """
    expected = outcome(lambda: run(pure, pure))
    for maker in (core, pure):
        for taker in (core, pure):
            found = outcome(lambda m=maker, t=taker: run(m, t))  # type: ignore[misc]
            assert found == expected, f"\nfound: {found}\npure: {expected}"
    return expected


def fewer(divisor: int) -> settings:
    """For slow tests: a fraction of the examples of the profile."""
    return settings(max_examples=max(settings().max_examples // divisor, 1))


def sized(*sizes: int) -> st.SearchStrategy[bytes]:
    """Byte strings of one of some lengths."""
    return st.sampled_from(sizes).flatmap(lambda size: st.binary(min_size=size, max_size=size))


@st.composite
def mutations(draw: st.DrawFn, valid: bytes) -> bytes:
    """``valid`` cut, extended, or with some bytes changed, inserted or removed."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(("cut", "extend", "flip", "set", "insert", "remove")))
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        if how == "cut":
            del data[place:]
        elif how == "extend":
            data += draw(st.binary(min_size=1, max_size=8))
        elif how == "insert":
            data[place:place] = draw(st.binary(min_size=1, max_size=4))
        elif not data:
            continue
        elif how == "flip":
            data[place] ^= 1 << draw(st.integers(0, 7))
        elif how == "set":
            data[place] = draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xC0, 0xC1, 0xDD, 0xFF)))
        else:
            del data[place]
    return bytes(data)


def damaged(valid: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Valid bytes, mutated bytes, and bytes at random."""
    return st.one_of(valid, valid.flatmap(mutations), st.binary(max_size=600))


def truncations(valid: bytes) -> list[bytes]:
    """Every proper beginning of some bytes."""
    return [valid[:size] for size in range(len(valid))]


KEY = sized(32)
ADDRESS = sized(16)
PRIVATE = sized(64)
