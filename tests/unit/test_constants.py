"""The table of constants: against the C core, and against the upstream stack (P14)."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any

import pytest

from golden import name_of, vectors
from netmesh import constants
from netmesh._core import CONSTANTS

# Sets of codes that upstream does not prefix, by group.
PREFIXES = {
    "message": {
        "LXMF_STATE_": constants.MessageState,
        "LXMF_METHOD_": constants.Method,
        "LXMF_REPRESENTATION_": constants.Representation,
    },
    "peer": {"LXMF_PEER_": constants.PeerState},
}
OTHER_NAMES = {
    "UNKNOWN": "LXMF_METHOD_UNKNOWN",
    "DESTINATION_LENGTH": "ADDRESS_SIZE",
    "SIGNATURE_LENGTH": "SIGNATURE_SIZE",
    "TICKET_LENGTH": "LXMF_TICKET_SIZE",
    "TICKET_EXPIRY": "LXMF_TICKET_EXPIRY_S",
    "TICKET_GRACE": "LXMF_TICKET_GRACE_S",
    "TICKET_INTERVAL": "LXMF_TICKET_INTERVAL_S",
    "TICKET_RENEW": "LXMF_TICKET_RENEW_S",
    "ENCRYPTION_DESCRIPTION_AES": "LXMF_ENCRYPTION_AES",
    "ENCRYPTION_DESCRIPTION_EC": "LXMF_ENCRYPTION_EC",
    "ENCRYPTION_DESCRIPTION_UNENCRYPTED": "LXMF_ENCRYPTION_NONE",
    "AIRTIME_AWARE_MTU_TIME": "LXMF_AIRTIME_AWARE_MTU_TIME_S",
    "DELIVERY_LIMIT": "LXMF_DELIVERY_LIMIT_KB",
    "PROPAGATION_LIMIT": "LXMF_PROPAGATION_LIMIT_KB",
    "SYNC_LIMIT": "LXMF_SYNC_LIMIT_KB",
    "DELIVERY_RETRY_WAIT": "LXMF_DELIVERY_RETRY_WAIT_S",
    "LINK_MAX_INACTIVITY": "LXMF_LINK_MAX_INACTIVITY_S",
    "P_LINK_MAX_INACTIVITY": "LXMF_NODE_LINK_MAX_INACTIVITY_S",
    "MAX_PEERING_COST": "LXMF_PEERING_COST_MAX",
    "MESSAGE_EXPIRY": "LXMF_MESSAGE_EXPIRY_S",
    "NODE_ANNOUNCE_DELAY": "LXMF_NODE_ANNOUNCE_DELAY_S",
    "PATH_REQUEST_DEBOUNCE": "LXMF_PATH_REQUEST_DEBOUNCE_S",
    "PATH_REQUEST_WAIT": "LXMF_PATH_REQUEST_WAIT_S",
    "PN_STAMP_THROTTLE": "LXMF_NODE_STAMP_THROTTLE_S",
    "PROCESSING_INTERVAL": "LXMF_PROCESSING_INTERVAL_S",
    "PR_PATH_TIMEOUT": "LXMF_SYNC_PATH_TIMEOUT_S",
    "STAMP_COST_EXPIRY": "LXMF_STAMP_COST_EXPIRY_S",
    "STATS_GET_PATH": "LXMF_PATH_STATS_GET",
    "SYNC_REQUEST_PATH": "LXMF_PATH_PEER_SYNC",
    "UNPEER_REQUEST_PATH": "LXMF_PATH_PEER_UNPEER",
    "DEFAULT_SYNC_STRATEGY": "LXMF_STRATEGY_PERSISTENT",
    "MAX_UNREACHABLE": "LXMF_PEER_MAX_UNREACHABLE_S",
    "MESSAGE_GET_PATH": "LXMF_PATH_GET",
    "OFFER_REQUEST_PATH": "LXMF_PATH_OFFER",
    "PATH_REQUEST_GRACE": "LXMF_PEER_PATH_REQUEST_GRACE_S",
    "SYNC_BACKOFF_STEP": "LXMF_SYNC_BACKOFF_STEP_S",
}
# Upstream counts these in passes of its job loop; ours are in seconds.
JOBS = {
    "JOB_LINKS_INTERVAL": "LXMF_JOB_LINKS_S",
    "JOB_OUTBOUND_INTERVAL": "LXMF_JOB_OUTBOUND_S",
    "JOB_PEERINGEST_INTERVAL": "LXMF_JOB_PEER_INGEST_S",
    "JOB_PEERSYNC_INTERVAL": "LXMF_JOB_PEER_SYNC_S",
    "JOB_RESOURCE_INTERVAL": "LXMF_JOB_RESOURCES_S",
    "JOB_ROTATE_INTERVAL": "LXMF_JOB_ROTATE_S",
    "JOB_STAMPS_INTERVAL": "LXMF_JOB_STAMPS_S",
    "JOB_STORE_INTERVAL": "LXMF_JOB_STORE_S",
    "JOB_TRANSIENT_INTERVAL": "LXMF_JOB_TRANSIENT_S",
}
# Not on the wire and of no use outside of the program that defines it.
INTERNAL = {"DUPLICATE_SIGNAL"}


def ours(group: str, name: str) -> Any:
    """Our value for a constant of the upstream stack."""
    flat = OTHER_NAMES.get(name, name if name.startswith("LXMF_") else f"LXMF_{name}")
    if name.startswith("PR_") and name not in OTHER_NAMES:
        flat = f"LXMF_SYNC_{name[3:]}"
    for prefix, codes in PREFIXES.get(group, {}).items():
        if name in codes.__members__ and name not in OTHER_NAMES:
            flat = prefix + name
            break
    return constants.TABLE[flat] if flat in constants.TABLE else getattr(constants, flat)


def test_table_equals_the_one_compiled_into_the_core() -> None:
    """P14: every number of the core is in the documented table, with the same value."""
    assert {name: constants.TABLE[name] for name in CONSTANTS} == CONSTANTS
    assert {name: type(value) for name, value in CONSTANTS.items()} == {
        name: type(constants.TABLE[name]) for name in CONSTANTS
    }


def test_the_core_lacks_only_numbers_of_the_message_router() -> None:
    assert {name.partition("_")[0] for name in set(constants.TABLE) - set(CONSTANTS)} == {"LXMF"}


def test_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        constants.TABLE["MTU"] = 501  # type: ignore[index]


def test_every_code_is_in_the_table_once() -> None:
    codes = [
        code
        for group in vars(constants).values()
        if isinstance(group, type) and issubclass(group, (IntEnum, IntFlag))
        for code in group
    ]
    assert len(codes) > 200
    assert {int(code) for code in codes} <= set(constants.TABLE.values())


@pytest.mark.parametrize("vector", vectors("lxmf", "constants"), ids=name_of)
def test_lxmf_constants_are_those_of_upstream(vector: dict[str, Any]) -> None:
    """P14: vectors `constants`."""
    group = vector["input"]["group"]
    for name, value in vector["output"].items():
        if name in INTERNAL:
            continue
        if name in JOBS:
            assert getattr(constants, JOBS[name]) == value * constants.LXMF_PROCESSING_INTERVAL_S
        elif name == "QR_ERROR_CORRECTION":
            assert value == f"ERROR_CORRECT_{constants.LXMF_QR_ERROR_CORRECTION}"
        else:
            assert ours(group, name) == value, name


def test_resource_constants_are_those_of_upstream() -> None:
    """P14: vector `resource_constants` (RNS 2, 3.1)."""
    (vector,) = vectors("reticulum-links", "resource_constants")
    assert vector["output"] == {
        "hashmap_max_len": constants.RESOURCE_HASHMAP_MAX,
        "collision_guard_size": constants.RESOURCE_COLLISION_GUARD,
        "max_efficient_size": constants.RESOURCE_SEGMENT_MAX,
        "metadata_max_size": constants.RESOURCE_METADATA_MAX,
        "auto_compress_max_size": constants.RESOURCE_COMPRESS_MAX,
        "fast_rate_threshold": constants.RESOURCE_FAST_ROUNDS,
        "rate_fast_bytes_per_s": constants.RESOURCE_RATE_FAST,
        "rate_very_slow_bytes_per_s": constants.RESOURCE_RATE_VERY_SLOW,
        "sdu_default": constants.MTU - constants.RESOURCE_SDU_OVERHEAD,
    }


def test_sizes_follow_from_one_another() -> None:
    """RNS 1, 0.1 and RNS 2, 3.1: the derivations that the specification gives."""
    c = constants
    assert c.MDU == c.MTU - c.HEADER_2_SIZE - c.IFAC_SIZE_MIN
    assert c.ENCRYPTED_MDU == (c.MDU - c.TOKEN_OVERHEAD - c.KEY_SIZE) // 16 * 16 - 1
    assert c.LINK_MDU == (c.MTU - 1 - c.HEADER_1_SIZE - c.TOKEN_OVERHEAD) // 16 * 16 - 1
    assert c.RESOURCE_HASHMAP_MAX == (c.LINK_MDU - 134) // 4
    assert c.RESOURCE_COLLISION_GUARD == 2 * c.RESOURCE_WINDOW_MAX_FAST + c.RESOURCE_HASHMAP_MAX
    assert (c.LXMF_QR_MAX_STORAGE - len("lxm://")) * 6 // 8 == c.LXMF_PAPER_MDU
    assert c.LXMF_ENCRYPTED_PACKET_MAX_CONTENT == c.LXMF_ENCRYPTED_PACKET_MDU - 112 + 16
    assert c.LXMF_LINK_PACKET_MAX_CONTENT == c.LXMF_LINK_PACKET_MDU - c.LXMF_OVERHEAD
