//! What stores have beside the files that they were given: a lock and unfinished files, and stamps.

use std::time::{SystemTime, UNIX_EPOCH};

/// The folder of everything that is neither a page nor a distribution. Listings ignore it for its
/// dot.
pub(crate) const TOP: &str = ".rocwheel";
/// The file that a publisher locks.
pub(crate) const LOCK: &str = ".rocwheel/index.lock";

/// A time of modification as a stamp. Later times are later texts.
pub fn time_stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:012}.{:09}", since.as_secs(), since.subsec_nanos())
}

/// `true` for a stamp that is a time, not an ETag.
pub fn is_time_stamp(stamp: &str) -> bool {
    stamp.len() == 22 && stamp.as_bytes()[12] == b'.'
}
