"""The upstream stack as one side of a row between two processes (benchmarks/README.md).

Started by adapter.py with ``--node``. All of it is what a user of rns and lxmf would write;
callbacks of the stack run on its threads and stamp the time first.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import LXMF
import RNS

PATIENCE_S = 40.0
APP, ASPECT = "netmesh", "bench"
REQUEST_PATH = "/bench"
NUMBER_BYTES = 16

KINDS = {
    "discovery": "Transport.request_path, to the call of an announce handler",
    "link": "Link(...), to its callback",
    "request": "link.request, to the response callback; the handler is a Python function",
    "packet": "Packet(...).send(), to the delivery callback of its receipt",
    "direct": "LXMessage(...) and handle_outbound, to the delivery callback",
    "cold": "the same without a link",
    "opportunistic": "the same with the method OPPORTUNISTIC",
    "deliver": "the same as direct",
    "queue": "LXMessage(...) and handle_outbound of each, to the delivery callback of the last; "
    "a hundredth of the messages: its router looks at them every four seconds",
    "resource": "Resource(...), to its callback",
    "file": "Resource(file, ...), to its callback; the receiver's content is a file too",
    "meanwhile": "Packet(link, ...).send() to its receipt, while a Resource is under way",
    "links": "Link(...) as many times as there are links, to the last callback",
    "idle": "nothing",
    "hub": "an instance with enable_transport, without ingress control; what leaves something at "
    "the hub, and crowds, with a fiftieth",
}

HUB_SCALE = 50
QUEUE_SCALE = 100

MESSAGES = {
    "direct": LXMF.LXMessage.DIRECT,
    "cold": LXMF.LXMessage.DIRECT,
    "deliver": LXMF.LXMessage.DIRECT,
    "opportunistic": LXMF.LXMessage.OPPORTUNISTIC,
}
MAIL = (*MESSAGES, "queue")

LINKED = ("request", "resource", "file", "meanwhile")

CONFIGURATION = """\
[reticulum]
  enable_transport = {transport}
  share_instance = no
  panic_on_interface_error = no

[logging]
  loglevel = 0

[interfaces]
"""

SERVER = """\
  [[bench]]
    type = TCPServerInterface
    enabled = yes
    listen_ip = 127.0.0.1
    listen_port = {port}
"""

HUB = SERVER + "    ingress_control = no\n"

CLIENT = """\
  [[bench]]
    type = TCPClientInterface
    enabled = yes
    target_host = 127.0.0.1
    target_port = {port}
"""


def until(condition: Callable[[], Any], what: str, limit: float = PATIENCE_S) -> None:
    """Waits, outside all clocks, until a condition holds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.002)


