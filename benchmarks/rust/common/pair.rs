//! The rows between two processes: what a stack must be able to do, and the
//! protocol that asks it. `benchmarks/README.md` defines the requests and the
//! kinds of rows. Only the standard library and `libc` are used, so that this
//! file changes no feature of the crates under test.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::harness::{cpu_ns, error_json, guarded, memory, misuse, parse, quote, say, Value};

/// The path of the server's request handler.
pub const PATH: &str = "/bench";

/// How long a wait outside the samples may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long the server waits for arrivals that it was told of, and how often it looks.
const COLLECT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);

pub type Hash = [u8; 16];
pub type PublicKey = [u8; 64];

/// Nanoseconds of the clock that all processes of a machine share.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that the call may write.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(status, 0, "no monotonic clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// When an operation was asked for, and when its end was reported.
#[derive(Clone, Copy)]
pub struct Span {
    pub start: u64,
    pub end: u64,
}

/// How a message travels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A packet on the link that is open.
    Direct,
    /// A resource on the link that is open.
    Resource { compress: bool },
    /// A single packet without a link.
    Opportunistic,
}

/// What a stack does. `nodelay` asks for TCP_NODELAY where the stack leaves it
/// off. Every wait ends with an error after `patience`, or after
/// [`PATIENCE`] where none is given. What a stack does not offer in its kinds
/// it need not have.
pub trait Stack: Sized {
    fn server(port: u16, nodelay: bool) -> Result<Self, String>;
    fn client(port: u16, nodelay: bool) -> Result<Self, String>;

    /// What has arrived here.
    fn received(&self) -> Arc<Mutex<Received>>;

    /// Makes the server's destination: it proves packets, takes links and
    /// resources, answers requests, and delivers messages.
    fn host(&mut self, kind: &str) -> Result<(Hash, PublicKey), String>;

    /// Makes destinations, each of an identity of its own, that answer path
    /// requests; nobody has heard of them.
    fn host_unheard(&mut self, count: usize) -> Result<Vec<Hash>, String>;

    /// Tells the client where the samples go. Gives the source of its messages.
    fn aim(&mut self, kind: &str, to: Hash, key: PublicKey) -> Result<Option<Hash>, String>;

    fn announce(&mut self) -> Result<(), String>;

    /// Waits until the announce of `whom` has been heard and a path is known.
    fn meet(&mut self, whom: Hash) -> Result<(), String>;

    fn discover(&mut self, to: Hash, patience: Duration) -> Result<Span, String>;

    /// Opens the link that the following calls use.
    fn open(&mut self, patience: Duration) -> Result<Span, String>;
    fn close(&mut self) -> Result<(), String>;

    fn request(&mut self, data: &[u8], patience: Duration) -> Result<(Span, Vec<u8>), String>;
    fn packet(&mut self, data: &[u8], patience: Duration) -> Result<Span, String>;
    fn resource(
        &mut self,
        data: Vec<u8>,
        compress: bool,
        patience: Duration,
    ) -> Result<Span, String>;

    /// Opens many links at once, then sends each its number.
    fn links(&mut self, count: usize, patience: Duration) -> Result<Span, String> {
        Err(format!("this stack cannot open {count} links within {patience:?}"))
    }

    fn message(
        &mut self,
        content: &[u8],
        method: Method,
        patience: Duration,
    ) -> Result<Span, String> {
        let _ = (content, method, patience);
        Err("this stack has no messages".into())
    }

    /// As `resource`, read from a file piece by piece and written to one.
    fn file(&mut self, piece: Piece, compress: bool, patience: Duration) -> Result<Span, String> {
        Err(format!("no {} bytes of a file (compress {compress}) in {patience:?}", piece.size))
    }

    fn sha256(data: &mut dyn Read) -> Result<Digest, String>;
}

pub type Digest = [u8; 32];

/// A payload in the file that holds them all.
#[derive(Clone)]
pub struct Piece {
    pub path: String,
    pub offset: u64,
    pub size: u64,
}

impl Piece {
    /// Opens the file where the payload begins.
    pub fn open(&self) -> Result<File, String> {
        let opened = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            Ok(file)
        });
        opened.map_err(|error| format!("{}: {error}", self.path))
    }
}

/// Something that came, or what gives its digest when that is asked for.
enum Arrival {
    Data(Vec<u8>),
    #[allow(dead_code)] // Not every stack receives into files.
    Later(Box<dyn FnOnce() -> Result<Digest, String> + Send>),
}

