//! Input: members (bytes at random access, [`Content`](rocwheel_content::Content)) and metadata.
//! Output: reproducible `.whl` and sdist files. The reverse direction reads the contents of a wheel
//! and verifies its RECORD.
//!
//! This crate knows nothing about ROCm, and [`rocwheel_archive`] has the containers.
//! [`write_wheel`] and [`write_sdist`] write packages; [`manylinux`] finds the lowest platform tag
//! that fits a set of files. [`read`] opens finished wheels, [`rewrite()`] makes a new wheel from
//! one without unpacking members that stay unchanged, and [`Headers`] changes the texts of METADATA
//! and WHEEL.

#![warn(missing_docs)]

mod distribution;
mod earlier_wheels;
mod entry_points;
mod error;
mod field_value;
mod headers;
mod known_tags;
mod loader_features;
pub mod manylinux;
mod member_pattern;
mod metadata;
mod metadata_rules;
mod names;
mod platform;
mod platform_tag;
mod python_version;
pub mod read;
mod record;
pub mod requirement;
mod rewrite;
mod sdist;
mod sdist_reader;
mod specifier;
mod tag_part;
mod version_text;

pub use distribution::{EntryPoints, Member, WheelContents, top_level, write_wheel};
pub use earlier_wheels::add_earlier_wheels;
pub use entry_points::{EntryPoint, EntryPointFault, EntryPointFile};
pub use error::Error;
pub use field_value::check_value;
pub use headers::Headers;
pub use loader_features::{CLibrary, LoaderFeature, LoaderSupport};
pub use member_pattern::MemberPattern;
pub use metadata::{Description, Metadata, is_static, raise_metadata_version};
pub use metadata_rules::{MetadataFault, RefusedBy, metadata_faults};
pub use names::{
    Tag, WheelName, WheelNameParts, canonical_name, check_name, check_requirement, check_version, file_name_part,
};
pub use platform::{Platform, UnknownPlatform};
pub use platform_tag::PlatformTag;
pub use python_version::{InvalidPythonVersion, PythonVersion};
pub use read::same_version;
pub use record::{RecordRow, RowEdit, edit_rows, hash_column, parse_rows};
pub use rewrite::{Existing, MemberOrder, Rewrite, new_info, rewrite, rewrite_and_hash, signatures};
pub use sdist::{Sdist, write_sdist};
pub use sdist_reader::{SdistMember, SdistMemberKind, for_each_sdist_member, sdist_metadata, sdist_metadata_of};
pub use specifier::accepts;
pub use tag_part::TagPart;
pub use version_text::{VersionSpelling, replace_versions, version_sign, version_stands_alone};
