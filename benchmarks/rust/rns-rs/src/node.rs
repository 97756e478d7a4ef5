//! A running rns-rs node for the rows between two processes: rns-net over TCP
//! on the loopback interface. Its callbacks run on the node's driver thread and
//! stamp the time there.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rns_core::packet::RawPacket;
use rns_crypto::identity::Identity;
use rns_crypto::sha256::Sha256;
use rns_crypto::OsRng;
use rns_net::event::{Event as DriverEvent, EventSender};
use rns_net::interface::tcp::TcpClientRuntime;
use rns_net::{
    AnnouncedIdentity, Callbacks, DestHash, Destination, IdentityHash, InterfaceConfig,
    InterfaceConfigData, InterfaceId, LinkId, NodeConfig, PacketHash, ProofStrategy,
    ReceivedResourceFile, RequestFailure, ResourceReceiveMode, ResourceTransferError,
    ResourceTransferId, RnsNode, TcpClientConfig, TcpServerConfig, TeardownReason, MODE_FULL,
};

use crate::harness::Node;
use crate::pair::{
    lock, now, reversed, serve, Digest, Hash, Inbox, Piece, PublicKey, Received, Span, Stack, PATH,
    PATIENCE,
};

const APP: &str = "netmesh";
const ASPECTS: [&str; 1] = ["bench"];
const ACCEPT_ALL: u8 = 1;
const CONTEXT_NONE: u8 = 0;

/// How much of a file is in memory when it is hashed.
const HASHED_AT_ONCE: usize = 1 << 16;

/// How long the other side may take to connect.
const CONNECTING: Duration = Duration::from_millis(500);

/// What `--list` says, and what `--node` runs. The node sets TCP_NODELAY on
/// both sides anyway.
pub fn node() -> Node {
    let kinds = vec![
        (
            "discovery",
            "RnsNode::request_path to on_announce with that hash, after has_path said no",
        ),
        ("link", "RnsNode::create_link to on_link_established; then teardown_link"),
        ("request", "RnsNode::send_request to on_response; register_request_handler answers"),
        (
            "packet",
            "RnsNode::send_packet_queued to on_proof; the server proves before its application \
             sees the packet, and decrypts it in on_local_delivery",
        ),
        (
            "resource",
            "RnsNode::send_resource_with_auto_compress to on_resource_completed; compress 1 tries \
             bzip2 on all data",
        ),
        (
            "file",
            "RnsNode::send_resource_reader to on_resource_stream_completed; the server's links \
             receive into temporary files, of which on_resource_file_received tells",
        ),
        ("links", "RnsNode::create_link for each, then try_send_on_link over each"),
        ("idle", "a node with its interface and nothing to do; its timers tick once a second"),
    ];
    Node { kinds, serve: |nodelay| serve::<RnsRs>(nodelay) }
}

/// What the driver thread reports to the thread that waits.
enum Event {
    Online,
    Announce(Hash),
    LinkUp(Hash),
    Response(Vec<u8>),
    Proof([u8; 32]),
    Sent(Hash),
    Closed(Hash),
    Failed(String),
}

/// An identity that owns a destination here.
type Owned = Arc<Mutex<Vec<(DestHash, Identity)>>>;

/// Where to ask for files instead of memory, in the kind that wants them.
type Files = Arc<Mutex<Option<EventSender>>>;

/// The node's callbacks: everything is stamped, nothing waits.
struct Reporter {
    events: Arc<Inbox<Event>>,
    received: Arc<Mutex<Received>>,
    own: Owned,
    files: Files,
}

impl Reporter {
    fn report(&self, event: Event) {
        self.events.put(now(), event);
    }
}

impl Callbacks for Reporter {
    fn on_announce(&mut self, announced: AnnouncedIdentity) {
        self.report(Event::Announce(announced.dest_hash.0));
    }

    fn on_path_updated(&mut self, _: DestHash, _: u8) {}

    fn on_interface_up(&mut self, _: InterfaceId) {
        self.report(Event::Online);
    }

