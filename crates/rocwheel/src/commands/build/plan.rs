//! Builds of many cells: every combination of what options name, as a plan that is run here or on a
//! cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, Command};
use rocwheel_recipe::matrix::{Existing, Framework};
use rocwheel_recipe::plan::{self, Combination, LeftOut, Plan, PlanFolder, Planner, Wanted};
use rocwheel_recipe::{Cell, ChosenBy, Evaluated, Input, Job, Pythons, Rocm};

use super::Settings;
use super::cell::Named;
use super::containers::Planned;
use super::recipes::Recipes;
use super::sources::ToCheckOut;
use crate::commands::Mode;
use crate::failure::Usage;
use crate::printer::Printer;

/// Options about builds of many cells.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Plans of many cells")]
pub(crate) struct PlanArguments {
    /// Every ROCm, torch, Python and backend of the table that options do not name
    #[arg(long)]
    matrix: bool,
    /// Skip cells whose wheel is in the output already, by its name
    #[arg(long)]
    missing_only: bool,
    /// With --dry-run: also list the cells that the table excludes, with the reasons
    #[arg(long, requires = "dry_run")]
    excluded: bool,
    /// Write the plan of all cells (a folder), and build nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["write_job", "dry_run"])]
    write_plan: Option<PathBuf>,
    /// Run an existing plan
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "output", "work", "CellArguments", "Sources", "Sdk"])]
    plan: Option<PathBuf>,
    /// Only these cells of the plan, by title or number
    #[arg(long = "cell", value_name = "CELL")]
    cells: Vec<String>,
    /// Show the state of the cells of a plan; DIR is its folder, or that of the outputs (also
    /// `rocwheel build status DIR`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "plan"])]
    status: Option<PathBuf>,
    /// Take the cells of a plan off Slurm (also `rocwheel build cancel DIR`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "plan", "status", "dry_run"])]
    cancel: Option<PathBuf>,
    /// Show the logs of cells that failed or run, or of those named with --cell (also
    /// `rocwheel build logs DIR`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "plan", "status", "cancel"])]
    logs: Option<PathBuf>,
    /// With --executor slurm: wait until all cells have ended
    #[arg(long)]
    wait: bool,
    /// With --executor slurm: an option of sbatch, such as --partition=long; may be repeated, and
    /// wins over the recipe
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch_option: Vec<String>,
}

/// What is done with a plan that is there.
#[derive(Debug)]
pub(super) enum Asked {
    /// It is run, or some cells of it.
    Run(PathBuf, Vec<String>),
    Status(PathBuf),
    Cancel(PathBuf),
    Logs(PathBuf, Vec<String>),
}

/// How plans are made and run.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug)]
pub(super) struct Choices {
    pub(super) matrix: bool,
    pub(super) missing_only: bool,
    /// Whether cells that are not built are listed.
    pub(super) excluded: bool,
    pub(super) write_plan: Option<PathBuf>,
    pub(super) wait: bool,
    pub(super) sbatch: Vec<String>,
}

/// Questions about plans, which are options in the shape of words: `build status DIR` is
/// `build --status DIR`.
const QUESTIONS: [&str; 3] = ["status", "logs", "cancel"];

/// The command line with these words as the options that they are.
pub(crate) fn with_questions(program: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let is_question = |pair: &[OsString]| pair[0] == "build" && QUESTIONS.iter().any(|word| pair[1] == *word);
    let Some(at) = words.windows(2).position(is_question) else { return words };
    // `build` may be something else: a file of another command.
    let Ok(matches) = program.clone().ignore_errors(true).try_get_matches_from(&words[..=at]) else { return words };
    if matches.subcommand_name() == Some("build") {
        let mut option = OsString::from("--");
        option.push(&words[at + 1]);
        words[at + 1] = option;
    }
    words
}

impl PlanArguments {
    /// What is asked of a plan that is there, if anything, and how others are made.
    pub(super) fn choices(self) -> Result<(Option<Asked>, Choices), Usage> {
        if !self.cells.is_empty() && self.plan.is_none() && self.logs.is_none() {
            return Err(Usage::new("`--cell` chooses of a plan").hint("name it with `--plan DIR` or `--logs DIR`"));
        }
        let asked = match (self.plan, self.status, self.cancel, self.logs) {
            (Some(folder), ..) => Some(Asked::Run(folder, self.cells)),
            (_, Some(folder), ..) => Some(Asked::Status(folder)),
            (_, _, Some(folder), _) => Some(Asked::Cancel(folder)),
            (.., Some(folder)) => Some(Asked::Logs(folder, self.cells)),
            _ => None,
        };
        let choices = Choices {
            matrix: self.matrix,
            missing_only: self.missing_only,
            excluded: self.excluded,
            write_plan: self.write_plan,
            wait: self.wait,
            sbatch: self.sbatch_option,
        };
        Ok((asked, choices))
    }
}

