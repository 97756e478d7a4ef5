"""Interface access codes: the C core against the pure reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import PRIVATE, core, crosswise, fewer, mutations, pure, same, sized

NAMES = st.one_of(st.none(), st.text(max_size=12), st.just(b"name"))
SIZES = st.integers(0, 65)
PACKETS = st.one_of(st.binary(max_size=80), st.binary(min_size=19, max_size=500))


def keyed(impl: Any, size: int = 16) -> Any:
    return impl.Ifac.from_key(bytes(range(64)), size=size)


def shown(ifac: Any) -> Any:
    """All that an access code shows of itself."""
    return ifac.key, ifac.size, ifac.identity_hash, ifac.public_key, ifac.signature


@fewer(2)
@given(NAMES, NAMES, SIZES)
def test_codes_are_derived_alike(name: Any, passphrase: Any, size: int) -> None:
    same(lambda impl: shown(impl.Ifac(network_name=name, passphrase=passphrase, size=size)))


@fewer(4)
@given(PRIVATE, SIZES)
def test_codes_from_keys_agree(key: bytes, size: int) -> None:
    same(lambda impl: shown(impl.Ifac.from_key(key, size=size)))


@fewer(2)
@given(PACKETS, st.integers(1, 64))
def test_packets_are_masked_alike(packet: bytes, size: int) -> None:
    same(lambda impl: keyed(impl, size).tag(packet))
    same(lambda impl: keyed(impl, size).mask(packet))


@fewer(2)
@given(PACKETS, st.integers(1, 64))
def test_packets_are_unmasked_crosswise(packet: bytes, size: int) -> None:
    crosswise(lambda a, b: keyed(b, size).unmask(keyed(a, size).mask(packet)))
    crosswise(lambda a, b: keyed(b, size).try_unmask(keyed(a, size).mask(packet)))


@given(st.data(), st.integers(1, 64))
def test_damaged_packets_are_refused_alike(data: st.DataObject, size: int) -> None:
    masked = data.draw(mutations(keyed(pure, size).mask(bytes(40))))
    for raw in (masked, masked[:2], masked[: size + 2], masked[: size + 3]):
        same(lambda impl, r=raw: keyed(impl, size).unmask(r))
        same(lambda impl, r=raw: keyed(impl, size).try_unmask(r))


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\x80\x00", b"\x00" * 40, b"\x80" * 18])
def test_what_is_not_masked_is_named_alike(raw: bytes) -> None:
    for call in ("tag", "mask", "unmask", "try_unmask"):
        same(lambda impl, c=call: getattr(keyed(impl), c)(raw))


@pytest.mark.parametrize("impl", [core, pure])
def test_codes_are_equal_by_value(impl: Any) -> None:
    one = impl.Ifac(network_name="valley", passphrase="secret")
    assert one == impl.Ifac.from_key(one.key)
    assert hash(one) == hash(impl.Ifac.from_key(one.key))
    assert one != impl.Ifac.from_key(one.key, size=8)
    assert one != impl.Ifac(network_name="valley")
    assert one != one.key
    assert one.key.hex() not in repr(one)


@given(sized(63, 65, 0))
def test_arguments_are_checked_alike(key: bytes) -> None:
    assert same(lambda impl: impl.Ifac.from_key(key))[2] == "ValueError"
    for call in (
        lambda impl: impl.Ifac.from_key("key"),
        lambda impl: impl.Ifac.from_key(bytes(64), size="16"),
        lambda impl: impl.Ifac("valley"),
        lambda impl: impl.Ifac(network_name=1),
        lambda impl: keyed(impl).tag("text"),
        lambda impl: keyed(impl).mask(None),
        lambda impl: keyed(impl).unmask("text"),
        lambda impl: keyed(impl).try_unmask("text"),
    ):
        assert same(call)[2] == "TypeError"
    assert same(lambda impl: impl.Ifac(passphrase="\ud800"))[2] == "UnicodeEncodeError"
