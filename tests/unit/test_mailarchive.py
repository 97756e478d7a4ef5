"""Archives of messages: JSON lines and mbox, both ways, and what hostile files do (LXMF 2)."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import io
import json
import mailbox
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import raw, vectors
from netmesh import Identity, errors
from netmesh.constants import MessageState, Method
from netmesh.lxmf import Message, delivery_hash, fields
from netmesh.mailarchive import (
    Entry,
    entry_json,
    from_json_value,
    json_value,
    read_json,
    read_mbox,
    write_json,
    write_mbox,
)
from netmesh.msgpack import Ext, packb, unpackb

# The same bytes each time, for the tests that damage them.
ALICE, BOB = (Identity.from_private(bytes(range(first, first + 64))) for first in (0, 64))
FORMATS: dict[str, tuple[Callable[..., int], Callable[..., Any]]] = {
    "json": (write_json, read_json),
    "mbox": (write_mbox, read_mbox),
}
formats = pytest.mark.parametrize("form", FORMATS)


def message(content: str | bytes = "hello", **more: Any) -> Message:
    """A message of Alice to Bob."""
    return Message.create(ALICE, delivery_hash(BOB), content, **{"timestamp": 1.7e9, **more})


def written(form: str, *entries: Entry) -> bytes:
    """An archive's bytes."""
    file = io.BytesIO()
    assert FORMATS[form][0](file, entries) == len(entries)
    return file.getvalue()


def read(form: str, data: bytes, **options: Any) -> list[Entry]:
    """The entries of an archive."""
    return list(FORMATS[form][1](io.BytesIO(data), **options))


def seen(entry: Entry) -> tuple[Any, ...]:
    """What can be compared."""
    return (
        entry.message.packed,
        entry.incoming,
        entry.time_unix_s,
        entry.verified,
        entry.method,
        entry.state,
    )


@formats
def test_every_message_of_upstream_survives(form: str) -> None:
    kinds = ("message", "message_stamped", "message_ticket_stamped")
    entries = [
        Entry(message=Message.unpack(raw(vector["output"]["packed"])))
        for vector in vectors("lxmf", *kinds)
    ]
    found = read(form, written(form, *entries))
    assert [each.message.packed for each in found] == [each.message.packed for each in entries]
    assert [each.message.id for each in found] == [each.message.id for each in entries]


@formats
def test_what_the_mailbox_knew_survives(form: str) -> None:
    entries = [
        Entry(message=message("in"), verified=True, method=Method.DIRECT, time_unix_s=1.7e9 + 0.25),
        Entry(
            message=message("out"),
            incoming=False,
            method=Method.PROPAGATED,
            state=MessageState.SENT,
            time_unix_s=0.0,
        ),
        Entry(message=message("bare")),
    ]
    assert [seen(each) for each in read(form, written(form, *entries))] == [
        seen(each) for each in entries
    ]


@formats
def test_text_that_looks_like_the_format_survives(form: str) -> None:
    """Lines that begin a mail, quoted ones, long lines, every kind of line end."""
    texts = [
        "From here\nFrom there\n>From nowhere\n>>From\n",
        "x" * 100_000,
        "a\r\nb\rc\n\n\n",
        "",
        "grün 日本 \N{SLICE OF PIZZA}",
        "\x00\x1b[2J\u2028\x85",
    ]
    entries = [Entry(message=message(text, title=text[:200])) for text in texts]
    found = read(form, written(form, *entries))
    assert [each.message.content_text for each in found] == texts


def test_other_programs_can_read_the_json() -> None:
    mine = message(
        "see", title="Well", fields={5: [["a", b"\x00\xff"]], "k": {1: float("inf")}}, timestamp=5.5
    )
    found = json.loads(written("json", Entry(message=mine, verified=True)))
    assert found["title"] == "Well"
    assert found["content"] == "see"
    assert found["timestamp"] == 5.5
    assert found["source"] == bytes(delivery_hash(ALICE)).hex()
    assert found["fields"] == [
        [5, [["a", {"base64": "AP8="}]]],
        ["k", {"map": [[1, {"float": "inf"}]]}],
    ]
    assert dict(map(tuple, from_json_value(found["fields"]))) == mine.fields


def test_other_programs_can_read_the_mbox(tmp_path: Path) -> None:
    """The standard library's reader and mail parser."""
    answered = message("first")
    mine = message(
        "From me\nto you",
        title="Grüße\nX-Evil: yes",
        fields=fields.build(
            attachments=[fields.Attachment("../日本.txt", b"file")], reply_to=answered.id
        ),
        timestamp=1700000000.0,
    )
    file = tmp_path / "mail.mbox"
    file.write_bytes(written("mbox", Entry(message=answered), Entry(message=mine)))
    with contextlib.closing(mailbox.mbox(file)) as box:
        assert len(box) == 2
        parsed = email.message_from_bytes(box.get_bytes(1), policy=email.policy.default)
    assert parsed["Subject"] == "Grüße X-Evil: yes"
    assert parsed["X-Evil"] is None
    assert parsed["From"] == f"{bytes(delivery_hash(ALICE)).hex()}@lxmf.invalid"
    assert parsed["In-Reply-To"] == f"<{answered.id.hex()}@lxmf.invalid>"
    assert parsed["Date"] == "Tue, 14 Nov 2023 22:13:20 -0000"
    text, attached, whole = parsed.iter_parts()
    assert text.get_content() == "From me\nto you"
    assert attached.get_filename() == "日本.txt"
    assert attached.get_content() == b"file"
    assert whole.get_content() == mine.packed


