//! Input: the settings of a run. Output: which code objects of a bundle stay.

use std::path::Path;
use std::sync::Arc;

use positioned_io::{ReadAt, Slice};
use rocwheel_kpack::BundleEntry;
use rocwheel_kpack::bundle::{Bundle, Part};
use rocwheel_output::Mode;
use rocwheel_progress::Reporter;
use rocwheel_tables::{Databases, TargetTable};

use super::Options;
use super::size::SizeForecast;

/// Judges the files of one run.
pub(super) struct Pruner<'a> {
    pub(super) options: &'a Options<'a>,
    pub(super) table: &'a TargetTable,
    pub(super) reporter: &'a dyn Reporter,
}

impl Pruner<'_> {
    pub(super) fn scratch(&self) -> &Path {
        self.options.scratch
    }

    pub(super) fn is_dry(&self) -> bool {
        self.options.mode == Mode::DryRun
    }

    pub(super) fn takes(&self, target: &str) -> bool {
        self.options.keep.takes(target)
    }

    /// Returns the target of a kernel database file, as its path tells, and `true` if the target is
    /// kept.
    pub(super) fn database_target(&self, path: &str) -> Option<(String, bool)> {
        let target = Databases::embedded().classify(path)?.target?;
        let kept = self.options.keep.takes_family(&target, self.table);
        Some((target, kept))
    }

    /// `true` if all code of a bundle is kept.
    pub(super) fn is_whole(&self, bundle: &Bundle) -> bool {
        bundle.entries.iter().all(|entry| entry.size == 0 || self.stays(entry))
    }

    pub(super) fn stays(&self, entry: &BundleEntry) -> bool {
        entry.target().is_none_or(|target| self.takes(target))
    }

    /// Returns the entries that are kept, in the order of the table. Entries without bytes are kept
    /// unless they are for another target.
    pub(super) fn parts<'a>(
        &self,
        reader: &'a (dyn ReadAt + 'a),
        base: u64,
        bundle: &'a Bundle,
        place: impl Fn(&BundleEntry) -> u64,
    ) -> Vec<KeptEntry<'a>> {
        let kept = bundle.entries.iter().filter(|entry| self.stays(entry));
        kept.map(|entry| KeptEntry {
            id: &entry.id,
            size: entry.size,
            content: Slice::new(reader, base + place(entry), Some(entry.size)),
        })
        .collect()
    }
}

/// An entry that is kept, and the source of its bytes.
pub(super) struct KeptEntry<'a> {
    id: &'a str,
    size: u64,
    content: Slice<&'a (dyn ReadAt + 'a)>,
}

impl<'a> KeptEntry<'a> {
    pub(super) fn borrow(&'a self) -> Part<'a> {
        Part { id: self.id, size: self.size, content: &self.content }
    }
}

pub(super) struct Section {
    pub(super) file: Arc<dyn ReadAt + Send + Sync>,
    pub(super) size: u64,
    /// Offset of each bundle in the section.
    pub(super) offsets: Vec<u64>,
    /// The sizes in a dry run, in which the section has no content.
    pub(super) forecast: Option<SizeForecast>,
}
