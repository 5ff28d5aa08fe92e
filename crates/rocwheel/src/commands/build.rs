//! `rocwheel build`: frameworks from recipes, on this machine.

mod after;
pub(crate) mod cell;
mod cells;
mod containers;
mod inputs;
mod into;
mod machine;
mod plan;
mod recipes;
mod slurm;
mod sources;
mod states;
mod text;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::Args;
use rocwheel_recipe::execute::{
    self, Existing, LastLook, Leftovers, Listener, Outcome, Place, Selection, UserEnvironment,
};
use rocwheel_recipe::executor::Executor;
use rocwheel_recipe::preflight::Machine;
use rocwheel_recipe::{Input, Job, PythonVersion, duration};
use rocwheel_report::{Exit, Hint as _};
use serde::Serialize;

use crate::commands::Mode;
use crate::environment;
use crate::failure::{self, Usage};
use crate::output_file::{FileKind, OutputFile, OutputOption};
use crate::printer::{Format, Printer};
use after::After;
use cell::CellArguments;
use containers::{ContainerArguments, Containers};
use inputs::Sdk;
pub(crate) use plan::with_questions;
use plan::{Asked, Choices, PlanArguments};
use recipes::Recipes;
use sources::Sources;
use states::Before;
use text::PlannedRecipe;

/// Headings of the help that several parts of it share.
const RESULT: &str = "The result";
const STEPS: &str = "Steps";
const WHERE: &str = "Where it runs";

/// Build frameworks from recipes: wheels of torch, torchvision, torchaudio, triton, apex and
/// flash-attn, and MAGMA
///
/// Each build is a job with its own folder, a fresh Python environment and a clean set of
/// variables. Finished steps are not repeated: an interrupted build continues, and a finished one
/// is not run again. The result is installed, tried and audited before it appears.
///
/// `rocwheel recipe list` prints the recipes. `all` is triton, torch, torchaudio and torchvision;
/// `all apex` has apex too.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What to build: names of recipes, `all`, or names such as magma-rocm63; or `install-rocm`,
    /// which only installs the Python packages of ROCm into the environment of `--into`
    #[arg(value_name = "RECIPE", required_unless_present_any = ["job", "plan", "status", "cancel", "logs"])]
    names: Vec<String>,
    /// Run a job that `--write-job` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "CellArguments", "Sources", "Sdk", "After", "write_job"])]
    job: Option<PathBuf>,
    /// Folder for the results
    #[arg(short, long, value_name = "DIR", default_value = "output")]
    output: PathBuf,
    /// Your Python environment, into which the finished wheels and their requirements are
    /// installed; with --develop, the sources
    #[arg(long, value_name = "VENV", conflicts_with_all = ["write_job", "plan", "status", "cancel", "logs"])]
    into: Option<PathBuf>,
    /// Folder for jobs; a short path makes short commands [default: .rocwheel/jobs in the output]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write the job as TOML (or JSON, for a name that ends with .json), and build nothing
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    write_job: Option<OutputOption>,
    /// Print what would be done and build nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cell: CellArguments,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    sdk: Sdk,
    #[command(flatten)]
    containers: ContainerArguments,
    #[command(flatten)]
    after: After,
    #[command(flatten)]
    plan: PlanArguments,
    /// Try wheels for any Python on these too, separated by commas
    #[arg(long, help_heading = RESULT, value_name = "VERSIONS", value_delimiter = ',')]
    try_on: Vec<PythonVersion>,
    /// Run this step again, unfinished steps before it, and none after it
    #[arg(long, help_heading = STEPS, value_name = "STEP", conflicts_with = "from")]
    only: Option<String>,
    /// Run this step, or this recipe, and all later ones again
    #[arg(long, help_heading = STEPS, value_name = "STEP")]
    from: Option<String>,
    /// Stop after this long (330m, 5h30m) with exit code 3; the same command continues
    #[arg(long, help_heading = STEPS, value_name = "TIME", value_parser = time)]
    time_limit: Option<Duration>,
    /// Interpreter to build with
    #[arg(long, help_heading = WHERE, value_name = "PROGRAM")]
    interpreter: Option<PathBuf>,
    /// Install with Python's own pip, even if uv is installed
    #[arg(long, help_heading = WHERE)]
    no_uv: bool,
    /// Keep the environment and the copies of sources of a finished job
    #[arg(long, help_heading = STEPS)]
    keep: bool,
    /// Replace files of the same name that are not earlier results
    #[arg(long, help_heading = RESULT)]
    overwrite: bool,
    /// Do not audit the result
    #[arg(long, help_heading = RESULT)]
    no_audit: bool,
    /// Do not check the disk space first
    #[arg(long, help_heading = STEPS)]
    no_preflight: bool,
    /// Compilers at a time, from the global option.
    #[arg(skip)]
    pub(crate) compilers: Option<u16>,
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "write it as `90s`, `330m` or `5h30m`".to_owned())
}

