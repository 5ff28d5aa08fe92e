//! `rocwheel compat run_pytorch_tests`, `run_pytorch_tests_full`, `run_pytorch_smoke_tests` and
//! `create_skip_tests`: TheRock's flags, done by `rocwheel test`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rocwheel_suite::lists::therock_expression;

use super::translation::Translation;
use super::{given, none_if_empty};
use rocwheel_commands_test::test::suite::selection::HANGING;
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};

/// Seconds that the script gives a test.
const TIMEOUT: &str = "900";

/// Flags of both runners of suites.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the script")]
struct CommonFlags {
    /// The GPU family that is tested (AMDGPU_FAMILY)
    #[arg(long, value_name = "FAMILY")]
    amdgpu_family: Option<String>,
    /// Version of the lists, or `all` (PYTORCH_VERSION)
    #[arg(long, value_name = "VERSION")]
    pytorch_version: Option<String>,
    /// Checkout of PyTorch
    #[arg(long, value_name = "DIR", default_value = "pytorch")]
    pytorch_dir: PathBuf,
    /// TheRock's folder of lists; the script has it beside itself
    #[arg(long, value_name = "DIR", default_value = "skip_tests")]
    skip_tests: PathBuf,
    /// Run only what the lists skip
    #[arg(long, overrides_with = "no_debug")]
    debug: bool,
    /// Run what the lists do not skip, as is the default
    #[arg(long)]
    no_debug: bool,
    /// Expression of pytest, instead of the lists
    #[arg(short = 'k', value_name = "EXPRESSION")]
    expression: Option<String>,
    /// Has no effect
    #[arg(long, overrides_with = "no_cache")]
    cache: bool,
    /// Has no effect: rocwheel writes no cache of pytest's
    #[arg(long)]
    no_cache: bool,
    /// Has no effect: a worker has one GPU
    #[arg(long, value_name = "QUERY")]
    device_query: Option<DeviceQuery>,
    /// One GPU, or all of them side by side
    #[arg(long, value_name = "POLICY")]
    gpu_policy: Option<GpuPolicy>,
    /// Test although the checkout is of another commit
    #[arg(long, overrides_with = "no_allow_version_mismatch")]
    allow_version_mismatch: bool,
    /// The commit has to be that of the installed torch, as is the default
    #[arg(long)]
    no_allow_version_mismatch: bool,
    /// Options of pytest, after `--`
    #[arg(last = true, value_name = "OPTION", allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeviceQuery {
    Auto,
    Unique,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GpuPolicy {
    Auto,
    Single,
    All,
}

/// run_pytorch_tests: PyTorch's tests with the lists of known failures
///
/// With an option of PyTorch's own runner, such as `--shard` or `--include`, that one runs them, as
/// TheRock's merged script does.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    runner: RunnerFlags,
}

/// run_pytorch_tests_full: PyTorch's own runner with the lists of known failures
#[derive(Debug, Args)]
pub(super) struct FullArguments {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    runner: RunnerFlags,
}

/// Flags of PyTorch's own runner.
#[derive(Debug, PartialEq, Eq, Default, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the script")]
struct RunnerFlags {
    /// `default` or `distributed` (TEST_CONFIG)
    #[arg(long, value_name = "CONFIG")]
    test_config: Option<String>,
    /// The part that runs, from 1 (SHARD_NUMBER)
    #[arg(long, value_name = "I")]
    shard: Option<u32>,
    /// Number of parts (NUM_TEST_SHARDS)
    #[arg(long, value_name = "N")]
    num_shards: Option<u32>,
    /// Test files that run
    #[arg(long, value_name = "TEST", num_args = 1..)]
    include: Vec<String>,
    /// Test files that do not run
    #[arg(long, value_name = "TEST", num_args = 1..)]
    exclude: Vec<String>,
    /// As is the default
    #[arg(long, overrides_with = "no_exclude_jit_executor")]
    exclude_jit_executor: bool,
    /// Run the tests of the JIT executor as well
    #[arg(long)]
    no_exclude_jit_executor: bool,
    /// As is the default
    #[arg(long, overrides_with = "no_exclude_distributed")]
    exclude_distributed: bool,
    /// Run the distributed tests as well
    #[arg(long)]
    no_exclude_distributed: bool,
    /// As is the default
    #[arg(long, overrides_with = "no_exclude_quantization")]
    exclude_quantization: bool,
    /// Run the tests of quantization as well
    #[arg(long)]
    no_exclude_quantization: bool,
    /// Is refused: a run that tests nothing is no pass
    #[arg(long)]
    dry_run: bool,
}

