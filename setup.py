"""Builds netmesh's two extension modules; everything else is in pyproject.toml.

Switches, from the environment:

NETMESH_DEBUG=1                       no optimisation, assertions on, warnings are errors
NETMESH_SANITIZE=address,undefined    build under these sanitizers (or: thread)
NETMESH_COVERAGE=1                    record line coverage (gcov)
NETMESH_WERROR=1                      warnings are errors, otherwise a release build
NETMESH_QUICK=1                       a release build without link-time optimisation: made in
                                      seconds, some per cent slower

Each combination keeps its objects in its own folder under build/, and only what
changed is compiled again: a source when it, a header that it includes or the command
line is newer than its object.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("NETMESH_DEBUG", "") not in ("", "0")
SANITIZE = os.environ.get("NETMESH_SANITIZE", "")
COVERAGE = os.environ.get("NETMESH_COVERAGE", "") not in ("", "0")
QUICK = os.environ.get("NETMESH_QUICK", "") not in ("", "0")
WERROR = DEBUG or os.environ.get("NETMESH_WERROR", "") not in ("", "0")

WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wvla",
    "-Wundef",
]


@dataclass(frozen=True)
class Library:
    """A system library: its pkg-config name, its oldest good version, its packages."""

    name: str
    minimum: str
    debian: str
    fedora: str
    macos: str
    # For distributions that ship the library without a pkg-config file.
    header: str = ""
    link: str = ""


PKG_CONFIG = Library("pkg-config", "0.26", "pkg-config", "pkgconf-pkg-config", "pkgconf")
LIBRARIES = (
    Library("libsodium", "1.0.18", "libsodium-dev", "libsodium-devel", "libsodium"),
    Library("libcrypto", "3.0", "libssl-dev", "openssl-devel", "openssl@3"),
    Library("libuv", "1.42", "libuv1-dev", "libuv-devel", "libuv"),
    Library("bzip2", "1.0.6", "libbz2-dev", "bzip2-devel", "bzip2", "bzlib.h", "-lbz2"),
    Library("libzstd", "1.4.0", "libzstd-dev", "libzstd-devel", "zstd"),
    Library("sqlite3", "3.34", "libsqlite3-dev", "sqlite-devel", "sqlite"),
)


def refuse(missing: list[Library]) -> None:
    """Ends the build with one sentence that says what to install where."""
    wanted = " and ".join(f"{lib.name} {lib.minimum} or newer" for lib in missing)
    places = ", ".join(
        f"{' '.join(getattr(lib, system) for lib in missing)} ({label})"
        for system, label in (("debian", "Debian"), ("fedora", "Fedora"), ("macos", "macOS"))
    )
    raise SystemExit(f"netmesh needs {wanted} to build: install {places}.")


def pkg_config(*arguments: str) -> list[str] | None:
    """The words that pkg-config prints, or None when it refuses."""
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return shlex.split(done.stdout) if done.returncode == 0 else None


def find_libraries(compiler: list[str]) -> tuple[list[str], list[str]]:
    """Compile flags and link flags of all libraries; refuses when one is missing."""
    if shutil.which(os.environ.get("PKG_CONFIG", "pkg-config")) is None:
        refuse([PKG_CONFIG])
    compile_flags: list[str] = []
    link_flags: list[str] = []
    missing = []
    for lib in LIBRARIES:
        if pkg_config(f"--atleast-version={lib.minimum}", lib.name) is not None:
            compile_flags += pkg_config("--cflags", lib.name) or []
            link_flags += pkg_config("--libs", lib.name) or []
        elif (
            lib.header
            and pkg_config("--exists", lib.name) is None
            and has_header(compiler, lib.header)
        ):
            link_flags.append(lib.link)
        else:
            missing.append(lib)
    if missing:
        refuse(missing)
    return compile_flags, link_flags


def has_header(compiler: list[str], header: str) -> bool:
    """Whether the compiler finds a header by itself."""
    command = [*compiler, "-E", "-x", "c", "-include", header, os.devnull]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def is_clang(compiler: list[str]) -> bool:
    """Whether it is clang under any name."""
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    return "clang" in version.stdout


def can_optimise_at_link(compiler: list[str]) -> bool:
    """Whether link-time optimisation works with the system's own linker."""
    return not is_clang(compiler) or platform.system() == "Darwin"


