//! `rocwheel artifact fetch`: the artifacts of a CI run, or a release, in; a directory out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::flatten::Replaceable;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::store::open_bucket;
use rocwheel_fetch::{
    ArtifactFilter, ArtifactSource, BuildSystem, BuildTopology, ChecksumSource, DownloadCache, FetchForm, FetchOptions,
    FetchPlan, FetchState, FetchedArtifact, GitHub, HttpSource, NamePattern, RunPlace, RunQuery, StoreSource,
    StreamType, WorkflowRun,
};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_store::{FolderStore, S3Address, S3Options, Signing, StoreLocking};
use serde::Serialize;

use crate::{artifact_import, artifact_inputs};

const PLANNED: [Column; 3] = [("Artifact", Left), ("Size", Right), ("Checksum", Left)];
const FETCHED: [Column; 4] = [("Artifact", Left), ("Size", Right), ("Verified by", Left), ("From", Left)];
/// The API that GitHub's own runners name in GITHUB_API_URL.
const GITHUB: &str = "https://api.github.com";
/// Where the tarballs of releases are in their buckets.
const TARBALLS: &str = "v4/tarball";

/// Fetch the artifacts of a CI run
///
/// Archives are downloaded side by side, compared with their checksums, kept in a cache, and
/// unpacked as they arrive. `rocwheel package --artifacts` reads the output. A second run skips
/// what the output has, and continues what was interrupted.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("run").args(["run_id", "commit", "latest_good", "release"]))]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Number of the run on GitHub
    #[arg(long, value_name = "ID", required_unless_present_any = ["commit", "latest_good", "release", "from"])]
    run_id: Option<String>,
    /// The newest run with artifacts of this commit (asks GitHub)
    #[arg(long, value_name = "SHA")]
    commit: Option<String>,
    /// The newest run with artifacts that ended well (asks GitHub)
    #[arg(long)]
    latest_good: bool,
    /// The tarball of a release, imported as artifacts: `7.12.0a20260519`
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["include", "exclude", "components", "stage", "group", "wait_for"])]
    release: Option<String>,
    /// Where the runs are: a bucket, web server or directory with folders `ID-PLATFORM`; without a
    /// run, the folder itself [default: TheRock's bucket for the release type]
    #[arg(long, value_name = "s3://…|URL|DIR")]
    from: Option<String>,
    /// Kind of build: ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release [default: ci, or
    /// that of the version]
    #[arg(long, value_name = "TYPE", conflicts_with = "from")]
    release_type: Option<String>,
    /// Repository of the run; nightly builds run in `ROCm/rockrel`
    #[arg(long, value_name = "OWNER/NAME", default_value = "ROCm/TheRock")]
    repository: String,
    /// The code of the run comes from a fork of the repository (known if GitHub is asked)
    #[arg(long)]
    fork: bool,
    /// Workflow whose runs are searched
    #[arg(long, value_name = "NAME", default_value = "multi_arch_ci.yml")]
    workflow: String,
    /// Branch that --latest-good searches
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,
    #[command(flatten)]
    selection: SelectionArguments,
    /// Directory for the artifacts
    #[arg(short, long, value_name = "DIR", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Unpack archives, as is the default
    #[arg(long, overrides_with_all = ["no_extract", "flatten"])]
    extract: bool,
    /// Keep archives packed
    #[arg(long, conflicts_with = "flatten")]
    no_extract: bool,
    /// Combine all artifacts into one tree, an installed ROCm
    #[arg(long)]
    flatten: bool,
    /// Replace directories in the output that this command did not make
    #[arg(long)]
    force: bool,
    /// Folder for downloaded archives [default: `artifacts` in ROCWHEEL_CACHE or the user's cache]
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Keep no archives: each is removed when it is unpacked
    #[arg(long)]
    no_cache: bool,
    /// Downloads at the same time
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub connections: u16,
    /// First wait until artifacts of these names or patterns are there; may be repeated
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    wait_for: Vec<String>,
    /// Longest wait for them in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "wait_for")]
    timeout: u64,
    /// Print what would be fetched, and fetch nothing
    #[arg(long)]
    dry_run: bool,
    /// Address of the S3 server, for servers other than AWS [default: AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Send no credentials, as is the default if the environment has none
    #[arg(long)]
    anonymous: bool,
}

