//! Stamp rows.

use std::time::Instant;

use lxmf::wire::stamp::{
    generate_propagation_stamp_with_value_until_cancelled, generate_stamp,
    generate_stamp_with_value_until_cancelled, stamp_value, stamp_workblock, validate_stamp,
    MAX_MINEABLE_STAMP_COST, PROPAGATION_WORKBLOCK_EXPAND_ROUNDS, WORKBLOCK_EXPAND_ROUNDS,
};
use reticulum_rs::core::hash::Hash;

use crate::fixtures::COUNT;
use crate::harness::{
    cpu_ns, ensure, fingerprint, nanos, operation, same, Block, Histogram, Prepared, Row, Runner,
    Singles,
};
use crate::stamps::{material, WORKBLOCK_GOLDEN};

/// Tries between two polls of the crate's generators.
const TRIES_PER_POLL: u64 = 1024;

/// Cost of the stamps that prove that a search works: about a thousand tries.
const PROOF_COST: u32 = 10;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "stamp.search",
            "calls = tries, one thread. generate_stamp_with_value_until_cancelled for a cost that \
             is never met, from its first poll to the poll that ends the block (a poll each 1024 \
             tries); the work block of 3000 rounds is built before the first poll and outside \
             the time; stamps are 8-byte counters (the reference's have 32 bytes), so one hashed \
             block per try; a single call of the histogram spans 1024 tries",
            || search(Kind::Delivery),
        ),
        Row::new(
            "stamp.search.32",
            "the same with generate_propagation_stamp_with_value_until_cancelled, whose stamps \
             have 32 bytes (8-byte counter and zeros) after a work block of 1000 rounds",
            || search(Kind::Propagation),
        ),
        Row::new(
            "stamp.workblock.3000",
            "stamp_workblock of 3000 rounds (768000 bytes), 64 message ids",
            workblock,
        ),
    ]
}

fn golden(block: &[u8]) -> Result<(), String> {
    let hash = Hash::new_from_slice(block);
    let hex: String = hash.as_slice().iter().map(|byte| format!("{byte:02x}")).collect();
    ensure(hex == WORKBLOCK_GOLDEN, "the work block differs from the reference's")
}

#[derive(Clone, Copy)]
enum Kind {
    Delivery,
    Propagation,
}

impl Kind {
    fn rounds(self) -> usize {
        match self {
            Kind::Delivery => WORKBLOCK_EXPAND_ROUNDS,
            Kind::Propagation => PROPAGATION_WORKBLOCK_EXPAND_ROUNDS,
        }
    }

    fn generate(
        self,
        id: &[u8; 32],
        cost: u32,
        cancelled: impl FnMut() -> bool,
    ) -> Option<(Vec<u8>, u32)> {
        match self {
            Kind::Delivery => generate_stamp_with_value_until_cancelled(id, cost, cancelled),
            Kind::Propagation => {
                generate_propagation_stamp_with_value_until_cancelled(id, cost, cancelled)
            }
        }
    }

    /// Finds a cheap stamp and checks its value against the work block.
    fn prove(self, id: &[u8; 32]) -> Result<String, String> {
        let (stamp, value) = self.generate(id, PROOF_COST, || false).ok_or("no stamp found")?;
        ensure(value >= PROOF_COST, "the stamp is too cheap")?;
        let block = stamp_workblock(id, self.rounds());
        ensure(stamp_value(&block, &stamp) == value, "value of the stamp")?;
        Ok(fingerprint(&stamp))
    }
}

/// A search has no fixed length per call, so it measures itself.
struct Search {
    kind: Kind,
    next: usize,
    proof: Vec<String>,
}

fn search(kind: Kind) -> Prepared {
    golden(&stamp_workblock(&material(0), WORKBLOCK_EXPAND_ROUNDS))?;
    if let Kind::Delivery = kind {
        let stamp = generate_stamp(&material(0), PROOF_COST).ok_or("no stamp found")?;
        let value = validate_stamp(Some(&stamp), &material(0), PROOF_COST, &[]);
        ensure(value.is_some(), "the crate refuses its own stamp")?;
    }
    let proof: Result<Vec<String>, String> =
        (0..COUNT).map(|number| kind.prove(&material(number))).collect();
    Ok(Box::new(Search { kind, next: 0, proof: proof? }))
}

impl Search {
    fn advance(&mut self) -> usize {
        let index = self.next;
        self.next = (index + 1) % COUNT;
        index
    }

    /// Searches until `poll` says stop; it is called each 1024 tries, the
    /// first time before the first try.
    fn run(&self, index: usize, poll: impl FnMut() -> bool) -> Result<(), String> {
        match self.kind.generate(&material(index), MAX_MINEABLE_STAMP_COST, poll) {
            None => Ok(()),
            Some(_) => Err("an impossible stamp was found".into()),
        }
    }

    fn check(&self, index: usize) -> Result<String, String> {
        let seen = self.kind.prove(&material(index))?;
        same("stamp", seen.as_bytes(), self.proof[index].as_bytes())?;
        Ok(seen)
    }
}

impl Runner for Search {
    fn block(&mut self, ns: u64) -> Result<Block, String> {
        let index = self.advance();
        let mut started: Option<(Instant, u64)> = None;
        let (mut polls, mut elapsed, mut cpu) = (0, 0, 0);
        self.run(index, || {
            let Some((start, cpu_start)) = started else {
                started = Some((Instant::now(), cpu_ns()));
                return false;
            };
            polls += 1;
            elapsed = nanos(start);
            cpu = cpu_ns() - cpu_start;
            elapsed >= ns
        })?;
        let check = self.check(index)?;
        let calls = polls * TRIES_PER_POLL;
        Ok(Block { calls, ns: elapsed, cpu_ns: cpu, fixture: index, check })
    }

    fn singles(&mut self, count: u64) -> Result<Singles, String> {
        let index = self.advance();
        let mut histogram = Histogram::new();
        let mut last: Option<Instant> = None;
        let mut left = count;
        self.run(index, || {
            let now = Instant::now();
            if let Some(before) = last.replace(now) {
                histogram.add(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX));
                left -= 1;
            }
            left == 0
        })?;
        self.check(index)?;
        Ok(Singles { histogram, calls_each: TRIES_PER_POLL })
    }
}

fn workblock() -> Prepared {
    let ids: Vec<[u8; 32]> = (0..COUNT).map(material).collect();
    golden(&stamp_workblock(&ids[0], WORKBLOCK_EXPAND_ROUNDS))?;
    let hashes: Vec<Hash> = ids
        .iter()
        .map(|id| Hash::new_from_slice(&stamp_workblock(id, WORKBLOCK_EXPAND_ROUNDS)))
        .collect();
    operation(
        (ids, hashes),
        COUNT,
        |(ids, _), index| stamp_workblock(&ids[index], WORKBLOCK_EXPAND_ROUNDS),
        |(_, hashes), index, block| {
            let hash = Hash::new_from_slice(&block);
            same("work block", hash.as_slice(), hashes[index].as_slice())
        },
    )
}
