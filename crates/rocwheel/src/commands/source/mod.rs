//! `rocwheel source`: the sources of GPU frameworks.

pub(crate) mod checkout;
mod download;
pub(crate) mod hipify;
pub(crate) mod manifest;
pub(crate) mod patches;
mod projects;
