//! Input: a published set, and the files and statements of a run that publishes it again. Output:
//! the set in the stream as the last snapshot says; METADATA, statements and pages that were
//! missing or damaged are written again.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_content::archive_path::parent;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_pages::chooser;
use rocwheel_progress::{Reporter, counted, few_in_backticks};
use rocwheel_store::{put, with_threads};

use super::chooser_page::StreamView;
use super::pages::Pages;
use super::sets::ReleaseSet;
use super::verify::{PageKind, beside, first_pages, project_pages, small_problem};
use super::{CHOOSER, Stream, StreamFault, set_key, statement_key};
use crate::error::Error;

/// Keys that a warning names.
const SHOWN: usize = 5;

/// The parts of a published set that a run can write again.
pub struct SetParts<'a> {
    /// Keys of its files.
    pub files: BTreeSet<&'a str>,
    /// The bytes of METADATA, statements and the like, by key.
    pub small: BTreeMap<String, &'a [u8]>,
}

impl Stream<'_> {
    /// Writes again what is missing or damaged of a set that the stream lists, with a warning. The
    /// caller holds the lock. The answer is the keys.
    ///
    /// # Errors
    /// [`StreamFault::Refused`] for what is missing or damaged and not among `parts`; all else is
    /// written before. [`StreamFault::Raced`]; what cannot be read or written.
    pub fn repair(
        &self,
        set: &ReleaseSet,
        parts: &SetParts<'_>,
        reporter: &dyn Reporter,
    ) -> Result<Vec<String>, Error> {
        let (mut repaired, problems) = self.repair_small(set, parts, reporter)?;
        repaired.extend(self.repair_pages(parts, reporter)?);
        let key = set_key(&set.name);
        if put(self.store, true, &key, &set.bytes())?.is_some() {
            repaired.push(key);
        }
        if !repaired.is_empty() {
            let (files, were) =
                (counted(repaired.len() as u64, "file"), if repaired.len() == 1 { "was" } else { "were" });
            let shown = few_in_backticks(&repaired, SHOWN);
            reporter.warn(&format!("repaired {files} of `{}` that {were} missing or damaged: {shown}", set.name));
        }
        if problems.is_empty() {
            return Ok(repaired);
        }
        Err(StreamFault::Refused {
            what: format!("`{}` is published already, and parts of it are missing or damaged", set.name),
            problems,
            hint: "restore these files from a copy of the stream; `rocwheel release verify` lists all problems"
                .to_owned(),
        }
        .into())
    }

    /// Compares what the snapshot names beside files, and the statements of the set. The answer is
    /// the keys of what was written, and the problems of what no part of the run is.
    fn repair_small(
        &self,
        set: &ReleaseSet,
        parts: &SetParts<'_>,
        reporter: &dyn Reporter,
    ) -> Result<(Vec<String>, Vec<String>), Error> {
        let rows = parts.files.iter().filter_map(|key| Some((*key, self.manifest.files.get(*key)?)));
        let mut expected: BTreeMap<String, &str> = rows.flat_map(|(key, row)| beside(key, row)).collect();
        expected.extend(set.statements.iter().map(|digest| (statement_key(digest), digest.as_str())));
        let compared = expected.par_iter().map(|(key, digest)| {
            reporter.check()?;
            let Some(problem) = small_problem(self.store, key, digest)? else { return Ok(None) };
            let own = parts.small.get(key).filter(|bytes| hexadecimal(&sha256(bytes)) == **digest);
            let Some(bytes) = own else { return Ok(Some(Err(problem))) };
            self.store.write(key, bytes)?;
            Ok(Some(Ok(key.clone())))
        });
        let compared = with_threads(self.store, || compared.collect::<Result<Vec<_>, Error>>())?;
        let (mut repaired, mut problems) = (Vec::new(), Vec::new());
        for one in compared.into_iter().flatten() {
            match one {
                Ok(key) => repaired.push(key),
                Err(problem) => problems.push(problem),
            }
        }
        Ok((repaired, problems))
    }

    /// Compares the pages of the projects, and the first page.
    fn repair_pages(&self, parts: &SetParts<'_>, reporter: &dyn Reporter) -> Result<Vec<String>, Error> {
        let (manifest, views) = (&self.manifest, StreamView::all(&self.manifest));
        let projects: BTreeSet<&str> = parts.files.iter().map(|key| parent(key)).collect();
        let written = projects.par_iter().map(|name| {
            reporter.check()?;
            self.put_damaged(PageKind::Project, project_pages(manifest, &views, name))
        });
        let written = with_threads(self.store, || written.collect::<Result<Vec<_>, _>>())?;
        let mut written: Vec<String> = written.into_iter().flatten().collect();
        let chooser = self.store.read(CHOOSER)?.is_some().then_some(chooser::FILE);
        written.extend(self.put_damaged(PageKind::First, first_pages(manifest, &views, chooser))?);
        Ok(written)
    }

    /// Writes the pages of folders in which one is missing or lists something else. All pages of a
    /// folder have the number of the same publication.
    fn put_damaged(&self, kind: PageKind, folders: Vec<Pages>) -> Result<Vec<String>, Error> {
        let mut written = Vec::new();
        for pages in folders {
            let mut is_damaged = false;
            for page in &pages {
                is_damaged |= kind.problem(self.store, page)?.is_some();
            }
            for (key, bytes) in pages.into_iter().filter(|_| is_damaged) {
                let before = self.store.read(&key)?;
                if before.as_deref() == Some(&bytes) {
                    continue;
                }
                if !self.store.compare_and_swap(&key, before.as_deref(), &bytes)? {
                    return Err(StreamFault::Raced { store: self.store.name() }.into());
                }
                written.push(key);
            }
        }
        Ok(written)
    }
}
