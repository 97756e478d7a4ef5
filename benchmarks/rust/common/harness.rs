//! The part of an adapter that every peer shares: the protocol, the clock, the
//! block loop and the histogram. `benchmarks/rust/README.md` documents the
//! protocol. Only the standard library and `libc` are used, so that this file
//! changes no feature of the crates under test.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{BufRead, Write as _};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::Instant;

use crate::fixtures::fnv;

/// Precedes each answer of `--serve`; every other line of standard output
/// comes from a crate under test and is to be ignored.
pub const TAG: &str = "@netmesh ";

const EXIT_MISUSE: u8 = 2;
const CALIBRATION_NS: u64 = 1_000_000;

/// Result of one timed block.
pub struct Block {
    pub calls: u64,
    pub ns: u64,
    pub cpu_ns: u64,
    /// Number of the fixture whose output was checked.
    pub fixture: usize,
    pub check: String,
}

/// Result of a run of single timed calls.
pub struct Singles {
    pub histogram: Histogram,
    /// Calls that one histogram entry spans: 1, except where the peer's API
    /// does not let one call be timed alone.
    pub calls_each: u64,
}

/// A prepared row: fixtures are built, expected outputs are known.
pub trait Runner {
    fn block(&mut self, ns: u64) -> Result<Block, String>;
    fn singles(&mut self, count: u64) -> Result<Singles, String>;
}

pub type Prepared = Result<Box<dyn Runner>, String>;

/// A row that the adapter offers.
pub struct Row {
    pub id: String,
    pub note: String,
    prepare: Box<dyn Fn() -> Prepared>,
}

impl Row {
    pub fn new(id: &str, note: &str, prepare: impl Fn() -> Prepared + 'static) -> Self {
        Self { id: id.into(), note: note.into(), prepare: Box::new(prepare) }
    }
}

/// What `--list` says about the adapter.
pub struct Peer {
    pub name: &'static str,
    pub licence: &'static str,
    pub rows: Vec<Row>,
    pub node: Option<Node>,
}

/// The node behind the rows between two processes.
pub struct Node {
    /// What it can play: the id of each kind of row, and a note.
    pub kinds: Vec<(&'static str, &'static str)>,
    /// Answers requests; the argument says whether to set TCP_NODELAY where the
    /// stack leaves it off.
    pub serve: fn(bool) -> ExitCode,
}

// ---------------------------------------------------------------------------
// Operations

/// An operation over rotating fixtures. `call` is the timed part; `check`
/// compares the last output of a block with the value expected for its
/// fixture and gives a fingerprint of what it saw.
struct Operation<S, O, C, K>
where
    C: Fn(&mut S, usize) -> O,
    K: Fn(&mut S, usize, O) -> Result<String, String>,
{
    state: S,
    fixtures: usize,
    next: usize,
    ns_per_call: f64,
    call: C,
    check: K,
}

/// Prepares a row whose one call is `call`: checks every distinct fixture's
/// output once (at most 64 of them), then measures the call roughly, so that
/// the first block has about the right length.
pub fn operation<S, O, C, K>(state: S, fixtures: usize, call: C, check: K) -> Prepared
where
    S: 'static,
    O: 'static,
    C: Fn(&mut S, usize) -> O + 'static,
    K: Fn(&mut S, usize, O) -> Result<String, String> + 'static,
{
    let mut op = Operation { state, fixtures, next: 0, ns_per_call: 0.0, call, check };
    let step = fixtures.div_ceil(crate::fixtures::COUNT).max(1);
    for index in (0..fixtures).step_by(step) {
        let output = (op.call)(&mut op.state, index);
        (op.check)(&mut op.state, index, output)?;
    }
    let mut calls = 1;
    loop {
        let (ns, _, _, _) = op.timed(calls);
        op.ns_per_call = ns as f64 / calls as f64;
        if ns >= CALIBRATION_NS {
            op.next = 0;
            return Ok(Box::new(op));
        }
        calls *= 2;
    }
}

