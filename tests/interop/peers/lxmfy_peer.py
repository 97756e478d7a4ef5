"""A bot made with lxmfy, driven by JSON lines besides.

python lxmfy_peer.py CONFIG_FOLDER
"""

from __future__ import annotations

import importlib.metadata
import sys
import threading
from typing import Any

import RNS
from lines import orders, tell
from lxmf_peer import Heard
from lxmfy import LXMFBot


def make(folder: str) -> LXMFBot:
    bot = LXMFBot(
        name="Beacon",
        announce_immediately=False,
        config_path=folder + "/bot",
        reticulum_config_dir=folder,
        storage_path=folder + "/bot/data",
        cogs_enabled=False,
        # Its sandbox is for files; with a kernel that knows of ports it forbids them all.
        landlock_enabled=False,
        rate_limit=1000,
        stamp_cost=9,
        require_stamps=True,
        signature_verification_enabled=True,
        require_message_signatures=True,
        loglevel=0,
    )

    @bot.command(name="ping", description="answers")
    def ping(context: Any) -> None:
        context.reply("pong")

    @bot.command(name="add", description="adds numbers")
    def add(context: Any) -> None:
        context.reply(str(sum(int(word) for word in context.content.split()[1:])))

    @bot.received
    def received(message: Any) -> None:
        lxm = message.lxmf
        tell(
            "message",
            hash=lxm.hash.hex(),
            sender=message.sender,
            content=message.content,
            reply_to=message.reply_to,
            verified=bool(lxm.signature_validated),
            method=lxm.method,
            stamp_value=lxm.stamp_value,
        )

    return bot


def obey(bot: LXMFBot) -> None:
    assert bot.local is not None
    RNS.Transport.register_announce_handler(Heard())
    tell(
        "ready",
        destination=bot.local.hash.hex(),
        key=bot.identity.get_public_key().hex(),
        version=importlib.metadata.version("lxmfy"),
        ports={},
    )
    for order in orders():
        if order["do"] == "announce":
            bot.announce_now(force=True)
        elif order["do"] == "say":
            bot.send(order["destination"], order["content"], title="From Beacon")


def main() -> None:
    bot = make(sys.argv[1])
    threading.Thread(target=obey, args=(bot,)).start()
    bot.run(delay=0.05)


if __name__ == "__main__":
    main()
