//! The changes to make to a file.

use rocwheel_wheel::{Error, MemberPattern};

use crate::error::unusable;
use crate::field_edit::FieldEdit;
use crate::requirement_edit::{ExtraEdit, RequirementEdit};
use crate::tags::TagEdit;
use crate::version::{self, VersionEdit};

/// The changes to make. The default changes nothing.
#[derive(Debug, Clone, Default)]
pub struct WheelEdit {
    /// New name of the distribution; the packages in it keep their names.
    pub name: Option<String>,
    pub version: Option<VersionEdit>,
    pub python_tags: Option<TagEdit>,
    pub abi_tags: Option<TagEdit>,
    pub platform_tags: Option<TagEdit>,
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
    pub drop: Vec<MemberPattern>,
    /// Members in which the new version replaces the old one.
    pub also_in: Vec<MemberPattern>,
    pub record: RecordEdit,
}

/// The treatment of a RECORD that lacks hashes or does not match the list of files in the wheel.
/// Any other change rewrites RECORD too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordEdit {
    #[default]
    Keep,
    /// Rewrite RECORD. Rows with a wrong size or hash stay, because they show that the file was
    /// changed.
    Renew,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildEdit {
    Set(String),
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
    #[default]
    Keep,
    /// Change `==OLD` to `==NEW`: for distributions that are edited together to the new version of
    /// each, and for others if OLD is the version of the file that contains the requirement.
    Follow,
}

/// A new search path for some libraries.
#[derive(Debug, Clone)]
pub struct SearchPathEdit {
    pub files: MemberPattern,
    pub entries: Entries,
}

/// A change of the entries of a search path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entries {
    /// Replace them by these, such as `$ORIGIN/lib`. An empty list removes the search path.
    Set(Vec<String>),
    DropAbsolute,
}

impl SearchPathEdit {
    /// Parses `GLOB=PATH:PATH`.
    pub fn parse(text: &str) -> Result<SearchPathEdit, Error> {
        let parts = text.split_once('=');
        let (glob, paths) = parts.ok_or_else(|| unusable("search path", text, "GLOB=PATHS is expected"))?;
        let entries: Vec<String> = paths.split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        if entries.is_empty() {
            return Err(unusable("search path", text, "there is no path behind the `=`"));
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
