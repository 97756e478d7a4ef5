"""Writes docs/reference/records.md, events.md and transport.md from the modules of these names.

``--check`` writes nothing and fails when a page is not up to date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netmesh.records import DropReason

ROOT = Path(__file__).resolve().parent.parent

RECORDS = """\
# netmesh.records

What the tables of an [engine](engine.md) hold, as values: snapshots, verdicts, figures, limits and
the codes in them. All are frozen; `dataclasses.replace` makes an edited copy, and the `put`
methods of the engine load it back. Names that end in `_s` are seconds on the engine's monotonic
clock, in `_unix_s` Unix seconds; where a record has both, the monotonic one counts when it is put
back. Ids are whole numbers above 0, `None` stands for none. This page is written by
`scripts/records_pages.py`.

```python
from dataclasses import replace

from netmesh.engine import Engine
from netmesh.records import DropReason, PathRecord

engine = Engine(clock=(1000.0, 1_700_000_000.0))
hub = engine.add_interface("hub")
engine.put_path(PathRecord(destination=bytes(16), hops=3, interface=hub, expires_s=5000.0))
engine.put_path(replace(engine.path(bytes(16)), hops=5))
assert engine.hops(bytes(16)) == 5

verdict = engine.input(hub, b"junk")
assert not verdict.accepted
assert verdict.reason is DropReason.MALFORMED
print(verdict.reason.text)
```
"""

TRANSPORT = """\
# netmesh.transport

The tables of an [engine](engine.md) that carries other people's traffic, as values. Each table has
three methods: one lists it, one puts a record in (its key decides whether that adds or replaces),
one drops the record with the same key. `NotFoundError` when a record's interface is not there, or
there is nothing to drop. Names that end in `_s` are seconds on the engine's monotonic clock; those
that end in `_unix_s` are only read. This page is written by `scripts/records_pages.py`.

| list | put, drop | record |
|---|---|---|
| `rebroadcasts()` | `put_rebroadcast`, `drop_rebroadcast` | `RebroadcastRecord` |
| `held()` | `put_held`, `drop_held`; `release_held` lets one go on | `HeldRecord` |
| `queued()` | `put_queued`, `drop_queued` | `QueuedRecord` |
| `controls()` | `put_control`, `drop_control` | `ControlRecord` |
| `alternatives()` | `put_alternative`, `drop_alternative` | `AlternativeRecord` |
| `rates()` | `put_rate`, `drop_rate` | `RateRecord` |
| `reverses()` | `put_reverse`, `drop_reverse` | `ReverseRecord` |
| `transits()` | `put_transit`, `drop_transit` | `TransitRecord` |
| `tunnels()` | `put_tunnel`, `drop_tunnel` | `TunnelRecord` |
| `tunnel_paths()` | `put_tunnel_path`, `drop_tunnel_path` | `TunnelPathRecord` |
| `searches()` | `put_search`, `drop_search` | `SearchRecord` |
| `passed_requests()` | `put_passed_request`, `drop_passed_request` | `PassedRequestRecord` |

```python
from netmesh import DestinationHash, Engine
from netmesh.transport import TransitRecord

engine = Engine(transport=True)
west, east = engine.add_interface("west"), engine.add_interface("east")
link = TransitRecord(
    link_id=bytes(16),
    destination=DestinationHash(bytes(16)),
    next_interface=east,
    received_interface=west,
    remaining=1,
    taken=1,
    validated=True,
    used_s=engine.now[0],
)
engine.put_transit(link)
packet = bytes([0x0C, 0]) + bytes(16) + b"\\0sealed"
engine.input(west, packet)
assert [(out.interface, out.data[1]) for out in engine.outputs()] == [(east, 1)]
```
"""

EVENTS = """\
# netmesh.events

What an [engine](engine.md) tells: one frozen class for each kind of event. This page is written by
`scripts/records_pages.py`.

