//! Input: a recipe, its book and a cell. Output: the evaluated recipe.

mod names;
mod settle;

use std::collections::BTreeMap;

use crate::book::{Book, BookEntry};
use crate::cell::{BuildMode, BuildPurpose, Cell, Repair, SdkKind, Switch};
use crate::condition::Facts;
use crate::error::Error;
use crate::evaluated::{Action, Check, Estimate, Evaluated, JobStep, More, Provided, Pythons, Sources, Variables};
use crate::recipe::{
    self, Arguments, Contains, CopyAction, Cost, EnvironmentBlock, MachineRequirement, OneOrMany, Recipe, Replace,
    StepAction, Tarball, Text, When,
};
use names::Names;
pub use names::join_targets;

/// Time limit in seconds of a program whose recipe sets none.
const RUN: u64 = 6 * 3600;
/// Time limit in seconds of every other action.
const OTHER: u64 = 3600;

/// Evaluates a recipe: decides everything that can be decided before the job runs.
pub fn evaluate(entry: &BookEntry, book: &Book, cell: &Cell) -> Result<Evaluated, Error> {
    let recipe = &entry.recipe;
    let backend = settle::backend(recipe, cell)?;
    let sdk = !recipe.without_sdk.contains(&backend);
    let nothing = BTreeMap::new();
    let facts = Facts { path: &entry.path, cell, backend: &backend, backends: &recipe.backends, features: &nothing };
    let targets = settle::targets(recipe, &facts, sdk)?;
    let features = settle::features(recipe, cell, &targets)?;
    let cell = settle::cell(recipe, cell, &backend, &targets)?;
    let facts =
        Facts { path: &entry.path, cell: &cell, backend: &backend, backends: &recipe.backends, features: &features };
    let names = Names::new(entry, &facts, sdk, &targets)?;
    let version = version(recipe, &facts, &names)?;
    let mut evaluator = Evaluator { facts, names: names.with_version(version.as_deref()) };
    let environment = evaluator.environment(recipe, book, sdk)?;
    let (steps, finish) = evaluator.steps(recipe, book, sdk)?;
    let checks = evaluator.checks(recipe)?;
    let output = evaluator.output(recipe, sdk)?;
    let estimate = evaluator.estimate(recipe)?;
    let requirements = requirements(recipe, &evaluator.facts)?;
    let cost = cost(recipe, &evaluator.facts)?;
    let run_time = variables_at_run_time(recipe, &evaluator.facts)?;
    let python = if recipe.any_python.contains(&backend) { Pythons::Any } else { Pythons::Each };
    Ok(Evaluated {
        recipe: recipe.name.clone(),
        summary: recipe.summary.clone(),
        distribution: recipe.distribution.clone(),
        sdk,
        python,
        source: Sources {
            project: recipe.source.clone(),
            work_on: recipe.work_on,
            version_file: recipe.version_file.clone(),
        },
        in_container: recipe.in_container,
        image_packages: recipe.image_packages.clone(),
        targets,
        features,
        version,
        environment,
        steps,
        finish,
        output,
        checks,
        run_time,
        requirements,
        cost,
        estimate,
        cell,
    })
}

/// Variables that a recipe's result needs at run time, for a cell that is only partly known.
pub fn run_time(entry: &BookEntry, cell: &Cell) -> Result<BTreeMap<String, String>, Error> {
    let (recipe, features) = (&entry.recipe, BTreeMap::new());
    let backend = settle::backend(recipe, cell)?;
    let facts = Facts { path: &entry.path, cell, backend: &backend, backends: &recipe.backends, features: &features };
    variables_at_run_time(recipe, &facts)
}

fn variables_at_run_time(recipe: &Recipe, facts: &Facts<'_>) -> Result<BTreeMap<String, String>, Error> {
    let mut variables = BTreeMap::new();
    for rule in &recipe.run_time {
        if facts.hold(&rule.when)? {
            variables.extend(rule.set.clone());
        }
    }
    Ok(variables)
}

fn requirements(recipe: &Recipe, facts: &Facts<'_>) -> Result<Vec<MachineRequirement>, Error> {
    let mut all = Vec::new();
    for requirement in &recipe.requirements {
        if facts.hold(&requirement.when)? {
            all.push(MachineRequirement { when: When::default(), ..requirement.clone() });
        }
    }
    Ok(all)
}