/// What the command works with.
#[derive(Debug)]
pub(crate) struct Settings {
    what: What,
    /// Containers that jobs run in; `None`: they run here.
    containers: Option<Rc<Containers>>,
    /// Whether this is a container of the image that the job is for.
    is_inside: bool,
    place: Place,
    selection: Selection,
    time_limit: Option<Duration>,
    compilers: Option<u16>,
    preflight: bool,
    mode: Mode,
    write_job: Option<OutputFile>,
    executor: Executor,
    choices: Choices,
    /// Options that a task of a cluster gets.
    task_options: Vec<String>,
}

/// Where jobs come from.
#[derive(Debug)]
enum What {
    /// A file.
    File(Box<Job>),
    /// Recipes and options.
    Recipes(Box<Recipes>),
    /// A plan that is there.
    Plan(Asked),
    /// Nothing is built: the packages of a ROCm are installed into the user's environment.
    InstallRocm(Sdk),
}

impl What {
    /// Whether something is built in a container; an error where an image is named and nothing is.
    fn is_in_container(&self, containers: Option<&Containers>) -> anyhow::Result<bool> {
        let Some(containers) = containers else { return Ok(false) };
        match self {
            What::Recipes(recipes) => {
                containers.check(recipes.written()?.into_iter().map(|recipe| recipe.in_container))?;
                recipes.use_containers()
            }
            What::File(job) => Ok(containers.take_job(job)),
            What::Plan(_) | What::InstallRocm(_) => Ok(false),
        }
    }
}

/// The word of TheRock's `build_prod_wheels.py` for installing ROCm alone.
const INSTALL_ROCM: &str = "install-rocm";

impl Arguments {
    /// What of the command line a task of a cluster needs, which has the plan for the rest.
    fn task_options(&self) -> Vec<String> {
        let flags = [
            (self.no_uv, "--no-uv"),
            (self.keep, "--keep"),
            (self.overwrite, "--overwrite"),
            (self.no_audit, "--no-audit"),
            (self.no_preflight, "--no-preflight"),
        ];
        let mut words: Vec<String> = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned()).collect();
        if let Some(interpreter) = &self.interpreter {
            // A name alone is looked for in PATH.
            let is_name = interpreter.components().count() == 1 && !interpreter.is_absolute();
            let path = if is_name { interpreter.clone() } else { containers::absolute(interpreter) };
            words.extend(["--interpreter".to_owned(), path.to_string_lossy().into_owned()]);
        }
        words.extend(self.containers.task_options());
        words
    }
}

impl Settings {
    /// The containers that a job runs in; `None`: it runs here.
    fn containers_of(&self, job: &Job) -> Option<&Containers> {
        self.containers.as_deref().filter(|containers| containers.take_job(job))
    }

    fn is_for_slurm(&self) -> bool {
        self.executor == Executor::Slurm
    }
}

impl TryFrom<Arguments> for Settings {
    type Error = anyhow::Error;

