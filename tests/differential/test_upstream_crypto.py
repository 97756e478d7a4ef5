"""Primitives, identities and ratchets: both implementations against the upstream stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import KEY, PRIVATE, fewer, mutations, pure, sized
from differential.upstream import BOTH, OWNER, RNS, accepts, each, identity_of, receiving, sending

pytestmark = pytest.mark.usefixtures("upstream")
TEXTS = st.binary(max_size=200)


def flipped(data: bytes, bit: int) -> bytes:
    """Bytes with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


# -------------------------------------------------------------- primitives


@given(TEXTS, TEXTS)
def test_hashes_agree(data: bytes, key: bytes) -> None:
    for impl in BOTH:
        assert impl.sha256(data) == impl.full_hash(data) == RNS.Identity.full_hash(data)
        assert impl.truncated_hash(data) == RNS.Identity.truncated_hash(data)
        assert impl.sha512(data) == RNS.Cryptography.sha512(data)
        assert impl.hmac_sha256(key, data) == RNS.Cryptography.HMAC.new(key, data).digest()


@given(
    st.integers(1, 700),
    st.binary(min_size=1, max_size=80),
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=40),
)
def test_keys_are_derived_alike(
    length: int, ikm: bytes, salt: bytes | None, info: bytes | None
) -> None:
    expected = RNS.Cryptography.hkdf(length=length, derive_from=ikm, salt=salt, context=info)
    for impl in BOTH:
        assert impl.hkdf(length, ikm, salt, info or b"") == expected


def test_the_counter_of_the_derivation_wraps_alike() -> None:
    expected = RNS.Cryptography.hkdf(length=10000, derive_from=b"key", salt=None, context=None)
    for impl in BOTH:
        assert impl.hkdf(10000, b"key") == expected


@given(TEXTS, sized(16, 32), sized(16))
def test_ciphers_agree(data: bytes, key: bytes, iv: bytes) -> None:
    from RNS.Cryptography.AES import AES_128_CBC, AES_256_CBC

    mode = AES_128_CBC if len(key) == 16 else AES_256_CBC
    padded = RNS.Cryptography.PKCS7.pad(data)
    sealed = mode.encrypt(padded, key, iv)
    for impl in BOTH:
        assert impl.pkcs7_pad(data) == padded
        assert impl.pkcs7_unpad(padded) == RNS.Cryptography.PKCS7.unpad(padded)
        assert impl.aes_cbc_encrypt(key, iv, data) == sealed
        assert impl.aes_cbc_decrypt(key, iv, sealed) == data
        assert impl.aes_cbc_decrypt(key, iv, sealed, padding=False) == mode.decrypt(sealed, key, iv)


@given(TEXTS, sized(32, 64), st.integers(0, 10000))
def test_tokens_are_opened_crosswise(data: bytes, key: bytes, bit: int) -> None:
    from RNS.Cryptography.Token import Token

    theirs = Token(key)
    sealed = theirs.encrypt(data)
    for impl in BOTH:
        ours = impl.Token(key)
        assert ours.open(sealed) == data
        assert theirs.decrypt(ours.seal(data)) == data
        assert impl.Token.size(len(data)) == len(sealed)
        damaged = flipped(sealed, bit)
        assert not ours.check(damaged)
        assert not accepts(lambda d=damaged: theirs.decrypt(d))


@given(KEY, KEY, TEXTS, st.integers(0, 511))
def test_curves_agree(private: bytes, other: bytes, message: bytes, bit: int) -> None:
    from RNS.Cryptography import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
        X25519PrivateKey,
        X25519PublicKey,
    )

    exchange = X25519PrivateKey.from_private_bytes(private)
    public = exchange.public_key().public_bytes()
    peer = pure.x25519_public(other)
    secret = exchange.exchange(X25519PublicKey.from_public_bytes(peer))
    signer = Ed25519PrivateKey.from_private_bytes(private)
    verifier = signer.public_key().public_bytes()
    signature = signer.sign(message)
    for impl in BOTH:
        assert impl.x25519_public(private) == public
        assert impl.x25519(private, peer) == impl.x25519(other, public) == secret
        assert impl.ed25519_public(private) == verifier
        assert impl.ed25519_sign(private, message) == signature
        assert impl.ed25519_verify(verifier, message, signature)
        damaged = flipped(signature, bit)
        theirs = Ed25519PublicKey.from_public_bytes(verifier)
        assert not accepts(lambda d=damaged, v=theirs: v.verify(d, message) is None)
        assert not impl.ed25519_verify(verifier, message, damaged)


