//! `rocwheel source hipify`: converts CUDA sources to HIP sources.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_hipify::tree::{self, FileSelection, LeftoverSearch, Plan, Recovered, Request, Status};
use rocwheel_hipify::{Defects, Launches, Tables, build_amd, tables};
use rocwheel_output::Destination;
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use serde::Serialize;

/// Convert CUDA sources to HIP, byte for byte as torch.utils.hipify does
///
/// The names come from the tables of the tree itself, and so does the algorithm: 1.x up to torch
/// 2.10, 2.x from 2.11. PyTorch is converted with the settings of its own
/// tools/amd_build/build_amd.py, any other tree as torch.utils.cpp_extension converts an extension.
/// No Python is run, and nothing is written before everything is converted. Where the original
/// hangs, crashes or loses a kernel launch, file and line are reported.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
pub struct Arguments {
    /// The source tree
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Write the whole converted tree to this new folder, and do not change TREE
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Which original to follow [default: pytorch if TREE has tools/amd_build/build_amd.py]
    #[arg(long, value_name = "MODE")]
    mode: Option<Follow>,
    /// Tables to use instead of the tree's: cuda_to_hip_mappings.py, its folder, or the folder of
    /// an installed torch
    #[arg(long, value_name = "PATH")]
    tables: Option<PathBuf>,
    /// How to convert `kernel<<<…>>>(…)`; `auto` does what the original does
    #[arg(long, value_name = "HOW", default_value = "auto")]
    launches: LaunchesArgument,
    /// Convert only this file and what it includes, as an extension's setup.py does; may be
    /// repeated (extension)
    #[arg(long, value_name = "FILE")]
    source: Vec<PathBuf>,
    /// Folder in which includes are looked for and headers converted; may be repeated (extension)
    #[arg(long, value_name = "DIR")]
    include_dir: Vec<PathBuf>,
    /// Convert only files that match, relative to TREE; `*` matches slashes too; may be repeated
    /// (extension) [default: *]
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Skip files that match; may be repeated
    #[arg(long, value_name = "PATTERN")]
    ignore: Vec<String>,
    /// Another folder to convert; may be repeated (pytorch)
    #[arg(long, value_name = "DIR")]
    extra_include_dir: Vec<String>,
    /// Skip files that are converted in place; version 2 of the original ignores this (pytorch)
    #[arg(long)]
    out_of_place_only: bool,
    /// Convert correctly where the original hangs, crashes, loses launches or converts twice
    #[arg(long)]
    fix_defects: bool,
    /// Write nothing; the exit code is 1 if something would change
    #[arg(long)]
    check: bool,
    /// Write nothing; print what would change
    #[arg(long)]
    diff: bool,
    /// Print CUDA names that are left (always done for `--json`)
    #[arg(long)]
    unmapped: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Only undo what a killed conversion in place left, and convert nothing
    #[arg(long, conflicts_with_all = ["output", "check", "diff", "dry_run"])]
    recover: bool,
}

/// Whom to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Follow {
    /// build_amd.py of PyTorch
    Pytorch,
    /// torch.utils.cpp_extension
    Extension,
}

/// What becomes of kernel launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LaunchesArgument {
    /// As the original decides
    Auto,
    /// `hipLaunchKernelGGL(…)`
    Convert,
    /// Keep them: clang understands them
    Keep,
}

#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug)]
pub struct Settings {
    tree: PathBuf,
    place: Destination,
    follow: Option<Follow>,
    tables: Option<PathBuf>,
    launches: LaunchesArgument,
    /// The way of launching kernels that this machine's ROCm compiler suggests.
    compiler: Launches,
    selection: FileSelection,
    /// Folders with headers that do not exist.
    absent_folders: Vec<PathBuf>,
    extra_include_dirs: Vec<String>,
    defects: Defects,
    check: bool,
    diff: bool,
    unmapped: bool,
    recover: bool,
    pub mode: Mode,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let tree = &arguments.tree;
        let extra_files: Vec<String> =
            arguments.source.iter().map(|path| within(tree, path)).collect::<Result<_, _>>()?;
        // The setup.py of an extension names folders of submodules that may not be checked out.
        let (folders, absent_folders): (Vec<PathBuf>, Vec<PathBuf>) =
            arguments.include_dir.into_iter().partition(|path| tree.join(path).exists() || path.exists());
        let header_folders = folders.iter().map(|path| within(tree, path)).collect::<Result<_, _>>()?;
        let selection = FileSelection {
            includes: arguments.include,
            ignores: arguments.ignore,
            extra_files_only: !extra_files.is_empty(),
            extra_files,
            header_folders,
            out_of_place_only: arguments.out_of_place_only,
        };
        let compiler = if environment::hip_compiler_is_clang() { Launches::Keep } else { Launches::Convert };
        let defects = if arguments.fix_defects { Defects::Fix } else { Defects::Refuse };
        Ok(Self {
            tree: arguments.tree,
            place: arguments.output.map_or(Destination::InPlace, Destination::Folder),
            follow: arguments.mode,
            tables: arguments.tables,
            launches: arguments.launches,
            compiler,
            selection,
            absent_folders,
            extra_include_dirs: arguments.extra_include_dir,
            defects,
            check: arguments.check,
            diff: arguments.diff,
            unmapped: arguments.unmapped,
            recover: arguments.recover,
            mode: Mode::new(arguments.dry_run || arguments.check || arguments.diff),
        })
    }
}