/// Options that choose artifacts. All of them have to agree.
#[derive(Debug, Args)]
pub(crate) struct SelectionArguments {
    /// System of the build
    #[arg(long, value_name = "SYSTEM", default_value = "linux")]
    platform: SystemArgument,
    /// What this stage of the build needs from earlier stages; `all`: every artifact
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// What this group of the build's topology consists of
    #[arg(long, value_name = "NAME", conflicts_with = "stage")]
    group: Option<String>,
    /// TheRock's table of stages and groups
    #[arg(long, value_name = "FILE", default_value = "BUILD_TOPOLOGY.toml")]
    topology: PathBuf,
    /// Of artifacts for GPUs, only these targets and families, separated by commas; `generic`: none
    #[arg(long, visible_alias = "families", value_name = "LIST")]
    targets: Option<String>,
    /// Only these components: lib, run, dbg, dev, doc, test
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    components: Vec<String>,
    /// Only artifacts like `blas_lib_*`, or `regex:…`; each pattern has to match; may be repeated
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    include: Vec<String>,
    /// No artifacts like this; each pattern has to match; may be repeated
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    exclude: Vec<String>,
    /// The caller has checked the names in `--exclude`, and the run may lack some.
    #[arg(long, hide = true)]
    exclude_may_miss: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SystemArgument {
    Linux,
    Windows,
}

impl From<SystemArgument> for BuildSystem {
    fn from(system: SystemArgument) -> Self {
        match system {
            SystemArgument::Linux => Self::Linux,
            SystemArgument::Windows => Self::Windows,
        }
    }
}

impl SelectionArguments {
    fn filter(&self) -> Result<ArtifactFilter> {
        let components = self.components.iter();
        let components = components.map(|name| artifact_inputs::parse_component(name).map(|_| name.clone()));
        let targets = self.targets.as_deref().unwrap_or_default().split([',', ';']).map(str::trim);
        Ok(ArtifactFilter {
            artifacts: self.artifacts()?,
            components: components.collect::<Result<_, Usage>>()?,
            targets: targets.filter(|target| !target.is_empty()).map(str::to_owned).collect(),
            include: patterns(&self.include)?,
            exclude: patterns(&self.exclude)?,
            exclude_may_miss: self.exclude_may_miss,
        })
    }

    fn artifacts(&self) -> Result<Option<std::collections::BTreeSet<String>>> {
        let (kind, name) = match (&self.stage, &self.group) {
            (Some(stage), _) if stage != "all" => ("stage", stage),
            (None, Some(group)) => ("group", group),
            _ => return Ok(None),
        };
        let topology = BuildTopology::read(&self.topology)?;
        let (artifacts, known) = match kind {
            "stage" => (topology.needed_by(name), topology.stages()),
            _ => (topology.of_group(name), topology.groups()),
        };
        let artifacts = artifacts.ok_or_else(|| {
            Usage::new(format!("`{}` has no {kind} `{name}`", self.topology.display()))
                .hint(format!("there are {}", known.join(", ")))
        });
        Ok(Some(artifacts?))
    }
}

fn patterns(texts: &[String]) -> Result<Vec<NamePattern>> {
    texts.iter().map(|text| NamePattern::parse(text)).collect()
}

/// The run that is wanted.
#[derive(Debug)]
enum WantedRun {
    Number(String),
    Search(RunQuery),
    /// `--from` names its folder.
    Folder,
    Release(String),
}

/// The value of `--from`. An address may have a password, which no log shows.
struct Origin(String);

impl std::fmt::Debug for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&rocwheel_source::without_secret(&self.0), formatter)
    }
}

