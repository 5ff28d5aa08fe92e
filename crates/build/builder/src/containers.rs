//! Input: jobs and recipes, and the engine and image from the options. Output: the container that
//! each job runs in, and the outcome of the job. One container runs at a time. It takes jobs one
//! after the other while it has what they need.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rocwheel_progress::Failure;
use serde::Serialize;

use crate::engine::{self, Container, ContainerJob, Engine, ImageContents, Needs, Request};
use crate::error;
use crate::execute::{JobOutcome, JobPlace, Listener};
use rocwheel_recipe::RocmChoice;
use rocwheel_recipe::executor::{Image, Pull};
use rocwheel_recipe::request::{BuildRequest, NamedRecipe, parse_targets};
use rocwheel_recipe::surroundings::Surroundings;
use rocwheel_recipe::{Cell, ChosenBy, PythonVersion};
use rocwheel_recipe::{Evaluated, Pythons};
use rocwheel_recipe::{ImageQuery, Images};
use rocwheel_recipe::{Job, Rocm};

/// The jobs that run in containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerUse {
    /// All jobs, because an option asks for it.
    All,
    /// All jobs except job files without an image, because a variable names the engine.
    Images,
    /// Only jobs of recipes with `in-container`.
    Recipes,
}

#[derive(Debug)]
pub struct Containers {
    reach: ContainerUse,
    images: Images,
    /// `false` if neither an option nor this machine names an engine.
    is_installed: bool,
    /// The image that the user names.
    image: Option<String>,
    request: Request,
    engine: OnceCell<Engine>,
    /// Images that have been inspected.
    known: RefCell<BTreeMap<String, Image>>,
    /// Environment variables of images, by image.
    variables: RefCell<BTreeMap<Image, BTreeMap<String, String>>>,
    running: RefCell<Option<Container>>,
}

/// The image of a job, and the facts that the job takes from it.
pub(crate) struct JobImage {
    pub(crate) image: Image,
    /// Contents of the image; `None`: nothing in it decides anything.
    found: Option<ImageContents>,
    /// ROCm's folder in the image; `None`: ROCm comes as packages, or not at all.
    prefix: Option<PathBuf>,
}

/// The container that a recipe is built in, as far as it is known before anything starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PlannedContainer {
    engine: String,
    image: String,
    pull: Pull,
    /// The image's torch, if the build uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    torch: Option<String>,
}

impl PlannedContainer {
    pub fn describe(&self) -> String {
        let PlannedContainer { engine, image, pull, torch } = self;
        let fetched = match pull {
            Pull::Never => "never fetched",
            Pull::Missing => "fetched when it is not here",
            Pull::Always => "fetched each time",
        };
        let torch = torch.as_ref().map(|torch| format!("; built with its torch {torch}")).unwrap_or_default();
        format!("in a container of `{engine}`: image {image}, {fetched}{torch}")
    }
}

impl Containers {
    /// Starts nothing: the engine is looked up when the first job needs it. `image` is the one that
    /// the user names. With `is_installed` `false`, neither an option nor the machine has an
    /// engine, and `request.command` is ignored.
    pub fn new(
        reach: ContainerUse,
        images: Images,
        image: Option<String>,
        request: Request,
        is_installed: bool,
    ) -> Containers {
        Containers {
            reach,
            images,
            image,
            is_installed,
            request,
            engine: OnceCell::new(),
            known: RefCell::default(),
            variables: RefCell::default(),
            running: RefCell::default(),
        }
    }

    /// `true` if a recipe is built in a container; `in_container` is the recipe's own setting.
    pub fn take(&self, in_container: bool) -> bool {
        self.reach != ContainerUse::Recipes || in_container
    }

    pub fn take_job(&self, job: &Job) -> bool {
        self.reach == ContainerUse::All || (job.image.is_some() && self.take(job.recipe.in_container))
    }

    /// Checks that `--image` has an effect: an error if none of the recipes is built in a
    /// container.
    pub fn check(&self, in_container: impl IntoIterator<Item = bool>) -> Result<(), Failure> {
        match &self.image {
            Some(image) if !in_container.into_iter().any(|one| self.take(one)) => Err(image_without_containers(image)),
            _ => Ok(()),
        }
    }

    /// The request with the versions that the tag of the image names, which the user gave.
    pub fn with_versions_of_image(
        &self,
        request: BuildRequest,
        names: &[NamedRecipe],
    ) -> Result<BuildRequest, Failure> {
        let Some(name) = &self.image else { return Ok(request) };
        let image = self.images.full_name(name, &request.cell)?;
        let versions = self.images.versions(&image);
        // Without a tag, the image is the one for each combination.
        if image != *name && request.axes.are_several() {
            return Ok(request);
        }
        Ok(request.in_image(&image, &versions, names)?)
    }

