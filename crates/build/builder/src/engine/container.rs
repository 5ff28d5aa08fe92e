//! Input: jobs that need the same image. Output: their outcomes, from one container that takes one
//! job after the other.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rocwheel_progress::{Exit, Failure, Interrupted, Reporter, Silent};
use serde::Deserialize;
use tempfile::TempDir;

use super::mounts::{self, Needs, PROGRAM, UV};
use super::{Engine, PATIENCE};
use crate::error::{ContainerFailure, StepFailure};
use crate::execute::{ExistingOutput, JobOutcome, JobPlace, LastLook, Leftovers, StageSelection};
use rocwheel_process::{FinishedProcess, HeldProcess, ProcessEnd};
use rocwheel_recipe::Job;
use rocwheel_recipe::executor::Image;

/// Line that the first process prints when the container is ready.
const READY: &str = "rocwheel is ready";
/// Time limit for starting a container, which may have to read its image from a slow disk.
const STARTING: Duration = Duration::from_mins(5);
/// Time that the work in a container has to stop after it was asked to. It stops its own programs
/// within ten seconds.
const STOPPING: Duration = Duration::from_secs(30);
/// Time after its own limit at which the work in a container is ended from outside.
const LATE: Duration = Duration::from_mins(2);
/// A time longer than any build.
const EVER: Duration = Duration::from_hours(24 * 365);

/// Script of the first process. It checks that the program runs here, then waits for the end of its
/// input, which comes when we end. It is a shell, because a shell also reaps orphaned processes.
const FIRST: &str = r#"{ "$1" --version && [ -e "$2" ] && echo "$3"; } || exit 1; cat >/dev/null; exit 0"#;
/// Script that runs a command. It writes its process number to one file and the command's output to
/// another, and adds the folder of this machine's uv to PATH if uv runs in the image.
const RUN: &str = r#""$1/uv" --version >/dev/null 2>&1 && PATH=$PATH:$1; export PATH; echo $$ >"$2"; answer=$3; shift 3; exec "$@" >"$answer""#;
/// Script that asks a process to stop and waits until it has.
const STOP: &str =
    r#"read -r process <"$1" && kill -INT "$process" && while kill -0 "$process" 2>/dev/null; do sleep 0.2; done"#;

#[derive(Debug)]
pub struct Container {
    engine: Engine,
    image: Image,
    needs: Needs,
    id: String,
    held: Option<HeldProcess>,
    /// A folder that the container sees too.
    scratch: TempDir,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct ContainerJob<'a> {
    pub job: &'a Job,
    /// The place of the job; settings for this machine are ignored.
    pub place: &'a JobPlace,
    pub selection: &'a StageSelection,
    /// Number of parallel compilers; `None`: as many as the container's limits allow.
    pub jobs: Option<u16>,
    /// `true` if free disk space is checked.
    pub preflight: bool,
    /// Options for the verbosity of the program in the container: `-v`.
    pub talk: &'a [&'a str],
}

/// Output of the program in the container with `--json`.
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    jobs: Vec<JobOutcome>,
    error: Option<Said>,
}

/// An error of the program in the container.
#[derive(Debug, Deserialize)]
struct Said {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    exit_code: u8,
    #[serde(default)]
    failed_step: Option<Box<StepFailure>>,
}

impl Engine {
    /// Starts a container that satisfies `needs`. `work` is a folder that the container sees.
    pub fn start(
        &self,
        image: &Image,
        needs: Needs,
        work: &Path,
        reporter: &dyn Reporter,
    ) -> Result<Container, Failure> {
        let scratch = tempfile::Builder::new().prefix(".rocwheel-container-").tempdir_in(work)?;
        let mark = scratch.path().join("mark");
        fs_err::write(&mark, "")?;
        let id_file = scratch.path().join("id");
        let mut words: Vec<String> =
            ["run", "--interactive", "--rm", "--pull", "never", "--label", "rocwheel", "--cidfile"]
                .map(str::to_owned)
                .to_vec();
        words.push(id_file.to_string_lossy().into_owned());
        words.extend(self.run_options(&needs, image, scratch.path())?);
        words.extend(["--workdir".to_owned(), scratch.path().to_string_lossy().into_owned()]);
        let mark = mark.to_string_lossy();
        words.extend(
            ["--entrypoint", "sh", image.name.as_str(), "-c", FIRST, "sh", PROGRAM, &mark, READY].map(str::to_owned),
        );
        let program = self.program(words.into_iter(), STARTING);
        let mut held = rocwheel_process::hold(&program)?;
        let heard = held.wait_for(READY, STARTING, reporter);
        let is_ready = matches!(heard, Ok(None));
        let mut container = Container {
            engine: self.clone(),
            image: image.clone(),
            needs,
            id: fs_err::read_to_string(&id_file).unwrap_or_default().trim().to_owned(),
            held: Some(held),
            scratch,
            count: 0,
        };
        if is_ready {
            return Ok(container);
        }
        container.end();
        Err(match heard? {
            Some(finished) => container.not_started(&finished),
            None => Interrupted.into(),
        })
    }
}