    fn try_from(mut arguments: Arguments) -> anyhow::Result<Self> {
        let executor = arguments.containers.executor();
        if arguments.job.is_some() && executor == Executor::Slurm {
            let usage = Usage::new("`--job` runs one job on this machine, and `--executor slurm` runs plans");
            return Err(usage.hint("name the recipes and the values of their axes, or a plan with `--plan`").into());
        }
        let task_options = arguments.task_options();
        let write_job = arguments.write_job.take();
        let write_job = write_job.map(|file| file.check("--write-job", FileKind::Job, &[])).transpose()?;
        let (asked, choices) = arguments.plan.choices()?;
        let output = std::path::absolute(arguments.output)?;
        let work = arguments.work.map(std::path::absolute).transpose()?;
        let surroundings = environment::variables()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let containers = arguments.containers.of_jobs()?.containers(&surroundings)?.map(Rc::new);
        let into = arguments.into.map(std::path::absolute).transpose()?;
        let mut from = arguments.from;
        let what = if let Some(asked) = asked {
            What::Plan(asked)
        } else if arguments.names == [INSTALL_ROCM] {
            What::InstallRocm(arguments.sdk)
        } else if let Some(path) = arguments.job {
            What::File(Box::new(Job::read(&path)?))
        } else {
            let wishes = arguments.cell.wishes(None)?.with_sdk(arguments.sdk.kind());
            let mut names = wishes.recipes(&arguments.names)?;
            // A recipe in place of a step: those before it are there already.
            if let Some(at) = names.iter().position(|named| from.as_ref() == Some(&named.recipe)) {
                names.drain(..at);
                from = None;
            }
            let sources = arguments.sources.with_names(&wishes.book)?;
            sources.check(&names)?;
            let sources = sources.with_versions(&wishes.book, &names)?;
            let mut recipes = Recipes {
                wishes: Rc::new(wishes.clone()),
                names,
                sources,
                sdk: arguments.sdk,
                after: arguments.after,
                try_on: arguments.try_on,
                epoch: environment::epoch()?,
                containers: containers.clone(),
            };
            let of_rocm = recipes.sdk.targets(&surroundings, !recipes.use_containers()?)?;
            recipes.wishes = Rc::new(wishes.with_targets_of_rocm(of_rocm));
            What::Recipes(Box::new(recipes))
        };
        let is_in_container = what.is_in_container(containers.as_deref())?;
        // A wheel for that environment is built with its Python.
        let of_user = into.as_ref().filter(|_| !is_in_container).map(|path| UserEnvironment::interpreter_of(path));
        let place = Place {
            work: work.unwrap_or_else(|| output.join(".rocwheel").join("jobs")),
            output,
            program: environment::this_program()?,
            uv: if arguments.no_uv { None } else { environment::program("uv") },
            surroundings,
            jobs: 1,
            deadline: None,
            interpreter: arguments.interpreter.or(of_user),
            into,
            leftovers: if arguments.keep { Leftovers::Keep } else { Leftovers::Remove },
            existing: if arguments.overwrite { Existing::Replace } else { Existing::Refuse },
            last_look: if arguments.no_audit { LastLook::Skip } else { LastLook::Audit },
            machine: None,
        };
        Ok(Self {
            what,
            is_inside: arguments.containers.is_inside(),
            containers,
            place,
            selection: match (arguments.only, from) {
                (Some(step), _) => Selection::Only(step),
                (None, Some(step)) => Selection::From(step),
                (None, None) => Selection::Rest,
            },
            time_limit: arguments.time_limit,
            compilers: arguments.compilers.or(environment::max_jobs()?),
            preflight: !arguments.no_preflight,
            mode: Mode::new(arguments.dry_run),
            write_job,
            executor,
            choices,
            task_options,
        })
    }
}

/// What became of a job.
#[derive(Debug, Serialize)]
struct Ran {
    title: String,
    key: String,
    #[serde(flatten)]
    outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Builds, or says what would be built.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    into::check(settings, printer)?;
    let deadline = settings.time_limit.map(|limit| Instant::now() + limit);
    let recipes = match &settings.what {
        What::File(job) if settings.mode == Mode::DryRun => {
            let containers = settings.containers.as_ref().filter(|containers| containers.take_job(job));
            let container = containers.and_then(|containers| containers.planned_job(job));
            return text::plan(&[PlannedRecipe { recipe: job.recipe.clone(), container }], &[], printer);
        }
        What::File(job) => {
            let mut run = Run { settings, deadline, printer, done: Vec::new() };
            run.job(job)?;
            return run.conclude();
        }
        What::Plan(asked) => return slurm::asked(asked, settings, printer),
        What::InstallRocm(sdk) => return into::install_rocm(sdk, settings, printer),
        What::Recipes(recipes) if settings.choices.matrix => &recipes.of_the_table()?,
        What::Recipes(recipes) => &**recipes,
    };
    if settings.write_job.is_none() && (settings.is_for_slurm() || recipes.are_many(&settings.choices)?) {
        let made = plan::make(recipes, settings, printer)?;
        if settings.mode == Mode::DryRun {
            let before = Before { checkouts: made.checkouts, containers: made.containers };
            return states::planned(&made.plan, &before, settings.choices.excluded, printer);
        }
        let folder = plan::write(made.plan, &made.jobs, settings)?;
        return match settings.executor {
            _ if settings.choices.write_plan.is_some() => {
                printer.line(folder.path().to_string_lossy())?;
                Ok(Exit::Done)
            }
            Executor::Slurm => slurm::submit(&folder, &[], settings, printer),
            _ => cells::run(&folder, &[], settings, printer),
        };
    }
    if settings.mode == Mode::DryRun {
        let checkouts = recipes.checkouts(&settings.place)?;
        let evaluated = recipes.evaluated(&settings.place)?.into_iter();
        let planned = evaluated.map(|recipe| {
            let container = recipes.planned_container(&recipe)?;
            Ok(PlannedRecipe { recipe, container })
        });
        return text::plan(&planned.collect::<anyhow::Result<Vec<_>>>()?, &checkouts, printer);
    }
    let mut run = Run { settings, deadline, printer, done: Vec::new() };
    if let Some(file) = &settings.write_job {
        return write_job(recipes, &settings.place, file.path(), printer);
    }
    run.recipes(recipes)?;
    run.conclude()
}

