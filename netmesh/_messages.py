"""Messages of channels as objects: classes by type, and handlers in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, TypeVar, final

from netmesh.constants import CHANNEL_RESERVED, CHANNEL_STREAM_DATA
from netmesh.errors import MessageTooLargeError, MessageTypeError

__all__ = ["MessageTypes", "RawMessage", "Received", "TypedMessage"]

TYPES_MAX: Final = 1024


class TypedMessage(ABC):
    """A message of a channel: subclasses have a type, and say how they become bytes.

    ``MSGTYPE`` is a number below 0xF000 that both ends agree on.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Line(TypedMessage):
        ...     MSGTYPE = 0x0101
        ...     text: str
        ...
        ...     def pack(self) -> bytes:
        ...         return self.text.encode()
        ...
        ...     @classmethod
        ...     def unpack(cls, data: bytes) -> "Line":
        ...         return cls(data.decode())
        >>> Line.unpack(Line("hello").pack())
        Line(text='hello')
    """

    MSGTYPE: ClassVar[int]

    @abstractmethod
    def pack(self) -> bytes:
        """Its content for the wire."""

    @classmethod
    @abstractmethod
    def unpack(cls, data: bytes) -> Self:
        """A message from its content. What it raises drops the message."""


@final
@dataclass(frozen=True, slots=True)
class RawMessage:
    """A message without a class: its type and content as they are on the wire."""

    msgtype: int
    """Its type, below 0xF000."""
    data: bytes
    """Its content."""


Received = TypedMessage | RawMessage
"""What a channel gives: objects of registered classes, everything else raw."""

M = TypeVar("M", bound=type[TypedMessage])


def type_of(cls: type[TypedMessage]) -> int:
    """The type of a class. Raises MessageTypeError when it has no usable one."""
    name = getattr(cls, "__name__", repr(cls))
    msgtype = getattr(cls, "MSGTYPE", None)
    if not isinstance(msgtype, int) or isinstance(msgtype, bool) or not 0 <= msgtype <= 0xFFFF:
        raise MessageTypeError(f"{name}.MSGTYPE must be a number from 0 to 0xEFFF, not {msgtype!r}")
    if msgtype >= CHANNEL_RESERVED:
        raise MessageTypeError(
            f"{name}.MSGTYPE is {msgtype:#06x}: types from 0xF000 on are reserved",
            reason="RESERVED",
            msgtype=msgtype,
        )
    if not callable(getattr(cls, "pack", None)) or not callable(getattr(cls, "unpack", None)):
        raise MessageTypeError(f"{name} must have pack() and unpack()", msgtype=msgtype)
    return msgtype


def packed(message: Received, mdu: int) -> tuple[int, bytes]:
    """Type and content of a message for a channel whose longest one has ``mdu`` bytes."""
    if isinstance(message, RawMessage):
        msgtype, data = message.msgtype, message.data
        if msgtype >= CHANNEL_RESERVED and msgtype != CHANNEL_STREAM_DATA:
            raise MessageTypeError(
                f"type {msgtype:#06x} is reserved", reason="RESERVED", msgtype=msgtype
            )
    else:
        msgtype, data = type_of(type(message)), message.pack()
    if len(data) > mdu:
        raise MessageTooLargeError(
            f"a message of {len(data)} bytes; the channel takes {mdu}",
            size_bytes=len(data),
            mdu=mdu,
        )
    return msgtype, data


@final
class MessageTypes:
    """The classes that a channel knows, and the handlers of what comes."""

    __slots__ = ("_classes", "_handlers", "_report")

    def __init__(self, report: Callable[[str, BaseException], object]) -> None:
        self._classes: dict[int, type[TypedMessage]] = {}
        self._handlers: list[Callable[[Any], Any]] = []
        self._report = report

    def __contains__(self, msgtype: int) -> bool:
        return msgtype in self._classes

    def register(self, cls: M) -> M:
        """Adds a class. Raises MessageTypeError; quiet when it is there."""
        msgtype = type_of(cls)
        other = self._classes.get(msgtype)
        if other is not None and other is not cls:
            raise MessageTypeError(
                f"type {msgtype:#06x} of {cls.__name__} is that of {other.__name__}",
                reason="DUPLICATE_KEY",
                msgtype=msgtype,
            )
        if other is None and len(self._classes) >= TYPES_MAX:
            raise MessageTypeError("too many types", reason="LIMIT", msgtype=msgtype)
        self._classes[msgtype] = cls
        return cls

    def unpack(self, msgtype: int, data: bytes) -> Received | None:
        """The message, raw when its type has no class; None, reported, when it is broken."""
        cls = self._classes.get(msgtype)
        if cls is None:
            return RawMessage(msgtype, data)
        try:
            return cls.unpack(data)
        except Exception as error:
            self._report(f"a message for {cls.__name__} could not be unpacked", error)
            return None

    # ---------------------------------------------------------------- handlers

    @property
    def handlers(self) -> tuple[Callable[[Any], Any], ...]:
        """In the order of their calls."""
        return tuple(self._handlers)

    def add(self, handler: Callable[[Any], Any]) -> None:
        """Adds a handler behind the others; quiet when it is there."""
        if handler not in self._handlers:
            self._handlers.append(handler)

    def remove(self, handler: Callable[[Any], Any]) -> None:
        """Takes a handler out; quiet when it is not there."""
        if handler in self._handlers:
            self._handlers.remove(handler)

    def failed(self, handler: Callable[[Any], Any], error: BaseException) -> None:
        """Reports what a handler raised; the next one is called all the same."""
        self._report(f"{getattr(handler, '__name__', 'a handler')} failed", error)

    def call(self, message: Received) -> bool:
        """Calls plain handlers in order until one returns True; whether one did."""
        for handler in self.handlers:
            try:
                if handler(message) is True:
                    return True
            except Exception as error:
                self.failed(handler, error)
        return False
