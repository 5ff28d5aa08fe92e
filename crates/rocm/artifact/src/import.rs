//! Input: Debian packages, an installed ROCm or a `therock-dist-*` tarball. Output: a directory of
//! artifacts in TheRock's layout, and a report of the files and libraries that were taken, renamed,
//! skipped and missing.
//!
//! [`plan`] reads what is cheap to find out: the packages, their versions and the artifact each
//! belongs to. [`execute`] decompresses every package once and writes every file once, straight
//! into its final place in a staging tree. Then it resolves libraries, renames those from outside
//! ROCm, sets search paths, and moves the tree to the output. [`rehearse`] does the same and keeps
//! nothing: the contents of a compressed package are only known after decompressing it.

mod closure;
mod cmake;
mod copies;
mod deb;
mod describe;
mod error;
mod gaps;
mod inspect;
mod libraries;
mod members;
mod prefix;
mod preflight;
mod relink;
mod report;
mod table;
mod tarball;
mod unpack;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::archive_path::file_name;
use rocwheel_output::{OutputTree, TreeMaker};
use rocwheel_progress::{Interrupted, Reporter, Unit};
use rocwheel_tables::Pattern;
use serde::Serialize;

pub use error::Error;
pub use gaps::gaps;
pub use report::{
    ArtifactSummary, ImportReport, InputPackage, Mention, Missing, Skipped, SourceKind, SystemLibrary, Wanted,
};

use self::deb::{Control, ControlArchive};
use self::libraries::SystemLibraries;
use self::members::Visitor;
use self::relink::Context;
use self::table::Table;
use self::unpack::{Belongs, Incoming, Unpacker};

/// The owner of the output of an import.
pub const MAKER: TreeMaker = TreeMaker { marker: ".rocwheel-import", command: "rocwheel artifact import" };
/// Version of the structure of the plan and the report.
const SCHEMA: u32 = 1;
/// Packages of at least this many bytes are decompressed one at a time with all threads; smaller
/// ones in parallel.
const LARGE: u64 = 8 << 20;

/// The input of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportSource {
    /// Debian packages.
    Debs(Vec<PathBuf>),
    /// An installed ROCm: `/opt/rocm`, or the shared prefix `/usr` of a root with dpkg's database.
    Prefix(PathBuf),
    /// A `therock-dist-*.tar.gz` (or `.xz`, `.zst`), whose root is the flattened tree.
    Tarball(PathBuf),
}

/// Options of an import.
#[derive(Debug, Clone, Serialize)]
pub struct ImportOptions {
    /// Directory for the artifacts: empty, missing, or written by an earlier import.
    pub output: PathBuf,
    /// SONAMEs that may be missing; `*` matches any text.
    pub allow_unresolved: Vec<String>,
    /// Treatment of the SONAMEs of libraries from outside ROCm.
    pub sonames: Sonames,
    /// The version of the set; `None` determines it from the input.
    pub version: Option<String>,
}

impl ImportOptions {
    /// Returns the missing libraries that are allowed to be.
    ///
    /// # Errors
    /// [`Error::Unresolved`] if others are missing. `present` are the packages of the input.
    fn judge(&self, missing: Vec<Missing>, present: &[String]) -> Result<Vec<Missing>, Error> {
        let allowed: Vec<Pattern> = self.allow_unresolved.iter().map(|name| Pattern::new(name)).collect();
        let is_allowed = |missing: &Missing| {
            allowed.iter().any(|pattern| pattern.matches(&missing.library) || pattern.glob() == missing.library)
        };
        let (unresolved, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_allowed);
        if missing.is_empty() {
            return Ok(unresolved);
        }
        let present: BTreeSet<String> = present.iter().cloned().collect();
        let packages =
            missing.iter().filter(|one| one.other_version.is_none()).filter_map(|one| one.package.as_deref());
        let in_turn = SystemLibraries::embedded().needs_of(packages, &present);
        Err(Error::Unresolved { missing, in_turn })
    }
}

