//! Input: one file, wheel or directory. Output: the same without the code for other targets, in the
//! staging folder, checked against the original.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_artifact::ArtifactName;
use rocwheel_content::archive_path::link_target;
use rocwheel_content::{Content, FileContent};
use rocwheel_progress::{Failure, Unit};
use rocwheel_system::symlink;
use rocwheel_wheel::WheelName;
use walkdir::WalkDir;

use super::code::{Fate, Verdict};
use super::content::Kind;
use super::destination::Place;
use super::error::{not_pruned, nothing_left, unsuitable};
use super::outcome::sorted;
use super::pruner::Pruner;
use super::record::{self, Records};
use super::wheel_file::WheelFile;
use super::{PruneAction, Pruned, PrunedFile, check};
use rocwheel_split::error::{contradiction_error, read_error};
use rocwheel_split::verify::contradiction;

/// A directory with this file is an artifact.
const ARTIFACT: &str = "artifact_manifest.txt";

pub(super) fn prune(pruner: &Pruner<'_>, path: &Path, place: &Place) -> Result<Pruned, Failure> {
    let is_directory = fs_err::metadata(path)?.is_dir();
    let result = place.staged("");
    let mut pruned = if is_directory {
        Tree::new(pruner, path, place).prune()?
    } else if WheelName::is_wheel(path) {
        let wheel = WheelFile::read(pruner, path)?;
        wheel.check_empty()?;
        wheel.write(result.as_deref(), place.is_in_place())?
    } else {
        file(pruner, path, result.as_deref(), place.is_in_place())?
    };
    path.clone_into(&mut pruned.path);
    pruned.output = place.staging().map(|_| place.output().to_owned());
    Ok(pruned)
}

/// Prunes a single file. `result` is the path to write.
fn file(pruner: &Pruner<'_>, path: &Path, result: Option<&Path>, in_place: bool) -> Result<Pruned, Failure> {
    let key = path.to_string_lossy();
    let content: Arc<dyn Content> = Arc::new(FileContent::new(path)?);
    let mut verdict = pruner.judge(&key, &content)?;
    if verdict.kind == Kind::Other {
        return Err(unsuitable(path, "it is no fat binary, offload bundle, kpack archive, wheel or directory"));
    }
    let is_foreign =
        verdict.kind == Kind::CodeObject && !verdict.kept.iter().any(|kept| pruner.options.keep.takes(kept));
    if is_foreign || matches!(verdict.fate, Fate::Goes) {
        let found = if is_foreign { &verdict.kept } else { &verdict.dropped };
        let found = sorted(found.iter().cloned()).join(", ");
        return Err(nothing_left(&key, None, &found));
    }
    let before = content.size();
    let listed = verdict.listed("", before);
    let (after, estimated) = (listed.after, listed.estimated);
    let mut pruned = Pruned { before, after, estimated, ..Pruned::default() };
    if let Some(result) = result {
        pruned.verified = write(pruner, path, &content, &mut verdict, result, in_place)?;
    }
    pruned.files.push(listed);
    Ok(pruned)
}

/// Writes a file that stays or changes, and checks the written file. Returns the number of code
/// objects that were compared.
fn write(
    pruner: &Pruner<'_>,
    path: &Path,
    content: &Arc<dyn Content>,
    verdict: &mut Verdict,
    result: &Path,
    in_place: bool,
) -> Result<u64, Failure> {
    let new = match &verdict.fate {
        Fate::Goes | Fate::WouldChange(_) => return Ok(0),
        Fate::Stays if in_place => return Ok(0),
        Fate::Stays => {
            make_parent(result)?;
            fs_err::copy(path, result)?;
            None
        }
        Fate::Changes(new) => {
            make_parent(result)?;
            let mut file = fs_err::File::create(result)?;
            let copied = io::copy(
                &mut positioned_io::Cursor::new(new.open().map_err(read_error(&path.to_string_lossy()))?),
                &mut file,
            )?;
            debug_assert_eq!(copied, new.size());
            fs_err::set_permissions(result, fs_err::metadata(path)?.permissions())?;
            Some(())
        }
    };
    // Drops the new content, so that the check reads the file on the disk.
    verdict.fate = Fate::Stays;
    let written = FileContent::new(result)?;
    let (verified, differences) = match new {
        None => (0, check::same(&**content, &written)?),
        Some(()) => check::code(&pruner.options.keep, content, &(Arc::new(written) as Arc<dyn Content>))?,
    };
    if differences.is_empty() {
        return Ok(verified);
    }
    Err(match contradiction(&**content) {
        Some(why) => contradiction_error(&path.display().to_string(), &why),
        None => not_pruned(path, &differences),
    })
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    Ok(fs_err::create_dir_all(path.parent().unwrap_or(path))?)
}

