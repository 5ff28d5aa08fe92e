//! Where jobs run, as options say it, and the containers that they run in.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_recipe::engine::{self, Container, Engine, Found, Images, Needs, Order, Request, Wanted};
use rocwheel_recipe::execute::{Outcome, Place, Selection};
use rocwheel_recipe::executor::{Executor, Image, Pull};
use rocwheel_recipe::{Cell, ChosenBy, Evaluated, Job, Rocm, Surroundings};
use serde::Serialize;

use super::cell::target_set;
use super::inputs::Sdk;
use crate::environment;
use crate::failure::Usage;
use crate::printer::Printer;
use crate::progress::Display;

/// Options about where jobs run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where it runs")]
pub(crate) struct ContainerArguments {
    /// Where jobs run: here, docker, podman or slurm [default: in containers if DOCKER_CMD names an
    /// engine, and for recipes that are built in one, such as magma; else here]
    #[arg(long, value_name = "NAME")]
    executor: Option<Executor>,
    /// With --executor slurm: where a task builds: here, docker or podman [default: as for
    /// --executor]
    #[arg(long, value_name = "NAME")]
    task_executor: Option<Executor>,
    /// Image that jobs run in; `rocm/pytorch` without a tag is the one for ROCm, torch and Python
    /// [default: the one that the table of images has for the recipe and ROCm]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Whether to fetch images: never, missing or always [default: missing, and never for one that
    /// --image names]
    #[arg(long, value_name = "WHEN")]
    pull: Option<Pull>,
    /// Rows to use before those of the table of images, in the form that `rocwheel matrix
    /// --print-table images` prints
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// Program of the engine, with its options: `podman --runtime runc` [default: DOCKER_CMD, else
    /// the executor's name, else the installed one of docker and podman]
    #[arg(long, value_name = "COMMAND")]
    engine: Option<String>,
    /// Option of the engine's `run` in one word, such as --ulimit=nofile=4096:4096
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    engine_option: Vec<String>,
    /// Network of the container, as the engine calls it [default: none when nothing is downloaded,
    /// else the engine's own]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Run a job here that is for an image, because this is a container of that image
    #[arg(long, conflicts_with = "image", requires = "job")]
    inside: bool,
}

