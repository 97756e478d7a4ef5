"""How much memory hostile input takes at its peak; a program of its own.

Each case runs in a child made by fork, whose peak counts from what it began with. A case
may take a few times its input, what its own limits allow (a size, a number of elements)
and the working memory of the decompressor. Prints each case that takes more or is not
refused where it must be; ends with 1 if any does.

    peaks.py core|pure            all cases
    peaks.py core|pure --hungry   one that takes too much, and one that is not refused
"""

from __future__ import annotations

import bz2
import os
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from typing import Any

from netmesh import _core, pure
from netmesh.errors import NetmeshError

KB = 1024
MB = 1024 * KB
SLACK = 2 * MB
# Each element may cost an object, a place in its container and a place in a dict.
ELEMENT = 160
# bzip2 keeps 3.7 MB while it inflates blocks of 900 kB, as every peer may send them.
BZ2 = 4 * MB
BOMB = bz2.compress(bytes(64 * MB))
INPUT = 512 * KB

Case = tuple[str, int, Callable[[], object]]


def names(module: ModuleType) -> dict[str, Any]:
    """All public names of a module and of the modules it shows."""
    found: dict[str, Any] = {}
    for name in module.__all__:
        value = getattr(module, name)
        found |= names(value) if isinstance(value, ModuleType) else {name: value}
    return found


def assembled(impl: Any, max_size: int) -> Callable[[], object]:
    """Joining a resource of one byte, as it says, that inflates to 64 MB."""
    segment = impl.Segmenter(b"x", lambda _: b"pppp" + BOMB)
    plain = segment.advertisement
    values = {name: getattr(plain, name) for name in FIELDS}
    values["flags"] = impl.advertisement_flags(compressed=True)
    assembler = impl.Assembler(impl.Advertisement(**values))
    for index in range(segment.parts):
        assembler.add(segment.part(index))
    return lambda: assembler.finish(lambda stream: stream, max_size=max_size)


FIELDS = (
    "transfer_bytes",
    "data_bytes",
    "parts",
    "hash",
    "random_hash",
    "original_hash",
    "segment",
    "segments",
    "request_id",
    "hashmap",
)


def advertised(impl: Any) -> bytes:
    """An advertisement of as many parts and bytes as fit its numbers, with one hash."""
    most = 2**64 - 1
    keys = {"t": most, "d": most, "n": most, "h": bytes(32), "r": bytes(4), "o": bytes(32)}
    packed: bytes = impl.packb({**keys, "i": 1, "l": most, "q": None, "f": 1, "m": bytes(4)})
    return packed


def counted(code: int, count: int = 2**32 - 1) -> bytes:
    """The header of a container or string with a length of 32 bits."""
    return bytes([code]) + struct.pack(">I", count)


def decoders(impl: Any) -> dict[str, Callable[[bytes], object]]:
    """What reads MessagePack that a peer chose."""
    head = bytes(96)
    return {
        "unpackb": impl.unpackb,
        "canonical": impl.canonical,
        "Request": impl.Request.unpack,
        "request data": lambda data: impl.Request.unpack(
            b"\x93\xcb" + bytes(8) + b"\xc4\x10" + bytes(16) + data
        ),
        "Response": lambda data: impl.Response.unpack(b"\x92\xc4\x10" + bytes(16) + data),
        "Advertisement": impl.Advertisement.unpack,
        "HashmapUpdate": lambda data: impl.HashmapUpdate.unpack(bytes(32) + data),
        "Message": lambda data: impl.Message.unpack(head + data),
        "fields": lambda data: (
            impl.Message.unpack(head + b"\x94\x01\xc4\x00\xc4\x00" + data).fields
        ),
        "container": impl.container_unpack,
        "metadata": impl.metadata_unpack,
        "delivery data": impl.DeliveryAppData.unpack,
        "node data": impl.PropagationAppData.unpack,
    }


