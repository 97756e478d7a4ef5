"""What a mailbox tells of a message that came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

from netmesh._core import DestinationHash, Identity, Message, RawMail
from netmesh.constants import Method, Representation, Unverified
from netmesh.errors import StateError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from netmesh._mail_delivery import OutgoingMessage
    from netmesh._mail_desk import StampCost
    from netmesh._mail_policy import MethodName, Policy
    from netmesh._mailbox import Mailbox
    from netmesh.mailstore import StoredMessage

__all__ = ["MessageReceived"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A message that came in, once for each message."""

    time_s: float
    """When it arrived, on the monotonic clock; 0 when that was in an earlier run."""
    time_unix_s: float
    """When it arrived, on the Unix clock."""
    message: Message
    """The whole message."""
    mailbox: DestinationHash
    """The mailbox that it came to."""
    identity: Identity | None
    """Who sent it; None when that is not known."""
    verified: bool
    """Whether its signature is by that identity: act on nothing that is not."""
    unverified: Unverified
    """Why it is not verified."""
    method: Method
    """OPPORTUNISTIC (a packet), DIRECT (over a link), PROPAGATED (from a node) or PAPER."""
    packet_hash: bytes
    """32 bytes: the hash of the packet or resource that it came in; zeros for one that was fetched
    from a node, came on paper, or is read from the store."""
    stamp_valid: bool | None
    """Whether its stamp is worth the mailbox's cost; None when no stamp was asked for."""
    representation: Representation = Representation.UNKNOWN
    """Whether it came as a packet or as a resource."""
    stamp_value: int | None = None
    """What its stamp is worth in bits, 256 for one made with a ticket; None when no stamp was
    asked for."""
    transient_id: bytes | None = None
    """32 bytes: what names its encrypted form; None unless PROPAGATED or PAPER."""
    interface: int | None = None
    """The interface that it came by; None when that is not known."""
    rssi_dbm: int | None = None
    """The strength of the signal of a packet outside links, where the interface tells it."""
    snr_db: float | None = None
    """Its distance from the noise."""
    quality_pct: int | None = None
    """Its quality from 0 to 100."""
    row: int | None = None
    """Its row in the store; None without a store."""
    _box: Mailbox | None = field(default=None, repr=False, compare=False)

    @property
    def id(self) -> bytes:
        """32 bytes: what names the message everywhere."""
        return self.message.id

    @property
    def source(self) -> DestinationHash:
        """The address of the sender, to answer to."""
        return self.message.source_hash

    @property
    def title(self) -> str:
        """The title; bytes that are not UTF-8 are replaced."""
        return self.message.title_text

    @property
    def content(self) -> str:
        """The content; bytes that are not UTF-8 are replaced."""
        return self.message.content_text

    @property
    def fields(self) -> dict[Any, Any]:
        """The fields, as a fresh dict."""
        return self.message.fields

    @property
    def timestamp(self) -> float:
        """When the sender says that it was written, Unix seconds."""
        return self.message.timestamp

    def _by(self, identity: Identity) -> MessageReceived:
        """The same, once it is known who its sender is."""
        verified = self.message.verify(identity)
        return replace(
            self,
            identity=identity,
            verified=verified,
            unverified=Unverified.VERIFIED if verified else Unverified.SIGNATURE_INVALID,
        )

    def reply(
        self,
        content: str | Buffer = b"",
        *,
        title: str | Buffer | None = None,
        fields: Mapping[Any, Any] | None = None,
        reference: bool = True,
        timeout: float | None = None,
        stamp_cost: StampCost = "announced",
        method: MethodName | Method | Policy = "auto",
    ) -> OutgoingMessage:
        """Answers to its sender from the mailbox that it came to; await it for the delivery.

        ``title`` None takes the message's own. With ``reference`` the field REPLY_TO names the
        message, unless ``fields`` has one. The answer takes the link that the message came over, if
        it is open and its sender said on it who it is. All else as :meth:`Mailbox.send`. Raises
        StateError when the mailbox is closed.
        """
        if self._box is None:
            raise StateError("the message belongs to no open mailbox")
        return self._box.reply(
            self,
            content,
            title=title,
            fields=fields,
            reference=reference,
            timeout=timeout,
            stamp_cost=stamp_cost,
            method=method,
        )

    async def ack(self) -> None:
        """The program is done with it: it is not told again after a restart.

        Asking for the next message does the same. Quiet when repeated, and without a store.
        """
        if self._box is not None:
            await self._box.ack(self)


def received_of(
    raw: RawMail, box: Mailbox, identity: Identity | None, unverified: Unverified
) -> MessageReceived:
    """What the core told."""
    assert raw.message is not None
    checked = raw.stamp_checked
    return MessageReceived(
        time_s=raw.mono_us / 1e6,
        time_unix_s=raw.unix_us / 1e6,
        message=raw.message,
        mailbox=raw.mailbox,
        identity=identity,
        verified=unverified == Unverified.VERIFIED,
        unverified=unverified,
        method=Method(raw.method),
        packet_hash=raw.packet_hash,
        stamp_valid=raw.stamp_valid if checked else None,
        representation=Representation(raw.representation),
        stamp_value=raw.stamp_value if checked else None,
        transient_id=raw.transient_id,
        interface=raw.iface or None,
        rssi_dbm=raw.rssi_dbm,
        snr_db=None if raw.snr_cdb is None else raw.snr_cdb / 100,
        quality_pct=raw.quality_pct,
        row=raw.row or None,
        _box=box,
    )


def stored_of(stored: StoredMessage, box: Mailbox, identity: Identity | None) -> MessageReceived:
    """What is in the store."""
    assert stored.message is not None
    asked = stored.stamp_valid is not None
    return MessageReceived(
        time_s=0.0,
        time_unix_s=stored.stored_unix_s,
        message=stored.message,
        mailbox=stored.mailbox,
        identity=identity,
        verified=stored.verified,
        unverified=stored.unverified,
        method=stored.method,
        packet_hash=bytes(32),
        stamp_valid=stored.stamp_valid,
        representation=stored.representation,
        stamp_value=stored.stamp_value if asked else None,
        transient_id=stored.transient_id,
        rssi_dbm=stored.rssi_dbm,
        snr_db=stored.snr_db,
        quality_pct=stored.quality_pct,
        row=stored.row,
        _box=box,
    )
