//! `rocwheel split LIBRARY…`: libraries and programs in; the same without GPU code, with archives
//! beside them, out.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_split::files::{self, FileSplit, Request, SplitFilesReport};
use rocwheel_split::verify::Verification;
use rocwheel_split::{ArchiveForecast, TargetNames, TargetSelection};
use rocwheel_wheel::WheelName;
use serde::Serialize;

use crate::artifact_inputs;
use crate::split;

const PLANNED: [Column; 3] = [("Archive", Left), ("Code objects", Right), ("Raw", Right)];
const WRITTEN: [Column; 2] = [("File", Left), ("Size", Right)];

#[derive(Debug)]
pub struct Settings {
    files: Vec<PathBuf>,
    /// The output folder; `None` in a dry run without one.
    pub output: Option<PathBuf>,
    pub request: Request,
    pub mode: Mode,
}

impl TryFrom<split::Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: split::Arguments) -> Result<Self> {
        arguments.wheel.refuse()?;
        if let Some(other) = arguments.inputs.iter().find(|path| !is_program(path)) {
            let message = format!(
                "`{}` is no library or program, and those cannot be split together with anything else",
                other.display()
            );
            return Err(Usage::new(message).hint("run the command twice").into());
        }
        for (flag, given) in [("--force", arguments.force), ("--split-databases", arguments.split_databases.is_some())]
        {
            if given {
                return Err(Usage::new(format!("`{flag}` is for artifacts"))
                    .hint("remove it for libraries and programs")
                    .into());
            }
        }
        let selection = match &arguments.targets {
            Some(list) => TargetSelection::only(split::selected(list)?),
            None => TargetSelection::ALL,
        };
        let request = Request {
            selection,
            names: if arguments.verbatim_names { TargetNames::Verbatim } else { TargetNames::Base },
            packing: arguments.packing(),
            verification: if arguments.no_verify { Verification::Skip } else { Verification::Full },
        };
        Ok(Self { files: arguments.inputs, output: arguments.output, request, mode: Mode::new(arguments.dry_run) })
    }
}

/// `true` if a path is an ELF or PE file.
pub(crate) fn is_program(path: &Path) -> bool {
    if WheelName::is_wheel(path) || artifact_inputs::name_of(path).is_some() || !path.is_file() {
        return false;
    }
    let mut start = [0; 4];
    let Ok(mut file) = fs_err::File::open(path) else { return false };
    file.read_exact(&mut start).is_ok() && (start == *b"\x7fELF" || start.starts_with(b"MZ"))
}

#[derive(Serialize)]
struct Document<'a> {
    files: &'a [FileSplit],
    forecast: ArchiveForecast,
    outcome: Option<&'a SplitFilesReport>,
    seconds: f64,
}

/// Splits the files and prints the result.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let begin = Instant::now();
    let plan = files::plan(&settings.files, &settings.request, printer.reporter())?;
    let forecast = files::forecast(&plan, settings.request.packing, printer.reporter())?;
    let names: Vec<&str> = plan.iter().map(|file| file.name.as_str()).collect();
    split::warn_of_growth(&names.join("`, `"), &forecast, printer);
    let (Some(output), Mode::Execute) = (&settings.output, settings.mode) else {
        return show_plan(&plan, forecast, begin.elapsed().as_secs_f64(), printer);
    };
    let outcome = files::execute(&plan, &settings.request, output, printer.reporter())?;
    let seconds = begin.elapsed().as_secs_f64();
    let exit = if outcome.is_good() { Exit::Done } else { Exit::Failed };
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { files: &plan, forecast, outcome: Some(&outcome), seconds })?;
        return Ok(exit);
    }
    split::note_unknown(plan.iter().flat_map(|file| &file.plan.targets), printer);
    if let Some(report) = &outcome.verification {
        split::show_report(report, printer)?;
    }
    if exit == Exit::Failed {
        printer.warn("nothing was written: the result would differ from the input");
        return Ok(exit);
    }
    let hosts = outcome.files.iter().map(|file| vec![file.name.clone(), message::bytes(file.size)]);
    let archives =
        outcome.archives.iter().map(|archive| vec![format!(".kpack/{}", archive.name), message::bytes(archive.size)]);
    printer.table(&WRITTEN, hosts.chain(archives))?;
    let (code_objects, bytes) = code(&plan);
    printer.note(format!(
        "moved {} of {} from {} in {} to {} in archives, in {seconds:.1} s",
        message::count(code_objects, "code object", "code objects"),
        message::bytes(bytes),
        message::bytes(outcome.section_bytes),
        message::count(plan.len() as u64, "file", "files"),
        message::bytes(outcome.archive_bytes)
    ));
    Ok(exit)
}

fn show_plan(plan: &[FileSplit], forecast: ArchiveForecast, seconds: f64, printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { files: plan, forecast, outcome: None, seconds })?;
        return Ok(Exit::Done);
    }
    let archives = plan.iter().flat_map(|file| &file.plan.archives).map(|archive| {
        vec![format!(".kpack/{}", archive.name), archive.code_objects.to_string(), message::bytes(archive.bytes)]
    });
    printer.table(&PLANNED, archives)?;
    split::note_unknown(plan.iter().flat_map(|file| &file.plan.targets), printer);
    let (code_objects, bytes) = code(plan);
    printer.note(format!(
        "would move {} of {} out of {}",
        message::count(code_objects, "code object", "code objects"),
        message::bytes(bytes),
        message::count(plan.len() as u64, "file", "files")
    ));
    Ok(Exit::Done)
}

fn code(plan: &[FileSplit]) -> (u64, u64) {
    plan.iter().map(|file| file.plan.code()).fold((0, 0), |sum, code| (sum.0 + code.0, sum.1 + code.1))
}
