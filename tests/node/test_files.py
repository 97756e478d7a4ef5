"""Files of any size between two nodes: read and written piece by piece, named, cancelled."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from netmesh import errors
from netmesh.constants import Context
from netmesh.destinations import FileResponse, IncomingRequest
from netmesh.links import Link
from netmesh.records import TransferRecord
from node.lossy import cable
from node.nodes import PATIENCE, linked, soon, until

pytestmark = pytest.mark.asyncio

SEGMENT = 1048575


def noise(size: int) -> bytes:
    """Bytes that do not compress, the same in every run."""
    return random.Random(size).randbytes(size)


def left_in(folder: Path) -> list[str]:
    """The names in a folder."""
    return sorted(entry.name for entry in folder.iterdir())


async def test_a_file_of_several_segments_goes_from_disk_to_disk(tmp_path: Path) -> None:
    content = noise(3 * SEGMENT + 17)
    (tmp_path / "movie.bin").write_bytes(content)
    (tmp_path / "in").mkdir()
    async with linked(resources="all") as (link, other, _):
        receiving = asyncio.ensure_future(other.receive_file(tmp_path / "in", timeout=PATIENCE))
        await until(lambda: other._unstored is not None)
        sent = await soon(link.send_file(tmp_path / "movie.bin"))
        assert (sent.ok, sent.done_bytes, sent.total_bytes) == (True, len(content), len(content))
        received = await receiving
        assert received.path == tmp_path / "in" / "movie.bin"
        assert received.path.read_bytes() == content
        assert (received.data, received.name) == (b"", "movie.bin")
        assert received.event.content_bytes == len(content)
        assert received.event.path == received.path
        assert received.event.resource_hash == sent.resource_hash
        assert left_in(tmp_path / "in") == ["movie.bin"]


async def test_bytes_of_several_segments_come_in_memory() -> None:
    content = noise(2 * SEGMENT + 1)
    async with linked(resources="all") as (link, other, _):
        await soon(link.send_file(content, metadata={"kind": 1}))
        received = await other.receive_file(timeout=PATIENCE)
        assert received.data == content
        assert (received.path, received.metadata) == (None, {"kind": 1})


async def test_file_objects_are_sent_from_where_they_stand(tmp_path: Path) -> None:
    content = noise(SEGMENT + 5)
    (tmp_path / "seek.bin").write_bytes(b"head" + content)
    async with linked(resources="all") as (link, other, _):
        with open(tmp_path / "seek.bin", "rb") as file:
            file.seek(4)
            await soon(link.send_file(file))
            assert file.tell() == 4
        received = await other.receive_file(timeout=PATIENCE)
        assert (received.data, received.name) == (content, "seek.bin")
        await soon(link.send_file(io.BytesIO(b"in memory")))
        assert (await other.receive_file(timeout=PATIENCE)).data == b"in memory"
        await soon(link.send_file(io.BytesIO(content)))
        assert (await other.receive_file(timeout=PATIENCE)).data == content


async def test_a_pipe_without_a_size_is_sent_whole(tmp_path: Path) -> None:
    content = noise(2 * SEGMENT)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = asyncio.ensure_future(asyncio.to_thread(fifo.write_bytes, content))
    async with linked(resources="all") as (link, other, _):
        await soon(link.send_file(fifo))
        await writer
        assert (await other.receive_file(timeout=PATIENCE)).data == content


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (b"plain.txt", "plain.txt"),
        (b"../../etc/passwd", "passwd"),
        (b"/absolute", "absolute"),
        (b"C:\\windows\\boot.ini", "boot.ini"),
        (b"...hidden", "hidden"),
        (b"new\nline", "new_line"),
        (b"x" * 300, "x" * 200),
        ("grün".encode(), "grün"),
        (b"", None),
        (b"..", None),
        (5, None),
    ],
)
async def test_names_of_peers_are_tamed(tmp_path: Path, given: object, name: str | None) -> None:
    async with linked(resources="all") as (link, other, _):
        await other.set_resources("all", folder=tmp_path)
        await soon(link.send_file(b"content", metadata={"other": [1, {}], "name": given}))
        received = await other.receive_file(timeout=PATIENCE)
        assert received.path is not None
        assert received.path.parent == tmp_path
        assert received.path.name == (name or received.event.resource_hash[:16].hex())
        assert received.path.read_bytes() == b"content"


async def test_a_destination_stores_what_its_peers_send(tmp_path: Path) -> None:
    async with linked(resources="all") as (first, _, echo):
        await echo.set_folder(tmp_path, size_max=2 * SEGMENT)
        link = await first._node.connect(echo.hash, timeout=PATIENCE)
        other = await echo.links.get(timeout=PATIENCE)
        for number in range(3):
            await soon(link.send_file(b"%d" % number, metadata={"name": b"log.txt"}))
        paths = [(await other.receive_file(timeout=PATIENCE)).path for _ in range(3)]
        assert [path and path.name for path in paths] == ["log.txt", "log-1.txt", "log-2.txt"]
        assert (tmp_path / "log-2.txt").read_bytes() == b"2"
        with pytest.raises(errors.RefusedError):
            await soon(link.send_file(bytes(2 * SEGMENT + 1), compression="off"))
        await echo.set_folder(None)
        link = await first._node.connect(echo.hash, timeout=PATIENCE)
        other = await echo.links.get(timeout=PATIENCE)
        await soon(link.send_file(b"memory"))
        assert (await other.receive_file(timeout=PATIENCE)).data == b"memory"


async def test_a_received_file_replaces_the_target_and_the_next_one_does_not(
    tmp_path: Path,
) -> None:
    target = tmp_path / "target.bin"
    target.write_bytes(b"old")
    async with linked(resources="all") as (link, other, _):
        receiving = asyncio.ensure_future(other.receive_file(target, timeout=PATIENCE))
        await until(lambda: other._unstored is not None)
        await soon(link.send_file(b"new"))
        await soon(link.send_file(b"another"))
        assert (await receiving).path == target
        assert target.read_bytes() == b"new"
        assert (await other.receive_file(timeout=PATIENCE)).data == b"another"


async def test_an_empty_file_arrives(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    async with linked(resources="all") as (link, other, _):
        receiving = asyncio.ensure_future(other.receive_file(tmp_path / "out", timeout=PATIENCE))
        await until(lambda: other._unstored is not None)
        await soon(link.send_file(tmp_path / "empty", metadata={"name": b"empty"}))
        path = (await receiving).path
        assert path is not None
        assert path.read_bytes() == b""


async def test_progress_is_told_on_both_sides(tmp_path: Path) -> None:
    """B10: bytes of the file, monotonic; all of them exactly once, after the proof."""
    content = noise(3 * SEGMENT)
    outgoing: list[int] = []
    incoming: list[int] = []
    async with linked(resources="all") as (link, other, _):
        receiving = asyncio.ensure_future(
            other.receive_file(
                tmp_path / "in.bin",
                timeout=PATIENCE,
                progress=lambda made: incoming.append(made.done_bytes),
            )
        )
        await until(lambda: other._unstored is not None)
        transfer = await link.start_file(
            content, progress=lambda made: outgoing.append(made.done_bytes)
        )
        sent = await soon(transfer)
        await receiving
        for steps in (outgoing, incoming):
            assert steps == sorted(steps)
            assert steps[-1] < len(content)
        assert sent.done_bytes == len(content)


async def test_a_cancelled_receive_leaves_nothing_behind(tmp_path: Path) -> None:
    async with linked(resources="all") as (link, other, _):
        (tmp_path / "big").write_bytes(noise(20 * SEGMENT))
        (tmp_path / "in").mkdir()
        await other.set_resources("all", folder=tmp_path / "in")
        transfer = await link.start_file(tmp_path / "big")
        await until(lambda: left_in(tmp_path / "in") != [])
        (name,) = left_in(tmp_path / "in")
        assert name.startswith(".")
        assert name.endswith(".part")
        transfer.cancel()
        with pytest.raises(errors.TransferError) as caught:
            await soon(transfer)
        assert caught.value.stage == "CANCELLED"
        await until(lambda: left_in(tmp_path / "in") == [])


async def test_a_file_that_becomes_shorter_has_its_own_error(tmp_path: Path) -> None:
    path = tmp_path / "shrinks"
    path.write_bytes(noise(40 * SEGMENT))
    async with linked(resources="all") as (link, other, _):
        await other.set_resources("all", folder=tmp_path)
        transfer = await link.start_file(path)
        os.truncate(path, 10)
        with pytest.raises(errors.TransferError) as caught:
            await soon(transfer)
        assert (caught.value.stage, caught.value.reason) == ("STORE", "TRUNCATED")


async def test_a_full_disk_has_its_own_error(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: both are 'no room'."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with linked(resources="all") as (link, other, _):
        receiving = asyncio.ensure_future(other.receive_file(tmp_path / "in", timeout=PATIENCE))
        await until(lambda: other._unstored is not None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (SEGMENT + 1000, hard))
        try:
            with pytest.raises(errors.RefusedError):
                await soon(link.send_file(noise(3 * SEGMENT)))
            with pytest.raises(errors.TransferError) as caught:
                await soon(receiving)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (caught.value.stage, caught.value.reason) == ("STORE", "FULL")
        await until(lambda: left_in(tmp_path) == [])
        # The link goes on.
        receiving = asyncio.ensure_future(other.receive_file(tmp_path / "in", timeout=PATIENCE))
        await until(lambda: other._unstored is not None)
        await soon(link.send_file(b"small"))
        assert (await receiving).path == tmp_path / "in"


async def test_responses_and_requests_take_several_segments(tmp_path: Path) -> None:
    content = noise(2 * SEGMENT + 3)
    (tmp_path / "page").write_bytes(content)
    async with linked() as (link, _, echo):

        def repeat(request: IncomingRequest) -> object:
            return request.data

        def page(_: IncomingRequest) -> object:
            return FileResponse(tmp_path / "page", {"size": len(content)})

        await echo.add_handler("/echo", repeat)
        await echo.add_handler("/page", page)
        assert (await soon(link.request("/echo", content))).data == content
        answer = await soon(link.request("/page"))
        assert (answer.data, answer.metadata) == (content, {"size": len(content)})


async def test_what_is_under_way_is_listed_on_both_sides() -> None:
    """Both directions at once, on the link and on the node, with how far they are."""
    sizes = {True: 200_000, False: 300_000}
    async with cable() as (alice, bob, left, right):
        echo = await bob.listen("test.files", resources="all")
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        other = await echo.links.get(timeout=PATIENCE)
        await link.set_resources("all")
        for end in (left, right):  # each carries so many parts, and then none
            parts = iter(range(5))
            end.loses = lambda packet, parts=parts: (
                packet.context == Context.RESOURCE and next(parts, None) is None
            )
        ours = await link.start_file(noise(sizes[True]))
        theirs = await other.start_file(noise(sizes[False]))

        async def listed(end: Link) -> dict[bool, TransferRecord]:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = {record.outgoing: record for record in await end.transfers()}
                    if len(found) == 2 and found[False].parts_done == 5:
                        return found

        for end, mine in ((link, True), (other, False)):
            found = await listed(end)
            for outgoing, record in found.items():
                assert record.content_bytes == sizes[outgoing is mine]
                assert 0 < record.progress < 1
                assert record.progress == record.content_done / record.content_bytes
            assert {each.op for each in await end._node.transfers()} == {
                each.op for each in found.values()
            }
        for transfer in (ours, theirs):
            transfer.cancel()
            with pytest.raises(errors.TransferError):
                await soon(transfer)
        async with asyncio.timeout(PATIENCE):
            while await link.transfers() or await other.transfers():
                pass


async def test_the_proof_waits_until_what_came_is_stored(tmp_path: Path) -> None:
    """A receiver that holds stores first, and says no to what it cannot store."""
    content = noise(SEGMENT + 100)
    async with linked(resources="all") as (link, other, _):
        await other.set_resources("all", hold=True)
        transfer = await link.start_file(content)
        event = await other.resources.get(timeout=PATIENCE)
        assert event.data == content
        assert event.token is not None
        (tmp_path / "stored").write_bytes(event.data)
        assert not transfer.done
        (record,) = await link.transfers()
        assert (record.segment, record.content_done < record.content_bytes) == (2, True)
        await other._node.accept(event.token)
        assert (await soon(transfer)).done_bytes == len(content)

        transfer = await link.start_file(content)
        event = await other.resources.get(timeout=PATIENCE)
        assert event.token is not None
        await other._node.refuse(event.token)
        with pytest.raises(errors.RefusedError):
            await soon(transfer)

        target = tmp_path / "in"
        receiving = asyncio.ensure_future(other.receive_file(target, timeout=PATIENCE))
        await until(lambda: other._unstored is not None)
        await soon(link.send_file(content))  # accepted once the file is in its place
        assert (await receiving).path == target
        assert target.read_bytes() == content


KILLED = """
    import asyncio, contextlib, sys
    from netmesh import Node
    from netmesh.errors import SendError
    from netmesh.interfaces import TCPServer

    async def main():
        async with Node() as node:
            server = await node.add_interface(TCPServer("127.0.0.1", 0))
            sink = await node.listen("test.sink", resources="all")
            await sink.set_folder(sys.argv[1])
            print(server.port, flush=True)
            while True:
                with contextlib.suppress(SendError):  # nobody is there yet
                    await sink.announce()
                await asyncio.sleep(0.1)

    asyncio.run(main())
