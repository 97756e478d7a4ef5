"""Identities, their hashes, their files and their ratchets (P5)."""

from __future__ import annotations

import copy
import os
import pickle
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from golden import name_of, named, raw, vectors
from inputs import BUFFERS, NOT_BYTES, flips, truncations
from netmesh import _core, _files
from netmesh.errors import AuthenticationError, DecodeError, KeyMissingError

CORE = "reticulum-core"
PRIVATE = bytes(range(1, 65))

# -------------------------------------------------------------------------- keys

IDENTITIES = [
    (raw(vector["input"][private]), raw(vector["output"][public]), raw(vector["output"][hash_]))
    for file, private, public, hash_ in (
        (CORE, "private_key", "public_key", "hash"),
        (
            "reticulum-links",
            "private_key_x25519_then_ed25519_seed",
            "public_key_x25519_then_ed25519",
            "identity_hash",
        ),
        ("lxmf", "private_key", "public_key", "identity_hash"),
    )
    for vector in vectors(file, "identity")
]


@pytest.mark.parametrize(("private", "public", "hash_"), IDENTITIES)
def test_identities_are_those_of_upstream(
    impl: Any, private: bytes, public: bytes, hash_: bytes
) -> None:
    """P5: from 64 private bytes and from 64 public ones."""
    identity = impl.Identity.from_private(private)
    assert identity.private_key == private
    assert identity.public_key == public
    assert identity.hash == hash_
    assert identity.hash.hex() == hash_.hex()
    assert (identity.has_private, identity.has_public) == (True, True)
    seen = impl.Identity.from_public(public)
    assert (seen.public_key, seen.hash) == (public, hash_)
    assert (seen.has_private, seen.has_public) == (False, True)
    assert seen == identity.public_only()


