//! LXMF message rows: 21, 2048 and 16384 bytes of content.

use lxmf::wire::inbound_decode::{decode_inbound_message, InboundPayloadMode};
use lxmf::{Message, WireMessage};
use reticulum_rs::core::hash::Hash;
use reticulum_rs::core::identity::{lxmf_sign, PrivateIdentity};
use rmpv::Value;

use crate::fixtures::COUNT;
use crate::harness::{ensure, failed, fingerprint, operation, same, Prepared, Row};
use crate::identity::identity;
use crate::image::Lxmf;

type Preparation = fn(usize) -> Prepared;

/// Row id without size, what the call does, how it is prepared.
const OPERATIONS: [(&str, &str, Preparation); 6] = [
    (
        "lxmf.decode.owned",
        "Message::from_wire: owned title, content and field map; no message id, no verification",
        decode_owned,
    ),
    (
        "lxmf.decode.wire",
        "WireMessage::unpack, the same parse without the copy into a Message; no message id, no \
         verification (there is no borrowed view in the crate, so no lxmf.decode.view row)",
        decode_wire,
    ),
    (
        "lxmf.decode.inbound",
        "decode_inbound_message of the full wire image: parses twice, re-encodes, computes the \
         message id as text; no verification",
        decode_inbound,
    ),
    (
        "lxmf.decode.verify",
        "WireMessage::unpack and WireMessage::verify (re-encodes the payload twice, strict \
         Ed25519 check) with the source identity at hand",
        decode_verify,
    ),
    (
        "lxmf.encode.codec",
        "new Message from its parts (title and content copied by their setters, empty field map, \
         constant signature), then to_wire(None); no message id, no signing",
        encode_codec,
    ),
    (
        "lxmf.encode.sign",
        "new Message from its parts as in lxmf.encode.codec but without signature, then \
         to_wire(identity): message id and Ed25519 signature",
        encode_sign,
    ),
];

const SIZES: [(&str, usize); 3] = [("21", 21), ("2k", 2048), ("16k", 16 * 1024)];

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (id, note, prepare) in OPERATIONS {
        for (suffix, size) in SIZES {
            let note = format!("{size} bytes of content, 64 messages: {note}");
            rows.push(Row::new(&format!("{id}.{suffix}"), &note, move || prepare(size)));
        }
    }
    rows
}

fn messages(size: usize) -> Vec<Lxmf> {
    (0..COUNT).map(|number| Lxmf::new(number, size)).collect()
}

/// The same messages with the signature that `signer` gives them.
fn signed(size: usize, signer: &PrivateIdentity) -> Vec<Lxmf> {
    let mut list = messages(size);
    for message in &mut list {
        let hashed = message.hashed();
        let id = Hash::new_from_slice(&hashed);
        message.signature = lxmf_sign(signer, &[&hashed[..], id.as_slice()].concat());
    }
    list
}

fn no_fields() -> Value {
    Value::Map(Vec::new())
}

fn wires(list: &[Lxmf]) -> Vec<Vec<u8>> {
    list.iter().map(Lxmf::wire).collect()
}

fn decode_owned(size: usize) -> Prepared {
    let list = messages(size);
    operation(
        (wires(&list), list),
        COUNT,
        |(wires, _), index| Message::from_wire(&wires[index]).expect("a valid message"),
        |(_, list), index, seen| {
            let expected = &list[index];
            ensure(seen.destination_hash == Some(expected.destination), "destination")?;
            ensure(seen.source_hash == Some(expected.source), "source")?;
            ensure(seen.signature == Some(expected.signature), "signature")?;
            ensure(seen.timestamp == Some(expected.timestamp), "timestamp")?;
            ensure(seen.fields == Some(no_fields()) && seen.stamp.is_none(), "fields")?;
            same("title", &seen.title, &expected.title)?;
            same("content", &seen.content, &expected.content)
        },
    )
}

