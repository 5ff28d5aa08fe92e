//! Input: a wheel and a request. Output: the [`Plan`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rocwheel_progress::{Exit, Failure, Reporter};
use rocwheel_tables::{LibraryProduct, providers};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Headers, WheelName};

use crate::edits::{Edits, Read};
use crate::error;
use crate::inventory::Inventory;
use crate::plan::{
    FileEdit, Graft, KeptOut, NotCopiedReason, Plan, RepairMode, RequirementChange, RocmTree, Tags, ValueChange,
    WrittenText,
};
use crate::resolve::{Families, Resolution, Rules, resolve};
use crate::tags::{self, Judged, Wanted};
use crate::{
    Error, PreparedRepair, Request, RocmFrom, exclude, fat_wheel, initialize, openers, paths, requirement, sbom,
    wheels_beside,
};

/// Plans the repair of the wheel at `path`. Writes only temporary files in the request's scratch
/// folder.
pub fn plan(path: &Path, request: &Request, reporter: &dyn Reporter) -> Result<PreparedRepair, Error> {
    let wheel = Arc::new(Wheel::open(path)?);
    check_system(&wheel, request)?;
    let wanted = Wanted::parse(request.platform.as_deref(), request.only_platform)?;
    let excludes = exclude::Excludes::new(&request.exclude)?;
    let mut inventory = Inventory::read(&wheel, request, &excludes, reporter)?;
    check_machine(&wheel, &inventory)?;
    let fat = if request.mode == Some(RepairMode::Fat) {
        Some(fat_wheel::plan(&wheel, request, &mut inventory)?)
    } else {
        None
    };
    let families = match request.mode {
        Some(RepairMode::Graft) => Families::Take,
        Some(RepairMode::Rocm) | None => Families::KeepOut,
        Some(RepairMode::Fat) => Families::Tree,
    };
    let beside = wheels_beside::Beside::read(&request.beside, &request.scratch)?;
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
    Ok(PreparedRepair { plan, wheel, inventory, metadata })
}

/// The default mode: rocm if libraries of ROCm or torch were left to other packages, else graft.
fn mode(resolution: &Resolution) -> RepairMode {
    let has_family = resolution.left.values().any(|left| {
        matches!(
            left.reason,
            NotCopiedReason::Beside | NotCopiedReason::Family(LibraryProduct::Rocm | LibraryProduct::Torch)
        )
    });
    if has_family { RepairMode::Rocm } else { RepairMode::Graft }
}

fn check_system(wheel: &Wheel, request: &Request) -> Result<(), Error> {
    for platform in &wheel.name.platforms {
        let (what, hint) = if platform.starts_with("musllinux") {
            ("a wheel for musl systems", "repair it with auditwheel: ROCm needs glibc")
        } else if platform.starts_with("macosx") {
            ("a wheel for macOS", "repair it with delocate")
        } else if platform.starts_with("win") && request.mode != Some(RepairMode::Fat) {
            ("a wheel for Windows", "repair it with delvewheel, or put ROCm into it with `--mode fat`")
        } else {
            continue;
        };
        return Err(error::foreign(wheel.path(), what, hint));
    }
    Ok(())
}

fn check_machine(wheel: &Wheel, inventory: &Inventory) -> Result<(), Error> {
    match inventory.foreign.first() {
        Some((member, machine)) if inventory.binaries.is_empty() => {
            let what =
                format!("a wheel for another machine (`{member}` is for machine {machine} of the ELF specification)");
            Err(error::foreign(wheel.path(), &what, "only wheels for x86-64 can be repaired so far"))
        }
        _ => Ok(()),
    }
}

/// The data that is known before names and texts are decided.
struct Draft<'a> {
    wheel: &'a Arc<Wheel>,
    request: &'a Request,
    /// The version of ROCm; `None` if it is unknown.
    version: Option<String>,
    inventory: &'a Inventory,
    resolution: &'a Resolution,
    mode: RepairMode,
}

