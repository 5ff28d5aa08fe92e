//! Runs recipes in order. The job of each is made when it is its turn, because wheels that were
//! built before are installed for it.

use std::collections::{BTreeSet, VecDeque};

use rocwheel_progress::{Exit, Failure};

use super::{JobResult, Queue, Runner, States, Turned, failed_job};
use crate::execute::{JobOutcome, Listener};
use crate::job_maker::JobMaker;
use rocwheel_recipe::Cell;
use rocwheel_recipe::InputWheel;

pub(super) struct Recipes<'a> {
    maker: &'a JobMaker,
    /// Number of recipes whose cells are in `cells` or done.
    begun: usize,
    /// Remaining cells of the current recipe.
    cells: VecDeque<Cell>,
    /// `true` if there is only one job; its error is then the error of the run.
    is_single: bool,
    /// Distributions that are installed for later recipes.
    with: BTreeSet<String>,
    /// The wheels of these distributions.
    inputs: Vec<InputWheel>,
    failed: BTreeSet<String>,
}

impl<'a> Recipes<'a> {
    pub(super) fn new(maker: &'a JobMaker, listener: &dyn Listener) -> Result<Recipes<'a>, Failure> {
        let inputs = maker.rocm.inputs(listener.reporter())?;
        let (cells, failed) = (VecDeque::new(), BTreeSet::new());
        Ok(Recipes { maker, begun: 0, cells, is_single: false, with: maker.rocm.given(), inputs, failed })
    }
}

impl Queue for Recipes<'_> {
    type Turn = (String, Cell);

    fn next(&mut self, runner: &Runner<'_>, _: &mut States) -> Result<Option<(String, Cell)>, Failure> {
        let names = &self.maker.names;
        while self.cells.is_empty() {
            let Some(named) = names.get(self.begun) else { return Ok(None) };
            self.begun += 1;
            let name = &named.recipe;
            let entry = self.maker.request.book.get(name)?;
            if let Some(before) = entry.recipe.after.iter().find(|before| self.failed.contains(*before)) {
                runner.listener.reporter().warn(&format!("{name} is skipped: {before} was not built"));
                self.failed.insert(name.clone());
                continue;
            }
            for cell in self.maker.request.cells(named, &self.with)? {
                if self.maker.without_triton(named, &cell, &runner.executors.place)?.is_none() {
                    self.cells.push_back(cell);
                }
            }
            self.is_single = names.len() == 1 && self.cells.len() == 1;
        }
        let cell = self.cells.pop_front();
        Ok(cell.map(|cell| (names[self.begun - 1].recipe.clone(), cell)))
    }

    fn build(&mut self, (name, cell): &(String, Cell), runner: &Runner<'_>) -> Result<Turned, Failure> {
        let place = &runner.executors.place;
        let inputs = self.maker.inputs(name, cell, self.inputs.clone())?;
        let job = self.maker.make(inputs, cell.clone(), place, runner.listener)?;
        let (result, exit) = runner.job(&job)?;
        // The job is incomplete or the time limit is reached, so no later job can begin.
        let is_last = matches!(result.outcome, Some(JobOutcome::Partly { .. } | JobOutcome::Stopped { .. }));
        if job.recipe.output.install && !is_last {
            self.inputs.extend(result.outcome.iter().flat_map(|outcome| outcome.wheels(&place.output)));
            self.with.insert(name.clone());
        }
        Ok(Turned { result: Some(result), exit, is_last })
    }

    fn failed(&mut self, (name, _): &(String, Cell), error: Failure) -> Result<(Failure, Option<JobResult>), Failure> {
        if self.is_single || error.exit() == Exit::Interrupted {
            return Err(error);
        }
        self.failed.insert(name.clone());
        let result = failed_job(name, &error);
        Ok((error, Some(result)))
    }
}
