//! Input: the requirements of the wheels of a set. Output: the requirements that bring each
//! library.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use crate::declared::Declared;
use rocwheel_index::requirement::InstallTarget;
use rocwheel_tables::owners::{LibraryOwner, Owners};
use rocwheel_wheel::Platform;

/// The requirements of one wheel, as canonical names.
#[derive(Debug, Default)]
pub(crate) struct Requirements {
    /// Those that apply without an extra, for this Python on the wheel's system.
    pub(crate) plain: BTreeSet<String>,
    /// Those that an extra adds: extra → names.
    pub(crate) extras: BTreeMap<String, BTreeSet<String>>,
    /// Prefix of the names of the wheel's own device wheels. They hold GPU code of this wheel but
    /// no library, even if their names match a pattern for libraries.
    devices: String,
    /// The system whose environment markers were evaluated.
    platform: Platform,
}

/// How a wheel gets the libraries of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Brought {
    /// A direct or indirect requirement brings them.
    By(String),
    /// Only the requirement of this extra brings them.
    ByExtra(String),
    /// No requirement is known to bring them. Lists the given requirements that could have.
    No(BTreeSet<String>),
}

impl Requirements {
    /// Evaluates the requirements of the wheel with this canonical name for a target.
    pub(crate) fn of(name: &str, declared: &Declared, wheel: usize, target: &InstallTarget) -> Requirements {
        let all = declared.wheels[wheel].all.iter();
        let plain = all.filter(|requirement| requirement.applies(target, &declared.extras[wheel]));
        let plain = plain.map(|requirement| requirement.name.clone()).collect();
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

    /// The number of the wheel with this canonical name, if a system can install it beside this
    /// one.
    pub(crate) fn named(&self, context: &Context<'_>, name: &str) -> Option<usize> {
        context.named_on(self.platform, name)
    }

    /// `true` if a required distribution was given with all its files, so that a library it lacks
    /// is really absent.
    fn is_known(&self, context: &Context<'_>, name: &str) -> bool {
        // The files of an editable installation are elsewhere.
        self.named(context, name).is_some_and(|other| context.site.distributions[other].is_complete())
    }

    /// The wheels of the set that this one requires, directly or through others.
    pub(crate) fn closure(&self, context: &Context<'_>, own: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.plain.iter().filter_map(|name| self.named(context, name)).collect();
        // A package that only an extra requires is in the set because the user chose it.
        open.extend(self.extras.values().flatten().filter_map(|name| self.named(context, name)));
        while let Some(wheel) = open.pop() {
            if wheel != own && found.insert(wheel) {
                let requirements = context.required_on(self.platform, wheel);
                open.extend(requirements.plain.iter().filter_map(|name| self.named(context, name)));
            }
        }
        found
    }

    /// All required names, direct and through wheels of the set.
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

    /// Determines how this wheel gets the libraries of an owner.
    pub(crate) fn brings(&self, context: &Context<'_>, owner: &LibraryOwner) -> Brought {
        let bringers = self.names(context).into_iter().filter(|name| self.is_bringer(owner, name));
        // All files of a given wheel are known.
        let (lacking, absent): (Vec<&str>, Vec<&str>) = bringers.partition(|name| self.is_known(context, name));
        if let Some(name) = absent.first() {
            return Brought::By((*name).to_owned());
        }
        match self.extras.iter().find(|(_, names)| names.iter().any(|name| self.may_bring(context, owner, name))) {
            Some((extra, _)) => Brought::ByExtra(extra.clone()),
            None => Brought::No(lacking.into_iter().map(str::to_owned).collect()),
        }
    }

    /// The requirements that were not given and that may bring the libraries of an owner.
    pub(crate) fn bringers(&self, context: &Context<'_>, owner: &LibraryOwner) -> Vec<String> {
        let names = self.names(context).into_iter().filter(|name| self.may_bring(context, owner, name));
        names.map(str::to_owned).collect()
    }

    fn is_bringer(&self, owner: &LibraryOwner, name: &str) -> bool {
        owner.is_brought_by(name) && !name.starts_with(&self.devices)
    }

    fn may_bring(&self, context: &Context<'_>, owner: &LibraryOwner, name: &str) -> bool {
        self.is_bringer(owner, name) && !self.is_known(context, name)
    }

    /// Requirements that were not given and whose libraries no table lists.
    pub(crate) fn unknown(&self, context: &Context<'_>) -> Vec<String> {
        let names = self.names(context).into_iter();
        let unknown = names.filter(|name| !self.is_known(context, name) && !Owners::embedded().is_plain(name));
        unknown.map(str::to_owned).collect()
    }
}
