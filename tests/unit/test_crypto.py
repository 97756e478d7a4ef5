"""Digests, key derivation, ciphers, curves, bzip2 and tokens (P1 to P4)."""

from __future__ import annotations

import bz2
import copy
import hashlib
import hmac
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from golden import name_of, raw, vectors
from inputs import BUFFERS, NOT_BYTES, flips, strided, truncations
from netmesh import _core
from netmesh.errors import AuthenticationError, DecodeError, LimitError

CORE = "reticulum-core"
KEY_16, KEY_32, IV = bytes(range(16)), bytes(range(32)), bytes(range(100, 116))

# ------------------------------------------------------------------ P1: digests


@pytest.mark.parametrize("vector", vectors(CORE, "hash"), ids=name_of)
def test_hashes_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P1: sha256, full, truncated and name hash."""
    data = raw(vector["input"]["data"])
    assert impl.sha256(data) == impl.full_hash(data) == raw(vector["output"]["full"])
    assert impl.truncated_hash(data) == raw(vector["output"]["truncated"])
    assert impl.name_hash(data) == raw(vector["output"]["name_hash_len10"])


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 111, 112, 128, 1000, 70_000])
def test_digests_agree_with_the_standard_library(impl: Any, length: int) -> None:
    """P1: at every boundary of a block, and above the size that releases the GIL."""
    data = bytes(i % 251 for i in range(length))
    assert impl.sha256(data) == hashlib.sha256(data).digest()
    assert impl.sha512(data) == hashlib.sha512(data).digest()
    for key in (b"", b"k", bytes(64), bytes(65), bytes(200)):
        assert impl.hmac_sha256(key, data) == hmac.digest(key, data, "sha256")


@pytest.mark.parametrize("kind", BUFFERS)
def test_digests_take_every_contiguous_buffer(impl: Any, kind: str) -> None:
    """P1: the content counts, not the kind of buffer."""
    data = BUFFERS[kind](b"some data")
    assert impl.sha256(data) == hashlib.sha256(b"some data").digest()
    assert impl.sha512(data) == hashlib.sha512(b"some data").digest()
    assert impl.hmac_sha256(data, data) == hmac.digest(b"some data", b"some data", "sha256")
    assert impl.name_hash(data) == impl.name_hash("some data")


def test_a_name_hash_takes_text_as_utf_8(impl: Any) -> None:
    """P1, P6."""
    assert impl.name_hash("zürich.näme") == impl.name_hash("zürich.näme".encode())


def test_a_random_hash_is_the_truncated_hash_of_16_bytes(impl: Any) -> None:
    """P1: given bytes make it reproducible, without them it is fresh."""
    assert impl.random_hash(KEY_16) == impl.truncated_hash(KEY_16)
    assert len({impl.random_hash() for _ in range(50)}) == 50
    assert impl.random_hash(None) != impl.random_hash()
    with pytest.raises(ValueError, match="random"):
        impl.random_hash(bytes(15))


ITEMS = [bytes([i % 256]) * i for i in range(150)]


def test_many_digests_equal_single_ones(impl: Any) -> None:
    """P1: whatever the backend, the lengths and the suffix."""
    for suffix in (b"", b"s", bytes(64)):
        expected = [hashlib.sha256(item + suffix).digest() for item in ITEMS]
        assert impl.sha256_many(ITEMS, suffix=suffix) == expected
        assert impl.sha256_many(tuple(ITEMS), suffix=suffix) == expected
        for backend in impl.sha256_backends():
            assert impl.sha256_many(ITEMS, suffix=suffix, backend=backend) == expected
    assert impl.sha256_many([]) == []


def test_many_digests_refuse_what_is_no_sequence_of_buffers(impl: Any) -> None:
    """P1."""
    with pytest.raises(ValueError, match="backend"):
        impl.sha256_many([b""], backend="abacus")
    with pytest.raises(TypeError, match="items"):
        impl.sha256_many([b"a", "b"])


def test_the_core_lists_the_backends_of_this_cpu() -> None:
    """P1: portable is always there; an unknown suffix length is refused."""
    assert "portable" in _core.sha256_backends()
    assert set(_core.cpu_features()) <= {"sha_ni", "avx2", "avx512"}
    with pytest.raises(ValueError, match="suffix"):
        _core.sha256_many([b""], suffix=bytes(65))
    with pytest.raises(TypeError, match="items"):
        _core.sha256_many(b"not a sequence of buffers")


def test_the_libraries_name_their_versions() -> None:
    """The versions found at run time are new enough for the ones asked for at build time."""
    versions = _core.library_versions()
    assert set(versions) == {"libsodium", "libcrypto", "bzip2", "libzstd", "sqlite3"}
    assert [int(part) for part in versions["libsodium"].split(".")] >= [1, 0, 18]
    assert int(versions["libcrypto"].split(".")[0]) >= 3
    assert versions["bzip2"].startswith("1.0")
    assert [int(part) for part in versions["libzstd"].split(".")] >= [1, 4, 0]
    assert [int(part) for part in versions["sqlite3"].split(".")] >= [3, 34]


# --------------------------------------------------------------- P1: HKDF, padding


@pytest.mark.parametrize("vector", vectors(CORE, "hkdf"), ids=name_of)
def test_hkdf_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P1: salt and context absent or not."""
    given = vector["input"]
    info = {} if given["context"] is None else {"info": raw(given["context"])}
    derived = impl.hkdf(given["length"], raw(given["ikm"]), raw(given["salt"]), **info)
    assert derived == raw(vector["output"]["okm"])


