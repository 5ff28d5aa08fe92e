//! Tests of the public interface: catalogs, archives (also hostile ones), flattened trees and
//! findings.

#![allow(clippy::unwrap_used, reason = "a failure in a test is a panic")]

mod archives;
mod catalog;
mod fixture;
mod flatten;
mod hostile;
mod verify;
