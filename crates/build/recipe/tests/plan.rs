//! Plans: their cells, the dependencies between them, and the records.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::Silent;
use rocwheel_recipe::plan::{
    Combination, End, Ended, Plan, PlanFolder, Planner, SkipReason, State, WantedJob, all_before,
};
use rocwheel_recipe::recipe::WorkOn;
use rocwheel_recipe::{Book, BuildMode, Cell, Job, JobSource, Platform, Rocm, evaluate};

fn job(book: &Book, recipe: &str, rocm: &str, torch: &str) -> Job {
    let cell = Cell {
        rocm: Some(rocm.into()),
        torch: Some(torch.into()),
        version: Some("2.8.3".into()),
        python: "3.12".parse().ok(),
        targets: vec!["gfx942".into()],
        chosen_by: rocwheel_recipe::ChosenBy::User,
        with: ["torch".to_owned()].into(),
        ..Cell::new(Platform::Linux)
    };
    let recipe = evaluate(book.get(recipe).unwrap(), book, &cell).unwrap();
    let source = JobSource::Archive { path: "/sources.tar".into(), sha256: "0".repeat(64) };
    let rocm = Rocm::Prefix { path: format!("/rocm-{rocm}").into(), version: format!("{rocm}.0") };
    let (with, python, try_on) = (Vec::new(), cell.python, Vec::new());
    Job { schema: 1, source, rocm, with, python, try_on, epoch: 0, image: None, recipe }
}

fn wanted(job: Job, column: usize, after: &[&str]) -> WantedJob {
    let combination = Combination { column, folder: String::new() };
    WantedJob { job, combination, excluded: None, after: after.iter().map(|&name| name.to_owned()).collect() }
}

fn plan(output: &Path) -> (Plan, Vec<Job>) {
    let book = Book::built_in().unwrap();
    let mut planner = Planner::new(None, &Silent);
    for recipe in ["triton", "torchvision"] {
        let mut column = 0;
        for rocm in ["7.1", "7.2"] {
            for torch in ["2.9", "2.10"] {
                planner
                    .add(wanted(
                        job(&book, recipe, rocm, torch),
                        column,
                        &["triton"][..usize::from(recipe != "triton")],
                    ))
                    .unwrap();
                column += 1;
            }
        }
    }
    planner.finish(output.to_owned(), output.join("work")).unwrap()
}

#[test]
fn cells_that_differ_in_nothing_that_matters_are_one() {
    let (plan, _) = plan(Path::new("/out"));
    let titles: Vec<(&str, usize)> = plan.cells.iter().map(|cell| (cell.title.as_str(), cell.needs.len())).collect();
    // triton is not built for a torch.
    let tritons: Vec<_> = titles.iter().filter(|(title, _)| title.starts_with("triton")).collect();
    assert_eq!(tritons.len(), 2, "{titles:?}");
    let visions: Vec<_> = plan.cells.iter().filter(|cell| cell.recipe == "torchvision").collect();
    // Its torch is a wheel that is installed before, and here there is none.
    assert_eq!(visions.len(), 2);
    for vision in visions {
        let before = plan.cell(&vision.needs[0]).unwrap();
        let rocm = |title: &str| title.split("rocm").nth(1).unwrap()[..3].to_owned();
        assert_eq!(rocm(&before.title), rocm(&vision.title));
    }
}

#[test]
fn recipes_wait_for_those_before_them_also_through_others() {
    let book = Book::built_in().unwrap();
    let order = ["triton", "torchvision"].map(str::to_owned);
    assert_eq!(all_before(&book, "torchvision", &order).unwrap(), ["triton"]);
    assert!(all_before(&book, "triton", &order).unwrap().is_empty());
}

#[test]
fn one_file_for_two_cells_is_an_error_before_anything_is_built() {
    let book = Book::built_in().unwrap();
    let mut planner = Planner::new(None, &Silent);
    for (column, rocm) in ["7.1", "7.2"].into_iter().enumerate() {
        let mut job = job(&book, "torchvision", rocm, "2.9");
        job.recipe.version = Some("0.24.0+mine".into());
        planner.add(wanted(job, column, &[])).unwrap();
    }
    let error = planner.finish("/out".into(), "/work".into()).unwrap_err();
    assert!(error.to_string().contains("would make the same file"), "{error}");
}

