"""Announce app data of LXMF destinations, every form in use (LXMF 5)."""

from __future__ import annotations

from typing import Any

import pytest

from golden import name_of, raw, value, vectors
from netmesh import errors

NODE = {
    "time": 1700000000,
    "active": True,
    "transfer_limit_kb": 256,
    "sync_limit_kb": 10240,
    "stamp_cost": 16,
    "flexibility": 3,
    "peering_cost": 18,
}


# ------------------------------------------------------------------ delivery destinations


@pytest.mark.parametrize("vector", vectors("lxmf", "delivery_announce_app_data"), ids=name_of)
def test_delivery_app_data_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """Vectors `delivery_announce_app_data` (LXMF 5.1)."""
    given, out = vector["input"], vector["output"]
    made = impl.DeliveryAppData(display_name=given["display_name"], stamp_cost=given["stamp_cost"])
    assert made.pack().hex() == out["app_data"]
    found = impl.DeliveryAppData.unpack(made.pack())
    parsed = out["parsed"]
    assert found.display_name == parsed["display_name"]
    assert found.stamp_cost == made.stamp_cost == parsed["stamp_cost"]
    assert found.compression is parsed["compression_supported"]
    assert found.functionality == (0,)
    assert found == made


@pytest.mark.parametrize("vector", vectors("lxmf", "delivery_announce_parse"), ids=name_of)
def test_every_form_of_delivery_app_data_is_read(impl: Any, vector: dict[str, Any]) -> None:
    """C11: vectors `delivery_announce_parse`: forms of old versions and odd ones."""
    out = vector["output"]
    found = impl.DeliveryAppData.unpack(raw(vector["input"]["app_data"]))
    assert found.display_name == out["display_name"]
    assert found.stamp_cost == out["stamp_cost"]
    assert found.compression is out["compression_supported"]
    assert (0 in found.functionality) is bool(out["compression_supported"])


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\x93",
        b"\x93\xc4\x05Al",
        b"\x93\xc4\x01A\x08\xc1",
        b"\xdc",
        b"\xdc\xff\xff",
        b"\xdd\x00\x00\x00\x00",
        b"\x91" * 200,
        b"\xff\xfe",
        b"\xc3\x28",
        bytes(range(256)),
    ],
)
def test_damaged_delivery_app_data_are_unknown_not_errors(impl: Any, damaged: bytes) -> None:
    """LXMF 5.1: undecodable parts are unknown."""
    found = impl.DeliveryAppData.unpack(damaged)
    assert found.stamp_cost is None
    assert found.display_name is None or isinstance(found.display_name, str)
    assert isinstance(found.functionality, tuple)


def test_names_are_cleaned(impl: Any) -> None:
    """LXMF 5.1: NUL characters deleted, white space trimmed; odd types are no name."""
    for element, name in (
        (b"\xc4\x06 A\x00B\t\n", "AB"),
        (b"\xc4\x05\xe2\x80\x83xy", "xy"),
        (b"\xc4\x02\xff\xfe", None),
        (b"\xc0", None),
        (b"\xc4\x00", ""),
    ):
        assert impl.DeliveryAppData.unpack(b"\x91" + element).display_name == name


def test_costs_outside_of_1_to_254_are_none(impl: Any) -> None:
    for cost in (-5, 0, 255, 10**9):
        assert impl.DeliveryAppData(stamp_cost=cost).stamp_cost is None
    for cost in (1, 254):
        made = impl.DeliveryAppData(stamp_cost=cost)
        assert impl.DeliveryAppData.unpack(made.pack()).stamp_cost == cost
    for element in (b"\xff", b"\xc3", b"\xa18", b"\xcb" + bytes(8), b"\x90"):
        assert impl.DeliveryAppData.unpack(b"\x92\xc0" + element).stamp_cost is None


