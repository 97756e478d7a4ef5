"""Channels and streams: the C core against the pure reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, crosswise, damaged, pure, same, truncations

NUMBER = st.sampled_from((-1, 0, 1, 0xF000, 0xFF00, 65535, 65536))


@given(NUMBER, NUMBER, st.binary(max_size=60))
def test_envelopes_agree(msgtype: int, sequence: int, payload: bytes) -> None:
    same(lambda impl: impl.Envelope(msgtype, sequence, payload))
    crosswise(lambda a, b: b.Envelope.unpack(a.Envelope(msgtype, sequence, payload).pack()))


@given(damaged(st.just(pure.Envelope(1, 2, b"payload").pack())))
def test_any_bytes_are_read_alike(data: bytes) -> None:
    same(lambda impl: impl.Envelope.unpack(data))
    same(lambda impl: impl.Envelope.unpack(data).pack())
    same(lambda impl: impl.StreamData.unpack(data))
    same(lambda impl: impl.StreamData.unpack(data).pack())


def test_truncations_agree() -> None:
    for data in truncations(bytes(7)):
        same(lambda impl, d=data: impl.Envelope.unpack(d))
        same(lambda impl, d=data: impl.StreamData.unpack(d))


def test_the_longest_payload() -> None:
    for size in (65535, 65536):
        same(lambda impl, s=size: len(impl.Envelope(0, 0, bytes(s)).pack()))


@given(st.integers(-1, 16385), st.binary(max_size=60), st.booleans(), st.booleans())
def test_stream_messages_agree(stream_id: int, data: bytes, eof: bool, compressed: bool) -> None:
    def make(impl: object) -> object:
        return impl.StreamData(stream_id, data, eof=eof, compressed=compressed)  # type: ignore[attr-defined]

    same(make)
    crosswise(lambda a, b: b.StreamData.unpack(make(a).pack()))
    same(lambda impl: make(impl).content())


@given(st.binary(max_size=60), st.integers(0, 400), st.integers(-1, 20000), st.data())
def test_content_is_inflated_alike(
    seed: bytes, count: int, max_size: int, data: st.DataObject
) -> None:
    packed = data.draw(damaged(st.just(pure.bz2_compress(seed * count))))
    for compressed in (True, False):
        same(
            lambda impl, c=compressed: impl.StreamData(1, packed, compressed=c).content(
                max_size=max_size
            )
        )


@given(
    st.integers(-1, 16384),
    st.integers(0, 300),
    st.integers(0, 20000),
    st.sampled_from((-1, 2, 3, 40, 425, 8111, 65535, 65536)),
    st.booleans(),
)
def test_the_writer_chooses_alike(
    stream_id: int, noise: int, rest: int, channel_mdu: int, eof: bool
) -> None:
    data = (pure.hkdf(noise, b"noise") if noise else b"") + bytes(rest)
    found = same(lambda impl: impl.stream_chunk(stream_id, data, channel_mdu, eof=eof))
    if found[0] == "value":
        message, consumed = core.stream_chunk(stream_id, data, channel_mdu, eof=eof)
        assert message.content() == data[:consumed]
        assert message.eof == (eof and consumed == len(data))