impl<S, O, C, K> Operation<S, O, C, K>
where
    C: Fn(&mut S, usize) -> O,
    K: Fn(&mut S, usize, O) -> Result<String, String>,
{
    fn advance(&mut self) -> usize {
        let index = self.next;
        self.next = if index + 1 == self.fixtures { 0 } else { index + 1 };
        index
    }

    /// Runs `calls` calls; gives wall and process CPU time, the last fixture
    /// and its output. Dropping an output is part of the time, except for the
    /// last one, which is kept to be checked.
    #[inline(never)]
    fn timed(&mut self, calls: u64) -> (u64, u64, usize, O) {
        let cpu = cpu_ns();
        let start = Instant::now();
        for _ in 1..calls {
            let index = self.advance();
            let output = (self.call)(&mut self.state, black_box(index));
            black_box(&output);
        }
        let index = self.advance();
        let output = (self.call)(&mut self.state, black_box(index));
        black_box(&output);
        let ns = nanos(start);
        (ns, cpu_ns() - cpu, index, output)
    }
}

impl<S, O, C, K> Runner for Operation<S, O, C, K>
where
    C: Fn(&mut S, usize) -> O,
    K: Fn(&mut S, usize, O) -> Result<String, String>,
{
    fn block(&mut self, ns: u64) -> Result<Block, String> {
        let calls = ((ns as f64 / self.ns_per_call) as u64).max(1);
        let (ns, cpu_ns, index, output) = self.timed(calls);
        self.ns_per_call = (ns as f64 / calls as f64).max(0.1);
        let check = (self.check)(&mut self.state, index, output)?;
        Ok(Block { calls, ns, cpu_ns, fixture: index, check })
    }

    fn singles(&mut self, count: u64) -> Result<Singles, String> {
        let mut histogram = Histogram::new();
        for _ in 0..count {
            let index = black_box(self.advance());
            let start = Instant::now();
            let output = (self.call)(&mut self.state, index);
            black_box(&output);
            drop(output);
            histogram.add(nanos(start));
        }
        let index = self.advance();
        let output = (self.call)(&mut self.state, index);
        (self.check)(&mut self.state, index, output)?;
        Ok(Singles { histogram, calls_each: 1 })
    }
}

/// The cost of the loop itself, and the memory of a process that does nothing
/// else: subtract it where a difference of a nanosecond or a MiB matters.
pub fn control_row() -> Row {
    Row::new(
        "control.empty",
        "no operation: the loop, the rotation of the fixture number and the black boxes",
        || {
            operation(
                (),
                crate::fixtures::COUNT,
                |_, index| index,
                |_, index, seen| match seen == index {
                    true => Ok(fingerprint(&(index as u64).to_le_bytes())),
                    false => Err("the fixture number changed".into()),
                },
            )
        },
    )
}

// ---------------------------------------------------------------------------
// Helpers for rows

/// 16 hexadecimal digits that stand for an output in `check`.
pub fn fingerprint(data: &[u8]) -> String {
    format!("{:016x}", fnv(data))
}

/// The fingerprint of `seen` if it equals `expected`, else an error.
pub fn same(what: &str, seen: &[u8], expected: &[u8]) -> Result<String, String> {
    if seen == expected {
        return Ok(fingerprint(seen));
    }
    Err(format!(
        "{what}: {} bytes (fingerprint {}) instead of {} bytes (fingerprint {})",
        seen.len(),
        fingerprint(seen),
        expected.len(),
        fingerprint(expected)
    ))
}

/// An error unless `condition` holds.
pub fn ensure(condition: bool, what: &str) -> Result<(), String> {
    condition.then_some(()).ok_or_else(|| what.to_string())
}

/// Any error as text, with what was attempted.
pub fn failed<E: std::fmt::Debug>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error:?}")
}

