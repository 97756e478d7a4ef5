"""Announces: the signed statement of a destination's key, name, ratchet and app data (RNS 1, 5).

======================  ======  ==========================
field                   length  remark
======================  ======  ==========================
public key              64
name hash               10
random hash             10      5 random | 5 bytes of time
ratchet public key      32      if the context flag is set
signature               64
app data                rest
======================  ======  ==========================

Signed is the destination hash followed by all of this but the signature (RNS 1, 5.3).
"""

from netmesh._verdict import Verdict
from netmesh.pure._announce import Announce
from netmesh.pure._announce_cache import AnnounceCache, PathResponses

__all__ = ["Announce", "AnnounceCache", "PathResponses", "Verdict"]
