"""The ``netmesh`` command.

Exit status: 0 when the command did what it says, 1 when it failed (the reason is on
standard error), 2 for a command line that is not understood, 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence

from netmesh import _core
from netmesh._version import __version__

Command = Callable[[Sequence[str]], int]

DESCRIPTION = """\
commands:
  demo      show what netmesh does, ending with agents and an upstream process
  send      send a message
  inbox     show messages as they come
  mail      list, search, export and import stored messages
  paper     make and read messages on paper: URIs and QR codes
  bench     compare netmesh with other implementations on this machine
  sim       simulate networks under seeds
  version   print the versions of netmesh and of the libraries that it runs on

'netmesh COMMAND --help' tells the options of a command.
"""


def version(arguments: Sequence[str]) -> int:
    """Prints the versions in use, as text or as one JSON object."""
    parser = argparse.ArgumentParser(
        prog="netmesh version",
        description="Prints the versions of netmesh, of Python and of the libraries in use.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    libraries = _core.library_versions()
    features = list(_core.cpu_features())
    if options.json:
        record = {
            "netmesh": __version__,
            "python": platform.python_version(),
            "libraries": libraries,
            "cpu_features": features,
        }
        print(json.dumps(record, indent=2))
        return 0
    print(f"netmesh {__version__}, Python {platform.python_version()}")
    for name, number in libraries.items():
        print(f"  {name} {number}")
    print(f"  instruction sets in use: {', '.join(features) or 'portable C only'}")
    return 0


def module_command(module: str) -> Command:
    """A command that lives in a module of its own, imported when it is called."""

    def run(arguments: Sequence[str]) -> int:
        return int(importlib.import_module(module).main(list(arguments)))

    return run


COMMANDS: dict[str, Command] = {
    "bench": module_command("netmesh.bench"),
    "demo": module_command("netmesh.demo"),
    "inbox": module_command("netmesh._cli_inbox"),
    "mail": module_command("netmesh._cli_store"),
    "paper": module_command("netmesh._cli_paper"),
    "send": module_command("netmesh._cli_send"),
    "sim": module_command("netmesh.sim.__main__"),
    "version": version,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="netmesh",
        usage="netmesh COMMAND [options]",
        description="A mesh networking stack for Python agents with its core in C.",
        epilog=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"netmesh {__version__}")
    parser.add_argument("command", choices=sorted(COMMANDS), metavar="COMMAND")
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    try:
        return COMMANDS[parsed.command](parsed.options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away; leave nothing to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
