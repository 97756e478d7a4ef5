"""Identities, addresses and ratchets: the C core against the pure reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import (
    ADDRESS,
    KEY,
    PRIVATE,
    core,
    crosswise,
    damaged,
    outcome,
    pure,
    same,
    sized,
)

DATA = st.binary(max_size=300)


@given(PRIVATE, DATA)
def test_identities_agree(private: bytes, message: bytes) -> None:
    same(lambda impl: impl.Identity.from_private(private))
    same(lambda impl: impl.Identity.from_private(private).public_only())
    same(lambda impl: impl.Identity.from_private(private).sign(message))


@given(PRIVATE, DATA, sized(64, 63))
def test_signatures_are_taken_crosswise(private: bytes, message: bytes, other: bytes) -> None:
    def run(maker: Any, taker: Any) -> tuple[bool, bool]:
        signature = maker.Identity.from_private(private).sign(message)
        public = taker.Identity.from_private(private).public_only()
        return public.verify(message, signature), public.verify(message, other)

    crosswise(run)


@given(st.lists(st.tuples(KEY, DATA, st.booleans()), max_size=5), st.integers(0, 3))
def test_many_verifications_agree(cases: list[tuple[bytes, bytes, bool]], threads: int) -> None:
    def run(impl: Any) -> list[bool]:
        items = []
        for seed, message, good in cases:
            identity = impl.Identity.from_private(seed + seed)
            items.append((identity, message, identity.sign(message + b"" if good else b"other")))
        result: list[bool] = impl.Identity.verify_many(items, threads=threads)
        return result

    same(run)


@given(sized(63, 64, 65, 32, 0), sized(63, 64, 65, 32, 0))
def test_key_lengths_are_checked_alike(private: bytes, public: bytes) -> None:
    same(lambda impl: impl.Identity.from_private(private))
    same(lambda impl: impl.Identity.from_public(public))


def test_an_identity_without_keys_refuses_everything() -> None:
    names = ("private_key", "public_key", "hash")
    for name in names:
        same(lambda impl, name=name: getattr(impl.Identity.without_keys(), name))
    for call in (
        lambda identity: identity.sign(b""),
        lambda identity: identity.verify(b"", b""),
        lambda identity: identity.encrypt(b""),
        lambda identity: identity.decrypt(b""),
        lambda identity: identity.public_only(),
    ):
        assert same(lambda impl, call=call: call(impl.Identity.without_keys()))[2] == (
            "KeyMissingError"
        )
        found = same(lambda impl, call=call: call(impl.Identity.from_public(bytes(64))))
        assert found[0] == "value" or found[2] in ("KeyMissingError", "AuthenticationError")


@given(PRIVATE, DATA, KEY, sized(16), st.none() | KEY)
def test_encryption_agrees(
    private: bytes, plain: bytes, ephemeral: bytes, iv: bytes, ratchet: bytes | None
) -> None:
    def run(impl: Any) -> Any:
        target = None if ratchet is None else impl.x25519_public(ratchet)
        recipient = impl.Identity.from_private(private).public_only()
        return recipient.encrypt(plain, ephemeral_private=ephemeral, iv=iv, ratchet=target)

    same(run)


@given(PRIVATE, DATA, st.lists(KEY, max_size=3, unique=True), st.integers(-1, 3), st.booleans())
def test_decryption_is_crosswise(
    private: bytes, plain: bytes, ratchets: list[bytes], chosen: int, enforce: bool
) -> None:
    def run(maker: Any, taker: Any) -> Any:
        target = None
        if 0 <= chosen < len(ratchets):
            target = maker.x25519_public(ratchets[chosen])
        recipient = maker.Identity.from_private(private).public_only()
        sealed = recipient.encrypt(plain, ratchet=target)
        identity = taker.Identity.from_private(private)
        return identity.decrypt(sealed, ratchets=ratchets, enforce_ratchets=enforce)

    crosswise(run)


@given(st.data(), PRIVATE)
def test_damaged_ciphertexts_are_refused_alike(data: st.DataObject, private: bytes) -> None:
    identity = pure.Identity.from_private(private)
    sealed = identity.encrypt(b"plaintext", ephemeral_private=bytes(32), iv=bytes(16))
    ciphertext = data.draw(damaged(st.just(sealed)))
    same(lambda impl: impl.Identity.from_private(private).decrypt(ciphertext))


@given(PRIVATE, st.integers(0, 70))
def test_a_fitting_key_on_a_malformed_token_agrees(private: bytes, size: int) -> None:
    identity = pure.Identity.from_private(private)
    ephemeral = pure.x25519_public(bytes(32))
    secret = pure.x25519(bytes(32), identity.public_key[:32])
    key = pure.hkdf(64, secret, bytes(identity.hash))
    body = bytes(size)
    sealed = ephemeral + body + pure.hmac_sha256(key[:32], body)
    same(lambda impl: impl.Identity.from_private(private).decrypt(sealed))


def test_targets_of_small_order_are_refused_alike() -> None:
    def run(impl: Any) -> Any:
        return impl.Identity.from_public(bytes(64)).encrypt(b"x", ephemeral_private=bytes(32))

    assert same(run)[3][0] == "KEY"


def test_values_of_identities() -> None:
    for impl in (core, pure):
        one = impl.Identity.from_private(bytes(range(64)))
        again = impl.Identity.from_private(bytes(range(64)))
        assert one == again
        assert hash(one) == hash(again)
        assert one != one.public_only()
        assert one.public_only() == impl.Identity.from_public(one.public_key)
        assert one != impl.Identity()
        assert impl.Identity() != impl.Identity()
        assert impl.Identity.without_keys() == impl.Identity.without_keys()
        assert one.private_key.hex() not in repr(one)
        with pytest.raises((AttributeError, TypeError)):
            one.private_key = b""


def test_key_files_are_read_crosswise(tmp_path: Path) -> None:
    for writer in (core, pure):
        identity = writer.Identity.from_private(bytes(range(64)))
        identity.save(tmp_path / "private")
        identity.save_public(str(tmp_path / "public"))
        assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "private").read_bytes() == bytes(range(64))
        same(lambda impl: impl.Identity.load(tmp_path / "private"))
        same(lambda impl: impl.Identity.load_public(tmp_path / "public"))
    (tmp_path / "short").write_bytes(bytes(63))
    (tmp_path / "long").write_bytes(bytes(65))
    for name in ("short", "long", "missing"):
        same(lambda impl, name=name: impl.Identity.load(tmp_path / name))
        same(lambda impl, name=name: impl.Identity.load_public(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "long",
        "private",
        "public",
        "short",
    ]


# ------------------------------------------------------------ addresses


@given(sized(16, 15, 17, 0))
def test_addresses_agree(value: bytes) -> None:
    for name in ("IdentityHash", "DestinationHash"):
        same(lambda impl, name=name: getattr(impl, name)(value))
        same(
            lambda impl, name=name: (str(impl.IdentityHash(value)), repr(impl.IdentityHash(value)))
        )
        same(lambda impl, name=name: getattr(impl, name).from_hex(value.hex()))
        same(lambda impl, name=name: getattr(impl, name).from_hex(f"<{value.hex()}>"))


@given(st.text(alphabet="0123456789abcdefABCDEF<> xg", max_size=36))
def test_address_text_is_read_alike(text: str) -> None:
    same(lambda impl: impl.IdentityHash.from_hex(text))


@given(ADDRESS)
def test_the_two_kinds_do_not_mix(value: bytes) -> None:
    for impl in (core, pure):
        identity, destination = impl.IdentityHash(value), impl.DestinationHash(value)
        assert identity != destination
        assert identity == value
        assert value == identity
        assert hash(identity) == hash(value)
        assert destination == value
        assert value == destination
        assert hash(destination) == hash(value)
        assert len({identity, destination, value}) in (1, 2)
        assert identity == impl.IdentityHash(value) == impl.IdentityHash(identity)
        with pytest.raises(TypeError):
            impl.IdentityHash(destination)
        with pytest.raises(TypeError):
            impl.DestinationHash(identity)
        with pytest.raises(TypeError):
            _ = identity < destination
        assert identity <= value
        assert isinstance(identity, bytes)


def test_wrong_types_are_type_errors() -> None:
    for call in (
        lambda impl: impl.Identity.from_private("x"),
        lambda impl: impl.Identity().sign("x"),
        lambda impl: impl.IdentityHash("x" * 16),
        lambda impl: impl.IdentityHash.from_hex(b"00"),
        lambda impl: impl.Identity().decrypt(bytes(96), ratchets=["x"]),
        lambda impl: impl.Identity().decrypt(bytes(96), enforce_ratchets=1),
    ):
        assert outcome(lambda call=call: call(core))[2] == "TypeError"
        same(call)
