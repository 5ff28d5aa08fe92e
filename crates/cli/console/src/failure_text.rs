//! Input: an error of any library. Output: the message on stderr, and the exit code.

use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use clap::builder::styling::{AnsiColor, Style};
use clap::error::ContextKind;
use rocwheel_progress::{Context as _, Exit, Failure, one_line};

use crate::failure::Result;
use crate::github::{self, AnnotationLevel};
use crate::message;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const CAUSE: Style = AnsiColor::Red.on_default();
const HINT: Style = AnsiColor::Cyan.on_default();

/// Prints error, causes and hint, and returns the exit code.
pub fn print(failure: &Failure) -> Exit {
    tell(text(failure), failure.exit());
    failure.exit()
}

/// Prints an error, on GitHub as an annotation.
fn tell(text: String, exit: Exit) {
    let plain = anstream::adapter::strip_str(&text).to_string();
    let message = plain.strip_prefix("error: ").unwrap_or(&plain);
    let annotation = github::step().annotation(AnnotationLevel::Error, message).filter(|_| exit != Exit::Interrupted);
    message::talk(&annotation.map_or(text, |line| line + "\n"));
}

/// Prints clap's message about a wrong command line, or the help that was asked for.
///
/// # Errors
/// Help cannot be written to stdout.
pub fn print_usage(mut error: clap::Error) -> Result<()> {
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

/// The error and its causes, outermost first. A path that does not exist is reported in our words
/// instead of the system's, and without "cannot read" that path in front. A cause that ends the
/// sentence before it is left out.
pub fn sentences(failure: &Failure) -> Vec<String> {
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

pub fn text(failure: &Failure) -> String {
    if failure.exit() == Exit::Interrupted {
        return format!("{ERROR}interrupted{ERROR:#}\n");
    }
    let mut text = String::new();
    for (depth, cause) in sentences(failure).into_iter().enumerate() {
        let (style, label) = if depth == 0 { (ERROR, "error") } else { (CAUSE, "  cause") };
        // A path that is too long for the system is shortened for the message.
        let cause = if cause.contains('\n') { message::harmless_names(&cause) } else { one_line(&cause) };
        text.push_str(&format!("{style}{label}:{style:#} {cause}\n"));
    }
    if let Some(hint) = failure.hint() {
        text.push_str(&format!("{HINT}hint:{HINT:#} {}\n", one_line(hint)));
    }
    text
}

/// Reports a panic as a defect of this program. The backtrace appears only on request.
pub fn install_panic_hook(shows_backtrace: bool) {
    let standard = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        tell(panic_text(&information.to_string()), Exit::Bug);
        if shows_backtrace {
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
pub fn guard(program: impl FnOnce() -> Exit) -> Exit {
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
        let failure = rocwheel_package::version::VersionFile::parse("]", "version.json").unwrap_err();
        let failure = failure.context("cannot work out the version");
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
