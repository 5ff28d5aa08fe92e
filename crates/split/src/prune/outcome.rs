//! Input: what was done. Output: an [`Outcome`] that people and machines read.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rocwheel_rocm::target::sort;
use serde::Serialize;

/// What [`crate::prune::prune`] did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// One for each input.
    pub inputs: Vec<Pruned>,
    /// Bytes of all inputs before.
    pub before: u64,
    /// Bytes of all results.
    pub after: u64,
    /// Whether those are estimated.
    pub estimated: bool,
    /// Names that were to be kept and that no code was found for.
    pub missing: Vec<String>,
}

/// What became of one input.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pruned {
    /// The input.
    pub path: PathBuf,
    /// The result; the input when that was replaced, `None` in a dry run.
    pub output: Option<PathBuf>,
    /// Bytes before: of the file, or of all files of a directory.
    pub before: u64,
    /// Bytes after.
    pub after: u64,
    /// Whether those are estimated, in a dry run: how well code compresses shows when it is done.
    pub estimated: bool,
    /// The files that have to do with GPU code, sorted by path.
    pub files: Vec<PrunedFile>,
    /// How many other files and links there are.
    pub others: u64,
    /// Code objects that were compared with the original after writing.
    pub verified: u64,
}

/// What became of one file with GPU code.
#[derive(Debug, Clone, Serialize)]
pub struct PrunedFile {
    /// Its path in the input; empty when it is the input.
    pub path: String,
    /// What was done.
    pub action: PruneAction,
    /// Bytes before. In wheels these are bytes before packing.
    pub before: u64,
    /// Bytes after.
    pub after: u64,
    /// Whether those are estimated.
    pub estimated: bool,
    /// Targets with code in it that stays, in numeric order.
    pub kept: Vec<String>,
    /// Targets whose code went, in numeric order.
    pub dropped: Vec<String>,
    /// Something to know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PruneAction {
    /// Nothing.
    Kept,
    /// Code for other targets was taken out, or plain bundles were compressed.
    Changed,
    /// It is for other targets only.
    Dropped,
}

impl Pruned {
    /// A wheel as a file of a directory.
    pub(super) fn as_file(&self, path: &str) -> PrunedFile {
        let all = |targets: fn(&PrunedFile) -> &Vec<String>| {
            sorted(self.files.iter().flat_map(|file| targets(file).clone()).collect::<BTreeSet<String>>())
        };
        let changed = self.files.iter().any(|file| file.action != PruneAction::Kept);
        PrunedFile {
            path: path.to_owned(),
            action: if changed { PruneAction::Changed } else { PruneAction::Kept },
            before: self.before,
            after: self.after,
            estimated: self.estimated,
            kept: all(|file| &file.kept),
            dropped: all(|file| &file.dropped),
            note: None,
        }
    }
}

impl Outcome {
    pub(super) fn add(&mut self, pruned: Pruned) {
        self.before += pruned.before;
        self.after += pruned.after;
        self.estimated |= pruned.estimated;
        self.inputs.push(pruned);
    }

    /// All targets that code was kept for.
    pub fn kept(&self) -> BTreeSet<String> {
        let files = self.inputs.iter().flat_map(|input| &input.files);
        files.filter(|file| file.action != PruneAction::Dropped).flat_map(|file| file.kept.iter().cloned()).collect()
    }

    /// All targets that code was removed for, in numeric order.
    pub fn dropped(&self) -> Vec<String> {
        let files = self.inputs.iter().flat_map(|input| &input.files);
        sorted(files.flat_map(|file| file.dropped.iter().cloned()))
    }
}

/// Targets in numeric order, each once.
pub(super) fn sorted(targets: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut targets: Vec<String> = targets.into_iter().collect();
    sort(&mut targets);
    targets
}