/// Treatment of the SONAMEs of libraries from outside ROCm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sonames {
    /// `libnuma.so.1` becomes `librocm_sysdeps_numa.so.1`, so that it is found even if the process
    /// has loaded another `libnuma.so.1` before.
    #[default]
    Rename,
    /// The names are kept. A library of the same name that is already loaded is used instead.
    Keep,
}

/// The sources of an import and their artifacts.
#[derive(Debug, Clone, Serialize)]
pub struct ImportPlan {
    /// Version of this structure.
    pub schema: u32,
    /// The kind of input.
    pub kind: SourceKind,
    /// The version of the set.
    pub version: String,
    /// The packages sorted by name, or the one tree or tarball.
    pub sources: Vec<PlannedSource>,
    /// Packages of a shared prefix that are not imported, with the reason.
    pub left_out: Vec<Skipped>,
    /// Debian packages that the sources say they need: the exact names of what may be missing.
    #[serde(skip)]
    pub dependencies: BTreeSet<String>,
    /// `true` if the set has the library with which the HIP runtime reads `.kpack` archives; `None`
    /// if only unpacking tells.
    pub has_archive_reader: Option<bool>,
    /// Bytes on disk as the packages announce them; 0 if unknown.
    pub installed: u64,
    /// Options of the import.
    pub options: ImportOptions,
}

/// A source and its location.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedSource {
    /// Name, versions, digest and artifact.
    #[serde(flatten)]
    pub source: InputPackage,
    /// Path of the package, directory or tarball.
    pub path: PathBuf,
    /// For an installed prefix: the files to import, relative to `path`. Empty for packages and
    /// tarballs.
    pub files: Vec<String>,
}

/// Plans an import without writing anything.
///
/// # Errors
/// Packages that are damaged or given twice, an input without ROCm files, and a version that cannot
/// be determined.
pub fn plan(source: &ImportSource, options: &ImportOptions, reporter: &dyn Reporter) -> Result<ImportPlan, Error> {
    let mut plan = match source {
        ImportSource::Debs(paths) => plan_debs(paths, options, reporter)?,
        ImportSource::Prefix(path) => prefix::plan(path, options)?,
        ImportSource::Tarball(path) => tarball::plan(path, options, reporter)?,
    };
    if let Some(version) = &options.version {
        if !version.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(Error::BadVersion { version: version.clone() });
        }
        plan.version.clone_from(version);
    }
    if plan.version.is_empty() {
        return Err(Error::NoVersion);
    }
    Ok(plan)
}

/// Writes the artifacts.
///
/// # Errors
/// All variants of [`Error`]; nothing is left behind and an existing output stays unchanged.
pub fn execute(plan: &ImportPlan, reporter: &dyn Reporter) -> Result<ImportReport, Error> {
    let staging = OutputTree::new(&plan.options.output, MAKER)?;
    staging.reserve(plan.installed)?;
    let report = fill(plan, staging.root(), reporter).map_err(|error| error.or_full_disk(&plan.options.output))?;
    staging.commit()?;
    Ok(report)
}

/// Does the work of [`execute`] in a temporary directory below `scratch`, and removes it.
///
/// # Errors
/// As for [`execute`], except those about the output.
pub fn rehearse(plan: &ImportPlan, scratch: &Path, reporter: &dyn Reporter) -> Result<ImportReport, Error> {
    let directory = tempfile::Builder::new().prefix(".rocwheel-").tempdir_in(scratch)?;
    fill(plan, directory.path(), reporter).map_err(|error| error.or_full_disk(scratch))
}

