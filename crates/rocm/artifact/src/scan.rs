//! Input: one artifact directory. Output: its basedirs and entries, and everything that is wrong
//! with it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;

use rocwheel_output::storage_hint;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_system::FileMetadata as _;
use walkdir::WalkDir;

use crate::entry::{ArtifactEntry, EntryKind};
use crate::error::{Error, not_unicode};
use crate::input::read_small;
use crate::links::{self, Links};
use crate::name::ArtifactName;

/// The file in the root of an artifact that lists its basedirs.
pub const MANIFEST: &str = "artifact_manifest.txt";

/// The contents of an artifact directory.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The basedirs in the order of the manifest, including those that do not exist.
    pub(crate) basedirs: Vec<String>,
    /// Sorted by basedir, then by path.
    pub(crate) entries: Vec<ArtifactEntry>,
    /// Defects. A strict caller returns the first as its error, a lenient one lists them all.
    pub(crate) problems: Vec<Error>,
}

impl Scan {
    /// Fails with the first problem.
    pub(crate) fn strict(mut self) -> Result<Self, Error> {
        if self.problems.is_empty() { Ok(self) } else { Err(self.problems.swap_remove(0)) }
    }
}

/// Reads the lines of an `artifact_manifest.txt`: blank lines are ignored, repeated ones count
/// once. `shown` is the artifact's directory or archive, for messages.
pub(crate) fn parse_manifest(text: &str, shown: &Path) -> (Vec<String>, Vec<Error>) {
    let mut basedirs: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    let mut problems = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let basedir = line.trim_end_matches('/');
        if !is_plain_path(basedir) {
            problems.push(bad_manifest(shown, &format!("`{line}`, which is not a plain relative path")));
        } else if seen.insert(basedir) {
            basedirs.push(basedir.to_owned());
        }
    }
    let mut sorted: Vec<&String> = basedirs.iter().collect();
    sorted.sort_by_key(|basedir| basedir.split('/').collect::<Vec<_>>());
    for pair in sorted.windows(2) {
        if is_inside(pair[1], pair[0]) {
            let (outer, inner) = (pair[0], pair[1]);
            problems.push(bad_manifest(shown, &format!("`{inner}` inside `{outer}`, so its files have two places")));
        }
    }
    (basedirs, problems)
}

/// Lines of `artifact_manifest.txt` that cannot be basedirs. `lists` is the end of the sentence.
fn bad_manifest(shown: &Path, lists: &str) -> Error {
    Failure::message(format!("artifact_manifest.txt of `{}` lists {lists}", shown.display()))
        .with_hint("correct artifact_manifest.txt: one relative directory per line, none inside another")
        .into()
}

/// `true` if a path is relative and consists of names only: no empty part, no `.` and no `..`.
pub(crate) fn is_plain_path(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn is_inside(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// Splits a path relative to an artifact into the index of its basedir and the path below it.
pub(crate) struct Basedirs<'a> {
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Basedirs<'a> {
    pub(crate) fn new(basedirs: &'a [String]) -> Self {
        Self { by_name: basedirs.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect() }
    }

    /// Returns `None` if no basedir holds the path; a basedir is not inside itself.
    pub(crate) fn split<'p>(&self, path: &'p str) -> Option<(usize, &'p str)> {
        let cuts = path.match_indices('/').map(|(at, _)| at);
        cuts.into_iter().find_map(|at| Some((*self.by_name.get(&path[..at])?, &path[at + 1..])))
    }
}

/// Reads the artifact directory `root`. `shown` is its name in messages: the directory itself or
/// its archive. The result does not depend on the directory order, and symbolic links are not
/// followed.
/// Defects that do not stop the scan are in [`Scan::problems`].
pub(crate) fn scan(root: &Path, name: &ArtifactName, shown: &Path, reporter: &dyn Reporter) -> Result<Scan, Error> {
    let text = match read_small(&root.join(MANIFEST)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("artifact `{name}` at `{}` has no artifact_manifest.txt", shown.display());
            let hint = "write one basedir per line into it, for example `stage`, or move the directory away if it is no \
                        artifact";
            return Err(Failure::message(text).with_hint(hint).into());
        }
        Err(error) => return Err(error.into()),
    };
    let (basedirs, problems) = parse_manifest(&text, shown);
    let mut scan = Scan { basedirs, entries: Vec::new(), problems };
    let mut outside: Vec<String> = Vec::new();
    let lookup = Basedirs::new(&scan.basedirs);
    for found in WalkDir::new(root).min_depth(1).follow_links(false) {
        reporter.check()?;
        let found = found.map_err(walk_error(root))?;
        let relative = rocwheel_system::slashed(found.path().strip_prefix(root).unwrap_or(found.path()));
        let Some(relative) = relative.to_str() else {
            scan.problems.push(not_unicode(&shown.join(relative)).into());
            continue;
        };
        if relative == MANIFEST {
            continue;
        }
        let kind = match kind_of(&found)? {
            Ok(kind) => kind,
            Err(what) => {
                scan.problems.push(unsupported_file(&shown.join(relative), what));
                continue;
            }
        };
        match lookup.split(relative) {
            Some((basedir, path)) => scan.entries.push(ArtifactEntry { basedir, path: path.to_owned(), kind }),
            None if kind == EntryKind::Directory => {}
            None => outside.push(relative.to_owned()),
        }
    }
    scan.entries.sort_by(|left, right| (left.basedir, &left.path).cmp(&(right.basedir, &right.path)));
    outside.sort();
    if let Some(first) = outside.first() {
        let (count, path) = (outside.len(), shown.display());
        let failure = Failure::message(format!(
            "artifact `{name}` at `{path}` has files that artifact_manifest.txt does not cover: {count}, first `{first}`"
        ))
        .with_hint("add their basedir to artifact_manifest.txt, or remove the files");
        scan.problems.push(Error::Member { member: first.clone(), failure });
    }
    let leaving = leaving_links(&scan.basedirs, &scan.entries, shown);
    scan.problems.extend(leaving);
    Ok(scan)
}

