"""MessagePack, handshakes, channels and resources: both against the upstream stack."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.support import ADDRESS, KEY, damaged, fewer, plain, pure, sized
from differential.upstream import (
    BOTH,
    OWNER,
    RNS,
    Link,
    collected,
    each,
    fake_destination,
    identity_of,
    sending,
    unpacked,
)

pytestmark = pytest.mark.usefixtures("upstream")
SESSION_KEY = bytes(range(64))

# ------------------------------------------------------------- MessagePack

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from((31, 32, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, -32, -33, -129)),
    st.floats(allow_nan=False),
    st.text(max_size=40),
    st.binary(max_size=300),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=30,
)


@given(VALUES)
def test_values_are_packed_alike(value: Any) -> None:
    packed = RNS.vendor.umsgpack.packb(value)
    for impl in BOTH:
        assert impl.packb(value) == packed
        assert plain(impl.unpackb(packed)) == plain(RNS.vendor.umsgpack.unpackb(packed))


def may_hold_extensions(packed: bytes) -> bool:
    """Whether a code of an extension is in there; upstream reads some of them as times."""
    return any(code in packed for code in (0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8))


@given(damaged(VALUES.map(pure.packb)))
def test_any_bytes_are_unpacked_alike(packed: bytes) -> None:
    if may_hold_extensions(packed):
        return
    try:
        expected = plain(RNS.vendor.umsgpack.unpackb(packed))
    except Exception:  # of any kind
        expected = None
    for impl in BOTH:
        try:
            found = plain(impl.unpackb(packed))
        except ValueError:
            found = None
        assert found == expected


# -------------------------------------------------------------- handshakes


@given(st.integers(0, 2**21 - 1))
def test_signalling_agrees(mtu: int) -> None:
    expected = RNS.Link.signalling_bytes(mtu, RNS.Link.MODE_AES256_CBC)
    for impl in BOTH:
        assert impl.signalling_pack(mtu) == expected
        assert impl.signalling_unpack(expected) == (mtu, 1)


@given(ADDRESS, sized(64, 67, 70), st.booleans())
def test_link_ids_agree(address: bytes, payload: bytes, relayed: bool) -> None:
    options = {"header_type": 1, "transport_type": 1, "transport_id": bytes(16), "hops": 1}
    for impl in BOTH:
        raw = impl.Packet(
            destination=address, payload=payload, packet_type=2, **(options if relayed else {})
        ).raw
        theirs = unpacked(raw)
        assert impl.link_id(raw) == RNS.Link.link_id_from_lr_packet(theirs)
        if len(payload) <= 67:
            ours = impl.LinkRequest.unpack(raw)
            # No MTU, and one of zero, mean the default.
            assert ours.mtu == (RNS.Link.mtu_from_lr_packet(theirs) or 500)
            assert ours.mode == RNS.Link.mode_from_lr_packet(theirs)


@fewer(2)
@given(ADDRESS, KEY, KEY, st.integers(200, 2**21 - 1))
def test_handshakes_agree(link_id: bytes, ours_key: bytes, their_key: bytes, mtu: int) -> None:
    from RNS.Cryptography import X25519PrivateKey

    theirs = RNS.Link.__new__(RNS.Link)
    theirs.status, theirs.mode, theirs.link_id = RNS.Link.PENDING, RNS.Link.MODE_AES256_CBC, link_id
    theirs.hash, theirs.type = link_id, RNS.Destination.LINK
    theirs.prv = X25519PrivateKey.from_private_bytes(their_key)
    theirs.pub_bytes = theirs.prv.public_key().public_bytes()
    theirs.peer_pub = X25519PrivateKey.from_private_bytes(ours_key).public_key()
    theirs.handshake()
    # The proof as upstream's responder sends it.
    theirs.mtu, theirs.establishment_cost = mtu, 0
    theirs.owner = SimpleNamespace(identity=identity_of())
    theirs.sig_pub_bytes = identity_of().get_public_key()[32:]
    theirs.had_outbound = lambda *args, **kwargs: None
    with collected() as sent:
        theirs.prove()
    for impl in BOTH:
        key = impl.link_session_key(ours_key, theirs.pub_bytes, link_id)
        assert key == theirs.derived_key
        proof = impl.LinkProof.unpack(sent[0].raw)
        owner = impl.Identity.from_private(OWNER)
        assert proof.verify(owner, mtu_max=mtu)
        assert proof.mtu == mtu
        assert proof.x25519_public == theirs.pub_bytes
        ours = impl.LinkProof.create(link_id, owner, theirs.pub_bytes, mtu=mtu)
        assert ours.packet.raw == sent[0].raw


# ---------------------------------------------------------------- channels


@given(st.integers(0, 0xEFFF), st.integers(0, 0xFFFF), st.binary(max_size=300))
def test_envelopes_agree(msgtype: int, sequence: int, payload: bytes) -> None:
    class Message(RNS.MessageBase):
        MSGTYPE = msgtype

        def __init__(self, content: bytes = b"") -> None:
            self.content = content

        def pack(self) -> bytes:
            return self.content

        def unpack(self, raw: bytes) -> None:
            self.content = raw

    theirs = RNS.Channel.Envelope(None, message=Message(payload), sequence=sequence)
    packed = theirs.pack()
    for impl in BOTH:
        ours = impl.Envelope(msgtype, sequence, payload)
        assert ours.pack() == packed
        assert impl.Envelope.unpack(packed) == ours
        back = RNS.Channel.Envelope(None, raw=ours.pack())
        assert back.unpack({msgtype: Message}).content == payload
        assert back.sequence == sequence


@given(st.integers(0, 0x3FFF), st.binary(max_size=300), st.booleans(), st.booleans())
def test_stream_data_agree(stream: int, data: bytes, eof: bool, compressed: bool) -> None:
    from RNS.Buffer import StreamDataMessage

    wire = pure.bz2_compress(data) if compressed else data
    packed = StreamDataMessage(stream, wire, eof, compressed).pack()
    for impl in BOTH:
        ours = impl.StreamData(stream, wire, eof=eof, compressed=compressed)
        assert ours.pack() == packed
        assert impl.StreamData.unpack(packed) == ours
        theirs = StreamDataMessage()
        theirs.unpack(ours.pack())
        assert (theirs.stream_id, theirs.data, theirs.eof) == (stream, data, eof)


# --------------------------------------------------------------- resources

CONTENTS = st.one_of(
    st.binary(min_size=1, max_size=3000),
    st.integers(1, 90000).map(lambda size: bytes(number % 251 for number in range(size))),
    st.integers(80, 160).map(lambda parts: pure.hkdf(464 * parts - 20, b"noise")),
)


@fewer(4)
@given(
    CONTENTS,
    st.none() | VALUES.filter(lambda value: value is not None),
    st.none() | ADDRESS,
    st.booleans(),
)
def test_their_resources_are_assembled(
    content: bytes, metadata: Any, request_id: bytes | None, is_response: bool
) -> None:
    for impl in BOTH:
        theirs = RNS.Resource(
            content,
            Link(SESSION_KEY),
            metadata=metadata,
            advertise=False,
            request_id=request_id,
            is_response=is_response,
        )
        theirs.adv_sent = 0.0
        packed = RNS.ResourceAdvertisement(theirs).pack()
        ours = impl.Advertisement.unpack(packed)
        assert ours.pack() == packed
        assert ours.is_request is (request_id is not None and not is_response)
        assert ours.is_response is (request_id is not None and is_response)
        assembler = impl.Assembler(ours)
        with collected() as sent:
            while not assembler.complete:
                theirs.request(assembler.next_request(10).pack())
                for packet in sent:
                    if packet.context == RNS.Packet.RESOURCE_HMU:
                        assembler.update(packet.data)
                    else:
                        assembler.add(packet.data, window=10)
                sent.clear()
        done = assembler.finish(SESSION_KEY)
        assert done.plaintext == content
        assert plain(done.metadata) == plain(metadata)
        theirs.validate_proof(done.proof)
        assert theirs.status == RNS.Resource.COMPLETE


@each
@pytest.mark.parametrize("compression", ["off", "when_smaller", "automatic"])
@pytest.mark.parametrize("metadata", [None, {"name": b"file"}])
@pytest.mark.parametrize("size", [1, 463, 464, 5000, 100_000])
def test_our_resources_are_assembled_upstream(
    impl: Any, compression: str, metadata: Any, size: int
) -> None:
    content = bytes(number % 241 for number in range(size))
    lead = b"" if metadata is None else impl.metadata_pack(metadata)
    ours = impl.Segmenter(
        lead + content, SESSION_KEY, compression=compression, has_metadata=bool(lead)
    )
    received: list[bytes] = []
    over = threading.Event()

    def concluded(resource: Any) -> None:
        received.append(resource.data.read())
        over.set()

    with collected() as sent:
        advertised = SimpleNamespace(
            plaintext=ours.advertisement.pack(), link=Link(SESSION_KEY), packet_hash=b""
        )
        theirs = RNS.Resource.accept(advertised, callback=concluded)
        while theirs.received_count < ours.parts:
            requests = [packet.data for packet in sent]
            sent.clear()
            assert requests
            for request in requests:
                indices, segment = ours.serve(request)
                if segment is not None:
                    theirs.hashmap_update_packet(ours.hashmap_update(segment).pack())
                for index in indices:
                    part = SimpleNamespace(data=bytes(ours.part(index)), raw=b"")
                    theirs.receive_part(part)
        assert over.wait(10)
        proofs = [packet.data for packet in sent if packet.context == RNS.Packet.RESOURCE_PRF]
    assert theirs.status == RNS.Resource.COMPLETE
    assert received == [content]
    assert theirs.metadata == metadata
    assert len(proofs) == 1
    assert ours.check_proof(proofs[0])


# ------------------------------------------------------- packets on a link


@given(st.binary(max_size=400), st.sampled_from((0x00, 0x09, 0x0A, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE)))
def test_link_packets_travel_crosswise(plaintext: bytes, context: int) -> None:
    link = Link(SESSION_KEY)
    theirs = RNS.Packet(link, plaintext or b"\0", context=context)
    theirs.pack()
    for impl in BOTH:
        packet = impl.Packet.unpack(theirs.raw)
        assert impl.link_open(SESSION_KEY, packet) == (plaintext or b"\0")
        ours = impl.link_packet(link.hash, SESSION_KEY, plaintext or b"\0", context=context)
        back = unpacked(ours.raw)
        clear = theirs.data == theirs.ciphertext
        found = back.data if clear else link.decrypt(back.data)
        assert found == (plaintext or b"\0")
        assert (ours.payload == theirs.data) is clear


@fewer(2)
@given(ADDRESS)
def test_identifications_agree(link_id: bytes) -> None:
    theirs = identity_of()
    signed = link_id + theirs.get_public_key()
    payload = theirs.get_public_key() + theirs.sign(signed)
    for impl in BOTH:
        owner = impl.Identity.from_private(OWNER)
        assert impl.identify_pack(link_id, owner) == payload
        assert impl.identify_unpack(link_id, payload) == owner.public_only()


@given(st.text(max_size=20), VALUES, st.floats(0, 1e10))
def test_requests_agree(path: str, data: Any, timestamp: float) -> None:
    hashed = RNS.Identity.truncated_hash(path.encode())
    packed = RNS.vendor.umsgpack.packb([timestamp, hashed, data])
    destination = sending(identity_of(), "app", "requests")
    for impl in BOTH:
        ours = impl.Request(path, data, timestamp=timestamp)
        assert ours.pack() == packed
        assert impl.Request.unpack(packed) == ours
        assert impl.Request.id_of_resource(packed) == RNS.Identity.truncated_hash(packed)
        packet = RNS.Packet(fake_destination(destination.hash, 0), packed[:400])
        packet.pack()
        assert impl.Request.id_of_packet(packet.raw) == packet.getTruncatedHash()
