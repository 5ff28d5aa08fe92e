//! `rocwheel fuse`: host files and separate GPU code in; libraries, artifacts or a wheel with both
//! out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_archive::WriteOptions;
use rocwheel_artifact::Catalog;
use rocwheel_audit::written::{Verdict, WheelSet};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_kpack::bundle::{BundleForm, Method};
use rocwheel_output::Mode;
use rocwheel_output::StagingFolder;
use rocwheel_progress::Exit;
use rocwheel_reshape::fuse::builds::{self, ArtifactTree, Artifacts};
use rocwheel_reshape::fuse::{self, Build, Fused, FusedFile, Plan, wheels};
use rocwheel_reshape::prune::Empty;
use rocwheel_wheel::WheelName;
use serde::Serialize;

use crate::artifact_inputs::{self, Forms};
use crate::last_look::{self, LastLook, LastLookArguments, Look};
use crate::reuse::{self, ReuseArguments};
use crate::split::is_artifacts;

const FILES: [Column; 4] = [("File", Left), ("Bundles", Right), ("Code objects", Right), ("GPU code", Right)];
/// Number of differences that are printed.
const SHOWN: usize = 20;

/// Put GPU code back: join host parts and .kpack archives
///
/// The inputs are a library or program and its archives; artifacts `…_generic` and `…_<target>`;
/// installed trees; or a host wheel and its device wheels. They may have been split by rocwheel or
/// by AMD's tools. If no archives are given, they are looked for where the markers of the libraries
/// lead.
///
/// Several builds of the same thing for different GPUs become one with the code of all, whether
/// their code is inside or in archives. Everything but GPU code has to be the same in all of them.
///
/// Every code object is compared with its source before the output is written.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Files, archives, artifacts, directories or wheels
    #[arg(required = true, value_name = "PATH")]
    inputs: Vec<PathBuf>,
    /// For files, the file to write; otherwise a directory: missing, empty, or made by this command
    #[arg(short, long, value_name = "PATH", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Compress the code of each library and program (CCOB, zstd)
    #[arg(long)]
    compress: bool,
    /// Version of the compressed form: ROCm 7 reads 3, ROCm 6 reads 2
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=3), requires = "compress")]
    bundle_version: u16,
    /// Level of zstd: 1 is quick, 19 is small
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22), requires = "compress")]
    level: i32,
    /// Allow an empty bundle if no archive has code for it
    #[arg(long)]
    allow_empty: bool,
    /// Last part of the names of the artifacts that are written
    #[arg(long, value_name = "NAME", default_value = "generic")]
    family: String,
    #[command(flatten)]
    last_look: LastLookArguments,
    #[command(flatten)]
    reuse: ReuseArguments,
    /// Print the plan and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory for large temporary files [default: beside the output, or the system's directory
    /// for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Settings {
    inputs: Vec<PathBuf>,
    pub output: Option<PathBuf>,
    form: BundleForm,
    empty: Empty,
    family: String,
    pub mode: Mode,
    pub last_look: LastLook,
    pub reuse: ReuseArguments,
    pub scratch: Option<PathBuf>,
    options: WriteOptions,
}

/// A wheel that was written.
#[derive(Serialize)]
struct Audited<'a> {
    #[serde(flatten)]
    written: &'a wheels::WrittenWheel,
    /// The result of the audit; null if there was none.
    audit: Option<&'a Verdict>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if arguments.family.is_empty() || arguments.family.contains(['/', '_', '\0']) {
            let family = arguments.family.escape_debug();
            return Err(Usage::new(format!("`{family}` cannot be the last part of an artifact's name")).into());
        }
        let form = if arguments.compress {
            let (version, level) = (arguments.bundle_version, arguments.level);
            BundleForm::Compressed { version, method: Method::Zstd, level }
        } else {
            BundleForm::Plain
        };
        Ok(Self {
            inputs: arguments.inputs,
            output: arguments.output,
            form,
            empty: if arguments.allow_empty { Empty::Allow } else { Empty::Refuse },
            family: arguments.family,
            mode: Mode::new(arguments.dry_run),
            last_look: arguments.last_look.choice(),
            reuse: arguments.reuse,
            scratch: arguments.scratch,
            options: WriteOptions { epoch: environment::epoch()?, ..WriteOptions::default() },
        })
    }
}

#[derive(Serialize)]
struct Document<'a, W: Serialize> {
    plans: &'a [&'a Plan],
    files: Vec<&'a FusedFile>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    removed: &'a [String],
    written: Option<W>,
    seconds: f64,
}

