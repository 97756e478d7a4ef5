"""LXMF messages over three hops of both kinds, two of which lose packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.chains import Chain, Edge, chain
from interop.upstream import PATIENCE, find
from netmesh import DestinationHash
from netmesh.constants import MessageState, Method
from netmesh.messaging import Policy, Step

pytestmark = [
    pytest.mark.interop,
    pytest.mark.asyncio,
    pytest.mark.timeout(300),
    pytest.mark.slow,
]

CASES = ((Method.OPPORTUNISTIC, 100), (Method.DIRECT, 200), (Method.DIRECT, 3000))


async def to_upstream(made: Chain) -> None:
    box, peer = made.left.mailbox, made.right.peer
    assert box is not None
    assert peer is not None
    for method, size in CASES:
        policy = Policy((Step(method, attempts=20),), retry_wait_s=1)
        text = "m" * size
        sent = await box.send(
            DestinationHash(made.right.post), text, method=policy, timeout=2 * PATIENCE
        )
        assert (sent.state, sent.method) == (MessageState.DELIVERED, method)
        got = await peer.wait("message", hash=sent.id.hex())
        assert (got["size"], got["verified"]) == (size, True)
    # However often they were sent, none came twice.
    assert not peer.seen("message")


async def from_upstream(made: Chain) -> None:
    box, peer = made.left.mailbox, made.right.peer
    assert box is not None
    assert peer is not None
    for method, size in CASES:
        number = peer.do(
            "message",
            destination=made.left.post.hex(),
            content="u" * size,
            title="lossy",
            method=int(method),
        )
        got = await box.get(timeout=2 * PATIENCE)
        assert (len(got.content), got.method, got.verified) == (size, method, True)
        # Its router tries again every ten seconds, until it has seen a proof.
        await peer.wait("delivered", id=number, patience_s=2 * PATIENCE)
    assert len(box) == 0


@pytest.mark.parametrize("to_them", [True, False], ids=["to upstream", "from upstream"])
async def test_every_method_over_three_lossy_hops(
    python: str, tmp_path: Path, to_them: bool
) -> None:
    edges = [
        Edge(kind="udp", loss=0.05, seed=5),
        Edge(kind="left"),
        Edge(kind="udp", loss=0.05, seed=6),
    ]
    async with chain("nRNr", edges, tmp_path, python) as made:
        node, peer = made.left.node, made.right.peer
        assert node is not None
        assert peer is not None
        await find(node, made.right.post)
        assert await node.hops(DestinationHash(made.right.post)) == 3
        # With the path comes the key by which it verifies what we send.
        told = await peer.call("path", "path", destination=made.left.post.hex())
        assert told["found"]
        await (to_upstream if to_them else from_upstream)(made)
        assert sum(wire.lost for wire in made.wires.values()) > 0
