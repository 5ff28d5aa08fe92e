//! Input: an installed ROCm. Output: a plan of the files to import, and their copies. The prefix
//! itself is only read.
//!
//! A private prefix (`/opt/rocm`) is imported as a whole. From a shared prefix (`/usr`) only the
//! files of ROCm's packages are imported, which dpkg's database in the root of the prefix lists. In
//! both cases libraries of other packages are added if NEEDED entries or the table of run-time
//! loads ask for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::archive_path::file_name;
use rocwheel_elf::Elf;
use rocwheel_progress::{Context, Failure};
use rocwheel_system::FileMetadata as _;
use rocwheel_tables::DlopenTable;
use walkdir::WalkDir;

use crate::deb::{Control, upstream};
use crate::error::{empty, refused};
use crate::libraries::SystemLibraries;
use crate::options::ImportOptions;
use crate::plan::{ImportPlan, PlannedSource, SCHEMA, belongs, input_package, is_archive_reader, version_of};
use crate::report::{InputPackage, Skipped, SourceKind};
use crate::table::Table;
use crate::unpack::{Belongs, Incoming, Unpacker, is_alternative};

/// Path of dpkg's database below the root that holds a prefix.
const DPKG: &str = "var/lib/dpkg";

/// Name of the source package of a private prefix, which has none.
const TREE: &str = "prefix";

pub(crate) fn plan(prefix: &Path, options: &ImportOptions) -> Result<ImportPlan, Failure> {
    let prefix = rocwheel_system::canonicalize(prefix)?;
    let shared = prefix.ends_with("usr");
    if !shared && !looks_like_rocm(&prefix) {
        let text = "it has neither a HIP runtime (`libamdhip64.so`) nor `.info/version`";
        return Err(Failure::message(format!("`{}` does not look like a ROCm: {text}", prefix.display()))
            .with_hint("give the directory that ROCm is installed in, such as /opt/rocm, or the system's /usr"));
    }
    let root = if shared { prefix.parent().map(Path::to_owned) } else { root_of(&prefix) };
    if let Some(root) = root.as_deref().filter(|root| shared && !has_dpkg(root)) {
        let (prefix, database) = (prefix.display(), root.join(DPKG).join("status"));
        let database = database.display();
        return Err(Failure::message(format!(
            "`{prefix}` is shared with other software, and there is no `{database}` to tell which files are ROCm's"
        ))
        .with_hint("give a directory that holds nothing but ROCm, such as /opt/rocm, or the packages with --deb"));
    }
    let dpkg = root.as_deref().map(Dpkg::read).transpose()?.unwrap_or_default();
    let mut sources = Vec::new();
    let mut libraries = Libraries::default();
    let version;
    if shared {
        let root = root.as_deref().unwrap_or(&prefix);
        for package in dpkg.packages.values().filter(|package| is_rocm(&package.control)) {
            let files = package.files()?;
            libraries.add_files(root, &files)?;
            sources.push(installed(package, root, files));
        }
        if sources.is_empty() {
            return Err(empty(&prefix, "no package of ROCm is installed in it"));
        }
        version = version_of(&sources);
    } else {
        let files = tree(&prefix)?;
        libraries.add_files(&prefix, &files)?;
        if files.iter().all(|path| Table::embedded().of_file(&Table::embedded().flatten(path)).is_none()) {
            return Err(empty(&prefix, "no file of it is one of ROCm's"));
        }
        version = options.version.clone().unwrap_or_else(|| private_version(&prefix));
        let name = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sources.push(PlannedSource { source: tree_source(name, &version), path: prefix.clone(), files });
    }
    let root = root.unwrap_or_else(|| prefix.clone());
    let first = sources.len();
    let taken = libraries.close(&root, &dpkg)?;
    for package in taken.iter().filter_map(|name| dpkg.packages.get(name)).filter(|package| !is_rocm(&package.control))
    {
        sources.push(installed(package, &root, package.files()?));
    }
    let packages = sources.iter().filter_map(|planned| dpkg.packages.get(&planned.source.name));
    let dependencies = packages.flat_map(|package| package.control.depends.iter().flatten());
    let dependencies: BTreeSet<String> = dependencies.cloned().collect();
    let left_out = if shared { left_out(&dpkg, &sources) } else { Vec::new() };
    if shared {
        sources.sort_by(|left, right| left.source.name.cmp(&right.source.name));
    } else {
        sources[first..].sort_by(|left, right| left.source.name.cmp(&right.source.name));
    }
    let mut paths = sources.iter().flat_map(|planned| &planned.files);
    let has_archive_reader = Some(paths.any(|path| is_archive_reader(path)));
    Ok(ImportPlan {
        schema: SCHEMA,
        kind: SourceKind::Prefix,
        version,
        sources,
        left_out,
        dependencies,
        has_archive_reader,
        installed: 0,
        options: options.clone(),
    })
}

