"""Own and remembered ratchets: the C core against the pure reference."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from differential.support import KEY, PRIVATE, crosswise, damaged, pure, same, sized


@given(sized(32, 31, 33))
def test_ratchet_ids_agree(public: bytes) -> None:
    same(lambda impl: impl.ratchet_id(public))


@given(
    st.lists(st.tuples(st.floats(0, 1e5), KEY, st.booleans()), max_size=8),
    st.integers(0, 4),
    st.sampled_from((0.0, 60.0, 1800.0)),
)
def test_rotations_agree(
    steps: list[tuple[float, bytes, bool]], retained: int, interval: float
) -> None:
    def run(impl: Any) -> Any:
        ratchets = impl.Ratchets(retained=retained, interval_s=interval)
        made = [
            (ratchets.rotate(now, private=private, force=force), ratchets.latest_time)
            for now, private, force in steps
        ]
        return made, ratchets, len(ratchets)

    same(run)


@given(PRIVATE, st.lists(KEY, max_size=5), st.integers(1, 5))
def test_ratchet_files_are_read_crosswise(private: bytes, keys: list[bytes], retained: int) -> None:
    def run(maker: Any, taker: Any) -> Any:
        ratchets = maker.Ratchets()
        for number, key in enumerate(keys):
            ratchets.rotate(float(number), private=key, force=True)
        file = ratchets.dump(maker.Identity.from_private(private))
        owner = taker.Identity.from_private(private)
        return file, taker.Ratchets.load(file, owner, retained=retained)

    crosswise(run)


@given(st.data(), st.lists(KEY, max_size=3))
def test_damaged_ratchet_files_are_refused_alike(data: st.DataObject, keys: list[bytes]) -> None:
    owner = pure.Identity.from_private(bytes(range(64)))
    ratchets = pure.Ratchets()
    for key in keys:
        ratchets.rotate(0.0, private=key, force=True)
    file = data.draw(damaged(st.just(ratchets.dump(owner))))
    same(lambda impl: impl.Ratchets.load(file, impl.Identity.from_private(bytes(range(64)))))


@given(
    st.dictionaries(
        st.sampled_from(("signature", "ratchets", "ratchet", "received", "other", 1)),
        st.one_of(
            sized(64, 32, 3), st.none(), st.integers(-5, 5), st.floats(), st.text(max_size=3)
        ),
    )
)
def test_odd_ratchet_files_are_refused_alike(content: dict[Any, Any]) -> None:
    file = pure.packb(content)
    same(lambda impl: impl.Ratchets.load(file, impl.Identity.from_private(bytes(64))))
    same(lambda impl: impl.remembered_ratchet_unpack(file))


@given(
    st.one_of(
        st.lists(st.one_of(KEY, st.binary(max_size=3), st.integers(0, 3)), max_size=4).map(
            pure.packb
        ),
        st.sampled_from((b"\xdc\x00\x00", b"\xdd\x00\x00\x00\x00", b"\x90\x00", b"\x80", b"")),
        KEY.map(lambda key: b"\x91\xc5\x00\x20" + key),
        KEY.map(lambda key: b"\xdc\x00\x01\xc4\x20" + key),
    )
)
def test_signed_but_odd_ratchets_are_refused_alike(packed: bytes) -> None:
    owner = pure.Identity.from_private(bytes(range(64)))
    file = pure.packb({"signature": owner.sign(packed), "ratchets": packed})
    same(lambda impl: impl.Ratchets.load(file, impl.Identity.from_private(bytes(range(64)))))


@given(KEY, st.floats(allow_nan=False, allow_infinity=False))
def test_remembered_ratchets_are_read_crosswise(public: bytes, received: float) -> None:
    crosswise(lambda a, b: b.remembered_ratchet_unpack(a.remembered_ratchet_pack(public, received)))


@given(st.data())
def test_damaged_remembered_ratchets_are_refused_alike(data: st.DataObject) -> None:
    file = data.draw(damaged(st.just(pure.remembered_ratchet_pack(bytes(32), 17e8))))
    same(lambda impl: impl.remembered_ratchet_unpack(file))


def test_wrong_types_are_type_errors() -> None:
    for call in (
        lambda impl: impl.ratchet_id(None),
        lambda impl: impl.Ratchets(retained="1"),
        lambda impl: impl.Ratchets(interval_s="1"),
        lambda impl: impl.Ratchets().rotate("1"),
        lambda impl: impl.Ratchets().dump(b""),
    ):
        assert same(call)[2] == "TypeError"