    // The node hands single packets over as they came: opening them is the
    // application's work, and is done here, at once.
    fn on_local_delivery(&mut self, to: DestHash, raw: Vec<u8>, _: PacketHash) {
        let own = lock(&self.own);
        let Some((_, identity)) = own.iter().find(|(hash, _)| *hash == to) else { return };
        let Ok(packet) = RawPacket::unpack(&raw) else { return };
        match identity.decrypt(packet.data()) {
            Ok(plain) => lock(&self.received).payload(now(), plain),
            Err(error) => lock(&self.received).wrong(format!("a packet does not open: {error:?}")),
        }
    }

    fn on_link_established(&mut self, link: LinkId, _: DestHash, _: f64, initiator: bool) {
        match initiator {
            true => self.report(Event::LinkUp(link.0)),
            false => lock(&self.received).link(now()),
        }
        if let (false, Some(driver)) = (initiator, &*lock(&self.files)) {
            let directory = std::env::temp_dir();
            let mode = ResourceReceiveMode::TemporaryFile { directory, max_bytes: None };
            let request = DriverEvent::SetResourceReceiveMode { link_id: link.0, mode };
            if driver.send(request).is_err() {
                self.report(Event::Failed("the node has ended".into()));
            }
        }
    }

    fn on_link_closed(&mut self, link: LinkId, _: Option<TeardownReason>) {
        self.report(Event::Closed(link.0));
    }

    fn on_link_data(&mut self, _: LinkId, context: u8, data: Vec<u8>) {
        if context == CONTEXT_NONE {
            lock(&self.received).payload(now(), data);
        }
    }

    fn on_resource_received(&mut self, _: LinkId, data: Vec<u8>, _: Option<Vec<u8>>) {
        lock(&self.received).payload(now(), data);
    }

    fn on_resource_file_received(&mut self, _: LinkId, file: ReceivedResourceFile) {
        lock(&self.received).later(now(), move || {
            let opened = File::open(file.path()).map_err(|error| error.to_string());
            RnsRs::sha256(&mut opened?)
        });
    }

    fn on_resource_stream_completed(&mut self, link: LinkId, _: ResourceTransferId) {
        self.report(Event::Sent(link.0));
    }

    fn on_resource_stream_failed(
        &mut self,
        _: LinkId,
        _: ResourceTransferId,
        error: ResourceTransferError,
    ) {
        self.report(Event::Failed(format!("the file failed: {error:?}")));
    }

    fn on_resource_completed(&mut self, link: LinkId) {
        self.report(Event::Sent(link.0));
    }

    fn on_resource_failed(&mut self, _: LinkId, error: String) {
        self.report(Event::Failed(format!("the resource failed: {error}")));
    }

    fn on_response(&mut self, _: LinkId, _: [u8; 16], data: Vec<u8>) {
        self.report(Event::Response(data));
    }

    fn on_request_failed(&mut self, _: LinkId, _: [u8; 16], reason: RequestFailure) {
        self.report(Event::Failed(format!("the request failed: {reason:?}")));
    }

    fn on_proof(&mut self, _: DestHash, packet: PacketHash, _: f64) {
        self.report(Event::Proof(packet.0));
    }
}

/// A node with its interface.
pub struct RnsRs {
    node: RnsNode,
    events: Arc<Inbox<Event>>,
    received: Arc<Mutex<Received>>,
    own: Owned,
    files: Files,
    connected: bool,
    target: Option<Destination>,
    link: Option<Hash>,
}

fn config(type_name: &str, data: impl InterfaceConfigData + 'static) -> NodeConfig {
    NodeConfig {
        interfaces: vec![InterfaceConfig {
            name: "loopback".into(),
            type_name: type_name.into(),
            config_data: Box::new(data),
            mode: MODE_FULL,
            gravity: 0,
            recursive_prs: false,
            announces_from_internal: true,
            announces_to_internal: None,
            ingress_control: rns_core::transport::types::IngressControlConfig::enabled(),
            ifac: None,
            discovery: None,
        }],
        panic_on_interface_error: true,
        ..NodeConfig::default()
    }
}

fn dead<E: std::fmt::Debug>(error: E) -> String {
    format!("the node refuses: {error:?}")
}