impl Recipes {
    /// Whether there are so many cells that they are planned first.
    pub(super) fn are_many(&self, choices: &Choices) -> anyhow::Result<bool> {
        let planned = choices.matrix || choices.missing_only || choices.write_plan.is_some();
        let are_several = self.wishes.axes.are_several() || self.names.iter().any(|named| named.rocm.len() > 1);
        Ok(planned || are_several || self.sources.variants()? > 1)
    }
}

/// A plan that was made.
pub(super) struct Made {
    pub(super) plan: Plan,
    /// One for each cell that is built.
    pub(super) jobs: Vec<Job>,
    /// The checkouts that they need; only of a dry run.
    pub(super) checkouts: Vec<ToCheckOut>,
    /// What they would be built in.
    pub(super) containers: BTreeSet<Planned>,
}

/// Plans every cell. When nothing is to be built, nothing is fetched or started either.
pub(super) fn make(recipes: &Recipes, settings: &Settings, printer: &Printer) -> anyhow::Result<Made> {
    recipes.check_backends()?;
    let existing = settings.choices.missing_only.then(|| recipes.existing(settings)).transpose()?;
    let given = recipes.sdk.inputs(printer.reporter())?;
    let mut planner = Planner::new(existing.as_ref(), printer.reporter());
    let mut maker = Maker {
        recipes,
        given,
        settings,
        printer,
        jobs: BTreeMap::new(),
        rocm: BTreeMap::new(),
        checkouts: Vec::new(),
        containers: BTreeSet::new(),
    };
    for named in &recipes.names {
        maker.recipe(named, &mut planner, existing.as_ref())?;
    }
    let Maker { checkouts, containers, .. } = maker;
    let (plan, jobs) = planner.finish(settings.place.output.clone(), settings.place.work.clone())?;
    nothing_left(&plan)?;
    Ok(Made { plan, jobs, checkouts, containers })
}

/// A plan of which the tables exclude everything is not what anybody meant.
fn nothing_left(plan: &Plan) -> Result<(), Usage> {
    let mut reasons: Vec<&str> = Vec::new();
    for cell in &plan.cells {
        match &cell.left_out {
            Some(LeftOut::Excluded(reason)) if reasons.contains(&reason.as_str()) => {}
            Some(LeftOut::Excluded(reason)) => reasons.push(reason),
            _ => return Ok(()),
        }
    }
    let usage = Usage::new(format!("nothing is left to build: {}", reasons.join("; ")));
    Err(usage.hint("`rocwheel matrix` shows what belongs together; `--table FILE` is a table of your own"))
}

impl Recipes {
    /// With every value of the table on the axes that nobody named, and the releases that it has.
    pub(super) fn of_the_table(&self) -> anyhow::Result<Recipes> {
        let names: Vec<String> = self.names.iter().map(|named| named.recipe.clone()).collect();
        let mut wishes = self.wishes.as_ref().clone();
        wishes.fill_axes(&names)?;
        let mut sources = self.sources.clone();
        // Where a torch decides the version, its line does.
        let is_free = |framework: &&Framework| framework.against_torch && names.contains(&framework.recipe);
        for framework in wishes.table.frameworks.iter().filter(is_free) {
            sources = sources.with_table(&wishes.book.get(&framework.recipe)?.recipe, &framework.versions)?;
        }
        Ok(Recipes { wishes: Rc::new(wishes), sources, ..self.clone() })
    }

    /// Every backend that was asked for is one of a recipe's.
    fn check_backends(&self) -> anyhow::Result<()> {
        let mut known: Vec<&str> = Vec::new();
        for named in &self.names {
            known.extend(self.wishes.book.get(&named.recipe)?.recipe.backends.iter().map(String::as_str));
        }
        if let Some(unknown) = self.wishes.axes.backends.iter().flatten().find(|name| !known.contains(&name.as_str())) {
            let hint = rocwheel_report::suggestion(unknown, known);
            return Err(Usage::new(format!("none of the recipes has a backend `{unknown}`")).hint(hint).into());
        }
        Ok(())
    }

    /// The folder of a set of GPU targets: that of all outputs when there is one set.
    fn folder(&self, targets: &[String]) -> String {
        if self.wishes.axes.targets.len() == 1 { String::new() } else { plan::folder_of(targets) }
    }