impl Container {
    /// `true` if the container runs and can take a job with this image and these needs.
    pub fn serves(&self, image: &Image, needs: &Needs) -> bool {
        self.image == *image && self.needs.cover(needs) && self.held.is_some()
    }

    /// Runs a job. `told` receives the output of the program in the container, line by line.
    /// A container that ends in the middle of the job is an error.
    pub fn run(
        &mut self,
        order: &ContainerJob<'_>,
        reporter: &dyn Reporter,
        told: &dyn Fn(&str),
    ) -> Result<JobOutcome, Failure> {
        self.count += 1;
        let [job_file, process_file, answer_file] =
            ["toml", "process", "json"].map(|what| self.scratch.path().join(format!("{}.{what}", self.count)));
        fs_err::write(&job_file, order.job.toml()?)?;
        let mut words = vec!["exec".to_owned()];
        let surroundings = &order.place.surroundings;
        for name in mounts::variables(order.job).iter().filter(|name| surroundings.contains_key(*name)) {
            words.extend(["--env".to_owned(), name.clone()]);
        }
        words.extend([self.id.as_str(), "sh", "-c", RUN, "sh", UV].map(str::to_owned));
        words.extend([text(&process_file), text(&answer_file)]);
        words.extend(command(order, &job_file));
        let mut program = self.engine.program(words.into_iter(), EVER);
        program.deadline = order.place.deadline.map(|deadline| deadline + LATE);
        let mut lines = Lines { told, rest: Vec::new(), error: Vec::new() };
        let finished = match rocwheel_process::run(&program, Some(&mut lines), reporter) {
            Ok(finished) if finished.ended != ProcessEnd::Deadline => finished,
            stopped => {
                self.stop(&process_file);
                stopped?;
                return Ok(JobOutcome::Stopped { stage: "container".into() });
            }
        };
        lines.end();
        let answer = fs_err::read(&answer_file).unwrap_or_default();
        let document = serde_json::from_slice::<Document>(&answer).ok();
        match document {
            Some(Document { error: Some(said), .. }) => Err(self.failed(said)),
            Some(Document { jobs, .. }) if jobs.len() == 1 => jobs.into_iter().next().ok_or_else(|| Interrupted.into()),
            _ if rocwheel_process::is_stopping(reporter) => {
                self.stop(&process_file);
                Err(Interrupted.into())
            }
            _ => Err(self.broken(&finished, &lines.error)),
        }
    }

    /// Asks the work to stop, and then ends the container.
    fn stop(&mut self, process_file: &Path) {
        let path = process_file.to_string_lossy();
        // The user's wish to stop has been handled, so nothing else may cut this short. Work that
        // does not stop ends with the container.
        let _ = self.engine.run_for(&["exec", &self.id, "sh", "-c", STOP, "sh", &path], STOPPING, &Silent);
        self.end();
    }

    /// Ends the first process, and with it all others. If that fails, the engine removes the
    /// container.
    fn end(&mut self) {
        let Some(held) = self.held.take() else { return };
        if !held.release(STOPPING / 3) && !self.id.is_empty() {
            let _ = self.engine.run_for(&["rm", "--force", &self.id], PATIENCE, &Silent);
        }
    }

    fn failed(&self, said: Said) -> Failure {
        let mut message = said.message;
        for cause in said.causes {
            message.push_str(": ");
            message.push_str(&cause);
        }
        let exit = match said.exit_code {
            2 => Exit::Usage,
            3 => Exit::Partial,
            4 => Exit::TryAgain,
            70 => Exit::Bug,
            130 => return Interrupted.into(),
            _ => Exit::Failed,
        };
        let (image, hint, failed_step) = (self.image.name.clone(), said.hint, said.failed_step);
        ContainerFailure { image, message, hint, exit, failed_step }.into()
    }

    /// The error for a container that did not become ready.
    fn not_started(&self, finished: &FinishedProcess) -> Failure {
        let image = &self.image.name;
        let glibc = finished.lines().find_map(|line| {
            let (_, rest) = line.split_once("version `GLIBC_")?;
            Some(rest.split_once('\'')?.0.to_owned())
        });
        if let Some(version) = glibc {
            return Failure::message(format!(
                "the system in the image `{image}` is too old for this program, which needs glibc {version}"
            ))
            .with_hint("use a newer image, or a released rocwheel, which needs only glibc 2.17");
        }
        if finished.lines().any(|line| line.contains(PROGRAM) && line.contains("not found")) {
            return Failure::message(format!("this program does not run in the image `{image}`, which has no glibc"))
                .with_hint("take an image with glibc: Debian, Ubuntu, AlmaLinux and their like");
        }
        if finished.lines().any(|line| line.starts_with("rocwheel ")) {
            return Failure::message(format!("a container of `{image}` does not see the folders of this machine"))
                .with_hint("the engine has to run on this machine: look at DOCKER_HOST and the engine's context");
        }
        self.engine.refused(&format!("could not start a container of `{image}`"), finished)
    }

