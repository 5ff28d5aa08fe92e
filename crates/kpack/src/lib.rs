//! Input: a fat binary or the path of a file. Output: the GPU targets whose code it holds.
//!
//! [`bundle`] reads the entry tables in a fat binary's `.hip_fatbin` section; [`database`] knows which files beside a
//! library are its kernels for one target; [`code_object`] what an AMDGPU ELF file says about itself; [`target`] the names of
//! GPU targets.

pub mod bundle;
pub mod code_object;
pub mod database;
mod error;
pub mod fatbin;
pub mod marker;
pub mod target;

pub use bundle::{Bundle, Compression, Entry};
pub use code_object::{CodeObject, Kernel};
pub use database::{Databases, Member};
pub use error::Error;
pub use fatbin::{FatBinary, Format, Magic, Points, Wrapper};
pub use marker::Marker;
pub use target::{Feature, TargetId};
