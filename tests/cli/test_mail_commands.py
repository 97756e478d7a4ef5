"""netmesh send and netmesh inbox, as processes of their own, with a node in this one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from netmesh import DestinationHash, Identity, Node, cli
from netmesh import _cli_node as cli_node
from netmesh.interfaces import AutoInterface, TCPClient, TCPServer
from netmesh.lxmf import (
    Propagated,
    PropagationAppData,
    container_unpack,
    delivery_hash,
    fields,
)

PATIENCE = 60.0


class Place:
    """A node that a command connects to, and a folder with an identity for it."""

    def __init__(self, node: Node, port: int, folder: Path) -> None:
        self.node = node
        self.at = f"127.0.0.1:{port}"
        self.folder = folder
        self.identity = Identity()
        self.file = str(folder / "me.identity")
        self.identity.save(self.file)

    async def start(self, *words: str, stdin: bytes | None = None) -> asyncio.subprocess.Process:
        """Starts a command that connects to the node."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "netmesh",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        if stdin is not None:
            assert process.stdin
            process.stdin.write(stdin)
            process.stdin.close()
        return process

    async def run(self, *words: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        """Runs a command to its end: status, standard output, standard error."""
        process = await self.start(*words, stdin=stdin)
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
        assert process.returncode is not None
        assert b"Traceback" not in err, err
        return process.returncode, out.decode(), err.decode()

    def options(self, *more: str) -> list[str]:
        """Who the command is, and how it is connected."""
        return ["--identity", self.file, "--connect", self.at, *more]


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    """A place."""
    async with Node(shared_instance=False) as node:
        port = await node.add_interface(TCPServer("127.0.0.1", 0))
        info = await node.interface_info(port.id)
        assert info.port is not None
        yield Place(node, info.port, folder)


async def until_ready(process: asyncio.subprocess.Process) -> str:
    """Waits until an inbox says its address."""
    assert process.stderr
    async with asyncio.timeout(PATIENCE):
        line = (await process.stderr.readline()).decode()
    assert line.startswith("messages to "), line
    return line.split()[-1]


@pytest.mark.asyncio
async def test_a_message_is_sent_and_proven(tmp_path: Path) -> None:
    file = tmp_path / "map.png"
    file.write_bytes(b"\x89PNG")
    async with place(tmp_path) as here:
        box = await here.node.lxmf(display_name="Bob")
        to = bytes(box.hash).hex()
        status, out, _ = await here.run(
            "send",
            *here.options("--title", "Wéll", "--attach", str(file), "--method", "direct", "--json"),
            *("--name", "Ann", "--timeout", "50", to, "See", "you."),
        )
        assert status == 0
        told = json.loads(out)
        got = await box.get(timeout=PATIENCE)
        assert (got.title, got.content) == ("Wéll", "See you.")
        assert fields.attachments(got.fields) == (fields.Attachment("map.png", b"\x89PNG"),)
        assert got.source == delivery_hash(here.identity)
        assert got.verified
        assert told == told | {
            "delivered": True,
            "state": "delivered",
            "id": got.id.hex(),
            "source": bytes(got.source).hex(),
            "destination": to,
            "method": "direct",
            "representation": "packet",
        }
        status, out, _ = await here.run("send", *here.options(), to, "-", stdin=b"piped\n")
        assert status == 0
        got = await box.get(timeout=PATIENCE)
        assert got.content == "piped\n"
        assert out.startswith(f"delivered {got.id.hex()} (opportunistic, as a packet, ")


@pytest.mark.asyncio
async def test_a_sender_is_announced_unless_told_not_to(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        box = await here.node.lxmf()
        heard: list[DestinationHash] = []
        here.node.on_announce(lambda each: heard.append(each.destination), name="lxmf.delivery")
        to = bytes(box.hash).hex()
        assert (await here.run("send", *here.options("--no-announce"), to, "x"))[0] == 0
        assert heard == []
        assert (await here.run("send", *here.options(), to, "x"))[0] == 0
        assert heard == [delivery_hash(here.identity)]


@pytest.mark.asyncio
async def test_a_stamp_is_made_as_told(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        box = await here.node.lxmf(stamp_cost=4)
        to = bytes(box.hash).hex()
        assert (await here.run("send", *here.options("--stamp-cost", "6"), to, "x"))[0] == 0
        got = await box.get(timeout=PATIENCE)
        assert got.message.stamp_value() >= 6


@pytest.mark.asyncio
async def test_a_propagation_node_takes_a_message(tmp_path: Path) -> None:
    """The node here proves what is uploaded to it; the recipient is known, and away."""
    storage = str(tmp_path / "storage")
    recipient = Identity()
    async with Node(storage=storage, shared_instance=False) as node:
        await node.remember(delivery_hash(recipient), recipient.public_only())
        await node.persist()
    data = PropagationAppData(
        time=1700000000,
        active=True,
        transfer_limit_kb=256,
        sync_limit_kb=10240,
        stamp_cost=2,
        flexibility=0,
        peering_cost=18,
    )
    async with place(tmp_path) as here:
        uploads: list[bytes] = []
        # Its address is known only once somebody asks for its path.
        server = await here.node.listen(
            "lxmf.propagation",
            prove="all",
            app_data=data.pack(),
            on_link_packet=lambda _, packet: uploads.append(packet.data),
        )
        words = ["send", "--storage", storage, "--connect", here.at, "--method", "propagated"]
        to = bytes(delivery_hash(recipient)).hex()
        node_words = ["--node", bytes(server.hash).hex(), "--timeout", "50"]
        status, out, err = await here.run(*words, *node_words, "--json", to, "for later")
        assert status == 0, err
        told = json.loads(out)
        assert (told["delivered"], told["state"]) == (False, "sent")
        [(_, [stamped])] = map(container_unpack, uploads)
        element = Propagated.from_stamped(stamped)
        assert element.stamp_valid(2)
        assert element.open(recipient).content_text == "for later"
        status, _, err = await here.run(*words, "--timeout", "5", to, "no node")
        assert status == 1


@pytest.mark.asyncio
async def test_a_message_that_nobody_gets_ends_with_1(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        status, out, err = await here.run(
            "send", *here.options("--timeout", "1.5", "--json"), "00" * 16, "x"
        )
        assert status == 1
        told = json.loads(out)
        assert told["delivered"] is False
        assert told["reason"] == "TIMEOUT"
        assert err.startswith("netmesh send: ")
        assert err.count("\n") == 1


@pytest.mark.asyncio
async def test_messages_are_shown_as_they_come(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    async with place(tmp_path) as here:
        box = await here.node.lxmf(display_name="Bob")
        for json_too in ([], ["--json"]):
            process = await here.start(
                "inbox", *here.options(*json_too, "--count", "2", "--save", str(saved))
            )
            address = DestinationHash(bytes.fromhex(await until_ready(process)))
            assert address == delivery_hash(here.identity)
            await box.announce()
            mine = fields.build(attachments=[fields.Attachment("../a.txt", b"A")])
            for text in ("first", "second"):
                await box.send(address, text, title="T", fields=mine, timeout=PATIENCE)
            async with asyncio.timeout(PATIENCE):
                out, err = await process.communicate()
            assert process.returncode == 0, err
            if json_too:
                lines = [json.loads(line) for line in out.splitlines()]
                assert [line["content"] for line in lines] == ["first", "second"]
                assert all(line["verified"] for line in lines)
                assert lines[1]["saved"] == [str(saved / "a-4.txt")]
            else:
                assert f"from {bytes(box.hash).hex()}\n  T\n  first\n" in out.decode()
        assert sorted(each.name for each in saved.iterdir()) == [
            "a-2.txt",
            "a-3.txt",
            "a-4.txt",
            "a.txt",
        ]


@pytest.mark.asyncio
async def test_a_server_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        box = await here.node.lxmf()
        to = bytes(box.hash).hex()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        words = ["send", "--identity", here.file, "--connect", f"127.0.0.1:{port}", to, "late"]
        process = await here.start(*words)
        await here.node.add_interface(TCPServer("127.0.0.1", port))
        assert (await box.get(timeout=PATIENCE)).content == "late"
        async with asyncio.timeout(PATIENCE):
            await process.communicate()
        assert process.returncode == 0


@pytest.mark.asyncio
async def test_an_inbox_ends_after_its_time(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        assert (await here.run("inbox", *here.options("--timeout", "0.5")))[0] == 0
        status, out, err = await here.run(
            "inbox", *here.options("--timeout", "0.5", "--count", "1")
        )
        assert (status, out) == (1, "")
        assert "1 messages did not come within 0.5 s" in err


@pytest.mark.asyncio
@pytest.mark.parametrize("command", ["inbox", "send"])
async def test_an_interrupt_ends_it_cleanly(command: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        announced = asyncio.Event()
        here.node.on_announce(lambda _: announced.set(), name="lxmf.delivery")
        more = ["00" * 16, "x"] if command == "send" else []
        process = await here.start(command, *here.options(), *more)
        async with asyncio.timeout(PATIENCE):
            await announced.wait()
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
        assert process.returncode == 130
        assert out == b""
        assert b"Traceback" not in err


@pytest.mark.asyncio
async def test_a_storage_has_the_identity_and_its_own_lock(tmp_path: Path) -> None:
    storage = str(tmp_path / "storage")
    async with place(tmp_path) as here:
        box = await here.node.lxmf()
        to = bytes(box.hash).hex()
        words = ["send", "--storage", storage, "--connect", here.at, to, "x"]
        assert (await here.run(*words))[0] == 0
        got = await box.get(timeout=PATIENCE)
        assert got.source == delivery_hash(Identity.load(tmp_path / "storage" / "identity"))
        async with Node(storage=storage, shared_instance=False):
            status, _, err = await here.run(*words)
        assert status == 1
        assert "another node" in err


# ------------------------------------------------------------------- without a network


def test_ways_into_the_network_are_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    class AskedError(Exception):
        """Instead of a node."""

    def node(_identity: Any, **options: Any) -> Any:
        given.append(options)
        raise AskedError

    monkeypatch.setattr(cli_node, "Node", node)
    file = tmp_path / "me"
    Identity().save(file)
    words = ["inbox", "--identity", str(file)]
    for more in (
        [],
        ["--connect", "a:1", "--connect", "[::1]:2"],
        ["--listen", ":3", "--auto"],
    ):
        with pytest.raises(AskedError):
            cli.main([*words, *more])
    assert [each["shared_instance"] for each in given] == ["auto", False, False]
    assert [each["interfaces"] for each in given] == [
        [],
        [TCPClient("a", 1), TCPClient("::1", 2)],
        [TCPServer("", 3), AutoInterface()],
    ]


def test_without_an_instance_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "me"
    Identity().save(file)
    monkeypatch.setattr(cli_node, "Node", lambda who, **_: Node(who, shared_instance=False))
    assert cli.main(["inbox", "--identity", str(file)]) == 1
    assert "use --connect, --listen or --auto" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["send", "zz", "x"],
        ["send", "00" * 16, "x"],
        ["inbox"],
        ["inbox", "--identity", "x", "--count", "0"],
        ["inbox", "--identity", "x", "--timeout", "-1"],
        ["inbox", "--identity", "x", "--timeout", "nan"],
        ["inbox", "--identity", "x", "--connect", "nowhere"],
        ["inbox", "--identity", "x", "--connect", "a:70000"],
        ["send", "--identity", "x", "--stamp-cost", "255", "00" * 16, "x"],
        ["send", "--identity", "x", "--method", "pigeon", "00" * 16, "x"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert "usage: netmesh" in capsys.readouterr().err
