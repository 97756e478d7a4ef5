"""Names and the addresses made from them (RNS 1, 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netmesh.constants import NAME_HASH_SIZE, RequestPolicy
from netmesh.pure._addresses import DestinationHash, IdentityHash, address
from netmesh.pure._wire import of_size, to_int, to_sequence, to_text
from netmesh.pure.crypto import name_hash, truncated_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "check_request_handler",
    "destination_hash",
    "expand_name",
    "join_name",
    "name_hash_of",
    "path_hash",
    "split_name",
]


def split_name(name: str, /) -> tuple[str, tuple[str, ...]]:
    """A dotted name as application and aspects: "app.a.b" gives ("app", ("a", "b"))."""
    app, *aspects = to_text(name, "name").split(".")
    return app, tuple(aspects)


def join_name(app: str, /, *aspects: str) -> str:
    """The dotted name; a dot inside a part is a ValueError (RNS 1, 3.2)."""
    for part in (app, *aspects):
        if not isinstance(part, str):
            raise TypeError(f"app and aspects must be str, not {type(part).__name__}")
        if "." in part:
            raise ValueError(f"a part of a name must not contain a dot: {part!r}")
    return ".".join((app, *aspects))


def expand_name(identity_hash: IdentityHash | None, app: str, /, *aspects: str) -> str:
    """The full name that people see, ending with the identity's hex; never hashed."""
    name = join_name(app, *aspects)
    if identity_hash is None:
        return name
    return f"{name}.{address(identity_hash, 'identity_hash', IdentityHash).hex()}"


def name_hash_of(name: str | Buffer) -> bytes:
    """The 10-byte hash of a name given as text, or the hash itself."""
    if isinstance(name, str):
        return name_hash(name)
    return bytes(of_size(name, "name", NAME_HASH_SIZE))


def destination_hash(
    identity_hash: IdentityHash | Buffer | None, name: str | Buffer, /
) -> DestinationHash:
    """T(name hash | identity hash); T(name hash) without an identity (RNS 1, 3.2).

    ``name`` is the dotted text, or its 10-byte hash.
    """
    identity = b""
    if identity_hash is not None:
        identity = address(identity_hash, "identity_hash", IdentityHash)
    return DestinationHash(truncated_hash(name_hash_of(name) + identity))


def path_hash(path: str, /) -> bytes:
    """T(path): the 16 bytes that stand for a request path (RNS 1, 3.7)."""
    return truncated_hash(to_text(path, "path").encode())


def check_request_handler(
    path: str,
    /,
    *,
    policy: int = RequestPolicy.NONE,
    allowed: Sequence[IdentityHash | Buffer] | None = None,
) -> bytes:
    """Checks the arguments of a request handler; the 16-byte hash of its path (RNS 1, 3.7).

    Raises:
        ValueError: an empty path; an unknown policy; a list of allowed identities with
            another policy than LIST, or none with it.
    """
    to_text(path, "path")
    to_int(policy, "policy", RequestPolicy.NONE, RequestPolicy.LIST)
    if allowed is not None:
        for item in to_sequence(allowed, "allowed"):
            address(item, "allowed", IdentityHash)
    if not path:
        raise ValueError("path is empty")
    if (allowed is not None) != (policy == RequestPolicy.LIST):
        raise ValueError("allowed is given with the policy LIST and with no other")
    return path_hash(path)
