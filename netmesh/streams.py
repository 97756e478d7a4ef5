"""What a program reads from a node: queues and streams.

All are read with ``async for``, or one by one with ``get(timeout=)``. An :class:`Inbox` belongs
to a destination, a link or a mailbox and makes its peers wait when nobody reads it. A
:class:`Stream` belongs to one subscriber and is closed by it.
"""

from __future__ import annotations

from netmesh._inbox import Inbox, Source
from netmesh._streams import Stream, Subscription, TappedFrame

__all__ = ["Inbox", "Source", "Stream", "Subscription", "TappedFrame"]
