//! `rocwheel build`: frameworks from recipes, here, in containers or on Slurm.

mod after;
pub(crate) mod cell;
mod containers;
mod machine;
mod plan;
mod rocm;
mod run;
mod sources;
mod states;
mod text;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use after::After;
use cell::CellArguments;
use clap::Args;
use plan::{Asked, Choices, PlanArguments, PlanCommand};
use rocm::RocmArguments;
use rocwheel_builder::combinations::{self, PlanChoice};
use rocwheel_builder::containers::Containers;
use rocwheel_builder::execute::{ExistingOutput, JobPlace, LastLook, Leftovers, UserEnvironment};
use rocwheel_builder::job_maker::JobMaker;
use rocwheel_builder::schedule::{self, Executors, IndexClient, Work, slurm};
use rocwheel_console::any_index::AnyIndex;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_progress::{Context as _, Exit};
use rocwheel_recipe::RocmChoice;
use rocwheel_recipe::executor::Executor;
use rocwheel_recipe::plan::PlanFolder;
use rocwheel_recipe::{Job, PythonVersion, SdkKind, Surroundings};
use run::RunArguments;
use sources::SourceArguments;
use states::Before;
use text::{PlannedRecipe, Talk};

/// Headings that several parts of the help share.
const RESULT: &str = "The result";
const STEPS: &str = "Steps";
const WHERE: &str = "Where it runs";
const PLANS: &str = "Plans of many cells";

/// Build frameworks from recipes: wheels of torch, torchvision, torchaudio, triton, apex and
/// flash-attn, and MAGMA
///
/// Each build is a job with its own folder, a fresh Python environment and a clean set of
/// variables. Finished steps are not repeated: an interrupted build continues, and a finished one
/// is not run again. The result is installed, tried and audited before it appears.
///
/// `rocwheel recipe list` prints the recipes, and which of them are `all`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<PlanCommand>,
    /// What to build: names of recipes, `all`, or names such as magma-rocm63; or `install-rocm`,
    /// which only installs the Python packages of ROCm into the environment of `--into`
    #[arg(value_name = "RECIPE", required_unless_present_any = ["job", "plan", "status", "cancel", "logs"])]
    names: Vec<String>,
    /// Run a job that `--write-job` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "CellArguments", "SourceArguments", "RocmArguments", "After", "write_job"])]
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
    sources: SourceArguments,
    #[command(flatten)]
    rocm: RocmArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Run a job here that is for an image, because this is a container of that image
    #[arg(long, help_heading = WHERE, conflicts_with = "image", requires = "job")]
    inside: bool,
    #[command(flatten)]
    after: After,
    #[command(flatten)]
    plan: PlanArguments,
    /// Try wheels for any Python on these too, separated by commas
    #[arg(long, help_heading = RESULT, value_name = "VERSIONS", value_delimiter = ',')]
    try_on: Vec<PythonVersion>,
    /// Compilers at a time, from the global option.
    #[arg(skip)]
    pub compilers: Option<u16>,
}

#[derive(Debug)]
pub struct Settings {
    what: What,
    executors: Executors,
    pub mode: Mode,
    write_job: Option<OutputFile>,
    choices: Choices,
}

/// The source of the jobs.
#[derive(Debug)]
enum What {
    /// A job file.
    File(Box<Job>),
    /// Recipes and options.
    Recipes(Box<JobMaker>),
    /// An existing plan.
    Plan(Asked),
    /// No build: the packages of a ROCm are installed into the user's environment.
    InstallRocm(RocmChoice),
}

impl What {
    /// `true` if a job runs in a container; an error if an image is named but no job uses it.
    fn is_in_container(&self, containers: Option<&Containers>) -> Result<bool> {
        let Some(containers) = containers else { return Ok(false) };
        match self {
            What::Recipes(recipes) => {
                containers.check(recipes.written()?.into_iter().map(|recipe| recipe.in_container))?;
                Ok(recipes.use_containers()?)
            }
            What::File(job) => Ok(containers.take_job(job)),
            What::Plan(_) | What::InstallRocm(_) => Ok(false),
        }
    }
}

/// The word of TheRock's `build_prod_wheels.py` that installs only ROCm.
const INSTALL_ROCM: &str = "install-rocm";