fn write_job(recipes: &Recipes, place: &Place, path: &Path, printer: &Printer) -> anyhow::Result<Exit> {
    let [named] = &recipes.names[..] else {
        return Err(Usage::new("`--write-job` writes one job, and several recipes are named").into());
    };
    let with = recipes.sdk.given();
    let mut cells = recipes.wishes.cells(named, &with)?;
    if cells.len() > 1 {
        return Err(Usage::new("`--write-job` writes one job").hint("name one ROCm, and one `--backend`").into());
    }
    let Some(cell) = cells.pop() else { return Ok(Exit::Done) };
    let inputs = recipes.sdk.inputs(printer.reporter())?;
    let placed = recipes.placed(&cell, &recipes.sources)?;
    let job = placed.job(&named.recipe, cell, inputs, place, printer)?;
    job.write(path)?;
    if printer.format() == Format::Json {
        printer.json(&serde_json::json!({ "title": job.title(), "key": job.key(), "path": path }))?;
    } else {
        printer.line(path.to_string_lossy())?;
        printer.note(format!(
            "{}, key {}: `rocwheel build --job {} --output DIR` runs it",
            job.title(),
            job.key(),
            path.display()
        ));
    }
    Ok(Exit::Done)
}

/// A run of one or several jobs.
struct Run<'a> {
    settings: &'a Settings,
    deadline: Option<Instant>,
    printer: &'a Printer,
    done: Vec<(Ran, Exit)>,
}

