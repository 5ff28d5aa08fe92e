//! Input: a path. Output: the reports in it.

use std::path::{Path, PathBuf};

use super::ReportError;
use super::merge::Merger;
use super::model::ReportForm;

/// The file of a run of ours.
pub(super) const EVENTS: &str = "events.jsonl";
/// Folders below a named one.
const DEEPEST: usize = 24;

/// A file that should be a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportSource {
    pub(super) path: PathBuf,
    pub(super) form: ReportForm,
    /// The user named this file, so that another kind of file is an error.
    pub(super) is_named: bool,
    /// The shard that the name of a folder says.
    pub(super) shard: Option<NamedShard>,
}

/// What `test-reports-CONFIG-SHARD-SHARDS` says, as TheRock's workflows name their artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedShard {
    pub(super) suite: String,
    pub(super) shard: u32,
    pub(super) shards: u32,
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

/// The reports of a file or folder. A folder with events is one run: other reports in it are of the
/// same tests.
pub(super) fn find(path: &Path, merger: &mut Merger) -> Result<Vec<ReportSource>, ReportError> {
    let Ok(metadata) = fs_err::metadata(path) else {
        return Err(ReportError::Missing { path: path.to_owned() });
    };
    if metadata.is_file() {
        let form = form_of(path).unwrap_or(ReportForm::Junit);
        return Ok(vec![ReportSource { path: path.to_owned(), form, is_named: true, shard: None }]);
    }
    let mut sources = Vec::new();
    walk(path, None, 0, &mut sources, merger);
    if sources.is_empty() {
        merger.lost(Some(path), format!("`{}` has no reports", path.display()));
    }
    Ok(sources)
}

fn walk(folder: &Path, shard: Option<&NamedShard>, depth: usize, sources: &mut Vec<ReportSource>, merger: &mut Merger) {
    let own = NamedShard::of(folder);
    let shard = own.as_ref().or(shard);
    let events = folder.join(EVENTS);
    if events.is_file() {
        sources.push(ReportSource { path: events, form: ReportForm::Events, is_named: true, shard: None });
        return;
    }
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) if depth < DEEPEST => entries,
        Ok(_) => return merger.lost(Some(folder), format!("`{}` is too deep to be read", folder.display())),
        Err(error) => return merger.lost(Some(folder), error.to_string()),
    };
    let mut paths = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.push(entry.path()),
            Err(error) => merger.lost(Some(folder), error.to_string()),
        }
    }
    paths.sort();
    for path in paths {
        let is_link = path.is_symlink();
        if path.is_dir() && !is_link {
            walk(&path, shard, depth + 1, sources, merger);
        } else if let Some(form) = form_of(&path) {
            // A link into nothing is a report that is lost, and no reason to look away.
            sources.push(ReportSource { path, form, is_named: form == ReportForm::Events, shard: shard.cloned() });
        }
    }
}

fn form_of(path: &Path) -> Option<ReportForm> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "jsonl" => Some(ReportForm::Events),
        "xml" => Some(ReportForm::Junit),
        "json" => Some(ReportForm::Gtest),
        _ => None,
    }
}
