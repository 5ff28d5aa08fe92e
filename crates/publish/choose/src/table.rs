//! Input: a question for several packages, Pythons and GPUs. Output: for each combination the
//! newest complete set, or what is missing, and the same of each night. Wheels are not looked into.
//!
//! Each version of a package is asked for by itself, for all GPUs at once: a set for all of them
//! has one for each. Otherwise those that the refusal names are asked without the others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;

use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_delta::IndexSite;
use rocwheel_index::requirement::Requirement;
use rocwheel_index::{page, tags};
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_store::listing::distribution_of;
use rocwheel_tables::TargetTable;
use rocwheel_tables::device_packages::extra;
use rocwheel_wheel::{PythonVersion, WheelName, canonical_name};
use serde::Serialize;

use crate::evidence::{Pages, served_by, target_of};
use crate::near::pythons_of;
use crate::question::{Question, parsed, with_extras};
use crate::resolver::Resolvers;
use crate::search::{Looking, search, with_package};
use crate::set::{ChosenPackage, PackageOrigin, pinned};

/// The most versions that are looked at for a complete one.
const MOST_VERSIONS: usize = 64;
/// Limit in bytes for the list of projects.
const LIMIT: u64 = 64 << 20;

/// A package for a GPU and a Python.
#[derive(Debug, Clone, Serialize)]
pub struct ChoiceCell {
    pub package: String,
    pub python: String,
    pub gpu: String,
    /// The newest complete set: what is asked for, with versions; empty if there is none.
    pub set: Vec<String>,
    /// The time at which the package of that set was published.
    pub published: Option<String>,
    /// Newer versions that do not count, or why there is no set, and how many versions were not
    /// looked at for one.
    pub missing: Vec<String>,
    /// The versions that were looked at, the newest first.
    pub nights: Vec<ChoiceNight>,
}

impl ChoiceCell {
    fn empty(package: &str, python: PythonVersion, gpu: &str) -> ChoiceCell {
        let (package, python, gpu) = (package.to_owned(), python.to_string(), gpu.to_owned());
        ChoiceCell { package, python, gpu, set: Vec::new(), published: None, missing: Vec::new(), nights: Vec::new() }
    }

    /// Everything that is missing, also of older nights.
    pub fn holes(&self) -> BTreeSet<String> {
        let name = parsed(&self.package).map_or_else(|_| self.package.clone(), |one| one.name);
        let nights = self.nights.iter();
        let nights = nights.filter_map(|night| Some(hole(&name, &night.version, night.missing.as_ref()?)));
        self.missing.iter().cloned().chain(nights).collect()
    }
}

fn hole(name: &str, version: &str, reason: &str) -> String {
    format!("{name} {version}: {reason}")
}

/// A version of a package for a GPU and a Python.
#[derive(Debug, Clone, Serialize)]
pub struct ChoiceNight {
    pub version: String,
    /// The time at which it was published.
    pub published: Option<String>,
    /// Why there is no set with it; `None` if there is one.
    pub missing: Option<String>,
}

/// How many versions of each package are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nights {
    /// Those down to the newest that is complete.
    ToComplete,
    /// So many.
    Newest(usize),
}

