//! `rocwheel prune`: keeps GPU code for some targets and removes the rest.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_archive::WriteOptions;
use rocwheel_audit::written::{Verdict, WheelSet};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_output::{Destination, StagedFile};
use rocwheel_progress::Exit;
use rocwheel_reshape::prune::{
    self, Compress, Empty, Keep, LEVEL, Options, PruneAction, PruneReport, Pruned, PrunedFile,
};
use rocwheel_tables::TargetTable;
use serde::Serialize;

use crate::last_look::{self, LastLook, LastLookArguments, Look};
use crate::reuse::{self, ReuseArguments};

/// Keep the GPU code for some targets, remove the rest
///
/// Works on libraries and programs (ELF, PE), offload bundles, kpack archives, wheels, and
/// directories of all of these. The result is read again and compared with the original: the kept
/// code is byte for byte the same, and nothing else has changed. The exit code is 1 if a target of
/// the list was not found anywhere.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Files with GPU code, wheels or directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Targets and families to keep, separated by commas; a target without features keeps all its
    /// variants
    #[arg(short, long, value_name = "LIST", required = true)]
    keep: String,
    /// Directory for the results, which keep their names
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["in_place", "dry_run"])]
    output: Option<PathBuf>,
    /// Replace each input when its result is complete and checked
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Compress bundles that are not compressed, in the form that clang 17 to 19 write (v2) or that
    /// of ROCm 7 (v3); installed files become smaller by that, wheels do not [default: v2]
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "v2")]
    compress: Option<CompressedForm>,
    /// How hard to compress, also bundles that were compressed before, 1 to 22
    #[arg(long, value_name = "N", default_value_t = LEVEL, value_parser = clap::value_parser!(i32).range(1..=22))]
    compression_level: i32,
    /// Allow files and bundles that have no GPU code left
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    last_look: LastLookArguments,
    #[command(flatten)]
    reuse: ReuseArguments,
    /// Print what would be kept and removed and how much that saves, and write nothing; sizes of
    /// compressed code are estimates
    #[arg(long)]
    dry_run: bool,
    /// Directory for large temporary files; cleaned up afterwards [default: the system's directory
    /// for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// The version of the header of compressed bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompressedForm {
    /// Version 2
    V2,
    /// Version 3
    V3,
}

#[derive(Debug)]
pub struct Settings {
    paths: Vec<PathBuf>,
    keep: Keep,
    destination: Destination,
    compress: Option<Compress>,
    level: i32,
    empty: Empty,
    pub mode: Mode,
    pub last_look: LastLook,
    pub reuse: ReuseArguments,
    pub scratch: PathBuf,
    write: WriteOptions,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let keep = Keep::parse(&arguments.keep, &TargetTable::embedded())?;
        let destination = match (arguments.output, arguments.in_place) {
            (Some(folder), false) => Destination::Folder(folder),
            (None, true) => Destination::InPlace,
            // A dry run writes nothing, and no existing file would be in the way of a new folder.
            (None, false) if arguments.dry_run => Destination::InPlace,
            _ => return Err(Usage::new("no output is given").hint("name one with `--output`").into()),
        };
        let compress = arguments.compress.map(|form| match form {
            CompressedForm::V2 => Compress::V2,
            CompressedForm::V3 => Compress::V3,
        });
        Ok(Self {
            paths: arguments.paths,
            keep,
            destination,
            compress,
            level: arguments.compression_level,
            empty: if arguments.allow_empty { Empty::Allow } else { Empty::Refuse },
            mode: Mode::new(arguments.dry_run),
            last_look: arguments.last_look.choice(),
            reuse: arguments.reuse,
            scratch: arguments.scratch.unwrap_or_else(environment::scratch),
            write: WriteOptions { epoch: environment::epoch()?, ..WriteOptions::default() },
        })
    }
}

