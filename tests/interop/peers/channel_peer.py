"""An upstream peer with channels and buffers, driven by JSON lines: commands in, events out.

    python channel_peer.py CONFIG_FOLDER

The folder holds an ordinary configuration. Events are objects with "event". Messages of type
0x0101 hold text, those of 0x0102 bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from typing import Any

import RNS

LOCK = threading.Lock()
SENDING = threading.Lock()
CHUNK = 16384


def tell(event: str, **fields: Any) -> None:
    """Writes one event as a line; any thread may."""
    with LOCK:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def content(seed: str, size: int, kind: str) -> bytes:
    """Bytes that both sides can make."""
    if kind == "text":
        line = f"{seed} all work and no play. ".encode()
        return (line * (size // len(line) + 1))[:size]
    return hashlib.shake_256(seed.encode()).digest(size)


class Line(RNS.MessageBase):
    """A line of text."""

    MSGTYPE = 0x0101

    def __init__(self, text: str = "") -> None:
        self.text = text

    def pack(self) -> bytes:
        return self.text.encode()

    def unpack(self, raw: bytes) -> None:
        self.text = raw.decode()


class Blob(RNS.MessageBase):
    """Bytes."""

    MSGTYPE = 0x0102

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def pack(self) -> bytes:
        return self.data

    def unpack(self, raw: bytes) -> None:
        self.data = bytes(raw)


class Session:
    """One link and its channel."""

    def __init__(self, link: Any) -> None:
        self.link = link
        self.channel: Any = None
        self.echo = False
        self.lines: list[str] = []
        self.pair: Any = None
        link.set_link_closed_callback(
            lambda closed: tell("link_closed", reason=closed.teardown_reason)
        )

    def open(self) -> None:
        self.channel = self.link.get_channel()
        self.channel.register_message_type(Line)
        self.channel.register_message_type(Blob)
        self.channel.add_message_handler(self.on_message)
        tell("open", mdu=self.channel.mdu)

    def on_message(self, message: Any) -> bool:
        if isinstance(message, Line):
            self.lines.append(message.text)
            if message.text == "end":
                text = "\n".join(self.lines)
                tell("lines", count=len(self.lines), hash=hashlib.sha256(text.encode()).hexdigest())
                self.lines = []
        elif isinstance(message, Blob):
            tell("blob", size=len(message.data), hash=hashlib.sha256(message.data).hexdigest())
            if self.echo:
                threading.Thread(target=self.send, args=[message], daemon=True).start()
        else:
            return False
        return True

    def send(self, message: Any) -> None:
        """Sends when the window has room; one thread at a time looks and sends."""
        while True:
            with SENDING:
                if self.channel.is_ready_to_send():
                    self.channel.send(message)
                    return
            time.sleep(0.001)

    def send_lines(self, count: int) -> None:
        for number in range(count):
            self.send(Line(f"line {number}"))
        self.send(Line("end"))

    # ------------------------------------------------------------------ buffers

    def read(self, stream: int) -> None:
        """Reads a stream to its end, in a thread."""
        reader = RNS.RawChannelReader(stream, self.channel)

        def work() -> None:
            found = hashlib.sha256()
            size = 0
            room = bytearray(CHUNK)
            while True:
                got = reader.readinto(room)
                if got is None:
                    time.sleep(0.002)
                elif got == 0:
                    break
                else:
                    found.update(room[:got])
                    size += got
            tell("stream", stream=stream, size=size, hash=found.hexdigest())

        threading.Thread(target=work, daemon=True).start()

    def write(self, stream: int, data: bytes) -> None:
        """Writes a stream and its end, in a thread."""
        writer = RNS.RawChannelWriter(stream, self.channel)

        def work() -> None:
            at = 0
            while at < len(data):
                with SENDING:
                    at += writer.write(data[at : at + CHUNK]) or 0
                time.sleep(0.0005)
            while True:
                with SENDING:
                    if self.channel.is_ready_to_send():
                        writer.close()
                        break
                time.sleep(0.001)
            tell("written", stream=stream)

        threading.Thread(target=work, daemon=True).start()

    def converse(self, receive: int, send: int) -> None:
        """Answers each line in capitals over a bidirectional buffer."""

        def ready(count: int) -> None:
            for line in self.pair.read(count).splitlines(keepends=True):
                self.pair.write(line.upper())
                self.pair.flush()

        self.pair = RNS.Buffer.create_bidirectional_buffer(receive, send, self.channel, ready)
        tell("converses")


def main() -> None:
    RNS.Reticulum(sys.argv[1], loglevel=0)
    own = RNS.Destination(
        RNS.Identity(), RNS.Destination.IN, RNS.Destination.SINGLE, "netmesh", "channels"
    )
    sessions: list[Session] = []

    def on_link(link: Any) -> None:
        sessions.append(Session(link))
        sessions[-1].open()

    own.set_link_established_callback(on_link)
    tell("ready", version=RNS.__version__, destination=own.hash.hex())
    for text in sys.stdin:
        order = json.loads(text)
        what = order["do"]
        if what == "announce":
            own.announce()
        elif what == "connect":
            to = bytes.fromhex(order["destination"])
            if not RNS.Transport.has_path(to):
                RNS.Transport.request_path(to)
            if not RNS.Transport.await_path(to, timeout=20):
                tell("no_path")
                continue
            remote = RNS.Destination(
                RNS.Identity.recall(to),
                RNS.Destination.OUT,
                RNS.Destination.SINGLE,
                "netmesh",
                "channels",
            )
            RNS.Link(remote, established_callback=on_link)
        elif what == "echo":
            sessions[-1].echo = order["on"]
            tell("echoes")
        elif what == "send_lines":
            threading.Thread(
                target=sessions[-1].send_lines, args=[order["count"]], daemon=True
            ).start()
        elif what == "send_blob":
            sessions[-1].send(Blob(content(order["seed"], order["size"], "random")))
        elif what == "read":
            for stream in order["streams"]:
                sessions[-1].read(stream)
            tell("reads")
        elif what == "write":
            sessions[-1].write(
                order["stream"], content(order["seed"], order["size"], order["kind"])
            )
        elif what == "converse":
            sessions[-1].converse(order["receive"], order["send"])
        elif what == "close":
            sessions[-1].link.teardown()
    os._exit(0)


if __name__ == "__main__":
    main()
