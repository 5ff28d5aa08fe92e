//! `rocwheel source`: the sources of GPU frameworks.

pub(crate) mod checkout;
pub(crate) mod download;
pub(crate) mod hipify;
pub(crate) mod manifest;
pub(crate) mod patches;
pub(crate) mod projects;
