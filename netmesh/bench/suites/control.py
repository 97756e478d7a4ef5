"""Rows that measure the measuring: nothing, and the same thing twice."""

from __future__ import annotations

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, control_offer
from netmesh.bench.model import Api, Kind, Pair, Row, Suite
from netmesh.bench.suites import packets


def index_evidence(_kind: Kind, index: int) -> bytes:
    """The number of the input, eight bytes little endian."""
    return index.to_bytes(8, "little")


def _offers(api: Api) -> dict[str, Offer]:
    same = packets.hash_offer(api, header_2=False)
    return {"control.empty": control_offer(), "control.aa": same}


SUITE = Suite(
    name="control",
    title="Controls",
    text="An empty loop shows what the harness itself costs in each arm. The A/A row runs one "
    "operation in two processes of the same arm, once in one process and once in a pair of them: "
    "their difference is noise.",
    rows=(
        Row(
            id="control.empty",
            title="nothing",
            operation="the loop and the rotation of the inputs, no operation",
            definition="control",
            comparable=False,
            evidence=index_evidence,
        ),
        Row(
            id="control.aa",
            title="the same operation twice",
            operation="packet.unpack+hash in two processes of the same arm",
            payload=fixtures.PACKET_DATA_BYTES,
            definition="control",
            comparable=False,
            evidence=packets.hash_evidence(header_2=False),
        ),
        Row(
            id="control.aa.pair",
            title="the same pair of processes twice",
            operation="packet.proof in two pairs of processes of the same arm",
            payload=128,
            definition="control",
            comparable=False,
            pair=Pair("packet", samples=(100, 20)),
        ),
    ),
    offers=_offers,
)
