"""What goes wrong in a node while it goes on: troubles of its storage.

Troubles of interfaces are :class:`netmesh.interfaces.InterfaceTrouble`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Health", "StorageTrouble", "StoreProblem"]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a node does all that it was told to do. It goes on in any case."""

    problems: tuple[str, ...]
    """A sentence for each interface that is not open or failed, and for the storage."""

    @property
    def degraded(self) -> bool:
        """Whether there is a problem."""
        return bool(self.problems)


class StoreProblem(IntEnum):
    """What is wrong with a file of the storage."""

    WRITE = 1
    """It could not be made durable."""
    DAMAGED = 2
    """It was damaged and set aside."""
    READ = 3
    """It could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageTrouble:
    """A file of a node's storage is in trouble; the node goes on."""

    time_s: float
    """When, on the monotonic clock."""
    time_unix_s: float
    """When, on the Unix clock."""
    problem: StoreProblem
    """What happened."""
    file: str
    """Which file, relative to the storage."""
    os_error: int | None
    """The errno, if the system gave one."""