# -------------------------------------------------------------- identities


@given(PRIVATE, TEXTS)
def test_identities_agree(private: bytes, message: bytes) -> None:
    theirs = identity_of(private)
    for impl in BOTH:
        ours = impl.Identity.from_private(private)
        assert ours.public_key == theirs.get_public_key()
        assert ours.hash == theirs.hash
        assert ours.hash.hex() == theirs.hexhash
        assert ours.sign(message) == theirs.sign(message)
        assert theirs.validate(ours.sign(message), message)
        assert ours.verify(message, theirs.sign(message))
        assert not ours.verify(message + b"!", theirs.sign(message))


@fewer(2)
@given(PRIVATE, TEXTS, st.none() | KEY)
def test_what_is_encrypted_is_decrypted_crosswise(
    private: bytes, plaintext: bytes, ratchet: bytes | None
) -> None:
    theirs = identity_of(private)
    public = None if ratchet is None else RNS.Identity._ratchet_public_bytes(ratchet)
    held = [bytes(range(32))] if ratchet is None else [bytes(range(32)), ratchet]
    for impl in BOTH:
        ours = impl.Identity.from_private(private)
        found = ours.decrypt(theirs.encrypt(plaintext, ratchet=public), ratchets=held)
        assert found.plaintext == plaintext
        assert found.ratchet_index == (None if ratchet is None else 1)
        if public is not None:
            assert found.ratchet_id == RNS.Identity._get_ratchet_id(public)
            assert impl.ratchet_id(public) == found.ratchet_id
        sealed = ours.encrypt(plaintext, ratchet=public)
        assert theirs.decrypt(sealed, ratchets=held) == plaintext


@given(st.data(), st.booleans())
def test_damaged_ciphertexts_are_refused_alike(data: st.DataObject, enforce: bool) -> None:
    theirs = identity_of()
    sealed = data.draw(mutations(SEALED))
    expected = theirs.decrypt(sealed, enforce_ratchets=enforce)
    for impl in BOTH:
        ours = impl.Identity.from_private(OWNER)
        try:
            found = ours.decrypt(sealed, enforce_ratchets=enforce).plaintext
        except Exception:  # of any kind
            found = None
        assert found == expected


SEALED = pure.Identity.from_private(OWNER).encrypt(b"plaintext")


@given(TEXTS, sized(32, 64))
def test_groups_agree(plaintext: bytes, key: bytes) -> None:
    theirs = sending(identity_of(), "app", "group", kind=RNS.Destination.GROUP)
    theirs.load_private_key(key)
    for impl in BOTH:
        ours = impl.Destination(
            impl.Identity.from_private(OWNER),
            "app.group",
            type=1,
            direction="OUT",
            group_key=key,
        )
        assert ours.hash == theirs.hash
        assert ours.open(theirs.encrypt(plaintext)).plaintext == plaintext
        assert theirs.decrypt(ours.seal(plaintext)) == plaintext


# ---------------------------------------------------------------- ratchets


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # upstream leaves it open
@each
def test_ratchet_files_are_read_crosswise(impl: Any, tmp_path: Path) -> None:
    ours = impl.Identity.from_private(OWNER)
    with receiving(identity_of(), "app", "ratchets") as theirs:
        theirs.enable_ratchets(str(tmp_path / "theirs"))
        for _ in range(3):
            theirs.latest_ratchet_time = 0
            theirs.rotate_ratchets()
        loaded = impl.Ratchets.load((tmp_path / "theirs").read_bytes(), ours)
        assert list(loaded.private_keys) == theirs.ratchets
        loaded.rotate(private=bytes(range(32)), force=True)
        (tmp_path / "ours").write_bytes(loaded.dump(ours))
        theirs.enable_ratchets(str(tmp_path / "ours"))
        assert theirs.ratchets == list(loaded.private_keys)
        assert loaded.current_public == RNS.Identity._ratchet_public_bytes(theirs.ratchets[0])


@each
def test_remembered_ratchets_are_read_upstream(impl: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(RNS.Reticulum, "storagepath", str(tmp_path))
    monkeypatch.setattr(RNS.Identity, "known_ratchets", {})
    address, key = bytes(16), bytes(range(32))
    file = tmp_path / "ratchets" / address.hex()
    file.parent.mkdir()
    file.write_bytes(impl.remembered_ratchet_pack(key, 4e9))
    assert RNS.Identity.get_ratchet(address) == key
    packed = RNS.vendor.umsgpack.packb({"ratchet": key, "received": 4e9})
    assert impl.remembered_ratchet_unpack(packed) == (key, 4e9)
