//! Input: a store. Output: the [`Stream`] in it: a package index with a history, of which each
//! change is a signed snapshot.
//!
//! What a snapshot lists is read, verified, withdrawn, pruned and brought back here. Which files
//! may be added is decided by the crate above.

mod error;
pub mod install_place;
mod stream;

pub use error::Error;
pub use stream::{
    CHOOSER, GateBypass, GatePolicy, HistoryRow, InstallRule, PrunePlan, RecordedStream, ReleaseSet, Retention,
    SNAPSHOT_TYPE, SetFile, SetParts, SnapshotChanges, SnapshotFile, SnapshotManifest, Stream, StreamChange,
    StreamFault, StreamHead, StreamNotice, StreamSettings, StreamWheel, Transition, UnlistedFile, UnsignedChange,
    UntestedRule, VerifiedStream, VerifyOptions, VersionKind, YankRequest, YankedFiles, check_stream_name,
    dependencies_first, history, is_name, patterns_of, prune_stream, read_recorded, refuse_stream, roll_back,
    statement_key, verify_stream, write_dated_index, yank,
};
