"""LXMF messages: formats, propagation, paper, announce data (LXMF 2 to 12)."""

from netmesh.pure.lxmf import stamp
from netmesh.pure.lxmf._appdata import DeliveryAppData, PropagationAppData
from netmesh.pure.lxmf._message import Message, delivery_hash, representation, ticket_stamp
from netmesh.pure.lxmf._propagation import (
    Propagated,
    container_pack,
    container_unpack,
    paper_pack,
    paper_uri,
    paper_uri_unpack,
)

__all__ = [
    "DeliveryAppData",
    "Message",
    "Propagated",
    "PropagationAppData",
    "container_pack",
    "container_unpack",
    "delivery_hash",
    "paper_pack",
    "paper_uri",
    "paper_uri_unpack",
    "representation",
    "stamp",
    "ticket_stamp",
]