def test_functionality_codes_are_kept(impl: Any) -> None:
    made = impl.DeliveryAppData(functionality=(3, 200, 70000))
    assert made.compression is False
    found = impl.DeliveryAppData.unpack(made.pack())
    assert found.functionality == (3, 200, 70000)
    assert found.compression is False
    assert impl.DeliveryAppData(functionality=[]).pack().hex() == "93c0c090"
    mixed = impl.DeliveryAppData.unpack(b"\x93\xc0\xc0\x93\xa1x\x00\x05")
    assert mixed.functionality == (0, 5)
    assert mixed.compression is True
    for wrong in ((-1,), (2**64,)):
        with pytest.raises(ValueError, match="functionality"):
            impl.DeliveryAppData(functionality=wrong)
    with pytest.raises(TypeError):
        impl.DeliveryAppData(functionality=("x",))
    with pytest.raises(TypeError):
        impl.DeliveryAppData(display_name=b"bytes")


# ------------------------------------------------------------------ propagation nodes


@pytest.mark.parametrize("vector", vectors("lxmf", "pn_announce_app_data"), ids=name_of)
def test_node_app_data_are_those_of_upstream(impl: Any, vector: dict[str, Any]) -> None:
    """Vectors `pn_announce_app_data` (LXMF 5.2)."""
    given, out = vector["input"], vector["output"]
    made = impl.PropagationAppData(
        time=int(given["time"]),
        active=given["pnode"] and not given["fso"],
        transfer_limit_kb=given["tl"],
        sync_limit_kb=given["sl"],
        stamp_cost=given["cost"],
        flexibility=given["flex"],
        peering_cost=given["pc"],
        name=given["name"],
        version=given["version"],
        implementation=given["impl_name"],
    )
    assert made.pack().hex() == out["app_data"]
    found = impl.PropagationAppData.unpack(raw(out["app_data"]))
    assert found == made
    assert found.pack() == made.pack()
    assert found.name == out["parsed"]["name"]
    assert found.stamp_cost == out["parsed"]["stamp_cost"]
    assert found.metadata == value(out["decoded"])[6]
    assert (found.version, found.implementation) == (given["version"], given["impl_name"])
    assert (found.time, found.active) == (1700000000, given["pnode"] and not given["fso"])
    assert (found.transfer_limit_kb, found.sync_limit_kb) == (given["tl"], given["sl"])
    assert type(found.transfer_limit_kb) is type(given["tl"])
    assert (found.flexibility, found.peering_cost) == (given["flex"], given["pc"])


@pytest.mark.parametrize("vector", vectors("lxmf", "pn_announce_parse"), ids=name_of)
def test_every_form_of_node_app_data_is_judged(impl: Any, vector: dict[str, Any]) -> None:
    """Vectors `pn_announce_parse`: what is valid, what name and cost come out."""
    data, out = raw(vector["input"]["app_data"]), vector["output"]
    if not out["valid"]:
        with pytest.raises(errors.DecodeError) as caught:
            impl.PropagationAppData.unpack(data)
        assert caught.value.codec == "lxmf"
        assert caught.value.field.startswith("node")
        return
    found = impl.PropagationAppData.unpack(data)
    assert found.name == out["name"]
    assert found.stamp_cost == out["stamp_cost"]
    assert impl.PropagationAppData.unpack(found.pack()) == found


@pytest.mark.parametrize(
    ("data", "field", "reason"),
    [
        ("", "node", "TRUNCATED"),
        ("80", "node", "TYPE"),
        ("96c201c3010193100312", "node", "LENGTH"),
        ("97c2c0c301019310031280", "node.timebase", "TYPE"),
        ("97c2a178c301019310031280", "node.timebase", "VALUE"),
        ("97c2cb7ff0000000000000c301019310031280", "node.timebase", "VALUE"),
        ("97c2cfffffffffffffffffc301019310031280", "node.timebase", "RANGE"),
        ("97c2010201019310031280", "node.active", "VALUE"),
        ("97c201a17901019310031280", "node.active", "TYPE"),
        ("97c201c390019310031280", "node.transfer_limit", "TYPE"),
        ("97c201c301c09310031280", "node.sync_limit", "TYPE"),
        ("97c201c3010192100380", "node.costs", "LENGTH"),
        ("97c201c3010193c0031280", "node.stamp_cost", "TYPE"),
        ("97c201c301019310c01280", "node.flexibility", "TYPE"),
        ("97c201c30101931003c080", "node.peering_cost", "TYPE"),
        ("97c201c301019310031290", "node.metadata", "TYPE"),
        ("97c201c3010193100312", "node", "TRUNCATED"),
    ],
)
def test_invalid_node_app_data_name_the_rule_they_break(
    impl: Any, data: str, field: str, reason: str
) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        impl.PropagationAppData.unpack(bytes.fromhex(data))
    assert (caught.value.field, caught.value.reason) == (field, reason)


