"""netmesh mail: stored messages listed, searched, taken out and put in."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from netmesh import Identity, cli
from netmesh.lxmf import Message, delivery_hash, fields
from netmesh.mailarchive import Entry
from netmesh.mailstore import MailStore

ME, ANN, BOB = Identity(), Identity(), Identity()
ADDRESS = {who: bytes(delivery_hash(who)).hex() for who in (ME, ANN, BOB)}


def entry(source: Identity, to: Identity, text: str, **more: Any) -> Entry:
    """A message from one to another, as the store of ME has it."""
    message = Message.create(source, delivery_hash(to), text, **more)
    return Entry(message=message, incoming=source is not ME, verified=True)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A store with a few messages."""
    path = tmp_path / "mail.db"
    mine = fields.build(attachments=[fields.Attachment("a.txt", b"file")])
    with MailStore(path) as store:
        store.load([entry(ANN, ME, "See you at the well", title="Monday", fields=mine)])
        store.load([entry(ME, BOB, "The well is dry"), entry(BOB, ME, "Grüße \x1b[2J")])
        store.load([entry(ANN, ME, "New")], acknowledged=False)
        store.load([entry(ME, ANN, "to the other mailbox")])
    return str(path)


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The JSON lines that were printed."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_filters_let_through_what_they_say(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options, expected in (
        ([], ["to the other mailbox", "New", "Grüße \x1b[2J", "The well is dry"]),
        (["--limit", "2"], ["to the other mailbox", "New"]),
        (["--peer", ADDRESS[ANN], "--direction", "incoming"], ["New", "See you at the well"]),
        (["--direction", "outgoing"], ["to the other mailbox", "The well is dry"]),
        (["--unread"], ["New"]),
        (["--mailbox", ADDRESS[ANN]], []),
    ):
        assert cli.main(["mail", "list", "--file", file, "--json", *options]) == 0
        found = records(capsys)
        assert [each["content"] for each in found][: len(expected)] == expected
        assert options == [] or len(found) == len(expected)
        assert all(each["unread"] == (each["content"] == "New") for each in found)


def test_messages_are_shown_for_people(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["mail", "list", "--file", file]) == 0
    told = capsys.readouterr().out
    assert f"from {ADDRESS[ANN]}\n  Monday\n  See you at the well\n  [file a.txt, 4 bytes]" in told
    assert f"to {ADDRESS[BOB]}" in told
    assert "\x1b" not in told


def test_conversations_are_told(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mail", "conversations", "--file", file]
    assert cli.main([*words, "--json"]) == 0
    found = records(capsys)
    assert [(each["peer"], each["messages"], each["unread"]) for each in found] == [
        (ADDRESS[ANN], 3, 1),
        (ADDRESS[BOB], 2, 0),
    ]
    assert {each["mailbox"] for each in found} == {ADDRESS[ME]}
    assert cli.main([*words, "--limit", "1"]) == 0
    told = capsys.readouterr().out
    assert told.endswith(f"{ADDRESS[ME]} with {ADDRESS[ANN]}: 3 messages, 1 unread\n")
    assert told.count("\n") == 1
    assert cli.main([*words, "--mailbox", ADDRESS[BOB], "--json"]) == 0
    assert records(capsys) == []


def test_words_are_found(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mail", "search", "--file", file]
    assert cli.main([*words, "--json", "well"]) == 0
    found = records(capsys)
    assert [each["snippet"] for each in found] == ["The [well] is dry", "See you at the [well]"]
    assert found[1]["title"] == "Monday"
    assert (found[0]["incoming"], found[1]["peer"]) == (False, ADDRESS[ANN])
    assert cli.main([*words, "--limit", "1", "WE*", "dry"]) == 0
    told = capsys.readouterr().out
    assert f"to {ADDRESS[BOB]}\n  The [well] is [dry]\n" in told
    assert cli.main([*words, "--mailbox", ADDRESS[BOB], "--json", "well"]) == 0
    assert records(capsys) == []
    assert cli.main([*words, "grusse"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert cli.main([*words, "x" * 2000]) == 1
    assert capsys.readouterr().err.startswith("netmesh mail search: ")


@pytest.mark.parametrize("form", ["json", "mbox"])
def test_what_is_exported_can_be_imported(
    form: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, other = str(tmp_path / "archive"), str(tmp_path / "other.db")
    words = ["mail", "export", "--file", file, "--format", form]
    assert cli.main([*words, "--out", archive]) == 0
    assert "5 messages written" in capsys.readouterr().out
    assert cli.main([*words, "--out", archive]) == 1
    assert "File exists" in capsys.readouterr().err
    again = ["mail", "import", "--file", other, "--format", form, "--unread"]
    assert cli.main([*again, archive]) == 0
    assert capsys.readouterr().out.startswith("5 messages stored, 0 were there already")
    assert cli.main([*again, "--json", archive]) == 0
    assert records(capsys) == [{"added": 0, "duplicates": 5, "refused": 0, "damaged": 0}]
    with MailStore(file) as one, MailStore(other) as two:
        packed = [[each.message.packed for each in store.entries()] for store in (one, two)]
        assert packed[0] == packed[1]
        assert [each.unread for each in two if each.incoming] == [True] * 3


def test_an_export_takes_what_the_filters_say(
    file: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for options, expected in (
        (["--peer", ADDRESS[BOB]], ["The well is dry", "Grüße \x1b[2J"]),
        (["--peer", ADDRESS[BOB], "--direction", "incoming"], ["Grüße \x1b[2J"]),
        (["--mailbox", ADDRESS[BOB]], []),
    ):
        assert cli.main(["mail", "export", "--file", file, *options]) == 0
        out = capfdbinary.readouterr().out
        assert [json.loads(line)["content"] for line in out.splitlines()] == expected


def test_a_damaged_archive_is_imported_as_far_as_it_goes(
    file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = tmp_path / "archive"
    assert cli.main(["mail", "export", "--file", file, "--out", str(archive)]) == 0
    lines = archive.read_bytes().splitlines(keepends=True)
    lines[1] = b"{damaged\n"
    stdin = io.TextIOWrapper(io.BytesIO(b"".join(lines)))
    monkeypatch.setattr(sys, "stdin", stdin)
    other = str(tmp_path / "other.db")
    capsys.readouterr()
    assert cli.main(["mail", "import", "--file", other, "--json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out) == {"added": 4, "duplicates": 0, "refused": 0, "damaged": 1}
    assert "line 2" in told.err


def test_a_nodes_storage_has_the_store(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, archive = str(Path(file).parent), str(tmp_path / "archive")
    for words in (
        ["list", "--storage", storage],
        ["conversations", "--storage", storage],
        ["search", "--storage", storage, "well"],
        ["export", "--storage", storage, "--out", archive],
        ["import", "--storage", storage, archive],
    ):
        assert cli.main(["mail", *words]) == 0
        assert capsys.readouterr().out != ""
    assert cli.main(["mail", "list", "--storage", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_store_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "mail.db"
    damaged.write_bytes(b"no database at all" * 100)
    assert cli.main(["mail", "list", "--file", str(damaged)]) == 1
    told = capsys.readouterr().err
    assert str(damaged) in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "words",
    [["list"], ["list", "--file", "x", "--limit", "0"], ["search", "--file", "x"], ["sort"]],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["mail", *words])
    assert ended.value.code == 2
    assert "usage: netmesh mail" in capsys.readouterr().err
