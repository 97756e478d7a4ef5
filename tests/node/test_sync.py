"""The node for scripts has everything that the asyncio one has, and behaves alike."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest

from netmesh import destinations, errors, interfaces, links, messaging, node, sync, transfers
from netmesh._inbox import Source
from netmesh.constants import MessageState
from netmesh.interfaces import CustomInterface, Pipe
from netmesh.messaging import MessageReceived
from node.nodes import NAME, PATIENCE

TWINS: list[tuple[type, type]] = [
    (node.Node, sync.Node),
    (links.Link, sync.Link),
    (destinations.LocalDestination, sync.LocalDestination),
    (messaging.Mailbox, sync.Mailbox),
    (messaging.OutgoingMessage, sync.OutgoingMessage),
    (transfers.Receipt, sync.Receipt),
    (transfers.Transfer, sync.Transfer),
    (interfaces.Interface, sync.Interface),
    (Source, sync.Reader),
]

# What cannot be the same, and what is there in its place.
ELSEWHERE = {
    "Node": {  # the core's
        "on_closed",
        "on_event",
        "on_frame",
        "on_mail",
        "on_peer",
        "on_tap",
        "on_trouble",
    },
    "Link": {"open_channel"},  # channel() waits
    "LocalDestination": {"links"},  # accept_link()
    "Transfer": {"get", "get_nowait", "closed", "lost"},  # of its progress
}


def members(kind: type) -> set[str]:
    """Public names of a class, those of its instances too."""
    found = {name for name in dir(kind) if not name.startswith("_")}
    for base in kind.__mro__:
        found |= {name for name in inspect.get_annotations(base) if name[0] != "_"}
    return found


@pytest.mark.parametrize(("original", "twin"), TWINS, ids=[twin.__name__ for _, twin in TWINS])
def test_every_name_has_its_twin(original: type, twin: type) -> None:
    """Section 4: a synchronous twin for scripts, complete."""
    assert members(original) - members(twin) == ELSEWHERE.get(twin.__name__, set())


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


@pytest.mark.parametrize(("original", "twin"), TWINS, ids=[twin.__name__ for _, twin in TWINS])
def test_every_argument_has_its_twin(original: type, twin: type) -> None:
    """Section 4: what can be said to one can be said to the other."""
    missing = {}
    for name in [*sorted(members(original) & members(twin)), "__init__"]:
        ours, theirs = getattr(original, name, None), getattr(twin, name, None)
        if not callable(ours) or (name == "__init__" and twin is not sync.Node):
            continue
        difference = parameters(ours) - parameters(theirs)
        if difference:
            missing[name] = difference
    assert not missing


def test_nothing_of_a_twin_is_left_to_await() -> None:
    for _, twin in TWINS:
        for name, member in inspect.getmembers(twin):
            assert not inspect.iscoroutinefunction(member), f"{twin.__name__}.{name}"


class Loopback(CustomInterface):
    """Two of them carry each other's frames."""

    peer: Loopback

    async def send(self, frame: bytes) -> None:
        self.peer.received(frame)


def test_a_script_queues_answers_watches_and_cancels() -> None:
    left, right = Pipe.pair()
    threads: set[int] = set()
    heard: list[bytes | None] = []
    with sync.Node(interfaces=[left]) as alice, sync.Node(interfaces=[right]) as bob:
        echo = bob.listen(NAME, prove=lambda packet: packet.data == b"yes", resources="all")

        @echo.handle("/slow")
        def slow(request: sync.IncomingRequest) -> str:
            threads.add(threading.get_ident())
            return f"{request.data}!"

        subscription = alice.on_announce(lambda each: heard.append(each.app_data), name=NAME)
        with alice.announces(NAME) as announces, alice.tap() as frames:
            echo.announce(b"hello", timeout=PATIENCE)
            assert announces.get(timeout=PATIENCE).app_data == b"hello"
            assert frames.get(timeout=PATIENCE).incoming
        subscription.close()
        assert subscription.closed
        receipt = alice.send(echo.hash, b"yes")
        assert receipt.wait(timeout=PATIENCE).ok
        assert receipt.packet_hash
        no = alice.send(echo.hash, b"no", timeout=60)
        assert no.info().timeout_s == 60
        no.set_timeout(0.05)
        with pytest.raises(errors.ProofError):
            no.wait(timeout=PATIENCE)
        with alice.connect(echo.hash, timeout=PATIENCE) as link:
            other = echo.accept_link(timeout=PATIENCE)
            assert link.request("/slow", "go", timeout=PATIENCE).data == "go!"
            assert threading.get_ident() not in threads
            transfer = link.start_file(b"x" * 1000)
            assert transfer.wait(timeout=PATIENCE).ok
            assert other.receive_file(timeout=PATIENCE).data == b"x" * 1000
            assert link.mtu == other.mtu
            assert [each.link_id for each in echo.open_links] == [link.link_id]
            echo.queue_requests("/queued")
            asking = threading.Thread(
                target=lambda: heard.append(link.request("/queued", timeout=PATIENCE).data)
            )
            asking.start()
            request = echo.requests.get(timeout=PATIENCE)
            echo.respond(request, b"answer")
            asking.join()
        assert heard == [b"hello", b"answer"]
        assert alice.paths()[0].destination == echo.hash
        assert alice.snapshot().known
        assert alice.settings().credit == 1024
        assert not alice.health().degraded
    assert alice.closed


def test_a_script_sends_messages_and_hears_them_in_a_thread() -> None:
    first, second = Loopback(), Loopback()
    first.peer, second.peer = second, first
    told: list[MessageReceived] = []
    came = threading.Event()

    def on_message(message: MessageReceived) -> None:
        told.append(message)
        came.set()

    with sync.Node(interfaces=[first]) as alice, sync.Node(interfaces=[second]) as bob:
        alice.lxmf(display_name="Alice")
        inbox = bob.lxmf(display_name="Bob", on_message=on_message)
        sending = alice.start_message(inbox.hash, "hello")
        assert sending.wait(timeout=PATIENCE).id == sending.id
        assert sending.state is MessageState.DELIVERED
        assert came.wait(PATIENCE)
        assert (told[0].id, told[0].content, told[0].verified) == (sending.id, "hello", True)
        assert inbox.identity.hash == bob.identity.hash
        assert inbox.local.hash == inbox.hash


def test_a_script_answers_and_watches_its_messages() -> None:
    left, right = Pipe.pair()
    with sync.Node(interfaces=[left]) as alice, sync.Node(interfaces=[right]) as bob:
        outbox = alice.lxmf(display_name="Alice")
        with bob.lxmf(display_name="Bob") as inbox:
            sending = outbox.start_message(inbox.hash, "x" * 2000)
            states = [each.state for each in sending.updates()]
            assert states[-1] is MessageState.DELIVERED
            assert sending.wait(timeout=PATIENCE).id == sending.id
            message = inbox.get(timeout=PATIENCE)
            assert inbox.reply(message, "yes", timeout=PATIENCE).id
            assert outbox.get(timeout=PATIENCE).content == "yes"
            with pytest.raises(errors.StateError):
                message.reply("from another thread")
            with pytest.raises(errors.NotFoundError):
                inbox.sync()
        assert inbox.closed