/// Prunes and prints the savings.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let scratch = environment::scratch_below(&settings.scratch)?;
    let mut write = settings.write.clone();
    if settings.mode == Mode::Execute {
        let output = match &settings.destination {
            Destination::Folder(folder) => Some(&**folder),
            Destination::InPlace => None,
        };
        write.reuse = settings.reuse.source(output, printer)?;
    }
    let reuse = write.reuse.clone();
    let options = Options {
        keep: settings.keep.clone(),
        compress: settings.compress,
        level: settings.level,
        empty: settings.empty,
        destination: settings.destination.clone(),
        mode: settings.mode,
        scratch: scratch.path(),
        write,
    };
    let mut audited: Vec<(Vec<PathBuf>, Verdict)> = Vec::new();
    let outcome = prune::prune_each(&settings.paths, &options, printer.reporter(), |path, staged| {
        let output = staged.report().output.clone().unwrap_or_else(|| path.to_owned());
        let wheels = staged.files().to_vec();
        let looks: Vec<Look> = wheels.iter().map(|wheel| look(path, &output, wheel, scratch.path())).collect();
        let (pruned, verdicts) = last_look::finish(staged, settings.last_look, &looks, printer)?;
        let places = wheels.into_iter().map(|wheel| vec![wheel.place]);
        audited.extend(places.zip(verdicts).filter_map(|(places, verdict)| Some((places, verdict?))));
        Ok::<_, Failure>(pruned)
    })?;
    let exit = if outcome.missing.is_empty() { Exit::Done } else { Exit::Failed };
    if printer.format() == ResultFormat::Json {
        let audit = audited.iter().map(|(_, verdict)| verdict).collect();
        printer.json(&Document { outcome: &outcome, audit })?;
    } else {
        print(&outcome, settings, printer)?;
        reuse::tell_reuse(&reuse, printer);
        for (wheels, verdict) in &audited {
            last_look::show(verdict, wheels, printer);
        }
    }
    if !outcome.missing.is_empty() {
        printer.warn(format!("no GPU code was found for {}", outcome.missing.join(", ")));
    }
    Ok(exit)
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    outcome: &'a PruneReport,
    /// The verdicts on the written wheels, one by one.
    audit: Vec<&'a Verdict>,
}

/// Audits a pruned wheel alone: the wheels of a folder need not belong together.
fn look<'a>(input: &Path, output: &Path, wheel: &StagedFile, scratch: &'a Path) -> Look<'a> {
    // Its path below the output is that of the original below the input.
    let before = match wheel.place.strip_prefix(output) {
        Ok(below) if !below.as_os_str().is_empty() => input.join(below),
        _ => input.to_owned(),
    };
    let set = WheelSet { wheels: vec![wheel.clone()], before: vec![before], ..WheelSet::default() };
    Look { set, what: format!("`{}`", wheel.place.file_name().unwrap_or_default().display()), scratch }
}

fn print(outcome: &PruneReport, settings: &Settings, printer: &Printer) -> Result<()> {
    let columns =
        [("action", Left), ("before", Right), ("after", Right), ("kept", Left), ("dropped", Left), ("file", Left)];
    let groups: Vec<FileGroup<'_>> =
        outcome.inputs.iter().flat_map(|input| group(input, printer.has_details())).collect();
    if !groups.is_empty() {
        printer.table(&columns, groups.iter().map(row))?;
    }
    for group in &groups {
        if let Some(note) = &group.files[0].note {
            printer.note(format!("`{}`{}: {note}", group.path().display(), group.count()));
        }
    }
    for input in &outcome.inputs {
        let place = match &input.output {
            Some(output) => output.display().to_string(),
            None => format!("{} (not written)", input.path.display()),
        };
        printer.line(format!("{place}: {}", saved(input.before, input.after, input.estimated)))?;
    }
    if outcome.inputs.len() > 1 {
        printer.line(format!("together: {}", saved(outcome.before, outcome.after, outcome.estimated)))?;
    }
    let verified = outcome.inputs.iter().map(|input| input.verified).sum();
    if settings.mode == Mode::Execute {
        printer.note(format!(
            "{} compared with the original",
            message::count(verified, "code object that stayed was", "code objects that stayed were")
        ));
    }
    Ok(())
}

