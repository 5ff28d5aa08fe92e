//! Input: a diagnosis. Output: text for people, in lines as wide as the terminal.

use std::collections::{BTreeMap, BTreeSet};

use clap::builder::styling::{AnsiColor, Style};
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::Printer;
use rocwheel_doctor::{Diagnosis, GpuFacts, Gravity, Need, Symptom};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const COMMAND: Style = AnsiColor::Green.on_default();
/// Columns of a pipe, and the most that are comfortable to read.
const PIPE: usize = 80;
const WIDEST: usize = 100;
/// Columns of the words in front of a line.
const LABEL: usize = 9;
/// GPUs that are shown one by one; partitions of datacentre GPUs are up to 64.
const MOST_GPUS: usize = 8;
/// Packages that are shown.
const MOST_PACKAGES: usize = 12;

/// Prints the machine, the findings and the verdict.
pub(super) fn print(diagnosis: &Diagnosis, printer: &Printer) -> Result<()> {
    let width = comfy_table::Table::new().width().map_or(PIPE, usize::from).clamp(40, WIDEST);
    let page = Page { width, printer };
    for (label, text) in facts(diagnosis) {
        page.labelled(label, &text)?;
    }
    for symptom in &diagnosis.findings {
        printer.line("")?;
        page.finding(symptom)?;
    }
    if let Some(install) = &diagnosis.install {
        printer.line("")?;
        let gpus = install.gpus.join(" and ");
        let said = match &install.command {
            Some(_) => format!("{} for {gpus}, from {}: {}", install.packages.join(" "), install.index, install.reason),
            None => format!("nothing for {gpus} is in {}: {}", install.index, install.reason),
        };
        page.labelled("Install", &said)?;
        match &install.command {
            Some(command) => printer.styled(format!("  {COMMAND}$ {command}{COMMAND:#}"))?,
            None => page.indented(
                "  to check: ",
                &format!("`rocwheel choose --index {}` tells which sets exist", install.index),
            )?,
        }
    }
    let style = if diagnosis.is_well() { GOOD } else { ERROR };
    printer.line("")?;
    for line in message::wrapped(&message::one_line(&diagnosis.verdict), width) {
        printer.styled(format!("{style}{line}{style:#}"))?;
    }
    for one in &diagnosis.not_looked_at {
        page.indented("not looked at: ", &format!("{} ({}); {}", one.what, one.why, one.decides))?;
    }
    Ok(())
}

/// A word and a text for each line about the machine.
fn facts(diagnosis: &Diagnosis) -> Vec<(&'static str, String)> {
    let system = &diagnosis.system;
    let mut facts = Vec::new();
    let is_windows = cfg!(windows) && diagnosis.root.is_none();
    let unnamed = if is_windows { "Windows" } else { "unknown" };
    let kernel = system.kernel.as_deref().unwrap_or(unnamed);
    let driver = match (&system.driver, system.driver_loaded) {
        (Some(version), _) => format!("amdgpu {version}"),
        (None, Some(true)) => "amdgpu of the kernel".to_owned(),
        (None, _) if system.wsl || is_windows => "that of Windows".to_owned(),
        (None, Some(false)) => "amdgpu is not loaded".to_owned(),
        (None, None) => "no file tells whether amdgpu is loaded".to_owned(),
    };
    facts.push(("Kernel", format!("{kernel}; {driver}")));
    if let Some(container) = system.container {
        facts.push(("In", format!("container: {container}")));
    }
    if system.wsl {
        facts.push(("In", "Windows Subsystem for Linux".to_owned()));
    }
    if diagnosis.gpus.len() <= MOST_GPUS {
        facts.extend(diagnosis.gpus.iter().map(|gpu| ("GPU", gpu_line(gpu))));
    } else {
        facts.extend(cards(&diagnosis.gpus).into_iter().map(|line| ("GPUs", line)));
    }
    if let Some(python) = &diagnosis.python {
        let version = python.version.as_deref().unwrap_or("of an unknown version");
        facts.push(("Python", format!("{version} in {}", python.path.display())));
        facts.extend(python.chosen_by.iter().map(|by| ("", format!("chosen by {by}"))));
        facts.extend(python.beside.iter().map(|folder| ("", format!("and {}", folder.display()))));
        let packages: Vec<String> =
            python.packages.iter().map(|package| format!("{} {}", package.name, package.version)).collect();
        let more = packages.len().saturating_sub(MOST_PACKAGES);
        let mut text = packages.into_iter().take(MOST_PACKAGES).collect::<Vec<_>>().join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        let others = format!("none for GPUs among {}", message::count(python.count as u64, "package", "packages"));
        facts.push(("Packages", if text.is_empty() { others } else { text }));
    }
    facts
}

