//! Input: the run of a CI, and which of its artifacts are wanted. Output: the artifacts on disk,
//! each compared with its checksum; and the way back, from a directory into a store.
//!
//! [`RunPlace`] says in which bucket and folder TheRock's workflows leave the outputs of a run. An
//! [`ArtifactSource`] lists such a folder and reads its files: a store ([`StoreSource`]) or a web
//! server ([`HttpSource`]). An [`ArtifactFilter`] chooses ([`plan()`]), and [`fetch()`] downloads
//! through a [`DownloadCache`].

mod arriving;
mod cache;
mod error;
mod github;
mod growth;
mod http;
mod intact;
mod page;
mod place;
mod push;
mod run;
mod select;
mod source;
mod topology;

pub use cache::DownloadCache;
pub use error::DownloadFault;
pub use github::{GitHub, RunQuery, WorkflowRun};
pub use http::HttpSource;
pub use page::{FolderEntry, TarballEntry, folder_page, tarball_page};
pub use place::{BuildSystem, ReleasePlace, RunPlace, StreamType, folder_of_run};
pub use push::{PushPlan, PushState, PushedFile, push_plan, push_to_bucket, push_to_folder};
pub use run::{
    ChecksumSource, FetchForm, FetchOptions, FetchPlan, FetchState, FetchedArtifact, PlannedFetch, fetch, fetch_file,
    place_file, plan,
};
pub use select::{ArtifactFilter, NamePattern};
pub use source::{ArtifactSource, FileFacts, FileStream, SourceFile, StoreSource};
pub use topology::BuildTopology;
