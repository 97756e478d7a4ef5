"""Signatures, how objects print, that they do not change: the core against the reference."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from differential.support import core, pure
from netmesh import resource
from netmesh.pure._wire import NotConstructible

PRIVATE = bytes(range(64))


def objects(impl: Any) -> dict[str, Any]:
    """One of every class of values, under a word for it."""
    owner = impl.Identity.from_private(PRIVATE)
    inbox = impl.Destination(owner, "app.inbox")
    sealed = owner.encrypt(b"x", ephemeral_private=bytes(range(32)), iv=bytes(16))
    node = {"transfer_limit_kb": 1, "sync_limit_kb": 2.5, "stamp_cost": 3, "flexibility": 4}
    return {
        "identity": owner,
        "public identity": owner.public_only(),
        "empty identity": impl.Identity.without_keys(),
        "identity hash": owner.hash,
        "destination hash": inbox.hash,
        "decrypted": owner.decrypt(sealed),
        "token": impl.Token(bytes(64)),
        "short token": impl.Token(bytes(32)),
        "ratchets": impl.Ratchets(retained=7),
        "destination": inbox,
        "group": impl.Destination(owner, "a", type=1, direction="OUT", group_key=bytes(32)),
        "packet": impl.Packet(destination=bytes(16), payload=b"hello", context=9, hops=3),
        "announce": inbox.announce(b"data", emitted=5, random=b"12345"),
        "access codes": impl.Ifac(passphrase="secret", size=8),
        "link request": impl.LinkRequest.create(bytes(16), bytes(32), bytes(32), mtu=1000),
        "link proof": impl.LinkProof.create(bytes(16), owner, bytes(32), mtu=None),
        "path request": impl.PathRequest(bytes(16), tag=b"tag"),
        "tunnel": impl.TunnelSynthesis.create(owner, bytes(32), random=bytes(16)),
        "request": impl.Request("/status", {"a": [1, b"b"]}, timestamp=0),
        "response": impl.Response(bytes(16), None),
        "extension": impl.Ext(-3, b"data"),
        "envelope": impl.Envelope(1, 2, b"payload"),
        "stream data": impl.StreamData(1, b"data", eof=True),
        "window": impl.WindowProfile().first_part(1e6),
        "part request": impl.PartRequest(bytes(32), b"abcd" * 2, last_map_hash=b"1234"),
        "map update": impl.HashmapUpdate(bytes(32), 1, bytes(8)),
        "message": impl.Message.create(owner, bytes(16), "content", title="title", timestamp=1.5),
        "propagated": impl.Propagated.from_data(bytes(112), stamp=bytes(32)),
        "delivery data": impl.DeliveryAppData(display_name="é", stamp_cost=5),
        "node data": impl.PropagationAppData(
            time=1, active=True, peering_cost=5, name="node", **node
        ),
        "stamp": impl.Workblock(b"material", 1).search(0, start=bytes(32)),
    }


@pytest.mark.parametrize("name", [name for name in objects(pure) if name != "stamp"])
def test_objects_print_alike(name: str) -> None:
    assert repr(objects(core)[name]) == repr(objects(pure)[name])


@pytest.mark.parametrize("impl", [core, pure])
def test_nothing_secret_is_printed(impl: Any) -> None:
    for name, value in objects(impl).items():
        shown = repr(value)
        assert PRIVATE[:8].hex() not in shown, name
        assert repr(PRIVATE)[2:20] not in shown, name


@pytest.mark.parametrize("impl", [core, pure])
@pytest.mark.parametrize("name", objects(pure))
def test_objects_do_not_change(impl: Any, name: str) -> None:
    one, other = objects(impl)[name], objects(impl)[name]
    if name not in ("ratchets", "stamp"):  # a stamp has a duration
        assert one == other
        assert (one != other) is False
        assert hash(one) == hash(other)
    assert one != name
    attributes = [key for key in dir(one) if not key.startswith("_")]
    fields = [key for key in attributes if not callable(getattr(type(one), key))]
    for field in (*fields, "no_such_attribute"):
        # A frozen dataclass with slots complains of a TypeError for properties.
        with pytest.raises((AttributeError, TypeError)):
            setattr(one, field, None)
        with pytest.raises((AttributeError, TypeError)):
            delattr(one, field)
    if name not in ("ratchets", "stamp"):
        assert one == other


def parameters(function: Any) -> list[Any]:
    """Names, kinds and defaults; how self is declared is left out."""
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in found if one.name != "self"]


# What a text signature cannot say, or says in fewer words.
DECLARED_OTHERWISE = {"DeliveryAppData", "Destination.packet"}
MADE_ELSEWHERE = {"Assembled", "Decrypted", "Stamp"}


# State machines in Python that both implementations share or specialise.
MACHINES = {
    "Outgoing",
    "ReceiverMachine",
    "ResourceQueue",
    "ResourceReceiver",
    "ResourceSender",
    "SenderMachine",
}


@pytest.mark.parametrize("name", sorted({*vars(pure)} - {"Verdict", "stamp"}))  # not the core's
def test_signatures_agree(name: str) -> None:
    ours, theirs = getattr(pure, name), getattr(resource if name in MACHINES else core, name)
    pairs = {name: (ours, theirs)}
    if inspect.isclass(ours):
        members = [member for member in dir(ours) if not member.startswith("_")]
        assert members == [member for member in dir(theirs) if not member.startswith("_")]
        pairs |= {
            f"{name}.{member}": (getattr(ours, member), getattr(theirs, member))
            for member in members
            if callable(getattr(ours, member)) and not hasattr(bytes, member)
        }
        if issubclass(ours, NotConstructible | bytes) or name in MADE_ELSEWHERE:
            del pairs[name]
    for shown, (one, other) in pairs.items():
        if shown not in DECLARED_OTHERWISE:
            assert parameters(one) == parameters(other), shown