struct Tree<'a> {
    pruner: &'a Pruner<'a>,
    root: &'a Path,
    place: &'a Place,
    pruned: Pruned,
    /// Paths that the result must have.
    expected: BTreeSet<String>,
    /// Paths of removed files and directories.
    dropped: BTreeSet<String>,
    links: BTreeMap<String, PathBuf>,
    directories: Vec<String>,
    /// Paths of the RECORD files of installed distributions.
    records: Vec<String>,
}

impl<'a> Tree<'a> {
    fn new(pruner: &'a Pruner<'a>, root: &'a Path, place: &'a Place) -> Self {
        let (pruned, expected, dropped) = (Pruned::default(), BTreeSet::new(), BTreeSet::new());
        let (links, directories, records) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { pruner, root, place, pruned, expected, dropped, links, directories, records }
    }

    fn prune(mut self) -> Result<Pruned, Failure> {
        let stage = self.pruner.reporter.stage(&format!("pruning {}", self.root.display()), None, Unit::Items);
        let result = self.walk().and_then(|()| self.links()).and_then(|()| self.records());
        result.and_then(|()| self.directories())?;
        drop(stage);
        if !self.place.is_in_place() {
            self.check_paths()?;
        }
        self.pruned.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(self.pruned)
    }

    fn walk(&mut self) -> Result<(), Failure> {
        if let Some(result) = self.place.staged("") {
            fs_err::create_dir(&result)?;
        }
        let mut walk = WalkDir::new(self.root).min_depth(1).sort_by_file_name().into_iter();
        // The root itself may be an artifact for one target.
        if let Some(family) = self.foreign_artifact(self.root) {
            return Err(nothing_left(&self.root.to_string_lossy(), None, &family));
        }
        while let Some(found) = walk.next() {
            self.pruner.reporter.check()?;
            let found = found.map_err(io::Error::from)?;
            let relative = rocwheel_system::slashed(found.path().strip_prefix(self.root).unwrap_or(found.path()));
            let Some(relative) = relative.to_str().map(str::to_owned) else {
                return Err(unsuitable(found.path(), "a name in it is not UTF-8"));
            };
            let kind = found.file_type();
            if kind.is_dir() {
                if let Some(family) = self.foreign_artifact(found.path()) {
                    walk.skip_current_dir();
                    self.drop_directory(&relative, found.path(), &family)?;
                } else {
                    self.directories.push(relative);
                }
            } else if kind.is_symlink() {
                self.links.insert(relative, fs_err::read_link(found.path())?);
            } else if kind.is_file() {
                self.file(&relative, found.path())?;
            } else {
                return Err(unsuitable(found.path(), "a device, pipe or socket is in it"));
            }
            self.pruner.reporter.advance(1);
        }
        Ok(())
    }

    /// Returns the target family of an artifact directory that is for other targets only.
    fn foreign_artifact(&self, path: &Path) -> Option<String> {
        let name = ArtifactName::parse(path.file_name()?.to_str()?)?;
        let keep = &self.pruner.options.keep;
        let is_foreign = !name.is_generic() && !keep.takes_family(&name.target_family, self.pruner.table);
        (is_foreign && path.join(ARTIFACT).is_file()).then_some(name.target_family)
    }

