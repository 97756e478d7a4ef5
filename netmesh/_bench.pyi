# The native timing loops of the comparison report (benchmarks/native); used by
# netmesh.bench alone.
from typing import Final, Literal, final

COMPILER: Final[str]  # what it was built with

@final
class Prepared:
    """A row with its inputs, ready to be run. Confined to one thread."""
    def block(self, ns: int, /) -> tuple[int, int, int, int, str]: ...  # (calls, wall ns, CPU ns, input of the last call, fingerprint of its output)
    def singles(self, count: int, /) -> tuple[list[list[int]], int, int, int]: ...  # ([[upper ns, count], ...], max ns, calls each entry spans, ns of reading the clock)

@final
class Node:
    """One side of a row between two processes, with a loop of its own. Confined to one thread."""
    def __new__(cls, server: bool, port: int, kind: str, /) -> Node: ...  # LookupError: unknown kind; RuntimeError
    def close(self) -> None: ...
    def listen(self, name: str, private_key: bytes, /) -> bytes: ...  # the destination's hash
    def serve(self) -> None: ...                     # a thread of its own answers from now on
    def announce(self) -> None: ...
    def meet(self, destination: bytes, timeout_ms: int, /) -> None: ...
    def take(self) -> list[tuple[int, bytes | None]]: ...  # arrivals: (monotonic ns, payload; None for a link)
    def run(self, destinations: bytes, payloads: bytes, size: int, items: int, first: int, count: int, pace_us: int, timeout_ms: int,
            compress: bool, /) -> tuple[list[int], list[int], int, str | None]: ...  # (samples ns, starts ns, failed, first error)

def rows(arm: Literal["core", "library"], /) -> list[tuple[str, str]]: ...  # (id, note) of the rows that this CPU can run
def prepare(arm: Literal["core", "library"], row: str, /) -> Prepared: ...  # LookupError: unknown row; RuntimeError: wrong output
