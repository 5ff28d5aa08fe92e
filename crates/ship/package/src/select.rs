//! Input: artifacts and the table of distributions. Output: the paths that each distribution takes,
//! and the artifacts and files that none takes (rocm-python-packages spec 2.6, 2.12).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_artifact::{Artifact, Catalog, EntryKind};
use rocwheel_tables::Predicate;
use rocwheel_wheel::Platform;

use crate::Logical;
use crate::plan::LeftOut;
use crate::request::Shape;
use crate::rules::{Rule, Rules};
use crate::tree::Tree;

/// Assigns artifacts to distributions in one shape.
pub struct ArtifactSelection<'a> {
    pub catalog: &'a Catalog,
    pub rules: &'a Rules,
    pub shape: Shape,
    pub system: Platform,
    /// Base targets, or families in the per-family shape, that are packaged.
    pub targets: &'a [String],
}

/// Returns the includes and excludes of a rule. Includes are an allow-list on top of the artifact's
/// own patterns.
fn predicate(rule: &Rule) -> Predicate {
    Predicate::new(rule.include.iter().map(String::as_str), rule.exclude.iter().map(String::as_str))
}

impl ArtifactSelection<'_> {
    /// `true` for artifacts for every GPU or for a packaged target.
    pub fn in_scope(&self, artifact: &Artifact) -> bool {
        artifact.name.is_generic() || self.targets.iter().any(|target| target == artifact.name.base_target())
    }

    /// `true` if `logical` for `target` takes files of this artifact. `target` only matters for
    /// distributions that have one in this shape.
    pub fn takes(&self, logical: Logical, target: Option<&str>, artifact: &Artifact) -> bool {
        let name = &artifact.name;
        let rule = self.rules.of(logical);
        let is_own = target == Some(name.base_target());
        let fits = match (logical, self.shape) {
            // AMD builds the profilers for Linux alone (spec 2.3).
            (Logical::Profiler, _) if self.system == Platform::Windows => false,
            (Logical::Device, _) => !name.is_generic() && is_own,
            (Logical::Libraries | Logical::Hpc | Logical::Devel, Shape::Split) => name.is_generic(),
            (Logical::Libraries | Logical::Hpc | Logical::Devel, Shape::PerFamily) => name.is_generic() || is_own,
            _ => true,
        };
        let taken = match logical {
            Logical::Devel => self.devel_takes(artifact),
            Logical::Hpc if self.reason_against_hpc(&name.name).is_some() => false,
            _ => rule.takes(&name.name, &name.component),
        };
        fits && taken && self.in_scope(artifact)
    }

    fn devel_takes(&self, artifact: &Artifact) -> bool {
        let rule = self.rules.of(Logical::Devel);
        let name = &artifact.name;
        let is_hpc = self.rules.of(Logical::Hpc).names(&name.name) && self.reason_against_hpc(&name.name).is_none();
        let runtime = is_hpc
            || [Logical::Core, Logical::Libraries].iter().any(|logical| self.rules.of(*logical).names(&name.name));
        let tests = self.shape == Shape::PerFamily && name.component == "test";
        (runtime || rule.names(&name.name)) && (tests || rule.components.contains(&name.component))
    }

    /// Returns the reason why an artifact of the libraries for HPC is in no package. Where its code
    /// was split off, the libraries would load and find no kernels: device packages have the code
    /// of other artifacts alone (TheRock #6085).
    fn reason_against_hpc(&self, artifact: &str) -> Option<&'static str> {
        let names = self.catalog.artifacts.iter().map(|artifact| &artifact.name);
        let mut libraries = names.filter(|name| name.name == artifact && name.component == "lib").peekable();
        if libraries.peek().is_none() {
            Some("its libraries are not among the artifacts")
        } else if self.shape == Shape::Split && libraries.any(|name| !name.is_generic()) {
            Some("its code was split by GPU target, and no device package takes that")
        } else {
            None
        }
    }

    /// Returns the paths that `logical` takes out of `world`.
    pub fn paths<'t>(&self, logical: Logical, target: Option<&str>, world: &'t Tree) -> BTreeSet<&'t str> {
        let predicate = predicate(self.rules.of(logical));
        let taken: Vec<bool> =
            self.catalog.artifacts.iter().map(|artifact| self.takes(logical, target, artifact)).collect();
        world
            .iter()
            .filter(|(path, node)| {
                let owned = node.owners.iter().any(|owner| taken[*owner]);
                (owned || self.is_shared(logical, node.owners.as_slice())) && predicate.matches(path)
            })
            .map(|(path, _)| path)
            .collect()
    }

    /// `true` for a file that several targets have in common. It would belong to several device
    /// wheels, and uninstalling one would break the others, so the neutral libraries take it
    /// instead.
    fn is_shared(&self, logical: Logical, owners: &[usize]) -> bool {
        if logical != Logical::Libraries || self.shape != Shape::Split || owners.len() < 2 {
            return false;
        }
        let targets: BTreeSet<String> = owners
            .iter()
            .map(|owner| &self.catalog.artifacts[*owner])
            .filter(|artifact| !artifact.name.is_generic())
            .filter(|artifact| self.takes(Logical::Device, Some(artifact.name.base_target()), artifact))
            .map(|artifact| artifact.name.base_target().to_owned())
            .collect();
        targets.len() > 1
    }

    /// `true` if a path is in the neutral libraries although only per-target artifacts hold it.
    pub fn moved_to_libraries(&self, owners: &[usize]) -> bool {
        self.is_shared(Logical::Libraries, owners)
    }

    /// Returns artifacts and files that no distribution takes: those excluded on purpose, and those
    /// without any rule.
    pub fn leftovers(&self) -> (Vec<LeftOut>, Vec<LeftOut>) {
        let mut on_purpose = Vec::new();
        let mut unclaimed = Vec::new();
        for artifact in &self.catalog.artifacts {
            let name = &artifact.name;
            let (list, reason) = if let Some(reason) = self.rules.left_out(&name.name) {
                (&mut on_purpose, reason)
            } else if !self.rules.names(&name.name) {
                (&mut unclaimed, "no distribution names this artifact")
            } else if !self.in_scope(artifact) {
                (&mut on_purpose, "its target was not asked for")
            } else if self.packaged(artifact) {
                let takers = Logical::ALL.into_iter().filter(|logical| self.takes_somehow(*logical, artifact));
                self.leftover_files(artifact, &takers.collect::<Vec<_>>(), &mut on_purpose);
                continue;
            } else if self.system == Platform::Windows && self.rules.of(Logical::Profiler).names(&name.name) {
                (&mut on_purpose, "there are profilers for Linux alone")
            } else if let Some(reason) = self.rules.left_out_component(&name.component) {
                (&mut on_purpose, reason)
            } else if self.rules.of(Logical::Hpc).names(&name.name)
                && let Some(reason) = self.reason_against_hpc(&name.name)
            {
                (&mut on_purpose, reason)
            } else {
                (&mut unclaimed, "no distribution takes this component of the artifact")
            };
            let files = artifact.entries.iter().filter(|entry| entry.kind != EntryKind::Directory).count();
            list.push(LeftOut { what: name.to_string(), reason: reason.to_owned(), files });
        }
        (on_purpose, unclaimed)
    }

    /// `true` if any distribution takes files of the artifact.
    pub fn packaged(&self, artifact: &Artifact) -> bool {
        Logical::ALL.into_iter().any(|logical| self.takes_somehow(logical, artifact))
    }

    fn takes_somehow(&self, logical: Logical, artifact: &Artifact) -> bool {
        if logical == Logical::Meta || (logical == Logical::Device && self.shape != Shape::Split) {
            return false;
        }
        self.takes(logical, Some(artifact.name.base_target()), artifact)
    }

    fn leftover_files(&self, artifact: &Artifact, takers: &[Logical], on_purpose: &mut Vec<LeftOut>) {
        let predicates: Vec<Predicate> = takers.iter().map(|logical| predicate(self.rules.of(*logical))).collect();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in artifact.entries.iter().filter(|entry| entry.kind != EntryKind::Directory) {
            if !predicates.iter().any(|predicate| predicate.matches(&entry.path)) {
                *reasons.entry(self.rules.of(takers[0]).exclude_reason.as_str()).or_default() += 1;
            }
        }
        on_purpose.extend(reasons.into_iter().map(|(reason, files)| LeftOut {
            what: format!("part of {}", artifact.name),
            reason: reason.to_owned(),
            files,
        }));
    }
}
