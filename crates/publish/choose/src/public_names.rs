//! Input: names with their files, and an index that others can publish to. Output: for each name
//! who has it there, and which of their files an installer would prefer.
//!
//! pip, told of two indexes, takes the highest version, and of equal versions the highest build
//! tag. So a pin does not protect: `rocm-7.14.0-1` wins against `rocm==7.14.0`.

use std::collections::BTreeMap;

use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_delta::{IndexSite, ProjectAnswer};
use rocwheel_index::page::PageLink;
use rocwheel_progress::{Failure, Reporter, with_causes};
use rocwheel_store::listing::{StoredDistribution, distribution_of};
use serde::Serialize;

/// A name of a set on another index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublicName {
    pub name: String,
    pub version: String,
    /// What the other index has of it.
    #[serde(flatten)]
    pub state: NameState,
}

/// What another index has of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum NameState {
    /// Nothing: the name can be registered.
    Free,
    /// The name has files there.
    #[serde(rename_all = "kebab-case")]
    Registered {
        /// Files that win or draw against the set's where its version is pinned.
        against_pins: Vec<String>,
        higher: Vec<String>,
    },
    /// The index did not answer as indexes do.
    Unknown { reason: String },
}

/// Asks an index for every name; `files` has the names of the files of each, and its version.
///
/// What the index does wrong for one name is [`NameState::Unknown`].
pub fn find_public_names(
    files: &BTreeMap<String, (String, Vec<String>)>,
    site: &IndexSite,
    reporter: &dyn Reporter,
) -> Result<Vec<PublicName>, Failure> {
    // A server that has no index at this address answers 404 for every name.
    site.check_root(reporter)?;
    let names: Vec<_> = files.iter().collect();
    let found = names.par_iter().map(|(name, (version, files))| {
        let own: Vec<StoredDistribution> = files.iter().filter_map(|file| distribution_of(file)).collect();
        let state = match site.project(name, reporter) {
            Ok(ProjectAnswer::Missing(404 | 410)) => NameState::Free,
            Ok(ProjectAnswer::Missing(status)) => NameState::Unknown { reason: format!("the server answers {status}") },
            Ok(ProjectAnswer::Files(links)) => registered(name, &own, &links),
            Err(rocwheel_delta::Error::Interrupted(interrupted)) => return Err(interrupted.into()),
            Err(error) => NameState::Unknown { reason: with_causes(&error) },
        };
        Ok(PublicName { name: (*name).clone(), version: version.clone(), state })
    });
    found.collect()
}

fn registered(name: &str, own: &[StoredDistribution], links: &[PageLink]) -> NameState {
    let (mut against_pins, mut higher) = (Vec::new(), Vec::new());
    let Some(best) = own.iter().map(order).max() else { return NameState::Registered { against_pins, higher } };
    // Installers take withdrawn files only where there are no others.
    for link in links.iter().filter(|link| link.yanked.is_none()) {
        let Some(other) = distribution_of(&link.file_name).filter(|other| other.project == name) else {
            continue;
        };
        let order = order(&other);
        if order < best {
            continue;
        }
        if is_pinned_by(order.version, best.version) {
            against_pins.push(link.file_name.clone());
        } else {
            higher.push(link.file_name.clone());
        }
    }
    against_pins.sort();
    higher.sort();
    NameState::Registered { against_pins, higher }
}

/// `true` if a version meets `==pin`, which ignores local parts unless it has one.
fn is_pinned_by(version: &Version, pin: &Version) -> bool {
    if pin.is_local() { version == pin } else { version.clone().without_local() == *pin }
}

/// How pip orders files: by version, then by build tag, the number before the rest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FileOrder<'a> {
    version: &'a Version,
    build: Option<(u64, &'a str)>,
}

fn order(one: &StoredDistribution) -> FileOrder<'_> {
    let build = one.parts().and_then(|parts| parts.build).map(|build| {
        let digits = build.find(|character: char| !character.is_ascii_digit()).unwrap_or(build.len());
        (build[..digits].parse().unwrap_or(u64::MAX), &build[digits..])
    });
    FileOrder { version: &one.version, build }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, yanked: Option<&str>) -> PageLink {
        let page = format!("<a href=\"{name}\">{name}</a>");
        let base = "https://example.org/simple/x/".parse().unwrap();
        let mut links = rocwheel_index::page::parse("text/html", page.as_bytes(), &base).unwrap();
        PageLink { yanked: yanked.map(str::to_owned), ..links.remove(0) }
    }

    #[test]
    fn build_tags_and_local_versions_win_against_pins() {
        let state = |own: &str, links: &[PageLink]| {
            let own = distribution_of(own).unwrap();
            match registered(&own.project, std::slice::from_ref(&own), links) {
                NameState::Registered { against_pins, higher } => (against_pins, higher),
                other => panic!("{other:?}"),
            }
        };
        let others = [
            link("rocm-7.14.0-1-py3-none-any.whl", None),
            link("rocm-7.14.0-py3-none-any.whl", None),
            link("rocm-7.14.0+x-py3-none-any.whl", None),
            link("rocm-7.13.0-9-py3-none-any.whl", None),
            link("rocm-7.15.0.tar.gz", None),
            link("rocm-9.0-py3-none-any.whl", Some("bad")),
            link("other-9.0-py3-none-any.whl", None),
        ];
        let pinned =
            ["rocm-7.14.0+x-py3-none-any.whl", "rocm-7.14.0-1-py3-none-any.whl", "rocm-7.14.0-py3-none-any.whl"];
        let higher = vec!["rocm-7.15.0.tar.gz".to_owned()];
        assert_eq!(
            state("rocm-7.14.0-py3-none-any.whl", &others),
            (pinned.map(str::to_owned).to_vec(), higher.clone())
        );
        let pinned = vec![pinned[0].to_owned()];
        assert_eq!(state("rocm-7.14.0-2-py3-none-any.whl", &others), (pinned, higher));
        let torch =
            [link("torch-2.9.1-9-py3-none-any.whl", None), link("torch-2.9.1+rocm7.2-1-py3-none-any.whl", None)];
        let pinned = vec!["torch-2.9.1+rocm7.2-1-py3-none-any.whl".to_owned()];
        assert_eq!(state("torch-2.9.1+rocm7.2-py3-none-any.whl", &torch), (pinned, vec![]));
    }
}