/// The combinations, by package, Python and GPU. Without Pythons, those that the packages are
/// compiled for; without GPUs, those that the indexes have packages for.
///
/// # Errors
/// Those of [`crate::ask`].
pub fn table(
    question: &Question<'_>,
    (pythons, nights): (&[PythonVersion], Nights),
    resolvers: &Resolvers,
    progress: &Arc<dyn Reporter>,
) -> Result<Vec<ChoiceCell>, Failure> {
    let own = &question.sites[..question.own()];
    let question = &with_package(question, &mut Pages::new(own, own.len(), Arc::clone(progress)))?;
    let (gpus, mut pythons) = (gpus(question, own, &**progress)?, pythons.to_vec());
    if pythons.is_empty() {
        let minors = pythons_of(question, &mut Pages::new(question.sites, own.len(), Arc::clone(progress)))?;
        let minors: BTreeSet<u16> = minors.into_iter().collect();
        pythons.extend(minors.into_iter().map(|minor| PythonVersion { minor, ..question.target.python }));
    }
    if pythons.is_empty() {
        pythons.push(question.target.python);
    }
    let columns: Vec<(&String, PythonVersion)> =
        question.packages.iter().flat_map(|package| pythons.iter().map(move |python| (package, *python))).collect();
    let _stage = progress.stage("Resolving", Some(columns.len() as u64), Unit::Items);
    let all = Pages::new(question.sites, own.len(), Arc::clone(progress));
    let columns = columns.par_iter().map(|(package, python)| {
        let question = question.with(|one| {
            one.packages = vec![(*package).clone()];
            one.gpus.clone_from(&gpus);
            one.target.python = *python;
        });
        let pages = Pages::new(question.sites, own.len(), Arc::clone(progress)).sharing_metadata(&all);
        let cells =
            Column { question, resolvers, pages, reporter: &**progress, asked_before: Vec::new() }.cells(nights);
        progress.advance(1);
        cells
    });
    Ok(columns.collect::<Result<Vec<_>, _>>()?.concat())
}

/// A package and a Python with all GPUs.
struct Column<'a> {
    question: Question<'a>,
    resolvers: &'a Resolvers,
    pages: Pages<'a>,
    reporter: &'a dyn Reporter,
    /// What else the last set asked for: `rocm[device-gfx942]`.
    asked_before: Vec<String>,
}

/// For each GPU the set, or what is missing.
type Found = Vec<Result<Vec<String>, String>>;