#[test]
fn what_becomes_of_cells_is_written_down_and_found_again() {
    let output = tempfile::tempdir().unwrap();
    let (made, jobs) = plan(output.path());
    let folder = PlanFolder::create(made.clone(), &jobs).unwrap();
    let again = PlanFolder::create(made, &jobs).unwrap();
    assert_eq!(folder.path(), again.path());
    assert_eq!(PlanFolder::all_in(output.path()).unwrap(), [folder.path()]);
    let folder = PlanFolder::open(folder.path()).unwrap();
    let first = folder.plan.cells[0].clone();
    let state = || folder.look().unwrap()[0].state.clone();
    assert_eq!(state(), State::Waiting);
    let mut taken = folder.take(&first, Duration::ZERO, &Silent).unwrap();
    taken.begin("here", None).unwrap();
    taken.stage("wheel", &PathBuf::from("/log")).unwrap();
    assert_eq!(state(), State::Running);
    let error = folder.take(&first, Duration::ZERO, &Silent).unwrap_err();
    assert!(error.to_string().starts_with("another run builds"), "{error}");
    // The holder of the lock is gone; nothing else reports that.
    drop(taken);
    assert_eq!(state(), State::Lost);
    // A child that a killed process was starting has the lock for a moment.
    let lock = fs_err::File::open(folder.path().join("state").join(format!("{}.lock", first.id))).unwrap();
    lock.file().lock().unwrap();
    let child = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(75));
        drop(lock);
    });
    assert_eq!(state(), State::Lost);
    child.join().unwrap();
    let mut taken = folder.take(&first, Duration::ZERO, &Silent).unwrap();
    taken.begin("here", Some("7_0".into())).unwrap();
    let failed = End {
        status: Ended::Failed,
        seconds: 0.0,
        outputs: Vec::new(),
        error: Some("no".into()),
        cause: None,
        tail: Vec::new(),
        exit: 1,
    };
    taken.end(failed).unwrap();
    let seen = folder.look().unwrap();
    assert_eq!((seen[0].state.clone(), seen[0].attempts.len()), (State::Ended(Ended::Failed), 2));
    // Cells that wait for it are skipped.
    let waiting = seen.iter().find(|seen| seen.cell.needs.contains(&first.id)).unwrap();
    assert_eq!(waiting.state, State::Ended(Ended::LeftOut));
    assert_eq!(folder.job(waiting.cell).unwrap().unwrap_err(), first.title);
    let error = folder.plan.cell("tritn-2.8.3-rocm7.1-torch2.9-py3.12").unwrap_err();
    assert!(rocwheel_progress::Hint::hint(&error).unwrap().contains("did you mean"), "{error}");
}

#[test]
fn what_is_excluded_takes_along_what_waits_for_it() {
    let book = Book::built_in().unwrap();
    let mut planner = Planner::new(None, &Silent);
    let excluded = Some("too old".to_owned());
    planner.add(WantedJob { excluded, ..wanted(job(&book, "triton", "7.1", "2.9"), 0, &[]) }).unwrap();
    planner.add(wanted(job(&book, "torchvision", "7.1", "2.9"), 0, &["triton"])).unwrap();
    let (plan, _) = planner.finish("/out".into(), "/work".into()).unwrap();
    assert_eq!(plan.cells[1].left_out, Some(SkipReason::Excluded("triton is not built: too old".into())));
    assert_eq!(plan.to_build().count(), 0);
}

#[test]
fn what_is_excluded_once_is_built_when_it_is_the_same_as_something_else() {
    let book = Book::built_in().unwrap();
    let mut planner = Planner::new(None, &Silent);
    // triton is not built for a torch. A cell that one torch excludes may be needed by another.
    let excluded = Some("not for torch 2.9".to_owned());
    planner.add(WantedJob { excluded, ..wanted(job(&book, "triton", "7.1", "2.9"), 0, &[]) }).unwrap();
    planner.add(wanted(job(&book, "triton", "7.1", "2.10"), 1, &[])).unwrap();
    let (plan, _) = planner.finish("/out".into(), "/work".into()).unwrap();
    assert_eq!((plan.cells.len(), plan.to_build().count()), (1, 1));
}

#[test]
fn cells_of_one_checkout_are_built_in_copies() {
    let book = Book::built_in().unwrap();
    let jobs = |count: usize, mode: BuildMode| {
        let mut planner = Planner::new(None, &Silent);
        for (column, rocm) in ["7.1", "7.2"].into_iter().enumerate().take(count) {
            let mut job = job(&book, "torchvision", rocm, "2.9");
            job.source = JobSource::Checkout { path: "/vision".into(), digest: "1".into(), revision: None };
            job.recipe.cell.mode = mode;
            planner.add(wanted(job, column, &[])).unwrap();
        }
        planner.finish("/out".into(), "/work".into())
    };
    let places = |count: usize| {
        let (_, jobs) = jobs(count, BuildMode::Wheel).unwrap();
        jobs.iter().map(|job| job.recipe.source.work_on).collect::<Vec<_>>()
    };
    assert_eq!(places(1), [WorkOn::Checkout]);
    assert_eq!(places(2), [WorkOn::Copy, WorkOn::Copy]);
    let error = jobs(2, BuildMode::Develop).unwrap_err();
    assert!(error.to_string().contains("installs `/vision` in place"), "{error}");
}

#[test]
fn a_plan_follows_what_moves() {
    let output = tempfile::tempdir().unwrap();
    let (made, mut jobs) = plan(output.path());
    PlanFolder::create(made.clone(), &jobs).unwrap();
    for job in &mut jobs {
        job.source = JobSource::Archive { path: "/moved.tar".into(), sha256: "0".repeat(64) };
    }
    let folder = PlanFolder::create(made, &jobs).unwrap();
    let job = folder.job(&folder.plan.cells[0]).unwrap().unwrap();
    assert_eq!(job.source.path(), Path::new("/moved.tar"));
}
