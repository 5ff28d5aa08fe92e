//! Input: a request with several values on an axis. Output: a plan with the job of each
//! combination.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::containers::PlannedContainer;
use crate::error;
use crate::execute::{JobPlace, Listener};
use crate::job_maker::{CellInputs, JobMaker, check_rocm};
use crate::source_choice::{PlannedCheckout, SourceChoice};
use rocwheel_progress::Failure;
use rocwheel_recipe::matrix::ExistingWheels;
use rocwheel_recipe::plan::{self, Combination, Plan, Planner, SkipReason, WantedJob};
use rocwheel_recipe::request::NamedRecipe;
use rocwheel_recipe::{Book, Cell, ChosenBy};
use rocwheel_recipe::{Evaluated, Pythons};
use rocwheel_recipe::{InputWheel, Job, Rocm};

#[derive(Debug, Clone, Copy)]
pub struct PlanChoice {
    /// `true` for `--matrix`: axes without a value take the values of the table.
    pub matrix: bool,
    /// `true` if cells whose wheels are in the folder of outputs are not built.
    pub missing_only: bool,
    /// `true` if nothing is checked out, fetched or started.
    pub dry_run: bool,
}

/// A plan and its jobs.
pub struct PlannedBuild {
    pub plan: Plan,
    /// One for each cell of the plan.
    pub jobs: Vec<Job>,
    /// The checkouts that they need; only filled by a dry run.
    pub checkouts: Vec<PlannedCheckout>,
    pub containers: BTreeSet<PlannedContainer>,
}

/// Plans every cell. If nothing has to be built, nothing is fetched or started either.
pub fn plan(
    recipes: &JobMaker,
    choice: PlanChoice,
    place: &JobPlace,
    listener: &dyn Listener,
) -> Result<PlannedBuild, Failure> {
    recipes.check_backends()?;
    let existing = choice.missing_only.then(|| recipes.existing(place)).transpose()?;
    let given = recipes.rocm.inputs(listener.reporter())?;
    let mut planner = Planner::new(existing.as_ref(), listener.reporter());
    let mut maker = Maker {
        recipes,
        given,
        choice,
        place,
        listener,
        jobs: BTreeMap::new(),
        rocm: BTreeMap::new(),
        checkouts: Vec::new(),
        containers: BTreeSet::new(),
    };
    for named in &recipes.names {
        maker.recipe(named, &mut planner, existing.as_ref())?;
    }
    let Maker { checkouts, containers, .. } = maker;
    let (plan, jobs) = planner.finish(place.output.clone(), place.work.clone())?;
    nothing_left(&plan)?;
    Ok(PlannedBuild { plan, jobs, checkouts, containers })
}

fn is_installed(recipe: &str, book: &Book) -> bool {
    book.get(recipe).is_ok_and(|entry| entry.recipe.output.install)
}

/// Checks that the tables do not exclude every cell of a plan, which a user cannot have meant.
fn nothing_left(plan: &Plan) -> Result<(), Failure> {
    let mut reasons: Vec<&str> = Vec::new();
    for cell in &plan.cells {
        match &cell.left_out {
            Some(SkipReason::Excluded(reason)) if reasons.contains(&reason.as_str()) => {}
            Some(SkipReason::Excluded(reason)) => reasons.push(reason),
            _ => return Ok(()),
        }
    }
    Err(error::request_with(
        format!("nothing is left to build: {}", reasons.join("; ")),
        "`rocwheel matrix` shows what belongs together; `--table FILE` is a table of your own",
    ))
}

impl JobMaker {
    /// `true` if there is more than one combination, so that a plan is made.
    pub fn has_combinations(&self) -> Result<bool, Failure> {
        let are_several = self.request.axes.are_several() || self.names.iter().any(|named| named.rocm.len() > 1);
        Ok(are_several || self.sources.variants()? > 1)
    }

    /// Fills the axes without a value with every value of the table, and the sources with its
    /// releases.
    pub fn with_axes_of_table(&self) -> Result<JobMaker, Failure> {
        let names: Vec<String> = self.names.iter().map(|named| named.recipe.clone()).collect();
        let mut request = self.request.as_ref().clone();
        request.fill_axes(&names)?;
        let mut sources = self.sources.clone();
        // If the version follows torch, the line of the torch decides it.
        let frameworks = request.table.frameworks.iter().filter(|framework| framework.against_torch);
        for framework in frameworks.filter(|framework| names.contains(&framework.recipe)) {
            sources = sources.with_table(&request.book.get(&framework.recipe)?.recipe, &framework.versions)?;
        }
        Ok(JobMaker { request: Rc::new(request), sources, ..self.clone() })
    }

