"""netmesh inbox --sync, as a process of its own, with a propagation node in this one."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.test_mail_commands import PATIENCE, Place, place, until_ready
from netmesh import DestinationHash, Identity, _cli_inbox, cli
from netmesh.constants import Context
from netmesh.destinations import LocalDestination
from netmesh.lxmf import Message, Propagated, PropagationAppData, delivery_hash
from node.lossy import cable

NAME = "lxmf.propagation"


class Office:
    """A place whose node keeps messages for the identity of its commands."""

    def __init__(self, here: Place) -> None:
        self.here = here
        self.sender = Identity()
        self.kept: dict[bytes, bytes] = {}
        self.asked = 0
        self.local: LocalDestination
        self.refuses: int | None = None

    async def open(self, *, active: bool = True) -> None:
        """Listens as a propagation node, whose path must be asked for."""
        said = PropagationAppData(
            time=int(time.time()),
            active=active,
            transfer_limit_kb=64,
            sync_limit_kb=1000,
            stamp_cost=2,
            flexibility=0,
            peering_cost=18,
        )
        local = await self.here.node.listen(NAME, app_data=said.pack())
        await local.add_handler("/get", self._get, allow=[self.here.identity.hash])
        self.local = local
        await self.here.node.remember(delivery_hash(self.sender), self.sender.public_only())
        # Who looks for the sender's keys finds them.
        await self.here.node.lxmf(self.sender)

    def leave(self, *texts: str) -> None:
        """Messages for the identity of the commands."""
        for text in texts:
            message = Message.create(self.sender, delivery_hash(self.here.identity), text)
            sealed = Propagated.create(message, self.here.identity)
            self.kept[sealed.transient_id] = sealed.lxmf_data

    def _get(self, request: Any) -> Any:
        self.asked += 1
        if self.refuses is not None:
            return self.refuses
        want, have, *_ = request.data
        for each in have or ():
            self.kept.pop(each, None)
        if want is None and have is None:
            return list(self.kept)
        return [self.kept[each] for each in want or () if each in self.kept]

    async def inbox(self, *more: str) -> tuple[int, list[dict[str, Any]], str]:
        """Runs ``netmesh inbox --json``: status, what it printed, standard error."""
        status, out, err = await self.here.run("inbox", *self.here.options("--json", *more))
        return status, [json.loads(line) for line in out.splitlines()], err


@asynccontextmanager
async def office(folder: Path, *, active: bool = True) -> AsyncIterator[Office]:
    async with place(folder) as here:
        opened = Office(here)
        await opened.open(active=active)
        yield opened


def messages(lines: list[dict[str, Any]]) -> list[str]:
    return sorted(line["content"] for line in lines if "fetch" not in line)


@pytest.mark.asyncio
async def test_what_a_node_keeps_is_fetched_once(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        at.leave("one", "two", "three")
        node = bytes(at.local.hash).hex()
        status, lines, err = await at.inbox("--sync", node, "--once", "--limit", "2", "--retain")
        assert (status, len(messages(lines)), len(at.kept)) == (0, 2, 3), err
        end = lines[[("ok" in line.get("fetch", {})) for line in lines].index(True)]["fetch"]
        assert end["duration_s"] > 0
        assert end == {
            "node": node,
            "ok": True,
            "state": "complete",
            "reason": "",
            "received": 2,
            "duplicates": 0,
            "duration_s": end["duration_s"],
        }
        status, lines, err = await at.inbox("--sync", node, "--once")
        assert (status, messages(lines), at.kept) == (0, ["one", "three", "two"], {}), err
        # For people the fetch is told of beside the messages.
        words = at.here.options("--sync", node, "--once", "--progress")
        status, out, err = await at.here.run("inbox", *words)
        assert (status, out) == (0, "")
        assert err.splitlines()[-1] == f"fetched 0 from {node}"


@pytest.mark.asyncio
async def test_messages_come_once_with_a_storage(tmp_path: Path) -> None:
    """What was shown is acknowledged, in the store too: the next run shows only what is new."""
    async with office(tmp_path) as at:
        words = [
            "--storage",
            str(tmp_path / "storage"),
            "--sync",
            bytes(at.local.hash).hex(),
            "--once",
        ]
        for text in ("first", "second"):
            at.leave(text)
            status, lines, err = await at.inbox(*words)
            assert (status, messages(lines), at.kept) == (0, [text], {}), err


@pytest.mark.asyncio
async def test_the_nearest_node_is_found(tmp_path: Path) -> None:
    """It is heard of while the command waits; what comes by other ways is shown too."""
    async with office(tmp_path) as at:
        at.leave("kept")
        process = await at.here.start("inbox", *at.here.options("--sync", "auto", "--count", "2"))
        address = await until_ready(process)

        async with asyncio.timeout(PATIENCE):
            while at.asked == 0:
                await at.local.announce()
                await asyncio.sleep(0.05)
        box = await at.here.node.lxmf(Identity())
        await box.send(DestinationHash(bytes.fromhex(address)), "direct", timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
        assert process.returncode == 0
        assert b"  kept\n" in out
        assert b"  direct\n" in out


@pytest.mark.asyncio
async def test_it_fetches_again_and_again(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        node = bytes(at.local.hash).hex()
        words = ("--sync", node, "--every", "0.1", "--count", "2")
        process = await at.here.start("inbox", *at.here.options(*words))
        await until_ready(process)
        at.leave("one")
        async with asyncio.timeout(PATIENCE):
            while at.kept or at.asked == 0:
                await asyncio.sleep(0.05)
        at.leave("two")
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
        assert process.returncode == 0
        assert out.index(b"  one\n") < out.index(b"  two\n")


@pytest.mark.asyncio
async def test_a_fetch_that_fails_ends_with_1(tmp_path: Path) -> None:
    async with office(tmp_path, active=False) as at:
        at.refuses = 0xF1
        status, lines, err = await at.inbox("--sync", bytes(at.local.hash).hex(), "--once")
        assert (status, lines[-1]["fetch"]["reason"]) == (1, "NO_ACCESS")
        assert "NO_ACCESS" in err.splitlines()[-1]
        # One that is not active is none.
        status, lines, err = await at.inbox("--sync", "auto", "--once", "--fetch-timeout", "0.5")
        assert (status, lines) == (1, [{"fetch": {"ok": False, "reason": "NO_NODE"}}])
        away = "5a" * 16
        status, lines, err = await at.inbox("--sync", away, "--once", "--fetch-timeout", "0.5")
        assert (status, lines[-1]["fetch"]["reason"]) == (1, "TIMEOUT")
        assert lines[-1]["fetch"]["node"] == away
        status, _, err = await at.inbox("--sync", away, "--timeout", "1")
        assert status == 1
        assert err.splitlines()[-1] == "netmesh inbox: the time was over before the fetch"


@pytest.mark.asyncio
async def test_large_messages_on_their_way_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    """The cable carries some parts of a message, and no more."""
    async with cable() as (alice, bob, left, _):
        inbox, outbox = await bob.lxmf(), await alice.lxmf()
        await inbox.announce()
        parts = iter(range(6))
        left.loses = lambda packet: packet.context == Context.RESOURCE and next(parts, None) is None
        outbox.send(inbox.hash, os.urandom(200_000), method="direct")
        watch = asyncio.create_task(_cli_inbox._watch(bob, as_json=True))
        people = asyncio.create_task(_cli_inbox._watch(bob, as_json=False))
        out = err = ""
        async with asyncio.timeout(PATIENCE):
            while ": 4" not in err or not out.endswith("}}\n"):
                await asyncio.sleep(0.01)
                told = capsys.readouterr()
                out, err = out + told.out, err + told.err
        for task in (watch, people):
            task.cancel()
        lines = [json.loads(line)["transfer"] for line in out.splitlines()]
        assert {each["size_bytes"] for each in lines} == {lines[0]["size_bytes"]}
        assert lines[0]["size_bytes"] > 200_000
        assert "receiving 200" in err


@pytest.mark.parametrize(
    "words",
    [
        ["--sync", "somewhere"],
        ["--once"],
        ["--every", "5"],
        ["--limit", "5"],
        ["--retain"],
        ["--fetch-timeout", "5"],
        ["--sync", "auto", "--limit", "0"],
        ["--sync", "auto", "--once", "--every", "5"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_fit_end_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["inbox", "--identity", "x", *words])
    assert ended.value.code == 2
    assert "usage: netmesh" in capsys.readouterr().err
