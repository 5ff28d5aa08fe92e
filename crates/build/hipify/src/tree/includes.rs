//! Extension mode: finds which files include which, and determines their new names.
//!
//! A file whose text does not change keeps its name, and whether it changes also depends on the
//! files it includes. So files are converted in rounds, included ones first. The files that then
//! remain include each other in a cycle, and the original gives all of these new names.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_progress::{Failure, Reporter};

use super::Status;
use super::convert::{Converted, Converter, Failed, Source};
use crate::Setting;
use crate::transform::{IncludeForm, path};

/// A listed file with its source and the listed files that it includes.
struct Node {
    source: Source,
    includes: BTreeSet<String>,
}

/// The file that an include refers to.
struct Found {
    path: String,
    /// The folder in which it was found, absolute.
    folder: String,
}

pub(super) struct Includes<'a> {
    converter: &'a Converter<'a>,
    listed: &'a BTreeSet<String>,
    root: String,
    /// The names of the listed files, reversed and sorted, for searches by ending.
    backwards: Vec<String>,
}

impl<'a> Includes<'a> {
    pub(super) fn new(converter: &'a Converter<'a>, listed: &'a BTreeSet<String>) -> Self {
        let names: BTreeSet<String> = listed.iter().map(|path| path::split(path).1.chars().rev().collect()).collect();
        let root = converter.root.to_string_lossy().into_owned();
        Self { converter, listed, root, backwards: names.into_iter().collect() }
    }

    /// Converts the files at `begin` and all listed files that they include, directly or not.
    pub(super) fn convert(
        &self,
        begin: &BTreeSet<String>,
        reporter: &dyn Reporter,
    ) -> Result<Vec<Result<Converted, Failed>>, Failure> {
        let mut results = Vec::new();
        let mut nodes = self.nodes(begin, &mut results, reporter)?;
        // `true` if the result is another file. A file that could not be read counts as unchanged.
        let mut moved: BTreeMap<String, bool> = BTreeMap::new();
        loop {
            reporter.check()?;
            let ready =
                |node: &Node| node.includes.iter().all(|path| moved.contains_key(path) || !nodes.contains_key(path));
            let mut round: Vec<String> =
                nodes.iter().filter(|(_, node)| ready(node)).map(|(path, _)| path.clone()).collect();
            if round.is_empty() {
                // The remaining files include each other in a cycle.
                moved.extend(nodes.keys().map(|path| (path.clone(), true)));
                round.extend(nodes.keys().cloned());
            }
            if round.is_empty() {
                break;
            }
            let round: Vec<(String, Source)> =
                round.into_iter().filter_map(|path| nodes.remove(&path).map(|node| (path, node.source))).collect();
            let converted: Vec<(String, Result<Converted, Failed>)> = round
                .into_par_iter()
                .map(|(path, source)| {
                    reporter.advance(1);
                    let result =
                        self.converter.convert(&source, &mut |form, name| self.resolve(&path, form, name, &moved));
                    (path, result)
                })
                .collect();
            for (path, result) in converted {
                let is_moved = result.as_ref().is_ok_and(|result| result.file.output.is_some());
                moved.insert(path, is_moved);
                results.push(result);
            }
        }
        Ok(results)
    }

    /// Reads the files at `begin`, then the files they include, and so on.
    fn nodes(
        &self,
        begin: &BTreeSet<String>,
        results: &mut Vec<Result<Converted, Failed>>,
        reporter: &dyn Reporter,
    ) -> Result<BTreeMap<String, Node>, Failure> {
        let mut nodes = BTreeMap::new();
        let mut seen = begin.clone();
        let mut wanted: Vec<String> = begin.iter().cloned().collect();
        while !wanted.is_empty() {
            reporter.check()?;
            let read: Vec<Result<Node, Failed>> = wanted.par_iter().map(|path| self.node(path)).collect();
            wanted.clear();
            for node in read {
                match node {
                    Ok(node) if Converter::is_generated(&node.source) => {
                        results.push(Ok(Converter::left_alone(&node.source, Status::Generated)));
                    }
                    Ok(node) => {
                        wanted.extend(node.includes.iter().filter(|path| seen.insert((*path).clone())).cloned());
                        nodes.insert(node.source.path.clone(), node);
                    }
                    Err(failed) => results.push(Err(failed)),
                }
            }
        }
        Ok(nodes)
    }

    fn node(&self, path: &str) -> Result<Node, Failed> {
        let source = self.converter.read(path)?;
        let mut includes = BTreeSet::new();
        if !Converter::is_generated(&source) {
            let decoded = self.converter.decode(&source)?;
            let edited = self.converter.edited(path, &decoded.text);
            let conversion = self.converter.conversion();
            let worded = conversion.words(path, &edited);
            conversion.includes(worded.text, &mut |form, name| {
                let found = self.find(path, form, name)?;
                includes.extend(self.listed_path(&found.path).map(str::to_owned));
                None
            });
        }
        Ok(Node { source, includes })
    }

    /// The path within the tree, if it is one of the files to convert.
    fn listed_path<'p>(&self, absolute: &'p str) -> Option<&'p str> {
        let path = absolute.strip_prefix(&self.root)?.strip_prefix('/')?;
        self.listed.contains(path).then_some(path)
    }

    /// The file that an include of the file at `path` refers to: in its own folder first (not for
    /// `<…>`), else in the last include folder that contains it.
    fn find(&self, path: &str, form: IncludeForm, name: &str) -> Option<Found> {
        let last: String = path::split(name).1.chars().rev().collect();
        let from = self.backwards.partition_point(|known| *known < last);
        if !self.backwards.get(from).is_some_and(|known| known.starts_with(&last)) {
            return None;
        }
        let own = Some(path::split(path).0).filter(|_| form != IncludeForm::Angle);
        let others = self.converter.request.selection.header_folders.iter().rev().map(String::as_str);
        own.into_iter().chain(others).find_map(|folder| {
            let folder = path::join(&self.root, folder);
            let path = path::normal(&path::join(&folder, name));
            self.converter.root.join(&path).exists().then_some(Found { path, folder })
        })
    }

    /// The new text of an include of the file at `path`.
    fn resolve(&self, path: &str, form: IncludeForm, name: &str, moved: &BTreeMap<String, bool>) -> Option<String> {
        let found = self.find(path, form, name)?;
        let target = match self.listed_path(&found.path) {
            Some(listed) if moved.get(listed) == Some(&true) => {
                path::join(&self.root, &path::hip_path(listed, Setting::Extension))
            }
            _ => found.path,
        };
        Some(path::relative(&target, &found.folder))
    }
}
