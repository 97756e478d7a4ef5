//! A running LXMF-rs node for the rows between two processes: the transport of
//! reticulum-rs over TCP on the loopback interface, and the message codec of
//! lxmf. The router queue of the project is not in its published crates, so
//! messages are sent and delivered by the code below.

use std::future::Future;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lxmf::{Message, WireMessage};
use rand_core::OsRng;
use reticulum_rs::core::hash::Hash as Sha256;
use reticulum_rs::core::identity::PrivateIdentity as MessageIdentity;
use reticulum_rs::transport::destination::link::{
    unpack_response_envelope, Link, LinkEvent, LinkEventData,
};
use reticulum_rs::transport::destination::{
    DestinationDesc, DestinationName, ProofStrategy, SingleInputDestination,
};
use reticulum_rs::transport::hash::AddressHash;
use reticulum_rs::transport::identity::{Identity, PrivateIdentity};
use reticulum_rs::transport::identity_bridge::{to_core_identity, to_core_private_identity};
use reticulum_rs::transport::iface::tcp_client::{TcpClient, TcpSocketTuning};
use reticulum_rs::transport::iface::tcp_server::TcpServer;
use reticulum_rs::transport::packet::{Packet, PacketContext, PacketDataBuffer};
use reticulum_rs::transport::resource::{ResourceEvent, ResourceEventKind};
use reticulum_rs::transport::transport::{
    AnnounceEvent, DeliveryReceipt, LinkPacketReceipt, ReceiptHandler, ReceivedData,
    ReceivedPayloadMode, SendPacketOutcome, Transport, TransportConfig,
};
use rmpv::Value;
use tokio::runtime::Runtime;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::Receiver;

use crate::harness::Node;
use crate::pair::{
    lock, now, reversed, serve, Digest, Hash, Inbox, Method, PublicKey, Received, Span, Stack,
    PATH, PATIENCE,
};

/// Kinds whose content is an LXMF message.
const MESSAGE_KINDS: [&str; 4] = ["direct", "cold", "opportunistic", "deliver"];

/// How long the other side may take to connect, and how often to look.
const CONNECTING: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(2);

/// The part of a message that a single packet leaves out: its destination.
const DESTINATION_SIZE: usize = 16;

type SharedLink = Arc<tokio::sync::Mutex<Link>>;
type SharedDestination = Arc<tokio::sync::Mutex<SingleInputDestination>>;

/// What `--list` says, and what `--node` runs.
pub fn node() -> Node {
    let kinds = vec![
        (
            "discovery",
            "Transport::request_path to the announce event with that hash, after has_path said no",
        ),
        ("link", "Transport::link to LinkEvent::Activated; then teardown_link"),
        (
            "request",
            "Transport::send_request_on_link to the end of RequestReceipt::wait; the server's \
             application reads received_data_events and answers with send_response",
        ),
        (
            "packet",
            "Transport::send_packet_observed_with_trace to ReceiptHandler::on_receipt with that \
             packet hash",
        ),
        (
            "direct",
            "Message::to_wire to the end of LinkPacketReceipt::wait_proved; the server's \
             application verifies each; no router and no queue, which the crates do not have",
        ),
        ("cold", "as direct, with Transport::link before and teardown_link after"),
        (
            "opportunistic",
            "Message::to_wire to ReceiptHandler::on_receipt; as direct without a link",
        ),
        ("deliver", "Message::to_wire, sent as a resource, to ResourceEventKind::OutboundComplete"),
        (
            "resource",
            "Transport::send_resource_with_compression to ResourceEventKind::OutboundComplete; \
             compress 1 tries bzip2 on all data",
        ),
        ("idle", "a transport with its interface and nothing to do"),
    ];
    Node { kinds, serve: |nodelay| serve::<LxmfRs>(nodelay) }
}

/// What the node's tasks report to the thread that waits.
enum Event {
    Announce(AddressHash),
    LinkUp(AddressHash),
    LinkClosed(AddressHash),
    Proof([u8; 32]),
    Sent(AddressHash),
    Failed(String),
}

/// Reports proofs of packets, on the task that checked them.
struct Receipts(Arc<Inbox<Event>>);

