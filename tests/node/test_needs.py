"""What programs need of a node in a hard world: others that are dead, slow, gone, or refuse."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import gc
import itertools
import logging
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import netmesh
import netmesh.events
from netmesh import Engine, Node, errors
from netmesh.constants import DestinationType
from netmesh.events import AnnounceHeard, LinkClosed
from netmesh.framing import KissDecoder
from netmesh.interfaces import (
    CustomInterface,
    InterfaceTrouble,
    LocalClient,
    Pipe,
    PortTrouble,
    TCPClient,
    TCPServer,
)
from netmesh.loop import default_loop
from netmesh.messaging import MessageReceived
from netmesh.trouble import StorageTrouble, StoreProblem
from node.nodes import NAME, PATIENCE, identity, joined, linked, over_tcp, soon, until

PACKAGE = Path(netmesh.__file__).parent
asynchronous = pytest.mark.asyncio


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of memory in use now, without what the allocator only keeps."""
    with contextlib.suppress(AttributeError):  # not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ------------------------------------------------------------------------- many nodes


async def _rounds(rounds: int, count: int) -> None:
    for _ in range(rounds):
        nodes = [Node(shared_instance=False) for _ in range(count)]
        await asyncio.gather(*(node.start() for node in nodes))
        assert nodes[0].loop is nodes[-1].loop
        await until(lambda: default_loop().stats().nodes == count)
        await asyncio.gather(*(node.close() for node in nodes))


@pytest.mark.slow
@pytest.mark.timeout(400)
@asynchronous
async def test_two_hundred_nodes_a_hundred_times_leak_nothing() -> None:
    """F1: descriptors, threads and memory are as before; all nodes cost one thread."""
    await _rounds(3, 200)
    gc.collect()
    before = descriptors(), threading.active_count(), len(os.listdir("/proc/self/task"))
    memory = resident()
    await _rounds(97, 200)
    gc.collect()
    assert (descriptors(), threading.active_count()) == before[:2]
    await until(lambda: len(os.listdir("/proc/self/task")) <= before[2])
    assert resident() - memory < 16 << 20


@asynchronous
async def test_nodes_cost_one_thread_however_many_they_are() -> None:
    """F1: the threads of 30 nodes are those of one."""
    async with Node(shared_instance=False):
        one = len(os.listdir("/proc/self/task"))
        nodes = [Node(shared_instance=False) for _ in range(30)]
        await asyncio.gather(*(node.start() for node in nodes))
        # Threads of what ran before may still be on their way out.
        assert len(os.listdir("/proc/self/task")) <= one
        await asyncio.gather(*(node.close() for node in nodes))


# ---------------------------------------------------------------- a guest in a process

QUITTING = {
    ".py": re.compile(
        r"\b(os\._exit|sys\.exit|os\.abort|os\.kill|exit|quit|raise SystemExit|add_signal_handler"
        r"|signal\.signal|atexit\.\w+)\s*\(|import atexit"
    ),
    ".c": re.compile(
        r"\b(_exit|_Exit|quick_exit|exit|abort|atexit|raise|kill|sigaction|signal|Py_Exit"
        r"|Py_AtExit|Py_FatalError)\s*\("
    ),
}
PROGRAMS = {"__main__.py", "cli.py", "_cli_node.py", "_demo_peer.py"}
"""Programs may end themselves; a library may not."""


def test_the_library_never_ends_a_process_or_takes_its_signals() -> None:
    """F2: no exit calls, no signal handlers, nothing at exit."""
    sources = [p for p in PACKAGE.rglob("*.py") if p.name not in PROGRAMS]
    core = PACKAGE.parent / "csrc"
    sources += [*core.rglob("*.c")]
    assert len(sources) > 50
    found = [
        f"{source}:{number}: {line.strip()}"
        for source in sources
        for number, line in enumerate(source.read_text().splitlines(), 1)
        if QUITTING[source.suffix].search(line)
        and not line.lstrip().startswith(("#", "*", "/*", '"'))
    ]
    assert not found


