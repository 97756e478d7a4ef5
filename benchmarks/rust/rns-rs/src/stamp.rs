//! Stamp rows.

use rns_core::stamp::{leading_zeros, stamp_value, stamp_workblock};
use rns_crypto::sha256::sha256;

use crate::fixtures::{array, COUNT};
use crate::harness::{ensure, fingerprint, operation, same, Prepared, Row};
use crate::stamps::{material, WORKBLOCK_GOLDEN};

const ROUNDS: u32 = 3000;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "stamp.search",
            "calls = tries. The crate has no generator: own loop over stamp_value with 64 \
             32-byte stamps and one work block of 3000 rounds, which it copies and hashes in \
             full (768000 bytes) for each try",
            search,
        ),
        Row::new(
            "stamp.workblock.3000",
            "stamp_workblock of 3000 rounds (768000 bytes), 64 message ids",
            workblock,
        ),
    ]
}

fn golden(block: &[u8]) -> Result<String, String> {
    let hash = sha256(block);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure(hex == WORKBLOCK_GOLDEN, "the work block differs from the reference's")?;
    Ok(fingerprint(&hash))
}

fn search() -> Prepared {
    let block = stamp_workblock(&material(0), ROUNDS);
    golden(&block)?;
    let stamps: Vec<[u8; 32]> = (0..COUNT).map(|number| array("stamp.try", number)).collect();
    operation(
        (block, stamps),
        COUNT,
        |(block, stamps), index| stamp_value(block, &stamps[index]),
        |(block, stamps), index, value| {
            let hash = sha256(&[&block[..], &stamps[index]].concat());
            ensure(leading_zeros(&hash) == value, "value of a stamp")?;
            Ok(value.to_string())
        },
    )
}

fn workblock() -> Prepared {
    let ids: Vec<[u8; 32]> = (0..COUNT).map(material).collect();
    golden(&stamp_workblock(&ids[0], ROUNDS))?;
    let hashes: Vec<[u8; 32]> = ids.iter().map(|id| sha256(&stamp_workblock(id, ROUNDS))).collect();
    operation(
        (ids, hashes),
        COUNT,
        |(ids, _), index| stamp_workblock(&ids[index], ROUNDS),
        |(_, hashes), index, block| same("work block", &sha256(&block), &hashes[index]),
    )
}