impl ReceiptHandler for Receipts {
    fn on_receipt(&self, receipt: &DeliveryReceipt) {
        self.0.put(now(), Event::Proof(receipt.packet_hash().to_bytes()));
    }
}

/// The application of the node: what it does with what arrives.
#[derive(Clone)]
struct Application {
    transport: Arc<Transport>,
    events: Arc<Inbox<Event>>,
    received: Arc<Mutex<Received>>,
    messages: Arc<Mutex<bool>>,
}

/// A node with its interface.
pub struct LxmfRs {
    runtime: Runtime,
    application: Application,
    nodelay: bool,
    listens: bool,
    own: Option<(SharedDestination, AddressHash, Arc<MessageIdentity>)>,
    target: Option<DestinationDesc>,
    link: Option<SharedLink>,
}

fn refused<E: std::fmt::Debug>(error: E) -> String {
    format!("the node refuses: {error:?}")
}

/// Feeds each event of a channel to `handle` until the channel closes.
async fn watch<T: Clone, F: Future<Output = ()>>(
    mut events: Receiver<T>,
    inbox: Arc<Inbox<Event>>,
    mut handle: impl FnMut(T) -> F,
) {
    loop {
        match events.recv().await {
            Ok(event) => handle(event).await,
            Err(RecvError::Lagged(lost)) => {
                inbox.put(now(), Event::Failed(format!("{lost} events of the node were lost")));
            }
            Err(RecvError::Closed) => break,
        }
    }
}

impl Application {
    fn report(&self, event: Event) {
        self.events.put(now(), event);
    }

    /// Starts the tasks that take the node's events.
    async fn start(&self) {
        self.transport.set_receipt_handler(Box::new(Receipts(Arc::clone(&self.events)))).await;
        let this = self.clone();
        let announces = self.transport.recv_announces().await;
        tokio::spawn(watch(announces, Arc::clone(&self.events), move |event: AnnounceEvent| {
            let this = this.clone();
            async move {
                let whom = event.destination.lock().await.desc.address_hash;
                this.report(Event::Announce(whom));
            }
        }));
        let this = self.clone();
        let links = self.transport.out_link_events();
        tokio::spawn(watch(links, Arc::clone(&self.events), move |event: LinkEventData| {
            match event.event {
                LinkEvent::Activated => this.report(Event::LinkUp(event.id)),
                LinkEvent::Closed => this.report(Event::LinkClosed(event.id)),
                _ => (),
            }
            async {}
        }));
        let this = self.clone();
        let links = self.transport.in_link_events();
        tokio::spawn(watch(links, Arc::clone(&self.events), move |event: LinkEventData| {
            if matches!(event.event, LinkEvent::Activated) {
                lock(&this.received).link(now());
            }
            async {}
        }));
        let this = self.clone();
        let resources = self.transport.resource_events();
        tokio::spawn(watch(resources, Arc::clone(&self.events), move |event: ResourceEvent| {
            let this = this.clone();
            async move { this.resource(event).await }
        }));
        let this = self.clone();
        let data = self.transport.received_data_events();
        tokio::spawn(watch(data, Arc::clone(&self.events), move |data: ReceivedData| {
            let this = this.clone();
            async move { this.data(data).await }
        }));
    }

    async fn resource(&self, event: ResourceEvent) {
        match event.kind {
            ResourceEventKind::Complete(complete) if complete.is_request => {
                lock(&self.received).wrong("a request came as a resource".into());
            }
            ResourceEventKind::Complete(complete) if complete.is_response => (),
            ResourceEventKind::Complete(complete) => self.deliver(complete.data).await,
            ResourceEventKind::OutboundComplete => self.report(Event::Sent(event.link_id)),
            ResourceEventKind::InboundFailed(failure) => {
                lock(&self.received).wrong(format!("a resource failed: {}", failure.reason));
            }
            ResourceEventKind::OutboundFailed
            | ResourceEventKind::OutboundRejected
            | ResourceEventKind::OutboundCancelled => {
                self.report(Event::Failed(format!("the resource ended: {:?}", event.kind)));
            }
            _ => (),
        }
    }

