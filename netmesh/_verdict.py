"""The outcome of an announce validation, shared by the C core and the pure reference."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Verdict"]


class Verdict(StrEnum):
    """What :meth:`netmesh.Announce.validate` found (RNS 1, 5.5)."""

    VALID = "VALID"
    BAD_SIGNATURE = "BAD_SIGNATURE"
    BAD_DESTINATION = "BAD_DESTINATION"
    KEY_MISMATCH = "KEY_MISMATCH"
