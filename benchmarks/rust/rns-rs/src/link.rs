//! Link handshake, both sides in one process.

use rns_core::constants;
use rns_core::link::types::{LinkMode, LinkState};
use rns_core::link::LinkEngine;
use rns_core::packet::{PacketFlags, RawPacket};
use rns_crypto::ed25519::Ed25519PrivateKey;
use rns_crypto::OsRng;

use crate::fixtures::{array, COUNT};
use crate::harness::{ensure, failed, operation, same, Prepared, Row};

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "link.handshake.both",
        "LinkEngine::new_initiator (two new key pairs), RawPacket::pack of the request, \
         set_link_id_from_hashable, new_responder (new key pair, signs the proof), \
         handle_lrproof, handle_lrrtt: both sides until both are active; the responder takes \
         the request from the initiator's packet, so nothing is parsed twice; 64 destinations",
        handshake,
    )]
}

/// The signing key and hash of a destination that accepts links.
pub struct Owner {
    private: Ed25519PrivateKey,
    public: [u8; 32],
    destination: [u8; 16],
}

impl Owner {
    pub fn new(number: usize) -> Self {
        let private = Ed25519PrivateKey::from_bytes(&array("link.owner", number));
        let public = private.public_key().public_bytes();
        Self { private, public, destination: array("link.destination", number) }
    }
}

/// Opens a link: the initiator's and the responder's engine, both active.
pub fn open(owner: &Owner) -> Result<(LinkEngine, LinkEngine), String> {
    let (mut initiator, request) = LinkEngine::new_initiator(
        &owner.destination,
        1,
        LinkMode::Aes256Cbc,
        Some(constants::MTU as u32),
        0.0,
        &mut OsRng,
    );
    let flags = PacketFlags {
        header_type: constants::HEADER_1,
        context_flag: constants::FLAG_UNSET,
        transport_type: constants::TRANSPORT_BROADCAST,
        destination_type: constants::DESTINATION_SINGLE,
        packet_type: constants::PACKET_TYPE_LINKREQUEST,
    };
    let context = constants::CONTEXT_NONE;
    let packet = RawPacket::pack(flags, 0, &owner.destination, None, context, &request)
        .map_err(failed("link request"))?;
    let hashable = packet.get_hashable_part();
    initiator.set_link_id_from_hashable(&hashable, request.len());
    let (mut responder, proof) = LinkEngine::new_responder(
        &owner.private,
        &owner.public,
        packet.data(),
        &hashable,
        &owner.destination,
        1,
        0.0,
        &mut OsRng,
    )
    .map_err(failed("responder"))?;
    let (rtt, _) = initiator
        .handle_lrproof(&proof, &owner.public, 0.01, &mut OsRng)
        .map_err(failed("link proof"))?;
    responder.handle_lrrtt(&rtt, 0.02).map_err(failed("link RTT"))?;
    Ok((initiator, responder))
}

fn handshake() -> Prepared {
    let owners: Vec<Owner> = (0..COUNT).map(Owner::new).collect();
    operation(
        owners,
        COUNT,
        |owners, index| open(&owners[index]).expect("a link"),
        |_, index, (initiator, responder)| {
            ensure(initiator.state() == LinkState::Active, "the initiator is not active")?;
            ensure(responder.state() == LinkState::Active, "the responder is not active")?;
            same("link id", initiator.link_id(), responder.link_id())?;
            let text: [u8; 32] = array("link.probe", index);
            let sealed = initiator.encrypt(&text, &mut OsRng).map_err(failed("encrypt"))?;
            let opened = responder.decrypt(&sealed).map_err(failed("decrypt"))?;
            same("text over the link", &opened, &text)
        },
    )
}