def test_the_block_counter_of_hkdf_wraps(impl: Any) -> None:
    """P1: no limit of 255 blocks."""
    (vector,) = vectors(CORE, "hkdf_long")
    given, expected = vector["input"], vector["output"]
    derived = impl.hkdf(given["length"], raw(given["ikm"]), raw(given["salt"]))
    assert hashlib.sha256(derived).hexdigest() == expected["sha256_of_okm"]
    assert derived[8160:8192] == raw(expected["block_256_bytes_8160_8192"])
    assert derived[-16:] == raw(expected["last_16"])


def test_hkdf_refuses_no_output_and_takes_no_input(impl: Any) -> None:
    """P1: length below 1 is a ValueError, an empty ikm is not; an empty salt is zeros."""
    for length in (0, -1):
        with pytest.raises(ValueError, match="length"):
            impl.hkdf(length, b"ikm")
    with pytest.raises(TypeError, match="length"):
        impl.hkdf("32", b"ikm")
    assert len(impl.hkdf(33, b"")) == 33
    zeros = impl.hkdf(32, b"ikm", bytes(32))
    assert impl.hkdf(32, b"ikm") == impl.hkdf(32, b"ikm", b"") == zeros
    assert impl.hkdf(length=32, ikm=b"ikm", salt=None, info=b"") == zeros
    assert impl.hkdf(32, b"ikm", info=b"context") != zeros


