"""Channel envelopes and stream messages: the payloads of RNS 2, 4.

An :class:`Envelope` is the plaintext of a link packet with context CHANNEL. Message
types below 0xF000 are an application's own; type 0xFF00 carries :class:`StreamData`.

Example:
    >>> from netmesh.channel import Envelope, StreamData, stream_chunk
    >>> Envelope(0x0101, 7, b"first").pack().hex()
    '0101000700056669727374'
    >>> message, consumed = stream_chunk(3, b"z" * 5000, 425, eof=True)
    >>> consumed, message.compressed, message.eof, message.content() == b"z" * 5000
    (5000, True, True, True)
"""

from __future__ import annotations

from netmesh._core import Envelope, StreamData, stream_chunk

__all__ = ["Envelope", "StreamData", "stream_chunk"]