/// A path for a task, which runs in another folder.
pub(super) fn absolute(path: &Path) -> PathBuf {
    // It fails for nothing but an empty path, which nobody finds anywhere.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl ContainerArguments {
    /// Where jobs run by the options.
    pub(super) fn executor(&self) -> Executor {
        self.executor.unwrap_or(Executor::Here)
    }

    /// The same for the jobs themselves, which Slurm does not run but starts.
    pub(super) fn of_jobs(&self) -> Result<ContainerArguments, Usage> {
        match (self.executor(), self.task_executor) {
            (Executor::Slurm, Some(Executor::Slurm)) => {
                Err(Usage::new("`--task-executor slurm` would submit jobs from jobs")
                    .hint("it is here, docker or podman"))
            }
            (Executor::Slurm, executor) => Ok(ContainerArguments { executor, ..self.clone() }),
            (_, None | Some(Executor::Here)) => Ok(self.clone()),
            (..) => Err(Usage::new("`--task-executor` is for `--executor slurm`")),
        }
    }

    /// What of this a task needs to do the same.
    pub(super) fn task_options(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (option, value) in [
            ("--executor", self.task_executor.map(|executor| executor.to_string())),
            ("--pull", self.pull.map(|pull| pull.to_string())),
            ("--image", self.image.clone()),
            ("--images", self.images.as_ref().map(|path| absolute(path).to_string_lossy().into_owned())),
            ("--engine", self.engine.clone()),
            ("--network", self.network.clone()),
        ] {
            words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        words.extend(self.engine_option.iter().map(|option| format!("--engine-option={option}")));
        words
    }

    /// What is started for jobs that run in containers; `None`: all run here.
    pub(super) fn containers(&self, surroundings: &Surroundings) -> anyhow::Result<Option<Containers>> {
        let variable = environment::first_of(&["DOCKER_CMD"]);
        let reach = match self.executor {
            Some(Executor::Docker | Executor::Podman) => Reach::All,
            Some(_) => return self.none(),
            None if self.inside => return Ok(None),
            None if variable.is_some() => Reach::Images,
            None => Reach::Recipes,
        };
        if let Some(executor) = self.executor.filter(|_| self.inside) {
            let usage = Usage::new(format!(
                "`--inside` says that this is a container, and `--executor {executor}` would start one"
            ));
            return Err(usage.hint("leave one of them out").into());
        }
        let images = match &self.images {
            Some(path) => Images::with_own(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => Images::built_in()?,
        };
        // The variable that people use names their Docker; who asks for Podman gets that, unless it
        // is what the variable names.
        let variable = variable.filter(|command| self.executor != Some(Executor::Podman) || command.contains("podman"));
        let installed = || ["docker", "podman"].into_iter().find(|name| environment::program(name).is_some());
        let command = (self.engine.clone().or(variable))
            .or_else(|| self.executor.map(|executor| executor.to_string()))
            .or_else(|| installed().map(str::to_owned));
        // An image that the user names may be one that is only here.
        let pull = self.pull.unwrap_or(if self.image.is_some() { Pull::Never } else { Pull::Missing });
        Ok(Some(Containers {
            reach,
            images,
            image: self.image.clone(),
            is_installed: command.is_some(),
            request: Request {
                command: command.unwrap_or_else(|| Executor::Docker.to_string()),
                options: self.engine_option.clone(),
                network: self.network.clone(),
                pull,
                program: environment::this_program()?,
                cache: environment::cache().map(|cache| cache.join("containers")),
                surroundings: surroundings.clone(),
            },
            engine: OnceCell::new(),
            known: RefCell::default(),
            variables: RefCell::default(),
            running: RefCell::default(),
        }))
    }

    /// No containers; an image is for some.
    fn none(&self) -> anyhow::Result<Option<Containers>> {
        match &self.image {
            Some(image) if self.executor == Some(Executor::Here) => Err(for_containers(image).into()),
            _ => Ok(None),
        }
    }

    /// Whether a job that is for an image may run here.
    pub(super) fn is_inside(&self) -> bool {
        self.inside
    }
}

fn for_containers(image: &str) -> Usage {
    Usage::new(format!("`--image {image}` is for containers, and jobs run here"))
        .hint("say `--executor docker` or `--executor podman` as well")
}

/// Which jobs run in containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All of them: an option says so.
    All,
    /// All but job files without an image: a variable names the engine.
    Images,
    /// Those of recipes that are built in containers.
    Recipes,
}

/// Containers that jobs run in, one at a time.
#[derive(Debug)]
pub(super) struct Containers {
    reach: Reach,
    images: Images,
    /// `false` where neither an option nor this machine says which engine there is.
    is_installed: bool,
    /// What the user names.
    image: Option<String>,
    request: Request,
    engine: OnceCell<Engine>,
    /// Images that have been looked at.
    known: RefCell<BTreeMap<String, Image>>,
    /// Environment variables of images that have been read.
    variables: RefCell<BTreeMap<Image, BTreeMap<String, String>>>,
    running: RefCell<Option<Container>>,
}

/// What a job takes from its image.
pub(super) struct Ground {
    pub(super) image: Image,
    /// What was found in it, when anything was asked.
    found: Option<Found>,
    prefix: Option<PathBuf>,
}

/// The container that a recipe is built in, as far as it is known before anything is started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Planned {
    engine: String,
    image: String,
    pull: Pull,
}

impl Planned {
    /// In one line.
    pub(super) fn describe(&self) -> String {
        let Planned { engine, image, pull } = self;
        let fetched = match pull {
            Pull::Never => "never fetched",
            Pull::Missing => "fetched when it is not here",
            Pull::Always => "fetched each time",
        };
        format!("in a container of `{engine}`: image {image}, {fetched}")
    }
}

impl Containers {
    /// Whether a recipe is built in a container.
    pub(super) fn take(&self, in_container: bool) -> bool {
        self.reach != Reach::Recipes || in_container
    }

    /// Whether a job runs in a container.
    pub(super) fn take_job(&self, job: &Job) -> bool {
        self.reach == Reach::All || (job.image.is_some() && self.take(job.recipe.in_container))
    }

    /// Refuses an image when none of the recipes is built in a container.
    pub(super) fn check(&self, in_container: impl IntoIterator<Item = bool>) -> Result<(), Usage> {
        match &self.image {
            Some(image) if !in_container.into_iter().any(|one| self.take(one)) => Err(for_containers(image)),
            _ => Ok(()),
        }
    }

    /// What a recipe would be built in.
    pub(super) fn planned(&self, recipe: &Evaluated) -> anyhow::Result<Planned> {
        Ok(Planned { engine: self.request.command.clone(), image: self.image_name(recipe)?, pull: self.request.pull })
    }