impl Arguments {
    /// The folders and programs of jobs on this machine.
    fn place(&self, surroundings: Surroundings) -> Result<JobPlace> {
        let output = std::path::absolute(&self.output)?;
        let work = self.work.as_ref().map(std::path::absolute).transpose()?;
        let into = self.into.as_ref().map(std::path::absolute).transpose()?;
        Ok(JobPlace {
            work: work.unwrap_or_else(|| output.join(".rocwheel").join("jobs")),
            output,
            program: environment::this_program()?,
            uv: if self.run.no_uv { None } else { environment::program("uv") },
            surroundings,
            jobs: 1,
            deadline: None,
            interpreter: self.run.interpreter.clone(),
            into,
            leftovers: if self.run.keep { Leftovers::Keep } else { Leftovers::Remove },
            existing: if self.run.overwrite { ExistingOutput::Replace } else { ExistingOutput::Refuse },
            last_look: if self.run.no_audit { LastLook::Skip } else { LastLook::Audit },
            machine: None,
        })
    }

    /// Creates jobs from recipes and options. If `--from` names a recipe, the recipes before it
    /// exist already and are skipped; `from` is then cleared.
    fn recipes(
        self,
        surroundings: &Surroundings,
        from: &mut Option<String>,
        containers: Option<Rc<Containers>>,
    ) -> Result<JobMaker> {
        let rocm = self.rocm.choice();
        let request = self.cell.request(None)?.with_sdk(rocm.kind());
        let mut names = request.recipes(&self.names)?;
        let request = match &containers {
            Some(containers) => containers.with_versions_of_image(request, &names)?,
            None => request,
        };
        if let Some(at) = names.iter().position(|named| from.as_ref() == Some(&named.recipe)) {
            names.drain(..at);
            *from = None;
        }
        let sources = self.sources.choice()?.with_names(&request.book)?;
        sources.check(&names)?;
        let sources = sources.with_versions(&request.book, &names)?;
        let mut recipes = JobMaker {
            request: Rc::new(request.clone()),
            names,
            sources,
            rocm,
            result: self.after.choice(),
            try_on: self.try_on,
            epoch: environment::epoch()?,
            containers,
        };
        let of_rocm = recipes.rocm.targets(surroundings, !recipes.use_containers()?)?;
        recipes.request = Rc::new(request.with_targets_of_rocm(of_rocm));
        Ok(recipes)
    }
}

impl Arguments {
    /// Refuses `--data-file` where it would have no effect.
    pub fn take_rows(&self) -> Result<(), Usage> {
        self.run.containers.take_rows()
    }
}

impl Settings {
    fn place(&self) -> &JobPlace {
        &self.executors.place
    }

    /// `true` if the recipes need a plan: for several combinations, or for an option of plans.
    fn are_planned(&self, recipes: &JobMaker) -> Result<bool> {
        let Choices { matrix, missing_only, write_plan, .. } = &self.choices;
        Ok(*matrix || *missing_only || write_plan.is_some() || recipes.has_combinations()?)
    }
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(mut arguments: Arguments) -> Result<Self> {
        let (asked, choices) = arguments.take_plan()?;
        if arguments.job.is_some() && arguments.run.containers.executor() == Executor::Slurm {
            let usage = Usage::new("`--job` runs one job on this machine, and `--executor slurm` runs plans");
            return Err(usage
                .hint("name the recipes and the values of their axes, or `rocwheel build plan DIR`")
                .into());
        }
        let write_job = arguments.write_job.take();
        let write_job = write_job.map(|file| file.check("--write-job", FileKind::Job, &[])).transpose()?;
        let run = arguments.run.clone();
        let cluster = run.cluster()?;
        let variables = environment::text_variables().collect();
        let of_compiler = rocwheel_system::compiler_variables(&variables).context("cannot set up Visual Studio")?;
        let surroundings = of_compiler.unwrap_or(variables).into_iter().collect();
        let is_inside = arguments.inside;
        let containers = run.containers.of_jobs()?.containers(&surroundings, is_inside)?.map(Rc::new);
        let mut place = arguments.place(surroundings)?;
        let (mode, time_limit, preflight) = (Mode::new(arguments.dry_run), run.time_limit, !run.no_preflight);
        let compilers = arguments.compilers.or(environment::max_jobs()?);
        let mut from = run.from.clone();
        let what = if let Some(asked) = asked {
            What::Plan(asked)
        } else if arguments.names == [INSTALL_ROCM] {
            What::InstallRocm(arguments.rocm.choice())
        } else if let Some(path) = arguments.job {
            What::File(Box::new(Job::read(&path)?))
        } else {
            What::Recipes(Box::new(arguments.recipes(&place.surroundings, &mut from, containers.clone())?))
        };
        let is_in_container = what.is_in_container(containers.as_deref())?;
        if place.interpreter.is_none() && !is_in_container {
            // A wheel for an environment of the user is built with the Python of that environment.
            place.interpreter = place.into.as_deref().map(UserEnvironment::interpreter_of);
        }
        let selection = run.selection(from);
        let host = environment::host().unwrap_or_default();
        let client = place.into.as_ref().map(|_| AnyIndex::new(false)).transpose()?;
        let index = client.map(|client| IndexClient(Box::new(client)));
        let executors = Executors {
            place,
            selection,
            containers,
            is_inside,
            compilers,
            preflight,
            time_limit,
            host,
            cluster,
            index,
        };
        Ok(Self { what, executors, mode, write_job, choices })
    }
}

