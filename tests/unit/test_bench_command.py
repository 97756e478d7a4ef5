"""``netmesh bench``: a real quick run of a few rows, its files, options and exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from netmesh.bench import cli, markdown, report, targets
from netmesh.bench.model import Row
from netmesh.bench.targets import Target

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "report-schema.json").read_text())
QUICK = ["--quick", "--quiet", "--arms", "core,library,netmesh,pure,lxmf-rs"]
NAMES = ["packet.pack", "identity.sign", "segment.desc"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A quick run of three rows, with a benchmarks folder in which nothing is built."""
    folder = tmp_path_factory.mktemp("report")
    empty = folder / "benchmarks"
    empty.mkdir()
    files = ["--json", str(folder / "new" / "r.json"), "--markdown", str(folder / "r.md")]
    status = cli.main([*QUICK, "--benchmarks", str(empty), *files, *NAMES])
    assert status == 0
    content: dict[str, Any] = json.loads((folder / "new" / "r.json").read_text())
    assert (folder / "r.md").read_text() == markdown.render(content)
    return content


def test_a_real_report_follows_the_schema(made: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(made, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_the_kept_report_follows_the_schema() -> None:
    kept = json.loads((ROOT / "docs" / "reports" / "latest.json").read_text())
    jsonschema.validate(kept, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert (ROOT / "docs" / "reports" / "latest.md").read_text() == markdown.render(kept)


def test_the_schema_refuses_what_is_not_described(made: dict[str, Any]) -> None:
    for path, value in (("version", 1), ("extra", 1), ("rows", [])):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**made, path: value}, SCHEMA)
    broken = json.loads(json.dumps(made))
    del broken["rows"][0]["results"]["core"]["single"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)


def test_every_key_of_the_schema_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "report.md").read_text()

    def keys(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(keys, node))
        if not isinstance(node, dict):
            return set()
        own = set(node["properties"]) if isinstance(node.get("properties"), dict) else set()
        return own.union(*map(keys, node.values()))

    told = {"rust_variability", "python_variability", "rust_rss_mib", "python_rss_mib"}
    told |= {"rust_best_ns", "ratio", "name", "title", "text"}  # of the published figures
    assert {key for key in keys(SCHEMA) if f"`{key}`" not in page} <= told


def test_all_rows_asked_for_are_there_and_the_control_with_them(made: dict[str, Any]) -> None:
    assert {row["id"] for row in made["rows"]} == {*NAMES, "control.aa"}
    control = next(row for row in made["rows"] if row["id"] == "control.aa")
    assert {"core", "core-again", "netmesh", "netmesh-again"} <= set(control["results"])


def test_figures_hang_together(made: dict[str, Any]) -> None:
    for row in made["rows"]:
        for result in row["results"].values():
            assert result["min_ns"] <= result["p50_ns"]
            assert result["checks"] >= result["blocks"]
            single = result["single"]
            order = [single[key] for key in ("p50_ns", "p95_ns", "p99_ns", "p99_9_ns", "max_ns")]
            assert order == sorted(order)
        core = row["results"]["core"]["p50_ns"]
        assert row["ratios"]["netmesh"]["of_core"] == pytest.approx(
            row["results"]["netmesh"]["p50_ns"] / core
        )
    sign = next(row for row in made["rows"] if row["id"] == "identity.sign")
    assert sign["published"]["rust_ns"] == 26940
    assert "library" in sign["results"]
    assert sign["leader"]["arm"] != "library"


def test_missing_rust_stacks_are_named_with_what_to_do(made: dict[str, Any]) -> None:
    [arm] = [arm for arm in made["arms"] if arm["id"] == "lxmf-rs"]
    assert not arm["available"]
    assert "make rust-peers" in arm["reason"]
    assert all("make rust-peers" in row["missing"]["lxmf-rs"] for row in made["rows"])
    assert "LXMF-rs: not built; 'make rust-peers' builds it." in markdown.render(made)


def test_the_page_shows_rows_that_others_lead(made: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(made))
    row = next(row for row in changed["rows"] if row["id"] == "packet.pack")
    winner = json.loads(json.dumps(row["results"]["core"]))
    winner |= {"p50_ns": 0.5, "min_ns": 0.5, "note": "a faster one"}
    row["results"]["rns-rs"] = winner
    row["leader"] = report.leader(row["results"])
    changed["arms"].append(
        {**changed["arms"][0], "id": "rns-rs", "title": "rns-rs", "kind": "rust"}
    )
    changed["notes"] = report.closing_notes(changed["rows"], {"rns-rs": "rns-rs"})
    page = markdown.render(changed)
    line = next(line for line in page.splitlines() if line.startswith("| pack HEADER_1"))
    assert line.rstrip(" |").endswith("rns-rs")
    assert "packet.pack: rns-rs is" in page