impl Column<'_> {
    fn cells(&mut self, nights: Nights) -> Result<Vec<ChoiceCell>, Failure> {
        let package = self.question.packages[0].clone();
        let name = parsed(&package)?.name;
        let mut cells: Vec<ChoiceCell> = self
            .question
            .gpus
            .iter()
            .map(|gpu| ChoiceCell::empty(&package, self.question.target.python, gpu))
            .collect();
        let mut versions = self.versions()?;
        let all = versions.len();
        versions.truncate(if let Nights::Newest(most) = nights { most } else { MOST_VERSIONS });
        let older = all - versions.len();
        if versions.is_empty() {
            let found = self.found(&package, false, &self.question.gpus.clone())?;
            for (cell, found) in cells.iter_mut().zip(found) {
                match found {
                    Ok(set) => cell.set = set,
                    Err(reason) => cell.missing.push(reason),
                }
            }
        }
        for (version, published) in versions {
            let open: Vec<&mut ChoiceCell> =
                cells.iter_mut().filter(|cell| cell.set.is_empty() || nights != Nights::ToComplete).collect();
            if open.is_empty() {
                break;
            }
            let gpus: Vec<String> = open.iter().map(|cell| cell.gpu.clone()).collect();
            let found = self.found(&at_version(&package, &version)?, version.any_prerelease(), &gpus)?;
            for (cell, found) in open.into_iter().zip(found) {
                let missing = found.as_ref().err().cloned();
                match found {
                    Ok(set) if cell.set.is_empty() => (cell.set, cell.published) = (set, published.clone()),
                    Err(reason) if cell.set.is_empty() => cell.missing.push(hole(&name, &version.to_string(), &reason)),
                    _ => {}
                }
                cell.nights.push(ChoiceNight { version: version.to_string(), published: published.clone(), missing });
            }
        }
        if older > 0 {
            let text = format!("{name}: {older} older versions were not looked at");
            cells.iter_mut().filter(|cell| cell.set.is_empty()).for_each(|cell| cell.missing.push(text.clone()));
        }
        Ok(cells)
    }

    /// The versions that count, the newest first, with the time of their first file.
    fn versions(&mut self) -> Result<Vec<(Version, Option<String>)>, Failure> {
        let requirement = parsed(&self.question.packages[0])?;
        let Some((_, links)) = self.pages.project(&requirement.name)? else { return Ok(Vec::new()) };
        let mut found: BTreeMap<Version, Option<String>> = BTreeMap::new();
        for link in links.iter().filter(|link| link.yanked.is_none()) {
            let Some(version) = version_of(&link.file_name).filter(|version| requirement.accepts(version)) else {
                continue;
            };
            let first = found.entry(version).or_insert_with(|| link.uploaded.clone());
            *first = first.take().min(link.uploaded.clone());
        }
        // A stream of nights has pre-releases alone.
        let has_final = found.keys().any(|version| !version.any_prerelease());
        found.retain(|version, _| self.question.pre_releases || !has_final || !version.any_prerelease());
        Ok(found.into_iter().rev().collect())
    }

    fn found(&mut self, requirement: &str, pre_releases: bool, gpus: &[String]) -> Result<Found, Failure> {
        let other = self.question.with(|one| {
            one.packages = vec![requirement.to_owned()];
            one.gpus = gpus.to_vec();
            one.pre_releases |= pre_releases;
        });
        let expecting = self.expecting(&other)?;
        let reason = match search(&expecting, self.resolvers, &mut self.pages, Looking::AtNames, self.reporter)? {
            Ok(set) => {
                let roots = pinned(&set);
                let name = parsed(requirement)?.name;
                let others = set.asked.iter().filter(|text| parsed(text).is_ok_and(|one| one.name != name));
                self.asked_before = others.cloned().collect();
                return Ok(gpus.iter().map(|gpu| Ok(roots.iter().map(|root| for_gpu(root, gpu)).collect())).collect());
            }
            Err(refusal) => refusal.reason,
        };
        let named: BTreeSet<&String> = gpus.iter().filter(|gpu| names_gpu(&reason, gpu)).collect();
        let is_for_all = gpus.len() < 2
            || named.is_empty() && {
                let none = other.with(|one| one.gpus.clear());
                search(&none, self.resolvers, &mut self.pages, Looking::AtNames, self.reporter)?.is_err()
            };
        if is_for_all {
            return Ok(vec![Err(reason); gpus.len()]);
        }
        // What the reason names, if it is one, is missing for that one whatever else is asked for.
        if let (1, Some(one)) = (named.len(), named.first()) {
            let rest: Vec<String> = gpus.iter().filter(|gpu| gpu != one).cloned().collect();
            let mut found = self.found(requirement, pre_releases, &rest)?;
            found.insert(gpus.iter().position(|gpu| gpu == *one).unwrap_or_default(), Err(reason));
            return Ok(found);
        }
        // Those that the reason names, or a half, are asked without the others.
        let is_split = !named.is_empty() && named.len() < gpus.len();
        let first: BTreeSet<&String> = if is_split { named } else { gpus.iter().take(gpus.len() / 2).collect() };
        let (one, rest): (Vec<String>, Vec<String>) = gpus.iter().cloned().partition(|gpu| first.contains(gpu));
        let mut one = self.found(requirement, pre_releases, &one)?.into_iter();
        let mut rest = self.found(requirement, pre_releases, &rest)?.into_iter();
        Ok(gpus.iter().filter_map(|gpu| if first.contains(gpu) { one.next() } else { rest.next() }).collect())
    }
}

