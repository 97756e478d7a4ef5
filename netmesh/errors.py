"""The one tree of exceptions that netmesh raises.

Every exception carries ``reason``, a short upper-case code from the list in
``csrc/base/status.h`` (``"TRUNCATED"``, ``"SIGNATURE"``, ...), so that programs
decide on a code and people read the sentence. The C core and the pure
reference raise the same classes.
"""

from __future__ import annotations

__all__ = [
    "AuthenticationError",
    "CancelledError",
    "ChannelClosedError",
    "ChannelError",
    "DecodeError",
    "DeliveryError",
    "EncodeError",
    "IdentityUnknownError",
    "InterfaceError",
    "KeyMissingError",
    "LimitError",
    "LimitReached",
    "LinkError",
    "MessageTooLargeError",
    "MessageTypeError",
    "NetmeshError",
    "NoRouteError",
    "NotFoundError",
    "OperationError",
    "PathError",
    "ProofError",
    "RefusedError",
    "RequestError",
    "ResourceError",
    "SendError",
    "StateError",
    "StoreError",
    "StreamError",
    "TransferError",
    "WindowFullError",
]


class NetmeshError(Exception):
    """Base of all errors of netmesh.

    ``reason`` is the code of the rule that was broken.
    """

    def __init__(self, message: str, *, reason: str = "ARGUMENT") -> None:
        super().__init__(message)
        self.reason = reason


class DecodeError(NetmeshError, ValueError):
    """Bytes from a peer or a file break a rule of their format.

    ``codec`` names the format ("packet", "announce", ...), ``field`` the part
    of it, ``offset`` the position in bytes from the start of the input.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "VALUE",
        codec: str = "",
        field: str = "",
        offset: int = 0,
    ) -> None:
        super().__init__(message, reason=reason)
        self.codec = codec
        self.field = field
        self.offset = offset


class LimitError(DecodeError):
    """A limit on depth, length, count or decompressed size was exceeded."""


class EncodeError(NetmeshError, ValueError):
    """A value cannot be put on the wire; ``field`` says which one."""

    def __init__(self, message: str, *, reason: str = "VALUE", field: str = "") -> None:
        super().__init__(message, reason=reason)
        self.field = field


class AuthenticationError(NetmeshError):
    """A message authentication code, signature or proof is wrong."""

    def __init__(self, message: str, *, reason: str = "AUTH") -> None:
        super().__init__(message, reason=reason)


class KeyMissingError(NetmeshError):
    """The operation needs a key that this object does not hold."""

    def __init__(self, message: str, *, reason: str = "NO_KEY") -> None:
        super().__init__(message, reason=reason)


class ResourceError(NetmeshError):
    """A resource could not be assembled; ``reason`` tells which check failed.

    "STATE" (parts are missing), "AUTH" (the stream does not decrypt), "COMPRESSED" (damaged
    bzip2 data), "LIMIT" (it inflates beyond the bound), "MISMATCH" (the hash is wrong),
    "VALUE" (the metadata block is damaged).
    """


class CancelledError(NetmeshError):
    """A long computation was cancelled or ran out of its time."""

    def __init__(self, message: str, *, reason: str = "CANCELLED") -> None:
        super().__init__(message, reason=reason)


class StateError(NetmeshError):
    """What was asked for is not possible now: a closed link, an answered request, ...

    ``reason`` tells apart: "STATE", "DUPLICATE_KEY" (it exists already), "MISMATCH" (it
    is known with another key).
    """

    def __init__(self, message: str, *, reason: str = "STATE") -> None:
        super().__init__(message, reason=reason)


class NoRouteError(StateError):
    """No interface can carry it now; ``interface`` names the one that should, if one does."""

    def __init__(
        self, message: str, *, reason: str = "STATE", interface: str | None = None
    ) -> None:
        super().__init__(message, reason=reason)
        self.interface = interface


class NotFoundError(NetmeshError, LookupError):
    """There is no such interface, destination, path, link, entry or handler."""

    def __init__(self, message: str, *, reason: str = "MISSING") -> None:
        super().__init__(message, reason=reason)


class LimitReached(NetmeshError):  # noqa: N818 - LimitError is about bytes that are decoded
    """A table or queue of the engine is full of entries that may not be evicted."""

    def __init__(self, message: str, *, reason: str = "LIMIT") -> None:
        super().__init__(message, reason=reason)


class OperationError(NetmeshError):
    """Something that a node was asked to do with a peer did not succeed.

    ``stage`` says where it failed: "PATH", "IDENTITY", "LINK", "SEND", "PROOF", "REQUEST",
    "HANDLER", "TRANSFER", "REFUSED", "STORE" or "CANCELLED"; ``reason`` says how: "TIMEOUT",
    "STATE", "CANCELLED", ... ``destination`` is where it was meant to go.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STATE",
        stage: str = "",
        destination: bytes | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.stage = stage
        self.destination = destination


class PathError(OperationError):
    """No path to the destination became known in time."""


