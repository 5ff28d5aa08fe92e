//! Input: a wheel and what is asked for. Output: the [`Plan`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use report::Reporter;
use ring::digest::{Context, SHA256};
use wheel::read::Wheel;
use wheel::{Headers, WheelName};

use super::inventory::{Binary, Inventory, Place};
use super::plan::{Change, Edit, FileEdit, Graft, KeptOut, Mode, Package, Plan, Reason, Requirement, Tags, Text, Tree};
use super::resolve::{External, Families, Need, Resolution, Rules, Target, resolve};
use super::tags::{self, Judged, Wanted};
use super::{Error, Prepared, Request, beside, exclude, fat, initialize, packages, paths, requirement, sbom};
use crate::providers::{self, Kind};

const SHIM: &str = include_str!("../../../../python/wheel-repair/script_shim.py");
/// Bytes that are hashed at once.
const WINDOW: usize = 1 << 20;

/// Works out what repairing the wheel at `path` comes to. Nothing is written but temporary files in the request's scratch
/// folder.
///
/// # Errors
/// All of [`Error`] except those of writing.
pub fn plan(path: &Path, request: &Request, reporter: &dyn Reporter) -> Result<Prepared, Error> {
    let wheel = Arc::new(Wheel::open(path)?);
    check_system(&wheel, request)?;
    let wanted = Wanted::parse(request.platform.as_deref(), request.only_platform)?;
    let excludes = exclude::Excludes::new(&request.exclude)?;
    let mut inventory = Inventory::read(&wheel, &request.scratch, reporter)?;
    check_machine(&wheel, &inventory)?;
    let fat = if request.mode == Some(Mode::Fat) { Some(fat::plan(&wheel, request, &mut inventory)?) } else { None };
    let families = match request.mode {
        Some(Mode::Graft) => Families::Take,
        Some(Mode::Rocm) | None => Families::KeepOut,
        Some(Mode::Fat) => Families::Tree,
    };
    let beside = beside::Beside::read(&request.beside, &request.scratch)?;
    let rules = Rules {
        policy: wanted.policy().map(|policy| policy.glibc.clone()),
        excludes,
        beside: &beside,
        families,
        library_path: &request.library_path,
        system: &request.system,
    };
    let resolution = resolve(&inventory.binaries, &rules);
    if !resolution.missing.is_empty() {
        return Err(Error::Missing { wheel: path.to_owned(), missing: resolution.missing });
    }
    let mode = request.mode.unwrap_or_else(|| mode(&resolution));
    let version = request.rocm_version.clone().or_else(|| beside.rocm_version().map(str::to_owned));
    let draft = Draft { wheel: &wheel, version, request, inventory: &inventory, resolution: &resolution, mode };
    let (plan, metadata) = draft.finish(&wanted, fat, reporter)?;
    Ok(Prepared { plan, wheel, inventory, metadata })
}

/// The way that fits: what belongs to ROCm or torch was kept out, so it matters.
fn mode(resolution: &Resolution) -> Mode {
    let is_family = |reason| matches!(reason, Reason::Beside | Reason::Family(Kind::Rocm | Kind::Torch));
    let has_family = resolution.left.values().any(|left| is_family(left.reason));
    if has_family { Mode::Rocm } else { Mode::Graft }
}

/// Refuses wheels of other systems.
fn check_system(wheel: &Wheel, request: &Request) -> Result<(), Error> {
    let foreign = |what: &str, hint| Error::Foreign { wheel: wheel.path().to_owned(), what: what.to_owned(), hint };
    for platform in &wheel.name.platforms {
        if platform.starts_with("musllinux") {
            return Err(foreign("a wheel for musl systems", "repair it with auditwheel: ROCm needs glibc"));
        }
        if platform.starts_with("macosx") {
            return Err(foreign("a wheel for macOS", "repair it with delocate"));
        }
        if platform.starts_with("win") && request.mode != Some(Mode::Fat) {
            return Err(foreign(
                "a wheel for Windows",
                "repair it with delvewheel, or put ROCm into it with `--mode fat`",
            ));
        }
    }
    Ok(())
}

