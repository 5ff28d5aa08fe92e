//! Input: a report, an explanation or a tree. Output: text for people, in lines of at most 80
//! columns where names allow it.

use clap::builder::styling::{AnsiColor, Style};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_audit::Remedies;
use rocwheel_audit::finding::{Explanation, Finding, Severity};
use rocwheel_audit::report::{AuditReport, LoadAnswer, WheelSummary};
use rocwheel_audit::why::{Puller, Why};
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer};

const WIDTH: usize = 80;
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default();
const FIX: Style = AnsiColor::Green.on_default();

const WHEELS: [Column; 6] =
    [("Wheel", Left), ("Size", Right), ("Promises", Left), ("Needs", Left), ("CPU", Left), ("Errors", Right)];

/// Prints the verdict, wheels, findings and counts.
pub(super) fn report(report: &AuditReport, remedies: &Remedies, printer: &Printer) -> Result<()> {
    let verdict = report.verdict();
    let style = match verdict.answer {
        LoadAnswer::Loads => FIX,
        LoadAnswer::Fails => ERROR,
        LoadAnswer::Unknown => WARNING,
    };
    printer.styled(format!("{style}{}{style:#}\n", message::one_line(&verdict.sentence)))?;
    let audited: Vec<&WheelSummary> = report.wheels.iter().filter(|wheel| wheel.role == "audited").collect();
    printer.table(&WHEELS, audited.iter().map(|wheel| row(wheel, report)))?;
    let mut shown: Option<&Option<String>> = None;
    for finding in &report.findings {
        if audited.len() > 1 && shown != Some(&finding.wheel) {
            let wheel = finding.wheel.as_deref().unwrap_or("the set");
            printer.line(format!("\n{}", message::one_line(wheel)))?;
            shown = Some(&finding.wheel);
        } else {
            printer.line("")?;
        }
        print(finding, printer)?;
    }
    block(report, remedies, printer)?;
    let counts = report.counts;
    let mut parts = vec![
        message::count(counts.errors, "error", "errors"),
        message::count(counts.warnings, "warning", "warnings"),
        message::count(counts.notes, "note", "notes"),
    ];
    let ignored: u64 = report.ignored.values().sum();
    if ignored > 0 {
        parts.push(format!("{ignored} ignored"));
    }
    let objects: u64 = audited.iter().map(|wheel| wheel.objects).sum();
    let installed = audited.iter().any(|wheel| wheel.form == "installed");
    let (one, many) = if installed { ("distribution", "distributions") } else { ("wheel", "wheels") };
    printer.line(format!(
        "\n{}, {}: {}",
        message::count(audited.len() as u64, one, many),
        message::count(objects, "program or library", "programs and libraries"),
        parts.join(", ")
    ))?;
    if !report.findings.is_empty() {
        printer.note("`rocwheel audit --explain CODE` explains a finding");
    }
    Ok(())
}

fn row(wheel: &WheelSummary, report: &AuditReport) -> Vec<String> {
    let own = report.findings.iter().filter(|finding| finding.wheel.as_deref() == Some(&*wheel.file));
    let errors = own.filter(|finding| finding.severity == Severity::Error).count();
    // Of several names for one promise the first is shown; the others mean the same.
    let promised = match &wheel.platforms[..] {
        [one] => short(one).to_owned(),
        [first, ..] => format!("{}, …", short(first)),
        [] => "-".to_owned(),
    };
    vec![
        format!("{} {}", wheel.name, wheel.version),
        message::bytes(wheel.size),
        promised,
        wheel.floor.as_ref().map_or("-", |floor| short(&floor.tag)).to_owned(),
        wheel.cpu.unwrap_or("-").to_owned(),
        errors.to_string(),
    ]
}

fn short(tag: &str) -> &str {
    tag.strip_suffix("_x86_64").unwrap_or(tag)
}

/// Prints one finding.
pub fn print(finding: &Finding, printer: &Printer) -> Result<()> {
    let style = match finding.severity {
        Severity::Error => ERROR,
        Severity::Warning => WARNING,
        Severity::Note => NOTE,
    };
    let name = &finding.code.explanation().name;
    let mut head = format!("{} {name}", finding.code);
    if let Some(file) = &finding.file {
        head.push_str(&format!(": {}", message::one_line(file)));
        if !finding.related.is_empty() {
            head.push_str(&format!(" and {} more", finding.related.len()));
        }
    }
    printer.styled(format!("{style}{}{style:#} {head}", finding.severity.name()))?;
    let decision = finding.decision.as_ref().map(|decision| format!("needs a decision: {decision}"));
    for text in std::iter::once(&finding.message).chain(&decision) {
        for line in message::wrapped(&message::one_line(text), WIDTH - 2) {
            printer.line(format!("  {line}"))?;
        }
    }
    Ok(())
}

/// Prints the commands that fix the findings; they work when typed in this order.
fn block(report: &AuditReport, remedies: &Remedies, printer: &Printer) -> Result<()> {
    let all = report.findings.len();
    let commands = remedies.commands();
    if !commands.is_empty() {
        printer.styled(format!("\n{FIX}To fix {} of {all}:{FIX:#}", remedies.fixed))?;
        commands.iter().try_for_each(|command| printer.line(format!("  {}", message::one_line(command))))?;
    }
    // A finding that a command fixes needs no answer, unless it is what the verdict depends on.
    let is_unknown = report.verdict().answer == LoadAnswer::Unknown;
    let open = report.findings.iter().filter(|finding| {
        let has_fix = finding.fix.as_ref().is_some_and(|fix| !fix.is_question());
        finding.decides && !finding.depends_on.is_empty() && (is_unknown || !has_fix)
    });
    let open = open.count();
    if open > 0 && !report.to_decide.is_empty() {
        printer.styled(format!("\n{FIX}To decide {open} of {all}:{FIX:#}"))?;
        report.to_decide.iter().try_for_each(|command| printer.line(format!("  {}", message::one_line(command))))?;
    }
    Ok(())
}

/// The text that explains a code.
pub(super) fn explanation(explanation: &Explanation) -> String {
    let Explanation { code, name, severity, title, explanation, cure, decision } = explanation;
    let paragraphs = [
        format!("{title}."),
        explanation.clone(),
        format!("What to do: {cure}"),
        format!("If no command fixes it, it needs a decision: {decision}."),
    ];
    let paragraphs = paragraphs.map(|text| message::wrapped(&text, WIDTH).join("\n"));
    format!("{code} {name} ({})\n\n{}", severity.name(), paragraphs.join("\n\n"))
}

/// The tree of the files that pull a library in.
pub(super) fn why(why: &Why) -> String {
    let mut lines = Vec::new();
    for tree in &why.trees {
        lines.push(label(tree));
        branches(tree, "", &mut lines);
    }
    lines.join("\n")
}

fn branches(puller: &Puller, indent: &str, lines: &mut Vec<String>) {
    let last = puller.needed_by.len().saturating_sub(1);
    for (index, user) in puller.needed_by.iter().enumerate() {
        let (branch, below) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(format!("{indent}{branch}{}", label(user)));
        branches(user, &format!("{indent}{below}"), lines);
    }
}

fn label(puller: &Puller) -> String {
    let repeated = if puller.repeated { " (see above)" } else { "" };
    match &puller.path {
        Some(path) => {
            let distribution = puller.distribution.as_deref().unwrap_or_default();
            format!("{}  {}  {distribution}{repeated}", message::one_line(path), message::bytes(puller.size))
        }
        None => format!("{}  not in the set", message::one_line(&puller.name)),
    }
}
