//! Input: a diagnosis, and an index. Output: the diagnosis with the line that installs from this
//! index what the machine lacks, as `rocwheel choose` makes it.

use rocwheel_choose::{ChoiceAnswer, ChoiceVerdict, Installer, glibc_of};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_doctor::{ChosenLine, Diagnosis, Unexamined};
use rocwheel_progress::with_causes;

use crate::choose::choose_for;

/// Asks the index, if packages have to be installed and it is known for what. An index that cannot
/// be asked is among what was not looked at.
pub(super) fn choose(diagnosis: &mut Diagnosis, index: &str, printer: &Printer) -> Result<()> {
    let installs = diagnosis.findings.iter().filter_map(|symptom| symptom.from_index.as_ref());
    let mut wanted: Vec<String> = installs.flat_map(|install| install.requirements.clone()).collect();
    wanted.sort();
    wanted.dedup();
    let has_packages = diagnosis.python.as_ref().is_none_or(|python| !python.packages.is_empty());
    if diagnosis.targets.is_empty() || (wanted.is_empty() && has_packages) {
        return Ok(());
    }
    match chosen(diagnosis, index, wanted, printer) {
        Ok((line, installations)) => diagnosis.choose(line, &installations),
        Err(failure) => {
            // After Ctrl-C the failure says nothing about the index.
            printer.reporter().check()?;
            let what = "what the index has for this GPU";
            let decides = format!("`rocwheel choose --index URL --gpu {}`", diagnosis.targets[0]);
            diagnosis.leave(Unexamined::new(what, with_causes(&failure), decides));
        }
    }
    Ok(())
}

/// Asks the index for the set, and returns it with its installations, each as the words after
/// `install`.
fn chosen(
    diagnosis: &Diagnosis,
    index: &str,
    wanted: Vec<String>,
    printer: &Printer,
) -> Result<(ChosenLine, Vec<Vec<String>>)> {
    let python = diagnosis.python.as_ref().and_then(|python| python.version.as_deref());
    let python = python.ok_or_else(|| Usage::new("the version of Python is not known"))?;
    let glibc = diagnosis.system.distribution.as_deref().and_then(glibc_of);
    if diagnosis.root.is_some() && glibc.is_none() {
        return Err(Usage::new("`/etc/os-release` of the copy names no distribution whose glibc is known").into());
    }
    let installer = if diagnosis.takes_uv() { Installer::Uv } else { Installer::Pip };
    let glibc = glibc.filter(|_| diagnosis.root.is_some());
    let (answer, index) = choose_for(index, wanted, (&diagnosis.targets, python, glibc), installer, printer)?;
    let ChoiceAnswer { verdict, reason, asked: packages, lines, .. } = answer;
    let line = lines.into_iter().next();
    let refused = line.as_ref().and_then(|line| line.problem.clone());
    let chosen = ChosenLine {
        index,
        gpus: diagnosis.targets.clone(),
        verdict: serde_json::to_value(verdict).map_err(Failure::other)?.as_str().unwrap_or_default().to_owned(),
        reason: refused.filter(|_| verdict != ChoiceVerdict::No).unwrap_or(reason),
        packages,
        checked_by: line.as_ref().and_then(|line| line.checked_by.clone()),
        command: None,
    };
    Ok((chosen, line.map(|line| line.installations).unwrap_or_default()))
}
