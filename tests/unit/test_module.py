"""The extension as a module: interpreters, classes, what is public where."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from types import ModuleType

import pytest

import netmesh
from netmesh import _core, errors

PROGRAM = Path(__file__).parents[1] / "isolated" / "interpreters.py"
CLASSES = [value for value in vars(_core).values() if isinstance(value, type)]
FUNCTIONS = [value for value in vars(_core).values() if inspect.isbuiltin(value)]


@pytest.mark.skipif(
    "lib" in os.environ.get("LD_PRELOAD", ""), reason="sanitizers do not know interpreters"
)
def test_interpreters_work_side_by_side() -> None:
    """Each has classes of its own, and its own lock where Python has that."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_second_copy_of_the_module_has_its_own_classes() -> None:
    """All state is in the module object."""
    spec = importlib.util.find_spec("netmesh._core")
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    assert copy.Packet is not _core.Packet
    packet = copy.Packet(destination=bytes(16), payload=b"x")
    assert packet != _core.Packet.unpack(packet.raw)
    with pytest.raises(errors.DecodeError):  # the exceptions are Python's, and shared
        copy.Packet.unpack(b"")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_classes_are_final_immutable_and_documented(kind: type) -> None:
    """Made at run time from specifications, closed to subclasses and patches."""
    assert kind.__flags__ & 1 << 9, "a class of the heap"
    assert kind.__module__ == "netmesh._core"
    assert kind.__doc__
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Sub", (kind,), {})
    with pytest.raises(TypeError, match="immutable type"):
        kind.extra = 1
    for name, member in vars(kind).items():
        if not name.startswith("_") and name != "OVERHEAD":
            assert member.__doc__, f"{kind.__name__}.{name}"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_are_documented_and_show_their_signature(function: object) -> None:
    """For help(), editors and inspect."""
    assert function.__doc__
    assert inspect.signature(function)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Something that the core makes instances of."""

    east: int
    north: int


def test_frozen_makes_instances_without_their_constructor() -> None:
    assert _core.frozen(Place, east=1, north=2) == Place(east=1, north=2)
    with pytest.raises(FrozenInstanceError):
        setattr(_core.frozen(Place, east=1, north=2), "east", 3)  # noqa: B010
    with pytest.raises(AttributeError):
        _ = _core.frozen(Place, east=1).north  # type: ignore[call-arg]
    for cls, given, told in (
        (Place, {"up": 1}, "no slot 'up'"),
        (Place, {"__class__": int}, "no slot '__class__'"),
        (int, {"real": 1}, "dataclass"),
        (object, {}, "dataclass"),
        (Place(east=1, north=2), {}, "dataclass"),
    ):
        with pytest.raises(TypeError, match=told):
            _core.frozen(cls, **given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dataclass"):
        _core.frozen(Place, 1)  # type: ignore[call-arg]


NODE = {
    "channels",
    "destinations",
    "interfaces",
    "links",
    "loop",
    "messaging",
    "metrics",
    "node",
    "streams",
    "sync",
    "transfers",
    "trouble",
}
PUBLIC = [getattr(netmesh, name) for name in netmesh.__all__]
MODULES = [value for value in PUBLIC if isinstance(value, ModuleType) and hasattr(value, "__all__")]


@pytest.mark.parametrize("module", [netmesh, *MODULES], ids=lambda module: module.__name__)
def test_public_modules_show_the_objects_of_the_core(module: ModuleType) -> None:
    """Each name once, sorted, and the very object."""
    assert len(set(module.__all__)) == len(module.__all__)
    assert module.__doc__
    for name in module.__all__:
        value = getattr(module, name)
        if hasattr(_core, name) and not isinstance(value, ModuleType):
            assert value is getattr(_core, name), name


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_pure_reference_has_the_same_modules(module: ModuleType) -> None:
    """Both are shown through one layout: a name of one is found in the other at its place."""
    name = module.__name__.removeprefix("netmesh.")
    if name in ("constants", "errors"):
        return  # shared
    if name in ("engine", "events", "records") or name in NODE:
        return  # the reference has codecs and decisions, no engine
    twin = importlib.import_module(f"netmesh.pure.{name}")
    only_here = set(module.__all__) - set(twin.__all__)
    assert not set(twin.__all__) - set(module.__all__)
    assert only_here <= {"cpu_features", "library_versions", "fields"}


def test_importing_the_package_loads_no_more_than_the_codecs() -> None:
    """The engine and what it needs of the standard library come when they are asked for."""
    program = (
        "import sys, netmesh\n"
        "assert not {'threading', 'logging', 'asyncio', 'netmesh.engine'} & set(sys.modules)\n"
        "assert netmesh.Engine is netmesh.engine.Engine\n"
        "assert 'Engine' in dir(netmesh)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
