//! Input: a directory of artifacts, exploded and in archives. Output: the [`Catalog`]: every
//! artifact with its files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_report::{Reporter, Unit};
use serde::Serialize;

use crate::archive::{self, Compression};
use crate::component::Component;
use crate::error::Error;
use crate::name::{self, ArtifactName};
use crate::scan::{self, MANIFEST};
use rocwheel_rocm::target;

/// The artifacts of one build.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Sorted by name.
    pub artifacts: Vec<Artifact>,
    /// What else lies in the directory, sorted by path.
    pub ignored: Vec<Ignored>,
}

/// One artifact.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Its name.
    pub name: ArtifactName,
    /// The directory that holds the basedirs: the artifact itself, or the place its archive is
    /// unpacked at.
    pub root: PathBuf,
    /// Where it comes from.
    pub form: Form,
    /// Relative to the root, with `/`, in the manifest's order. Some may not exist on disk.
    pub basedirs: Vec<String>,
    /// Everything below the basedirs, sorted by basedir and path.
    pub entries: Vec<Entry>,
}

/// How an artifact is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// As a directory.
    Directory,
    /// As an archive.
    Archive {
        /// The archive.
        path: PathBuf,
        /// Its SHA-256 digest in lower-case hexadecimal.
        digest: String,
    },
}

/// One file, directory or symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Index into [`Artifact::basedirs`].
    pub basedir: usize,
    /// Relative to the basedir, with `/`: its place in the flattened tree.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// In bytes.
        size: u64,
        /// Whether anyone may execute it.
        executable: bool,
    },
    /// A directory; its contents are entries of their own.
    Directory,
    /// A symbolic link, not followed.
    Symlink {
        /// The text of the link.
        target: String,
    },
}

/// A directory entry that is not read as an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// Where it lies.
    pub path: PathBuf,
    /// Why it is not read.
    pub reason: String,
    /// `true` if it is named like an artifact and is not read as one; commands warn about it.
    #[serde(skip)]
    pub looks_like_artifact: bool,
}

impl Ignored {
    /// The warning about an entry that its owner most likely meant as an artifact.
    pub fn warning(&self) -> Option<String> {
        self.looks_like_artifact
            .then(|| format!("`{}` is named like an artifact, but is not read: {}", self.path.display(), self.reason))
    }
}

/// One path of the flattened tree that several places provide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collision {
    /// The path in the flattened tree.
    pub path: String,
    /// Who provides it: two or more, in catalog order.
    pub owners: Vec<Owner>,
}

