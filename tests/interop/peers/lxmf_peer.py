"""A mailbox on the upstream stack, driven by JSON lines.

python lxmf_peer.py CONFIG_FOLDER
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import LXMF
import RNS
from lines import digest, orders, tell

PATH_PATIENCE_S = 40


def plain(value: Any) -> Any:
    """Fields of a message as JSON can hold them: bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return value


def on_message(message: Any) -> None:
    tell(
        "message",
        hash=message.hash.hex(),
        size=len(message.content),
        digest=digest(message.content),
        content=message.content_as_string() if len(message.content) < 1000 else None,
        title=message.title_as_string(),
        fields=plain(message.fields),
        source=message.source_hash.hex(),
        verified=bool(message.signature_validated),
        method=message.method,
    )


class Heard:
    """Tells of mailboxes that announce themselves."""

    aspect_filter = "lxmf.delivery"
    receive_path_responses = True

    def received_announce(
        self, destination_hash: Any, announced_identity: Any, app_data: Any
    ) -> None:
        tell(
            "announce",
            destination=destination_hash.hex(),
            name=LXMF.display_name_from_app_data(app_data),
        )


def send(router: Any, mailbox: Any, order: dict[str, Any]) -> None:
    to = bytes.fromhex(order["destination"])
    for _ in range(PATH_PATIENCE_S // 2):
        if RNS.Transport.has_path(to):
            break
        RNS.Transport.request_path(to)
        RNS.Transport.await_path(to, timeout=2)
    else:
        tell("no_path", id=order["id"])
        return
    remote = RNS.Destination(
        RNS.Identity.recall(to), RNS.Destination.OUT, RNS.Destination.SINGLE, "lxmf", "delivery"
    )
    message = LXMF.LXMessage(
        remote,
        mailbox,
        order["content"],
        order["title"],
        fields={int(key): value for key, value in order.get("fields", {}).items()},
        desired_method=order["method"],
    )
    message.register_delivery_callback(lambda done: tell("delivered", id=order["id"]))
    message.register_failed_callback(lambda done: tell("failed", id=order["id"], state=done.state))
    router.handle_outbound(message)


def open_mailbox(folder: str, identity: Any) -> tuple[Any, Any]:
    """A router with one mailbox, which tells what comes."""
    RNS.Transport.register_announce_handler(Heard())
    router = LXMF.LXMRouter(storagepath=folder + "/lxmf")
    mailbox = router.register_delivery_identity(identity, display_name="upstream")
    router.register_delivery_callback(on_message)
    return router, mailbox


def identity_in(folder: str) -> Any:
    """The identity of an earlier run in this folder, or a new one."""
    file = folder + "/mailbox"
    if os.path.isfile(file):
        return RNS.Identity.from_file(file)
    identity = RNS.Identity()
    identity.to_file(file)
    return identity


def main() -> None:
    RNS.Reticulum(sys.argv[1], loglevel=0)
    router, mailbox = open_mailbox(sys.argv[1], identity_in(sys.argv[1]))
    tell(
        "ready",
        destination=mailbox.hash.hex(),
        version=LXMF.__version__,
        ports={
            each.name: each.server.server_address[1]
            for each in RNS.Transport.interfaces
            if hasattr(each, "server")
        },
    )
    for order in orders():
        if order["do"] == "announce":
            router.announce(mailbox.hash)
        elif order["do"] == "message":
            threading.Thread(target=send, args=(router, mailbox, order)).start()


if __name__ == "__main__":
    main()
