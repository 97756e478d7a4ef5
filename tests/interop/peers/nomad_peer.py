"""NomadNet without a screen, driven by JSON lines.

python nomad_peer.py CONFIG_FOLDER

The folder holds the configuration of Reticulum; NomadNet has its own in "nomadnet" below it. The
program is started as ``nomadnet --daemon --console`` does it; what follows uses what its screens
use.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import nomadnet
import RNS
from lines import orders, tell
from nomadnet.Directory import DirectoryEntry
from nomadnet.nomadnet import program_setup

START_S = 60


def conversation(app: Any, order: dict[str, Any]) -> list[dict[str, Any]]:
    """What its screen of a conversation shows, the oldest first."""
    found = nomadnet.Conversation(order["destination"], app, initiator=True)
    found.scan_storage()
    shown = []
    for message in found.messages:
        message.load()
        shown.append(
            {
                "hash": message.get_hash().hex(),
                "title": message.get_title(),
                "content": message.get_content(),
                "state": message.get_state(),
                "method": message.get_method(),
                "signature": message.get_signature_description(),
                "outgoing": message.lxm.source_hash == app.lxmf_destination.hash,
                "attachments": [
                    [name, data.hex()] for name, data in message.get_file_attachments()
                ],
            }
        )
    return shown


def trust(app: Any, order: dict[str, Any]) -> None:
    """As its user does who trusts somebody: from then on its messages carry tickets."""
    entry = DirectoryEntry(bytes.fromhex(order["destination"]), "friend", DirectoryEntry.TRUSTED)
    app.directory.remember(entry)


def run(app: Any, order: dict[str, Any]) -> None:
    number, what = order["id"], order["do"]
    if what == "announce":
        app.announce_now()
    elif what == "announce_node":
        app.node.announce()
    elif what == "heard":
        seen = [[each[1].hex(), each[2].decode()] for each in app.directory._peer_announces]
        tell("heard", id=number, names=dict(seen))
    elif what == "conversation":
        tell("conversation", id=number, messages=conversation(app, order))
    elif what == "write":
        to = nomadnet.Conversation(order["destination"], app, initiator=True)
        tell("written", id=number, sent=to.send(order["content"], order["title"]))
    elif what == "paper":
        to = nomadnet.Conversation(order["destination"], app, initiator=True)
        tell("paper", id=number, uri=to.paper_output(order["content"], mode="return_uri"))
    elif what == "ingest":
        tell("ingested", id=number, taken=bool(app.message_router.ingest_lxm_uri(order["uri"])))
    elif what == "trust":
        trust(app, order)
        tell("trusted", id=number)


def started() -> Any:
    """The program, once it is up: its user interface is what it starts last."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        app = nomadnet.NomadNetworkApp._shared_instance
        if app is not None and hasattr(app, "ui"):
            return app
        time.sleep(0.02)
    raise TimeoutError("NomadNet did not start")


def obey() -> None:
    app = started()
    tell(
        "ready",
        destination=app.lxmf_destination.hash.hex(),
        key=app.identity.get_public_key().hex(),
        node=app.node.destination.hash.hex(),
        propagation=app.message_router.propagation_destination.hash.hex(),
        version=app.version,
        ports={},
    )
    for order in orders():
        run(app, order)


def main() -> None:
    RNS.loglevel = RNS.LOG_WARNING
    threading.Thread(target=obey).start()
    program_setup(sys.argv[1] + "/nomadnet", sys.argv[1], daemon=True, console=True)


if __name__ == "__main__":
    main()