/// `true` if a prefix has something that every ROCm has. The whole prefix is walked afterwards, and
/// a wrong one, such as `/`, would take minutes and has folders like `/proc`.
fn looks_like_rocm(prefix: &Path) -> bool {
    const MARKS: [&str; 6] =
        [".info/version", "share/therock", "bin/hipcc", "bin/hipconfig", "bin/amdclang", "lib/llvm/bin/clang"];
    let libraries = ["lib", "lib64"].into_iter().filter_map(|folder| fs_err::read_dir(prefix.join(folder)).ok());
    let mut names = libraries.flatten().flatten().map(|entry| entry.file_name());
    prefix.parent().is_some()
        && (MARKS.iter().any(|mark| prefix.join(mark).exists())
            || names.any(|name| {
                let name = name.to_string_lossy();
                ["libamdhip64", "libhsa-runtime64", "libamd_comgr"].iter().any(|library| name.starts_with(library))
            }))
}

pub(crate) fn unpack(plan: &ImportPlan, unpacker: &Unpacker<'_>) -> Result<(), Failure> {
    let jobs: Vec<(usize, &Path, Belongs, &str)> = plan
        .sources
        .iter()
        .enumerate()
        .flat_map(|(index, planned)| {
            let belongs = if planned.source.source == TREE { Belongs::ByPath } else { belongs(&planned.source) };
            planned.files.iter().map(move |file| (index, planned.path.as_path(), belongs, file.as_str()))
        })
        .collect();
    jobs.into_par_iter().try_for_each(|(source, base, belongs, path)| take(unpacker, source, base, belongs, path))
}

fn take(unpacker: &Unpacker<'_>, source: usize, base: &Path, belongs: Belongs, path: &str) -> Result<(), Failure> {
    let full = base.join(path);
    let metadata = match fs_err::symlink_metadata(&full) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            unpacker.absent(source, path, "dpkg lists it, but it is not installed");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if metadata.is_symlink() {
        let target = fs_err::read_link(&full)?;
        let target = target.strip_prefix(base).map_or_else(|_| target.clone(), |rest| Path::new("/").join(rest));
        unpacker.symlink(source, belongs, path, &target.to_string_lossy());
        return Ok(());
    }
    if metadata.is_dir() {
        return Ok(());
    }
    if !metadata.is_file() {
        return Err(refused(base, path, "it is neither file, directory nor link"));
    }
    let executable = metadata.is_executable(&full);
    let mut content = fs_err::File::open(&full)?;
    unpacker.file(&Incoming { source, belongs, path, size: metadata.len(), executable }, &mut content)
}

/// The nearest directory at or above the prefix that has a dpkg database.
fn root_of(prefix: &Path) -> Option<PathBuf> {
    prefix.ancestors().find(|directory| has_dpkg(directory)).map(Path::to_owned)
}

fn has_dpkg(root: &Path) -> bool {
    root.join(DPKG).join("status").is_file()
}

fn is_rocm(control: &Control) -> bool {
    Table::embedded().of_package(&control.package).is_some()
}

