"""Upstream's `rnstatus`, `rnpath`, `rnprobe` and management against ours, and the other way."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interop.upstream import ATTEMPT_S, PATIENCE, TRIES, client, config, find, server, spawn
from netmesh import Identity, IdentityHash, Node, errors
from netmesh.destination import destination_hash
from netmesh.interfaces import TCPClient, TCPServer

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(240)]

STATUS = "rnstransport.remote.management"
PROBE = "rnstransport.probe"
COMMAND_S = 10.0
"""A command that takes longer is taken to wait for ever."""
ALWAYS = {
    *("clients", "bitrate", "rxs", "txs", "ifac_signature", "ifac_size", "ifac_netname"),
    *("autoconnect_source", "name", "short_name", "hash", "type", "rxb", "txb"),
    *("incoming_announce_frequency", "outgoing_announce_frequency"),
    *("incoming_pr_frequency", "outgoing_pr_frequency", "announce_rate_target"),
    *("announce_rate_penalty", "announce_rate_grace", "held_announces", "burst_active"),
    *("burst_activated", "pr_burst_active", "pr_burst_activated", "status", "mode", "gravity"),
    *("announces_to_internal", "mtu", "arxb", "atxb", "prxb", "ptxb", "arxc", "atxc", "prxc"),
    *("ptxc", "arxs", "atxs", "prxs", "ptxs", "txdrp", "txdrb", "txstalled", "txbuffered"),
    *("burst_count", "pr_burst_count", "protocol_violations", "ifac_violations"),
    "packet_filter_hits",
}
"""What a status of 1.5 says of every interface (RNS 2, 7.4)."""
TOTALS = {
    *("interfaces", "rxb", "txb", "rxs", "txs", "rss", "arxb", "atxb", "prxb", "ptxb", "arxs"),
    *("atxs", "prxs", "ptxs", "arxf", "atxf", "prxf", "ptxf", "rxpps", "txpps", "rxqt", "rxqd"),
    *("rxqa", "rxqp", "rxqil", "rxqtd", "rxqdd", "rxqad", "rxqpd", "rxqild", "tqpressure"),
    *("dqpressure", "aqpressure", "pqpressure", "ilqpressure", "txq", "transport_id"),
    *("network_id", "transport_uptime", "probe_responder"),
}


async def tool(python: str, folder: Path, port: int, name: str, *arguments: str, good: str) -> str:
    """What a command of upstream says; asked a bounded number of times.

    Its interface may not be connected yet when it asks. And it says what is to happen when its
    link is up only after it has asked for the link: when that is up before, as here, it waits
    for ever.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_text(config({"hub": client(port)}))
    said = ""
    for _ in range(TRIES):
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            f"RNS.Utilities.{name}",
            "--config",
            str(folder),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        talk = asyncio.ensure_future(process.communicate())
        await asyncio.wait([talk], timeout=COMMAND_S)
        if not talk.done():
            process.kill()
        said = (await talk)[0].decode(errors="replace")
        if process.returncode == 0 and re.search(good, said):
            return said
    raise AssertionError(f"{name} {arguments} said {said!r}")


def answer(said: str) -> Any:
    """The JSON in what a command said."""
    start = min(at for at in (said.find("{"), said.find("[")) if at >= 0)
    return json.JSONDecoder().raw_decode(said[start:])[0]


@asynccontextmanager
async def hub(manager: Identity) -> AsyncIterator[tuple[Node, int, bytes]]:
    """A transport node that answers, its port, and a destination of a node behind it."""
    server_options = TCPServer("127.0.0.1", label="port", ingress_control=False)
    async with (
        Node(
            interfaces=[server_options],
            shared_instance=False,
            transport=True,
            probes=True,
            management=[manager.hash],
        ) as node,
        Node(shared_instance=False) as far,
    ):
        port = node.interfaces()[0].port
        assert port
        joined = await far.add_interface(TCPClient("127.0.0.1", port))
        await joined.wait_online(timeout=PATIENCE)
        echo = await far.listen("netmesh.interop", prove="all")
        await echo.announce()
        await find(node, echo.hash)
        yield node, port, bytes(echo.hash)


