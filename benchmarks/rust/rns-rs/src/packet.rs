//! Packet rows: 128 bytes of payload, HEADER_1 and HEADER_2.

use rns_core::constants::MTU;
use rns_core::packet::{PacketFlags, RawPacket};
use rns_crypto::sha256::sha256;

use crate::fixtures::{Packet, COUNT};
use crate::harness::{ensure, operation, same, Prepared, Row};

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (suffix, header_2) in [("", false), (".h2", true)] {
        let header = if header_2 { "HEADER_2" } else { "HEADER_1" };
        let size = if header_2 { 163 } else { 147 };
        rows.push(Row::new(
            &format!("packet.pack{suffix}"),
            &format!(
                "RawPacket::pack_raw_with_max_mtu: {header} and 128 bytes into a new vector of \
                 {size} bytes; no packet hash"
            ),
            move || pack(header_2),
        ));
        rows.push(Row::new(
            &format!("packet.unpack{suffix}"),
            &format!(
                "RawPacket::unpack_prehashed: {size} bytes ({header}) into an owned packet that \
                 copies them; no packet hash (a given one is stored)"
            ),
            move || unpack(header_2),
        ));
        rows.push(Row::new(
            &format!("packet.unpack+hash{suffix}"),
            &format!("RawPacket::unpack: {size} bytes ({header}), owned copy and packet hash"),
            move || unpack_hash(header_2),
        ));
    }
    rows
}

fn fixtures(header_2: bool) -> Vec<Packet> {
    (0..COUNT).map(|number| Packet::new(number, header_2)).collect()
}

fn pack(header_2: bool) -> Prepared {
    let packets: Vec<(PacketFlags, Packet)> = fixtures(header_2)
        .into_iter()
        .map(|packet| (PacketFlags::unpack(packet.flags), packet))
        .collect();
    operation(
        packets,
        COUNT,
        |packets, index| {
            let (flags, packet) = &packets[index];
            RawPacket::pack_raw_with_max_mtu(
                *flags,
                packet.hops,
                &packet.destination,
                packet.transport.as_ref(),
                packet.context,
                &packet.data,
                MTU,
            )
            .expect("a packet that fits")
        },
        |packets, index, raw| same("packed packet", &raw, &packets[index].1.raw),
    )
}

fn unpack(header_2: bool) -> Prepared {
    operation(
        fixtures(header_2),
        COUNT,
        |packets, index| {
            RawPacket::unpack_prehashed(&packets[index].raw, [0; 32]).expect("a valid packet")
        },
        |packets, index, packet| compare(&packet, &packets[index]),
    )
}

fn unpack_hash(header_2: bool) -> Prepared {
    operation(
        fixtures(header_2),
        COUNT,
        |packets, index| RawPacket::unpack(&packets[index].raw).expect("a valid packet"),
        |packets, index, packet| {
            compare(&packet, &packets[index])?;
            let expected = sha256(&packets[index].hashable());
            same("packet hash", &packet.packet_hash, &expected)
        },
    )
}

fn compare(seen: &RawPacket, expected: &Packet) -> Result<String, String> {
    ensure(seen.flags.pack() == expected.flags, "unpacked flags")?;
    ensure(seen.hops == expected.hops, "unpacked hops")?;
    ensure(seen.transport_id == expected.transport, "unpacked transport id")?;
    ensure(seen.destination_hash == expected.destination, "unpacked destination")?;
    ensure(seen.context == expected.context, "unpacked context")?;
    same("unpacked data", seen.data(), &expected.data)
}
