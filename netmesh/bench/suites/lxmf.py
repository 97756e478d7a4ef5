"""Mailboxes: messages between two, many at once, and the store with a million of them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from netmesh.bench.kit import fixtures
from netmesh.bench.kit.harness import Offer, Operation, Runner, require, same
from netmesh.bench.model import Api, Kind, Pair, Row, Suite

STORE_ROWS = "mail.store."
"""Rows of the file with a million messages; the others are between two processes."""
MESSAGES = 1_000_000
"""How many the file holds; tests set it lower."""
BATCH = 500
RARE_EVERY = 997
"""One message in so many has the word of a rare row."""
WORDS = 5000
HITS = 20
WORDS_EACH = 20
MAILBOX = fixtures.stream("mail.mailbox", 0, 16)
PEERS = 1000
FILE = "million.db"


def _text(number: int) -> str:
    """The content of one message: common words more often than others, one in all, one rare."""
    state = number * 0x9E3779B97F4A7C15 + 1
    words = []
    for _ in range(WORDS_EACH):
        state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        uniform = (state >> 40) / (1 << 24)
        words.append(f"word{int(WORDS * uniform * uniform * uniform)}")
    words.append("every" if number % 2 else "other")
    if number % RARE_EVERY < fixtures.COUNT:
        words.append(f"rare{number % RARE_EVERY}")
    return " ".join(words)


def _packed(number: int, content: str) -> bytes:
    """A message with a signature that nobody checks: a store does not."""
    peer = fixtures.stream("mail.peer", number % PEERS, 16)
    text = content.encode()
    payload = b"\x94\xcb" + struct.pack(">d", 1.7e9 + number) + b"\xc4\x05title\xc5"
    payload += struct.pack(">H", len(text)) + text + b"\x80"
    return (
        MAILBOX
        + peer
        + bytes(64)
        + payload
        + b"\xc5"
        + struct.pack(">H", len(text))
        + text
        + b"\x80"
    )


def _entries(numbers: Iterable[int]) -> Iterator[Any]:
    from netmesh.lxmf import Message
    from netmesh.mailarchive import Entry

    for number in numbers:
        message = Message.unpack(_packed(number, _text(number)))
        yield Entry(message=message, verified=True, time_unix_s=1.7e9 + number)


def make_file(folder: Path) -> None:
    """Fills the file that the rows open; a minute or two."""
    from netmesh.mailstore import MailStore

    with MailStore(folder / FILE) as store:
        store.load(_entries(range(MESSAGES)))


def _newest(word: int, count: int) -> int:
    """The row of the last message with a rare word."""
    return max(n for n in range(word, count, RARE_EVERY)) + 1


def count_evidence(_kind: Kind, _index: int) -> bytes:
    """How many messages there are."""
    return MESSAGES.to_bytes(8, "little")


def rare_evidence(_kind: Kind, index: int) -> bytes:
    """The newest message with the word."""
    return _newest(index, MESSAGES).to_bytes(8, "little")


def common_evidence(_kind: Kind, index: int) -> bytes:
    """The newest message with the word."""
    newest = MESSAGES - 1 if index % 2 == (MESSAGES - 1) % 2 else MESSAGES - 2
    return (newest + 1).to_bytes(8, "little")


def _index_evidence(_kind: Kind, index: int) -> bytes:
    return index.to_bytes(8, "little")


def open_offer(api: Api) -> Offer:
    """Open, one query, close."""

    def prepare() -> Runner:
        path = Path(api.folder) / FILE
        store = api.mailstore.MailStore

        def loop(items: Iterable[Any]) -> Any:
            found = None
            for _ in items:
                with store(path, create=False) as opened:
                    found = opened.statistics()
            return found

        return Operation([0], loop, lambda _i, got: got.messages.to_bytes(8, "little"))

    return Offer("MailStore(path), statistics(), close()", prepare)


def find_offer(api: Api, words: list[str], every: int) -> Offer:
    """Twenty hits with snippets."""

    def prepare() -> Runner:
        store = api.mailstore.MailStore(Path(api.folder) / FILE, create=False)

        def loop(items: Iterable[Any]) -> Any:
            hits = None
            for word in items:
                hits = store.search(word, mailbox=MAILBOX, limit=HITS)
            return hits

        def check(index: int, hits: Any) -> bytes:
            same("hits", len(hits), min(HITS, -(-(MESSAGES - index) // every)))
            require(hits and f"[{words[index]}]" in hits[0].snippet, "the word in the snippet")
            newest: int = hits[0].message.row
            return newest.to_bytes(8, "little")

        return Operation(words, loop, check)

    return Offer("store.search(word, mailbox=..., limit=20)", prepare)


def peer_evidence(_kind: Kind, index: int) -> bytes:
    """The newest message of the peer."""
    return (max(n for n in range(index, MESSAGES, PEERS)) + 1).to_bytes(8, "little")


def list_offer(api: Api) -> Offer:
    """The end of a conversation, as a program shows it."""

    def prepare() -> Runner:
        store = api.mailstore.MailStore(Path(api.folder) / FILE, create=False)

        def loop(items: Iterable[Any]) -> Any:
            found: list[Any] = []
            for peer in items:
                found = list(store.messages(peer=peer, newest_first=True, limit=HITS))
            return found

        def check(index: int, found: Any) -> bytes:
            same("messages", len(found), min(HITS, -(-(MESSAGES - index) // PEERS)))
            require(all(each.peer == peers[index] for each in found), "messages of the peer")
            newest: int = found[0].row
            return newest.to_bytes(8, "little")

        peers = [fixtures.stream("mail.peer", number, 16) for number in range(fixtures.COUNT)]
        return Operation(peers, loop, check)

    return Offer("list(store.messages(peer=..., newest_first=True, limit=20))", prepare)


def insert_offer(api: Api, batch: int) -> Offer:
    """A transaction of so many messages; its return means that they are on the disk."""

    def prepare() -> Runner:
        names = itertools.count()
        path = next(
            free
            for free in (Path(api.folder) / f"insert-{batch}-{name}.db" for name in names)
            if not free.exists()
        )
        store = api.mailstore.MailStore(path)
        numbers = itertools.count()

        def loop(items: Iterable[Any]) -> Any:
            loaded = None
            for _ in items:
                loaded = store.load(_entries(itertools.islice(numbers, batch)))
            return loaded

        def check(index: int, loaded: Any) -> bytes:
            same("messages", loaded.added, batch)
            return index.to_bytes(8, "little")

        return Operation(list(range(4)), loop, check)

    return Offer(f"store.load() of {batch}, made from bytes on the way", prepare)


def _offers(api: Api) -> dict[str, Offer]:
    if api.package != "netmesh":
        return {}  # the pure reference keeps nothing
    return {
        "mail.store.open": open_offer(api),
        "mail.store.find.rare": find_offer(
            api, [f"rare{n}" for n in range(fixtures.COUNT)], RARE_EVERY
        ),
        "mail.store.find.common": find_offer(api, ["other", "every"], 2),
        "mail.store.list.peer": list_offer(api),
        "mail.store.insert": insert_offer(api, 1),
        "mail.store.insert500": insert_offer(api, BATCH),
    }


_NO_STORE = dict.fromkeys(("pure", "core", "library"), "has no store of messages")

_NO_LXMF = {"rns-rs": "has no LXMF"}
_NO_ROUTER = _NO_LXMF | {
    "core": "its router is the one that netmesh asks from Python",
    "rns-internal": "waits for the same timers as with OpenSSL",
    "lxmf-rs": "its crates have no router",
    "beechat": "has no node",
}
_NO_FILE = _NO_ROUTER | {"rns-openssl": "keeps no messages that it received"}

QUEUED = 10_000


def _queued(load: str, text: str, *, store: bool = False, quick: bool = False) -> Row:
    """A row of messages that are queued at once."""
    kept = ", durable on both sides before it is proven" if store else ""
    return Row(
        id=f"queue.{load}{'.kept' if store else ''}",
        title=f"{QUEUED:,} messages queued, {text}{', kept' if store else ''}",
        operation=f"one of {QUEUED:,} messages that a program queues at once, {text}: from the "
        f"first call to the last being delivered and proven, by their number{kept}; 500 in a "
        "quick run, a hundredth for rns + lxmf",
        payload=256,
        pair=Pair(
            "queue",
            samples=(1, 1),
            blocks=(3, 1),
            warm=1,
            items=QUEUED,
            timeout_s=120,
            load=load,
            held=(QUEUED, 500),
            store=store,
        ),
        absent=_NO_FILE if store else _NO_ROUTER,
        quick=quick,
    )


SUITE = Suite(
    name="lxmf",
    title="Mailboxes",
    text="Messages without stamps between two mailboxes in two processes over loopback TCP: from "
    "the call that sends to delivered, which is when the sender has the proof; the table of the "
    "rows between two processes says when the other side's program had the message. Then the store "
    "of a node: one file with a million messages in one mailbox, about 180 bytes of text each. "
    "Opening includes a query and the close. Memory is in the table of peak memory. Figures called "
    "published come from another machine, and contain that report's polling and the start of "
    "interpreters.",
    rows=(
        Row(
            id="deliver.direct.warm",
            title="a message over a link",
            operation="a signed message over a link that stands, to delivered",
            payload=256,
            published="e2e.direct",
            pair=Pair("direct", samples=(50, 10)),
            absent=_NO_LXMF,
        ),
        Row(
            id="deliver.direct.cold",
            title="a message with a new link",
            operation="a link and a signed message over it, to delivered",
            payload=256,
            pair=Pair("cold", samples=(20, 4)),
            absent=_NO_LXMF,
        ),
        Row(
            id="deliver.opportunistic",
            title="a message in a packet",
            operation="a signed message encrypted in one packet, to delivered",
            payload=256,
            published="e2e.opportunistic",
            pair=Pair("opportunistic", samples=(50, 10)),
            absent=_NO_LXMF,
        ),
        Row(
            id="deliver.resource",
            title="a message as a resource",
            operation="a signed message that is sent as a resource over a link, to delivered",
            payload=16384,
            published="e2e.resource",
            pair=Pair("deliver", samples=(20, 4), compress=True),
            absent=_NO_LXMF,
        ),
        _queued("direct", "over a link", quick=True),
        _queued("opportunistic", "in packets"),
        _queued("direct", "over a link", store=True),
        _queued("opportunistic", "in packets", store=True),
        Row(
            id="mail.store.open",
            title="open a million messages",
            operation="open the file, read its figures, close it",
            evidence=count_evidence,
            quick=False,
            absent=_NO_STORE,
        ),
        Row(
            id="mail.store.find.rare",
            title="find a word, rare",
            operation="a word that one message in a thousand has: the newest 20, with snippets",
            evidence=rare_evidence,
            quick=False,
            absent=_NO_STORE,
        ),
        Row(
            id="mail.store.find.common",
            title="find a word, common",
            operation="a word that half of all messages have: the newest 20, with snippets",
            evidence=common_evidence,
            quick=False,
            absent=_NO_STORE,
        ),
        Row(
            id="mail.store.list.peer",
            title="list messages of a peer",
            operation="the newest 20 of the thousand messages of one peer, with their bodies",
            evidence=peer_evidence,
            quick=False,
            absent=_NO_STORE,
        ),
        Row(
            id="mail.store.insert",
            title="store a message",
            operation="one message, durable when the call returns",
            evidence=_index_evidence,
            quick=False,
            absent=_NO_STORE,
        ),
        Row(
            id="mail.store.insert500",
            title="store 500 messages",
            operation="500 messages as one transaction, durable when the call returns; each counts",
            batch=BATCH,
            evidence=_index_evidence,
            quick=False,
            absent=_NO_STORE,
        ),
    ),
    offers=_offers,
)
