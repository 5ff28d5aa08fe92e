//! Input: the files of a store. Output: the wheels and source distributions among them, by what
//! their names say.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};
use pep440_rs::{Version, VersionParseError};
use rocwheel_content::archive_path;
use rocwheel_wheel::{WheelName, WheelNameParts, canonical_name, check_name};

use crate::error::Error;
use crate::store::StoredFile;

/// How tarballs of a whole ROCm begin (TheRock's `build_tarballs.py`). `therock-dist-linux-gfx1151`
/// could be the name of a project as well.
const TARBALL: &str = "therock-dist-";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDistribution {
    /// Where it is, with its size.
    pub file: StoredFile,
    /// The canonical name of its project.
    pub project: String,
    pub version: Version,
    /// What its name says; `None` for a source distribution.
    pub wheel: Option<WheelName>,
}

impl StoredDistribution {
    pub fn name(&self) -> &str {
        archive_path::file_name(&self.file.key)
    }

    /// `true` for a source distribution of a kind that no tool has written for ten years.
    pub fn is_zip(&self) -> bool {
        self.wheel.is_none() && Path::new(self.name()).extension().is_some_and(|ending| ending == "zip")
    }

    pub fn parts(&self) -> Option<WheelNameParts<'_>> {
        self.wheel.as_ref()?;
        WheelNameParts::parse(self.name()).ok()
    }

    pub fn folder(&self) -> &str {
        archive_path::parent(&self.file.key)
    }
}

#[derive(Debug, Default)]
pub struct DistributionListing {
    pub distributions: Vec<StoredDistribution>,
    /// Every other file by its key.
    pub others: BTreeMap<String, StoredFile>,
    /// Archives that an index does not list: `therock-dist-*.tar.gz`, and what has no version.
    pub ignored: Vec<String>,
    /// `FILE: why`, for names that look like those of distributions but are not.
    pub problems: Vec<String>,
}

/// Patterns of file names; no pattern fits everything.
#[derive(Debug, Default)]
pub struct NameFilter(Option<GlobSet>);

impl NameFilter {
    /// A filter of these patterns; without any it accepts everything.
    pub fn new(patterns: &[String]) -> Result<NameFilter, Error> {
        if patterns.is_empty() {
            return Ok(NameFilter(None));
        }
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(Glob::new(pattern).map_err(|source| Error::Pattern { pattern: pattern.clone(), source })?);
        }
        let set = set.build().map_err(|source| Error::Pattern { pattern: patterns.join(" "), source })?;
        Ok(NameFilter(Some(set)))
    }

    pub fn accepts(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|set| set.is_match(name))
    }
}

impl DistributionListing {
    /// Sorts files by what their names say. A file that the filter denies is one of the others.
    pub fn of(files: Vec<StoredFile>, filter: &NameFilter) -> DistributionListing {
        let mut listing = DistributionListing::default();
        for file in files {
            let name = archive_path::file_name(&file.key);
            if !filter.accepts(name) {
                listing.others.insert(file.key.clone(), file);
                continue;
            }
            let found = match identity(name) {
                Identity::Distribution(parts) => parts.parsed_version().map(|version| parts.owned(version)),
                Identity::Wrong(reason) => Err(reason),
                Identity::Archive => {
                    listing.ignored.push(file.key);
                    continue;
                }
                Identity::Other => {
                    listing.others.insert(file.key.clone(), file);
                    continue;
                }
            };
            match found {
                Ok((project, version, wheel)) => {
                    listing.distributions.push(StoredDistribution { file, project, version, wheel });
                }
                Err(reason) => listing.problems.push(format!("`{}`: {reason}", file.key)),
            }
        }
        listing
    }
}

/// The distribution of a file; `None` for a file of another kind.
pub fn distribution(file: StoredFile) -> Option<StoredDistribution> {
    let Identity::Distribution(parts) = identity(archive_path::file_name(&file.key)) else { return None };
    let (project, version, wheel) = parts.owned(parts.parsed_version().ok()?);
    Some(StoredDistribution { file, project, version, wheel })
}

/// The distribution of a key, by what its name says.
pub fn distribution_of(key: &str) -> Option<StoredDistribution> {
    distribution(StoredFile { key: key.to_owned(), size: 0, stamp: String::new() })
}