SHAPES = {
    "huge array": counted(0xDD),
    "huge map": counted(0xDF),
    "huge bin": counted(0xC6),
    "huge text": counted(0xDB),
    "huge ext": counted(0xC9),
    "huge arrays in each other": counted(0xDD, 2**31) * 1000,
    "huge maps in each other": (counted(0xDF, 2**31) + b"\x01") * 1000,
    "deep arrays": b"\x91" * INPUT,
    "deep maps": b"\x81\x01" * (INPUT // 2),
    "deep keys": (b"\x81" + b"\x91" * 60) * (INPUT // 61),
}


def refused(run: Callable[[], object]) -> Callable[[], None]:
    """A call that must raise an error of the documented tree."""

    def wrapped() -> None:
        with suppress(NetmeshError):
            run()
            raise AssertionError("it is not refused")

    return wrapped


def either(run: Callable[[], object]) -> Callable[[], None]:
    """A call that may raise such an error."""

    def wrapped() -> None:
        with suppress(NetmeshError):
            run()

    return wrapped


def feed(decoder: Any, piece: bytes) -> Callable[[], None]:
    """13 MB through a decoder; frames are dropped as they come."""

    def run() -> None:
        for _ in range(200):
            decoder.feed(piece)

    return run


def cases(impl: Any) -> Iterator[Case]:
    """Name, bytes that it may take, call."""
    for reader, decode in decoders(impl).items():
        for shape, data in SHAPES.items():
            lenient = reader.endswith("data")  # app data of any kind is taken as a name
            judge = either if lenient else refused
            run = judge(lambda decode=decode, data=data: decode(data))
            yield f"{reader}: {shape}", SLACK + 8 * len(data), run
    few = 1000
    for shape, item in {
        "arrays": b"\x90",
        "maps": b"\x80",
        "numbers": b"\xcf" + b"\xff" * 8,
    }.items():
        wide = counted(0xDD, INPUT) + item * INPUT
        yield (
            f"many {shape}, few allowed",
            SLACK + 2 * len(wide),
            refused(lambda wide=wide: impl.unpackb(wide, elements_max=few)),
        )
        yield (
            f"many {shape}",
            SLACK + 2 * len(wide) + INPUT * ELEMENT,
            lambda wide=wide: impl.unpackb(wide),
        )
    yield "bomb", SLACK + BZ2 + MB, refused(lambda: impl.bz2_decompress(BOMB, max_size=MB))
    stream = impl.StreamData(1, BOMB, compressed=True)
    yield "bomb in a stream", SLACK + BZ2, refused(stream.content)
    yield "bomb in a resource", SLACK + BZ2 + MB, refused(assembled(impl, MB))
    yield "huge resource", SLACK, refused(lambda: impl.Assembler(advertised(impl)))
    hdlc, piece = impl.HdlcDecoder, b"A" * 65536
    yield "frames", SLACK, feed(hdlc(), b"\x7e" + piece)
    yield "frame without end", SLACK, feed(hdlc(), piece)
    yield "frame without end or limit", SLACK + 3 * MB, feed(hdlc(max_bytes=0), piece)
    yield "KISS frames", SLACK, feed(impl.KissDecoder(), b"\xc0\x00" + piece)
    yield "KISS frame without end", SLACK, feed(impl.KissDecoder(), piece)


HUNGRY: list[Case] = [
    ("hungry", SLACK, lambda: bytearray(b"x") * (4 * SLACK)),
    ("lenient", SLACK, refused(lambda: None)),
]


def peak(run: Callable[[], object]) -> tuple[int, int]:
    """Exit status and peak memory in bytes of a child that runs the case."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status, usage = os.wait4(child, 0)
    unit = 1 if sys.platform == "darwin" else KB
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * unit


def main() -> int:
    """Runs the cases of one implementation; 1 when one of them fails."""
    impl = _core if sys.argv[1] == "core" else SimpleNamespace(**names(pure))
    wanted = HUNGRY if "--hungry" in sys.argv else cases(impl)
    bad = 0
    for name, allowed, run in wanted:
        _, before = peak(lambda: None)
        code, taken = peak(run)
        if code != 0 or taken - before > allowed:
            print(f"{name}: ended with {code}, took {(taken - before) // KB} of {allowed // KB} kB")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
