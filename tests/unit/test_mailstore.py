"""The store of messages as a program sees it."""

from __future__ import annotations

import io
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from netmesh import Identity, _core, mailstore
from netmesh.constants import AudioMode, Field, MessageState, Method, Unverified
from netmesh.errors import EncodeError, NotFoundError, StateError, StoreError
from netmesh.lxmf import Message, delivery_hash
from netmesh.mailarchive import Entry, read_json, write_json
from netmesh.mailstore import MailStore

ME, FRIEND, OTHER = Identity(), Identity(), Identity()
BOX = delivery_hash(ME)
STAMPS = count(1_700_000_000)


def came(text: str, *, source: Identity = FRIEND, **options: object) -> Entry:
    """A message to ME."""
    moment = float(next(STAMPS))
    message = Message.create(source, BOX, text, timestamp=moment, **options)  # type: ignore[arg-type]
    return Entry(message=message, verified=True, time_unix_s=moment, method=Method.DIRECT)


def went(text: str, state: MessageState | None = MessageState.DELIVERED) -> Entry:
    """A message of ME."""
    moment = float(next(STAMPS))
    message = Message.create(ME, delivery_hash(FRIEND), text, timestamp=moment)
    return Entry(message=message, incoming=False, time_unix_s=moment, state=state)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mail.db"


@pytest.fixture
def store(path: Path) -> Iterator[MailStore]:
    with MailStore(path) as opened:
        yield opened


def test_messages_come_back_as_they_were(store: MailStore) -> None:
    first, second = came("hello", title="Greeting"), went("and back")
    assert store.load([first, second]) == mailstore.Loaded(2, 0, 0)
    one, two = store
    assert one.message is not None
    assert one.message.packed == first.message.packed
    assert one.row < two.row
    assert (one.mailbox, one.peer, one.id) == (BOX, delivery_hash(FRIEND), first.message.id)
    assert one.incoming
    assert one.verified
    assert (one.unread, one.unfinished) == (False, False)
    assert one.stored_unix_s == first.time_unix_s
    assert one.timestamp == first.message.timestamp
    assert one.size_bytes == len(first.message.packed)
    assert (one.method, one.unverified) == (Method.DIRECT, Unverified.VERIFIED)
    assert (one.stamp_valid, one.transient_id, one.rssi_dbm, one.snr_db) == (None,) * 4
    assert (one.quality_pct, one.state, one.stage, one.rtt_s) == (None,) * 4
    assert not two.incoming
    assert two.state is MessageState.DELIVERED
    assert store.get(one.row) == store.get(first.message.id) == one
    assert store.get(second.message.id, mailbox=BOX).row == two.row
    assert store.check() == []


