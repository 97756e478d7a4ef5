"""The store of messages: one SQLite file with the messages of all mailboxes.

A node with storage keeps its mailboxes' messages in ``mail.db`` there. :class:`MailStore` reads
and edits such a file, beside a running node or without one: messages, words, conversations,
attachments, quotas. What a method that writes has returned from is on disk. Its methods block
without holding Python's lock; in asyncio call them through :func:`asyncio.to_thread`.

Example:
    >>> import tempfile
    >>> from netmesh import Identity
    >>> from netmesh.lxmf import Message, delivery_hash
    >>> from netmesh.mailarchive import Entry
    >>> message = Message.create(Identity(), delivery_hash(Identity()), "the quick brown fox")
    >>> with tempfile.TemporaryDirectory() as folder, MailStore(f"{folder}/mail.db") as store:
    ...     store.load([Entry(message=message, verified=True)])
    ...     [hit] = store.search("quick fox")
    ...     hit.snippet, hit.message.verified
    Loaded(added=1, duplicates=0, refused=0)
    ('the [quick] brown [fox]', True)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, Final, Literal, Self, final

from netmesh._core import DestinationHash, MailStoreCore, Message, mail_set_aside
from netmesh.constants import AudioMode, Field, MessageState, Method, Representation, Unverified
from netmesh.errors import DecodeError, NotFoundError, StateError
from netmesh.mailarchive import Entry
from netmesh.records import Stage

__all__ = [
    "Attachment",
    "Conversation",
    "Loaded",
    "MailStore",
    "MailboxFigures",
    "SearchHit",
    "StoreFigures",
    "StoredMessage",
    "set_aside",
]

Direction = Literal["both", "incoming", "outgoing"]

RECEIVED: Final = 0
ACK: Final = 4
UNACK: Final = 5
DELETE: Final = 6
IGNORE: Final = 10
QUOTA: Final = 11
SENT: Final = 12
DIRECTIONS: Final = {"both": 0, "incoming": 1, "outgoing": 2}
PIECE: Final = 200
PIECE_BODIES: Final = 16
BATCH: Final = 500

ENDED: Final = (
    MessageState.SENT,
    MessageState.DELIVERED,
    MessageState.REJECTED,
    MessageState.CANCELLED,
    MessageState.FAILED,
)

# One write for the core: kind, members, details, packed message.
_Write = tuple[int, dict[str, Any], dict[str, Any], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """One message as it is stored."""

    row: int
    """Its number in the store; later messages have larger ones, and none is used twice."""
    mailbox: DestinationHash
    """Whose it is."""
    peer: DestinationHash
    """Who sent it, or whom it goes to."""
    id: bytes
    """The message id, 32 bytes."""
    incoming: bool
    """Whether it came; else it was sent from here."""
    unread: bool
    """It came, and no reader has acknowledged it."""
    unfinished: bool
    """It is on its way out."""
    stored_unix_s: float
    """When it came or was sent on its way."""
    timestamp: float
    """The sender's clock, Unix seconds."""
    size_bytes: int
    """Of the packed message."""
    method: Method
    """How it came or goes."""
    representation: Representation
    """What carried it."""
    unverified: Unverified
    """Of one that came: whether its signature is its source's, or why that is not known."""
    stamp_valid: bool | None
    """Of one that came: ``None`` when the mailbox asked for no stamps."""
    stamp_value: int
    """What its stamp is worth, in bits."""
    transient_id: bytes | None
    """Of one that came by a propagation node or on paper."""
    rssi_dbm: int | None
    """Signal strength, where the interface gave one."""
    snr_db: float | None
    """Signal to noise, likewise."""
    quality_pct: int | None
    """Link quality, likewise."""
    state: MessageState | None
    """Of one that was sent."""
    stage: Stage | None
    """Where sending failed."""
    attempts: int
    """How often it was tried the way it went last."""
    rtt_s: float | None
    """How long its proof took, if that was measured."""
    message: Message | None
    """The message itself; ``None`` when bodies were not asked for."""

    @property
    def verified(self) -> bool:
        """Whether the signature was found to be the source's; of our own always."""
        return not self.incoming or self.unverified is Unverified.VERIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A message in which words were found."""

    message: StoredMessage
    """Where; without its body."""
    title: str
    """The title, with marks around what was found."""
    snippet: str
    """A part of the content, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """All messages between a mailbox and a peer."""

    mailbox: DestinationHash
    """Whose."""
    peer: DestinationHash
    """With whom."""
    messages: int
    """How many there are."""
    unread: int
    """How many of them came and were not acknowledged."""
    last_row: int
    """The newest one."""
    last_unix_s: float
    """When that came or was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file, image or piece of audio in a message, without its bytes."""

    row: int
    """The message."""
    index: int
    """Which one in the message."""
    field: Field
    """FILE_ATTACHMENTS, IMAGE or AUDIO."""
    name: str
    """Of a file as its sender wrote it (see :func:`netmesh.lxmf.fields.safe_name` before it names a
    file here), or the format of an image; at most 255 bytes of it."""
    audio_mode: AudioMode | int | None
    """The codec of audio."""
    size_bytes: int
    """How large it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxFigures:
    """What a mailbox has, and what it may have."""

    mailbox: DestinationHash
    """Which one."""
    messages: int
    """Messages in both directions."""
    bytes: int
    """Of their bodies, as they are stored."""
    unread: int
    """Not acknowledged."""
    unfinished: int
    """On their way out."""
    quota_messages: int
    """Most messages; 0: no limit."""
    quota_bytes: int
    """Most bytes; 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """Counts and sizes of a store."""

    messages: int
    """Of all mailboxes, in both directions."""
    unread: int
    """Not acknowledged."""
    unfinished: int
    """On their way out."""
    bytes: int
    """Of bodies, as they are stored."""
    file_bytes: int
    """Of the file, without its log."""
    free_bytes: int
    """Of it, to be used again."""
    evicted: int
    """Messages that quotas pushed out, ever."""
    layout: int
    """Version of the tables."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of messages that were to be stored."""

    added: int
    """Stored."""
    duplicates: int
    """There already, or deleted earlier."""
    refused: int
    """Without room under a quota."""


