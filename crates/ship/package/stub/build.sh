#!/bin/sh
# Makes stub.elf from stub.rs: a static x86-64 program without libc, linked by the linker that comes
# with rustup's Rust.
#
#   crates/ship/package/stub/build.sh [OUTPUT]
#
# Without OUTPUT it writes stub.elf and, beside it, rustc-version: another release of rustc makes
# other bytes that do the same. Run it after a change of stub.rs and commit all three files;
# tests/stub.rs compares them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rustc=${RUSTC:-rustc}
linker=$("$rustc" --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld
[ -x "$linker" ] || { echo "build.sh: there is no linker at $linker; install Rust with rustup" >&2; exit 1; }

# lto and opt-level=z: 2.5 KB. relocation-model=static: nothing to relocate, so no interpreter and
# no dynamic section. remap-path-prefix: no path of this machine in the file.
"$rustc" --edition 2024 --crate-type bin --crate-name stub --target x86_64-unknown-linux-gnu \
    -C opt-level=z -C panic=abort -C lto=fat -C codegen-units=1 -C strip=symbols -C force-unwind-tables=no \
    -C relocation-model=static -C target-feature=+crt-static -C linker-flavor=ld.lld -C linker="$linker" \
    --remap-path-prefix "$here=." -o "${1:-$here/stub.elf}" "$here/stub.rs"
[ $# -gt 0 ] || "$rustc" --version > "$here/rustc-version"