/// run_pytorch_smoke_tests: sample computations of torch on each GPU
#[derive(Debug, Args)]
pub(super) struct SmokeArguments {
    /// The GPU family that is tested (AMDGPU_FAMILY)
    #[arg(long, value_name = "FAMILY")]
    amdgpu_family: Option<String>,
    /// Options of pytest, after `--`; only `-k EXPRESSION` has an effect
    #[arg(last = true, value_name = "OPTION", allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// create_skip_tests: the expression of pytest for TheRock's lists
#[derive(Debug, Args)]
pub(super) struct SkipArguments {
    /// GPU families, separated by commas
    #[arg(long, value_name = "LIST", default_value = "")]
    amdgpu_family: String,
    /// Linux or Windows
    #[arg(long, value_name = "SYSTEM", default_value = std::env::consts::OS)]
    platform: String,
    /// Version of the lists, or `all`
    #[arg(long, value_name = "VERSION", default_value = "")]
    pytorch_version: String,
    /// Print what runs only the skipped tests
    #[arg(long, overrides_with = "no_include_tests")]
    include_tests: bool,
    /// Print what skips them, as is the default
    #[arg(long)]
    no_include_tests: bool,
    /// TheRock's folder of lists; the script is in it
    #[arg(long, value_name = "DIR", default_value = "skip_tests")]
    skip_tests: PathBuf,
}

/// A flag of the script, or the variable that is its default.
fn or_variable(value: Option<String>, name: &str) -> Option<String> {
    given(value).or_else(|| environment::first_of(&[name]))
}

impl CommonFlags {
    /// The options of `test suite` that both runners have.
    fn add_to(&self, translation: &mut Translation) {
        translation.option("--pytorch-dir", Some(&self.pytorch_dir));
        translation.option("--amdgpu-family", or_variable(self.amdgpu_family.clone(), "AMDGPU_FAMILY"));
        match &self.expression {
            Some(expression) => translation.option("-k", Some(expression)),
            None if self.skip_tests.is_dir() => {
                translation.option("--list", Some(&self.skip_tests));
                translation.option("--list-version", or_variable(self.pytorch_version.clone(), "PYTORCH_VERSION"));
                // TheRock has lists for two or three versions at a time.
                translation.word("--allow-missing-list");
                translation.flag("--only-skipped", self.debug);
            }
            None => {
                translation.note(format!("no list is used: `{}` is no folder", self.skip_tests.display()));
                translation.flag("--only-skipped", self.debug);
            }
        }
        translation.flag("--allow-version-mismatch", self.allow_version_mismatch);
        let has_query = matches!(self.device_query, Some(DeviceQuery::Unique | DeviceQuery::All));
        translation.without_effect("--device-query", has_query, "each worker has one GPU");
        translation.without_effect("--cache", self.cache || self.no_cache, "no cache of pytest is written");
    }

