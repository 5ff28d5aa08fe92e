//! Input: wheels and source distributions, and what is to be different about them. Output: a
//! [`Plan`] of each, and when that is executed, another file.
//!
//! Everything that hangs together follows: the version is in the name of the file, in the names of
//! the `.dist-info` and `.data` folders and in METADATA, the tags are in the name and in WHEEL, and
//! RECORD is about all of it. Members that are not touched keep their packed bytes; of METADATA and
//! WHEEL every other line stays as it was. An edit that is done again changes nothing, and then the
//! file is copied byte for byte.

mod execute;
mod metadata;
mod pattern;
mod plan;
mod requirement;
mod requires_txt;
mod scan;
mod sdist;
mod sdist_file;
mod tags;
mod version;
mod wheel;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_report::Reporter;

use crate::names::canonical_name;
use crate::read::Wheel;
use crate::{Error, Headers, names};
pub use execute::{Destination, Edited, Place, execute, prepare};
pub use metadata::FieldEdit;
pub use pattern::Pattern;
use plan::Identity;
pub use plan::{Change, Form, Leftover, Plan};
pub use requirement::{Belongs, ExtraEdit, Requirement, RequirementEdit, belongs};
use sdist_file::SdistFile;
pub use sdist_file::{sdist_metadata, sdist_metadata_of};
pub use tags::TagEdit;
pub use version::VersionEdit;

/// What is to be different. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// Another name of the distribution; packages keep theirs.
    pub name: Option<String>,
    /// Another version.
    pub version: Option<VersionEdit>,
    /// Other interpreters in the tags.
    pub python_tags: Option<TagEdit>,
    /// Other ABIs in the tags.
    pub abi_tags: Option<TagEdit>,
    /// Other platforms in the tags.
    pub platform_tags: Option<TagEdit>,
    /// Another build tag.
    pub build: Option<BuildEdit>,
    /// Changes of the requirements, one after the other.
    pub requirements: Vec<RequirementEdit>,
    /// Changes of the extras, one after the other.
    pub extras: Vec<ExtraEdit>,
    /// What becomes of `==` requirements on distributions of the same release.
    pub pins: Pins,
    /// Changes of other fields of METADATA.
    pub fields: Vec<FieldEdit>,
    /// Other search paths in libraries and programs; of several that mean a file the last one
    /// counts.
    pub search_paths: Vec<SearchPathEdit>,
    /// Members that go.
    pub drop: Vec<Pattern>,
    /// Members in which the old version is replaced by the new one.
    pub also_in: Vec<Pattern>,
    /// What becomes of RECORD where nothing else changes.
    pub record: RecordEdit,
}

/// What becomes of a RECORD that lacks hashes or does not list the files of the wheel. Any other
/// change writes it anew too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordEdit {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is written anew. Rows whose size or hash is not that of the file stay: something changed
    /// that file.
    Renew,
}

/// Another build tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildEdit {
    /// This one.
    Set(String),
    /// None.
    Remove,
}

impl BuildEdit {
    /// Reads a build tag (PEP 427); an empty one removes it.
    pub fn parse(text: &str) -> Result<BuildEdit, Error> {
        if text.is_empty() {
            return Ok(BuildEdit::Remove);
        }
        version::check_build(text).map(|()| BuildEdit::Set(text.to_owned()))
    }
}

/// What becomes of requirements that pin a sibling: a distribution of the same release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pins {
    /// They stay.
    #[default]
    Keep,
    /// `==OLD` becomes `==NEW` on distributions that are edited together, by what each of them
    /// becomes, and on others where OLD is the version of the file they are in.
    Follow,
}

/// The search path of some libraries.
#[derive(Debug, Clone)]
pub struct SearchPathEdit {
    /// Which.
    pub files: Pattern,
    /// What becomes of it.
    pub entries: Entries,
}

/// What becomes of the entries of a search path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entries {
    /// These take their place: `$ORIGIN/lib`; none removes the search path.
    Set(Vec<String>),
    /// Those that are absolute go.
    DropAbsolute,
}

