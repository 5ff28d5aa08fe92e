//! Input: a file or a folder of lists. Output: its rows and the SHA-256 of each file.

use std::path::PathBuf;

use jiff::civil::Date;
use rocwheel_progress::Failure;
use rocwheel_tables::TargetTable;
use serde::Deserialize;

use super::{ListFile, ListKind, ListRow, PLATFORMS, TestPattern, import, specifiers, wrong_list};

/// What a run can be of; PyTorch's lists have more words ([`PLATFORMS`]).
const OWN_PLATFORMS: [&str; 4] = ["linux", "windows", "rocm", "cuda"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    test: Vec<RowText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowText {
    id: Option<String>,
    glob: Option<String>,
    expect: Option<usize>,
    kind: ListKind,
    reason: String,
    link: Option<String>,
    owner: Option<String>,
    expires: Option<toml::value::Datetime>,
    #[serde(default)]
    targets: Vec<String>,
    versions: Option<String>,
    #[serde(default)]
    platforms: Vec<String>,
}

/// Reads a list: a TOML file, a folder of TheRock's Python lists, one of these files, or PyTorch's
/// JSON of disabled or slow tests. `#sha256=…` behind a path pins the file.
///
/// `version` (`2.12`) chooses the file of a folder. Without that file, only the general one counts,
/// which `allow_missing` permits.
pub fn read_list(text: &str, version: Option<&str>, allow_missing: bool) -> Result<ListFile, Failure> {
    let (path, pin) = match text.split_once("#sha256=") {
        Some((path, pin)) => (PathBuf::from(path), Some(pin)),
        None => (PathBuf::from(text), None),
    };
    if path.is_dir() {
        return import::therock_folder(&path, version, allow_missing);
    }
    let mut list = ListFile::default();
    let bytes = list.read_file(&path, pin)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong_list(&path, "it is not UTF-8"))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    list.rows = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => rows_of_toml(text, &name).map_err(|reason| wrong_list(&path, &reason))?,
        Some("json") => import::rows_of_json(text, &name).map_err(|reason| wrong_list(&path, &reason))?,
        Some("py") => import::rows_of_python(text, &name).map_err(|reason| wrong_list(&path, &reason))?,
        _ => return Err(wrong_list(&path, "its name ends neither in .toml nor in .json nor in .py")),
    };
    Ok(list)
}

/// Reads several lists as one, by [`read_list`].
pub fn read_lists(texts: &[String], version: Option<&str>, allow_missing: bool) -> Result<ListFile, Failure> {
    let mut all = ListFile::default();
    for text in texts {
        let list = read_list(text, version, allow_missing)?;
        all.rows.extend(list.rows);
        all.digests.extend(list.digests);
    }
    Ok(all)
}

fn rows_of_toml(text: &str, name: &str) -> Result<Vec<ListRow>, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
    document
        .test
        .into_iter()
        .enumerate()
        .map(|(index, row)| finish(row, format!("{name}, row {}", index + 1)))
        .collect()
}

fn finish(row: RowText, place: String) -> Result<ListRow, String> {
    let named = row.id.as_deref().or(row.glob.as_deref()).unwrap_or("a row");
    let pattern = match (&row.id, &row.glob) {
        (Some(id), None) if !id.is_empty() && row.expect.is_none() => TestPattern::Id(id.clone()),
        (None, Some(glob)) if !glob.is_empty() && row.expect.is_some() => {
            TestPattern::Glob { glob: glob.clone(), expect: row.expect }
        }
        (None, Some(glob)) => {
            return Err(format!("{place}: `{glob}` needs `expect`, the number of tests that it fits"));
        }
        _ => return Err(format!("{place}: a row has either `id`, or `glob` and `expect`")),
    };
    if row.reason.trim().is_empty() {
        return Err(format!("{place}: `{named}` has no reason"));
    }
    if row.kind != ListKind::Skip && (row.expires.is_none() || row.owner.is_none()) {
        return Err(format!("{place}: `{named}` needs `owner` and `expires`, since a known failure has to end"));
    }
    let table = TargetTable::embedded();
    if let Some(target) = row.targets.iter().find(|target| table.members(target).is_empty()) {
        return Err(format!("{place}: `{target}` is neither a GPU target nor a family, so the row would never count"));
    }
    let is_known =
        |platform: &&String| OWN_PLATFORMS.contains(&platform.as_str()) || PLATFORMS.contains(&platform.as_str());
    if let Some(platform) = row.platforms.iter().find(|platform| !is_known(platform)) {
        let known = OWN_PLATFORMS.join(", ");
        return Err(format!("{place}: `{platform}` is no platform ({known}), so the row would never count"));
    }
    let expires = row.expires.map(|day| day.to_string().parse::<Date>()).transpose();
    let versions = row.versions.as_deref().map(|text| specifiers(text).map_err(|error| format!("{place}: {error}")));
    Ok(ListRow {
        pattern,
        kind: row.kind,
        reason: row.reason,
        link: row.link,
        owner: row.owner,
        expires: expires.map_err(|_| format!("{place}: `expires` is a day: 2027-01-31"))?,
        targets: row.targets,
        versions: versions.transpose()?,
        platforms: row.platforms,
        place,
    })
}
