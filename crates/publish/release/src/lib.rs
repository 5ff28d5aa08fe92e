//! Input: finished wheels and source distributions, verdicts of their tests, and a store. Output: a
//! stream in the store: a package index with a history.
//!
//! [`publish()`] adds a set of distributions to a [`Stream`] as a whole, after it was checked that
//! everything in the set can be installed, and that the [`gate`] is open. Each change is a signed
//! snapshot, to which [`roll_back`] returns. [`publish_native`] does the same for packages of Linux
//! distributions.

mod error;
pub mod gate;
mod native;
mod public_names;
mod publish;
mod stream;

pub use error::Error;
pub use native::{NativeCopy, NativeOptions, NativeSignature, NativeSigner, publish_native};
pub use public_names::{NameState, PublicName, find_public_names};
pub use publish::attested::carry_attestations;
pub use publish::promoted::{StoredSet, find_set, plan_promoted, planned_manifest, stored_set};
pub use publish::pythons::{SetPythons, find_pythons};
pub use publish::{
    AllowedGap, LocalSet, PlannedEnvironment, PublicationPlan, PublishOptions, Published, SetTargets, find_targets,
    plan_publication, publish, read_promoted, read_set,
};
pub use stream::history::{HistoryRow, history, roll_back};
pub use stream::manifest::{SnapshotChanges, SnapshotFile, SnapshotManifest, StreamHead, UnlistedFile};
pub use stream::packing::{RecordedStream, StreamWheel, read_recorded};
pub use stream::prune::{PrunePlan, prune_stream};
pub use stream::sets::{ReleaseSet, SetFile};
pub use stream::settings::{Retention, StreamNotice, StreamSettings, VersionKind};
pub use stream::verify::{VerifiedStream, VerifyOptions, verify_stream};
pub use stream::yank::{YankRequest, YankedFiles, yank};
pub use stream::{
    CHOOSER, EnvelopeSignature, PublicKey, SNAPSHOT_TYPE, STATEMENT_PAYLOAD, SignedEnvelope, SigningKey, Stream,
    StreamChange, StreamFault, UnsignedChange, check_stream_name, refuse_stream, write_dated_index,
};