pub fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of all threads of this process.
pub fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that the call may write.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "no CPU clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One of the memory sizes of this process in bytes, where /proc has them.
pub fn memory(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = rest.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Peak resident memory in bytes: `VmHWM` where /proc has it, else `ru_maxrss`.
fn peak_rss() -> u64 {
    if let Some(bytes) = memory("VmHWM:") {
        return bytes;
    }
    // SAFETY: all-zero bytes are a valid rusage, and the call may write it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    assert_eq!(status, 0, "no resource usage");
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    usage.ru_maxrss as u64 * unit
}

/// Smallest difference of two adjacent clock readings: it is part of every
/// single-call time, and of a block only once.
fn clock_overhead() -> u64 {
    (0..1000).map(|_| nanos(black_box(Instant::now()))).min().unwrap_or(0)
}

// ---------------------------------------------------------------------------
// Histogram

/// Log-linear histogram of nanoseconds: exact below 256, above it 128 bins
/// for each power of two, so that a bin is at most 0.79 % wide.
pub struct Histogram {
    bins: Vec<u64>,
    max: u64,
}

const SUB_BITS: u32 = 7;
const SUB_BINS: u64 = 1 << SUB_BITS;
const BINS: usize = ((64 - SUB_BITS as usize) << SUB_BITS) + SUB_BINS as usize;

impl Histogram {
    pub fn new() -> Self {
        Self { bins: vec![0; BINS], max: 0 }
    }

    pub fn add(&mut self, value: u64) {
        self.bins[Self::bin(value)] += 1;
        self.max = self.max.max(value);
    }

    fn bin(value: u64) -> usize {
        if value < 2 * SUB_BINS {
            return value as usize;
        }
        let shift = 63 - value.leading_zeros() - SUB_BITS;
        ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
    }

    /// Largest value that falls into the bin.
    fn upper(bin: usize) -> u64 {
        let bin = bin as u64;
        if bin < 2 * SUB_BINS {
            return bin;
        }
        let shift = (bin >> SUB_BITS) - 1;
        let top = (bin & (SUB_BINS - 1)) + SUB_BINS + 1;
        ((u128::from(top) << shift) - 1) as u64
    }

    fn json(&self) -> String {
        let filled = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        let pairs: Vec<String> =
            filled.map(|(bin, count)| format!("[{},{}]", Self::upper(bin), count)).collect();
        format!("[{}]", pairs.join(","))
    }
}

// ---------------------------------------------------------------------------
// JSON: flat objects in, text out

/// A value of a request: requests need no other kinds.
#[derive(Debug, PartialEq)]
pub enum Value {
    Text(String),
    Number(u64),
}

/// Parses one flat JSON object of strings and unsigned numbers.
pub fn parse(line: &str) -> Result<HashMap<String, Value>, String> {
    let mut rest = Scanner { text: line, at: 0 };
    let mut fields = HashMap::new();
    rest.expect('{')?;
    if rest.accept('}') {
        return rest.end().map(|()| fields);
    }
    loop {
        let key = rest.string()?;
        rest.expect(':')?;
        let value = rest.value()?;
        fields.insert(key, value);
        if rest.accept('}') {
            return rest.end().map(|()| fields);
        }
        rest.expect(',')?;
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn peek(&mut self) -> Option<char> {
        while self.text[self.at..].starts_with([' ', '\t', '\r', '\n']) {
            self.at += 1;
        }
        self.text[self.at..].chars().next()
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.accept(wanted) {
            true => Ok(()),
            false => Err(format!("expected {wanted:?} at byte {} of the request", self.at)),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(format!("text after the object, at byte {}", self.at)),
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        if self.peek() == Some('"') {
            return self.string().map(Value::Text);
        }
        let tail = &self.text[self.at..];
        let length = tail.bytes().take_while(u8::is_ascii_digit).count();
        let number = tail[..length]
            .parse()
            .map_err(|_| format!("expected a string or an unsigned number at byte {}", self.at))?;
        self.at += length;
        Ok(Value::Number(number))
    }

    /// Row ids and operation names hold no escapes, so none are accepted.
    fn string(&mut self) -> Result<String, String> {
        self.expect('"')?;
        let tail = &self.text[self.at..];
        let length = tail.find(['"', '\\']).ok_or("unterminated string in the request")?;
        if tail[length..].starts_with('\\') {
            return Err("escapes are not accepted in a request".into());
        }
        self.at += length + 1;
        Ok(tail[..length].to_string())
    }
}

/// A JSON string literal.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

// ---------------------------------------------------------------------------
// Protocol

/// Entry point of an adapter: `--list`, `--serve` or `--node`. With `--nodelay`
/// before it the node sets TCP_NODELAY, also where the stack does not, and the
/// rows of one process, which that does not touch, are left out.
pub fn run(peer: &Peer) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (nodelay, mode) = match words[..] {
        ["--nodelay", ref mode @ ..] => (true, mode),
        ref mode => (false, mode),
    };
    match (mode, &peer.node) {
        (["--list"], _) => {
            println!("{}", list(peer, if nodelay { &[] } else { &peer.rows }));
            ExitCode::SUCCESS
        }
        (["--serve"], _) => serve(peer),
        (["--node"], Some(node)) => (node.serve)(nodelay),
        _ => {
            eprintln!("usage: adapter [--nodelay] --list | --serve | --node (where it has kinds)");
            ExitCode::from(EXIT_MISUSE)
        }
    }
}

fn list(peer: &Peer, rows: &[Row]) -> String {
    let pair = |id: &str, note: &str| format!("{{\"id\":{},\"note\":{}}}", quote(id), quote(note));
    let rows: Vec<String> = rows.iter().map(|row| pair(&row.id, &row.note)).collect();
    let kinds = peer.node.iter().flat_map(|node| &node.kinds);
    let kinds: Vec<String> = kinds.map(|(id, note)| pair(id, note)).collect();
    format!(
        "{{\"peer\":{},\"versions\":{},\"licence\":{},\"rustc\":{},\"flags\":{},\"rows\":[{}],\
         \"kinds\":[{}]}}",
        quote(peer.name),
        env!("PEER_VERSIONS"),
        quote(peer.licence),
        quote(env!("PEER_RUSTC")),
        quote(env!("PEER_FLAGS")),
        rows.join(","),
        kinds.join(",")
    )
}

/// How a request ended: an answer, an error of the operation, or misuse of
/// the protocol, after which the adapter stops.
enum Outcome {
    Answer(String),
    Failed(String),
    Misuse(String),
    Quit,
}

fn serve(peer: &Peer) -> ExitCode {
    let mut prepared: HashMap<String, Box<dyn Runner>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) => return misuse(&format!("unreadable request: {error}")),
        };
        if line.trim().is_empty() {
            continue;
        }
        match answer(peer, &mut prepared, &line) {
            Outcome::Answer(fields) => say(&format!("{{\"ok\":true{fields}}}")),
            Outcome::Failed(text) => say(&error_json(&text)),
            Outcome::Misuse(text) => return misuse(&text),
            Outcome::Quit => {
                say("{\"ok\":true}");
                break;
            }
        }
    }
    ExitCode::SUCCESS
}

