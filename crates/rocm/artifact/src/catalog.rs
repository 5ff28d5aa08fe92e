//! Input: a directory of artifacts, as directories and archives. Output: the [`Catalog`] of all
//! artifacts with their files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_progress::{Failure, Reporter, Unit};
use serde::Serialize;

use crate::archive::{self, Compression, Scratch};
use crate::component::Component;
use crate::entry::{ArtifactEntry, EntryKind};
use crate::error::{self, Error};
use crate::location::{ArtifactForm, ArtifactLocation, locate};
use crate::name::{self, ArtifactName};
use crate::scan::{self, MANIFEST};

#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The artifacts, sorted by name.
    pub artifacts: Vec<Artifact>,
    /// The other entries of the directory, sorted by path.
    pub ignored: Vec<Ignored>,
}

#[derive(Debug, Clone)]
pub struct Artifact {
    pub name: ArtifactName,
    /// The directory that holds the basedirs: the artifact itself, or the directory its archive is
    /// unpacked into.
    pub root: PathBuf,
    /// Directory or archive.
    pub form: ArtifactForm,
    /// Relative to the root, separated by `/`, in the manifest's order. Some may not exist on disk.
    pub basedirs: Vec<String>,
    /// All files, links and directories below the basedirs, sorted by basedir and path.
    pub entries: Vec<ArtifactEntry>,
}

/// A directory entry that is not read as an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ignored {
    pub path: PathBuf,
    /// The reason why it is not read, for messages.
    pub reason: String,
    /// `true` if it is named like an artifact but is not read as one; commands warn about it.
    #[serde(skip)]
    pub looks_like_artifact: bool,
}

impl Ignored {
    pub fn warning(&self) -> Option<String> {
        self.looks_like_artifact
            .then(|| format!("`{}` is named like an artifact, but is not read: {}", self.path.display(), self.reason))
    }
}

/// A path of the flattened tree that is provided more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collision {
    pub path: String,
    /// The artifacts and basedirs that provide it: two or more, in catalog order.
    pub owners: Vec<PathOwner>,
}

/// An artifact and basedir that provide a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathOwner {
    pub artifact: ArtifactName,
    pub basedir: String,
    pub file: PathBuf,
}

