"""Announces: signed statements of a destination's key, name and app data (RNS 1, 5).

Example:
    >>> from netmesh import Identity
    >>> from netmesh.announce import Announce, AnnounceCache, Verdict
    >>> raw = Announce.create(Identity(), "example.inbox", app_data=b"Alice").raw
    >>> AnnounceCache().validate(raw) is Verdict.VALID
    True
"""

from __future__ import annotations

from netmesh._core import Announce, AnnounceCache, PathResponses
from netmesh._verdict import Verdict

__all__ = ["Announce", "AnnounceCache", "PathResponses", "Verdict"]
