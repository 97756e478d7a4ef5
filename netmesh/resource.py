"""Resources: byte strings of any size, cut into parts and put together again.

A sender prepares each segment of at most 1048575 bytes with a :class:`Segmenter`, sends its
``advertisement`` and serves part requests from it. A receiver feeds parts to an
:class:`Assembler`, which says what to request next and finally decrypts, inflates and
checks the segment. Neither does any I/O, so both run in tests, simulators and over
transports of your own. The formats are those of RNS 2, 3.

Example:
    >>> from netmesh.resource import Assembler, Segmenter
    >>> key = bytes(64)  # a link's session key
    >>> sender = Segmenter(b"a file " * 1000, key, compression="when_smaller")
    >>> receiver = Assembler(sender.advertisement)
    >>> while (request := receiver.next_request(4)) is not None:
    ...     indices, hashmap_segment = sender.serve(request)
    ...     for index in indices:
    ...         _ = receiver.add(sender.part(index))
    >>> result = receiver.finish(key)
    >>> result.plaintext == b"a file " * 1000
    True
    >>> sender.check_proof(result.proof)
    True
"""

from __future__ import annotations

from typing import final

from netmesh._core import (
    Advertisement,
    Assembled,
    Assembler,
    HashmapUpdate,
    PartRequest,
    Segmenter,
    advertisement_flags,
    cut,
    join,
    map_hash,
    metadata_pack,
    metadata_unpack,
    resource_proof_pack,
    resource_proof_unpack,
    segment_plan,
)
from netmesh._resource_machine import Outgoing, ReceiverMachine, ResourceQueue, SenderMachine
from netmesh.decisions import WindowProfile

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

    Its segments are prepared by the :class:`Segmenter` of the core.
    """

    _segmenter = Segmenter
    _pack_metadata = staticmethod(metadata_pack)
    _plan = staticmethod(segment_plan)


@final
class ResourceReceiver(ReceiverMachine):
    """A resource on its way in, without a link; see netmesh.resource.ReceiverMachine.

    Its segments are put together by the :class:`Assembler` of the core.
    """

    _assembler = Assembler
    _advertisement = Advertisement
    _profile = WindowProfile