@pytest.mark.parametrize("vector", vectors("lxmf", "identity"), ids=name_of)
def test_addresses_of_an_identity_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P5, P6."""
    identity = impl.Identity.from_private(raw(vector["input"]["private_key"]))
    for field, name in (
        ("lxmf_delivery", "lxmf.delivery"),
        ("lxmf_propagation", "lxmf.propagation"),
        ("lxmf_propagation_control", "lxmf.propagation.control"),
    ):
        assert impl.destination_hash(identity.hash, name) == raw(vector["output"][field])


def test_a_new_identity_is_random(impl: Any) -> None:
    """P5."""
    first, second = impl.Identity(), impl.Identity()
    assert first.private_key != second.private_key
    assert impl.Identity.from_private(first.private_key) == first
    with pytest.raises(TypeError):
        impl.Identity(b"an argument")


@pytest.mark.parametrize("kind", BUFFERS)
def test_keys_come_in_every_kind_of_buffer(impl: Any, kind: str) -> None:
    """P5: and are copied, so that the caller may wipe the buffer."""
    private = BUFFERS[kind](PRIVATE)
    identity = impl.Identity.from_private(private)
    if kind == "bytearray":
        private[:] = bytes(64)
    assert identity.private_key == PRIVATE
    assert impl.Identity.from_public(BUFFERS[kind](identity.public_key)).hash == identity.hash


def test_keys_of_a_wrong_length_are_refused(impl: Any) -> None:
    """P5."""
    for size in (0, 32, 63, 65):
        with pytest.raises(ValueError, match="64"):
            impl.Identity.from_private(bytes(size))
        with pytest.raises(ValueError, match="64"):
            impl.Identity.from_public(bytes(size))


OPERATIONS = {
    "private_key": lambda identity: identity.private_key,
    "public_key": lambda identity: identity.public_key,
    "hash": lambda identity: identity.hash,
    "public_only": lambda identity: identity.public_only(),
    "sign": lambda identity: identity.sign(b""),
    "verify": lambda identity: identity.verify(b"", bytes(64)),
    "encrypt": lambda identity: identity.encrypt(b""),
    "decrypt": lambda identity: identity.decrypt(bytes(96)),
    "save": lambda identity: identity.save("never-written"),
    "save_public": lambda identity: identity.save_public("never-written"),
}
NEED_PRIVATE = ("private_key", "sign", "decrypt", "save")


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_without_its_key_has_its_own_error(impl: Any, name: str) -> None:
    """P5: without keys every operation raises KeyMissingError, without private ones some."""
    with pytest.raises(KeyMissingError) as caught:
        OPERATIONS[name](impl.Identity.without_keys())
    assert caught.value.reason == "NO_KEY"
    if name in NEED_PRIVATE:
        with pytest.raises(KeyMissingError):
            OPERATIONS[name](impl.Identity.from_private(PRIVATE).public_only())
    assert not Path("never-written").exists()


def test_an_identity_without_keys_says_so(impl: Any) -> None:
    """P5."""
    nobody = impl.Identity.without_keys()
    assert (nobody.has_private, nobody.has_public) == (False, False)
    assert "without keys" in repr(nobody)
    assert nobody == impl.Identity.without_keys()
    assert nobody != impl.Identity.from_private(PRIVATE)


def test_private_bytes_do_not_show(impl: Any) -> None:
    """P5: in no repr; the hash does."""
    identity = impl.Identity.from_private(PRIVATE)
    for text in (repr(identity), str(identity), f"{identity}"):
        assert PRIVATE[:32].hex() not in text
        assert PRIVATE[32:].hex() not in text
        assert identity.hash.hex() in text
    assert "public" in repr(identity.public_only())


def test_identities_compare_by_their_keys(impl: Any) -> None:
    """P5: values, immutable and hashable."""
    identity = impl.Identity.from_private(PRIVATE)
    assert identity == impl.Identity.from_private(PRIVATE)
    assert hash(identity) == hash(impl.Identity.from_private(PRIVATE))
    assert identity != identity.public_only()
    assert identity != identity.hash
    with pytest.raises((AttributeError, TypeError)):
        identity.hash = bytes(16)
    with pytest.raises((AttributeError, TypeError)):
        identity.extra = 1


def test_the_core_refuses_to_pickle_identities_and_ratchets() -> None:
    """P5: with or without private keys, so that no one relies on it."""
    identity = _core.Identity.from_private(PRIVATE)
    for secret in (identity, identity.public_only(), _core.Ratchets()):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="private keys"):
                attempt(secret)


# -------------------------------------------------------------------- signatures


@pytest.mark.parametrize("vector", vectors(CORE, "sign"), ids=name_of)
def test_signatures_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P5: sign, and verify with the public half."""
    identity = impl.Identity.from_private(raw(vector["input"]["private_key"]))
    message, signature = raw(vector["input"]["message"]), raw(vector["output"]["signature"])
    assert identity.sign(message) == signature
    assert identity.public_only().verify(message, signature) is True


@pytest.mark.parametrize("vector", vectors(CORE, "verify"), ids=name_of)
def test_verification_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P5."""
    given = vector["input"]
    identity = impl.Identity.from_public(raw(given["public_key"]))
    valid = identity.verify(raw(given["message"]), raw(given["signature"]))
    assert valid is vector["output"]["valid"]


def test_a_signature_of_any_other_shape_is_just_wrong(impl: Any) -> None:
    """P5: False, never an error."""
    identity = impl.Identity.from_private(PRIVATE)
    signature = identity.sign(b"message")
    for wrong in [*flips(signature, step=11), b"", signature[:-1], signature + b"\0"]:
        assert identity.verify(b"message", wrong) is False
    assert impl.Identity.from_public(bytes(64)).verify(b"message", signature) is False


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_many_signatures_are_verified_at_once(impl: Any, threads: int) -> None:
    """P5: the results are those of single calls, in order."""
    identity = impl.Identity.from_private(PRIVATE)
    messages = [bytes([i]) * i for i in range(20)]
    items = [(identity, message, bytearray(identity.sign(message))) for message in messages]
    items[3][2][0] ^= 1
    items[11] = (identity.public_only(), memoryview(b"other"), items[11][2])
    items[12] = (identity, messages[12], b"short")
    expected = [i not in (3, 11, 12) for i in range(20)]
    assert impl.Identity.verify_many(items, threads=threads) == expected
    assert impl.Identity.verify_many(tuple(items)) == expected
    assert impl.Identity.verify_many([], threads=threads) == []


def test_many_signatures_refuse_what_is_no_claim(impl: Any) -> None:
    """P5."""
    identity = impl.Identity.from_private(PRIVATE)
    with pytest.raises(ValueError, match="threads"):
        impl.Identity.verify_many([], threads=0)
    with pytest.raises(KeyMissingError):
        impl.Identity.verify_many([(impl.Identity.without_keys(), b"", b"")])
    for items in ([(identity, b"")], [(b"", b"", b"")], [(identity, "text", b"")], [5], 5):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            impl.Identity.verify_many(items)


# -------------------------------------------------------------------- encryption


@pytest.mark.parametrize("vector", vectors(CORE, "identity_encrypt"), ids=name_of)
def test_encryption_is_that_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P5: with a given ephemeral key and IV."""
    given = vector["input"]
    identity = impl.Identity.from_public(raw(given["recipient_public_key"]))
    assert identity.hash == raw(given["recipient_hash"])
    sealed = identity.encrypt(
        raw(given["plaintext"]),
        ephemeral_private=raw(given["ephemeral_private"]),
        iv=raw(given["iv"]),
    )
    assert sealed == raw(vector["output"]["ciphertext"])


