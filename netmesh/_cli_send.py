"""The command ``netmesh send``: one message, and what became of it."""

from __future__ import annotations

import argparse
from typing import Any

from netmesh import _cli_mail as mail
from netmesh import _cli_node
from netmesh.constants import MessageState
from netmesh.errors import NetmeshError, OperationError
from netmesh.lxmf import fields

DESCRIPTION = """\
Sends one LXMF message and waits until its recipient has proven it, or a propagation node has it.

The recipient can verify who it is from once it has heard the sender's address announced, which is
done first. Its path is asked for when it is not known.

examples:
  netmesh send --identity me.identity --connect hub.example:4242 \\
      4faf1b2e0a077e6a9d92fa051f256038 "See you at the well."
  date | netmesh send --storage ~/.netmesh 4faf1b2e0a077e6a9d92fa051f256038
  netmesh send --storage ~/.netmesh --attach map.png --json 4faf1b2e0a077e6a9d92fa051f256038 Map

exit status: 0 when it was delivered or a propagation node has it, 1 when not (the reason is on
standard error, and with --json in the object), 130 after Ctrl-C.
"""


def main(arguments: list[str]) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="netmesh send",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("address", type=mail.address, metavar="ADDRESS", help="the recipient's LXMF address")
    add("text", nargs="*", help="the content; standard input without it, or with -")
    add("--title", default="", help="its title")
    add("--attach", action="append", default=[], metavar="FILE", help="attaches a file; repeatable")
    add(
        "--method",
        choices=("auto", "opportunistic", "direct", "propagated"),
        default="auto",
        help="one packet, a link, a propagation node, or one after the other (auto)",
    )
    add("--node", type=mail.address, metavar="ADDRESS", help="the propagation node")
    add("--stamp-cost", type=_cli_node.cost, metavar="BITS", help="of its stamp; as announced")
    add(
        "--timeout",
        type=_cli_node.seconds,
        default=300.0,
        metavar="SECONDS",
        help="gives up then (300)",
    )
    add("--json", action="store_true", help="prints one JSON object")
    _cli_node.add_options(parser)
    options = parser.parse_args(arguments)
    _cli_node.check(parser, options)
    return mail.run_command(parser, lambda: _cli_node.run(send(options)))


async def send(options: argparse.Namespace) -> int:
    """Sends the message."""
    content = mail.words(options.text)
    files = [mail.attachment(path) for path in options.attach]
    async with _cli_node.opened(options) as (_, mailbox):
        if options.node is not None:
            await mailbox.set_node(options.node)
        try:
            done = await mailbox.send(
                options.address,
                content,
                title=options.title,
                fields=fields.build(attachments=files),
                method=options.method,
                stamp_cost="announced" if options.stamp_cost is None else options.stamp_cost,
                timeout=options.timeout,
            )
        except NetmeshError as error:
            if options.json:
                mail.print_json(failure(error))
            raise
        told = {
            "delivered": done.state is MessageState.DELIVERED,
            "state": done.state.name.lower(),
            "id": done.id.hex(),
            "source": bytes(mailbox.hash).hex(),
            "destination": bytes(options.address).hex(),
            "method": done.method.name.lower(),
            "representation": done.representation.name.lower(),
            "rtt_s": done.rtt_s,
        }
    if options.json:
        mail.print_json(told)
    else:
        what = "delivered" if told["delivered"] else "given to the propagation node:"
        way = f"{told['method']}, as a {told['representation']}"
        print(f"{what} {told['id']} ({way}, {done.rtt_s:.3f} s)")
    return 0


def failure(error: NetmeshError) -> dict[str, Any]:
    """What the JSON object says of a message that was not delivered."""
    stage = error.stage if isinstance(error, OperationError) else ""
    return {
        "delivered": False,
        "state": "failed",
        "reason": error.reason,
        "stage": stage,
        "error": str(error),
    }