def test_an_import_does_nothing() -> None:
    """F3: no thread, no descriptor, no handler of logs or signals, no loop."""
    program = """
import logging, os, signal, sys, threading
fds = set(os.listdir("/proc/self/fd"))
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
import asyncio
import netmesh, netmesh.sync, netmesh.engine, netmesh.messaging
assert set(os.listdir("/proc/self/fd")) == fds
assert handlers == {number: signal.getsignal(number) for number in signal.valid_signals()}
assert threading.active_count() == 1
assert len(os.listdir("/proc/self/task")) == 1
assert not logging.root.handlers
names = [name for name in logging.root.manager.loggerDict if name.startswith("netmesh")]
assert names
for name in names:
    logger = logging.getLogger(name)
    assert not logger.handlers and logger.propagate and logger.level == logging.NOTSET
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@asynchronous
async def test_logs_go_to_the_standard_library_with_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F3: a logger per module, and what a filter needs as attributes of the record."""

    class Broken(CustomInterface):
        async def send(self, frame: bytes) -> None:
            raise OSError("unplugged")

    with caplog.at_level(logging.INFO, logger="netmesh"):
        async with Node(interfaces=[Broken("radio")]) as node:
            async with node.events(InterfaceTrouble) as troubles:
                await node.announce(NAME)
                await troubles.get(timeout=PATIENCE)
            who = node.identity.hash.hex()
    records = [record for record in caplog.records if "radio" in record.getMessage()]
    assert records
    for record in records:
        assert record.name.startswith("netmesh.")
        assert vars(record)["netmesh_node"] == who
        assert vars(record)["netmesh_interface"] == "radio"
    private = identity(1).private_key.hex()
    assert not any(private in record.getMessage() for record in caplog.records)


@asynchronous
async def test_callbacks_run_on_the_event_loop_and_may_fail() -> None:
    """F4: what a callback raises goes to the loop's handler, and delivery goes on."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    main = threading.get_ident()
    threads: list[int] = []
    heard: list[bytes | None] = []

    def broken(announce: AnnounceHeard) -> None:
        threads.append(threading.get_ident())
        raise KeyError("broken")

    async def late(announce: AnnounceHeard) -> None:
        threads.append(threading.get_ident())
        raise ValueError("also broken")

    def good(announce: AnnounceHeard) -> None:
        threads.append(threading.get_ident())
        heard.append(announce.app_data)

    async with joined() as (alice, bob):
        subscriptions = [alice.on_announce(each, name=NAME) for each in (broken, late, good)]
        echo = await bob.listen(NAME)
        for number in range(3):
            await echo.announce(b"%d" % number)
            await until(lambda count=number + 1: len(heard) == count)
        await until(lambda: len(told) == 6)
        subscriptions[2].close()
        await echo.announce(b"unheard")
        await until(lambda: len(told) == 8)
    assert heard == [b"0", b"1", b"2"]
    assert set(threads) == {main}
    assert {type(each["exception"]) for each in told} == {KeyError, ValueError}


PEER = """
import asyncio, sys
from netmesh import Node
from netmesh.interfaces import TCPServer

