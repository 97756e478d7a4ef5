//! Resource rows: building one, and answering a request for parts.

use rns_core::buffer::types::NoopCompressor;
use rns_core::constants::RESOURCE_SDU;
use rns_core::link::LinkEngine;
use rns_core::resource::{ResourceAction, ResourceAdvertisement, ResourceSender};
use rns_crypto::sha256::sha256;
use rns_crypto::OsRng;

use crate::fixtures::{bytes, COUNT};
use crate::harness::{ensure, failed, fingerprint, operation, same, Prepared, Row};
use crate::link::{open, Owner};

const BUILD_SIZE: usize = 16 * 1024;
const BUILD_PARTS: u64 = 36;
const LARGE_SIZE: usize = 1024 * 1024 - 1;
const LARGE_PARTS: usize = 2260;

pub fn rows() -> Vec<Row> {
    let mut rows = vec![Row::new(
        "resource.build.16k",
        "ResourceSender::new of 16384 random bytes (SDU 464, 36 parts, compression off) with \
         LinkEngine::encrypt, then advertise: encryption as one token, resource hash, proof \
         hash, map hashes, collision check, advertisement packed but not encrypted; no packets",
        build,
    )];
    for window in [4, 10, 75] {
        let id = match window {
            4 => "request.window".to_string(),
            wide => format!("request.window.{wide}"),
        };
        rows.push(Row::new(
            &id,
            &format!(
                "ResourceSender::handle_request on 2260 parts (1 MiB - 1, SDU 464): a decrypted \
                 request for {window} consecutive parts at 64 positions; every part is copied \
                 to a new vector, no packet header is made; the guard window of 224 parts stays \
                 at the start of the resource"
            ),
            move || request(window),
        ));
    }
    rows
}

fn sender(link: &LinkEngine, data: &[u8]) -> ResourceSender {
    ResourceSender::new(
        data,
        None,
        RESOURCE_SDU,
        &|plain| link.encrypt(plain, &mut OsRng).expect("an active link"),
        &NoopCompressor,
        &mut OsRng,
        0.0,
        false,
        false,
        None,
        1,
        1,
        None,
        0.05,
        6.0,
    )
    .expect("a resource")
}

fn build() -> Prepared {
    let (initiator, _) = open(&Owner::new(0))?;
    let data: Vec<Vec<u8>> =
        (0..COUNT).map(|number| bytes("resource.data", number, BUILD_SIZE)).collect();
    operation(
        (initiator, data),
        COUNT,
        |(link, data), index| {
            let mut sender = sender(link, &data[index]);
            let actions = sender.advertise(0.0);
            (sender, actions)
        },
        |(_, data), index, (sender, actions)| {
            let [ResourceAction::SendAdvertisement(packed)] = &actions[..] else {
                return Err("advertise gave something else".into());
            };
            let advertised =
                ResourceAdvertisement::unpack(packed).map_err(failed("advertisement"))?;
            ensure(advertised.num_parts == BUILD_PARTS, "number of parts")?;
            ensure(advertised.data_size == BUILD_SIZE as u64, "data size")?;
            ensure(advertised.hashmap.len() == 4 * BUILD_PARTS as usize, "hashmap length")?;
            let hash = sha256(&[&data[index][..], &advertised.random_hash].concat());
            same("resource hash", &advertised.resource_hash, &hash)?;
            let proof = sha256(&[&data[index][..], &hash].concat());
            same("expected proof", &sender.expected_proof, &proof)?;
            Ok(fingerprint(&data[index]))
        },
    )
}

fn request(window: usize) -> Prepared {
    let (initiator, _) = open(&Owner::new(0))?;
    let sender = sender(&initiator, &bytes("resource.large", 0, LARGE_SIZE));
    ensure(sender.total_parts() == LARGE_PARTS, "number of parts")?;
    let requests: Vec<Vec<u8>> = (0..COUNT)
        .map(|first| {
            let mut request = vec![0x00];
            request.extend_from_slice(&sender.resource_hash);
            request.extend(sender.part_hashes[first..first + window].iter().flatten());
            request
        })
        .collect();
    operation(
        (sender, requests),
        COUNT,
        |(sender, requests), index| sender.handle_request(&requests[index], 0.0),
        move |(sender, _), index, actions| {
            ensure(actions.len() == window, "number of parts in the answer")?;
            for (action, wanted) in actions.iter().zip(&sender.part_hashes[index..]) {
                let ResourceAction::SendPart(part) = action else {
                    return Err("an answer that is no part".into());
                };
                let hash = sha256(&[&part[..], &sender.random_hash].concat());
                same("map hash of a part", &hash[..4], wanted)?;
            }
            Ok(fingerprint(&(index as u64).to_le_bytes()))
        },
    )
}
