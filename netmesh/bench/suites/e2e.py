"""Two nodes in two processes: what a program waits for."""

from __future__ import annotations

from netmesh.bench.model import SLOW_CIPHERS, Pair, Row, Suite

MIB = 1 << 20

_NO_LINKS = {"lxmf-rs": "keeps one outgoing link for each destination"}

SUITE = Suite(
    name="e2e",
    title="End to end",
    text="Two nodes in two processes over loopback TCP: from the call of the one to the moment at "
    "which it knows that the other has it. The C core's column is netmesh's engine by its own "
    "stamps, without Python; all others are stamped in the program or callback of the stack. "
    "Figures called published come from another machine, and contain that report's polling and "
    "the start of interpreters.",
    rows=(
        Row(
            id="discovery.cold",
            title="a destination never heard of",
            operation="path request to path known; the peer signs an announce, we check it",
            published="e2e.discovery",
            pair=Pair("discovery", samples=(20, 5), blocks=(3, 1), warm=2, pace_us=100_000),
        ),
        Row(
            id="link.setup",
            title="link",
            operation="link request to link active at the initiator",
            published="e2e.link",
            pair=Pair("link", samples=(50, 10)),
        ),
        Row(
            id="request.32",
            title="request and response",
            operation="32 bytes over a link that stands, 32 bytes back",
            payload=32,
            pair=Pair("request", samples=(100, 20)),
        ),
        Row(
            id="packet.proof",
            title="packet and proof",
            operation="a packet encrypted to a destination, and the proof that it arrived",
            payload=128,
            pair=Pair("packet", samples=(100, 20)),
        ),
        Row(
            id="resource.16k",
            title="resource, random bytes",
            operation="a resource over a link that stands, to its proof; compression off",
            payload=16384,
            pair=Pair("resource", samples=(30, 5), peers=True),
        ),
        Row(
            id="resource.1m",
            title="resource, random bytes",
            operation="a resource of two segments, to its proof; compression off",
            payload=MIB,
            pair=Pair("resource", samples=(10, 3), blocks=(4, 1), warm=2, items=8, peers=True),
            absent=SLOW_CIPHERS,
        ),
        Row(
            id="resource.1m.default",
            title="resource, random bytes",
            operation="the same with each stack's own choice about compression",
            payload=MIB,
            pair=Pair("resource", samples=(5, 2), blocks=(2, 1), warm=1, items=4, compress=True),
            absent=SLOW_CIPHERS,
        ),
        Row(
            id="links.1000",
            title="1,000 links at once",
            operation="links to one destination over one connection, until the last is active; "
            "100 in a quick run",
            pair=Pair("links", samples=(1000, 100), blocks=(1, 1), warm=1, timeout_s=60),
            absent=_NO_LINKS,
        ),
        Row(
            id="idle",
            title="idle node",
            operation="CPU time of a process in one second in which its node, connected, has "
            "nothing to do",
            pair=Pair("idle", samples=(10_000, 1000), blocks=(1, 1), warm=0, timeout_s=60),
        ),
    ),
    offers=lambda _api: {},
)