fn fill(plan: &ImportPlan, root: &Path, reporter: &dyn Reporter) -> Result<ImportReport, Error> {
    let names: Vec<String> = plan.sources.iter().map(|planned| planned.source.name.clone()).collect();
    let unpacker = Unpacker::new(root, &names, reporter);
    let total = (plan.installed > 0).then_some(plan.installed);
    let stage = reporter.stage("Unpacking", total, Unit::Bytes);
    match plan.kind {
        SourceKind::Deb => unpack_debs(plan, &unpacker)?,
        SourceKind::Prefix => prefix::unpack(plan, &unpacker)?,
        SourceKind::Tarball => tarball::unpack(plan, &unpacker)?,
    }
    drop(stage);
    let mut unpacked = unpacker.take();
    unpacker.settle(&mut unpacked)?;
    let copies = copies::merge(&unpacker, &mut unpacked)?;
    let resolution = closure::resolve(&unpacked, &names, &plan.dependencies)?;
    let unresolved = plan.options.judge(resolution.missing.clone(), &names)?;
    let context = Context { unpacker: &unpacker, options: &plan.options, reporter };
    let stage = reporter.stage("Linking", None, Unit::Items);
    let relinked = relink::relink(&context, &mut unpacked, &resolution)?;
    let sources: Vec<InputPackage> = plan.sources.iter().map(|planned| planned.source.clone()).collect();
    let libraries = describe::system_libraries(&unpacked, &relinked, &sources);
    let artifacts = describe::describe(&context, plan, &unpacked, &relinked, &libraries)?;
    drop(stage);
    let mut skipped: Vec<Skipped> = unpacked.skipped.iter().map(|(_, skipped)| skipped.clone()).collect();
    skipped.extend(relinked.skipped);
    skipped.extend(plan.left_out.iter().cloned());
    skipped.sort();
    Ok(ImportReport {
        schema: SCHEMA,
        kind: plan.kind,
        output: plan.options.output.clone(),
        version: plan.version.clone(),
        artifacts,
        components: describe::components(&sources),
        sources,
        targets: describe::gpu_targets(&unpacked),
        system_libraries: libraries,
        unresolved,
        skipped,
        displaced: unpacked.displaced,
        unknown: unpacked.unknown,
        unlisted_loads: resolution.unlisted,
        kept_names: relinked.kept_names,
        dropped_search_paths: relinked.dropped,
        rewritten: unpacked.rewritten,
        copies,
        input_entries: unpacked.entries,
    })
}

fn plan_debs(paths: &[PathBuf], options: &ImportOptions, reporter: &dyn Reporter) -> Result<ImportPlan, Error> {
    let total = paths.iter().filter_map(|path| fs_err::metadata(path).ok()).map(|metadata| metadata.len()).sum();
    let stage = reporter.stage("Reading packages", Some(total), Unit::Bytes);
    let read = paths.par_iter().map(|path| -> Result<(PlannedSource, ControlArchive), Error> {
        let archive = deb::control(path)?;
        let sha256 = crate::archive::digest(path, reporter).map_err(|error| match error {
            crate::Error::Io(source) => Error::Io(source),
            _ => Error::Interrupted(Interrupted),
        })?;
        let mut source = planned(archive.control.clone());
        source.sha256 = Some(sha256);
        source.size = fs_err::metadata(path)?.len();
        Ok((PlannedSource { source, path: path.clone(), files: Vec::new() }, archive))
    });
    let mut read: Vec<(PlannedSource, ControlArchive)> = read.collect::<Result<_, Error>>()?;
    drop(stage);
    read.sort_by(|(left, _), (right, _)| (&left.source.name, &left.path).cmp(&(&right.source.name, &right.path)));
    let installed = read.iter().map(|(_, archive)| archive.control.installed).sum();
    let (sources, archives): (Vec<PlannedSource>, Vec<ControlArchive>) = read.into_iter().unzip();
    for pair in sources.windows(2) {
        if pair[0].source.name == pair[1].source.name {
            let name = pair[0].source.name.clone();
            return Err(Error::DuplicatePackage { name, first: pair[0].path.clone(), second: pair[1].path.clone() });
        }
    }
    if !sources.iter().any(|planned| planned.source.artifact.is_some()) {
        let path = paths.first().cloned().unwrap_or_default();
        return Err(Error::Empty { path, reason: "none of the packages is one of ROCm's".into() });
    }
    preflight::check(&sources, &archives, options, reporter)?;
    let mut paths = archives.iter().flat_map(|archive| archive.digests.keys());
    let has_archive_reader = Some(paths.any(|path| is_archive_reader(path)));
    let dependencies = archives.iter().flat_map(|archive| archive.control.depends.iter().flatten().cloned()).collect();
    Ok(ImportPlan {
        schema: SCHEMA,
        kind: SourceKind::Deb,
        version: version_of(&sources),
        sources,
        left_out: Vec::new(),
        dependencies,
        has_archive_reader,
        installed,
        options: options.clone(),
    })
}

