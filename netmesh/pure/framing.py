"""Framing of stream media: HDLC-like (RNS 1, 7.1) and KISS (RNS 1, 7.2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, final

from netmesh.pure._wire import fault, to_bytes, to_int

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "HdlcDecoder",
    "KissDecoder",
    "hdlc_escape",
    "hdlc_frame",
    "hdlc_unescape",
    "hdlc_unframe",
    "kiss_escape",
    "kiss_frame",
    "kiss_unescape",
    "kiss_unframe",
]

HDLC_FLAG = b"\x7e"
HDLC_PAIRS = {b"\x7e": b"\x7d\x5e", b"\x7d": b"\x7d\x5d"}
HDLC_SPECIAL = re.compile(rb"[\x7e\x7d]")
HDLC_ESCAPED = re.compile(rb"\x7d[\x5d\x5e]")
HDLC_STRICT = re.compile(rb"\x7e|\x7d[\x5d\x5e]?")
HDLC_MINIMUM = 20
HDLC_MAXIMUM = 262144 + 64

KISS_FEND = b"\xc0"
KISS_PAIRS = {b"\xc0": b"\xdb\xdc", b"\xdb": b"\xdb\xdd"}
KISS_SPECIAL = re.compile(rb"[\xc0\xdb]")
KISS_STRICT = re.compile(rb"\xc0|\xdb[\xdc\xdd]?")
KISS_LENIENT = re.compile(rb"\xdb+(.?)", re.DOTALL)
KISS_MAXIMUM = 564 + 64
KISS_DATA = 0x00
KISS_READY = 0x0F

# Without a limit of its own a stream decoder gives up a frame at this size.
BUFFER_MAXIMUM = 1 << 20


def reversed_pairs(pairs: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """From escape sequences to what they stand for."""
    return {sequence: byte for byte, sequence in pairs.items()}


def strict_unescape(
    data: bytes, pattern: re.Pattern[bytes], pairs: dict[bytes, bytes], codec: str, base: int
) -> bytes:
    """Undoes escapes; a bare special byte is an ESCAPE fault. ``base`` is data's offset."""
    originals = reversed_pairs(pairs)

    def original(match: re.Match[bytes]) -> bytes:
        if match[0] not in originals:
            raise fault("ESCAPE", codec, "frame", base + match.start())
        return originals[match[0]]

    return pattern.sub(original, data)


def content_of(frame: bytes, flag: bytes, codec: str) -> bytes:
    """What lies between the flags of exactly one frame."""
    if not frame:
        raise fault("TRUNCATED", codec, "frame")
    if not frame.startswith(flag):
        raise fault("VALUE", codec, "frame")
    content, closing, rest = frame[1:].partition(flag)
    if not closing:
        raise fault("TRUNCATED", codec, "frame", len(frame))
    if not content:
        raise fault("EMPTY", codec, "frame", 1)
    if rest:
        raise fault("TRAILING", codec, "frame", len(frame) - len(rest))
    return content


# ---------------------------------------------------------------- HDLC


def hdlc_escape(data: Buffer, /) -> bytes:
    """7d becomes 7d 5d, 7e becomes 7d 5e; nothing else is escaped."""
    return HDLC_SPECIAL.sub(lambda match: HDLC_PAIRS[match[0]], to_bytes(data, "data"))


def hdlc_unescape(data: Buffer, /) -> bytes:
    """The inverse; DecodeError ESCAPE for a flag inside or a sequence that is none."""
    return strict_unescape(to_bytes(data, "data"), HDLC_STRICT, HDLC_PAIRS, "hdlc", 0)


def hdlc_frame(data: Buffer, /) -> bytes:
    """7e | escaped | 7e; a sender writes both flags of every frame."""
    return HDLC_FLAG + hdlc_escape(data) + HDLC_FLAG


def hdlc_unframe(frame: Buffer, /) -> bytes:
    """The content of exactly one frame.

    Raises:
        DecodeError: TRUNCATED, VALUE (no flag first), EMPTY, TRAILING, ESCAPE.
    """
    content = content_of(to_bytes(frame, "frame"), HDLC_FLAG, "hdlc")
    return strict_unescape(content, HDLC_STRICT, HDLC_PAIRS, "hdlc", 1)


@final
class HdlcDecoder:
    """A streaming decoder: feed bytes, get frames, as TCP readers do (RNS 1, 7.1).

    One flag may close a frame and open the next. Frames shorter than ``min_bytes`` or
    longer than ``max_bytes`` are counted and dropped; an invalid escape keeps both
    bytes. When more than twice ``max_bytes`` wait for a flag they are given up.
    ``max_bytes`` 0 means no limit beyond 1 MiB. Belongs to one thread at a time.
    """

    __slots__ = ("_counters", "_maximum", "_minimum", "_pending")

    def __init__(self, *, min_bytes: int = HDLC_MINIMUM, max_bytes: int = HDLC_MAXIMUM) -> None:
        self._minimum = to_int(min_bytes, "min_bytes", 0, 2**31 - 1)
        self._maximum = to_int(max_bytes, "max_bytes", 0, 2**31 - 1) or BUFFER_MAXIMUM
        self._counters = {"frames": 0, "runts": 0, "oversize": 0, "discarded_bytes": 0}
        self._pending: bytearray | None = None  # raw bytes since a flag; None before the first

    def feed(self, data: Buffer, /) -> list[bytes]:
        """The frames that ``data`` completes; never fails."""
        frames = []
        *closed, last = to_bytes(data, "data").split(HDLC_FLAG)
        for run in closed:
            if self._pending is None:
                self._counters["discarded_bytes"] += len(run)
            else:
                frames += self._judge(bytes(self._pending + run))
            self._pending = bytearray()
        if self._pending is None:
            self._counters["discarded_bytes"] += len(last)
        else:
            self._pending += last
            if len(self._pending) >= 2 * self._maximum:
                self._drop("oversize", bytes(self._pending))
                self._pending = None
        return frames

    def _judge(self, raw: bytes) -> list[bytes]:
        frame = HDLC_ESCAPED.sub(lambda match: bytes([match[0][1] ^ 0x20]), raw)
        if not frame:
            return []
        if len(frame) > self._maximum:
            return self._drop("oversize", raw)
        if len(frame) < self._minimum:
            return self._drop("runts", raw)
        self._counters["frames"] += 1
        return [frame]

    def _drop(self, counter: str, raw: bytes) -> list[bytes]:
        self._counters[counter] += 1
        self._counters["discarded_bytes"] += len(raw)
        return []

    def reset(self) -> None:
        """Forgets a partial frame; counters stay."""
        self._pending = None

    @property
    def buffered(self) -> int:
        """Bytes of the partial frame."""
        return len(self._pending or b"")

    @property
    def counters(self) -> dict[str, int]:
        """frames, runts, oversize, discarded_bytes."""
        return dict(self._counters)