@final
class MailStore:
    """A connection to the store at ``path``, made if missing.

    May be used from any thread; calls of one object wait for each other. Several may be open on one
    file, also in other processes; a writer waits for another up to ``wait_s``. Do not open the same
    file with another copy of SQLite in one process (:mod:`sqlite3` may be one): closing it there
    drops the locks that protect it here.

    Raises:
        NotFoundError: There is no such file, with ``create=False`` or ``read_only=True``.
        StoreError: It cannot be used: its ``reason`` and ``damaged`` say why.
    """

    __slots__ = ("__weakref__", "_core", "_path")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        wait_s: float = 5.0,
        cache_bytes: int = 8 << 20,
    ) -> None:
        options = {
            "read_only": read_only,
            "must_exist": not create,
            "busy_ms": max(1, int(wait_s * 1000)),
            "cache_kb": max(1, cache_bytes >> 10),
        }
        self._path = os.fspath(path)
        self._core = MailStoreCore(path, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MailStore {self._path!r}{' closed' if self.closed else ''}>"

    def __iter__(self) -> Iterator[StoredMessage]:
        """All messages, oldest first."""
        return self.messages()

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._core.closed

    def close(self) -> None:
        """Closes the connection; quiet when repeated."""
        self._core.close()

    # ------------------------------------------------------------------ reading

    def messages(
        self,
        *,
        mailbox: bytes | None = None,
        peer: bytes | None = None,
        direction: Direction = "both",
        unread: bool = False,
        unfinished: bool = False,
        since_unix_s: float | None = None,
        until_unix_s: float | None = None,
        newest_first: bool = False,
        cursor: int = 0,
        bodies: bool = True,
        limit: int | None = None,
    ) -> Iterator[StoredMessage]:
        """The messages that all filters let through, in the order in which they were stored.

        ``unread`` are those that came and were not acknowledged, ``unfinished`` those on their way
        out. ``cursor`` is the row behind which to go on (before which, with ``newest_first``).
        Messages that come while this runs may be among them; it holds nothing open.
        """
        if unread and unfinished:
            return iter(())
        ways = {(True, False): "incoming", (False, True): "outgoing"}
        only: str = ways.get((unread, unfinished), direction)
        if direction not in (only, "both"):
            return iter(())
        query = _query(mailbox, peer, only, since_unix_s, until_unix_s, newest_first)
        query.update(open=unread or unfinished, bodies=bodies)
        return islice(self._rows(query, cursor, limit), limit)

    def _rows(
        self, query: dict[str, Any], cursor: int, limit: int | None
    ) -> Iterator[StoredMessage]:
        piece = PIECE_BODIES if query["bodies"] else PIECE
        if limit is not None:
            piece = max(1, min(piece, limit))
        while True:
            query["cursor"] = cursor
            rows = self._core.rows(query, piece)
            for row in rows:
                yield _stored(row)
            if len(rows) < piece:
                return
            cursor = rows[-1]["row"]

    def get(self, key: int | bytes, *, mailbox: bytes | None = None) -> StoredMessage:
        """The message of a row, or with an id: of ``mailbox``, else the first one that has it.

        Raises:
            NotFoundError: There is none.
        """
        if isinstance(key, int):
            return _stored(self._core.get(key, True))
        return _stored(self._core.find(mailbox, key, True))

    def search(
        self,
        text: str,
        *,
        mailbox: bytes | None = None,
        before: int = 0,
        marks: tuple[str, str] = ("[", "]"),
        words: int = 16,
        limit: int = 50,
    ) -> list[SearchHit]:
        """Messages with all words of ``text`` in title or content, newest first.

        ``"a phrase"`` in double quotes stands together, ``begin*`` is any word that begins so (two
        letters at least); case and accents do not matter, and nothing else has a meaning.
        ``words`` (1 to 64) is how long a snippet is. Go on with the last hit's row as ``before``.

        Raises:
            EncodeError: ``text`` has no word or more than 1024 bytes ("EMPTY", "TOO_LARGE", ...).
        """
        hits = self._core.search(mailbox, text, before, marks[0], marks[1], words, limit)
        return [
            SearchHit(
                message=_stored(row),
                title=title.decode(errors="replace"),
                snippet=snippet.decode(errors="replace"),
            )
            for row, title, snippet in hits
        ]

    def conversations(self, *, mailbox: bytes | None = None) -> Iterator[Conversation]:
        """The conversations, those with the newest messages first."""
        before = 0
        while True:
            talks = self._core.talks(mailbox, before, PIECE)
            for talk in talks:
                yield Conversation(
                    mailbox=talk["mailbox"],
                    peer=talk["peer"],
                    messages=talk["count"],
                    unread=talk["unread"],
                    last_row=talk["last_row"],
                    last_unix_s=talk["last_us"] / 1e6,
                )
            if len(talks) < PIECE:
                return
            before = talks[-1]["last_row"]

    def attachments(
        self,
        *,
        mailbox: bytes | None = None,
        peer: bytes | None = None,
        row: int | None = None,
        direction: Direction = "both",
        newest_first: bool = False,
    ) -> Iterator[Attachment]:
        """The attachments of messages, or of the one in ``row``, without their bytes."""
        query = _query(mailbox, peer, direction, None, None, newest_first)
        after = -1
        if row is not None:
            query.update(cursor=row - 1, newest_first=False)
        while True:
            found = self._core.attachments(query, after, PIECE)
            for each in map(_attachment, found):
                if row is not None and each.row != row:
                    return
                yield each
            if len(found) < PIECE:
                return
            query["cursor"], after = found[-1][0], found[-1][1]

    def read_attachment(self, attachment: Attachment) -> bytes:
        """The bytes of an attachment. Of a message that does not compress only these are read.

        Raises:
            NotFoundError: Its message is gone.
        """
        return self._core.attachment(attachment.row, attachment.index)

    def entries(
        self,
        *,
        mailbox: bytes | None = None,
        peer: bytes | None = None,
        direction: Direction = "both",
    ) -> Iterator[Entry]:
        """Messages as :mod:`netmesh.mailarchive` writes them."""
        for stored in self.messages(mailbox=mailbox, peer=peer, direction=direction):
            assert stored.message is not None  # bodies were asked for
            yield Entry(
                message=stored.message,
                incoming=stored.incoming,
                time_unix_s=stored.stored_unix_s,
                verified=stored.verified,
                method=stored.method,
                state=stored.state,
            )

    # ------------------------------------------------------------------ writing

    def _apply(self, writes: list[_Write]) -> list[tuple[str | None, int]]:
        return self._core.apply(writes)

    def load(self, entries: Iterable[Entry], *, acknowledged: bool = True) -> Loaded:
        """Stores messages from elsewhere: an archive, another store.

        They are stored as read unless ``acknowledged`` is false. A sent one that had not ended is
        stored as failed: it does not go on its way again.

        Raises:
            DecodeError: One of them cannot be stored; the others of its batch of 500, and those
            before, are.
        """
        added = duplicates = refused = 0
        rest = iter(entries)
        while batch := list(islice(rest, BATCH)):
            for reason, _ in self._apply([_new(entry, acknowledged) for entry in batch]):
                added += reason is None
                duplicates += reason == "DUPLICATE_KEY"
                refused += reason == "LIMIT"
                if reason not in (None, "DUPLICATE_KEY", "LIMIT"):
                    raise DecodeError(
                        f"mail store: a message cannot be stored: {reason}",
                        reason=reason,
                        codec="message",
                    )
        return Loaded(added, duplicates, refused)

    def acknowledge(self, *rows: int, read: bool = True) -> None:
        """Marks messages that came as read, or with ``read=False`` as unread again.

        Raises:
            NotFoundError: One of them is not there; the others are marked.
        """
        kind = ACK if read else UNACK
        self._edit(kind, rows)

    def delete(self, *rows: int) -> None:
        """Deletes messages. Their ids stay known: they are not received a second time.

        Raises:
            NotFoundError: One of them is not there; the others are deleted.
            StateError: One of them is on its way out; cancel it first. The others are deleted.
        """
        self._edit(DELETE, rows)

    def _edit(self, kind: int, rows: Iterable[int]) -> None:
        numbers = list(rows)
        answers = self._apply([(kind, {"row": row}, {}, None) for row in numbers])
        for row, (reason, _) in zip(numbers, answers, strict=True):
            if reason == "MISSING":
                raise NotFoundError(f"mail store: there is no message {row}")
            if reason is not None:
                raise StateError(f"mail store: message {row} is on its way out", reason=reason)

    def set_quota(self, mailbox: bytes, *, messages: int = 0, size_bytes: int = 0) -> None:
        """Limits what a mailbox keeps; 0 is no limit.

        From then on the oldest messages that were read, or were sent and have ended, make way for
        new ones. When there are none, new ones are not taken and not proven.
        """
        details = {"rows": messages, "bytes": size_bytes}
        self._apply([(QUOTA, {"mailbox": mailbox}, details, None)])

    def ignore(self, source: bytes, *, on: bool = True) -> None:
        """Has the messages of a source dropped, or not any more.

        A node reads the list when it opens its first mailbox.
        """
        self._apply([(IGNORE, {"peer": source, "on": on}, {}, None)])

    # ---------------------------------------------------------------- overviews

    def ignored(self) -> list[DestinationHash]:
        """The sources whose messages are dropped."""
        found: list[DestinationHash] = []
        cursor = 0
        while True:
            piece, cursor = self._core.ignored(cursor)
            found += piece
            if cursor == 0:
                return found

    def mailboxes(self) -> list[MailboxFigures]:
        """Every mailbox that has or had messages or a quota."""
        found: list[MailboxFigures] = []
        cursor = 0
        while True:
            piece, cursor = self._core.boxes(cursor)
            for box in piece:
                box["messages"] = box.pop("rows")
                box["quota_messages"] = box.pop("quota_rows")
                found.append(MailboxFigures(**box))
            if cursor == 0:
                return found

    def statistics(self) -> StoreFigures:
        """Counts and sizes; nothing is counted for it."""
        return StoreFigures(**self._core.figures())

    def check(self) -> list[str]:
        """Reads everything and compares all counts; what is wrong, a sentence each.

        Minutes for large files. Does not repair anything.
        """
        return self._core.check().splitlines()


def set_aside(path: str | os.PathLike[str]) -> str:
    """Renames a damaged store that nobody has open to ``NAME.damaged-1`` (or 2, ...).

    Then a new one can be made in its place. Returns its new name.

    Raises:
        NotFoundError: There is no such file.
        StoreError: It cannot be renamed.
    """
    return mail_set_aside(path)


def _query(
    mailbox: bytes | None,
    peer: bytes | None,
    direction: str,
    since_unix_s: float | None,
    until_unix_s: float | None,
    newest_first: bool,
) -> dict[str, Any]:
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be 'both', 'incoming' or 'outgoing', not {direction!r}")
    query: dict[str, Any] = {"direction": DIRECTIONS[direction], "newest_first": newest_first}
    if mailbox is not None:
        query["mailbox"] = mailbox
    if peer is not None:
        query["peer"] = peer
    if since_unix_s is not None:
        query["since_us"] = int(since_unix_s * 1e6)
    if until_unix_s is not None:
        query["until_us"] = int(until_unix_s * 1e6)
    return query


def _stored(row: dict[str, Any]) -> StoredMessage:
    incoming = not row["outgoing"]
    packed = row["packed"]
    snr = row["snr_cdb"]
    return StoredMessage(
        row=row["row"],
        mailbox=row["mailbox"],
        peer=row["peer"],
        id=row["id"],
        incoming=incoming,
        unread=incoming and row["open"],
        unfinished=not incoming and row["open"],
        stored_unix_s=row["stored_us"] / 1e6,
        timestamp=row["timestamp"],
        size_bytes=row["size"],
        method=Method(row["method"]),
        representation=Representation(row["representation"]),
        unverified=Unverified(row["unverified"]),
        stamp_valid=row["stamp_valid"] if row["stamp_checked"] else None,
        stamp_value=row["stamp_value"],
        transient_id=row["transient_id"] if row["has_transient_id"] else None,
        rssi_dbm=row["rssi_dbm"] if incoming else None,
        snr_db=snr / 100 if incoming and snr is not None else None,
        quality_pct=row["quality_pct"] if incoming else None,
        state=None if incoming else MessageState(row["state"]),
        stage=None if incoming or row["stage"] == Stage.NONE else Stage(row["stage"]),
        attempts=row["attempts"],
        rtt_s=row["rtt_us"] / 1e6 if row["rtt_us"] else None,
        message=None if packed is None else Message.unpack(packed),
    )


def _attachment(found: tuple[int, int, int, str, int, int]) -> Attachment:
    row, index, field, name, mode, size = found
    codec: AudioMode | int | None = None
    if field == Field.AUDIO:
        codec = next((known for known in AudioMode if known == mode), mode)
    return Attachment(
        row=row, index=index, field=Field(field), name=name, audio_mode=codec, size_bytes=size
    )


def _new(entry: Entry, acknowledged: bool) -> _Write:
    """The write that stores a message from elsewhere."""
    message = entry.message
    moment = time.time() if entry.time_unix_s is None else entry.time_unix_s
    own = message.destination_hash if entry.incoming else message.source_hash
    members = {"mailbox": own, "id": message.id, "at_us": int(moment * 1e6), "on": acknowledged}
    details = {"method": int(entry.method or 0)}
    if entry.incoming:
        unverified = Unverified.VERIFIED if entry.verified else Unverified.SOURCE_UNKNOWN
        return RECEIVED, members, {**details, "unverified": int(unverified)}, message.packed
    state = next((state for state in ENDED if state == entry.state), MessageState.FAILED)
    return SENT, members, {**details, "state": int(state)}, message.packed