@pytest.mark.parametrize("vector", vectors(CORE, "pkcs7_pad"), ids=name_of)
def test_padding_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P1: pad, and unpad again."""
    data, padded = raw(vector["input"]["data"]), raw(vector["output"]["padded"])
    assert impl.pkcs7_pad(data) == padded
    assert impl.pkcs7_unpad(padded) == data


@pytest.mark.parametrize("vector", vectors(CORE, "pkcs7_unpad"), ids=name_of)
def test_unpadding_looks_at_the_last_byte_only(impl: Any, vector: dict[str, Any]) -> None:
    """P1: inconsistent padding and a zero byte pass."""
    assert impl.pkcs7_unpad(raw(vector["input"]["padded"])) == raw(vector["output"]["data"])


@pytest.mark.parametrize("padded", [b"", bytes(15) + b"\x11", b"\x05\x05", bytes(15) + b"\xff"])
def test_unpadding_refuses_more_than_16_or_than_there_is(impl: Any, padded: bytes) -> None:
    """P1."""
    with pytest.raises(DecodeError) as caught:
        impl.pkcs7_unpad(padded)
    assert caught.value.reason == "PADDING"


# -------------------------------------------------------------------- P1: bzip2


def test_bzip2_agrees_with_the_standard_library(impl: Any) -> None:
    """P1: both directions, every level, bytes after the end ignored."""
    data = b"some text " * 500
    for level in range(1, 10):
        packed = impl.bz2_compress(data, level=level)
        assert bz2.decompress(packed) == data
        assert impl.bz2_decompress(packed + b"rest", max_size=len(data)) == data
    assert impl.bz2_compress(data) == bz2.compress(data)
    assert impl.bz2_decompress(bz2.compress(b""), max_size=0) == b""
    with pytest.raises(ValueError, match="level"):
        impl.bz2_compress(data, level=10)


def test_inflating_stops_at_the_bound(impl: Any) -> None:
    """P1: a bomb of 50 MB ends at the first byte too many."""
    bomb = bz2.compress(bytes(50_000_000))
    with pytest.raises(LimitError) as caught:
        impl.bz2_decompress(bomb, max_size=1000)
    assert (caught.value.reason, caught.value.codec) == ("LIMIT", "bzip2")
    packed = bz2.compress(bytes(1000))
    assert impl.bz2_decompress(packed, max_size=1000) == bytes(1000)
    with pytest.raises(LimitError):
        impl.bz2_decompress(packed, max_size=999)
    with pytest.raises(TypeError, match="max_size"):
        impl.bz2_decompress(packed)
    with pytest.raises(ValueError, match="max_size"):
        impl.bz2_decompress(packed, max_size=-1)


def test_a_broken_bzip2_stream_is_one_error(impl: Any) -> None:
    """P1: every truncation, and noise."""
    packed = bz2.compress(b"some text")
    for broken in [*truncations(packed), b"noise", b"BZh9" + bytes(40)]:
        with pytest.raises(DecodeError) as caught:
            impl.bz2_decompress(broken, max_size=1000)
        assert caught.value.reason == "COMPRESSED"


# ---------------------------------------------------------------------- P2: AES

# NIST SP 800-38A, F.2.1 and F.2.5: the first two blocks.
NIST_IV = bytes(range(16))
NIST_PLAIN = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
NIST = [
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
    ),
    (
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
    ),
]


@pytest.mark.parametrize(("key", "sealed"), NIST)
def test_aes_cbc_is_that_of_nist(impl: Any, key: str, sealed: str) -> None:
    """P2: both key sizes, bare."""
    found = impl.aes_cbc_encrypt(raw(key), NIST_IV, NIST_PLAIN, padding=False)
    assert found == raw(sealed)
    assert impl.aes_cbc_decrypt(raw(key), NIST_IV, found, padding=False) == NIST_PLAIN


@pytest.mark.parametrize("key", [KEY_16, KEY_32])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 47, 48, 20_000])
def test_aes_cbc_pads_and_unpads(impl: Any, key: bytes, length: int) -> None:
    """P2: with padding every length works."""
    plain = bytes(i % 256 for i in range(length))
    sealed = impl.aes_cbc_encrypt(key, IV, plain)
    assert len(sealed) == length + 16 - length % 16
    assert impl.aes_cbc_decrypt(key, IV, sealed) == plain
    bare = impl.aes_cbc_decrypt(key, IV, sealed, padding=False)
    assert bare == impl.pkcs7_pad(plain)


def test_aes_cbc_refuses_wrong_lengths(impl: Any) -> None:
    """P2: of key, IV and data."""
    for key in (b"", bytes(15), bytes(24), bytes(33)):
        with pytest.raises(ValueError, match="key"):
            impl.aes_cbc_encrypt(key, IV, b"")
        with pytest.raises(ValueError, match="key"):
            impl.aes_cbc_decrypt(key, IV, bytes(16))
    with pytest.raises(ValueError, match="iv"):
        impl.aes_cbc_encrypt(KEY_16, bytes(15), b"")
    with pytest.raises(ValueError, match="data"):
        impl.aes_cbc_encrypt(KEY_16, IV, bytes(15), padding=False)
    for length, padding in ((15, True), (17, False), (0, True)):
        with pytest.raises(DecodeError) as caught:
            impl.aes_cbc_decrypt(KEY_16, IV, bytes(length), padding=padding)
        assert caught.value.reason == "LENGTH"
    assert impl.aes_cbc_decrypt(KEY_16, IV, b"", padding=False) == b""
    assert impl.aes_cbc_encrypt(KEY_16, IV, b"", padding=False) == b""


def test_aes_cbc_refuses_bad_padding(impl: Any) -> None:
    """P2."""
    sealed = impl.aes_cbc_encrypt(KEY_32, IV, bytes(15) + b"\x11", padding=False)
    with pytest.raises(DecodeError) as caught:
        impl.aes_cbc_decrypt(KEY_32, IV, sealed)
    assert caught.value.reason == "PADDING"


# ------------------------------------------------------------------- P3: curves


@pytest.mark.parametrize("vector", vectors(CORE, "x25519"), ids=name_of)
def test_x25519_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P3: exchange."""
    given = vector["input"]
    shared = impl.x25519(raw(given["private"]), raw(given["peer_public"]))
    assert shared == raw(vector["output"]["shared"])


