//! Input: an answer. Output: text for people, the text for one installer, or a document.

use std::collections::BTreeMap;

use comfy_table::CellAlignment::{Left, Right};
use rocwheel_choose::{ChoiceAnswer, ChoiceCell, ChoiceVerdict, InstallLine, Installer, PackageOrigin, Question};
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::{Exit, counted, shell_word};
use rocwheel_tables::TargetTable;
use serde::Serialize;

use super::described;

const SET: [Column; 5] =
    [("Package", Left), ("Version", Left), ("Published", Left), ("Download", Right), ("From", Left)];

const TABLE: [Column; 6] = [
    ("Package", Left),
    ("GPU", Left),
    ("Python", Left),
    ("Newest complete", Left),
    ("Published", Left),
    ("Complete", Left),
];

/// Prints a table, and below it each hole once.
pub(super) fn print_table(cells: &[ChoiceCell], printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "cells": cells }));
    }
    printer.table(
        &TABLE,
        cells.iter().map(|cell| {
            let set = if cell.set.is_empty() { "none".to_owned() } else { cell.set.join(" ") };
            vec![cell.package.clone(), cell.gpu.clone(), cell.python.clone(), set, date(cell), complete_nights(cell)]
        }),
    )?;
    for (hole, places) in holes(cells) {
        printer.line(format!("missing for {places}: {}", message::one_line(&hole)))?;
    }
    Ok(())
}

/// The day on which the newest complete set was published.
pub(super) fn date(cell: &ChoiceCell) -> String {
    cell.published.as_deref().map(|time| time.get(..10).unwrap_or(time)).unwrap_or_default().to_owned()
}

/// `27 of 30` of the versions that were looked at.
pub(super) fn complete_nights(cell: &ChoiceCell) -> String {
    let complete = cell.nights.iter().filter(|night| night.missing.is_none()).count();
    format!("{complete} of {}", cell.nights.len())
}

/// Each hole once, with the GPUs and Pythons that it is for.
pub(super) fn holes(cells: &[ChoiceCell]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for cell in cells {
        for one in cell.holes() {
            found.entry(one).or_default().entry(&cell.gpu).or_default().push(&cell.python);
        }
    }
    found.into_iter().map(|(hole, gpus)| (hole, places(gpus))).collect()
}

fn places(gpus: BTreeMap<&str, Vec<&str>>) -> String {
    let places = gpus.into_iter().map(|(gpu, pythons)| format!("{gpu} with Python {}", pythons.join(", ")));
    places.collect::<Vec<_>>().join("; ")
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    answer: &'a ChoiceAnswer,
    question: AskedQuestion<'a>,
    /// Bytes that are left to download; `None` if that is not known.
    left: Option<u64>,
}

#[derive(Serialize)]
struct AskedQuestion<'a> {
    packages: &'a [String],
    gpus: &'a [String],
    python: String,
    system: String,
    glibc: Option<String>,
    indexes: &'a [String],
}

/// The question, for the words of its answer.
pub(super) struct Facts<'a> {
    pub(super) question: &'a Question<'a>,
    /// Addresses without users.
    pub(super) indexes: &'a [String],
}

impl Facts<'_> {
    fn gpus(&self) -> String {
        let table = TargetTable::embedded();
        let shown: Vec<String> = self.question.gpus.iter().map(|gpu| described(&table, gpu)).collect();
        shown.join(" and ")
    }

    /// `Python 3.12, Linux with glibc 2.36`.
    fn place(&self) -> String {
        let target = &self.question.target;
        let glibc = target.glibc.map(|(major, minor)| format!(" with glibc {major}.{minor}")).unwrap_or_default();
        format!("Python {} on {}{glibc}", target.python, target.platform)
    }

    fn index(&self, origin: PackageOrigin) -> &str {
        match origin {
            PackageOrigin::Set(number) => &self.indexes[number],
            PackageOrigin::Public => self.indexes.last().map_or("", String::as_str),
        }
    }

    /// The answer as JSON, with the question that it answers.
    pub(super) fn document(&self, answer: &ChoiceAnswer) -> Result<serde_json::Value> {
        let target = &self.question.target;
        let question = AskedQuestion {
            packages: &self.question.packages,
            gpus: &self.question.gpus,
            python: target.python.to_string(),
            system: target.platform.to_string(),
            glibc: target.glibc.map(|(major, minor)| format!("{major}.{minor}")),
            indexes: self.indexes,
        };
        let document = Document { answer, question, left: answer.left() };
        let mut document = serde_json::to_value(document).map_err(Failure::other)?;
        for (shown, member) in document["members"].as_array_mut().into_iter().flatten().zip(&answer.members) {
            shown["origin"] = self.index(member.origin).into();
        }
        Ok(document)
    }
}

