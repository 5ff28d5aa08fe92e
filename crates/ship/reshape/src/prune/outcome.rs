//! Input: the results for all inputs. Output: a [`PruneReport`], which is printed as a table or as
//! JSON.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rocwheel_tables::target::sort;
use serde::Serialize;

#[derive(Debug, Clone, Default, Serialize)]
pub struct PruneReport {
    pub inputs: Vec<Pruned>,
    /// Bytes of all inputs.
    pub before: u64,
    /// Bytes of all results.
    pub after: u64,
    /// `true` if `after` is estimated.
    pub estimated: bool,
    /// Names of the list of targets that no code was found for.
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Pruned {
    pub path: PathBuf,
    /// Path of the result: the input if it was replaced, `None` in a dry run.
    pub output: Option<PathBuf>,
    /// Bytes before: of the file, or of all files of a directory.
    pub before: u64,
    pub after: u64,
    /// `true` if `after` is estimated, in a dry run: the size of compressed code is only known
    /// after compression.
    pub estimated: bool,
    /// The files with GPU code and those that depend on them, sorted by path.
    pub files: Vec<PrunedFile>,
    /// Number of other files and links.
    pub others: u64,
    /// Number of code objects that were compared with the original after writing.
    pub verified: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PrunedFile {
    /// Path of the file in the input; empty if it is the input.
    pub path: String,
    pub action: PruneAction,
    /// Bytes before; for members of wheels the uncompressed size.
    pub before: u64,
    pub after: u64,
    /// `true` if `after` is estimated.
    pub estimated: bool,
    /// Targets whose code in it was kept, in numeric order.
    pub kept: Vec<String>,
    /// Targets whose code was removed, in numeric order.
    pub dropped: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PruneAction {
    Kept,
    /// Code for other targets was removed, or plain bundles were compressed.
    Changed,
    /// The file is for other targets only and was removed.
    Dropped,
}

impl Pruned {
    /// Converts the result for a wheel into the record of a file of a directory.
    pub(super) fn as_file(&self, path: &str) -> PrunedFile {
        let changed = self.files.iter().any(|file| file.action != PruneAction::Kept);
        PrunedFile {
            path: path.to_owned(),
            action: if changed { PruneAction::Changed } else { PruneAction::Kept },
            before: self.before,
            after: self.after,
            estimated: self.estimated,
            kept: sorted(self.files.iter().flat_map(|file| file.kept.clone()).collect::<BTreeSet<String>>()),
            dropped: sorted(self.files.iter().flat_map(|file| file.dropped.clone()).collect::<BTreeSet<String>>()),
            note: None,
        }
    }
}

impl PruneReport {
    pub(super) fn add(&mut self, pruned: Pruned) {
        self.before += pruned.before;
        self.after += pruned.after;
        self.estimated |= pruned.estimated;
        self.inputs.push(pruned);
    }

    /// Returns all targets whose code was kept.
    pub fn kept(&self) -> BTreeSet<String> {
        let files = self.inputs.iter().flat_map(|input| &input.files);
        files.filter(|file| file.action != PruneAction::Dropped).flat_map(|file| file.kept.iter().cloned()).collect()
    }

    /// Returns all targets whose code was removed, in numeric order.
    pub fn dropped(&self) -> Vec<String> {
        let files = self.inputs.iter().flat_map(|input| &input.files);
        sorted(files.flat_map(|file| file.dropped.iter().cloned()))
    }
}

/// Returns the targets in numeric order, without repetitions.
pub(super) fn sorted(targets: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut targets: Vec<String> = targets.into_iter().collect();
    sort(&mut targets);
    targets
}