/// The path relative to the tree: unchanged if the tree has it, otherwise taken from the working
/// directory.
fn within(tree: &Path, path: &Path) -> Result<String> {
    let relative = match (
        tree.join(path).exists() && path.is_relative(),
        rocwheel_system::canonicalize(tree),
        rocwheel_system::canonicalize(path),
    ) {
        (true, ..) => path.to_owned(),
        (false, Ok(tree), Ok(path)) => {
            let up = tree.ancestors().position(|ancestor| path.starts_with(ancestor)).unwrap_or_default();
            let common = tree.ancestors().nth(up).unwrap_or(&tree);
            let rest = path.strip_prefix(common).unwrap_or(&path);
            std::iter::repeat_n(Path::new(".."), up).collect::<PathBuf>().join(rest)
        }
        _ => {
            return Err(Usage::new(format!("there is no `{}`", path.display()))
                .hint("paths are relative to TREE")
                .into());
        }
    };
    let shown = relative.display().to_string();
    relative.into_os_string().into_string().map_err(|_| Usage::new(format!("the name `{shown}` is not UTF-8")).into())
}

pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    if !settings.tree.is_dir() {
        return Err(rocwheel_hipify::no_tree(&settings.tree));
    }
    if settings.recover {
        return recover(&settings.tree, printer);
    }
    for folder in &settings.absent_folders {
        let folder = folder.display();
        printer.warn(format!("there is no folder `{folder}`: no includes are looked for there (`--include-dir`)"));
    }
    // Files that a killed run half converted cannot be converted again. A run that only reads the
    // tree leaves it unchanged.
    if let (Mode::Execute, Destination::InPlace) = (settings.mode, &settings.place)
        && let Some(said) = said(&settings.tree, tree::recover(&settings.tree)?)
    {
        printer.warn(said);
    }
    let names = Tables::read(&tables::find(settings.tables.as_deref().unwrap_or(&settings.tree))?)?;
    let plan = tree::plan(&request(settings, printer.format())?, &names, printer.reporter())?;
    if printer.format() == ResultFormat::Text && settings.diff {
        plan.diff(&mut |text| printer.raw(text.as_bytes()))?;
    }
    let written = match settings.mode {
        Mode::Execute => Some(plan.execute(&settings.place, printer.reporter())?),
        Mode::DryRun => None,
    };
    if printer.format() == ResultFormat::Json {
        printer.json_stream(&Document { plan: &plan, written: written.is_some() })?;
    } else {
        print(&plan, settings, printer)?;
    }
    Ok(if settings.check && !plan.is_empty() { Exit::Failed } else { Exit::Done })
}

/// The message about a tree in which a run was killed; `None` if there was none.
fn said(tree: &Path, recovered: Recovered) -> Option<String> {
    let tree = tree.display();
    match recovered {
        Recovered::Nothing => None,
        Recovered::TakenBack => Some(format!("a conversion of `{tree}` was killed; what it wrote was undone")),
        Recovered::Completed => Some(format!("a conversion of `{tree}` was killed when it had written everything")),
    }
}

/// The document that `--json` prints with `--recover`.
#[derive(Debug, Serialize)]
struct Recovery<'a> {
    tree: &'a Path,
    recovered: Recovered,
}

/// Undoes the work of a killed run.
fn recover(tree: &Path, printer: &Printer) -> Result<Exit> {
    let recovered = tree::recover(tree)?;
    if printer.format() == ResultFormat::Json {
        printer.json(&Recovery { tree, recovered })?;
    } else {
        let unharmed = format!("`{}` is as it should be: no conversion was killed there", tree.display());
        printer.line(said(tree, recovered).unwrap_or(unharmed))?;
    }
    Ok(Exit::Done)
}

