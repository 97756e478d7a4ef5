"""setup.py: what it says when a library is missing, and what it compiles again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = """\
#include <Python.h>
#include "base/answer.h"
PyMODINIT_FUNC PyInit_NAME(void);
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "NAME", 0, 0, 0, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit_NAME(void) { return nm_answer() ? PyModuleDef_Init(&def) : 0; }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of three sources that is built by netmesh's setup.py."""
    shutil.copy(ROOT / "setup.py", tmp_path)
    files = {
        "csrc/base/answer.h": "int nm_answer(void);\n",
        "csrc/base/answer.c": '#include "base/answer.h"\nint nm_answer(void) { return 42; }\n',
        "csrc/py/module.c": MODULE.replace("NAME", "_core"),
        "benchmarks/native/module.c": MODULE.replace("NAME", "_bench"),
        "netmesh/__init__.py": "",
        "pyproject.toml": '[project]\nname = "netmesh"\nversion = "0"\n'
        '[tool.setuptools]\npackages = ["netmesh"]\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def build(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs setup.py's build in place, with some environment variables set."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NETMESH_", "PKG_CONFIG", "LD_PRELOAD"))
    }
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=project,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def objects(project: Path) -> dict[str, int]:
    """The modification time of each object, by its source's place."""
    return {
        re.sub(
            r"^build/objects-[^/]+/", "", str(path.relative_to(project))
        ): path.stat().st_mtime_ns
        for path in (project / "build").rglob("*.o")
    }


def rebuilt(project: Path, before: dict[str, int]) -> set[str]:
    """Which objects are newer than they were."""
    return {name for name, made in objects(project).items() if made != before.get(name)}


def test_missing_libraries_are_named_in_one_sentence(project: Path) -> None:
    empty = project / "no-pkg-config-files"
    empty.mkdir()
    done = build(project, PKG_CONFIG_LIBDIR=str(empty))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert lines == [
        "netmesh needs libsodium 1.0.18 or newer and libcrypto 3.0 or newer and libuv 1.42 or "
        "newer and libzstd 1.4.0 or newer and sqlite3 3.34 or newer to build: install "
        "libsodium-dev libssl-dev libuv1-dev libzstd-dev libsqlite3-dev (Debian), "
        "libsodium-devel openssl-devel libuv-devel libzstd-devel sqlite-devel (Fedora), "
        "libsodium openssl@3 libuv zstd sqlite (macOS)."
    ]


def test_a_library_that_is_too_old_counts_as_missing(project: Path) -> None:
    folder = project / "old"
    folder.mkdir()
    for name, version in (
        ("libsodium", "1.0.17"),
        ("libcrypto", "3.0.11"),
        ("libuv", "1.44.2"),
        ("bzip2", "1.0.8"),
        ("libzstd", "1.5.4"),
        ("sqlite3", "3.40.1"),
    ):
        (folder / f"{name}.pc").write_text(
            f"Name: {name}\nDescription: for a test\nVersion: {version}\nLibs:\nCflags:\n"
        )
    done = build(project, PKG_CONFIG_LIBDIR=str(folder))
    assert done.returncode != 0
    assert done.stderr.startswith("netmesh needs libsodium 1.0.18 or newer to build: install ")
    assert "openssl" not in done.stderr


def test_missing_pkg_config_is_named(project: Path) -> None:
    done = build(project, PKG_CONFIG="pkg-config-that-is-not-there")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "install pkg-config (Debian), pkgconf-pkg-config (Fedora), pkgconf" in done.stderr


def test_a_missing_compiler_is_named(project: Path) -> None:
    done = build(project, CC="compiler-that-is-not-there")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "netmesh needs a C compiler to build: install gcc (Debian)" in done.stderr


def test_a_second_build_compiles_nothing(project: Path) -> None:
    assert build(project).returncode == 0
    before = objects(project)
    assert set(before) == {"csrc/base/answer.o", "csrc/py/module.o", "benchmarks/native/module.o"}
    assert build(project).returncode == 0
    assert rebuilt(project, before) == set()


def test_an_edited_source_is_compiled_alone(project: Path) -> None:
    assert build(project).returncode == 0
    before = objects(project)
    (project / "csrc/base/answer.c").write_text(
        '#include "base/answer.h"\nint nm_answer(void) { return 43; }\n'
    )
    assert build(project).returncode == 0
    assert rebuilt(project, before) == {"csrc/base/answer.o"}


def test_an_edited_header_recompiles_what_includes_it(project: Path) -> None:
    (project / "csrc/base/other.c").write_text(
        "int nm_other(void);\nint nm_other(void) { return 1; }\n"
    )
    assert build(project).returncode == 0
    before = objects(project)
    (project / "csrc/base/answer.h").write_text("/* a comment */\nint nm_answer(void);\n")
    assert build(project).returncode == 0
    assert rebuilt(project, before) == {
        "csrc/base/answer.o",
        "csrc/py/module.o",
        "benchmarks/native/module.o",
    }


def test_switches_keep_objects_of_their_own(project: Path) -> None:
    assert build(project).returncode == 0
    release = {path: path.stat().st_mtime_ns for path in (project / "build").rglob("*.o")}
    assert build(project, NETMESH_DEBUG="1").returncode == 0
    debug = set((project / "build").rglob("*.o")) - set(release)
    assert len(debug) == len(release)
    assert build(project).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in release} == release


def test_built_modules_import(project: Path) -> None:
    assert build(project).returncode == 0
    program = "import netmesh._core, netmesh._bench; print(netmesh._core.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=True
    )
    assert done.stdout == "netmesh._core\n"


def test_warnings_fail_only_the_builds_that_ask_for_it(project: Path) -> None:
    (project / "csrc/base/narrow.c").write_text(
        textwrap.dedent("""\
            int nm_narrow(long wide);
            int nm_narrow(long wide) { return wide; }
        """)
    )
    assert build(project, NETMESH_WERROR="1").returncode != 0
    assert build(project, NETMESH_DEBUG="1").returncode != 0
    plain = build(project)
    assert plain.returncode == 0
    assert "-Wconversion" in plain.stderr
