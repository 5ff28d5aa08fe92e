//! The second half of planning. Input: populations and the development tree. Output: wheels and
//! selectors with their metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rocwheel_tables::target::base_target;
use rocwheel_wheel::manylinux::{self, FileNeeds};
use rocwheel_wheel::{Platform, Tag, WheelName};

use rocwheel_progress::{Exit, Failure};

use super::systems::Folders;
use super::{Planner, Set};
use crate::contents::console_scripts;
use crate::devel::{DevelEntry, device_links};
use crate::dist_info::Promise;
use crate::plan::{Plan, PlannedDevel, PlannedSelector, PlannedWheel};
use crate::populate::{PlannedFile, Population};
use crate::request::SelectorForm;
use crate::templates::unusable;
use crate::{Logical, templates};

impl Planner<'_> {
    /// Adds the wheels of the sets to the plan, in the folders that `folders` selects.
    pub(super) fn add_wheels(
        &self,
        plan: &mut Plan,
        promise: &Promise,
        sets: &[Set],
        folders: Folders,
    ) -> Result<(), Failure> {
        for (index, set) in sets.iter().enumerate() {
            let highest = self.platform(set.populations.iter().flat_map(|population| self.needs(population)))?;
            for population in &set.populations {
                // Core and profiler are the same for every family, so only the first set writes
                // them.
                let common = matches!(population.logical, Logical::Core | Logical::Profiler);
                if (index == 0 || !common) && self.wanted(population.logical) {
                    let platform = match population.logical {
                        Logical::Device => highest.clone(),
                        _ => self.platform(self.needs(population))?,
                    };
                    plan.wheels.push(self.wheel(promise, set, population, platform)?);
                }
            }
            if !set.devel.entries.is_empty() && self.wanted(Logical::Devel) {
                plan.wheels.push(self.devel_wheel(promise, set, folders)?);
            }
        }
        Ok(())
    }

    pub(super) fn wanted(&self, logical: Logical) -> bool {
        self.request.only.is_empty() || self.request.only.contains(&logical)
    }

    fn needs<'b>(&'b self, population: &'b Population) -> impl Iterator<Item = FileNeeds> + 'b {
        population
            .elves(&self.natures)
            .map(|(path, elf)| FileNeeds::of(format!("{}/{path}", population.platform_package), elf))
    }

    /// Returns the platform tag and the file and symbol that determine it.
    fn platform(&self, needs: impl Iterator<Item = FileNeeds>) -> Result<(String, Option<String>), Failure> {
        if let Some(tag) = &self.request.platform_tag {
            if Platform::of_tag(tag).is_none_or(|system| system == self.system) {
                return Ok((tag.clone(), None));
            }
            if self.request.windows_artifacts.is_none() {
                let (what, system) = ("is not a platform tag for", self.system);
                let failure = Failure::message(format!("`{tag}` {what} {system}, which these artifacts are for"));
                let hint = "remove --platform-tag: rocwheel finds the right one";
                return Err(failure.with_hint(hint).with_exit(Exit::Usage));
            }
        }
        if self.system == Platform::Windows {
            return Ok((rocwheel_tables::windows::PLATFORM.to_owned(), None));
        }
        let needs: Vec<FileNeeds> = needs.collect();
        let floor = manylinux::floor(&needs);
        Ok((floor.tag, floor.reasons.first().map(ToString::to_string)))
    }

    fn base_wheel(
        &self,
        logical: Logical,
        target: Option<&str>,
        promise: &Promise,
        platform: (String, Option<String>),
    ) -> Result<PlannedWheel, Failure> {
        if !self.templates.has(logical) {
            let path = self.request.templates.clone().unwrap_or_default();
            return Err(unusable(&path, &format!("they have nothing for the distribution `{logical}`")));
        }
        let rule = self.rules.of(logical);
        let name = promise.distribution_name(logical, target);
        let tags = [Tag::platform(&platform.0)];
        let file_name = WheelName::new(&name, &self.version, &tags)?.to_string();
        let mut requires: Vec<String> =
            rule.requires.iter().map(|required| promise.requirement(*required, target)).collect();
        if let (Logical::Device, Some(target)) = (logical, target) {
            let generics = promise.generics_of(target, self.system);
            requires.extend(generics.map(|generic| promise.requirement(Logical::Device, Some(generic))));
        }
        Ok(PlannedWheel {
            logical,
            system: self.system,
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
    ) -> Result<PlannedWheel, Failure> {
        let logical = population.logical;
        let target = population.target.as_deref();
        let mut wheel = self.base_wheel(logical, target, promise, platform)?;
        let package = &population.platform_package;
        for (path, file) in &population.files {
            check_name(&format!("{package}/{path}"), Some(file))?;
        }
        self.check_for_windows(package, population.files.keys())?;
        wheel.files = population.files.iter().map(|(path, file)| (format!("{package}/{path}"), file.clone())).collect();
        if logical == Logical::Device {
            let target = target.unwrap_or_default();
            let module = format!("_device_{}.py", target.replace('-', "_"));
            // TheRock's tests expect every file of the libraries' folder in the devel tree,
            // including this one.
            let linked: BTreeSet<String> = population.files.keys().chain([&module]).cloned().collect();
            let links = device_links(&self.version, package, linked.into_iter());
            wheel.files.insert(format!("{package}/.devel_links/{target}.json"), PlannedFile::text(links));
            let text = templates::device_module(target, &self.version);
            wheel.files.insert(format!("{package}/{module}"), PlannedFile::text(text));
        } else {
            wheel.files.insert(format!("{package}/__init__.py"), PlannedFile::text(""));
            let tools = self.templates.with_functions(logical, self.tools.of(population, self.system));
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

    /// Adds the Python code of a wheel and its `_dist_info.py`. Returns the name of the import
    /// package.
    fn add_python(
        &self,
        wheel: &mut PlannedWheel,
        promise: &Promise,
        family: Option<&str>,
        target: Option<&str>,
    ) -> String {
        let mut pure = wheel.logical.import_package();
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

    fn devel_wheel(&self, promise: &Promise, set: &Set, folders: Folders) -> Result<PlannedWheel, Failure> {
        let root = self.platform_package(Logical::Devel, None);
        let files = set.devel.entries.values().filter_map(|entry| match entry {
            DevelEntry::File(file) => Some(file),
            _ => None,
        });
        // Its links lead to files of every other wheel, so its platform must satisfy them as well
        // as the files in its own tar.
        let in_tar = files.clone().filter_map(|file| {
            let path = file.path()?;
            let elf = self.natures.of(path).elf()?;
            Some(FileNeeds::of(path.display().to_string(), elf))
        });
        let runtime = set.populations.iter().flat_map(|population| self.needs(population));
        let platform = self.platform(runtime.chain(in_tar))?;
        let mut wheel = self.base_wheel(Logical::Devel, None, promise, platform)?;
        wheel.folder = folders.of(set.family.as_deref());
        let pure = self.add_python(&mut wheel, promise, set.family.as_deref(), None);
        let owners = files.flat_map(|file| file.owners.iter().copied()).collect();
        self.add_licenses(&mut wheel, &owners);
        for (path, entry) in &set.devel.entries {
            let file = if let DevelEntry::File(file) = entry { Some(file) } else { None };
            check_name(&format!("{root}/{path}"), file)?;
        }
        self.check_for_windows(&root, set.devel.entries.keys())?;
        let mut members: Vec<(String, DevelEntry)> =
            set.devel.tar_order().into_iter().map(|path| (path.to_owned(), set.devel.entries[path].clone())).collect();
        if self.templates.import_the_devel_tree() && !set.devel.entries.contains_key("__init__.py") {
            members.insert(0, ("__init__.py".to_owned(), DevelEntry::File(PlannedFile::text(""))));
        }
        wheel.devel = Some(PlannedDevel { path: format!("{pure}/_devel.tar"), root, members });
        Ok(wheel)
    }

    /// Refuses paths that cannot be created on Windows, and paths that differ only by case.
    fn check_for_windows<'p>(
        &self,
        package: &str,
        paths: impl Iterator<Item = &'p String> + Clone,
    ) -> Result<(), Failure> {
        if self.system != Platform::Windows {
            return Ok(());
        }
        for path in paths.clone() {
            if let Some(reason) = rocwheel_system::refused_by_windows(path) {
                return Err(wrong_path(package, path, reason));
            }
        }
        match rocwheel_system::same_but_for_case(paths.map(String::as_str)).into_iter().next() {
            Some((other, path)) => {
                Err(wrong_path(package, &path, &format!("it is the same path as `{package}/{other}` there")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn selector(
        &self,
        promise: &Promise,
        family: Option<&str>,
        folders: Folders,
        form: SelectorForm,
    ) -> PlannedSelector {
        let folder = folders.of(family);
        let promise = folder.as_deref().map_or_else(|| promise.clone(), |family| promise.restricted_to(family));
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
            folder,
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

/// Refuses a name that cannot be unpacked on every system or be listed in a RECORD.
fn check_name(name: &str, file: Option<&PlannedFile>) -> Result<(), Failure> {
    rocwheel_archive::check_member_name(name).map_err(|error| {
        let path = file.and_then(|file| file.path().cloned()).unwrap_or_else(|| name.into());
        let attempt = format!("`{}` cannot be packaged under its name", path.display());
        Failure::attempt(attempt)(error).with_hint(RENAME).with_exit(Exit::Failed)
    })
}

const RENAME: &str = "rename the file in the artifact, or remove it";

fn wrong_path(package: &str, path: &str, reason: &str) -> Failure {
    Failure::message(format!("`{package}/{path}` cannot be packaged for Windows: {reason}")).with_hint(RENAME)
}