```python
from netmesh.engine import Engine
from netmesh.events import InterfaceChanged, PathResult

engine = Engine(clock=(0.0, 1_700_000_000.0))
engine.add_interface("hub")
asked = engine.request_path(bytes(16), timeout_s=15.0)
engine.advance(15.0)
for event in engine.events():
    match event:
        case InterfaceChanged(interface=number, change=change):
            print("interface", number, change.name)
        case PathResult(op=op, ok=False, reason=reason):
            assert (op, reason) == (asked, "TIMEOUT")
```

Lossy events (`AnnounceHeard`, `ProgressMade`, `InterfaceChanged`, `PathChanged`, `StreamMade`) may
be replaced by a later one of the same thing, or be lost when nobody drains them; both are counted.
The others are never lost: data that would make one is neither accepted nor proven while the program
has no room for it (`credit`).

An operation (a sent packet, an announce, a path request, a request, a resource, a channel message,
a write to a stream) ends in exactly one event with its `op`: `ReceiptDone`, `AnnounceSent`,
`PathResult`, `ResponseDone`, `ResourceSent`, `ResourceReceived`, `ResourceFailed`, `ChannelSent` or
`StreamSent`; a link in one `LinkClosed`. Those that can fail have `reason` ("OK", "TIMEOUT",
"CANCELLED", ...), `stage` (where it failed) and `ok`.

Every event has `time_s` (monotonic) and `time_unix_s`. `Event` is the union of all classes.
`from_raw(raw)` makes the typed event of a `RawEvent` of the core.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """One row of a table."""

    name: str
    kind: str
    text: str


def plain(text: str) -> str:
    """A docstring without the roles of its references."""
    return re.sub(r":\w+:`", "`", text).replace("``", "`")


def flat(text: str) -> str:
    """A docstring's first paragraph as one line of a table."""
    return plain(text).strip().split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def is_property(node: ast.FunctionDef) -> bool:
    """Whether a method is read like a field."""
    return any(isinstance(name, ast.Name) and name.id == "property" for name in node.decorator_list)


def member_of(node: ast.stmt, after: ast.stmt | None) -> Member | None:
    """What a statement in a class defines, with the docstring after it."""
    if isinstance(node, ast.FunctionDef):
        call = "" if is_property(node) else f"({', '.join(a.arg for a in node.args.args[1:])})"
        kind = ast.unparse(node.returns) if node.returns else ""
        return Member(node.name + call, kind, flat(ast.get_docstring(node) or ""))
    text = ""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        text = flat(str(after.value.value))
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return Member(node.target.id, ast.unparse(node.annotation), text)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return Member(node.targets[0].id, ast.unparse(node.value), text)
    return None


def members(node: ast.ClassDef) -> Iterator[Member]:
    """The rows of a class."""
    for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
        found = member_of(statement, after)
        if found is not None:
            yield found


def section(node: ast.ClassDef) -> str:
    """One class as a heading, its docstring and a table."""
    codes = any(isinstance(base, ast.Name) and base.id == "IntEnum" for base in node.bases)
    text = plain(ast.get_docstring(node) or "").replace("\n\n", "\0").replace("\n", " ")
    lines = [f"## {node.name}", "", text.replace("\0", "\n\n"), ""]
    lines += ["| member | code | |" if codes else "| field | type | |", "|---|---|---|"]
    for member in members(node):
        said = member.text
        if node.name == "DropReason" and member.name in DropReason.__members__:
            said = DropReason[member.name].text
        kind = member.kind.replace("|", "\\|")
        lines.append(f"| `{member.name}` | {kind if codes else f'`{kind}`'} | {said} |")
    return "\n".join(lines) + "\n"


def page(module: str, head: str) -> str:
    """The whole page of a module."""
    tree = ast.parse((ROOT / "netmesh" / f"{module}.py").read_text())
    classes = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    return head + "\n" + "\n".join(section(node) for node in classes)


def main() -> int:
    """Writes the pages, or says which one is not current."""
    stale = []
    for module, head in (("records", RECORDS), ("events", EVENTS), ("transport", TRANSPORT)):
        path = ROOT / "docs" / "reference" / f"{module}.md"
        text = page(module, head)
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        print(f"not current: {', '.join(stale)}; run scripts/records_pages.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
