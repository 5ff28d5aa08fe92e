//! Scripts that a rocwheel command can replace. Their options become a rocwheel command line, which
//! is printed and run.

use std::ffi::OsString;
use std::path::Path;

use rocwheel_console::failure::Result;
use rocwheel_console::printer::Printer;
use rocwheel_progress::Exit;

/// A rocwheel command line, and notes about the options of the script.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    /// The words without the name of the program. If empty, there is nothing to do and the notes
    /// give the reason.
    words: Vec<OsString>,
    notes: Vec<String>,
    /// Number of threads, from the global option.
    pub(super) jobs: Option<u16>,
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

    /// Adds a sentence for the user.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Notes that an option has no effect, and why.
    pub(super) fn without_effect(&mut self, option: &str, is_set: bool, why: &str) {
        if is_set {
            self.note(format!("`{option}` has no effect: {why}"));
        }
    }

    /// The command line as it can be typed, without passwords in addresses.
    fn line(&self) -> String {
        let shown = |word: &OsString| {
            let text = word.to_string_lossy();
            match text.split_once('=').filter(|(kind, _)| ["index", "find-links"].contains(kind)) {
                Some((kind, place)) => {
                    rocwheel_progress::shell_word(&format!("{kind}={}", rocwheel_source::without_secret(place)))
                }
                None => rocwheel_progress::shell_word(&rocwheel_source::without_secret(&text)),
            }
        };
        let words: Vec<String> = self.words.iter().map(shown).collect();
        format!("rocwheel {}", words.join(" "))
    }
}

/// Runs the words of a command line without the name of the program, in this number of threads.
pub(crate) type RunWords = fn(&[OsString], Option<u16>, &Printer) -> Result<Exit>;

/// Prints the command line and runs it.
pub(super) fn command(translation: &Translation, run: RunWords, printer: &Printer) -> Result<Exit> {
    for note in &translation.notes {
        printer.note(note);
    }
    if translation.words.is_empty() {
        return Ok(Exit::Done);
    }
    printer.note(format!("runs `{}`", translation.line()));
    run(&translation.words, translation.jobs, printer)
}
