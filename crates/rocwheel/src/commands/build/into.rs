//! What a build leaves in the user's own Python environment (`--into`).

use rocwheel_recipe::execute::{Place, UserEnvironment};
use rocwheel_recipe::executor::Executor;
use rocwheel_recipe::{Input, Job, SdkKind};
use rocwheel_report::Exit;

use super::inputs::Sdk;
use super::recipes::Recipes;
use super::{Settings, What};
use crate::commands::Mode;
use crate::failure::Usage;
use crate::printer::Printer;

/// Refuses, before anything is built, an environment that nothing can be installed into.
pub(super) fn check(settings: &Settings, printer: &Printer) -> anyhow::Result<()> {
    let Some(into) = &settings.place.into else { return Ok(()) };
    if let What::Recipes(recipes) = &settings.what {
        check_recipes(recipes, settings)?;
    }
    UserEnvironment::open(into, &settings.place, printer.reporter())?;
    Ok(())
}

fn check_recipes(recipes: &Recipes, settings: &Settings) -> anyhow::Result<()> {
    if settings.executor == Executor::Slurm || recipes.are_many(&settings.choices)? {
        let usage = Usage::new("`--into` installs what one combination makes, and several are asked for");
        return Err(usage.hint("name one ROCm, torch, Python and set of GPU targets").into());
    }
    if recipes.wishes.is_in_place() && recipes.use_containers()? {
        let usage = Usage::new("`--develop` in a container leaves nothing that works outside of it");
        return Err(usage.hint("remove `--develop`, or add `--executor here`").into());
    }
    Ok(())
}

/// Installs the wheels that a job made, and those that it was built with.
pub(super) fn install(job: &Job, made: &[Input], place: &Place, printer: &Printer) -> anyhow::Result<()> {
    let Some(into) = place.into.as_ref().filter(|_| !made.is_empty()) else { return Ok(()) };
    let wheels: Vec<_> = job.with.iter().chain(made).map(|input| input.path.clone()).collect();
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
    if settings.mode == Mode::DryRun {
        printer.note(format!("would install the packages of ROCm into `{}`", into.display()));
        return Ok(Exit::Done);
    }
    UserEnvironment::open(into, &settings.place, printer.reporter())?.install_rocm(&rocm)?;
    printer.note(format!("installed ROCm into `{}`", into.display()));
    Ok(Exit::Done)
}
