//! `rocwheel release yank`: withdraws a version and everything that pins it.

use clap::Args;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_stream::{YankRequest, yank};

use super::stream::{AllowArguments, ChangeArguments, ChangeSettings, StreamArguments, StreamPlace};

/// Withdraw a version, and everything that pins it
///
/// Installers choose a withdrawn version only for a requirement that pins it, and print the reason
/// (PEP 592). Packages that require the version with `==` are withdrawn first, because they could
/// be chosen and then fail.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The version to withdraw: NAME==VERSION
    #[arg(value_name = "NAME==VERSION", value_parser = pin)]
    version: (String, pep440_rs::Version),
    /// Why, in a sentence that installers print
    #[arg(long, value_name = "TEXT", required_unless_present = "undo")]
    reason: Option<String>,
    /// Take the withdrawal back, of the version and of what was withdrawn because of it
    #[arg(long, conflicts_with = "reason")]
    undo: bool,
    #[command(flatten)]
    allow: AllowArguments,
    #[command(flatten)]
    change: ChangeArguments,
    #[command(flatten)]
    stream: StreamArguments,
}

/// Parses `NAME==VERSION`.
fn pin(text: &str) -> Result<(String, pep440_rs::Version), String> {
    let (name, version) = text.split_once("==").ok_or("write it as NAME==VERSION")?;
    let version = version.trim().parse().map_err(|_| format!("`{version}` is not a version"))?;
    rocwheel_wheel::check_name(name.trim()).map_err(|error| error.to_string())?;
    Ok((rocwheel_wheel::canonical_name(name.trim()), version))
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub request: YankRequest,
    place: StreamPlace,
    change: ChangeSettings,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let (project, version) = arguments.version;
        let reason = arguments.reason.unwrap_or_default();
        if !arguments.undo && (reason.trim().is_empty() || reason.contains(['\n', '\r'])) {
            return Err(Usage::new("`--reason` is one line of text, which installers print").into());
        }
        Ok(Self {
            request: YankRequest { project, version, reason, undo: arguments.undo },
            place: arguments.stream.try_into()?,
            change: arguments.change.settings(arguments.allow.unsigned())?,
        })
    }
}

/// Withdraws, or prints what would be withdrawn.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    let change = settings.change.change(&settings.place.name);
    settings.change.warn_unsigned(printer);
    let yanked = yank(&*store, &settings.request, &change, printer.reporter())?;
    if printer.format() == ResultFormat::Json {
        printer.json(&yanked)?;
        return Ok(Exit::Done);
    }
    for key in yanked.pinned.iter().chain(&yanked.files) {
        printer.line(key)?;
    }
    let verb = match (settings.change.mode, settings.request.undo) {
        (Mode::DryRun, false) => "would be withdrawn",
        (Mode::DryRun, true) => "would be restored",
        (Mode::Execute, false) => "withdrawn",
        (Mode::Execute, true) => "restored",
    };
    let files = message::count(yanked.files.len() as u64, "file", "files");
    printer.note(format!("{files} {verb}, and {} because of that", yanked.pinned.len()));
    Ok(Exit::Done)
}
