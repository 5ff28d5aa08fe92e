//! Input: wheels and source distributions, and an edit. Output: a [`Plan`] for each of them;
//! executing a plan writes another file.
//!
//! All dependent places follow an edit. The version is in the name of the file, in the names of the
//! `.dist-info` and `.data` folders and in METADATA; the tags are in the name and in WHEEL; RECORD
//! lists everything. Members that are not edited keep their packed bytes, and all other lines of
//! METADATA and WHEEL stay the same. An edit that is repeated changes nothing, and then the file is
//! copied byte for byte.

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

use rocwheel_progress::Reporter;

use crate::names::canonical_name;
use crate::read::Wheel;
use crate::{Error, Headers, names};
pub use execute::{EditPlacement, Edited, execute, prepare};
pub use metadata::FieldEdit;
pub use pattern::MemberPattern;
use plan::Identity;
pub use plan::{DistributionFormat, FieldChange, Leftover, Plan};
pub use requirement::{Belongs, ExtraEdit, RequirementEdit, WrittenRequirement, belongs};
use sdist_file::SdistFile;
pub use sdist_file::{sdist_metadata, sdist_metadata_of};
pub use tags::TagEdit;
pub use version::VersionEdit;

/// The changes to make. The default changes nothing.
#[derive(Debug, Clone, Default)]
pub struct WheelEdit {
    /// New name of the distribution; the packages in it keep their names.
    pub name: Option<String>,
    /// Change of the version.
    pub version: Option<VersionEdit>,
    /// Change of the interpreters in the tags.
    pub python_tags: Option<TagEdit>,
    /// Change of the ABIs in the tags.
    pub abi_tags: Option<TagEdit>,
    /// Change of the platforms in the tags.
    pub platform_tags: Option<TagEdit>,
    /// Change of the build tag.
    pub build: Option<BuildEdit>,
    /// Changes of the requirements, applied in order.
    pub requirements: Vec<RequirementEdit>,
    /// Changes of the extras, applied in order.
    pub extras: Vec<ExtraEdit>,
    /// Treatment of `==` requirements on distributions of the same release.
    pub pins: Pins,
    /// Changes of other fields of METADATA.
    pub fields: Vec<FieldEdit>,
    /// New search paths of libraries and programs. If several apply to a file, the last one wins.
    pub search_paths: Vec<SearchPathEdit>,
    /// Members to remove.
    pub drop: Vec<MemberPattern>,
    /// Members in which the new version replaces the old one.
    pub also_in: Vec<MemberPattern>,
    /// Treatment of RECORD if nothing else changes.
    pub record: RecordEdit,
}

/// The treatment of a RECORD that lacks hashes or does not match the list of files in the wheel.
/// Any other change rewrites RECORD too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordEdit {
    /// Keep RECORD unchanged.
    #[default]
    Keep,
    /// Rewrite RECORD. Rows with a wrong size or hash stay, because they show that the file was
    /// changed.
    Renew,
}

/// A change of the build tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildEdit {
    /// Set this build tag.
    Set(String),
    /// Remove the build tag.
    Remove,
}

impl BuildEdit {
    /// Parses a build tag (PEP 427); an empty one removes it.
    pub fn parse(text: &str) -> Result<BuildEdit, Error> {
        if text.is_empty() {
            return Ok(BuildEdit::Remove);
        }
        version::check_build(text).map(|()| BuildEdit::Set(text.to_owned()))
    }
}

/// The treatment of requirements that pin a distribution of the same release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pins {
    /// Keep them.
    #[default]
    Keep,
    /// Change `==OLD` to `==NEW`: for distributions that are edited together to the new version of
    /// each, and for others if OLD is the version of the file that contains the requirement.
    Follow,
}

/// A new search path for some libraries.
#[derive(Debug, Clone)]
pub struct SearchPathEdit {
    /// The files to change.
    pub files: MemberPattern,
    /// The new entries.
    pub entries: Entries,
}

/// A change of the entries of a search path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entries {
    /// Replace them by these, such as `$ORIGIN/lib`. An empty list removes the search path.
    Set(Vec<String>),
    /// Remove the absolute entries.
    DropAbsolute,
}

impl SearchPathEdit {
    /// Parses `GLOB=PATH:PATH`.
    pub fn parse(text: &str) -> Result<SearchPathEdit, Error> {
        let fail =
            |reason: &str| Error::Name { what: "search path", value: text.to_owned(), reason: reason.to_owned() };
        let (glob, paths) = text.split_once('=').ok_or_else(|| fail("GLOB=PATHS is expected"))?;
        let entries: Vec<String> = paths.split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        if entries.is_empty() {
            return Err(fail("there is no path behind the `=`"));
        }
        Ok(SearchPathEdit { files: MemberPattern::parse(glob)?, entries: Entries::Set(entries) })
    }

    /// Removes the search path of these files.
    pub fn remove(glob: &str) -> Result<SearchPathEdit, Error> {
        Ok(SearchPathEdit { files: MemberPattern::parse(glob)?, entries: Entries::Set(Vec::new()) })
    }

    /// Removes the absolute entries of all files.
    pub fn drop_absolute() -> Result<SearchPathEdit, Error> {
        Ok(SearchPathEdit { files: MemberPattern::parse("*")?, entries: Entries::DropAbsolute })
    }
}

/// The old and the new version of each edited distribution, by canonical name.
enum Siblings {
    Keep,
    Follow(BTreeMap<String, (String, String)>),
}

/// The input of planning, apart from the file.
struct Request<'a> {
    edit: &'a WheelEdit,
    siblings: Siblings,
    scratch: &'a Path,
    reporter: &'a dyn Reporter,
}

/// A file that will be edited.
enum Opened {
    Wheel(Arc<Wheel>, Headers),
    Sdist(Box<SdistFile>, Headers),
}

impl Opened {
    fn open(path: &Path, edit: &WheelEdit, reporter: &dyn Reporter) -> Result<Opened, Error> {
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

/// Plans the edit of each file: reads the files and writes nothing. Libraries whose search path
/// changes are temporarily unpacked into the folder `scratch`.
///
/// Fails with the errors of [`Wheel::open`], and if one of the files cannot be edited that way.
pub fn plan(paths: &[PathBuf], edit: &WheelEdit, scratch: &Path, reporter: &dyn Reporter) -> Result<Vec<Plan>, Error> {
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

/// Reports patterns that match no member. They are not an error, because then an edit could not be
/// repeated.
fn unmatched<'a>(
    patterns: impl Iterator<Item = &'a MemberPattern>,
    members: &[&str],
    what: &str,
    notes: &mut Vec<String>,
) {
    for pattern in patterns.filter(|pattern| !members.iter().any(|member| pattern.matches(member))) {
        notes.push(format!("nothing to {what}: no member matches `{}`", pattern.text()));
    }
}
