"""``python -m netmesh`` is the ``netmesh`` command."""

import sys

from netmesh.cli import main

if __name__ == "__main__":
    sys.exit(main())