    fn check_backends(&self) -> Result<(), Failure> {
        let mut known: Vec<&str> = Vec::new();
        for named in &self.names {
            known.extend(self.request.book.get(&named.recipe)?.recipe.backends.iter().map(String::as_str));
        }
        if let Some(unknown) = self.request.axes.backends.iter().flatten().find(|name| !known.contains(&name.as_str()))
        {
            let hint = rocwheel_progress::suggestion(unknown, known);
            return Err(error::request_with(format!("none of the recipes has a backend `{unknown}`"), hint));
        }
        Ok(())
    }

    /// Subfolder for a set of GPU targets; empty if there is only one set.
    fn folder(&self, targets: &[String]) -> String {
        if self.request.axes.targets.len() == 1 { String::new() } else { plan::folder_of(targets) }
    }

    fn existing(&self, place: &JobPlace) -> Result<ExistingWheels, Failure> {
        let axes = &self.request.axes;
        let of_names = self.names.iter().flat_map(|named| &named.rocm);
        let rocm: Vec<String> = axes.rocm.iter().flatten().chain(of_names).cloned().collect();
        let mut folders: BTreeSet<String> = axes.targets.iter().map(|targets| self.folder(targets)).collect();
        folders.insert(String::new());
        Ok(ExistingWheels::look(&place.output, &Vec::from_iter(folders), &self.request.table, &rocm)?)
    }
}

/// Keys that are equal for cells with the same sources, ROCm or image.
struct Keys {
    sources: String,
    rocm: String,
    /// Everything that decides the image, which includes the sources and the ROCm.
    image: String,
}

impl Keys {
    fn of(recipes: &JobMaker, cell: &Cell, inputs: &CellInputs) -> Keys {
        // The checked out commits may depend on the torch.
        let name = &inputs.recipe;
        let recipe = recipes.request.book.get(name).map(|entry| &entry.recipe);
        let without = recipe.is_ok_and(|recipe| inputs.sources.leaves_submodules(recipe, cell));
        let sources = format!("{name}\n{:?}\n{:?}\n{without}", inputs.sources, cell.torch);
        let rocm = format!("{:?}\n{:?}", inputs.rocm, cell.rocm);
        let image = format!("{sources}\n{rocm}\n{:?}\n{:?}", cell.python, cell.backend);
        Keys { sources, rocm, image }
    }
}

/// Makes jobs. Sources and ROCm are inspected once for all jobs that share them.
struct Maker<'a> {
    recipes: &'a JobMaker,
    /// Wheels that are installed before everything else.
    given: Vec<InputWheel>,
    choice: PlanChoice,
    place: &'a JobPlace,
    listener: &'a dyn Listener,
    /// The first job of each recipe and place of its sources.
    jobs: BTreeMap<String, Job>,
    rocm: BTreeMap<String, Rocm>,
    checkouts: Vec<PlannedCheckout>,
    containers: BTreeSet<PlannedContainer>,
}