fn check_machine(wheel: &Wheel, inventory: &Inventory) -> Result<(), Error> {
    match inventory.foreign.first() {
        Some((member, machine)) if inventory.binaries.is_empty() => Err(Error::Foreign {
            wheel: wheel.path().to_owned(),
            what: format!("a wheel for another machine (`{member}` is for machine {machine} of the ELF specification)"),
            hint: "only wheels for x86-64 can be repaired so far",
        }),
        _ => Ok(()),
    }
}

/// What is known before names and texts are decided.
struct Draft<'a> {
    wheel: &'a Arc<Wheel>,
    request: &'a Request,
    /// The version of ROCm, when it is known.
    version: Option<String>,
    inventory: &'a Inventory,
    resolution: &'a Resolution,
    mode: Mode,
}

impl Draft<'_> {
    fn finish(
        &self,
        wanted: &Wanted,
        fat: Option<fat::Fat>,
        reporter: &dyn Reporter,
    ) -> Result<(Plan, Option<String>), Error> {
        // Both read a lot: the libraries, and the lists of files of all packages.
        let (hashes, owners) = rayon::join(|| self.hashes(reporter), || self.owners());
        let hashes = hashes?;
        let names = self.names(&hashes);
        let (grafted, members) = self.grafts(&hashes, &names, &owners);
        let mut edits = Vec::new();
        let mut texts = Vec::new();
        for (number, binary) in self.inventory.binaries.iter().enumerate() {
            let edit = self.file_edit(binary, &self.resolution.needs[number], &names)?;
            if let Some(moved) = &edit.moved_to {
                texts.push(shim(&edit.member, moved));
            }
            edits.push(edit);
        }
        let tags = self.tags(&edits, &grafted, &members, wanted)?;
        edits.retain(|edit| edit.moved_to.is_some() || !edit.edit.is_empty());
        let mut metadata = Headers::parse(&self.wheel.metadata()?);
        let (mut requirements, hooks) = self.rocm(&metadata)?;
        texts.extend(hooks);
        let mut tree = None;
        let mut version = None;
        if let Some(fat) = fat {
            requirements = requirement::drop_rocm(&metadata);
            texts.extend(fat.texts);
            version = fat.version;
            tree = Some(fat.tree);
        }
        let name = self.name(&tags, version.as_ref());
        if !grafted.is_empty() || tree.is_some() {
            texts.push(self.bill(&name, &grafted, tree.as_ref()));
        }
        requirement::apply(&mut metadata, &requirements)?;
        if let Some(version) = &version {
            metadata.set("Version", &version.after)?;
        }
        let metadata = (!requirements.is_empty() || version.is_some()).then(|| metadata.to_string());
        texts.sort_by(|one, other| one.member.cmp(&other.member));
        let plan = Plan {
            input: self.wheel.path().to_owned(),
            output: name.to_string(),
            mode: self.mode,
            grafted,
            edits,
            kept_out: self.kept_out(),
            texts,
            requirements,
            tree,
            notes: self.notes(&tags),
            tags,
            version,
            strip: self.request.strip.is_some(),
        };
        Ok((plan, metadata))
    }

    fn hashes(&self, reporter: &dyn Reporter) -> Result<Vec<String>, Error> {
        let externals = &self.resolution.externals;
        let files: Vec<&Path> = externals.iter().map(|external| external.found.real.as_path()).collect();
        files
            .par_iter()
            .map(|file| {
                if reporter.interrupted() {
                    return Err(Error::Interrupted { path: self.wheel.path().to_owned() });
                }
                hash(file).map_err(Error::file("read", *file))
            })
            .collect()
    }

    /// The names that the libraries of this machine get, by their number.
    fn names(&self, hashes: &[String]) -> Vec<String> {
        let externals = self.resolution.externals.iter();
        externals.zip(hashes).map(|(external, hash)| graft_name(&external.found.real, &hash[..8])).collect()
    }

    fn owners(&self) -> BTreeMap<PathBuf, Package> {
        let externals = self.resolution.externals.iter();
        let files: BTreeSet<PathBuf> =
            externals.flat_map(|external| [external.found.real.clone(), external.found.path.clone()]).collect();
        packages::owners(&files)
    }

    fn libraries_folder(&self) -> String {
        format!("{}.libs", self.wheel.name.distribution)
    }

    /// The libraries that come along, by name, and the number of each in the resolution. A file that is on this machine twice
    /// comes once; one that an earlier repair brought stays.
    fn grafts(
        &self,
        hashes: &[String],
        names: &[String],
        owners: &BTreeMap<PathBuf, Package>,
    ) -> (Vec<Graft>, Vec<usize>) {
        let externals = &self.resolution.externals;
        let mut grafts: BTreeMap<&str, (Graft, usize)> = BTreeMap::new();
        for (number, external) in externals.iter().enumerate() {
            let member = format!("{}/{}", self.libraries_folder(), names[number]);
            if self.wheel.member(&member).is_some() {
                continue;
            }
            let package = owners.get(&external.found.real).or_else(|| owners.get(&external.found.path)).cloned();
            if let Some((graft, _)) = grafts.get_mut(names[number].as_str()) {
                let users: BTreeSet<String> =
                    graft.needed_by.drain(..).chain(external.needed_by.iter().cloned()).collect();
                graft.needed_by = users.into_iter().collect();
            } else {
                let graft = self.graft(external, &names[number], (member, hashes[number].clone(), package), names);
                grafts.insert(&names[number], (graft, number));
            }
        }
        grafts.into_values().unzip()
    }

    fn graft(
        &self,
        external: &External,
        name: &str,
        (member, sha256, package): (String, String, Option<Package>),
        names: &[String],
    ) -> Graft {
        let metadata = fs_err::metadata(&external.found.real).ok();
        Graft {
            library: external.library.clone(),
            name: name.to_owned(),
            source: external.found.real.clone(),
            size: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            sha256,
            needed_by: external.needed_by.iter().cloned().collect(),
            found_by: external.found_by.clone(),
            package,
            executable: metadata.is_some_and(|metadata| is_executable(&metadata)),
            edit: self.graft_edit(external, name, names),
            member,
        }
    }

    fn graft_edit(&self, external: &External, name: &str, names: &[String]) -> Edit {
        let mut edit = self.needed_edit(&external.needs, names);
        edit.soname = (external.found.elf.soname.as_deref() != Some(name)).then(|| name.to_owned());
        edit.strip = self.request.strip.is_some() && has_symbols(&external.found.elf);
        // A file that cannot be read now cannot be copied either, which says so.
        let file = fs_err::File::open(&external.found.real).ok();
        edit.stack = file.is_some_and(|file| external.found.elf.has_needless_stack_flag(file.file()).unwrap_or(false));
        let folder = self.libraries_folder();
        let wanted = self.folders(&external.needs, &folder);
        let old: Vec<String> = external.found.elf.search_path().map_or_else(Vec::new, |path| {
            path.split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
        });
        let new: Vec<String> = wanted.iter().map(|to| paths::entry(&folder, to)).collect();
        if old != new {
            edit.dropped = old.into_iter().filter(|entry| !new.contains(entry)).collect();
            edit.search_path = Some(new);
        }
        edit
    }

    /// Names that change in NEEDED.
    fn needed_edit(&self, needs: &[Need], names: &[String]) -> Edit {
        let mut edit = Edit::default();
        for need in needs {
            let base = paths::name(&need.name);
            let new = match &need.target {
                Target::Graft(number) => names[*number].as_str(),
                Target::Wheel { binary, .. } => self.inventory.binaries[*binary].site().map_or(base, paths::name),
                Target::System | Target::Out { .. } => base,
                Target::Python => {
                    edit.removed.push(need.name.clone());
                    continue;
                }
            };
            if new != need.name {
                edit.needed.insert(need.name.clone(), new.to_owned());
            }
        }
        edit
    }

    /// The folders below site-packages that the search path of a file in `folder` has to lead to, in the order of its needs.
    fn folders(&self, needs: &[Need], folder: &str) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for need in needs {
            let to = match &need.target {
                Target::Graft(_) => Some(self.libraries_folder()),
                Target::Wheel { binary, reached: false } => {
                    self.inventory.binaries[*binary].site().map(|site| paths::folder(site).to_owned())
                }
                Target::Out { directory } if self.mode == Mode::Rocm && self.request.resolve.has_search_path() => {
                    directory.clone()
                }
                _ => None,
            };
            if let Some(to) = to
                && !folders.contains(&to)
            {
                folders.push(to);
            }
        }
        // A file that finds libraries in its own folder looks there first.
        folders.sort_by_key(|to| to != folder);
        folders
    }

    fn file_edit(&self, binary: &Binary, needs: &[Need], names: &[String]) -> Result<FileEdit, Error> {
        let mut edit = self.needed_edit(needs, names);
        edit.strip = self.request.strip.is_some() && has_symbols(&binary.elf);
        edit.stack = self.has_needless_stack_flag(binary)?;
        let mut moved_to = None;
        let (folder, known) = match &binary.place {
            Place::Site(site) => (paths::folder(site).to_owned(), true),
            Place::Script(name) => {
                let folder = format!("{}.scripts", self.wheel.name.distribution);
                if self.folders(needs, &folder).is_empty() {
                    (String::new(), false)
                } else {
                    moved_to = Some(format!("{folder}/{name}"));
                    (folder, true)
                }
            }
            Place::Elsewhere => {
                let lost = needs.iter().find(|need| matches!(need.target, Target::Graft(_)));
                if let Some(need) = lost {
                    return Err(Error::Unreachable {
                        wheel: self.wheel.path().to_owned(),
                        member: binary.member.clone(),
                        library: need.name.clone(),
                    });
                }
                (String::new(), false)
            }
        };
        let wanted = if known { self.folders(needs, &folder) } else { Vec::new() };
        let keeps = |entry: &str| match paths::of_origin(entry) {
            Some(rest) if known => moved_to.is_none() && !paths::leaves(&paths::join(&folder, rest)),
            rest => rest.is_some(),
        };
        let (mut entries, dropped): (Vec<String>, Vec<String>) =
            binary.entries().into_iter().map(str::to_owned).partition(|entry| keeps(entry));
        let mut reached: BTreeSet<String> =
            entries.iter().filter_map(|entry| Some(paths::join(&folder, paths::of_origin(entry)?))).collect();
        let before = entries.len();
        for to in wanted {
            if reached.insert(to.clone()) {
                entries.push(paths::entry(&folder, &to));
            }
        }
        if entries.len() > before || !dropped.is_empty() {
            edit.search_path = Some(entries);
            edit.dropped = dropped;
        }
        Ok(FileEdit { member: binary.member.clone(), moved_to, edit })
    }

    fn has_needless_stack_flag(&self, binary: &Binary) -> Result<bool, Error> {
        if !binary.elf.wants_executable_stack() {
            return Ok(false);
        }
        let reader = binary.content.open().map_err(Error::file("read", self.wheel.path()))?;
        binary.elf.has_needless_stack_flag(&reader).map_err(|source| Error::Binary {
            wheel: self.wheel.path().to_owned(),
            file: binary.member.clone(),
            source,
        })
    }

    fn tags(&self, edits: &[FileEdit], grafted: &[Graft], numbers: &[usize], wanted: &Wanted) -> Result<Tags, Error> {
        let of_wheel = self.inventory.binaries.iter().zip(edits);
        let mut judged: Vec<Judged<'_>> = of_wheel
            .map(|(binary, edit)| Judged { file: &binary.member, elf: &binary.elf, edit: &edit.edit })
            .collect();
        judged.extend(grafted.iter().zip(numbers).map(|(graft, number)| Judged {
            file: &graft.member,
            elf: &self.resolution.externals[*number].found.elf,
            edit: &graft.edit,
        }));
        if !self.inventory.windows.is_empty() && judged.is_empty() {
            let before = self.wheel.name.platforms.clone();
            let floor = before.join(".");
            return Ok(Tags {
                after: before.clone(),
                before,
                floor,
                reasons: Vec::new(),
                untrue: Vec::new(),
                wheel: None,
            });
        }
        tags::tags(self.wheel, &judged, wanted)
    }

    fn name(&self, tags: &Tags, version: Option<&Change>) -> WheelName {
        let mut name = self.wheel.name.clone();
        name.platforms.clone_from(&tags.after);
        if let Some(version) = version {
            name.version.clone_from(&version.after);
        }
        name
    }

    /// What mode rocm adds: the requirement, and the modules that load ROCm's libraries first.
    fn rocm(&self, metadata: &Headers) -> Result<(Vec<Requirement>, Vec<Text>), Error> {
        let left = self.resolution.left.iter().filter_map(|(library, left)| {
            let provider = left.provider.filter(|provider| provider.kind == Kind::Rocm)?;
            Some((library.as_str(), (provider, left.distribution.as_deref())))
        });
        let left: BTreeMap<&str, (&'static providers::Provider, Option<&str>)> = left.collect();
        if self.mode != Mode::Rocm || left.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let Some(version) = self.version.as_deref() else {
            // Who requires ROCm has said which one already; loading it checks the version.
            if requirement::requires_rocm(metadata) && !self.request.resolve.has_preload() {
                return Ok((Vec::new(), Vec::new()));
            }
            return Err(Error::RocmVersion { wheel: self.wheel.path().to_owned() });
        };
        wheel::check_version(version)?;
        let libraries = left.values().any(|(_, distribution)| *distribution == Some("rocm-sdk-libraries"));
        let requirements = requirement::pin(metadata, &requirement::Rocm { version, libraries });
        let mut texts = Vec::new();
        if self.request.resolve.has_preload() {
            let shortnames = initialize::shortnames(left.keys().copied());
            let hook = initialize::Hook::preload(&shortnames, version);
            let needs_rocm =
                |binary: &Binary| binary.elf.needed.iter().any(|name| left.contains_key(paths::name(name)));
            let packages = initialize::packages(self.inventory, needs_rocm).map_err(|module| Error::Package {
                wheel: self.wheel.path().to_owned(),
                package: module,
                reason: "it is a module by itself, in no package".to_owned(),
                hint: "use `--resolve rpath`, which needs no package".to_owned(),
            })?;
            for package in packages {
                texts.extend(hook.texts(self.wheel, &package)?);
            }
        }
        Ok((requirements, texts))
    }

    fn kept_out(&self) -> Vec<KeptOut> {
        let left = self.resolution.left.iter();
        left.map(|(library, left)| KeptOut {
            library: library.clone(),
            reason: left.reason,
            distribution: left.distribution.clone(),
            directory: left.directory.clone(),
            needed_by: left.needed_by.iter().cloned().collect(),
        })
        .collect()
    }

    fn bill(&self, name: &WheelName, grafted: &[Graft], tree: Option<&Tree>) -> Text {
        let folder = format!("{}/sboms", self.wheel.info());
        let file = sbom::name(|file| self.wheel.member(&format!("{folder}/{file}")).is_some());
        let version = self.request.rocm_version.as_deref().unwrap_or("unknown");
        let tree = tree.map(|tree| (tree, version));
        // The folder is named by the new version when the version changes.
        let info = if name.version == self.wheel.name.version {
            self.wheel.info().to_owned()
        } else {
            format!("{}.dist-info", name.stem())
        };
        Text {
            member: format!("{info}/sboms/{file}"),
            purpose: "says where the libraries come from (PEP 770)".to_owned(),
            replaces: false,
            executable: false,
            bytes: sbom::text(name, grafted, tree),
        }
    }

    fn notes(&self, tags: &Tags) -> Vec<String> {
        let mut notes: Vec<String> = self.resolution.warnings.iter().cloned().collect();
        for (member, machine) in &self.inventory.foreign {
            notes.push(format!("`{member}` is for another machine ({machine}) and stays as it is"));
        }
        for untrue in &tags.untrue {
            notes.push(format!("`{untrue}` does not hold: {}", tags.reasons.first().map_or("", String::as_str)));
        }
        notes.extend(self.stacks());
        notes.extend(self.other_release());
        if self.mode == Mode::Graft {
            let rocm: u64 = self
                .resolution
                .externals
                .iter()
                .filter(|external| {
                    providers::Providers::embedded()
                        .of(&external.library)
                        .is_some_and(|provider| provider.kind == Kind::Rocm)
                })
                .filter_map(|external| fs_err::metadata(&external.found.real).ok())
                .map(|metadata| metadata.len())
                .sum();
            if rocm > 0 {
                notes.push(format!(
                    "{} MB of ROCm come along: `--mode rocm` leaves them in their own wheels",
                    rocm / 1_000_000
                ));
            }
        }
        notes
    }
}