def test_encryption_to_a_ratchet_is_that_of_upstream(impl: Any) -> None:
    """P5: the ratchet takes the key's place, the salt stays the identity's hash."""
    (vector,) = vectors(CORE, "identity_encrypt_ratchet")
    given = vector["input"]
    bob = impl.Identity.from_private(raw(named(CORE, "identity-bob")["input"]["private_key"]))
    assert bob.hash == raw(given["recipient_hash"])
    sealed = bob.encrypt(
        raw(given["plaintext"]),
        ratchet=raw(given["ratchet_public"]),
        ephemeral_private=raw(given["ephemeral_private"]),
        iv=raw(given["iv"]),
    )
    assert sealed == raw(vector["output"]["ciphertext"])
    found = bob.decrypt(sealed, ratchets=[bytes(32), raw(given["ratchet_private"])])
    assert found.plaintext == raw(given["plaintext"])
    assert found.ratchet_index == 1
    assert found.ratchet_id == impl.ratchet_id(raw(given["ratchet_public"]))


@pytest.mark.parametrize("vector", vectors("lxmf", "encrypt"), ids=name_of)
def test_encrypted_messages_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P5: sealed and opened, with and without a ratchet."""
    given = vector["input"]
    identity = impl.Identity.from_private(raw(given["recipient_private_key"]))
    private = raw(given["ratchet_private_key"])
    sealed = identity.encrypt(
        raw(given["plaintext"]),
        ratchet=None if private is None else impl.x25519_public(private),
        ephemeral_private=raw(given["ephemeral_private_key"]),
        iv=raw(given["iv"]),
    )
    assert sealed == raw(vector["output"]["ciphertext"])
    assert len(sealed) == vector["output"]["ciphertext_len"]
    found = identity.decrypt(sealed, ratchets=() if private is None else (private,))
    assert found.plaintext == raw(given["plaintext"])


@pytest.mark.parametrize("vector", vectors(CORE, "ratchet_id"), ids=name_of)
def test_ratchet_ids_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P5."""
    public = impl.x25519_public(raw(vector["input"]["ratchet_private"]))
    assert public == raw(vector["output"]["ratchet_public"])
    assert impl.ratchet_id(public) == raw(vector["output"]["ratchet_id"])
    with pytest.raises(ValueError, match="32"):
        impl.ratchet_id(public[:-1])


