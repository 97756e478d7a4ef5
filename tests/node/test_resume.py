"""Interrupted files between two netmesh ends: what is kept, and how it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from netmesh import Link, Node, errors
from netmesh.destinations import LocalDestination
from netmesh.events import ProgressMade, ResourceSent
from netmesh.interfaces import TCPClient, TCPServer
from netmesh.records import EngineStats
from netmesh.transfers import ReceivedFile
from node.nodes import NAME, PATIENCE, identity, soon, until
from node.test_files import SEGMENT, left_in, noise

pytestmark = pytest.mark.asyncio

SIZE = 12 * SEGMENT + 17


def partials(folder: Path) -> list[Path]:
    """What is kept in a folder."""
    return sorted(folder.glob(".netmesh-*.part"))


def held(folder: Path) -> int:
    """How much of a file is kept."""
    return sum(path.stat().st_size for path in partials(folder))


ALL: Final = 1 << 40


@dataclass
class Pass:
    """One connection through a wire."""

    room: int
    """Bytes that it still passes on to the server."""
    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]

    def cut(self) -> None:
        """Closes it at both ends."""
        for end in self.ends:
            end.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, onward: bool) -> None:
        """Passes on what comes, while there is room."""
        writer = self.ends[onward]
        try:
            while data := await reader.read(16384):
                self.room -= len(data) if onward else 0
                if onward and self.room < 0:
                    await asyncio.Event().wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.cut()


class Wire:
    """A TCP proxy whose connections can be limited and cut."""

    def __init__(self, port: int, room: int = ALL) -> None:
        self._to = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.room = room
        """What new connections may pass on."""
        self.passes: list[Pass] = []
        """The newest is the last."""

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for each in self.passes:
            each.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, onward = await asyncio.open_connection("127.0.0.1", self._to)
        new = Pass(self.room, (writer, onward))
        self.passes.append(new)
        for work in (new.carry(reader, True), new.carry(back, False)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


FEW: Final = 3 * SEGMENT + SEGMENT // 2
"""Bytes that carry three segments, and not a fourth."""


@dataclass
class Ends:
    """A node that listens, and what it stores in a folder."""

    node: Node
    sink: LocalDestination
    wire: Wire
    folder: Path

    @asynccontextmanager
    async def linked(self, room: int, who: int | None = None) -> AsyncIterator[tuple[Link, Link]]:
        """A link over a connection of its own, from both ends."""
        async with Node(interfaces=[TCPClient("127.0.0.1", self.wire.port)]) as alice:
            link = await alice.connect(self.sink.hash, timeout=PATIENCE)
            other = await self.sink.links.get(timeout=PATIENCE)
            if who is not None:
                await link.identify(identity(who))
                await other.wait_identified(timeout=PATIENCE)
            self.wire.passes[-1].room = room
            yield link, other

    async def interrupted(self, content: bytes, who: int | None = None) -> int:
        """Sends until three segments are there, then cuts the wire; how much is kept."""
        kept = self.node.stats().engine.partials_kept
        async with self.linked(FEW, who) as (link, _):
            transfer = await link.start_file(content, metadata={"name": b"big"}, compression="off")
            await until(lambda: held(self.folder) >= 3 * SEGMENT - 100)
            self.wire.passes[-1].cut()
            with pytest.raises(errors.LinkError):
                await soon(transfer)
        await until(lambda: self.node.stats().engine.partials_kept > kept)
        return held(self.folder)

    async def sent_again(
        self, content: bytes, who: int | None = None
    ) -> tuple[ResourceSent, ReceivedFile, list[int], EngineStats]:
        """Sends once more, and gives what both ends say of it and the progress."""
        steps: list[int] = []

        def note(made: ProgressMade) -> None:
            steps.append(made.done_bytes)

        async with self.linked(ALL, who) as (link, other):
            sent = await soon(
                link.send_file(content, metadata={"name": b"big"}, compression="off", progress=note)
            )
            received = await other.receive_file(timeout=PATIENCE)
            return sent, received, steps, link._node.stats().engine

    @property
    def figures(self) -> EngineStats:
        """Of the receiving node."""
        return self.node.stats().engine


@asynccontextmanager
async def ends(folder: Path, resume: bool = True) -> AsyncIterator[Ends]:
    """A destination that stores in a folder, behind a wire."""
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as node:
        sink = await node.listen(NAME, resources="all", identity=identity(7))
        await sink.set_folder(folder, resume=resume)
        port = node.interfaces()[0].port
        assert port
        async with Wire(port) as wire:
            yield Ends(node, sink, wire, folder)


def check(sent: ResourceSent, received: ReceivedFile, content: bytes, folder: Path) -> None:
    """All of it arrived, and nothing else is left."""
    assert received.path == folder / "big"
    assert received.path.read_bytes() == content
    assert received.metadata == {"name": b"big"}
    assert received.event.content_bytes == sent.done_bytes == sent.total_bytes == len(content)
    assert received.event.resource_hash == sent.resource_hash
    assert left_in(folder) == ["big"]


async def test_a_transfer_goes_on_after_its_link_was_lost(tmp_path: Path) -> None:
    content = noise(SIZE)
    async with ends(tmp_path) as e:
        before = await e.interrupted(content)
        (kept,) = partials(tmp_path)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert kept.read_bytes() == content[:before]
        sent, received, steps, figures = await e.sent_again(content)
        check(sent, received, content, tmp_path)
        assert steps == sorted(steps)
        assert all(before <= done < len(content) for done in steps)
        usual = tmp_path / "usual"
        usual.touch()
        assert received.path is not None
        assert received.path.stat().st_mode == usual.stat().st_mode
        for each in (figures, e.figures):
            assert (each.resources_resumed, each.resumes_declined) == (1, 0)


async def test_a_file_that_changed_begins_anew(tmp_path: Path) -> None:
    content = bytearray(noise(SIZE))
    async with ends(tmp_path) as e:
        await e.interrupted(bytes(content))
        content[5] ^= 1
        sent, received, _, figures = await e.sent_again(bytes(content))
        check(sent, received, bytes(content), tmp_path)
        assert sent.wire_bytes > len(content)
        for each in (figures, e.figures):
            assert (each.resources_resumed, each.resumes_declined) == (0, 1)


@pytest.mark.parametrize("damage", ["flipped", "longer", "cut", "gone", "directory", "link"])
async def test_damaged_partials_do_no_harm(tmp_path: Path, damage: str) -> None:
    content = noise(SIZE)
    folder = tmp_path / "in"
    folder.mkdir()
    async with ends(folder) as e:
        before = await e.interrupted(content)
        (kept,) = partials(folder)
        if damage == "flipped":
            with kept.open("r+b") as file:
                file.seek(SEGMENT)
                file.write(b"\0\0\0\0\0")
        elif damage == "longer":
            with kept.open("r+b") as file:
                file.truncate(SIZE + 1000)
        elif damage == "cut":
            os.truncate(kept, before - 12345)
        else:
            kept.unlink()
        if damage == "directory":
            kept.mkdir()
        elif damage == "link":
            (tmp_path / "victim").write_bytes(content[:before])
            kept.symlink_to(tmp_path / "victim")
        sent, received, _, figures = await e.sent_again(content)
        if damage in ("directory", "link"):
            assert received.path is not None
            assert received.path.read_bytes() == content
            assert left_in(folder) == [kept.name, "big"]
            if damage == "link":
                assert (tmp_path / "victim").read_bytes() == content[:before]
        else:
            check(sent, received, content, folder)
        assert figures.resources_resumed == (damage == "cut")


async def test_without_resume_nothing_is_kept(tmp_path: Path) -> None:
    async with ends(tmp_path, resume=False) as e, e.linked(FEW) as (link, _):
        transfer = await link.start_file(noise(SIZE), compression="off")
        await until(lambda: left_in(tmp_path) != [])
        assert partials(tmp_path) == []
        e.wire.passes[-1].cut()
        with pytest.raises(errors.LinkError):
            await soon(transfer)
        await until(lambda: left_in(tmp_path) == [])


async def test_a_peer_goes_on_with_its_own_transfers_alone(tmp_path: Path) -> None:
    content = noise(SIZE)
    async with ends(tmp_path) as e:
        before = await e.interrupted(content, who=1)
        (kept,) = partials(tmp_path)
        sent, received, _, _ = await e.sent_again(content, who=2)
        assert received.path is not None
        assert received.path.read_bytes() == content
        assert sent.wire_bytes > len(content)
        assert kept.stat().st_size == before
        received.path.unlink()
        sent, received, steps, figures = await e.sent_again(content, who=1)
        check(sent, received, content, tmp_path)
        assert figures.resources_resumed == 1
        assert min(steps) >= before


async def test_old_and_many_partials_make_room(tmp_path: Path) -> None:
    """16 are kept with the one under way, each for seven days; other files stay."""
    now = time.time()
    names = [f".netmesh-{number:032x}.part" for number in range(20)]
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (now, now - 1000 + number))
    os.utime(tmp_path / names[19], (now, now - 8 * 24 * 3600))
    others = [".netmesh-1.part", ".0123456789abcdef0123456789abcdef.part", "netmesh.part"]
    for name in others:
        (tmp_path / name).write_bytes(b"y")
        os.utime(tmp_path / name, (now, now - 8 * 24 * 3600))
    async with ends(tmp_path) as e:
        await e.sent_again(noise(2 * SEGMENT))
        assert left_in(tmp_path) == sorted([*names[4:19], *others, "big"])
        assert e.figures.partials_evicted == 5


async def test_two_transfers_of_one_size_do_not_mix(tmp_path: Path) -> None:
    """The second one cannot have the partial that is being written."""
    first, second = noise(SIZE), bytes(reversed(noise(SIZE)))
    async with ends(tmp_path) as e:
        async with e.linked(FEW) as (link, _):
            transfer = await link.start_file(first, metadata={"name": b"big"}, compression="off")
            await until(lambda: held(tmp_path) >= 3 * SEGMENT - 100)
            before = held(tmp_path)
            _, received, _, figures = await e.sent_again(second)
            assert figures.resources_resumed == figures.resumes_declined == 0
            assert received.path is not None
            assert received.path.read_bytes() == second
            assert held(tmp_path) == before
            e.wire.passes[0].cut()
            with pytest.raises(errors.LinkError):
                await soon(transfer)
        await until(lambda: e.figures.partials_kept == 1)
        received.path.unlink()
        sent, received, _, figures = await e.sent_again(first)
        check(sent, received, first, tmp_path)
        assert figures.resources_resumed == 1


async def test_a_named_target_is_resumed_too(tmp_path: Path) -> None:
    content = noise(SIZE)
    target = tmp_path / "target"
    async with ends(tmp_path) as e:
        await e.sink.set_folder(None)
        async with e.linked(FEW) as (link, other):
            receiving = asyncio.ensure_future(other.receive_file(target, timeout=PATIENCE))
            await until(lambda: other._unstored is not None)
            transfer = await link.start_file(content, compression="off")
            await until(lambda: held(tmp_path) >= 3 * SEGMENT - 100)
            assert not target.exists()
            e.wire.passes[-1].cut()
            for work in (transfer, receiving):
                with pytest.raises((errors.LinkError, errors.StateError)):
                    await soon(work)
        async with e.linked(ALL) as (link, other):
            receiving = asyncio.ensure_future(other.receive_file(target, timeout=PATIENCE))
            await until(lambda: other._unstored is not None)
            await soon(link.send_file(content, compression="off"))
            assert (await soon(receiving)).path == target
            assert link._node.stats().engine.resources_resumed == 1
        assert target.read_bytes() == content
        assert left_in(tmp_path) == ["target"]


# ------------------------------------------------------------------- killed processes

RECEIVER = """
    import asyncio, contextlib, sys
    from netmesh import Identity, Node
    from netmesh.errors import SendError
    from netmesh.interfaces import TCPServer

    async def main():
        async with Node() as node:
            server = await node.add_interface(TCPServer("127.0.0.1", 0))
            me = Identity.from_private(bytes([7]) * 64)
            sink = await node.listen("test.sink", resources="all", identity=me)
            await sink.set_folder(sys.argv[1])
            print(server.port, flush=True)
            while True:
                with contextlib.suppress(SendError):  # nobody is there yet
                    await sink.announce()
                await asyncio.sleep(0.1)

    asyncio.run(main())
