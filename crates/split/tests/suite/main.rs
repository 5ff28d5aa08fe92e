//! Real HIP libraries, made by clang without a GPU, split, checked, spoiled and asked for their
//! code as a runtime would.

#![allow(clippy::unwrap_used)]

mod engine;
mod fixture;
mod fuse;
mod mutations;
mod runtime;
mod tree;