@pytest.mark.parametrize("vector", vectors(CORE, "x25519_public"), ids=name_of)
def test_x25519_public_keys_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P3: public from private."""
    assert impl.x25519_public(raw(vector["input"]["private"])) == raw(vector["output"]["public"])


def test_x25519_clamps_on_use_and_ignores_the_top_bit(impl: Any) -> None:
    """P3: RFC 7748, 5."""
    private, peer = bytearray(KEY_32), bytearray(impl.x25519_public(bytes(range(32, 64))))
    shared = impl.x25519(private, peer)
    private[0] ^= 7
    private[31] ^= 0x80
    peer[31] ^= 0x80
    assert impl.x25519(private, peer) == shared
    assert impl.x25519_public(private) == impl.x25519_public(KEY_32)


@pytest.mark.parametrize("small", [0, 1])
def test_an_all_zero_secret_is_refused(impl: Any, small: int) -> None:
    """P3: points of small order."""
    with pytest.raises(AuthenticationError) as caught:
        impl.x25519(KEY_32, bytes([small]) + bytes(31))
    assert caught.value.reason == "KEY"


# RFC 8032, 7.1: tests 1, 2 and 3.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032)
def test_ed25519_is_that_of_the_rfc(
    impl: Any, seed: str, public: str, message: str, signature: str
) -> None:
    """P3: public from seed, sign, verify."""
    assert impl.ed25519_public(raw(seed)) == raw(public)
    assert impl.ed25519_sign(raw(seed), raw(message)) == raw(signature)
    assert impl.ed25519_verify(raw(public), raw(message), raw(signature)) is True


@pytest.mark.parametrize("vector", vectors(CORE, "sign"), ids=name_of)
def test_ed25519_signs_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P3: the second half of a private key is the seed."""
    seed = raw(vector["input"]["private_key"])[32:]
    assert impl.ed25519_sign(seed, raw(vector["input"]["message"])) == raw(
        vector["output"]["signature"]
    )


def test_verification_is_false_for_everything_that_is_not_good(impl: Any) -> None:
    """P3: a bool for any input, also of wrong length."""
    public, message = impl.ed25519_public(KEY_32), b"message"
    signature = impl.ed25519_sign(KEY_32, message)
    assert impl.ed25519_verify(public, message, signature) is True
    bad = [*flips(signature, step=9), *list(truncations(signature))[::13], signature + b"\0"]
    for wrong in bad:
        assert impl.ed25519_verify(public, message, wrong) is False
    for wrong in [*flips(public, step=7), b"", public[:-1], public + b"\0", bytes(32)]:
        assert impl.ed25519_verify(wrong, message, signature) is False
    assert impl.ed25519_verify(public, message + b"!", signature) is False


def test_curves_refuse_keys_of_a_wrong_length(impl: Any) -> None:
    """P3."""
    for key in (b"", bytes(31), bytes(33)):
        for call in (
            lambda key=key: impl.x25519_public(key),
            lambda key=key: impl.ed25519_public(key),
            lambda key=key: impl.x25519(key, KEY_32),
            lambda key=key: impl.x25519(KEY_32, key),
            lambda key=key: impl.ed25519_sign(key, b""),
        ):
            with pytest.raises(ValueError, match="32"):
                call()