    fn drop_directory(&mut self, relative: &str, path: &Path, family: &str) -> Result<(), Failure> {
        let mut size = 0;
        for found in WalkDir::new(path) {
            let found = found.map_err(io::Error::from)?;
            if found.file_type().is_file() {
                size += found.metadata().map_err(io::Error::from)?.len();
            }
        }
        self.pruned.before += size;
        self.dropped.insert(relative.to_owned());
        self.pruned.files.push(PrunedFile {
            path: relative.to_owned(),
            action: PruneAction::Dropped,
            before: size,
            after: 0,
            kept: Vec::new(),
            dropped: vec![family.to_owned()],
            estimated: false,
            note: Some("an artifact for other targets".to_owned()),
        });
        Ok(())
    }

    fn make_directory(&self, relative: &str) -> Result<(), Failure> {
        match self.place.staged(relative) {
            Some(path) => Ok(fs_err::create_dir_all(path)?),
            None => Ok(()),
        }
    }

    fn file(&mut self, relative: &str, path: &Path) -> Result<(), Failure> {
        let staged = self.place.staged(relative);
        let in_place = self.place.is_in_place();
        let content: Arc<dyn Content> = Arc::new(FileContent::new(path)?);
        let before = content.size();
        self.pruned.before += before;
        if WheelName::is_wheel(path) && wheel_variant(path).is_none() {
            staged.as_deref().map_or(Ok(()), make_parent)?;
            let wheel = WheelFile::read(self.pruner, path)?;
            if wheel.is_for_others() {
                self.add(wheel.dropped(relative));
                return Ok(());
            }
            wheel.check_empty()?;
            let inner = wheel.write(staged.as_deref(), in_place)?;
            self.pruned.verified += inner.verified;
            self.add(inner.as_file(relative));
            return Ok(());
        }
        if let Some(verdict) = self.archived_artifact(path).or_else(|| wheel_variant(path)) {
            if let (Fate::Stays, Some(staged), false) = (&verdict.fate, &staged, in_place) {
                make_parent(staged)?;
                fs_err::copy(path, staged)?;
            }
            self.add(verdict.listed(relative, before));
            return Ok(());
        }
        let mut verdict = self.pruner.judge(relative, &content)?;
        let listed = verdict.listed(relative, before);
        if let Some(staged) = &staged {
            self.pruned.verified += write(self.pruner, path, &content, &mut verdict, staged, in_place)?;
        }
        if verdict.kind == Kind::Other {
            self.pruned.others += 1;
            self.pruned.after += before;
            self.expected.insert(relative.to_owned());
            if record::is_record(relative) {
                self.records.push(relative.to_owned());
            }
        } else {
            self.add(listed);
        }
        Ok(())
    }

    fn add(&mut self, file: PrunedFile) {
        self.pruned.after += file.after;
        self.pruned.estimated |= file.estimated;
        let paths = if file.action == PruneAction::Dropped { &mut self.dropped } else { &mut self.expected };
        paths.insert(file.path.clone());
        self.pruned.files.push(file);
    }

    /// Decides about an archive of an artifact, which is removed or stays unchanged.
    fn archived_artifact(&self, path: &Path) -> Option<Verdict> {
        let (name, _) = ArtifactName::parse_archive(path.file_name()?.to_str()?)?;
        let mut verdict = Verdict {
            kind: Kind::Archive,
            fate: Fate::Stays,
            kept: BTreeSet::new(),
            dropped: BTreeSet::new(),
            note: None,
        };
        let keep = &self.pruner.options.keep;
        if name.is_generic() || keep.takes_family(&name.target_family, self.pruner.table) {
            verdict.note = Some("not changed: unpack the archive to prune what is in it".to_owned());
            return Some(verdict);
        }
        verdict.dropped.insert(name.target_family);
        verdict.fate = Fate::Goes;
        Some(verdict)
    }

