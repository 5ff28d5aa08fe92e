//! Input: a request, with the options for sources, ROCm, containers and the result. Output: the job
//! of each cell, with everything that a build needs.

use std::rc::Rc;

use crate::containers::{Containers, PlannedContainer};
use crate::error;
use crate::execute::{self, JobPlace, Listener};
use crate::source_choice::{PlannedCheckout, SourceChoice};
use rocwheel_progress::Failure;
use rocwheel_recipe::RocmChoice;
use rocwheel_recipe::evaluate;
use rocwheel_recipe::executor::Image;
use rocwheel_recipe::matrix::WhyNot;
use rocwheel_recipe::recipe::Recipe;
use rocwheel_recipe::request::{BuildRequest, NamedRecipe};
use rocwheel_recipe::{Cell, ChosenBy, PythonVersion, Repair, Switch};
use rocwheel_recipe::{Evaluated, Pythons};
use rocwheel_recipe::{InputWheel, Job, Rocm};

/// Options for the treatment of the result; `None`: the recipe decides.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResultChoice {
    /// How the wheel is repaired so that it loads on other machines.
    pub repair: Option<Repair>,
    /// On: the code for each GPU target gets its own wheel.
    pub split: Option<Switch>,
}

#[derive(Debug, Clone)]
pub struct JobMaker {
    pub request: Rc<BuildRequest>,
    /// The recipes to build, in order.
    pub names: Vec<NamedRecipe>,
    /// The sources that options name.
    pub sources: SourceChoice,
    /// The ROCm that options name.
    pub rocm: RocmChoice,
    pub result: ResultChoice,
    /// Additional Pythons in which a wheel for any Python is tested.
    pub try_on: Vec<PythonVersion>,
    /// Time stamp of written files, in seconds since 1970.
    pub epoch: u64,
    /// Containers; `None`: all jobs run on this machine.
    pub containers: Option<Rc<Containers>>,
}

/// The sources, ROCm and wheels of a cell: the options with the versions of the cell inserted. Made
/// before anything is fetched.
#[derive(Debug, Clone)]
pub struct CellInputs {
    pub recipe: String,
    pub sources: SourceChoice,
    pub rocm: RocmChoice,
    /// Wheels that are installed before the build.
    pub wheels: Vec<InputWheel>,
}

impl ResultChoice {
    /// Overrides the recipe's values with the options.
    fn apply(self, recipe: &mut Evaluated) -> Result<(), Failure> {
        let (name, output) = (&recipe.recipe, &mut recipe.output);
        if output.tarball.is_some() && (self.repair.is_some() || self.split.is_some()) {
            let reason = format!("`--repair` and `--split` are for wheels, and {name} makes a tarball");
            return Err(error::request_with(reason, "leave them out"));
        }
        if self.repair == Some(Repair::Rocm) && !recipe.sdk {
            let backend = recipe.cell.backend.as_deref().unwrap_or_default();
            let reason =
                format!("`--repair rocm` finds ROCm beside the wheel, and {name} ({backend}) is built without ROCm");
            return Err(error::request_with(reason, "`--repair graft` brings other libraries into the wheel"));
        }
        output.repair = self.repair.or(output.repair);
        output.split = self.split.or(output.split);
        Ok(())
    }
}

impl JobMaker {
    /// All recipes, evaluated for all cells without inspecting sources and ROCm.
    pub fn evaluate_all(&self, place: &JobPlace) -> Result<Vec<Evaluated>, Failure> {
        let mut all = Vec::new();
        let mut with = self.rocm.given();
        for named in &self.names {
            for mut cell in self.request.cells(named, &with)? {
                if self.without_triton(named, &cell, place)?.is_some() {
                    continue;
                }
                let entry = self.request.book.get(&named.recipe)?;
                let sources = self.sources.filled(&cell)?;
                cell.version = sources.version(&entry.recipe, &cell, place)?;
                cell.source_targets = sources.targets(&entry.recipe, &cell, place)?;
                all.push(self.evaluate_allowed(&named.recipe, &cell, None, place)?);
            }
            with.insert(named.recipe.clone());
        }
        Ok(all)
    }

    /// A sentence for each version that no table knows, and for targets that the sources do not.
    pub fn unknown_versions(&self, place: &JobPlace) -> Result<Vec<String>, Failure> {
        let axes = &self.request.axes;
        let rocm = axes.rocm.iter().flatten().chain(self.names.iter().flat_map(|named| &named.rocm));
        let mut unknown = self.request.table.unknown_versions(rocm, axes.torch.iter().flatten());
        for named in &self.names {
            let recipe = &self.request.book.get(&named.recipe)?.recipe;
            for cell in self.request.cells(named, &self.rocm.given())? {
                for sentence in self.sources.filled(&cell)?.unknown_versions(recipe, &cell, place)? {
                    if !unknown.contains(&sentence) {
                        unknown.push(sentence);
                    }
                }
            }
        }
        Ok(unknown)
    }