fn compare(seen: &WireMessage, expected: &Lxmf) -> Result<String, String> {
    ensure(seen.destination == expected.destination, "destination")?;
    ensure(seen.source == expected.source, "source")?;
    ensure(seen.signature == Some(expected.signature), "signature")?;
    ensure(seen.payload.timestamp == expected.timestamp, "timestamp")?;
    ensure(seen.payload.fields == Some(no_fields()), "fields")?;
    let title = seen.payload.title.as_ref().ok_or("no title")?;
    same("title", title, &expected.title)?;
    let content = seen.payload.content.as_ref().ok_or("no content")?;
    same("content", content, &expected.content)
}

fn decode_wire(size: usize) -> Prepared {
    let list = messages(size);
    operation(
        (wires(&list), list),
        COUNT,
        |(wires, _), index| WireMessage::unpack(&wires[index]).expect("a valid message"),
        |(_, list), index, seen| compare(&seen, &list[index]),
    )
}

fn decode_inbound(size: usize) -> Prepared {
    let list = messages(size);
    operation(
        (wires(&list), list),
        COUNT,
        |(wires, _), index| {
            decode_inbound_message([0; 16], &wires[index], InboundPayloadMode::FullWire)
                .expect("a valid message")
        },
        |(_, list), index, seen| {
            let expected = &list[index];
            ensure(seen.destination == expected.destination, "destination")?;
            ensure(seen.source == expected.source, "source")?;
            ensure(seen.timestamp_f64 == expected.timestamp, "timestamp")?;
            same("title", &seen.title, &expected.title)?;
            same("content", &seen.content, &expected.content)?;
            let id = Hash::new_from_slice(&expected.hashed());
            let hex: String = id.as_slice().iter().map(|byte| format!("{byte:02x}")).collect();
            same("message id", seen.id.as_bytes(), hex.as_bytes())
        },
    )
}

fn decode_verify(size: usize) -> Prepared {
    let signer = identity();
    let source = *signer.as_identity();
    let list = signed(size, &signer);
    let mut forged = list[0].wire();
    forged[60] ^= 1;
    let forged = WireMessage::unpack(&forged).map_err(failed("unpack"))?;
    let accepted = forged.verify(&source).map_err(failed("verify"))?;
    ensure(!accepted, "a forged message was accepted")?;
    operation(
        (wires(&list), list, source),
        COUNT,
        |(wires, _, source), index| {
            let message = WireMessage::unpack(&wires[index]).expect("a valid message");
            assert!(message.verify(source).expect("a payload"), "a valid signature was refused");
            message
        },
        |(_, list, _), index, seen| compare(&seen, &list[index]),
    )
}

/// A message from its parts, as an application makes one.
fn compose(parts: &Lxmf) -> Message {
    let mut message = Message::new();
    message.destination_hash = Some(parts.destination);
    message.source_hash = Some(parts.source);
    message.timestamp = Some(parts.timestamp);
    message.set_title_from_bytes(&parts.title);
    message.set_content_from_bytes(&parts.content);
    message.fields = Some(no_fields());
    message
}

fn encode_codec(size: usize) -> Prepared {
    let list = messages(size);
    operation(
        (wires(&list), list),
        COUNT,
        |(_, list), index| {
            let mut message = compose(&list[index]);
            message.signature = Some(list[index].signature);
            message.to_wire(None).expect("a complete message")
        },
        |(wires, _), index, wire| same("wire image", &wire, &wires[index]),
    )
}

fn encode_sign(size: usize) -> Prepared {
    let signer = identity();
    let list = signed(size, &signer);
    operation(
        (wires(&list), list, signer),
        COUNT,
        |(_, list, signer), index| {
            compose(&list[index]).to_wire(Some(signer)).expect("a complete message")
        },
        |(wires, _, _), index, wire| {
            same("wire image", &wire, &wires[index])?;
            Ok(fingerprint(&wire[32..96]))
        },
    )
}
