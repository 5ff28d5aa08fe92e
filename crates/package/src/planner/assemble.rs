//! The second half of planning: populations and the development tree in, wheels and selectors with their metadata out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use artifact::targets::base_target;
use wheel::manylinux::{self, FileNeeds, LibraryNeeds};
use wheel::{Tag, WheelName};

use super::{Findings, Leftovers, Planner, Set};
use crate::contents::console_scripts;
use crate::devel::{DevelEntry, device_links};
use crate::dist_info::Promise;
use crate::populate::{PlannedFile, Population};
use crate::request::{Plan, PlannedDevel, PlannedSelector, PlannedWheel, SelectorForm, Shape};
use crate::{Error, Logical, templates};

fn libraries(elf: &elf::Elf) -> Vec<LibraryNeeds> {
    let versions = |library: &str| {
        let needs = elf.version_needs.iter().filter(|need| need.library == library);
        needs.flat_map(|need| need.versions.iter().cloned()).collect()
    };
    elf.needed.iter().map(|library| LibraryNeeds { library: library.clone(), versions: versions(library) }).collect()
}

impl Planner<'_> {
    fn promise(&self, sets: &[Set]) -> Promise {
        let mut distributions = BTreeSet::from([Logical::Meta]);
        for set in sets {
            distributions.extend(set.populations.iter().map(|population| population.logical));
            if !set.devel.entries.is_empty() {
                distributions.insert(Logical::Devel);
            }
        }
        let per_target = match self.shape {
            Shape::Fat => false,
            Shape::Split => distributions.contains(&Logical::Device),
            Shape::PerFamily => distributions.contains(&Logical::Libraries),
        };
        let of_shape = |targets: &[String]| if per_target { targets.to_vec() } else { Vec::new() };
        let (here, windows_families) = (of_shape(&self.targets), of_shape(&self.on_windows));
        // Markers tell the systems apart, so both lists are needed as soon as there is the other system's.
        let listed = !self.request.targets.is_empty() || !windows_families.is_empty();
        let mut families: Vec<String> = here.iter().chain(&windows_families).cloned().collect();
        artifact::targets::sort(&mut families);
        families.dedup();
        Promise {
            version: self.version.clone(),
            nonce: self.request.nonce.clone(),
            linux_families: if listed { here } else { Vec::new() },
            windows_families,
            families,
            neutral_libraries: self.shape != Shape::PerFamily,
            distributions,
        }
    }

    pub(super) fn finish(
        &self,
        sets: &[Set],
        findings: Findings,
        Leftovers { left_out, unclaimed }: Leftovers,
    ) -> Result<Plan, Error> {
        let promise = self.promise(sets);
        let mut plan = Plan {
            schema: 1,
            shape: self.shape,
            version: self.version.clone(),
            targets: self.targets.clone(),
            wheels: Vec::new(),
            selectors: Vec::new(),
            unclaimed,
            incomplete: self.left_incomplete(),
            left_out,
            dropped_search_paths: findings.dropped,
            notes: findings.notes,
        };
        for (index, set) in sets.iter().enumerate() {
            let highest = self.platform(set.populations.iter().flat_map(|population| self.needs(population)));
            for population in &set.populations {
                // Core and profiler are the same for every family: the first set writes them.
                let common = matches!(population.logical, Logical::Core | Logical::Profiler);
                if (index == 0 || !common) && self.wanted(population.logical) {
                    let platform = match population.logical {
                        Logical::Device => highest.clone(),
                        _ => self.platform(self.needs(population)),
                    };
                    plan.wheels.push(self.wheel(&promise, set, population, platform)?);
                }
            }
            if !set.devel.entries.is_empty() && self.wanted(Logical::Devel) {
                plan.wheels.push(self.devel_wheel(&promise, set)?);
            }
            if self.wanted(Logical::Meta) {
                for form in &self.request.selectors {
                    plan.selectors.push(self.selector(&promise, set, *form));
                }
            }
        }
        plan.notes.sort();
        plan.notes.dedup();
        plan.dropped_search_paths.sort();
        plan.dropped_search_paths.dedup();
        Ok(plan)
    }

    fn wanted(&self, logical: Logical) -> bool {
        self.request.only.is_empty() || self.request.only.contains(&logical)
    }

    fn needs<'b>(&'b self, population: &'b Population) -> impl Iterator<Item = FileNeeds> + 'b {
        population.elves(&self.natures).map(|(path, elf)| FileNeeds {
            file: format!("{}/{path}", population.platform_package),
            libraries: libraries(elf),
        })
    }

    /// Platform tag and what sets it.
    fn platform(&self, needs: impl Iterator<Item = FileNeeds>) -> (String, Option<String>) {
        if let Some(tag) = &self.request.platform_tag {
            return (tag.clone(), None);
        }
        let needs: Vec<FileNeeds> = needs.collect();
        let floor = manylinux::floor(&needs);
        let reason = floor
            .reasons
            .first()
            .map(|reason| format!("{} needs {} of {}", reason.file, reason.version, reason.library));
        (floor.tag, reason)
    }

    fn base_wheel(
        &self,
        logical: Logical,
        target: Option<&str>,
        promise: &Promise,
        platform: (String, Option<String>),
    ) -> Result<PlannedWheel, Error> {
        if !self.templates.has(logical) {
            let path = self.request.templates.clone().unwrap_or_default();
            return Err(Error::Templates {
                path,
                reason: format!("they have nothing for the distribution `{logical}`"),
            });
        }
        let rule = self.rules.of(logical);
        let name = promise.distribution_name(logical, target);
        let tags = [Tag::platform(&platform.0)];
        let file_name = WheelName::new(&name, &self.version, &tags)?.to_string();
        let requires = rule.requires.iter().map(|required| promise.requirement(*required, target)).collect();
        Ok(PlannedWheel {
            logical,
            target: target.map(str::to_owned),
            folder: None,
            name,
            file_name,
            platform_tag: platform.0,
            platform_reason: platform.1,
            summary: rule.summary.replace("{target}", target.unwrap_or_default()),
            license: String::new(),
            requires,
            scripts: BTreeMap::new(),
            tools: Vec::new(),
            files: BTreeMap::new(),
            licenses: BTreeMap::new(),
            devel: None,
        })
    }

    fn wheel(
        &self,
        promise: &Promise,
        set: &Set,
        population: &Population,
        platform: (String, Option<String>),
    ) -> Result<PlannedWheel, Error> {
        let logical = population.logical;
        let target = population.target.as_deref();
        let mut wheel = self.base_wheel(logical, target, promise, platform)?;
        let package = &population.platform_package;
        for (path, file) in &population.files {
            check_name(&format!("{package}/{path}"), Some(file))?;
        }
        wheel.files = population.files.iter().map(|(path, file)| (format!("{package}/{path}"), file.clone())).collect();
        if logical == Logical::Device {
            let target = target.unwrap_or_default();
            let links = device_links(&self.version, package, population.files.keys().cloned());
            wheel.files.insert(format!("{package}/.devel_links/{target}.json"), PlannedFile::text(links));
            let module = templates::device_module(target, &self.version);
            wheel.files.insert(format!("{package}/_device_{}.py", target.replace('-', "_")), PlannedFile::text(module));
        } else {
            let manifest = format!("{package}/share/therock/therock_manifest.json");
            if let (Some(text), Some(file)) = (&self.manifest, wheel.files.get_mut(&manifest)) {
                *file = PlannedFile::text(text.clone());
            }
            wheel.files.insert(format!("{package}/__init__.py"), PlannedFile::text(""));
            let tools = self.templates.with_functions(logical, self.tools.of(population));
            let pure = self.add_python(&mut wheel, promise, set.family.as_deref(), target);
            wheel.scripts = console_scripts(&pure, &tools);
            wheel.tools = tools;
            let contents = self.tools.contents(population, &self.natures, (&wheel.name, &self.version), &wheel.tools);
            wheel.files.insert(format!("{pure}/_contents.json"), PlannedFile::text(contents));
        }
        let owners = population.files.values().flat_map(|file| file.owners.iter().copied()).collect();
        self.add_licenses(&mut wheel, &owners);
        Ok(wheel)
    }

    /// Adds the Python code of a wheel and its `_dist_info.py`; returns the import package it lies in.
    fn add_python(
        &self,
        wheel: &mut PlannedWheel,
        promise: &Promise,
        family: Option<&str>,
        target: Option<&str>,
    ) -> String {
        let mut pure = self.rules.of(wheel.logical).pure_package.clone();
        if let Some(target) = target {
            pure = format!("{pure}_{}", base_target(target).replace('-', "_"));
        }
        for (name, text) in self.templates.package_files(wheel.logical) {
            wheel.files.insert(format!("{pure}/{name}"), PlannedFile::text(text.clone()));
        }
        // Core and profiler are the same for all families.
        let family = family.filter(|_| !matches!(wheel.logical, Logical::Core | Logical::Profiler));
        let promise = family.map_or_else(|| promise.clone(), |family| promise.restricted_to(family));
        let own = family.filter(|_| wheel.logical == Logical::Devel);
        let dist_info = self.templates.dist_info().to_owned() + &promise.lines(wheel.logical, target.or(own));
        wheel.files.insert(format!("{pure}/_dist_info.py"), PlannedFile::text(dist_info));
        pure
    }

    fn add_licenses(&self, wheel: &mut PlannedWheel, owners: &BTreeSet<usize>) {
        let names: BTreeSet<&str> =
            owners.iter().map(|owner| self.catalog.artifacts[*owner].name.name.as_str()).collect();
        let (expression, files) = self.licenses.of(&names);
        wheel.license = expression;
        wheel.licenses = files;
    }

    fn devel_wheel(&self, promise: &Promise, set: &Set) -> Result<PlannedWheel, Error> {
        let root = self.platform_package(Logical::Devel, None);
        let files = || {
            set.devel.entries.values().filter_map(|entry| match entry {
                DevelEntry::File(file) => Some(file),
                _ => None,
            })
        };
        // Its links lead to files of every other wheel, so it needs what they need, and what is in its own tar.
        let in_tar = files().filter_map(|file| {
            let path = file.path()?;
            let elf = self.natures.of(path).elf()?;
            Some(FileNeeds { file: path.display().to_string(), libraries: libraries(elf) })
        });
        let runtime = set.populations.iter().flat_map(|population| self.needs(population));
        let platform = self.platform(runtime.chain(in_tar));
        let mut wheel = self.base_wheel(Logical::Devel, None, promise, platform)?;
        wheel.folder.clone_from(&set.folder);
        let pure = self.add_python(&mut wheel, promise, set.family.as_deref(), None);
        let owners = files().flat_map(|file| file.owners.iter().copied()).collect();
        self.add_licenses(&mut wheel, &owners);
        for (path, entry) in &set.devel.entries {
            let file = if let DevelEntry::File(file) = entry { Some(file) } else { None };
            check_name(&format!("{root}/{path}"), file)?;
        }
        let mut members: Vec<(String, DevelEntry)> =
            set.devel.tar_order().into_iter().map(|path| (path.to_owned(), set.devel.entries[path].clone())).collect();
        if self.templates.import_the_devel_tree() && !set.devel.entries.contains_key("__init__.py") {
            members.insert(0, ("__init__.py".to_owned(), DevelEntry::File(PlannedFile::text(""))));
        }
        wheel.devel = Some(PlannedDevel { path: format!("{pure}/_devel.tar"), root, members });
        Ok(wheel)
    }

    fn selector(&self, promise: &Promise, set: &Set, form: SelectorForm) -> PlannedSelector {
        let promise = set
            .family
            .as_deref()
            .filter(|_| set.folder.is_some())
            .map_or_else(|| promise.clone(), |family| promise.restricted_to(family));
        let extras = match form {
            SelectorForm::Sdist => promise.extras(),
            SelectorForm::Wheel => promise.neutral_extras(),
        };
        let extras = extras
            .into_iter()
            .map(|(extra, requirements)| {
                let lines = requirements.iter().map(|requirement| match &requirement.marker {
                    Some(marker) => format!("{}; {marker}", requirement.text),
                    None => requirement.text.clone(),
                });
                (extra, lines.collect())
            })
            .collect();
        PlannedSelector {
            form,
            place: form.folder(&self.request.selectors),
            folder: set.folder.clone(),
            file_name: match form {
                SelectorForm::Sdist => format!("rocm-{}.tar.gz", promise.version),
                SelectorForm::Wheel => format!("rocm-{}-py3-none-any.whl", promise.version),
            },
            promise,
            templates: Arc::clone(&self.templates),
            extras,
        }
    }
}

/// Refuses a name that could not be unpacked everywhere, or not be listed in a RECORD.
fn check_name(name: &str, file: Option<&PlannedFile>) -> Result<(), Error> {
    wheel::check_member_name(name).map_err(|source| {
        let path = file.and_then(|file| file.path().cloned()).unwrap_or_else(|| name.into());
        Error::Name { path, source }
    })
}