impl Draft<'_> {
    /// Files that go on asking for a stack on which code can be run.
    fn stacks(&self) -> Vec<String> {
        let of_wheel =
            self.inventory.binaries.iter().map(|binary| (binary.member.clone(), &binary.elf, &binary.content));
        let stays = |elf: &elf::Elf, reader: &dyn positioned_io::ReadAt| {
            elf.kind == elf::Kind::SharedLibrary
                && elf.wants_executable_stack()
                && !elf.has_needless_stack_flag(reader).unwrap_or(false)
        };
        let of_wheel = of_wheel.filter_map(|(member, elf, content)| {
            let reader = elf.wants_executable_stack().then(|| content.open().ok()).flatten()?;
            stays(elf, &reader).then_some(member)
        });
        let of_machine = self.resolution.externals.iter().filter_map(|external| {
            let elf = &external.found.elf;
            let file = elf.wants_executable_stack().then(|| fs_err::File::open(&external.found.real).ok()).flatten()?;
            stays(elf, file.file()).then(|| external.found.real.display().to_string())
        });
        of_wheel
            .chain(of_machine)
            .map(|file| {
                format!("`{file}` needs a stack on which code can be run: glibc 2.41 and newer refuses to load it")
            })
            .collect()
    }

    /// A warning when the HIP runtime that is needed is that of another ROCm than the one that is required: its SONAME has the
    /// major version of the release.
    fn other_release(&self) -> Option<String> {
        let version = self.version.as_deref().filter(|_| self.mode == Mode::Rocm)?;
        let library = self.resolution.left.keys().find(|library| library.starts_with("libamdhip64.so."))?;
        let major = library.strip_prefix("libamdhip64.so.")?.split('.').next()?;
        let is_same = version.split('.').next() == Some(major);
        (!is_same).then(|| format!("`{library}` is needed, which ROCm {version} does not have"))
    }
}

