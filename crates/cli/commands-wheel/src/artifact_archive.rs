//! `rocwheel artifact archive`: artifact directories in, reproducible archives with sidecars out.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::archive::{self, ArchiveOptions, ArchivePlan, ArchiveState, Compression};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use serde::Serialize;

use crate::artifact_inputs::{self, Forms};

const PLANNED: [Column; 3] = [("Archive", Left), ("Files", Right), ("Raw", Right)];
const WRITTEN: [Column; 4] = [("Archive", Left), ("Files", Right), ("Raw", Right), ("Compressed", Right)];

/// Pack artifact directories into reproducible archives
///
/// Each archive gets a checksum file for `sha256sum -c`. The same files give the same bytes,
/// whatever the machine, the user, the time and the number of threads. An archive in the output
/// that an earlier run made of the same files stays.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Artifact directories, or directories that hold artifact directories
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Directory to write the archives to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Format of the archives
    #[arg(long, value_name = "FORMAT", default_value = "zstd")]
    compression: CompressionArgument,
    /// How hard to compress: 1 to 22 for zstd [default: 3], 0 to 9 for xz [default: 6]
    #[arg(long, value_name = "N")]
    level: Option<u32>,
    /// Print what would be written and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum CompressionArgument {
    /// .tar.zst: fast
    Zstd,
    /// .tar.xz: small
    Xz,
}

impl CompressionArgument {
    /// The options of archives with this format and level.
    pub(super) fn options(self, level: Option<u32>) -> Result<ArchiveOptions> {
        let compression = match self {
            Self::Zstd => Compression::Zstd,
            Self::Xz => Compression::Xz,
        };
        Ok(ArchiveOptions {
            compression,
            level: level.unwrap_or(compression.default_level()),
            epoch: environment::epoch()?,
            threads: rayon::current_num_threads(),
        })
    }
}

#[derive(Debug)]
pub struct Settings {
    directories: Vec<PathBuf>,
    pub output: PathBuf,
    options: ArchiveOptions,
    pub mode: Mode,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let options = arguments.compression.options(arguments.level)?;
        let mode = Mode::new(arguments.dry_run);
        Ok(Self { directories: arguments.directories, output: arguments.output, options, mode })
    }
}

#[derive(Serialize)]
struct Archives<T> {
    archives: T,
}

/// Writes the archives and prints their names and sizes.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let directories = artifact_inputs::expand(&settings.directories, Forms::Directories, printer)?;
    let plan = archive::plan(&directories, &settings.output, settings.options, printer.reporter())?;
    if settings.mode == Mode::DryRun {
        return show(&plan, printer);
    }
    fs_err::create_dir_all(&settings.output)?;
    let archives = archive::update(&plan, printer.reporter())?;
    if printer.format() == ResultFormat::Json {
        printer.json(&Archives { archives: &archives })?;
        return Ok(Exit::Done);
    }
    let rows = archives.iter().map(|archive| {
        let path = archive.path.display().to_string();
        vec![path, archive.files.to_string(), message::bytes(archive.raw), message::bytes(archive.compressed)]
    });
    printer.table(&WRITTEN, rows)?;
    let compressed = archives.iter().map(|archive| archive.compressed).sum();
    let count = message::count(archives.len() as u64, "archive", "archives");
    let unchanged = match archives.iter().filter(|archive| archive.state == ArchiveState::Unchanged).count() {
        0 => String::new(),
        unchanged => format!(", {unchanged} unchanged"),
    };
    printer.note(format!("{count}, {}{unchanged}", message::bytes(compressed)));
    Ok(Exit::Done)
}

fn show(plan: &ArchivePlan, printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        printer.json(plan)?;
        return Ok(Exit::Done);
    }
    let rows = plan.archives.iter().map(|archive| {
        vec![archive.path.display().to_string(), archive.files.to_string(), message::bytes(archive.bytes)]
    });
    printer.table(&PLANNED, rows)?;
    let bytes = plan.archives.iter().map(|archive| archive.bytes).sum();
    printer.note(format!(
        "would write {} of {}",
        message::count(plan.archives.len() as u64, "archive", "archives"),
        message::bytes(bytes)
    ));
    Ok(Exit::Done)
}
