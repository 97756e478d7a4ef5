"""Resources: payloads, segmenter and assembler, against upstream and against damage (P13, E9)."""

from __future__ import annotations

import bz2
from hashlib import sha256
from typing import Any

import pytest

from golden import data_of, name_of, named, raw, ruled, vectors
from netmesh import _core, errors
from netmesh.constants import (
    RESOURCE_HASHMAP_MAX,
    RESOURCE_SEGMENT_MAX,
    RESOURCE_TRANSFER_MAX,
    Context,
    ResourceFlag,
)

KEY = bytes(range(64))
RESOURCES = vectors("reticulum-links", "resource")


def segmenter_of(impl: Any, vector: dict[str, Any]) -> Any:
    """The segmenter that prepares what upstream sent."""
    given = vector["input"]
    packed = raw(given["metadata_msgpack"])
    block = b"" if packed is None else len(packed).to_bytes(3, "big") + packed
    return impl.Segmenter(
        block + data_of(vector["input"]),
        raw(given["derived_key"]),
        sdu=given["sdu"],
        compression="when_smaller" if given["auto_compress"] else "off",
        random_hash=raw(given["random_hash"]),
        prefix=raw(given["random_prefix"]),
        iv=raw(given["stream_iv"]),
        request_id=raw(given["request_id"]),
        is_response=given["is_response"],
        has_metadata=packed is not None,
    )


def transfer(segmenter: Any, assembler: Any, window: int = 10) -> None:
    """Moves all parts from one to the other."""
    while (request := assembler.next_request(window)) is not None:
        indices, update = segmenter.serve(request)
        for index in indices:
            assert assembler.add(segmenter.part(index)) == index
        if update is not None:
            assembler.update(segmenter.hashmap_update(update))


# ------------------------------------------------------------------ against upstream


@pytest.mark.parametrize("vector", RESOURCES, ids=name_of)
def test_a_segment_is_prepared_as_upstream_does(impl: Any, vector: dict[str, Any]) -> None:
    """P13, E9: every byte of a transfer from given random bytes (vectors `resource`)."""
    out = vector["output"]
    segment = segmenter_of(impl, vector)
    assert segment.hash.hex() == out["resource_hash"]
    assert segment.expected_proof.hex() == out["expected_proof"]
    assert segment.hashmap.hex() == out["hashmap"]
    assert segment.random_hash.hex() == vector["input"]["random_hash"]
    assert segment.parts == out["total_parts"]
    assert segment.compressed is out["compressed"]
    assert sha256(segment.stream).hexdigest() == out["stream_ciphertext_sha256"]
    assert segment.advertisement.pack().hex() == out["advertisement_plaintext"]


@pytest.mark.parametrize("vector", RESOURCES, ids=name_of)
def test_a_whole_transfer_repeats_upstreams_transcript(impl: Any, vector: dict[str, Any]) -> None:
    """P13, E9: requests, parts, hashmap updates and proof as upstream exchanged them."""
    segment = segmenter_of(impl, vector)
    receiver = impl.Assembler(
        raw(vector["output"]["advertisement_plaintext"]), sdu=vector["input"]["sdu"]
    )
    profile = impl.WindowProfile()
    pending: list[int] = []
    for entry in vector["output"]["transcript"]:
        if entry["type"] == "request":
            request = receiver.next_request(profile.window)
            assert request.pack().hex() == entry["plaintext"]
            pending, update = segment.serve(request)
            profile = profile.first_part(1000.0)
        elif entry["type"] == "part":
            part = segment.part(pending.pop(0))
            assert impl.map_hash(part, segment.random_hash).hex() == entry["map_hash"]
            assert receiver.add(part, window=profile.window) is not None
            if not pending:
                profile = profile.round_complete(1000.0)
        elif entry["type"] == "hmu":
            assert segment.hashmap_update(update).pack().hex() == entry["plaintext"]
            receiver.update(raw(entry["plaintext"]))
        else:
            result = receiver.finish(raw(vector["input"]["derived_key"]))
            assert result.proof == raw(entry["raw"])[19:]
            assert result.plaintext == data_of(vector["input"])
            assert segment.check_proof(result.proof)
    assert receiver.complete
    assert segment.sent == segment.parts