/// The halves of a private key that sign, and of the public key that verify.
fn signing<const N: usize>(key: &[u8; N]) -> [u8; 32] {
    key[N - 32..].try_into().expect("32 bytes")
}

/// A msgpack `bin` of these bytes: the data of requests and responses.
fn bin(data: &[u8]) -> Vec<u8> {
    let size = data.len() as u32;
    let mut out = match size {
        0..=0xff => vec![0xc4, size as u8],
        0x100..=0xffff => [&[0xc5], &(size as u16).to_be_bytes()[..]].concat(),
        _ => [&[0xc6], &size.to_be_bytes()[..]].concat(),
    };
    out.extend_from_slice(data);
    out
}

/// The bytes of a msgpack `bin`, if it is one and nothing follows it.
fn unbin(packed: &[u8]) -> Option<&[u8]> {
    let (width, rest) = match packed.split_first()? {
        (0xc4, rest) => (1, rest),
        (0xc5, rest) => (2, rest),
        (0xc6, rest) => (4, rest),
        _ => return None,
    };
    let (size, data) = rest.split_at_checked(width)?;
    let size = size.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    (data.len() == size).then_some(data)
}

/// The packet that a link of the kind `links` carries: its number, big endian.
fn number_of(link: usize) -> [u8; 16] {
    (link as u128).to_be_bytes()
}

impl RnsRs {
    fn start(config: NodeConfig) -> Result<Self, String> {
        let events = Arc::new(Inbox::new());
        let received = Arc::new(Mutex::new(Received::default()));
        let own = Owned::default();
        let files = Files::default();
        let reporter = Reporter {
            events: Arc::clone(&events),
            received: Arc::clone(&received),
            own: Arc::clone(&own),
            files: Arc::clone(&files),
        };
        let node = RnsNode::start(config, Box::new(reporter)).map_err(dead)?;
        Ok(Self { node, events, received, own, files, connected: false, target: None, link: None })
    }

    /// When the event came that `pick` wants; a failure ends the wait.
    fn wait<T>(
        &self,
        what: &str,
        patience: Duration,
        mut pick: impl FnMut(Event) -> Option<T>,
    ) -> Result<(u64, T), String> {
        self.events.wait(what, patience, |event| match event {
            Event::Failed(text) => Some(Err(text)),
            Event::Closed(link) if self.link == Some(link) => Some(Err("the link closed".into())),
            other => pick(other).map(Ok),
        })
    }

    fn target(&self) -> Result<&Destination, String> {
        self.target.as_ref().ok_or_else(|| "nothing is aimed at".into())
    }

    fn link(&self) -> Result<Hash, String> {
        self.link.ok_or_else(|| "no link is open".into())
    }

    /// A destination of a new identity: proves packets, takes links.
    fn destination(&self) -> Result<(Destination, Identity), String> {
        let identity = Identity::new(&mut OsRng);
        let owner = IdentityHash(*identity.hash());
        let destination = Destination::single_in(APP, &ASPECTS, owner)
            .set_proof_strategy(ProofStrategy::ProveAll);
        let private = identity.get_private_key().ok_or("no private key")?;
        let public = identity.get_public_key().ok_or("no public key")?;
        self.node.register_destination_with_proof(&destination, Some(private)).map_err(dead)?;
        self.node
            .register_link_destination(
                destination.hash.0,
                signing(&private),
                signing(&public),
                ACCEPT_ALL,
            )
            .map_err(dead)?;
        Ok((destination, identity))
    }
}

impl Stack for RnsRs {
    fn server(port: u16, _: bool) -> Result<Self, String> {
        let data = TcpServerConfig {
            listen_ip: "127.0.0.1".into(),
            listen_port: port,
            ..Default::default()
        };
        let this = Self::start(config("TCPServerInterface", data))?;
        let requests = Arc::clone(&this.received);
        let answer = move |_, _: &str, data: &[u8], _: Option<&_>| {
            let at = now();
            let data = unbin(data)?;
            lock(&requests).payload(at, data.to_vec());
            Some(bin(&reversed(data)))
        };
        this.node.register_request_handler(PATH, None, answer).map_err(dead)?;
        Ok(this)
    }