    async fn data(&self, data: ReceivedData) {
        match data.context {
            Some(PacketContext::Request) => self.answer(data).await,
            Some(PacketContext::None) => {
                let mut payload = Vec::new();
                let message = *lock(&self.messages);
                if message && data.payload_mode == ReceivedPayloadMode::DestinationStripped {
                    payload.extend_from_slice(data.destination.as_slice());
                }
                payload.extend_from_slice(data.data.as_slice());
                self.deliver(payload).await;
            }
            _ => (),
        }
    }

    /// Takes a payload, which in the kinds with messages is one: it counts when
    /// its signature is that of its source.
    async fn deliver(&self, data: Vec<u8>) {
        let messages = *lock(&self.messages);
        let content = match messages {
            true => self.verified(&data).await,
            false => Ok(data),
        };
        let at = now();
        match content {
            Ok(content) => lock(&self.received).payload(at, content),
            Err(text) => lock(&self.received).wrong(text),
        }
    }

    async fn verified(&self, data: &[u8]) -> Result<Vec<u8>, String> {
        let wire = WireMessage::unpack(data).map_err(|error| format!("no message: {error:?}"))?;
        let source = self.transport.destination_identity(&AddressHash::new(wire.source)).await;
        let source = source.ok_or("a message of an unknown source")?;
        match wire.verify(&to_core_identity(&source)) {
            Ok(true) => {
                Ok(wire.payload.content.map(|content| content.to_vec()).unwrap_or_default())
            }
            _ => Err("a message whose signature is not valid".into()),
        }
    }

    async fn answer(&self, request: ReceivedData) {
        let at = now();
        let outcome = async {
            let id = request.request_id.ok_or("a request without an id")?;
            let mut packed = request.data.as_slice();
            let value = rmpv::decode::read_value(&mut packed).map_err(|error| error.to_string())?;
            let data = match value.as_array().map(Vec::as_slice) {
                Some([_, _, Value::Binary(data)]) => data,
                _ => return Err("a request of another form".to_string()),
            };
            let response =
                Value::Array(vec![Value::Binary(id.to_vec()), Value::Binary(reversed(data))]);
            let mut packed = Vec::new();
            rmpv::encode::write_value(&mut packed, &response).map_err(|error| error.to_string())?;
            let link = request.destination;
            self.transport
                .send_response(&link, id.to_vec(), packed, None)
                .await
                .map_err(refused)?;
            Ok(data.clone())
        };
        match outcome.await {
            Ok(data) => lock(&self.received).payload(at, data),
            Err(text) => lock(&self.received).wrong(text),
        }
    }
}

impl LxmfRs {
    fn start(nodelay: bool) -> Result<Self, String> {
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let application = runtime.block_on(async {
            let identity = PrivateIdentity::new_from_rand(OsRng);
            let config = TransportConfig::new("bench", &identity, true);
            let application = Application {
                transport: Arc::new(Transport::new(config)),
                events: Arc::new(Inbox::new()),
                received: Arc::default(),
                messages: Arc::default(),
            };
            application.start().await;
            application
        });
        Ok(Self {
            runtime,
            application,
            nodelay,
            listens: false,
            own: None,
            target: None,
            link: None,
        })
    }

    /// Runs a task of the client on the node's threads, as an application's
    /// tasks do.
    fn task<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String> {
        let handle = self.runtime.spawn(work);
        self.runtime.block_on(handle).map_err(|error| error.to_string())?
    }

    fn transport(&self) -> Arc<Transport> {
        Arc::clone(&self.application.transport)
    }

    fn tuning(&self) -> TcpSocketTuning {
        match self.nodelay {
            true => TcpSocketTuning { nodelay: Some(true), ..TcpSocketTuning::default() },
            false => TcpSocketTuning::default(),
        }
    }

    /// When the event came that `pick` wants; a failure ends the wait.
    fn wait<T>(
        &self,
        what: &str,
        patience: Duration,
        mut pick: impl FnMut(Event) -> Option<T>,
    ) -> Result<(u64, T), String> {
        self.application.events.wait(what, patience, |event| match event {
            Event::Failed(text) => Some(Err(text)),
            other => pick(other).map(Ok),
        })
    }

