//! Input: a request, with the options for sources, ROCm, containers and the result. Output: the job
//! of each cell, with everything that a build needs.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::cell::{Cell, ChosenBy, PythonVersion, Repair, Switch, minor};
use crate::containers::{Containers, PlannedContainer};
use crate::error::Error;
use crate::evaluate::evaluate;
use crate::evaluated::{Evaluated, Pythons};
use crate::execute::{self, JobPlace, Listener};
use crate::executor::Image;
use crate::job::{InputWheel, Job, Rocm};
use crate::matrix::WhyNot;
use crate::recipe::Recipe;
use crate::request::rocm::RocmChoice;
use crate::request::sources::{PlannedCheckout, SourceChoice};
use crate::request::{BuildRequest, NamedRecipe};
use crate::surroundings::Surroundings;

/// Options for the treatment of the result; `None`: the recipe decides.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResultChoice {
    /// How the wheel is repaired so that it loads on other machines.
    pub repair: Option<Repair>,
    /// On: the code for each GPU target gets its own wheel.
    pub split: Option<Switch>,
}

/// Makes the jobs of a request.
#[derive(Debug, Clone)]
pub struct JobMaker {
    /// The recipes, the table and the axes.
    pub request: Rc<BuildRequest>,
    /// The recipes to build, in order.
    pub names: Vec<NamedRecipe>,
    /// The sources that options name.
    pub sources: SourceChoice,
    /// The ROCm that options name.
    pub rocm: RocmChoice,
    /// The treatment of the result.
    pub result: ResultChoice,
    /// Additional Pythons in which a wheel for any Python is tested.
    pub try_on: Vec<PythonVersion>,
    /// Time stamp of written files, in seconds since 1970.
    pub epoch: u64,
    /// Containers; `None`: all jobs run on this machine.
    pub containers: Option<Rc<Containers>>,
}

impl ResultChoice {
    /// Overrides the recipe's values with the options.
    fn apply(self, recipe: &mut Evaluated) -> Result<(), Error> {
        let (name, output) = (&recipe.recipe, &mut recipe.output);
        if output.tarball.is_some() && (self.repair.is_some() || self.split.is_some()) {
            let reason = format!("`--repair` and `--split` are for wheels, and {name} makes a tarball");
            return Err(Error::request_with(reason, "leave them out"));
        }
        if self.repair == Some(Repair::Rocm) && !recipe.sdk {
            let backend = recipe.cell.backend.as_deref().unwrap_or_default();
            let reason =
                format!("`--repair rocm` finds ROCm beside the wheel, and {name} ({backend}) is built without ROCm");
            return Err(Error::request_with(reason, "`--repair graft` brings other libraries into the wheel"));
        }
        output.repair = self.repair.or(output.repair);
        output.split = self.split.or(output.split);
        Ok(())
    }
}

impl JobMaker {
    /// All recipes, evaluated for all cells without inspecting sources and ROCm.
    pub fn evaluated(&self, place: &JobPlace) -> Result<Vec<Evaluated>, Error> {
        let mut all = Vec::new();
        let mut with = self.rocm.given();
        for named in &self.names {
            for mut cell in self.request.cells(named, &with)? {
                if self.without_triton(named, &cell, place)?.is_some() {
                    continue;
                }
                let entry = self.request.book.get(&named.recipe)?;
                let placed = self.placed(&cell, &self.sources)?;
                cell.version = placed.sources.version(&entry.recipe, &cell, place)?;
                cell.source_targets = placed.sources.targets(&entry.recipe, &cell, place)?;
                let evaluated = self.evaluate(&named.recipe, &cell, place)?;
                self.refuse_impossible(&evaluated)?;
                all.push(evaluated);
            }
            with.insert(named.recipe.clone());
        }
        Ok(all)
    }

    /// A sentence for each version of ROCm and torch that the table lacks.
    pub fn unknown_versions(&self) -> Vec<String> {
        let (table, axes) = (&self.request.table, &self.request.axes);
        let rocm: BTreeSet<&String> =
            axes.rocm.iter().flatten().chain(self.names.iter().flat_map(|named| &named.rocm)).collect();
        let (known, torch) = (table.rocm_versions(), axes.torch.iter().flatten().collect::<BTreeSet<_>>());
        let rocm = rocm.into_iter().filter(|rocm| !known.contains(&minor(rocm)));
        let rocm =
            rocm.map(|rocm| format!("no table knows ROCm {rocm}: GPU targets are not compared with its compiler"));
        let torch = torch.into_iter().filter(|torch| !table.torch.iter().any(|row| row.version == minor(torch)));
        let torch = torch.map(|torch| format!("no table knows torch {torch}: its ROCm and its Python are not checked"));
        rocm.chain(torch).collect()
    }

