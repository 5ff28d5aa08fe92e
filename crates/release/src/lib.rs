//! Input: finished wheels and source distributions in a store. Output: a package index over them,
//! which pip, uv and browsers read, and an answer to whether an index can be trusted.
//!
//! A store is a folder ([`FolderStore`]) or part of a bucket ([`S3Store`]). [`build()`] lists a
//! [`Store`], reads what is new in it, and writes the pages that changed. The pages themselves are
//! made in [`rocwheel_index::pages`], from facts alone. [`check()`] reads an index as an installer
//! does and reports what is wrong with it.
//!
//! [`promote`] gives a set of packages another version without building it again.

mod aggregate;
pub mod build;
pub mod check;
mod chooser;
mod error;
mod facts;
mod folder;
mod github;
mod known;
mod layout;
mod listing;
mod mirror;
pub mod promote;
mod ranges;
mod s3;
mod status;
mod store;
mod views;

pub use aggregate::{AggregateOptions, Aggregated, Hosting, aggregate};
pub use build::{BuildOptions, Built, BuiltIndex, PageChange, PageFile, build};
pub use check::{CheckOptions, CheckedIndex, FaultLevel, FolderSite, IndexFault, check};
pub use chooser::{ChangedVersion, ChooserOptions, GpuChoice, IndexChanges};
pub use error::Error;
pub use folder::FolderStore;
pub use github::{GithubAccess, GithubStore, ReleaseKinds};
pub use layout::Layout;
pub use listing::NameFilter;
pub use mirror::{
    LockedFile, MIRROR_MANIFEST, MirrorPlan, MirrorReport, MirrorRequest, MirrorVerdict, ResolvedSet, make_mirror,
    plan_mirror, verify_mirror,
};
pub use s3::{
    BucketFault, BucketUpload, S3Address, S3Options, S3Store, Signing, StoreLocking, UploadOptions, UploadState,
    collect_uploads, plan_uploads, upload,
};
pub use status::StatusTable;
pub use store::{Store, StoreLock, StoredBytes, StoredFile};
pub use views::IndexView;
