"""What a node that has nothing to do costs; a program of its own.

Prints the resident kilobytes of this process above what it had with asyncio imported, and the
microseconds of CPU time that a second takes, the least of a few. The node is connected over
TCP, as in row ``idle`` of the report.
"""

from __future__ import annotations

import asyncio
import os
import time

WINDOWS, WINDOW_S = 3, 0.5


def resident_kb() -> int:
    """Memory of this process; 0 where the system does not tell it so."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except OSError:
        return 0


async def busy_us() -> float:
    """CPU time of this process in a second."""
    began, at = time.process_time_ns(), time.monotonic_ns()
    await asyncio.sleep(WINDOW_S)
    return (time.process_time_ns() - began) * 1e6 / (time.monotonic_ns() - at)


async def main(before_kb: int) -> None:
    """Opens a node, connects something to it, and lets it be."""
    from netmesh import Node
    from netmesh.interfaces import TCPServer

    async with Node(interfaces=[TCPServer("127.0.0.1", 0)]) as node:
        (server,) = node.interfaces()
        _, peer = await asyncio.open_connection("127.0.0.1", server.port)
        while len(node.interface_infos()) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(WINDOW_S)
        grown_kb = resident_kb() - before_kb
        print(grown_kb, round(min([await busy_us() for _ in range(WINDOWS)])))
        peer.close()


if __name__ == "__main__":
    asyncio.run(main(resident_kb()))
