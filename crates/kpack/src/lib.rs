//! Input: a fat binary or the path of a file. Output: the GPU targets whose code it holds.
//!
//! [`bundle`] reads the entry tables in a fat binary's `.hip_fatbin` section; [`database`] knows which files beside a
//! library are its kernels for one target.

pub mod bundle;
pub mod database;
mod error;
pub mod fatbin;
pub mod marker;

pub use bundle::{Bundle, Compression, Entry};
pub use database::{Databases, Member};
pub use error::Error;
pub use fatbin::{FatBinary, Format, Magic, Points, Wrapper};
pub use marker::Marker;
