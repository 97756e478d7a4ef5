"""``netmesh demo``: what netmesh does today, step by step, with times.

First the codecs by themselves, then a short comparison report, then the real thing: agents
in processes of their own and an upstream one find each other over TCP, exchange messages, call
each other and send files.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from netmesh import Announce, AuthenticationError, Identity, Ratchets, Token, Verdict
from netmesh._demo_agents import meet
from netmesh._demo_process import ExchangeError
from netmesh._version import __version__
from netmesh.errors import NetmeshError
from netmesh.lxmf import DeliveryAppData, Message, delivery_hash
from netmesh.lxmf.stamp import Workblock
from netmesh.resource import Assembler, Segmenter

T = TypeVar("T")

FILE_BYTES = 100_000
STAMP_COST = 12
REPORT_ARMS = "core,netmesh,pure,rns-openssl"
REPORT_ROWS = (
    "packet.pack",
    "announce.validate.cold",
    "identity.sign",
    "token.encrypt.464",
    "lxmf.encode.sign.21",
    "lxmf.decode.verify.21",
    "request.32",
    "packet.proof",
)
WINDOW_PARTS = 75  # the largest window of a fast link (RNS 2, 3.8)


class DemoError(RuntimeError):
    """A step of the demo did not turn out as it must."""


def say(text: str, seconds: float | None = None) -> None:
    """Prints one line, led by the time that it took."""
    print(f"{duration(seconds):>10}  {text}" if seconds is not None else text, flush=True)


def duration(seconds: float) -> str:
    """A time in the unit that gives it one to three digits before the point."""
    for unit, factor in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds:.2f} s"


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """The result of one call and the seconds that it took."""
    began = time.perf_counter()
    result = action()
    return result, time.perf_counter() - began


def check(holds: bool, text: str) -> None:
    """Ends the demo with an error unless `holds`."""
    if not holds:
        raise DemoError(text)


def show_identities() -> tuple[Identity, Identity]:
    """Two identities, a signature, encryption with and without a ratchet."""
    say("\nIdentities")
    alice, seconds = timed(Identity)
    bob = Identity()
    say(f"two identities: Alice {alice.hash}, Bob {bob.hash}", seconds)

    text = b"This is Alice."
    signature, seconds = timed(lambda: alice.sign(text))
    say(f"Alice signs {len(text)} bytes", seconds)
    genuine, seconds = timed(lambda: alice.public_only().verify(text, signature))
    forged = alice.verify(b"This is Mallory.", signature)
    check(genuine and not forged, "a signature was judged wrongly")
    say("Bob finds her signature good, and refuses it under another text", seconds)

    secret = b"For Bob alone."
    sealed, seconds = timed(lambda: bob.public_only().encrypt(secret))
    say(f"Alice encrypts {len(secret)} bytes to Bob: {len(sealed)} bytes", seconds)
    opened, seconds = timed(lambda: bob.decrypt(sealed))
    check(opened.plaintext == secret, "the decrypted text is another one")
    try:
        alice.decrypt(sealed)
    except AuthenticationError:
        say("Bob reads them; Alice's own key does not open them", seconds)
    else:
        raise DemoError("a key that must not opened the text")
    return alice, bob


def show_announce(alice: Identity) -> tuple[Announce, Ratchets]:
    """An announce with a ratchet, made and validated."""
    say("\nAnnounce")
    ratchets = Ratchets()
    ratchets.rotate()
    app_data = DeliveryAppData(display_name="Alice").pack()
    made, seconds = timed(
        lambda: Announce.create(
            alice, "lxmf.delivery", app_data=app_data, ratchet=ratchets.current_public
        )
    )
    say(f"Alice announces her mailbox {made.destination_hash}: {len(made.raw)} bytes", seconds)
    received, seconds = timed(lambda: Announce.unpack(made.raw))
    say(f"Bob parses it: identity {received.identity_hash}, with a ratchet", seconds)
    verdict, seconds = timed(received.validate)
    check(verdict == Verdict.VALID, f"a good announce was judged {verdict}")
    damaged = bytearray(made.raw)
    damaged[-1] ^= 1
    verdict = Announce.unpack(damaged).validate()
    check(verdict == Verdict.BAD_SIGNATURE, f"a damaged announce was judged {verdict}")
    say("it is valid; with one bit flipped it is not", seconds)
    return received, ratchets


def show_message(bob: Identity, announce: Announce, alice: Identity, ratchets: Ratchets) -> None:
    """An LXMF message from Bob to Alice, with a stamp, sealed to her ratchet."""
    say("\nLXMF message")
    message, seconds = timed(
        lambda: Message.create(
            bob,
            announce.destination_hash,
            "See you at the well.",
            title="Tonight",
            fields={1: b"field"},
        )
    )
    say(f"Bob writes to Alice and signs: {len(message.packed)} bytes", seconds)
    work, seconds = timed(lambda: Workblock(message.id))
    say("the work block for a stamp is built", seconds)
    stamp, seconds = timed(lambda: work.search(STAMP_COST, threads=os.cpu_count() or 1))
    message = message.with_stamp(stamp.stamp)
    say(f"a stamp of value {stamp.value} is found in {stamp.tries} tries", seconds)

    sealed = announce.identity.encrypt(message.opportunistic, ratchet=announce.ratchet)
    opened = alice.decrypt(sealed, ratchets=ratchets.private_keys)
    check(opened.ratchet_id == announce.ratchet_id, "the ratchet did not open the message")
    received, seconds = timed(
        lambda: Message.unpack_opportunistic(announce.destination_hash, opened.plaintext)
    )
    say(f'Alice opens it with her ratchet and parses it: "{received.content_text}"', seconds)
    genuine, seconds = timed(lambda: received.verify(bob.public_only()))
    check(genuine and received.source_hash == delivery_hash(bob), "the message is not Bob's")
    say("the signature is Bob's", seconds)
    worth, seconds = timed(lambda: received.stamp_valid(STAMP_COST))
    check(worth, "the stamp is not worth its cost")
    say(f"the stamp is worth a cost of {STAMP_COST}", seconds)


def show_resource() -> None:
    """A file cut into encrypted parts, joined again, and proved."""
    say("\nResource")
    data = os.urandom(FILE_BYTES)
    key = Token(Token.generate_key())
    sender, seconds = timed(lambda: Segmenter(data, key))
    say(f"{len(data)} bytes are encrypted and cut into {sender.parts} parts", seconds)

    def transfer() -> Assembler:
        receiver = Assembler(sender.advertisement.pack())
        while (request := receiver.next_request(WINDOW_PARTS)) is not None:
            indices, hashmap_segment = sender.serve(request)
            for index in indices:
                receiver.add(sender.part(index))
            if hashmap_segment is not None:
                receiver.update(sender.hashmap_update(hashmap_segment))
        return receiver

    receiver, seconds = timed(transfer)
    say("all parts are requested, served and collected, the hash map in pieces", seconds)
    result, seconds = timed(lambda: receiver.finish(key))
    check(result.plaintext == data, "the joined bytes are other ones")
    say("they are joined, decrypted and checked", seconds)
    accepted, seconds = timed(lambda: sender.check_proof(result.proof))
    check(accepted, "the proof of the transfer is wrong")
    say("the sender accepts the receiver's proof", seconds)


def show_report() -> None:
    """A few rows of the comparison."""
    from netmesh.bench import main as bench

    say("\nA short comparison; 'netmesh bench' makes the full one")
    check(
        bench(["--quick", "--quiet", "--arms", REPORT_ARMS, *REPORT_ROWS]) == 0,
        "a figure could not be measured",
    )


def show_agents(python: str | None) -> None:
    """The real thing: agents in processes of their own, with an upstream one among them."""
    upstream = ", and one of rns and lxmf" if python is not None else ""
    say(f"\nThe real thing: two processes of netmesh{upstream}, over TCP")
    with tempfile.TemporaryDirectory(prefix="netmesh-demo-") as folder:
        meet(python, say, Path(folder))


def has_peer(python: str) -> bool:
    """Whether an interpreter has the upstream stack."""
    if python == sys.executable:
        return all(importlib.util.find_spec(name) for name in ("RNS", "LXMF"))
    command = [python, "-c", "import RNS, LXMF"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="netmesh demo",
        description="Shows what netmesh does, each step with its time: identities, an announce, "
        "an LXMF message, a resource; a short comparison report; then two agents and an upstream "
        "process, each a process of its own, that find each other over TCP, exchange messages, "
        "call each other and send files.",
    )
    parser.add_argument(
        "--peer-python",
        metavar="FILE",
        default=sys.executable,
        help="an interpreter that has rns and lxmf (default: this one)",
    )
    parser.add_argument("--no-peer", action="store_true", help="leave out the upstream process")
    parser.add_argument("--no-report", action="store_true", help="leave out the report")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Runs the demo; returns the exit status."""
    options = parse(arguments)
    if not options.no_peer and not has_peer(options.peer_python):
        print(
            f"netmesh demo: {options.peer_python} lacks rns and lxmf; install them with "
            "'pip install rns lxmf', or leave the upstream process out with --no-peer",
            file=sys.stderr,
        )
        return 1
    began = time.monotonic()
    say(f"netmesh {__version__}; each time is that of one call, the first one made")
    try:
        alice, bob = show_identities()
        announce, ratchets = show_announce(alice)
        show_message(bob, announce, alice, ratchets)
        show_resource()
        if not options.no_report:
            show_report()
        show_agents(None if options.no_peer else options.peer_python)
    except (DemoError, ExchangeError, NetmeshError, OSError) as error:
        print(f"netmesh demo: {error}", file=sys.stderr)
        return 1
    say(f"\nDone in {duration(time.monotonic() - began)}.")
    return 0
