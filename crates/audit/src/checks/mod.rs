//! Input: a [`Site`] and its [`Facts`]. Output: a [`Report`], everything that is the matter with
//! the audited wheels.
//!
//! One module for each kind of question; what they have in common is the [`Context`], with what the
//! loader answered for every file that a process could start from.

mod layout;
mod libraries;
mod library_path;
mod platform;
mod preloads;
mod python;
mod record;
mod requirements;
mod rocm;
mod search_path;
mod stable_abi;
mod symbols;
mod system_symbols;
mod traces;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use rocwheel_report::Reporter;
use rocwheel_wheel::edit::Pattern;
use rocwheel_wheel::manylinux::Release;
use serde::Serialize;

use crate::Error;
use crate::declared::{Declared, System};
use crate::finding::{Code, Finding};
use crate::preload::at_import::{self, LoaderFile};
use crate::preload::{PreloadList, Preloads};
use crate::report::{Counts, Environment, Report, WheelSummary};
use requirements::Requirements;
use rocwheel_index::requirement::{Platform, Target};
use rocwheel_loader::facts::{Facts, Object, WindowsFile};
use rocwheel_loader::simulation::Root;
use rocwheel_loader::site::{Distribution, Form, Role, Site};
use traces::Rooted;
use windows::Imported;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The oldest glibc that the set has to work with; without it only what the tags promise is
    /// asked for.
    pub glibc: Option<Release>,
    /// What else is looked at.
    pub extras: BTreeSet<Extra>,
    /// Findings that nobody wants to see.
    pub ignore: BTreeSet<Code>,
    /// Findings to ignore when every file they name matches the pattern. A pattern without a slash
    /// is compared with the file name only.
    pub ignore_in: Vec<(Code, Pattern)>,
    /// How much is looked at.
    pub scope: Scope,
    /// A machine on which `LD_LIBRARY_PATH` is set; what would be different there is looked at too.
    pub library_path: Option<SetLibraryPath>,
}

/// A machine on which `LD_LIBRARY_PATH` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLibraryPath {
    /// Its files.
    pub machine: Root,
    /// The directories, absolute.
    pub directories: Vec<String>,
}

/// How much of the wheels is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Everything.
    #[default]
    Files,
    /// Names, requirements on each other and RECORD, for wheels whose files and requirements are
    /// known to be as before: [`Facts`] may be empty.
    Names,
}

/// What is looked at only when asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extra {
    /// Whether the hashes of RECORD are those of the files, which means to unpack all of them.
    Hashes,
    /// Whether all GPU code is what it says, which means to read it.
    GpuCode,
    /// Whether Windows could install the wheels, also where no tag says so.
    WindowsPaths,
    /// Whether the wheels are for the Python of the environment, because somebody named it.
    Python,
}

/// Asks everything.
///
/// # Errors
/// [`Error::Interrupted`], and [`Error::Wheel`] when a wheel cannot be read any more.
pub fn audit(site: &Site, facts: &Facts, options: &Options, reporter: &dyn Reporter) -> Result<Report, Error> {
    let context = Context::new(site, facts, options, reporter)?;
    let mut findings = Vec::new();
    if options.scope == Scope::Files {
        files(&context, &mut findings)?;
    }
    layout::check(&context, &mut findings);
    requirements::unmet(&context, &mut findings);
    record::check(&context, &mut findings)?;
    let mut ignored: BTreeMap<String, u64> = BTreeMap::new();
    findings.retain(|finding| {
        let wanted = !options.ignore.contains(&finding.code) && !is_ignored(finding, &options.ignore_in);
        if !wanted {
            *ignored.entry(finding.code.text().to_owned()).or_default() += 1;
        }
        wanted
    });
    findings.sort_by(|one, other| one.key().cmp(&other.key()));
    crate::fix::say_versions(&context, &mut findings);
    findings.dedup();
    Ok(Report {
        environment: Environment {
            python: site.place.python.to_string(),
            glibc: options.glibc.as_ref().map(ToString::to_string),
            library_path: options.library_path.as_ref().map(|set| set.directories.clone()).unwrap_or_default(),
        },
        wheels: summaries(&context),
        counts: Counts::of(&findings),
        findings,
        ignored,
        scenarios: traces::summaries(&context),
        loads: traces::loads(&context),
        notes: platform::limits(&context),
    })
}

/// `true` if every file of a finding matches a pattern that ignores its code.
fn is_ignored(finding: &Finding, ignored: &[(Code, Pattern)]) -> bool {
    let matches = |file: &String| {
        ignored.iter().filter(|(code, _)| *code == finding.code).any(|(_, pattern)| {
            pattern.matches(file) || !pattern.text().contains('/') && pattern.matches(file_name(file))
        })
    };
    finding.file.is_some() && finding.file.iter().chain(&finding.related).all(matches)
}

