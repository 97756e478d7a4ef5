"""Runs the extension in several interpreters of one process at once; a program of its own.

Since Python 3.12 each of them has a lock of its own, so that their threads really run at
the same time. Classes, exceptions and interned strings must be each interpreter's own.
Ends with 1 when one of them fails.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

WORK = """
import gc
import netmesh
from netmesh import _core

alice, bob = netmesh.Identity(), netmesh.Identity()
token = netmesh.Token(bytes(64))
for i in range(40):
    text = bytes([i]) * i
    packet = netmesh.Packet(destination=bytes(16), payload=b"x" + text, hops=i)
    assert netmesh.Packet.unpack(packet.raw) == packet
    assert token.open(token.seal(text)) == text
    assert alice.decrypt(alice.public_only().encrypt(text)).plaintext == text
    announce = netmesh.Announce.create(alice, "app.a", app_data=text)
    assert netmesh.Announce.unpack(announce.raw).validate() is netmesh.Verdict.VALID
    items = [(bob, text, bob.sign(text))] * 20
    assert all(netmesh.Identity.verify_many(items, threads=2))
    try:
        netmesh.Packet.unpack(b"short")
    except netmesh.DecodeError as error:
        assert error.reason == "TRUNCATED"
    else:
        raise AssertionError("not refused")
assert _core.unpackb(_core.packb({1: [2.5, b"x"]})) == {1: [2.5, b"x"]}
del alice, bob, token, packet, announce, items
gc.collect()
"""


def interpreters() -> tuple[Any, Any, Any]:
    """Create, run and destroy, by the names of this Python's own module for it."""
    if sys.version_info >= (3, 13):
        import _interpreters as module

        def run(interpreter: Any) -> Any:
            return module.exec(interpreter, WORK)

    else:
        import _xxsubinterpreters as module

        def run(interpreter: Any) -> Any:
            return module.run_string(interpreter, WORK)

    return module.create, run, module.destroy


def main(rounds: int = 4, side_by_side: int = 3) -> int:
    """Several rounds of interpreters at work at once; how many failed."""
    create, run, destroy = interpreters()
    failures: list[str] = []

    def work(interpreter: Any) -> None:
        try:
            failed = run(interpreter)
        except Exception as error:  # each version has a class of its own for it
            failed = error
        if failed is not None:
            failures.append(str(getattr(failed, "formatted", failed)))

    for _ in range(rounds):
        some = [create() for _ in range(side_by_side)]
        threads = [threading.Thread(target=work, args=(interpreter,)) for interpreter in some]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for interpreter in some:
            destroy(interpreter)
    exec(WORK, {})  # the first interpreter still works
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
