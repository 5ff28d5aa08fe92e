//! Input: a tree of sources and a request. Output: a plan that can be printed, and the converted
//! tree.
//!
//! Everything is read and converted before anything is written. Until then the results are kept in
//! memory, which takes as many bytes as the changed files.

mod convert;
mod includes;
mod interruption_point;
mod journal;
#[cfg(test)]
mod killed_runs;
mod plan;
mod select;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;
use serde::Serialize;

pub use journal::{Recovered, recover};
pub use plan::plan;
pub use select::FileSelection;
pub use write::WrittenCounts;

use crate::build_amd::{BuildAmd, CopiedResult, Edits};
use crate::{Algorithm, Defects, Launches, Setting, Trouble, Unmapped};

#[derive(Debug, Clone)]
pub struct Request {
    pub tree: PathBuf,
    pub setting: Setting,
    pub launches: Launches,
    /// The reaction to input for which the original gives no result.
    pub defects: Defects,
    pub selection: FileSelection,
    pub edits: Vec<Edits>,
    /// A result that is copied to another name.
    pub copy: Option<CopiedResult>,
    /// Searches for remaining CUDA names, which takes time.
    pub survey: LeftoverSearch,
}

impl Request {
    /// PyTorch, converted as by its own `build_amd.py`. `compiler` is the treatment of launches if
    /// the script asks the machine.
    pub fn pytorch(tree: &Path, settings: BuildAmd, compiler: Launches) -> Self {
        let BuildAmd { includes, ignores, extra_files, edits, launches, copy } = settings;
        let selection = FileSelection { includes, ignores, extra_files, ..FileSelection::default() };
        let launches = launches.unwrap_or(compiler);
        Self { setting: Setting::Pytorch, launches, selection, edits, copy, ..Self::extension(tree) }
    }

    /// A whole tree, converted as by `torch.utils.cpp_extension`.
    pub fn extension(tree: &Path) -> Self {
        Self {
            tree: tree.to_owned(),
            setting: Setting::Extension,
            launches: Launches::Convert,
            defects: Defects::Refuse,
            selection: FileSelection { includes: vec!["*".to_owned()], ..FileSelection::default() },
            edits: Vec::new(),
            copy: None,
            survey: LeftoverSearch::Nothing,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverSearch {
    Unmapped,
    Nothing,
}

#[derive(Debug, Serialize)]
pub struct Plan {
    pub tree: String,
    pub algorithm: Algorithm,
    pub version: Option<String>,
    pub setting: Setting,
    pub launches: Launches,
    /// Totals over all files.
    pub counts: Counts,
    /// Every file that was examined, sorted by path.
    pub files: Vec<File>,
    #[serde(skip)]
    pub(crate) root: PathBuf,
    #[serde(skip)]
    pub(crate) writes: Vec<Write>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub files: u64,
    /// Results that are new files.
    pub new: u64,
    /// Files or earlier results that change.
    pub changed: u64,
    /// Files whose result exists already, or that have nothing to convert.
    pub unchanged: u64,
    /// Files that are themselves results of hipify.
    pub generated: u64,
    pub replacements: u64,
    pub launches: u64,
    /// Size of the sources in bytes.
    pub source_bytes: u64,
    /// Size in bytes of the files to write.
    pub written_bytes: u64,
}

/// One source and its result.
#[derive(Debug, Serialize)]
pub struct File {
    /// Path of the source, relative to the tree.
    pub source: String,
    /// Path of the result; `None` if the source itself is used.
    pub output: Option<String>,
    pub status: Status,
    pub replacements: BTreeMap<String, u64>,
    pub launches: u64,
    /// `true` if the header of the HIP runtime was added.
    pub header: bool,
    /// Replaced words that HIP does not support, according to the tables.
    pub unsupported: Vec<String>,
    /// Remaining names of CUDA, with lines of the source; empty unless they were searched for.
    pub unmapped: Vec<Unmapped>,
    /// Launches that were not converted, with the reason.
    pub left: Vec<Trouble>,
}

/// The planned change of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its result is a new file.
    New,
    /// The file itself, or its earlier result, changes.
    Changed,
    /// Its result exists already.
    Current,
    /// It has nothing to convert and is used unchanged.
    Untouched,
    /// It is itself a result of hipify.
    Generated,
    /// It is a link to another source that is converted.
    Linked,
}

impl Status {
    /// `true` if a file will be written.
    pub fn is_change(self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
}

/// A file to write: its path in the tree with all links resolved.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) path: PathBuf,
    /// Index of the file that it is the result of.
    pub(crate) file: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Plan {
    /// `true` if nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Prints the changes, file by file, as a unified diff between source and result.
    pub fn diff(&self, print: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
        for write in &self.writes {
            let file = &self.files[write.file];
            let source = fs_err::read(self.root.join(&file.source))?;
            let source = String::from_utf8_lossy(&source);
            let result = String::from_utf8_lossy(&write.bytes);
            let output = file.output.as_deref().unwrap_or(&file.source);
            let diff = similar::TextDiff::from_lines(&*source, &*result);
            let names = (format!("a/{}", file.source), format!("b/{output}"));
            print(&diff.unified_diff().context_radius(3).header(&names.0, &names.1).to_string())?;
        }
        Ok(())
    }
}