def test_decryption_tells_which_key_opened_it(impl: Any) -> None:
    """P5: ratchets newest first, then the own key."""
    identity = impl.Identity.from_private(PRIVATE)
    privates = [bytes([i]) * 32 for i in range(1, 6)]
    for index, private in enumerate(privates):
        public = impl.x25519_public(private)
        found = identity.decrypt(identity.encrypt(b"text", ratchet=public), ratchets=privates)
        assert (found.plaintext, found.ratchet_index) == (b"text", index)
        assert found.ratchet_id == impl.ratchet_id(public)
    found = identity.decrypt(identity.encrypt(b"text"), ratchets=tuple(privates))
    assert (found.plaintext, found.ratchet_index, found.ratchet_id) == (b"text", None, None)
    assert found == identity.decrypt(identity.encrypt(b"text"))


def test_enforced_ratchets_leave_the_own_key_out(impl: Any) -> None:
    """P5."""
    identity, private = impl.Identity.from_private(PRIVATE), bytes([7]) * 32
    to_ratchet = identity.encrypt(b"text", ratchet=impl.x25519_public(private))
    to_key = identity.encrypt(b"text")
    found = identity.decrypt(to_ratchet, ratchets=[private], enforce_ratchets=True)
    assert found.ratchet_index == 0
    for ratchets in ([private], []):
        with pytest.raises(AuthenticationError):
            identity.decrypt(to_key, ratchets=ratchets, enforce_ratchets=True)
    with pytest.raises(AuthenticationError):
        identity.decrypt(to_ratchet)


def test_nothing_but_the_right_bytes_is_opened(impl: Any) -> None:
    """P5: no truncation and no change of a byte; each an error with a name."""
    identity = impl.Identity.from_private(PRIVATE)
    sealed = identity.encrypt(b"text")
    for wrong in [*list(truncations(sealed))[::5], *flips(sealed, step=7), b"", sealed + b"\0"]:
        if wrong[:31] + bytes([wrong[31] & 0x7F]) == sealed[:32] if len(wrong) > 31 else False:
            continue
        with pytest.raises((AuthenticationError, DecodeError)) as caught:
            identity.decrypt(wrong)
        assert caught.value.reason in ("AUTH", "TRUNCATED")
    with pytest.raises(AuthenticationError):
        impl.Identity.from_private(PRIVATE[::-1]).decrypt(sealed)
    zero = bytes(32) + sealed[32:]  # an ephemeral key without a secret
    with pytest.raises(AuthenticationError):
        identity.decrypt(zero)


def test_encryption_is_fresh_and_checks_its_arguments(impl: Any) -> None:
    """P5."""
    identity = impl.Identity.from_private(PRIVATE)
    assert identity.encrypt(b"same") != identity.encrypt(b"same")
    assert len(identity.encrypt(b"")) == 96
    for option, size in (("ratchet", 32), ("ephemeral_private", 32), ("iv", 16)):
        with pytest.raises(ValueError, match=option):
            identity.encrypt(b"", **{option: bytes(size - 1)})
    with pytest.raises(ValueError, match="32"):
        identity.decrypt(bytes(96), ratchets=[bytes(31)])
    with pytest.raises(AuthenticationError) as caught:
        identity.encrypt(b"", ratchet=bytes(32))
    assert caught.value.reason == "KEY"


# ------------------------------------------------------------------------- files


def test_a_file_holds_the_64_bytes_and_nothing_else(impl: Any, tmp_path: Path) -> None:
    """P5: the raw file both ways, private readable by its owner alone."""
    identity = impl.Identity.from_private(PRIVATE)
    private, public = tmp_path / "identity", tmp_path / "identity.pub"
    identity.save(private)
    identity.save_public(str(public))
    assert private.read_bytes() == PRIVATE
    assert public.read_bytes() == identity.public_key
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert impl.Identity.load(private) == impl.Identity.load(os.fsencode(private)) == identity
    assert impl.Identity.load_public(public) == identity.public_only()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["identity", "identity.pub"]


def test_saving_replaces_a_file_whatever_its_mode(impl: Any, tmp_path: Path) -> None:
    """P5: the new file does not inherit the old one's permissions."""
    path = tmp_path / "identity"
    path.write_bytes(b"old")
    path.chmod(0o644)
    impl.Identity.from_private(PRIVATE).save(path)
    assert path.read_bytes() == PRIVATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_another_size_is_a_decode_error(impl: Any, tmp_path: Path) -> None:
    """P5."""
    path = tmp_path / "identity"
    for size in (0, 63, 65, 1000):
        path.write_bytes(bytes(size))
        for load in (impl.Identity.load, impl.Identity.load_public):
            with pytest.raises(DecodeError) as caught:
                load(path)
            assert caught.value.reason == "LENGTH"
    with pytest.raises(FileNotFoundError):
        impl.Identity.load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        impl.Identity.from_private(PRIVATE).save(tmp_path / "missing" / "identity")