/// Prints the verdict, the set and its lines.
pub(super) fn print(facts: &Facts<'_>, answer: &ChoiceAnswer, printer: &Printer) -> Result<()> {
    let (gpus, place) = (facts.gpus(), facts.place());
    if answer.verdict == ChoiceVerdict::No {
        printer.line(format!("no: {} for {gpus}, {place}", answer.asked.join(" ")))?;
        printer.line(format!("  {}", message::one_line(&answer.reason)))?;
        if !answer.tried.is_empty() {
            printer.line(format!("there is none with {} either", answer.tried.join(", ")))?;
        }
        for near in &answer.nearest {
            printer.line(format!("there is, with {}: {}", near.with, near.packages.join(" ")))?;
            if let Some(caution) = &near.caution {
                printer.line(format!("  but {caution}"))?;
            }
            if !near.options.is_empty() {
                printer.line(format!(
                    "  rocwheel choose … {}",
                    near.options.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
                ))?;
            }
        }
        return Ok(());
    }
    let word = if answer.verdict == ChoiceVerdict::Yes { "yes" } else { "cannot tell" };
    let is_plain = answer.verdict == ChoiceVerdict::Yes && !answer.is_by_name;
    let doubt = if is_plain { String::new() } else { format!(": {}", message::one_line(&answer.reason)) };
    printer.line(format!("{word}: {} for {gpus}, {place}{doubt}", answer.asked.join(" ")))?;
    let rows = answer.members.iter().map(|member| {
        let date = member.uploaded.as_deref().map(|time| time.get(..10).unwrap_or(time)).unwrap_or_default();
        let size = member.size.map(message::bytes).unwrap_or_default();
        vec![member.name.clone(), member.version.clone(), date.to_owned(), size, facts.index(member.origin).to_owned()]
    });
    printer.table(&SET, rows)?;
    let (packages, download, installed) =
        (counted(answer.members.len() as u64, "package"), size(answer.download), size(answer.installed));
    printer.line(format!(
        "{packages}, {download} to download, {installed} installed; resolved by {}",
        answer.resolved_by
    ))?;
    if let Some(present) = answer.present.as_ref().filter(|present| !present.is_empty()) {
        let (present, left) = (counted(present.len() as u64, "package"), size(answer.left()));
        printer.line(format!("this Python has {present} of them already: {left} left to download"))?;
    }
    if answer.pre_releases {
        printer.line("pre-releases count, since there is no set without them")?;
    }
    for one in &answer.kernels {
        printer.line(format!("code for {one}"))?;
    }
    for (gpu, bytes) in &answer.gpu_code {
        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
            let bytes = message::bytes(bytes);
            printer.line(format!("memory of {gpu} for this code: {bytes} when all of it is loaded"))?;
        }
    }
    for one in &answer.not_taken {
        printer.line(format!("not taken: {} {}: {}", one.name, one.version, message::one_line(&one.reason)))?;
    }
    for line in answer.lines.iter().filter(|line| line.file.is_none()) {
        print_line(line, printer)?;
    }
    let others: Vec<&str> = answer
        .lines
        .iter()
        .filter(|line| line.file.is_some() && line.text.is_some())
        .map(|line| line.installer.name())
        .collect();
    printer.line(format!("also with --installer: {}", others.join(", ")))?;
    for line in answer.lines.iter().filter(|line| line.file.is_some()) {
        if let Some(problem) = &line.problem {
            printer.line(format!("  {}: {}", line.installer.name(), message::one_line(problem)))?;
        }
    }
    for one in &answer.not_looked_at {
        printer.line(format!("not looked at: {}", message::one_line(one)))?;
    }
    Ok(())
}

fn size(size: Option<u64>) -> String {
    size.map_or_else(|| "an unknown size".to_owned(), message::bytes)
}

fn print_line(line: &InstallLine, printer: &Printer) -> Result<()> {
    let name = line.installer.name();
    let Some(text) = &line.text else {
        return printer
            .line(format!("\n{name}: no line: {}", message::one_line(line.problem.as_deref().unwrap_or_default())));
    };
    let checked = match (&line.checked_by, &line.problem) {
        (Some(by), _) => format!("resolved again by {by}"),
        (None, problem) => message::one_line(problem.as_deref().unwrap_or_default()).into_owned(),
    };
    printer.line(format!("\n{name} ({checked}; {}):", line.guard))?;
    for one in text.lines() {
        printer.line(format!("  {one}"))?;
    }
    Ok(())
}

/// Prints the text for an installer alone, for a file.
pub(super) fn print_one(answer: &ChoiceAnswer, installer: Installer, exit: Exit, printer: &Printer) -> Result<Exit> {
    if answer.verdict == ChoiceVerdict::No {
        return Err(Failure::message(format!("there is no such set: {}", answer.reason))
            .with_hint("the same command without `--installer` tells which sets exist"));
    }
    let line = answer.lines.iter().find(|line| line.installer == installer);
    let Some((line, text)) = line.and_then(|line| Some((line, line.text.as_ref()?))) else {
        let reason = line.and_then(|line| line.problem.clone()).unwrap_or_default();
        return Err(Failure::message(format!("there is no text for {}: {reason}", installer.name()))
            .with_hint("the same command without `--installer` tells which there are"));
    };
    if let Some(problem) = &line.problem {
        printer.warn(problem);
    }
    if answer.verdict == ChoiceVerdict::CannotTell {
        printer.warn(&answer.reason);
    }
    printer.raw(text.trim_end().as_bytes())?;
    printer.raw(b"\n")?;
    if let (Some(file), Some(then)) = (line.file, &line.then) {
        printer.note(format!("write it into {file}, then: {then}"));
    }
    Ok(exit)
}