fn cost(recipe: &Recipe, facts: &Facts<'_>) -> Result<Cost, Error> {
    for rule in &recipe.costs {
        if facts.hold(&rule.when)? {
            let [time, recorded] = [rule.time, rule.recorded].map(|time| Some(time?.as_secs()));
            return Ok(Cost { memory_per_job: rule.memory_per_job, disk: rule.disk, cpus: rule.cpus, time, recorded });
        }
    }
    Ok(Cost::default())
}

fn version(recipe: &Recipe, facts: &Facts<'_>, names: &Names<'_>) -> Result<Option<String>, Error> {
    let mut chosen = None;
    for rule in &recipe.versions {
        if facts.hold(&rule.when)? && chosen.is_none() {
            // A label from the user is the whole local part, even if the recipe would make one.
            let own = facts.cell.label.as_ref().filter(|_| !rule.text.contains("${label}"));
            let text = match (own, rule.text.split_once('+')) {
                (Some(label), Some((public, _))) => format!("{public}+{label}"),
                _ => rule.text.clone(),
            };
            chosen = Some(names.text(&text)?);
        }
    }
    if chosen.is_none() && !recipe.version_from_wheel {
        return Err(Error::malformed(facts.path, "no rule for its version applies"));
    }
    Ok(chosen)
}

struct Evaluator<'a> {
    facts: Facts<'a>,
    names: Names<'a>,
}

