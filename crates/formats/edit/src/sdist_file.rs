//! Input: a source distribution. Output: the names of its files, and the texts that an edit reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocwheel_progress::Reporter;
use rocwheel_wheel::{Error, MemberPattern, SdistMemberKind, for_each_sdist_member};

use crate::scan;

/// Limit in bytes for the texts that are kept in memory for the search of versions; later texts are
/// not searched.
const HELD: u64 = 64 << 20;
pub(crate) struct SdistFile {
    pub(crate) path: PathBuf,
    /// Size of the file in bytes.
    pub(crate) size: u64,
    /// The folder that contains everything.
    pub(crate) top: String,
    /// Paths of the files, relative to that folder.
    pub(crate) files: BTreeSet<String>,
    pub(crate) texts: BTreeMap<String, Vec<u8>>,
    /// `true` if the limit for texts was reached.
    pub(crate) is_partial: bool,
}

impl SdistFile {
    /// Reads the archive at `path`. Fails if it is not an archive, if a member's name leaves its
    /// folder or occurs twice, if there is not exactly one top folder, and if it contains devices
    /// or other types that a source distribution does not need.
    pub(crate) fn read(path: &Path, wanted: &[MemberPattern], reporter: &dyn Reporter) -> Result<SdistFile, Error> {
        let metadata = fs_err::metadata(path);
        let size = metadata.map_err(|source| Error::OpenSdist { path: path.to_owned(), source })?.len();
        let mut sdist = SdistFile {
            path: path.to_owned(),
            size,
            top: String::new(),
            files: BTreeSet::new(),
            texts: BTreeMap::new(),
            is_partial: false,
        };
        let mut seen = BTreeSet::new();
        let mut held = 0;
        for_each_sdist_member(path, reporter, |entry, content| {
            let (top, rest) = entry.path.split_once('/').unwrap_or((&entry.path, ""));
            if sdist.top.is_empty() {
                top.clone_into(&mut sdist.top);
            }
            if sdist.top != top {
                return Err(sdist.malformed(format!("it has several folders at the top: `{}`, `{top}`", sdist.top)));
            }
            // A folder may be listed more than once.
            if !seen.insert(entry.path.clone()) && entry.kind != SdistMemberKind::Directory {
                return Err(sdist.malformed(format!("two members are named `{}`", entry.path)));
            }
            let SdistMemberKind::File { size, .. } = entry.kind else { return Ok(()) };
            if rest.is_empty() {
                return Err(sdist.malformed(format!("`{top}` is a file, and should be a folder")));
            }
            sdist.files.insert(rest.to_owned());
            let is_metadata = is_metadata(rest) && size <= scan::LARGEST_REWRITTEN;
            let is_wanted = size <= scan::LARGEST_REWRITTEN && wanted.iter().any(|pattern| pattern.matches(rest));
            if !is_metadata && !is_wanted && !scan::is_candidate(rest, size) {
                return Ok(());
            }
            held += size;
            if held > HELD && !is_metadata {
                sdist.is_partial = true;
                return Ok(());
            }
            let mut bytes = Vec::with_capacity(size as usize);
            content.read_to_end(&mut bytes).map_err(|source| Error::OpenSdist { path: path.to_owned(), source })?;
            sdist.texts.insert(rest.to_owned(), bytes);
            Ok(())
        })?;
        Ok(sdist)
    }

    pub(crate) fn malformed(&self, reason: String) -> Error {
        Error::MalformedSdist { path: self.path.clone(), reason }
    }

    pub(crate) fn text(&self, file: &str) -> Result<String, Error> {
        let bytes = self.texts.get(file).ok_or_else(|| self.malformed(format!("it has no `{file}`")))?;
        String::from_utf8(bytes.clone()).map_err(|_| self.malformed(format!("`{file}` is not UTF-8")))
    }
}

/// `true` for files that describe the distribution.
fn is_metadata(path: &str) -> bool {
    path == "PKG-INFO"
        || path
            .rsplit_once(".egg-info/")
            .is_some_and(|(_, file)| matches!(file, "PKG-INFO" | "requires.txt" | "SOURCES.txt"))
}