/// What is asked of the files.
fn files(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    libraries::check(context, findings);
    windows::check(context, findings);
    library_path::check(context, findings)?;
    search_path::check(context, findings);
    symbols::check(context, findings)?;
    platform::check(context, findings);
    python::check(context, findings);
    stable_abi::check(context, findings);
    rocm::check(context, findings)?;
    preloads::check(context, findings);
    requirements::unneeded(context, findings)
}

/// What the checks share.
pub(crate) struct Context<'a> {
    pub(crate) site: &'a Site,
    pub(crate) facts: &'a Facts,
    pub(crate) options: &'a Options,
    pub(crate) reporter: &'a dyn Reporter,
    /// What the wheels declare of each other.
    pub(crate) declared: Declared,
    /// What is required, by the number of the wheel.
    pub(crate) requirements: Vec<Requirements>,
    /// The same for Windows alone, where wheels for it stand beside others.
    on_windows: Option<Vec<Requirements>>,
    /// What packages load before anything else.
    pub(crate) preloads: Preloads,
    /// What the loader answered, for every file of an audited wheel that a process could start
    /// from.
    pub(crate) rooted: Vec<Rooted>,
    /// What the files of audited wheels for Windows ask for.
    pub(crate) imported: Vec<Imported<'a>>,
    /// Paths of each wheel, sorted.
    paths: Vec<Vec<&'a str>>,
    /// The Python files of each wheel that load libraries, read when they are first asked for.
    loader_files: Vec<OnceLock<Vec<LoaderFile>>>,
}

