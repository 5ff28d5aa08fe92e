//! Input: a tree of sources and what is wanted of it. Output: a plan that can be printed, and the
//! converted tree.
//!
//! Everything is read and converted before anything is written; the results, as large as the
//! changed files, are kept in memory until then.

mod convert;
mod includes;
mod journal;
#[cfg(test)]
mod killed;
mod plan;
mod select;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use journal::{Recovered, recover};
pub use plan::plan;
pub use select::Selection;
pub use write::{Done, Place};

use crate::build_amd::{BuildAmd, Copy, Edits};
use crate::{Algorithm, Defects, Launches, Setting, Trouble, Unmapped};

/// What is wanted of a tree.
#[derive(Debug, Clone)]
pub struct Request {
    /// The tree.
    pub tree: PathBuf,
    /// For whom it is converted.
    pub setting: Setting,
    /// What becomes of kernel launches.
    pub launches: Launches,
    /// What to do where the original gives no result.
    pub defects: Defects,
    /// Which files.
    pub selection: Selection,
    /// Replacements before everything else.
    pub edits: Vec<Edits>,
    /// A result that gets a second name.
    pub copy: Option<Copy>,
    /// Whether to look for CUDA names that are left, which costs time.
    pub survey: Survey,
}

impl Request {
    /// PyTorch as its own `build_amd.py` converts it. `compiler`: what becomes of launches where
    /// the script asks the machine.
    pub fn pytorch(tree: &Path, settings: BuildAmd, compiler: Launches) -> Self {
        let BuildAmd { includes, ignores, extra_files, edits, launches, copy } = settings;
        let selection = Selection { includes, ignores, extra_files, ..Selection::default() };
        let launches = launches.unwrap_or(compiler);
        Self { setting: Setting::Pytorch, launches, selection, edits, copy, ..Self::extension(tree) }
    }

    /// A tree as `torch.utils.cpp_extension` converts it, all of it.
    pub fn extension(tree: &Path) -> Self {
        Self {
            tree: tree.to_owned(),
            setting: Setting::Extension,
            launches: Launches::Convert,
            defects: Defects::Refuse,
            selection: Selection { includes: vec!["*".to_owned()], ..Selection::default() },
            edits: Vec::new(),
            copy: None,
            survey: Survey::Nothing,
        }
    }
}

/// Whether the results are searched for names of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survey {
    /// They are.
    Unmapped,
    /// They are not.
    Nothing,
}

/// What is to be written, and what was found.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The tree.
    pub tree: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Version of the tables.
    pub version: Option<String>,
    /// For whom it is converted.
    pub setting: Setting,
    /// What becomes of kernel launches.
    pub launches: Launches,
    /// How many files have which status.
    pub counts: Counts,
    /// Every file that was looked at, sorted by path.
    pub files: Vec<File>,
    #[serde(skip)]
    pub(crate) root: PathBuf,
    #[serde(skip)]
    pub(crate) writes: Vec<Write>,
}

/// Numbers of files, and of what was replaced in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Files that were looked at.
    pub files: u64,
    /// Results that are new.
    pub new: u64,
    /// Files that change.
    pub changed: u64,
    /// Files whose result is there already, or that have nothing to convert.
    pub unchanged: u64,
    /// Files that are results themselves.
    pub generated: u64,
    /// Words that were replaced.
    pub replacements: u64,
    /// Kernel launches that were converted.
    pub launches: u64,
    /// Bytes of the sources.
    pub source_bytes: u64,
    /// Bytes that are to be written.
    pub written_bytes: u64,
}

/// One source and its result.
#[derive(Debug, Serialize)]
pub struct File {
    /// Path of the source, relative to the tree.
    pub source: String,
    /// Path of the result; `None` when the source itself is used.
    pub output: Option<String>,
    /// What becomes of it.
    pub status: Status,
    /// How often each word was replaced.
    pub replacements: BTreeMap<String, u64>,
    /// Kernel launches that were converted.
    pub launches: u64,
    /// Whether the header of the HIP runtime was added.
    pub header: bool,
    /// Replaced words that HIP does not support, by the tables.
    pub unsupported: Vec<String>,
    /// Names of CUDA that are left, with lines of the source; empty unless they were looked for.
    pub unmapped: Vec<Unmapped>,
    /// Launches that were left, with the reason.
    pub left: Vec<Trouble>,
}

/// What becomes of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its result is a new file.
    New,
    /// The file itself, or its earlier result, changes.
    Changed,
    /// Its result is there already.
    Current,
    /// It has nothing to convert and is used as it is.
    Untouched,
    /// It is a result of hipify itself.
    Generated,
    /// It is a link to another source, which is converted.
    Linked,
}

impl Status {
    /// Whether something is to be written.
    pub fn is_change(self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
}

/// A file to write: its place in the tree with all links followed.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) path: PathBuf,
    /// Index of the file that it is the result of.
    pub(crate) file: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Plan {
    /// Whether anything would be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// What would be different, file by file, as a unified diff between source and result.
    pub fn diff(&self, print: &mut dyn FnMut(&str) -> Result<(), crate::Error>) -> Result<(), crate::Error> {
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