    /// The reason why a cell that `BUILD_TRITON_BACKEND` adds is left out: the wheel of the first
    /// backend is built without it.
    ///
    /// # Errors
    /// The sources do not exist, or the table has an invalid specifier.
    pub fn without_triton(&self, named: &NamedRecipe, cell: &Cell, place: &JobPlace) -> Result<Option<String>, Error> {
        if !self.request.with_triton_backend || cell.backend.as_deref() != Some("triton") {
            return Ok(None);
        }
        let recipe = &self.request.book.get(&named.recipe)?.recipe;
        let version = self.placed(cell, &self.sources)?.sources.version(recipe, cell, place)?;
        self.request.table.excludes(&named.recipe, &Cell { version, ..cell.clone() })
    }

    /// The containers that a recipe is built in; `None`: it is built on this machine.
    pub fn containers_of(&self, recipe: &Recipe) -> Option<&Containers> {
        self.containers.as_deref().filter(|containers| containers.take(recipe.in_container))
    }

    /// `true` if any of the recipes is built in a container.
    pub fn use_containers(&self) -> Result<bool, Error> {
        Ok(self.written()?.into_iter().any(|recipe| self.containers_of(recipe).is_some()))
    }

    /// The container that a recipe would be built in.
    pub fn planned_container(&self, recipe: &Evaluated) -> Result<Option<PlannedContainer>, Error> {
        let written = &self.request.book.get(&recipe.recipe)?.recipe;
        self.containers_of(written).map(|containers| containers.planned(recipe)).transpose()
    }

    /// A recipe evaluated for a cell, with the caller's variables and the options for the result.
    pub fn evaluate(&self, name: &str, cell: &Cell, place: &JobPlace) -> Result<Evaluated, Error> {
        self.evaluate_with(name, cell, &place.surroundings)
    }

    /// The same in an image, whose variables count too.
    pub fn evaluate_in(
        &self,
        image: Option<&Image>,
        name: &str,
        cell: &Cell,
        place: &JobPlace,
    ) -> Result<Evaluated, Error> {
        match (&self.containers, image) {
            (Some(containers), Some(image)) => {
                self.evaluate_with(name, cell, &containers.surroundings(image, &place.surroundings))
            }
            _ => self.evaluate(name, cell, place),
        }
    }

    fn evaluate_with(&self, name: &str, cell: &Cell, surroundings: &Surroundings) -> Result<Evaluated, Error> {
        let mut recipe = evaluate(self.request.book.get(name)?, &self.request.book, cell)?;
        recipe.take_defaults(surroundings);
        let is_tried = recipe.python != Pythons::Any || recipe.checks.iter().any(|check| check.fresh);
        if !self.try_on.is_empty() && !is_tried {
            return Err(Error::request_with(
                format!("`--try-on` is for checks in fresh environments, and {name} has none"),
                "say `fresh = true` in a check of its recipe",
            ));
        }
        self.result.apply(&mut recipe)?;
        Ok(recipe)
    }

    /// Refuses a cell that the table of versions excludes, before anything is fetched for it.
    fn refuse_impossible(&self, recipe: &Evaluated) -> Result<(), Error> {
        let Some(why) = self.request.table.why_not(recipe, ChosenBy::User)? else { return Ok(()) };
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
        Err(Error::request_with(format!("{} cannot be built: {}", recipe.title(), why.reason()), hint))
    }

    /// The recipes of this run as written.
    pub fn written(&self) -> Result<Vec<&Recipe>, Error> {
        self.names.iter().map(|named| Ok(&self.request.book.get(&named.recipe)?.recipe)).collect()
    }

    /// The checkouts that would be made.
    pub fn checkouts(&self, place: &JobPlace) -> Result<Vec<PlannedCheckout>, Error> {
        let Some(named) = self.names.first() else { return Ok(Vec::new()) };
        let cells = self.request.cells(named, &self.rocm.given())?;
        match cells.first() {
            Some(cell) => self.placed(cell, &self.sources)?.sources.planned(&self.written()?, cell, place),
            None => Ok(Vec::new()),
        }
    }

    /// The same request for one cell, with its versions inserted into the places of sources and
    /// ROCm.
    pub fn placed(&self, cell: &Cell, sources: &SourceChoice) -> Result<JobMaker, Error> {
        let fill = |text: &str| fill_versions(text, cell);
        Ok(JobMaker { sources: sources.filled(&fill)?, rocm: self.rocm.filled(&fill)?, ..self.clone() })
    }

    /// The job of a cell as far as it is known before anything is fetched or started. The versions
    /// of the cell must be filled in already ([`JobMaker::placed`]).
    pub fn sketch(
        &self,
        recipe: Evaluated,
        cell: &Cell,
        inputs: Vec<InputWheel>,
        place: &JobPlace,
    ) -> Result<Job, Error> {
        let entry = self.request.book.get(&recipe.recipe)?;
        let source = self.sources.sketch(&entry.recipe, cell, place)?;
        let is_here = recipe.sdk && self.containers_of(&entry.recipe).is_none();
        let rocm = is_here.then(|| self.rocm.rocm(cell.rocm.as_deref(), &place.surroundings).ok()).flatten();
        let (rocm, try_on) = (rocm.unwrap_or(Rocm::None), self.try_on.clone());
        let (python, epoch) = (cell.python, self.epoch);
        Ok(Job { schema: 1, source, rocm, with: inputs, python, try_on, epoch, image: None, recipe })
    }

