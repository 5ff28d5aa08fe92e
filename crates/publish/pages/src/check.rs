//! Input: the address of an index. Output: what installers would stumble over, page by page and
//! file by file.
//!
//! Every project is read as pip and uv read it, once asking for JSON and once for HTML. Each file
//! is asked for by HEAD, and its METADATA is compared with the page. [`CheckOptions::files`] reads
//! the files themselves.

mod file;
mod installers;
mod page;
mod siblings;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use rocwheel_index::{Fetch, address_without_user};
use rocwheel_progress::{Reporter, Unit};
use serde::Serialize;
use url::Url;

use crate::error::Error;
use siblings::FoundReleases;

#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Read every file, and compare its hash with the page. Without, its size and METADATA are.
    pub files: bool,
    /// Check these projects only, by their canonical names; none: all.
    pub projects: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultLevel {
    /// An installation fails, or takes something else.
    Error,
    /// Something works less well than it could.
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct IndexFault {
    pub level: FaultLevel,
    pub at: String,
    /// The fault and its consequence for installers, as one sentence.
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Files are missing that no page lists, or damaged: pages that are made again do not mend it.
    #[serde(skip)]
    pub needs_files: bool,
}

impl IndexFault {
    fn new(level: FaultLevel, at: &Url, text: impl Into<String>) -> IndexFault {
        let at = address_without_user(at).to_string();
        IndexFault { level, at, text: text.into(), hint: None, needs_files: false }
    }

    fn error(at: &Url, text: impl Into<String>) -> IndexFault {
        IndexFault::new(FaultLevel::Error, at, text)
    }

    fn warning(at: &Url, text: impl Into<String>) -> IndexFault {
        IndexFault::new(FaultLevel::Warning, at, text)
    }

    fn hint(self, hint: &str) -> IndexFault {
        IndexFault { hint: Some(hint.to_owned()), ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedIndex {
    pub address: String,
    pub projects: usize,
    pub files: usize,
    /// All faults, errors first.
    pub faults: Vec<IndexFault>,
}

impl CheckedIndex {
    /// `true` when an installation can fail.
    pub fn has_errors(&self) -> bool {
        self.faults.iter().any(|fault| fault.level == FaultLevel::Error)
    }

    /// `true` when pages that are made again mend at least one error.
    pub fn is_mended_by_pages(&self) -> bool {
        self.faults.iter().any(|fault| fault.level == FaultLevel::Error && !fault.needs_files)
    }
}

/// A name that no index has. It is valid, so a server has no other reason to refuse it.
const NOBODY: &str = "rocwheel-asks-for-a-project-that-does-not-exist";

/// A fault of the index is not an error, unless its first page cannot be read ([`Error::Check`]).
pub fn check(
    fetch: &dyn Fetch,
    root: &Url,
    options: &CheckOptions,
    reporter: &dyn Reporter,
) -> Result<CheckedIndex, Error> {
    let site = Site { fetch, options, reporter, found: FoundReleases::default() };
    let mut faults = Vec::new();
    let names = site.root(root, &mut faults)?;
    site.missing(root, &mut faults);
    let names: Vec<&String> =
        names.iter().filter(|name| options.projects.is_empty() || options.projects.contains(*name)).collect();
    for wanted in options.projects.iter().filter(|wanted| !names.contains(wanted)) {
        faults.push(IndexFault::error(root, format!("the first page does not name `{wanted}`")));
    }
    reporter.begin("Checking projects", Some(names.len() as u64), Unit::Items);
    let (all, files) = (Mutex::new(faults), AtomicUsize::new(0));
    let checked = names.par_iter().try_for_each(|name| -> Result<(), Error> {
        reporter.check()?;
        let mut faults = Vec::new();
        files.fetch_add(site.project(root, name, &mut faults)?, Ordering::Relaxed);
        all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut faults);
        reporter.advance(1);
        Ok(())
    });
    reporter.end();
    checked?;
    let mut faults = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if options.projects.is_empty() {
        faults.extend(site.found.missing_siblings());
    }
    faults.sort();
    faults.dedup();
    Ok(CheckedIndex { address: root.to_string(), projects: names.len(), files: files.into_inner(), faults })
}

struct Site<'a> {
    fetch: &'a dyn Fetch,
    options: &'a CheckOptions,
    reporter: &'a dyn Reporter,
    found: FoundReleases,
}