    fn target(&self) -> Result<DestinationDesc, String> {
        self.target.ok_or_else(|| "nothing is aimed at".into())
    }

    fn link(&self) -> Result<SharedLink, String> {
        self.link.clone().ok_or_else(|| "no link is open".into())
    }

    fn destination(
        &self,
        name: DestinationName,
    ) -> (SharedDestination, AddressHash, PrivateIdentity) {
        let identity = PrivateIdentity::new_from_rand(OsRng);
        let transport = self.transport();
        self.runtime.block_on(async {
            let destination = transport.add_destination(identity.clone(), name).await;
            let mut guard = destination.lock().await;
            guard.set_proof_strategy(ProofStrategy::All);
            let hash = guard.desc.address_hash;
            drop(guard);
            (destination, hash, identity)
        })
    }

    /// Sends a single packet, made within the clock, and waits for its proof.
    fn prove(&self, make: Make, patience: Duration) -> Result<Span, String> {
        let to = self.target()?.address_hash;
        let transport = self.transport();
        self.application.events.clear();
        let (start, sent) = self.task(async move {
            let start = now();
            let data = PacketDataBuffer::new_from_slice(&make()?);
            let packet = Packet { destination: to, data, ..Packet::default() };
            let trace = transport.send_packet_with_trace(packet).await;
            match trace.outcome {
                SendPacketOutcome::SentDirect | SendPacketOutcome::SentBroadcast => {
                    Ok((start, trace.packet_hash.ok_or("a packet without a hash")?.to_bytes()))
                }
                other => Err(refused(other)),
            }
        })?;
        let proof = |event| matches!(event, Event::Proof(hash) if hash == sent).then_some(());
        let (end, ()) = self.wait("the proof", patience, proof)?;
        Ok(Span { start, end })
    }

    /// Sends a resource, made within the clock, and waits for its proof.
    fn transfer(&self, make: Make, compress: bool, patience: Duration) -> Result<Span, String> {
        let link = self.link()?;
        let transport = self.transport();
        self.application.events.clear();
        let (start, id) = self.task(async move {
            let id = *link.lock().await.id();
            let start = now();
            let data = make()?;
            transport
                .send_resource_with_compression(&id, data, None, compress)
                .await
                .map_err(refused)?;
            Ok((start, id))
        })?;
        let sent = |event| matches!(event, Event::Sent(link) if link == id).then_some(());
        let (end, ()) = self.wait("the resource's proof", patience, sent)?;
        Ok(Span { start, end })
    }

    /// Sends a packet on the link, made within the clock, and waits for its proof.
    fn send(&self, make: Make, patience: Duration) -> Result<Span, String> {
        let link = self.link()?;
        let transport = self.transport();
        self.task(async move {
            let start = now();
            let data = make()?;
            let packet = link.lock().await.data_packet(&data).map_err(refused)?;
            let mut receipt: Option<LinkPacketReceipt> = None;
            let outcome = transport
                .send_link_packet_on_bound_iface_observed(&link, packet, |made| {
                    receipt = Some(made);
                    true
                })
                .await
                .map_err(refused)?;
            let mut receipt = match outcome {
                Some(SendPacketOutcome::SentDirect | SendPacketOutcome::SentBroadcast) => {
                    receipt.ok_or("a packet without a receipt")?
                }
                other => return Err(refused(other)),
            };
            match tokio::time::timeout(patience, receipt.wait_proved()).await {
                Ok(Ok(())) => Ok(Span { start, end: now() }),
                Ok(Err(error)) => Err(refused(error)),
                Err(_) => Err(format!("the proof did not come within {patience:?}")),
            }
        })
    }

    /// Makes a signed message of this content from the client to the target.
    fn message_of(&self, content: &[u8]) -> Result<impl Fn() -> Result<Vec<u8>, String>, String> {
        let (_, source, signer) = self.own.clone().ok_or("there is no source")?;
        let to = self.target()?.address_hash;
        let content = content.to_vec();
        Ok(move || {
            let mut message = Message::new();
            message.destination_hash = Some(bytes(to));
            message.source_hash = Some(bytes(source));
            message.set_content_from_bytes(&content);
            message.fields = Some(Value::Map(Vec::new()));
            message.to_wire(Some(&signer)).map_err(|error| format!("no message: {error:?}"))
        })
    }
}

