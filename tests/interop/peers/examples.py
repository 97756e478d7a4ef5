"""What a newcomer to upstream writes first: a client that echoes, links, asks, sends a file.

    python examples.py echo|link|request|resource CONFIG_FOLDER DESTINATION

Each finds the destination ``example.service`` at that address, does its one thing, prints what
came of it and ends. An answer that upstream loses because it is back too soon is asked for again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import RNS

TRIES = 16
WAIT_S = 2.5


def again(ask: Callable[[threading.Event], None]) -> None:
    """Asks until the event is set, a bounded number of times."""
    for _ in range(TRIES):
        done = threading.Event()
        ask(done)
        if done.wait(WAIT_S):
            return
    print("no answer", flush=True)
    os._exit(1)


def find(address: bytes) -> Any:
    """The destination at an address, once there is a path to it."""
    while not RNS.Transport.has_path(address):
        RNS.Transport.request_path(address)
        RNS.Transport.await_path(address, timeout=2)
    return RNS.Destination(
        RNS.Identity.recall(address),
        RNS.Destination.OUT,
        RNS.Destination.SINGLE,
        "example",
        "service",
    )


def link_to(service: Any) -> Any:
    """An established link."""
    up = threading.Event()
    link = RNS.Link(service, established_callback=lambda _: up.set())
    if not up.wait(40):
        print("no link", flush=True)
        os._exit(1)
    return link


def echo(service: Any) -> None:
    """A packet that the service proves."""

    def ask(done: threading.Event) -> None:
        receipt = RNS.Packet(service, os.urandom(16)).send()
        receipt.set_delivery_callback(lambda _: done.set())
        if receipt.get_status() == RNS.PacketReceipt.DELIVERED:
            done.set()

    again(ask)
    print("proven", flush=True)


def link(service: Any) -> None:
    """A packet over a link, answered by one."""
    connection = link_to(service)
    said: list[bytes] = []
    heard = threading.Event()

    def on_packet(message: bytes, packet: Any) -> None:
        said.append(message)
        heard.set()

    connection.set_packet_callback(on_packet)
    RNS.Packet(connection, b"hello").send()
    heard.wait(40)
    print(f"heard {said[0].decode()}", flush=True)
    connection.teardown()


def request(service: Any) -> None:
    """A request and its response."""
    connection = link_to(service)
    said: list[Any] = []

    def ask(done: threading.Event) -> None:
        def on_response(receipt: Any) -> None:
            said.append(receipt.response)
            done.set()

        connection.request("/time", data=None, response_callback=on_response)

    again(ask)
    print(f"told {said[0]}", flush=True)
    connection.teardown()


def resource(service: Any) -> None:
    """A file with a name."""
    connection = link_to(service)
    done = threading.Event()
    sent = RNS.Resource(
        b"line\n" * 20_000,
        connection,
        metadata={"name": "lines.txt"},
        callback=lambda _: done.set(),
    )
    done.wait(40)
    print("sent" if sent.status == RNS.Resource.COMPLETE else "not sent", flush=True)
    connection.teardown()


def main() -> None:
    what, folder, address = sys.argv[1:]
    RNS.Reticulum(folder, loglevel=0)
    service = find(bytes.fromhex(address))
    {"echo": echo, "link": link, "request": request, "resource": resource}[what](service)
    os._exit(0)


main()
