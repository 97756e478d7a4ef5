//! Adapter of the rns-rs stack (crates rns-core and rns-crypto) for the
//! netmesh comparison report. It has no LXMF, so it has no `lxmf.*` rows.

#[path = "../../common/fixtures.rs"]
mod fixtures;
#[path = "../../common/harness.rs"]
mod harness;
#[path = "../../common/pair.rs"]
mod pair;
#[path = "../../common/stamps.rs"]
mod stamps;

mod announce;
mod identity;
mod link;
mod node;
mod packet;
mod resource;
mod stamp;

use std::process::ExitCode;

const LICENCE: &str = "Reticulum License (no SPDX name): the software must not be used in a \
    system that can purposefully harm human beings, nor for making data sets that train \
    artificial intelligence; each copy must carry the notice";

fn main() -> ExitCode {
    let mut rows = vec![harness::control_row()];
    rows.extend(packet::rows());
    rows.extend(resource::rows());
    rows.extend(announce::rows());
    rows.extend(identity::rows());
    rows.extend(link::rows());
    rows.extend(stamp::rows());
    harness::run(&harness::Peer {
        name: "rns-rs",
        licence: LICENCE,
        rows,
        node: Some(node::node()),
    })
}
