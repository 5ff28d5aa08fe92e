//! Scripts that a rocwheel command can replace. Their options become a rocwheel command line, which
//! is printed and run.

use std::ffi::OsString;
use std::path::Path;

use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::Exit;

/// A rocwheel command line, and notes about the options of the script.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    /// The words without the name of the program. If empty, there is nothing to do and the notes
    /// give the reason.
    words: Vec<OsString>,
    notes: Vec<String>,
    /// Sentences about options of the script that have no effect.
    pub(super) no_effect: Vec<String>,
    /// Number of threads, from the global option.
    pub(super) jobs: Option<u16>,
    /// The option with which this command line writes a temporary folder, and the command line that
    /// then takes it.
    then: Option<(&'static str, Box<Translation>)>,
}

impl Translation {
    /// Starts a command line with these words: `source checkout torch`.
    pub(super) fn new(command: &str) -> Self {
        Self { words: command.split_whitespace().map(OsString::from).collect(), ..Self::default() }
    }

    pub(super) fn word(&mut self, word: impl Into<OsString>) {
        self.words.push(word.into());
    }

    /// Adds an option with its value, if there is one.
    pub(super) fn option(&mut self, name: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            self.words.extend([name.into(), value.into()]);
        }
    }

    /// Adds an option whose value begins with a name: `--source torch=DIR`.
    pub(super) fn named(&mut self, option: &str, name: &str, path: &Path) {
        let mut value = OsString::from(format!("{name}="));
        value.push(path);
        self.option(option, Some(value));
    }

    pub(super) fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.word(name);
        }
    }

    /// Adds rocwheel options that the user typed after `--`.
    pub(super) fn more(&mut self, options: Vec<String>) {
        self.words.extend(options.into_iter().map(OsString::from));
    }

    /// Adds a second command line, which takes what the first one wrote with `option`.
    pub(super) fn then(&mut self, option: &'static str, second: Translation) {
        self.then = Some((option, Box::new(second)));
    }

    /// Adds a sentence for the user.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Notes that an option has no effect, and why.
    pub(super) fn without_effect(&mut self, option: &str, is_set: bool, why: &str) {
        if is_set {
            self.no_effect.push(format!("`{option}` has no effect: {why}"));
        }
    }

    /// The command line as it can be typed, without passwords in addresses.
    pub(super) fn line(&self) -> String {
        let words = self.words.iter().map(|word| {
            let text = word.to_string_lossy();
            match text.split_once('=').filter(|(kind, _)| ["index", "find-links"].contains(kind)) {
                Some((kind, place)) => {
                    rocwheel_progress::shell_word(&format!("{kind}={}", rocwheel_source::without_secret(place)))
                }
                None => rocwheel_progress::shell_word(&rocwheel_source::without_secret(&text)),
            }
        });
        format!("rocwheel {}", words.collect::<Vec<_>>().join(" "))
    }
}

/// Runs the words of a command line without the name of the program, in this number of threads.
pub(crate) type RunWords = fn(&[OsString], Option<u16>, &Printer) -> Result<Exit>;

/// Prints the command line and runs it.
pub(super) fn command(translation: &Translation, run: RunWords, printer: &Printer) -> Result<Exit> {
    for note in translation.notes.iter().chain(&translation.no_effect) {
        printer.note(note);
    }
    if translation.words.is_empty() {
        return Ok(Exit::Done);
    }
    let Some((option, second)) = &translation.then else {
        printer.note(format!("runs `{}`", translation.line()));
        return run(&translation.words, translation.jobs, printer);
    };
    if printer.format() == ResultFormat::Json {
        let usage = Usage::new("this script is two commands here, and `--json` prints the document of one");
        return Err(usage.hint("leave `--json` out").into());
    }
    printer.note(format!("runs `{} {option} DIR`, then `{} DIR`", translation.line(), second.line()));
    let folder = environment::scratch_below(&environment::scratch())?;
    let between = folder.path().join("between").into_os_string();
    let first = [translation.words.as_slice(), &[option.into(), between.clone()]].concat();
    let exit = run(&first, translation.jobs, printer)?;
    if exit != Exit::Done {
        return Ok(exit);
    }
    let exit = run(&[second.words.as_slice(), &[between]].concat(), translation.jobs, printer)?;
    folder.close()?;
    Ok(exit)
}
