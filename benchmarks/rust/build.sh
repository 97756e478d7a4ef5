#!/bin/sh
# Build the adapters of the Rust peers: build.sh [PEER...], all by default.
#
# NATIVE=1 builds for this machine's processor (-C target-cpu=native) into
# PEER/target-native instead of PEER/target. CARGO_BUILD_JOBS limits the number
# of parallel compilers, as always. A peer whose tools are missing is skipped
# with one sentence; only a build that was tried and failed gives exit code 1.

set -u

NEED_MINOR=88 # rustc 1.88, the oldest that all pinned crates accept
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1

skip() {
  echo "rust-peers: skipped: $*"
}

# Prints the minor version of "rustc 1.MINOR.PATCH ...", or nothing.
rustc_minor() {
  rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9][0-9]*\)\..*/\1/p'
}

if ! command -v cargo >/dev/null 2>&1; then
  skip "cargo is not installed; rustup.rs or the system's packages have it" \
    "(rustc 1.$NEED_MINOR or later is needed)."
  exit 0
fi
minor=$(rustc_minor)
if [ -z "$minor" ] || [ "$minor" -lt "$NEED_MINOR" ]; then
  found=$(rustc --version 2>/dev/null || echo "no rustc")
  skip "rustc 1.$NEED_MINOR or later is needed, found: $found."
  exit 0
fi

target=target
if [ "${NATIVE:-0}" = 1 ]; then
  target=target-native
  RUSTFLAGS="${RUSTFLAGS:-} -C target-cpu=native"
  export RUSTFLAGS
fi

[ $# -gt 0 ] || set -- lxmf-rs rns-rs beechat
failed=0
for peer in "$@"; do
  if [ ! -f "$here/$peer/Cargo.toml" ]; then
    echo "rust-peers: there is no peer $peer" >&2
    failed=1
    continue
  fi
  if [ "$peer" = beechat ] && ! "${PROTOC:-protoc}" --version >/dev/null 2>&1; then
    skip "$peer needs the program protoc (Debian package protobuf-compiler," \
      "or its path in PROTOC)."
    continue
  fi
  echo "rust-peers: building $peer into benchmarks/rust/$peer/$target"
  if ! (cd "$here/$peer" && cargo build --release --locked --target-dir "$target"); then
    echo "rust-peers: $peer could not be built" >&2
    failed=1
  fi
done
exit "$failed"
