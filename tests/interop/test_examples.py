"""Programs that a newcomer to upstream writes, each against a service of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interop.upstream import PATIENCE, PEERS, client, config
from netmesh import Link, Node
from netmesh.events import LinkPacketReceived
from netmesh.interfaces import TCPServer

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(180)]


async def test_example_clients(python: str, tmp_path: Path) -> None:
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as node:
        port = node.interfaces()[0].port
        assert port

        async def answer(link: Link, packet: LinkPacketReceived) -> None:
            await link.send(packet.data.upper(), proof=False)

        files: asyncio.Queue[tuple[object, bytes]] = asyncio.Queue()
        service = await node.listen(
            "example.service",
            prove="all",
            resources="all",
            on_link_packet=answer,
            on_resource=lambda _, event: files.put_nowait((event.metadata, event.data)),
        )
        await service.add_handler("/time", lambda request: "half past nine")
        for what, expected in (
            ("echo", "proven"),
            ("link", "heard HELLO"),
            ("request", "told half past nine"),
            ("resource", "sent"),
        ):
            folder = tmp_path / what
            folder.mkdir()
            (folder / "config").write_text(config({"service": client(port)}))
            program = await asyncio.create_subprocess_exec(
                python,
                str(PEERS / "examples.py"),
                what,
                str(folder),
                service.hash.hex(),
                stdout=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(2 * PATIENCE):
                    said, _ = await program.communicate()
            finally:
                if program.returncode is None:
                    program.kill()
                    await program.wait()
            assert said.decode().splitlines()[-1:] == [expected]
        async with asyncio.timeout(PATIENCE):
            assert await files.get() == ({"name": "lines.txt"}, b"line\n" * 20_000)
