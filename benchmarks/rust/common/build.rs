//! Build script of every adapter: records what was really compiled, so that
//! `--list` can say it. Crate versions come from the committed lock file.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Crates whose version a reader of the report wants to see: the peers
/// themselves and the cryptography below them.
const SHOWN: &[&str] = &[
    "lxmf",
    "lxmf-wire",
    "reticulum",
    "reticulum-rs",
    "reticulum-rs-core",
    "reticulum-rs-transport",
    "rns-core",
    "rns-crypto",
    "rns-net",
    "aes",
    "cbc",
    "curve25519-dalek",
    "ed25519-dalek",
    "hkdf",
    "hmac",
    "sha2",
    "x25519-dalek",
];

fn main() {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let lock_path = Path::new(&manifest).join("Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock_path.display());
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    println!("cargo:rerun-if-env-changed=RUSTC");

    let lock = fs::read_to_string(&lock_path).expect("the adapter has a Cargo.lock");
    println!("cargo:rustc-env=PEER_VERSIONS={}", versions(&lock));
    println!("cargo:rustc-env=PEER_RUSTC={}", rustc_version());
    println!("cargo:rustc-env=PEER_FLAGS={}", flags());
}

/// A JSON object of crate name to version; a crate that is present in two
/// versions has both, separated by a comma.
fn versions(lock: &str) -> String {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in lock.lines() {
        if let Some(value) = quoted(line, "name = ") {
            name = value;
        } else if let Some(value) = quoted(line, "version = ") {
            if SHOWN.contains(&name) {
                found.entry(name).or_default().push(value);
            }
        }
    }
    let fields: Vec<String> =
        found.iter().map(|(name, list)| format!("\"{}\":\"{}\"", name, list.join(", "))).collect();
    format!("{{{}}}", fields.join(","))
}

fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix('"')?.strip_suffix('"')
}

fn rustc_version() -> String {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|out| String::from_utf8(out.stdout).ok())
        .map(|text| text.trim().to_string())
        .unwrap_or_else(|| "unknown".into())
}

/// Profile, compiler flags and the target features that they switched on.
fn flags() -> String {
    let get = |name: &str| env::var(name).unwrap_or_default();
    let rustflags = get("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    format!(
        "profile={} opt-level={} target={} rustflags=[{}] target-features=[{}]",
        get("PROFILE"),
        get("OPT_LEVEL"),
        get("TARGET"),
        rustflags,
        get("CARGO_CFG_TARGET_FEATURE"),
    )
}
