//! Input: an environment ([`Site`]) and the facts about its files ([`SiteFacts`]). Output: a
//! [`Context`], on which the checks base their judgement: the loader's answers for every file that
//! a process could start from, the requirements of each wheel, and the system that is assumed.

pub(crate) mod cpu;
pub(crate) mod expanded;
pub(crate) mod floor;
pub(crate) mod machine;
pub(crate) mod missing;
pub(crate) mod notes;
pub(crate) mod reached;
pub(crate) mod record;
pub(crate) mod required_release;
pub(crate) mod requirements;
pub(crate) mod rocm_version;
pub(crate) mod traces;
pub(crate) mod unchecked;
pub(crate) mod verdict;
pub(crate) mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

pub(crate) use rocwheel_content::archive_path::file_name;
use rocwheel_imports::at_import::{self, LoaderFile};
use rocwheel_imports::preload::{PreloadList, Preloads};
use rocwheel_index::requirement::InstallTarget;
use rocwheel_loader::facts::{Object, SiteFacts, WindowsObject};
use rocwheel_loader::simulation::FileNames;
use rocwheel_loader::site::{Distribution, Role, Site};
use rocwheel_progress::{Reporter, few_in_backticks, in_backticks};
use rocwheel_wheel::{Platform, PlatformTag};

use crate::Error;
use crate::declared::Declared;
use crate::finding::{Code, Finding};
use crate::options::{AuditScope, Options};
use record::RecordState;
use requirements::Requirements;
use traces::Rooted;
use windows::Imported;

/// The input that all checks share.
pub(crate) struct Context<'a> {
    pub(crate) site: &'a Site,
    pub(crate) facts: &'a SiteFacts,
    pub(crate) options: &'a Options,
    pub(crate) reporter: &'a dyn Reporter,
    pub(crate) declared: Declared,
    /// What each wheel requires, by the number of the wheel.
    pub(crate) requirements: Vec<Requirements>,
    /// The requirements on Windows, if the set has wheels for Windows beside others.
    on_windows: Option<Vec<Requirements>>,
    /// The libraries that packages load before anything else.
    pub(crate) preloads: Preloads,
    /// The loader's answers, for every file of an audited wheel that a process could start from.
    pub(crate) rooted: Vec<Rooted>,
    /// Programs and libraries of audited wheels that nothing is seen to load or start.
    pub(crate) unreached: BTreeSet<&'a str>,
    /// The DLLs that the files of audited wheels for Windows import.
    pub(crate) imported: Vec<Imported<'a>>,
    /// The state of each audited wheel's RECORD, by the number of the wheel.
    pub(crate) records: BTreeMap<usize, RecordState>,
    /// Missing libraries, computed when the first check asks for them.
    missing: OnceLock<Vec<Finding>>,
    pub(crate) names: FileNames<'a>,
    /// The paths of each wheel, sorted; by the number of the wheel.
    paths: Vec<Vec<&'a str>>,
    /// The ELF files of each wheel, by path.
    objects: Vec<Vec<(&'a str, &'a Object)>>,
    /// The Python files of each wheel that load libraries, read on first use.
    loader_files: Vec<OnceLock<Vec<LoaderFile>>>,
    /// Whether each wheel is linked to PyTorch, computed when a library is missing.
    linked_to_torch: Vec<OnceLock<bool>>,
}

