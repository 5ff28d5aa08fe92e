//! Input: members (bytes at random access, [`Content`](rocwheel_content::Content)). Output: ZIP and
//! tar archives with the same bytes on every machine. The reverse direction reads ZIP files of any
//! tool, and refuses those that installers would read differently.
//!
//! [`ZipWriter`] compresses on all threads, and copies members of other archives in packed form. A
//! [`PackedSource`] has the packed bytes of earlier wheels, which are not compressed again.
//! [`ZipFile`] opens an archive on this machine, [`ZipDirectory`] one that is far away. [`tar`]
//! makes a tar archive from contents without copying them.

mod copy_file;
mod error;
mod fault;
mod level;
mod member_name;
mod options;
mod output;
mod read;
mod reuse;
pub mod tar;
mod tar_gz;
mod write;
mod written;

pub use copy_file::copy_file;
pub use error::Error;
pub use fault::Fault;
pub use level::Level;
pub use member_name::{case_collisions, check_member_name, check_tree};
pub use options::{DEFAULT_EPOCH, FileDigest, WriteOptions};
pub use output::Beginning;
pub use read::{
    DirectoryEntries, DistantMember, ForeignBytes, Listed, MemberKind, MemberMemory, MemberPlace, MemberStream, Sparse,
    ZipDirectory, ZipFile, ZipLayout,
};
pub use reuse::{EarlierWheel, PackedSource, SearchedMembers};
pub use tar_gz::TarGzWriter;
pub use write::{WrittenMember, ZipSource, ZipWriter, file_mode, read_error};
pub use written::Written;