    /// Creates the links, except those to removed files.
    fn links(&mut self) -> Result<(), Failure> {
        let mut gone: BTreeSet<String> = BTreeSet::new();
        loop {
            let found = self.links.iter().filter(|(link, _)| !gone.contains(*link)).find(|(link, target)| {
                target.to_str().and_then(|target| link_target(link, target)).is_some_and(|resolved| {
                    let above = resolved.match_indices('/').map(|(end, _)| &resolved[..end]);
                    above.chain([resolved.as_str()]).any(|path| self.dropped.contains(path) || gone.contains(path))
                })
            });
            let Some((link, _)) = found else { break };
            gone.insert(link.clone());
        }
        for (link, target) in std::mem::take(&mut self.links) {
            if gone.contains(&link) {
                self.dropped.insert(link.clone());
                self.pruned.files.push(PrunedFile {
                    path: link,
                    action: PruneAction::Dropped,
                    before: 0,
                    after: 0,
                    kept: Vec::new(),
                    dropped: Vec::new(),
                    estimated: false,
                    note: Some("a link to what was dropped".to_owned()),
                });
                continue;
            }
            self.pruned.others += 1;
            if let (Some(staged), false) = (self.place.staged(&link), self.place.is_in_place()) {
                make_parent(&staged)?;
                symlink(&target, staged)?;
            }
            self.expected.insert(link);
        }
        Ok(())
    }

    /// Corrects the RECORD files that list changed or removed files.
    fn records(&mut self) -> Result<(), Failure> {
        let records = Records { root: self.root, place: self.place, files: &self.pruned.files };
        let mut changed = Vec::new();
        for path in std::mem::take(&mut self.records) {
            changed.extend(records.mend(&path, self.pruner.reporter)?);
        }
        for file in changed {
            self.pruned.others -= 1;
            self.pruned.after -= file.before;
            self.add(file);
        }
        Ok(())
    }

    /// Creates the directories without files. A directory that pruning emptied is removed; one that
    /// was empty before stays.
    fn directories(&mut self) -> Result<(), Failure> {
        for directory in std::mem::take(&mut self.directories) {
            let start = format!("{directory}/");
            let emptied = self.dropped.iter().any(|path| path.starts_with(&start))
                && !self.expected.iter().any(|path| path.starts_with(&start));
            if !emptied {
                self.make_directory(&directory)?;
                self.expected.insert(directory);
            }
        }
        Ok(())
    }

    /// Checks that the result has the expected paths and no others.
    fn check_paths(&self) -> Result<(), Failure> {
        let Some(result) = self.place.staged("") else { return Ok(()) };
        let mut differences = Vec::new();
        let mut found = BTreeSet::new();
        for entry in WalkDir::new(&result).min_depth(1) {
            let entry = entry.map_err(io::Error::from)?;
            let relative = rocwheel_system::slashed(entry.path().strip_prefix(&result).unwrap_or(entry.path()));
            found.insert(relative.to_string_lossy().into_owned());
        }
        differences.extend(self.expected.difference(&found).map(|path| format!("`{path}` is missing")));
        differences.extend(found.difference(&self.expected).map(|path| format!("`{path}` should not be there")));
        if differences.is_empty() {
            return Ok(());
        }
        Err(not_pruned(self.root, &differences))
    }
}

/// Recognises a wheel variant, whose name has a label behind the tags (PEP 825, a draft). It stays
/// unchanged.
fn wheel_variant(path: &Path) -> Option<Verdict> {
    let name = path.file_name()?.to_str()?;
    let (wheel, _) = name.strip_suffix(".whl")?.rsplit_once('-')?;
    let is_variant = name.parse::<WheelName>().is_err() && format!("{wheel}.whl").parse::<WheelName>().is_ok();
    is_variant.then(|| Verdict {
        kind: Kind::Other,
        fate: Fate::Stays,
        kept: BTreeSet::new(),
        dropped: BTreeSet::new(),
        note: Some("not changed: a wheel variant; split the wheel again with `--targets` and `--variant`".to_owned()),
    })
}