/// Builds, or prints what it would build.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    if let Some(instead) = settings.choices.instead {
        printer.note(format!("`--{instead}` will go: write `rocwheel build {instead} DIR`"));
    }
    check_environment(settings, printer)?;
    match &settings.what {
        What::File(job) if settings.mode == Mode::DryRun => {
            let containers = settings.executors.containers.as_ref().filter(|containers| containers.take_job(job));
            let container = containers.and_then(|containers| containers.planned_job(job));
            text::plan(&[PlannedRecipe { recipe: job.recipe.clone(), container }], &[], printer)
        }
        What::File(job) => run(Work::Job(job), settings, printer),
        What::Plan(asked) => existing_plan(asked, settings, printer),
        What::InstallRocm(rocm) => install_rocm(rocm, settings, printer),
        What::Recipes(recipes) if settings.choices.matrix => {
            build_recipes(&recipes.with_axes_of_table()?, settings, printer)
        }
        What::Recipes(recipes) => build_recipes(recipes, settings, printer),
    }
}

/// Refuses an environment of the user that cannot take an installation, before the build starts.
fn check_environment(settings: &Settings, printer: &Printer) -> Result<()> {
    let Some(into) = &settings.place().into else { return Ok(()) };
    if let What::Recipes(recipes) = &settings.what {
        if settings.executors.cluster.is_some() || settings.are_planned(recipes)? {
            let usage = Usage::new("`--into` installs what one combination makes, and several are asked for");
            return Err(usage.hint("name one ROCm, torch, Python and set of GPU targets").into());
        }
        if recipes.request.is_in_place() && recipes.use_containers()? {
            let usage = Usage::new("`--develop` in a container leaves nothing that works outside of it");
            return Err(usage.hint("remove `--develop`, or add `--executor here`").into());
        }
    }
    UserEnvironment::open(into, settings.place(), printer.reporter())?;
    Ok(())
}

/// Runs jobs, prints their results, and returns the exit code of the worst.
fn run(work: Work<'_>, settings: &Settings, printer: &Printer) -> Result<Exit> {
    let states = schedule::run(work, &settings.executors, &Talk { printer })?;
    let Work::Plan(folder, named) = work else {
        text::conclude(&states.results, settings.place(), printer)?;
        return Ok(states.exit());
    };
    match &states.submitted {
        Some(submitted) if !settings.choices.wait => {
            if printer.format() == ResultFormat::Json {
                printer.json(&serde_json::json!({ "plan": folder.path(), "submitted": submitted.arrays }))?;
            } else {
                printer.line(folder.path().to_string_lossy())?;
            }
        }
        Some(_) => {
            let queue = slurm::ask(folder, &settings.place().surroundings, printer.reporter());
            states::table(folder, printer, queue.as_ref())?;
            return Ok(slurm::exit_of(&folder.look()?, queue.as_ref()));
        }
        None if named.len() != 1 || printer.format() == ResultFormat::Json || states.is_interrupted => {
            states::table(folder, printer, None)?;
        }
        None => {}
    }
    Ok(states.exit())
}

fn build_recipes(recipes: &JobMaker, settings: &Settings, printer: &Printer) -> Result<Exit> {
    recipes.unknown_versions(settings.place())?.into_iter().for_each(|text| printer.warn(text));
    for named in &recipes.names {
        for cell in recipes.request.cells(named, &recipes.rocm.given())? {
            if let Some(reason) = recipes.without_triton(named, &cell, settings.place())? {
                printer.warn(format!("the wheel of the Triton backend is not built: {reason}"));
            }
        }
    }
    let is_planned = settings.executors.cluster.is_some() || settings.are_planned(recipes)?;
    if let Some(file) = &settings.write_job {
        return write_job(recipes, settings.place(), file.path(), printer);
    }
    if is_planned {
        return build_plan(recipes, settings, printer);
    }
    if settings.mode == Mode::Execute {
        return run(Work::Recipes(recipes), settings, printer);
    }
    let checkouts = recipes.checkouts(settings.place())?;
    let evaluated = recipes.evaluate_all(settings.place())?;
    let mut problems = Vec::new();
    for recipe in &evaluated {
        problems.extend(recipes.rocm_problem(recipe, settings.place())?.map(|problem| problem.to_string()));
    }
    problems.dedup();
    for problem in problems {
        printer.warn(format!("the build would stop: {problem}"));
    }
    let planned = evaluated.into_iter().map(|recipe| {
        let container = recipes.planned_container(&recipe)?;
        Ok(PlannedRecipe { recipe, container })
    });
    text::plan(&planned.collect::<Result<Vec<_>>>()?, &checkouts, printer)
}