# ---------------------------------------------------------------- KISS


def kiss_escape(data: Buffer, /) -> bytes:
    """Db becomes db dd, c0 becomes db dc."""
    return KISS_SPECIAL.sub(lambda match: KISS_PAIRS[match[0]], to_bytes(data, "data"))


def kiss_unescape(data: Buffer, /) -> bytes:
    """The inverse; DecodeError ESCAPE for a delimiter inside or a sequence that is none."""
    return strict_unescape(to_bytes(data, "data"), KISS_STRICT, KISS_PAIRS, "kiss", 0)


def kiss_frame(data: Buffer, /, *, command: int = KISS_DATA) -> bytes:
    """c0 | command | escaped | c0; the command byte is not escaped."""
    code = to_int(command, "command", 0, 0xFF)
    if code == KISS_FEND[0]:
        raise ValueError("command must not be the frame delimiter 0xc0")
    return KISS_FEND + bytes([code]) + kiss_escape(data) + KISS_FEND


def kiss_unframe(frame: Buffer, /) -> bytes:
    """The content of exactly one frame, whatever its command.

    Raises:
        DecodeError: TRUNCATED, VALUE (no delimiter first), EMPTY, TRAILING, ESCAPE.
    """
    content = content_of(to_bytes(frame, "frame"), KISS_FEND, "kiss")
    return strict_unescape(content[1:], KISS_STRICT, KISS_PAIRS, "kiss", 2)


@final
class KissDecoder:
    """As HdlcDecoder for KISS (RNS 1, 7.2): only the low nibble of the command counts.

    Data frames are delivered, READY (0x0f) ones counted, others counted as foreign. In
    an escape another byte passes unchanged. Belongs to one thread at a time.
    """

    __slots__ = (
        "_command",
        "_counters",
        "_escape",
        "_frame",
        "_maximum",
        "_open",
        "_raw",
        "_too_long",
    )

    def __init__(self, *, max_bytes: int = KISS_MAXIMUM) -> None:
        self._maximum = to_int(max_bytes, "max_bytes", 0, 2**31 - 1) or BUFFER_MAXIMUM
        names = ("frames", "oversize", "foreign_commands", "ready", "discarded_bytes")
        self._counters = dict.fromkeys(names, 0)
        self.reset()

    def reset(self) -> None:
        """Forgets a partial frame; counters stay."""
        self._restart(False)

    def _restart(self, is_open: bool) -> None:
        self._open = is_open
        self._command: int | None = None
        self._frame = b""  # unescaped so far
        self._too_long = False  # then nothing of it is kept
        self._raw = 0  # bytes since the delimiter
        self._escape = False

    def feed(self, data: Buffer, /) -> list[bytes]:
        """The data frames that ``data`` completes; never fails."""
        frames = []
        *closed, last = to_bytes(data, "data").split(KISS_FEND)
        for run in closed:
            self._append(run)
            frames += self._judge() if self._open else []
            self._restart(True)
        self._append(last)
        return frames

    def _append(self, run: bytes) -> None:
        if not self._open:
            self._counters["discarded_bytes"] += len(run)
            return
        self._raw += len(run)
        if run and self._command is None:
            self._command = run[0] & 0x0F
            run = run[1:]
        if self._command != KISS_DATA or self._too_long:
            return
        run = b"\xdb" * self._escape + run
        self._escape = run.endswith(b"\xdb")
        self._frame += KISS_LENIENT.sub(lenient_original, run)
        self._too_long = len(self._frame) > self._maximum
        if self._too_long:
            self._frame = b""

    def _judge(self) -> list[bytes]:
        if self._command is None:  # two delimiters in a row
            return []
        if self._command == KISS_DATA and self._frame:
            self._counters["frames"] += 1
            return [self._frame]
        if self._command == KISS_READY:
            self._counters["ready"] += 1
        elif self._command != KISS_DATA:
            self._counters["foreign_commands"] += 1
        elif self._too_long:
            self._counters["oversize"] += 1
        self._counters["discarded_bytes"] += self._raw
        return []

    @property
    def buffered(self) -> int:
        """Bytes of the partial frame; 0 once it is too long to keep."""
        return len(self._frame)

    @property
    def counters(self) -> dict[str, int]:
        """frames, oversize, foreign_commands, ready, discarded_bytes."""
        return dict(self._counters)


def lenient_original(match: re.Match[bytes]) -> bytes:
    """What one or more db and the byte after them stand for in a stream."""
    return {b"\xdc": b"\xc0", b"\xdd": b"\xdb"}.get(match[1], match[1])
