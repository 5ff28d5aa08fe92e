//! `rocwheel kernels`: the GPU code in files of any kind, in wheels, archives and folders.

mod distant;
mod document;
mod plot;
mod tally;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rocwheel_archive::FileDigest;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_console::{environment, message};
use rocwheel_index::{address_hint, scheme_of, text_without_users};
use rocwheel_progress::Exit;
use rocwheel_survey::{self as survey, Checksum, Kernels, Subject, Surveyed, Weight};
use rocwheel_tables::target::is_processor;
use rocwheel_tables::{TargetId, TargetTable};

use tally::Tally;

/// Show the GPU code in files, wheels, archives and folders
///
/// A path may be a program or library (ELF or PE), a code object, an offload bundle, a .kpack
/// archive, an archive of AOTriton, a wheel, ZIP file or tar archive with any of these in it, or a
/// folder. Its contents decide, not its name. Nothing is changed.
///
/// Every code object is checked: its bundle and its own ELF header have to name the same GPU.
/// Anything wrong or unreadable is a warning, and the exit code is then 1.
///
/// At an address, only directories, tables and headers are read: kernels are not counted, and code
/// objects in tables are not checked. The exit code is 3 if files would have to be downloaded.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Files or folders, or addresses (https://…, s3://…) of a file, a package index or a bucket
    #[arg(required = true, value_name = "PATH|ADDRESS")]
    paths: Vec<PathBuf>,
    /// What each row of the table shows
    #[arg(long, value_enum, default_value = "target", value_name = "WHAT")]
    by: By,
    /// Show only code for these GPU targets or families, separated by commas
    #[arg(long, value_name = "LIST")]
    targets: Option<String>,
    /// Fail unless there is code for exactly these GPU targets or families, separated by commas
    #[arg(long, value_name = "LIST", conflicts_with = "targets")]
    expect: Option<String>,
    /// Draw the sizes by file and target into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<OutputOption>,
    /// Directory for unpacked members of tar archives [default: the system's temporary directory]
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
}

/// What each row of the table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// A GPU target
    Target,
    /// A file
    File,
    /// A kernel, with the registers and memory it needs; with --json, all kernels of each code
    /// object
    Kernel,
}

#[derive(Debug)]
pub struct Settings {
    paths: Vec<PathBuf>,
    /// Address and scheme.
    addresses: Vec<(String, String)>,
    by: By,
    targets: Option<BTreeSet<String>>,
    expected: Option<BTreeSet<String>>,
    plot: Option<OutputFile>,
    pub scratch: PathBuf,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let targets = arguments.targets.as_deref().map(expand).transpose()?;
        let expected = arguments.expect.as_deref().map(expand).transpose()?;
        let scratch = arguments.scratch.unwrap_or_else(environment::scratch);
        let plot = arguments.plot.map(|file| file.check("--plot", FileKind::Picture, &arguments.paths)).transpose()?;
        if let Some(path) = plot.as_ref().map(OutputFile::path).filter(|path| !path.exists())
            && path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("svg"))
        {
            let usage = Usage::new(format!("`{}` is not a name for an SVG file", path.display()));
            return Err(usage.hint("let it end in `.svg`").into());
        }
        let (mut paths, mut addresses) = (Vec::new(), Vec::new());
        for path in arguments.paths {
            match path.to_str().and_then(|text| Some((text.to_owned(), scheme_of(text)?))) {
                Some(address) => addresses.push(address),
                None => paths.push(path),
            }
        }
        if let Some((text, _)) =
            addresses.iter().find(|(_, scheme)| !["http", "https", "s3"].contains(&scheme.as_str()))
        {
            let usage = Usage::new(format!("`{}` cannot be searched for GPU code", text_without_users(text)));
            return Err(usage.hint("give a path, or an address that begins with http://, https:// or s3://").into());
        }
        if let Some((text, _)) = addresses.first().filter(|_| arguments.by == By::Kernel) {
            let usage =
                Usage::new(format!("the code at `{}` is not read, so it has no kernels", text_without_users(text)));
            return Err(usage.hint("download the file, and give its path").into());
        }
        Ok(Self { paths, addresses, by: arguments.by, targets, expected, plot, scratch })
    }
}

impl Settings {
    fn named_paths(&self) -> String {
        let names: Vec<String> = self.paths.iter().map(|path| format!("`{}`", path.display())).collect();
        names.join(", ")
    }
}

/// Expands families to their members. A name that looks like a target is accepted even if no table
/// has it: the code may be older or newer than the table.
fn expand(list: &str) -> Result<BTreeSet<String>, rocwheel_artifact::Error> {
    let table = TargetTable::embedded();
    let mut targets = BTreeSet::new();
    for name in list.split([',', ';']).map(str::trim).filter(|name| !name.is_empty()) {
        let members = table.members(name);
        match name.parse::<TargetId>() {
            _ if !members.is_empty() => targets.extend(members.into_iter().map(str::to_owned)),
            Ok(target) if is_processor(&target.processor) || target.processor.starts_with("amdgcn") => {
                targets.insert(target.to_string());
            }
            _ => targets.extend(table.expand(name)?),
        }
    }
    Ok(targets)
}

/// A note that is the same for more files than this is then only counted.
const MOST_NOTES: u64 = 5;