impl Evaluator<'_> {
    fn text(&self, text: &str) -> Result<String, Error> {
        self.names.text(text)
    }

    fn texts(&self, texts: &[String]) -> Result<Vec<String>, Error> {
        texts.iter().map(|text| self.text(text)).collect()
    }

    fn values(&self, values: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
        values.iter().map(|(name, value)| Ok((name.clone(), self.text(value)?))).collect()
    }

    /// The sections of the layers that apply, then those of the recipe.
    fn sections<'b>(
        recipe: &'b Recipe,
        book: &'b Book,
        sdk: bool,
    ) -> impl Iterator<Item = (&'b [EnvironmentBlock], &'b [recipe::RecipeStep], &'b [recipe::RecipeStep])> {
        let layers = recipe.layers.iter().filter_map(|name| book.layer(name)).filter(move |layer| sdk || !layer.sdk);
        let layers = layers.map(|layer| (&layer.environment[..], &layer.steps[..], &layer.finish[..]));
        layers.chain([(&recipe.environment[..], &recipe.steps[..], &recipe.finish[..])])
    }

    fn environment(&mut self, recipe: &Recipe, book: &Book, sdk: bool) -> Result<Vec<Variables>, Error> {
        let mut all = Vec::new();
        for block in Self::sections(recipe, book, sdk).flat_map(|(blocks, ..)| blocks) {
            if !self.facts.hold(&block.when)? {
                continue;
            }
            all.push(Variables {
                provided: (block.if_variable.iter().map(|name| Ok(Provided::Variable(name.clone()))))
                    .chain(block.exists.iter().map(|path| Ok(Provided::Exists(self.text(path)?))))
                    .collect::<Result<_, Error>>()?,
                warning: block.warning.clone(),
                error: block.error.clone(),
                set: self.values(&block.set)?,
                prepend: self.values(&block.prepend)?,
                append: self.values(&block.append)?,
                default_values: self.values(&block.default)?,
                from_file: block.from_file.as_deref().map(|path| self.text(path)).transpose()?,
            });
        }
        Ok(all)
    }

    fn steps(&mut self, recipe: &Recipe, book: &Book, sdk: bool) -> Result<(Vec<JobStep>, Vec<JobStep>), Error> {
        let (mut steps, mut finish) = (Vec::new(), Vec::new());
        for name in &recipe.needs {
            steps.extend(self.need(recipe, name)?);
        }
        for (_, first, last) in Self::sections(recipe, book, sdk) {
            self.apply(first, &mut steps)?;
            self.apply(last, &mut finish)?;
        }
        Ok((steps, finish))
    }

    /// The step that installs a requirement; `None` if the same run builds it or the interpreter
    /// has it.
    fn need(&self, recipe: &Recipe, name: &str) -> Result<Option<JobStep>, Error> {
        let cell = self.facts.cell;
        if cell.with.contains(name) || cell.system_packages.is_on() {
            return Ok(None);
        }
        if name != "torch" || cell.torch.is_none() {
            return Err(Error::request_with(
                format!("{} needs {name}, which is not given", recipe.name),
                format!(
                    "build both (`rocwheel build {name} {}`), give the wheel with `--with`, or say which is to be installed \
                     (`--torch 2.9.1`)",
                    recipe.name
                ),
            ));
        }
        let index = cell.torch_index.as_ref().map(|_| self.text("${torch.index}")).transpose()?;
        let requirements = vec![self.text("${torch.requirement}")?];
        Ok(Some(JobStep {
            name: name.to_owned(),
            provided: Vec::new(),
            directory: "${work}".into(),
            timeout: OTHER,
            set: BTreeMap::new(),
            may_fail: false,
            action: Action::Install { requirements, index },
        }))
    }

    fn apply(&self, written: &[recipe::RecipeStep], steps: &mut Vec<JobStep>) -> Result<(), Error> {
        for step in written {
            if !self.facts.hold(&step.when)? {
                // Names that do not exist are an error even in a step that does not apply.
                continue;
            }
            if steps.iter().any(|other| other.name == step.name) {
                return Err(Error::malformed(self.facts.path, format!("two steps `{}` apply at once", step.name)));
            }
            steps.push(self.step(step)?);
        }
        Ok(())
    }

    fn step(&self, step: &recipe::RecipeStep) -> Result<JobStep, Error> {
        let mut provided = Vec::new();
        if let Some(path) = &step.exists {
            provided.push(Provided::Exists(self.text(path)?));
        }
        if let Some(path) = &step.lacks {
            provided.push(Provided::Lacks(self.text(path)?));
        }
        if let Some(name) = &step.if_variable {
            provided.push(Provided::Variable(name.clone()));
        }
        let timeout = step.timeout.map(|time| time.as_secs());
        let otherwise = if matches!(step.action, StepAction::Run { .. }) { RUN } else { OTHER };
        Ok(JobStep {
            name: step.name.clone(),
            provided,
            directory: self.text(step.directory.as_deref().unwrap_or("${source}"))?,
            timeout: timeout.unwrap_or(otherwise),
            set: self.values(&step.set)?,
            may_fail: step.may_fail,
            action: self.action(&step.action)?,
        })
    }

    fn action(&self, action: &StepAction) -> Result<Action, Error> {
        Ok(match action {
            StepAction::Run { command, arguments, expect } => {
                Action::Run { command: self.texts(command)?, more: self.more(arguments)?, expect: expect.clone() }
            }
            StepAction::Install { requirements, index } => {
                let index = index.as_deref().map(|index| self.text(index)).transpose()?;
                Action::Install { requirements: self.texts(requirements)?, index }
            }
            StepAction::Uninstall(names) => Action::Uninstall(self.texts(names)?),
            StepAction::Write(file) => Action::Write(self.file(file)?),
            StepAction::Append(file) => Action::Append(self.file(file)?),
            StepAction::Copy(copy) => {
                let (from, to) = (self.text(&copy.from)?, self.text(&copy.to)?);
                Action::Copy(CopyAction { from, to, ..copy.clone() })
            }
            StepAction::Remove(paths) => Action::Remove(self.texts(paths)?),
            StepAction::Replace(replace) => {
                let (path, with) = (self.text(&replace.path)?, self.text(&replace.with)?);
                Action::Replace(Replace { path, pattern: replace.pattern.clone(), with })
            }
            StepAction::Script(path) => Action::Script(self.text(path)?),
        })
    }

    fn file(&self, file: &Text) -> Result<Text, Error> {
        Ok(Text { path: self.text(&file.path)?, text: self.text(&file.text)? })
    }

    /// The arguments whose conditions on the cell hold.
    fn more(&self, all: &[Arguments]) -> Result<Vec<More>, Error> {
        let mut more = Vec::new();
        for arguments in all {
            if !self.facts.hold(&arguments.when)? {
                continue;
            }
            let contains = arguments.contains.as_ref().map(|contains| {
                let path = self.text(&contains.path)?;
                Ok::<_, Error>(Provided::Contains(Contains { path, text: contains.text.clone() }))
            });
            more.push(More { provided: contains.transpose()?, arguments: self.texts(&arguments.add)? });
        }
        Ok(more)
    }

    fn checks(&self, recipe: &Recipe) -> Result<Vec<Check>, Error> {
        let mut checks = Vec::new();
        for check in &recipe.checks {
            if self.facts.hold(&check.when)? {
                checks.push(Check {
                    name: check.name.clone(),
                    fresh: check.fresh,
                    requirements: check.requirements,
                    beside: self.texts(&check.beside)?,
                    run: self.texts(&check.run)?,
                    expect: check.expect.clone(),
                });
            }
        }
        Ok(checks)
    }

    fn output(&self, recipe: &Recipe, sdk: bool) -> Result<recipe::ExpectedOutput, Error> {
        let mut output = recipe.output.clone();
        // Without ROCm, this kind of repair has no libraries to leave out.
        if !sdk {
            output.repair = output.repair.filter(|way| *way != Repair::Rocm);
        }
        if let Some(tarball) = &recipe.output.tarball {
            output.tarball =
                Some(Tarball { path: self.text(&tarball.path)?, from: self.text(&tarball.from)?, ..tarball.clone() });
        }
        Ok(output)
    }

    fn estimate(&self, recipe: &Recipe) -> Result<Option<Estimate>, Error> {
        let Some(estimate) = &recipe.estimate else { return Ok(None) };
        if !self.facts.hold(&estimate.when)? {
            return Ok(None);
        }
        Ok(Some(Estimate {
            directions: estimate.directions.clone(),
            run: self.texts(&estimate.run)?,
            count: estimate.count.clone(),
            units_per_minute: estimate.units_per_minute,
            objects: self.text(&estimate.objects)?,
        }))
    }
}

