//! Input: a job and an image. Output: the outcome of the job in a container of that image. Docker
//! and Podman are used through their own programs.
//!
//! The container runs this same program with the job's file. Every folder that the job needs has
//! the same path inside as outside, so a job, its logs and its messages mean the same in both. A
//! [`Container`] starts once and takes one job after the other. Its first process reads from us and
//! ends when we do, for whatever reason, and everything in the container ends with it.

mod container;
mod layer;
mod mounts;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::{Failure, Reporter, suggestion};

use crate::error;
use crate::failure_causes;
use rocwheel_process::{FinishedProcess, NotStarted, ProcessEnd, Program};
use rocwheel_recipe::executor::{Image, Pull};
use rocwheel_recipe::surroundings::Surroundings;

pub use container::{Container, ContainerJob};
pub use mounts::{Needs, gpu_devices};

/// Time limit for an engine's answer. A daemon that has just been started takes seconds.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time limit for pulling an image: images have 20 GB and more.
const PULLING: Duration = Duration::from_hours(6);

/// The hint for machines without a container engine.
pub const WITHOUT: &str = "`--executor here` builds on this machine";

#[derive(Debug, Clone)]
pub struct Request {
    /// Docker's or Podman's program with options before its subcommand, in shell syntax.
    pub command: String,
    /// Additional options of `run`.
    pub options: Vec<String>,
    /// Network of the containers. `None`: no network if nothing is downloaded, otherwise the
    /// engine's default.
    pub network: Option<String>,
    pub pull: Pull,
    /// Path of this program, which containers run.
    pub program: PathBuf,
    /// Folder that keeps downloads of containers for later runs, with one subfolder for each image.
    /// `None`: downloads are not kept.
    pub cache: Option<PathBuf>,
    pub surroundings: Surroundings,
}

/// Docker or Podman, as the program identifies itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Docker,
    Podman,
}

/// The owner, on this machine, of files that root makes in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The real root of this machine.
    Real,
    /// The user who started the engine.
    Caller,
}

/// An engine that has answered.
#[derive(Debug, Clone)]
pub struct Engine {
    words: Vec<String>,
    kind: Kind,
    root: Root,
    request: Request,
}

/// Contents of an image that are needed before there is a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageContents {
    /// Version of its Python, `3.13`.
    pub python: Option<String>,
    /// `true` if the requested folder holds an installed ROCm.
    pub has_rocm: bool,
    /// Version of that ROCm.
    pub rocm: Option<String>,
    /// Environment variables of the image.
    pub variables: BTreeMap<String, String>,
}

impl Engine {
    /// Starts the engine's program and asks what it is.
    pub fn find(request: Request, reporter: &dyn Reporter) -> Result<Engine, Failure> {
        let text = request.command.clone();
        let words = shlex::split(&text).filter(|words| !words.is_empty()).ok_or_else(|| {
            Failure::message(format!("`{text}` is no command of an engine"))
                .with_hint("name the program, such as `docker` or `podman --runtime runc`")
        })?;
        let mut engine = Engine { words, kind: Kind::Docker, root: Root::Real, request };
        let answer = engine.ask(&["--version"], reporter).map_err(|failure| match failure.find() {
            Some(rocwheel_process::Error::NotStarted(NotStarted { program, .. })) => {
                Failure::message(format!("containers need the engine `{program}`, which is not installed"))
                    .with_hint(format!("install it, or name another with DOCKER_CMD; {WITHOUT}"))
            }
            _ => failure,
        });
        let said = answer?.said.to_lowercase();
        engine.kind = if said.contains("podman") {
            Kind::Podman
        } else if said.contains("docker") {
            Kind::Docker
        } else {
            let line = said.lines().next().unwrap_or("nothing");
            return Err(Failure::message(format!("`{text}` is neither Docker nor Podman: it says `{line}`"))
                .with_hint("`--engine` or DOCKER_CMD names the program"));
        };
        let question = match engine.kind {
            Kind::Docker => "{{.SecurityOptions}}",
            Kind::Podman => "rootless={{.Host.Security.Rootless}}",
        };
        let answer = engine.ask(&["info", "--format", question], reporter)?;
        if answer.ended != ProcessEnd::Code(0) {
            return Err(engine.refused("the engine does not answer", &answer));
        }
        // Both print `rootless` if root is not the real root; Podman prints `rootless=false`
        // otherwise.
        if answer.said.contains("rootless") && !answer.said.contains("rootless=false") {
            engine.root = Root::Caller;
        }
        Ok(engine)
    }

    /// Resolves an image to the local one of that name, pulling it if the request says so.
    /// A digest in `image` must match.
    pub fn image(&self, image: &Image, reporter: &dyn Reporter, told: &dyn Fn(&str)) -> Result<Image, Failure> {
        let name = &image.name;
        let mut there = self.inspect(name, reporter)?;
        if self.request.pull == Pull::Always || (self.request.pull == Pull::Missing && there.is_none()) {
            told(&format!("fetching the image `{name}`, which may have gigabytes"));
            let answer = self.run_for(&["pull", &self.at_registry(name)], PULLING, reporter)?;
            if answer.ended != ProcessEnd::Code(0) {
                return Err(self.refused(&format!("could not fetch the image `{name}`"), &answer));
            }
            there = self.inspect(name, reporter)?;
        }
        let Some(found) = there else { return Err(self.absent(name, reporter)?) };
        match &image.digest {
            Some(wanted) if *wanted != found => Err(Failure::message(format!(
                "the image `{name}` is another one than the job was made for: {found}, not {wanted}"
            ))
            .with_hint("make the job again, or fetch that image by its digest")),
            _ => Ok(Image { name: name.clone(), digest: Some(found) }),
        }
    }