#[derive(Debug)]
pub struct Settings {
    run: WantedRun,
    from: Option<Origin>,
    kind: Option<StreamType>,
    repository: String,
    is_fork: bool,
    workflow: String,
    system: BuildSystem,
    filter: ArtifactFilter,
    pub output: PathBuf,
    form: FetchForm,
    existing: Replaceable,
    cache: DownloadCache,
    connections: usize,
    awaited: Vec<NamePattern>,
    patience: Duration,
    pub mode: Mode,
    endpoint: Option<String>,
    anonymous: bool,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let filter = arguments.selection.filter()?;
        let run = match (arguments.run_id, arguments.commit, arguments.release) {
            (Some(id), ..) => WantedRun::Number(id),
            (_, Some(commit), _) => WantedRun::Search(RunQuery::Commit(commit)),
            (.., Some(version)) => WantedRun::Release(version),
            _ if arguments.latest_good => WantedRun::Search(RunQuery::LatestGood(arguments.branch)),
            _ => WantedRun::Folder,
        };
        let output = arguments.output.unwrap_or_else(|| PathBuf::from("artifacts"));
        let cache = cache(arguments.cache, arguments.no_cache, &output)?;
        Ok(Self {
            run,
            from: arguments.from.map(Origin),
            kind: arguments.release_type.as_deref().map(StreamType::parse).transpose()?,
            repository: arguments.repository,
            is_fork: arguments.fork,
            workflow: arguments.workflow,
            system: arguments.selection.platform.into(),
            filter,
            output,
            form: match (arguments.no_extract, arguments.flatten) {
                (true, _) => FetchForm::Archives,
                (_, true) => FetchForm::Tree,
                _ => FetchForm::Directories,
            },
            existing: if arguments.force { Replaceable::Anything } else { Replaceable::OnlyOurs },
            cache,
            connections: arguments.connections.into(),
            awaited: patterns(&arguments.wait_for)?,
            patience: Duration::from_secs(arguments.timeout),
            mode: Mode::new(arguments.dry_run),
            endpoint: arguments.s3_endpoint,
            anonymous: arguments.anonymous,
        })
    }
}

/// The folder for archives. That of a run without a cache lies beside the output, where the next
/// run continues.
fn cache(given: Option<PathBuf>, no_cache: bool, output: &Path) -> Result<DownloadCache, Usage> {
    if no_cache {
        let absolute = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
        let name = absolute.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(DownloadCache::new(absolute.with_file_name(format!(".{name}.rocwheel-fetch")), false));
    }
    let folder = given.or_else(|| environment::cache().map(|cache| cache.join("artifacts")));
    let folder = folder.ok_or_else(|| {
        Usage::new("there is no home for a cache").hint("name a folder with `--cache DIR`, or add `--no-cache`")
    })?;
    Ok(DownloadCache::new(folder, true))
}

/// The folder with the artifacts.
struct FoundRun {
    source: Box<dyn ArtifactSource>,
    id: Option<String>,
}

/// Fetches, or prints what would be fetched.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    if let WantedRun::Release(version) = &settings.run {
        return release(settings, version, printer);
    }
    let (found, plan) = choose(settings, printer)?;
    if settings.mode == Mode::DryRun {
        return show_plan(&found, &plan, printer);
    }
    let options = FetchOptions {
        output: settings.output.clone(),
        form: settings.form,
        connections: settings.connections,
        existing: settings.existing,
    };
    let fetched = rocwheel_fetch::fetch(&plan, &*found.source, &settings.cache, &options, printer.reporter())?;
    let output = settings.output.display().to_string();
    printer.outputs(&[
        ("artifacts", &output),
        ("source", &plan.source),
        ("run_id", found.id.as_deref().unwrap_or("")),
    ])?;
    show(settings, &found, &plan, &fetched, printer)?;
    Ok(Exit::Done)
}

