"""Turns tests/vectors/*.json into a C table for the C tests (see support.h).

Usage: gen_vectors.py OUTPUT.c INPUT.json...

Needs nothing but Python's standard library, and runs at build time only: the tests
themselves run without Python.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def flatten(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All fields below a value, containers included, named by their path."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(f"{path}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from flatten(f"{path}[{index}]", item)


def c_text(text: str) -> str:
    """A C string literal; bytes outside ASCII as octal, which cannot run into what follows."""
    encoded = (
        chr(byte) if 0x20 <= byte < 0x7F and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return '"' + "".join(encoded) + '"'


def c_field(path: str, value: Any) -> str:
    """One nm_vector_field."""
    if isinstance(value, str):
        kind, text, number = "TEXT", c_text(value), "0"
    elif isinstance(value, bool):
        kind, text, number = "BOOL", "NULL", str(int(value))
    elif isinstance(value, int | float):
        kind, text, number = "NUMBER", c_text(repr(value)), repr(float(value))
    elif value is None:
        kind, text, number = "NULL", "NULL", "0"
    else:
        kind, text, number = "LIST", "NULL", str(len(value))
    return f"    {{{c_text(path)}, NM_VECTOR_{kind}, {text}, {number}}},"


def main(output: str, inputs: list[str]) -> None:
    """Writes the table of all vectors of all inputs."""
    tables: list[str] = []
    rows: list[str] = []
    for source in inputs:
        for vector in json.loads(Path(source).read_text())["vectors"]:
            fields = [*flatten("input", vector["input"]), *flatten("output", vector["output"])]
            number = len(rows)
            tables.append(f"static const nm_vector_field fields_{number}[] = {{")
            tables.extend(c_field(*field) for field in fields)
            tables.append("};")
            names = ", ".join(map(c_text, (Path(source).stem, vector["name"], vector["kind"])))
            rows.append(f"    {{{names}, fields_{number}, {len(fields)}}},")
    head = ["/* Made by gen_vectors.py. */", '#include "support.h"', ""]
    tail = ["", "const nm_vector nm_vectors[] = {", *rows, "};"]
    tail.append(f"const size_t nm_vector_count = {len(rows)};")
    Path(output).write_text("\n".join([*head, *tables, *tail]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