class Waiter:
    """The end of a sample: stamped by a callback, awaited by the sampler."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._end = 0
        self._result: Any = None
        self._error: str | None = None

    def done(self, result: Any = None) -> None:
        """It ended well, now; later calls change nothing."""
        end = time.monotonic_ns()
        if not self._event.is_set():
            self._end, self._result = end, result
            self._event.set()

    def failed(self, error: str) -> None:
        """It did not."""
        if not self._event.is_set():
            self._error = error
            self._event.set()

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self._event.is_set()

    def wait(self, limit: float) -> tuple[int, Any]:
        """The stamp of its end, and what the callback got. Raises TimeoutError, RuntimeError."""
        if not self._event.wait(limit):
            raise TimeoutError("no end in time")
        if self._error is not None:
            raise RuntimeError(self._error)
        return self._end, self._result


class Side:
    """What both sides have in common."""

    def __init__(self, kit: Any, folder: str) -> None:
        self.kit = kit
        self.folder = folder
        self.kind = ""
        self.router: Any = None

    def read(self, request: dict[str, Any]) -> None:
        """What ``prepare`` says on both sides."""
        self.request = request
        self.kind = request["kind"]
        if self.kind not in KINDS:
            raise LookupError(f"rns does not play {self.kind!r}")
        self.payloads = self.kit.Payloads(request["file"], request["size"], request["items"])

    def mailbox(self, identity: Any) -> Any:
        """An LXMF router, and the delivery destination of an identity."""
        self.router = LXMF.LXMRouter(storagepath=self.folder)
        return self.router.register_delivery_identity(identity)

    def announce(self, request: dict[str, Any]) -> dict[str, Any]:
        """Announces what this side has."""
        self.local.announce()
        return {}

    def meet(self, request: dict[str, Any]) -> dict[str, Any]:
        """Waits until a destination is known."""
        wanted = bytes.fromhex(request["destination"])
        until(lambda: RNS.Transport.has_path(wanted), "no announce was heard")
        until(lambda: RNS.Identity.recall(wanted) is not None, "no identity is known")
        return {}


class Server(Side):
    """The side that answers."""

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Listens for the row."""
        self.read(request)
        self.arrivals = self.kit.Arrivals()
        self.numbers: set[bytes] = set()
        if self.kind == "discovery":
            return self._discoverable(request["samples"])
        identity = RNS.Identity()
        if self.kind in MAIL:
            self.local = self.mailbox(identity)
            self.router.register_delivery_callback(self._message)
        else:
            self.local = RNS.Destination(
                identity, RNS.Destination.IN, RNS.Destination.SINGLE, APP, ASPECT
            )
            self.local.set_proof_strategy(RNS.Destination.PROVE_ALL)
            self.local.set_packet_callback(self._packet)
            self.local.set_link_established_callback(self._link)
            self.local.register_request_handler(
                REQUEST_PATH, response_generator=self._answer, allow=RNS.Destination.ALLOW_ALL
            )
        answer = {"destination": self.local.hash.hex(), "key": identity.get_public_key().hex()}
        return answer | ({"scale": QUEUE_SCALE} if self.kind == "queue" else {})

    def _discoverable(self, samples: int) -> dict[str, Any]:
        made = [
            RNS.Destination(RNS.Identity(), RNS.Destination.IN, RNS.Destination.SINGLE, APP, ASPECT)
            for _ in range(samples)
        ]
        hashes = [destination.hash.hex() for destination in made]
        return {"destination": hashes[0], "key": "", "destinations": "".join(hashes)}

    def _message(self, message: Any) -> None:
        if not message.signature_validated:
            self.arrivals.error = "a message could not be verified"
        self.arrivals.add(bytes(message.content))

    def _packet(self, data: bytes, packet: Any) -> None:
        self.arrivals.add(data)

    def _link(self, link: Any) -> None:
        link.set_packet_callback(self._link_packet)
        link.set_resource_strategy(RNS.Link.ACCEPT_ALL)
        link.set_resource_concluded_callback(self._resource)
        if self.kind in ("link", "links"):
            self.arrivals.add()

    def _link_packet(self, data: bytes, packet: Any) -> None:
        if self.kind == "links":
            self.numbers.add(data)
        else:
            self.arrivals.add(data)
            packet.prove()

    def _resource(self, resource: Any) -> None:
        if resource.status == RNS.Resource.COMPLETE:
            at = time.monotonic_ns()
            if self.kind == "meanwhile":
                return
            if self.kind == "file":
                # The stack removes its file when this returns.
                kept = Path(self.folder, f"kept-{len(self.arrivals.stamps)}")
                shutil.move(resource.data.name, kept)
                Path(resource.data.name).touch()
                self.arrivals.add(kept, at)
            else:
                self.arrivals.add(resource.data.read(), at)

    def _answer(self, path: str, data: Any, request_id: Any, identity: Any, at: Any) -> bytes:
        self.arrivals.add(data)
        return bytes(data[::-1])

    def collect(self, request: dict[str, Any]) -> dict[str, Any]:
        """What arrived."""
        with contextlib.suppress(TimeoutError):  # the harness says what is missing
            until(lambda: self._seen() >= request["expect"], "", self.kit.ARRIVAL_S)
        answer: dict[str, Any] = self.arrivals.take()
        if self.kind == "links":
            answer["count"] = len(self.numbers)
            self.numbers = set()
        return answer

    def _seen(self) -> int:
        return len(self.numbers if self.kind == "links" else self.arrivals.stamps)


class Heard:
    """An announce handler that ends the sample of the destination it hears of."""

    aspect_filter = f"{APP}.{ASPECT}"
    receive_path_responses = True

    def __init__(self) -> None:
        self.waiter = Waiter()
        self.wanted = b""

    def received_announce(
        self, destination_hash: bytes, announced_identity: Any, app_data: Any
    ) -> None:
        """Called by the stack, on a thread of its own."""
        if destination_hash == self.wanted:
            self.waiter.done(announced_identity)


