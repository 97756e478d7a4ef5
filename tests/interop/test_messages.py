"""LXMF messages with a live upstream mailbox: both ways, every size, over every arrangement."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import PATIENCE, digest, meet
from netmesh.constants import Method
from netmesh.lxmf import Message

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

MESSAGE_S = 6.0
"""How long a message of upstream may take before another one is tried: a direct one waits for
its link."""
FIELDS: dict[Any, Any] = {1: b"one", 2: [1, "two", b"\x00"], 251: {"deep": {"er": -1}}}


def plain(value: Any) -> Any:
    """As the peer's program writes fields."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return value


async def test_messages_to_upstream(python: str, topology: str, tmp_path: Path) -> None:
    async with meet(topology, python, tmp_path, program="lxmf_peer.py") as world:
        peer = world.peer
        mailbox = await world.node.lxmf(display_name="node")
        told = await world.heard(
            mailbox.announce,
            lambda wait: peer.wait("announce", patience_s=wait, destination=mailbox.hash.hex()),
        )
        assert told["name"] == "node"
        for method, size in (
            ("opportunistic", 0),
            ("opportunistic", 200),
            ("direct", 1),
            ("direct", 320),
            ("direct", 20_000),
            ("direct", 300_000),
            ("auto", 10),
            ("auto", 500),
        ):
            text = "ž" * (size // 2) + "m" * (size % 2)
            sent = await mailbox.send(
                peer.destination, text, title="Grüße 👋", method=method, timeout=PATIENCE
            )
            got = await peer.wait("message", hash=sent.id.hex())
            assert (got["size"], got["digest"]) == (size, digest(text.encode()))
            assert got["title"] == "Grüße 👋"
            assert got["verified"]
            assert got["source"] == mailbox.hash.hex()
            assert got["method"] == sent.method
        sent = await mailbox.send(peer.destination, "fields", fields=FIELDS, timeout=PATIENCE)
        got = await peer.wait("message", hash=sent.id.hex())
        assert got["fields"] == plain(FIELDS)


async def test_messages_from_upstream(python: str, topology: str, tmp_path: Path) -> None:
    fields = {"1": "one", "2": [1, "two", None], "251": {"deep": {"er": -1}}}
    async with meet(topology, python, tmp_path, program="lxmf_peer.py") as world:
        peer = world.peer
        mailbox = await world.node.lxmf(display_name="node")
        for method, size in (
            (Method.OPPORTUNISTIC, 0),
            (Method.OPPORTUNISTIC, 200),
            (Method.DIRECT, 1),
            (Method.DIRECT, 320),
            (Method.DIRECT, 20_000),
            (Method.DIRECT, 300_000),
        ):
            text = "ž" * (size // 2) + "u" * (size % 2)
            sent: list[str] = []

            def order(
                attempt: int,
                text: str = text,
                method: Method = method,
                sent: list[str] = sent,
            ) -> dict[str, Any]:
                sent.append(f"Grüße 👋 {attempt}")
                return {
                    "destination": mailbox.hash.hex(),
                    "content": text,
                    "title": sent[-1],
                    "fields": fields,
                    "method": int(method),
                }

            await peer.ask("message", "delivered", orders=order, attempt_s=MESSAGE_S)
            came: set[str] = set()
            while came != set(sent):  # those that upstream thinks lost came too, once each
                got = await mailbox.get(timeout=PATIENCE)
                assert got.title in sent
                assert got.title not in came
                assert got.content == text
                assert got.verified
                assert got.source == peer.destination
                assert got.fields == {1: "one", 2: [1, "two", None], 251: {"deep": {"er": -1}}}
                assert isinstance(got.message, Message)
                # What is too long for a packet with its fields goes over a link by itself.
                assert got.method in (method, Method.DIRECT)
                came.add(got.title)


async def roles_on_links(python: str, folder: Path, *, upstream_first: bool) -> set[bool]:
    """Exchanges messages in both directions; on which sides of its links the node was."""
    async with meet("direct", python, folder, program="lxmf_peer.py") as world:
        node, peer = world.node, world.peer
        mailbox = await node.lxmf(display_name="node")
        await mailbox.announce()
        texts: list[str] = []

        def order(attempt: int) -> dict[str, Any]:
            texts.append(f"{attempt} " + "u" * 400)
            return {
                "destination": mailbox.hash.hex(),
                "content": texts[-1],
                "title": "",
                "method": int(Method.DIRECT),
            }

        async def upstream_sends() -> None:
            await peer.ask("message", "delivered", orders=order, attempt_s=MESSAGE_S)
            assert (await mailbox.get(timeout=PATIENCE)).content in texts

        if upstream_first:
            peer.do("announce")
            await upstream_sends()
            async with asyncio.timeout(PATIENCE):
                while not any(each.remote_identity for each in await node.link_records()):
                    await asyncio.sleep(0.01)
        for size in (400, 20_000):  # the second shows that our identity was taken in
            await mailbox.send(peer.destination, "m" * size, method="direct", timeout=PATIENCE)
        if not upstream_first:
            await upstream_sends()
        return {each.initiator for each in await node.link_records()}


@pytest.mark.parametrize("upstream_first", [False, True], ids=["node first", "upstream first"])
async def test_one_link_serves_the_messages_of_both(
    python: str, tmp_path: Path, upstream_first: bool
) -> None:
    """Each side answers over the link on which the other one opened and identified itself.

    Upstream may miss a proof that is back at once; it then opens a link of its own, so that this
    is tried again.
    """
    for number in range(3):
        folder = tmp_path / str(number)
        roles = await roles_on_links(python, folder, upstream_first=upstream_first)
        if roles == {not upstream_first}:
            return
    raise AssertionError(f"the node was on these sides of its links: {roles}")
