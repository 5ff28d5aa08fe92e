//! Input: an environment. Output: what each of its wheels declares that it needs of the others
//! ([`Declared`]), and what is declared and not so: requirements that nothing meets, or that
//! nothing needs.

mod mentions;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use pep440_rs::Version;
use pep508_rs::MarkerEnvironment;
use rocwheel_index::requirement::{InstallTarget, Requirement, Requirements};
use rocwheel_loader::site::Site;
use rocwheel_wheel::Platform;

pub use mentions::unneeded;

/// What the wheels of an environment declare of each other.
#[derive(Debug, Clone)]
pub struct Declared {
    /// One for each of [`Site::distributions`], in their order.
    pub wheels: Vec<Requirements>,
    /// The extras of each wheel that others ask for.
    pub extras: Vec<BTreeSet<String>>,
    /// The version of each wheel, as its METADATA has it.
    pub versions: Vec<Version>,
    index: BTreeMap<String, usize>,
    /// The platform tags of each wheel, and the system that they are for.
    platforms: Vec<(Vec<String>, Platform)>,
    environments: Vec<MarkerEnvironment>,
}

/// Which requirements count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extras {
    /// Those without extra and those of extras that another wheel of the environment asks for.
    Asked,
    /// Those of every extra.
    Every,
}

/// A requirement that the environment does not meet.
#[derive(Debug, Clone)]
pub struct UnmetRequirement<'a> {
    /// Index into [`Site::distributions`] of the wheel that declares it.
    pub wheel: usize,
    /// The requirement.
    pub requirement: &'a Requirement,
    /// The wheel of that name that is there with another version, as an index into
    /// [`Site::distributions`].
    pub other: Option<usize>,
}

impl Declared {
    /// Reads what the wheels of an environment declare.
    pub fn read(site: &Site, target: &InstallTarget) -> Declared {
        let version = |text: &str| {
            // What is in a file name is escaped.
            let plain = || Version::from_str(&text.replace('_', "-"));
            Version::from_str(text).or_else(|_| plain()).unwrap_or_else(|_| Version::new([0]))
        };
        let targets: Vec<InstallTarget> =
            site.distributions.iter().map(|distribution| target.of_wheel(&distribution.platforms())).collect();
        let mut declared = Declared {
            wheels: site.distributions.iter().map(|wheel| Requirements::of(&wheel.metadata)).collect(),
            extras: vec![BTreeSet::new(); site.distributions.len()],
            versions: site.distributions.iter().map(|distribution| version(&distribution.version())).collect(),
            index: site.distributions.iter().enumerate().map(|(index, wheel)| (wheel.name.clone(), index)).collect(),
            platforms: site
                .distributions
                .iter()
                .zip(&targets)
                .map(|(wheel, target)| (wheel.platforms(), target.platform))
                .collect(),
            environments: targets.iter().map(InstallTarget::environment).collect(),
        };
        // Extras ask for extras; each round asks for one more or is the last.
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

    /// The wheel of a distribution, by its canonical name, if the system of another installs it
    /// beside that one.
    pub fn required(&self, beside: usize, name: &str) -> Option<usize> {
        let system = self.platforms[beside].1;
        self.index.get(name).copied().filter(|wheel| system.takes(&self.platforms[*wheel].0))
    }

    /// What a wheel requires on this target.
    pub fn of(&self, wheel: usize, extras: Extras) -> impl Iterator<Item = &Requirement> {
        self.wheels[wheel].all.iter().filter(move |requirement| match extras {
            Extras::Asked => requirement.applies_in(&self.environments[wheel], &self.extras[wheel]),
            Extras::Every => requirement.applies_in(&self.environments[wheel], &self.wheels[wheel].extras),
        })
    }

    /// The wheels that are there when a wheel is installed: itself and those it requires, directly
    /// or through others.
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
