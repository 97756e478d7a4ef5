"""The rules of the C sources that no compiler checks.

* A room includes only its own headers and those of rooms on lower floors.
* No circle among headers, nor among files with a header each (a.h and a.c are one).
* A file has at most 800 lines, a function at most 70.
* Only base/mem.c and the extension allocate by themselves.
* Bytes from the wire are read through cursors, never through a cast to a wider type.
* No note of work left to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70

# Each room with its floor; `py` is above all others.
FLOORS = {
    "base": 0,
    "crypto": 1,
    "wire": 2,
    "stack": 3,
    "capture": 3,
    "lxmf": 4,
    "fabric": 4,
    "services": 4,
    "io": 5,
    "sim": 5,
    "py": 6,
}

ALLOCATION = re.compile(r"\b(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|alloca)\s*\(")
WIDE_CAST = re.compile(
    r"\(\s*(?:const\s+)?(?:u?int(?:16|32|64)_t|short|int|long|unsigned(?:\s+\w+)?|size_t"
    r"|struct\s+\w+|nm_\w+)(?:\s+const)?\s*\*\s*\)\s*(\w+(?:(?:->|\.)\w+)*)"
)
# What a span, a cursor or an input buffer is called in this project.
BYTES_NAMES = re.compile(r"(?:^|\.|->)(?:ptr|base|raw|wire|payload|frame|data|bytes|packet)$")
# "static inline int name(int a, char *b)", but neither "int t[] =" nor "struct s".
FUNCTION_HEAD = re.compile(r"(?!typedef\b)[^=;{}]*?\b(\w+)\s*\([^;={}]*\)[^;=()]*$")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
INCLUDE = re.compile(r'#\s*include\s+"([^"]+)"')
COMMENT_OR_STRING = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One breach of a rule."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def code_only(text: str) -> str:
    """The text with comments and literals blanked, line numbers kept."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + " " * (len(found) - 2) + found[-1]

    return COMMENT_OR_STRING.sub(blank, text)


def functions(code: str) -> Iterator[tuple[int, int, str]]:
    """First line, number of lines and name of each function body at file level."""
    head = ""  # the declaration so far, up to the first brace
    start = depth = 0
    for number, line in enumerate(without_directives(code).splitlines(), 1):
        if depth == 0:
            start = start if head else number
            head = f"{head} {line.partition('{')[0]}".strip()
        depth += line.count("{") - line.count("}")
        if depth == 0 and ("}" in line or ";" in line):
            name = FUNCTION_HEAD.match(head)
            if name and "}" in line:
                yield start, number - start + 1, name[1]
            head = ""


def without_directives(code: str) -> str:
    """The code with preprocessor lines blanked, their continuations too."""
    return re.sub(
        r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: "\n" * m[0].count("\n"), code, flags=re.M
    )


def room_of(file: str) -> str | None:
    """The room of a path relative to csrc, or None for one outside all rooms."""
    room = file.split("/", 1)[0]
    return room if room in FLOORS else None


def check_text(file: str, text: str) -> list[Finding]:
    """All findings in one file; `file` is its path relative to csrc."""
    code = code_only(text)
    found = [
        *_check_includes(file, text),
        *_check_sizes(file, text, code),
        *_check_lines(file, text, code),
    ]
    return sorted(found)


def _check_includes(file: str, text: str) -> Iterator[Finding]:
    room = room_of(file)
    if room is None:
        yield Finding(file, 1, "is in no known room")
        return
    for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if not include:
            continue
        other = room_of(include[1])
        if other is None:
            yield Finding(file, number, f'includes "{include[1]}", not written from csrc/')
        elif other != room and FLOORS[other] >= FLOORS[room]:
            yield Finding(file, number, f"room {room} includes room {other}, which is not below it")


def _check_sizes(file: str, text: str, code: str) -> Iterator[Finding]:
    lines = len(text.splitlines())
    if lines > FILE_LINES_MAX:
        yield Finding(file, lines, f"has {lines} lines, more than {FILE_LINES_MAX}")
    for start, length, name in functions(code):
        if length > FUNCTION_LINES_MAX:
            yield Finding(
                file, start, f"function {name} has {length} lines, more than {FUNCTION_LINES_MAX}"
            )


def _check_lines(file: str, text: str, code: str) -> Iterator[Finding]:
    may_allocate = file == "base/mem.c" or room_of(file) == "py"
    for number, line in enumerate(code.splitlines(), 1):
        call = ALLOCATION.search(line)
        if call and not may_allocate:
            yield Finding(file, number, f"calls {call[1]}; take a const nm_mem *")
        for cast in WIDE_CAST.finditer(line):
            if BYTES_NAMES.search(cast[1]):
                yield Finding(file, number, f"casts the bytes at {cast[1]} to a wider type")
    for number, line in enumerate(text.splitlines(), 1):
        left = LEFTOVER.search(line)
        if left:
            yield Finding(file, number, f"leaves a {left[1]}")


def check_circles(texts: dict[str, str]) -> list[Finding]:
    """A finding for each file that takes part in a circle; `texts` are all files by name.

    A header without a .c file of its own is what several files share among them, often
    with the public header of one of them: it counts in the circles of headers alone.
    """
    includes = {
        file: {match[1] for match in map(INCLUDE.match, text.splitlines()) if match}
        for file, text in texts.items()
    }
    headers = {file: others for file, others in includes.items() if file.endswith(".h")}
    pairs: dict[str, set[str]] = {}
    for file, others in includes.items():
        name = file[:-2]
        if f"{name}.c" in texts:
            mine = pairs.setdefault(name, set())
            mine |= {other[:-2] for other in others if f"{other[:-2]}.c" in texts} - {name}
    return [
        Finding(f"{name}.h" if graph is pairs else name, 1, f"includes itself through {via}")
        for graph in (headers, pairs)
        for name, via in _circles(graph)
    ]


def _circles(graph: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Each node that reaches itself, with the first step of its way."""
    reached = {node: set(others) for node, others in graph.items()}
    grown = True
    while grown:
        grown = False
        for others in reached.values():
            more = set().union(*(reached.get(other, set()) for other in others)) - others
            others |= more
            grown = grown or bool(more)
    for node, others in sorted(graph.items()):
        ways = sorted(way for way in others if way == node or node in reached.get(way, set()))
        if ways:
            yield node, ways[0]


def check_tree(csrc: Path) -> list[Finding]:
    """All findings in the sources and headers below a folder."""
    files = sorted(path for path in csrc.rglob("*") if path.suffix in {".c", ".h"})
    texts = {path.relative_to(csrc).as_posix(): path.read_text() for path in files}
    found = [finding for file, text in texts.items() for finding in check_text(file, text)]
    return found + check_circles(texts)
