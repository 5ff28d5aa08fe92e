//! The audit at the end of commands that write wheels. Input: complete wheels in a staging folder.
//! Output: their verdicts. If there are new errors, the command fails and publishes nothing.

use std::path::Path;

use clap::Args;
use rocwheel_audit::AuditScope;
use rocwheel_audit::finding::Finding;
use rocwheel_audit::written::{self, Verdict, WheelSet};
pub use rocwheel_output::LastLook;
use rocwheel_output::Staged;
use rocwheel_progress::{Exit, Hint, few_in_backticks};

use crate::audit::text;
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};

/// What every command that writes wheels has.
#[derive(Debug, Clone, Copy, Args)]
pub struct LastLookArguments {
    /// Do not audit the result before it is written
    #[arg(long)]
    no_audit: bool,
}

impl LastLookArguments {
    pub fn choice(self) -> LastLook {
        if self.no_audit { LastLook::Skip } else { LastLook::Audit }
    }
}

/// The audit found new errors, so the wheels must not be used.
#[derive(Debug, thiserror::Error)]
#[error("nothing was written: the audit finds {} in {what}", message::count(verdict.new_errors.len() as u64, "error", "errors"))]
pub struct Refused {
    what: String,
    /// The findings.
    pub verdict: Verdict,
}

impl Hint for Refused {
    fn hint(&self) -> Option<String> {
        let more = match self.verdict.remarks.len() {
            0 => "",
            _ => "`-v` shows warnings and notes too, ",
        };
        let code = self.verdict.new_errors.first().map_or("RW001", |finding| finding.code.text());
        Some(format!("`rocwheel audit --explain {code}` explains it, {more}and `--no-audit` writes the result anyway"))
    }

    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

/// Wheels to audit, which are installed together.
pub struct Look<'a> {
    /// The written wheels, and the wheels that they were made from.
    pub set: WheelSet,
    /// Their name in messages such as "the audit finds 1 error in …".
    pub what: String,
    /// A folder for files that have to be unpacked.
    pub scratch: &'a Path,
}

/// The end of every command that writes: audits the staged result, and moves it to its place if it
/// has no new errors. The verdicts are those of `looks`, in their order.
///
/// # Errors
/// [`Refused`] for new errors; the error of a result that cannot be moved.
pub fn finish<T>(
    staged: Staged<T>,
    last_look: LastLook,
    looks: &[Look<'_>],
    printer: &Printer,
) -> Result<(T, Vec<Option<Verdict>>)> {
    let looked = looks.iter().map(|look| look_at(look, last_look, printer));
    let verdicts = looked.collect::<Result<Vec<_>>>()?;
    Ok((staged.commit()?, verdicts))
}

/// Audits wheels that are installed together.
///
/// New errors are printed and make the audit an error; other findings are counted.
pub fn look_at(look: &Look<'_>, last_look: LastLook, printer: &Printer) -> Result<Option<Verdict>> {
    let Look { set, what, scratch } = look;
    if last_look == LastLook::Skip || set.wheels.is_empty() {
        return Ok(None);
    }
    let mut verdict = written::judge(set, scratch, printer.reporter())?;
    if verdict.is_good() {
        return Ok(Some(verdict));
    }
    // The fixes name files that will not be written.
    for finding in verdict.new_errors.iter_mut().chain(&mut verdict.remarks) {
        finding.fix = None;
        finding.decision = None;
    }
    if printer.format() == ResultFormat::Text {
        let shown: &[Finding] = if printer.has_details() { &verdict.remarks } else { &[] };
        for finding in verdict.new_errors.iter().chain(shown) {
            text::print(finding, printer)?;
            printer.line("")?;
        }
    }
    Err(Refused { what: what.clone(), verdict }.into())
}
/// Prints the result of the audit, and a command that shows all of it.
pub fn show<P: AsRef<Path>>(verdict: &Verdict, wheels: &[P], printer: &Printer) {
    if let Some(why) = &verdict.unjudged {
        printer.warn(format!("not audited, as before: {why}"));
        return;
    }
    let what = match verdict.scope {
        AuditScope::Files => "audited",
        AuditScope::Names => "audited, names and RECORD",
    };
    let counts = verdict.counts;
    let parts: Vec<String> = [(counts.warnings, "warning", "warnings"), (counts.notes, "note", "notes")]
        .into_iter()
        .filter(|(amount, ..)| *amount > 0)
        .map(|(amount, one, many)| message::count(amount, one, many))
        .collect();
    let rest = if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) };
    let shown = counts.warnings + counts.notes + (verdict.old_errors.len() + verdict.accepted_errors.len()) as u64;
    let with = if verdict.depends_on.is_empty() { "" } else { " --with index" };
    let see = format!("`rocwheel audit {}{with}` shows {}", words(wheels), if shown == 1 { "it" } else { "them" });
    let errors: Vec<String> = [(&verdict.old_errors, "there before"), (&verdict.accepted_errors, "accepted")]
        .into_iter()
        .filter(|(findings, _)| !findings.is_empty())
        .map(|(findings, why)| {
            let mut codes: Vec<&str> = findings.iter().map(|finding| finding.code.text()).collect();
            codes.dedup();
            let errors = message::count(findings.len() as u64, "error", "errors");
            let were = if findings.len() == 1 { "was" } else { "were" };
            format!("{errors} that {were} {why} ({})", codes.join(", "))
        })
        .collect();
    let open = open_question(verdict, wheels.len());
    if !errors.is_empty() {
        printer.warn(format!("{what}: {}{rest}{open}; {see}", errors.join(", ")));
    } else if rest.is_empty() {
        printer.note(format!("{what}: no errors in {}{open}", written(wheels)));
    } else {
        printer.note(format!("{what}: no errors in {}{rest}{open}; {see}", written(wheels)));
    }
}

/// The end of a message about wheels of which nobody can tell whether they load; else nothing.
fn open_question(verdict: &Verdict, wheels: usize) -> String {
    if verdict.depends_on.is_empty() {
        return String::new();
    }
    let names = few_in_backticks(&verdict.depends_on, 3);
    let (load, was) = (
        if wheels == 1 { "it loads" } else { "they load" },
        if verdict.depends_on.len() == 1 { "was" } else { "were" },
    );
    format!("; whether {load} depends on {names}, which {was} not looked at")
}

/// The audited wheels, for a message.
fn written<P: AsRef<Path>>(wheels: &[P]) -> String {
    match wheels {
        [wheel] => format!("`{}`", wheel.as_ref().file_name().unwrap_or_default().to_string_lossy()),
        _ => message::count(wheels.len() as u64, "wheel", "wheels"),
    }
}

/// The words with which a user names the wheels; more than two wheels of one folder become a
/// pattern.
fn words<P: AsRef<Path>>(wheels: &[P]) -> String {
    const TYPED: usize = 2;
    let folder = wheels.first().and_then(|wheel| wheel.as_ref().parent());
    match folder {
        Some(folder) if wheels.len() > TYPED => format!("{}/*.whl", rocwheel_progress::shell_path(folder)),
        _ => {
            let words: Vec<String> = wheels.iter().map(|wheel| rocwheel_progress::shell_path(wheel.as_ref())).collect();
            words.join(" ")
        }
    }
}
