"""A process that forks while its node runs; a program of its own.

The child may neither hang nor crash, whatever it does with the node or its objects, and is
told what is wrong; the parent does not notice. Prints what was wrong; ends with 1 then.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable

import netmesh
from netmesh import sync
from netmesh.errors import NetmeshError

PATIENCE_S = 30


def child(uses: dict[str, Callable[[], object]]) -> int:
    """What the child does with its parent's node; the number of uses not refused."""
    faulthandler.enable()
    signal.alarm(PATIENCE_S)  # hanging ends it
    wrong = 0
    for name, use in uses.items():
        try:
            use()
        except NetmeshError as error:
            if "fork" not in str(error):
                print(f"{name}: {error!r} does not say why")
                wrong += 1
        except BaseException:
            traceback.print_exc()
            wrong += 1
        else:
            print(f"{name} is not refused")
            wrong += 1
    # What is no node works on, and so does a node of its own.
    identity = netmesh.Identity()
    assert identity.verify(b"text", identity.sign(b"text"))
    with sync.Node(shared_instance=False) as node:
        assert node.listen("test.child").hash
    return wrong


def main() -> int:
    """Forks in the middle of a talk between two nodes."""
    left, right = netmesh.interfaces.Pipe.pair()
    with sync.Node(interfaces=[left]) as alice, sync.Node(interfaces=[right]) as bob:
        echo = bob.listen("test.fork", prove="all")
        link = alice.connect(echo.hash, timeout=PATIENCE_S)
        uses = {
            "announce": echo.announce,
            "send": lambda: link.send(b"text"),
            "connect": lambda: alice.connect(echo.hash, timeout=5),
            "close": alice.close,
        }
        pid = os.fork()
        if pid == 0:
            code = 2
            try:
                code = 1 if child(uses) else 0
                gc.collect()
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            print(f"the child ended with {code}")
        link.send(b"still here").wait(timeout=PATIENCE_S)
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
