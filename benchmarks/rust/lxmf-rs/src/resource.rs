//! Resource rows: building one, and answering a request for parts.

use reticulum_rs::transport::destination::link::Link;
use reticulum_rs::transport::hash::Hash;
use reticulum_rs::transport::packet::{Packet, PacketContext, PacketDataBuffer};
use reticulum_rs::transport::resource::{
    PreparedSend, ResourceAdvertisement, ResourceHashUpdate, ResourceManager, ResourceRequest,
    MAPHASH_LEN, RANDOM_HASH_SIZE,
};
use tokio::sync::broadcast::Sender;

use crate::fixtures::{bytes, COUNT};
use crate::harness::{ensure, failed, fingerprint, operation, same, Prepared, Row};
use crate::link::{open, Owner, EVENTS};

const MTU: usize = 500;
const BUILD_SIZE: usize = 16 * 1024;
const BUILD_PARTS: u32 = 36;
const LARGE_SIZE: usize = 1024 * 1024 - 1;
const LARGE_PARTS: u32 = 2260;

type MapHash = [u8; MAPHASH_LEN];

pub fn rows() -> Vec<Row> {
    let mut rows = vec![Row::new(
        "resource.build.16k",
        "ResourceManager::prepare_send_with_compression of 16384 random bytes (MTU 500 so SDU \
         464, 36 parts, compression off; the data is passed by value, so one copy is in the \
         time): encryption as one token, resource hash, proof hash, map hashes, collision check, \
         parts copied out, advertisement packed and encrypted as a packet",
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
                "ResourceManager::handle_packet_into on 2260 parts (1 MiB - 1, SDU 464) of a \
                 confirmed resource: a decrypted request for {window} consecutive parts at 64 \
                 positions; each part is copied into a packet struct of a reused vector; the \
                 guard window of 224 parts stays at the start of the resource"
            ),
            move || request(window),
        ));
    }
    rows
}

fn prepare(link: &Link, data: &[u8]) -> PreparedSend {
    ResourceManager::prepare_send_with_compression(
        link,
        data.to_vec(),
        None,
        None,
        false,
        MTU,
        false,
    )
    .expect("a resource")
}

/// Takes a prepared resource as sent: its hash, and the advertisement as the
/// other end reads it.
fn advertise(
    manager: &mut ResourceManager,
    prepared: PreparedSend,
    receiver: &Link,
) -> Result<(Hash, ResourceAdvertisement), String> {
    let (hash, packet) = manager.track_prepared(prepared);
    manager.confirm_outbound_dispatch(hash, true);
    let mut plain = [0; MTU];
    let packed = receiver.decrypt(packet.data.as_slice(), &mut plain).map_err(failed("decrypt"))?;
    let advertised = ResourceAdvertisement::unpack(packed).map_err(failed("advertisement"))?;
    Ok((hash, advertised))
}

fn build() -> Prepared {
    let (initiator, responder) = open(&Owner::new(0, &Sender::new(EVENTS)))?;
    let data: Vec<Vec<u8>> =
        (0..COUNT).map(|number| bytes("resource.data", number, BUILD_SIZE)).collect();
    operation(
        (initiator, responder, data),
        COUNT,
        |(link, _, data), index| prepare(link, &data[index]),
        |(_, receiver, data), index, prepared| {
            let mut manager = ResourceManager::new();
            let (hash, advertised) = advertise(&mut manager, prepared, receiver)?;
            ensure(advertised.parts == BUILD_PARTS, "number of parts")?;
            ensure(advertised.data_size == BUILD_SIZE as u64, "data size")?;
            ensure(advertised.hashmap.len() == MAPHASH_LEN * BUILD_PARTS as usize, "hashmap")?;
            let expected =
                Hash::new_from_slice(&[&data[index][..], &advertised.random_hash].concat());
            same("resource hash", hash.as_slice(), expected.as_slice())?;
            same("advertised hash", advertised.hash.as_slice(), expected.as_slice())?;
            Ok(fingerprint(&data[index]))
        },
    )
}

/// A sender whose resource is advertised, with what a receiver knows of it.
struct Served {
    manager: ResourceManager,
    link: Link,
    hash: Hash,
    random_hash: [u8; RANDOM_HASH_SIZE],
    map: Vec<MapHash>,
    requests: Vec<Packet>,
    answer: Vec<Packet>,
}

impl Served {
    fn new() -> Result<Self, String> {
        let (link, receiver) = open(&Owner::new(0, &Sender::new(EVENTS)))?;
        let mut manager = ResourceManager::new();
        let prepared = prepare(&link, &bytes("resource.large", 0, LARGE_SIZE));
        let (hash, advertised) = advertise(&mut manager, prepared, &receiver)?;
        ensure(advertised.parts == LARGE_PARTS, "number of parts")?;
        let mut served = Self {
            manager,
            link,
            hash,
            random_hash: advertised.random_hash,
            map: map_hashes(&advertised.hashmap),
            requests: Vec::new(),
            answer: Vec::new(),
        };
        served.learn_more(&receiver)?;
        Ok(served)
    }

    /// Asks for the next segment of the hashmap, as a receiver does that has
    /// used up the first one: the widest window needs more hashes than that.
    fn learn_more(&mut self, receiver: &Link) -> Result<(), String> {
        let request = self.request(Vec::new(), self.map.last().copied());
        self.manager.handle_packet_into(&request, &mut self.link, &mut self.answer);
        let [update] = &self.answer[..] else {
            return Err("no hashmap update".into());
        };
        let mut plain = [0; MTU];
        let packed =
            receiver.decrypt(update.data.as_slice(), &mut plain).map_err(failed("decrypt"))?;
        let update = ResourceHashUpdate::decode(packed).map_err(failed("hashmap update"))?;
        self.map.extend(map_hashes(&update.hashmap));
        Ok(())
    }

    /// A request packet as the manager gets it: already decrypted.
    fn request(&self, requested_hashes: Vec<MapHash>, last_map_hash: Option<MapHash>) -> Packet {
        let request = ResourceRequest {
            hashmap_exhausted: last_map_hash.is_some(),
            last_map_hash,
            resource_hash: self.hash,
            requested_hashes,
        };
        Packet {
            context: PacketContext::ResourceRequest,
            data: PacketDataBuffer::new_from_slice(&request.encode()),
            ..Packet::default()
        }
    }
}

fn map_hashes(hashmap: &[u8]) -> Vec<MapHash> {
    hashmap.chunks_exact(MAPHASH_LEN).map(|hash| hash.try_into().expect("4 bytes")).collect()
}

fn request(window: usize) -> Prepared {
    let mut served = Served::new()?;
    ensure(served.map.len() >= COUNT + window - 1, "the known hashmap is too short")?;
    served.requests = (0..COUNT)
        .map(|first| served.request(served.map[first..first + window].to_vec(), None))
        .collect();
    operation(
        served,
        COUNT,
        |served, index| {
            let request = &served.requests[index];
            served.manager.handle_packet_into(request, &mut served.link, &mut served.answer);
        },
        move |served, index, ()| {
            ensure(served.answer.len() == window, "number of parts in the answer")?;
            for (packet, wanted) in served.answer.iter().zip(&served.map[index..]) {
                ensure(packet.context == PacketContext::Resource, "context of a part")?;
                let hashed = [packet.data.as_slice(), &served.random_hash].concat();
                let hash = Hash::new_from_slice(&hashed);
                same("map hash of a part", &hash.as_slice()[..MAPHASH_LEN], wanted)?;
            }
            Ok(fingerprint(&(index as u64).to_le_bytes()))
        },
    )
}
