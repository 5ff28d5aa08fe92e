//! The settings of a run.

use std::fmt;
use std::path::PathBuf;

use rocwheel_wheel::Platform;
use serde::Serialize;

use crate::Logical;

/// The distribution of GPU code over wheels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Neutral libraries and one device wheel for each target (TheRock with
    /// `KPACK_SPLIT_ARTIFACTS`).
    Split,
    /// Libraries, devel and selector once for each GPU family (TheRock before kpack).
    PerFamily,
    /// One libraries wheel with the code of every target inside (ROCm of a Linux distribution).
    Fat,
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Shape::Split => "split",
            Shape::PerFamily => "per-family",
            Shape::Fat => "fat",
        })
    }
}

/// Treatment of files that no rule claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unclaimed {
    /// List them in the plan.
    #[default]
    Report,
    /// Fail (`--strict`).
    Refuse,
}

/// Treatment of device code that the set's runtime cannot load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unsupported {
    #[default]
    Refuse,
    /// Package it anyway (`--force`).
    Allow,
}

/// Treatment of packages that would be incomplete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Incompletes {
    #[default]
    Refuse,
    /// Skip them and the packages that need them, and offer the rest (`--drop-incomplete`).
    Drop,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectorForm {
    /// A source distribution, which picks the packages for the machine that installs it.
    #[default]
    Sdist,
    /// A wheel, which picks nothing: every GPU target has a separate extra. For indexes that accept
    /// no sdist and for caches that several machines share (pitfalls 16).
    Wheel,
}

impl SelectorForm {
    /// Returns the folder below the output. If both forms are written, the wheel is in a separate
    /// folder: installers prefer a wheel and would ignore the sdist beside it.
    pub(crate) fn folder(self, forms: &[SelectorForm]) -> &'static str {
        if self == SelectorForm::Wheel && forms.len() > 1 { "dist-wheel" } else { "dist" }
    }
}

#[derive(Debug, Clone)]
pub struct Request {
    /// Folder with artifact directories or archives.
    pub artifacts: PathBuf,
    /// The system that the artifacts are for; `None` determines it from their files.
    pub system: Option<Platform>,
    /// Folder with the artifacts for Windows, if those for Linux and for Windows are packaged
    /// together ([`crate::plan_both`]).
    pub windows_artifacts: Option<PathBuf>,
    /// Output folder; the packages are written to `dist/` below it.
    pub output: PathBuf,
    /// Shape; `None` uses the shape in the manifest. Artifacts that were imported become
    /// [`Shape::Split`] instead if a wheel would be larger than `largest_wheel`.
    pub shape: Option<Shape>,
    /// Largest wheel that can be published, in bytes.
    pub largest_wheel: u64,
    /// Version of the packages; `None` uses the manifest's.
    pub version: Option<String>,
    /// Suffix of the import packages (`--version-suffix` of TheRock's current scripts).
    pub nonce: String,
    /// Targets and families to package on both systems; a missing one is an error, unless
    /// incomplete packages may be skipped. Empty packages all existing ones.
    pub targets: Vec<String>,
    /// Targets for Linux alone, instead of `targets`. A run without artifacts for Linux offers them
    /// in the selector: another run packages them.
    pub linux_targets: Vec<String>,
    /// Targets for Windows alone, with the same meaning.
    pub windows_targets: Vec<String>,
    /// Distributions to write; empty writes all.
    pub only: Vec<Logical>,
    /// Platform tag of the packages for the system that it names. `None` computes the lowest one
    /// that the symbols allow; for Windows it is `win_amd64`.
    pub platform_tag: Option<String>,
    pub level: rocwheel_archive::Level,
    /// Time stamp of every member, in seconds since 1970.
    pub epoch: u64,
    /// Earlier wheels whose packed bytes may be used.
    pub reuse: rocwheel_archive::PackedSource,
    pub unclaimed: Unclaimed,
    pub unsupported: Unsupported,
    pub incompletes: Incompletes,
    /// Libraries that may be missing; `*` matches any text.
    pub allow_unresolved: Vec<String>,
    pub selectors: Vec<SelectorForm>,
    /// Folder of templates with the Python code of the packages, instead of the built-in templates.
    pub templates: Option<PathBuf>,
}

/// Largest file that PyPI takes, after a request for more than the usual 100 MB, in bytes.
pub const PYPI: u64 = 1_000_000_000;

impl Request {
    pub(crate) fn targets_on(&self, system: Platform) -> &[String] {
        let own = self.only_on(system);
        if own.is_empty() { &self.targets } else { own }
    }

    /// Returns the targets that are requested for this system alone.
    pub(crate) fn only_on(&self, system: Platform) -> &[String] {
        match system {
            Platform::Linux => &self.linux_targets,
            Platform::Windows => &self.windows_targets,
        }
    }

    /// Creates the default settings: all existing targets, shape and version of the manifest,
    /// compressed, dated 1980-01-01.
    pub fn new(artifacts: PathBuf, output: PathBuf) -> Self {
        Self {
            artifacts,
            system: None,
            windows_artifacts: None,
            output,
            shape: None,
            largest_wheel: PYPI,
            version: None,
            nonce: String::new(),
            targets: Vec::new(),
            linux_targets: Vec::new(),
            windows_targets: Vec::new(),
            only: Vec::new(),
            platform_tag: None,
            level: rocwheel_archive::Level::Default,
            epoch: 315_532_800,
            reuse: rocwheel_archive::PackedSource::default(),
            unclaimed: Unclaimed::Report,
            unsupported: Unsupported::Refuse,
            incompletes: Incompletes::Refuse,
            allow_unresolved: Vec::new(),
            selectors: vec![SelectorForm::Sdist],
            templates: None,
        }
    }
}
