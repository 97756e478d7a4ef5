"""Looks for leaks in the store of messages; a program of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from growth import fail, main

from netmesh import _core as core

FILES = tempfile.TemporaryDirectory()
PATH = FILES.name + "/mail.db"
BROKEN = FILES.name + "/broken.db"
Path(BROKEN).write_bytes(b"no database" * 1000)
ALICE, BOB = core.Identity(), core.Identity()
BOX = core.delivery_hash(BOB)
MAIL = [
    core.Message.create(ALICE, BOX, f"words {n} " + "x" * 3000, fields={5: [["name", b"file"]]})
    for n in range(5)
]
STORE = core.MailStoreCore(PATH, {})
STORE.apply([(0, {"mailbox": BOX, "id": mail.id}, {}, mail.packed) for mail in MAIL])
READER = core.MailStoreCore(PATH, {"read_only": True})
CLOSED = core.MailStoreCore(PATH, {})
CLOSED.close()


def opened() -> None:
    """Opens, asks and closes."""
    store = core.MailStoreCore(PATH, {"cache_kb": 100})
    store.figures()
    store.close()


OPERATIONS: dict[str, Callable[[], Any]] = {
    "open": opened,
    "open and drop": lambda: core.MailStoreCore(PATH, {}).figures(),
    "no file": fail(lambda: core.MailStoreCore(FILES.name + "/none", {"must_exist": True})),
    "no folder": fail(lambda: core.MailStoreCore("/none/mail.db", {})),
    "no database": fail(lambda: core.MailStoreCore(BROKEN, {})),
    "bad options": fail(lambda: core.MailStoreCore(PATH, {"busy_ms": "x"})),
    "rows": lambda: STORE.rows({"mailbox": BOX, "bodies": True, "newest_first": True}, 3),
    "bad rows": fail(lambda: STORE.rows({"mailbox": b"x"}, 3)),
    "get": lambda: STORE.get(1, True),
    "get nothing": fail(lambda: STORE.get(77, True)),
    "find": lambda: STORE.find(BOX, MAIL[0].id, True),
    "find nothing": fail(lambda: STORE.find(None, bytes(32), False)),
    "search": lambda: STORE.search(BOX, "words 3", 0, "<", ">", 5, 10),
    "search nothing": fail(lambda: STORE.search(None, "", 0, "<", ">", 5, 10)),
    "talks": lambda: STORE.talks(BOX, 0, 10),
    "attachments": lambda: STORE.attachments({"mailbox": BOX}, -1, 10),
    "attachment": lambda: STORE.attachment(1, 0),
    "no attachment": fail(lambda: STORE.attachment(1, 1)),
    "overviews": lambda: (STORE.boxes(0), STORE.ignored(0), STORE.figures(), STORE.closed),
    "writes": lambda: STORE.apply([(4, {"row": 1}, {}, None), (4, {"row": 99}, {}, None)]),
    "duplicate": lambda: STORE.apply([(0, {"mailbox": BOX, "id": MAIL[0].id}, {}, MAIL[0].packed)]),
    "bad writes": fail(lambda: STORE.apply([(4, {"row": 1}, {}, None), (4, {}, {}, "text")])),
    "read only": fail(lambda: READER.apply([(4, {"row": 1}, {}, None)])),
    "closed": fail(lambda: CLOSED.get(1, True)),
}


if __name__ == "__main__":
    sys.exit(main(OPERATIONS))