# -------------------------------------------------------------------- P4: Token


@pytest.mark.parametrize("vector", vectors(CORE, "token_encrypt"), ids=name_of)
def test_tokens_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P4: seal with a given IV, open, check, size."""
    given, expected = vector["input"], raw(vector["output"]["token"])
    token, plain = impl.Token(raw(given["key"])), raw(given["plaintext"])
    assert token.seal(plain, iv=raw(given["iv"])) == expected
    assert token.open(expected) == plain
    assert token.check(expected) is True
    assert impl.Token.size(len(plain)) == len(expected)


@pytest.mark.parametrize("vector", vectors(CORE, "token_decrypt"), ids=name_of)
def test_a_tampered_token_is_refused_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P4."""
    assert vector["output"]["result"] == "rejected"
    token, sealed = impl.Token(raw(vector["input"]["key"])), raw(vector["input"]["token"])
    assert token.check(sealed) is False
    with pytest.raises(AuthenticationError) as caught:
        token.open(sealed)
    assert caught.value.reason == "AUTH"


def test_a_token_key_chooses_the_mode(impl: Any) -> None:
    """P4: a key for a mode, a mode from a key."""
    for mode, size in (("AES_256_CBC", 64), ("AES_128_CBC", 32)):
        key = impl.Token.generate_key(mode)
        assert len(key) == size
        assert impl.Token(key).mode == mode
        assert key != impl.Token.generate_key(mode=mode)
    assert len(impl.Token.generate_key()) == 64
    with pytest.raises(ValueError, match="mode"):
        impl.Token.generate_key("ROT13")
    for size in (0, 16, 31, 33, 63, 65):
        with pytest.raises(ValueError, match="32 or 64"):
            impl.Token(bytes(size))


