//! Input: the folder of a patch set. Output: its patches, by repository and stage.

use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;
use serde::{Deserialize, Serialize};

/// Options of `git am`. Three-way merging leaves conflict markers in files to which a patch does
/// not apply, and is otherwise the same.
const AM_OPTIONS: [&str; 4] = ["--3way", "--whitespace=nowarn", "--committer-date-is-author-date", "--no-gpg-sign"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PatchGroup {
    pub stage: Stage,
    /// Path of the submodule; empty for the checkout itself.
    pub repository: String,
    /// Paths of the patches, in the order in which they are applied: by name.
    pub files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Base,
    Hipified,
}

impl Stage {
    pub fn folder(self) -> &'static str {
        match self {
            Stage::Base => "base",
            Stage::Hipified => "hipified",
        }
    }
}

/// Patch set of projects that torch pins, and of all others that are named by their commit.
pub(crate) const PINNED_SET: &str = "rocm-custom";

/// Names of the patch sets in the folder of a project, including names with a `/`.
/// A folder that does not exist has no sets.
pub fn sets(folder: &Path) -> Result<Vec<String>, Failure> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    // `<set>/<repository>`, where both may have several parts. A set ends where the project's own
    // folder begins. A set that has patches only for submodules lacks that folder; its name is then
    // the first part.
    let own = format!("/{}", folder.file_name().unwrap_or_default().to_string_lossy());
    let parents: Vec<String> = groups(folder, folder)?.into_iter().map(|(parent, ..)| parent).collect();
    let mut found: Vec<String> =
        parents.iter().filter_map(|parent| parent.strip_suffix(&own)).map(str::to_owned).collect();
    for parent in &parents {
        if !found.iter().any(|set| parent.strip_prefix(set.as_str()).is_some_and(|rest| rest.starts_with('/'))) {
            found.extend(parent.split('/').next().map(str::to_owned));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The patches of a set: first those for the checkout itself, then by path of the submodule. `own`
/// is the folder of the checkout's patches.
pub fn read(set: &Path, own: &str) -> Result<Vec<PatchGroup>, Failure> {
    let mut found: Vec<PatchGroup> = Vec::new();
    for (parent, stage, files) in groups(set, set)? {
        let repository = if parent == own { String::new() } else { parent };
        found.push(PatchGroup { stage, repository, files });
    }
    found.sort_by(|left, right| (left.stage, &left.repository).cmp(&(right.stage, &right.repository)));
    Ok(found)
}

/// All folders with patches below `folder`: the path of the repository relative to `root`, the
/// stage and the patches.
fn groups(root: &Path, folder: &Path) -> Result<Vec<(String, Stage, Vec<PathBuf>)>, Failure> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let stage =
            [Stage::Base, Stage::Hipified].into_iter().find(|stage| path.file_name() == Some(stage.folder().as_ref()));
        let files = patch_files(&path)?;
        match stage {
            Some(stage) if !files.is_empty() => {
                let parent = rocwheel_system::slashed(folder.strip_prefix(root).unwrap_or(folder));
                let parent = parent.to_string_lossy().into_owned();
                found.push((parent, stage, files));
            }
            _ => found.extend(groups(root, &path)?),
        }
    }
    Ok(found)
}

pub(crate) fn patch_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Options of `git am` for some patches. By default it removes every carriage return at the end of
/// a line, which changes files with CRLF. Carriage returns were added on the way only if the lines
/// of the mail header end in CRLF too.
pub(crate) fn am_options(files: &[PathBuf]) -> Vec<&'static str> {
    let have_line_feeds = files.iter().all(|file| fs_err::read(file).is_ok_and(|text| !ends_in_crlf(&text)));
    AM_OPTIONS.into_iter().chain(have_line_feeds.then_some("--keep-cr")).collect()
}

fn ends_in_crlf(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r"))
}

/// The set of a source archive: its name without the packing suffix.
pub(crate) fn set_of_archive(name: &str) -> String {
    name.split_once(".tar").map_or(name, |(stem, _)| stem).to_owned()
}
