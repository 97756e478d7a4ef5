//! Announce rows: 22 bytes of application data, no ratchet.

use std::time::{SystemTime, UNIX_EPOCH};

use rns_core::announce::{AnnounceData, ValidatedAnnounce};
use rns_core::constants;
use rns_core::destination::{destination_hash, name_hash};
use rns_core::packet::{PacketFlags, RawPacket};
use rns_core::transport::dedup::AnnounceSignatureCache;
use rns_crypto::identity::Identity;
use rns_crypto::{OsRng, Rng};

use crate::fixtures::{identity_keys, APP_DATA, APP_NAME, ASPECTS, BATCH, COLD, COUNT};
use crate::harness::{ensure, failed, operation, same, Prepared, Row};

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "announce.create",
            "5 random bytes from /dev/urandom and the clock, AnnounceData::pack (signs), \
             RawPacket::pack (packet hash included); 64 destinations with their hashes known",
            create,
        ),
        Row::new(
            "announce.validate.cold",
            "RawPacket::unpack (packet hash included), AnnounceData::unpack, \
             AnnounceData::validate; 4096 identities in turn, nothing cached",
            cold,
        ),
        Row::new(
            "announce.validate.repeat",
            "new RawPacket::unpack, AnnounceData::unpack, signature_cache_key, look-up in the \
             node's own AnnounceSignatureCache (64 entries), then \
             to_validated_with_cached_signature: no signature check, the hashes are checked",
            repeat,
        ),
        Row::new(
            "announce.validate.batch64",
            "one call = 64 announces as in announce.validate.cold, one after the other (the crate \
             has no batch verification); 4096 identities in turn",
            batch,
        ),
    ]
}

/// An identity with the hashes of its announced destination.
struct Announcer {
    identity: Identity,
    name: [u8; 10],
    destination: [u8; 16],
}

impl Announcer {
    fn new(number: usize) -> Self {
        let identity = Identity::from_private_key(&identity_keys("announce.identity", number));
        let destination = destination_hash(APP_NAME, &ASPECTS, Some(identity.hash()));
        Self { identity, name: name_hash(APP_NAME, &ASPECTS), destination }
    }

    fn announce(&self) -> RawPacket {
        let mut random = [0u8; 10];
        OsRng.fill_bytes(&mut random[..5]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        random[5..].copy_from_slice(&now.to_be_bytes()[3..]);
        let (data, _) = AnnounceData::pack(
            &self.identity,
            &self.destination,
            &self.name,
            &random,
            None,
            Some(APP_DATA),
        )
        .expect("a private key");
        let flags = PacketFlags {
            header_type: constants::HEADER_1,
            context_flag: constants::FLAG_UNSET,
            transport_type: constants::TRANSPORT_BROADCAST,
            destination_type: constants::DESTINATION_SINGLE,
            packet_type: constants::PACKET_TYPE_ANNOUNCE,
        };
        RawPacket::pack(flags, 0, &self.destination, None, constants::CONTEXT_NONE, &data)
            .expect("a packet that fits")
    }
}

/// Wire bytes of an announce and the destination it must prove.
struct Announce {
    raw: Vec<u8>,
    destination: [u8; 16],
}

fn announces(count: usize) -> Result<Vec<Announce>, String> {
    let list: Vec<Announce> = (0..count)
        .map(|number| {
            let announcer = Announcer::new(number);
            Announce { raw: announcer.announce().raw, destination: announcer.destination }
        })
        .collect();
    let mut forged = list[0].raw.clone();
    *forged.last_mut().ok_or("empty announce")? ^= 1;
    ensure(validate(&forged).is_err(), "a forged announce was accepted")?;
    Ok(list)
}

fn validate(raw: &[u8]) -> Result<ValidatedAnnounce, String> {
    let packet = RawPacket::unpack(raw).map_err(failed("unpack"))?;
    let has_ratchet = packet.flags.context_flag == constants::FLAG_SET;
    let data = AnnounceData::unpack(packet.data(), has_ratchet).map_err(failed("announce"))?;
    data.validate(&packet.destination_hash).map_err(failed("validate"))
}

fn compare(seen: &ValidatedAnnounce, expected: &Announce) -> Result<String, String> {
    ensure(seen.app_data.as_deref() == Some(APP_DATA), "application data")?;
    let hash = destination_hash(APP_NAME, &ASPECTS, Some(&seen.identity_hash));
    same("destination", &hash, &expected.destination)
}

fn create() -> Prepared {
    let announcers: Vec<Announcer> = (0..COUNT).map(Announcer::new).collect();
    operation(
        announcers,
        COUNT,
        |announcers, index| announcers[index].announce(),
        |announcers, index, packet| {
            let destination = announcers[index].destination;
            compare(&validate(&packet.raw)?, &Announce { raw: Vec::new(), destination })
        },
    )
}

fn cold() -> Prepared {
    operation(
        announces(COLD)?,
        COLD,
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

fn repeat() -> Prepared {
    let list = announces(COUNT)?;
    let mut cache = AnnounceSignatureCache::new(
        constants::ANNOUNCE_SIG_CACHE_MAXSIZE,
        constants::ANNOUNCE_SIG_CACHE_TTL,
    );
    for announce in &list {
        let packet = RawPacket::unpack(&announce.raw).map_err(failed("unpack"))?;
        let data = AnnounceData::unpack(packet.data(), false).map_err(failed("announce"))?;
        data.validate(&packet.destination_hash).map_err(failed("validate"))?;
        cache.insert(data.signature_cache_key(&packet.destination_hash), 0.0);
    }
    operation(
        (list, cache),
        COUNT,
        |(list, cache), index| {
            let packet = RawPacket::unpack(&list[index].raw).expect("a valid packet");
            let has_ratchet = packet.flags.context_flag == constants::FLAG_SET;
            let data = AnnounceData::unpack(packet.data(), has_ratchet).expect("an announce");
            let key = data.signature_cache_key(&packet.destination_hash);
            assert!(cache.contains(&key), "the announce left the cache");
            data.to_validated_with_cached_signature(&packet.destination_hash)
                .expect("a valid announce")
        },
        |(list, _), index, seen| compare(&seen, &list[index]),
    )
}
