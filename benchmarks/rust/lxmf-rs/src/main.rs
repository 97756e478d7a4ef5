//! Adapter of the LXMF-rs stack (crates lxmf and reticulum-rs) for the netmesh
//! comparison report.

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
mod image;
mod link;
mod message;
mod node;
mod packet;
mod resource;
mod stamp;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut rows = vec![harness::control_row()];
    rows.extend(message::rows());
    rows.extend(packet::rows());
    rows.extend(resource::rows());
    rows.extend(announce::rows());
    rows.extend(identity::rows());
    rows.extend(link::rows());
    rows.extend(stamp::rows());
    let licence = "EPL-2.0 OR GPL-2.0-or-later";
    harness::run(&harness::Peer { name: "lxmf-rs", licence, rows, node: Some(node::node()) })
}
