"""A mailbox on the upstream stack that tells everything of a message, driven by JSON lines.

python mail_peer.py CONFIG_FOLDER

Bytes are hexadecimal digits in both directions, fields are packed by upstream's own MessagePack.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from typing import Any

import LXMF
import RNS
import RNS.vendor.umsgpack as umsgpack
from lines import orders, tell
from LXMF import LXStamper
from lxmf_peer import Heard


def on_message(message: Any) -> None:
    tell(
        "message",
        hash=message.hash.hex(),
        title=message.title.hex(),
        content=message.content.hex(),
        fields=umsgpack.packb(message.fields).hex(),
        source=message.source_hash.hex(),
        verified=bool(message.signature_validated),
        method=message.method,
        stamp_valid=bool(message.stamp_valid),
        stamp_value=message.stamp_value,
    )


def recipient(order: dict[str, Any]) -> Any:
    """The mailbox of a public key: no announce of it needs to have been heard."""
    identity = RNS.Identity(create_keys=False)
    identity.load_public_key(bytes.fromhex(order["key"]))
    return RNS.Destination(
        identity, RNS.Destination.OUT, RNS.Destination.SINGLE, "lxmf", "delivery"
    )


def message_of(mailbox: Any, order: dict[str, Any]) -> Any:
    message = LXMF.LXMessage(
        recipient(order),
        mailbox,
        fields=umsgpack.unpackb(bytes.fromhex(order["fields"])),
        desired_method=order["method"],
        include_ticket=order.get("ticket", False),
    )
    message.set_title_from_bytes(bytes.fromhex(order["title"]))
    message.set_content_from_bytes(bytes.fromhex(order["content"]))
    if "stamp" in order:
        stamp(message, order["stamp"])
    return message


def stamp(message: Any, cost: int) -> None:
    """Searches in this thread, and hashes upstream's work block once: its own search starts
    processes, each of which hashes the whole block for each try."""
    message.pack()
    block = LXStamper.stamp_workblock(message.hash)
    begun = hashlib.sha256(block)
    while True:
        found = os.urandom(32)
        digest = begun.copy()
        digest.update(found)
        if int.from_bytes(digest.digest(), "big") >> (256 - cost) == 0:
            break
    assert LXStamper.stamp_valid(found, cost, block)
    message.stamp_cost, message.stamp = cost, found
    message.defer_stamp = False
    message.packed = None


def send(router: Any, mailbox: Any, order: dict[str, Any]) -> None:
    to = recipient(order).hash
    if not RNS.Transport.has_path(to):
        RNS.Transport.request_path(to)
        RNS.Transport.await_path(to, timeout=20)
    message = message_of(mailbox, order)
    number = order["id"]
    message.register_delivery_callback(lambda done: tell("delivered", id=number))
    message.register_failed_callback(lambda done: tell("failed", id=number, state=done.state))
    router.handle_outbound(message)


def age_tickets(tickets: dict[str, Any], seconds: float) -> None:
    """As if so much time had passed for all that it knows of tickets."""
    for issued in tickets["inbound"].values():
        for times in issued.values():
            times[0] -= seconds
    for held in tickets["outbound"].values():
        held[0] -= seconds
    for to in tickets["last_deliveries"]:
        tickets["last_deliveries"][to] -= seconds


def run(router: Any, mailbox: Any, order: dict[str, Any]) -> None:
    if order["do"] == "announce":
        router.announce(mailbox.hash)
    elif order["do"] == "cost":
        router.set_inbound_stamp_cost(mailbox.hash, order["cost"])
        tell("cost", id=order["id"])
    elif order["do"] == "given":
        known = router.available_tickets["last_deliveries"]
        tell("given", id=order["id"], given=recipient(order).hash in known)
    elif order["do"] == "later":
        age_tickets(router.available_tickets, order["seconds"])
        tell("later", id=order["id"])
    elif order["do"] == "ingest":
        tell("ingested", id=order["id"], taken=bool(router.ingest_lxm_uri(order["uri"])))
    elif order["do"] == "paper":
        message = message_of(mailbox, order)
        tell("paper", id=order["id"], uri=message.as_uri(), hash=message.hash.hex())
    elif order["do"] == "message":
        threading.Thread(target=send, args=(router, mailbox, order)).start()


def main() -> None:
    RNS.Reticulum(sys.argv[1], loglevel=0)
    RNS.Transport.register_announce_handler(Heard())
    router = LXMF.LXMRouter(storagepath=sys.argv[1] + "/lxmf")
    mailbox = router.register_delivery_identity(RNS.Identity(), display_name="upstream")
    router.register_delivery_callback(on_message)
    tell(
        "ready",
        destination=mailbox.hash.hex(),
        key=mailbox.identity.get_public_key().hex(),
        version=LXMF.__version__,
        ports={},
    )
    for order in orders():
        run(router, mailbox, order)


if __name__ == "__main__":
    main()
