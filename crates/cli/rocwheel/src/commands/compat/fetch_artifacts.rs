//! `rocwheel compat fetch_artifacts`: today's flags for `rocwheel artifact fetch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rocwheel_commands_wheel::artifact_fetch::SystemArgument;
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};

use super::given;
use super::translation::Translation;

/// fetch_artifacts: the artifacts of a CI run
///
/// A download that fails is an error here, and so is a pattern that matches nothing. The release
/// type is RELEASE_TYPE of the environment, as in the script.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// Regular expressions of artifacts to fetch, which match any part of a name
    #[arg(value_name = "INCLUDE")]
    include: Vec<String>,
    /// Regular expressions of artifacts to leave out
    #[arg(long, value_name = "REGEX", num_args = 0..)]
    exclude: Vec<String>,
    /// System of the build
    #[arg(long, default_value = "linux")]
    platform: SystemArgument,
    /// GPU family or bundle of the artifacts
    #[arg(long, visible_alias = "target", value_name = "NAME")]
    artifact_group: Option<String>,
    /// GPU targets, separated by commas
    #[arg(long, value_name = "LIST")]
    amdgpu_targets: Option<String>,
    /// Downloads at the same time
    #[arg(long, value_name = "N", default_value_t = 10)]
    download_concurrency: u16,
    /// Without effect: each archive is unpacked when it is complete
    #[arg(long, value_name = "N")]
    extract_concurrency: Option<u16>,
    /// Repository of the run [default: GITHUB_REPOSITORY, else ROCm/TheRock]
    #[arg(long, value_name = "OWNER/NAME")]
    run_github_repo: Option<String>,
    /// Number of the run
    #[arg(long, value_name = "ID")]
    run_id: String,
    #[command(flatten)]
    transport: TransportArguments,
    /// Directory for the artifacts
    #[arg(long, value_name = "DIR", default_value = "build/artifacts")]
    output_dir: PathBuf,
    /// Print what would be fetched
    #[arg(long, overrides_with = "no_dry_run")]
    dry_run: bool,
    /// Fetch, as is the default
    #[arg(long)]
    no_dry_run: bool,
    /// Keep archives packed
    #[arg(long, conflicts_with_all = ["extract", "flatten"])]
    no_extract: bool,
    /// Unpack archives, as is the default
    #[arg(long, conflicts_with = "flatten")]
    extract: bool,
    /// Lay artifacts over each other
    #[arg(long)]
    flatten: bool,
    /// Keep no archives, as is the default
    #[arg(long, overrides_with = "no_delete_after_extract")]
    delete_after_extract: bool,
    /// Keep archives, in rocwheel's cache
    #[arg(long)]
    no_delete_after_extract: bool,
}

impl Arguments {
    pub(super) fn translated(self) -> Result<Translation> {
        let mut translation = begin(Run {
            id: self.run_id,
            platform: self.platform,
            repository: self.run_github_repo,
            staging: None,
            transport: self.transport.checked(environment::first_of(&["THEROCK_LOCAL_STAGING_DIR"]).is_some())?,
        });
        let words = [given(self.artifact_group), given(self.amdgpu_targets)];
        let targets: Vec<String> = words.into_iter().flatten().collect();
        translation.option("--targets", (!targets.is_empty()).then(|| targets.join(",")));
        for (option, patterns) in [("--include", self.include), ("--exclude", self.exclude)] {
            for pattern in patterns.into_iter().filter(|pattern| !pattern.is_empty()) {
                translation.option(option, Some(format!("regex:{pattern}")));
            }
        }
        translation.option("--output", Some(self.output_dir));
        translation.flag("--no-extract", self.no_extract);
        translation.flag("--flatten", self.flatten);
        // The script replaces directories of artifacts, but never a whole tree.
        translation.flag("--force", !self.flatten);
        translation.flag("--no-cache", !self.no_delete_after_extract);
        translation.option("--connections", Some(self.download_concurrency.to_string()));
        translation.flag("--dry-run", self.dry_run);
        let why = "each archive is unpacked when it is complete";
        translation.without_effect("--extract-concurrency", self.extract_concurrency.is_some(), why);
        Ok(translation)
    }
}

const TRANSPORT: &str = "THEROCK_ARTIFACT_TRANSPORT";

/// How the scripts of TheRock's open change #7239 reach artifacts.
#[derive(Debug, Args)]
pub(super) struct TransportArguments {
    /// Where the artifacts are: the bucket with credentials (`s3`) or without (`http`), a folder
    #[arg(long, value_name = "KIND")]
    transport: Option<Transport>,
    /// Not here: name the bucket at `rocwheel artifact fetch --from` or `push --to`
    #[arg(long, value_name = "FILE")]
    bucket_config_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    Auto,
    S3,
    Http,
    Local,
}

impl TransportArguments {
    /// The kind of the flag or of the variable; `local` needs the folder.
    pub(super) fn checked(&self, has_folder: bool) -> Result<Option<Transport>> {
        if let Some(file) = &self.bucket_config_file {
            return Err(Usage::new(format!("`--bucket-config-file {}` is not read", file.display()))
                .hint("name the bucket: `rocwheel artifact fetch --from s3://BUCKET`, `rocwheel artifact push --to s3://BUCKET`")
                .into());
        }
        let mut transport = self.transport;
        if let Some(name) = environment::first_of(&[TRANSPORT]).filter(|_| transport.is_none()) {
            let known = Transport::from_str(&name, true);
            transport = Some(known.map_err(|_| {
                Usage::new(format!("`{TRANSPORT}={name}` is no transport")).hint("there are auto, s3, http and local")
            })?);
        }
        if transport == Some(Transport::Local) && !has_folder {
            return Err(Usage::new("`--transport local` needs the folder of the artifacts")
                .hint("`artifact_manager` takes it as `--local-staging-dir DIR`")
                .into());
        }
        Ok(transport)
    }
}

/// What all scripts say of a run.
pub(super) struct Run {
    pub(super) id: String,
    pub(super) platform: SystemArgument,
    pub(super) repository: Option<String>,
    pub(super) staging: Option<PathBuf>,
    pub(super) transport: Option<Transport>,
}

/// The words that name a run, with what the scripts take from the environment.
pub(super) fn begin(run: Run) -> Translation {
    let mut translation = Translation::new("artifact fetch");
    translation.option("--run-id", Some(run.id));
    translation.option("--platform", Some(platform(run.platform)));
    let staging = run.staging.or_else(|| environment::first_of(&["THEROCK_LOCAL_STAGING_DIR"]).map(PathBuf::from));
    let is_remote = matches!(run.transport, Some(Transport::S3 | Transport::Http));
    translation.flag("--anonymous", run.transport == Some(Transport::Http));
    if let Some(staging) = staging.filter(|_| !is_remote) {
        translation.option("--from", Some(staging));
    } else {
        translation.option("--repository", repository(run.repository));
        translation.option("--release-type", environment::first_of(&["RELEASE_TYPE"]));
    }
    translation
}

pub(super) fn platform(system: SystemArgument) -> &'static str {
    match system {
        SystemArgument::Linux => "linux",
        SystemArgument::Windows => "windows",
    }
}

/// The repository of the run: that of the flag, or of the job.
pub(super) fn repository(given: Option<String>) -> Option<String> {
    super::given(given).or_else(|| environment::first_of(&["GITHUB_REPOSITORY"]))
}

/// An expression that matches one of these words at the beginning of a name.
pub(super) fn one_of(words: &[String]) -> String {
    format!("regex:^({})", words.join("|"))
}