/// The newest run that has what is wanted. Runs of a commit may have ended before they made
/// anything.
fn choose(settings: &Settings, printer: &Printer) -> Result<(FoundRun, FetchPlan)> {
    let query = match &settings.run {
        WantedRun::Number(id) => return settings.plan(settings.open(Some(id), settings.is_fork, printer)?, printer),
        WantedRun::Search(query) => query,
        WantedRun::Folder | WantedRun::Release(_) => {
            return settings.plan(settings.open(None, false, printer)?, printer);
        }
    };
    let base = environment::first_of(&["GITHUB_API_URL"]).unwrap_or_else(|| GITHUB.to_owned());
    let token = environment::first_of(&["GITHUB_TOKEN", "GH_TOKEN"]);
    let github = GitHub::new(&base, token, environment::proxy().as_deref())?;
    let mut first = None;
    for WorkflowRun { id, is_fork, commit } in github.runs(&settings.repository, &settings.workflow, query)? {
        match settings.plan(settings.open(Some(&id), is_fork, printer)?, printer) {
            Ok(found) => {
                printer.note(format!("run {id} of commit {commit}"));
                return Ok(found);
            }
            Err(error) if error.exit() == Exit::Failed => {
                printer.detail(format!("run {id}: {error}"));
                first = first.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    // There is at least one run, or `runs` would have failed.
    Err(first.unwrap_or_else(|| Failure::message("no run has artifacts")))
}

impl Settings {
    /// The folder of a run; without one, that of `--from`.
    fn open(&self, id: Option<&str>, is_fork: bool, printer: &Printer) -> Result<FoundRun> {
        let id = id.map(str::to_owned);
        let Some(Origin(from)) = &self.from else {
            let place = RunPlace::new(self.kind.unwrap_or(StreamType::Ci), &self.repository, is_fork)?;
            let address = place.address(id.as_deref().unwrap_or_default(), self.system)?;
            let source = self.bucket(address, Some(RunPlace::region()), printer)?;
            return Ok(FoundRun { source, id });
        };
        let folder = match &id {
            Some(id) => rocwheel_fetch::folder_of_run(id, self.system)?,
            None => String::new(),
        };
        let source: Box<dyn ArtifactSource> = if S3Address::is_meant(from) {
            let address =
                if folder.is_empty() { from.clone() } else { format!("{}/{folder}", from.trim_end_matches('/')) };
            let address: S3Address =
                address.parse().map_err(|reason| Usage::new(format!("`{from}` is no store: {reason}")))?;
            self.bucket(address, None, printer)?
        } else if from.starts_with("http://") || from.starts_with("https://") {
            let address = format!("{}/{folder}", from.trim_end_matches('/'));
            Box::new(HttpSource::new(&address, environment::http("https")?)?)
        } else {
            if !Path::new(from).is_dir() {
                return Err(Usage::new(format!("there is no directory `{from}`"))
                    .hint("`--from` takes a bucket (`s3://…`), an address (`https://…`) or a directory")
                    .into());
            }
            Box::new(StoreSource::new(Box::new(FolderStore::open(Path::new(from))?), folder))
        };
        Ok(FoundRun { source, id })
    }

    fn plan(&self, found: FoundRun, printer: &Printer) -> Result<(FoundRun, FetchPlan)> {
        let wait = (self.awaited.as_slice(), self.patience);
        let plan = rocwheel_fetch::plan(&*found.source, &self.filter, wait, printer.reporter())?;
        Ok((found, plan))
    }

    fn bucket(&self, address: S3Address, region: Option<&str>, printer: &Printer) -> Result<Box<dyn ArtifactSource>> {
        const CREDENTIALS: [&str; 4] = [
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ];
        let variables = environment::aws_variables();
        let is_signed = variables.iter().any(|(name, value)| CREDENTIALS.contains(&name.as_str()) && !value.is_empty());
        let options = S3Options {
            address,
            endpoint: self.endpoint.clone(),
            signing: if self.anonymous || !is_signed { Signing::Anonymous } else { Signing::Credentials },
            locking: StoreLocking::External,
            variables,
            owner: String::new(),
        };
        let options = match region {
            Some(region) => options.in_region(region),
            None => options,
        };
        Ok(Box::new(StoreSource::new(Box::new(open_bucket(&options, printer)?), "")))
    }
}

/// Fetches the tarball of a release and imports it.
fn release(settings: &Settings, version: &str, printer: &Printer) -> Result<Exit> {
    let group = match settings.filter.targets.as_slice() {
        [] => "multiarch".to_owned(),
        [one] => one.clone(),
        _ => {
            return Err(Usage::new("a release has one tarball for each family").hint("name one of `--targets`").into());
        }
    };
    let name = format!("therock-dist-{}-{group}-{version}.tar.gz", settings.system);
    let source = if settings.from.is_some() {
        settings.open(None, false, printer)?.source
    } else {
        let kind = settings.kind.unwrap_or_else(|| StreamType::of_version(version));
        let address = S3Address { bucket: kind.tarball_bucket()?, prefix: TARBALLS.to_owned() };
        settings.bucket(address, Some(RunPlace::region()), printer)?
    };
    if settings.mode == Mode::DryRun {
        printer.line(format!("{}/{name}", source.name()))?;
        return Ok(Exit::Done);
    }
    let tarball = rocwheel_fetch::fetch_file(&*source, &name, &settings.cache, printer.reporter())?;
    if settings.form == FetchForm::Archives {
        fs_err::create_dir_all(&settings.output)?;
        let path = settings.output.join(&name);
        rocwheel_fetch::place_file(&tarball, &path)?;
        printer.line(path.display().to_string())?;
        return Ok(Exit::Done);
    }
    if settings.form == FetchForm::Tree {
        return Err(Usage::new("the tarball of a release is not flattened here")
            .hint("fetch it without `--flatten`, then run `rocwheel artifact flatten DIR --output TREE`")
            .into());
    }
    let import = artifact_import::Settings::of_tarball(tarball, settings.output.clone());
    artifact_import::command(&import, printer)
}

#[derive(Serialize)]
struct Document<'a, T> {
    source: &'a str,
    run_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a Path>,
    artifacts: &'a [T],
}

fn show_plan(found: &FoundRun, plan: &FetchPlan, printer: &Printer) -> Result<Exit> {
    let (source, run_id) = (plan.source.as_str(), found.id.as_deref());
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { source, run_id, output: None, artifacts: &plan.artifacts })?;
        return Ok(Exit::Done);
    }
    let rows = plan.artifacts.iter().map(|planned| {
        let checksum = if planned.has_checksum { "sidecar" } else { "none" };
        vec![planned.artifact.to_string(), size_text(planned.size), checksum.to_owned()]
    });
    printer.table(&PLANNED, rows)?;
    let bytes = plan.artifacts.iter().map(|planned| planned.size).sum();
    let count = message::count(plan.artifacts.len() as u64, "artifact", "artifacts");
    printer.note(format!("would fetch {count}, {} from `{source}`", size_text(bytes)));
    Ok(Exit::Done)
}