/// One error for each link that leaves the tree of its basedir. `entries` are sorted.
pub(crate) fn leaving_links(basedirs: &[String], entries: &[ArtifactEntry], shown: &Path) -> Vec<Error> {
    let mut by_basedir: BTreeMap<usize, Links> = BTreeMap::new();
    for entry in entries {
        if let EntryKind::Symlink { target } = &entry.kind {
            by_basedir.entry(entry.basedir).or_default().insert(&entry.path, target);
        }
    }
    let mut problems = Vec::new();
    for (basedir, links) in &by_basedir {
        for (path, target) in links {
            if links::leaves_tree(path, target, links) {
                problems.push(link_leaves_tree(shown, format!("{}/{path}", basedirs[*basedir]), target));
            }
        }
    }
    problems
}

/// A symbolic link that leaves the tree its basedir makes. `link` is relative to the artifact.
pub(crate) fn link_leaves_tree(path: &Path, link: String, target: &str) -> Error {
    let path = path.display();
    let failure = Failure::message(format!("the link `{link}` in `{path}` points to `{target}`, out of the tree"))
        .with_hint("make the link relative to a file of the same artifact, or remove it");
    Error::Member { member: link, failure }
}

pub(crate) fn walk_error(root: &Path) -> impl FnOnce(walkdir::Error) -> Error {
    move |error| {
        let text = format!("could not read `{}`", error.path().unwrap_or(root).display());
        let source = error.into_io_error().unwrap_or_else(|| io::Error::other("links in a circle"));
        let hint = storage_hint(&source);
        let failure = Failure::from(source).context(text);
        match hint {
            Some(hint) => failure.with_hint(hint).into(),
            None => failure.into(),
        }
    }
}

/// A file that is neither a regular file, a directory nor a symbolic link. `what` is its type: a
/// device, a socket, …
pub(crate) fn unsupported_file(path: &Path, what: &str) -> Error {
    let path = path.display();
    Failure::message(format!("`{path}` is a {what}; artifacts hold files, directories and symbolic links")).into()
}

/// The inner error is a word for the type if artifacts cannot contain it.
pub(crate) fn kind_of(found: &walkdir::DirEntry) -> Result<Result<EntryKind, &'static str>, Error> {
    let file_type = found.file_type();
    if file_type.is_dir() {
        return Ok(Ok(EntryKind::Directory));
    }
    if file_type.is_symlink() {
        let target = fs_err::read_link(found.path())?;
        let Some(target) = target.to_str() else {
            return Ok(Err("link whose text is not UTF-8"));
        };
        return Ok(Ok(EntryKind::Symlink { target: target.to_owned() }));
    }
    if file_type.is_file() {
        let metadata = fs_err::symlink_metadata(found.path())?;
        let executable = metadata.is_executable(found.path());
        return Ok(Ok(EntryKind::File { size: metadata.len(), executable }));
    }
    Ok(Err(rocwheel_system::special_kind(file_type)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests() {
        let shown = Path::new("x");
        let (basedirs, problems) = parse_manifest("\n", shown);
        assert!(basedirs.is_empty() && problems.is_empty());
        let (basedirs, problems) = parse_manifest("b/stage\r\n\na/stage/\nb/stage\n", shown);
        assert_eq!(basedirs, ["b/stage", "a/stage"]);
        assert!(problems.is_empty());
        for line in ["/abs", "..", "a/../b", "a//b", ".", "./a", "a/."] {
            let (basedirs, problems) = parse_manifest(line, shown);
            assert!(
                basedirs.is_empty() && problems[0].to_string().ends_with("which is not a plain relative path"),
                "{line}"
            );
        }
        let (_, problems) = parse_manifest("a\na-b\na/b\n", shown);
        assert!(problems[0].to_string().contains("`a/b` inside `a`"), "{}", problems[0]);
    }

    #[test]
    fn paths_split_at_their_basedir() {
        let basedirs = ["a/stage".to_owned(), "b".to_owned()];
        let lookup = Basedirs::new(&basedirs);
        assert_eq!(lookup.split("a/stage/lib/x"), Some((0, "lib/x")));
        assert_eq!(lookup.split("b/x"), Some((1, "x")));
        assert_eq!(lookup.split("a/stage"), None);
        assert_eq!(lookup.split("a/stages/x"), None);
        assert_eq!(lookup.split("c/b/x"), None);
    }
}
