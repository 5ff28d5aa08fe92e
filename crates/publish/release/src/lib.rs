//! Input: finished wheels and source distributions in a store. Output: a package index over them,
//! which pip, uv and browsers read, and an answer to whether an index can be trusted.
//!
//! A store is a folder ([`FolderStore`]) or part of a bucket ([`S3Store`]). [`build()`] lists a
//! [`Store`], reads what is new in it, and writes the pages that changed. The pages themselves are
//! made in [`rocwheel_index::pages`], from facts alone. [`check()`] reads an index as an installer
//! does and reports what is wrong with it.
//!
//! A [`Stream`] is an index with a history: [`publish()`] adds a set of distributions as a whole,
//! after it was checked that everything in the set can be installed, and each change is a signed
//! snapshot. [`promote`] gives a set of packages another version without building it again.
//!
//! [`get()`] downloads a wheel of an index, without the bytes that older wheels have.

mod aggregate;
pub mod build;
mod catalog;
pub mod check;
mod chooser;
mod delta;
mod error;
mod facts;
mod file_rules;
pub mod gate;
mod known;
mod layout;
mod mirror;
mod native;
mod public_names;
mod publish;
mod status;
mod stream;
mod views;

pub use aggregate::{AggregateOptions, Aggregated, Hosting, aggregate};
pub use build::{BuildOptions, Built, BuiltIndex, PageFile, build};
pub use check::{CheckOptions, CheckedIndex, FaultLevel, IndexFault, check};
pub use chooser::{ChangedVersion, ChooserOptions, GpuChoice, IndexChanges};
pub use delta::{GetMethod, GetPlan, GetRequest, GotWheel, IndexSite, get, plan_get};
pub use error::Error;
pub use layout::Layout;
pub use mirror::{
    LockedFile, MIRROR_MANIFEST, MirrorPlan, MirrorReport, MirrorRequest, MirrorVerdict, ResolvedSet, make_mirror,
    mirror_into, plan_mirror, verify_mirror, verify_stored_mirror,
};
pub use native::{NativeCopy, NativeOptions, NativeSignature, NativeSigner, publish_native};
pub use public_names::{NameState, PublicName, find_public_names};
pub use publish::attested::carry_attestations;
pub use publish::promoted::{StoredSet, find_set, plan_promoted, planned_manifest, stored_set};
pub use publish::pythons::{SetPythons, find_pythons};
pub use publish::{
    AllowedGap, LocalSet, PlannedEnvironment, PublicationPlan, PublishOptions, Published, SetTargets, find_targets,
    plan_publication, publish, read_promoted, read_set,
};
pub use status::StatusTable;
pub use stream::history::{HistoryRow, history, roll_back};
pub use stream::manifest::{SnapshotChanges, SnapshotFile, SnapshotManifest, StreamHead, UnlistedFile};
pub use stream::packing::{RecordedStream, StreamWheel, read_recorded};
pub use stream::prune::{PrunePlan, prune_stream};
pub use stream::sets::{ReleaseSet, SetFile};
pub use stream::settings::{Retention, StreamNotice, StreamSettings, VersionKind};
pub use stream::verify::{VerifiedStream, VerifyOptions, verify_stream};
pub use stream::yank::{YankRequest, YankedFiles, yank};
pub use stream::{
    EnvelopeSignature, PublicKey, SNAPSHOT_TYPE, STATEMENT_PAYLOAD, SignedEnvelope, SigningKey, Stream, StreamChange,
    StreamFault, UnsignedChange, check_stream_name, write_dated_index,
};
pub use views::IndexView;
