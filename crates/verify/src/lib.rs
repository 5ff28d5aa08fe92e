//! Input: a machine with GPUs and packages. Output: whether they work.
//!
//! [`doctor`] reads files alone and says what is wrong with the machine. Tests leave events
//! ([`outcome`]), which reports and the gate read.

pub mod doctor;
pub mod lists;
pub mod outcome;
pub mod smoke;
pub mod suite;
pub mod supervisor;
