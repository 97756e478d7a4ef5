"""Interface access codes: packets of one interface, authenticated and masked (RNS 1, 6).

Example:
    >>> from netmesh.ifac import Ifac
    >>> ours = Ifac(passphrase="open sesame", size=8)
    >>> masked = ours.mask(bytes(20))
    >>> ours.unmask(masked) == bytes(20)
    True
    >>> Ifac(passphrase="abracadabra", size=8).try_unmask(masked)
    ('AUTH', None)
"""

from __future__ import annotations

from netmesh._core import Ifac

__all__ = ["Ifac"]
