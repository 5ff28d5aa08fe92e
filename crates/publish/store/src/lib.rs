//! Input: keys. Output: the files that a folder, a bucket or other servers have under them, and the
//! wheels and source distributions among these.
//!
//! A [`Store`] is a folder ([`FolderStore`]), a part of a bucket ([`S3Store`]) or files of other
//! servers ([`LinkedStore`]), such as those of releases on GitHub. A store is written by one
//! publisher at a time, who holds its lock. [`StoreSite`] and [`FolderSite`] read one as if a
//! server sent it, and [`open_remote`] reads a file on a server in ranges.

pub mod attempts;
mod bucket_fault;
mod error;
mod folder;
mod github;
mod linked;
pub mod listing;
mod ranges;
mod remote;
mod s3;
pub mod site;
mod store;
mod traces;

pub use bucket_fault::BucketFault;
pub use error::Error;
pub use folder::{FolderStore, is_shown};
pub use github::{GithubAccess, ReleaseKinds};
pub use linked::{LinkedFile, LinkedStore};
pub use listing::NameFilter;
pub use ranges::{io_error, open_remote, open_remote_sparsely};
pub use remote::RemoteServer;
pub use s3::{
    BucketUpload, S3Address, S3Options, S3Store, Signing, StoreLocking, UploadOptions, UploadState, collect_uploads,
    plan_uploads, uncompared_uploads, upload,
};
pub use site::{FolderSite, StoreSite};
pub use store::{
    FileTransfer, NewFile, PageChange, Store, StoreLock, StoredBytes, StoredFile, put, wait_for_lock, with_threads,
};
pub use traces::{is_time_stamp, time_stamp};