/// More files than this with the same result are one row.
const MOST_ROWS: usize = 10;

/// Files of an input with the same result.
struct FileGroup<'a> {
    input: &'a Path,
    files: Vec<&'a PrunedFile>,
}

impl FileGroup<'_> {
    /// The file, or the deepest folder that has all of the files.
    fn path(&self) -> PathBuf {
        let [first, rest @ ..] = &*self.files else { return self.input.to_owned() };
        let mut common = Path::new(&first.path);
        while !rest.iter().all(|file| Path::new(&file.path).starts_with(common)) {
            common = common.parent().unwrap_or(Path::new(""));
        }
        if common.as_os_str().is_empty() { self.input.to_owned() } else { self.input.join(common) }
    }

    /// The number of files for a text, if there are several.
    fn count(&self) -> String {
        if self.files.len() == 1 { String::new() } else { format!(" ({} files)", self.files.len()) }
    }
}

/// Groups the files of an input, in the order of each group's first file.
fn group(input: &Pruned, is_detailed: bool) -> Vec<FileGroup<'_>> {
    let mut groups: Vec<FileGroup<'_>> = Vec::new();
    let mut numbers = HashMap::new();
    for file in &input.files {
        let result = (file.action, &file.kept, &file.dropped, &file.note);
        let number = *numbers.entry(result).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(group) => group.files.push(file),
            None => groups.push(FileGroup { input: &input.path, files: vec![file] }),
        }
    }
    let (large, small): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.files.len() > MOST_ROWS && !is_detailed);
    let small = small.into_iter().flat_map(|group| group.files);
    let small = small.map(|file| FileGroup { input: &input.path, files: vec![file] });
    let mut groups: Vec<FileGroup<'_>> = small.chain(large).collect();
    groups.sort_by(|left, right| left.files[0].path.cmp(&right.files[0].path));
    groups
}

fn row(group: &FileGroup<'_>) -> Vec<String> {
    let first = group.files[0];
    let action = match first.action {
        PruneAction::Kept => "kept",
        PruneAction::Changed => "changed",
        PruneAction::Dropped => "dropped",
    };
    let [kept, dropped] = [&first.kept, &first.dropped]
        .map(|targets| if targets.is_empty() { "-".to_owned() } else { targets.join(",") });
    vec![
        action.to_owned(),
        message::bytes(group.files.iter().map(|file| file.before).sum()),
        about(group.files.iter().map(|file| file.after).sum(), group.files.iter().any(|file| file.estimated)),
        kept,
        dropped,
        format!("{}{}", group.path().display(), group.count()),
    ]
}

/// A size, with "about" if it is an estimate: `190.0 MB`, `about 190.0 MB`.
fn about(bytes: u64, estimated: bool) -> String {
    format!("{}{}", if estimated { "about " } else { "" }, message::bytes(bytes))
}

/// A sentence such as `1.3 GB became 190.0 MB, 85 % less`.
fn saved(before: u64, after: u64, estimated: bool) -> String {
    let change = before.abs_diff(after);
    let percent = (u128::from(change) * 100 + u128::from(before) / 2).checked_div(u128::from(before)).unwrap_or(0);
    let more = if after > before { "more" } else { "less" };
    format!("{} became {}, {percent} % {more}", message::bytes(before), about(after, estimated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_are_said_in_percent() {
        assert_eq!(saved(1000, 250, false), "1.0 kB became 250 B, 75 % less");
        assert_eq!(saved(100, 102, true), "100 B became about 102 B, 2 % more");
        assert_eq!(saved(0, 0, false), "0 B became 0 B, 0 % less");
    }
}
