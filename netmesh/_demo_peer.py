"""A live upstream peer: an LXMF mailbox on one loopback TCP port, told what to do by lines.

It runs in a process and an environment of its own (``rns`` and ``lxmf`` from PyPI) and
imports nothing of netmesh. Each line of its input is a JSON object with a ``command``:

``announce``                                announces the mailbox
``send`` (destination, title, content)      sends one opportunistic message; the
                                            destination's announce must have been heard
``serve``                                   has a service too, and announces it from then on
``call`` (destination, text)                asks a service to greet, over a link that stays
``file`` (destination, path)                sends a file to a service
``quit``                                    ends the process (so does the end of input)

Each line of its output is a JSON object with an ``event``: ``ready``; ``announce`` and
``message`` (one was heard or received); ``transmitted`` (a message of ours has left);
``sent`` (it was proved by its recipient, or failed); ``serving``; ``answered``; ``file``
(one was received); ``transferred``; ``error``.

Usage: python _demo_peer.py FOLDER PORT
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import LXMF
import RNS

CONFIG = """\
[reticulum]
enable_transport = No
share_instance = No
panic_on_interface_error = Yes

[logging]
loglevel = 1

[interfaces]
  [[Loopback]]
    type = TCPServerInterface
    enabled = Yes
    listen_ip = 127.0.0.1
    listen_port = {port}