fn installed(package: &Package, base: &Path, files: Vec<String>) -> PlannedSource {
    PlannedSource { source: input_package(package.control.clone()), path: base.to_owned(), files }
}

fn tree_source(name: String, version: &str) -> InputPackage {
    InputPackage {
        name,
        version: version.to_owned(),
        source: TREE.into(),
        source_version: version.to_owned(),
        sha256: None,
        size: 0,
        artifact: None,
    }
}

/// The version in `.info/version` of an installed ROCm (`6.2.0-66`), or in its manifest.
fn private_version(prefix: &Path) -> String {
    let info = fs_err::read_to_string(prefix.join(".info/version")).unwrap_or_default();
    let version = upstream(info.trim());
    if !version.is_empty() {
        return version.split('.').take(3).collect::<Vec<_>>().join(".");
    }
    let manifest = rocwheel_artifact::Manifest::read(&prefix.join("share/therock/therock_manifest.json"));
    manifest.ok().and_then(|manifest| manifest.rocm_package_version).unwrap_or_default()
}

/// Every file and link, relative and sorted. Names that no file of an artifact may have are an
/// error, unless the file is skipped anyway.
fn tree(prefix: &Path) -> Result<Vec<String>, Failure> {
    let table = Table::embedded();
    let mut files = Vec::new();
    for entry in WalkDir::new(prefix).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let attempt = format!("could not read `{}`", error.path().unwrap_or(prefix).display());
            let source = error.into_io_error().unwrap_or_else(|| io::Error::other("links in a circle"));
            Failure::from(source).context(attempt)
        })?;
        if entry.file_type().is_dir() {
            continue;
        }
        let path = rocwheel_system::slashed(entry.path().strip_prefix(prefix).unwrap_or(entry.path()));
        let text = path.to_string_lossy();
        let is_usable = path.to_str().is_some_and(|text| !text.contains(['\n', '\\']));
        if is_usable {
            files.push(text.into_owned());
        } else if table.skip(&table.flatten(&text)).is_none() {
            return Err(refused(prefix, &text, "its name holds a character that no file here may have"));
        }
    }
    Ok(files)
}

/// Dependencies of the imported packages that are installed but not imported.
fn left_out(dpkg: &Dpkg, sources: &[PlannedSource]) -> Vec<Skipped> {
    let taken: BTreeSet<&str> = sources.iter().map(|planned| planned.source.name.as_str()).collect();
    let mut queue: VecDeque<&str> = taken.iter().copied().collect();
    let mut seen = taken.clone();
    let mut left_out = Vec::new();
    while let Some(name) = queue.pop_front() {
        let Some(package) = dpkg.packages.get(name) else { continue };
        for dependency in package.control.depends.iter().flatten() {
            let Some((name, _)) = dpkg.packages.get_key_value(dependency) else { continue };
            if seen.insert(name) {
                queue.push_back(name);
                let reason =
                    format!("dependency of `{}`: nothing of it is needed to load the set", package.control.package);
                left_out.push(Skipped { source: name.clone(), path: String::new(), target: None, reason });
            }
        }
    }
    left_out
}

/// The contents of dpkg's database.
#[derive(Default)]
struct Dpkg {
    packages: BTreeMap<String, Package>,
    /// File name of a library → package and path.
    libraries: BTreeMap<String, (String, String)>,
}

struct Package {
    control: Control,
    list: PathBuf,
}

