"""MessagePack as Reticulum and LXMF use it (RNS 2, 0.3; LXMF 1).

The encoder emits the canonical form only; the decoder accepts every valid encoding
within limits of depth and number of elements.

=========  ==========================================
wire       Python
=========  ==========================================
nil        None
bool       bool
int        int, -2**63 to 2**64-1
float      float (32-bit ones are widened)
str        str
bin        bytes
array      list; a tuple inside a map key
map        dict, order kept
ext        Ext
=========  ==========================================

Example:
    >>> from netmesh import msgpack
    >>> msgpack.unpackb(msgpack.packb({"n": [1, b"x", None]}))
    {'n': [1, b'x', None]}
"""

from __future__ import annotations

from netmesh._core import Ext, canonical, packb, unpackb

__all__ = ["Ext", "canonical", "packb", "unpackb"]