/// Plans all combinations; prints the plan, writes it, or runs it.
fn build_plan(recipes: &JobMaker, settings: &Settings, printer: &Printer) -> Result<Exit> {
    let Choices { matrix, missing_only, excluded, write_plan, .. } = &settings.choices;
    let dry_run = settings.mode == Mode::DryRun;
    let choice = PlanChoice { matrix: *matrix, missing_only: *missing_only, dry_run };
    let made = combinations::plan(recipes, choice, settings.place(), &Talk { printer })?;
    if dry_run {
        let before = Before { checkouts: made.checkouts, containers: made.containers };
        return states::planned(&made.plan, &before, *excluded, printer);
    }
    if let Some(place) = write_plan {
        let folder = PlanFolder::create_at(place, made.plan, &made.jobs)?;
        printer.line(folder.path().to_string_lossy())?;
        return Ok(Exit::Done);
    }
    run(Work::Plan(&PlanFolder::create(made.plan, &made.jobs)?, &[]), settings, printer)
}

fn write_job(recipes: &JobMaker, place: &JobPlace, path: &Path, printer: &Printer) -> Result<Exit> {
    let [named] = &recipes.names[..] else {
        return Err(Usage::new("`--write-job` writes one job, and several recipes are named").into());
    };
    let mut cells = recipes.request.cells(named, &recipes.rocm.given())?;
    if cells.len() > 1 {
        return Err(Usage::new("`--write-job` writes one job").hint("name one ROCm, and one `--backend`").into());
    }
    let Some(cell) = cells.pop() else { return Ok(Exit::Done) };
    let inputs = recipes.rocm.inputs(printer.reporter())?;
    let inputs = recipes.inputs(&named.recipe, &cell, inputs)?;
    let job = recipes.make(inputs, cell, place, &Talk { printer })?;
    job.write(path)?;
    if printer.format() == ResultFormat::Json {
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

/// Installs the packages of ROCm and nothing else.
fn install_rocm(choice: &RocmChoice, settings: &Settings, printer: &Printer) -> Result<Exit> {
    let Some(into) = &settings.place().into else {
        let usage = Usage::new("`install-rocm` needs the environment to install into");
        return Err(usage.hint("name it: `--into .venv`").into());
    };
    if choice.kind() == SdkKind::Prefix {
        let usage = Usage::new("an installed ROCm has no packages to install");
        return Err(usage.hint("name them: `--rocm-sdk index=URL`, `find-links=PLACE` or `directory=DIR`").into());
    }
    let rocm = choice.rocm(None, &settings.place().surroundings)?;
    if settings.mode == Mode::DryRun {
        printer.note(format!("would install the packages of ROCm into `{}`", into.display()));
        return Ok(Exit::Done);
    }
    UserEnvironment::open(into, settings.place(), printer.reporter())?.install_rocm(&rocm)?;
    printer.note(format!("installed ROCm into `{}`", into.display()));
    Ok(Exit::Done)
}

/// Runs an existing plan, or answers a question about it.
fn existing_plan(asked: &Asked, settings: &Settings, printer: &Printer) -> Result<Exit> {
    let surroundings = &settings.place().surroundings;
    match asked {
        Asked::Run(folder, named) => {
            let folder = PlanFolder::open(folder)?;
            if settings.mode == Mode::DryRun {
                return states::planned(&folder.plan, &Before::default(), settings.choices.excluded, printer);
            }
            run(Work::Plan(&folder, named), settings, printer)
        }
        Asked::Status(place) => {
            let folder = last_plan(place, printer)?;
            let queue = slurm::ask(&folder, surroundings, printer.reporter());
            states::table(&folder, printer, queue.as_ref())?;
            Ok(slurm::exit_of(&folder.look()?, queue.as_ref()))
        }
        Asked::Cancel(place) => {
            let folder = last_plan(place, printer)?;
            let cancelled = slurm::cancel(&folder, surroundings, printer.reporter())?;
            states::cancelled(&folder, &cancelled, printer)
        }
        Asked::Logs(place, named) => states::logs(&last_plan(place, printer)?, named, printer),
    }
}

/// The plan in a folder; of several, the most recently used.
fn last_plan(place: &Path, printer: &Printer) -> Result<PlanFolder> {
    let all = PlanFolder::all_in(place)?;
    if all.len() > 1 {
        let others: Vec<String> = all[1..].iter().map(|path| path.display().to_string()).collect();
        printer.note(format!("there are other plans: {}", others.join(", ")));
    }
    Ok(PlanFolder::open(&all[0])?)
}