impl Run<'_> {
    /// Recipes in order. Those that wait for one that failed are left out, others go on.
    fn recipes(&mut self, recipes: &Recipes) -> anyhow::Result<()> {
        let mut with: BTreeSet<String> = recipes.sdk.given();
        let mut inputs = recipes.sdk.inputs(self.printer.reporter())?;
        let mut failed: BTreeSet<String> = BTreeSet::new();
        let is_alone = recipes.names.len() == 1;
        for named in &recipes.names {
            let name = &named.recipe;
            let entry = recipes.wishes.book.get(name)?;
            if let Some(before) = entry.recipe.after.iter().find(|before| failed.contains(*before)) {
                self.printer.warn(format!("{name} is skipped: {before} was not built"));
                failed.insert(name.clone());
                continue;
            }
            let cells = recipes.wishes.cells(named, &with)?;
            let is_single = is_alone && cells.len() == 1;
            for cell in cells {
                let placed = recipes.placed(&cell, &recipes.sources);
                let job = placed
                    .and_then(|placed| placed.job(name, cell, inputs.clone(), &self.settings.place, self.printer));
                let ended = job.and_then(|job| Ok((self.job(&job)?, job.recipe.output.install)));
                match ended {
                    Ok((Some(outputs), true)) => {
                        inputs.extend(outputs);
                        with.insert(name.clone());
                    }
                    Ok((Some(_), false)) => {}
                    // The time is over for those that come after too.
                    Ok((None, _)) => return Ok(()),
                    Err(error) if is_single => return Err(error),
                    Err(error) => {
                        let exit = failure::print(&error);
                        if exit == Exit::Interrupted {
                            return Err(error);
                        }
                        failed.insert(name.clone());
                        let hint =
                            error.chain().find_map(|error| error.downcast_ref::<rocwheel_recipe::Error>()?.hint());
                        let text = format!("{error:#}");
                        let ran =
                            Ran { title: name.clone(), key: String::new(), outcome: None, error: Some(text), hint };
                        self.done.push((ran, exit));
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs a job. What it made; `None` when it was stopped, or when only a part of it was asked
    /// for.
    fn job(&mut self, job: &Job) -> anyhow::Result<Option<Vec<Input>>> {
        let settled = self.settled(job)?;
        let job = &*settled;
        let listener = text::Talk { printer: self.printer };
        let outcome = self.execute(job, &self.settings.place, &listener)?;
        let (exit, made) = match &outcome {
            Outcome::Built { outputs, .. } | Outcome::Unchanged { outputs } => {
                let inputs = outputs
                    .iter()
                    .filter(|made| made.path.extension().is_some_and(|extension| extension == "whl"))
                    .map(|made| Input {
                        path: self.settings.place.output.join(&made.path),
                        sha256: made.sha256.clone(),
                    });
                let inputs: Vec<Input> = inputs.collect();
                into::install(job, &inputs, &self.settings.place, self.printer)?;
                (Exit::Done, Some(inputs))
            }
            Outcome::Ready { .. } => (Exit::Done, Some(Vec::new())),
            Outcome::Partly { .. } => (Exit::Done, None),
            Outcome::Stopped { .. } => (Exit::Partial, None),
        };
        let ran = Ran { title: job.title(), key: job.key(), outcome: Some(outcome), error: None, hint: None };
        self.done.push((ran, exit));
        Ok(made)
    }

    /// The job as it is run: in which image exactly is known now.
    fn settled<'b>(&self, job: &'b Job) -> anyhow::Result<Cow<'b, Job>> {
        match self.settings.containers_of(job) {
            Some(containers) => containers.settled(job, self.printer),
            None => Ok(Cow::Borrowed(job)),
        }
    }

    /// Runs a job where it is to run.
    fn execute(&self, job: &Job, place: &Place, listener: &dyn Listener) -> anyhow::Result<Outcome> {
        let (printer, settings) = (self.printer, self.settings);
        match (settings.containers_of(job), &job.image) {
            (Some(containers), _) => {
                let place = Place { deadline: self.deadline, ..place.clone() };
                let limits = (settings.compilers, settings.preflight);
                let order = containers::order(job, &place, &settings.selection, limits, printer);
                containers.run(&order, printer)
            }
            (None, Some(image)) if !settings.is_inside => {
                let usage = Usage::new(format!("{} is for the image `{}`, and jobs run here", job.title(), image.name));
                Err(usage.hint("say `--executor docker` or `podman`; `--inside` when this is a container of it").into())
            }
            (None, _) => self.run_here(job, place, listener),
        }
    }

    /// Runs a job on this machine.
    fn run_here(&self, job: &Job, place: &Place, listener: &dyn Listener) -> anyhow::Result<Outcome> {
        let (printer, settings) = (self.printer, self.settings);
        let machine = Machine::look(Path::new("/"), &place.work);
        let jobs = machine.jobs(&job.recipe, settings.compilers);
        printer.detail(format!("{}: {} at a time ({})", job.title(), jobs.count, jobs.reason));
        let machine = settings.preflight.then_some(machine);
        let place = Place { jobs: jobs.count, deadline: self.deadline, machine, ..place.clone() };
        let outcome = execute::run(job, &place, &settings.selection, listener, printer.reporter())?;
        if let (Outcome::Built { .. } | Outcome::Unchanged { .. }, Some(note)) = (&outcome, job.recipe.run_time_note())
        {
            printer.note(format!("{} {note}", job.title()));
        }
        Ok(outcome)
    }

    /// Prints what was done; the exit code is that of the worst.
    fn conclude(self) -> anyhow::Result<Exit> {
        let exits: Vec<Exit> = self.done.iter().map(|(_, exit)| *exit).collect();
        let ran: Vec<Ran> = self.done.into_iter().map(|(ran, _)| ran).collect();
        text::conclude(&ran, &self.settings.place, self.printer)?;
        Ok(worst(&exits))
    }
}

/// The exit code of several.
fn worst(exits: &[Exit]) -> Exit {
    let has = |wanted: Exit| exits.contains(&wanted);
    match exits.iter().find(|exit| ![Exit::Done, Exit::Partial, Exit::TryAgain].contains(*exit)) {
        Some(Exit::Usage) => Exit::Usage,
        Some(_) => Exit::Failed,
        None if has(Exit::TryAgain) => Exit::TryAgain,
        None if has(Exit::Partial) => Exit::Partial,
        None => Exit::Done,
    }
}
