"""Paper messages: URI and limits, against upstream (LXMF 12)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from golden import name_of, raw, vectors
from netmesh import errors
from netmesh.constants import LXMF_PAPER_MDU


def paper_of(impl: Any, given: dict[str, Any]) -> Any:
    """The paper message that a vector describes."""
    alice = impl.Identity.from_private(raw(given["source_private_key"]))
    bob = impl.Identity.from_private(raw(given["destination_private_key"]))
    message = impl.Message.create(
        alice,
        impl.delivery_hash(bob),
        raw(given["content"]),
        title=raw(given["title"]),
        timestamp=given["timestamp"],
    )
    return impl.Propagated.create(
        message,
        bob,
        ephemeral_private=raw(given["ephemeral_private_key"]),
        iv=raw(given["iv"]),
    )


@pytest.mark.parametrize("vector", vectors("lxmf", "paper"), ids=name_of)
def test_paper_messages_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """Vectors `paper`: bytes, URI, transient id; and back."""
    given, out = vector["input"], vector["output"]
    paper = paper_of(impl, given)
    assert impl.paper_pack(paper).hex() == out["paper_packed"]
    assert len(impl.paper_pack(paper)) == out["paper_packed_len"]
    assert impl.paper_uri(paper) == out["uri"]
    assert paper.transient_id.hex() == out["transient_id"]
    found = impl.paper_uri_unpack(out["uri"])
    assert found == paper
    assert found.stamp is None
    bob = impl.Identity.from_private(raw(given["destination_private_key"]))
    message = found.open(bob)
    assert message.id.hex() == out["message_id"]
    assert message.packed.hex() == out["packed"]


@pytest.mark.parametrize("vector", vectors("lxmf", "paper_decode"), ids=name_of)
def test_the_published_example_is_read_but_not_opened(impl: Any, vector: dict[str, Any]) -> None:
    """Vector `paper_decode`: made with a key derivation that is no longer in use."""
    out = vector["output"]
    paper = impl.paper_uri_unpack(vector["input"]["uri"])
    assert paper.lxmf_data.hex() == out["paper_packed"]
    assert paper.destination_hash.hex() == out["destination_hash"]
    assert paper.transient_id.hex() == out["transient_id"]
    owner = impl.Identity.from_private(raw(vector["input"]["private_key"]))
    assert (impl.delivery_hash(owner) == paper.destination_hash) is out["delivery_hash_matches"]
    with pytest.raises(errors.AuthenticationError):
        paper.open(owner)
    shared = impl.x25519(owner.private_key[:32], paper.lxmf_data[16:48])
    legacy = impl.Token(impl.hkdf(32, shared, owner.hash))
    assert legacy.open(paper.lxmf_data[48:]).hex() == out["decrypted_legacy"]


def test_paper_holds_2210_bytes(impl: Any) -> None:
    """Vector `paper_limit`: the largest content that fits."""
    (vector,) = vectors("lxmf", "paper_limit")
    out = vector["output"]
    assert out["PAPER_MDU"] == LXMF_PAPER_MDU
    alice, bob = impl.Identity(), impl.Identity()

    def paper(size: int) -> Any:
        message = impl.Message.create(alice, impl.delivery_hash(bob), b"p" * size)
        return impl.Propagated.create(message, bob)

    largest = paper(out["largest_content_len"])
    assert len(impl.paper_pack(largest)) == out["largest_paper_packed"]
    assert impl.paper_uri_unpack(impl.paper_uri(largest)) == largest
    for make in (impl.paper_pack, impl.paper_uri):
        with pytest.raises(errors.EncodeError) as caught:
            make(paper(out["first_rejected_content_len"]))
        assert caught.value.reason == "TOO_LARGE"
        with pytest.raises(TypeError):
            make(b"bytes")


def test_uris_are_read_in_every_form_they_come_in(impl: Any) -> None:
    """LXMF 12: scheme in either case, slashes deleted, padding supplied or there."""
    for size in (112, 113, 114):
        data = bytes(range(size))
        text = base64.urlsafe_b64encode(data).decode()
        bare = text.rstrip("=")
        for uri in (
            f"lxm://{bare}",
            f"LXM://{bare}",
            f"Lxm://{text}",
            f"lxm://{bare[:7]}/{bare[7:]}/",
            f"lxm:///{text}",
        ):
            assert impl.paper_uri_unpack(uri).lxmf_data == data
        assert impl.paper_uri(impl.Propagated.from_data(data)) == f"lxm://{bare}"


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "VALUE"),
        ("lxm:/" + "A" * 152, "VALUE"),
        ("http://" + "A" * 152, "VALUE"),
        ("lxm://" + "A" * 151 + "+", "VALUE"),
        ("lxm://" + "A" * 151 + "\N{SNOWMAN}", "VALUE"),
        ("lxm://" + "A" * 151 + " ", "VALUE"),
        ("lxm://" + "A" * 150 + "=A", "VALUE"),
        ("lxm://", "LENGTH"),
        ("lxm://" + "A" * 148, "LENGTH"),
        ("lxm://" + "A" * 153, "LENGTH"),
        ("lxm://" + "A" * 2950, "TOO_LARGE"),
    ],
)
def test_damaged_uris_are_refused(impl: Any, uri: str, reason: str) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        impl.paper_uri_unpack(uri)
    assert (caught.value.reason, caught.value.field) == (reason, "uri")
    assert caught.value.codec == "lxmf"


def test_uris_are_text(impl: Any) -> None:
    with pytest.raises(TypeError):
        impl.paper_uri_unpack(b"lxm://" + b"A" * 152)
