"""Names, addresses and destinations (P6)."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import pytest

from golden import name_of, named, raw, vectors
from inputs import NOT_BYTES
from netmesh import _core
from netmesh.constants import Context
from netmesh.errors import AuthenticationError, DecodeError, KeyMissingError

CORE, LINKS = "reticulum-core", "reticulum-links"
PRIVATE = bytes(range(1, 65))
SINGLE, GROUP, PLAIN = 0, 1, 2


@pytest.fixture
def identity(impl: Any) -> Any:
    """One that is the same in every run."""
    return impl.Identity.from_private(PRIVATE)


# ------------------------------------------------------------------------- names


@pytest.mark.parametrize("vector", vectors(CORE, "destination_hash"), ids=name_of)
def test_names_and_addresses_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P6: dotted name, expansion, name hash, address with and without identity."""
    given, expected = vector["input"], vector["output"]
    app, aspects, hash_ = given["app_name"], given["aspects"], raw(given["identity_hash"])
    name = impl.join_name(app, *aspects)
    assert name == expected["name"]
    assert impl.split_name(name) == (app, tuple(aspects))
    assert impl.expand_name(hash_, app, *aspects) == expected["full_name"]
    assert impl.name_hash(name) == raw(expected["name_hash"])
    address = impl.destination_hash(hash_, name)
    assert address == raw(expected["hash"])
    assert isinstance(address, impl.DestinationHash)
    assert impl.destination_hash(hash_, raw(expected["name_hash"])) == address


@pytest.mark.parametrize("vector", vectors(LINKS, "destination_hash"), ids=name_of)
def test_addresses_of_utilities_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P6."""
    given, expected = vector["input"], vector["output"]
    address = impl.destination_hash(raw(given["identity_hash"]), given["name"])
    assert address == raw(expected["destination_hash"])
    if "name_hash" in expected:
        assert impl.name_hash(given["name"]) == raw(expected["name_hash"])


@pytest.mark.parametrize("vector", vectors("lxmf", "name_hash"), ids=name_of)
def test_name_hashes_of_messaging_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P6."""
    assert impl.name_hash(vector["input"]["name"]) == raw(vector["output"]["name_hash"])


PATHS = [
    *vectors(CORE, "request_path_hash"),
    *vectors(LINKS, "path_hash"),
    *vectors("lxmf", "path_hash"),
]


@pytest.mark.parametrize("vector", PATHS, ids=name_of)
def test_path_hashes_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """P6, P16."""
    assert impl.path_hash(vector["input"]["path"]) == raw(vector["output"]["path_hash"])


def test_a_dot_inside_a_part_is_refused(impl: Any) -> None:
    """P6: of the application name and of aspects."""
    for parts in (("a.b",), ("a", "b.c"), ("a", "b", "."), (".",)):
        with pytest.raises(ValueError, match="dot"):
            impl.join_name(*parts)
        with pytest.raises(ValueError, match="dot"):
            impl.expand_name(None, *parts)


def test_names_split_at_every_dot(impl: Any) -> None:
    """P6: empty parts are kept, and joined again."""
    assert impl.split_name("app") == ("app", ())
    assert impl.split_name("app.a..b") == ("app", ("a", "", "b"))
    assert impl.join_name("app", "a", "", "b") == "app.a..b"
    assert impl.split_name("") == ("", ())
    assert impl.join_name("größe", "ünit") == "größe.ünit"


def test_names_are_text(impl: Any) -> None:
    """P6."""
    for call in (impl.split_name, impl.join_name, impl.path_hash):
        with pytest.raises(TypeError):
            call(b"app.a")
        with pytest.raises(TypeError):
            call(5)
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        impl.join_name("app", 5)
    with pytest.raises(TypeError):
        impl.expand_name(None)
    with pytest.raises(TypeError):
        impl.destination_hash(None, 5)
    with pytest.raises(ValueError, match="10"):
        impl.destination_hash(None, bytes(11))


