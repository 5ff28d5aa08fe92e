//! The editor against files that gcc and every linker at hand make at test time.
//!
//! Debian packages: gcc, g++, binutils (ld.bfd, ld.gold, readelf, strip, objcopy), lld, bolt-19. A
//! missing one fails.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod editing;
mod files;
mod fixtures;
mod imports;
mod oracle;
mod reading;
mod symbols;
