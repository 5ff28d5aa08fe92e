//! `rocwheel compat artifact_manager`: today's flags for `rocwheel artifact fetch` and `push`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use rocwheel_artifact::Component;
use rocwheel_commands_wheel::artifact_fetch::SystemArgument;
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_fetch::{BuildTopology, RunPlace, StreamType};
use rocwheel_progress::suggestion;
use rocwheel_tables::TargetTable;

use super::fetch_artifacts::{Run, Transport, TransportArguments, begin, platform, repository};
use super::given;
use super::translation::Translation;

/// artifact_manager: the artifacts of a run, fetched and pushed by stages of the build
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
pub(super) enum Arguments {
    /// Fetch what a stage needs
    Fetch(Box<FetchArguments>),
    /// Pack and upload what a stage made
    Push(PushArguments),
    /// Fetch what stages of another run made, and push it
    Copy(Box<CopyArguments>),
    /// Print what a stage makes and needs
    Info(InfoArguments),
    /// Print the stages
    ListStages(TopologyArguments),
}

#[derive(Debug, Args)]
pub(super) struct TopologyArguments {
    /// BUILD_TOPOLOGY.toml of TheRock
    #[arg(long, value_name = "FILE", default_value = "BUILD_TOPOLOGY.toml")]
    topology: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    topology: TopologyArguments,
    /// Number of the run [default: THEROCK_RUN_ID, GITHUB_RUN_ID, `local`]
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// System of the build [default: THEROCK_PLATFORM, linux]
    #[arg(long)]
    platform: Option<SystemArgument>,
    /// Repository of the run [default: GITHUB_REPOSITORY, else ROCm/TheRock]
    #[arg(long, value_name = "OWNER/NAME")]
    run_github_repo: Option<String>,
    /// A directory instead of the bucket [default: THEROCK_LOCAL_STAGING_DIR]
    #[arg(long, value_name = "DIR")]
    local_staging_dir: Option<PathBuf>,
    #[command(flatten)]
    transport: TransportArguments,
}

impl RunArguments {
    fn id(&self) -> String {
        let id = given(self.run_id.clone()).or_else(|| environment::first_of(&["THEROCK_RUN_ID", "GITHUB_RUN_ID"]));
        id.unwrap_or_else(|| "local".to_owned())
    }

    fn platform(&self) -> SystemArgument {
        self.platform
            .or_else(|| SystemArgument::from_str(&environment::first_of(&["THEROCK_PLATFORM"])?, true).ok())
            .unwrap_or(SystemArgument::Linux)
    }

    fn staging(&self) -> Option<PathBuf> {
        self.local_staging_dir.clone().or_else(|| Some(environment::first_of(&["THEROCK_LOCAL_STAGING_DIR"])?.into()))
    }
}

#[derive(Debug, Args)]
pub(super) struct TargetArguments {
    /// GPU families, separated by `;`
    #[arg(long, value_name = "LIST", conflicts_with = "generic_only")]
    amdgpu_families: Option<String>,
    /// Only artifacts without GPU code
    #[arg(long)]
    generic_only: bool,
    /// GPU targets, separated by commas
    #[arg(long, value_name = "LIST")]
    amdgpu_targets: Option<String>,
    /// Also the targets of the families, as is the default here
    #[arg(long)]
    expand_family_to_targets: bool,
}