pub fn misuse(text: &str) -> ExitCode {
    say(&error_json(text));
    ExitCode::from(EXIT_MISUSE)
}

pub fn error_json(text: &str) -> String {
    format!("{{\"ok\":false,\"error\":{}}}", quote(text))
}

pub fn say(json: &str) {
    let mut out = std::io::stdout().lock();
    let sent = writeln!(out, "{TAG}{json}").and_then(|()| out.flush());
    if sent.is_err() {
        std::process::exit(0); // The reader has gone: nobody is left to tell.
    }
}

fn answer(peer: &Peer, prepared: &mut HashMap<String, Box<dyn Runner>>, line: &str) -> Outcome {
    let fields = match parse(line) {
        Ok(fields) => fields,
        Err(text) => return Outcome::Misuse(text),
    };
    let text = |name: &str| match fields.get(name) {
        Some(Value::Text(text)) => Ok(text.as_str()),
        _ => Err(Outcome::Misuse(format!("the request needs a string {name:?}"))),
    };
    let number = |name: &str| match fields.get(name) {
        Some(Value::Number(number)) if *number > 0 => Ok(*number),
        _ => Err(Outcome::Misuse(format!("the request needs a number {name:?} above 0"))),
    };
    let mut outcome = || -> Result<Outcome, Outcome> {
        Ok(match text("op")? {
            "prepare" => prepare(peer, prepared, text("row")?),
            "block" => block(prepared, text("row")?, number("ns")?),
            "singles" => singles(prepared, text("row")?, number("count")?),
            "rss" => Outcome::Answer(format!(",\"vmhwm\":{}", peak_rss())),
            "quit" => Outcome::Quit,
            other => Outcome::Misuse(format!("unknown operation {other:?}")),
        })
    };
    outcome().unwrap_or_else(|misuse| misuse)
}

/// A panic of a crate under test is an error of the row, not of the adapter.
pub fn guarded<T>(action: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown reason");
        Err(format!("panic: {text}"))
    })
}

