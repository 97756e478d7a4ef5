"""netmesh: Reticulum and LXMF for Python agents, with the core in C.

The objects of the wire are here: identities and their hashes, destinations, packets,
announces, tokens. The submodules hold the functions around them and the other formats:

- :mod:`netmesh.crypto`, :mod:`netmesh.identity`, :mod:`netmesh.destination`,
  :mod:`netmesh.packet`, :mod:`netmesh.announce`: what the names below come from
- :mod:`netmesh.framing`, :mod:`netmesh.ifac`: frames and access codes of interfaces
- :mod:`netmesh.link`, :mod:`netmesh.control`, :mod:`netmesh.msgpack`: links and payloads
- :mod:`netmesh.resource`, :mod:`netmesh.channel`: files and streams over links
- :mod:`netmesh.lxmf`: messages, and their stamps in :mod:`netmesh.lxmf.stamp`
- :mod:`netmesh.engine`: the stack as one state machine, with :mod:`netmesh.events` and
  :mod:`netmesh.records`: what it tells and what its tables hold
- :mod:`netmesh.node`: an agent on asyncio, with :mod:`netmesh.interfaces`,
  :mod:`netmesh.destinations`, :mod:`netmesh.links`, :mod:`netmesh.transfers`,
  :mod:`netmesh.streams`, :mod:`netmesh.messaging`, :mod:`netmesh.metrics`,
  :mod:`netmesh.trouble`; :mod:`netmesh.loop`: the threads that nodes run on; and
  :mod:`netmesh.sync`: the same for scripts, without asyncio
- :mod:`netmesh.decisions`, :mod:`netmesh.constants`: the numbers and rules of the stack
- :mod:`netmesh.errors`: the one tree of exceptions
- :mod:`netmesh.pure`: the same objects in plain Python, to read and to compare

The exceptions are here too. Importing has no side effects; the first node starts a thread,
which ends with the last.

Example:
    >>> import netmesh
    >>> alice = netmesh.Identity()
    >>> inbox = netmesh.Destination(alice, "example.inbox")
    >>> announce = netmesh.Announce.unpack(inbox.announce(b"Alice").raw)
    >>> announce.validate()
    <Verdict.VALID: 'VALID'>
    >>> to_alice = netmesh.Destination(announce.identity, "example.inbox", direction="OUT")
    >>> packet = to_alice.packet(b"hello")
    >>> inbox.open(packet.payload).plaintext
    b'hello'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from netmesh import (
    announce,
    channel,
    constants,
    control,
    crypto,
    decisions,
    destination,
    errors,
    framing,
    identity,
    ifac,
    link,
    msgpack,
    packet,
)
from netmesh._core import (
    Announce,
    AnnounceCache,
    Decrypted,
    Destination,
    DestinationHash,
    Identity,
    IdentityHash,
    Packet,
    PathResponses,
    Ratchets,
    Token,
)
from netmesh._verdict import Verdict
from netmesh._version import __version__
from netmesh.errors import (
    AuthenticationError,
    CancelledError,
    ChannelClosedError,
    ChannelError,
    DecodeError,
    DeliveryError,
    EncodeError,
    IdentityUnknownError,
    InterfaceError,
    KeyMissingError,
    LimitError,
    LimitReached,
    LinkError,
    MessageTooLargeError,
    MessageTypeError,
    NetmeshError,
    NoRouteError,
    NotFoundError,
    OperationError,
    PathError,
    ProofError,
    RefusedError,
    RequestError,
    ResourceError,
    SendError,
    StateError,
    StoreError,
    StreamError,
    TransferError,
    WindowFullError,
)

if TYPE_CHECKING:
    from netmesh import (
        channels,
        destinations,
        engine,
        events,
        interfaces,
        links,
        loop,
        lxmf,
        messaging,
        metrics,
        node,
        records,
        resource,
        streams,
        sync,
        transfers,
        trouble,
    )
    from netmesh.destinations import FileResponse
    from netmesh.engine import Engine
    from netmesh.links import Link
    from netmesh.loop import Loop
    from netmesh.node import Node

__all__ = [
    "Announce",
    "AnnounceCache",
    "AuthenticationError",
    "CancelledError",
    "ChannelClosedError",
    "ChannelError",
    "DecodeError",
    "Decrypted",
    "DeliveryError",
    "Destination",
    "DestinationHash",
    "EncodeError",
    "Engine",
    "FileResponse",
    "Identity",
    "IdentityHash",
    "IdentityUnknownError",
    "InterfaceError",
    "KeyMissingError",
    "LimitError",
    "LimitReached",
    "Link",
    "LinkError",
    "Loop",
    "MessageTooLargeError",
    "MessageTypeError",
    "NetmeshError",
    "NoRouteError",
    "Node",
    "NotFoundError",
    "OperationError",
    "Packet",
    "PathError",
    "PathResponses",
    "ProofError",
    "Ratchets",
    "RefusedError",
    "RequestError",
    "ResourceError",
    "SendError",
    "StateError",
    "StoreError",
    "StreamError",
    "Token",
    "TransferError",
    "Verdict",
    "WindowFullError",
    "__version__",
    "announce",
    "channel",
    "channels",
    "constants",
    "control",
    "crypto",
    "decisions",
    "destination",
    "destinations",
    "engine",
    "errors",
    "events",
    "framing",
    "identity",
    "ifac",
    "interfaces",
    "link",
    "links",
    "loop",
    "lxmf",
    "messaging",
    "metrics",
    "msgpack",
    "node",
    "packet",
    "records",
    "resource",
    "streams",
    "sync",
    "transfers",
    "trouble",
]

# Loaded when they are first asked for: who only wants the codecs waits for nothing else.
_MODULES_LATER = (
    "channels",
    "destinations",
    "engine",
    "events",
    "interfaces",
    "links",
    "loop",
    "lxmf",
    "messaging",
    "metrics",
    "node",
    "records",
    "resource",
    "streams",
    "sync",
    "transfers",
    "trouble",
)
_NAMES_LATER = {
    "Engine": "netmesh.engine",
    "FileResponse": "netmesh.destinations",
    "Link": "netmesh.links",
    "Loop": "netmesh.loop",
    "Node": "netmesh.node",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES_LATER:
        return import_module(f"netmesh.{name}")
    if name in _NAMES_LATER:
        return getattr(import_module(_NAMES_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