def test_what_is_not_there_is_not_found(store: MailStore) -> None:
    store.load([came("there")])
    with pytest.raises(NotFoundError, match="no such message"):
        store.get(99)
    with pytest.raises(NotFoundError):
        store.get(bytes(32))
    with pytest.raises(NotFoundError):
        store.get(next(iter(store)).id, mailbox=delivery_hash(OTHER))
    with pytest.raises(NotFoundError, match="no message 99"):
        store.acknowledge(1, 99)
    with pytest.raises(ValueError, match="direction"):
        store.messages(direction="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="32 bytes"):
        store.get(b"short")


def test_a_message_is_stored_once_and_forgotten_never(store: MailStore) -> None:
    entry = came("once")
    assert store.load([entry, entry]) == mailstore.Loaded(1, 1, 0)
    store.delete(next(iter(store)).row)
    assert list(store) == []
    assert store.load([entry]) == mailstore.Loaded(0, 1, 0)
    again = store.load([went("one"), went("two", None)])
    assert again.added == 2
    assert [each.state for each in store] == [MessageState.DELIVERED, MessageState.FAILED]
    assert not any(each.unfinished for each in store)


def test_filters(store: MailStore) -> None:
    entries = [
        came("1"),
        came("2", source=OTHER),
        went("3"),
        came("4"),
    ]
    store.load(entries[:3])
    store.load(entries[3:], acknowledged=False)
    rows = [each.row for each in store]

    def found(**filters: object) -> list[int]:
        return [rows.index(each.row) for each in store.messages(**filters)]  # type: ignore[arg-type]

    assert found(peer=delivery_hash(OTHER)) == [1]
    assert found(mailbox=BOX, peer=delivery_hash(FRIEND)) == [0, 2, 3]
    assert found(mailbox=delivery_hash(OTHER)) == []
    assert found(direction="outgoing") == [2]
    assert found(unread=True) == [3]
    assert found(unread=True, direction="outgoing") == []
    assert found(unfinished=True) == found(unread=True, unfinished=True) == []
    assert found(newest_first=True, limit=2) == [3, 2]
    assert found(cursor=rows[1]) == [2, 3]
    assert found(newest_first=True, cursor=rows[1]) == [0]
    assert found(since_unix_s=entries[2].time_unix_s) == [2, 3]
    assert found(until_unix_s=entries[2].time_unix_s) == [0, 1]
    assert found(limit=0) == []
    assert [each.message for each in store.messages(bodies=False)] == [None] * 4
    store.acknowledge(rows[3])
    assert found(unread=True) == []
    store.acknowledge(rows[3], rows[0], read=False)
    assert found(unread=True) == [0, 3]


def test_long_lists_come_in_pieces(store: MailStore) -> None:
    store.load([came(str(n)) for n in range(450)])
    rows = [each.row for each in store]
    assert len(set(rows)) == 450
    assert rows == sorted(rows)
    assert [each.row for each in store.messages(newest_first=True, bodies=False)] == rows[::-1]
    assert sum(1 for _ in store.messages(limit=333, bodies=False)) == 333


def test_search(store: MailStore) -> None:
    store.load([came("The quick brown fox", title="Animals"), came("caf\u00e9", source=OTHER)])
    [hit] = store.search("QUICK fo*")
    assert hit.snippet == "The [quick] brown [fox]"
    assert hit.title == "Animals"
    assert hit.message.message is None
    assert hit.message.peer == delivery_hash(FRIEND)
    [hit] = store.search("animals", marks=("<b>", "</b>"), mailbox=BOX)
    assert hit.title == "<b>Animals</b>"
    assert store.search('"brown quick"') == []
    assert store.search("cafe")[0].snippet == "[caf\u00e9]"
    assert store.search("quick", before=hit.message.row) == []
    assert store.search("quick", mailbox=delivery_hash(OTHER)) == []
    for text, reason in (("", "EMPTY"), ("x" * 1025, "TOO_LARGE"), ("a\0b", "UTF8")):
        with pytest.raises(EncodeError) as caught:
            store.search(text)
        assert caught.value.reason == reason
    with pytest.raises(EncodeError, match="range"):
        store.search("x", words=65)


def test_conversations(store: MailStore) -> None:
    store.load([came("1"), came("2", source=OTHER), came("3")], acknowledged=False)
    store.load([went("4")])
    first, second = store.conversations(mailbox=BOX)
    assert (first.peer, first.messages, first.unread) == (delivery_hash(FRIEND), 3, 2)
    assert (second.peer, second.messages, second.unread) == (delivery_hash(OTHER), 1, 1)
    assert first.last_row == max(each.row for each in store)
    assert list(store.conversations(mailbox=delivery_hash(OTHER))) == []


def test_attachments_are_read_alone(store: MailStore) -> None:
    large = os.urandom(100_000)
    fields = {
        Field.FILE_ATTACHMENTS: [["a.bin", large], ["b.txt", b"text"]],
        Field.IMAGE: ["webp", b"pixels"],
        Field.AUDIO: [int(AudioMode.OPUS_OGG), b"sound"],
    }
    store.load(
        [came("with files", fields=fields), came("without"), came("x", fields={7: [77, b""]})]
    )
    found = list(store.attachments())
    assert [(each.name, each.size_bytes) for each in found] == [
        ("a.bin", 100_000),
        ("b.txt", 4),
        ("webp", 6),
        ("", 5),
        ("", 0),
    ]
    assert [store.read_attachment(each) for each in found] == [
        large,
        b"text",
        b"pixels",
        b"sound",
        b"",
    ]
    assert [each.audio_mode for each in found[2:]] == [None, AudioMode.OPUS_OGG, 77]
    assert found[2].field is Field.IMAGE
    assert [each.index for each in store.attachments(row=found[0].row)] == [0, 1, 2, 3]
    assert list(store.attachments(row=found[0].row + 1)) == []
    assert next(each.row for each in store.attachments(newest_first=True)) == found[4].row
    store.delete(found[0].row)
    with pytest.raises(NotFoundError):
        store.read_attachment(found[0])


def test_many_attachments_come_in_pieces(store: MailStore) -> None:
    files = [[f"{n}.txt", b"x"] for n in range(150)]
    store.load([came(str(n), fields={Field.FILE_ATTACHMENTS: files}) for n in range(3)])
    found = [(each.row, each.index) for each in store.attachments()]
    assert len(set(found)) == 450
    assert found == sorted(found)


def test_quotas(store: MailStore) -> None:
    store.set_quota(BOX, messages=2)
    store.load([came("a")])
    store.load([came("b"), came("c")], acknowledged=False)
    assert [each.unread for each in store] == [True, True]
    assert store.load([came("d")]) == mailstore.Loaded(0, 0, 1)
    [box] = store.mailboxes()
    assert (box.mailbox, box.messages, box.unread, box.quota_messages) == (BOX, 2, 2, 2)
    assert store.statistics().evicted == 1
    store.set_quota(BOX)
    assert store.load([came("d")]).added == 1


def test_ignored_sources(store: MailStore) -> None:
    assert store.ignored() == []
    store.ignore(delivery_hash(OTHER))
    assert store.ignored() == [delivery_hash(OTHER)]
    store.ignore(delivery_hash(OTHER), on=False)
    assert store.ignored() == []


def test_figures(store: MailStore) -> None:
    store.load([came("x" * 10_000)], acknowledged=False)
    figures = store.statistics()
    assert (figures.messages, figures.unread, figures.unfinished) == (1, 1, 0)
    assert figures.bytes < 1000
    assert figures.file_bytes % 4096 == 0
    assert figures.layout == 1


def test_archives_go_both_ways(store: MailStore, tmp_path: Path) -> None:
    store.load([came("one"), went("two", MessageState.SENT), came("three", source=OTHER)])
    file = io.BytesIO()
    assert write_json(file, store.entries(mailbox=BOX)) == 3
    file.seek(0)
    with MailStore(tmp_path / "other.db") as other:
        assert other.load(read_json(file)).added == 3
        assert [each.id for each in other] == [each.id for each in store]
        assert [each.state for each in other] == [each.state for each in store]
        assert [each.stored_unix_s for each in other] == [each.stored_unix_s for each in store]


# ------------------------------------------------------------------ files and errors


def test_the_file_is_for_its_owner_alone(path: Path, store: MailStore) -> None:
    store.load([came("secret")])
    files = list(path.parent.iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_closed_store_says_so(path: Path) -> None:
    store = MailStore(path)
    assert repr(store) == f"<MailStore {str(path)!r}>"
    store.close()
    store.close()
    assert store.closed
    assert "closed" in repr(store)
    with pytest.raises(StateError, match="closed"):
        list(store)


def test_read_only(path: Path) -> None:
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(NotFoundError):
            MailStore(path, **options)  # type: ignore[arg-type]
    with MailStore(path) as store, MailStore(path, read_only=True) as reader:
        store.load([came("seen by both")])
        assert len(list(reader)) == 1
        with pytest.raises(StateError):
            reader.delete(1)


def test_a_damaged_file_is_told_and_set_aside_on_demand(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 1000)
    with pytest.raises(StoreError, match="damaged") as caught:
        MailStore(path)
    assert caught.value.damaged
    assert caught.value.reason == "STORE"
    assert caught.value.stage == "STORE"
    assert str(path) in str(caught.value)
    assert mailstore.set_aside(path) == f"{path}.damaged-1"
    MailStore(path).close()
    with pytest.raises(NotFoundError):
        mailstore.set_aside(path.parent / "nothing")


def test_a_foreign_or_newer_file_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE t (a)")
    theirs.close()
    with pytest.raises(StoreError, match="another program") as caught:
        MailStore(path)
    assert caught.value.reason == "VALUE"
    path.unlink()
    MailStore(path).close()
    with sqlite3.connect(path) as ours:
        ours.execute("PRAGMA user_version = 1000")
    ours.close()
    with pytest.raises(StoreError, match="newer netmesh") as caught:
        MailStore(path)
    assert caught.value.reason == "MODE"
    assert not caught.value.damaged


def test_a_place_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file") as caught:
        MailStore(tmp_path / "nowhere" / "mail.db")
    assert caught.value.os_error == 2
    with pytest.raises(StoreError):
        MailStore(tmp_path)
    with pytest.raises(TypeError):
        MailStore(None)  # type: ignore[arg-type]


def fill_up(path: Path) -> None:
    """In a process of its own: writes until the system lets it write no more."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    with MailStore(path) as store:
        for n in range(10_000):
            try:
                store.load([came(f"number {n}")])
            except StoreError as error:
                print(n, error.reason)
                return


def test_a_full_device_is_told_and_loses_nothing(path: Path) -> None:
    code = f"import sys; from test_mailstore import *; fill_up(Path({str(path)!r}))"
    folder = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    number, reason = done.stdout.split()
    assert reason == "FULL"
    with MailStore(path) as store:
        assert store.statistics().messages == int(number) > 0
        assert store.check() == []


def test_threads_share_an_object_and_a_file(path: Path, store: MailStore) -> None:
    failures: list[Exception] = []

    def work(own: MailStore) -> None:
        try:
            for n in range(30):
                own.load([came(f"shared {n}", source=Identity())])
                assert own.search("shared", limit=5)
                assert next(own.messages(newest_first=True)).message is not None
        except Exception as error:
            failures.append(error)

    with MailStore(path) as second:
        threads = [threading.Thread(target=work, args=(own,)) for own in (store, store, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert store.statistics().messages == 90
    assert store.check() == []


def test_a_forked_child_may_not_use_it(store: MailStore) -> None:
    store.load([came("parent")])
    child = os.fork()
    if child == 0:
        try:
            list(store)
        except StateError:
            store.close()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(store)) == 1


def test_arguments_of_the_core_are_checked(path: Path, store: MailStore) -> None:
    store.load([came("x")])
    core = _core.MailStoreCore(path, {})
    wrong: list[tuple[str, tuple[object, ...]]] = [
        ("rows", ({}, 0)),
        ("rows", ({}, 1001)),
        ("rows", ({"what": 1}, 1)),
        ("rows", ({"mailbox": b"short"}, 1)),
        ("rows", ([], 1)),
        ("get", (1, 1)),
        ("get", ("1", True)),
        ("find", (None, b"x", True)),
        ("search", (None, 5, 0, "", "", 0, 1)),
        ("search", (None, "x", 0, None, "", 0, 1)),
        ("search", (None, "x")),
        ("talks", (None, -1, 1)),
        ("attachments", ({}, -2, 1)),
        ("attachment", (1, -1)),
        ("boxes", (-1,)),
        ("apply", (5,)),
        ("apply", ([5],)),
        ("apply", ([(99, {}, {}, None)],)),
        ("apply", ([(4, {"row": "x"}, {}, None)],)),
        ("apply", ([(0, {}, {}, "text")],)),
        ("apply", ([(0, {}, {"what": 1}, b"")],)),
    ]
    for name, arguments in wrong:
        with pytest.raises((TypeError, ValueError)):
            getattr(core, name)(*arguments)
    assert core.apply([(0, {}, {}, b"short"), (4, {"row": 77}, {}, None)]) == [
        ("TRUNCATED", 0),
        ("MISSING", 77),
    ]
    assert core.apply([]) == []
    with pytest.raises(TypeError):
        _core.MailStoreCore(path)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        _core.MailStoreCore(path, options={})  # type: ignore[call-arg]
    core.close()
