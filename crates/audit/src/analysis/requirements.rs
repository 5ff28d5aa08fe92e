//! Input: what the wheels of a set require. Output: which of them bring which libraries.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use crate::declared::Declared;
use rocwheel_index::requirement::{InstallTarget, Requirement};
use rocwheel_rocm::owners::{Owner, Owners};
use rocwheel_wheel::Platform;

/// What one wheel requires, as canonical names.
#[derive(Debug, Default)]
pub(crate) struct Requirements {
    /// Always, with this Python on Linux.
    pub(crate) plain: BTreeSet<String>,
    /// With an extra: name of the extra → names.
    pub(crate) extras: BTreeMap<String, BTreeSet<String>>,
    /// How the names of its own device wheels begin. They hold GPU code of this wheel, and no
    /// library, whatever else is called so.
    devices: String,
    /// For which system markers were read.
    platform: Platform,
}

/// How a wheel comes by the libraries of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Brought {
    /// A requirement of it, or of what it requires, brings them.
    By(String),
    /// One that only this extra has.
    ByExtra(String),
    /// Not that anyone knows. What is required, was given and could have brought them is named.
    No(BTreeSet<String>),
}

impl Requirements {
    /// What a wheel of this canonical name requires in an environment.
    pub(crate) fn of(name: &str, declared: &Declared, wheel: usize, target: &InstallTarget) -> Requirements {
        let asked = |requirement: &&Requirement| requirement.applies(target, &declared.extras[wheel]);
        let plain =
            declared.wheels[wheel].all.iter().filter(asked).map(|requirement| requirement.name.clone()).collect();
        let mut extras: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for requirement in &declared.wheels[wheel].all {
            if requirement.applies(target, &BTreeSet::new()) {
                continue;
            }
            for extra in &declared.wheels[wheel].extras {
                if requirement.applies(target, &BTreeSet::from([extra.clone()])) {
                    extras.entry(extra.clone()).or_default().insert(requirement.name.clone());
                }
            }
        }
        Requirements { plain, extras, devices: format!("{name}-device-"), platform: target.platform }
    }

    /// The wheel of this canonical name, if one of the set can stand beside this one.
    pub(crate) fn named(&self, context: &Context<'_>, name: &str) -> Option<usize> {
        context.named_on(self.platform, name)
    }

    /// Whether a required distribution was given with all its files: what it does not have then, it
    /// does not have.
    fn is_known(&self, context: &Context<'_>, name: &str) -> bool {
        // Of an editable installation the files are elsewhere.
        self.named(context, name).is_some_and(|other| context.site.distributions[other].is_complete())
    }

    /// Wheels of the set that this one requires, and what those require.
    pub(crate) fn closure(&self, context: &Context<'_>, own: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.plain.iter().filter_map(|name| self.named(context, name)).collect();
        // What is installed by an extra is in the set because somebody chose it.
        open.extend(self.extras.values().flatten().filter_map(|name| self.named(context, name)));
        while let Some(wheel) = open.pop() {
            if wheel != own && found.insert(wheel) {
                let requirements = context.required_on(self.platform, wheel);
                open.extend(requirements.plain.iter().filter_map(|name| self.named(context, name)));
            }
        }
        found
    }

    /// All names that are required, by this wheel and by what it requires in the set.
    fn names<'c>(&'c self, context: &'c Context<'_>) -> BTreeSet<&'c str> {
        let mut names: BTreeSet<&str> = self.plain.iter().map(String::as_str).collect();
        let mut open: Vec<usize> = names.iter().filter_map(|name| self.named(context, name)).collect();
        let mut seen = BTreeSet::new();
        while let Some(wheel) = open.pop() {
            if seen.insert(wheel) {
                let required = context.required_on(self.platform, wheel).plain.iter().map(String::as_str);
                open.extend(required.clone().filter_map(|name| self.named(context, name)));
                names.extend(required);
            }
        }
        names
    }

    /// How the libraries of an owner come.
    pub(crate) fn brings(&self, context: &Context<'_>, owner: &Owner) -> Brought {
        let is_bringer = |name: &str| owner.is_brought_by(name) && !name.starts_with(&self.devices);
        let bringers = self.names(context).into_iter().filter(|name| is_bringer(name));
        // What was given has shown all that it has.
        let (lacking, absent): (Vec<&str>, Vec<&str>) = bringers.partition(|name| self.is_known(context, name));
        if let Some(name) = absent.first() {
            return Brought::By((*name).to_owned());
        }
        let may_bring = |name: &String| is_bringer(name) && !self.is_known(context, name);
        match self.extras.iter().find(|(_, names)| names.iter().any(may_bring)) {
            Some((extra, _)) => Brought::ByExtra(extra.clone()),
            None => Brought::No(lacking.into_iter().map(str::to_owned).collect()),
        }
    }

    /// Requirements that were not given and of which nobody knows what they bring.
    pub(crate) fn unknown(&self, context: &Context<'_>) -> Vec<String> {
        let names = self.names(context).into_iter();
        let unknown = names.filter(|name| !self.is_known(context, name) && !Owners::embedded().is_plain(name));
        unknown.map(str::to_owned).collect()
    }
}