/// Who provides a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// The artifact.
    pub artifact: ArtifactName,
    /// The basedir in it.
    pub basedir: String,
    /// Where the file lies on disk.
    pub file: PathBuf,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}` (basedir `{}`)", self.artifact, self.basedir)
    }
}

/// One artifact of a directory before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A directory, or a link to one.
    Directory(PathBuf),
    /// An archive, or a link to one.
    Archive(PathBuf, Compression),
}

impl Place {
    /// Where it lies; a link is not resolved, as its name is the artifact's.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Archive(path, _) => path,
        }
    }
}

/// What a directory of artifacts holds, by name only.
#[derive(Debug, Default)]
pub struct Survey {
    /// The artifacts, sorted by name.
    pub places: Vec<(ArtifactName, Place)>,
    /// The other entries, sorted by path.
    pub ignored: Vec<Ignored>,
    /// Names that were meant as artifacts, archives that exist twice and links that lead nowhere.
    pub problems: Vec<Error>,
}

/// Sorts the entries of a directory into artifacts and everything else, without opening any of
/// them. A link counts as what it leads to: caches and content-addressed stores lay artifacts out
/// as links. Links inside of artifacts are their contents.
///
/// # Errors
/// A directory that does not exist, cannot be read, or is an artifact itself.
pub fn survey(directory: &Path) -> Result<Survey, Error> {
    let mut survey = Survey::default();
    let mut paths: Vec<PathBuf> = Vec::new();
    let listing = fs_err::read_dir(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NotThere { path: directory.to_owned() },
        io::ErrorKind::NotADirectory => Error::NoDirectory { path: directory.to_owned() },
        _ => Error::Io(error),
    })?;
    if directory.join(MANIFEST).is_file() {
        return Err(Error::IsAnArtifact { path: directory.to_owned() });
    }
    for found in listing {
        paths.push(found?.path());
    }
    paths.sort();
    let mut found: BTreeMap<ArtifactName, Vec<Place>> = BTreeMap::new();
    for path in paths {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match classify(&path, &file_name) {
            Class::Artifact(name, place) => found.entry(name).or_default().push(place),
            Class::Ignored(reason) => {
                let looks_like_artifact = name::is_meant_as_artifact(&file_name);
                survey.ignored.push(Ignored { path, reason: reason.to_owned(), looks_like_artifact });
            }
            Class::Malformed(name) => survey.problems.push(Error::MalformedName { name, path }),
            Class::Dangling(source) => survey.problems.push(Error::DanglingArtifact { path, source }),
        }
    }
    for (name, mut places) in found {
        // Directories sort before archives, and TheRock's build leaves both side by side.
        let used = places.remove(0);
        for place in places {
            if matches!(used, Place::Directory(_)) {
                let reason = "the directory of the same name is used".to_owned();
                let path = place.path().to_owned();
                survey.ignored.push(Ignored { path, reason, looks_like_artifact: false });
            } else {
                survey.problems.push(Error::DuplicateArtifact {
                    artifact: name.to_string(),
                    first: used.path().to_owned(),
                    second: place.path().to_owned(),
                });
            }
        }
        survey.places.push((name, used));
    }
    survey.ignored.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(survey)
}

/// Reads every place; the results are in the same order. Archives are hashed and unpacked first, on
/// all threads.
pub(crate) fn read_places(
    places: &[(ArtifactName, Place)],
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Vec<Result<Artifact, Error>> {
    let roots = archive::provide(places, scratch, reporter);
    reporter.begin("Reading artifacts", Some(places.len() as u64), Unit::Items);
    let read = places.par_iter().zip(roots).map(|((name, _), root)| {
        let (root, form) = root?;
        let artifact = Artifact::read(name.clone(), root, form, reporter);
        reporter.advance(1);
        artifact
    });
    let artifacts = read.collect();
    reporter.end();
    artifacts
}

enum Class {
    Artifact(ArtifactName, Place),
    Ignored(&'static str),
    Malformed(String),
    /// A link with an artifact's name that cannot be followed.
    Dangling(io::Error),
}

fn classify(path: &Path, file_name: &str) -> Class {
    let file_type = match rustix::fs::stat(path) {
        Ok(status) => rustix::fs::FileType::from_raw_mode(status.st_mode),
        Err(source) if name::is_meant_as_artifact(file_name) => return Class::Dangling(source.into()),
        Err(_) => return Class::Ignored("a link that cannot be followed"),
    };
    if file_type.is_dir() {
        let has_manifest = fs_err::symlink_metadata(path.join(MANIFEST)).is_ok();
        return match ArtifactName::parse(file_name) {
            // Without a manifest only a known component makes it an artifact, and then a broken
            // one.
            Some(name) if has_manifest || name.known_component().is_some() => {
                Class::Artifact(name, Place::Directory(path.to_owned()))
            }
            None if has_manifest => Class::Malformed(file_name.to_owned()),
            _ => Class::Ignored("a directory that is no artifact"),
        };
    }
    if !file_type.is_file() {
        return Class::Ignored("neither a directory nor a file");
    }
    if let Some((name, compression)) = ArtifactName::parse_archive(file_name) {
        return Class::Artifact(name, Place::Archive(path.to_owned(), compression));
    }
    match (Compression::split(file_name), Path::new(file_name).extension().and_then(|end| end.to_str())) {
        (Some((stem, _)), _) if name::looks_like_artifact(stem) => Class::Malformed(stem.to_owned()),
        (_, Some("sha256sum")) => Class::Ignored("the sidecar of an archive"),
        (_, Some("fprint")) => Class::Ignored("a build fingerprint"),
        _ => Class::Ignored("a file that is no artifact archive"),
    }
}

impl Catalog {
    /// Reads a directory of artifacts. Archives are checked against their sidecars and unpacked
    /// below `scratch`, once for each digest: a later run with the same archive finds it there.
    /// Nothing depends on directory order, and the directory itself is only read.
    ///
    /// # Errors
    /// The first defect in name order: a name that was meant as an artifact, a missing or lying
    /// manifest, a damaged archive, a link out of the tree. An artifact of an unknown component is
    /// a warning.
    pub fn open(directory: &Path, scratch: &Path, reporter: &dyn Reporter) -> Result<Self, Error> {
        let survey = survey(directory)?;
        if let Some(problem) = survey.problems.into_iter().next() {
            return Err(problem);
        }
        if survey.places.is_empty() {
            return Err(Error::NoArtifacts { path: directory.to_owned() });
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

    /// Reads these artifacts, directories and archives; archives as [`Catalog::open`] does.
    ///
    /// # Errors
    /// As [`Catalog::open`], and for a path that is no artifact or a name that is given twice.
    pub fn read(paths: &[PathBuf], scratch: &Path, reporter: &dyn Reporter) -> Result<Self, Error> {
        let places = crate::flatten::places(paths)?;
        let artifacts = read_places(&places, scratch, reporter).into_iter().collect::<Result<_, _>>()?;
        Ok(Self { artifacts, ignored: Vec::new() })
    }

    /// The artifact of that name.
    pub fn get(&self, name: &str, component: &str, target_family: &str) -> Option<&Artifact> {
        let matches = |artifact: &&Artifact| {
            let found = &artifact.name;
            (found.name.as_str(), found.component.as_str(), found.target_family.as_str())
                == (name, component, target_family)
        };
        self.artifacts.iter().find(matches)
    }

    /// The target families of all artifacts that hold at least one basedir, without `generic`, in
    /// numeric order.
    pub fn target_families(&self) -> Vec<String> {
        let specific = self.artifacts.iter().filter(|artifact| !artifact.name.is_generic() && artifact.holds_basedir());
        let mut families: Vec<String> = specific.map(|artifact| artifact.name.target_family.clone()).collect();
        target::sort(&mut families);
        families
    }

    /// Every path of the flattened tree that is provided more than once, sorted. Directories may be
    /// shared; a file or link beside anything else may not. Contents are not compared.
    pub fn collisions(&self) -> Vec<Collision> {
        let mut all: Vec<(&str, usize, usize)> = Vec::new();
        for (artifact_index, artifact) in self.artifacts.iter().enumerate() {
            let entries = artifact.entries.iter().enumerate();
            all.extend(entries.map(|(index, entry)| (entry.path.as_str(), artifact_index, index)));
        }
        all.sort_unstable();
        let mut collisions = Vec::new();
        for group in all.chunk_by(|left, right| left.0 == right.0).filter(|group| group.len() > 1) {
            let entry = |place: &(&str, usize, usize)| &self.artifacts[place.1].entries[place.2];
            if group.iter().all(|place| entry(place).kind == EntryKind::Directory) {
                continue;
            }
            let owners = group.iter().map(|place| self.artifacts[place.1].owner(entry(place))).collect();
            collisions.push(Collision { path: group[0].0.to_owned(), owners });
        }
        collisions
    }
}

impl Artifact {
    /// Reads an artifact directory.
    ///
    /// # Errors
    /// Whatever is wrong with it; the name is not looked at.
    pub fn open(name: ArtifactName, directory: &Path, reporter: &dyn Reporter) -> Result<Self, Error> {
        Self::read(name, directory.to_owned(), Form::Directory, reporter)
    }

    pub(crate) fn read(name: ArtifactName, root: PathBuf, form: Form, reporter: &dyn Reporter) -> Result<Self, Error> {
        let shown = match &form {
            Form::Directory => &root,
            Form::Archive { path, .. } => path,
        };
        let scan = scan::scan(&root, &name, shown, reporter)?.strict()?;
        Ok(Self { name, root, form, basedirs: scan.basedirs, entries: scan.entries })
    }

    /// Where an entry of this artifact lies on disk.
    pub fn path(&self, entry: &Entry) -> PathBuf {
        self.root.join(&self.basedirs[entry.basedir]).join(&entry.path)
    }

    /// The directory of a basedir on disk.
    pub fn basedir_path(&self, basedir: usize) -> PathBuf {
        self.root.join(&self.basedirs[basedir])
    }

    /// Who provides an entry of this artifact.
    pub fn owner(&self, entry: &Entry) -> Owner {
        let basedir = self.basedirs[entry.basedir].clone();
        Owner { artifact: self.name.clone(), basedir, file: self.path(entry) }
    }

    /// The paths of the entries in the flattened tree, without repetitions.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    /// Number of files and links, and the bytes of the files.
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

    fn holds_basedir(&self) -> bool {
        !self.entries.is_empty() || (0..self.basedirs.len()).any(|basedir| self.basedir_path(basedir).is_dir())
    }
}
