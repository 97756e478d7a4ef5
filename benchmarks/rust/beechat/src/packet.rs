//! Packet rows: reading only, the writer is private to the crate.

use reticulum::buffer::InputBuffer;
use reticulum::hash::{AddressHash, Hash};
use reticulum::packet::Packet as Frame;

use crate::fixtures::{Packet, COUNT};
use crate::harness::{ensure, operation, same, Prepared, Row};

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (suffix, header_2) in [("", false), (".h2", true)] {
        let header = if header_2 { "HEADER_2" } else { "HEADER_1" };
        let size = if header_2 { 163 } else { 147 };
        rows.push(Row::new(
            &format!("packet.unpack{suffix}"),
            &format!(
                "Packet::deserialize: {size} bytes ({header}) into a packet with a 2048-byte \
                 buffer of its own; no packet hash; flags bit 5 is not kept"
            ),
            move || unpack(header_2),
        ));
        rows.push(Row::new(
            &format!("packet.unpack+hash{suffix}"),
            &format!("Packet::deserialize of {size} bytes ({header}), then Packet::hash"),
            move || unpack_hash(header_2),
        ));
    }
    rows
}

fn fixtures(header_2: bool) -> Vec<Packet> {
    (0..COUNT).map(|number| Packet::new(number, header_2)).collect()
}

fn read(raw: &[u8]) -> Frame {
    Frame::deserialize(&mut InputBuffer::new(raw)).expect("a valid packet")
}

fn unpack(header_2: bool) -> Prepared {
    operation(
        fixtures(header_2),
        COUNT,
        |packets, index| read(&packets[index].raw),
        |packets, index, frame| compare(&frame, &packets[index]),
    )
}

fn unpack_hash(header_2: bool) -> Prepared {
    operation(
        fixtures(header_2),
        COUNT,
        |packets, index| {
            let frame = read(&packets[index].raw);
            let hash = frame.hash();
            (frame, hash)
        },
        |packets, index, (frame, hash)| {
            compare(&frame, &packets[index])?;
            let expected = Hash::new_from_slice(&packets[index].hashable());
            same("packet hash", hash.as_slice(), expected.as_slice())
        },
    )
}

fn compare(seen: &Frame, expected: &Packet) -> Result<String, String> {
    ensure(seen.header.to_meta() == expected.flags, "unpacked flags")?;
    ensure(seen.header.hops == expected.hops, "unpacked hops")?;
    let transport = expected.transport.map(AddressHash::new);
    ensure(seen.transport == transport, "unpacked transport id")?;
    ensure(seen.destination.as_slice() == expected.destination, "unpacked destination")?;
    ensure(seen.context as u8 == expected.context, "unpacked context")?;
    same("unpacked data", seen.data.as_slice(), &expected.data)
}
