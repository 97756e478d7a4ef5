//! Link handshake, both sides in one process.

use reticulum_rs::transport::destination::link::{Link, LinkEventData, LinkStatus};
use reticulum_rs::transport::destination::{DestinationName, SingleInputDestination};
use reticulum_rs::transport::hash::AddressHash;
use reticulum_rs::transport::identity::PrivateIdentity;
use tokio::sync::broadcast::Sender;

use crate::fixtures::{array, identity_keys, APP_NAME, ASPECTS, COUNT};
use crate::harness::{ensure, failed, operation, same, Prepared, Row};

/// Events that a link's channel holds, as in the crate's own transport.
pub const EVENTS: usize = 1024;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "link.handshake.both",
        "Link::new (two new key pairs), request, new_from_request (new key pair), prove (signs), \
         handle_packet of the proof, create_rtt, handle_packet of it: both sides until both are \
         active; packets are handed over as structs, not as wire bytes; events go to a channel \
         without receivers; 64 destinations",
        handshake,
    )]
}

/// A destination that accepts links.
pub struct Owner {
    destination: SingleInputDestination,
    events: Sender<LinkEventData>,
}

impl Owner {
    pub fn new(number: usize, events: &Sender<LinkEventData>) -> Self {
        let keys = identity_keys("link.owner", number);
        let identity = PrivateIdentity::from_private_key_bytes(&keys).expect("64 bytes");
        let name = DestinationName::new(APP_NAME, &ASPECTS.join("."));
        Self { destination: SingleInputDestination::new(identity, name), events: events.clone() }
    }
}

/// Opens a link: the initiator's and the responder's end, both active.
pub fn open(owner: &Owner) -> Result<(Link, Link), String> {
    let interface = AddressHash::new_empty();
    let mut initiator = Link::new(owner.destination.desc, owner.events.clone());
    let request = initiator.request();
    let mut responder = Link::new_from_request(
        &request,
        owner.destination.identity.sign_key().clone(),
        owner.destination.desc,
        owner.events.clone(),
    )
    .map_err(failed("responder"))?;
    let proof = responder.prove();
    initiator.handle_packet(&proof, interface);
    ensure(initiator.status() == LinkStatus::Active, "the proof was refused")?;
    let rtt = initiator.create_rtt();
    responder.handle_packet(&rtt, interface);
    Ok((initiator, responder))
}

fn handshake() -> Prepared {
    let events = Sender::new(EVENTS);
    let owners: Vec<Owner> = (0..COUNT).map(|number| Owner::new(number, &events)).collect();
    operation(
        owners,
        COUNT,
        |owners, index| open(&owners[index]).expect("a link"),
        |_, index, (initiator, responder)| {
            ensure(initiator.status() == LinkStatus::Active, "the initiator is not active")?;
            ensure(responder.status() == LinkStatus::Active, "the responder is not active")?;
            same("link id", initiator.id().as_slice(), responder.id().as_slice())?;
            let text: [u8; 32] = array("link.probe", index);
            let (mut sealed, mut plain) = ([0; 128], [0; 128]);
            let sealed = initiator.encrypt(&text, &mut sealed).map_err(failed("encrypt"))?;
            let opened = responder.decrypt(sealed, &mut plain).map_err(failed("decrypt"))?;
            same("text over the link", opened, &text)
        },
    )
}
