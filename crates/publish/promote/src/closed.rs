//! Input: the new metadata of all files of a set. Output: requirements that nothing in the set
//! fulfils, and that no other place can: pins on the new version, and distributions of the set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pep440_rs::Version;
use pep508_rs::{Requirement, VersionOrUrl};
use rocwheel_progress::Failure;
use rocwheel_wheel::{Headers, WheelName, canonical_name, check_requirement};
use url::Url;

use crate::error;

/// The distributions that installers will find.
#[derive(Debug, Default)]
pub(crate) struct Provided {
    versions: BTreeMap<String, BTreeSet<Version>>,
    /// Extras of the distributions whose extras are fixed.
    extras: BTreeMap<String, BTreeSet<String>>,
}

impl Provided {
    pub(crate) fn add(&mut self, distribution: &str, version: Version) {
        self.versions.entry(distribution.to_owned()).or_default().insert(version);
    }

    fn add_extras(&mut self, distribution: &str, headers: &Headers) {
        // The selector's source distribution decides its extras where it is installed.
        if headers.all("Dynamic").iter().any(|field| field.eq_ignore_ascii_case("Provides-Extra")) {
            return;
        }
        let extras = headers.all("Provides-Extra").iter().map(|extra| canonical_name(extra)).collect::<Vec<_>>();
        self.extras.entry(distribution.to_owned()).or_default().extend(extras);
    }

    /// Adds the packages of other folders, by their names.
    pub(crate) fn add_folders(&mut self, folders: &[PathBuf]) -> Result<(), Failure> {
        for folder in folders {
            let mut names = Vec::new();
            for entry in fs_err::read_dir(folder).map_err(error::read(folder))? {
                names.push(entry.map_err(error::read(folder))?.file_name().to_string_lossy().into_owned());
            }
            self.add_names(names.iter().map(String::as_str))?;
        }
        Ok(())
    }

    /// Adds packages by the names of their files; other files are passed over.
    pub(crate) fn add_names<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Result<(), Failure> {
        for name in names {
            if WheelName::is_wheel(name) {
                let wheel: WheelName = name.parse()?;
                if let Ok(version) = wheel.version.replace('_', "-").parse() {
                    self.add(&canonical_name(&wheel.distribution), version);
                }
            } else if let Some((distribution, version)) =
                name.strip_suffix(".tar.gz").and_then(|stem| stem.rsplit_once('-'))
                && let Ok(version) = version.parse()
            {
                self.add(&canonical_name(distribution), version);
            }
        }
        Ok(())
    }
}

/// Requirements of `files` (name of the file and its metadata) that are not fulfilled. `own` are
/// the distributions that were in the set, and `new` its version.
pub(crate) fn find_open(
    files: &[(&str, Headers)],
    mut provided: Provided,
    own: &BTreeSet<String>,
    new: &Version,
) -> Vec<String> {
    for (_, headers) in files {
        provided.add_extras(&canonical_name(&headers.get("Name").unwrap_or_default()), headers);
    }
    let mut problems = Vec::new();
    for (file, headers) in files {
        for text in headers.all("Requires-Dist") {
            if let Some(reason) = open(&text, &provided, own, new) {
                problems.push(format!("`{file}` requires `{text}`, and {reason}"));
            }
        }
    }
    problems
}

fn open(text: &str, provided: &Provided, own: &BTreeSet<String>, new: &Version) -> Option<String> {
    // The audit reports texts that are not requirements.
    check_requirement(text).ok()?;
    let requirement: Requirement<Url> = text.parse().ok()?;
    let name = canonical_name(requirement.name.as_ref());
    let specifiers = match &requirement.version_or_url {
        None => None,
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
        Some(VersionOrUrl::Url(_)) => return None,
    };
    let pins_set = specifiers.is_some_and(|all| {
        all.iter().any(|one| one.operator().to_string() == "==" && one.version().clone().with_post(None) == *new)
    });
    if !pins_set && !own.contains(&name) {
        return None;
    }
    let Some(versions) = provided.versions.get(&name) else {
        return Some(format!("there is no `{name}`"));
    };
    if let Some(specifiers) = specifiers
        && !versions.iter().any(|version| rocwheel_wheel::accepts(specifiers, version))
    {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        return Some(format!("`{name}` has version {}", versions.join(", ")));
    }
    let extras = provided.extras.get(&name)?;
    let missing =
        requirement.extras.iter().map(|extra| canonical_name(extra.as_ref())).find(|one| !extras.contains(one))?;
    Some(format!("`{name}` has no extra `{missing}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_on_the_new_version_are_fulfilled() {
        let metadata = |name: &str, rest: &str| Headers::parse(&format!("Name: {name}\n{rest}"));
        let mut provided = Provided::default();
        provided.add("core", "7.0".parse().unwrap());
        provided.add("rocm", "7.0.post1".parse().unwrap());
        let files = [
            ("a", metadata("core", "Requires-Dist: rocm==7.0.post1\nRequires-Dist: numpy>=2\n")),
            (
                "b",
                metadata("rocm", "Provides-Extra: libraries\nRequires-Dist: core==7.0\nRequires-Dist: device==7.0\n"),
            ),
            (
                "c",
                metadata(
                    "t",
                    "Requires-Dist: rocm[Libraries]==7.0.post1\nRequires-Dist: rocm[x]\nRequires-Dist: core==6\n",
                ),
            ),
        ];
        let own = BTreeSet::from(["core".to_owned(), "rocm".to_owned()]);
        assert_eq!(
            find_open(&files, provided, &own, &"7.0".parse().unwrap()),
            [
                "`b` requires `device==7.0`, and there is no `device`",
                "`c` requires `rocm[x]`, and `rocm` has no extra `x`",
                "`c` requires `core==6`, and `core` has version 7.0",
            ]
        );
    }
}