"""


async def test_a_kill_in_the_middle_leaves_the_part_alone(tmp_path: Path) -> None:
    from netmesh import Node
    from netmesh.interfaces import TCPClient

    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        port = int(await soon(asyncio.to_thread(child.stdout.readline)))
        async with Node() as node:
            heard = node.announces("test.sink")
            await node.add_interface(TCPClient("127.0.0.1", port))
            sink = (await heard.get(timeout=PATIENCE)).destination
            link = await node.connect(sink, timeout=PATIENCE)
            transfer = await link.start_file(noise(200 * SEGMENT), metadata={"name": b"whole"})
            await until(lambda: left_in(tmp_path) != [])
            child.send_signal(signal.SIGKILL)
            await soon(asyncio.to_thread(child.wait))
            with pytest.raises(errors.LinkError):  # its interface is gone
                await soon(transfer)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    (name,) = left_in(tmp_path)
    assert name.startswith(".")
    assert name.endswith(".part")


async def test_large_content_keeps_its_checksum(tmp_path: Path) -> None:
    """Content that is not the same in any two segments."""
    path = tmp_path / "counted"
    path.write_bytes(b"".join(n.to_bytes(8, "big") for n in range(800_000)))
    async with linked(resources="all") as (link, other, _):
        receiving = asyncio.ensure_future(other.receive_file(tmp_path / "in", timeout=PATIENCE))
        await until(lambda: other._unstored is not None)
        await soon(link.send_file(path, compression="when_smaller"))
        received = (await receiving).path
        assert received is not None
        digests = [hashlib.sha256(p.read_bytes()).digest() for p in (path, received)]
        assert digests[0] == digests[1]
