//! What a build leaves in the user's own Python environment (`--into`).

use build::execute::{Outcome, Place, UserEnvironment};
use build::executor::Executor;
use build::{Job, SdkKind};
use report::Exit;

use super::Settings;
use super::inputs::Sdk;
use super::recipes::Recipes;
use crate::commands::Mode;
use crate::failure::Usage;
use crate::printer::Printer;

/// Refuses, before anything is built, an environment that nothing can be installed into.
pub(super) fn check(recipes: &Recipes, settings: &Settings, printer: &Printer) -> anyhow::Result<()> {
    let Some(into) = &settings.place.into else { return Ok(()) };
    if settings.executor == Executor::Slurm || recipes.are_many(&settings.choices)? {
        let usage = Usage::new("`--into` installs what one combination makes, and several are asked for");
        return Err(usage.hint("name one ROCm, torch, Python and set of GPU targets").into());
    }
    if settings.containers.is_some() && recipes.wishes.is_in_place() {
        let usage = Usage::new("`--develop` in a container leaves nothing that works outside of it");
        return Err(usage.hint("leave out `--executor`, or `--develop`").into());
    }
    UserEnvironment::open(into, &settings.place, printer.reporter())?;
    Ok(())
}

/// Installs what a job made, and the wheels that it was built with.
pub(super) fn install(job: &Job, outcome: &Outcome, place: &Place, printer: &Printer) -> anyhow::Result<()> {
    let (Some(into), Outcome::Built { outputs, .. } | Outcome::Unchanged { outputs }) = (&place.into, outcome) else {
        return Ok(());
    };
    let is_wheel = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let made = outputs.iter().map(|made| place.output.join(&made.path)).filter(is_wheel);
    let wheels: Vec<_> = job.with.iter().map(|input| input.path.clone()).chain(made).collect();
    UserEnvironment::open(into, place, printer.reporter())?.install(&wheels, &job.rocm)?;
    printer.note(format!("installed {} into `{}`", job.title(), into.display()));
    Ok(())
}

/// Installs the packages of ROCm and nothing else.
pub(super) fn install_rocm(sdk: &Sdk, settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    let Some(into) = &settings.place.into else {
        let usage = Usage::new("`install-rocm` needs the environment to install into");
        return Err(usage.hint("name it: `--into .venv`").into());
    };
    if sdk.kind() == SdkKind::Prefix {
        let usage = Usage::new("an installed ROCm has no packages to install");
        return Err(usage.hint("name them: `--rocm-sdk index=URL`, `find-links=PLACE` or `directory=DIR`").into());
    }
    let rocm = sdk.rocm(None, &settings.place.surroundings)?;
    let environment = UserEnvironment::open(into, &settings.place, printer.reporter())?;
    if settings.mode == Mode::DryRun {
        printer.note(format!("would install {rocm:?} into `{}`", into.display()));
        return Ok(Exit::Done);
    }
    environment.install_rocm(&rocm)?;
    printer.note(format!("installed ROCm into `{}`", into.display()));
    Ok(Exit::Done)
}