fn gpu_line(gpu: &GpuFacts) -> String {
    let number = gpu.hip_index.map_or_else(|| "not for HIP".to_owned(), |number| format!("HIP device {number}"));
    let mut parts = vec![
        gpu.product.clone(),
        gpu.target.clone().unwrap_or_else(|| "unknown target".to_owned()),
        format!("{} CUs", gpu.compute_units),
    ];
    // Copies of a machine may lack the folders of the memory.
    parts.extend((gpu.memory > 0).then(|| message::bytes(gpu.memory)));
    parts.extend(gpu.integrated.then(|| "in the processor".to_owned()));
    parts.extend(gpu.partition.clone());
    parts.extend([gpu.address.clone(), format!("node {}", gpu.node), number]);
    parts.join(", ")
}

/// The GPUs of one product that are divided in the same way.
#[derive(Default)]
struct Group<'a> {
    count: usize,
    usable: usize,
    cards: BTreeSet<&'a str>,
}

/// One line for each product and the way in which it is divided.
fn cards(gpus: &[GpuFacts]) -> Vec<String> {
    let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
    for gpu in gpus {
        let mut name = format!("{}, {}", gpu.product, gpu.target.as_deref().unwrap_or("unknown target"));
        if let Some(mode) = &gpu.partition {
            name.push_str(&format!(", {mode}"));
        }
        let group = groups.entry(name).or_default();
        group.count += 1;
        group.usable += usize::from(gpu.hip_index.is_some());
        group.cards.insert(gpu.address.split('.').next().unwrap_or_default());
    }
    let lines = groups.into_iter().map(|(name, group)| {
        let cards = message::count(group.cards.len() as u64, "card", "cards");
        format!("{} of {name}, on {cards}, {} for HIP", group.count, group.usable)
    });
    lines.collect()
}

/// Prints with the width of the terminal.
struct Page<'a> {
    width: usize,
    printer: &'a Printer,
}

impl Page<'_> {
    /// A label, and a text whose further lines begin below its first one.
    fn labelled(&self, label: &str, text: &str) -> Result<()> {
        for (number, line) in message::wrapped(&message::one_line(text), self.width - LABEL).into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            self.printer.line(format!("{label:<LABEL$}{line}"))?;
        }
        Ok(())
    }

    fn finding(&self, symptom: &Symptom) -> Result<()> {
        let style = match symptom.severity {
            Gravity::Error | Gravity::Unknown => ERROR,
            Gravity::Warning => WARNING,
            Gravity::Note => NOTE,
        };
        let name = symptom.severity.name();
        let head = format!("{name} {} {}: {}", symptom.code, symptom.name, symptom.title);
        for (number, line) in message::wrapped(&message::one_line(&head), self.width).into_iter().enumerate() {
            match line.strip_prefix(name).filter(|_| number == 0) {
                Some(rest) => self.printer.styled(format!("{style}{name}{style:#}{rest}"))?,
                None => self.printer.line(format!("  {line}"))?,
            }
        }
        for seen in &symptom.evidence {
            let value = if seen.value.is_empty() { String::new() } else { format!(": {}", seen.value) };
            self.indented("  - ", &format!("{}{value}", seen.path))?;
        }
        self.indented("  ", &symptom.meaning)?;
        if let Some(command) = &symptom.command {
            // A command is one line, so that it can be copied.
            self.printer.styled(format!("  {COMMAND}$ {}{COMMAND:#}", message::one_line(command)))?;
        }
        if let Some(template) = &symptom.template {
            self.printer.styled(format!("  {COMMAND}> {}{COMMAND:#}", message::one_line(template)))?;
            for blank in &symptom.blanks {
                self.indented("    ", &format!("{}: {}", blank.shown, blank.meaning))?;
            }
        }
        if let Some(check) = &symptom.check {
            self.indented("  to check: ", check)?;
        }
        let needs: Vec<&str> = symptom.needs.iter().copied().map(Need::words).collect();
        if !needs.is_empty() {
            self.indented("  needs: ", &needs.join(", "))?;
        }
        Ok(())
    }

    /// A text whose first line begins with `start`, and the others with as many spaces.
    fn indented(&self, start: &str, text: &str) -> Result<()> {
        let indent = start.chars().count();
        for (number, line) in message::wrapped(&message::one_line(text), self.width - indent).into_iter().enumerate() {
            let start = if number == 0 { start.to_owned() } else { " ".repeat(indent) };
            self.printer.line(format!("{start}{line}"))?;
        }
        Ok(())
    }
}