# ------------------------------------------------------------------------- rules


def test_a_single_destination_has_the_address_of_its_name(impl: Any, identity: Any) -> None:
    """P6."""
    destination = impl.Destination(identity, "app.inbox.main")
    assert destination.identity == identity
    assert destination.name == "app.inbox.main"
    assert destination.full_name == f"app.inbox.main.{identity.hash.hex()}"
    assert destination.name_hash == impl.name_hash("app.inbox.main")
    assert destination.hash == impl.destination_hash(identity.hash, "app.inbox.main")
    assert isinstance(destination.hash, impl.DestinationHash)
    assert (destination.type, destination.direction) == (SINGLE, "IN")
    assert (destination.group_key, destination.proof_strategy) == (None, 0x21)


def test_an_out_destination_needs_an_identity_unless_plain(impl: Any, identity: Any) -> None:
    """P6."""
    for kind in (SINGLE, GROUP):
        with pytest.raises(ValueError, match=r"OUT.*needs an identity"):
            impl.Destination(None, "app.a", type=kind, direction="OUT")
        out = impl.Destination(identity.public_only(), "app.a", type=kind, direction="OUT")
        assert out.hash == impl.destination_hash(identity.hash, "app.a")
    plain = impl.Destination(None, "app.a", type=PLAIN, direction="OUT")
    assert plain.hash == impl.destination_hash(None, "app.a")


def test_a_plain_destination_has_no_identity(impl: Any, identity: Any) -> None:
    """P6."""
    for direction in ("IN", "OUT"):
        with pytest.raises(ValueError, match=r"PLAIN.*no identity"):
            impl.Destination(identity, "app.a", type=PLAIN, direction=direction)
    plain = impl.Destination(None, "rnstransport.path.request", type=PLAIN)
    assert plain.identity is None
    assert plain.full_name == plain.name == "rnstransport.path.request"
    assert plain.hash.hex() == "6b9f66014d9853faab220fba47d02761"


@pytest.mark.parametrize("kind", [SINGLE, GROUP])
def test_an_in_destination_without_identity_makes_its_own(impl: Any, kind: int) -> None:
    """P6: and shows it as a further aspect, which is hashed."""
    destination = impl.Destination(None, "app.a", type=kind)
    own = destination.identity
    assert own.has_private
    assert destination.name == f"app.a.{own.hash.hex()}"
    assert destination.hash == impl.destination_hash(own.hash, destination.name)
    assert destination.full_name == f"{destination.name}.{own.hash.hex()}"
    assert impl.Destination(None, "app.a", type=kind).hash != destination.hash


def test_values_outside_the_rules_are_refused(impl: Any, identity: Any) -> None:
    """P6: type, direction, proof strategy, group key, wrong Python types."""
    for options in (
        {"type": 3},
        {"type": -1},
        {"direction": "in"},
        {"direction": ""},
        {"proof_strategy": 0x20},
        {"proof_strategy": 0x24},
        {"group_key": bytes(64)},
        {"type": GROUP, "group_key": bytes(48)},
        {"type": GROUP, "group_key": b""},
    ):
        with pytest.raises(ValueError, match=r"."):
            impl.Destination(identity, "app.a", **options)
    for wrong in ({"type": "0"}, {"proof_strategy": None}):
        with pytest.raises(TypeError):
            impl.Destination(identity, "app.a", **wrong)
    for first, second in ((b"identity", "app.a"), (identity, b"app.a"), (identity, 5)):
        with pytest.raises(TypeError):
            impl.Destination(first, second)
    with pytest.raises(KeyMissingError):
        assert impl.Destination(impl.Identity.without_keys(), "app.a").hash
    for strategy in (0x21, 0x22, 0x23):
        made = impl.Destination(identity, "app.a", proof_strategy=strategy)
        assert made.proof_strategy == strategy


