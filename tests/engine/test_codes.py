"""The enums of records and events against the codes that the core was compiled with."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import IntEnum
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from netmesh import _core, events, records
from netmesh.constants import ResourceStrategy
from netmesh.events import ChannelMessage, from_raw
from netmesh.records import DropReason, EventKind

ENUMS: dict[str, type[IntEnum]] = {
    "DropReason": records.DropReason,
    "Stage": records.Stage,
    "CloseReason": records.CloseReason,
    "InterfaceRole": records.InterfaceRole,
    "InterfaceChange": records.InterfaceChange,
    "MtuMode": records.MtuMode,
    "JobKind": records.JobKind,
    "RecordKind": records.RecordKind,
    "EventKind": records.EventKind,
    "AcceptPolicy": ResourceStrategy,
    "Compression": records.Compression,
}


def test_every_list_of_the_core_has_an_enum() -> None:
    assert set(_core.ENGINE_CODES) == set(ENUMS)


@pytest.mark.parametrize("name", ENUMS)
def test_codes_are_those_of_the_core(name: str) -> None:
    assert {code.name: code.value for code in ENUMS[name]} == _core.ENGINE_CODES[name]


def test_every_drop_reason_has_its_sentence() -> None:
    assert set(_core.DROP_TEXTS) == {reason.name for reason in DropReason}
    assert DropReason.DUPLICATE.text == "packet was seen before"
    assert all(reason.text for reason in DropReason)


def test_every_kind_of_event_has_a_class() -> None:
    assert len(get_args(events.Event)) == len(EventKind)
    assert {cls.__name__ for cls in get_args(events.Event)} < set(events.__all__)


def test_all_events_have_both_clocks_and_are_frozen() -> None:
    for cls in get_args(events.Event):
        names = {field.name for field in fields(cls)}
        assert {"time_s", "time_unix_s"} <= names
        assert cls.__dataclass_params__.frozen
        assert hasattr(cls, "__slots__")


def test_a_message_of_a_channel_becomes_its_event() -> None:
    raw: Any = SimpleNamespace(
        kind=EventKind.CHANNEL_DATA,
        mono_us=1,
        unix_us=2,
        link=3,
        msgtype=4,
        sequence=5,
        data=b"six",
        reason="OK",
    )
    assert from_raw(cast(_core.RawEvent, raw)) == ChannelMessage(
        time_s=1e-6, time_unix_s=2e-6, link=3, msgtype=4, sequence=5, data=b"six", reason="OK"
    )


class Anything:
    """A raw event whose attributes are all there; codes are the least."""

    identity = b"i" * 16
    public_key = b"k" * 64
    snr_cdb = 250
    data = b"data"

    def __init__(self, kind: EventKind) -> None:
        self.kind = kind

    def __getattr__(self, name: str) -> int:
        return 0


@pytest.mark.parametrize("kind", EventKind, ids=lambda kind: kind.name)
def test_events_from_the_core_have_all_their_fields(kind: EventKind) -> None:
    """They are made without their constructor, which would miss one that was left out."""
    made = from_raw(cast(_core.RawEvent, Anything(kind)))
    assert type(made) in get_args(events.Event)
    assert replace(made) == made