def test_a_failed_save_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: the file is written beside and renamed when it is safe on disk."""
    path = tmp_path / "identity"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    for call in ("fsync", "replace"):
        monkeypatch.setattr(_files.os, call, fail)
        with pytest.raises(OSError, match="disk full"):
            _core.Identity.from_private(PRIVATE).save(path)
        monkeypatch.undo()
        assert path.read_bytes() == b"old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["identity"]


# ------------------------------------------------------------------------ hashes

HASHES = ("IdentityHash", "DestinationHash")


@pytest.mark.parametrize("name", HASHES)
def test_a_hash_is_bytes_with_a_kind(impl: Any, name: str) -> None:
    """P5: equal to its own kind and to bytes, printed in brackets, read back."""
    kind = getattr(impl, name)
    value = kind(bytes(range(16)))
    assert value == bytes(range(16)) == value
    assert hash(value) == hash(bytes(range(16)))
    assert {value: 1}[bytes(range(16))] == 1
    assert str(value) == f"{value}" == "<000102030405060708090a0b0c0d0e0f>"
    assert repr(value) == f"<{name} 000102030405060708090a0b0c0d0e0f>"
    assert value.hex() == "000102030405060708090a0b0c0d0e0f"
    for text in (str(value), value.hex(), value.hex().upper()):
        assert kind.from_hex(text) == value
        assert type(kind.from_hex(text)) is kind
    assert kind(value) == kind(bytearray(value)) == kind(memoryview(value)) == value
    assert value[:4] == bytes(range(4))
    assert sorted([kind(b"b" * 16), kind(b"a" * 16)])[0] == b"a" * 16
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("name", HASHES)
def test_a_hash_has_16_bytes(impl: Any, name: str) -> None:
    """P5."""
    kind = getattr(impl, name)
    for size in (0, 15, 17, 32):
        with pytest.raises(ValueError, match="16"):
            kind(bytes(size))
    for text in ("", "00" * 15, "00" * 17, "zz" * 16, "<" + "00" * 16, "00 " * 16, "é" * 32):
        with pytest.raises(ValueError, match="32 hexadecimal"):
            kind.from_hex(text)
    for wrong in NOT_BYTES.values():
        with pytest.raises(TypeError):
            kind(wrong)
    with pytest.raises(TypeError):
        kind.from_hex(b"00" * 16)


def test_the_two_kinds_of_hash_do_not_mix(impl: Any) -> None:
    """P5: a TypeError where one stands for the other, and never equal."""
    identity_hash = impl.IdentityHash(bytes(16))
    destination_hash = impl.DestinationHash(bytes(16))
    assert identity_hash != destination_hash
    assert (identity_hash == destination_hash) is False
    assert len({identity_hash, destination_hash}) == 2
    with pytest.raises(TypeError, match="IdentityHash"):
        impl.IdentityHash(destination_hash)
    with pytest.raises(TypeError, match="DestinationHash"):
        impl.DestinationHash(identity_hash)
    with pytest.raises(TypeError):
        assert identity_hash < destination_hash


MIXED = {
    "destination_hash": lambda m, i, d: m.destination_hash(d, "app.name"),
    "expand_name": lambda m, i, d: m.expand_name(d, "app"),
    "Packet.destination": lambda m, i, d: m.Packet(destination=i, payload=b"x"),
    "Packet.transport_id": lambda m, i, d: m.Packet(
        destination=d, payload=b"x", header_type=1, hops=1, transport_id=d
    ),
    "pack_packet": lambda m, i, d: m.pack_packet(i, b"x"),
    "Announce.create": lambda m, i, d: m.Announce.create(m.Identity(), "a.b", transport_id=d),
    "LinkRequest.create": lambda m, i, d: m.LinkRequest.create(i, bytes(32), bytes(32)),
    "PathRequest": lambda m, i, d: m.PathRequest(i),
    "PathRequest.transport_id": lambda m, i, d: m.PathRequest(d, transport_id=d),
}


@pytest.mark.parametrize("where", MIXED)
def test_no_function_takes_the_wrong_kind_of_hash(impl: Any, where: str) -> None:
    """P5: everywhere."""
    identity_hash = impl.IdentityHash(bytes(16))
    destination_hash = impl.DestinationHash(bytes(16))
    with pytest.raises(TypeError, match="Hash"):
        MIXED[where](impl, identity_hash, destination_hash)


# ---------------------------------------------------------------------- ratchets


def test_the_file_of_own_ratchets_is_that_of_upstream(impl: Any) -> None:
    """P5: built from the keys, and read back."""
    vector = named(CORE, "storage-own-ratchets")
    identity = impl.Identity.from_private(raw(vector["input"]["private_key"]))
    keys = tuple(raw(key) for key in vector["input"]["ratchets"])
    ratchets = impl.Ratchets()
    for key in reversed(keys):
        assert ratchets.rotate(1.0, private=key, force=True) is True
    file = raw(vector["output"]["file"])
    assert ratchets.dump(identity) == file
    loaded = impl.Ratchets.load(file, identity.public_only())
    assert loaded.private_keys == keys
    assert loaded.ids == tuple(impl.ratchet_id(impl.x25519_public(key)) for key in keys)
    assert (loaded.current_id, loaded.previous_id) == loaded.ids
    assert loaded.current_public == impl.x25519_public(keys[0])


def test_the_file_of_a_remembered_ratchet_is_that_of_upstream(impl: Any) -> None:
    """P5."""
    vector = named(CORE, "storage-remote-ratchet")
    key, received = raw(vector["input"]["ratchet"]), vector["input"]["received"]
    file = raw(vector["output"]["msgpack"])
    assert impl.remembered_ratchet_pack(key, received) == file
    assert impl.remembered_ratchet_unpack(file) == (key, received)
    assert impl.remembered_ratchet_unpack(impl.packb({"received": 5, "ratchet": key})) == (key, 5)
    for wrong in [*truncations(file), b"\xc0", impl.packb({"ratchet": key}), bytes(61)]:
        with pytest.raises(DecodeError):
            impl.remembered_ratchet_unpack(wrong)


def test_ratchets_rotate_when_they_are_due(impl: Any) -> None:
    """P5: the first time, after more than the interval, or when forced."""
    ratchets = impl.Ratchets(interval_s=100)
    assert (len(ratchets), ratchets.latest_time, ratchets.private_keys) == (0, 0, ())
    assert (ratchets.current_public, ratchets.current_id, ratchets.previous_id) == (None,) * 3
    assert ratchets.rotate(1000.0) is True
    assert ratchets.rotate(1100.0) is False
    assert ratchets.rotate(1100.5) is True
    assert ratchets.rotate(1100.5, force=True) is True
    assert (len(ratchets), ratchets.latest_time) == (3, 1100.5)
    assert len(set(ratchets.private_keys)) == 3
    assert ratchets.rotate(1101, private=PRIVATE[:32], force=True) is True
    assert ratchets.private_keys[0] == PRIVATE[:32]
    assert ratchets.current_public == impl.x25519_public(PRIVATE[:32])
    before = time.time()
    assert impl.Ratchets(interval_s=0).rotate() is True
    assert ratchets.rotate() is True
    assert before <= ratchets.latest_time <= time.time()


def test_ratchets_keep_as_many_as_they_retain(impl: Any) -> None:
    """P5: the oldest is dropped."""
    ratchets = impl.Ratchets(retained=3, interval_s=0)
    keys = [bytes([i]) * 32 for i in range(1, 8)]
    for moment, key in enumerate(keys, start=1):
        ratchets.rotate(moment, private=key)
    assert ratchets.private_keys == tuple(reversed(keys[-3:]))
    assert (ratchets.retained, ratchets.interval_s, len(ratchets)) == (3, 0, 3)
    identity = impl.Identity.from_private(PRIVATE)
    file = ratchets.dump(identity)
    assert impl.Ratchets.load(file, identity, retained=2).private_keys == ratchets.private_keys[:2]
    assert impl.Ratchets.load(file, identity, interval_s=5).interval_s == 5
    assert "01" * 32 not in repr(ratchets)


def test_many_ratchets_survive_a_file(impl: Any) -> None:
    """P5: the default bound, in order."""
    ratchets, identity = impl.Ratchets(interval_s=0), impl.Identity.from_private(PRIVATE)
    for moment in range(1, 600):
        ratchets.rotate(moment, private=moment.to_bytes(32, "big"))
    assert len(ratchets) == ratchets.retained == 512
    assert ratchets.private_keys[0] == (599).to_bytes(32, "big")
    loaded = impl.Ratchets.load(bytearray(ratchets.dump(identity)), identity)
    assert loaded.private_keys == ratchets.private_keys
    assert loaded.rotate(1.7e9) is True
    assert loaded.private_keys[1:] == ratchets.private_keys[:-1]


def test_a_file_of_ratchets_must_be_whole_and_signed(impl: Any) -> None:
    """P5: truncated, changed, or signed by another."""
    identity = impl.Identity.from_private(PRIVATE)
    ratchets = impl.Ratchets()
    assert ratchets.rotate(1.7e9, private=PRIVATE[:32]) is True
    file = ratchets.dump(identity)
    for wrong in truncations(file):
        with pytest.raises(DecodeError):
            impl.Ratchets.load(wrong, identity)
    with pytest.raises(AuthenticationError) as caught:
        impl.Ratchets.load(file, impl.Identity.from_private(PRIVATE[::-1]))
    assert caught.value.reason == "SIGNATURE"
    changed = bytearray(file)
    changed[-1] ^= 1
    with pytest.raises(AuthenticationError):
        impl.Ratchets.load(changed, identity)
    with pytest.raises(KeyMissingError):
        ratchets.dump(identity.public_only())
    empty = impl.Ratchets().dump(identity)
    assert len(impl.Ratchets.load(empty, identity)) == 0


def test_ratchets_check_their_arguments(impl: Any) -> None:
    """P5."""
    for options in ({"retained": 0}, {"interval_s": -1.0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            impl.Ratchets(**options)
    with pytest.raises(ValueError, match="private"):
        impl.Ratchets().rotate(1.0, private=bytes(31))
    with pytest.raises(TypeError):
        impl.Ratchets(512)


# ----------------------------------------------------------------------- threads


def test_one_identity_serves_many_threads() -> None:
    """P5: values may be used from any thread."""
    identity = _core.Identity.from_private(PRIVATE)

    def cycle(i: int) -> bool:
        text = bytes([i % 256]) * (i % 300)
        signed = identity.verify(text, identity.sign(text))
        return signed and identity.decrypt(identity.encrypt(text)).plaintext == text

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(cycle, range(200)))


def test_signature_checks_let_other_threads_run() -> None:
    """P5: the GIL is released for a whole batch."""
    identity = _core.Identity.from_private(PRIVATE)
    items = [(identity, b"message", identity.sign(b"message"))] * 8000
    thread = threading.Thread(target=_core.Identity.verify_many, args=(items,))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    thread.join()
    assert turns > 1000


def test_an_identity_works_on_both_sides_of_a_fork() -> None:
    """Nothing here keeps a thread or a lock that a forked process would miss."""
    identity = _core.Identity.from_private(PRIVATE)
    _core.Identity.verify_many([(identity, b"", identity.sign(b""))] * 64, threads=4)
    child = os.fork()
    if child == 0:  # no test machinery in the child: it reports by its exit code
        good = identity.decrypt(identity.encrypt(b"text")).plaintext == b"text"
        good = good and all(
            _core.Identity.verify_many([(identity, b"", identity.sign(b""))] * 64, threads=4)
        )
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
