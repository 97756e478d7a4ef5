"""Control payloads: path requests, tunnel synthesis, requests and responses.

RNS 1, 8.9.1, 8.9.2 and 8.11; RNS 2, 2.1 and 2.3.

Example:
    >>> from netmesh.control import PathRequest, Request
    >>> PathRequest.unpack(PathRequest(bytes(16), tag=b"tag").pack()).tag
    b'tag'
    >>> Request.unpack(Request("/status", {"verbose": True}).pack()).data
    {'verbose': True}
"""

from __future__ import annotations

from netmesh._core import PathRequest, Request, Response, TunnelSynthesis

__all__ = ["PathRequest", "Request", "Response", "TunnelSynthesis"]
