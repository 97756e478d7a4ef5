//! Announce rows: 22 bytes of application data, no ratchet.

use rand_core::OsRng;
use reticulum::buffer::InputBuffer;
use reticulum::destination::{DestinationAnnounce, DestinationName, SingleInputDestination};
use reticulum::packet::Packet;

use crate::fixtures::{APP_DATA, APP_NAME, ASPECTS, BATCH, COLD, COUNT};
use crate::harness::{ensure, failed, operation, same, Prepared, Row};
use crate::identity::identity;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "announce.create",
            "SingleInputDestination::announce: 10 bytes of a hash of random data (no time in it), \
             signature, packet struct; neither wire bytes nor packet hash; 64 destinations",
            create,
        ),
        Row::new(
            "announce.validate.cold",
            "Packet::deserialize, DestinationAnnounce::validate: strict Ed25519 check; the \
             destination hash is not compared with the announced keys, no ratchets, no packet \
             hash; 4096 identities in turn",
            || cold(COLD),
        ),
        Row::new(
            "announce.validate.repeat",
            "the same calls as announce.validate.cold on the bytes of 64 announces that were \
             validated before: the crate has no cache in this call and verifies each time",
            || cold(COUNT),
        ),
        Row::new(
            "announce.validate.batch64",
            "one call = 64 announces as in announce.validate.cold, one after the other (the crate \
             has no batch verification); 4096 identities in turn",
            batch,
        ),
    ]
}

fn destination(number: usize) -> SingleInputDestination {
    let name = DestinationName::new(APP_NAME, &ASPECTS.join("."));
    SingleInputDestination::new(identity("announce.identity", number), name)
}

/// Wire bytes of an announce and the destination it must prove.
struct Announce {
    raw: Vec<u8>,
    destination: [u8; 16],
}

/// The wire bytes of a packet with HEADER_1: the crate's writer is private.
fn wire(packet: &Packet) -> Vec<u8> {
    let mut raw = vec![packet.header.to_meta(), packet.header.hops];
    raw.extend_from_slice(packet.destination.as_slice());
    raw.push(packet.context as u8);
    raw.extend_from_slice(packet.data.as_slice());
    raw
}

fn announces(count: usize) -> Result<Vec<Announce>, String> {
    let mut list = Vec::with_capacity(count);
    for number in 0..count {
        let from = destination(number);
        let packet = from.announce(OsRng, Some(APP_DATA)).map_err(failed("announce"))?;
        let hash = from.desc.address_hash.as_slice();
        let destination = hash.try_into().map_err(failed("hash"))?;
        list.push(Announce { raw: wire(&packet), destination });
    }
    let mut forged = list[0].raw.clone();
    *forged.last_mut().ok_or("empty announce")? ^= 1;
    ensure(validate(&forged).is_err(), "a forged announce was accepted")?;
    Ok(list)
}

/// What a validation found: the proved destination and the data's length.
struct Validated {
    destination: [u8; 16],
    app_data: usize,
}

fn validate(raw: &[u8]) -> Result<Validated, String> {
    let packet = Packet::deserialize(&mut InputBuffer::new(raw)).map_err(failed("unpack"))?;
    let (proved, app_data) = DestinationAnnounce::validate(&packet).map_err(failed("validate"))?;
    let hash = proved.desc.address_hash.as_slice();
    Ok(Validated {
        destination: hash.try_into().map_err(failed("hash"))?,
        app_data: app_data.len(),
    })
}

fn compare(seen: &Validated, expected: &Announce) -> Result<String, String> {
    ensure(seen.app_data == APP_DATA.len(), "application data")?;
    same("destination", &seen.destination, &expected.destination)
}

fn create() -> Prepared {
    let destinations: Vec<SingleInputDestination> = (0..COUNT).map(destination).collect();
    operation(
        destinations,
        COUNT,
        |destinations, index| {
            destinations[index].announce(OsRng, Some(APP_DATA)).expect("an announce")
        },
        |destinations, index, packet| {
            let raw = wire(&packet);
            ensure(raw.ends_with(APP_DATA), "application data")?;
            let seen = validate(&raw)?;
            let hash = destinations[index].desc.address_hash.as_slice();
            same("destination", &seen.destination, hash)
        },
    )
}

fn cold(count: usize) -> Prepared {
    operation(
        announces(count)?,
        count,
        |list, index| validate(&list[index].raw).expect("a valid announce"),
        |list, index, seen| compare(&seen, &list[index]),
    )
}

fn batch() -> Prepared {
    operation(
        announces(COLD)?,
        COLD / BATCH,
        |list, index| {
            let batch = &list[index * BATCH..(index + 1) * BATCH];
            let validated = batch.iter().map(|announce| validate(&announce.raw));
            validated.collect::<Result<Vec<_>, _>>().expect("valid announces")
        },
        |list, index, seen| {
            let batch = &list[index * BATCH..(index + 1) * BATCH];
            ensure(seen.len() == BATCH, "number of validated announces")?;
            let mut check = String::new();
            for (seen, announce) in seen.iter().zip(batch) {
                check = compare(seen, announce)?;
            }
            Ok(check)
        },
    )
}
