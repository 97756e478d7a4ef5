"""Writes docs/reference/constants.md from netmesh/constants.py.

``--check`` writes nothing and fails when the page is not up to date.
"""

from __future__ import annotations

import ast
import enum
import sys
from collections.abc import Iterator
from pathlib import Path

from netmesh import constants

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "netmesh" / "constants.py"
PAGE = ROOT / "docs" / "reference" / "constants.md"
SECTION = "# ----------------------------------------"

HEAD = """\
# netmesh.constants

The named numbers of Reticulum and LXMF. Codes that form a set are `enum.IntEnum` or
`enum.IntFlag` classes, single numbers are attributes of the module; `TABLE` holds every number
under one flat name. Sizes are bytes, times seconds, rates bit/s unless a note says otherwise.
This page is written by `scripts/constants_page.py`.

```python
from netmesh import constants

assert constants.Context(0xFE).name == "LRRTT"
assert constants.TABLE["CONTEXT_LRRTT"] == constants.Context.LRRTT
```
"""


def first_line(text: str | None) -> str:
    """The first sentence line of a docstring, fit for a table cell."""
    return (text or "").strip().split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def notes(body: list[ast.stmt]) -> dict[str, str]:
    """The docstring that follows each assignment, by its name."""
    found = {}
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Name):
            text = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = first_line(str(after.value.value))
            found[target.id] = text
    return found


def number(value: float) -> str:
    """A number as the page shows it: codes and masks in hexadecimal too."""
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:g}"


def enumeration(node: ast.ClassDef) -> Iterator[str]:
    """The part of one class of codes."""
    codes = getattr(constants, node.name)
    said = notes(node.body)
    yield f"\n### {node.name}\n\n`{node.name}`: {first_line(ast.get_docstring(node))}\n\n"
    yield "| name | value | |\n|---|---|---|\n"
    for code in codes:
        yield f"| `{code.name}` | {int(code)} (0x{int(code):02x}) | {said[str(code.name)]} |\n"


def page() -> str:
    """The whole page."""
    text = SOURCE.read_text()
    tree = ast.parse(text)
    said = notes(tree.body)
    sections = {
        line: words.removeprefix(SECTION).strip()
        for line, words in enumerate(text.splitlines(), 1)
        if words.startswith(SECTION)
    }
    parts = [HEAD]
    open_table = False
    for node in tree.body:
        passed = [line for line in sections if line < node.lineno]
        for line in passed:
            title = sections.pop(line)
            parts.append(f"\n## {title[:1].upper()}{title[1:]}\n")
            open_table = False
        if isinstance(node, ast.ClassDef) and issubclass(getattr(constants, node.name), enum.Enum):
            parts.extend(enumeration(node))
            open_table = False
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            value = getattr(constants, name)
            if name == "TABLE":
                parts.append(f"\n`{name}`: {said[name]}\n")
            elif not name.startswith("_") and isinstance(value, int | float):
                if not open_table:
                    parts.append("\n| name | value | |\n|---|---|---|\n")
                    open_table = True
                parts.append(f"| `{name}` | {number(value)} | {said[name]} |\n")
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Writes the page, or compares it."""
    made = page()
    if "--check" in arguments:
        if not PAGE.exists() or PAGE.read_text() != made:
            print("docs/reference/constants.md is old; run scripts/constants_page.py")
            return 1
        return 0
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