impl<'a> Context<'a> {
    fn new(
        site: &'a Site,
        facts: &'a Facts,
        options: &'a Options,
        reporter: &'a dyn Reporter,
    ) -> Result<Context<'a>, Error> {
        let mut paths = vec![Vec::new(); site.distributions.len()];
        for (path, placed) in &site.files {
            paths[placed.wheel].push(path.as_str());
        }
        let glibc = options.glibc.as_ref().and_then(|glibc| {
            let text = glibc.to_string();
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let platforms: Vec<Vec<String>> = site.distributions.iter().map(Distribution::platforms).collect();
        let platform = Platform::of(platforms.iter().map(Vec::as_slice), glibc);
        let target = Target { python: site.place.python, platform };
        let declared = Declared::read(site, &target);
        let required = |target: &Target| -> Vec<Requirements> {
            let distributions = site.distributions.iter().zip(&platforms).enumerate();
            let of = |(wheel, (distribution, platforms)): (usize, (&Distribution, &Vec<String>))| {
                Requirements::of(&distribution.name, &declared, wheel, &target.of_wheel(platforms))
            };
            distributions.map(of).collect()
        };
        let requirements = required(&target);
        let is_mixed = platform != Platform::Windows && site.distributions.iter().any(windows::is_for);
        let on_windows = is_mixed.then(|| required(&Target { platform: Platform::Windows, ..target.clone() }));
        let mut context = Context {
            site,
            facts,
            options,
            reporter,
            declared,
            requirements,
            on_windows,
            preloads: match options.scope {
                Scope::Files => Preloads::read(site),
                Scope::Names => Preloads::default(),
            },
            rooted: Vec::new(),
            imported: Vec::new(),
            paths,
            loader_files: site.distributions.iter().map(|_| OnceLock::new()).collect(),
        };
        if options.scope == Scope::Files {
            context.rooted = traces::trace(&context)?;
            context.imported = windows::imported(&context);
        }
        Ok(context)
    }

    /// The audited wheels with their numbers.
    pub(crate) fn audited(&self) -> impl Iterator<Item = (usize, &'a Distribution)> {
        self.site.distributions.iter().enumerate().filter(|(_, wheel)| wheel.role == Role::Audited)
    }

    /// Whether the wheel of this number is audited.
    pub(crate) fn is_audited(&self, wheel: usize) -> bool {
        self.site.distributions[wheel].role == Role::Audited
    }

    /// The paths of a wheel.
    pub(crate) fn paths(&self, wheel: usize) -> &[&'a str] {
        &self.paths[wheel]
    }

    /// ELF files of a wheel, whatever they are for.
    pub(crate) fn objects(&self, wheel: usize) -> impl Iterator<Item = (&'a str, &'a Object)> {
        let facts = self.facts;
        self.paths[wheel].iter().filter_map(move |path| Some((*path, facts.objects.get(*path)?)))
    }

    /// Programs and libraries of a wheel that the loader is asked for.
    pub(crate) fn native(&self, wheel: usize) -> impl Iterator<Item = (&'a str, &'a Object)> {
        self.objects(wheel).filter(|(_, object)| object.is_native())
    }

    /// Programs and libraries of a wheel for 64-bit Windows that it is asked for; of other wheels
    /// none.
    pub(crate) fn windows_files(&self, wheel: usize) -> impl Iterator<Item = (&'a str, &'a WindowsFile)> {
        let facts = self.facts;
        let paths = if windows::is_for(&self.site.distributions[wheel]) { &self.paths[wheel][..] } else { &[] };
        let files = paths.iter().filter_map(move |path| Some((*path, facts.windows.get(*path)?.as_ref()?)));
        files.filter(|(_, file)| file.is_native())
    }

    /// `true` for a wheel for musl: by its tags or, if they only say Linux, by the libraries that
    /// its files need.
    pub(crate) fn is_for_musl(&self, wheel: usize) -> bool {
        let platforms = self.site.distributions[wheel].platforms();
        if platforms.iter().any(|tag| tag.starts_with("manylinux")) {
            return false;
        }
        let is_musls =
            |(_, object): (&str, &Object)| object.elf.needed.iter().any(|library| library.starts_with("libc.musl-"));
        platforms.iter().any(|tag| tag.starts_with("musllinux")) || self.native(wheel).any(is_musls)
    }

    /// The number of the wheel that a path comes from.
    pub(crate) fn owner(&self, path: &str) -> Option<usize> {
        self.site.files.get(path).map(|placed| placed.wheel)
    }

    /// The member that lies at a path.
    pub(crate) fn member(&self, path: &str) -> String {
        self.site.files.get(path).map_or_else(|| path.to_owned(), |placed| placed.member.clone())
    }

    /// The Python file of a wheel that loads a library of it by its path, as far as can be read.
    pub(crate) fn loader_file(&self, wheel: usize, library: &str) -> Option<&str> {
        let files = self.loader_files[wheel].get_or_init(|| at_import::loader_files(self.site, wheel));
        files.iter().find(|file| file.names(library)).map(|file| file.path.as_str())
    }

    /// The preload lists of a wheel.
    pub(crate) fn lists(&self, wheel: usize) -> impl Iterator<Item = &PreloadList> {
        self.preloads.lists.iter().filter(move |list| self.owner(&list.file) == Some(wheel))
    }

    /// The wheel of this canonical name that a system installs.
    pub(crate) fn named_on(&self, system: System, name: &str) -> Option<usize> {
        let is_it = |wheel: &Distribution| wheel.name == name && system.takes(&wheel.platforms());
        self.site.distributions.iter().position(is_it)
    }

    /// What a wheel requires on a system.
    pub(crate) fn required_on(&self, system: System, wheel: usize) -> &Requirements {
        let on_windows = self.on_windows.as_ref().filter(|_| system == System::Windows);
        &on_windows.unwrap_or(&self.requirements)[wheel]
    }

    /// A finding about some files of a wheel.
    pub(crate) fn finding<'p>(
        &self,
        (code, wheel): (Code, usize),
        subject: impl Into<String>,
        message: impl Into<String>,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Finding {
        let members = paths.into_iter().map(|path| self.member(path));
        Finding::new(code, subject, message).of(self.site.distributions[wheel].file_name()).in_files(members)
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The words `` `a`, `b` were not given``. All names are listed: each of these requirements may
/// bring what is missing.
pub(crate) fn not_given(names: &[String]) -> String {
    let were = if names.len() == 1 { "was" } else { "were" };
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {were} not given", names.join(", "))
}

/// Some names in backticks, and how many more there are.
pub(crate) fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 3;
    let names: Vec<&str> = names.into_iter().collect();
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

fn summaries(context: &Context<'_>) -> Vec<WheelSummary> {
    let of = |(index, installed): (usize, &Distribution)| {
        let (files, bytes) = installed.totals();
        WheelSummary {
            path: installed.path.to_string_lossy().into_owned(),
            file: installed.file_name(),
            name: installed.metadata.get("Name").unwrap_or_else(|| installed.name.clone()),
            version: installed.version(),
            form: match installed.form {
                Form::Wheel(_) => "wheel",
                Form::Installed(_) => "installed",
            },
            role: match installed.role {
                Role::Audited => "audited",
                Role::Beside => "beside",
            },
            size: installed.size(),
            installed: bytes,
            files,
            objects: (context.native(index).count() + context.windows_files(index).count()) as u64,
            platforms: installed.platforms(),
            floor: platform::floor(context, index),
            cpu: platform::cpu(context, index),
        }
    };
    let all = context.site.distributions.iter().enumerate();
    let mut wheels: Vec<(usize, &Distribution)> = all.filter(|(_, distribution)| !distribution.is_rest()).collect();
    wheels.sort_by_key(|(_, wheel)| std::cmp::Reverse(wheel.role));
    wheels.into_iter().map(of).collect()
}