/// Makes what a sample sends.
type Make = Box<dyn FnOnce() -> Result<Vec<u8>, String> + Send>;

fn bytes(hash: AddressHash) -> Hash {
    hash.as_slice().try_into().expect("16 bytes")
}

fn name(kind: &str) -> DestinationName {
    match MESSAGE_KINDS.contains(&kind) {
        true => DestinationName::new("lxmf", "delivery"),
        false => DestinationName::new("netmesh", "bench"),
    }
}

impl Stack for LxmfRs {
    fn server(port: u16, nodelay: bool) -> Result<Self, String> {
        let mut this = Self::start(nodelay)?;
        this.listens = true;
        let manager = this.transport().iface_manager();
        let server = TcpServer::new(format!("127.0.0.1:{port}"), Arc::clone(&manager))
            .with_client_socket_tuning(this.tuning());
        let (server, bound) = server.with_startup_result();
        this.runtime.block_on(async {
            manager.lock().await.spawn(server, TcpServer::spawn);
            bound.await.map_err(refused)?
        })?;
        Ok(this)
    }

    fn client(port: u16, nodelay: bool) -> Result<Self, String> {
        let this = Self::start(nodelay)?;
        let manager = this.transport().iface_manager();
        let client = TcpClient::new(format!("127.0.0.1:{port}")).with_socket_tuning(this.tuning());
        let status = client.runtime_status_handle();
        this.runtime.block_on(async {
            manager.lock().await.spawn(client, TcpClient::spawn);
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while status.to_json()["stream_state"] != "connected" {
                if tokio::time::Instant::now() > deadline {
                    return Err(format!("not connected: {}", status.to_json()));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })?;
        Ok(this)
    }

    fn received(&self) -> Arc<Mutex<Received>> {
        Arc::clone(&self.application.received)
    }

    fn host(&mut self, kind: &str) -> Result<(Hash, PublicKey), String> {
        *lock(&self.application.messages) = MESSAGE_KINDS.contains(&kind);
        let (destination, hash, identity) = self.destination(name(kind));
        let public = identity.as_identity();
        let halves = [&public.public_key_bytes()[..], &public.verifying_key_bytes()[..]];
        self.own = Some((destination, hash, Arc::new(to_core_private_identity(&identity))));
        Ok((bytes(hash), halves.concat().try_into().expect("64 bytes")))
    }

    fn host_unheard(&mut self, count: usize) -> Result<Vec<Hash>, String> {
        Ok((0..count).map(|_| bytes(self.destination(name("discovery")).1)).collect())
    }

    fn aim(&mut self, kind: &str, to: Hash, key: PublicKey) -> Result<Option<Hash>, String> {
        let identity = Identity::try_new_from_slices(&key[..32], &key[32..]).map_err(refused)?;
        let address_hash = AddressHash::new(to);
        self.target = Some(DestinationDesc { identity, address_hash, name: name(kind) });
        if !MESSAGE_KINDS.contains(&kind) {
            return Ok(None);
        }
        let (destination, hash, identity) = self.destination(name(kind));
        self.own = Some((destination, hash, Arc::new(to_core_private_identity(&identity))));
        Ok(Some(bytes(hash)))
    }

    fn announce(&mut self) -> Result<(), String> {
        let (destination, _, _) = self.own.as_ref().ok_or("nothing to announce")?;
        let transport = self.transport();
        self.runtime.block_on(async {
            // A server's first interface is its listener, which carries nothing.
            let needed = if self.listens { 2 } else { 1 };
            let deadline = tokio::time::Instant::now() + CONNECTING;
            while transport.interface_hashes().await.len() < needed {
                if tokio::time::Instant::now() > deadline {
                    break; // Nobody is connected: nobody is to hear it.
                }
                tokio::time::sleep(LOOK).await;
            }
            transport.send_announce(destination, None).await;
        });
        Ok(())
    }

    fn meet(&mut self, whom: Hash) -> Result<(), String> {
        let whom = AddressHash::new(whom);
        let transport = self.transport();
        let known = || self.runtime.block_on(transport.has_path(&whom));
        if known() {
            return Ok(());
        }
        let heard = |event| matches!(event, Event::Announce(hash) if hash == whom).then_some(());
        if self.wait("the announce", Duration::from_millis(500), heard).is_err() {
            self.runtime.block_on(transport.request_path(&whom, None, None));
            self.wait("the announce", PATIENCE, heard)?;
        }
        match known() {
            true => Ok(()),
            false => Err("the announce came, but no path".into()),
        }
    }

    fn discover(&mut self, to: Hash, patience: Duration) -> Result<Span, String> {
        let whom = AddressHash::new(to);
        let transport = self.transport();
        if self.runtime.block_on(transport.has_path(&whom)) {
            return Err("the path is known already".into());
        }
        self.application.events.clear();
        let asking = Arc::clone(&transport);
        let start = self.task(async move {
            let start = now();
            asking.request_path(&whom, None, None).await;
            Ok(start)
        })?;
        let heard = |event| matches!(event, Event::Announce(hash) if hash == whom).then_some(());
        let (end, ()) = self.wait("the path", patience, heard)?;
        match self.runtime.block_on(transport.has_path(&whom)) {
            true => Ok(Span { start, end }),
            false => Err("the announce came, but no path".into()),
        }
    }

    fn open(&mut self, patience: Duration) -> Result<Span, String> {
        let target = self.target()?;
        let transport = self.transport();
        self.application.events.clear();
        let (start, link, id) = self.task(async move {
            let start = now();
            let link = transport.link(target).await;
            let id = *link.lock().await.id();
            Ok((start, link, id))
        })?;
        let (end, up) = self.wait("the link", patience, |event| match event {
            Event::LinkUp(which) if which == id => Some(true),
            Event::LinkClosed(which) if which == id => Some(false),
            _ => None,
        })?;
        if !up {
            return Err("the link closed".into());
        }
        self.link = Some(link);
        Ok(Span { start, end })
    }

    fn close(&mut self) -> Result<(), String> {
        let link = self.link.take().ok_or("no link is open")?;
        let transport = self.transport();
        self.task(async move { transport.teardown_link(&link).await.map_err(refused).map(|_| ()) })
    }

    fn request(&mut self, data: &[u8], patience: Duration) -> Result<(Span, Vec<u8>), String> {
        let link = self.link()?;
        let transport = self.transport();
        let data = data.to_vec();
        self.task(async move {
            let start = now();
            let request = Link::request_payload(PATH, Value::Binary(data)).map_err(refused)?;
            let mut receipt = transport
                .send_request_on_link(&link, request, patience, None)
                .await
                .map_err(refused)?;
            let response = receipt.wait().await.map_err(refused)?;
            let end = now();
            let (_, value) = unpack_response_envelope(&response.data).map_err(refused)?;
            match value {
                Value::Binary(data) => Ok((Span { start, end }, data)),
                _ => Err("the response is no bin".into()),
            }
        })
    }

    fn packet(&mut self, data: &[u8], patience: Duration) -> Result<Span, String> {
        let data = data.to_vec();
        self.prove(Box::new(move || Ok(data)), patience)
    }

    fn resource(
        &mut self,
        data: Vec<u8>,
        compress: bool,
        patience: Duration,
    ) -> Result<Span, String> {
        self.transfer(Box::new(move || Ok(data)), compress, patience)
    }

    fn message(
        &mut self,
        content: &[u8],
        method: Method,
        patience: Duration,
    ) -> Result<Span, String> {
        let message = self.message_of(content)?;
        match method {
            Method::Direct => self.send(Box::new(message), patience),
            Method::Resource { compress } => self.transfer(Box::new(message), compress, patience),
            Method::Opportunistic => {
                let short = move || message().map(|wire| wire[DESTINATION_SIZE..].to_vec());
                self.prove(Box::new(short), patience)
            }
        }
    }

    fn sha256(data: &mut dyn Read) -> Result<Digest, String> {
        let mut whole = Vec::new();
        data.read_to_end(&mut whole).map_err(|error| error.to_string())?;
        Ok(Sha256::new_from_slice(&whole).to_bytes())
    }
}