    /// The job of a cell. Inspects ROCm and sources, and checks out or downloads missing ones.
    ///
    /// # Errors
    /// The combination cannot be built, or something is missing and not available.
    pub fn job(
        &self,
        name: &str,
        cell: Cell,
        inputs: Vec<InputWheel>,
        place: &JobPlace,
        listener: &dyn Listener,
    ) -> Result<Job, Error> {
        self.placed(&cell, &self.sources)?.placed_job(name, cell, inputs, place, listener)
    }

    /// The same for a maker that [`JobMaker::placed`] returned.
    pub(crate) fn placed_job(
        &self,
        name: &str,
        mut cell: Cell,
        inputs: Vec<InputWheel>,
        place: &JobPlace,
        listener: &dyn Listener,
    ) -> Result<Job, Error> {
        let entry = self.request.book.get(name)?;
        let containers = self.containers_of(&entry.recipe);
        if cell.python.is_none() && place.interpreter.is_some() && containers.is_none() {
            cell.python = Some(execute::default_python(place, listener.reporter())?);
        }
        cell.version = self.sources.version(&entry.recipe, &cell, place)?;
        cell.source_targets = self.sources.targets(&entry.recipe, &cell, place)?;
        // The recipe is evaluated before anything is fetched, because a cell that cannot be
        // evaluated or has no ROCm needs no sources.
        let sketched = self.possible(None, name, &cell, place)?;
        let image =
            containers.map(|containers| containers.image_of(&sketched, &self.rocm, place, listener)).transpose()?;
        let rocm_of_image = image.as_ref().map(|image| image.complete(&mut cell)).transpose()?.flatten();
        let rocm = match rocm_of_image {
            Some(rocm) => rocm,
            None if sketched.sdk => self.rocm_for(&cell, place)?,
            None => Rocm::None,
        };
        let source = self.sources.obtain(&entry.recipe, &self.written()?, &mut cell, place, listener)?;
        let image = image.map(|image| image.image);
        let recipe = self.possible(image.as_ref(), name, &cell, place)?;
        let source = source.look(place, listener.reporter())?;
        let (python, try_on) = (cell.python, self.try_on.clone());
        let mut job = Job { schema: 1, source, rocm, with: inputs, python, try_on, epoch: self.epoch, image, recipe };
        if job.recipe.python == Pythons::Each && job.recipe.cell.python.is_none() {
            // The wheel is for one Python, so its version has to be known.
            let version = execute::default_python(place, listener.reporter())?;
            job.python = Some(version);
            let cell = Cell { python: Some(version), ..cell };
            job.recipe = self.evaluate_in(job.image.as_ref(), name, &cell, place)?;
        }
        Ok(job)
    }

    /// The ROCm of a cell on this machine or from an index.
    fn rocm_for(&self, cell: &Cell, place: &JobPlace) -> Result<Rocm, Error> {
        let rocm = self.rocm.rocm(cell.rocm.as_deref(), &place.surroundings)?;
        check_rocm(&rocm, cell)?;
        Ok(rocm)
    }

    /// A recipe evaluated for a cell, if the table of versions does not exclude it.
    fn possible(&self, image: Option<&Image>, name: &str, cell: &Cell, place: &JobPlace) -> Result<Evaluated, Error> {
        let recipe = self.evaluate_in(image, name, cell, place)?;
        self.refuse_impossible(&recipe)?;
        Ok(recipe)
    }
}

/// Checks that an installed ROCm is the version that the cell is for.
pub(crate) fn check_rocm(rocm: &Rocm, cell: &Cell) -> Result<(), Error> {
    let (Rocm::Prefix { path, version }, Some(wanted)) = (rocm, &cell.rocm) else { return Ok(()) };
    if version == wanted || version.starts_with(&format!("{wanted}.")) {
        return Ok(());
    }
    Err(Error::request_with(
        format!("`{}` is ROCm {version}, and {wanted} is to be built against", path.display()),
        "`{rocm}` in `--rocm-sdk prefix=/opt/rocm-{rocm}` is the version of each cell",
    ))
}

/// Replaces `{rocm}` and `{torch}` in an address or path by the versions of a cell.
pub(crate) fn fill_versions(text: &str, cell: &Cell) -> Result<String, Error> {
    let mut filled = text.to_owned();
    for (name, option, value) in [("{rocm}", "--rocm", &cell.rocm), ("{torch}", "--torch", &cell.torch)] {
        if !filled.contains(name) {
            continue;
        }
        let Some(value) = value else {
            return Err(Error::request(format!("`{name}` in `{text}` needs `{option}`")));
        };
        filled = filled.replace(name, value);
    }
    Ok(filled)
}
