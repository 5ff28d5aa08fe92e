//! Input: a path. Output: the reports in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rocwheel_content::open_regular;

use crate::model::{ReportForm, ReportProblem};
use crate::{ReportError, tap};

/// The file of a run of ours.
pub(crate) const EVENTS: &str = "events.jsonl";
/// Folders below a named one.
const DEEPEST: usize = 24;

/// A file that should be a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportSource {
    pub(crate) path: PathBuf,
    pub(crate) form: ReportForm,
    /// The user named this file, so that another kind of file is an error.
    pub(crate) is_named: bool,
    /// The shard that the name of a folder says.
    pub(crate) shard: Option<NamedShard>,
    /// The suite of a report that names none: the name of the file, with its folder if files in
    /// several folders have the name.
    pub(crate) program: String,
}

impl ReportSource {
    fn new(path: PathBuf, form: ReportForm, is_named: bool, shard: Option<NamedShard>) -> ReportSource {
        let program = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        ReportSource { path, form, is_named, shard, program }
    }

    /// The folder of the file, under one name however it was reached.
    pub(crate) fn folder(&self) -> PathBuf {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs_err::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
    }
}

/// What `test-reports-CONFIG-SHARD-SHARDS` says, as TheRock's workflows name their artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedShard {
    pub(crate) suite: String,
    pub(crate) shard: u32,
    pub(crate) shards: u32,
}

impl NamedShard {
    fn of(folder: &Path) -> Option<NamedShard> {
        let rest = folder.file_name()?.to_str()?.strip_prefix("test-reports-")?;
        let (rest, shards) = rest.rsplit_once('-')?;
        let (suite, shard) = rest.rsplit_once('-')?;
        let (shard, shards) = (shard.parse().ok()?, shards.parse().ok()?);
        (1..=shards).contains(&shard).then(|| NamedShard { suite: suite.to_owned(), shard, shards })
    }
}

/// Reports, and what is wrong with the folders that they are in.
#[derive(Debug, Default)]
pub(crate) struct FoundReports {
    pub(crate) sources: Vec<ReportSource>,
    pub(crate) problems: Vec<ReportProblem>,
}

impl FoundReports {
    /// Adds the reports of a file or folder. A folder with events is one run: other reports in it
    /// are of the same tests.
    pub(crate) fn search(&mut self, path: &Path) -> Result<(), ReportError> {
        let Ok(metadata) = fs_err::metadata(path) else {
            return Err(ReportError::Missing { path: path.to_owned() });
        };
        if metadata.is_file() {
            let form = form_of(path).unwrap_or_else(|| form_of_content(path));
            self.sources.push(ReportSource::new(path.to_owned(), form, true, None));
            let log = log_of_meson(path).map(|log| ReportSource::new(log, ReportForm::Json, true, None));
            self.sources.extend(log);
            return Ok(());
        }
        let before = self.sources.len();
        let mut search = FolderSearch { found: self, links: Vec::new(), seen: BTreeSet::new() };
        search.walk(path, None, 0);
        // A folder is read under its own name, if that is in the search too: it may name a shard.
        while let Some((link, shard, depth)) = search.links.pop() {
            search.walk(&link, shard.as_ref(), depth);
        }
        if self.sources.len() == before {
            self.lost(path, format!("`{}` has no reports", path.display()));
        }
        Ok(())
    }

    /// Something because of which results are missing.
    pub(crate) fn lost(&mut self, path: &Path, message: String) {
        self.problems.push(ReportProblem::losing(Some(path), message));
    }

    /// Adds the folder to the names of programs whose reports have one name in several folders: two
    /// programs that both write `results.xml` are not one suite.
    pub(crate) fn name_programs(&mut self) {
        let mut folders: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
        for source in self.sources.iter().filter(|source| source.form != ReportForm::Events) {
            folders.entry(source.program.clone()).or_default().insert(source.folder());
        }
        for source in self.sources.iter_mut().filter(|source| source.form != ReportForm::Events) {
            let Some(folders) = folders.get(&source.program).filter(|folders| folders.len() > 1) else { continue };
            let folder = source.folder();
            let common = folders.iter().fold(folder.as_path(), |common, other| {
                common.ancestors().find(|ancestor| other.starts_with(ancestor)).unwrap_or(Path::new(""))
            });
            let rest = folder.strip_prefix(common).unwrap_or(&folder);
            source.program = rocwheel_system::slashed(&rest.join(&source.program)).to_string_lossy().into_owned();
        }
    }
}

