"""A peer on the upstream stack that sends and takes large resources, driven by JSON lines.

    python bulk_peer.py CONFIG_FOLDER

Orders are objects with "do", events are objects with "event". It listens on netmesh.bulk; what
it sends goes over the link that was opened to it last.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from typing import Any

import RNS

LOCK = threading.Lock()


def tell(event: str, **fields: Any) -> None:
    with LOCK:
        print(json.dumps({"event": event, **fields}, default=bytes.decode), flush=True)


def content(size: int, kind: str) -> bytes:
    """Noise, or text that compresses."""
    if kind == "noise":
        return hashlib.shake_256(b"%d" % size).digest(size)
    return (b"The quick brown fox %d. " % size * (size // 20 + 1))[:size]


class Peer:
    def __init__(self, folder: str) -> None:
        self.link: Any = None
        self.sending: dict[int, Any] = {}
        self.cancel_at: float | None = None
        RNS.Reticulum(folder, loglevel=0)
        self.destination = RNS.Destination(
            RNS.Identity(), RNS.Destination.IN, RNS.Destination.SINGLE, "netmesh", "bulk"
        )
        self.destination.set_link_established_callback(self.on_link)
        for path, answer in (
            ("/echo", lambda path, data, request_id, link_id, who, at: data),
            ("/large", lambda path, data, request_id, link_id, who, at: content(data, "noise")),
        ):
            self.destination.register_request_handler(
                path, response_generator=answer, allow=RNS.Destination.ALLOW_ALL
            )

    def on_link(self, link: Any) -> None:
        self.link = link
        link.set_resource_strategy(RNS.Link.ACCEPT_ALL)
        link.set_resource_started_callback(self.on_started)
        link.set_resource_concluded_callback(self.on_concluded)
        tell("link")

    def on_started(self, resource: Any) -> None:
        tell("started")
        if self.cancel_at is not None:
            resource.progress_callback(self.on_progress)

    def on_progress(self, resource: Any) -> None:
        if self.cancel_at is not None and resource.get_progress() >= self.cancel_at:
            self.cancel_at = None
            resource.cancel()
            tell("cancelled")

    @staticmethod
    def on_concluded(resource: Any) -> None:
        if resource.initiator:
            return
        if resource.status != RNS.Resource.COMPLETE:
            tell("broken", status=resource.status)
            return
        digest, size = hashlib.sha256(), 0
        while block := resource.data.read(1 << 20):
            digest.update(block)
            size += len(block)
        tell("taken", size=size, digest=digest.hexdigest(), metadata=resource.metadata)

    def do_announce(self, order: dict[str, Any]) -> None:
        self.destination.announce()
        tell("announced")

    def do_send(self, order: dict[str, Any]) -> None:
        number = order["id"]

        def concluded(resource: Any) -> None:
            tell("sent", id=number, status=resource.status)

        def progress(resource: Any) -> None:
            if resource.get_progress() >= order["cancel_at"]:
                resource.cancel()

        self.sending[number] = RNS.Resource(
            content(order["size"], order["kind"]),
            self.link,
            metadata=order.get("metadata"),
            callback=concluded,
            progress_callback=progress if "cancel_at" in order else None,
        )

    def do_cancel_incoming(self, order: dict[str, Any]) -> None:
        self.cancel_at = order["at"]
        tell("ready_to_cancel")


def main() -> None:
    peer = Peer(sys.argv[1])
    tell("ready", destination=peer.destination.hash.hex())
    for line in sys.stdin:
        order = json.loads(line)
        threading.Thread(
            target=getattr(peer, f"do_{order['do']}"), args=(order,), daemon=True
        ).start()


main()
