"""LXMF: messages, their encrypted forms, and what announces say about their receivers.

A :class:`Message` is made with :meth:`Message.create` and read with :meth:`Message.unpack`.
Reading only parses: check :meth:`Message.verify` (or pass ``verify=True``) before you
trust what a message says. :class:`Propagated` is a message encrypted for a propagation
node or for paper. :mod:`netmesh.lxmf.stamp` holds the proof of work,
:mod:`netmesh.lxmf.fields` helpers for well-known fields.

Example:
    >>> from netmesh import Identity
    >>> from netmesh.lxmf import Message, delivery_hash
    >>> alice, bob = Identity(), Identity()
    >>> message = Message.create(alice, delivery_hash(bob), "hello", title="greeting")
    >>> received = Message.unpack(message.packed)
    >>> received.verify(alice), received.verify(bob)
    (True, False)
    >>> received.title_text, received.content_text, received.fields
    ('greeting', 'hello', {})
"""

from __future__ import annotations

from netmesh._core import (
    DeliveryAppData,
    Message,
    Propagated,
    PropagationAppData,
    container_pack,
    container_unpack,
    delivery_hash,
    paper_pack,
    paper_uri,
    paper_uri_unpack,
    representation,
    ticket_stamp,
)
from netmesh.lxmf import fields, stamp

__all__ = [
    "DeliveryAppData",
    "Message",
    "Propagated",
    "PropagationAppData",
    "container_pack",
    "container_unpack",
    "delivery_hash",
    "fields",
    "paper_pack",
    "paper_uri",
    "paper_uri_unpack",
    "representation",
    "stamp",
    "ticket_stamp",
]
