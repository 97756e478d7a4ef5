"""Interface access codes (P10)."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from golden import name_of, raw, vectors
from inputs import BUFFERS, NOT_BYTES, flips, truncations
from netmesh import _core
from netmesh.errors import AuthenticationError, DecodeError

CORE = "reticulum-core"
PACKET = bytes(range(40))


@pytest.mark.parametrize("vector", vectors(CORE, "ifac_key"), ids=name_of)
def test_keys_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P10: from a network name, a passphrase or both; the signature that tools show."""
    given, expected = vector["input"], vector["output"]
    ifac = impl.Ifac(network_name=given["network_name"], passphrase=given["passphrase"])
    assert ifac.key == raw(expected["ifac_key"])
    assert ifac.identity_hash == raw(expected["ifac_identity_hash"])
    assert isinstance(ifac.identity_hash, impl.IdentityHash)
    assert ifac.public_key[32:] == raw(expected["ifac_ed25519_public"])
    assert ifac.signature == raw(expected["ifac_signature"])
    assert ifac.size == 16
    assert impl.Ifac.from_key(ifac.key) == ifac


@pytest.mark.parametrize("vector", vectors(CORE, "ifac_mask"), ids=name_of)
def test_masked_packets_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P10: tag, mask, unmask, for every size of code."""
    given, expected = vector["input"], vector["output"]
    ifac = impl.Ifac.from_key(raw(given["ifac_key"]), size=given["ifac_size"])
    packet, masked = raw(given["raw"]), raw(expected["masked"])
    assert ifac.tag(packet) == raw(expected["ifac"])
    assert ifac.mask(packet) == masked
    assert ifac.unmask(masked) == packet
    assert ifac.try_unmask(masked) == ("OK", packet)


def test_an_empty_name_is_none(impl: Any) -> None:
    """P10: as in a configuration file."""
    named = impl.Ifac(network_name="valley")
    assert impl.Ifac(network_name="valley", passphrase="") == named
    assert impl.Ifac(network_name="valley", passphrase=None) == named
    assert impl.Ifac(network_name="", passphrase="valley") != impl.Ifac(passphrase="other")
    assert impl.Ifac(network_name="välley").key != named.key


def test_without_a_name_there_is_no_key(impl: Any) -> None:
    """P10: and sizes are 1 to 64."""
    for options in ({}, {"network_name": ""}, {"network_name": None, "passphrase": ""}):
        with pytest.raises(ValueError, match="network_name"):
            impl.Ifac(**options)
    for size in (0, 65, -1):
        with pytest.raises(ValueError, match="size"):
            impl.Ifac(network_name="valley", size=size)
        with pytest.raises(ValueError, match="size"):
            impl.Ifac.from_key(bytes(64), size=size)
    for key in (b"", bytes(32), bytes(65)):
        with pytest.raises(ValueError, match="64"):
            impl.Ifac.from_key(key)
    for options in ({"network_name": b"valley"}, {"passphrase": 5}, {"size": "16"}):
        with pytest.raises(TypeError):
            impl.Ifac(**{"network_name": "valley", **options})
    with pytest.raises(TypeError):
        impl.Ifac("valley")


@pytest.mark.parametrize("size", [1, 8, 16, 64])
def test_every_length_of_packet_comes_back(impl: Any, size: int) -> None:
    """P10: from 2 bytes on, in any kind of buffer, beyond 255 blocks of the mask."""
    ifac = impl.Ifac(network_name="valley", size=size)
    for length in [*range(2, 40), 500, 9000]:
        packet = bytes(i * 7 % 128 for i in range(length))
        masked = ifac.mask(packet)
        assert len(masked) == length + size
        assert masked[0] & 0x80
        if length > 2:
            assert ifac.unmask(masked) == packet
    with pytest.raises(DecodeError) as caught:
        ifac.unmask(ifac.mask(b"\0\0"))
    assert caught.value.reason == "TRUNCATED"


def test_the_verdict_tells_the_reason(impl: Any) -> None:
    """P10: wrong code, flag clear, too short."""
    ifac = impl.Ifac(network_name="valley", size=8)
    masked = ifac.mask(PACKET)
    other = impl.Ifac(network_name="mountain", size=8)
    longer = impl.Ifac(network_name="valley", size=16)
    for receiver, data, reason in (
        (other, masked, "AUTH"),
        (longer, masked, "AUTH"),
        (ifac, PACKET, "MISSING"),
        (ifac, b"", "TRUNCATED"),
        (ifac, masked[:2], "TRUNCATED"),
        (ifac, masked[:10], "TRUNCATED"),
    ):
        kind = AuthenticationError if reason == "AUTH" else DecodeError
        with pytest.raises(kind) as caught:
            receiver.unmask(data)
        assert caught.value.reason == reason
        assert receiver.try_unmask(data) == (reason, None)


def test_no_changed_byte_passes(impl: Any) -> None:
    """P10: whatever is changed or cut off."""
    ifac = impl.Ifac(network_name="valley", size=8)
    masked = ifac.mask(PACKET)
    for wrong in [*flips(masked), *list(truncations(masked))[11:]]:
        reason, packet = ifac.try_unmask(wrong)
        assert packet is None
        assert reason == ("MISSING" if not wrong[0] & 0x80 else "AUTH")


def test_a_packet_to_tag_must_be_one(impl: Any) -> None:
    """P10: two bytes at least, bit 7 clear."""
    ifac = impl.Ifac(network_name="valley")
    for call in (ifac.tag, ifac.mask):
        for data, reason in ((b"", "TRUNCATED"), (b"\0", "TRUNCATED"), (b"\x80\0\0", "VALUE")):
            with pytest.raises(DecodeError) as caught:
                call(data)
            assert caught.value.reason == reason
        for wrong in NOT_BYTES.values():
            with pytest.raises(TypeError):
                call(wrong)


@pytest.mark.parametrize("kind", BUFFERS)
def test_access_codes_take_every_kind_of_buffer(impl: Any, kind: str) -> None:
    """P10."""
    make = BUFFERS[kind]
    ifac = impl.Ifac.from_key(make(bytes(range(64))))
    masked = ifac.mask(make(PACKET))
    assert ifac.unmask(make(masked)) == PACKET
    assert ifac.tag(make(PACKET)) == masked[2:18]


def test_the_key_does_not_show(impl: Any) -> None:
    """P10: a value, compared by key and size."""
    key = bytes(range(64))
    ifac = impl.Ifac.from_key(key)
    assert key.hex() not in repr(ifac)
    assert key[:16].hex() not in repr(ifac)
    assert ifac == impl.Ifac.from_key(bytearray(key))
    assert hash(ifac) == hash(impl.Ifac.from_key(key))
    assert ifac != impl.Ifac.from_key(key, size=8)
    with pytest.raises((AttributeError, TypeError)):
        ifac.size = 8


def test_the_core_refuses_to_pickle_access_codes() -> None:
    """P10."""
    with pytest.raises(TypeError, match="private keys"):
        pickle.dumps(_core.Ifac(network_name="valley"))


def test_one_object_serves_many_threads() -> None:
    """P10."""
    ifac = _core.Ifac(network_name="valley")
    packets = [bytes([i % 128]) * (3 + i) for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ifac.unmask, pool.map(ifac.mask, packets))) == packets
