//! The environment variables, the working directory and the clock. Only this module reads them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use etcetera::BaseStrategy as _;
use rocwheel_index::settings::{ConfigurationFiles, Places, Told};
use rocwheel_index::{Credentials, Http};
use rocwheel_loader::cache::FactsCache;
use rocwheel_output::StagingFolder;
use rocwheel_progress::{Context, Hint};
use rocwheel_wheel::Platform;
use url::Url;

use crate::failure::{Failure, Result, Usage};

/// 1980-01-01, the earliest date of a ZIP file, in seconds since 1970.
const EPOCH: u64 = 315_532_800;

/// A command line whose options count an empty variable as unset, as the files of CI systems give
/// it: `ROCWHEEL_JOBS: ${{ inputs.jobs }}`.
pub fn without_empty_variables(program: clap::Command) -> clap::Command {
    program.mut_args(|argument| {
        let value = argument.get_env().and_then(std::env::var_os);
        if value.is_some_and(|value| value.is_empty()) { argument.env(None::<&'static str>) } else { argument }
    })
}

/// A command line whose general options read no variables, for words that rocwheel made itself.
pub fn without_variables(program: clap::Command) -> clap::Command {
    program.mut_args(|argument| argument.env(None::<&'static str>))
}

/// Time stamp of everything that is written, in seconds since 1970
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
pub fn epoch() -> Result<u64> {
    match std::env::var_os("SOURCE_DATE_EPOCH") {
        None => Ok(EPOCH),
        Some(text) if text.is_empty() => Ok(EPOCH),
        Some(text) => parse_epoch(&text.to_string_lossy()).map_err(Into::into),
    }
}

/// The present time in whole seconds: `SOURCE_DATE_EPOCH`, or that of the clock.
pub fn present() -> Result<jiff::Timestamp> {
    let seconds = match std::env::var_os("SOURCE_DATE_EPOCH") {
        Some(text) if !text.is_empty() => parse_epoch(&text.to_string_lossy())?.cast_signed(),
        _ => jiff::Timestamp::now().as_second(),
    };
    jiff::Timestamp::from_second(seconds).map_err(Failure::other)
}

fn parse_epoch(text: &str) -> Result<u64, Usage> {
    // 2107 is the last year of ZIP's date format.
    const LAST: u64 = 4_354_819_199;
    match text.parse::<u64>() {
        Ok(seconds) if text.bytes().all(|byte| byte.is_ascii_digit()) && seconds <= LAST => Ok(seconds),
        _ => Err(Usage::new(format!(
            "SOURCE_DATE_EPOCH is `{text}`, which is not a number of seconds up to the year 2107"
        ))
        .hint("unset it, or set it to what `git log -1 --format=%ct` prints")),
    }
}

pub fn directory() -> Result<PathBuf> {
    std::env::current_dir().context("cannot tell what the working directory is")
}

/// The folder for large temporary files if the user names none (`TMPDIR`).
pub fn scratch() -> PathBuf {
    std::env::temp_dir()
}

/// The folder for large temporary files of results in `folder`: `given` if the user names one,
/// otherwise the nearest existing parent, since the system's temporary folder may be in memory.
pub fn scratch_near(given: Option<&Path>, folder: Option<&Path>) -> PathBuf {
    match (given, folder) {
        (Some(given), _) => given.to_owned(),
        (None, None) => scratch(),
        (None, Some(folder)) => {
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
            let existing = folder.ancestors().find(|path| path.is_dir());
            existing.map_or_else(scratch, Path::to_owned)
        }
    }
}

/// A new directory for files that belong to `output`. It is outside of `output`, which is replaced
/// as a whole.
pub fn scratch_beside(given: Option<&Path>, output: Option<&Path>) -> Result<StagingFolder> {
    let output = output.map(std::path::absolute).transpose()?;
    scratch_below(&scratch_near(given, output.as_deref().map(|output| output.parent().unwrap_or(Path::new("/")))))
}

/// `true` if the HIP on this machine names clang as its compiler (in `HIP_PATH`, or where ROCm 5
/// had it). PyTorch up to 2.10 checks this before it converts kernel launches.
pub fn hip_compiler_is_clang() -> bool {
    let folder = std::env::var_os("HIP_PATH").map_or_else(|| PathBuf::from("/opt/rocm/hip"), PathBuf::from);
    fs_err::read_to_string(folder.join("lib/.hipInfo")).is_ok_and(|text| text.contains("HIP_COMPILER=clang"))
}

/// The folder for downloads: `ROCWHEEL_CACHE`, or `rocwheel` in the user's cache folder (XDG base
/// directory specification; `AppData\Local` on Windows); `None` without a home.
pub fn cache() -> Option<PathBuf> {
    let place = path_of_variable("ROCWHEEL_CACHE");
    let place = place.or_else(|| Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("rocwheel")))?;
    // Other processes could not resolve a relative path. It fails only without a working directory.
    Some(std::path::absolute(&place).unwrap_or(place))
}

fn path_of_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The facts about wheels that earlier runs of this program kept; `None` without a cache, or if the
/// file of the program was replaced or removed while it runs.
pub fn facts() -> Option<FactsCache> {
    FactsCache::new(&cache()?.join("facts"), &std::env::current_exe().ok()?)
}

/// The proxy in the environment for https addresses.
pub fn proxy() -> Option<String> {
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// A client for an address of this scheme, with the proxy of the environment and the users of the
/// netrc file: `NETRC`, or `.netrc` of the home directory.
pub fn http(scheme: &str) -> Result<Http> {
    let proxy = proxy().filter(|_| scheme == "https");
    let http = Http::new(proxy.as_deref()).map_err(|error| Failure::other(error).context("cannot set up HTTP"))?;
    let path = path_of_variable("NETRC").or_else(|| Some(etcetera::home_dir().ok()?.join(".netrc")));
    let Some(path) = path else { return Ok(http) };
    // As in pip, a file that is missing or cannot be read is ignored.
    let Ok(text) = fs_err::read_to_string(&path) else { return Ok(http) };
    let mut credentials = Credentials::default();
    credentials.add_netrc(&text).map_err(|_| {
        Usage::new(format!("`{}` is no netrc file", path.display()))
            .hint("its rows are `machine HOST login USER password PASSWORD`; NETRC names another file")
    })?;
    Ok(http.with_credentials(credentials))
}

/// The variables of AWS' own tools, such as `AWS_REGION`.
pub fn aws_variables() -> Vec<(String, String)> {
    text_variables().filter(|(name, _)| name.starts_with("AWS_")).collect()
}

/// What other runs are told about this one while they wait for it: `run 123 of GitHub Actions`, or
/// its process and user.
pub fn run_name() -> String {
    if let Ok(run) = std::env::var("GITHUB_RUN_ID") {
        return format!("run {run} of GitHub Actions");
    }
    let user = std::env::var("USER").map_or_else(|_| String::new(), |user| format!(" of {user}"));
    format!("process {}{user}", std::process::id())
}

/// A key in PEM that signs releases (`ROCWHEEL_SIGNING_KEY`), for CI systems that keep secrets in
/// variables.
pub fn signing_key() -> Result<Option<String>> {
    const NAME: &str = "ROCWHEEL_SIGNING_KEY";
    let Some(text) = std::env::var_os(NAME).filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = text.into_string().map_err(|_| Usage::new(format!("{NAME} is no text, and so no key in PEM")))?;
    Ok(Some(text))
}

/// Passwords and tokens that uv and twine upload with, so that no output has them.
pub fn upload_secrets() -> Vec<String> {
    const NAMES: [&str; 3] = ["TWINE_PASSWORD", "UV_PUBLISH_PASSWORD", "UV_PUBLISH_TOKEN"];
    NAMES.iter().filter_map(|name| std::env::var(name).ok()).collect()
}

/// The places in which pip and uv search for packages here, by their variables and files.
pub fn indexes() -> Result<Places> {
    let known = ConfigurationFiles {
        variable: &|name| std::env::var_os(name),
        home: etcetera::home_dir().ok(),
        platform: Platform::native(),
    };
    if let Some(named) = known.named_for_uv().filter(|named| !named.is_file()) {
        return Err(Usage::new(format!("UV_CONFIG_FILE is `{}`, which is not a file", named.display()))
            .hint("name a file in the format of uv.toml, or unset the variable")
            .into());
    }
    let (files, uv_files) = (read_existing(known.of_pip(), "pip")?, read_existing(known.of_uv(&directory()?), "uv")?);
    let places = Told { variable: &|name| std::env::var(name).ok(), files, uv_files }.places()?;
    for place in &places.all {
        // A missing one would look like an index without the project, and the next would be asked.
        let path = Url::parse(place).ok().filter(|url| url.scheme() == "file").map(|url| url.to_file_path());
        if let Some(path) = path
            && !path.as_ref().is_ok_and(|path| path.is_dir())
        {
            let message = format!("the index `{place}` is no folder ({})", places.said_by);
            return Err(Usage::new(message).hint("correct the setting: such a folder has one for each project").into());
        }
    }
    Ok(places)
}

/// Reads those of the configuration files that exist.
fn read_existing(paths: Vec<PathBuf>, whose: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for path in paths {
        match fs_err::read_to_string(&path) {
            Ok(text) => files.push((path, text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read a configuration file of {whose}")),
        }
    }
    Ok(files)
}

/// The environment variables for programs that this one starts.
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().map(|(name, value)| (rocwheel_system::variable_name(name), value))
}

/// The environment variables that are text.
pub fn text_variables() -> impl Iterator<Item = (String, String)> {
    variables().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The first of these variables that is set and not empty.
pub fn first_of(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
}

/// The number of compilers that may run at once (`MAX_JOBS`, the name that PyTorch's builds use).
pub fn max_jobs() -> Result<Option<u16>, Usage> {
    let Some(text) = first_of(&["MAX_JOBS"]) else { return Ok(None) };
    match text.parse() {
        Ok(0) | Err(_) => Err(Usage::new(format!("MAX_JOBS is `{text}`, which is not a number of jobs"))),
        Ok(jobs) => Ok(Some(jobs)),
    }
}

/// The version of the package rocm that a Python environment has.
pub fn installed_rocm(environment: &Path) -> Option<String> {
    let pythons = fs_err::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let packages = pythons.flat_map(|python| fs_err::read_dir(python.path().join("site-packages")));
    let packages = packages.flatten().flatten();
    let mut names = packages.filter_map(|entry| entry.file_name().into_string().ok());
    names.find_map(|name| Some(name.strip_prefix("rocm-")?.strip_suffix(".dist-info")?.to_owned()))
}

/// The path of this program, which containers run too.
pub fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot tell where this program is")
}

/// Finds a program in PATH.
pub fn program(name: &str) -> Option<PathBuf> {
    rocwheel_system::find_program(name, &std::env::var("PATH").ok()?)
}

/// A new directory below `parent`. It is removed when it goes out of scope; if this process is
/// killed, the next call removes it.
pub fn scratch_below(parent: &Path) -> Result<StagingFolder> {
    const PREFIX: &str = "rocwheel-";
    // A run that created the output folder had its directory beside it; the next run has it inside.
    if let Some(above) = parent.parent() {
        StagingFolder::sweep(above, PREFIX);
    }
    StagingFolder::new_in(parent, PREFIX).map_err(|source| NoScratch { parent: parent.to_owned(), source }.into())
}

/// No temporary directory can be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a temporary directory in `{}`", parent.display())]
struct NoScratch {
    parent: PathBuf,
    source: std::io::Error,
}

impl Hint for NoScratch {
    fn hint(&self) -> Option<String> {
        Some("name a folder that can be written to in TMPDIR, or with `--scratch` where a command has it".to_owned())
    }
}

/// The name of this machine.
pub fn host() -> Option<String> {
    let name = fs_err::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    name.or_else(|| first_of(&["COMPUTERNAME"])).filter(|name| !name.is_empty())
}

/// The present time of the clock: when a test ran is no property of what was built.
pub fn clock() -> jiff::Timestamp {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Today's date on this machine's clock, in its time zone.
pub fn today() -> jiff::civil::Date {
    jiff::Zoned::now().date()
}

/// The step of a job in which this program runs, if any.
#[derive(Debug, Default)]
pub struct Step {
    /// `true` if the log is GitHub's, which finds commands in it (`GITHUB_ACTIONS`).
    pub is_running: bool,
    /// The file for outputs (`GITHUB_OUTPUT`).
    pub output: Option<PathBuf>,
    /// The file for the summary (`GITHUB_STEP_SUMMARY`).
    pub summary: Option<PathBuf>,
}

/// The step of a GitHub job in which the program runs. Outputs are written wherever their file is
/// named.
pub fn github_step() -> Step {
    Step {
        is_running: std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
        output: path_of_variable("GITHUB_OUTPUT"),
        summary: path_of_variable("GITHUB_STEP_SUMMARY"),
    }
}

/// `true` if a panic should show a backtrace.
pub fn wants_backtrace() -> bool {
    std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
}

/// The commit that is built: `GITHUB_SHA`, or that of the working directory according to git.
pub fn commit() -> Option<String> {
    if let Ok(commit) = std::env::var("GITHUB_SHA")
        && !commit.is_empty()
    {
        return Some(commit);
    }
    let output =
        Command::new("git").args(["rev-parse", "HEAD"]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_a_plain_number() {
        assert_eq!(parse_epoch("0").unwrap(), 0);
        assert_eq!(parse_epoch("1755820800").unwrap(), 1_755_820_800);
        for wrong in ["+1", "-1", "1.5", "tomorrow", " 1", "4354819200", "99999999999999999999"] {
            assert!(parse_epoch(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }
}