/// The distributions of keys, by what their names say.
pub fn distributions<'k>(keys: impl IntoIterator<Item = &'k String>) -> Vec<StoredDistribution> {
    let stored = keys.into_iter().map(|key| StoredFile { key: key.clone(), size: 0, stamp: String::new() });
    DistributionListing::of(stored.collect(), &NameFilter::default()).distributions
}

/// The canonical name of the project of a file, by the name of the file.
pub fn project_of(name: &str) -> Option<String> {
    match identity(name) {
        Identity::Distribution(parts) if parts.parsed_version().is_ok() => Some(parts.project()),
        _ => None,
    }
}

/// A distribution with the parts of its name by which an installer chooses.
pub struct Candidate<'a> {
    /// Where it is.
    key: &'a str,
    project: &'a str,
    version: Cow<'a, Version>,
    /// `None` for a source distribution.
    wheel: Option<WheelNameParts<'a>>,
}

impl<'a> Candidate<'a> {
    /// A file of a project, by its name.
    pub fn of_file(key: &'a str, project: &'a str) -> Result<Candidate<'a>, String> {
        match identity(archive_path::file_name(key)) {
            Identity::Distribution(parts) => {
                let version = Cow::Owned(parts.parsed_version()?);
                Ok(Candidate { key, project, version, wheel: parts.wheel })
            }
            Identity::Wrong(reason) => Err(reason),
            Identity::Archive | Identity::Other => Err("it is no Python package".to_owned()),
        }
    }

    /// Project, version and build.
    fn release(&self) -> (&str, &Version, Option<&str>) {
        (self.project, &self.version, self.wheel.as_ref().and_then(|wheel| wheel.build))
    }

    /// Interpreters, ABIs and platforms. A source distribution has none.
    fn tags(&self) -> [BTreeSet<&str>; 3] {
        self.wheel.map_or_else(Default::default, |wheel| wheel.tags.map(|set| set.split('.').collect()))
    }
}

impl<'a> From<&'a StoredDistribution> for Candidate<'a> {
    fn from(one: &'a StoredDistribution) -> Candidate<'a> {
        let version = Cow::Borrowed(&one.version);
        Candidate { key: &one.file.key, project: &one.project, version, wheel: one.parts() }
    }
}

/// Files that an installer takes for the same, as `ONE and OTHER: why`: `1.0` and `1.0.0`, `Foo`
/// and `foo` are one. All of them are on one index.
pub fn clashes<'a>(candidates: impl IntoIterator<Item = impl Into<Candidate<'a>>>) -> Vec<String> {
    let mut all: Vec<Candidate<'a>> = candidates.into_iter().map(Into::into).collect();
    all.sort_by(|one, other| one.release().cmp(&other.release()));
    let mut problems = Vec::new();
    for group in all.chunk_by(|one, other| one.release() == other.release()).filter(|group| group.len() > 1) {
        let mut group: Vec<([BTreeSet<&str>; 3], &str)> = group.iter().map(|one| (one.tags(), one.key)).collect();
        group.sort_by(|(one, _), (other, _)| one.cmp(other));
        for pair in group.windows(2) {
            let [(one, first), (other, second)] = pair else { continue };
            if one == other {
                problems.push(format!("`{first}` and `{second}`: installers take them for the same file"));
            }
        }
    }
    problems
}

/// The name of a distribution in its parts.
#[derive(Clone, Copy)]
pub struct NameParts<'n> {
    /// As it is in the name.
    project: &'n str,
    version: &'n str,
    /// `None` for a source distribution.
    pub wheel: Option<WheelNameParts<'n>>,
}

impl NameParts<'_> {
    pub fn project(&self) -> String {
        canonical_name(self.project)
    }

    fn parsed_version(&self) -> Result<Version, String> {
        match &self.wheel {
            Some(wheel) => wheel.parsed_version().map_err(|error| error.to_string()),
            None => self.version.parse().map_err(|error: VersionParseError| error.to_string()),
        }
    }

    /// Project, version, and the tags of a wheel.
    fn owned(&self, version: Version) -> (String, Version, Option<WheelName>) {
        (self.project(), version, self.wheel.map(|wheel| wheel.to_wheel_name()))
    }
}

/// The kind of a file, by its name.
pub enum Identity<'n> {
    /// A distribution. The version of a wheel may still be none.
    Distribution(NameParts<'n>),
    /// An archive that is not a Python package.
    Archive,
    /// It should be a distribution but is not, for this reason.
    Wrong(String),
    /// Any other file.
    Other,
}