impl SearchPathEdit {
    /// Reads `GLOB=PATH:PATH`.
    pub fn parse(text: &str) -> Result<SearchPathEdit, Error> {
        let fail =
            |reason: &str| Error::Name { what: "search path", value: text.to_owned(), reason: reason.to_owned() };
        let (glob, paths) = text.split_once('=').ok_or_else(|| fail("GLOB=PATHS is expected"))?;
        let entries: Vec<String> = paths.split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        if entries.is_empty() {
            return Err(fail("there is no path behind the `=`"));
        }
        Ok(SearchPathEdit { files: Pattern::parse(glob)?, entries: Entries::Set(entries) })
    }

    /// No search path in these files.
    pub fn remove(glob: &str) -> Result<SearchPathEdit, Error> {
        Ok(SearchPathEdit { files: Pattern::parse(glob)?, entries: Entries::Set(Vec::new()) })
    }

    /// No absolute entries in any file.
    pub fn drop_absolute() -> Result<SearchPathEdit, Error> {
        Ok(SearchPathEdit { files: Pattern::parse("*")?, entries: Entries::DropAbsolute })
    }
}

/// What edited distributions become, by canonical name: the old and the new version.
enum Siblings {
    Keep,
    Follow(BTreeMap<String, (String, String)>),
}

/// What planning needs besides the file.
struct Request<'a> {
    edit: &'a Edit,
    siblings: Siblings,
    scratch: &'a Path,
    reporter: &'a dyn Reporter,
}

/// A file that is to be edited.
enum Opened {
    Wheel(Arc<Wheel>, Headers),
    Sdist(Box<SdistFile>, Headers),
}

impl Opened {
    fn open(path: &Path, edit: &Edit, reporter: &dyn Reporter) -> Result<Opened, Error> {
        if !path.to_string_lossy().ends_with(".tar.gz") {
            let wheel = Wheel::open(path)?;
            let headers = Headers::parse(&wheel.metadata()?);
            return Ok(Opened::Wheel(Arc::new(wheel), headers));
        }
        let sdist = SdistFile::read(path, &edit.also_in, reporter)?;
        let headers = Headers::parse(&sdist.text("PKG-INFO")?);
        Ok(Opened::Sdist(Box::new(sdist), headers))
    }

    fn headers(&self) -> &Headers {
        match self {
            Opened::Wheel(_, headers) | Opened::Sdist(_, headers) => headers,
        }
    }
}

/// Works out what the edit does to each of the files: reads them, writes nothing. Libraries whose
/// search path changes are unpacked into the folder `scratch` for the time it takes.
///
/// Errors are those of [`Wheel::open`], and when the edit cannot be done to one of the files.
pub fn plan(paths: &[PathBuf], edit: &Edit, scratch: &Path, reporter: &dyn Reporter) -> Result<Vec<Plan>, Error> {
    if let Some(name) = &edit.name {
        names::check_name(name)?;
    }
    let mut opened = Vec::with_capacity(paths.len());
    for path in paths {
        let file = Opened::open(path, edit, reporter)?;
        let identity = Identity::new(file.headers(), edit)?;
        opened.push((file, identity));
    }
    let siblings = match edit.pins {
        Pins::Keep => Siblings::Keep,
        Pins::Follow => {
            let versions = opened.iter().map(|(_, identity)| {
                (canonical_name(&identity.name), (identity.version.clone(), identity.new_version.clone()))
            });
            Siblings::Follow(versions.collect())
        }
    };
    let request = Request { edit, siblings, scratch, reporter };
    let mut plans = Vec::with_capacity(paths.len());
    for (file, identity) in opened {
        plans.push(match file {
            Opened::Wheel(wheel, headers) => wheel::plan(&wheel, &headers, &identity, &request)?,
            Opened::Sdist(sdist, headers) => sdist::plan(&sdist, &headers, &identity, &request)?,
        });
    }
    Ok(plans)
}

/// Says of patterns that mean no member that it is so: nothing to do is no error, or an edit could
/// not be repeated.
fn unmatched<'a>(patterns: impl Iterator<Item = &'a Pattern>, members: &[&str], what: &str, notes: &mut Vec<String>) {
    for pattern in patterns.filter(|pattern| !members.iter().any(|member| pattern.matches(member))) {
        notes.push(format!("nothing to {what}: no member matches `{}`", pattern.text()));
    }
}