def test_destinations_are_values(impl: Any, identity: Any) -> None:
    """P6: equal by content, immutable, no group key in the repr."""
    key = b"group key bytes!" * 4
    group = impl.Destination(identity, "app.a", type=GROUP, group_key=key)
    same = impl.Destination(identity, "app.a", type=GROUP, group_key=bytearray(key))
    assert group == same
    assert hash(group) == hash(same)
    assert group != impl.Destination(identity, "app.a", type=GROUP, group_key=bytes(64))
    assert group != impl.Destination(identity, "app.a")
    assert "group key" not in repr(group)
    assert key.hex() not in repr(group)
    with pytest.raises((AttributeError, TypeError)):
        group.name = "app.b"


def test_the_arguments_of_a_request_handler_are_checked(impl: Any, identity: Any) -> None:
    """P6: path, policy, and a list of identities with one policy alone."""
    check = impl.check_request_handler
    assert check("/status") == check("/status", policy=1) == impl.path_hash("/status")
    for allowed in ([], [identity.hash], (bytes(16), bytearray(16))):
        assert check("/status", policy=2, allowed=allowed) == impl.path_hash("/status")
    for path, options in (
        ("", {}),
        ("/status", {"policy": 3}),
        ("/status", {"policy": -1}),
        ("/status", {"policy": 2}),
        ("/status", {"policy": 1, "allowed": [identity.hash]}),
        ("/status", {"allowed": []}),
        ("/status", {"policy": 2, "allowed": [bytes(15)]}),
    ):
        with pytest.raises(ValueError, match=r"path|policy|allowed"):
            check(path, **options)
    address = impl.Destination(identity, "app.a").hash
    for path, options in (
        (b"/status", {}),
        ("/status", {"policy": "1"}),
        ("/status", {"policy": 2, "allowed": [address]}),
        ("/status", {"policy": 2, "allowed": bytes(16)}),
        ("/status", {"policy": 2, "allowed": ["text"]}),
    ):
        with pytest.raises(TypeError):
            check(path, **options)


# ------------------------------------------------------------------------ sealing


def test_a_single_destination_seals_to_its_identity(impl: Any, identity: Any) -> None:
    """P6: with the options of Identity.encrypt, and opens with those of decrypt."""
    inbox = impl.Destination(identity, "app.a")
    outbox = impl.Destination(identity.public_only(), "app.a", direction="OUT")
    keys = {"ephemeral_private": bytes([3]) * 32, "iv": bytes(16)}
    assert outbox.seal(b"text", **keys) == identity.encrypt(b"text", **keys)
    assert inbox.open(outbox.seal(b"text")).plaintext == b"text"
    ratchet = bytes([5]) * 32
    sealed = outbox.seal(b"text", ratchet=impl.x25519_public(ratchet))
    assert inbox.open(sealed, ratchets=[ratchet], enforce_ratchets=True).ratchet_index == 0
    with pytest.raises(AuthenticationError):
        inbox.open(sealed)
    with pytest.raises(KeyMissingError):
        outbox.open(sealed)


@pytest.mark.parametrize("size", [32, 64])
def test_a_group_destination_seals_under_its_key(impl: Any, identity: Any, size: int) -> None:
    """P6: made, loaded, sealed, opened; a bare token."""
    key = bytes(range(size))
    group = impl.Destination(identity, "app.a", type=GROUP, group_key=key)
    assert group.group_key == key
    sealed = group.seal(b"text", iv=bytes(16))
    assert sealed == impl.Token(key).seal(b"text", iv=bytes(16))
    assert group.open(sealed).plaintext == b"text"
    assert group.seal(b"text") != group.seal(b"text")
    with pytest.raises(AuthenticationError):
        group.open(bytes(len(sealed)))
    with pytest.raises(DecodeError):
        group.open(b"short")


