//! Input: a fat binary, an archive of code objects, or the path of a file. Output: the GPU code in
//! it, one code object after another. The same formats can be written.
//!
//! [`bundle`] reads and writes the offload bundles in a fat binary's `.hip_fatbin` section,
//! [`fatbin`] the wrappers that point at them. [`archive`] handles the `.kpack` archives, which
//! hold one target's code objects of many binaries; [`marker`] the data that replaces the code in a
//! split binary; [`code_object`] the headers and notes of an AMDGPU ELF file, also of those in the
//! data of a program; [`aotriton`] the archives of AOTriton; [`runtime`] the names of the libraries
//! that load code from archives.

#![warn(missing_docs)]

pub mod aotriton;
pub mod archive;
pub mod bundle;
pub mod code_object;
mod error;
pub mod fatbin;
pub mod marker;
mod messagepack;
pub mod runtime;

pub use archive::{ArchiveWriter, Blob, KpackArchive, Located, Scheme};
pub use bundle::{Bundle, BundleEntry, CompressionHeader};
pub use code_object::{CodeObject, Kernel};
pub use error::Error;
pub use fatbin::{FatBinary, Format, Magic, NewWrapper, Points, Replacement, Wrapper};
pub use marker::Marker;
