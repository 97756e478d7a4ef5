"""The upstream Python stack (rns and lxmf from PyPI) as an arm of the comparison.

Usage: ``python benchmarks/upstream/adapter.py PROVIDER FOLDER --list|--serve|--node``

PROVIDER is ``openssl``, the stack as it is normally installed, or ``internal``, its own
Python cryptography: it chooses that when the package ``cryptography`` cannot be imported, so
this process makes it so before it imports the stack. FOLDER holds the inputs that the parent
made. The protocol is that of the Rust adapters (benchmarks/rust/README.md);
``--node`` is one side of a row between two processes (benchmarks/README.md).

Nothing of netmesh's own code is loaded but the timing loop, the inputs and the protocol.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
KIT = HERE.parents[1] / "netmesh" / "bench" / "kit"
PROVIDERS = ("openssl", "internal")

CONFIGURATION = """\
[reticulum]
  enable_transport = no
  share_instance = no
  panic_on_interface_error = no

[logging]
  loglevel = 0

[interfaces]
"""


def load_kit() -> ModuleType:
    """The timing loop and the inputs, as a package of their own."""
    spec = importlib.util.spec_from_file_location(
        "bench_kit", KIT / "__init__.py", submodule_search_locations=[str(KIT)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["bench_kit"] = package
    spec.loader.exec_module(package)
    return package


def choose_provider(provider: str) -> None:
    """Makes the stack choose this provider; raises RuntimeError when it cannot."""
    if provider == "internal":
        sys.modules["cryptography"] = None  # type: ignore[assignment]
    import RNS

    internal = RNS.Cryptography.Provider.PROVIDER == RNS.Cryptography.Provider.PROVIDER_INTERNAL
    if internal != (provider == "internal"):
        raise RuntimeError("rns uses its internal provider: install the package 'cryptography'")


def versions(provider: str) -> dict[str, str]:
    """The packages whose code is measured."""
    names = ["rns", "lxmf"] + (["cryptography"] if provider == "openssl" else [])
    found = {name: importlib.metadata.version(name) for name in names}
    if provider == "openssl":
        from cryptography.hazmat.backends.openssl import backend

        found["openssl"] = backend.openssl_version_text()
    return found


def start_stack() -> str:
    """Starts the stack without interfaces in a folder of its own; returns the folder."""
    import RNS

    folder = tempfile.mkdtemp(prefix="netmesh-bench-rns-")
    Path(folder, "config").write_text(CONFIGURATION)
    RNS.Reticulum(configdir=folder, loglevel=0)
    return folder


def main(arguments: list[str]) -> int:
    """Runs the adapter; returns the exit code."""
    if len(arguments) != 3 or arguments[0] not in PROVIDERS:
        print("usage: adapter.py openssl|internal FOLDER --list|--serve|--node", file=sys.stderr)
        return 2
    provider, inputs, mode = arguments
    load_kit()
    harness = importlib.import_module("bench_kit.harness")
    try:
        choose_provider(provider)
    except (ImportError, RuntimeError) as error:
        print(f"upstream adapter: {error}", file=sys.stderr)
        return 1
    sys.path.insert(0, str(HERE))
    rows = {"control.empty": harness.control_offer()}
    for suite in ("messages", "packets", "announces", "identities", "resources", "links", "stamps"):
        rows |= importlib.import_module(f"rows_{suite}").offers(Path(inputs))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    worker = harness.Worker(
        peer=f"rns-{provider}",
        versions=versions(provider),
        licence="Reticulum License",
        flags=python,
        rows=rows,
        kinds=importlib.import_module("node").KINDS,
    )
    if mode == "--node":
        return int(importlib.import_module("node").main(importlib.import_module("bench_kit.nodes")))
    if mode != "--serve":
        return int(harness.run(worker, [mode]))
    folder = start_stack()
    try:
        return int(harness.run(worker, [mode]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # The stack's threads and exit handlers would write to its folder, which is gone.
    os._exit(code)