"""

POLL_S = 0.002
LINK_S = 20.0
ANSWER_S = 5.0
TRIES = 4
TRANSFER_S = 60.0
SERVICE = ("netmesh", "demo")
GREETING = "/greet"


OUTPUT = threading.Lock()
"""The stack calls from threads of its own: lines must not mix."""


def emit(event: str, **values: Any) -> None:
    """Writes one event as a line."""
    with OUTPUT:
        print(json.dumps({"event": event, **values}), flush=True)


class Mailbox:
    """One delivery destination of the upstream router."""

    aspect_filter = "lxmf.delivery"

    def __init__(self, folder: Path, port: int) -> None:
        (folder / "config").write_text(CONFIG.format(port=port))
        RNS.Reticulum(configdir=str(folder), loglevel=1)
        identity = RNS.Identity()
        self.router = LXMF.LXMRouter(identity=identity, storagepath=str(folder / "lxmf"))
        self.delivery = self.router.register_delivery_identity(
            identity, display_name="upstream peer"
        )
        self.router.register_delivery_callback(self.received_message)
        RNS.Transport.register_announce_handler(self)
        emit(
            "ready",
            rns=importlib.metadata.version("rns"),
            lxmf=importlib.metadata.version("lxmf"),
            python=sys.version.split()[0],
            destination=self.delivery.hash.hex(),
        )

    def received_announce(
        self, destination_hash: bytes, announced_identity: Any, app_data: Any
    ) -> None:
        """Called by the upstream stack for each valid delivery announce."""
        emit(
            "announce",
            destination=destination_hash.hex(),
            identity=announced_identity.hash.hex(),
            display_name=LXMF.display_name_from_app_data(app_data),
        )

    def received_message(self, message: Any) -> None:
        """Called by the upstream router for each message that is for this mailbox."""
        emit(
            "message",
            source=message.source_hash.hex(),
            title=message.title_as_string(),
            content=message.content_as_string(),
            signature_valid=message.signature_validated,
            hash=message.hash.hex(),
        )

    def announce(self) -> None:
        """Announces the mailbox."""
        self.router.announce(self.delivery.hash)

    def send(self, destination: str, title: str, content: str) -> None:
        """Sends one opportunistic message to an address whose announce was heard."""
        identity = RNS.Identity.recall(bytes.fromhex(destination))
        if identity is None:
            emit("error", text=f"no announce of {destination} was heard")
            return
        recipient = RNS.Destination(
            identity, RNS.Destination.OUT, RNS.Destination.SINGLE, "lxmf", "delivery"
        )
        message = LXMF.LXMessage(
            recipient,
            self.delivery,
            content,
            title,
            desired_method=LXMF.LXMessage.OPPORTUNISTIC,
        )
        began = time.monotonic()

        def concluded(message: Any) -> None:
            emit(
                "sent",
                delivered=message.state == LXMF.LXMessage.DELIVERED,
                seconds=round(time.monotonic() - began, 6),
            )

        message.register_delivery_callback(concluded)
        message.register_failed_callback(concluded)
        self.router.handle_outbound(message)
        while message.state < LXMF.LXMessage.SENT:
            time.sleep(POLL_S)
        emit("transmitted")


class Service:
    """A destination that greets and takes files, and a caller of the like."""

    aspect_filter = ".".join(SERVICE)

    def __init__(self) -> None:
        self.identity = RNS.Identity()
        self.destination = RNS.Destination(
            self.identity, RNS.Destination.IN, RNS.Destination.SINGLE, *SERVICE
        )
        self.destination.register_request_handler(
            GREETING, response_generator=self.greet, allow=RNS.Destination.ALLOW_ALL
        )
        self.destination.set_link_established_callback(self.linked)
        self.links: dict[str, Any] = {}
        RNS.Transport.register_announce_handler(self)
        emit("serving", service=self.destination.hash.hex())

    def received_announce(
        self, destination_hash: bytes, announced_identity: Any, app_data: Any
    ) -> None:
        """Called by the upstream stack for each announce of a service."""
        emit("announce", destination=destination_hash.hex())

    def greet(self, path: str, data: Any, request_id: Any, remote: Any, at: Any) -> str:
        """Answers a request."""
        return f"{data}, says Carol"

    def linked(self, link: Any) -> None:
        """A peer opened a link."""
        link.set_resource_strategy(RNS.Link.ACCEPT_ALL)
        link.set_resource_concluded_callback(self.received)

    def received(self, resource: Any) -> None:
        """A transfer to us ended."""
        if resource.status == RNS.Resource.COMPLETE:
            content = resource.data.read()
            emit("file", bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        else:
            emit("error", text=f"a transfer ended with status {resource.status}")

    def link_to(self, destination: str) -> Any:
        """The link to a service, opened if there is none."""
        if destination not in self.links:
            identity = RNS.Identity.recall(bytes.fromhex(destination))
            remote = RNS.Destination(
                identity, RNS.Destination.OUT, RNS.Destination.SINGLE, *SERVICE
            )
            ready = threading.Event()
            link = RNS.Link(remote, established_callback=lambda _: ready.set())
            if not ready.wait(LINK_S):
                raise TimeoutError("no link")
            self.links[destination] = link
        return self.links[destination]

    def call(self, destination: str, text: str) -> None:
        """Asks a service.

        This stack enters a request into its books only after the packet has left. An answer
        that is back before that is lost, so the question is put again a few times.
        """
        link = self.link_to(destination)
        for _ in range(TRIES):
            began = time.monotonic()
            ended = threading.Event()
            receipt = link.request(
                GREETING,
                data=text,
                response_callback=lambda _, ended=ended: ended.set(),
                timeout=ANSWER_S,
            )
            if ended.wait(ANSWER_S):
                emit("answered", text=receipt.response, seconds=time.monotonic() - began)
                return
        emit("error", text="no answer")

    def file(self, destination: str, path: str) -> None:
        """Sends a file."""
        link = self.link_to(destination)
        content = Path(path).read_bytes()
        began = time.monotonic()
        ended = threading.Event()
        resource = RNS.Resource(content, link, callback=lambda _: ended.set())
        if not ended.wait(TRANSFER_S) or resource.status != RNS.Resource.COMPLETE:
            emit("error", text=f"the transfer ended with status {resource.status}")
        else:
            emit("transferred", seconds=time.monotonic() - began)


def main() -> int:
    """Serves commands until there are no more."""
    mailbox = Mailbox(Path(sys.argv[1]), int(sys.argv[2]))
    service: Service | None = None
    for line in sys.stdin:
        values = json.loads(line)
        command = values.pop("command")
        if command == "announce":
            mailbox.announce()
            if service is not None:
                service.destination.announce(b"Carol")
        elif command == "serve":
            service = Service()
        elif command in ("call", "file") and service is not None:
            getattr(service, command)(**values)
        elif command == "send":
            mailbox.send(**values)
        elif command == "quit":
            break
        else:
            emit("error", text=f"unknown command {command}")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # The upstream stack's exit handlers wait for seconds; all is in a folder that goes away.
    os._exit(status)