def mode_flags(compiler: list[str]) -> list[str]:
    """Flags of the chosen build mode, given to the compiler and to the linker alike."""
    flags = ["-g"]
    if SANITIZE:
        flags += [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"]
        flags += ["-fno-omit-frame-pointer", "-O1"]
        if not is_clang(compiler):
            # Instrumented code hides from the compiler what it would need to know for this.
            flags.append("-Wno-maybe-uninitialized")
    elif COVERAGE:
        flags += ["--coverage", "-O0"]
    elif DEBUG:
        flags += ["-Og"]
    else:
        flags += ["-O3"]
        if not QUICK and can_optimise_at_link(compiler):
            flags.append("-flto" if platform.system() == "Darwin" else "-flto=auto")
    return flags


def is_current(target: Path, inputs: list[Path], command: list[str]) -> bool:
    """Whether `target` is newer than its inputs and was made by the same command."""
    stamp = target.with_suffix(".cmd")
    if not target.exists() or not stamp.exists() or stamp.read_text() != stamp_text(command):
        return False
    made = target.stat().st_mtime
    return all(path.exists() and path.stat().st_mtime <= made for path in inputs)


def run(command: list[str], target: Path) -> None:
    """Runs one compiler command and remembers it beside what it made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(
            f"netmesh: could not build {target.name}; the command was:\n  {shlex.join(command)}"
        )
    target.with_suffix(".cmd").write_text(stamp_text(command))


def stamp_text(command: list[str]) -> str:
    """What makes two commands the same: whether warnings end it does not change its output."""
    return shlex.join(word for word in command if word != "-Werror")


class BuildExtensions(build_ext):
    """Compiles with one job per core, and only what changed."""

    def build_extension(self, ext: Extension) -> None:
        """Compiles and links one module into setuptools' build folder."""
        compiler = list(self.compiler.compiler_so)
        if shutil.which(compiler[0]) is None:
            raise SystemExit(
                "netmesh needs a C compiler to build: install gcc (Debian), "
                "gcc (Fedora) or the Xcode command line tools (macOS)."
            )
        library_flags, link_flags = find_libraries(compiler)
        mode = mode_flags(compiler)
        command = [*compiler, "-std=c11", "-D_DEFAULT_SOURCE", "-fPIC", "-fvisibility=hidden"]
        command += [*WARNINGS, *mode]
        command += ["-Werror"] if WERROR else []
        command += ["-UNDEBUG"] if DEBUG or SANITIZE else []
        command += ["-Icsrc", *python_include(), *library_flags]
        folder = object_folder()
        objects = self.compile_sources(ext, command, folder)
        module = folder / Path(self.get_ext_fullpath(ext.name)).name
        link = [*self.compiler.linker_so, *map(str, objects), "-o", str(module), *mode]
        link += link_flags
        if self.force or not is_current(module, objects, link):
            print(f"netmesh: linking {ext.name}", flush=True)
            run(link, module)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(module, target)

    def compile_sources(self, ext: Extension, command: list[str], folder: Path) -> list[Path]:
        """Compiles what is out of date; returns all objects of the extension."""
        work: list[tuple[list[str], Path]] = []
        objects = []
        for source in ext.sources:
            target = folder / Path(source).with_suffix(".o")
            full = [*command, "-MMD", "-c", source, "-o", str(target)]
            objects.append(target)
            if self.force or not is_current(target, dependencies(target), full):
                work.append((full, target))
        jobs = os.cpu_count() or 1
        if len(work) > 1:
            print(f"netmesh: compiling {len(work)} files, {jobs} at a time", flush=True)
        with ThreadPoolExecutor(jobs) as pool:
            for _ in pool.map(lambda job: run(*job), work):
                pass
        return objects


def dependencies(target: Path) -> list[Path]:
    """The source and headers that an object was made from, as the compiler wrote them."""
    record = target.with_suffix(".d")
    if not record.exists():
        return [Path("missing")]
    words = record.read_text().replace("\\\n", " ").split()
    return [Path(word) for word in words[1:]]


def python_include() -> list[str]:
    """Python's headers as system headers, so that our warnings do not apply to them."""
    paths = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    return [word for path in sorted(paths) for word in ("-isystem", path)]


def object_folder() -> Path:
    """The folder for objects of this Python and these switches, kept between builds."""
    parts = [re.sub(r"\W+", "-", SANITIZE), "debug" * DEBUG, "coverage" * COVERAGE, "quick" * QUICK]
    kind = "".join(f"-{part}" for part in parts if part)
    return Path("build", f"objects-{sysconfig.get_config_var('SOABI')}{kind}")


def sources(*folders: str) -> list[str]:
    """All C files below some folders, in a fixed order, relative to this folder."""
    return sorted(str(path) for folder in folders for path in Path(folder).rglob("*.c"))


ROOMS = sources(*(str(path) for path in Path("csrc").iterdir() if path.name != "py"))
# A checkout without one of these folders (an embedder's, say) builds the other module.
MODULES = {"netmesh._core": sources("csrc/py"), "netmesh._bench": sources("benchmarks/native")}

setup(
    cmdclass={"build_ext": BuildExtensions},
    ext_modules=[Extension(name, sources=ROOMS + own) for name, own in MODULES.items() if own],
)
