//! Input: finished wheels and source distributions, verdicts of their tests, and a store. Output: a
//! stream in the store: a package index with a history.
//!
//! [`publish()`] adds a set of distributions to a [`Stream`](rocwheel_stream::Stream) as a whole,
//! after it was checked that everything in the set can be installed, and that the [`gate`] is open.
//! Each change is a signed snapshot. [`publish_native`] does the same for packages of Linux
//! distributions.

mod error;
pub mod gate;
mod native;
mod publish;

pub use error::Error;
pub use native::{NativeCopy, NativeOptions, NativeSignature, NativeSigner, publish_native};
pub use publish::attested::carry_attestations;
pub use publish::promoted::{StoredSet, find_set, plan_promoted, planned_manifest, stored_set};
pub use publish::pythons::{SetPythons, find_pythons};
pub use publish::{
    AllowedGap, LocalSet, PlannedEnvironment, PublicationPlan, PublishOptions, Published, SetTargets, find_targets,
    plan_publication, publish, read_promoted, read_set,
};