    fn client(port: u16, _: bool) -> Result<Self, String> {
        let mut data = TcpClientConfig { target_port: port, ..Default::default() };
        data.runtime = Arc::new(Mutex::new(TcpClientRuntime::from_config(&data)));
        let this = Self::start(config("TCPClientInterface", data))?;
        this.wait("the connection", PATIENCE, |event| {
            matches!(event, Event::Online).then_some(())
        })?;
        Ok(this)
    }

    fn received(&self) -> Arc<Mutex<Received>> {
        Arc::clone(&self.received)
    }

    fn host(&mut self, kind: &str) -> Result<(Hash, PublicKey), String> {
        let (destination, identity) = self.destination()?;
        let (hash, key) = (destination.hash, identity.get_public_key().ok_or("no public key")?);
        lock(&self.own).push((hash, identity));
        *lock(&self.files) = (kind == "file").then(|| self.node.event_sender().clone());
        self.target = Some(destination);
        Ok((hash.0, key))
    }

    fn host_unheard(&mut self, count: usize) -> Result<Vec<Hash>, String> {
        let mut hashes = Vec::new();
        for _ in 0..count {
            let (destination, identity) = self.destination()?;
            // Paths are told of what was announced once, although nobody heard it.
            self.node.announce_queued(&destination, &identity, None).map_err(dead)?;
            hashes.push(destination.hash.0);
        }
        Ok(hashes)
    }

    fn aim(&mut self, _: &str, to: Hash, key: PublicKey) -> Result<Option<Hash>, String> {
        let identity = Identity::from_public_key(&key).map_err(dead)?;
        let recalled = AnnouncedIdentity {
            dest_hash: DestHash(to),
            identity_hash: IdentityHash(*identity.hash()),
            public_key: key,
            app_data: None,
            hops: 1,
            received_at: 0.0,
            receiving_interface: InterfaceId(0),
            rssi: None,
            snr: None,
        };
        let target = Destination::single_out(APP, &ASPECTS, &recalled);
        if target.hash.0 != to {
            return Err("the destination is not of that key".into());
        }
        self.target = Some(target);
        Ok(None)
    }

    fn announce(&mut self) -> Result<(), String> {
        if !self.connected {
            // Unless somebody connects, nobody is to hear it.
            let online = |event| matches!(event, Event::Online).then_some(());
            self.connected = self.wait("a connection", CONNECTING, online).is_ok();
        }
        let destination = self.target()?;
        let own = lock(&self.own);
        let (_, identity) = own.first().ok_or("nothing to announce")?;
        self.node.announce_queued(destination, identity, None).map_err(dead)
    }

    fn meet(&mut self, whom: Hash) -> Result<(), String> {
        let whom = DestHash(whom);
        if self.node.has_path(&whom).map_err(dead)? {
            return Ok(());
        }
        let heard = |event| matches!(event, Event::Announce(hash) if hash == whom.0).then_some(());
        if self.wait("the announce", Duration::from_millis(500), heard).is_err() {
            self.node.request_path(&whom).map_err(dead)?;
            self.wait("the announce", PATIENCE, heard)?;
        }
        match self.node.has_path(&whom).map_err(dead)? {
            true => Ok(()),
            false => Err("the announce came, but no path".into()),
        }
    }

    fn discover(&mut self, to: Hash, patience: Duration) -> Result<Span, String> {
        let whom = DestHash(to);
        if self.node.has_path(&whom).map_err(dead)? {
            return Err("the path is known already".into());
        }
        self.events.clear();
        let start = now();
        self.node.request_path(&whom).map_err(dead)?;
        let heard = |event| matches!(event, Event::Announce(hash) if hash == to).then_some(());
        let (end, ()) = self.wait("the path", patience, heard)?;
        match self.node.has_path(&whom).map_err(dead)? {
            true => Ok(Span { start, end }),
            false => Err("the announce came, but no path".into()),
        }
    }

    fn open(&mut self, patience: Duration) -> Result<Span, String> {
        let target = self.target()?;
        let (to, key) = (target.hash.0, signing(&target.public_key.ok_or("no public key")?));
        self.events.clear();
        let start = now();
        let link = self.node.create_link(to, key).map_err(dead)?;
        let up = |event| matches!(event, Event::LinkUp(id) if id == link).then_some(());
        let (end, ()) = self.wait("the link", patience, up)?;
        self.link = Some(link);
        Ok(Span { start, end })
    }