def test_metadata_comes_out_decoded(impl: Any) -> None:
    vector = named("reticulum-links", "resource_with_metadata")
    segment = segmenter_of(impl, vector)
    receiver = impl.Assembler(segment.advertisement)
    transfer(segment, receiver)
    result = receiver.finish(raw(vector["input"]["derived_key"]))
    assert result.metadata == {"name": b"file.bin"}
    assert segment.advertisement.has_metadata


@pytest.mark.parametrize(
    "vector", [*RESOURCES, *vectors("reticulum-links", "resource_advertisement")], ids=name_of
)
def test_advertisements_of_upstream_are_read_and_written(impl: Any, vector: dict[str, Any]) -> None:
    """P13: vectors `resource` and `resource_advertisement`, field by field."""
    out = vector["output"]
    found = impl.Advertisement.unpack(raw(out["advertisement_plaintext"]))
    fields = out["fields"]
    assert found.pack().hex() == out["advertisement_plaintext"]
    assert (found.transfer_bytes, found.data_bytes, found.parts) == (
        fields["t"],
        fields["d"],
        fields["n"],
    )
    assert found.hash.hex() == fields["h"]
    assert found.random_hash.hex() == fields["r"]
    assert found.original_hash.hex() == fields["o"]
    assert (found.segment, found.segments, found.flags) == (fields["i"], fields["l"], fields["f"])
    assert found.request_id == raw(fields["q"])
    assert found.hashmap.hex() == fields["m"]
    assert found == impl.Advertisement(
        **{name: getattr(found, name) for name in ADVERTISEMENT_FIELDS}
    )


ADVERTISEMENT_FIELDS = (
    "transfer_bytes",
    "data_bytes",
    "parts",
    "hash",
    "random_hash",
    "original_hash",
    "segment",
    "segments",
    "request_id",
    "flags",
    "hashmap",
)


def test_a_response_is_marked_as_upstream_does(impl: Any) -> None:
    """P13: vector `response_as_resource_advertisement`."""
    vector = named("reticulum-links", "response_as_resource_advertisement")
    segment = segmenter_of(impl, vector)
    assert segment.advertisement.pack().hex() == vector["output"]["advertisement_plaintext"]
    assert segment.advertisement.is_response
    assert not segment.advertisement.is_request


def test_a_request_is_marked_as_upstream_does(impl: Any) -> None:
    """P13: vector `request_as_resource_advertisement`."""
    vector = named("reticulum-links", "request_as_resource_advertisement")
    packed, out = raw(vector["input"]["packed_request"]), vector["output"]
    segment = impl.Segmenter(
        packed, KEY, request_id=raw(out["request_id"]), random_hash=raw(out["fields"]["r"])
    )
    assert segment.advertisement.flags == out["flags"]
    assert segment.hash.hex() == out["fields"]["h"]
    assert segment.advertisement.request_id == impl.truncated_hash(packed)


def test_flags_are_those_of_upstream(impl: Any) -> None:
    """P13: vector `resource_flags`, all combinations."""
    (vector,) = vectors("reticulum-links", "resource_flags")
    for row in vector["output"]["rows"]:
        flags = impl.advertisement_flags(
            encrypted=bool(row["e"]),
            compressed=bool(row["c"]),
            split=bool(row["s"]),
            request=bool(row["u"]),
            response=bool(row["p"]),
            metadata=bool(row["x"]),
        )
        assert flags == row["f"]


def test_segment_plans_are_those_of_upstream(impl: Any) -> None:
    """P13: vector `resource_segmentation`."""
    (vector,) = vectors("reticulum-links", "resource_segmentation")
    for row in vector["output"]["rows"]:
        plan = impl.segment_plan(row["data_size"], row["metadata_size_incl_3_byte_length"])
        assert plan == row["segment_plaintext_lengths"]
        assert len(plan) == row["segments_l"]
        assert sum(plan) == row["total_size_d"]