    fn is_single(&self) -> bool {
        matches!(self.gpu_policy, None | Some(GpuPolicy::Auto | GpuPolicy::Single))
    }
}

impl Arguments {
    /// The command line of `rocwheel test suite`.
    pub(super) fn translated(self) -> Result<Translation> {
        if self.runner != RunnerFlags::default() {
            return FullArguments { common: self.common, runner: self.runner }.translated();
        }
        let mut translation = Translation::new("test suite");
        self.common.add_to(&mut translation);
        if self.common.is_single() {
            translation.option("--workers", Some("1"));
        }
        behind_dashes(&mut translation, self.common.rest);
        Ok(translation)
    }
}

fn behind_dashes(translation: &mut Translation, rest: Vec<String>) {
    if !rest.is_empty() {
        translation.word("--");
        translation.more(rest);
    }
}

impl FullArguments {
    /// The command line of `rocwheel test suite --as run-test`.
    pub(super) fn translated(self) -> Result<Translation> {
        let config =
            or_variable(self.runner.test_config.clone(), "TEST_CONFIG").unwrap_or_else(|| "default".to_owned());
        if config == "inductor" {
            return Err(Usage::new("`--test-config inductor` is two runs with other options")
                .hint("run `rocwheel test suite --as run-test --pytorch-dir DIR test_modules test_ops -- --inductor`, then the files in `inductor/` without it")
                .into());
        }
        if self.runner.dry_run {
            return Err(Usage::new("`--dry-run` would test nothing")
                .hint("`python test/run_test.py --dry-run` in the checkout lists its files")
                .into());
        }
        let shard = (number(self.runner.shard, "SHARD_NUMBER"), number(self.runner.num_shards, "NUM_TEST_SHARDS"));
        let mut translation = Translation::new("test suite --as run-test");
        let includes = if self.runner.include.is_empty() {
            environment::first_of(&["TESTS_TO_INCLUDE"])
                .map(|text| text.split_whitespace().map(str::to_owned).collect())
        } else {
            Some(self.runner.include.clone())
        };
        for name in includes.unwrap_or_default() {
            translation.word(name);
        }
        self.common.add_to(&mut translation);
        translation.option("--timeout", Some(TIMEOUT));
        match shard {
            (Some(index), Some(count)) => translation.option("--shard", Some(format!("{index}/{count}"))),
            (None, None) => {}
            _ => return Err(Usage::new("`--shard` and `--num-shards` belong together").into()),
        }
        let is_distributed = config == "distributed";
        let flags = [
            ("--exclude-jit-executor", !self.runner.no_exclude_jit_executor),
            ("--exclude-distributed-tests", !self.runner.no_exclude_distributed && !is_distributed),
            ("--distributed-tests", is_distributed),
            ("--exclude-quantization-tests", !self.runner.no_exclude_quantization),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
        let mut rest: Vec<String> = flags.map(|(name, _)| name.to_owned()).collect();
        let excluded =
            HANGING.iter().filter(|name| has_file(&self.common.pytorch_dir, name)).map(|name| (*name).to_owned());
        let excluded: Vec<String> = excluded.chain(self.runner.exclude.iter().cloned()).collect();
        if !excluded.is_empty() {
            rest.push("--exclude".to_owned());
            rest.extend(excluded);
        }
        rest.extend(self.common.rest);
        behind_dashes(&mut translation, rest);
        Ok(translation)
    }
}

/// The option, or else the variable `name`; 0 is none.
fn number(value: Option<u32>, name: &str) -> Option<u32> {
    value.or_else(|| environment::first_of(&[name])?.parse().ok()).filter(|number| *number > 0)
}

fn has_file(checkout: &Path, module: &str) -> bool {
    checkout.join("test").join(format!("{module}.py")).is_file()
}

impl SmokeArguments {
    /// The command line of `rocwheel test smoke`.
    pub(super) fn translated(self) -> Translation {
        let mut translation = Translation::new("test smoke torch");
        translation.option("--amdgpu-family", or_variable(self.amdgpu_family, "AMDGPU_FAMILY"));
        let (names, rest) = names_and_rest(self.rest);
        translation.option("-k", names);
        let why = "the computations do not need pytest";
        translation.without_effect(&rest.join(" "), !rest.is_empty(), why);
        translation
    }
}

/// The expression of `-k` in options of pytest, and the other options.
fn names_and_rest(options: Vec<String>) -> (Option<String>, Vec<String>) {
    let (mut names, mut rest) = (None, Vec::new());
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        match option.strip_prefix("-k") {
            Some("") => names = options.next(),
            Some(joined) => names = Some(joined.trim_start_matches('=').to_owned()),
            None => rest.push(option),
        }
    }
    (names, rest)
}

impl SkipArguments {
    /// The expression.
    pub(super) fn lines(self) -> Result<Vec<String>> {
        let families = self.amdgpu_family.split(',').map(str::trim).filter(|family| !family.is_empty());
        let mut filters: Vec<String> = ["common"].into_iter().chain(families).map(str::to_owned).collect();
        filters.extend(none_if_empty(self.platform.to_lowercase()));
        let version = none_if_empty(self.pytorch_version);
        let expression = therock_expression(&self.skip_tests, &filters, version.as_deref(), self.include_tests)?;
        let folder = self.skip_tests.display();
        Ok(vec![expression.ok_or_else(|| Usage::new(format!("the lists in `{folder}` skip nothing here")))?])
    }
}
