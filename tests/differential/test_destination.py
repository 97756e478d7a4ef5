"""Names and destinations: the C core against the pure reference."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import ADDRESS, KEY, core, crosswise, damaged, fewer, pure, same, sized

OWNER = bytes(range(64))
NAMES = st.one_of(st.text(max_size=20), st.sampled_from(("lxmf.delivery", "", ".", "a..b", "é.日")))
PARTS = st.text(st.characters(codec="utf-8", exclude_characters="."), max_size=8)
TYPES = st.integers(-1, 3)
DIRECTIONS = st.sampled_from(("IN", "OUT", "in", "", None, 1))


@given(NAMES, st.lists(st.text(max_size=5), max_size=3), st.none() | ADDRESS)
def test_names_agree(name: str, aspects: list[str], identity: bytes | None) -> None:
    same(lambda impl: impl.split_name(name))
    same(lambda impl: impl.join_name(name, *aspects))
    same(lambda impl: impl.expand_name(identity, name, *aspects))
    same(lambda impl: impl.path_hash(name))


@given(PARTS, st.lists(PARTS, max_size=3))
def test_names_are_split_and_joined_crosswise(app: str, aspects: list[str]) -> None:
    found = crosswise(lambda a, b: b.split_name(a.join_name(app, *aspects)))
    assert found[1] == ("tuple", [("str", app), ("tuple", [("str", part) for part in aspects])])


@given(st.none() | sized(16, 15), st.one_of(NAMES, sized(10, 9, 11)))
def test_addresses_agree(identity: bytes | None, name: str | bytes) -> None:
    same(lambda impl: impl.destination_hash(identity, name))


def test_addresses_of_the_other_kind_are_refused() -> None:
    for kind in ("IdentityHash", "DestinationHash"):
        same(lambda impl, k=kind: impl.destination_hash(getattr(impl, k)(bytes(16)), "a"))
        same(lambda impl, k=kind: impl.expand_name(getattr(impl, k)(bytes(16)), "a"))


def destination(impl: Any, identity: str | None, name: Any = "app.inbox", **options: Any) -> Any:
    """A destination of an identity with private keys, public ones, no keys, or none."""
    owner = impl.Identity.from_private(OWNER)
    kinds = {
        "private": owner,
        "public": owner.public_only(),
        "empty": impl.Identity.without_keys(),
        "none": None,
    }
    return impl.Destination(kinds.get(str(identity), identity), name, **options)


IDENTITIES = st.sampled_from(("private", "public", "empty", "other"))


@given(
    IDENTITIES,
    st.one_of(NAMES, st.just(b"name")),
    TYPES,
    DIRECTIONS,
    st.none() | sized(32, 64, 16, 0),
    st.integers(0x20, 0x24),
    st.sampled_from((None, b"", b"data", "text")),
)
def test_destinations_are_made_alike(
    identity: str,
    name: Any,
    kind: int,
    direction: Any,
    group_key: bytes | None,
    strategy: int,
    app_data: Any,
) -> None:
    def run(impl: Any) -> Any:
        made = destination(
            impl,
            identity,
            name,
            type=kind,
            direction=direction,
            group_key=group_key,
            proof_strategy=strategy,
            default_app_data=app_data,
        )
        # A group key that was not given is random.
        return made if group_key is not None or made.type != 1 else (made.hash, made.name)

    same(run)


@given(NAMES, st.integers(0, 2), st.sampled_from(("IN", "OUT")), sized(32, 64))
def test_destinations_without_an_identity_agree(
    name: str, kind: int, direction: str, group_key: bytes
) -> None:
    def run(impl: Any) -> Any:
        key = group_key if kind == 1 else None
        made = impl.Destination(None, name, type=kind, direction=direction, group_key=key)
        if made.identity is None:
            return made
        hex_hash = made.identity.hash.hex()
        assert made.name == f"{name}.{hex_hash}"
        assert made.full_name == f"{name}.{hex_hash}.{hex_hash}"
        assert made.hash == impl.destination_hash(made.identity.hash, made.name)
        return made.group_key, made.type, made.direction, made.proof_strategy

    same(run)


@pytest.mark.parametrize("impl", [core, pure])
def test_group_keys_are_made_for_receivers_alone(impl: Any) -> None:
    assert len(destination(impl, "private", type=1).group_key) == 64
    assert destination(impl, "private", type=1, direction="OUT").group_key is None


# -------------------------------------------------------------- payloads

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "ratchet": st.none() | sized(32, 31),
        "ephemeral_private": st.none() | sized(32, 33),
        "iv": st.none() | sized(16, 15),
    },
)


def shared(impl: Any, kind: int, **options: Any) -> Any:
    """A destination whose every key is given."""
    if kind == 1:
        options["group_key"] = OWNER
    return destination(impl, "none" if kind == 2 else "private", type=kind, **options)


@fewer(2)
@given(st.integers(0, 2), st.binary(max_size=100), OPTIONS, st.sampled_from((0, 1, 9, 0xFA, 256)))
def test_payloads_are_sealed_alike(
    kind: int, plaintext: bytes, options: dict[str, Any], context: int
) -> None:
    fixed = {"ephemeral_private": bytes(range(32)), "iv": bytes(16)} if kind == 0 else {}
    fixed = {"iv": bytes(16)} if kind == 1 else fixed
    for chosen in (fixed | options, options if kind == 2 else fixed):
        if kind < 2 and not chosen.get("iv"):
            continue  # random
        if kind == 0 and not chosen.get("ephemeral_private"):
            continue
        same(lambda impl, o=chosen: shared(impl, kind).seal(plaintext, **o))
        same(lambda impl, o=chosen: shared(impl, kind).packet(plaintext, context=context, **o))


@fewer(2)
@given(st.integers(0, 2), st.binary(max_size=100), st.none() | KEY)
def test_payloads_are_opened_crosswise(kind: int, plaintext: bytes, ratchet: bytes | None) -> None:
    def run(sender: Any, receiver: Any) -> Any:
        options = {}
        if ratchet is not None and kind == 0:
            options["ratchet"] = pure.x25519_public(ratchet)
        packet = shared(sender, kind).packet(plaintext, **options)
        keys = [KEY_OF_NOBODY, ratchet] if options else []
        return shared(receiver, kind).open(packet.payload, ratchets=keys)

    crosswise(run)


KEY_OF_NOBODY = b"\x55" * 32


@fewer(2)
@given(
    st.integers(0, 2),
    st.data(),
    st.sampled_from(((), [], [KEY_OF_NOBODY], [b"short"], b"text", None)),
    st.sampled_from((False, True, 1, None)),
)
def test_damaged_payloads_are_refused_alike(
    kind: int, data: st.DataObject, ratchets: Any, enforce: Any
) -> None:
    sealed = data.draw(damaged(st.just(SEALED[kind])))
    same(lambda impl: shared(impl, kind).open(sealed, ratchets=ratchets, enforce_ratchets=enforce))


SEALED = [
    shared(pure, 0).seal(b"hello", ephemeral_private=bytes(range(32)), iv=bytes(16)),
    shared(pure, 1).seal(b"hello", iv=bytes(16)),
    b"hello",
]


def test_missing_keys_are_named_alike() -> None:
    for call in (
        lambda impl: destination(impl, "public").open(SEALED[0]),
        lambda impl: destination(impl, "public", type=1, direction="OUT").open(SEALED[1]),
        lambda impl: destination(impl, "public", type=1, direction="OUT").seal(b""),
        lambda impl: destination(impl, "public").announce(),
        lambda impl: destination(impl, "empty"),
    ):
        assert same(call)[2] == "KeyMissingError"


# ------------------------------------------------------------- announces


@fewer(2)
@given(
    st.sampled_from((None, b"default", lambda: b"made", lambda: None, lambda: "text")),
    st.sampled_from(("left out", None, b"", b"given", "text", ...)),
    st.fixed_dictionaries(
        {"emitted": st.integers(-1, 2**40), "random": sized(5, 4)},
        optional={
            "ratchet": st.none() | sized(32, 31),
            "path_response": st.sampled_from((True, False, 1)),
        },
    ),
)
def test_announces_agree(default: Any, app_data: Any, options: dict[str, Any]) -> None:
    given_data = () if app_data == "left out" else (app_data,)
    same(
        lambda impl: destination(impl, "private", default_app_data=default).announce(
            *given_data, **options
        )
    )


def test_what_is_not_announced_is_refused_alike() -> None:
    def error() -> bytes:
        raise RuntimeError("no data today")

    for call in (
        lambda impl: destination(impl, "private", direction="OUT").announce(),
        lambda impl: shared(impl, 1).announce(),
        lambda impl: shared(impl, 2).announce(),
        lambda impl: destination(impl, "private", default_app_data=error).announce(),
    ):
        assert same(call)[0] == "error"


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("impl", [core, pure])
def test_destinations_are_equal_by_value(impl: Any) -> None:
    made = [
        destination(impl, "private"),
        destination(impl, "private", default_app_data=b""),
        destination(impl, "private", "app.outbox"),
        destination(impl, "private", direction="OUT"),
        destination(impl, "private", proof_strategy=0x23),
        destination(impl, "private", type=1, group_key=bytes(32)),
        destination(impl, "private", type=1, group_key=bytes(64)),
        impl.Destination(None, "app.inbox", type=2),
    ]
    for number, one in enumerate(made):
        for other_number, other in enumerate(made):
            assert (one == other) == (number == other_number)
    assert made[0] == destination(impl, "private")
    assert hash(made[0]) == hash(destination(impl, "private"))
    assert made[0] != destination(impl, "public")
    assert made[0] != "app.inbox"
    with pytest.raises(AttributeError):
        made[0].name = "other"


@pytest.mark.parametrize("impl", [core, pure])
def test_secrets_are_not_pickled(impl: Any) -> None:
    for secret in (
        destination(impl, "private"),
        impl.Identity(),
        impl.Token(bytes(64)),
        impl.Ratchets(),
        impl.Ifac(passphrase="secret"),
    ):
        with pytest.raises(TypeError, match="private keys"):
            pickle.dumps(secret)
        with pytest.raises(TypeError, match="private keys"):
            copy.copy(secret)


def test_wrong_types_are_type_errors() -> None:
    for call in (
        lambda impl: impl.split_name(b"a.b"),
        lambda impl: impl.join_name(b"a"),
        lambda impl: impl.join_name("a", 1),
        lambda impl: impl.expand_name(None, "a", b"b"),
        lambda impl: impl.expand_name("0" * 32, "a"),
        lambda impl: impl.destination_hash("0" * 32, "a"),
        lambda impl: impl.destination_hash(None, None),
        lambda impl: impl.path_hash(b"/"),
        lambda impl: impl.Destination(b"", "a"),
        lambda impl: impl.Destination(None, "a", type="2"),
        lambda impl: impl.Destination(None, "a", type=2, default_app_data=1),
        lambda impl: shared(impl, 2).seal("text"),
        lambda impl: shared(impl, 2).open("text"),
        lambda impl: shared(impl, 2).packet("text"),
        lambda impl: shared(impl, 2).packet(b"", color="red"),
        lambda impl: shared(impl, 2).packet(b"", context="0"),
    ):
        assert same(call)[2] == "TypeError"
    for call in (
        lambda impl: impl.split_name("\ud800"),
        lambda impl: impl.path_hash("\ud800"),
        lambda impl: impl.destination_hash(None, "\ud800"),
        lambda impl: impl.Destination(None, "\ud800", type=2),
    ):
        assert same(call)[2] == "UnicodeEncodeError"