def test_two_segments_are_advertised_as_upstream_does(impl: Any) -> None:
    """P13, E9: vector `resource_two_segments`, sealed by a function of the caller's."""
    (vector,) = vectors("reticulum-links", "resource_segments")
    given, out = vector["input"], vector["output"]
    block = raw(given["metadata_block"])
    whole = block + ruled("split", given["data_length"])
    seal = _core.Token(KEY).seal
    start, original = 0, None
    for number, size in enumerate(impl.segment_plan(given["data_length"], len(block)), 1):
        fields = out[f"segment{number}"]
        segment = impl.Segmenter(
            whole[start : start + size],
            seal,
            sdu=given["link_mtu"] - 36,
            random_hash=raw(fields["r"]),
            data_bytes=len(whole),
            segment=number,
            segments=2,
            original_hash=original,
            has_metadata=True,
        )
        found = segment.advertisement
        assert segment.expected_proof.hex() == out[f"segment{number}_expected_proof"]
        assert (found.transfer_bytes, found.data_bytes, found.parts) == (
            fields["t"],
            fields["d"],
            fields["n"],
        )
        assert (found.hash.hex(), found.original_hash.hex()) == (fields["h"], fields["o"])
        assert (found.segment, found.segments, found.flags) == (number, 2, fields["f"])
        start, original = start + size, original or segment.hash


@pytest.mark.parametrize("vector", vectors("reticulum-links", "resource_part_search"), ids=name_of)
def test_parts_are_searched_in_the_window_as_upstream_does(
    impl: Any, vector: dict[str, Any]
) -> None:
    """P13, E9: vectors `resource_part_search`: which part is stored, which is ignored."""
    given, out = vector["input"], vector["output"]
    stream = ruled(vector["name"], given["data_length"])
    segment = impl.Segmenter(
        stream[: given["data_length"]],
        lambda _: stream,
        random_hash=raw(given["random_hash"]),
    )
    receiver = impl.Assembler(segment.advertisement)
    assert receiver.parts == segment.parts
    for index, stored in zip(given["arrival_order"], out["stored"], strict=True):
        found = receiver.add(segment.part(index), window=given["window"])
        assert found == (index if stored else None)
    assert receiver.consecutive - 1 == out["consecutive_completed"]


def test_the_metadata_block_of_rncp(impl: Any) -> None:
    """P13: vector `rncp_resource_metadata`."""
    vector = named("reticulum-links", "rncp_resource_metadata")
    block = raw(vector["output"]["block"])
    value = {"name": vector["input"]["filename"].encode()}
    assert impl.metadata_pack(value) == block
    assert impl.metadata_unpack(block + b"data") == (value, len(block))


def test_proofs_of_upstream_are_taken_apart(impl: Any) -> None:
    """P13: the proof payload."""
    vector = RESOURCES[0]
    payload = raw(vector["output"]["proof_raw"])[19:]
    assert raw(vector["output"]["proof_raw"])[18] == Context.RESOURCE_PRF
    resource_hash = raw(vector["output"]["resource_hash"])
    assert impl.resource_proof_unpack(payload) == (
        resource_hash,
        raw(vector["output"]["expected_proof"]),
    )
    assert impl.resource_proof_pack(resource_hash, data_of(vector["input"])) == payload


def test_cancel_payloads_are_the_resource_hash(impl: Any) -> None:
    """P13: vectors `resource_cancel`: sealed and opened as ordinary link packets."""
    for vector in vectors("reticulum-links", "resource_cancel"):
        key, packet = raw(vector["input"]["derived_key"]), raw(vector["output"]["raw"])
        assert impl.Token(key).open(packet[19:]) == raw(vector["input"]["plaintext"])
        assert packet[18] in (Context.RESOURCE_ICL, Context.RESOURCE_RCL)


# ------------------------------------------------------------------ choices of a sender


def test_seal_and_open_functions_take_the_place_of_a_link(impl: Any) -> None:
    """E9: link replaced by a seal function; the prefix of 4 bytes comes with the body."""
    seen: list[bytes] = []

    def seal(plaintext: bytes) -> bytes:
        seen.append(plaintext)
        return bytes(byte ^ 0x5A for byte in plaintext)

    def open_(stream: bytes) -> bytes:
        return bytes(byte ^ 0x5A for byte in stream)

    data = ruled("plain", 1000)
    segment = impl.Segmenter(data, seal, prefix=b"abcd", sdu=64)
    assert seen == [b"abcd" + data]
    receiver = impl.Assembler(segment.advertisement, sdu=64)
    transfer(segment, receiver)
    assert receiver.finish(open_).plaintext == data