fn prepare(peer: &Peer, prepared: &mut HashMap<String, Box<dyn Runner>>, id: &str) -> Outcome {
    let Some(row) = peer.rows.iter().find(|row| row.id == id) else {
        return Outcome::Failed(format!("this peer has no row {id:?}"));
    };
    match guarded(|| (row.prepare)()) {
        Ok(runner) => {
            prepared.insert(id.to_string(), runner);
            Outcome::Answer(String::new())
        }
        Err(text) => Outcome::Failed(text),
    }
}

fn block(prepared: &mut HashMap<String, Box<dyn Runner>>, id: &str, ns: u64) -> Outcome {
    let Some(runner) = prepared.get_mut(id) else {
        return Outcome::Failed(format!("row {id:?} is not prepared"));
    };
    match guarded(|| runner.block(ns)) {
        Ok(block) => Outcome::Answer(format!(
            ",\"calls\":{},\"ns\":{},\"cpu_ns\":{},\"fixture\":{},\"check\":{}",
            block.calls,
            block.ns,
            block.cpu_ns,
            block.fixture,
            quote(&block.check)
        )),
        Err(text) => Outcome::Failed(text),
    }
}

fn singles(prepared: &mut HashMap<String, Box<dyn Runner>>, id: &str, count: u64) -> Outcome {
    let Some(runner) = prepared.get_mut(id) else {
        return Outcome::Failed(format!("row {id:?} is not prepared"));
    };
    match guarded(|| runner.singles(count)) {
        Ok(singles) => Outcome::Answer(format!(
            ",\"hist\":{},\"max_ns\":{},\"calls_each\":{},\"clock_ns\":{}",
            singles.histogram.json(),
            singles.histogram.max,
            singles.calls_each,
            clock_overhead()
        )),
        Err(text) => Outcome::Failed(text),
    }
}

// ---------------------------------------------------------------------------
// Tests of the harness itself: `cargo test` in an adapter's folder

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_holds_its_own_upper_bound_and_not_the_next_value() {
        for bin in 0..BINS - 1 {
            let upper = Histogram::upper(bin);
            assert_eq!(Histogram::bin(upper), bin);
            assert_eq!(Histogram::bin(upper + 1), bin + 1);
        }
        assert_eq!(Histogram::bin(u64::MAX), BINS - 1);
        assert_eq!(Histogram::upper(BINS - 1), u64::MAX);
    }

    #[test]
    fn no_bin_is_wider_than_one_percent_of_its_lower_end() {
        for bin in 256..BINS {
            let lower = Histogram::upper(bin - 1) as f64 + 1.0;
            assert!((Histogram::upper(bin) as f64 - lower) / lower < 0.01);
        }
    }

    #[test]
    fn requests_are_flat_objects() {
        let fields = parse("{\"op\":\"block\", \"row\" : \"a.b\",\"ns\": 12}").unwrap();
        assert_eq!(fields["op"], Value::Text("block".into()));
        assert_eq!(fields["row"], Value::Text("a.b".into()));
        assert_eq!(fields["ns"], Value::Number(12));
        assert!(parse("{}").unwrap().is_empty());
    }

    #[test]
    fn malformed_requests_are_refused() {
        for line in [
            "",
            "[]",
            "{",
            "{\"op\"}",
            "{\"op\":}",
            "{\"op\":-1}",
            "{\"op\":\"x\"} 1",
            "{\"op\":\"x\",}",
            "{\"op\":\"a\\n\"}",
            "{\"op\":99999999999999999999}",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn quoted_text_survives_control_characters() {
        assert_eq!(quote("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
    }

    #[test]
    fn a_wrong_output_is_an_error_of_the_row() {
        let wrong = operation((), 4, |_, index| index, |_, _, _| Err("wrong".into()));
        assert_eq!(wrong.err().as_deref(), Some("wrong"));
    }

    #[test]
    fn a_block_runs_about_as_long_as_asked() {
        let mut row = (control_row().prepare)().unwrap();
        for _ in 0..3 {
            row.block(2_000_000).unwrap();
        }
        let block = row.block(20_000_000).unwrap();
        assert!(block.calls > 1000);
        assert!(block.ns > 2_000_000 && block.ns < 500_000_000);
    }
}