impl<'a> Column<'a> {
    /// Asks the package for its parts at once, and what it requires everywhere for those of the
    /// last set: this saves the rounds in which the resolver would bring it first.
    fn expecting(&mut self, question: &Question<'a>) -> Result<Question<'a>, Failure> {
        let same = question.with(|_| ());
        let package = parsed(&question.packages[0])?;
        let Some((number, links)) = self.pages.project(&package.name)? else { return Ok(same) };
        let origin = PackageOrigin::Set(*number);
        let fitting = links.iter().find_map(|link| {
            let version = version_of(&link.file_name).filter(|version| package.accepts(version))?;
            tags::rank(&question.target, &link.file_name.parse::<WheelName>().ok()?)?;
            Some((link.file_name.clone(), version.to_string()))
        });
        let Some((file, version)) = fitting else { return Ok(same) };
        let (name, address) = (package.name, String::new());
        let wheel =
            ChosenPackage { name, version, file, origin, address, sha256: Vec::new(), size: None, uploaded: None };
        let Some(metadata) = self.pages.metadata(&wheel)? else { return Ok(same) };
        let needs = metadata.all("Requires-Dist").into_iter().filter(|text| !text.contains(';'));
        let needs: BTreeSet<String> = needs.filter_map(|text| Some(Requirement::parse(&text).ok()?.name)).collect();
        let extras: BTreeSet<String> = metadata.all("Provides-Extra").iter().map(|one| canonical_name(one)).collect();
        let served: BTreeSet<String> =
            question.gpus.iter().flat_map(|gpu| served_by(gpu)).map(|name| extra(&name)).collect();
        let before = self.asked_before.iter().filter_map(|text| Requirement::parse(text).ok());
        let before = before.filter(|one| needs.contains(&one.name)).filter_map(|one| {
            let own: Vec<&str> = one.extras.iter().map(String::as_str).filter(|one| served.contains(*one)).collect();
            (!own.is_empty()).then(|| format!("{}[{}]", one.name, own.join(",")))
        });
        let before: Vec<String> = before.collect();
        let own: Vec<String> = served.intersection(&extras).cloned().collect();
        Ok(question.with(|one| {
            one.packages[0] = with_extras(&one.packages[0], &own);
            one.packages.extend(before);
        }))
    }
}

/// `torch[extra]==2.9.1`
fn at_version(package: &str, version: &Version) -> Result<String, Failure> {
    let requirement = parsed(package)?;
    Ok(format!("{}[{}]=={version}", requirement.name, requirement.extras.join(",")).replace("[]", ""))
}

fn version_of(file: &str) -> Option<Version> {
    distribution_of(file).map(|one| one.version)
}

/// A root without the extras for other GPUs.
fn for_gpu(root: &str, gpu: &str) -> String {
    let Some((name, rest)) = root.split_once('[') else { return root.to_owned() };
    let (extras, version) = rest.split_once(']').unwrap_or((rest, ""));
    let own: BTreeSet<String> = served_by(gpu).iter().map(|name| extra(name)).collect();
    let kept = extras.split(',').filter(|extra| !extra.starts_with("device-") || own.contains(*extra));
    format!("{name}[{}]{version}", kept.collect::<Vec<_>>().join(",")).replace("[]", "")
}

/// `true` if a reason names the GPU, or a package or extra for it.
fn names_gpu(reason: &str, gpu: &str) -> bool {
    let served = served_by(gpu);
    let mut words = reason.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter));
    words.any(|word| {
        let word = canonical_name(word);
        served.iter().any(|name| word == *name || word.ends_with(&format!("-{name}")))
    })
}

/// The GPUs of the question, or those that projects of the indexes are for.
fn gpus(question: &Question<'_>, sites: &[IndexSite], reporter: &dyn Reporter) -> Result<Vec<String>, Failure> {
    let mut served: BTreeSet<String> = BTreeSet::new();
    for site in sites {
        site.check_root(reporter)?;
        let answer = site.fetch.get(&site.root, page::ACCEPT).map_err(Failure::other)?;
        let mut body = Vec::new();
        answer.body.take(LIMIT).read_to_end(&mut body).map_err(Failure::other)?;
        let names = page::parse_root(&answer.content_type, &body, &answer.address).map_err(Failure::message)?;
        served.extend(names.iter().filter_map(|name| target_of(&canonical_name(name)).map(str::to_owned)));
    }
    if !question.gpus.is_empty() {
        return Ok(question.gpus.clone());
    }
    let table = TargetTable::embedded();
    let known = table.targets().iter().map(|target| target.name.clone());
    let found: Vec<String> =
        known.filter(|target| served_by(target).iter().any(|name| served.contains(name))).collect();
    if found.is_empty() {
        return Err(Failure::message("no project of the index is named for a GPU")
            .with_hint("say for which GPUs: `--gpu gfx942 --gpu gfx1100`"));
    }
    Ok(found)
}