@pytest.mark.parametrize("size", [32, 64])
def test_keys_come_as_token_or_as_bytes(impl: Any, size: int) -> None:
    """E9: the link's Token or its raw key, of either mode."""
    key = KEY[:size]
    segment = impl.Segmenter(b"x" * 999, impl.Token(key), iv=bytes(16), prefix=bytes(4))
    same = impl.Segmenter(bytearray(b"x" * 999), memoryview(key), iv=bytes(16), prefix=bytes(4))
    assert segment.stream == same.stream
    receiver = impl.Assembler(segment.advertisement.pack())
    transfer(segment, receiver)
    assert receiver.finish(key) == receiver.finish(impl.Token(key))


def test_compression_is_a_choice(impl: Any) -> None:
    """E9: compression off, when smaller, automatic."""
    text = b"compressible " * 500
    noise = ruled("noise", 6500)
    for mode, data, compressed in (
        ("off", text, False),
        ("when_smaller", text, True),
        ("automatic", text, True),
        ("when_smaller", noise, False),
        ("automatic", noise, False),
    ):
        segment = impl.Segmenter(data, KEY, compression=mode)
        assert segment.compressed is compressed
        assert segment.advertisement.compressed is compressed
        receiver = impl.Assembler(segment.advertisement)
        transfer(segment, receiver)
        assert receiver.finish(KEY).plaintext == data
    with pytest.raises(ValueError, match="compression"):
        impl.Segmenter(text, KEY, compression="gzip")


def test_random_bytes_differ_unless_given(impl: Any) -> None:
    """E9: entropy given or drawn."""
    drawn = {impl.Segmenter(b"same", KEY).random_hash for _ in range(8)}
    assert len(drawn) == 8
    streams = {bytes(impl.Segmenter(b"same", KEY).stream) for _ in range(8)}
    assert len(streams) == 8
    given = {"random_hash": b"rrrr", "prefix": b"pppp", "iv": bytes(16)}
    one, two = (impl.Segmenter(b"same", KEY, **given) for _ in range(2))
    assert one.stream == two.stream
    assert one.hash == two.hash


def test_colliding_map_hashes_are_refused_or_avoided(impl: Any) -> None:
    """P13 (RNS 2, 3.2 step 6): equal parts within 224 collide under every random hash."""

    def repeat(_: bytes) -> bytes:
        return b"A" * 464 * 3

    with pytest.raises(errors.EncodeError) as caught:
        impl.Segmenter(b"x", repeat, random_hash=b"abcd")
    assert caught.value.reason == "COLLISION"
    with pytest.raises(errors.EncodeError) as caught:
        impl.Segmenter(b"x", repeat)
    assert caught.value.reason == "COLLISION"


def test_empty_data_make_one_part(impl: Any) -> None:
    """RNS 2, 3.2: data of length 0 are sent as an empty plaintext."""
    segment = impl.Segmenter(b"", KEY)
    assert (segment.parts, segment.advertisement.data_bytes) == (1, 0)
    receiver = impl.Assembler(segment.advertisement)
    transfer(segment, receiver)
    assert receiver.finish(KEY).plaintext == b""


def test_views_outlive_their_segmenter(impl: Any) -> None:
    segment = impl.Segmenter(ruled("views", 2000), KEY, sdu=100)
    whole = bytes(segment.stream)
    parts = [segment.part(index) for index in range(segment.parts)]
    stream = segment.stream
    del segment
    assert b"".join(parts) == whole == bytes(stream)
    assert all(isinstance(part, memoryview) and part.readonly for part in parts)


def test_parts_are_numbered_from_zero(impl: Any) -> None:
    segment = impl.Segmenter(bytes(1000), KEY, sdu=100)
    for wrong in (-1, segment.parts, 10**12):
        with pytest.raises(IndexError):
            segment.part(wrong)


