"""A transport node frame by frame against what upstream's did."""

from __future__ import annotations

from typing import Any

import pytest

from engine.wires import UNIX
from golden import name_of, named, raw, vectors
from netmesh import DestinationHash, Engine, Identity, Packet
from netmesh.constants import InterfaceMode
from netmesh.records import DropReason, InterfaceRole, PathRecord

CORE = "reticulum-core"
ME = Identity.from_private(bytes.fromhex(named(CORE, "identity-transport")["input"]["private_key"]))
TRANSPORT = vectors(
    CORE,
    "transport_rebroadcast",
    "transport_forward",
    "transport_path_response",
    "transport_recursive_pr",
    "shared_announce_out",
    "shared_announce_in",
    "shared_forward",
    "shared_linkrequest",
    "shared_client_out",
)
MTUS: dict[str, Any] = {"kind": "tcp", "ingress_control": False}


def the(name: str) -> dict[str, Any]:
    """The vector of that name."""
    return next(vector for vector in TRANSPORT if vector["name"] == name)


def relay(count: int = 2, **options: Any) -> tuple[Engine, list[int]]:
    """A transport node with the identity of the vectors, and its interfaces."""
    given = {"transport": True} | options
    engine = Engine(clock=(1000.0, UNIX), identity=ME, seed=bytes(32), **given)
    return engine, [engine.add_interface(f"wire {n}", **MTUS) for n in range(count)]


def sent(engine: Engine) -> dict[int, list[bytes]]:
    """The frames that wait, by interface."""
    found: dict[int, list[bytes]] = {}
    for output in engine.outputs():
        found.setdefault(output.interface, []).append(output.data)
    return found


def put_path(engine: Engine, interface: int, given: dict[str, Any], **more: Any) -> None:
    """The path that a vector presupposes."""
    packet = Packet.unpack(bytes.fromhex(given["received_raw"]))
    next_hop = raw(given.get("next_hop")) or bytes(packet.destination)
    engine.put_path(
        PathRecord(
            destination=DestinationHash(bytes(packet.destination)),
            next_hop=next_hop,
            hops=given["path_hops"],
            interface=interface,
            expires_s=1e6,
            updated_s=1000.0,
            **more,
        )
    )


def learn_bob(engine: Engine, interface: int) -> None:
    """Makes the destination of the forwarding vectors known by its announce."""
    engine.input(
        interface, bytes.fromhex(the("transport-announce-rebroadcast")["input"]["received_raw"])
    )
    sent(engine)


def test_an_announce_goes_out_again_everywhere() -> None:
    vector = the("transport-announce-rebroadcast")
    engine, (one, two) = relay()
    assert engine.input(one, bytes.fromhex(vector["input"]["received_raw"])).accepted
    engine.advance(0.5)
    frame = bytes.fromhex(vector["output"]["rebroadcast_raw"])
    assert sent(engine) == {one: [frame], two: [frame]}
    path = engine.paths()[0]
    assert path.hops == vector["output"]["path_hops"]
    assert path.next_hop.hex() == vector["output"]["next_hop"]
    engine.advance(4.9)
    assert sent(engine) == {}
    engine.advance(0.7)
    assert sent(engine) == {one: [frame], two: [frame]}
    engine.advance(600.0)
    assert sent(engine) == {}


@pytest.mark.parametrize("vector", vectors(CORE, "announce_hop_limit"), ids=name_of)
def test_announces_end_at_128_hops(vector: dict[str, Any]) -> None:
    engine, (one, two) = relay()
    verdict = engine.input(one, bytes.fromhex(vector["input"]["received_raw"]))
    assert verdict.accepted is vector["output"]["accepted"]
    engine.advance(0.5)
    assert [frame.hex() for frame in sent(engine).get(two, [])] == vector["output"]["sent"]


