"""Digests, ciphers, tokens and bzip2: the C core against the pure reference."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, crosswise, damaged, pure, same, sized

DATA = st.binary(max_size=400)


@given(DATA)
def test_digests_agree(data: bytes) -> None:
    for name in ("sha256", "sha512", "full_hash", "truncated_hash", "name_hash", "pkcs7_pad"):
        same(lambda impl, name=name: getattr(impl, name)(data))


@given(st.one_of(DATA, st.binary(min_size=1, max_size=40)))
def test_unpadding_agrees(data: bytes) -> None:
    same(lambda impl: impl.pkcs7_unpad(data))


@given(st.text(max_size=40))
def test_name_hash_of_text_agrees(name: str) -> None:
    same(lambda impl: impl.name_hash(name))


@given(DATA, DATA)
def test_hmac_agrees(key: bytes, data: bytes) -> None:
    same(lambda impl: impl.hmac_sha256(key, data))


@given(st.integers(-1, 700), DATA, st.none() | DATA, DATA)
def test_hkdf_agrees(length: int, ikm: bytes, salt: bytes | None, info: bytes) -> None:
    same(lambda impl: impl.hkdf(length, ikm, salt, info))


def test_hkdf_counter_wraps_alike() -> None:
    same(lambda impl: impl.hkdf(300 * 32, b"ikm", b"salt"))


@given(st.none() | sized(16, 15, 32))
def test_random_hash_of_given_bytes_agrees(random: bytes | None) -> None:
    if random is None:
        assert len(core.random_hash()) == len(pure.random_hash()) == 16
    else:
        same(lambda impl: impl.random_hash(random))


@given(st.lists(DATA, max_size=40), st.binary(max_size=70))
def test_many_digests_agree(items: list[bytes], suffix: bytes) -> None:
    same(lambda impl: impl.sha256_many(items, suffix=suffix))


@given(sized(16, 32, 24, 0), sized(16, 15), DATA, st.booleans())
def test_cbc_agrees(key: bytes, iv: bytes, data: bytes, padding: bool) -> None:
    same(lambda impl: impl.aes_cbc_encrypt(key, iv, data, padding=padding))
    same(lambda impl: impl.aes_cbc_decrypt(key, iv, data, padding=padding))


@given(sized(16, 32), sized(16), DATA)
def test_cbc_round_trip(key: bytes, iv: bytes, data: bytes) -> None:
    def run(maker: Any, taker: Any) -> bytes:
        return taker.aes_cbc_decrypt(key, iv, maker.aes_cbc_encrypt(key, iv, data))

    assert crosswise(run) == ("value", ("bytes", data))


@given(sized(32, 64), sized(16), DATA)
def test_token_round_trip(key: bytes, iv: bytes, data: bytes) -> None:
    same(lambda impl: impl.Token(key).seal(data, iv=iv))
    same(lambda impl: (impl.Token(key).mode, impl.Token.size(len(data))))
    assert crosswise(lambda a, b: b.Token(key).open(a.Token(key).seal(data))) == (
        "value",
        ("bytes", data),
    )


@given(st.data(), sized(32, 64), DATA)
def test_damaged_tokens_are_refused_alike(data: st.DataObject, key: bytes, plain: bytes) -> None:
    token = data.draw(damaged(st.just(pure.Token(key).seal(plain, iv=bytes(16)))))
    same(lambda impl: impl.Token(key).check(token))
    same(lambda impl: impl.Token(key).open(token))


@given(sized(32, 64), st.binary(max_size=80))
def test_malformed_tokens_with_a_good_mac_are_refused_alike(key: bytes, body: bytes) -> None:
    half = len(key) // 2
    token = body + pure.hmac_sha256(key[:half], body)
    same(lambda impl: impl.Token(key).open(token))


@given(sized(0, 16, 31, 33, 63, 65))
def test_token_keys_of_other_lengths_are_refused_alike(key: bytes) -> None:
    same(lambda impl: impl.Token(key))


def test_token_values() -> None:
    for impl in (core, pure):
        assert impl.Token(bytes(64)) == impl.Token(bytes(64))
        assert impl.Token(bytes(64)) != impl.Token(bytes(63) + b"\1")
        assert hash(impl.Token(bytes(64))) == hash(impl.Token(bytes(64)))
        assert impl.Token.OVERHEAD == 48
        for mode, size in (("AES_128_CBC", 32), ("AES_256_CBC", 64)):
            assert len(impl.Token.generate_key(mode)) == size
    same(lambda impl: impl.Token.generate_key("AES_192_CBC"))
    same(lambda impl: impl.Token.size(-1))


@given(st.binary(max_size=3000), st.integers(0, 10))
def test_bzip2_streams_are_identical(data: bytes, level: int) -> None:
    same(lambda impl: impl.bz2_compress(data, level=level))


@given(st.data(), st.binary(max_size=300), st.integers(0, 400))
def test_bzip2_inflates_alike(data: st.DataObject, plain: bytes, max_size: int) -> None:
    stream = data.draw(damaged(st.just(pure.bz2_compress(plain * 3))))
    same(lambda impl: impl.bz2_decompress(stream, max_size=max_size))


def test_bzip2_bound_is_exact() -> None:
    stream = pure.bz2_compress(bytes(100_000))
    assert same(lambda impl: impl.bz2_decompress(stream, max_size=100_000))[0] == "value"
    assert same(lambda impl: impl.bz2_decompress(stream, max_size=99_999))[2] == "LimitError"
    assert same(lambda impl: impl.bz2_decompress(stream, max_size=0))[2] == "LimitError"


@given(st.sampled_from(("text", 1, None, 1.5, [1])))
def test_wrong_types_are_type_errors(value: object) -> None:
    for name in ("sha256", "sha512", "full_hash", "truncated_hash", "pkcs7_pad", "x25519_public"):
        assert same(lambda impl, name=name: getattr(impl, name)(value))[2] == "TypeError"
    same(lambda impl: impl.Token(value))
    same(lambda impl: impl.hkdf(value, b""))


def test_strided_views_are_type_errors() -> None:
    view = memoryview(bytes(20))[::2]
    assert same(lambda impl: impl.sha256(view))[2] == "TypeError"
    assert same(lambda impl: impl.hmac_sha256(view, b""))[2] == "TypeError"


@given(DATA)
def test_any_bytes_like_object_will_do(data: bytes) -> None:
    for form in (bytearray(data), memoryview(data)):
        same(lambda impl, form=form: impl.sha256(form))
        same(lambda impl, form=form: impl.pkcs7_pad(form))
        same(lambda impl, form=form: impl.Token(bytes(32)).seal(form, iv=bytearray(16)))
