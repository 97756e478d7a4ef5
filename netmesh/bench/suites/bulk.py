"""Two nodes in two processes: much data, and what else goes on meanwhile."""

from __future__ import annotations

from netmesh.bench.model import SLOW_CIPHERS, Pair, Row, Suite

MIB = 1 << 20

_NOT_PLAYED = {
    "beechat": "has no node",
    **dict.fromkeys(("lxmf-rs", "rns-rs"), "its adapter does not play this kind of row"),
}
_NO_CHANNEL = _NOT_PLAYED | {"rns-rs": "its channels report no end of a message"}
_NO_BUFFER = _NO_CHANNEL | {"rns-openssl": "its buffers are read by polling"}

SUITE = Suite(
    name="bulk",
    title="Bulk",
    text="Two nodes in two processes over loopback TCP: from the call that sends to the receiver's "
    "proof of the whole. Random bytes unless the row says text. Memory is in the table of the rows "
    "between two processes. The C core's column is by the engine's own stamps.",
    rows=(
        Row(
            id="resource.8m",
            title="8 MiB, random",
            operation="a resource of 9 segments, to its proof; compression off",
            payload=8 * MIB,
            pair=Pair(
                "resource",
                samples=(3, 1),
                blocks=(3, 1),
                warm=1,
                items=2,
                timeout_s=60,
                peers=True,
            ),
            absent=SLOW_CIPHERS,
        ),
        Row(
            id="resource.50m",
            title="50 MiB, random",
            operation="a resource of 51 segments, to its proof; compression off",
            payload=50 * MIB,
            pair=Pair(
                "resource",
                samples=(1, 1),
                blocks=(3, 1),
                warm=0,
                items=1,
                timeout_s=120,
                peers=True,
            ),
            quick=False,
            absent=SLOW_CIPHERS,
        ),
        Row(
            id="resource.50m.text",
            title="50 MiB, text",
            operation="the same with text and each stack's own choice about compression",
            payload=50 * MIB,
            pair=Pair(
                "resource",
                samples=(1, 1),
                blocks=(2, 1),
                warm=0,
                items=1,
                text=True,
                compress=True,
                timeout_s=300,
            ),
            quick=False,
            absent=SLOW_CIPHERS,
        ),
        Row(
            id="file.300m",
            title="300 MiB, from file to file",
            operation="a file sent from disk and written to disk, to its proof; compression off",
            payload=300 * MIB,
            pair=Pair("file", samples=(1, 1), blocks=(1, 1), warm=0, items=1, timeout_s=300),
            quick=False,
            absent=SLOW_CIPHERS,
        ),
        Row(
            id="packets.meanwhile",
            title="packets beside a transfer",
            operation="a packet and its proof on a link, while 50 MiB are sent over the same link",
            payload=128,
            pair=Pair(
                "meanwhile",
                samples=(1, 1),
                blocks=(3, 1),
                warm=0,
                pace_us=2000,
                bulk=50 * MIB,
                timeout_s=120,
            ),
            quick=False,
            absent={**SLOW_CIPHERS, **_NOT_PLAYED},
        ),
        Row(
            id="channel.messages",
            title="2,000 channel messages",
            operation="messages through a channel's window, to the proof of the last; each counts",
            payload=400,
            batch=2000,
            pair=Pair("channel", samples=(1, 1), blocks=(5, 2), warm=1, items=2000, timeout_s=60),
            absent=_NO_CHANNEL,
        ),
        Row(
            id="buffer.stream",
            title="16 MiB through a stream",
            operation="bytes through a stream on a channel, to a byte back after its end",
            payload=16 * MIB,
            pair=Pair("buffer", samples=(1, 1), blocks=(4, 1), warm=1, items=1, timeout_s=60),
            absent=_NO_BUFFER,
        ),
    ),
    offers=lambda _api: {},
)