@pytest.mark.parametrize("name", ["transport-forward-last-hop", "transport-forward-mid"])
def test_a_packet_goes_along_its_path_and_its_proof_back(name: str) -> None:
    vector = the(name)
    engine, (asks, owns) = relay()
    put_path(engine, owns, vector["input"])
    engine.input(asks, bytes.fromhex(vector["input"]["received_raw"]))
    assert sent(engine) == {owns: [bytes.fromhex(vector["output"]["sent_raw"])]}
    proof = the("transport-proof-return")
    engine.input(owns, bytes.fromhex(proof["input"]["received_raw"]))
    assert sent(engine) == {asks: [bytes.fromhex(proof["output"]["sent_raw"])]}
    engine.input(owns, bytes.fromhex(proof["input"]["received_raw"]))
    assert sent(engine) == {}


def test_a_proof_from_elsewhere_is_not_carried() -> None:
    """RNS 1, 8.10.5 and 11 (21): only where the packet went; it ends the way back all the same."""
    vector, proof = the("transport-forward-last-hop"), the("transport-proof-return")
    engine, (asks, owns, other) = relay(3)
    put_path(engine, owns, vector["input"])
    engine.input(asks, bytes.fromhex(vector["input"]["received_raw"]))
    sent(engine)
    assert len(engine.reverses()) == 1
    engine.input(other, bytes.fromhex(proof["input"]["received_raw"]))
    assert sent(engine) == {}
    assert engine.reverses() == []
    engine.input(owns, bytes.fromhex(proof["input"]["received_raw"]))
    assert sent(engine) == {}


LINK_REQUESTS = [
    vector for vector in vectors(CORE, "transport_forward") if "linkrequest" in vector["name"]
]


@pytest.mark.parametrize("vector", LINK_REQUESTS, ids=name_of)
def test_a_link_request_is_clamped_on_its_way(vector: dict[str, Any]) -> None:
    given = vector["input"]
    engine, _ = relay(0)
    mtus = {
        "asks": given.get("previous_hop_hw_mtu", 1064),
        "owns": given.get("next_hop_hw_mtu", 8192),
    }
    ids = {
        side: engine.add_interface(
            side, **(MTUS | ({"kind": "udp"} if mtu is None else {"mtu": mtu}))
        )
        for side, mtu in mtus.items()
    }
    put_path(engine, ids["owns"], given)
    engine.input(ids["asks"], bytes.fromhex(given["received_raw"]))
    assert sent(engine) == {ids["owns"]: [bytes.fromhex(vector["output"]["sent_raw"])]}


def test_a_link_is_carried_once_it_is_proven() -> None:
    request = the("transport-linkrequest-strip")
    proof = the("transport-lrproof")
    data = the("transport-link-data")
    engine, _ = relay(0)
    asks = engine.add_interface("asks", **(MTUS | {"mtu": 1064}))
    owns = engine.add_interface("owns", **(MTUS | {"mtu": 8192}))
    learn_bob(engine, owns)
    engine.advance(10.0)
    sent(engine)
    engine.input(asks, bytes.fromhex(request["input"]["received_raw"]))
    sent(engine)
    early = engine.input(owns, bytes.fromhex(data["input"]["received_raw"]))
    assert early.reason is DropReason.LINK_UNPROVEN
    assert not early.remembered
    assert engine.counters(owns).violations == 1
    engine.input(owns, bytes.fromhex(proof["input"]["received_raw"]))
    assert sent(engine) == {asks: [bytes.fromhex(proof["output"]["sent_raw"])]}
    engine.input(owns, bytes.fromhex(data["input"]["received_raw"]))
    assert sent(engine) == {asks: [bytes.fromhex(data["output"]["sent_raw"])]}


def test_a_known_path_is_told_after_its_pause() -> None:
    vector = the("transport-path-response")
    given = vector["input"]
    request = bytes.fromhex(given["request_raw"])
    wanted = Packet.unpack(request).payload[:16]
    cached = (
        bytes([0x51, 1])
        + bytes(16)
        + bytes(wanted)
        + b"\0"
        + bytes.fromhex(given["cached_announce_data"])
    )
    engine, (asks, owns) = relay()
    engine.input(owns, cached)
    engine.advance(60.0)
    sent(engine)
    engine.input(asks, request)
    assert sent(engine) == {}
    engine.advance(0.39)
    assert sent(engine) == {}
    engine.advance(0.02)
    assert sent(engine) == {asks: [bytes.fromhex(vector["output"]["response_raw"])]}