    /// What is in the output already.
    fn existing(&self, settings: &Settings) -> anyhow::Result<Existing> {
        let axes = &self.wishes.axes;
        let of_names = self.names.iter().flat_map(|named| &named.rocm);
        let rocm: Vec<String> = axes.rocm.iter().flatten().chain(of_names).cloned().collect();
        let mut folders: BTreeSet<String> = axes.targets.iter().map(|targets| self.folder(targets)).collect();
        folders.insert(String::new());
        Ok(Existing::look(&settings.place.output, &Vec::from_iter(folders), &self.wishes.table, &rocm)?)
    }
}

/// By what jobs are alike.
struct Keys {
    sources: String,
    rocm: String,
    /// An image decides more than the sources do.
    image: String,
}

impl Keys {
    fn of(name: &str, cell: &Cell, placed: &Recipes) -> Keys {
        // What is checked out may be what belongs to the torch.
        let recipe = placed.wishes.book.get(name).map(|entry| &entry.recipe);
        let without = recipe.is_ok_and(|recipe| placed.sources.leaves_submodules(recipe, cell));
        let sources = format!("{name}\n{:?}\n{:?}\n{without}", placed.sources, cell.torch);
        let rocm = format!("{:?}\n{:?}", placed.sdk, cell.rocm);
        let image = format!("{sources}\n{rocm}\n{:?}\n{:?}", cell.python, cell.backend);
        Keys { sources, rocm, image }
    }
}

/// Makes jobs, and looks at sources and ROCm once for all that have the same.
struct Maker<'a> {
    recipes: &'a Recipes,
    /// Wheels that are installed before everything.
    given: Vec<Input>,
    settings: &'a Settings,
    printer: &'a Printer,
    /// A job for each recipe and place of its sources.
    jobs: BTreeMap<String, Job>,
    rocm: BTreeMap<String, Rocm>,
    checkouts: Vec<ToCheckOut>,
    containers: BTreeSet<Planned>,
}

impl Maker<'_> {
    /// Notes the checkouts that a cell needs, each folder once. A real run makes them when it gets
    /// there.
    fn plan_checkouts(&mut self, placed: &Recipes, cell: &Cell) -> anyhow::Result<()> {
        if self.settings.mode != Mode::DryRun {
            return Ok(());
        }
        for checkout in placed.sources.planned(&placed.written()?, cell, &self.settings.place)? {
            if !self.checkouts.iter().any(|other| other.directory == checkout.directory) {
                self.checkouts.push(checkout);
            }
        }
        Ok(())
    }

    /// All cells of a recipe.
    fn recipe(&mut self, named: &Named, planner: &mut Planner<'_>, existing: Option<&Existing>) -> anyhow::Result<()> {
        let recipes = self.recipes;
        let name = &named.recipe;
        let order: Vec<String> = recipes.names.iter().map(|named| named.recipe.clone()).collect();
        let book = &recipes.wishes.book;
        let recipe = &book.get(name)?.recipe;
        // What is not installed is waited for all the same when the recipe names it.
        let mut after = plan::all_before(book, name, &order)?;
        let is_installed = |name: &String| book.get(name).is_ok_and(|entry| entry.recipe.output.install);
        after.retain(|before| is_installed(before) || recipe.after.contains(before));
        let mut with = recipes.sdk.given();
        with.extend(after.iter().filter(|name| is_installed(name)).cloned());
        let variants = recipes.sources.variants()?;
        for variant in 0..variants {
            let sources = recipes.sources.variant(variant);
            for (mut cell, column) in recipes.wishes.combinations(named, &with)? {
                let folder = recipes.folder(&cell.targets);
                let placed = recipes.placed(&cell, &sources)?;
                let place = &self.settings.place;
                cell.version = match self.like(name, &cell, &placed) {
                    Some(like) => like.recipe.cell.version.clone(),
                    None => placed.sources.version(recipe, &cell, place)?,
                };
                let evaluated = recipes.evaluate(name, &cell, place)?;
                let excluded = recipes.wishes.table.why_not(&evaluated, self.chosen_by())?;
                let excluded = excluded.map(|why| why.reason().to_owned());
                // An image that is missing is an error, unless the table chose the ROCm.
                let without_image = || recipes.planned_container(&evaluated).err().map(|error| error.to_string());
                let excluded = excluded.or_else(|| without_image().filter(|_| self.settings.choices.matrix));
                let is_there = existing.is_some_and(|existing| !existing.of(&evaluated, &folder).is_empty());
                if excluded.is_none() && !is_there {
                    self.containers.extend(recipes.planned_container(&evaluated)?);
                    self.plan_checkouts(&placed, &cell)?;
                }
                // What is not built needs neither its sources nor its ROCm.
                let is_built = self.settings.mode != Mode::DryRun && excluded.is_none() && !is_there;
                let job = if is_built {
                    self.job(name, cell, evaluated, &placed)?
                } else {
                    placed.sketch(evaluated, &cell, self.given.clone(), place)?
                };
                let combination = Combination { column: column * variants + variant, folder };
                planner.add(Wanted { job, combination, excluded, after: after.clone() })?;
            }
        }
        Ok(())
    }

    /// Who chose the values of the axes.
    fn chosen_by(&self) -> ChosenBy {
        if self.settings.choices.matrix { ChosenBy::Recipe } else { ChosenBy::User }
    }

    /// A job that was made of the same sources, in the same image.
    fn like(&self, name: &str, cell: &Cell, placed: &Recipes) -> Option<&Job> {
        let key = Keys::of(name, cell, placed);
        self.jobs.get(&key.sources).filter(|like| like.image.is_none()).or_else(|| self.jobs.get(&key.image))
    }

    /// The job of a cell, with the sources and the ROCm that are its own.
    fn job(&mut self, name: &str, mut cell: Cell, evaluated: Evaluated, placed: &Recipes) -> anyhow::Result<Job> {
        let sdk = &placed.sdk;
        let Keys { sources: key, rocm: rocm_key, image: image_key } = Keys::of(name, &cell, placed);
        if let Some(like) = self.like(name, &cell, placed).cloned() {
            let given = cell.python.or(like.python);
            let python = given.or(like.recipe.cell.python);
            let has_targets = like.recipe.cell.chosen_by == ChosenBy::Image && cell.chosen_by != ChosenBy::User;
            if has_targets {
                (cell.targets, cell.chosen_by) = (like.recipe.cell.targets.clone(), ChosenBy::Image);
            }
            let recipe = if python == cell.python && like.image.is_none() {
                evaluated
            } else {
                let cell = Cell { python, ..cell.clone() };
                self.recipes.evaluate_in(like.image.as_ref(), name, &cell, &self.settings.place)?
            };
            let rocm = match self.rocm.get(&rocm_key) {
                _ if !recipe.sdk => Rocm::None,
                _ if like.image.is_some() => like.rocm.clone(),
                Some(rocm) => rocm.clone(),
                None => sdk.rocm(cell.rocm.as_deref(), &self.settings.place.surroundings)?,
            };
            // A wheel for one Python needs one that is known, which is found out below.
            if recipe.python == Pythons::Any || python.is_some() {
                if recipe.sdk && like.image.is_none() {
                    same_rocm(&rocm, &cell)?;
                    self.rocm.insert(rocm_key, rocm.clone());
                }
                return Ok(Job { rocm, python: given, recipe, ..like });
            }
        }
        let job = placed.job(name, cell, self.given.clone(), &self.settings.place, self.printer)?;
        if job.recipe.sdk && job.image.is_none() {
            self.rocm.insert(rocm_key, job.rocm.clone());
        }
        self.jobs.insert(key, job.clone());
        self.jobs.insert(image_key, job.clone());
        Ok(job)
    }
}

