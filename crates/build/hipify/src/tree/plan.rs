//! Input: a request. Output: the plan: every file with its planned change, and the bytes to write.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_progress::{Exit, Failure, Interrupted, Reporter, Unit};

use super::convert::{Converted, Converter, Failed, root};
use super::includes::Includes;
use super::{Counts, Plan, Request, Status, Write, journal, select};
use crate::transform::path;
use crate::{Defects, Setting, Tables, build_amd, error};

/// Reads and converts everything without writing.
///
/// # Errors
/// A tree that a killed run has left half converted ([`super::recover`]); every source that has no
/// result; the errors of reading.
pub fn plan(request: &Request, tables: &Tables, reporter: &dyn Reporter) -> Result<Plan, Failure> {
    let root = root(&request.tree)?;
    journal::check(&root)?;
    let mut selection = request.selection.clone();
    if let Some(copy) = &request.copy {
        if root.join(&copy.source).is_file() {
            selection.extra_files.push(copy.source.clone());
        } else if request.defects == Defects::Refuse {
            return Err(missing(&copy.source, build_amd::FILE));
        }
    }
    for file in &selection.extra_files {
        if !root.join(file).is_file() && request.defects == Defects::Refuse {
            return Err(missing(file, "the list of extra files"));
        }
    }
    selection.extra_files.retain(|file| root.join(file).is_file());
    let listed = select::select(&root, &selection, (request.setting, tables.algorithm), reporter)?;
    let converter = Converter { root: root.clone(), request, tables };
    let stage = reporter.stage("converting", Some(listed.len() as u64), Unit::Items);
    let mut results = if request.setting == Setting::Extension {
        let includes = Includes::new(&converter, &listed);
        if selection.extra_files_only {
            includes.convert(&selection.extra_files.iter().map(|file| path::normal(file)).collect(), reporter)?
        } else {
            includes.convert(&listed, reporter)?
        }
    } else {
        let files: Vec<&String> = listed.iter().collect();
        files
            .into_par_iter()
            .map(|path| {
                if reporter.interrupted() {
                    return Err(Failed::Other(Interrupted.into()));
                }
                reporter.advance(1);
                converter.convert(&converter.read(path)?, &mut |_, _| None)
            })
            .collect()
    };
    results.extend(edits(&converter));
    drop(stage);
    let mut converted = sorted(results)?;
    copies(&converter, &mut converted)?;
    assemble(&converter, converted)
}

fn missing(path: &str, wanted_by: &str) -> Failure {
    Failure::message(format!("`{path}` is missing, which {wanted_by} names"))
        .with_hint("is a submodule not checked out? `--fix-defects` continues without it")
}

fn outside(path: &str) -> Failure {
    let text = format!("`{path}` is a link that leaves the tree, or is behind one: nothing is written there");
    Failure::message(text).with_hint("replace the link by what it names, or skip it with `--ignore`")
}

/// All results sorted by path, or all errors.
fn sorted(results: Vec<Result<Converted, Failed>>) -> Result<Vec<Converted>, Failure> {
    let (mut converted, mut places, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(result) => converted.push(result),
            Err(Failed::Trouble(place)) => places.push(place),
            Err(Failed::Other(error)) => others.push(error),
        }
    }
    if let Some(at) = others.iter().position(|error| error.exit() == Exit::Interrupted) {
        return Err(others.swap_remove(at));
    }
    // The order must not depend on threads.
    others.sort_by_cached_key(ToString::to_string);
    if let Some(error) = others.into_iter().next() {
        return Err(error);
    }
    if !places.is_empty() {
        places.sort_by(|one, other| (&one.path, one.trouble.line).cmp(&(&other.path, other.trouble.line)));
        return Err(error::defects(&places));
    }
    converted.sort_by(|one, other| one.file.source.cmp(&other.file.source));
    Ok(converted)
}

/// Files that PyTorch edits but does not convert in place.
fn edits(converter: &Converter<'_>) -> Vec<Result<Converted, Failed>> {
    let files = converter.request.edits.iter().flat_map(|edits| &edits.files);
    let files: std::collections::BTreeSet<&String> = files.filter(|file| converter.root.join(file).is_file()).collect();
    let edited = files.into_iter().map(|path| {
        let source = converter.read(path)?;
        let decoded = converter.decode(&source)?;
        let edited = converter.edited(path, &decoded.text).into_owned();
        let mut result = Converter::left_alone(&source, Status::Current);
        result.file.output = Some(path.clone());
        if edited != decoded.text {
            result.file.status = Status::Changed;
            result.bytes = Some(decoded.encode(edited));
        }
        Ok(result)
    });
    edited.collect()
}

