//! Packet rows, and the cutting and joining of 16 KiB in packets.

use reticulum_rs::core::hash::{AddressHash, Hash};
use reticulum_rs::core::packet::{
    Header, Packet as Frame, PacketContext, PacketDataBuffer, LXMF_MAX_PAYLOAD,
};

use crate::fixtures::{bytes, Packet, COUNT};
use crate::harness::{ensure, failed, operation, same, Prepared, Row};

const LARGE_SIZE: usize = 16 * 1024;
/// The crate cuts at 400 bytes in this version: 41 packets. The version of the
/// published report cut at 383 bytes: 43 packets.
const SEGMENTS: usize = LARGE_SIZE.div_ceil(LXMF_MAX_PAYLOAD);

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (suffix, header_2) in [("", false), (".h2", true)] {
        let header = if header_2 { "HEADER_2" } else { "HEADER_1" };
        let size = if header_2 { 163 } else { 147 };
        rows.push(Row::new(
            &format!("packet.pack{suffix}"),
            &format!(
                "Packet::to_bytes: a finished packet ({header}, 128 bytes of data) into a new \
                 vector of {size} bytes; no packet hash"
            ),
            move || pack(header_2),
        ));
        rows.push(Row::new(
            &format!("packet.unpack{suffix}"),
            &format!(
                "Packet::from_bytes: {size} bytes ({header}) into a packet with a 464-byte \
                 buffer of its own; no packet hash"
            ),
            move || unpack(header_2),
        ));
        rows.push(Row::new(
            &format!("packet.unpack+hash{suffix}"),
            &format!("Packet::from_bytes of {size} bytes ({header}), then Packet::hash"),
            move || unpack_hash(header_2),
        ));
    }
    rows.push(Row::new(
        "segment.copy",
        "Packet::fragment_for_lxmf: 16384 bytes into 41 packets of up to 400 bytes (43 of 383 in \
         the version of the published report), each with a 464-byte buffer, in a growing vector; \
         no encryption, no hashes",
        segment,
    ));
    rows.push(Row::new(
        "reassemble.copy",
        "the 41 packets of fragment_for_lxmf appended to a new vector of 16384 bytes that is \
         reserved first (there is no call for it: own loop over packet.data.as_slice())",
        reassemble,
    ));
    rows
}

fn fixtures(header_2: bool) -> Vec<Packet> {
    (0..COUNT).map(|number| Packet::new(number, header_2)).collect()
}

fn pack(header_2: bool) -> Prepared {
    let packets: Vec<(Frame, Packet)> = fixtures(header_2)
        .into_iter()
        .map(|packet| {
            let mut header = Header::from_meta(packet.flags);
            header.hops = packet.hops;
            let frame = Frame {
                header,
                ifac: None,
                destination: AddressHash::new(packet.destination),
                transport: packet.transport.map(AddressHash::new),
                context: PacketContext::from(packet.context),
                data: PacketDataBuffer::new_from_slice(&packet.data),
            };
            (frame, packet)
        })
        .collect();
    operation(
        packets,
        COUNT,
        |packets, index| packets[index].0.to_bytes().expect("a complete packet"),
        |packets, index, raw| same("packed packet", &raw, &packets[index].1.raw),
    )
}

fn unpack(header_2: bool) -> Prepared {
    operation(
        fixtures(header_2),
        COUNT,
        |packets, index| Frame::from_bytes(&packets[index].raw).expect("a valid packet"),
        |packets, index, frame| compare(&frame, &packets[index]),
    )
}

fn unpack_hash(header_2: bool) -> Prepared {
    operation(
        fixtures(header_2),
        COUNT,
        |packets, index| {
            let frame = Frame::from_bytes(&packets[index].raw).expect("a valid packet");
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

fn buffers() -> Vec<Vec<u8>> {
    (0..COUNT).map(|number| bytes("segment.data", number, LARGE_SIZE)).collect()
}

fn segment() -> Prepared {
    operation(
        buffers(),
        COUNT,
        |buffers, index| Frame::fragment_for_lxmf(&buffers[index]).expect("fragments"),
        |buffers, index, frames| {
            ensure(frames.len() == SEGMENTS, "number of segments")?;
            let longest = frames.iter().map(|frame| frame.data.len()).max();
            ensure(longest == Some(LXMF_MAX_PAYLOAD), "segment size")?;
            let joined: Vec<&[u8]> = frames.iter().map(|frame| frame.data.as_slice()).collect();
            same("joined segments", &joined.concat(), &buffers[index])
        },
    )
}

fn reassemble() -> Prepared {
    let buffers = buffers();
    let mut segmented = Vec::new();
    for buffer in &buffers {
        segmented.push(Frame::fragment_for_lxmf(buffer).map_err(failed("fragments"))?);
    }
    operation(
        (segmented, buffers),
        COUNT,
        |(segmented, _), index| {
            let mut joined = Vec::with_capacity(LARGE_SIZE);
            for frame in &segmented[index] {
                joined.extend_from_slice(frame.data.as_slice());
            }
            joined
        },
        |(_, buffers), index, joined| same("joined data", &joined, &buffers[index]),
    )
}
