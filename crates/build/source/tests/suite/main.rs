//! Checkouts, patches and manifests with repositories that the tests create on the disk.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod archives;
mod checkouts;
mod failures;
mod interruptions;
mod manifests;
mod network;
mod patches;
mod projects;
mod world;
