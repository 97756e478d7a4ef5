"""The source distribution holds what a build needs; the package's metadata are right."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from netmesh._version import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this checkout's tracked files, unpacked."""
    work = tmp_path_factory.mktemp("sdist")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: nothing says which files belong to it")
    copy = work / "checkout"
    for name in listed.stdout.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    subprocess.run(
        [sys.executable, "-c", "from setuptools.build_meta import build_sdist as b; b('dist')"],
        cwd=copy,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    (archive,) = (copy / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(work, filter="data")
    return work / archive.name.removesuffix(".tar.gz")


def test_the_version_is_single_sourced(sdist: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert importlib.metadata.version("netmesh") == __version__
    assert sdist.name == f"netmesh-{__version__}"


def test_the_source_distribution_holds_every_source(sdist: Path) -> None:
    folders = ("csrc", "netmesh", "benchmarks/native", "docs", "scripts", "tests")
    expected = {
        path.relative_to(ROOT)
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".c", ".h", ".py", ".pyi", ".md"} and "build" not in path.parts
    }
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    missing = {str(path) for path in expected if not (sdist / path).exists()} & set(tracked)
    assert not missing
    for name in ("LICENSE", "README.md", "Makefile", "netmesh/py.typed", "scripts/bootstrap"):
        assert (sdist / name).exists(), name


def test_the_source_distribution_holds_nothing_built(sdist: Path) -> None:
    built = [path for path in sdist.rglob("*") if path.suffix in {".o", ".so", ".pyc", ".a"}]
    assert not built


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles everything
def test_the_source_distribution_builds_and_runs(sdist: Path, tmp_path: Path) -> None:
    target = tmp_path / "lib"
    command = [sys.executable, "setup.py", "--quiet", "build", "--build-lib", str(target)]
    done = subprocess.run(command, cwd=sdist, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program = "import netmesh; print(netmesh.__file__, netmesh._core.__file__)"
    found = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(path.startswith(str(target)) for path in found.stdout.split())


def test_there_are_no_runtime_dependencies() -> None:
    required = importlib.metadata.requires("netmesh") or []
    assert [entry for entry in required if not re.search(r"extra ==", entry)] == []