/// The script in the place of a program that moves.
fn shim(member: &str, moved: &str) -> Text {
    Text {
        member: member.to_owned(),
        purpose: format!("starts `{moved}`"),
        replaces: true,
        executable: true,
        bytes: SHIM.replace("@PROGRAM@", moved).into_bytes(),
    }
}

/// Whether there is anything that `strip` would remove.
fn has_symbols(elf: &elf::Elf) -> bool {
    elf.sections.iter().any(|section| section.name == ".symtab" || section.name.starts_with(".debug_"))
}

fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

/// `libfoo-0a1b2c3d.so.1` for `libfoo.so.1`. A name that has the digits already, from an earlier repair, stays.
fn graft_name(file: &Path, digits: &str) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let end = name.find(".so").or_else(|| name.find('.')).unwrap_or(name.len());
    let (stem, rest) = name.split_at(end);
    if stem.ends_with(&format!("-{digits}")) { name.into_owned() } else { format!("{stem}-{digits}{rest}") }
}

/// SHA-256 of a file, in hexadecimal digits.
fn hash(file: &Path) -> std::io::Result<String> {
    let mut reader = fs_err::File::open(file)?;
    let mut context = Context::new(&SHA256);
    let mut window = vec![0; WINDOW];
    loop {
        let length = std::io::Read::read(&mut reader, &mut window)?;
        if length == 0 {
            break;
        }
        context.update(&window[..length]);
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafted_names_have_the_digits_before_the_suffix() {
        let name = |file: &str| graft_name(Path::new(file), "0a1b2c3d");
        assert_eq!(name("/usr/lib/libz.so.1.2.13"), "libz-0a1b2c3d.so.1.2.13");
        assert_eq!(name("libglib-2.0.so.0"), "libglib-2.0-0a1b2c3d.so.0");
        assert_eq!(name("libLLVM-15.so.1"), "libLLVM-15-0a1b2c3d.so.1");
        assert_eq!(name("plugin.1"), "plugin-0a1b2c3d.1");
        assert_eq!(name("libz-0a1b2c3d.so.1"), "libz-0a1b2c3d.so.1");
    }
}
