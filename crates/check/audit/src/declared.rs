//! Input: an environment. Output: the requirements that its wheels declare on each other
//! ([`Declared`]), and the wrong ones: requirements that nothing meets, or that nothing needs.

mod mentions;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use pep440_rs::Version;
use pep508_rs::MarkerEnvironment;
use rocwheel_index::requirement::{InstallTarget, Requirement, Requirements};
use rocwheel_loader::site::Site;
use rocwheel_wheel::Platform;

pub use mentions::UnneededSearch;

/// The requirements that the wheels of an environment declare.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The requirements of each of [`Site::distributions`], in their order.
    pub wheels: Vec<Requirements>,
    /// The extras of each wheel that other wheels request.
    pub extras: Vec<BTreeSet<String>>,
    /// The version of each wheel from its METADATA; 0 if it cannot be parsed.
    pub versions: Vec<Version>,
    index: BTreeMap<String, usize>,
    /// The platform tags of each wheel, and the system of these tags.
    platforms: Vec<(Vec<String>, Platform)>,
    environments: Vec<MarkerEnvironment>,
}

/// Which requirements to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extras {
    /// Requirements without an extra, and those of extras that another wheel of the environment
    /// requests.
    Asked,
    /// Requirements of every extra.
    Every,
}

/// A requirement that the environment does not meet.
#[derive(Debug, Clone)]
pub struct UnmetRequirement<'a> {
    /// Index into [`Site::distributions`] of the wheel that declares it.
    pub wheel: usize,
    /// The requirement as METADATA declares it.
    pub requirement: &'a Requirement,
    /// Index into [`Site::distributions`] of the wheel that has the name but another version;
    /// `None` if no wheel has the name.
    pub other: Option<usize>,
}

/// 0 for a text that is not a version.
fn parse_version(text: &str) -> Version {
    // A version in a file name is escaped.
    let parsed = Version::from_str(text).or_else(|_| Version::from_str(&text.replace('_', "-")));
    parsed.unwrap_or_else(|_| Version::new([0]))
}

impl Declared {
    /// Reads the requirements that the wheels of an environment declare. `target` evaluates their
    /// markers.
    pub fn read(site: &Site, target: &InstallTarget) -> Declared {
        let targets: Vec<InstallTarget> =
            site.distributions.iter().map(|distribution| target.of_wheel(&distribution.platforms())).collect();
        let mut declared = Declared {
            wheels: site.distributions.iter().map(|wheel| Requirements::of(&wheel.metadata)).collect(),
            extras: vec![BTreeSet::new(); site.distributions.len()],
            versions: site.distributions.iter().map(|distribution| parse_version(&distribution.version())).collect(),
            index: site.distributions.iter().enumerate().map(|(index, wheel)| (wheel.name.clone(), index)).collect(),
            platforms: site
                .distributions
                .iter()
                .zip(&targets)
                .map(|(wheel, target)| (wheel.platforms(), target.platform))
                .collect(),
            environments: targets.iter().map(InstallTarget::environment).collect(),
        };
        // An extra may request other extras, so repeat until a round adds none.
        loop {
            let asked: Vec<(usize, String)> = (0..declared.wheels.len())
                .flat_map(|wheel| declared.of(wheel, Extras::Asked).map(move |requirement| (wheel, requirement)))
                .filter_map(|(wheel, requirement)| {
                    Some((declared.required(wheel, &requirement.name)?, &requirement.extras))
                })
                .flat_map(|(wheel, extras)| extras.iter().map(move |extra| (wheel, extra.clone())))
                .collect();
            let mut changed = false;
            for (wheel, extra) in asked {
                changed |= declared.extras[wheel].insert(extra);
            }
            if !changed {
                return declared;
            }
        }
    }

    /// Index of the wheel with this canonical name, if the system of the wheel `beside` installs it
    /// too.
    pub fn required(&self, beside: usize, name: &str) -> Option<usize> {
        let system = self.platforms[beside].1;
        self.index.get(name).copied().filter(|wheel| system.takes(&self.platforms[*wheel].0))
    }

    pub fn of(&self, wheel: usize, extras: Extras) -> impl Iterator<Item = &Requirement> {
        self.wheels[wheel].all.iter().filter(move |requirement| match extras {
            Extras::Asked => requirement.applies_in(&self.environments[wheel], &self.extras[wheel]),
            Extras::Every => requirement.applies_in(&self.environments[wheel], &self.wheels[wheel].extras),
        })
    }

    /// The requirements of a wheel that no version of a distribution meets together, in groups by
    /// that distribution.
    pub fn contradictions(&self, wheel: usize) -> Vec<Vec<&Requirement>> {
        let mut by_name: BTreeMap<&str, Vec<&Requirement>> = BTreeMap::new();
        for requirement in self.of(wheel, Extras::Asked) {
            by_name.entry(&requirement.name).or_default().push(requirement);
        }
        by_name.into_values().filter(|requirements| Requirement::contradict(requirements)).collect()
    }

    /// Indices of the wheels that are installed with a wheel: itself and those it requires,
    /// directly or through others.
    pub fn reaches(&self, wheel: usize, extras: Extras) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([wheel]);
        let mut open = vec![wheel];
        while let Some(wheel) = open.pop() {
            for requirement in self.of(wheel, extras) {
                if let Some(required) = self.required(wheel, &requirement.name)
                    && reached.insert(required)
                {
                    open.push(required);
                }
            }
        }
        reached
    }

    /// The requirements that no wheel of the environment meets, in the order of the wheels.
    pub fn unmet(&self) -> Vec<UnmetRequirement<'_>> {
        let mut unmet = Vec::new();
        for wheel in 0..self.wheels.len() {
            for requirement in self.of(wheel, Extras::Asked) {
                let other = self.required(wheel, &requirement.name);
                if other.is_none_or(|other| !requirement.accepts(&self.versions[other])) {
                    unmet.push(UnmetRequirement { wheel, requirement, other });
                }
            }
        }
        unmet
    }
}