/// A search for reports in a folder.
struct FolderSearch<'a> {
    found: &'a mut FoundReports,
    /// Links to folders, which are searched at the end.
    links: Vec<(PathBuf, Option<NamedShard>, usize)>,
    /// Folders that were searched: links may lead back.
    seen: BTreeSet<PathBuf>,
}

impl FolderSearch<'_> {
    fn walk(&mut self, folder: &Path, shard: Option<&NamedShard>, depth: usize) {
        let entries = match fs_err::canonicalize(folder).and_then(|real| Ok((real, fs_err::read_dir(folder)?))) {
            Ok((real, _)) if !self.seen.insert(real.clone()) => return,
            Ok(_) if depth >= DEEPEST => {
                return self.found.lost(folder, format!("`{}` is too deep to be read", folder.display()));
            }
            Ok((_, entries)) => entries,
            Err(error) => return self.found.lost(folder, error.to_string()),
        };
        let own = NamedShard::of(folder);
        let shard = own.as_ref().or(shard);
        let events = folder.join(EVENTS);
        if events.is_file() {
            return self.found.sources.push(ReportSource::new(events, ReportForm::Events, true, None));
        }
        let mut paths = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => paths.push(entry.path()),
                Err(error) => self.found.lost(folder, error.to_string()),
            }
        }
        paths.sort();
        for path in paths {
            let (is_folder, is_link) = (path.is_dir(), path.is_symlink());
            if is_folder && is_link {
                self.links.push((path, shard.cloned(), depth + 1));
            } else if is_folder {
                self.walk(&path, shard, depth + 1);
            } else if let Some(form) = form_of(&path) {
                // A link into nothing is a report that is lost, and no reason to look away.
                self.found.sources.push(ReportSource::new(path, form, form == ReportForm::Events, shard.cloned()));
            } else if is_link && !path.exists() {
                self.found.lost(&path, format!("`{}` is a link to nothing that exists", path.display()));
            }
        }
    }
}

fn form_of(path: &Path) -> Option<ReportForm> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "jsonl" if path.file_name()? == EVENTS => Some(ReportForm::Events),
        "xml" | "trx" => Some(ReportForm::Junit),
        "json" | "jsonl" | "ndjson" => Some(ReportForm::Json),
        "tap" => Some(ReportForm::Tap),
        _ => None,
    }
}

/// The form of a file whose name does not say it.
fn form_of_content(path: &Path) -> ReportForm {
    let mut bytes = Vec::new();
    if let Ok(file) = open_regular(path) {
        // A file that cannot be read is an error when it is read as a whole.
        let _ = file.take(4096).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    match text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).chars().next() {
        Some('{' | '[') => ReportForm::Json,
        _ if text.starts_with("TAP version") || tap::is_tap(&text) => ReportForm::Tap,
        _ => ReportForm::Junit,
    }
}

/// Meson's `testlog.json` beside its `testlog.junit.xml`, which does not say everything.
fn log_of_meson(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(".junit.xml").filter(|name| name.starts_with("testlog"))?;
    Some(path.with_file_name(format!("{name}.json"))).filter(|log| log.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_name_in_several_folders_are_several_programs() {
        let folder = tempfile::tempdir().unwrap();
        let sources: Vec<ReportSource> = ["a/one/results.xml", "a/two/results.json", "a/two/other.xml"]
            .map(|name| {
                let path = folder.path().join(name);
                fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                ReportSource::new(path, ReportForm::Junit, false, None)
            })
            .into();
        let mut found = FoundReports { sources, problems: Vec::new() };
        found.name_programs();
        let names: Vec<&str> = found.sources.iter().map(|source| source.program.as_str()).collect();
        assert_eq!(names, ["one/results", "two/results", "other"]);
    }
}