    /// The same for a job file, which says its image.
    pub(super) fn planned_job(&self, job: &Job) -> Option<Planned> {
        let named = self.image.as_ref().and_then(|name| self.images.full_name(name, &job.recipe.cell).ok());
        let image = named.or_else(|| job.image.as_ref().map(|image| image.name.clone()))?;
        Some(Planned { engine: self.request.command.clone(), image, pull: self.request.pull })
    }

    /// The image that the user names, else the table's.
    pub(super) fn image_name(&self, recipe: &Evaluated) -> anyhow::Result<String> {
        let cell = &recipe.cell;
        if let Some(name) = &self.image {
            return Ok(self.images.full_name(name, cell)?);
        }
        Ok(self.images.name(Wanted { recipe: &recipe.recipe, sdk: cell.sdk, rocm: cell.rocm.as_deref() })?)
    }

    /// The image for a recipe. What is in it is looked for only when it decides something.
    pub(super) fn ground(
        &self,
        recipe: &Evaluated,
        sdk: &Sdk,
        place: &Place,
        printer: &Printer,
    ) -> anyhow::Result<Ground> {
        let prefix = if recipe.sdk { sdk.prefix_inside() } else { None };
        let interpreter = place.interpreter.as_deref();
        let image = self.looked_at(&Image::named(self.image_name(recipe)?), printer)?;
        let needs_python = recipe.python == rocwheel_recipe::Pythons::Each && recipe.cell.python.is_none();
        let mut found = None;
        if prefix.is_some() || needs_python || (interpreter.is_some() && recipe.cell.python.is_none()) {
            let folder = prefix.as_deref().unwrap_or(Path::new("/"));
            let complete = self.completed(&image, recipe, place, printer)?;
            let seen = self.engine(printer)?.look(&complete, interpreter, folder, printer.reporter())?;
            self.variables.borrow_mut().insert(image.clone(), seen.variables.clone());
            found = Some(seen);
        }
        Ok(Ground { image, found, prefix })
    }

    /// The variables that replace a recipe's defaults in an image: the caller's, then those of the
    /// image.
    pub(super) fn surroundings(&self, image: &Image, caller: &Surroundings) -> Surroundings {
        let known = self.variables.borrow();
        let of_image = known.get(image).into_iter().flatten();
        of_image.chain(caller.iter()).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The same job, in the image that the user names or that it names itself, as it is here.
    pub(super) fn settled<'a>(&self, job: &'a Job, printer: &Printer) -> anyhow::Result<Cow<'a, Job>> {
        let named = self.image.as_ref().map(|name| self.images.full_name(name, &job.recipe.cell)).transpose()?;
        let wanted = match (&named, &job.image) {
            (Some(name), Some(image)) if image.name == *name => image.clone(),
            (Some(name), _) => Image::named(name.clone()),
            (None, Some(image)) => image.clone(),
            (None, None) => {
                let usage = Usage::new(format!("{} does not say in which image it runs", job.title()));
                return Err(usage.hint("name one with `--image`").into());
            }
        };
        let image = self.looked_at(&wanted, printer)?;
        if job.image.as_ref() == Some(&image) {
            return Ok(Cow::Borrowed(job));
        }
        Ok(Cow::Owned(Job { image: Some(image), ..job.clone() }))
    }

    /// Runs a job in a container: the one that runs, when that has what the job needs.
    pub(super) fn run(&self, order: &Order<'_>, printer: &Printer) -> anyhow::Result<Outcome> {
        let job = order.job;
        let image = job.image.as_ref().ok_or_else(|| Usage::new(format!("{} has no image", job.title())))?;
        let needs = Needs::of(job, order.place)?.with_options(self.images.options(&image.name));
        let complete = self.completed(image, &job.recipe, order.place, printer)?;
        let mut running = self.running.borrow_mut();
        if !running.as_ref().is_some_and(|container| container.serves(&complete, &needs)) {
            *running = None;
            let began = std::time::Instant::now();
            let container = self.engine(printer)?.start(&complete, needs, &order.place.work, printer.reporter())?;
            printer.detail(format!("a container of {} started in {} ms", image.name, began.elapsed().as_millis()));
            *running = Some(container);
        }
        let Some(container) = running.as_mut() else { return Err(Usage::new("no container runs").into()) };
        let interpreter = order.place.interpreter.clone().or_else(|| {
            let path = self.images.interpreter(&image.name, job.python?)?;
            Some(PathBuf::from(path))
        });
        let place = Place { interpreter, ..order.place.clone() };
        let order = Order { place: &place, ..*order };
        let outcome = container.run(&order, printer.reporter(), &|line| tell(line, printer));
        Ok(outcome?)
    }

    fn engine(&self, printer: &Printer) -> anyhow::Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        if !self.is_installed {
            let usage = Usage::new("this is built in a container, and neither `docker` nor `podman` is installed");
            let hint = format!("install one of them, or name an engine with DOCKER_CMD; {}", engine::WITHOUT);
            return Err(usage.hint(hint).into());
        }
        let engine = Engine::find(self.request.clone(), printer.reporter())?;
        Ok(self.engine.get_or_init(|| engine))
    }

    /// The image with the packages of the system that a recipe needs besides.
    fn completed(&self, image: &Image, recipe: &Evaluated, place: &Place, printer: &Printer) -> anyhow::Result<Image> {
        let (engine, packages) = (self.engine(printer)?, &recipe.image_packages);
        let note = |text: &str| printer.note(text);
        Ok(engine.with_packages(image, packages, &place.work, printer.reporter(), &note)?)
    }

    fn looked_at(&self, image: &Image, printer: &Printer) -> anyhow::Result<Image> {
        if let Some(known) = self.known.borrow().get(&image.name)
            && (image.digest.is_none() || image.digest == known.digest)
        {
            return Ok(known.clone());
        }
        let found = self.engine(printer)?.image(image, printer.reporter(), &|text| printer.note(text))?;
        self.known.borrow_mut().insert(found.name.clone(), found.clone());
        Ok(found)
    }
}