/// Prints the code. Any fault makes the exit code 1; a lack of code does not.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    // The bar of this command is its memory. The others keep what they free: `split` of a large
    // wheel takes a fifth less time with the allocator's own choice.
    rocwheel_system::return_large_blocks();
    // If only some paths are missing, each is a warning and the others are listed.
    if settings.addresses.is_empty() && settings.paths.iter().all(|path| !path.exists()) {
        let failure = Failure::message(format!("there is no {}", settings.named_paths()));
        let hint = settings.paths.iter().find_map(|path| address_hint(path));
        return Err(match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        });
    }
    let is_detailed = settings.by == By::Kernel;
    let options = survey::Options {
        scratch: settings.scratch.clone(),
        targets: settings.targets.clone(),
        kernels: if is_detailed { Kernels::Listed } else { Kernels::Counted },
        digest: FileDigest::Skip,
        checksum: Checksum::Skip,
    };
    let mut tally = Tally::new(settings.by, printer.format());
    let mut notes: BTreeMap<String, u64> = BTreeMap::new();
    survey::survey(&settings.paths, &options, printer.reporter(), |file| {
        show_findings(&file, &mut notes, printer);
        tally.add(file);
        Ok::<(), rocwheel_kpack::Error>(())
    })?;
    let mut unread = 0;
    for (text, scheme) in &settings.addresses {
        distant::survey_address((text, scheme), &options, printer, &mut |file| {
            unread += u64::from(file.findings.iter().any(|finding| finding.subject == Subject::Skipped));
            show_findings(&file, &mut notes, printer);
            tally.add(file);
        })?;
    }
    for (message, count) in notes.iter().filter(|(_, count)| **count > MOST_NOTES && !printer.has_details()) {
        printer.note(format!("{} more: {message}", message::count(count - MOST_NOTES, "file", "files")));
    }
    if tally.all_files == 0 && tally.faults == 0 && settings.addresses.is_empty() {
        return Err(Failure::message(format!("there are no files in {}", settings.named_paths())));
    }
    if let Some(file) = &settings.plot {
        draw(file, settings, &tally)?;
    }
    match printer.format() {
        ResultFormat::Json => printer.json_stream(&document::Document::new(&tally, is_detailed))?,
        ResultFormat::Text => text::print(&tally, settings.by, printer)?,
    }
    summarise(settings, &tally, printer);
    if unread > 0 {
        let files = message::count(unread, "file was", "files were");
        printer.note(format!("{files} not read, and may have code: download what has them, and give its path"));
    }
    if let Some(expected) = &settings.expected {
        compare(expected, &tally)?;
    }
    Ok(match tally.faults {
        0 if unread == 0 => Exit::Done,
        0 => Exit::Partial,
        _ => Exit::Failed,
    })
}

/// Prints what is notable about a file. `notes` counts the notes with one text.
fn show_findings(file: &Surveyed, notes: &mut BTreeMap<String, u64>, printer: &Printer) {
    if !file.is_of_interest() {
        printer.detail(format!("`{}` has no GPU code", file.location));
    }
    for finding in &file.findings {
        let message = format!("`{}`: {}", file.location, finding.message);
        match finding.weight {
            Weight::Fault => printer.warn(message),
            Weight::Note => {
                let count = notes.entry(finding.message.clone()).or_default();
                *count += 1;
                if *count <= MOST_NOTES || printer.has_details() {
                    printer.note(message);
                }
            }
        }
    }
    for marker in &file.markers {
        let paths = marker.search_paths.join("`, `");
        printer.note(format!("`{}` is split: its code is in `{paths}`, as `{}`", file.location, marker.kernel_name));
    }
}

/// Fails unless the code is for exactly the expected targets.
fn compare(expected: &BTreeSet<String>, tally: &Tally) -> Result<()> {
    let found: BTreeSet<String> = tally.targets.keys().cloned().collect();
    let [missing, more] = [expected - &found, &found - expected].map(|targets| {
        let mut targets: Vec<String> = targets.into_iter().collect();
        rocwheel_tables::target::sort(&mut targets);
        targets.join(", ")
    });
    match (missing.is_empty(), more.is_empty()) {
        (true, true) => Ok(()),
        (false, true) => Err(Failure::message(format!("there is no code for {missing}"))),
        (true, false) => Err(Failure::message(format!("there is code for {more} too, which was not expected"))),
        (false, false) => Err(Failure::message(format!("there is no code for {missing}, but there is for {more}"))),
    }
}

fn summarise(settings: &Settings, tally: &Tally, printer: &Printer) {
    let files = message::count(tally.all_files, "file", "files");
    let total = &tally.total;
    if total.code_objects == 0 {
        let wanted = settings.targets.as_ref().map(|targets| {
            let mut targets: Vec<String> = targets.iter().cloned().collect();
            rocwheel_tables::target::sort(&mut targets);
            format!(" for {}", targets.join(", "))
        });
        let wanted = wanted.unwrap_or_default();
        printer.note(match (tally.faults, tally.cuda_files) {
            (0, 0) => format!("no GPU code{wanted} in {files}"),
            (0, cuda) => {
                let cuda = message::count(cuda, "file has", "files have");
                format!("no code for AMD GPUs{wanted} in {files}: {cuda} CUDA code")
            }
            _ => format!("no GPU code{wanted} could be read in {files}"),
        });
        return;
    }
    printer.note(format!(
        "{} for {} in {} of {files}: {}{}, {} as stored",
        message::count(total.code_objects, "code object", "code objects"),
        message::count(tally.targets.len() as u64, "target", "targets"),
        tally.files_with_code,
        total.kernels.map_or_else(String::new, |count| format!("{}, ", message::count(count, "kernel", "kernels"))),
        message::bytes(total.size),
        message::bytes(total.stored),
    ));
}

/// Writes the picture.
fn draw(file: &OutputFile, settings: &Settings, tally: &Tally) -> Result<()> {
    let names = settings.paths.iter().map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into());
    let addresses = settings.addresses.iter().map(|(text, _)| text_without_users(text));
    let names: Vec<String> = names.chain(addresses).collect();
    let title = match names.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => format!("{first} and {} more", rest.len()),
        names => names.concat(),
    };
    file.write(&plot::svg(&title, tally.groups()))
}
