"""``python -m netmesh.bench``: the same as ``netmesh bench``."""

from __future__ import annotations

import sys

from netmesh.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
