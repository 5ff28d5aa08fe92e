//! Runs a test command of rocwheel in a container that has the GPUs of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use rocwheel_builder::engine::gpu_devices;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::{Exit, Interrupted};

/// Where the results are in the container.
pub(super) const RESULTS: &str = "/rocwheel-results";

/// Where this program is in the container.
const PROGRAM: &str = "/rocwheel";

/// Programs that start containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContainerProgram {
    /// Docker
    Docker,
    /// Podman
    Podman,
}

impl ContainerProgram {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// A container.
pub(super) struct ContainerRun<'a> {
    pub(super) image: &'a str,
    pub(super) engine: Option<ContainerProgram>,
    /// Further options of `run`.
    pub(super) options: &'a [String],
    /// Folder of this machine for the results.
    pub(super) output: &'a Path,
    /// Paths that are read in the container, under the same names.
    pub(super) mounts: &'a [PathBuf],
}

/// Starts rocwheel with these words in a container, and returns its exit code.
pub(super) fn run(container: &ContainerRun<'_>, words: &[String], printer: &Printer) -> Result<Exit> {
    let (engine, program) = engine(container.engine)?;
    fs_err::create_dir_all(container.output)?;
    let output = rocwheel_system::canonicalize(container.output)?;
    let name = format!("rocwheel-test-{}", std::process::id());
    let mut command = Command::new(&program);
    command.args(["run", "--rm", "--name", &name, "--ipc=host", "--cap-add=SYS_PTRACE"]);
    command.args(["--security-opt", "seccomp=unconfined", "--workdir", "/"]);
    let (devices, groups) = gpu_devices(Path::new("/"));
    for device in &devices {
        command.args(["--device", device]);
    }
    if devices.is_empty() {
        printer.note("there is no GPU device on this machine; the container gets none");
    }
    let is_rootless =
        engine == ContainerProgram::Podman && rocwheel_system::current_user().is_some_and(|caller| caller.user != 0);
    if is_rootless && !groups.is_empty() {
        // A user without root cannot name groups of the machine; those of the user come along.
        command.args(["--group-add", "keep-groups"]);
    } else {
        // The numbers are those of the device files: names of groups differ between systems.
        for group in &groups {
            command.args(["--group-add", &group.to_string()]);
        }
    }
    let mut mounts = vec![format!("{}:{PROGRAM}:ro", environment::this_program()?.display())];
    mounts.push(format!("{}:{RESULTS}:rw", output.display()));
    for path in container.mounts {
        let path = std::path::absolute(path)?;
        mounts.push(format!("{0}:{0}:ro", path.display()));
    }
    for mount in &mounts {
        command.args(["--volume", mount]);
    }
    for variable in ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION"]
    {
        if environment::first_of(&[variable]).is_some() {
            command.args(["--env", variable]);
        }
    }
    command.args(container.options).args(["--entrypoint", PROGRAM, container.image]);
    if printer.format() == ResultFormat::Json {
        command.arg("--json");
    }
    command.args(["--no-config", "--no-progress"]).args(words).stdin(Stdio::null());
    printer.note(format!("tests in a container of {} ({})", container.image, engine.name()));
    let mut child = command.spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if printer.reporter().interrupted() {
            // The engine's own program passes signals on, but not before the container runs.
            let _ = Command::new(&program).args(["kill", &name]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            let _ = child.wait();
            return Err(Interrupted.into());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    match status.code() {
        Some(0) => Ok(Exit::Done),
        Some(1) => Ok(Exit::Failed),
        Some(3) => Ok(Exit::Partial),
        Some(2) => Ok(Exit::Usage),
        Some(4) => Ok(Exit::TryAgain),
        Some(code @ 125..=127) => {
            let (engine, image) = (engine.name(), &container.image);
            let what = format!(
                "{engine} could not start a container of `{image}` (code {code}): `{engine} run --rm {image} true` has to work; `--engine` names another engine"
            );
            Err(Failure::other(Usage::new(what)))
        }
        code => {
            let what = code.map_or_else(|| "was killed".to_owned(), |code| format!("ended with code {code}"));
            Err(Failure::other(Usage::new(format!("the container of `{}` {what}", container.image))))
        }
    }
}

/// The engine that was named, or the first that is installed.
fn engine(named: Option<ContainerProgram>) -> Result<(ContainerProgram, PathBuf)> {
    let known = match named {
        Some(one) => vec![one],
        None => vec![ContainerProgram::Docker, ContainerProgram::Podman],
    };
    let found = known.iter().find_map(|one| Some((*one, environment::program(one.name())?)));
    found.ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|one| format!("`{}`", one.name())).collect();
        Usage::new(format!("{} is not installed", names.join(" or "))).hint("install it, or test without `--in`").into()
    })
}