/// Fuses, and prints the result.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    for input in &settings.inputs {
        if !input.exists() {
            return Err(rocwheel_artifact::not_there(input));
        }
    }
    let job = Job { settings, printer, begin: Instant::now() };
    match (settings.inputs.iter().any(WheelName::is_wheel), settings.inputs.iter().all(WheelName::is_wheel)) {
        (true, true) => job.wheels(),
        (true, false) => Err(Usage::new("wheels cannot be fused with other files").into()),
        _ if settings.inputs.iter().any(|input| is_host(input)) => job.file(),
        _ if settings.inputs.iter().any(|input| is_artifacts(input)) => job.artifacts(),
        _ => job.directories(),
    }
}

/// `true` if a path is a single file that may have GPU code.
fn is_host(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.is_file()
        && !rocwheel_split::group::is_archive(&name)
        && rocwheel_artifact::ArtifactName::parse_archive(&name).is_none()
}

struct Job<'a> {
    settings: &'a Settings,
    printer: &'a Printer,
    begin: Instant,
}

impl Job<'_> {
    fn file(&self) -> Result<Exit> {
        let (mut hosts, mut archives) = (Vec::new(), Vec::new());
        for input in &self.settings.inputs {
            if input.is_dir() {
                let found = builds::archives_in(input);
                if found.is_empty() {
                    let path = input.display();
                    return Err(Usage::new(format!("there are no `.kpack` archives in `{path}`")).into());
                }
                archives.extend(found);
            } else if rocwheel_split::group::is_archive(&input.to_string_lossy()) {
                archives.push(input.clone());
            } else {
                hosts.push(input.clone());
            }
        }
        let (builds, path) = builds::of_files(&hosts, &archives)?;
        let plan = self.plan(&builds)?;
        self.needs_builds_of_one(&plan, &hosts)?;
        self.needs_archives(&plan, &archives)?;
        let Some(output) = self.output() else { return self.show_plans(&[&plan], &[]) };
        Self::needs_code(&[&plan])?;
        let scratch = self.scratch(Some(output))?;
        let fused = self.fuse(&plan, &builds, scratch.path())?;
        let Some(content) = fused.view.file(&path) else { return Err(Failure::message("the fused file was lost")) };
        let written = fuse::write_file(content.as_ref(), &hosts[0], output, self.printer.reporter())?;
        drop(fused.view);
        self.show(&[&plan], &fused.files, (&[], Some(&written), written.bytes, &written.path))
    }

    fn plan(&self, builds: &[Build]) -> Result<Plan> {
        let mut plan = fuse::plan(builds, self.printer.reporter())?;
        if self.settings.empty == Empty::Allow {
            plan.allow_empty();
        }
        Ok(plan)
    }

    /// Refuses libraries of one folder with different names and contents, which are probably not
    /// builds of one library.
    fn needs_builds_of_one(&self, plan: &Plan, hosts: &[PathBuf]) -> Result<()> {
        let folder = hosts[0].parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (name, parent) = (hosts[0].file_name(), hosts[0].parent());
        let are_apart = hosts[1..].iter().all(|host| host.file_name() != name && host.parent() == parent);
        if plan.differences.is_empty() || !are_apart {
            return Ok(());
        }
        self.show_differences(plan)?;
        let usage = Usage::new("several files become one only when they are builds of one for different GPUs");
        Err(usage.hint(format!("give the folder to put each together: `rocwheel fuse {}`", folder.display())).into())
    }

    /// Refuses a named archive that nothing uses. An unused archive of a named directory is only
    /// noted.
    fn needs_archives(&self, plan: &Plan, archives: &[PathBuf]) -> Result<()> {
        let used: Vec<_> = plan.used.iter().map(|used| Path::new(used).file_name()).collect();
        for archive in archives.iter().filter(|archive| !used.contains(&archive.file_name())) {
            if self.settings.inputs.contains(archive) {
                let text = format!("`{}` holds no code for the files that are put together", archive.display());
                let hint = "`rocwheel kernels` shows what it holds; remove it, or give the file that it is for";
                return Err(Failure::message(text).with_hint(hint));
            }
            self.printer.note(format!("`{}` has no code for the files that are joined", archive.display()));
        }
        Ok(())
    }

    fn directories(&self) -> Result<Exit> {
        let mut builds: Vec<Build> = Vec::new();
        for input in &self.settings.inputs {
            let next = builds::of_directory(input)?;
            let mut latest = builds.iter_mut().rev();
            match latest.find(|build| next.view.items().all(|(path, _)| build.view.get(path).is_none())) {
                Some(build) => next.view.items().for_each(|(path, item)| drop(build.view.insert(path, item.clone()))),
                None => builds.push(next),
            }
        }
        let plan = self.plan(&builds)?;
        let Some(output) = self.output() else { return self.show_plans(&[&plan], &[]) };
        Self::needs_code(&[&plan])?;
        let scratch = self.scratch(Some(output))?;
        let fused = self.fuse(&plan, &builds, scratch.path())?;
        let written =
            fuse::write_directory(&fused.view, &[], (output, &self.settings.inputs), self.printer.reporter())?;
        self.show(&[&plan], &fused.files, (&[], Some(&written), written.bytes, &written.path))
    }

    fn artifacts(&self) -> Result<Exit> {
        let output = self.output();
        let scratch = self.scratch(output)?;
        let mut catalogs = Vec::new();
        for input in &self.settings.inputs {
            let paths = artifact_inputs::expand(std::slice::from_ref(input), Forms::All, self.printer)?;
            catalogs.push(Catalog::read(&paths, scratch.path(), self.printer.reporter())?);
        }
        let groups: Vec<Artifacts> = builds::of_catalogs(&catalogs)?;
        let plans: Vec<Plan> = groups.iter().map(|group| self.plan(&group.builds)).collect::<Result<_>>()?;
        let all: Vec<&Plan> = plans.iter().collect();
        let Some(output) = output else { return self.show_plans(&all, &[]) };
        Self::needs_code(&all)?;
        let (mut tree, mut files) = (ArtifactTree::default(), Vec::new());
        for (group, plan) in groups.iter().zip(&plans) {
            let fused = self.fuse(plan, &group.builds, scratch.path())?;
            tree.add(group, &self.settings.family, &fused.view);
            files.extend(fused.files);
        }
        let roots: Vec<PathBuf> =
            catalogs.iter().flat_map(|catalog| &catalog.artifacts).map(|artifact| artifact.root.clone()).collect();
        let written = tree.write(output, &roots, self.printer.reporter())?;
        scratch.close()?;
        self.show(&all, &files, (&[], Some(&written), written.bytes, &written.path))
    }

    fn wheels(&self) -> Result<Exit> {
        let scratch = self.scratch(self.output())?;
        let set = wheels::open(&self.settings.inputs, scratch.path())?;
        for note in &set.notes {
            self.printer.note(note);
        }
        let plan = self.plan(&set.builds)?;
        if set.database_files > 0 {
            let files = message::count(set.database_files, "file", "files");
            self.printer.note(format!("the device wheels have {files} of kernel databases"));
        }
        let Some(output) = self.output() else { return self.show_plans(&[&plan], &set.removed) };
        // A library such as AOTriton loads the code of all kernels from files.
        if set.database_files == 0 {
            Self::needs_code(&[&plan])?;
        }
        let fused = self.fuse(&plan, &set.builds, scratch.path())?;
        let reuse = self.settings.reuse.source(Some(output), self.printer)?;
        let options = WriteOptions { reuse: reuse.clone(), ..self.settings.options.clone() };
        let staged = wheels::prepare(&set, (&plan, &fused), output, &options, self.printer.reporter())?;
        // The fused wheel is audited alone.
        let what = format!("`{}`", staged.report().path.file_name().unwrap_or_default().display());
        let written =
            WheelSet { wheels: staged.files().to_vec(), before: set.hosts()[..1].to_vec(), ..WheelSet::default() };
        let look = Look { set: written, what, scratch: scratch.path() };
        let (written, mut verdicts) = last_look::finish(staged, self.settings.last_look, &[look], self.printer)?;
        let verdict = verdicts.pop().flatten();
        drop(fused.view);
        let audited = Audited { written: &written, audit: verdict.as_ref() };
        let exit = self.show(&[&plan], &fused.files, (&set.removed, Some(&audited), written.bytes, &written.path))?;
        if let (Some(verdict), ResultFormat::Text) = (&verdict, self.printer.format()) {
            last_look::show(verdict, &[&written.path], self.printer);
            reuse::tell_reuse(&reuse, self.printer);
        }
        Ok(exit)
    }

    /// The output; `None` with `--dry-run`.
    fn output(&self) -> Option<&Path> {
        self.settings.output.as_deref().filter(|_| self.settings.mode == Mode::Execute)
    }

    fn scratch(&self, output: Option<&Path>) -> Result<StagingFolder> {
        environment::scratch_beside(self.settings.scratch.as_deref(), output)
    }

    fn fuse(&self, plan: &Plan, builds: &[Build], scratch: &Path) -> Result<Fused> {
        self.show_differences(plan)?;
        fuse::fuse(plan, builds, self.settings.form, scratch, self.printer.reporter())
    }

    /// Refuses inputs without anything to fuse, which are probably not the intended ones.
    fn needs_code(plans: &[&Plan]) -> Result<()> {
        if plans.iter().all(|plan| plan.binaries.is_empty() && plan.differences.is_empty()) {
            let usage =
                Usage::new("there is no GPU code to put together: no file has its code in archives or in two builds");
            return Err(usage.hint("`rocwheel kernels` shows what is in a file").into());
        }
        Ok(())
    }

    fn show_differences(&self, plan: &Plan) -> Result<()> {
        for difference in plan.differences.iter().take(SHOWN) {
            self.printer.line(format!("difference: {difference}"))?;
        }
        if plan.differences.len() > SHOWN {
            self.printer.line(format!("… and {} more", plan.differences.len() - SHOWN))?;
        }
        Ok(())
    }

    fn show_plans(&self, plans: &[&Plan], removed: &[String]) -> Result<Exit> {
        let differs = plans.iter().any(|plan| !plan.differences.is_empty() || !plan.missing.is_empty());
        let exit = if differs { Exit::Failed } else { Exit::Done };
        if self.printer.format() == ResultFormat::Json {
            let seconds = self.begin.elapsed().as_secs_f64();
            let document = Document::<()> { plans, files: Vec::new(), removed, written: None, seconds };
            self.printer.json(&document)?;
            return Ok(exit);
        }
        self.table(plans)?;
        for plan in plans {
            self.show_differences(plan)?;
            plan.missing.iter().try_for_each(|missing| self.printer.line(format!("missing: {missing}")))?;
            plan.notes.iter().for_each(|note| self.printer.note(note));
        }
        for line in removed {
            self.printer.detail(format!("METADATA would lose `{line}`"));
        }
        let (code_objects, bytes) = sum(plans);
        self.printer.note(format!(
            "would put {} of {} into {}",
            message::count(code_objects, "code object", "code objects"),
            message::bytes(bytes),
            message::count(files(plans), "file", "files")
        ));
        Ok(exit)
    }

    fn table(&self, plans: &[&Plan]) -> Result<()> {
        let rows = plans.iter().flat_map(|plan| &plan.binaries).map(|binary| {
            let (code_objects, bytes) = binary.code();
            let numbers = [binary.bundles.len().to_string(), code_objects.to_string(), message::bytes(bytes)];
            // The plan of a single file puts folders before its name that do not exist.
            [vec![binary.path.trim_start_matches("_/").to_owned()], numbers.to_vec()].concat()
        });
        self.printer.table(&FILES, rows)
    }

    fn show<W: Serialize>(
        &self,
        plans: &[&Plan],
        fused: &[FusedFile],
        (removed, written, bytes, path): (&[String], Option<&W>, u64, &Path),
    ) -> Result<Exit> {
        let seconds = self.begin.elapsed().as_secs_f64();
        let stay = path.is_dir() || WheelName::is_wheel(path);
        if self.printer.format() == ResultFormat::Json {
            let document = Document { plans, files: fused.iter().collect(), removed, written, seconds };
            self.printer.json(&document)?;
            return Ok(Exit::Done);
        }
        self.table(plans)?;
        for plan in plans {
            plan.notes.iter().for_each(|note| self.printer.note(note));
            // A single file has no place for archives.
            let kept = plan.kept.iter().filter(|_| stay);
            kept.for_each(|archive| self.printer.note(format!("`{archive}` stays: no file here asks for all of it")));
        }
        for line in removed {
            self.printer.detail(format!("METADATA no longer has `{line}`"));
        }
        let (code_objects, code) = sum(plans);
        self.printer.note(format!(
            "put {} of {} into {} and checked them: `{}`, {}, in {seconds:.1} s",
            message::count(code_objects, "code object", "code objects"),
            message::bytes(code),
            message::count(files(plans), "file", "files"),
            path.display(),
            message::bytes(bytes)
        ));
        Ok(Exit::Done)
    }
}

fn sum(plans: &[&Plan]) -> (u64, u64) {
    plans.iter().map(|plan| plan.code()).fold((0, 0), |sum, code| (sum.0 + code.0, sum.1 + code.1))
}

fn files(plans: &[&Plan]) -> u64 {
    plans.iter().map(|plan| plan.binaries.len() as u64).sum()
}
