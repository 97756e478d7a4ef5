"""The values of the upstream stack in tests/vectors, and how they are written."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "vectors"


@cache
def _all(file: str) -> list[dict[str, Any]]:
    """The vectors of one file."""
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{file}.json").read_text())["vectors"]
    return found


def vectors(file: str, *kinds: str) -> list[dict[str, Any]]:
    """The vectors of some kinds, or all; at least one of each, so that no test runs empty."""
    found = [vector for vector in _all(file) if not kinds or vector["kind"] in kinds]
    missing = set(kinds) - {vector["kind"] for vector in found}
    if missing:
        raise LookupError(f"no vector of kind {', '.join(sorted(missing))} in {file}")
    return found


def named(file: str, name: str) -> dict[str, Any]:
    """The vector of that name."""
    return next(vector for vector in _all(file) if vector["name"] == name)


def name_of(vector: object) -> str:
    """For pytest: what to call a test that takes a vector."""
    return vector["name"] if isinstance(vector, dict) else str(vector)


def raw(text: str | None) -> bytes | None:
    """Bytes from hexadecimal; None stays None."""
    return None if text is None else bytes.fromhex(text)


def value(tagged: dict[str, Any]) -> Any:
    """The Python value of a tagged MessagePack value."""
    (tag, content), *_ = tagged.items()
    if tag == "nil":
        return None
    if tag == "bin":
        return bytes.fromhex(content)
    if tag == "arr":
        return [value(item) for item in content]
    if tag == "map":
        return {value(key): value(item) for key, item in content}
    return float(content) if tag == "f64" else content


def ruled(name: str, length: int) -> bytes:
    """The first bytes of H("name/0") | H("name/1") | ..."""
    blocks = (sha256(f"{name}/{i}".encode()).digest() for i in range(length // 32 + 1))
    return b"".join(blocks)[:length]


def data_of(given: dict[str, Any]) -> bytes:
    """The data of a vector's input: explicit, by a rule of hashes, or text times a number."""
    if given.get("data") is not None:
        data = bytes.fromhex(given["data"])
    elif "data_rule" in given:
        label = given["data_rule"].split("'")[1].removesuffix("/0")
        data = ruled(label, given["data_length"])
    else:
        text, _, count = given["data_pattern"].rpartition("*")
        data = text.strip("'").encode() * int(count)
    if sha256(data).hexdigest() != given["data_sha256"]:
        raise ValueError("the data are not those of the vector")
    return data