class Client(Side):
    """The side that asks and is timed."""

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Gets ready for the row."""
        self.read(request)
        self.next = 0
        self.link: Any = None
        self.links: list[Any] = []
        text = request.get("destinations") or request["destination"]
        self.hashes = [bytes.fromhex(text[at : at + 32]) for at in range(0, len(text), 32)]
        self.samples = {
            "discovery": self._discovery,
            "link": self._link_sample,
            "request": self._request,
            "packet": self._packet,
            "resource": self._resource,
            "file": self._file,
            "queue": self._queue,
            **dict.fromkeys(MESSAGES, self._deliver),
        }
        if self.kind == "discovery":
            self.heard = Heard()
            RNS.Transport.register_announce_handler(self.heard)
        if self.kind not in MAIL:
            return {}
        self.local = self.mailbox(RNS.Identity())
        return {"source": self.local.hash.hex()}

    def _remote(self) -> Any:
        identity = RNS.Identity.recall(self.hashes[0])
        names = ("lxmf", "delivery") if self.kind in MAIL else (APP, ASPECT)
        return RNS.Destination(identity, RNS.Destination.OUT, RNS.Destination.SINGLE, *names)

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Takes samples."""
        made = self.kit.Samples()
        count, limit = request["count"], request["timeout_ms"] / 1000
        if self.kind == "idle":
            time.sleep(count / 1000)
            return dict(made.answer())
        if self.kind != "discovery":
            self.remote = self._remote()
        if self.kind == "links":
            self._many(count, made, limit)
            return dict(made.answer())
        if self.kind in LINKED and self.link is None:
            self.link = self._open(PATIENCE_S)[2]
        if self.kind == "meanwhile":
            self._meanwhile(request["pace_us"], made, limit)
            return dict(made.answer())
        pace = self.kit.Pace(request["pace_us"])
        sample = self.samples[self.kind]
        for _ in range(count):
            time.sleep(pace.wait_s())
            number = self.next
            self.next += 1
            try:
                sample(number, made, limit)
            except Exception as error:
                made.fail(error)
        return dict(made.answer())

    def _discovery(self, number: int, made: Any, limit: float) -> None:
        wanted = self.hashes[number]
        if RNS.Transport.has_path(wanted):
            raise AssertionError("the path was known before")
        waiter = Waiter()
        self.heard.waiter, self.heard.wanted = waiter, wanted
        start = time.monotonic_ns()
        RNS.Transport.request_path(wanted)
        end, _ = waiter.wait(limit)
        made.add(start, end)
        if not RNS.Transport.has_path(wanted) or RNS.Identity.recall(wanted) is None:
            raise AssertionError("the destination is not known")

    def _open(self, limit: float) -> tuple[int, int, Any]:
        waiter = Waiter()
        start = time.monotonic_ns()
        link = RNS.Link(
            self.remote,
            established_callback=waiter.done,
            closed_callback=lambda _: waiter.failed("the link closed"),
        )
        end, _ = waiter.wait(limit)
        return start, end, link

    def _link_sample(self, number: int, made: Any, limit: float) -> None:
        start, end, link = self._open(limit)
        made.add(start, end)
        link.teardown()

    def _request(self, number: int, made: Any, limit: float) -> None:
        payload = self.payloads[number]
        waiter = Waiter()
        start = time.monotonic_ns()
        self.link.request(
            REQUEST_PATH,
            data=payload,
            response_callback=waiter.done,
            failed_callback=lambda _: waiter.failed("the request failed"),
            timeout=limit,
        )
        end, receipt = waiter.wait(limit)
        made.add(start, end)
        made.done.append(receipt.response)

    def _packet(self, number: int, made: Any, limit: float) -> None:
        self._prove(self.remote, self.payloads[number], made, limit)

    def _prove(self, to: Any, payload: bytes, made: Any, limit: float) -> None:
        waiter = Waiter()
        start = time.monotonic_ns()
        receipt = RNS.Packet(to, payload).send()
        receipt.set_delivery_callback(waiter.done)
        # The proof may have come before there was a callback.
        if receipt.get_status() == RNS.PacketReceipt.DELIVERED:
            waiter.done()
        end, _ = waiter.wait(limit)
        made.add(start, end)
        made.done.append(payload)

    def _resource(self, number: int, made: Any, limit: float) -> None:
        payload = self.payloads[number]
        self._transfer(payload, bool(self.request["compress"]), made, limit)
        made.done.append(payload)

    def _file(self, number: int, made: Any, limit: float) -> None:
        path = Path(self.payloads.path)
        with path.open("rb") as file:
            self._transfer(file, False, made, limit)
        made.done.append(path)

    def _meanwhile(self, pace_us: int, made: Any, limit: float) -> None:
        waiter = Waiter()
        pace = self.kit.Pace(pace_us)
        with Path(self.request["bulk"]).open("rb") as file:
            began = time.monotonic_ns()
            RNS.Resource(file, self.link, callback=waiter.done, auto_compress=False)
            while not waiter.ended:
                number = self.next
                self.next += 1
                try:
                    self._prove(self.link, self.payloads[number], made, limit)
                except Exception as error:
                    made.fail(error)
                time.sleep(pace.wait_s())
            end, ended = waiter.wait(limit)
        if ended.status != RNS.Resource.COMPLETE:
            raise RuntimeError(f"the resource ended with status {ended.status}")
        made.transfer_ns = end - began

    def _transfer(self, content: Any, compress: bool, made: Any, limit: float) -> None:
        waiter = Waiter()
        start = time.monotonic_ns()
        resource = RNS.Resource(content, self.link, callback=waiter.done, auto_compress=compress)
        try:
            end, ended = waiter.wait(limit)
        except TimeoutError:
            resource.cancel()
            raise
        if ended.status != RNS.Resource.COMPLETE:
            raise RuntimeError(f"the resource ended with status {ended.status}")
        made.add(start, end)

    def _deliver(self, number: int, made: Any, limit: float) -> None:
        payload = self.payloads[number]
        waiter = Waiter()
        start = time.monotonic_ns()
        message = LXMF.LXMessage(
            self.remote, self.local, payload, "", desired_method=MESSAGES[self.kind]
        )
        message.register_delivery_callback(waiter.done)
        message.register_failed_callback(lambda _: waiter.failed("the message failed"))
        self.router.handle_outbound(message)
        end, _ = waiter.wait(limit)
        made.add(start, end)
        made.done.append(payload)
        if self.kind == "cold":
            link = self.router.direct_links.pop(self.hashes[0])
            link.teardown()
            until(lambda: link.status == RNS.Link.CLOSED, "the link does not close")

    def _queue(self, number: int, made: Any, limit: float) -> None:
        held = self.request["held"]
        payloads = [self.payloads[number * held + each] for each in range(held)]
        waiter = Waiter()
        delivered: list[Any] = []

        def count(message: Any) -> None:
            delivered.append(message)
            if len(delivered) == held:
                waiter.done()

        start = time.monotonic_ns()
        for payload in payloads:
            message = LXMF.LXMessage(
                self.remote, self.local, payload, "", desired_method=MESSAGES[self.request["load"]]
            )
            message.register_delivery_callback(count)
            message.register_failed_callback(lambda _: waiter.failed("a message failed"))
            self.router.handle_outbound(message)
        end, _ = waiter.wait(limit)
        made.add(start, start + (end - start) // held)
        made.done += payloads

    def _many(self, count: int, made: Any, limit: float) -> None:
        waiter = Waiter()
        lock = threading.Lock()
        left = count

        def active(_link: Any) -> None:
            nonlocal left
            with lock:
                left -= 1
                if left == 0:
                    waiter.done()

        start = time.monotonic_ns()
        links = [
            RNS.Link(
                self.remote,
                established_callback=active,
                closed_callback=lambda _: waiter.failed("a link closed"),
            )
            for _ in range(count)
        ]
        end, _ = waiter.wait(limit)
        made.add(start, end)
        for number, link in enumerate(links, len(self.links)):
            RNS.Packet(link, number.to_bytes(NUMBER_BYTES, "big"), create_receipt=False).send()
        self.links += links


class Hub:
    """A transport node between others."""

    def __init__(self, kit: Any, folder: str) -> None:
        self.kit = kit
        self.load = ""

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """How much less than the row says it is given."""
        self.load = request["load"]
        return {"destination": "", "key": "", "scale": HUB_SCALE}

    def collect(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the hub has: connections or paths."""

        def count() -> int:
            if self.load in ("clients", "crowd"):
                return len(RNS.Transport.interfaces) - 1
            return len(RNS.Transport.path_table)

        with contextlib.suppress(TimeoutError):
            until(lambda: count() >= request["expect"], "", self.kit.ARRIVAL_S)
        return {"stamps": [], "count": count(), "check": ""}


class Program:
    """The requests of the protocol."""

    def __init__(self, kit: Any, folder: str) -> None:
        self.kit = kit
        self.folder = folder
        self.side: Any = None

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Starts the stack in its role."""
        role = request["role"]
        text, side = {"server": (SERVER, Server), "hub": (HUB, Hub), "client": (CLIENT, Client)}[
            role
        ]
        configuration = CONFIGURATION.format(transport="yes" if role == "hub" else "no")
        interface = text.format(port=request["port"])
        Path(self.folder, "config").write_text(configuration + interface)
        RNS.Reticulum(configdir=self.folder, loglevel=0)
        self.side = side(self.kit, self.folder)
        until(
            lambda: any(each.online for each in RNS.Transport.interfaces), "there is no connection"
        )
        return {}

    def operations(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """By name."""

        def of_side(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
            return lambda request: dict(getattr(self.side, name)(request))

        names = ("prepare", "announce", "meet", "run", "collect")
        return {"open": self.open, **{name: of_side(name) for name in names}}


def main(kit: Any) -> int:
    """Serves until ``quit``; returns the exit code. ``kit`` is the module of the protocol."""
    with contextlib.ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="netmesh-bench-", ignore_cleanup_errors=True)
        return int(kit.serve(Program(kit, stack.enter_context(folder)).operations()))
