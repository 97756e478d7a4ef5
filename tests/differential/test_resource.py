"""Resources: payloads, segmenter and assembler, the C core against the pure reference."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import core, crosswise, damaged, plain, pure, same, sized, truncations

KEY = bytes(range(64))
COUNT = st.one_of(st.integers(-1, 300), st.sampled_from((2**31, 2**63 - 1, 2**63, 2**64 - 1)))
HASHMAP = st.integers(0, 80).flatmap(lambda n: st.binary(min_size=4 * n, max_size=4 * n))


@st.composite
def advertisement_fields(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "transfer_bytes": draw(st.one_of(COUNT, st.sampled_from((3145725, 3145726)))),
        "data_bytes": draw(COUNT),
        "parts": draw(COUNT),
        "hash": draw(sized(32, 32, 32, 31)),
        "random_hash": draw(sized(4, 4, 4, 5)),
        "original_hash": draw(sized(32, 32, 32, 33)),
        "segment": draw(st.integers(0, 3)),
        "segments": draw(st.integers(0, 3)),
        "request_id": draw(st.none() | sized(16, 16, 15)),
        "flags": draw(st.integers(0, 64)),
        "hashmap": draw(st.one_of(HASHMAP, st.binary(max_size=9))),
    }


def good_advertisement(parts: int = 3) -> Any:
    return pure.Advertisement(
        transfer_bytes=parts * 464,
        data_bytes=1000,
        parts=parts,
        hash=bytes(32),
        random_hash=bytes(4),
        original_hash=bytes(32),
        segment=1,
        segments=1,
        request_id=bytes(16),
        flags=1,
        hashmap=bytes(4 * min(parts, 74)),
    )


# ------------------------------------------------------------- payloads


@given(advertisement_fields())
def test_advertisements_are_made_alike(fields: dict[str, Any]) -> None:
    same(lambda impl: impl.Advertisement(**fields))
    same(lambda impl: impl.Advertisement(**fields).pack())
    crosswise(lambda a, b: b.Advertisement.unpack(a.Advertisement(**fields).pack()))


@given(damaged(st.just(good_advertisement().pack())))
def test_damaged_advertisements_are_refused_alike(data: bytes) -> None:
    same(lambda impl: impl.Advertisement.unpack(data))


@given(
    st.dictionaries(
        st.sampled_from([*"tdnhroilqfm", "x", b"t", 5]),
        st.one_of(
            sized(32, 16, 4, 8), st.none(), st.integers(-2, 2000), st.booleans(), st.just(1.0)
        ),
        max_size=13,
    )
)
def test_odd_advertisements_are_refused_alike(changes: dict[Any, Any]) -> None:
    content = pure.unpackb(good_advertisement().pack())
    content.update(changes)
    same(lambda impl: impl.Advertisement.unpack(pure.packb(content)))
    same(lambda impl: impl.Advertisement.unpack(pure.packb(changes)))


def test_every_truncation_names_the_field_that_is_cut() -> None:
    request = pure.PartRequest(bytes(32), bytes(8), last_map_hash=bytes(4)).pack()
    update = pure.HashmapUpdate(bytes(32), 1, bytes(8)).pack()
    for data in truncations(good_advertisement().pack()):
        assert same(lambda impl, d=data: impl.Advertisement.unpack(d))[0] == "error"
    for data in truncations(request):
        same(lambda impl, d=data: impl.PartRequest.unpack(d))
    for data in truncations(update):
        assert same(lambda impl, d=data: impl.HashmapUpdate.unpack(d))[0] == "error"


@given(st.tuples(*[st.booleans()] * 6))
def test_flags_agree(bits: tuple[bool, ...]) -> None:
    names = ("encrypted", "compressed", "split", "request", "response", "metadata")
    same(lambda impl: impl.advertisement_flags(**dict(zip(names, bits, strict=True))))


@given(sized(32, 32, 31), st.binary(max_size=20), st.none() | sized(4, 4, 3))
def test_part_requests_agree(target: bytes, hashes: bytes, last: bytes | None) -> None:
    same(lambda impl: impl.PartRequest(target, hashes, last_map_hash=last))
    crosswise(
        lambda a, b: b.PartRequest.unpack(a.PartRequest(target, hashes, last_map_hash=last).pack())
    )


@given(damaged(st.just(pure.PartRequest(bytes(32), bytes(12)).pack())))
def test_damaged_part_requests_are_refused_alike(data: bytes) -> None:
    same(lambda impl: impl.PartRequest.unpack(data))


@given(sized(32, 32, 31), st.sampled_from((-1, 0, 1, 58040097, 58040098)), st.binary(max_size=300))
def test_hashmap_updates_agree(target: bytes, segment: int, hashmap: bytes) -> None:
    same(lambda impl: impl.HashmapUpdate(target, segment, hashmap))
    crosswise(lambda a, b: b.HashmapUpdate.unpack(a.HashmapUpdate(target, segment, hashmap).pack()))


@given(damaged(st.just(pure.HashmapUpdate(bytes(32), 2, bytes(12)).pack())))
def test_damaged_hashmap_updates_are_refused_alike(data: bytes) -> None:
    same(lambda impl: impl.HashmapUpdate.unpack(data))


@given(
    st.one_of(
        st.lists(
            st.one_of(st.integers(-2, 2**40), st.booleans(), sized(0, 4, 296, 300, 5), st.none()),
            max_size=4,
        ),
        st.integers(0, 3),
        st.dictionaries(st.integers(0, 3), st.none()),
    )
)
def test_odd_hashmap_updates_are_refused_alike(content: Any) -> None:
    same(lambda impl: impl.HashmapUpdate.unpack(bytes(32) + pure.packb(content)))


@given(sized(32, 32, 31), st.binary(max_size=40), sized(63, 64, 65, 0))
def test_proofs_agree(target: bytes, plaintext: bytes, payload: bytes) -> None:
    same(lambda impl: impl.resource_proof_pack(target, plaintext))
    same(lambda impl: impl.resource_proof_unpack(payload))


@given(st.binary(max_size=40), sized(4, 4, 5))
def test_map_hashes_agree(part: bytes, blob: bytes) -> None:
    same(lambda impl: impl.map_hash(part, blob))


@given(
    st.one_of(st.integers(-1, 2**22), st.integers(1048570, 1048580)),
    st.one_of(st.integers(-1, 100), st.integers(1048570, 1048580)),
)
def test_plans_agree(data_bytes: int, metadata_bytes: int) -> None:
    same(lambda impl: impl.segment_plan(data_bytes, metadata_bytes))
    same(lambda impl: impl.segment_plan(data_bytes))


@given(
    st.recursive(
        st.one_of(st.none(), st.text(max_size=5), st.binary(max_size=5), st.integers(0, 9)),
        lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3),
    )
)
def test_metadata_travels_crosswise(value: Any) -> None:
    crosswise(lambda a, b: b.metadata_unpack(a.metadata_pack(value) + b"data"))


@given(damaged(st.just(pure.metadata_pack({"name": b"file"}) + b"data")))
def test_damaged_metadata_is_refused_alike(data: bytes) -> None:
    same(lambda impl: impl.metadata_unpack(data))


@given(st.binary(max_size=60), st.integers(-1, 70))
def test_cutting_and_joining_agree(data: bytes, size: int) -> None:
    same(lambda impl: impl.cut(data, size))
    if size > 0:
        crosswise(lambda a, b: b.join(a.cut(data, size)))
    for impl in (core, pure):
        buffer = bytearray(b"abcd")
        views = impl.cut(buffer, 3)
        buffer[0] = ord("x")
        assert bytes(views[0]) == b"xbc"


# ------------------------------------------------------------- segmenter


@st.composite
def segmenter_arguments(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    seed = draw(st.binary(max_size=40))
    plaintext = (seed * draw(st.integers(0, 60)))[: draw(st.integers(0, 2000))]
    options: dict[str, st.SearchStrategy[Any]] = {
        "sdu": st.integers(0, 600),
        "compression": st.sampled_from(("off", "when_smaller", "automatic", "on")),
        "data_bytes": st.none() | st.sampled_from((0, 5000, 2**26, 2**26 + 1, -1)),
        "segment": st.integers(0, 3),
        "segments": st.integers(0, 3),
        "original_hash": st.none() | sized(32, 31),
        "request_id": st.none() | sized(16, 15),
        "is_response": st.booleans(),
        "has_metadata": st.booleans(),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(options)), unique=True, max_size=5))
    given_options = {name: draw(options[name]) for name in chosen}
    random = {"random_hash": draw(sized(4, 4, 4, 3)), "prefix": bytes(4), "iv": bytes(16)}
    return plaintext, {**random, **given_options}


def segmenter_facts(segmenter: Any) -> list[Any]:
    return [
        segmenter.hash,
        segmenter.random_hash,
        segmenter.expected_proof,
        segmenter.hashmap,
        segmenter.stream,
        segmenter.parts,
        [segmenter.part(index) for index in range(segmenter.parts)],
        segmenter.compressed,
        segmenter.advertisement,
        segmenter.sent,
    ]


@given(segmenter_arguments(), sized(64, 32, 16))
def test_segments_are_prepared_alike(arguments: tuple[bytes, dict[str, Any]], key: bytes) -> None:
    plaintext, options = arguments
    same(lambda impl: segmenter_facts(impl.Segmenter(plaintext, key, **options)))
    same(lambda impl: segmenter_facts(impl.Segmenter(plaintext, impl.Token(KEY), **options)))
    same(lambda impl: segmenter_facts(impl.Segmenter(plaintext, lambda s: s[::-1], **options)))


@given(st.integers(400, 1600), st.integers(0, 255))
def test_noise_is_recognised_alike(size: int, start: int) -> None:
    noise = pure.hkdf(size, bytes([start]))
    for data in (noise, noise[: size // 2] + bytes(size // 2), bytes(range(256)) * 4):
        same(
            lambda impl, d=data: (
                impl.Segmenter(
                    d,
                    lambda s: b"x" + s,
                    compression="automatic",
                    random_hash=b"abcd",
                    prefix=b"abcd",
                ).compressed
            )
        )


def test_seal_functions_are_checked_alike() -> None:
    for result in (b"", bytes(3145726), "text", None):
        same(lambda impl, r=result: impl.Segmenter(b"data", lambda _: r).parts)
    same(lambda impl: impl.Segmenter(bytes(1048576), KEY))
    same(lambda impl: impl.Segmenter(b"data", 5))


def test_colliding_map_hashes_are_refused_alike() -> None:
    same(lambda impl: impl.Segmenter(b"", lambda _: bytes(40), sdu=4, random_hash=b"abcd").parts)
    same(lambda impl: impl.Segmenter(b"", lambda _: bytes(40), sdu=4).parts)


def distinct_stream(parts: int, sdu: int = 4) -> bytes:
    return b"".join(number.to_bytes(sdu, "big") for number in range(parts))


def fixed_segmenter(impl: Any, parts: int) -> Any:
    stream = distinct_stream(parts)
    return impl.Segmenter(b"plain", lambda _: stream, sdu=4, random_hash=b"\1\2\3\5")


@given(st.data(), st.sampled_from((1, 5, 74, 75, 148, 149, 300, 400)))
def test_requests_are_served_alike(data: st.DataObject, parts: int) -> None:
    reference = fixed_segmenter(pure, parts)
    hashes = [reference.hashmap[4 * i : 4 * i + 4] for i in range(parts)]
    ends = [i for i in (73, 147, 221, 295, 369) if i < parts]
    requests = []
    for _ in range(data.draw(st.integers(1, 6))):
        first = data.draw(st.integers(0, parts - 1))
        wanted = hashes[first : first + data.draw(st.integers(0, 240))]
        wanted = data.draw(st.permutations(wanted)) if len(wanted) < 10 else wanted
        last = None
        if data.draw(st.booleans()):
            candidates = st.sampled_from([*ends, parts - 1, 0, first])
            last = hashes[data.draw(candidates)]
        target = reference.hash if data.draw(st.integers(0, 9)) else bytes(32)
        requests.append(pure.PartRequest(target, b"".join(wanted), last_map_hash=last).pack())
    segmenters = {"core": fixed_segmenter(core, parts), "pure": fixed_segmenter(pure, parts)}

    for request in requests:

        def run(impl: Any, request: bytes = request) -> Any:
            segmenter = segmenters["core" if impl is core else "pure"]
            answer = segmenter.serve(request)
            return answer, segmenter.sent, segmenter.serve(impl.PartRequest.unpack(request))

        same(run)


def test_hashmap_updates_are_made_alike() -> None:
    for segment in (-1, 0, 1, 2, 3):
        same(lambda impl, s=segment: fixed_segmenter(impl, 150).hashmap_update(s))
    for index in (-1, 0, 149, 150):
        same(lambda impl, i=index: fixed_segmenter(impl, 150).part(i))


@given(st.data())
def test_proofs_are_checked_alike(data: st.DataObject) -> None:
    reference = fixed_segmenter(pure, 3)
    good = reference.hash + reference.expected_proof
    payload = data.draw(damaged(st.just(good)))
    same(lambda impl: fixed_segmenter(impl, 3).check_proof(payload))


# ------------------------------------------------------------- assembler


def assembler_facts(assembler: Any) -> list[Any]:
    return [
        assembler.received,
        assembler.parts,
        assembler.consecutive,
        assembler.hashmap_height,
        assembler.waiting_for_hashmap,
        assembler.complete,
    ]


@given(
    st.data(),
    st.sampled_from((1, 40, 3000)),
    st.sampled_from(("off", "when_smaller")),
    st.sampled_from((40, 464)),
    st.booleans(),
)
def test_transfers_go_crosswise(
    data: st.DataObject, size: int, compression: str, sdu: int, with_metadata: bool
) -> None:
    """Lossy, out of order, with a window; each side of either implementation."""
    content = pure.hkdf(size, b"content")
    window = data.draw(st.integers(1, 90))
    seed = data.draw(st.integers(0, 1000))

    def run(sender: Any, receiver: Any) -> Any:
        generator = random.Random(seed)
        lead = sender.metadata_pack({"name": b"x"}) if with_metadata else b""
        segmenter = sender.Segmenter(
            lead + content,
            KEY,
            sdu=sdu,
            compression=compression,
            has_metadata=with_metadata,
            iv=bytes(16),
            prefix=bytes(4),
            random_hash=b"\1\2\3\4",
        )
        assembler = receiver.Assembler(segmenter.advertisement.pack(), sdu=sdu)
        steps = []
        while not assembler.complete:
            request = assembler.next_request(window)
            indices, update = segmenter.serve(request.pack())
            generator.shuffle(indices)
            for index in indices:
                if generator.random() < 0.9:
                    steps.append(assembler.add(segmenter.part(index), window=window))
            if update is not None:
                assembler.update(segmenter.hashmap_update(update).pack())
            steps.append(assembler_facts(assembler))
        assert assembler.next_request(window) is None
        assembled = assembler.finish(KEY)
        assert segmenter.check_proof(assembled.proof)
        return steps, assembled, assembler.finish(receiver.Token(KEY))

    found = crosswise(run)
    assert found[0] == "value", found
    assert found[1][1][1] == plain(
        pure.Assembled(
            content,
            {"name": b"x"} if with_metadata else None,
            found[1][1][1][1]["proof"][1],
        )
    )


def started(impl: Any, parts: int, **changes: Any) -> Any:
    reference = fixed_segmenter(pure, parts)
    advertisement = impl.Advertisement.unpack(reference.advertisement.pack())
    names = "transfer_bytes data_bytes parts hash random_hash original_hash segment segments"
    fields = {
        name: getattr(advertisement, name)
        for name in (*names.split(), "request_id", "flags", "hashmap")
    }
    return impl.Assembler(impl.Advertisement(**{**fields, **changes}), sdu=4)


@given(
    st.sampled_from((1, 74, 75, 150)),
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 160), st.none() | st.integers(1, 80)),
            st.tuples(st.just("request"), st.integers(0, 200), st.none()),
            st.tuples(st.just("update"), st.integers(0, 3), st.none() | st.integers(1, 74)),
            st.tuples(st.just("noise"), st.integers(0, 5), st.none()),
        ),
        max_size=12,
    ),
)
def test_any_sequence_of_steps_agrees(parts: int, steps: list[tuple[str, int, int | None]]) -> None:
    reference = fixed_segmenter(pure, parts)

    def run(impl: Any) -> Any:
        assembler = started(impl, parts)
        results: list[Any] = []
        for what, number, extra in steps:
            try:
                if what == "add":
                    part = distinct_stream(200)[4 * number : 4 * number + 4]
                    results.append(assembler.add(part, window=extra))
                elif what == "request":
                    results.append(plain(assembler.next_request(number)))
                elif what == "noise":
                    results.append(assembler.add(bytes(number)))
                else:
                    hashes = reference.hashmap[296 * number : 296 * number + 4 * (extra or 74)]
                    update = impl.HashmapUpdate(reference.hash, number, hashes or bytes(4))
                    results.append(assembler.update(update))
            except Exception as error:
                results.append((type(error).__name__, getattr(error, "reason", None)))
            results.append(assembler_facts(assembler))
        return results

    same(run)


def test_advertisements_are_checked_again_by_the_assembler() -> None:
    for changes in (
        {"transfer_bytes": 0},
        {"flags": 0},
        {"flags": 25},
        {"hashmap": bytes(3)},
        {"hashmap": bytes(24), "parts": 100},
        {"segment": 2},
        {"transfer_bytes": 3145726},
    ):
        assert same(lambda impl, c=changes: started(impl, 5, **c).parts)[0] == "error"
    same(lambda impl: impl.Assembler(good_advertisement().pack(), sdu=0).parts)
    same(lambda impl: impl.Assembler(b"\x80").parts)


def finished(impl: Any, stream: bytes, key: Any, max_size: int = 1 << 20, **changes: Any) -> Any:
    """The outcome of a segment of one part."""
    advertisement = {
        "transfer_bytes": len(stream),
        "data_bytes": 1,
        "parts": 1,
        "hash": bytes(32),
        "random_hash": b"abcd",
        "original_hash": bytes(32),
        "segment": 1,
        "segments": 1,
        "request_id": None,
        "flags": 1,
        "hashmap": impl.map_hash(stream, b"abcd"),
    }
    assembler = impl.Assembler(
        impl.Advertisement(**{**advertisement, **changes}), sdu=max(len(stream), 1)
    )
    assert assembler.add(stream) == 0
    return assembler.finish(key, max_size=max_size)


@pytest.mark.parametrize("flags", [1, 3, 33, 35])
def test_every_failure_of_the_assembly_has_the_same_reason(flags: int) -> None:
    plains = {
        "nothing": b"",
        "data": b"some data",
        "metadata": pure.metadata_pack({"a": 1}) + b"data",
        "long metadata": b"\xff\xff\xff\x80data",
        "bad metadata": b"\x00\x00\x01\xc1data",
    }
    for plaintext in plains.values():
        good = pure.sha256(plaintext + b"abcd")
        body = pure.bz2_compress(plaintext) if flags & 2 else plaintext
        for bound in (1, 5, 1 << 20):
            for digest in (good, bytes(32)):
                for opened in (b"pref" + body, b"pre", b"pref" + body[:-1], b"pref" + body + b"x"):
                    same(
                        lambda impl, o=opened, d=digest, b=bound: finished(
                            impl, b"stream", lambda _: o, b, hash=d, flags=flags
                        )
                    )
                sealed = pure.Token(KEY).seal(b"pref" + body, iv=bytes(16))
                for key in (KEY, bytes(64), bytes(32), bytes(5)):
                    same(
                        lambda impl, s=sealed, k=key, d=digest, b=bound: finished(
                            impl, s, k, b, hash=d, flags=flags
                        )
                    )


def test_incomplete_segments_are_refused_alike() -> None:
    same(lambda impl: started(impl, 5).finish(KEY))
    same(lambda impl: started(impl, 5).finish(KEY, max_size=0))
    same(lambda impl: finished(impl, b"stream", lambda _: "text"))
    same(lambda impl: finished(impl, b"stream", 5))