/// Each cell has to get the ROCm that was asked for.
pub(super) fn same_rocm(rocm: &Rocm, cell: &Cell) -> Result<(), Usage> {
    let (Rocm::Prefix { path, version }, Some(wanted)) = (rocm, &cell.rocm) else { return Ok(()) };
    if version == wanted || version.starts_with(&format!("{wanted}.")) {
        return Ok(());
    }
    let usage = Usage::new(format!("`{}` is ROCm {version}, and {wanted} is to be built against", path.display()));
    Err(usage.hint("`{rocm}` in `--rocm-sdk prefix=/opt/rocm-{rocm}` is the version of each cell"))
}

/// `{rocm}` and `{torch}` in places, which stand for the versions of a cell.
pub(super) fn filled(text: &str, cell: &Cell) -> Result<String, Usage> {
    let mut filled = text.to_owned();
    for (name, option, value) in [("{rocm}", "--rocm", &cell.rocm), ("{torch}", "--torch", &cell.torch)] {
        if !filled.contains(name) {
            continue;
        }
        let Some(value) = value else {
            return Err(Usage::new(format!("`{name}` in `{text}` needs `{option}`")));
        };
        filled = filled.replace(name, value);
    }
    Ok(filled)
}

/// The folder of the plan, written.
pub(super) fn write(plan: Plan, jobs: &[Job], settings: &Settings) -> anyhow::Result<PlanFolder> {
    Ok(match &settings.choices.write_plan {
        Some(place) => PlanFolder::create_at(place, plan, jobs)?,
        None => PlanFolder::create(plan, jobs)?,
    })
}

/// Why a cell is not built, in words.
pub(super) fn words(left_out: &LeftOut) -> String {
    match left_out {
        LeftOut::Excluded(reason) => reason.clone(),
        LeftOut::Exists(files) => files.join(", "),
    }
}
