"""Paper messages: a message as one URI, to be printed, shown as a QR code, or typed (LXMF 12).

A paper message is sealed for its recipient; who else reads it learns the recipient's address
and nothing more. QR codes need the library ``segno`` (``pip install netmesh[qr]``).

Example:
    >>> from netmesh import Identity, paper
    >>> from netmesh.lxmf import Message, delivery_hash
    >>> alice, bob = Identity(), Identity()
    >>> uri = paper.write(Message.create(alice, delivery_hash(bob), "On paper."), bob)
    >>> uri[:6], paper.read(uri, bob).content_text
    ('lxm://', 'On paper.')
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from netmesh._core import Identity, Message, Propagated, paper_uri, paper_uri_unpack
from netmesh.errors import EncodeError, NetmeshError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["QRCode", "qr_code", "read", "write"]


def write(message: Message, recipient: Identity, *, ratchet: Buffer | None = None) -> str:
    """The URI of a message, sealed for its recipient.

    With ``ratchet`` (32 bytes, public) it becomes unreadable once the recipient has discarded
    that ratchet; without one the identity's key opens it for ever.

    Raises:
        EncodeError: "TOO_LARGE" above 2210 bytes, which is 2015 of content; "MISMATCH" when
            the message is for someone else.
    """
    return paper_uri(Propagated.create(message, recipient, ratchet=ratchet))


def read(uri: str, recipient: Identity, *, ratchets: Sequence[Buffer] = ()) -> Message:
    """The message of a URI, opened by its recipient. Verify it before you trust it.

    Raises:
        DecodeError: It is not the URI of a paper message.
        AuthenticationError: It is for someone else, or for a ratchet that is not among the
            private ``ratchets``.
    """
    return paper_uri_unpack(uri).open(recipient, ratchets=ratchets)


@final
class QRCode:
    """A QR code, with a light border of one module; made by :func:`qr_code`."""

    __slots__ = ("_code", "rows")

    rows: tuple[tuple[bool, ...], ...]
    """Rows of modules, True where it is dark."""

    def __init__(self, code: Any) -> None:
        self._code = code
        self.rows = tuple(tuple(map(bool, row)) for row in code.matrix_iter(border=1))

    def __repr__(self) -> str:
        return f"<QRCode version {self._code.version}, {self.width} modules>"

    @property
    def width(self) -> int:
        """Modules on each side: that many columns of a terminal, and half as many lines."""
        return len(self.rows)

    def text(self, *, dark_on_light: bool = False) -> str:
        """Lines to be shown on a terminal that writes light on dark, or the other way round."""
        light = (False,) * self.width
        rows = [*self.rows, light] if self.width % 2 else list(self.rows)
        filled = [[dark == dark_on_light for dark in row] for row in rows]
        return "".join(
            "".join(" ▄▀█"[2 * upper + lower] for upper, lower in zip(*pair, strict=True)) + "\n"
            for pair in zip(filled[::2], filled[1::2], strict=True)
        )

    def png(self, *, scale: int = 4) -> bytes:
        """A PNG image with ``scale`` pixels a module, 1 to 100."""
        if not 1 <= scale <= 100:
            raise ValueError(f"scale must be 1 to 100, not {scale}")
        file = io.BytesIO()
        self._code.save(file, kind="png", scale=scale, border=1)
        return file.getvalue()

    def save(self, target: str | os.PathLike[str], *, scale: int = 4) -> None:
        """Writes the PNG image to a file. Raises OSError."""
        data = self.png(scale=scale)
        with open(target, "wb") as file:
            file.write(data)


def qr_code(uri: str) -> QRCode:
    """The QR code of a URI, as other clients make it: bytes, error correction L, border 1.

    Raises:
        NetmeshError: "LIBRARY": the library segno is not installed.
        EncodeError: "TOO_LARGE" when it does not fit a QR code.
    """
    segno = _segno()
    try:
        code = segno.make_qr(uri, error="l", mode="byte", boost_error=False)
    except segno.DataOverflowError:
        raise EncodeError(
            f"{len(uri)} characters do not fit a QR code", reason="TOO_LARGE", field="uri"
        ) from None
    return QRCode(code)


def _segno() -> Any:
    try:
        import segno
    except ImportError:
        raise NetmeshError(
            "QR codes need the library segno: pip install netmesh[qr]", reason="LIBRARY"
        ) from None
    return segno