impl Dpkg {
    fn read(root: &Path) -> Result<Self, Failure> {
        let directory = root.join(DPKG);
        let status = fs_err::read_to_string(directory.join("status"))?;
        let mut dpkg = Self::default();
        for paragraph in status.split("\n\n").filter(|text| text.contains("\nStatus: install ok installed")) {
            let Some(control) = Control::parse(paragraph) else { continue };
            let architecture = paragraph.lines().find_map(|line| line.strip_prefix("Architecture:"));
            let architecture = architecture.map_or("", str::trim);
            if !matches!(architecture, "amd64" | "all") {
                continue;
            }
            let names = [format!("{}:{architecture}.list", control.package), format!("{}.list", control.package)];
            let lists = names.map(|name| directory.join("info").join(name));
            let Some(list) = lists.into_iter().find(|path| path.is_file()) else { continue };
            dpkg.packages.insert(control.package.clone(), Package { control, list });
        }
        let mut libraries = BTreeMap::new();
        let mut alternatives = BTreeMap::new();
        for (name, package) in &dpkg.packages {
            for path in package.files()? {
                let flat = Table::embedded().flatten(&path);
                let library = flat.strip_prefix("lib/").filter(|name| !name.contains('/') && name.contains(".so"));
                if let Some(library) = library {
                    libraries.entry(library.to_owned()).or_insert((name.clone(), path.clone()));
                } else if is_alternative(&flat) {
                    alternatives.entry(file_name(&flat).to_owned()).or_insert((name.clone(), path.clone()));
                }
            }
        }
        for (library, found) in alternatives {
            libraries.entry(library).or_insert(found);
        }
        dpkg.libraries = libraries;
        Ok(dpkg)
    }
}

impl Package {
    /// Files and links of the package, relative to the root.
    fn files(&self) -> Result<Vec<String>, Failure> {
        let text = fs_err::read_to_string(&self.list)?;
        let paths = text.lines().map(|line| line.trim_start_matches('/').to_owned());
        let mut paths: Vec<String> = paths.filter(|path| !path.is_empty() && path != ".").collect();
        paths.sort();
        // The list has directories as well as their contents.
        let directories: BTreeSet<String> =
            paths.iter().filter_map(|path| path.rsplit_once('/').map(|(parent, _)| parent.to_owned())).collect();
        paths.retain(|path| !directories.contains(path));
        Ok(paths)
    }
}

/// Libraries that exist and libraries that are needed.
#[derive(Default)]
struct Libraries {
    provided: BTreeSet<String>,
    wanted: VecDeque<String>,
}

impl Libraries {
    fn add_files(&mut self, base: &Path, files: &[String]) -> Result<(), Failure> {
        let read = files.par_iter().map(|path| -> Result<(Vec<String>, Vec<String>), Failure> {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            let full = base.join(path);
            let mut provided = Vec::new();
            if name.contains(".so") {
                provided.push(name.clone());
            }
            let mut loader = name;
            let mut wanted = Vec::new();
            let is_file = fs_err::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file());
            if let Some(elf) = if is_file { read_elf(&full, path)? } else { None } {
                wanted.extend(elf.needed);
                provided.extend(elf.soname.clone());
                loader = elf.soname.unwrap_or(loader);
            }
            let loads = DlopenTable::embedded().of(&loader).iter().filter(|load| load.required);
            wanted.extend(loads.map(|load| load.pattern.clone()));
            Ok((provided, wanted))
        });
        let read: Vec<(Vec<String>, Vec<String>)> = read.collect::<Result<_, Failure>>()?;
        for (provided, wanted) in read {
            self.provided.extend(provided);
            self.wanted.extend(wanted);
        }
        Ok(())
    }

    /// The packages with the libraries that are needed but missing, and those that these libraries
    /// need.
    fn close(&mut self, root: &Path, dpkg: &Dpkg) -> Result<BTreeSet<String>, Failure> {
        let system = SystemLibraries::embedded();
        let mut packages = BTreeSet::new();
        while let Some(name) = self.wanted.pop_front() {
            if system.is_outside(&name) || self.provided.contains(&name) {
                continue;
            }
            self.provided.insert(name.clone());
            let Some((package, path)) = dpkg.libraries.get(&name) else { continue };
            packages.insert(package.clone());
            if let Some(elf) = read_elf(&rocwheel_system::canonicalize(root.join(path))?, path)? {
                self.wanted.extend(elf.needed);
            }
        }
        Ok(packages)
    }
}

fn read_elf(full: &Path, path: &str) -> Result<Option<Elf>, Failure> {
    let file = fs_err::File::open(full)?;
    Elf::read(file.file()).with_context(|| format!("could not read the ELF file `{path}`"))
}
