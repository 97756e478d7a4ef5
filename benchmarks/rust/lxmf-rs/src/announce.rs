//! Announce rows: 22 bytes of application data, no ratchet.

use rand_core::OsRng;
use reticulum_rs::core::destination::{
    DestinationAnnounce, DestinationName, SingleInputDestination,
};
use reticulum_rs::core::identity::PrivateIdentity;
use reticulum_rs::core::packet::Packet;

use crate::fixtures::{identity_keys, APP_DATA, APP_NAME, ASPECTS, BATCH, COLD, COUNT};
use crate::harness::{ensure, failed, operation, same, Prepared, Row};

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "announce.create",
            "SingleInputDestination::announce: 5 bytes from the system's random source and the \
             clock, signature, packet struct; neither wire bytes nor packet hash; 64 destinations",
            create,
        ),
        Row::new(
            "announce.validate.cold",
            "Packet::from_bytes, DestinationAnnounce::validate (strict Ed25519 check, application \
             data borrowed); no packet hash; 4096 identities in turn",
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
    let keys = identity_keys("announce.identity", number);
    let identity = PrivateIdentity::from_private_key_bytes(&keys).expect("64 bytes");
    SingleInputDestination::new(identity, DestinationName::new(APP_NAME, &ASPECTS.join(".")))
}

/// Wire bytes of an announce and the destination it must prove.
struct Announce {
    raw: Vec<u8>,
    destination: [u8; 16],
}

fn announces(count: usize) -> Result<Vec<Announce>, String> {
    let mut list = Vec::with_capacity(count);
    for number in 0..count {
        let mut from = destination(number);
        let packet = from.announce(OsRng, Some(APP_DATA)).map_err(failed("announce"))?;
        let raw = packet.to_bytes().map_err(failed("packet"))?;
        let hash = from.desc.address_hash.as_slice();
        list.push(Announce { raw, destination: hash.try_into().map_err(failed("hash"))? });
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
    let packet = Packet::from_bytes(raw).map_err(failed("unpack"))?;
    let info = DestinationAnnounce::validate(&packet).map_err(failed("validate"))?;
    let hash = info.destination.desc.address_hash.as_slice();
    Ok(Validated {
        destination: hash.try_into().map_err(failed("hash"))?,
        app_data: info.app_data.len(),
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
            let raw = packet.to_bytes().map_err(failed("packet"))?;
            ensure(raw.ends_with(APP_DATA), "application data")?;
            let seen = validate(&raw)?;
            same("destination", &seen.destination, destinations[index].desc.address_hash.as_slice())
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