    /// The error for a container that ended in the middle of a job, or for a program in it that
    /// printed no result.
    fn broken(&mut self, finished: &FinishedProcess, error: &[String]) -> Failure {
        const KILL: i32 = 137;
        let image = self.image.name.clone();
        let is_over = self.held.as_mut().is_none_or(HeldProcess::is_over);
        if is_over {
            self.end();
        }
        let said = if error.is_empty() { finished.tail(3) } else { error.to_vec() };
        let said = if said.is_empty() { String::new() } else { format!(": {}", said.join("; ")) };
        if is_over || finished.ended == ProcessEnd::Code(KILL) {
            let hint = "a user or the system ended it, perhaps for lack of memory (`--jobs` runs fewer compilers); the same command continues";
            return Failure::message(format!("the container of `{image}` has ended while it built{said}"))
                .with_hint(hint);
        }
        self.engine.refused(&format!("the build in a container of `{image}` gave no answer"), finished)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.end();
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn command(order: &ContainerJob<'_>, job: &Path) -> Vec<String> {
    let place = order.place;
    let mut words: Vec<String> =
        [PROGRAM, "--json", "--no-config", "build", "--inside", "--job"].map(str::to_owned).to_vec();
    words.extend([text(job), "--output".into(), text(&place.output), "--work".into(), text(&place.work)]);
    match order.selection {
        StageSelection::Rest => {}
        StageSelection::Only(step) => words.extend(["--only".into(), step.clone()]),
        StageSelection::From(step) => words.extend(["--from".into(), step.clone()]),
    }
    words.extend(order.talk.iter().map(|&word| word.to_owned()));
    if let Some(deadline) = place.deadline {
        let seconds = deadline.saturating_duration_since(Instant::now()).as_secs().max(1);
        words.extend(["--time-limit".into(), format!("{seconds}s")]);
    }
    if let Some(jobs) = order.jobs {
        words.extend(["--jobs".into(), jobs.to_string()]);
    }
    if let Some(interpreter) = &place.interpreter {
        words.extend(["--interpreter".into(), text(interpreter)]);
    }
    let flags = [
        (place.uv.is_none(), "--no-uv"),
        (place.leftovers == Leftovers::Keep, "--keep"),
        (place.existing == ExistingOutput::Replace, "--overwrite"),
        (place.last_look == LastLook::Skip, "--no-audit"),
        (!order.preflight, "--no-preflight"),
    ];
    words.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| (*flag).to_owned()));
    words
}

/// Forwards lines as they come. Lines of an error are kept instead, because we report the error
/// ourselves.
struct Lines<'a> {
    told: &'a dyn Fn(&str),
    rest: Vec<u8>,
    error: Vec<String>,
}

impl Lines<'_> {
    fn line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if !self.error.is_empty() || text.starts_with("error: ") {
            self.error.push(text.to_owned());
        } else if !text.is_empty() {
            (self.told)(text);
        }
    }

    /// The last line may have no newline.
    fn end(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        self.line(&rest);
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.line(&line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn lines_are_handed_on_whole_and_errors_are_kept() {
        let told = RefCell::new(Vec::new());
        let tell = |line: &str| told.borrow_mut().push(line.to_owned());
        let mut lines = Lines { told: &tell, rest: Vec::new(), error: Vec::new() };
        for page in ["note: on", "e\n\nnote: two\nerr", "or: step failed\n    tail\nhint: do", " it"] {
            lines.write_all(page.as_bytes()).unwrap();
        }
        lines.end();
        assert_eq!(lines.error, ["error: step failed", "    tail", "hint: do it"]);
        assert_eq!(*told.borrow(), ["note: one", "note: two"]);
    }

    #[test]
    fn what_the_program_prints_is_what_is_read() {
        let text = r#"{"schema": 1, "jobs": [{"title": "x", "key": "1", "status": "built", "seconds": 1.5,
            "outputs": [{"path": "x.whl", "size": 3, "sha256": "ab"}]}], "output": "/out"}"#;
        let document: Document = serde_json::from_str(text).unwrap();
        assert!(matches!(&document.jobs[..], [JobOutcome::Built { outputs, .. }] if outputs[0].size == 3));
        let text = r#"{"error": {"message": "no", "causes": ["why"], "hint": null, "exit_code": 4}}"#;
        let document: Document = serde_json::from_str(text).unwrap();
        let said = document.error.unwrap();
        assert_eq!((said.exit_code, said.failed_step), (4, None));
        let text = r#"{"error": {"message": "no", "causes": [], "hint": null, "exit_code": 1, "failed_step": {"job": "x",
            "step": "wheel", "reason": "exit code 1", "tail": ["ninja: stopped"], "log": "/builds/x/1.log", "cause": null}}}"#;
        let failure = serde_json::from_str::<Document>(text).unwrap().error.unwrap().failed_step.unwrap();
        assert_eq!((failure.step.as_str(), failure.log.as_path()), ("wheel", Path::new("/builds/x/1.log")));
    }
}