    pub fn planned(&self, recipe: &Evaluated) -> Result<PlannedContainer, Failure> {
        let image = self.image_name(recipe)?;
        let torch = self.torch_of_image(&image, &recipe.cell);
        Ok(PlannedContainer { engine: self.request.command.clone(), image, pull: self.request.pull, torch })
    }

    /// The torch of the image, if a recipe is built with it.
    fn torch_of_image(&self, image: &str, cell: &Cell) -> Option<String> {
        self.images.versions(image).remove("torch").filter(|_| cell.system_packages.is_on())
    }

    /// The same for a job file, which names its image.
    pub fn planned_job(&self, job: &Job) -> Option<PlannedContainer> {
        let named = self.image.as_ref().and_then(|name| self.images.full_name(name, &job.recipe.cell).ok());
        let image = named.or_else(|| job.image.as_ref().map(|image| image.name.clone()))?;
        let torch = self.torch_of_image(&image, &job.recipe.cell);
        Some(PlannedContainer { engine: self.request.command.clone(), image, pull: self.request.pull, torch })
    }

    /// The image that the user names, otherwise the table's.
    pub fn image_name(&self, recipe: &Evaluated) -> Result<String, Failure> {
        let cell = &recipe.cell;
        if let Some(name) = &self.image {
            return Ok(self.images.full_name(name, cell)?);
        }
        Ok(self.images.name(ImageQuery { recipe: &recipe.recipe, sdk: cell.sdk, rocm: cell.rocm.as_deref() })?)
    }

    /// The image for a recipe. Its contents are inspected only if they decide something.
    pub(crate) fn image_of(
        &self,
        recipe: &Evaluated,
        sdk: &RocmChoice,
        place: &JobPlace,
        listener: &dyn Listener,
    ) -> Result<JobImage, Failure> {
        let prefix = if recipe.sdk { sdk.prefix_inside() } else { None };
        let interpreter = place.interpreter.as_deref();
        let image = self.looked_at(&Image::named(self.image_name(recipe)?), listener)?;
        let needs_python = recipe.python == Pythons::Each && recipe.cell.python.is_none();
        let mut found = None;
        if prefix.is_some() || needs_python || (interpreter.is_some() && recipe.cell.python.is_none()) {
            let folder = prefix.as_deref().unwrap_or(Path::new("/"));
            let complete = self.completed(&image, recipe, place, listener)?;
            let seen = self.engine(listener)?.look(&complete, interpreter, folder, listener.reporter())?;
            self.variables.borrow_mut().insert(image.clone(), seen.variables.clone());
            found = Some(seen);
        }
        Ok(JobImage { image, found, prefix })
    }

    /// The variables that replace a recipe's defaults in an image: the image's, and those of the
    /// caller, which have priority.
    pub fn surroundings(&self, image: &Image, caller: &Surroundings) -> Surroundings {
        let known = self.variables.borrow();
        let of_image = known.get(image).into_iter().flatten();
        of_image.chain(caller.iter()).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The same job in the image that the user names, or in the job's own, resolved to the local
    /// image.
    pub fn settled<'a>(&self, job: &'a Job, listener: &dyn Listener) -> Result<Cow<'a, Job>, Failure> {
        let named = self.image.as_ref().map(|name| self.images.full_name(name, &job.recipe.cell)).transpose()?;
        let wanted = match (&named, &job.image) {
            (Some(name), Some(image)) if image.name == *name => image.clone(),
            (Some(name), _) => Image::named(name.clone()),
            (None, Some(image)) => image.clone(),
            (None, None) => {
                return Err(error::request_with(
                    format!("{} does not say in which image it runs", job.title()),
                    "name one with `--image`",
                ));
            }
        };
        let image = self.looked_at(&wanted, listener)?;
        if job.image.as_ref() == Some(&image) {
            return Ok(Cow::Borrowed(job));
        }
        Ok(Cow::Owned(Job { image: Some(image), ..job.clone() }))
    }

    /// Runs a job in a container. The running container is used if it has what the job needs.
    pub fn run(&self, order: &ContainerJob<'_>, listener: &dyn Listener) -> Result<JobOutcome, Failure> {
        let job = order.job;
        let image = job.image.as_ref().ok_or_else(|| error::request(format!("{} has no image", job.title())))?;
        let needs = Needs::of(job, order.place)?.with_options(self.images.options(&image.name));
        let complete = self.completed(image, &job.recipe, order.place, listener)?;
        let mut running = self.running.borrow_mut();
        if !running.as_ref().is_some_and(|container| container.serves(&complete, &needs)) {
            *running = None;
            let began = Instant::now();
            let container = self.engine(listener)?.start(&complete, needs, &order.place.work, listener.reporter())?;
            listener.detail(&format!("a container of {} started in {} ms", image.name, began.elapsed().as_millis()));
            *running = Some(container);
        }
        let Some(container) = running.as_mut() else { return Err(error::request("no container runs")) };
        let interpreter = order.place.interpreter.clone().or_else(|| {
            let path = self.images.interpreter(&image.name, job.python?)?;
            Some(PathBuf::from(path))
        });
        let place = JobPlace { interpreter, ..order.place.clone() };
        let order = ContainerJob { place: &place, ..*order };
        container.run(&order, listener.reporter(), &|line| pass_on(line, listener))
    }

    fn engine(&self, listener: &dyn Listener) -> Result<&Engine, Failure> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        if !self.is_installed {
            let hint = format!("install one of them, or name an engine with DOCKER_CMD; {}", engine::WITHOUT);
            return Err(error::request_with(
                "this is built in a container, and neither `docker` nor `podman` is installed",
                hint,
            ));
        }
        let engine = Engine::find(self.request.clone(), listener.reporter())?;
        Ok(self.engine.get_or_init(|| engine))
    }

    /// The image with the additional system packages of a recipe installed.
    fn completed(
        &self,
        image: &Image,
        recipe: &Evaluated,
        place: &JobPlace,
        listener: &dyn Listener,
    ) -> Result<Image, Failure> {
        let (engine, packages) = (self.engine(listener)?, &recipe.image_packages);
        engine.with_packages(image, packages, &place.work, listener.reporter(), &|text| listener.note(text))
    }

    fn looked_at(&self, image: &Image, listener: &dyn Listener) -> Result<Image, Failure> {
        if let Some(known) = self.known.borrow().get(&image.name)
            && (image.digest.is_none() || image.digest == known.digest)
        {
            return Ok(known.clone());
        }
        let found = self.engine(listener)?.image(image, listener.reporter(), &|text| listener.note(text))?;
        self.known.borrow_mut().insert(found.name.clone(), found.clone());
        Ok(found)
    }
}