impl Draft<'_> {
    fn finish(
        &self,
        wanted: &Wanted,
        fat: Option<fat_wheel::Fat>,
        reporter: &dyn Reporter,
    ) -> Result<(Plan, Option<String>), Error> {
        let read = Read::new(self.resolution, reporter)?;
        let decided = Edits::new(self.wheel, self.request, self.inventory, (self.resolution, &read), self.mode);
        let (grafted, members) = decided.grafts();
        let (mut edits, mut texts) = decided.files()?;
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
        let opened = openers::notes(self.inventory, self.resolution, (&grafted, &members), &self.request.depth);
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
            notes: self.notes(&tags, opened),
            tags,
            version,
            strip: self.request.strip.is_some(),
        };
        Ok((plan, metadata))
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

    fn name(&self, tags: &Tags, version: Option<&ValueChange>) -> WheelName {
        let mut name = self.wheel.name.clone();
        name.platforms.clone_from(&tags.after);
        if let Some(version) = version {
            name.version.clone_from(&version.after);
        }
        name
    }

    /// The additions of mode rocm: the requirement, and the modules that load ROCm's libraries
    /// first.
    fn rocm(&self, metadata: &Headers) -> Result<(Vec<RequirementChange>, Vec<WrittenText>), Error> {
        let left = self.resolution.left.iter().filter_map(|(library, left)| {
            let provider = left.provider.filter(|provider| provider.kind == LibraryProduct::Rocm)?;
            Some((library.as_str(), (provider, left.distribution.as_deref())))
        });
        let left: BTreeMap<&str, (&'static providers::LibraryFamily, Option<&str>)> = left.collect();
        let is_with_torch = self.request.rocm_from == RocmFrom::Torch && requirement::requires_torch(metadata);
        if self.mode != RepairMode::Rocm || left.is_empty() || is_with_torch {
            return Ok((Vec::new(), Vec::new()));
        }
        let Some(version) = self.version.as_deref() else {
            // A wheel that already requires ROCm states the version itself; the preload module
            // checks it.
            if requirement::requires_rocm(metadata) && !self.request.resolve.has_preload() {
                return Ok((Vec::new(), Vec::new()));
            }
            let wheel = self.wheel.path().display();
            let text = format!("`{wheel}` needs ROCm's libraries, and which version it was built for is not known");
            return Err(Failure::message(text)
                .with_hint("give it with `--rocm-version`, which becomes the requirement `rocm[libraries]==VERSION`")
                .with_exit(Exit::Usage)
                .into());
        };
        rocwheel_wheel::check_version(version.strip_suffix(".*").unwrap_or(version))?;
        let extras = left.values().filter_map(|(_, distribution)| requirement::extra_of((*distribution)?)).collect();
        let requirements = requirement::pin(metadata, &requirement::Rocm { version, extras });
        let mut texts = Vec::new();
        if self.request.resolve.has_preload() {
            let shortnames = initialize::shortnames(left.keys().copied());
            let hook = initialize::Hook::preload(&shortnames, version);
            let packages = initialize::packages(self.inventory, |binary| {
                binary.elf.needed.iter().any(|name| left.contains_key(paths::name(name)))
            });
            let packages = packages.map_err(|module| {
                let reason = "it is a module by itself, in no package";
                error::package(self.wheel.path(), &module, reason, "use `--resolve rpath`, which needs no package")
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

    fn bill(&self, name: &WheelName, grafted: &[Graft], tree: Option<&RocmTree>) -> WrittenText {
        let folder = format!("{}/sboms", self.wheel.info());
        let file = sbom::name(|file| self.wheel.member(&format!("{folder}/{file}")).is_some());
        let version = self.request.rocm_version.as_deref().unwrap_or("unknown");
        let tree = tree.map(|tree| (tree, version));
        // A folder whose name does not fit the wheel is renamed.
        let info = rocwheel_wheel::new_info(self.wheel, name).unwrap_or_else(|| self.wheel.info().to_owned());
        WrittenText {
            member: format!("{info}/sboms/{file}"),
            purpose: "says where the libraries come from (PEP 770)".to_owned(),
            replaces: false,
            executable: false,
            bytes: sbom::text(name, grafted, tree),
        }
    }

    fn notes(&self, tags: &Tags, opened: Vec<String>) -> Vec<String> {
        let mut notes: Vec<String> = self.resolution.warnings.iter().cloned().collect();
        for member in &self.inventory.left_alone {
            notes.push(format!("`{member}` cannot be read and is copied unchanged, as `--exclude` says"));
        }
        notes.extend(opened);
        for (member, machine) in &self.inventory.foreign {
            notes.push(format!("`{member}` is for another machine ({machine}) and is not changed"));
        }
        for untrue in &tags.untrue {
            notes.push(format!("`{untrue}` does not hold: {}", tags.reasons.first().map_or("", String::as_str)));
        }
        notes.extend(self.stacks());
        notes.extend(self.other_release());
        if self.mode == RepairMode::Graft {
            let rocm: u64 = self
                .resolution
                .externals
                .iter()
                .filter(|external| {
                    providers::Providers::embedded()
                        .of(&external.library)
                        .is_some_and(|provider| provider.kind == LibraryProduct::Rocm)
                })
                .filter_map(|external| fs_err::metadata(&external.found.real).ok())
                .map(|metadata| metadata.len())
                .sum();
            if rocm > 0 {
                notes.push(format!(
                    "{} MB of ROCm come along: mode `rocm` leaves them in their own wheels",
                    rocm / 1_000_000
                ));
            }
        }
        notes
    }

    /// Remarks on files that still request an executable stack.
    fn stacks(&self) -> Vec<String> {
        let of_wheel =
            self.inventory.binaries.iter().map(|binary| (binary.member.clone(), &binary.elf, &binary.content));
        let of_wheel = of_wheel.filter_map(|(member, elf, content)| {
            let reader = elf.wants_executable_stack().then(|| content.open().ok()).flatten()?;
            needs_executable_stack(elf, &reader).then_some(member)
        });
        let of_machine = self.resolution.externals.iter().filter_map(|external| {
            let elf = &external.found.elf;
            let file = elf.wants_executable_stack().then(|| fs_err::File::open(&external.found.real).ok()).flatten()?;
            needs_executable_stack(elf, file.file()).then(|| external.found.real.display().to_string())
        });
        of_wheel
            .chain(of_machine)
            .map(|file| {
                format!("`{file}` needs a stack on which code can be run: glibc 2.41 and newer refuses to load it")
            })
            .collect()
    }

    /// A warning if the needed HIP runtime belongs to another release of ROCm than the required
    /// one.
    fn other_release(&self) -> Option<String> {
        let version = self.version.as_deref().filter(|_| self.mode == RepairMode::Rocm)?;
        let mut libraries =
            self.resolution.left.keys().map(|library| (library, providers::releases_of_runtime(library)));
        let (library, releases) = libraries.find(|(_, releases)| !releases.is_empty())?;
        let major = version.split('.').next();
        let is_same = releases.iter().any(|release| major == Some(release.to_string().as_str()));
        (!is_same).then(|| format!("`{library}` is needed, which ROCm {version} does not have"))
    }
}

fn needs_executable_stack(elf: &rocwheel_elf::Elf, reader: &dyn positioned_io::ReadAt) -> bool {
    elf.kind == rocwheel_elf::ElfKind::SharedLibrary
        && elf.wants_executable_stack()
        && !elf.has_needless_stack_flag(reader).unwrap_or(false)
}