/// Evaluates every combination of platform, backend, mode and the other values that conditions may
/// ask for, and returns their number. `recipe check` calls it.
pub fn check(entry: &BookEntry, book: &Book) -> Result<usize, Error> {
    let recipe = &entry.recipe;
    for name in
        recipe.after.iter().chain(conditions(recipe).filter(|(key, _)| *key == "with").flat_map(|(_, of)| of.all()))
    {
        book.get(name)?;
    }
    book.order(std::slice::from_ref(&recipe.name))?;
    let mut cells = 0;
    for &platform in &recipe.platforms {
        for backend in &recipe.backends {
            for clean in [Switch::Off, Switch::On] {
                for with in [&[][..], &recipe.after[..]] {
                    for cache in crate::cell::CompilerCache::NAMES {
                        let cell = Cell {
                            backend: Some(backend.clone()),
                            // The cell needs some value for every name that recipes may use.
                            rocm: Some("7.2".into()),
                            torch: Some("2.14.1".into()),
                            torch_index: Some("index".into()),
                            python: "3.12".parse().ok(),
                            targets: settle::any_targets(recipe),
                            chosen_by: crate::cell::ChosenBy::Recipe,
                            compiler_cache: cache.parse()?,
                            with: with.iter().cloned().collect(),
                            clean,
                            ..Cell::new(platform)
                        };
                        cells += check_kinds(entry, book, &cell)?;
                    }
                }
            }
        }
    }
    Ok(cells)
}

/// Evaluates a cell for every kind of ROCm, release and mode; returns the number of combinations.
fn check_kinds(entry: &BookEntry, book: &Book, cell: &Cell) -> Result<usize, Error> {
    let (kinds, releases, modes) = ([SdkKind::Packages, SdkKind::Prefix], BuildPurpose::NAMES, BuildMode::NAMES);
    for sdk in kinds {
        for release in releases {
            for mode in modes {
                let (release, mode) = (release.parse()?, mode.parse()?);
                evaluate(entry, book, &Cell { sdk, release, mode, ..cell.clone() })?;
            }
        }
    }
    Ok(kinds.len() * releases.len() * modes.len())
}

fn conditions(recipe: &Recipe) -> impl Iterator<Item = (&str, &OneOrMany)> {
    let whens: Vec<&When> = (recipe.environment.iter().map(|block| &block.when))
        .chain(recipe.steps.iter().map(|step| &step.when))
        .chain(recipe.versions.iter().map(|rule| &rule.when))
        .collect();
    whens.into_iter().flatten().map(|(key, values)| (key.as_str(), values))
}