def test_a_group_key_is_made_for_in_destinations_only(impl: Any, identity: Any) -> None:
    """P6: an OUT destination without one cannot seal."""
    made = impl.Destination(identity, "app.a", type=GROUP)
    assert len(made.group_key) == 64
    assert made.group_key != impl.Destination(identity, "app.a", type=GROUP).group_key
    out = impl.Destination(identity, "app.a", type=GROUP, direction="OUT")
    assert out.group_key is None
    for call in (lambda: out.seal(b""), lambda: out.open(bytes(64))):
        with pytest.raises(KeyMissingError):
            call()


def test_a_plain_destination_passes_through(impl: Any) -> None:
    """P6."""
    plain = impl.Destination(None, "app.a", type=PLAIN)
    assert plain.seal(bytearray(b"text")) == b"text"
    found = plain.open(memoryview(b"text"))
    assert (found.plaintext, found.ratchet_id, found.ratchet_index) == (b"text", None, None)


def test_options_that_a_type_does_not_have_are_refused(impl: Any, identity: Any) -> None:
    """P6: not silently ignored."""
    group = impl.Destination(identity, "app.a", type=GROUP)
    plain = impl.Destination(None, "app.a", type=PLAIN)
    for destination, option in (
        (group, {"ratchet": bytes(32)}),
        (group, {"ephemeral_private": bytes(32)}),
        (plain, {"iv": bytes(16)}),
        (plain, {"ratchet": bytes(32)}),
    ):
        with pytest.raises(ValueError, match=next(iter(option))):
            destination.seal(b"", **option)
        with pytest.raises(ValueError, match=next(iter(option))):
            destination.packet(b"x", **option)
    for destination in (group, plain):
        for option in ({"ratchets": [bytes(32)]}, {"enforce_ratchets": True}):
            with pytest.raises(ValueError, match=next(iter(option))):
                destination.open(bytes(64), **option)


@pytest.mark.parametrize("received", NOT_BYTES)
def test_payloads_are_bytes(impl: Any, identity: Any, received: str) -> None:
    """P6."""
    for destination in (
        impl.Destination(identity, "app.a"),
        impl.Destination(identity, "app.a", type=GROUP),
        impl.Destination(None, "app.a", type=PLAIN),
    ):
        for call in (destination.seal, destination.open, destination.packet):
            with pytest.raises(TypeError):
                call(NOT_BYTES[received])


# ------------------------------------------------------------ packets and announces


def test_the_packet_of_a_plain_destination_is_that_of_upstream(impl: Any) -> None:
    """P6, P7."""
    vector = named(CORE, "packet-plain-data")
    destination = impl.Destination(
        None, "example_utilities.broadcast.public_information", type=PLAIN, direction="OUT"
    )
    assert destination.hash == raw(vector["input"]["destination_hash"])
    packet = destination.packet(raw(vector["input"]["payload"]))
    assert packet.raw == raw(vector["output"]["raw"])


def test_the_packet_of_a_single_destination_is_that_of_upstream(impl: Any) -> None:
    """P6, P7: its payload is what the destination seals."""
    vector = named(CORE, "packet-single-data")
    given = vector["input"]
    identity = impl.Identity.from_public(raw(given["recipient_public_key"]))
    keys = {key: raw(given[key]) for key in ("ephemeral_private", "iv")}
    packet = impl.Destination(identity, "app.a", direction="OUT").packet(
        raw(given["payload"]), **keys
    )
    there = packet.replace(destination=raw(given["destination_hash"]))
    assert there.raw == raw(vector["output"]["raw"])


def test_packing_again_gives_fresh_ciphertext(impl: Any, identity: Any) -> None:
    """P7."""
    inbox = impl.Destination(identity, "app.a")
    first, second = inbox.packet(b"text"), inbox.packet(b"text", context=Context.REQUEST)
    assert first.payload != second.payload
    assert (first.context, second.context) == (0, Context.REQUEST)
    assert first.destination == inbox.hash
    assert (first.packet_type, first.destination_type) == (0, SINGLE)
    assert inbox.open(first.payload) == inbox.open(second.payload)
    group = impl.Destination(identity, "app.a", type=GROUP)
    assert group.packet(b"text").destination_type == GROUP
    assert group.open(group.packet(b"text").payload).plaintext == b"text"


