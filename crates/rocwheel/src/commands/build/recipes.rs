//! Recipes of the command line, and the jobs that they make.

use std::rc::Rc;

use rocwheel_recipe::execute::{self, Place};
use rocwheel_recipe::executor::Image;
use rocwheel_recipe::matrix::WhyNot;
use rocwheel_recipe::recipe::Recipe;
use rocwheel_recipe::{Cell, ChosenBy, Evaluated, Input, Job, PythonVersion, Pythons, Rocm, Surroundings, evaluate};

use super::after::After;
use super::cell::{Named, Wishes};
use super::containers::{Containers, Ground, Planned};
use super::inputs::Sdk;
use super::plan;
use super::sources::{Sources, ToCheckOut};
use crate::failure::{Result, Usage};
use crate::printer::Printer;

/// What is asked for with recipes and options.
#[derive(Debug, Clone)]
pub(super) struct Recipes {
    pub(super) wishes: Rc<Wishes>,
    pub(super) names: Vec<Named>,
    pub(super) sources: Sources,
    pub(super) sdk: Sdk,
    pub(super) after: After,
    pub(super) try_on: Vec<PythonVersion>,
    pub(super) epoch: u64,
    pub(super) containers: Option<Rc<Containers>>,
}

impl Recipes {
    /// All of them, without looking at sources and ROCm.
    pub(super) fn evaluated(&self, place: &Place) -> Result<Vec<Evaluated>> {
        let mut all = Vec::new();
        let mut with = self.sdk.given();
        for named in &self.names {
            for mut cell in self.wishes.cells(named, &with)? {
                let entry = self.wishes.book.get(&named.recipe)?;
                let placed = self.placed(&cell, &self.sources)?;
                cell.version = placed.sources.version(&entry.recipe, &cell, place)?;
                let evaluated = self.evaluate(&named.recipe, &cell, place)?;
                self.refuse_impossible(&evaluated)?;
                all.push(evaluated);
            }
            with.insert(named.recipe.clone());
        }
        Ok(all)
    }

    /// The containers that a recipe is built in; `None`: it is built here.
    pub(super) fn containers_of(&self, recipe: &Recipe) -> Option<&Containers> {
        self.containers.as_deref().filter(|containers| containers.take(recipe.in_container))
    }

    /// Whether any of the recipes is built in a container.
    pub(super) fn use_containers(&self) -> Result<bool> {
        Ok(self.written()?.into_iter().any(|recipe| self.containers_of(recipe).is_some()))
    }

    /// The container that a recipe would be built in.
    pub(super) fn planned_container(&self, recipe: &Evaluated) -> Result<Option<Planned>> {
        let written = &self.wishes.book.get(&recipe.recipe)?.recipe;
        self.containers_of(written).map(|containers| containers.planned(recipe)).transpose()
    }

    /// A recipe for a cell, with what variables say, and the options of the time after the build.
    pub(super) fn evaluate(&self, name: &str, cell: &Cell, place: &Place) -> Result<Evaluated> {
        self.evaluate_with(name, cell, &place.surroundings)
    }

    /// The same in an image, whose variables count too.
    pub(super) fn evaluate_in(
        &self,
        image: Option<&Image>,
        name: &str,
        cell: &Cell,
        place: &Place,
    ) -> Result<Evaluated> {
        match (&self.containers, image) {
            (Some(containers), Some(image)) => {
                self.evaluate_with(name, cell, &containers.surroundings(image, &place.surroundings))
            }
            _ => self.evaluate(name, cell, place),
        }
    }

    fn evaluate_with(&self, name: &str, cell: &Cell, surroundings: &Surroundings) -> Result<Evaluated> {
        let mut recipe = evaluate(self.wishes.book.get(name)?, &self.wishes.book, cell)?;
        recipe.take_defaults(surroundings);
        let is_tried = recipe.python != Pythons::Any || recipe.checks.iter().any(|check| check.fresh);
        if !self.try_on.is_empty() && !is_tried {
            let usage = Usage::new(format!("`--try-on` is for checks in fresh environments, and {name} has none"));
            return Err(usage.hint("say `fresh = true` in a check of its recipe").into());
        }
        self.after.lay(&mut recipe)?;
        Ok(recipe)
    }

    /// Refuses what the table of versions calls impossible, before anything is fetched for it.
    fn refuse_impossible(&self, recipe: &Evaluated) -> Result<()> {
        let Some(why) = self.wishes.table.why_not(recipe, ChosenBy::User)? else { return Ok(()) };
        let usage = Usage::new(format!("{} cannot be built: {}", recipe.title(), why.reason()));
        let hint = match why {
            WhyNot::Excluded(_) => {
                format!("`rocwheel matrix {} --excluded` lists what can be built and what cannot", recipe.recipe)
            }
            WhyNot::NoTorch(_) => {
                "PyTorch's index has no such wheel; `--torch-index URL` builds with one that has it".into()
            }
        };
        Err(usage.hint(hint).into())
    }

