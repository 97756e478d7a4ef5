"""Resources of several segments with a live upstream peer, both ways: sizes around the segment
boundaries, files on disk, metadata, requests and responses, cancelled in every phase.

With the release that is installed here and, when NETMESH_OLD_PEER_PYTHON names an interpreter
that has one, with an older one.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

import pytest

from interop.bulk import (
    ATTEMPT_S,
    PATIENCE,
    SEGMENT,
    TRIES,
    back,
    cancels,
    content,
    digest,
    loopback,
    meeting,
    tcp,
    there,
    udp,
)
from netmesh import errors

pytestmark = [pytest.mark.interop, pytest.mark.asyncio, pytest.mark.timeout(300)]

NUMBERS = itertools.count(1)
BOUNDARIES = [k * SEGMENT + more for k in (1, 2, 3) for more in range(-2, 3)]
SOME = [SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 2 * SEGMENT + 1]


async def test_sizes_around_segments_arrive_both_ways(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path, tcp()) as (link, peer):
        for size in SOME:
            await there(link, peer, content(size), compression="off")
            await back(link, peer, size)


@pytest.mark.slow
async def test_every_size_around_segments_arrives_both_ways(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path, tcp()) as (link, peer):
        for size in BOUNDARIES:
            await there(link, peer, content(size), compression="off")
            await back(link, peer, size)


async def test_small_parts_need_many_hashmap_updates(python: str, tmp_path: Path) -> None:
    """With the base MTU a segment has 2260 parts and 31 pieces of hash map."""
    async with meeting(python, tmp_path, tcp(mtu=500)) as (link, peer):
        assert link.mtu == 500
        await there(link, peer, content(SEGMENT + 1), compression="off")
        await back(link, peer, SEGMENT + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127/8")
@pytest.mark.parametrize("largest", [100_000, pytest.param(SEGMENT + 1, marks=pytest.mark.slow)])
async def test_files_arrive_both_ways_in_datagrams(
    python: str, tmp_path: Path, largest: int
) -> None:
    async with meeting(python, tmp_path, udp(loopback(0), loopback(1), 4242)) as (link, peer):
        assert link.mtu == 500
        for size in (1, 20_000, largest):
            await there(link, peer, content(size), compression="off")
            await back(link, peer, size)


async def test_text_and_metadata_arrive_both_ways(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path, tcp()) as (link, peer):
        size = 2 * SEGMENT + 17
        metadata = {"name": "a file", "n": 3}
        for compression in ("when_smaller", "automatic", "off"):
            taken = await there(
                link, peer, content(size, "text"), compression=compression, metadata=metadata
            )
            assert taken["metadata"] == metadata
        received = await back(link, peer, size, "text", metadata=metadata)
        assert received.metadata == metadata
        # The metadata block makes the difference between one segment and two.
        for edge in (SEGMENT - 25, SEGMENT - 20, SEGMENT - 1):
            await there(link, peer, content(edge), compression="off", metadata=metadata)
            assert (await back(link, peer, edge, metadata=metadata)).metadata == metadata


async def test_files_go_from_disk_to_disk(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path, tcp()) as (link, peer):
        path = tmp_path / "from"
        path.write_bytes(content(3 * SEGMENT))
        async with asyncio.timeout(PATIENCE):
            await link.send_file(path, compression="off")
        taken = await peer.wait("taken", "broken")
        assert taken.get("digest") == digest(path.read_bytes())
        for _ in range(TRIES):  # see back()
            peer.do("send", id=next(NUMBERS), size=3 * SEGMENT, kind="noise")
            try:
                received = await link.receive_file(tmp_path / "to", timeout=ATTEMPT_S)
            except TimeoutError:
                continue
            break
        assert received.path == tmp_path / "to"
        assert digest(received.path.read_bytes()) == digest(content(3 * SEGMENT))


async def test_requests_and_responses_of_several_segments(python: str, tmp_path: Path) -> None:
    async with meeting(python, tmp_path, tcp()) as (link, _):
        data = content(2 * SEGMENT + 5)
        for path, question, answer in (
            ("/large", 2 * SEGMENT + 1, content(2 * SEGMENT + 1)),
            ("/echo", data, data),
        ):
            # Upstream's responder loses a response resource now and then as back() says.
            for _ in range(TRIES):
                try:
                    done = await link.request(path, question, timeout=ATTEMPT_S)
                except errors.RequestError:
                    continue
                break
            assert digest(done.data) == digest(answer)


async def test_a_cancel_is_final_in_every_phase(python: str, tmp_path: Path) -> None:
    """Ours and theirs, as sender and as receiver, in the first and in a later segment."""
    async with meeting(python, tmp_path, tcp(mtu=1064)) as (link, peer):
        await cancels(link, peer)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["noise", "text"])
async def test_large_files_arrive_in_memory_both_ways(
    python: str, tmp_path: Path, kind: str
) -> None:
    size = 50 << 20
    async with meeting(python, tmp_path, tcp()) as (link, peer):
        await there(link, peer, content(size, kind), within_s=4 * PATIENCE)
        await back(link, peer, size, kind, attempt_s=4 * PATIENCE)
