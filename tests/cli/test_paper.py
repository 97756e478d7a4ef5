"""netmesh paper: what it makes, shows and reads, and with which status it ends (LXMF 12)."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from golden import named, raw
from netmesh import Identity, Node, Ratchets, cli, errors, paper
from netmesh.constants import Method
from netmesh.lxmf import Message, delivery_hash, fields
from netmesh.mailstore import MailStore

CONTENT_MAX = 2015
"""LXMF 12: what fits with an empty title and no fields."""


class People:
    """Alice and Bob, and the files with their keys."""

    def __init__(self, folder: Path) -> None:
        self.alice, self.bob = Identity(), Identity()
        for name, who in (("alice", self.alice), ("bob", self.bob)):
            who.save(folder / f"{name}.identity")
            who.save_public(folder / f"{name}.public")
        self.folder = folder

    def file(self, name: str) -> str:
        """The path of a file of theirs."""
        return str(self.folder / name)

    def uri(self, content: str | bytes = "hello", **more: Any) -> str:
        """A paper message of Alice to Bob."""
        return paper.write(
            Message.create(self.alice, delivery_hash(self.bob), content, **more), self.bob
        )


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People(tmp_path)


def make(people: People, *more: str) -> int:
    """Makes a message of Alice."""
    return cli.main(["paper", "make", "--identity", people.file("alice.identity"), *more])


def read(people: People, *more: str, who: str = "bob") -> int:
    """Reads a message as someone."""
    return cli.main(["paper", "read", "--identity", people.file(f"{who}.identity"), *more])


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """The one JSON object that was printed."""
    return json.loads(capsys.readouterr().out)


def test_a_message_goes_there_and_back(people: People, capsys: pytest.CaptureFixture[str]) -> None:
    note = people.folder / "note.txt"
    note.write_bytes(b"attached")
    to = people.file("bob.public")
    assert make(people, "--to", to, "--title", "Wéll", "--attach", str(note), "See", "you.") == 0
    uri = capsys.readouterr().out.strip()
    assert uri.startswith("lxm://")
    saved = people.folder / "saved"
    for name in ("note.txt", "note-2.txt"):
        assert read(people, uri, "--save", str(saved)) == 0
        told = capsys.readouterr().out
        assert "Wéll" in told
        assert "  See you.\n" in told
        assert "[file note.txt, 8 bytes]" in told
        assert "NOT VERIFIED" in told
        assert f"saved {saved / name}" in told
        assert (saved / name).read_bytes() == b"attached"


def test_json_tells_all_of_it(people: People, capsys: pytest.CaptureFixture[str]) -> None:
    assert make(people, "--to", people.file("bob.public"), "--json", "hello") == 0
    made = said(capsys)
    assert made["source"] == bytes(delivery_hash(people.alice)).hex()
    assert made["destination"] == bytes(delivery_hash(people.bob)).hex()
    assert len(bytes.fromhex(made["transient_id"])) == 32
    assert (made["qr"], made["png"]) == (None, None)
    assert read(people, "--json", made["uri"]) == 0
    found = said(capsys)
    assert found["id"] == made["id"]
    assert (found["content"], found["method"], found["verified"]) == ("hello", "paper", False)


def test_the_sender_is_verified_by_its_key(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, verified in (("alice", True), ("bob", False)):
        assert read(people, people.uri(), "--sender", people.file(f"{name}.public"), "--json") == 0
        assert said(capsys)["verified"] is verified


def test_standard_input_is_the_text_and_the_uri(
    people: People, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for dash in ((), ("-",)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("grün\n".encode())))
        assert make(people, "--to", people.file("bob.public"), *dash) == 0
        monkeypatch.setattr(sys, "stdin", io.StringIO(capsys.readouterr().out))
        assert read(people, "--json", *dash) == 0
        assert said(capsys)["content"] == "grün\n"


def modules(text: str, *, dark: str) -> list[list[bool]]:
    """The modules of a code that was drawn with half blocks."""
    halves = {" ": (False, False), "▄": (False, True), "▀": (True, False), "█": (True, True)}
    rows: list[list[bool]] = []
    for line in text.splitlines():
        for half in (0, 1):
            rows.append([halves[letter][half] is (dark == "filled") for letter in line])
    return rows


def pixels(png: bytes, scale: int) -> list[list[bool]]:
    """The modules of a PNG with one bit a pixel, True where it is dark."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, packed, width = 8, b"", 0
    while place < len(png):
        size, name = int.from_bytes(png[place : place + 4], "big"), png[place + 4 : place + 8]
        body = png[place + 8 : place + 8 + size]
        if name == b"IHDR":
            width = int.from_bytes(body[:4], "big")
            assert body[8:10] == b"\x01\x00"
        packed += body if name == b"IDAT" else b""
        place += 12 + size
    lines, step = zlib.decompress(packed), 1 + (width + 7) // 8
    rows: list[bytes] = [bytes(step - 1)]
    for start in range(0, len(lines), step):
        kind, row = lines[start], lines[start + 1 : start + step]
        assert kind in (0, 2)  # as it is, or as a difference to the row above
        if kind == 2:
            row = bytes((a + b) % 256 for a, b in zip(row, rows[-1], strict=True))
        rows.append(row)
    return [
        [not row[x // 8] >> (7 - x % 8) & 1 for x in range(0, width, scale)]
        for row in rows[1::scale]
    ]


def test_the_code_on_the_terminal_is_that_of_the_image(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    image = people.folder / "code.png"
    to = people.file("bob.public")
    assert make(people, "--to", to, "--qr", "--png", str(image), "--scale", "3", "hi") == 0
    *drawn, _, uri = capsys.readouterr().out.splitlines()
    shown = modules("\n".join(drawn), dark="blank")
    found = pixels(image.read_bytes(), 3)
    assert shown[: len(found)] == found
    assert not any(map(any, shown[len(found) :]))
    assert not any(found[0] + found[-1])
    assert found[1][1:8] == [True] * 7
    again = paper.qr_code(uri)
    assert [list(row) for row in again.rows] == found
    options = ["--to", to, "--qr", "--dark-on-light", "--json", "hi"]
    assert make(people, *options) == 0
    told = said(capsys)
    expected = [list(row) for row in paper.qr_code(told["uri"]).rows]
    assert modules("\n".join(told["qr"]), dark="filled")[: len(expected)] == expected


def test_other_clients_make_the_same_code() -> None:
    """LXMF 12: byte data, error correction L, border 1; the version is the smallest."""
    uri = named("lxmf", "paper_short")["output"]["uri"]
    code = paper.qr_code(uri)
    assert code.width == 2 + 17 + 4 * 11
    mask_and_level = [code.rows[9][column] for column in (1, 2)]
    assert [bit ^ mask for bit, mask in zip(mask_and_level, (1, 0), strict=True)] == [0, 1]
    assert "version 11" in repr(code)


def test_the_largest_message_fits_the_largest_code(people: People) -> None:
    code = paper.qr_code(people.uri("p" * CONTENT_MAX))
    assert code.width == 2 + 177
    with pytest.raises(errors.EncodeError) as caught:
        people.uri("p" * (CONTENT_MAX + 1))
    assert caught.value.reason == "TOO_LARGE"
    with pytest.raises(errors.EncodeError) as caught:
        paper.qr_code("lxm://" + "x" * 2948)
    assert caught.value.reason == "TOO_LARGE"


@pytest.mark.parametrize("scale", [0, 101])
def test_images_have_a_sensible_size(
    people: People, scale: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="scale"):
        paper.qr_code("lxm://x").png(scale=scale)
    assert make(people, "--to", people.file("bob.public"), "--scale", str(scale), "hi") == 1
    assert "--scale" in capsys.readouterr().err


def test_a_narrow_terminal_gets_a_sentence_and_no_code(
    people: People, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((40, 24)))
    assert make(people, "--to", people.file("bob.public"), "--qr", "hi") == 1
    told = capsys.readouterr()
    assert "the terminal has 40" in told.err
    assert "--png" in told.err
    assert "█" not in told.out


def test_without_the_library_it_is_said_what_to_install(
    people: People, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    for option in (["--qr"], ["--png", people.file("x.png")]):
        assert make(people, "--to", people.file("bob.public"), *option, "hi") == 1
        assert "pip install netmesh[qr]" in capsys.readouterr().err
    assert not Path(people.file("x.png")).exists()
    assert make(people, "--to", people.file("bob.public"), "hi") == 0
    with pytest.raises(errors.NetmeshError) as caught:
        paper.qr_code("lxm://x")
    assert caught.value.reason == "LIBRARY"


def test_ratchets_of_a_file_open_a_message(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    """LXMF 12: upstream seals to the recipient's ratchet when it knows one."""
    ratchets = Ratchets()
    assert ratchets.rotate()
    file = people.folder / "ratchets"
    file.write_bytes(ratchets.dump(people.bob))
    message = Message.create(people.alice, delivery_hash(people.bob), "sealed")
    uri = paper.write(message, people.bob, ratchet=ratchets.current_public)
    assert read(people, uri) == 1
    assert "older ratchets" in capsys.readouterr().err
    assert read(people, uri, "--ratchets", str(file), "--json") == 0
    assert said(capsys)["content"] == "sealed"
    assert paper.read(uri, people.bob, ratchets=ratchets.private_keys) == message


def test_a_nodes_storage_has_the_identity_and_who_it_heard_of(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = people.file("storage")

    async def prepare() -> Identity:
        async with Node(storage=storage, shared_instance=False) as node:
            for who in (people.alice, people.bob):
                await node.remember(delivery_hash(who), who.public_only())
            await node.persist()
            return node.identity

    own = asyncio.run(prepare())
    address = bytes(delivery_hash(people.bob)).hex()
    assert cli.main(["paper", "make", "--storage", storage, "--to", address, "hello"]) == 0
    uri = capsys.readouterr().out.strip()
    assert paper.read(uri, people.bob).verify(own)
    to_own = paper.write(Message.create(people.alice, delivery_hash(own), "hi"), own)
    assert cli.main(["paper", "read", "--storage", storage, to_own, "--json"]) == 0
    assert said(capsys)["verified"] is True
    assert cli.main(["paper", "make", "--storage", storage, "--to", "00" * 16, "hello"]) == 1
    assert "does not know" in capsys.readouterr().err


def test_a_message_is_stored_once(people: People, capsys: pytest.CaptureFixture[str]) -> None:
    storage = people.folder / "storage"
    storage.mkdir()
    people.bob.save(storage / "identity")
    words = ["paper", "read", "--storage", str(storage), "--keep"]
    uri = people.uri("keep me")
    for told in ("  stored\n", "  stored before\n"):
        assert cli.main([*words, uri]) == 0
        assert capsys.readouterr().out.endswith(told)
    assert cli.main([*words, "--json", people.uri("me too")]) == 0
    assert said(capsys)["kept"] is True
    with MailStore(storage / "mail.db") as store:
        assert [(each.unread, each.method) for each in store] == [(True, Method.PAPER)] * 2
    assert read(people, "--keep", uri) == 1
    assert "--storage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["read", "lxm://x"], "uri"),
        (["read", "http://example.com"], "uri"),
        (["read", "--who", "alice"], "cannot be opened"),
        (["read", "--sender", "nobody.public"], "nobody.public: No such file"),
        (["make", "--to", "nobody.public", "hi"], "nobody.public: No such file"),
        (["make", "--to", "00" * 16, "hi"], "--storage"),
        (["make", "--attach", "nothing.bin", "hi"], "nothing.bin: No such file"),
        (["make", "p" * 3000], "paper holds 2210"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_fails_ends_with_1_and_a_sentence(
    people: People, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = arguments
    if command == "make":
        to = [] if "--to" in rest else ["--to", people.file("bob.public")]
        status = make(people, *to, *rest)
    elif rest[0] == "--who":
        status = read(people, people.uri(), who=rest[1])
    else:
        status = read(people, *([people.uri()] if rest[0].startswith("-") else []), *rest)
    told = capsys.readouterr()
    assert status == 1
    assert told.out == ""
    assert reason in told.err
    assert told.err.count("\n") == 1


def test_what_a_peer_writes_cannot_drive_the_terminal(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x07\r\N{RIGHT-TO-LEFT OVERRIDE}x"
    uri = people.uri(
        evil,
        title=evil,
        timestamp=1e300,
        fields=fields.build(
            attachments=[fields.Attachment(f"../{evil}", b"")],
            reaction=fields.Reaction(bytes(32), evil),
            image=fields.Image(evil, b"12"),
            audio=fields.Audio(1, b"1"),
            reply_to=bytes(32),
            telemetry=fields.Telemetry(time=1),
            commands=[fields.Command(evil)],
        ),
    )
    assert read(people, uri) == 0
    told = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in told)
    for part in ("[audio codec2, 1 bytes]", "[telemetry]", "[command ", "[answers 00", "2 bytes]"):
        assert part in told


def test_the_published_example_is_refused_with_a_sentence(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    given = named("lxmf", "paper_published_example")["input"]
    file = people.folder / "published.identity"
    file.write_bytes(raw(given["private_key"]) or b"")
    assert cli.main(["paper", "read", "--identity", str(file), given["uri"]]) == 1
    assert "cannot be opened" in capsys.readouterr().err