pub fn identity(name: &str) -> Identity<'_> {
    if WheelName::is_wheel(name) {
        return match WheelNameParts::parse(name) {
            Ok(wheel) => Identity::Distribution(NameParts {
                project: wheel.distribution,
                version: wheel.version,
                wheel: Some(wheel),
            }),
            Err(error) => Identity::Wrong(error.to_string()),
        };
    }
    let Some(stem) = name.strip_suffix(".tar.gz").or_else(|| name.strip_suffix(".zip")) else {
        return if is_unlisted_archive(name) { Identity::Archive } else { Identity::Other };
    };
    // Source distributions from before PEP 625 have hyphens in their names.
    match stem.rsplit_once('-') {
        Some((project, version))
            if !name.starts_with(TARBALL) && check_name(project).is_ok() && version.parse::<Version>().is_ok() =>
        {
            Identity::Distribution(NameParts { project, version, wheel: None })
        }
        _ => Identity::Archive,
    }
}

/// `true` for archives that PyPI had before PEP 527, or in a form that no installer reads. They are
/// reported, because users would miss them on the pages.
fn is_unlisted_archive(name: &str) -> bool {
    const ENDINGS: [&str; 8] = [".egg", ".exe", ".msi", ".tar", ".tar.bz2", ".tar.xz", ".tar.zst", ".tgz"];
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &str, patterns: &[&str]) -> DistributionListing {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let file = |name: &str| StoredFile { key: name.to_owned(), size: 1, stamp: String::new() };
        DistributionListing::of(names.split(' ').map(file).collect(), &NameFilter::new(&patterns).unwrap())
    }

    #[test]
    fn names_say_what_files_are() {
        let listing = listing(
            "Rocm_SDK.Core-7.2.0-py3-none-linux_x86_64.whl dist/rocm-7.2.0.tar.gz \
             flash-attn-2.8.3.tar.gz therock-dist-linux-gfx1151-7.2.0.tar.gz magma.tar.gz \
             Paste-0.3-py2.3.egg blas_lib_gfx942.tar.zst SHA256SUMS broken.whl \
             torch-2.9.0-cp312-cp312-linux_x86_64.whl.metadata",
            &[],
        );
        let found: Vec<(&str, String)> =
            listing.distributions.iter().map(|one| (one.project.as_str(), one.version.to_string())).collect();
        let expected = [("rocm-sdk-core", "7.2.0"), ("rocm", "7.2.0"), ("flash-attn", "2.8.3")];
        assert_eq!(found, expected.map(|(project, version)| (project, version.to_owned())));
        let ignored = "therock-dist-linux-gfx1151-7.2.0.tar.gz magma.tar.gz Paste-0.3-py2.3.egg \
                       blas_lib_gfx942.tar.zst";
        assert_eq!(listing.ignored.join(" "), ignored);
        assert!(listing.problems[0].starts_with("`broken.whl`: "), "{:?}", listing.problems);
        assert_eq!(listing.others.len(), 2);
    }

    #[test]
    fn a_filter_chooses_by_file_name() {
        let names = "torch/torch-2.9.0-cp312-cp312-linux_x86_64.whl rocm/rocm-7.2.0.tar.gz broken.whl";
        let listing = listing(names, &["torch-*.whl"]);
        assert_eq!(listing.distributions.len(), 1);
        assert!(listing.problems.is_empty() && listing.others.len() == 2);
        assert!(NameFilter::new(&["[".to_owned()]).is_err());
    }

    #[test]
    fn two_spellings_of_one_file_clash() {
        let listing = listing(
            "Foo-1.0-py3-none-any.whl foo-1.0.0-py3-none-any.whl foo-1.0-1-py3-none-any.whl \
             foo-1.0-py2.py3-none-any.whl a/foo-1.0.tar.gz b/foo-1.0.zip",
            &[],
        );
        let clashes = clashes(&listing.distributions);
        assert_eq!(clashes.len(), 2, "{clashes:?}");
        assert!(clashes.iter().any(|text| text.contains("Foo-1.0-py3") && text.contains("foo-1.0.0-py3")));
        assert!(clashes.iter().any(|text| text.contains("a/foo-1.0.tar.gz") && text.contains("b/foo-1.0.zip")));
    }
}
