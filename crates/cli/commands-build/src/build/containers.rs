//! The options of `rocwheel build` that choose where jobs run.

use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_builder::containers::{ContainerUse, Containers, image_without_containers};
use rocwheel_builder::engine::Request;
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_recipe::executor::{Executor, Pull};
use rocwheel_recipe::{Images, Surroundings};

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
    /// Image to run jobs in; `rocm/pytorch` without a tag means the one that fits ROCm, torch and
    /// Python [default: the image that the table has for the recipe and ROCm]
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
}

/// Makes a path absolute for a task, which runs in another folder.
pub(super) fn absolute(path: &Path) -> PathBuf {
    // It fails only for an empty path, which leads nowhere in any case.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl ContainerArguments {
    /// Refuses `--data-file`. Jobs in containers and of Slurm do not get its rows: they are other
    /// processes, with the built-in tables.
    ///
    /// # Errors
    /// A [`Usage`] unless the user gave `--executor here`.
    pub(super) fn take_rows(&self) -> Result<(), Usage> {
        if self.executor == Some(Executor::Here) {
            return Ok(());
        }
        let usage =
            Usage::new("`--data-file` counts for builds on this machine only, and a recipe may ask for a container");
        Err(usage.hint("say `--executor here`, or build without `--data-file`"))
    }

    /// The executor that the options select; here by default.
    pub(super) fn executor(&self) -> Executor {
        self.executor.unwrap_or(Executor::Here)
    }

    /// The options of the jobs themselves, which Slurm starts but does not run.
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

    /// The options that make a task do the same.
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

    /// The containers to start for jobs; `None` if all jobs run here. `is_inside`: a job that wants
    /// an image may run here.
    pub(super) fn containers(&self, surroundings: &Surroundings, is_inside: bool) -> Result<Option<Containers>> {
        let variable = environment::first_of(&["DOCKER_CMD"]);
        let reach = match self.executor {
            Some(Executor::Docker | Executor::Podman) => ContainerUse::All,
            Some(_) => return self.none(),
            None if is_inside => return Ok(None),
            None if variable.is_some() => ContainerUse::Images,
            None => ContainerUse::Recipes,
        };
        if let Some(executor) = self.executor.filter(|_| is_inside) {
            let usage = Usage::new(format!(
                "`--inside` says that this is a container, and `--executor {executor}` would start one"
            ));
            return Err(usage.hint("leave one of them out").into());
        }
        let images = match &self.images {
            Some(path) => Images::with_own(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => Images::built_in()?,
        };
        // The variable names the user's Docker. `--executor podman` overrides it, unless the
        // variable itself names Podman.
        let variable = variable.filter(|command| self.executor != Some(Executor::Podman) || command.contains("podman"));
        let named = self.engine.clone().or(variable).or_else(|| self.executor.map(|executor| executor.to_string()));
        let command = named.or_else(|| {
            let mut installed = ["docker", "podman"].into_iter().filter(|name| environment::program(name).is_some());
            installed.next().map(str::to_owned)
        });
        // An image that the user names may exist only on this machine.
        let pull = self.pull.unwrap_or(if self.image.is_some() { Pull::Never } else { Pull::Missing });
        let request = Request {
            command: command.clone().unwrap_or_else(|| Executor::Docker.to_string()),
            options: self.engine_option.clone(),
            network: self.network.clone(),
            pull,
            program: environment::this_program()?,
            cache: environment::cache().map(|cache| cache.join("containers")),
            surroundings: surroundings.clone(),
        };
        Ok(Some(Containers::new(reach, images, self.image.clone(), request, command.is_some())))
    }

    /// Returns no containers. `--image` with `--executor here` is an error.
    fn none(&self) -> Result<Option<Containers>> {
        match &self.image {
            Some(image) if self.executor == Some(Executor::Here) => Err(image_without_containers(image)),
            _ => Ok(None),
        }
    }
}