/// Listings of web servers have no sizes.
fn size_text(size: Option<u64>) -> String {
    size.map_or_else(|| "unknown size".to_owned(), message::bytes)
}

fn show(
    settings: &Settings,
    found: &FoundRun,
    plan: &FetchPlan,
    fetched: &[FetchedArtifact],
    printer: &Printer,
) -> Result<()> {
    let (source, run_id, output) = (plan.source.as_str(), found.id.as_deref(), Some(settings.output.as_path()));
    if printer.format() == ResultFormat::Json {
        return printer.json(&Document { source, run_id, output, artifacts: fetched });
    }
    let rows = fetched.iter().map(|artifact| {
        let checksum = match artifact.checksum {
            ChecksumSource::Sidecar => "its sidecar",
            ChecksumSource::Store => "the store",
            ChecksumSource::None => "its size",
        };
        let state = match artifact.state {
            FetchState::Fetched => "the store",
            FetchState::Cached => "the cache",
            FetchState::Unchanged => "the output",
        };
        vec![artifact.artifact.to_string(), size_text(artifact.size), checksum.to_owned(), state.to_owned()]
    });
    printer.table(&FETCHED, rows)?;
    let without = fetched.iter().filter(|artifact| artifact.checksum == ChecksumSource::None).count();
    if without > 0 {
        let count = message::count(without as u64, "artifact has", "artifacts have");
        printer.warn(format!("{count} no checksum in `{source}`: only sizes were compared"));
    }
    let count = message::count(fetched.len() as u64, "artifact is", "artifacts are");
    printer.note(format!("{count} in `{}`", settings.output.display()));
    Ok(())
}