    /// The reason why a build of the recipe would stop for its ROCm; its plan goes without one.
    pub fn rocm_problem(&self, recipe: &Evaluated, place: &JobPlace) -> Result<Option<Failure>, Failure> {
        let entry = self.request.book.get(&recipe.recipe)?;
        if !recipe.sdk || self.containers_of(&entry.recipe).is_some() {
            return Ok(None);
        }
        let rocm = self.rocm.filled(&recipe.cell)?;
        Ok(rocm.rocm(recipe.cell.rocm.as_deref(), &place.surroundings).err().map(Failure::from))
    }

    /// The reason why a cell that `BUILD_TRITON_BACKEND` adds is left out: the wheel of the first
    /// backend is built without it.
    pub fn without_triton(
        &self,
        named: &NamedRecipe,
        cell: &Cell,
        place: &JobPlace,
    ) -> Result<Option<String>, Failure> {
        if !self.request.with_triton_backend || cell.backend.as_deref() != Some("triton") {
            return Ok(None);
        }
        let recipe = &self.request.book.get(&named.recipe)?.recipe;
        let version = self.sources.filled(cell)?.version(recipe, cell, place)?;
        Ok(self.request.table.excludes(&named.recipe, &Cell { version, ..cell.clone() })?)
    }

    /// The containers that a recipe is built in; `None`: it is built on this machine.
    pub fn containers_of(&self, recipe: &Recipe) -> Option<&Containers> {
        self.containers.as_deref().filter(|containers| containers.take(recipe.in_container))
    }

    /// `true` if any of the recipes is built in a container.
    pub fn use_containers(&self) -> Result<bool, Failure> {
        Ok(self.written()?.into_iter().any(|recipe| self.containers_of(recipe).is_some()))
    }

    pub fn planned_container(&self, recipe: &Evaluated) -> Result<Option<PlannedContainer>, Failure> {
        let written = &self.request.book.get(&recipe.recipe)?.recipe;
        self.containers_of(written).map(|containers| containers.planned(recipe)).transpose()
    }

    /// A recipe evaluated for a cell, with the variables of the caller and of the image that it is
    /// built in, and the options for the result.
    pub fn evaluate(
        &self,
        name: &str,
        cell: &Cell,
        image: Option<&Image>,
        place: &JobPlace,
    ) -> Result<Evaluated, Failure> {
        let mut recipe = evaluate(self.request.book.get(name)?, &self.request.book, cell)?;
        match (&self.containers, image) {
            (Some(containers), Some(image)) => {
                recipe.take_defaults(&containers.surroundings(image, &place.surroundings));
            }
            _ => recipe.take_defaults(&place.surroundings),
        }
        let is_tried = recipe.python != Pythons::Any || recipe.checks.iter().any(|check| check.fresh);
        if !self.try_on.is_empty() && !is_tried {
            return Err(error::request_with(
                format!("`--try-on` is for checks in fresh environments, and {name} has none"),
                "say `fresh = true` in a check of its recipe",
            ));
        }
        self.result.apply(&mut recipe)?;
        Ok(recipe)
    }

    /// The same, unless the table of versions excludes the cell.
    fn evaluate_allowed(
        &self,
        name: &str,
        cell: &Cell,
        image: Option<&Image>,
        place: &JobPlace,
    ) -> Result<Evaluated, Failure> {
        let recipe = self.evaluate(name, cell, image, place)?;
        let Some(why) = self.request.table.why_not(&recipe, ChosenBy::User)? else { return Ok(recipe) };
        let hint = match why {
            WhyNot::Excluded(_) => {
                format!("`rocwheel matrix {} --excluded` lists what can be built and what cannot", recipe.recipe)
            }
            WhyNot::NoTorch(_) => {
                "PyTorch's index has no such wheel; `--torch-index URL` names one that has it, and `--system-packages` \
                 builds with the torch of the interpreter or image"
                    .into()
            }
        };
        Err(error::request_with(format!("{} cannot be built: {}", recipe.title(), why.reason()), hint))
    }

    /// The recipes of this run as written.
    pub fn written(&self) -> Result<Vec<&Recipe>, Failure> {
        self.names.iter().map(|named| Ok(&self.request.book.get(&named.recipe)?.recipe)).collect()
    }

