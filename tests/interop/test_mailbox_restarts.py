"""Messages with a live upstream mailbox while either side is started again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import PATIENCE, Peer, config, find, server, spawn
from netmesh import Node
from netmesh.constants import MessageState, Method
from netmesh.interfaces import TCPClient
from netmesh.messaging import Mailbox, Policy, Step

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

STUBBORN = Policy((Step(Method.DIRECT),) * 4, retry_wait_s=1)


def upstream(python: str, folder: Path) -> Any:
    """The mailbox; the same one when it is started again in the same folder."""
    settings = config({"port": server()})
    return spawn(python, folder / "peer", settings, program="lxmf_peer.py")


@asynccontextmanager
async def at_home(folder: Path, peer: Peer | None) -> AsyncIterator[tuple[Node, Mailbox]]:
    """The node with its storage, connected to the peer if there is one."""
    ports = [] if peer is None else [peer.ready["ports"]["port"]]
    async with Node(
        interfaces=[TCPClient("127.0.0.1", port) for port in ports],
        shared_instance=False,
        storage=folder / "node",
    ) as node:
        for each in node.interfaces():
            await each.wait_online(timeout=PATIENCE)
        yield node, await node.lxmf(display_name="home")


@pytest.mark.parametrize("size", [10, 3000])
async def test_a_message_outlives_both_sides(python: str, tmp_path: Path, size: int) -> None:
    """D2: on its way while upstream is gone and the node starts twice: delivered, once."""
    async with upstream(python, tmp_path) as peer, at_home(tmp_path, peer) as (node, mailbox):
        await find(node, peer.destination)
        to = type(mailbox.hash)(peer.destination)
        await peer.kill()
        sending = mailbox.send(to, "m" * size, method=STUBBORN)
        await sending.taken()
    async with at_home(tmp_path, None) as (_, mailbox):
        assert [each.id for each in mailbox.resumed] == [sending.id]
    async with upstream(python, tmp_path) as peer:
        assert peer.destination == bytes(to)
        async with at_home(tmp_path, peer) as (_, mailbox):
            (resumed,) = mailbox.resumed
            delivery = await resumed.wait(timeout=2 * PATIENCE)
            assert (delivery.id, delivery.state) == (sending.id, MessageState.DELIVERED)
            got = await peer.wait("message", hash=sending.id.hex())
            assert got["size"] == size
            # Another one comes behind it, and it does not come again.
            other = await mailbox.send(to, "other", timeout=PATIENCE)
            await peer.wait("message", hash=other.id.hex())
            assert not peer.seen("message")
        async with at_home(tmp_path, peer) as (_, mailbox):
            assert mailbox.resumed == ()


@pytest.mark.parametrize("size", [10, 3000])
async def test_what_upstream_has_proven_is_there_after_a_restart(
    python: str, tmp_path: Path, size: int
) -> None:
    """Upstream saw it delivered: the node has it, each time until it is acknowledged."""
    async with upstream(python, tmp_path) as peer:
        titles: list[str] = []
        async with at_home(tmp_path, peer) as (_, mailbox):
            to = mailbox.hash
            await mailbox.announce()

            def order(attempt: int) -> dict[str, Any]:
                titles.append(f"{attempt}")
                return {
                    "destination": to.hex(),
                    "content": "u" * size,
                    "title": titles[-1],
                    "method": int(Method.DIRECT),
                }

            await peer.ask("message", "delivered", orders=order, attempt_s=8)
        for _ in range(2):
            async with at_home(tmp_path, peer) as (_, mailbox):
                message = await mailbox.get(timeout=PATIENCE)
                assert message.title in titles
                assert message.content == "u" * size
        async with at_home(tmp_path, peer) as (_, mailbox):
            assert mailbox.store is not None
            rows = list(mailbox.store.messages(mailbox=to, unread=True))
            # More than one where upstream missed a proof; each once.
            assert len(rows) == len({each.id for each in rows})
            for row in rows:
                await mailbox.ack(row.row)
        async with at_home(tmp_path, peer) as (_, mailbox):
            with pytest.raises(TimeoutError):
                await mailbox.get(timeout=0.1)
