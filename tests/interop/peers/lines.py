"""What the upstream programs have in common: JSON lines, and content made from a seed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCK = threading.Lock()


def tell(event: str, **fields: Any) -> None:
    """Writes one event as a line; any thread may."""
    with LOCK:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def orders() -> Iterator[dict[str, Any]]:
    """The orders, one a line. The process ends with them, or when its parent is gone.

    Upstream's own exit handlers are passed over: they wait, and all is in a temporary folder.
    A file of its own is read: the processes that upstream forks close ``sys.stdin``, and would
    wait for ever for the lock that a thread which reads it has.
    """
    with open(0, closefd=False) as file:
        for line in file:
            yield json.loads(line)
    os._exit(0)


def content(seed: str, size: int, kind: str = "random") -> bytes:
    """Bytes that both sides can make: "random", or "text", which compresses well."""
    if kind == "text":
        line = f"{seed} all work and no play. ".encode()
        return (line * (size // len(line) + 1))[:size]
    return hashlib.shake_256(seed.encode()).digest(size)


def digest(data: bytes) -> str:
    """What names content in events."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: Path) -> str:
    """The same of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
