"""Checks an installed wheel: it runs, and from the libraries that it carries.

Run with ``python -I`` in an environment that holds nothing but the wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path

import netmesh
from netmesh import _core

BUNDLED = ("libsodium", "libcrypto", "libuv", "libbz2", "libzstd", "libsqlite3")


def loaded_libraries() -> dict[str, set[Path]]:
    """The files of the bundled libraries that this process has mapped."""
    found: dict[str, set[Path]] = {name: set() for name in BUNDLED}
    for line in Path("/proc/self/maps").read_text().splitlines():
        file = Path(line.split(maxsplit=5)[-1])
        for name in BUNDLED:
            if file.name.startswith(name):
                found[name].add(file)
    return found


def main() -> int:
    """Returns 0 when a message survives the trip and every library is the wheel's own."""
    sender, recipient = netmesh.Identity(), netmesh.Identity()
    message = netmesh.lxmf.Message.create(
        sender, netmesh.lxmf.delivery_hash(recipient), "from the wheel"
    )
    sealed = recipient.public_only().encrypt(message.opportunistic)
    opened = netmesh.lxmf.Message.unpack_opportunistic(
        netmesh.lxmf.delivery_hash(recipient), recipient.decrypt(sealed).plaintext
    )
    if not opened.verify(sender):
        print("check_wheel: the message does not verify", file=sys.stderr)
        return 1
    home = Path(netmesh.__file__).parent.parent
    for name, files in loaded_libraries().items():
        print(f"{name} {_core.library_versions().get(name, '')}: {', '.join(map(str, files))}")
        if not files or not all(file.is_relative_to(home) for file in files):
            print(f"check_wheel: {name} is not the wheel's own copy", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