    /// The recipes of this run as they are written.
    pub(super) fn written(&self) -> Result<Vec<&Recipe>> {
        self.names.iter().map(|named| Ok(&self.wishes.book.get(&named.recipe)?.recipe)).collect()
    }

    /// What would be checked out.
    pub(super) fn checkouts(&self, place: &Place) -> Result<Vec<ToCheckOut>> {
        let Some(named) = self.names.first() else { return Ok(Vec::new()) };
        let cells = self.wishes.cells(named, &self.sdk.given())?;
        match cells.first() {
            Some(cell) => self.placed(cell, &self.sources)?.sources.planned(&self.written()?, cell, place),
            None => Ok(Vec::new()),
        }
    }

    /// The same for one cell: with its versions in the places of sources and ROCm.
    pub(super) fn placed(&self, cell: &Cell, sources: &Sources) -> Result<Recipes> {
        let fill = |text: &str| plan::filled(text, cell);
        Ok(Recipes { sources: sources.filled(&fill)?, sdk: self.sdk.filled(&fill)?, ..self.clone() })
    }

    /// What is known of the job of a cell before anything is fetched or started for it. The cell is
    /// placed.
    pub(super) fn sketch(&self, recipe: Evaluated, cell: &Cell, inputs: Vec<Input>, place: &Place) -> Result<Job> {
        let entry = self.wishes.book.get(&recipe.recipe)?;
        let source = self.sources.sketch(&entry.recipe, cell, place)?;
        let is_here = recipe.sdk && self.containers_of(&entry.recipe).is_none();
        let rocm = is_here.then(|| self.sdk.rocm(cell.rocm.as_deref(), &place.surroundings).ok()).flatten();
        let (rocm, try_on) = (rocm.unwrap_or(Rocm::None), self.try_on.clone());
        let (python, epoch) = (cell.python, self.epoch);
        Ok(Job { schema: 1, source, rocm, with: inputs, python, try_on, epoch, image: None, recipe })
    }

    /// The job of a cell, which is placed.
    pub(super) fn job(
        &self,
        name: &str,
        mut cell: Cell,
        inputs: Vec<Input>,
        place: &Place,
        printer: &Printer,
    ) -> Result<Job> {
        let entry = self.wishes.book.get(name)?;
        let containers = self.containers_of(&entry.recipe);
        if cell.python.is_none() && place.interpreter.is_some() && containers.is_none() {
            cell.python = Some(execute::default_python(place, printer.reporter())?);
        }
        cell.version = self.sources.version(&entry.recipe, &cell, place)?;
        // What cannot be evaluated, or has no ROCm, needs no sources.
        let mut recipe = self.evaluate(name, &cell, place)?;
        self.refuse_impossible(&recipe)?;
        let ground = containers.map(|containers| containers.ground(&recipe, &self.sdk, place, printer)).transpose()?;
        if let Some(python) =
            ground.as_ref().map(Ground::python).transpose()?.flatten().filter(|_| cell.python.is_none())
        {
            cell.python = Some(python);
        }
        if let Some(ground) = &ground {
            ground.inherit_targets(&mut cell)?;
        }
        let of_image = ground.as_ref().map(|ground| ground.rocm(cell.rocm.as_deref())).transpose()?.flatten();
        let rocm = match of_image {
            Some(rocm) => rocm,
            None if recipe.sdk => {
                let rocm = self.sdk.rocm(cell.rocm.as_deref(), &place.surroundings)?;
                plan::same_rocm(&rocm, &cell)?;
                rocm
            }
            None => Rocm::None,
        };
        self.sources.obtain(&self.written()?, &cell, place, printer)?;
        cell.version = self.sources.version(&entry.recipe, &cell, place)?;
        let image = ground.map(|ground| ground.image);
        recipe = self.evaluate_in(image.as_ref(), name, &cell, place)?;
        self.refuse_impossible(&recipe)?;
        let source = self.sources.source(&entry.recipe, &cell, place, printer)?;
        let (python, try_on) = (cell.python, self.try_on.clone());
        let mut job = Job { schema: 1, source, rocm, with: inputs, python, try_on, epoch: self.epoch, image, recipe };
        if job.recipe.python == Pythons::Each && job.recipe.cell.python.is_none() {
            // The wheel is for one Python, and it has to be known which.
            let version = execute::default_python(place, printer.reporter())?;
            job.python = Some(version);
            let cell = Cell { python: Some(version), ..cell };
            job.recipe = self.evaluate_in(job.image.as_ref(), name, &cell, place)?;
        }
        Ok(job)
    }
}
