"""Prints the requirements of some extras of pyproject.toml, one a line.

``build`` means what the build needs; an extra that includes another one
(``netmesh[peers]``) is followed. So an environment gets its packages from
one place without building netmesh.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def requirements(project: dict[str, Any], extra: str) -> list[str]:
    """The requirements of one extra, those of the extras that it includes first."""
    if extra == "build":
        return list(project["build-system"]["requires"])
    found: list[str] = []
    for entry in project["project"]["optional-dependencies"][extra]:
        include = re.fullmatch(r"netmesh\[(\w+)\]", entry)
        found += requirements(project, include[1]) if include else [entry]
    return found


def main(extras: list[str]) -> int:
    """Prints the requirements, without spaces so that a shell may split them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for extra in extras:
        for entry in requirements(project, extra):
            words, _, marker = entry.partition(";")
            if not marker or sys.platform in marker:
                print(words.replace(" ", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