impl Ground {
    /// The Python of the image.
    pub(super) fn python(&self) -> anyhow::Result<Option<rocwheel_recipe::PythonVersion>> {
        let Some(found) = &self.found else { return Ok(None) };
        let Some(python) = &found.python else {
            let usage = Usage::new(format!("there is no Python in the image `{}`", self.image.name));
            return Err(usage.hint("take an image that has one, or name where it is with `--interpreter`").into());
        };
        Ok(Some(python.parse()?))
    }

    /// Gives a cell the GPU targets of the image, unless the user or the ROCm packages name others.
    pub(super) fn inherit_targets(&self, cell: &mut Cell) -> anyhow::Result<()> {
        let list = self.found.as_ref().and_then(|found| found.variables.get("PYTORCH_ROCM_ARCH"));
        let list = list.filter(|list| !list.is_empty());
        if let Some(list) = list.filter(|_| !matches!(cell.chosen_by, ChosenBy::User | ChosenBy::Sdk)) {
            cell.targets = target_set(list)?;
            cell.chosen_by = ChosenBy::Image;
        }
        Ok(())
    }

    /// The ROCm of the image; `None`: it is not there that one is looked for.
    pub(super) fn rocm(&self, version: Option<&str>) -> anyhow::Result<Option<Rocm>> {
        let (Some(path), Some(found)) = (&self.prefix, &self.found) else { return Ok(None) };
        if !found.has_rocm {
            let usage =
                Usage::new(format!("there is no ROCm at `{}` in the image `{}`", path.display(), self.image.name));
            return Err(usage
                .hint("`--rocm-sdk prefix=DIR` names its folder in the image, `index=URL` installs one")
                .into());
        }
        let Some(version) = found.rocm.clone().or_else(|| version.map(str::to_owned)) else {
            let usage = Usage::new(format!(
                "`{}` in the image `{}` does not say its version in .info/version",
                path.display(),
                self.image.name
            ));
            return Err(usage.hint("give it with `--rocm`").into());
        };
        Ok(Some(Rocm::Prefix { path: path.clone(), version }))
    }
}

/// What the program in the container says is said here, as what it is.
fn tell(line: &str, printer: &Printer) {
    match line.split_once(": ") {
        Some(("warning", text)) => printer.warn(text),
        _ => printer.note(line),
    }
}

/// How a job is to be run in a container.
pub(super) fn order<'a>(
    job: &'a Job,
    place: &'a Place,
    selection: &'a Selection,
    (jobs, preflight): (Option<u16>, bool),
    printer: &Printer,
) -> Order<'a> {
    // Lines of a log come from inside as well; they would tear up a bar.
    let talk: &[&str] = match (printer.has_details(), printer.display()) {
        (true, Display::Lines) => &["-v"],
        (false, Display::Lines) => &[],
        (true, _) => &["-v", "--no-progress"],
        (false, _) => &["--no-progress"],
    };
    Order { job, place, selection, jobs, preflight, talk }
}
