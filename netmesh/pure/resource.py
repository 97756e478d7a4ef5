"""Resources: byte strings of any size over a link (RNS 2, 3).

A sender prepares each segment (:class:`Segmenter`), advertises it, and serves part
requests; a receiver collects the parts (:class:`Assembler`), opens and checks them, and
proves that it has them.
"""

from typing import final

from netmesh._resource_machine import Outgoing, ReceiverMachine, ResourceQueue, SenderMachine
from netmesh.pure._advertisement import Advertisement, advertisement_flags
from netmesh.pure._assembler import Assembled, Assembler
from netmesh.pure._segmenter import Segmenter
from netmesh.pure._transfer import (
    HashmapUpdate,
    PartRequest,
    cut,
    join,
    map_hash,
    metadata_pack,
    metadata_unpack,
    resource_proof_pack,
    resource_proof_unpack,
    segment_plan,
)
from netmesh.pure.decisions import WindowProfile

__all__ = [
    "Advertisement",
    "Assembled",
    "Assembler",
    "HashmapUpdate",
    "Outgoing",
    "PartRequest",
    "ReceiverMachine",
    "ResourceQueue",
    "ResourceReceiver",
    "ResourceSender",
    "Segmenter",
    "SenderMachine",
    "advertisement_flags",
    "cut",
    "join",
    "map_hash",
    "metadata_pack",
    "metadata_unpack",
    "resource_proof_pack",
    "resource_proof_unpack",
    "segment_plan",
]


@final
class ResourceSender(SenderMachine):
    """A resource on its way out, without a link; see netmesh.resource.SenderMachine.

    Its segments are prepared by the :class:`Segmenter` of this reference.
    """

    _segmenter = Segmenter
    _pack_metadata = staticmethod(metadata_pack)
    _plan = staticmethod(segment_plan)


@final
class ResourceReceiver(ReceiverMachine):
    """A resource on its way in, without a link; see netmesh.resource.ReceiverMachine.

    Its segments are put together by the :class:`Assembler` of this reference.
    """

    _assembler = Assembler
    _advertisement = Advertisement
    _profile = WindowProfile