# --------------------------------------------------------------------- hostile files


def error_of(form: str, data: bytes, **options: Any) -> errors.DecodeError:
    """The error that a file raises."""
    with pytest.raises(errors.DecodeError) as caught:
        read(form, data, **options)
    return caught.value


def line(**changes: Any) -> bytes:
    """An entry of JSON with some values changed."""
    return json.dumps({**entry_json(Entry(message=message())), **changes}).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "reason", "field"),
    [
        (b"{", "VALUE", "archive"),
        (b"[1]", "TYPE", "archive"),
        (b"\xff\xfe", "VALUE", "archive"),
        (b"[" * 100_000, "VALUE", "archive"),
        (b"{}", "VALUE", "version"),
        (line(version=2), "VALUE", "version"),
        (line(packed=None), "TYPE", "archive"),
        (line(packed="?"), "VALUE", "archive"),
        (line(packed=base64.b64encode(bytes(20)).decode()), "TRUNCATED", None),
        (line(id="00" * 32), "VALUE", "id"),
        (line(method="pigeon"), "VALUE", "method"),
        (line(state=8), "VALUE", "state"),
        (line(time_unix_s="now"), "TYPE", "time_unix_s"),
        (line(time_unix_s=True), "TYPE", "time_unix_s"),
        (line(time_unix_s=10**400), "VALUE", "time_unix_s"),
    ],
    ids=str,
)
def test_damaged_lines_are_named(data: bytes, reason: str, field: str | None) -> None:
    error = error_of("json", b"\n" + data)
    assert error.reason == reason
    assert field is None or error.field == field
    assert "line 2" in str(error)
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no mail\n", "VALUE"),
        (b"From a\nSubject: plain\n\ntext\n", "MISSING"),
        (b"From a\nContent-Type: application/x-lxmf\n\nshort\n", "TRUNCATED"),
        (b"From a\n" + b"Content-Type: multipart/mixed; boundary=x\n\n--x\n" * 5000, "MISSING"),
    ],
)
def test_damaged_mails_are_named(data: bytes, reason: str) -> None:
    assert error_of("mbox", data).reason == reason


def nested(depth: int) -> bytes:
    """A mail of mails, each in a part of its own kind."""
    text = b"From a\n"
    for number in range(depth):
        text += b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (number, number)
    return text


def test_mails_within_mails_end() -> None:
    assert error_of("mbox", nested(20_000)).codec == "mailarchive"


@formats
def test_entries_that_are_too_large_are_passed_over(form: str) -> None:
    big = Entry(message=message("x" * 20_000))
    small = Entry(message=message("small"))
    data = written(form, small, big, small)
    assert error_of(form, data, entry_max=10_000).reason == "LIMIT"
    skipped: list[errors.DecodeError] = []
    found = read(form, data, entry_max=10_000, skip=skipped.append)
    assert [each.message.content for each in found] == [b"small", b"small"]
    assert [each.reason for each in skipped] == ["LIMIT"]
    assert len(read(form, data)) == 3


@formats
def test_an_archive_is_read_as_a_stream(form: str) -> None:
    """One entry is in memory: the first comes before the last is read."""
    data = written(form, *(Entry(message=message("x" * 100_000)) for _ in range(8)))

    class Counted(io.BytesIO):
        taken = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(-1 if size is None else size)
            self.taken += len(line)
            return line

    file = Counted(data)
    next(FORMATS[form][1](file))
    assert file.taken < len(data) / 4


@formats
def test_a_truncated_archive_gives_what_is_whole(form: str) -> None:
    data = written(form, *(Entry(message=message(f"number {n}")) for n in range(3)))
    for cut in range(0, len(data), 97):
        found: list[Entry] = []
        with_errors: list[errors.DecodeError] = []
        found = read(form, data[:cut], skip=with_errors.append)
        assert [each.message.content_text for each in found] == [
            f"number {n}" for n in range(len(found))
        ]
        assert len(with_errors) <= 1


@settings(deadline=None)
@given(st.data())
def test_changed_archives_raise_nothing_else(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(sorted(FORMATS)))
    whole = bytearray(written(form, Entry(message=message("From a\nb")), Entry(message=message())))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    read(form, b"From a\n" + bytes(whole) if form == "mbox" else bytes(whole), skip=lambda _: None)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.builds(Ext, st.integers(0, 127), st.binary(max_size=4)),
)
HASHABLE = st.one_of(
    st.none(), st.integers(-5, 300), st.text(max_size=8), st.binary(max_size=8), st.just((1, b"2"))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(HASHABLE, inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES)
def test_every_value_survives_json(value: Any) -> None:
    text = json.dumps(json_value(value), allow_nan=False)
    assert packb(from_json_value(json.loads(text))) == packb(value)
    assert unpackb(packb(value)) == from_json_value(json.loads(text))


@pytest.mark.parametrize(
    "value",
    [
        {"base64": 5},
        {"base64": "="},
        {"ext": "x", "base64": ""},
        {"float": "1.5"},
        {"map": {}},
        {"map": [[1]]},
        {"map": [[1, 2], [1, 3]]},
        {"map": [[{"map": []}, 1]]},
        {"other": 1},
        {},
    ],
    ids=str,
)
def test_values_of_no_known_form_are_refused(value: Any) -> None:
    with pytest.raises(errors.DecodeError):
        from_json_value(value)


def test_deep_values_are_refused() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(errors.LimitError):
        from_json_value(deep)