class IdentityUnknownError(OperationError):
    """The destination's keys are not known: no announce of it was heard."""


class LinkError(OperationError):
    """A link was not established, or it ended; ``close_reason`` tells why.

    It is the name of a :class:`netmesh.records.CloseReason`, such as "TIMEOUT" or
    "DESTINATION", or empty when there never was a link.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STATE",
        stage: str = "LINK",
        destination: bytes | None = None,
        close_reason: str = "",
    ) -> None:
        super().__init__(message, reason=reason, stage=stage, destination=destination)
        self.close_reason = close_reason


class SendError(OperationError):
    """No interface took a packet."""


class ProofError(OperationError):
    """A packet was sent and not proven in time."""


class RequestError(OperationError):
    """A request was not answered; ``path`` is what was asked for."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STATE",
        stage: str = "REQUEST",
        destination: bytes | None = None,
        path: str = "",
    ) -> None:
        super().__init__(message, reason=reason, stage=stage, destination=destination)
        self.path = path


class TransferError(OperationError):
    """A resource did not arrive."""


class RefusedError(TransferError):
    """The peer refused a resource."""


class ChannelError(OperationError):
    """Something about the channel of a link, its messages or its streams."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STATE",
        stage: str = "",
        destination: bytes | None = None,
    ) -> None:
        super().__init__(message, reason=reason, stage=stage, destination=destination)


class ChannelClosedError(ChannelError, ConnectionError):
    """The channel is not open, or its link has ended.

    ``close_reason`` is the name of the link's :class:`netmesh.records.CloseReason`, or empty
    while there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STATE",
        stage: str = "LINK",
        destination: bytes | None = None,
        close_reason: str = "",
    ) -> None:
        super().__init__(message, reason=reason, stage=stage, destination=destination)
        self.close_reason = close_reason


class WindowFullError(ChannelError):
    """The window is full; it opens again when the peer has proven a message."""

    def __init__(self, message: str, *, reason: str = "LIMIT") -> None:
        super().__init__(message, reason=reason)


class MessageTypeError(ChannelError, ValueError):
    """A type of messages cannot be used as it was meant to be; ``msgtype`` is which.

    ``reason`` tells apart: "RESERVED" (0xF000 and above), "TYPE" (a class without a usable
    MSGTYPE, pack or unpack, or one that is not registered), "DUPLICATE_KEY" (another class has
    the type), "LIMIT" (too many types).
    """

    def __init__(self, message: str, *, reason: str = "TYPE", msgtype: int | None = None) -> None:
        super().__init__(message, reason=reason)
        self.msgtype = msgtype


class MessageTooLargeError(ChannelError, ValueError):
    """A message does not fit a packet: it has ``size_bytes``, and ``mdu`` is the most."""

    def __init__(
        self, message: str, *, reason: str = "TOO_LARGE", size_bytes: int = 0, mdu: int = 0
    ) -> None:
        super().__init__(message, reason=reason)
        self.size_bytes = size_bytes
        self.mdu = mdu


class DeliveryError(ChannelError):
    """A message was not proven: the link ended first, or it was cancelled.

    ``sequence`` and ``tries`` are those of the message; ``tries`` is 0 when it never left.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STATE",
        stage: str = "LINK",
        destination: bytes | None = None,
        sequence: int = 0,
        tries: int = 0,
    ) -> None:
        super().__init__(message, reason=reason, stage=stage, destination=destination)
        self.sequence = sequence
        self.tries = tries


class StreamError(ChannelError, OSError):
    """A stream of bytes cannot go on; ``stream`` is its id.

    ``reason`` tells apart: "STATE" (its end was written, or its id is taken), "RANGE" (no such
    id), and for what a peer sent: "TRUNCATED", "COMPRESSED", "LIMIT".
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STATE",
        stage: str = "",
        destination: bytes | None = None,
        stream: int = 0,
    ) -> None:
        super().__init__(message, reason=reason, stage=stage, destination=destination)
        self.stream = stream


class StoreError(OperationError):
    """What had to be durable could not be written, or what was stored cannot be read.

    ``reason`` tells apart: "FULL" (no room on the device), "STORE" (reading or writing failed),
    "TIMEOUT" (another process wrote for too long), "VALUE" (the file is another program's),
    "MODE" (a newer netmesh made it), "LIBRARY", ... ``damaged``: the content of the file is not
    what it should be. ``os_error`` is the system's number for what went wrong, if it gave one.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "STORE",
        stage: str = "STORE",
        destination: bytes | None = None,
        damaged: bool = False,
        os_error: int | None = None,
    ) -> None:
        super().__init__(message, reason=reason, stage=stage, destination=destination)
        self.damaged = damaged
        self.os_error = os_error


class InterfaceError(NetmeshError):
    """An interface could not be opened; ``interface`` is its label, ``os_error`` an errno."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "LIBRARY",
        interface: str = "",
        os_error: int | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.interface = interface
        self.os_error = os_error
