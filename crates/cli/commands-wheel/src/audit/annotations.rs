//! Input: a report. Output on GitHub Actions: annotations of the workflow, and a table in the
//! summary of the step. Nothing elsewhere.

use rocwheel_audit::finding::{Finding, Severity};
use rocwheel_audit::report::AuditReport;
use rocwheel_console::github::AnnotationLevel;
use rocwheel_console::printer::Printer;

/// Number of annotations of one level that GitHub shows for a step ("Limits" of its documentation
/// of annotations); the summary has all findings.
const MOST: usize = 10;

const COLUMNS: [&str; 4] = ["Severity", "Finding", "File", "Problem"];

/// Annotates the first errors and warnings, and adds all findings to the summary.
pub(super) fn annotate(report: &AuditReport, printer: &Printer) {
    for (severity, level) in [(Severity::Error, AnnotationLevel::Error), (Severity::Warning, AnnotationLevel::Warning)]
    {
        for finding in report.findings.iter().filter(|finding| finding.severity == severity).take(MOST) {
            printer.point_out(level, &format!("{}: {}: {}", name(finding), place(finding), finding.message));
        }
    }
    let rows = report.findings.iter().map(|finding| {
        vec![finding.severity.name().to_owned(), name(finding), place(finding), finding.message.clone()]
    });
    printer.summarise_rows(&COLUMNS, &rows.collect::<Vec<_>>());
}

fn name(finding: &Finding) -> String {
    format!("{} {}", finding.code, finding.code.explanation().name)
}

/// The wheel and the member that the finding is about.
fn place(finding: &Finding) -> String {
    match (&finding.wheel, &finding.file) {
        (Some(wheel), Some(file)) => format!("{wheel}/{file}"),
        (Some(wheel), None) => wheel.clone(),
        (None, file) => file.clone().unwrap_or_else(|| "the set".to_owned()),
    }
}