async def test_the_tools_of_upstream_against_our_transport_node(
    python: str, tmp_path: Path
) -> None:
    manager = Identity()
    key = tmp_path / "manager"
    manager.save(key)
    async with hub(manager) as (node, port, echo):
        who = ("-R", bytes(node.identity.hash).hex(), "-i", str(key))
        probe = bytes(destination_hash(node.identity.hash, PROBE)).hex()

        def run(folder: str, name: str, *arguments: str, good: str = "") -> Any:
            return tool(python, tmp_path / folder, port, name, *arguments, good=good)

        status, shown, table, rates, path, probed = await asyncio.gather(
            run("1", "rnstatus", *who, "-j", "-l", good="interfaces"),
            run("2", "rnstatus", *who, "-a", "-A", "-l", "-t", good="port"),
            run("3", "rnpath", *who, "-t", "-j", good=echo.hex()),
            run("4", "rnpath", *who, "-r", "-j", good=echo.hex()),
            run("5", "rnpath", echo.hex(), good="hops"),
            run("6", "rnprobe", PROBE, probe, good="Valid reply"),
        )
        told = answer(status)
        assert told["transport_id"] == bytes(node.identity.hash).hex()
        assert told["probe_responder"] == probe
        assert told["transport_uptime"] > 0
        assert {each["type"] for each in told["interfaces"]} >= {"TCPServerInterface"}
        assert all(each["rxb"] > 0 for each in told["interfaces"] if "Server" in each["type"])
        assert "Up" in shown
        (row,) = (each for each in answer(table) if each["hash"] == echo.hex())
        assert (row["via"], row["hops"]) == (echo.hex(), 1)
        (rate,) = (each for each in answer(rates) if each["hash"] == echo.hex())
        assert (rate["rate_violations"], len(rate["timestamps"])) == (0, 1)
        assert rate["last"] == pytest.approx(rate["timestamps"][0])
        assert "is 2 hops away" in path
        assert "1 hop" in probed


async def asked(link: Any, path: str, data: Any) -> Any:
    """What upstream answers; a bounded number of times."""
    for _ in range(TRIES):
        try:
            return (await link.request(path, data, timeout=ATTEMPT_S)).data
        except (errors.RequestError, TimeoutError):
            continue
    raise AssertionError(f"asked {TRIES} times for {path} and got nothing")


async def test_our_node_asks_an_upstream_transport_node(python: str, tmp_path: Path) -> None:
    """Probes, status with links, path table and rates; what we say of ourselves has its keys."""
    manager = Identity()
    settings = config(
        {"port": server(ingress_control=False)},
        transport=True,
        enable_remote_management=True,
        remote_management_allowed=bytes(manager.hash).hex(),
        respond_to_probes=True,
    )
    async with spawn(python, tmp_path, settings) as peer, Node(shared_instance=False) as node:
        joined = await node.add_interface(TCPClient("127.0.0.1", peer.ready["ports"]["port"]))
        await joined.wait_online(timeout=PATIENCE)
        echo = await node.listen("netmesh.interop", prove="all")
        await echo.announce()
        transport = IdentityHash(bytes.fromhex(peer.ready["transport"]))
        probe = destination_hash(transport, PROBE)
        await find(node, probe)
        for attempt in range(TRIES):
            receipt = await node.send(probe, bytes([attempt]) * 16, timeout=ATTEMPT_S)
            if receipt is not None and (await receipt.wait(timeout=PATIENCE)).ok:
                break
        else:
            raise AssertionError("no probe was answered")
        management = destination_hash(transport, STATUS)
        await find(node, management)
        async with await node.connect(management, timeout=PATIENCE) as link:
            await link.identify(manager)
            status, links = (await asked(link, "/status", [True]))[:2]
            assert status["transport_id"] == bytes(transport)
            assert isinstance(links, int)
            for _ in range(TRIES):
                table = await asked(link, "/path", ["table", bytes(echo.hash), None])
                rates = await asked(link, "/path", ["rates", bytes(echo.hash)])
                if table and rates:
                    break
                await echo.announce()
            assert [(row["hash"], row["hops"]) for row in table] == [(bytes(echo.hash), 1)]
            assert [row["hash"] for row in rates] == [bytes(echo.hash)]
        async with hub(manager) as (ours, port, behind), Node(shared_instance=False) as asker:
            await asker.add_interface(TCPClient("127.0.0.1", port))
            own = destination_hash(ours.identity.hash, STATUS)
            await find(asker, own)
            async with await asker.connect(own, timeout=PATIENCE) as link:
                await link.identify(manager)
                told, _ = (await link.request("/status", [True], timeout=PATIENCE)).data
                row = (await link.request("/path", ["table", behind], timeout=PATIENCE)).data
                rate = (await link.request("/path", ["rates", behind], timeout=PATIENCE)).data
        if "mtu" in status["interfaces"][0]:  # 1.5
            assert status.keys() == told.keys() == TOTALS
            assert status["interfaces"][0].keys() >= ALWAYS
        assert all(each.keys() >= ALWAYS for each in told["interfaces"])
        assert status.keys() <= told.keys()
        assert row[0].keys() == table[0].keys()
        assert rate[0].keys() == rates[0].keys()
