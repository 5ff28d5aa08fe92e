//! Input: a fat binary, an archive of code objects, or the path of a file. Output: the GPU code it
//! holds, one code object after another, and the same formats written.
//!
//! [`bundle`] reads and writes the offload bundles in a fat binary's `.hip_fatbin` section,
//! [`fatbin`] the wrappers that point at them; [`archive`] the `.kpack` archives that hold one
//! target's code objects of many binaries; [`marker`] what stands in a split binary instead of its
//! code; [`code_object`] what an AMDGPU ELF file says about itself.

pub mod archive;
pub mod bundle;
pub mod code_object;
mod error;
pub mod fatbin;
pub mod marker;
mod messagepack;

pub use archive::{Archive, ArchiveWriter, Blob, Located, Scheme};
pub use bundle::{Bundle, Compression, Entry};
pub use code_object::{CodeObject, Kernel};
pub use error::Error;
pub use fatbin::{FatBinary, Format, Magic, NewWrapper, Points, Replacement, Wrapper};
pub use marker::Marker;
