//! Input: members (bytes at random access, [`Content`](rocwheel_content::Content)) and metadata.
//! Output: reproducible `.whl` and sdist files. The reverse direction reads the contents of a wheel
//! and verifies its RECORD.
//!
//! This crate knows nothing about ROCm. [`write_wheel`] and [`write_sdist`] write packages. [`tar`]
//! makes a tar archive from contents without copying them; [`manylinux`] finds the lowest platform
//! tag that fits a set of files. [`read`] opens finished wheels, [`rewrite()`] makes a new wheel
//! from one without unpacking members that stay unchanged, and [`Headers`] changes the texts of
//! METADATA and WHEEL. A [`PackedSource`] has the packed bytes of earlier wheels, which are not
//! compressed again. [`edit`] makes the changes of finished files that users ask for: another
//! version, other tags, other requirements.

mod archive;
mod distribution;
pub mod edit;
mod entry_points;
mod error;
mod headers;
mod known_tags;
mod loader_features;
pub mod manylinux;
mod metadata;
mod metadata_rules;
mod names;
mod output;
mod platform;
mod platform_tag;
mod python_version;
pub mod read;
mod record;
mod reuse;
mod rewrite;
mod sdist;
mod specifier;
pub mod tar;
mod version_text;

pub use distribution::{
    DEFAULT_EPOCH, EntryPoints, FileDigest, Level, Member, WheelContents, WriteOptions, Written, top_level, write_wheel,
};
pub use entry_points::{EntryPoint, EntryPointFault, EntryPointFile};
pub use error::Error;
pub use headers::Headers;
pub use known_tags::TagPart;
pub use loader_features::{CLibrary, LoaderFeature, LoaderSupport};
pub use metadata::{Description, Metadata, raise_metadata_version};
pub use metadata_rules::{MetadataFault, RefusedBy, metadata_faults};
pub use names::{
    Tag, WheelName, WheelNameParts, canonical_name, case_collisions, check_member_name, check_name, check_requirement,
    check_version, file_name_part,
};
pub use platform::{Platform, UnknownPlatform};
pub use platform_tag::PlatformTag;
pub use python_version::{InvalidPythonVersion, PythonVersion};
pub use read::same_version;
pub use record::{RecordRow, RowEdit, edit_rows, hash_column, parse_rows};
pub use reuse::{EarlierWheel, PackedSource};
pub use rewrite::{Existing, MemberOrder, Rewrite, new_info, rewrite, rewrite_and_hash};
pub use sdist::{Sdist, write_sdist};
pub use specifier::accepts;
pub use version_text::{VersionSpelling, replace_versions, version_stands_alone};
