//! `rocwheel source`: the sources of GPU frameworks.

pub(crate) mod hipify;
