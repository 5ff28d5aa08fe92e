//! Input: a question for several packages, Pythons and GPUs. Output: for each combination the
//! newest complete set, or what is missing. Wheels are not looked into.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_delta::IndexSite;
use rocwheel_index::page;
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_tables::TargetTable;
use rocwheel_wheel::{PythonVersion, canonical_name};
use serde::Serialize;

use crate::evidence::{Pages, served_by, target_of};
use crate::near::pythons_of;
use crate::question::{Question, parsed};
use crate::resolver::Resolvers;
use crate::search::{Looking, not_taken, search, with_package};
use crate::set::pinned;

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
    /// Newer versions that do not count, or why there is no set.
    pub missing: Vec<String>,
}

/// The combinations, by package, Python and GPU. Without Pythons, those that the packages are
/// compiled for; without GPUs, those that the indexes have packages for.
///
/// # Errors
/// Those of [`crate::ask`].
pub fn table(
    question: &Question<'_>,
    pythons: &[PythonVersion],
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
    let cells = (question.packages.len() * pythons.len() * gpus.len()) as u64;
    let _stage = progress.stage("Resolving", Some(cells), Unit::Items);
    let columns: Vec<(&String, PythonVersion)> =
        question.packages.iter().flat_map(|package| pythons.iter().map(move |python| (package, *python))).collect();
    let columns = columns.par_iter().map(|(package, python)| {
        let mut pages = Pages::new(question.sites, own.len(), Arc::clone(progress));
        let mut cells = Vec::new();
        for gpu in &gpus {
            let other = question.with(|one| {
                one.packages = vec![(*package).clone()];
                one.gpus = vec![gpu.clone()];
                one.target.python = *python;
            });
            cells.push(cell(&other, resolvers, &mut pages, &**progress)?);
            progress.advance(1);
        }
        Ok::<_, Failure>(cells)
    });
    Ok(columns.collect::<Result<Vec<_>, _>>()?.concat())
}

fn cell(
    question: &Question<'_>,
    resolvers: &Resolvers,
    pages: &mut Pages<'_>,
    reporter: &dyn Reporter,
) -> Result<ChoiceCell, Failure> {
    let package = &question.packages[0];
    let name = parsed(package)?.name;
    let (set, published, missing) = match search(question, resolvers, pages, Looking::AtNames, reporter)? {
        Ok(set) => {
            let published = set.members.iter().find(|member| member.name == name);
            let newest = not_taken(question, &set, resolvers, pages)?;
            let missing = newest.into_iter().map(|one| format!("{} {}: {}", one.name, one.version, one.reason));
            (pinned(&set), published.and_then(|member| member.uploaded.clone()), missing.collect())
        }
        Err(refused) => (Vec::new(), None, vec![refused.reason]),
    };
    let python = question.target.python.to_string();
    Ok(ChoiceCell { package: package.clone(), python, gpu: question.gpus[0].clone(), set, published, missing })
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