/// `true` for the path of the library with which the HIP runtime reads `.kpack` archives.
fn is_archive_reader(path: &str) -> bool {
    file_name(path).starts_with("librocm_kpack.so")
}

/// Converts control fields into a source, without digest and size.
fn planned(control: Control) -> InputPackage {
    let artifact = Table::embedded().of_package(&control.package).map(|rule| rule.name.clone());
    InputPackage {
        name: control.package,
        version: control.version,
        source: control.source,
        source_version: control.source_version,
        sha256: None,
        size: 0,
        artifact,
    }
}

/// Returns the version of a set of packages: the version of `rocm-core` if the set has it, else the
/// HIP runtime's.
fn version_of(sources: &[PlannedSource]) -> String {
    let of = |prefix: &str| {
        let mut sources = sources.iter().map(|planned| &planned.source);
        let found = sources.find(|source| source.name.starts_with(prefix) && !source.name.ends_with("-dev"));
        found.map(|source| deb::upstream(&source.version))
    };
    let version = of("rocm-core").or_else(|| of("libamdhip64-")).or_else(|| of("hip-runtime-")).unwrap_or_default();
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}

/// Returns the rule by which the files of a source find their artifact.
fn belongs(source: &InputPackage) -> Belongs {
    let rule = source.artifact.as_deref().and_then(|name| Table::embedded().artifact(name));
    rule.map_or(Belongs::System, |rule| Belongs::To(&rule.name))
}

fn unpack_debs(plan: &ImportPlan, unpacker: &Unpacker<'_>) -> Result<(), Error> {
    let mut order: Vec<usize> = (0..plan.sources.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(plan.sources[*index].source.size));
    let (large, small): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|index| plan.sources[*index].source.size >= LARGE);
    let threads = rayon::current_num_threads() as u32;
    let unpack = |index: usize, threads: u32| {
        let planned = &plan.sources[index];
        let mut feed = Feed { unpacker, source: index, belongs: belongs(&planned.source) };
        deb::data(&planned.path, threads, &mut feed)
    };
    for index in large {
        unpack(index, threads)?;
    }
    small.into_par_iter().try_for_each(|index| unpack(index, 1))
}

/// Passes the members of an archive to the unpacker.
struct Feed<'a> {
    unpacker: &'a Unpacker<'a>,
    source: usize,
    belongs: Belongs,
}

impl Visitor for Feed<'_> {
    fn takes(&self, path: &str) -> bool {
        self.unpacker.takes(self.belongs, path)
    }

    fn file(&mut self, path: &str, size: u64, executable: bool, content: &mut dyn Read) -> Result<(), Error> {
        let incoming = Incoming { source: self.source, belongs: self.belongs, path, size, executable };
        self.unpacker.file(&incoming, content)
    }

    fn symlink(&mut self, path: &str, target: &str) -> Result<(), Error> {
        self.unpacker.symlink(self.source, self.belongs, path, target);
        Ok(())
    }

    fn hard_link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        let incoming = Incoming { source: self.source, belongs: self.belongs, path, size: 0, executable: false };
        self.unpacker.hard_link(&incoming, target)
    }
}