def test_numbers_of_any_kind_are_taken(impl: Any) -> None:
    """LXMF 5.2: integers, floats and decimal text are convertible."""
    found = impl.PropagationAppData.unpack(
        b"\x97\xc2\xa3+12\x01\xcb\x40\x70\x08\x00\x00\x00\x00\x00\xa3256"
        b"\x93\xcb\x40\x30\x80\x00\x00\x00\x00\x00\xa13\x12\x80"
    )
    assert (found.time, found.active) == (12, True)
    assert (found.transfer_limit_kb, found.sync_limit_kb) == (256.5, 256)
    assert (found.stamp_cost, found.flexibility, found.peering_cost) == (16, 3, 18)


def test_limits_keep_their_kind(impl: Any) -> None:
    """LXMF 5.2: floats when set in a configuration file, integers by default."""
    ints = impl.PropagationAppData(**NODE)
    floats = impl.PropagationAppData(**{**NODE, "transfer_limit_kb": 0.38})
    assert ints.pack().hex().startswith("97c2ce6553f100c3cd0100cd2800")
    assert floats.pack()[8:9] == b"\xcb"
    assert impl.PropagationAppData.unpack(floats.pack()).transfer_limit_kb == 0.38
    assert ints != floats


def test_metadata_are_given_whole_or_by_name(impl: Any) -> None:
    named = impl.PropagationAppData(**NODE, name="N", version="1", implementation="i")
    assert named.metadata == {0xFE: "i", 0x00: "1", 0x01: b"N"}
    assert list(named.metadata) == [0xFE, 0x00, 0x01]
    whole = impl.PropagationAppData(**NODE, metadata={**named.metadata, 0xFF: [1, 2]})
    assert (whole.name, whole.version, whole.implementation) == ("N", "1", "i")
    assert whole.metadata[0xFF] == [1, 2]
    whole.metadata.clear()
    assert len(whole.metadata) == 4
    assert impl.PropagationAppData(**NODE).metadata == {}
    with pytest.raises(ValueError, match="metadata"):
        impl.PropagationAppData(**NODE, name="N", metadata={})
    with pytest.raises(TypeError):
        impl.PropagationAppData(**NODE, metadata=[1])
    odd = impl.PropagationAppData(**NODE, metadata={1: "text", 0: b"bytes", 0xFE: 5})
    assert (odd.name, odd.version, odd.implementation) == (None, None, None)


def test_wrong_values_of_a_node_are_refused(impl: Any) -> None:
    for name, wrong, error in (
        ("time", 1.5, TypeError),
        ("active", 1, TypeError),
        ("transfer_limit_kb", float("nan"), ValueError),
        ("sync_limit_kb", "1", TypeError),
        ("stamp_cost", -1, ValueError),
        ("flexibility", 2**32, ValueError),
        ("peering_cost", None, TypeError),
    ):
        with pytest.raises(error):
            impl.PropagationAppData(**{**NODE, name: wrong})
    with pytest.raises(TypeError):
        impl.PropagationAppData(time=1)


def test_negative_costs_are_read_but_not_sent(impl: Any) -> None:
    found = impl.PropagationAppData.unpack(bytes.fromhex("97c201c3010193ff031280"))
    assert found.stamp_cost == -1
    with pytest.raises(errors.EncodeError) as caught:
        found.pack()
    assert (caught.value.reason, caught.value.field) == ("RANGE", "stamp_cost")


def test_nodes_are_values(impl: Any) -> None:
    one, two = impl.PropagationAppData(**NODE, name="N"), impl.PropagationAppData(**NODE, name="N")
    assert one == two
    assert hash(one) == hash(two)
    assert one != impl.PropagationAppData(**{**NODE, "time": 1}, name="N")
    assert "N" in repr(one)
    with pytest.raises(AttributeError):
        one.time = 5