impl TargetArguments {
    fn add_to(self, translation: &mut Translation) {
        let mut targets = vec!["generic".to_owned()];
        for list in [self.amdgpu_families, self.amdgpu_targets].iter().flatten() {
            targets.extend(split(list));
        }
        if self.expand_family_to_targets {
            let table = TargetTable::embedded();
            let families = targets.iter().filter(|word| table.expand(word).is_ok_and(|all| !all.is_empty())).count();
            translation.note(format!("`--expand-family-to-targets` is the default ({families} families)"));
        }
        translation.option("--targets", Some(targets.join(",")));
    }
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct FetchArguments {
    #[command(flatten)]
    run: RunArguments,
    /// Stage whose needs are fetched; `all`: every artifact
    #[arg(long, value_name = "NAME", default_value = "all")]
    stage: String,
    #[command(flatten)]
    targets: TargetArguments,
    /// Directory whose folder `artifacts` gets the artifacts, or the tree
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Not here: lays artifacts into TheRock's build tree
    #[arg(long, conflicts_with = "flatten")]
    bootstrap: bool,
    /// Lay artifacts over each other
    #[arg(long)]
    flatten: bool,
    /// Keep archives packed
    #[arg(long)]
    no_extract: bool,
    /// Folder in which archives are kept
    #[arg(long, value_name = "DIR")]
    download_cache_dir: Option<PathBuf>,
    /// Downloads at the same time
    #[arg(long, value_name = "N", default_value_t = 10)]
    download_concurrency: u16,
    /// Without effect: each archive is unpacked when it is complete
    #[arg(long, value_name = "N")]
    extract_concurrency: Option<u16>,
    /// Components that are not fetched
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    exclude_components: String,
    /// Artifacts that are not fetched
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    exclude_artifacts: String,
}

#[derive(Debug, Args)]
pub(super) struct PushArguments {
    #[command(flatten)]
    run: RunArguments,
    /// Stage whose artifacts are pushed; `all`: every artifact
    #[arg(long, value_name = "NAME")]
    stage: String,
    /// Directory of the build, with a folder `artifacts`
    #[arg(long, value_name = "DIR")]
    build_dir: PathBuf,
    /// Format of the archives
    #[arg(long, value_name = "TYPE", default_value = "zstd")]
    compression_type: String,
    /// How hard to compress
    #[arg(long, value_name = "N")]
    compression_level: Option<u32>,
    /// Without effect: `--jobs` is the number of threads
    #[arg(long, value_name = "N")]
    compress_concurrency: Option<u16>,
    /// Without effect: files are uploaded side by side
    #[arg(long, value_name = "N")]
    upload_concurrency: Option<u16>,
}

#[derive(Debug, Args)]
pub(super) struct CopyArguments {
    #[command(flatten)]
    run: RunArguments,
    /// Number of the run whose artifacts are copied
    #[arg(long, value_name = "ID")]
    source_run_id: String,
    /// Repository of that run [default: GITHUB_REPOSITORY, else ROCm/TheRock]
    #[arg(long, value_name = "OWNER/NAME")]
    source_repository: Option<String>,
    /// Where that run's artifacts are
    #[arg(long, value_name = "KIND")]
    source_transport: Option<Transport>,
    /// Stages whose artifacts are copied, separated by commas
    #[arg(long, value_name = "LIST")]
    stage: String,
    #[command(flatten)]
    targets: TargetArguments,
    /// Downloads at the same time
    #[arg(long, value_name = "N", default_value_t = 10)]
    concurrency: u16,
    /// Print what would be copied
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct InfoArguments {
    #[command(flatten)]
    topology: TopologyArguments,
    /// The stage
    #[arg(long, value_name = "NAME")]
    stage: String,
    /// GPU families whose file names are printed, separated by `;`
    #[arg(long, value_name = "LIST")]
    amdgpu_families: Option<String>,
}

/// The answer to a call of the script: a command of ours, or lines to print.
pub(super) enum Answer {
    Run(Translation),
    Lines(Vec<String>),
}

impl Arguments {
    pub(super) fn answer(self) -> Result<Answer> {
        Ok(match self {
            Self::Fetch(arguments) => Answer::Run(arguments.translated()?),
            Self::Push(arguments) => Answer::Run(arguments.translated()?),
            Self::Copy(arguments) => Answer::Run(arguments.translated()?),
            Self::ListStages(arguments) => {
                let topology = BuildTopology::read(&arguments.topology)?;
                Answer::Lines(topology.stages().into_iter().map(str::to_owned).collect())
            }
            Self::Info(arguments) => Answer::Lines(info(&arguments)?),
        })
    }
}

fn info(arguments: &InfoArguments) -> Result<Vec<String>> {
    let topology = BuildTopology::read(&arguments.topology.topology)?;
    let (Some(made), Some(needed)) = (topology.made_by(&arguments.stage), topology.needed_by(&arguments.stage)) else {
        return Err(no_stage(&arguments.stage, &topology).into());
    };
    let families = split(arguments.amdgpu_families.as_deref().unwrap_or_default());
    let mut lines = Vec::new();
    for (title, names) in [("makes", made), ("needs", needed)] {
        lines.push(format!("{} {title}:", arguments.stage));
        for name in names {
            lines.push(format!("  {name}"));
            lines.extend(families.iter().map(|family| format!("    {name}_*_{family}.tar.zst")));
        }
    }
    Ok(lines)
}

fn no_stage(stage: &str, topology: &BuildTopology) -> Usage {
    Usage::new(format!("there is no stage `{stage}`")).hint(format!("there are {}", topology.stages().join(", ")))
}

/// The words of a list with `;` or `,`.
fn split(list: &str) -> Vec<String> {
    list.split([';', ',']).map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Leaves out components: the others are named.
fn exclude_components(excluded: &[String], translation: &mut Translation) -> Result<()> {
    let unknown: Vec<&String> = excluded.iter().filter(|name| Component::parse(name).is_none()).collect();
    let known = Component::CHAIN.map(Component::name);
    unknown_names("component", &unknown, &known)?;
    let others: Vec<&str> = known.into_iter().filter(|name| !excluded.iter().any(|other| other == name)).collect();
    if others.is_empty() {
        return Err(Usage::new("`--exclude-components` leaves no component").into());
    }
    translation.option("--components", Some(others.join(",")).filter(|_| !excluded.is_empty()));
    Ok(())
}

/// Leaves out artifacts. A name of the topology may be that of an artifact which the run lacks; any
/// other name has to be in the run.
fn exclude_artifacts(excluded: &[String], topology: &Path, translation: &mut Translation) -> Result<()> {
    if topology.is_file() && !excluded.is_empty() {
        let topology = BuildTopology::read(topology)?;
        let known = topology.artifacts();
        let unknown: Vec<&String> = excluded.iter().filter(|name| !known.contains(&name.as_str())).collect();
        unknown_names("artifact", &unknown, &known)?;
        translation.word("--exclude-may-miss");
    }
    for artifact in excluded {
        translation.option("--exclude", Some(format!("{artifact}_*")));
    }
    Ok(())
}

/// The error for names of a list that do not exist.
fn unknown_names(kind: &str, unknown: &[&String], known: &[&str]) -> Result<()> {
    let Some(first) = unknown.first() else { return Ok(()) };
    let names: Vec<String> = unknown.iter().map(|name| format!("`{name}`")).collect();
    let usage = Usage::new(format!("there is no {kind} {}", names.join(", ")));
    Err(usage.hint(suggestion(first, known.iter().copied())).into())
}

impl FetchArguments {
    fn translated(self) -> Result<Translation> {
        if self.bootstrap {
            return Err(Usage::new("rocwheel lays no artifacts into TheRock's build tree")
                .hint("continue with today's script for `--bootstrap`, or use `--flatten` for an installed ROCm")
                .into());
        }
        let run = Run {
            id: self.run.id(),
            platform: self.run.platform(),
            repository: self.run.run_github_repo.clone(),
            staging: self.run.staging(),
            transport: self.run.transport.checked(self.run.staging().is_some())?,
        };
        let mut translation = begin(run);
        exclude_components(&split(&self.exclude_components), &mut translation)?;
        exclude_artifacts(&split(&self.exclude_artifacts), &self.run.topology.topology, &mut translation)?;
        if self.stage != "all" {
            translation.option("--stage", Some(self.stage));
            translation.option("--topology", Some(self.run.topology.topology));
        }
        self.targets.add_to(&mut translation);
        let output = if self.flatten { self.output_dir } else { self.output_dir.join("artifacts") };
        translation.option("--output", Some(output));
        translation.flag("--no-extract", self.no_extract);
        translation.flag("--flatten", self.flatten && !self.no_extract);
        translation.flag("--force", !self.flatten);
        translation.flag("--no-cache", self.download_cache_dir.is_none());
        translation.option("--cache", self.download_cache_dir);
        translation.option("--connections", Some(self.download_concurrency.to_string()));
        let why = "each archive is unpacked when it is complete";
        translation.without_effect("--extract-concurrency", self.extract_concurrency.is_some(), why);
        Ok(translation)
    }
}

impl CopyArguments {
    fn translated(self) -> Result<Translation> {
        let topology = BuildTopology::read(&self.run.topology.topology)?;
        let mut made = BTreeSet::new();
        for stage in split(&self.stage) {
            made.extend(topology.made_by(&stage).ok_or_else(|| no_stage(&stage, &topology))?);
        }
        if made.is_empty() {
            return Err(Usage::new("the stages of `--stage` make no artifacts").into());
        }
        let mut translation = begin(Run {
            id: self.source_run_id,
            platform: self.run.platform(),
            repository: self.source_repository,
            staging: self.run.staging(),
            transport: self.source_transport,
        });
        let made = Vec::from_iter(made).join("|");
        translation.option("--include", Some(format!("regex:^({made})_")));
        self.targets.add_to(&mut translation);
        translation.flag("--no-extract", true);
        translation.flag("--no-cache", true);
        translation.option("--connections", Some(self.concurrency.to_string()));
        let push = self.run.push()?;
        if self.dry_run {
            translation.word("--dry-run");
            translation.note(format!("`{}` would follow", push.line()));
        } else {
            translation.then("--output", push);
        }
        Ok(translation)
    }
}

impl RunArguments {
    /// The command line that pushes to the run, without what is pushed.
    fn push(&self) -> Result<Translation> {
        let mut translation = Translation::new("artifact push");
        let transport = self.transport.checked(self.staging().is_some())?;
        if transport == Some(Transport::Http) {
            return Err(Usage::new("`--transport http` only reads").hint("push with `s3` or `local`").into());
        }
        if let Some(staging) = self.staging().filter(|_| transport != Some(Transport::S3)) {
            translation.option("--to", Some(staging));
        } else {
            let kind = environment::first_of(&["RELEASE_TYPE"]).unwrap_or_else(|| "ci".to_owned());
            let repository = repository(self.run_github_repo.clone());
            let repository = repository.unwrap_or_else(|| "ROCm/TheRock".to_owned());
            let place = RunPlace::new(StreamType::parse(&kind)?, &repository, false)?;
            translation.option("--to", Some(place.store().to_string()));
        }
        translation.option("--run-id", Some(self.id()));
        translation.option("--platform", Some(platform(self.platform())));
        Ok(translation)
    }
}

impl PushArguments {
    fn translated(self) -> Result<Translation> {
        let mut translation = self.run.push()?;
        translation.word(self.build_dir.join("artifacts"));
        if self.stage != "all" {
            translation.option("--stage", Some(self.stage));
            translation.option("--topology", Some(self.run.topology.topology));
        }
        translation.option("--compression", Some(self.compression_type));
        translation.option("--level", self.compression_level.map(|level| level.to_string()));
        let why = "`--jobs` is the number of threads";
        translation.without_effect("--compress-concurrency", self.compress_concurrency.is_some(), why);
        let why = "files are uploaded side by side";
        translation.without_effect("--upload-concurrency", self.upload_concurrency.is_some(), why);
        Ok(translation)
    }
}
