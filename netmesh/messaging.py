"""LXMF messages of a node: mailboxes, deliveries, and the policies that lead to them.

:meth:`netmesh.Node.lxmf` opens a :class:`Mailbox`, the ``lxmf.delivery`` destination of an
identity. It announces a display name, takes messages and sends them: :meth:`Mailbox.send` gives an
:class:`OutgoingMessage`, whose id is known at once, and which can be awaited for its
:class:`Delivery`. A :class:`Policy` says which ways are tried: packets, links, a propagation node.
Messages are kept in the node's storage if it has one.

Example:
    >>> import asyncio
    >>> from netmesh import Node
    >>> from netmesh.interfaces import Pipe
    >>> async def main() -> str:
    ...     left, right = Pipe.pair()
    ...     async with Node(interfaces=[left]) as alice, Node(interfaces=[right]) as bob:
    ...         inbox = await bob.lxmf(display_name="Bob")
    ...         outbox = await alice.lxmf(display_name="Alice")
    ...         await outbox.send(inbox.hash, "See you at the well.", timeout=20)
    ...         message = await inbox.get(timeout=20)
    ...         await message.reply("I will be there.", timeout=20)
    ...         answer = await outbox.get(timeout=20)
    ...         return f"{answer.content} {answer.verified}"
    >>> asyncio.run(main())
    'I will be there. True'
"""

from __future__ import annotations

from netmesh._mail_delivery import Delivery, DeliveryUpdate, OutgoingMessage, Updates
from netmesh._mail_desk import StampCost, Ticket
from netmesh._mail_policy import POLICIES, MethodName, Policy, Step
from netmesh._mail_received import MessageReceived
from netmesh._mail_sync import SyncResult
from netmesh._mailbox import Mailbox

__all__ = [
    "POLICIES",
    "Delivery",
    "DeliveryUpdate",
    "Mailbox",
    "MessageReceived",
    "MethodName",
    "OutgoingMessage",
    "Policy",
    "StampCost",
    "Step",
    "SyncResult",
    "Ticket",
    "Updates",
]