def test_a_failed_figure_is_shown_and_changes_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for _, row in cli.ALL.rows() if row.id == "segment.desc")
    wrong = Row(id=row.id, title=row.title, operation=row.operation, evidence=lambda _k, _i: b"?")
    suite = next(suite for suite, other in cli.ALL.rows() if other is row)
    monkeypatch.setattr(cli, "select", lambda *_arguments: [(suite, wrong)])
    assert cli.main(["--quick", "--quiet", "--arms", "core", "segment.desc"]) == 1
    assert "FAILED segment.desc, C core: wrong output" in capsys.readouterr().out


def test_comparing_with_an_older_report_prints_the_changes(
    made: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for row in made["rows"]:
        for result in row["results"].values():
            result["p50_ns"] *= 100
    old = tmp_path / "old.json"
    old.write_text(json.dumps(made))
    arguments = ["--quick", "--quiet", "--arms", "core", "--compare", str(old), "packet.pack"]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "faster" in shown
    assert "differ by more than the noise" in shown


def test_a_kept_report_can_be_shown_again(
    made: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, page = tmp_path / "kept.json", tmp_path / "kept.md"
    kept.write_text(json.dumps(made))
    assert cli.main(["--from", str(kept), "--markdown", str(page), "--compare", str(kept)]) == 0
    assert page.read_text() == markdown.render(made)
    assert "\n0 of" in capsys.readouterr().out
    assert cli.main(["--from", str(tmp_path / "none.json")]) == 2


def test_check_fails_when_a_required_target_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--quiet", "--arms", "core", "--check", "segment.desc"]
    impossible = Target(("segment.desc",), "core", "time", 0.001)
    monkeypatch.setattr(targets, "TARGETS", (impossible,))
    assert cli.main(arguments) == 1
    assert "MISSED segment.desc, C core: at most 0.00 ns" in capsys.readouterr().err
    easy = Target(("segment.desc",), "core", "time", 1e9)
    monkeypatch.setattr(targets, "TARGETS", (easy,))
    assert cli.main(arguments) == 0
    hopeless = Target(("segment.desc",), "core", "time", 0.001, required=False)
    monkeypatch.setattr(targets, "TARGETS", (hopeless,))
    assert cli.main(arguments) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no.such.row"], "no suite or row is called 'no.such.row'"),
        (["--arms", "core,nobody"], "there is no arm nobody"),
        (["--compare", "no/such/file.json"], "No such file"),
        (["--compare", __file__], "is no JSON"),
    ],
)
def test_mistakes_on_the_command_line_are_explained(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert text in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_known_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--quick", "--json", str(tmp_path), "segment.desc"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    file = tmp_path / "file"
    file.touch()
    assert cli.main(["--quick", "--markdown", str(file / "x.md"), "segment.desc"]) == 2


def test_nothing_to_measure_is_a_failure_with_the_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--arms", "rns-rs", "--benchmarks", str(tmp_path), "packet.pack"]
    assert cli.main(arguments) == 1
    assert "rns-rs: not built; 'make rust-peers' builds it" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--tolerance", "-1"], ["--fly"]])
def test_bad_options_end_with_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as found:
        cli.main(arguments)
    assert found.value.code == 2


def test_names_select_suites_rows_and_globs() -> None:
    def names(*arguments: str) -> list[str]:
        return [row.id for _, row in cli.select(arguments)]

    assert names("links") == ["control.aa", "link.handshake.both"]
    assert names("token.encrypt.464", "packet.pack") == [
        "control.aa",
        "packet.pack",
        "token.encrypt.464",
    ]
    assert len(names("lxmf.decode.*.21")) == 1 + 3
    everything = names()
    quick = [row.id for _, row in cli.select([], quick=True)]
    assert set(quick) < set(everything)
    assert "announce.validate.batch64" in everything


@pytest.mark.parametrize("start", [["-m", "netmesh.bench"], ["-m", "netmesh", "bench"]])
def test_both_ways_to_start_it_list_rows_and_arms(start: list[str]) -> None:
    command = [sys.executable, *start, "--list", "--arms", "core,rns-rs-native", "stamps"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0
    assert "stamp.workblock.3000" in done.stdout
    assert "core               C core; available" in done.stdout


def test_help_teaches_rows_other_stacks_and_exit_status() -> None:
    text = cli.parser().format_help()
    for wanted in ("make rust-peers", "netmesh[peers]", "exit status:", "A/A", "--compare"):
        assert wanted in text