impl std::fmt::Display for PathOwner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}` (basedir `{}`)", self.artifact, self.basedir)
    }
}

/// The contents of a directory of artifacts, judged by name only.
#[derive(Debug, Default)]
pub struct ArtifactSurvey {
    /// The artifacts, sorted by name.
    pub places: Vec<(ArtifactName, ArtifactLocation)>,
    /// The other entries, sorted by path.
    pub ignored: Vec<Ignored>,
    /// The paths of names that were meant as artifacts, archives that exist twice and links that
    /// lead nowhere, each with its problem.
    pub problems: Vec<(PathBuf, Failure)>,
}

/// Returns the directory that holds `path`, as a user would type it.
fn above(path: &Path) -> PathBuf {
    match (path.file_name(), path.parent()) {
        (None, _) => path.join(".."),
        (Some(_), Some(parent)) if !parent.as_os_str().is_empty() => parent.to_owned(),
        (Some(_), _) => PathBuf::from("."),
    }
}

/// Sorts the entries of a directory into artifacts and everything else, without opening any of
/// them. A link counts as its target, because caches and content-addressed stores lay artifacts out
/// as links. Links inside artifacts are contents and are not followed.
pub fn survey(directory: &Path) -> Result<ArtifactSurvey, Error> {
    let mut survey = ArtifactSurvey::default();
    let mut paths: Vec<PathBuf> = Vec::new();
    let listing = fs_err::read_dir(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => error::not_there(directory).into(),
        io::ErrorKind::NotADirectory => error::no_directory(directory).into(),
        _ => Error::Io(error),
    })?;
    if directory.join(MANIFEST).is_file() {
        let text = format!("`{}` is an artifact, not a directory that holds artifacts", directory.display());
        let hint = format!("give the directory above: `{}`", above(directory).display());
        return Err(Failure::message(text).with_hint(hint).into());
    }
    for found in listing {
        paths.push(found?.path());
    }
    paths.sort();
    let mut found: BTreeMap<ArtifactName, Vec<ArtifactLocation>> = BTreeMap::new();
    for path in paths {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match classify(&path, &file_name) {
            Class::Artifact(name, place) => found.entry(name).or_default().push(place),
            Class::Ignored(reason) => {
                let looks_like_artifact = name::is_meant_as_artifact(&file_name);
                survey.ignored.push(Ignored { path, reason: reason.to_owned(), looks_like_artifact });
            }
            Class::Malformed(name) => {
                let problem = error::malformed_name(&name, &path);
                survey.problems.push((path, problem));
            }
            Class::Dangling(source) => {
                let text =
                    format!("`{}` is named like an artifact, but is a link that cannot be followed", path.display());
                let problem = Failure::from(source).context(text);
                survey.problems.push((path, problem.with_hint("fetch what the link leads to, or remove the link")));
            }
        }
    }
    for (name, mut places) in found {
        // Directories sort before archives, and TheRock's build leaves both side by side.
        let used = places.remove(0);
        for place in places {
            if matches!(used, ArtifactLocation::Directory(_)) {
                let reason = "the directory of the same name is used".to_owned();
                let path = place.path().to_owned();
                survey.ignored.push(Ignored { path, reason, looks_like_artifact: false });
            } else {
                let problem = error::given_twice(&name, used.path(), place.path());
                survey.problems.push((place.path().to_owned(), problem));
            }
        }
        survey.places.push((name, used));
    }
    survey.ignored.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(survey)
}

/// Reads the artifacts at `places`; the results are in the same order. Archives are hashed and
/// unpacked first, on all threads.
pub(crate) fn read_places(
    places: &[(ArtifactName, ArtifactLocation)],
    scratch: &Scratch,
    reporter: &dyn Reporter,
) -> Vec<Result<Artifact, Error>> {
    let roots = archive::provide(places, scratch, reporter);
    let _stage = reporter.stage("Reading artifacts", Some(places.len() as u64), Unit::Items);
    let read = places.par_iter().zip(roots).map(|((name, _), root)| {
        let (root, form) = root?;
        let artifact = Artifact::read(name.clone(), root, form, reporter);
        reporter.advance(1);
        artifact
    });
    read.collect()
}

enum Class {
    Artifact(ArtifactName, ArtifactLocation),
    Ignored(&'static str),
    Malformed(String),
    /// A link with an artifact's name that cannot be followed.
    Dangling(io::Error),
}

fn classify(path: &Path, file_name: &str) -> Class {
    // Not fs_err's: the message about a link names the path already.
    let file_type = match path.metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(source) if name::is_meant_as_artifact(file_name) => return Class::Dangling(source),
        Err(_) => return Class::Ignored("a link that cannot be followed"),
    };
    if file_type.is_dir() {
        let has_manifest = fs_err::symlink_metadata(path.join(MANIFEST)).is_ok();
        return match ArtifactName::parse(file_name) {
            // Without a manifest, only a known component makes the directory an artifact, a broken
            // one.
            Some(name) if has_manifest || name.known_component().is_some() => {
                Class::Artifact(name, ArtifactLocation::Directory(path.to_owned()))
            }
            None if has_manifest => Class::Malformed(file_name.to_owned()),
            _ => Class::Ignored("a directory that is no artifact"),
        };
    }
    if !file_type.is_file() {
        return Class::Ignored("neither a directory nor a file");
    }
    if let Some((name, compression)) = ArtifactName::parse_archive(file_name) {
        return Class::Artifact(name, ArtifactLocation::Archive(path.to_owned(), compression));
    }
    match (Compression::split(file_name), Path::new(file_name).extension().and_then(|end| end.to_str())) {
        (Some((stem, _)), _) if name::looks_like_artifact(stem) => Class::Malformed(stem.to_owned()),
        (_, Some("sha256sum")) => Class::Ignored("the sidecar of an archive"),
        (_, Some("fprint")) => Class::Ignored("a build fingerprint"),
        _ => Class::Ignored("a file that is no artifact archive"),
    }
}

impl Catalog {
    /// Archives are checked against their sidecars and unpacked below `scratch`, once for each
    /// digest: a later run reuses the unpacked files. The result does not depend on the directory
    /// order, and the directory itself is only read.
    ///
    /// # Errors
    /// The first defect in name order: a name that was meant as an artifact, a missing or wrong
    /// manifest, a damaged archive, a link out of the tree. An artifact of an unknown component is
    /// only a warning.
    pub fn open(directory: &Path, scratch: &Path, reporter: &dyn Reporter) -> Result<Self, Error> {
        Self::open_over(directory, &Scratch::new(scratch), reporter)
    }

    /// [`Catalog::open`], with what other runs unpacked: files that did not change are not written
    /// again.
    pub fn open_over(directory: &Path, scratch: &Scratch, reporter: &dyn Reporter) -> Result<Self, Error> {
        let survey = survey(directory)?;
        if let Some((_, problem)) = survey.problems.into_iter().next() {
            return Err(problem.into());
        }
        if survey.places.is_empty() {
            return Err(error::no_artifacts(directory).into());
        }
        let artifacts = read_places(&survey.places, scratch, reporter).into_iter().collect::<Result<_, _>>()?;
        let catalog = Self { artifacts, ignored: survey.ignored };
        for warning in catalog.ignored.iter().filter_map(Ignored::warning) {
            reporter.warn(&warning);
        }
        for artifact in catalog.artifacts.iter().filter(|artifact| artifact.name.known_component().is_none()) {
            let known = Component::CHAIN.map(Component::name).join(", ");
            let component = &artifact.name.component;
            reporter.warn(&format!(
                "artifact `{}` has the unknown component `{component}` (known: {known})",
                artifact.name
            ));
        }
        Ok(catalog)
    }

    /// Reads the artifacts at `paths`, directories and archives; archives are unpacked as by
    /// [`Catalog::open`].
    pub fn read(paths: &[PathBuf], scratch: &Path, reporter: &dyn Reporter) -> Result<Self, Error> {
        let places = locate(paths)?;
        let artifacts = read_places(&places, &Scratch::new(scratch), reporter).into_iter().collect::<Result<_, _>>()?;
        Ok(Self { artifacts, ignored: Vec::new() })
    }

    /// Looks an artifact up by the three fields of its name.
    pub fn get(&self, name: &str, component: &str, target_family: &str) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| {
            let found = &artifact.name;
            (found.name.as_str(), found.component.as_str(), found.target_family.as_str())
                == (name, component, target_family)
        })
    }

    /// Every path of the flattened tree that is provided more than once, sorted. Directories may be
    /// shared; a file or link at the path of any other entry is a collision. Contents are not
    /// compared.
    pub fn collisions(&self) -> Vec<Collision> {
        let mut all: Vec<(&str, usize, usize)> = Vec::new();
        for (artifact_index, artifact) in self.artifacts.iter().enumerate() {
            let entries = artifact.entries.iter().enumerate();
            all.extend(entries.map(|(index, entry)| (entry.path.as_str(), artifact_index, index)));
        }
        all.sort_unstable();
        let mut collisions = Vec::new();
        for group in all.chunk_by(|left, right| left.0 == right.0).filter(|group| group.len() > 1) {
            let artifacts = group.iter().map(|(_, artifact, entry)| (&self.artifacts[*artifact], *entry));
            if artifacts.clone().all(|(artifact, entry)| artifact.entries[entry].kind == EntryKind::Directory) {
                continue;
            }
            let owners = artifacts.map(|(artifact, entry)| artifact.owner(&artifact.entries[entry])).collect();
            collisions.push(Collision { path: group[0].0.to_owned(), owners });
        }
        collisions
    }
}

impl Artifact {
    /// The name of the directory is not checked against `name`.
    pub fn open(name: ArtifactName, directory: &Path, reporter: &dyn Reporter) -> Result<Self, Error> {
        Self::read(name, directory.to_owned(), ArtifactForm::Directory, reporter)
    }

    pub(crate) fn read(
        name: ArtifactName,
        root: PathBuf,
        form: ArtifactForm,
        reporter: &dyn Reporter,
    ) -> Result<Self, Error> {
        let shown = match &form {
            ArtifactForm::Directory => &root,
            ArtifactForm::Archive { path, .. } => path,
        };
        let scan = scan::scan(&root, &name, shown, reporter)?.strict()?;
        Ok(Self { name, root, form, basedirs: scan.basedirs, entries: scan.entries })
    }

    pub fn path(&self, entry: &ArtifactEntry) -> PathBuf {
        self.root.join(&self.basedirs[entry.basedir]).join(&entry.path)
    }

    pub fn basedir_path(&self, basedir: usize) -> PathBuf {
        self.root.join(&self.basedirs[basedir])
    }

    pub fn owner(&self, entry: &ArtifactEntry) -> PathOwner {
        let basedir = self.basedirs[entry.basedir].clone();
        PathOwner { artifact: self.name.clone(), basedir, file: self.path(entry) }
    }

    /// Paths in the flattened tree.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    /// Number of files and links, and total size of the files in bytes.
    pub fn size(&self) -> (u64, u64) {
        let (mut files, mut bytes) = (0, 0);
        for entry in &self.entries {
            match entry.kind {
                EntryKind::File { size, .. } => (files, bytes) = (files + 1, bytes + size),
                EntryKind::Symlink { .. } => files += 1,
                EntryKind::Directory => {}
            }
        }
        (files, bytes)
    }
}