async def main():
    async with Node(interfaces=[TCPServer("127.0.0.1", int(sys.argv[1]))]) as node:
        echo = await node.listen("test.echo", prove="all")
        print(node.interfaces()[0].port, echo.hash.hex(), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def _peer(port: int = 0) -> Any:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PEER, str(port), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        line = (await asyncio.wait_for(child.stdout.readline(), 2 * PATIENCE)).split()
        yield child, int(line[0]), bytes.fromhex(line[1].decode())
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
        child._transport.close()  # type: ignore[attr-defined]


@asynchronous
async def test_a_killed_peer_is_an_event_and_an_exception() -> None:
    """F2: the link ends with a reason, the wait for a proof with an error; the program goes on."""
    async with (
        _peer() as (child, port, destination),
        Node(interfaces=[TCPClient("127.0.0.1", port)]) as node,
    ):
        await node.interfaces()[0].wait_online(timeout=PATIENCE)
        link = await node.connect(destination, timeout=PATIENCE)
        async with node.events((InterfaceTrouble, LinkClosed)) as events:
            child.send_signal(signal.SIGKILL)
            kinds = {type(await events.get(timeout=PATIENCE)) for _ in range(2)}
        assert kinds == {InterfaceTrouble, LinkClosed}
        with pytest.raises(errors.LinkError):
            await link.send(b"late")
        await until(lambda: node.health().degraded)
        assert await node.hops(bytes(16)) == 128


# --------------------------------------------------------------------- bad interfaces


@asynchronous
async def test_a_bad_interface_is_told_and_the_others_run() -> None:
    """E1: a port in use at the start is an event and makes the node degraded."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        left, right = Pipe.pair()
        bad = TCPServer("127.0.0.1", port, label="hub")
        node = Node(interfaces=[bad, left])
        troubles = node.events(InterfaceTrouble)
        async with node, Node(interfaces=[right]) as other:
            trouble = await troubles.get(timeout=PATIENCE)
            assert (trouble.label, trouble.interface) == ("hub", None)
            assert trouble.trouble is PortTrouble.LISTEN
            assert trouble.os_error
            assert isinstance(trouble.error, errors.InterfaceError)
            health = node.health()
            assert health.degraded
            assert "hub" in health.problems[0]
            assert not other.health().degraded
            assert len(node.interfaces()) == 1
            echo = await node.listen(NAME)
            assert (await other.path(echo.hash, timeout=PATIENCE)).hops == 1
        alone = Node(interfaces=[bad])
        with pytest.raises(errors.InterfaceError):
            await alone.start()
        assert alone.closed


@asynchronous
async def test_a_failed_interface_of_the_programs_starts_afresh() -> None:
    """A13: a fault marks the interface, not the node, and is over when it is resumed."""

    class Fragile(CustomInterface):
        fails = True
        peer: Fragile

        async def send(self, frame: bytes) -> None:
            if self.fails:
                raise ZeroDivisionError
            self.peer.received(frame)

    first, second = Fragile(), Fragile()
    first.peer, second.peer = second, first
    second.fails = False
    async with Node(interfaces=[first]) as alice, Node(interfaces=[second]) as bob:
        echo = await bob.listen(NAME)
        async with alice.events(InterfaceTrouble) as troubles:
            await alice.request_path(echo.hash)
            await troubles.get(timeout=PATIENCE)
        assert alice.health().degraded
        first.fails = False
        await alice.interfaces()[0].resume()
        await until(lambda: not alice.health().degraded)
        async with bob.announces("test.well") as heard:
            await alice.announce("test.well")
            await heard.get(timeout=PATIENCE)


@asynchronous
async def test_an_interface_that_cannot_be_written_disturbs_no_other() -> None:
    """A3: its bounded queue fills and drops by a named reason; the others get everything."""
    counts = [0, 0]

    def counter(place: int) -> Callable[[Any], None]:
        def count(_: Any) -> None:
            counts[place] += 1

        return count

    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    pairs = [Pipe.pair() for _ in range(2)]
    dead = TCPClient("127.0.0.1", silent.getsockname()[1], queue_packets=16, label="dead")
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(silent.close)
        node = await stack.enter_async_context(
            Node(interfaces=[dead, *(pair[0] for pair in pairs)])
        )
        for place, pair in enumerate(pairs):
            other = await stack.enter_async_context(Node(interfaces=[pair[1]]))
            plain = await other.listen(NAME, type=DestinationType.PLAIN, on_packet=counter(place))
        port = node.interfaces()[0]
        await port.wait_online(timeout=PATIENCE)
        sent = 0
        while not (await port.info()).drops.get("queue_packets"):
            assert sent < 60_000
            for _ in range(200):
                await node.send(plain.hash, bytes(450), type=DestinationType.PLAIN, proof=False)
                sent += 1
            await until(lambda all_=sent: min(counts) == all_)
        info = await port.info()
        assert info.queued_packets <= 16
        await node.send(plain.hash, b"last", type=DestinationType.PLAIN, proof=False)
        await until(lambda: counts == [sent + 1] * 2)


@pytest.mark.parametrize("seed", range(12))
def test_no_configuration_and_no_order_of_events_ends_an_engine(seed: int) -> None:
    """A13: bitrates unknown and tiny, interfaces that come, go and flap, time that jumps."""
    dice = random.Random(seed)
    engine = Engine(clock=(1000.0, 1_700_000_000.0), seed=bytes([seed]) * 32)
    own = engine.listen(identity(1), NAME, prove="all", ratchets=bool(seed % 2))
    interfaces: list[int] = []
    kinds = ("tcp", "udp", "local", "serial", "rnode")
    for number in range(400):
        action = dice.randrange(8)
        if action == 0 and len(interfaces) < 6:
            options: dict[str, Any] = {"kind": dice.choice(kinds)}
            if dice.random() < 0.5:
                options["bitrate"] = dice.choice((1, 5, 300, 1 << 40))
            if dice.random() < 0.5:
                options["announce_cap"] = dice.choice((0.001, 0.02, 1.0))
            interfaces.append(engine.add_interface(f"i{number}", **options))
        elif action == 1 and interfaces:
            engine.change_interface(dice.choice(interfaces), online=dice.random() < 0.5)
        elif action == 2 and len(interfaces) > 1:
            engine.remove_interface(interfaces.pop(dice.randrange(len(interfaces))))
        elif action == 3 and interfaces:
            engine.change_interface(dice.choice(interfaces), bitrate=dice.choice((1, 9600)))
        elif action == 4 and interfaces:
            engine.input(dice.choice(interfaces), dice.randbytes(dice.randrange(600)))
        elif action == 5:
            engine.advance(dice.choice((0.0, 0.3, 20.0, 4000.0)))
        elif action == 6:
            with contextlib.suppress(errors.NetmeshError):
                engine.announce(own)
        else:
            with contextlib.suppress(errors.NoRouteError):
                engine.request_path(dice.randbytes(16))
        engine.outputs()
        engine.events()
    if not interfaces:
        interfaces.append(engine.add_interface("last"))
    for each in interfaces:
        engine.change_interface(each, online=True)
    engine.announce(own)
    assert {output.interface for output in engine.outputs()} == set(interfaces)


# ------------------------------------------------------------------------- connections


@asynchronous
async def test_refused_connections_leak_nothing_and_back_off() -> None:
    """E8: descriptors stay flat over hundreds of attempts, whose pauses grow to their cap."""
    port = free_port()
    client = TCPClient("127.0.0.1", port, retry_first_ms=1, retry_max_ms=4, max_tries=300)
    node = Node(interfaces=[client])
    troubles = node.events(InterfaceTrouble)
    async with node:
        interface = node.interfaces()[0]
        seen = [await troubles.get(timeout=PATIENCE) for _ in range(20)]
        before = descriptors()
        seen += [await troubles.get(timeout=PATIENCE) for _ in range(280)]
        while seen[-1].trouble is not PortTrouble.GAVE_UP:
            seen.append(await troubles.get(timeout=PATIENCE))
        assert descriptors() <= before
        refused = [each for each in seen if each.trouble is PortTrouble.CONNECT]
        assert {each.os_error for each in refused} == {111}
        assert len(refused) in (299, 300)
        assert not interface.online
        down = ("interface 'TCPClient' is down: gave_up",)
        await until(lambda: node.health().problems == down)


@asynchronous
async def test_the_pauses_between_attempts_grow() -> None:
    """E8: three attempts at 100 ms and growing cannot come faster than the jitter allows."""
    client = TCPClient("127.0.0.1", free_port(), retry_first_ms=100, retry_max_ms=400)
    node = Node(interfaces=[client])
    troubles = node.events(InterfaceTrouble)
    async with node:
        times = [(await troubles.get(timeout=PATIENCE)).time_s for _ in range(4)]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True))


@asynchronous
async def test_a_storm_of_connections_is_survived() -> None:
    """E9: connections that open and close at once cost nothing that stays; it still serves."""
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as server:
        port = server.interfaces()[0].port
        assert port
        echo = await server.listen(NAME)
        socket.create_connection(("127.0.0.1", port)).close()
        info = server.interfaces()[0].info
        async with asyncio.timeout(PATIENCE):
            while not (await info()).opened or (await info()).connections:
                await asyncio.sleep(0.01)
        before = descriptors()
        for _ in range(20):
            storm = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
            for each in storm:
                each.close()
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            while (await info()).opened < 1001 or (await info()).connections:
                await asyncio.sleep(0.01)
        await until(lambda: descriptors() <= before)
        async with Node(interfaces=[TCPClient("127.0.0.1", port)]) as client:
            assert (await client.path(echo.hash, timeout=PATIENCE)).hops == 1


@asynchronous
async def test_an_announce_right_before_the_close_is_sent() -> None:
    """C7: announced, closed at once, heard: every time."""
    async with Node(interfaces=[TCPServer("127.0.0.1")]) as hub:
        port = hub.interfaces()[0].port
        assert port
        async with hub.announces(NAME) as heard:
            for number in range(100):
                async with Node(interfaces=[TCPClient("127.0.0.1", port)]) as node:
                    await node.interfaces()[0].wait_online(timeout=PATIENCE)
                    await node.announce(NAME, b"%d" % number)
                assert (await heard.get(timeout=PATIENCE)).app_data == b"%d" % number


@pytest.mark.slow
@asynchronous
async def test_an_attached_node_makes_itself_known_again_after_a_restart() -> None:
    """C8: handlers still fire, and the instance is told of our destinations."""
    instance = Node(interfaces=[TCPServer("127.0.0.1")])
    await instance.start()
    port = instance.interfaces()[0].port
    assert port
    told: list[bytes | None] = []
    async with Node(shared_instance=("127.0.0.1", port)) as client:
        await client.interfaces()[0].wait_online(timeout=PATIENCE)
        assert isinstance(client.interfaces()[0].options, LocalClient)
        assert (await client.settings()).attached
        echo = await client.listen(NAME, app_data=b"client")
        client.on_announce(lambda heard: told.append(heard.app_data), name="test.news")
        await instance.announce("test.news", b"before")
        await until(lambda: told == [b"before"])
        await instance.close()
        async with Node(shared_instance=False) as again:
            known = again.announces(NAME, path_responses=True)
            await again.add_interface(TCPServer("127.0.0.1", port))
            # Ten seconds after the connection is back, as upstream's clients do.
            heard = await known.get(timeout=2 * PATIENCE)
            assert (heard.destination, heard.app_data) == (echo.hash, b"client")
            await again.announce("test.news", b"after")
            await until(lambda: told == [b"before", b"after"])


# -------------------------------------------------------------------- where it failed


async def _no_path(alice: Node, bob: Node) -> None:
    await alice.path(bytes(16), timeout=0.05)


async def _no_interface(alice: Node, bob: Node) -> None:
    await alice.interfaces()[0].remove()
    await alice.connect(bytes(16), timeout=0.05)


async def _unknown(alice: Node, bob: Node) -> None:
    await alice.send(bytes(16), b"x")


async def _no_links(alice: Node, bob: Node) -> None:
    echo = await bob.listen("test.closed", links=False)
    await alice.path(echo.hash, timeout=PATIENCE)
    await alice.connect(echo.hash, timeout=0.3)


async def _ended_link(alice: Node, bob: Node) -> None:
    echo = await bob.listen("test.ended")
    link = await alice.connect(echo.hash, timeout=PATIENCE)
    await link.close()
    await link.send(b"x")


async def _nothing_takes_it(alice: Node, bob: Node) -> None:
    await alice.interfaces()[0].change(sends=False)
    await alice.announce("test.unheard")


async def _unproven(alice: Node, bob: Node) -> None:
    echo = await bob.listen("test.unproven")
    await alice.path(echo.hash, timeout=PATIENCE)
    await (await alice.send(echo.hash, b"x", timeout=0.1))


async def _link_to(alice: Node, bob: Node, **listen: Any) -> Any:
    echo = await bob.listen("test.link", **listen)
    link = await alice.connect(echo.hash, timeout=PATIENCE)
    return link, await echo.links.get(timeout=PATIENCE), echo


async def _no_handler(alice: Node, bob: Node) -> None:
    link, *_ = await _link_to(alice, bob)
    await link.request("/nobody", timeout=0.1)


async def _link_died_while_asking(alice: Node, bob: Node) -> None:
    link, other, echo = await _link_to(alice, bob)
    await echo.queue_requests("/never")
    asking = asyncio.ensure_future(link.request("/never", timeout=PATIENCE))
    await echo.requests.get(timeout=PATIENCE)
    await other.close()
    await asking


async def _answer_too_long(alice: Node, bob: Node) -> None:
    link, _, echo = await _link_to(alice, bob)
    await echo.add_handler("/long", lambda _: bytes(100_000))
    await link.request("/long", timeout=PATIENCE, response_max=1000)


async def _refused(alice: Node, bob: Node) -> None:
    link, *_ = await _link_to(alice, bob, resources=lambda offer: False)
    await link.send_file(b"x")


async def _transfer_unanswered(alice: Node, bob: Node) -> None:
    link, *_ = await _link_to(alice, bob, resources=lambda offer: asyncio.sleep(60))
    await link.send_file(b"x", timeout=0.05)


async def _transfer_cancelled(alice: Node, bob: Node) -> None:
    link, *_ = await _link_to(alice, bob, resources=lambda offer: asyncio.sleep(60))
    transfer = await link.start_file(b"x")
    transfer.cancel()
    await transfer


async def _receipt_cancelled(alice: Node, bob: Node) -> None:
    link, *_ = await _link_to(alice, bob)
    receipt = await link.send(b"x", timeout=60)
    receipt.cancel()
    await receipt


FAILURES: list[tuple[Any, type[errors.OperationError], str, str]] = [
    (_no_path, errors.PathError, "PATH", "TIMEOUT"),
    (_no_interface, errors.PathError, "PATH", "TIMEOUT"),
    (_unknown, errors.IdentityUnknownError, "IDENTITY", "MISSING"),
    (_no_links, errors.LinkError, "LINK", "TIMEOUT"),
    (_ended_link, errors.LinkError, "LINK", "STATE"),
    (_nothing_takes_it, errors.SendError, "SEND", "STATE"),
    (_unproven, errors.ProofError, "PROOF", "TIMEOUT"),
    (_no_handler, errors.RequestError, "REQUEST", "TIMEOUT"),
    (_link_died_while_asking, errors.RequestError, "LINK", "STATE"),
    (_answer_too_long, errors.RequestError, "REFUSED", "LIMIT"),
    (_refused, errors.RefusedError, "REFUSED", "VALUE"),
    (_transfer_unanswered, errors.TransferError, "TRANSFER", "TIMEOUT"),
    (_transfer_cancelled, errors.TransferError, "CANCELLED", "CANCELLED"),
    (_receipt_cancelled, errors.ProofError, "CANCELLED", "CANCELLED"),
]


@pytest.mark.parametrize(
    ("fail", "error", "stage", "reason"), FAILURES, ids=[each[0].__name__ for each in FAILURES]
)
@asynchronous
async def test_a_failure_says_where_and_how(
    fail: Any, error: type[errors.OperationError], stage: str, reason: str
) -> None:
    """F13: the class, the stage and the reason of each way in which something fails."""
    async with joined() as (alice, bob):
        with pytest.raises(error) as caught:
            await soon(fail(alice, bob))
        assert type(caught.value) is error
        assert (caught.value.stage, caught.value.reason) == (stage, reason)
        assert str(caught.value)


@asynchronous
async def test_a_ratchet_that_cannot_be_stored_is_not_announced(tmp_path: Path) -> None:
    """F13: the stage is STORE; the node goes on and is degraded until it can write again."""
    async with Node(shared_instance=False, storage=tmp_path) as node:
        left, right = Pipe.pair()
        await node.add_interface(left)
        async with Node(interfaces=[right]) as other, other.announces(NAME) as heard:
            echo = await node.listen(NAME, ratchets=True)
            in_the_way = tmp_path / "ratchets" / echo.hash.hex()
            in_the_way.mkdir()
            async with node.events(StorageTrouble) as troubles:
                with pytest.raises(errors.StoreError) as caught:
                    await soon(echo.announce())
                assert caught.value.stage == "STORE"
                trouble = await troubles.get(timeout=PATIENCE)
                assert trouble.problem is StoreProblem.WRITE
            await until(lambda: node.health().degraded)
            assert heard.get_nowait() is None
            in_the_way.rmdir()
            await soon(echo.announce())
            assert (await heard.get(timeout=PATIENCE)).ratchet_id
            await until(lambda: not node.health().degraded)


# ------------------------------------------------------------------------- decisions


@asynchronous
async def test_a_decision_that_takes_too_long_is_no() -> None:
    """Section 4: the stated default on time-out and on exception is no."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    async def forever(_: Any) -> bool:
        await asyncio.Event().wait()
        return True

    async def broken(_: Any) -> bool:
        raise KeyError("broken")

    async with joined(decision_timeout=0.05) as (alice, bob):
        echo = await bob.listen(NAME, prove=forever, resources=forever)
        link = await alice.connect(echo.hash, timeout=PATIENCE)
        with pytest.raises(errors.RefusedError):
            await soon(link.send_file(b"x"))
        with pytest.raises(errors.ProofError):
            await soon(await link.send(b"x", timeout=0.3))
        await until(lambda: [type(each["exception"]) for each in told] == [TimeoutError] * 2)
        await echo.set_prove(broken)
        with pytest.raises(errors.ProofError):
            await soon(await link.send(b"x", timeout=0.3))
        assert type(told[-1]["exception"]) is KeyError


@asynchronous
async def test_a_server_takes_ipv4_and_ipv6_and_says_its_port() -> None:
    """Section 3: an empty host is every address of both kinds."""
    async with Node(interfaces=[TCPServer()]) as server:
        port = server.interfaces()[0].port
        assert port
        echo = await server.listen(NAME)
        for host in ("127.0.0.1", "::1", "localhost"):
            try:
                socket.create_connection((host, port), timeout=5).close()
            except OSError:
                continue  # this machine has no such address
            async with Node(interfaces=[TCPClient(host, port)]) as client:
                assert (await client.path(echo.hash, timeout=PATIENCE)).hops == 1


@asynchronous
async def test_a_client_frames_in_kiss_when_told_to() -> None:
    """Section 3: the bytes on the wire are KISS frames of whole packets."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            received.extend(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Node(interfaces=[TCPClient("127.0.0.1", port, kiss=True)]) as node:
        await node.interfaces()[0].wait_online(timeout=PATIENCE)
        async with node.tap() as tap:
            await node.announce(NAME)
            frame = await tap.get(timeout=PATIENCE)
        await until(lambda: received.endswith(b"\xc0") and len(received) > 1)
        assert list(KissDecoder().feed(bytes(received))) == [frame.data]
    server.close()
    await server.wait_closed()


@asynchronous
async def test_the_memory_of_a_link_ends_with_it() -> None:
    """Nothing of a closed link is kept by the node that had it."""
    async with linked() as (link, other, echo):
        node = link._node
        await link.close()
        await other.wait_closed(timeout=PATIENCE)
        assert not node._links
        assert not echo.open_links
        async with over_tcp() as (alice, _):
            assert not alice._links


@asynchronous
async def test_two_kinds_of_hashes_are_not_confused() -> None:
    """F7: an identity's hash is no address; the error says what it is, and so does the repr."""
    async with Node(shared_instance=False) as node:
        who = node.identity.hash
        calls: list[Any] = [
            node.path(who, timeout=0.1),
            node.connect(who, timeout=0.1),
            node.send(who, b"x"),
            node.send_message(who, "x", timeout=0.1),
        ]
        for call in calls:
            with pytest.raises(TypeError, match=r"DestinationHash.*not IdentityHash"):
                await call
        echo = await node.listen(NAME)
        with pytest.raises(TypeError, match=r"IdentityHash.*not DestinationHash"):
            await node.blackhole(echo.hash)
        assert repr(who).startswith("<IdentityHash ")
        assert repr(echo.hash).startswith("<DestinationHash ")


def test_events_are_typed_and_cannot_be_changed() -> None:
    """Section 4: frozen dataclasses with slots, each with its times."""
    classes = [*events_of(netmesh.events), InterfaceTrouble, StorageTrouble, MessageReceived]
    assert len(classes) >= 20
    for each in classes:
        fields = {field.name for field in dataclasses.fields(each)}
        assert {"time_s", "time_unix_s"} <= fields, each
        assert each.__dataclass_params__.frozen, each
        assert "__slots__" in vars(each), each


def events_of(module: Any) -> list[Any]:
    return [
        value
        for name, value in vars(module).items()
        if name in module.__all__ and dataclasses.is_dataclass(value)
    ]


SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{(?P<labels>[a-zA-Z_]\w*="(?:[^"\\]|\\.)*"(?:,[a-zA-Z_]\w*="(?:[^"\\]|\\.)*")*)\})?'
    r" (?P<value>[-+0-9.eE]+|NaN|[-+]?Inf)$"
)


@asynchronous
async def test_figures_are_valid_prometheus_text() -> None:
    """Section 4: every family has its help and type once, before its samples; labels escaped."""
    left, right = Pipe.pair(label='we"ird\\label')
    async with Node(interfaces=[left]) as node, Node(interfaces=[right]) as other:
        echo = await other.listen(NAME)
        await node.path(echo.hash, timeout=PATIENCE)
        await until(lambda: len(node.interface_infos()) == 1)
        text = node.metrics()
        stats = node.stats()
    assert text.endswith("\n")
    types: dict[str, str] = {}
    helped: set[str] = set()
    samples: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name in helped
            assert kind in ("counter", "gauge")
            assert name.endswith("_total") is (kind == "counter")
            types[name] = kind
        else:
            match = SAMPLE.match(line)
            assert match, line
            assert match["name"] in types
            key = f"{match['name']}{match['labels']}"
            assert key not in samples
            samples[key] = float(match["value"])
    assert any('we\\"ird' in key for key in samples)
    own = f'node="{node.identity.hash.hex()}"'
    assert samples[f"netmesh_frames_in_total{own}"] <= stats.engine.inputs
    assert samples[f"netmesh_paths{own}"] == 1