/// The document that `--json` prints.
#[derive(Debug, Serialize)]
struct Document<'a> {
    /// `true` if the plan was carried out.
    written: bool,
    #[serde(flatten)]
    plan: &'a Plan,
}

/// The tree's own settings if it has some, with the user's additions.
fn request(settings: &Settings, format: ResultFormat) -> Result<Request> {
    let build_amd = match settings.follow {
        Some(Follow::Extension) => None,
        Some(Follow::Pytorch) => Some(build_amd::read(&settings.tree)?.ok_or_else(|| {
            let path = settings.tree.join(build_amd::FILE);
            Usage::new(format!("there is no `{}`", path.display())).hint("`--mode extension` converts any other tree")
        })?),
        None => build_amd::read(&settings.tree)?,
    };
    let mut selection = settings.selection.clone();
    let survey = if settings.unmapped || format == ResultFormat::Json {
        LeftoverSearch::Unmapped
    } else {
        LeftoverSearch::Nothing
    };
    let request = if let Some(build_amd) = build_amd {
        let options = [
            ("--source", selection.extra_files_only),
            ("--include-dir", !selection.header_folders.is_empty()),
            ("--include", !selection.includes.is_empty()),
        ];
        refuse(&options, "PyTorch's own tree")?;
        let mut request = Request::pytorch(&settings.tree, build_amd, settings.compiler);
        let folders = settings.extra_include_dirs.iter().filter(|folder| settings.tree.join(folder).exists());
        request.selection.includes.extend(folders.map(|folder| format!("{}/**/*", folder.trim_end_matches('/'))));
        request.selection.ignores.extend(selection.ignores);
        request.selection.out_of_place_only = selection.out_of_place_only;
        request
    } else {
        let options = [
            ("--extra-include-dir", !settings.extra_include_dirs.is_empty()),
            ("--out-of-place-only", selection.out_of_place_only),
        ];
        refuse(&options, "extensions")?;
        let request = Request::extension(&settings.tree);
        if selection.includes.is_empty() {
            selection.includes.clone_from(&request.selection.includes);
        }
        Request { selection, ..request }
    };
    let mut request = Request { defects: settings.defects, survey, ..request };
    match settings.launches {
        LaunchesArgument::Auto => {}
        LaunchesArgument::Convert => request.launches = Launches::Convert,
        LaunchesArgument::Keep => request.launches = Launches::Keep,
    }
    Ok(request)
}

/// Refuses the first option that is given.
fn refuse(options: &[(&str, bool)], mode: &str) -> Result<(), Usage> {
    let Some((option, _)) = options.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(Usage::new(format!("`{option}` is not for {mode}")).hint("`--mode` chooses the other one"))
}

fn print(plan: &Plan, settings: &Settings, printer: &Printer) -> Result<()> {
    for file in &plan.files {
        for trouble in &file.left {
            let (path, line) = (&file.source, trouble.line);
            printer.warn(format!("`{path}`, line {line}: {}; it is not converted", trouble.problem));
        }
        let output = file.output.as_deref().unwrap_or(&file.source);
        match file.status {
            Status::New => printer.detail(format!("new       {output}")),
            Status::Changed => printer.detail(format!("changed   {output}")),
            Status::Current | Status::Untouched | Status::Linked => printer.detail(format!("unchanged {output}")),
            Status::Generated => printer.detail(format!("generated {output}")),
        }
    }
    if settings.unmapped && !settings.diff {
        for (file, name) in plan.files.iter().flat_map(|file| file.unmapped.iter().map(move |name| (file, name))) {
            printer.line(format!("{}:{}: {}", file.source, name.line, name.name))?;
        }
    }
    if settings.diff {
        return Ok(());
    }
    let counts = plan.counts;
    let version = plan.version.as_deref().unwrap_or("without a version");
    printer.line(format!(
        "{}: {}, {} new, {} changed, {} as they were; {}, {} (hipify {version})",
        plan.tree,
        message::count(counts.files, "file", "files"),
        counts.new,
        counts.changed,
        counts.unchanged + counts.generated,
        message::count(counts.replacements, "name replaced", "names replaced"),
        message::count(counts.launches, "launch converted", "launches converted"),
    ))?;
    match (&settings.place, settings.mode) {
        (_, Mode::DryRun) => {
            let files = message::count(counts.new + counts.changed, "file", "files");
            printer.line(format!("would write {files}, {}; nothing was written", message::bytes(counts.written_bytes)))
        }
        (Destination::Folder(folder), Mode::Execute) => {
            printer.line(format!("the converted tree is `{}`", folder.display()))
        }
        (Destination::InPlace, Mode::Execute) => Ok(()),
    }
}