impl JobImage {
    /// Gives a cell the Python and the GPU targets of the image unless it has its own. Returns the
    /// image's ROCm if the job takes its ROCm from there.
    pub(crate) fn complete(&self, cell: &mut Cell) -> Result<Option<Rocm>, Failure> {
        let python = self.python()?;
        cell.python = cell.python.or(python);
        self.inherit_targets(cell)?;
        self.rocm(cell.rocm.as_deref())
    }

    /// The image's Python; `None` if the image was not inspected.
    fn python(&self) -> Result<Option<PythonVersion>, Failure> {
        let Some(found) = &self.found else { return Ok(None) };
        let Some(python) = &found.python else {
            return Err(error::request_with(
                format!("there is no Python in the image `{}`", self.image.name),
                "take an image that has one, or name where it is with `--interpreter`",
            ));
        };
        Ok(Some(python.parse()?))
    }

    /// Gives a cell the GPU targets of the image, unless the user or the ROCm packages name others.
    fn inherit_targets(&self, cell: &mut Cell) -> Result<(), Failure> {
        let list = self.found.as_ref().and_then(|found| found.variables.get("PYTORCH_ROCM_ARCH"));
        let list = list.filter(|list| !list.is_empty());
        if let Some(list) = list.filter(|_| !matches!(cell.chosen_by, ChosenBy::User | ChosenBy::Sdk)) {
            cell.targets = parse_targets(list)?;
            cell.chosen_by = ChosenBy::Image;
        }
        Ok(())
    }

    /// The image's ROCm; `None` if the job does not take its ROCm from the image.
    fn rocm(&self, version: Option<&str>) -> Result<Option<Rocm>, Failure> {
        let (Some(path), Some(found)) = (&self.prefix, &self.found) else { return Ok(None) };
        if !found.has_rocm {
            return Err(error::request_with(
                format!("there is no ROCm at `{}` in the image `{}`", path.display(), self.image.name),
                "`--rocm-sdk prefix=DIR` names its folder in the image, `index=URL` installs one",
            ));
        }
        let Some(version) = found.rocm.clone().or_else(|| version.map(str::to_owned)) else {
            return Err(error::request_with(
                format!(
                    "`{}` in the image `{}` does not say its version in .info/version",
                    path.display(),
                    self.image.name
                ),
                "give it with `--rocm`",
            ));
        };
        Ok(Some(Rocm::Prefix { path: path.clone(), version }))
    }
}

/// A warning of the program in the container stays a warning.
fn pass_on(line: &str, listener: &dyn Listener) {
    match line.split_once(": ") {
        Some(("warning", text)) => listener.reporter().warn(text),
        _ => listener.note(line),
    }
}

/// The error for `--image` if no job runs in a container.
pub fn image_without_containers(image: &str) -> Failure {
    error::request_with(
        format!("`--image {image}` is for containers, and jobs run here"),
        "say `--executor docker` or `--executor podman` as well",
    )
}