impl Maker<'_> {
    /// Records the checkouts that a cell needs, each folder once. Only a dry run needs them; a real
    /// run makes them when it gets there.
    fn plan_checkouts(&mut self, sources: &SourceChoice, cell: &Cell) -> Result<(), Failure> {
        if !self.choice.dry_run {
            return Ok(());
        }
        for checkout in sources.planned(&self.recipes.written()?, cell, self.place)? {
            if !self.checkouts.iter().any(|other| other.directory == checkout.directory) {
                self.checkouts.push(checkout);
            }
        }
        Ok(())
    }

    fn recipe(
        &mut self,
        named: &NamedRecipe,
        planner: &mut Planner<'_>,
        existing: Option<&ExistingWheels>,
    ) -> Result<(), Failure> {
        let recipes = self.recipes;
        let name = &named.recipe;
        let order: Vec<String> = recipes.names.iter().map(|named| named.recipe.clone()).collect();
        let book = &recipes.request.book;
        let recipe = &book.get(name)?.recipe;
        // A recipe whose result is not installed is still waited for if `after` names it.
        let mut after = plan::all_before(book, name, &order)?;
        after.retain(|before| is_installed(before, book) || recipe.after.contains(before));
        let mut with = recipes.rocm.given();
        with.extend(after.iter().filter(|name| is_installed(name, book)).cloned());
        let variants = recipes.sources.variants()?;
        for variant in 0..variants {
            let recipes_of_variant = JobMaker { sources: recipes.sources.variant(variant), ..recipes.clone() };
            for (mut cell, column) in recipes.request.combinations(named, &with)? {
                let folder = recipes.folder(&cell.targets);
                let inputs = recipes_of_variant.inputs(name, &cell, self.given.clone())?;
                let place = self.place;
                cell.version = match self.like(&cell, &inputs) {
                    Some(like) => like.recipe.cell.version.clone(),
                    None => inputs.sources.version(recipe, &cell, place)?,
                };
                cell.source_targets = inputs.sources.targets(recipe, &cell, place)?;
                let evaluated = recipes.evaluate(name, &cell, None, place)?;
                let excluded = recipes.request.table.why_not(&evaluated, self.chosen_by())?;
                let mut excluded = excluded.map(|why| why.reason().to_owned());
                // A missing image is an error, unless the table chose the ROCm.
                if excluded.is_none() && self.choice.matrix {
                    excluded = recipes.planned_container(&evaluated).err().map(|error| error.to_string());
                }
                let is_there = existing.is_some_and(|existing| !existing.of(&evaluated, &folder).is_empty());
                if excluded.is_none() && !is_there {
                    self.containers.extend(recipes.planned_container(&evaluated)?);
                    self.plan_checkouts(&inputs.sources, &cell)?;
                }
                // A cell that is not built needs neither its sources nor its ROCm.
                let is_built = !self.choice.dry_run && excluded.is_none() && !is_there;
                let job = if is_built {
                    self.job(inputs, cell, evaluated)?
                } else {
                    recipes.sketch(inputs, &cell, evaluated, place)?
                };
                let combination = Combination { column: column * variants + variant, folder };
                planner.add(WantedJob { job, combination, excluded, after: after.clone() })?;
            }
        }
        Ok(())
    }

    fn chosen_by(&self) -> ChosenBy {
        if self.choice.matrix { ChosenBy::Recipe } else { ChosenBy::User }
    }

    /// A job that was made from the same sources, in the same image.
    fn like(&self, cell: &Cell, inputs: &CellInputs) -> Option<&Job> {
        let key = Keys::of(self.recipes, cell, inputs);
        self.jobs.get(&key.sources).filter(|like| like.image.is_none()).or_else(|| self.jobs.get(&key.image))
    }

    /// The job of a cell, with its own sources and ROCm.
    fn job(&mut self, inputs: CellInputs, mut cell: Cell, evaluated: Evaluated) -> Result<Job, Failure> {
        let Keys { sources: key, rocm: rocm_key, image: image_key } = Keys::of(self.recipes, &cell, &inputs);
        if let Some(like) = self.like(&cell, &inputs).cloned() {
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
                self.recipes.evaluate(&inputs.recipe, &cell, like.image.as_ref(), self.place)?
            };
            let rocm = match self.rocm.get(&rocm_key) {
                _ if !recipe.sdk => Rocm::None,
                _ if like.image.is_some() => like.rocm.clone(),
                Some(rocm) => rocm.clone(),
                None => inputs.rocm.rocm(cell.rocm.as_deref(), &self.place.surroundings)?,
            };
            // A wheel for one Python needs a known version, which is determined below.
            if recipe.python == Pythons::Any || python.is_some() {
                if recipe.sdk && like.image.is_none() {
                    check_rocm(&rocm, &cell)?;
                    self.rocm.insert(rocm_key, rocm.clone());
                }
                return Ok(Job { rocm, python: given, recipe, ..like });
            }
        }
        let job = self.recipes.make(inputs, cell, self.place, self.listener)?;
        if job.recipe.sdk && job.image.is_none() {
            self.rocm.insert(rocm_key, job.rocm.clone());
        }
        self.jobs.insert(key, job.clone());
        self.jobs.insert(image_key, job.clone());
        Ok(job)
    }
}
