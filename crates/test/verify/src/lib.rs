//! Input: a machine with GPUs and packages. Output: whether they work.
//!
//! [`doctor`] reads files alone and says what is wrong with the machine. [`suite`] and [`smoke`]
//! run tests under a [`supervisor`], with [`lists`] of known failures. Tests leave events
//! ([`outcome`]), which [`report`] merges; [`shard`] divides a suite, and a [`verdict`] says of
//! wheels how their tests ended. [`mod@bench`] compares measurements with earlier ones.

pub mod bench;
mod cause;
mod cgroup;
pub mod doctor;
pub mod lists;
pub mod outcome;
mod output_pump;
mod processes;
pub mod report;
pub mod shard;
pub mod smoke;
pub mod suite;
pub mod supervisor;
pub mod verdict;