impl<'a> Context<'a> {
    /// Asks the loader, and reads requirements, preload lists and RECORDs.
    pub(crate) fn new(
        site: &'a Site,
        facts: &'a SiteFacts,
        options: &'a Options,
        reporter: &'a dyn Reporter,
    ) -> Result<Context<'a>, Error> {
        let mut paths = vec![Vec::new(); site.distributions.len()];
        for (path, placed) in &site.files {
            paths[placed.wheel].push(path.as_str());
        }
        let mut objects = vec![Vec::new(); site.distributions.len()];
        for (path, object) in &facts.objects {
            if let Some(placed) = site.files.get(path) {
                objects[placed.wheel].push((path.as_str(), object));
            }
        }
        let glibc = options.glibc.as_ref().and_then(|glibc| {
            let text = glibc.to_string();
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let platforms: Vec<Vec<String>> = site.distributions.iter().map(Distribution::platforms).collect();
        let platform = Platform::of_wheels(platforms.iter().map(Vec::as_slice));
        let target = InstallTarget { python: site.place.python, platform, glibc };
        let declared = Declared::read(site, &target);
        let requirements = required_on(site, &declared, &target);
        let is_mixed = platform != Platform::Windows && site.distributions.iter().any(is_for_windows);
        let on_windows = InstallTarget { platform: Platform::Windows, ..target };
        let on_windows = is_mixed.then(|| required_on(site, &declared, &on_windows));
        let mut context = Context {
            site,
            facts,
            options,
            reporter,
            declared,
            requirements,
            on_windows,
            preloads: match options.scope {
                AuditScope::Files => Preloads::read(site),
                AuditScope::Names => Preloads::default(),
            },
            rooted: Vec::new(),
            unreached: BTreeSet::new(),
            imported: Vec::new(),
            records: record::read(site, options, reporter)?,
            missing: OnceLock::new(),
            names: FileNames::of(site),
            paths,
            objects,
            loader_files: site.distributions.iter().map(|_| OnceLock::new()).collect(),
            linked_to_torch: site.distributions.iter().map(|_| OnceLock::new()).collect(),
        };
        if options.scope == AuditScope::Files {
            context.rooted = traces::trace(&context)?;
            context.unreached = reached::unreached(&context);
            context.imported = windows::imported(&context);
        }
        Ok(context)
    }

    /// Adds the missing libraries whose finding has a code ([`missing`]).
    pub(crate) fn missing_libraries(&self, code: Code, findings: &mut Vec<Finding>) {
        if self.options.scope == AuditScope::Files {
            let missing = self.missing.get_or_init(|| missing_libraries(self));
            findings.extend(missing.iter().filter(|finding| finding.code == code).cloned());
        }
    }

    /// Adds the faults of installations that have this code.
    pub(crate) fn install_faults(&self, code: Code, findings: &mut Vec<Finding>) {
        let faults = self.options.install.iter().filter(|fault| fault.code == code);
        findings.extend(faults.map(|fault| Finding::new(code, &fault.subject, &fault.message).of(&fault.wheel)));
    }

    /// `true` if an index was asked for the requirements.
    pub(crate) fn has_asked(&self) -> bool {
        self.options.search.as_ref().is_some_and(|search| search.has_index)
    }

    /// The audited wheels with their numbers (indices into [`Site::distributions`]).
    pub(crate) fn audited(&self) -> impl Iterator<Item = (usize, &'a Distribution)> {
        self.site.distributions.iter().enumerate().filter(|(_, wheel)| wheel.role == Role::Audited)
    }

    pub(crate) fn is_audited(&self, wheel: usize) -> bool {
        self.site.distributions[wheel].role == Role::Audited
    }

    /// The paths of a wheel, sorted.
    pub(crate) fn paths(&self, wheel: usize) -> &[&'a str] {
        &self.paths[wheel]
    }

    /// The ELF files of a wheel, for any purpose and machine.
    pub(crate) fn objects(&self, wheel: usize) -> impl Iterator<Item = (&'a str, &'a Object)> {
        self.objects[wheel].iter().copied()
    }

    /// The programs and libraries of a wheel that the loader simulation covers.
    pub(crate) fn native(&self, wheel: usize) -> impl Iterator<Item = (&'a str, &'a Object)> {
        self.objects(wheel).filter(|(_, object)| object.is_native())
    }

    /// The programs and libraries in a wheel for 64-bit Windows; empty for other wheels.
    pub(crate) fn windows_files(&self, wheel: usize) -> impl Iterator<Item = (&'a str, &'a WindowsObject)> {
        let is_for_windows = is_for_windows(&self.site.distributions[wheel]);
        self.windows_files_of_any(wheel).filter(move |_| is_for_windows)
    }

    /// The programs and libraries for 64-bit Windows in a wheel, whatever its tags.
    pub(crate) fn windows_files_of_any(&self, wheel: usize) -> impl Iterator<Item = (&'a str, &'a WindowsObject)> {
        let facts = self.facts;
        let files = self.paths[wheel].iter().filter_map(move |path| Some((*path, facts.windows.get(*path)?.as_ref()?)));
        files.filter(|(_, file)| file.is_native())
    }

    /// `true` for a wheel for musl: by its tags or, if they only say Linux, by the libraries that
    /// its files need.
    pub(crate) fn is_for_musl(&self, wheel: usize) -> bool {
        let platforms = self.site.distributions[wheel].platforms();
        if platforms.iter().any(|tag| tag.starts_with("manylinux")) {
            return false;
        }
        let mut needed = self.native(wheel).flat_map(|(_, object)| &object.elf.needed);
        platforms.iter().any(|tag| tag.starts_with("musllinux")) || needed.any(|name| name.starts_with("libc.musl-"))
    }

    /// The number of the wheel that installs a path.
    pub(crate) fn owner(&self, path: &str) -> Option<usize> {
        self.site.files.get(path).map(|placed| placed.wheel)
    }

    /// The member of a wheel that is installed at `path`; the path itself if no wheel has it.
    pub(crate) fn member(&self, path: &str) -> String {
        self.site.files.get(path).map_or_else(|| path.to_owned(), |placed| placed.member.clone())
    }

    /// The Python file of a wheel that loads a library of the wheel by its path, if reading the
    /// files shows one.
    pub(crate) fn loader_file(&self, wheel: usize, library: &str) -> Option<&str> {
        let files = self.loader_files[wheel].get_or_init(|| at_import::loader_files(self.site, wheel));
        files.iter().find(|file| file.names(library)).map(|file| file.path.as_str())
    }

    pub(crate) fn lists(&self, wheel: usize) -> impl Iterator<Item = &PreloadList> {
        self.preloads.lists.iter().filter(move |list| self.owner(&list.file) == Some(wheel))
    }

    /// The number of the wheel with this canonical name that a system can install.
    pub(crate) fn named_on(&self, platform: Platform, name: &str) -> Option<usize> {
        let mut wheels = self.site.distributions.iter();
        wheels.position(|wheel| wheel.name == name && platform.takes(&wheel.platforms()))
    }

    pub(crate) fn required_on(&self, platform: Platform, wheel: usize) -> &Requirements {
        let on_windows = self.on_windows.as_ref().filter(|_| platform == Platform::Windows);
        &on_windows.unwrap_or(&self.requirements)[wheel]
    }

    /// Creates a finding about some files of a wheel, given by their paths.
    pub(crate) fn finding<'p>(
        &self,
        (code, wheel): (Code, usize),
        subject: impl Into<String>,
        message: impl Into<String>,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Finding {
        let paths: Vec<&str> = paths.into_iter().collect();
        let decides = paths.is_empty() || paths.iter().any(|path| !self.unreached.contains(path));
        let members = paths.into_iter().map(|path| self.member(path));
        let finding = Finding::new(code, subject, message).of(self.site.distributions[wheel].file_name());
        Finding { decides, ..finding.in_files(members) }
    }
}

/// All libraries that the audited files lack, on Linux and on Windows.
fn missing_libraries(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    missing::missing(context, &mut findings);
    windows::missing(context, &mut findings);
    missing::loaded_by_name(context, &mut findings);
    findings
}

/// `true` if the tags name Windows on x86-64. A wheel for any platform is not counted: it may hold
/// files for all of them.
pub(crate) fn is_for_windows(distribution: &Distribution) -> bool {
    distribution.platforms().iter().any(|platform| platform == rocwheel_tables::windows::PLATFORM)
}

/// The requirements of each wheel whose markers hold for a target.
fn required_on(site: &Site, declared: &Declared, target: &InstallTarget) -> Vec<Requirements> {
    let wheels = site.distributions.iter().enumerate();
    wheels
        .map(|(number, wheel)| Requirements::of(&wheel.name, declared, number, &target.of_wheel(&wheel.platforms())))
        .collect()
}

/// The platform tags of a distribution, as text and parsed.
pub(crate) fn platform_tags(installed: &Distribution) -> impl Iterator<Item = (String, PlatformTag)> {
    installed.platforms().into_iter().map(|tag| (tag.clone(), PlatformTag::parse(&tag)))
}

/// The words `` `a`, `b` were not given``. All names are listed: each of these requirements may
/// bring what is missing.
pub(crate) fn not_given(names: &[String]) -> String {
    let were = if names.len() == 1 { "was" } else { "were" };
    format!("{} {were} not given", in_backticks(names))
}

/// At most three names in backticks, and the number of the others.
pub(crate) fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    few_in_backticks(names, 3)
}
