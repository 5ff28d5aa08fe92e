//! What wheels declare of each other, on wheels made at test time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;
mod requirements;
mod server;
mod with;