def test_hashmap_updates_cover_all_parts(impl: Any) -> None:
    """P13 (RNS 2, 3.5): segment s carries map hashes from part 74 * s on."""
    segment = impl.Segmenter(bytes(100 * 160), KEY, sdu=100)
    joined = b"".join(segment.hashmap_update(number).hashmap for number in range(3))
    assert joined == segment.hashmap
    assert segment.advertisement.hashmap == segment.hashmap[: 4 * RESOURCE_HASHMAP_MAX]
    with pytest.raises(ValueError, match="segment"):
        segment.hashmap_update(3)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"sdu": 0}, "sdu"),
        ({"segment": 0}, "segment"),
        ({"segment": 3, "segments": 2}, "segment"),
        ({"segments": 0}, "segments"),
        ({"data_bytes": -1}, "data_bytes"),
        ({"is_response": True}, "is_response"),
        ({"random_hash": b"12345"}, "random_hash"),
        ({"prefix": b""}, "prefix"),
        ({"iv": bytes(15)}, "iv"),
        ({"original_hash": bytes(31)}, "original_hash"),
        ({"request_id": bytes(17)}, "request_id"),
    ],
)
def test_wrong_values_are_refused(impl: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        impl.Segmenter(b"data", KEY, **arguments)


def test_wrong_keys_are_refused(impl: Any) -> None:
    with pytest.raises(ValueError, match="key"):
        impl.Segmenter(b"data", bytes(33))
    with pytest.raises(TypeError, match="key"):
        impl.Segmenter(b"data", "secret")
    with pytest.raises(TypeError, match="key"):
        impl.Segmenter(b"data", lambda _: "text")
    with pytest.raises(ZeroDivisionError):
        impl.Segmenter(b"data", lambda _: 1 // 0)


def test_what_does_not_fit_a_segment_is_refused(impl: Any) -> None:
    with pytest.raises(errors.EncodeError) as caught:
        impl.Segmenter(bytes(RESOURCE_SEGMENT_MAX + 1), lambda _: b"never asked")
    assert (caught.value.reason, caught.value.field) == ("TOO_LARGE", "plaintext")
    for stream, reason in ((b"", "EMPTY"), (bytes(RESOURCE_TRANSFER_MAX + 1), "TOO_LARGE")):
        with pytest.raises(errors.EncodeError) as caught:
            impl.Segmenter(b"data", lambda _, stream=stream: stream)
        assert caught.value.reason == reason


# ------------------------------------------------------------------ serving and receiving


def test_a_lost_part_is_requested_again(impl: Any) -> None:
    """E9: received count, first missing part, requests after loss and reordering."""
    segment = impl.Segmenter(ruled("loss", 1900), KEY)
    receiver = impl.Assembler(segment.advertisement)
    indices, _ = segment.serve(receiver.next_request(4))
    assert indices == [0, 1, 2, 3]
    for index in (3, 2, 0):
        receiver.add(segment.part(index))
    assert (receiver.received, receiver.consecutive, receiver.complete) == (3, 1, False)
    assert segment.serve(receiver.next_request(4))[0] == [1, 4]
    assert segment.serve(receiver.next_request(4))[0] == [1, 4]
    assert receiver.add(segment.part(2)) is None
    assert receiver.received == 3


def test_an_exhausted_request_waits_for_map_hashes(impl: Any) -> None:
    """E9: hashmap height and waiting for the hashmap are readable."""
    segment = impl.Segmenter(bytes(100 * 80), KEY, sdu=100)
    receiver = impl.Assembler(segment.advertisement, sdu=100)
    assert receiver.hashmap_height == RESOURCE_HASHMAP_MAX
    request = receiver.next_request(75)
    assert request.exhausted
    assert request.last_map_hash == segment.hashmap[4 * 73 : 4 * 74]
    assert receiver.waiting_for_hashmap
    assert segment.serve(request) == (list(range(74)), 1)
    receiver.update(segment.hashmap_update(1))
    assert (receiver.hashmap_height, receiver.waiting_for_hashmap) == (segment.parts, False)


def test_requests_out_of_sequence_are_refused(impl: Any) -> None:
    """RNS 2, 3.4: a sequencing error cancels the transfer; the server's state is unchanged."""
    segment = impl.Segmenter(bytes(100 * 80), KEY, sdu=100)
    first = segment.hashmap[:4]
    for request in (
        impl.PartRequest(bytes(32), first),
        impl.PartRequest(segment.hash, b"", last_map_hash=segment.hashmap[4:8]),
        impl.PartRequest(segment.hash, b"", last_map_hash=b"none"),
        impl.PartRequest(segment.hash, b"", last_map_hash=segment.hashmap[-4:]),
    ):
        with pytest.raises(errors.DecodeError) as caught:
            segment.serve(request)
        assert caught.value.reason == "MISMATCH"
    assert segment.sent == 0
    assert segment.serve(impl.PartRequest(segment.hash, b"none" + first).pack()) == ([0], None)
    assert segment.sent == 1
    with pytest.raises(TypeError):
        segment.serve("text")


def test_a_request_for_too_many_parts_is_refused(impl: Any) -> None:
    segment = impl.Segmenter(b"x", KEY)
    with pytest.raises(errors.LimitError):
        segment.serve(impl.PartRequest(segment.hash, b"abcd" * 225))


def test_foreign_and_damaged_parts_are_ignored(impl: Any) -> None:
    segment = impl.Segmenter(ruled("foreign", 900), KEY)
    receiver = impl.Assembler(segment.advertisement)
    good = bytes(segment.part(0))
    for bad in (b"", b"noise", good[:-1], good + b"x", bytes([good[0] ^ 1]) + good[1:]):
        assert receiver.add(bad) is None
    assert receiver.received == 0
    assert receiver.add(bytearray(good)) == 0
    assert receiver.add(good) is None


def test_foreign_updates_are_refused_and_change_nothing(impl: Any) -> None:
    segment = impl.Segmenter(bytes(100 * 80), KEY, sdu=100)
    receiver = impl.Assembler(segment.advertisement, sdu=100)
    good = segment.hashmap_update(1)
    with pytest.raises(errors.NetmeshError) as state:
        receiver.update(good)
    assert state.value.reason == "STATE"
    receiver.next_request(75)
    for update, reason in (
        (impl.HashmapUpdate(bytes(32), 1, good.hashmap), "MISMATCH"),
        (impl.HashmapUpdate(segment.hash, 0, good.hashmap), "MISMATCH"),
        (impl.HashmapUpdate(segment.hash, 2, good.hashmap), "RANGE"),
        (impl.HashmapUpdate(segment.hash, 1, bytes(4 * 74)), "RANGE"),
    ):
        with pytest.raises(errors.DecodeError) as caught:
            receiver.update(update)
        assert caught.value.reason == reason
        assert receiver.waiting_for_hashmap
    receiver.update(good.pack())
    assert receiver.hashmap_height == segment.parts


# ------------------------------------------------------------------ finishing


def received(impl: Any, segment: Any, **changes: Any) -> Any:
    """An assembler that has all parts of a segment whose advertisement was changed."""
    fields = {name: getattr(segment.advertisement, name) for name in ADVERTISEMENT_FIELDS}
    receiver = impl.Assembler(impl.Advertisement(**{**fields, **changes}))
    for index in range(segment.parts):
        receiver.add(segment.part(index))
    assert receiver.complete
    return receiver


def failure(run: Any) -> str:
    """The reason of the ResourceError that a call raises."""
    with pytest.raises(errors.ResourceError) as caught:
        run()
    return caught.value.reason


def test_every_failure_of_a_finished_transfer_has_its_own_reason(impl: Any) -> None:
    """E9: what is wrong with a resource decides what the receiver does."""
    text = b"long text " * 200
    segment = impl.Segmenter(text, KEY, compression="when_smaller")
    flags = segment.advertisement.flags
    good = received(impl, segment)
    assert failure(lambda: impl.Assembler(segment.advertisement).finish(KEY)) == "STATE"
    assert failure(lambda: good.finish(KEY[::-1])) == "AUTH"
    assert failure(lambda: good.finish(lambda _: b"abc")) == "MISMATCH"
    assert failure(lambda: received(impl, segment, hash=bytes(32)).finish(KEY)) == "MISMATCH"
    assert good.finish(KEY).plaintext == text
    plain = impl.Segmenter(text, KEY)
    as_packed = received(impl, plain, flags=flags)
    assert failure(lambda: as_packed.finish(KEY)) == "COMPRESSED"
    with_block = received(impl, plain, flags=plain.advertisement.flags | ResourceFlag.METADATA)
    assert failure(lambda: with_block.finish(KEY)) == "VALUE"
    assert failure(lambda: good.finish(KEY, max_size=len(text) - 1)) == "LIMIT"
    assert good.finish(KEY, max_size=len(text)).plaintext == text


def test_damaged_metadata_are_refused(impl: Any) -> None:
    for block in (b"\x00\x00\x01\xc1", b"\x00\x00\x01\x91", b"\x00\x00\x64" + b"\x91" * 100):
        segment = impl.Segmenter(block + b"data", KEY, has_metadata=True)
        assert failure(lambda s=segment: received(impl, s).finish(KEY)) == "VALUE"


def test_metadata_are_looked_for_in_the_first_segment_only(impl: Any) -> None:
    segment = impl.Segmenter(b"data", KEY, has_metadata=True, segment=2, segments=2)
    result = received(impl, segment).finish(KEY)
    assert (result.plaintext, result.metadata) == (b"data", None)


def test_a_decompression_bomb_is_stopped_while_it_inflates(impl: Any) -> None:
    """E9: the bound on the output is settable; the default is 64 MiB."""
    bomb = bz2.compress(bytes(70_000_000))
    assert len(bomb) < 200
    segment = impl.Segmenter(b"x", lambda _: b"pppp" + bomb)
    receiver = received(
        impl, segment, flags=ResourceFlag.ENCRYPTED | ResourceFlag.COMPRESSED, data_bytes=1
    )
    assert failure(lambda: receiver.finish(lambda stream: stream)) == "LIMIT"
    assert failure(lambda: receiver.finish(lambda stream: stream, max_size=1000)) == "LIMIT"
    with pytest.raises(ValueError, match="max_size"):
        receiver.finish(KEY, max_size=0)


def test_an_error_of_the_callers_function_comes_out(impl: Any) -> None:
    receiver = received(impl, impl.Segmenter(b"data", KEY))
    with pytest.raises(ZeroDivisionError):
        receiver.finish(lambda _: 1 // 0)
    with pytest.raises(TypeError, match="key"):
        receiver.finish(lambda _: 5)
    with pytest.raises(TypeError, match="key"):
        receiver.finish(5)


def test_proofs_are_checked_whole(impl: Any) -> None:
    segment = impl.Segmenter(b"proven", KEY)
    proof = impl.resource_proof_pack(segment.hash, b"proven")
    assert proof == segment.hash + segment.expected_proof
    assert segment.check_proof(proof)
    for bad in (b"", proof[:-1], proof + b"x", proof[:63] + bytes([proof[63] ^ 1]), proof[::-1]):
        assert not segment.check_proof(bad)


# ------------------------------------------------------------------ damaged payloads


def reason_of(run: Any) -> tuple[str, str]:
    """Reason and field of the DecodeError that a call raises."""
    with pytest.raises(errors.DecodeError) as caught:
        run()
    assert caught.value.codec == "resource"
    return caught.value.reason, caught.value.field


def test_advertisements_that_a_receiver_must_refuse(impl: Any) -> None:
    """P13: the checks of RNS 2, 3.3."""
    good = impl.Segmenter(bytes(1000), KEY).advertisement
    fields = {name: getattr(good, name) for name in ADVERTISEMENT_FIELDS}
    for changes, reason, field in (
        ({"transfer_bytes": 0}, "RANGE", "t"),
        ({"transfer_bytes": RESOURCE_TRANSFER_MAX + 1}, "RANGE", "t"),
        ({"hashmap": b""}, "LENGTH", "m"),
        ({"hashmap": b"abc"}, "LENGTH", "m"),
        ({"hashmap": bytes(4 * 4)}, "LENGTH", "m"),
        ({"segment": 2}, "RANGE", "i"),
        ({"flags": 0}, "VALUE", "f"),
        ({"flags": 0x19}, "VALUE", "f"),
    ):
        bad = impl.Advertisement(**{**fields, **changes})
        assert reason_of(lambda b=bad: impl.Advertisement.unpack(b.pack())) == (
            reason,
            f"advertisement.{field}",
        )
        assert reason_of(lambda b=bad: impl.Assembler(b))[0] == reason
    for name, value in (("hash", b""), ("random_hash", b"12345"), ("request_id", bytes(15))):
        with pytest.raises(errors.EncodeError) as caught:
            impl.Advertisement(**{**fields, name: value})
        assert (caught.value.reason, caught.value.field) == ("LENGTH", name)


def test_truncated_payloads_are_refused(impl: Any) -> None:
    """Every beginning of a payload is an error with a name, never anything else."""
    segment = impl.Segmenter(bytes(100 * 80), KEY, sdu=100, request_id=bytes(16))
    advertisement = segment.advertisement.pack()
    for size in range(len(advertisement)):
        with pytest.raises(errors.DecodeError):
            impl.Advertisement.unpack(advertisement[:size])
    request = impl.PartRequest(segment.hash, b"abcdefgh", last_map_hash=b"last").pack()
    for size in [*range(37), 38, 39, 40, 42]:
        with pytest.raises(errors.DecodeError):
            impl.PartRequest.unpack(request[:size])
    update = segment.hashmap_update(1).pack()
    for size in range(len(update)):
        with pytest.raises(errors.DecodeError):
            impl.HashmapUpdate.unpack(update[:size])
    for size in [*range(64), 65]:
        with pytest.raises(errors.DecodeError):
            impl.resource_proof_unpack(bytes(size))


def test_part_requests_and_updates_are_checked(impl: Any) -> None:
    assert reason_of(lambda: impl.PartRequest.unpack(b"\x01" + bytes(36))) == (
        "VALUE",
        "request.flag",
    )
    assert reason_of(lambda: impl.PartRequest.unpack(bytes(35)))[0] == "LENGTH"
    assert impl.PartRequest.unpack(bytes(33)).hashes == b""
    for packed, reason in (
        (b"\xc0", "TYPE"),
        (b"\x92\x01\xc4\x00", "EMPTY"),
        (b"\x92\x01\xc4\x03abc", "LENGTH"),
        (b"\x92\xc0\xc4\x04abcd", "TYPE"),
        (b"\x92\xce\xff\xff\xff\xff\xc4\x04abcd", "RANGE"),
    ):
        assert reason_of(lambda p=packed: impl.HashmapUpdate.unpack(bytes(32) + p))[0] == reason
    for wrong in (b"", b"abc", bytes(4 * 75)):
        with pytest.raises(errors.EncodeError, match="hashmap"):
            impl.HashmapUpdate(bytes(32), 0, wrong)
    with pytest.raises(errors.EncodeError, match="hashes"):
        impl.PartRequest(bytes(32), b"abc")


def test_metadata_blocks_are_checked(impl: Any) -> None:
    for block in (b"", b"\x00\x00", b"\x00\x00\x05\x01", b"\x00\x00\x01\xc1"):
        with pytest.raises(errors.DecodeError):
            impl.metadata_unpack(block)
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    with pytest.raises(errors.EncodeError):
        impl.metadata_pack(deep)
    with pytest.raises(errors.LimitError):
        impl.metadata_unpack(b"\x00\x00\x64" + b"\x91" * 100)
    with pytest.raises(TypeError):
        impl.metadata_pack(object())


def test_cutting_and_joining_copy_no_more_than_needed(impl: Any) -> None:
    data = ruled("cut", 1001)
    parts = impl.cut(data, 100)
    assert [len(part) for part in parts] == [100] * 10 + [1]
    assert all(isinstance(part, memoryview) and part.obj is data for part in parts)
    assert impl.join(parts) == data
    assert impl.join([]) == b""
    assert impl.cut(b"", 5) == []
    assert impl.join((b"a", bytearray(b"b"), memoryview(b"c"))) == b"abc"
    assert impl.join(impl.cut(memoryview(data)[::1], 7)) == data
    with pytest.raises(ValueError, match="size"):
        impl.cut(data, 0)
    with pytest.raises(TypeError, match="parts"):
        impl.join([b"a", "b"])
    with pytest.raises(TypeError):
        impl.cut("text", 5)


def test_segment_plans_have_bounds(impl: Any) -> None:
    assert impl.segment_plan(0) == [0]
    assert impl.segment_plan(RESOURCE_SEGMENT_MAX - 10, 10) == [RESOURCE_SEGMENT_MAX]
    for wrong in (-1, 2**40 + 1):
        with pytest.raises(ValueError, match="data_bytes"):
            impl.segment_plan(wrong)
    with pytest.raises(errors.EncodeError) as caught:
        impl.segment_plan(1, RESOURCE_SEGMENT_MAX + 1)
    assert caught.value.reason == "TOO_LARGE"


def test_values_are_compared_hashed_and_shown(impl: Any) -> None:
    one, two = (impl.PartRequest(bytes(32), b"abcd") for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != impl.PartRequest(bytes(32), b"abcd", last_map_hash=b"last")
    assert one != "other"
    assert repr(one).startswith("PartRequest(resource_hash=b'")
    with pytest.raises(AttributeError):
        one.hashes = b""
