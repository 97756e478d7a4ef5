"""netmesh in plain Python: the codecs and the decision functions, to be read beside the spec.

The same names as in :mod:`netmesh`, standard library only, no transport engine. It is
the baseline of the reports and the oracle of the differential tests. Its curves and its
cipher are not constant in time; the C core is what guards secrets.
"""

from netmesh._verdict import Verdict
from netmesh.pure import (
    announce,
    channel,
    control,
    crypto,
    decisions,
    destination,
    framing,
    identity,
    ifac,
    link,
    lxmf,
    msgpack,
    packet,
    resource,
)
from netmesh.pure.announce import Announce, AnnounceCache, PathResponses
from netmesh.pure.crypto import Token
from netmesh.pure.destination import Destination
from netmesh.pure.identity import Decrypted, DestinationHash, Identity, IdentityHash, Ratchets
from netmesh.pure.packet import Packet

__all__ = [
    "Announce",
    "AnnounceCache",
    "Decrypted",
    "Destination",
    "DestinationHash",
    "Identity",
    "IdentityHash",
    "Packet",
    "PathResponses",
    "Ratchets",
    "Token",
    "Verdict",
    "announce",
    "channel",
    "control",
    "crypto",
    "decisions",
    "destination",
    "framing",
    "identity",
    "ifac",
    "link",
    "lxmf",
    "msgpack",
    "packet",
    "resource",
]