def test_an_unknown_path_is_searched_with_the_same_tag() -> None:
    vector = the("transport-recursive-path-request")
    engine, _ = relay(0)
    asks = engine.add_interface("asks", mode=InterfaceMode.GATEWAY, **MTUS)
    other = engine.add_interface("other", **MTUS)
    engine.input(asks, bytes.fromhex(vector["input"]["received_raw"]))
    assert sent(engine) == {other: [bytes.fromhex(vector["output"]["sent_raw"])]}


def test_which_modes_search_on_which() -> None:
    request = bytes.fromhex(the("transport-recursive-path-request")["input"]["received_raw"])
    matrix = vectors(CORE, "recursive_pr_matrix")[0]["output"]["rows"]
    for asking, other, searched in matrix:
        engine, _ = relay(0)
        asks = engine.add_interface("asks", mode=InterfaceMode(asking), **MTUS)
        out = engine.add_interface("other", mode=InterfaceMode(other), **MTUS)
        engine.input(asks, request)
        assert (out in sent(engine)) is searched, (asking, other)


@pytest.mark.parametrize("vector", vectors(CORE, "path_request_batching"), ids=name_of)
def test_requests_for_one_destination_are_batched(vector: dict[str, Any]) -> None:
    """The rebroadcast of announces is not part of the vectors."""
    given = vector["input"]
    engine, _ = relay(0)
    ids = {
        number: engine.add_interface(number, mode=InterfaceMode(mode), **MTUS)
        for number, mode in given["interface_modes"].items()
    }
    numbers = {interface: number for number, interface in ids.items()}
    for event, expected in zip(given["events"], vector["output"]["sent"], strict=True):
        engine.set_clock(1000.0 + event["t"], UNIX + event["t"])
        engine.outputs()
        if "raw" in event:
            engine.input(ids[str(event["interface"])], bytes.fromhex(event["raw"]))
        found = {numbers[at]: [f.hex() for f in frames] for at, frames in sent(engine).items()}
        assert found == expected, event["t"]


def shared() -> tuple[Engine, int, int]:
    """A shared instance without transport, with one client and one way out."""
    engine, _ = relay(0, transport=False, shared_instance=True)
    client = engine.add_interface("client", kind="local", role=InterfaceRole.LOCAL_CLIENT)
    outside = engine.add_interface("outside", **(MTUS | {"mtu": 1064}))
    return engine, client, outside


def client_announce() -> bytes:
    """The announce of the client of the vectors."""
    return bytes.fromhex(the("shared-client-announce-out")["input"]["from_client_raw"])


def test_a_client_s_announce_leaves_with_hop_byte_0() -> None:
    vector = the("shared-client-announce-out")
    engine, client, outside = shared()
    engine.input(client, client_announce())
    engine.advance(0.0)
    assert sent(engine) == {outside: [bytes.fromhex(vector["output"]["external_raw"])]}
    assert engine.paths()[0].hops == 0


def test_an_announce_reaches_the_clients_at_once() -> None:
    vector = the("shared-announce-to-client")
    engine, client, outside = shared()
    engine.input(outside, bytes.fromhex(vector["input"]["received_raw"]))
    assert sent(engine) == {client: [bytes.fromhex(vector["output"]["client_raw"])]}
    engine.advance(10.0)
    assert sent(engine) == {}


def test_what_is_for_a_client_goes_to_it() -> None:
    for name in ("shared-data-to-client", "shared-linkrequest-to-client"):
        vector = the(name)
        engine, client, outside = shared()
        engine.input(client, client_announce())
        engine.advance(0.0)
        sent(engine)
        engine.input(outside, bytes.fromhex(vector["input"]["received_raw"]))
        assert sent(engine) == {client: [bytes.fromhex(vector["output"]["sent_raw"])]}


def test_what_a_client_sends_goes_along_the_path() -> None:
    vector = the("shared-client-data-out")
    engine, client, outside = shared()
    put_path(engine, outside, vector["input"] | {"received_raw": vector["input"]["client_raw"]})
    engine.input(client, bytes.fromhex(vector["input"]["client_raw"]))
    assert sent(engine) == {outside: [bytes.fromhex(vector["output"]["external_raw"])]}
