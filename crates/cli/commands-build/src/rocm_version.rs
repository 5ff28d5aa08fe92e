//! `rocwheel rocm-version`: computes the version of a build's packages, or tells which of two
//! versions pip prefers.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{ArgGroup, Args, ValueEnum};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_package::version::{self, Date, ReleaseType, Request, VersionFile, VersionForm};
use rocwheel_progress::Context;
use rocwheel_progress::Exit;

/// The file of TheRock's sources with the base version.
const VERSION_FILE: &str = "version.json";

/// Compute the version of ROCm packages, or find which of two versions pip prefers
///
/// Prints the version of the wheels, the Debian packages and the RPM packages. In a GitHub step it
/// also writes them to the step's outputs as `rocm_package_version`, `rocm_deb_package_version` and
/// `rocm_rpm_package_version`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("form").required(true).args(["release_type", "custom_version_suffix", "compare"]))]
pub struct Arguments {
    /// Purpose of the build
    #[arg(long, value_name = "TYPE")]
    release_type: Option<ReleaseTypeArgument>,
    /// Append this to the base version instead, unchanged
    #[arg(long, value_name = "SUFFIX", allow_hyphen_values = true)]
    custom_version_suffix: Option<String>,
    /// Number of the release candidate, for release type prerelease
    #[arg(long, value_name = "N")]
    prerelease_version: Option<u32>,
    /// Base version X.Y.Z [default: `rocm-version` of version.json]
    #[arg(long, value_name = "VERSION")]
    override_base_version: Option<String>,
    /// Commit for the types ci, dev and dev-bkc [default: GITHUB_SHA, else `git rev-parse HEAD`]
    #[arg(long, value_name = "SHA")]
    override_git_sha: Option<String>,
    /// TheRock's version.json [default: the one in the working directory]
    #[arg(long, value_name = "FILE")]
    version_json: Option<PathBuf>,
    /// Day of the build as YYYYMMDD [default: today, in this machine's time zone]
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Number of the day's repeated build, from 1: appends `.postN`
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    rerun: u32,
    /// Print which of two versions pip prefers, and why
    #[arg(long, num_args = 2, value_names = ["VERSION", "OTHER"])]
    #[arg(conflicts_with_all = [
        "prerelease_version", "override_base_version", "override_git_sha", "version_json", "date", "rerun",
    ])]
    compare: Option<Vec<String>>,
}

/// The release types as clap lists them; the library defines them.
#[derive(Debug, Clone, Copy)]
struct ReleaseTypeArgument(ReleaseType);

impl ValueEnum for ReleaseTypeArgument {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [ReleaseTypeArgument; ReleaseType::ALL.len()] = {
            let mut all = [ReleaseTypeArgument(ReleaseType::Release); ReleaseType::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = ReleaseTypeArgument(ReleaseType::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.shape()))
    }
}

#[derive(Debug)]
pub enum Settings {
    /// Computes a version.
    Compute {
        /// The parts of the version.
        request: Request,
    },
    /// Compares two versions.
    Compare {
        /// The first version.
        left: String,
        /// The second version.
        right: String,
    },
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if let Some([left, right]) = arguments.compare.as_deref() {
            return Ok(Self::Compare { left: left.clone(), right: right.clone() });
        }
        let form = match (arguments.release_type, arguments.custom_version_suffix) {
            (Some(release_type), _) => VersionForm::Type(release_type.0),
            (None, Some(suffix)) => VersionForm::Suffix(suffix),
            (None, None) => return Err(Usage::new("the release type is missing").into()),
        };
        settings(
            form,
            VersionSources {
                prerelease: arguments.prerelease_version,
                base: arguments.override_base_version,
                commit: arguments.override_git_sha,
                version_file: arguments.version_json,
                date: arguments.date,
                rerun: arguments.rerun,
            },
        )
    }
}

/// The given parts of a version.
#[derive(Debug, Default)]
pub struct VersionSources {
    /// Number of the release candidate.
    pub prerelease: Option<u32>,
    /// `X.Y.Z`; `None` for that of the version file.
    pub base: Option<String>,
    /// Commit; `None` for that of the environment or the working directory.
    pub commit: Option<String>,
    /// The version file; `None` for the one in the working directory.
    pub version_file: Option<PathBuf>,
    /// Date as YYYYMMDD; `None` for today.
    pub date: Option<String>,
    /// Number of the repetition of the day's build.
    pub rerun: u32,
}

/// The settings for a version of this form; missing parts are read from the environment.
pub fn settings(form: VersionForm, sources: VersionSources) -> Result<Settings> {
    let file = read_version_file(sources.version_file.as_deref())?;
    let base_date = file.as_ref().and_then(|file| file.base_date);
    let base = sources.base.or(file.map(|file| file.rocm_version)).ok_or_else(|| {
        Usage::new(format!("there is no {VERSION_FILE} in the working directory to take the base version from"))
            .hint("add `--version-json FILE` or `--override-base-version X.Y.Z`")
    })?;
    let date = match sources.date {
        Some(text) => text.parse()?,
        None => Date::from(environment::today()),
    };
    let needs_commit = matches!(form, VersionForm::Type(release_type) if release_type.needs_commit());
    let commit = sources.commit.or_else(|| if needs_commit { environment::commit() } else { None });
    let (prerelease, rerun) = (sources.prerelease, sources.rerun);
    Ok(Settings::Compute { request: Request { base, form, prerelease, base_date, date, commit, rerun } })
}

/// Reads the given file, or the one in the working directory if it exists.
pub fn read_version_file(given: Option<&std::path::Path>) -> Result<Option<VersionFile>> {
    let path = given.map_or_else(|| PathBuf::from(VERSION_FILE), PathBuf::from);
    match fs_err::read_to_string(&path) {
        Ok(text) => Ok(Some(VersionFile::parse(&text, &path.display().to_string())?)),
        Err(error) if given.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("cannot read the base version"),
    }
}

/// Prints versions, or a comparison.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    match settings {
        Settings::Compute { request } => {
            let versions = request.versions()?;
            printer.outputs(&[
                ("rocm_package_version", &versions.wheel),
                ("rocm_deb_package_version", &versions.deb),
                ("rocm_rpm_package_version", &versions.rpm),
            ])?;
            printer.summarise(
                &["Package", "Version"],
                &[("wheel", &versions.wheel), ("deb", &versions.deb), ("rpm", &versions.rpm)],
            );
            match printer.format() {
                ResultFormat::Json => printer.json(&versions)?,
                ResultFormat::Text => {
                    printer
                        .line(format!("wheel  {}\ndeb    {}\nrpm    {}", versions.wheel, versions.deb, versions.rpm))?;
                }
            }
        }
        Settings::Compare { left, right } => {
            let comparison = version::compare(left, right)?;
            if printer.format() == ResultFormat::Json {
                printer.json(&comparison)?;
                return Ok(Exit::Done);
            }
            match &comparison.preferred {
                Some(preferred) => printer.line(preferred)?,
                None => printer.line("equal")?,
            }
            for reason in &comparison.reasons {
                printer.note(reason);
            }
            for warning in &comparison.warnings {
                printer.warn(warning);
            }
        }
    }
    Ok(Exit::Done)
}
