//! Input: an error of any library. Output: the message on stderr, and the exit code.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use clap::builder::styling::{AnsiColor, Style};
use clap::error::ContextKind;
use rocwheel_audit::written::Verdict;
use rocwheel_progress::{Context as _, Exit, Hint};

pub(crate) use rocwheel_progress::Failure;
use serde::Serialize;

use crate::commands::last_look::Refused;
use crate::github::{self, Level};
use crate::{environment, printer};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const CAUSE: Style = AnsiColor::Red.on_default();
const HINT: Style = AnsiColor::Cyan.on_default();

/// The result of every function of the binary that can fail.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Wrong usage that clap does not detect.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Usage {
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
}

impl Usage {
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// An error in the value of an option.
    pub(crate) fn of(error: &impl Hint) -> Self {
        Self { message: error.to_string().into(), hint: error.hint().map(Cow::Owned) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Hint for Usage {
    fn hint(&self) -> Option<String> {
        self.hint.as_deref().map(str::to_owned)
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

/// Prints error, causes and hint, and returns the exit code.
pub(crate) fn print(failure: &Failure) -> Exit {
    tell(text(failure), failure.exit());
    failure.exit()
}

/// Prints an error, on GitHub as an annotation.
fn tell(text: String, exit: Exit) {
    let plain = anstream::adapter::strip_str(&text).to_string();
    let message = plain.strip_prefix("error: ").unwrap_or(&plain);
    let annotation = github::step().annotation(Level::Error, message).filter(|_| exit != Exit::Interrupted);
    printer::talk(&annotation.map_or(text, |line| line + "\n"));
}

/// Prints clap's message about a wrong command line, or the help that was asked for.
///
/// # Errors
/// Help cannot be written to stdout.
pub(crate) fn print_usage(mut error: clap::Error) -> Result<()> {
    // Unless a similar option exists, clap suggests to pass `--foo` as a value, which is no help.
    if error.kind() == clap::error::ErrorKind::UnknownArgument && error.get(ContextKind::SuggestedArg).is_none() {
        error.remove(ContextKind::Suggested);
    }
    if github::step().is_running && error.use_stderr() {
        tell(error.render().to_string(), Exit::Usage);
        return Ok(());
    }
    // --help and --version are errors too, and go to stdout. A closed pipe is not reported.
    match error.print().and_then(|()| io::stdout().flush()) {
        Err(fault) if !error.use_stderr() && fault.kind() != io::ErrorKind::BrokenPipe => {
            Err(fault).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// The document that `--json` prints when a command fails.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    error: Description,
    /// The verdict of the audit at the end of a command, if that is the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<Verdict>,
}

#[derive(Debug, Serialize)]
struct Description {
    message: String,
    /// From the outermost cause to the first.
    causes: Vec<String>,
    hint: Option<String>,
    /// All rows of a list that the message shortens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<String>,
    exit_code: u8,
    /// The failed step of a build, its log and the last lines of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_step: Option<rocwheel_builder::StepFailure>,
}

/// The error for machines, with the content that [`print()`] has for people.
pub(crate) fn document(failure: &Failure) -> Document {
    let mut chain = sentences(failure).into_iter();
    let message = chain.next().unwrap_or_default();
    let audit = failure.find::<Refused>().map(|refused| refused.verdict.clone());
    let failed_step = failure.find::<rocwheel_builder::Error>().and_then(rocwheel_builder::Error::failed_step).cloned();
    let error = Description {
        message,
        causes: chain.collect(),
        hint: failure.hint().map(str::to_owned),
        rows: failure.rows().to_vec(),
        exit_code: failure.exit() as u8,
        failed_step,
    };
    Document { error, audit }
}

/// The error and its causes, outermost first. A path that does not exist is reported in our words
/// instead of the system's, and without "cannot read" that path in front. A cause that ends the
/// sentence before it is left out.
fn sentences(failure: &Failure) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let mut before = String::new();
    for cause in failure.chain() {
        let text = cause.to_string();
        if !text.is_empty() && before.ends_with(&text) {
            continue;
        }
        before.clone_from(&text);
        let (missing, looping) = (path_of(&text, "(os error 2)"), path_of(&text, "(os error 40)"));
        let Some(path) = missing.or(looping) else {
            sentences.push(text);
            continue;
        };
        sentences.pop_if(|before| before.starts_with("cannot read ") && before.ends_with(&format!("`{path}`")));
        sentences.push(if looping.is_some() {
            format!("`{path}` is a link that leads to itself")
        } else if Path::new(path).is_symlink() {
            format!("`{path}` is a link to nothing")
        } else if path.contains(['*', '?']) {
            format!("nothing matches `{path}`")
        } else {
            format!("there is no `{path}`")
        });
    }
    sentences
}

/// The path in a message of `fs_err` that ends with an error of the system: failed to open file
/// `PATH`: No such file or directory (os error 2); or in one of `walkdir`: IO error for operation
/// on PATH: and so on. The error is often part of a library's error with the same text, so its kind
/// cannot be asked for.
fn path_of<'t>(text: &'t str, error: &str) -> Option<&'t str> {
    let (before, _) = text.rsplit_once(": ").filter(|_| text.ends_with(error))?;
    if let Some(walked) = before.strip_prefix("IO error for operation on ") {
        return Some(walked);
    }
    before.strip_prefix("failed to ")?.split_once('`')?.1.strip_suffix('`')
}

fn text(failure: &Failure) -> String {
    if failure.exit() == Exit::Interrupted {
        return format!("{ERROR}interrupted{ERROR:#}\n");
    }
    let mut text = String::new();
    for (depth, cause) in sentences(failure).into_iter().enumerate() {
        let (style, label) = if depth == 0 { (ERROR, "error") } else { (CAUSE, "  cause") };
        // A path that is too long for the system is shortened for the message.
        let cause = if cause.contains('\n') { printer::harmless_names(&cause) } else { printer::one_line(&cause) };
        text.push_str(&format!("{style}{label}:{style:#} {cause}\n"));
    }
    if let Some(hint) = failure.hint() {
        text.push_str(&format!("{HINT}hint:{HINT:#} {}\n", printer::one_line(hint)));
    }
    text
}

/// Reports a panic as a defect of this program. The backtrace appears only on request.
pub(crate) fn install_panic_hook() {
    let standard = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        tell(panic_text(&information.to_string()), Exit::Bug);
        if environment::wants_backtrace() {
            standard(information);
        }
    }));
}

fn panic_text(what: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{ERROR}error:{ERROR:#} this is a defect of rocwheel {version}, not of your input\n\
         {CAUSE}  cause:{CAUSE:#} {}\n\
         {HINT}hint:{HINT:#} please report it with the command line and these lines; RUST_BACKTRACE=1 shows more\n",
        what.replace('\n', " ")
    )
}

/// Runs the program; a panic becomes an exit code.
pub(crate) fn guard(program: impl FnOnce() -> Exit) -> Exit {
    panic::catch_unwind(AssertUnwindSafe(program)).unwrap_or(Exit::Bug)
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Interrupted;

    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn causes_stand_below_and_the_hint_comes_last() {
        let source = serde_json::from_str::<u32>("]").unwrap_err();
        let error = rocwheel_package::version::Error::VersionFile { path: "version.json".to_owned(), source };
        let failure = Failure::from(error).context("cannot work out the version");
        assert_eq!(
            plain(&text(&failure)),
            "error: cannot work out the version\n  cause: cannot understand `version.json`\n  \
             cause: expected value at line 1 column 1\nhint: the file holds {\"rocm-version\": \"X.Y.Z\"} and optionally \
             {\"release-metadata\": {\"base-date\": \"YYYYMMDD\"}}\n"
        );
    }

    #[test]
    fn a_missing_file_is_named_and_no_system_call() {
        let said = |path: &str, attempt: &'static str| {
            let error = fs_err::read(path).unwrap_err();
            plain(&text(&Failure::from(error).context(attempt)))
        };
        assert_eq!(said("no/x.whl", "cannot read wheel `no/x.whl`"), "error: there is no `no/x.whl`\n");
        assert_eq!(said("no/*.whl", "cannot read wheel `no/*.whl`"), "error: nothing matches `no/*.whl`\n");
        assert_eq!(said("no/x", "cannot audit"), "error: cannot audit\n  cause: there is no `no/x`\n");
        let walked = walkdir::WalkDir::new("no/x").into_iter().next().unwrap().unwrap_err();
        let failure = Failure::from(std::io::Error::from(walked)).context("cannot read `no/x`");
        assert_eq!(plain(&text(&failure)), "error: there is no `no/x`\n");
        // Another fault keeps the words of the system.
        let folder = plain(&text(&Failure::from(fs_err::read("/").unwrap_err())));
        assert!(folder.starts_with("error: failed to "), "{folder}");
    }

    #[cfg_attr(windows, ignore = "Windows makes links in developer mode only")]
    #[test]
    fn a_link_to_itself_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("x");
        rocwheel_system::symlink("x", &link).unwrap();
        let failure = Failure::from(fs_err::metadata(&link).unwrap_err()).context("cannot read `y`");
        let expected =
            format!("error: cannot read `y`\n  cause: `{}` is a link that leads to itself\n", link.display());
        assert_eq!(plain(&text(&failure)), expected);
    }

    #[test]
    fn the_step_that_failed_is_there_for_programs() {
        let failure = rocwheel_builder::StepFailure {
            job: "torch".into(),
            step: "wheel".into(),
            reason: "exit code 1".into(),
            tail: vec!["ninja: stopped".into()],
            log: "/builds/torch/wheel.log".into(),
            cause: None,
        };
        let failure = Failure::from(rocwheel_builder::Error::Inside {
            image: "image".into(),
            message: "no".into(),
            hint: None,
            exit: Exit::Failed,
            failure: Some(Box::new(failure)),
        });
        let text = serde_json::to_value(document(&failure)).unwrap();
        assert_eq!(text["error"]["failed_step"]["log"], "/builds/torch/wheel.log");
        assert_eq!(text["error"]["failed_step"]["tail"][0], "ninja: stopped");
        assert!(serde_json::to_value(document(&Failure::message("x"))).unwrap()["error"]["failed_step"].is_null());
    }

    #[test]
    fn a_list_that_the_message_cuts_is_whole_for_programs() {
        let found: Vec<String> = (0..30).map(|number| format!("?? file-{number}")).collect();
        let error = rocwheel_source::Error::Dirty { path: "torch".into(), found: found.clone() };
        let failure = Failure::from(error).context("cannot check out");
        assert!(plain(&text(&failure)).contains("and 10 more"));
        assert_eq!(serde_json::to_value(document(&failure)).unwrap()["error"]["rows"], serde_json::json!(found));
        let failure: Failure = Usage::new("wrong").into();
        assert!(serde_json::to_value(document(&failure)).unwrap()["error"].get("rows").is_none());
    }

    #[test]
    fn an_interrupted_run_is_said_in_one_word() {
        assert_eq!(plain(&text(&rocwheel_artifact::Error::Interrupted(Interrupted).into())), "interrupted\n");
    }

    #[test]
    fn a_panic_is_exit_code_70_and_asks_for_a_report() {
        assert_eq!(guard(|| panic!("expected by this test")), Exit::Bug);
        assert_eq!(guard(|| Exit::Partial), Exit::Partial);
        let text = plain(&panic_text("panicked at src/x.rs:1:2:\nindex out of bounds"));
        assert!(text.contains("cause: panicked at src/x.rs:1:2: index out of bounds\n"), "{text}");
        assert!(text.contains("please report it"), "{text}");
    }
}
