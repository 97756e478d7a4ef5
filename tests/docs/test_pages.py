"""The documents: their examples run, their links lead somewhere, no public name is missing."""

from __future__ import annotations

import enum
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REFERENCE = ROOT / "docs" / "reference"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

# Each public module and the page that describes its names.
MODULES = {
    "netmesh.announce": "announce.md",
    "netmesh.bot": "bot.md",
    "netmesh.channel": "channel.md",
    "netmesh.channels": "channels.md",
    "netmesh.constants": "constants.md",
    "netmesh.control": "control.md",
    "netmesh.crypto": "crypto.md",
    "netmesh.decisions": "decisions.md",
    "netmesh.destination": "destination.md",
    "netmesh.destinations": "node.md",
    "netmesh.engine": "engine.md",
    "netmesh.errors": "errors.md",
    "netmesh.events": "events.md",
    "netmesh.framing": "framing.md",
    "netmesh.identity": "identity.md",
    "netmesh.ifac": "ifac.md",
    "netmesh.interfaces": "interfaces.md",
    "netmesh.link": "link.md",
    "netmesh.links": "node.md",
    "netmesh.loop": "node.md",
    "netmesh.lxmf": "lxmf.md",
    "netmesh.lxmf.fields": "fields.md",
    "netmesh.lxmf.stamp": "stamp.md",
    "netmesh.mailarchive": "mailarchive.md",
    "netmesh.mailstore": "mailstore.md",
    "netmesh.messaging": "messaging.md",
    "netmesh.metrics": "node.md",
    "netmesh.msgpack": "msgpack.md",
    "netmesh.node": "node.md",
    "netmesh.packet": "packet.md",
    "netmesh.paper": "paper.md",
    "netmesh.records": "records.md",
    "netmesh.resource": "resource.md",
    "netmesh.sim": "sim.md",
    "netmesh.sim.networks": "sim.md",
    "netmesh.sim.scenarios": "sim.md",
    "netmesh.sim.sweeps": "sim.md",
    "netmesh.sim.topology": "sim.md",
    "netmesh.streams": "node.md",
    "netmesh.sync": "sync.md",
    "netmesh.transfers": "node.md",
    "netmesh.transport": "transport.md",
    "netmesh.trouble": "node.md",
}


def name_of(page: Path) -> str:
    """The page's path from the root, for the test's name."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> str:
    """The page's Python blocks as one program with the page's line numbers."""
    text = page.read_text()
    program = ""
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        program += "\n" * (line - program.count("\n")) + block[1]
    return program


def anchors(page: Path) -> set[str]:
    """The names that a page's headings can be linked by."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name_of)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = compile(blocks(page), str(page), "exec", dont_inherit=True)
    exec(program, {"__name__": "example"})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_is_reached_from_the_index(page: Path) -> None:
    index = ROOT / "docs" / "index.md"
    if page == index or page.parent == ROOT:
        return
    linked = {
        (index.parent / link.partition("#")[0]).resolve()
        for link in LINK.findall(index.read_text())
    }
    assert page in linked


def public_names(module: ModuleType) -> set[str]:
    """What a module exports, and the public members of its classes."""
    exported = getattr(module, "__all__", None)
    if exported is None:  # constants: all numbers and classes of codes
        kinds = (int, float, enum.EnumType)
        exported = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and isinstance(value, kinds)
        ]
    names = set(exported)
    for name in exported:
        value = getattr(module, name)
        again = isinstance(value, enum.EnumType) and value.__module__ != module.__name__
        if isinstance(value, type) and value.__module__.startswith("netmesh") and not again:
            names |= {f"{name}.{member}" for member in vars(value) if not member.startswith("_")}
    return names


@pytest.mark.parametrize("name", sorted(MODULES))
def test_reference_names_everything_public(name: str) -> None:
    page = FENCED.sub("", (REFERENCE / MODULES[name]).read_text())
    named = re.findall(r"`([^`]+)`|^#+ (.+)$", page, re.MULTILINE)
    words = set(re.findall(r"\w+", " ".join(code + heading for code, heading in named)))
    missing = {
        public
        for public in public_names(importlib.import_module(name))
        if public.rsplit(".")[-1] not in words
    }
    assert not missing


def test_every_public_module_has_a_page() -> None:
    package = importlib.import_module("netmesh")
    folder = Path(str(package.__file__)).parent
    found = {
        ".".join(("netmesh", *path.relative_to(folder).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        for path in folder.rglob("*.py")
        if not any(part.startswith("_") and part != "__init__.py" for part in path.parts)
    }
    apart = {"netmesh", "netmesh.cli", "netmesh.demo"}
    twins = {name for name in found if name.startswith(("netmesh.pure", "netmesh.bench"))}
    assert found - apart - twins == set(MODULES)


@pytest.mark.parametrize("name", ["constants_page.py", "records_pages.py", "readme_table.py"])
def test_what_scripts_write_is_current(name: str) -> None:
    script = ROOT / "scripts" / name
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0