/// Locks; a panic of another thread has ended the program's use anyway.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What the server's application has seen since the last `collect`.
#[derive(Default)]
pub struct Received {
    links: Vec<u64>,
    payloads: Vec<(u64, Arrival)>,
    error: Option<String>,
}

impl Received {
    pub fn link(&mut self, at: u64) {
        self.links.push(at);
    }

    pub fn payload(&mut self, at: u64, data: Vec<u8>) {
        self.payloads.push((at, Arrival::Data(data)));
    }

    /// Takes a payload that is not in memory; `digest` is called by `collect`.
    #[allow(dead_code)] // Not every stack receives into files.
    pub fn later(
        &mut self,
        at: u64,
        digest: impl FnOnce() -> Result<Digest, String> + Send + 'static,
    ) {
        self.payloads.push((at, Arrival::Later(Box::new(digest))));
    }

    /// Something arrived that must not: the next `collect` says so.
    pub fn wrong(&mut self, text: String) {
        self.error.get_or_insert(text);
    }
}

/// Stamped events from the threads of a node to the one that waits for them.
pub struct Inbox<T> {
    queue: Mutex<VecDeque<(u64, T)>>,
    filled: Condvar,
}

impl<T> Inbox<T> {
    pub fn new() -> Self {
        Self { queue: Mutex::new(VecDeque::new()), filled: Condvar::new() }
    }

    /// Leaves an event that happened at `at`.
    pub fn put(&self, at: u64, event: T) {
        lock(&self.queue).push_back((at, event));
        self.filled.notify_one();
    }

    /// Drops all events: before an operation that waits for one of its own.
    pub fn clear(&self) {
        lock(&self.queue).clear();
    }

    /// The first event that `pick` wants, with its stamp; events before it are
    /// dropped. `pick` may refuse one with an error, which ends the wait.
    pub fn wait<U>(
        &self,
        what: &str,
        patience: Duration,
        mut pick: impl FnMut(T) -> Option<Result<U, String>>,
    ) -> Result<(u64, U), String> {
        let deadline = Instant::now() + patience;
        let mut queue = lock(&self.queue);
        loop {
            while let Some((at, event)) = queue.pop_front() {
                if let Some(wanted) = pick(event) {
                    return wanted.map(|value| (at, value));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{what} did not come within {patience:?}"));
            }
            let waited = self.filled.wait_timeout(queue, left);
            (queue, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

/// What a request handler answers: the same bytes in reverse order.
pub fn reversed(data: &[u8]) -> Vec<u8> {
    data.iter().rev().copied().collect()
}

// ---------------------------------------------------------------------------
// The program

/// A row that is being measured.
struct Task {
    kind: String,
    payloads: Vec<Payload>,
    destinations: Vec<Hash>,
    compress: bool,
    done: usize,
    linked: bool,
}

/// What a sample sends. Its digest is made before anything is measured; rows
/// with files leave the data where it is.
struct Payload {
    data: Vec<u8>,
    piece: Piece,
    digest: Digest,
}

/// How the samples of a `run` ended.
#[derive(Default)]
struct Run {
    samples: Vec<u64>,
    starts: Vec<u64>,
    failed: usize,
    error: Option<String>,
    check: Digest,
}

struct Program<S: Stack> {
    nodelay: bool,
    stack: Option<S>,
    server: bool,
    task: Option<Task>,
}

/// Entry point of `--node`: answers requests until `quit` or the end of input.
pub fn serve<S: Stack>(nodelay: bool) -> ExitCode {
    let mut program = Program::<S> { nodelay, stack: None, server: false, task: None };
    for line in std::io::stdin().lock().lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) => return misuse(&format!("unreadable request: {error}")),
        };
        let fields = match parse(&line) {
            Ok(fields) => Request(fields),
            Err(_) if line.trim().is_empty() => continue,
            Err(text) => return misuse(&text),
        };
        if fields.text("op").is_ok_and(|op| op == "quit") {
            say("{\"ok\":true}");
            break;
        }
        match guarded(|| program.answer(&fields)) {
            Ok(answer) => say(&format!("{{\"ok\":true{answer}}}")),
            Err(text) => say(&error_json(&text)),
        }
    }
    // The threads of a stack may outlive it; nothing here needs their end.
    std::process::exit(0)
}

/// The fields of a request.
struct Request(HashMap<String, Value>);

impl Request {
    fn text(&self, name: &str) -> Result<&str, String> {
        match self.0.get(name) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(format!("the request needs a string {name:?}")),
        }
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        match self.0.get(name) {
            Some(Value::Number(number)) => Ok(*number),
            _ => Err(format!("the request needs a number {name:?}")),
        }
    }

    fn size(&self, name: &str) -> Result<usize, String> {
        usize::try_from(self.number(name)?).map_err(|_| format!("{name:?} is too large"))
    }

    fn size_or(&self, name: &str, default: usize) -> Result<usize, String> {
        match self.0.contains_key(name) {
            true => self.size(name),
            false => Ok(default),
        }
    }

    fn bytes<const N: usize>(&self, name: &str) -> Result<[u8; N], String> {
        unhex(self.text(name)?)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| format!("{name:?} is not the hex of {N} bytes"))
    }
}

fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(pairs.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

fn list(values: &[u64]) -> String {
    let texts: Vec<String> = values.iter().map(u64::to_string).collect();
    format!("[{}]", texts.join(","))
}

/// The payloads of a row, as its file holds them.
fn payloads<S: Stack>(request: &Request, kind: &str) -> Result<Vec<Payload>, String> {
    let (size, items) = (request.number("size")?, request.number("items")?);
    if size == 0 || items == 0 {
        return Ok(Vec::new());
    }
    let path = request.text("file")?;
    let length = std::fs::metadata(path).map_err(|error| format!("{path}: {error}"))?.len();
    if size.checked_mul(items) != Some(length) {
        return Err(format!("{path} does not hold {items} payloads of {size} bytes"));
    }
    let load = |item| {
        let piece = Piece { path: path.into(), offset: item * size, size };
        let digest = S::sha256(&mut piece.open()?.take(size))?;
        let mut data = Vec::new();
        if kind != "file" {
            let read = piece.open()?.take(size).read_to_end(&mut data);
            read.map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(Payload { data, piece, digest })
    };
    (0..items).map(load).collect()
}

fn xor(sum: &mut Digest, digest: &Digest) {
    sum.iter_mut().zip(digest).for_each(|(one, other)| *one ^= other);
}

impl<S: Stack> Program<S> {
    fn stack(&mut self) -> Result<&mut S, String> {
        self.stack.as_mut().ok_or_else(|| "no node is open".into())
    }

    fn answer(&mut self, request: &Request) -> Result<String, String> {
        let nothing = |()| String::new();
        match request.text("op")? {
            "open" => self.open(request).map(nothing),
            "prepare" if self.server => self.prepare_server(request),
            "prepare" => self.prepare_client(request),
            "announce" => self.stack()?.announce().map(nothing),
            "meet" => {
                let whom = request.bytes("destination")?;
                self.stack()?.meet(whom).map(nothing)
            }
            "run" => self.run(request),
            "collect" => self.collect(request.size_or("expect", 0)?),
            "usage" => usage(request.size_or("reset", 0)? != 0),
            other => Err(format!("unknown operation {other:?}")),
        }
    }

    fn open(&mut self, request: &Request) -> Result<(), String> {
        if self.stack.is_some() {
            return Err("the node is open".into());
        }
        let port = request.number("port")?;
        let port = u16::try_from(port).map_err(|_| format!("{port} is no port"))?;
        self.server = match request.text("role")? {
            "server" => true,
            "client" => false,
            other => return Err(format!("unknown role {other:?}")),
        };
        self.stack = Some(match self.server {
            true => S::server(port, self.nodelay)?,
            false => S::client(port, self.nodelay)?,
        });
        Ok(())
    }

    fn prepare_server(&mut self, request: &Request) -> Result<String, String> {
        let kind = request.text("kind")?.to_string();
        let samples = request.size("samples")?;
        let stack = self.stack()?;
        let (hash, key) = stack.host(&kind)?;
        let mut answer = format!(",\"destination\":\"{}\",\"key\":\"{}\"", hex(&hash), hex(&key));
        if kind == "discovery" {
            let unheard = stack.host_unheard(samples)?.concat();
            answer += &format!(",\"destinations\":\"{}\"", hex(&unheard));
        }
        self.task = Some(Task {
            kind,
            payloads: Vec::new(),
            destinations: Vec::new(),
            compress: false,
            done: 0,
            linked: false,
        });
        Ok(answer)
    }

    fn prepare_client(&mut self, request: &Request) -> Result<String, String> {
        let kind = request.text("kind")?.to_string();
        let mut destinations = Vec::new();
        if kind == "discovery" {
            let unheard = unhex(request.text("destinations")?).ok_or("destinations: no hex")?;
            let chunks = unheard.chunks_exact(size_of::<Hash>());
            destinations = chunks.map(|hash| hash.try_into().expect("16 bytes")).collect();
        }
        let (to, key) = (request.bytes("destination")?, request.bytes("key")?);
        if self.task.take().is_some_and(|task| task.linked) {
            self.stack()?.close()?;
        }
        let source = self.stack()?.aim(&kind, to, key)?;
        self.task = Some(Task {
            payloads: payloads::<S>(request, &kind)?,
            kind,
            destinations,
            compress: request.number("compress")? != 0,
            done: 0,
            linked: false,
        });
        let named = source.map(|source| format!(",\"source\":\"{}\"", hex(&source)));
        Ok(named.unwrap_or_default())
    }

    fn run(&mut self, request: &Request) -> Result<String, String> {
        let count = request.size("count")?;
        let pace = Duration::from_micros(request.number("pace_us")?);
        let patience = Duration::from_millis(request.number("timeout_ms")?);
        let task = self.task.as_mut().ok_or("nothing is prepared")?;
        let stack = self.stack.as_mut().ok_or("no node is open")?;
        let mut run = Run::default();
        match task.kind.as_str() {
            "idle" => std::thread::sleep(Duration::from_millis(count as u64)),
            "links" => run.add(stack.links(count, patience)),
            _ => {
                let mut next = Instant::now();
                for _ in 0..count {
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    next = Instant::now() + pace;
                    let outcome = sample(stack, task, patience, &mut run.check);
                    run.add(outcome);
                    task.done += 1;
                }
            }
        }
        Ok(run.answer())
    }

    fn collect(&mut self, expect: usize) -> Result<String, String> {
        let kind = self.task.as_ref().map_or("", |task| task.kind.as_str()).to_string();
        let received = self.stack()?.received();
        let deadline = Instant::now() + COLLECT;
        let short = |received: &Received| match kind.as_str() {
            "link" => received.links.len() < expect,
            _ => received.payloads.len() < expect,
        };
        while short(&lock(&received)) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let arrived = std::mem::take(&mut *lock(&received));
        if let Some(error) = arrived.error {
            return Err(error);
        }
        let stamps: Vec<u64> = match kind.as_str() {
            "link" | "links" => arrived.links,
            _ => arrived.payloads.iter().map(|(at, _)| *at).collect(),
        };
        let mut count = if kind == "link" { stamps.len() } else { arrived.payloads.len() };
        let mut check = Digest::default();
        let mut numbers = HashSet::new();
        for (_, arrival) in arrived.payloads {
            match arrival {
                Arrival::Data(data) if kind == "links" => {
                    numbers.insert(data);
                }
                Arrival::Data(data) => xor(&mut check, &S::sha256(&mut &data[..])?),
                Arrival::Later(digest) => xor(&mut check, &digest()?),
            }
        }
        if kind == "links" {
            count = numbers.len();
        }
        Ok(format!(",\"stamps\":{},\"count\":{count},\"check\":\"{}\"", list(&stamps), hex(&check)))
    }
}

/// Takes one sample. What it presupposes is done before, what it leaves after
/// its end.
fn sample<S: Stack>(
    stack: &mut S,
    task: &mut Task,
    patience: Duration,
    check: &mut Digest,
) -> Result<Span, String> {
    let kind = task.kind.as_str();
    let on_link = ["request", "resource", "file", "direct", "deliver"].contains(&kind);
    if on_link && !task.linked {
        stack.open(PATIENCE)?;
        task.linked = true;
    }
    if kind == "discovery" {
        let to = *task.destinations.get(task.done).ok_or("more samples than prepared")?;
        return stack.discover(to, patience);
    }
    if kind == "link" {
        let span = stack.open(patience)?;
        stack.close()?;
        return Ok(span);
    }
    let items = task.payloads.len();
    let payload = task.payloads.get(task.done % items.max(1)).ok_or("the row has no payload")?;
    let data = &payload.data;
    let span = match kind {
        "request" => {
            let (span, response) = stack.request(data, patience)?;
            xor(check, &S::sha256(&mut &response[..])?);
            return Ok(span);
        }
        "packet" => stack.packet(data, patience)?,
        "resource" => stack.resource(data.clone(), task.compress, patience)?,
        "file" => stack.file(payload.piece.clone(), task.compress, patience)?,
        "direct" => stack.message(data, Method::Direct, patience)?,
        "deliver" => stack.message(data, Method::Resource { compress: task.compress }, patience)?,
        "opportunistic" => stack.message(data, Method::Opportunistic, patience)?,
        "cold" => {
            let start = now();
            stack.open(patience)?;
            let end = stack.message(data, Method::Direct, patience)?.end;
            stack.close()?;
            Span { start, end }
        }
        other => return Err(format!("this stack has no rows of the kind {other:?}")),
    };
    xor(check, &payload.digest);
    Ok(span)
}

impl Run {
    fn add(&mut self, outcome: Result<Span, String>) {
        match outcome {
            Ok(span) => {
                self.samples.push(span.end - span.start);
                self.starts.push(span.start);
            }
            Err(text) => {
                self.failed += 1;
                self.error.get_or_insert(text);
            }
        }
    }

    fn answer(&self) -> String {
        let mut answer = format!(
            ",\"samples\":{},\"starts\":{},\"failed\":{},\"check\":\"{}\"",
            list(&self.samples),
            list(&self.starts),
            self.failed,
            hex(&self.check)
        );
        if let Some(text) = &self.error {
            answer += &format!(",\"error\":{}", quote(text));
        }
        answer
    }
}

/// CPU time, resident memory, and its peak since the last reset.
fn usage(reset: bool) -> Result<String, String> {
    let answer = format!(
        ",\"cpu_ns\":{},\"rss\":{},\"peak\":{}",
        cpu_ns(),
        memory("VmRSS:").ok_or("this system does not tell a process's memory")?,
        memory("VmHWM:").ok_or("this system does not tell a process's memory")?
    );
    if reset {
        std::fs::write("/proc/self/clear_refs", "5").map_err(|error| error.to_string())?;
    }
    Ok(answer)
}

// ---------------------------------------------------------------------------
// Tests of the protocol's parts: `cargo test` in an adapter's folder

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways_and_nothing_else_is_hex() {
        assert_eq!(unhex(&hex(&[0, 0x9a, 0xff])), Some(vec![0, 0x9a, 0xff]));
        assert_eq!(unhex(""), Some(Vec::new()));
        assert_eq!(unhex("abc"), None);
        assert_eq!(unhex("0g"), None);
    }

    #[test]
    fn the_check_of_two_payloads_is_that_of_either_order() {
        let (one, other) = ([0x55; 32], [0x0f; 32]);
        let mut sums = [Digest::default(), Digest::default()];
        xor(&mut sums[0], &one);
        xor(&mut sums[0], &other);
        xor(&mut sums[1], &other);
        xor(&mut sums[1], &one);
        assert_eq!(sums[0], sums[1]);
        assert_eq!(sums[0], [0x5a; 32]);
    }

    #[test]
    fn a_wait_gives_what_it_wants_and_drops_what_came_before() {
        let inbox = Inbox::new();
        inbox.put(1, "early");
        inbox.put(2, "wanted");
        inbox.put(3, "late");
        let wanted = |event| (event == "wanted").then_some(Ok(event));
        assert_eq!(inbox.wait("it", Duration::ZERO, wanted), Ok((2, "wanted")));
        let refused = inbox.wait("it", Duration::ZERO, |_| Some(Err::<(), _>("no".to_string())));
        assert_eq!(refused, Err("no".into()));
        assert!(inbox.wait("it", Duration::ZERO, wanted).unwrap_err().contains("did not come"));
    }

    #[test]
    fn a_failed_sample_is_counted_and_the_first_error_told() {
        let mut run = Run::default();
        run.add(Ok(Span { start: 5, end: 12 }));
        run.add(Err("first".into()));
        run.add(Err("second".into()));
        let answer = run.answer();
        assert!(answer.contains("\"samples\":[7],\"starts\":[5],\"failed\":2"), "{answer}");
        assert!(answer.ends_with("\"error\":\"first\""), "{answer}");
    }
}
