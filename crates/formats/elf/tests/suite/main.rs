//! The editor is tested with files that gcc and every available linker make at test time.
//!
//! Debian packages: gcc, g++, binutils (ld.bfd, ld.gold, readelf, strip, objcopy), lld, bolt-19. A
//! missing one is a failure.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod editing;
mod files;
mod fixtures;
mod imports;
mod oracle;
mod reading;
mod symbols;