    fn close(&mut self) -> Result<(), String> {
        let link = self.link.take().ok_or("no link is open")?;
        self.node.teardown_link(link).map_err(dead)
    }

    fn request(&mut self, data: &[u8], patience: Duration) -> Result<(Span, Vec<u8>), String> {
        let link = self.link()?;
        self.events.clear();
        let start = now();
        self.node.send_request(link, PATH, &bin(data)).map_err(dead)?;
        let (end, packed) = self.wait("the response", patience, |event| match event {
            Event::Response(packed) => Some(packed),
            _ => None,
        })?;
        let response = unbin(&packed).ok_or("the response is no bin")?;
        Ok((Span { start, end }, response.to_vec()))
    }

    fn packet(&mut self, data: &[u8], patience: Duration) -> Result<Span, String> {
        self.events.clear();
        let start = now();
        let sent = self.node.send_packet_queued(self.target()?, data).map_err(dead)?;
        let proof = |event| matches!(event, Event::Proof(hash) if hash == sent.0).then_some(());
        let (end, ()) = self.wait("the proof", patience, proof)?;
        Ok(Span { start, end })
    }

    fn resource(
        &mut self,
        data: Vec<u8>,
        compress: bool,
        patience: Duration,
    ) -> Result<Span, String> {
        let link = self.link()?;
        self.events.clear();
        let start = now();
        self.node.send_resource_with_auto_compress(link, data, None, compress).map_err(dead)?;
        let sent = |event| matches!(event, Event::Sent(id) if id == link).then_some(());
        let (end, ()) = self.wait("the resource's proof", patience, sent)?;
        Ok(Span { start, end })
    }

    fn links(&mut self, count: usize, patience: Duration) -> Result<Span, String> {
        let target = self.target()?;
        let (to, key) = (target.hash.0, signing(&target.public_key.ok_or("no public key")?));
        self.events.clear();
        let start = now();
        let mut links = Vec::with_capacity(count);
        for _ in 0..count {
            links.push(self.node.create_link(to, key).map_err(dead)?);
        }
        let mut up = 0;
        let all = |event| {
            up += usize::from(matches!(event, Event::LinkUp(_)));
            (up == count).then_some(())
        };
        let (end, ()) = self.wait("the last link", patience, all)?;
        for (number, link) in links.iter().enumerate() {
            let receipt = self
                .node
                .try_send_on_link(*link, number_of(number).to_vec(), CONTEXT_NONE)
                .map_err(dead)?;
            receipt.wait().map_err(dead)?;
        }
        Ok(Span { start, end })
    }

    fn file(&mut self, piece: Piece, compress: bool, patience: Duration) -> Result<Span, String> {
        let link = self.link()?;
        self.events.clear();
        let start = now();
        let reader = piece.open()?.take(piece.size);
        self.node.send_resource_reader(link, reader, piece.size, None, compress).map_err(dead)?;
        let sent = |event| matches!(event, Event::Sent(id) if id == link).then_some(());
        let (end, ()) = self.wait("the file's proof", patience, sent)?;
        Ok(Span { start, end })
    }

    fn sha256(data: &mut dyn Read) -> Result<Digest, String> {
        let mut hash = Sha256::new();
        let mut piece = vec![0; HASHED_AT_ONCE];
        loop {
            match data.read(&mut piece).map_err(|error| error.to_string())? {
                0 => return Ok(hash.digest()),
                size => hash.update(&piece[..size]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_of_every_width_comes_back() {
        for size in [0, 1, 255, 256, 65_535, 65_536] {
            let data = vec![7; size];
            assert_eq!(unbin(&bin(&data)), Some(&data[..]));
        }
    }

    #[test]
    fn what_is_no_bin_or_more_than_one_is_refused() {
        for packed in [&b""[..], b"\xc4", b"\xc4\x02a", b"\xc4\x01ab", b"\xa1a", b"\xc5\x00"] {
            assert_eq!(unbin(packed), None);
        }
    }
}
