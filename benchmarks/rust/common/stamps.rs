//! Inputs of the stamp rows, for the peers that know stamps.

use crate::fixtures::array;

/// SHA-256 of the stamp work block (3000 rounds) of `material(0)`, computed
/// with the reference implementation (lxmf 1.2.1 from PyPI).
pub const WORKBLOCK_GOLDEN: &str =
    "690928aaf4d16a8eb606339dd86f460cd99bfd6c17c41f9ae6f465f37ae34806";

/// Message id whose stamp work block a row builds or searches on, 32 bytes.
pub fn material(number: usize) -> [u8; 32] {
    array("stamp.material", number)
}
