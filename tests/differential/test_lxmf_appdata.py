"""LXMF announce app data: the C core against the pure reference."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, crosswise, damaged, pure, same

NAMES = st.one_of(st.text(max_size=12), st.sampled_from((" a ", "\0a\u3000", "\u2003", "\x1c x")))
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from((2**32 - 1, 2**32, 2**63, 2**64 - 1, -(2**63))),
    st.floats(),
    NAMES,
    NAMES.map(str.encode),
    st.just(b"\xff"),
    st.just([]),
    st.just({}),
)
NUMBERS = st.one_of(
    st.integers(0, 20000),
    st.floats(0, 1e6),
    st.sampled_from(("5", " 7 ", "1_0", "-3", "+4", "1__0", "x", "", "00000000000000000000009")),
    st.sampled_from((b"12", b"1.5", str(2**63), str(2**63 - 1), str(-(2**63)))),
    ODD,
)


@given(
    st.none() | NAMES,
    st.none() | st.integers(-2, 260),
    st.lists(st.one_of(st.integers(0, 3), st.sampled_from((-1, 2**63 - 1, 2**63))), max_size=4),
)
def test_delivery_data_are_made_alike(name: str | None, cost: int | None, codes: list[int]) -> None:
    def make(impl: Any) -> Any:
        return impl.DeliveryAppData(display_name=name, stamp_cost=cost, functionality=codes)

    same(make)
    same(lambda impl: make(impl).pack())
    crosswise(lambda a, b: b.DeliveryAppData.unpack(make(a).pack()))
    same(lambda impl: impl.DeliveryAppData(display_name=name, stamp_cost=cost))


@given(
    st.one_of(
        st.none(),
        st.binary(max_size=30),
        NAMES.map(str.encode),
        damaged(st.just(pure.DeliveryAppData(display_name="name", stamp_cost=8).pack())),
        st.lists(st.one_of(ODD, st.lists(st.one_of(ODD, st.just(0)), max_size=3)), max_size=5).map(
            pure.packb
        ),
    )
)
def test_any_delivery_data_are_read_alike(data: bytes | None) -> None:
    assert same(lambda impl: impl.DeliveryAppData.unpack(data))[0] == "value"
    same(lambda impl: impl.DeliveryAppData.unpack(data).pack())


@st.composite
def node_arguments(draw: st.DrawFn) -> dict[str, Any]:
    cost = st.one_of(st.integers(0, 30), st.sampled_from((-1, 2**32 - 1, 2**32)))
    limit = st.one_of(st.integers(0, 20000), st.floats(0, 1e5), st.sampled_from((-1, 2**32, -1.5)))
    arguments: dict[str, Any] = {
        "time": draw(st.integers(-5, 2**34)),
        "active": draw(st.booleans()),
        "transfer_limit_kb": draw(limit),
        "sync_limit_kb": draw(limit),
        "stamp_cost": draw(cost),
        "flexibility": draw(cost),
        "peering_cost": draw(cost),
    }
    texts = draw(st.lists(st.sampled_from(("name", "version", "implementation")), unique=True))
    for name in texts:
        arguments[name] = draw(NAMES)
    if draw(st.booleans()):
        arguments["metadata"] = draw(
            st.none()
            | st.dictionaries(st.one_of(st.sampled_from((0, 1, 0xFE, 5)), NAMES), ODD, max_size=3)
        )
    return arguments


@given(node_arguments())
def test_node_data_are_made_alike(arguments: dict[str, Any]) -> None:
    same(lambda impl: impl.PropagationAppData(**arguments))
    same(lambda impl: impl.PropagationAppData(**arguments).pack())
    crosswise(lambda a, b: b.PropagationAppData.unpack(a.PropagationAppData(**arguments).pack()))


def good_node() -> list[Any]:
    return [False, 1700000000, True, 256, 10240, [16, 3, 18], {0xFE: "lxmd", 0: "1", 1: b"n"}]


@given(
    st.dictionaries(
        st.integers(0, 6),
        st.one_of(
            NUMBERS,
            st.lists(NUMBERS, max_size=4),
            st.dictionaries(st.one_of(st.integers(0, 2), st.just(0xFE), st.just(True)), ODD),
        ),
        max_size=3,
    ),
    st.integers(0, 8),
)
def test_any_node_data_are_read_alike(changes: dict[int, Any], count: int) -> None:
    values = good_node()
    for place, value in changes.items():
        values[place] = value
    for kept in (values, values[:count], [*values, 5]):
        data = pure.packb(kept)
        same(lambda impl, d=data: impl.PropagationAppData.unpack(d))
        same(lambda impl, d=data: impl.PropagationAppData.unpack(d).pack())


@given(damaged(st.just(pure.packb(good_node()))))
def test_damaged_node_data_are_refused_alike(data: bytes) -> None:
    same(lambda impl: impl.PropagationAppData.unpack(data))


def test_values_of_app_data() -> None:
    for impl in (core, pure):
        one = impl.DeliveryAppData(display_name="a", stamp_cost=8)
        assert one == impl.DeliveryAppData.unpack(one.pack())
        assert hash(one) == hash(impl.DeliveryAppData.unpack(one.pack()))
        assert one != impl.DeliveryAppData(display_name="a")
        node = impl.PropagationAppData.unpack(pure.packb(good_node()))
        assert node == impl.PropagationAppData.unpack(node.pack())
        assert hash(node) == hash(impl.PropagationAppData.unpack(node.pack()))
        node.metadata.clear()
        assert node.metadata == good_node()[6]


def test_wrong_types_are_type_errors() -> None:
    numbers = dict.fromkeys(("time", "stamp_cost", "flexibility", "peering_cost"), 1)
    limits = {"active": True, "transfer_limit_kb": 1, "sync_limit_kb": 1}
    for call in (
        lambda impl: impl.DeliveryAppData(display_name=b"a"),
        lambda impl: impl.DeliveryAppData(stamp_cost="8"),
        lambda impl: impl.DeliveryAppData(functionality=5),
        lambda impl: impl.DeliveryAppData(functionality=["a"]),
        lambda impl: impl.DeliveryAppData.unpack("a"),
        lambda impl: impl.PropagationAppData.unpack(None),
        lambda impl: impl.PropagationAppData(**numbers, **{**limits, "active": 1}),
        lambda impl: impl.PropagationAppData(**numbers, **{**limits, "sync_limit_kb": "1"}),
        lambda impl: impl.PropagationAppData(**numbers, **limits, name=b"n"),
        lambda impl: impl.PropagationAppData(**numbers, **limits, metadata=[1]),
        lambda impl: impl.PropagationAppData(**{**numbers, "time": 1.5}, **limits),
    ):
        assert same(call)[2] == "TypeError"
