//! Adapter of the Reticulum-rs stack (crate reticulum, by Beechat) for the
//! netmesh comparison report. The crate has no resources, no LXMF and no
//! public way to write a packet, so the rows are few. Its identity encryption
//! is left out as well: it sends an ephemeral key that is not the one from
//! which its caller derived the key, so nobody can decrypt the result.

#[path = "../../common/fixtures.rs"]
mod fixtures;
#[path = "../../common/harness.rs"]
mod harness;

mod announce;
mod identity;
mod link;
mod packet;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut rows = vec![harness::control_row()];
    rows.extend(packet::rows());
    rows.extend(announce::rows());
    rows.extend(identity::rows());
    rows.extend(link::rows());
    harness::run(&harness::Peer { name: "beechat", licence: "MIT", rows, node: None })
}