def test_contexts_that_travel_in_clear_are_not_sealed(impl: Any, identity: Any) -> None:
    """P7: by the packet layer."""
    inbox = impl.Destination(identity, "app.a")
    for context in (Context.RESOURCE, Context.KEEPALIVE, Context.CACHE_REQUEST):
        assert bytes(inbox.packet(b"clear", context=context).payload) == b"clear"
        with pytest.raises(ValueError, match="iv"):
            inbox.packet(b"clear", context=context, iv=bytes(16))
    with pytest.raises(TypeError):
        inbox.packet(b"text", colour="red")


def test_an_announce_has_the_default_app_data(impl: Any, identity: Any) -> None:
    """P6, P8: as bytes or callable, replaced by what is given, None included."""
    calls = []

    def app_data() -> bytes:
        calls.append(1)
        return b"called"

    fixed = impl.Destination(identity, "app.a", default_app_data=bytearray(b"fixed"))
    called = impl.Destination(identity, "app.a", default_app_data=app_data)
    none = impl.Destination(identity, "app.a", default_app_data=lambda: None)
    assert fixed.announce().app_data == b"fixed"
    assert called.announce().app_data == b"called"
    assert called.announce(b"given").app_data == b"given"
    assert fixed.announce(None).app_data is None
    assert none.announce().app_data is None
    assert impl.Destination(identity, "app.a").announce().app_data is None
    assert len(calls) == 1
    ratchet = bytes([9]) * 32
    assert fixed.announce(b"", ratchet=ratchet).app_data == b""


def test_an_announce_is_that_of_its_destination(impl: Any, identity: Any) -> None:
    """P8: every option passes through."""
    inbox = impl.Destination(identity, "app.a")
    options = {"emitted": 1_700_000_000, "random": b"12345", "ratchet": bytes([9]) * 32}
    announce = inbox.announce(b"data", path_response=True, **options)
    same = impl.Announce.create(identity, "app.a", app_data=b"data", path_response=True, **options)
    assert announce == same
    assert announce.destination_hash == inbox.hash
    assert announce.path_response is True


def test_only_single_in_destinations_are_announced(impl: Any, identity: Any) -> None:
    """P6."""
    for destination in (
        impl.Destination(identity, "app.a", direction="OUT"),
        impl.Destination(identity, "app.a", type=GROUP),
        impl.Destination(None, "app.a", type=PLAIN),
    ):
        with pytest.raises(ValueError, match="announced"):
            destination.announce()
    with pytest.raises(KeyMissingError):
        impl.Destination(identity.public_only(), "app.a").announce()


def test_an_error_in_the_default_app_data_comes_through(impl: Any, identity: Any) -> None:
    """P8."""

    def fail() -> bytes:
        raise LookupError("no name yet")

    with pytest.raises(LookupError, match="no name yet"):
        impl.Destination(identity, "app.a", default_app_data=fail).announce()
    with pytest.raises(TypeError):
        impl.Destination(identity, "app.a", default_app_data=lambda: "text").announce()


def test_the_core_collects_a_destination_that_refers_to_itself() -> None:
    """A callable may hold its destination; the garbage collector finds the cycle."""

    class Holder:
        destination: Any

        def __call__(self) -> bytes:
            return b""

    holder = Holder()
    holder.destination = _core.Destination(_core.Identity(), "app.a", default_app_data=holder)
    seen = weakref.ref(holder)
    del holder
    gc.collect()
    assert seen() is None


def test_the_core_refuses_to_pickle_destinations() -> None:
    """P6: they may hold private keys."""
    with pytest.raises(TypeError, match="private keys"):
        pickle.dumps(_core.Destination(_core.Identity(), "app.a"))