@pytest.mark.parametrize("size", [32, 64])
def test_a_token_opens_what_it_sealed(impl: Any, size: int) -> None:
    """P4: every length near a block, and one that releases the GIL; fresh each time."""
    token = impl.Token(bytes(range(size)))
    for length in [*range(50), 40_000]:
        sealed = token.seal(bytes(length))
        assert len(sealed) == impl.Token.size(length) == 48 + 16 * (length // 16 + 1)
        assert token.open(sealed) == bytes(length)
    assert token.seal(b"same") != token.seal(b"same")
    assert impl.Token.OVERHEAD == 48
    with pytest.raises(ValueError, match="plaintext_bytes"):
        impl.Token.size(-1)


def test_no_change_of_a_token_goes_unnoticed(impl: Any) -> None:
    """P4: a bit of every byte, and every truncation."""
    token = impl.Token(bytes(64))
    sealed = token.seal(b"secret", iv=IV)
    for wrong in flips(sealed):
        assert token.check(wrong) is False
        with pytest.raises(AuthenticationError):
            token.open(wrong)
    for wrong in truncations(sealed):
        assert token.check(wrong) is False
        with pytest.raises((AuthenticationError, DecodeError)) as caught:
            token.open(wrong)
        assert caught.value.reason == ("TRUNCATED" if len(wrong) <= 32 else "AUTH")
    assert impl.Token(b"\1" * 64).check(sealed) is False


def test_what_a_good_mac_covers_may_still_be_malformed(impl: Any) -> None:
    """P4: the named refusals after authentication."""
    mac_key, cipher_key = bytes(32), bytes(range(32))
    token = impl.Token(mac_key + cipher_key)

    def signed(body: bytes) -> bytes:
        return body + hmac.digest(mac_key, body, "sha256")

    for body in (b"\0", IV, IV + bytes(15), IV + bytes(17)):
        assert token.check(signed(body)) is True
        with pytest.raises(DecodeError) as caught:
            token.open(signed(body))
        assert caught.value.reason == "LENGTH"
    bad = impl.aes_cbc_encrypt(cipher_key, IV, bytes(15) + b"\x20", padding=False)
    with pytest.raises(DecodeError) as caught:
        token.open(signed(IV + bad))
    assert caught.value.reason == "PADDING"


def test_a_token_keeps_its_key_to_itself(impl: Any) -> None:
    """P4: not in its repr; equal and hashed by key; immutable."""
    token = impl.Token(b"secret key bytes" * 4)
    assert "secret" not in repr(token)
    assert b"secret".hex() not in repr(token)
    assert token == impl.Token(b"secret key bytes" * 4)
    assert hash(token) == hash(impl.Token(b"secret key bytes" * 4))
    assert token not in (impl.Token(bytes(64)), impl.Token(b"secret key bytes" * 2), b"")
    with pytest.raises((AttributeError, TypeError)):
        token.mode = "AES_128_CBC"


def test_the_core_refuses_to_copy_keys() -> None:
    """P4: neither pickled nor copied."""
    token = _core.Token(bytes(64))
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private keys"):
            attempt(token)


# ------------------------------------------------------------------ all functions

ONE_BUFFER = {
    "sha256": "data",
    "sha512": "data",
    "full_hash": "data",
    "truncated_hash": "data",
    "pkcs7_pad": "data",
    "pkcs7_unpad": "data",
    "bz2_compress": "data",
    "x25519_public": "private",
    "ed25519_public": "seed",
    "Token": "key",
}


@pytest.mark.parametrize("name", ONE_BUFFER)
@pytest.mark.parametrize("received", NOT_BYTES)
def test_a_wrong_type_is_named(name: str, received: str) -> None:
    """P1 to P4: the message tells the parameter and the type received."""
    with pytest.raises(TypeError, match=f"'{ONE_BUFFER[name]}'.*{received}"):
        getattr(_core, name)(NOT_BYTES[received])


@pytest.mark.parametrize("name", ONE_BUFFER)
def test_a_strided_buffer_is_refused(impl: Any, name: str) -> None:
    """P1 to P4: buffers must be contiguous."""
    with pytest.raises((TypeError, BufferError), match="contiguous"):
        getattr(impl, name)(strided(KEY_32))


def test_arguments_are_counted_and_named() -> None:
    """Too many, too few, twice, unknown, by keyword where only a position will do."""
    with pytest.raises(TypeError, match="takes at most 4 positional arguments"):
        _core.hkdf(1, b"", b"", b"", b"")
    with pytest.raises(TypeError, match="needs parameter 'ikm'"):
        _core.hkdf(32)
    with pytest.raises(TypeError, match="'length' twice"):
        _core.hkdf(32, b"", length=32)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        _core.hkdf(32, b"", size=1)
    with pytest.raises(TypeError, match="by position only"):
        _core.Token(key=bytes(64))
    with pytest.raises(TypeError, match="'padding' must be a bool, not int"):
        _core.aes_cbc_encrypt(KEY_16, IV, b"", padding=1)


def test_objects_of_many_threads_do_not_disturb_each_other() -> None:
    """P4: one token, used by all at once, with short and long input."""
    token = _core.Token(bytes(64))
    plains = [bytes([i]) * (i * 977) for i in range(64)]

    def cycle(plain: bytes) -> bool:
        return token.open(token.seal(plain)) == plain

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(cycle, plains * 8))


LONG = {
    "sha256": lambda: _core.sha256(bytes(150_000_000)),
    "bz2_compress": lambda: _core.bz2_compress(bytes(3_000_000)),
    "sha256_many": lambda: _core.sha256_many([bytes(1_000_000)] * 100),
    "Token.seal": lambda: _core.Token(bytes(64)).seal(bytes(50_000_000)),
}


@pytest.mark.parametrize("name", LONG)
def test_long_work_lets_other_threads_run(name: str) -> None:
    """P1: the GIL is released, so that this loop turns while the work is done."""
    started = threading.Event()

    def work() -> None:
        started.set()
        LONG[name]()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    turns = 0
    while thread.is_alive():
        turns += 1
    thread.join()
    # With the lock held this thread would get a handful of turns, before and after.
    assert turns > 1000
