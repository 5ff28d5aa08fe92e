//! Endings of the files that an index has beside a distribution, appended to its whole name.

/// The core metadata of a wheel (PEP 658).
pub const METADATA: &str = ".metadata";
/// A provenance object with attestations (PEP 740).
pub const ATTESTATIONS: &str = ".provenance";
/// The pieces of a wheel, for downloads of the others alone.
pub const DELTA: &str = ".delta";
/// What packed the members of a wheel.
pub const PACKING: &str = ".packing";
