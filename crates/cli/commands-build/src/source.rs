//! `rocwheel source`: the sources of GPU frameworks.

pub mod checkout;
pub(crate) mod download;
pub mod hipify;
pub mod manifest;
pub mod patches;
pub mod projects;