    pub fn checkouts(&self, place: &JobPlace) -> Result<Vec<PlannedCheckout>, Failure> {
        let Some(named) = self.names.first() else { return Ok(Vec::new()) };
        let cells = self.request.cells(named, &self.rocm.given())?;
        match cells.first() {
            Some(cell) => self.sources.filled(cell)?.planned(&self.written()?, cell, place),
            None => Ok(Vec::new()),
        }
    }

    /// Inserts the versions of a cell into the options for a recipe.
    pub fn inputs(&self, recipe: &str, cell: &Cell, wheels: Vec<InputWheel>) -> Result<CellInputs, Failure> {
        let (sources, rocm) = (self.sources.filled(cell)?, self.rocm.filled(cell)?);
        Ok(CellInputs { recipe: recipe.to_owned(), sources, rocm, wheels })
    }

    /// A provisional job for the plan of a cell: sources and ROCm that are not here yet have no
    /// digest.
    pub fn sketch(&self, inputs: CellInputs, cell: &Cell, recipe: Evaluated, place: &JobPlace) -> Result<Job, Failure> {
        let entry = self.request.book.get(&inputs.recipe)?;
        let source = inputs.sources.sketch(&entry.recipe, cell, place)?;
        let is_here = recipe.sdk && self.containers_of(&entry.recipe).is_none();
        let rocm = is_here.then(|| inputs.rocm.rocm(cell.rocm.as_deref(), &place.surroundings).ok()).flatten();
        let (rocm, try_on) = (rocm.unwrap_or(Rocm::None), self.try_on.clone());
        let (with, python, epoch) = (inputs.wheels, cell.python, self.epoch);
        Ok(Job { schema: 1, source, rocm, with, python, try_on, epoch, image: None, recipe })
    }

    /// The job of a cell. Inspects ROCm and sources, and checks out or downloads missing ones.
    ///
    /// # Errors
    /// The combination cannot be built, or something is missing and not available.
    pub fn make(
        &self,
        inputs: CellInputs,
        mut cell: Cell,
        place: &JobPlace,
        listener: &dyn Listener,
    ) -> Result<Job, Failure> {
        let CellInputs { recipe: name, sources, rocm, wheels } = inputs;
        let entry = self.request.book.get(&name)?;
        let containers = self.containers_of(&entry.recipe);
        if cell.python.is_none() && place.interpreter.is_some() && containers.is_none() {
            cell.python = Some(execute::default_python(place, listener.reporter())?);
        }
        cell.version = sources.version(&entry.recipe, &cell, place)?;
        cell.source_targets = sources.targets(&entry.recipe, &cell, place)?;
        // The recipe is evaluated before anything is fetched, because a cell that cannot be
        // evaluated or has no ROCm needs no sources.
        let allowed = self.evaluate_allowed(&name, &cell, None, place)?;
        let image = containers.map(|containers| containers.image_of(&allowed, &rocm, place, listener)).transpose()?;
        let rocm_of_image = image.as_ref().map(|image| image.complete(&mut cell)).transpose()?.flatten();
        let rocm = match rocm_of_image {
            Some(rocm) => rocm,
            None if allowed.sdk => {
                let rocm = rocm.rocm(cell.rocm.as_deref(), &place.surroundings)?;
                check_rocm(&rocm, &cell)?;
                rocm
            }
            None => Rocm::None,
        };
        let source = sources.obtain(&entry.recipe, &self.written()?, &mut cell, place, listener)?;
        let image = image.map(|image| image.image);
        let recipe = self.evaluate_allowed(&name, &cell, image.as_ref(), place)?;
        let source = source.look(place, listener.reporter())?;
        let (python, try_on) = (cell.python, self.try_on.clone());
        let mut job = Job { schema: 1, source, rocm, with: wheels, python, try_on, epoch: self.epoch, image, recipe };
        if job.recipe.python == Pythons::Each && job.recipe.cell.python.is_none() {
            // The wheel is for one Python, so its version has to be known.
            let version = execute::default_python(place, listener.reporter())?;
            job.python = Some(version);
            let cell = Cell { python: Some(version), ..cell };
            job.recipe = self.evaluate(&name, &cell, job.image.as_ref(), place)?;
        }
        Ok(job)
    }
}

/// Checks that an installed ROCm is the version that the cell is for.
pub(crate) fn check_rocm(rocm: &Rocm, cell: &Cell) -> Result<(), Failure> {
    let (Rocm::Prefix { path, version }, Some(wanted)) = (rocm, &cell.rocm) else { return Ok(()) };
    if version == wanted || version.starts_with(&format!("{wanted}.")) {
        return Ok(());
    }
    Err(error::request_with(
        format!("`{}` is ROCm {version}, and {wanted} is to be built against", path.display()),
        "`{rocm}` in `--rocm-sdk prefix=/opt/rocm-{rocm}` is the version of each cell",
    ))
}