    /// The name by which an image is pulled. For a name without a registry, Docker asks Docker Hub.
    /// Podman asks its configuration, which names no registry on Debian.
    fn at_registry<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let first = name.split_once('/').map(|(first, _)| first);
        let has_registry = first.is_some_and(|first| first.contains(['.', ':']) || first == "localhost");
        match (self.kind, first) {
            (Kind::Podman, None) => format!("docker.io/library/{name}").into(),
            (Kind::Podman, Some(_)) if !has_registry => format!("docker.io/{name}").into(),
            _ => name.into(),
        }
    }

    /// Inspects an image: its Python, and the ROCm in a folder.
    pub fn look(
        &self,
        image: &Image,
        interpreter: Option<&Path>,
        rocm: &Path,
        reporter: &dyn Reporter,
    ) -> Result<ImageContents, Failure> {
        const SCRIPT: &str = r#"echo asked
env | while IFS= read -r line; do printf 'variable=%s\n' "$line"; done
for name in ${3:-python3 python}; do
    version=$("$name" -I -c "$2" 2>/dev/null | head -n 1)
    [ -z "$version" ] || { echo "python=$version"; break; }
done
[ ! -d "$1/bin" ] || echo "rocm=$(cat "$1/.info/version" 2>/dev/null)""#;
        let folder = rocm.to_string_lossy();
        let interpreter = interpreter.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let words = ["run", "--rm", "--pull", "never", "--network", "none"].map(str::to_owned).into_iter();
        let words = words.chain(self.request.options.iter().cloned());
        let rest =
            ["--entrypoint", "sh", &image.name, "-c", SCRIPT, "sh", &folder, crate::python::QUESTION, &interpreter];
        let words: Vec<String> = words.chain(rest.map(str::to_owned)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = self.run_for(&words, PATIENCE, reporter)?;
        if !answer.lines().any(|line| line == "asked") {
            return Err(self.refused(&format!("could not run anything in the image `{}`", image.name), &answer));
        }
        let rocm = answer.lines().find_map(|line| line.strip_prefix("rocm="));
        Ok(ImageContents {
            python: answer.lines().find_map(|line| line.strip_prefix("python=")).map(str::to_owned),
            has_rocm: rocm.is_some(),
            variables: answer
                .lines()
                .filter_map(|line| line.strip_prefix("variable=")?.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            rocm: rocm.map(|text| text.split('-').next().unwrap_or("").to_owned()).filter(|text| !text.is_empty()),
        })
    }

    /// The identifier of an image; `None` if no image has that name.
    fn inspect(&self, name: &str, reporter: &dyn Reporter) -> Result<Option<String>, Failure> {
        let answer = self.ask(&["image", "inspect", "--format", "{{.Id}}", name], reporter)?;
        if answer.ended == ProcessEnd::Code(0) {
            let id = answer.said.trim().trim_start_matches("sha256:");
            return Ok(Some(format!("sha256:{id}")));
        }
        let said = answer.said.to_lowercase();
        if said.contains("no such image") || said.contains("image not known") {
            return Ok(None);
        }
        Err(self.refused(&format!("could not look at the image `{name}`"), &answer))
    }

    fn absent(&self, name: &str, reporter: &dyn Reporter) -> Result<Failure, Failure> {
        let answer = self.ask(&["images", "--format", "{{.Repository}}:{{.Tag}}"], reporter)?;
        let mut there: Vec<String> = answer
            .lines()
            .map(|line| line.trim_start_matches("docker.io/").trim_start_matches("localhost/").to_owned())
            .filter(|line| answer.ended == ProcessEnd::Code(0) && !line.contains("<none>"))
            .collect();
        there.sort();
        there.truncate(20);
        let other = suggestion(name, there.iter().map(String::as_str));
        let other = if there.is_empty() { String::new() } else { format!("; {other}") };
        let fetch = self.shown();
        Ok(Failure::message(format!("there is no image `{name}` here")).with_hint(format!(
            "`{fetch} pull {name}` fetches it, as `--pull missing` does; it may have gigabytes{other}"
        )))
    }

    fn shown(&self) -> String {
        self.words.join(" ")
    }

    fn refused(&self, what: &str, answer: &FinishedProcess) -> Failure {
        let said = answer.tail(4).join("; ");
        let likely = failure_causes::of_engine(answer.lines()).map(|likely| likely.text);
        let reason = match answer.ended {
            ProcessEnd::TimedOut => format!("{what}: `{}` took too long", self.shown()),
            _ => format!("{what}: `{}` says: {said}", self.shown()),
        };
        error::with_optional_hint(reason, likely.as_deref())
    }

    fn ask(&self, words: &[&str], reporter: &dyn Reporter) -> Result<FinishedProcess, Failure> {
        self.run_for(words, PATIENCE, reporter)
    }

    fn run_for(&self, words: &[&str], timeout: Duration, reporter: &dyn Reporter) -> Result<FinishedProcess, Failure> {
        let program = self.program(words.iter().map(|&word| word.to_owned()), timeout);
        Ok(rocwheel_process::run(&program, None, reporter)?)
    }

    fn program(&self, words: impl Iterator<Item = String>, timeout: Duration) -> Program<'_> {
        Program {
            words: self.words.iter().cloned().chain(words).collect(),
            directory: Path::new("/"),
            environment: &self.request.surroundings,
            timeout,
            deadline: None,
        }
    }
}

/// `true` if SELinux labels files: a container with labels could read nothing of the machine.
fn is_labelled() -> bool {
    Path::new("/sys/fs/selinux/enforce").exists()
}
