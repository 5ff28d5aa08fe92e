//! `rocwheel rocm-version`: which version the packages of a build get, or which of two versions pip prefers.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::builder::PossibleValue;
use clap::{ArgGroup, Args, ValueEnum};
use package::version::{self, Date, Form, ReleaseType, Request, VersionFile, Versions};
use report::Exit;

use crate::environment;
use crate::failure::Usage;
use crate::printer::{Format, Printer};

/// File of TheRock's sources that holds the base version.
const VERSION_FILE: &str = "version.json";

/// Work out the version of ROCm packages, or which of two versions pip prefers.
///
/// Prints the version of the wheels, the Debian packages and the RPM packages. In a GitHub step it also writes them
/// to the step's outputs as `rocm_package_version`, `rocm_deb_package_version` and `rocm_rpm_package_version`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("form").required(true).args(["release_type", "custom_version_suffix", "compare"]))]
pub(crate) struct Arguments {
    /// What the build is made for
    #[arg(long, value_name = "TYPE")]
    release_type: Option<ReleaseTypeArgument>,
    /// Append this to the base version instead, as it is
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
    /// Which repetition of the day's build this is, counted from 1: makes `.postN` of it
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    rerun: u32,
    /// Say instead which of two versions pip prefers, and why
    #[arg(long, num_args = 2, value_names = ["VERSION", "OTHER"])]
    #[arg(conflicts_with_all = [
        "prerelease_version", "override_base_version", "override_git_sha", "version_json", "date", "rerun",
    ])]
    compare: Option<Vec<String>>,
}

/// The release types as clap lists them; what they are is the library's.
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

/// What the command works with.
#[derive(Debug)]
pub(crate) enum Settings {
    /// Work out a version.
    Compute {
        /// From what.
        request: Request,
        /// Where GitHub collects the outputs of the step.
        github_output: Option<PathBuf>,
    },
    /// Compare two.
    Compare {
        /// One.
        left: String,
        /// The other.
        right: String,
    },
}

impl TryFrom<Arguments> for Settings {
    type Error = anyhow::Error;

    fn try_from(arguments: Arguments) -> anyhow::Result<Self> {
        if let Some([left, right]) = arguments.compare.as_deref() {
            return Ok(Self::Compare { left: left.clone(), right: right.clone() });
        }
        let form = match (arguments.release_type, arguments.custom_version_suffix) {
            (Some(release_type), _) => Form::Type(release_type.0),
            (None, Some(suffix)) => Form::Suffix(suffix),
            (None, None) => return Err(Usage::new("the release type is missing").into()),
        };
        let file = read_version_file(arguments.version_json.as_deref())?;
        let base_date = file.as_ref().and_then(|file| file.base_date);
        let base = arguments.override_base_version.or(file.map(|file| file.rocm_version)).ok_or_else(|| {
            Usage::new(format!("there is no {VERSION_FILE} in the working directory to take the base version from"))
                .hint("add `--version-json FILE` or `--override-base-version X.Y.Z`")
        })?;
        let date = match arguments.date {
            Some(text) => text.parse()?,
            None => Date::from(environment::today()),
        };
        let needs_commit = matches!(form, Form::Type(release_type) if release_type.needs_commit());
        let commit = arguments.override_git_sha.or_else(|| if needs_commit { environment::commit() } else { None });
        let request = Request {
            base,
            form,
            prerelease: arguments.prerelease_version,
            base_date,
            date,
            commit,
            rerun: arguments.rerun,
        };
        Ok(Self::Compute { request, github_output: environment::github_output() })
    }
}

/// The given file, or the one in the working directory if there is one.
fn read_version_file(given: Option<&std::path::Path>) -> anyhow::Result<Option<VersionFile>> {
    let path = given.map_or_else(|| PathBuf::from(VERSION_FILE), PathBuf::from);
    match fs_err::read_to_string(&path) {
        Ok(text) => Ok(Some(VersionFile::parse(&text, &path.display().to_string())?)),
        Err(error) if given.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("cannot read the base version"),
    }
}

/// Prints versions, or a comparison.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    match settings {
        Settings::Compute { request, github_output } => {
            let versions = request.versions()?;
            if let Some(path) = github_output {
                write_outputs(&versions, path)?;
            }
            match printer.format() {
                Format::Json => printer.json(&versions)?,
                Format::Text => {
                    printer
                        .line(format!("wheel  {}\ndeb    {}\nrpm    {}", versions.wheel, versions.deb, versions.rpm))?;
                }
            }
        }
        Settings::Compare { left, right } => {
            let comparison = version::compare(left, right)?;
            if printer.format() == Format::Json {
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

/// Appends, as GitHub wants it: earlier commands of the step may have written there.
fn write_outputs(versions: &Versions, path: &std::path::Path) -> anyhow::Result<()> {
    let lines = format!(
        "rocm_package_version={}\nrocm_deb_package_version={}\nrocm_rpm_package_version={}\n",
        versions.wheel, versions.deb, versions.rpm
    );
    fs_err::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(lines.as_bytes()))
        .context("cannot write the outputs of the GitHub step (GITHUB_OUTPUT)")
}