"""

SENDER = """
    import asyncio, sys
    from netmesh import Node
    from netmesh.interfaces import TCPClient

    async def main():
        async with Node(interfaces=[TCPClient("127.0.0.1", int(sys.argv[1]))]) as node:
            link = await node.connect(bytes.fromhex(sys.argv[2]), timeout=40)
            await link.send_file(sys.argv[3], compression="off")

    asyncio.run(main())
"""


def child(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Without a chance to do anything more."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


async def test_a_transfer_goes_on_after_the_receiver_was_killed(tmp_path: Path) -> None:
    content = noise(SIZE)
    for attempt in range(2):
        process = child(RECEIVER, tmp_path)
        assert process.stdout is not None
        try:
            port = int(await soon(asyncio.to_thread(process.stdout.readline)))
            async with Wire(port, FEW if attempt == 0 else ALL) as wire, Node() as node:
                heard = node.announces("test.sink")
                await node.add_interface(TCPClient("127.0.0.1", wire.port))
                sink = (await heard.get(timeout=PATIENCE)).destination
                link = await node.connect(sink, timeout=PATIENCE)
                transfer = await link.start_file(
                    content, metadata={"name": b"big"}, compression="off"
                )
                if attempt == 0:
                    await until(lambda: held(tmp_path) >= 3 * SEGMENT - 100)
                    kill(process)
                    with pytest.raises(errors.LinkError):
                        await soon(transfer)
                else:
                    await soon(transfer)
                    assert node.stats().engine.resources_resumed == 1
        finally:
            if process.returncode is None:
                kill(process)
    assert left_in(tmp_path) == ["big"]
    assert (tmp_path / "big").read_bytes() == content


async def test_a_transfer_goes_on_after_the_sender_was_killed(tmp_path: Path) -> None:
    content = noise(SIZE)
    source, folder = tmp_path / "big", tmp_path / "in"
    source.write_bytes(content)
    folder.mkdir()
    async with ends(folder) as e:
        for attempt in range(2):
            e.wire.room = FEW if attempt == 0 else ALL
            process = child(SENDER, e.wire.port, e.sink.hash.hex(), source)
            try:
                other = await e.sink.links.get(timeout=PATIENCE)
                if attempt == 0:
                    await until(lambda: held(folder) >= 3 * SEGMENT - 100)
                    kill(process)
                    await other.wait_closed(timeout=PATIENCE)  # its connection is gone
                    await until(lambda: e.figures.partials_kept == 1)
                else:
                    received = await other.receive_file(timeout=PATIENCE)
                    assert received.path == folder / "big"
            finally:
                if process.returncode is None:
                    kill(process)
        assert e.figures.resources_resumed == 1
    assert left_in(folder) == ["big"]
    assert (folder / "big").read_bytes() == content
