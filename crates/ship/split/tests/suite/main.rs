//! Real HIP libraries, compiled by clang without a GPU. They are split, checked and damaged, and
//! their code is looked up as a runtime would.

#![allow(clippy::unwrap_used)]

mod engine;
mod fixture;
mod mutations;
mod runtime;
mod tree;