/// Adds the copy of a result under its second name.
fn copies(converter: &Converter<'_>, converted: &mut Vec<Converted>) -> Result<(), Failure> {
    let Some(copy) = &converter.request.copy else { return Ok(()) };
    let made = converted.iter().find(|result| result.file.output.as_ref() == Some(&copy.from));
    let Some(made) = made else { return Ok(()) };
    let bytes = match &made.bytes {
        Some(bytes) => bytes.clone(),
        None => fs_err::read(converter.root.join(&copy.from))?,
    };
    let mut result =
        Converter::left_alone(&super::convert::Source { path: copy.from.clone(), bytes: Vec::new() }, Status::New);
    result.file.output = Some(copy.to.clone());
    match fs_err::read(converter.root.join(&copy.to)) {
        Ok(existing) if existing == bytes => result.file.status = Status::Current,
        Ok(_) => result.file.status = Status::Changed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    result.bytes = result.file.status.is_change().then_some(bytes);
    converted.push(result);
    Ok(())
}

/// Determines the paths of the results, and refuses results that would depend on the order.
fn assemble(converter: &Converter<'_>, converted: Vec<Converted>) -> Result<Plan, Failure> {
    let mut targets = Targets { root: &converter.root, folders: BTreeMap::new() };
    let mut counts = Counts::default();
    let mut files = Vec::with_capacity(converted.len());
    let mut taken: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut writes: Vec<Write> = Vec::new();
    let sources: BTreeMap<String, bool> =
        converted.iter().map(|result| (result.file.source.clone(), result.file.status == Status::Generated)).collect();
    for mut result in converted {
        let index = files.len();
        counts.files += 1;
        counts.source_bytes += result.source_bytes;
        if let (Some(bytes), Some(output)) = (result.bytes.take(), result.file.output.clone()) {
            let path = targets.of(&output)?;
            if output != result.file.source && sources.get(&output) == Some(&false) {
                let (from, to) = (&result.file.source, &output);
                let text = format!("`{from}` would become `{to}`, which is itself a source to convert");
                return Err(Failure::message(text).with_hint("skip it with `--ignore`"));
            }
            match taken.get(&path).copied() {
                // Another name of a source, or an edit of a file that is also converted.
                Some(other) if writes[other].bytes == bytes || output == result.file.source => {
                    result.file.status = Status::Linked;
                    // The result under the file's own name takes precedence.
                    if path.to_str() == Some(&output)
                        && writes[other].bytes != bytes
                        && files_differ(&files, &writes[other], &output)
                    {
                        writes[other].bytes = bytes;
                    }
                }
                Some(other) => {
                    let first: &super::File = &files[writes[other].file];
                    let (first, second) = (&first.source, &result.file.source);
                    let text = format!("`{first}` and `{second}` would both become `{output}`");
                    return Err(Failure::message(text).with_hint("skip it with `--ignore`"));
                }
                None => {
                    counts.written_bytes += bytes.len() as u64;
                    taken.insert(path.clone(), writes.len());
                    writes.push(Write { path, file: index, bytes });
                }
            }
        }
        counts.replacements += result.file.replacements.values().sum::<u64>();
        counts.launches += result.file.launches;
        match result.file.status {
            Status::New => counts.new += 1,
            Status::Changed => counts.changed += 1,
            Status::Current | Status::Untouched | Status::Linked => counts.unchanged += 1,
            Status::Generated => counts.generated += 1,
        }
        files.push(result.file);
    }
    writes.sort_by(|one, other| one.path.cmp(&other.path));
    let request = converter.request;
    Ok(Plan {
        tree: request.tree.display().to_string(),
        algorithm: converter.tables.algorithm,
        version: converter.tables.version.clone(),
        setting: request.setting,
        launches: request.launches,
        counts,
        files,
        root: converter.root.clone(),
        writes,
    })
}

/// `true` if the write belongs to a file with another name.
fn files_differ(files: &[super::File], write: &Write, name: &str) -> bool {
    files[write.file].source != name
}

/// Resolves the paths of files in the tree.
struct Targets<'a> {
    root: &'a Path,
    folders: BTreeMap<String, PathBuf>,
}

impl Targets<'_> {
    /// The path of a file relative to the root with all links resolved; an error if it is outside
    /// the root or not a file.
    fn of(&mut self, path: &str) -> Result<PathBuf, Failure> {
        let (folder, name) = path::split(path);
        if !self.folders.contains_key(folder) {
            let real = self.folder(folder).ok_or_else(|| outside(folder))?;
            self.folders.insert(folder.to_owned(), real);
        }
        let real = self.folders[folder].join(name);
        let place = self.root.join(&real);
        let is_link = match fs_err::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => return Err(error::not_a_file(path)),
            Ok(found) => found.is_symlink(),
            Err(_) => false,
        };
        if !is_link {
            return Ok(real);
        }
        let end = rocwheel_system::canonicalize(&place)?;
        end.strip_prefix(self.root).map(Path::to_owned).map_err(|_| outside(path))
    }

    /// The folder with all links resolved. The missing part of the path is appended to the existing
    /// one.
    fn folder(&self, folder: &str) -> Option<PathBuf> {
        let mut missing = Vec::new();
        let mut place = self.root.join(path::normal(folder));
        if path::normal(folder).starts_with("..") {
            return None;
        }
        while fs_err::symlink_metadata(&place).is_err() {
            missing.push(place.file_name()?.to_owned());
            place.pop();
        }
        let real = rocwheel_system::canonicalize(&place).ok()?;
        let real = real.strip_prefix(self.root).ok()?;
        Some(missing.iter().rev().fold(real.to_owned(), |path, part| path.join(part)))
    }
}
